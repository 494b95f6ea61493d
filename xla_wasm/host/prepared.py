"""The memory of a module after `init`, for compiling: any engine that is at hand runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..artifact import Artifact
from ..errors import UnsupportedError
from ..target import MEMORY

Memory = Callable[[int, int], bytes]
"""From an address and a number of bytes to these bytes."""


def has_engine() -> bool:
    """Returns True if there is an engine to run `init` with."""
    if sys.platform == "emscripten":
        return True
    try:
        import wasmtime  # noqa: F401
    except ImportError:
        return False
    return True


def memory_after_init(artifact: Artifact) -> Memory:
    """Instantiates a plain module and runs what `init` does with constants. Raises UnsupportedError if there is no
    engine."""
    if not has_engine():
        raise UnsupportedError(
            "prepared=True runs a part of the module when compiling, under wasmtime: pip install wasmtime"
        )
    return _in_javascript(artifact) if sys.platform == "emscripten" else _under_wasmtime(artifact)


def _under_wasmtime(artifact: Artifact) -> Memory:
    import wasmtime

    store = wasmtime.Store()
    exports: Any = wasmtime.Instance(store, wasmtime.Module(store.engine, artifact.wasm), []).exports(store)
    memory = exports[MEMORY]
    for init in artifact.manifest["inits"]:
        if init["kind"] == "sidecar":
            memory.write(store, _sidecar(artifact, init), init["staging"])
        elif init["kind"] == "segment":
            exports["init"](store, init["index"])
    return lambda address, count: bytes(memory.read(store, address, address + count))


def _in_javascript(artifact: Artifact) -> Memory:
    import js
    from pyodide.ffi import to_js

    exports = js.WebAssembly.Instance.new(js.WebAssembly.Module.new(to_js(artifact.wasm))).exports
    content = js.Uint8Array.new(exports.memory.buffer)
    for init in artifact.manifest["inits"]:
        if init["kind"] == "sidecar":
            content.set(to_js(_sidecar(artifact, init)), init["staging"])
        elif init["kind"] == "segment":
            exports.init(init["index"])
    return lambda address, count: bytes(content.subarray(address, address + count).to_bytes())


def _sidecar(artifact: Artifact, init: dict[str, Any]) -> bytes:
    return artifact.weights[init["sidecar_offset"] : init["sidecar_offset"] + init["bytes"]]
