"""The lowerings of all families side by side: what the compiler looks an opcode up in. Listed, never self-registered."""

from __future__ import annotations

from typing import Any

from .conv import lower as conv
from .dot import lower as dot
from .elementwise.lower import CHEAP, ELEMENTWISE
from .indexing import lower as indexing
from .movement import lower as movement
from .reduce import lower as reduce
from .window import lower as window

_FAMILIES: tuple[Any, ...] = (movement, indexing, reduce, window, dot, conv)

ELEMENTAL: dict[str, Any] = {opcode: lower for family in _FAMILIES for opcode, lower in getattr(family, "ELEMENTAL", {}).items()}
"""(elemental, instruction, index) -> value: operations that may be part of a larger expression."""

KERNELS: dict[str, Any] = {opcode: lower for family in _FAMILIES for opcode, lower in getattr(family, "KERNELS", {}).items()}
"""Operations that are always a kernel of their own: opcode -> function that writes the whole kernel."""

VIEWS: frozenset[str] = frozenset(movement.VIEWS)
"""Operations that only rename indices."""

CONTROL = ("while", "conditional", "tuple", "get-tuple-element", "parameter", "constant")

__all__ = ["CHEAP", "CONTROL", "ELEMENTAL", "ELEMENTWISE", "KERNELS", "VIEWS"]
