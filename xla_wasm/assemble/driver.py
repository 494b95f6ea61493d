"""The step table, which `runtime_c/step.c` runs.

A table entry has eight 32-bit words: kind, function slot, address of the argument block (or of a value), begin, end,
target (of a kernel: how much of its range a call takes), address of a switch's targets, their count. Of a kernel the
last two are how much of its range threads take at a time, 0 if it is not shared, and where `plan.parts.chunk_blocks`
lie, if there are any. Before the table stand the number of calls of `init` and the address of a list of their first
entries, if there are any. The program counter lies in memory, so a run can stop and go on: a step that needs the host
writes the request record (the number of its request, and the step to go on with) and ends the run for now; the next one
goes on from there. A host that gives up sets the second word to 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from ..dataclass import dataclass
from ..loop.pieces import executed, piece
from ..plan.buffer import ALIGNMENT
from ..plan.kernel import COPY
from ..plan.parts import Part, block_words, chunk_blocks
from ..plan.plan import Ask, Branch, Copy, Halt, Jump, Launch, Plan, Step, Switch, all_steps, entries_of, keep_steps
from ..target import CONFIG, CONTROL_BYTES
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
END = 0xFFFFFFFF
"""The result of `step` at the end: the target of a halt."""


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
    words += sum(isinstance(s, Halt) for s in steps)
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


def table(
    steps: list[Step], place: Layout, slots: dict[str, int], shared: Sequence[Part | None] = ()
) -> tuple[int, bytes]:
    """The step table with what stands before it and what its entries point to, as bytes, and their address. `shared`:
    of each step how threads share it, None if they do not."""
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
            kind, target = HALT, END
        entries += struct.pack("<8I", kind, slot, block, begin, end, target, targets, count)
    starts = [i + 1 for i, step in enumerate(steps) if isinstance(step, Halt)]
    if len(starts) < 2:
        return place.table, bytes(entries + blocks)
    before = struct.pack("<2I", len(starts) - 1, place.blocks + len(blocks))
    starts[-1] -= 1  # the number after the last call does nothing
    return place.table - len(before), before + entries + blocks + struct.pack(f"<{len(starts)}I", *starts)


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


def running(direct: bool, threads: bool, waits: bool, inits: bool, brought: bool) -> dict[str, str]:
    """Returns the functions of the C runtime for `EXPORTS`.

    `direct`: kernels are called through `dispatch`, not through a function table, which an engine has to clear for each
    new instance. `threads`: kernels that they share go through `fork`. `waits`: there are requests for the host.
    `inits`: `init` has something to do. `brought`: it calls `bring`.
    """
    return {
        "run": "xw_run_with_requests" if waits else "xw_run",
        "init": "xw_init_bringing" if brought else "xw_init" if inits else "xw_init_nothing",
        "step": "xw_step_direct" if direct else "xw_step_of_threads" if threads else "xw_step",
    }


Segment = tuple[int, int, int]
"""Of bytes in the module that are not yet in memory: their number, the address for them, and how many they are."""


def bring_function(brought: Mapping[int, Segment]) -> Func:
    """`bring(i)`: before call `i` of `init`, copies the constant that it reads from the module to its place, if there
    is one."""
    f = Func("bring", ("i32",), ())
    for i, (segment, *place) in brought.items():
        f.op("local.get", 0)
        f.op("i32.const", i)
        f.op("i32.eq")
        f.op("if", None)
        for value in (place[0], 0, place[1]):
            f.op("i32.const", value)
        f.op("memory.init", segment)
        f.op("end")
    return f
