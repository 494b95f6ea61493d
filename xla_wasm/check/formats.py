"""The command `xla-wasm check --weight-format`: what storing weights in fewer bits does to results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from ..command import report
from ..command.inputs import arguments
from ..command.opening import selector, weight_formats_of
from ..compiler import compile
from ..errors import counted
from ..hlo.ir import Module
from ..host.executor import load
from ..options import Options
from .draws import Draw, Drawing

if TYPE_CHECKING:
    from ..command.base import Engine, Weights
    from ..command.check_options import Given


def check_formats(
    console: Console,
    module: Module,
    engine: Engine,
    weights: Weights,
    own: Given,
    tolerance: float | None,
    facts: dict[str, Any] | None = None,
) -> bool:
    """Prints how results with stored weights differ from those with weights of f32. Returns whether all are within
    `tolerance`, if given: the greatest difference, relative to the result's largest value. `facts` gets the same as
    what JSON has.
    """
    facts = {} if facts is None else facts
    exact = load(compile(module, Options(target=engine.target, tune=engine.tune)))
    stored = load(
        compile(
            module,
            Options(
                target=engine.target,
                tune=engine.tune,
                weights=tuple(map(selector, weights.weight)),
                weight_format=weight_formats_of(weights.weight_format),
            ),
        )
    )
    given = arguments(exact.parameters, own.inputs, Drawing(module), Draw(0, own.seed))
    taken = []
    for leaf, array in zip(stored.parameters, given, strict=True):
        if leaf.kind == "weight":
            stored.set(leaf.name, array)
        else:
            taken.append(array)
    table = report.table("result", "type", ">greatest error", ">of the largest", ">mean error", ">cosine", "")
    agree = True
    for result, small, wanted in zip(exact.results, stored.run(*taken), exact.run(*given)):
        a, b = (
            np.asarray(array).astype(np.complex128 if array.dtype.kind == "c" else np.float64)
            for array in (small, wanted)
        )
        error = np.abs(np.where(a == b, 0, a - b))
        most, mean = (float(f(error)) if error.size else 0.0 for f in (np.max, np.mean))
        largest = float(np.max(np.abs(b), initial=0))
        relative = most / largest if largest else float(most > 0)
        norm = float(np.linalg.norm(a) * np.linalg.norm(b))
        cosine = f"{float(np.vdot(a, b).real) / norm:.6f}" if norm else ""
        beyond = tolerance is not None and not relative <= tolerance
        agree &= not beyond
        errors = {
            "greatest_error": most,
            "of_the_largest": relative,
            "mean_error": mean,
            "cosine": float(cosine) if cosine else None,
        }
        plain = {key: report.plain(value) for key, value in errors.items()}
        facts.setdefault("results", []).append(
            {"name": result.name, "type": str(result), **plain, "agrees": not beyond}
        )
        verdict = Text(f"differs (allowed {tolerance:.1e})", "bold red") if beyond else ""
        table.add_row(result.name, str(result), f"{most:.2e}", f"{relative:.1e}", f"{mean:.2e}", cosine, verdict)
    console.print(table)
    facts["agree"] = agree
    facts["memory_bytes"] = [exe.manifest.peak_bytes for exe in (exact, stored)]
    kept = sum(leaf.kind == "weight" for leaf in stored.parameters)
    sizes = [report.size(exe.manifest.peak_bytes) for exe in (exact, stored)]
    console.print(
        f"memory {sizes[0]} with f32, {sizes[1]} with {counted(kept, 'weight')} in " + ", ".join(weights.weight_format)
    )
    return agree
