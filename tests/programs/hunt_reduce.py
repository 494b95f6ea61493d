"""Makes the cases of a hunt small: fewer and smaller choices first, then fewer instructions of the module that these
give."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from xla_wasm.builder import module as module_of
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.dtypes import Array
from xla_wasm.passes.clone import clone
from xla_wasm.reference import evaluate


class Choices:
    """Choices by a seed or again as they were, each as its distance from the least: a shorter list of smaller numbers
    is a simpler case."""

    def __init__(self, seed: str = "", again: Sequence[int] | None = None):
        self._rng = random.Random(seed)
        self._again = again
        self.made: list[int] = []

    def __call__(self, low: int, high: int) -> int:
        if self._again is None:
            chosen = self._rng.randint(low, high) - low
        else:
            at = len(self.made)
            chosen = min(self._again[at], high - low) if at < len(self._again) else 0
        self.made.append(chosen)
        return low + chosen


def fewer_choices(made: list[int], fails: Callable[[list[int]], bool], seconds: float) -> list[int]:
    """The least list of choices found, in that time, that still fails."""
    end = time.monotonic() + seconds
    best = made

    def better(candidate: list[int]) -> bool:
        nonlocal best
        if candidate != best and time.monotonic() < end and fails(candidate):
            best = candidate
            return True
        return False

    before: list[int] = []
    while best != before and time.monotonic() < end:
        before = best
        size = max(1, len(best) // 2)
        while size:
            at = 0
            while at < len(best):
                if not better(best[:at] + best[at + size :]):
                    at += size
            size //= 2
        for at in range(len(before)):
            if at >= len(best) or not best[at]:
                continue
            for smaller in (0, best[at] // 2, best[at] - 1):
                if smaller < best[at] and better([*best[:at], smaller, *best[at + 1 :]]):
                    break
    return best


def fewer_instructions(
    module: Module, arguments: list[Array], fails: Callable[[Module, list[Array]], bool], seconds: float
) -> tuple[Module, list[Array]]:
    """The least module found, in that time, that still fails: fewer results, an earlier root, values given instead of
    computed."""
    end = time.monotonic() + seconds
    done = False
    while not done:
        done = True
        for candidate in _candidates(module, arguments):
            if time.monotonic() > end:
                return module, arguments
            smaller = candidate()
            if smaller is not None and fails(*smaller):
                module, arguments = smaller
                done = False
                break
    return module, arguments


def _candidates(module: Module, arguments: list[Array]) -> list[Callable[[], tuple[Module, list[Array]] | None]]:
    entry = module.entry
    found: list[Callable[[], tuple[Module, list[Array]] | None]] = []
    if entry.root.opcode == "tuple":
        for k in range(len(entry.root.operands)):
            found.append(
                lambda k=k: _rooted(module, arguments, [o for i, o in enumerate(entry.root.operands) if i != k])
            )  # type: ignore[misc]
    for x in entry.instructions:
        if x.shape.is_array and x.opcode not in ("parameter", "constant") and x is not entry.root:
            found.append(lambda x=x: _rooted(module, arguments, [x]))  # type: ignore[misc]
    for x in entry.instructions[::-1]:
        if x.shape.is_array and x.opcode not in ("parameter", "constant") and x is not entry.root:
            found.append(lambda x=x: _given(module, arguments, x))  # type: ignore[misc]
        if x.opcode not in ("parameter", "constant", "tuple"):
            for operand in x.operands:
                if operand.shape == x.shape and operand.shape.is_array:
                    found.append(lambda x=x, operand=operand: _skipping(module, arguments, x, operand))  # type: ignore[misc]
    return found


def _copied(module: Module) -> tuple[Module, dict[str, Instruction]]:
    copy = clone(module)
    return copy, {x.name: x for x in copy.entry.instructions}


def _rooted(module: Module, arguments: list[Array], roots: Sequence[Instruction]) -> tuple[Module, list[Array]] | None:
    """The module with other results."""
    if not roots:
        return None
    copy, named = _copied(module)
    chosen = [named[x.name] for x in roots]
    root = chosen[0]
    if len(chosen) > 1:
        root = Instruction("results", "tuple", Shape("tuple", tuple_shapes=tuple(x.shape for x in chosen)), chosen)
    return _pruned(copy, root, arguments)


def _given(module: Module, arguments: list[Array], x: Instruction) -> tuple[Module, list[Array]] | None:
    """The module with a parameter instead of an instruction."""
    only = _rooted(module, arguments, [x])
    if only is None:
        return None
    value = evaluate(only[0], *only[1])[0]
    copy, named = _copied(module)
    p = Instruction(f"{x.name}.given", "parameter", x.shape, attrs={"parameter_number": len(arguments)})
    p.attrs |= (
        {name: v for name, v in copy.entry.parameters[0].attrs.items() if name != "parameter_number"}
        if arguments
        else {}
    )
    copy.entry.instructions.insert(0, p)
    _replace(copy.entry, named[x.name], p)
    return _pruned(copy, copy.entry.root, [*arguments, value])


def _skipping(
    module: Module, arguments: list[Array], x: Instruction, operand: Instruction
) -> tuple[Module, list[Array]] | None:
    """The module with an operand instead of an instruction."""
    copy, named = _copied(module)
    _replace(copy.entry, named[x.name], named[operand.name])
    return _pruned(copy, copy.entry.root, arguments)


def _replace(entry: Computation, old: Instruction, new: Instruction) -> None:
    for user in entry.instructions:
        user.operands = [new if o is old else o for o in user.operands]
    if entry.root is old:
        entry.root = new


def _pruned(module: Module, root: Instruction, arguments: list[Array]) -> tuple[Module, list[Array]]:
    """The module with this root and only what it needs."""
    needed: set[Instruction] = set()
    pending = [root]
    while pending:
        x = pending.pop()
        if x not in needed:
            needed.add(x)
            pending += x.operands
    kept = [x for x in module.entry.instructions if x in needed and x is not root] + [root]
    parameters = sorted((x for x in kept if x.opcode == "parameter"), key=lambda x: x.attrs["parameter_number"])
    arguments = [arguments[x.attrs["parameter_number"]] for x in parameters]
    for number, x in enumerate(parameters):
        x.attrs["parameter_number"] = number
    return module_of(module.name, Computation(module.entry.name, kept, root)), arguments
