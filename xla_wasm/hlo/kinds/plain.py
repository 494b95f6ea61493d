"""Kinds of attributes that are numbers, strings or lists of them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ...errors import ParseError
from ..op import REQUIRED
from ..schema import MESSAGES
from ..shape import Shape
from ..shape_proto import read_shape, write_shape
from ..shape_text import laid_out, shape_text
from ..strings import quoted
from ..wire import Buffer, Fields, encode
from .kind import Kind, braced, flag, known

if TYPE_CHECKING:
    from ..ir import Instruction
    from ..lexer import Lexer
    from ..parser_shapes import Shapes


class Int(Kind):
    """An int."""

    absent: Any = 0

    def parse(self, lexer: Lexer, shapes: Shapes) -> Any:
        return lexer.integer()


class Count(Int):
    """feature_group_count, batch_group_count: an int that is 1 if it is absent or 0."""

    absent = 1

    def decoded(self, value: int) -> int:
        return value or 1


class FirstInt(Int):
    """`dimensions` of exactly one element, as an int."""

    absent = REQUIRED

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> Any:
        values = fields.pop(keys[0], ())
        if len(values) != 1:
            raise ParseError(f"{instruction.where}: exactly one dimension expected, not {len(values)}")
        return values[0]

    def encoded(self, value: int) -> list[int]:
        return [value]


class OptionalFirstInt(FirstInt):
    """`dimensions` of at most one element: an int or None."""

    nullable = True

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> Any:
        return super().read(fields, keys, instruction) if fields.get(keys[0]) else fields.pop(keys[0], None) and None


class OptionalInt(Int):
    """A field with presence: an int or None. The deprecated is_cross_program_prefetch means index 0."""

    absent, nullable = REQUIRED, True

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> Any:
        old = fields.pop("is_cross_program_prefetch", False) if keys[0] == "cross_program_prefetch_index" else False
        return fields.pop(keys[0], 0 if old else None)


class ChannelId(Int):
    """An int above 0, or None."""

    absent, nullable = None, True

    def decoded(self, value: int) -> int | None:
        return value if value > 0 else None

    def parse(self, lexer: Lexer, shapes: Shapes) -> int | None:
        return self.decoded(lexer.integer())


class Bool(Kind):
    """True or False."""

    type, absent = bool, False

    def parse(self, lexer: Lexer, shapes: Shapes) -> bool:
        return lexer.boolean()

    def text(self, value: bool) -> str:
        return flag(value)


class TriState(Bool):
    """True, False or None."""

    absent: Any = None
    nullable = True

    def decoded(self, value: int) -> bool | None:
        return {1: True, 2: False}.get(value)

    def encoded(self, value: bool) -> int:
        return 1 if value else 2


class Cholesky(Bool):
    """CholeskyOptions: whether the lower triangle is meant."""

    def decoded(self, value: Buffer) -> bool:
        return bool(known("CholeskyOptions", value).get("lower", False))

    def encoded(self, value: bool) -> bytes:
        return encode(MESSAGES["CholeskyOptions"], {"lower": value})


class Float(Kind):
    """A number that fits f32."""

    type, absent = (float, int), 0.0

    def parse(self, lexer: Lexer, shapes: Shapes) -> Any:
        """A number, rounded to f32, which it must fit."""
        begin = lexer.skip()
        value = lexer.number()
        if abs(value) > 3.4028234663852886e38:
            lexer.error("the number does not fit f32", begin)
        return struct.unpack("<f", struct.pack("<f", value))[0]

    def text(self, value: float) -> str:
        """The shortest text of an f32."""
        exact = struct.pack("<f", value)
        return next((text for digits in range(6, 9) if struct.pack("<f", float(text := f"{value:.{digits}g}")) == exact), f"{value:.9g}")


class Str(Kind):
    """A string."""

    type, absent = str, ""

    def parse(self, lexer: Lexer, shapes: Shapes) -> str:
        return lexer.unicode()

    def text(self, value: str) -> str:
        return quoted(value)


class Name(Str):
    """A string that stands in texts as a bare word, as the kind of a fusion does."""

    def parse(self, lexer: Lexer, shapes: Shapes) -> str:
        return lexer.name("a word")

    def text(self, value: str) -> str:
        return value


class Bytes(Kind):
    """backend_config, infeed_config, outfeed_config."""

    type = (bytes, bytearray, memoryview)
    absent: Any = b""

    def decoded(self, value: Buffer) -> bytes:
        return bytes(value)

    encoded = decoded

    def parse(self, lexer: Lexer, shapes: Shapes) -> bytes:
        return lexer.string()

    def text(self, value: bytes) -> str:
        return quoted(value)


class Ints(Kind):
    """A list of ints, as a tuple."""

    type, absent = tuple, ()

    def decoded(self, value: Any) -> tuple[int, ...]:
        return tuple(value)

    def encoded(self, value: Any) -> list[int]:
        return list(value)

    def parse(self, lexer: Lexer, shapes: Shapes) -> tuple[int, ...]:
        return tuple(lexer.integers())

    def text(self, value: Any) -> str:
        return braced(value)


class NestedInts(Ints):
    """The same, which texts have as a list of lists: {{2,3}}, or {2,3}."""

    def parse(self, lexer: Lexer, shapes: Shapes) -> tuple[int, ...]:
        lists = lexer.listed(lambda: lexer.integers() if lexer.sees("{") else [lexer.integer()])
        return tuple(value for items in lists for value in items)

    def text(self, value: Any) -> str:
        return f"{{{braced(value)}}}"


class Bools(Ints):
    """parameter_replication: a tuple of bool."""

    def decoded(self, value: Buffer) -> tuple[bool, ...]:
        return tuple(known("ParameterReplication", value).get("replicated_at_leaf_buffers", ()))

    def encoded(self, value: Any) -> Any:
        return encode(MESSAGES["ParameterReplication"], {"replicated_at_leaf_buffers": value}) if value else None

    def parse(self, lexer: Lexer, shapes: Shapes) -> tuple[bool, ...]:
        return tuple(lexer.listed(lexer.boolean))

    def text(self, value: Any) -> str:
        return braced(map(flag, value))


class ShapeKind(Kind):
    """outfeed_shape: a Shape or None."""

    type, nullable = Shape, True

    def decoded(self, value: Buffer) -> Shape:
        return read_shape(value)

    def encoded(self, value: Shape) -> bytes:
        return write_shape(value)

    def parse(self, lexer: Lexer, shapes: Shapes) -> Shape:
        return shapes.shape()

    def text(self, value: Shape) -> str:
        return shape_text(value)


class ShapeList(Kind):
    """operand_shapes_with_layout: a tuple of Shape."""

    type, absent = tuple, ()

    def decoded(self, value: list[Buffer]) -> tuple[Shape, ...]:
        return tuple([read_shape(d) for d in value])

    def encoded(self, value: Any) -> list[bytes]:
        return [write_shape(s) for s in value]

    def parse(self, lexer: Lexer, shapes: Shapes) -> tuple[Shape, ...]:
        return tuple(lexer.listed(shapes.shape))

    def text(self, value: Any) -> str:
        return f"{{{', '.join(shape_text(laid_out(s)) for s in value)}}}"
