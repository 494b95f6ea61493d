"""Kinds of attributes that are numbers, strings, shapes, or lists of them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ...errors import ParseError
from ..op import REQUIRED
from ..proto.schema import MESSAGES
from ..proto.shapes import read_shape, write_shape
from ..proto.wire import Buffer, Fields, encode
from ..shape import Shape
from ..strings import quoted
from ..text.shape_text import laid_out, shape_text
from ..types import default_comparison
from .kind import Kind, Word, braced, flag, integers, known

if TYPE_CHECKING:
    from ..ir import Instruction
    from ..text.lexer import Lexer
    from ..text.shapes import Shapes


def _integer(lexer: Lexer, _: Shapes) -> int:
    return lexer.integer()


def _boolean(lexer: Lexer, _: Shapes) -> bool:
    return lexer.boolean()


class _First(Kind):
    """`dimensions` of exactly one element, as an int; of at most one if it may be None."""

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> Any:
        values = fields.pop(keys[0], ())
        if self.nullable and not values:
            return None
        if len(values) != 1:
            raise ParseError(f"{instruction.where}: exactly one dimension expected, not {len(values)}")
        return values[0]


class _Optional(Kind):
    """A field with presence: an int or None. The deprecated is_cross_program_prefetch means index 0."""

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> Any:
        old = fields.pop("is_cross_program_prefetch", False) if keys[0] == "cross_program_prefetch_index" else False
        return fields.pop(keys[0], 0 if old else None)


class _ComparisonType(Kind):
    """comparison_type, which old modules leave to the type of the operand."""

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> str:
        return fields.pop(keys[0], "") or self._plain(instruction)

    def print(self, name: str, value: str, instruction: Instruction) -> str:
        return f"{name}={value}" if value and value != self._plain(instruction) else ""

    def _plain(self, instruction: Instruction) -> str:
        """Returns the part of the text that goes without saying."""
        return default_comparison(instruction.operands[0].shape.element_type) if instruction.operands else ""


def _channel(number: int) -> int | None:
    return number if number > 0 else None


def _single(lexer: Lexer, _: Shapes) -> Any:
    """A number, rounded to f32, which it must fit."""
    begin = lexer.skip()
    value = lexer.number()
    if abs(value) > 3.4028234663852886e38:
        lexer.error("the number does not fit f32", begin)
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _single_text(value: float) -> str:
    """The shortest text of an f32."""
    exact = struct.pack("<f", value)
    return next(
        (text for digits in range(6, 9) if struct.pack("<f", float(text := f"{value:.{digits}g}")) == exact),
        f"{value:.9g}",
    )


def _word_text(word: str) -> str | None:
    return word or None


def _flattened(lexer: Lexer, _: Shapes) -> tuple[int, ...]:
    """{{2,3}} or {2,3}."""
    lists = lexer.listed(lambda: lexer.integers() if lexer.sees("{") else [lexer.integer()])
    return tuple(value for items in lists for value in items)


def _replication(data: Buffer) -> tuple[bool, ...]:
    return tuple(known("ParameterReplication", data).get("replicated_at_leaf_buffers", ()))


def _replication_message(value: tuple[bool, ...]) -> bytes | None:
    return encode(MESSAGES["ParameterReplication"], {"replicated_at_leaf_buffers": value}) if value else None


BYTES = (bytes, bytearray, memoryview)

WORDS: dict[str, Word] = {
    "fft_type": Word("FFT IFFT RFFT IRFFT"),
    "distribution": Word("rng_invalid rng_uniform rng_normal"),
    "rng_algorithm": Word("rng_default rng_three_fry rng_philox"),
    "padding_type": Word("PADDING_INVALID PADDING_VALID PADDING_SAME"),
    "custom_call_schedule": Word("SCHEDULE_NONE SCHEDULE_LATEST SCHEDULE_EARLIEST"),
    "custom_call_api_version": Word(
        "API_VERSION_UNSPECIFIED API_VERSION_ORIGINAL API_VERSION_STATUS_RETURNING "
        "API_VERSION_STATUS_RETURNING_UNIFIED API_VERSION_TYPED_FFI",
        unwritten=1,
    ),
    "convolution_kind": Word("unset fprop dgrad wgrad"),
}
"""Kinds that are enums."""

KINDS: dict[str, Kind] = {
    **WORDS,
    "int": Kind(int, 0, parse=_integer),
    "count": Kind(int, 1, parse=_integer, decoded=lambda number: number or 1),
    "first_int": _First(int, REQUIRED, parse=_integer, encoded=lambda number: [number]),
    "optional_first_int": _First(int, REQUIRED, parse=_integer, encoded=lambda number: [number], nullable=True),
    "optional_int": _Optional(int, REQUIRED, parse=_integer, nullable=True),
    "channel_id": Kind(int, parse=lambda lexer, _: _channel(lexer.integer()), decoded=_channel),
    "bool": Kind(bool, False, parse=_boolean, text=flag),
    "tri_state": Kind(
        bool, parse=_boolean, text=flag, decoded={1: True, 2: False}.get, encoded=lambda value: 1 if value else 2
    ),
    "cholesky_options": Kind(
        bool,
        False,
        parse=_boolean,
        text=flag,
        decoded=lambda data: known("CholeskyOptions", data).get("lower", False),
        encoded=lambda lower: encode(MESSAGES["CholeskyOptions"], {"lower": lower}),
    ),
    "float": Kind((float, int), 0.0, parse=_single, text=_single_text),
    "str": Kind(str, "", parse=lambda lexer, _: lexer.unicode(), text=quoted),
    "name": Kind(str, "", parse=lambda lexer, _: lexer.name("a word"), text=_word_text),
    "comparison_direction": Kind(
        str, "", parse=lambda lexer, _: lexer.one_of(("EQ", "NE", "GE", "GT", "LE", "LT")), text=_word_text
    ),
    "comparison_type": _ComparisonType(
        str, REQUIRED, parse=lambda lexer, _: lexer.one_of(("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"))
    ),
    "bytes": Kind(BYTES, b"", parse=lambda lexer, _: lexer.string(), text=quoted, decoded=bytes, encoded=bytes),
    "ints": Kind(tuple, (), parse=integers, text=braced, decoded=tuple, encoded=list),
    "nested_ints": Kind(
        tuple, (), parse=_flattened, text=lambda value: f"{{{braced(value)}}}", decoded=tuple, encoded=list
    ),
    "bools": Kind(
        tuple,
        (),
        parse=lambda lexer, _: tuple(lexer.listed(lexer.boolean)),
        text=lambda value: braced(map(flag, value)),
        decoded=_replication,
        encoded=_replication_message,
    ),
    "shape": Kind(
        Shape, parse=lambda _, shapes: shapes.shape(), text=shape_text, decoded=read_shape, encoded=write_shape
    ),
    "shapes": Kind(
        tuple,
        (),
        parse=lambda lexer, shapes: tuple(lexer.listed(shapes.shape)),
        text=lambda value: f"{{{', '.join(shape_text(laid_out(s)) for s in value)}}}",
        decoded=lambda items: tuple([read_shape(data) for data in items]),
        encoded=lambda value: [write_shape(shape) for shape in value],
    ),
}
