"""The parts of a plan: buffers, views on them, and steps."""

from __future__ import annotations

from collections.abc import Callable

from ..dataclass import dataclass, field
from ..hlo.index_map import row_major_strides
from ..hlo.ir import Instruction
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from ..lines import Lines
from ..loop.affine import is_dense
from ..loop.ir import Func
from ..ops.request import Request

Data = bytes | memoryview

COPY = "copy"
"""The name of the kernel that copies bytes: no other has it."""

ALIGNMENT = 64
"""Buffers start at multiples of this many bytes and are padded to one, so that vectors may reach beyond their end."""


@dataclass(eq=False, slots=True)
class Buffer:
    """A range of linear memory. `first` and `last` are the steps between which it holds something; `address` comes
    last.

    `kind`: temporary (shares memory with others), parameter, constant (`data` holds its bytes), persistent, or
    configuration (what the host says about the device). `data` of a state's parameter is what it begins with.
    """

    bytes: int
    kind: str
    name: str = ""
    data: Data | None = None
    first: int = -1
    last: int = -1
    address: int = -1
    merged: Buffer | None = None
    staged: int = 0
    """The group of `init` that alone needs it: of a weight or poured constant that the host brings, has `init` make
    something else of, and only then brings the next, or of what that is made through. 0 of anything else."""
    part: int = 0
    """The bytes in memory at a time, if the host brings it in parts."""

    @property
    def padded(self) -> int:
        """The bytes that it takes in memory."""
        return max(ALIGNMENT, -(-(self.part or self.bytes) // ALIGNMENT) * ALIGNMENT)

    def root(self) -> Buffer:
        """The buffer whose memory this one shares."""
        buffer = self
        while buffer.merged is not None:
            buffer = buffer.merged
        return buffer


@dataclass(frozen=True, slots=True)
class View:
    """An array in a buffer: strides and offset count elements."""

    buffer: Buffer
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def of(buffer: Buffer, shape: Shape, offset: int = 0) -> View:
        """A dense row-major array."""
        return View(buffer, shape.element_type, shape.dimensions, row_major_strides(shape.dimensions), offset)

    @property
    def dense(self) -> bool:
        """True if the elements lie in row-major order without gaps."""
        return is_dense(self.dims, self.strides)

    @property
    def size(self) -> int:
        total = 1
        for size in self.dims:
            total *= size
        return total

    @property
    def bytes(self) -> int:
        return self.size * TYPES[self.dtype].bytes

    @property
    def extent(self) -> int:
        """The bytes from the first element to the end of the last: more than all elements have where there are gaps,
        less where some lie in the same place."""
        last = sum([(size - 1) * stride for size, stride in zip(self.dims, self.strides)])
        return (1 + last) * TYPES[self.dtype].bytes if self.size else 0

    @property
    def byte_offset(self) -> int:
        return self.offset * TYPES[self.dtype].bytes

    @property
    def address(self) -> int:
        return self.buffer.root().address + self.byte_offset

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, addresses: bool = True) -> str:
        """The array, the buffer whose memory it lies in, and how."""
        dims = ",".join(map(str, self.dims))
        root = self.buffer.root()
        place = root.name + (f"@{root.address}" if addresses else "") + (f"+{self.byte_offset}" if self.offset else "")
        return f"{self.dtype}[{dims}] in {place}" + ("" if self.dense else f" strides {self.strides}")


@dataclass(eq=False, slots=True)
class Step:
    """One entry of the step table.

    `kind`: kernel (call `func` on `arguments`; or with no `func` copy `bytes` from the second to the first), jump (to
    `target`), branch (to `target` where the pred `arguments[0]` is false), switch (to `targets` by the s32
    `arguments[0]`, the last where it is out of range), request (the host computes the arguments that are written) or
    halt. Targets are labels: positions in the list of steps.
    """

    kind: str
    name: str
    func: Func | None = None
    arguments: list[View] = field(default_factory=list)
    written: int = 0
    """The number of arguments that are written, the first ones."""
    bytes: int = 0
    targets: list[Label] = field(default_factory=list)
    request: Request | None = None
    in_place: tuple[int, ...] = ()
    """Arguments that the first one may overwrite: each element is read before it is written."""
    holds: list[Instruction] = field(default_factory=list)
    """The instructions that the kernel computes, operands first."""
    scratch: int = 0
    """The number of arguments, the last ones, that are memory which a call writes before it reads it: other threads
    have their own."""
    trips: tuple[int, int] | None = None
    """The trips of the kernel's range that the step makes, if not all: where a part of an array begins and ends."""
    unpacked: Callable[[], Step] | None = None
    """Makes what does the same without the step before it, which packs a right side."""

    def __str__(self) -> str:
        what = self.func.name if self.func else f"copy {self.bytes}" if self.kind == "kernel" else self.kind
        return f"{what}{''.join(f' -> {t.step}' for t in self.targets)}  # {self.name}"

    def details(self, addresses: bool) -> list[str]:
        """Returns lines of text: the instructions that the kernel holds, constants aside, and each of its arguments."""
        held = [x.name for x in self.holds if x.literal is None]
        lines = [f"holds {', '.join(held)}"] if held else []
        for i, view in enumerate(self.arguments):
            may = " may be overwritten" if i in self.in_place else ""
            lines.append(f"{'out' if i < self.written else 'in '} {view.to_text(addresses)}{may}")
        return lines


@dataclass(eq=False, slots=True)
class Label:
    """A place in the list of steps that is known later."""

    step: int = -1


@dataclass(eq=False, slots=True)
class Plan:
    """The whole program. `parameters` and `results` are views of the flattened entry signature."""

    steps: list[Step]
    buffers: list[Buffer]
    parameters: list[View]
    results: list[View]
    loops: list[tuple[int, int]]
    """First and last step of each loop, inner loops first: what lives across a loop lives for all of it."""
    funcs: dict[str, Func]
    weights: list[Buffer] = field(default_factory=list)
    """The parameters that are set once."""
    states: list[Buffer] = field(default_factory=list)
    """The parameters that a result replaces after each run."""
    poured: list[Buffer] = field(default_factory=list)
    """Constants that come from a file, one after another, and of which `init` makes what the run needs."""
    inits: dict[int, list[Step]] = field(default_factory=dict)
    """Steps that run before the first run: group 0 reads constants only, group i + 1 weight i as well. The groups after
    these read one of the poured constants each, and what was there from the start: they run before the others, each
    when its constant is there."""
    parts: dict[int, list[list[Step]]] = field(default_factory=dict)
    """Of groups whose weight comes in parts the steps for each part; all other steps of the group run after those for
    the last."""
    end: int = 0
    """The first address behind all buffers, once they are placed."""

    def innermost_loops(self) -> dict[int, tuple[int, int]]:
        """The innermost loop of each step that is in one."""
        return {i: (first, last) for first, last in reversed(self.loops) for i in range(first, last + 1)}

    def init_calls(self) -> list[tuple[int, list[Step]]]:
        """The steps of each call of `init`, by its number, and the group that they belong to: one call for each
        part."""
        calls: list[tuple[int, list[Step]]] = []
        for group, steps in self.inits.items():
            *parts, last = self.parts.get(group, [[]])
            calls += [(group, part) for part in parts] + [(group, [*last, *steps])]
        return calls

    def group_of(self, buffer: Buffer) -> int | None:
        """The group of `init` that makes something of a poured constant; None for other constants."""
        return 1 + len(self.weights) + self.poured.index(buffer) if buffer in self.poured else None

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
        for i, step in enumerate(self.steps):
            add_step(f"{i:4} {step}", step)
        lines.add(f"loop {first} to {last}" for first, last in self.loops)
        for group, steps in self.init_calls():
            for step in steps:
                trips = "" if step.trips is None else f", trips {step.trips[0]} to {step.trips[1]}"
                add_step(f"init {group}: {step}{trips}", step)
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


def keep_steps(plan: Plan, kept: Callable[[int], bool]) -> None:
    """Leaves the steps whose numbers are kept; a label on another stands for the next that is left."""
    renumbered: list[int] = []
    steps: list[Step] = []
    for i, step in enumerate(plan.steps):
        renumbered.append(len(steps))
        if kept(i):
            steps.append(step)
    renumbered.append(len(steps))
    for label in {label: None for step in steps for label in step.targets}:
        label.step = renumbered[label.step]
    plan.loops = [(renumbered[first], renumbered[last]) for first, last in plan.loops]
    plan.steps = steps


def keep_funcs(plan: Plan) -> None:
    """Leaves the functions that some step calls."""
    used = {step.func.name for step in all_steps(plan) if step.func}
    plan.funcs = {name: func for name, func in plan.funcs.items() if name in used}


def all_steps(plan: Plan) -> list[Step]:
    """All steps in the order of the step table: the run, then each call of `init`, each with its halt."""
    return plan.steps + [s for _, steps in plan.init_calls() for s in (*steps, Step("halt", "end"))]
