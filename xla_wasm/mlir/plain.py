"""One name and one set of attributes for an operation, whichever dialect it came in: VHLO's names become StableHLO's, attributes of
several fields become the fields, and what says no more than its absence is dropped, as VHLO spells out all that is absent."""

from __future__ import annotations

from typing import Any

from .bytecode_tables import field_names
from .tree import UNIT, Accuracy, Attribute, Dense, Elements, Number, Symbol, TypeOf
from .values import MOST, integers


class Fields(dict[str, Any]):
    """An attribute whose fields stand for themselves."""


_RENAMED = {"func_v1": "func.func", "call_v1": "func.call"}
_EMPTY = frozenset("sym_visibility backend_config infeed_config outfeed_config arg_attrs res_attrs called_computations operand_layouts "
                   "result_layouts output_operand_aliases result_tilings layout composite_attributes source_target_pairs "
                   "known_expanding_dimensions known_nonexpanding_dimensions".split())  # fmt: skip
_ONES = frozenset("window_strides lhs_dilation rhs_dilation base_dilations window_dilations".split())
_FLAGS = frozenset("use_global_device_ids has_side_effect indices_are_sorted unique_indices is_host_transfer is_stable lower no_inline "
                   "has_dynamic_root".split())  # fmt: skip
_SYMBOLS = frozenset("callee decomposition".split())
_NUMBERS = {"channel_id": 0, "api_version": 1, "version": 0, "dimension": -1}


def plain(name: str, attributes: dict[str, Attribute]) -> tuple[str, dict[str, Attribute]]:
    """The name of StableHLO and the flat attributes."""
    vhlo = name.startswith("vhlo.")
    if vhlo:
        short = name[5:]
        name = _RENAMED.get(short) or f"stablehlo.{short.rpartition('_v')[0]}"
    found: dict[str, Attribute] = {}
    for key, value in attributes.items():
        if isinstance(value, Fields):
            found |= {k: v for k, v in value.items() if v != () and not _says_nothing(name, k, v)}
        elif not _is_absent(name, key, value):
            found[key] = _of_stablehlo(key, value) if vhlo else value
    return name, found


def _says_nothing(name: str, key: str, value: Any) -> bool:
    """Whether a field is one that VHLO does not have, or has for absent."""
    return (key == "channel_id" and value == 0) or (key == "channel_type" and name not in ("stablehlo.send", "stablehlo.recv"))


def _is_absent(name: str, key: str, value: Attribute) -> bool:
    """Whether an attribute has the value that it has where it is absent."""
    if isinstance(value, TypeOf):
        return value.type == "none"
    if key in _EMPTY:
        return value in ("", (), {}) or (isinstance(value, Dense) and not len(value.data))
    if key in _FLAGS:
        return value is False
    if isinstance(value, Dense) and key in field_names():
        return not len(value.data)
    if isinstance(value, Number):
        return _NUMBERS.get(key) == value.value and (key != "dimension" or name == "stablehlo.sort")
    if isinstance(value, Accuracy):
        return value.mode == "DEFAULT"
    if key == "precision_config":
        return isinstance(value, tuple) and all(v == "DEFAULT" for v in value)
    if isinstance(value, (Dense, Elements)) and key in _ONES:
        return all(v == 1 for v in integers(value))
    if isinstance(value, (Dense, Elements)) and key in ("padding", "window_reversal"):
        return not any(integers(value))
    return key == "compare_type" and value == "NOTYPE"


def _of_stablehlo(key: str, value: Attribute) -> Attribute:
    """The attribute as StableHLO has it."""
    if key in _FLAGS and value is True:
        return UNIT if key in ("use_global_device_ids", "no_inline") else value
    if key in _SYMBOLS and isinstance(value, str):
        return Symbol(value)
    if key == "called_computations" and isinstance(value, tuple):
        return tuple([Symbol(v) if isinstance(v, str) else v for v in value])
    if key in field_names():
        return value.value if isinstance(value, Number) else value.type if isinstance(value, TypeOf) else _listed(value)
    if isinstance(value, Dense) and key != "value" and not key.startswith(("mhlo.", "jax.", "sdy.")) and _is_list(value):
        kind, values = str(value.type.element), integers(value)
        return Elements(kind, tuple(map(bool, values)) if kind == "i1" else values)
    return value


def _listed(value: Attribute) -> Attribute:
    return integers(value) if isinstance(value, Dense) else value


def _is_list(value: Dense) -> bool:
    """Whether this is a list that StableHLO has as an array."""
    sizes = value.type.sizes or ()
    return value.type.element in ("i64", "i1") and len(sizes) == 1 and sizes[0] <= MOST
