"""The members of a collective: the evaluator's reading of groups, apart from the compiler's (`groups.py`), which it
judges."""

from __future__ import annotations

from collections.abc import Sequence

from ...dataclass import dataclass
from ...errors import ArgumentError, counted
from ...hlo.ir import Instruction, Module

BY_REPLICA = "cross_replica"
BY_PARTITION = "cross_partition"
BY_BOTH = "cross_replica_and_partition"
BY_DEVICE = "flattened_id"

_KINDS = {BY_REPLICA: "replica", BY_BOTH: "replica", BY_PARTITION: "partition", BY_DEVICE: "device"}

_ALL_PARTITIONS = ("all-reduce", "all-reduce-start", "all-gather", "all-gather-start", "reduce-scatter")
"""Collectives that with a channel take all partitions of the replicas in their groups, or devices if they say so; the
others take partitions."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The devices: each is one of the replicas and one of the partitions, and they are numbered replica by replica."""

    replicas: int
    partitions: int

    @property
    def size(self) -> int:
        return self.replicas * self.partitions

    def device(self, replica: int, partition: int) -> int:
        return replica * self.partitions + partition

    def place(self, device: int) -> tuple[int, int]:
        """The replica and the partition of a device."""
        return divmod(device, self.partitions)

    def name(self, device: int) -> str:
        replica, partition = self.place(device)
        return f"device {device} (replica {replica}, partition {partition})"


def mode(instr: Instruction) -> str:
    """Returns the kind of the numbers in the groups (or pairs) of a collective."""
    if instr.attrs["channel_id"] is None:
        return BY_REPLICA
    if instr.opcode not in _ALL_PARTITIONS:
        return BY_PARTITION
    return BY_DEVICE if instr.attrs["use_global_device_ids"] else BY_BOTH


def group_of(instr: Instruction, grid: Grid, device: int) -> list[int] | None:
    """The devices of the group that `device` is in, in the group's order; None if it is in none."""
    return next((group for group in _groups(instr, grid) if device in group), None)


def _groups(instr: Instruction, grid: Grid) -> list[list[int]]:
    """All groups, as numbers of devices. Only a collective-broadcast may leave some out."""
    how = mode(instr)
    limit = _limit(grid, how)
    listed = instr.attrs["replica_groups"].expanded() or (tuple(range(limit)),)
    named = [i for group in listed for i in group]
    _check(instr, how, limit, named)
    if instr.opcode != "collective-broadcast" and len(named) < limit:
        raise ArgumentError(
            f"{instr.where} has groups of {len(named)} {_KINDS[how]}s, but there are {limit}: run it on fewer devices"
        )
    if how == BY_REPLICA:
        return [[grid.device(r, p) for r in group] for group in listed for p in range(grid.partitions)]
    if how == BY_PARTITION:
        return [[grid.device(r, p) for p in group] for group in listed for r in range(grid.replicas)]
    if how == BY_BOTH:
        return [[grid.device(r, p) for r in group for p in range(grid.partitions)] for group in listed]
    return [list(group) for group in listed]


def pairs_of(instr: Instruction, grid: Grid) -> list[tuple[int, int]]:
    """The pairs (source, target) of a collective-permute, as numbers of devices."""
    how = mode(instr)
    listed = instr.attrs["source_target_pairs"]
    _check(instr, how, _limit(grid, how), [i for pair in listed for i in pair])
    if how == BY_REPLICA:
        return [(grid.device(s, p), grid.device(t, p)) for s, t in listed for p in range(grid.partitions)]
    return [(grid.device(r, s), grid.device(r, t)) for s, t in listed for r in range(grid.replicas)]


def _limit(grid: Grid, how: str) -> int:
    """Returns the count of numbers of the kind that groups hold."""
    return {BY_PARTITION: grid.partitions, BY_DEVICE: grid.size}.get(how, grid.replicas)


def _check(instr: Instruction, how: str, limit: int, numbers: Sequence[int]) -> None:
    beyond = [i for i in numbers if not 0 <= i < limit]
    if beyond:
        kind = _KINDS[how]
        there = f"there is one {kind}" if limit == 1 else f"there are {limit} {kind}s"
        raise ArgumentError(f"{instr.where} names {kind} {beyond[0]}, but {there}: run it on more devices")


def grid_for(module: Module, devices: int, replicas: int | None = None, partitions: int | None = None) -> Grid:
    """The grid of so many devices for a module: given numbers, then those of the module, then what its collectives
    suggest."""
    free = module.replica_count * module.num_partitions == 1 or not _depends_on_devices(module)
    stated = {"num_replicas": module.replica_count, "num_partitions": module.num_partitions}
    for name, count in (("num_replicas", replicas), ("num_partitions", partitions)):
        if count is not None and (count < 1 or not free and stated[name] not in (1, count)):
            raise ArgumentError(f"{name}={count} does not fit {module.name}, which states {stated[name]}")
    if replicas is None and partitions is None and free:
        replicas, partitions = (1, devices) if _is_of_partitions(module) else (devices, 1)
    elif free and partitions is None and replicas is not None:
        partitions = max(devices // replicas, 1)
    elif free and replicas is None and partitions is not None:
        replicas = max(devices // partitions, 1)
    grid = Grid(replicas or module.replica_count, partitions or module.num_partitions)
    if grid.size != devices:
        counts = f"{grid.replicas} replicas with {grid.partitions} partitions each"
        raise ArgumentError(
            f"{module.name} is to run as {counts}, on {counted(grid.size, 'device')}, but there are arguments for "
            f"{devices}"
        )
    return grid


def _collectives(module: Module) -> list[Instruction]:
    return [x for x in module.instructions() if "replica_groups" in x.attrs or "source_target_pairs" in x.attrs]


def _depends_on_devices(module: Module) -> bool:
    """Returns True if the devices make a difference to a module."""
    return bool(_collectives(module)) or any(
        x.opcode in ("replica-id", "partition-id", "send", "recv") for x in module.instructions()
    )


def _is_of_partitions(module: Module) -> bool:
    """Returns True if a module tells partitions apart, and replicas nowhere."""
    modes = {mode(x) for x in _collectives(module)}
    opcodes = {x.opcode for x in module.instructions()}
    by_partition = "partition-id" in opcodes or modes & {BY_PARTITION, BY_DEVICE}
    return bool(by_partition) and "replica-id" not in opcodes and BY_REPLICA not in modes
