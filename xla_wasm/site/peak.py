"""The most multiply-adds that a machine makes on one thread in WebAssembly: a kernel that does nothing else."""

from __future__ import annotations

import struct

from ..loop.affine import ZERO, Affine
from ..loop.builder import Builder
from ..loop.emit import emit
from ..loop.ir import Func
from ..target import Target
from ..wasm import Func as WasmFunc
from ..wasm import Module

ARGUMENTS, OPERANDS = 64, 1024
"""The addresses of the argument block and of sixteen ones."""
CHAINS, TRIPS = 12, 200_000
"""Enough independent chains for two multiply-adds a cycle, each of four cycles and more."""
OPERATIONS = 8 * CHAINS * TRIPS
"""Of a run, multiplications and additions."""


def kernel(target: Target, name: str = "peak") -> Func:
    """Independent chains of multiply-adds in registers, as the target has them: fused, or a multiplication and an
    addition."""
    b = Builder(name, 4, 4, target, frozenset({0}))
    with b.loop(1, chunked=True):
        x = b.load_lanes(b.pointer(3), ZERO, "f32")
        with b.open_loop(TRIPS) as loop:
            carries = [b.carry(loop, b.const("f32", chain), 4) for chain in range(CHAINS)]
            for carry in carries:
                carry.next = b.pin(b.fma(carry.value, x, x))
        for chain, carry in enumerate(carries):
            b.store_lanes(b.pointer(0), Affine(4 * chain), carry.result, "f32")
    return b.func()


def add(module: Module, func: Func) -> None:
    """Adds a kernel, and exports by its name a function without parameters that runs its whole range."""
    module.add(emit(func))
    whole = WasmFunc(f"once_{func.name}")
    for value in (ARGUMENTS, 0, func.trips):
        whole.op("i32.const", value)
    whole.call(func.name)
    module.add(whole)
    module.export_func(func.name, whole.name)


def give_arguments(module: Module) -> None:
    """Writes what the kernels read: where results go, two addresses that are not read, where the ones are."""
    module.data(ARGUMENTS, struct.pack("<4I", 2 * OPERANDS, 0, 0, OPERANDS))
    module.data(OPERANDS, struct.pack("<4f", 1, 1, 1, 1))


def peak_module(target: str) -> bytes:
    """A module whose export `run` makes so many OPERATIONS."""
    module = Module()
    module.memory(1)
    add(module, kernel(Target.named(target), "run"))
    give_arguments(module)
    return module.encode()
