"""Arguments for runs from the command line: `.npy` files, and random values where there are none."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from . import safetensors
from .errors import ArgumentError
from .hlo.ir import Instruction
from .hlo.shape import Shape
from .hlo.types import TYPES
from .host import npy
from .host.arrays import Array, dtype_of
from .host.manifest import Leaf
from .ops.arrays import Value, accepted, flattened, nested
from .ops.hostio.reference import HostSide


def arguments(leaves: Iterable[Leaf], paths: Sequence[Path], fill: bool, seed: int) -> list[Array]:
    """The inputs of a run: those of the files, then random ones if `fill`. Shapes and dtypes are checked by `run`."""
    leaves = [leaf for leaf in leaves if leaf.kind == "input"]
    if len(paths) > len(leaves) or (len(paths) < len(leaves) and not fill):
        wanted = ", ".join(f"{leaf.name} {leaf}" for leaf in leaves) or "none"
        hint = "; --random-inputs makes up the rest" if len(paths) < len(leaves) else ""
        raise ArgumentError(f"the module takes {len(leaves)} inputs ({wanted}), and --input gives {len(paths)}{hint}")
    rng = np.random.default_rng(seed)
    return [
        load_array(paths[i], leaf.element_type, prod(leaf.dimensions))
        if i < len(paths)
        else random_array(rng, leaf.element_type, leaf.dimensions)
        for i, leaf in enumerate(leaves)
    ]


class MadeUpHost(HostSide):
    """A host that feeds random arrays, whatever is asked for, and keeps both what it has fed and what has come out."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = np.random.default_rng(seed)
        self.fed: dict[str | None, list[Any]] = {}
        self.came: list[tuple[Instruction, list[Array]]] = []
        """What has come out, with what it came from, in order."""

    def next(self, instr: Instruction, name: str | None, shape: Shape, precise: bool) -> Value:
        """An item of random arrays; dynamic dimensions have the size of their bounds."""
        leaves = [leaf for _, leaf in shape.leaves()]
        arrays = [random_array(self._rng, leaf.element_type, leaf.dimensions) for leaf in leaves]
        self.fed.setdefault(name, []).append(tuple(arrays))
        return nested(shape, iter([accepted(instr.where, leaf, x, precise) for leaf, x in zip(leaves, arrays)]))

    def give(self, instr: Instruction, name: str | None, value: Value) -> None:
        """Keeps it."""
        self.came.append((instr, [np.array(array) for array in flattened(value)]))


def load_array(path: Path, element_type: str, elements: int) -> Array:
    """The array of a `.npy` file that is to have so many elements, or fewer.

    The format does not know the small types, bfloat16 and its like: such arrays come back as raw bytes of their width, or are given in a
    type that NumPy has, if that holds the same values.
    """
    arrays = load_arrays(path, (element_type,), (elements,))
    if not arrays:
        raise ArgumentError(f"{path} holds no array")
    return arrays[0]


def load_arrays(path: Path, element_types: Sequence[str] | None, elements: Sequence[int]) -> list[Array]:
    """The array of a `.npy` file or those of a `.npz` file, in its order; without their types they are as NumPy has them.

    `elements` are those that each may have at most: what is longer is refused before all of it is in memory.
    """
    most = sum(npy.bound(count) + npy.ENTRY for count in elements) + npy.ENTRY
    with path.open("rb") as file:
        data = file.read(most + 1)
    is_archive, is_long = data[:2] == b"PK", len(data) > most
    if is_long:
        what = "arrays" if is_archive else _described(data, path)
        raise ArgumentError(f"{path} holds {what}: more than the {most} bytes that the program can need")
    if is_archive:

        def most_elements(i: int, name: str) -> int:
            if i == len(elements):
                raise ArgumentError("it holds several arrays; give each as a .npy file" if i == 1 else f"it holds more than {i} arrays")
            return elements[i]

        arrays = [array for _, array in _unpacked(BytesIO(data), path, most_elements)]
    else:
        arrays = [_parsed(data, path)]
    types = element_types or ()
    return [_typed(array, types[i], path) if i < len(types) else array for i, array in enumerate(arrays)]


def load_named(path: Path, elements: Mapping[str, int], floats: Container[str] = ()) -> tuple[dict[str, Array], list[str]]:
    """Of a `.npz` or a safetensors file the arrays of these names, with so many elements or fewer, and the names of all that it holds.

    Those whose names are in `floats` may be stored in 8 bits with their scales (see `safetensors.widened`).
    """
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    names = []

    def most_elements(i: int, name: str) -> int | None:
        names.append(name)
        return elements.get(name)

    if is_archive:
        return dict(_unpacked(path, path, most_elements)), names
    tensors = safetensors.read(path)
    wanted = {name: tensors[name] for name in tensors if name in elements}
    return {
        name: safetensors.widened(tensors, name, path) if name in floats else safetensors.array_of(t) for name, t in wanted.items()
    }, list(tensors)


def _unpacked(archive: Path | BytesIO, path: Path, most_elements: Callable[[int, str], int | None]) -> list[tuple[str, Array]]:
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
                    raise ArgumentError(f"'{info.filename}' is larger than the {most} bytes that the program can need")
                arrays.append((name, npy.parsed(data)))
    except (ArgumentError, *npy.DAMAGED) as error:
        raise ArgumentError(f"{path} is not a .npz file for this: {error}") from None
    return arrays


def _parsed(data: bytes, path: Path) -> Array:
    try:
        return npy.parsed(data)
    except ArgumentError as error:
        raise ArgumentError(f"{path} is not a .npy file, nor a .npz file: {error}") from None


def _described(data: bytes, path: Path) -> str:
    """The type of the array in a `.npy` file that begins with `data`."""
    try:
        dtype, shape, _, _ = npy.header(data)
    except ArgumentError as error:
        raise ArgumentError(f"{path} is not a .npy file, nor a .npz file: {error}") from None
    return f"{dtype}{list(shape)}"


def rounded(array: Array, element_type: str) -> Array:
    """The array of a file as one of an element type: raw bytes of that width are its elements, and floats are rounded to fewer bits."""
    dtype = dtype_of(element_type)
    is_float = array.dtype.kind == "f" or array.dtype == dtype_of("bf16")
    if array.dtype.kind == "V" and not is_float and array.dtype.names is None and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array.astype(dtype) if is_float and TYPES[element_type].kind == "float" and array.dtype != dtype else array


def _typed(array: Array, element_type: str, path: Path) -> Array:
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


def random_array(rng: np.random.Generator, element_type: str, shape: tuple[int, ...]) -> Array:
    """Normal floats and complex numbers (positive where the type has no sign), integers from 0 to 9 or any of a small type."""
    dtype, element = dtype_of(element_type), TYPES[element_type]
    if element.kind == "pred":
        return rng.integers(0, 2, shape).astype(dtype)
    if element.kind in ("signed", "unsigned"):
        low = -(1 << (element.bits - 1)) if element.kind == "signed" and element.bits < 8 else 0
        return np.asarray(rng.integers(low, min(low + (1 << element.bits), 10), shape)).astype(np.int64).astype(dtype)
    values: Any = rng.standard_normal(shape)
    if element_type == "f8e8m0fnu":
        values = np.exp2(values)
    return np.asarray(values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)
