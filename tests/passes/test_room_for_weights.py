"""Weights of 16 bits stay so in what products pack, and Winograd's transformed weights leave room for the rest."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xla_wasm
from xla_wasm import Options, UnsupportedError
from xla_wasm.command.words import in_words
from xla_wasm.jax import lower
from xla_wasm.passes import winograd

NARROW = (ml_dtypes.bfloat16, np.float16)


def drawn(dtype: Any, *shape: int, special: bool = False) -> np.ndarray:
    made = (np.random.default_rng(3).standard_normal(shape) / 4).astype(dtype)
    if special:
        made.reshape(-1)[[5, 17, 20]] = np.inf, np.nan, -np.inf
        made.reshape(-1)[[6, 18]] = 6e-8, -0.0
    return made


def kept(artifact: xla_wasm.Artifact) -> int:
    """The bytes of what the module has of its weights."""
    manifest = artifact.manifest
    raw = sum(p["bytes"] for p in manifest["parameters"] if p["kind"] == "weight" and p["init"] is None)
    return raw + sum(size for init in manifest["inits"] for _, size, _ in init.get("kept", ()))


def check(function: Any, w: np.ndarray, x: np.ndarray, **options: Any) -> xla_wasm.Artifact:
    artifact = xla_wasm.compile(lower(function, w, x), Options(weights="w", **options))
    exe = xla_wasm.load(artifact)
    exe.set("w", w)
    (found,) = exe.run(x)
    with np.errstate(all="ignore"):
        expected = np.asarray(jax.jit(function)(w, x))
    np.testing.assert_allclose(
        found.astype(np.float32), expected.astype(np.float32), rtol=2e-2 if x.dtype.itemsize == 2 else 1e-4, atol=2e-2
    )
    return artifact


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("rows", [2, 16, 17, 64])
@pytest.mark.parametrize("columns", [3, 40])
def test_products_pack_16_bits(columns: int, rows: int, dtype: Any) -> None:
    x = drawn(dtype if rows == 64 else np.float32, rows, 24)
    w = drawn(dtype, 24, columns, special=True)
    artifact = check(lambda w, x: x @ w.astype(x.dtype), w, x, target="simd128" if rows % 2 else "relaxed-simd")
    if rows > 16 and columns >= 40:
        assert kept(artifact) <= 1.25 * w.nbytes  # panels are padded


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("batch", [1, 3])
def test_batches_of_products(batch: int, dtype: Any) -> None:
    w, x = drawn(dtype, batch, 24, 40, special=True), drawn(np.float32, batch, 33, 24)
    check(lambda w, x: jnp.einsum("bmk,bkn->bmn", x, w.astype(x.dtype)), w, x)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_weight_that_is_looked_up_as_well(dtype: Any) -> None:
    w, x = drawn(dtype, 40, 24), drawn(np.float32, 33, 24)
    check(lambda w, x: (x @ w.T.astype(x.dtype))[:, :24] + w[jnp.arange(33)].astype(x.dtype), w, x)


@pytest.mark.parametrize("rows", [1, 16, 17])
@pytest.mark.parametrize("types", ["f16 bf16", "bf16 f16"])
@pytest.mark.parametrize("options", [{}, {"weight_format": "bf16"}])
def test_a_weight_in_the_other_type_of_16_bits_is_rounded(options: dict[str, Any], types: str, rows: int) -> None:
    """One factor in each row, so that the results are the numbers: 1 + 2**-9 has too many bits, 1e-9 and 1e9 are too
    small and too large."""
    own, other = types.split()
    dtypes = {"f16": jnp.float16, "bf16": jnp.bfloat16}
    numbers = np.array([1 + 2**-9, 1e-9, 1e9 if own == "bf16" else 6e4, 0.3], np.float32)
    w = np.resize(numbers, (24, 40)).astype(dtypes[own])
    x = np.eye(rows, 24, dtype=np.float32)
    if own == "f16" and options:
        options = {"weight_format": "f32"}

    def functions(w: jax.Array, x: jax.Array) -> Any:
        narrow = w.astype(dtypes[other])
        yield (x @ narrow.astype(jnp.float32)).astype(x.dtype)
        yield narrow[x[:, 0].astype(int)].astype(x.dtype)
        yield jax.lax.scan(lambda y, _: (y, y @ narrow.astype(jnp.float32)), x, None, length=2)[1]
        yield (x.astype(narrow.dtype) @ narrow).astype(x.dtype)

    module = lower(lambda w, x: tuple(functions(w, x)), w, x)
    exe = xla_wasm.load(xla_wasm.compile(module, Options(weights="w", **options)))
    exe.set("w", w)
    for found, expected in zip(exe.run(x), xla_wasm.load(xla_wasm.compile(module)).run(w, x)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", NARROW)
def test_moved_weights_keep_all_bits(dtype: Any) -> None:
    """NaN have payloads."""
    x = drawn(np.float32, 20, 24)
    w = np.frombuffer(np.random.default_rng(0).bytes(24 * 40 * 2), dtype).reshape(24, 40)
    module = lower(lambda w, x: (w, jnp.concatenate([w, w[::-1]]), w[3:5], x @ w.astype(jnp.float32)), w, x)
    exe = xla_wasm.load(xla_wasm.compile(module, Options(weights="w")))
    exe.set("w", w)
    for found, expected in zip(exe.run(x), (w, np.concatenate([w, w[::-1]]), w[3:5])):
        assert found.tobytes() == expected.tobytes()


def convolution(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x, w.astype(x.dtype), (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_convolutions_pack_16_bits(batch: int, size: int, dtype: Any) -> None:
    w, x = drawn(dtype, 32, 16, size, size, special=True), drawn(np.float32, batch, 16, 24, 24)
    artifact = check(convolution, w, x, winograd="off")
    assert kept(artifact) == w.nbytes


def test_int8_convolutions_pack_bytes() -> None:
    w, x = drawn(np.float32, 32, 16, 3, 3), drawn(np.float32, 1, 16, 24, 24)
    artifact = xla_wasm.compile(lower(convolution, w, x), Options(weights="w", weight_format="int8", winograd="off"))
    assert kept(artifact) <= 1.2 * w.size
    exe = xla_wasm.load(artifact)
    exe.set("w", w)
    np.testing.assert_allclose(exe.run(x)[0], convolution(w, x), atol=0.1)


def two(w: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    y = convolution(w["many"], x)  # results for each weight: 24 x 24
    return convolution(w["few"], y[:, :, ::2, ::2])  # 12 x 12


@pytest.mark.parametrize("dtype", [np.float32, *NARROW])
@pytest.mark.parametrize("batch", [1, 2])
def test_winograd_gives_way(batch: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the bound all take it; a byte below, the one gives way that gains the least."""
    w = {name: drawn(dtype, 16, 16, 3, 3) for name in ("few", "many")}
    x = drawn(np.float32, batch, 16, 24, 24)
    each = w["few"].nbytes
    copied = 0 if dtype == np.float32 else 16 * 16 * 9 * 4
    transformed = 16 * 16 * 16 * 4 + copied
    sizes = []
    for room in (2 * (each + transformed), 2 * (each + transformed) - 1, 2 * each + transformed - 1):
        monkeypatch.setattr(winograd, "ROOM", room)
        artifact = xla_wasm.compile(lower(two, w, x), Options(weights="w"))
        exe = xla_wasm.load(artifact)
        exe.set("w", w)
        np.testing.assert_allclose(exe.run(x)[0], two(w, x), rtol=1e-3, atol=1e-3)
        named = {i["name"]: sum(size for _, size, _ in i["kept"]) for i in artifact.manifest["inits"]}
        sizes.append((named["w.few"], named["w.many"]))
    taking, not_taking = sizes[0][1], sizes[2][1]
    assert taking > 2 * not_taking and not_taking == each
    assert sizes == [(taking, taking), (not_taking, taking), (not_taking, not_taking)]


def test_weights_that_each_run_is_given_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """These are transformed in every run, in memory that others use too."""
    w, x = drawn(np.float32, 16, 16, 3, 3), drawn(np.float32, 1, 16, 24, 24)
    as_always = xla_wasm.compile(lower(convolution, w, x)).wasm
    monkeypatch.setattr(winograd, "ROOM", 0)
    assert bytes(xla_wasm.compile(lower(convolution, w, x)).wasm) == bytes(as_always)


def test_what_would_need_less_memory() -> None:
    """The least change comes first, and others only where they give more."""
    w, x = jax.ShapeDtypeStruct((25000, 25000), np.float32), jax.ShapeDtypeStruct((64, 25000), np.float32)
    module = lower(lambda ws, x: (x @ ws[0]) @ ws[1], [w, w], x)
    refused = (
        r"needs 7.0 GiB.*runs\. It would need 4.7 GiB with weight_format='bf16', 3.5 GiB with weight_format='int8'"
    )
    with pytest.raises(UnsupportedError, match=refused) as raised:
        xla_wasm.compile(module, Options(weights="ws"))
    assert "winograd" not in str(raised.value)
    with pytest.raises(UnsupportedError, match="or in several runs$"):
        xla_wasm.compile(module)
    assert "with --weight-format int8" in in_words(str(raised.value))


def test_direct_convolutions_would_need_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "ROOM", 64 << 30)
    w, x = jax.ShapeDtypeStruct((8192, 8192, 3, 3), np.float32), jax.ShapeDtypeStruct((1, 8192, 16, 16), np.float32)
    module = lower(convolution, w, x)
    with pytest.raises(UnsupportedError, match=r"It would need .* with winograd='off'"):
        xla_wasm.compile(module, Options(weights="w"))
    with pytest.raises(
        UnsupportedError, match="or in several runs(\\. It would need .* with weight_format='bf16'.*)?$"
    ):
        xla_wasm.compile(module, Options(weights="w", winograd="off"))
