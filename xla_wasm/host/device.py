"""One device: its instances, its weights and its states."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Set
from threading import get_ident
from typing import Any, TypeVar

from ..errors import RunError
from .arrays import Slot
from .base import WeightsAndStates
from .budget import Budget
from .forks import owns
from .instance import Instance, Program
from .instance_pool import InstancePool
from .views import Lease, is_same

T = TypeVar("T")


class Device(WeightsAndStates):
    """Instances that have the same weights; where there are states, it is one instance."""

    def __init__(self, program: Program, held: Mapping[str, Slot], instances: int, budget: Budget) -> None:
        super().__init__(held)
        self._program = program
        lost, states = self._lost, self._states

        def make(budget: Budget) -> Instance:
            """With initial states: what the states were is lost, if there was an instance before."""
            lost.update(states)
            return Instance(program, budget)

        self.pool = InstancePool(make, instances, program.manifest.name, budget)
        self._lost.clear()  # the first instance is what its states are
        self._lease: Callable[[], Lease | None] = lambda: None
        self._after_fork()
        owns(self)

    def _after_fork(self) -> None:
        """In a child nobody else holds its lock."""
        self._leasing = threading.Lock()

    def take(self, needed: Set[str], budget: Budget) -> Instance:
        """An instance with the weights of now, once the weights and states it needs are known to be there. Pair it with
        `put_back`."""
        self.check(needed & self._unset)
        instance = self.pool.acquire(budget)
        try:
            instance.permit.holder = get_ident()
            self.check(needed)  # again, since a run may have failed while this one waited
            instance.budget = budget
            weights = self.weights
            if instance.weights is not weights:
                instance.apply(weights)
        except BaseException:
            self.put_back(instance)
            raise
        return instance

    def lease(self, budget: Budget) -> Lease:
        """The memory of its one instance, for callers to see: from now on it has no more than one."""
        while True:
            instance = self.take(frozenset(), budget)
            try:
                with self._leasing:  # nobody waits in there
                    lease = self._lease()
                    if lease is None:
                        self.pool = InstancePool(self._make_alone, 1, self._program.manifest.name, budget, instance)
                        instance.is_seen = True
                        lease = Lease(instance)
                        self._lease = weakref.ref(lease)
                    if lease.instance is instance:
                        return lease
            finally:
                self.put_back(instance)

    def _make_alone(self, budget: Budget) -> Instance:
        """An instance in the place of one that failed."""
        if self._lease() is not None:
            raise RunError(
                f"a run of '{self._program.manifest.name}' failed, and views of the memory that it had are held: "
                "drop them, and take new ones with exe.input and exe.output"
            )
        self.lose()
        return Instance(self._program, budget)

    def close(self) -> None:
        """Has its instances go, now or when their runs are over, and waits for the threads of those that go now."""
        self.weights = {}
        pools = [instance.thread_pool for instance in self.pool.close() if instance.thread_pool is not None]
        for pool in pools:
            pool.end()
        for pool in pools:
            pool.join()

    def is_output(self, number: int, array: Any) -> bool:
        """Returns True if an array is the memory of an output, as `lease` gives it."""
        lease = self._lease()
        place: Any = lease.instance.outputs[number] if lease else None
        return is_same(array, place) and array.dtype == place.dtype and array.shape == place.shape

    def put_back(self, instance: Instance) -> None:
        """Gives an instance back. One that is not sound is not used again, and what the states were is lost."""
        if instance.sound:
            instance.permit.holder = 0
            instance.pool.put(instance)
        else:
            self.drop(instance)
        instance.pool.ring()

    def drop(self, instance: Instance) -> None:
        """Does not use an instance again: what the states were is lost."""
        instance.pool.forget(weakref.ref(instance.permit))
        self.lose()

    def use(self, work: Callable[[Instance], T], needed: Set[str], budget: Budget) -> T:
        """Does the work with an instance."""
        instance = self.take(needed, budget)
        try:
            return work(instance)
        finally:
            # As `put_back`, but an interrupt finds no call of Python between the work and the end.
            if instance.sound:
                instance.permit.holder = 0
                instance.pool.put(instance)
            else:
                instance.pool.forget(weakref.ref(instance.permit))
                self._lost |= self._states
            instance.pool.ring()
