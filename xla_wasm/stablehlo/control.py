"""Loops, branches and manual computations: their regions see the values around them, which HLO's computations take as
operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ParseError
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Shape
from ..hlo.shardy import IN_SHARDINGS, MANUAL_AXES, OUT_SHARDINGS
from ..mlir.text_of import attribute_text
from ..mlir.tree import Block, Op, Value
from ..mlir.values import integer, symbol, text, where
from .body import Body
from .rules import plan_of

_CONDITION, _BODY = 0, 1
"""The regions of a loop."""


def captures(body: Body, op: Op, regions: Sequence[int]) -> list[Value]:
    """The values from around an operation that these of its regions use, but constants, in the order in which they are
    used."""
    used: dict[Value, None] = {}
    for region in regions:
        for block in op.regions[region]:
            _collect(block, used, set())
    return [value for value in used if not body.constant_from_outside(value)]


def _collect(block: Block, used: dict[Value, None], known: set[Value]) -> None:
    known = known | set(block.arguments)
    for op in block.ops:
        for value in op.operands:
            if value not in known:
                used.setdefault(value)
        for region in op.regions:
            for inner in region:
                _collect(inner, used, known)
        known.update(op.results)


def _inside(
    body: Body, op: Op, region: int, names: Sequence[Value], shapes: Sequence[Shape], values: list[Value]
) -> Computation:
    """The computation of a region on its arguments (`names`) and captured values, which it takes as one: a tuple if
    they are not one."""
    program = body.program
    block, inner = program.block_of(op, region), Body(program, body)
    program.enter(op.name)
    inner.x.metadata = body.x.metadata
    single = len(shapes) == 1
    parameter = inner.op("parameter", shape=shapes[0] if single else Shape.tuple(tuple(shapes)), parameter_number=0)
    parts = [parameter] if single else inner.elements(parameter)
    inner.values.update(zip((*names, *values), parts, strict=True))
    if program.open_sizes:  # what is captured stays what it is
        inner.folder.known.update({inner.values[value]: body.ranges(body.value(value)) for value in values})
    roots = inner.block(block)
    if op.name == "stablehlo.while" and region == _BODY:
        roots += [inner.values[value] for value in values]
    made = inner.finished(f"{op.name.rpartition('.')[2]}_{region}", roots)
    program.leave()
    program.at = op
    return made


def _while(body: Body, op: Op, operands: list[Instruction]) -> list[Instruction]:
    taken = captures(body, op, (_CONDITION, _BODY))
    state = [*operands, *(body.value(value) for value in taken)]
    shapes = [x.shape for x in state]
    condition, step = (
        _inside(body, op, i, body.program.block_of(op, i).arguments, shapes, taken) for i in (_CONDITION, _BODY)
    )
    single = len(state) == 1
    made = body.op("while", state[0] if single else body.tuple(state), called=[step, condition])
    return [made] if single else body.elements(made)[: len(operands)]


def _branches(body: Body, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """A conditional. Each branch takes what it uses from around it."""
    if body.program.block_of(op).arguments or not op.regions:
        raise ParseError(f"StableHLO: {where(op)}: branches take no arguments")
    known = body.integers(operands[0])
    if known is not None and len(known) == 1:
        return _chosen(body, op, known[0])
    given, called = [], []
    for i in range(len(op.regions)):
        taken = captures(body, op, (i,))
        values = [body.value(value) for value in taken]
        given.append(values[0] if len(values) == 1 else body.tuple(values))
        called.append(_inside(body, op, i, (), [x.shape for x in values], taken))
    made = body.op("conditional", operands[0], *given, called=called, shape=called[0].root.shape)
    return body.split(op, made)


def _chosen(body: Body, op: Op, number: int) -> list[Instruction]:
    """The one branch that is taken, where that is known: others may be for other platforms."""
    count = len(op.regions)
    if op.name == "stablehlo.if":
        number = 0 if number else 1
    block = body.program.block_of(op, number if 0 <= number < count else count - 1)
    body.program.enter(op.name)
    made = body.block(block)
    body.program.leave()
    body.program.at = op
    return made


def _composite(body: Body, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """A call of what decomposes it, or the operation itself if HLO has it."""
    name, given = text(op.attributes["name"]), op.attributes.get("composite_attributes", {})
    if plan_of(name) is not None and name.startswith("chlo."):
        return body.simple(name, op, given, operands)
    made = body.call(symbol(op.attributes["decomposition"]), operands)
    made.attrs["is_composite"] = True
    made.frontend_attributes = {
        "composite.name": name,
        "composite.version": str(integer(op.attributes.get("version", 0))),
        "composite.attributes": attribute_text(given),
    }
    return body.split(op, made)


def _manual(body: Body, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """A manual computation: its arrays are those of one device."""
    axes = attribute_text(op.attributes["manual_axes"])
    block = body.program.block_of(op)
    local = _declared(body, block.arguments)
    inputs = _crossing(
        body,
        operands,
        local,
        "xla.sdy.GlobalToLocalShape",
        {IN_SHARDINGS: attribute_text(op.attributes["in_shardings"]), MANUAL_AXES: axes},
    )
    computation = body.region(op)
    computation.name = "xla.sdy.manual_computation_body"
    called = body.op("call", *inputs, called=[computation], shape=computation.root.shape)
    called.frontend_attributes = {"inlineable": "false"}
    results = [called] if len(op.results) == 1 else body.elements(called)
    outside = _declared(body, op.results)
    return _crossing(
        body,
        results,
        outside,
        "xla.sdy.LocalToGlobalShape",
        {MANUAL_AXES: axes, OUT_SHARDINGS: attribute_text(op.attributes["out_shardings"])},
    )


def _declared(body: Body, values: Sequence[Value]) -> list[Shape]:
    shapes = [body.declared(value.type) for value in values]
    return [shape for shape in shapes if shape is not None]


def _crossing(
    body: Body, values: list[Instruction], shapes: list[Shape], target: str, marks: dict[str, str]
) -> list[Instruction]:
    """Arrays as one device sees them, or as all do."""
    if not values:
        return []
    shape = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    made = body.op("custom-call", *values, shape=shape, custom_call_target=target, custom_call_has_side_effect=True)
    made.frontend_attributes = dict(marks)
    return [made] if len(shapes) == 1 else body.elements(made)


def _async_start(body: Body, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """Does here and now what starts asynchronously: nothing tells the difference. Its results are one value until they
    are asked for."""
    block = body.program.block_of(op)
    body.values.update(zip(block.arguments, operands, strict=True))
    body.program.enter(op.name)
    roots = body.block(block)
    body.program.leave()
    body.program.at = op
    return [body.tuple(roots)]


def _async_done(body: Body, _: Op, operands: list[Instruction]) -> list[Instruction]:
    return body.elements(operands[0])


Control = Callable[[Any, Op, list[Instruction]], list[Instruction]]

CONTROL: dict[str, Control] = {
    "stablehlo.while": _while,
    "stablehlo.if": _branches,
    "stablehlo.case": _branches,
    "stablehlo.composite": _composite,
    "stablehlo.async_start": _async_start,
    "stablehlo.async_done": _async_done,
    "sdy.manual_computation": _manual,
}
"""Operations whose regions or functions are more than computations on scalars."""
