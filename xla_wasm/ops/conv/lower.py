"""convolution as an expression: a sum over the window and the input features. The fast kernels are in `kernels/` and
`lower_depthwise.py`."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...loop.affine import ZERO, Affine, Index
from ...loop.ir import Val
from ...lowering.elemental import Elemental
from ..dot.lower import sum_of_products


def _convolution(e: Elemental, x: Instruction, index: Index) -> Val:
    """Of [batch, spatial..., features] and [spatial..., inputs, outputs] (`ops.conv.canonical`); a group is an offset
    of the features."""
    b, window = e.b, x.attrs["window"].dimensions
    assert not any(w.padding_low or w.padding_high for w in window), (
        f"{x.where}: what pads by itself has a kernel of its own"
    )
    batch, *place, output = index
    sizes = x.operands[1].shape.dimensions
    groups, (inputs, outputs) = x.attrs["feature_group_count"], sizes[-2:]
    first = ZERO
    if groups == outputs > 1:
        first = output * inputs
    elif groups > 1:
        group = b.div(b.index_value(output), b.const("s32", outputs // groups))
        first = Affine.of(group) * inputs

    def at(inner: Index) -> tuple[Index, Index]:
        *taps, feature = inner
        pixel = [i * w.stride + tap * w.window_dilation for i, tap, w in zip(place, taps, window)]
        return (batch, *pixel, first + feature), (*inner, output)

    return sum_of_products(e, x, b.lanes_at(index), sizes[:-1], at)


ELEMENTAL = {"convolution": _convolution}
