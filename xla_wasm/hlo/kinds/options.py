"""Kinds of attributes that only one or two operations have: options, comparisons, literals, aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import ParseError
from ..attrs import ACCURACIES, ALGORITHMS, PRECISIONS, TRANSPOSES, PrecisionConfig, ResultAccuracy, TriangularSolveOptions
from ..literal import Literal
from ..op import REQUIRED
from ..schema import MESSAGES, word
from ..shape import Shape
from ..shape_text import shape_text
from ..types import default_comparison
from ..wire import Buffer, Fields, decode, encode
from .kind import InParts, Kind, Part, braced, known
from .plain import Bytes

if TYPE_CHECKING:
    from ..ir import Instruction
    from ..lexer import Lexer
    from ..parser_shapes import Shapes


class Precision(InParts):
    """PrecisionConfig."""

    type, absent = PrecisionConfig, PrecisionConfig()
    parts = {
        "operand_precision": Part(False, lambda lexer, _: tuple(lexer.listed(lambda: lexer.one_of(PRECISIONS, fold=True)))),
        "algorithm": Part(False, lambda lexer, _: lexer.one_of(ALGORITHMS, fold=True)),
    }

    def decoded(self, value: Buffer) -> PrecisionConfig:
        fields = known("PrecisionConfig", value)
        precisions = tuple(word(PRECISIONS, number) for number in fields.get("operand_precision", ()))
        return PrecisionConfig(precisions, word(ALGORITHMS, fields.get("algorithm", 0)))

    def encoded(self, value: PrecisionConfig) -> bytes:
        numbers = [PRECISIONS.index(name) for name in value.operand_precision]
        return encode(MESSAGES["PrecisionConfig"], {"operand_precision": numbers, "algorithm": ALGORITHMS.index(value.algorithm)})

    def build(self, found: dict[str, Any]) -> PrecisionConfig:
        return PrecisionConfig(**found)

    def print(self, name: str, value: PrecisionConfig, instruction: Instruction) -> str:
        parts = []
        if any(precision != "default" for precision in value.operand_precision):
            parts.append(f"operand_precision={braced(value.operand_precision)}")
        if value.algorithm != "unset":
            parts.append(f"algorithm={value.algorithm}")
        return ", ".join(parts)


class Triangular(InParts):
    """TriangularSolveOptions."""

    type, absent = TriangularSolveOptions, TriangularSolveOptions()
    flags = ("left_side", "lower", "unit_diagonal")
    parts = {
        **dict.fromkeys(flags, Part(False, lambda lexer, _: lexer.boolean())),
        "transpose_a": Part(False, lambda lexer, _: lexer.one_of(TRANSPOSES)),
    }

    def decoded(self, value: Buffer) -> TriangularSolveOptions:
        fields = known("TriangularSolveOptions", value)
        flags = {key: fields.get(key, False) for key in self.flags}
        return TriangularSolveOptions(**flags, transpose_a=word(TRANSPOSES, fields.get("transpose_a", 0)))

    def encoded(self, value: TriangularSolveOptions) -> bytes:
        fields = {key: getattr(value, key) for key in self.flags}
        return encode(MESSAGES["TriangularSolveOptions"], {**fields, "transpose_a": TRANSPOSES.index(value.transpose_a)})

    def build(self, found: dict[str, Any]) -> TriangularSolveOptions:
        return TriangularSolveOptions(**{"transpose_a": TRANSPOSES[0], **found})

    def print(self, name: str, value: TriangularSolveOptions, instruction: Instruction) -> str:
        return ", ".join([*(f"{key}=true" for key in self.flags if getattr(value, key)), f"transpose_a={value.transpose_a}"])


class Accuracy(Kind):
    """ResultAccuracy or None."""

    type, nullable = ResultAccuracy, True

    def decoded(self, value: Buffer) -> ResultAccuracy:
        fields = known("ResultAccuracy", value)
        if "tolerance" in fields:
            tolerance = known("Tolerance", fields["tolerance"])
            return ResultAccuracy("", tolerance.get("atol", 0.0), tolerance.get("rtol", 0.0), tolerance.get("ulps", 0))
        return ResultAccuracy(word(ACCURACIES, fields.get("mode", 0)))

    def encoded(self, value: ResultAccuracy) -> bytes:
        if value.mode:
            return encode(MESSAGES["ResultAccuracy"], {"mode": ACCURACIES.index(value.mode)})
        tolerance = encode(MESSAGES["Tolerance"], {"atol": value.atol, "rtol": value.rtol, "ulps": value.ulps})
        return encode(MESSAGES["ResultAccuracy"], {"tolerance": tolerance})

    def parse(self, lexer: Lexer, shapes: Shapes) -> ResultAccuracy | None:
        begin = lexer.skip()
        lexer.expect("{")
        key = lexer.key("mode= or tolerance=")
        if key == "mode":
            mode = lexer.one_of(ACCURACIES, fold=True)
            lexer.expect("}")
            return ResultAccuracy(mode) if mode != "default" else None
        if key != "tolerance":
            lexer.error(f"result_accuracy has no attribute {key}", begin)
        found: dict[str, Any] = {}
        for key, here in lexer.entries("atol=, rtol=, ulps= or '}'"):
            if key not in ("atol", "rtol", "ulps"):
                lexer.error(f"a tolerance has no attribute {key}", here)
            found[key] = lexer.integer() if key == "ulps" else lexer.number()
        lexer.expect("}")
        return ResultAccuracy("", **found)

    def print(self, name: str, value: ResultAccuracy, instruction: Instruction) -> str:
        if value.mode:
            return f"{name}={{mode={value.mode}}}" if value.mode != "default" else ""
        return f"{name}={{tolerance={{atol={float(value.atol)!r}, rtol={float(value.rtol)!r}, ulps={value.ulps}}}}}"


class Direction(Kind):
    """comparison_direction, a string of the proto."""

    type, absent = str, ""
    words: tuple[str, ...] = ("EQ", "NE", "GE", "GT", "LE", "LT")

    def parse(self, lexer: Lexer, shapes: Shapes) -> str:
        return lexer.one_of(self.words)


class ComparisonType(Direction):
    """comparison_type, which old modules leave to the type of the operand."""

    absent = REQUIRED
    words = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> str:
        return fields.pop(keys[0], "") or self._plain(instruction)

    def print(self, name: str, value: str, instruction: Instruction) -> str:
        return f"{name}={value}" if value and value != self._plain(instruction) else ""

    def _plain(self, instruction: Instruction) -> str:
        """What goes without saying."""
        return default_comparison(instruction.operands[0].shape.element_type) if instruction.operands else ""


class Aliasing(Kind):
    """output_operand_aliasing: a tuple of (output index, operand, operand index)."""

    type, absent = tuple, ()

    def decoded(self, value: list[Buffer]) -> tuple[Any, ...]:
        items = [known("OutputOperandAliasing", d) for d in value]
        return tuple(
            (tuple(f.get("output_shape_index", ())), f.get("operand_index", 0), tuple(f.get("operand_shape_index", ()))) for f in items
        )

    def encoded(self, value: Any) -> list[bytes]:
        message = MESSAGES["OutputOperandAliasing"]
        return [encode(message, {"output_shape_index": o, "operand_index": n, "operand_shape_index": i}) for o, n, i in value]

    def parse(self, lexer: Lexer, shapes: Shapes) -> tuple[Any, ...]:
        """{{out}: (operand, {index}), ...}; the index may be missing."""

        def one() -> tuple[tuple[int, ...], int, tuple[int, ...]]:
            output = tuple(lexer.integers())
            lexer.expect(":")
            lexer.expect("(")
            operand = lexer.integer()
            index = tuple(lexer.integers()) if lexer.take(",") else ()
            lexer.expect(")")
            return output, operand, index

        return tuple(lexer.listed(one))

    def text(self, value: Any) -> str:
        return f"{{{', '.join(f'{braced(out)}: ({operand}, {braced(index)})' for out, operand, index in value)}}}"


class Sparsity(Bytes):
    """sparsity_config: a SparsityConfig as its bytes, or None."""

    absent, nullable = None, True

    def parse(self, lexer: Lexer, shapes: Shapes) -> bytes:
        """{lhs={sparsity=2x4 dimension=1 stride=1} rhs={...}}"""
        sides: dict[str, bytes] = {}
        for side, here in lexer.entries("lhs=, rhs= or '}'"):
            if side not in ("lhs", "rhs"):
                lexer.error(f"sparsity_config has no attribute {side}", here)
            fields: Fields = {}
            for key, here in lexer.entries("sparsity=, dimension=, stride= or '}'"):
                if key == "sparsity":
                    begin = lexer.skip()
                    ratio = lexer.sizes("a ratio, such as 2x4,")
                    if len(ratio) != 2:
                        lexer.fail("a ratio, such as 2x4,", begin)
                    fields["num_non_zero"], fields["block_size"] = ratio
                elif key in ("dimension", "stride"):
                    fields[key] = lexer.integer()
                else:
                    lexer.error(f"a sparsity has no attribute {key}", here)
            sides[side] = encode(MESSAGES["TensorSparsityConfig"], fields)
        return encode(MESSAGES["SparsityConfig"], sides)

    def text(self, value: Buffer) -> str:
        sides = []
        for side, item in decode(MESSAGES["SparsityConfig"], value).items():
            if side in ("lhs", "rhs"):
                fields = decode(MESSAGES["TensorSparsityConfig"], item)
                ratio = f"{fields.get('num_non_zero', 0)}x{fields.get('block_size', 0)}"
                sides.append(f"{side}={{sparsity={ratio} dimension={fields.get('dimension', 0)} stride={fields.get('stride', 0)}}}")
        return "{" + " ".join(sides) + "}"


class LiteralKind(Kind):
    """A Literal or None."""

    type, nullable = Literal, True

    def decoded(self, value: Buffer) -> Literal:
        return Literal.from_proto(value)

    def encoded(self, value: Literal) -> bytes:
        return value.to_proto()

    def parse(self, lexer: Lexer, shapes: Shapes) -> Literal:
        from ..parser_literals import literal

        return self._tuple(lexer, shapes, 0) if lexer.sees("(") else literal(lexer, shapes.shape())

    def _tuple(self, lexer: Lexer, shapes: Shapes, depth: int) -> Literal:
        """A tuple as it is printed, every element with its shape: ( s32[] 1, f32[2] {1, 2} ); or a tuple shape before it all."""
        from ..parser_literals import literal

        begin = lexer.pos
        whole = shapes.optional() if self._has_shape(lexer, shapes) else None
        if whole is not None:
            return literal(lexer, whole)
        lexer.pos = begin
        lexer.expect("(")
        elements: list[Any] = []
        while not lexer.take(")"):
            if elements:
                lexer.expect(",")
            if lexer.sees("(") and depth < 64:
                elements.append(self._tuple(lexer, shapes, depth + 1))
            else:
                elements.append(literal(lexer, shapes.shape(), False))
        return Literal(Shape.tuple([e.shape for e in elements]), b"", tuple(elements))

    def _has_shape(self, lexer: Lexer, shapes: Shapes) -> bool:
        """Whether a tuple shape stands here, followed by its literal."""
        begin = lexer.pos
        try:
            shapes.shape()
            return lexer.sees("(")
        except ParseError:
            return False
        finally:
            lexer.pos = begin

    def text(self, value: Literal) -> str:
        """A literal with its shape, which the elements of a tuple have each."""
        from ..literal_text import literal_text

        if value.shape.is_tuple:
            return f"( {', '.join(map(self.text, value.elements))} )"
        return f"{shape_text(value.shape)} {literal_text(value, True)}"
