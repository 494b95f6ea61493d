"""Constants in MLIR text: `dense<...>` as numbers, strings or hexadecimal bytes, and resources.

A blob is cut out between its quotes and converted at once; a list of numbers is taken apart by one expression, and its
brackets are compared with those that the type asks for. So the work for an element is that of converting it.
"""

from __future__ import annotations

import re
from binascii import Error, unhexlify
from math import prod

from ..errors import ArgumentError, counted
from ..hlo.literal import Literal
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from .elements import hlo_type, low_bits
from .lexer import STRING_BODY
from .text_types import Types
from .tree import DYNAMIC, Complex, Dense, Strings, Tensor

_BODY = re.compile(rf'[^">]*+(?:{STRING_BODY}[^">]*+)*+')
_PAIR = re.compile(r"\(\s*([^(),]*?)\s*,\s*([^(),]*?)\s*\)")
_LITERAL = re.compile(r"[^\s\[\],]+")
_NOT_BRACKETS = re.compile(r"[^\[\],]+")
_STRING = re.compile(STRING_BODY)
_DECIMAL_INTEGER = re.compile(r"[-+]?\d+")
_DECIMAL = re.compile(r"[-+]?\d+(?:\.\d*(?:[eE][-+]?\d+)?)?")
_HEX = re.compile(r"-?0x[\da-fA-F]+")
_TRUTH = {"true": 1, "false": 0}
_KEY = re.compile(r"\s*+([\w$.-]++)")
_CHUNK = 1 << 20
_MOST_DIGITS = 40


class Constants(Types):
    """A place in a text where constants may stand."""

    __slots__ = ("resources",)

    def __init__(self, text: str):
        super().__init__(text)
        self.resources: dict[str, tuple[int, int]] = {}
        """Key of a resource -> where the digits of its bytes begin and end."""

    def dense(self) -> Dense | Strings:
        """Reads what follows `dense`."""
        self.expect("<")
        begin = self.skip()
        if self.text.startswith('"0x', begin):
            end = self.text.find('"', begin + 1)
            if end < 0:
                self.error("a string that does not end", begin)
            self.pos = end + 1
            self.expect(">")
            return self._blob(self.tensor_type(), begin + 3, end)
        found = _BODY.match(self.text, begin)
        assert found
        self.pos = found.end()
        self.expect(">")
        body = found[0].strip() if "//" not in found[0] else re.sub(r"//[^\n]*", "", found[0]).strip()
        type_ = self.tensor_type()
        return self._strings(type_, body, begin) if '"' in body else self._numbers(type_, body, begin)

    def resource(self) -> Dense:
        """Reads what follows `dense_resource`: its bytes stand at the end of the file."""
        self.expect("<")
        begin = self.skip()
        key = self.quoted() if self.sees('"') else self.need(_KEY, "the name of a resource")
        self.expect(">")
        type_ = self.tensor_type()
        if key not in self.resources:
            why = "the text was printed without its constants" if key == "__elided__" else "the text does not hold it"
            self.error(f"there is no resource {key!r}: {why}", begin)
        start, end = self.resources[key]
        return self._blob(type_, start + 8, end)

    def tensor_type(self) -> Tensor:
        """`: tensor<...>` with a size in each dimension."""
        self.expect(":")
        begin = self.skip()
        type_ = self.type()
        if not isinstance(type_, Tensor) or type_.sizes is None or DYNAMIC in type_.sizes:
            self.error("the type of a constant is a tensor whose sizes are known", begin)
        return type_

    def _blob(self, type_: Tensor, begin: int, end: int) -> Dense:
        """The bytes that hexadecimal digits of the text stand for: all elements, or one of them."""
        size, count = (self._bits(type_) + 7) // 8, prod(type_.sizes or ())
        length = (end - begin) // 2
        bits = type_.element == "i1" and length == (count + 7) // 8 and length != count
        splat = not bits and length == size and count > 1
        if length != (count + 7) // 8 * bits + (size * count) * (not bits) and not splat or (end - begin) % 2:
            self.error(f"{length} bytes for a constant of {size * count}", begin)
        data = bytearray(length)
        try:
            for at in range(0, length, _CHUNK):
                data[at : at + _CHUNK] = unhexlify(self.text[begin + 2 * at : min(begin + 2 * (at + _CHUNK), end)])
        except (Error, ValueError):
            self.error("something else than hexadecimal digits in the bytes of a constant", begin)
        if bits:
            return _unpacked_bits(type_, data, count)
        if self._bits(type_) < 8:
            data = data.translate(low_bits(type_.element))
        return Dense(type_, memoryview(data).toreadonly(), splat)

    def _bits(self, type_: Tensor) -> int:
        """The bits of one element."""
        name = hlo_type(type_.element)
        if name is None:
            self.unsupported(f"a constant of {type_.element}")
        return TYPES[name].bits

    def _strings(self, type_: Tensor, body: str, begin: int) -> Strings:
        texts = [self.unescaped(literal) for literal in _STRING.findall(body)]
        self._check_brackets(type_, _STRING.sub("", body), len(texts), begin)
        return Strings(type_, tuple(texts))

    def _numbers(self, type_: Tensor, body: str, begin: int) -> Dense:
        """A constant that is written as numbers."""
        name = hlo_type(type_.element)
        if name is None:
            self.unsupported(f"a constant of {type_.element}")
        if TYPES[name].kind == "complex":
            literals = [part for pair in _PAIR.findall(body) for part in pair]
            body = _PAIR.sub("0", body)
            name, parts = type_.element.element if isinstance(type_.element, Complex) else name, 2
        else:
            literals, parts = _LITERAL.findall(body), 1
        self._check_brackets(type_, body, len(literals) // parts, begin)
        data = self._packed(name, literals, begin) if prod(type_.sizes or ()) else b""
        size = TYPES[name].bytes * parts
        splat = prod(type_.sizes or ()) > 1 and data == data[:size] * (len(data) // size)
        return Dense(type_, data[:size] if splat else data, splat)

    def _check_brackets(self, type_: Tensor, body: str, count: int, begin: int) -> None:
        """The lists in one another must be those of the type's dimensions; or there is one element for all, or none of
        no element."""
        sizes = type_.sizes or ()
        total = prod(sizes)
        if not total:
            sizes = sizes[: sizes.index(0) + 1]
        found = _NOT_BRACKETS.sub("", body)
        if not found and (count == 1 or (count == 0 and total == 0)):
            return
        if total != count or prod(size for size in sizes if size) > len(body) + 1:
            self.error(f"{counted(count, 'element')} for a constant of {total}", begin)
        brackets = ""
        for size in reversed(sizes):
            brackets = "[" + ",".join([brackets] * size) + "]"
        if found != brackets:
            self.error(f"the lists of the constant are not of {'x'.join(map(str, sizes))} elements", begin)

    def _packed(self, name: str, literals: list[str], begin: int) -> bytes:
        """Elements in memory."""
        kind, bits = TYPES[name].kind, TYPES[name].bits
        known = {literal: self._number(kind, bits, literal, begin) for literal in set(literals)}
        as_bits = kind == "float" and any("x" in literal for literal in known)
        try:
            values = [0.0 if as_bits and "x" in literal else known[literal] for literal in literals]
            data = bytes(Literal.from_values(Shape(name, (len(values),)), values).data)
        except ArgumentError as error:
            self.error(str(error), begin)
        if not as_bits:
            return data
        patched, width = bytearray(data), TYPES[name].bytes
        for i, literal in enumerate(literals):
            if "x" in literal:
                patched[i * width : (i + 1) * width] = int(known[literal]).to_bytes(width, "little")
        return bytes(patched)

    def _number(self, kind: str, bits: int, literal: str, begin: int) -> int | float:
        """The value of an element; the bits of a float that is written as such."""
        if literal in _TRUTH and (kind == "pred" or bits == 1):
            return _TRUTH[literal]
        if _HEX.fullmatch(literal) and len(literal) < _MOST_DIGITS:
            value = int(literal, 16)
            if kind != "float":
                return self.fitting(value, bits, kind, begin)
            if 0 <= value < 1 << bits:
                return value
        elif kind == "float" and _DECIMAL.fullmatch(literal):
            return float(literal)
        elif kind != "float" and _DECIMAL_INTEGER.fullmatch(literal) and len(literal) < _MOST_DIGITS:
            return self.fitting(int(literal), bits, kind, begin)
        self.error(f"{literal[:_MOST_DIGITS]!r} is no element of this type", begin)

    def fitting(self, value: int, bits: int, kind: str, begin: int) -> int:
        """An integer as its type holds it: one without a sign may be written as an unsigned one."""
        least, end = -(1 << bits - 1), 1 << bits
        if kind == "pred":
            least, end = -1, 2
        if kind == "unsigned":
            least = 0
        if not least <= value < end:
            self.error(f"{value} does not fit {bits} bits", begin)
        if kind == "pred":
            return int(value != 0)
        return value - end if kind == "signed" and value >= end >> 1 else value


def int64s(sizes: tuple[int, ...], values: list[int]) -> Dense:
    """A constant of integers of 64 bits."""
    data = b"".join([value.to_bytes(8, "little", signed=True) for value in values])
    splat = len(values) > 1 and data == data[:8] * len(values)
    return Dense(Tensor(sizes, "i64"), data[:8] if splat else data, splat)


def _unpacked_bits(type_: Tensor, data: bytearray, count: int) -> Dense:
    """A byte for each bit, the lowest of a byte first."""
    table = [bytes(code >> i & 1 for i in range(8)) for code in range(256)]
    unpacked = b"".join([table[code] for code in data])[:count]
    splat = unpacked in (bytes(count), b"\1" * count)
    return Dense(type_, unpacked[:1] if splat else unpacked, splat)
