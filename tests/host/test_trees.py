"""Structures of every kind that `jax.tree` flattens, in and out: classes that stand for those of flax, optax and
qwix."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import xla_wasm
from tests.support.command_line import Cli
from xla_wasm import ArgumentError, Options, safetensors
from xla_wasm.host.fresh import FreshExecutable
from xla_wasm.jax import jit, lower

X, W, B = np.float32([[1, 2], [3, 4]]), np.float32([[1, 0, 2], [0, 1, 1]]), np.float32([1, 2, 3])
Y = X @ W + B


class WithShape:
    """A module whose attributes are called as those of arrays: nnx's with `shape` and `dtype`."""

    def __init__(self, w: Any, b: Any, shape: Any = (2, 3), dtype: str = "float32") -> None:
        self.w, self.b, self.shape, self.dtype = w, b, shape, dtype


jax.tree_util.register_pytree_with_keys(
    WithShape,
    lambda s: (
        [(jax.tree_util.GetAttrKey("w"), s.w), (jax.tree_util.GetAttrKey("b"), s.b)],
        (s.shape, s.dtype),
    ),
    lambda aux, parts: WithShape(*parts, *aux),
)


@jax.tree_util.register_pytree_node_class
class NoKeys:
    """A class that is registered without keys."""

    def __init__(self, w: Any, b: Any) -> None:
        self.w, self.b = w, b

    def tree_flatten(self) -> Any:
        return (self.w, self.b), None

    @classmethod
    def tree_unflatten(cls, _: Any, parts: Any) -> NoKeys:
        return cls(*parts)


@jax.tree_util.register_dataclass
@dataclass
class Quantised:
    """An array with its scales, which says that it has a shape and a dtype itself."""

    numbers: Any
    scale: Any

    @property
    def shape(self) -> Any:
        return self.numbers.shape

    @property
    def dtype(self) -> Any:
        return self.scale.dtype


class Adam(NamedTuple):
    """A state of optax's."""

    count: Any
    mu: Any


def product(params: Any, x: Any) -> Any:
    w, b = jax.tree.leaves(params) if isinstance(params, (NoKeys, list)) else (params["w"], params["b"])
    return x @ w + b


def of_object(params: Any, x: Any) -> Any:
    return x @ params.w + params.b


def of_quantised(params: Any, x: Any) -> Any:
    return x @ (params["w"].numbers * params["w"].scale) + params["b"]


def of_part(params: Any, x: Any) -> Any:
    return of_object(params["net"][0], x)


TREES: dict[str, tuple[Any, Any]] = {
    "attributes called shape and dtype": (of_object, WithShape(W, B)),
    "a class without keys": (product, NoKeys(W, B)),
    "quantised arrays": (of_quantised, {"w": Quantised(W.astype(np.int8), np.float32([1, 1, 1])), "b": B}),
    "ordered": (product, OrderedDict(w=W, b=B)),
    "a list": (product, [W, B]),
    "an object that is deep": (of_part, {"net": (WithShape(W, B), None, ())}),
}


def alike(got: Any, expected: Any) -> None:
    """The same tree with the same classes and values."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", TREES)
def test_trees_go_in_and_come_out(name: str, tmp_path: Path) -> None:
    """The function returns its argument, too."""
    fn, params = TREES[name]

    def f(params: Any, x: Any) -> Any:
        return fn(params, x), params

    compiled = xla_wasm.compile(lower(f, params, X))
    exe = xla_wasm.load(compiled)
    for result in (exe.call(params, X), exe(params, x=X), jit(f)(params, X)):
        alike(result, (Y, params))
    np.testing.assert_array_equal(exe.run(params, X)[0], Y)
    np.testing.assert_array_equal(exe.run({"params": params, "x": X})[0], Y)
    kept = xla_wasm.load(xla_wasm.compile(lower(fn, params, X), Options(weights="params")))
    kept.set("params", params)
    alike(kept.get("params"), params)
    kept.set("params", kept.get("params"))
    np.testing.assert_array_equal(kept(X), Y)
    # A file knows names, dicts, lists and tuples, and takes the same trees.
    for plain in (xla_wasm.load(compiled.save(tmp_path / "m.wasm")), pickle.loads(pickle.dumps(exe))):
        y, given = plain.call(params, X)
        np.testing.assert_array_equal(y, Y)
        assert sorted(map(np.shape, jax.tree.leaves(given))) == sorted(map(np.shape, jax.tree.leaves(params)))
        np.testing.assert_array_equal(plain.call(given, X)[0], Y)
    fresh = FreshExecutable(xla_wasm.compile(lower(fn, params, X), Options(weights="params")))
    fresh.set("params", params)
    np.testing.assert_array_equal(fresh.call(X), Y)
    safetensors.save(tmp_path / "p.safetensors", {"params": params})
    kept.set("params", jax.tree.map(np.zeros_like, params))
    kept.set(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(kept(X), Y)


def test_a_tree_of_another_kind() -> None:
    exe = xla_wasm.load(xla_wasm.compile(lower(of_object, WithShape(W, B), X)))
    np.testing.assert_array_equal(exe.call({"w": W, "b": B}, X), Y)
    for wrong, message in (
        ({"w": W}, "'params.b' is missing"),
        ([W, B], "'params' must be a dict or an object of w, b, not list"),
        (W, "'params' must be a dict or an object of w, b, not ndarray"),
        ({"w": W, "b": B, "c": B}, "'params' has no 'c': it has w, b"),
        (Adam(W, B), "'params' has no 'count': it has w, b"),
    ):
        with pytest.raises(ArgumentError, match=message):
            exe.call(wrong, X)
    exe = xla_wasm.load(xla_wasm.compile(lower(product, NoKeys(W, B), X)))
    np.testing.assert_array_equal(exe.call((W, B), X), Y)
    with pytest.raises(ArgumentError, match="'params' must be a tuple of 2, got 1"):
        exe.call((W,), X)


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"two arrays of the structure are called 'a.b'"):
        safetensors.save(tmp_path / "p.safetensors", {"a": {"b": X}, "a.b": X})


# --- states, and trees without leaves
# ----------------------------------------------------------------------------------------------------------------------


def step(params: Any, opt: Any, x: Any) -> Any:
    params = jax.tree.map(lambda p: p + x, params)
    return params, jax.tree.map(lambda o: o + 1, opt), x * 2


EMPTY: dict[str, Any] = {
    "dict": {},
    "tuple": (),
    "optax.sgd": (Adam((), None), ()),
    "None": None,
    "in a dict": {"a": {}},
}


@pytest.mark.parametrize("name", EMPTY)
def test_trees_without_leaves(name: str, tmp_path: Path) -> None:
    """As weights and as states, with a first value, and as arguments."""
    opt = EMPTY[name]
    module = lower(step, {"w": X}, opt, 1.0)
    exe = xla_wasm.load(
        xla_wasm.compile(module, Options(state={"params": "0", "opt": "1"}, initial={"params": {"w": X}, "opt": opt}))
    )
    exe.set("opt", opt)
    assert jax.tree.structure(exe.get("opt")) == jax.tree.structure(opt)
    assert exe.run(1) == [2] and exe.run(opt, 1) == [2] and exe.run(opt=opt, x=1) == [2]
    assert exe.call(opt, x=1)[2] == exe.call(x=1)[2] == 2
    np.testing.assert_array_equal(exe.get("params")["w"], X + 5)
    with pytest.raises(ArgumentError, match="'opt"):
        exe.set("opt", {"count": X})
    exe = xla_wasm.load(xla_wasm.compile(module, Options(weights=("params", "opt"))))
    exe.set("params", {"w": X})
    exe.set("opt", opt)
    assert exe(opt, 1)[2] == 2
    f = jit(step, state={"params": "0", "opt": "1"}, cache=tmp_path)
    state: Any = {"w": X}, opt
    for _ in range(3):
        *state, x = f(*state, 1.0)
    np.testing.assert_array_equal(np.asarray(state[0]["w"]), X + 3)
    assert jax.tree.structure(state[1]) == jax.tree.structure(opt)
    f = jit(lambda params, opt, x: params["w"] + x, weights=["params", "opt"], cache=tmp_path)
    np.testing.assert_array_equal(f({"w": X}, opt, 1.0), X + 1)


def test_a_name_without_leaves_and_one_with() -> None:
    module = lower(lambda opt, x: (x, opt), {}, X)
    with pytest.raises(ArgumentError, match="there is no parameter named 'opt'; there is x"):
        xla_wasm.compile(module, Options(state={"opt": "0"}))
    with pytest.raises(ArgumentError, match="there is no parameter named 'opts'; there is x"):
        xla_wasm.compile(module, Options(weights="opts"))


def test_the_command_takes_trees_without_leaves(tmp_path: Path, xla_wasm: Cli) -> None:
    Path("m.hlo").write_bytes(lower(step, {"w": X}, {}, 1.0).to_proto())
    code, out, err = xla_wasm("compile", "m.hlo", "--state", "params=0.*", "--state", "opt=1.*")
    assert code == 0, (out, err)


def test_get_gives_the_structure() -> None:
    """Of arguments and of parts of them; of a file in dicts, lists and tuples with names."""
    params = {"net": [WithShape(W, B)], "more": {"n": np.int32(3)}}

    def f(params: Any, opt: Any, x: Any) -> Any:
        new = jax.tree.map(lambda p: p + p, params)
        return new, Adam(opt.count + 1, jax.tree.map(lambda m: m * 2, opt.mu)), x

    opt = Adam(np.int32(0), params)
    compiled = xla_wasm.compile(lower(f, params, opt, 1.0), Options(state={"params": "0", "opt": "1"}))
    exe = xla_wasm.load(compiled)
    exe.set("params", params)
    exe.set("opt", opt)
    alike(exe.get("opt"), opt)
    exe.run(1)
    alike(exe.get("params"), jax.tree.map(lambda p: p + p, params))
    alike(exe.get("opt"), Adam(np.int32(1), jax.tree.map(lambda p: p + p, params)))
    assert exe.get("params.more") == {"n": 6} and exe.get("params.more.n") == 6
    np.testing.assert_array_equal(exe.get("params.net")[0].w, 2 * W)
    plain = xla_wasm.load(xla_wasm.Artifact.open(compiled.wasm))
    plain.set("opt", exe.get("opt"))
    np.testing.assert_array_equal(plain.get("opt").mu["net"][0].b, 2 * B)
    assert [*plain.get("opt")._fields] == ["count", "mu"] and plain.get("opt.mu.more") == {"n": 6}


def test_get_of_a_part_that_stays() -> None:
    exe = xla_wasm.load(xla_wasm.compile(lower(of_object, WithShape(W, B), X), Options(weights="params.w")))
    exe.set("params.w", W)
    got = exe.get("params")
    assert got.b is None and np.array_equal(got.w, W) and isinstance(got, WithShape)
    exe.set("params", got)
    np.testing.assert_array_equal(exe.call(WithShape(None, B), X), Y)
    with pytest.raises(ArgumentError, match="'params.b' is an input"):
        exe.set("params", WithShape(W, B))


def test_random_keys() -> None:
    """They are words in the module, and keys again in structures that JAX makes."""

    def f(state: Any, x: Any) -> Any:
        key, own = jax.random.split(state["key"])
        return {"key": key, "n": state["n"] + 1}, x + jax.random.uniform(own)

    state = {"key": jax.random.key(0), "n": np.int32(0)}
    exe = xla_wasm.load(xla_wasm.compile(lower(f, state, 1.0)))
    expected, y = jax.jit(f)(state, 1.0)
    after, found = exe(state, 1)
    assert found == y and after["key"] == expected["key"]
    exe = xla_wasm.load(xla_wasm.compile(lower(f, state, 1.0), Options(state={"state": "0"})))
    exe.set("state", state)
    assert exe(1)[1] == y and exe.get("state")["key"] == expected["key"]


def test_as_many_objects_as_inputs() -> None:
    """An object of one array is a structure of it, where there are as many arguments as inputs."""
    exe = xla_wasm.load(xla_wasm.compile(lower(lambda p, x: x * p.w, WithShape(B, None), X[0, 0])))
    np.testing.assert_array_equal(exe.run(WithShape(B, None), 2), 2 * B[None])
    with pytest.raises(ArgumentError, match=r"argument 0 \('p.w'\) must be float32\[3\], got float32\[2,2\]"):
        exe.run(WithShape(X, None), 2)
