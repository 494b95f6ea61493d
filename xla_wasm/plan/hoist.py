"""Moves steps to where they run less often: out of loops, and out of the run into `init`."""

from __future__ import annotations

from .plan import Buffer, Label, Plan, Step, keep_funcs, keep_steps


def hoist(plan: Plan, poured: int | None = None) -> None:
    """Moves what a loop does not change before the loop, then what only constants or one weight decide into `init`.

    What is packed for a product in spite of that is read where it lies, if the product can do so.

    `poured`: constants of so many bytes or more come from a file, one after another.
    """
    everywhere = _writers(plan.steps)
    for number in range(len(plan.loops)):
        _out_of_loop(plan, number, everywhere)
    _into_init(plan, poured)
    _unpack(plan)


def _writers(steps: list[Step]) -> dict[Buffer, int]:
    """Returns the number of steps that write each buffer."""
    count: dict[Buffer, int] = {}
    for step in steps:
        for view in step.arguments[: step.written]:
            buffer = view.buffer.root()
            count[buffer] = count.get(buffer, 0) + 1
    return count


def _out_of_loop(plan: Plan, number: int, everywhere: dict[Buffer, int]) -> None:
    """`everywhere`: the number of steps of the plan that write each buffer."""
    start, end = plan.loops[number]
    inside = _writers(plan.steps[start : end + 1])
    moved: list[int] = []
    for i in range(start, end + 1):
        step = plan.steps[i]
        if step.kind != "kernel":
            continue
        outputs = [v.buffer.root() for v in step.arguments[: step.written]]
        inputs = [v.buffer.root() for v in step.arguments[step.written :]]
        if any(b.kind == "persistent" for b in inputs):
            continue  # what it keeps changes with every execution
        if all(everywhere[o] == 1 for o in outputs) and not any(inside.get(b) for b in inputs):
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


def _into_init(plan: Plan, poured: int | None) -> None:
    """Splits off the steps that run once: group 0 depends on constants alone, every other on one weight too, or one
    poured constant."""
    large = [b for b in plan.buffers if b.kind == "constant" and poured is not None and b.bytes >= poured]
    while True:
        groups, shared = _grouped(plan, large, poured or 0)
        if not shared:
            break
        large = [b for b in large if b not in shared]
    plan.poured = [b for number, b in enumerate(large) if len(plan.weights) + 1 + number in groups.values()]
    numbers = {
        len(plan.weights) + 1 + large.index(b): len(plan.weights) + 1 + number for number, b in enumerate(plan.poured)
    }
    for i, step in enumerate(plan.steps):
        if i in groups:
            plan.inits.setdefault(numbers.get(groups[i], groups[i]), []).append(step)
    keep_steps(plan, lambda i: i not in groups)
    _keep_what_is_read(plan)


def _keep_what_is_read(plan: Plan) -> None:
    """Makes the buffers that `init` writes persistent, except those that one group of its steps alone needs."""
    needed = {view.buffer.root() for view in plan.results}
    needed |= {view.buffer.root() for step in plan.steps for view in step.arguments}
    groups: dict[Buffer, set[int]] = {}
    for number, steps in plan.inits.items():
        for step in steps:
            for view in step.arguments:
                groups.setdefault(view.buffer.root(), set()).add(number)
    for number, steps in plan.inits.items():
        for step in steps:
            for buffer in [view.buffer.root() for view in step.arguments[: step.written]]:
                if buffer in needed or len(groups[buffer]) > 1:
                    buffer.kind = "persistent"
                else:
                    buffer.staged = number


def _unpack(plan: Plan) -> None:
    """Has products read their right side where it lies, if that would be packed as often as it is read."""
    packs: set[int] = set()
    for i, step in enumerate(plan.steps):
        if step.unpacked is not None and i and _packs(plan.steps[i - 1], step):
            plan.steps[i] = step.unpacked()
            packs.add(i - 1)
    if packs:
        keep_steps(plan, lambda i: i not in packs)
        keep_funcs(plan)


def _packs(step: Step, product: Step) -> bool:
    """Returns True if a step packs the right side of the product behind it."""
    return step.kind == "kernel" and step.arguments[0].buffer is product.arguments[2].buffer


def _grouped(plan: Plan, large: list[Buffer], poured: int) -> tuple[dict[int, int], set[Buffer]]:
    """The group of each step that runs once, and those of the large constants that more than their own group reads.

    Until these are none, the groups are not yet right: a poured constant is there while its group runs, and not before
    or after.
    """
    inside = plan.innermost_loops()
    past = _jumped_to(plan)
    written = _writers(plan.steps)
    lasting = len(plan.weights)
    group: dict[Buffer, int] = {b: 0 for b in plan.buffers if b.kind == "constant"}
    group |= {b: number + 1 for number, b in enumerate(plan.weights)}
    group |= {b: lasting + 1 + number for number, b in enumerate(large)}
    sources = set(large)
    results = {v.buffer.root() for v in plan.results}
    small = {b for b in plan.buffers if b.kind == "constant" and b.bytes < poured}
    found: dict[int, int] = {}
    shared = results & sources
    for i, step in enumerate(plan.steps):
        read = [v.buffer.root() for v in step.arguments[step.written :]]
        # What nobody writes is memory of the kernel's own.
        own = [b for b in read if b.kind == "temporary" and b not in written]
        inputs = [b for b in read if b not in own]
        outputs = [v.buffer.root() for v in step.arguments[: step.written]]
        direct = sources.intersection(inputs)
        needed = {group.get(b, -1) for b in inputs}
        weights = {number for number in needed if 0 < number <= lasting}
        movable = step.kind == "kernel" and step.func is not None and i not in inside and i >= past[i]
        movable = movable and -1 not in needed and len(weights) <= (0 if own else 1)
        movable = movable and all(written[o] == 1 and o not in results for o in outputs)
        if not movable:
            shared |= direct
            continue
        alone = {group[b] for b in inputs if b not in small}
        number = next(iter(alone)) if len(alone) == 1 else next(iter(weights), 0)
        if number <= lasting:
            shared |= direct
        found[i] = number
        group |= dict.fromkeys(outputs, number)
    return found, shared


def _jumped_to(plan: Plan) -> list[int]:
    """The farthest step that one before each step may jump to: one that lies before it may be jumped over."""
    farthest, found = 0, list[int]()
    for step in plan.steps:
        found.append(farthest)
        farthest = max([farthest, *(label.step for label in step.targets)])
    return found
