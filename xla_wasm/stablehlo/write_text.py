"""Types, attributes and locations of StableHLO as MLIR text."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from ..errors import UnsupportedError
from ..hlo.attrs import Metadata
from ..hlo.literal import Literal
from ..hlo.shape import UNBOUNDED, Shape
from ..hlo.types import TYPES
from ..mlir.elements import element_text
from ..mlir.strings import key_text, string_text

_MOST_NUMBERS = 20
"""Elements of a constant that are written as numbers; more are written as bytes."""


def type_text(shape: Shape) -> str:
    """The type of an array or a token. A dimension that may be shorter is `?` with a bound, one of any size `?`
    without."""
    if shape.is_token:
        return "!stablehlo.token"
    flags = shape.dynamic or (False,) * shape.rank
    sizes = "".join(
        ("?" if flag or size == UNBOUNDED else str(size)) + "x" for size, flag in zip(shape.dimensions, flags)
    )
    bounds = ["?" if not flag or size == UNBOUNDED else str(size) for size, flag in zip(shape.dimensions, flags)]
    bounded = f", #stablehlo.bounds<{', '.join(bounds)}>" if any(bound != "?" for bound in bounds) else ""
    return f"tensor<{sizes}{element_text(shape.element_type)}{bounded}>"


def signature(inputs: Iterable[str], results: Iterable[str]) -> str:
    """`(T, T) -> (T, T)`, of the texts of types."""
    results = [*results]
    return f"({', '.join(inputs)}) -> " + (results[0] if len(results) == 1 else f"({', '.join(results)})")


def truth(flag: bool) -> str:
    return "true" if flag else "false"


def int64(value: int) -> str:
    return f"{value} : i64"


def int32(value: int) -> str:
    return f"{value} : i32"


def numbers(values: Iterable[int]) -> str:
    """`[1, 2]`."""
    return f"[{', '.join(map(str, values))}]"


def int64s(values: Iterable[int]) -> str:
    """`array<i64: 1, 2>`."""
    listed = ", ".join(map(str, values))
    return f"array<i64: {listed}>" if listed else "array<i64>"


def truths(values: Iterable[bool]) -> str:
    """`array<i1: true, false>`."""
    listed = ", ".join(map(truth, values))
    return f"array<i1: {listed}>" if listed else "array<i1>"


def table(rows: list[tuple[int, ...]], width: int, element: str = "i64") -> str:
    """A constant of integers of two dimensions."""
    listed = numbers_of(rows) if rows and width else ""
    return f"dense<{listed}> : tensor<{len(rows)}x{width}x{element}>"


def numbers_of(rows: Iterable[Iterable[int]]) -> str:
    """`[[1, 2], [3, 4]]`."""
    return f"[{', '.join(map(numbers, rows))}]"


def dictionary(fields: dict[str, str]) -> str:
    """`{a = 1, b}` of texts; an empty text stands for a key alone."""
    return "{" + ", ".join(key_text(key) + (f" = {value}" if value else "") for key, value in fields.items()) + "}"


def real(value: float) -> str:
    """A finite number with its point."""
    text = repr(float(value))
    if "." not in text:
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}.0" + (f"e{exponent}" if exponent else "")
    return text


def float32(value: float) -> str:
    """A number of type f32, by its bits where it is not finite."""
    return _element("f32", bytes(Literal.from_values(Shape("f32"), [value]).data)) + " : f32"


def constant(literal: Literal) -> str:
    """`dense<...> : T`."""
    shape = literal.shape
    if shape.is_dynamic or not shape.is_array:
        raise UnsupportedError(f"StableHLO has no constants of {shape}")
    type_ = type_text(shape.without_layout())
    data, width = literal.row_major(), TYPES[shape.element_type].bytes
    if not shape.size:
        return f"dense<> : {type_}"
    splat = literal.splat_value() is not None
    if splat or shape.size <= _MOST_NUMBERS:
        raw = bytes(data[:width] if splat else data)
        texts = [_element(shape.element_type, raw[i : i + width]) for i in range(0, len(raw), width)]
        return f"dense<{texts[0] if splat else _nested(texts, shape.dimensions)}> : {type_}"
    return f'dense<"0x{data.hex()}"> : {type_}'


def _element(name: str, raw: bytes) -> str:
    """One element, which `raw` are the bytes of."""
    if TYPES[name].kind == "complex":
        half, part = len(raw) // 2, "f32" if name == "c64" else "f64"
        return f"({_element(part, raw[:half])}, {_element(part, raw[half:])})"
    value = Literal(Shape(name), raw).values()[0]
    if name == "pred":
        return truth(value)
    if TYPES[name].kind != "float":
        return str(value)
    exact = isfinite(value) and TYPES[name].bits >= 16
    return (
        real(value)
        if exact
        else f"0x{int.from_bytes(raw, 'little') & (1 << TYPES[name].bits) - 1:0{(TYPES[name].bits + 3) // 4}X}"
    )


def _nested(texts: list[str], sizes: tuple[int, ...]) -> str:
    """The texts in lists in one another."""
    for size in sizes[:0:-1]:
        texts = [f"[{', '.join(texts[i : i + size])}]" for i in range(0, len(texts), size)]
    return f"[{', '.join(texts)}]" if sizes else texts[0]


def location(metadata: Metadata | None) -> str:
    """` loc(...)` behind an operation, or nothing."""
    if metadata is None or not (metadata.op_name or metadata.source_file):
        return ""
    place = f"{string_text(metadata.source_file)}:{max(metadata.source_line, 0)}:0" if metadata.source_file else ""
    name = string_text(metadata.op_name) if metadata.op_name else ""
    return f" loc({f'{name}({place})' if name and place else name or place})"
