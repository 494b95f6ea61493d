"""Files of arrays: .npy, .npz and safetensors, and what in them is a weight or a state."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from .. import safetensors
from ..errors import ArgumentError
from ..hlo.types import TYPES
from . import npy
from .arrays import Array, dtype_of, narrowed
from .leaf import Leaf

_SPARE = 1 << 20
"""Bytes of an archive beside those of the arrays that are wanted."""


class Sized(Protocol):
    """An array that is wanted."""

    @property
    def element_type(self) -> str: ...

    @property
    def dimensions(self) -> tuple[int, ...]: ...


class File:
    """A file of arrays: .npy, .npz or safetensors, told by its first bytes. Raises ArgumentError or ParseError if it is
    none.

    Nothing is read, nor unpacked, that is larger than what is wanted can be.
    """

    def __init__(self, path: str | os.PathLike[str], stdin: IO[bytes] | None = None) -> None:
        """With `stdin`, that is read, whatever `path` is."""
        self._stream = stdin
        self._path = Path(path)
        self.shown = str(path) if stdin is None else "standard input"
        """The file's name in messages."""
        if self._stream is None:
            with self._path.open("rb") as file:
                self._head = file.read(16)
        else:
            self._head = self._stream.read(16)
        head = self._head
        is_tensors = head[8:9] == b"{" or self._path.suffix == ".safetensors"
        self.kind = (
            "npy" if head[:6] == b"\x93NUMPY" else "npz" if head[:2] == b"PK" else "safetensors" if is_tensors else ""
        )
        """npy, npz or safetensors."""
        if not self.kind:
            what = "holds no arrays" if head else "is empty"
            raise ArgumentError(
                f"{self.shown} {what}: it is not a .npy file, nor .npz or safetensors (numpy.save and numpy.savez "
                f"write them)"
            )

    def array(self, element_type: str, elements: int) -> Array:
        """The only array, of at most so many elements.

        The formats do not know the small types, bfloat16 and its like: such arrays come back as raw bytes of their
        width, or are given in a type that NumPy has, if that holds the same values.
        """
        arrays = self.listed((element_type,), (elements,))
        if not arrays:
            raise ArgumentError(f"{self.shown} holds no array")
        return arrays[0]

    def listed(self, element_types: Sequence[str] | None, elements: Sequence[int]) -> list[Array]:
        """The array of a `.npy` file or those of a `.npz` file, in its order; without their types they are as NumPy has
        them.

        `elements` are those that each may have at most.
        """
        if self.kind == "safetensors":
            raise ArgumentError(
                f"{self.shown} is a safetensors file, whose arrays have names and no order: a .npy or .npz file is "
                f"wanted"
            )
        data = self._read(sum(npy.bound(count) + npy.ENTRY for count in elements) + npy.ENTRY)
        if self.kind == "npz":

            def most_elements(i: int, name: str) -> int:
                if i == len(elements):
                    raise ArgumentError(
                        "it holds several arrays; give each as a .npy file"
                        if i == 1
                        else f"it holds more than {i} arrays"
                    )
                return elements[i]

            arrays = [array for _, array in _unpacked(BytesIO(data), self.shown, most_elements)]
        else:
            arrays = [_parsed(data, self.shown)]
        types = element_types or ()
        return [typed(array, types[i], self.shown) if i < len(types) else array for i, array in enumerate(arrays)]

    def arrays(self, elements: Mapping[str, int], floats: Container[str] = ()) -> tuple[dict[str, Array], list[str]]:
        """Of an .npz or a safetensors file the arrays of these names, with so many elements or fewer, and the names of
        all.

        Those whose names are in `floats` may be stored in 8 bits with their scales (see `safetensors.widened`).
        """
        if self.kind == "npy":
            raise ArgumentError(f"{self.shown} holds one array without a name: an .npz or a safetensors file is wanted")
        if self.kind == "safetensors":
            if self._stream is not None:
                raise ArgumentError("a safetensors file cannot come from standard input: name the file")
            tensors = safetensors.read(self._path)
            wanted = [name for name in tensors if name in elements]
            made = {
                n: safetensors.widened(tensors, n, self._path) if n in floats else safetensors.array_of(tensors[n])
                for n in wanted
            }
            return made, list(tensors)
        names = []

        def most_elements(i: int, name: str) -> int | None:
            names.append(name)
            return elements.get(name)

        if self._stream is not None:  # which can be read once
            self._stream = BytesIO(self._read(npy.bound(sum(elements.values())) + _SPARE))
            self._head = b""
            archive: Path | BytesIO = BytesIO(self._stream.getvalue())
        else:
            archive = self._path
        return dict(_unpacked(archive, self.shown, most_elements)), names

    def _read(self, most: int) -> bytes:
        """All of it, which must not be more than that."""
        if self._stream is None:
            with self._path.open("rb") as file:
                data = file.read(most + 1)
        else:
            data = self._head + self._stream.read(most + 1)
        if len(data) > most:
            what = _described(data, self.shown) if self.kind == "npy" else "arrays"
            raise ArgumentError(
                f"{self.shown} holds {what}: more than the {most} bytes that the program can need; give the file of "
                f"one of its inputs"
            )
        return data


def held_in(
    file: File, shapes: Mapping[str, Sized], key: str | None
) -> tuple[dict[str, Array], list[str], dict[str, str]]:
    """The weights and states that a file has, by name; the names of its arrays; and how each weight or state would be
    called there.

    `key` is the name of the one that the only array of the file is, or what the names in the file lack in front, as
    "params" of "params.w". `shapes` has all there are. Floats of files that have names are rounded, or widened, to what
    is wanted.
    """
    only = None if key is None else shapes.get(key)
    if file.kind == "npy":
        if key is None or only is None:
            return {}, [], {}
        array = file.array(only.element_type, prod(only.dimensions))
        return {key: narrowed(array, only.element_type, f"{file.shown}: '{key}'")}, [], {}
    prefix = "" if key is None else f"{key}."
    wanted = {name.removeprefix(prefix): name for name in shapes if name.startswith(prefix)}
    floats = {short for short, name in wanted.items() if shapes[name].element_type == "f32"}
    arrays, names = file.arrays({short: prod(shapes[name].dimensions) for short, name in wanted.items()}, floats)
    if key is not None and only is not None and not arrays and len(names) == 1:
        arrays, wanted = file.arrays({names[0]: prod(only.dimensions)})[0], {names[0]: key}
    return (
        {
            wanted[short]: rounded(array, shapes[wanted[short]].element_type, f"{file.shown}: '{short}'")
            for short, array in arrays.items()
        },
        names,
        wanted,
    )


def some(names: Iterable[str]) -> str:
    """The first of some names, for messages, and how many more there are."""
    listed = list(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8:,} more" if len(listed) > 8 else "") or "none"


def values_in(path: str | os.PathLike[str], leaves: Mapping[str, Leaf], key: str | None) -> dict[str, Array]:
    """Returns the weights and states in a file, by name: arrays of the shapes and dtypes of the `leaves`, which are all
    of the module.

    `key` is as in `held_in`. Raises ArgumentError, which names the array, if one has no place, does not fit, or is
    missing below the key, ParseError if a safetensors file is damaged.
    """
    shown = os.fspath(path)
    try:
        file = File(path)
        only = file.kind == "npy" and key not in leaves
        found, names, wanted = ({}, [], {}) if only else held_in(file, leaves, key)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f"cannot read {shown!r}, a file of weights and states: {reason}") from error
    if only:
        raise ArgumentError(
            f"{shown}: a .npy file has one array: say which it is of ({some(leaves)}), as in set(NAME, {shown!r})"
        )
    taken = {short for short, name in wanted.items() if name in found}
    spare = [
        n
        for n in names
        if n not in taken and not (n.endswith(safetensors.SCALE) and n.removesuffix(safetensors.SCALE) in taken)
    ]
    if spare:
        known = some(wanted) + (f" below {key!r}" if key is not None else "")
        heads = (
            [name.removesuffix(f".{spare[0]}") for name in leaves if name.endswith(f".{spare[0]}")]
            if key is None
            else []
        )
        hint = f"; set({heads[0]!r}, {shown!r}) puts '{heads[0]}.' in front of its names" if heads else ""
        raise ArgumentError(
            f"{shown} has {some(spare)}, and there is no weight or state of that name: there are {known}{hint}"
        )
    missing = [name for name in wanted.values() if name not in found] if key is not None else []
    if missing:
        raise ArgumentError(f"{shown} lacks {missing[0]!r} ({leaves[missing[0]]}): it has {some(names)}")
    if not found:
        raise ArgumentError(f"{shown} has no arrays")
    for name, array in found.items():
        leaf = leaves[name]
        if array.dtype != dtype_of(leaf.element_type) or not leaf.fits(array.shape):
            has = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
            raise ArgumentError(
                f"{shown} does not fit: the {leaf.kind} {name!r} is {leaf}, and the array in the file is {has}"
            )
    return found


def _unpacked(
    archive: Path | BytesIO, path: str, most_elements: Callable[[int, str], int | None]
) -> list[tuple[str, Array]]:
    """Arrays of a `.npz` file with their names, in its order.

    `most_elements(i, name)` says how many elements the i-th may have; None: it is not wanted, and left packed.
    """
    arrays = []
    try:
        with zipfile.ZipFile(archive) as opened:
            for i, info in enumerate(opened.infolist()):
                name = npy.name(info)
                count = most_elements(i, name)
                if count is None:
                    continue
                most = npy.bound(count)
                data = npy.entry(opened, info, most)
                if len(data) > most:
                    raise ArgumentError(
                        f"'{name}' is {_described(data, path)}: more than the {most} bytes that the program can need"
                    )
                arrays.append((name, npy.parsed(data)))
    except ArgumentError as error:
        raise ArgumentError(f"{path} is not a .npz file for this: {error}") from None
    except npy.DAMAGED as error:
        raise ArgumentError(
            f"{path} is damaged, or no .npz file: {str(error)[:200]}; numpy.savez writes such files"
        ) from None
    return arrays


def _parsed(data: bytes, path: str) -> Array:
    try:
        return npy.parsed(data)
    except ArgumentError as error:
        raise ArgumentError(
            f"{path} is damaged, or no .npy file for this: {error}; numpy.save writes such files"
        ) from None


def _described(data: bytes, path: str) -> str:
    """The type of the array in a `.npy` file that begins with `data`."""
    try:
        dtype, shape, _, _ = npy.header(data)
    except ArgumentError as error:
        raise ArgumentError(
            f"{path} is damaged, or no .npy file for this: {error}; numpy.save writes such files"
        ) from None
    return f"{dtype}{list(shape)}"


def rounded(array: Array, element_type: str, what: str) -> Array:
    """The array of a file as one of an element type: raw bytes of that width are its elements, floats are rounded to
    fewer bits, and the rest is converted as every argument is. `what` begins the message of an ArgumentError."""
    dtype = dtype_of(element_type)
    is_float = array.dtype.kind == "f" or array.dtype == dtype_of("bf16")
    if (
        array.dtype.kind == "V"
        and not is_float
        and array.dtype.names is None
        and array.dtype.itemsize == dtype.itemsize
    ):
        return array.view(dtype)
    if is_float and TYPES[element_type].kind == "float" and array.dtype != dtype:
        with np.errstate(all="ignore"):
            return array.astype(dtype)
    return narrowed(array, element_type, what)


def typed(array: Array, element_type: str, path: str) -> Array:
    """The array as one of an element type, if it holds such values."""
    dtype = dtype_of(element_type)
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize and array.dtype.names is None:
        return array.view(dtype)
    if dtype.isbuiltin != 1 and array.dtype.kind in "iuf" and array.dtype != dtype:
        with np.errstate(all="ignore"):
            converted = array.astype(dtype)
            back = converted.astype(array.dtype)
        if not np.array_equal(back, array, equal_nan=array.dtype.kind == "f"):
            raise ArgumentError(f"{path} is {array.dtype.name}, and not all of its values are values of {element_type}")
        return converted
    return array
