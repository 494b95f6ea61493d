"""`xla-wasm inspect`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ..artifact import Artifact
from ..assemble.wasi_http import INTERFACES
from ..errors import ArgumentError, ArtifactError, UnsupportedError
from ..hlo.ir import Module
from ..options import Options
from ..target import MODULE, SERVER
from . import report
from .base import AnyPath, DimOption, Engine, JsonOption
from .opening import read, shown

if TYPE_CHECKING:
    from ..host.manifest import Manifest


def inspect(
    path: AnyPath,
    dim: DimOption = [],  # noqa: B006
    *,
    engine: Engine,
    c_header: Annotated[
        bool, typer.Option("--c-header", help="Print a C header with the interface of an artifact instead.")
    ] = False,
    c_prefix: Annotated[
        str | None,
        typer.Option(
            "--c-prefix", metavar="NAME", help="With --c-header: what its macros begin with; else OUT.WASM's name."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Shows the interface, operations, sizes, memory and imports of a module or an artifact, and what is not supported,
    if anything."""
    from ..compiler import compile
    from ..host.manifest import Manifest

    if c_prefix is not None and not c_header:
        raise ArgumentError("--c-prefix is about the header that --c-header prints: add --c-header")
    source = read(path, dim)
    if c_header:
        from . import c_header as writer

        if isinstance(source, Module):
            raise ArgumentError(
                f"{shown(path)} is not compiled: --c-header needs the .wasm that is to run, since options move its "
                f"arrays"
            )
        report.text(
            writer.header(Manifest.parse(source.manifest), c_prefix or writer.prefix_for(path.stem)).removesuffix("\n")
        )
        return
    facts: dict[str, Any] = {}
    console = report.quiet_console() if as_json else report.console()
    if isinstance(source, Module):
        facts["module"] = _module(source)
        _print_module(console, facts["module"])
        if facts["module"]["unsupported"]:
            if as_json:
                report.print_json(facts)
            raise UnsupportedError("the module cannot be compiled: see the instructions above, and docs/gaps.md")
    with report.progress(f"compiling {path.name}"):
        options = Options(target=engine.target, tune=engine.tune)
        artifact = source if isinstance(source, Artifact) else compile(source, options)
    manifest = Manifest.parse(artifact.manifest)
    facts |= _interface(manifest)
    _print_interface(console, facts)
    facts["compiled"] = _compiled(artifact, manifest)
    if as_json:
        report.print_json(facts)
    else:
        _print_compiled(console, facts["compiled"])


def _interface(manifest: Manifest) -> dict[str, list[dict[str, Any]]]:
    """Returns the arrays that go in and out: parameters, results, and those that a run exchanges with its host."""
    found: dict[str, list[dict[str, Any]]] = {
        key: [{"name": x.name, "type": str(x), "kind": x.kind, "bytes": x.bytes} for x in leaves]
        for key, leaves in (("parameters", manifest.parameters), ("results", manifest.results))
    }
    found["host"] = []
    for request in manifest.transfers.values():
        passed = request.results or request.operands
        types = ", ".join(map(str, passed))
        name, type_ = request.target or request.name, types if len(passed) == 1 else f"({types})"
        size = sum(leaf.bytes for leaf in passed)
        found["host"].append({"name": name, "type": type_, "kind": request.kind, "bytes": size})
    return found


def _print_interface(console: Console, facts: dict[str, Any]) -> None:
    table = report.table("", "name", "type", "kind", ">bytes")
    for key, title in (("parameters", "parameter {}"), ("results", "result {}"), ("host", "host")):
        for i, row in enumerate(facts[key]):
            table.add_row(title.format(i), row["name"], row["type"], row["kind"], f"{row['bytes']:,}")
    console.print(table)


def _compiled(artifact: Artifact, manifest: Manifest) -> dict[str, Any]:
    """Returns the facts of the compiled module: sizes in bytes, and what it needs."""
    return {
        "bytes": len(artifact.wasm),
        "weights_bytes": len(artifact.weights),
        "memory_bytes": manifest.memory_bytes,
        "peak_bytes": manifest.peak_bytes,
        "steps": len(manifest.steps),
        "needs": list(manifest.features),
        "kind": manifest.kind,
        "imports": list(INTERFACES) if manifest.kind == SERVER else _imports(artifact.wasm),
        "producer": manifest.producer,
        "hash": manifest.hash,
    }


def _print_compiled(console: Console, facts: dict[str, Any]) -> None:
    table = report.table("compiled", "")
    table.add_row("size", report.size(facts["bytes"]))
    if facts["weights_bytes"]:
        table.add_row("weights", report.size(facts["weights_bytes"]))
    table.add_row("memory", f"{report.size(facts['memory_bytes'])}, peak use {report.size(facts['peak_bytes'])}")
    table.add_row("steps", str(facts["steps"]))
    table.add_row("needs", ", ".join(facts["needs"]))
    command = f"{MODULE}, for a host: `wasmtime run` takes what --kind command makes"
    table.add_row("kind", command if facts["kind"] == MODULE else facts["kind"])
    table.add_row("imports", ", ".join(facts["imports"]) or "nothing")
    table.add_row("producer", facts["producer"])
    table.add_row("hash", facts["hash"])
    console.print(table)


def _module(module: Module) -> dict[str, Any]:
    """Returns the facts of a module, and what of it cannot be compiled."""
    from ..compiler import unsupported

    counts = Counter(instruction.opcode for instruction in module.instructions())
    return {
        "name": module.name,
        "computations": len(module.computations),
        "instructions": sum(counts.values()),
        "constants_bytes": sum(i.shape.bytes for i in module.instructions() if i.opcode == "constant"),
        "operations": dict(sorted(counts.items())),
        "unsupported": [{"where": instruction.where, "why": why} for instruction, why in unsupported(module)],
    }


def _print_module(console: Console, module: dict[str, Any]) -> None:
    facts = report.table("module", "")
    facts.add_row("name", module["name"])
    facts.add_row("computations", str(module["computations"]))
    facts.add_row("instructions", str(module["instructions"]))
    facts.add_row("constants", report.size(module["constants_bytes"]))
    facts.add_row(
        "operations", ", ".join(f"{opcode} {n}" if n > 1 else opcode for opcode, n in module["operations"].items())
    )
    console.print(facts)
    if module["unsupported"]:
        table = report.table("not supported", "why")
        for problem in module["unsupported"]:
            table.add_row(Text(problem["where"], "red"), problem["why"])
        console.print(table)


def _imports(wasm: bytes) -> list[str]:
    """Returns the names of what the module imports, according to wasmtime, which also validates it."""
    import wasmtime

    try:
        module = wasmtime.Module(wasmtime.Engine(), wasm)
    except wasmtime.WasmtimeError as error:
        raise ArtifactError(f"the WebAssembly module is damaged: {str(error).strip()}; compile it anew") from error
    return [f"{item.module}.{item.name}" for item in module.imports]
