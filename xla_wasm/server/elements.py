"""Values of the element types of HLO: conversions that lose no more than rounding, and the shortest decimals."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ..hlo.types import TYPES, limits
from ..host.arrays import Array, dtype_of
from ..host.leaf import Leaf
from .problems import Problem, unfit

ORDER = {"pred": 0, "unsigned": 1, "signed": 2, "float": 3, "complex": 4}
"""Kinds of which each casts to itself and those after it, as numpy's `same_kind` has it."""
_KINDS = {"b": "pred", "u": "unsigned", "i": "signed", "f": "float", "c": "complex"}
_NAMES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "complex64": "c64",
    "complex128": "c128",
    "bool": "pred",
}


def type_text(element_type: str, dimensions: tuple[int, ...]) -> str:
    """A type as HLO writes it, "f32[1,64]"."""
    return f"{element_type}[{','.join(map(str, dimensions))}]"


def dtype_name(dtype: np.dtype[Any]) -> str:
    """HLO's name of a numpy dtype, or numpy's own if HLO has none."""
    if dtype.kind in "iu" and dtype.itemsize <= 8:
        return f"{'s' if dtype.kind == 'i' else 'u'}{8 * dtype.itemsize}"
    return _NAMES.get(dtype.name, dtype.name)


def kind_of(dtype: np.dtype[Any]) -> str | None:
    """The kind of a numpy dtype in ORDER, None for those that hold no numbers."""
    return _KINDS.get(dtype.kind)


def out_of_range(leaf: Leaf, value: object) -> Problem:
    """422: a value that the input's type does not have."""
    type_ = TYPES[leaf.element_type]
    span = " (from {} to {})".format(*limits(leaf.element_type)) if type_.kind in ("signed", "unsigned") else ""
    return unfit(f"input '{leaf.name}': {value} is not a value of {leaf.element_type}{span}", leaf.name, leaf, value)


def cast(leaf: Leaf, array: Array) -> Array:
    """An array of numbers as one of the leaf's type: floats are rounded, and what has no place in the type is a
    Problem."""
    dtype = dtype_of(leaf.element_type)
    if array.dtype == dtype:
        return array
    kind = TYPES[leaf.element_type].kind
    if kind in ("signed", "unsigned"):
        _check_integers(leaf, array)
        return array.astype(dtype)
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
        if kind in ("float", "complex") and array.dtype.kind in "iufc":
            _check_floats(leaf, array, made)
    return made


def _check_integers(leaf: Leaf, array: Array) -> None:
    low, high = limits(leaf.element_type)
    if array.size:
        for value in (array.min(), array.max()):
            # As Python integers, since numpy compares int64 with uint64 as floats.
            if not low <= int(value) <= high:
                raise out_of_range(leaf, int(value))


def _check_floats(leaf: Leaf, array: Array, made: Array) -> None:
    """Finite values must stay finite and the others what they are; types without infinity stop at their greatest
    value."""
    if made.dtype.kind == "c":
        wide, narrow = (np.stack([x.real, x.imag]) for x in (array, made))
    else:
        # The small floats are compared as f32, which has all their values.
        wide, narrow = array, made if made.dtype.isbuiltin == 1 else made.astype(np.float32)
    lost = np.isfinite(wide) != np.isfinite(narrow)
    lost |= np.isnan(wide) != np.isnan(narrow)
    if TYPES[leaf.element_type].bits < 8:  # f4e2m1fn and its like have neither NaN nor infinity
        lost |= np.abs(wide) > np.nanmax(np.abs(all_values(leaf.element_type)))
    if lost.any():
        raise out_of_range(leaf, wide[lost].ravel()[0])


@cache
def all_values(element_type: str) -> Array:
    """Every value of a float of at most a byte, as f32, by its bits."""
    bits = np.arange(1 << TYPES[element_type].bits, dtype=np.uint8)
    values: Array = bits.view(dtype_of(element_type)).astype(np.float32)
    return values


def check_bits(leaf: Leaf, array: Array) -> Array:
    """An array that came as the bytes of its elements, if each byte is one: narrow types in their low bits.

    The high bits of signed integers may be zeros, as NumPy has them, or copies of the sign, as int8 has them.
    """
    type_ = TYPES[leaf.element_type]
    if type_.bits >= 8 or not array.size:
        return array
    raw = array.view(np.uint8)
    foreign = raw >> type_.bits != 0
    if type_.kind == "signed":
        foreign &= raw < 256 - (1 << type_.bits - 1)
    if foreign.any():
        given = f"byte {raw[foreign].ravel()[0]}"
        raise unfit(f"input '{leaf.name}': {given} is not a value of {leaf.element_type}", leaf.name, leaf, given)
    return array


def shortest(array: Array) -> list[float]:
    """Floats of any type as Python floats that print with the fewest digits that the type reads back to the same value,
    flattened."""
    flat = array.ravel()
    if flat.dtype == np.float64:
        values: list[float] = flat.tolist()
        return values
    if flat.dtype.kind == "f" and flat.dtype.itemsize == 4:
        # numpy prints the shortest digits of the type, and a Python float of so few digits prints them again.
        return [float(text) for text in flat.astype(str).tolist()]
    bits = flat.view(f"u{flat.dtype.itemsize}")
    found, places = np.unique(bits, return_inverse=True)
    with np.errstate(invalid="ignore"):  # NaN
        table = [_shortest_of(float(value), flat.dtype) for value in found.view(flat.dtype).astype(np.float64)]
    return [table[place] for place in places.ravel()]


def _shortest_of(value: float, dtype: np.dtype[Any]) -> float:
    if not np.isfinite(value):
        return value
    for digits in range(1, 9):
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        nearest = int(mantissa.replace(".", ""))
        # Where the values of a type lie far apart, a neighbour may read back to the value though the nearest decimal
        # does not.
        for number in (nearest, nearest + 1, nearest - 1):
            candidate = float(f"{number}e{int(exponent) - digits + 1}")
            with np.errstate(all="ignore"):
                if float(np.float64(candidate).astype(dtype)) == value:
                    return math.copysign(candidate, value)
    return value
