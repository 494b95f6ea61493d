"""Typed attribute values of HLO instructions. Field names are those of xla_data.proto."""

from __future__ import annotations

from itertools import product
from math import prod

from ..dataclass import dataclass

MOST_DEVICES = 1 << 16
"""Devices of a module: lists with an entry for each stay small."""
MOST_IN_GROUPS = 1 << 20
"""Devices that an array of groups names, one in several groups counted in each."""


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a Window."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    window_reversal: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a convolution (spatial dimensions only), reduce-window or select-and-scatter (all dimensions)."""

    dimensions: tuple[WindowDimension, ...] = ()


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """Padding of one dimension; low and high may be negative."""

    edge_padding_low: int = 0
    edge_padding_high: int = 0
    interior_padding: int = 0


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """Bounds of one dimension of a slice."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class DotDimensionNumbers:
    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    lhs_batch_dimensions: tuple[int, ...] = ()
    rhs_batch_dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RaggedDotDimensionNumbers:
    dot_dimension_numbers: DotDimensionNumbers = DotDimensionNumbers()
    lhs_ragged_dimensions: tuple[int, ...] = ()
    rhs_group_dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    input_batch_dimension: int = 0
    input_feature_dimension: int = 0
    input_spatial_dimensions: tuple[int, ...] = ()
    kernel_input_feature_dimension: int = 0
    kernel_output_feature_dimension: int = 0
    kernel_spatial_dimensions: tuple[int, ...] = ()
    output_batch_dimension: int = 0
    output_feature_dimension: int = 0
    output_spatial_dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GatherDimensionNumbers:
    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScatterDimensionNumbers:
    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


PRECISIONS = ("default", "high", "highest")
ALGORITHMS = tuple(
    "unset dot_any_f8_any_f8_f32 dot_any_f8_any_f8_f32_fast_accum dot_f16_f16_f16 dot_f16_f16_f32 dot_bf16_bf16_bf16 "
    "dot_bf16_bf16_f32 dot_bf16_bf16_f32_x3 dot_bf16_bf16_f32_x6 dot_tf32_tf32_f32 dot_tf32_tf32_f32_x3 "
    "dot_f32_f32_f32 dot_f64_f64_f64 dot_bf16_bf16_f32_x9".split()
)
TRANSPOSES = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
ACCURACIES = ("default", "highest")


@dataclass(frozen=True, slots=True)
class PrecisionConfig:
    """`operand_precision` holds words of `PRECISIONS`; `algorithm` is one of `ALGORITHMS`."""

    operand_precision: tuple[str, ...] = ()
    algorithm: str = "unset"


@dataclass(frozen=True, slots=True)
class TriangularSolveOptions:
    """`transpose_a` is one of `TRANSPOSES`, the first of them in damaged modules only."""

    left_side: bool = False
    lower: bool = False
    unit_diagonal: bool = False
    transpose_a: str = "NO_TRANSPOSE"


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """The exactness that a function must have: a `mode` of `ACCURACIES`, or tolerances if `mode` is empty."""

    mode: str = "default"
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


@dataclass(frozen=True, slots=True)
class IotaGroups:
    """Groups cut out of 0..N-1 laid out over `reshape_dims` and transposed by `transpose_perm`."""

    num_groups: int
    group_size: int
    reshape_dims: tuple[int, ...]
    transpose_perm: tuple[int, ...]

    def expanded(self) -> tuple[tuple[int, ...], ...]:
        """The groups as lists of device numbers."""
        ids = transposed_iota(self.reshape_dims, self.transpose_perm)
        return tuple(
            tuple(ids[i : i + self.group_size]) for i in range(0, self.num_groups * self.group_size, self.group_size)
        )


@dataclass(frozen=True, slots=True)
class MeshGroups:
    """Groups of the devices of a mesh that differ only along some axes.

    `axes` are (name, size); `device_ids` is empty for 0..N-1 over the axes, else an explicit list, unless
    `reshape_dims` says how an iota is laid out. `refs` are (axis, pre, size): the sub-axis of that size, `pre` being
    the sizes before it; size 0 stands for the whole axis.
    """

    axes: tuple[tuple[str, int], ...]
    refs: tuple[tuple[int, int, int], ...]
    device_ids: tuple[int, ...] = ()
    reshape_dims: tuple[int, ...] = ()
    transpose_perm: tuple[int, ...] = ()

    def expanded(self) -> tuple[tuple[int, ...], ...]:
        """The groups as lists of device numbers; within a group the axis listed last varies fastest."""
        sizes = [size for _, size in self.axes]
        ids = list(self.device_ids) or transposed_iota(
            self.reshape_dims or tuple(sizes), self.transpose_perm or tuple(range(len(sizes)))
        )
        inside, outside = [], []
        for axis, size in enumerate(sizes):
            stride = prod(sizes[axis + 1 :])
            lead = 1  # product of the sizes of the leading parts of this axis that are dealt with
            here = [
                (pre or 1, part or size, order) for order, (which, pre, part) in enumerate(self.refs) if which == axis
            ]
            for pre, part, order in sorted(here):
                if pre > lead:
                    outside.append((pre // lead, stride * (size // pre)))
                lead = pre * part
                inside.append((order, part, stride * (size // lead)))
            if lead < size:
                outside.append((size // lead, stride))
        steps = [range(0, part * stride, stride) for _, part, stride in sorted(inside)]
        bases = [range(0, part * stride, stride) for part, stride in outside]
        return tuple(tuple(ids[sum(base) + sum(step)] for step in product(*steps)) for base in product(*bases))


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """The devices that take part together in a collective, in one of three notations. An empty list: all in one
    group."""

    groups: tuple[tuple[int, ...], ...] = ()
    iota: IotaGroups | None = None
    mesh: MeshGroups | None = None

    @property
    def devices(self) -> int:
        """The number of devices that are named, without listing them where the notation does not."""
        if self.iota:
            return self.iota.num_groups * self.iota.group_size
        return prod(size for _, size in self.mesh.axes) if self.mesh else sum(map(len, self.groups))

    def expanded(self) -> tuple[tuple[int, ...], ...]:
        """The groups as lists of device numbers, whatever the notation."""
        compact = self.iota or self.mesh
        return compact.expanded() if compact else self.groups


def transposed_iota(dims: tuple[int, ...], perm: tuple[int, ...]) -> list[int]:
    """0..N-1 shaped as `dims`, its dimensions permuted, read in row-major order."""
    strides = [prod(dims[d + 1 :]) for d in range(len(dims))]
    return [
        sum(index)
        for index in product(*(range(0, dims[d] * strides[d], strides[d]) if strides[d] else () for d in perm))
    ]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The origin of an instruction (OpMetadata); `unknown` keeps the fields not named here, as wire bytes."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    stack_frame_id: int = 0
    unknown: bytes = b""
