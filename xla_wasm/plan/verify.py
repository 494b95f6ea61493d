"""Checks every kernel of a plan on the memory that its steps give it (see `loop.verify`), and that what shares a kernel
is alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..loop.emit import emit
from ..loop.verify import Argument, KernelError, Verified, verify
from .buffer import ALIGNMENT, Buffer, View
from .kernel import K, Kernel, KernelCache
from .plan import Launch, Plan, Step, all_steps, entries_of, joined_loops

BY_COMPARISON = ("sort",)
"""Kernels that go to places which comparisons of elements decide: no bounds of theirs are known before they run."""


class VerifiedCache(KernelCache):
    """Kernels by what they compute, each compared with what the next one of its key would be: a key has to have all
    that a lowering goes by."""

    def find(self, key: Any, decide: Callable[[], K]) -> K:
        """As `KernelCache.find`. Raises KernelError if the kernel would be another one."""
        known = key in self._found
        found = super().find(key, decide)
        if known and self._code(found) != self._code(again := decide()):
            first, other = (kernel.expression.roots[0].where for kernel in (found, again))
            raise KernelError(f"the kernel of {first} is that of {other}, too, whose code differs")
        return found

    def _code(self, kernel: Kernel) -> tuple[Any, ...]:
        lowered = kernel.write(KernelCache(self.target))
        made = emit(lowered.func)
        return bytes(made.code), made.locals, made.calls, lowered.may_overwrite, lowered.scratch


def verify_plan(plan: Plan) -> None:
    """Raises `KernelError` where a kernel is wrong, may leave its arguments, or writes where another of them lies.

    The plan's buffers have their places.
    """
    steps = all_steps(plan)
    own = _own(plan, steps)
    by_comparison = _by_comparison(plan, steps)
    known: dict[tuple[str, tuple[Argument, ...]], Verified] = {}
    for step in steps:
        if not isinstance(step, Launch):
            continue
        arguments = tuple(
            _argument(v, k < step.written or v.buffer.root() in own) for k, v in enumerate(step.arguments)
        )
        key = step.func.name, arguments
        verified = known.get(key)
        if verified is None:
            verified = known[key] = verify(step.func, arguments)
            if verified.unproven and step not in by_comparison:
                raise KernelError(verified.unproven[0])
        _apart(step, arguments, verified)


def _by_comparison(plan: Plan, steps: list[Step]) -> set[Step]:
    """The steps whose kernels are of `BY_COMPARISON`, and loops with such a kernel that are one themselves."""

    def compares(step: Step) -> bool:
        return isinstance(step, Launch) and step.func.name.startswith(BY_COMPARISON)

    loops = [loop for loop in joined_loops(plan.steps) if any(map(compares, entries_of([loop], joined=False)[0]))]
    return {*filter(compares, steps), *(loop.joined for loop in loops if loop.joined is not None)}


def _argument(view: View, written: bool) -> Argument:
    """The memory of an argument. Where it ends with its buffer, vectors may reach into the padding behind it."""
    size = view.extent
    if view.buffer.root().part:
        return Argument(size, size, written)  # each trip stays in its part: see `bring`
    total = view.buffer.bytes
    padded = max(ALIGNMENT, -(-total // ALIGNMENT) * ALIGNMENT)
    return Argument(size, padded - view.byte_offset if view.byte_offset + size == total else size, written)


def _own(plan: Plan, steps: list[Step]) -> set[Buffer]:
    """The memory that belongs to one kernel: no step is said to write it, and no other reads it."""
    others = {buffer for step in steps for buffer in step.outputs}
    others |= {v.buffer.root() for v in (*plan.parameters, *plan.results)}
    found: set[Buffer] = set()
    for step in steps:
        buffers = {*step.inputs}
        others |= buffers & found
        found |= buffers
    return {
        b
        for b in found - others
        if b.kind == "temporary" and b.data is None or b.kind == "persistent" and b.data is not None
    }


def _place(view: View, argument: Argument) -> tuple[int, int]:
    """Returns the begin and the end of an argument in memory: of one that comes in parts the place of each part."""
    root = view.buffer.root()
    return (root.address, root.address + root.part) if root.part else (view.address, view.address + argument.bytes)


def _apart(step: Launch, arguments: tuple[Argument, ...], verified: Verified) -> None:
    """No argument lies where the kernel writes another one, unless it reads each element before it writes it there."""
    for w, target in enumerate(step.arguments):
        if not arguments[w].written:
            continue
        for k, view in enumerate(step.arguments):
            (start, end), (first, last) = _place(target, arguments[w]), _place(view, arguments[k])
            if k == w or first >= end or start >= last:
                continue
            if (w, k) not in step.may_overwrite or view.address != start:
                raise KernelError(
                    f"kernel {verified.func.name} in {step.name}: writes argument {w} where argument {k} lies"
                )
            why = verified.reads_before_writing(w, k)
            if why:
                raise KernelError(why)
