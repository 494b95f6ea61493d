"""The exchange with the host and with other devices: StableHLO lists what HLO gathers in tuples, and waits at once."""

from __future__ import annotations

from typing import Any

from ...errors import ParseError
from ...hlo.ir import Instruction
from ...hlo.shape import Layout, Shape
from ...mlir.tree import Op
from ...mlir.values import flag, integer, integers, where, word
from ..stablehlo import Mapper, Rule


def _config(op: Op, name: str) -> bytes:
    return word(op.attributes.get(name, "")).encode("utf-8", "surrogateescape")


def _infeed(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    shapes = _data_shapes(e, op)
    layouts = op.attributes.get("layout", ())
    if layouts:
        shapes = [shape.with_layout(Layout(integers(layout))) for shape, layout in zip(shapes, layouts, strict=True)]
    shape = Shape.tuple([Shape.tuple(shapes), Shape("token")])
    made = e.op("infeed", operands[0], shape=shape, infeed_config=_config(op, "infeed_config"))
    data, token = e.elements(made)
    return [*e.elements(data), token]


def _data_shapes(e: Mapper, op: Op) -> list[Shape]:
    """Returns the shapes of all results but the last. Raises ParseError unless that is a token."""
    if not op.results or op.results[-1].type != "token":
        raise ParseError(f"{where(op)}: its last result must be a token")
    shapes = [e.declared(value.type) for value in op.results[:-1]]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        e.need_shape(op)
    return known


def _outfeed(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    *data, token = operands
    sent = e.tuple(data)
    return [e.op("outfeed", sent, token, outfeed_shape=sent.shape, outfeed_config=_config(op, "outfeed_config"))]


def _transfer(op: Op) -> dict[str, Any]:
    channel = integer(op.attributes.get("channel_id", 0))
    return {"channel_id": channel if channel > 0 else None, "is_host_transfer": flag(op.attributes, "is_host_transfer")}


def _send(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    *data, token = operands
    sent = data[0] if len(data) == 1 else e.tuple(data)
    return [e.op("send-done", e.op("send", sent, token, **_transfer(op)), **_transfer(op))]


def _recv(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    shapes = _data_shapes(e, op)
    data_shape = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    started = e.op("recv", operands[0], shape=Shape.tuple([data_shape, Shape("u32"), Shape("token")]), **_transfer(op))
    data, token = e.elements(e.op("recv-done", started, **_transfer(op)))
    return [*([data] if len(shapes) == 1 else e.elements(data)), token]


STABLEHLO: dict[str, Rule] = {
    "stablehlo.infeed": _infeed,
    "stablehlo.outfeed": _outfeed,
    "stablehlo.send": _send,
    "stablehlo.recv": _recv,
}
