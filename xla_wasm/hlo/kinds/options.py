"""Kinds of attributes that only one or two operations have: options, literals, aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import ParseError
from ..attrs import (
    ACCURACIES,
    ALGORITHMS,
    PRECISIONS,
    TRANSPOSES,
    PrecisionConfig,
    ResultAccuracy,
    TriangularSolveOptions,
)
from ..literal import Literal
from ..proto.schema import MESSAGES, word
from ..proto.wire import Buffer, Fields, decode, encode
from ..shape import Shape
from ..text.shape_text import shape_text
from .kind import InParts, Kind, Part, braced, known, packed, unpacked
from .plain import BYTES

if TYPE_CHECKING:
    from ..text.lexer import Lexer
    from ..text.shapes import Shapes


def _precision_text(config: PrecisionConfig) -> str:
    parts = []
    if any(precision != "default" for precision in config.operand_precision):
        parts.append(f"operand_precision={braced(config.operand_precision)}")
    if config.algorithm != "unset":
        parts.append(f"algorithm={config.algorithm}")
    return ", ".join(parts)


def _read_precision(data: Buffer) -> PrecisionConfig:
    precisions, algorithm = unpacked("PrecisionConfig", data)
    return PrecisionConfig(tuple([word(PRECISIONS, number) for number in precisions]), word(ALGORITHMS, algorithm))


def _write_precision(config: PrecisionConfig) -> bytes:
    return packed(
        "PrecisionConfig", ([PRECISIONS.index(p) for p in config.operand_precision], ALGORITHMS.index(config.algorithm))
    )


_SOLVE_FLAGS = ("left_side", "lower", "unit_diagonal")


def _solve_text(options: TriangularSolveOptions) -> str:
    return ", ".join(
        [*(f"{key}=true" for key in _SOLVE_FLAGS if getattr(options, key)), f"transpose_a={options.transpose_a}"]
    )


def _read_solve(data: Buffer) -> TriangularSolveOptions:
    left, lower, unit, transpose = unpacked("TriangularSolveOptions", data)
    return TriangularSolveOptions(bool(left), bool(lower), bool(unit), word(TRANSPOSES, transpose))


def _write_solve(options: TriangularSolveOptions) -> bytes:
    flags = [getattr(options, key) for key in _SOLVE_FLAGS]
    return packed("TriangularSolveOptions", (*flags, TRANSPOSES.index(options.transpose_a)))


def _accuracy(lexer: Lexer, _: Shapes) -> ResultAccuracy | None:
    """{mode=highest} or {tolerance={atol=0.5, rtol=0.25, ulps=3}}"""
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


def _accuracy_text(value: ResultAccuracy) -> str | None:
    if value.mode:
        return f"{{mode={value.mode}}}" if value.mode != "default" else None
    return f"{{tolerance={{atol={float(value.atol)!r}, rtol={float(value.rtol)!r}, ulps={value.ulps}}}}}"


def _read_accuracy(data: Buffer) -> ResultAccuracy:
    fields = known("ResultAccuracy", data)
    if "tolerance" in fields:
        return ResultAccuracy("", **known("Tolerance", fields["tolerance"]))
    return ResultAccuracy(word(ACCURACIES, fields.get("mode", 0)))


def _write_accuracy(value: ResultAccuracy) -> bytes:
    tolerance = packed("Tolerance", (value.atol, value.rtol, value.ulps))
    return encode(
        MESSAGES["ResultAccuracy"], {"mode": ACCURACIES.index(value.mode)} if value.mode else {"tolerance": tolerance}
    )


def _aliasing(lexer: Lexer, _: Shapes) -> tuple[Any, ...]:
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


def _aliasing_text(value: Any) -> str:
    return f"{{{', '.join(f'{braced(out)}: ({operand}, {braced(index)})' for out, operand, index in value)}}}"


def _sparsity(lexer: Lexer, _: Shapes) -> bytes:
    """{lhs={sparsity=2x4 dimension=1 stride=1} rhs={...}} as a SparsityConfig."""
    sides: dict[str, bytes] = {}
    for side, begin in lexer.entries("lhs=, rhs= or '}'"):
        if side not in ("lhs", "rhs"):
            lexer.error(f"sparsity_config has no attribute {side}", begin)
        fields: Fields = {}
        for key, here in lexer.entries("sparsity=, dimension=, stride= or '}'"):
            if key == "sparsity":
                at = lexer.skip()
                ratio = lexer.sizes("a ratio, such as 2x4,")
                if len(ratio) != 2:
                    lexer.fail("a ratio, such as 2x4,", at)
                fields["num_non_zero"], fields["block_size"] = ratio
            elif key in ("dimension", "stride"):
                fields[key] = lexer.integer()
            else:
                lexer.error(f"a sparsity has no attribute {key}", here)
        sides[side] = encode(MESSAGES["TensorSparsityConfig"], fields)
    return encode(MESSAGES["SparsityConfig"], sides)


def _sparsity_text(data: Buffer) -> str:
    sides = []
    for side, item in decode(MESSAGES["SparsityConfig"], data).items():
        if side in ("lhs", "rhs"):
            fields = decode(MESSAGES["TensorSparsityConfig"], item)
            ratio = f"{fields.get('num_non_zero', 0)}x{fields.get('block_size', 0)}"
            sides.append(
                f"{side}={{sparsity={ratio} dimension={fields.get('dimension', 0)} stride={fields.get('stride', 0)}}}"
            )
    return "{" + " ".join(sides) + "}"


def _literal(lexer: Lexer, shapes: Shapes, depth: int = 0) -> Literal:
    """A literal behind its shape. A tuple is as it is printed, every element with its shape, ( s32[] 1, f32[2] {1, 2}
    ); or its shape stands before it all."""
    from ..text.literals import literal

    if not lexer.sees("(") or depth > 64:
        return literal(lexer, shapes.shape(), depth == 0)
    begin = lexer.pos
    whole = shapes.optional() if _has_shape(lexer, shapes) else None
    if whole is not None:
        return literal(lexer, whole)
    lexer.pos = begin
    lexer.expect("(")
    elements: list[Literal] = []
    while not lexer.take(")"):
        if elements:
            lexer.expect(",")
        elements.append(_literal(lexer, shapes, depth + 1))
    return Literal(Shape.tuple([e.shape for e in elements]), b"", tuple(elements))


def _has_shape(lexer: Lexer, shapes: Shapes) -> bool:
    """Returns True if a tuple shape stands here, followed by its literal."""
    begin = lexer.pos
    try:
        shapes.shape()
        return lexer.sees("(")
    except ParseError:
        return False
    finally:
        lexer.pos = begin


def _literal_text(value: Literal) -> str:
    """A literal with its shape, which the elements of a tuple have each."""
    from ..text.literal_text import literal_text

    if value.shape.is_tuple:
        return f"( {', '.join(map(_literal_text, value.elements))} )"
    return f"{shape_text(value.shape)} {literal_text(value, True)}"


KINDS: dict[str, Kind] = {
    "precision_config": InParts(
        PrecisionConfig,
        {
            "operand_precision": Part(
                False, lambda lexer, _: tuple(lexer.listed(lambda: lexer.one_of(PRECISIONS, fold=True)))
            ),
            "algorithm": Part(False, lambda lexer, _: lexer.one_of(ALGORITHMS, fold=True)),
        },
        lambda found: PrecisionConfig(**found),
        text=_precision_text,
        decoded=_read_precision,
        encoded=_write_precision,
    ),
    "triangular_solve_options": InParts(
        TriangularSolveOptions,
        {
            **dict.fromkeys(_SOLVE_FLAGS, Part(False, lambda lexer, _: lexer.boolean())),
            "transpose_a": Part(False, lambda lexer, _: lexer.one_of(TRANSPOSES)),
        },
        lambda found: TriangularSolveOptions(**{"transpose_a": TRANSPOSES[0], **found}),
        text=_solve_text,
        decoded=_read_solve,
        encoded=_write_solve,
    ),
    "result_accuracy": Kind(
        ResultAccuracy, parse=_accuracy, text=_accuracy_text, decoded=_read_accuracy, encoded=_write_accuracy
    ),
    "output_operand_aliasing": Kind(
        tuple,
        (),
        parse=_aliasing,
        text=_aliasing_text,
        decoded=lambda items: tuple([tuple(unpacked("OutputOperandAliasing", data)) for data in items]),
        encoded=lambda value: [packed("OutputOperandAliasing", alias) for alias in value],
    ),
    "sparsity_config": Kind(BYTES, parse=_sparsity, text=_sparsity_text, decoded=bytes, encoded=bytes),
    "literal": Kind(Literal, parse=_literal, text=_literal_text, decoded=Literal.from_proto, encoded=Literal.to_proto),
}
