"""One computation being made: the values of its operations, and what it takes from around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ParseError, UnsupportedError, VerifyError, counted
from ..hlo.infer import flags
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Shape
from ..hlo.shardy import SHARDING
from ..hlo.types import REAL_OF
from ..mlir.elements import hlo_type
from ..mlir.text_of import attribute_text
from ..mlir.tree import Block, MeshGroups, Op, Tensor, Type, Value
from ..mlir.values import Attributes, where
from ..ops.elementwise.stablehlo import COMPLEX
from ..ops.indexing.stablehlo_inside import inside_sizes
from ..ops.stablehlo import Mapper
from ..ops.table import OPS
from .arguments import frontend_attributes, sharding
from .fold import Folder, Ranges, exact
from .program import Program
from .quantized import has_quantized, quantized_operation
from .rules import RULES, attributes_of, plan_of

_RETURNS = ("func.return", "stablehlo.return", "sdy.return", "mhlo.return")
_MARKS = ("mhlo.", "sdy.")
_ACROSS = 16
"""Elements of an array of integers that is written anew in a region instead of being handed in."""


_SIZES = frozenset(
    "tuple get-tuple-element while call conditional opt-barrier after-all custom-call get-dimension-size "
    "set-dimension-size dynamic-reshape infeed outfeed send send-done recv recv-done".split()
)
"""Opcodes that say themselves which dimensions are dynamic."""


_SMALLER: tuple[Callable[[int], int], ...] = (
    lambda size: max(size - 1, 0),
    lambda size: size // 2,
    lambda size: min(size, 1),
    lambda _: 0,
)
"""Sizes below a bound. The first has to be possible; a window with a stride may see no difference yet."""


class Body(Mapper):
    """The values of one block, and the instructions written for them."""

    def __init__(self, program: Program, outer: Body | None = None):
        super().__init__(Instruction("", "", Shape("token")), [], program.computations)
        self.program, self.outer = program, outer
        self.values: dict[Value, Instruction] = {}
        self.folder = Folder(program.least_sizes, program.ranges)

    # --- values -------------------------------------------------------------------------------------------------

    def parameter(self, value: Value, shape: Shape, number: int, given: Attributes) -> Instruction:
        """The parameter that an argument of the block is."""
        made = self.op("parameter", shape=shape, parameter_number=number)
        made.metadata = self.program.metadata_of_name(value.name)
        self._mark(made, given)
        if "mhlo.parameter_replication" in given:
            made.attrs["parameter_replication"] = tuple([bool(v) for v in given["mhlo.parameter_replication"]])
        self.values[value] = made
        return made

    def know(self, value: Value, ranges: Ranges) -> None:
        """Takes note of the integers that an argument has: a constant stands for it, if they are known, else its
        parameter."""
        parameter, values = self.values[value], exact(ranges)
        if values is None:
            self.program.ranges[parameter] = ranges
        else:
            self.values[value] = self.constant(parameter.shape.element_type, values, parameter.shape.dimensions)

    def value(self, value: Value) -> Instruction:
        """The instruction of a value, one from around the region if it is a constant."""
        found = self.values.get(value)
        if found is None:
            found = self._cloned(value)
            if found is None:
                raise UnsupportedError(f"{self.program.here}: its region uses a value from outside that is no constant")
            self.values[value] = found
        return found

    def _cloned(self, value: Value) -> Instruction | None:
        """A constant from around the region written anew; None if the value is none."""
        source, body = None, self.outer
        while body is not None and source is None:
            source = body.values.get(value)
            if source is None:
                body = body.outer
        if source is None or body is None:
            raise ParseError(f"{self.program.here}: a value is used before it is defined")
        return self.again_here(body, source)

    def again_here(self, body: Body, source: Instruction) -> Instruction | None:
        """An instruction of another body written anew, if it is a constant, perhaps spread, or integers that sizes
        make."""
        if source.opcode == "constant":
            return self.keep(source.on([]))
        if source.opcode == "broadcast" and source.operands[0].opcode == "constant":
            return self.keep(source.on([self.keep(source.operands[0].on([]))]))
        if self.program.open_sizes and source.shape.is_array and source.shape.size <= _ACROSS:
            known = body.integers(source)
            if known is not None:
                return self.constant(source.shape.element_type, known, source.shape.dimensions)
        return None

    def constant_from_outside(self, value: Value) -> bool:
        """Returns True if a value from around a region can be written anew in it."""
        probe = Body(self.program, self)
        return probe._cloned(value) is not None

    # --- blocks -------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> list[Instruction]:
        """Writes the operations of a block; what it returns."""
        if not block.ops:
            raise ParseError(f"{self.program.here}: a block must end in a return; this one is empty")
        *ops, last = block.ops
        if last.name not in _RETURNS:
            raise ParseError(f"StableHLO: a block must end in a return, not in {where(last)}")
        program = self.program
        for op in ops:
            program.at = op
            self._write(op)
        program.at = last
        return [self.value(o) for o in last.operands]

    def _write(self, op: Op) -> None:
        values, x = self.values, self.x
        operands = []
        for o in op.operands:
            found = values.get(o)
            operands.append(self.value(o) if found is None else found)
        x.name, x.metadata = op.name, self.program.metadata(op.location)
        mark = len(self.made)
        made = (
            quantized_operation(self, op, operands)
            if has_quantized(op)
            else self.simple(op.name, op, op.attributes, operands)
        )
        if len(made) != len(op.results):
            raise ParseError(
                f"StableHLO: {where(op)}: it has {counted(len(op.results), 'result')} where {len(made)} are expected"
            )
        values.update(zip(op.results, made))
        if (
            op.attributes
            and any(key.startswith(_MARKS) for key in op.attributes)
            and op.name not in self.program.control
        ):
            for instruction in self.made[mark:]:
                if instruction.opcode not in ("constant", "get-tuple-element"):
                    self._mark(instruction, op.attributes)

    def simple(self, name: str, op: Op, given: Attributes, operands: list[Instruction]) -> list[Instruction]:
        rule = RULES.get(name) or self.program.control.get(name)
        if rule is None and operands and operands[0].shape.element_type in REAL_OF:
            rule = COMPLEX.get(name)
        if rule is not None:
            return rule(self, op, operands)
        plan = plan_of(name)
        if plan is not None:
            return self._planned(plan, op, given, operands)
        raise UnsupportedError(f"StableHLO: {where(op)}: the operation {name} is not supported")

    def _planned(self, plan: Any, op: Op, given: Attributes, operands: list[Instruction]) -> list[Instruction]:
        """One instruction with the same operands."""
        called = [self.region(op, i) for i in range(plan.called)] if plan.called else []
        if isinstance(given.get("replica_groups"), MeshGroups):
            given = {**given, "replica_groups": self.program.groups(given["replica_groups"])}
        attributes = attributes_of(plan, given, operands) if plan.attributes else dict(plan.defaults)
        shape = self.result_shape(op)
        if shape is None:
            dtype = self._element_type(op)
            made = self.op(plan.opcode, *operands, called=called, dtype=dtype, **attributes)
        else:
            operands = inside_sizes(self, plan.opcode, operands, attributes)
            made = Instruction("", plan.opcode, shape, operands, attributes, called, self.x.metadata)
            self.made.append(made)
        return [made] if len(op.results) == 1 else self.elements(made)

    def _element_type(self, op: Op) -> str:
        """The element type of a result whose sizes are inferred."""
        kind = op.results[0].type if len(op.results) == 1 else None
        return (hlo_type(kind.element) or "") if isinstance(kind, Tensor) else ""

    def _mark(self, made: Instruction, given: Attributes) -> None:
        if not given:
            return
        found = frontend_attributes(given)
        if found:
            made.frontend_attributes = {**made.frontend_attributes, **found}
        mark = sharding(given)
        if mark is not None:
            made.attrs["sharding"] = mark

    def op(
        self,
        opcode: str,
        *operands: Instruction,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        dtype: str = "",
        **attrs: Any,
    ) -> Instruction:
        if self.program.open_sizes:
            operands = tuple(inside_sizes(self, opcode, operands, attrs))
        made = super().op(opcode, *operands, called=called, shape=shape, dtype=dtype, **attrs)
        if (
            shape is None
            and self.program.open_sizes
            and opcode not in _SIZES
            and any(o.shape.is_dynamic for o in operands)
        ):
            made.shape = self._with_dynamic(made)
        return made

    def _with_dynamic(self, made: Instruction) -> Shape:
        """The shape that is inferred, dynamic where it follows dynamic dimensions of the operands: where smaller ones
        make it smaller."""
        at_most = self._inferred(made, lambda size: size)
        dynamic = [[False] * shape.rank for shape in at_most]
        for number, smaller in enumerate(_SMALLER):
            try:
                leaves = self._inferred(made, smaller)
            except VerifyError as error:
                if number:
                    continue  # what is that small the program excludes
                raise UnsupportedError(
                    f"{self.program.here}: with sizes that only a run knows it is not supported ({error})"
                ) from None
            for marks, high, low in zip(dynamic, at_most, leaves, strict=True):
                marks[:] = [mark or a != b for mark, a, b in zip(marks, high.dimensions, low.dimensions)]
        found = [
            Shape(s.element_type, s.dimensions, None, tuple(m) if any(m) else ()) for s, m in zip(at_most, dynamic)
        ]
        return made.shape.with_leaves(iter(found))

    def _inferred(self, made: Instruction, sized: Callable[[int], int]) -> list[Shape]:
        """The shapes of the results where each dynamic dimension of the operands has a size that its bound gives."""
        infer = OPS[made.opcode].infer
        assert infer is not None
        operands = []
        for o in made.operands:
            sizes = tuple([sized(size) if flag else size for size, flag in zip(o.shape.dimensions, flags(o.shape))])
            operands.append(
                Instruction(o.name, "parameter", Shape(o.shape.element_type, sizes) if o.shape.is_array else o.shape)
            )
        element = Shape("opaque") if made.shape.is_tuple else Shape(made.shape.element_type)
        shape = infer(Instruction(made.name, made.opcode, element, operands, made.attrs, made.called, made.metadata))
        return [leaf for _, leaf in shape.leaves()]

    # --- results ------------------------------------------------------------------------------------------------

    def finished(self, name: str, roots: Sequence[Instruction]) -> Computation:
        """The computation with these results: a tuple if they are not one."""
        root = roots[0] if len(roots) == 1 else self.op("tuple", *roots)
        made = Computation(name, self.made, root)
        self.computations.append(made)
        return made

    def asked(self, root: Instruction, given: Attributes) -> Instruction:
        """A result, marked with the sharding that the caller asks for."""
        if "sdy.sharding" not in given:
            return root
        made = self.op("custom-call", root, shape=root.shape, custom_call_target="xla.sdy.FuncResultSharding")
        made.attrs["custom_call_has_side_effect"] = True
        made.frontend_attributes = {SHARDING: attribute_text(given["sdy.sharding"])}
        return made

    def marked_root(self, root: Instruction, mark: bytes) -> Instruction:
        """The root with a sharding, which is not that of an operation."""
        if not root.shape.is_tuple:
            root = super().op("get-tuple-element", self.op("tuple", root), index=0)
        root.attrs["sharding"] = mark
        return root

    # --- what rules ask for -------------------------------------------------------------------------------------

    def declared(self, kind: Type) -> Shape | None:
        return self.program.declared(kind)

    def integers(self, x: Instruction) -> tuple[int, ...] | None:
        return exact(self.folder.ranges(x))

    def ranges(self, x: Instruction) -> Ranges | None:
        return self.folder.ranges(x)

    def region(self, op: Op, index: int = 0) -> Computation:
        block, inner = self.program.block_of(op, index), Body(self.program, self)
        self.program.enter(op.name)
        for number, value in enumerate(block.arguments):
            shape = self.declared(value.type)
            if shape is None:
                raise UnsupportedError(f"StableHLO: {where(op)}: an argument of its region has open sizes")
            inner.x.metadata = self.x.metadata
            inner.parameter(value, shape, number, {})
        made = inner.finished(f"region_{op.name.rpartition('.')[2]}", inner.block(block))
        self.program.leave()
        self.program.at = op
        return made

    def call(self, name: str, operands: Sequence[Instruction]) -> Instruction:
        op = self.program.at
        computation = self.program.called(name, operands, self.ranges)
        self.program.at = op
        return self.op("call", *operands, called=[computation], shape=computation.root.shape)

    def function(self, name: str) -> Computation:
        op = self.program.at
        computation = self.program.function(name)
        self.program.at = op
        return computation
