"""MLIR bytecode as a tree: the same that jaxlib sees, whether it is StableHLO or a portable artifact of any version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir

from tests.support.stablehlo_files import SHARDY, artifact_of, bytecode_of, operations, parsed
from tests.support.stablehlo_samples import modules
from xla_wasm.errors import ParseError, UnsupportedError, XlaWasmError
from xla_wasm.mlir import bytecode
from xla_wasm.mlir.elements import hlo_type
from xla_wasm.mlir.text_of import attribute_text
from xla_wasm.mlir.tree import (
    DYNAMIC,
    Block,
    Complex,
    Dense,
    Elements,
    Function,
    Number,
    Op,
    Symbol,
    Tensor,
    Tuple,
    Type,
    TypeOf,
)
from xla_wasm.ops.dtypes import DTYPES


def inside(ops: list[Op]) -> Iterator[Op]:
    """The operations and those of their regions, in order."""
    for op in ops:
        yield op
        for region in op.regions:
            for block in region:
                yield from inside(block.ops)


def outline(ops: list[Op], numbers: dict[Any, int] | None = None) -> list[Any]:
    """All that is in a tree, with numbers for values."""
    numbers = {} if numbers is None else numbers
    found = []
    for op in ops:
        for value in op.results:
            numbers[value] = len(numbers)
        attributes = {
            key: repr(bytes(v.data)) + repr(v.type) if isinstance(v, Dense) else repr(v)
            for key, v in op.attributes.items()
        }
        regions = [[block_outline(block, numbers) for block in region] for region in op.regions]
        operands = [numbers[o] for o in op.operands]
        found.append((op.name, operands, attributes, [v.type for v in op.results], regions, op.location))
    return found


def block_outline(block: Block, numbers: dict[Any, int]) -> Any:
    for value in block.arguments:
        numbers[value] = len(numbers)
    return [(v.type, v.name) for v in block.arguments], outline(block.ops, numbers)


def type_text(kind: Type) -> str:
    """A type as MLIR prints it."""
    if isinstance(kind, Tensor):
        sizes = "*x" if kind.sizes is None else "".join("?x" if size == DYNAMIC else f"{size}x" for size in kind.sizes)
        bounds = ", ".join("?" if bound == DYNAMIC else str(bound) for bound in kind.bounds)
        return f"tensor<{sizes}{type_text(kind.element)}" + (f", #stablehlo.bounds<{bounds}>>" if bounds else ">")
    if isinstance(kind, Complex):
        return f"complex<{kind.element}>"
    if isinstance(kind, Tuple):
        return f"tuple<{', '.join(map(type_text, kind.types))}>"
    if isinstance(kind, Function):
        results = ", ".join(map(type_text, kind.results))
        return f"({', '.join(map(type_text, kind.inputs))}) -> " + (
            results if len(kind.results) == 1 else f"({results})"
        )
    return "!stablehlo.token" if kind == "token" else str(kind)


def check_against_jaxlib(name: str, module: Any, ops: list[Op]) -> None:
    """Names, operands, types and what is simple among the attributes."""
    (top,) = ops
    known: dict[Any, Any] = {}
    mine = list(inside(top.regions[0][0].ops))
    theirs = list(operations(module.body))
    assert [op.name for op in mine] == [op.name for op in theirs], name
    for a, b in zip(mine, theirs, strict=True):
        known.update(zip(a.results, b.results, strict=True))
        for region, other in zip(a.regions, b.regions, strict=True):
            for block, its in zip(region, other, strict=True):
                known.update(zip(block.arguments, its.arguments, strict=True))
        assert [known[o] for o in a.operands] == list(b.operands), (name, b.name)
        assert [type_text(v.type) for v in a.results] == [str(v.type) for v in b.results], (name, b.name)
        for key in b.attributes:
            check_attribute((name, b.name, key.name if hasattr(key, "name") else key), a.attributes, b.attributes, key)


_NOTHING = (
    r"#stablehlo\..*|false|array<i\d+: (1|false)(, (1|false))*>|array<i\d+>|dense<0?> : .*|\[(#stablehlo<precision "
    r"DEFAULT>(, )?)*\]|"
    r"#stablehlo<comparison_type NOTYPE>|-1 : i64|1 : i32|\[\]|\"\"|\{\}"
)
"""Attributes whose fields stand for themselves, and values that say no more than their absence."""


def check_attribute(where: Any, mine: dict[str, Any], theirs: Any, key: Any) -> None:
    key = getattr(key, "name", key)
    try:
        value = theirs[key]
    except TypeError:
        return  # jaxlib has no Python class for complex constants
    if key not in mine:
        assert re.fullmatch(_NOTHING, str(value)), (where, str(value))
        return
    own = mine[key]
    if isinstance(own, Dense):
        assert type_text(own.type) == str(value.type), where
        check_elements(where, own, value)
    elif isinstance(own, Elements):
        assert list(own.values) == list(value), where
    elif isinstance(own, Number):
        assert type_text(own.type) == str(value.type), where
        np.testing.assert_equal(own.value, value.value, str(where))
    elif isinstance(own, bool):
        assert own == value.value, where
    elif isinstance(own, TypeOf):
        assert type_text(own.type) == str(value), where
    elif isinstance(own, Symbol):
        assert f"@{own.name}" == str(value).replace('"', ""), where
    elif isinstance(own, str):
        assert own == (
            value.value if isinstance(value, ir.StringAttr) else str(value).strip("<>").rpartition(" ")[2]
        ), where


def check_elements(where: Any, own: Dense, value: Any) -> None:
    """The bytes, where numpy can have them from jaxlib."""
    dtype = DTYPES[hlo_type(own.type.element) or ""]
    count = int(np.prod(own.type.sizes or ()))
    array = np.frombuffer(bytes(own.data), dtype)
    if own.is_splat:
        assert len(array) == 1 < count and value.is_splat, where
    else:
        assert len(array) == count, where
    try:
        theirs = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return  # numpy has no such type
    if theirs.dtype.itemsize == dtype.itemsize:
        full = np.broadcast_to(array, (count,)) if own.is_splat else array
        assert full.tobytes() == np.ascontiguousarray(theirs).tobytes(), where


def test_bytecode_is_what_jaxlib_has() -> None:
    for name, module in modules():
        check_against_jaxlib(name, module, bytecode.read(bytecode_of(module)))


# Versions of VHLO from which on operations, types and attributes differ.
VERSIONS = ("1.15.0", "1.10.0", "1.5.0", "0.20.0", "0.14.0", "0.9.0")


def test_artifacts_of_all_versions_are_the_same_tree() -> None:
    written = dict.fromkeys(VERSIONS, 0)
    for i, (name, module) in enumerate(modules()):
        expected = None
        for version in VERSIONS[: 1 if i % 8 else None]:
            try:
                data = artifact_of(module, version)
            except Exception:
                continue  # that version lacks something
            expected = expected or outline(bytecode.read(bytecode_of(module)))
            assert outline(bytecode.read(data)) == expected, (name, version)
            written[version] += 1
    assert written["1.15.0"] > 1000
    assert all(count > 100 for count in written.values()), written


TEXT = """
#file = loc("a.py":7:1)
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%x: tensor<?x3xf32, #stablehlo.bounds<5, ?>> loc("first"), %t: !stablehlo.token) -> tensor<2xi4> {
    %0 = stablehlo.constant dense<[-8, 7]> : tensor<2xi4> loc("jit(f)/c"(callsite("g"(#file) at #file)))
    %1 = stablehlo.constant dense<true> : tensor<9xi1>
    %2 = stablehlo.constant dense<[true, false, true, true, false, false, false, false, true]> : tensor<9xi1>
    %3 = stablehlo.constant dense<[true, true, true]> : tensor<3xi1>
    %4 = stablehlo.constant dense<true> : tensor<i1>
    %5 = stablehlo.constant dense<> : tensor<2x0xf64>
    %empty = stablehlo.constant dense<1.5> : tensor<2x0xf64>
    %6 = stablehlo.constant dense_resource<blob> : tensor<3xf32>
    %7 = stablehlo.custom_call @f(%x) {has_side_effect = true, a = "text", b = [1 : i8, 2.5 : f32], c, d = {e = -3 : i64}} : (tensor<?x3xf32, #stablehlo.bounds<5, ?>>) -> tensor<2xf32>
    return %0 : tensor<2xi4>
  }
}
{-# dialect_resources: { builtin: { blob: "0x040000000000803F0000004000004040" } } #-}
"""  # noqa: E501


def test_values_of_every_kind() -> None:
    (module,) = bytecode.read(bytecode_of(parsed(TEXT)))
    assert module.attributes == {"sym_name": "m", "mhlo.num_partitions": Number(1, "i32")}
    (function,) = module.regions[0][0].ops
    block = function.regions[0][0]
    assert [v.name for v in block.arguments] == ["first", ""]
    assert block.arguments[0].type == Tensor((DYNAMIC, 3), "f32", (5, DYNAMIC))
    constants = [op.attributes["value"] for op in block.ops[:8]]
    elements = [bytes(c.data) for c in constants]
    assert elements == [
        b"\xf8\x07",
        b"\1",
        bytes([1, 0, 1, 1, 0, 0, 0, 0, 1]),
        b"\1",
        b"\1",
        b"",
        b"",
        np.array([1, 2, 3], "<f4").tobytes(),
    ]
    assert [c.is_splat for c in constants] == [False, True, False, True, False, False, False, False]
    assert block.ops[0].location == ("jit(f)/c", "a.py", 7)
    call = block.ops[8].attributes
    assert call["b"] == (Number(1, "i8"), Number(2.5, "f32"))
    assert (call["call_target_name"], call["has_side_effect"], call["a"], repr(call["c"])) == (
        "f",
        True,
        "text",
        "UNIT",
    )
    assert call["d"] == {"e": Number(-3, "i64")}


@pytest.mark.parametrize("write", [bytecode_of, artifact_of])
def test_attributes_of_shardy_are_their_text(write: Any) -> None:
    module = parsed(SHARDY)
    (top,) = bytecode.read(write(module))
    mine: dict[Any, str] = {
        (op.name, k): getattr(v, "text", "")
        for op in inside([top])
        for k, v in op.attributes.items()
        if k not in ("sym_name",)
    }
    theirs = {
        (op.name, k): str(op.attributes[k])
        for op in operations(module.body)
        for k in (getattr(a, "name", a) for a in op.attributes)
    }
    compared = [key for key in theirs if mine.get(key, "").startswith("#sdy")]
    assert len(compared) == 7, (mine, theirs)
    assert {key: mine[key] for key in compared} == {key: theirs[key] for key in compared}
    arguments = next(op for op in inside([top]) if op.name == "func.func").attributes["arg_attrs"]
    assert arguments[0]["sdy.sharding"].text == '#sdy.sharding<@mesh, [{"x", ?}p1, {"y", ?}]>'


def test_what_is_no_bytecode() -> None:
    good = bytecode_of(parsed("func.func @main() { return }"))
    for data in (b"", b"ML", b"MLIR", good[:8], good[:-40]):
        with pytest.raises(ParseError, match="MLIR bytecode"):
            bytecode.read(data)
    with pytest.raises(UnsupportedError, match="version 64"):
        bytecode.read(good[:4] + b"\x81" + good[5:])


def test_damage_is_told() -> None:
    rng = np.random.default_rng(0)
    seeds = [
        data
        for _, module in modules()[::60]
        for data in (bytecode_of(module), bytecode_of(parsed(TEXT)), artifact_of(module))
    ]
    refused = 0
    for i in range(2000):
        data = bytearray(seeds[i % len(seeds)])
        for _ in range(int(rng.integers(1, 4))):
            data[rng.integers(len(data))] = rng.integers(256)
        try:
            bytecode.read(bytes(data[: rng.integers(len(data))] if i % 5 == 0 else data))
        except XlaWasmError:
            refused += 1
    assert refused > 500


def test_attributes_as_text() -> None:
    """Dictionaries of custom calls are kept as text: it is jaxlib's."""
    values = (
        "{a = 1 : i64, b = 2.500000e+00 : f32, c = 1.000000e-30 : f64, d = 0.100000001 : f32, e = 0x7FC00000 : f32, f "
        "= true, "
        'g = "s\\22\\0A", "odd key" = array<i64: 1, -2>, h = [1 : i32, [2 : i8]], i, j = @f, '
        "k = dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>, l = dense<true> : tensor<3xi1>, n = i32, o = tensor<2x?xf32>, "
        "m = dense<[1.500000e+00, 0xFF800000]> : tensor<2xf32>, p = dense<> : tensor<0xi8>}"
    )
    module = parsed(f"module attributes {{x.y = {values}}} {{}}")
    (top,) = bytecode.read(bytecode_of(module))
    assert attribute_text(top.attributes["x.y"]) == str(module.operation.attributes["x.y"])
