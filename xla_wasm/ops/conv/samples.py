"""Samples of convolution, with all its attributes."""

from __future__ import annotations

from itertools import product

import numpy as np

from ...hlo.attrs import ConvolutionDimensionNumbers, Window, WindowDimension
from ...hlo.shape import Shape
from ..dtypes import Array
from ..sample import Sample, array, bf16, case, f32, f64, pred, s8, s32, s64, shape, shape_of, u8


def labels(text: str) -> ConvolutionDimensionNumbers:
    """Dimension numbers from text such as "b01f_01io->b01f"."""
    left, rest = text.split("_")
    kernel, out = rest.split("->")
    spatial = [str(d) for d in range(len(left) - 2)]
    return ConvolutionDimensionNumbers(
        left.index("b"), left.index("f"), tuple(left.index(d) for d in spatial),
        kernel.index("i"), kernel.index("o"), tuple(kernel.index(d) for d in spatial),
        out.index("b"), out.index("f"), tuple(out.index(d) for d in spatial),
    )  # fmt: skip


def by_definition(
    x: Array, kernel: Array, numbers: ConvolutionDimensionNumbers, window: Window, groups: int, batches: int
) -> Array:
    """The convolution, one product at a time."""
    n = numbers
    x = x.transpose(n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions)
    kernel = kernel.transpose(
        n.kernel_output_feature_dimension, n.kernel_input_feature_dimension, *n.kernel_spatial_dimensions
    )
    outputs, inputs = kernel.shape[:2]
    sizes = []
    for size, w in zip(x.shape[2:], window.dimensions):
        dilated = (size - 1) * w.base_dilation + 1 if size else 0
        reach = dilated + w.padding_low + w.padding_high - ((w.size - 1) * w.window_dilation + 1)
        sizes.append(reach // w.stride + 1 if reach >= 0 else 0)
    result = np.zeros((x.shape[0] // batches, outputs, *sizes), np.float64)
    for b, o, *at in np.ndindex(result.shape):
        batch = b + o // (outputs // batches) * result.shape[0]
        first = o // (outputs // groups) * inputs
        for i, *k in product(range(inputs), *(range(w.size) for w in window.dimensions)):
            position, inside = [], True
            for p, tap, size, w in zip(at, k, x.shape[2:], window.dimensions):
                dilated = p * w.stride - w.padding_low + tap * w.window_dilation
                inside &= dilated % w.base_dilation == 0 and 0 <= dilated // w.base_dilation < size
                position.append(dilated // w.base_dilation)
            if inside:
                flipped = [w.size - 1 - tap if w.window_reversal else tap for tap, w in zip(k, window.dimensions)]
                result[b, o, *at] += float(x[batch, first + i, *position]) * float(kernel[o, i, *flipped])
    order = [n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions]
    return result.transpose(np.argsort(order))


def _small(t: str, *dims: int) -> Array:
    """Small integers, so that every order of summing gives the same."""
    return array(t, np.arange(np.prod(dims, dtype=int)).reshape(dims) * 7 % 11 - 5)


def _conv(
    name: str,
    x: tuple[int, ...],
    kernel: tuple[int, ...],
    text: str,
    *dims: WindowDimension,
    groups: int = 1,
    batches: int = 1,
    type_: str = "f32",
) -> Sample:
    left, right, window = _small(type_, *x), _small(type_, *kernel), Window(dims)
    expected = array(type_, by_definition(left, right, labels(text), window, groups, batches))
    return case(
        "convolution", (left, right), expected, name=name, window=window, dim_labels=labels(text),
        feature_group_count=groups, batch_group_count=batches,
    )  # fmt: skip


_D = WindowDimension
_NHWC, _NCHW = "b01f_01io->b01f", "bf01_oi01->bf01"
_SAME = _D(3, padding_low=1, padding_high=1)

SAMPLES: tuple[Sample, ...] = (
    case(
        "convolution", (f32([[[1], [2], [3], [4]]]), f32([[[1]], [[10]]])), f32([[[21], [32], [43]]]),
        name="the kernel is not flipped", window=Window((_D(2),)), dim_labels=labels("b0f_0io->b0f"),
    ),
    case(
        "convolution", (f32([[[1], [2], [3], [4]]]), f32([[[1]], [[10]]])), f32([[[12], [23], [34]]]),
        name="reversal flips the kernel",
        window=Window((_D(2, window_reversal=True),)), dim_labels=labels("b0f_0io->b0f"),
    ),
    case(
        "convolution", (s8([[[100], [100]]]), s8([[[2]], [[2]]])), s32([[[400]]]), name="widens",
        window=Window((_D(2),)), dim_labels=labels("b0f_0io->b0f"), shape=shape("s32[1,1,1]"),
    ),
    case(
        "convolution", (pred([[[1], [1], [0], [0]]]), pred([[[1]], [[1]]])), pred([[[1], [1], [0]]]),
        name="whether any pair holds", window=Window((_D(2),)), dim_labels=labels("b0f_0io->b0f"),
    ),
    *(
        case(
            "convolution", (left, right), expected, name="widens", window=Window((_D(2),)),
            dim_labels=labels("b0f_0io->b0f"), shape=Shape(shape_of(expected).element_type, (1, 1, 1)),
            xla="XLA:CPU refuses mixed signs" if {left.dtype, right.dtype} == {np.dtype("i1"), np.dtype("u1")} else "",
        )
        for left, right, expected in (
            (u8([[[255], [200]]]), s8([[[-1]], [[100]]]), s32([[[19745]]])),
            (s8([[[-1], [100]]]), u8([[[255]], [[200]]]), s32([[[19745]]])),
            (u8([[[200], [100]]]), u8([[[3]], [[5]]]), f32([[[1100]]])),
            (s32([[[2**31 - 1], [2]]]), s32([[[2]], [[3]]]), s64([[[2**32 + 4]]])),
            (bf16([[[256], [1]]]), bf16([[[1]], [[1]]]), f32([[[257]]])),
            (bf16([[[2], [1]]]), f32([[[1]], [[0.125]]]), f32([[[2.125]]])),
            (f32([[[2**24], [1]]]), f32([[[1]], [[1]]]), f64([[[2**24 + 1]]])),
            (array("c64", [[[1 + 2j], [3]]]), array("c64", [[[2 - 1j]], [[1j]]]), array("c64", [[[4 + 6j]]])),
        )
    ),
    _conv("valid", (2, 6, 5, 3), (3, 2, 3, 4), _NHWC, _D(3), _D(2)),
    _conv("same", (1, 5, 6, 2), (3, 3, 2, 5), _NHWC, _SAME, _SAME),
    _conv("many features", (1, 6, 6, 8), (3, 3, 8, 20), _NHWC, _SAME, _SAME),
    _conv("one by one", (2, 4, 5, 3), (1, 1, 3, 6), _NHWC, _D(1), _D(1)),
    _conv("one by one, stride", (1, 5, 5, 3), (1, 1, 3, 6), _NHWC, _D(1, 2), _D(1, 2)),
    _conv("features first", (2, 3, 5, 6), (4, 3, 3, 3), _NCHW, _SAME, _SAME),
    _conv("stride", (1, 7, 8, 2), (3, 3, 2, 4), _NHWC, _D(3, 2), _D(3, 3)),
    _conv("unequal padding", (1, 5, 5, 2), (3, 2, 2, 3), _NHWC, _D(3, 1, 2, 0), _D(2, 2, 0, 3)),
    _conv("negative padding", (1, 6, 6, 2), (2, 2, 2, 3), _NHWC, _D(2, 1, -1, 0), _D(2, 1, 1, -2)),
    _conv("window dilation", (1, 8, 8, 2), (3, 3, 2, 3), _NHWC, _D(3, 1, 1, 1, 2), _D(3, 1, 0, 0, 3)),
    _conv("base dilation", (1, 4, 3, 2), (3, 3, 2, 3), _NHWC, _D(3, 1, 2, 2, 1, 2), _D(3, 1, 1, 1, 1, 3)),
    _conv("base dilation, phases", (1, 4, 3, 2), (4, 5, 2, 3), _NHWC, _D(4, 1, 2, 2, 1, 2), _D(5, 1, 2, 2, 1, 3)),
    _conv("base dilation, strides between phases", (2, 12, 2), (15, 2, 3), "b0f_0io->b0f", _D(15, 7, 7, 7, 1, 12)),
    _conv("everything at once", (1, 5, 6, 4), (3, 2, 2, 6), _NHWC, _D(3, 2, 1, 2, 2, 2, True), _D(2, 1, 2, 0, 3, 2),
          groups=2),
    _conv("reversal", (1, 5, 5, 2), (3, 3, 2, 3), _NHWC, _D(3, 1, 1, 1, 1, 1, True), _D(3, 1, 1, 1, 1, 1, True)),
    _conv("groups", (1, 5, 5, 6), (3, 3, 2, 9), _NHWC, _SAME, _SAME, groups=3),
    _conv("depthwise", (2, 5, 5, 6), (3, 3, 1, 6), _NHWC, _SAME, _SAME, groups=6),
    _conv("depthwise with multiplier", (1, 5, 5, 3), (3, 3, 1, 6), _NHWC, _SAME, _SAME, groups=3),
    _conv("batch groups", (4, 5, 5, 2), (3, 3, 2, 6), _NHWC, _D(3), _D(3), batches=2),
    _conv("batch groups of one", (3, 4, 4, 1), (2, 2, 1, 3), _NHWC, _D(2), _D(2), batches=3),
    _conv("gradient of the kernel", (2, 6, 6, 3), (2, 4, 4, 5), "f01b_i01o->01bf", _D(4), _D(4)),
    _conv("gradient of the input", (2, 4, 4, 5), (3, 3, 3, 5), "b01f_01oi->b01f", _D(3, 1, 2, 2, 1, 1, True),
          _D(3, 1, 2, 2, 1, 1, True)),
    _conv("one spatial dimension", (2, 9, 3), (4, 3, 5), "b0f_0io->b0f", _D(4, 2, 1, 1)),
    _conv("three spatial dimensions", (1, 3, 4, 3, 2), (2, 2, 2, 2, 3), "b012f_012io->b012f", _D(2), _D(2),
          _D(2, 1, 1, 0)),
    _conv("no spatial dimension", (2, 3), (3, 4), "bf_io->bf"),
    _conv("empty batch", (0, 4, 4, 2), (2, 2, 2, 3), _NHWC, _D(2), _D(2)),
    case(
        "convolution", (f32(np.zeros((1, 0, 1))), f32([[[np.inf]]])), f32([[[0]]]), name="no pixels but padding",
        window=Window((_D(1, padding_low=1),)), dim_labels=labels("b0f_0io->b0f"),
    ),
    _conv("no features", (1, 4, 4, 0), (2, 2, 0, 3), _NHWC, _D(2), _D(2)),
    _conv("gradient of depthwise weights, no images", (0, 5, 4, 3), (0, 5, 4, 3), "f01b_i01o->01bf",
        _D(5, padding_low=1, padding_high=1), _D(4), batches=3),
    _conv("window too large", (1, 2, 2, 1), (3, 3, 1, 1), _NHWC, _D(3), _D(3)),
    _conv("", (1, 5, 5, 2), (3, 3, 2, 3), _NHWC, _SAME, _SAME, type_="f64"),
    _conv("", (1, 5, 5, 2), (3, 3, 2, 3), _NHWC, _SAME, _SAME, type_="s32"),
)  # fmt: skip
