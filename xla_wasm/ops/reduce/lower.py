"""Reductions: an accumulator carried through loops, in vectors where the reducer's order does not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...hlo.ir import Computation, Instruction
from ...loop.affine import Affine, Index
from ...loop.builder import Builder, is_float, limits
from ...loop.ir import Val
from ...loop.nest import fold

if TYPE_CHECKING:
    from ..elemental import Elemental

_UNROLL = 4
"""Accumulators side by side, so that additions need not wait for each other."""


def monoid(computation: Computation) -> str | None:
    """The opcode of a reducer that is one commutative, associative operation on its two parameters, or None."""
    root = computation.root
    if root.opcode in ("add", "multiply", "maximum", "minimum", "and", "or", "xor") and len(computation.parameters) == 2:
        if {o.opcode for o in root.operands} == {"parameter"} and root.operands[0] is not root.operands[1]:
            return root.opcode
    return None


def identity(b: Builder, opcode: str, dtype: str) -> Val:
    """The value that leaves every other as it is under a monoid."""
    if dtype == "pred":
        return b.const(dtype, opcode in ("multiply", "minimum", "and"))
    if opcode == "add" and is_float(dtype):
        return b.const(dtype, -0.0)
    if opcode in ("add", "or", "xor"):
        return b.const(dtype, 0)
    if opcode == "multiply":
        return b.const(dtype, 1)
    if opcode == "and":
        return b.const(dtype, -1)
    if is_float(dtype):
        return b.const(dtype, float("-inf") if opcode == "maximum" else float("inf"))
    low, high = limits(dtype)
    return b.const(dtype, low if opcode == "maximum" else high)


def _reduce(e: Elemental, x: Instruction, index: Index) -> Val | list[Val]:
    count = len(x.operands) // 2
    operands, reducer = x.operands[:count], x.called[0]
    dims = x.attrs["dimensions"]
    shape = operands[0].shape.dimensions
    inits = [e.value(i, ()) for i in x.operands[count:]]
    sizes = tuple(shape[d] for d in dims)

    def at(inner: Index) -> Index:
        kept = iter(index)
        reduced = dict(zip(dims, inner))
        return tuple(reduced[d] if d in reduced else next(kept) for d in range(len(shape)))

    b = e.b
    opcode = monoid(reducer)
    if count == 1 and opcode and b.vector is None and b.lanes > 1 and sizes and 0 not in sizes and sizes[-1] >= b.lanes:
        result = _along_lanes(b, opcode, x, sizes, lambda inner: e.value(operands[0], at(inner)), lambda p, q: e.apply(reducer, [p, q])[0])
        return e.apply(reducer, [inits[0], result])[0]
    lanes = b.lanes if b.vector is not None and any(i.coefficient(b.vector) for i in index) else 1
    results = fold(b, sizes, inits, lanes, lambda inner, acc: e.apply(reducer, acc + [e.value(o, at(inner)) for o in operands]))
    return results if x.shape.is_tuple else results[0]


def _along_lanes(
    b: Builder, opcode: str, x: Instruction, sizes: tuple[int, ...], element: Callable[[Index], Val], combine: Callable[[Val, Val], Val]
) -> Val:
    """Reduces along the lanes of vectors: `_UNROLL` vector accumulators and a scalar one for what is left over."""
    dtype = x.shape.element_type
    neutral = identity(b, opcode, dtype)
    lanes, last = b.lanes, sizes[-1]
    unroll = _UNROLL if last >= 2 * _UNROLL * lanes else 1
    wide = last // (lanes * unroll)
    whole = last // lanes
    rest = last - whole * lanes

    def row(index: Index, acc: list[Val]) -> list[Val]:
        vectors, scalar = acc[:unroll], acc[unroll:]
        if wide:
            loop = b.open_loop(wide, lanes * unroll, vector=True)
            carries = [b.carry(loop, v, lanes) for v in vectors]
            for u, carry in enumerate(carries):
                carry.next = b.pin(b.splat(combine(carry.value, element((*index, Affine(u * lanes, ((loop, 1),))))), lanes))
            b.close_loop(loop)
            vectors = [c.result for c in carries if c.result is not None]
        left = whole - wide * unroll
        if left:
            loop = b.open_loop(left, lanes, vector=True)
            carry = b.carry(loop, vectors[0], lanes)
            carry.next = b.splat(combine(carry.value, element((*index, Affine(wide * unroll * lanes, ((loop, 1),))))), lanes)
            b.close_loop(loop)
            assert carry.result is not None
            vectors[0] = carry.result
        if rest:
            scalar = fold(b, (rest,), scalar, 1, lambda i, a: [combine(a[0], element((*index, i[0] + whole * lanes)))])
        return vectors + scalar

    start = [b.splat(neutral, lanes)] * unroll + [neutral] * bool(rest)
    acc = _fold_mixed(b, sizes[:-1], start, row)
    vectors, scalar = acc[:unroll], acc[unroll:]
    while len(vectors) > 1:
        vectors = [combine(p, q) for p, q in zip(vectors[::2], vectors[1::2])]
    total = vectors[0]
    half = lanes // 2
    while half:
        total = combine(total, b.shuffle(total, total, tuple((k + half) % lanes for k in range(lanes))))
        half //= 2
    result = b.lane(total, 0)
    return combine(scalar[0], result) if rest else result


def _fold_mixed(b: Builder, dims: tuple[int, ...], inits: list[Val], body: Callable[[Index, list[Val]], list[Val]]) -> list[Val]:
    """As `nest.fold`, each value keeping its own lanes."""

    def level(d: int, index: Index, values: list[Val]) -> list[Val]:
        if d == len(dims):
            return body(index, values)
        if dims[d] == 1:
            return level(d + 1, (*index, Affine()), values)
        loop = b.open_loop(dims[d])
        carries = [b.carry(loop, v, v.lanes) for v in values]
        for carry, new in zip(carries, level(d + 1, (*index, Affine(0, ((loop, 1),))), [c.value for c in carries])):
            carry.next = new
        b.close_loop(loop)
        return [c.result for c in carries if c.result is not None]

    return level(0, (), inits)


def _map(e: Elemental, x: Instruction, index: Index) -> Val:
    return e.apply(x.called[0], [e.value(o, index) for o in x.operands])[0]


def _get_tuple_element(e: Elemental, x: Instruction, index: Index) -> Val:
    values = e.value(x.operands[0], index)
    return values[x.attrs["index"]]


ELEMENTAL = {"reduce": _reduce, "map": _map, "get-tuple-element": _get_tuple_element}
