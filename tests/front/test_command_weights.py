"""Commands: weights, large constants and states, in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import xla_wasm
from tests.support.bodies import npz
from tests.support.wasi_commands import B, as_bytes, command, identity, run
from xla_wasm import Options
from xla_wasm.hlo.ir import Module
from xla_wasm.host.arrays import dtype_of

WEIGHTS = """HloModule dense

ENTRY e {
  x = f32[4,8] parameter(0)
  w = f32[8,5] parameter(1)
  b = bf16[5] parameter(2)
  y = f32[4,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[5] convert(b)
  d = f32[4,5] broadcast(c), dimensions={1}
  ROOT r = f32[4,5] add(y, d)
}
"""
COUNTER = """HloModule counter

ENTRY e {
  n = s32[2] parameter(0)
  x = s32[2] parameter(1)
  m = s32[2] add(n, x)
  k = s32[2] negate(m)
  ROOT r = (s32[2], s32[2]) tuple(m, k)
}
"""


def safetensors(header: dict[str, Any], content: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def dense_weights() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    w = np.sin(np.arange(40, dtype=np.float32)).reshape(8, 5)
    return x, w, np.arange(5).astype(dtype_of("bf16"))


def test_weights_from_files(tmp_path: Path) -> None:
    x, w, b = dense_weights()
    options: dict[str, Any] = {"weights": ("w", "b")}
    exe = xla_wasm.load(xla_wasm.compile(Module.from_text(WEIGHTS), Options(**options)))
    exe.set("w", w)
    exe.set("b", b)
    (expected,) = exe.run(x)
    made = command(WEIGHTS, **options)
    header = {
        "__metadata__": {"format": "pt", "note": 'a "quoted" {brace}'},
        "unused": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "BF16", "shape": [5], "data_offsets": [4, 14]},
        "w": {"data_offsets": [16, 176], "shape": [8, 5], "dtype": "F32"},
    }
    content = bytes(4) + b.tobytes() + bytes(2) + w.tobytes()
    files = {
        "x.npy": x,
        "w.safetensors": safetensors(header, content),
        "w.npz": npz(w=w, b=b.view("V2")),
        "w.npy": w,
        "b.npy": b.view("V2"),
    }
    for given in (
        ["--weights", "w.safetensors"],
        ["--weights=w.npz"],
        ["--w", "w.npy", "--b", "b.npy"],
        ["--w", "w.npy", "--weights", "w.npz"][:2] + ["--b=b.npy"],
    ):
        y = run(made, tmp_path / "x", *given, "x.npy", "-o", "y.npy", files=files).array("y.npy")
        assert as_bytes(y) == as_bytes(expected)
    beside = run(
        made, tmp_path / "y", "x.npy", "-o", "y.npy", files={"x.npy": x, "m.safetensors": files["w.safetensors"]}
    )
    assert as_bytes(beside.array("y.npy")) == as_bytes(expected)
    missing = run(made, tmp_path / "z", "x.npy", files=files)
    assert missing.code == 2 and missing.err.startswith(
        "dense: w: this weight is missing: name a file with --weights\n"
    )
    for entry, message in (
        ({"dtype": "F16"}, "weight w f32[8,5]: the file has this as another type"),
        ({"shape": [5, 8]}, "weight w f32[8,5]: this has [5,8]"),
        ({"data_offsets": [16, 170]}, "this is not a safetensors file, or its header is damaged"),
        ({"data_offsets": [160, 320]}, "weight w f32[8,5]: the data end too early"),
    ):
        damaged = safetensors({"w": header["w"] | entry}, content)  # type: ignore[operator]
        done = run(
            made, tmp_path / "z", "x.npy", "--weights", "d.safetensors", files={"x.npy": x, "d.safetensors": damaged}
        )
        assert (done.code, done.err) == (1, f"dense: d.safetensors: {message}\n")


def test_the_sidecar(tmp_path: Path) -> None:
    x, w, _ = dense_weights()
    text = (
        f"""HloModule s

ENTRY e {{
  x = f32[4,8] parameter(0)
  w = f32[8,80] constant({np.tile(w, (1, 16)).tolist()})
  ROOT y = f32[4,80] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""".replace("[[", "{ {")
        .replace("], [", "}, {")
        .replace("]]", "} }")
        .replace("constant(", "constant(")
    )
    plain = xla_wasm.compile(Module.from_text(text), Options(sidecar=True))
    made = command(text, sidecar=True)
    assert len(made.weights) == 8 * 80 * 4 and len(made.wasm) < 60_000
    (expected,) = xla_wasm.load(plain).run(x)
    for name, given in (("m.weights", []), ("other", ["--sidecar", "other"])):
        done = run(made, tmp_path / name, "x.npy", *given, "-o", "y.npy", files={"x.npy": x, name: made.weights})
        assert as_bytes(done.array("y.npy")) == as_bytes(expected)
    short = run(made, tmp_path / "x", "x.npy", files={"x.npy": x, "m.weights": made.weights[:-1]})
    assert (short.code, short.err) == (1, "s: m.weights: this file is cut short, or that of another model\n")
    wrong = run(made, tmp_path / "x", "x.npy", files={"x.npy": x, "m.weights": bytes(len(made.weights))})
    assert (wrong.code, wrong.err) == (1, "s: m.weights: this file is damaged, or that of another model\n")
    none = run(made, tmp_path / "z", "x.npy", files={"x.npy": x})
    assert (none.code, none.err) == (1, "s: m.weights: there is no such file\n")
    assert run(command(identity("f32[]")), tmp_path / "x", "-", "--sidecar", "f", stdin=b"1").code == 2


def test_states_go_on_from_run_to_run(tmp_path: Path) -> None:
    made = command(COUNTER, state={"n": 0})
    assert run(made, tmp_path / "x", "-", "--repeat", "3", stdin=b"1 10").json == {"result.1": [-3, -30]}
    assert run(made, tmp_path / "x", "-", "--n", "n.npy", files={"n.npy": B[:2]}, stdin=b"1 10").json == {
        "result.1": [-2, -8]
    }
