"""A compiled module with its weights and inputs in place, so that only its `run` is timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xla_wasm import Artifact
from xla_wasm.host.arrays import Array, physical_bytes
from xla_wasm.host.instance import Instance, Limits, Program
from xla_wasm.host.manifest import Manifest


class Resident:
    """An instance under wasmtime. Calling it calls the export `run` and nothing else."""

    def __init__(self, artifact: Artifact, inputs: Sequence[Array], weights: Mapping[str, Any] | None = None):
        manifest = Manifest.parse(artifact.manifest)
        self._instance = Instance(Program(artifact.wasm, manifest, artifact.weights, Limits()))
        given = weights or {}
        self._instance.apply({p.name: physical_bytes(p, given[p.name]) for p in manifest.parameters if p.kind == "weight"})
        for place, array in zip(self._instance.inputs, inputs, strict=True):
            place[...] = array
        self._call = self._instance.run

    def __call__(self) -> None:
        self._call()

    def outputs(self) -> list[Array]:
        """Copies of what the last run left."""
        return [place.copy() for place in self._instance.outputs]

    def profile(self, runs: int) -> list[tuple[str, float]]:
        """Each step's name and its least time in seconds over some runs."""
        rounds = [self._instance.profile() for _ in range(runs)]
        return [(name, min(times[i][1] for times in rounds)) for i, (name, _) in enumerate(rounds[0])]
