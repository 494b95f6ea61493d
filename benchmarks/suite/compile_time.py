"""Times compiling: the digits, an encoder, and the gradient of a large one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .. import compiling
from ..models import Encoder, lowered
from .contestants import ROOT

CACHE = ROOT / "dist" / "benchmarks"


SMALL, LARGE = Encoder(), Encoder(blocks=12)


def measured(runs: int = 5, small: Encoder = SMALL, large: Encoder = LARGE) -> dict[str, dict[str, Any]]:
    """By the names of modules, what `compiling.Compiled` says; each the median of so many processes."""
    files = {
        "digits": ROOT / "examples" / "digits" / "digits.hlo.pb",
        f"encoder of {small.blocks} blocks": lowered(CACHE, "encoder", small, small.forward),
        f"gradient of {large.blocks} blocks": lowered(CACHE, "gradient", large, large.gradient),
    }
    return {name: asdict(compiling.measure(path, runs)) for name, path in files.items()}
