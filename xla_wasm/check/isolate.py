"""Finds the first instruction whose compiled form computes something else than the reference evaluator.

Calls are inlined first. Then the instructions of a computation are compiled in batches that return every value they
make, and each value is judged by what the evaluator makes of the operands that the compiled code had: so an error shows
where it begins and not where it goes. A loop's body is compiled by itself and tried on the evaluator's state of every
trip, a branch on its argument. What differs only beside others is searched for in windows that return no more than the
module needs of them, and those are cut down as far as the difference stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..dataclass import dataclass, replace
from ..errors import RunError, XlaWasmError, counted
from ..hlo.ir import Computation, Instruction, Module
from ..ops.dtypes import Array, Value, nested
from ..ops.exactness import is_constant
from ..ops.hostio.reference import HostSide
from ..ops.hostio.transfers import Starts
from ..passes import pipeline
from ..passes.clone import clone
from ..reference import evaluate
from .excerpt import (
    Excerpt,
    Run,
    Verdict,
    beyond_rounding,
    excerpt,
    first_difference,
    holds_arrays,
    judge,
    outputs_of,
    tolerance_in,
    users_of,
)
from .steps import OPAQUE, Path, Steps, Values, can_run, chosen_branch, prepared, reaching

_WINDOWS = (8, 64, 512)
_MOST_TRIPS = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """The instruction that differs, and a module with arguments that shows it.

    `path` says inside what it was met, outermost first. `company` lists what must be compiled with it for the
    difference to show; `note` is what else is known. `verdict` is None if it does not run at all.
    """

    instruction: Instruction
    path: Path
    excerpt: Excerpt
    arguments: tuple[Array, ...]
    verdict: Verdict | None
    company: tuple[Instruction, ...] = ()
    note: str = ""


def isolate(
    module: Module,
    arrays: Sequence[Array],
    run: Run,
    notify: Callable[[str], None] = lambda text: None,
    host: HostSide | None = None,
) -> Finding | None:
    """The first instruction of the module that differs on these flattened arguments, and what the host feeds; None if
    none does."""
    plain, arguments = prepared(module, arrays)
    search = _Search(run, notify, Starts(plain.instructions()), host)
    with np.errstate(all="ignore"):
        flat = iter(arguments)
        found = search.computation(plain.entry, [nested(p.shape, flat) for p in plain.entry.parameters], ())
        if found is None:
            flat = iter(arguments)
            found = search.windows(plain.entry, [nested(p.shape, flat) for p in plain.entry.parameters])
    if found is None:
        return None
    changed = culprit_pass(found.excerpt.module, found.arguments)
    note = f"the reference evaluator, too, gives other values after the pass {changed}" if changed else ""
    return replace(found, note="; ".join(filter(None, (found.note, note))))


def culprit_pass(module: Module, arrays: Sequence[Array]) -> str:
    """The first pass of the compiler after which the reference evaluator gives something else; empty if there is
    none."""
    try:
        true = evaluate(module, *arrays)
        changed = clone(module)
        allowed = tolerance_in(module)
        for pass_ in pipeline.PASSES:
            pass_(changed)
            if first_difference(tuple(evaluate(changed, *arrays)), tuple(true), lambda i, leaf: allowed(leaf.dtype)):
                return pass_.__name__
    except XlaWasmError:
        pass  # forms that only the compiler knows
    return ""


class _Search(Steps[Finding]):
    def __init__(self, run: Run, notify: Callable[[str], None], starts: Starts, host: HostSide | None):
        super().__init__(run, notify, starts, host)
        self._parts: dict[Computation, Excerpt] = {}

    def look(
        self, x: Instruction, batch: list[Instruction], values: Values, is_compiled: bool, path: Path
    ) -> Finding | None:
        """Judges a value by the operands that it was made of."""
        if not is_compiled or judge(self.evaluator, x, values[x], [values[o] for o in x.operands]) is None:
            return None
        return self._confirmed(x, batch, values, path)

    def failed(self, x: Instruction, values: Values, error: XlaWasmError, path: Path) -> Finding | None:
        """A trap is a finding."""
        if not isinstance(error, RunError):
            return None
        part = excerpt("batch", [x], [x])
        return Finding(x, path, part, tuple(part.arguments(values.__getitem__)), None, note=str(error))

    def _confirmed(self, x: Instruction, batch: list[Instruction], values: Values, path: Path) -> Finding | None:
        """`x` compiled by itself on the same operands or, if it is right then, with ever more of what stands before
        it."""
        alone = excerpt(x.name, [x], [x])
        arguments = alone.arguments(values.__getitem__)
        try:
            actual = nested(x.shape, iter(self.run(alone.module, arguments)))
        except RunError as error:
            return Finding(x, path, alone, tuple(arguments), None, note=str(error))
        except XlaWasmError:
            return None
        verdict = judge(self.evaluator, x, actual, [values[o] for o in x.operands])
        if verdict is not None:
            return Finding(x, path, alone, tuple(arguments), verdict)
        end, size = batch.index(x) + 1, 2
        while size < 2 * end:
            found = self._window(reaching(batch[max(end - size, 0) : end], [x]), [x], values, path)
            if found is not None:
                return found
            size *= 2
        return None

    def _window(
        self,
        window: Sequence[Instruction],
        roots: Sequence[Instruction],
        values: Values,
        path: Path,
    ) -> Finding | None:
        """Returns a finding if these instructions, compiled together, fail to run, or differ at a root by more than
        their rounding errors can explain."""
        part = excerpt("window", window, roots)
        arguments = part.arguments(values.__getitem__)
        try:
            results = self.run(part.module, arguments)
        except RunError as error:
            return Finding(roots[-1], path, part, tuple(arguments), None, tuple(window), str(error))
        except XlaWasmError:
            return None
        verdict = beyond_rounding(part.module, arguments, tuple(results), tuple(evaluate(part.module, *arguments)))
        if verdict is None:
            return None
        leaves = [x for x in roots for _ in x.shape.leaves()]
        root = leaves[verdict.leaf]
        company = tuple(y for y in window if y is not root and not is_constant(y))
        return Finding(root, path, part, tuple(arguments), verdict, company)

    # --- loops and branches -------------------------------------------------------------------------------------

    def control(self, x: Instruction, values: Values, path: Path) -> Finding | None:
        operands = [values[o] for o in x.operands]
        if not can_run(x) or not all(holds_arrays(o.shape) for o in x.operands):
            values[x] = self.evaluator.run(x, operands)
            return None
        inner = self._loop(x, operands[0], path) if x.opcode == "while" else self._branch(x, operands, path)
        if isinstance(inner, Finding):
            return inner
        values[x] = expected = inner
        part = excerpt(x.name, [x], [x])
        arguments = part.arguments(values.__getitem__)
        try:
            actual = nested(x.shape, iter(self.run(part.module, arguments)))
        except RunError as error:
            return Finding(x, path, part, tuple(arguments), None, note=str(error))
        except XlaWasmError:
            return None
        verdict = beyond_rounding(part.module, arguments, actual, expected)
        if verdict is None:
            return None
        return Finding(
            x,
            path,
            part,
            tuple(arguments),
            verdict,
            note="what it calls agrees, compiled by itself, on every state it gets",
        )

    def _loop(self, x: Instruction, state: Value, path: Path) -> Value | Finding:
        """The final state, or what differs in the body or condition."""
        body, condition = x.called
        trip = 0
        while True:
            inside = (*path, f"{x.name}, trip {trip}")
            if trip < _MOST_TRIPS:
                found = self._called(condition, [state], (*inside, "condition"), trip == 0)
                if found is not None:
                    return found
            if not bool(self.evaluator(condition, state)):
                return state
            if trip < _MOST_TRIPS:
                self.notify(" > ".join(inside))
                found = self._called(body, [state], (*inside, "body"), trip == 0)
                if found is not None:
                    return found
            state = self.evaluator(body, state)
            trip += 1

    def _branch(self, x: Instruction, operands: list[Value], path: Path) -> Value | Finding:
        index = chosen_branch(x, operands[0])
        found = self._called(x.called[index], [operands[1 + index]], (*path, f"{x.name}, branch {index}"))
        return found if found is not None else self.evaluator(x.called[index], operands[1 + index])

    def _called(self, computation: Computation, args: list[Value], path: Path, first: bool = True) -> Finding | None:
        """The first instruction that differs in a computation: each is looked at the first time, and later if the whole
        differs."""
        parameters = computation.parameters
        inner = [x for x in computation.instructions if x.opcode != "parameter"]
        if not inner or not holds_arrays(computation.root.shape) or not all(holds_arrays(p.shape) for p in parameters):
            return None
        if first:
            return self.computation(computation, args, path)
        part = self._parts.get(computation)
        if part is None:
            part = self._parts[computation] = excerpt(computation.name, inner, [computation.root])
        values = dict(zip(parameters, args))
        arguments = part.arguments(values.__getitem__)
        try:
            actual = nested(computation.root.shape, iter(self.run(part.module, arguments)))
        except XlaWasmError:
            return self.computation(computation, args, path)
        expected = self.evaluator(computation, *args)
        if beyond_rounding(part.module, arguments, actual, expected) is None:
            return None
        return self.computation(computation, args, path)

    # --- what differs only in company ---------------------------------------------------------------------------

    def windows(self, computation: Computation, args: list[Value]) -> Finding | None:
        """The smallest run of instructions that differs as a whole, looked for in ever larger windows."""
        body = [x for x in computation.instructions if x.opcode != "parameter"]
        users = users_of(computation.instructions)
        for size in (*(w for w in _WINDOWS if w < len(body)), len(body)):
            values = dict(zip(computation.parameters, args))
            for number, window in enumerate(_pieces(body, size)):
                self.notify(f"{counted(size, 'instruction')} together, for the {number + 1}th time")
                found = self._natural(window, values, users, computation.root)
                if found is not None:
                    return self._cut(found, window, values, users, computation.root)
                for x in window:
                    values[x] = self.evaluator.run(x, [values[o] for o in x.operands])
        return None

    def _natural(
        self,
        window: Sequence[Instruction],
        values: Values,
        users: dict[Instruction, list[Instruction]],
        root: Instruction,
    ) -> Finding | None:
        roots = [x for x in outputs_of(window, users, root) if holds_arrays(x.shape) and x.opcode not in OPAQUE]
        return self._window(reaching(window, roots), roots, values, ()) if roots else None

    def _cut(
        self,
        found: Finding,
        window: list[Instruction],
        values: Values,
        users: dict[Instruction, list[Instruction]],
        root: Instruction,
    ) -> Finding:
        """Less of the window, from its end and then from its beginning, as long as the difference stays."""
        values = dict(values)
        step = len(window) // 2
        while step:
            shorter = window[:-step]
            smaller = self._natural(shorter, values, users, root) if shorter else None
            if smaller is None:
                step //= 2
            else:
                found, window = smaller, shorter
                step = min(step, len(window) // 2)
        step = len(window) // 2
        while step:
            head, shorter = window[:step], window[step:]
            known = dict(values)
            for x in head:
                known[x] = self.evaluator.run(x, [known[o] for o in x.operands])
            smaller = self._natural(shorter, known, users, root) if shorter else None
            if smaller is None:
                step //= 2
            else:
                found, window, values = smaller, shorter, known
                step = min(step, len(window) // 2)
        return found


def _pieces(body: Sequence[Instruction], size: int) -> Iterator[list[Instruction]]:
    """Runs of at most `size` instructions; what cannot be compiled as part of one is a run of its own."""
    piece: list[Instruction] = []
    for x in body:
        if piece and (len(piece) >= size or x.opcode in OPAQUE or piece[-1].opcode in OPAQUE):
            yield piece
            piece = []
        piece.append(x)
    if piece:
        yield piece
