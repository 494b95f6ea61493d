"""Arguments for runs from the command line: `.npy` files, and random values where there are none."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from . import safetensors
from .errors import ArgumentError
from .hlo.ir import Instruction
from .hlo.shape import Shape
from .hlo.types import TYPES
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
        load_array(paths[i], leaf.element_type) if i < len(paths) else random_array(rng, leaf.element_type, leaf.dimensions)
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


def load_array(path: Path, element_type: str) -> Array:
    """The array of a `.npy` file.

    The format does not know the small types, bfloat16 and its like: such arrays come back as raw bytes of their width, or are given in a
    type that NumPy has, if that holds the same values.
    """
    arrays = load_arrays(path, (element_type,))
    if len(arrays) != 1:
        raise ArgumentError(f"{path} holds several arrays; give each as a .npy file")
    return arrays[0]


def load_arrays(path: Path, element_types: Sequence[str] | None) -> list[Array]:
    """The array of a `.npy` file or those of a `.npz` file, in its order; without their types they are as NumPy has them."""
    data = path.read_bytes()
    try:
        if data[:2] == b"PK":
            with zipfile.ZipFile(BytesIO(data)) as archive:
                arrays = [_parsed(archive.read(name)) for name in archive.namelist()]
        else:
            arrays = [_parsed(data)]
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ArgumentError(f"{path} is not a .npy file, nor a .npz file: {error}") from error
    types = element_types or ()
    return [_typed(array, types[i], path) if i < len(types) else array for i, array in enumerate(arrays)]


def load_named(path: Path) -> dict[str, Array]:
    """The arrays of a `.npz` or a safetensors file by name."""
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    if not is_archive:
        tensors = safetensors.read(path)
        return {name: np.frombuffer(t.data, dtype_of(t.element_type)).reshape(t.dimensions) for name, t in tensors.items()}
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy"): _parsed(archive.read(name)) for name in archive.namelist()}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ArgumentError(f"{path} is not a .npz file: {error}") from error


def rounded(array: Array, element_type: str) -> Array:
    """The array of a file as one of an element type: raw bytes of that width are its elements, and floats are rounded to fewer bits."""
    dtype = dtype_of(element_type)
    is_float = array.dtype.kind == "f" or array.dtype == dtype_of("bf16")
    if array.dtype.kind == "V" and not is_float and array.dtype.names is None and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array.astype(dtype) if is_float and TYPES[element_type].kind == "float" and array.dtype != dtype else array


def _parsed(data: bytes) -> Array:
    # float8_e5m2 calls itself '<f1', which NumPy writes down and cannot read.
    array: Array = np.load(BytesIO(data.replace(b"'descr': '<f1'", b"'descr': '|V1'", 1)), allow_pickle=False)
    return array


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
