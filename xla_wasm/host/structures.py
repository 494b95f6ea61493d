"""Arguments and results by their names and in structures: dicts, lists, tuples and objects of arrays. Needs no numpy
and no JAX.

A name such as "params.dense.kernel" is a path: keys, indices and attributes, joined by dots. Where the manifest
describes the structure of the function that the artifact was made of, arguments and results are those of that function.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from ..dataclass import replace
from ..errors import ArgumentError
from ..hlo.structure import KEYED, leaves, parts
from .leaf import Leaf
from .manifest import Manifest

INPUT = "input"


def is_structure(value: Any) -> bool:
    """Returns True for a value that can only be a structure: lists and tuples may be arrays of numbers, too."""
    return (
        isinstance(value, Mapping)
        or hasattr(value, "__dataclass_fields__")
        or (isinstance(value, tuple) and hasattr(value, "_fields"))
    )


def heads(manifest: Manifest) -> list[str]:
    """Returns the names of the arguments that have inputs, in order: "params" and "x" of "params.w", "params.b" and
    "x"."""
    inputs = [p.kind == INPUT for p in manifest.parameters]
    if manifest.structure is not None:
        trees = zip(manifest.structure["names"], manifest.structure["arguments"])
        return [name for name, tree in trees if any(inputs[i] for i in leaves(tree))]
    return [*dict.fromkeys(p.name.partition(".")[0] for p in manifest.parameters if p.kind == INPUT)]


def spread(name: str, value: Any, names: Iterable[str], unknown: Callable[[str, Any], NoReturn]) -> dict[str, Any]:
    """The leaves of a structure of this name, by the names that they have among `names`.

    `unknown` raises the error for a part that none of the names is of. ArgumentError if a name comes twice.
    """
    found: dict[str, Any] = {}
    _spread(name, value, frozenset(names), found, unknown)
    return found


def _spread(
    name: str, value: Any, names: frozenset[str], found: dict[str, Any], unknown: Callable[[str, Any], NoReturn]
) -> None:
    if value is None:
        return
    if name in names:
        if name in found and not _is_nothing(value) and not _is_nothing(found[name]):
            raise ArgumentError(
                f"two of the arguments given are called '{name}': give arrays in their order, or use call"
            )
        if name not in found or _is_nothing(found[name]):  # of two paths with one name, the other leads to no array
            found[name] = value
        return
    children = _children(name, value, names)
    if children is None:
        if callable(value) or isinstance(value, str) or _is_nothing(value):  # leaves that are no arrays are static
            return
        unknown(name, value)
    for key, child in children:
        _spread(f"{name}.{key}" if name else str(key), child, names, found, unknown)


def _is_nothing(value: Any) -> bool:
    """Returns True for a structure without leaves."""
    if isinstance(value, Mapping):
        return all(map(_is_nothing, value.values()))
    if hasattr(value, "__dataclass_fields__"):
        return all(_is_nothing(getattr(value, name, None)) for name in value.__dataclass_fields__)
    return value is None or (isinstance(value, (list, tuple)) and all(map(_is_nothing, value)))


def _children(name: str, value: Any, names: frozenset[str]) -> Iterable[tuple[Any, Any]] | None:
    """The parts of a structure with their keys; None if it is none."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(value._fields, value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        return enumerate(value)
    if f"{name}.value" in names and hasattr(
        value, "get_value"
    ):  # a variable of flax's nnx, which has a dtype as arrays have
        return [("value", value.get_value())]
    # Of an object only what is asked for: it may have more attributes than leaves.
    prefix = f"{name}." if name else ""
    asked = dict.fromkeys(n.removeprefix(prefix).partition(".")[0] for n in sorted(names) if n.startswith(prefix))
    is_array = hasattr(value, "dtype") and hasattr(value, "shape")
    there = [(key, getattr(value, key)) for key in asked if hasattr(value, key)]
    return there if there and not is_array else None


def described(leaf: Leaf) -> str:
    """A leaf for a message: its name and type, the whole array's where each device has a shard."""
    whole = leaf if leaf.shards is None else replace(leaf, dimensions=leaf.shards.dimensions)
    return f"'{leaf.name}' ({whole})"


class Structure:
    """The arguments and results of the function that an artifact was made of, without those that stay in the module."""

    def __init__(self, manifest: Manifest) -> None:
        """Raises ArgumentError if the manifest describes none."""
        if manifest.structure is None:
            raise ArgumentError(
                f"'{manifest.name}' does not say in which structure its arguments and results are; what "
                f"xla_wasm.jax.lower makes says so. "
                "Use run"
            )
        self._manifest = manifest
        names, trees, positional = (manifest.structure[key] for key in ("names", "arguments", "positional"))
        self._is_input = [p.kind == INPUT for p in manifest.parameters]
        taken = [i for i, tree in enumerate(trees) if self._takes(tree) or not [*leaves(tree)]]
        self._arguments = {names[i]: trees[i] for i in taken}
        self._positional = [names[i] for i in taken if i < positional]
        self._results = manifest.structure["results"]
        outputs = [i for i, r in enumerate(manifest.results) if r.kind == "output"]
        self._place = {r: i for i, r in enumerate(outputs)}

    def flat(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arrays that `run` takes, from the arguments. Raises ArgumentError that names the leaf which is missing or
        one too many."""
        shown = f"'{self._manifest.name}' takes ({', '.join(self._arguments)})"
        if len(args) > len(self._positional):
            raise ArgumentError(f"{shown}, {len(self._positional)} of them by position: got {len(args)}")
        given = dict(zip(self._positional, args))
        for name in kwargs:
            if name not in self._arguments:
                raise ArgumentError(f"{shown}: there is no '{name}'")
            if name in given:
                raise ArgumentError(f"{shown}: '{name}' is given twice")
        given |= kwargs
        found: dict[int, Any] = {}
        for name, tree in self._arguments.items():
            if name in given:
                self._take(tree, given[name], name, found)
            elif self._takes(tree):
                raise ArgumentError(f"{shown}: '{name}' is missing")
        return [found[i] for i in sorted(found)]

    def build(self, arrays: Sequence[Any]) -> Any:
        """Returns results of `run` in the function's own structure. Those that stay in the module are None, as are
        parts without others."""
        return self._built(self._results, arrays)

    def _takes(self, tree: Any) -> bool:
        return any(self._is_input[i] for i in leaves(tree))

    def _take(self, tree: Any, value: Any, name: str, found: dict[int, Any]) -> None:
        """Notes the leaves of a value by the numbers that they have in its tree."""
        if not isinstance(tree, list):
            if tree is not None and self._is_input[tree]:
                if is_structure(value):
                    raise ArgumentError(
                        f"{described(self._manifest.parameters[tree])} must be one array, not a structure of several"
                    )
                found[tree] = value
            elif tree is not None and value is not None:
                p = self._manifest.parameters[tree]
                raise ArgumentError(
                    f"{described(p)} is a {p.kind}, which stays in the module: exe.set({p.name!r}, ...) sets it; give "
                    f"None here"
                )
            return
        keys, children = parts(tree)
        for key, child, own in zip(keys, children, self._parts(tree, value, name)):
            if own is not _MISSING:
                self._take(child, own, f"{name}.{key}", found)
            elif self._takes(child):
                raise ArgumentError(f"'{name}.{key}' is missing: {self._wanted(child)}")

    def _parts(self, tree: Any, value: Any, name: str) -> list[Any]:
        """Returns a value's part for each key of its tree. Raises ArgumentError if it is of another kind or has other
        keys."""
        keys, children = parts(tree)
        if value is None and not self._takes(tree):
            return [_MISSING] * len(keys)
        if tree[0] in KEYED and isinstance(value, Mapping):
            texts = {str(key): key for key in value}
            own = {key: key if key in value else texts.get(str(key), _MISSING) for key in keys}
            extra = [key for key in value if key not in [*own.values()]]
            if extra:
                raise ArgumentError(f"'{name}' has no '{extra[0]}': it has {', '.join(map(str, keys))}")
            return [_MISSING if key is _MISSING else value[key] for key in own.values()]
        if (
            tree[0] == "object"
            and not isinstance(value, (list, tuple))
            and not hasattr(value, "dtype")
            or hasattr(value, "_fields")
        ):
            return [getattr(value, str(key), _MISSING) for key in keys]
        if tree[0] == "dict" or not isinstance(value, (list, tuple)):
            kind = {"dict": "a dict", "object": "a dict or an object"}.get(tree[0], f"a {tree[0]}")
            members = ", ".join(map(str, keys)) if tree[0] in KEYED else len(keys)
            raise ArgumentError(f"'{name}' must be {kind} of {members}, not {type(value).__name__}")
        if len(value) != len(keys):
            raise ArgumentError(f"'{name}' must be a {tree[0]} of {len(keys)}, got {len(value)}")
        return [*value]

    def _wanted(self, tree: Any) -> str:
        return ", ".join(described(self._manifest.parameters[i]) for i in [*leaves(tree)][:4])

    def _built(self, tree: Any, arrays: Sequence[Any]) -> Any:
        own = [*leaves(tree)]
        if own and not any(i in self._place for i in own):
            return None
        if not isinstance(tree, list):
            return None if tree is None else arrays[self._place[tree]]
        keys, children = parts(tree)
        made = [self._built(child, arrays) for child in children]
        if tree[0] == "dict":
            return dict(zip(keys, made))
        if tree[0] == "object":
            return _record(tuple(keys))(*made)
        return made if tree[0] == "list" else tuple(made)


_MISSING = object()


@cache
def _record(names: tuple[str, ...]) -> Any:
    """A class of tuples whose members have these names."""
    return namedtuple("Result", names, rename=True)
