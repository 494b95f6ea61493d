"""The names of a module's inputs and outputs: the leaves of its parameters and of its result, flattened; tokens are none."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..errors import ArgumentError, VerifyError
from .ir import Instruction, Module
from .shape import Shape

PARAMETER_NAMES = "xla_wasm.parameter_names"
RESULT_NAMES = "xla_wasm.result_names"
"""Frontend attributes of a module: JSON lists with a name for each leaf."""

Leaf = tuple[str, Shape]


def parameter_leaves(module: Module) -> list[Leaf]:
    """Name and shape of every leaf of every parameter, laid out as callers have it, in order; names are unique."""
    leaves = []
    parameters = module.entry.parameters
    for p, declared in zip(parameters, module.parameter_shapes or [p.shape for p in parameters]):
        base = p.metadata.op_name if p.metadata and p.metadata.op_name else p.name
        leaves += [(base + "".join(f".{i}" for i in index), shape) for index, shape in declared.leaves() if not shape.is_token]
    return _named(module, PARAMETER_NAMES, leaves)


def result_leaves(module: Module) -> list[Leaf]:
    """Name and shape of every leaf of the result, laid out as callers have it, in order; names are unique."""
    declared = module.result_shape or module.entry.root.shape
    leaves = [("result" + "".join(f".{i}" for i in index), shape) for index, shape in declared.leaves() if not shape.is_token]
    return _named(module, RESULT_NAMES, leaves)


def size_places(leaves: list[Leaf]) -> list[list[int | None]]:
    """For each leaf and each of its dimensions, which of all dynamic sizes in a row is its own; None for a static dimension.

    The sizes stand in the order of the leaves, and for each in that of its dimensions in memory, from major to minor.
    """
    count = 0
    places = []
    for _, shape in leaves:
        own: list[int | None] = [None] * shape.rank
        if shape.is_dynamic:
            for d in shape.minor_to_major[::-1]:
                if shape.dynamic[d]:
                    own[d] = count
                    count += 1
        places.append(own)
    return places


def leaf_of(x: Instruction) -> tuple[Instruction, tuple[int, ...]]:
    """What an array is taken from, and by which indices: a parameter and the index of its leaf, or the array itself and ()."""
    index: tuple[int, ...] = ()
    while x.opcode == "get-tuple-element":
        index = (x.attrs["index"], *index)
        x = x.operands[0]
    return x, index


def leaf_index(leaves: list[Leaf], key: str | int, what: str) -> int:
    """The position of a leaf given by its name or number; `what` is "parameter" or "result". Raises ArgumentError."""
    if isinstance(key, int):
        if 0 <= key < len(leaves):
            return key
        raise ArgumentError(f"there is no {what} {key}: the module has {len(leaves)}, numbered from 0")
    names = [name for name, _ in leaves]
    if key in names:
        return names.index(key)
    are = "there is" if len(names) == 1 else "there are"
    raise ArgumentError(f"there is no {what} named {key!r}; {are} {', '.join(names) or 'none'}")


def _named(module: Module, attribute: str, leaves: list[Leaf]) -> list[Leaf]:
    """The leaves with the names that the module carries for them, if it does, made unique."""
    names = [name for name, _ in leaves]
    listed = names_in(module, attribute)
    if listed is not None and len(listed) == len(names):
        names = listed
    return list(zip(_unique(names), (shape for _, shape in leaves)))


def names_in(module: Module, attribute: str) -> list[str] | None:
    """The list of names in a frontend attribute of the module; None if it has none. Raises VerifyError where it is no such list."""
    text = module.frontend_attributes.get(attribute)
    if text is None:
        return None
    try:
        names = json.loads(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("it is something else")
        "".join(names).encode()  # lone surrogates are no text: neither a manifest nor a terminal takes them
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        fault = f"frontend attribute {attribute} must be a JSON list of names, not {shown!a}: {error}"
        raise VerifyError(f"module '{module.name}': {fault}") from None
    return names


def _unique(names: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        candidate, n = name, 1
        while candidate in seen:
            n += 1
            candidate = f"{name}.{n}"
        seen.add(candidate)
        yield candidate
