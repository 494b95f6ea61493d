"""Versions of arrays: what reads one comes before what makes the next of it, so that this can be made in its place.

An update starts as a copy of an array and changes a part of it; a loop or a branch may do so inside. The copy vanishes
where nothing reads the array behind it. So whatever reads it, and does not depend on the update, comes first; and where
a kernel behind the update would read a part of it, that part is saved before.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from ..hlo.ir import Computation, Instruction
from ..hlo.op import Kind
from ..ops.reading import reads, record
from .cost import SMALL

Waits = dict[Instruction, dict[Instruction, None]]
"""The instructions with buffers that another one comes after."""


class Versions:
    """The updates of a computation, by the memory that each starts from, unless that is `lasting`."""

    def __init__(self, computation: Computation, lasting: Container[Instruction]):
        self.number = {x: i for i, x in enumerate(computation.instructions)}
        self.updates: dict[Instruction, list[Instruction]] = {}
        for x in computation.instructions:
            for o in _updated(x):
                array = memory_of(o)
                if array not in lasting and array.literal is None:
                    self.updates.setdefault(array, []).append(x)

    def saved(self, buffered: set[Instruction]) -> list[Instruction]:
        """The values without a buffer that need one: parts of an array, for what comes behind an update of it."""
        users: Waits = {}
        for x in self.number if self.updates else ():
            for o in x.operands:
                users.setdefault(o, {})[x] = None
        all_updates = {update for updates in self.updates.values() for update in updates}
        found: dict[Instruction, None] = {}
        for array, updates in self.updates.items():
            pending, seen = [array], {array}
            while pending:
                x = pending.pop()
                for user in users.get(x, ()):
                    # Two updates may each need a part of what the other one changes.
                    if user in all_updates or any(self._needs(user, update) for update in updates):
                        if memory_of(x) is not array and 2 * x.shape.size <= array.shape.size:
                            found[x] = None
                    elif user not in seen and (user not in buffered or memory_of(user) is array):
                        seen.add(user)
                        pending.append(user)
        return list(found)

    def _needs(self, x: Instruction, update: Instruction) -> bool:
        """Returns True if an instruction is an update or depends on it."""
        pending, seen = [x], {x}
        while pending:
            y = pending.pop()
            if y is update:
                return True
            new = [o for o in y.operands if self.number[o] >= self.number[update] and o not in seen]
            seen.update(new)
            pending += new
        return False

    def order(self, buffered: set[Instruction], waits: Waits) -> list[Instruction]:
        """The instructions with buffers in an order in which what reads an array comes before its updates.

        `waits`: what each reads, to which is added what else it has to wait for.
        """
        chosen = [x for x in self.number if x in buffered]
        readers: dict[Instruction, list[Instruction]] = {}
        for x in chosen if self.updates else ():
            for array in {memory_of(s): None for s in waits[x]}:
                if array in self.updates:
                    readers.setdefault(array, []).append(x)
        moved = False
        for array, updates in self.updates.items():
            for update in updates:
                for x in readers[array]:
                    before = self.number[x] < self.number[update] and not moved
                    if x is not update and (before or not _waits_for(x, update, waits)):
                        waits[update] = {**waits[update], x: None}
                        moved |= not before
        return list(_in_order(chosen, waits)) if moved else chosen


def _updated(x: Instruction) -> Iterator[Instruction]:
    """The arrays that an instruction may make another version of, but for those that are copied in no time."""
    if not record(x).control:
        started = [o for o, read in zip(x.operands, reads(x)) if read.kind is Kind.START]
    else:
        made = {(s.element_type, s.dimensions) for _, s in x.shape.leaves()}
        given = [o for operand in x.operands for o in (operand.operands if operand.opcode == "tuple" else [operand])]
        started = [o for o in given if o.shape.is_array and (o.shape.element_type, o.shape.dimensions) in made]
    yield from (o for o in started if o.shape.bytes > SMALL)


def memory_of(x: Instruction) -> Instruction:
    """The instruction whose memory an array lies in, behind those that only name that anew."""
    while record(x).view and reads(x)[0].map.keeps_order:
        (x,) = x.operands
    return x


def start_of(x: Instruction, parameter: Instruction) -> int | None:
    """The number of the element of a computation's parameter that an array is, or is updated from."""
    while True:
        x = memory_of(x)
        started = next((o for o, read in zip(x.operands, reads(x)) if read.kind is Kind.START), None)
        if started is None:
            break
        x = started
    return x.attrs["index"] if x.opcode == "get-tuple-element" and x.operands == [parameter] else None


def _waits_for(x: Instruction, other: Instruction, waits: Waits) -> bool:
    """Returns True if an instruction waits for another one, however indirectly."""
    pending, seen = [x], {x}
    while pending:
        y = pending.pop()
        if y is other:
            return True
        new = [s for s in waits[y] if s not in seen]
        seen.update(new)
        pending += new
    return False


def _in_order(chosen: list[Instruction], waits: Waits) -> Iterator[Instruction]:
    """Each behind what it waits for, else as they were."""
    done = set[Instruction]()
    for x in chosen:
        pending = [x]
        while pending:
            y = pending[-1]
            missing = [s for s in waits[y] if s not in done]
            if missing and y not in done:
                pending += reversed(missing)
                continue
            pending.pop()
            if y not in done:
                done.add(y)
                yield y
