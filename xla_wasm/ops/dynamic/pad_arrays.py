"""Arrays of which a part counts: static arrays of the bounds, with the actual size of each dimension beside them.

What lies past the sizes is garbage. A rule of `RULES` (in the modules beside this one) writes an operation on such
arrays as static operations, so that the part of the result that counts is the operation on the parts of its operands
that count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...dataclass import dataclass
from ...errors import UnsupportedError
from ...hlo.attrs import GatherDimensionNumbers, WindowDimension
from ...hlo.infer import dilated
from ...hlo.ir import Computation, Instruction
from ...hlo.shape import Shape
from ...writing.writer import Index, Writer

Size = int | Instruction
"""A size that is known, or an s32 scalar."""
Extent = tuple[Any, ...]
"""Of an array a Size for each dimension, of a tuple the Extent of each element, of a token nothing."""


@dataclass(frozen=True, slots=True)
class Padded:
    """A value of static shape, and how much of it counts."""

    value: Instruction
    extent: Extent


Rule = Callable[["SizeWriter", Instruction, list[Extent]], Padded]
"""From an instruction, whose operands are static already, and the extents of these."""


def static(shape: Shape) -> Shape:
    """The shape whose dimensions are the bounds."""
    if shape.is_tuple:
        return Shape.tuple([static(s) for s in shape.tuple_shapes])
    return Shape(shape.element_type, shape.dimensions)


def _quotient(p: int, q: int) -> int:
    return 0 if q == 0 else p // q if p >= 0 else -(-p // q)


def whole(shape: Shape) -> Extent:
    """The extent of a value all of which counts."""
    return tuple(map(whole, shape.tuple_shapes)) if shape.is_tuple else shape.dimensions


class SizeWriter(Writer):
    """Writes one computation; `x` is the instruction whose rule is at work."""

    def __init__(self, x: Instruction, made: list[Instruction], computations: list[Computation]):
        super().__init__(x, made, computations)
        self._known: dict[tuple[str, Size, Size], Size] = {}

    # --- sizes ------------------------------------------------------------------------------------------------------

    def scalar_of(self, size: Size) -> Instruction:
        """A size as an s32 scalar."""
        return self.scalar("s32", size) if isinstance(size, int) else size

    def size_of(self, scalar: Instruction) -> Size:
        """An s32 scalar as a size."""
        return scalar if scalar.number is None else int(scalar.number)

    def _size(self, opcode: str, a: Size, b: Size, fold: Callable[[int, int], int]) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return fold(a, b)
        key = (opcode, a, b)
        if key not in self._known:
            self._known[key] = self.binary(opcode, self.scalar_of(a), self.scalar_of(b))
        return self._known[key]

    def plus(self, a: Size, b: Size) -> Size:
        return a if b == 0 else b if a == 0 else self._size("add", a, b, lambda p, q: p + q)

    def minus(self, a: Size, b: Size) -> Size:
        return a if b == 0 else self._size("subtract", a, b, lambda p, q: p - q)

    def times(self, a: Size, b: Size) -> Size:
        return a if b == 1 else b if a == 1 else self._size("multiply", a, b, lambda p, q: p * q)

    def over(self, a: Size, b: Size) -> Size:
        """The quotient, rounded towards zero; 0 by 0."""
        if b == 1:
            return a
        return self._size("divide", a, b if isinstance(b, int) else self.most(b, 1), _quotient)

    def least(self, a: Size, b: Size) -> Size:
        return a if a is b else self._size("minimum", a, b, min)

    def most(self, a: Size, b: Size) -> Size:
        return a if a is b else self._size("maximum", a, b, max)

    def clamped(self, a: Size, bound: int) -> Size:
        """A size that was computed, brought between 0 and the bound."""
        return self.least(self.most(a, 0), bound)

    def product(self, sizes: Iterable[Size]) -> Size:
        total: Size = 1
        for size in sizes:
            total = self.times(total, size)
        return total

    def places(self, size: Size, window: WindowDimension) -> Size:
        """Returns the number of places that a window has along a dimension."""
        extent = self.most(self.plus(self.times(self.minus(size, 1), window.base_dilation), 1), 0)
        room = self.plus(
            extent, window.padding_low + window.padding_high - dilated(window.size, window.window_dilation)
        )
        return self.most(self.over(self.plus(room, window.stride), window.stride), 0)

    def agreed(self, sizes: Iterable[Size], bound: int) -> Size:
        """The size along a dimension of several arrays that are used together: they should agree, and if not, the least
        counts."""
        result: Size = bound
        for size in sizes:
            result = size if is_known(result, bound) else result if is_known(size, bound) else self.least(result, size)
        return result

    def common(self, sizes: Iterable[Size], bound: int) -> Size:
        """The size along a dimension in which arrays go together element by element: one element goes with any number
        of others."""
        result: Size = bound
        for size in sizes:
            if is_known(size, bound):
                continue
            if is_known(result, bound):
                result = size
            elif result is not size:
                result = self._stretched(result, size)
        return result

    def _stretched(self, a: Size, b: Size) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return b if a == 1 else a if b == 1 else min(a, b)
        p, q = self.scalar_of(a), self.scalar_of(b)
        return self.select(
            self.compare("EQ", p, 1), q, self.select(self.compare("EQ", q, 1), p, self.binary("minimum", p, q))
        )

    # --- values -----------------------------------------------------------------------------------------------------

    def clone(self, x: Instruction, operands: Sequence[Instruction] | None = None, **changes: Any) -> Instruction:
        """Returns a copy of the instruction, with a static result."""
        return super().clone(x, operands, **{"shape": static(x.shape)} | changes)

    def kept(self, x: Instruction, extent: Extent) -> Padded:
        """The instruction in its place, made static."""
        x.shape = static(x.shape) if x.shape.is_dynamic else x.shape
        return Padded(self.keep(x), extent)

    def live(self, dims: Index, sizes: Sequence[Size], only: Iterable[int] | None = None) -> Instruction | None:
        """Returns a mask of the elements of an array that count, by the dimensions of `only`; None if all of them
        do."""
        result = None
        for d in range(len(dims)) if only is None else only:
            if is_known(sizes[d], dims[d]):
                continue
            inside = self.compare("LT", self.iota("s32", dims, d), self.scalar_of(sizes[d]))
            result = inside if result is None else self.binary("and", result, inside)
        return result

    def masked(
        self, a: Instruction, sizes: Sequence[Size], value: complex, only: Iterable[int] | None = None
    ) -> Instruction:
        """The array with a number in the places that do not count."""
        live = self.live(a.shape.dimensions, sizes, only)
        if live is None:
            return a
        if a.shape.element_type == "f8e8m0fnu" and value == 0:
            raise UnsupportedError(f"{self.x.where}: a dynamic dimension of f8e8m0fnu, which has no zero")
        return self.select(live, a, self.full(a.shape.element_type, a.shape.dimensions, value))

    def take(self, flat: Instruction, address: Instruction) -> Instruction:
        """The elements of a vector at an array of places."""
        numbers = GatherDimensionNumbers((), (0,), (0,), address.shape.rank)
        return self.op("gather", flat, address, gather_dimension_numbers=numbers, slice_sizes=(1,))

    def refuse(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"{self.x.where}: {why}")


def is_whole(shape: Shape, extent: Extent) -> bool:
    """Returns True if all of a value counts."""
    if shape.is_tuple:
        return all(map(is_whole, shape.tuple_shapes, extent))
    return all(map(is_known, extent, shape.dimensions))


def is_known(size: Size, value: int) -> bool:
    """Returns True if the size is surely this number."""
    return isinstance(size, int) and size == value
