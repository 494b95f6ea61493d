"""Goes through a module instruction by instruction, with the values that compiled code gives them.

Calls are inlined first. The instructions of a computation are compiled in batches that return every value they make;
what compiled code cannot say, as random numbers of the device, the reference evaluator makes up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from ..errors import UnsupportedError, XlaWasmError, counted
from ..hlo.ir import Computation, Instruction, Module
from ..ops.dtypes import Array, Value
from ..ops.exactness import is_constant, is_structure
from ..ops.hostio.reference import HostSide
from ..ops.hostio.transfers import Starts
from ..ops.table import OPS
from ..passes import pipeline
from ..passes.clone import clone
from ..passes.expand import expand, lower_host_transfers
from ..reference import Evaluator
from .excerpt import Run, excerpt, holds_arrays

CONTROL = frozenset(opcode for opcode, op in OPS.items() if op.control)
OPAQUE = frozenset(opcode for opcode, op in OPS.items() if op.effect)
"""They give another value each time, or need somebody outside: the evaluator's value stands for theirs."""
_BATCH = 48
_BATCH_BYTES = 1 << 26

T = TypeVar("T")
Values = dict[Instruction, Value]
Path = tuple[str, ...]
"""Inside what an instruction was met, outermost first."""


def prepared(module: Module, arrays: Sequence[Array]) -> tuple[Module, list[Array]]:
    """The module without layouts and calls, and its arguments with their dimensions as they lie in memory."""
    declared = module.parameter_shapes or [p.shape for p in module.entry.parameters]
    leaves = [leaf for shape in declared for _, leaf in shape.leaves() if leaf.is_array]
    moved = [np.asarray(a).transpose(leaf.minor_to_major[::-1]) for a, leaf in zip(arrays, leaves, strict=True)]
    made = clone(module)
    for pass_ in pipeline.PASSES[: pipeline.PASSES.index(expand)]:
        if pass_ is not lower_host_transfers:  # the evaluator knows transfers, not what becomes of them
            pass_(made)
    shapes = [leaf for p in made.entry.parameters for _, leaf in p.shape.leaves() if leaf.is_array]
    if [s.dimensions for s in shapes] != [a.shape for a in moved]:
        raise UnsupportedError(f"{module.name}: instructions of a module with dynamic parameters cannot be isolated")
    return made, moved


class Steps(ABC, Generic[T]):
    """A walk through computations, which ends when `look`, `control` or `failed` finds something."""

    def __init__(
        self,
        run: Run,
        notify: Callable[[str], None],
        starts: Starts,
        host: HostSide | None,
    ):
        self.run = run
        self.notify = notify
        self.evaluator = Evaluator(precise=False, host=host, starts=starts)

    @abstractmethod
    def look(self, x: Instruction, batch: list[Instruction], values: Values, is_compiled: bool, path: Path) -> T | None:
        """Looks at the value of an instruction, which compiled code or else the evaluator gave; `batch` was compiled
        with it."""

    @abstractmethod
    def control(self, x: Instruction, values: Values, path: Path) -> T | None:
        """Adds the value of a loop or a branch to `values`, and looks at it."""

    @abstractmethod
    def failed(self, x: Instruction, values: Values, error: XlaWasmError, path: Path) -> T | None:
        """Says what it means that an instruction cannot be compiled and run by itself: the evaluator's value stands for
        its own if this is nothing."""

    def computation(self, computation: Computation, args: Sequence[Value], path: Path) -> T | None:
        """Goes through a computation on these arguments."""
        values: Values = {}
        batch: list[Instruction] = []
        last_use = {operand: i for i, x in enumerate(computation.instructions) for operand in x.operands}
        total = len(computation.instructions)
        for i, x in enumerate(computation.instructions):
            if x.opcode == "parameter":
                values[x] = args[x.attrs["parameter_number"]]
                continue
            alone = x.opcode in CONTROL or x.opcode in OPAQUE
            if alone or len(batch) >= _BATCH or sum(y.shape.bytes for y in batch) > _BATCH_BYTES:
                found = self._batch(batch, values, path)
                if found is not None:
                    return found
                batch = []
                values = {y: v for y, v in values.items() if last_use.get(y, total) >= i}
                self.notify(" > ".join((*path, f"{i} of {counted(total, 'instruction')}")))
            if x.opcode in OPAQUE:
                values[x] = self.evaluator.run(x, [values[o] for o in x.operands])
                found = self.look(x, [x], values, False, path)
            elif alone:
                found = self.control(x, values, path)
            else:
                batch.append(x)
                continue
            if found is not None:
                return found
        return self._batch(batch, values, path)

    def _batch(self, batch: list[Instruction], values: Values, path: Path) -> T | None:
        """Compiles instructions together, and looks at each in turn."""
        roots = [x for x in batch if can_run(x)]
        actual: Values = {}
        if roots:
            part = excerpt("batch", batch if len(batch) == len(roots) else reaching(batch, roots), roots)
            try:
                actual = part.split(self.run(part.module, part.arguments(values.__getitem__)))
            except XlaWasmError as error:
                if len(batch) > 1:
                    half = len(batch) // 2
                    found = self._batch(batch[:half], values, path)
                    return found if found is not None else self._batch(batch[half:], values, path)
                found = self.failed(batch[0], values, error, path)
                if found is not None:
                    return found
        for x in batch:
            operands = [values[o] for o in x.operands]
            values[x] = actual[x] if x in actual else self.evaluator.run(x, operands)
            found = self.look(x, batch, values, x in actual, path)
            if found is not None:
                return found
        return None


def can_run(x: Instruction) -> bool:
    """Returns True if the value of an instruction can be asked of compiled code and says something about it."""
    if is_structure(x) or x.opcode in OPAQUE or is_constant(x):
        return False
    return holds_arrays(x.shape) and all(holds_arrays(o.shape) for o in x.operands)


def reaching(window: Sequence[Instruction], roots: Sequence[Instruction]) -> list[Instruction]:
    """Returns the instructions of `window` that the roots need, themselves included."""
    needed = dict.fromkeys(roots)
    for x in reversed(window):
        if x in needed:
            needed.update(dict.fromkeys(x.operands))
    return [x for x in window if x in needed]


def chosen_branch(x: Instruction, selector: Array) -> int:
    """Returns the number of the branch of a conditional that a selector takes."""
    if selector.dtype == bool:
        return 0 if selector else 1
    return int(selector) if 0 <= int(selector) < len(x.called) else len(x.called) - 1
