"""The base of `XlaBuilder`: operands that belong to it, broadcasts between them, and errors that name the caller's
line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

from ..errors import ArgumentError, VerifyError, XlaWasmError, counted
from ..hlo.attrs import PrecisionConfig, ReplicaGroups, WindowDimension
from ..hlo.infer import brief, dilated, flags
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Shape
from .computation import Builder

Values = Instruction | Sequence[Instruction]
"""One value or several."""
Padding = str | Sequence[tuple[int, int]]
"""The padding of a window: SAME, VALID, or (low, high) for each dimension."""
Groups = ReplicaGroups | Sequence[Sequence[int]]
Precision = PrecisionConfig | str | None
"""A precision for all operands (DEFAULT, HIGH, HIGHEST), or one for each."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def located(method: _Method) -> _Method:
    """The method with the file and line of its caller put before the message of every error of this package."""

    @wraps(method)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return method(*args, **keywords)
        except XlaWasmError as error:
            caller = sys._getframe(1)
            if caller.f_globals.get("__package__") == __package__:
                raise  # one operation made another: the line to name is further out
            raise type(error)(f"{caller.f_code.co_filename}:{caller.f_lineno}: {error}") from None

    return call  # type: ignore[return-value]


class Core(Builder):
    """A Builder that knows its own values. Methods whose names begin with a capital, in subclasses, are `located`."""

    def __init__(self, name: str):
        super().__init__(name)
        self._own: set[Instruction] = set()
        self._numbers: set[int] = set()

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            if name[0].isupper() and callable(method):
                method.__name__ = name
                setattr(cls, name, located(method))

    def op(
        self,
        opcode: str,
        *operands: Instruction,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        name: str = "",
        **attrs: Any,
    ) -> Instruction:
        """As `Builder.op`, for values of this builder only."""
        self._check(opcode, operands)
        made = super().op(opcode, *operands, called=called, shape=shape, name=name, **attrs)
        self._own.add(made)
        return made

    def _check(self, what: str, operands: Iterable[Instruction]) -> None:
        for operand in operands:
            if not isinstance(operand, Instruction):
                raise ArgumentError(
                    f"{what}: operand {operand!r} is no value of a builder; Constant makes one of a number"
                )
            if operand not in self._own:
                raise VerifyError(f"{what}: its operand '{operand.name}' was not made by the builder of '{self.name}'")

    def _several(self, values: Values) -> list[Instruction]:
        return [values] if isinstance(values, Instruction) else [*values]

    def _elements(self, values: Values) -> list[Instruction]:
        """The values, or the elements of the only one if it is a tuple."""
        several = self._several(values)
        if len(several) == 1 and several[0].shape.is_tuple:
            return [self.get_tuple_element(several[0], index) for index in range(len(several[0].shape.tuple_shapes))]
        return several

    def _array(self, what: str, x: Instruction) -> Shape:
        """The shape of an operand, which must be an array of this builder."""
        self._check(what, [x])
        if not x.shape.is_array:
            raise VerifyError(f"{what}: operand '{x.name}' must be an array, not {brief(x.shape)}")
        return x.shape

    def _matched(
        self, what: str, lhs: Instruction, rhs: Instruction, broadcast_dimensions: Iterable[int] = ()
    ) -> tuple[Instruction, Instruction]:
        """Both operands, broadcast to one shape: a scalar to any, a dimension of size 1 to any size, a lower rank by
        the dimensions of the higher one that its own become."""
        a, b = self._array(what, lhs), self._array(what, rhs)
        small, large = (a, b) if a.rank <= b.rank else (b, a)
        given = tuple(broadcast_dimensions)
        dims = given if small.rank < large.rank else tuple(range(large.rank))
        if given and given != dims:
            raise VerifyError(
                f"{what}: broadcast_dimensions {given} of operands of equal rank: {brief(a)} and {brief(b)}"
            )
        if len(dims) != small.rank:
            hint = (
                f"needs broadcast_dimensions, one for each dimension of {brief(small)}"
                if not given
                else f"cannot use {given}"
            )
            raise VerifyError(f"{what}: {brief(a)} and {brief(b)} differ in rank, which {hint}")
        if any(not 0 <= d < large.rank for d in dims) or any(p >= q for p, q in zip(dims, dims[1:])):
            raise VerifyError(f"{what}: broadcast_dimensions {given} are not increasing dimensions of {brief(large)}")
        sizes = list(large.dimensions)
        for d, size in zip(dims, small.dimensions):
            if size != sizes[d] and 1 not in (size, sizes[d]):
                raise VerifyError(
                    f"{what}: the operands' sizes differ: {brief(a)} and {brief(b)} in dimension {d} of the result"
                )
            sizes[d] = size if sizes[d] == 1 else sizes[d]
        whole = tuple(range(large.rank))
        first, second = (dims, whole) if small is a else (whole, dims)
        return self._stretched(lhs, sizes, first), self._stretched(rhs, sizes, second)

    def _stretched(self, x: Instruction, sizes: Sequence[int], dims: Sequence[int]) -> Instruction:
        """`x` broadcast to `sizes`, its dimension i becoming `dims[i]`; a dimension of size 1 there grows."""
        shape, dynamic = x.shape, flags(x.shape)
        if shape.dimensions == (*sizes,) and [*dims] == [*range(len(sizes))]:
            return x
        kept = [i for i, d in enumerate(dims) if shape.dimensions[i] == sizes[d]]
        if len(kept) < shape.rank:
            part = bounded(shape.element_type, [shape.dimensions[i] for i in kept], [dynamic[i] for i in kept])
            x = self.op("reshape", x, shape=part)
        there = {dims[i]: dynamic[i] for i in kept}
        target = bounded(shape.element_type, sizes, [there.get(d, False) for d in range(len(sizes))])
        return self.op("broadcast", x, shape=target, dimensions=tuple(dims[i] for i in kept))

    def _typed(self, opcode: str, *operands: Instruction, element_type: str | None, **attrs: Any) -> Instruction:
        """An instruction whose result is to have another element type than the inferred one."""
        if not element_type:
            return self.op(opcode, *operands, **attrs)
        self._check(opcode, operands)
        shape = Builder(self.name).op(opcode, *operands, **attrs).shape.with_element_type(element_type)
        return self.op(opcode, *operands, shape=shape, **attrs)

    def _window(
        self,
        what: str,
        base: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None,
        padding: Padding,
        base_dilations: Sequence[int] | None = None,
        window_dilations: Sequence[int] | None = None,
        reversal: Sequence[bool] | None = None,
    ) -> tuple[WindowDimension, ...]:
        """The dimensions of a window over `base`; what is None is 1 (False) everywhere."""
        rank = len(base)
        given: list[tuple[str, Sequence[Any]]] = [("window sizes", sizes)]
        for name, numbers in (
            ("strides", strides),
            ("base dilations", base_dilations),
            ("window dilations", window_dilations),
        ):
            given.append((name, (1,) * rank if not numbers else numbers))
        given.append(("reversals", (False,) * rank if not reversal else reversal))
        if not isinstance(padding, str):
            given.append(("paddings", padding))
        for name, values in given:
            if len(values) != rank:
                raise VerifyError(
                    f"{what}: {counted(len(values), name.removesuffix('s'))} for {counted(rank, 'dimension')}"
                )
        window, stride, base_dilation, window_dilation, flip = (values for _, values in given[:5])
        for name, values in given[:4]:
            if any(value < 1 for value in values):
                raise VerifyError(f"{what}: {name} must be positive, not {(*values,)}")
        pads = padding
        if isinstance(pads, str):
            extents = [
                (dilated(b, db), dilated(w, dw), s)
                for b, db, w, dw, s in zip(base, base_dilation, window, window_dilation, stride)
            ]
            pads = [_pads(what, pads, *extent) for extent in extents]
        return tuple(
            WindowDimension(w, s, low, high, dw, db, bool(f))
            for w, s, (low, high), dw, db, f in zip(window, stride, pads, window_dilation, base_dilation, flip)
        )


def _pads(what: str, padding: str, base: int, window: int, stride: int) -> tuple[int, int]:
    """(low, high) by name: SAME makes as many places as strides fit into the base, VALID adds nothing."""
    if padding.upper() == "VALID":
        return 0, 0
    if padding.upper() != "SAME":
        raise VerifyError(f"{what}: padding must be SAME, VALID or pairs, not {padding!r}")
    total = max((-(-base // stride) - 1) * stride + window - base, 0)
    return total // 2, total - total // 2


def bounded(element_type: str, sizes: Sequence[int], dynamic: Sequence[bool]) -> Shape:
    """An array of these sizes, of which some may be dynamic."""
    return Shape(element_type, (*sizes,), None, (*dynamic,) if any(dynamic) else ())


def precision(config: Precision, operands: int = 2) -> PrecisionConfig:
    """The attribute precision_config."""
    if isinstance(config, PrecisionConfig):
        return config
    return PrecisionConfig((config.lower(),) * operands if config else ())


def groups(given: Groups) -> ReplicaGroups:
    """The attribute replica_groups."""
    return given if isinstance(given, ReplicaGroups) else ReplicaGroups(tuple(tuple(group) for group in given))
