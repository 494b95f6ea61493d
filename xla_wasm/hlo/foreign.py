"""Tools of `Module` that `hlo` knows nothing about: readers and writers of formats that are not HLO's, and the search
for a NaN.

`xla_wasm/__init__.py` hands them in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tool = Callable[..., Any]
"""Gives a `hlo.ir.Module`, or takes one first."""
_sources: dict[str, Callable[[], Tool]] = {}


def hand_in(tools: dict[str, Callable[[], Tool]]) -> None:
    """Registers tools by name, as functions that give them, so that none is imported early."""
    _sources.update(tools)


def apply(name: str, *args: Any, **options: Any) -> Any:
    """Returns the result of the tool of that name: "from_jax", "from_stablehlo", "from_exported", "to_stablehlo" or
    "explain_nonfinite"."""
    return _sources[name]()(*args, **options)
