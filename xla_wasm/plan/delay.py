"""Has the next value of a state, or of what a loop carries, made behind all that reads the old one: then it can be made
in its place."""

from __future__ import annotations

from .plan import Buffer, Plan, Step


def delay_updates(plan: Plan) -> None:
    """Moves kernels that read such old values up, past those that make the new ones and what depends on these."""
    order, loops = _Order(plan), plan.innermost_loops()
    for i, step in enumerate(plan.steps):
        if step.kind == "kernel" and step.func is None:
            old, new = (v.buffer for v in step.arguments)
            if old in plan.states or i in loops:
                order.delay(old, new, i)


class _Order:
    """The steps of a plan, while some of them change places."""

    def __init__(self, plan: Plan):
        self.steps = plan.steps
        self.place = {step: i for i, step in enumerate(plan.steps)}
        self.targets = {label.step for step in plan.steps for label in step.targets}
        self.users: dict[Buffer, list[Step]] = {}
        for step in plan.steps:
            for buffer in dict.fromkeys([v.buffer for v in step.arguments]):
                self.users.setdefault(buffer, []).append(step)

    def delay(self, old: Buffer, new: Buffer, end: int) -> None:
        """Puts all kernels that use `old` before what makes `new` of it, which step `end` copies to `old`, if they may
        stand there."""
        using = sorted(self.place[step] for step in self.users[old] if self.place[step] < end)
        first = next((i for i in using if new in _written(self.steps[i])), end)
        if first == end or using[-1] == first or not _may_overwrite(self.steps[first], old):
            return
        stop = using[-1] + 1
        if not self.targets.isdisjoint(range(first + 1, stop)):
            return
        early: list[Step] = []
        late: list[Step] = []
        written = set[Buffer]()
        used = set[Buffer]()
        for step in self.steps[first:stop]:
            buffers = {v.buffer for v in step.arguments}
            if step.kind != "kernel":
                return
            if late and written.isdisjoint(buffers):
                assert used.isdisjoint(_written(step)), "what is written has not been read before, but at a loop's end"
                early.append(step)
                continue
            if late and old in buffers:
                return
            late.append(step)
            written.update(_written(step))
            used |= buffers
        self.steps[first:stop] = [*early, *late]
        self.place.update((step, first + i) for i, step in enumerate((*early, *late)))


def _written(step: Step) -> list[Buffer]:
    return [v.buffer for v in step.arguments[: step.written]]


def _may_overwrite(step: Step, old: Buffer) -> bool:
    """Returns True if the first thing that a step writes may lie where it reads this."""
    allowed = (1,) if step.func is None else step.in_place
    return any(step.arguments[k].buffer is old for k in allowed)
