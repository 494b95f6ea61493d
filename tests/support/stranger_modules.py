"""Modules and manifests of strangers, who may write what they like."""

from __future__ import annotations

import copy
from typing import Any

import wasmtime

from tests.support.toy_artifact import leaf

NOBODY = {"offset": 256, "count": 0}
EXCHANGE = {
    "kind": "exchange",
    "name": "e",
    "opcode": "all-gather",
    "channel": 0,
    "buffered": False,
    "sends": [],
    "receives": [],
}
EXCHANGE |= {"to": NOBODY, "from": NOBODY}
CUSTOM = {"kind": "custom_call", "name": "c", "target": "f", "opaque": "", "operands": [], "results": []}
OUTFEED = {"kind": "outfeed", "name": "o", "target": "", "opaque": "", "operands": [], "results": []}
ENDLESS = "(loop $ever (br $ever))"
DOUBLE = """(i32.store (i32.const 64) (i32.const 0))
  (f32.store (i32.const 1100) (f32.mul (f32.const 2) (f32.load (i32.const 1028))))"""


def module(
    run: str = "(i32.const 0)",
    step: str = "(i32.const -1)",
    init: str = "",
    memory: str = "1 1",
    start: str = "",
    body: str = "",
    more: str = "",
) -> bytes:
    """A module of one page that doubles the middle one of three numbers, unless something else is said; `y` lies at
    1096, `x` at 1024."""
    started = f"(start $start) (func $start {start})" if start else ""
    return bytes(
        wasmtime.wat2wasm(f"""(module {more}
          (memory (export "memory") {memory}) {started}
          (func (export "init") (param i32) (local $n i32) {init})
          (func (export "step") (param i32) (result i32) {body} {step})
          (func (export "run") (result i32) {body} {DOUBLE} {run}))""")
    )


def manifest(requests: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    made = {
        "format": 1,
        "producer": "tests",
        "name": "stranger",
        "hash": "00",
        "target": "simd128",
        "features": ["simd128"],
        "pages": 1,
        "peak_bytes": 4096,
        "parameters": [leaf("x", "f32", (3,), 1024, "input") | {"alias": None, "init": None}],
        "results": [leaf("y", "f32", (3,), 1096, "output")],
        "inits": [],
        "steps": {"address": 128, "count": 1, "entry_bytes": 32, "names": ["only"]},
        "requests": requests or [],
        "devices": None,
        "config": 64,
        "request": 96,
    }
    return copy.deepcopy(made | changes)
