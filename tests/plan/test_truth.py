"""Truth values in bytes other than 0 and 1, as a canvas or a view of bytes has them: any but 0 is true, wherever they
come in, and what comes out is 0 or 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.node_host import run_in_node
from xla_wasm import HloModule, Options, evaluate
from xla_wasm.safetensors import bind, read, save

Array = np.ndarray[Any, Any]
BYTES = np.array([0, 0, 1, 2, 4, 127, 128, 254, 255], np.uint8)
SIZES = (1, 3, 16, 67)
PROGRAMS = {
    "parameter": "ROOT p = pred[N] parameter(0)",
    "copy": "p = pred[N] parameter(0)\nROOT r = pred[N] copy(p)",
    "tuple": "p = pred[N] parameter(0)\nROOT r = (pred[N], pred[N], pred[N]) tuple(p, p, p)",
    "not": "p = pred[N] parameter(0)\nROOT r = pred[N] not(p)",
    "select in two lanes": "p = pred[N] parameter(0)\nx = f64[N] parameter(1)\ny = f64[N] negate(x)\n"
    "ROOT r = f64[N] select(p, x, y)",
    "select in four lanes": "p = pred[N] parameter(0)\nx = f32[N] parameter(1)\ny = f32[N] negate(x)\n"
    "ROOT r = f32[N] select(p, x, y)",
    "select in eight lanes": "p = pred[N] parameter(0)\nx = s16[N] parameter(1)\ny = s16[N] negate(x)\n"
    "ROOT r = s16[N] select(p, x, y)",
    "select in sixteen lanes": "p = pred[N] parameter(0)\nx = s8[N] parameter(1)\ny = s8[N] negate(x)\n"
    "ROOT r = s8[N] select(p, x, y)",
    "compare": "p = pred[N] parameter(0)\nq = pred[N] parameter(1)\nROOT r = pred[N] compare(p, q), direction=EQ",
    "sum": "p = pred[N] parameter(0)\nc = s32[N] convert(p)\nz = s32[] constant(0)\n"
    "ROOT r = s32[] reduce(c, z), dimensions={0}, to_apply=add",
    "any": "p = pred[N] parameter(0)\nz = pred[] constant(false)\n"
    "ROOT r = pred[] reduce(p, z), dimensions={0}, to_apply=or",
    "reverse": "p = pred[N] parameter(0)\nROOT r = pred[N] reverse(p), dimensions={0}",
    "reshape": "p = pred[N] parameter(0)\nROOT r = pred[1,N] reshape(p)",
    "transpose": "p = pred[N,9] parameter(0)\nROOT r = pred[9,N] transpose(p), dimensions={1,0}",
    "across": "p = pred[N,9] parameter(0)\nt = pred[9,N] transpose(p), dimensions={1,0}\nROOT r = s32[9,N] convert(t)",
    "every third": "p = pred[N,3] parameter(0)\ns = pred[N,1] slice(p), slice={[0:N],[1:2]}\n"
    "ROOT r = f32[N,1] convert(s)",
    "concatenate": "p = pred[N] parameter(0)\nq = pred[N] parameter(1)\n"
    "a = pred[N,1] reshape(p)\nb = pred[N,1] reshape(q)\n"
    "ROOT r = pred[N,2] concatenate(a, b), dimensions={1}",
    "shift": "p = pred[2048] parameter(0)\nq = pred[N] parameter(1)\n"
    "s = pred[REST] slice(p), slice={[N:2048]}\nROOT r = pred[2048] concatenate(s, q), dimensions={0}",
    "update": "p = pred[N] parameter(0)\nq = pred[1] parameter(1)\ni = s32[] parameter(2)\n"
    "ROOT r = pred[N] dynamic-update-slice(p, q, i)",
    "gather": "p = pred[N] parameter(0)\ni = s32[3,1] parameter(1)\nROOT r = pred[3] gather(p, i), offset_dims={}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
    "sort": "p = pred[N] parameter(0)\nx = f32[N] parameter(1)\n"
    "ROOT r = (pred[N], f32[N]) sort(p, x), dimensions={0}, to_apply=less, is_stable=true",
    "product": "p = pred[N,3] parameter(0)\nq = pred[3,N] parameter(1)\n"
    "ROOT r = pred[N,N] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "branch": "c = pred[] parameter(0)\np = pred[N] parameter(1)\n"
    "ROOT r = pred[N] conditional(c, p, p), true_computation=same, false_computation=other",
    "loop": "i = s32[] parameter(0)\np = pred[N] parameter(1)\nq = pred[N] parameter(2)\n"
    "s = (s32[], pred[N], pred[N]) tuple(i, p, q)\n"
    "ROOT r = (s32[], pred[N], pred[N]) while(s), condition=again, body=step",
    "a function of the host": "p = pred[N] parameter(0)\n"
    'ROOT r = (pred[N], s32[N]) custom-call(p), custom_call_target="odd"',
}
CALLED = """HloModule m

or {
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT c = pred[] or(a, b)
}

add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}

less {
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  x = f32[] parameter(2)
  y = f32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=LT
}

same {
  ROOT p = pred[N] parameter(0)
}

other {
  p = pred[N] parameter(0)
  ROOT q = pred[N] not(p)
}

again {
  s = (s32[], pred[N], pred[N]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT t = pred[] compare(i, k), direction=LT
}

step {
  s = (s32[], pred[N], pred[N]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  p = pred[N] get-tuple-element(s), index=1
  q = pred[N] get-tuple-element(s), index=2
  k = s32[] constant(1)
  j = s32[] add(i, k)
  ROOT t = (s32[], pred[N], pred[N]) tuple(j, q, p)
}

ENTRY e {
BODY
}
"""


def module(name: str, n: int) -> HloModule:
    text = CALLED.replace("BODY", PROGRAMS[name]).replace("REST", str(2048 - n)).replace("[N", f"[{n}")
    return HloModule.from_text(text.replace("N]", f"{n}]").replace("N:", f"{n}:").replace(":N", f":{n}"))


def truth(array: Array) -> Array:
    return np.asarray(array.view(np.uint8) != 0) if array.dtype == np.bool_ else array


def odd(*dimensions: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).choice(BYTES, dimensions).view(np.bool_)


def given(program: HloModule) -> list[Array]:
    """Arguments, of which truth values are any bytes."""
    made = []
    for i, p in enumerate(program.entry.parameters):
        count = p.shape.size
        dtype = {"pred": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "f32": np.float32}.get(
            p.shape.element_type, np.float64
        )
        array = odd(count, seed=i) if dtype is np.bool_ else np.arange(count).astype(dtype)
        made.append(array.reshape(p.shape.dimensions))
    return made


def same(results: list[Array], expected: list[Array]) -> None:
    """Byte by byte: truth values are 0 and 1."""
    assert [(r.shape, r.dtype, r.tobytes()) for r in results] == [(e.shape, e.dtype, e.tobytes()) for e in expected]


def odd_call(p: Array) -> tuple[Array, Array]:
    """A function of the host, which gets 0 and 1 and returns other bytes."""
    assert set(p.view(np.uint8).ravel().tolist()) <= {0, 1}
    return (p.view(np.uint8) * np.uint8(200)).view(np.bool_), p.astype(np.int32)


@pytest.mark.parametrize("target", [{}, {"target": "relaxed-simd", "tune": "v8"}], ids=["simd128", "v8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_byte_is_true(name: str, target: dict[str, Any]) -> None:
    calls, options = {"odd": odd_call}, Options(host_calls=("odd",) if "odd" in PROGRAMS[name] else (), **target)
    for n in SIZES:
        program = module(name, n)
        arrays = given(program)
        expected = [truth(e) for e in evaluate(program, *map(truth, arrays), custom_calls=calls)]
        same([truth(r) for r in evaluate(program, *arrays, custom_calls=calls)], expected)
        same(xla_wasm.load(xla_wasm.compile(program, options), custom_calls=calls).run(*arrays), expected)


IN_NODE = ("parameter", "not", "sum", "select in four lanes", "select in sixteen lanes", "concatenate")


@pytest.mark.parametrize("name", IN_NODE)
def test_in_javascript(name: str, tmp_path: Path) -> None:
    """A Uint8Array of a canvas, whose bytes are 0 and 255."""
    program = module(name, 67)
    arrays = given(program)
    (results,) = run_in_node(xla_wasm.compile(program), [arrays], tmp_path)
    same(results, [truth(e) for e in evaluate(program, *map(truth, arrays))])


HELD = """HloModule m

ENTRY e {
  w = pred[9] parameter(0)
  s = pred[9] parameter(1)
  x = f32[9] parameter(2)
  y = f32[9] negate(x)
  z = f32[9] select(w, x, y)
  a = pred[9] reverse(s), dimensions={0}
  ROOT r = (pred[9], f32[9], pred[9], pred[9]) tuple(a, z, w, s)
}
"""


def test_weights_states_and_files(tmp_path: Path) -> None:
    program, w, s, x = HloModule.from_text(HELD), BYTES.view(np.bool_), odd(9, seed=3), np.arange(9, dtype=np.float32)
    expected = [truth(e) for e in evaluate(program, truth(w), truth(s), x)]
    exe = xla_wasm.load(xla_wasm.compile(program, Options(weights=("w",), state=(("s", "result.0"),))))
    np.save(tmp_path / "w.npy", w)
    for weight in (w, tmp_path / "w.npy"):
        exe.set("w", weight)
        exe.set("s", s)
        same(exe.run(x), expected[1:])
        same([exe.get("s")], expected[:1])
    begun = xla_wasm.compile(program, Options(weights=("w",), state=(("s", "result.0"),), initial={"s": s}))
    with xla_wasm.load(begun) as exe:
        exe.set("w", w)
        same(exe.run(x), expected[1:])
    save(tmp_path / "w.safetensors", {"w": w, "s": s})
    program.frontend_attributes["xla_wasm.parameter_names"] = '["p.w", "p.s", "x"]'
    bind(program, read(tmp_path / "w.safetensors"), "p.")
    same(evaluate(program, x), expected)
    same(xla_wasm.load(xla_wasm.compile(program)).run(x), expected)


def test_what_is_fed_and_physical_bytes() -> None:
    fed = HloModule.from_text("""HloModule m

ENTRY e {
  t = token[] after-all()
  i = (pred[9], token[]) infeed(t)
  p = pred[9] get-tuple-element(i), index=0
  o = token[] outfeed(p, t), outfeed_shape=pred[9]
  ROOT r = (pred[9], pred[9]) tuple(p, p)
}
""")
    out: list[Array] = []
    results = xla_wasm.load(xla_wasm.compile(fed)).run(infeed=[BYTES.view(np.bool_)], outfeed=out)
    same([*results, *out], [truth(BYTES.view(np.bool_))] * 3)
    packed = xla_wasm.load(xla_wasm.compile(module("not", 9)), physical=True).run(BYTES.tobytes())[0]
    assert packed.tolist() == (BYTES == 0).tolist()


def test_what_other_devices_send() -> None:
    program = HloModule.from_text("""HloModule m, num_partitions=2

ENTRY e {
  p = pred[9] parameter(0)
  q = pred[9] collective-permute(p), source_target_pairs={{0,1},{1,0}}, channel_id=1
  g = pred[18] all-gather(p), dimensions={0}, replica_groups={{0,1}}, channel_id=2, use_global_device_ids=true
  n = pred[9] not(q)
  ROOT r = (pred[9], pred[18], pred[9]) tuple(q, g, n)
}
""")
    first, second = BYTES.view(np.bool_), odd(9, seed=3)
    results = xla_wasm.load(xla_wasm.compile(program)).run_replicated([[first], [second]])
    a, b = truth(first), truth(second)
    same(results[0], [b, np.concatenate([a, b]), ~b])
    same(results[1], [a, np.concatenate([a, b]), ~a])


def test_views_of_memory() -> None:
    exe = xla_wasm.load(xla_wasm.compile(module("select in four lanes", 9)))
    exe.input("p").view(np.uint8)[...] = BYTES
    x = np.arange(9, dtype=np.float32)
    exe.input("x")[...] = x
    same(exe.run(exe.input("p"), exe.input("x")), [np.where(BYTES != 0, x, -x)])
