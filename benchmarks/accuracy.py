"""The errors of the functions of compiled modules, against the true values, in units in the last place.

python -m benchmarks.accuracy [--functions sine,power] [--target simd128] [--types f32] [--quick]

One-argument functions of f32 are run under wasmtime on all 2^32 inputs and compared with f64; those of f64 and those of
two arguments on many samples of all magnitudes, compared with f64 (of f32 arguments) or 80-bit floats. Where mpmath is
installed, the worst case of each is recomputed with it. A full run takes some hours; accuracy.json keeps what earlier
runs measured, accuracy.md shows all of it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

import xla_wasm
from xla_wasm.builder import Builder
from xla_wasm.command import report
from xla_wasm.hlo.shape import Shape
from xla_wasm.options import Options
from xla_wasm.target import TARGETS

from . import accuracy_functions as functions
from . import markdown

Array = np.ndarray[Any, Any]

BLOCK = 1 << 20
COLUMNS = ("function", "type", "target", ">inputs", ">max ulp", "at", ">NaN", ">inf", ">sign", ">flushed", "reference")


@dataclass(slots=True)
class Row:
    """The errors that were measured of one function. `nan` and `inf` count results that are NaN or infinity where the
    other is not, `sign` other signs, `flushed` denormal results that are 0."""

    function: str
    type: str
    target: str
    inputs: int = 0
    ulp: float = 0.0
    at: tuple[str, ...] = ()
    nan: int = 0
    inf: int = 0
    sign: int = 0
    flushed: int = 0
    reference: str = ""
    """The distance of the reference from mpmath's value at the worst case, in ulp of the type; empty without mpmath."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text, column by column."""
        inputs = "all 2^32" if self.inputs == 2**32 else f"{self.inputs:,}"
        counts = (str(n) for n in (self.nan, self.inf, self.sign, self.flushed))
        return (
            self.function,
            self.type,
            self.target,
            inputs,
            f"{self.ulp:.3f}",
            ", ".join(self.at),
            *counts,
            self.reference,
        )

    def add(self, got: Array, true: Array, arguments: Sequence[Array]) -> None:
        """Compares results with values of a wider type."""
        info = np.finfo(got.dtype)
        wide = got.astype(true.dtype)
        nan, nan_true = np.isnan(wide), np.isnan(true)
        self.nan += int(np.count_nonzero(nan != nan_true))
        number = ~(nan | nan_true)
        self.inf += int(np.count_nonzero((np.isinf(got) != np.isinf(true.astype(got.dtype))) & number))
        self.sign += int(np.count_nonzero((np.signbit(got) != np.signbit(true)) & number))
        tiny = (np.abs(true) < info.tiny) & (true.astype(got.dtype) != 0) & (got == 0)
        self.flushed += int(np.count_nonzero(tiny))
        # Infinity stands for the power of two after the largest number; zeros of the wrong sign are counted above.
        limit = np.ldexp(true.dtype.type(1), int(info.maxexp))
        spacing = np.ldexp(
            true.dtype.type(1),
            np.clip(np.frexp(np.where(number, true, 1))[1] - 1, info.minexp, info.maxexp - 1) - info.nmant,
        )
        error = np.abs(np.clip(wide, -limit, limit) - np.clip(true, -limit, limit)) / spacing
        error = np.where(number & ~tiny, error, 0)
        worst = int(np.argmax(error))
        if error[worst] > self.ulp:
            self.ulp, self.at = float(error[worst]), tuple(float(a[worst]).hex() for a in arguments)


class Compiled:
    """An operation on arrays of `BLOCK` elements, under wasmtime."""

    def __init__(self, opcode: str, type_: str, target: Any, arity: int):
        builder = Builder(opcode)
        root = builder.op(opcode, *(builder.parameter(i, Shape(type_, (BLOCK,))) for i in range(arity)))
        self.exe = xla_wasm.load(xla_wasm.compile(builder.module(root), Options(target=target)))

    def __call__(self, *arguments: Array) -> Array:
        size = len(arguments[0])
        padded = [np.resize(a, BLOCK) if len(a) < BLOCK else a for a in arguments]
        return self.exe.run(*padded)[0][:size]


def exhaustive(row: Row, run: Compiled, true: Callable[[Array], Array], step: int) -> Iterator[int]:
    """Every `step`-th f32, in blocks. Only results that are not the rounded true value need a closer look."""
    for start in range(0, 1 << 32, BLOCK * step):
        x = np.arange(start, start + BLOCK * step, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
        got, wide = run(x), true(x.astype(np.float64))
        want = wide.astype(np.float32)
        magnitudes = want.view(np.uint32) & np.uint32(0x7FFFFFFF)
        # A distance of one is at most 1.5 ulp, but of denormals and infinities all are counted.
        special = bool(((magnitudes < 0x00800000) | (magnitudes == 0x7F800000)).any())
        distance = np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32))
        distance[np.isnan(got) & np.isnan(want)] = 0
        chosen = distance >= (1 if special or row.ulp < 1.5 else 2)
        if chosen.any():
            row.add(got[chosen], wide[chosen], [x[chosen]])
        row.inputs += BLOCK
        yield BLOCK


def sampled(row: Row, run: Compiled, true: Callable[..., Array], blocks: int) -> Iterator[int]:
    """Random samples, `blocks` times."""
    dtype: np.dtype[Any] = np.dtype(np.float32 if row.type == "f32" else np.float64)
    for seed in range(blocks):
        arguments = functions.samples(row.function, dtype, BLOCK, seed)
        row.add(run(*arguments), true(*(a.astype(functions.wider(dtype)) for a in arguments)), arguments)
        row.inputs += BLOCK
        yield BLOCK


def measure(opcode: str, type_: str, target: str, quick: bool, progress: Progress) -> Row:
    """One row of the table."""
    unary = opcode in functions.UNARY
    row = Row(opcode, type_, target)
    run = Compiled(opcode, type_, target, 1 if unary else 2)
    true = functions.reference(opcode, type_)
    blocks = 1 if quick else 8 if type_ == "f64" else 64
    whole = unary and type_ == "f32"
    total = (2**32 >> 8 if quick else 2**32) if whole else blocks * BLOCK
    task = progress.add_task(f"{opcode} {type_} {target}", total=total)
    with np.errstate(all="ignore"):
        steps = exhaustive(row, run, true, 255 if quick else 1) if whole else sampled(row, run, true, blocks)
        for done in steps:
            progress.advance(task, done)
        if row.at:
            row.reference = functions.checked(opcode, type_, tuple(map(float.fromhex, row.at)))
    progress.remove_task(task)
    return row


def _merged(folder: Path, new: Row) -> list[Row]:
    """The rows of earlier runs with a new one in its place."""
    path = folder / "accuracy.json"
    known = [Row(**{**row, "at": tuple(row["at"])}) for row in json.loads(path.read_text())] if path.exists() else []
    rows = {(row.type, row.function, row.target): row for row in known}
    rows[new.type, new.function, new.target] = new
    order = {name: i for i, name in enumerate(functions.ALL)}
    return sorted(rows.values(), key=lambda row: (row.type, order[row.function], [*TARGETS].index(row.target)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--functions", default=",".join(functions.ALL), help="opcodes, with commas between (default: all)"
    )
    parser.add_argument("--target", choices=TARGETS, action="append", help="repeatable (default: both)")
    parser.add_argument("--types", default="f32,f64", help="f32, f64 or both (default)")
    parser.add_argument("--quick", action="store_true", help="every 255th f32 and fewer samples; a minute or two")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent,
        help="folder of accuracy.json and .md (default benchmarks/)",
    )
    options = parser.parse_args(arguments)
    chosen, types = options.functions.split(","), options.types.split(",")
    for name in chosen:
        if name not in functions.ALL:
            parser.error(f"no function is called {name!r}; there are {', '.join(functions.ALL)}")
    if not set(types) <= {"f32", "f64"}:
        parser.error(f"--types {options.types}: expected f32, f64 or f32,f64")
    if "f64" in types and np.finfo(np.longdouble).nmant < 63:
        parser.error("this machine has no floats of 80 bits to judge f64 by; use --types f32")

    console = report.console()
    options.output.mkdir(parents=True, exist_ok=True)
    bad: list[Row] = []
    with Progress(console=console, transient=True) as progress:
        for target in options.target or TARGETS:
            for type_ in types:
                for name in chosen:
                    row = measure(name, type_, target, options.quick, progress)
                    progress.console.print("  ".join(row.cells), soft_wrap=True)
                    if row.ulp > 2 or row.nan or row.sign:
                        bad.append(row)
                    rows = _merged(options.output, row)
                    (options.output / "accuracy.json").write_text(
                        json.dumps([asdict(r) for r in rows], indent=1) + "\n"
                    )
                    (options.output / "accuracy.md").write_text(markdown.table(COLUMNS, (row.cells for row in rows)))
    for row in bad:
        console.print(f"beyond 2 ulp, or NaN or a sign wrong: {row.function} {row.type} {row.target}", style="bold red")
    if bad:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
