"""Weights are in the memory of instances and nowhere else: what is set is not kept, and copies come from there."""

from __future__ import annotations

import gc
import json
import pickle
import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xla_wasm
from xla_wasm import ArgumentError, Options
from xla_wasm.artifact import Artifact
from xla_wasm.errors import ArtifactError, NonFiniteError
from xla_wasm.host.executor import Executable
from xla_wasm.jax import lower

ROWS = 40
X = np.linspace(-1, 1, ROWS * 24, dtype=np.float32).reshape(ROWS, 24)


def drawn(dtype: Any, *shape: int) -> np.ndarray:
    made = np.random.default_rng(1).standard_normal(shape) * 20
    return (made + 1j * made[::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else made.astype(dtype)


def product(w: jax.Array, x: jax.Array) -> jax.Array:
    if w.dtype.itemsize < 4:
        return x @ w.astype(jnp.float32)
    return x.astype(w.dtype) @ w


def loaded(w: np.ndarray, rows: int = ROWS, **options: Any) -> Executable:
    exe = xla_wasm.load(xla_wasm.compile(lower(product, w, X[:rows]), Options(weights="w", **options)))
    exe.set("w", w)
    return exe


def kept(exe: Executable) -> int:
    """The bytes of weights that the host itself holds, on the first device and for others."""
    weights = [*exe._first.weights.values(), *(w for later in exe._later.values() for w in later.values() if w)]
    return sum(len(w.data or b"") + sum(map(len, w.forms or ())) for w in weights)


@pytest.mark.parametrize("rows", [1, ROWS])
def test_what_is_set_is_not_kept(rows: int) -> None:
    w = drawn(np.float32, 24, 37)
    gone = weakref.ref(w)
    exe = loaded(w, rows)
    expected = product(w, X[:rows])
    del w
    gc.collect()
    assert gone() is None and kept(exe) == 0
    np.testing.assert_allclose(exe.run(X[:rows])[0], expected, rtol=1e-4, atol=1e-3)
    # Nor do later changes of an array reach the module.
    other = drawn(np.float32, 24, 37) + 1
    exe.set("w", other)
    expected = product(other, X[:rows])
    other[:] = 0
    np.testing.assert_allclose(exe.run(X[:rows])[0], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "dtype", [np.float32, ml_dtypes.bfloat16, np.float16, np.int8, np.uint8, np.int32, np.float64, np.complex64]
)
@pytest.mark.parametrize("shape", [(24, 37), (24, 300), (24, 1)])
@pytest.mark.parametrize("rows", [1, 4, ROWS])
def test_weights_are_read_back(dtype: Any, shape: tuple[int, int], rows: int) -> None:
    with jax.enable_x64(True):
        w = drawn(dtype, *shape)
        if np.dtype(dtype).kind == "f":
            w[3, 0], w[4, 0], w[5, 0] = np.nan, -0.0, np.inf
        exe = loaded(w, rows)
        before = exe.run(X[:rows])[0]
        assert exe.get("w").tobytes() == w.tobytes()
        np.testing.assert_array_equal(exe.run(X[:rows])[0], before)  # reading leaves it as it was


def test_a_form_that_does_not_tell_the_numbers_is_refused() -> None:
    exe = loaded(drawn(np.float32, 24, 37), weight_format="int8")
    before = exe.run(X)[0]
    with pytest.raises(ArgumentError, match="weight 'w' is kept in another form only"):
        exe.get("w")
    np.testing.assert_array_equal(exe.run(X)[0], before)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int16])
def test_a_weight_that_is_computed_with_is_refused(dtype: Any) -> None:
    """Such as half of all numbers tell: those that are not negative."""
    w = drawn(dtype, 24, 37)
    for function in (
        lambda w: jnp.exp(w.astype(jnp.float32)),
        lambda w: -w,
        jnp.abs,
        lambda w: jnp.maximum(w, 0),
        lambda w: jnp.where(w == 5, 4, w),
        lambda w: w.astype(jnp.float16),
    ):
        computing = lower(lambda w, x, f=function: x @ f(w).astype(jnp.float32), w, X)
        exe = xla_wasm.load(xla_wasm.compile(computing, Options(weights="w")))
        exe.set("w", w)
        before = exe.run(X)[0]
        with pytest.raises(ArgumentError, match="kept in another form"):
            exe.get("w")
        np.testing.assert_array_equal(exe.run(X)[0], before)


MOVES = (
    lambda w, x: x @ w[::-1],
    lambda w, x: (x[:, :11] @ w[:11], x[:, 11:] @ w[11:]),
    lambda w, x: jnp.tile(x, 2) @ jnp.concatenate([w, w]),
    lambda w, x: jnp.pad(x, ((0, 0), (0, 3)), constant_values=1) @ jnp.pad(w, ((0, 3), (0, 2)), constant_values=7),
    lambda w, x: (w[x[:, 0].astype(int) % 24], x @ w),
    lambda w, x: (x @ w, (x @ w) @ w.T, w.sum(0)),
    lambda w, x: jax.lax.scan(lambda y, _: (y, y @ w), x, None, length=2)[1],
)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("function", MOVES)
def test_weights_that_are_moved_are_read_back(function: Any, dtype: Any) -> None:
    """All their bits, also of NaN: bf16 keeps them in f32."""
    module = lower(lambda w, x: function(w.astype(jnp.float32), x), np.zeros((24, 37), dtype), X)
    exe = xla_wasm.load(xla_wasm.compile(module, Options(weights="w")))
    w = np.frombuffer(np.random.default_rng(0).bytes(24 * 37 * np.dtype(dtype).itemsize), dtype).reshape(24, 37)
    exe.set("w", w)
    assert exe.get("w").tobytes() == w.tobytes()


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "int4", "uint4", "float4_e2m1fn"])
@pytest.mark.parametrize("rows", [1, 4, ROWS])
def test_weights_below_16_bits_are_read_back(rows: int, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    w = np.frombuffer(np.random.default_rng(0).bytes(24 * 37), np.uint8) % 8 + (64 if "8" in name else 0)
    w = w.astype(np.uint8).view(dtype).reshape(24, 37)
    exe = loaded(w, rows)
    assert exe.get("w").tobytes() == w.tobytes()


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.uint32])
def test_weights_that_others_hold_are_read_back(dtype: Any) -> None:
    with jax.enable_x64(True):
        w = np.random.default_rng(0).integers(0, 2, (24, 37)).astype(dtype)
        exe = xla_wasm.load(
            xla_wasm.compile(lower(lambda w, x: x.astype(float) @ w.astype(float), w, X), Options(weights="w"))
        )
        exe.set("w", w)
        if dtype == np.int64:  # which f64 does not hold
            with pytest.raises(ArgumentError, match="kept in another form"):
                exe.get("w")
        else:
            assert exe.get("w").tobytes() == w.tobytes()


def test_other_instances_copy_weights() -> None:
    exe = loaded(drawn(np.float32, 24, 37), weight_format="int8")
    exe._first.pool._limit = 3
    (expected,) = exe.run(X)
    held = [exe._first.take(frozenset(), exe._budget()) for _ in range(2)]
    np.testing.assert_array_equal(exe.run(X)[0], expected)
    # While all are busy, what is set waits with the host; the next that is free takes it, then the others from there.
    held.append(exe._first.take(frozenset(), exe._budget()))
    exe.set("w", w := drawn(np.float32, 24, 37) * 2)
    assert kept(exe) == w.nbytes
    w[:] = 0
    for instance in held:
        exe._first.put_back(instance)
    (doubled,) = exe.run(X)
    assert kept(exe) == 0
    np.testing.assert_allclose(doubled, 2 * expected, rtol=1e-3, atol=1e-2)
    held = [exe._first.take(frozenset(), exe._budget()) for _ in range(2)]
    np.testing.assert_array_equal(exe.run(X)[0], doubled)
    for instance in held:
        exe._first.put_back(instance)


def test_weights_outlive_an_instance_that_failed() -> None:
    exe = loaded(drawn(np.float32, 24, 37), weight_format="int8")
    (expected,) = exe.run(X)
    for _ in range(2):
        instance = exe._first.take(frozenset(), exe._budget())
        gone = weakref.ref(instance)
        instance.sound = False
        exe._first.put_back(instance)
        del instance
        assert gone() is None
        np.testing.assert_array_equal(exe.run(X)[0], expected)
    assert kept(exe) == 0 and exe._first._has_home()


def test_a_weight_whose_packing_ended_early_is_unset() -> None:
    exe = loaded(drawn(np.float32, 24, 37))
    instance = exe._first.pool._idle[-1]
    instance._init = lambda index: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        exe.set("w", drawn(np.float32, 24, 37))
    with pytest.raises(ArgumentError, match="weight 'w' has not been set"):
        exe.run(X)
    exe.set("w", drawn(np.float32, 24, 37))
    exe.run(X)


@pytest.mark.parametrize("options", [{}, {"weight_format": "int8"}])
def test_clones_and_pickles_have_the_weights(options: dict[str, Any]) -> None:
    exe = loaded(drawn(np.float32, 24, 37), **options)
    (expected,) = exe.run(X)
    clone, copy = exe.clone(), pickle.loads(pickle.dumps(exe))
    exe.set("w", np.zeros((24, 37), np.float32))
    for other in (clone, copy, clone.clone()):
        assert kept(other) == 0
        np.testing.assert_array_equal(other.run(X)[0], expected)
    assert not exe.run(X)[0].any()


def test_devices_made_later_have_what_was_set_on_all() -> None:
    exe = loaded(drawn(np.float32, 24, 37), weight_format="int8")
    (expected,) = exe.run(X)
    exe.set("w", np.zeros((24, 37), np.float32), device=0)
    exe.set("w", drawn(np.float32, 24, 37) * 2, device=2)
    for each in (exe, exe.clone(), pickle.loads(pickle.dumps(exe))):
        (zero,), (first,), (doubled,) = each.run_replicated([[X]] * 3)
        assert not zero.any()
        np.testing.assert_array_equal(first, expected)
        np.testing.assert_allclose(doubled, 2 * expected, rtol=1e-3, atol=1e-2)


def test_threads_that_set_and_run_at_once() -> None:
    """Each run has the weights of one call of `set`, whatever instance it gets."""
    exe = loaded(np.ones((24, 37), np.float32), weight_format="int8")
    exe._first.pool._limit = 3
    ones = np.ones((ROWS, 24), np.float32)
    wrong: list[Any] = []

    def run() -> None:
        for _ in range(60):
            found = np.unique(np.round(exe.run(ones)[0] / 24, 3))
            if len(found) != 1 or found[0] not in range(1, 62):
                wrong.append(found)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for value in range(2, 62):
        exe.set("w", np.full((24, 37), value, np.float32))
    for thread in threads:
        thread.join()
    assert not wrong
    assert np.all(np.round(exe.run(ones)[0] / 24, 3) == 61)


@pytest.mark.parametrize(
    "value", [None, 0, "", [0], [[0]], [[-1, 4]], [[0, "4"]], [[0, 65536 * 100, 0]], [[0, 4]], [[0, 4, 2]]]
)
def test_places_that_cannot_be(value: Any) -> None:
    artifact = xla_wasm.compile(lower(product, drawn(np.float32, 24, 37), X), Options(weights="w"))
    manifest = json.loads(json.dumps(artifact.manifest))
    (init,) = manifest["inits"]
    assert init["kept"]
    init["kept"] = value
    with pytest.raises(ArtifactError, match=r"wrong at inits\[0\]\.kept"):
        xla_wasm.load(Artifact(artifact.wasm, manifest, artifact.weights))


def test_an_artifact_that_does_not_say_where_weights_are() -> None:
    """Of these the host keeps what was set, as it has to pack it anew."""
    w = drawn(np.float32, 24, 37)
    artifact = xla_wasm.compile(lower(product, w, X), Options(weights="w", weight_format="int8"))
    manifest = json.loads(json.dumps(artifact.manifest))
    del manifest["inits"][0]["kept"]
    exe = xla_wasm.load(Artifact(artifact.wasm, manifest, artifact.weights))
    exe.set("w", w)
    (expected,) = exe.run(X)
    assert kept(exe) == w.nbytes
    np.testing.assert_array_equal(exe.get("w"), w)
    for other in (exe.clone(), pickle.loads(pickle.dumps(exe))):
        np.testing.assert_array_equal(other.run(X)[0], expected)
    instance = exe._first.take(frozenset(), exe._budget())
    instance.sound = False
    exe._first.put_back(instance)
    np.testing.assert_array_equal(exe.run(X)[0], expected)


def test_an_artifact_that_does_not_say_where_weights_are_holds_no_array_of_the_caller() -> None:
    w = drawn(np.float32, 24, 37)
    artifact = xla_wasm.compile(lower(product, w, X), Options(weights="w"))
    manifest = json.loads(json.dumps(artifact.manifest))
    del manifest["inits"][0]["kept"]
    exe = xla_wasm.load(Artifact(artifact.wasm, manifest, artifact.weights))
    exe.set("w", given := w.copy())
    given[:] = 0
    np.testing.assert_array_equal(exe.get("w"), w)
    np.testing.assert_array_equal(exe.clone().run(X)[0], exe.run(X)[0])


def test_places_that_would_take_more_than_the_memory() -> None:
    artifact = xla_wasm.compile(lower(product, drawn(np.float32, 24, 37), X), Options(weights="w"))
    manifest = json.loads(json.dumps(artifact.manifest))
    manifest["inits"][0]["kept"] = [[0, 40000, 1]] * 3
    with pytest.raises(ArtifactError, match="weights would keep 120000 bytes"):
        xla_wasm.load(Artifact(artifact.wasm, manifest, artifact.weights))


def test_a_nan_is_told_without_the_weights() -> None:
    """The NaN is an error, also if nothing can find where it begins."""
    module = lower(lambda w, x: jnp.log(x @ w), drawn(np.float32, 24, 37), X)
    exe = xla_wasm.load(xla_wasm.compile(module, Options(weights="w", weight_format="int8")))
    exe.set("w", drawn(np.float32, 24, 37))
    with pytest.raises(NonFiniteError, match="cannot be searched for: weight 'w' is kept in another form"):
        exe.run(X, check_nan=True)
