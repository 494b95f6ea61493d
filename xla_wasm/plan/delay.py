"""Has the next value of a state, or of what a loop carries, made behind all that reads the old one: then it can be made
in its place."""

from __future__ import annotations

from .buffer import Buffer
from .plan import Copy, Launch, Plan, Step, Steps, While


def delay_updates(plan: Plan) -> None:
    """Moves kernels that read such old values up, past those that make the new ones and what depends on these."""
    _delay(plan.steps, plan.states, False)


def _delay(steps: Steps, states: list[Buffer], in_loop: bool) -> None:
    order = _Order(steps)
    for step in steps:
        for part in () if isinstance(step, Step) else step.parts:
            _delay(part, states, in_loop or isinstance(step, While))
    copies = [step for step in steps if isinstance(step, Copy) and (in_loop or step.arguments[0].buffer in states)]
    for step in sorted(copies, key=lambda step: -step.bytes):
        old, new = (v.buffer for v in step.arguments)
        order.delay(old, new, step)


class _Order:
    """Steps one after another, while some of them change places."""

    def __init__(self, steps: Steps):
        self.steps = steps
        self.place = {step: i for i, step in enumerate(steps)}
        self.replaced: dict[Step, Buffer] = {}
        """The old value of each maker of a next one that is behind all that reads the old."""
        self.users: dict[Buffer, list[Step]] = {}
        for step in steps:
            if isinstance(step, Step):
                for buffer in dict.fromkeys([v.buffer for v in step.arguments]):
                    self.users.setdefault(buffer, []).append(step)

    def delay(self, old: Buffer, new: Buffer, copy: Copy) -> None:
        """Puts all kernels that use `old` before what makes `new` of it, which `copy` puts in its place, if they may
        stand there."""
        end = self.place[copy]
        using = sorted([step for step in self.users[old] if self.place[step] < end], key=self.place.__getitem__)
        maker = next((step for step in using if new in step.outputs), None)
        if maker is None or not any(maker.arguments[k].buffer is old for k in maker.may_overwrite):
            return
        first, stop = self.place[maker], self.place[using[-1]] + 1
        early: list[Step] = []
        late: list[Step] = []
        written = set[Buffer]()
        used = set[Buffer]()
        for step in self.steps[first:stop]:
            if not isinstance(step, Launch | Copy):
                return
            buffers = {v.buffer for v in step.arguments}
            if late and written.isdisjoint(buffers):
                assert used.isdisjoint(step.outputs), "what is written has not been read before, but at a loop's end"
                if self.replaced.get(step) in used:
                    return
                early.append(step)
                continue
            if late and old in buffers:
                return
            late.append(step)
            written.update(step.outputs)
            used |= buffers
        self.replaced[maker] = old
        self.steps[first:stop] = [*early, *late]
        self.place.update((step, first + i) for i, step in enumerate((*early, *late)))
