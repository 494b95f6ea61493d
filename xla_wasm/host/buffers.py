"""Arrays without numpy: typed memoryviews with a shape. What `arrays` and `layouts` do where numpy is, in the standard
library alone.

A float that Python has no format for is its bits in an unsigned integer; a complex number is a pair along a further,
last dimension; an array without elements is an empty memoryview of one dimension, since memoryviews have no sizes of
zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import isfinite, prod
from typing import Any

from ..errors import ArgumentError
from ..hlo import layout
from ..hlo.types import TYPES, WIDE, limits
from .leaf import Leaf

_NAMES = {"?": "bool", "e": "float16", "f": "float32", "d": "float64"}
_BITS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def format_of(element_type: str) -> str:
    """The format of a memoryview that holds elements of this type."""
    return TYPES[element_type].code


def shape_of(leaf: Leaf, dimensions: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of the memoryview for an array of these."""
    return (*dimensions, 2) if TYPES[leaf.element_type].kind == "complex" else tuple(dimensions)


def shaped(data: Any, format_: str, shape: tuple[int, ...]) -> memoryview:
    """Bytes as elements of that format and shape."""
    flat = _cast(data, format_)
    return flat.cast("B").cast(format_, shape) if all(shape) else flat


def _cast(data: Any, format_: str) -> Any:
    """Contiguous bytes as elements of that format."""
    return memoryview(data).cast("B").cast(format_)  # type: ignore[call-overload]


def _width(format_: str) -> int:
    return int(_cast(b"", format_).itemsize)


class _Empty:
    """An array without elements that comes as lists, which have a shape where no memoryview has one."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def tobytes(self) -> bytes:
        return b""


class Slot:
    """The conversion of a caller's array to a leaf, with its checks, and back."""

    __slots__ = ("format", "leaf", "shape", "what")

    def __init__(self, leaf: Leaf, what: str) -> None:
        self.leaf = leaf
        self.what = what
        self.format = format_of(leaf.element_type)
        self.shape = shape_of(leaf, leaf.dimensions)

    def __str__(self) -> str:
        return str(self.leaf)

    def accept(self, value: Any) -> Any:
        """`value` as a memoryview of this type and of a shape that fits; elements of 64 bits are converted as
        `arrays.narrowed` does it, Python numbers and lists if that loses nothing."""
        if hasattr(value, "to_memoryview"):  # a typed array of JavaScript
            value = value.to_memoryview()
        try:
            view: Any = memoryview(value)
        except TypeError:
            return self._convert(value)
        given = view.format.lstrip("@=<")
        wide = WIDE.get(self.leaf.element_type)
        if wide is not None and _holds(format_of(wide), given, view.itemsize):
            view, given = self._narrowed(view, given), self.format
        flat = view.ndim == 1 and view.nbytes == self.leaf.bytes
        if not (_holds(self.format, given, view.itemsize) and (flat or self._fits(view.shape))):
            got = f"{_name(given, view.itemsize)}[{','.join(map(str, view.shape))}]"
            raise ArgumentError(f"{self.what} must be {self}, elements of {self._format_name()}; got {got}")
        made = shaped(view.tobytes(), self.format, self.shape if flat else view.shape)
        self._check_range(made.tobytes())
        return made

    def give(self, array: memoryview) -> Any:
        """Returns an array as callers get it."""
        return array

    def _format_name(self) -> str:
        return _name(self.format, TYPES[self.leaf.element_type].bytes)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        rank = len(self.leaf.dimensions)
        return shape[rank:] == self.shape[rank:] and self.leaf.fits(shape[:rank])

    def _narrowed(self, view: memoryview, given: str) -> memoryview:
        """Elements of 64 bits in half as many."""
        numbers = _cast(view.tobytes(), given)
        made = _cast(bytearray(len(numbers) * _width(self.format)), self.format)
        for i, number in enumerate(numbers):
            try:
                made[i] = number
            except (ValueError, OverflowError):
                takes = "integers from {} to {}".format(*limits(self.leaf.element_type))
                raise ArgumentError(
                    f"{self.what} is {self.leaf.element_type}, and {number} in what is given does not fit; it takes "
                    f"{takes}"
                ) from None
        return shaped(made.tobytes(), self.format, tuple(view.shape or ()))

    def _convert(self, value: Any) -> Any:
        """Python numbers, or nested lists of them, as a memoryview."""
        dimensions = _dimensions(value)
        if not self._fits(dimensions if len(self.shape) == len(self.leaf.dimensions) else (*dimensions, 2)):
            shown = ",".join(map(str, dimensions))
            raise ArgumentError(
                f"{self.what} must be {self}, got {_kind(value)}" + (f" of shape [{shown}]" if dimensions else "")
            )
        kind = TYPES[self.leaf.element_type].kind
        if kind == "float" and self.format not in "efd":
            raise ArgumentError(
                f"{self.what} must be {self}, the bits of {self.leaf.element_type}: numbers cannot be converted here"
            )
        numbers = list(_leaves(value, len(dimensions), dimensions, self))
        parts = [part for number in numbers for part in self._parts(number, kind)]
        flat = _cast(bytearray(len(parts) * _width(self.format)), self.format)
        for i, part in enumerate(parts):
            try:
                flat[i] = part
            except (ValueError, OverflowError):
                raise ArgumentError(f"{self.what} must be {self}: {part!r} does not fit") from None
            if (
                isinstance(part, int)
                and flat[i] != part
                or isinstance(part, float)
                and isfinite(part)
                and not isfinite(flat[i])
            ):
                raise ArgumentError(f"{self.what} must be {self}: {part!r} does not fit")
        self._check_range(flat.tobytes())
        if not all(dimensions):
            return _Empty(dimensions)
        return shaped(flat.tobytes(), self.format, shape_of(self.leaf, dimensions))

    def _parts(self, number: Any, kind: str) -> tuple[Any, ...]:
        """One element as what the format stores."""
        takes: Any = {
            "pred": bool,
            "signed": int,
            "unsigned": int,
            "float": (int, float),
            "complex": (int, float, complex),
        }[kind]
        if not isinstance(number, takes) or isinstance(number, bool) != (kind == "pred"):
            raise ArgumentError(f"{self.what} must be {self}, got {number!r}")
        return (complex(number).real, complex(number).imag) if kind == "complex" else (number,)

    def _check_range(self, data: bytes) -> None:
        """Integers of less than a byte come in whole bytes, and must have no more bits than they may."""
        type_ = TYPES[self.leaf.element_type]
        if type_.kind not in ("signed", "unsigned") or type_.bits >= 8:
            return
        signed = type_.kind == "signed"
        low, high = (-(1 << type_.bits - 1), 1 << type_.bits - 1) if signed else (0, 1 << type_.bits)
        for number in _cast(data, "b" if signed else "B"):
            if not low <= number < high:
                raise ArgumentError(f"{self.what} must be {self}: {number} does not fit")


def _holds(format_: str, given: str, itemsize: int) -> bool:
    """Returns True if elements of that format are elements of this one: letters differ between machines, sizes do
    not."""
    if itemsize != _width(format_):
        return False
    if format_ in "efd?":
        return given == format_ or (format_ == "e" and given == "H") or (format_ == "?" and given == "B")
    return given.isalpha() and (given in "bhilq") == (format_ in "bhiq") and given not in "efd"


class PhysicalSlot(Slot):
    """A slot whose arrays come and go as the physical bytes of the leaf's layout."""

    __slots__ = ()

    def __init__(self, leaf: Leaf, what: str) -> None:
        if leaf.sizes:
            why = "arrays with dynamic dimensions have no physical form; load the module without `physical`"
            raise ArgumentError(f"{what} is {leaf}: {why}")
        super().__init__(leaf, what)

    def __str__(self) -> str:
        return f"the {layout.physical_bytes(self.leaf.shape)} bytes of {self.leaf.shape}"

    def accept(self, value: Any) -> memoryview:
        """The array that bytes hold."""
        if hasattr(value, "to_memoryview"):
            value = value.to_memoryview()
        try:
            raw = memoryview(value)
        except TypeError as error:
            raise ArgumentError(f"{self.what} must be {self}: {error}") from error
        if raw.itemsize != 1 or raw.nbytes != layout.physical_bytes(self.leaf.shape):
            raise ArgumentError(f"{self.what} must be {self}, got {raw.nbytes} in elements of {raw.itemsize}")
        return shaped(layout.unpack(self.leaf.shape, raw.tobytes()), self.format, self.shape)

    def give(self, array: memoryview) -> bytes:
        return layout.pack(self.leaf.shape, array.tobytes())


def to_memory(leaf: Leaf, array: memoryview) -> bytes:
    """The bytes of the leaf's place in memory for an array; one that is smaller than the bounds lies at their
    beginning."""
    data = array.tobytes()
    if not data:
        return bytes(leaf.bytes)
    dimensions = tuple(array.shape or ())[: len(leaf.dimensions)]
    if dimensions == leaf.dimensions and _is_row_major(leaf):
        return data
    bits = _bits(leaf)
    room, source = _cast(bytearray(leaf.bytes), bits), _cast(data, bits)
    for i, place in enumerate(_places(leaf, dimensions)):
        room[place] = source[i]
    return bytes(room.tobytes())


def from_memory(leaf: Leaf, data: bytearray, dimensions: tuple[int, ...]) -> memoryview:
    """The array of these dimensions that lies in a leaf's place."""
    format_ = format_of(leaf.element_type)
    if dimensions == leaf.dimensions and _is_row_major(leaf):
        return shaped(data, format_, shape_of(leaf, dimensions))
    bits = _bits(leaf)
    source = _cast(data, bits)
    count = prod(shape_of(leaf, dimensions))
    made = _cast(bytearray(count * source.itemsize), bits)
    for i, place in enumerate(_places(leaf, dimensions)):
        made[i] = source[place]
    return shaped(made.cast("B"), format_, shape_of(leaf, dimensions))


def _bits(leaf: Leaf) -> str:
    """The format for moving elements as they are: floats would be converted, and NaNs with them."""
    return _BITS[_width(format_of(leaf.element_type))]


def _is_row_major(leaf: Leaf) -> bool:
    real = [d for d in leaf.minor_to_major if leaf.dimensions[d] != 1]
    return real == sorted(real, reverse=True)


def _places(leaf: Leaf, dimensions: Sequence[int]) -> Iterator[int]:
    """Yields the position of each element of a row-major array of these dimensions, counted in elements of `_bits`."""
    shape = shape_of(leaf, dimensions)
    strides = [1] * len(shape)
    step = shape[-1] if len(shape) > len(dimensions) else 1
    for d in leaf.minor_to_major:
        strides[d] = step
        step *= leaf.dimensions[d]
    return (sum(index) for index in product(*(range(0, size * stride, stride) for size, stride in zip(shape, strides))))


def _dimensions(value: Any) -> tuple[int, ...]:
    dimensions = []
    while isinstance(value, (list, tuple)):
        dimensions.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(dimensions)


def _leaves(value: Any, depth: int, dimensions: tuple[int, ...], slot: Slot) -> Iterator[Any]:
    """The numbers in nested lists, which must all be as long as the first of their level."""
    if depth == 0:
        yield value
        return
    if not isinstance(value, (list, tuple)) or len(value) != dimensions[-depth]:
        raise ArgumentError(f"{slot.what} must be {slot}, got lists of different lengths")
    for item in value:
        yield from _leaves(item, depth - 1, dimensions, slot)


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, (list, tuple)) else f"one {type(value).__name__}"


def _name(format_: str, itemsize: int) -> str:
    if format_ in _NAMES:
        return _NAMES[format_]
    if not format_.isalpha() or format_ in "cs":
        return f"{itemsize} bytes each "
    return f"{'' if format_ in 'bhilqn' else 'u'}int{8 * itemsize}"
