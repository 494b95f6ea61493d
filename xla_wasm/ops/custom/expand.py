"""The rule of custom calls, which looks up every target."""

from __future__ import annotations

from ...errors import UnsupportedError, XlaWasmError
from ...hlo.ir import Instruction
from ...lowering.table import is_routine
from ...writing.writer import Rule, Writer
from . import expand_registry as registry


def _custom_call(e: Writer, x: Instruction) -> Instruction:
    target = x.attrs["custom_call_target"]
    if x.marks.request or is_routine(target):
        return x
    rule = registry.find(target)
    if rule is None:
        raise UnsupportedError(f"{x.where}: {registry.how_to(target)}")
    try:
        made = rule(e, x)
    except XlaWasmError:
        raise
    except Exception as error:
        raise UnsupportedError(
            f"{x.where}: the expansion of {target!r} failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Instruction):
        raise UnsupportedError(f"{x.where}: the expansion of {target!r} must return an instruction, not {made!r}")
    if made.shape.without_layout() != x.shape.without_layout():
        raise UnsupportedError(
            f"{x.where}: the expansion of {target!r} gives {made.shape.without_layout()}, not "
            f"{x.shape.without_layout()}"
        )
    return made


EXPAND: dict[str, Rule] = {"custom-call": _custom_call}
