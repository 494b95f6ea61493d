"""Passes whose rules do not come to an end."""

from __future__ import annotations

import pytest

from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.passes.rewrite import rewrite
from xla_wasm.passes.simplify import simplify_computation
from xla_wasm.writing.writer import Writer

TEXT = """HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  ROOT turned = f32[4] reverse(x), dimensions={0}
}
"""


def test_a_rule_that_takes_what_it_makes_is_an_internal_error_that_names_the_instruction() -> None:
    def twice(w: Writer, x: Instruction) -> Instruction:
        return w.op("reverse", w.op("reverse", x.operands[0], dimensions=(0,)), dimensions=(0,))

    with pytest.raises(AssertionError, match="reverse 'turned': what a rule makes of it is taken by rules without end"):
        rewrite(Module.from_text(TEXT), {"reverse": twice}, to_fixpoint=True)


def test_so_are_simplifications_that_undo_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def to(opcode: str, **attrs: object) -> object:
        return lambda w, x: w.op(opcode, x.operands[0], **attrs)

    monkeypatch.setattr(
        "xla_wasm.passes.simplify.SIMPLIFY", {"reverse": to("negate"), "negate": to("reverse", dimensions=(0,))}
    )
    with pytest.raises(AssertionError, match="'turned': what a rule makes of it is taken by rules without end"):
        simplify_computation(Module.from_text(TEXT).entry)
