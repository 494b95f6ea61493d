"""numpy arrays as the bytes of a leaf's place, for hosts whose memory Python cannot look into. The numpy twin of part
of `buffers`."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import arrays, layouts
from .arrays import Array, dtype_of, narrowed, physical_bytes
from .leaf import Leaf


class Slot(arrays.Slot):
    """A slot that also takes typed arrays of JavaScript: they have no shape, so those of the right length are
    row-major."""

    __slots__ = ()

    def accept(self, value: Any) -> Array:
        if hasattr(value, "to_memoryview"):
            value = np.asarray(value.to_memoryview())
            value = value.view(np.bool_) if self.dtype == np.bool_ and value.dtype == np.uint8 else value
            value = narrowed(value, self.leaf.element_type, self.what)
            value = (
                value.reshape(self.shape) if value.nbytes == self.leaf.bytes and value.dtype == self.dtype else value
            )
        return super().accept(value)


class PhysicalSlot(layouts.PhysicalSlot):
    """A slot of physical bytes that also takes typed arrays of JavaScript."""

    __slots__ = ()

    def accept(self, value: Any) -> Array:
        return super().accept(value.to_memoryview() if hasattr(value, "to_memoryview") else value)


def to_memory(leaf: Leaf, array: Array) -> bytes:
    """The bytes of the leaf's place in memory for an array; one that is smaller than the bounds lies at their
    beginning."""
    if array.shape != leaf.dimensions:
        room = np.zeros(leaf.dimensions, array.dtype)
        room[tuple(map(slice, array.shape))] = array
        array = room
    return physical_bytes(leaf, array)


def from_memory(leaf: Leaf, data: bytearray, dimensions: tuple[int, ...]) -> Array:
    """The array of these dimensions that lies in a leaf's place."""
    major_to_minor = leaf.minor_to_major[::-1]
    stored = np.frombuffer(data, dtype_of(leaf.element_type)).reshape([leaf.dimensions[d] for d in major_to_minor])
    return stored.transpose(np.argsort(major_to_minor) if major_to_minor else ())[tuple(map(slice, dimensions))]
