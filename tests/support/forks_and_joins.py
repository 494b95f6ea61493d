"""Programs of many forks and joins, in which a wake-up that is lost would show: whoever waits for it sleeps for a
minute."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import xla_wasm
from xla_wasm import HloModule, Options
from xla_wasm.artifact import Artifact
from xla_wasm.assemble import threads
from xla_wasm.jax import lower
from xla_wasm.loop import pieces

LOST = 60
"""Seconds that thread 0 sleeps at a time: a call with a lost wake-up takes longer."""


class Forks:
    """`run(n, x)`, which runs a kernel on x n times. `patience`: looks for work, and for the last chunk, before a
    thread sleeps, if not as usual. `size`: how many integers x has, on which the kernel takes some 0.1 us for 64, or
    100 us for 65,536."""

    def __init__(self, size: int, patience: int | None = None) -> None:
        self.x = np.arange(size, dtype=np.int32)
        self._patience = patience

    def module(self) -> HloModule:
        """The program."""

        def kernel(i: Any, x: Any) -> Any:
            for _ in range(8 if self.x.size > 1000 else 1):
                x = (x ^ (x >> 7)) * 3 + i
            return x

        return lower(lambda n, x: jax.lax.fori_loop(0, n, kernel, x), np.int32(0), self.x)

    def artifact(self) -> Artifact:
        """The program for threads, in chunks as small as can be."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pieces, "_CHUNK", 1)
            patch.setattr(threads, "_LOOK", LOST * 10**9)
            if self._patience is not None:
                patch.setattr(threads, "_SPINS", self._patience)
                patch.setattr(threads, "_PATIENCE", self._patience)
            return xla_wasm.compile(self.module(), Options(threads=True))


FORKS = {
    "threads that spin": Forks(64),
    "threads that sleep": Forks(64, 0),
    "threads that sleep while others compute": Forks(1 << 16, 0),
    "threads about to sleep": Forks(1 << 12, 30),
}
COUNTS = {name: (200_000, 10_000_000) if forks.x.size == 64 else (5_000, 200_000) for name, forks in FORKS.items()}
"""Of each, how many forks a run of the tests makes, and how many with `--exhaustive`, in so many calls."""
CALLS = 20
