"""`xla-wasm check`."""

from __future__ import annotations

import glob
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import files
from ..errors import ArgumentError
from ..options import Options
from . import report
from .base import (
    Engine,
    JsonOption,
    ModulePath,
    Weights,
    check_standard_input,
)
from .check_options import Devices, Given, Search
from .interrupt import ends_at_once
from .opening import module_of


def check(
    module: ModulePath,
    *,
    given: Given,
    engine: Engine,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0,
            help="Difference allowed, relative to the result's largest value. By default the type's.",
        ),
    ] = None,
    search: Search,
    devices: Devices,
    weights: Weights,
    as_json: JsonOption = False,
) -> None:
    """Compares the compiled MODULE with the reference evaluator, on made-up inputs where --input gives none.

    Made-up inputs are drawn several times: ordinary numbers with indices inside their bounds, then repeated and sorted
    ones, then special numbers and indices outside. What differs is said for each draw.

    Inputs are arrays in files; bfloat16 and its like as NumPy saves them, or as any type that holds the same values.
    Integers must be equal, sums may differ by some hundred rounding errors.
    Exit code 1 if results differ.

    On several devices each has inputs of its own: {rank} in the names of files stands for the number of the device.

    With --isolate, every instruction is compiled anew and judged by itself.
    The first that differs is printed: its name, source line and shapes, and its values both ways.

    With --nan, the first instruction is printed that gives a NaN or an infinity which its operands had not, where a
    result has it from. Exit code 1 if there is one.

    With --weight-format, results are compared with those of weights in f32 instead: the greatest and the mean
    difference of each, and the cosine. They only fail beyond --tolerance.
    """
    check_standard_input(str(module), *given.inputs)
    console, facts = report.quiet_console() if as_json else report.console(), dict[str, Any]()
    isolate, reproducer = search.isolate, search.reproducer
    if weights.weight_format:
        with ends_at_once():
            from ..check.formats import check_formats

        if isolate or devices.devices is not None or devices.partitions is not None:
            raise ArgumentError(
                "--weight-format compares whole results on one device: leave --isolate, --devices and "
                "--num-partitions out"
            )
        if given.draws is not None:
            raise ArgumentError("--weight-format compares results on one draw of inputs: leave --draws out")
        source = module_of(module, "check", given.dim)
        with report.progress(f"checking {source.name}"):
            agree = check_formats(console, source, engine, weights, given, tolerance, facts)
        _end(agree, facts if as_json else None)
        return
    if weights.weight:
        raise ArgumentError("--weight says which weights --weight-format is about: add --weight-format")
    with ends_at_once():
        from ..check.check import check

    if reproducer is not None and not isolate:
        raise ArgumentError(f"--reproducer {reproducer}: it takes --isolate to find what to write there")
    if reproducer is not None:
        own = [Path(part) for text in given.inputs for part in (text, text.rpartition("=")[2])]
        beside = [
            path for path in own if path.match(f"{glob.escape(reproducer.stem)}.*.npy")
        ]  # its inputs are REPRODUCER.0.npy, ...
        files.check_outputs(
            [("the instruction", reproducer), *(("its inputs", reproducer.with_name(p.name)) for p in beside)],
            [module, *own],
        )
    if search.nan and isolate:
        raise ArgumentError("--nan and --isolate search for two things: leave one out")
    source = module_of(module, "check", given.dim)
    options = Options(target=engine.target, tune=engine.tune)
    with (
        nullcontext() if isolate else report.progress(f"checking {source.name}")
    ):  # isolating says by itself what it is at
        agree = check(console, source, options, given, tolerance, search, devices, facts)
    _end(agree, facts if as_json else None)


def _end(agree: bool, facts: dict[str, Any] | None) -> None:
    if facts is not None:
        report.print_json(facts)
    if not agree:
        raise typer.Exit(1)
