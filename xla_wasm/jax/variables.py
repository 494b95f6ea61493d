"""Variables of flax's nnx among arguments. A function updates them by mutation, which `jax.jit` would lose: here what
they become is a further result, which goes back into the caller's variables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ArgumentError

_HOW = (
    "give it the state instead, as in graph, state = nnx.split(model), with nnx.merge(graph, state) inside and the "
    "new nnx.state(model) among the results"
)


def variables(tree: Any) -> list[tuple[Any, int]]:
    """Returns the variables in a structure, each with the number of its first leaf; none where nobody has imported
    nnx."""
    kind = getattr(sys.modules.get("flax.nnx"), "Variable", None)
    if kind is None:
        return []
    import jax

    found, at = [], 0
    for part in jax.tree_util.tree_leaves(tree, is_leaf=lambda x: isinstance(x, kind)):
        if isinstance(part, kind):
            found.append((part, at))
            at += len(jax.tree_util.tree_leaves(part))
        else:
            at += 1
    return found


def updated(before: Sequence[Any], tree: Any, arguments: Any) -> list[int]:
    """Returns the numbers of the leaves that a function has put into variables of its arguments, which had the leaves
    `before` and that tree. Raises ArgumentError if the arguments have others now."""
    import jax

    watched = variables(arguments)
    after, now = jax.tree_util.tree_flatten(arguments)
    if now != tree:
        raise ArgumentError(f"the function adds or removes variables of its arguments, which stay as they are: {_HOW}")
    ends = [(at, at + len(jax.tree_util.tree_leaves(variable))) for variable, at in watched]
    return [i for at, end in ends for i in range(at, end) if after[i] is not before[i]]


def update(arguments: Any, values: Mapping[int, Any]) -> None:
    """Puts values, by the numbers of their leaves, into the variables of arguments. Raises ArgumentError where two of
    these are one."""
    import jax

    watched = variables(arguments)
    made = []
    tree: Any
    for variable, at in watched:
        leaves, tree = jax.tree_util.tree_flatten(variable)
        numbers = range(at, at + len(leaves))
        if any(i in values for i in numbers):
            if sum(other is variable for other, _ in watched) > 1:
                raise ArgumentError(
                    f"a {type(variable).__name__} that the function updates is in two places of its arguments, which "
                    f"are two variables inside of it: {_HOW}"
                )
            made.append((variable, tree.unflatten([values.get(i, leaf) for i, leaf in zip(numbers, leaves)])))
    for variable, new in made:
        variable.update_from_state(new)
