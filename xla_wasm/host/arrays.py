"""numpy arrays on one side, leaves of the manifest on the other: element types, arguments, views on linear memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArtifactError
from ..hlo.types import ARRAY_TYPES, TYPES, WIDE, limits
from .dynamic import DynamicPlace, Place
from .handlers import raise_if_handlers
from .leaf import Leaf
from .structures import key_words

Array = np.ndarray[Any, Any]


@cache
def dtype_of(element_type: str) -> np.dtype[Any]:
    """The numpy dtype of an HLO element type; the narrow ones come from ml_dtypes, a byte for each element.

    Where ml_dtypes is not installed, floats that numpy lacks are their bits in uint16 or uint8, and integers narrower
    than a byte are int8 or uint8.
    """
    if element_type not in ARRAY_TYPES:
        raise ArtifactError(f"this host has no numpy dtype for {element_type}")
    type_ = TYPES[element_type]
    module, _, name = type_.numpy.rpartition(".")
    if not module:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(f"{'int' if type_.kind == 'signed' else 'uint'}{8 * type_.bytes}")
    scalar = getattr(ml_dtypes, name, None)
    if scalar is None:
        raise ArtifactError(f"this host has no numpy dtype for {element_type}")
    return np.dtype(scalar)


def native(array: Array) -> Array:
    """The array in the machine's order of bytes: itself, if it has that."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def array_of(value: Any) -> Array:
    """A caller's value as an array of NumPy's; random keys of JAX's are the words that they consist of."""
    try:
        return np.asarray(value)
    except TypeError:
        words = key_words(value)
        if words is value:
            raise
        return np.asarray(words)


def narrowed(array: Array, element_type: str, what: str) -> Array:
    """An array as `jax.jit` takes it for an input of this type: one in the machine's order of bytes, and one of 64 bits
    (of 128, if it is complex) in the place of half as many as numbers of those. Floats are rounded to nearest, and
    infinite beyond the range. Any other array stays what it is.

    Raises ArgumentError for an integer that does not fit, of which JAX would drop the high bits.
    """
    array = native(array)
    wide = WIDE.get(element_type)
    if wide is None or array.dtype != TYPES[wide].numpy:
        return array
    if array.dtype.kind in "iu" and array.size:
        low, high = limits(element_type)
        for value in (int(array.min()), int(array.max())):
            if not low <= value <= high:
                raise ArgumentError(
                    f"{what} is {element_type}, and {value} in what is given does not fit; it takes "
                    f"{_range(element_type)}"
                )
    with np.errstate(all="ignore"):
        return array.astype(TYPES[element_type].numpy)


def place(leaf: Leaf, memory: memoryview) -> Place:
    """The leaf's place in memory, to be written and copied as a whole."""
    return DynamicPlace(leaf, view(leaf, memory), memory) if leaf.sizes else view(leaf, memory)


def view(leaf: Leaf, memory: memoryview) -> Array:
    """The leaf's place in memory as an array of its logical shape, whatever its layout."""
    dtype = dtype_of(leaf.element_type)
    strides = [0] * len(leaf.dimensions)
    step = dtype.itemsize
    for dimension in leaf.minor_to_major:
        strides[dimension] = step
        step *= leaf.dimensions[dimension]
    offset = 0 if leaf.bytes == 0 else leaf.offset
    return np.ndarray(leaf.dimensions, dtype, memory, offset, strides)


def physical_bytes(leaf: Leaf, array: Array) -> bytes:
    """The elements of an array of the leaf's shape in the order of the leaf's layout."""
    return array.transpose(leaf.minor_to_major[::-1]).tobytes()


def ordered_bytes(leaf: Leaf, array: Array) -> memoryview:
    """As `physical_bytes`, but no copy where they lie side by side in this order: they may be the array's."""
    array = np.ascontiguousarray(array.transpose(leaf.minor_to_major[::-1]))
    return array.reshape(-1).view(np.uint8).data


def _range(element_type: str) -> str:
    """The integers of a type, for a message."""
    return "integers from {} to {}".format(*limits(element_type))


def _in_range(array: Array, element_type: str) -> bool:
    """Returns True if integers of less than a byte, which a wider dtype holds, have no more bits than their type."""
    low, high = limits(element_type)
    return TYPES[element_type].bits >= 8 or bool(np.all((array >= low) & (array <= high)))


def _python(array: Array) -> str:
    """Returns the name of a type of Python for what a caller gave who gave no array."""
    kinds = {"b": "bool", "u": "int", "i": "int", "f": "float", "c": "complex", "U": "str", "S": "bytes"}
    first = array.reshape(-1)[0]
    name = "None" if first is None else kinds.get(array.dtype.kind) or type(first).__name__
    return f"a list of Python's {name}" if array.ndim else f"Python's {name}"


class Slot:
    """The conversion of a caller's array to a leaf, with its checks, and back."""

    __slots__ = ("dtype", "leaf", "shape", "what")

    def __init__(self, leaf: Leaf, what: str) -> None:
        self.leaf = leaf
        self.what = what
        self.dtype = dtype_of(leaf.element_type)
        self.shape = leaf.dimensions

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(self.leaf.shown_dimensions)}]"

    def accept(self, value: Any) -> Array:
        """`value` as an array of exactly this dtype and shape: arrays are converted as `narrowed` does it, Python
        numbers and lists if that loses nothing."""
        if type(value) is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            return value
        typed = hasattr(value, "dtype")
        try:
            array = array_of(value)
        except Exception as error:  # whatever a foreign __array__ may raise
            raise_if_handlers(error)
            ragged = isinstance(value, (list, tuple)) and isinstance(error, ValueError)
            why = "the lists in it have different lengths, and all rows need as many numbers" if ragged else str(error)
            raise ArgumentError(f"{self.what} must be {self}: {why}") from error
        if not typed:
            array = self._convert(array)
        array = narrowed(array, self.leaf.element_type, self.what)
        if array.dtype != self.dtype or not self.leaf.fits(array.shape):
            raise ArgumentError(
                f"{self.what} must be {self}, got {array.dtype.name}[{','.join(map(str, array.shape))}]"
                f"{self._advice(array)}"
            )
        return array

    def _advice(self, array: Array) -> str:
        """The end of a message about an array of another dtype or shape."""
        if array.shape == self.shape:
            return (
                f"; convert it with .astype({self.dtype.name!r})"
                if self.dtype.isbuiltin == 1
                else "; convert its dtype"
            )
        if array.dtype == self.dtype and array.size == self.leaf.bytes // self.dtype.itemsize:
            return f"; .reshape({self.shape}) would give it that shape"
        return ""

    def give(self, array: Place) -> Array:
        """Returns a copy of an array in the module's memory, as callers get it."""
        return array.copy()

    def check_target(self, target: Any) -> None:
        """Raises ArgumentError unless the array can take what is in the leaf."""
        if self.leaf.sizes:
            raise ArgumentError(f"{self.what} is {self}: out takes no arrays with dynamic dimensions")
        if not isinstance(target, np.ndarray) or target.dtype != self.dtype or target.shape != self.shape:
            given = type(target).__name__
            if isinstance(target, np.ndarray):
                name = target.dtype.name if target.dtype.isnative else target.dtype.str
                given = f"{name}[{','.join(map(str, target.shape))}]"
            raise ArgumentError(f"out: {self.what} needs an array of {self}, got {given}")
        if not target.flags.writeable:
            raise ArgumentError(f"out: the array for {self.what} cannot be written to")

    def _convert(self, array: Array) -> Array:
        """Python numbers as the leaf's dtype. A float may be rounded, but an integer must stay what it is and nothing
        may overflow."""
        if array.size == 0:
            return array.astype(self.dtype)
        if TYPES[self.leaf.element_type].kind == "float" and self.dtype.kind == "u":
            raise ArgumentError(
                f"{self.what} must be {self}, the bits of {self.leaf.element_type}: numbers need ml_dtypes to be "
                f"installed"
            )
        order = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
        kind = TYPES[self.leaf.element_type].kind
        target = {"pred": 0, "signed": 1, "unsigned": 1, "float": 2, "complex": 3}[kind]
        if (
            array.dtype.kind not in order
            or order[array.dtype.kind] > target
            or (array.dtype.kind == "b") != (kind == "pred")
        ):
            raise ArgumentError(
                f"{self.what} must be {self}, got {_python(array)}: pass an array of that type, or numbers that fit it"
            )
        with np.errstate(all="ignore"):
            converted = array.astype(self.dtype)
            exact = array.dtype.kind in "fc" or bool(np.all(converted.astype(array.dtype) == array))
            # Unsigned targets wrap negative numbers, and wrapping back hides it.
            exact = exact and not (kind == "unsigned" and bool(np.any(array < 0)))
            exact = exact and not (kind == "signed" and array.dtype.kind == "u" and bool(np.any(converted < 0)))
            exact = exact and (self.dtype.kind not in "iu" or _in_range(array, self.leaf.element_type))
            finite = kind not in ("float", "complex") or bool(np.all(np.isfinite(converted) | ~np.isfinite(array)))
        if not (exact and finite):
            room = f"; it takes {_range(self.leaf.element_type)}" if kind in ("signed", "unsigned") else ""
            raise ArgumentError(f"{self.what} must be {self}: a value does not fit {self.dtype.name}{room}")
        return converted
