"""Weights in fewer bits. The passes write them as HLO, so two things are shown for random programs: that HLO gives what
the program does, as exactly as the format allows, and the artifact gives what that HLO does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support import seeds
from tests.support.command_line import Cli
from tests.support.differential import run
from xla_wasm import ArgumentError, Artifact, Options, compile, evaluate, load
from xla_wasm.compiler import stages, trace
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.passes import pipeline
from xla_wasm.passes.clone import clone
from xla_wasm.passes.given import Given

Array = Any
SIZES = (1, 2, 3, 7, 8, 16, 17, 32, 40, 64, 96)
FORMATS = ("f16", "bf16", "int8", "int4")
ERRORS = {"f16": 2e-3, "bf16": 1e-2, "int8": 2e-2, "int4": 0.15}
"""Of results, relative to the greatest that their sums could be."""


def adds_up(seed: int) -> bool:
    """Returns true if a program has no negative numbers: then its sums are as exact as their terms."""
    return seed // len(FORMATS) % 2 == 0


def program(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A function of x, indices i, and weights w and v, which it reads in one way or several."""
    rng = np.random.default_rng(seed)
    m, k, n = (int(rng.choice(SIZES)) for _ in range(3))
    batch = int(rng.choice([0, 0, 0, 2, 3]))
    form, use, place = (
        rng.choice(["plain", "slice", "turned", "heads", "rows", "split"]),
        int(rng.integers(7)),
        int(rng.integers(4)),
    )
    lead = (batch,) if batch else ()
    dims = {"turned": (*lead, n, k), "slice": (*lead, k + 3, n + 5), "heads": (k, *lead, n), "rows": (*lead, 2 * k, n)}
    shape = dims.get(form, (*lead, k, n))
    if form == "split":
        shape = (*lead, k * n)

    def normal(*dims: int) -> Array:
        made = (rng.standard_normal(dims) * 10.0 ** rng.integers(-2, 3)).astype(np.float32)
        return np.abs(made) if adds_up(seed) else made

    x, w, v = normal(*lead, m, k), normal(*shape), normal(n, 24)
    i = rng.integers(0, shape[0], 5).astype(np.int32)

    def part(w: Array) -> Array:
        if form == "turned":
            return jnp.swapaxes(w, -1, -2)
        if form == "slice":
            return w[..., 1 : k + 1, 2 : n + 2]
        if form == "heads" and batch:
            return jnp.swapaxes(w, 0, 1)
        if form == "split":
            return w.reshape(*lead, k, n)
        return w[..., ::2, :] if form == "rows" else w

    def fn(x: Array, i: Array, w: Array, v: Array) -> Any:
        y = jnp.matmul(x, part(w))
        if use == 0:
            return y, v.sum()
        if use == 1:
            return y + 1, w[i], v[i % n]
        if use == 2:
            return jnp.maximum(y, 0) @ v, w * 2
        if use == 3:
            return y @ v, jnp.matmul(x + 1, part(w)), lax.dynamic_slice_in_dim(w, i[0], 1, 0)
        if use == 4:
            return jnp.swapaxes(jnp.matmul(jnp.swapaxes(part(w), -1, -2), jnp.swapaxes(x, -1, -2)), -1, -2) + v.sum(
                0
            ).sum(), w[i].reshape(5, -1) @ w[i].reshape(5, -1).T
        if use == 5:
            return jnp.matmul(y, jnp.swapaxes(part(w), -1, -2)), y @ v + v[i[0] % n]
        return jnp.matmul(x, part(w) * 0.5) + jnp.matmul(x, part(w)), jnp.matmul(x, part(w)).sum(0) @ v

    if place == 0:
        return fn, [x, i, w, v]

    def step(_: Any, x: Array, w: Array) -> Array:
        y = jnp.matmul(x, part(w))
        return x / (1 + jnp.abs(x)) + y.mean() / (1 + jnp.abs(y).max())

    if place == 1:
        return lambda x, i, w, v: (lax.fori_loop(0, 3, lambda t, c: step(t, c, w), x), fn(x, i, w, v)), [x, i, w, v]
    if place == 2:
        return lambda x, i, w, v: lax.cond(x.sum() > 0, fn, lambda x, i, w, v: fn(x - 1, i, w, v), x, i, w, v), [
            x,
            i,
            w,
            v,
        ]
    stacked = np.stack([w, w[..., ::-1], w * 3])

    def layers(x: Array, i: Array, w: Array, v: Array) -> Any:
        return lax.scan(lambda c, w: (step(0, c, w), jnp.matmul(c, part(w)) @ v), x, w)[0], fn(x, i, w[1], v)

    return layers, [x, i, stacked, v]


def factors(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A function of x and i, and of weights w and v that it does nothing with but multiply by them, most along whole
    blocks of numbers."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.choice([1, 1, 2, 3, 5, 8, 16, 17, 33, 70])), int(rng.choice([1, 2, 3, 4, 7, 16, 24, 33, 100]))
    k = 32 * int(rng.integers(1, 6)) + (int(rng.choice([0, 0, 0, 0, 16])))
    batch, heads = int(rng.choice([0, 0, 0, 2, 3])), int(rng.choice([1, 2, 4]))
    form, use = rng.choice(["plain", "turned", "heads", "left", "summed heads"]), int(rng.integers(6))
    lead = (batch,) if batch and form in ("plain", "turned", "left") else ()

    def normal(*dims: int) -> Array:
        made = (rng.standard_normal(dims) * 10.0 ** rng.integers(-2, 3)).astype(np.float32)
        return np.abs(made) if adds_up(seed) else made

    x, i = normal(*lead, m, k), rng.integers(0, m, 5).astype(np.int32)
    shape = {
        "turned": (*lead, n, k),
        "heads": (k, heads, n),
        "left": (*lead, n, k),
        "summed heads": (heads, k // heads, n),
    }
    w = normal(*shape.get(form, (*lead, k, n)))
    width = heads * n if form == "heads" else n
    v = normal(width, 64)

    def times(x: Array, w: Array) -> Array:
        if form == "left":
            return jnp.swapaxes(jnp.matmul(w, jnp.swapaxes(x, -1, -2)), -1, -2)
        if form == "heads":
            return jnp.einsum("mk,khn->mhn", x, w).reshape(m, width)
        if form == "summed heads":
            return jnp.einsum("mhk,hkn->mn", x.reshape(m, heads, k // heads), w)
        return jnp.matmul(x, jnp.swapaxes(w, -1, -2) if form == "turned" else w)

    def fn(x: Array, i: Array, w: Array, v: Array) -> Any:
        y = times(x, w)
        if use == 0:
            return y, y @ v
        if use == 1:
            return jnp.maximum(y + y[..., ::-1], 0) @ v
        if use == 2:
            return times(x, w) + times(x * 2 + 1, w), (y @ v).sum(0)
        if use == 3:
            return ((y / (1 + jnp.abs(y).max(-1, keepdims=True))) @ v)[..., None, :] * 2
        if use == 4:
            return lax.fori_loop(0, 3, lambda t, c: c + t, (y @ v).sum()), times(x, w * 2.0)
        return jnp.where(y @ v > 0, 1.0, jnp.abs(y @ v)), y.T if not lead else y

    return fn, [x, i, w, v]


def stored(module: Module, weights: tuple[int, ...], format: str, relaxed: bool = False) -> Module:
    """Returns a copy of a module after the passes, with these weights in a format, for engines that have relaxed
    instructions or not."""
    made = clone(module)
    pipeline.run(made, Given(weight_formats=tuple((leaf, format) for leaf in weights), relaxed=relaxed))
    return made


def close(actual: Array, wanted: Array, error: float) -> None:
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(
        actual, wanted, rtol=error, atol=error * max(float(np.abs(wanted).max(initial=0)), 1e-30)
    )


def convolution(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A function of an image x, and of weights w and v, of convolutions of one of many kinds."""
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 1, 1, 2, 8]))
    inputs, outputs, size = (
        groups * int(rng.choice([1, 2, 4, 8])),
        groups * int(rng.choice([1, 3, 4, 16])),
        int(rng.choice([1, 3, 5])),
    )
    order = ("NCHW", "OIHW", "NCHW") if rng.integers(2) else ("NHWC", "HWIO", "NHWC")
    x = np.abs(rng.standard_normal((2, inputs, 9, 8) if order[0] == "NCHW" else (2, 9, 8, inputs))).astype(np.float32)
    shape = {"O": outputs, "I": inputs // groups, "H": size, "W": size}
    w = np.abs(rng.standard_normal([shape[d] for d in order[1]])).astype(np.float32)
    stride, padding = int(rng.integers(1, 3)), rng.choice(["SAME", "VALID"])

    def fn(x: Array, i: Array, w: Array, v: Array) -> Any:
        y = lax.conv_general_dilated(
            x, w, (stride, stride), padding, dimension_numbers=order, feature_group_count=groups
        )
        return jnp.maximum(y, 0.5) * v.sum() / v.size, w.mean()

    return fn, [x, np.zeros(1, np.int32), w, np.abs(rng.standard_normal((3, 4))).astype(np.float32)]


def check_format(module: Module, arrays: list[Array], format: str, is_near: bool) -> None:
    """Compares with the evaluator of what the format makes of weights 2 and 3, and that with the weights themselves, if
    it `is_near`."""
    for target, tune in (("simd128", "portable"), ("relaxed-simd", "v8")):
        expected = evaluate(stored(module, (2, 3), format, target == "relaxed-simd"), *arrays)
        for found, wanted in zip(expected, evaluate(module, *arrays), strict=True) if is_near else ():
            close(found, wanted, ERRORS[format])
        results = run(module, *arrays, target=target, tune=tune, weights=(2, 3), weight_format=format)
        for actual, wanted in zip(results, expected, strict=True):
            close(actual, wanted, 2e-5)


@pytest.mark.parametrize("seed", range(seeds.count(20, 200)))
@pytest.mark.parametrize("kind", [program, convolution, factors])
def test_random_programs(kind: Callable[[int], tuple[Callable[..., Any], list[Array]]], seed: int) -> None:
    fn, arrays = kind(seed)
    module = lower(fn, *arrays)
    check_format(
        module,
        arrays,
        "int4" if kind is factors else FORMATS[seed % len(FORMATS)],
        kind is convolution or adds_up(seed),
    )


@pytest.mark.parametrize("seed", range(seeds.count(4, 120)))
@pytest.mark.parametrize("kind", [program, convolution, factors])
def test_random_programs_with_weights_of_16_bits(
    kind: Callable[[int], tuple[Callable[..., Any], list[Array]]], seed: int
) -> None:
    fn, (x, i, w, v) = kind(seed)
    dtype: Any = (jnp.bfloat16, np.float16)[seed // 2 % 2]
    arrays = [x, i, np.asarray(w, dtype), np.asarray(v, dtype)]
    module = lower(lambda x, i, w, v: fn(x, i, w.astype(jnp.float32), v.astype(jnp.float32)), *arrays)
    check_format(
        module,
        arrays,
        "int4" if kind is factors else FORMATS[seed % len(FORMATS)],
        kind is convolution or adds_up(seed),
    )


def looked_up(w: Array, t: Array, x: Array) -> Array:
    """A table that also makes the logits."""
    return ((x + t[3]) @ w) @ t.T


def deep(w: Array, t: Array, x: Array) -> Array:
    """Layers in a loop."""
    return lax.scan(lambda c, w: (jnp.maximum(c @ w, 0) / 32, None), x, jnp.stack([w, w * 2, w + 1]))[0] + t[0]


def stacked(w: Array, t: Array, x: Array) -> Array:
    """Layers in a loop, which are one weight."""
    return lax.scan(lambda c, part: (c @ part / 32, None), x, w.reshape(2, 32, 32))[0] + t[0, :32]


@pytest.mark.parametrize(
    ("dtype", "format", "target"),
    [
        *((jnp.bfloat16, format, "simd128") for format in FORMATS),
        *((np.float16, format, "relaxed-simd") for format in ("bf16", "int8", "int4")),
        (jnp.bfloat16, "int4", "relaxed-simd"),
        (np.float16, "int4", "simd128"),
    ],
)
@pytest.mark.parametrize("rows", [1, 17])
def test_weights_of_16_bits(rows: int, dtype: Any, format: str, target: str) -> None:
    """Programs that compute in 16 bits, as models are published; beside f32 throughout. The format's own rounding comes
    on top of that of the program, and no other."""
    rng = np.random.default_rng(rows)
    for fn, dims in ((deep, (64, 64)) if rows == 1 else (looked_up, (64, 64)), (stacked, (64, 32))):
        width = 32 if fn is stacked else 64
        w, t, x = (np.abs(rng.standard_normal(d)).astype(dtype) for d in (dims, (50, 64), (rows, width)))
        module = lower(fn, w, t, x)
        exact = np.asarray(fn(*(jnp.asarray(a, jnp.float32) for a in (w, t, x))))
        (found,) = run(module, w, t, x, target=target, weights=("w", "t"), weight_format=format)
        assert found.dtype == dtype
        close(found.astype(np.float32), exact, 3 * ERRORS[format] if fn is not looked_up else ERRORS[format] + 0.02)


@pytest.mark.parametrize("format, bytes", [("bf16", 2), ("f16", 2), ("int8", 1), ("int4", 0.625)])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
def test_memory_of_weights_of_16_bits(dtype: Any, format: str, bytes: float) -> None:
    """They are held once, in their formats, and not as the program has them."""
    w = np.ones((64, 256), dtype)
    for fn in (lambda w, x: x @ w, lambda w, x: x.astype(jnp.float32) @ w.astype(jnp.float32)):
        plan = trace(lower(fn, w, np.ones((2, 64), dtype)), Options(weight_format={"w": format})).plan
        kept = sum(buffer.bytes for buffer in plan.buffers if buffer.kind == "persistent")
        assert w.size * bytes <= kept <= w.size * bytes + 4 * 256 + 64


def test_weights_of_16_bits_that_are_not_finite_are_not_lost() -> None:
    for dtype in (jnp.bfloat16, np.float16):
        for format in FORMATS:
            w, x = np.ones((64, 24), dtype), np.ones((3, 64), np.float32)
            w[7, 5] = np.inf
            (found,) = run(
                lower(lambda w, x: x @ w.astype(jnp.float32), w, x), w, x, weights=("w",), weight_format=format
            )
            assert not np.isfinite(found[:, 5]).any()
            np.testing.assert_allclose(np.delete(found, 5, 1), 64, rtol=1e-6)


def layer(w: Array, b: Array, x: Array) -> Array:
    return x @ w + b


def ran(fn: Callable[..., Any], weights: dict[str, Array], x: Array, format: Any, target: str = "simd128") -> Array:
    arguments = (*weights.values(), x)
    return run(lower(fn, *arguments), *arguments, target=target, weights=tuple(weights), weight_format=format)[0]


@pytest.mark.parametrize(("format", "target"), [*((format, "simd128") for format in FORMATS), ("int4", "relaxed-simd")])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_lost(format: str, target: str, value: float) -> None:
    """It shows in its own column, and in no other; f16 and int8 have a NaN there for an infinity."""
    w, x = np.ones((64, 24), np.float32), np.ones((3, 64), np.float32)
    w[7, 5] = value
    found = ran(layer, {"w": w, "b": np.zeros(24, np.float32)}, x, format, target)
    assert not np.isfinite(found[:, 5]).any() and (
        format != "bf16" or (np.isnan(value) or (found[:, 5] == value).all())
    )
    np.testing.assert_allclose(np.delete(found, 5, 1), 64, rtol=1e-6)


def test_numbers_beyond_f16_are_not_lost() -> None:
    w, x = np.full((16, 8), 65504, np.float32), np.ones((1, 16), np.float32)
    w[3, 2] = 65520
    found = ran(layer, {"w": w, "b": np.zeros(8, np.float32)}, x, "f16")
    assert np.isnan(found[:, 2]).all()
    np.testing.assert_array_equal(np.delete(found, 2, 1), 16 * 65504)


@pytest.mark.parametrize(
    ("format", "scale"),
    [(format, scale) for format in FORMATS for scale in (0.0, 1e-42, 1e-30, 1e4 if format == "f16" else 1e30)],
)
def test_weights_of_any_magnitude(format: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    w, x = (np.abs(rng.standard_normal(dims)).astype(np.float32) for dims in ((64, 40), (5, 64)))
    w *= np.float32(scale)
    found = ran(layer, {"w": w, "b": np.zeros(40, np.float32)}, x, format)
    # Numbers below the least of a format are gone.
    least = {"f16": 2.0**-24, "int8": 1e-30, "int4": 4e-30, "bf16": 2.0**-133}[format]
    np.testing.assert_allclose(found, x @ w, rtol=ERRORS[format], atol=64 * 4 * least)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e37, 1e-40, 0.0])
@pytest.mark.parametrize(("format", "target"), [("int8", "simd128"), ("int4", "simd128"), ("int4", "relaxed-simd")])
def test_rows_that_are_rounded(format: str, target: str, value: float) -> None:
    """A row of the other side has a scale of its own: a value in one row does not reach the others."""
    rng = np.random.default_rng(0)
    w = rng.integers(-8, 8, (32, 8)).astype(np.float32)
    w[0] = -8  # so that 4 bits have all of them
    x = rng.integers(1, 4, (4, 32)).astype(np.float32)
    x[2] *= 0
    x[2, 5] = value
    found = ran(layer, {"w": w, "b": np.zeros(8, np.float32)}, x, format, target)
    np.testing.assert_allclose(np.delete(found, 2, 0), np.delete(x, 2, 0) @ w, rtol=2e-2, atol=1)
    if np.isfinite(value):
        np.testing.assert_allclose(found[2], value * w[5], rtol=2e-2, atol=1e-30)
    else:
        assert np.isnan(found[2]).all()


def test_formats_of_names_and_patterns() -> None:
    """The last that suits a weight counts, and what is named here is a weight."""
    p = {"a": np.ones((8, 8), np.float32), "b": np.ones(8, np.float32), "c": np.ones((8, 8), np.float32)}
    module = lower(lambda p, x: (x @ p["a"] + p["b"]) @ p["c"], p, np.ones((1, 8), np.float32))
    text = stages(module, Options(weight_format={"p.*": "int8", "p.a": "bf16"}))["hlo"]
    assert "bf16[8,8] convert(p__a__" in text and "s8[8,8] convert(p__c__" in text and "convert(p__b__" not in text
    artifact = compile(module, Options(weight_format={"p.*": "int8"}))
    assert [leaf["kind"] for leaf in artifact.manifest["parameters"]] == ["weight"] * 3 + ["input"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_format": {"w": "int3"}}, "unknown weight_format 'int3': choose one of f32, f16, bf16, int8, int4"),
        ({"weight_format": {"q.*": "int8"}}, "weight_format: no parameter is named 'q.*'; there are w, i"),
        ({"weight_format": "int8"}, "weight_format is for weights, and Options.weights names none"),
        (
            {"weight_format": {"i": "int8"}},
            "weight_format: 'i' is s32[4]; only weights of f32, bf16, f16 are stored in other formats",
        ),
    ],
)
def test_messages(options: dict[str, Any], message: str) -> None:
    module = lower(lambda w, i: w[i], np.ones((4, 4), np.float32), np.ones(4, np.int32))
    with pytest.raises(ArgumentError) as raised:
        compile(module, Options(**options))
    assert str(raised.value) == message


@pytest.mark.parametrize(("format", "bytes"), [("bf16", 2), ("f16", 2), ("int8", 1)])
def test_memory(format: str, bytes: int) -> None:
    """Packed weights and a table that is looked up and multiplied by are held once, in their formats."""
    weights = {
        "table": np.ones((512, 64), np.float32),
        "w": np.ones((64, 256), np.float32),
        "v": np.ones((256, 64), np.float32),
    }

    def fn(table: Array, w: Array, v: Array, i: Array) -> Array:
        return jax.nn.relu(table[i] @ w) @ v @ table.T

    module = lower(fn, *weights.values(), np.zeros(1, np.int32))
    plan = trace(module, Options(weight_format=dict.fromkeys(weights, format))).plan
    kept = sum(buffer.bytes for buffer in plan.buffers if buffer.kind == "persistent")
    numbers = sum(w.size for w in weights.values())
    assert numbers * bytes <= kept <= numbers * bytes + 4 * (512 + 256 + 64) + 64
    assert not any(leaf in (view.buffer for view in step.arguments) for step in plan.entries for leaf in plan.weights)


@pytest.fixture
def command(xla_wasm: Cli) -> Cli:
    """Runs the command line where model.hlo is a small program."""
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((32, 16)).astype(np.float32), np.ones(16, np.float32)
    Path("model.hlo").write_text(lower(layer, w, b, np.ones((2, 32), np.float32)).to_text())
    return xla_wasm


def test_the_command_compiles(command: Cli) -> None:
    assert command("compile", "model.hlo", "--weight-format", "w=int8", "-o", "small.wasm")[0] == 0
    kinds = [leaf["kind"] for leaf in Artifact.open("small.wasm").manifest["parameters"]]
    assert kinds == ["weight", "input", "input"]


def test_the_command_takes_weights_of_16_bits(command: Cli) -> None:
    w, x = np.ones((64, 16), jnp.bfloat16), np.ones((2, 64), jnp.bfloat16)
    Path("bf16.hlo").write_text(lower(lambda w, x: x @ w, w, x).to_text())
    assert command("compile", "bf16.hlo", "--weight-format", "w=int4", "-o", "small.wasm")[::2] == (0, "")
    np.save("w.npy", w.astype(np.float32))
    code, out, err = command("run", "small.wasm", "--set", "w=w.npy", "--random-inputs", "--output", "y.npy")
    assert code == 0, (out, err)
    code, out, _ = command("check", "bf16.hlo", "--weight-format", "w=int8", "--tolerance", "0.05")
    assert code == 0 and "1 weight in w=int8" in out


def test_the_command_compares(command: Cli) -> None:
    code, out, _ = command("check", "model.hlo", "--weight-format", "?=int8")
    assert code == 0 and "greatest error" in out and "cosine" in out and "3 weights in ?=int8" in out
    code, out, _ = command("check", "model.hlo", "--weight", "w", "--weight-format", "bf16", "--tolerance", "1e-9")
    assert code == 1 and "differs (allowed 1.0e-09)" in out and "1 weight in bf16" in out
    assert command("check", "model.hlo", "--weight", "w", "--weight-format", "bf16", "--tolerance", "1e-2")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compile", "--weight-format", "w"], "unknown --weight-format 'w': choose one of f32, f16, bf16, int8, int4"),
        (["compile", "--weight-format", "q=int8"], "--weight-format: no parameter is named 'q'; there are w, b, x"),
        (
            ["check", "--weight-format", "int8"],
            "--weight-format is for weights: name them, as in NAME=int8, or with --weight",
        ),
        (["check", "--weight", "w"], "--weight says which weights --weight-format is about"),
        (["check", "--weight-format", "w=int8", "--draws", "2"], "one draw of inputs: leave --draws out"),
        (["check", "--weight-format", "w=int8", "--isolate"], "leave --isolate, --devices and --num-partitions out"),
    ],
)
def test_messages_of_the_command(words: list[str], message: str, command: Cli) -> None:
    code, _, err = command(words[0], "model.hlo", *words[1:])
    assert code == 2 and message in " ".join(err.split())


@pytest.mark.parametrize(
    ("x", "w", "batch"), [((40,), (3, 20), 0), ((3, 24), (3, 4, 20), 1), ((3, 40, 20), (3, 20), 1), ((50,), (2, 3), 0)]
)
def test_products_that_sum_nothing(x: tuple[int, ...], w: tuple[int, ...], batch: int) -> None:
    """Each number of the other side is rounded by a scale of its own, which is a reduction along no dimension."""
    rng = np.random.default_rng(0)
    given = [rng.integers(-127, 128, dims).astype(np.float32) for dims in (x, w)]
    given[1][..., 0] = 127
    dims = ((tuple(range(0)), tuple(range(0))), (tuple(range(batch)), tuple(range(batch))))
    module = lower(lambda x, w: lax.dot_general(x, w, dims), *given)
    (expected,) = evaluate(module, *given)
    for weights in (1, 0):
        for target in ("simd128", "relaxed-simd"):
            name = "xw"[weights]
            options = Options(target=target, weights=(name,), weight_format={name: "int8"})
            if given[weights].ndim < 2:
                continue
            exe = load(compile(module, options))
            exe.set(name, given[weights])
            (found,) = exe.run(given[1 - weights])
            np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2 * 127 * 127)
