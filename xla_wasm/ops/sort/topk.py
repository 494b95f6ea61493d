"""topk for a small k: one walk over each row that keeps the best so far in order.

Long rows are sampled first: among the best of every 64th element nearly all others fall short, in whatever order they come, so that few
are ever put into their place.
"""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ...loop.affine import Affine, Index
from ...loop.builder import Builder, is_float
from ...loop.ir import Val
from ...loop.nest import fold, nest, scalar_nest
from ..kernel import Kernel
from .first import STRIDE, is_sampled

_BLOCK = 16
"""Elements that are compared with the worst of the best at once."""


def key_type(dtype: str) -> str:
    """An integer type that orders like the total order of `dtype`."""
    return f"s{TYPES[dtype].bits}" if is_float(dtype) else "u8" if dtype == "pred" else dtype


def key(b: Builder, value: Val) -> Val:
    """A float's bits, from sign and magnitude to two's complement; any other value as it is."""
    return b.convert(value, key_type(value.dtype)) if not is_float(value.dtype) else _turned(b, b.bitcast(value, key_type(value.dtype)))


def unkey(b: Builder, word: Val, dtype: str) -> Val:
    """The value that has this key."""
    return b.convert(word, dtype) if not is_float(dtype) else b.bitcast(_turned(b, word), dtype)


def _turned(b: Builder, word: Val) -> Val:
    bits = TYPES[word.dtype].bits
    return b.xor(word, b.and_(b.shr_s(word, bits - 1), b.bits(word.dtype, (1 << (bits - 1)) - 1)))


def topk_kernel(k: Kernel, x: Instruction) -> None:
    """Keeps the `k` best keys of a row and their places in order; an element that goes before the last one is put in its place."""
    b, (operand,), count = k.b, x.operands, x.attrs["k"]
    *rows, length = operand.shape.dimensions
    dtype = operand.shape.element_type
    ordered = key_type(dtype)
    blocks = -(-length // _BLOCK)
    keys = k.scratch(ordered, (blocks * _BLOCK,))
    best = k.scratch(ordered, (count,))
    places = k.scratch("s32", (count,))
    beats = b.gt if x.attrs["largest"] else b.lt
    stride = STRIDE if is_sampled(count, length) else 1
    whole = b.const("s32", count)

    def before(mine: Val, place: Val, other: Val, its: Val) -> Val:
        """Whether an element goes before another one: a better one, or the earlier of equals."""
        return b.or_(beats(mine, other), b.and_(b.eq(mine, other), b.lt(place, its)))

    def insert(position: Val, filled: Val) -> None:
        """Puts an element among the first `filled` of the best; what it displaces goes one further."""
        spot = Affine(0, (), ((position, 1),))
        new = [b.load(keys.number, spot, ordered), position, b.const("pred", False)]

        def step(inner: Index, carried: list[Val]) -> list[Val]:
            (i,) = inner
            old = [b.load(s.number, i, s.dtype) for s in (best, places)]
            # What is displaced goes before all that follows.
            first = b.pin(b.or_(carried[2], b.or_(before(*carried[:2], *old), b.ge(b.index_value(i), filled))))
            for s, mine, other in zip((best, places), carried, old):
                b.store(s.number, i, b.select(first, mine, other), s.dtype)
            return [*(b.select(first, other, mine) for mine, other in zip(carried, old)), first]

        fold(b, (count,), new, 1, step)

    def last() -> tuple[Val, Val]:
        """The worst of the best, and its place."""
        return b.load(best.number, Affine(count - 1), ordered), b.load(places.number, Affine(count - 1), "s32")

    def consider(position: Val, inside: Val) -> None:
        """Puts an element in its place, if it has one and is `inside`."""
        found = b.load(keys.number, Affine(0, (), ((position, 1),)), ordered)
        with b.when(b.and_(inside, before(found, position, *last()))):
            insert(position, whole)

    def walk_blocks() -> None:
        """All elements but those of the sample, or but the first ones if there is none."""
        loop = b.open_loop(blocks, _BLOCK)
        start = Affine(0, ((loop, 1),))
        worst, place = last()
        # Equals of the worst count where it does not stand before them.
        equals = b.gt(place, b.index_value(start))
        pointer = b.pointer(keys.number)
        loaded = [b.load_lanes(pointer, start + at, ordered) for at in range(0, _BLOCK, b.lanes)]
        some = _any(b, [beats(lanes, worst) for lanes in loaded])
        if stride > 1:
            some = b.or_(some, b.and_(equals, _any(b, [b.eq(lanes, worst) for lanes in loaded])))
        with b.when(some), b.loop(_BLOCK) as i:
            position = b.index_value(start + i)
            new = b.ne(b.and_(position, b.const("s32", stride - 1)), b.const("s32", 0)) if stride > 1 else b.ge(position, whole)
            consider(position, b.and_(new, b.lt(position, b.const("s32", length))))
        b.close_loop(loop)

    def row(index: Index) -> None:
        nest(b, (length,), lambda i: b.store(keys.number, i[0], key(b, k.e.value(operand, (*index, *i))), ordered))
        with b.loop(count) as i:
            insert(b.index_value(i * stride), b.index_value(i))
        if stride > 1:
            with b.loop(-(-length // stride) - count) as i:
                consider(b.index_value((i + count) * stride), b.const("pred", True))
        walk_blocks()
        with b.loop(count) as i:
            k.store(x, (*index, i), unkey(b, b.load(best.number, i, ordered), dtype), 0)
            k.store(x, (*index, i), b.load(places.number, i, "s32"), 1)

    scalar_nest(b, tuple(rows), row)


def _any(b: Builder, masks: list[Val]) -> Val:
    """Whether any lane of any mask is set."""
    while len(masks) > 1:
        masks = [b.or_(p, q) for p, q in zip(masks[::2], masks[1::2])]
    some = b.lane(masks[0], 0)
    for lane in range(1, b.lanes):
        some = b.or_(some, b.lane(masks[0], lane))
    return some
