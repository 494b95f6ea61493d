"""Kinds of attributes that say something of each dimension: windows, paddings, slices, and which dimensions play which
part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..attrs import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingDimension,
    RaggedDotDimensionNumbers,
    ScatterDimensionNumbers,
    SliceDimension,
    Window,
    WindowDimension,
)
from ..proto.wire import Buffer
from .kind import InParts, Kind, Part, braced, integers, known, message, packed, record, unpacked

if TYPE_CHECKING:
    from ..text.lexer import Lexer
    from ..text.shapes import Shapes


def _slices(lexer: Lexer, _: Shapes) -> tuple[SliceDimension, ...]:
    """{[0:6:2], [0:3]}"""

    def one() -> SliceDimension:
        lexer.expect("[")
        start = lexer.integer()
        lexer.expect(":")
        limit = lexer.integer()
        stride = lexer.integer() if lexer.take(":") else 1
        lexer.expect("]")
        return SliceDimension(start, limit, stride)

    return tuple(lexer.listed(one))


def _slices_text(slices: tuple[SliceDimension, ...]) -> str:
    parts = (f"[{s.start}:{s.limit}" + (f":{s.stride}" if s.stride != 1 else "") + "]" for s in slices)
    return f"{{{', '.join(parts)}}}"


def _padding_text(padding: tuple[PaddingDimension, ...]) -> str | None:
    interior = any(p.interior_padding for p in padding)
    parts = [
        f"{p.edge_padding_low}_{p.edge_padding_high}" + (f"_{p.interior_padding}" if interior else "") for p in padding
    ]
    return "x".join(parts) if parts else None


def _read_padding(data: Buffer) -> tuple[PaddingDimension, ...]:
    items = known("PaddingConfig", data).get("dimensions", ())
    return tuple([record(PaddingDimension, item, "PaddingConfigDimension") for item in items])


_COLUMNS = {"stride": 1, "pad": [0, 0], "lhs_dilate": 1, "rhs_dilate": 1, "rhs_reversal": 0}
"""Attributes of a window in HLO text beside sizes, each with its value in a dimension where it is left out."""


def _window(lexer: Lexer, _: Shapes) -> Window:
    """{size=1x2 stride=2x1 ...}"""
    begin = lexer.skip()
    found: dict[str, list[Any]] = {}
    for key, here in lexer.entries("an attribute of the window or '}'"):
        if key in found:
            lexer.error(f"{key} is given twice", here)
        if key == "pad":
            found[key] = lexer.pads()
            if any(len(numbers) != 2 for numbers in found[key]):
                lexer.error("the padding of a window is low_high for each dimension", here)
        elif key == "size" or key in _COLUMNS:
            found[key] = lexer.sizes("sizes, such as 1x2,")
        else:
            lexer.error(f"a window has no attribute {key}", here)
    if not found:
        return Window()
    if "size" not in found or any(len(values) != len(found["size"]) for values in found.values()):
        lexer.error("a window gives sizes, and as many of everything else as sizes", begin)
    columns = [found.get(key, [plain] * len(found["size"])) for key, plain in _COLUMNS.items()]
    rows = zip(found["size"], *columns)
    return Window(
        tuple(
            [
                WindowDimension(size, stride, low, high, rhs, lhs, bool(turned))
                for size, stride, (low, high), lhs, rhs, turned in rows
            ]
        )
    )


def _window_text(window: Window) -> str:
    dims = window.dimensions
    if not dims:
        return "{}"
    parts = ["size=" + "x".join(str(d.size) for d in dims)]
    rows = [
        (d.stride, [d.padding_low, d.padding_high], d.base_dilation, d.window_dilation, int(bool(d.window_reversal)))
        for d in dims
    ]
    for (key, plain), column in zip(_COLUMNS.items(), zip(*rows)):
        if any(value != plain for value in column):
            parts.append(
                f"{key}="
                + "x".join("_".join(map(str, value)) if isinstance(value, list) else str(value) for value in column)
            )
    return f"{{{' '.join(parts)}}}"


def _read_window(data: Buffer) -> Window:
    return Window(tuple([record(WindowDimension, item) for item in known("Window", data).get("dimensions", ())]))


def _labels(lexer: Lexer, _: Shapes) -> ConvolutionDimensionNumbers:
    """b01f_01io->b01f"""
    text = lexer.labels("dimension labels, such as b01f_01io->b01f,")
    begin = lexer.pos - len(text)
    lhs, _arrow, rest = text.partition("_")
    rhs, _arrow, out = rest.partition("->")
    rank = len(lhs) - 2
    spatial = [str(d) for d in range(rank)]

    def places(labels: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
        whole = rank <= 9 and sorted(labels) == sorted([first, second, *spatial][: len(labels)])
        if not whole and "?" not in labels:
            roles = f"{first}, {second} and the spatial dimensions {' '.join(spatial)}"
            lexer.error(f"{labels} does not name {roles}, each once", begin)
        return (
            labels.find(first),
            labels.find(second),
            tuple(labels.index(label) for label in spatial if label in labels),
        )

    return ConvolutionDimensionNumbers(*places(lhs, "b", "f"), *places(rhs, "i", "o"), *places(out, "b", "f"))


def _labels_text(d: ConvolutionDimensionNumbers) -> str:
    def labels(first: str, first_dim: int, second: str, second_dim: int, spatial: tuple[int, ...]) -> str:
        places = {first_dim: first, second_dim: second, **{dim: str(i) for i, dim in enumerate(spatial)}}
        return "".join(places.get(dim, "?") for dim in range(max(places) + 1))

    lhs = labels("b", d.input_batch_dimension, "f", d.input_feature_dimension, d.input_spatial_dimensions)
    rhs = labels(
        "i", d.kernel_input_feature_dimension, "o", d.kernel_output_feature_dimension, d.kernel_spatial_dimensions
    )
    out = labels("b", d.output_batch_dimension, "f", d.output_feature_dimension, d.output_spatial_dimensions)
    return f"{lhs}_{rhs}->{out}"


def _numbers(cls: Any, optional: tuple[str, ...], keys: Mapping[str, str] | None = None) -> InParts:
    """A class of `hlo.attrs`, each of its fields in texts under a key of its own: `keys` is {key: field}, by default
    the fields' names.

    Those of `optional` are written only if they are not empty, and may be absent.
    """
    keys, plain = keys or {field: field for field in cls.__dataclass_fields__}, cls()
    parts = {
        key: Part(
            key not in optional,
            integers if isinstance(getattr(plain, field), tuple) else lambda lexer, _: lexer.integer(),
        )
        for key, field in keys.items()
    }

    def text(value: Any) -> str:
        items = ((key, getattr(value, field)) for key, field in keys.items())
        written = ((key, item) for key, item in items if item or key not in optional)
        return ", ".join(f"{key}={item if isinstance(item, int) else braced(item)}" for key, item in written)

    def build(found: dict[str, Any]) -> Any:
        return cls(**{keys[key]: value for key, value in found.items()})

    return InParts(cls, parts, build, text=text, decoded=lambda data: record(cls, data), encoded=message)


_DOT_KEYS = {
    f"{side}_{role}_dims": f"{side}_{role}_dimensions" for side in ("lhs", "rhs") for role in ("batch", "contracting")
}
_DOT = _numbers(DotDimensionNumbers, tuple(_DOT_KEYS), _DOT_KEYS)


def _ragged(found: dict[str, Any]) -> RaggedDotDimensionNumbers:
    ragged, group = (found.pop(key, ()) for key in ("lhs_ragged_dims", "rhs_group_dims"))
    return RaggedDotDimensionNumbers(_DOT.build(found), ragged, group)


def _ragged_text(value: RaggedDotDimensionNumbers) -> str:
    parts = [_DOT.text(value.dot_dimension_numbers), f"lhs_ragged_dims={braced(value.lhs_ragged_dimensions)}"]
    parts += [f"rhs_group_dims={braced(value.rhs_group_dimensions)}"] if value.rhs_group_dimensions else []
    return ", ".join(part for part in parts if part)


def _read_ragged(data: Buffer) -> RaggedDotDimensionNumbers:
    inner, ragged, group = unpacked("RaggedDotDimensionNumbers", data)
    return RaggedDotDimensionNumbers(_DOT.decoded(inner or b""), ragged, group)


def _write_ragged(value: RaggedDotDimensionNumbers) -> bytes:
    inner = message(value.dot_dimension_numbers)
    return packed("RaggedDotDimensionNumbers", (inner, value.lhs_ragged_dimensions, value.rhs_group_dimensions))


KINDS: dict[str, Kind] = {
    "slices": Kind(
        tuple,
        (),
        parse=_slices,
        text=_slices_text,
        decoded=lambda items: tuple([record(SliceDimension, data, "SliceDimensions") for data in items]),
        encoded=lambda value: [message(s, "SliceDimensions") for s in value],
    ),
    "padding": Kind(
        tuple,
        (),
        parse=lambda lexer, _: tuple(PaddingDimension(*numbers) for numbers in lexer.pads()),
        text=_padding_text,
        decoded=_read_padding,
        encoded=lambda value: packed("PaddingConfig", [[message(p, "PaddingConfigDimension") for p in value]]),
    ),
    "window": Kind(
        Window,
        parse=_window,
        text=_window_text,
        decoded=_read_window,
        encoded=lambda window: packed("Window", [[message(d) for d in window.dimensions]]),
    ),
    "convolution_dimension_numbers": Kind(
        ConvolutionDimensionNumbers,
        parse=_labels,
        text=_labels_text,
        decoded=lambda data: record(ConvolutionDimensionNumbers, data),
        encoded=message,
    ),
    "dot_dimension_numbers": _DOT,
    "ragged_dot_dimension_numbers": InParts(
        RaggedDotDimensionNumbers,
        {**_DOT.parts, **dict.fromkeys(("lhs_ragged_dims", "rhs_group_dims"), Part(False, integers))},
        _ragged,
        text=_ragged_text,
        decoded=_read_ragged,
        encoded=_write_ragged,
    ),
    "gather_dimension_numbers": _numbers(
        GatherDimensionNumbers, ("operand_batching_dims", "start_indices_batching_dims")
    ),
    "scatter_dimension_numbers": _numbers(
        ScatterDimensionNumbers, ("input_batching_dims", "scatter_indices_batching_dims")
    ),
}
