"""One target in a process of its own: inputs one after another, within limits, and what is new among their outcomes."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from xla_wasm import XlaWasmError

from .seeds import stored
from .targets import TARGETS

SECONDS, BYTES = 2.0, 1 << 30
_MOST_KEPT, _SMALL = 2000, 2048


class Slow(BaseException):
    """An input took longer than `SECONDS`."""


def _too_slow(signum: int, frame: FrameType | None) -> None:
    raise Slow


def outcome(run: Callable[[bytes], None], data: bytes) -> tuple[str, str]:
    """Runs a target on an input, and returns two texts: a description for people if it ends with a fault, else "", and
    a key that tells outcomes apart."""
    signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        run(data)
    except XlaWasmError as error:
        return "", _where(error)
    except Slow as error:
        return f"took longer than {SECONDS} s, at {_where(error)}", f"slow {_where(error)}"
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {str(error)[:300]} at {_where(error)}", _where(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "", "ok"


def _where(error: BaseException) -> str:
    if isinstance(where := getattr(error, "where", None), str):
        return where
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "xla_wasm" in frame.filename] or frames
    return f"{type(error).__name__} {' '.join(f'{Path(frame.filename).name}:{frame.lineno}' for frame in own[-2:])}"


def smaller(run: Callable[[bytes], None], data: bytes, kind: str, seconds: float = 20) -> bytes:
    """Returns an input from which pieces are dropped as long as the outcome stays, for `seconds` at most."""
    end = time.monotonic() + seconds
    size = max(len(data) // 2, 1)
    while size and time.monotonic() < end:
        at = 0
        while at < len(data) and time.monotonic() < end:
            shorter = data[:at] + data[at + size :]
            if outcome(run, shorter)[1] == kind:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def fuzz(target: str, seed: int, seconds: float, current: Path, keep: int) -> None:
    """Prints a line of JSON for each fault, one for each of up to `keep` small inputs with a new outcome, and one at
    the end.

    `current` holds the input that is being tried.
    """
    warnings.simplefilter("ignore")
    limit_memory()
    run, words, change = TARGETS[target].run, TARGETS[target].words, TARGETS[target].change
    draw = random.Random(seed)
    kept = [*TARGETS[target].seeds(), *stored(target)]
    with suppress(Exception):  # what the first input imports and starts is no part of its time; its faults show again
        run(kept[0])
    begin = time.monotonic()
    seen: dict[str, int] = {}
    count = 0
    queue = list(kept)
    begun = frozenset(kept)
    with current.open("wb", buffering=0) as file:
        while time.monotonic() - begin < seconds:
            data = queue.pop() if queue else change(draw, draw.choice(kept), kept, words)
            os.pwrite(file.fileno(), len(data).to_bytes(8, "little") + data, 0)
            fault, kind = outcome(run, data)
            count += 1
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] > 1:
                continue
            if fault:
                found = smaller(run, data, kind)
                print(json.dumps({"target": target, "fault": fault, "input": found.hex()}), flush=True)
            elif len(kept) < _MOST_KEPT:
                kept.append(data)
                if keep and len(data) <= _SMALL and data not in begun:
                    keep -= 1
                    print(json.dumps({"target": target, "new": data.hex()}), flush=True)
    print(json.dumps({"target": target, "executions": count, "outcomes": len(seen)}), flush=True)


def limit_memory() -> None:
    """Bounds what inputs may take beyond what is there already. wasmtime reserves addresses of which little is ever
    used."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    resource.setrlimit(
        resource.RLIMIT_DATA, (pages * resource.getpagesize() + BYTES + (1 << 28), resource.RLIM_INFINITY)
    )


def name_of(data: bytes) -> str:
    """The name of an input's file."""
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    fuzz(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
