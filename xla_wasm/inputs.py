"""Arrays for the command line: inputs, weights and states from files, and random values where there are none."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from . import safetensors
from .artifact import Artifact
from .errors import ArgumentError
from .hlo.ir import Instruction, Module
from .hlo.shape import Shape
from .hlo.signature import parameter_leaves
from .hlo.types import TYPES
from .host import npy
from .host.arrays import Array, dtype_of
from .host.manifest import Leaf
from .opening import STDIN, compile_as
from .ops.arrays import Value, accepted, flattened, nested
from .ops.hostio.reference import HostSide
from .showing import counted

_SPARE = 1 << 20
"""Bytes of an archive beside those of the arrays that are wanted."""


def arguments(leaves: Iterable[Leaf], given: Sequence[str], fill: bool, seed: int) -> list[Array]:
    """The inputs of a run: those that `--input` gives, the others random if `fill`. Shapes and dtypes are checked by `run`.

    X.NPY is the next input that has none, NAME=X.NPY the one of that name. An .npz or a safetensors file gives the inputs that are called
    as its arrays are; if none is, and the file has no names of its own, as `numpy.savez(file, a, b)` writes it, the next ones.
    """
    leaves = [leaf for leaf in leaves if leaf.kind == "input"]
    found: dict[str, Array] = {}
    for text in given:
        found |= _inputs(leaves, text, found)
    missing = [leaf for leaf in leaves if leaf.name not in found]
    if missing and not fill:
        first = missing[0]
        others = f" (and {counted(len(missing) - 1, 'other')})" if len(missing) > 1 else ""
        raise ArgumentError(
            f"an input is missing{others}: -i {first.name}=X.NPY, of type {first}; --random-inputs makes up what is not given"
        )
    rng = np.random.default_rng(seed)
    return [found[leaf.name] if leaf.name in found else random_array(rng, leaf.element_type, leaf.dimensions) for leaf in leaves]


def _inputs(leaves: Sequence[Leaf], text: str, found: Mapping[str, Array]) -> dict[str, Array]:
    """What one `--input` gives, by name, beside what was `found` before."""
    by_name = {leaf.name: leaf for leaf in leaves}
    name, path = named_file(text, by_name, by_name, "--input", "input")
    file = File(path)
    free = [leaf for leaf in leaves if leaf.name not in found] if name is None else [by_name[name]]
    if name in found:
        raise ArgumentError(f"--input {text}: '{name}' has been given before: leave one of them out")
    if not free:
        wanted = ", ".join(f"{leaf.name} {leaf}" for leaf in leaves[:8]) or "none"
        raise ArgumentError(f"--input {text} is one too many: the module takes {counted(len(leaves), 'input')} ({wanted})")
    if file.kind == "npy":
        return {free[0].name: file.array(free[0].element_type, prod(free[0].dimensions))}
    arrays, names = file.arrays({leaf.name: prod(leaf.dimensions) for leaf in free} if name is None else {})
    if arrays:
        return {key: _typed(array, by_name[key].element_type, file.shown) for key, array in arrays.items()}
    if name is None and [key for key in names if key in found]:
        raise ArgumentError(f"--input {text}: '{names[0]}' has been given before: leave one of them out")
    if file.kind == "npz" and (len(names) == 1 or (names and all(re.fullmatch(r"arr_\d+", key) for key in names))):
        if len(names) > len(free):
            raise ArgumentError(f"{file.shown} holds {counted(len(names), 'array')}, and there {_are(len(free), 'input')} for them")
        taken = free[: len(names)]
        listed = file.listed([leaf.element_type for leaf in taken], [prod(leaf.dimensions) for leaf in taken])
        return {leaf.name: array for leaf, array in zip(taken, listed)}
    raise ArgumentError(
        f"{file.shown} holds {_some(names)}, and the module's inputs are {_some(by_name)}: name its arrays after them, or give each with "
        "--input NAME=X.NPY"
    )


def held_values(shapes: Mapping[str, Sized], settings: Iterable[str]) -> dict[str, Array]:
    """The weights and states that `--set` gives, by name. `shapes` has the type and the dimensions of all there are.

    NAME=X.NPY gives one. An .npz or a safetensors file gives those that are called as its arrays are, and PREFIX=FILE those that are called
    PREFIX.NAME where its arrays are called NAME. Floats of such files are rounded, or widened, to what is wanted.
    """
    values: dict[str, Array] = {}
    prefixes = {name[:at]: None for name in shapes for at, c in enumerate(name) if c == "."}
    for text in settings:
        key, path = named_file(text, {**prefixes, **shapes}, shapes, "--set", "weight or state")
        values |= _held(shapes, text, key, File(path))
    return values


def _held(shapes: Mapping[str, Sized], text: str, key: str | None, file: File) -> dict[str, Array]:
    """What one `--set` gives: the text, and the name and the file in it."""
    only = shapes.get(key) if key is not None else None
    if file.kind == "npy":
        if key is None or only is None:
            hint = f"--set {next((name for name in shapes if key is None or name.startswith(f'{key}.')), 'NAME')}={file.shown}"
            raise ArgumentError(f"--set {text}: a .npy file has one array: say which weight or state it is, as in {hint} ({_some(shapes)})")
        return {key: file.array(only.element_type, prod(only.dimensions))}
    prefix = "" if key is None else f"{key}."
    wanted = {name.removeprefix(prefix): name for name in shapes if name.startswith(prefix)}
    floats = {short for short, name in wanted.items() if shapes[name].element_type == "f32"}
    arrays, names = file.arrays({short: prod(shapes[name].dimensions) for short, name in wanted.items()}, floats)
    if key is not None and only is not None and not arrays and len(names) == 1:
        arrays, wanted = file.arrays({names[0]: prod(only.dimensions)})[0], {names[0]: key}
    if not arrays:
        under = f" under '{prefix}'" if prefix else ""
        hint = "" if prefix else "; --set PREFIX=FILE puts 'PREFIX.' in front of its names"
        raise ArgumentError(
            f"--set {text}: no array of the file has the name of a weight or state{under}: it has {_some(names)}, and there are "
            f"{_some(wanted)}{hint}"
        )
    return {wanted[short]: rounded(array, shapes[wanted[short]].element_type) for short, array in arrays.items()}


def compiled_with(
    source: Module | Artifact, target: tuple[str, str], settings: Sequence[str], threads: bool = False, names: Container[str] = ()
) -> Artifact:
    """The artifact; of a module that is compiled for it, the parameters that `--set` gives become weights, and those called `names`."""
    if isinstance(source, Artifact):
        return source
    parameters = dict(parameter_leaves(source))
    given = held_values(parameters, settings)
    return compile_as(source, *target, weights=[name for name in parameters if name in given or name in names], threads=threads)


def named_file(text: str, names: Container[str], known: Iterable[str], option: str, what: str) -> tuple[str | None, str]:
    """The name, one of `names`, and the file of NAME=FILE; of FILE alone no name. ArgumentError if there is no such file."""
    splits = [(text[:at], text[at + 1 :]) for at, c in enumerate(text) if c == "="]
    name, path = next(((name, path) for name, path in splits if name in names), (None, text))
    if path == STDIN or Path(path).is_file():
        return name, path
    if name is None and splits:
        raise ArgumentError(f"{option} {text}: there is no {what} called '{splits[0][0]}': there are {_some(known)}")
    problem = "the name of a file is missing" if not path else "that is a folder" if Path(path).is_dir() else "there is no such file"
    raise ArgumentError(f"{option} {text}: {problem}")


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8:,} more" if len(listed) > 8 else "") or "none"


def _are(count: int, what: str) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, what)}"


class Sized(Protocol):
    """An array that is wanted."""

    @property
    def element_type(self) -> str: ...

    @property
    def dimensions(self) -> tuple[int, ...]: ...


class File:
    """A file of arrays: .npy, .npz or safetensors, told by how it begins. ArgumentError, or ParseError, if it is none of them.

    Nothing is read, nor unpacked, that is larger than what is wanted can be.
    """

    def __init__(self, path: Path | str) -> None:
        """STDIN as `path` is standard input."""
        self._stream = sys.stdin.buffer if path == STDIN else None
        self._path = Path(path)
        self.shown = "standard input" if path == STDIN else str(path)
        """How messages name it."""
        if self._stream is None:
            with self._path.open("rb") as file:
                self._head = file.read(16)
        else:
            self._head = self._stream.read(16)
        head = self._head
        is_tensors = head[8:9] == b"{" or self._path.suffix == ".safetensors"
        self.kind = "npy" if head[:6] == b"\x93NUMPY" else "npz" if head[:2] == b"PK" else "safetensors" if is_tensors else ""
        """npy, npz or safetensors."""
        if not self.kind:
            what = "holds no arrays" if head else "is empty"
            raise ArgumentError(
                f"{self.shown} {what}: it is not a .npy file, nor .npz or safetensors (numpy.save and numpy.savez write them)"
            )

    def array(self, element_type: str, elements: int) -> Array:
        """The only array, of at most so many elements.

        The formats do not know the small types, bfloat16 and its like: such arrays come back as raw bytes of their width, or are given in
        a type that NumPy has, if that holds the same values.
        """
        arrays = self.listed((element_type,), (elements,))
        if not arrays:
            raise ArgumentError(f"{self.shown} holds no array")
        return arrays[0]

    def listed(self, element_types: Sequence[str] | None, elements: Sequence[int]) -> list[Array]:
        """The array of a `.npy` file or those of a `.npz` file, in its order; without their types they are as NumPy has them.

        `elements` are those that each may have at most.
        """
        if self.kind == "safetensors":
            raise ArgumentError(f"{self.shown} is a safetensors file, whose arrays have names and no order: a .npy or .npz file is wanted")
        data = self._read(sum(npy.bound(count) + npy.ENTRY for count in elements) + npy.ENTRY)
        if self.kind == "npz":

            def most_elements(i: int, name: str) -> int:
                if i == len(elements):
                    raise ArgumentError("it holds several arrays; give each as a .npy file" if i == 1 else f"it holds more than {i} arrays")
                return elements[i]

            arrays = [array for _, array in _unpacked(BytesIO(data), self.shown, most_elements)]
        else:
            arrays = [_parsed(data, self.shown)]
        types = element_types or ()
        return [_typed(array, types[i], self.shown) if i < len(types) else array for i, array in enumerate(arrays)]

    def arrays(self, elements: Mapping[str, int], floats: Container[str] = ()) -> tuple[dict[str, Array], list[str]]:
        """Of an .npz or a safetensors file the arrays of these names, with so many elements or fewer, and the names of all.

        Those whose names are in `floats` may be stored in 8 bits with their scales (see `safetensors.widened`).
        """
        if self.kind == "npy":
            raise ArgumentError(f"{self.shown} holds one array without a name: an .npz or a safetensors file is wanted")
        if self.kind == "safetensors":
            if self._stream is not None:
                raise ArgumentError("a safetensors file cannot come from standard input: name the file")
            tensors = safetensors.read(self._path)
            wanted = [name for name in tensors if name in elements]
            made = {n: safetensors.widened(tensors, n, self._path) if n in floats else safetensors.array_of(tensors[n]) for n in wanted}
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
            raise ArgumentError(f"{self.shown} holds {what}: more than the {most} bytes that the program can need")
        return data


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


def _unpacked(archive: Path | BytesIO, path: str, most_elements: Callable[[int, str], int | None]) -> list[tuple[str, Array]]:
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
    except ArgumentError as error:
        raise ArgumentError(f"{path} is not a .npz file for this: {error}") from None
    except npy.DAMAGED as error:
        raise ArgumentError(f"{path} is damaged, or no .npz file: {str(error)[:200]}; numpy.savez writes such files") from None
    return arrays


def _parsed(data: bytes, path: str) -> Array:
    try:
        return npy.parsed(data)
    except ArgumentError as error:
        raise ArgumentError(f"{path} is damaged, or no .npy file for this: {error}; numpy.save writes such files") from None


def _described(data: bytes, path: str) -> str:
    """The type of the array in a `.npy` file that begins with `data`."""
    try:
        dtype, shape, _, _ = npy.header(data)
    except ArgumentError as error:
        raise ArgumentError(f"{path} is damaged, or no .npy file for this: {error}; numpy.save writes such files") from None
    return f"{dtype}{list(shape)}"


def rounded(array: Array, element_type: str) -> Array:
    """The array of a file as one of an element type: raw bytes of that width are its elements, and floats are rounded to fewer bits."""
    dtype = dtype_of(element_type)
    is_float = array.dtype.kind == "f" or array.dtype == dtype_of("bf16")
    if array.dtype.kind == "V" and not is_float and array.dtype.names is None and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array.astype(dtype) if is_float and TYPES[element_type].kind == "float" and array.dtype != dtype else array


def _typed(array: Array, element_type: str, path: str) -> Array:
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
