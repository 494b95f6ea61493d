"""XLA:CPU as an oracle: runs a module through JAX's client with the options that JAX compiles with."""

from __future__ import annotations

from typing import Any

import numpy as np

from xla_wasm.hlo.ir import Module


def run(module: Module, *arrays: Any) -> list[np.ndarray[Any, Any]]:
    """The flattened result of `module` on XLA:CPU. 64-bit types stay what they are."""
    import jax
    from jax._src import compiler
    from jaxlib import _jax, xla_client

    _make_names_unique(module)
    with jax.enable_x64(True):
        stablehlo = _jax.mlir.hlo_to_stablehlo(module.to_proto())
        device = jax.devices("cpu")[0]
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        executable = device.client.compile_and_load(stablehlo, xla_client.DeviceList((device,)), options)
        placed = [jax.device_put(np.asarray(array), device) for array in arrays]
        results = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        return [np.asarray(result[0]) for result in results]


def _make_names_unique(module: Module) -> None:
    """XLA wants the names of instructions, and those of computations, to differ over the whole module."""
    for things in (list(module.instructions()), module.computations):
        taken: set[str] = set()
        for number, thing in enumerate(things):
            if thing.name in taken:
                thing.name = f"{thing.name}.again{number}"
            taken.add(thing.name)
