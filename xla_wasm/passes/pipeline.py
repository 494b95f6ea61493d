"""The passes, in order. A pass is a function of one module that changes it in place; the first also take what the
caller has decided."""

from __future__ import annotations

from collections.abc import Callable

from ..hlo.ir import Module
from ..hlo.types import REAL_OF
from ..ops.dynamic.record import SIZES
from .clean import remove_dead
from .contract import contract
from .dequantize import sink_dequantization
from .erfc import find_erfc
from .exchange import exchange_sides
from .expand import canonicalize, expand, inline, lower_host_transfers, type_products
from .fractions import mark_fractions
from .given import Given, allow_winograd, ask_for_calls, check_states, lay_out_results, mark_devices, name_formats
from .layout_normalization import normalize_layouts
from .loops import simplify_loops
from .order_transfers import order_transfers
from .reductions import split_reductions
from .searches import mark_searches
from .simplify import simplify
from .sink import sink_transposes
from .split import split_products
from .tokens import remove_tokens
from .topk import find_topk
from .weight_formats import store_weights
from .widen import widen
from .winograd import limit_winograd


def pad_dynamic(module: Module) -> None:
    """Leaves no dynamic dimension in the module. Few have one: then the pass is imported."""
    if module.having(*SIZES) or any(shape.is_dynamic for shape in module.shapes()):
        from . import pad_dynamic as own

        own.pad_dynamic(module)


def split_complex(module: Module) -> None:
    """Leaves complex arrays only where they are taken and given whole. Few programs have one: then the pass is
    imported."""
    if any(leaf.element_type in REAL_OF for shape in module.shapes() for _, leaf in shape.leaves()):
        from .split_complex import split_complex

        split_complex(module)


NOTES: tuple[Callable[[Module, Given], None], ...] = (
    check_states,
    ask_for_calls,
    mark_devices,
    allow_winograd,
    name_formats,
    lay_out_results,
)
PASSES: tuple[Callable[[Module], None], ...] = (
    order_transfers,
    remove_tokens,
    lower_host_transfers,
    normalize_layouts,
    inline,
    pad_dynamic,
    find_erfc,
    remove_dead,
    find_topk,
    type_products,
    widen,
    expand,
    split_complex,
    widen,
    simplify,
    simplify_loops,
    split_products,
    exchange_sides,
    store_weights,
    sink_dequantization,
    limit_winograd,
    canonicalize,
    sink_transposes,
    simplify,
    remove_dead,
    contract,
    mark_fractions,
    mark_searches,
)


def run(module: Module, given: Given | None = None) -> None:
    """Brings a verified module into the canonical form that `plan` takes."""
    given = given or Given()
    for note in NOTES:
        note(module, given)
    for pass_ in PASSES:
        pass_(module)
    if given.threads:
        split_reductions(module)
