"""Weights as they were set, from what the module has made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..hlo.types import REAL_OF, TYPES
from .arrays import Array, dtype_of

Forms = Sequence[bytes | memoryview]


def unpack(element_type: str, total: int, made: Forms, make: Callable[[bytes], Forms]) -> bytes | None:
    """The `total` bytes of a weight, from places to which the module has only moved its numbers, perhaps in a wider
    type: `made`. None if these do not have all of them. A NaN that was widened may have another payload.

    The module itself tells what lies where: `make` has it move other bytes there, which count the elements.
    """
    part = REAL_OF.get(element_type, element_type)
    dtype = dtype_of(part)
    for stored in (dtype, *map(np.dtype, ("f4", "i4", "i2", "f8", "i8"))):
        if stored is dtype or stored.itemsize > dtype.itemsize:
            found = _found(part, dtype, stored, total, made, make)
            if found is not None:
                return found
    return None


def _bits(element_type: str) -> int:
    """The bits of an element that may be anything: by these it is neither negative nor a NaN."""
    type_ = TYPES[element_type]
    return max(type_.bits - {"float": 2, "signed": 1}.get(type_.kind, 0), 1)


def _found(
    part: str, dtype: np.dtype[Any], stored: np.dtype[Any], total: int, made: Forms, make: Callable[[bytes], Forms]
) -> bytes | None:
    """As `unpack`, if the module has stored the numbers as this type."""
    unit, bits = np.dtype(f"u{dtype.itemsize}"), _bits(part)
    count, mask = total // dtype.itemsize, unit.type((1 << bits) - 1)

    def read(forms: Forms) -> Array:
        numbers = np.concatenate([np.frombuffer(form, stored, len(form) // stored.itemsize) for form in forms])
        if part == "bf16" and stored == np.float32:
            return (numbers.view(np.uint32) >> 16).astype(unit)  # a NaN as it is
        with np.errstate(all="ignore"):
            return numbers.astype(dtype, copy=False).view(unit)

    numbers: Array = np.zeros((), np.int64)
    varies: Array = np.ones((), np.bool_)
    for shift in range(0, (count - 1).bit_length() or 1, bits):
        digit = (np.arange(count) >> shift).astype(unit) & mask
        one = read(make(digit.tobytes())) & mask
        varies = varies & (read(make((digit ^ mask).tobytes())) ^ mask == one)  # padding does not
        numbers = numbers | one.astype(np.int64) << shift
    there = np.flatnonzero(varies & (numbers < count))
    places = np.full(count, -1)
    places[numbers[there]] = there
    return None if places.min() < 0 else read(made)[places].tobytes()
