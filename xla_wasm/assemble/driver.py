"""The step table and the small wasm program that runs it.

A table entry has eight 32-bit words: kind, function slot, address of the argument block (or of a value), begin, end,
target (of a kernel: how much of its range a call takes), address of a switch's targets, their count. Of a kernel the
last two are how much of its range threads take at a time, 0 if it is not shared, and where `plan.parts.chunk_blocks`
lie, if there are any. The program counter
lies in memory, so a run can stop and go on: a step that needs the host writes the request record (the number of its
request, and the step to go on with) and ends the run for now; the next one goes on from there. A host that gives up
sets the second word to 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from ..dataclass import dataclass
from ..loop.pieces import executed, piece
from ..plan.buffer import ALIGNMENT
from ..plan.kernel import COPY
from ..plan.parts import Part, block_words, chunk_blocks
from ..plan.plan import Ask, Branch, Copy, Jump, Launch, Plan, Step, Switch, all_steps, entries_of, keep_steps
from ..target import CONFIG, CONTROL_BYTES, EXPORTS, STOP
from ..wasm.func import Func

ENTRY_BYTES = 32
HALT, KERNEL, JUMP, BRANCH, SWITCH, REQUEST, LONG_KERNEL = range(7)
_LONG = 1 << 14
"""Statements of a kernel, or bytes of a copy, beside which it costs nothing to look first whether the run is to end."""

_SHORT = 1 << 21
"""Statements that take some 100 us, or a few ms if they wait for memory. To be ready to end a run takes a host 2 us."""
_COPIED = 1 << 26
"""Bytes in a piece of a copy: some milliseconds."""

DISPATCH = "dispatch"
END, WAIT = -1, -2
"""The results of `step` at the end of the program, and at a request that the host has to serve."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Addresses of the driver's data: the request record, the step table, argument blocks and switch targets, then what
    threads share."""

    record: int
    table: int
    blocks: int
    control: int
    end: int


def layout(steps: list[Step], threads: bool = False) -> Layout:
    """Reserves room for the table of `steps` behind the configuration block."""
    table = CONFIG + 64
    record = CONFIG + 16
    blocks = table + ENTRY_BYTES * len(steps)
    words = sum(len(s.targets if isinstance(s, Jump) else s.arguments) for s in steps if not isinstance(s, Ask))
    if not threads:
        return Layout(record, table, blocks, 0, blocks + 4 * words)
    words += sum(block_words(s) for s in steps)
    control = -(-(blocks + 4 * words) // CONTROL_BYTES) * CONTROL_BYTES
    return Layout(record, table, blocks, control, control + CONTROL_BYTES)


def start_of_buffers(plan: Plan, threads: bool) -> int:
    """The first address behind the table of all steps: which of them vanish shows only when everything has its
    place."""
    return -(-layout(all_steps(plan), threads).end // ALIGNMENT) * ALIGNMENT


def drop_empty(plan: Plan) -> None:
    """Removes copies onto the same place."""
    keep_steps(
        plan.steps, lambda step: not isinstance(step, Copy) or step.arguments[0].address != step.arguments[1].address
    )


def init_starts(plan: Plan) -> list[int]:
    """The first entry of each call of `init`."""
    starts, at = [], len(plan.entries)
    for _, steps in plan.init_calls():
        starts.append(at)
        at += len(steps) + 1
    return starts


def table(steps: list[Step], place: Layout, slots: dict[str, int], shared: Sequence[Part | None] = ()) -> bytes:
    """The bytes of the step table and of what its entries point to. `shared`: of each step how threads share it, None
    if they do not."""
    entries, blocks = bytearray(), bytearray()
    requests = 0
    funcs = {step.func.name: step.func for step in steps if isinstance(step, Launch)}
    pieces = {name: piece(func) for name, func in funcs.items()}
    is_long = {name: executed(func.body) >= _LONG for name, func in funcs.items()}
    for i, step in enumerate(steps):
        block = place.blocks + len(blocks)
        slot = begin = end = target = targets = count = 0
        if isinstance(step, Launch | Copy):
            if isinstance(step, Launch):
                kind = LONG_KERNEL if is_long[step.func.name] else KERNEL
                slot, (begin, end) = slots[step.func.name], step.trips or (0, step.func.trips)
                target = pieces[step.func.name]
            else:
                kind = LONG_KERNEL if step.bytes >= _LONG else KERNEL
                slot, end, target = slots[COPY], step.bytes, _copied_at_once(step)
            # A part of an array may begin before the memory: the kernel adds what it has moved on by, modulo 2**32.
            blocks += struct.pack(f"<{len(step.arguments)}I", *(v.address & 0xFFFFFFFF for v in step.arguments))
            part = shared[i] if shared else None
            if part is not None and isinstance(step, Launch):
                targets = part.trips
                own = chunk_blocks(step, part)
                count = place.blocks + len(blocks) if own else 0
                blocks += struct.pack(f"<{len(own)}I", *own)
        elif isinstance(step, Ask):
            kind, slot, requests = REQUEST, requests, requests + 1
        elif isinstance(step, Switch):
            kind, block, targets, count = SWITCH, step.arguments[0].address, block, len(step.targets)
            blocks += struct.pack(f"<{count}I", *step.targets)
        elif isinstance(step, Branch):
            kind, block, (target,) = BRANCH, step.arguments[0].address, step.targets
        elif isinstance(step, Jump):
            kind, (target,) = JUMP, step.targets
        else:
            kind = HALT
        entries += struct.pack("<8I", kind, slot, block, begin, end, target, targets, count)
    return bytes(entries + blocks)


def is_short(plan: Plan) -> bool:
    """Returns True if a run, and what `init` does, is over so soon that nobody needs to be ready to end it: without
    loops whose trips depend on values, and with few statements, those of all branches together."""
    steps = all_steps(plan)
    statements = sum(executed(step.func.body) for step in steps if isinstance(step, Launch))
    statements += sum(step.bytes // 16 for step in steps if isinstance(step, Copy))
    return not entries_of(plan.steps)[1] and statements < _SHORT


def _copied_at_once(step: Copy) -> int:
    """The bytes of a piece of a copy: all of them where what it reads and what it writes overlap."""
    if abs(step.arguments[0].address - step.arguments[1].address) < step.bytes:
        return step.bytes
    return min(step.bytes, _COPIED)


def _exported(name: str) -> Func:
    return Func(name, *EXPORTS[name])


def copy_kernel() -> Func:
    """The kernel (args, begin, end) that copies bytes begin..end from its second pointer to its first."""
    f = Func(COPY, ("i32", "i32", "i32"), ())
    for pointer in range(2):
        f.word(0, pointer)
        f.op("local.get", 1)
        f.op("i32.add")
    f.op("local.get", 2)
    f.op("local.get", 1)
    f.op("i32.sub")
    f.op("memory.copy")
    return f


def dispatch_function(kernels: Iterable[str]) -> Func:
    """`dispatch(number, args, begin, end)`: calls one of the kernels."""
    f = Func(DISPATCH, ("i32",) * 4, ())
    kernels = list(kernels)
    for _ in kernels:
        f.op("block", None)
    f.op("local.get", 0)
    f.op("br_table", list(range(len(kernels) - 1)), len(kernels) - 1)
    for name in kernels:
        f.op("end")
        for parameter in (1, 2, 3):
            f.op("local.get", parameter)
        f.call(name)
        f.op("return")
    return f


def step_function(place: Layout, direct: bool = False) -> Func:
    """`step(pc) -> next pc`: runs one entry of the table; -1 at the end, -2 where the host is to serve a request.

    `direct`: it calls kernels through `dispatch`, not through a function table, which an engine has to clear for each
    new instance. Where the layout has a place for what threads share, kernels that they share go through `fork`.
    """
    f = _exported("step")
    entry = f.local("i32")
    # The counter is kept where a host finds it after a trap.
    f.op("i32.const", CONFIG)
    f.op("local.get", 0)
    f.op("i32.store", 2, 0)
    f.op("local.get", 0)
    f.op("i32.const", 5)
    f.op("i32.shl")
    f.op("i32.const", place.table)
    f.op("i32.add")
    f.op("local.set", entry)
    order = (HALT, LONG_KERNEL, KERNEL, JUMP, BRANCH, SWITCH, REQUEST)
    for _ in order:
        f.op("block", None)
    f.word(entry, 0)
    f.op("br_table", [order.index(kind) for kind in range(LONG_KERNEL)], order.index(LONG_KERNEL))
    f.op("end")
    f.op("i32.const", END)
    f.op("return")
    f.op("end")
    f.trap_if(STOP)
    f.op("end")
    if place.control:
        f.word(entry, 6)
        f.op("if", None)
        f.op("local.get", entry)
        f.call("fork")
        f.sum(0, 1)
        f.op("return")
        f.op("end")
    # A kernel's range in pieces: from the end of the one before to a piece further, or to the end of the range.
    end, limit = f.local("i32"), f.local("i32")
    f.word(entry, 3)
    f.op("local.set", end)
    f.word(entry, 4)
    f.op("local.set", limit)
    f.op("loop", None)
    if direct:
        f.word(entry, 1)
    f.word(entry, 2)
    f.op("local.get", end)
    f.op("local.get", end)
    f.word(entry, 5)
    f.op("i32.add")
    f.op("local.tee", end)
    f.op("local.get", limit)
    f.op("local.get", end)
    f.op("local.get", limit)
    f.op("i32.lt_u")
    f.op("select")
    f.op("local.tee", end)
    if direct:
        f.call(DISPATCH)
    else:
        f.word(entry, 1)
        f.call_indirect(("i32", "i32", "i32"), ())
    f.op("local.get", end)
    f.op("local.get", limit)
    f.op("i32.lt_u")
    f.op("if", None)
    f.trap_if(STOP)
    f.op("br", 1)
    f.op("end")
    f.op("end")
    f.sum(0, 1)
    f.op("return")
    f.op("end")
    f.trap_if(STOP)
    f.word(entry, 5)
    f.op("return")
    f.op("end")
    f.sum(0, 1)
    f.word(entry, 5)
    f.word(entry, 2)
    f.op("i32.load8_u", 0, 0)
    f.op("select")
    f.op("return")
    f.op("end")
    # An index out of range, read as unsigned, runs the last branch.
    index, count = f.local("i32"), f.local("i32")
    f.word(entry, 7)
    f.op("i32.const", 1)
    f.op("i32.sub")
    f.op("local.set", count)
    f.word(entry, 2)
    f.op("i32.load", 2, 0)
    f.op("local.tee", index)
    f.op("local.get", count)
    f.op("local.get", index)
    f.op("local.get", count)
    f.op("i32.lt_u")
    f.op("select")
    f.op("i32.const", 2)
    f.op("i32.shl")
    f.word(entry, 6)
    f.op("i32.add")
    f.op("i32.load", 2, 0)
    f.op("return")
    f.op("end")
    f.op("i32.const", place.record)
    f.word(entry, 1)
    f.op("i32.store", 2, 0)
    f.op("i32.const", place.record)
    f.sum(0, 1)
    f.op("i32.store", 2, 4)
    f.op("i32.const", WAIT)
    return f


def run_function(place: Layout, waits: bool) -> Func:
    """`run() -> 0`: runs the table to its end; or 1 if the host has to serve a request, and to call it again then."""
    f = _exported("run")
    pc = f.local("i32")
    if not waits:
        _run_from(f, pc, 0)
        f.op("i32.const", 0)
        return f
    f.op("i32.const", place.record)
    f.op("i32.load", 2, 4)
    f.op("local.set", pc)
    _run_on(f, pc)
    f.op("local.get", pc)
    f.op("i32.const", WAIT)
    f.op("i32.eq")
    f.op("if", None)
    f.op("i32.const", 1)
    f.op("return")
    f.op("end")
    f.op("i32.const", place.record)
    f.op("i32.const", 0)
    f.op("i32.store", 2, 4)
    f.op("i32.const", 0)
    return f


Segment = tuple[int, int, int]
"""Of bytes in the module that are not yet in memory: their number, the address for them, and how many they are."""


def init_function(starts: list[int], brought: Mapping[int, Segment]) -> Func:
    """`init(i)`: runs call `i` of the steps that prepare constants and weights; the number after the last does nothing.

    Before some calls, the constant that they read is `brought` from the module to its place.
    """
    f = _exported("init")
    pc = f.local("i32")
    for i, start in enumerate(starts):
        f.op("local.get", 0)
        f.op("i32.const", i)
        f.op("i32.eq")
        f.op("if", None)
        if i in brought:
            segment, address, size = brought[i]
            for value in (address, 0, size):
                f.op("i32.const", value)
            f.op("memory.init", segment)
        _run_from(f, pc, start)
        f.op("return")
        f.op("end")
    f.op("local.get", 0)
    f.op("i32.const", len(starts))
    f.op("i32.ne")
    f.op("if", None)
    f.op("unreachable")
    f.op("end")
    return f


def _run_from(f: Func, pc: int, start: int) -> None:
    f.op("i32.const", start)
    f.op("local.set", pc)
    _run_on(f, pc)


def _run_on(f: Func, pc: int) -> None:
    f.op("loop", None)
    f.op("local.get", pc)
    f.call("step")
    f.op("local.tee", pc)
    f.op("i32.const", 0)
    f.op("i32.ge_s")
    f.op("br_if", 0)
    f.op("end")
