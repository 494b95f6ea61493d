"""xla_wasm.jax.jit: what jax.jit takes and gives, and when it traces, compiles and reads from disk."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from flax import nnx

import xla_wasm
from tests.support.at_once import at_once
from tests.support.seeds import count
from xla_wasm import ArgumentError
from xla_wasm.jax import Jitted, Stats, jit, values

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder where artifacts are kept, a new one in each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "xla_wasm"


def same(got: Any, expected: Any, rtol: float = 1e-6) -> None:
    """The same structure, dtypes and values."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected)):
        if isinstance(b, (str, type(None))) or callable(b):
            assert a == b
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if jnp.issubdtype(b.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        if b.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(np.asarray(a, np.complex128), np.asarray(b, np.complex128), rtol=rtol, atol=1e-6)


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_dataclass
@dataclass
class State:
    count: Any
    mean: Any


STRUCTURES: dict[str, Any] = {
    "dict": {"b": X, "a": {"w": X[0]}},
    "tuple": (X, (X[0],), ()),
    "list": [X, [X[0], None]],
    "named tuple": Pair(X, Pair(X[0], None)),
    "dataclass": State(X, {"m": X[0]}),
    "ordered": OrderedDict(z=X, a=X[0]),
    "default": defaultdict(list, {"z": X}),
    "keys": {1: X, 0: X[0]},
    "nothing": {},
    "array": X,
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_go_in_and_come_out(name: str) -> None:
    given = STRUCTURES[name]
    f = lambda tree, x: (jax.tree.map(lambda a: a + x, tree), x)  # noqa: E731
    same(jit(f)(given, 1.0), jax.jit(f)(given, 1.0))


ARRAYS: dict[str, Any] = {
    "jax": jnp.asarray(X),
    "float64": X.astype(np.float64),
    "int64": np.array([1, -1, 2**31 - 1, -(2**31)], np.int64),
    "uint64": np.array([1, 2**32 - 1], np.uint64),
    "complex128": np.array([1 + 2j]),
    "huge": np.array([1e300, -1e300]),
    "numpy scalar": np.float64(0.1),
    "numpy int": np.int64(7),
    "numpy bool": np.bool_(True),
    "turned": X.T,
    "strided": np.arange(20, dtype=np.int16)[::-3],
    "empty": np.zeros((0, 3), np.float32),
    "bfloat16": np.asarray([1, 2.5], ml_dtypes.bfloat16),
    "float8": jnp.asarray([1, 2.5], jnp.float8_e4m3fn),
    "int4": jnp.asarray([1, -3], jnp.int4),
    "bool": True,
    "int": 3,
    "negative": -3,
    "float": 0.1,
    "complex": 1 + 0.5j,
    "weak": jax.jit(lambda: 2.0)(),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("x64", [False, True])
def test_arrays_are_converted_as_jax_converts_them(name: str, x64: bool) -> None:
    """With a weak type beside strong ones, the results tell which it was."""
    x = ARRAYS[name]

    def f(x):
        return (
            (x, x + jnp.ones((), jnp.bfloat16), x * jnp.ones((), jnp.int8)) if name not in ("float8", "int4") else (x,)
        )

    with jax.enable_x64(x64):
        same(jit(f)(x), jax.jit(f)(x))


@pytest.mark.parametrize("x", [np.array([1, 2**40]), np.uint64(2**32), np.int64(-(2**31) - 1), 2**31], ids=str)
def test_integers_that_do_not_fit(x: Any) -> None:
    """JAX drops the high bits of arrays without a word."""
    with pytest.raises(
        ArgumentError, match=r"path is x\. .* value 2147483648|argument 'x' is [su]32, and -?\d+ in what is given"
    ):
        jit(lambda x: x)(x)
    with jax.enable_x64(True):
        assert np.array_equal(jit(lambda x: x)(x), np.asarray(x))


def test_arrays_of_the_other_byte_order() -> None:
    f = jit(lambda x: x + 1)
    same(f(X.astype(">f8")), X + 1)
    same(f(X.astype(">f4")), X + 1)


class Foreign:
    """An array of a library that knows dlpack and nothing else."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize(
    "array", [X, X.astype(np.float64), np.array([2**30, 3]), jnp.asarray([1, 2], jnp.bfloat16)], ids=str
)
def test_dlpack(array: Any) -> None:
    f = jit(lambda x: x * 2)
    same(f({"a": Foreign(array)}["a"]), jax.jit(lambda x: x * 2)(array))
    assert f.lower(Foreign(array)).entry.parameters[0].shape.dimensions == array.shape


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_random_keys(impl: str) -> None:
    def f(key: Any, keys: Any) -> Any:
        left, right = jax.random.split(key)
        return left, {"keys": jax.random.split(right, (2, 3))}, jax.random.normal(keys[1], (4,))

    key = jax.random.key(7, impl=impl)
    same(jit(f)(key, jax.random.split(key, 3)), jax.jit(f)(key, jax.random.split(key, 3)), rtol=1e-5)


def test_float0() -> None:
    f = jax.grad(lambda x: x * 2.0, allow_int=True)
    same(jit(f)(3), jax.jit(f)(3))


def test_results_of_jax() -> None:
    f = jit(lambda x, key: {"y": x + 1, "key": key}, results="jax")
    got = f(X, jax.random.key(0))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(got))
    assert isinstance(jit(lambda x: x)(X), np.ndarray)


# --- static values
# ------------------------------------------------------------------------------------------------------


def test_static_arguments() -> None:
    def scaled(x: Any, n: Any, mode: str = "mul") -> Any:
        return x * n if mode == "mul" else x + n

    last = jit(scaled, static_argnums=(1, -1))  # by name JAX does not take it either
    for f in (
        last,
        jit(scaled, static_argnums=(1, 2)),
        jit(scaled, static_argnames=("n", "mode")),
        jit(jax.jit(scaled, static_argnums=(1, 2))),
        jit(static_argnums=(1, 2))(scaled),
    ):
        calls: list[Any] = [((X, 3), {}), ((X, 2), {}), ((X, 3, "add"), {})]
        for args, named in (*calls, *([((X,), {"n": 4})] if f is not last else [])):
            same(f(*args, **named), np.asarray(scaled(*args, **named), np.float32))


def test_static_values_that_are_equal_and_not_the_same() -> None:
    """0.0 == -0.0 and 1 == 1.0 == True, and programs differ."""
    f = jit(lambda x, n: (x * 0 + 1) / jnp.float32(n) if isinstance(n, float) else x + n, static_argnums=1)
    assert f(np.float32(1), 0.0) == np.inf and f(np.float32(1), -0.0) == -np.inf
    dtypes = [jit(lambda n: jnp.asarray(n), static_argnums=0)(n).dtype for n in (1, 1.0, True)]
    assert dtypes == [np.int32, np.float32, np.bool_]
    g = jit(lambda x, ns: x + jnp.asarray(ns[0]).dtype.itemsize, static_argnums=1)
    assert [g(0, (1,)), g(0, (True,)), g(0, (1.0,)), g(0, (1 + 0j,))] == [4, 1, 4, 8]


def test_what_is_no_array_is_static() -> None:
    f = jit(lambda options, x: options["act"](x) * 2 if options["name"] == "double" else options["act"](x))
    same(f({"act": jnp.sin, "name": "double"}, X), jnp.sin(X) * 2)
    same(f({"act": jnp.cos, "name": "once"}, X), jnp.cos(X))
    assert f.stats().traces == 2
    with pytest.raises(ArgumentError, match="must be hashable"):
        f({"act": jnp.sin, "name": {1, 2}}, X)


# --- libraries
# ----------------------------------------------------------------------------------------------------------


def test_flax_linen() -> None:
    model = nn.Sequential((nn.Dense(4), nn.relu, nn.Dense(2)))
    variables = model.init(jax.random.key(0), X)
    same(jit(model.apply)(variables, X), model.apply(variables, X), rtol=1e-5)
    same(
        jit(lambda model, variables, x: model.apply(variables, x))(model, variables, X),
        model.apply(variables, X),
        rtol=1e-5,
    )


def test_flax_nnx() -> None:
    model = nnx.Sequential(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(4, 2, rngs=nnx.Rngs(1)))
    same(jit(model)(X), model(X), rtol=1e-5)
    same(jit(lambda model, x: model(x))(model, X), model(X), rtol=1e-5)
    graph, state = nnx.split(model)
    same(jit(lambda state, x: nnx.merge(graph, state)(x))(state, X), model(X), rtol=1e-5)


@pytest.mark.parametrize("given", ["model", "state", "dict"])
def test_an_executable_takes_the_weights_of_flax_nnx(given: str) -> None:
    model = nnx.Sequential(
        nnx.Linear(3, 4, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(4, 2, dtype=jnp.float32, rngs=nnx.Rngs(1))
    )
    exe = xla_wasm.load(jit(lambda model, x: model(x), weights="model").artifact(model, X))
    linear = [
        {"kernel": {"value": model.layers[i].kernel[...]}, "bias": {"value": model.layers[i].bias[...]}} for i in (0, 2)
    ]
    exe.set(
        "model", {"model": model, "state": nnx.state(model), "dict": {"layers": {0: linear[0], 2: linear[1]}}}[given]
    )
    same(exe.call(X), model(X), rtol=1e-5)


def test_equinox() -> None:
    model = eqx.nn.Sequential(
        [eqx.nn.Linear(3, 4, key=jax.random.key(0)), eqx.nn.Lambda(jnp.tanh), eqx.nn.Dropout(0.5, inference=True)]
    )
    for f in (
        jit(model),
        partial(jit(lambda model, x: model(x)), model),
        partial(jit(eqx.filter_jit(lambda m, x: m(x))), model),
    ):
        same(f(X[0]), model(X[0]), rtol=1e-5)

    def step(model: Any, x: Any) -> Any:
        loss, grads = eqx.filter_value_and_grad(lambda model: jnp.sum(model(x) ** 2))(model)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), loss

    f, g = jit(step), eqx.filter_jit(step)
    mine = theirs = model
    for _ in range(3):
        (mine, a), (theirs, b) = f(mine, X[0]), g(theirs, X[0])
        np.testing.assert_allclose(a, b, rtol=1e-5)
    same(eqx.filter(mine, eqx.is_array), eqx.filter(theirs, eqx.is_array), rtol=1e-5)
    assert f.stats().traces == 1
    on = jit(lambda model, x, key: model(x, key=key))
    dropout = eqx.nn.Dropout(0.5)
    for inference in (True, False):  # a leaf that Python looks at
        model = eqx.nn.inference_mode(dropout, inference)
        same(on(model, X, jax.random.key(0)), model(X, key=jax.random.key(0)))


def test_transformations_trace_the_function_itself() -> None:
    f = jit(lambda x: jnp.sin(x) ** 2)
    same(jax.grad(lambda x: f(x).sum())(X), jax.grad(lambda x: (jnp.sin(x) ** 2).sum())(X))
    same(jax.vmap(f)(X), jnp.sin(X) ** 2)
    same(jax.jit(f)(X), jnp.sin(X) ** 2)
    assert f.stats() == Stats(0, 0, 0, 0)
    same(jit(jax.grad(lambda x: f(x).sum()))(X), 2 * jnp.sin(X) * jnp.cos(X))


def test_methods_and_decorators() -> None:
    class Model:
        def __init__(self, w: Any) -> None:
            self.w = w

        @partial(jit, static_argnums=0)
        def __call__(self, x: Any) -> Any:
            """Doc."""
            return x * self.w

    two, three = Model(2), Model(3)
    same(two(X), X * 2)
    same(three(X), X * 3)
    assert Model.__call__.__doc__ == "Doc." and Model.__call__.stats().runs == 2  # type: ignore[attr-defined]
    assert two.__call__.stats().traces == 2  # type: ignore[attr-defined]


def test_python_functions_of_a_program() -> None:
    """They belong to a trace: two functions that trace to the same program are two."""
    for factor in (2, 3):
        f = jit(
            lambda x, factor=factor: jax.pure_callback(
                lambda v: np.asarray(v) * factor, jax.ShapeDtypeStruct((2, 3), np.float32), x
            )
        )
        same(f(X), X * factor)
        assert f.stats().compiles == 1


# --- weights and states
# ---------------------------------------------------------------------------------------------------


def model(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["dense"]["w"]) @ params["out"]


def params(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return {"dense": {"w": rng.standard_normal((3, 8), np.float32)}, "out": rng.standard_normal((8, 2), np.float32)}


@pytest.mark.parametrize("weights", ["params", ["params.*"], ["params.dense", "params.out"], ["*.w", "params.out"]])
def test_weights_stay_until_they_change(weights: Any) -> None:
    f = jit(model, weights=weights)
    assert {p["kind"] for p in f.artifact(params(0), X).manifest["parameters"]} == {"weight", "input"}
    one, two = params(0), jax.tree.map(jnp.asarray, params(1))
    for p in (one, one, two, two, one, two):
        same(f(p, X), jax.jit(model)(p, X), rtol=1e-5)
    one["out"][:] = 0  # in place: the object is the same
    assert not f(one, X).any()
    one["out"][0] = -0.0
    one["dense"]["w"][:] = 1
    same(f(one, X), jax.jit(model)(one, X))
    with pytest.raises(ArgumentError, match="no parameter named 'nothing'"):
        jit(model, weights="nothing")(one, X)


def test_weights_that_nobody_can_write_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not compared; a view of memory that somebody writes to is."""
    compared: list[Any] = []
    same_bits = values._same_bits
    monkeypatch.setattr(values, "_same_bits", lambda a, b: compared.append(a) or same_bits(a, b))
    f = jit(lambda w, x: x @ w, weights="w")
    own, held = np.ones((3, 2), np.float32), np.ones((3, 2), np.float32)
    view = held.view()
    own.flags.writeable = view.flags.writeable = False
    for w in (own, np.frombuffer(own.tobytes(), np.float32).reshape(3, 2), own.astype(np.float64)):
        w.flags.writeable = False
        f(w, X)
        compared.clear()
        same(f(w, X), X @ own)
        assert not compared
    same(f(own.copy(), X), X @ own)
    same(f(view, X), X @ own)
    held *= 3
    same(f(view, X), 3 * X @ own)
    assert compared


def test_weights_of_several_shapes_and_threads() -> None:
    """A call with other weights on another thread has no part in this one's result."""
    f, g = jit(model, weights="params"), jax.jit(model)
    many = [jax.tree.map(jnp.asarray, params(i)) for i in range(4)]
    xs = [np.full((rows, 3), rows, np.float32) for rows in (1, 2)]
    expected = {(i, rows): np.asarray(g(many[i], xs[rows])) for i in range(4) for rows in range(2)}

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            i, rows = rng.integers(4), rng.integers(2)
            np.testing.assert_allclose(f(many[i], xs[rows]), expected[i, rows], rtol=1e-5, atol=1e-8)

    at_once(work, range(4))
    assert f.stats() == Stats(2, 2, 0, 80)


def adam_step(params: Any, opt: Any, key: Any, x: Any) -> Any:
    key, own = jax.random.split(key)
    loss, grads = jax.value_and_grad(lambda p: jnp.mean(model(p, x + 0.1 * jax.random.normal(own, x.shape)) ** 2))(
        params
    )
    updates, opt = optax.adam(1e-2).update(grads, opt)
    return optax.apply_updates(params, updates), opt, key, loss


def test_states_stay_in_the_module() -> None:
    f = jit(adam_step, state={"params": "0", "opt": "1", "key": "2"})
    g = jax.jit(adam_step)
    start = (params(0), optax.adam(1e-2).init(params(0)), jax.random.key(5))
    mine = theirs = start
    for _ in range(5):
        *mine, a = f(*mine, X)
        *theirs, b = g(*theirs, X)
        np.testing.assert_allclose(a, b, rtol=1e-4)
    assert f.stats() == Stats(1, 1, 0, 5)
    weight = mine[0]["dense"]["w"]
    assert (
        weight.shape == (3, 8)
        and "in the module" in repr(weight)
        and len(weight) == 3
        and weight.ndim == 2
        and weight.size == 24
    )
    # Five steps of a hundredth each: where a gradient is next to nothing, Adam makes much of how it was rounded.
    np.testing.assert_allclose(weight, theirs[0]["dense"]["w"], rtol=1e-4, atol=5e-4)
    same(mine[2].value, theirs[2])
    *after, _ = f(*mine, X)
    assert weight.is_deleted() and "given to a later call" in repr(weight)
    with pytest.raises(
        ArgumentError, match=r"'params.dense.w' was given to a later call, and lives on in what that call returned"
    ):
        np.asarray(weight)
    with pytest.raises(ArgumentError, match="was given to a later call"):
        f(*mine, X)
    # The module's own state has not been lost by that.
    *theirs, _ = g(*theirs, X)
    np.testing.assert_allclose(after[0]["out"], theirs[0]["out"], rtol=1e-3, atol=5e-4)


def test_a_state_that_nobody_gives_back_is_still_there() -> None:
    f = jit(lambda total, x: (total + x, total * 2), state={"total": "0"})
    first, _ = f(1.0, 10.0)
    second, _ = f(np.float32(2), 10.0)  # another start: what came of the first is no argument of this
    assert (float(first), float(second)) == (11, 12)
    third, double = f(first, 1.0)
    assert (float(third), float(double), first.is_deleted(), int(second)) == (12, 22, True, 12)


def counting(total: Any, x: Any, y: Any) -> Any:
    return total + x.sum(), total * 2 + y


@pytest.mark.parametrize("seed", range(count(10, 100)))
def test_random_calls_with_states(seed: int) -> None:
    """Values of states that are given, kept, given twice, given to a program of another shape or as another argument;
    as pure functions."""
    rng = np.random.default_rng(seed)
    f = jit(counting, state={"total": "0"})
    known: list[tuple[Any, float]] = [(np.float32(1), 1.0)]
    for _ in range(30):
        (total, value), (y, other) = (known[rng.integers(len(known))] for _ in range(2))
        x = rng.integers(0, 9, rng.integers(1, 4)).astype(np.float32)
        new, result = f(total, x, y)
        expected = value + x.sum()
        assert result == value * 2 + other
        if not isinstance(total, (np.ndarray, np.generic)):
            assert total.is_deleted()
            known = [(a, v) for a, v in known if a is not total]
        known.append((new, float(expected)))
        if rng.random() < 0.3:
            known.append((np.float32(rng.integers(9)),) * 2)
        if rng.random() < 0.3:
            for a, v in known:
                assert float(a) == v
        if rng.random() < 0.2:
            known = [*known[-2:], (np.float32(3), 3.0)]


def test_threads_that_exchange_states() -> None:
    """Each gives the state of one program to the other, over and over."""
    f = jit(lambda total, x: (total + x.sum(), x), state={"total": "0"})
    shapes = np.ones(2, np.float32), np.ones(3, np.float32)
    totals: list[float] = []

    def work(first: int) -> None:
        total: Any = 0.0
        for i in range(100):
            total, _ = f(total, shapes[(first + i) % 2])
        totals.append(float(total))

    at_once(work, range(2))
    assert totals == [250, 250]


def test_a_run_that_fails_takes_its_states_along() -> None:
    def f(total: Any, x: Any) -> Any:
        return total + eqx.error_if(x, x < 0, "negative"), x

    step = jit(f, state={"total": "0"})
    total, _ = step(1.0, 2.0)
    with pytest.raises(xla_wasm.RunError, match="negative"):
        step(total, -1.0)
    assert total.is_deleted()
    assert float(step(5.0, 1.0)[0]) == 6


# --- tracing, compiling, disk
# ---------------------------------------------------------------------------------------------


def test_what_is_traced_and_compiled_again() -> None:
    f = jit(lambda x: x * 2)
    for x in (X, X + 1, jnp.asarray(X), X.astype(np.float64)):
        f(x)
    assert f.stats() == Stats(2, 1, 0, 4), "float64 is another argument, and the same program"
    f(X[0])
    f(2.0)
    f(np.float32(2))  # a strong type
    assert f.stats().traces == 5
    with jax.enable_x64(True):
        assert f(X.astype(np.float64)).dtype == np.float64
    assert f(X.astype(np.float64)).dtype == np.float32
    with jax.default_matmul_precision("highest"):
        f(X)
    assert f.stats().traces == 7
    assert repr(f).startswith("<xla_wasm.jax.jit of ") and "traces 7, compiles" in repr(f)


def test_changed_functions_and_options_are_other_programs(folder: Path) -> None:
    for f in (lambda x: x + 1, lambda x: x + 2, lambda x: x + 1):
        same(jit(f)(X), np.asarray(f(X)))
    assert len([*folder.iterdir()]) == 2
    jit(lambda x: x + 1, target="relaxed-simd")(X)
    jit(lambda x: x + 1, tune="v8")(X)
    assert len([*folder.iterdir()]) == 4
    big = np.zeros(5000, np.float32)
    for value in (1, 2):
        big[4321] = value
        constant = big.copy()
        same(jit(lambda x, c=constant: x + c)(1.0), 1 + big)


def test_lower_artifact_and_save(tmp_path: Path) -> None:
    f = jit(lambda params, x: {"y": x @ params["w"]}, weights="params")
    shapes = {"w": jax.ShapeDtypeStruct((3, 2), np.float32)}, jax.ShapeDtypeStruct((2, 3), np.float32)
    artifact = f.artifact(*shapes)
    path = f.save(tmp_path / "m.wasm", *shapes)
    assert [p.shape.dimensions for p in f.lower(*shapes).entry.parameters] == [(3, 2), (2, 3)]
    exe = xla_wasm.load(path)
    exe.set("params.w", np.ones((3, 2), np.float32))
    np.testing.assert_array_equal(exe.run(X)[0], f({"w": np.ones((3, 2), np.float32)}, X)["y"])
    assert artifact.is_whole() and f.stats() == Stats(2, 1, 0, 1)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "no function": (lambda: jit(3), "jit takes a function, not int"),
    "a stage": (lambda: jit(jax.jit(jnp.sin).lower(X)), "a jax.stages.Lowered is traced already"),
    "unknown option": (lambda: jit(jnp.sin, speed=3), "jit has no option 'speed': it has tune, weight_format"),
    "donated": (
        lambda: jit(jnp.sin, donate_argnums=0),
        r"jit has no option 'donate_argnums': .* state=\{'params': '0'\}",
    ),
    "sidecar": (lambda: jit(jnp.sin, sidecar=True), "jit has no option 'sidecar': compile it yourself"),
    "results": (lambda: jit(jnp.sin, results="torch"), "results must be 'numpy' or 'jax', got 'torch'"),
    "a large number": (lambda: jit(lambda n: n)(2**40), "whose argument path is n"),
    "a large number later": (
        lambda: [f(n) for f in [jit(lambda n: n)] for n in (1, 2**40)],
        "argument 'n': .*(too large|out of bounds)",
    ),
    "a shape": (
        lambda: jit(lambda x: x)(jax.ShapeDtypeStruct((2,), np.float32)),
        "argument 'x' must be an array, not ShapeDtypeStruct",
    ),
    "unhashable": (lambda: jit(lambda x, n: x, static_argnums=1)(X, []), "<lambda>: what is static must be hashable"),
    "the target": (lambda: jit(jnp.sin, target="wasm"), "unknown target 'wasm'"),
    "weights and state": (
        lambda: jit(lambda w: w, weights="w", state={"w": "result"})(X),
        "named both as a weight and as state",
    ),
    "a partner": (
        lambda: jit(lambda p: ({"a": p["a"]}, p["b"]), state={"p": "0"})({"a": X, "b": X}),
        "state 'p': 'p.b' has no partner, there is no result named '0.b'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_errors(case: str) -> None:
    call, message = CASES[case]
    with pytest.raises((ArgumentError, OverflowError), match=message):
        call()


def test_limits_are_those_of_load() -> None:
    f = jit(lambda n: jax.lax.while_loop(lambda i: i < n, lambda i: i + 1, 0), timeout=0.2)
    assert f(3) == 3
    with pytest.raises(xla_wasm.LimitError):
        jit(lambda n: jax.lax.while_loop(lambda i: i != n, lambda i: (i * 7 + 1) % 1000, 0), timeout=0.2)(-3)


def test_threads_trace_once() -> None:
    f = jit(lambda x: jnp.tanh(x @ x.T))
    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(lambda i: f(X + i), range(16))]
    assert f.stats() == Stats(1, 1, 0, 16)
    for i, y in enumerate(results):
        np.testing.assert_allclose(y, np.tanh((X + i) @ (X + i).T), rtol=1e-5)


def test_jitted_is_what_jit_gives() -> None:
    f = jit(jnp.sin)
    assert (
        isinstance(f, Jitted) and f.__name__ == "sin" and isinstance(jit(f), Jitted) and jit(f).__wrapped__ is jnp.sin
    )


# --- at random
# ------------------------------------------------------------------------------------------------------------


def random_leaf(rng: np.random.Generator) -> Any:
    """An array or a number, of any of the kinds that decide about a program."""
    value = rng.integers(-4, 5, [3] * rng.choice(3, p=[0.4, 0.4, 0.2]))
    kinds: list[Callable[[Any], Any]] = [
        *(
            lambda v, d=d: v.astype(d)
            for d in (np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8, np.bool_, np.float16)
        ),
        *(lambda v, d=d: jnp.asarray(v, d) for d in (np.float32, np.int32, jnp.bfloat16)),
    ]
    if value.ndim == 0:
        kinds += [
            int,
            float,
            bool,
            lambda v: jax.jit(lambda: float(v))(),
            lambda v: np.float64(v),
            lambda v: np.int64(v),
        ]
    return kinds[rng.integers(len(kinds))](value)


def random_tree(rng: np.random.Generator, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.3:
        return random_leaf(rng)
    children = [random_tree(rng, depth - 1) for _ in range(rng.integers(0, 4))]
    kind = rng.integers(6)
    if kind == 0:
        return {f"k{i}": child for i, child in enumerate(children)}
    if kind == 1:
        return [None, *children]
    if kind == 2:
        return Pair(children, None)
    if kind == 3:
        return State({"c": children}, 2)
    return tuple(children)


def combined(trees: Any, *, factor: Any) -> Any:
    """All leaves with each other, so that types show: each with its neighbour, in the structure that they came in."""
    leaves, tree = jax.tree.flatten(trees)
    return tree.unflatten(
        [a + b.sum() * factor for a, b in zip(map(jnp.asarray, leaves), map(jnp.asarray, leaves[1:] + leaves[:1]))]
    ), leaves[:1]


def weakly(trees: Any, *, factor: Any) -> Any:
    """The same without making arrays of numbers, so that weak types stay so."""
    leaves, tree = jax.tree.flatten(trees)
    return tree.unflatten([(a + jnp.ones((), jnp.float16)) * factor for a in leaves])


@pytest.mark.parametrize("seed", range(count(15, 300)))
def test_random_calls(seed: int) -> None:
    """One function is called again and again, as jax.jit is."""
    rng = np.random.default_rng(seed)
    pairs = [(jit(f), jax.jit(f)) for f in (combined, weakly)]
    trees = [random_tree(rng, 2) for _ in range(3)]
    for _ in range(8):
        mine, theirs = pairs[rng.integers(2)]
        tree, factor = trees[rng.integers(3)], random_leaf(rng) if rng.random() < 0.5 else 2
        if np.ndim(factor) != 0:
            factor = 1
        with jax.enable_x64(bool(rng.random() < 0.3)):
            same(mine(tree, factor=factor), theirs(tree, factor=factor), rtol=1e-3)
