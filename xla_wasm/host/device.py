"""One device: its instances, its weights and its states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from threading import get_ident
from typing import TypeVar

from .arrays import Slot
from .base import Keeping
from .budget import Budget
from .instance import Instance, Program
from .pool import Pool

T = TypeVar("T")


class Device(Keeping):
    """Instances that have the same weights; where there are states, it is one instance."""

    def __init__(self, program: Program, held: Mapping[str, Slot], instances: int, budget: Budget) -> None:
        super().__init__(held)
        self.pool = Pool(lambda budget: Instance(program, budget), instances, program.manifest.name, budget)

    def take(self, needed: Set[str], budget: Budget) -> Instance:
        """An instance with the weights of now, once the weights and states it needs are known to be there. Pair it with `put_back`."""
        self.check(needed & self._unset)
        instance = self.pool.acquire(budget)
        try:
            instance.place.holder = get_ident()
            self.check(needed)  # again, since a run may have failed while this one waited
            instance.budget = budget
            weights = self.weights
            if instance.weights is not weights:
                instance.apply(weights)
        except BaseException:
            self.put_back(instance)
            raise
        return instance

    def put_back(self, instance: Instance) -> None:
        """Gives an instance back. One that is not sound is not used again, and what the states were is lost."""
        if instance.sound:
            instance.place.holder = 0
            self.pool.put(instance)
        else:
            self.drop(instance)
        self.pool.ring()

    def drop(self, instance: Instance) -> None:
        """Does not use an instance again: what the states were is lost."""
        self.pool.leave(id(instance.place), None)
        self.lose()

    def use(self, work: Callable[[Instance], T], needed: Set[str], budget: Budget) -> T:
        """Does the work with an instance."""
        instance = self.take(needed, budget)
        try:
            return work(instance)
        finally:
            # As `put_back`, but an interrupt finds no call of Python between the work and the end.
            if instance.sound:
                instance.place.holder = 0
                self.pool.put(instance)
            else:
                self.pool.leave(id(instance.place), None)
                self._lost |= self._states
            self.pool.ring()
