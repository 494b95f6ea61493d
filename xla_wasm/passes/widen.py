"""Computes with small floats (f16, bf16 and all of at most 8 bits) in f32: what stays of them is stored, moved and
converted.

An operation on them becomes one on f32 between conversions, so that its result is rounded once. Products accumulate in
f32, and so do sums and other reductions by one operation: what comes out at the end is rounded. In the computation of
any other reduction each operation rounds.

The pass runs before operations are expanded, for an expansion should round no more often than the operation that it
stands for, and again after it, for what expansions made.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..dataclass import dataclass, field, replace
from ..hlo.attrs import Window
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.literal import Literal
from ..hlo.op import Narrow
from ..hlo.shape import Shape
from ..hlo.types import SMALL_FLOATS, THROUGH_F16
from ..ops.reading import record
from ..ops.reduce.tree import free, step
from ..ops.window.expand import whole
from ..ops.window.prefixes import stepwise
from ..writing.writer import Writer, walk

_COMPUTING = (Narrow.COMPUTED, Narrow.EXACT)


def widen(module: Module) -> None:
    """Leaves no instruction that computes with small floats."""
    if not any(map(_has_small, module.shapes())):
        return
    rewriting = _Rewriting(
        {c: (c.instructions, c.root) for c in module.computations},
        {x for x in module.instructions() if record(x).narrow is Narrow.ACCUMULATED and stepwise(x)},
        {x for x in module.instructions() if x.opcode in ("reduce", "reduce-window") and not free(x)},
    )
    for computation in module.computations:
        body = _Body(rewriting)
        computation.root = walk(computation.instructions, body.rounded, {})[computation.root].typed()
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
    return any(map(_has_small, shape.tuple_shapes)) if shape.is_tuple else _small(shape)


def _widened_by_xla(x: Instruction) -> bool:
    """Returns True if XLA:CPU has the bf16 operands of a product as f32 before it comes to rounding the operations that
    make them.

    It does where its libraries do not take them as they are: at least where the left side is not contracted along its
    last dimension.
    """
    if x.opcode != "dot" or x.shape.element_type != "f32":
        return False
    left: tuple[int, ...] = x.attrs["dot_dimension_numbers"].lhs_contracting_dimensions
    return left != (x.operands[0].shape.rank - 1,)


@dataclass(slots=True)
class _Rewriting:
    """One run of the pass: the computations as they were, and their reductions that round each step or have to be taken
    apart as XLA does it; the computations on f32 that stand for them, and all that are done, in order."""

    before: dict[Computation, tuple[list[Instruction], Instruction]]
    stepwise: set[Instruction]
    apart: set[Instruction]
    on_f32: dict[tuple[Computation, bool], Computation] = field(default_factory=dict)
    done: list[Computation] = field(default_factory=list)


class _Value:
    """The values of an instruction: as it is typed, and in f32. The one is made of the other when it is wanted."""

    def __init__(
        self,
        w: Writer,
        typed: Instruction | None = None,
        wide: Instruction | None = None,
        unrounded: Instruction | None = None,
    ):
        self.w = w
        self._typed = typed
        self._wide = wide
        self.unrounded = unrounded
        """A result of computing in bf16 as it was in f32, and of 8 bits in f16: converting it to that gives this, as in
        XLA."""

    def typed(self) -> Instruction:
        """In its own type."""
        if self._typed is None:
            assert self._wide is not None
            self._typed = _in_types_of(self.w, self._wide, self.w.x.shape)
        return self._typed

    def wide(self) -> Instruction:
        """With f32 in the place of small floats."""
        if self._wide is None:
            assert self._typed is not None
            self._wide = _in_types_of(self.w, self._typed, _wide_shape(self.w.x.shape))
        return self._wide

    def as_made(self) -> Instruction:
        """In f32, without the rounding of what made it."""
        made = self.unrounded
        return made if made is not None and made.shape.element_type == "f32" else self.wide()


def _in_types_of(w: Writer, value: Instruction, shape: Shape) -> Instruction:
    """A value with its leaves converted to the types of `shape`."""
    if shape.is_tuple:
        if [s.element_type for _, s in shape.leaves()] == [s.element_type for _, s in value.shape.leaves()]:
            return value
        return w.tuple([_in_types_of(w, w.element(value, i), wanted) for i, wanted in enumerate(shape.tuple_shapes)])
    if shape.element_type in THROUGH_F16 and value.shape.element_type == "f32":
        value = w.convert(value, "f16")
    return w.convert(value, shape.element_type)


def _in_steps(w: Writer, given: list[Instruction], called: list[Computation]) -> tuple[Instruction, dict[str, Any]]:
    """The first operand of a reduction after all of XLA's steps but the last one, and the attributes that it has then.

    Whether it has them depends on its type, which is wider from here on.
    """
    array, attrs = given[0], dict[str, Any]()
    window = w.x.attrs.get("window")
    reduced = w.x.attrs["dimensions"] if window is None else whole(window.dimensions, array.shape.dimensions)
    while (taken := step(array.shape.dimensions, reduced)) is not None:
        array = w.op("reduce-window", array, given[1], called=called, window=taken)
    if window is not None:
        sizes = zip(window.dimensions, array.shape.dimensions)
        attrs["window"] = Window(tuple(replace(v, size=n) if d in reduced else v for d, (v, n) in enumerate(sizes)))
    return array, attrs


class _Body:
    """A computation while it is rewritten."""

    def __init__(self, rewriting: _Rewriting):
        self.rewriting = rewriting
        self.instructions: list[Instruction] = []

    # --- every result rounded -----------------------------------------------------------------------------------

    def rounded(self, x: Instruction, operands: list[_Value]) -> _Value:
        """Returns the value that replaces `x`: in the type of `x` it is the same as before."""
        w = Writer(x, self.instructions)
        touched = _has_small(x.shape) or any(_has_small(o.shape) for o in x.operands)
        narrow = record(x).narrow
        if touched and (narrow in _COMPUTING or narrow is Narrow.ACCUMULATED):
            return self.computed(w, operands)
        if x.opcode == "convert":
            made = operands[0].unrounded
            if made is not None and made.shape.element_type == x.shape.element_type:
                return _Value(w, made)
        given = [o.typed() for o in operands]
        if touched and _has_few_bits(x):
            return _Value(w, _reduced(w, given[0]))
        if narrow is Narrow.COMBINED:  # what travels is as it is; the expansion converts what comes in
            return _Value(w, w.clone(x, given, called=[self.on_f32(c) for c in x.called]))
        # What is on f32 elsewhere is made from the instruction as it was.
        return _Value(w, w.keep(x) if given == x.operands else w.clone(x, given))

    def computed(self, w: Writer, operands: list[_Value]) -> _Value:
        """Computes in f32 and rounds once; a reduction that is `stepwise` each step."""
        x = w.x
        narrow = record(x).narrow
        rounding = x in self.rewriting.stepwise
        given = [o.as_made() if _widened_by_xla(x) else o.wide() for o in operands]
        called = [self.on_f32(c, rounding) for c in x.called]
        attrs: dict[str, Any] = {}
        if x in self.rewriting.apart:
            given[0], attrs = _in_steps(w, given, called)
        wide = w.clone(x, given, shape=_wide_shape(x.shape), called=called, **attrs)
        typed = _in_types_of(w, wide, x.shape)
        if narrow in _COMPUTING and x.shape.element_type == "bf16":
            return _Value(w, typed, unrounded=wide)
        if narrow in _COMPUTING and x.shape.element_type in THROUGH_F16:
            return _Value(w, typed, unrounded=typed.operands[0])
        return _Value(w, typed)

    # --- parameters and results in f32 --------------------------------------------------------------------------

    def on_f32(self, computation: Computation, rounding: bool = False) -> Computation:
        """The same computation with f32 in the place of small floats, its parameters included; `rounding` what it
        makes, or not."""
        instructions, root = self.rewriting.before[computation]
        if not any(_has_small(x.shape) for x in instructions):
            return computation
        found = self.rewriting.on_f32.get((computation, rounding))
        if found is None:
            body = _Body(self.rewriting)
            end = walk(instructions, partial(body.on_wide, rounding), {})[root].wide()
            found = Computation(f"{computation.name}.{'rounded' if rounding else 'f32'}", body.instructions, end)
            self.rewriting.on_f32[computation, rounding] = found
            self.rewriting.done.append(found)
        return found

    def on_wide(self, rounding: bool, x: Instruction, operands: list[_Value]) -> _Value:
        """Returns the value that replaces `x`, with f32 in the place of small floats that it computes, rounded or not.

        An operation whose result depends on the type of its operand gets the operand in that type.
        """
        w = Writer(x, self.instructions)
        if x.literal is not None and _small(x.shape):
            shape = _wide_shape(x.shape)
            literal = Literal.from_values(shape, x.literal.values())
            return _Value(w, wide=w.clone(x, shape=shape, literal=literal))
        if record(x).narrow is Narrow.BITS and (_small(x.shape) or _small(x.operands[0].shape)):
            value = operands[0].typed()
            return _Value(w, _reduced(w, value) if _has_few_bits(x) else w.clone(x, [value]))
        called = [self.on_f32(c, rounding) for c in x.called]
        wide = w.clone(x, [o.wide() for o in operands], shape=_wide_shape(x.shape), called=called)
        if rounding and record(x).narrow is Narrow.COMPUTED:
            return _Value(w, _in_types_of(w, wide, x.shape))
        return _Value(w, None if _has_small(x.shape) else wide, wide)


def _has_few_bits(x: Instruction) -> bool:
    """Returns True if an instruction reduces the precision of one of the narrowest types."""
    return x.opcode == "reduce-precision" and x.shape.element_type not in ("f16", "bf16")


def _reduced(w: Writer, value: Instruction) -> Instruction:
    """The bits of the narrowest types are reduced as those of f16, of which all but the powers of two are part."""
    dtype = value.shape.element_type
    between = w.convert(value, "f32" if dtype == "f8e8m0fnu" else "f16")
    return w.convert(w.clone(w.x, [between], shape=between.shape), dtype)
