"""Readers of formats that are not HLO's, as `Module.from_stablehlo` calls them. `xla_wasm/__init__.py` hands them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reader = Callable[..., Any]
"""Gives a `hlo.ir.Module`."""
_sources: dict[str, Callable[[], Reader]] = {}


def hand_in(readers: dict[str, Callable[[], Reader]]) -> None:
    """Tells where the readers are: what is handed in gives one when it is needed first."""
    _sources.update(readers)


def read_foreign(name: str, *args: Any, **options: Any) -> Any:
    """Reads a module with the reader of that name: "stablehlo" or "exported"."""
    return _sources[name]()(*args, **options)
