"""topk for a k that is small beside the row: two walks, and the order of the few elements that the second one keeps.

The elements of a row belong to groups, those of one group a row of groups apart. The first walk takes the best of each
group; the k-th best of these is a bound, since k elements are as good. The second walk collects what is not worse than
the bound, in the order of places. That is little more than k elements wherever the best ones are spread over the
groups: in any order but one made for it, sorted rows included. Whenever twice as many have come together, the k best of
them stay and give the bound for what follows.
"""

from __future__ import annotations

from functools import reduce

from ...hlo.ir import Instruction
from ...hlo.types import TYPES, limits
from ...loop.affine import ZERO, Affine, Index
from ...loop.arithmetic import in_pairs
from ...loop.builder import WIDE, is_float
from ...loop.ir import Val
from ...loop.nest import fold, nest, scalar_nest
from ...lowering.kernel_writer import KernelWriter
from ..elementwise.lower import twos_complement

_AHEAD = 4
"""Rows of groups that the first walk takes at once, and vectors that are counted at once."""
_SHARE = 4
"""Groups for each of the best: the more there are, the less is collected beside the k best."""
_BLOCK = 8
"""The most vectors that are compared with the bound at once."""


def topk_kernel(k: KernelWriter, x: Instruction) -> None:
    """Writes the best of each row, best first, and their places."""
    scalar_nest(k.b, x.operands[0].shape.dimensions[:-1], _TopK(k, x).row)


def key_type(dtype: str) -> str:
    """An integer type that orders like the total order of `dtype`."""
    return f"s{TYPES[dtype].bits}" if is_float(dtype) else "u8" if dtype == "pred" else dtype


class _TopK:
    """The memory of the kernel, and the row that it is at.

    A key is an integer that orders like an element: a float's bits, from sign and magnitude to two's complement; others
    as they are.
    """

    def __init__(self, k: KernelWriter, x: Instruction):
        self.k, self.b, self.x = k, k.b, x
        (self.operand,), self.count = x.operands, x.attrs["k"]
        self.dtype, self.length = self.operand.shape.element_type, self.operand.shape.dimensions[-1]
        self.key = key_type(self.dtype)
        self.largest = x.attrs["largest"]
        b = self.b
        few = b.lanes * _AHEAD
        self.groups = min(max(-(-_SHARE * self.count // few), 2) * few, self.length // few * few)
        self.block = _BLOCK * b.lanes
        assert self.block <= self.length, "shorter rows are sorted"
        self.full = 2 * self.count
        # A power of two, so that the lowest bits of a number are a place.
        self.room = 1 << (self.full + self.block).bit_length()
        self.source = k.e.sources.get(self.operand)
        self.data = self.source or k.scratch(self.dtype, (self.length,))
        self.start = ZERO
        self.best = k.scratch(self.dtype if is_float(self.dtype) else self.key, (self.groups,))
        self.keys, self.places = (k.scratch(t, (self.room + b.lanes,)) for t in (self.key, "s32"))
        self.first, self.first_places = (k.scratch(t, (self.count,)) for t in (self.key, "s32"))
        self.bound, self.filled = (k.scratch(t, (1,)) for t in (self.key, "s32"))

    def row(self, index: Index) -> None:
        """One row from its elements to its results."""
        b = self.b
        if self.source is not None:
            self.start = self.source.position((*index, ZERO))
        else:
            nest(
                b,
                (self.length,),
                lambda i: b.store(self.data.number, i[0], self.k.e.value(self.operand, (*index, *i)), self.dtype),
            )
        self.take_the_best_of_groups()
        b.store(self.bound.number, ZERO, self.bound_of_groups(), self.key)
        self.collect()
        with b.loop(self.count) as i:
            word = b.load(self.first.number, i, self.key)
            value = (
                b.bitcast(self.turned(word, word), self.dtype) if is_float(self.dtype) else b.convert(word, self.dtype)
            )
            self.k.store(self.x, (*index, i), value, 0)
            self.k.store(self.x, (*index, i), b.load(self.first_places.number, i, "s32"), 1)

    # --- elements and keys --------------------------------------------------------------------------------------

    def vector(self, position: Affine) -> Val:
        """Elements of the row."""
        pure = self.source is not None
        return self.b.load_lanes(self.b.pointer(self.data.number), self.start + position, self.dtype, pure=pure)

    def word(self, value: Val) -> Val:
        """An element as an integer: a float's bits as they are."""
        return self.b.bitcast(value, self.key) if is_float(self.dtype) else self.b.convert(value, self.key)

    def turned(self, word: Val, sign: Val) -> Val:
        """A word in two's complement, where `sign` is that of a negative float; and back."""
        return twos_complement(self.b, word, sign) if is_float(self.dtype) else word

    def goes_first(self, p: Val, q: Val) -> Val:
        return self.b.gt(p, q) if self.largest else self.b.lt(p, q)

    def reaches(self, word: Val, bound: Val) -> Val:
        """Returns a condition that is true if an element is as good as a bound. Turning all words as the bound is
        turned gives the order around it."""
        turned = self.turned(word, bound)
        return self.b.ge(turned, bound) if self.largest else self.b.le(turned, bound)

    def better(self, p: Val, q: Val) -> Val:
        """The better of two elements of a group; either, where one is NaN or both are zeros: the bound may be too
        low."""
        b = self.b
        if is_float(self.dtype):
            return b.pmax(p, q) if self.largest else b.pmin(p, q)
        if self.dtype in WIDE:
            return b.select(self.goes_first(p, q), p, q)
        return b.max(p, q) if self.largest else b.min(p, q)

    # --- the bound ----------------------------------------------------------------------------------------------

    def take_the_best_of_groups(self) -> None:
        """The first walk: group i has the elements i, i + groups and so on, but for less than a vector at the end of
        the row."""
        b, step = self.b, self.groups
        memory = b.pointer(self.best.number)

        def element(position: Affine) -> Val:
            found = self.vector(position)
            return found if is_float(self.dtype) else self.word(found)

        def take(rows: range, start: Affine, size: int) -> None:
            """Takes some rows of groups at once."""
            with b.loop(size // b.lanes, b.lanes) as i:
                found = element(start + i + rows[0] * step)
                for r in rows[1:]:
                    found = self.better(found, element(start + i + r * step))
                if rows[0]:
                    found = self.better(found, b.load_lanes(memory, i, self.best.dtype, pure=False))
                b.store_lanes(memory, i, found, self.best.dtype)

        whole, rest = divmod(self.length, step)
        turns, left = divmod(whole - 1, _AHEAD)
        take(range(left + 1), ZERO, step)
        if turns:
            with b.loop(turns, _AHEAD * step) as i:
                take(range(left + 1, left + 1 + _AHEAD), i, step)
        if rest >= b.lanes:
            take(range(whole, whole + 1), ZERO, rest)

    def bound_of_groups(self) -> Val:
        """The key of the k-th best of the groups, bit by bit from the highest: the best that k of them reach."""
        b, step = self.b, _AHEAD * self.b.lanes
        memory = b.pointer(self.best.number)
        if is_float(self.dtype):
            with b.loop(self.groups // b.lanes, b.lanes) as i:
                word = self.word(b.load_lanes(memory, i, self.best.dtype, pure=False))
                b.store_lanes(memory, i, self.turned(word, word), self.key)
        least, most = limits(self.key)
        with b.open_loop(TYPES[self.key].bits) as bits:
            bound = b.carry(bits, b.const(self.key, least if self.largest else most))
            bit = b.carry(bits, b.const(self.key, least or (most + 1) // 2))
            trial = b.pin(b.xor(bound.value, bit.value))
            with b.open_loop(self.groups // step, step) as loop:
                count = b.carry(loop, self.number(0), b.lanes)
                count.next = count.value
                for ahead in range(_AHEAD):
                    word = b.load_lanes(memory, Affine.along(loop) + ahead * b.lanes, self.key, pure=False)
                    count.next = self.counted(count.next, b.ge(word, trial) if self.largest else b.le(word, trial))
            bound.next = b.select(b.ge(self.total(count.result), b.const("s32", self.count)), trial, bound.value)
            bit.next = b.shr_u(bit.value, 1)
        return bound.result

    def number(self, n: int) -> Val:
        """Returns a number in the type that lanes count in."""
        return self.b.const("s64" if self.b.lanes == 2 else "s32", n)

    def counted(self, count: Val, mask: Val) -> Val:
        """A count in each lane, and one more where the mask is set."""
        b = self.b
        return b.sub(count, b.word(mask)) if b.lanes == 4 else b.add(count, b.convert(mask, count.dtype))

    def total(self, count: Val) -> Val:
        """The counts of all lanes together."""
        b = self.b
        return b.convert(reduce(b.add, [b.lane(count, i) for i in range(b.lanes)]), "s32")

    # --- what reaches it ----------------------------------------------------------------------------------------

    def collect(self) -> None:
        """The second walk: keys and places of what reaches the bound, then those of the best, in order."""
        b, blocks = self.b, self.length // self.block
        head = self.length - blocks * self.block
        (count,) = fold(b, (head,), [b.const("s32", 0)], 1, lambda i, n: [self.append(i[0], n[0])])
        b.store(self.filled.number, ZERO, count, "s32")
        with b.loop(blocks, self.block) as i:
            bound = b.load(self.bound.number, ZERO, self.key)
            masks = [self.reaches(self.word(self.vector(i + (head + j))), bound) for j in range(0, self.block, b.lanes)]
            last = b.eq(b.index_value(i), b.const("s32", (blocks - 1) * self.block))
            with b.when(b.or_(b.any_true(in_pairs(masks, b.or_)), last)):
                before = b.load(self.filled.number, ZERO, "s32")
                (count,) = fold(b, (self.block,), [before], 1, lambda j, n: [self.append(i + j[0] + head, n[0])])
                b.store(self.filled.number, ZERO, count, "s32")
                with b.when(b.or_(b.ge(count, b.const("s32", self.full)), last)):
                    self.keep_best(count)

    def append(self, position: Affine, count: Val) -> Val:
        """Puts an element behind those that are there, and counts it if it reaches the bound."""
        b, end = self.b, self.place(count)
        word = self.word(
            b.load_at(b.pointer(self.data.number), self.start + position, self.dtype, pure=self.source is not None)
        )
        b.store(self.keys.number, end, self.turned(word, word), self.key)
        b.store(self.places.number, end, b.index_value(position), "s32")
        more = b.convert(self.reaches(word, b.load(self.bound.number, ZERO, self.key)), "s32")
        return b.add(count, more)

    def place(self, number: Val) -> Affine:
        """A number of an element as a place, which it is: so nobody has to ask whether it is too high."""
        return Affine.of(self.b.and_(number, self.b.const("s32", self.room - 1)))

    def keep_best(self, count: Val) -> None:
        """Of the elements that are there the best stay, in order; what comes later has to be better than all of
        them."""
        b = self.b
        keys, places = self.keys.number, self.places.number
        least, most = limits(self.key)
        worst, best = (least, most) if self.largest else (most, least)
        b.store_lanes(b.pointer(keys), self.place(count), b.splat(b.const(self.key, worst), b.lanes), self.key)
        with b.repeat() as loop:
            number = b.carry(loop, b.const("s32", 0))
            place = self.place(number.value)
            mine = b.load(keys, place, self.key)
            rank = b.pin(b.and_(self.rank(mine, number.value, count), b.const("s32", self.room - 1)))
            with b.when(b.lt(rank, b.const("s32", self.count))):
                b.store(self.first.number, Affine.of(rank), mine, self.key)
                b.store(self.first_places.number, Affine.of(rank), b.load(places, place, "s32"), "s32")
            number.next = b.add(number.value, b.const("s32", 1))
            loop.condition = b.lt(number.next, count)
        with b.loop(self.count) as i:
            for first, memory in ((self.first, keys), (self.first_places, places)):
                b.store(memory, i, b.load(first.number, i, first.dtype), first.dtype)
        b.store(self.filled.number, ZERO, b.const("s32", self.count), "s32")
        bound, limit = b.load(self.first.number, Affine(self.count - 1), self.key), b.const(self.key, best)
        further = b.add(bound, b.const(self.key, 1 if self.largest else -1))
        b.store(self.bound.number, ZERO, b.select(b.eq(bound, limit), bound, further), self.key)

    def rank(self, mine: Val, number: Val, count: Val) -> Val:
        """Returns the number of elements that go before one: better ones, and equal ones that stand before it."""
        b = self.b
        with b.repeat() as loop:
            start = b.carry(loop, b.const("s32", 0))
            found = b.carry(loop, self.number(0), b.lanes)
            others = b.load_lanes(b.pointer(self.keys.number), self.place(start.value), self.key, pure=False)
            earlier = b.lt(b.add(start.value, b.ramp()), number)
            found.next = self.counted(
                found.value, b.or_(self.goes_first(others, mine), b.and_(b.eq(others, mine), earlier))
            )
            start.next = b.add(start.value, b.const("s32", b.lanes))
            loop.condition = b.lt(start.next, count)
        return self.total(found.result)
