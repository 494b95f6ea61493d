"""Moves steps to where they run less often: out of loops, and out of the run into `init`."""

from __future__ import annotations

from collections.abc import Container

from ..ops.reading import record
from .buffer import Buffer
from .cost import SMALL
from .plan import Conditional, Copy, Init, Launch, Plan, Step, Steps, While, entries_of, keep_steps


def hoist(plan: Plan, poured: int | None = None) -> None:
    """Moves what a loop does not change before the loop, then what only constants or one weight decide into `init`.

    What is packed for a product in spite of that is read where it lies, if the product can do so.

    `poured`: constants of so many bytes or more come from a file, one after another.
    """
    fills = _fills(plan)
    _out_of_loops(plan.steps, _writers(plan.steps), fills)
    _into_init(plan, poured, fills)
    _unpack(plan.steps)


def _writers(steps: Steps) -> dict[Buffer, int]:
    """Returns the number of steps that write each buffer."""
    count: dict[Buffer, int] = {}
    for step in entries_of(steps)[0]:
        for buffer in step.outputs:
            count[buffer] = count.get(buffer, 0) + 1
    return count


def _fills(plan: Plan) -> set[Step]:
    """The steps that fill memory with one number for copies alone: each may as well fill what is copied to, and nothing
    is copied, while a copy of what another step has filled takes as long, and that memory."""
    entries = entries_of(plan.steps)[0]
    others = {buffer for step in entries if not isinstance(step, Copy) for buffer in step.inputs}
    others |= {view.buffer for view in plan.results}
    return {
        step
        for step in entries
        if isinstance(step, Launch)
        and all(x.literal is not None or record(x).view for x in step.holds)
        and all(view.size == 1 for view in step.arguments[step.written :])
        and others.isdisjoint(step.outputs)
        and any(buffer.bytes > SMALL for buffer in step.outputs)
    }


def _out_of_loops(steps: Steps, everywhere: dict[Buffer, int], stay: Container[Step]) -> None:
    """Moves steps before loops, out of inner ones first, but for those that `stay`. `everywhere`: the number of steps
    of the plan that write each buffer."""
    made: Steps = []
    for step in steps:
        for part in () if isinstance(step, Step) else step.parts:
            _out_of_loops(part, everywhere, stay)
        if isinstance(step, While):
            made += _invariant(step, everywhere, stay)
        made.append(step)
    steps[:] = made


def _invariant(loop: While, everywhere: dict[Buffer, int], stay: Container[Step]) -> list[Step]:
    """Takes the steps out of a loop that it does not change."""
    inside = _writers([loop])
    moved: list[Step] = []
    for step in entries_of([loop])[0]:
        if not isinstance(step, Launch | Copy) or step in stay or any(b.kind == "persistent" for b in step.inputs):
            continue  # what a kernel keeps changes with every execution
        if all(everywhere[o] == 1 for o in step.outputs) and not any(inside.get(b) for b in step.inputs):
            moved.append(step)
            for o in step.outputs:
                inside[o] -= 1
    taken = set(moved)
    for part in loop.parts if moved else ():
        keep_steps(part, lambda step: step not in taken)
    return moved


def _into_init(plan: Plan, poured: int | None, stay: Container[Step]) -> None:
    """Splits off the steps that run once, by what they read beside constants: nothing, one weight, or one poured
    constant."""
    large = [b for b in plan.buffers if b.kind == "constant" and poured is not None and b.bytes >= poured]
    while True:
        sources, shared = _sources(plan, large, poured or 0, stay)
        if not shared:
            break
        large = [b for b in large if b not in shared]
    for step, source in sources.items():
        plan.inits.setdefault(source, Init()).steps.append(step)
    plan.steps = [step for step in plan.steps if step not in sources]
    _keep_what_is_read(plan)


def _keep_what_is_read(plan: Plan) -> None:
    """Makes the buffers that `init` writes persistent, except those that the steps of one source alone need."""
    needed = {view.buffer.root() for view in plan.results}
    needed |= {buffer for step in plan.entries for buffer in (*step.outputs, *step.inputs)}
    users: dict[Buffer, set[Buffer | None]] = {}
    for source, init in plan.inits.items():
        for step in init.steps:
            for buffer in (*step.outputs, *step.inputs):
                users.setdefault(buffer, set()).add(source)
    for source, init in plan.inits.items():
        for buffer in [buffer for step in init.steps for buffer in step.outputs]:
            if buffer in needed or len(users[buffer]) > 1:
                buffer.kind = "persistent"
            else:
                buffer.staged = plan.staging(source)


def _unpack(steps: Steps) -> None:
    """Has products read their right side where it lies, if that would be packed as often as it is read."""
    made: Steps = []
    for step in steps:
        for part in () if isinstance(step, Step) else step.parts:
            _unpack(part)
        if isinstance(step, Launch) and step.unpacked is not None and made and _packs(made[-1], step):
            made[-1] = step.unpacked
        else:
            made.append(step)
    steps[:] = made


def _packs(step: Step | While | Conditional, product: Launch) -> bool:
    """Returns True if a step packs the right side of the product behind it."""
    return isinstance(step, Launch) and step.arguments[0].buffer is product.arguments[2].buffer


def _sources(
    plan: Plan, large: list[Buffer], poured: int, stay: Container[Step]
) -> tuple[dict[Launch, Buffer | None], set[Buffer]]:
    """Of each step that runs once the one weight or large constant that it reads beside constants, or None; and those
    of the large constants that other steps read as well.

    Until these are none, the first is not yet right: a poured constant is there while its own steps run, and not before
    or after.
    """
    written = _writers(plan.steps)
    source: dict[Buffer, Buffer | None] = {b: None for b in plan.buffers if b.kind == "constant"}
    source |= {b: b for b in (*plan.weights, *large)}
    weights, separate = set(plan.weights), set(large)
    results = {v.buffer.root() for v in plan.results}
    small = {b for b in plan.buffers if b.kind == "constant" and b.bytes < poured}
    found: dict[Launch, Buffer | None] = {}
    shared = results & separate
    for step in plan.steps:
        if not isinstance(step, Launch):
            shared |= separate.intersection(b for s in entries_of([step])[0] for b in s.inputs)
            continue
        # What nobody writes is memory of the kernel's own.
        own = [b for b in step.inputs if b.kind == "temporary" and b not in written]
        inputs = [b for b in step.inputs if b not in own]
        direct = separate.intersection(inputs)
        of_weights = {b for b in (source.get(b) for b in inputs) if b in weights}
        movable = step not in stay and all(b in source for b in inputs) and len(of_weights) <= (0 if own else 1)
        if not movable or any(written[o] > 1 or o in results for o in step.outputs):
            shared |= direct
            continue
        alone = {source[b] for b in inputs if b not in small}
        only = next(iter(alone)) if len(alone) == 1 else next(iter(of_weights), None)
        if only not in separate:
            shared |= direct
        found[step] = only
        source |= dict.fromkeys(step.outputs, only)
    return found, shared
