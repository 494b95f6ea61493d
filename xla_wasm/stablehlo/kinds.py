"""Readers of attributes of each kind from StableHLO's: `hlo/kinds/` says what the kinds are.

A reader gets the attributes of the operation, the names that its record gives, and the operands. Of a kind with one
source the names are alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ParseError, UnsupportedError
from ..hlo.attrs import (
    ACCURACIES,
    TRANSPOSES,
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingDimension,
    PrecisionConfig,
    ReplicaGroups,
    ResultAccuracy,
    ScatterDimensionNumbers,
    SliceDimension,
    TriangularSolveOptions,
    Window,
    WindowDimension,
)
from ..hlo.ir import Instruction
from ..hlo.kinds.plain import WORDS
from ..hlo.types import default_comparison
from ..mlir.tree import Accuracy, Attribute, Number
from ..mlir.values import Attributes, flag, integer, integers, number, one_of, pairs, precisions, rows, type_of, word

ABSENT: Any = object()
"""The result of a reader whose attribute is absent."""

Keys = Sequence[str]
Reader = Callable[[Attributes, Keys, Sequence[Instruction]], Any]


def _single(read: Callable[[Attribute], Any]) -> Reader:
    """A kind with one source."""

    def reader(attributes: Attributes, keys: Keys, _: Sequence[Instruction]) -> Any:
        for key in keys:
            if key in attributes:
                return read(attributes[key])
        return ABSENT

    return reader


def _fields(cls: Any, names: dict[str, str] | None = None) -> Reader:
    """A class of `hlo.attrs` whose fields are attributes: by their own names, unless `names` has others."""

    def reader(attributes: Attributes, _: Keys, __: Sequence[Instruction]) -> Any:
        found = {}
        for name in cls.__dataclass_fields__:
            value = attributes.get((names or {}).get(name, name))
            if value is not None:
                found[name] = integers(value) if name.endswith(("_dims", "_dimensions", "_map")) else integer(value)
        return cls(**found)

    return reader


_DOT = {"lhs_batch_dimensions": "lhs_batching_dimensions", "rhs_batch_dimensions": "rhs_batching_dimensions"}


def _slices(attributes: Attributes, keys: Keys, _: Sequence[Instruction]) -> Any:
    start, limit, stride = (integers(attributes[key]) for key in keys)
    return tuple([SliceDimension(*bounds) for bounds in zip(start, limit, stride, strict=True)])


def _padding(attributes: Attributes, keys: Keys, _: Sequence[Instruction]) -> Any:
    low, high, interior = (integers(attributes[key]) for key in keys)
    return tuple([PaddingDimension(*edges) for edges in zip(low, high, interior, strict=True)])


def _window(attributes: Attributes, _: Keys, operands: Sequence[Instruction]) -> Window:
    """A window of given sizes, or of the kernel's in a convolution."""
    if "window_dimensions" in attributes:
        sizes = integers(attributes["window_dimensions"])
    elif "kernel_output_feature_dimension" in attributes or "kernel_spatial_dimensions" in attributes:
        kernel = operands[1].shape.dimensions
        sizes = tuple([kernel[d] for d in integers(attributes.get("kernel_spatial_dimensions", ()))])
    else:
        sizes = (1,) * operands[0].shape.rank
    rank = len(sizes)

    def listed(names: str, default: int) -> tuple[int, ...]:
        for name in names.split():
            if name in attributes:
                return integers(attributes[name])
        return (default,) * rank

    padding = pairs(attributes["padding"]) if "padding" in attributes else ((0, 0),) * rank
    columns = zip(
        sizes,
        listed("window_strides", 1),
        padding,
        listed("window_dilations rhs_dilation", 1),
        listed("base_dilations lhs_dilation", 1),
        listed("window_reversal", 0),
        strict=True,
    )
    return Window(
        tuple(
            [
                WindowDimension(size, stride, low, high, dilation, base, bool(turned))
                for size, stride, (low, high), dilation, base, turned in columns
            ]
        )
    )


_ALGORITHMS: dict[tuple[Any, ...], str] = {
    ("any_f8", "any_f8", "f32", 1, True): "dot_any_f8_any_f8_f32_fast_accum",
    ("any_f8", "any_f8", "f32", 1, False): "dot_any_f8_any_f8_f32",
    ("f16", "f16", "f16", 1, False): "dot_f16_f16_f16",
    ("f16", "f16", "f32", 1, False): "dot_f16_f16_f32",
    ("bf16", "bf16", "bf16", 1, False): "dot_bf16_bf16_bf16",
    ("bf16", "bf16", "f32", 1, False): "dot_bf16_bf16_f32",
    ("bf16", "bf16", "f32", 3, False): "dot_bf16_bf16_f32_x3",
    ("bf16", "bf16", "f32", 6, False): "dot_bf16_bf16_f32_x6",
    ("bf16", "bf16", "f32", 9, False): "dot_bf16_bf16_f32_x9",
    ("tf32", "tf32", "f32", 1, False): "dot_tf32_tf32_f32",
    ("tf32", "tf32", "f32", 3, False): "dot_tf32_tf32_f32_x3",
    ("f32", "f32", "f32", 1, False): "dot_f32_f32_f32",
    ("f64", "f64", "f64", 1, False): "dot_f64_f64_f64",
}
"""Types of the operands and the sum, number of products, and whether the sum may be inexact."""


def _precision(attributes: Attributes, _: Keys, __: Sequence[Instruction]) -> PrecisionConfig:
    if "accumulation_type" not in attributes:
        return PrecisionConfig(precisions(attributes))
    sides = [str(type_of(attributes[f"{side}_precision_type"])) for side in ("lhs", "rhs")]
    sides = ["any_f8" if side.startswith("f8") else side for side in sides]
    products, inexact = (
        integer(attributes.get("num_primitive_operations", 1)),
        flag(attributes, "allow_imprecise_accumulation"),
    )
    key = (*sides, str(type_of(attributes["accumulation_type"])), products, inexact)
    algorithm = _ALGORITHMS.get(key)
    if algorithm is None:
        raise UnsupportedError(f"the algorithm {key} of a dot is none that HLO has")
    return PrecisionConfig(precisions(attributes), algorithm)


def _word(kind: str, prefix: str = "") -> Reader:
    """A kind of words, which StableHLO has in capital letters; HLO has them in small ones behind a prefix."""
    return _single(lambda value: one_of(WORDS[kind].words, prefix + word(value).lower() if prefix else word(value)))


def _accuracy(value: Attribute) -> ResultAccuracy:
    if not isinstance(value, Accuracy):
        raise ParseError(f"result_accuracy is {value!r}")
    if value.mode == "TOLERANCE":
        return ResultAccuracy("", value.atol, value.rtol, value.ulps)
    return ResultAccuracy(one_of(ACCURACIES, value.mode.lower()))


def _groups(value: Attribute) -> ReplicaGroups:
    if isinstance(value, ReplicaGroups):
        return value  # by the axes of a mesh, which the program knows
    return ReplicaGroups(tuple([tuple([device for device in group if device >= 0]) for group in rows(value)]))


def _comparison(attributes: Attributes, keys: Keys, operands: Sequence[Instruction]) -> str:
    given = word(attributes.get(keys[0], "NOTYPE"))
    return default_comparison(operands[0].shape.element_type) if given == "NOTYPE" else given


def _triangular(attributes: Attributes, _: Keys, __: Sequence[Instruction]) -> TriangularSolveOptions:
    left, lower, unit = (flag(attributes, name) for name in ("left_side", "lower", "unit_diagonal"))
    return TriangularSolveOptions(
        left, lower, unit, one_of(TRANSPOSES, word(attributes.get("transpose_a", "NO_TRANSPOSE")))
    )


def _listed(value: Attribute) -> tuple[int, ...]:
    """A list, or one number as a list of it."""
    return (integer(value),) if isinstance(value, (int, Number)) else integers(value)


def _channel(value: Attribute) -> int | None:
    handle = integer(value)
    return handle if handle > 0 else None


KINDS: dict[str, Reader] = {
    "int": _single(integer),
    "count": _single(integer),
    "first_int": _single(integer),
    "channel_id": _single(_channel),
    "bool": _single(lambda value: bool(integer(value))),
    "tri_state": _single(lambda value: bool(integer(value))),
    "float": _single(number),
    "bytes": _single(lambda value: word(value).encode("utf-8", "surrogateescape")),
    "ints": _single(_listed),
    "slices": _slices,
    "padding": _padding,
    "window": _window,
    "source_target_pairs": _single(pairs),
    "replica_groups": _single(_groups),
    "convolution_dimension_numbers": _fields(ConvolutionDimensionNumbers),
    "dot_dimension_numbers": _fields(DotDimensionNumbers, _DOT),
    "gather_dimension_numbers": _fields(GatherDimensionNumbers),
    "scatter_dimension_numbers": _fields(ScatterDimensionNumbers),
    "precision_config": _precision,
    "result_accuracy": _single(_accuracy),
    "comparison_direction": _single(word),
    "comparison_type": _comparison,
    "triangular_solve_options": _triangular,
    "cholesky_options": _single(lambda value: bool(integer(value))),
    "fft_type": _word("fft_type"),
    "distribution": _word("distribution", "rng_"),
    "rng_algorithm": _word("rng_algorithm", "rng_"),
}
"""Kind -> reader. Kinds that are missing here are of attributes that StableHLO does not have."""
