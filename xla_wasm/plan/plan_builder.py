"""A plan while it grows: its buffers and its steps, whichever computation they are for."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..hlo.index_map import row_major_strides
from ..hlo.ir import Instruction
from ..hlo.shape import Shape
from ..ops.collective.groups import COUNTS, FIRST_DEVICE
from .buffer import Buffer, View
from .elements import kernel_of
from .kernel import Expression, Kernel, KernelCache
from .plan import Copy, Launch, Steps

T = TypeVar("T")


class PlanBuilder:
    """The plan of a module while it is made."""

    def __init__(self, cache: KernelCache):
        self.cache = cache
        self.steps: Steps = []
        """The steps of the region that grows."""
        self.buffers: list[Buffer] = []
        self.constants: dict[Instruction, View] = {}
        self.configuration: View | None = None
        self.given: set[Buffer] = set()
        """Buffers that the host writes: truth values in them may be any byte but 0."""

    # --- buffers ------------------------------------------------------------------------------------------------

    def view(self, shape: Shape, kind: str = "temporary", name: str = "") -> View:
        """A new buffer for a dense row-major array."""
        buffer = Buffer(shape.bytes, kind, name)
        self.buffers.append(buffer)
        return View(buffer, shape.element_type, shape.dimensions, row_major_strides(shape.dimensions))

    def memory(self, content: int | bytes) -> View:
        """Memory of a kernel's own: so many bytes, or what begins with this content and outlives the run."""
        if isinstance(content, int):
            return self.view(Shape("u8", (content,)), name="row")
        made = self.view(Shape("u8", (len(content),)), "persistent", "state")
        made.buffer.data = content
        return made

    def device_number(self, which: int) -> View:
        """One of the numbers by which the host says which device this is."""
        if self.configuration is None:
            self.configuration = self.view(Shape("u32", (len(COUNTS),)), "configuration", "devices")
            self.configuration.buffer.data = struct.pack("<4I", *FIRST_DEVICE)
        return View(self.configuration.buffer, "u32", (), (), which)

    def constant(self, x: Instruction) -> View:
        """A constant that lies in memory from the start."""
        found = self.constants.get(x)
        if found is None:
            found = self.view(x.shape, "constant", x.name)
            found.buffer.data = x.attrs["literal"].row_major()
            self.constants[x] = found
        return found

    # --- steps --------------------------------------------------------------------------------------------------

    def region(self, emit: Callable[[], T]) -> tuple[Steps, T]:
        """The steps that are added meanwhile, and what the call returns."""
        around, self.steps = self.steps, []
        made = emit()
        steps, self.steps = self.steps, around
        return steps, made

    def launch(
        self, name: str, outputs: list[View], kernel: Kernel, inputs: Sequence[View], holds: Sequence[Instruction] = ()
    ) -> Launch:
        """Adds a step that launches a kernel: the last of its arguments are memory of its own."""
        sizes = kernel.scratch(self.cache)
        step = Launch(name, [*outputs, *inputs, *map(self.memory, sizes)], len(outputs), kernel=kernel, holds=[*holds])
        # Some of it may outlive the run.
        step.scratch = len(sizes) if all(isinstance(size, int) for size in sizes) else 0
        self.steps.append(step)
        return step

    def copy(self, target: View, source: View, name: str) -> None:
        """A step that copies one dense array onto another."""
        if not target.bytes or source.buffer is target.buffer:
            return
        if self.is_unsettled(source):
            self._settle(target, source, name)
        else:
            self.steps.append(Copy(name, [target, source], 1))

    def is_unsettled(self, view: View) -> bool:
        """Returns True for truth values as the host has written them, which kernels take as they load them: bytes that
        go on as they are must not be these."""
        return view.dtype == "pred" and view.buffer in self.given

    def settled(self, view: View, name: str) -> View:
        """The array itself, or where it has truth values from the host, one in which these are 0 and 1."""
        if not self.is_unsettled(view):
            return view
        made = self.view(Shape(view.dtype, view.dims), name=name)
        self.copy(made, view, name)
        return made

    def _settle(self, target: View, source: View, name: str) -> None:
        given = Instruction(f"{name}.given", "parameter", Shape(source.dtype, source.dims))
        copied = Instruction(name, "copy", given.shape, [given])
        expression = Expression(self.cache, [copied], lambda x: source if x is given else None)
        self.launch(name, [target], kernel_of(self.cache, expression), [source])

    def move(self, target: View, source: View, to: int, origin: int, count: int, name: str) -> None:
        """A step that copies so many elements from one position of a dense array to one of another, which may have the
        same memory."""
        views = [View(v.buffer, v.dtype, (count,), (1,), v.offset + at) for v, at in ((target, to), (source, origin))]
        self.steps.append(Copy(name, views, 1))

    def parallel_copy(self, targets: list[View], sources: list[View], x: Instruction) -> None:
        """Copies as if all at once: what lies in another target goes aside first."""
        own = {t.buffer for t in targets}
        moved = []
        for target, source in zip(targets, sources):
            if source == target:
                continue
            if source.buffer in own:
                aside = self.view(Shape(source.dtype, source.dims), name=f"{x.name}.aside")
                self.copy(aside, source, x.name)
                source = aside
            moved.append((target, source))
        for target, source in moved:
            self.copy(target, source, x.name)
