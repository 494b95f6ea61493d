"""First values of states: from arrays of any library, numbers and structures to the bytes in an artifact. Needs no
numpy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn

from ..errors import ArgumentError, UnsupportedError
from ..hlo.literal import Literal, canonical_bytes, relayout
from ..hlo.shape import Layout, Shape
from ..hlo.sharding import Shards
from ..hlo.signature import NamedShape, leaf_index
from ..hlo.structure import is_empty
from ..hlo.types import TYPES, WIDE, limits
from ..host.structures import key_words, named_arrays, spread

_KINDS = ("pred", "signed", "float", "complex")
"""The kinds of Python's numbers, in the order in which each may become one of those behind it; but a bool is no
number."""


def initial_values(
    inputs: list[NamedShape],
    state: Mapping[int, int],
    shards: Sequence[Shards | None],
    given: Iterable[tuple[str | int, Any]],
    structure: Any = None,
) -> dict[int, bytes]:
    """The bytes of each state in the order of its layout, by the number of its parameter.

    `given` are the pairs of `Options.initial`, `shards` those of the parameters, `structure` that of the arguments, if
    it is known. What is zeros is left out: memory begins so. Raises ArgumentError that names the state which is not
    there or does not fit, UnsupportedError for those that no module can begin with.
    """
    found: dict[int, bytes] = {}
    seen: set[int] = set()
    for key, value in given:
        if isinstance(key, str) and is_empty(structure, "arguments", key) and not named_arrays(value):
            continue
        for i, each in _leaves(inputs, state, key, value).items():
            name, shape = inputs[i]
            if i in seen:
                raise ArgumentError(f"initial: the state {name!r} is given twice")
            seen.add(i)
            if shape.is_dynamic:
                raise UnsupportedError(
                    f"initial: the state {name!r} is {shape}: only the host sets states with dynamic dimensions"
                )
            own = shards[i]
            if own is not None and not own.whole:
                raise UnsupportedError(
                    f"initial: each device has another part of the state {name!r}, and an artifact is the same for "
                    f"all: set it in the host"
                )
            data = _bytes_of(each, shape, f"initial: the state {name!r} is {shape.without_layout()}")
            if data.count(0) < len(data):
                found[i] = bytes(relayout(data, shape, Layout.default(shape.rank).minor_to_major, shape.minor_to_major))
    return found


def _leaves(inputs: list[NamedShape], state: Mapping[int, int], key: str | int, value: Any) -> dict[int, Any]:
    """The arrays of one key, by the numbers of their parameters: of a name that others begin with, all below it. ""
    means all states."""
    names = {inputs[i][0]: i for i in state}
    if isinstance(key, int):
        key = inputs[leaf_index(inputs, key, "parameter")][0]
    prefix = key if key in names else key.removesuffix("*").removesuffix(".")

    def below(name: str, among: Iterable[str]) -> list[str]:
        return [other for other in among if other == name or other.startswith(f"{name}." if name else "")]

    def unknown(name: str, value: Any) -> NoReturn:
        if below(name, names):
            raise ArgumentError(
                f"initial: {name!r} stands for {_some(below(name, names))}: give a dict or its like, not "
                f"{type(value).__name__}"
            )
        is_input = below(name, (other for other, _ in inputs))
        what = (
            f"{name!r} is no state, which Options.state pairs with a result"
            if is_input
            else f"there is no state {name!r}"
        )
        raise ArgumentError(f"initial: {what}; states: {_some([*names])}")

    wanted = [prefix] if prefix in names else below(prefix, names)
    if not wanted:
        unknown(prefix, value)
    found = spread(prefix, value, names, unknown)
    missing = next((name for name in wanted if name not in found), None)
    if missing is not None:
        raise ArgumentError(
            f"initial: the state {missing!r} is missing in what is given for {key!r}: "
            f"{inputs[names[missing]][1].without_layout()}"
        )
    return {names[name]: each for name, each in found.items()}


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if names[8:] else "") or "none"


def _bytes_of(value: Any, shape: Shape, what: str) -> bytes:
    """The elements in row-major order. `what` begins the message of the ArgumentError for what does not fit."""
    if not hasattr(value, "dtype") or not hasattr(value, "tobytes"):
        if not hasattr(value, "__array__"):
            return _of_numbers(value, shape, what)
        try:
            value = key_words(value).__array__()
        except Exception as error:  # whatever a foreign __array__ may raise
            raise ArgumentError(f"{what}, and {type(value).__name__} is no array: {error}") from error
    value = _narrowed(value, shape.element_type, what)
    dtype, dimensions = value.dtype, tuple(value.shape)
    name, wanted = getattr(dtype, "name", str(dtype)), _dtype_name(shape.element_type)
    if name != wanted or dimensions != shape.dimensions:
        hint = f"; .astype({wanted!r}) converts it" if dimensions == shape.dimensions else ""
        raise ArgumentError(f"{what}, got {name}[{','.join(map(str, dimensions))}]{hint}")
    if not getattr(dtype, "isnative", True):
        value = value.astype(dtype.newbyteorder("="))
    return canonical_bytes(shape.element_type, value.tobytes())


def _narrowed(value: Any, element_type: str, what: str) -> Any:
    """An array of 64 bits in the place of half as many, as hosts convert it (`host.arrays.narrowed`)."""
    wide = WIDE.get(element_type)
    if wide is None or getattr(value.dtype, "name", str(value.dtype)) != _dtype_name(wide):
        return value
    if TYPES[element_type].kind in ("signed", "unsigned") and value.size:
        low, high = limits(element_type)
        lost = next((n for n in (int(value.min()), int(value.max())) if not low <= n <= high), None)
        if lost is not None:
            raise ArgumentError(f"{what}, and {lost} does not fit; it takes integers from {low} to {high}")
    return value.astype(_dtype_name(element_type))


def _of_numbers(value: Any, shape: Shape, what: str) -> bytes:
    """The same of Python's numbers, or of lists of them."""
    dimensions, numbers = _flat(value, what)
    if dimensions != shape.dimensions and not (
        shape.size == 0 and not numbers and dimensions == shape.dimensions[: len(dimensions)]
    ):
        raise ArgumentError(f"{what}, got {f'lists of shape {list(dimensions)}' if dimensions else 'one number'}")
    target = "signed" if TYPES[shape.element_type].kind == "unsigned" else TYPES[shape.element_type].kind
    for number in numbers:
        kind = _KINDS[(bool, int, float, complex).index(type(number))]
        if _KINDS.index(kind) > _KINDS.index(target) or (kind == "pred") != (target == "pred"):
            raise ArgumentError(
                f"{what}, got Python's {type(number).__name__}: give an array of that type, or numbers that fit it"
            )
    plain = Shape(shape.element_type, shape.dimensions, Layout.default(shape.rank))
    try:
        literal = Literal.from_values(plain, numbers)
        lost = (
            next((a for a, b in zip(numbers, literal.values()) if not _kept(a, b)), None)
            if target in ("float", "complex")
            else None
        )
    except (ArgumentError, OverflowError) as error:
        raise ArgumentError(f"{what}: a number does not fit it") from error
    if lost is not None:
        raise ArgumentError(f"{what}: {lost} does not fit it")
    return bytes(literal.data)


def _kept(a: Any, b: Any) -> bool:
    """Returns True if a number has stayed finite."""
    return not all(map(isfinite, (a.real, a.imag))) or all(map(isfinite, (b.real, b.imag)))


def _flat(value: Any, what: str) -> tuple[tuple[int, ...], list[Any]]:
    """The dimensions of nested lists, and the numbers in them in row-major order."""
    if type(value) in (bool, int, float, complex):
        return (), [value]
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"{what}, got {type(value).__name__}: give an array, or numbers")
    parts = [_flat(item, what) for item in value]
    if len({dimensions for dimensions, _ in parts}) > 1:
        raise ArgumentError(f"{what}: the lists in it have different lengths, and all rows need as many numbers")
    return (len(parts), *(parts[0][0] if parts else ())), [number for _, numbers in parts for number in numbers]


def _dtype_name(element_type: str) -> str:
    """Returns the name that NumPy and ml_dtypes have for an element type."""
    if element_type in ("pred", "bf16"):
        return {"pred": "bool", "bf16": "bfloat16"}[element_type]
    kind, rest = element_type[0], element_type[1:]
    if kind == "f" and not rest.isdecimal():
        return f"float{rest[0]}_{rest[1:]}"
    return {"s": "int", "u": "uint", "f": "float", "c": "complex"}[kind] + rest
