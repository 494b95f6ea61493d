"""The lowerings of all families side by side: what the compiler looks an opcode up in. Listed, never self-registered."""

from __future__ import annotations

from typing import Any

from .conv import lower as conv
from .dot import lower as dot
from .elementwise.lower import ELEMENTWISE
from .fft import lower as fft
from .indexing import lower as indexing
from .linalg import lower as linalg
from .movement import lower as movement
from .random import lower as random
from .reduce import lower as reduce
from .sort import lower as sort
from .window import lower as window

_FAMILIES: tuple[Any, ...] = (movement, indexing, reduce, sort, window, dot, conv, random, linalg, fft)

ELEMENTAL: dict[str, Any] = {opcode: lower for family in _FAMILIES for opcode, lower in getattr(family, "ELEMENTAL", {}).items()}
"""(elemental, instruction, index) -> value: operations that may be part of a larger expression."""

KERNELS: dict[str, Any] = {opcode: lower for family in _FAMILIES for opcode, lower in getattr(family, "KERNELS", {}).items()}
"""Operations that are always a kernel of their own: opcode -> function that writes the whole kernel."""

ROUTINES: dict[str, Any] = {target: lower for family in _FAMILIES for target, lower in getattr(family, "ROUTINES", {}).items()}
"""The kernels of custom calls that expansions make, by their target."""

KERNELS["custom-call"] = lambda k, x: ROUTINES[x.attrs["custom_call_target"]](k, x)

LANES: dict[str, int] = {opcode: count for family in _FAMILIES for opcode, count in getattr(family, "LANES", {}).items()}
"""The lane count of kernels for which the types of their arrays do not decide it."""

CONTROL = ("while", "conditional", "tuple", "get-tuple-element", "parameter", "constant")

__all__ = ["CONTROL", "ELEMENTAL", "ELEMENTWISE", "KERNELS", "LANES", "ROUTINES"]
