"""Instances for concurrent callers: made when all others are busy, up to a limit, and used again last in, first out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ..errors import LimitError
from .instance import Instance


class Pool:
    """At most `limit` instances; a caller who finds them all busy waits."""

    def __init__(self, make: Callable[[], Instance], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._idle: deque[Instance] = deque([make()])
        self._count = 1
        self._waiting = 0
        self._changed = threading.Condition()

    def acquire(self) -> Instance:
        """An instance that nobody else uses. Pair it with `release`, or with `discard` after a failure."""
        try:
            return self._idle.pop()  # atomic, and the only thing that happens in a quiet pool
        except IndexError:
            return self._acquire_slowly()

    def release(self, instance: Instance) -> None:
        """Gives an instance back."""
        self._idle.append(instance)
        # A waiter counts itself before it looks at the idle ones, so either it sees this one or it is seen here.
        if self._waiting:
            with self._changed:
                self._changed.notify()

    def discard(self) -> None:
        """Forgets an acquired instance: after a trap nothing in its memory can be trusted."""
        with self._changed:
            self._count -= 1
            self._changed.notify()

    def limit(self, limit: int) -> None:
        """Allows fewer instances from now on; those that are idle and too many go."""
        with self._changed:
            self._limit = min(self._limit, limit)
            while self._count > self._limit:
                try:
                    self._idle.popleft()
                except IndexError:
                    return
                self._count -= 1

    def _acquire_slowly(self) -> Instance:
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    if self._idle:
                        try:
                            return self._idle.pop()
                        except IndexError:
                            continue
                    if self._count < self._limit:
                        self._count += 1
                        break
                    self._changed.wait()
            finally:
                self._waiting -= 1
        try:
            return self._make()
        except LimitError:
            self.discard()
            with self._changed:
                if not self._count:
                    raise
                self._limit = self._count  # no memory for another one: make do with those there are
            return self._acquire_slowly()
        except BaseException:
            self.discard()
            raise
