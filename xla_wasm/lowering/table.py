"""The lowerings of all families side by side: what the compiler looks an opcode up in."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..hlo.ir import Instruction
from ..ops.elementwise.lower import ELEMENTWISE
from ..ops.reading import record
from ..ops.table import FAMILIES, Family, load_tables

ELEMENTAL: dict[str, Any] = load_tables("lower", "ELEMENTAL")
"""(elemental, instruction, index) -> value: operations that may be part of a larger expression."""


@cache
def routines() -> dict[str, Any]:
    """The kernels of custom calls that expansions make, by their target."""
    files = [family.load_file("lower") for family in FAMILIES.values() if family.routines]
    return {target: lower for file in files for target, lower in file.ROUTINES.items()}


def is_routine(target: str) -> bool:
    """Returns True if custom calls to a target are those that expansions make."""
    return target.startswith("xla_wasm.") and target in routines()


def _late(family: Family, opcode: str) -> Callable[..., None]:
    return lambda kernel, x: family.load_file("lower").KERNELS[opcode](kernel, x)


KERNELS: dict[str, Any] = {
    **load_tables("lower", "KERNELS"),
    **{opcode: _late(family, opcode) for family in FAMILIES.values() for opcode in family.late},
    "custom-call": lambda k, x: routines()[x.attrs["custom_call_target"]](k, x),
}
"""Operations that are always a kernel of their own: opcode -> function that writes the whole kernel."""


def has_kernel(x: Instruction) -> bool:
    """Returns True if an operation is always a kernel of its own, with what it computes its operands from."""
    return x.opcode in KERNELS


def is_expression(x: Instruction) -> bool:
    """Returns True if the elements of `x` are computed one by one, as they are in larger expressions."""
    return record(x).elementwise or x.opcode in ELEMENTAL and x.opcode not in KERNELS


LANES = {"rng-bit-generator": 4}
"""The lane count of kernels for which the types of their arrays do not decide it: the words in its lanes have 32
bits."""

__all__ = ["ELEMENTAL", "ELEMENTWISE", "KERNELS", "LANES", "has_kernel", "is_expression", "is_routine", "routines"]
