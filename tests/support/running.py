"""Running a module in a test."""

from __future__ import annotations

from typing import Any

import numpy as np

import xla_wasm
from xla_wasm import Options
from xla_wasm.artifact import SECTION, Artifact, encode_manifest
from xla_wasm.hlo.ir import Module
from xla_wasm.wasm.module import custom


def run_with_state(module: Module, arrays: list[np.ndarray[Any, Any]], options: dict[str, Any]) -> list[bytes]:
    """The bytes of the results; where `options` name a state, those of two runs in a row, and what the state is
    then."""
    exe = xla_wasm.load(xla_wasm.compile(module, Options(**options)))
    if "state" not in options:
        return [a.tobytes() for a in exe.run(*arrays)]
    ((place, _),) = options["state"]
    name = exe.parameters[place].name
    exe.set(name, arrays[place])
    others = arrays[:place] + arrays[place + 1 :]
    made = [a.tobytes() for _ in range(2) for a in exe.run(*others)]
    return [*made, exe.get(name).tobytes()]


def code(artifact: Artifact) -> bytes:
    """The module without its manifest, which names the target: two artifacts with the same code compute the same."""
    return artifact.wasm.removesuffix(custom(SECTION, encode_manifest(artifact.manifest))) + artifact.weights
