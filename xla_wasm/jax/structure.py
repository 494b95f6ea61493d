"""Pytrees as data: what an artifact says of the structure of arguments and results (`hlo.signature.STRUCTURE`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any


def structure(
    names: Sequence[str],
    positional: int,
    arguments: Any,
    argument_paths: Sequence[Any],
    results: Any,
    paths: Sequence[Any],
) -> Any:
    """The description of a function's arguments and results.

    `arguments` is the treedef of a list of all arguments, of which `names` are the names, the first `positional` of
    them given by position; `results` that of what is returned. With each come the paths to its leaves.
    """
    numbers = count()
    trees = []
    at = 0
    for child in arguments.children():
        trees.append(_described(child, argument_paths[at : at + child.num_leaves], 1, numbers))
        at += child.num_leaves
    return {
        "names": [*names],
        "positional": positional,
        "arguments": trees,
        "results": _described(results, paths, 0, count()),
    }


def _described(tree: Any, paths: Sequence[Any], depth: int, numbers: Iterator[int]) -> Any:
    """A leaf is its number, nothing is None, and what has children is a list: its kind, its keys if they have any, and
    the children.

    A kind is "list", "tuple", "dict" (with keys) or "object" (with the names of attributes).
    """
    made = tree.node_data()
    if made is None:
        return next(numbers)
    kind, data = made
    if kind is type(None):
        return None
    children = tree.children()
    described, keys = [], []
    at = 0
    for child in children:
        own = paths[at : at + child.num_leaves]
        at += child.num_leaves
        described.append(_described(child, own, depth + 1, numbers))
        keys.append(own[0][depth] if own else None)
    if issubclass(kind, dict):
        known = data if isinstance(data, list) else data[-1]  # of a defaultdict: with what makes its values
        return ["dict", [_key(key) for key in known], *described]
    if hasattr(kind, "_fields") and issubclass(kind, tuple):
        return ["object", [*kind._fields], *described]
    if kind in (list, tuple):
        return [kind.__name__, *described]
    # A class of somebody's: what has no leaves has no known key, and nobody misses it.
    there = [(key, tree) for key, tree in zip(keys, described) if key is not None]
    if there and all(hasattr(key, "name") for key, _ in there):
        return ["object", [str(key.name) for key, _ in there], *(tree for _, tree in there)]
    if there and all(hasattr(key, "key") and type(key).__name__ == "DictKey" for key, _ in there):
        return ["dict", [_key(key.key) for key, _ in there], *(tree for _, tree in there)]
    return ["tuple", *described]


def _key(key: Any) -> str | int:
    """A key of a dictionary as JSON has it."""
    return key if isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)) else str(key)
