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
from ..hlo.ir import Module
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
from .interrupt import ends_at_once
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
            help="The algorithm of Winograd's that convolutions with windows of 3x3 may take. off: none; f2: as exact "
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

    def is_written(self, made: Made) -> bool:
        """Returns true if JavaScript is written, as always for workers."""
        return self.js or made.kind == WORKER


def compile_module(
    module: ModulePath,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The file to write; else MODULE's name with .wasm, here; - is standard output."
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
    _check(made, script, weights)
    check_standard_input(str(module), *states.initial)
    where = output or Path(stem(module) + ".wasm")
    streams = str(where) == STDIN
    if streams:
        if script.is_written(made) or made.sidecar:
            option = "--js" if script.is_written(made) else "--sidecar"
            raise ArgumentError(f"{option} writes several files, and -o - is one stream: name a file")
        stream = report.binary_output()
    else:
        _check_outputs(where, module, made, script, states)
    source = module_of(module, "compile", dim)
    artifact, seconds = _compiled(source, engine, weights, states, made)
    if streams:
        stream.write(artifact.wasm)
        stream.flush()
        written = []
    else:
        written = _saved(artifact, where, made, script)
    if as_json:
        facts = {"files": list(_sizes(written)), "seconds": seconds, **_interface(artifact)}
        report.print_json(facts, error=streams)
    elif streams:
        size = report.size(len(artifact.wasm))
        report.error_console().print(f"{size}, compiled in {report.duration(seconds)}")
    else:
        _print_files(artifact, written, seconds, made.kind)


def _check(made: Made, script: Script, weights: Weights) -> None:
    """Raises ArgumentError for options that exclude each other."""
    kind, first = made.kind, weights.weight_format[:1]
    js = script.is_written(made)
    if js and kind not in (MODULE, WORKER):
        raise ArgumentError(
            f"--js writes JavaScript that loads a module, and a {kind} runs by itself: leave --js or --kind {kind} out"
        )
    if made.threads and kind != MODULE:
        raise ArgumentError(
            f"--threads is for modules, whose hosts start threads: leave --threads or --kind {kind} out"
        )
    if not js and (script.loader is not None or script.copy_loader):
        raise ArgumentError("--loader and --copy-loader are about the JavaScript that --js writes: add --js")
    if not weights.weight and first and first[0] in WEIGHT_FORMATS:
        raise ArgumentError(f"--weight-format {first[0]}: say which weights, with --weight NAME for each")


def _check_outputs(where: Path, module: Path, made: Made, script: Script, states: States) -> None:
    """Raises ArgumentError if a file that is to be written cannot be, or is one of those that are read."""
    starts = ((text, at) for text in states.initial for at in range(len(text)) if at == 0 or text[at - 1] == "=")
    read = [module, *(Path(text[at:]) for text, at in starts)]
    if script.is_written(made):
        from .. import javascript

        planned = javascript.outputs(where, made.sidecar, made.kind)
    else:
        planned = artifact_outputs(where, made.sidecar)
    files.check_outputs(planned, read)


def _compiled(source: Module, engine: Engine, weights: Weights, states: States, made: Made) -> tuple[Artifact, float]:
    """Returns the compiled module, and the seconds that it took."""
    from ..compiler import compile

    begin = {}
    if states.initial:
        with ends_at_once():
            from .inputs import initial_states  # which needs numpy

        begin = initial_states(source, states.state, states.initial)
    began = time.perf_counter()
    with report.progress(f"compiling {source.name}"):
        options = Options(
            target=engine.target,
            tune=engine.tune,
            weights=tuple(map(selector, weights.weight)),
            state=state_pairs(states.state),
            sidecar=made.sidecar,
            kind=MODULE if made.kind == WORKER else made.kind,
            prepared=made.prepared,
            callbacks=made.callbacks,
            winograd=made.winograd,
            weight_format=weight_formats_of(weights.weight_format),
            threads=made.threads,
            initial=begin,
        )
        artifact = compile(source, options)
    return artifact, time.perf_counter() - began


def _saved(artifact: Artifact, where: Path, made: Made, script: Script) -> list[Path]:
    """Writes the .wasm and all that goes with it, and returns the paths."""
    files.make_folder(where.parent)
    if not script.is_written(made):
        artifact.save(where)
        return [path for _, path in artifact_outputs(where, artifact.sizes[1] > 0)]
    from .. import javascript

    # A worker has its loader beside it unless told otherwise: it may have no npm.
    beside = script.copy_loader or (made.kind == WORKER and script.loader is None)
    if script.copy_loader:
        javascript.copy_loader(where.parent)
    usual = javascript.BESIDE if script.copy_loader else None if made.kind == WORKER else javascript.PACKAGE
    javascript.save(artifact, where, script.loader or usual, made.kind)
    loaders = [where.parent / javascript.PACKAGE] if beside else []
    return [*javascript.written(artifact, where, made.kind), *loaders]


def _print_files(artifact: Artifact, written: list[Path], seconds: float, kind: str) -> None:
    """Prints a line for each file; the first one says how long compiling took."""
    note = ""
    if kind == WORKER:
        from .. import javascript

        note = f"; {javascript.memory(artifact)}"
    for i, entry in enumerate(_sizes(written)):
        size = report.size(entry["bytes"]) if "bytes" in entry else counted(entry["files"], "file")
        what = f"  {size}" + (f", compiled in {report.duration(seconds)}{note}" if i == 0 else "")
        report.console().print(Text.assemble((entry["path"], "bold"), what), soft_wrap=True)


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
