"""`HloModule.from_exported`: files of jax.export, with the names of their inputs and outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from ..errors import ArgumentError, ParseError, XlaWasmError, counted
from ..hlo.ir import Module
from ..hlo.shape import Shape
from ..hlo.signature import LEAST_SIZES, PARAMETER_NAMES, RESULT_NAMES, add_unused_parameter, renumber_parameters
from ..mlir import bytecode, export
from ..mlir.elements import hlo_type
from ..mlir.export import Aval, Exported
from ..mlir.tree import Block, Complex, Op, Tensor, Type
from ..mlir.values import symbol, text
from .module import ILL_FORMED, Builder, from_tree
from .symbols import Dims, bounds, symbols_of

_PLATFORM_INDEX = "_platform_index"
_PLATFORM = "cpu"
_MOST = 1 << 31
"""Sizes are below: programs hold them as s32."""
_KEY_SIZES = {"key<fry>": ("2",), "key<rbg>": ("4",), "key<unsafe_rbg>": ("4",)}
"""The sizes that random keys have behind their own, as arrays of ui32."""


def from_exported(data: bytes | bytearray | memoryview, dims: Dims | None = None) -> Module:
    """The module in a file that `jax.export.Exported.serialize` wrote.

    Every leaf of the arguments is a parameter, used or not, in the order and with the names that `xla_wasm.jax.lower`
    gives; so are results. `dims` gives the sizes of symbolic dimensions, as in {"b": 8}. A range of them, as in {"b":
    range(1, 129)}, makes these dimensions dynamic: the program is compiled once, and arrays may have any of the sizes.
    Hosts refuse sizes outside of the range; a run whose sizes do not fit together ends with an error that says which.
    Of a program for several platforms it is the one for the CPU.
    """
    exported = export.read(data)
    sizes = _checked(exported, {} if dims is None else dims)
    try:
        return _module(exported, sizes)
    except XlaWasmError:
        raise
    except ILL_FORMED as error:
        raise ParseError(f"jax.export: the file is ill-formed ({type(error).__name__}: {error})") from None


def _module(exported: Exported, sizes: dict[str, range]) -> Module:
    """The module of an exported program, with the sizes of its symbols."""
    ops = bytecode.read(exported.module)
    builder = Builder(ops)
    entry = builder.entry()
    block = builder.block_of(entry)
    values = {
        i: _platform(exported)
        for i, given in enumerate(_marks(entry, block))
        if given.get("jax.global_constant") == _PLATFORM_INDEX
    }
    arguments = [i for i in range(len(block.arguments)) if i not in values]
    tokens = [i for i in arguments if block.arguments[i].type == "token"]
    leaves = [i for i in arguments if i not in tokens]
    if len(leaves) != len(exported.kept) or any(not 0 <= k < len(exported.input_types) for k in exported.kept):
        raise ParseError(
            f"jax.export: the program takes {counted(len(leaves), 'array')}, the file lists "
            f"{len(exported.kept)} of {len(exported.input_types)}"
        )
    shapes = [Shape("token")] * len(tokens)
    shapes += [_shape(block.arguments[i].type, exported.input_types[k], sizes) for i, k in zip(leaves, exported.kept)]
    least = [()] * len(tokens) + [
        tuple([low for low, _ in _sizes(exported.input_types[k], sizes)]) for k in exported.kept
    ]
    module = from_tree(ops, shapes if sizes else None, values, least if sizes else None)
    names = _argument_names(builder, block, leaves, exported)
    _add_unused(module, exported, len(tokens), sizes)
    _state_least_sizes(module, exported, sizes)
    _attach(module, PARAMETER_NAMES, names, sum(not p.shape.is_token for p in module.entry.parameters))
    count = sum(not shape.is_token for _, shape in module.entry.root.shape.leaves())
    _attach(module, RESULT_NAMES, _result_names(entry, exported), count)
    return module


def _checked(exported: Exported, dims: Dims) -> dict[str, range]:
    """The sizes by symbol, one as a range of one. Raises ArgumentError where one is missing."""
    if not isinstance(dims, Mapping):
        raise ArgumentError(f"dims must be sizes by name, such as {{'b': 8}}, not {dims!r}")
    needed = sorted({name for kind in exported.input_types for size in kind.sizes for name in symbols_of(size)})
    unknown = [name for name in dims if name not in needed]
    if unknown:
        raise ArgumentError(f"the program has no symbolic size {unknown[0]!r}; it has {', '.join(needed) or 'none'}")
    missing = [name for name in needed if name not in dims]
    if missing:
        example, options = ", ".join(f"{name!r}: 8" for name in needed), " ".join(f"--dim {name}=8" for name in needed)
        raise ArgumentError(
            f"the program has symbolic sizes: give {', '.join(missing)}, as in from_exported(data, "
            f"dims={{{example}}}), "
            f"or to the command as in {options}"
        )
    found = {}
    for name, size in dims.items():
        allowed = _range(size)
        if allowed is None or not allowed or allowed.step != 1 or allowed.start < 0:
            raise ArgumentError(
                f"dims[{name!r}] must be a size, or a range of sizes such as range(1, 129), not {size!r}"
            )
        if allowed.stop > _MOST:
            raise ArgumentError(f"dims[{name!r}] is {size!r}: sizes are below 2^31")
        found[name] = allowed
    return found


def _range(size: Any) -> range | None:
    """A range of sizes, or of one size, which may be an integer of NumPy's; None for anything else."""
    if isinstance(size, (range, bool)):
        return size if isinstance(size, range) else None
    try:
        return range(index(size), index(size) + 1)
    except TypeError:
        return None


def _platform(exported: Exported) -> int:
    """The number of the platform to take."""
    return exported.platforms.index(_PLATFORM) if _PLATFORM in exported.platforms else 0


def _marks(entry: Op, block: Block) -> Sequence[Mapping[str, object]]:
    return _dictionaries(entry, "arg_attrs") or ({},) * len(block.arguments)


def _dictionaries(entry: Op, key: str) -> tuple[Mapping[str, Any], ...]:
    """Returns the dictionaries of the program's arguments or results; empty if there are none. Raises ParseError."""
    found = entry.attributes.get(key) or ()
    if not isinstance(found, tuple) or not all(isinstance(given, dict) for given in found):
        raise ParseError(f"jax.export: {key} of the program must be a list of dictionaries")
    return found


def _sizes(aval: Aval, sizes: dict[str, range]) -> list[tuple[int, int]]:
    """The least and the greatest size of each dimension."""
    return [bounds(text, sizes) for text in aval.sizes + _KEY_SIZES.get(aval.dtype, ())]


def _of_sizes(name: str, found: list[tuple[int, int]]) -> Shape:
    dynamic = tuple([low != high for low, high in found])
    return Shape(name, tuple([high for _, high in found]), None, dynamic if any(dynamic) else ())


def _shape(kind: Type, aval: Aval, sizes: dict[str, range]) -> Shape:
    """The shape of an argument: sizes as the file states them, the element type as the program does."""
    name = hlo_type(kind.element) if isinstance(kind, Tensor) else None
    found = _sizes(aval, sizes)
    if name is None or not isinstance(kind, Tensor) or kind.sizes is None or len(kind.sizes) != len(found):
        raise ParseError(
            f"jax.export: an argument is {kind} in the program, but {aval.dtype}[{', '.join(aval.sizes)}] in the "
            f"file's list"
        )
    return _of_sizes(name, found)


# --- names ----------------------------------------------------------------------------------------------------------


def _argument_names(builder: Builder, block: Block, leaves: list[int], exported: Exported) -> list[str]:
    """A name for each leaf of the arguments, kept or not."""
    told = [_dotted(name) for name in _told_names(builder, block, leaves)]
    known = dict(zip(exported.kept, told))
    prefixes: dict[str, str] = {}
    for k, name in known.items():
        path = exported.inputs[k].path if k < len(exported.inputs) else ()
        parts = name.split(".")
        if name and path[:1] == ("0",) and len(path) > 1 and len(parts) >= len(path) - 1:
            prefixes.setdefault(path[1], ".".join(parts[: len(parts) - (len(path) - 2)]))
    names = []
    for k, leaf in enumerate(exported.inputs):
        if leaf.path[:1] == ("1",):
            names.append(".".join(leaf.path[1:]))
        elif known.get(k):
            names.append(known[k])
        else:
            first = leaf.path[1] if len(leaf.path) > 1 else "0"
            names.append(".".join([prefixes.get(first) or f"arg{first}", *leaf.path[2:]]))
    return names


def _told_names(builder: Builder, block: Block, leaves: list[int]) -> list[str]:
    """Returns the names that the program has for its arguments, or the function that it wraps."""
    told = [block.arguments[i].name for i in leaves]
    calls = [op for op in block.ops if op.name == "func.call"]
    if any(told) or not calls:
        return told
    wrapped = builder.functions.get(symbol(calls[-1].attributes["callee"]))
    if wrapped is None:
        return told
    names = {value: inner.name for value, inner in zip(calls[-1].operands, builder.block_of(wrapped).arguments)}
    return [names.get(block.arguments[i], "") for i in leaves]


def _result_names(entry: Op, exported: Exported) -> list[str]:
    told = [
        _dotted(text(given.get("jax.result_info", ""))).removeprefix("result").removeprefix(".")
        for given in _results(entry)
    ]
    paths = [".".join(leaf.path) for leaf in exported.outputs]
    if len(told) == len(paths):
        paths = [name or path for name, path in zip(told, paths)]
    return [path or "result" for path in paths]


def _results(entry: Op) -> Sequence[Mapping[str, Any]]:
    return [given for given in _dictionaries(entry, "res_attrs") if not given.get("jax.token")]


def _dotted(path: str) -> str:
    """p['w'][0].kernel as p.w.0.kernel."""
    parts = re.findall(r"\[(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|([^\]'\"]*))\]|([^\[\].]+)", path)
    return ".".join(next((part for part in found if part), "") for found in parts)


def _attach(module: Module, key: str, names: list[str], leaves: int) -> None:
    if len(names) == leaves:
        module.frontend_attributes[key] = json.dumps(names)


# --- inputs that the program does not use ---------------------------------------------------------------------------


def _add_unused(module: Module, exported: Exported, first: int, sizes: dict[str, range]) -> None:
    """Parameters for the leaves that the program leaves out, so that callers give all of them. `first` are tokens."""
    if len(exported.kept) == len(exported.input_types):
        return
    numbers = {i: i for i in range(first)} | {first + i: first + k for i, k in enumerate(exported.kept)}
    renumber_parameters(module, numbers)
    for k, aval in enumerate(exported.input_types):
        if k not in exported.kept:
            add_unused_parameter(module, first + k, _unused_shape(aval, sizes))


def _state_least_sizes(module: Module, exported: Exported, sizes: dict[str, range]) -> None:
    """Says in the module below which sizes its arguments may not be: conditions that hold from there on are not in
    it."""
    arrays = [p for p in module.entry.parameters if not p.shape.is_token]
    for p, aval in zip(arrays, exported.input_types, strict=True):
        least = [low for low, _ in _sizes(aval, sizes)]
        if any(low and dynamic for low, dynamic in zip(least, p.shape.dynamic)):
            p.frontend_attributes[LEAST_SIZES] = json.dumps(least)


def _unused_shape(aval: Aval, sizes: dict[str, range]) -> Shape:
    complexes = {"c64": Complex("f32"), "c128": Complex("f64")}
    dtype = "i1" if aval.dtype in ("bool", "float0") else "ui32" if aval.dtype in _KEY_SIZES else aval.dtype
    name = hlo_type(complexes.get(dtype, dtype))
    if name is None:
        raise ParseError(f"jax.export: an input of the type {aval.dtype}")
    return _of_sizes(name, _sizes(aval, sizes))
