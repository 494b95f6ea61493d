"""Variable-length integers, and the reader that every consumer of WebAssembly binaries shares."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ..errors import ArtifactError

MAGIC = b"\0asm\1\0\0\0"
COMPONENT = b"\0asm\x0d\0\x01\0"
_CACHED = 1 << 16


class _Unsigned(dict[int, bytes]):
    """LEB128 of non-negative ints, remembered while small. A hit costs one dictionary lookup in C."""

    def __missing__(self, n: int) -> bytes:
        if n < 0:
            raise ValueError(f"negative {n} where an unsigned integer is needed")
        out = bytearray()
        rest = n
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
        encoded = bytes(out)
        if n < _CACHED:
            self[n] = encoded
        return encoded


class _Signed(dict[int, bytes]):
    """Signed LEB128 of so many bits, given in the signed or the unsigned range; remembered while small."""

    def __init__(self, bits: int):
        self.bits = bits

    def __missing__(self, n: int) -> bytes:
        if not -(1 << self.bits - 1) <= n < 1 << self.bits:
            raise ValueError(f"{n} does not fit {self.bits} bits")
        out = bytearray()
        rest = n - (1 << self.bits) if n >> self.bits - 1 > 0 else n
        while not -0x40 <= rest < 0x40:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest & 0x7F)
        encoded = bytes(out)
        if -_CACHED < n < _CACHED:
            self[n] = encoded
        return encoded


uleb = _Unsigned().__getitem__
sleb32 = _Signed(32).__getitem__
sleb = sleb64 = _Signed(64).__getitem__


def f32_bytes(value: float | bytes) -> bytes:
    """An f32 constant: a number, or its four bytes when the very bits matter."""
    if isinstance(value, bytes):
        if len(value) != 4:
            raise ValueError("an f32 constant has four bytes")
        return value
    return struct.pack("<f", value)


def f64_bytes(value: float | bytes) -> bytes:
    """An f64 constant: a number, or its eight bytes when the very bits matter."""
    if isinstance(value, bytes):
        if len(value) != 8:
            raise ValueError("an f64 constant has eight bytes")
        return value
    return struct.pack("<d", value)


def sized(data: bytes | bytearray | memoryview) -> bytes:
    """The data behind its length."""
    return uleb(len(data)) + bytes(data)


def named(text: str) -> bytes:
    """A name: UTF-8 behind its length."""
    return sized(text.encode())


def vector(items: list[bytes]) -> bytes:
    """The items behind their count."""
    return uleb(len(items)) + b"".join(items)


class Reader:
    """A cursor over untrusted bytes. Whatever is wrong with them becomes an ArtifactError."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0, end: int | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data) if end is None else end

    def fail(self, message: str) -> ArtifactError:
        return ArtifactError(f"damaged WebAssembly at byte {self.pos}, {message}: copy it again, or compile it anew")

    def u8(self) -> int:
        if self.pos >= self.end:
            raise self.fail("unexpected end")
        self.pos += 1
        return self.data[self.pos - 1]

    def take(self, count: int) -> bytes:
        if count > self.end - self.pos:
            raise self.fail("unexpected end")
        self.pos += count
        return self.data[self.pos - count : self.pos]

    def unsigned(self, bits: int = 32) -> int:
        result, _ = self._groups(bits)
        if result >> bits:
            raise self.fail("integer too large")
        return result

    def signed(self, bits: int) -> int:
        result, read = self._groups(bits)
        if result >> read - 1:
            result -= 1 << read
        if not -(1 << bits - 1) <= result < 1 << bits - 1:
            raise self.fail("integer too large")
        return result

    def _groups(self, bits: int) -> tuple[int, int]:
        """Reads groups of 7 bits up to the last, at most as many as `bits` can need: the number, and its bits."""
        result = read = 0
        while True:
            byte = self.u8()
            result |= (byte & 0x7F) << read
            read += 7
            if byte < 0x80:
                return result, read
            if read >= bits:
                raise self.fail("integer representation too long")

    def name(self) -> str:
        try:
            return self.take(self.unsigned()).decode()
        except UnicodeDecodeError:
            raise self.fail("malformed UTF-8") from None

    def sub(self) -> Reader:
        """A reader of the next length-prefixed part; this one moves past it."""
        size = self.unsigned()
        if size > self.end - self.pos:
            raise self.fail("unexpected end")
        part = Reader(self.data, self.pos, self.pos + size)
        self.pos += size
        return part

    def done(self) -> bool:
        return self.pos >= self.end


def sections(wasm: bytes) -> Iterator[tuple[int, Reader]]:
    """Section ids and readers of their contents, in file order; of a module, or of a component."""
    if wasm[:8] not in (MAGIC, COMPONENT):
        raise ArtifactError("not a WebAssembly module: the magic number or version is wrong")
    reader = Reader(wasm, 8)
    while not reader.done():
        identity = reader.u8()
        yield identity, reader.sub()


def custom_section(wasm: bytes, name: str) -> bytes | None:
    """The contents of the first custom section called `name`, or None."""
    for identity, part in sections(wasm):
        if identity == 0 and part.name() == name:
            return part.take(part.end - part.pos)
    return None
