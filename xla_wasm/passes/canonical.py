"""Brings operations into the one form that `plan` takes: windows without padding and dilation, dot as batched matrix products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..dataclass import replace
from ..hlo.attrs import ConvolutionDimensionNumbers, DotDimensionNumbers, PaddingDimension, Window, WindowDimension
from ..hlo.ir import Instruction, Module
from ..hlo.literal import Literal
from ..hlo.shape import Shape
from ..ops.dot.lower import dot_free_dimensions
from ..ops.reduce.monoids import monoid
from ..ops.reduce.neutral import neutral
from ..ops.window.cumulative import cumulative
from .simplify import derived
from .sweep import Emit, sweep


def canonicalize(module: Module) -> None:
    """Rewrites every instruction that has a rule; what a rule makes is put before its users."""
    for computation in module.computations:
        sweep(computation, _canonical)


def _canonical(x: Instruction, emit: Emit) -> Instruction:
    rule = _RULES.get(x.opcode)
    return rule(x, emit) if rule else x


def _constant(x: Instruction, what: str, dtype: str, value: complex, emit: Emit) -> Instruction:
    shape = Shape(dtype)
    return emit(Instruction(f"{x.name}.{what}", "constant", shape, [], {"literal": Literal.from_values(shape, [value])}))


def _padded(x: Instruction, operand: Instruction, value: Instruction, padding: list[PaddingDimension], emit: Emit) -> Instruction:
    """`operand` with explicit padding."""
    dims = tuple(
        p.edge_padding_low + p.edge_padding_high + size + max(size - 1, 0) * p.interior_padding
        for p, size in zip(padding, operand.shape.dimensions)
    )
    return emit(derived(x, "pad", operand.shape.with_dimensions(dims), [operand, value], padding=tuple(padding)))


def _dot(x: Instruction, emit: Emit) -> Instruction:
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
    batch = tuple(lhs.shape.dimensions[d] for d in batches)
    m = prod(lhs.shape.dimensions[d] for d in left)
    k = prod(lhs.shape.dimensions[d] for d in contracted)
    width = prod(rhs.shape.dimensions[d] for d in right)
    rank = len(batch)
    canonical = DotDimensionNumbers((rank + 1,), (rank,), tuple(range(rank)), tuple(range(rank)))
    if (
        not swapped
        and n == canonical
        and lhs.shape.rank == rhs.shape.rank == rank + 2
        and lhs.shape.element_type == rhs.shape.element_type == dtype
    ):
        return x

    def arranged(o: Instruction, order: tuple[int, ...], dims: tuple[int, ...]) -> Instruction:
        o = _transposed(x, _converted(x, o, dtype, emit), order, emit)
        return emit(derived(x, "reshape", Shape(dtype, dims), [o])) if o.shape.dimensions != dims else o

    a = arranged(lhs, (*batches, *left, *contracted), (*batch, m, k))
    c = arranged(rhs, (*other_batches, *other, *right), (*batch, k, width))
    attrs = {"dot_dimension_numbers": canonical, "precision_config": x.attrs.get("precision_config")}
    product = emit(derived(x, "dot", Shape(dtype, (*batch, m, width)), [a, c], **attrs))
    free = [*(lhs.shape.dimensions[d] for d in left), *(rhs.shape.dimensions[d] for d in right)]
    whole = product
    if product.shape.dimensions != (*batch, *free):
        whole = emit(derived(x, "reshape", Shape(dtype, (*batch, *free)), [product]))
    if not swapped:
        return whole
    order = (*range(rank), *range(rank + len(left), rank + len(free)), *range(rank, rank + len(left)))
    return _transposed(x, whole, order, emit)


def _trailing(x: Instruction, dims: tuple[int, ...]) -> bool:
    """Whether these dimensions are the last ones of an operand where it lies in memory, seen through transposes."""
    while x.opcode == "transpose":
        dims = tuple(x.attrs["dimensions"][d] for d in dims)
        x = x.operands[0]
    return dims == tuple(range(x.shape.rank - len(dims), x.shape.rank))


def _convolution(x: Instruction, emit: Emit) -> Instruction:
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
    padded = any(w.padding_low or w.padding_high or w.base_dilation != 1 for w in window)
    reversed_ = any(w.window_reversal for w in window)
    batch_groups = x.attrs["batch_group_count"]
    same_type = image.shape.element_type == kernel.shape.element_type == dtype
    if n == canonical and not padded and not reversed_ and batch_groups == 1 and same_type:
        return x
    image = _converted(x, image, dtype, emit)
    kernel = _converted(x, kernel, dtype, emit)
    if batch_groups > 1:
        image, groups = _batch_groups_to_features(x, image, batch_groups, emit), batch_groups
    image = _transposed(x, image, (n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension), emit)
    if reversed_:
        dims = tuple(d for d, w in zip(n.kernel_spatial_dimensions, window) if w.window_reversal)
        kernel = emit(derived(x, "reverse", kernel.shape.without_layout(), [kernel], dimensions=dims))
    kernel = _transposed(
        x, kernel, (*n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension), emit
    )
    if padded:
        zero = _constant(x, "zero", dtype, 0, emit)
        padding = [PaddingDimension(w.padding_low, w.padding_high, w.base_dilation - 1) for w in window]
        image = _padded(x, image, zero, [PaddingDimension(), *padding, PaddingDimension()], emit)
    bare = Window(tuple(WindowDimension(w.size, w.stride, window_dilation=w.window_dilation) for w in window))
    order = (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension)
    attrs = x.attrs | {"window": bare, "dim_labels": canonical, "feature_group_count": groups, "batch_group_count": 1}
    dims = tuple(x.shape.dimensions[d] for d in order)
    y = emit(derived(x, "convolution", x.shape.with_dimensions(dims), [image, kernel], **attrs))
    return _transposed(x, y, tuple(order.index(d) for d in range(rank)), emit)


def _conv_labels(rank: int) -> ConvolutionDimensionNumbers:
    spatial = tuple(range(1, rank - 1))
    kernel = tuple(range(rank - 2))
    return ConvolutionDimensionNumbers(0, rank - 1, spatial, rank - 2, rank - 1, kernel, 0, rank - 1, spatial)


def _converted(x: Instruction, o: Instruction, dtype: str, emit: Emit) -> Instruction:
    if o.shape.element_type == dtype:
        return o
    return emit(derived(x, "convert", o.shape.with_element_type(dtype).without_layout(), [o]))


def _transposed(x: Instruction, o: Instruction, order: tuple[int, ...], emit: Emit) -> Instruction:
    if order == tuple(range(len(order))):
        return o
    dims = tuple(o.shape.dimensions[d] for d in order)
    return emit(derived(x, "transpose", o.shape.with_dimensions(dims), [o], dimensions=order))


def _batch_groups_to_features(x: Instruction, image: Instruction, groups: int, emit: Emit) -> Instruction:
    """The group's index leaves the batch dimension and becomes the major part of the features."""
    n = x.attrs["dim_labels"]
    batch, feature = n.input_batch_dimension, n.input_feature_dimension
    dims = image.shape.dimensions
    split = (*dims[:batch], groups, dims[batch] // groups, *dims[batch + 1 :])
    whole = emit(derived(x, "reshape", image.shape.with_dimensions(split), [image]))
    order = [d for d in range(len(split)) if d != batch]
    order.insert(order.index(feature + (feature > batch)), batch)
    moved = emit(derived(x, "transpose", image.shape.with_dimensions(tuple(split[d] for d in order)), [whole], dimensions=tuple(order)))
    merged = tuple(size // groups if d == batch else size * groups if d == feature else size for d, size in enumerate(dims))
    return emit(derived(x, "reshape", image.shape.with_dimensions(merged), [moved]))


def _reduce_window(x: Instruction, emit: Emit) -> Instruction:
    """Padding with the reducer's identity is the same as skipping the padding, and costs no test per element."""
    window = x.attrs["window"].dimensions
    opcode = monoid(x.called[0]) if len(x.operands) == 2 and x.shape.is_array else None
    value = neutral(opcode, x.shape.element_type) if opcode is not None else None
    if value is None or x.shape.size == 0 or cumulative(x) is not None:
        return x
    padded = any(w.padding_low or w.padding_high or w.base_dilation != 1 for w in window)
    order = _apart(x)
    if not padded and len(order) < 2:
        return x
    nothing = _constant(x, "identity", x.shape.element_type, value, emit)
    operand, init = x.operands
    if padded:
        padding = [PaddingDimension(w.padding_low, w.padding_high, w.base_dilation - 1) for w in window]
        operand = _padded(x, operand, nothing, padding, emit)
    bare = [replace(w, padding_low=0, padding_high=0, base_dilation=1) for w in window]
    if len(order) < 2:
        return _window_of(x, operand, init, bare, x.shape.dimensions, emit)
    for d in order:
        alone = [w if i == d else WindowDimension(1, 1) for i, w in enumerate(bare)]
        dims = tuple(size if i == d else before for i, (size, before) in enumerate(zip(x.shape.dimensions, operand.shape.dimensions)))
        operand = _window_of(x, operand, init if d == order[-1] else nothing, alone, dims, emit)
    return operand


def _window_of(
    x: Instruction, operand: Instruction, init: Instruction, window: list[WindowDimension], dims: tuple[int, ...], emit: Emit
) -> Instruction:
    """A reduce-window like `x` of another array with another window."""
    y = derived(x, "reduce-window", x.shape.with_dimensions(dims), [operand, init], window=Window(tuple(window)))
    y.called = x.called
    return emit(y)


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


_RULES: dict[str, Callable[[Instruction, Emit], Instruction]] = {
    "dot": _dot,
    "convolution": _convolution,
    "reduce-window": _reduce_window,
}
