"""Moves steps to where they run less often: out of loops, and out of the run into `init`."""

from __future__ import annotations

from .plan import Buffer, Label, Plan, Step


def hoist(plan: Plan) -> None:
    """Moves what a loop does not change before the loop, then what only constants or one weight decide into `init`."""
    for number in range(len(plan.loops)):
        _out_of_loop(plan, number)
    _into_init(plan)


def _writers(steps: list[Step]) -> dict[Buffer, int]:
    """How many steps write each buffer."""
    count: dict[Buffer, int] = {}
    for step in steps:
        for view in step.arguments[: step.written]:
            buffer = view.buffer.root()
            count[buffer] = count.get(buffer, 0) + 1
    return count


def _out_of_loop(plan: Plan, number: int) -> None:
    start, end = plan.loops[number]
    inside = _writers(plan.steps[start : end + 1])
    everywhere = _writers(plan.steps)
    moved: list[int] = []
    for i in range(start, end + 1):
        step = plan.steps[i]
        if step.kind != "kernel":
            continue
        outputs = [v.buffer.root() for v in step.arguments[: step.written]]
        inputs = [v.buffer.root() for v in step.arguments[step.written :]]
        if any(b.kind == "persistent" for b in inputs):
            continue  # what it keeps changes with every execution
        if all(everywhere[o] == 1 and o.kind == "temporary" for o in outputs) and not any(inside.get(b) for b in inputs):
            moved.append(i)
            for o in outputs:
                inside[o] -= 1
    if moved:
        taken = set(moved)
        order = [*range(start), *moved, *(i for i in range(start, len(plan.steps)) if i not in taken)]
        _reorder(plan, order, start, len(moved))


def _reorder(plan: Plan, order: list[int], start: int, count: int) -> None:
    """Puts the steps in a new order in which `count` steps moved up to `start`; labels and loops follow."""
    where = {old: new for new, old in enumerate(order)}
    moved = set(order[start : start + count])

    def follow(old: int) -> int:
        # A label on a step that moved stands for the next one that stayed.
        while old in moved:
            old += 1
        return where.get(old, old)

    labels: dict[Label, None] = {label: None for step in plan.steps for label in step.targets}
    for label in labels:
        label.step = follow(label.step)
    # The last step of a loop is its jump, which stays.
    plan.loops = [(follow(first), where[last]) for first, last in plan.loops]
    plan.steps = [plan.steps[i] for i in order]


def _into_init(plan: Plan) -> None:
    """Splits off the steps that run once: group 0 depends on constants alone, every other on one weight too."""
    first_jump = next((i for i, s in enumerate(plan.steps) if s.kind in ("branch", "switch", "jump")), len(plan.steps))
    inside = {i for first, last in plan.loops for i in range(first, last + 1)}
    written = _writers(plan.steps)
    group: dict[Buffer, int] = {b: 0 for b in plan.buffers if b.kind == "constant"}
    group |= {b: number + 1 for number, b in enumerate(plan.weights)}
    results = {v.buffer.root() for v in plan.results}
    kept: list[Step] = []
    renumbered: list[int] = []
    for i, step in enumerate(plan.steps):
        renumbered.append(len(kept))
        read = [v.buffer.root() for v in step.arguments[step.written :]]
        # What nobody writes is memory of the kernel's own.
        own = [b for b in read if b.kind == "temporary" and b not in written]
        inputs = {group.get(b, -1) for b in read if b not in own}
        outputs = [v.buffer.root() for v in step.arguments[: step.written]]
        needed = inputs - {0}
        movable = step.kind == "kernel" and step.func is not None and i not in inside and not _conditional(plan, i, first_jump)
        movable = movable and -1 not in inputs and len(needed) <= (0 if own else 1)
        movable = movable and all(written[o] == 1 and o.kind == "temporary" and o not in results for o in outputs)
        if not movable:
            kept.append(step)
            continue
        number = needed.pop() if needed else 0
        plan.inits.setdefault(number, []).append(step)
        for o in outputs:
            group[o] = number
            o.kind = "persistent"
    renumbered.append(len(kept))
    for label in {label: None for step in kept for label in step.targets}:
        label.step = renumbered[label.step]
    plan.loops = [(renumbered[first], renumbered[last]) for first, last in plan.loops]
    plan.steps = kept


def _conditional(plan: Plan, i: int, first_jump: int) -> bool:
    """Whether a step may be jumped over."""
    if i < first_jump:
        return False
    return any(
        j < i < label.step for j, step in enumerate(plan.steps[:i]) for label in step.targets if step.kind in ("branch", "switch", "jump")
    )
