"""Walks over the elements of a reduction: their places, states side by side, and sums in parts."""

from __future__ import annotations

from collections.abc import Callable

from ...dataclass import dataclass
from ...hlo.ir import Instruction
from ...loop.affine import Affine, Index
from ...loop.builder import Builder, is_float
from ...loop.ir import Val
from ...loop.nest import Step, along
from ...lowering.elemental import Elemental
from .monoids import monoid
from .neutral import neutral

_CHAIN = 64
"""Additions of floats one after another: in longer sums rounding errors would add up."""


def neutral_value(b: Builder, opcode: str, dtype: str) -> Val:
    """Returns the neutral element of a monoid as a value."""
    number = neutral(opcode, dtype)
    assert isinstance(number, (int, float))
    return b.const(dtype, number)


@dataclass(frozen=True, slots=True)
class Walk:
    """A reduction of one array, over whose elements it walks."""

    e: Elemental
    x: Instruction

    @property
    def b(self) -> Builder:
        return self.e.b

    @property
    def dtype(self) -> str:
        return self.x.shape.element_type

    @property
    def opcode(self) -> str | None:
        """The monoid by which it reduces, if it is one."""
        return monoid(self.x.called[0])

    @property
    def neutral(self) -> Val:
        """Of the monoid."""
        assert self.opcode is not None
        return neutral_value(self.b, self.opcode, self.dtype)

    @property
    def adds_floats(self) -> bool:
        """True if a long sum is made of parts."""
        return self.opcode == "add" and is_float(self.dtype)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the dimensions that are reduced."""
        return tuple(self.x.operands[0].shape.dimensions[d] for d in self.x.attrs["dimensions"])

    def combine(self, p: Val, q: Val) -> Val:
        return self.e.apply(self.x.called[0], [p, q])[0]

    def element(self, index: Index, inner: Index) -> Val:
        """The element that belongs to the result's one at `index` and is at `inner` among those."""
        return self.e.value(self.x.operands[0], operand_index(self.x, index, inner))


def operand_index(x: Instruction, index: Index, inner: Index) -> Index:
    """The index of an operand's element: of the result's element, and of the one among those that are reduced to it."""
    kept = iter(index)
    reduced = dict(zip(x.attrs["dimensions"], inner))
    return tuple(reduced[d] if d in reduced else next(kept) for d in range(x.operands[0].shape.rank))


def states(values: list[Val], count: int) -> list[list[Val]]:
    """The states of `count` walks side by side, which a loop carries one behind the other."""
    size = len(values) // count
    return [values[i : i + size] for i in range(0, len(values), size)]


def next_states(values: list[Val], count: int, step: Callable[[int, list[Val]], list[Val]]) -> list[Val]:
    """As they came, with one `step(number, state)` more."""
    return [value for number, state in enumerate(states(values, count)) for value in step(number, state)]


def across_lanes(b: Builder, state: list[Val], merge: Callable[[list[Val], list[Val]], list[Val]]) -> list[Val]:
    """The state of all lanes together."""
    half = b.lanes // 2
    while half:
        state = merge(state, [b.shuffle(v, v, tuple((k + half) % b.lanes for k in range(b.lanes))) for v in state])
        half //= 2
    return [b.lane(v, 0) for v in state]


def block_of(trips: int, run: int) -> int:
    """Returns the number of turns, of `run` additions each, that make one partial sum: if possible so many that no
    turns are left over."""
    most = max(1, _CHAIN // max(run, 1))
    return next((k for k in range(most, most // 2, -1) if trips % k == 0), most) if trips > most else most


def chain_of(trips: int, run: int) -> int:
    """Returns the number of additions that `Parts.turns` makes one after another."""
    block = block_of(trips, run)
    return trips * run if trips <= block else chain_of(trips // block, 1) + (trips % block > 0)


@dataclass(frozen=True, slots=True)
class Parts:
    """Accumulators carried through loops, which start anew from `fresh` after `_CHAIN` turns and are combined. None:
    never."""

    b: Builder
    fresh: list[Val] | None
    combine: Callable[[Val, Val], Val]

    def turns(self, trips: int, run: int, acc: list[Val], body: Step, step: int = 1, vector: bool = False) -> list[Val]:
        """One loop, of whose turns each makes `run` additions."""
        block, fresh = block_of(trips, run), self.fresh
        if fresh is None or trips <= block:
            return along(self.b, trips, acc, body, step=step, vector=vector)
        count, rest = divmod(trips, block)

        def part(start: Affine, size: int, acc: list[Val]) -> list[Val]:
            own = along(self.b, size, fresh, lambda i, a: body(start + i, a), step=step, vector=vector)
            return [self.combine(p, q) for p, q in zip(acc, own)]

        acc = self.turns(count, 1, acc, lambda i, a: part(i * (block * step), block, a))
        return part(Affine(count * block * step), rest, acc) if rest else acc

    def fold(
        self,
        dims: tuple[int, ...],
        run: int,
        inits: list[Val],
        body: Callable[[Index, list[Val]], list[Val]],
        done: Index = (),
    ) -> list[Val]:
        """As `nest.fold`; `run` is the number of additions in one `body`."""
        if not dims:
            return body(done, inits)
        inner = run
        for size in reversed(dims[1:]):
            inner = chain_of(size, inner)
        return self.turns(dims[0], inner, inits, lambda i, a: self.fold(dims[1:], run, a, body, (*done, i)))
