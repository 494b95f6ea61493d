"""Convolutions with kernels of their own: random programs, with what finishes their elements, against the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import xla_wasm
from tests.support import seeds
from tests.support.closeness import assert_same
from tests.support.differential import BOTH, differential, run
from xla_wasm.builder import Builder, scalar_computation
from xla_wasm.compiler import trace
from xla_wasm.hlo.attrs import ConvolutionDimensionNumbers, PaddingDimension, Window, WindowDimension
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.conv import canonical_phases
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.reference import evaluate

SPECIAL = (np.nan, np.inf, -np.inf, -0.0)
Arrays = list[Array]


def numbers(rng: np.random.Generator, dtype: str, dims: tuple[int, ...], special: float = 0) -> Array:
    """Whole numbers, so that every order of summing gives the same; a share of floats is none."""
    x = rng.integers(-4, 5, dims).astype(DTYPES[dtype])
    if dtype[0] in "bf" and special:
        x = np.where(rng.random(dims) < special, rng.choice(SPECIAL, dims), x.astype(np.float64)).astype(x.dtype)
    return x


def finished(
    b: Builder, rng: np.random.Generator, y: Instruction, features: int, arguments: Arrays, special: float
) -> Instruction:
    """Some of bias, scale, clip, residual, transpose and conversion on what a convolution gave."""
    dtype, dims = y.shape.element_type, y.shape.dimensions

    def parameter(*sizes: int) -> Instruction:
        arguments.append(numbers(rng, dtype, sizes, special))
        return b.parameter(len(arguments) - 1, Shape(dtype, sizes))

    def number(value: int) -> Instruction:
        return b.op("broadcast", b.constant(Shape(dtype, ()), [value]), shape=Shape(dtype, dims), dimensions=())

    for _ in range(rng.integers(0, 4)):
        kind = rng.integers(0, 8)
        if kind == 0:
            y = b.op(
                "add", b.op("broadcast", parameter(dims[features]), shape=Shape(dtype, dims), dimensions=(features,)), y
            )
        elif kind == 1:
            y = b.op("add", y, parameter(*dims))
        elif kind == 2:
            y = b.op("minimum", b.op("maximum", y, number(0)), number(6))
        elif kind == 3:
            y = b.op("maximum", number(int(rng.integers(-2, 2))), y)
        elif kind == 4:
            y = b.op("clamp", number(-3), y, number(9))
        elif kind == 5:
            y = b.op("multiply", y, b.op("broadcast", parameter(dims[1]), shape=Shape(dtype, dims), dimensions=(1,)))
        elif kind == 6:
            y = b.op("negate", y)
        else:
            y = b.op("subtract", y, y)
    if rng.random() < 0.2:
        order = tuple(int(d) for d in rng.permutation(len(dims)))
        y = b.op("transpose", y, shape=Shape(dtype, tuple(dims[d] for d in order)), dimensions=order)
    return y


def labels(rng: np.random.Generator, spatial: int) -> ConvolutionDimensionNumbers:
    """As JAX has them for images and for NCHW, or in any order."""
    rank, whole = spatial + 2, tuple(range(spatial))
    kind = rng.integers(0, 3)
    if kind == 0:
        last = (0, rank - 1, tuple(range(1, rank - 1)))
        return ConvolutionDimensionNumbers(*last, rank - 2, rank - 1, whole, *last)
    if kind == 1:
        first = (0, 1, tuple(range(2, rank)))
        return ConvolutionDimensionNumbers(*first, 1, 0, tuple(range(2, rank)), *first)
    orders = [[int(d) for d in rng.permutation(rank)] for _ in range(3)]
    (ib, io, *i), (ki, ko, *k), (ob, oo, *o) = orders
    return ConvolutionDimensionNumbers(ib, io, tuple(i), ki, ko, tuple(k), ob, oo, tuple(o))


def placed(n: tuple[int, int, tuple[int, ...]], first: int, second: int, spatial: list[int]) -> tuple[int, ...]:
    """Sizes in the places that labels give them."""
    dims = [0] * (len(spatial) + 2)
    dims[n[0]], dims[n[1]] = first, second
    for d, size in zip(n[2], spatial):
        dims[d] = size
    return tuple(dims)


def program(seed: int) -> tuple[Module, Arrays]:
    """A convolution, mostly depthwise or of single pixels, of any sizes, and what finishes it."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["f32"] * 6 + ["f64", "s32", "bf16", "s8"]))
    spatial = int(rng.choice([1, 2, 2, 2, 2, 3]))
    most = {1: 34, 2: 18, 3: 7}[spatial]
    special = float(rng.choice([0, 0, 0.02]))
    batch, features = int(rng.integers(1, 4)), int(rng.integers(1, 34))
    groups, inputs, multiple = features, 1, 1
    if rng.random() < 0.25:
        inputs, multiple = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        if rng.random() < 0.7:
            inputs, multiple = [(2, 1), (2, 2), (4, 2), (4, 4), (8, 4)][rng.integers(0, 5)]
            groups = int(rng.integers(1, 5)) * 4 // multiple
    pixels = rng.random() < 0.2
    if pixels:
        groups, inputs, multiple = 1, features, int(rng.integers(1, 34))
    sizes, taps, window = [], [], []
    for _ in range(spatial):
        size, tap = int(rng.integers(1, most)), int(rng.choice([1, 2, 3, 3, 3, 5]))
        side = WindowDimension(
            tap,
            int(rng.choice([1, 1, 2, 3])),
            int(rng.integers(-1, 4)),
            int(rng.integers(-1, 4)),
            int(rng.choice([1, 1, 2])),
            int(rng.choice([1, 1, 1, 1, 1, 2])),
            bool(rng.random() < 0.1),
        )
        if pixels:
            tap, side = 1, WindowDimension(1)
        sizes, taps, window = [*sizes, size], [*taps, tap], [*window, side]
    n = labels(rng, spatial)
    b = Builder(f"seed_{seed}")
    x = placed(
        (n.input_batch_dimension, n.input_feature_dimension, n.input_spatial_dimensions), batch, inputs * groups, sizes
    )
    order = n.kernel_input_feature_dimension, n.kernel_output_feature_dimension, n.kernel_spatial_dimensions
    kernel = placed(order, inputs, multiple * groups, taps)
    arguments = [numbers(rng, dtype, x, special), numbers(rng, dtype, kernel, special / 4)]
    left, right = (b.parameter(i, Shape(dtype, dims)) for i, dims in enumerate((x, kernel)))
    attrs = {"window": Window(tuple(window)), "dim_labels": n, "feature_group_count": groups}
    y = b.op("convolution", left, right, **attrs)
    return b.module(finished(b, rng, y, n.output_feature_dimension, arguments, special)), arguments


def tiled_program(seed: int, finish: bool = True) -> tuple[Module, Arrays]:
    """A convolution that Winograd's algorithms may take, mostly, with what finishes it."""
    rng = np.random.default_rng(seed)
    batch = int(rng.choice([1, 1, 1, 2, 3]))
    height, width = (int(rng.integers(3, 30)) for _ in range(2))
    inputs, outputs = (int(rng.choice([16, 20, 24, 32, 36, 40, 18])) for _ in range(2))
    special = float(rng.choice([0, 0, 0.001, 0.0002]))
    window = tuple(
        WindowDimension(
            3, 1, int(rng.integers(0, 3)), int(rng.integers(0, 3)), window_reversal=bool(rng.random() < 0.2)
        )
        for _ in range(2)
    )
    n = labels(rng, 2)
    b = Builder(f"seed_{seed}")
    x = placed(
        (n.input_batch_dimension, n.input_feature_dimension, n.input_spatial_dimensions), batch, inputs, [height, width]
    )
    order = n.kernel_input_feature_dimension, n.kernel_output_feature_dimension, n.kernel_spatial_dimensions
    kernel = placed(order, inputs, outputs, [3, 3])
    arguments = [numbers(rng, "f32", x, special), numbers(rng, "f32", kernel, special / 20)]
    left, right = (b.parameter(i, Shape("f32", dims)) for i, dims in enumerate((x, kernel)))
    if rng.random() < 0.3:
        left = b.op("negate", left)
    y = b.op("convolution", left, right, window=Window(window), dim_labels=n)
    return b.module(finished(b, rng, y, n.output_feature_dimension, arguments, special / 5) if finish else y), arguments


def gradient_program(seed: int) -> tuple[Module, Arrays]:
    """The gradient of weights, of a depthwise convolution mostly, as JAX writes it: features are the batch, perhaps in
    groups."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["f32"] * 4 + ["f64", "s32", "bf16"]))
    images, groups = int(rng.integers(1, 5)), int(rng.integers(2, 34))
    special = float(rng.choice([0, 0, 0.005]))
    sizes, windows, window = [], [], []
    for _ in range(2):
        taps, stride, size = int(rng.choice([1, 2, 3, 3, 4])), int(rng.choice([1, 1, 2])), int(rng.integers(4, 34))
        low, high = int(rng.integers(-1, 3)), int(rng.integers(-1, 3))
        out = (size + low + high - taps) // stride + 1
        if out < 1:
            taps, stride, size, low, high, out = 3, 1, 30, 1, 1, 30
        rest = (size + low + high - taps) % stride
        sizes, windows = [*sizes, size], [*windows, out]
        window.append(WindowDimension(out, 1, low, high - rest, stride))
    whole = rng.random() < 0.3
    each = int(rng.integers(1, 20)) if whole else int(rng.choice([1, 1, 1, 2]))
    n = ConvolutionDimensionNumbers(3, 0, (1, 2), 0, 3, (1, 2), 2, 3, (0, 1))
    b = Builder(f"seed_{seed}")
    batch = groups * int(rng.choice([1, 1, 1, 2]))
    shapes = (images, *sizes, batch), (images, *windows, each if whole else groups * each)
    arguments = [numbers(rng, dtype, dims, special) for dims in shapes]
    left, right = (b.parameter(i, Shape(dtype, dims)) for i, dims in enumerate(shapes))
    y = b.op(
        "convolution", left, right, window=Window(tuple(window)), dim_labels=n, batch_group_count=1 if whole else groups
    )
    return b.module(finished(b, rng, y, n.output_feature_dimension, arguments, special)), arguments


def chain_program(seed: int) -> tuple[Module, Arrays]:
    """Two convolutions, with what may lie between: what finishes the first, padding, pooling, a residual; or a
    reduction at the end."""
    rng = np.random.default_rng(seed)
    b = Builder(f"seed_{seed}")
    n = labels(rng, 2)
    image = n.input_batch_dimension, n.input_feature_dimension, n.input_spatial_dimensions
    order = n.kernel_input_feature_dimension, n.kernel_output_feature_dimension, n.kernel_spatial_dimensions
    # What one convolution gives the next one takes.
    n = ConvolutionDimensionNumbers(*image, *order, *image)
    features = [int(rng.integers(1, 6)) for _ in range(3)]
    sizes = [int(rng.integers(5, 12)) for _ in range(2)]
    arguments = [numbers(rng, "f32", placed(image, int(rng.integers(1, 3)), features[0], sizes))]
    y = b.parameter(0, Shape("f32", arguments[0].shape))
    side = WindowDimension(3, padding_low=1, padding_high=1)
    number = b.constant(Shape("f32", ()), [0])
    last = y
    for k in range(2):
        dims = placed(order, features[k], features[k + 1], [3, 3])
        arguments.append(numbers(rng, "f32", dims))
        kernel = b.parameter(len(arguments) - 1, Shape("f32", dims))
        y = b.op("convolution", y, kernel, window=Window((side, side)), dim_labels=n)
        y = finished(b, rng, y, n.output_feature_dimension, arguments, 0)
        if last.shape.dimensions == y.shape.dimensions and rng.random() < 0.7:
            y = b.op("add", last, y)
        if y.shape.rank == 4 and rng.random() < 0.4:
            y = b.op(
                "pad", y, number, padding=tuple(PaddingDimension(int(p), int(q)) for p, q in rng.integers(0, 2, (4, 2)))
            )
        if rng.random() < 0.4:
            window = tuple(WindowDimension(int(w), int(s)) for w, s in rng.integers(1, 3, (4, 2)))
            called = scalar_computation(str(rng.choice(["add", "maximum"])), "f32")
            y = b.op("reduce-window", y, number, called=[called], window=Window(window))
        if y.shape.dimensions[n.input_feature_dimension] != features[k + 1]:
            break
        last = y
    if rng.random() < 0.4:
        gone = sorted(int(d) for d in rng.choice(4, int(rng.integers(1, 4)), replace=False))
        y = b.reduce(y, 0, "add", tuple(gone))
    return b.module(y), arguments


def holes_program(seed: int) -> tuple[Module, Arrays]:
    """A convolution of any kind whose image or window has holes, and perhaps what finishes it."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["f32"] * 5 + ["f64", "s32", "bf16", "f16", "s8"]))
    spatial = int(rng.choice([1, 1, 2, 2, 3]))
    most, longest = {1: (20, 16), 2: (9, 8), 3: (5, 4)}[spatial]
    special = float(rng.choice([0, 0, 0.02, 0.1]))
    groups, inputs, multiple, batches = 1, int(rng.integers(1, 9)), int(rng.integers(1, 9)), 1
    kind = rng.integers(0, 6)
    if kind == 0:
        groups, inputs, multiple = int(rng.integers(1, 33)), 1, 1
    elif kind == 1:
        groups = int(rng.integers(1, 6))
    elif kind == 2:
        inputs, multiple = [(2, 1), (2, 2), (4, 2), (4, 4), (8, 4)][rng.integers(0, 5)]
        groups = int(rng.integers(1, 5)) * 4 // multiple
    elif kind == 3:
        batches = int(rng.integers(2, 4))
    elif kind == 4:
        inputs, multiple = int(rng.choice([16, 20])), int(rng.choice([16, 20]))
    sizes, taps, window = [], [], []
    for _ in range(spatial):
        holes, size = int(rng.choice([1, 2, 2, 2, 3, 4, 5, 7, 8])), int(rng.integers(1, most))
        tap = min(longest, int(rng.choice([1, 2, 3, 4, 5, 6, 7, holes, 2 * holes])))
        stride, dilation = int(rng.choice([1, 1, 1, 2, 3, 4, 6])), int(rng.choice([1, 1, 1, 2, 3, 4]))
        low, high = (int(rng.choice([0, tap // 2, tap - 1, rng.integers(-2 * holes - 2, tap)])) for _ in range(2))
        lack = (tap - 1) * dilation - (size - 1) * holes - low - high
        window.append(WindowDimension(tap, stride, low, high + max(0, lack), dilation, holes, bool(rng.random() < 0.3)))
        sizes, taps = [*sizes, size], [*taps, tap]
    n = labels(rng, spatial)
    image = n.input_batch_dimension, n.input_feature_dimension, n.input_spatial_dimensions
    order = n.kernel_input_feature_dimension, n.kernel_output_feature_dimension, n.kernel_spatial_dimensions
    batch, outputs = batches * int(rng.integers(1, 4)), multiple * groups * batches
    dims = placed(image, batch, inputs * groups, sizes), placed(order, inputs, outputs, taps)
    arguments = [numbers(rng, dtype, d, special) for d in dims]
    b = Builder(f"seed_{seed}")
    left, right = (b.parameter(i, Shape(dtype, d)) for i, d in enumerate(dims))
    counts = {"feature_group_count": groups, "batch_group_count": batches}
    y = b.op("convolution", left, right, window=Window(tuple(window)), dim_labels=n, **counts)
    if dtype not in ("f16", "s8") and rng.random() < 0.5:
        y = finished(b, rng, y, n.output_feature_dimension, arguments, special)
    return b.module(y), arguments


@pytest.mark.parametrize(
    "make, block, size",
    [
        *((holes_program, block, 15) for block in range(seeds.count(2, 20))),
        *((program, block, 20) for block in range(seeds.count(3, 15))),
        *((gradient_program, block, 20) for block in range(seeds.count(1, 6))),
        *((chain_program, block, 20) for block in range(seeds.count(1, 6))),
        *((tiled_program, block, 10) for block in range(seeds.count(2, 8))),
    ],
)
def test_random_programs_are_exact(make: Callable[[int], tuple[Module, Arrays]], block: int, size: int) -> None:
    """Of whole numbers, in tiles of 2x2 too; and NaN and infinity stay where direct sums have them."""
    for seed in range(block * size, (block + 1) * size):
        module, arguments = make(seed)
        differential(module, *arguments, targets=BOTH)


@pytest.mark.parametrize("block", range(seeds.count(1, 4)))
def test_random_convolutions_in_tiles_of_4_are_near(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        module, arguments = tiled_program(seed, finish=False)
        (expected,) = evaluate(module, *arguments)
        finite = np.isfinite(expected)
        greatest = max(1, np.abs(expected[finite]).max(initial=0))
        for target in BOTH:
            options = xla_wasm.Options(target=target, winograd="f4")
            (actual,) = xla_wasm.load(xla_wasm.compile(module, options)).run(*arguments)
            np.testing.assert_array_equal(actual[~finite], expected[~finite], f"seed {seed}, {target}")
            assert np.abs(actual[finite] - expected[finite]).max(initial=0) <= 3e-5 * greatest, (seed, target)


def plain(height: int, width: int, inputs: int, outputs: int, dtype: str = "f32") -> Module:
    b = Builder("plain")
    x = b.parameter(0, Shape(dtype, (1, height, width, inputs)), "x")
    w = b.parameter(1, Shape(dtype, (3, 3, inputs, outputs)), "w")
    side = WindowDimension(3, padding_low=1, padding_high=1)
    n = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    return b.module(b.op("convolution", x, w, window=Window((side, side)), dim_labels=n))


@pytest.mark.parametrize("winograd", ["f2", "f4"])
def test_what_overflows_in_a_transform_only_is_computed_directly(winograd: str) -> None:
    x, w = np.zeros((1, 13, 16, 16), np.float32), np.zeros((3, 3, 16, 16), np.float32)
    x[0, 5, 5:7] = 3e38
    x[0, 5, 7] = -3e38
    x[0, 9] = 1
    w[1, 1] = np.eye(16)
    (actual,) = run(plain(13, 16, 16, 16), x, w, winograd=winograd)
    np.testing.assert_allclose(actual, x, 1e-6, 1e-5)


@pytest.mark.parametrize("winograd, most", [("off", 2e-6), ("f2", 2e-6), ("f4", 2e-5)])
def test_errors_are_those_that_the_documentation_states(winograd: str, most: float) -> None:
    """docs/numerics.md, "Winograd's algorithms"."""
    rng = np.random.default_rng(1)
    module = plain(28, 28, 128, 128)
    x, w = (rng.standard_normal(p.shape.dimensions).astype(np.float32) for p in module.entry.parameters)
    (actual,) = run(module, x, w, winograd=winograd)
    (expected,) = evaluate(module, x, w)
    assert np.abs(actual - expected).max() <= most * np.abs(expected).max()


@pytest.mark.parametrize("dtype, tiles", [("f32", True), ("f16", True), ("bf16", True), ("f64", False), ("s32", False)])
def test_tiles_are_of_what_is_computed_in_f32(dtype: str, tiles: bool) -> None:
    """docs/numerics.md, "Winograd's algorithms": infinities in a tile are still those of direct sums, results are
    rounded once."""
    rng = np.random.default_rng(2)
    module = plain(9, 14, 16, 20, dtype)
    x, w = (numbers(rng, dtype, p.shape.dimensions) for p in module.entry.parameters)
    if dtype in ("f16", "bf16"):
        x[0, 4, 5, 3], x[0, 0, 13, 15] = np.inf, 60000  # of f16, the second overflows when it is rounded
    direct, tiled = (xla_wasm.compile(module, xla_wasm.Options(winograd=name)) for name in ("off", "f2"))
    assert (direct.wasm != tiled.wasm) == tiles
    for name in ("off", "f2"):
        differential(module, x, w, winograd=name)


def test_only_known_algorithms_are_options() -> None:
    with pytest.raises(xla_wasm.ArgumentError, match="unknown winograd 'f3': choose one of off, f2, f4"):
        xla_wasm.Options(winograd="f3")


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("groups, features", [(8, 8), (2, 8), (1, 16)])
def test_weights_that_are_all_one_number(groups: int, features: int, target: str) -> None:
    """As an average is written: they are a constant, or a broadcast of one, and no kernel's expression then."""
    rng = np.random.default_rng(3)
    for dense in (False, True):
        b = Builder("average")
        x = b.parameter(0, Shape("f32", (1, 9, 10, features)))
        dims = (3, 3, features // groups, features)
        number = (
            b.constant(Shape("f32", dims), [2] * int(np.prod(dims)))
            if dense
            else b.broadcast(b.constant(Shape("f32", ()), [2]), dims)
        )
        side = WindowDimension(3, padding_low=1, padding_high=1)
        n = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
        y = b.op(
            "convolution",
            b.op("negate", x),
            number,
            window=Window((side, side)),
            dim_labels=n,
            feature_group_count=groups,
        )
        differential(b.module(y), numbers(rng, "f32", x.shape.dimensions), targets=[target])


@pytest.mark.parametrize("target", BOTH)
def test_convolutions_inside_a_loop(target: str) -> None:
    """The state goes through both kernels that pad by themselves, three times."""
    dims = (1, 9, 10, 16)
    state = Shape.tuple([Shape("s32"), Shape("f32", dims)])
    side = WindowDimension(3, padding_low=1, padding_high=1)
    n = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    rng = np.random.default_rng(4)
    whole, single = np.eye(16)[None, None] * rng.integers(-1, 2, (3, 3, 1, 1)), rng.integers(-1, 2, (3, 3, 1, 16))

    def field(b: Builder, s: Instruction, index: int) -> Instruction:
        return b.op("get-tuple-element", s, index=index)

    test, step = Builder("test"), Builder("step")
    p = test.parameter(0, state)
    condition = test.build(test.op("compare", field(test, p, 0), test.constant(Shape("s32"), [3]), direction="LT"))
    p = step.parameter(0, state)
    y = field(step, p, 1)
    for weights, groups in ((whole, 1), (single, 16)):
        kernel = step.constant(Shape("f32", weights.shape), weights.ravel().tolist())
        y = step.op("convolution", y, kernel, window=Window((side, side)), dim_labels=n, feature_group_count=groups)
    body = step.build(step.op("tuple", step.op("add", field(step, p, 0), step.constant(Shape("s32"), [1])), y))
    b = Builder("loop")
    start = b.op("tuple", b.constant(Shape("s32"), [0]), b.parameter(0, Shape("f32", dims)))
    module = b.module(field(b, b.op("while", start, called=[body, condition]), 1))
    differential(module, numbers(rng, "f32", dims), targets=[target])


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("threads", [False, True], ids=["one thread", "threads"])
@pytest.mark.parametrize("dtype, channels", [("f32", 800), ("f32", 1024), ("f64", 400), ("f64", 512)])
def test_one_output_of_images_from_beyond_the_caches(dtype: str, channels: int, threads: bool, target: str) -> None:
    """Rows of short images that are streams of their own, where they take more than 256 KiB, and below that."""
    rng = np.random.default_rng(channels)
    for images, width in ((1, 8), (3, 8), (1, 9), (2, 33)):
        dims, b = (images, 4, width + 2, channels), Builder("head")
        x, weights = b.parameter(0, Shape(dtype, dims)), b.parameter(1, Shape(dtype, (3, 3, channels, 1)))
        n = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
        y = b.op("convolution", x, weights, window=Window((WindowDimension(3),) * 2), dim_labels=n)
        arguments = [numbers(rng, dtype, sizes) for sizes in (dims, weights.shape.dimensions)]
        differential(b.module(y), *arguments, targets=[target], threads=threads)


AT_BOUNDS = {
    "no image": ((1, 0, 9, 16), (3, 3, 16, 16), {"low": (2, 2), "high": (2, 0)}),
    "no result": ((2, 2, 9, 16), (3, 3, 16, 16), {}),
    "no result, depthwise": ((2, 2, 9, 5), (3, 3, 1, 5), {"groups": 5}),
    "tiles of one row of results": ((2, 3, 40, 16), (3, 3, 16, 16), {}),
    "tiles of two rows of results": ((2, 4, 40, 16), (3, 3, 16, 16), {}),
    "padding for tiles": ((2, 9, 9, 16), (3, 3, 16, 20), {"low": (2, 1), "high": (0, 2)}),
    "too much padding for tiles": ((2, 9, 9, 16), (3, 3, 16, 20), {"low": (3, 1), "high": (0, 2)}),
    "less than no padding for tiles": ((2, 9, 19, 16), (3, 3, 16, 20), {"low": (1, 1), "high": (1, -1)}),
    "tiles reversed": ((2, 9, 9, 16), (3, 3, 16, 20), {"low": (1, 1), "high": (1, 1), "reversal": True}),
    "depthwise reversed": ((2, 9, 9, 5), (3, 3, 1, 5), {"low": (1, 1), "high": (1, 1), "reversal": True, "groups": 5}),
    "rows of tiles that fill the memory of a block": ((1, 130, 262, 16), (3, 3, 16, 16), {}),
    "long sums of many tiles in a block": ((1, 4, 516, 1028), (3, 3, 1028, 16), {}),
    "a border of a depthwise image": ((2, 20, 5), (3, 1, 10), {"low": (8,), "high": (8,), "groups": 5}),
    "a border too long": ((2, 20, 5), (3, 1, 10), {"low": (9,), "high": (8,), "groups": 5}),
    "the same of rows": ((2, 20, 7, 5), (3, 3, 1, 5), {"low": (9, 1), "high": (8, 1), "groups": 5}),
    "groups of a few f64": ((2, 9, 9, 8), (3, 3, 2, 8), {"dtype": "f64", "groups": 4, "low": (1, 1)}),
    "groups of a few f32": ((2, 9, 9, 8), (3, 3, 2, 8), {"groups": 4, "low": (1, 1)}),
    "groups of a few s8": ((2, 9, 9, 8), (3, 3, 2, 8), {"dtype": "s8", "groups": 4, "low": (1, 1)}),
    "windows that are long and narrow": ((2, 63, 5, 6), (60, 3, 1, 6), {"groups": 6}),
    "windows of whole blocks of taps": ((2, 63, 6, 6), (60, 4, 1, 6), {"groups": 6}),
    "windows with a tap more": ((2, 63, 7, 6), (60, 5, 1, 6), {"groups": 6, "dtype": "bf16"}),
}  # fmt: skip
"""Of the image and of the kernel the dimensions."""


@pytest.mark.parametrize("case", AT_BOUNDS)
def test_bounds_of_kernels_of_their_own(case: str) -> None:
    image, kernel, given = AT_BOUNDS[case]
    rank, dtype = len(image) - 2, given.get("dtype", "f32")
    low, high = (given.get(side, (0,) * rank) for side in ("low", "high"))
    spatial = tuple(range(1, rank + 1))
    last = (0, rank + 1, spatial)
    window = tuple(
        WindowDimension(size, padding_low=p, padding_high=q, window_reversal=given.get("reversal", False))
        for size, p, q in zip(kernel, low, high)
    )
    rng = np.random.default_rng(len(case))
    arguments = [numbers(rng, dtype, dims) for dims in (image, kernel)]
    b = Builder("bounds")
    x, w = (b.parameter(i, Shape(dtype, a.shape)) for i, a in enumerate(arguments))
    n = ConvolutionDimensionNumbers(*last, rank, rank + 1, tuple(range(rank)), *last)
    y = b.op("convolution", x, w, window=Window(window), dim_labels=n, feature_group_count=given.get("groups", 1))
    module = b.module(y)
    (expected,) = evaluate(module, *arguments)
    differential(module, *arguments, targets=("relaxed-simd for v8", "threads"), expected=[expected])
    (actual,) = run(module, *arguments, winograd="f4", threads=True)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-5 * np.abs(expected).max(initial=1))


@pytest.mark.parametrize("images", [1, 2, 9])
@pytest.mark.parametrize("groups", [1, 20], ids=["tiles", "depthwise"])
@pytest.mark.parametrize("winograd", ["off", "f2"])
def test_an_image_that_is_flattened(winograd: str, groups: int, images: int) -> None:
    """A convolution, a residual, and what a dense layer takes: ends in an index that no place of a tile has."""
    dims, rng = (images, 7, 8, 20), np.random.default_rng(images)
    for flat in ((images * 1120,), (images, 1120), (images * 7, 160), (images, 7, 160)):
        b, side = Builder("flat"), WindowDimension(3, padding_low=1, padding_high=1)
        x, weights, residual = (
            b.parameter(i, Shape("f32", sizes)) for i, sizes in enumerate((dims, (3, 3, 20 // groups, 20), dims))
        )
        n = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
        y = b.op("convolution", x, weights, window=Window((side, side)), dim_labels=n, feature_group_count=groups)
        arguments = [numbers(rng, "f32", o.shape.dimensions) for o in (x, weights, residual)]
        module = b.module(b.reshape(b.op("add", y, residual), flat))
        differential(module, *arguments, targets=BOTH, winograd=winograd)
        differential(module, *arguments, targets=BOTH, winograd=winograd, threads=True)


_D = WindowDimension
HOLES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[WindowDimension, ...], dict[str, Any]]] = {
    "a window of one tap, phases without taps": ((2, 5, 4), (1, 4, 5), (_D(1, 1, 2, 3, 1, 3),), {}),
    "a window shorter than the holes": ((2, 5, 4), (3, 4, 5), (_D(3, 1, 2, 2, 1, 5),), {}),
    "a tap for each phase": ((2, 5, 4), (3, 4, 5), (_D(3, 1, 2, 2, 1, 3),), {}),
    "a tap more": ((2, 5, 4), (4, 4, 5), (_D(4, 1, 2, 2, 1, 3),), {}),
    "two taps for each phase": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 5, 4, 1, 3),), {}),
    "reversed": ((2, 5, 4), (5, 4, 5), (_D(5, 1, 4, 3, 1, 3, True),), {}),
    "as many strides as holes": ((2, 5, 4), (5, 4, 5), (_D(5, 3, 3, 3, 1, 3),), {}),
    "a part of the strides": ((2, 9, 4), (5, 4, 5), (_D(5, 2, 3, 3, 1, 6),), {}),
    "more strides than holes": ((2, 9, 4), (5, 4, 5), (_D(5, 6, 3, 3, 1, 3),), {}),
    "strides in four phases": ((2, 9, 4), (9, 4, 5), (_D(9, 3, 3, 3, 1, 4),), {}),
    "strides in more phases": ((2, 9, 4), (9, 4, 5), (_D(9, 3, 3, 3, 1, 5),), {}),
    "strides in more phases, of few features": ((2, 9, 4), (12, 4, 1), (_D(12, 4, 3, 3, 1, 6),), {}),
    "a dilated window": ((2, 9, 4), (4, 4, 5), (_D(4, 1, 3, 3, 2, 3),), {}),
    "a dilated window that misses phases": ((2, 9, 4), (4, 4, 5), (_D(4, 1, 3, 3, 2, 4),), {}),
    "a window dilated as the image": ((2, 9, 4), (4, 4, 5), (_D(4, 1, 3, 3, 3, 3),), {}),
    "a window dilated more": ((2, 9, 4), (4, 4, 5), (_D(4, 2, 3, 3, 6, 4),), {}),
    "padding cut away": ((2, 9, 4), (4, 4, 5), (_D(4, 1, -3, -5, 1, 3),), {}),
    "all elements cut away": ((2, 3, 4), (4, 4, 5), (_D(4, 1, -8, 20, 1, 3),), {}),
    "fewer results than phases": ((2, 2, 4), (5, 4, 5), (_D(5, 1, 3, 0, 1, 4),), {}),
    "one result": ((2, 2, 4), (5, 4, 5), (_D(5, 3, 0, 0, 1, 4),), {}),
    "one pixel": ((3, 1, 4), (5, 4, 5), (_D(5, 1, 4, 4, 1, 3),), {}),
    "no image": ((0, 3, 4), (5, 4, 5), (_D(5, 1, 4, 4, 1, 3),), {}),
    "no pixel": ((2, 0, 4), (5, 4, 5), (_D(5, 1, 4, 4, 1, 3),), {}),
    "no input features": ((2, 3, 0), (5, 0, 5), (_D(5, 1, 4, 4, 1, 3),), {}),
    "no result": ((2, 2, 4), (5, 4, 5), (_D(5, 1, 0, 0, 1, 3),), {}),
    "few features": ((2, 6, 7, 8), (4, 4, 8, 3), (_D(4, 1, 2, 2, 1, 2),) * 2, {}),
    "few features, results left out": ((2, 6, 7, 8), (4, 4, 8, 3), (_D(4, 1, 3, 3, 1, 2), _D(4, 1, 3, 2, 1, 2)), {}),
    "more features": ((2, 6, 7, 8), (4, 4, 8, 9), (_D(4, 1, 2, 2, 1, 2),) * 2, {}),
    "unequal phases": ((2, 6, 7, 8), (3, 5, 8, 9), (_D(3, 1, 1, 2, 1, 2), _D(5, 1, 2, 2, 1, 3)), {}),
    "many phases": ((2, 3, 5), (64, 5, 2), (_D(64, 1, 24, 24, 1, 16),), {}),
    "phases that stride over elements": ((2, 40, 4), (9, 4, 5), (_D(9, 7, 5, 30, 1, 8),), {}),
    "nine convolutions": ((2, 6, 5, 4), (4, 3, 4, 5), (_D(4, 1, 3, 3, 2, 3), _D(3, 1, 2, 2, 2, 3)), {}),
    "more, as groups of phases": ((2, 5, 4, 4), (7, 5, 4, 5), (_D(7, 1, 9, 9, 3, 4), _D(5, 1, 2, 2, 2, 3)), {}),
    "groups of as many taps": ((2, 5, 6, 2), (8, 8, 2, 3), (_D(8, 1, 9, 9, 3, 4), _D(8, 1, 9, 9, 3, 4)), {}),
    "groups of phases far apart": ((1, 9, 7, 2), (7, 7, 2, 3), (_D(7, 1, 9, 9, 3, 5), _D(7, 1, 9, 9, 4, 5)), {}),
    "phases in another order": ((1, 8, 6, 4), (9, 6, 4, 1), (_D(9, 6, 2, 6, 2, 5), _D(6, 9, -1, -2, 1, 4)), {}),
    "more, were there no padding": ((1, 12, 5, 4), (9, 9, 4, 5), (_D(9, 8, -2, -1, 3, 5), _D(9, 3, 8, 4, 3, 4)), {}),
    "groups that stride": ((2, 60, 3), (40, 3, 2), (_D(40, 11, 17, 20, 1, 12),), {}),
    "groups of overlapping windows": ((2, 60, 3), (80, 3, 2), (_D(80, 3, 17, 20, 11, 20),), {}),
    "groups, phases without taps": ((1, 30, 30, 3), (3, 4, 3, 4), (_D(3, 7, 1, 1, 1, 8), _D(4, 9, 1, 1, 1, 8)), {}),
    "groups, padding cut away": ((1, 30, 4), (32, 4, 3), (_D(32, 1, -30, -40, 5, 16),), {}),
    "groups, reversed": ((1, 9, 8, 2), (7, 5, 2, 3), (_D(7, 1, 9, 4, 3, 5, True), _D(5, 1, 9, 9, 4, 5)), {}),
    "groups of a depthwise": ((2, 9, 8, 6), (7, 5, 1, 6), (_D(7, 1, 9, 4, 3, 5), _D(5, 1, 9, 9, 4, 5)), {"groups": 6}),
    "groups of groups": ((2, 9, 8, 6), (7, 5, 2, 9), (_D(7, 1, 9, 4, 3, 5), _D(5, 1, 9, 9, 4, 5)), {"groups": 3}),
    "groups, batches": ((4, 9, 8, 3), (7, 5, 3, 4), (_D(7, 1, 9, 4, 3, 5), _D(5, 1, 9, 9, 4, 5)), {"batches": 2}),
    "groups, s8 to s32": ((1, 99, 61), (99, 61, 40), (_D(99, 1, 9, 4, 5, 32),), {"dtype": "s8", "result": "s32"}),
    "a zero for a tap": ((1, 3, 3, 2, 3, 2), (3, 3, 3, 3, 2, 3), (_D(3, 1, 1, 2, 1, 2),) * 4, {}),
    "strides as far as holes, volumes": ((1, 12, 12, 12, 2), (1, 1, 1, 2, 3), (_D(1, 63, 0, 0, 1, 64),) * 3, {}),
    "one phase": ((1, 2, 2, 4), (1, 1, 4, 5), (_D(1, 1, 2, 3, 1, 5), _D(1, 1, -3, -1, 1, 6)), {}),
    "one phase beside many": ((2, 3, 3, 4), (1, 4, 4, 5), (_D(1, 1, 2, 3, 1, 5), _D(4, 1, 2, 3, 1, 4)), {}),
    "phases in tiles": ((1, 9, 10, 16), (6, 6, 16, 16), (_D(6, 1, 3, 3, 1, 2),) * 2, {}),
    "three dimensions": ((1, 3, 4, 3, 2), (4, 3, 2, 2, 3), (_D(4, 1, 2, 2, 1, 2), _D(3), _D(2, 1, 1, 1, 1, 3)), {}),
    "depthwise": ((2, 5, 6, 9), (3, 3, 1, 9), (_D(3, 1, 2, 2, 1, 2),) * 2, {"groups": 9}),
    "depthwise in 16 phases": ((2, 3, 4, 6), (8, 8, 1, 6), (_D(8, 1, 5, 5, 1, 4),) * 2, {"groups": 6}),
    "depthwise in more phases": ((2, 3, 4, 6), (10, 10, 1, 6), (_D(10, 1, 5, 5, 1, 5),) * 2, {"groups": 6}),
    "depthwise with a window dilated": ((2, 9, 6), (3, 1, 6), (_D(3, 1, 2, 2, 2, 2),), {"groups": 6}),
    "groups": ((2, 5, 6, 6), (4, 4, 2, 9), (_D(4, 1, 2, 2, 1, 2),) * 2, {"groups": 3}),
    "groups of a few": ((2, 5, 6, 8), (4, 4, 2, 8), (_D(4, 1, 2, 2, 1, 2),) * 2, {"groups": 4}),
    "groups of one result": ((2, 5, 6, 8), (8, 4, 4, 2), (_D(8, 1, 2, 2, 1, 4), _D(4)), {"groups": 2}),
    "batch groups": ((4, 5, 6, 3), (4, 4, 3, 6), (_D(4, 1, 2, 2, 1, 2),) * 2, {"batches": 2}),
    "batch groups of one": ((5, 5, 6, 3), (4, 4, 3, 5), (_D(4, 1, 2, 2, 1, 2),) * 2, {"batches": 5}),
    "both dilated, strided, reversed": ((2, 6, 3), (5, 3, 4), (_D(5, 2, 3, 4, 3, 4, True),), {}),
    "f64": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "f64"}),
    "f16": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "f16"}),
    "bf16 to f32": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "bf16", "result": "f32"}),
    "s32": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "s32"}),
    "s64": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "s64"}),
    "s8": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "s8"}),
    "s8 to s32 in pairs": ((2, 20, 61), (6, 61, 40), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "s8", "result": "s32"}),
    "s8 to s32, long": ((2, 20, 160), (4, 160, 9), (_D(4, 1, 2, 2, 1, 2),), {"dtype": "s8", "result": "s32"}),
    "s8 to f32": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "s8", "result": "f32"}),
    "pred": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "pred"}),
    "c64": ((2, 5, 4), (6, 4, 5), (_D(6, 1, 4, 4, 1, 3),), {"dtype": "c64"}),
}  # fmt: skip
"""Image, kernel and window, by the name of the case."""


def holes(
    image: tuple[int, ...], kernel: tuple[int, ...], window: tuple[WindowDimension, ...], given: dict[str, Any]
) -> Module:
    b, rank, dtype = Builder("holes"), len(window), given.get("dtype", "f32")
    spatial = tuple(range(1, rank + 1))
    x, w = (b.parameter(i, Shape(dtype, dims)) for i, dims in enumerate((image, kernel)))
    n = ConvolutionDimensionNumbers(0, rank + 1, spatial, rank, rank + 1, tuple(range(rank)), 0, rank + 1, spatial)
    groups = {"feature_group_count": given.get("groups", 1), "batch_group_count": given.get("batches", 1)}
    result = given.get("result", dtype)
    return b.module(b.op("convolution", x, w, element_type=result, window=Window(window), dim_labels=n, **groups))


@pytest.mark.parametrize("case", HOLES)
def test_holes(case: str) -> None:
    """Of the image, which take no part: an infinite weight over one gives no NaN."""
    image, kernel, window, given = HOLES[case]
    rng, dtype = np.random.default_rng(len(case)), given.get("dtype", "f32")
    arguments = [numbers(rng, dtype, dims, special) for dims, special in ((image, 0.01), (kernel, 0.05))]
    module = holes(image, kernel, window, given)
    (expected,) = evaluate(module, *arguments)
    differential(module, *arguments, expected=[expected])
    options = xla_wasm.Options(target="relaxed-simd", threads=True)
    (actual,) = xla_wasm.load(xla_wasm.compile(module, options), threads=2).run(*arguments)
    assert_same(actual, expected)


def test_a_tap_that_a_phase_lacks_meets_no_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all phases in one convolution: neither beside those that others read, nor behind the image."""
    monkeypatch.setattr(canonical_phases, "_MOST", 1)
    for low, high in ((0, 1), (0, 4), (3, -3), (-2, 9)):
        module = holes((1, 6, 3), (3, 3, 2), (_D(3, 5, low, high, 1, 2),), {})
        image = np.full((1, 6, 3), np.inf, np.float32)
        differential(module, image, np.ones((3, 3, 2), np.float32), targets=BOTH)


@pytest.mark.parametrize("case", ["groups that stride", "more, as groups of phases", "groups of groups"])
def test_holes_as_in_xla(case: str) -> None:
    """Of whole numbers."""
    image, kernel, window, given = HOLES[case]
    x, w = (numbers(np.random.default_rng(i), "f32", dims) for i, dims in enumerate((image, kernel)))
    letters = "DHW"[-len(window) :]
    expected = lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.asarray(w),
        [side.stride for side in window],
        [(side.padding_low, side.padding_high) for side in window],
        [side.base_dilation for side in window],
        [side.window_dilation for side in window],
        (f"N{letters}C", f"{letters}IO", f"N{letters}C"),
        given.get("groups", 1),
    )
    assert_same(run(holes(image, kernel, window, given), x, w)[0], np.asarray(expected))


FEW: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[WindowDimension, ...], int, int]] = {
    "as many as may be": ((1, 8, 8, 8), (5, 5, 8, 8), (_D(5, 2, 2, 2, 1, 3),) * 2, 1, 9),
    "more": ((1, 8, 8, 8), (7, 7, 8, 8), (_D(7, 1, 9, 9, 3, 4),) * 2, 1, 8),
    "as many of phases alone": ((1, 8, 8, 8), (4, 4, 1, 8), (_D(4, 1, 2, 2, 1, 4),) * 2, 8, 16),
    "more phases than may be alone": ((1, 8, 8, 8), (5, 5, 1, 8), (_D(5, 1, 2, 2, 1, 5),) * 2, 8, 2),
    "many taps": ((1, 2, 2, 4), (64, 64, 4, 5), (_D(64, 1, 94, 94, 3, 64),) * 2, 1, 1),
    "three dimensions": ((1, 3, 3, 3, 4), (8, 8, 8, 4, 5), (_D(8, 1, 10, 10, 3, 8),) * 3, 1, 8),
    "five dimensions": ((1, 2, 2, 2, 2, 2, 3), (3, 3, 3, 3, 3, 3, 3), (_D(3, 1, 1, 1, 1, 2),) * 5, 1, 8),
    "seven": ((1, *(2,) * 7, 1), (*(3,) * 7, 1, 1), (_D(3, 1, 1, 1, 1, 2),) * 7, 1, 8),
    "strides nearly as far as holes": ((1, 24, 24, 4), (3, 3, 4, 5), (_D(3, 63, 1, 1, 1, 64),) * 2, 1, 4),
    "holes without end": ((1, 3, 4), (2, 4, 5), (_D(2, 1, 1, 1, 1, 10**6),), 1, 1),
}


@pytest.mark.parametrize("case", FEW)
def test_few_convolutions_are_left(case: str) -> None:
    """However many phases there are, so that the module is not long."""
    image, kernel, window, groups, most = FEW[case]
    traced = trace(holes(image, kernel, window, {"groups": groups}), xla_wasm.Options())
    made = sum(x.opcode == "convolution" for x in traced.module.entry.instructions)
    assert made == most
    assert len(traced.artifact.wasm) < 80_000


def test_a_hole_takes_no_part_in_padding_either() -> None:
    """Zeros are multiplied at the places of the padding where elements would go on; between them nothing is."""
    b = Builder("padding")
    x, w = b.parameter(0, Shape("f32", (1, 2, 1))), b.constant(Shape("f32", (2, 1, 1)), [np.inf, 1])
    n = ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
    module = b.module(b.op("convolution", x, w, window=Window((_D(2, 1, 3, 2, 1, 2),)), dim_labels=n))
    (actual,) = run(module, np.array([[[2], [3]]], np.float32))
    nan, inf = np.nan, np.inf
    # the places are -3 to 4: a pixel at 0 and 2, padding beside it at -2 and 4
    np.testing.assert_array_equal(actual.ravel(), [0, nan, 2, inf, 3, inf, 0])
    differential(module, np.array([[[2], [3]]], np.float32), targets=BOTH)
