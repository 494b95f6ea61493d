"""The parts of a plan: buffers, views on them, and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..dataclass import dataclass, field
from ..hlo.ir import Instruction
from ..hlo.marks import Request
from ..lines import Lines
from ..loop.ir import Func
from .buffer import Buffer, View
from .kernel import InPlace, Kernel


@dataclass(eq=False, slots=True)
class Step:
    """Something that a program does with arrays in memory: an entry of the step table."""

    name: str
    """The instruction's."""
    arguments: list[View] = field(default_factory=list)
    written: int = 0
    """The number of arguments that are written, the first ones."""

    @property
    def outputs(self) -> list[Buffer]:
        """The memory that is written."""
        return [view.buffer.root() for view in self.arguments[: self.written]]

    @property
    def inputs(self) -> list[Buffer]:
        """The memory that is read, or a kernel's own."""
        return [view.buffer.root() for view in self.arguments[self.written :]]

    @property
    def may_overwrite(self) -> InPlace:
        """The arguments that others may overwrite."""
        return ()

    def __str__(self) -> str:
        return f"{self.title()}  # {self.name}"

    def title(self) -> str:
        """Returns some words on what the step does."""
        return type(self).__name__.lower()

    def details(self, addresses: bool) -> list[str]:
        """Returns a line of text for each argument."""
        return [
            f"{'out' if i < self.written else 'in '} {view.to_text(addresses)}" for i, view in enumerate(self.arguments)
        ]


@dataclass(eq=False, slots=True)
class Launch(Step):
    """Launches a kernel on its arguments."""

    kernel: Kernel = field(kw_only=True)
    may_overwrite: InPlace = ()
    holds: list[Instruction] = field(default_factory=list)
    """The instructions that the kernel computes, operands first."""
    scratch: int = 0
    """The number of arguments, the last ones, that are memory which a call writes before it reads it: other threads
    have their own."""
    trips: tuple[int, int] | None = None
    """The trips of the kernel's range that the step makes, if not all: where a part of an array begins and ends."""
    unpacked: Launch | None = None
    """Does the same without the step before it, which packs a right side."""
    lowered: Func | None = None

    @property
    def func(self) -> Func:
        """The kernel's loops, once it is lowered."""
        assert self.lowered is not None
        return self.lowered

    def title(self) -> str:
        return self.func.name

    def details(self, addresses: bool) -> list[str]:
        """Returns lines of text: what is decided about the kernel, the instructions that it holds, constants aside, and
        each argument."""
        held = [x.name for x in self.holds if x.literal is None]
        lines = Step.details(self, addresses)
        for read in dict.fromkeys(read for _, read in self.may_overwrite):
            lines[read] += " may be overwritten"
        return [str(self.kernel), *[f"holds {', '.join(held)}"] * bool(held), *lines]


@dataclass(eq=False, slots=True)
class LoopLaunch(Launch):
    """Launches a kernel that does what the steps of a loop do. A call of it makes many trips, not always all."""

    more: View = field(kw_only=True)
    """True if it is to be called again."""


@dataclass(eq=False, slots=True)
class Copy(Step):
    """Copies the bytes of the second argument to the first."""

    may_overwrite: InPlace = ((0, 1),)

    @property
    def bytes(self) -> int:
        return self.arguments[0].bytes

    @property
    def is_whole(self) -> bool:
        """True if it leaves nothing of its target as it was, and takes all of its source."""
        return all(v.bytes == v.buffer.root().bytes for v in self.arguments)

    def title(self) -> str:
        return f"copy {self.bytes}"


@dataclass(eq=False, slots=True)
class Ask(Step):
    """Has the host compute the arguments that are written."""

    request: Request = field(kw_only=True)

    def title(self) -> str:
        return "request"


@dataclass(eq=False, slots=True)
class Jump(Step):
    """Goes on with another entry of the table."""

    targets: list[int] = field(default_factory=list)

    def title(self) -> str:
        return Step.title(self) + "".join(f" -> {target}" for target in self.targets)


class Branch(Jump):
    """Goes on with another entry where the pred, its argument, is false."""


class Switch(Jump):
    """Goes on with one of several entries by the s32, its argument: the last one where that is out of range."""


class Halt(Step):
    """Ends the run, or a call of `init`."""


@dataclass(eq=False, slots=True)
class While:
    """A loop: the steps of its condition, then, where `go_on` is true behind them, those of its body."""

    name: str
    condition: Steps
    go_on: View
    body: Steps
    joined: LoopLaunch | None = None
    """A kernel in the place of all these steps."""

    @property
    def parts(self) -> list[Steps]:
        return [self.condition, self.body]


@dataclass(eq=False, slots=True)
class Conditional:
    """The steps of one part: of the first where the selector is true, else of the second; or of that which an s32
    chooses, the last one where it is out of range."""

    name: str
    selector: View
    parts: list[Steps]


Steps = list[Step | While | Conditional]


def entries_of(steps: Steps, joined: bool = True) -> tuple[list[Step], list[tuple[int, int]]]:
    """The entries of the step table, with jumps in the place of regions; and the first and last entry of each loop,
    inner loops first. Without `joined`, those of loops that are kernels, as if they were none."""
    entries: list[Step] = []
    loops: list[tuple[int, int]] = []
    _add_entries(steps, entries, loops, joined)
    return entries, loops


def _add_entries(steps: Steps, entries: list[Step], loops: list[tuple[int, int]], joined: bool) -> None:
    for step in steps:
        start = len(entries)
        if isinstance(step, While):
            whole = step.joined if joined else None
            _add_entries(step.condition if whole is None else [whole], entries, loops, joined)
            leave = Branch(step.name, [step.go_on if whole is None else whole.more])
            entries.append(leave)
            _add_entries(step.body if whole is None else [], entries, loops, joined)
            entries.append(Jump(step.name, targets=[start]))
            loops.append((start, len(entries) - 1))
            leave.targets = [len(entries)]
        elif isinstance(step, Conditional):
            choose = (Branch if step.selector.dtype == "pred" else Switch)(step.name, [step.selector])
            entries.append(choose)
            ends = []
            for part in step.parts:
                choose.targets.append(len(entries))
                _add_entries(part, entries, loops, joined)
                ends.append(Jump(step.name))
                entries.append(ends[-1])
            for end in ends:
                end.targets = [len(entries)]
            if isinstance(choose, Branch):
                del choose.targets[0]
        else:
            entries.append(step)


def joined_loops(steps: Steps) -> Iterator[While]:
    """The loops that are kernels."""
    for step in steps:
        if isinstance(step, While) and step.joined is not None:
            yield step
        else:
            for part in () if isinstance(step, Step) else step.parts:
                yield from joined_loops(part)


def keep_steps(steps: Steps, kept: Callable[[Step], bool]) -> None:
    """Leaves those steps that are kept, in regions as well."""
    for region in steps:
        for part in () if isinstance(region, Step) else region.parts:
            keep_steps(part, kept)
    steps[:] = [step for step in steps if not isinstance(step, Step) or kept(step)]


@dataclass(slots=True)
class Init:
    """Steps that `init` runs before the first run, when what they read is there."""

    steps: list[Launch] = field(default_factory=list)
    parts: list[list[Launch]] = field(default_factory=list)
    """Of a weight that comes in parts the steps for each part; all other steps run after those for the last."""

    def calls(self) -> list[list[Launch]]:
        """The steps of each call."""
        *parts, last = self.parts or [[]]
        return [*parts, [*last, *self.steps]]


@dataclass(eq=False, slots=True)
class Plan:
    """The whole program. `parameters` and `results` are views of the flattened entry signature."""

    steps: Steps
    buffers: list[Buffer]
    parameters: list[View]
    results: list[View]
    weights: list[Buffer] = field(default_factory=list)
    """The parameters that are set once."""
    states: list[Buffer] = field(default_factory=list)
    """The parameters that a result replaces after each run."""
    inits: dict[Buffer | None, Init] = field(default_factory=dict)
    """The steps before the first run, by the weight or the poured constant that they read beside other constants; None:
    constants alone. Poured constants come from a file, one after another."""
    end: int = 0
    """The first address behind all buffers, once they are placed."""

    @property
    def entries(self) -> list[Step]:
        """The entries of the step table for a run."""
        return entries_of(self.steps)[0]

    @property
    def funcs(self) -> dict[str, Func]:
        """The kernels by their names, as the steps launch them."""
        return {step.func.name: step.func for step in all_steps(self) if isinstance(step, Launch)}

    @property
    def poured(self) -> list[Buffer]:
        """The constants that come from a file, one after another, and of which `init` makes what the run needs."""
        return [source for source in self.inits if source is not None and source not in self.weights]

    def staging(self, source: Buffer | None) -> int:
        """The number by which buffers tell what alone needs them (`Buffer.staged`)."""
        return 0 if source is None else 1 + [s for s in self.inits if s is not None].index(source)

    def init_calls(self) -> list[tuple[Buffer | None, list[Launch]]]:
        """The steps of each call of `init`, by its number, and what they read: one call for each part."""
        return [(source, steps) for source, init in self.inits.items() for steps in init.calls()]

    def first_calls(self) -> dict[Buffer | None, int]:
        """The number of the first call of `init` for each source."""
        first: dict[Buffer | None, int] = {}
        for number, (source, _) in enumerate(self.init_calls()):
            first.setdefault(source, number)
        return first

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, addresses: bool = True) -> str:
        """The steps, which instructions the kernel of each holds, what it reads and writes, and how much memory there
        is.

        Without `addresses`, what lies in a place of its own says nothing of where.
        """
        return str(self.printed(addresses=addresses))

    def printed(self, *, addresses: bool = True) -> Lines[Step | View]:
        """The text, with the lines of each step, and of the view of each parameter and result."""
        lines = Lines[Step | View]()

        def add_step(head: str, step: Step) -> None:
            lines.add([head, *(f"       {line}" for line in step.details(addresses))], step)

        for i, v in enumerate(self.parameters):
            lines.add(f"parameter {i}: {v.to_text(addresses)}", v)
        entries, loops = entries_of(self.steps)
        inside = {loop.joined: loop for loop in joined_loops(self.steps)}
        for i, step in enumerate(entries):
            add_step(f"{i:4} {step}", step)
            if isinstance(step, Launch) and step in inside:
                for n, inner in enumerate(entries_of([inside[step]], joined=False)[0]):
                    details = [f"            {line}" for line in inner.details(addresses)]
                    lines.add([f"       {n:2} {inner}", *details], inner)
        lines.add(f"loop {first} to {last}" for first, last in loops)
        for source, steps in self.init_calls():
            for step in steps:
                trips = "" if step.trips is None else f", trips {step.trips[0]} to {step.trips[1]}"
                moves = ", moves numbers" if step.kernel.moves else ""
                add_step(f"init of {source.name if source else 'constants'}: {step}{trips}{moves}", step)
        for i, v in enumerate(self.results):
            lines.add(f"result {i}: {v.to_text(addresses)}", v)
        lines.add(self._memory())
        return lines

    def _memory(self) -> str:
        """The bytes of memory by the kinds of the buffers; of temporaries, which share theirs, the most at a time."""
        total: dict[str, int] = {}
        places: list[tuple[int, int]] = []
        for buffer in self.buffers:
            if buffer.merged is None and buffer.kind != "temporary":
                total[buffer.kind] = total.get(buffer.kind, 0) + buffer.padded
            elif buffer.merged is None and buffer.first >= 0:
                places.append((buffer.address, buffer.address + buffer.padded))
        if places:
            total["temporary"] = max(end for _, end in places) - min(start for start, _ in places)
        return f"memory: {sum(total.values())} bytes: {', '.join(f'{kind} {size}' for kind, size in total.items())}"


def all_steps(plan: Plan) -> list[Step]:
    """All entries of the step table in order: the run, then each call of `init`, each with its halt."""
    return plan.entries + [s for _, steps in plan.init_calls() for s in (*steps, Halt("end"))]
