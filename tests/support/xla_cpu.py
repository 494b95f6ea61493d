"""XLA:CPU as an oracle: runs a module through JAX's client with the options that JAX compiles with, but for those of
LLVM.

Which instructions it may use conftest.py says. Held at SSE4.2 it has no arithmetic in f16: of modules that need it the
reference evaluator, which rounds every operation exactly, is the judge there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_wasm.hlo.ir import Module
from xla_wasm.passes.clone import clone
from xla_wasm.reference import evaluate_replicated

from . import xla_results

_MANUAL = b"\x08\x04"
"""The sharding (an OpSharding) that the partitioner wants to see on what tells partitions apart."""


def run(module: Module, *arrays: Any) -> list[np.ndarray[Any, Any]]:
    """The flattened result of `module` on XLA:CPU. 64-bit types stay what they are."""
    return run_replicated(module, [arrays])[0]


def module_of(f: Callable[..., Any], *args: Any) -> Module:
    """Returns the module that JAX lowers a function to, with the calls of LAPACK that XLA:CPU makes; 64-bit types stay
    what they are."""
    import jax

    with jax.enable_x64(True):
        lowered = jax.jit(f).lower(*args)
    return Module.from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())


def run_replicated(
    module: Module, arguments: Sequence[Sequence[Any]], replicas: int | None = None, partitions: int = 1
) -> list[list[np.ndarray[Any, Any]]]:
    """The same for each of several devices (at most 8), which are numbered replica * partitions + partition."""
    make_names_unique(module)
    for x in module.instructions():
        if x.opcode == "partition-id" and partitions > 1:
            x.attrs["sharding"] = _MANUAL
    replicas = len(arguments) // partitions if replicas is None else replicas
    proto = _without_metadata(module).to_proto()
    key = xla_results.key(proto, arguments, replicas, partitions)
    results = xla_results.known(key)
    if results is None:
        results = _computed(proto, arguments, replicas, partitions)
        if results is None:
            return evaluate_replicated(module, arguments, replicas, partitions)
        xla_results.keep(key, results)
    return results


def _without_metadata(module: Module) -> Module:
    """The module without the lines that it came from: they tell machines apart, and XLA does not need them."""
    bare = clone(module)
    bare.unknown = b""  # as the table of source lines
    for x in bare.instructions():
        x.metadata = None
    return bare


def _computed(
    proto: bytes, arguments: Sequence[Sequence[Any]], replicas: int, partitions: int
) -> xla_results.Results | None:
    """XLA's results; none where it lacks f16."""
    import jax
    from jax._src import compiler
    from jaxlib import _jax, xla_client

    count = len(arguments)
    with jax.enable_x64(True):
        stablehlo = _jax.mlir.hlo_to_stablehlo(proto)
        devices = jax.devices("cpu")[:count]
        options = compiler.get_compile_options(
            num_replicas=replicas,
            num_partitions=partitions,
            device_assignment=np.arange(count).reshape(replicas, partitions),
        )
        # It shall compile fast: each module runs once.
        options.executable_build_options.debug_options.xla_backend_optimization_level = 0
        options.executable_build_options.debug_options.xla_llvm_disable_expensive_passes = True
        # Its partitioner leaves what has no sharding as it is, and without it XLA:CPU does not run partitions.
        options.executable_build_options.use_spmd_partitioning = partitions > 1
        try:
            executable = devices[0].client.compile_and_load(stablehlo, xla_client.DeviceList(tuple(devices)), options)
        except jax.errors.JaxRuntimeError as error:
            if lacks_f16(error):
                return None
            raise
        placed = [_placed(values, devices) for values in zip(*arguments, strict=True)]
        results = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        return [[np.asarray(result[d]) for result in results] for d in range(count)]


def lacks_f16(error: Exception) -> bool:
    """Returns true if XLA:CPU could not compile a module because at SSE4.2 jaxlib lacks functions of f16."""
    return os.environ.get("XLA_WASM_JUDGE_ISA") == "SSE4_2" and "Failed to materialize symbols" in str(error)


def _placed(values: Sequence[Any], devices: Sequence[Any]) -> Any:
    """One of JAX's arrays that holds a value for each device."""
    import jax

    parts = [jax.device_put(np.asarray(value), device) for value, device in zip(values, devices, strict=True)]
    if len(parts) == 1:
        return parts[0]
    # It says that all devices hold the same, which nobody checks.
    mesh = jax.sharding.Mesh(np.array(devices), ("devices",))
    same = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.make_array_from_single_device_arrays(parts[0].shape, same, parts)


def make_names_unique(module: Module) -> None:
    """XLA wants the names of instructions, and those of computations, to differ over the whole module."""
    for things in (list(module.instructions()), module.computations):
        taken: set[str] = set()
        for number, thing in enumerate(things):
            if thing.name in taken:
                thing.name = f"{thing.name}.again{number}"
            taken.add(thing.name)
