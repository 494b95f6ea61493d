"""Programs on both sides of what decides their plan: the same values as the evaluator's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import xla_wasm
from tests.support.closeness import Near, allclose, assert_same
from tests.support.differential import BOTH, differential
from xla_wasm import Options
from xla_wasm.compiler import trace
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.plan import memory, parts

Array = Any
RNG = np.random.default_rng(5)


def numbers(*dims: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Integers so small that sums are exact in any order."""
    return RNG.integers(-4, 5, dims).astype(dtype)


# --- kernels ----------------------------------------------------------------------------------------------------------


def _convolved(x: Array, k: Array) -> Array:
    labels = ("NHWC", "HWIO", "NHWC")
    groups = x.shape[-1] // k.shape[2]
    return lax.conv_general_dilated(x, k, (1, 1), "VALID", dimension_numbers=labels, feature_group_count=groups)


KERNELS: dict[str, tuple[Callable[..., Any], list[Any], Near]] = {
    "a converted matrix that is multiplied": (
        lambda a, v: a.astype(float) @ v,
        [numbers(64, 40, dtype="int8"), numbers(40)],
        assert_same,
    ),
    "and also a result": (
        lambda a, v: (a.astype(float) @ v, a.astype(float)),
        [numbers(64, 40, dtype="int8"), numbers(40)],
        assert_same,
    ),
    "and also read across": (
        lambda a, v: (a.astype(float) @ v, jnp.exp(a.astype(float)).T),
        [numbers(64, 40, dtype="int8"), numbers(40)],
        allclose(1e-6),
    ),
    "rows across": (lambda x, y: x.T + y.T, [numbers(24, 16), numbers(24, 16)], assert_same),
    "rows across from a place known at run time": (
        lambda x, y, i: x.T + lax.dynamic_slice(y, (i, i), (24, 16)).T,
        [numbers(24, 16), numbers(40, 40), np.int32(3)],
        assert_same,
    ),
    "rows across, in turn with others": (
        lambda x, y, i: x.T + lax.dynamic_slice(y.T, (i, i), (16, 24)),
        [numbers(24, 16), numbers(40, 40), np.int32(3)],
        assert_same,
    ),
    "a depthwise convolution": (
        lambda x, k, b: _convolved(x, k) + b,
        [numbers(2, 12, 12, 8), numbers(3, 3, 1, 8), numbers(2, 10, 10, 8)],
        assert_same,
    ),
}
"""Functions that kernels of one kind or another compute."""


@pytest.mark.parametrize("case", KERNELS)
def test_kernels(case: str) -> None:
    fn, arguments, near = KERNELS[case]
    differential(lower(fn, *arguments), *arguments, targets=BOTH, near=near)


def test_a_convolution_is_finished_in_other_lanes() -> None:
    """A sum of f64 has two lanes, the convolution four."""
    text = """HloModule m
    ENTRY e { x = f32[2,12,12,8] parameter(0)  k = f32[3,3,1,8] parameter(1)  b = f64[2,10,10,8] parameter(2)
      c = f32[2,10,10,8] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=8
      d = f64[2,10,10,8] convert(c)  ROOT r = f64[2,10,10,8] add(d, b) }"""
    differential(text, numbers(2, 12, 12, 8), numbers(3, 3, 1, 8), numbers(2, 10, 10, 8, dtype="float64"), targets=BOTH)


# --- moves ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "part", "taken", "padding"),
    [
        ("700", "350", "[0:700:2]", "0_1_1"),
        ("9,64", "9,32", "[0:9], [0:64:2]", "0_0x0_1_1"),
        ("64,9", "32,9", "[0:64:2], [0:9]", "0_1_1x0_0"),
        ("64,9", "63,9", "[1:64], [0:9]", "0_1x0_0"),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "s16"])
def test_elements_that_stay_with_gaps_between_them(dims: str, part: str, taken: str, padding: str, dtype: str) -> None:
    """They lie where they have to, but what is between them changes: no move of memory does that."""
    text = f"""HloModule m
    ENTRY e {{ x = {dtype}[{dims}] parameter(0)  c = {dtype}[{dims}] negate(x)
      s = {dtype}[{part}] slice(c), slice={{{taken}}}  z = {dtype}[] constant(7)
      p = {dtype}[{dims}] pad(s, z), padding={padding}  ROOT r = ({dtype}[{dims}], {dtype}[{dims}]) tuple(p, c) }}"""
    differential(
        text, numbers(*map(int, dims.split(",")), dtype={"f32": "float32", "s16": "int16"}[dtype]), targets=BOTH
    )


# --- memory -----------------------------------------------------------------------------------------------------------


def _many_buffers(rng: np.random.Generator) -> Module:
    """Sorted parts of each other, of many lengths, some of which are results."""
    lengths = [300, *(int(n) for n in rng.integers(1, 300, 40))]
    lines, alive = [], [0]
    for i, n in enumerate(lengths[1:], 1):
        j = int(rng.choice([j for j in range(i) if lengths[j] >= n]))
        lines.append(f"p{i} = f32[{n}] slice(v{j}), slice={{[0:{n}]}}")
        lines.append(f"v{i} = f32[{n}] sort(p{i}), dimensions={{0}}, to_apply=less")
        alive += [i] * (rng.random() < 0.3)
    shapes = ", ".join(f"f32[{lengths[i]}]" for i in alive)
    lines.append(f"ROOT r = ({shapes}) tuple({', '.join(f'v{i}' for i in alive)})")
    return Module.from_text(f"""HloModule m
    less {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }}
    ENTRY e {{ v0 = f32[300] parameter(0)
    {chr(10).join(lines)} }}""")


@pytest.mark.parametrize("seed", [10, 23])
def test_buffers_have_the_same_places_however_many_are_looked_at_together(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = _many_buffers(np.random.default_rng(seed))
    before = str(trace(module, Options()).plan)
    for run in (1, 2, 5):
        monkeypatch.setattr(memory, "_RUN", run)
        assert str(trace(module, Options()).plan) == before
    differential(module, numbers(300))


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, parts.MOST_CHUNKS])
def test_a_kernel_of_too_many_chunks_runs_on_one_thread(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_CHUNKS", most)
    x = numbers(200, 1000)
    differential(lower(lambda x: (jnp.cos(x), x.sum(-1)), x), x, targets=["threads"], near=allclose(1e-6, 1e-6))


def test_a_shared_kernel_reads_two_numbers_of_the_device() -> None:
    """They lie in one buffer."""
    text = """HloModule m
    ENTRY e { x = f32[200000] parameter(0)  p = u32[] partition-id()  q = u32[] replica-id()
      f = f32[] convert(p)  g = f32[] convert(q)  a = f32[200000] broadcast(f), dimensions={}
      b = f32[200000] broadcast(g), dimensions={}  c = f32[200000] add(x, a)  d = f32[200000] cosine(c)
      ROOT r = f32[200000] add(d, b) }"""
    differential(text, numbers(200000), targets=["threads"], near=allclose(1e-6, 1e-6))


# --- states and weights -----------------------------------------------------------------------------------------------


def test_a_state_is_read_after_its_update_and_what_the_host_sees_between() -> None:
    """Items come out in the order of the program."""
    module = Module.from_text("""HloModule m
    ENTRY e { s = f32[64,8] parameter(0)  x = f32[1,8] parameter(1)  k = s32[] constant(5)  z = s32[] constant(0)
      t = token[] after-all()  n = f32[64,8] dynamic-update-slice(s, x, k, z)
      o = token[] outfeed(n, t)  y = f32[1,8] negate(x)  p = token[] outfeed(y, o)
      r = f32[64,8] reverse(s), dimensions={0}
      ROOT q = (f32[64,8], f32[64,8]) tuple(n, r) }""")
    exe = xla_wasm.load(xla_wasm.compile(module, Options(state=((0, 0),))))
    held = numbers(64, 8)
    exe.set("s", held)
    for x in (numbers(1, 8), numbers(1, 8)):
        out: list[Any] = []
        (turned,) = exe.run(x, outfeed=out)
        np.testing.assert_array_equal(turned, held[::-1])
        held = held.copy()
        held[5] = x
        np.testing.assert_array_equal(out[0], held)
        np.testing.assert_array_equal(out[1], -x)
        np.testing.assert_array_equal(exe.get("s"), held)


def test_a_state_becomes_a_weight_in_the_run() -> None:
    """Not when the weight is set: until then it keeps what it was."""
    module = Module.from_text("""HloModule m
    ENTRY e { s = pred[8] parameter(0)  w = pred[8] parameter(1)  x = pred[8] parameter(2)
      y = pred[8] xor(s, x)  ROOT r = (pred[8], pred[8]) tuple(w, y) }""")
    exe = xla_wasm.load(xla_wasm.compile(module, Options(state=((0, 0),), weights=("w",))))
    held, x = RNG.random(8) < 0.5, RNG.random(8) < 0.5
    exe.set("s", held)
    for turn in range(3):
        weight = RNG.random(8) < 0.5
        exe.set("w", weight)
        np.testing.assert_array_equal(exe.get("s"), held)
        np.testing.assert_array_equal(exe.run(x)[0], held ^ x, f"run {turn}")
        np.testing.assert_array_equal(exe.get("s"), weight)
        held = weight


def test_the_host_sees_in_each_run_what_a_weight_decides() -> None:
    module = Module.from_text("""HloModule m
    ENTRY e { w = f32[64,8] parameter(0)  x = f32[64,8] parameter(1)  t = token[] after-all()
      v = f32[64,8] exponential(w)  o = token[] outfeed(v, t)  u = f32[64,8] cosine(v)
      ROOT r = f32[64,8] add(u, x) }""")
    exe = xla_wasm.load(xla_wasm.compile(module, Options(weights=("w",))))
    for scale in (1, -1):
        w, x = numbers(64, 8) * scale, numbers(64, 8)
        exe.set("w", w)
        for _ in range(2):
            out: list[Any] = []
            (found,) = exe.run(x, outfeed=out)
            np.testing.assert_allclose(out[0], np.exp(w), 1e-6)
            np.testing.assert_allclose(found, np.cos(np.exp(w)) + x, 1e-5, 1e-5)
