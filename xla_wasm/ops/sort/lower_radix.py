"""Sorting by the digits of a key, for comparators that compare the same expression of both elements.

Such a comparator orders like an unsigned integer that is computed once for each element. Its digits are counted for all
turns in one walk; then every turn puts the elements in the order of one digit, the lowest first, and keeps their order
otherwise. A turn in which all elements have the same digit is left out. Nothing here depends on how elements compare,
so the time does not either.
"""

from __future__ import annotations

from functools import reduce

from ...dataclass import dataclass
from ...hlo.ir import Computation, Instruction
from ...hlo.types import TYPES
from ...loop.affine import ZERO, Affine
from ...loop.builder import WIDE, Builder, is_float
from ...loop.ir import Val
from ...loop.nest import nest
from ...lowering.apply import apply
from ...lowering.kernel_writer import KernelWriter
from .lower_introsort import Introsort
from .lower_order import Element, Memory, Order, Reader, Writer

_DIGIT = 8
_VALUES = 1 << _DIGIT

SHORTEST = 256
"""Shorter rows are merged: counting takes a while of its own."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key that a comparator compares: `expression` gives it from the elements of all operands."""

    expression: Computation
    dtype: str
    descending: bool
    total: bool

    @property
    def bits(self) -> int:
        return TYPES[self.dtype].bits

    @property
    def may_fail(self) -> bool:
        """True if elements may come before none and after none: NaNs in plain comparisons."""
        return is_float(self.dtype) and not self.total

    def identifies(self, dtypes: list[str]) -> bool:
        """Returns True if elements with equal keys are the same, bit for bit."""
        return len(dtypes) == 1 and self.expression.root.opcode == "parameter" and not self.may_fail

    @property
    def stored(self) -> str:
        return "u64" if self.dtype in WIDE else "u32"

    @property
    def turns(self) -> int:
        return -(-self.bits // _DIGIT)

    def of(self, b: Builder, element: Element) -> Val:
        """The unsigned integer that orders like an element."""
        return self.word(b, apply(b, self.expression, [v for v in element for _ in range(2)]))

    def word(self, b: Builder, value: Val) -> Val:
        """The unsigned integer that orders like the value of the expression."""
        mask = (1 << self.bits) - 1
        if is_float(self.dtype):
            signed, sign = f"s{self.bits}", 1 << (self.bits - 1)
            if not self.total:
                # Both zeros are equal, and what is not a number comes last.
                value = b.add(value, b.const(self.dtype, 0))
                value = b.select(b.ne(value, value), b.const(self.dtype, float("nan")), value)
            word = b.bitcast(value, signed)
            word = b.xor(word, b.or_(b.shr_s(word, self.bits - 1), b.bits(signed, sign)))
            key = b.bitcast(word, self.stored)
        else:
            key = b.convert(value, self.stored)
            if TYPES[self.dtype].kind == "signed":
                key = b.and_(b.add(key, b.const(self.stored, 1 << (self.bits - 1))), b.bits(self.stored, mask))
        return b.xor(key, b.bits(self.stored, mask)) if self.descending else key


def key_of(comparator: Computation) -> Key | None:
    """The key by which a comparator orders, if it shows that it has one."""
    root = comparator.root
    if root.opcode != "compare" or root.attrs["direction"] not in ("LT", "GT"):
        return None
    left, right = root.operands
    sides = _side(left), _side(right)
    if sides not in ((0, 1), (1, 0)) or _form(left) != _form(right):
        return None
    dtype = left.shape.element_type
    descending = (root.attrs["direction"] == "GT") == (sides == (0, 1))
    needed = _needed(left)
    expression = Computation(f"{comparator.name}.key", [x for x in comparator.instructions if x in needed], left)
    return Key(expression, dtype, descending, root.attrs.get("type") == "TOTALORDER")


def _needed(root: Instruction) -> dict[Instruction, None]:
    found: dict[Instruction, None] = {root: None}
    pending = [root]
    while pending:
        for o in pending.pop().operands:
            if o not in found:
                found[o] = None
                pending.append(o)
    return found


def _side(root: Instruction) -> int | None:
    """Returns the number, 0 or 1, of the element that an expression is made of; None if of both or neither."""
    sides = {x.attrs["parameter_number"] % 2 for x in _needed(root) if x.opcode == "parameter"}
    return sides.pop() if len(sides) == 1 else None


def _form(root: Instruction) -> list[object] | None:
    """The expression, an element's values named by their operand: equal for equal functions of an element."""
    numbers: dict[Instruction, int] = {}
    form: list[object] = []
    pending = [(root, False)]
    while pending:
        x, ready = pending.pop()
        if x in numbers:
            continue
        if not ready:
            pending.append((x, True))
            pending.extend((o, False) for o in x.operands)
            continue
        attrs: object = {k: v for k, v in x.attrs.items() if k not in ("sharding", "literal", "parameter_replication")}
        if x.opcode == "parameter":
            attrs = x.attrs["parameter_number"] // 2
        elif x.opcode == "constant":
            attrs = bytes(x.attrs["literal"].data)
        if x.called:
            attrs = x
        numbers[x] = len(numbers)
        form.append((x.opcode, x.shape.without_layout(), attrs, x.marks, [numbers[o] for o in x.operands]))
    return form


class Radix:
    """The rows of one sort: two memories for the keys and for each operand."""

    def __init__(self, k: KernelWriter, key: Key, dtypes: list[str], length: int, order: Order | None):
        """With `order`, the comparator, equal elements that differ lie as `introsort` leaves them."""
        self.k, self.b, self.key, self.length = k, k.b, key, length
        self.introsort = Introsort(k, order, dtypes, length) if order is not None else None
        self.here, self.there = (Memory.of(k, [key.stored, *dtypes], length) for _ in range(2))
        self.counts = k.scratch("s32", (key.turns * _VALUES,))

    def sort(self, read: Reader, write: Writer) -> None:
        """One row: its elements come from `read`, and go to `write` in order."""
        self.fill(read)
        self.count()
        b, ordered = self.b, self.distribute()
        addresses = ordered.addresses[1:]
        if self.introsort is not None:
            shows = self.shows(ordered)
            with b.when(shows):
                self.introsort.fill(read)
                self.introsort.order_memory()
            addresses = [b.select(shows, own, m) for own, m in zip(self.introsort.memory.addresses, addresses)]
        memory = Memory(b, ordered.dtypes[1:], addresses)
        b.vectorized(self.length, lambda i: write(i, memory.load(i)))

    def shows(self, ordered: Memory) -> Val:
        """Returns a condition that is true if the order of elements with equal keys can be seen."""
        b, last = self.b, self.length - 1
        keys, *memories = ordered.addresses

        def differ(memory: Val, dtype: str, i: Affine) -> Val:
            bits = f"u{8 * TYPES[dtype].bytes}"
            return b.ne(*(b.load_at(memory, i + k, bits, pure=False) for k in range(2)))

        def seen(i: Affine) -> Val:
            """Returns a condition that is true if this element and the next have equal keys, and are not equal."""
            unequal = [differ(m, dtype, i) for m, dtype in zip(memories, ordered.dtypes[1:])]
            return b.andnot(reduce(b.or_, unequal), differ(keys, self.key.stored, i))

        with b.open_loop(last // b.lanes, b.lanes, vector=True) as loop:
            some = b.carry(loop, b.const("pred", False), b.lanes)
            some.next = b.or_(some.value, seen(Affine.along(loop)))
        found_by_lane = [b.lane(some.result, lane) for lane in range(b.lanes)]
        shows = reduce(b.or_, [*found_by_lane, *(seen(Affine(i)) for i in range(last - last % b.lanes, last))])
        if self.key.may_fail:
            # NaNs lie at one end.
            place = Affine(0 if self.key.descending else last)
            nan = self.key.word(b, b.const(self.key.dtype, float("nan")))
            shows = b.or_(shows, b.eq(b.load_at(keys, place, self.key.stored, pure=False), nan))
        return b.pin(shows)

    def fill(self, read: Reader) -> None:
        """Copies the elements and makes their keys."""
        b = self.b

        def one(i: Affine) -> None:
            element = read(i)
            self.here.store(i, [self.key.of(b, element), *element])

        b.vectorized(self.length, one)

    def digit(self, key: Val, turn: Val) -> Val:
        """Returns the address of the count of a key's digit."""
        b = self.b
        amount = b.mul(turn, b.const("s32", _DIGIT))
        digit = b.convert(b.and_(b.shr_u(key, amount), b.const(key.dtype, _VALUES - 1)), "s32")
        return b.add(digit, b.mul(turn, b.const("s32", _VALUES)))

    def count(self) -> None:
        """Counts how often each digit occurs."""
        b, counts = self.b, self.counts
        nest(b, counts.dims, lambda i: b.store(counts.number, i[0], b.const("s32", 0), "s32"))
        with b.loop(self.length) as i:
            key = b.load_at(self.here.address(0), i, self.key.stored, pure=False)
            for turn in range(self.key.turns):
                place = Affine.of(self.digit(key, b.const("s32", turn)))
                b.store(counts.number, place, b.add(b.load(counts.number, place, "s32"), b.const("s32", 1)), "s32")

    def distribute(self) -> Memory:
        """One turn for each digit; the memory that holds keys and elements in order."""
        b, counts = self.b, self.counts
        with b.open_loop(self.key.turns) as loop:
            turn = b.index_value(Affine.along(loop))
            (sources, here), (targets, there) = self.here.carried(loop), self.there.carried(loop)
            first = b.load_at(sources.address(0), ZERO, self.key.stored, pure=False)
            same = b.load(counts.number, Affine.of(self.digit(first, turn)), "s32")
            needed = b.pin(b.ne(same, b.const("s32", self.length)))
            with b.when(needed):
                self.starts(turn)
                with b.loop(self.length) as i:
                    element = sources.load(i)
                    count = Affine.of(b.pin(self.digit(element[0], turn)))
                    place = b.load(counts.number, count, "s32")
                    b.store(counts.number, count, b.add(place, b.const("s32", 1)), "s32")
                    targets.store(Affine.of(place), element)
            for old, new in zip((*here, *there), (*targets.addresses, *sources.addresses)):
                old.next = b.select(needed, new, old.value)
        return Memory(b, self.here.dtypes, [c.result for c in here])

    def starts(self, turn: Val) -> None:
        """Turns the counts of one digit into where the elements with each value of it begin."""
        b, counts = self.b, self.counts
        with b.open_loop(_VALUES) as loop:
            place = Affine.of(b.add(b.mul(turn, b.const("s32", _VALUES)), b.index_value(Affine.along(loop))))
            total = b.carry(loop, b.const("s32", 0))
            own = b.load(counts.number, place, "s32")
            b.store(counts.number, place, total.value, "s32")
            total.next = b.add(total.value, own)
