"""Safetensors files that xla_wasm writes: what they hold is read back, by it and by the format's own rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xla_wasm
from tests.support.paths import ROOT
from xla_wasm import ArgumentError, ParseError, safetensors

Array = np.ndarray[Any, Any]


def arrays() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        "params.w": rng.standard_normal((6, 40)).astype(np.float32),
        "params.b": rng.standard_normal(40).astype(np.float32),
        "params.tap": rng.standard_normal((3, 3, 4, 8)).astype(np.float32),
        "count": np.array(7, np.int32),
        "mask": np.array([True, False]),
        "empty": np.zeros((0, 4), np.float32),
        "small": rng.standard_normal((2, 2)).astype(ml_dtypes.bfloat16),
    }


@pytest.mark.parametrize("form", safetensors.FORMATS)
def test_what_is_written_is_read(form: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    safetensors.save(path, arrays(), form)
    tensors = safetensors.read(path)
    step = {"f32": 0, "f16": 2**-11, "bf16": 2**-8, "int8": 1 / 254}[form]
    for name, array in arrays().items():
        found = safetensors.widened(tensors, name, path)
        assert found.shape == array.shape
        if array.dtype != np.float32 or array.ndim < 2:
            assert found.dtype == array.dtype and found.tobytes() == array.tobytes()
            continue
        most = np.abs(array).max(tuple(range(array.ndim - 1)), initial=0) if form == "int8" else np.abs(array)
        assert (np.abs(found.astype(np.float32) - array) <= step * most * 1.001).all()
    names = {"f32": 0, "f16": 0, "bf16": 0, "int8": 3}
    assert len(tensors) == len(arrays()) + names[form]


def test_the_file_is_aligned_and_scales_come_first(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    safetensors.save(path, arrays(), {"*": "f16", "params.w": "int8"})
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert (8 + length) % 8 == 0
    widths = {"F32": 4, "F16": 2, "BF16": 2, "I8": 1, "I32": 4, "BOOL": 1}
    for entry in header.values():
        assert entry["data_offsets"][0] % widths[entry["dtype"]] == 0
    assert header["params.w.scale"]["data_offsets"][1] <= header["params.w"]["data_offsets"][0]
    assert {name: entry["dtype"] for name, entry in header.items()} == {
        "params.w": "I8",
        "params.w.scale": "F32",
        "params.b": "F32",
        "params.tap": "F16",
        "count": "I32",
        "mask": "BOOL",
        "empty": "F16",
        "small": "BF16",
    }


def test_numbers_of_8_bits_are_kept_when_they_are_stored_again(tmp_path: Path) -> None:
    """So a file in int8 and `weight_format="int8"` round once."""
    first, second = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    w = np.random.default_rng(1).standard_normal((64, 33)).astype(np.float32)
    safetensors.save(first, {"w": w}, "int8")
    safetensors.save(second, {"w": safetensors.widened(safetensors.read(first), "w", first)}, "int8")
    assert bytes(safetensors.read(first)["w"].data) == bytes(safetensors.read(second)["w"].data)


def test_bound_parameters_leave_aliases_and_donors(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    safetensors.save(path, {"x": np.arange(4, dtype=np.float32)})
    module = xla_wasm.HloModule.from_text("""
        HloModule m, input_output_alias={ {0}: (2, {}, may-alias), {1}: (0, {}, may-alias) },
          buffer_donor={ (1, {}) }, frontend_attributes={xla_wasm.parameter_names="[\\"w.x\\",\\"a\\",\\"b\\"]"}
        ENTRY e {
          w = f32[4] parameter(0)
          a = f32[4] parameter(1)
          b = f32[4] parameter(2)
          s = f32[4] add(w, b)
          u = f32[4] multiply(a, s)
          ROOT r = (f32[4], f32[4]) tuple(s, u)
        }""")
    safetensors.bind(module, safetensors.read(path), "w.")
    assert module.input_output_alias == [((0,), 1, (), "may-alias")] and module.buffer_donor == [(0, ())]
    s, u = xla_wasm.load(xla_wasm.compile(module)).run(np.full(4, 2, np.float32), np.ones(4, np.float32))
    assert s.tolist() == [1, 2, 3, 4] and u.tolist() == [2, 4, 6, 8]


def test_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(
        ArgumentError, match="no format 'int5' of a safetensors file: expected one of f32, f16, bf16, int8"
    ):
        safetensors.save(path, arrays(), {"params.*": "int5"})
    with pytest.raises(ArgumentError, match="'w' has numbers that are not finite, which int8 cannot hold"):
        safetensors.save(path, {"w": np.full((2, 2), np.inf, np.float32)}, "int8")
    with pytest.raises(ArgumentError, match="'z' is complex64, which safetensors files do not have"):
        safetensors.save(path, {"z": np.zeros(2, np.complex64)})
    assert not path.exists()
    safetensors.save(path, {"w": np.ones((2, 2), np.int8), "w.scale": np.ones((3, 1), np.float32)})
    with pytest.raises(ParseError, match=r"the scales of 'w' are \[3, 1\], which does not fit \[2, 2\]"):
        safetensors.widened(safetensors.read(path), "w", path)


def test_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of docs/weight_formats.md run, and write a quantised weight with its scale."""
    text = (ROOT / "docs" / "weight_formats.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in text.split("```python\n")[1:]:
        exec(block.split("```")[0], names)
    assert set(safetensors.read(tmp_path / "model.safetensors")) == {"w", "w.scale", "b"}
