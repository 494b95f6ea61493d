"""What runs under wasmtime: the peak of multiply-adds, a product, a convolution and the encoder, in turns."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import wasmtime

from xla_wasm import Artifact
from xla_wasm.host.arrays import Array, physical_bytes
from xla_wasm.host.instance import Instance, Limits, Program
from xla_wasm.host.manifest import Manifest
from xla_wasm.loop.emit import emit
from xla_wasm.target import RELAXED_SIMD, Target
from xla_wasm.wasm.module import Module

from .gemm import peak_kernel, repeated

_ARGUMENTS, _OPERANDS = 64, 1024
PEAK_REPEATS = 14
"""Calls of the peak kernel in one timing, which then takes about as long as a product of two 512x512 matrices."""


class Resident:
    """A compiled module with its weights and inputs in place. Calling it calls the export `run` and nothing else."""

    def __init__(self, artifact: Artifact, inputs: Sequence[Array], weights: Mapping[str, Any]):
        manifest = Manifest.parse(artifact.manifest)
        self._instance = Instance(Program(artifact.wasm, manifest, artifact.weights, Limits()))
        self._instance.apply({p.name: physical_bytes(p, weights[p.name]) for p in manifest.parameters if p.kind == "weight"})
        for place, array in zip(self._instance.inputs, inputs, strict=True):
            place[...] = array
        self._run = self._instance.run

    def __call__(self) -> None:
        self._run()

    def output(self) -> Array:
        """A copy of the only result, as the last run left it."""
        (place,) = self._instance.outputs
        return place.copy()

    def profile(self, runs: int) -> list[tuple[str, float]]:
        """Each step's name and its least time in seconds over some runs."""
        rounds = [self._instance.profile() for _ in range(runs)]
        return [(name, min(times[i][1] for times in rounds)) for i, (name, _) in enumerate(rounds[0])]


def peak() -> tuple[Callable[[], object], float]:
    """Chains of fused multiply-adds that stay in registers, and how many floating-point operations one call does."""
    kernel, flops = peak_kernel(Target.named(RELAXED_SIMD))
    outer = repeated(kernel)
    module = Module()
    module.memory(1)
    module.export_memory("memory")
    module.add(emit(kernel))
    module.add(outer)
    module.export_func("peak", outer.name)
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, wasmtime.Module(engine, module.encode()), []).exports(store)
    memory: Any = exports["memory"]
    memory.write(store, struct.pack("<4I", *[_OPERANDS] * 4), _ARGUMENTS)
    memory.write(store, np.ones(16, np.float32).tobytes(), _OPERANDS)
    call: Any = exports["peak"]
    # The partial holds the store, which must outlive its functions.
    return functools.partial(call, store, _ARGUMENTS, 0, kernel.trips, PEAK_REPEATS), flops * PEAK_REPEATS
