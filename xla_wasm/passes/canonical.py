"""Brings operations into the one form that `plan` takes: windows without padding and dilation, dot as batched matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..dataclass import replace
from ..hlo.attrs import ConvolutionDimensionNumbers, DotDimensionNumbers, PaddingDimension, Window, WindowDimension
from ..hlo.ir import Instruction, Module
from ..ops.dot.record import dot_free_dimensions
from ..ops.reduce.monoids import monoid
from ..ops.reduce.neutral import neutral
from ..ops.window.cumulative import cumulative
from ..ops.writer import Rule, Writer
from .rewrite import rewrite


def canonicalize(module: Module) -> None:
    """Rewrites every instruction that has a rule."""
    rewrite(module, _RULES)


def _dot(w: Writer, x: Instruction) -> Instruction:
    """Operands become [batch..., m, k] and [batch..., k, n] by index maps; the result gets its dimensions back.

    Products read their left side along k where it lies and pack their right side anyway, so a left side that would have
    to be transposed changes places with a right side that would not.
    """
    n = x.attrs["dot_dimension_numbers"]
    lhs, rhs = x.operands
    dtype = x.shape.element_type
    left, right = dot_free_dimensions(x)
    contracted, other = n.lhs_contracting_dimensions, n.rhs_contracting_dimensions
    swapped = not _trailing(lhs, contracted) and _trailing(rhs, other)
    batches, other_batches = n.lhs_batch_dimensions, n.rhs_batch_dimensions
    if swapped:
        lhs, rhs, left, right, contracted, other, batches, other_batches = rhs, lhs, right, left, other, contracted, other_batches, batches
    rank = len(batches)
    canonical = DotDimensionNumbers((rank + 1,), (rank,), tuple(range(rank)), tuple(range(rank)))
    if (
        not swapped
        and n == canonical
        and lhs.shape.rank == rhs.shape.rank == rank + 2
        and lhs.shape.element_type == rhs.shape.element_type == dtype
    ):
        return x

    def arranged(o: Instruction, *parts: Sequence[int]) -> Instruction:
        """The batch dimensions, then one dimension of each part."""
        sizes = tuple(prod(o.shape.dimensions[d] for d in part) for part in parts[1:])
        moved = w.transpose(w.convert(o, dtype), tuple(d for part in parts for d in part))
        return w.reshape(moved, (*moved.shape.dimensions[:rank], *sizes))

    a = arranged(lhs, batches, left, contracted)
    c = arranged(rhs, other_batches, other, right)
    product = w.op("dot", a, c, dtype=dtype, dot_dimension_numbers=canonical, precision_config=x.attrs.get("precision_config"))
    free = [*(lhs.shape.dimensions[d] for d in left), *(rhs.shape.dimensions[d] for d in right)]
    whole = w.reshape(product, (*product.shape.dimensions[:rank], *free))
    if not swapped:
        return whole
    return w.transpose(whole, (*range(rank), *range(rank + len(left), rank + len(free)), *range(rank, rank + len(left))))


def _trailing(x: Instruction, dims: tuple[int, ...]) -> bool:
    """Whether these dimensions are the last ones of an operand where it lies in memory, seen through transposes."""
    while x.opcode == "transpose":
        dims = tuple(x.attrs["dimensions"][d] for d in dims)
        x = x.operands[0]
    return dims == tuple(range(x.shape.rank - len(dims), x.shape.rank))


def _convolution(w: Writer, x: Instruction) -> Instruction:
    """Brings a convolution to [batch, spatial..., features] with a kernel [spatial..., inputs, outputs].

    Padding and base dilation become an explicit pad, reversal a reverse, batch groups feature groups, and both operands
    get the result's type. The transposes are index maps that the pad, or the packing of the kernel, reads through. Of a
    sparse operand all elements are there: `sparsity_config` only promises that some are 0.
    """
    n, window = x.attrs["dim_labels"], x.attrs["window"].dimensions
    image, kernel = x.operands
    dtype = x.shape.element_type
    rank = image.shape.rank
    canonical = _conv_labels(rank)
    groups = x.attrs["feature_group_count"]
    padded = any(_padding(side) != PaddingDimension() for side in window)
    reversed_ = any(side.window_reversal for side in window)
    batch_groups = x.attrs["batch_group_count"]
    same_type = image.shape.element_type == kernel.shape.element_type == dtype
    if n == canonical and not padded and not reversed_ and batch_groups == 1 and same_type:
        return x
    image, kernel = w.convert(image, dtype), w.convert(kernel, dtype)
    if batch_groups > 1:
        image, groups = _batch_groups_to_features(w, x, image, batch_groups), batch_groups
    image = w.transpose(image, (n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension))
    if reversed_:
        kernel = w.reverse(kernel, tuple(d for d, side in zip(n.kernel_spatial_dimensions, window) if side.window_reversal))
    order = (*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension)
    kernel = w.transpose(kernel, order)
    if padded:
        zero = w.scalar(dtype, 0)
        zero.name = f"{x.name}.zero"
        image = w.pad(image, zero, [PaddingDimension(), *map(_padding, window), PaddingDimension()])
    bare = Window(tuple(WindowDimension(side.size, side.stride, window_dilation=side.window_dilation) for side in window))
    attrs = x.attrs | {"window": bare, "dim_labels": canonical, "feature_group_count": groups, "batch_group_count": 1}
    made = w.op("convolution", image, kernel, dtype=dtype, **attrs)
    order = (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension)
    return w.transpose(made, tuple(order.index(d) for d in range(rank)))


def _padding(side: WindowDimension) -> PaddingDimension:
    """The padding of an array that does what this dimension of a window does before it moves."""
    return PaddingDimension(side.padding_low, side.padding_high, side.base_dilation - 1)


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
    merged = tuple(size // groups if d == batch else size * groups if d == feature else size for d, size in enumerate(dims))
    return w.reshape(w.transpose(whole, tuple(order)), merged)


def _reduce_window(w: Writer, x: Instruction) -> Instruction:
    """Padding with the reducer's identity is the same as skipping the padding, and costs no test per element."""
    window = x.attrs["window"].dimensions
    opcode = monoid(x.called[0]) if len(x.operands) == 2 and x.shape.is_array else None
    value = neutral(opcode, x.shape.element_type) if opcode is not None else None
    if value is None or x.shape.size == 0 or cumulative(x) is not None:
        return x
    padded = any(_padding(side) != PaddingDimension() for side in window)
    order = _apart(x)
    if not padded and len(order) < 2:
        return x
    nothing = w.scalar(x.shape.element_type, value)
    nothing.name = f"{x.name}.identity"
    operand, init = x.operands
    if padded:
        operand = w.pad(operand, nothing, [*map(_padding, window)])
    bare = [replace(side, padding_low=0, padding_high=0, base_dilation=1) for side in window]
    if len(order) < 2:
        return w.op("reduce-window", operand, init, called=x.called, window=Window(tuple(bare)))
    for d in order:
        alone = Window(tuple(side if i == d else WindowDimension(1, 1) for i, side in enumerate(bare)))
        operand = w.op("reduce-window", operand, init if d == order[-1] else nothing, called=x.called, window=alone)
    return operand


_CACHED = 1 << 20
"""So many elements stay near the processor from one kernel to the next."""


def _apart(x: Instruction) -> list[int]:
    """The dimensions along which to reduce one after another, if that takes fewer operations than all at once."""
    window, dims = x.attrs["window"].dimensions, list(x.operands[0].shape.dimensions)
    order = sorted((d for d, w in enumerate(window) if w.size > 1 or w.stride > 1), key=lambda d: -window[d].stride)
    steps = 0
    for d in order:
        dims[d] = x.shape.dimensions[d]
        # What is written between is read again, perhaps from beyond the cache.
        steps += prod(dims) * (window[d].size + (1 if prod(dims) <= _CACHED else 4))
    return order if steps < x.shape.size * prod(w.size for w in window) else []


_RULES: dict[str, Rule] = {
    "dot": _dot,
    "convolution": _convolution,
    "reduce-window": _reduce_window,
}
