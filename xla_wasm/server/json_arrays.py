"""Arrays in JSON: nested lists of numbers, and the strings that stand for NaN and the infinities."""

from __future__ import annotations

import json
import math
from itertools import chain
from typing import Any

import numpy as np

from ..hlo.types import TYPES, limits
from ..host.arrays import Array, dtype_of
from ..host.leaf import Leaf
from .elements import cast, out_of_range, shortest, type_text
from .problems import Problem, unfit, unreadable

SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXACT = 1 << 53
"""Up to here every integer is a double."""


def parse(data: bytes) -> Any:
    """The value that JSON text in UTF-8 stands for; names must not repeat, and NaN and its like are strings."""
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise unreadable(f"the body is not JSON: byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise unreadable(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise unreadable("the body is JSON with too many lists in each other") from None
    except ValueError:  # Python reads integers of up to some thousand digits
        raise unfit("the body has a number with too many digits") from None


def _no_constant(name: str) -> None:
    raise unreadable(f'{name} is not JSON: write it as a string, "{name}"')


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise unreadable(f"the body is a JSON object with two values for {twice!r}", twice)
    return made


def to_array(leaf: Leaf, value: Any, infer: bool = False) -> Array:
    """The array that nested lists of the leaf's shape stand for, or one flat list of as many elements.

    Sizes of dynamic dimensions are those of the lists; with `infer`, a flat list too will do where one dimension is
    dynamic.
    """
    complex_ = TYPES[leaf.element_type].kind == "complex"
    dimensions, flat = _flattened(leaf, value)
    if complex_:
        dimensions, flat = _pairs(leaf, dimensions, flat)
    shape = _shape(leaf, dimensions, infer)
    if shape is None:
        given = type_text(leaf.element_type, dimensions)
        raise unfit(f"input '{leaf.name}' must be {leaf}, got {given}", leaf.name, leaf, given)
    kind = TYPES[leaf.element_type].kind
    convert = _bools if kind == "pred" else _integers if kind in ("signed", "unsigned") else _floats
    made = convert(leaf, flat)
    if complex_:
        made = made.view(np.complex128)
    return cast(leaf, made.reshape(shape))


def _flattened(leaf: Leaf, value: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The lengths of nested lists, level by level, and what lies in the innermost. Lists without elements end the
    levels."""
    flat, dimensions = [value], []
    while flat and set(map(type, flat)) == {list}:
        lengths = set(map(len, flat))
        if len(lengths) > 1:
            raise unfit(f"input '{leaf.name}' must be {leaf}, got lists of different lengths", leaf.name, leaf)
        dimensions.append(lengths.pop())
        flat = list(chain.from_iterable(flat))
    if any(type(item) in (list, dict) for item in flat):
        what = "an object" if any(type(item) is dict for item in flat) else "numbers beside lists"
        raise unfit(f"input '{leaf.name}' must be {leaf}, got {what}", leaf.name, leaf)
    return tuple(dimensions), flat


def _pairs(leaf: Leaf, dimensions: tuple[int, ...], flat: list[Any]) -> tuple[tuple[int, ...], list[Any]]:
    """Without the last dimension, that of real and imaginary parts."""
    if flat and dimensions[-1:] != (2,):
        raise unfit(
            f"input '{leaf.name}' must be {leaf}: each of its elements is a list, [real, imaginary]", leaf.name, leaf
        )
    return dimensions[:-1] if flat else dimensions, flat


def _shape(leaf: Leaf, dimensions: tuple[int, ...], infer: bool) -> tuple[int, ...] | None:
    """The shape of the array that the lists stand for; None if they do not fit."""
    bounds = leaf.dimensions
    if leaf.fits(dimensions):
        return dimensions
    if dimensions[-1:] == (0,) and len(dimensions) < len(bounds):
        # Lists without elements do not say the sizes inside them.
        rest = leaf.least_dimensions[len(dimensions) :]
        if leaf.fits(dimensions + rest):
            return dimensions + rest
    count = math.prod(dimensions)
    if len(dimensions) > 1:
        return None
    if not leaf.sizes:
        return bounds if count == math.prod(bounds) and dimensions else None
    return inferred(leaf, count) if infer else None


def inferred(leaf: Leaf, count: int) -> tuple[int, ...] | None:
    """The shape of an array of so many elements, where one dimension is dynamic."""
    dynamic = [d for d, at in enumerate(leaf.sizes) if at is not None]
    if len(dynamic) != 1:
        return None
    (d,) = dynamic
    row = math.prod(leaf.dimensions[:d] + leaf.dimensions[d + 1 :])
    shape = (*leaf.dimensions[:d], count // row if row else 0, *leaf.dimensions[d + 1 :])
    return shape if leaf.fits(shape) and math.prod(shape) == count else None


def _foreign(leaf: Leaf, flat: list[Any], known: tuple[type, ...]) -> Problem:
    item = next(item for item in flat if type(item) not in known)
    shown = json.dumps(item, ensure_ascii=False)
    shown = shown if len(shown) <= 40 else shown[:40] + "..."
    return unfit(
        f"input '{leaf.name}' must be {leaf}, and {shown} is not a value of {leaf.element_type}", leaf.name, leaf, shown
    )


def _bools(leaf: Leaf, flat: list[Any]) -> Array:
    if not set(map(type, flat)) <= {bool, int}:
        raise _foreign(leaf, flat, (bool, int))
    for item in flat:
        if item not in (0, 1):
            raise out_of_range(leaf, item)
    return np.array(flat, np.bool_)


def _integers(leaf: Leaf, flat: list[Any]) -> Array:
    types = set(map(type, flat))
    if not types <= {int, float}:
        raise _foreign(leaf, flat, (int, float))
    if float in types:  # 3.0 is an integer, as JSON has one type of numbers
        for item in flat:
            if not float(item).is_integer() or (type(item) is float and abs(item) > _EXACT):
                raise out_of_range(leaf, item)
        flat = list(map(int, flat))
    low, high = limits(leaf.element_type)
    for item in (min(flat, default=0), max(flat, default=0)):
        if not low <= item <= high and flat:
            raise out_of_range(leaf, item)
    return np.array(flat, np.uint64 if low == 0 else np.int64)


def _floats(leaf: Leaf, flat: list[Any]) -> Array:
    types = set(map(type, flat))
    if str in types:
        if any(type(item) is str and item not in SPECIAL for item in flat):
            item = next(item for item in flat if type(item) is str and item not in SPECIAL)
            raise _foreign(leaf, [item], ())
        numbers = [SPECIAL[item] if type(item) is str else item for item in flat]
    else:
        numbers = flat
    if not types <= {int, float, str}:
        raise _foreign(leaf, flat, (int, float, str))
    try:
        made = np.array(numbers, np.float64)
    except OverflowError:
        raise out_of_range(leaf, "an integer of that many digits") from None
    if np.isinf(made).any():
        # The text 1e999 is a number, and no double.
        for item in flat:
            if type(item) is float and math.isinf(item):
                raise out_of_range(leaf, "a number above 1.8e308")
    return made


def to_lists(array: Array, element_type: str) -> Any:
    """Nested lists of an array's elements, a bare element for a scalar; NaN and the infinities as strings."""
    kind = TYPES[element_type].kind
    if kind == "pred":
        return array.tolist()
    if kind in ("signed", "unsigned"):
        return (
            array.astype(np.int8 if kind == "signed" else np.uint8) if array.dtype.isbuiltin != 1 else array
        ).tolist()
    shape = array.shape
    if kind == "complex":
        half = array.real.dtype
        array, shape = np.ascontiguousarray(array).reshape(-1).view(half), (*shape, 2)
    numbers: list[Any] = shortest(np.ascontiguousarray(array))
    if not np.isfinite(numbers).all():
        numbers = [
            x if math.isfinite(x) else "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity" for x in numbers
        ]
    return nested(numbers, shape)


def nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    """A flat list as nested ones of a shape; of no dimensions, its only element."""
    if not shape:
        return flat[0]
    if not all(shape):
        return np.empty(shape).tolist()
    for size in shape[:0:-1]:
        flat = [flat[i : i + size] for i in range(0, len(flat), size)]
    return flat


def bound(leaf: Leaf) -> int:
    """Bytes that the JSON of an array may take: longest numbers, each on an indented line of its own."""
    numbers = math.prod(leaf.dimensions) * (2 if dtype_of(leaf.element_type).kind == "c" else 1)
    lists = sum(math.prod(leaf.dimensions[:d]) for d in range(len(leaf.dimensions)))
    return 64 * (numbers + 2 * lists) + 1024
