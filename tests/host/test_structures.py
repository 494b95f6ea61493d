"""Arguments and results by name and in structures: run, call, set and get of executables; weights and states by prefix
and pattern."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import xla_wasm
from tests.support.seeds import count
from xla_wasm import ArgumentError, Artifact, ArtifactError, HloModule, Options
from xla_wasm.hlo.structure import fault
from xla_wasm.host.fresh import FreshExecutable
from xla_wasm.host.manifest import Manifest
from xla_wasm.jax import lower

W, B, X = (
    np.arange(6, dtype=np.float32).reshape(3, 2),
    np.float32([1, -1]),
    np.arange(9, dtype=np.float32).reshape(3, 3),
)
PARAMS = {"w": W, "b": [B]}
Y = X @ W + B


def f(params: Any, x: Any, *, scale: Any) -> Any:
    return {"y": (x @ params["w"] + params["b"][0]) * scale, "sums": (x.sum(), [x.max()])}


def executable(**options: Any) -> Any:
    return xla_wasm.load(xla_wasm.compile(lower(f, PARAMS, X, scale=1.0), Options(**options)))


class Params(NamedTuple):
    w: Any
    b: Any


@dataclass
class Plain:
    b: Any
    w: Any
    more: str = "no leaf"


@dataclass
class Empty:
    none: Any


class Attributes:
    def __init__(self) -> None:
        self.w, self.b, self.other = W, [B], object()


RUNS: dict[str, Callable[[Any], Any]] = {
    "flat": lambda run: run(B, W, X, 1),
    "by position": lambda run: run(PARAMS, X, 1),
    "by name": lambda run: run(scale=1, params=PARAMS, x=X),
    "both": lambda run: run(PARAMS, scale=1, x=X),
    "one mapping": lambda run: run({"x": X, "params": PARAMS, "scale": 1}),
    "full names": lambda run: run({"x": X, "params.w": W, "params.b.0": B, "scale": 1}),
    "halves of names": lambda run: run({"x": X, "params.b": {0: B}, "params.w": W, "scale": 1}),
    "a tuple with names": lambda run: run(Params(W, (B,)), X, 1),
    "a dataclass": lambda run: run(Plain([B], W), X, 1),
    "an object": lambda run: run(params=Attributes(), x=X, scale=1),
    "arrays of jax": lambda run: run(jax.tree.map(jnp.asarray, PARAMS), jnp.asarray(X), 1),
}


@pytest.mark.parametrize("name", RUNS)
def test_ways_to_give_arguments(name: str) -> None:
    exe = executable()
    sums, top, y = RUNS[name](exe.run)
    np.testing.assert_array_equal(y, Y)
    assert (top, sums) == (8, 36)
    assert [*exe.run(B, W, X, 1, as_dict=True)] == ["sums.0", "sums.1.0", "y"]


def test_call_gives_the_structure_of_the_function() -> None:
    exe = executable()
    for result in (
        exe.call(PARAMS, X, scale=np.float32(1)),
        exe.call(params=PARAMS, x=X, scale=1),
        exe.call(Params(W, [B])._asdict(), X, scale=1),
        exe.call({"w": W, "b": (B,)}, X, scale=1),
    ):
        assert jax.tree.structure(result) == jax.tree.structure({"y": 0, "sums": (0, [0])})
        np.testing.assert_array_equal(result["y"], Y)


def test_objects_come_back_with_their_names() -> None:
    exe = xla_wasm.load(xla_wasm.compile(lower(lambda p: (Params(p.b, p.w), {3: p.w, 1: p.b}, None), Params(W, B))))
    made, numbers, nothing = exe.call(Params(W, B))
    w, b = made
    assert nothing is None and [*numbers] == [1, 3]
    np.testing.assert_array_equal(made.w, B)
    np.testing.assert_array_equal(b, W)
    assert exe.call({"w": W, "b": B})[0].w is not None and w is made.w
    net = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    exe = xla_wasm.load(xla_wasm.compile(lower(lambda net, x: (net, net(x)), net, X[0])))
    given, y = exe.call(net, X[0])
    np.testing.assert_allclose(y, net(X[0]), rtol=1e-6)
    np.testing.assert_array_equal(given.weight, net.weight)
    np.testing.assert_allclose(exe.run(net, X[0])[-1], y)


def test_one_argument_that_is_a_mapping() -> None:
    """Its keys may be taken for the names of inputs, also where they are called as the argument is."""
    for given in ({"params": {"w": X}}, {"w": X, "params": X}, {"params": {"params": X}}):
        exe = xla_wasm.load(xla_wasm.compile(lower(lambda params: jax.tree.map(lambda x: x + 1, params), given)))
        for result in (exe.run(given), exe.run(params=given), exe.run({"params": given})):
            for leaf in result:
                np.testing.assert_array_equal(leaf, X + 1)
        np.testing.assert_array_equal(jax.tree.leaves(exe.call(given))[0], X + 1)


def test_nothing_has_no_name() -> None:
    """Of two paths with one name, one of which leads to nothing, the other is meant."""
    for nothing in (None, [], {"c": [None]}):
        for given in ({"a.b": nothing, "a": {"b": X}}, {"a": {"b": X}, "a.b": nothing}):
            exe = xla_wasm.load(xla_wasm.compile(lower(lambda tree, y: tree["a"]["b"] + y, given, X)))
            np.testing.assert_array_equal(exe.run(given, X)[0], X + X)
    with pytest.raises(ArgumentError, match=r"the argument 'tree.a.b' \(float32\[3,3\]\) is missing"):
        exe.run({"a": {"b": None}}, X)


def test_as_many_lists_as_inputs() -> None:
    """A list of the one array that an argument has is a structure of it, where it is no array of the shape itself."""
    exe = xla_wasm.load(xla_wasm.compile(lower(lambda ps, x: ps[0] + x, [B], B)))
    np.testing.assert_array_equal(exe.run([B], B)[0], 2 * B)
    np.testing.assert_array_equal(exe.run([1, -1], B)[0], 2 * B)
    with pytest.raises(ArgumentError, match=r"argument 0 \('ps.0'\) must be float32\[2\]"):
        exe.run([W], B)


def test_a_structure_for_one_array() -> None:
    exe = executable()
    with pytest.raises(ArgumentError, match=r"'x' \(f32\[3,3\]\) must be one array, not a structure of several"):
        exe.call(PARAMS, {"x": X}, scale=1)


def test_objects_without_arrays_are_nothing() -> None:
    jax.tree_util.register_dataclass(Empty, ["none"], [])
    given = {"w": W, "more": Empty(None)}
    exe = xla_wasm.load(xla_wasm.compile(lower(lambda tree: tree["w"] + 1, given)))
    np.testing.assert_array_equal(exe.run(given)[0], W + 1)


def test_names_that_are_options_of_run() -> None:
    exe = xla_wasm.load(xla_wasm.compile(lower(lambda out, send: out - send, X, X[0])))
    np.testing.assert_array_equal(exe.run({"send": X[0], "out": X})[0], X - X[0])
    np.testing.assert_array_equal(exe.call(send=X[0], out=X), X - X[0])


def test_modules_without_structure() -> None:
    """Names alone do for run."""
    module = HloModule.from_text("""HloModule m, frontend_attributes={xla_wasm.parameter_names="[\\"p.w\\",\\"p.b\\",\\"x\\"]"}
ENTRY e { w = f32[] parameter(0)  b = f32[] parameter(1)  x = f32[] parameter(2)  wx = f32[] multiply(w, x)  ROOT y = f32[] add(wx, b) }
""")  # noqa: E501
    exe = xla_wasm.load(xla_wasm.compile(module))
    assert (
        exe.run({"w": 2, "b": 1}, 3)[0]
        == exe.run(p={"w": 2, "b": 1}, x=3)[0]
        == exe.run({"x": 3, "p.w": 2, "p": {"b": 1}})[0]
        == 7
    )
    with pytest.raises(ArgumentError, match="'m' does not say in which structure its arguments and results are"):
        exe.call({"w": 2, "b": 1}, 3)


# --- weights and states
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights",
    [
        "params",
        ("params",),
        ["params.*"],
        ["params.w", "params.b"],
        ["params.b.0", "*.w"],
        [0, 1],
        ["params", "params.w"],
    ],
)
def test_weights_by_prefix_and_pattern(weights: Any) -> None:
    exe = executable(weights=weights)
    assert [p.kind for p in exe.parameters] == ["weight", "weight", "input", "input"]
    exe.set("params", PARAMS)
    np.testing.assert_array_equal(exe.run(X, 1)[2], Y)
    np.testing.assert_array_equal(exe.run(x=X, scale=1)[2], Y)
    np.testing.assert_array_equal(exe.call(X, scale=1)["y"], Y)
    kept = exe.get("params")
    assert [*kept] == ["b", "w"] and isinstance(kept["b"], list)
    exe.set("params", jax.tree.map(lambda x: 2 * x, kept))
    np.testing.assert_array_equal(exe.run(X, 1)[2], 2 * Y)
    exe.set("params.b", [B])
    np.testing.assert_array_equal(exe.run(X, 1)[2], 2 * X @ W + B)


def test_set_sets_all_or_nothing() -> None:
    exe = executable(weights="params")
    exe.set("params", PARAMS)
    for wrong in ({"w": W * 3, "b": [B[:1]]}, {"w": W * 3}, {"w": W * 3, "b": [B, B]}, {"w": W * 3, "b": B}):
        with pytest.raises(ArgumentError):
            exe.set("params", wrong)
        np.testing.assert_array_equal(exe.run(X, 1)[2], Y)


def test_formats_of_weights_by_prefix() -> None:
    exe = executable(weight_format={"params": "f16"})
    assert [p.kind for p in exe.parameters][:2] == ["weight", "weight"]
    exe.set("params", PARAMS)
    np.testing.assert_array_equal(exe.run(X, 1)[2], Y)


def step(params: Any, opt: Any, x: Any) -> Any:
    opt = jax.tree.map(lambda m, p: m * 0.5 + p * x, opt, params)
    return jax.tree.map(lambda p, m: p - m, params, opt), opt, x * 2


@pytest.mark.parametrize(
    "state", [{"params": "0", "opt": "1"}, [("params.*", "0.*"), ("opt", "1")]], ids=["names", "patterns"]
)
def test_states_by_prefix(state: Any) -> None:
    zeros = jax.tree.map(np.zeros_like, PARAMS)
    exe = xla_wasm.load(xla_wasm.compile(lower(step, PARAMS, zeros, 1.0), Options(state=state)))
    exe.set("params", PARAMS)
    exe.set("opt", zeros)
    params, opt = PARAMS, zeros
    for x in (1.0, 2.0, 3.0):
        params, opt, double = jax.jit(step)(params, opt, x)
        assert exe.run(x) == [double] if x < 3 else exe.call(x) == (None, None, double)
    kept = exe.get("params")
    np.testing.assert_allclose(kept["w"], params["w"], rtol=1e-6)
    np.testing.assert_allclose(kept["b"][0], params["b"][0], rtol=1e-6)


def test_all_results_are_the_next_state() -> None:
    exe = xla_wasm.load(
        xla_wasm.compile(lower(lambda s, x: jax.tree.map(lambda a: a + x, s), PARAMS, 1.0), Options(state={"s": ""}))
    )
    exe.set("s", PARAMS)
    assert exe.run(1) == [] and exe.call(1) == None  # noqa: E711
    np.testing.assert_array_equal(exe.get("s")["w"], W + 2)


def divided_executable(**options: Any) -> Any:
    """A program for two devices, each of which has half of the function's arrays."""

    def fn(tree: Any, scale: Any) -> Any:
        doubled = jax.tree.map(lambda x: 2 * x, tree)
        return {"double": doubled, "sum": jax.lax.psum(tree["x"].sum() * scale, "i")}

    specs = {"double": P("i"), "sum": P()}
    module = lower(fn, WHOLE, np.float32(1), mesh={"i": 2}, in_specs=(P("i"), P()), out_specs=specs)
    return xla_wasm.load(xla_wasm.compile(module, Options(**options)))


WHOLE = {"x": np.float32([1, 2, 3, 4]), "more": [np.float32([10, 20])]}
GLOBAL_RUNS: dict[str, Callable[[Any], Any]] = {
    "flat": lambda exe: exe.run_global([WHOLE["more"][0], WHOLE["x"], 3]),
    "by position": lambda exe: exe.run_global([WHOLE, 3]),
    "in a tuple": lambda exe: exe.run_global((WHOLE, 3)),
    "by name": lambda exe: exe.run_global({"tree": WHOLE, "scale": 3}),
    "full names": lambda exe: exe.run_global({"tree.x": WHOLE["x"], "tree.more": WHOLE["more"], "scale": 3}),
    "results by name": lambda exe: exe.run_global([WHOLE, 3], as_dict=True).values(),
}


@pytest.mark.parametrize("way", GLOBAL_RUNS)
def test_ways_to_give_whole_arrays(way: str) -> None:
    more, x, total = GLOBAL_RUNS[way](divided_executable())
    np.testing.assert_array_equal(x, [2, 4, 6, 8])
    np.testing.assert_array_equal(more, [20, 40])
    assert total == 30


def test_call_on_several_devices() -> None:
    exe = divided_executable()
    for result in (exe.call(WHOLE, 3), exe.call(tree=WHOLE, scale=np.float32(3))):
        assert jax.tree.structure(result) == jax.tree.structure({"double": WHOLE, "sum": 0})
        np.testing.assert_array_equal(result["double"]["x"], [2, 4, 6, 8])
        assert result["sum"] == 30
    assert [*exe.run_global([WHOLE, 3], as_dict=True)] == ["double.more.0", "double.x", "sum"]


def test_call_on_several_devices_with_weights() -> None:
    exe = divided_executable(weights="tree")
    exe.set("tree", WHOLE)
    np.testing.assert_array_equal(exe.call(scale=2)["sum"], 20)
    np.testing.assert_array_equal(exe.run_global({"scale": 2}, as_dict=True)["sum"], 20)


def test_structures_for_each_device() -> None:
    exe = divided_executable()
    halves = [
        {"x": WHOLE["x"][:2], "more": [WHOLE["more"][0][:1]]},
        {"x": WHOLE["x"][2:], "more": [WHOLE["more"][0][1:]]},
    ]
    for given in ([[half, 3] for half in halves], [{"tree": half, "scale": 3} for half in halves]):
        first, second = exe.run_replicated(given, as_dict=True)
        assert first["sum"] == second["sum"] == 30
        np.testing.assert_array_equal(second["double.x"], [6, 8])


def test_one_whole_array_needs_no_list() -> None:
    exe = xla_wasm.load(
        xla_wasm.compile(lower(lambda x: jax.lax.psum(x, "i"), X[:2], mesh={"i": 2}, in_specs=P("i"), out_specs=P()))
    )
    np.testing.assert_array_equal(exe.run_global(X[:2])[0], exe.run_global([X[:2]])[0])
    np.testing.assert_array_equal(exe.call(X[:2]), X[:1] + X[1:2])


GLOBAL_ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a leaf is missing": (
        lambda e: e.run_global([{"x": X[0]}, 1]),
        r"the argument 'tree.more.0' \(float32\[2\]\) is missing",
    ),
    "an argument is missing": (
        lambda e: e.run_global({"tree": WHOLE}),
        r"the argument 'scale' \(float32\[\]\) is missing",
    ),
    "a name with an error": (
        lambda e: e.run_global({"tree": WHOLE, "scales": 1}),
        "no argument called 'scales' .did you mean 'scale'",
    ),
    "a key too many": (lambda e: e.run_global([{**WHOLE, "y": B}, 1]), "has no argument called 'tree.y'"),
    "the whole shape": (
        lambda e: e.run_global([{**WHOLE, "x": B}, 1]),
        r"argument 1 \('tree.x'\) must be float32\[4\], got float32\[2\]",
    ),
    "too many": (lambda e: e.run_global([WHOLE, 1, 2, 3]), r"takes \(tree, scale\), or an array for each input; got 4"),
    "too few arrays": (lambda e: e.run_global([B]), r"takes 3 arguments \(tree.more.0: float32\[2\], .*\), got 1"),
    "a text": (lambda e: e.run_global("x"), "takes 3 arguments .*, got 1"),
    "of a device": (
        lambda e: e.run_replicated([[WHOLE, 1], [{"y": B}, 1]]),
        r"^device 0: argument 0 \('tree.more.0'\) must be float32\[1\]",
    ),
    "call: a leaf": (lambda e: e.call({"x": X[0]}, 1), r"'tree.more' is missing: 'tree.more.0' \(f32\[2\]\)"),
    "call: a name": (lambda e: e.call(WHOLE, scales=1), r"takes \(tree, scale\): there is no 'scales'"),
}


@pytest.mark.parametrize("case", GLOBAL_ERRORS)
def test_errors_of_runs_on_several_devices(case: str) -> None:
    call, message = GLOBAL_ERRORS[case]
    with pytest.raises(ArgumentError, match=message):
        call(divided_executable())


def test_a_fresh_executable_takes_structures() -> None:
    exe = FreshExecutable(xla_wasm.compile(lower(f, PARAMS, X, scale=1.0), Options(weights="params")))
    exe.set("params", PARAMS)
    np.testing.assert_array_equal(exe.call(X, scale=1)["y"], Y)
    np.testing.assert_array_equal(exe.run({"x": X, "scale": 1})[2], Y)


# --- errors
# ----------------------------------------------------------------------------------------------------------------------

RUN_ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a leaf is missing": (
        lambda e: e.run({"w": W}, X, 1),
        r"'jit_f': the argument 'params.b.0' \(float32\[2\]\) is missing",
    ),
    "an argument is missing": (lambda e: e.run(PARAMS, x=X), r"the argument 'scale' \(float32\[\]\) is missing"),
    "one leaf too many": (lambda e: e.run({**PARAMS, "c": B}, X, 1), "has no argument called 'params.c'"),
    "a name with an error": (lambda e: e.run({"params": PARAMS, "y": X, "scale": 1}), "has no argument called 'y'"),
    "a prefix with an error": (
        lambda e: e.run(parms=PARAMS, x=X, scale=1),
        "no argument called 'parms.w' .did you mean 'params.w'",
    ),
    "an array for a structure": (
        lambda e: e.run(params=W, x=X, scale=1),
        r"'params' stands for params.b.0, params.w: give a dict .*, not ndarray",
    ),
    "the shape of a leaf": (
        lambda e: e.run({"w": W.T, "b": [B]}, X, 1),
        r"argument 1 \('params.w'\) must be float32\[3,2\], got float32\[2,3\]",
    ),
    "twice": (lambda e: e.run(PARAMS, X, 1, x=X), "the argument 'x' is given twice"),
    "too many": (
        lambda e: e.run(PARAMS, X, 1, 2, 3),
        r"'jit_f' takes \(params, x, scale\), or an array for each input; got 5",
    ),
    "too few arrays": (lambda e: e.run(W, X), r"'jit_f' takes 4 arguments \(params.b.0: float32\[2\], .*\), got 2"),
    "the only structure": (lambda e: e.run(PARAMS), r"the argument 'x' \(float32\[3,3\]\) is missing"),
    "call: a leaf": (lambda e: e.call({"w": W}, X, scale=1), r"'params.b' is missing: 'params.b.0' \(f32\[2\]\)"),
    "call: a key": (lambda e: e.call({**PARAMS, "c": 1}, X, scale=1), "'params' has no 'c': it has b, w"),
    "call: an argument": (lambda e: e.call(PARAMS, scale=1), r"'jit_f' takes \(params, x, scale\): 'x' is missing"),
    "call: a name": (lambda e: e.call(PARAMS, X, scales=1), "there is no 'scales'"),
    "call: by position": (lambda e: e.call(PARAMS, X, 1), "takes .*, 2 of them by position: got 3"),
    "call: twice": (lambda e: e.call(PARAMS, X, x=X, scale=1), "'x' is given twice"),
    "call: no structure": (lambda e: e.call(W, X, scale=1), "'params' must be a dict of b, w, not ndarray"),
    "call: a list": (lambda e: e.call({"w": W, "b": B}, X, scale=1), "'params.b' must be a list of 1, not ndarray"),
    "call: the length of a list": (
        lambda e: e.call({"w": W, "b": [B, B]}, X, scale=1),
        "'params.b' must be a list of 1, got 2",
    ),
}


@pytest.mark.parametrize("case", RUN_ERRORS)
def test_errors_of_runs(case: str) -> None:
    call, message = RUN_ERRORS[case]
    with pytest.raises(ArgumentError, match=message):
        call(executable())


SET_ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a leaf is missing": (
        lambda e: e.set("params", {"w": W}),
        r"'params.b.0' \(float32\[2\]\) is missing in what 'params' is set to",
    ),
    "a key too many": (lambda e: e.set("params", {**PARAMS, "c": B}), "has no weight or state called 'params.c'"),
    "an array": (lambda e: e.set("params", W), "'params' stands for params.b.0, params.w"),
    "the shape": (
        lambda e: e.set("params", {"w": W, "b": [X]}),
        r"weight 'params.b.0' must be float32\[2\], got float32\[3,3\]",
    ),
    "no such name": (
        lambda e: e.set("parms", PARAMS),
        r"no weight or state called 'parms' \(known: params.b.0, params.w\)",
    ),
    "a weight to run": (
        lambda e: e.run(params=PARAMS, x=X, scale=1),
        r"'params.w' is a weight of 'jit_f', .*: exe.set\('params.w', ...\) sets it",
    ),
    "a weight to call": (lambda e: e.call(x=X, scale=1, params=PARAMS), r"takes \(x, scale\): there is no 'params'"),
}


@pytest.mark.parametrize("case", SET_ERRORS)
def test_errors_of_weights(case: str) -> None:
    call, message = SET_ERRORS[case]
    with pytest.raises(ArgumentError, match=message):
        call(executable(weights="params"))


def test_a_part_of_an_argument_stays() -> None:
    exe = executable(weights="params.w")
    exe.set("params.w", W)
    np.testing.assert_array_equal(exe.call({"b": [B]}, X, scale=1)["y"], Y)
    np.testing.assert_array_equal(exe.call({"b": [B], "w": None}, X, scale=1)["y"], Y)
    np.testing.assert_array_equal(exe.run({"b": [B]}, X, 1)[2], Y)
    with pytest.raises(ArgumentError, match=r"'params.w' \(f32\[3,2\]\) is a weight, which stays in the module"):
        exe.call(PARAMS, X, scale=1)
    with pytest.raises(
        ArgumentError, match="'params.b.0' is an input of 'jit_f', and no weight or state: give it to run"
    ):
        exe.set("params", PARAMS)


OPTION_ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "no weight": (
        lambda: executable(weights="parms"),
        "no parameter named 'parms'; there are params.b.0, params.w, x, scale",
    ),
    "no pattern": (lambda: executable(weights="*.kernel"), r"no parameter named '\*.kernel'"),
    "no result": (lambda: executable(state={"params": "2"}), "no result named '2'; there are sums.0, sums.1.0, y"),
    "no partner": (
        lambda: executable(state={"params": "sums"}),
        "'params.b.0' has no partner, there is no result named 'sums.b.0'",
    ),
    "one result": (
        lambda: executable(state={"params": "y"}),
        "state 'params' is params.b.0, params.w, and 'y' is one result",
    ),
    "another shape": (
        lambda: executable(state={"x": "y"}),
        r"state 'x' is f32\[3,3\].*, but the result 'y' that replaces it is f32\[3,2\]",
    ),
}


@pytest.mark.parametrize("case", OPTION_ERRORS)
def test_errors_of_options(case: str) -> None:
    call, message = OPTION_ERRORS[case]
    with pytest.raises(ArgumentError, match=message):
        call()


# --- the description
# ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("structure", 3, "structure: expected an object"),
        ("names", ["params", "x", 3], "structure.names: expected a list of names"),
        ("names", ["params", "x", "x"], "structure.names: expected a list of names, each once"),
        ("positional", 4, "structure.positional: expected an integer from 0 to 3"),
        ("positional", True, "structure.positional"),
        ("arguments", [0, 1], "structure.arguments: expected a list of 3 trees"),
        (
            "arguments",
            [["dict", ["b", "w"], 0, 1], 2, 2],
            "structure.arguments: its leaves are not the numbers from 0 to 3",
        ),
        ("arguments", [["dict", ["b", "b"], 0, 1], 2, 3], "structure.arguments: two children have one key"),
        ("arguments", [["dict", ["b"], 0, 1], 2, 3], "structure.arguments: expected a key for each child"),
        (
            "arguments",
            [["set", 0, 1], 2, 3],
            "structure.arguments: expected a number, null, or a list that begins with",
        ),
        ("arguments", [["object", ["b", 3], 0, 1], 2, 3], "structure.arguments: expected a key"),
        ("arguments", [["list", True, 1], 2, 3], "structure.arguments: expected a number"),
        ("results", ["tuple", 0, 1], "structure.results: its leaves are not the numbers from 0 to 2"),
        ("results", ["tuple", 0, 1, -2], "structure.results"),
        ("results", None, "structure.results"),
    ],
)
def test_descriptions_that_lie(key: str, value: Any, message: str) -> None:
    manifest = executable()._origin[0].manifest
    structure = value if key == "structure" else {**manifest["structure"], key: value}
    with pytest.raises(ArtifactError, match=message):
        Manifest.parse({**manifest, "structure": structure})


def test_descriptions_of_any_depth() -> None:
    tree: Any = 0
    for _ in range(2000):
        tree = ["list", tree]
    assert fault({"names": ["x"], "positional": 1, "arguments": [tree], "results": 0}, 1, 1) == (
        "arguments",
        "a tree is deeper than 64",
    )


def test_a_description_that_does_not_suit_the_module_is_left_out(tmp_path: Path) -> None:
    module = lower(f, PARAMS, X, scale=1.0)
    for text in (
        "[",
        "3",
        '{"names": []}',
        "[" * 100_000,
        module.frontend_attributes["xla_wasm.structure"].replace("2", "7"),
    ):
        module.frontend_attributes["xla_wasm.structure"] = text
        assert "structure" not in xla_wasm.compile(module).manifest
    kept = xla_wasm.compile(HloModule.from_bytes(lower(f, PARAMS, X, scale=1.0).to_proto()))
    assert Artifact.open(kept.save(tmp_path / "m.wasm")).manifest["structure"]["names"] == ["params", "x", "scale"], (
        "files keep it"
    )


def random_tree(rng: np.random.Generator, depth: int, leaf: Callable[[], Any]) -> Any:
    if depth == 0 or rng.random() < 0.3:
        return leaf() if rng.random() < 0.85 else None
    children = [random_tree(rng, depth - 1, leaf) for _ in range(rng.integers(0, 4))]
    kind = rng.integers(5)
    names = rng.permutation(["a", "b", "a.b", "0", "w", "named"])[: len(children)]
    if kind == 0:
        return dict(zip(map(str, names), children))
    if kind == 1:
        return dict(zip(rng.permutation(9).tolist(), children))
    if kind == 2:
        return children
    if kind == 3 and len(children) >= 2:
        return Params(children[0], children[1])
    return tuple(children)


@pytest.mark.parametrize("seed", range(count(15, 300)))
def test_random_structures(seed: int) -> None:
    """Each array comes back in its place, whatever the structure, and names lead to the input that they name."""
    rng = np.random.default_rng(seed)
    number = iter(range(1, 1000))
    args = [random_tree(rng, 3, lambda: np.float32(next(number))) for _ in range(rng.integers(1, 4))]
    order = rng.permutation(len(args))

    def g(*args: Any) -> Any:
        return {"all": [jax.tree.map(lambda x: x * 2, args[i]) for i in order]}

    if not jax.tree.leaves(args):
        return
    exe = xla_wasm.load(xla_wasm.compile(lower(g, *args)))
    expected = g(*args)
    assert alike(exe.call(*args), expected)
    named = {p.name: value for p, value in zip(exe.parameters, jax.tree.leaves(args))}
    assert exe.run(named) == exe.run(*named.values()) == jax.tree.leaves(expected)
    structures = {f"args.{i}": arg for i, arg in enumerate(args)}
    try:
        assert exe.run(structures) == jax.tree.leaves(expected)
    except (
        ArgumentError
    ) as error:  # where keys have dots two paths may have one name, or one the name that another begins with
        assert "two of the arguments given are called" in str(error)
        assert any("_" in name or other.startswith(f"{name}.") for name in named for other in named)
    else:
        assert not any("_" in name for name in named)


def alike(got: Any, expected: Any) -> bool:
    """Returns true if the values and the structure are the expected ones, with the same names of fields in tuples that
    have names."""
    if isinstance(expected, dict):
        return (
            isinstance(got, dict) and {*got} == {*expected} and all(alike(got[key], expected[key]) for key in expected)
        )
    if isinstance(expected, (list, tuple)):
        same = isinstance(got, type(expected) if isinstance(expected, list) else tuple) and len(got) == len(expected)
        return (
            same and getattr(got, "_fields", ()) == getattr(expected, "_fields", ()) and all(map(alike, got, expected))
        )
    return bool(got == expected)
