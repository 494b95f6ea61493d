"""Arrays that are memory of an instance itself: what is written to them needs no copy to get in, and what is read none
to get out."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .arrays import Array, view
from .leaf import Leaf


class Lease:
    """Memory that callers see. It keeps its instance, and arrays made of it keep it, so nobody reads memory that has
    been freed."""

    def __init__(self, instance: Any) -> None:
        self.instance = instance

    def array(self, leaf: Leaf, writable: bool) -> Array:
        """The leaf's place as an array of its logical shape, whatever its layout."""
        memory = self.instance.memory
        bytes_ = (ctypes.c_ubyte * len(memory)).from_address(ctypes.addressof(ctypes.c_ubyte.from_buffer(memory)))
        bytes_.lease = self  # type: ignore[attr-defined]
        array = view(leaf, memoryview(bytes_).cast("B"))
        array.flags.writeable = writable
        return array


def is_same(a: Any, b: Any) -> bool:
    """Returns True if two arrays of one type and shape are the same memory, element by element; False for anything but
    arrays."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return False
    return bool(a.ctypes.data == b.ctypes.data and a.strides == b.strides)


def lies_in(array: Any, memory: memoryview) -> bool:
    """Returns True if an array has, or may have, elements in that memory."""
    return bool(np.may_share_memory(array, np.frombuffer(memory, np.uint8)))
