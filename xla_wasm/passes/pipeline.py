"""The passes, in order. A pass is a function of one module that changes it in place."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Module
from .canonical import canonicalize
from .clean import remove_dead
from .complex import split_complex
from .expand import ask_host, expand
from .inline import inline
from .layout import forget_layouts
from .loops import settle_loops
from .pad_dynamic import pad_dynamic
from .simplify import simplify
from .tokens import forget_tokens
from .topk import find_topk
from .transfers import settle_transfers
from .widen import widen

PASSES: tuple[Callable[[Module], None], ...] = (
    settle_transfers,
    forget_tokens,
    ask_host,
    forget_layouts,
    inline,
    pad_dynamic,
    remove_dead,
    find_topk,
    widen,
    expand,
    split_complex,
    widen,
    simplify,
    settle_loops,
    canonicalize,
    simplify,
    remove_dead,
)


def run(module: Module) -> None:
    """Brings a verified module into the canonical form that `plan` takes."""
    for pass_ in PASSES:
        pass_(module)
