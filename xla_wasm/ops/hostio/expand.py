"""Infeed, outfeed, send and recv as requests: of the host, or as exchanges with other devices.

They happen in the order in which instructions are listed, which tokens have brought about. A send happens where it
starts, a receipt where it is done.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...hlo.ir import Instruction
from ...hlo.marks import Devices, Request
from ...hlo.shape import Shape
from ...writing.writer import Rule, Writer
from ..collective.expand_exchange import Route, exchange
from ..collective.expand_groups import device, looked_up, number, own_device
from ..collective.groups import marked_devices, mode
from .transfers import host_name, is_between_devices, pairs

TARGET = "xla_wasm.host"

_NOTHING = Shape.tuple(())


def _ask(
    e: Writer, kind: str, shape: Shape, operands: list[Instruction], shown: Shape, target: str = ""
) -> Instruction:
    """A request of the host; `shown` is the data as the host has it."""
    leaves = tuple(leaf for _, leaf in shown.leaves())
    given, wanted = (leaves, ()) if operands else ((), leaves)
    request = Request(kind, target, operands=given, results=wanted)
    made = e.op("custom-call", *operands, shape=shape, custom_call_target=TARGET, custom_call_has_side_effect=True)
    made.mark(request=request)
    made.name = e.x.name  # by which errors of the host call it
    return made


def _is_empty(shape: Shape) -> bool:
    return next(shape.leaves(), None) is None


def _infeed(e: Writer, x: Instruction) -> Instruction:
    data = x.shape.tuple_shapes[0]
    if _is_empty(data):
        return e.tuple([e.tuple(()), e.tuple(())])
    return _ask(e, "infeed", x.shape, [], data)


def _outfeed(e: Writer, x: Instruction) -> Instruction:
    data = x.operands[0]
    shown = x.attrs.get("outfeed_shape") or data.shape
    return e.tuple(()) if _is_empty(data.shape) else _ask(e, "outfeed", _NOTHING, [data], shown)


def _host_send(e: Writer, x: Instruction) -> Instruction:
    if is_between_devices(x):
        return x
    data = x.operands[0]
    if not _is_empty(data.shape):
        _ask(e, "send", _NOTHING, [data], x.shape.tuple_shapes[0], host_name(x))
    return e.tuple([data, e.scalar("u32", 0), e.tuple(())])


def _host_recv_done(e: Writer, x: Instruction) -> Instruction:
    if is_between_devices(x):
        return x
    data = x.shape.tuple_shapes[0]
    return e.tuple([e.tuple(()), e.tuple(())]) if _is_empty(data) else _ask(e, "recv", x.shape, [], data, host_name(x))


def _recv(e: Writer, x: Instruction) -> Instruction:
    """Nothing has come yet."""
    return e.tuple([e.zeros(x.shape.tuple_shapes[0]), e.scalar("u32", 0), e.tuple(())])


def _send_done(e: Writer, x: Instruction) -> Instruction:
    return e.tuple(())


# --- between devices ------------------------------------------------------------------------------------------------


def _send(e: Writer, x: Instruction) -> Instruction:
    data = x.operands[0]
    arrays = _arrays(e, data)
    if arrays:
        exchange(e, Route(_partners(e, x, 0), _nobody(e), buffered=True), arrays, [])
    return e.tuple([data, e.scalar("u32", 0), e.tuple(())])


def _recv_done(e: Writer, x: Instruction) -> Instruction:
    data = x.shape.tuple_shapes[0].without_layout()
    rows = [Shape(s.element_type, (1, *s.dimensions)) for _, s in data.leaves()]
    came: list[Instruction] = []
    if rows:
        # A device to which nobody sends gets zeros.
        initial = [e.full(s.element_type, s.dimensions, 0) for s in rows]
        came = exchange(e, Route(_nobody(e), _partners(e, x, 1), buffered=True), [], rows, initial)
    return e.tuple([_nested(e, data, iter(came)), e.tuple(())])


def _nobody(e: Writer) -> Instruction:
    return e.constant("s32", [])


def _partners(e: Writer, x: Instruction, end: int) -> Instruction:
    """s32[1]: the device that this one sends to, if it is at this end of a pair, or (`end` 1) receives from; else
    -1."""
    listed = pairs(x)
    if listed is None:
        return _other(e, marked_devices(x))
    rows: list[tuple[int, ...]] = [()] * (max((pair[end] for pair in listed), default=-1) + 1)
    for pair in listed:
        rows[pair[end]] = (pair[1 - end],)
    kind = mode(x)
    return device(e, kind, looked_up(e, kind, rows, 1))


def _other(e: Writer, devices: Devices) -> Instruction:
    """The other one of two devices, or the only one."""
    if devices.total == 1:
        return e.constant("s32", [0])
    me = own_device(e)
    other = e.sub(e.scalar("s32", 1), me)
    if devices.total != 2:
        count = e.mul(number(e, "replica-count"), number(e, "partition-count"))
        other = e.select(e.compare("EQ", count, 2), other, me)
    return e.reshape(other, (1,))


def _arrays(e: Writer, x: Instruction) -> list[Instruction]:
    """The leaves of a value."""
    return [leaf for element in e.elements(x) for leaf in _arrays(e, element)] if x.shape.is_tuple else [x]


def _nested(e: Writer, shape: Shape, rows: Iterator[Instruction]) -> Instruction:
    """The value of a shape whose leaves are the only rows of arrays."""
    if shape.is_tuple:
        return e.tuple([_nested(e, s, rows) for s in shape.tuple_shapes])
    return e.reshape(next(rows), shape.dimensions)


HOST: dict[str, Rule] = {
    "infeed": _infeed,
    "outfeed": _outfeed,
    "send": _host_send,
    "send-done": _send_done,
    "recv-done": _host_recv_done,
}
"""opcode -> rule, applied while layouts and dynamic dimensions are still there, which hosts see; tokens are empty
tuples by then."""

EXPAND: dict[str, Rule] = {"send": _send, "recv": _recv, "recv-done": _recv_done}
"""opcode -> rule for what is left of them, in the course of all other expansions."""
