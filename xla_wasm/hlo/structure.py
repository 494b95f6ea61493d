"""The structure of a function's arguments and results as data: trees whose leaves are the numbers of parameters and
results.

{"names": ["params", "x"], "positional": 2, "arguments": [["dict", ["b", "w"], 0, 1], 2], "results": ["tuple", 0, 1]}

A tree is the number of a leaf, None where there is nothing, or a list: a kind, for "dict" and "object" the list of
keys, and the children.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import counted

KEYED, LISTED = ("dict", "object"), ("list", "tuple")
_DEEPEST = 64


def parts(tree: list[Any]) -> tuple[list[Any], list[Any]]:
    """The keys of a tree that is no leaf, or the numbers of its children, and the children."""
    return (tree[1], tree[2:]) if tree[0] in KEYED else ([*range(len(tree) - 1)], tree[1:])


def leaves(tree: Any) -> Iterator[int]:
    """The numbers of a tree's leaves, in order."""
    if isinstance(tree, list):
        for child in parts(tree)[1]:
            yield from leaves(child)
    elif tree is not None:
        yield tree


def part(tree: Any, path: str) -> Any:
    """The part of a tree that a name leads to: keys, joined by dots; "" is the tree itself. Raises KeyError if it leads
    to none."""
    if not path:
        return tree
    for key, child in zip(*parts(tree)) if isinstance(tree, list) else ():
        if path == str(key):
            return child
        if path.startswith(f"{key}."):
            try:
                return part(child, path[len(str(key)) + 1 :])
            except KeyError:  # where keys have dots, another may lead there
                continue
    raise KeyError(path)


def is_empty(structure: Any, side: str, path: str) -> bool:
    """Returns True if a name leads to a part of the "arguments" or "results" that has no leaves, as far as a structure,
    or None, tells."""
    if structure is None:
        return False
    try:
        tree = structure["results"] if side == "results" else arguments(structure)
        return not [*leaves(part(tree, path))]
    except KeyError:
        return False


def arguments(structure: Any) -> list[Any]:
    """The arguments as one tree, with their names as keys."""
    return ["dict", structure["names"], *structure["arguments"]]


def fault(structure: Any, parameters: int, results: int) -> tuple[str, str] | None:
    """Returns the field of a structure that is wrong for so many parameters and results, and why; None if it is
    well-formed."""
    if not isinstance(structure, dict):
        return "", "expected an object"
    names, positional, arguments = structure.get("names"), structure.get("positional"), structure.get("arguments")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) != len(names):
        return "names", "expected a list of names, each once"
    if isinstance(positional, bool) or not isinstance(positional, int) or not 0 <= positional <= len(names):
        return "positional", f"expected an integer from 0 to {len(names)}"
    if not isinstance(arguments, list) or len(arguments) != len(names):
        return "arguments", f"expected a list of {counted(len(names), 'tree')}"
    for key, tree, count in (
        ("arguments", ["list", *arguments], parameters),
        ("results", structure.get("results"), results),
    ):
        if why := _fault(tree, 0) or (
            "" if [*leaves(tree)] == [*range(count)] else f"its leaves are not the numbers from 0 to {count - 1}"
        ):
            return key, why
    return None


def _fault(tree: Any, depth: int) -> str:
    """Returns the reason why this is no tree; "" if it is one."""
    if tree is None or (isinstance(tree, int) and not isinstance(tree, bool)):
        return ""
    if depth > _DEEPEST:
        return f"a tree is deeper than {_DEEPEST}"
    if not isinstance(tree, list) or not tree or tree[0] not in (*KEYED, *LISTED):
        return f"expected a number, null, or a list that begins with one of {', '.join((*KEYED, *LISTED))}"
    if tree[0] in KEYED:
        keys = tree[1] if len(tree) > 1 else None
        if not isinstance(keys, list) or len(keys) != len(tree) - 2 or not all(_is_key(key, tree[0]) for key in keys):
            return "expected a key for each child"
        if len({*keys}) != len(keys):
            return "two children have one key"
    return next((why for child in parts(tree)[1] if (why := _fault(child, depth + 1))), "")


def _is_key(key: Any, kind: str) -> bool:
    return isinstance(key, str) or (kind == "dict" and isinstance(key, int) and not isinstance(key, bool))
