"""One device: its instances, its weights and its states."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Set
from threading import get_ident
from typing import Any, TypeVar, cast

from ..errors import ArgumentError, RunError
from .arrays import Slot
from .base import WeightsAndStates
from .budget import Budget
from .forks import owns
from .instance import Instance, Program, Room
from .instance_pool import InstancePool
from .views import Lease, is_same
from .weights import Weight, kept, own_place

T = TypeVar("T")


class Device(WeightsAndStates):
    """Instances that have the same weights; where there are states, it is one instance."""

    def __init__(self, program: Program, held: Mapping[str, Slot], instances: int, budget: Budget) -> None:
        super().__init__(held)
        self._program = program
        self._parameters = {parameter.name: parameter for parameter in program.manifest.parameters}
        lost, states = self._lost, self._states

        def make(budget: Budget) -> Instance:
            """With initial states: what the states were is lost, if there was an instance before."""
            lost.update(states)
            return Instance(program, budget)

        self.pool = InstancePool(make, instances, program.manifest.name, budget)
        self._lost.clear()  # the first instance is what its states are
        self._home: Room | None = None
        """The memory that has all weights which are nowhere else. Its instance may have failed since: a run writes no
        weight."""
        self._lease: Callable[[], Lease | None] = lambda: None
        self._after_fork()
        owns(self)

    def _after_fork(self) -> None:
        """In a child nobody else holds its locks."""
        self._leasing = threading.Lock()
        self._packing = threading.Lock()
        """Of what the weights are, and where."""

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
            if instance.weights is not weights or (weights and not self._has_home()):
                with self._packing:
                    self._bring(instance)
        except BaseException:
            self.put_back(instance)
            raise
        return instance

    def _has_home(self) -> bool:
        """Returns True if the instance that has the weights is one that runs, and no failed one kept only for them."""
        instance = self._home.instance() if self._home is not None else None
        return instance is not None and instance.pool.holds(instance)

    def _bring(self, instance: Instance) -> None:
        """Has an instance hold the weights of now, and lets go of whatever else does. Call it with `_packing`."""
        instance.apply(self.weights, self._home)
        self._home = instance.room
        for name, weight in self.weights.items():
            if kept(self._program.manifest, self._parameters[name]):
                weight.data = None
            elif isinstance(weight.data, memoryview):
                weight.data = bytes(weight.data)  # which may be the caller's
            weight.forms = None

    def set_weight(self, name: str, weight: Weight, budget: Budget) -> None:
        """Has an instance take a weight at once if one is idle, so that its bytes, which may be the caller's, need no
        copy."""
        instance = self.pool.idle()
        if instance is None or instance.is_seen:  # the bytes may lie in the memory that callers see
            weight.data = None if weight.data is None else bytes(weight.data)
        if instance is None:
            with self._packing:
                self.put_weight(name, weight)
            return
        try:
            instance.permit.holder = get_ident()
            instance.budget = budget
            with self._packing:
                self.put_weight(name, weight)
                try:
                    self._bring(instance)
                except BaseException:  # what it was before is gone as well
                    self.weights = {key: value for key, value in self.weights.items() if key != name}
                    self._unset.add(name)
                    raise
        finally:
            self.put_back(instance)

    def copied(self, name: str) -> Weight | None:
        """A weight that does not need this device's memory; None if it has not been set."""
        with self._packing:
            weight = self.weights.get(name)
            if weight is None:
                return None
            if weight.data is not None or weight.forms is not None:
                return Weight(weight.data, weight.forms, weight.given)
            assert self._home is not None, "a weight is somewhere"
            return Weight(None, tuple(map(bytes, self._home.forms(self._parameters[name]))), weight.given)

    def copy(self, other: Device, budget: Budget) -> None:
        """Takes the weights of another device of the same program, from memory to memory. Nobody else uses this one
        yet."""
        with other._packing:
            weights = {name: Weight(w.data, w.forms, w.given) for name, w in other.weights.items()}
            if not weights:
                return
            instance = self.pool.acquire(budget)
            try:
                instance.permit.holder = get_ident()
                instance.budget = budget
                instance.apply(weights, other._home)
            finally:
                self.put_back(instance)
        with self._packing:
            self.weights = weights
            self._unset -= set(weights)
            instance.weights = weights
            self._bring(instance)

    def get_weight(self, name: str, budget: Budget) -> bytes:
        """The bytes of a weight as it was set, in the order of its layout."""
        manifest, parameter = self._program.manifest, self._parameters[name]
        own = own_place(manifest, parameter)
        with self._packing:
            weight = self.weight(name)
            if weight.data is not None:
                return bytes(weight.data)
            if own is not None:
                assert weight.forms or self._home is not None, "a weight is somewhere"
                return bytes((weight.forms or cast("Room", self._home).forms(parameter))[own])
        instance = self.take(frozenset(), budget)
        try:
            with self._packing:
                found = instance.unpacked(parameter)
        finally:
            self.put_back(instance)
        if found is None:
            raise ArgumentError(
                f"weight '{name}' is kept in another form only, from which it cannot be read back: keep the array that "
                f"it was set to"
            )
        return found

    def lease(self, budget: Budget) -> Lease:
        """The memory of its one instance, for callers to see: from now on it has no more than one."""
        while True:
            instance = self.take(frozenset(), budget)
            try:
                with self._leasing:  # nobody waits in there
                    lease = self._lease()
                    if lease is None:
                        self.pool = InstancePool(self._make_alone, 1, self._program.manifest.name, budget, instance)
                        with self._packing:
                            self._bring(instance)
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

    def limit(self, limit: int) -> None:
        """Allows fewer instances from now on."""
        self.pool.limit(limit, self._home.instance() if self._home is not None else None)

    def close(self) -> None:
        """Has its instances go, now or when their runs are over, and waits for the threads of those that go now."""
        self.weights = {}
        self._home = None
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
