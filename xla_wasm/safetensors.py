"""Weights from safetensors files, bound to the parameters of a module as constants."""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path

from .dataclass import dataclass
from .errors import ArgumentError, ParseError
from .hlo.ir import Instruction, Module
from .hlo.literal import Literal
from .hlo.shape import Layout, Shape
from .hlo.signature import PARAMETER_NAMES, names_in
from .hlo.types import TYPES

ELEMENT_TYPES = dict(
    row.split(":")
    for row in "BOOL:pred U8:u8 I8:s8 U16:u16 I16:s16 U32:u32 I32:s32 U64:u64 I64:s64 F16:f16 BF16:bf16 F32:f32 F64:f64".split()
)
"""What a safetensors file calls the element types."""
_LONGEST_HEADER = 100_000_000
_MOST_DIMENSIONS = 32
"""What every NumPy can have."""


@dataclass(frozen=True)
class Tensor:
    """An array of a file: `data` is its little-endian elements in row-major order, read when they are needed."""

    element_type: str
    dimensions: tuple[int, ...]
    data: memoryview


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The arrays of a safetensors file by name. Raises ParseError if the file is damaged."""
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise ParseError(f"{path}: not a safetensors file, it has only {size} bytes")
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    length = int.from_bytes(content[:8], "little")
    if length > min(size - 8, _LONGEST_HEADER):
        raise ParseError(f"{path}: not a safetensors file, or cut short: its header has {length} bytes, the file {size}")
    room = size - 8 - length
    try:
        header = json.loads(bytes(content[8 : 8 + length]), parse_int=_integer)
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        tensors = {}
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            element_type, dimensions = ELEMENT_TYPES[entry["dtype"]], tuple(entry["shape"])
            if len(dimensions) > _MOST_DIMENSIONS or not all(type(n) is int and n >= 0 for n in (begin, end, *dimensions)):
                raise ParseError(f"{path}: '{name}' has dimensions or offsets that are no numbers of elements, or too many of them")
            needed = math.prod(dimensions) * TYPES[element_type].bytes
            if not begin <= end <= room or end - begin != needed:
                raise ParseError(f"{path}: '{name}' takes {needed} bytes, but lies at {begin} to {end} of {room}")
            tensors[name] = Tensor(element_type, dimensions, content[8 + length + begin : 8 + length + end])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ParseError(f"{path}: the header of the safetensors file makes no sense: {str(error)[:200]!a}") from error
    return tensors


def _integer(digits: str) -> int:
    """A number of the header. Python takes a second for one of a million digits, so for a file of them minutes."""
    if len(digits) > 19:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def bind(module: Module, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
    """Puts constants in place of the parameters named `prefix` + NAME, for every NAME that the module asks for.

    A float that the module wants with fewer bits than the file has is rounded to nearest. The other parameters keep their order.
    """
    names = _names(module)
    wanted = {i: name.removeprefix(prefix) for i, name in enumerate(names) if name.startswith(prefix)}
    missing = [name for name in wanted.values() if name not in tensors]
    if missing:
        raise ArgumentError(f"the weights have no {', '.join(missing[:3])}{' and more' if len(missing) > 3 else ''}")
    parameters = module.entry.parameters
    for i, name in wanted.items():
        _make_constant(parameters[i], tensors[name], name)
    kept = [p for i, p in enumerate(parameters) if i not in wanted]
    for number, parameter in enumerate(kept):
        parameter.attrs["parameter_number"] = number
    module.parameter_shapes = None
    module.frontend_attributes[PARAMETER_NAMES] = json.dumps([name for i, name in enumerate(names) if i not in wanted])


def _names(module: Module) -> list[str]:
    names = names_in(module, PARAMETER_NAMES) or []
    if len(names) != len(module.entry.parameters):
        raise ArgumentError(f"'{module.name}' does not name each of its parameters, or some are tuples: lower it with xla_wasm.jax.lower")
    return names


def _make_constant(parameter: Instruction, tensor: Tensor, name: str) -> None:
    element_type = parameter.shape.element_type
    if tensor.dimensions != parameter.shape.dimensions:
        raise ArgumentError(f"'{name}' has shape {list(tensor.dimensions)}, the module wants {list(parameter.shape.dimensions)}")
    shape = Shape(element_type, tensor.dimensions, Layout.default(len(tensor.dimensions)))
    data = tensor.data if tensor.element_type == element_type else _rounded(tensor, element_type, name)
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
