"""Arrays in NumPy's files, `.npy` and `.npz`, and as raw bytes."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import ArgumentError
from ..hlo.types import TYPES
from ..host import npy
from ..host.arrays import Array, dtype_of
from ..host.leaf import Leaf
from .elements import ORDER, cast, check_bits, dtype_name, kind_of, type_text
from .json_arrays import inferred
from .problems import Problem, unfit, unreadable


def npy_bound(leaf: Leaf) -> int:
    """Bytes that a `.npy` file of an input may have."""
    return npy.bound(math.prod(leaf.dimensions))


def npz_bound(leaves: Sequence[Leaf]) -> int:
    """Bytes that a `.npz` file of all inputs may have."""
    return sum(npy_bound(leaf) + npy.ENTRY + 2 * len(leaf.name.encode()) for leaf in leaves) + npy.ENTRY


def from_npy(leaf: Leaf, data: bytes) -> Array:
    """The array of a `.npy` file as one that the input takes."""
    dtype, shape, columns, begin = _header(leaf, data)
    kind, wanted = kind_of(dtype), dtype_of(leaf.element_type)
    given = type_text(leaf.element_type if dtype.kind == "V" else dtype_name(dtype), shape)
    same = dtype.kind == "V" and dtype.names is None and wanted.isbuiltin != 1 and dtype.itemsize == wanted.itemsize
    if not same and (kind is None or ORDER[kind] > ORDER[TYPES[leaf.element_type].kind]):
        shown = given if kind else f"elements of NumPy's type {dtype}"
        raise unfit(f"input '{leaf.name}' must be {leaf}, and {shown} does not convert to that", leaf.name, leaf, shown)
    if not leaf.fits(shape):
        raise unfit(f"input '{leaf.name}' must be {leaf}, got {given}", leaf.name, leaf, given)
    size = math.prod(shape) * dtype.itemsize
    if len(data) - begin != size:
        state = "ends early" if len(data) - begin < size else "goes on after its end"
        raise unreadable(
            f"the .npy file of {given} {state}: {size} bytes of elements, and {len(data) - begin} are there", leaf.name
        )
    array = np.frombuffer(data, dtype, offset=begin).reshape(shape, order="F" if columns else "C")
    if same:
        return check_bits(leaf, np.ascontiguousarray(array).view(wanted).reshape(shape))
    if dtype.kind == "b":
        array = np.ascontiguousarray(array).view(np.uint8).reshape(shape) != 0  # whatever bytes they are
    return cast(leaf, array.astype(dtype.newbyteorder("="), copy=False))


def _header(leaf: Leaf, data: bytes) -> npy.Header:
    try:
        return npy.header(data)
    except ArgumentError as error:
        raise unreadable(f"the body is not a .npy file: {error}", leaf.name) from None


def from_npz(leaves: Sequence[Leaf], data: bytes) -> list[Array]:
    """The arrays of a `.npz` file, whose entries have the inputs' names or are arr_0, arr_1 and so on."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {npy.name(info): info for info in archive.infolist()}
            if len(entries) != len(archive.infolist()):
                raise unreadable("the archive has two entries of one name")
            chosen = _chosen(leaves, entries)
            return [from_npy(leaf, _content(archive, info, leaf)) for leaf, info in zip(leaves, chosen)]
    except npy.DAMAGED as error:
        raise unreadable(f"the body is not a .npz file: {error}") from None


def _chosen(leaves: Sequence[Leaf], entries: Mapping[str, zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    names = [leaf.name for leaf in leaves]
    if set(entries) != set(names) and set(entries) == {f"arr_{i}" for i in range(len(names))}:
        names = [f"arr_{i}" for i in range(len(names))]
    check_names(names, list(entries))
    return [entries[name] for name in names]


def check_names(wanted: Sequence[str], given: Sequence[str]) -> None:
    """Raises a Problem where an input is missing, or something is there that is none."""
    known = ", ".join(wanted) or "none"
    for name in given:
        if name not in wanted:
            raise unfit(f"there is no input '{name[:80]}'; the inputs are: {known}", name[:80])
    for name in wanted:
        if name not in given:
            raise unfit(f"input '{name}' is missing; the inputs are: {known}", name)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, leaf: Leaf) -> bytes:
    """An entry, of which no more is unpacked than the input can need."""
    limit = npy_bound(leaf)
    try:
        data = npy.entry(archive, info, limit)
    except ArgumentError as error:
        raise unreadable(str(error), leaf.name) from None
    if len(data) > limit:
        raise Problem(
            413, f"entry '{info.filename}' has more than the {limit} bytes that {leaf} can need", field=leaf.name
        )
    return data


def from_raw(leaf: Leaf, data: bytes) -> Array:
    """The array that little-endian elements in row-major order are; one dynamic dimension follows from how many there
    are."""
    dtype = dtype_of(leaf.element_type)
    if len(data) % dtype.itemsize:
        raise unreadable(
            f"{len(data)} bytes end within an element: those of {leaf} have {dtype.itemsize} bytes each", leaf.name
        )
    count = len(data) // dtype.itemsize
    shape = leaf.dimensions if not leaf.sizes and count == math.prod(leaf.dimensions) else None
    if leaf.sizes:
        if leaf.sizes[0] is None or sum(at is not None for at in leaf.sizes) > 1:
            message = (
                f"raw bytes do not say the sizes of input '{leaf.name}', {leaf}: send application/x-npy or "
                f"application/json"
            )
            raise unfit(message, leaf.name, leaf)
        shape = inferred(leaf, count)
    if shape is None:
        given = type_text(leaf.element_type, (count,))
        raise unfit(f"input '{leaf.name}' must be {leaf}, got the {len(data)} bytes of {given}", leaf.name, leaf, given)
    if leaf.element_type == "pred":
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
    little = dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype
    array = np.frombuffer(data, little).reshape(shape)
    return check_bits(leaf, array.astype(dtype, copy=False))


def to_npy(array: Array) -> bytes:
    """A `.npy` file; elements of types that NumPy lacks are plain bytes."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, _plain(array), allow_pickle=False)
    return stream.getvalue()


def _plain(array: Array) -> Array:
    return (
        array
        if array.dtype.isbuiltin == 1
        else np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}").reshape(array.shape)
    )


def to_npz(named: Mapping[str, Array]) -> bytes:
    """A `.npz` file with the arrays under their names, not compressed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in named.items():
            # A fixed date: equal results are equal bytes.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), to_npy(array))
    return stream.getvalue()


def to_raw(array: Array) -> bytes:
    """The elements, little-endian and in row-major order."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.isbuiltin == 1 else array
    return little.tobytes()
