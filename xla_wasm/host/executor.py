"""Loads artifacts and runs them under wasmtime: `load` and `Executable`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Set
from typing import Any, TypeVar

import numpy as np

from ..artifact import Artifact
from ..errors import ArgumentError, RunError
from .arrays import Array, Slot, dtype_of, physical_bytes
from .calls import HostCall, HostFunction
from .instance import Instance, Limits, Program
from .layouts import PhysicalSlot
from .manifest import Manifest, Parameter, Result
from .pool import Pool

T = TypeVar("T")


def load(
    artifact: Artifact | str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    memory_limit: int | None = None,
    fuel: int | None = None,
    timeout: float | None = None,
    physical: bool = False,
    custom_calls: Mapping[str, HostFunction] | None = None,
) -> Executable:
    """Makes an artifact, the path of one, or the bytes of a `.wasm` ready to run.

    `memory_limit` bounds the linear memory, in bytes, of all concurrent runs together; `fuel` (wasmtime's unit, about one instruction)
    and `timeout` (seconds) bound each run. They cost some speed, and nothing when left out.

    With `physical`, arguments and results are not arrays of the logical shapes but the bytes of their layouts, tiles and
    padding included: `bytes` or arrays of u8 go in, arrays of u8 come out.

    `custom_calls` are the functions that the module calls by name (those it was compiled for with `Options.host_calls`):
    each gets an array for every operand and returns the result, or a sequence of several. A function with a keyword-only
    parameter `opaque` gets the text that the call carries.
    """
    for name, value in (("memory_limit", memory_limit), ("fuel", fuel), ("timeout", timeout)):
        if value is not None and not value > 0:
            raise ArgumentError(f"{name} must be above zero, got {value}")
    if not isinstance(artifact, Artifact):
        artifact = Artifact.open(artifact)
    return Executable(artifact, Limits(memory_limit, fuel, timeout), physical, custom_calls)


class Executable:
    """A module ready to run. Threads may call it concurrently; each call has an instance of the module for itself.

    An executable with state has one instance, so its runs happen one after another.
    """

    def __init__(
        self, artifact: Artifact, limits: Limits, physical: bool = False, custom_calls: Mapping[str, HostFunction] | None = None
    ) -> None:
        self.manifest = Manifest.parse(artifact.manifest)
        self._calls = tuple(HostCall(self.manifest.name, request, custom_calls or {}, Slot) for request in self.manifest.requests)
        parameters = self.manifest.parameters
        for leaf in (*parameters, *self.manifest.results):
            dtype_of(leaf.element_type)
        slot = PhysicalSlot if physical else Slot
        self._physical = physical
        self._inputs = tuple(slot(p, f"argument {i} ('{p.name}')") for i, p in enumerate(q for q in parameters if q.kind == "input"))
        self._outputs = tuple(slot(r, f"result '{r.name}'") for r in self.manifest.results if r.kind == "output")
        self._held = {p.name: slot(p, f"{p.kind} '{p.name}'") for p in parameters if p.kind != "input"}
        self._states = frozenset(p.name for p in parameters if p.kind == "state")
        self._unset = {p.name for p in parameters if p.kind == "weight"}
        self._lost: set[str] = set()
        self._weights: dict[str, bytes] = {}
        self._lock = threading.Lock()
        program = Program(artifact.wasm, self.manifest, artifact.weights, limits)
        count = 1 if self._states or self.manifest.stateful else os.cpu_count() or 1
        if limits.memory is not None:
            count = max(1, min(count, limits.memory // self.manifest.memory_bytes))
        self._pool = Pool(lambda: Instance(program), count)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters in order; those of kind "input" are the arguments of `run`."""
        return self.manifest.parameters

    @property
    def results(self) -> tuple[Result, ...]:
        """All results in order; those of kind "output" are what `run` returns."""
        return self.manifest.results

    def run(self, *arrays: Any) -> list[Array]:
        """Runs the module on one array for each input and returns copies of its outputs.

        Arrays must have the exact dtype and shape; Python numbers and lists are converted when nothing is lost.
        """
        checked = self._check(arrays)

        def work(instance: Instance) -> list[Array]:
            for place, array in zip(instance.inputs, checked):
                place[...] = array
            instance.run(self._serve)
            return [slot.give(place) for slot, place in zip(self._outputs, instance.outputs)]

        return self._with_instance(work, needed=self._held.keys())

    def profile(self, *arrays: Any) -> list[tuple[str, float]]:
        """Runs the module step by step and returns (instruction, seconds) of every step that ran, loops summed."""
        checked = self._check(arrays)

        def work(instance: Instance) -> list[tuple[str, float]]:
            for place, array in zip(instance.inputs, checked):
                place[...] = array
            return instance.profile(self._serve)

        return self._with_instance(work, needed=self._held.keys())

    def set(self, name: str, array: Any) -> None:
        """Sets a weight, for all runs that begin from now on, or the state that the next run begins with."""
        slot = self._slot(name)
        checked = slot.accept(array)
        if name in self._states:
            self._with_instance(lambda instance: instance.states[name].__setitem__(..., checked))
            self._lost.discard(name)
            return
        data = physical_bytes(slot.leaf, checked)
        with self._lock:
            # A new dictionary each time: an instance sees by identity that it is out of date.
            self._weights = {**self._weights, name: data}
            self._unset.discard(name)

    def get(self, name: str) -> Array:
        """A copy of a weight as it was set, or of a state as the last run left it."""
        slot = self._slot(name)
        if name in self._states:
            return self._with_instance(lambda instance: slot.give(instance.states[name]), needed=frozenset({name}))
        data = self._weights.get(name)
        if data is None:
            raise ArgumentError(f"weight '{name}' has not been set")
        major_to_minor = slot.leaf.minor_to_major[::-1]
        stored = np.frombuffer(data, slot.dtype).reshape([slot.shape[d] for d in major_to_minor])
        return slot.give(stored.transpose(np.argsort(major_to_minor)))

    def _serve(self, instance: Instance, number: int) -> None:
        """Calls the function of a request."""
        results = self._calls[number](instance.operands[number])
        for place, result in zip(instance.results[number], results):
            place[...] = result

    def _check(self, arrays: tuple[Any, ...]) -> list[Array]:
        slots = self._inputs
        if len(arrays) != len(slots):
            names = ", ".join(f"{slot.leaf.name}: {slot}" for slot in slots[:8]) + (", ..." if len(slots) > 8 else "")
            raise ArgumentError(f"'{self.manifest.name}' takes {len(slots)} arguments ({names}), got {len(arrays)}")
        if self._physical:
            return [slot.accept(data) for data, slot in zip(arrays, slots)]
        return [
            array if type(array) is np.ndarray and array.dtype == slot.dtype and array.shape == slot.shape else slot.accept(array)
            for array, slot in zip(arrays, slots)
        ]

    def _slot(self, name: str) -> Slot:
        slot = self._held.get(name)
        if slot is None:
            known = ", ".join(list(self._held)[:8]) or "it has none"
            raise ArgumentError(f"'{self.manifest.name}' has no weight or state called '{name}' (known: {known})")
        return slot

    def _with_instance(self, work: Callable[[Instance], T], needed: Set[str] = frozenset()) -> T:
        """Does the work with an instance whose weights are up to date, once the weights and states it needs are known to be there."""
        if self._unset and needed & self._unset:
            missing = min(needed & self._unset)
            raise ArgumentError(f"weight '{missing}' has not been set: call exe.set({missing!r}, {self._held[missing]}) first")
        instance = self._pool.acquire()
        if self._lost and needed & self._lost:
            self._pool.release(instance)
            raise RunError(f"the state '{min(needed & self._lost)}' was lost when a run failed: set it again")
        try:
            weights = self._weights
            if instance.weights is not weights:
                instance.apply(weights)
            outcome = work(instance)
        except BaseException:
            if instance.abandoned:
                self._pool.release(instance)
                raise
            self._lost |= self._states
            self._pool.discard()
            raise
        self._pool.release(instance)
        return outcome
