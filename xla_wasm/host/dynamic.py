"""Arrays with dynamic dimensions in linear memory: the room for their bounds, and the actual sizes beside it."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, Protocol

import numpy as np

from ..errors import ArtifactError
from .manifest import Leaf

Array = np.ndarray[Any, Any]


class Place(Protocol):
    """Where a leaf lies: an array in linear memory, or what acts like one."""

    def __setitem__(self, key: EllipsisType, value: Array, /) -> None: ...

    def copy(self) -> Array: ...


class DynamicPlace:
    """The place of a leaf with dynamic dimensions: it takes arrays of any size up to the bounds, and gives them back."""

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
        """The part that counts."""
        shape = []
        for d, (cell, bound) in enumerate(zip(self._sizes, self._leaf.dimensions)):
            size = bound if cell is None else int(cell)
            if not 0 <= size <= bound:
                raise ArtifactError(f"the module states size {size} of dimension {d} of '{self._leaf.name}', which is {self._leaf}")
            shape.append(size)
        return self._room[tuple(map(slice, shape))].copy()
