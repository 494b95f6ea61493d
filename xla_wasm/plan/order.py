"""The order of steps that renew a state, or what a loop carries: behind all that reads the old value, so that the new
one can be made in its place; and no later than that, so that what it is made of needs its memory no longer."""

from __future__ import annotations

from collections.abc import Mapping

from .buffer import Buffer
from .cost import SMALL
from .plan import Ask, Conditional, Copy, Launch, Plan, Step, Steps, While, entries_of


def order_updates(plan: Plan) -> None:
    """Moves kernels that read such old values up, past those that make the new ones and what depends on these; then the
    latter to the first place where they may stand."""
    asks = any(isinstance(step, Ask) for step in plan.entries)  # the states stay to the end: the host may give up
    _order(plan.steps, set() if asks else {*plan.states}, False)


def _order(steps: Steps, states: set[Buffer], in_loop: bool) -> None:
    order = _Order(steps)
    for step in steps:
        for part in () if isinstance(step, Step) else step.parts:
            _order(part, states, in_loop or isinstance(step, While))
    copies = [step for step in steps if isinstance(step, Copy) and (in_loop or step.arguments[0].buffer in states)]
    for step in sorted(copies, key=lambda step: -step.bytes):
        old, new = (v.buffer for v in step.arguments)
        order.delay(old, new, step)
    if copies:
        order.hasten(copies)


class _Order:
    """Steps one after another, while some of them change places."""

    def __init__(self, steps: Steps):
        self.steps = steps
        self.place = {step: i for i, step in enumerate(steps)}
        self.replaced: dict[Step, dict[Buffer, Buffer]] = {}
        """Of each maker of next values that is behind all that reads the old ones: these, by the next."""
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
        if maker is None:
            return
        if not any(
            maker.arguments[w].buffer is new and maker.arguments[r].buffer is old for w, r in maker.may_overwrite
        ):
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
                if not used.isdisjoint(self.replaced.get(step, {}).values()):
                    return
                early.append(step)
                continue
            if late and old in buffers:
                return
            late.append(step)
            written.update(step.outputs)
            used |= buffers
        self.replaced.setdefault(maker, {})[new] = old
        self.steps[first:stop] = [*early, *late]
        self.place.update((step, first + i) for i, step in enumerate((*early, *late)))

    def hasten(self, copies: list[Copy]) -> None:
        """Puts what frees memory by making a new value as far up as it may stand, with what it takes no memory to make
        for it; then what takes memory for these alone right before them."""
        accesses = {step: self._accesses(step) for step in self.steps}
        begin: dict[Buffer, int] = {}
        end: dict[Buffer, int] = {}
        for i, step in enumerate(self.steps):
            used, changed = accesses[step]
            for buffer in changed:
                begin.setdefault(buffer, i)
            end.update(dict.fromkeys(used, i))
        renewed = {v.buffer for copy in copies for v in copy.arguments}
        in_place = {new for values in self.replaced.values() for new in values}
        early: set[Step] = set()
        late: set[Step] = set()
        needed, others = set[Buffer](), set[Buffer]()
        """The buffers of steps that move, and of those that stay."""
        for i, step in reversed([*enumerate(self.steps)]):
            used, changed = accesses[step]
            moves = False
            if isinstance(step, Launch | Copy):
                new = [b for b in step.outputs if begin[b] == i and b not in in_place]
                made = sum([b.bytes for b in new if b.kind == "temporary"])
                read = [b for b in step.inputs if begin.get(b, i) < i and b.kind == "temporary"]
                freed = [b for b in read if end[b] == i and b.bytes > SMALL and b not in in_place]
                gain = sum([b.bytes for b in freed]) - made
                serves = isinstance(step, Launch) and not needed.isdisjoint(changed)
                if (freed and gain >= 0 and not renewed.isdisjoint(changed)) or (serves and gain >= -SMALL):
                    moves = True
                    early.add(step)
                    # They are free behind it only if it stands behind all that uses them.
                    changed.update(dict.fromkeys(freed))
                elif serves and others.isdisjoint(changed) and made > sum([b.bytes for b in read]):
                    moves = True
                    late.add(step)
            (needed if moves else others).update(used)
        if early:
            self.steps[:] = _moved_up(self.steps, accesses, early)
            self.steps[:] = _moved_up(self.steps[::-1], accesses, late)[::-1]

    def _accesses(self, step: Step | While | Conditional) -> _Accesses:
        """The buffers that a step or a region uses, and those of them whose content is another one behind it."""
        steps = [step] if isinstance(step, Step) else entries_of([step])[0]
        changed = dict.fromkeys(buffer for s in steps for buffer in s.outputs)
        if isinstance(step, Step):
            # A new value lies there, if it is made there.
            changed.update(dict.fromkeys(self.replaced.get(step, {}).values()))
        return dict.fromkeys(v.buffer for s in steps for v in s.arguments), changed


_Accesses = tuple[dict[Buffer, None], dict[Buffer, None]]


def _moved_up(steps: Steps, accesses: Mapping[Step | While | Conditional, _Accesses], moving: set[Step]) -> Steps:
    """The steps, of which those that are `moving` stand right behind the last one that they have to come after."""
    behind: list[Steps] = [[] for _ in range(len(steps) + 1)]
    last_use: dict[Buffer, int] = {}
    last_change: dict[Buffer, int] = {}
    for i, step in enumerate(steps, 1):
        used, changed = accesses[step]
        at = i
        if step in moving:
            at = max([0, *(last_change.get(b, 0) for b in used), *(last_use.get(b, 0) for b in changed)])
        behind[at].append(step)
        for buffer in used:
            last_use[buffer] = max(last_use.get(buffer, 0), at)
        for buffer in changed:
            last_use[buffer] = last_change[buffer] = max(last_use.get(buffer, 0), at)
    return [step for part in behind for step in part]
