"""Convolutions of one image: channels last for JAX and TensorFlow.js, first for the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .workload import GFLOPS, Workload, arrays, normal

TITLE = "Convolutions"


def _convolution(
    name: str,
    size: int,
    channels: int,
    out: int,
    taps: int,
    stride: int = 1,
    dilation: int = 1,
    rank: int = 2,
    depthwise: bool = False,
    quick: bool = False,
) -> Workload:
    """A padded convolution whose result has `size / stride` places a dimension; depthwise if each channel has taps of
    its own."""
    from jax import lax

    letters = "DHW"[-rank:]
    reach = dilation * (taps - 1) + 1
    low = (reach - 1) // 2
    high = (size // stride - 1) * stride + reach - size - low
    groups = channels if depthwise else 1

    def function(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            w["w"],
            (stride,) * rank,
            [(low, high)] * rank,
            rhs_dilation=(dilation,) * rank,
            dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
            feature_group_count=groups,
        )

    def onnx(g: Any) -> str:
        pads = [low] * rank + [high] * rank
        return g.node("Conv", "x", "w", strides=[stride] * rank, dilations=[dilation] * rank, pads=pads, group=groups)

    pad = f"[[0, 0], [{low}, {high}], [{low}, {high}], [0, 0]]"
    if depthwise:
        tfjs: str | None = f"tf.depthwiseConv2d(x, w.w.reshape([{taps}, {taps}, {channels}, 1]), {stride}, 'same')"
    elif rank == 2:
        same = low == high or stride == 1
        tfjs = f"tf.conv2d(x, w.w, {stride}, {repr('same') if same else pad}, 'NHWC', {dilation})"
    else:
        tfjs = f"tf.conv3d(x, w.w, {stride}, 'same')"
    options = f"rhsDilation: {[dilation] * rank}, featureGroupCount: {groups}"
    spatial = tuple(range(1, rank + 1))
    last = (0, rank + 1, *spatial)
    return Workload(
        name,
        GFLOPS,
        2.0 * (size // stride) ** rank * out * taps**rank * (channels // groups),
        function,
        arrays(x=normal(1, *[size] * rank, channels)),
        arrays(w=normal(*[taps] * rank, channels // groups, out)),
        onnx=onnx,
        tfjs=tfjs,
        jaxjs=f"lax.convGeneralDilated(x, w.w, {[stride] * rank}, {[[low, high]] * rank}, {{{options}}})",
        bound="fma",
        orders={"x": last, "w": (rank + 1, rank, *range(rank))},
        result_order=last,
        quick=quick,
    )


def transposed(
    name: str, size: int, inputs: int, outputs: int, taps: int, stride: int, rank: int = 2, gradient: bool = False
) -> Workload:
    """A transposed convolution whose result has `size * stride` places a dimension; or the same as JAX writes the
    gradient of a strided convolution with respect to its image. The weights are those of that one, so that its results
    are their last dimension."""
    import jax
    from jax import lax

    letters = "DHW"[-rank:]
    numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")

    def direct(x: Any, w: Any) -> Any:
        return lax.conv_transpose(x, w["w"], (stride,) * rank, "SAME", dimension_numbers=numbers, transpose_kernel=True)

    def derived(x: Any, w: Any) -> Any:
        def strided(image: Any) -> Any:
            return lax.conv_general_dilated(image, w["w"], (stride,) * rank, "SAME", dimension_numbers=numbers)

        image = jax.ShapeDtypeStruct((1, *[size * stride] * rank, outputs), x.dtype)
        return jax.linear_transpose(strided, image)(x)[0]

    low = (taps - stride) // 2
    high = taps - stride - low

    def onnx(g: Any) -> str:
        return g.node("ConvTranspose", "x", "w", strides=[stride] * rank, pads=[low] * rank + [high] * rank)

    last = (0, rank + 1, *range(1, rank + 1))
    shape = [1, *[size * stride] * rank, outputs]
    strides, padding = [stride] * rank, [[low, high]] * rank
    return Workload(
        name,
        GFLOPS,
        2.0 * size**rank * taps**rank * inputs * outputs,
        derived if gradient else direct,
        arrays(x=normal(1, *[size] * rank, inputs)),
        arrays(w=normal(*[taps] * rank, outputs, inputs)),
        onnx=onnx,
        tfjs=f"tf.conv2dTranspose(x, w.w, {shape}, {stride}, 'same')" if rank == 2 else None,
        jaxjs=f"lax.convTranspose(x, w.w, {strides}, {padding}, {{transposeKernel: true}})",
        bound="fma",
        orders={"x": last, "w": (rank + 1, rank, *range(rank))},
        result_order=last,
    )


def workloads() -> Iterator[Workload]:
    yield _convolution("conv3x3_56_64_64", 56, 64, 64, 3, quick=True)
    yield _convolution("dwconv3x3_56_128", 56, 128, 128, 3, depthwise=True, quick=True)
    yield _convolution("conv7x7s2_224_3_64", 224, 3, 64, 7, stride=2)
    yield _convolution("conv1x1_56_64_256", 56, 64, 256, 1)
    yield _convolution("conv3x3d2_56_64_64", 56, 64, 64, 3, dilation=2)
    yield _convolution("conv3d_16_16_32", 16, 16, 32, 3, rank=3)
    yield transposed("convt4x4s2_32_64_64", 32, 64, 64, 4, 2)
    yield transposed("convt1024s256_128_64_1", 128, 64, 1, 1024, 256, rank=1)
    yield transposed("conv3x3s2_grad_56_64_128", 28, 128, 64, 3, 2, gradient=True)
