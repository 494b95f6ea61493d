"""Arrays with dynamic dimensions in linear memory: the room for their bounds, and the actual sizes beside it."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, Protocol

import numpy as np

from .leaf import Leaf

Array = np.ndarray[Any, Any]


class Place(Protocol):
    """The place of a leaf: an array in linear memory, or an object that acts like one."""

    def __setitem__(self, key: EllipsisType, value: Array, /) -> None: ...

    def copy(self) -> Array: ...


class DynamicPlace:
    """The place of a leaf with dynamic dimensions: it takes arrays of any size up to the bounds, and gives them
    back."""

    __slots__ = ("_leaf", "_room", "_sizes")

    def __init__(self, leaf: Leaf, room: Array, memory: memoryview) -> None:
        self._leaf = leaf
        self._room = room
        self._sizes = [None if at is None else np.ndarray((), np.int32, memory, at) for at in leaf.sizes]

    def __setitem__(self, key: EllipsisType, value: Array, /) -> None:
        for cell, size in zip(self._sizes, value.shape):
            if cell is not None:
                cell[...] = size
        self._room[tuple(slice(size) for size in value.shape)] = value

    def copy(self) -> Array:
        """Returns a copy of the part that has the actual sizes."""
        shape = self._leaf.actual(None if cell is None else int(cell) for cell in self._sizes)
        return self._room[tuple(map(slice, shape))].copy()
