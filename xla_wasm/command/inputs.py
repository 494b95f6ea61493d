"""Arrays for the command line: inputs, weights and states from files, and drawn ones where there are none."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path

from ..artifact import Artifact
from ..check.draws import Draw, Drawing
from ..compiler import compile
from ..dataclass import replace
from ..errors import ArgumentError, counted
from ..hlo.ir import Module
from ..hlo.shape import Shape
from ..hlo.signature import leaf_pairs, parameter_leaves, result_leaves, structure_of
from ..hlo.types import TYPES
from ..host.arrayfiles import File, Sized, held_in, some, typed
from ..host.arrays import Array, Slot
from ..host.leaf import Leaf
from ..options import Options
from .base import Engine
from .opening import STDIN, no_such_file, state_pairs


def arguments(leaves: Iterable[Leaf], given: Sequence[str], drawing: Drawing | None, draw: Draw) -> list[Array]:
    """The inputs of a run: those that `--input` gives, the others drawn, if there is a drawing. Shapes and dtypes are
    checked by `run`."""
    leaves = [leaf for leaf in leaves if leaf.kind == "input"]
    found = given_inputs(leaves, given)
    missing = [leaf for leaf in leaves if leaf.name not in found]
    if drawing is None and missing:
        first = missing[0]
        others = f" (and {counted(len(missing) - 1, 'other')})" if len(missing) > 1 else ""
        raise ArgumentError(
            f"an input is missing{others}: -i {first.name}=X.NPY, of type {first}; --random-inputs makes up what is "
            f"not given"
        )
    return filled(leaves, found, drawing or Drawing(), draw)


def given_inputs(leaves: Sequence[Leaf], given: Sequence[str]) -> dict[str, Array]:
    """The inputs that `--input` gives, by name.

    X.NPY is the next input that has none, NAME=X.NPY the one of that name. An .npz or a safetensors file gives the
    inputs that are called as its arrays are; if none is, and the file has no names of its own, as `numpy.savez(file, a,
    b)` writes it, the next ones.
    """
    found: dict[str, Array] = {}
    by_name = {leaf.name: leaf for leaf in leaves}
    for text in given:
        more = _inputs(leaves, text, found)
        found |= {name: _fitting(by_name[name], array, f"--input {text}: '{name}'") for name, array in more.items()}
    return found


class _FileSlot(Slot):
    """A slot for the arrays of files."""

    __slots__ = ()

    def _advice(self, array: Array) -> str:
        if array.shape == self.shape:
            return f"; write the file anew with an array of {self.dtype.name}, as .astype({self.dtype.name!r}) gives it"
        if array.dtype == self.dtype and array.size == self.leaf.bytes // self.dtype.itemsize:
            return f"; write the file anew with an array of that shape, as .reshape({self.shape}) gives it"
        return "; give another file"


def _fitting(wanted: Sized, array: Array, what: str) -> Array:
    """An array of a file as every host takes it. Raises ArgumentError, which `what` begins, if it does not fit."""
    if isinstance(wanted, Leaf):
        whole = wanted.shards.dimensions if wanted.shards is not None else ()
        if array.shape == whole != wanted.dimensions:  # each device gets its part
            size = wanted.bytes // max(1, prod(wanted.dimensions)) * prod(whole)
            wanted = replace(wanted, dimensions=whole, bytes=size)
        return _FileSlot(wanted, what).accept(array)
    shape = Shape(wanted.element_type, wanted.dimensions)
    size = prod(shape.dimensions) * TYPES[shape.element_type].bytes
    return _FileSlot(Leaf("", shape.element_type, shape.dimensions, (), 0, size, "weight", shape), what).accept(array)


def filled(leaves: Iterable[Leaf], found: Mapping[str, Array], drawing: Drawing, draw: Draw) -> list[Array]:
    """The inputs that have been found, the others drawn."""
    return [found[x.name] if x.name in found else drawing.input(draw, x.name, x) for x in leaves]


def _inputs(leaves: Sequence[Leaf], text: str, found: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the arrays that one `--input` gives, by name, beside what was `found` before."""
    by_name = {leaf.name: leaf for leaf in leaves}
    name, path = named_file(text, by_name, by_name, "--input", "input")
    file = opened(path)
    free = [leaf for leaf in leaves if leaf.name not in found] if name is None else [by_name[name]]
    if name in found:
        raise ArgumentError(f"--input {text}: '{name}' has been given before: leave one of them out")
    if not free:
        wanted = ", ".join(f"{leaf.name} {leaf}" for leaf in leaves[:8]) or "none"
        raise ArgumentError(
            f"--input {text} is one too many: the module takes {counted(len(leaves), 'input')} ({wanted}), leave it out"
        )
    if file.kind == "npy":
        return {free[0].name: file.array(free[0].element_type, prod(free[0].dimensions))}
    arrays, names = file.arrays({leaf.name: prod(leaf.dimensions) for leaf in free} if name is None else {})
    if arrays:
        return {key: typed(array, by_name[key].element_type, file.shown) for key, array in arrays.items()}
    if name is None and [key for key in names if key in found]:
        raise ArgumentError(f"--input {text}: '{names[0]}' has been given before: leave one of them out")
    if file.kind == "npz" and (len(names) == 1 or (names and all(re.fullmatch(r"arr_\d+", key) for key in names))):
        if len(names) > len(free):
            raise ArgumentError(
                f"{file.shown} holds {counted(len(names), 'array')}, and there {_are(len(free), 'input')} for them: "
                f"give a file with as many"
            )
        taken = free[: len(names)]
        listed = file.listed([leaf.element_type for leaf in taken], [prod(leaf.dimensions) for leaf in taken])
        return {leaf.name: array for leaf, array in zip(taken, listed)}
    raise ArgumentError(
        f"{file.shown} holds {some(names)}, and the module's inputs are {some(by_name)}: name its arrays after them, "
        f"or give each with "
        "--input NAME=X.NPY"
    )


def held_values(
    shapes: Mapping[str, Sized], settings: Iterable[str], option: str = "--set", what: str = "weight or state"
) -> dict[str, Array]:
    """The weights and states that `--set`, or another `option`, gives by name. `shapes` has the type and the dimensions
    of all there are.

    NAME=X.NPY gives one. An .npz or a safetensors file gives those that are called as its arrays are, and PREFIX=FILE
    those that are called PREFIX.NAME where its arrays are called NAME. Floats of such files are rounded, or widened, to
    what is wanted.
    """
    values: dict[str, Array] = {}
    prefixes = {name[:at]: None for name in shapes for at, c in enumerate(name) if c == "."}
    for text in settings:
        key, path = named_file(text, {**prefixes, **shapes}, shapes, option, what)
        file = opened(path)
        if file.kind == "npy" and key not in shapes:
            first = next((name for name in shapes if key is None or name.startswith(f"{key}.")), "NAME")
            hint = f"say which {what} it is, as in {option} {first}={file.shown} ({some(shapes)})"
            raise ArgumentError(f"{option} {text}: a .npy file has one array: {hint}")
        found, names, wanted = held_in(file, shapes, key)
        if not found:
            under = "" if key is None else f" under '{key}.'"
            hint = f"; {option} PREFIX=FILE puts 'PREFIX.' in front of its names" if key is None else ""
            raise ArgumentError(
                f"{option} {text}: no array of the file has the name of a {what}{under}: it has {some(names)}, and "
                f"there are "
                f"{some(wanted)}{hint}"
            )
        values |= {name: _fitting(shapes[name], array, f"{option} {text}: '{name}'") for name, array in found.items()}
    return values


def initial_states(module: Module, state: Iterable[str], settings: Iterable[str]) -> dict[str, Array]:
    """Returns the arrays that states begin with, by name, from the files of `--initial`; `state` has those of
    `--state`."""
    inputs, results = parameter_leaves(module), result_leaves(module)
    structure = structure_of(module, len(inputs), len(results))
    numbers = {i: None for p, r in state_pairs(state) for i, _ in leaf_pairs(inputs, results, p, r, structure)}
    return held_values({inputs[i][0]: inputs[i][1] for i in numbers}, settings, "--initial", "state")


def compiled_with(
    source: Module | Artifact,
    engine: Engine,
    settings: Sequence[str],
    threads: bool = False,
    names: Container[str] = (),
) -> Artifact:
    """The artifact; of a module that is compiled for it, the parameters that `--set` gives become weights, and those
    called `names`."""
    if isinstance(source, Artifact):
        return source
    parameters = dict(parameter_leaves(source))
    given = held_values(parameters, settings)
    weights = tuple(name for name in parameters if name in given or name in names)
    return compile(source, Options(target=engine.target, tune=engine.tune, weights=weights, threads=threads))


def named_file(
    text: str, names: Container[str], known: Iterable[str], option: str, what: str
) -> tuple[str | None, str]:
    """The name, one of `names`, and the file of NAME=FILE; of FILE alone no name. ArgumentError if there is no such
    file."""
    splits = [(text[:at], text[at + 1 :]) for at, c in enumerate(text) if c == "="]
    name, path = next(((name, path) for name, path in splits if name in names), (None, text))
    if path == STDIN or Path(path).is_file():
        return name, path
    if name is None and splits:
        raise ArgumentError(f"{option} {text}: there is no {what} called '{splits[0][0]}': there are {some(known)}")
    problem = (
        "the name of a file is missing"
        if not path
        else "that is a folder"
        if Path(path).is_dir()
        else no_such_file(Path(path))
    )
    raise ArgumentError(f"{option} {text}: {problem}")


def _are(count: int, what: str) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, what)}"


def opened(path: str | Path) -> File:
    """A file of arrays; STDIN is standard input."""
    return File(path, sys.stdin.buffer if path == STDIN else None)
