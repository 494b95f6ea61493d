"""Arguments for runs from the command line: `.npy` files, and random values where there are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ArgumentError
from .hlo.types import TYPES
from .host.arrays import Array, dtype_of
from .host.manifest import Leaf


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


def load_array(path: Path, element_type: str) -> Array:
    """The array of a `.npy` file.

    The format does not know the small types, bfloat16 and its like: such arrays come back as raw bytes of their width, or are given in a
    type that NumPy has, if that holds the same values.
    """
    dtype = dtype_of(element_type)
    try:
        # float8_e5m2 calls itself '<f1', which NumPy writes down and cannot read.
        array = np.load(BytesIO(path.read_bytes().replace(b"'descr': '<f1'", b"'descr': '|V1'", 1)), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ArgumentError(f"{path} is not a .npy file: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"{path} holds several arrays; give each as a .npy file")
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
