"""All whole programs, by name, and what JAX lowers them to."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np

import xla_wasm.jax
from tests.support import programs_linear, programs_more
from tests.support.programs import PROGRAMS
from xla_wasm.hlo.ir import Module

LISTED = (programs_linear, programs_more)
"""Importing them adds to `PROGRAMS`."""

__all__ = ["PROGRAMS", "lowered", "of_jaxlib"]


@cache
def lowered(name: str) -> tuple[Module, tuple[Any, ...]]:
    """The program's module and its flattened arguments."""
    program = PROGRAMS[name]()
    with jax.enable_x64(program.x64):
        module = xla_wasm.jax.lower(program.fn, *program.args)
    return module, tuple(np.asarray(leaf) for leaf in jax.tree.leaves(program.args))


@cache
def of_jaxlib(name: str) -> Module:
    """The program as jaxlib makes HLO of it: some functions are opcodes for `lower`, and expanded for XLA:CPU."""
    program = PROGRAMS[name]()
    with jax.enable_x64(program.x64):
        hlo: Any = jax.jit(program.fn, keep_unused=True).lower(*program.args).compiler_ir("hlo")
    return Module.from_proto(hlo.as_serialized_hlo_module_proto())
