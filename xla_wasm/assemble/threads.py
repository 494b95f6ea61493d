"""Threads inside of a module: kernels in chunks, which thread 0 publishes and every thread takes, one ticket each.

All threads are instances of one module on one shared memory. Thread 0 runs the program. Where a kernel is worth it, it
writes which one it is, then one word: a generation, how many chunks there are, and the next one. Who has time takes the
next by an atomic addition, which tells all three at once, so nobody can mix up two kernels; the kernel stays the same
until every chunk that was taken is counted as done. Thread 0 takes chunks like the others and then waits for those that
are being computed only: a thread that sleeps, is late or is gone costs time and never the answer. One that is gone in
the middle of a chunk has said so in the first word of its own memory; the host looks there and has the run fail. Chunks
are those of the kernel (see `loop.pieces`), whatever the number of threads, and so are all results.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..plan.parts import Own
from ..target import ALONE, AWAKE, FAILED, LATE, LIMIT, LOOKS, STOP, STOPPED
from ..wasm.func import Func

TICKET, KERNEL, DONE, ASLEEP, WAITS, LOADED = 0, 8, 64, 128, 148, 152
"""Offsets of the words of the control block, beside those that hosts write: 64 bits of generation (24), number of
chunks (20) and next chunk (20); the table's entry of the kernel; how many chunks are done; how many threads sleep;
whether thread 0 sleeps; whether the data are in memory."""

_NEXT_BITS = _COUNT_BITS = 20
_SPINS = 100_000
"""Looks for work, some hundred microseconds, after which a thread sleeps. Waking one takes nearly as long."""
_PATIENCE = 20_000
"""Looks of thread 0 for the last chunks, after which it sleeps until they are done."""
_TIMED_OUT = 2
"""The result of waiting when the time is over."""
_LOOK = 100_000_000
"""Nanoseconds after which thread 0 looks whether another thread has failed, in case nobody wakes it: what `LIMIT`
counts."""


def start_function(control: int, segments: Sequence[tuple[int, int, int]]) -> Func:
    """Returns the function that runs when the module is instantiated: the first instance on a memory copies the data
    into it."""
    f = Func("start", (), ())
    f.op("i32.const", control + LOADED)
    f.op("i32.const", 0)
    f.op("i32.const", 1)
    f.op("i32.atomic.rmw.cmpxchg", 2, 0)
    f.op("if", None)
    f.op("return")
    f.op("end")
    for segment, address, size in segments:
        f.op("i32.const", address)
        f.op("i32.const", 0)
        f.op("i32.const", size)
        f.op("memory.init", segment)
        f.op("data.drop", segment)
    return f


def _load(f: Func, address: int, kind: str = "i32") -> None:
    f.op("i32.const", address)
    f.op(f"{kind}.atomic.load", 3 if kind == "i64" else 2, 0)


def _store(f: Func, address: int, value: int) -> None:
    f.op("i32.const", address)
    f.op("i32.const", value)
    f.op("i32.atomic.store", 2, 0)


def _add(f: Func, address: int, value: int) -> None:
    """Adds to a word; what it was stays on the stack."""
    f.op("i32.const", address)
    f.op("i32.const", value)
    f.op("i32.atomic.rmw.add", 2, 0)


def _wake(f: Func, address: int) -> None:
    f.op("i32.const", address)
    f.op("i32.const", -1)
    f.op("memory.atomic.notify", 2, 0)
    f.op("drop")


def _next(f: Func, ticket: int) -> None:
    """The number of the next chunk."""
    f.op("local.get", ticket)
    f.op("i32.wrap_i64")
    f.op("i32.const", (1 << _NEXT_BITS) - 1)
    f.op("i32.and")


def _count(f: Func, ticket: int) -> None:
    """Pushes the number of chunks."""
    f.op("local.get", ticket)
    f.op("i64.const", _NEXT_BITS)
    f.op("i64.shr_u")
    f.op("i32.wrap_i64")
    f.op("i32.const", (1 << _COUNT_BITS) - 1)
    f.op("i32.and")


def take_function(control: int, own: Own) -> Func:
    """`take(own) -> whether there were any`: computes chunks until all are taken. `own`: the thread's memory, 0 of
    thread 0."""
    f = Func("take", ("i32",), ("i32",))
    ticket, entry, args, end, some = f.local("i64"), *(f.local("i32") for _ in range(4))
    f.op("block", None)
    f.op("loop", None)
    # Only who may get one takes a ticket: others would slow down those who compute.
    _load(f, control + TICKET, "i64")
    f.op("local.set", ticket)
    _is_none_left(f, ticket)
    f.op("br_if", 1)
    f.trap_if(STOP)
    _say_whether_it_computes(f, 1)
    f.op("i32.const", control + TICKET)
    f.op("i64.const", 1)
    f.op("i64.atomic.rmw.add", 3, 0)
    f.op("local.set", ticket)
    _is_none_left(f, ticket)
    f.op("if", None)
    _say_whether_it_computes(f, 0)
    f.op("br", 2)
    f.op("end")
    f.op("i32.const", 1)
    f.op("local.set", some)
    _load(f, control + KERNEL)
    f.op("local.tee", entry)
    f.op("i32.load", 2, 4 * 2)
    f.op("local.set", args)
    _place_arguments(f, own, entry, args)
    f.op("local.get", args)
    _chunk(f, ticket, entry, end)
    f.word(entry, 1)
    f.call_indirect(("i32", "i32", "i32"), ())
    # The last one wakes thread 0.
    _add(f, control + DONE, 1)
    f.op("i32.const", 1)
    f.op("i32.add")
    _count(f, ticket)
    f.op("i32.eq")
    f.op("if", None)
    _load(f, control + WAITS)
    f.op("if", None)
    _wake(f, control + DONE)
    f.op("end")
    f.op("end")
    _say_whether_it_computes(f, 0)
    f.op("br", 0)
    f.op("end")
    f.op("end")
    f.op("local.get", some)
    return f


def _say_whether_it_computes(f: Func, value: int) -> None:
    """Stores `value` for a thread other than 0: that is what is left of one that ends from one moment to the next."""
    f.op("local.get", 0)
    f.op("if", None)
    f.op("local.get", 0)
    f.op("i32.const", value)
    f.op("i32.atomic.store", 2, 0)
    f.op("end")


def _is_none_left(f: Func, ticket: int) -> None:
    """Pushes 1 if all chunks are taken, else 0."""
    _next(f, ticket)
    _count(f, ticket)
    f.op("i32.ge_u")


def _chunk(f: Func, ticket: int, entry: int, end: int) -> None:
    """Pushes the begin and the end of a ticket's chunk in the range of the table's entry. `end` is a local to use."""
    _next(f, ticket)
    f.word(entry, 6)
    f.op("i32.mul")
    f.op("local.tee", end)
    f.op("local.get", end)
    f.word(entry, 6)
    f.op("i32.add")
    f.op("local.tee", end)
    f.word(entry, 4)
    f.op("local.get", end)
    f.word(entry, 4)
    f.op("i32.lt_u")
    f.op("select")


def _place_arguments(f: Func, own: Own, entry: int, args: int) -> None:
    """Has `args` point to copies of the arguments, in which a thread other than 0 has its own memory, if the kernel has
    any (see `plan.parts.chunk_blocks`)."""
    at, place = f.local("i32"), f.local("i32")
    f.word(entry, 7)
    f.op("local.tee", place)
    f.op("i32.eqz")
    f.op("local.get", 0)
    f.op("i32.eqz")
    f.op("i32.or")
    f.op("i32.eqz")
    f.op("if", None)
    f.sum(0, own.arguments)
    f.op("local.tee", at)
    f.op("local.get", args)
    f.word(place, 0)
    f.op("memory.copy")
    f.op("local.get", at)
    f.op("local.set", args)
    f.op("local.get", at)
    f.word(place, 0)
    f.op("i32.add")
    f.op("local.set", at)
    _advance(f, place)
    f.op("loop", None)
    f.op("local.get", at)
    f.op("local.get", 0)
    f.word(place, 0)
    f.op("i32.add")
    f.op("i32.store", 2, 0)
    _advance(f, at)
    _advance(f, place)
    f.word(place, 0)
    f.op("br_if", 0)
    f.op("end")
    f.op("end")


def _advance(f: Func, pointer: int) -> None:
    """Moves a pointer on by a word."""
    f.sum(pointer, 4)
    f.op("local.set", pointer)


def fork_function(control: int) -> Func:
    """`fork(entry)`: runs the kernel of a table's entry on all threads, and returns when it is done."""
    f = Func("fork", ("i32",), ())
    count, spins, done = f.local("i32"), f.local("i32"), f.local("i32")
    f.word(0, 4)
    f.word(0, 6)
    f.op("local.tee", count)
    f.op("i32.add")
    f.op("i32.const", 1)
    f.op("i32.sub")
    f.op("local.get", count)
    f.op("i32.div_u")
    f.op("local.set", count)
    _publish(f, control, count)
    f.op("i32.const", 0)
    f.call("take")
    f.op("drop")
    # What others have taken is all that is left.
    f.op("block", None)
    f.op("loop", None)
    _load(f, control + DONE)
    f.op("local.tee", done)
    f.op("local.get", count)
    f.op("i32.eq")
    f.op("br_if", 1)
    _trap_if_failed(f, control)
    _look_again(f, spins, _PATIENCE)
    _load(f, control + AWAKE)
    f.op("br_if", 0)
    _store(f, control + WAITS, 1)
    f.op("i32.const", control + DONE)
    f.op("local.get", done)
    f.op("i64.const", _LOOK)
    f.op("memory.atomic.wait32", 2, 0)
    # Counted in memory: the baseline compiler of Node 20 loses a local that counts them.
    f.op("local.set", done)
    f.op("i32.const", control + LOOKS)
    f.op("local.get", done)
    f.op("i32.const", _TIMED_OUT)
    f.op("i32.eq")
    f.op("i32.atomic.rmw.add", 2, 0)
    f.op("drop")
    _load(f, control + LOOKS)
    _load(f, control + LIMIT)
    f.op("i32.const", 1)
    f.op("i32.sub")
    f.op("i32.gt_u")
    f.op("if", None)
    _store(f, control + FAILED, LATE)
    f.op("end")
    _store(f, control + WAITS, 0)
    f.op("br", 0)
    f.op("end")
    f.op("end")
    _trap_if_failed(f, control)
    return f


def _look_again(f: Func, spins: int, most: int) -> None:
    """Goes on with the innermost loop until it has looked so many times, which `spins` counts."""
    f.sum(spins, 1)
    f.op("local.tee", spins)
    f.op("i32.const", most)
    f.op("i32.lt_u")
    f.op("br_if", 0)


def _publish(f: Func, control: int, count: int) -> None:
    """Says which kernel it is, and how many chunks there are: from then on others may begin. Wakes those who sleep."""
    f.op("i32.const", control + KERNEL)
    f.op("local.get", 0)
    f.op("i32.atomic.store", 2, 0)
    _store(f, control + DONE, 0)
    f.op("i32.const", control + TICKET)
    _next_generation(f, control)
    f.op("local.get", count)
    f.op("i64.extend_i32_u")
    f.op("i64.const", _NEXT_BITS)
    f.op("i64.shl")
    f.op("i64.or")
    f.op("i64.atomic.store", 3, 0)
    _load(f, control + ASLEEP)
    f.op("if", None)
    _load(f, control + ALONE)
    f.op("i32.eqz")
    f.op("if", None)
    _wake(f, control + TICKET + 4)
    f.op("end")
    f.op("end")


def _trap_if_failed(f: Func, control: int) -> None:
    f.trap_if(STOP)
    _load(f, control + FAILED)
    f.op("if", None)
    f.op("unreachable")
    f.op("end")


def _next_generation(f: Func, control: int) -> None:
    """A ticket of the generation after this one, with no chunks."""
    shift = _NEXT_BITS + _COUNT_BITS
    _load(f, control + TICKET, "i64")
    f.op("i64.const", shift)
    f.op("i64.shr_u")
    f.op("i64.const", 1)
    f.op("i64.add")
    f.op("i64.const", shift)
    f.op("i64.shl")


def work_function(control: int, top: int, own: Own, stack: int | None) -> Func:
    """`work(thread)`: helps thread 0 until `stop`. Threads other than 0 have numbers from 1 on, and their memory from
    `top` on."""
    f = Func("work", ("i32",), ())
    mine, spins, ticket = f.local("i32"), f.local("i32"), f.local("i64")
    f.op("local.get", 0)
    f.op("i32.const", 1)
    f.op("i32.sub")
    f.op("i32.const", own.bytes)
    f.op("i32.mul")
    f.op("i32.const", top)
    f.op("i32.add")
    f.op("local.set", mine)
    if stack is not None:
        f.sum(mine, own.arguments)
        f.op("global.set", stack)
    f.op("loop", None)
    f.op("i32.const", 0)
    f.op("local.set", spins)
    f.op("loop", None)
    _load(f, control + STOPPED)
    f.op("if", None)
    f.op("return")
    f.op("end")
    f.op("local.get", mine)
    f.call("take")
    f.op("if", None)
    f.op("i32.const", 0)
    f.op("local.set", spins)
    f.op("end")
    _look_again(f, spins, _SPINS)
    f.op("end")
    # Counted as asleep before it looks for the last time: thread 0 publishes before it looks who sleeps.
    _add(f, control + ASLEEP, 1)
    f.op("drop")
    _load(f, control + TICKET, "i64")
    f.op("local.set", ticket)
    _is_none_left(f, ticket)
    _load(f, control + STOPPED)
    f.op("i32.eqz")
    f.op("i32.and")
    f.op("if", None)
    f.op("i32.const", control + TICKET + 4)
    f.op("local.get", ticket)
    f.op("i64.const", 32)
    f.op("i64.shr_u")
    f.op("i32.wrap_i64")
    f.op("i64.const", -1)
    f.op("memory.atomic.wait32", 2, 0)
    f.op("drop")
    f.op("end")
    _add(f, control + ASLEEP, -1)
    f.op("drop")
    f.op("br", 0)
    f.op("end")
    return f


def stop_function(control: int) -> Func:
    """`stop()`: has all other threads end when they have finished their chunks, and nobody begin another."""
    f = Func("stop", (), ())
    _store(f, control + STOPPED, 1)
    f.op("i32.const", control + TICKET)
    _next_generation(f, control)
    f.op("i64.atomic.store", 3, 0)
    _wake(f, control + TICKET + 4)
    return f
