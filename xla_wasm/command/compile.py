"""`xla-wasm compile`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from .. import files
from ..artifact import Artifact
from ..artifact import outputs as artifact_outputs
from ..dataclass import dataclass, field
from ..errors import ArgumentError, counted
from ..options import HOST, WEIGHT_FORMATS, Options
from ..target import MODULE, PAGE, WORKER
from . import report
from .base import (
    Algorithm,
    Callbacks,
    DimOption,
    Engine,
    InitialOption,
    JsonOption,
    Kind,
    ModulePath,
    StateOption,
    Weights,
    check_standard_input,
    stem,
)
from .opening import STDIN, module_of, selector, state_pairs, weight_formats_of


@dataclass(frozen=True)
class States:
    """Parameters that stay in the module, and what they begin with."""

    state: StateOption = field(default_factory=list)
    initial: InitialOption = field(default_factory=list)


@dataclass(frozen=True)
class Made:
    """The form of the compiled module."""

    kind: Annotated[
        Kind,
        typer.Option(
            "--kind",
            help="module: what a host runs; command: a program for `wasmtime run`, which reads and writes files; "
            "server: a component for `wasmtime serve`; worker: for edge runtimes, with JavaScript that imports the "
            ".wasm.",
        ),
    ] = MODULE
    prepared: Annotated[
        bool | None,
        typer.Option(
            "--prepared/--no-prepared",
            help="Pack constants now, not in each new instance. By default what --kind makes a program is.",
        ),
    ] = None
    sidecar: Annotated[
        bool, typer.Option("--sidecar", help="Put large constants into a .weights file beside the .wasm.")
    ] = False
    callbacks: Annotated[
        Callbacks,
        typer.Option(
            "--callbacks",
            help="Python functions that a JAX program calls. host: a run that reaches one asks its host, which may "
            "have a function for it, "
            "and prints what jax.debug.print prints; trap: it ends there; drop: those without results are left out.",
        ),
    ] = HOST
    winograd: Annotated[
        Algorithm,
        typer.Option(
            "--winograd",
            help="Which of Winograd's algorithms convolutions with windows of 3x3 may take. off: none; f2: as exact "
            "as direct sums; "
            "f4: about ten times the error, and faster.",
        ),
    ] = "f2"
    threads: Annotated[
        bool,
        typer.Option(
            "--threads",
            help="Have large operations shared by the threads that a host starts, on memory that they share.",
        ),
    ] = False


@dataclass(frozen=True)
class Script:
    """The JavaScript beside it."""

    js: Annotated[
        bool,
        typer.Option("--js", help="Write a .js and a .d.ts too, which load the .wasm and name what goes in and out."),
    ] = False
    loader: Annotated[
        str | None,
        typer.Option(
            "--loader", metavar="WHERE", help="With --js: the npm package or relative path to import the loader from."
        ),
    ] = None
    copy_loader: Annotated[
        bool, typer.Option("--copy-loader", help="With --js: put the loader into a folder beside, and import that.")
    ] = False


def compile_module(
    module: ModulePath,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Where to write; else MODULE's name with .wasm, here; - is standard output."
        ),
    ] = None,
    engine: Engine,
    weights: Weights,
    states: States,
    dim: DimOption = [],  # noqa: B006
    made: Made,
    script: Script,
    as_json: JsonOption = False,
) -> None:
    """Compiles MODULE to one .wasm file."""
    from ..compiler import compile

    kind, loader, copy_loader, initial = made.kind, script.loader, script.copy_loader, states.initial
    js = script.js or kind == WORKER
    if js and kind not in (MODULE, WORKER):
        raise ArgumentError(
            f"--js writes JavaScript that loads a module, and a {kind} runs by itself: leave --js or --kind {kind} out"
        )
    if made.threads and kind != MODULE:
        raise ArgumentError(
            f"--threads is for modules, whose hosts start threads: leave --threads or --kind {kind} out"
        )
    if not js and (loader is not None or copy_loader):
        raise ArgumentError("--loader and --copy-loader are about the JavaScript that --js writes: add --js")
    first = weights.weight_format[:1]
    if not weights.weight and first and first[0] in WEIGHT_FORMATS:
        raise ArgumentError(f"--weight-format {first[0]}: say which weights, with --weight NAME for each")
    check_standard_input(str(module), *initial)
    where = output or Path(stem(module) + ".wasm")
    streams = str(where) == STDIN
    if streams:
        if js or made.sidecar:
            raise ArgumentError(
                f"{'--js' if js else '--sidecar'} writes several files, and -o - is one stream: name a file"
            )
        stream = report.binary_output()
    if js:
        from .. import javascript
    if not streams:
        read = [
            module,
            *(Path(text[at:]) for text in initial for at in range(len(text)) if at == 0 or text[at - 1] == "="),
        ]
        planned = javascript.outputs(where, made.sidecar, kind) if js else artifact_outputs(where, made.sidecar)
        files.check_outputs(planned, read)
    source = module_of(module, "compile", dim)
    begin = {}
    if initial:
        from .inputs import initial_states  # which needs numpy

        begin = initial_states(source, states.state, initial)
    began = time.perf_counter()
    with report.progress(f"compiling {source.name}"):
        options = Options(
            target=engine.target,
            tune=engine.tune,
            weights=tuple(map(selector, weights.weight)),
            state=state_pairs(states.state),
            sidecar=made.sidecar,
            kind=MODULE if kind == WORKER else kind,
            prepared=made.prepared,
            callbacks=made.callbacks,
            winograd=made.winograd,
            weight_format=weight_formats_of(weights.weight_format),
            threads=made.threads,
            initial=begin,
        )
        artifact = compile(source, options)
    seconds = time.perf_counter() - began
    written: list[Path] = []
    if streams:
        stream.write(artifact.wasm)
        stream.flush()
    else:
        files.make_folder(where.parent)
        if js:
            # A worker has its loader beside it unless told otherwise: it may have no npm.
            beside = copy_loader or (kind == WORKER and loader is None)
            if copy_loader:
                javascript.copy_loader(where.parent)
            usual = javascript.BESIDE if copy_loader else None if kind == WORKER else javascript.PACKAGE
            javascript.save(artifact, where, loader or usual, kind)
            written = [
                *javascript.written(artifact, where, kind),
                *([where.parent / javascript.PACKAGE] if beside else []),
            ]
        else:
            artifact.save(where)
            written = [path for _, path in artifact_outputs(where, artifact.sizes[1] > 0)]
    if as_json:
        facts = {"files": list(_sizes(written)), "seconds": seconds, **_interface(artifact)}
        report.print_json(facts, error=streams)
        return
    console = report.error_console() if streams else report.console()
    note = f"; {javascript.memory(artifact)}" if kind == WORKER else ""
    for i, entry in enumerate(_sizes(written)):
        size = report.size(entry["bytes"]) if "bytes" in entry else counted(entry["files"], "file")
        what = f"  {size}" + (f", compiled in {report.duration(seconds)}{note}" if i == 0 else "")
        console.print(Text.assemble((entry["path"], "bold"), what), soft_wrap=True)
    if streams:
        console.print(f"{report.size(len(artifact.wasm))}, compiled in {report.duration(seconds)}")


def _sizes(paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        if path.is_dir():
            yield {"path": f"{path}/", "files": sum(file.is_file() for file in path.rglob("*"))}
        else:
            yield {"path": str(path), "bytes": path.stat().st_size}


def _interface(artifact: Artifact) -> dict[str, Any]:
    manifest = artifact.manifest
    return {
        "name": manifest["name"],
        "target": manifest["target"],
        "memory_bytes": manifest["pages"] * PAGE,
        "peak_bytes": manifest["peak_bytes"],
    }
