"""Checks a kernel: types, lanes, places, effects, and that every access lies inside its argument in every trip.

It trusts nothing of the builder's. What it finds is a defect of the compiler, and the message says where: the kernel,
the value or statement as `loop.text` prints it, and what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ..dataclass import dataclass, replace
from ..hlo.types import TYPES
from .ir import Barrier, Block, Call, Carry, Func, If, Loop, Store, Val
from .ops import INTEGERS, OPS
from .ranges import Bounds, Facts, Form
from .signatures import immediate_fault, signature_fault
from .text import Names, typed
from .uses import Uses, count_uses

_MOST_TRIPS = 64
"""Trips of a loop in which an access may come near another one; where there are more, they are taken to meet."""


class KernelError(Exception):
    """A kernel that the loop IR does not allow."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A buffer of a kernel: `bytes` of it are the array, and vectors may reach up to `room`."""

    bytes: int
    room: int
    written: bool


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of a kernel: `lanes` elements of `size` bytes, `stride` bytes apart, from `form` on."""

    what: str
    val: Val | None
    """The loaded value; of a store None."""
    form: Form
    size: int
    lanes: int
    stride: int
    facts: Facts
    loops: tuple[Loop, ...]
    """The loops that are open there, from the outermost."""
    at: int
    """The number of the statement of the kernel at which it happens: a load where its value is computed, perhaps for a
    store."""

    @property
    def written(self) -> bool:
        return self.val is None

    def trips(self, loop: Loop) -> Bounds:
        """The first and the last trip of an open loop in which it happens."""
        if loop not in self.facts.variables:
            return 0, 1 << 32
        first, last = self.facts.variables[loop]
        return -(-first // loop.step), last // loop.step

    @property
    def reach(self) -> Bounds:
        """The first byte and the one after the last, from the first lane's on."""
        last = (self.lanes - 1) * self.stride
        return min(0, last), max(0, last) + self.size


def verify(func: Func, arguments: Sequence[Argument] | None = None) -> Verified:
    """Raises `KernelError` at the first thing that is wrong. Without `arguments` the accesses' places are not
    checked."""
    verifier = _Verifier(func, arguments)
    verifier.run()
    return Verified(func, verifier.accesses, verifier.unproven, verifier.opaque)


@dataclass(frozen=True, slots=True)
class Verified:
    """The facts about a kernel that is well formed."""

    func: Func
    accesses: list[Access]
    unproven: list[str]
    """The accesses of which no bounds are known, as they depend on numbers of the program's that nothing clamps."""
    opaque: bool
    """True if it calls functions of which it is not known what memory they touch."""

    def reads_before_writing(self, written: int, read: int) -> str:
        """Returns the reason why argument `written` may not lie where `read` lies; empty if each element is read for
        the last time before it is written."""
        loads = [a for a in self.accesses if not a.written and a.form.pointers in ((read,), ())]
        stores = [a for a in self.accesses if a.written and a.form.pointers in ((written,), ())]
        for load in loads:
            for store in stores:
                if not _in_order(load, store):
                    return f"kernel {self.func.name}: {load.what} may read what {store.what} has written"
        return ""


def _in_order(load: Access, store: Access) -> bool:
    """Returns True if a load never reads what a store has written before it."""
    if not load.form.pointers or not store.form.pointers or load.form.values or store.form.values:
        return False
    common = [a for a, b in zip(load.loops, store.loops) if a is b]
    left, right = dict(load.form.loops), dict(store.form.loops)
    trips: list[tuple[int, int, int]] = []
    for loop in common:
        c = left.get(loop, 0)
        if c == right.get(loop, 0):  # else they go through it as through loops of their own
            (first, last), (start, end) = load.trips(loop), store.trips(loop)
            trips.append((c * loop.step, start - last, end - first))
            left.pop(loop, None)
            right.pop(loop, None)
    for inner, sign, access in ((left, -1, load), (right, 1, store)):
        trips += [(sign * c * loop.step, *access.trips(loop)) for loop, c in inner.items()]
    here = load.form.const - store.form.const
    low, high = here + load.reach[0] - store.reach[1], here + load.reach[1] - store.reach[0]
    met = list(islice(_meetings(sorted(trips, key=lambda trip: -abs(trip[0])), low, high), 2))
    # They may meet in one trip of the loops that they share, and only there.
    return not met or met == [False] and not left and not right and load.at <= store.at


def _meetings(trips: list[tuple[int, int, int]], low: int, high: int) -> Iterator[bool]:
    """The ways to a distance above `low` and below `high` by so many trips of loops, each of which goes so many bytes
    further: whether there are any trips at all. One stands for many where there are many.

    `trips`: the bytes, the least and the most trips of each loop, the longest first.
    """
    if not trips:
        if low < 0 < high:
            yield False
        return
    (far, least, most), *others = trips
    if far < 0:
        far, least, most = -far, -most, -least
    ends = [sorted((d * first, d * last)) for d, first, last in others]
    if far:
        first = max(least, (low - sum(end for _, end in ends)) // far + 1)
        last = min(most, (high - sum(start for start, _ in ends) - 1) // far)
    else:
        first, last = 0, min(most, 1)
    if last - first > _MOST_TRIPS:
        yield True
        return
    for n in range(first, last + 1):
        for further in _meetings(others, low - far * n, high - far * n):
            yield n != 0 or further


class _Verifier:
    """Walks through one kernel in the order in which it runs."""

    def __init__(self, func: Func, arguments: Sequence[Argument] | None):
        self.func = func
        self.arguments = arguments
        self.names = Names(func)
        self.open: list[Block] = []
        self.loops: list[Loop] = []
        self.seen: set[Val] = set()
        self.carried: set[Carry] = set()
        """Carries of loops that are open."""
        self.stale: dict[Val, tuple[int, str]] = {}
        """Values whose local a barrier has given to another, and where that was."""
        self.places: dict[Val, int] = {}
        """The statement of each value."""
        self.accesses: list[Access] = []
        self.unproven: list[str] = []
        self.opaque = False
        self.count = 0
        self.held: dict[Val, Carry] = {}
        """Values that lie in the local of a carry since a barrier."""
        self.needed: dict[Val, int] = {}
        """The last use of each value."""
        self.user: dict[Val, Val] = {}
        """The last value that is computed from each."""
        self.stores: dict[Block, set[int]] = {}
        """For each block the arguments to which it stores; -1: one that is known at run time only."""
        self.unpinned: list[tuple[Val, Block, tuple[int, ...]]] = []

    def fail(self, what: str, why: str) -> None:
        raise KernelError(f"kernel {self.func.name}: {what}: {why}")

    def run(self) -> None:
        if self.arguments is not None and len(self.arguments) != self.func.pointers:
            self.fail("the kernel", f"takes {self.func.pointers} buffers, not {len(self.arguments)}")
        if self.func.body.level != 0 or self.func.body.guarded:
            self.fail("the body", "is not a plain block of level 0")
        self.block(self.func.body, Facts({}, {}, {}))
        self.order()
        uses = count_uses(self.func)
        self.accesses = [a if a.val is None else replace(a, at=self.computed(a.val, uses)) for a in self.accesses]
        self.late(uses)

    def late(self, uses: Uses) -> None:
        """Checks the order at a barrier: what stands before it may be computed behind it, where its operands are not
        there any more."""
        if not self.stale:
            return
        for val, at in self.places.items():
            for arg in val.args:
                place, name = self.stale.get(arg, (at, ""))
                if at < place < self.computed(val, uses):
                    self.fail(
                        self.names.definition(val), f"is computed after {name} took the local of {self.names.of(arg)}"
                    )

    def computed(self, val: Val, uses: Uses) -> int:
        """Returns the place where a value is computed: of one without a local that of what uses it."""
        at = self.places[val]
        while val not in uses.kept and val in self.needed:
            at = self.needed[val]
            if val not in self.user:
                break
            val = self.user[val]
        return at

    # --- statements ---------------------------------------------------------------------------------------------

    def block(self, block: Block, facts: Facts) -> None:
        self.open.append(block)
        self.stores.setdefault(block, set())
        for statement in block.statements:
            self.count += 1
            if isinstance(statement, Val):
                self.value(statement, block, facts)
            elif isinstance(statement, Store):
                self.store(statement, facts)
            elif isinstance(statement, Loop):
                self.loop(statement, facts)
            elif isinstance(statement, Barrier):
                self.barrier(statement, block)
            elif isinstance(statement, Call):
                self.called(statement, facts)
            elif isinstance(statement, If):
                self.if_(statement, facts)
            else:
                self.fail(repr(statement), "is no statement")
        self.open.pop()

    def use(self, val: Val, what: str, by: Val | None = None) -> None:
        """A value may be used where its block is open, after the statement that defines it."""
        name = self.names.of(val)
        if val.op == "induction":
            loop = next((loop for loop in self.loops if loop.body is val.block), None)
            if loop is None or loop.inductions.get(val.imm) is not val:
                self.fail(what, f"{name} is no variable of a loop that is open")
            elif loop.condition is not None:
                self.fail(what, f"{name} is the variable of a loop without a count")
        elif val.op == "carry":
            if not isinstance(val.imm, Carry) or val.imm not in self.carried or val.imm.value is not val:
                self.fail(what, f"{name} is carried by no loop that is open")
        elif val not in self.seen:
            self.fail(what, f"{name} is used before it is defined")
        elif val.block not in self.open:
            self.fail(what, f"{name} is used outside the block that defines it")
        if val in self.stale:
            self.fail(what, f"{name} is used after {self.stale[val][1]} took its local")
        self.needed[val] = self.count
        if by is not None:
            self.user[val] = by

    def store(self, store: Store, facts: Facts) -> None:
        what = f"store {store.dtype} [{self.names.of(store.address)} +{store.offset}] = {self.names.of(store.value)}"
        self.use(store.address, what)
        self.use(store.value, what)
        if store.dtype != store.value.dtype:
            self.fail(what, f"stores {store.dtype}, but the value is {typed(store.value)}")
        self.scalar(store.address, "u32", what, "address")
        if store.offset < 0:
            self.fail(what, f"the offset {store.offset} is negative")
        lanes = store.value.lanes
        if (lanes > 1) != (store.stride != 0):
            self.fail(what, f"{lanes} lanes with stride {store.stride}")
        self.access(what, store.address, store.offset, store.stride, store.dtype, lanes, facts)

    def loop(self, loop: Loop, facts: Facts) -> None:
        name = f"loop {self.names.loops[loop.body]}"
        if loop.body.level != len(self.open) or loop.body.guarded:
            self.fail(name, f"has a body of level {loop.body.level} at depth {len(self.open)}")
        if loop.condition is None and (loop.trips < 1 or loop.step < 1):
            self.fail(name, f"has {loop.trips} trips by {loop.step}")
        if loop.chunked and (loop.condition is not None or len(self.open) > 1):
            self.fail(name, "cannot be chunked here")
        if loop.lanes > 1 and loop.step % loop.lanes:
            self.fail(name, f"{loop.lanes} lanes do not divide its step {loop.step}")
        for c, val in loop.inductions.items():
            if val.op != "induction" or val.imm != c or val.block is not loop.body or val.lanes != 1:
                self.fail(name, f"its multiple {c} is {val}")
        for carry in loop.carries:
            self.use(carry.init, f"{name}, initial value of {self.names.of(carry.value)}")
            self.alike(carry.value, carry.init, name, "initial value")
            if carry.value.op != "carry" or carry.value.block is not loop.body:
                self.fail(name, f"{self.names.of(carry.value)} is no value carried by it")
        self.loops.append(loop)
        self.carried.update(loop.carries)
        self.block(loop.body, facts.inside(loop))
        if loop.chunked and loop.carries:
            self.fail(name, "is chunked, and carries something from trip to trip")
        self.open.append(loop.body)
        self.count += 1
        for carry in loop.carries:
            what = f"{name}, next value of {self.names.of(carry.value)}"
            if carry.next is None:
                self.fail(what, "is not set")
                return
            self.use(carry.next, what)
            self.alike(carry.value, carry.next, name, "next value")
        if loop.condition is not None:
            self.use(loop.condition, f"{name}, condition")
            self.scalar(loop.condition, "pred", name, "condition")
        self.open.pop()
        self.loops.pop()
        self.carried.difference_update(loop.carries)
        for carry in loop.carries:
            result = carry.result
            self.alike(carry.value, result, name, "result")
            if result.op != "result" or result.imm is not carry or result.block is not self.open[-1]:
                self.fail(name, f"{self.names.of(result)} is no result of it")
            self.seen.add(result)
        self.stores[self.open[-1]] |= self.stores[loop.body]

    def alike(self, value: Val, other: Val, name: str, role: str) -> None:
        if (value.dtype, value.lanes) != (other.dtype, other.lanes):
            self.fail(
                name,
                f"{self.names.of(value)} is {typed(value)}, but its {role} {self.names.of(other)} is {typed(other)}",
            )

    def scalar(self, val: Val, dtype: str, what: str, role: str) -> None:
        if val.dtype != dtype or val.lanes != 1:
            self.fail(what, f"the {role} {self.names.of(val)} is {typed(val)}, not {dtype}")

    def barrier(self, barrier: Barrier, block: Block) -> None:
        loop, name = barrier.loop, f"barrier of {self.names.loops.get(barrier.loop.body, '?')}"
        if loop.body is not block:
            self.fail(name, "does not stand directly in the body of its loop")
        if loop.chunked or loop.condition is not None:
            self.fail(name, "its loop has no constant count")
        if [carry for carry, _ in barrier.values] != loop.carries:
            self.fail(name, "has not one value for each of its loop's carries")
        for carry, val in barrier.values:
            self.use(val, name)
            self.alike(carry.value, val, name, "value there")
            if val is carry.value or self.held.get(val) is carry:
                continue  # not replaced
            if val.block is not block or val.op in ("const", "carry", "induction", "result"):
                self.fail(name, f"{self.names.of(val)} is not computed in its loop's body")
        if len({val for _, val in barrier.values}) != len(barrier.values):
            self.fail(name, "gives one value to two carries")
        for carry, val in barrier.values:
            held = [v for v, holder in self.held.items() if holder is carry] or [carry.value]
            if val in held:
                continue
            for old in held:
                self.stale[old] = self.count, name
                self.held.pop(old, None)
            self.held[val] = carry

    def called(self, call: Call, facts: Facts) -> None:
        what = f"invoke {call.symbol}"
        if not call.symbol:
            self.fail(what, "names no function")
        for arg in call.args:
            self.use(arg, what)
            if arg.lanes != 1:
                self.fail(what, f"{self.names.of(arg)} is {typed(arg)}, no scalar")
        self.opaque |= not call.touches
        for touch in call.touches:
            address = call.args[touch.argument]
            val = None if touch.written else address
            self.note(Access(what, val, facts.form(address), touch.bytes, 1, 0, facts, tuple(self.loops), self.count))
        for block in self.open:
            self.stores[block].add(-1)

    def if_(self, statement: If, facts: Facts) -> None:
        what = f"if {self.names.of(statement.condition)}"
        self.use(statement.condition, what)
        self.scalar(statement.condition, "pred", what, "condition")
        if statement.body.level != len(self.open) or not statement.body.guarded:
            self.fail(what, f"its body is no guarded block of level {len(self.open)}")
        self.block(statement.body, facts.where(statement.condition))
        self.stores[self.open[-1]] |= self.stores[statement.body]

    # --- values -------------------------------------------------------------------------------------------------

    def value(self, val: Val, block: Block, facts: Facts) -> None:
        op = OPS.get(val.op)
        if op is None or not op.form:
            self.fail(self.names.of(val), f"{val.op!r} is no operation")
            return
        what = self.names.definition(val)
        if val.block is not block:
            self.fail(what, "stands in another block than it says")
        if val in self.seen:
            self.fail(what, "is defined twice")
        for arg in val.args:
            self.use(arg, what, val)
        if fault := signature_fault(val, op, self.names) or immediate_fault(val, op, self.func):
            self.fail(what, fault)
        self.seen.add(val)
        self.places[val] = self.count
        if op.effect == "traps" and val.dtype in INTEGERS and not facts.divides(*val.args):
            self.fail(what, "may trap: its divisor may be 0, or -1 under the least number")
        if op.effect == "reads":
            offset, stride = val.imm
            form = self.access(what, val.args[0], offset, stride, val.dtype, val.lanes, facts, val)
            if not val.pinned:
                self.unpinned.append((val, block, form.pointers))

    # --- memory -------------------------------------------------------------------------------------------------

    def access(
        self,
        what: str,
        address: Val,
        offset: int,
        stride: int,
        dtype: str,
        lanes: int,
        facts: Facts,
        val: Val | None = None,
    ) -> Form:
        """Notes a load or a store; the form of its address."""
        self.scalar(address, "u32", what, "address")
        size = TYPES[dtype].bytes
        form = facts.form(address).plus(Form(const=offset))
        self.note(Access(what, val, form, size, lanes, stride * size, facts, tuple(self.loops), self.count))
        return form

    def note(self, access: Access) -> None:
        """Keeps an access, and checks where it lies."""
        what, form = access.what, access.form
        self.accesses.append(access)
        if access.written:
            for block in self.open:
                self.stores[block].update(form.pointers or (-1,))
        if len(form.pointers) > 1:
            self.fail(what, "its address is a sum of two buffers' addresses")
        if self.arguments is None:
            return
        if not form.pointers:
            self.unproven.append(f"kernel {self.func.name}: {what}: its buffer is known at run time only")
            return
        number = form.pointers[0]
        argument = self.arguments[number]
        if access.written and not argument.written:
            self.fail(what, f"writes argument {number}, which is only read")
        bounds = access.facts.form_bounds(form)
        most = argument.room if access.lanes > 1 and access.stride else argument.bytes
        if bounds is None:
            self.unproven.append(f"kernel {self.func.name}: {what}: a loop without a count")
            return
        low, high = bounds[0] + access.reach[0], bounds[1] + access.reach[1]
        if low >= 0 and high <= most:
            return
        if form.values:
            free = ", ".join(self.names.of(v) for v, _ in form.values)
            self.unproven.append(
                f"kernel {self.func.name}: {what}: bytes {low} to {high} of {most} of argument {number}, by {free}"
            )
        else:
            self.fail(what, f"reaches bytes {low} to {high} of argument {number}, which has {most}")

    def order(self) -> None:
        """A load that is not pinned may happen later than it stands; so nothing in its block may write what it
        reads."""
        for val, block, pointers in self.unpinned:
            changed = self.stores[block]
            if (pointers and pointers[0] in changed) or (
                changed and (not pointers or -1 in changed) and self.may_alias(pointers)
            ):
                self.fail(self.names.definition(val), "is not pinned, and its block writes what it reads")

    def may_alias(self, pointers: tuple[int, ...]) -> bool:
        """Returns True if a buffer known at run time may be one of these: it is one that the kernel writes."""
        if not pointers:
            return True
        return self.arguments is not None and self.arguments[pointers[0]].written
