"""Timing on a machine that others use too."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def interleaved(jobs: Mapping[K, Callable[[], object]], seconds: float, runs: int) -> dict[K, float]:
    """The least time of each job in seconds, over at least `runs` rounds of all jobs that go on for `seconds` each.

    Rounds give all jobs the same weather. The time is that of the thread on its core: waiting for a core does not count.
    """
    best = dict.fromkeys(jobs, float("inf"))
    end = time.monotonic() + seconds * len(jobs)
    done = 0
    while done < runs or time.monotonic() < end:
        for name, job in jobs.items():
            begin = time.thread_time()
            job()
            best[name] = min(best[name], time.thread_time() - begin)
        done += 1
    return best
