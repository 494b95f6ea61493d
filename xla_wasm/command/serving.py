"""What `xla-wasm serve-model` does before it serves: the artifact, its weights and states from files, and the
settings."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from rich.text import Text

from ..artifact import Artifact
from ..dataclass import dataclass
from ..errors import ArgumentError, XlaWasmError
from ..hlo.ir import Module
from ..hlo.signature import parameter_leaves
from ..host.arrayfiles import rounded
from ..host.arrays import Array
from ..host.manifest import Leaf, Manifest
from . import report
from .inputs import compiled_with, held_values, opened

_PACKAGES = ("starlette", "uvicorn", "httptools", "python_multipart", "prometheus_client")


@dataclass(frozen=True)
class Options:
    """The options of the command that become the server's settings."""

    max_concurrency: int | None
    queue: int
    batch_deadline: float | None
    """Milliseconds."""
    run_timeout: float | None
    body_timeout: float
    max_body: int | None
    grace: float
    reuse: bool


def serve_model(
    source: Module | Artifact,
    target: tuple[str, str],
    weights: Path | None,
    settings: Sequence[str],
    options: Options,
    address: tuple[str, int],
    workers: int,
    access_log: bool,
    as_json: bool,
) -> int:
    """Serves until a signal ends it; the exit code. `target` is that of the compiler, and what it tunes for.

    When it can be asked it says so in a line, which is JSON if that is wanted.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        install = f"pip install {' '.join(missing).replace('_', '-')}"
        raise XlaWasmError(
            f"serve-model needs {', '.join(missing)}, which {'are' if missing[1:] else 'is'} not installed: {install}"
        )
    from ..server.model import Model, Source, check_servable
    from ..server.process import listen, serve
    from ..server.settings import Settings

    for name, seconds in (("--run-timeout", options.run_timeout), ("--body-timeout", options.body_timeout)):
        if seconds is not None and not seconds > 0:
            raise ArgumentError(f"{name} must be above zero, got {seconds:g}")
    shapes = _shapes(source)
    floats = {name for name, (element_type, _) in shapes.items() if element_type == "f32"}
    elements = {name: size for name, (_, size) in shapes.items()}
    given, names = opened(weights).arrays(elements, floats) if weights is not None else ({}, [])
    artifact = compiled_with(source, target, settings, names=[*given])
    manifest = Manifest.parse(artifact.manifest)
    check_servable(manifest)
    values = _values(manifest, given, names, settings)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = Settings(
        concurrency=options.max_concurrency or max(1, processors // workers),
        queue=options.queue,
        batch_deadline=None if options.batch_deadline is None else options.batch_deadline / 1000,
        run_timeout=options.run_timeout,
        body_timeout=options.body_timeout,
        max_body=options.max_body,
        grace=options.grace,
        reuse=options.reuse,
    )
    listener = listen(*address)
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    url = f"http://{host}:{listener.getsockname()[1]}/"

    def ready(model: Model) -> None:
        if as_json:
            report.print_ready({"url": url, "pid": os.getpid(), "model": model.name, "workers": workers})
            return
        text = Text.assemble((url, "bold"), f"   serves '{model.name}'   Ctrl-C ends")
        report.console().print(text, soft_wrap=True)

    with listener:
        return serve(Source(artifact, values), chosen, listener, workers, access_log, ready)


def _shapes(source: Module | Artifact) -> Mapping[str, tuple[str, int]]:
    """Names of all parameters, each with its element type and the number of its elements."""
    if isinstance(source, Module):
        return {name: (shape.element_type, shape.size) for name, shape in parameter_leaves(source)}
    return {
        leaf.name: (leaf.element_type, prod(leaf.dimensions)) for leaf in Manifest.parse(source.manifest).parameters
    }


def _values(
    manifest: Manifest, given: dict[str, Array], names: Sequence[str], settings: Sequence[str]
) -> dict[str, Array]:
    """Weights and initial states by name: from the file of `--weights`, which holds arrays of these `names`, and from
    those of `--set`."""
    leaves: dict[str, Leaf] = {p.name: p for p in manifest.parameters if p.kind != "input"}
    values = {name: rounded(array, leaves[name].element_type) for name, array in given.items() if name in leaves}
    known = ", ".join(leaves) or "there is none"
    if names and not values:
        has = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise ArgumentError(
            f"--weights: no array of the file has the name of a weight or state ({known}); the file has {has}"
        )
    values |= held_values(leaves, settings)
    return values
