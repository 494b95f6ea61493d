"""A place in the bytes of MLIR bytecode, and the numbers that stand there."""

from __future__ import annotations

from ..errors import ParseError, counted
from ..hlo.proto.wire import Buffer

DEEPEST = 64
"""The greatest depth of regions in regions, and of attributes and types in each other: a damaged file can nest them
without end."""


class Cursor:
    """A place in a part of the data, which ends at `end`."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: Buffer, at: int, end: int):
        self.data, self.at, self.end = data, at, end

    def fail(self, what: str) -> ParseError:
        return ParseError(f"MLIR bytecode: {what}, at byte {self.at}")

    def varint(self) -> int:
        """A number whose first byte says, by its trailing zero bits, how many bytes follow."""
        at = self.at
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        size = (first & -first).bit_length() if first else 9
        self.at = at + size
        if self.at > self.end:
            raise self.fail("the data end within a number")
        number = int.from_bytes(self.data[at : at + size], "little")
        return number >> size if first else number >> 8

    def signed(self) -> int:
        """A number in zigzag form."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> int:
        """Skips the next `size` bytes and returns where they begin."""
        at = self.at
        if size > self.end - at:
            raise self.fail(f"{size} bytes are said to follow, {max(self.end - at, 0)} do")
        self.at = at + size
        return at

    def count(self) -> int:
        """The length of a list, whose members take a byte each at least."""
        count = self.varint()
        if count > self.end - self.at:
            raise self.fail(f"a list of {counted(count, 'member')} in {max(self.end - self.at, 0)} bytes")
        return count

    def section(self) -> tuple[int, Cursor]:
        """The number of the next section, and its data."""
        head, size = self.byte(), self.varint()
        if head & 0x80:
            align = self.varint()
            if not align:
                raise self.fail("a section is aligned by 0 bytes")
            self.take(-self.at % align)
        start = self.take(size)
        return head & 0x7F, Cursor(self.data, start, start + size)
