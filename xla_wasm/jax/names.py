"""Names of what JAX functions take and give: arguments by their signatures, leaves of pytrees by the paths to them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..host.structures import entry_key


def positional_names(fn: Callable[..., Any], count: int) -> list[str]:
    """Returns the names that `fn` has for its first `count` positional arguments."""
    names: list[str] = []
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}.{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return [names[i] if i < len(names) else f"arg{i}" for i in range(count)]


def static_names(
    fn: Callable[..., Any], given: int, static_argnums: Sequence[int] | None, static_argnames: Sequence[str] | None
) -> set[str]:
    """Returns the names that `fn` has for its static arguments, of which so many are given by position."""
    names = positional_names(fn, max(given, _count(fn)))
    return {*(static_argnames or ()), *(names[i] for i in static_argnums or () if -len(names) <= i < len(names))}


def _count(fn: Callable[..., Any]) -> int:
    """Returns the number of arguments that `fn` takes by position, by its signature; 0 if it has none."""
    try:
        kinds = [p.kind for p in inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        return 0
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)


def in_tuple(given: Any) -> tuple[Any, ...]:
    """One number or name, or several."""
    return (given,) if isinstance(given, (int, str)) else tuple(given)


def dotted(first: str, path: Iterable[Any]) -> str:
    """A pytree path as one name: its keys, indices and attributes joined by dots."""
    parts = [first] if first else []
    return ".".join([*parts, *(str(entry_key(entry)) for entry in path)])


def unique(names: Iterable[str]) -> list[str]:
    """The names, with a number after each one that was there before."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken.add(candidate)
        result.append(candidate)
    return result
