"""A clone has all that its module has, in every field that there is, and shares nothing that can be changed but
literals."""

from __future__ import annotations

from typing import Any

from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.literal import Literal
from xla_wasm.passes.clone import clone

TEXT = """HloModule m, is_scheduled=true, entry_computation_layout={(f32[3]{0})->f32[3]{0}}

twice { a = f32[3] parameter(0)
  ROOT b = f32[3] add(a, a) }

ENTRY e { x = f32[3] parameter(0)
  y = f32[3] call(x), to_apply=twice
  ROOT z = f32[3] negate(x), control-predecessors={y} }
"""


def fields(value: Any) -> dict[str, Any]:
    names = getattr(type(value), "__slots__", None) or vars(value)
    return {name: getattr(value, name) for name in names}


def marked(value: Any) -> Any:
    """Another value of the same type, that no default is."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 7
    if isinstance(value, str):
        return value + "marked"
    if isinstance(value, bytes):
        return value + b"marked"
    if isinstance(value, tuple):
        return (*value, True)
    if isinstance(value, list):
        return [*value, ((), 0, (), "must-alias")]
    if isinstance(value, dict) or value is None:
        return {**(value or {}), "marked": "marked"}
    return value


GRAPH = {
    Module: ("computations", "entry"),
    Computation: ("instructions", "root"),
    Instruction: ("operands", "called", "control_predecessors"),
}
"""The fields that lead from one part of a module to others."""


def test_every_field_survives() -> None:
    module = Module.from_text(TEXT)
    for part in (module, *module.computations, *module.instructions()):
        for name, value in fields(part).items():
            if name not in GRAPH[type(part)]:
                setattr(part, name, marked(value))
    same(module, clone(module), {})


def same(one: Any, other: Any, pairs: dict[int, Any]) -> None:
    """Each part stands for one part, with equal fields that are not the same objects."""
    if id(one) in pairs:
        assert pairs[id(one)] is other
        return
    assert type(one) is type(other)
    assert one is not other
    pairs[id(one)] = other
    assert fields(one).keys() == fields(other).keys()
    for name, value in fields(one).items():
        found = getattr(other, name)
        if name in GRAPH[type(one)]:
            for a, b in zip(*(x if isinstance(x, list) else [x] for x in (value, found)), strict=True):
                same(a, b, pairs)
        else:
            assert value == found or isinstance(value, Literal), name
        if isinstance(value, list) or name in ("attrs", "frontend_attributes"):
            assert value is not found, name
