"""A hand-written program for several devices that does what its argument `script` says, so that hosts are tested on
what no compiler emits.

Each number of `script` is a request to make, or END, TRAP or FOREVER. `to` and `from` are the devices of all exchanges,
and `x` is sent: one number of it to each (`a`), or all of it (the others). What comes is `y` of `a`, `z` of `g` and
`r`, and `v` of `u`.
"""

from __future__ import annotations

import copy
from typing import Any

import wasmtime

from tests.support.toy_artifact import leaf, with_manifest
from xla_wasm.artifact import Artifact

END, TRAP, FOREVER = -1, -2, -3
PEERS = 4
"""The length of `to` and `from`."""
X_BYTES = 16384
REQUEST, DEVICES, STEPS, NEXT = 96, 112, 128, 192
SCRIPT, TO, FROM, X, Y = 1024, 2048, 2112, 4096, 3072
Z, V = X + X_BYTES, X + X_BYTES + PEERS * X_BYTES
COMMANDS = 256

WAT = f"""
(module
  (memory (export "memory") 4 4)
  (func (export "init") (param i32) unreachable)
  (func (export "step") (param i32) (result i32) (unreachable))
  (func (export "run") (result i32) (local $command i32)
    (if (i32.eqz (i32.load (i32.const {REQUEST + 4}))) (then (i32.store (i32.const {NEXT}) (i32.const {SCRIPT}))))
    (i32.store (i32.const {REQUEST + 4}) (i32.const 0))
    (local.set $command (i32.load (i32.load (i32.const {NEXT}))))
    (i32.store (i32.const {NEXT}) (i32.add (i32.load (i32.const {NEXT})) (i32.const 4)))
    (if (i32.eq (local.get $command) (i32.const {END})) (then (return (i32.const 0))))
    (if (i32.eq (local.get $command) (i32.const {TRAP})) (then unreachable))
    (if (i32.eq (local.get $command) (i32.const {FOREVER})) (then (loop $ever (br $ever))))
    (i32.store (i32.const {REQUEST}) (local.get $command))
    (i32.store (i32.const {REQUEST + 4}) (i32.const 1))
    (i32.const 1)))
"""


def _exchange(name: str, opcode: str, channel: int, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "exchange",
        "name": name,
        "opcode": opcode,
        "channel": channel,
        "buffered": opcode == "send",
        "to": {"offset": TO, "count": 0 if opcode == "recv" else PEERS},
        "from": {"offset": FROM, "count": 0 if opcode == "send" else PEERS},
        "sends": [] if opcode == "recv" else [{"offset": X, "bytes": X_BYTES, "stride": 0}],
        "receives": [] if opcode == "send" else [{"offset": Z, "bytes": X_BYTES}],
    } | changes


REQUESTS = {
    "a": _exchange(
        "a", "all-to-all", 0, sends=[{"offset": X, "bytes": 4, "stride": 4}], receives=[{"offset": Y, "bytes": 4}]
    ),
    "g": _exchange("g", "all-gather", 1),
    "s": _exchange("s", "send", 5),
    "r": _exchange("r", "recv", 5),
    "t": _exchange("t", "send", 6),
    "u": _exchange("u", "recv", 6, receives=[{"offset": V, "bytes": X_BYTES}]),
    "w": _exchange("w", "collective-permute", 5, receives=[{"offset": Y, "bytes": 8}]),
}
"""`w` has less room for what comes than the others on its channel send."""


def manifest() -> dict[str, Any]:
    """Returns the manifest of the program, for hosts."""
    numbers = X_BYTES // 4
    inputs = [("script", (COMMANDS,), SCRIPT), ("to", (PEERS,), TO), ("from", (PEERS,), FROM), ("x", (numbers,), X)]
    outputs = [("y", (PEERS,), Y), ("z", (PEERS, numbers), Z), ("v", (PEERS, numbers), V)]
    return {
        "format": 1,
        "producer": "tests",
        "name": "scripted",
        "hash": "00",
        "target": "simd128",
        "tune": "portable",
        "features": ["simd128"],
        "pages": 4,
        "peak_bytes": 65536,
        "parameters": [
            leaf(name, "s32", dims, at, "input") | {"alias": None, "init": None} for name, dims, at in inputs
        ],
        "results": [leaf(name, "s32", dims, at, "output") for name, dims, at in outputs],
        "inits": [],
        "steps": {"address": STEPS, "count": 1, "entry_bytes": 32, "names": ["script"]},
        "requests": copy.deepcopy(list(REQUESTS.values())),
        "devices": {
            "offset": DEVICES,
            "replicas": None,
            "partitions": None,
            "least": 1,
            "most": None,
            "axis": "replicas",
        },
        "config": 64,
        "request": REQUEST,
        "stateful": False,
    }


def scripted(stated: dict[str, Any] | None = None) -> Artifact:
    """The program as an artifact; `stated` in place of its manifest."""
    stated = stated or manifest()
    return Artifact(with_manifest(bytes(wasmtime.wat2wasm(WAT)), stated), stated, b"")


# What a manifest may get wrong about devices: where, the wrong value, and what the error says.
LIES: list[tuple[str, Any, str]] = [
    ("devices.offset", 114, r"devices.offset: 114 is not a multiple of 4"),
    ("devices.offset", 4 * 65536 - 8, r"devices.offset: 16 bytes at \d+ would reach beyond"),
    ("devices.replicas", 0, "devices.replicas: expected an integer from 1"),
    ("devices.least", 0, "devices.least"),
    ("devices.most", "all", "devices.most"),
    ("devices.axis", "both", "devices.axis: expected one of replicas, partitions"),
    ("devices", 3, "devices: expected an object"),
    ("requests.0.kind", "exchanges", "requests\\[0\\].kind"),
    ("requests.0.channel", 32768, "requests\\[0\\].channel"),
    ("requests.0.channel", -1, "requests\\[0\\].channel"),
    ("requests.0.buffered", 1, "requests\\[0\\].buffered"),
    ("requests.0.name", None, "requests\\[0\\].name"),
    ("requests.0.to.offset", 4 * 65536 - 12, r"requests\[0\].to.offset: 16 bytes at \d+ would reach beyond"),
    ("requests.0.to.offset", TO + 2, r"requests\[0\].to.offset: \d+ is not a multiple of 4"),
    ("requests.0.from.count", 1 << 20, r"requests\[0\].from.count"),
    ("requests.0.from.count", 2**16, r"requests\[0\].from.offset: \d+ bytes at \d+ would reach beyond"),
    ("requests.0.sends.0.stride", 8, r"requests\[0\].sends\[0\].stride: expected 0 or 4"),
    ("requests.0.sends.0.offset", 4 * 65536 - 12, r"requests\[0\].sends\[0\].offset: 16 bytes at \d+ would reach"),
    ("requests.1.sends.0.bytes", -4, r"requests\[1\].sends\[0\].bytes"),
    ("requests.1.sends.0.offset", 4 * 65536 - 16380, r"requests\[1\].sends\[0\].offset: 16384 bytes"),
    ("requests.1.receives.0.offset", 4 * 65536 - 65532, r"requests\[1\].receives\[0\].offset: 65536 bytes"),
    ("requests.1.receives", {}, r"requests\[1\].receives: expected a list"),
]
# And about the parts that devices have of `x`, which in JavaScript only runs on whole arrays read.
SHARD_LIES: list[tuple[str, Any, str]] = [
    ("parameters.3.shards", {"dimensions": dims, "starts": starts}, rf"parameters\[3\].shards.{message}")
    for dims, starts, message in (
        ([6000], [[0], [4096]], r"dimensions: \[6000\] does not divide into blocks of \[4096\]"),
        ([4096, 2], [[0, 0], [0, 1]], r"dimensions: \[4096,\s*2\] does not divide"),
        ([8192], [[0], [0]], r"starts: .* do not make up \[8192\]"),
        ([12288], [[0], [8192]], "starts"),
        ([8192], [[0], [4000]], "starts"),
        ([8192], [[0], [8192]], "starts"),
        ([8192], [0, 4096], "starts"),
        ([8192], 3, "starts: expected a list"),
    )
]


def lies(listed: list[tuple[str, Any, str]]) -> list[tuple[Artifact, str]]:
    """Artifacts whose manifests lie, with what hosts say."""
    made = []
    for path, value, message in listed:
        stated = manifest()
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place: Any = stated
        for part in parents:
            place = place[part]
        place[last] = value
        made.append((scripted(stated), message))
    return made
