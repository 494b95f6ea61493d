"""Results that go into arrays of the caller."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xla_wasm
from xla_wasm import ArgumentError, RunError
from xla_wasm.hlo.ir import Module
from xla_wasm.host.arrays import dtype_of

TWO = """HloModule m, entry_computation_layout={(f32[2,3]{1,0})->(f32[3,2]{0,1}, pred[2,3]{1,0})}
ENTRY e {
  x = f32[2,3] parameter(0)
  t = f32[3,2] transpose(x), dimensions={1,0}
  z = f32[] constant(0)
  zs = f32[2,3] broadcast(z), dimensions={}
  p = pred[2,3] compare(x, zs), direction=GT
  ROOT r = (f32[3,2], pred[2,3]) tuple(t, p)
}
"""
X = np.array([[1, -2, 3], [-4, 5, 0]], np.float32)


def exe(text: str = TWO, **options: Any) -> xla_wasm.Executable:
    return xla_wasm.load(xla_wasm.compile(Module.from_text(text)), **options)


def test_results_are_written_into_the_arrays() -> None:
    ready = exe()
    out = [np.empty((3, 2), np.float32), np.empty((2, 3), bool)]
    for scale in (1, -2):
        made = ready.run(X * scale, out=out)
        assert made[0] is out[0] and made[1] is out[1]
        np.testing.assert_array_equal(out[0], X.T * scale)
        np.testing.assert_array_equal(out[1], X * scale > 0)


def test_any_strides_will_do_and_inputs_too() -> None:
    room = np.full((7, 8), 9, np.float32)
    target = room[1:4, ::4]
    exe().run(X, out=(target, np.empty((3, 2), bool).T))
    np.testing.assert_array_equal(target, X.T)
    assert (room == 9).sum() == 56 - 6
    same = np.arange(4, dtype=np.float32)
    twice = exe(
        "ENTRY e {\n x = f32[4] parameter(0)\n y = f32[4] reverse(x), dimensions={0}\n ROOT s = f32[4] add(x, y)\n}"
    )
    twice.run(same, out=[same])
    np.testing.assert_array_equal(same, [3, 3, 3, 3])


@pytest.mark.parametrize("element_type", ["bf16", "f8e4m3fn", "s4", "u2", "c64", "s64"])
def test_all_types(element_type: str) -> None:
    ready = exe(f"ENTRY e {{\n x = {element_type}[3] parameter(0)\n ROOT y = {element_type}[3] copy(x)\n}}")
    given, out = np.array([0, 1, 1]).astype(dtype_of(element_type)), np.zeros(3, dtype_of(element_type))
    ready.run(given, out=[out])
    assert out.tobytes() == given.tobytes()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ([], "out is a list of 2 arrays, one for each result"),
        (np.empty((3, 2), np.float32), "not one ndarray"),
        ([np.empty((3, 2), np.float64), np.empty((2, 3), bool)], "needs an array of float32[3,2], got float64[3,2]"),
        ([np.empty((2, 3), np.float32), np.empty((2, 3), bool)], "got float32[2,3]"),
        ([[[0] * 2] * 3, np.empty((2, 3), bool)], "got list"),
        ([np.broadcast_to(np.float32(0), (3, 2)), np.empty((2, 3), bool)], "cannot be written to"),
    ],
)
def test_arrays_that_do_not_fit(out: Any, message: str) -> None:
    ready = exe()
    with pytest.raises(ArgumentError, match=re.escape(message)):
        ready.run(X, out=out)
    assert len(ready.run(X)) == 2


def test_dynamic_and_physical_results_are_refused() -> None:
    dynamic = exe("ENTRY e {\n x = f32[<=4] parameter(0)\n ROOT y = f32[<=4] negate(x)\n}")
    with pytest.raises(ArgumentError, match="out takes no arrays with dynamic dimensions"):
        dynamic.run(np.zeros(2, np.float32), out=[np.zeros(2, np.float32)])
    with pytest.raises(ArgumentError, match="out goes with logical arrays only"):
        exe(physical=True).run(X.tobytes(), out=[np.zeros(24, np.uint8), np.zeros(6, np.uint8)])


def test_a_run_that_fails_leaves_them() -> None:
    text = (
        "ENTRY e {\n x = f32[3] parameter(0)\n ROOT y = f32[3] custom-call(x), "
        'custom_call_target="xla_ffi_python_cpu_callback"\n}'
    )
    out = [np.full(3, 7, np.float32)]
    with pytest.raises(RunError, match="not here"):
        exe(text).run(np.zeros(3, np.float32), out=out)
    np.testing.assert_array_equal(out[0], 7)
