"""The emitter keeps its state in itself: a kernel's code depends on the kernel alone."""

from __future__ import annotations

import pytest
from test_memory import planned
from test_programs import lowered

from xla_wasm.loop.emit import emit

PROGRAMS = ("digits_train_adam", "transformer_tanh_gelu", "lstm_gradient", "sorts")


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_emitting_a_kernel_twice_gives_the_same_code(name: str, relaxed: bool) -> None:
    plan = planned(lowered(name)[0], relaxed)
    assert plan.funcs
    for func in plan.funcs.values():
        first, second = emit(func), emit(func)
        assert first.body() == second.body() and len(first.code) > 10, func.name
