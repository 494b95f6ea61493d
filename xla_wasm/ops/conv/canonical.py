"""Convolutions without dilation of the image, reversal and batch groups, with dimensions in one order; but for those
that have kernels of their own, without padding too."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...dataclass import replace
from ...hlo.attrs import ConvolutionDimensionNumbers, PaddingDimension, Window, WindowDimension
from ...hlo.index_map import Dims
from ...hlo.ir import Instruction
from ...hlo.types import PAIRED
from ...writing.writer import Rule, Writer
from ..dot.canonical_integers import even, narrowed, product_types
from ..dot.stored import LONG_ROW, is_widening
from ..window.canonical import padding
from .plan import depthwise, depthwise_of, winograd_tile, winograd_tile_of


def _convolution(w: Writer, x: Instruction) -> Instruction:
    """Brings a convolution to [batch, spatial..., features] with a kernel [spatial..., inputs, outputs].

    Padding and base dilation become an explicit pad, but for those whose own kernels pad (`ops.conv.plan`), reversal a
    reverse, batch groups feature groups, and both operands get the result's type. The transposes are index maps that
    the pad, or the packing of the kernel, reads through. Of a sparse operand all elements are there: `sparsity_config`
    only promises that some are 0.
    """
    n, window = x.attrs["dim_labels"], x.attrs["window"].dimensions
    image, kernel = x.operands
    dtype = x.shape.element_type
    rank = image.shape.rank
    if 0 in (x.shape.size, image.shape.size, kernel.shape.size):
        # Padding that cuts away more than there is has no pad; sums of nothing have no product, and padding is nothing.
        return w.full(dtype, x.shape.dimensions, 0)
    canonical = _conv_labels(rank)
    groups = x.attrs["feature_group_count"]
    padded = any(padding(side) != PaddingDimension() for side in window)
    holes = any(side.base_dilation > 1 for side in window)
    reversed_ = any(side.window_reversal for side in window)
    batch_groups = x.attrs["batch_group_count"]
    operands, sums = product_types(x)
    same_type = image.shape.element_type == kernel.shape.element_type == operands != PAIRED and sums == dtype
    if (
        n == canonical
        and not reversed_
        and batch_groups == 1
        and same_type
        and (not padded or depthwise(x) or winograd_tile(x))
    ):
        return x
    sizes = kernel.shape.dimensions
    if (
        operands == PAIRED
        and prod(sizes[d] for d in (*n.kernel_spatial_dimensions[-1:], n.kernel_input_feature_dimension)) >= LONG_ROW
    ):
        image, kernel = narrowed(w, image, "u8"), narrowed(w, kernel, "s8")  # kernels convert what they load
    else:
        image, kernel = w.convert(image, operands), w.convert(kernel, operands)
    if (
        batch_groups
        == image.shape.dimensions[n.input_batch_dimension]
        == kernel.shape.dimensions[n.kernel_output_feature_dimension]
        > 1
    ):
        # A gradient of depthwise weights: what is summed beside the window, the images of a batch, becomes a dimension
        # of it.
        image, kernel = (w.reshape(o, (1, *o.shape.dimensions)) for o in (image, kernel))
        window = (WindowDimension(kernel.shape.dimensions[1 + n.kernel_input_feature_dimension]), *window)
        n, groups, canonical = _with_depth(n), batch_groups, _conv_labels(rank + 1)
    elif batch_groups > 1:
        image, groups = _batch_groups_to_features(w, x, image, batch_groups), batch_groups
    stored = kernel.operands[0] if kernel.marks.weight_format and is_widening(kernel) else None

    def arranged(kernel: Instruction) -> Instruction:
        if reversed_:
            sides = zip(n.kernel_spatial_dimensions, window)
            kernel = w.reverse(kernel, tuple(d for d, side in sides if side.window_reversal))
        order = (*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension)
        return w.transpose(kernel, order)

    image = w.transpose(image, (n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension))
    mark, kernel = kernel.marks.weight_format, arranged(kernel)
    order = (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension)
    dims = (1,) * (len(order) - rank) + x.shape.dimensions
    out = tuple([dims[d] for d in order])
    bare = tuple([replace(side, window_reversal=False) for side in window])

    def convolve(
        image: Instruction, kernel: Instruction, out: Dims, groups: int, window: Sequence[WindowDimension]
    ) -> Instruction:
        """A convolution of operands in canonical order, with results of `out`."""
        shape = sums, image.shape.dimensions, kernel.shape.dimensions, out, groups, window
        padded = any(side.padding_low or side.padding_high for side in window)
        is_product = depthwise_of(*shape) is None and not winograd_tile_of(x.marks.winograd, *shape)
        if stored is not None and is_product and not holes:
            kernel = w.convert(arranged(stored), operands, weight_format=mark)  # the product packs it as it is stored
        if padded and is_product:
            zero = w.scalar(image.shape.element_type, 0)
            zero.name = f"{x.name}.zero"
            image = w.pad(image, zero, [PaddingDimension(), *map(padding, window), PaddingDimension()])
            window = [WindowDimension(side.size, side.stride, window_dilation=side.window_dilation) for side in window]
        if operands == PAIRED and groups == 1:
            image, kernel = even(w, image, image.shape.rank - 1), even(w, kernel, kernel.shape.rank - 2)
            image, kernel = w.convert(image, operands), w.convert(kernel, operands)
        elif operands == PAIRED:
            image, kernel = w.convert(image, sums), w.convert(kernel, sums)
        made = w.again(
            x,
            image,
            kernel,
            dtype=sums,
            window=Window(tuple(window)),
            dim_labels=canonical,
            feature_group_count=groups,
            batch_group_count=1,
        )
        return w.convert(made, dtype)

    if holes:
        from .canonical_phases import in_phases  # few convolutions have holes

        made = in_phases(w, image, kernel, out, groups, bare, convolve)
    else:
        made = convolve(image, kernel, out, groups, bare)
    return w.reshape(w.transpose_back(made, order), x.shape.dimensions)


def winograd_tile_before(x: Instruction) -> int:
    """As `ops.conv.plan.winograd_tile`, of a convolution whose dimensions may be in any order: the tile that it will
    have."""
    if x.opcode != "convolution" or not x.marks.winograd or 0 in (x.shape.size, *(o.shape.size for o in x.operands)):
        return 0
    n, (image, kernel) = x.attrs["dim_labels"], (o.shape.dimensions for o in x.operands)
    sums = product_types(x)[1]
    if x.attrs["batch_group_count"] > 1:
        return 0
    window = [replace(side, window_reversal=False) for side in x.attrs["window"].dimensions]
    orders = (
        (n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension),
        (*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension),
        (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension),
    )
    image, kernel, out = [
        tuple([dims[d] for d in order]) for dims, order in zip((image, kernel, x.shape.dimensions), orders)
    ]
    return winograd_tile_of(x.marks.winograd, sums, image, kernel, out, x.attrs["feature_group_count"], window)


def _with_depth(n: ConvolutionDimensionNumbers) -> ConvolutionDimensionNumbers:
    """The labels with one dimension more before all others: features of the input become a spatial dimension, the batch
    features."""

    def behind(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([1 + d for d in dims])

    return ConvolutionDimensionNumbers(
        *(0, 1 + n.input_batch_dimension, behind((n.input_feature_dimension, *n.input_spatial_dimensions))),
        *(
            0,
            1 + n.kernel_output_feature_dimension,
            behind((n.kernel_input_feature_dimension, *n.kernel_spatial_dimensions)),
        ),
        *(1 + n.output_batch_dimension, 1 + n.output_feature_dimension, (0, *behind(n.output_spatial_dimensions))),
    )


def _conv_labels(rank: int) -> ConvolutionDimensionNumbers:
    spatial = tuple(range(1, rank - 1))
    kernel = tuple(range(rank - 2))
    return ConvolutionDimensionNumbers(0, rank - 1, spatial, rank - 2, rank - 1, kernel, 0, rank - 1, spatial)


def _batch_groups_to_features(w: Writer, x: Instruction, image: Instruction, groups: int) -> Instruction:
    """The group's index leaves the batch dimension and becomes the major part of the features."""
    n = x.attrs["dim_labels"]
    batch, feature = n.input_batch_dimension, n.input_feature_dimension
    dims = image.shape.dimensions
    whole = w.reshape(image, (*dims[:batch], groups, dims[batch] // groups, *dims[batch + 1 :]))
    order = [d for d in range(whole.shape.rank) if d != batch]
    order.insert(order.index(feature + (feature > batch)), batch)
    merged = tuple(
        size // groups if d == batch else size * groups if d == feature else size for d, size in enumerate(dims)
    )
    return w.reshape(w.transpose(whole, tuple(order)), merged)


CANONICAL: dict[str, Rule] = {"convolution": _convolution}
