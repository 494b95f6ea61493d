"""Random reductions of windows, short and long, of sizes on both sides of those at which they take another path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.differential import BOTH, TARGETS, differential
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import Window, WindowDimension
from xla_wasm.hlo.ir import Computation, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import array

TYPES = ("f32", "f32", "s32", "bf16", "f16", "s8", "u16", "f64", "s64", "pred")
REDUCERS = ("add", "add", "maximum", "minimum", "multiply", "turned")


def _reducer(names: list[str], dtypes: list[str]) -> Computation:
    """Returns the computation that combines each of several pairs of elements; "turned" gives the second of them."""
    f = Builder("combine")
    count = len(names)
    old, new = ([f.parameter(i + n * count, Shape(t)) for i, t in enumerate(dtypes)] for n in (0, 1))
    results = [
        new[i] if name == "turned" else f.op("xor" if dtypes[i] == "pred" else name, old[i], new[i])
        for i, name in enumerate(names)
    ]
    return f.build(f.op("tuple", *results) if count > 1 else results[0])


def _dimension(rng: np.random.Generator, size: int, long: bool) -> WindowDimension:
    """A window along a dimension of that size; a long one has most of its elements."""
    length = int(rng.integers(max(1, size // 4), size + 1)) if long else int(rng.choice([1, 1, 1, 2, 3]))
    stride = int(rng.choice([1, 1, 1, 2, 3]))
    low, high = (int(rng.choice([0, 0, 0, 1, length - 1])) for _ in range(2))
    base, dilation = (int(rng.choice([1] * 12 + [2])) for _ in range(2))
    missing = (length - 1) * dilation + 1 - ((size - 1) * base + 1 + low + high)
    return WindowDimension(length, stride, low, high + max(0, missing), dilation, base)


def random_windows(seed: int) -> tuple[Module, list[Array]]:
    """A reduce-window of one array or two, and its arguments: integers so small that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    dims = [int(rng.choice([1, 2, 3, 4, 5, 9, 16])) for _ in range(rank)]
    along = int(rng.integers(0, rank))
    dims[along] = int(rng.choice([5, 16, 33, 40, 64, 100]))
    alone = rng.random() < 0.5  # a window along one dimension, the others being batches
    window = Window(
        tuple(
            WindowDimension(1, 1) if alone and d != along else _dimension(rng, size, d == along and rng.random() < 0.7)
            for d, size in enumerate(dims)
        )
    )
    count = int(rng.choice([1, 1, 1, 2]))
    dtypes = [str(rng.choice(TYPES)) for _ in range(count)]
    names = [str(rng.choice(REDUCERS)) for _ in range(count)]
    b = Builder("windows")
    arguments: list[Array] = []
    for sizes in [dims] * count + [[]] * count:
        dtype = dtypes[len(arguments) % count]
        made = np.asarray(rng.integers(0 if dtype[0] in "up" else -1, 2, sizes))
        arguments.append(made % 2 == 0 if dtype == "pred" else array(dtype, made))
    parameters = [b.parameter(n, Shape(dtypes[n % count], a.shape)) for n, a in enumerate(arguments)]
    if rng.random() < 0.3 and dtypes[0] != "pred":
        parameters[0] = b.op("negate", parameters[0])
    return b.module(b.op("reduce-window", *parameters, called=[_reducer(names, dtypes)], window=window)), arguments


@pytest.mark.parametrize("seed", range(120))
def test_random_windows(seed: int) -> None:
    module, arguments = random_windows(seed)
    differential(module, *arguments, targets=[[*TARGETS][seed % len(TARGETS)]])


def random_select_and_scatter(seed: int) -> tuple[Module, list[Array]]:
    """A select-and-scatter, and its arguments."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["f32", "s32", "bf16", "f64", "s8"]))
    dims = [int(rng.choice([1, 2, 3, 5, 8, 9, 17])) for _ in range(rng.integers(1, 4))]
    window = Window(tuple(_dimension(rng, size, False) for size in dims))
    window = Window(tuple(replace(w, window_dilation=1, base_dilation=1) for w in window.dimensions))
    window = Window(tuple(replace(w, size=min(w.size, s + w.padding_low)) for w, s in zip(window.dimensions, dims)))
    places = [(s + w.padding_low + w.padding_high - w.size) // w.stride + 1 for w, s in zip(window.dimensions, dims)]
    arguments = [array(dtype, rng.integers(-3, 4, sizes)) for sizes in (dims, places, [])]
    b, select = Builder("pool"), Builder("select")
    x, y = (select.parameter(n, Shape(dtype)) for n in range(2))
    selects = select.build(select.op("compare", x, y, direction=str(rng.choice(["GE", "LE", "GT"]))))
    scatters = _reducer([str(rng.choice(["add", "add", "maximum", "turned"]))], [dtype])
    operands = [b.parameter(n, Shape(dtype, a.shape)) for n, a in enumerate(arguments)]
    return b.module(b.op("select-and-scatter", *operands, called=[selects, scatters], window=window)), arguments


@pytest.mark.parametrize("seed", range(60))
def test_random_selections(seed: int) -> None:
    module, arguments = random_select_and_scatter(seed)
    differential(module, *arguments, targets=[[*TARGETS][seed % len(TARGETS)]])


# --- computations that are more than one operation --------------------------------------------------------------------

_CALLED = """
once { n = f32[] parameter(0)  ROOT m = f32[] copy(n) }
twice { n = f32[] parameter(0)  ROOT m = f32[] add(n, n) }
more { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  k = s32[] constant(3)  ROOT c = pred[] compare(i, k), direction=LT }
half { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  v = f32[] get-tuple-element(p), index=1
  k = s32[] constant(1)  j = s32[] add(i, k)  h = f32[] constant(0.5)  w = f32[] multiply(v, h)
  ROOT t = (s32[], f32[]) tuple(j, w) }"""
_LOOP = """z = s32[] constant(0)  t = (s32[], f32[]) tuple(z, a)
  w = (s32[], f32[]) while(t), condition=more, body=half  u = f32[] get-tuple-element(w), index=1"""
_DIFFERENCE = "d = f32[] subtract(a, b)"

RUNNING = {
    "a constant": "ROOT r = f32[] constant(5)",
    "the sum so far": "ROOT r = f32[] copy(a)",
    "the element": "ROOT r = f32[] copy(b)",
    "is less": "c = pred[] compare(a, b), direction=LT  ROOT r = f32[] convert(c)",
    "is equal": "c = pred[] compare(a, b), direction=EQ  ROOT r = f32[] convert(c)",
    "is not equal": "c = pred[] compare(a, b), direction=NE  ROOT r = f32[] convert(c), sharding={replicated}",
    "magnitudes": "c = f32[] abs(a)  d = f32[] abs(b)  e = f32[] add(c, c)  ROOT r = f32[] subtract(e, d)",
    "magnitude of a difference": f"{_DIFFERENCE}  ROOT r = f32[] abs(d)",
    "a difference that equals itself": f"""{_DIFFERENCE}
      c = pred[] compare(d, d), direction=EQ  ROOT r = f32[] select(c, b, a)""",
    "a difference that is none, and one that is": f"""{_DIFFERENCE}
      n = pred[] compare(d, d), direction=NE  p = f32[] convert(n)  s = f32[] multiply(p, a)
      u = pred[] compare(a, b), direction=NE  q = f32[] convert(u)  v = f32[] multiply(q, b)
      ROOT r = f32[] add(s, v)""",
    "other functions of both": """t = pred[] compare(a, b), direction=EQ
      c = f32[] conditional(t, a, a), true_computation=twice, false_computation=twice
      d = f32[] conditional(t, b, b), true_computation=once, false_computation=once
      e = f32[] add(c, d)  k = f32[] constant(64)  ROOT r = f32[] remainder(e, k)""",
    "a loop": f"{_LOOP}  ROOT r = f32[] add(u, b)",
}
"""Reducers of a and b. Those that give the same for b and a are associative on 0 and 1, as XLA takes all to be."""


def _reduced(reducer: str, dims: str, out: str, window: str) -> str:
    return f"""HloModule m {_CALLED}
    reducer {{ a = f32[] parameter(0)  b = f32[] parameter(1)  {reducer} }}
    ENTRY e {{ x = f32[{dims}] parameter(0)  i = f32[] parameter(1)
      ROOT r = f32[{out}] reduce-window(x, i), window={{{window}}}, to_apply=reducer }}"""


@pytest.mark.parametrize("reducer", RUNNING)
@pytest.mark.parametrize("pads", ["19_0", "0_19"])
def test_running_windows_of_any_reducer(reducer: str, pads: str) -> None:
    """From the start and from the end, along the last dimension of a batch and along the first."""
    rng = np.random.default_rng(1)
    for dims, window in (("3,20", f"size=1x20 pad=0_0x{pads}"), ("20,3", f"size=20x1 pad={pads}x0_0")):
        x = rng.integers(0, 2, [int(n) for n in dims.split(",")]).astype(np.float32)
        differential(_reduced(RUNNING[reducer], dims, dims, window), x, np.float32(1))


@pytest.mark.parametrize("pads", ["19_0", "0_19"])
def test_running_windows_of_two_operands(pads: str) -> None:
    text = f"""HloModule m
    reducer {{ a = f32[] parameter(0)  b = s32[] parameter(1)  c = f32[] parameter(2)  d = s32[] parameter(3)
      e = f32[] subtract(a, c)  f = s32[] subtract(b, d)  ROOT r = (f32[], s32[]) tuple(e, f) }}
    ENTRY e {{ x = f32[3,20] parameter(0)  y = s32[3,20] parameter(1)  i = f32[] parameter(2)  j = s32[] parameter(3)
      ROOT r = (f32[3,20], s32[3,20]) reduce-window(x, y, i, j), window={{size=1x20 pad=0_0x{pads}}},
        to_apply=reducer }}"""
    x = np.random.default_rng(2).integers(-9, 9, (3, 20))
    differential(text, x.astype(np.float32), x.astype(np.int32) + 1, np.float32(1), np.int32(3), targets=BOTH)


@pytest.mark.parametrize(
    ("dims", "out", "window"),
    [("3,20", "3,18", "size=1x3"), ("3,0", "3,2", "size=1x3 pad=0_0x2_2"), ("0,5", "0,3", "size=1x3")],
)
@pytest.mark.parametrize("reducer", ["a loop", "the element"])
def test_windows_of_a_loop_and_of_nothing(reducer: str, dims: str, out: str, window: str) -> None:
    x = np.random.default_rng(3).integers(-9, 9, [int(n) for n in dims.split(",")]).astype(np.float32)
    differential(_reduced(RUNNING[reducer], dims, out, window), x, np.float32(1))


def test_windows_of_a_loop_over_two_operands() -> None:
    text = f"""HloModule m {_CALLED}
    reducer {{ a = f32[] parameter(0)  b = s32[] parameter(1)  c = f32[] parameter(2)  d = s32[] parameter(3)
      {_LOOP}  e = f32[] add(u, c)  f = s32[] add(b, d)  ROOT r = (f32[], s32[]) tuple(e, f) }}
    ENTRY e {{ x = f32[3,20] parameter(0)  y = s32[3,20] parameter(1)  i = f32[] parameter(2)  j = s32[] parameter(3)
      ROOT r = (f32[3,18], s32[3,18]) reduce-window(x, y, i, j), window={{size=1x3}}, to_apply=reducer }}"""
    x = np.random.default_rng(4).integers(-9, 9, (3, 20))
    differential(text, x.astype(np.float32), x.astype(np.int32) + 1, np.float32(1), np.int32(3))


@pytest.mark.parametrize(
    ("dims", "out", "window"),
    [
        ("", "", ""),
        ("3,5", "3,4", "window={size=1x2}, "),
        ("0,5", "0,4", "window={size=1x2}, "),
        ("3,1", "3,0", "window={size=1x2}, "),
        ("3,0", "3,2", "window={size=1x1 pad=0_0x1_1}, "),
    ],
)
@pytest.mark.parametrize("combine", ["ROOT r = f32[] add(a, b)", RUNNING["a loop"]], ids=["a sum", "a loop"])
def test_selections_from_a_scalar_and_from_nothing(combine: str, dims: str, out: str, window: str) -> None:
    text = f"""HloModule m {_CALLED}
    choose {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }}
    combine {{ a = f32[] parameter(0)  b = f32[] parameter(1)  {combine} }}
    ENTRY e {{ x = f32[{dims}] parameter(0)  y = f32[{out}] parameter(1)  i = f32[] parameter(2)
      ROOT r = f32[{dims}] select-and-scatter(x, y, i), {window}select=choose, scatter=combine }}"""
    rng = np.random.default_rng(5)
    x, y = (np.asarray(rng.integers(-9, 9, [int(n) for n in d.split(",") if n]), np.float32) for d in (dims, out))
    differential(text, x, y, np.float32(7), targets=BOTH)
