"""Random small programs, compiled for every target, against the reference evaluator: equal in every element."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xla_wasm
from tests.support import seeds
from tests.support.closeness import assert_all
from tests.support.differential import BOTH, differential
from tests.support.random_programs import draw_program
from tests.support.random_values import Draw
from xla_wasm.reference import evaluate


@settings(max_examples=seeds.count(40, 200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_compiled_programs_agree_with_the_reference(data: st.DataObject) -> None:
    module, arguments = draw_program(Draw(lambda low, high: data.draw(st.integers(low, high))))
    differential(module, *arguments, targets=BOTH)


@settings(max_examples=seeds.count(40, 200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_text_and_proto_carry_the_whole_program(data: st.DataObject) -> None:
    module, arguments = draw_program(Draw(lambda low, high: data.draw(st.integers(low, high))))
    text = module.to_text(large_constants=True)
    from_text = xla_wasm.HloModule.from_text(text)
    from_proto = xla_wasm.HloModule.from_proto(from_text.to_proto())
    assert from_text.to_text(large_constants=True) == text
    # Names that computations share are made unique in the proto.
    assert xla_wasm.HloModule.from_text(from_proto.to_text(large_constants=True)).to_proto() == from_proto.to_proto()
    expected = evaluate(module, *arguments)
    for other in (from_text, from_proto):
        assert_all(evaluate(other, *arguments), expected)
