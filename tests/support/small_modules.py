"""Modules of one operation or one expression, for arrays that a test has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xla_wasm.builder import Builder
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.ops.sample import shape_of

Array = np.ndarray[Any, Any]


def module_of(body: Callable[..., Instruction], *args: Array) -> Module:
    """Returns the module that `body` makes of a builder and a parameter for each array."""
    builder = Builder("module")
    return builder.module(body(builder, *(builder.parameter(i, shape_of(arg)) for i, arg in enumerate(args))))


def operation(opcode: str, *args: Array, **attrs: Any) -> Module:
    """One operation on a parameter for each array."""
    return module_of(lambda b, *parameters: b.op(opcode, *parameters, **attrs), *args)


def counting(name: str, then: str, before: str = "") -> str:
    """A loop that counts to a parameter, or without end below zero, as HLO text. `then` are the instructions behind it,
    with the count in `i`."""
    return f"""HloModule {name}

{before}
more {{
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT m = pred[] compare(i, n), direction=NE
}}

step {{
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], s32[]) tuple(j, n)
}}

ENTRY e {{
  n = s32[] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], s32[]) tuple(zero, n)
  w = (s32[], s32[]) while(t), condition=more, body=step
  i = s32[] get-tuple-element(w), index=0
  {then}
}}
"""
