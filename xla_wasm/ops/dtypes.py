"""NumPy dtypes of HLO element types, and the widening and narrowing that the reference evaluator computes with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from ..errors import ArgumentError
from ..hlo.shape import Shape
from ..hlo.types import ARRAY_TYPES, TYPES
from ..host.arrays import narrowed

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Value: TypeAlias = Any
"""A value in the evaluator: an Array, a tuple of Values, or None (a token)."""


def _dtype(name: str) -> np.dtype[Any]:
    module, _, scalar = name.rpartition(".")
    return np.dtype(getattr(ml_dtypes, scalar) if module else scalar)


DTYPES: dict[str, np.dtype[Any]] = {name: _dtype(TYPES[name].numpy) for name in ARRAY_TYPES}
"""The dtype of an array of each element type."""

_WIDER = {"f16", "bf16", "f32", "f64"}


def accepted(what: str, shape: Shape, value: Any, precise: bool, least: tuple[int, ...] = ()) -> Array:
    """Returns a caller's value for an array of a shape, in the dtype to compute with; it is converted as hosts convert
    it. Dynamic dimensions have any size up to their bounds, from `least` on if that has a size for each dimension.
    Raises ArgumentError for another dtype or shape."""
    array = narrowed(np.asarray(value), shape.element_type, what)
    wanted = DTYPES[shape.element_type]
    if array.dtype != wanted:
        raise ArgumentError(f"{what} is {shape.without_layout()}: expected dtype {wanted}, got {array.dtype}")
    if not fits(array.shape, shape) or any(low > size for low, size in zip(least, array.shape)):
        ends = f", from {least} on" if least else ""
        raise ArgumentError(
            f"{what} is {shape.without_layout()}: expected shape {shape.dimensions}{ends}, got {array.shape}"
        )
    if wanted.kind == "b":
        return np.asarray(array.view(np.uint8) != 0)  # any byte but 0 is true
    return array.astype(dtype_of(shape.element_type, precise))


def fits(dimensions: Sequence[int], shape: Shape) -> bool:
    """Returns True if an array of these dimensions is one of the shape: where that is dynamic, of any size up to the
    bound."""
    flags = shape.dynamic or (False,) * shape.rank
    return len(dimensions) == shape.rank and all(
        n == bound or (flag and n < bound) for n, bound, flag in zip(dimensions, shape.dimensions, flags)
    )


def nested(shape: Shape, flat: Iterator[Value]) -> Value:
    """The value of `shape` whose leaves an iterator gives in order."""
    if shape.is_tuple:
        return tuple(nested(s, flat) for s in shape.tuple_shapes)
    return None if shape.is_token else next(flat)


def flattened(value: Value) -> list[Array]:
    """The arrays of a value in order; tokens are left out."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in flattened(element)]
    return [] if value is None else [value]


def wide(x: Array) -> Array:
    """`x` in the type that the evaluator computes in: f64, c128, or an integer of at least a byte.

    One f64 operation rounded to f32 is the f32 operation, for + - * / and square root, and nearly always for the rest.
    """
    kind = TYPES_OF[x.dtype].kind
    if kind == "float":
        return x.astype(np.float64)
    if kind == "complex":
        return x.astype(np.complex128)
    if x.dtype.kind == "V":
        return x.astype(np.int8 if kind == "signed" else np.uint8)
    return x


TYPES_OF = {dtype: TYPES[name] for name, dtype in DTYPES.items()}


def dtype_of(element_type: str, precise: bool) -> np.dtype[Any]:
    """The dtype that holds `element_type`; when `precise`, that of floats of 16 bits and more is f64."""
    if precise and element_type in _WIDER:
        return DTYPES["f64"]
    if precise and element_type == "c64":
        return DTYPES["c128"]
    return DTYPES[element_type]


def narrow(x: Array, element_type: str, precise: bool) -> Array:
    """A computed `x` as an array of `element_type`: integers keep their low bits, floats round to nearest even.

    Floats narrower than f32 are rounded to f32 first, which is what XLA computes them in.
    """
    x = np.asarray(x)
    dtype = dtype_of(element_type, precise)
    if x.dtype == dtype:
        return x
    type_ = TYPES[element_type]
    if type_.kind in ("signed", "unsigned") and type_.bits < 8:
        low = x.astype(np.int64) & ((1 << type_.bits) - 1)
        if type_.kind == "signed":
            sign = 1 << (type_.bits - 1)
            low = (low ^ sign) - sign
        return np.asarray(low.astype(np.int8).astype(dtype))  # what NumPy computes of no dimensions is no array
    if type_.kind == "float" and type_.bits < 32 and x.dtype == np.float64 and dtype != np.float64:
        x = x.astype(np.float32)
    if type_.kind != "complex" and x.dtype.kind == "c":
        x = x.real
    if type_.kind == "float" and type_.format and type_.format.special == "finite":
        x = np.where(np.isnan(x), x.dtype.type(-0.0), x)
    if element_type == "f4e2m1fn":
        x = np.clip(x, -6, 6)
    return np.asarray(x.astype(dtype))
