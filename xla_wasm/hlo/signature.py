"""The names of a module's inputs and outputs: the leaves of its parameters and of its result, flattened; tokens are
none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..errors import ArgumentError, VerifyError
from .ir import Instruction, Module
from .shape import Shape
from .structure import fault, is_empty

PARAMETER_NAMES = "xla_wasm.parameter_names"
RESULT_NAMES = "xla_wasm.result_names"
"""Frontend attributes of a module: JSON lists with a name for each leaf."""
STRUCTURE = "xla_wasm.structure"
"""Frontend attribute of a module: the structure of the function that it is made of, as manifests have it
(docs/embedding.md)."""

LEAST_SIZES = "xla_wasm.least_sizes"
"""Frontend attribute of a parameter with dynamic dimensions: a JSON list with the least size of each dimension. HLO has
no such bound; the program may rely on it where it was made for a range of sizes."""

_REPLICATED = b""
"""The OpSharding of an array that every device has."""

NamedShape = tuple[str, Shape]
"""A leaf of the parameters or of the result: its name and its shape."""


def parameter_leaves(module: Module) -> list[NamedShape]:
    """Name and shape of every leaf of every parameter, laid out as callers have it, in order; names are unique."""
    leaves = []
    parameters = module.entry.parameters
    for p, declared in zip(parameters, module.parameter_shapes or [p.shape for p in parameters]):
        base = p.metadata.op_name if p.metadata and p.metadata.op_name else p.name
        leaves += [
            (base + "".join(f".{i}" for i in index), shape) for index, shape in declared.leaves() if not shape.is_token
        ]
    return _named(module, PARAMETER_NAMES, leaves)


def least_sizes(module: Module) -> list[tuple[int, ...]]:
    """Of every leaf of the parameters the least size of each dimension; empty where 0 is the least of those that are
    dynamic. Raises VerifyError for sizes that cannot be."""
    found: list[tuple[int, ...]] = []
    for p in module.entry.parameters:
        if LEAST_SIZES in p.frontend_attributes:
            found.append(_least(p))
        else:
            found += [() for _, shape in p.shape.leaves() if not shape.is_token]
    return found


def _least(p: Instruction) -> tuple[int, ...]:
    text = p.frontend_attributes[LEAST_SIZES]
    try:
        sizes = json.loads(text)
    except (ValueError, RecursionError):
        sizes = None
    bounds = p.shape.dimensions if p.shape.is_dynamic else ()
    if (
        not isinstance(sizes, list)
        or len(sizes) != len(bounds)
        or not all(type(n) is int and 0 <= n <= most for n, most in zip(sizes, bounds))
        or not all(dynamic or n == most for n, most, dynamic in zip(sizes, bounds, p.shape.dynamic))
    ):
        raise VerifyError(
            f"{p.where}: frontend attribute {LEAST_SIZES} must have a size for each dimension, from 0 to "
            f"its bound, that of a fixed one itself; {p.shape.without_layout()} has {text:.80}"
        )
    return tuple(sizes)


def renumber_parameters(module: Module, numbers: Mapping[int, int]) -> None:
    """Gives each parameter the number that `numbers` has for its own, and drops aliases and donors of the others."""
    for p in module.entry.parameters:
        if (number := p.attrs["parameter_number"]) in numbers:
            p.attrs["parameter_number"] = numbers[number]
    module.input_output_alias = [(o, numbers[p], i, k) for o, p, i, k in module.input_output_alias if p in numbers]
    module.buffer_donor = [(numbers[p], i) for p, i in module.buffer_donor if p in numbers]


def add_unused_parameter(module: Module, number: int, shape: Shape) -> None:
    """Adds a parameter that nothing reads, so that callers give what the program leaves out. Of several devices each
    gets all of it."""
    attrs: dict[str, Any] = {"parameter_number": number, "parameter_replication": ()}
    if module.num_partitions > 1:
        attrs["sharding"] = _REPLICATED
    module.entry.instructions.insert(0, Instruction(f"unused.{number}", "parameter", shape, [], attrs))


def result_leaves(module: Module) -> list[NamedShape]:
    """Name and shape of every leaf of the result, laid out as callers have it, in order; names are unique."""
    declared = module.result_shape or module.entry.root.shape
    leaves = [
        ("result" + "".join(f".{i}" for i in index), shape) for index, shape in declared.leaves() if not shape.is_token
    ]
    return _named(module, RESULT_NAMES, leaves)


def size_places(leaves: list[NamedShape]) -> list[list[int | None]]:
    """For each leaf and each of its dimensions, which of all dynamic sizes in a row is its own; None for a static
    dimension.

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
    """Returns the instruction that an array is taken from, and the indices: a parameter and the index of its leaf, or
    the array itself and ()."""
    index: tuple[int, ...] = ()
    while x.opcode == "get-tuple-element":
        index = (x.attrs["index"], *index)
        x = x.operands[0]
    return x, index


def leaf_index(leaves: list[NamedShape], key: str | int, what: str) -> int:
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


def leaf_indices(leaves: list[NamedShape], key: str | int, what: str, structure: Any = None) -> list[int]:
    """The positions of the leaves that a key means: the one of that name or number, or else all below that name
    ("params" means "params.w" and "params.b"), or else those that suit a pattern ("*.kernel"). Raises ArgumentError if
    there are none, unless the `structure` has the name and says that there are none below it.
    """
    names = [name for name, _ in leaves]
    if isinstance(key, int) or key in names:
        return [leaf_index(leaves, key, what)]
    found = [i for i, name in enumerate(names) if name.startswith(f"{key}.")]
    found = found or [i for i, name in enumerate(names) if fnmatchcase(name, key)]
    if not found and is_empty(structure, f"{what.replace('parameter', 'argument')}s", key):
        return []
    return found or [leaf_index(leaves, key, what)]


def leaf_pairs(
    parameters: list[NamedShape],
    results: list[NamedShape],
    parameter: str | int,
    result: str | int,
    structure: Any = None,
) -> list[tuple[int, int]]:
    """The positions of the parameters and results that two keys pair: one each, or all below two names, of the same
    names from there on.

    A name may end in ".*". The name "" means all. Raises ArgumentError where one has no partner. Two names that lead
    to parts without leaves in the `structure` pair nothing.
    """
    if isinstance(parameter, str) and isinstance(result, str):
        ends = (("arguments", parameter), ("results", result))
        if all(is_empty(structure, side, key.removesuffix("*").removesuffix(".")) for side, key in ends):
            return []
    below = _below(parameters, parameter)
    if not below:
        return [(leaf_index(parameters, parameter, "parameter"), leaf_index(results, result, "result"))]
    partners = _below(results, result)
    if not partners and result in [name for name, _ in results]:
        raise ArgumentError(
            f"state {parameter!r} is {', '.join(parameters[i][0] for i in below.values())}, and {result!r} is one "
            f"result"
        )
    if not partners:
        leaf_index(results, result, "result")  # says which there are
    for own, others, what, key in ((below, partners, "result", result), (partners, below, "parameter", parameter)):
        for rest in own:
            if rest not in others:
                name = (parameters if own is below else results)[own[rest]][0]
                wanted = f"{str(key).removesuffix('.*')}.{rest}".removeprefix(".")
                raise ArgumentError(
                    f"state {parameter!r}: {name!r} has no partner, there is no {what} named {wanted!r}"
                )
    return [(i, partners[rest]) for rest, i in below.items()]


def _below(leaves: list[NamedShape], key: str | int) -> dict[str, int]:
    """The leaves below a name, by what follows it in their names; none if it is the name of one."""
    names = [name for name, _ in leaves]
    if isinstance(key, int) or key in names:
        return {}
    prefix = f"{key.removesuffix('*').removesuffix('.')}." if key else ""
    return {name.removeprefix(prefix): i for i, name in enumerate(names) if name.startswith(prefix)}


def structure_of(module: Module, parameters: int, results: int) -> dict[str, Any] | None:
    """Returns the structure of the arguments and results that the module's attributes have (`hlo.structure`).

    None if they have none, or none that suits the module: parameters may have become constants since.
    """
    try:
        found = json.loads(module.frontend_attributes.get(STRUCTURE, "null"))
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return (
        None
        if fault(found, parameters, results)
        else {key: found[key] for key in ("names", "positional", "arguments", "results")}
    )


def _named(module: Module, attribute: str, leaves: list[NamedShape]) -> list[NamedShape]:
    """The leaves with the names that the module carries for them, if it does, made unique."""
    names = [name for name, _ in leaves]
    listed = names_in(module, attribute)
    if listed is not None and len(listed) == len(names):
        names = listed
    return list(zip(_unique(names), (shape for _, shape in leaves)))


def names_in(module: Module, attribute: str) -> list[str] | None:
    """The list of names in a frontend attribute of the module; None if it has none. Raises VerifyError where it is no
    such list."""
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
