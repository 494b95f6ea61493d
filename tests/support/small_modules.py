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
    """What `body` makes of a builder and a parameter for each array."""
    builder = Builder("module")
    return builder.module(body(builder, *(builder.parameter(i, shape_of(arg)) for i, arg in enumerate(args))))


def operation(opcode: str, *args: Array, **attrs: Any) -> Module:
    """One operation on a parameter for each array."""
    return module_of(lambda b, *parameters: b.op(opcode, *parameters, **attrs), *args)
