"""Ranges of linear memory, and arrays in them."""

from __future__ import annotations

from ..dataclass import dataclass
from ..hlo.index_map import row_major_strides
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from ..loop.affine import is_dense

Data = bytes | memoryview

ALIGNMENT = 64
"""Buffers start at multiples of this many bytes and are padded to one, so that vectors may reach beyond their end."""


@dataclass(eq=False, slots=True)
class Buffer:
    """A range of linear memory. `first` and `last` are the steps between which it holds something; `address` comes
    last.

    `kind`: temporary (shares memory with others), parameter, constant (`data` holds its bytes), persistent, or
    configuration (what the host says about the device). `data` of a state's parameter is what it begins with.
    """

    bytes: int
    kind: str
    name: str = ""
    data: Data | None = None
    first: int = -1
    last: int = -1
    address: int = -1
    merged: Buffer | None = None
    staged: int = 0
    """A number for what alone needs it, a weight or poured constant that the host brings, has `init` make something
    else of, and only then brings the next: of that itself, and of what that is made through. 0 of anything else."""
    part: int = 0
    """The bytes in memory at a time, if the host brings it in parts."""

    @property
    def padded(self) -> int:
        """The bytes that it takes in memory."""
        return max(ALIGNMENT, -(-(self.part or self.bytes) // ALIGNMENT) * ALIGNMENT)

    def root(self) -> Buffer:
        """The buffer whose memory this one shares."""
        buffer = self
        while buffer.merged is not None:
            buffer = buffer.merged
        return buffer


@dataclass(frozen=True, slots=True)
class View:
    """An array in a buffer: strides and offset count elements."""

    buffer: Buffer
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def of(buffer: Buffer, shape: Shape, offset: int = 0) -> View:
        """A dense row-major array."""
        return View(buffer, shape.element_type, shape.dimensions, row_major_strides(shape.dimensions), offset)

    @property
    def dense(self) -> bool:
        """True if the elements lie in row-major order without gaps."""
        return is_dense(self.dims, self.strides)

    @property
    def size(self) -> int:
        total = 1
        for size in self.dims:
            total *= size
        return total

    @property
    def bytes(self) -> int:
        return self.size * TYPES[self.dtype].bytes

    @property
    def extent(self) -> int:
        """The bytes from the first element to the end of the last: more than all elements have where there are gaps,
        less where some lie in the same place."""
        last = sum([(size - 1) * stride for size, stride in zip(self.dims, self.strides)])
        return (1 + last) * TYPES[self.dtype].bytes if self.size else 0

    @property
    def byte_offset(self) -> int:
        return self.offset * TYPES[self.dtype].bytes

    @property
    def address(self) -> int:
        return self.buffer.root().address + self.byte_offset

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, addresses: bool = True) -> str:
        """The array, the buffer whose memory it lies in, and how."""
        dims = ",".join(map(str, self.dims))
        root = self.buffer.root()
        place = root.name + (f"@{root.address}" if addresses else "") + (f"+{self.byte_offset}" if self.offset else "")
        return f"{self.dtype}[{dims}] in {place}" + ("" if self.dense else f" strides {self.strides}")
