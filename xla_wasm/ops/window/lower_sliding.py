"""reduce-window by an associative operation along one dimension, over long windows: in steps of doubling length.

With a[i] the reduction of the 2^k elements from i on, a[i] and a[i + 2^k] give that of twice as many: so a window of w
elements costs about log2(w) operations, not w.
"""

from __future__ import annotations

from math import prod

from ...dataclass import dataclass
from ...hlo.ir import Instruction
from ...loop.affine import Index
from ...loop.ir import Val
from ...loop.nest import nest, scalar_nest
from ...lowering.kernel_writer import KernelWriter
from ...lowering.source import Source
from ..reduce.monoids import IDEMPOTENT, monoid

_LEAST = 12
"""Shorter windows are reduced one by one."""


@dataclass(frozen=True, slots=True)
class Sliding:
    """The one dimension along which windows are larger than 1."""

    dim: int
    size: int
    stride: int
    opcode: str


def sliding(x: Instruction) -> Sliding | None:
    """Returns the sliding reduction that a reduce-window without padding is, if the steps are fewer than the windows'
    elements."""
    opcode = monoid(x.called[0]) if len(x.operands) == 2 and x.shape.is_array else None
    window = x.attrs["window"].dimensions
    long = [d for d, w in enumerate(window) if w.size > 1]
    plain = all(w.window_dilation == w.base_dilation == 1 and not (w.padding_low or w.padding_high) for w in window)
    if opcode is None or len(long) != 1 or not plain or any(w.size == 1 and w.stride > 1 for w in window):
        return None
    w = window[long[0]]
    steps = w.size.bit_length() * (1 if opcode in IDEMPOTENT else 2)
    return Sliding(long[0], w.size, w.stride, opcode) if w.size >= _LEAST and w.size > 2 * steps * w.stride else None


def sliding_kernel(k: KernelWriter, x: Instruction, s: Sliding) -> None:
    """Each line along the dimension in memory of its own; where elements that lie side by side are enough, lines side
    by side."""
    b, e = k.b, k.e
    operand, init = x.operands
    dims, dtype = operand.shape.dimensions, x.shape.element_type
    length, results = dims[s.dim], x.shape.dimensions[s.dim]
    outer, inner = dims[: s.dim], dims[s.dim + 1 :]
    beside = inner if prod(inner) >= b.lanes else ()
    alone = () if beside else inner
    start = e.value(init, ())
    part = k.scratch(dtype, (length, *beside))
    total = part if s.opcode in IDEMPOTENT else k.scratch(dtype, (length, *beside))

    def combine(p: Val, q: Val) -> Val:
        return e.apply(x.called[0], [p, q])[0]

    def line(place: Index) -> None:
        before, after = place[: len(outer)], place[len(outer) :]

        def load(source: Source, index: Index, shift: int) -> Val:
            return b.load(source.number, source.position((index[0] + shift, *index[1:])), dtype)

        def put(target: Source, index: Index, value: Val) -> None:
            b.store(target.number, target.position(index), value, dtype)

        def whole(index: Index) -> Index:
            return (*before, *index, *after)

        def joined(target: Source, count: int, shift: int) -> None:
            """The first `count` reductions of `target`, each with that of the elements from `shift` further on."""
            nest(b, (count, *beside), lambda i: put(target, i, combine(load(target, i, 0), load(part, i, shift))))

        nest(b, (length, *beside), lambda i: put(part, i, e.value(operand, whole(i))))
        places = length - s.size + 1
        reach, covered = 1, 0
        while True:
            if total is not part and s.size & reach:
                # The windows' first elements, as many as the bits of their size so far say.
                if covered:
                    joined(total, places, covered)
                else:
                    nest(b, (places, *beside), lambda i: put(total, i, load(part, i, 0)))
                covered += reach
            if 2 * reach > s.size:
                break
            joined(part, length - 2 * reach + 1, reach)
            reach *= 2

        def result(index: Index) -> None:
            i = (index[0] * s.stride, *index[1:])
            value = load(total, i, 0)
            if total is part and reach < s.size:
                value = combine(value, load(part, i, s.size - reach))
            k.store(x, whole(index), combine(start, value))

        nest(b, (results, *beside), result)

    scalar_nest(b, (*outer, *alone), line)
