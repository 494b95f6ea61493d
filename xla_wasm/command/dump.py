"""`xla-wasm dump` and `xla-wasm convert`: a module as text, or in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import files
from ..errors import ArgumentError
from ..hlo.ir import Module
from ..options import Options
from . import report
from .base import AnyPath, DimOption, Engine, JsonOption, ModulePath, write
from .opening import STDIN, module_of, read, shown

Stage = Literal["hlo", "plan", "kernels", "loops", "wat", "manifest"]


def dump(
    path: AnyPath,
    stage: Annotated[Stage, typer.Option("--stage", help="The stage to print; an artifact has only wat and manifest.")],
    dim: DimOption = [],  # noqa: B006
    *,
    engine: Engine,
) -> None:
    """Prints the module as it stands at a boundary of the compiler."""
    source = read(path, dim)
    if isinstance(source, Module):
        from ..compiler import stages

        text = stages(source, Options(target=engine.target, tune=engine.tune))[stage]
    elif stage == "wat":
        from ..wasm.disasm import disassemble

        text = disassemble(source.wasm)
    elif stage == "manifest":
        import json

        text = json.dumps(source.manifest, indent=2, ensure_ascii=False)
    else:
        raise ArgumentError(f"{shown(path)} is compiled: it has no stage {stage}; name the HLO module it was made from")
    report.text(text.removesuffix("\n"))


def convert(
    path: ModulePath,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="The file to write: HLO text if it ends in .txt or .hlo, or is - (standard output), else a proto.",
        ),
    ],
    large_constants: Annotated[
        bool, typer.Option("--large-constants/--elide", help="Long constants in text: all, or as {...}.")
    ] = True,
    dim: DimOption = [],  # noqa: B006
    as_json: JsonOption = False,
) -> None:
    """Converts MODULE to HLO text or a serialized HloModuleProto."""
    text = output.suffix in (".txt", ".hlo") or str(output) == STDIN
    if str(output) != STDIN:
        files.check_outputs([("the result", output)], [path])
    module = module_of(path, "convert", dim)
    if text:
        write(output, module.to_text(large_constants=large_constants), as_json)
        return
    elided = next((x for x in module.instructions() if x.opcode == "constant" and x.attrs["literal"].elided), None)
    if elided is not None:
        raise ArgumentError(
            f"{shown(path)}: the values of {elided.where} were left out of the text, so there is no proto of it"
        )
    write(output, module.to_proto(), as_json)
