"""Arguments and results by their names and in structures: dicts, lists, tuples and objects of arrays. Needs no numpy
and no JAX; where JAX is there, what it flattens is a structure.

A name such as "params.dense.kernel" is a path: keys, indices and attributes, joined by dots. Where the manifest
describes the structure of the function that the artifact was made of, arguments and results are those of that function.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from ..dataclass import replace
from ..errors import ArgumentError
from ..hlo.structure import KEYED, arguments, leaves, part, parts
from .leaf import Leaf
from .manifest import Manifest

INPUT = "input"


def key_words(value: Any) -> Any:
    """An array of JAX's random keys as the words that they consist of; anything else as it is."""
    jax: Any = sys.modules.get("jax")
    is_key = jax is not None and jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key)
    return jax.random.key_data(value) if is_key else value


def is_structure(value: Any) -> bool:
    """Returns True for a value that can only be a structure: lists and tuples may be arrays of numbers, too."""
    return (
        isinstance(value, Mapping)
        or hasattr(value, "__dataclass_fields__")
        or (isinstance(value, tuple) and hasattr(value, "_fields"))
    )


def may_be_structure(value: Any) -> bool:
    """Returns True for such a value, and for an object that is registered with JAX, which may be an array besides."""
    if is_structure(value):
        return True
    plain = value is None or isinstance(value, (list, tuple))
    return not plain and "jax" in sys.modules and _flattened(value) is not None


def heads(manifest: Manifest, empty: bool = False) -> list[str]:
    """Returns the names of the arguments that have inputs, in order: "params" and "x" of "params.w", "params.b" and
    "x"; if `empty`, also of those that have no arrays at all."""
    inputs = [p.kind == INPUT for p in manifest.parameters]
    if manifest.structure is not None:
        trees = zip(manifest.structure["names"], manifest.structure["arguments"])
        found = [(name, [inputs[i] for i in leaves(tree)]) for name, tree in trees]
        return [name for name, own in found if any(own) or (empty and not own)]
    return [*dict.fromkeys(p.name.partition(".")[0] for p in manifest.parameters if p.kind == INPUT)]


def children(value: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a structure with their keys, as `jax.tree` has them; None if it is none, or an object that only its
    attributes tell of."""
    if type(value) is dict:
        return [*value.items()]
    if type(value) in (list, tuple):
        return [*enumerate(value)]
    if "jax" in sys.modules and (found := _flattened(value)) is not None:
        return found
    if isinstance(value, Mapping):
        return [*value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [*zip(value._fields, value)]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        return [*enumerate(value)]
    return None


def _flattened(value: Any) -> list[tuple[Any, Any]] | None:
    """The parts of what is registered with JAX; None of anything else."""
    from jax import tree_util

    found = tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)[0]
    return None if len(found) == 1 and not found[0][0] else [(entry_key(path[0]), child) for path, child in found]


def entry_key(entry: Any) -> Any:
    """The key, index or name in an entry of a path of JAX's."""
    return next((getattr(entry, name) for name in ("key", "idx", "name") if hasattr(entry, name)), str(entry))


def named_arrays(tree: Any) -> dict[str, Any]:
    """The leaves of a structure by their names. Raises ArgumentError if two have one name."""
    found: dict[str, Any] = {}

    def walk(name: str, value: Any) -> None:
        own = children(value)
        if own is None and value is not None:
            if name in found:
                raise ArgumentError(f"two arrays of the structure are called '{name}': give one of them another key")
            found[name] = value
        for key, child in own or ():
            walk(f"{name}.{key}" if name else str(key), child)

    walk("", tree)
    return found


def spread(name: str, value: Any, names: Iterable[str], unknown: Callable[[str, Any], NoReturn]) -> dict[str, Any]:
    """The leaves of a structure of this name, by the names that they have among `names`.

    `unknown` raises the error for a part that none of the names is of. ArgumentError if a name comes twice.
    """
    found: dict[str, Any] = {}
    _spread(name, value, frozenset(names), found, unknown, False)
    return found


def _spread(
    name: str,
    value: Any,
    names: frozenset[str],
    found: dict[str, Any],
    unknown: Callable[[str, Any], NoReturn],
    inside: bool,
) -> None:
    """Adds the leaves below a name to those that are `found`. `inside`: the value is a part of an object, where
    Python's numbers may be settings, as they are in modules of equinox."""
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
    own = children(value)
    is_object = own is None or not isinstance(value, (Mapping, list, tuple))
    if own is None and not _is_array(value):
        # Of an object only what is asked for: it may have more attributes than leaves.
        prefix = f"{name}." if name else ""
        asked = dict.fromkeys(n.removeprefix(prefix).partition(".")[0] for n in sorted(names) if n.startswith(prefix))
        own = [(key, getattr(value, key)) for key in asked if hasattr(value, key)] or None
        if own is None and not asked and (inside or not isinstance(value, (int, float, complex))):
            return  # leaves that are no arrays are static
    if own is None:
        if callable(value) or isinstance(value, str) or _is_nothing(value):
            return
        unknown(name, value)
    for key, child in own:
        _spread(f"{name}.{key}" if name else str(key), child, names, found, unknown, is_object)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") or hasattr(value, "__dlpack__")


def _is_nothing(value: Any) -> bool:
    """Returns True for a structure without leaves."""
    own = children(value)
    if own is not None:
        return all(_is_nothing(child) for _, child in own)
    if hasattr(value, "__dataclass_fields__"):
        return all(_is_nothing(getattr(value, name, None)) for name in value.__dataclass_fields__)
    return value is None


def _has_arrays(value: Any) -> bool:
    own = children(value)
    return _is_array(value) if own is None else any(_has_arrays(child) for _, child in own)


def described(leaf: Leaf) -> str:
    """A leaf for a message: its name and type, the whole array's where each device has a shard."""
    whole = leaf if leaf.shards is None else replace(leaf, dimensions=leaf.shards.dimensions)
    return f"'{leaf.name}' ({whole})"


class Structure:
    """The arguments and results of the function that an artifact was made of, without those that stay in the module."""

    def __init__(self, manifest: Manifest, trees: Any = None) -> None:
        """`trees` are JAX's own, of an artifact that has them (`jax.structure.Trees`). Raises ArgumentError if the
        manifest describes none."""
        if manifest.structure is None:
            raise ArgumentError(
                f"'{manifest.name}' does not say in which structure its arguments and results are; what "
                f"xla_wasm.jax.lower makes says so. "
                "Use run"
            )
        self._manifest = manifest
        self._trees = trees
        names, described, positional = (manifest.structure[key] for key in ("names", "arguments", "positional"))
        self._is_input = [p.kind == INPUT for p in manifest.parameters]
        taken = [i for i, tree in enumerate(described) if self._takes(tree) or not [*leaves(tree)]]
        self._arguments = {names[i]: described[i] for i in taken}
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
        found = {r: arrays[i] for r, i in self._place.items()}
        return _built(self._results, found) if self._trees is None else self._trees.results.build(found)

    def held(self, name: str, arrays: Mapping[str, Any]) -> Any:
        """Returns an argument, or the part of one that a name leads to, of weights and states by their names. Raises
        KeyError if there is no part that all of them are of."""
        numbers = {p.name: i for i, p in enumerate(self._manifest.parameters)}
        found = {numbers[key]: array for key, array in arrays.items()}
        tree = part(arguments(self._manifest.structure), name)
        if not {*leaves(tree)} >= {*found}:  # of two arguments, where keys have dots
            raise KeyError(name)
        if self._trees is None or name not in self._trees.arguments:
            return _built(tree, found)
        return self._trees.arguments[name].build({i: found[own] for i, own in enumerate(leaves(tree)) if own in found})

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
        for key, child, own in zip(*parts(tree), self._parts(tree, value, name)):
            if own is not _MISSING:
                self._take(child, own, f"{name}.{key}", found)
            elif self._takes(child):
                raise ArgumentError(f"'{name}.{key}' is missing: {self._wanted(child)}")

    def _parts(self, tree: Any, value: Any, name: str) -> list[Any]:
        """Returns a value's part for each key of its tree. Raises ArgumentError if it is of another kind or has other
        keys."""
        keys, _ = parts(tree)
        if value is None and not self._takes(tree):
            return [_MISSING] * len(keys)
        own = children(value)
        if tree[0] == "object" and own is None and not _is_array(value):  # an object that JAX does not know
            return [getattr(value, str(key), _MISSING) for key in keys]
        suits = own is not None and type(value) not in ((list, tuple) if tree[0] in KEYED else (dict,))
        if own is None or not suits:
            kind = {"dict": "a dict", "object": "a dict or an object"}.get(tree[0], f"a {tree[0]}")
            members = ", ".join(map(str, keys)) if tree[0] in KEYED else len(keys)
            raise ArgumentError(f"'{name}' must be {kind} of {members}, not {type(value).__name__}")
        if tree[0] not in KEYED:
            if len(own) != len(keys):
                raise ArgumentError(f"'{name}' must be a {tree[0]} of {len(keys)}, got {len(own)}")
            return [child for _, child in own]
        exact, texts = dict(own), {str(key): child for key, child in own}
        wanted = [*map(str, keys)]
        extra = [k for k, child in own if str(k) not in wanted and (type(value) is dict or _has_arrays(child))]
        if extra:
            raise ArgumentError(f"'{name}' has no '{extra[0]}': it has {', '.join(wanted)}")
        return [exact.get(key, texts.get(str(key), _MISSING)) for key in keys]

    def _wanted(self, tree: Any) -> str:
        return ", ".join(described(self._manifest.parameters[i]) for i in [*leaves(tree)][:4])


def _built(tree: Any, arrays: Mapping[int, Any]) -> Any:
    """Arrays by the numbers of their leaves in the structure of a tree; None for parts of which none is there."""
    own = [*leaves(tree)]
    if own and not any(i in arrays for i in own):
        return None
    if not isinstance(tree, list):
        return None if tree is None else arrays[tree]
    keys, described = parts(tree)
    made = [_built(child, arrays) for child in described]
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
