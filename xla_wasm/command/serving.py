"""Preparations of `xla-wasm serve-model`: the artifact, its weights and states from files, and the settings."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from math import prod

from rich.text import Text

from ..artifact import Artifact
from ..errors import ArgumentError, XlaWasmError
from ..hlo.ir import Module
from ..hlo.signature import parameter_leaves
from ..host.arrayfiles import rounded
from ..host.arrays import Array
from ..host.leaf import Leaf
from ..host.manifest import Manifest
from . import report
from .base import Engine
from .inputs import compiled_with, held_values, opened
from .interrupt import ends_at_once
from .serve_options import Address, Files, Limits

_PACKAGES = ("starlette", "uvicorn", "httptools", "python_multipart", "prometheus_client")


def serve_model(
    source: Module | Artifact,
    engine: Engine,
    files: Files,
    limits: Limits,
    address: Address,
    workers: int,
    access_log: bool,
    as_json: bool,
) -> int:
    """Serves until a signal ends it; the exit code.

    When it can be asked it says so in a line, which is JSON if that is wanted.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        install = f"pip install {' '.join(missing).replace('_', '-')}"
        raise XlaWasmError(
            f"serve-model needs {', '.join(missing)}, which {'are' if missing[1:] else 'is'} not installed: {install}"
        )
    with ends_at_once():
        from ..server.model import Model, Source, check_servable
        from ..server.process import listen, serve
        from ..server.settings import Settings

    for name, seconds in (("--run-timeout", limits.run_timeout), ("--body-timeout", limits.body_timeout)):
        if not seconds > 0:
            raise ArgumentError(f"{name} must be above zero, got {seconds:g}")
    shapes = _shapes(source)
    floats = {name for name, (element_type, _) in shapes.items() if element_type == "f32"}
    elements = {name: size for name, (_, size) in shapes.items()}
    given, names = opened(files.weights).arrays(elements, floats) if files.weights is not None else ({}, [])
    artifact = compiled_with(source, engine, files.settings, names=[*given])
    manifest = Manifest.parse(artifact.manifest)
    check_servable(manifest)
    values = _values(manifest, given, names, files.settings)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = Settings(
        concurrency=limits.max_concurrency or max(1, processors // workers),
        queue=limits.queue,
        batch_deadline=None if limits.batch_deadline is None else limits.batch_deadline / 1000,
        run_timeout=limits.run_timeout,
        body_timeout=limits.body_timeout,
        max_body=limits.max_body,
        grace=limits.grace,
        reuse=limits.reuse,
    )
    listener = listen(address.host, address.port)
    host = f"[{address.host}]" if ":" in address.host else address.host
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
    values = {
        name: rounded(array, leaves[name].element_type, f"--weights: '{name}'")
        for name, array in given.items()
        if name in leaves
    }
    known = ", ".join(leaves) or "there is none"
    if names and not values:
        has = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise ArgumentError(
            f"--weights: no array of the file has the name of a weight or state ({known}); the file has {has}"
        )
    values |= held_values(leaves, settings)
    return values
