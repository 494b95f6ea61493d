"""Readers and writers of formats that are not HLO's, as `Module.from_stablehlo` and its like call them.

`xla_wasm/__init__.py` hands them in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Converter = Callable[..., Any]
"""Gives a `hlo.ir.Module`, or takes one first."""
_sources: dict[str, Callable[[], Converter]] = {}


def hand_in(converters: dict[str, Callable[[], Converter]]) -> None:
    """Registers the readers and writers by name, as functions that give them, so that none is imported early."""
    _sources.update(converters)


def convert(name: str, *args: Any, **options: Any) -> Any:
    """Returns the result of the reader or writer of that name: "from_stablehlo", "from_exported" or "to_stablehlo"."""
    return _sources[name]()(*args, **options)
