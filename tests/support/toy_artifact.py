"""A hand-written artifact that keeps the host's contract, so that hosts are tested without the compiler.

It computes y = 2 x + w + b + v, k' = k + 1, positive = x > 0 and a state `count` that each run increments. b comes from
a passive segment, v from the sidecar, w is a weight that `init` negates while "packing", so a test sees whether it ran.
x[0, 0] makes it misbehave: -1 traps, -2 never ends.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime

from xla_wasm.artifact import SECTION, Artifact, encode_manifest
from xla_wasm.wasm.encoding import named, sized

CONFIG, STEPS = 64, 128
X, Y, W, B, V, K, K_OUT, POSITIVE, COUNT, STAGING = 1024, 1088, 1152, 1216, 1280, 1344, 1352, 1408, 1472, 2048
SHAPE = (2, 3)
BIAS = 0.5
BIAS_BYTES = "".join(f"\\{byte:02x}" for byte in struct.pack("<f", BIAS))
SIDECAR = np.arange(6, dtype=np.float32).reshape(SHAPE) / 4

WAT = f"""
(module
  (memory (export "memory") 1 1)
  (data $bias "{BIAS_BYTES}")
  (func $init (export "init") (param $i i32) (local $p i32)
    (if (i32.eq (local.get $i) (i32.const 0)) (then
      (memory.init $bias (i32.const {B}) (i32.const 0) (i32.const 4)) (return)))
    (if (i32.eq (local.get $i) (i32.const 1)) (then
      (loop $next
        (f32.store offset={W} (local.get $p) (f32.neg (f32.load offset={STAGING} (local.get $p))))
        (local.set $p (i32.add (local.get $p) (i32.const 4)))
        (br_if $next (i32.lt_u (local.get $p) (i32.const 24))))
      (return)))
    (if (i32.eq (local.get $i) (i32.const 2)) (then
      (memory.copy (i32.const {V}) (i32.const {STAGING}) (i32.const 24)) (return)))
    unreachable)
  (func $affine (local $p i32)
    (if (f32.eq (f32.load (i32.const {X})) (f32.const -1)) (then unreachable))
    (if (f32.eq (f32.load (i32.const {X})) (f32.const -2)) (then (loop $ever (br $ever))))
    (loop $next
      (f32.store offset={Y} (local.get $p)
        (f32.add (f32.add (f32.mul (f32.load offset={X} (local.get $p)) (f32.const 2))
                          (f32.load offset={V} (local.get $p)))
                 (f32.sub (f32.load (i32.const {B})) (f32.load offset={W} (local.get $p)))))
      (i32.store8 offset={POSITIVE} (i32.shr_u (local.get $p) (i32.const 2))
        (f32.gt (f32.load offset={X} (local.get $p)) (f32.const 0)))
      (local.set $p (i32.add (local.get $p) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $p) (i32.const 24)))))
  (func $step (export "step") (param $pc i32) (result i32)
    (i32.store (i32.const {CONFIG}) (local.get $pc))
    (if (i32.eq (local.get $pc) (i32.const 0)) (then (call $affine) (return (i32.const 1))))
    (if (i32.eq (local.get $pc) (i32.const 1)) (then
      (i64.store (i32.const {K_OUT}) (i64.add (i64.load (i32.const {K})) (i64.const 1)))
      (return (i32.const 2))))
    (i32.store (i32.const {COUNT}) (i32.add (i32.load (i32.const {COUNT})) (i32.const 1)))
    (i32.const -1))
  (func (export "run") (result i32) (local $pc i32)
    (loop $next
      (local.set $pc (call $step (local.get $pc)))
      (br_if $next (i32.ge_s (local.get $pc) (i32.const 0))))
    (i32.const 0)))
"""


def leaf(
    name: str,
    element_type: str,
    dimensions: tuple[int, ...],
    offset: int,
    kind: str,
    layout: tuple[int, ...] | None = None,
) -> dict[str, Any]:
    """One entry of the manifest's parameters or results."""
    size = {"pred": 1, "s32": 4, "f32": 4, "s64": 8}[element_type]
    return {
        "name": name,
        "element_type": element_type,
        "dimensions": list(dimensions),
        "minor_to_major": list(range(len(dimensions))[::-1] if layout is None else layout),
        "offset": offset,
        "bytes": int(np.prod(dimensions, dtype=np.int64)) * size,
        "kind": kind,
    }


def toy_manifest(state: bool = True, column_major: bool = False) -> dict[str, Any]:
    """The manifest of the toy. Without `state` the counter is hidden; `column_major` turns the layout of x, y, w, v and
    positive over."""
    layout = (0, 1) if column_major else (1, 0)
    parameters = [
        leaf("x", "f32", SHAPE, X, "input", layout) | {"alias": None, "init": None},
        leaf("w", "f32", SHAPE, 0, "weight", layout) | {"alias": None, "init": 1},
        leaf("k", "s64", (), K, "input") | {"alias": None, "init": None},
    ]
    results = [
        leaf("y", "f32", SHAPE, Y, "output", layout),
        leaf("k_next", "s64", (), K_OUT, "output"),
        leaf("positive", "pred", SHAPE, POSITIVE, "output", layout),
    ]
    if state:
        parameters.append(leaf("count", "s32", (), COUNT, "state") | {"alias": 3, "init": None})
        results.append(leaf("count", "s32", (), COUNT, "state"))
    sidecar = {"staging": STAGING, "bytes": 24, "sidecar_offset": 0}
    return {
        "format": 1,
        "producer": "tests",
        "name": "toy",
        "hash": "00",
        "target": "simd128",
        "tune": "portable",
        "features": ["simd128"],
        "pages": 1,
        "peak_bytes": 4096,
        "parameters": parameters,
        "results": results,
        "inits": [
            {"index": 0, "kind": "segment", "name": "b", "staging": 0, "bytes": 4, "sidecar_offset": 0, "sha256": ""},
            {
                "index": 1,
                "kind": "weight",
                "name": "w",
                "staging": STAGING,
                "bytes": 24,
                "sidecar_offset": 0,
                "sha256": "",
            },
            {
                "index": 2,
                "kind": "sidecar",
                "name": "v",
                **sidecar,
                "sha256": hashlib.sha256(SIDECAR.tobytes()).hexdigest(),
            },
        ],
        "steps": {"address": STEPS, "count": 3, "entry_bytes": 32, "names": ["affine.1", "add.2", "count.3"]},
        "requests": [],
        "devices": None,
        "config": CONFIG,
        "request": 96,
    }


def with_manifest(wasm: bytes, manifest: Any) -> bytes:
    """A module with the manifest added as its custom section; bytes are taken as they are."""
    content = manifest if isinstance(manifest, bytes) else encode_manifest(manifest)
    return wasm + b"\0" + sized(named(SECTION) + content)


def toy(
    wat: str = WAT, manifest: dict[str, Any] | None = None, weights: bytes = SIDECAR.tobytes(), **options: bool
) -> Artifact:
    """The toy as an artifact."""
    manifest = copy.deepcopy(manifest or toy_manifest(**options))
    return Artifact(with_manifest(bytes(wasmtime.wat2wasm(wat)), manifest), manifest, weights)


def toy_expected(
    x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], k: int, sidecar: np.ndarray[Any, Any] = SIDECAR
) -> list[np.ndarray[Any, Any]]:
    """Returns the expected results of a run of the toy."""
    return [(x * 2 + sidecar + (np.float32(BIAS) + w)).astype(np.float32), np.array(k + 1, np.int64), x > 0]


def change(path: str, value: Any, manifest: dict[str, Any] | None = None) -> dict[str, Any]:
    """The toy's manifest, or another, with the value at a dotted path replaced, or removed if `value` is KeyError."""
    changed = copy.deepcopy(manifest or toy_manifest())
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = changed
    for part in parents:
        place = place[part]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return changed


# What a manifest may get wrong: where, the wrong value, and what the error says.
LIES: list[tuple[str, Any, str]] = [
    ("format", 4, "at format: this xla_wasm reads formats 1 to 3"),
    ("features", ["gc"], "does not know the feature 'gc'"),
    ("requests", ["all-reduce"], "requests\\[0\\]: expected an object"),
    ("pages", 2, "states 2 pages of memory, the module 1 to 1"),
    ("pages", 0, "at pages: expected an integer from 1 to 65536"),
    ("name", KeyError, "at name: it is missing"),
    ("steps", [], "at steps: expected an object"),
    ("steps.count", 4, "it is 4, the number of names 3"),
    ("steps.address", 65532, "reach beyond the memory"),
    ("config", 65536, "at config"),
    ("parameters.0.offset", 65516, r"parameters\[0\].offset: 24 bytes at 65516 would reach beyond"),
    ("parameters.0.offset", 1026, "not a multiple of 4"),
    ("parameters.0.offset", True, "expected an integer"),
    ("parameters.0.bytes", 20, r"f32\[2,3\] takes 24 bytes, not 20"),
    ("parameters.0.dimensions", [2, -3], "at parameters"),
    ("parameters.0.dimensions", [2**30, 2**30], "too large"),
    ("parameters.0.minor_to_major", [1, 1], "not a permutation"),
    ("parameters.0.element_type", "token", "not the type of an array"),
    ("parameters.0.kind", "output", "expected one of input, weight, state"),
    ("parameters.0.init", 1, "the input has 24 bytes, its init is for a weight of 24"),
    ("parameters.0.init", 9, "expected an integer from 0 to 2"),
    ("parameters.2.name", "x", "'x' names two parameters"),
    ("parameters.3.alias", 4, "from 0 to 3"),
    ("results.0.offset", 65530, "at results"),
    ("inits.1.bytes", 20, "the weight has 24 bytes, its init is for a weight of 20"),
    ("inits.2.staging", 65530, "reach beyond the memory"),
    ("inits.2.sidecar_offset", 4, "must have 28 bytes but has only 24"),
    ("inits.2.sha256", "00", "the weights of 'v' are not those"),
    ("inits", 3, "at inits: expected a list"),
]


def lying(artifact: Artifact, path: str, value: Any) -> bytes:
    """The module of an artifact whose manifest says something else in one place, which a dotted path names."""
    # The manifest is the last section, so that another one can take its place.
    content = encode_manifest(artifact.manifest)
    bare = artifact.wasm[: artifact.wasm.index(content)]
    section = b"\0" + sized(named(SECTION) + content)
    return with_manifest(bare[: len(bare) - (len(section) - len(content))], change(path, value, artifact.manifest))


def write_lies(artifact: Artifact, lies: Sequence[tuple[str, Any]], folder: Path) -> None:
    """Files of the artifact with manifests that say something else, and their names in `lies.json`."""
    names = [f"lie{i}.wasm" for i in range(len(lies))]
    for name, (path, value) in zip(names, lies):
        (folder / name).write_bytes(lying(artifact, path, value))
    (folder / "lies.json").write_text(json.dumps(names))


def safetensors(**arrays: np.ndarray[Any, Any]) -> bytes:
    """A file with these arrays, as the format's own library writes it."""
    names = {"float32": "F32", "int32": "I32", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "int8": "I8"}
    header, data = {}, b""
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": names[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data
