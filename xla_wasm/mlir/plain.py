"""The names and attributes of an operation as the tree has them, whichever dialect it was in, and whether as text or as
bytecode.

VHLO's names become StableHLO's, structures their fields, lists of integers `Elements`, and what VHLO spells out to say
"absent" is dropped.
"""

from __future__ import annotations

from math import prod
from typing import Any

from .tree import UNIT, Accuracy, Attribute, Dense, Elements, Number, Symbol, TypeOf


class Fields(dict[str, Any]):
    """An attribute whose fields stand for themselves among the attributes of an operation."""


_RENAMED = {"vhlo.func": "func.func", "vhlo.call": "func.call"}
_OF_MHLO = {"mhlo.topk": "chlo.top_k"}
_OF_CHLO = frozenset(
    "acos acosh asin asinh atan atanh bessel_i1e cosh erf erf_inv lgamma mulhi ragged_dot scan sinh square".split()
)
"""Operations of MHLO that StableHLO does not have, and CHLO has."""
_ONLY_MHLO = frozenset(
    "add_dependency async_done async_start async_update bitcast copy domain fusion minimum_broadcast_shapes "
    "sparse_dot stochastic_convert trace xla.rng_get_and_update_state".split()
)
_LISTS = frozenset(
    "base_dilations broadcast_dimensions broadcast_sizes dimensions edge_padding_high edge_padding_low fft_length "
    "interior_padding known_expanding_dimensions known_nonexpanding_dimensions lhs_dilation limit_indices permutation "
    "rhs_dilation slice_sizes start_indices strides window_dilations window_dimensions window_reversal "
    "window_strides".split()
)
_FIELDS = frozenset(
    "collapsed_slice_dims input_batching_dims input_spatial_dimensions inserted_window_dims kernel_spatial_dimensions "
    "lhs_batching_dimensions lhs_contracting_dimensions offset_dims operand_batching_dims output_spatial_dimensions "
    "rhs_batching_dimensions rhs_contracting_dimensions scatter_dims_to_operand_dims scatter_indices_batching_dims "
    "start_index_map start_indices_batching_dims update_window_dims channel_id channel_type index_vector_dim "
    "input_batch_dimension input_feature_dimension kernel_input_feature_dimension kernel_output_feature_dimension "
    "output_batch_dimension output_feature_dimension lhs_component_count rhs_component_count "
    "num_primitive_operations".split()
)
"""VHLO's attributes that are fields of structures in StableHLO: plain numbers and tuples of them."""
_EMPTY = frozenset(
    "arg_attrs backend_config called_computations composite_attributes infeed_config known_expanding_dimensions "
    "known_nonexpanding_dimensions layout operand_layouts outfeed_config output_operand_aliases res_attrs "
    "result_layouts result_tilings source_target_pairs sym_visibility".split()
)
_FLAGS = frozenset(
    "has_dynamic_root has_side_effect indices_are_sorted is_host_transfer is_stable lower no_inline unique_indices "
    "use_global_device_ids".split()
)
_UNITS = ("use_global_device_ids", "no_inline")
_OWN = ("stablehlo.", "chlo.", "func.", "builtin.")
_OF_CHANNELS = ("stablehlo.send", "stablehlo.recv")
_ONES = frozenset("base_dilations lhs_dilation rhs_dilation window_dilations window_strides".split())
_NUMBERS = {"api_version": 1, "channel_id": 0, "version": 0}
_APIS = tuple(
    f"API_VERSION_{name}"
    for name in ("UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI")
)
_MOST_LISTED = 64
"""Elements of a list that one number stands for: lists have one for each dimension."""


def plain_name(name: str) -> str:
    """The name of StableHLO, CHLO or func for an operation of VHLO or MHLO; any other name as it is."""
    dialect, _, kind = name.partition(".")
    if dialect == "vhlo":
        kind = kind.rpartition("_v")[0] or kind
        return _RENAMED.get(f"vhlo.{kind}", f"stablehlo.{kind}")
    if dialect == "mhlo":
        return _OF_MHLO.get(name) or (
            f"chlo.{kind}" if kind in _OF_CHLO else name if kind in _ONLY_MHLO else f"stablehlo.{kind}"
        )
    return name


def plain_attributes(name: str, attributes: dict[str, Attribute], of_vhlo: bool) -> dict[str, Attribute]:
    """The attributes of an operation with their structures taken apart, and without those that say "absent". `name` is
    the plain one."""
    found: dict[str, Attribute] = {}
    for key, value in attributes.items():
        if isinstance(value, Fields):
            found |= value
        elif of_vhlo:
            found[key] = _of_stablehlo(key, value)
        elif key.endswith("SegmentSizes") and isinstance(value, Elements):
            found[key] = value.values
        else:
            found[key] = _as_list(value) if key in _LISTS and isinstance(value, Dense) else value
    if name.startswith(_OWN):
        if name not in _OF_CHANNELS:
            found.pop("channel_type", None)
        found = {key: value for key, value in found.items() if not _is_absent(name, key, value)}
    return found


def _is_absent(name: str, key: str, value: Attribute) -> bool:
    """Returns True if an attribute only says what holds without it."""
    if key in _EMPTY and name != "stablehlo.collective_permute":
        return value in ("", (), {}) or (isinstance(value, Elements) and not value.values) or _all_empty(key, value)
    if key in _FLAGS:
        return value is False
    if key in _FIELDS and value == ():
        return True
    if key in _NUMBERS:
        return getattr(value, "value", value) == _NUMBERS[key]
    if key in _ONES:
        return isinstance(value, Elements) and all(v == 1 for v in value.values)
    if key == "window_reversal":
        return isinstance(value, Elements) and not any(value.values)
    if key == "padding":
        return isinstance(value, Dense) and not any(bytes(value.data))
    if key == "precision_config":
        return isinstance(value, tuple) and all(v == "DEFAULT" for v in value)
    if key == "dimension" and name == "stablehlo.sort":
        return isinstance(value, Number) and value.value == -1
    if isinstance(value, TypeOf):
        return value.type == "none"
    return value == "NOTYPE" if key == "compare_type" else isinstance(value, Accuracy) and value.mode == "DEFAULT"


def _all_empty(key: str, value: Attribute) -> bool:
    """Returns True if a list of one dictionary for each argument or result, or a constant, holds nothing."""
    if key in ("arg_attrs", "res_attrs"):
        return isinstance(value, tuple) and not any(value)
    return isinstance(value, Dense) and not len(value.data)


def _of_stablehlo(key: str, value: Attribute) -> Attribute:
    """The attribute as StableHLO has it."""
    if key in _UNITS and value is True:
        return UNIT
    if key in ("callee", "decomposition") and isinstance(value, str):
        return Symbol(value)
    if key == "called_computations" and isinstance(value, tuple):
        return tuple([Symbol(v) if isinstance(v, str) else v for v in value])
    if key == "api_version" and value in _APIS:
        return Number(_APIS.index(value), "i32")
    if key in _FIELDS and isinstance(value, Number):
        return value.value
    if isinstance(value, Dense) and (key in _LISTS or key in _FIELDS):
        found = _as_list(value)
        return tuple(found.values) if key in _FIELDS and isinstance(found, Elements) else found
    return value


def _as_list(value: Dense) -> Attribute:
    """A row of integers as the list that StableHLO has today; anything else as it is."""
    sizes, element = value.type.sizes or (), value.type.element
    if len(sizes) != 1 or element not in ("i64", "i1") or (value.is_splat and sizes[0] > _MOST_LISTED):
        return value
    return Elements(str(element), tuple(_integers(value)))


def _integers(value: Dense) -> list[Any]:
    """The elements of a constant of i64 or i1."""
    if value.type.element == "i1":
        found: list[Any] = [byte != 0 for byte in bytes(value.data)]
    else:
        data = bytes(value.data)
        found = [int.from_bytes(data[i : i + 8], "little", signed=True) for i in range(0, len(data), 8)]
    return found * prod(value.type.sizes or ()) if value.is_splat else found
