"""The emitter keeps its state in itself: a kernel's code depends on the kernel alone."""

from __future__ import annotations

import pytest
from test_programs import lowered

from xla_wasm import Options
from xla_wasm.compiler import trace
from xla_wasm.loop.emit import emit
from xla_wasm.target import TARGETS

PROGRAMS = ("digits_train_adam", "transformer_tanh_gelu", "lstm_gradient", "sorts")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_emitting_a_kernel_twice_gives_the_same_code(name: str, target: str) -> None:
    plan = trace(lowered(name)[0], Options(target=target)).plan
    assert plan.funcs
    for func in plan.funcs.values():
        first, second = emit(func), emit(func)
        assert first.body() == second.body() and len(first.code) > 10, func.name
