"""Products, convolutions and linear algebra of arrays of which a part counts: elsewhere their factors are zero."""

from __future__ import annotations

from ...hlo.attrs import DotDimensionNumbers
from ...hlo.ir import Instruction
from ..dot.expand import ragged_prefix
from .pad_arrays import Extent, Padded, Rule, Size, SizeWriter, is_known, is_whole


def _contracted(
    w: SizeWriter, x: Instruction, numbers: DotDimensionNumbers, extents: list[Extent]
) -> list[Instruction]:
    """Both operands, zero where a sum over contracting dimensions should end."""
    lhs, rhs = x.operands[:2]
    left: list[Size] = list(lhs.shape.dimensions)
    right: list[Size] = list(rhs.shape.dimensions)
    for p, q in zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions):
        left[p] = right[q] = w.agreed([extents[0][p], extents[1][q]], lhs.shape.dimensions[p])
    return [
        w.masked(lhs, left, 0, numbers.lhs_contracting_dimensions),
        w.masked(rhs, right, 0, numbers.rhs_contracting_dimensions),
    ]


def _product_sizes(w: SizeWriter, x: Instruction, numbers: DotDimensionNumbers, extents: list[Extent]) -> list[Size]:
    """The sizes of the batch dimensions, then of the free ones of both sides."""
    dims = x.operands[0].shape.dimensions
    left = {*numbers.lhs_batch_dimensions, *numbers.lhs_contracting_dimensions}
    right = {*numbers.rhs_batch_dimensions, *numbers.rhs_contracting_dimensions}
    return [
        *(
            w.agreed([extents[0][p], extents[1][q]], dims[p])
            for p, q in zip(numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions)
        ),
        *(size for d, size in enumerate(extents[0]) if d not in left),
        *(size for d, size in enumerate(extents[1]) if d not in right),
    ]


def _dot(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    """Also scaled-dot, whose scales must count as a whole."""
    numbers = x.attrs["dot_dimension_numbers"]
    if not all(is_whole(o.shape, e) for o, e in zip(x.operands[2:], extents[2:])):
        raise w.refuse("scales with dynamic dimensions are not supported")
    value = w.clone(x, [*_contracted(w, x, numbers, extents), *x.operands[2:]])
    return Padded(value, tuple(_product_sizes(w, x, numbers, extents)))


def _ragged_dot(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    ragged = x.attrs["ragged_dot_dimension_numbers"]
    numbers: DotDimensionNumbers = ragged.dot_dimension_numbers
    lhs, rhs, groups = x.operands
    if not is_known(extents[2][-1], groups.shape.dimensions[-1]):
        raise w.refuse("a dynamic number of groups is not supported")
    mode, _, _ = ragged_prefix(ragged, lhs.shape.rank)
    sizes = _product_sizes(w, x, numbers, extents)
    if mode == "free":
        group = ragged.rhs_group_dimensions[0]
        used = {*numbers.rhs_batch_dimensions, *numbers.rhs_contracting_dimensions}
        free = [d for d in range(rhs.shape.rank) if d not in used]
        del sizes[len(sizes) - len(free) + free.index(group)]
    elif mode == "contracting":
        sizes.insert(0, groups.shape.dimensions[-1])
    return Padded(w.clone(x, [*_contracted(w, x, numbers, extents), groups]), tuple(sizes))


def _convolution(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
    n = x.attrs["dim_labels"]
    image, kernel = x.operands
    given, taps = extents
    groups = max(x.attrs["feature_group_count"], x.attrs["batch_group_count"])
    grouped = [(given[n.input_batch_dimension], image.shape.dimensions[n.input_batch_dimension])]
    grouped += [(given[n.input_feature_dimension], image.shape.dimensions[n.input_feature_dimension])]
    grouped += [(taps[n.kernel_output_feature_dimension], kernel.shape.dimensions[n.kernel_output_feature_dimension])]
    if groups > 1 and not all(is_known(size, bound) for size, bound in grouped):
        raise w.refuse("dynamic dimensions that are split into groups are not supported")
    if not all(is_known(taps[d], kernel.shape.dimensions[d]) for d in n.kernel_spatial_dimensions):
        raise w.refuse("a kernel of dynamic size is not supported")
    before, weights = list(given), list(taps)
    if groups == 1:
        features = w.agreed(
            [given[n.input_feature_dimension], taps[n.kernel_input_feature_dimension]],
            image.shape.dimensions[n.input_feature_dimension],
        )
        before[n.input_feature_dimension] = weights[n.kernel_input_feature_dimension] = features
    sizes: list[Size] = list(x.shape.dimensions)
    sizes[n.output_batch_dimension] = (
        x.shape.dimensions[n.output_batch_dimension] if groups > 1 else given[n.input_batch_dimension]
    )
    sizes[n.output_feature_dimension] = taps[n.kernel_output_feature_dimension]
    for source, target, window in zip(
        n.input_spatial_dimensions, n.output_spatial_dimensions, x.attrs["window"].dimensions
    ):
        sizes[target] = w.places(given[source], window)
    operands = [
        w.masked(image, before, 0, [n.input_feature_dimension, *n.input_spatial_dimensions]),
        w.masked(kernel, weights, 0, [n.kernel_input_feature_dimension]),
    ]
    return Padded(w.clone(x, operands), tuple(sizes))


def _last_whole(count: int) -> Rule:
    """The rule of an operation on the last `count` dimensions of each array, or matrix, of a batch."""

    def rule(w: SizeWriter, x: Instruction, extents: list[Extent]) -> Padded:
        inner = len(x.attrs["fft_length"]) if x.opcode == "fft" else count
        batch = x.shape.rank - inner
        for o, extent in zip(x.operands, extents):
            if not all(is_known(extent[d], o.shape.dimensions[d]) for d in range(batch, o.shape.rank)):
                raise w.refuse("only the dimensions of the batch may be dynamic")
        sizes = [w.agreed([e[d] for e in extents], x.shape.dimensions[d]) for d in range(batch)]
        return Padded(w.clone(x), (*sizes, *x.shape.dimensions[batch:]))

    return rule


RULES: dict[str, Rule] = {
    "dot": _dot,
    "scaled-dot": _dot,
    "ragged-dot": _ragged_dot,
    "convolution": _convolution,
    "fft": _last_whole(0),
    "cholesky": _last_whole(2),
    "triangular-solve": _last_whole(2),
}
