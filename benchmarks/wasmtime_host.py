"""Modules under wasmtime whose runs are timed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xla_wasm import Artifact
from xla_wasm.host.arrays import Array, physical_bytes
from xla_wasm.host.instance import Instance, Limits, Program
from xla_wasm.host.manifest import Manifest
from xla_wasm.host.weights import Weight


class Resident:
    """A compiled module with its weights, states and inputs in place. Calling it calls the export `run` and nothing
    else."""

    def __init__(self, artifact: Artifact, inputs: Sequence[Array], weights: Mapping[str, Any]):
        manifest = Manifest.parse(artifact.manifest)
        self._instance = Instance(Program(artifact.wasm, manifest, artifact.weights, Limits()))
        self._instance.apply(
            {p.name: Weight(physical_bytes(p, weights[p.name])) for p in manifest.parameters if p.kind == "weight"}
        )
        for name, place in self._instance.states.items():
            place[...] = weights[name]
        for place, array in zip(self._instance.inputs, inputs, strict=True):
            place[...] = array
        self._run = self._instance.run

    def __call__(self) -> None:
        self._run()

    def output(self) -> Array:
        """A copy of the only result, as the last run left it."""
        (place,) = self._instance.outputs
        return place.copy()

    def profile(self, runs: int) -> list[tuple[str, float]]:
        """Each step's name and its least time in seconds over some runs."""
        rounds = [self._instance.profile() for _ in range(runs)]
        return [(name, min(times[i][1] for times in rounds)) for i, (name, _) in enumerate(rounds[0])]
