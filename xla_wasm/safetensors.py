"""Weights from safetensors files, bound to the parameters of a module as constants; such files with weights in fewer
bits."""

from __future__ import annotations

import fnmatch
import json
import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .dataclass import dataclass
from .errors import ArgumentError, ParseError, counted
from .hlo.ir import Instruction, Module
from .hlo.literal import Literal
from .hlo.shape import Layout, Shape
from .hlo.signature import PARAMETER_NAMES, STRUCTURE, names_in, renumber_parameters
from .hlo.types import TYPES

Array = Any
"""An array of numpy."""
ELEMENT_TYPES = dict(
    row.split(":")
    for row in (
        "BOOL:pred U8:u8 I8:s8 U16:u16 I16:s16 U32:u32 I32:s32 U64:u64 I64:s64 F16:f16 BF16:bf16 F32:f32 F64:f64"
    ).split()
)
"""The element types by their names in a safetensors file."""
FORMATS = ("f32", "f16", "bf16", "int8")
"""The formats of arrays of f32 in a file."""
SCALE = ".scale"
"""The ending of the name of an array's scales, if it is in 8 bits."""
_LONGEST_HEADER = 100_000_000
_MOST_DIMENSIONS = 32
"""The limit of every NumPy."""
_TRUTH = b"\0" + b"\1" * 255
"""For each byte of a BOOL what it becomes: any but 0 is true."""


@dataclass(frozen=True)
class Tensor:
    """An array of a file: `data` is its little-endian elements in row-major order, read when they are needed."""

    element_type: str
    """HLO's name of the type, as "f32"."""
    dimensions: tuple[int, ...]
    """Its sizes, outermost first."""
    data: memoryview
    """The bytes of its elements."""


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The arrays of a safetensors file by name. Raises ParseError if the file is damaged."""
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise ParseError(f"{path}: not a safetensors file, or cut short: it has only {size} bytes; copy it again")
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    length = int.from_bytes(content[:8], "little")
    if length > min(size - 8, _LONGEST_HEADER):
        raise ParseError(
            f"{path}: not a safetensors file, or cut short: its header has {length} bytes, the file {size}; copy it "
            f"again"
        )
    room = size - 8 - length
    try:
        header = json.loads(bytes(content[8 : 8 + length]), parse_int=_integer)
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        tensors = {}
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            element_type, dimensions = ELEMENT_TYPES[entry["dtype"]], tuple(entry["shape"])
            if len(dimensions) > _MOST_DIMENSIONS or not all(
                type(n) is int and n >= 0 for n in (begin, end, *dimensions)
            ):
                raise ParseError(
                    f"{path}: '{name}' has dimensions or offsets that are no numbers of elements, or too many of "
                    f"them: write the file again"
                )
            needed = math.prod(dimensions) * TYPES[element_type].bytes
            if not begin <= end <= room or end - begin != needed:
                raise ParseError(
                    f"{path}: '{name}' takes {needed} bytes, but lies at {begin} to {end} of {room}: copy it again"
                )
            tensors[name] = Tensor(element_type, dimensions, content[8 + length + begin : 8 + length + end])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ParseError(
            f"{path}: the header of the safetensors file makes no sense: {str(error)[:200]!a}; write it again"
        ) from error
    return tensors


def array_of(tensor: Tensor) -> Array:
    """The array, which reads the file as it is used."""
    import numpy as np

    from .host.arrays import dtype_of

    return np.frombuffer(tensor.data, dtype_of(tensor.element_type)).reshape(tensor.dimensions)


def widened(tensors: Mapping[str, Tensor], name: str, path: str | os.PathLike[str]) -> Array:
    """The array of a name; of one in 8 bits its numbers times those of `name.scale`, an f32 array of as many
    dimensions, each of them as long or 1. Raises ParseError where that is missing or does not fit."""
    tensor, scale = tensors[name], tensors.get(f"{name}{SCALE}")
    if tensor.element_type != "s8":
        return array_of(tensor)
    if scale is None or scale.element_type != "f32" or len(scale.dimensions) != len(tensor.dimensions):
        what = "missing" if scale is None else f"{scale.element_type}{list(scale.dimensions)}"
        raise ParseError(
            f"{path}: '{name}' is stored in 8 bits, so '{name}{SCALE}' has to be f32 of as many dimensions: it is "
            f"{what}"
        )
    if any(size not in (1, whole) for size, whole in zip(scale.dimensions, tensor.dimensions)):
        raise ParseError(
            f"{path}: the scales of '{name}' are {list(scale.dimensions)}, which does not fit {list(tensor.dimensions)}"
        )
    return array_of(tensor) * array_of(scale)


def save(path: str | os.PathLike[str], arrays: Any, format: str | Mapping[str, str] = "f32") -> None:
    """Writes arrays as a safetensors file, those of f32 with two dimensions or more in fewer bits if `format` says so.

    `arrays` has them by name, or in a structure: a pytree of JAX's, whose leaves are called as those of arguments, as
    "layers.0.w"; leaves that are functions or texts are left out. `format` is "f32", "f16", "bf16" or "int8", or maps
    names or patterns to these; the last that suits a name counts. In "int8" each index of the last dimension has a
    scale of its own, that of what `x @ w` sums: `name` holds whole numbers from -127 to 127 and `name.scale` what they
    are multiplied by. Raises ArgumentError for another format, for two arrays of one name, and for numbers in "int8"
    that are not finite.
    """
    import numpy as np

    from .files import writing
    from .host.arrays import array_of, dtype_of, native
    from .host.structures import named_arrays

    rules = [("*", format)] if isinstance(format, str) else list(format.items())
    wrong = next((given for _, given in rules if given not in FORMATS), None)
    if wrong is not None:
        raise ArgumentError(f"there is no format {wrong!r} of a safetensors file: expected one of {', '.join(FORMATS)}")
    stored: dict[str, Array] = {}
    for name, given in named_arrays(arrays).items():
        if callable(given) or isinstance(given, str):
            continue
        array = native(array_of(given))
        found = [how for pattern, how in rules if fnmatch.fnmatchcase(name, pattern)]
        how = found[-1] if found and array.dtype == np.float32 and array.ndim > 1 else "f32"
        if how == "int8":
            most = np.abs(array).max(tuple(range(array.ndim - 1)), keepdims=True, initial=0)
            if not np.isfinite(most).all():
                raise ArgumentError(
                    f"'{name}' has numbers that are not finite, which int8 cannot hold: give it another format"
                )
            stored[f"{name}{SCALE}"] = scale = np.where(most > 0, most / np.float32(127), 1).astype(np.float32)
            stored[name] = np.clip(np.rint(array / scale), -127, 127).astype(np.int8)
        else:
            stored[name] = array.astype(dtype_of(how)) if how != "f32" else array
    names = {dtype_of(element_type): name for name, element_type in ELEMENT_TYPES.items()}
    # As the format's own library writes them: the widest first, so that all are aligned, and scales come before their
    # numbers.
    order = sorted(stored, key=lambda name: (-stored[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    at = 0
    for name in order:
        array = stored[name]
        if array.dtype not in names:
            raise ArgumentError(f"'{name}' is {array.dtype}, which safetensors files do not have: convert it first")
        header[name] = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with writing(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(np.ascontiguousarray(stored[name]).tobytes())


def _integer(digits: str) -> int:
    """A number of the header. Python takes a second for one of a million digits, so for a file of them minutes."""
    if len(digits) > 19:
        raise ValueError(f"a number of {counted(len(digits), 'digit')}")
    return int(digits)


def bind(module: Module, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
    """Puts constants in place of the parameters named `prefix` + NAME, for every NAME that the module asks for.

    A float that the module wants with fewer bits than the file has is rounded to nearest. The other parameters keep
    their order.
    """
    names = _names(module)
    wanted = {i: name.removeprefix(prefix) for i, name in enumerate(names) if name.startswith(prefix)}
    missing = [name for name in wanted.values() if name not in tensors]
    if missing:
        lacks = f"{', '.join(missing[:3])}{' and more' if len(missing) > 3 else ''}"
        raise ArgumentError(f"the weights have no {lacks}: take the file of this model")
    parameters = module.entry.parameters
    for i, name in wanted.items():
        _make_constant(parameters[i], tensors[name], name)
    kept = [i for i in range(len(parameters)) if i not in wanted]
    renumber_parameters(module, {i: number for number, i in enumerate(kept)})
    module.parameter_shapes = None
    # It is that of the arguments with the parameters that are no longer there.
    module.frontend_attributes.pop(STRUCTURE, None)
    module.frontend_attributes[PARAMETER_NAMES] = json.dumps([name for i, name in enumerate(names) if i not in wanted])


def _names(module: Module) -> list[str]:
    names = names_in(module, PARAMETER_NAMES) or []
    if len(names) != len(module.entry.parameters):
        raise ArgumentError(
            f"'{module.name}' does not name each of its parameters, or some are tuples: lower it with "
            f"xla_wasm.jax.lower"
        )
    return names


def _make_constant(parameter: Instruction, tensor: Tensor, name: str) -> None:
    element_type = parameter.shape.element_type
    if tensor.dimensions != parameter.shape.dimensions:
        raise ArgumentError(
            f"'{name}' has shape {list(tensor.dimensions)}, the module wants {list(parameter.shape.dimensions)}"
        )
    shape = Shape(element_type, tensor.dimensions, Layout.default(len(tensor.dimensions)))
    data = tensor.data if tensor.element_type == element_type else _rounded(tensor, element_type, name)
    if element_type == "pred":
        data = bytes(data).translate(_TRUTH)
    parameter.opcode = "constant"
    parameter.shape = shape
    parameter.attrs = {"literal": Literal(shape, data)}


def _rounded(tensor: Tensor, element_type: str, name: str) -> bytes:
    from .host.arrays import dtype_of

    floats = ("f64", "f32", "f16", "bf16")
    if tensor.element_type not in floats or element_type not in floats:
        raise ArgumentError(f"'{name}' is {tensor.element_type}, the module wants {element_type}")
    import numpy as np

    return np.frombuffer(tensor.data, dtype_of(tensor.element_type)).astype(dtype_of(element_type)).tobytes()
