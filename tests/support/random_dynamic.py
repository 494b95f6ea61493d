"""Random pieces of programs with dynamic dimensions, and loops that count in every way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tests.support.random_values import FLOATS, INTEGERS, Program, Skip, Value, exact, is_rounded
from xla_wasm.builder import Builder, scalar_computation
from xla_wasm.hlo.attrs import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingDimension,
    SliceDimension,
    Window,
    WindowDimension,
)
from xla_wasm.hlo.ir import Instruction
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES

# --- dynamic dimensions -----------------------------------------------------------------------------------------------


def _size(p: Program, bound: int) -> Instruction:
    """A size up to the bound, known or computed."""
    scalars = [w.x for w in p.values if w.dtype == "s32" and not w.dims]
    if scalars and p.draw.chance(2):
        return p.b.op("clamp", p.b.constant(0, "s32"), p.draw.pick(scalars), p.b.constant(bound, "s32"))
    return p.b.constant(p.draw.integer(0, bound), "s32")


def _declared(p: Program, flags: Sequence[bool], opcode: str, *operands: Instruction, **attrs: Any) -> Instruction:
    """An operation whose result does not tell by itself which dimensions are dynamic."""
    plain = p.b.op(opcode, *operands, **attrs)
    p.b.instructions.pop()
    flags = tuple(flags) if any(flags) else ()
    return p.b.op(
        opcode, *operands, shape=Shape(plain.shape.element_type, plain.shape.dimensions, None, flags), **attrs
    )


def _flags(x: Instruction) -> tuple[bool, ...]:
    return x.shape.dynamic or (False,) * x.shape.rank


def _elementwise(p: Program, x: Instruction) -> Instruction:
    way = p.draw.integer(0, 2)
    if way == 0:
        return p.b.op("negate", x)
    y = p.b.op("reverse", x, dimensions=(p.draw.integer(0, x.shape.rank - 1),))
    return p.b.op("subtract", x, y) if way == 1 else p.b.op("select", p.b.compare(x, y, "LT"), x, y)


def _transposed(p: Program, x: Instruction) -> Instruction:
    return p.b.op("transpose", x, dimensions=p.draw.permutation(x.shape.rank))


def _reversed(p: Program, x: Instruction) -> Instruction:
    return p.b.op("reverse", x, dimensions=p.draw.subset(range(x.shape.rank)))


def _sliced(p: Program, x: Instruction) -> Instruction:
    bounds = []
    for size in x.shape.dimensions:
        start = p.draw.integer(0, min(2, size))
        bounds.append(
            SliceDimension(start, p.draw.integer(start, size) if p.draw.chance(3) else size, p.draw.pick((1, 1, 2)))
        )
    return _declared(p, _flags(x), "slice", x, slice=tuple(bounds))


def _padded(p: Program, x: Instruction) -> Instruction:
    padding = tuple(
        PaddingDimension(*(p.draw.pick((0, 1, -1)) for _ in range(2)), p.draw.pick((0, 0, 1)))
        for _ in x.shape.dimensions
    )
    if any(size < 2 for size in x.shape.dimensions):
        raise Skip
    return _declared(p, _flags(x), "pad", x, p.scalar(x.shape.element_type).x, padding=padding)


def _joined(p: Program, x: Instruction) -> Instruction:
    d = p.draw.integer(0, x.shape.rank - 1)
    return p.b.op("concatenate", x, p.b.op("reverse", x, dimensions=(d,)), dimensions=(d,))


def _summed(p: Program, x: Instruction) -> Instruction:
    """One dimension less, or repeated along it."""
    if x.shape.rank < 2:
        raise Skip
    d = p.draw.integer(0, x.shape.rank - 1)
    return p.b.reduce(x, p.draw.integer(0, 1), p.draw.pick(("add", "maximum", "minimum")), (d,))


def _sorted(p: Program, x: Instruction) -> Instruction:
    f = Builder("less")
    f.compare(*(f.parameter(i, Shape(x.shape.element_type)) for i in range(2)), "LT")
    return p.b.op("sort", x, called=[f.build()], dimensions=(p.draw.integer(0, x.shape.rank - 1),))


def _windowed(p: Program, x: Instruction) -> Instruction:
    window = Window(
        tuple(
            WindowDimension(p.draw.pick((1, 2)), p.draw.pick((1, 2)), p.draw.pick((0, 1)), 0)
            for _ in x.shape.dimensions
        )
    )
    if any(size < 2 for size in x.shape.dimensions):
        raise Skip
    called = [scalar_computation(p.draw.pick(("add", "maximum")), x.shape.element_type)]
    return _declared(
        p, _flags(x), "reduce-window", x, p.b.constant(0, x.shape.element_type), called=called, window=window
    )


def _multiplied(p: Program, x: Instruction) -> Instruction:
    if x.shape.rank != 2:
        raise Skip
    c = p.draw.integer(0, 1)
    return _declared(p, [_flags(x)[1 - c]] * 2, "dot", x, x, dot_dimension_numbers=DotDimensionNumbers((c,), (c,)))


def _taken(p: Program, x: Instruction) -> Instruction:
    """Rows at places, all of which are there: an index beyond the actual size is clamped to the bound."""
    sizes = x.shape.dimensions
    if not sizes[0] or _flags(x)[0]:
        raise Skip
    at = p.literal((p.draw.pick((1, 3, 4)),), "s32").x
    numbers = GatherDimensionNumbers(tuple(range(1, len(sizes))), (0,), (0,), 1)
    return _declared(
        p, (False, *_flags(x)[1:]), "gather", x, at, gather_dimension_numbers=numbers, slice_sizes=(1, *sizes[1:])
    )


def _cut_again(p: Program, x: Instruction) -> Instruction:
    d = p.draw.integer(0, x.shape.rank - 1)
    actual = p.b.get_dimension_size(x, dimensions=(d,))
    return p.b.op("set-dimension-size", x, p.b.op("divide", actual, p.b.constant(2, "s32")), dimensions=(d,))


def _flat(p: Program, x: Instruction) -> Instruction:
    if not any(_flags(x)):
        raise Skip
    return p.b.op("reshape", x, shape=Shape(x.shape.element_type, (prod(x.shape.dimensions),), None, (True,)))


STEPS: tuple[Callable[[Program, Instruction], Instruction], ...] = (
    *(
        _elementwise,
        _elementwise,
        _transposed,
        _reversed,
        _sliced,
        _padded,
        _joined,
        _summed,
        _summed,
        _sorted,
        _windowed,
    ),
    *(_multiplied, _taken, _cut_again, _flat),
)


def dynamic(p: Program) -> None:
    """Dimensions made dynamic, a few operations, and what they leave: its size, its sum, and the array itself as a
    result."""
    v = p.any((*(t for t in FLOATS if exact(t) > 1000), *INTEGERS[:8]), rank=1)
    x = v.x
    if is_rounded(v.dtype):
        x = p.b.op("clamp", p.b.constant(-3, v.dtype), x, p.b.constant(3, v.dtype))
    for d in range(len(v.dims)):
        if d == 0 or p.draw.chance(2):
            x = p.b.op("set-dimension-size", x, _size(p, v.dims[d]), dimensions=(d,))
    for _ in range(p.draw.integer(0, 4)):
        y = p.draw.pick(STEPS)(p, x)
        if prod(y.shape.dimensions) > 2 * p.most_elements or not y.shape.rank:
            break
        x = y
    total = p.b.reduce(x, 0, "add" if not is_rounded(v.dtype) else "maximum", range(x.shape.rank))
    p.values.append(Value(total, exact(v.dtype)))
    for d in range(x.shape.rank):
        p.values.append(Value(p.b.get_dimension_size(x, dimensions=(d,)), 0))
    p.results.append(x)


# --- loops that count -------------------------------------------------------------------------------------------------

HOLDS: dict[str, Callable[[int, int], bool]] = {
    "LT": int.__lt__,
    "LE": int.__le__,
    "GT": int.__gt__,
    "GE": int.__ge__,
    "NE": int.__ne__,
    "EQ": int.__eq__,
}


def _wrapped(number: int, dtype: str) -> int:
    bits = TYPES[dtype].bits
    number &= (1 << bits) - 1
    return number - (1 << bits) if TYPES[dtype].kind == "signed" and number >> (bits - 1) else number


def counted(p: Program) -> None:
    """A loop with a counter that goes up or down, perhaps around the end of its type, and something that each trip adds
    to."""
    dtype = p.draw.pick(INTEGERS)
    direction = p.draw.pick(tuple(HOLDS))
    start, step, bound = (_wrapped(p.draw.integer(-9, 9), dtype) for _ in range(3))
    if p.draw.chance(3):
        bound = _wrapped(-bound if TYPES[dtype].kind == "unsigned" else (1 << (TYPES[dtype].bits - 1)) - bound, dtype)
        start = _wrapped(bound - p.draw.integer(-9, 9), dtype)
    trips, at = 0, start
    while HOLDS[direction](at, bound):
        trips, at = trips + 1, _wrapped(at + step, dtype)
        if trips > 20:
            raise Skip
    only = p.draw.chance(3)
    v = p.any((*(t for t in FLOATS if exact(t) > 100), *INTEGERS))
    bounded = v.bound + 10 * (trips + 1)
    if is_rounded(v.dtype) and bounded > exact(v.dtype):
        raise Skip
    state = p.b.op("tuple", p.b.constant(start, dtype), v.x, p.b.constant(0, "s32"))
    f, g = Builder("body"), Builder("condition")
    s = f.parameter(0, state.shape)
    i, x, total = (f.get_tuple_element(s, k) for k in range(3))
    one = -1 if v.dtype == "s1" else 1
    added = x if only else f.op("add", x, f.full(one, x.shape.without_layout()))
    subtracted = step and p.draw.chance(2) and _wrapped(-step, dtype)
    following = (
        f.op("subtract", i, f.constant(subtracted, dtype)) if subtracted else f.op("add", i, f.constant(step, dtype))
    )
    f.op("tuple", following, added, f.op("add", total, f.constant(3, "s32") if only else f.convert(i, "s32")))
    i, bounding = g.get_tuple_element(g.parameter(0, state.shape), 0), g.constant(bound, dtype)
    mirrored = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, direction)
    if p.draw.chance(3):
        g.compare(bounding, i, mirrored)
    else:
        g.compare(i, bounding, direction)
    loop = p.b.while_(state, g.build(), f.build())
    p.keep(p.b.get_tuple_element(loop, 0), 0)
    p.keep(p.b.get_tuple_element(loop, 1), bounded)
    p.keep(p.b.get_tuple_element(loop, 2), 0)
