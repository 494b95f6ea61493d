"""The passes, in order. A pass is a function of one module that changes it in place."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Module
from .canonical import canonicalize
from .clean import remove_dead
from .expand import expand
from .inline import inline
from .layout import forget_layouts
from .simplify import simplify

PASSES: tuple[Callable[[Module], None], ...] = (
    forget_layouts,
    inline,
    remove_dead,
    expand,
    simplify,
    canonicalize,
    simplify,
    remove_dead,
)


def run(module: Module) -> None:
    """Brings a verified module into the canonical form that `plan` takes."""
    for pass_ in PASSES:
        pass_(module)
