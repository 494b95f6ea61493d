"""The lowerings of all families side by side: what the compiler looks an opcode up in. Listed, never self-registered.

A family that few programs have, and none as part of a larger expression, is imported with the first kernel of it that
is written.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..hlo.ir import Instruction
from ..ops.conv import lower as conv
from ..ops.dot import lower as dot
from ..ops.elementwise.lower import ELEMENTWISE
from ..ops.indexing import lower as indexing
from ..ops.movement import lower as movement
from ..ops.reading import record
from ..ops.reduce import lower as reduce
from ..ops.window import lower as window

_FAMILIES: tuple[Any, ...] = (movement, indexing, reduce, window, dot, conv)


def _sort() -> ModuleType:
    from ..ops.sort import lower

    return lower


def _random() -> ModuleType:
    from ..ops.random import lower

    return lower


def _linalg() -> ModuleType:
    from ..ops.linalg import lower

    return lower


def _fft() -> ModuleType:
    from ..ops.fft import lower

    return lower


LAPACK_ROUTINES = """
    potrf_lower potrf_upper getrf geqrf orgqr
    sytrd_lower sytrd_upper syevd_lower_vectors syevd_lower_values syevd_upper_vectors syevd_upper_values
    gesdd_full_vectors gesdd_full_values gesdd_reduced_vectors gesdd_reduced_values
    geqp3 ormqr_left_itself ormqr_left_adjoint ormqr_right_itself ormqr_right_adjoint gehrd gtsv gtsv_perturbed
    geev_values geev_left geev_right geev_left_right gees_form gees_vectors
"""
"""Routines that the rules of LAPACK's functions call, `xla_wasm.` before each name."""


def _late(family: Callable[[], ModuleType], table: str, names: str) -> dict[str, Any]:
    """The entries of a family's table, by their names."""

    def entry(name: str) -> Callable[..., None]:
        return lambda kernel, x: getattr(family(), table)[name](kernel, x)

    return {name: entry(name) for name in names.split()}


ELEMENTAL: dict[str, Any] = {
    opcode: lower for family in _FAMILIES for opcode, lower in getattr(family, "ELEMENTAL", {}).items()
}
"""(elemental, instruction, index) -> value: operations that may be part of a larger expression."""

ROUTINES: dict[str, Any] = {
    **_late(_linalg, "ROUTINES", " ".join(f"xla_wasm.{name}" for name in LAPACK_ROUTINES.split())),
    **_late(_fft, "ROUTINES", "xla_wasm.fft_table"),
}
"""The kernels of custom calls that expansions make, by their target."""

KERNELS: dict[str, Any] = {
    **{opcode: lower for family in _FAMILIES for opcode, lower in getattr(family, "KERNELS", {}).items()},
    **_late(_sort, "KERNELS", "sort topk"),
    **_late(_random, "KERNELS", "rng-bit-generator rng-get-and-update-state"),
    **_late(_linalg, "KERNELS", "cholesky triangular-solve"),
    **_late(_fft, "KERNELS", "fft"),
    "custom-call": lambda k, x: ROUTINES[x.attrs["custom_call_target"]](k, x),
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

__all__ = ["ELEMENTAL", "ELEMENTWISE", "KERNELS", "LANES", "ROUTINES", "has_kernel", "is_expression"]
