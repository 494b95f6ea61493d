"""Started by mpiexec or its like: which rank this process is, and who says so when it dies.

    mpiexec -n 4 python -m xla_wasm.host.launch train.py ...

runs a script as `python train.py ...` does. If a signal kills a rank, most launchers end the job and do not say which
rank it was: here each rank is the child of a process that does. `xla-wasm run --replicated` does the same. Needs the
standard library alone, so that it can come before all else.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
_PR_SET_PDEATHSIG = 1


def rank(environment: Mapping[str, str] | None = None) -> int | None:
    """The number of this process, as an MPI launcher has said it to it; None if none has."""
    environment = os.environ if environment is None else environment
    return next((int(environment[name]) for name in _RANK_VARIABLES if environment.get(name, "").isdecimal()), None)


def supervise() -> None:
    """Goes on in a child; this process waits for it, says so if a signal ended it, and ends like it. Comes before
    threads and MPI."""
    number = rank()
    if number is None or not hasattr(os, "fork"):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _die_with_parent()
        return
    # Ctrl-C, and what a launcher sends, go to both; what someone sends to this process alone goes on to the child.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        name = signal.Signals(-code).name
        text = f"xla_wasm: rank {number}, process {child} on {socket.gethostname()}: killed by {name}; ending the job\n"
        os.write(2, text.encode())
        # MPICH ends the job when a signal kills a process; one that ends by itself it may miss.
        with suppress(OSError):  # SIGKILL has no handler that could stand in the way
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _die_with_parent() -> None:
    """Asks Linux to end this process when its parent is killed: a launcher knows of the parent only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Runs a script with its arguments."""
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        sys.exit(f"usage: mpiexec -n N {Path(sys.executable).name} -m xla_wasm.host.launch SCRIPT.PY [ARGUMENTS]")
    supervise()
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
