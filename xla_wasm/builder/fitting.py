"""Operands that are broadcast to fit each other, and windows that fit arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import VerifyError, counted
from ..hlo.attrs import Window, WindowDimension
from ..hlo.infer import brief, dilated, flags
from ..hlo.ir import Instruction
from ..hlo.shape import Shape

Ints = Sequence[int]
Padding = str | Sequence[tuple[int, int]]
"""The padding of a window: SAME, VALID, or (low, high) for each dimension."""


def array(b: Any, what: str, x: Instruction) -> Shape:
    """The shape of an operand, which must be an array of the builder."""
    b._check(what, [x])
    if not x.shape.is_array:
        raise VerifyError(f"{what}: operand '{x.name}' must be an array, not {brief(x.shape)}")
    return x.shape


def bounded(element_type: str, sizes: Ints, dynamic: Sequence[bool]) -> Shape:
    """An array of these sizes, of which some may be dynamic."""
    return Shape(element_type, (*sizes,), None, (*dynamic,) if any(dynamic) else ())


def matched(b: Any, what: str, pair: Sequence[Instruction], broadcast_dimensions: Ints) -> list[Instruction]:
    """Both operands, broadcast to one shape: a scalar to any, a dimension of size 1 to any size, a lower rank by the
    dimensions of the higher one that its own become."""
    shapes = [array(b, what, x) for x in pair]
    small, large = sorted(shapes, key=lambda shape: shape.rank)
    both, given, whole = " and ".join(map(brief, shapes)), tuple(broadcast_dimensions), tuple(range(large.rank))
    dims = given if small.rank < large.rank else whole
    if given and given != dims:
        raise VerifyError(f"{what}: broadcast_dimensions {given} of operands of equal rank: {both}")
    if len(dims) != small.rank:
        needs = f"needs broadcast_dimensions, one for each dimension of {brief(small)}"
        raise VerifyError(f"{what}: {both} differ in rank, which {f'cannot use {given}' if given else needs}")
    if any(not 0 <= d < large.rank for d in dims) or any(p >= q for p, q in zip(dims, dims[1:])):
        raise VerifyError(f"{what}: broadcast_dimensions {given} are not increasing dimensions of {brief(large)}")
    sizes = list(large.dimensions)
    for d, size in zip(dims, small.dimensions):
        if size != sizes[d] and 1 not in (size, sizes[d]):
            raise VerifyError(f"{what}: the operands' sizes differ: {both} in dimension {d} of the result")
        sizes[d] = size if sizes[d] == 1 else sizes[d]
    return [stretched(b, x, sizes, whole if x.shape.rank == large.rank else dims) for x in pair]


def stretched(b: Any, x: Instruction, sizes: Ints, dims: Ints) -> Instruction:
    """`x` broadcast to `sizes`, its dimension i becoming `dims[i]`; a dimension of size 1 there grows."""
    shape, dynamic = x.shape, flags(x.shape)
    if shape.dimensions == (*sizes,) and [*dims] == [*range(len(sizes))]:
        return x
    kept = [i for i, d in enumerate(dims) if shape.dimensions[i] == sizes[d]]
    if len(kept) < shape.rank:
        part = bounded(shape.element_type, [shape.dimensions[i] for i in kept], [dynamic[i] for i in kept])
        x = b.op("reshape", x, shape=part)
    there = {dims[i]: dynamic[i] for i in kept}
    target = bounded(shape.element_type, sizes, [there.get(d, False) for d in range(len(sizes))])
    return b.op("broadcast", x, shape=target, dimensions=[dims[i] for i in kept])


def window(what: str, base: Ints, padding: Padding, sizes: Ints, *more: Sequence[Any] | None) -> Window:
    """The window over `base`. `more` are strides, base dilations, window dilations and reversals; what is None or not
    given is 1 (False) everywhere."""
    given = (*more, None, None, None, None)
    parts: list[Sequence[Any]] = [sizes, *(part or (1,) * len(base) for part in given[:3])]
    parts += [given[3] or (False,) * len(base), *([] if isinstance(padding, str) else [padding])]
    for name, part in zip(("window size", "stride", "base dilation", "window dilation", "reversal", "padding"), parts):
        if len(part) != len(base):
            raise VerifyError(f"{what}: {counted(len(part), name)} for {counted(len(base), 'dimension')}")
        if name not in ("reversal", "padding") and any(value < 1 for value in part):
            raise VerifyError(f"{what}: {name}s must be positive, not {(*part,)}")
    if isinstance(padding, str):
        extents = zip(base, *parts)
        parts.append([_pads(what, padding, dilated(n, db), dilated(w, dw), s) for n, w, s, db, dw, _ in extents])
    places = zip(*parts)
    return Window(tuple(WindowDimension(w, s, low, high, dw, db, bool(f)) for w, s, db, dw, f, (low, high) in places))


def _pads(what: str, padding: str, base: int, window: int, stride: int) -> tuple[int, int]:
    """(low, high) by name: SAME makes as many places as strides fit into the base, VALID adds nothing."""
    if padding.upper() not in ("SAME", "VALID"):
        raise VerifyError(f"{what}: padding must be SAME, VALID or pairs, not {padding!r}")
    total = max((-(-base // stride) - 1) * stride + window - base, 0) if padding.upper() == "SAME" else 0
    return total // 2, total - total // 2
