"""The leaves of arguments: which are arrays, that a program takes, and which are static, as equinox
has it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any

NUMBERS = (bool, int, float, complex)


def is_dynamic(leaf: Any) -> bool:
    """Returns True if a program takes this leaf as an array: those of NumPy, of JAX and of anything that knows dlpack,
    and numbers."""
    return (
        (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) or isinstance(leaf, NUMBERS) or hasattr(leaf, "__dlpack__")
    )


def is_key(dtype: Any) -> bool:
    """Returns True if this is the dtype of JAX's random keys."""
    import jax

    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def inside_modules(tree: Any) -> frozenset[int]:
    """The numbers of the leaves that lie in modules of equinox, where Python's numbers and booleans are settings."""
    equinox = sys.modules.get("equinox")
    if equinox is None:
        return frozenset()
    import jax

    found: list[int] = []
    at = 0
    for part in jax.tree_util.tree_leaves(tree, is_leaf=lambda x: isinstance(x, equinox.Module)):
        size = len(jax.tree_util.tree_leaves(part)) if isinstance(part, equinox.Module) else 1
        found += range(at, at + size) if isinstance(part, equinox.Module) else ()
        at += size
    return frozenset(found)


def static_leaves(leaves: Sequence[Any], inside: frozenset[int], numbers_are_static: bool) -> frozenset[int]:
    """The numbers of the leaves that are static: known when a program is traced."""
    return frozenset(
        i
        for i, leaf in enumerate(leaves)
        if not is_dynamic(leaf) or (isinstance(leaf, NUMBERS) and (numbers_are_static or i in inside))
    )


def filtered(fn: Any) -> Any:
    """The function inside `equinox.filter_jit(fn)`; None for anything else."""
    kind = type(fn)
    is_filter = kind.__name__ == "_JitWrapper" and kind.__module__.partition(".")[0] == "equinox"
    return getattr(fn, "__wrapped__", None) if is_filter else None


def static_of(fn: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Returns the numbers and names of the static arguments of a function that `jax.jit` made; none of any other. JAX
    has no public name for them."""
    jitted, bound = getattr(fn, "__func__", fn), hasattr(fn, "__func__")
    info = getattr(jitted, "_jit_info", None)
    if info is None:
        return (), ()
    numbers = [i - bound for i in info.static_argnums if i < 0 or i >= bound]
    first = next(iter(inspect.signature(jitted).parameters), None) if bound else None
    return tuple(numbers), tuple(name for name in info.static_argnames if name != first)
