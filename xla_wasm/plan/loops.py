"""Small loops become kernels: one whose trips compute scalars and a few small arrays would spend its time between the
steps, not in them.

The kernels that such a loop launches are written into one function, with the program's loop around them and its
conditionals as branches. A call of it makes so many trips at most, and the step table calls it again: in between the
run can be ended, and engines that compile twice take their better code.

That goes for inner loops too, which may make any number of trips. All that a loop computes lies in memory, so a call
may end between two trips of an inner loop: it leaves the loop's number in `State.at`, and everything up to the end of
the outermost loop is passed over. The next call passes over everything up to that loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from ..dataclass import dataclass, field
from ..hlo.ir import Instruction
from ..hlo.types import TYPES
from ..loop.affine import Affine
from ..loop.builder import Builder
from ..loop.ir import Block, Func, Val
from ..loop.pieces import STATEMENTS, executed
from .buffer import Buffer, View
from .kernel import Kernel, KernelCache, Lowered
from .plan import Conditional, Copy, Launch, LoopLaunch, Plan, Step, Steps, While

_EXECUTED = 1 << 12
"""Statements that a trip executes, beside which its steps are nothing."""
_WRITTEN = 1 << 11
"""Statements of a function that engines compile in no time."""
_COPIED = 1 << 10
"""Bytes that are copied by loads and stores."""


def join_loops(plan: Plan, cache: KernelCache) -> None:
    """Has kernels take the place of small loops. The plan's buffers share what memory they can."""
    made: list[Buffer] = []
    _join(plan.steps, cache, made)
    plan.buffers += made


def _join(steps: Steps, cache: KernelCache, made: list[Buffer]) -> None:
    """Joins loops, with steps before them where they need any; adds the buffers that are `made`."""
    found: Steps = []
    for step in steps:
        if isinstance(step, While) and _is_small([step], cache):
            found += _joined(step, cache, made)
        else:
            for part in () if isinstance(step, Step) else step.parts:
                _join(part, cache, made)
        found.append(step)
    steps[:] = found


def _is_small(steps: Steps, cache: KernelCache) -> bool:
    """Returns True if steps may be written into one function."""
    flat = [*_each(steps)]
    if not all(_is_joinable(step, cache) for step in flat):
        return False
    bodies = [step.func.body for step in flat if isinstance(step, Launch)]
    return bool(bodies) and sum(map(executed, bodies)) <= _EXECUTED and sum(map(_written, bodies)) <= _WRITTEN


def _is_joinable(step: Step, cache: KernelCache) -> bool:
    if isinstance(step, Launch):
        # What a kernel keeps from run to run is not among what a step writes.
        return step.trips is None and all(isinstance(size, int) for size in step.kernel.scratch(cache))
    return isinstance(step, Copy) and (step.bytes <= _COPIED or _vanishes(step))


def _vanishes(copy: Copy) -> bool:
    target, source = copy.arguments
    return target.buffer.root() is source.buffer.root() and target.byte_offset == source.byte_offset


def _each(steps: Steps) -> Iterator[Step]:
    """The steps, those of loops and branches too."""
    for step in steps:
        if isinstance(step, Step):
            yield step
        else:
            for part in step.parts:
                yield from _each(part)


def _written(block: Block) -> int:
    return len(block.statements) + sum(_written(s.body) for s in block.control if hasattr(s, "body"))


@dataclass(slots=True)
class _Memory:
    """The memory of some steps, in the order in which they use it, and what they write of it."""

    buffers: dict[Buffer, None] = field(default_factory=dict)
    written: dict[Buffer, None] = field(default_factory=dict)
    holds: list[Instruction] = field(default_factory=list)

    def add(self, steps: Steps) -> None:
        for step in steps:
            if isinstance(step, Step):
                own: list[View] = []
                if isinstance(step, Launch):
                    own = step.arguments[len(step.arguments) - step.scratch :]
                    self.holds += step.holds
                self.buffers.update(dict.fromkeys(v.buffer.root() for v in step.arguments))
                self.written.update(dict.fromkeys((*step.outputs, *(v.buffer.root() for v in own))))
                continue
            view = step.go_on if isinstance(step, While) else step.selector
            self.buffers[view.buffer.root()] = None
            for part in step.parts:
                self.add(part)


def _joined(loop: While, cache: KernelCache, made: list[Buffer]) -> Steps:
    """Joins a loop; returns the steps that come before it."""
    memory = _Memory()
    memory.add([loop])
    before: Steps = []
    state: list[Buffer] = []
    more = loop.go_on
    if any(isinstance(step, While) for part in loop.parts for step in _regions(part)):
        # A run that was ended within the loop has left its state as it was then.
        state = [Buffer(State.BYTES, "temporary", f"{loop.name}.state")]
        zero = Buffer(4, "constant", f"{loop.name}.start", bytes(4))
        made += [zero, *state]
        before = [Copy(loop.name, [View(state[0], "u32", (), (), State.AT), View(zero, "u32", (), ())], 1)]
        more = View(state[0], "pred", (), (), State.MORE)
    written = [*state, *memory.written]
    buffers = [*written, *(b for b in memory.buffers if b not in memory.written)]
    record = _Recorder({buffer: i for i, buffer in enumerate(buffers)}).loop(loop)
    sizes = len(written), len(buffers)

    def decide() -> LoopKernel:
        return LoopKernel(next(_kernels((record,))).expression, record, *sizes)

    kernel = cache.find(("loop", record, sizes), decide)
    views = [View(buffer, "u8", (buffer.bytes,), (1,)) for buffer in buffers]
    lowered = cache.lower(kernel).func
    loop.joined = LoopLaunch(
        loop.name, views, len(written), kernel=kernel, holds=memory.holds, lowered=lowered, more=more
    )
    return before


def _regions(steps: Steps) -> Iterator[While | Conditional]:
    """The loops and conditionals among steps, the inner ones too."""
    for step in steps:
        if not isinstance(step, Step):
            yield step
            for part in step.parts:
                yield from _regions(part)


class State:
    """The memory that a nest of loops has of its own. These are offsets in elements of their types."""

    AT = 0
    """u32: the number of the inner loop that a call left with trips to go; 0: none."""
    LEFT = 1
    """s32: the statements that this call may still execute, about."""
    MORE = 8
    """pred: whether there is to be another call."""
    BYTES = 12


# --- the kernel as a record -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """An array in an argument."""

    argument: int
    offset: int
    """In bytes."""
    dtype: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Inner:
    """A kernel of the loop and its arguments."""

    kernel: Kernel
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """A copy."""

    target: Place
    source: Place


@dataclass(frozen=True, slots=True)
class Chosen:
    """One of several parts, as for `plan.Conditional`."""

    selector: Place
    parts: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop, as for `plan.While`."""

    condition: Body
    go_on: Place
    body: Body


Record = Inner | Moved | Chosen | Repeated
Body = tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Steps as records: `numbers` are those of the arguments."""

    numbers: dict[Buffer, int]

    def place(self, view: View) -> Place:
        return Place(self.numbers[view.buffer.root()], view.byte_offset, view.dtype, view.bytes)

    def body(self, steps: Steps) -> Body:
        return tuple([found for step in steps for found in self.step(step)])

    def step(self, step: Step | While | Conditional) -> Body:
        if isinstance(step, While):
            return (self.loop(step),)
        if isinstance(step, Conditional):
            return (Chosen(self.place(step.selector), tuple([self.body(part) for part in step.parts])),)
        places = tuple([self.place(view) for view in step.arguments])
        if isinstance(step, Launch):
            return (Inner(step.kernel, places),)
        assert isinstance(step, Copy), "the host is asked between calls of kernels"
        return () if _vanishes(step) else (Moved(*places),)

    def loop(self, loop: While) -> Repeated:
        return Repeated(self.body(loop.condition), self.place(loop.go_on), self.body(loop.body))


def _kernels(body: Body, inner: bool = True) -> Iterator[Kernel]:
    """The kernels of some steps, or those alone that are not in a loop of them."""
    for record in body:
        if isinstance(record, Inner):
            yield record.kernel
        elif isinstance(record, Chosen):
            for part in record.parts:
                yield from _kernels(part, inner)
        elif isinstance(record, Repeated) and inner:
            yield from _kernels(record.condition + record.body)


def _loops(body: Body) -> int:
    """The number of loops in some steps."""
    total = 0
    for record in body:
        if isinstance(record, Repeated):
            total += 1 + _loops(record.condition + record.body)
        elif isinstance(record, Chosen):
            total += sum(map(_loops, record.parts))
    return total


@dataclass(frozen=True, slots=True, eq=False)
class LoopKernel(Kernel):
    """A loop with its kernels; it writes the first `written` of its arguments."""

    loop: Repeated
    written: int
    arguments: int

    def __str__(self) -> str:
        return "a loop with its kernels"

    def write(self, cache: KernelCache) -> Lowered:
        b = cache.builder("loop", self.arguments, 4, *range(self.written))
        writer = _LoopWriter(b, cache)
        if _loops((self.loop,)) > 1:
            writer.nest(self.loop)
        else:
            writer.single(self.loop)
        return Lowered(b.func())


@dataclass(slots=True)
class _LoopWriter:
    """Writes the steps of a loop with a builder."""

    b: Builder
    cache: KernelCache
    begun: int = 0
    """The loops that are written so far, which is the number of the next one."""

    def cost(self, loop: Repeated) -> int:
        """The statements of a trip, but for those of the loops in it."""
        kernels = _kernels(loop.condition + loop.body, inner=False)
        return 1 + sum([executed(self.cache.lower(kernel).func.body) for kernel in kernels])

    # --- a loop without others in it ---

    def single(self, record: Repeated) -> None:
        """The trips of a call, which takes some hundred microseconds then."""
        b = self.b
        with b.repeat() as loop:
            trip = b.carry(loop, b.const("s32", 1))
            go_on = self.trip(record)
            trip.next = b.add(trip.value, b.const("s32", 1))
            trips = max(1, STATEMENTS // self.cost(record))
            loop.condition = b.and_(go_on, b.lt(trip.value, b.const("s32", trips)))

    def trip(self, loop: Repeated) -> Val:
        """The condition, and where it holds the body; whether it does."""
        self.steps(loop.condition)
        go_on = self.load(loop.go_on)
        with self.b.when(go_on):
            self.steps(loop.body)
        return go_on

    def steps(self, body: Iterable[Record]) -> None:
        """Steps without loops."""
        for record in body:
            if isinstance(record, Inner):
                record.kernel.write(_InnerCache(self.cache, self.b, record.places))
            elif isinstance(record, Moved):
                self.copy(record)
            else:
                assert isinstance(record, Chosen)
                for condition, part in zip(self.conditions(record), record.parts):
                    with self.b.when(condition):
                        self.steps(part)

    def conditions(self, record: Chosen) -> list[Val]:
        """Of each branch whether it is to run: the last where a number is out of range."""
        b, selector, count = self.b, self.load(record.selector), len(record.parts)
        if selector.dtype == "pred":
            return [selector, b.eq(selector, b.const("pred", False))]
        index = b.bitcast(selector, "u32")
        return [*(b.eq(index, b.const("u32", k)) for k in range(count - 1)), b.le(b.const("u32", count - 1), index)]

    # --- a loop with others in it ---

    def nest(self, record: Repeated) -> None:
        """A call's part of all loops together."""
        b = self.b
        self.set_state(State.LEFT, b.const("s32", STATEMENTS))
        paused = self.loop(record)
        more = b.or_(paused, b.ne(self.at(), b.const("u32", 0)))
        self.set_state(State.MORE, more)

    def loop(self, record: Repeated) -> Val:
        """A loop that is not passed over; whether it is left with trips to go, though no loop in it is."""
        b = self.b
        self.begun += 1
        cost = b.const("s32", self.cost(record))
        if not _loops(record.condition + record.body):
            before = self.state(State.LEFT, "s32")
            with b.repeat() as loop:
                left, paused = b.carry(loop, before), b.carry(loop, b.const("pred", False))
                paused.next = self.trip(record)
                left.next = b.sub(left.value, cost)
                loop.condition = b.and_(paused.next, b.lt(b.const("s32", 0), left.next))
            self.set_state(State.LEFT, left.result)
            return paused.result
        with b.repeat() as loop:
            paused = b.carry(loop, b.const("pred", False))
            go_on = self.resumed_trip(record)
            paused.next = b.and_(go_on, b.eq(self.at(), b.const("u32", 0)))
            rest = b.sub(self.state(State.LEFT, "s32"), cost)
            self.set_state(State.LEFT, rest)
            loop.condition = b.and_(paused.next, b.lt(b.const("s32", 0), rest))
        return paused.result

    def resumed_trip(self, record: Repeated) -> Val:
        """As `trip`: what is left of one in which an inner loop was left, or a whole one."""
        b = self.b
        self.resumed(record.condition)
        go_on = self.load(record.go_on)
        if _loops(record.body):
            go_on = b.or_(go_on, self.is_among(self.at(), _loops(record.body)))
        with b.when(go_on):
            self.resumed(record.body)
        return go_on

    def resumed(self, body: Body) -> None:
        """Steps with loops, or steps beside them: those are passed over before and behind a loop that was left."""
        b, zero = self.b, self.b.const("u32", 0)
        for count, records in groupby(body, lambda record: _loops((record,))):
            if not count:
                with b.when(b.eq(self.at(), zero)):
                    self.steps(records)
                continue
            for record in records:
                at = self.at()
                if isinstance(record, Repeated):
                    number = b.const("u32", self.begun)
                    with b.when(b.or_(b.eq(at, zero), self.is_among(at, count))):
                        self.set_state(State.AT, b.select(b.eq(at, number), zero, at))
                        with b.when(self.loop(record)):
                            self.set_state(State.AT, number)
                else:
                    assert isinstance(record, Chosen)
                    self.resumed_branches(record, at)

    def resumed_branches(self, record: Chosen, at: Val) -> None:
        """Of several branches the chosen one, or that in which a loop was left: the selector may be gone by then."""
        b, conditions = self.b, self.conditions(record)
        anew = b.eq(at, b.const("u32", 0))
        for condition, part in zip(conditions, record.parts):
            condition = b.and_(condition, anew)
            if not _loops(part):
                with b.when(condition):
                    self.steps(part)
                continue
            with b.when(b.or_(condition, self.is_among(at, _loops(part)))):
                self.resumed(part)

    def is_among(self, at: Val, count: int) -> Val:
        """True if the loop that was left is one of so many that are written next."""
        return self.b.lt(self.b.sub(at, self.b.const("u32", self.begun)), self.b.const("u32", count))

    def at(self) -> Val:
        """The number of the loop that was left."""
        return self.state(State.AT, "u32")

    def state(self, place: int, dtype: str) -> Val:
        """The nest's state at this point."""
        return self.b.load_at(self.b.pointer(0), Affine(place), dtype, pure=False)

    def set_state(self, place: int, value: Val) -> None:
        """Changes the nest's state."""
        self.b.store_at(self.b.pointer(0), Affine(place), value, value.dtype)

    # --- memory ---

    def load(self, place: Place) -> Val:
        return self.b.load_at(
            self.b.pointer(place.argument), Affine(place.offset // TYPES[place.dtype].bytes), place.dtype, pure=False
        )

    def copy(self, record: Moved) -> None:
        """Bits as they are, whatever they stand for."""
        b, target, source = self.b, record.target, record.source
        dtype = "u32" if (target.offset | source.offset | target.bytes) % 4 == 0 else "u8"
        width = TYPES[dtype].bytes

        def move(i: Affine) -> None:
            value = b.load_at(b.pointer(source.argument), i + source.offset // width, dtype, pure=False)
            b.store_at(b.pointer(target.argument), i + target.offset // width, value, dtype)

        count = target.bytes // width
        if target.argument == source.argument and source.offset < target.offset:
            # Within an array and up: from its end, since the places may overlap.
            with b.loop(count) as i:
                move(i * -1 + (count - 1))
        else:
            b.vectorized(count, move)


class _InnerCache(KernelCache):
    """Gives a kernel that is written into a loop the loop's builder, with the kernel's own arguments."""

    def __init__(self, cache: KernelCache, around: Builder, places: tuple[Place, ...]):
        vars(self).update(vars(cache))
        self.around = around
        self.places = places

    def builder(self, base: str, pointers: int, lanes: int, *written: int) -> Builder:
        """A builder that goes on where the loop's is."""
        return _InnerBuilder(self.around, self.places, pointers, lanes)


class _InnerBuilder(Builder):
    """Builds a kernel inside of a loop's."""

    def __init__(self, around: Builder, places: tuple[Place, ...], pointers: int, lanes: int):
        written = frozenset(i for i, place in enumerate(places) if place.argument in around.written)
        super().__init__(around.name, pointers, lanes, around.target, written)
        self.around = around
        self.places = places
        self.root, self.stack = around.root, around.stack
        self.unwritten = {self.pointer(i) for i in range(len(places)) if i not in written}

    def func(self) -> Func:
        """Nothing of its own."""
        return Func(self.name, Block(0), self.pointers)

    def pointer(self, number: int) -> Val:
        """The address of an argument of the kernel."""
        place = self.places[number]
        start = self.around.pointer(place.argument)
        return self.add(start, self.const("u32", place.offset)) if place.offset else start

    def load_at(self, base: Val, index: Affine, dtype: str, pure: bool = True) -> Val:
        """Another kernel of the loop may write what this one only reads."""
        return super().load_at(base, index, dtype, pure and base in self.unwritten)

    def load_splat(self, base: Val, index: Affine, dtype: str, pure: bool = True) -> Val:
        """As `load_at`."""
        return super().load_splat(base, index, dtype, pure and base in self.unwritten)

    def load_lanes(self, base: Val, index: Affine, dtype: str, lanes: int = 0, pure: bool = True) -> Val:
        """As `load_at`."""
        return super().load_lanes(base, index, dtype, lanes, pure and base in self.unwritten)
