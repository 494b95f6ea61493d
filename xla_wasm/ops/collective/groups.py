"""The devices that take part in a collective together, as the module names them.

A device is a replica and a partition. The numbers of both, and of the device's own, are known when the program runs
(`expand_groups.py`); the module may fix the numbers of replicas and partitions before (`hlo.marks.Devices`).
"""

from __future__ import annotations

from ...dataclass import replace
from ...errors import UnsupportedError, VerifyError, counted
from ...hlo.ir import Instruction, Module
from ...hlo.marks import Devices
from ..hostio.transfers import by_partition, is_between_devices, pairs

MOST = 64
"""Devices that a program can run on whose number is not fixed: lists of devices have this size then."""

MOST_FIXED = 1024
"""The same where the module fixes the number: there are instructions for each device, and a table with a row for
each."""

NOBODY = (1 << 31) - 1
"""A device that there never is: a host ends a run whose exchange names it."""

_BY_CHANNEL = (
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-permute-start",
    "collective-broadcast",
)
"""With a channel these have partitions in their groups; the others replicas, each with all its partitions."""

COUNTS = ("replica-id", "partition-id", "replica-count", "partition-count")
"""The numbers that tell a program its device, in the order of the configuration block. The last two opcodes exist in
expansions only."""

FIRST_DEVICE = (0, 0, 1, 1)
"""The same of the only device, which a program is for unless the host says otherwise."""


def mode(x: Instruction) -> str:
    """Returns the mode of the groups of `x`, in XLA's terms: they have numbers of replicas, partitions or devices."""
    if is_between_devices(x):
        return "cross_partition" if by_partition(x) else "cross_replica"
    if x.attrs.get("channel_id") is None:
        return "cross_replica"
    if x.opcode in _BY_CHANNEL:
        return "cross_partition"
    return "flattened_id" if x.attrs.get("use_global_device_ids") else "cross_replica_and_partition"


def listed(x: Instruction) -> tuple[tuple[int, ...], ...]:
    """The groups that are written down; none stands for one group of all."""
    if is_between_devices(x):
        return pairs(x) or ()
    if "source_target_pairs" in x.attrs:
        return tuple(tuple(pair) for pair in x.attrs["source_target_pairs"])
    return x.attrs["replica_groups"].expanded() if "replica_groups" in x.attrs else ()


def devices_of(module: Module, replicas: int | None, partitions: int | None) -> Devices | None:
    """The devices of a verified module, with the numbers that the options fix; None if they make no difference to
    it."""
    found = [x for x in module.instructions() if depends(x)]
    if module.replica_count * module.num_partitions > 1:
        replicas, partitions = replicas or module.replica_count, partitions or module.num_partitions
    if not found:
        return None
    modes = {mode(x) for x in found if x.opcode not in ("replica-id", "partition-id")}
    opcodes = {x.opcode for x in found}
    by_partition = bool(modes & {"cross_partition", "flattened_id"}) or "partition-id" in opcodes
    by_replica = "cross_replica" in modes or "replica-id" in opcodes
    made = Devices(replicas, partitions, axis="partitions" if by_partition and not by_replica else "replicas")
    # Groups that list all, and a group of all whose size shows in a shape, say how many they are.
    if replicas is None:
        made = replace(made, replicas=_all_of(found, _OF_REPLICAS))
    if partitions is None:
        made = replace(made, partitions=_all_of(found, ("cross_partition",)))
    for x in found:
        made = _bounded(made, x)
        check_count(x.where, max(made.least, (made.replicas or 1) * (made.partitions or 1)))
    return replace(made, least=max(made.least, (made.replicas or 1) * (made.partitions or 1)))


def check_count(where: str, devices: int) -> None:
    """Refuses a number of devices for which tables and instructions would be too many."""
    if devices > MOST_FIXED:
        raise UnsupportedError(
            f"{where}: it is for {devices} devices; programs that are divided among devices run on at most {MOST_FIXED}"
        )


def marked_devices(x: Instruction) -> Devices:
    """The devices that an instruction which depends on them is marked with."""
    assert x.marks.devices is not None, x.where
    return x.marks.devices


def depends(x: Instruction) -> bool:
    """Returns True if what an instruction does depends on the devices."""
    if x.opcode in ("send", "recv"):
        return not x.attrs["is_host_transfer"]
    return x.opcode in ("replica-id", "partition-id") or "replica_groups" in x.attrs or "source_target_pairs" in x.attrs


_OF_REPLICAS = ("cross_replica", "cross_replica_and_partition")


def _lists_all(x: Instruction) -> bool:
    """Returns True if the groups that are written down name every replica, partition or device, as XLA has it."""
    return "replica_groups" in x.attrs and x.opcode != "collective-broadcast" and bool(listed(x))


def _all_of(found: list[Instruction], kinds: tuple[str, ...]) -> int | None:
    """Returns the number of replicas or partitions, as the collectives of these modes have it."""
    counts: dict[int, Instruction] = {}
    for x in found:
        if mode(x) in kinds and _lists_all(x):
            counts.setdefault(sum(map(len, listed(x))), x)
        elif mode(x) == kinds[0] and not listed(x) and (size := stated_size(x)) is not None:
            counts.setdefault(size, x)
    if len(counts) > 1:
        (one, x), (other, y), *_ = counts.items()
        what = kinds[0].removeprefix("cross_")
        raise VerifyError(f"{x.where} is one of {one} {what}s, {y.where} of {other}")
    return next(iter(counts), None)


def stated_size(x: Instruction) -> int | None:
    """The size of the groups as the shapes of `x` have it."""
    if x.opcode in ("all-gather", "reduce-scatter", "all-gather-start"):
        (dim,) = x.attrs["dimensions"]
        whole = x.shape.tuple_shapes[1] if x.opcode == "all-gather-start" else x.shape
        first = whole.tuple_shapes[0] if whole.is_tuple else whole
        before, after = x.operands[0].shape.dimensions[dim], first.dimensions[dim]
        small, large = (after, before) if x.opcode == "reduce-scatter" else (before, after)
        return large // small if small else None
    if x.opcode == "all-to-all" and not x.attrs["dimensions"]:
        return len(x.operands)
    return (
        x.operands[2].shape.dimensions[0] if x.opcode == "ragged-all-to-all" and x.operands[2].shape.rank == 2 else None
    )


def _bounded(made: Devices, x: Instruction) -> Devices:
    """With the bounds that the numbers in the groups of `x` set."""
    numbers = [i for group in listed(x) for i in group]
    if is_between_devices(x) and pairs(x) is None:
        # To the other one.
        return replace(made, most=min(made.most or 2, 2))
    if x.opcode in ("replica-id", "partition-id"):
        return made
    kind, top = mode(x), max(numbers, default=-1) + 1
    fixed = {"cross_partition": made.partitions, "flattened_id": made.total}.get(kind, made.replicas)
    if fixed is not None and (top > fixed or (top < fixed and _lists_all(x))):
        what = {"cross_partition": "partition", "flattened_id": "device"}.get(kind, "replica")
        fault = f"name {what} {top - 1}" if top > fixed else f"leave out {what} {top}"
        raise VerifyError(f"{x.where}: its groups {fault}, but there are {fixed} {what}s")
    others = {"cross_partition": made.replicas, "flattened_id": 1}.get(kind, made.partitions) or 1
    made = replace(made, least=max(made.least, top * others))
    if kind == "flattened_id":
        made = replace(made, most=min(made.most or top, top))
    elif kind == "cross_replica_and_partition":
        made = _with_size(made, x)
    open_size = (not numbers and fixed is None) or (kind == "cross_replica_and_partition" and made.partitions is None)
    return replace(made, most=min(made.most or MOST, MOST)) if open_size else made


def _with_size(made: Devices, x: Instruction) -> Devices:
    """With what the size of groups of replicas with all their partitions, as the shapes of `x` state it, says about
    these."""
    size, groups = stated_size(x), listed(x)
    replicas = len(groups[0]) if groups else made.replicas
    if size is None:
        return made
    if replicas is None or made.partitions is not None:
        total = size if replicas is None else replicas * (made.partitions or 1)
        if total != size:
            raise VerifyError(
                f"{x.where}: its shapes are those of groups of {counted(size, 'device')}, but its groups have {total}"
            )
        return (
            replace(made, least=max(made.least, size), most=min(made.most or size, size)) if replicas is None else made
        )
    if size % replicas:
        raise VerifyError(
            f"{x.where}: its shapes are those of groups of {counted(size, 'device')}, which "
            f"{counted(replicas, 'replica')} cannot make up"
        )
    return replace(made, partitions=size // replicas)
