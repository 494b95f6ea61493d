"""convolution as an expression: a sum over the window and the input features. The fast kernels are in `kernels/` and
`lower_depthwise.py`."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...loop.affine import Affine, Index
from ...loop.ir import Val
from ...loop.nest import fold
from ...lowering.apply import multiply_add
from ...lowering.elemental import Elemental


def _convolution(e: Elemental, x: Instruction, index: Index) -> Val:
    """Padding, base dilation and reversal are explicit by now (`ops.conv.canonical`); a group is an offset of the
    features."""
    b = e.b
    n, window = x.attrs["dim_labels"], x.attrs["window"].dimensions
    assert not any(w.padding_low or w.padding_high for w in window), (
        f"{x.where}: what pads by itself has a kernel of its own"
    )
    image, kernel = x.operands
    dtype = x.shape.element_type
    groups = x.attrs["feature_group_count"]
    inputs = kernel.shape.dimensions[n.kernel_input_feature_dimension]
    outputs = kernel.shape.dimensions[n.kernel_output_feature_dimension]
    out_feature = index[n.output_feature_dimension]
    first = Affine()
    if groups > 1:
        per_group = outputs // groups
        if per_group == 1:
            first = out_feature * inputs
        else:
            group = b.div(b.index_value(out_feature), b.const("s32", per_group))
            first = Affine(0, (), ((group, inputs),))
    sizes = (*(w.size for w in window), inputs)

    def step(inner: Index, acc: list[Val]) -> list[Val]:
        *taps, feature = inner
        at_image: dict[int, Affine] = {
            n.input_batch_dimension: index[n.output_batch_dimension],
            n.input_feature_dimension: first + feature,
        }
        at_kernel = {n.kernel_input_feature_dimension: feature, n.kernel_output_feature_dimension: out_feature}
        for d, w in enumerate(window):
            at_image[n.input_spatial_dimensions[d]] = (
                index[n.output_spatial_dimensions[d]] * w.stride + taps[d] * w.window_dilation
            )
            at_kernel[n.kernel_spatial_dimensions[d]] = taps[d]
        p = b.convert(e.value(image, tuple(at_image[d] for d in range(image.shape.rank))), dtype)
        q = b.convert(e.value(kernel, tuple(at_kernel[d] for d in range(kernel.shape.rank))), dtype)
        return [multiply_add(b, p, q, acc[0])]

    lanes = b.lanes_at(index)
    return fold(b, sizes, [b.const(dtype, 0)], lanes, step)[0]


ELEMENTAL = {"convolution": _convolution}
