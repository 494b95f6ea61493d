"""Arrays in NumPy's files, `.npy` and `.npz`, from anybody: nothing is allocated because a file says that it needs
it."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .arrays import Array, native

WIDEST = 32
"""Bytes of an element of NumPy's widest type, from which an array may be converted."""
HEADER = 10_000
"""Bytes of the longest header that NumPy reads."""
ENTRY = 1024
"""Bytes of an archive for each array: its name twice, and what stands around it."""
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    struct.error,
)
"""The exceptions that Python's zipfile raises for archives that are damaged, encrypted, or newer than it."""

Header = tuple[np.dtype[Any], tuple[int, ...], bool, int]
"""The type of an array, its shape, whether columns come first, and where in the file its elements begin."""


def bound(elements: int) -> int:
    """Bytes that a `.npy` file of so many elements may have."""
    return elements * WIDEST + HEADER


def header(data: bytes) -> Header:
    """Returns the header of a `.npy` file. Raises ArgumentError if it is damaged."""
    # NumPy writes float8_e5m2 as '<f1', which it cannot read.
    stream = io.BytesIO(data[: HEADER + 16].replace(b"'descr': '<f1'", b"'descr': '|V1'", 1))
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, columns, dtype = read(stream, max_header_size=HEADER)
    except Exception as error:  # NumPy evaluates the header's text, which may fail in any way
        is_cut = len(data) < HEADER and "EOF" in str(error)
        raise ArgumentError("it ends in the middle of its header" if is_cut else "its header makes no sense") from None
    if version > (3, 0) or any(size < 0 for size in shape):
        raise ArgumentError(f"its header states version {version}, shape {shape}")
    return dtype, shape, columns, stream.tell()


def parsed(data: bytes) -> Array:
    """Returns the array of a `.npy` file, which lies in `data` if its bytes have the machine's order. Raises
    ArgumentError if it is no such file, or has another length."""
    dtype, shape, columns, begin = header(data)
    if dtype.hasobject or dtype.subdtype is not None or not dtype.itemsize:
        raise ArgumentError(f"its elements are Python objects, arrays or nothing ({dtype}), and no numbers")
    size, there = math.prod(shape) * dtype.itemsize, len(data) - begin
    if size != there:
        raise ArgumentError(f"its header states {dtype}{list(shape)}, and {there} bytes of elements are there")
    try:
        return native(np.frombuffer(data, dtype, offset=begin).reshape(shape, order="F" if columns else "C"))
    except (
        ValueError,
        OverflowError,
    ) as error:  # more dimensions than NumPy has, or an empty array with a gigantic one
        raise ArgumentError(f"its header states {dtype}{list(shape[:8])}: {error}") from None


def entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    """An entry of a `.npz` file, of which no more than `most` bytes and one are unpacked: a longer one is cut there.

    Raises ArgumentError, or one of DAMAGED.
    """
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArgumentError(f"entry '{info.filename}' is compressed in a way other than NumPy's")
    with archive.open(info) as file:
        return file.read(most + 1)


def name(info: zipfile.ZipInfo) -> str:
    """The name of the array in an entry."""
    return info.filename.removesuffix(".npy")
