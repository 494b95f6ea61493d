"""The conversion of what callers give: as `jax.jit` has it without 64 bits, in each way in."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import xla_wasm
from xla_wasm import ArgumentError, HloModule, Options, evaluate
from xla_wasm.hlo.shape import Shape
from xla_wasm.host import buffers
from xla_wasm.host.fresh import FreshExecutable
from xla_wasm.host.leaf import Leaf

TEXT = """HloModule m

ENTRY e {
  x = f32[2,3] parameter(0)
  i = s32[2] parameter(1)
  u = u32[] parameter(2)
  c = c64[2] parameter(3)
  w = f32[2,3] parameter(4)
  s = s32[2] parameter(5)
  f = f32[2,3] custom-call(x), custom_call_target="same"
  y = f32[2,3] add(f, w)
  j = s32[2] add(i, s)
  ROOT r = (f32[2,3], s32[2], u32[], c64[2], s32[2]) tuple(y, i, u, c, j)
}
"""
WIDE = {
    "x": np.array([[1, 0.1, 1e300], [-1e300, np.nan, -0.0]]),
    "i": np.array([2**31 - 1, -(2**31)]),
    "u": np.uint64(2**32 - 1),
    "c": np.array([1 + 0.1j, 1e300]),
}
ZEROS = np.zeros((2, 3))


def turned(given: Any) -> Any:
    """The same numbers in column order and the other order of bytes."""
    made = np.array(given, order="F")
    return made.astype(made.dtype.newbyteorder(), order="K")


CALLS = {"same": lambda x: x.astype(">f8")}


def loaded(**options: Any) -> Any:
    made = Options(weights=("w",), state={"s": "result.4"}, host_calls=("same",), **options)
    return xla_wasm.load(xla_wasm.compile(HloModule.from_text(TEXT), made), custom_calls=CALLS)


def judged(given: Any, way: Callable[[Any], Any]) -> list[Any]:
    arrays = *(way(a) for a in given.values()), way(ZEROS), way(np.array([1, 2]))
    return evaluate(HloModule.from_text(TEXT), *arrays, custom_calls=CALLS)[:4]


def run_by_name(exe: Any, given: Any) -> list[Any]:
    return list(exe.run(given))


def call(exe: Any, given: Any) -> list[Any]:
    return list(exe(**given))


@pytest.mark.parametrize("way", [np.asarray, turned, jax.numpy.asarray])
@pytest.mark.parametrize("run", [run_by_name, call, lambda exe, given: exe.run(*given.values())])
def test_wide_arrays(run: Any, way: Any) -> None:
    """Inputs, weights, states, first values, what functions of the host give; and the evaluator likewise."""
    exe = loaded(initial={"s": turned([1, 2])})
    given = {name: way(value) for name, value in WIDE.items()}
    with jax.enable_x64(False):
        want = [np.asarray(jax.jit(lambda x: x)(np.asarray(value))) for value in WIDE.values()]
    exe.set("w", way(ZEROS))
    assert exe.get("s").tolist() == [1, 2]
    exe.set("s", way(np.array([1, 2])))
    for results in (run(exe, given), judged(WIDE, way)):
        for got, expected in zip(results, want, strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name, value", [("i", 2**31), ("i", -(2**31) - 1), ("u", 2**32), ("s", 2**40)])
def test_integers_that_do_not_fit(name: str, value: int) -> None:
    """JAX drops their high bits."""
    wrong = np.uint64(value) if name == "u" else np.array([0, value])
    message = rf"'{name}'.* is [su]32.*, and {value} in what is given does not fit; it takes integers from"
    exe = loaded()
    exe.set("w", ZEROS)
    with pytest.raises(ArgumentError, match=message):
        if name == "s":
            exe.set("s", wrong)
        exe.run({**WIDE, name: wrong})
    with pytest.raises(ArgumentError, match=message.replace("in what is given ", "(in what is given )?")):
        if name == "s":
            loaded(initial={"s": wrong})
        judged({**WIDE, name: wrong}, np.asarray)


@pytest.mark.parametrize("dtype", ["f2", "i4", "i8", "u1", "b1"])
def test_other_types_are_another_program(dtype: str) -> None:
    with pytest.raises(ArgumentError, match=r"argument 0 \('x'\) must be float32\[2,3\], got"):
        loaded().run({**WIDE, "x": np.ones((2, 3), dtype)})


def test_the_host_of_commands_and_servers_does_the_same() -> None:
    exe = FreshExecutable(
        xla_wasm.compile(HloModule.from_text(TEXT.replace('custom-call(x), custom_call_target="same"', "copy(x)")))
    )
    y, i, *_ = exe.run(*map(turned, WIDE.values()), turned(ZEROS), turned([0, 0]))
    assert y[0, 1] == np.float32(0.1) and np.isinf(y[0, 2]) and i.tolist() == WIDE["i"].tolist()


@pytest.mark.parametrize(
    ("element_type", "given", "want"),
    [
        ("f32", array.array("d", [1, 0.1]), [1.0, float(np.float32(0.1))]),
        ("f32", array.array("d", [1e300, -1e300]), [np.inf, -np.inf]),
        ("s32", array.array("q", [-(2**31), 5]), [-(2**31), 5]),
        ("u32", array.array("Q", [2**32 - 1, 0]), [2**32 - 1, 0]),
        ("s32", array.array("q", [2**31, 5]), None),
        ("u32", array.array("Q", [2**32, 5]), None),
        ("f32", array.array("q", [1, 2]), None),
        ("s32", array.array("d", [1, 2]), None),
    ],
)
def test_without_numpy(element_type: str, given: Any, want: Any) -> None:
    shape = Shape(element_type, (2,))
    slot = buffers.Slot(Leaf("a", element_type, (2,), (0,), 0, 8, "input", shape), "argument 0")
    if want is not None:
        assert slot.accept(given).tolist() == want
    else:
        with pytest.raises(ArgumentError, match=r"argument 0 (is [su]32, and \d+ in what is given|must be)"):
            slot.accept(given)
