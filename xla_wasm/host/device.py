"""One device: its instances, its weights and its states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TypeVar

from .arrays import Slot
from .base import Keeping
from .instance import Instance, Program
from .pool import Pool

T = TypeVar("T")


class Device(Keeping):
    """Instances that have the same weights; where there are states, it is one instance."""

    def __init__(self, program: Program, held: Mapping[str, Slot], instances: int) -> None:
        super().__init__(held)
        self.pool = Pool(lambda: Instance(program), instances)

    def take(self, needed: Set[str]) -> Instance:
        """An instance with the weights of now, once the weights and states it needs are known to be there. Pair it with `put_back`."""
        self.check(needed & self._unset)
        instance = self.pool.acquire()
        try:
            self.check(needed)  # again, since a run may have failed while this one waited
        except BaseException:
            self.pool.release(instance)
            raise
        weights = self.weights
        if instance.weights is not weights:
            try:
                instance.apply(weights)
            except BaseException:
                self.put_back(instance, sound=False)
                raise
        return instance

    def put_back(self, instance: Instance, sound: bool = True) -> None:
        """Gives an instance back. One that is not sound is not used again, and what the states were is lost."""
        if sound:
            self.pool.release(instance)
        else:
            self.lose()
            self.pool.discard()

    def use(self, work: Callable[[Instance], T], needed: Set[str] = frozenset()) -> T:
        """Does the work with an instance."""
        instance = self.take(needed)
        try:
            outcome = work(instance)
        except BaseException:
            self.put_back(instance, sound=instance.abandoned)
            raise
        self.pool.release(instance)
        return outcome
