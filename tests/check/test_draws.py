"""Arguments that are drawn for a module reach what it does with them: indices lie inside, loops end, sizes fit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command_line import Cli
from xla_wasm.check.draws import Draw, Drawing, Kind
from xla_wasm.check.use import Range, Use
from xla_wasm.check.uses import MOST_TRIPS, uses_of
from xla_wasm.errors import LimitError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.signature import parameter_leaves
from xla_wasm.loop.builder import Builder
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.hostio.reference import HostSide
from xla_wasm.reference import evaluate, evaluate_with

ORDINARY, REPEATED, EXTREME = (Draw(number) for number in range(3))


def module(parameters: str, body: str, before: str = "") -> Module:
    """A module of an entry with parameters such as "i: s32[4]; x: f32[3]" and the instructions of a body."""
    listed = [part.split(":") for part in parameters.split("; ")]
    lines = [f"{name} = {shape} parameter({n})" for n, (name, shape) in enumerate(listed)]
    return Module.from_text("\n".join(["HloModule m", before, "ENTRY e {", *lines, body, "}"]))


def use(of: Module, name: str = "i") -> Use | None:
    return uses_of(of)[0].get(name)


def drawn(of: Module, draw: Draw) -> dict[str, Array]:
    drawing = Drawing(of)
    return {name: drawing.input(draw, name, shape) for name, shape in parameter_leaves(of)}


# --- the operations that take indices ---------------------------------------------------------------------------------

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
GATHER = (
    "gather(x, {i}), offset_dims={{1,2}}, collapsed_slice_dims={{}}, start_index_map={map}, index_vector_dim={at}, "
    "slice_sizes={{2,5}}"
)
SINKS = {
    "dynamic-slice": (
        "x: f32[9,7]; i: s32[]; j: s32[]",
        "ROOT r = f32[2,7] dynamic-slice(x, i, j), dynamic_slice_sizes={2,7}",
        [7],
    ),
    "dynamic-slice of a vector": (
        "x: f32[9,7]; i: s32[2]",
        "ROOT r = f32[2,3] dynamic-slice(x, i), dynamic_slice_sizes={2,3}",
        [7, 4],
    ),
    "dynamic-update-slice": (
        "x: f32[9,7]; u: f32[2,3]; j: u8[]; i: u8[]",
        "ROOT r = f32[9,7] dynamic-update-slice(x, u, j, i)",
        [4],
    ),
    "gather": (
        "x: f32[9,7]; i: s32[4,2]",
        f"ROOT r = f32[4,2,5] {GATHER.format(i='i', map='{0,1}', at=1)}",
        [7, 2] * 4,
    ),
    "gather, turned": (
        "x: f32[9,7]; i: s32[2,4]",
        f"ROOT r = f32[4,2,5] {GATHER.format(i='i', map='{1,0}', at=0)}",
        [2] * 4 + [7] * 4,
    ),
    "gather of scalars": (
        "x: f32[9]; i: s64[4]",
        "ROOT r = f32[4] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1}",
        [8] * 4,
    ),
    "scatter": (
        "x: f32[9,7]; i: s32[4,2]; u: f32[4,3]",
        "ROOT r = f32[9,7] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=add",
        [6, 6] * 4,
    ),
    "scatter of windows": (
        "x: f32[9,7]; i: s32[4]; u: f32[4,3,2]",
        "ROOT r = f32[9,7] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add",
        [5] * 4,
    ),
    "scatter with batching dimensions": (
        "x: f32[8,4]; i: s32[8]; u: f32[8]",
        "ROOT r = f32[8,4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, "
        "index_vector_dim=1, to_apply=add",
        [3] * 8,
    ),
    "branches": (
        "x: f32[]; i: s32[]",
        "ROOT r = f32[] conditional(i, x, x, x), branch_computations={one, one, one}",
        [2],
    ),
    "shift": ("x: s16[3]; i: s16[3]", "ROOT r = s16[3] shift-left(x, i)", [15] * 3),
    "size": ("x: f32[5]; i: s32[]", "ROOT r = f32[<=5] set-dimension-size(x, i), dimensions={0}", [5]),
}
ONE = "one { a = f32[] parameter(0)  ROOT r = f32[] copy(a) }"


@pytest.mark.parametrize("name", SINKS)
def test_indices_lie_inside_the_dimension_that_they_address(name: str) -> None:
    parameters, body, last = SINKS[name]
    m = module(parameters, body, f"{ADD}\n{ONE}")
    found = use(m)
    assert found is not None
    assert found.low.reshape(-1).tolist() == [0] * len(last) and found.high.reshape(-1).tolist() == last
    inside = [drawn(m, Draw(draw, seed))["i"].astype(np.int64) for draw in (0, 1) for seed in range(20)]
    assert all((0 <= i).all() and (i <= found.high).all() for i in inside)
    assert (np.min(inside, 0) == 0).all() and (np.max(inside, 0) == found.high).all(), "both ends are drawn"
    outside = [drawn(m, Draw(2, seed))["i"].astype(np.int64) for seed in range(20)]
    wrong = [(i < 0) | (i > found.high) for i in outside]
    assert np.any(wrong) != found.strict and not np.all(wrong)


# --- the ways to them -------------------------------------------------------------------------------------------------

SLICED = "ROOT r = f32[1] dynamic-slice(x, {}), dynamic_slice_sizes={{1}}"
TAKEN = (
    "ROOT r = f32[{n}] gather(x, {i}), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
    "index_vector_dim=1, slice_sizes={{1}}"
)
X = "x: f32[10]; "
FAR = 1 << 60
WAYS: dict[str, tuple[str, str, Any, Any]] = {
    "convert": (X + "i: s8[]", f"j = s32[] convert(i) {SLICED.format('j')}", 0, 9),
    "convert of floats": (X + "i: f32[]", f"j = s32[] convert(i) {SLICED.format('j')}", 0, 9),
    "reshape": (X + "i: s32[1,2]", f"j = s32[2] reshape(i) {TAKEN.format(i='j', n=2)}", [[0, 0]], [[9, 9]]),
    "add": (X + "i: s32[]", f"c = s32[] constant(3) j = s32[] add(i, c) {SLICED.format('j')}", -3, 6),
    "add to an iota": (
        X + "i: s32[3]",
        f"c = s32[3] iota(), iota_dimension=0 j = s32[3] add(c, i) {TAKEN.format(i='j', n=3)}",
        [0, -1, -2],
        [9, 8, 7],
    ),
    "subtract": (X + "i: s32[]", f"c = s32[] constant(3) j = s32[] subtract(i, c) {SLICED.format('j')}", 3, 12),
    "subtract from": (X + "i: s32[]", f"c = s32[] constant(3) j = s32[] subtract(c, i) {SLICED.format('j')}", -6, 3),
    "negate": (X + "i: s32[]", f"j = s32[] negate(i) {SLICED.format('j')}", -9, 0),
    "multiply": (X + "i: s32[]", f"c = s32[] constant(4) j = s32[] multiply(c, i) {SLICED.format('j')}", 0, 2),
    "divide": (X + "i: s32[]", f"c = s32[] constant(4) j = s32[] divide(i, c) {SLICED.format('j')}", 0, 39),
    "shift": (X + "i: s32[]", f"c = s32[] constant(1) j = s32[] shift-left(i, c) {SLICED.format('j')}", 0, 4),
    "two that vary": (X + "i: s32[]; k: s32[]", f"j = s32[] add(i, k) {SLICED.format('j')}", 0, 5),
    "product of two that vary": (X + "i: s32[]; k: s32[]", f"j = s32[] multiply(i, k) {SLICED.format('j')}", 0, 3),
    "negative indices": (
        X + "i: s32[]",
        "c = s32[] constant(10) z = s32[] constant(0) n = pred[] compare(i, z), direction=LT "
        f"a = s32[] add(i, c) j = s32[] select(n, a, i) {SLICED.format('j')}",
        -10,
        9,
    ),
    "clamp": (
        X + "i: s32[]",
        f"a = s32[] constant(0) b = s32[] constant(5) j = s32[] clamp(a, i, b) {SLICED.format('j')}",
        0,
        9,
    ),
    "two uses": (
        "x: f32[10]; y: f32[4]; i: s32[]",
        "a = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1} b = f32[1] dynamic-slice(y, i), "
        "dynamic_slice_sizes={1} ROOT r = f32[1] add(a, b)",
        0,
        3,
    ),
    "concatenate": (
        "x: f32[10,6]; k: s32[3,1]; i: s32[3]",
        "j = s32[3,1] reshape(i) v = s32[3,2] concatenate(k, j), dimensions={1} ROOT r = f32[3] gather(x, v), "
        "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
        [0, 0, 0],
        [5, 5, 5],
    ),
    "transpose": (
        "x: f32[10,6]; i: s32[2,3]",
        "v = s32[3,2] transpose(i), dimensions={1,0} ROOT r = f32[3] gather(x, v), "
        "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
        [[0] * 3] * 2,
        [[9] * 3, [5] * 3],
    ),
    "broadcast": (
        "x: f32[10,6]; i: s32[3]",
        "v = s32[3,2] broadcast(i), dimensions={0} ROOT r = f32[3] gather(x, v), "
        "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
        [0, 0, 0],
        [5, 5, 5],
    ),
    "broadcast, turned": (
        "x: f32[10,6]; i: s32[2,3]",
        "v = s32[3,2] broadcast(i), dimensions={1,0} ROOT r = f32[3] gather(x, v), "
        "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
        [[0] * 3] * 2,
        [[9] * 3, [5] * 3],
    ),
    "slice": (
        X + "i: s32[3]",
        f"s = s32[1] slice(i), slice={{[1:2]}} j = s32[] reshape(s) {SLICED.format('j')}",
        [-FAR, 0, -FAR],
        [FAR, 9, FAR],
    ),
    "reverse": (
        "x: f32[10,6]; i: s32[3,2]",
        "v = s32[3,2] reverse(i), dimensions={1} ROOT r = f32[3] gather(x, v), "
        "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
        [[0, 0]] * 3,
        [[5, 9]] * 3,
    ),
    "indices of indices": (
        X + "i: s32[4]; k: s32[]",
        f"s = s32[1] dynamic-slice(i, k), dynamic_slice_sizes={{1}} j = s32[] reshape(s) {SLICED.format('j')}",
        [0] * 4,
        [9] * 4,
    ),
    "greatest": (
        X + "i: s32[4]",
        f"z = s32[] constant(0) j = s32[] reduce(i, z), dimensions={{0}}, to_apply=most {SLICED.format('j')}",
        [0] * 4,
        [9] * 4,
    ),
    "sort": (
        X + "i: s32[4]",
        f"j = s32[4] sort(i), dimensions={{0}}, to_apply=less {TAKEN.format(i='j', n=4)}",
        [0] * 4,
        [9] * 4,
    ),
    "call": (X + "i: s32[]", "ROOT r = f32[1] call(x, i), to_apply=picked", -3, 6),
    "fusion": (X + "i: s32[]", "ROOT r = f32[1] fusion(x, i), kind=kLoop, calls=picked", -3, 6),
    "fusion before": (
        X + "i: s32[]",
        f"j = s32[] fusion(i), kind=kLoop, calls=more {SLICED.format('j')}",
        -3,
        6,
    ),
    "tuple": (
        X + "p: (s32[], s32[2], s32[])",
        "i = s32[2] get-tuple-element(p), index=1 q = (s32[2]) tuple(i) "
        "t = (f32[10], (s32[2])) tuple(x, q) g = (s32[2]) get-tuple-element(t), index=1 "
        "j = s32[2] get-tuple-element(g), index=0 " + TAKEN.format(i="j", n=2),
        [0, 0],
        [9, 9],
    ),
    "branch": (
        X + "i: s32[]; b: pred[]",
        "t = (f32[10], s32[]) tuple(x, i) ROOT r = f32[1] conditional(b, t, t), true_computation=taken, "
        "false_computation=first",
        0,
        6,
    ),
    "loop": (
        X + "i: s32[]",
        "z = s32[] constant(0) y = f32[1] slice(x), slice={[0:1]} "
        "t = (s32[], s32[], f32[10], f32[1]) tuple(z, i, x, y) "
        "w = (s32[], s32[], f32[10], f32[1]) while(t), body=around, condition=again "
        "ROOT r = f32[1] get-tuple-element(w), index=3",
        -3,
        6,
    ),
}
CALLED = """
most { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT s = s32[] maximum(a, b) }
less { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=LT }
picked { x = f32[10] parameter(0)  i = s32[] parameter(1)  c = s32[] constant(3)  j = s32[] add(i, c)
  ROOT r = f32[1] dynamic-slice(x, j), dynamic_slice_sizes={1}
}
more { i = s32[] parameter(0)  c = s32[] constant(3)  ROOT j = s32[] add(i, c) }
taken { t = (f32[10], s32[]) parameter(0)  x = f32[10] get-tuple-element(t), index=0
  i = s32[] get-tuple-element(t), index=1  y = f32[7] slice(x), slice={[0:7]}
  ROOT r = f32[1] dynamic-slice(y, i), dynamic_slice_sizes={1}
}
first { t = (f32[10], s32[]) parameter(0)  x = f32[10] get-tuple-element(t), index=0
  ROOT r = f32[1] slice(x), slice={[0:1]}
}
again { t = (s32[], s32[], f32[10], f32[1]) parameter(0)  n = s32[] get-tuple-element(t), index=0
  m = s32[] constant(3)  ROOT c = pred[] compare(n, m), direction=LT
}
around { t = (s32[], s32[], f32[10], f32[1]) parameter(0)  n = s32[] get-tuple-element(t), index=0
  i = s32[] get-tuple-element(t), index=1  x = f32[10] get-tuple-element(t), index=2  c = s32[] constant(3)
  j = s32[] add(i, c)  y = f32[1] dynamic-slice(x, j), dynamic_slice_sizes={1}
  one = s32[] constant(1)  m = s32[] add(n, one)
  ROOT r = (s32[], s32[], f32[10], f32[1]) tuple(m, i, x, y)
}
"""


@pytest.mark.parametrize("name", WAYS)
def test_indices_are_followed_back_to_parameters(name: str) -> None:
    parameters, body, low, high = WAYS[name]
    m = module(parameters, body, CALLED)
    found = use(m, "p.1" if name == "tuple" else "i")
    assert found is not None
    assert np.maximum(found.low, -FAR).tolist() == low and np.minimum(found.high, FAR).tolist() == high
    for kind in range(4):
        evaluate(m, *drawn(m, Draw(kind)).values())


# --- loops ------------------------------------------------------------------------------------------------------------


def loop(condition: str, step: str, parameters: str, start: str, limit: str) -> Module:
    """A loop that counts its trips, from `start` by `step` while its counter and its limit fulfil a condition."""
    state = "(s32[], s32[], s32[])"
    elements = (
        f"s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  "
        "n = s32[] get-tuple-element(s), index=1  trips = s32[] get-tuple-element(s), index=2"
    )
    called = f"""
    most {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT s = s32[] maximum(a, b) }}
    condition {{ {elements} {condition} }}
    body {{ {elements} one = s32[] constant(1)  more = s32[] add(trips, one) {step}
      ROOT r = {state} tuple(j, n, more) }}"""
    body = f"""{start} {limit} zero = s32[] constant(0)  s = {state} tuple(first, last, zero)
    w = {state} while(s), condition=condition, body=body
    ROOT r = s32[] get-tuple-element(w), index=2"""
    return module(parameters, body, called)


BOTH = ("a: s32[]; b: s32[]", "first = s32[] copy(a)", "last = s32[] copy(b)")
UP, DOWN = "c = s32[] constant(1) j = s32[] add(i, c)", "c = s32[] constant(1) j = s32[] subtract(i, c)"
ZERO = "first = s32[] constant(0)"
LOOPS = {
    "up": ("ROOT c = pred[] compare(i, n), direction=LT", UP, *BOTH),
    "up, limit on the left": ("ROOT c = pred[] compare(n, i), direction=GT", UP, *BOTH),
    "up to": ("ROOT c = pred[] compare(i, n), direction=LE", UP, *BOTH),
    "down": ("ROOT c = pred[] compare(i, n), direction=GT", DOWN, *BOTH),
    "until equal": ("ROOT c = pred[] compare(i, n), direction=NE", UP, *BOTH),
    "down until equal": ("ROOT c = pred[] compare(i, n), direction=NE", DOWN, *BOTH),
    "from a constant": ("ROOT c = pred[] compare(i, n), direction=LT", UP, "a: s32[]", ZERO, "last = s32[] copy(a)"),
    "from a large constant": (
        "ROOT c = pred[] compare(i, n), direction=LT",
        UP,
        "a: s32[]",
        "first = s32[] constant(1000000)",
        "last = s32[] copy(a)",
    ),
    "down to a constant": (
        "ROOT c = pred[] compare(i, n), direction=GE",
        DOWN,
        "a: s32[]",
        "first = s32[] copy(a)",
        "last = s32[] constant(-1000000)",
    ),
    "in large steps": (
        "ROOT c = pred[] compare(i, n), direction=LT",
        "c = s32[] constant(100) j = s32[] add(i, c)",
        "a: s32[]",
        ZERO,
        "last = s32[] copy(a)",
    ),
    "steps that miss the end": (
        "ROOT c = pred[] compare(i, n), direction=NE",
        "c = s32[] constant(2) j = s32[] add(i, c)",
        "a: s32[]",
        ZERO,
        "last = s32[] copy(a)",
    ),
    "two conditions": (
        "z = s32[] constant(-5) e = pred[] compare(i, z), direction=NE l = pred[] compare(i, n), direction=LT "
        "ROOT c = pred[] and(e, l)",
        UP,
        *BOTH,
    ),
    "of a greatest element": (
        "ROOT c = pred[] compare(i, n), direction=LT",
        UP,
        "a: s32[5]",
        ZERO,
        "last = s32[] reduce(a, first), dimensions={0}, to_apply=most",
    ),
    "never begins": (
        "z = s32[] constant(7) ROOT c = pred[] compare(n, z), direction=GT",
        UP,
        *BOTH,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_end_soon(name: str) -> None:
    m = loop(*LOOPS[name])
    trips = [int(evaluate(m, *drawn(m, Draw(kind, seed)).values())[0]) for kind in range(4) for seed in range(10)]
    assert max(trips) <= MOST_TRIPS + 1
    assert (max(trips) == 0) == (name in ("never begins", "steps that miss the end")), "loops run, too"


def test_what_steers_a_loop_is_ordinary() -> None:
    """A loop that runs until a number computed from an array is small: infinities never become small."""
    m = module(
        "x: f32[400]; y: f32[400]",
        """s = (f32[400], f32[400]) tuple(x, y)  w = (f32[400], f32[400]) while(s), condition=condition, body=body
        ROOT r = f32[400] get-tuple-element(w), index=1""",
        """most { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }
        condition { s = (f32[400], f32[400]) parameter(0)  x = f32[400] get-tuple-element(s), index=0
          z = f32[] constant(0)  m = f32[] reduce(x, z), dimensions={0}, to_apply=most
          one = f32[] constant(1)  ROOT c = pred[] compare(m, one), direction=GT }
        body { s = (f32[400], f32[400]) parameter(0)  x = f32[400] get-tuple-element(s), index=0
          y = f32[400] get-tuple-element(s), index=1  h = f32[] constant(0.5)  b = f32[400] broadcast(h), dimensions={}
          j = f32[400] multiply(x, b)  ROOT r = (f32[400], f32[400]) tuple(j, y) }""",
    )
    steering, other = use(m, "x"), use(m, "y")
    assert steering is not None and steering.range is Range.ORDINARY and (other is None or other.range is Range.ALL)
    arrays = drawn(m, EXTREME)
    assert np.isfinite(arrays["x"]).all() and not np.isfinite(arrays["y"]).all()
    evaluate(m, *arrays.values())


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_numbers_of_each_kind() -> None:
    m = module("x: f32[400]; k: s32[400]; b: pred[400]", "ROOT r = (f32[400], s32[400], pred[400]) tuple(x, k, b)")
    ordinary, repeated, extreme = (drawn(m, draw) for draw in (ORDINARY, REPEATED, EXTREME))
    assert np.isfinite(ordinary["x"]).all() and len(np.unique(ordinary["x"])) > 390
    x = repeated["x"]
    assert np.isfinite(x).all() and len(np.unique(x)) < 110 and {*np.signbit(x[x == 0])} == {True, False}
    x = extreme["x"]
    assert np.isnan(x).any() and np.isinf(x).any() and np.signbit(x[x == 0]).any() and not np.signbit(x[x == 0]).all()
    assert (np.abs(x[x != 0]) < np.finfo(np.float32).tiny).any()
    assert 0 <= ordinary["k"].min() and ordinary["k"].max() == 9
    assert extreme["k"].min() == -(2**31) and extreme["k"].max() == 2**31 - 1
    assert all(0 < arrays["b"].mean() < 1 for arrays in (ordinary, repeated, extreme))


def test_extremes_of_64_bits() -> None:
    m = module("k: u64[400]", "ROOT r = u64[400] copy(k)")
    assert drawn(m, EXTREME)["k"].max() == 2**64 - 1


def test_sorted_and_repeated_indices_keep_to_the_bounds_of_their_components() -> None:
    parameters, body, _ = SINKS["gather"]
    m = module(parameters.replace("4,2", "64,2"), body.replace("[4,2,5]", "[64,2,5]"))
    several = [drawn(m, Draw(1, seed))["i"] for seed in range(20)]
    assert all((i >= 0).all() and (i <= [7, 2]).all() for i in several)
    ascending = [bool((np.diff(i, axis=0) >= 0).all()) for i in several]
    assert any(ascending) and not all(ascending)


def test_no_nan_goes_where_its_order_is_not_specified() -> None:
    m = module(
        "x: f32[400]; y: f32[400]",
        "ROOT r = f32[400] sort(x), dimensions={0}, to_apply=less",
        "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=LT }",
    )
    arrays = drawn(m, EXTREME)
    assert np.isfinite(arrays["x"]).all() and np.isnan(arrays["y"]).any()


def test_equal_draws_are_equal_and_others_differ() -> None:
    m = module("x: f32[4]", "ROOT r = f32[4] copy(x)")
    one, again, other, seed, device = (
        drawn(m, draw)["x"].tolist() for draw in (Draw(0), Draw(0), Draw(3), Draw(0, 1), Draw(0, 0, 1))
    )
    assert one == again and len({*map(tuple, (one, other, seed, device))}) == 4
    assert Draw(7).kind is Kind.MIXED


def test_devices_share_what_steers_their_loops() -> None:
    """Else some would wait in an exchange that others do not come to."""
    m = loop(*LOOPS["from a constant"])
    assert len({int(drawn(m, Draw(0, 0, device))["a"]) for device in range(8)}) == 1


def test_what_hosts_feed_reaches_indices() -> None:
    m = module(
        "x: f32[10]",
        f"""t = token[] after-all()  f = (s32[], token[]) infeed(t)  i = s32[] get-tuple-element(f), index=0
        {SLICED.format("i")}""",
    )
    drawing = Drawing(m)
    fed = [int(drawing.item(Draw(0, seed), 0, None, [Shape("s32", ())])[0]) for seed in range(40)]
    assert {*fed} == {*range(10)}


# --- sizes ------------------------------------------------------------------------------------------------------------

SIZED = "x: f32[<=8,4]; y: f32[<=8]; z: f32[<=5]"


def test_sizes_of_dynamic_dimensions() -> None:
    m = module(SIZED, "ROOT r = (f32[<=8,4], f32[<=8], f32[<=5]) tuple(x, y, z)")

    def sizes(draw: int) -> list[tuple[int, ...]]:
        every = [drawn(m, Draw(draw, seed)) for seed in range(40)]
        assert all(a["x"].shape[0] == a["y"].shape[0] for a in every), "one size for dimensions of the same bound"
        return [(a["y"].shape[0], a["z"].shape[0]) for a in every]

    assert {*sizes(0)} == {(8, 5)}
    assert {a for a, _ in sizes(1)} == {*range(1, 9)}
    assert {*sizes(2)} == {(0, 0), (0, 1), (1, 0), (1, 1)}


REFUSING = """HloModule m
passed { p = () parameter(0)  ROOT t = () tuple() }
failed { p = (s32[]) parameter(0)  n = s32[] get-tuple-element(p), index=0
  ROOT c = () custom-call(n), custom_call_target="shape_assertion", custom_call_has_side_effect=true,
    backend_config="x has {0} rows" }
ENTRY e {
  x = f32[<=8] parameter(0)
  y = f32[<=16] parameter(1)
  n = s32[] get-dimension-size(x), dimensions={0}
  m = s32[] get-dimension-size(y), dimensions={0}
  two = s32[] constant(2)
  twice = s32[] multiply(n, two)
  holds = pred[] compare(twice, m), direction=EQ
  nothing = () tuple()
  told = (s32[]) tuple(n)
  c = () conditional(holds, nothing, told), true_computation=passed, false_computation=failed
  ROOT r = f32[<=8] negate(x)
}
"""


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def check(xla_wasm: Cli) -> Cli:
    return partial(xla_wasm, "check")


def test_sizes_that_the_program_refuses_are_drawn_again(check: Any) -> None:
    Path("m.hlo").write_text(REFUSING)
    code, out, err = check("m.hlo", "--draws", "6")
    assert (code, err) == (0, "") and "6 draws of arguments agree" in out


BATCHED = module(*SINKS["scatter with batching dimensions"][:2], ADD)


def test_a_fault_where_all_indices_are_inside_is_found(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of updates are written together where all of their indices are inside."""
    Path("m.hlo").write_text(BATCHED.to_text())
    code, out, _ = check("m.hlo")
    assert code == 0 and "3 draws of arguments agree" in out
    true = Builder.at_lane
    monkeypatch.setattr(Builder, "at_lane", lambda b, index, vector, lane: true(b, index, None, lane))
    code, out, _ = check("m.hlo")
    assert (
        code == 1
        and "differs in draw" in out
        and "draw 1 (ordinary numbers, indices inside their bounds), seed 0" in out
    )


def test_draws_are_as_many_as_asked_for(check: Any) -> None:
    Path("m.hlo").write_text(BATCHED.to_text())
    assert "draws" not in check("m.hlo", "--draws", "1")[1]
    assert "4 draws of arguments agree" in check("m.hlo", "--draws", "4")[1]
    for name, array in drawn(BATCHED, ORDINARY).items():
        np.save(f"{name}.npy", array)
    code, out, _ = check("m.hlo", "--draws", "4", *(w for n in "xiu" for w in ("-i", f"{n}={n}.npy")))
    assert code == 0 and "draws" not in out, "nothing is drawn"


@pytest.mark.parametrize("opcode", ["rng-get-and-update-state", "rng"])
def test_a_generator_begins_anew_in_each_draw(check: Any, opcode: str) -> None:
    Path("m.hlo").write_text(
        module(
            "x: u64[2]",
            "a = u64[] constant(0) b = u64[] constant(1000) s = u64[2] "
            + {"rng": "rng(a, b), distribution=rng_uniform"}.get(opcode, f"{opcode}(), delta=3")
            + " ROOT r = u64[2] add(s, x)",
        ).to_text()
    )
    assert "3 draws of arguments agree" in check("m.hlo")[1]


DOUBLING = """HloModule m
double { s = (f32[2], s32[]) parameter(0)  x = f32[2] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1  one = s32[] constant(1)  m = s32[] add(n, one)
  y = f32[2] add(x, x)  ROOT r = (f32[2], s32[]) tuple(y, m) }
small { s = (f32[2], s32[]) parameter(0)  x = f32[2] get-tuple-element(s), index=0  f = f32[1] slice(x), slice={[0:1]}
  v = f32[] reshape(f)  c = f32[] constant(100)  ROOT p = pred[] compare(v, c), direction=LT }
ENTRY e { x = f32[2] parameter(0)  z = s32[] constant(0)  s = (f32[2], s32[]) tuple(x, z)
  ROOT w = (f32[2], s32[]) while(s), condition=small, body=double }
"""


def test_a_loop_that_does_not_end_for_some_numbers_gets_others(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It doubles a number until it is large: a negative one never is."""
    Path("m.hlo").write_text(DOUBLING)
    firsts = [drawn(Module.from_text(DOUBLING), Draw(number))["x"][0] for number in range(6)]
    assert min(firsts) < 0
    monkeypatch.setattr("xla_wasm.check.check._MOST_TRIPS", 300)
    code, out, err = check("m.hlo", "--draws", "6")
    assert (code, err) == (0, "") and "6 draws of arguments agree" in out


def test_long_loops_are_known_by_their_trips() -> None:
    m = loop("ROOT c = pred[] compare(i, n), direction=LT", UP, "a: s32[]", ZERO, "last = s32[] constant(300)")
    assert int(evaluate(m, *drawn(m, ORDINARY).values())[0]) == 300
    with pytest.raises(LimitError, match="while 'w': the program takes too many trips"):
        evaluate_with(m, [[*drawn(m, ORDINARY).values()]], [HostSide()], most_trips=299)
    evaluate_with(m, [[*drawn(m, ORDINARY).values()]], [HostSide()], most_trips=300)


def test_differences_that_rounding_explains_are_none(check: Any) -> None:
    """The cosine of a large sum: an error of its last bits is one of the first bits of the result."""
    text = module(
        "x: f32[4000]",
        """z = f32[] constant(0)  a = f32[] reduce(x, z), dimensions={0}, to_apply=add
        c = f32[] constant(3000)  d = f32[] multiply(a, c)  ROOT r = f32[] cosine(d)""",
        ADD,
    ).to_text()
    Path("m.hlo").write_text(text)
    code, out, _ = check("m.hlo", "--draws", "1")
    assert code == 0 and "ok, rounding errors grow" in out
    assert check("m.hlo", "--draws", "1", "--tolerance", "1e-5")[0] == 1


def test_run_draws_arguments_that_reach_the_program(xla_wasm: Cli) -> None:
    Path("m.hlo").write_text(BATCHED.to_text())
    for seed in range(3):
        code, _, err = xla_wasm("run", "m.hlo", "--random-inputs", "--seed", str(seed), "--output", "r.npy")
        assert (code, err) == (0, "")
        expected = evaluate(BATCHED, *drawn(BATCHED, Draw(0, seed)).values())
        np.testing.assert_array_equal(np.load("r.npy"), expected[0])
