"""Conditions on sizes that are known at run time only: a run whose inputs do not fit ends."""

from __future__ import annotations

from collections.abc import Sequence

from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...writing.writer import Writer
from .callback import ASSERTION


def end_unless(e: Writer, holds: Instruction, values: Sequence[Instruction], message: str) -> None:
    """Ends the run with a message where a pred is false; fields of the message are numbers of the values."""
    passed = e.computation("passed", [Shape.tuple(())], lambda w, nothing: w.tuple([]))

    def fail(w: Writer, given: Instruction) -> Instruction:
        return w.op(
            "custom-call",
            *w.elements(given),
            shape=Shape.tuple(()),
            custom_call_target=ASSERTION,
            custom_call_has_side_effect=True,
            backend_config=message.encode(),
        )

    failed = e.computation("failed", [Shape.tuple([value.shape for value in values])], fail)
    e.op("conditional", holds, e.tuple([]), e.tuple(values), called=[passed, failed], shape=Shape.tuple(()))
