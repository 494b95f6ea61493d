"""Runs one program on many processes over MPI, each of them one device:

    mpiexec -n 4 python -m xla_wasm.host.launch train.py     # with xla_wasm.mpi.run(exe, arguments of this rank) inside
    mpiexec -n 4 xla-wasm run M --replicated --input 'x.{rank}.npy'

Needs mpi4py and an MPI library: `pip install mpi4py mpich` brings both, and mpiexec.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any, NoReturn, Unpack

from ..errors import ArgumentError, ArtifactError, ExchangeError, XlaWasmError, visible
from ..hostio import HostIO, HostKeywords
from .arrays import Array
from .budget import seconds
from .exchange import Port
from .executor import Executable
from .forks import in_child
from .grid import Grid, make_grid

_SPINS, _SPIN_SECONDS, _MAX_PAUSE = 50, 0.002, 0.0005
"""The number of tests without a break, the seconds after which a waiting process sleeps between them, and its longest
sleep."""
_GRACE = 1.0
"""Seconds between a timeout and the end of the job, in which others may say for whom they have waited."""
_FORWARDED = 0.3
"""Seconds in which a launcher passes on what has been written: when the job ends it drops the rest."""
_HEADER = 512
"""Bytes of what ranks tell each other at the start of a run."""

_let_others = getattr(os, "sched_yield", partial(time.sleep, 0))
_log = logging.getLogger(__name__)
_lock = threading.Lock()
"""Runs of one process come one after another, as its messages on a communicator do."""


@in_child
def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


def run(
    exe: Executable,
    arguments: Sequence[Any],
    comm: Any = None,
    timeout: float = 60.0,
    *,
    num_replicas: int | None = None,
    num_partitions: int | None = None,
    **host: Unpack[HostKeywords],
) -> list[Array]:
    """Runs the module on as many devices as `comm` (an mpi4py communicator, else COMM_WORLD) has ranks, this rank being
    one of them.

    All ranks call this, each with its own arguments; the result is that of this rank. Rank r is device r: weights and
    states set for all devices or for that one are its own. `infeed` and so on are what `exe.run` takes. `timeout`
    bounds, in seconds, how long a rank waits for others at the start and in each exchange.

    If ranks have different programs, or one's arguments are wrong, all raise and may go on. If the run fails later, on
    any rank, that rank prints its error and ends the job: the messages under way can be neither completed nor called
    back, and those who wait for them learn of it by no other way that all MPI libraries have.
    """
    timeout = seconds(timeout)
    comm = world() if comm is None else comm
    if comm.Is_inter():
        raise ArgumentError("the communicator must be one group of ranks, not an intercommunicator")
    rank, size = comm.Get_rank(), comm.Get_size()
    with _lock:
        prepared = error = grid = None
        try:
            grid = make_grid(exe.manifest, size, num_replicas, num_partitions)
            prepared = exe.prepare(grid, rank, arguments, HostIO(**host))
        except XlaWasmError as failure:
            error = failure
        names = _meet(comm, exe, grid, error, timeout)
        assert prepared is not None and grid is not None
        try:
            transport = _Transport(_own(comm, timeout), grid, timeout, names)
            results = prepared(transport)
            transport.finish()
        except BaseException as failure:
            if not isinstance(failure, XlaWasmError):
                traceback.print_exc()
            end_job(
                comm, f"{type(failure).__name__}: {failure}", grace=_GRACE if isinstance(failure, ExchangeError) else 0
            )
        return results


def world() -> Any:
    """The communicator of all processes that were started together."""
    return _mpi().COMM_WORLD


@cache
def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # mpi4py is not there, or finds no MPI library
        raise XlaWasmError(
            f"running over MPI needs mpi4py and an MPI library: pip install mpi4py mpich ({error})"
        ) from error
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    # Launchers, debuggers and `kill` know processes, not ranks.
    _log.info("rank %d of %d is %s", rank, size, _place())
    return MPI


def end_job(comm: Any, message: str, code: int = 1, grace: float = 0) -> NoReturn:
    """Ends all processes of the job, after saying why."""
    sys.stdout.flush()
    # In one piece with its line break: what ranks write is mixed.
    sys.stderr.write(f"xla_wasm: rank {comm.Get_rank()}, {_place()}: {visible(message)}; ending the job\n")
    sys.stderr.flush()
    time.sleep(max(grace, _FORWARDED))
    comm.Abort(code)
    raise SystemExit(code)


def _place() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _meet(comm: Any, exe: Executable, grid: Grid | None, error: XlaWasmError | None, timeout: float) -> list[str]:
    """Waits for all ranks, and raises where they cannot run together; what each rank is, for messages."""
    mpi, rank, size = _mpi(), comm.Get_rank(), comm.Get_size()
    shape = f"{grid.replicas} x {grid.partitions}" if grid else ""
    header = "\n".join((exe.digest, shape, _place(), str(error or ""))).encode()[:_HEADER].ljust(_HEADER, b"\0")
    tag = comm.Get_attr(mpi.TAG_UB)  # beside those of the caller
    others = [r for r in range(size) if r != rank]
    headers = [bytearray(_HEADER) for _ in range(size)]
    headers[rank][:] = header
    requests = [comm.Irecv(headers[r], r, tag) for r in others] + [comm.Isend(header, r, tag) for r in others]
    missing = _wait(mpi, requests, timeout)
    if missing:
        absent = sorted({others[i % len(others)] for i in missing})
        end_job(comm, f"waited {timeout:g} s at the start for {_listed(absent)}, which never arrived", grace=_GRACE)
    told = [bytes(h).rstrip(b"\0").decode(errors="ignore").split("\n", 3) for h in headers]
    if error is not None:
        raise error
    for r, (_, _, where, failure) in enumerate(told):
        if failure:
            raise ExchangeError(f"device {r} (rank {r}, {where}) cannot run: {failure}")
    different = [r for r, other in enumerate(told) if other[:2] != told[0][:2]]
    if different:
        what = (
            "another program"
            if any(told[r][0] != told[0][0] for r in different)
            else "other numbers of replicas and partitions"
        )
        raise ExchangeError(
            f"{_listed(different)} of {size} run{'s' * (len(different) == 1)} {what} than rank 0: give all the same "
            f"module"
        )
    return [f"rank {r}, {where}" for r, (_, _, where, _) in enumerate(told)]


def _listed(ranks: Iterable[int]) -> str:
    listed = [str(r) for r in ranks]
    return f"rank {listed[0]}" if len(listed) == 1 else f"ranks {', '.join(listed[:-1])} and {listed[-1]}"


def _wait(mpi: Any, requests: list[Any], timeout: float, statuses: list[Any] | None = None) -> list[int]:
    """Waits until all requests are done; after the timeout, those that are not."""
    test, turns = mpi.Request.Testall, 0
    begin = end = 0.0
    pause = _MAX_PAUSE / 16
    while not test(requests, statuses):
        turns += 1
        if turns <= _SPINS:
            continue
        now = time.monotonic()
        if turns == _SPINS + 1:
            begin, end = now, now + timeout
        if now > end:
            return [i for i, request in enumerate(requests) if not request.Test()]
        if now < begin + _SPIN_SECONDS:
            _let_others()
        else:
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
    return []


def _own(comm: Any, timeout: float) -> Any:
    """A communicator of the same ranks with no messages but ours, made once and kept with `comm`."""
    mpi, key = _mpi(), _key()
    own = comm.Get_attr(key)
    if own is None:
        own, request = comm.Idup()
        if _wait(mpi, [request], timeout):
            end_job(comm, f"waited {timeout:g} s for others to make a communicator")
        comm.Set_attr(key, own)
    return own


@cache
def _key() -> int:
    return _mpi().Comm.Create_keyval(delete_fn=lambda _comm, _key, own: own.Free())


class _Transport:
    """The exchanges of this rank in one run: MPI reads and writes linear memory, and matches messages by sender,
    receiver and channel."""

    def __init__(self, comm: Any, grid: Grid, timeout: float, names: Sequence[str]) -> None:
        self._mpi = _mpi()
        self._comm = comm
        self._rank = comm.Get_rank()
        self._grid = grid
        self._timeout = timeout
        self._names = names
        self._sent: dict[int, deque[tuple[list[Any], tuple[int, ...]]]] = {}
        """Messages of this device to itself, by channel."""
        self._under_way: list[tuple[Any, int, Port]] = []
        """Buffered sends: the request, the receiver and the port."""

    def exchange(self, port: Port) -> None:
        """See `host.exchange.Transport`."""
        channel, rank, count = port.request.channel, self._rank, self._grid.count
        requests: list[Any] = []
        peers: list[int] = []
        sizes: list[int] = []
        own: list[int] = []
        for i, sender in enumerate(port.senders()):
            if sender == rank:
                own.append(i)
            elif sender >= 0:
                port.check(sender, count)
                for view in port.rows(i):
                    if len(view):
                        requests.append(self._comm.Irecv(view, sender, channel))
                        peers.append(sender)
                        sizes.append(len(view))
        buffered = port.request.buffered
        for j, receiver in enumerate(port.receivers()):
            if receiver == rank:
                blocks = port.copies(j) if buffered else port.blocks(j)
                self._sent.setdefault(channel, deque()).append((blocks, port.sizes))
            elif receiver >= 0:
                port.check(receiver, count)
                for block, size in zip(port.copies(j) if buffered else port.views[j], port.sizes):
                    if size and buffered:
                        self._under_way.append((self._comm.Isend(block, receiver, channel), receiver, port))
                    elif size:
                        requests.append(self._comm.Isend(block, receiver, channel))
                        peers.append(receiver)
        for i in own:
            sent = self._sent.get(channel)
            if not sent:
                raise ExchangeError(f"{self._grid.name(rank)} waits in {port} for itself, and has sent nothing")
            port.write(i, *sent.popleft())
        statuses = [self._mpi.Status() for _ in requests]
        missing = _wait(self._mpi, requests, self._timeout, statuses)
        if missing:
            self._too_late(port, [peers[i] for i in missing])
        for size, status, sender in zip(sizes, statuses, peers):
            if status.Get_count(self._mpi.BYTE) != size:
                got = status.Get_count(self._mpi.BYTE)
                raise ArtifactError(f"{port} gets {got} bytes from device {sender} where it has room for {size}")

    def finish(self) -> None:
        """Waits until others have received what was sent for them to receive at any time."""
        missing = _wait(self._mpi, [request for request, _, _ in self._under_way], self._timeout)
        if missing:
            self._too_late(self._under_way[missing[0]][2], [self._under_way[i][1] for i in missing])

    def _too_late(self, port: Port, peers: Sequence[int]) -> NoReturn:
        others = "; ".join(f"device {peer} ({self._names[peer]}), which never arrived" for peer in sorted(set(peers)))
        raise ExchangeError(f"{self._grid.name(self._rank)} waited {self._timeout:g} s in {port} for {others}")
