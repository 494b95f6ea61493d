"""Files that the command line names: HLO modules and compiled artifacts, told by their content, and HLO made into an
artifact."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from ..artifact import Artifact
from ..errors import ArgumentError, ParseError, XlaWasmError
from ..hlo.ir import Module
from ..hlo.proto.container import EXPORTED, mlir_kind, read_module
from ..options import ALL_WEIGHTS
from . import words

STDIN = "-"
"""Stands for standard input, and for standard output, in the place of a file's name."""
_MOST_LOOKED_AT = 10_000
"""Files of a folder among which one is looked for that somebody may have meant."""


def no_such_file(path: Path) -> str:
    """Returns words for a file that does not exist: one of a similar name that may be meant, or where to look."""
    try:
        names = sorted(entry.name for entry in islice(path.parent.iterdir(), _MOST_LOOKED_AT) if entry.is_file())
    except OSError:
        return f"there is no such file, and no folder {path.parent}: look at its path"
    close = get_close_matches(path.name, names, 1, 0.8)
    if not close:
        return "there is no such file: look at its name and path"
    return f"there is no such file; did you mean {path.with_name(close[0])}?"


def read(path: Path, dims: Iterable[str] = ()) -> Module | Artifact:
    """Reads a file, whose kind its content tells: a module in any format, or a compiled artifact with the weights
    beside it.

    `dims` are the sizes of symbolic dimensions, as on the command line: "b=8", "b=1..128"; or all sizes of an argument
    of StableHLO that leaves some open: "x=8,4"."""
    sizes = _sizes(dims)
    if str(path) != STDIN and not path.exists():
        raise ArgumentError(f"{path}: {no_such_file(path)}")
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder: name the file of a module or an artifact in it")
    try:
        data = sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()
        words.read_files[:] = [] if str(path) == STDIN else [path]
        if data.startswith(b"\0asm"):
            return Artifact.open(data if str(path) == STDIN else path)
        return _with_sizes(data, sizes) if sizes else read_module(data)
    except ParseError as error:
        raise ParseError(f"{shown(path)}: {error}") from error
    except XlaWasmError as error:
        raise type(error)(f"{shown(path)}: {error}") from error


def shown(path: Path) -> str:
    """Returns the name that messages have for a file."""
    return "standard input" if str(path) == STDIN else str(path)


def with_sizes(data: str | bytes, dims: Iterable[str]) -> Module:
    """Reads a module, with the sizes that it leaves open as `read` takes them."""
    sizes = _sizes(dims)
    return _with_sizes(data.encode() if isinstance(data, str) else data, sizes) if sizes else read_module(data)


def _sizes(dims: Iterable[str]) -> dict[str, int | range | tuple[int, ...]]:
    sizes: dict[str, int | range | tuple[int, ...]] = {}
    for name, size in map(_size, dims):
        if name in sizes:
            raise ArgumentError(f"--dim gives the size of {name} twice")
        sizes[name] = size
    return sizes


def _with_sizes(data: bytes, sizes: Mapping[str, int | range | tuple[int, ...]]) -> Module:
    """The module of a program that leaves sizes open. Raises ArgumentError for sizes that are none of its kind."""
    kind = mlir_kind(data)
    if kind == EXPORTED:
        wrong = next((name for name, size in sizes.items() if isinstance(size, tuple)), None)
        if wrong is not None:
            raise ArgumentError(f"--dim {wrong}: a symbolic size of jax.export is one size or a range of them")
        return Module.from_exported(data, {n: size for n, size in sizes.items() if not isinstance(size, tuple)})
    if not kind:
        raise ArgumentError("--dim is for files of jax.export, which have symbolic sizes, and for StableHLO")
    ranged = next((name for name, size in sizes.items() if isinstance(size, range)), None)
    if ranged is not None:
        raise ArgumentError(f"--dim {ranged}: ranges are for files of jax.export; StableHLO takes sizes, as in x=8,4")
    shapes = {name: size if isinstance(size, tuple) else (size,) for name, size in sizes.items()}
    return Module.from_stablehlo(data, shapes)


def _size(text: str) -> tuple[str, int | range | tuple[int, ...]]:
    """The name and the size in NAME=SIZE, or the sizes in NAME=LEAST..GREATEST and NAME=SIZE,SIZE."""
    found = re.fullmatch(r"(\w+)=(\d{1,18})(?:\.\.(\d{1,18})|((?:,\d{1,18})+))?", text, re.ASCII)
    if found is None:
        raise ArgumentError(
            f"--dim {text}: expected a name, '=', and a size, a range of sizes, or the sizes of an argument, as in "
            f"b=8, b=1..128 and x=8,4"
        )
    least = int(found[2])
    if found[4] is not None:
        return found[1], (least, *map(int, found[4].split(",")[1:]))
    if found[3] is None:
        return found[1], least
    if least > int(found[3]):
        raise ArgumentError(
            f"--dim {text}: no size is in this range: the least comes first, as in {found[1]}={int(found[3])}..{least}"
        )
    return found[1], range(least, int(found[3]) + 1)


def module_of(path: Path, command: str, dims: Iterable[str] = ()) -> Module:
    """The HLO module in a file. ArgumentError if it is compiled already, which `command` has no use for."""
    source = read(path, dims)
    if isinstance(source, Artifact):
        raise ArgumentError(f"{shown(path)} is compiled already; '{command}' needs the HLO module it was made from")
    return source


def state_pairs(state: Iterable[str]) -> tuple[tuple[str | int, str | int], ...]:
    """Parameters and the results that replace them, as on the command line: NAME=RESULT."""
    pairs = []
    for pair in state:
        parameter, separator, result = pair.rpartition("=")
        if not separator:
            raise ArgumentError(
                f"--state {pair}: expected the name or index of a parameter, '=', and that of a result, as in --state "
                f"w=w_next"
            )
        pairs.append((selector(parameter), selector(result)))
    return tuple(pairs)


def weight_formats_of(texts: Iterable[str]) -> tuple[tuple[str | int, str], ...]:
    """Weights and their formats, as on the command line: NAME=FORMAT, where the name may be a pattern, or FORMAT for
    all weights."""
    found = []
    for text in texts:
        name, separator, format = text.rpartition("=")
        found.append((selector(name) if separator else ALL_WEIGHTS, format))
    return tuple(found)


def selector(name: str) -> str | int:
    """A parameter or result as it is named on the command line: by its name, or its number in decimal."""
    return int(name) if name.isdecimal() else name
