"""Computes with small floats (f16, bf16 and all of at most 8 bits) in f32: what stays of them is stored, moved and converted.

An operation on them becomes one on f32 between conversions, so that its result is rounded once. So do the operations in the
computation of a reduction: each of its steps rounds. Products accumulate in f32, and so do running sums and what takes one
of its operands, which rounds nothing: there only what comes out at the end is rounded, if at all.

The pass runs before operations are expanded, for an expansion should round no more often than the operation that it stands
for, and again after it, for what expansions made.
"""

from __future__ import annotations

from typing import Any

from ..dataclass import dataclass, field
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.literal import Literal
from ..hlo.shape import Shape
from ..hlo.types import THROUGH_F16
from ..loop.small_floats import SMALL_FLOATS
from ..ops.elementwise.record import OPS as _ELEMENTWISE
from ..ops.window.cumulative import cumulative
from .clone import copy_instruction

_MOVING = ("convert", "bitcast-convert", "copy", "select", "real", "imag", "stochastic-convert", "reduce-precision", "iota", "constant")
"""The elementwise operations that take the elements of small floats as they are."""

_COMPUTING = frozenset(
    (
        *(op.opcode for op in _ELEMENTWISE if op.opcode not in _MOVING),
        *("dot", "ragged-dot", "scaled-dot", "convolution", "cholesky", "triangular-solve", "rng"),
        *("batch-norm-training", "batch-norm-inference", "batch-norm-grad"),
    )
)

_ACCUMULATING = frozenset(("reduce", "reduce-window", "select-and-scatter"))

_FOLDING = frozenset(("all-reduce", "all-reduce-start", "reduce-scatter"))
"""What devices combine travels as it is, so that only the computation is one on f32; the expansion converts what comes in."""

_EXACT = frozenset((*_MOVING, "maximum", "minimum", "abs", "negate", "sign", "clamp", "compare", "is-finite"))
"""Operations whose result needs no rounding."""

_OF_BITS = ("convert", "bitcast-convert", "reduce-precision")
"""Operations whose result depends on which type an operand is."""


def widen(module: Module) -> None:
    """Leaves no instruction that computes with small floats."""
    if not any(_small(shape) for x in module.instructions() for _, shape in x.shape.leaves()):
        return
    rewriting = _Rewriting({c: (c.instructions, c.root) for c in module.computations})
    for computation in module.computations:
        body = _Body(rewriting)
        for x in computation.instructions:
            body.rounded(x)
        computation.root = body.value[computation.root]
        computation.instructions = body.instructions
        rewriting.done.append(computation)
    module.computations = rewriting.done


def _small(shape: Shape) -> bool:
    return shape.element_type in SMALL_FLOATS


def _wide_shape(shape: Shape) -> Shape:
    if shape.is_tuple:
        return Shape.tuple([_wide_shape(s) for s in shape.tuple_shapes])
    return shape.with_element_type("f32").without_layout() if _small(shape) else shape


def _has_small(shape: Shape) -> bool:
    return any(_small(leaf) for _, leaf in shape.leaves())


def _widened_by_xla(x: Instruction) -> bool:
    """Whether XLA:CPU has the bf16 operands of a product as f32 before it comes to rounding the operations that make them.

    It does where its libraries do not take them as they are: at least where the left side is not contracted along its last dimension.
    """
    if x.opcode != "dot" or x.shape.element_type != "f32":
        return False
    left: tuple[int, ...] = x.attrs["dot_dimension_numbers"].lhs_contracting_dimensions
    return left != (x.operands[0].shape.rank - 1,)


@dataclass(slots=True)
class _Rewriting:
    """One run of the pass: the computations as they were, those on f32 that stand for them, and all that are done, in order."""

    before: dict[Computation, tuple[list[Instruction], Instruction]]
    on_f32: dict[tuple[Computation, bool], Computation] = field(default_factory=dict)
    done: list[Computation] = field(default_factory=list)


class _Body:
    """A computation while it is rewritten: what stands for each of its values as it is typed, and what for it in f32."""

    def __init__(self, rewriting: _Rewriting):
        self.rewriting = rewriting
        self.instructions: list[Instruction] = []
        self.value: dict[Instruction, Instruction] = {}
        self.wide: dict[Instruction, Instruction] = {}
        self.unrounded: dict[Instruction, Instruction] = {}
        """The results of computing in bf16 as they were in f32, and of 8 bits in f16: converting them to that gives these, as in XLA."""

    def emit(self, x: Instruction, opcode: str, shape: Shape, operands: list[Instruction], **attrs: Any) -> Instruction:
        """A new instruction that comes of `x`."""
        made = Instruction(f"{x.name}.{opcode}", opcode, shape, operands, attrs, [], x.metadata)
        self.instructions.append(made)
        return made

    def converted(self, x: Instruction, value: Instruction, dtype: str) -> Instruction:
        return self.emit(x, "convert", value.shape.with_element_type(dtype).without_layout(), [value])

    def as_is(self, x: Instruction) -> Instruction:
        """What stands for `x`, in its own type."""
        if x not in self.value:
            self.value[x] = self.in_types_of(x, self.wide[x], x.shape)
        return self.value[x]

    def as_wide(self, x: Instruction) -> Instruction:
        """What stands for `x`, small floats in it being f32."""
        if x not in self.wide:
            self.wide[x] = self.in_types_of(x, self.value[x], _wide_shape(x.shape))
        return self.wide[x]

    def in_types_of(self, x: Instruction, value: Instruction, shape: Shape) -> Instruction:
        """A value with its leaves converted to the types of `shape`."""
        if shape.is_tuple:
            if [s.element_type for _, s in shape.leaves()] == [s.element_type for _, s in value.shape.leaves()]:
                return value
            parts = []
            for i, wanted in enumerate(shape.tuple_shapes):
                part = self.emit(x, "get-tuple-element", value.shape.tuple_shapes[i], [value], index=i)
                parts.append(self.in_types_of(x, part, wanted))
            return self.emit(x, "tuple", Shape.tuple([p.shape for p in parts]), parts)
        if shape.element_type == value.shape.element_type:
            return value
        if shape.element_type in THROUGH_F16 and value.shape.element_type == "f32":
            value = self.converted(x, value, "f16")
        return self.converted(x, value, shape.element_type)

    # --- every result rounded -----------------------------------------------------------------------------------

    def rounded(self, x: Instruction) -> None:
        """Rewrites `x` such that its value is what it was in its type."""
        touched = _has_small(x.shape) or any(_has_small(o.shape) for o in x.operands)
        if touched and (x.opcode in _COMPUTING or x.opcode in _ACCUMULATING):
            widened = _widened_by_xla(x)
            y = copy_instruction(x, [self.in_f32_as_made(o) if widened else self.as_wide(o) for o in x.operands])
            y.shape = _wide_shape(x.shape)
            y.called = [self.on_f32(c, x.opcode in _ACCUMULATING and not self.running(x)) for c in x.called]
            self.instructions.append(y)
            self.value[x] = self.in_types_of(x, y, x.shape)
            if x.opcode in _COMPUTING and x.shape.is_array:
                if x.shape.element_type == "bf16":
                    self.unrounded[x] = y
                elif x.shape.element_type in THROUGH_F16:
                    self.unrounded[x] = self.value[x].operands[0]
            return
        if x.opcode == "convert":
            made = self.unrounded.get(x.operands[0])
            if made is not None and made.shape.element_type == x.shape.element_type:
                self.value[x] = made
                return
        operands = [self.as_is(o) for o in x.operands]
        # What is on f32 elsewhere is made from the instruction as it was.
        y = x if operands == x.operands and x.opcode not in _FOLDING else copy_instruction(x, operands)
        if x.opcode in _FOLDING:
            y.called = [self.on_f32(c) for c in x.called]
        self.value[x] = y
        if x.opcode == "reduce-precision" and touched and x.shape.element_type not in ("f16", "bf16"):
            self.value[x] = self.reduced(y)
        else:
            self.instructions.append(y)

    def in_f32_as_made(self, x: Instruction) -> Instruction:
        """A value in f32, without the rounding of what made it."""
        made = self.unrounded.get(x)
        return made if made is not None and made.shape.element_type == "f32" else self.as_wide(x)

    def running(self, x: Instruction) -> bool:
        """Whether a reduction is one of running sums and the like, of which each result rounds once."""
        return x.opcode == "reduce-window" and cumulative(x) is not None

    def reduced(self, x: Instruction) -> Instruction:
        """The bits of the narrowest types are reduced as those of f16, of which all but the powers of two are part."""
        dtype = x.shape.element_type
        between = self.converted(x, x.operands[0], "f32" if dtype == "f8e8m0fnu" else "f16")
        y = copy_instruction(x, [between])
        y.shape = between.shape
        self.instructions.append(y)
        return self.converted(x, y, dtype)

    # --- parameters and results in f32 --------------------------------------------------------------------------

    def on_f32(self, computation: Computation, rounding: bool = False) -> Computation:
        """The same computation with f32 in the place of small floats, its parameters included; `rounding` what it makes, or not."""
        instructions, root = self.rewriting.before[computation]
        if not any(_has_small(x.shape) for x in instructions):
            return computation
        found = self.rewriting.on_f32.get((computation, rounding))
        if found is None:
            body = _Body(self.rewriting)
            for x in instructions:
                body.on_wide(x, rounding)
            found = Computation(f"{computation.name}.{'rounded' if rounding else 'f32'}", body.instructions, body.as_wide(root))
            self.rewriting.on_f32[computation, rounding] = found
            self.rewriting.done.append(found)
        return found

    def on_wide(self, x: Instruction, rounding: bool) -> None:
        """Puts f32 in the place of the small floats that `x` computes, rounded or as they are; what asks for a rounding gets it."""
        if x.opcode == "constant" and _small(x.shape):
            shape = _wide_shape(x.shape)
            y = Instruction(x.name, "constant", shape, [], {"literal": Literal.from_values(shape, x.attrs["literal"].values())})
            self.wide[x] = y
        elif x.opcode in _OF_BITS and (_small(x.shape) or _small(x.operands[0].shape)):
            y = copy_instruction(x, [self.as_is(o) for o in x.operands])
            self.value[x] = y
            if x.opcode == "reduce-precision" and x.shape.element_type not in ("f16", "bf16"):
                self.value[x] = self.reduced(y)
                return
        else:
            y = copy_instruction(x, [self.as_wide(o) for o in x.operands])
            y.shape = _wide_shape(x.shape)
            y.called = [self.on_f32(c, rounding) for c in x.called]
            self.instructions.append(y)
            if rounding and x.opcode in _COMPUTING and x.opcode not in _EXACT:
                self.value[x] = self.in_types_of(x, y, x.shape)
                return
            self.wide[x] = y
            if not _has_small(x.shape):
                self.value[x] = y
            return
        self.instructions.append(y)
