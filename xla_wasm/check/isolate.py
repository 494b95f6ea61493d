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
from ..errors import RunError, UnsupportedError, XlaWasmError, counted
from ..hlo.ir import Computation, Instruction, Module
from ..ops.dtypes import Array, Value, nested
from ..ops.exactness import is_constant, is_structure
from ..ops.hostio.reference import HostSide
from ..ops.hostio.transfers import Starts
from ..ops.table import OPS
from ..passes import pipeline
from ..passes.clone import clone
from ..passes.expand import expand, lower_host_transfers
from ..reference import Evaluator, evaluate
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

_CONTROL = frozenset(opcode for opcode, op in OPS.items() if op.control)
_OPAQUE = frozenset(opcode for opcode, op in OPS.items() if op.effect)
"""They give another value each time, or need somebody outside: the evaluator's value stands for theirs."""
_BATCH = 48
_BATCH_BYTES = 1 << 26
_WINDOWS = (8, 64, 512)
_MOST_TRIPS = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """The instruction that differs, and a module with arguments that shows it.

    `path` says inside what it was met, outermost first. `company` lists what must be compiled with it for the
    difference to show; `note` is what else is known. `verdict` is None if it does not run at all.
    """

    instruction: Instruction
    path: tuple[str, ...]
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
    prepared, arguments = _prepared(module, arrays)
    search = _Search(run, notify, Starts(prepared.instructions()), host)
    with np.errstate(all="ignore"):
        flat = iter(arguments)
        found = search.computation(prepared.entry, [nested(p.shape, flat) for p in prepared.entry.parameters], ())
        if found is None:
            flat = iter(arguments)
            found = search.windows(prepared.entry, [nested(p.shape, flat) for p in prepared.entry.parameters])
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


def _prepared(module: Module, arrays: Sequence[Array]) -> tuple[Module, list[Array]]:
    """The module without layouts and calls, and its arguments with their dimensions as they lie in memory."""
    declared = module.parameter_shapes or [p.shape for p in module.entry.parameters]
    leaves = [leaf for shape in declared for _, leaf in shape.leaves() if leaf.is_array]
    moved = [np.asarray(a).transpose(leaf.minor_to_major[::-1]) for a, leaf in zip(arrays, leaves, strict=True)]
    prepared = clone(module)
    for pass_ in pipeline.PASSES[: pipeline.PASSES.index(expand)]:
        if pass_ is not lower_host_transfers:  # the evaluator knows transfers, not what becomes of them
            pass_(prepared)
    shapes = [leaf for p in prepared.entry.parameters for _, leaf in p.shape.leaves() if leaf.is_array]
    if [s.dimensions for s in shapes] != [a.shape for a in moved]:
        raise UnsupportedError(f"{module.name}: instructions of a module with dynamic parameters cannot be isolated")
    return prepared, moved


class _Search:
    def __init__(self, run: Run, notify: Callable[[str], None], starts: Starts, host: HostSide | None):
        self.run = run
        self.notify = notify
        self.evaluator = Evaluator(precise=False, host=host, starts=starts)
        self._parts: dict[Computation, Excerpt] = {}

    def computation(self, computation: Computation, args: list[Value], path: tuple[str, ...]) -> Finding | None:
        """The first instruction of a computation that differs on these arguments, judged batch by batch."""
        values: dict[Instruction, Value] = {}
        batch: list[Instruction] = []
        last_use = {operand: i for i, x in enumerate(computation.instructions) for operand in x.operands}
        total = len(computation.instructions)
        for i, x in enumerate(computation.instructions):
            if x.opcode == "parameter":
                values[x] = args[x.attrs["parameter_number"]]
                continue
            alone = x.opcode in _CONTROL or x.opcode in _OPAQUE
            if alone or len(batch) >= _BATCH or sum(y.shape.bytes for y in batch) > _BATCH_BYTES:
                found = self._batch(batch, values, path)
                if found is not None:
                    return found
                batch = []
                values = {y: v for y, v in values.items() if last_use.get(y, total) >= i}
                self.notify(" > ".join((*path, f"{i} of {counted(total, 'instruction')}")))
            if x.opcode in _OPAQUE:
                values[x] = self.evaluator.run(x, [values[o] for o in x.operands])
            elif alone:
                found = self._control(x, values, path)
                if found is not None:
                    return found
            else:
                batch.append(x)
        return self._batch(batch, values, path)

    def _batch(
        self, batch: list[Instruction], values: dict[Instruction, Value], path: tuple[str, ...]
    ) -> Finding | None:
        """Judges every value of a batch by the operands it was made of, and adds them to `values`."""
        roots = [x for x in batch if _can_run(x)]
        actual: dict[Instruction, Value] = {}
        if roots:
            part = excerpt("batch", batch if len(batch) == len(roots) else _reaching(batch, roots), roots)
            try:
                actual = part.split(self.run(part.module, part.arguments(values.__getitem__)))
            except XlaWasmError as error:
                if len(batch) > 1:
                    half = len(batch) // 2
                    return self._batch(batch[:half], values, path) or self._batch(batch[half:], values, path)
                if isinstance(error, RunError):
                    arguments = tuple(part.arguments(values.__getitem__))
                    return Finding(batch[0], path, part, arguments, None, note=str(error))
        for x in batch:
            operands = [values[o] for o in x.operands]
            if x not in actual:
                values[x] = self.evaluator.run(x, operands)
                continue
            values[x] = actual[x]
            if judge(self.evaluator, x, actual[x], operands) is not None:
                found = self._confirmed(x, batch, values, path)
                if found is not None:
                    return found
        return None

    def _confirmed(
        self, x: Instruction, batch: list[Instruction], values: dict[Instruction, Value], path: tuple[str, ...]
    ) -> Finding | None:
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
            found = self._window(_reaching(batch[max(end - size, 0) : end], [x]), [x], values, path)
            if found is not None:
                return found
            size *= 2
        return None

    def _window(
        self,
        window: Sequence[Instruction],
        roots: Sequence[Instruction],
        values: dict[Instruction, Value],
        path: tuple[str, ...],
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

    def _control(self, x: Instruction, values: dict[Instruction, Value], path: tuple[str, ...]) -> Finding | None:
        operands = [values[o] for o in x.operands]
        if not _can_run(x) or not all(holds_arrays(o.shape) for o in x.operands):
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

    def _loop(self, x: Instruction, state: Value, path: tuple[str, ...]) -> Value | Finding:
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

    def _branch(self, x: Instruction, operands: list[Value], path: tuple[str, ...]) -> Value | Finding:
        selector, count = operands[0], len(x.called)
        index = (
            (0 if selector else 1)
            if selector.dtype == bool
            else int(selector)
            if 0 <= int(selector) < count
            else count - 1
        )
        found = self._called(x.called[index], [operands[1 + index]], (*path, f"{x.name}, branch {index}"))
        return found if found is not None else self.evaluator(x.called[index], operands[1 + index])

    def _called(
        self, computation: Computation, args: list[Value], path: tuple[str, ...], first: bool = True
    ) -> Finding | None:
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
        values: dict[Instruction, Value],
        users: dict[Instruction, list[Instruction]],
        root: Instruction,
    ) -> Finding | None:
        roots = [x for x in outputs_of(window, users, root) if holds_arrays(x.shape) and x.opcode not in _OPAQUE]
        return self._window(_reaching(window, roots), roots, values, ()) if roots else None

    def _cut(
        self,
        found: Finding,
        window: list[Instruction],
        values: dict[Instruction, Value],
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
        if piece and (len(piece) >= size or x.opcode in _OPAQUE or piece[-1].opcode in _OPAQUE):
            yield piece
            piece = []
        piece.append(x)
    if piece:
        yield piece


def _can_run(x: Instruction) -> bool:
    """Returns True if the value of an instruction can be asked of compiled code and says something about it."""
    if is_structure(x) or x.opcode in _OPAQUE or is_constant(x):
        return False
    return holds_arrays(x.shape) and all(holds_arrays(o.shape) for o in x.operands)


def _reaching(window: Sequence[Instruction], roots: Sequence[Instruction]) -> list[Instruction]:
    """Returns the instructions of `window` that the roots need, themselves included."""
    needed = dict.fromkeys(roots)
    for x in reversed(window):
        if x in needed:
            needed.update(dict.fromkeys(x.operands))
    return [x for x in window if x in needed]
