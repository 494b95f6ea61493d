"""Runs of which each has an instance of its own: nothing that one run leaves in memory is there for another."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..artifact import Artifact
from ..errors import ArgumentError
from .arrays import Array, Slot, dtype_of, physical_bytes
from .base import FILE, BaseExecutable
from .budget import Budget, Limits
from .grid import ONE_DEVICE, check_alone
from .instance import Instance, Program
from .loopback import Loopback
from .manifest import Exchange, Manifest
from .weights import Weight


class FreshExecutable(BaseExecutable):
    """A module of which every run begins as the first one: with the weights and initial states that were set. States
    not set are as the artifact has them.

    For programs on one device that need no host while they run. Threads may call `run` concurrently; call `set` before
    that.
    """

    def __init__(self, artifact: Artifact, timeout: float | None = None) -> None:
        """`timeout` bounds each run, in seconds. Raises ArgumentError if the program needs a host or several
        devices."""
        manifest = Manifest.parse(artifact.manifest)
        for leaf in (*manifest.parameters, *manifest.results):
            dtype_of(leaf.element_type)
        check_alone(manifest)
        for request in manifest.requests:
            if not isinstance(request, Exchange):
                raise ArgumentError(f"'{manifest.name}' needs its host while it runs: {request.kind} '{request.name}'")
        super().__init__(manifest, None, Slot)
        self._program = Program(artifact.wasm, manifest, artifact.weights, Limits(timeout=timeout))
        self._weights: dict[str, Weight] = {}
        self._initial: dict[str, Array] = {}

    def set(self, name: str | os.PathLike[str], array: Any = FILE) -> None:
        """Sets a weight, or what a state begins with in every run. Raises ArgumentError if there is none of that name,
        shape and dtype.

        Files and structures are as in `xla_wasm.host.executor.Executable.set`.
        """
        if (parts := self._parts(name, array)) is not None:
            for part, value in parts.items():
                self._slot(part).accept(value)
            for part, value in parts.items():
                self.set(part, value)
            return
        name = os.fspath(name)
        slot = self._slot(name)
        checked = slot.accept(array)
        if name in self._states:
            self._initial[name] = np.array(checked)
        else:
            self._weights[name] = Weight(physical_bytes(slot.leaf, checked))

    @property
    def unset(self) -> list[str]:
        """The weights that have not been set; there must be none when it runs."""
        return [p.name for p in self.parameters if p.kind == "weight" and p.name not in self._weights]

    def run(self, *arrays: Any) -> list[Array]:
        """Runs the module on one array for each input and returns copies of its outputs.

        Raises RunError if it traps, LimitError if it takes too long or there is no memory for an instance.
        """
        self._check_open()
        accepted = self._accept(arrays)
        if missing := self.unset:
            raise ArgumentError(
                f"weight '{missing[0]}' has not been set: call set({missing[0]!r}, {self._held[missing[0]]}) first"
            )
        instance = Instance(self._program, Budget(self._program.limits))
        instance.apply(self._weights)
        for name, value in self._initial.items():
            instance.states[name][...] = value
        instance.begin(ONE_DEVICE.ids(0), accepted)
        loopback = Loopback()
        instance.run(lambda instance, number: loopback.exchange(instance.ports[number]))
        return [slot.give(place) for slot, place in zip(self._outputs, instance.outputs)]
