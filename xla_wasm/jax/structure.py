"""Pytrees as data: what an artifact says of the structure of arguments and results (`hlo.signature.STRUCTURE`)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import count
from typing import Any

from ..dataclass import dataclass
from .values import as_jax_has_it, is_special


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of JAX's, whose leaves are arrays but for the static ones."""

    treedef: Any
    static: Mapping[int, Any]
    """The static leaves by their numbers among all."""
    special: Mapping[int, Any]
    """Shapes and dtypes of the arrays that NumPy does not know, such as random keys, by their numbers among the
    arrays."""

    def build(self, arrays: Mapping[int, Any]) -> Any:
        """Returns the structure of arrays, which have the numbers of the leaves without the static ones. Parts of which
        none is there are None."""
        made = {i: as_jax_has_it(x, self.special[i]) if i in self.special else x for i, x in arrays.items()}
        numbers = count()
        leaves = [
            self.static[i] if i in self.static else made.get(next(numbers), _ABSENT)
            for i in range(self.treedef.num_leaves)
        ]
        return _put_together(self.treedef, leaves, frozenset(self.static))


@dataclass(frozen=True, slots=True)
class Trees:
    """The arguments, by name, and the results of a function as JAX has them."""

    arguments: Mapping[str, Tree]
    results: Tree


_ABSENT = object()


def _put_together(treedef: Any, leaves: Sequence[Any], static: frozenset[int]) -> Any:
    """As `Tree.build`, of all leaves; `static` are the numbers of those that are no arrays."""
    import jax

    arrays = [leaf for i, leaf in enumerate(leaves) if i not in static]
    if all(leaf is not _ABSENT for leaf in arrays):
        return treedef.unflatten(leaves)
    if all(leaf is _ABSENT for leaf in arrays):
        return None
    whole = treedef.unflatten([None if leaf is _ABSENT else leaf for leaf in leaves])
    made, at = [], 0
    for child in treedef.children():
        end = at + child.num_leaves
        made.append(_put_together(child, leaves[at:end], frozenset(i - at for i in static if at <= i < end)))
        at = end
    node: Any = jax.tree_util.tree_structure(whole, is_leaf=lambda x: x is not whole)
    return node.unflatten(made)


def trees_of(
    names: Sequence[str], arguments: Any, leaves: Sequence[Any], static: frozenset[int], results: Tree
) -> Trees:
    """The trees of a function: `arguments` are the treedefs of each, `leaves` those of all, of which `static` ones are
    no arrays."""
    made, at = {}, 0
    for name, child in zip(names, arguments, strict=True):
        made[name] = tree_of(child, leaves[at : at + child.num_leaves], {i - at for i in static})
        at += child.num_leaves
    return Trees(made, results)


def tree_of(treedef: Any, leaves: Sequence[Any], static: Set[int] = frozenset()) -> Tree:
    """A tree with these leaves, of which `static` ones are no arrays."""
    arrays = [leaf for i, leaf in enumerate(leaves) if i not in static]
    return Tree(
        treedef,
        {i: leaf for i, leaf in enumerate(leaves) if i in static},
        {i: leaf for i, leaf in enumerate(arrays) if hasattr(leaf, "dtype") and is_special(leaf.dtype)},
    )


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
    if kind in (dict, OrderedDict, defaultdict):
        known = data[-1] if kind is defaultdict else data  # beside what makes its values
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
