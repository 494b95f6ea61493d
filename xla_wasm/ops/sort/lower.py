"""sort as a kernel: by digits where the comparator has a key (see `radix`), else short runs in vectors, then merges
from both ends.

Both keep the order of equal elements. Where a sort need not, and somebody could tell, `introsort` orders them as
XLA:CPU does.

Rows are copied into memory of the kernel's own as runs of 5 to 8 elements, sorted by compare-exchanges of neighbours,
four runs side by side in lanes. Every pass then merges runs of `width` in pairs, from one memory into another, and the
two change places. A pair's first `width` results are taken from the front and its last ones from the back, in one loop:
no cursor can pass the end of its run before its last step, so nothing is tested and nothing branches, and the two
chains of loads and comparisons overlap.

The number of runs is a power of two. Elements beyond the end of a row fill it up; no order is asked of them: an element
of a right run that lies there never goes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...hlo.ir import Instruction
from ...loop.affine import Affine, Index
from ...loop.ir import Val
from ...loop.nest import nest, scalar_nest
from ...lowering.kernel_writer import KernelWriter
from .lower_introsort import Introsort
from .lower_order import Element, Memory, Order, Reader, Writer
from .lower_radix import SHORTEST, Radix, key_of
from .lower_topk import topk_kernel

_RUN = 8
"""The longest run that compare-exchanges make."""


def sort_kernel(k: KernelWriter, x: Instruction) -> None:
    """Sorts the rows along one dimension, all operands alike."""
    (dim,) = x.attrs["dimensions"]
    dims = x.operands[0].shape.dimensions
    length, others = dims[dim], (*dims[:dim], *dims[dim + 1 :])

    def along(row: Index, position: Affine) -> Index:
        return (*row[:dim], position, *row[dim:])

    def read(row: Index, position: Affine) -> Element:
        return [k.e.value(o, along(row, position)) for o in x.operands]

    def write(row: Index, position: Affine, element: Element) -> None:
        for leaf, value in enumerate(element):
            k.store(x, along(row, position), value, leaf)

    order = Order(k.b, k.e, x.called[0])
    if length <= _RUN:

        def whole(row: Index) -> None:
            elements = [read(row, Affine(i)) for i in range(length)]
            for i, element in enumerate(
                order.exchanged(elements) if x.attrs["is_stable"] else order.inserted(elements)
            ):
                write(row, Affine(i), element)

        nest(k.b, others, whole)
        return
    method = _method(k, order, x, length)

    def row(index: Index) -> None:
        method.sort(lambda position: read(index, position), lambda position, element: write(index, position, element))

    scalar_nest(k.b, others, row)


def _method(k: KernelWriter, order: Order, x: Instruction, length: int) -> Radix | Introsort | _Merge:
    """Returns the way in which the rows of one sort are sorted."""
    dtypes = [o.shape.element_type for o in x.operands]
    key = key_of(x.called[0])
    free = x.attrs["is_stable"] or (key is not None and key.identifies(dtypes))
    if key is not None and length >= SHORTEST:
        return Radix(k, key, dtypes, length, None if free else order)
    return _Merge(k, order, dtypes, length) if free else Introsort(k, order, dtypes, length)


class _Merge:
    """The rows of one sort while they are merged: two memories per operand."""

    def __init__(self, k: KernelWriter, order: Order, dtypes: Sequence[str], length: int):
        self.b, self.order, self.length = k.b, order, length
        self.turns = (length - 1).bit_length() - (_RUN.bit_length() - 1)
        self.width = -(-length >> self.turns)
        self.size = self.width << self.turns
        self.here, self.there = (Memory.of(k, dtypes, self.size) for _ in range(2))

    def sort(self, read: Reader, write: Writer) -> None:
        """One row: its elements come from `read`, and go to `write` in order."""
        self.runs(read)
        self.passes(write)

    def runs(self, read: Reader) -> None:
        """Fills `here` with sorted runs."""
        whole, rest = divmod(self.length, self.width)

        def run(start: Affine, count: int) -> None:
            for i, element in enumerate(self.order.exchanged([read(start + i) for i in range(count)])):
                self.here.store(start + i, [*map(self.b.pin, element)])

        self.b.vectorized(whole, lambda i: run(i * self.width, self.width))
        if rest:
            run(Affine(whole * self.width), rest)

    def passes(self, write: Writer) -> None:
        """Merges the runs until there is one, and gives its elements to `write`."""
        b = self.b
        with b.open_loop(self.turns) as turn:
            width = b.carry(turn, b.const("s32", self.width))
            (sources, here), (targets, there) = self.here.carried(turn), self.there.carried(turn)
            met = self.from_both_ends(width.value, sources, targets)
            with b.when(b.not_(met)):
                self.from_the_front(width.value, sources, targets)
            width.next = b.shl(width.value, 1)
            for old, new in zip((*here, *there), (*targets.addresses, *sources.addresses)):
                old.next = new
        result = Memory(b, self.here.dtypes, [c.result for c in here])
        b.vectorized(self.length, lambda i: write(i, result.load(i)))

    def move(self, sources: Memory, source: Val, targets: Memory, target: Val) -> None:
        targets.store(Affine.of(target), sources.load(Affine.of(self.b.pin(source))))

    def goes_first(self, right: Element, left: Element, position: Val) -> Val:
        """Returns a condition that is true if an element of a right run, which lies at `position`, goes before one of
        its left run."""
        first = self.order.less(right, left)
        return (
            first
            if self.size == self.length
            else self.b.and_(first, self.b.lt(position, self.b.const("s32", self.length)))
        )

    def from_both_ends(self, width: Val, sources: Memory, targets: Memory) -> Val:
        """One pass over all pairs of runs; whether what was taken from the front and from the back made up each pair.

        It does with any strict weak order. Others, such as `<` with NaNs, may ask for one element twice.
        """
        b = self.b
        one, zero = b.const("s32", 1), b.const("s32", 0)
        before, twice = b.sub(width, one), b.shl(width, 1)
        last = b.sub(twice, one)
        with b.open_loop(self.size // 2) as loop:
            # Where the next result goes, and what it may be: from the front, then from the back.
            starts = (zero, zero, width, last, before, last)
            front, left, right, back, last_left, last_right = carries = [b.carry(loop, v) for v in starts]
            met = b.carry(loop, b.const("pred", True))
            p, q = sources.load(Affine.of(left.value)), sources.load(Affine.of(right.value))
            forward = b.pin(self.goes_first(q, p, right.value))
            r, s = sources.load(Affine.of(last_left.value)), sources.load(Affine.of(last_right.value))
            backward = b.pin(self.goes_first(s, r, last_right.value))
            # What is taken is loaded again: a choice of places is one of integers, which engines make without a branch.
            self.move(sources, b.select(forward, right.value, left.value), targets, front.value)
            self.move(sources, b.select(backward, last_left.value, last_right.value), targets, back.value)
            moved, moved_back = (b.select(m, one, zero) for m in (forward, backward))
            next_left = b.add(left.value, b.sub(one, moved))
            next_last_left = b.sub(last_left.value, moved_back)
            next_front, next_back = b.add(front.value, one), b.sub(back.value, one)
            done = b.pin(b.eq(next_front, back.value))
            met.next = b.and_(met.value, b.or_(b.not_(done), b.eq(next_left, b.add(next_last_left, one))))
            # The next pair starts where the last one ends.
            pair = b.add(back.value, width)
            far = b.add(pair, last)
            restarts = (pair, pair, b.add(pair, width), far, b.add(pair, before), far)
            follows = (
                next_front,
                next_left,
                b.add(right.value, moved),
                next_back,
                next_last_left,
                b.sub(last_right.value, b.sub(one, moved_back)),
            )
            for carry, restart, follow in zip(carries, restarts, follows):
                carry.next = b.select(done, restart, follow)
        return met.result

    def from_the_front(self, width: Val, sources: Memory, targets: Memory) -> None:
        """One pass that tests for the ends of runs: every element is taken once, whatever the comparator says."""
        b = self.b
        one, zero = b.const("s32", 1), b.const("s32", 0)
        length = b.const("s32", self.length)
        with b.open_loop(self.size) as loop:
            starts = (zero, zero, width, width, b.shl(width, 1))
            front, left, right, middle, end = carries = [b.carry(loop, v) for v in starts]
            p, q = sources.load(Affine.of(left.value)), sources.load(Affine.of(right.value))
            more = b.lt(right.value, b.min(end.value, length))
            none = b.eq(left.value, middle.value)
            forward = b.pin(b.or_(none, b.and_(more, self.order.less(q, p))))
            self.move(sources, b.select(forward, right.value, left.value), targets, front.value)
            moved = b.select(forward, one, zero)
            next_front = b.add(front.value, one)
            done = b.pin(b.eq(next_front, end.value))
            pair = end.value
            follows = (
                next_front,
                b.add(left.value, b.sub(one, moved)),
                b.add(right.value, moved),
                middle.value,
                end.value,
            )
            restarts = (pair, pair, b.add(pair, width), b.add(pair, width), b.add(pair, b.shl(width, 1)))
            for carry, restart, follow in zip(carries, restarts, follows):
                carry.next = b.select(done, restart, follow)


KERNELS = {"sort": sort_kernel, "topk": topk_kernel}
