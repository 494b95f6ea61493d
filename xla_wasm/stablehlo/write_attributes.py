"""The attributes of HLO instructions as StableHLO has them: for each opcode a function that gives their texts by
name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite

from ..errors import UnsupportedError
from ..hlo.attrs import PrecisionConfig, ReplicaGroups, Window, WindowDimension
from ..hlo.ir import Instruction
from ..mlir.strings import string_text
from .write_text import constant, float32, int32, int64, int64s, numbers, real, table, truth, truths

Attributes = dict[str, str]

_ALGORITHMS = {
    "dot_any_f8_any_f8_f32": ("f8E5M2", "f32", 1, False),
    "dot_any_f8_any_f8_f32_fast_accum": ("f8E5M2", "f32", 1, True),
    "dot_f16_f16_f16": ("f16", "f16", 1, False),
    "dot_f16_f16_f32": ("f16", "f32", 1, False),
    "dot_bf16_bf16_bf16": ("bf16", "bf16", 1, False),
    "dot_bf16_bf16_f32": ("bf16", "f32", 1, False),
    "dot_bf16_bf16_f32_x3": ("bf16", "f32", 3, False),
    "dot_bf16_bf16_f32_x6": ("bf16", "f32", 6, False),
    "dot_bf16_bf16_f32_x9": ("bf16", "f32", 9, False),
    "dot_tf32_tf32_f32": ("tf32", "f32", 1, False),
    "dot_tf32_tf32_f32_x3": ("tf32", "f32", 3, False),
    "dot_f32_f32_f32": ("f32", "f32", 1, False),
    "dot_f64_f64_f64": ("f64", "f64", 1, False),
}
"""Name in HLO -> the type of both operands, that of the sum, the number of products, whether sums may be inexact."""


class UnsupportedInstruction(UnsupportedError):
    """An instruction that StableHLO cannot say. The message names it."""


def unsupported(x: Instruction, what: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(f"{x.where}: StableHLO cannot say {what}")


def word(kind: str, value: str) -> str:
    """`#stablehlo<precision HIGH>`."""
    return f"#stablehlo<{kind} {value}>"


def structure(kind: str, **fields: Iterable[int] | int) -> str:
    """`#stablehlo.dot<lhs_contracting_dimensions = [1]>`; empty lists are left out."""
    shown = [
        f"{name} = {v if isinstance(v, int) else numbers(v)}"
        for name, v in fields.items()
        if isinstance(v, int) or tuple(v)
    ]
    return f"#stablehlo.{kind}<{', '.join(shown)}>"


def _accuracy(x: Instruction) -> Attributes:
    accuracy = x.attrs.get("result_accuracy")
    if accuracy is None or accuracy.mode == "default":
        return {}
    if not (isfinite(accuracy.atol) and isfinite(accuracy.rtol)):
        raise unsupported(x, "an accuracy that is not finite")
    mode = f"#stablehlo.result_accuracy_mode<{accuracy.mode.upper() or 'TOLERANCE'}>"
    parts = [
        f"atol = {real(accuracy.atol)}",
        f"rtol = {real(accuracy.rtol)}",
        f"ulps = {accuracy.ulps}",
        f"mode = {mode}",
    ]
    return {"result_accuracy": f"#stablehlo.result_accuracy<{', '.join(parts)}>"}


def no_accuracy(x: Instruction) -> Attributes:
    """Of a function for which StableHLO has no accuracy."""
    if _accuracy(x):
        raise unsupported(x, "how exact this function must be")
    return {}


def _compare(x: Instruction) -> Attributes:
    found = {"comparison_direction": word("comparison_direction", x.attrs["direction"])}
    return found | ({"compare_type": word("comparison_type", x.attrs["type"])} if x.attrs["type"] else {})


def _slice(x: Instruction) -> Attributes:
    rows = x.attrs["slice"]
    columns = {"start_indices": "start", "limit_indices": "limit", "strides": "stride"}
    return {name: int64s(getattr(row, field) for row in rows) for name, field in columns.items()}


def _pad(x: Instruction) -> Attributes:
    rows = x.attrs["padding"]
    return {
        name: int64s(getattr(row, name) for row in rows)
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    }


def _gather(x: Instruction) -> Attributes:
    n = x.attrs["gather_dimension_numbers"]
    names = (
        "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims start_index_map "
        "index_vector_dim"
    )
    return {
        "dimension_numbers": structure("gather", **{name: getattr(n, name) for name in names.split()}),
        "slice_sizes": int64s(x.attrs["slice_sizes"]),
        "indices_are_sorted": truth(x.attrs["indices_are_sorted"]),
    }


def _scatter(x: Instruction) -> Attributes:
    n = x.attrs["scatter_dimension_numbers"]
    names = (
        "update_window_dims inserted_window_dims input_batching_dims scatter_indices_batching_dims "
        "scatter_dims_to_operand_dims index_vector_dim"
    )
    numbers_ = structure("scatter", **{name: getattr(n, name) for name in names.split()})
    flags = {name: truth(x.attrs[name]) for name in ("indices_are_sorted", "unique_indices")}
    return {"scatter_dimension_numbers": numbers_} | flags


def precision(config: PrecisionConfig) -> Attributes:
    """Returns the attribute for the precision of a product's operands; empty if all have the default."""
    if all(p == "default" for p in config.operand_precision):
        return {}
    return {"precision_config": "[" + ", ".join(word("precision", p.upper()) for p in config.operand_precision) + "]"}


def _dot(x: Instruction) -> Attributes:
    n, config = x.attrs["dot_dimension_numbers"], x.attrs["precision_config"]
    found = {
        "dot_dimension_numbers": structure(
            "dot",
            lhs_batching_dimensions=n.lhs_batch_dimensions,
            rhs_batching_dimensions=n.rhs_batch_dimensions,
            lhs_contracting_dimensions=n.lhs_contracting_dimensions,
            rhs_contracting_dimensions=n.rhs_contracting_dimensions,
        )
    }
    found |= precision(config)
    if config.algorithm != "unset":
        known = _ALGORITHMS.get(config.algorithm)
        if known is None:
            raise unsupported(x, f"the algorithm {config.algorithm}")
        type_, total, products, inexact = known
        found["algorithm"] = (
            f"#stablehlo.dot_algorithm<lhs_precision_type = {type_}, rhs_precision_type = {type_}, accumulation_type "
            f"= {total}, "
            f"lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = {products}, "
            f"allow_imprecise_accumulation = {truth(inexact)}>"
        )
    return found


def _ragged_dot(x: Instruction) -> Attributes:
    n, config = x.attrs["ragged_dot_dimension_numbers"], x.attrs["precision_config"]
    if config.algorithm != "unset" or any(p != "default" for p in config.operand_precision):
        raise unsupported(x, "how exact a ragged dot is")
    dot = n.dot_dimension_numbers
    fields = {
        "lhs_batching_dimensions": dot.lhs_batch_dimensions,
        "rhs_batching_dimensions": dot.rhs_batch_dimensions,
        "lhs_contracting_dimensions": dot.lhs_contracting_dimensions,
        "rhs_contracting_dimensions": dot.rhs_contracting_dimensions,
        "lhs_ragged_dimensions": n.lhs_ragged_dimensions,
        "rhs_group_dimensions": n.rhs_group_dimensions,
    }
    shown = ", ".join(f"{name} = {numbers(dims)}" for name, dims in fields.items())
    return {"ragged_dot_dimension_numbers": f"#chlo.ragged_dot<{shown}>"}


def _convolution(x: Instruction) -> Attributes:
    """Its kind and what it knows of zeros in an operand are hints, and left out."""
    if x.attrs["precision_config"].algorithm != "unset":
        raise unsupported(x, f"the algorithm {x.attrs['precision_config'].algorithm} of a convolution")
    n, window = x.attrs["dim_labels"], (x.attrs["window"] or Window()).dimensions
    labels = [
        _labels(n.input_batch_dimension, "b", n.input_feature_dimension, "f", n.input_spatial_dimensions),
        _labels(
            n.kernel_input_feature_dimension, "i", n.kernel_output_feature_dimension, "o", n.kernel_spatial_dimensions
        ),
        _labels(n.output_batch_dimension, "b", n.output_feature_dimension, "f", n.output_spatial_dimensions),
    ]
    return {
        "dimension_numbers": "#stablehlo.conv<{}x{}->{}>".format(*labels),
        "feature_group_count": int64(x.attrs["feature_group_count"]),
        "batch_group_count": int64(x.attrs["batch_group_count"]),
        "window_strides": int64s(d.stride for d in window),
        "padding": table([(d.padding_low, d.padding_high) for d in window], 2),
        "lhs_dilation": int64s(d.base_dilation for d in window),
        "rhs_dilation": int64s(d.window_dilation for d in window),
        "window_reversal": truths(d.window_reversal for d in window),
        **precision(x.attrs["precision_config"]),
    }


def _labels(first: int, first_name: str, second: int, second_name: str, spatial: tuple[int, ...]) -> str:
    """`[b, 0, f]`."""
    places = {first: first_name, second: second_name} | {place: str(i) for i, place in enumerate(spatial)}
    return f"[{', '.join(places[place] for place in sorted(places))}]"


def _window(x: Instruction) -> tuple[WindowDimension, ...]:
    window: tuple[WindowDimension, ...] = (x.attrs["window"] or Window()).dimensions
    if any(d.window_reversal for d in window):
        raise unsupported(x, "that a window is reversed")
    return window


def _reduce_window(x: Instruction) -> Attributes:
    window = _window(x)
    return {
        "window_dimensions": int64s(d.size for d in window),
        "window_strides": int64s(d.stride for d in window),
        "base_dilations": int64s(d.base_dilation for d in window),
        "window_dilations": int64s(d.window_dilation for d in window),
        "padding": table([(d.padding_low, d.padding_high) for d in window], 2),
    }


def _select_and_scatter(x: Instruction) -> Attributes:
    window = _window(x)
    if any(d.base_dilation != 1 or d.window_dilation != 1 for d in window):
        raise unsupported(x, "that a window of select-and-scatter is dilated")
    return {
        "window_dimensions": int64s(d.size for d in window),
        "window_strides": int64s(d.stride for d in window),
        "padding": table([(d.padding_low, d.padding_high) for d in window], 2),
    }


def _triangular(x: Instruction) -> Attributes:
    options = x.attrs["triangular_solve_options"]
    flags = {name: truth(getattr(options, name)) for name in ("left_side", "lower", "unit_diagonal")}
    return flags | {"transpose_a": word("transpose", options.transpose_a)}


def _norm(x: Instruction) -> Attributes:
    return {"epsilon": float32(x.attrs["epsilon"]), "feature_index": int64(x.attrs["feature_index"])}


# --- collectives
# ---------------------------------------------------------------------------------------------------------


def groups(replica_groups: ReplicaGroups) -> str:
    """Rows of devices; -1 stands where a row is shorter than others."""
    rows = replica_groups.expanded()
    width = max(map(len, rows), default=0)
    return table([(*row, *(-1,) * (width - len(row))) for row in rows], width)


def channel(x: Instruction, kind: int = 1) -> Attributes:
    """The channel, if there is one."""
    number = x.attrs["channel_id"]
    return {} if number is None else {"channel_handle": structure("channel_handle", handle=number, type=kind)}


def _collective(x: Instruction) -> Attributes:
    flag = {"use_global_device_ids": ""} if x.attrs.get("use_global_device_ids") else {}
    return {"replica_groups": groups(x.attrs["replica_groups"]), **channel(x), **flag}


def _one_type(x: Instruction) -> Attributes:
    if len({o.shape.element_type for o in x.operands}) > 1:
        raise unsupported(x, "that operands of several types share a computation")
    return _collective(x)


def _all_to_all(x: Instruction) -> Attributes:
    rows = x.attrs["replica_groups"].expanded()
    if not rows:
        raise unsupported(x, "that all devices are one group, without their number")
    return all_to_all(x, x.attrs["dimensions"][0], len(rows[0]))


def all_to_all(x: Instruction, dimension: int, count: int) -> Attributes:
    """Of an exchange of `count` blocks along a dimension; without groups that many devices are one."""
    found = (
        {name: int64(dimension) for name in ("split_dimension", "concat_dimension")}
        | {"split_count": int64(count)}
        | _collective(x)
    )
    if not x.attrs["replica_groups"].expanded():
        found["replica_groups"] = table([tuple(range(count))], count)
    return found


def _permute(x: Instruction) -> Attributes:
    if x.attrs["slice_sizes"]:
        raise unsupported(x, "a permutation in place")
    return {"source_target_pairs": table([*x.attrs["source_target_pairs"]], 2)} | channel(x)


_RNG = {"rng_default": "DEFAULT", "rng_three_fry": "THREE_FRY", "rng_philox": "PHILOX"}
_EXACT = (
    # with an accuracy
    "cbrt cosine exponential exponential-minus-one log log-plus-one logistic rsqrt sine sqrt tan tanh".split()
)
CHLO = {
    **dict.fromkeys("acos acosh asin asinh atan atanh cosh erf sinh".split(), no_accuracy),
    "mulhi": lambda x: {},
    "topk": lambda x: {"k": int64(x.attrs["k"])},
    "ragged-dot": _ragged_dot,
}
"""Opcodes that CHLO has, and StableHLO has not."""
ATTRIBUTES: dict[str, Callable[[Instruction], Attributes]] = {
    **CHLO,
    **dict.fromkeys(_EXACT, _accuracy),
    "all-gather": lambda x: {"all_gather_dim": int64(x.attrs["dimensions"][0])} | _collective(x),
    "all-reduce": _one_type,
    "all-to-all": _all_to_all,
    "batch-norm-grad": _norm,
    "batch-norm-inference": _norm,
    "batch-norm-training": _norm,
    "broadcast": lambda x: {"broadcast_dimensions": int64s(x.attrs["dimensions"])},
    "cholesky": lambda x: {"lower": truth(x.attrs["lower"])},
    "collective-broadcast": _collective,
    "collective-permute": _permute,
    "compare": _compare,
    "concatenate": lambda x: {"dimension": int64(x.attrs["dimensions"][0])},
    "constant": lambda x: {"value": constant(x.attrs["literal"])},
    "convolution": _convolution,
    "dot": _dot,
    "dynamic-slice": lambda x: {"slice_sizes": int64s(x.attrs["dynamic_slice_sizes"])},
    "fft": lambda x: {"fft_type": word("fft_type", x.attrs["fft_type"]), "fft_length": int64s(x.attrs["fft_length"])},
    "gather": _gather,
    "get-dimension-size": lambda x: {"dimension": int64(x.attrs["dimensions"][0])},
    "iota": lambda x: {"iota_dimension": int64(x.attrs["iota_dimension"])},
    "map": lambda x: {"dimensions": int64s(x.attrs["dimensions"])},
    "pad": _pad,
    "reduce": lambda x: {"dimensions": int64s(x.attrs["dimensions"])},
    "reduce-precision": lambda x: {name: int32(x.attrs[name]) for name in ("exponent_bits", "mantissa_bits")},
    "reduce-scatter": lambda x: {"scatter_dimension": int64(x.attrs["dimensions"][0])} | _one_type(x),
    "reduce-window": _reduce_window,
    "reverse": lambda x: {"dimensions": int64s(x.attrs["dimensions"])},
    "rng": lambda x: {
        "rng_distribution": word("rng_distribution", x.attrs["distribution"].removeprefix("rng_").upper())
    },
    "rng-bit-generator": lambda x: {"rng_algorithm": word("rng_algorithm", _RNG[x.attrs["algorithm"]])},
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "set-dimension-size": lambda x: {"dimension": int64(x.attrs["dimensions"][0])},
    "slice": _slice,
    "sort": lambda x: {"dimension": int64(x.attrs["dimensions"][0]), "is_stable": truth(x.attrs["is_stable"])},
    "transpose": lambda x: {"permutation": int64s(x.attrs["dimensions"])},
    "triangular-solve": _triangular,
}
"""Opcode -> what gives its attributes."""
SAME = frozenset(
    "abs add and atan2 bitcast-convert ceil clamp complex convert count-leading-zeros divide dynamic-update-slice "
    "floor imag is-finite maximum minimum multiply negate not or partition-id popcnt power real remainder replica-id "
    "reshape round-nearest-afz round-nearest-even select shift-left shift-right-arithmetic shift-right-logical "
    "subtract xor".split()
)
"""Opcodes without attributes of which StableHLO has the same."""
NAMES = {"broadcast": "stablehlo.broadcast_in_dim", "dot": "stablehlo.dot_general", "topk": "chlo.top_k"}
"""Opcodes that have another name there."""


def name_of(opcode: str) -> str:
    """The operation that an opcode is."""
    return NAMES.get(opcode) or f"{'chlo' if opcode in CHLO else 'stablehlo'}.{opcode.replace('-', '_')}"


def quoted_attributes(texts: dict[str, str]) -> str:
    """`{a = "1"}`, of strings."""
    return "{" + ", ".join(f"{string_text(key)} = {string_text(value)}" for key, value in texts.items()) + "}"
