"""The emitter keeps its state in itself: a kernel's code depends on the kernel alone."""

from __future__ import annotations

import struct

import pytest
import wasmtime

from tests.support.whole_programs import lowered
from xla_wasm import Options
from xla_wasm.compiler import trace
from xla_wasm.loop.affine import Affine
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.emit import emit
from xla_wasm.loop.ir import Func
from xla_wasm.target import SIMD128, TARGETS, Target
from xla_wasm.wasm import Module

PROGRAMS = ("digits_train_adam", "transformer_tanh_gelu", "lstm_gradient", "sorts")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_emitting_a_kernel_twice_gives_the_same_code(name: str, target: str) -> None:
    plan = trace(lowered(name)[0], Options(target=target)).plan
    assert plan.funcs
    for func in plan.funcs.values():
        first, second = emit(func), emit(func)
        assert first.body() == second.body() and len(first.code) > 10, func.name


def carried(trips: int, old_needed: bool) -> Func:
    """A sum that grows by 1 and, behind a barrier, by 2 in each trip; beside it one that stands still at the barrier.
    If `old_needed`, the latter adds what the former was when the trip began."""
    b = Builder("carried", 1, 4, Target.named(SIMD128), frozenset({0}))
    with b.open_loop(trips) as loop:
        first, second = (b.carry(loop, b.const("f32", number), 4) for number in (0, 100))
        one = b.pin(b.add(first.value, b.const("f32", 1)))
        other = b.pin(b.add(second.value, first.value)) if old_needed else second.value
        b.barrier(loop, [one, other])
        first.next = b.pin(b.add(one, b.const("f32", 2)))
        second.next = b.pin(b.add(other, b.const("f32", 10)))
    for place, carry in enumerate((first, second)):
        b.store_lanes(b.pointer(0), Affine(4 * place), carry.result, "f32")
    return b.func()


@pytest.mark.parametrize("old_needed", [False, True])
@pytest.mark.parametrize("trips", [1, 2, 5])
def test_what_a_loop_carries_has_its_right_values(trips: int, old_needed: bool) -> None:
    code, module = emit(carried(trips, old_needed)), Module()
    module.memory(1)
    module.export_memory("memory")
    module.add(code)
    module.export_func("carried", "carried")
    store = wasmtime.Store()
    exports = wasmtime.Instance(store, wasmtime.Module(store.engine, module.encode()), []).exports(store)
    exports["memory"].write(store, struct.pack("<I", 64), 0)
    exports["carried"](store, 0, 0, 1)
    found = struct.unpack("<8f", exports["memory"].read(store, 64, 96))
    first, second = 0.0, 100.0
    for _ in range(trips):
        second += 10 + (first if old_needed else 0)
        first += 3
    assert found == (first,) * 4 + (second,) * 4


def test_a_sum_keeps_one_local_through_a_trip() -> None:
    plain, needed = (emit(carried(5, old_needed)).locals.count("v128") for old_needed in (False, True))
    assert (plain, needed) == (
        3 + 2,
        3 + 2 + 1,
    )  # three constants, two carries, and what must not replace one too early
