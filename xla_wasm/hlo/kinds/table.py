"""The table of kinds, by the names that op records give them."""

from __future__ import annotations

from ..attrs import GatherDimensionNumbers, ScatterDimensionNumbers
from . import devices, dimensions, options, plain
from .kind import Kind, Word

WORDS: dict[str, Word] = {
    "fft_type": Word("FFT IFFT RFFT IRFFT"),
    "distribution": Word("rng_invalid rng_uniform rng_normal"),
    "rng_algorithm": Word("rng_default rng_three_fry rng_philox"),
    "padding_type": Word("PADDING_INVALID PADDING_VALID PADDING_SAME"),
    "custom_call_schedule": Word("SCHEDULE_NONE SCHEDULE_LATEST SCHEDULE_EARLIEST"),
    "custom_call_api_version": Word(
        "API_VERSION_UNSPECIFIED API_VERSION_ORIGINAL API_VERSION_STATUS_RETURNING API_VERSION_STATUS_RETURNING_UNIFIED "
        "API_VERSION_TYPED_FFI",
        unwritten=1,
    ),
    "convolution_kind": Word("unset fprop dgrad wgrad"),
}
"""Kinds that are enums."""

KINDS: dict[str, Kind] = {
    "int": plain.Int(),
    "count": plain.Count(),
    "first_int": plain.FirstInt(),
    "optional_first_int": plain.OptionalFirstInt(),
    "optional_int": plain.OptionalInt(),
    "channel_id": plain.ChannelId(),
    "bool": plain.Bool(),
    "tri_state": plain.TriState(),
    "cholesky_options": plain.Cholesky(),
    "float": plain.Float(),
    "str": plain.Str(),
    "name": plain.Name(),
    "bytes": plain.Bytes(),
    "ints": plain.Ints(),
    "nested_ints": plain.NestedInts(),
    "bools": plain.Bools(),
    "shape": plain.ShapeKind(),
    "shapes": plain.ShapeList(),
    "slices": dimensions.Slices(),
    "padding": dimensions.Padding(),
    "window": dimensions.WindowKind(),
    "convolution_dimension_numbers": dimensions.ConvolutionLabels(),
    "dot_dimension_numbers": dimensions.DOT,
    "ragged_dot_dimension_numbers": dimensions.RaggedDotNumbers(),
    "gather_dimension_numbers": dimensions.DimensionNumbers(
        GatherDimensionNumbers, ("operand_batching_dims", "start_indices_batching_dims")
    ),
    "scatter_dimension_numbers": dimensions.DimensionNumbers(
        ScatterDimensionNumbers, ("input_batching_dims", "scatter_indices_batching_dims")
    ),
    "source_target_pairs": devices.Pairs(),
    "replica_groups": devices.Groups(),
    "domain": devices.Domain(),
    "precision_config": options.Precision(),
    "triangular_solve_options": options.Triangular(),
    "result_accuracy": options.Accuracy(),
    "comparison_direction": options.Direction(),
    "comparison_type": options.ComparisonType(),
    "output_operand_aliasing": options.Aliasing(),
    "sparsity_config": options.Sparsity(),
    "literal": options.LiteralKind(),
    **WORDS,
}
