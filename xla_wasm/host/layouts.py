"""NumPy arrays packed into the bytes of a layout and back: the fast twin of `hlo.layout.pack` and `unpack`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..hlo import layout
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from .arrays import Array, Slot, dtype_of
from .dynamic import Place
from .leaf import Leaf

BytesLike = bytes | bytearray | memoryview


def pack(shape: Shape, array: Array) -> Array:
    """The physical bytes of an array, as a new array of u8. Padding is zero, or what the layout's `padding_value`
    says."""
    data = _packed(shape, physical(shape, array))
    return np.concatenate([np.frombuffer(layout.prefix(shape), np.uint8), data]) if layout.prefix_bytes(shape) else data


def unpack(shape: Shape, data: BytesLike | Array) -> Array:
    """The array that physical bytes hold; a view of them where the layout moves none."""
    raw = np.frombuffer(data, np.uint8)
    size = layout.physical_bytes(shape)
    if len(raw) != size:
        raise ArgumentError(f"{shape} takes {size} bytes, got {len(raw)}")
    return logical(shape, _elements(shape, raw[layout.prefix_bytes(shape) :]))


def physical(shape: Shape, array: Array) -> Array:
    """The elements in the order in which they lie, padding included, one-dimensional."""
    fill = np.frombuffer(layout.padding_element(shape), dtype_of(shape.element_type)).astype(array.dtype)[0]
    x = array.transpose(shape.minor_to_major[::-1])
    x = _padded(x, layout.physical_bounds(shape), fill)
    for tiling in layout.tilings(shape):
        outer, k = tiling.outer, len(tiling.tile)
        x = _padded(x.reshape(*outer, *tiling.dims), (*outer, *tiling.padded), fill)
        split = x.reshape(*outer, *(size for pair in zip(tiling.counts, tiling.tile) for size in pair))
        x = split.transpose(
            *range(len(outer)), *(len(outer) + 2 * i for i in range(k)), *(len(outer) + 2 * i + 1 for i in range(k))
        )
    return _padded(x.reshape(-1), (layout.physical_elements(shape),), fill)


def logical(shape: Shape, elements: Array) -> Array:
    """The inverse of `physical`."""
    dims = layout.physical_dimensions(shape)
    x = elements[: int(np.prod(dims, dtype=np.int64))].reshape(dims)
    for tiling in reversed(layout.tilings(shape)):
        rank, k = len(tiling.outer), len(tiling.tile)
        pairs = [axis for i in range(k) for axis in (rank + i, rank + k + i)]
        whole = x.reshape(tiling.after).transpose(*range(rank), *pairs).reshape(*tiling.outer, *tiling.padded)
        x = whole[tuple(slice(size) for size in (*tiling.outer, *tiling.dims))].reshape(tiling.before)
    major_to_minor = shape.minor_to_major[::-1]
    x = x.reshape(x.shape[x.ndim - shape.rank :])[tuple(slice(shape.dimensions[d]) for d in major_to_minor)]
    return x.transpose(np.argsort(major_to_minor)) if shape.rank else x


def _padded(x: Array, dims: tuple[int, ...], fill: Any) -> Array:
    if x.shape == dims:
        return x
    wide = np.full(dims, fill, x.dtype)
    wide[tuple(slice(size) for size in x.shape)] = x
    return wide


def _packed(shape: Shape, elements: Array) -> Array:
    """Elements put into as many bits as the layout gives them, the first in the lowest."""
    width, bits = elements.dtype.itemsize, layout.element_bits(shape)
    if bits == 8 * width:
        return elements.copy().view(np.uint8)
    codes = np.ascontiguousarray(elements).view(np.uint8).reshape(-1, width)
    if bits > 8:
        return _padded(codes, (len(codes), bits // 8), 0).reshape(-1)
    single = np.unpackbits(codes, axis=1, count=bits, bitorder="little")
    return np.packbits(single.reshape(-1), bitorder="little")


def _elements(shape: Shape, raw: Array) -> Array:
    """The inverse of `_packed`."""
    dtype, bits = dtype_of(shape.element_type), layout.element_bits(shape)
    if bits == 8 * dtype.itemsize:
        return raw.view(dtype)
    if bits > 8:
        return np.ascontiguousarray(raw.reshape(-1, bits // 8)[:, : dtype.itemsize]).view(dtype).reshape(-1)
    single = np.unpackbits(raw, count=layout.physical_elements(shape) * bits, bitorder="little").reshape(-1, bits)
    codes = np.packbits(single, axis=1, bitorder="little").reshape(-1)
    if TYPES[shape.element_type].kind == "signed":
        sign = 1 << TYPES[shape.element_type].bits - 1
        codes = (codes ^ np.uint8(sign)) - np.uint8(sign)
    return codes.view(dtype)


class PhysicalSlot(Slot):
    """A slot whose arrays come and go as the physical bytes of the leaf's layout."""

    __slots__ = ()

    def __init__(self, leaf: Leaf, what: str) -> None:
        if leaf.sizes:
            raise ArgumentError(
                f"{what} is {leaf}: arrays with dynamic dimensions have no physical form; load it without `physical`"
            )
        super().__init__(leaf, what)

    def __str__(self) -> str:
        return f"the {layout.physical_bytes(self.leaf.shape)} bytes of {self.leaf.shape}"

    def accept(self, value: Any) -> Array:
        """The array that bytes, or an array of u8, hold."""
        if isinstance(value, np.ndarray) and value.dtype != np.uint8:
            raise ArgumentError(f"{self.what} must be {self}, got an array of {value.dtype.name}")
        try:
            raw = np.frombuffer(np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value, np.uint8)
        except (TypeError, ValueError, BufferError) as error:
            raise ArgumentError(f"{self.what} must be {self}: {error}") from error
        if len(raw) != layout.physical_bytes(self.leaf.shape):
            raise ArgumentError(f"{self.what} must be {self}, got {len(raw)}")
        return unpack(self.leaf.shape, raw)

    def check_target(self, target: Any) -> None:
        raise ArgumentError(
            f"{self.what} comes as bytes: out goes with logical arrays only; load it without `physical`"
        )

    def give(self, array: Place) -> Array:
        return pack(self.leaf.shape, array if isinstance(array, np.ndarray) else array.copy())
