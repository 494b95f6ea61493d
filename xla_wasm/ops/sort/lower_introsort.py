"""The order in which XLA:CPU leaves equal elements where a sort need not be stable.

It sorts with the C++ library's `std::sort`, as GCC's library has it: ranges of more than 16 elements are split around
the median of three of them, as deep as twice the logarithm of the number of elements, and heap sort does what is left
below; insertion then moves each element the short way to its place. Which of two equal elements comes first follows
from these steps alone, so they are taken one by one here. So do results under a comparator that is no strict weak
order, such as `<` with NaNs. There, steps may ask for what lies beyond the row: that never happens here.
"""

from __future__ import annotations

from ...loop.affine import Affine
from ...loop.ir import Val
from ...lowering.kernel_writer import KernelWriter
from .lower_order import Element, Memory, Order, Reader, Writer
from .unstable import SPLIT


class Introsort:
    """One row, in place."""

    def __init__(self, k: KernelWriter, order: Order, dtypes: list[str], length: int):
        self.b, self.order, self.length = k.b, order, length
        self.memory = Memory(k.b, dtypes, Memory.of(k, dtypes, length).addresses)
        self.depth = 2 * (length.bit_length() - 1)
        # Ranges yet to be split: first, end, and how often. One is left behind at each depth.
        self.ranges = k.scratch("s32", (3 * (self.depth + 2),))

    def sort(self, read: Reader, write: Writer) -> None:
        """One row: its elements come from `read`, and go to `write` in order."""
        self.fill(read)
        self.order_memory()
        self.b.vectorized(self.length, lambda i: write(i, self.memory.load(i)))

    def fill(self, read: Reader) -> None:
        """Copies the elements."""
        self.b.vectorized(self.length, lambda i: self.memory.store(i, read(i)))

    def order_memory(self) -> None:
        """Sorts what lies in the memories."""
        if self.length > SPLIT:
            self.split()
        self.insert()

    # --- elements -----------------------------------------------------------------------------------------------

    def number(self, value: int) -> Val:
        return self.b.const("s32", value)

    def at(self, position: Val) -> Element:
        return self.memory.load(Affine.of(self.b.pin(position) if position.args else position))

    def put(self, position: Val, element: Element) -> None:
        self.memory.store(Affine.of(position), element)

    def swap(self, p: Val, q: Val) -> None:
        first, second = self.at(p), self.at(q)
        self.put(p, second)
        self.put(q, first)

    def less(self, p: Element, q: Element) -> Val:
        return self.b.pin(self.order.less(p, q))

    # --- steps --------------------------------------------------------------------------------------------------

    def split(self) -> None:
        """Splits ranges until none has more than 16 elements, or heap sort has put it in order."""
        b, one, numbers = self.b, self.number(1), self.ranges.number
        for i, start in enumerate((0, self.length, self.depth)):
            b.store(numbers, Affine(i), self.number(start), "s32")
        with b.repeat() as loop:
            count = b.carry(loop, one)
            top = b.mul(b.sub(count.value, one), self.number(3))
            first, end, depth = (b.load(numbers, Affine.of(top) + i, "s32") for i in range(3))
            long = b.pin(b.gt(b.sub(end, first), self.number(SPLIT)))
            deep = b.eq(depth, self.number(0))
            splits = b.pin(b.and_(long, b.not_(deep)))
            with b.when(b.and_(long, deep)):
                self.heap_sort(first, b.sub(end, first))
            with b.when(splits):
                cut, left = self.partition(first, end), b.sub(depth, one)
                for i, value in enumerate((cut, left, cut, end, left), 1):
                    b.store(numbers, Affine.of(top) + i, value, "s32")
            count.next = b.add(count.value, b.select(splits, one, self.number(-1)))
            loop.condition = b.gt(count.next, self.number(0))

    def partition(self, first: Val, end: Val) -> Val:
        """Puts the median of three elements first, and what may go before it before what may go after; where the latter
        begins."""
        b, one = self.b, self.number(1)
        places = [b.pin(v) for v in (b.add(first, one), b.add(first, b.shr_s(b.sub(end, first), 1)), b.sub(end, one))]
        p, q, r = (self.at(v) for v in places)
        pq, qr, pr = self.less(p, q), self.less(q, r), self.less(p, r)
        rising = b.select(qr, places[1], b.select(pr, places[2], places[0]))
        falling = b.select(pr, places[0], b.select(qr, places[2], places[1]))
        self.swap(first, b.pin(b.select(pq, rising, falling)))
        pivot = self.at(first)
        last = self.number(self.length - 1)
        with b.repeat() as outer:
            left, right, cut = b.carry(outer, places[0]), b.carry(outer, end), b.carry(outer, end)
            with b.repeat() as loop:
                low = b.carry(loop, left.value)
                before = self.less(self.at(low.value), pivot)
                loop.condition = b.pin(b.and_(before, b.lt(low.value, last)))
                low.next = b.add(low.value, b.select(loop.condition, one, self.number(0)))
            with b.repeat() as loop:
                high = b.carry(loop, right.value)
                high.next = b.pin(b.sub(high.value, one))
                loop.condition = b.and_(self.less(pivot, self.at(high.next)), b.gt(high.next, self.number(0)))
            outer.condition = b.pin(b.lt(low.result, high.result))
            with b.when(outer.condition):
                self.swap(low.result, high.result)
            left.next, right.next, cut.next = b.add(low.result, one), high.result, low.result
        return cut.result

    def heap_sort(self, first: Val, size: Val) -> None:
        """Makes a heap of `size` elements, from the last parent to the first, and then takes the greatest off it time
        and again."""
        b, zero, one = self.b, self.number(0), self.number(1)
        with b.repeat() as loop:
            # Parents count down to 0; below it, how many elements were taken off.
            step = b.carry(loop, b.shr_s(b.sub(size, self.number(2)), 1))
            making = b.pin(b.ge(step.value, zero))
            left = b.pin(b.select(making, size, b.add(size, step.value)))
            hole = b.select(making, step.value, zero)
            element = self.at(b.add(first, b.select(making, step.value, left)))
            with b.when(b.not_(making)):
                self.put(b.add(first, left), self.at(first))
            self.sift(first, b.pin(hole), left, element)
            step.next = b.sub(step.value, one)
            loop.condition = b.gt(b.add(step.value, size), one)

    def sift(self, first: Val, top: Val, size: Val, element: Element) -> None:
        """Fills the hole at `top` of a heap: the greater children move up to the last level, and `element` up from
        there."""
        b, zero, one, two = self.b, self.number(0), self.number(1), self.number(2)
        parents = b.shr_s(b.sub(size, one), 1)
        with b.repeat() as loop:
            hole = b.carry(loop, top)
            has = b.pin(b.lt(hole.value, parents))
            right = b.pin(b.select(has, b.add(b.mul(hole.value, two), two), one))
            smaller = self.less(self.at(b.add(first, right)), self.at(b.add(first, b.sub(right, one))))
            child = b.pin(b.sub(right, b.select(smaller, one, zero)))
            with b.when(has):
                self.put(b.add(first, hole.value), self.at(b.add(first, child)))
            hole.next = b.select(has, child, hole.value)
            loop.condition = has
        even = b.eq(b.and_(size, one), zero)
        lone = b.pin(b.and_(even, b.eq(hole.result, b.shr_s(b.sub(size, two), 1))))
        child = b.pin(b.add(b.mul(hole.result, two), one))
        with b.when(lone):
            self.put(b.add(first, hole.result), self.at(b.add(first, child)))
        bottom = b.pin(b.select(lone, child, hole.result))
        with b.repeat() as loop:
            hole = b.carry(loop, bottom)
            below = b.gt(hole.value, top)
            parent = b.pin(b.select(below, b.shr_s(b.sub(hole.value, one), 1), zero))
            above = self.at(b.add(first, parent))
            loop.condition = b.pin(b.and_(below, self.less(above, element)))
            with b.when(loop.condition):
                self.put(b.add(first, hole.value), above)
            hole.next = b.select(loop.condition, parent, hole.value)
        self.put(b.add(first, hole.result), element)

    def insert(self) -> None:
        """Moves each element down past those that it goes before.

        One of the first 16 that goes before the first of all is not compared with others.
        """
        b, zero, one = self.b, self.number(0), self.number(1)
        with b.loop(self.length - 1) as i:
            here = b.pin(b.index_value(i + 1))
            element = self.memory.load(i + 1)
            first = self.less(element, self.memory.load(Affine()))
            if self.length > SPLIT:
                first = b.pin(b.and_(first, b.lt(here, self.number(SPLIT))))
            with b.repeat() as loop:
                place = b.carry(loop, here)
                below = b.pin(b.sub(place.value, one))
                other = self.at(below)
                moves = b.pin(b.or_(first, self.less(element, other)))
                with b.when(moves):
                    self.put(place.value, other)
                place.next = b.select(moves, below, place.value)
                loop.condition = b.and_(moves, b.gt(below, zero))
            self.put(place.result, element)
