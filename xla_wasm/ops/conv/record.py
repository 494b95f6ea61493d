"""The record of convolution."""

from __future__ import annotations

from ...errors import counted
from ...hlo.attrs import ConvolutionDimensionNumbers, PrecisionConfig, Window
from ...hlo.index_map import Coordinate, index_map
from ...hlo.infer import array, brief, broken, product_type, result, window_size
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Kind, Narrow, Op, Read
from ...hlo.shape import Shape
from ..window.record import in_window


def _convolution(instr: Instruction) -> Shape:
    x, kernel = array(instr, 0), array(instr, 1)
    window: Window | None = instr.attrs["window"]
    numbers: ConvolutionDimensionNumbers | None = instr.attrs["dim_labels"]
    if window is None or numbers is None:
        raise broken(instr, 2, "the window or dim_labels are missing")
    rank = len(window.dimensions) + 2
    for what, shape, dims in (
        (
            "the input",
            x,
            (numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions),
        ),
        (
            "the kernel",
            kernel,
            (
                numbers.kernel_input_feature_dimension,
                numbers.kernel_output_feature_dimension,
                *numbers.kernel_spatial_dimensions,
            ),
        ),
        (
            "the output",
            None,
            (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions),
        ),
    ):
        if (shape is not None and shape.rank != rank) or sorted(dims) != list(range(rank)):
            name = f"{what} {brief(shape)}" if shape else what
            raise broken(instr, 2, f"dim_labels and a window of {counted(rank - 2, 'dimension')} do not fit {name}")
    groups, batches = instr.attrs["feature_group_count"], instr.attrs["batch_group_count"]
    if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
        raise broken(
            instr,
            3,
            f"feature_group_count {groups} and batch_group_count {batches}: both positive, at most one above 1",
        )
    batch, features = x.dimensions[numbers.input_batch_dimension], x.dimensions[numbers.input_feature_dimension]
    inputs = kernel.dimensions[numbers.kernel_input_feature_dimension]
    outputs = kernel.dimensions[numbers.kernel_output_feature_dimension]
    if inputs * groups != features:
        raise broken(instr, 4, f"{features} input features in {groups} groups, but the kernel takes {inputs}")
    if outputs % groups or outputs % batches:
        raise broken(instr, 5, f"{outputs} output features cannot be split into {max(groups, batches)} groups")
    if batch % batches:
        raise broken(instr, 6, f"a batch of {batch} cannot be split into {batches} groups")
    sizes = [0] * rank
    sizes[numbers.output_batch_dimension] = batch // batches
    sizes[numbers.output_feature_dimension] = outputs
    for w, source, part, target in zip(
        window.dimensions,
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
    ):
        if w.size != kernel.dimensions[part]:
            raise broken(
                instr, 7, f"the window's size {w.size} is not that of dimension {part} of the kernel {brief(kernel)}"
            )
        sizes[target] = window_size(instr, x.dimensions[source], w, 8)
    return result(instr, product_type(instr, x, kernel, 9), sizes)


def _read_convolution(x: Instruction) -> list[Read]:
    n, window, rank = x.attrs["dim_labels"], x.attrs["window"].dimensions, x.shape.rank
    image, kernel = (o.shape.dimensions for o in x.operands)
    box = (*(w.size for w in window), kernel[n.kernel_input_feature_dimension])
    domain = x.shape.dimensions + box

    def at(d: int) -> Coordinate:
        return Coordinate(0, ((1, d, 1, domain[d]),))

    left: list[Coordinate | None] = [None] * rank
    right: list[Coordinate | None] = [None] * rank
    if x.attrs["batch_group_count"] == 1:
        left[n.input_batch_dimension] = at(n.output_batch_dimension)
    if x.attrs["feature_group_count"] == x.attrs["batch_group_count"] == 1:
        left[n.input_feature_dimension] = at(rank + len(window))
    right[n.kernel_input_feature_dimension] = at(rank + len(window))
    right[n.kernel_output_feature_dimension] = at(n.output_feature_dimension)
    for d, w in enumerate(window):
        left[n.input_spatial_dimensions[d]] = in_window(n.output_spatial_dimensions[d], rank + d, w, domain)
        right[n.kernel_spatial_dimensions[d]] = None if w.window_reversal else at(rank + d)
    reads = ((Kind.WINDOW, image, left), (Kind.REDUCED, kernel, right))
    return [Read(kind, index_map(domain, dims, coordinates), box) for kind, dims, coordinates in reads]


OPS: tuple[Op, ...] = (
    Op(
        "convolution",
        (2, 2),
        _convolution,
        (
            Attr("window", "window", (15,), Window()),
            Attr("dim_labels", "convolution_dimension_numbers", (16,), REQUIRED),
            Attr("feature_group_count", "count", (50,), 1),
            Attr("batch_group_count", "count", (58,), 1),
            Attr("precision_config", "precision_config", (51,), PrecisionConfig()),
            Attr("convolution_kind", "convolution_kind", (97,), "unset"),
            Attr("sparsity_config", "sparsity_config", (98,)),
        ),
        reads=_read_convolution,
        product=True,
        accumulates=True,
        narrow=Narrow.COMPUTED,
        doc="Sums of products of a kernel with the input under it, at every place of the kernel; the kernel is not "
        "flipped.",
        constraints=(
            "The operands are arrays.",
            "dim_labels name each dimension of input, kernel and output once, and the window has the spatial ones.",
            "feature_group_count and batch_group_count are positive, at most one of them above 1.",
            "The kernel's input features are the input's divided by feature_group_count.",
            "The output features are a multiple of both counts.",
            "The batch is a multiple of batch_group_count.",
            "The window's sizes are those of the kernel.",
            "Sizes, strides and dilations of the window are positive.",
            "The result has any type, but a complex one if the product has. Floats that become integers are rounded "
            "to floats first.",
        ),
    ),
)
