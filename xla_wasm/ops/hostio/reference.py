"""Infeed, outfeed, send and recv in the evaluator: lists and functions stand for the host, and queues lie between
devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import ArgumentError, RunError, counted
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...hostio import HostIO, taker
from ..collective.reference_membership import Grid
from ..dtypes import Value, accepted, dtype_of, flattened, nested
from .transfers import by_partition, host_name, pairs

NOTHING = HostIO()
"""The host that neither gives nor takes anything."""


class HostSide:
    """The host's items for one device, and places for what comes out: as for `Executable.run`."""

    def __init__(self, io: HostIO = NOTHING) -> None:
        self.infeed = io.infeed
        self.outfeed = io.outfeed
        self.send = io.send or {}
        self.recv = io.recv or {}
        self._items: dict[str | None, Iterator[Any]] = {}

    def next(self, instr: Instruction, name: str | None, shape: Shape, precise: bool) -> Value:
        """The next item of the infeed, or of the transfer of a name, as a value of the shape."""
        source = self.infeed if name is None else self.recv.get(name)
        leaves = [leaf for _, leaf in shape.leaves()]
        wanted = ", ".join(str(leaf.without_layout()) for leaf in leaves)
        if source is None:
            raise ArgumentError(
                f"{instr.where}: nothing is given to feed it, evaluate(..., {'infeed' if name is None else 'recv'}=...)"
            )
        items = self._items.setdefault(name, iter(source))
        try:
            item = next(items)
        except StopIteration:
            raise RunError(f"{instr.where}: there is no item left for it, it takes ({wanted})") from None
        arrays = list(item) if isinstance(item, (tuple, list)) else [item]
        if len(arrays) != len(leaves):
            raise ArgumentError(f"{instr.where}: an item has {counted(len(arrays), 'array')}, it takes ({wanted})")
        return nested(
            shape, iter([accepted(f"an item of {instr.where}", s, x, precise) for s, x in zip(leaves, arrays)])
        )

    def give(self, instr: Instruction, name: str | None, value: Value) -> None:
        """Hands over what the program puts out, or sends under a name."""
        sink = self.outfeed if name is None else self.send.get(name)
        if sink is None:
            raise ArgumentError(
                f"{instr.where}: nobody takes what it gives, evaluate(..., {'outfeed' if name is None else 'send'}=...)"
            )
        arrays = [array.copy() for array in flattened(value)]
        taker("outfeed" if name is None else "send", sink)(arrays[0] if len(arrays) == 1 else tuple(arrays))


def _infeed(instr: Instruction, operands: list[Value], call: Any) -> Value:
    data = instr.shape.tuple_shapes[0]
    return (call.host.next(instr, None, data, call.precise) if _counts(data) else (), None)


def _outfeed(instr: Instruction, operands: list[Value], call: Any) -> Value:
    if _counts(instr.operands[0].shape):
        call.host.give(instr, None, operands[0])


def _send(instr: Instruction, operands: list[Value], call: Any) -> Value:
    if not instr.attrs["is_host_transfer"]:
        partner = _partner(instr, call.device.grid, call.device.number, 0)
        if partner is not None:
            call.device.send(partner, _channel(instr), operands[0])
    elif _counts(instr.operands[0].shape):
        call.host.give(instr, host_name(instr), operands[0])
    return (operands[0], np.uint32(0), None)


def _recv(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return (_zeros(instr.shape.tuple_shapes[0], call.precise), np.uint32(0), None)


def _recv_done(instr: Instruction, operands: list[Value], call: Any) -> Value:
    start, data = call.starts.of(instr), instr.shape.tuple_shapes[0]
    if start.attrs["is_host_transfer"]:
        return (call.host.next(instr, host_name(start), data, call.precise) if _counts(data) else (), None)
    partner = _partner(start, call.device.grid, call.device.number, 1)
    came = _zeros(data, call.precise) if partner is None else call.device.receive(partner, _channel(start), instr)
    return (came, None)


def _done(instr: Instruction, operands: list[Value], call: Any) -> Value:
    return None


def _channel(instr: Instruction) -> tuple[str, int]:
    return ("transfer", instr.attrs["channel_id"] or 0)


def _partner(instr: Instruction, grid: Grid, own: int, end: int) -> int | None:
    """The device at the other end of the pair that this one is at an `end` of."""
    listed = pairs(instr)
    if listed is None:
        if grid.size > 2:
            raise ArgumentError(f"{instr.where}: it does not say between which of {counted(grid.size, 'device')}")
        return grid.size - 1 - own
    replica, partition = grid.place(own)
    number = partition if by_partition(instr) else replica
    for pair in listed:
        if pair[end] == number:
            other = pair[1 - end]
            return grid.device(replica, other) if by_partition(instr) else grid.device(other, partition)
    return None


def _counts(shape: Shape) -> bool:
    """Returns True if there are arrays in it: nothing passes where there are none."""
    return next(shape.leaves(), None) is not None


def _zeros(shape: Shape, precise: bool) -> Value:
    if shape.is_tuple:
        return tuple(_zeros(s, precise) for s in shape.tuple_shapes)
    flags = shape.dynamic or (False,) * shape.rank
    return np.zeros(
        [0 if flag else size for size, flag in zip(shape.dimensions, flags)], dtype_of(shape.element_type, precise)
    )


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "infeed": _infeed,
    "outfeed": _outfeed,
    "send": _send,
    "send-done": _done,
    "recv": _recv,
    "recv-done": _recv_done,
}
