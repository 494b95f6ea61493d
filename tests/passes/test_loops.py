"""Loops that only count: what they leave behind is known without running them."""

from __future__ import annotations

import operator
from itertools import product

import numpy as np
import pytest

from tests.support import xla_cpu
from tests.support.differential import differential, run
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.types import limits, wrap
from xla_wasm.ops.control.simplify_counting import trips_until
from xla_wasm.passes import pipeline
from xla_wasm.reference import evaluate

HOLDS = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


def looping(element_type: str, start: int, step: int, direction: str, bound: int) -> str:
    """A number that grows while it is on one side of the bound; beside it, one that falls and one that stays."""
    state = f"({element_type}[], s32[], f32[2])"
    return f"""HloModule m
body {{
  s = {state} parameter(0)
  i = {element_type}[] get-tuple-element(s), index=0
  j = s32[] get-tuple-element(s), index=1
  x = f32[2] get-tuple-element(s), index=2
  one = {element_type}[] constant({step})
  three = s32[] constant(3)
  next = {element_type}[] add(one, i)
  less = s32[] subtract(j, three)
  ROOT t = {state} tuple(next, less, x)
}}
condition {{
  s = {state} parameter(0)
  i = {element_type}[] get-tuple-element(s), index=0
  bound = {element_type}[] constant({bound})
  ROOT c = pred[] compare(bound, i), direction={ {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(direction, direction) }
}}
ENTRY e {{
  first = {element_type}[] constant({start})
  j = s32[] constant(7)
  x = f32[2] parameter(0)
  s = {state} tuple(first, j, x)
  ROOT w = {state} while(s), condition=condition, body=body
}}
"""  # noqa: E501


@pytest.mark.parametrize("element_type", ["s4", "u4"])
def test_every_way_to_count_in_4_bits(element_type: str) -> None:
    low, high = limits(element_type)
    for start, step, bound in product(range(low, high + 1), range(-16, 17), range(low, high + 1)):
        for direction, holds in HOLDS.items():
            value, trips = start, 0
            while holds(value, bound) and trips <= 16:
                value, trips = wrap(value + step, element_type), trips + 1
            assert trips_until(start, step, direction, bound, element_type) == (None if trips > 16 else trips)


@pytest.mark.parametrize(
    "element_type, start, step, direction, bound",
    [
        ("s32", 0, 1, "LT", 10),
        ("s32", 5, 1, "LT", 5),
        ("u8", 3, 7, "NE", 1),
        ("s8", 100, 3, "GE", 0),
        ("s64", -4, 3, "LE", 8),
    ],
)
def test_counted_as_if_run(element_type: str, start: int, step: int, direction: str, bound: int) -> None:
    module = Module.from_text(looping(element_type, start, step, direction, bound))
    x = np.array([1.5, 2], np.float32)
    differential(module, x, judges=(evaluate, xla_cpu.run))
    pipeline.run(module)
    assert not any(y.opcode == "while" for y in module.instructions())


def test_what_starts_from_an_argument_is_added_to() -> None:
    text = looping("s32", 0, 1, "LT", 10).replace("j = s32[] constant(7)", "j = s32[] parameter(1)")
    i, j, x = run(text, np.zeros(2, np.float32), np.int32(100))
    assert (i, j) == (10, 70) and not x.any()


def test_two_thousand_million_trips() -> None:
    """-1 at a time from 42: less than 100 until it wraps around."""
    text = """HloModule m
body {
  i = s32[] parameter(0)
  one = s32[] constant(-1)
  ROOT next = s32[] add(i, one)
}
condition {
  i = s32[] parameter(0)
  bound = s32[] constant(100)
  ROOT c = pred[] compare(i, bound), direction=LT
}
ENTRY e {
  first = s32[] constant(42)
  ROOT w = s32[] while(first), condition=condition, body=body
}
"""
    assert run(text)[0] == 2**31 - 1


def test_steps_of_any_length_are_counted_at_once() -> None:
    for step in (1, -1, 2**31 - 1, 12345, -(2**20), 3, 0x55555555):
        trips = trips_until(17, step, "NE", wrap(17 + step * 1_999_999_999, "u32"), "u32")
        assert trips is not None and wrap(17 + step * trips, "u32") == wrap(17 + step * 1_999_999_999, "u32")
    assert trips_until(0, 2, "NE", 1, "u32") is None
