"""The table of the loop IR's operations: complete, and the only one."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from xla_wasm.hlo.types import TYPES
from xla_wasm.loop import builder, values
from xla_wasm.loop.arithmetic import Arithmetic
from xla_wasm.loop.ops import CONVERT, CONVERT_LANES, OPS, Op, fits, instructions, lane_shape, register
from xla_wasm.wasm.opcodes import CODE, opcodes

LOOP = Path(inspect.getfile(builder)).parent


def names_built() -> set[str]:
    """The names of operations that the builder's code makes values of."""
    found = set()
    for path in (LOOP / "builder.py", LOOP / "arithmetic.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                if called in ("_val", "_op", "_wrapped", "_compare", "_shift", "Val"):
                    found |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
    return found


def test_the_builder_makes_what_the_table_has() -> None:
    built = names_built() | {"load", "load_vector", "load_strided"}
    assert built == set(OPS)


def chosen(op: Op) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """The types and lanes that an operation has, each with its instructions; those without are composed or do not
    exist."""
    for entry in op.types:
        found = re.fullmatch(r"(.+?)(?:x(\d+))?", entry)
        assert found is not None
        dtype = found[1]
        for lanes in (int(found[2]),) if found[2] else (1, 2, 4, 8, 16):
            operand = {"b2": "s8", "b4": "s8", "c2": "s16"}.get(op.operands[0], dtype)
            if op.operands[0] == "h2" and dtype != "pred":
                operand = f"{dtype[0]}{TYPES[dtype].bits // 2}"
            if fits(dtype, lanes) and operand in TYPES and not (op.form == "wider" and lanes in (1, 16)):
                yield dtype, lanes, instructions(op.name, operand, lanes) or ()


def test_each_row_has_a_way_to_be_written() -> None:
    for op in OPS.values():
        if op.form == ".":
            assert callable(getattr(values.Values, op.name)), op.name
        elif op.form:
            assert any(names for _, _, names in chosen(op)), op.name


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.form and op.form != "."], ids=lambda op: op.name)
def test_instructions_take_what_the_row_says(op: Op) -> None:
    """Each instruction takes as many values as the operation has operands, of the registers of their types."""
    for dtype, lanes, names in chosen(op):
        for name in names:
            assert name in CODE
            if name != "i64x2.extend_low_i32x4_s" or op.form == "wider":
                assert opcodes()[name].params == (register(dtype, lanes),) * len(op.operands), (name, dtype, lanes)


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.form in ("wider", "+", "=")], ids=lambda op: op.name)
def test_instructions_of_narrow_lanes_are_of_their_shape(op: Op) -> None:
    for dtype, lanes, names in chosen(op):
        if lanes > 2 and names and dtype != "pred":
            assert names[0].startswith(lane_shape(dtype, lanes)), (op.name, dtype, lanes)


def test_conversions_are_instructions() -> None:
    for table, lanes in ((CONVERT, 1), (CONVERT_LANES, 2)):
        for (source, target), names in table.items():
            for name in names:
                opcode = opcodes()[name]
                assert len(opcode.params) == len(opcode.results) == 1
                if lanes == 1:
                    assert name.startswith(
                        {"f32": "f32", "f64": "f64", "s64": "i64", "u64": "i64"}.get(target, "i32")
                    ), (source, target)


def test_shapes_of_lanes() -> None:
    for dtype, lanes, shape in (
        ("s8", 16, "i8x16"),
        ("pred", 8, "i16x8"),
        ("s8", 8, "i16x8"),
        ("bf16", 4, "i32x4"),
        ("s32", 2, "i32x4"),
    ):
        assert lane_shape(dtype, lanes) == shape


def test_what_arithmetic_offers_is_documented() -> None:
    """Every public method of the builder's arithmetic says what it does, or has the name of an operation."""
    for name, method in vars(Arithmetic).items():
        if callable(method) and not name.startswith("_"):
            assert method.__doc__ or name.rstrip("_") in OPS, name
