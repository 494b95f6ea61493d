"""The elements of a sort, in registers and in memory; their order, and short runs in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dataclass import dataclass
from ...hlo.ir import Computation
from ...loop.affine import Affine
from ...loop.builder import Builder
from ...loop.ir import Carry, Loop, Val
from ...lowering.elemental import Elemental
from ...lowering.kernel_writer import KernelWriter

Element = list[Val]
"""The values of all operands at one place."""

Reader = Callable[[Affine], Element]
Writer = Callable[[Affine, Element], None]


@dataclass(frozen=True, slots=True)
class Memory:
    """Elements in memory: the values of each operand from where it begins, the number of a buffer or an address."""

    b: Builder
    dtypes: Sequence[str]
    begins: Sequence[int | Val]

    @classmethod
    def of(cls, k: KernelWriter, dtypes: Sequence[str], length: int) -> Memory:
        """Room for so many elements."""
        return cls(k.b, dtypes, [k.scratch(t, (length,)).number for t in dtypes])

    def address(self, operand: int) -> Val:
        begin = self.begins[operand]
        return self.b.pointer(begin) if isinstance(begin, int) else begin

    @property
    def addresses(self) -> list[Val]:
        return [self.address(i) for i in range(len(self.dtypes))]

    def load(self, position: Affine) -> Element:
        return [self.b.load_at(self.address(i), position, dtype, pure=False) for i, dtype in enumerate(self.dtypes)]

    def store(self, position: Affine, element: Element) -> None:
        for i, (value, dtype) in enumerate(zip(element, self.dtypes)):
            self.b.store_at(self.address(i), position, value, dtype)

    def carried(self, loop: Loop) -> tuple[Memory, list[Carry]]:
        """The same at addresses that a loop carries."""
        carries = [self.b.carry(loop, address) for address in self.addresses]
        return Memory(self.b, self.dtypes, [c.value for c in carries]), carries


class Order:
    """The comparator on values."""

    def __init__(self, b: Builder, e: Elemental, comparator: Computation):
        self.b = b
        self.e = e
        self.comparator = comparator

    def less(self, p: Element, q: Element) -> Val:
        return self.e.apply(self.comparator, [v for pair in zip(p, q) for v in pair])[0]

    def select(self, condition: Val, p: Element, q: Element) -> Element:
        return [self.b.select(condition, v, w) for v, w in zip(p, q)]

    def exchanged(self, elements: list[Element]) -> list[Element]:
        """The elements in order: rounds that exchange neighbours, so that equals keep their places."""
        elements = list(elements)
        for turn in range(len(elements)):
            for i in range(turn % 2, len(elements) - 1, 2):
                p, q = elements[i], elements[i + 1]
                swap = self.b.pin(self.less(q, p))
                elements[i], elements[i + 1] = self.select(swap, q, p), self.select(swap, p, q)
        return elements

    def inserted(self, elements: list[Element]) -> list[Element]:
        """The elements in the order that insertion gives (see `introsort`), which is defined for any comparator."""
        b, done = self.b, elements[:1]
        for element in elements[1:]:
            first = b.pin(self.less(element, done[0]))
            # which of those that are there move up by one: a run of the last ones, or all of them
            moves = [first]
            passed: Val | None = None
            for other in reversed(done[1:]):
                before = self.less(element, other)
                passed = before if passed is None else b.and_(passed, before)
                moves.insert(1, b.pin(b.or_(first, passed)))
            moved = [self.select(moves[0], element, done[0])]
            for i in range(1, len(done)):
                moved.append(self.select(moves[i], self.select(moves[i - 1], done[i - 1], element), done[i]))
            done = [*moved, self.select(moves[-1], done[-1], element)]
        return done
