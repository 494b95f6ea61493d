"""Kinds of attributes that say something of each dimension: windows, paddings, slices, and which dimensions play which part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..attrs import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    PaddingDimension,
    RaggedDotDimensionNumbers,
    SliceDimension,
    Window,
    WindowDimension,
)
from ..schema import MESSAGES
from ..wire import Buffer, encode
from .kind import InParts, Kind, Part, Record, braced, known, message, record

if TYPE_CHECKING:
    from ..ir import Instruction
    from ..lexer import Lexer
    from ..parser_shapes import Shapes


class Slices(Kind):
    """slice_dimensions: a tuple of SliceDimension."""

    type, absent = tuple, ()

    def decoded(self, value: list[Buffer]) -> tuple[SliceDimension, ...]:
        return tuple([record(SliceDimension, "SliceDimensions", d) for d in value])

    def encoded(self, value: Any) -> list[bytes]:
        return [message("SliceDimensions", d) for d in value]

    def parse(self, lexer: Lexer, shapes: Shapes) -> tuple[SliceDimension, ...]:
        def one() -> SliceDimension:
            lexer.expect("[")
            start = lexer.integer()
            lexer.expect(":")
            limit = lexer.integer()
            stride = lexer.integer() if lexer.take(":") else 1
            lexer.expect("]")
            return SliceDimension(start, limit, stride)

        return tuple(lexer.listed(one))

    def text(self, value: Any) -> str:
        parts = (f"[{s.start}:{s.limit}" + (f":{s.stride}" if s.stride != 1 else "") + "]" for s in value)
        return f"{{{', '.join(parts)}}}"


class Padding(Kind):
    """padding_config: a tuple of PaddingDimension."""

    type, absent = tuple, ()

    def decoded(self, value: Buffer) -> tuple[PaddingDimension, ...]:
        items = known("PaddingConfig", value).get("dimensions", ())
        return tuple([record(PaddingDimension, "PaddingConfigDimension", d) for d in items])

    def encoded(self, value: Any) -> bytes:
        return encode(MESSAGES["PaddingConfig"], {"dimensions": [message("PaddingConfigDimension", d) for d in value]})

    def parse(self, lexer: Lexer, shapes: Shapes) -> tuple[PaddingDimension, ...]:
        return tuple(PaddingDimension(*numbers) for numbers in lexer.pads())

    def print(self, name: str, value: Any, instruction: Instruction) -> str:
        interior = any(p.interior_padding for p in value)
        parts = [f"{p.edge_padding_low}_{p.edge_padding_high}" + (f"_{p.interior_padding}" if interior else "") for p in value]
        return f"{name}={'x'.join(parts)}" if parts else ""


class WindowKind(Kind):
    """A Window or None."""

    type, nullable = Window, True
    plain = {"stride": "1", "pad": "0_0", "lhs_dilate": "1", "rhs_dilate": "1", "rhs_reversal": "0"}
    """What texts may leave out, and what it is then in each dimension."""

    def decoded(self, value: Buffer) -> Window:
        return Window(tuple(record(WindowDimension, "WindowDimension", d) for d in known("Window", value).get("dimensions", ())))

    def encoded(self, value: Window) -> bytes:
        return encode(MESSAGES["Window"], {"dimensions": [message("WindowDimension", d) for d in value.dimensions]})

    def parse(self, lexer: Lexer, shapes: Shapes) -> Window:
        begin = lexer.skip()
        found: dict[str, list[Any]] = {}
        for key, here in lexer.entries("an attribute of the window or '}'"):
            if key in found:
                lexer.error(f"{key} is given twice", here)
            if key == "pad":
                found[key] = lexer.pads()
                if any(len(numbers) != 2 for numbers in found[key]):
                    lexer.error("the padding of a window is low_high for each dimension", here)
            elif key == "size" or key in self.plain:
                found[key] = lexer.sizes("sizes, such as 1x2,")
            else:
                lexer.error(f"a window has no attribute {key}", here)
        if not found:
            return Window()
        if "size" not in found or any(len(values) != len(found["size"]) for values in found.values()):
            lexer.error("a window gives sizes, and as many of everything else as sizes", begin)
        rank = len(found["size"])
        ones = [1] * rank
        columns = [found["size"]] + [found.get(key, ones) for key in ("stride", "rhs_dilate", "lhs_dilate")]
        rows = zip(*columns, found.get("rhs_reversal", [0] * rank), found.get("pad", [[0, 0]] * rank))
        return Window(
            tuple(WindowDimension(size, stride, low, high, rhs, lhs, bool(turned)) for size, stride, rhs, lhs, turned, (low, high) in rows)
        )

    def text(self, value: Window) -> str:
        dims = value.dimensions
        if not dims:
            return "{}"
        parts = ["size=" + "x".join(str(d.size) for d in dims)]
        columns = zip(
            *[
                (d.stride, f"{d.padding_low}_{d.padding_high}", d.base_dilation, d.window_dilation, int(bool(d.window_reversal)))
                for d in dims
            ]
        )
        for (key, plain), column in zip(self.plain.items(), columns):
            values = [str(value) for value in column]
            if any(value != plain for value in values):
                parts.append(f"{key}={'x'.join(values)}")
        return f"{{{' '.join(parts)}}}"


class ConvolutionLabels(Record):
    """ConvolutionDimensionNumbers or None, in texts as labels of the dimensions: b01f_01io->b01f."""

    def __init__(self) -> None:
        super().__init__(ConvolutionDimensionNumbers)

    def parse(self, lexer: Lexer, shapes: Shapes) -> ConvolutionDimensionNumbers:
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
            return labels.find(first), labels.find(second), tuple(labels.index(label) for label in spatial if label in labels)

        return ConvolutionDimensionNumbers(*places(lhs, "b", "f"), *places(rhs, "i", "o"), *places(out, "b", "f"))

    def text(self, value: ConvolutionDimensionNumbers) -> str:
        def labels(first: str, first_dim: int, second: str, second_dim: int, spatial: tuple[int, ...]) -> str:
            places = {first_dim: first, second_dim: second, **{dim: str(i) for i, dim in enumerate(spatial)}}
            return "".join(places.get(dim, "?") for dim in range(max(places) + 1))

        d = value
        lhs = labels("b", d.input_batch_dimension, "f", d.input_feature_dimension, d.input_spatial_dimensions)
        rhs = labels("i", d.kernel_input_feature_dimension, "o", d.kernel_output_feature_dimension, d.kernel_spatial_dimensions)
        out = labels("b", d.output_batch_dimension, "f", d.output_feature_dimension, d.output_spatial_dimensions)
        return f"{lhs}_{rhs}->{out}"


def _ints(lexer: Lexer, _: Shapes) -> tuple[int, ...]:
    return tuple(lexer.integers())


class DimensionNumbers(Record, InParts):
    """A class of `hlo.attrs`, each of its fields in texts under a key of its own: `keys` is {key: field}, by default the fields' names.

    Those of `optional` are written only if they are not empty, and may be absent.
    """

    def __init__(self, cls: Any, optional: tuple[str, ...], keys: Mapping[str, str] | None = None):
        super().__init__(cls, cls())
        self.keys = keys or {field: field for field in cls.__dataclass_fields__}
        self.parts = {
            key: Part(key not in optional, _ints if isinstance(getattr(self.absent, field), tuple) else lambda lexer, _: lexer.integer())
            for key, field in self.keys.items()
        }

    def build(self, found: dict[str, Any]) -> Any:
        return self.type(**{self.keys[key]: value for key, value in found.items()})

    def print(self, name: str, value: Any, instruction: Instruction) -> str:
        items = ((key, getattr(value, field)) for key, field in self.keys.items())
        written = ((key, item) for key, item in items if item or self.parts[key].required)
        return ", ".join(f"{key}={item if isinstance(item, int) else braced(item)}" for key, item in written)


_DOT = {f"{side}_{role}_dims": f"{side}_{role}_dimensions" for side in ("lhs", "rhs") for role in ("batch", "contracting")}
DOT = DimensionNumbers(DotDimensionNumbers, tuple(_DOT), _DOT)


class RaggedDotNumbers(InParts):
    """RaggedDotDimensionNumbers."""

    type, absent = RaggedDotDimensionNumbers, RaggedDotDimensionNumbers()
    parts = {**DOT.parts, "lhs_ragged_dims": Part(False, _ints), "rhs_group_dims": Part(False, _ints)}

    def decoded(self, value: Buffer) -> RaggedDotDimensionNumbers:
        fields = known("RaggedDotDimensionNumbers", value)
        inner = DOT.decoded(fields.get("dot_dimension_numbers", b""))
        return RaggedDotDimensionNumbers(
            inner, tuple(fields.get("lhs_ragged_dimensions", ())), tuple(fields.get("rhs_group_dimensions", ()))
        )

    def encoded(self, value: RaggedDotDimensionNumbers) -> bytes:
        lists = {"lhs_ragged_dimensions": value.lhs_ragged_dimensions, "rhs_group_dimensions": value.rhs_group_dimensions}
        return encode(MESSAGES["RaggedDotDimensionNumbers"], {**lists, "dot_dimension_numbers": DOT.encoded(value.dot_dimension_numbers)})

    def build(self, found: dict[str, Any]) -> RaggedDotDimensionNumbers:
        inner = DOT.build({key: value for key, value in found.items() if key in DOT.parts})
        return RaggedDotDimensionNumbers(inner, found.get("lhs_ragged_dims", ()), found.get("rhs_group_dims", ()))

    def print(self, name: str, value: RaggedDotDimensionNumbers, instruction: Instruction) -> str:
        parts = [DOT.print(name, value.dot_dimension_numbers, instruction), f"lhs_ragged_dims={braced(value.lhs_ragged_dimensions)}"]
        parts += [f"rhs_group_dims={braced(value.rhs_group_dimensions)}"] if value.rhs_group_dimensions else []
        return ", ".join(part for part in parts if part)
