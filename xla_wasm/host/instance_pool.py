"""Instances for concurrent callers: made when all others are busy, up to a limit, and used again last in, first out.

An interrupt or an exception that another thread sends may come between any two steps of Python, and in a callback of a
weak reference Python drops it. So nothing is counted up and down, and nothing is called: an instance has a permit,
permits are known by weak references, and who counts them counts those that are alive. An instance that gets lost on its
way gives its permit back when it is freed. What has to happen for certain is one operation of a built-in type.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from ..errors import LimitError, RunError
from .base import closed
from .budget import UNLIMITED, Budget
from .forks import in_child, owns
from .instance import Instance
from .stop import check_caller

_PAUSE = 0.05
"""Seconds after which a caller who waits looks again, though nobody has called."""


class Permit:
    """The right of an instance to be in a pool: there are no more of them than the limit."""

    __slots__ = ("__weakref__", "holder")

    def __init__(self) -> None:
        self.holder = 0
        """The thread that uses the instance; 0 if it is idle, or on its way."""


class _Wait:
    """One thread's waiting for an instance of a pool."""

    __slots__ = ("pool",)

    def __init__(self, pool: InstancePool) -> None:
        self.pool = pool


_waits: dict[int, _Wait] = {}
"""By thread."""
in_child(_waits.clear)


class InstancePool:
    """At most `limit` instances; a caller who finds them all busy waits. `what` they are instances of, for messages."""

    def __init__(
        self,
        make: Callable[[Budget], Instance],
        limit: int,
        what: str,
        budget: Budget = UNLIMITED,
        taken: Instance | None = None,
    ) -> None:
        """It begins with one instance: an idle one that it makes, or `taken`, which its holder puts back."""
        self._make = make
        self._limit = limit
        self._what = what
        self._permits: set[weakref.ref[Permit]] = set()
        self._idle: deque[Instance] = deque()
        self._lock = threading.Lock()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self.put = self._idle.append
        """Gives an instance back, whose permit says that nobody holds it; then `ring`."""
        self.forget = self._permits.discard
        """Forgets a permit, by a weak reference; then `ring`."""
        self._closed = False
        if taken is None:
            self._idle.append(self._create(self._issue(), budget))
        else:
            taken.permit, taken.permit.holder = self._issue(), taken.permit.holder
            taken.pool = self
        owns(self)

    def acquire(self, budget: Budget = UNLIMITED) -> Instance:
        """An instance that nobody else uses. Note its holder, and pair it with `put`, or with `forget` where nothing in
        its memory can be trusted, as after a trap.

        Raises LimitError if the time of the budget is over before there is one, RunError if there never will be,
        because the pool is closed, or every instance is held by a thread that itself waits for one.
        """
        try:
            return self._idle.pop()  # the only thing that happens in a quiet pool
        except IndexError:
            return self._acquire_slowly(budget)

    def idle(self) -> Instance | None:
        """An instance that nobody uses, as `acquire` gives it, or None if there is none at the moment."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def holds(self, instance: Instance) -> bool:
        """Returns True if an instance is one of the pool's, in use or not."""
        return weakref.ref(instance.permit) in self._permits

    def ring(self) -> None:
        """Wakes a caller who waits. Of a closed pool, lets go of what has been given back."""
        if self._closed:
            self._idle.clear()
        if _waits:
            self._bell.put(None)

    def close(self) -> list[Instance]:
        """Lets go of the instances: of those that are idle, which are returned, now, of others when they are given
        back."""
        self._closed = True
        idle = []
        while self._idle:
            with suppress(IndexError):
                idle.append(self._idle.pop())
        for _ in range(len(_waits)):
            self._bell.put(None)
        return idle

    def limit(self, limit: int, kept: Instance | None) -> None:
        """Allows fewer instances from now on; those that are idle and too many go, except for `kept`."""
        with self._lock:
            self._limit = min(self._limit, limit)
            spared: list[Instance] = []
            while self._issued() > self._limit:
                try:
                    instance = self._idle.popleft()
                except IndexError:
                    break
                if instance is kept:
                    spared.append(instance)
                else:
                    self.forget(weakref.ref(instance.permit))
            self._idle.extend(spared)

    def _after_fork(self) -> None:
        """In a child the parent's other threads are gone, and what they held is nobody's."""
        kept = [instance.permit for instance in self._idle]
        own = threading.get_ident()
        for reference in list(self._permits):
            permit = reference()
            if permit not in kept and (permit is None or permit.holder != own):
                self.forget(reference)
        self._lock = threading.Lock()
        self._bell = SimpleQueue()

    def _issued(self) -> int:
        """Returns the number of permits; those of instances that were freed are forgotten."""
        count = 0
        for reference in list(self._permits):
            if reference() is None:
                self.forget(reference)
            else:
                count += 1
        return count

    def _issue(self) -> Permit:
        permit = Permit()
        self._permits.add(weakref.ref(permit))
        return permit

    def _create(self, permit: Permit, budget: Budget) -> Instance:
        instance = self._make(budget)
        instance.permit, instance.pool = permit, self
        return instance

    def _acquire_slowly(self, budget: Budget) -> Instance:
        thread = threading.get_ident()
        while True:
            if self._closed:
                raise closed(self._what)
            permit = None
            try:
                with self._lock:
                    if self._issued() < self._limit:
                        permit = self._issue()
                if permit is not None:
                    return self._create(permit, budget)
            except BaseException as error:
                if permit is not None:
                    self.forget(weakref.ref(permit))  # a traceback may hold it for long
                others = self._issued()
                if not isinstance(error, LimitError) or not others:
                    self.ring()
                    raise
                budget.seconds(lambda: f"'{self._what}' has no instance")
                self._limit = others  # no memory for another one: make do with those there are
                continue
            _waits[thread] = _Wait(self)
            try:
                instance = self._wait(thread, budget)
            finally:
                _waits.pop(thread, None)
            if instance is not None:
                return instance

    def _wait(self, thread: int, budget: Budget) -> Instance | None:
        """An instance that has become idle, or None if another one may be made."""
        while True:
            try:
                return self._idle.pop()
            except IndexError:
                pass
            if self._closed or self._issued() < self._limit:
                return None
            if _never_ends(thread):
                raise RunError(
                    f"all {self._limit} instances of '{self._what}' are held by runs that wait for another run of it: "
                    "let functions of the host use an executable of their own, exe.clone()"
                )
            check_caller()
            left = budget.seconds(lambda: f"'{self._what}' waited for one of its {self._limit} instances")
            try:
                self._bell.get(timeout=_PAUSE if left is None else min(left, _PAUSE))
            except Empty:
                pass


def _never_ends(thread: int) -> bool:
    """Returns True for a deadlock: what the thread waits for is held by threads that wait, which wait for such, and so
    on."""
    waits = dict(_waits)
    held: dict[int, set[int]] = {}
    for waiting, wait in waits.items():
        pool = wait.pool
        if pool._idle or pool._issued() < pool._limit:
            held[waiting] = {0}
        else:
            permits = [reference() for reference in list(pool._permits)]
            held[waiting] = {permit.holder if permit else 0 for permit in permits}
    stuck = set(waits)
    while loose := {waiting for waiting in stuck if not held[waiting] <= stuck}:
        stuck -= loose
    # Who has gone on in the meantime was not stuck.
    return thread in stuck and all(_waits.get(other) is waits[other] for other in stuck)
