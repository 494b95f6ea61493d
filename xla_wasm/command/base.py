"""The parts that commands share: the application, options that several have, and reports of files that they wrote."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer
from rich.text import Text
from typer.core import TyperGroup

from .. import files
from ..dataclass import dataclass, field
from ..errors import ArgumentError
from ..options import CALLBACKS, WINOGRAD
from ..target import KINDS, PORTABLE, SIMD128, TARGETS, TUNES, WORKER
from . import report
from .opening import STDIN

EXAMPLE = "jax.jit(f).lower(*args).compiler_ir('hlo').as_serialized_hlo_module_proto()"


class _Commands(TyperGroup):
    """Commands whose errors about values do not begin with the name of the library that found them."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    cls=_Commands,
    help=f"""Compiles XLA HLO modules to small standalone WebAssembly modules.

    MODULE is HLO text, a serialized HloModuleProto or HloProto as JAX writes it, StableHLO, or a file of jax.export:

    {EXAMPLE}
    """,
    epilog="Start with:  xla-wasm compile model.hlo.pb  &&  xla-wasm run model.wasm --random-inputs",
    no_args_is_help=True,
    add_completion=False,  # `completion` prints scripts, which start no Python at each key
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

if TYPE_CHECKING:
    TargetName: TypeAlias = str
    Tune: TypeAlias = str
    Kind: TypeAlias = str
    Callbacks: TypeAlias = str
    Algorithm: TypeAlias = str
else:
    TargetName, Tune, Kind, Callbacks = (
        Literal[tuple(TARGETS)],
        Literal[TUNES],
        Literal[(*KINDS, WORKER)],
        Literal[CALLBACKS],
    )
    Algorithm = Literal[tuple(WINOGRAD)]

ModulePath = Annotated[Path, typer.Argument(metavar="MODULE", help="A file, or - for standard input.")]
AnyPath = Annotated[Path, typer.Argument(metavar="MODULE|OUT.WASM", help="A file, or - for standard input.")]
TargetOption = Annotated[
    TargetName, typer.Option("--target", help="simd128 runs everywhere; relaxed-simd adds fused multiply-add.")
]
TuneOption = Annotated[Tune, typer.Option("--tune", help="Engine to shape the matrix kernels for.")]


@dataclass(frozen=True)
class Engine:
    """The engine that a module is compiled for."""

    target: TargetOption = SIMD128
    tune: TuneOption = PORTABLE


WeightOption = Annotated[
    list[str],
    typer.Option("--weight", metavar="NAME", help="A parameter (name or index) set once, not at each run. Repeatable."),
]
FormatOption = Annotated[
    list[str],
    typer.Option(
        "--weight-format",
        metavar="[NAME=]FORMAT",
        help="The format of a stored weight: f32, f16, bf16, int8 or int4. NAME may be a pattern, as 'params.*'; "
        "without it, the format is for all that --weight names. Repeatable.",
    ),
]


@dataclass(frozen=True)
class Weights:
    """Parameters that are set once, and what they are stored as."""

    weight: WeightOption = field(default_factory=list)
    weight_format: FormatOption = field(default_factory=list)


DimOption = Annotated[
    list[str],
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        help="The size of a symbolic dimension of jax.export, or a range such as 1..128; or all sizes of an argument "
        "of StableHLO that leaves some open, as in x=8,4. Repeatable.",
    ),
]
StateOption = Annotated[
    list[str],
    typer.Option(
        "--state", metavar="NAME=RESULT", help="A parameter that stays inside, and the result it becomes. Repeatable."
    ),
]
InitialOption = Annotated[
    list[str],
    typer.Option(
        "--initial",
        metavar="[NAME=]FILE",
        help="The first value of a state: NAME=X.NPY. An .npz or safetensors file gives all that it has by name, and "
        "PREFIX=FILE those "
        "called PREFIX.NAME. Repeatable.",
    ),
]
InputOption = Annotated[
    list[str],
    typer.Option(
        "--input",
        "-i",
        metavar="[NAME=]FILE",
        help="An input: X.NPY for the next one, NAME=X.NPY for the one of that name, ALL.NPZ for those that are "
        "called as its arrays are, "
        "- for standard input. Repeatable.",
    ),
]
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="[NAME=]FILE",
        help="A weight or state: NAME=X.NPY. An .npz or safetensors file gives all that it has by name, and "
        "PREFIX=FILE those called "
        "PREFIX.NAME. Repeatable.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of made-up inputs.")]


JsonOption = Annotated[bool, typer.Option("--json", help="Print facts as JSON, for programs.")]


def stem(path: Path) -> str:
    """The file's name without the suffixes that HLO files go by."""
    name = path.name
    for suffix in (".pb", ".hlo", ".txt", ".hlo_module"):
        name = name.removesuffix(suffix)
    return name if name not in ("", STDIN) else "out"


def check_standard_input(*names: str) -> None:
    """Standard input can be read once."""
    if sum(name == STDIN or name.endswith(f"={STDIN}") for name in names) > 1:
        raise ArgumentError("standard input is named twice, and can be read once: give the other as a file")


def write(path: Path, content: bytes | str, as_json: bool) -> None:
    """Writes a file, in a folder that is made if need be, and says so; or to standard output, and then says nothing
    there."""
    if str(path) == STDIN:
        if isinstance(content, str) and sys.stdout.isatty():
            report.text(content)
            return
        stream = report.binary_output()
        stream.write(content.encode() if isinstance(content, str) else content)
        stream.flush()
        return
    files.make_folder(path.parent)
    files.write(path, content)
    size = path.stat().st_size
    if as_json:
        report.print_json({"files": [{"path": str(path), "bytes": size}]})
    else:
        report.console().print(Text.assemble((str(path), "bold"), f"  {report.size(size)}"), soft_wrap=True)
