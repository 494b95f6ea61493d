"""The model that is served: its interface, and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..artifact import Artifact
from ..dataclass import dataclass, field
from ..errors import ArgumentError
from ..host.arrays import Array
from ..host.executor import load
from ..host.fresh import FreshExecutable
from ..host.grid import ONE_DEVICE, fits
from ..host.leaf import Leaf
from ..host.manifest import Exchange, Manifest
from .settings import Settings


@dataclass(frozen=True)
class Source:
    """The source of a model in each worker process: the artifact, and its weights and initial states by name."""

    artifact: Artifact
    values: Mapping[str, Array] = field(default_factory=dict)


class Model:
    """A module ready for requests. Threads may call `run` concurrently."""

    def __init__(self, source: Source, settings: Settings) -> None:
        """ArgumentError if the module needs what no request brings, or a weight is missing."""
        manifest = self.manifest = Manifest.parse(source.artifact.manifest)
        check_servable(manifest)
        if settings.reuse:
            check_stateless(manifest)
        executable = FreshExecutable(source.artifact, settings.run_timeout)
        for name, value in source.values.items():
            executable.set(name, value)
        if executable.unset:
            several = f" and {len(executable.unset) - 1} more" if len(executable.unset) > 1 else ""
            raise ArgumentError(
                f"'{manifest.name}' has no value for its weight '{executable.unset[0]}'{several}: "
                "give a file with --weights, or --set NAME=X.NPY for each"
            )
        self._run = executable.run
        if settings.reuse:
            pooled = load(source.artifact, timeout=settings.run_timeout)
            for name, value in source.values.items():
                pooled.set(name, value)
            self._run = pooled.run
        self.inputs: tuple[Leaf, ...] = tuple(p for p in manifest.parameters if p.kind == "input")
        self.results: tuple[Leaf, ...] = tuple(r for r in manifest.results if r.kind == "output")

    @property
    def name(self) -> str:
        """The module's name."""
        return self.manifest.name

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The results for an array for each input. RunError or LimitError if the module traps or takes too long."""
        return self._run(*arrays)


def check_servable(manifest: Manifest) -> None:
    """ArgumentError if a run needs more than the arrays of a request."""
    name = manifest.name
    if not fits(manifest, ONE_DEVICE):
        raise ArgumentError(
            f"'{name}' runs on several devices, and a server runs it on one: it cannot be served; see docs/replicas.md"
        )
    for request in manifest.requests:
        if not isinstance(request, Exchange):
            what = (
                f"calls the host's function '{request.target}'"
                if request.kind == "custom_call"
                else f"has {request.kind}"
            )
            raise ArgumentError(
                f"'{name}' {what} ('{request.name}'), and a request has no host to ask: it cannot be served; run it "
                f"with xla-wasm run"
            )


def check_stateless(manifest: Manifest) -> None:
    """ArgumentError if a run leaves something for the next."""
    states = [p.name for p in manifest.parameters if p.kind == "state"]
    if states or manifest.stateful:
        what = f"the state '{states[0]}'" if states else "a generator of random numbers"
        raise ArgumentError(
            f"--reuse-instances: '{manifest.name}' has {what}, with which requests would see each other; leave it out"
        )


def signature(model: Model) -> dict[str, Any]:
    """The interface as `GET /` gives it."""
    return {
        "name": model.name,
        "inputs": [_entry(x) for x in model.inputs],
        "results": [_entry(x) for x in model.results],
    }


def _entry(leaf: Leaf) -> dict[str, Any]:
    shape = [int(text) if text.isdecimal() else text for text in leaf.shown_dimensions]
    return {"name": leaf.name, "type": leaf.element_type, "shape": shape}
