"""Gives every buffer its address: one static plan for the whole program, temporaries sharing memory over time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from .buffer import Buffer
from .plan import Ask, Branch, Copy, Jump, Plan, Step, entries_of


def live_ranges(plan: Plan, one_by_one: bool = False) -> None:
    """Sets when each buffer holds something. What is alive at a loop's start and used in the loop lives to its end.

    `one_by_one`: the host has `init` pack each weight before it brings the next, so that what is not packed needs no
    place of its own.
    """
    staged = _staged(plan, one_by_one)
    for buffer in plan.buffers:
        buffer.first = buffer.last = 0 if buffer in staged else -1
    steps, loops = entries_of(plan.steps)
    for i, step in enumerate(steps):
        for view in step.arguments:
            _extend(view.buffer.root(), i, i)
    for view in plan.results:
        _extend(view.buffer.root(), len(steps), len(steps))
    for source, init in plan.inits.items():
        for step in init.steps if source not in plan.weights else ():
            for buffer in (*step.outputs, *step.inputs):
                if buffer.kind == "temporary":
                    _extend(buffer, 0, 0)
    # Inner loops come first in the list, so one sweep reaches the outermost.
    ending: dict[int, list[Buffer]] = {}
    for buffer in plan.buffers:
        ending.setdefault(buffer.last, []).append(buffer)
    for start, end in loops:
        for last in range(start, end):
            for buffer in [b for b in ending.get(last, ()) if b.first < start]:
                buffer.last = end
                ending.setdefault(end, []).append(buffer)


def _staged(plan: Plan, one_by_one: bool) -> set[Buffer]:
    """Constants that only `init` reads, and weights if they come one by one: their place is free as soon as it is
    done."""
    used = {v.buffer.root() for s in plan.entries for v in s.arguments} | {v.buffer.root() for v in plan.results}
    first = {b for b in plan.buffers if b.kind == "constant"}
    for source, init in plan.inits.items():
        if source in plan.weights:
            used |= {b for s in init.steps for b in (*s.outputs, *s.inputs) if b is not source or not one_by_one}
        elif source is not None:
            source.staged = plan.staging(source)
    for buffer in plan.weights if one_by_one else ():
        buffer.staged = plan.staging(buffer) if buffer not in used and buffer in plan.inits else 0
    staged = (first - used) | {b for b in plan.weights if b.staged}
    for buffer in staged:
        buffer.kind = "temporary"
    return staged | {b for b in plan.buffers if b.kind == "temporary" and (b.data is not None or b.staged)}


def _extend(buffer: Buffer, first: int, last: int) -> None:
    buffer.first = first if buffer.first < 0 else min(buffer.first, first)
    buffer.last = max(buffer.last, last)


def share(plan: Plan, copies: bool) -> None:
    """Lets a result take over the memory of an input that is read for the last time: `copies` vanish, or results of
    kernels are made in place."""
    for i, step in enumerate(plan.entries):
        if isinstance(step, Copy) is not copies:
            continue
        for written, read in step.may_overwrite:
            target = step.arguments[written].buffer.root()
            source = step.arguments[read].buffer.root()
            if source.kind != "temporary" or target.kind != "temporary" or source is target:
                continue
            if source.bytes != target.bytes:
                continue
            others = [v.buffer.root() for k, v in enumerate(step.arguments) if k not in (written, read)]
            if source.last == i and target.first == i and source not in others:
                source.last = max(source.last, target.last)
                target.merged = source


def share_copies(plan: Plan) -> None:
    """Lets what is copied onto a loop's carry, a conditional's result or a state be made right there, if nobody needs
    the old content by then.

    A program that asks its host for something keeps its states to the end: the host may give up.
    """
    steps, _ = entries_of(plan.steps)
    states = () if any(isinstance(step, Ask) for step in steps) else plan.states
    flow = _Flow(steps)
    accesses: dict[Buffer, list[int]] = {}
    """The steps that use each buffer, in order."""
    for i, step in enumerate(steps):
        for buffer in {v.buffer.root(): None for v in step.arguments}:
            accesses.setdefault(buffer, []).append(i)
    # The last first: what is copied onto what has found its place goes there, too.
    for i, step in reversed([*enumerate(steps)]):
        if not isinstance(step, Copy):
            continue
        target, source = (v.buffer.root() for v in step.arguments)
        if target is source or source.kind != "temporary" or source.last != i or not step.is_whole:
            continue
        if target not in states and target.kind != "temporary":
            continue
        if not _may_be_made_there(steps, flow, i, accesses):
            continue
        source.merged = target
        target.first = min(target.first, source.first)
        target.last = max(target.last, source.last)
        accesses[target] = sorted({*accesses[target], *accesses[source]})


def _may_be_made_there(steps: list[Step], flow: _Flow, copy: int, accesses: dict[Buffer, list[int]]) -> bool:
    """Returns True if what a step copies may lie in its target from the beginning: behind each change it is copied
    there, nobody uses the target in between, and nobody changes the target while the two are equal."""
    target, source = (v.buffer.root() for v in steps[copy].arguments)
    changing: list[int] = []
    equal: list[int] = []
    ends = {copy}
    for i in accesses[source]:
        step = steps[i]
        roots = [v.buffer.root() for v in step.arguments]
        if isinstance(step, Copy) and step.is_whole and set(roots) == {target, source}:
            if roots[0] is source:
                equal.append(i)
            else:
                ends.add(i)
        elif source in step.outputs:
            allowed = [read for written, read in step.may_overwrite if step.outputs[written] is source]
            if any(root is target and k not in allowed for k, root in enumerate(roots)):
                return False
            changing.append(i)
    using = accesses[target]
    if not equal and ends == {copy}:
        start = changing[0] if changing else copy
        if bisect_left(using, copy) <= bisect_right(using, start) and flow.is_straight(start, copy):
            return True
    bounds = accesses[source][0], copy
    behind, always = flow.behind(changing, *bounds, ends)
    if not always or not behind.isdisjoint(using):
        return False
    behind, _ = flow.behind(equal, *bounds, ends)
    if any(target in steps[i].outputs for i in behind):
        return False
    behind, _ = flow.behind(ends - {copy}, *bounds, ends)
    return behind.isdisjoint(accesses[source])


class _Flow:
    """The ways through the steps."""

    def __init__(self, steps: list[Step]):
        self.steps = steps
        self.jumps = [i for i, step in enumerate(steps) if isinstance(step, Jump)]

    def is_straight(self, first: int, last: int) -> bool:
        """Returns True if one step leads to a later one by those between them alone: a loop's end leads back."""
        return bisect_left(self.jumps, first) == bisect_left(self.jumps, last)

    def behind(self, starts: Iterable[int], first: int, last: int, ends: set[int]) -> tuple[set[int], bool]:
        """The steps from `first` to `last` that some lead to before an end, and whether all ways from there lead to an
        end."""
        found = set[int]()
        always = True
        pending = [n for i in starts for n in self.next(i)]
        while pending:
            i = pending.pop()
            if i in ends or i in found:
                continue
            if first <= i <= last:
                found.add(i)
                pending += self.next(i)
            else:
                always = False
        return found, always

    def next(self, i: int) -> list[int]:
        """The steps that may follow one."""
        step = self.steps[i]
        if isinstance(step, Branch):
            return [i + 1, *step.targets]
        return step.targets if isinstance(step, Jump) else [i + 1]


def _place_side_by_side(buffers: Iterable[Buffer], address: int) -> int:
    for buffer in buffers:
        buffer.address = address
        address += buffer.padded
    return address


_RUN = 16
"""Buffers that are looked at one by one; of so many beside each other it is known when all of them are needed."""


class _Run:
    """Buffers one after another by address: address, end, first and last step, and the group each is staged for."""

    def __init__(self, entries: list[tuple[int, int, int, int, int]]):
        self.entries = entries
        self.start = entries[0][0]
        self.end = max(entry[1] for entry in entries)
        self.first = min(entry[2] for entry in entries)
        self.last = max(entry[3] for entry in entries)
        self.all_from = max(entry[2] for entry in entries)
        self.all_to = min(entry[3] for entry in entries)
        """From here and to here all of them hold something."""
        self.staged = any(entry[4] for entry in entries)
        self.gap = 0
        """At least the widest gap between them."""
        end = self.start
        for entry in entries:
            self.gap = max(self.gap, entry[0] - end)
            end = max(end, entry[1])

    def add(self, entry: tuple[int, int, int, int, int]) -> None:
        at, end, first, last, staged = entry
        insort(self.entries, entry)
        self.gap = max(self.gap, self.start - end, at - self.end)
        self.start, self.end = min(self.start, at), max(self.end, end)
        self.first, self.last = min(self.first, first), max(self.last, last)
        self.all_from, self.all_to = max(self.all_from, first), min(self.all_to, last)
        self.staged = self.staged or staged > 0


class _Placed:
    """The buffers that have their places, in runs by address."""

    def __init__(self) -> None:
        self.runs: list[_Run] = []

    def room(self, buffer: Buffer, at: int) -> int:
        """Returns the first address from `at` on where no other buffer is needed at the same time."""
        size, first, last, staged = buffer.padded, buffer.first, buffer.last, buffer.staged
        for run in self.runs:
            if run.start >= at + size:
                break
            if run.first > last or run.last < first:
                continue
            if run.all_from <= last and first <= run.all_to and run.gap < size and not (staged and run.staged):
                at = max(at, run.end)
                continue
            for other, other_end, other_first, other_last, other_staged in run.entries:
                if other >= at + size:
                    return at
                one_by_one = staged and other_staged and staged != other_staged
                if other_first <= last and first <= other_last and at < other_end and not one_by_one:
                    at = other_end
        return at

    def add(self, buffer: Buffer) -> None:
        """The buffer has its address."""
        entry = (buffer.address, buffer.address + buffer.padded, buffer.first, buffer.last, buffer.staged)
        if not self.runs:
            self.runs.append(_Run([entry]))
            return
        place = max(0, bisect_right(self.runs, entry, key=lambda run: run.entries[0]) - 1)
        run = self.runs[place]
        run.add(entry)
        if len(run.entries) > 2 * _RUN:
            self.runs[place : place + 1] = [_Run(run.entries[:_RUN]), _Run(run.entries[_RUN:])]


def place(plan: Plan, start: int, page: int = 0) -> None:
    """Assigns addresses from `start` on. `page`: constants come first, and what is written begins at a multiple of so
    many bytes."""
    lasting = [b for b in plan.buffers if b.merged is None and b.kind != "temporary"]
    address = start
    if page:
        unwritten = [b for b in lasting if b.data is not None and b not in plan.states]
        address = -(-_place_side_by_side(unwritten, address) // page) * page
        lasting = [b for b in lasting if b not in unwritten]
    address = _place_side_by_side(lasting, address)
    temporaries = [b for b in plan.buffers if b.merged is None and b.kind == "temporary" and b.first >= 0]
    temporaries.sort(key=lambda b: -b.bytes)
    placed = _Placed()
    end = address
    for buffer in temporaries:
        buffer.address = placed.room(buffer, address)
        placed.add(buffer)
        end = max(end, buffer.address + buffer.padded)
    for buffer in plan.buffers:
        if buffer.merged is None and buffer.address < 0:
            buffer.address = address
    plan.end = end
