"""The numbers of the devices that take part in a collective together, as the program computes them when it runs."""

from __future__ import annotations

from ...dataclass import dataclass
from ...hlo.ir import Instruction
from ...hlo.marks import Devices
from ...writing.writer import Writer
from .groups import MOST, listed, mode


@dataclass(frozen=True, slots=True)
class Group:
    """The devices of this device's group."""

    devices: Instruction
    """s32: their numbers in order, followed by -1 up to the length of the list."""
    rank: Instruction
    """s32: this device's place among them."""
    count: Instruction
    """s32: how many they are."""
    size: int | None
    """The same where it is known, and the same for every device."""

    @property
    def room(self) -> int:
        """The length of the list."""
        return self.devices.shape.dimensions[0]


def number(e: Writer, which: str) -> Instruction:
    """One of `COUNTS`, as s32."""
    return e.convert(e.op(which), "s32")


def own_device(e: Writer) -> Instruction:
    """This device's number, s32."""
    return e.add(e.mul(number(e, "replica-id"), number(e, "partition-count")), number(e, "partition-id"))


def own_number(e: Writer, kind: str) -> Instruction:
    """This device's number in the terms of a mode, s32."""
    if kind == "flattened_id":
        return own_device(e)
    return number(e, "partition-id" if kind == "cross_partition" else "replica-id")


def device(e: Writer, kind: str, numbers: Instruction) -> Instruction:
    """The devices of numbers in the terms of a mode, s32; -1 stays."""
    if kind == "flattened_id":
        return numbers
    if kind == "cross_partition":
        made = e.add(numbers, e.like(numbers, e.mul(number(e, "replica-id"), number(e, "partition-count"))))
    else:
        made = e.add(
            e.mul(numbers, e.like(numbers, number(e, "partition-count"))), e.like(numbers, number(e, "partition-id"))
        )
    return e.select(e.compare("LT", numbers, 0), numbers, made)


def looked_up(e: Writer, kind: str, rows: list[tuple[int, ...]], width: int) -> Instruction:
    """Of a table with a row for each number in the terms of a mode, this device's: s32[width], filled up with -1.

    Numbers beyond the table have an empty row.
    """
    table = [row + (-1,) * (width - len(row)) for row in (*rows, ())]
    values = e.constant("s32", [n for row in table for n in row], (len(table), width))
    row = e.dynamic_slice(values, [own_number(e, kind), e.scalar("s32", 0)], (1, width))
    return e.reshape(row, (width,))


def group_of(e: Writer, x: Instruction, devices: Devices) -> Group:
    """The group of this device for `x`."""
    kind, groups = mode(x), listed(x)
    numbers, size = _numbers(e, kind, groups, devices)
    if kind == "cross_replica_and_partition":
        members, size = _with_partitions(e, numbers, size, devices.partitions)
    else:
        members = device(e, kind, numbers)
    me = own_device(e)
    place = e.iota("s32", members.shape.dimensions)
    mine = e.compare("EQ", members, e.like(members, me))
    zero = e.scalar("s32", 0)
    rank = e.reduce(e.select(mine, place, 0), zero, (0,), "add")
    if size is not None:
        return Group(members, rank, e.scalar("s32", size), size)
    there = e.convert(e.compare("GE", members, 0), "s32")
    return Group(members, rank, e.reduce(there, zero, (0,), "add"), None)


def _numbers(
    e: Writer, kind: str, groups: tuple[tuple[int, ...], ...], devices: Devices
) -> tuple[Instruction, int | None]:
    """The numbers in this device's group, and how many they are if that is known."""
    if groups:
        width = max(map(len, groups))
        rows: list[tuple[int, ...]] = [()] * (max(i for group in groups for i in group) + 1)
        for group in groups:
            for i in group:
                rows[i] = group
        return looked_up(e, kind, rows, width), width if all(len(row) == width for row in rows) else None
    fixed = devices.partitions if kind == "cross_partition" else devices.replicas
    if fixed is not None:
        return e.iota("s32", (fixed,)), fixed
    place = e.iota("s32", (MOST,))
    count = number(e, "partition-count" if kind == "cross_partition" else "replica-count")
    return e.select(e.compare("LT", place, e.like(place, count)), place, -1), None


def _with_partitions(
    e: Writer, replicas: Instruction, size: int | None, partitions: int | None
) -> tuple[Instruction, int | None]:
    """The devices of replicas with all their partitions, and how many they are if that is known."""
    (width,) = replicas.shape.dimensions
    if partitions is not None:
        wide = e.broadcast(replicas, (width, partitions), (0,))
        made = e.add(e.mul(wide, partitions), e.iota("s32", wide.shape.dimensions, 1))
        made = e.select(e.compare("LT", wide, 0), wide, made)
        return e.reshape(made, (width * partitions,)), None if size is None else size * partitions
    count = number(e, "partition-count")
    place = e.iota("s32", (MOST,))
    row = e.div(place, e.like(place, count))
    made = e.full("s32", (MOST,), -1)
    for i in range(width):
        replica = e.broadcast(e.reshape(e.slice(replicas, (i,), (i + 1,)), ()), (MOST,))
        member = e.add(e.mul(replica, e.like(place, count)), e.binary("remainder", place, e.like(place, count)))
        inside = e.binary("and", e.compare("EQ", row, i), e.compare("GE", replica, 0))
        made = e.select(inside, member, made)
    return made, None
