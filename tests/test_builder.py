"""Building by hand: shapes are inferred, defaults filled in, and every numbered constraint of every operation is enforced."""

from __future__ import annotations

import re
from typing import Any

import pytest

from xla_wasm.builder import Builder, module, scalar_computation
from xla_wasm.errors import ArgumentError, UnsupportedError, VerifyError
from xla_wasm.hlo.attrs import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    IotaGroups,
    PaddingDimension,
    RaggedDotDimensionNumbers,
    ReplicaGroups,
    ScatterDimensionNumbers,
    SliceDimension,
    TriangularSolveOptions,
    Window,
    WindowDimension,
)
from xla_wasm.hlo.ir import Computation, Instruction
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.proto import from_proto, to_proto
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.verify import verify
from xla_wasm.ops import docs
from xla_wasm.ops.table import FAMILIES, OPS


def shapes(text: str) -> list[Shape]:
    """Shapes as HLO writes them: "f32[2,<=3] (s32[], token[])"."""
    found: list[list[Shape]] = [[]]
    for name, dims, bracket in re.findall(r"(\w+)\[([\d,<=]*)\]|([()])", text):
        if bracket == "(":
            found.append([])
        elif bracket == ")":
            elements = found.pop()
            found[-1].append(Shape.tuple(elements))
        else:
            sizes = dims.split(",") if dims else []
            dynamic = tuple(size.startswith("<=") for size in sizes)
            found[-1].append(Shape(name, tuple(int(size.removeprefix("<=")) for size in sizes), None, dynamic if any(dynamic) else ()))
    return found[0]


def shape(text: str) -> Shape:
    (only,) = shapes(text)
    return only


def function(parameters: str, *returned: int, as_tuple: bool = False, result: str = "") -> Computation:
    """A computation that returns some of its parameters, or a value of the shape `result` made out of nothing."""
    b = Builder("fn")
    inputs = [b.parameter(number, s) for number, s in enumerate(shapes(parameters))]
    if result:
        return b.build(b.op("custom-call", shape=shape(result), custom_call_target="any"))
    chosen = [inputs[number] for number in returned]
    return b.build(b.tuple(*chosen) if as_tuple or len(chosen) != 1 else chosen[0])


def build(opcode: str, operands: str, **keywords: Any) -> Instruction:
    b = Builder("main")
    inputs = [b.parameter(number, s) for number, s in enumerate(shapes(operands))]
    if isinstance(keywords.get("shape"), str):
        keywords["shape"] = shape(keywords["shape"])
    built = b.op(opcode, *inputs, **keywords)
    verify(b.module(built))
    return built


def window(*sizes: int, **others: int) -> Window:
    return Window(tuple(WindowDimension(size, **others) for size in sizes))


ADD, ADD64, PAIR = scalar_computation("add", "f32"), scalar_computation("add", "f64"), function("f32[] s32[] f32[] s32[]", 0, 1)
LESS = function("f32[] f32[]", result="pred[]")
LESS4 = function("f32[] f32[] s32[] s32[]", result="pred[]")
DOT = {"dot_dimension_numbers": DotDimensionNumbers((1,), (0,))}
BATCH = DotDimensionNumbers((2,), (1,), (0,), (0,))
ROWS = GatherDimensionNumbers((1,), (0,), (0,), 1)
PUT = ScatterDimensionNumbers((1,), (0,), (0,), 1)
NHWC = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
CONV = {"dim_labels": NHWC, "window": window(3, 3)}
NORM = {"epsilon": 0.125, "feature_index": 1}
RAGGED = DotDimensionNumbers((1,), (1,))
GROUPS = ReplicaGroups(((0, 1), (2, 3)))
TWICE = ReplicaGroups(((0, 1), (1, 2)))
BODY = function("f32[3]", 0)

# what each operation gives: opcode, operands, result, attributes
GOOD: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("abs", "c64[2]", "f32[2]", {}),
    ("real", "c128[2]", "f64[2]", {}),
    ("is-finite", "bf16[2,0]", "pred[2,0]", {}),
    ("negate", "s4[2,<=3]", "s4[2,<=3]", {}),
    ("add", "f32[<=3,2] f32[3,2]", "f32[<=3,2]", {}),
    ("shift-left", "s32[3] u32[3]", "s32[3]", {}),
    ("complex", "f64[3] f64[3]", "c128[3]", {}),
    ("compare", "f32[3] f32[3]", "pred[3]", {"direction": "LT", "type": "TOTALORDER"}),
    ("clamp", "f32[] f32[3] f32[3]", "f32[3]", {}),
    ("select", "pred[] s8[3] s8[3]", "s8[3]", {}),
    ("convert", "f32[3]", "s4[3]", {"shape": "s4[3]"}),
    ("bitcast-convert", "u32[2]", "u8[2,4]", {"shape": "u8[2,4]"}),
    ("bitcast-convert", "u8[2,4]", "f32[2]", {"shape": "f32[2]"}),
    ("reduce-precision", "f32[3]", "f32[3]", {"exponent_bits": 5, "mantissa_bits": 10}),
    ("stochastic-convert", "f32[3] u32[3]", "s8[3]", {"shape": "s8[3]"}),
    ("copy", "(f32[3], token[])", "(f32[3], token[])", {}),
    ("bitcast", "f32[2,3]", "s32[6]", {"shape": "s32[6]"}),
    ("broadcast", "f32[3]", "f32[2,3]", {"shape": "f32[2,3]", "dimensions": (1,)}),
    ("reshape", "f32[2,3]", "f32[3,1,2]", {"shape": "f32[3,1,2]"}),
    ("transpose", "f32[2,<=3,4]", "f32[4,2,<=3]", {"dimensions": (2, 0, 1)}),
    ("reverse", "f32[2,3]", "f32[2,3]", {"dimensions": (1,)}),
    ("slice", "f32[9,4]", "f32[3,0]", {"slice": (SliceDimension(1, 8, 3), SliceDimension(4, 4))}),
    ("concatenate", "f32[2,1] f32[2,0] f32[2,3]", "f32[2,4]", {"dimensions": (1,)}),
    ("pad", "f32[4,0] f32[]", "f32[6,2]", {"padding": (PaddingDimension(-2, 1, 1), PaddingDimension(1, 1, 5))}),
    ("dynamic-slice", "f32[4,5] s32[] s32[]", "f32[2,5]", {"dynamic_slice_sizes": (2, 5)}),
    ("dynamic-slice", "f32[4,5] s32[2]", "f32[2,5]", {"dynamic_slice_sizes": (2, 5)}),
    ("dynamic-update-slice", "f32[4,5] f32[2,5] u8[] u8[]", "f32[4,5]", {}),
    ("gather", "f32[5,3] s32[7,1]", "f32[7,3]", {"gather_dimension_numbers": ROWS, "slice_sizes": (1, 3)}),
    (
        "gather",
        "f32[2,5,3] s32[7,2]",
        "f32[7,2,2]",
        {"gather_dimension_numbers": GatherDimensionNumbers((2,), (1,), (1,), 2, (0,), (1,)), "slice_sizes": (1, 1, 2)},
    ),
    ("scatter", "f32[5,3] s32[7,1] f32[7,2]", "f32[5,3]", {"scatter_dimension_numbers": PUT, "called": [ADD]}),
    (
        "scatter",
        "f32[5,3] s32[5,3] s32[7,1] f32[7,3] s32[7,3]",
        "(f32[5,3], s32[5,3])",
        {"scatter_dimension_numbers": PUT, "called": [PAIR]},
    ),
    ("reduce", "f32[2,<=3,4] f32[]", "f32[<=3]", {"dimensions": (0, 2), "called": [ADD]}),
    ("reduce", "f32[2,3] s32[2,3] f32[] s32[]", "(f32[2], s32[2])", {"dimensions": (1,), "called": [PAIR]}),
    ("reduce", "f32[2,3] f32[]", "(f32[2])", {"dimensions": (1,), "called": [function("f32[] f32[]", 0, as_tuple=True)]}),
    ("map", "f32[2] s32[2]", "s32[2]", {"called": [function("f32[] s32[]", 1)]}),
    ("scan", "f32[9,3] f32[3]", "(f32[9,3], f32[3])", {"dimensions": (0,), "num_carries": 1, "called": [function("f32[3] f32[3]", 0, 1)]}),
    ("reduce-window", "f32[9] f32[]", "f32[4]", {"window": window(2, stride=2), "called": [ADD]}),
    ("reduce-window", "f32[2] f32[]", "f32[0]", {"window": window(3), "called": [ADD]}),
    ("reduce-window", "f32[3] f32[]", "f32[4]", {"window": window(2, base_dilation=2, window_dilation=2, padding_low=1), "called": [ADD]}),
    ("select-and-scatter", "f32[9] f32[4] f32[]", "f32[9]", {"window": window(2, stride=2), "called": [LESS, ADD]}),
    ("sort", "f32[2,3] s32[2,3]", "(f32[2,3], s32[2,3])", {"dimensions": (1,), "called": [LESS4]}),
    ("topk", "f32[2,5]", "(f32[2,3], s32[2,3])", {"k": 3}),
    ("dot", "f32[2,3] bf16[3,4]", "f32[2,4]", DOT),
    ("dot", "s8[5,2,3] s8[5,3,4]", "s32[5,2,4]", {"dot_dimension_numbers": BATCH, "shape": "s32[5,2,4]"}),
    ("dot", "f32[2] f32[3]", "f32[2,3]", {"dot_dimension_numbers": DotDimensionNumbers()}),
    (
        "ragged-dot",
        "f32[6,3] f32[2,3,4] s32[2]",
        "f32[6,4]",
        {"ragged_dot_dimension_numbers": RaggedDotDimensionNumbers(RAGGED, (0,), (0,))},
    ),
    (
        "ragged-dot",
        "f32[6,3] f32[3,4] s32[2]",
        "f32[2,6,4]",
        {"ragged_dot_dimension_numbers": RaggedDotDimensionNumbers(DotDimensionNumbers((1,), (0,)), (1,))},
    ),
    ("scaled-dot", "f8e5m2[2,8] f8e5m2[8,4] f8e8m0fnu[2,2] bf16[]", "f32[2,4]", DOT | {"shape": "f32[2,4]"}),
    ("convolution", "f32[2,8,9,3] f32[3,3,3,4]", "f32[2,6,7,4]", CONV),
    ("convolution", "f32[2,8,9,6] f32[3,3,3,4]", "f32[2,6,7,4]", CONV | {"feature_group_count": 2}),
    ("convolution", "f32[4,8,9,3] f32[3,3,3,4]", "f32[2,6,7,4]", CONV | {"batch_group_count": 2}),
    ("cholesky", "f32[7,3,3]", "f32[7,3,3]", {"lower": True}),
    ("triangular-solve", "f32[3,3] f32[3,5]", "f32[3,5]", {"triangular_solve_options": TriangularSolveOptions(left_side=True)}),
    ("triangular-solve", "c64[3,3] c64[5,3]", "c64[5,3]", {"triangular_solve_options": TriangularSolveOptions()}),
    ("fft", "f32[2,6,5]", "c64[2,6,3]", {"fft_type": "RFFT", "fft_length": (6, 5)}),
    ("fft", "c128[3]", "f64[5]", {"fft_type": "IRFFT", "fft_length": (5,)}),
    ("fft", "c64[2,0]", "c64[2,0]", {"fft_type": "FFT", "fft_length": (1,)}),
    ("batch-norm-training", "f32[2,3] f32[3] f32[3]", "(f32[2,3], f32[3], f32[3])", NORM),
    ("batch-norm-inference", "f32[2,3] f32[3] f32[3] f32[3] f32[3]", "f32[2,3]", NORM),
    ("batch-norm-grad", "f32[2,3] f32[3] f32[3] f32[3] f32[2,3]", "(f32[2,3], f32[3], f32[3])", NORM),
    ("rng", "f32[] f32[]", "f32[3]", {"shape": "f32[3]", "distribution": "rng_normal"}),
    ("rng-bit-generator", "u64[2]", "(u64[2], u32[5])", {"shape": "(u64[2], u32[5])", "algorithm": "rng_three_fry"}),
    ("rng-get-and-update-state", "", "u64[2]", {"delta": 1}),
    ("get-dimension-size", "f32[3]", "s32[]", {"dimensions": (0,)}),
    ("set-dimension-size", "f32[2,3] s32[]", "f32[2,<=3]", {"dimensions": (1,)}),
    ("dynamic-reshape", "f32[<=6] s32[] s32[]", "f32[<=3,2]", {"shape": "f32[<=3,2]"}),
    ("tuple", "f32[3] token[]", "(f32[3], token[])", {}),
    ("get-tuple-element", "(f32[3], token[])", "token[]", {"index": 1}),
    ("call", "f32[3]", "f32[3]", {"called": [BODY]}),
    ("fusion", "f32[3]", "f32[3]", {"called": [BODY], "kind": "kLoop"}),
    ("while", "f32[3]", "f32[3]", {"called": [BODY, function("f32[3]", result="pred[]")]}),
    ("conditional", "s32[] f32[3] f32[3] f32[3]", "f32[3]", {"called": [BODY] * 3}),
    ("after-all", "token[] token[]", "token[]", {}),
    ("add-dependency", "f32[3] token[]", "f32[3]", {}),
    ("opt-barrier", "(f32[3])", "(f32[3])", {}),
    ("domain", "f32[3]", "f32[3]", {}),
    ("copy-start", "f32[3]", "(f32[3], f32[3], u32[])", {}),
    ("copy-done", "(f32[3], f32[3], u32[])", "f32[3]", {}),
    ("async-start", "f32[3]", "((f32[3]), f32[3])", {"called": [BODY]}),
    ("async-update", "((f32[3]), f32[3], u32[])", "((f32[3]), f32[3], u32[])", {}),
    ("async-done", "((f32[3]), f32[3], u32[])", "f32[3]", {}),
    ("partition-id", "", "u32[]", {}),
    ("replica-id", "", "u32[]", {}),
    ("all-reduce", "f32[3] bf16[4]", "(f32[3], bf16[4])", {"called": [ADD], "replica_groups": GROUPS}),
    ("all-reduce-start", "f32[3]", "f32[3]", {"called": [ADD]}),
    ("all-reduce-done", "f32[3]", "f32[3]", {}),
    ("all-gather", "f32[3,2]", "f32[6,2]", {"shape": "f32[6,2]", "dimensions": (0,), "replica_groups": GROUPS}),
    ("all-gather-start", "f32[3]", "(f32[3], f32[6])", {"shape": "(f32[3], f32[6])", "dimensions": (0,)}),
    ("all-gather-done", "(f32[3], f32[6])", "f32[6]", {}),
    ("reduce-scatter", "f32[6] f32[2]", "(f32[3], f32[1])", {"shape": "(f32[3], f32[1])", "dimensions": (0,), "called": [ADD]}),
    ("all-to-all", "f32[6]", "f32[6]", {"dimensions": (0,), "replica_groups": GROUPS}),
    ("all-to-all", "f32[6] f32[6]", "(f32[6], f32[6])", {"replica_groups": ReplicaGroups(iota=IotaGroups(2, 2, (4,), (0,)))}),
    ("ragged-all-to-all", "f32[6,2] f32[8,2] s32[2] s32[2] s32[2] s32[2]", "f32[8,2]", {}),
    ("collective-broadcast", "f32[6]", "f32[6]", {}),
    ("collective-permute", "f32[6]", "f32[6]", {"source_target_pairs": ((0, 1), (1, 0))}),
    (
        "collective-permute-start",
        "f32[6]",
        "(f32[6], f32[6], u32[], u32[])",
        {"shape": "(f32[6], f32[6], u32[], u32[])", "source_target_pairs": ((0, 1),)},
    ),
    ("collective-permute-done", "(f32[6], f32[6], u32[], u32[])", "f32[6]", {}),
    ("infeed", "token[]", "((f32[3]), token[])", {"shape": "((f32[3]), token[])"}),
    ("outfeed", "f32[3] token[]", "token[]", {}),
    ("send", "f32[3] token[]", "(f32[3], u32[], token[])", {"channel_id": 1}),
    ("send-done", "(f32[3], u32[], token[])", "token[]", {"channel_id": 1}),
    ("recv", "token[]", "(f32[3], u32[], token[])", {"shape": "(f32[3], u32[], token[])"}),
    ("recv-done", "(f32[3], u32[], token[])", "(f32[3], token[])", {}),
    ("custom-call", "f32[3]", "(f32[1], s8[2])", {"shape": "(f32[1], s8[2])", "custom_call_target": "f"}),
)


@pytest.mark.parametrize(("opcode", "operands", "result", "keywords"), GOOD, ids=[case[0] for case in GOOD])
def test_shapes_are_inferred(opcode: str, operands: str, result: str, keywords: dict[str, Any]) -> None:
    built = build(opcode, operands, **keywords)
    assert built.shape.without_layout() == shape(result)
    assert all(attr.name in built.attrs for attr in OPS[opcode].attrs)


@pytest.mark.parametrize(("opcode", "operands", "result", "keywords"), GOOD, ids=[case[0] for case in GOOD])
def test_they_survive_the_proto(opcode: str, operands: str, result: str, keywords: dict[str, Any]) -> None:
    b = Builder("main")
    keywords = {**keywords, "shape": shape(result)}
    original = b.module(b.op(opcode, *(b.parameter(number, s) for number, s in enumerate(shapes(operands))), **keywords))
    again = from_proto(to_proto(original))
    verify(again)
    old, new = original.entry.root, again.entry.root
    assert new.shape.without_layout() == old.shape
    assert {k: v for k, v in new.attrs.items() if v != old.attrs[k]} == {}


def _bad() -> dict[tuple[str, int], tuple[str, dict[str, Any]]]:
    """One way to break each rule: (opcode, rule) -> operands and what differs from the operation's first good instance."""
    lines: dict[str, list[tuple[int, str, dict[str, Any]]]] = {
        "complex": [(1, "f32[2] f32[3]", {}), (2, "f32[2] f64[2]", {})],
        "compare": [
            (1, "f32[2] f32[3]", {}),
            (2, "f32[2] f64[2]", {}),
            (3, "c64[2] c64[2]", {"type": "FLOAT"}),
            (4, "s32[2] s32[2]", {}),
        ],
        "clamp": [(1, "f64[] f32[3] f32[3]", {}), (2, "f32[1] f32[3] f32[3]", {}), (3, "c64[] c64[] c64[]", {})],
        "select": [(1, "pred[] token[] token[]", {}), (2, "s32[] f32[] f32[]", {}), (3, "pred[] f32[1] f32[2]", {})],
        "convert": [(1, "token[]", {})],
        "bitcast-convert": [
            (1, "u32[2]", {"shape": "token[]"}),
            (2, "c64[2]", {"shape": "f64[2]"}),
            (3, "f6e2m3fn[4]", {"shape": "u32[4]"}),
            (4, "u8[2,3]", {"shape": "u32[2]"}),
        ],
        "reduce-precision": [(1, "token[]", {}), (2, "s32[2]", {}), (3, "f32[2]", {"exponent_bits": 0})],
        "stochastic-convert": [(1, "f32[3] u32[2]", {}), (2, "s32[3] u32[3]", {}), (3, "f32[3] u16[3]", {})],
        "iota": [(1, "", {"shape": "token[]"}), (2, "", {"iota_dimension": 1}), (3, "", {"shape": "pred[3]"})],
        "constant": [(1, "", {"shape": "f32[3]"})],
        "bitcast": [(1, "token[]", {}), (2, "f32[5]", {})],
        "broadcast": [
            (1, "token[]", {}),
            (2, "f32[]", {}),
            (3, "f32[3]", {"dimensions": (2,)}),
            (4, "f32[1]", {}),
        ],
        "reshape": [(1, "token[]", {}), (2, "f32[7]", {}), (3, "f32[6]", {"inferred_dimension": 3})],
        "transpose": [(1, "token[]", {}), (2, "f32[2,3,4]", {"dimensions": (0, 0, 1)})],
        "reverse": [(1, "token[]", {}), (2, "f32[2]", {})],
        "slice": [(1, "token[]", {}), (2, "f32[9]", {}), (3, "f32[7,4]", {})],
        "concatenate": [(1, "token[]", {}), (2, "f32[2]", {}), (3, "f32[2,1] f32[3,1]", {})],
        "pad": [
            (1, "token[] f32[]", {}),
            (2, "f32[4,0] f32[1]", {}),
            (3, "f32[4] f32[]", {}),
            (4, "f32[1] f32[]", {"padding": (PaddingDimension(0, 0, -1),)}),
            (5, "f32[1] f32[]", {"padding": (PaddingDimension(-1, -1),)}),
        ],
        "dynamic-slice": [(1, "token[]", {}), (2, "f32[4,5] s32[] s64[]", {}), (3, "f32[1,5] s32[] s32[]", {})],
        "dynamic-update-slice": [
            (1, "f32[2] token[] s32[]", {}),
            (2, "f32[4,5] f32[2,5] u8[]", {}),
            (3, "f32[4,5] f32[5,5] u8[] u8[]", {}),
            (4, "f32[4,5] s32[2,5] u8[] u8[]", {}),
        ],
        "gather": _bad_gathers(),
        "scatter": [
            (1, "f32[5,3] s32[7,1] f32[7,2] f32[7,2]", {}),
            (2, "f32[5,3] f32[7,1] f32[7,2]", {}),
            (3, "f32[5,3] s32[7,2] f32[7,2]", {}),
            (4, "f32[5,3] s32[7,1] f32[7,2]", {"scatter_dimension_numbers": ScatterDimensionNumbers((1,), (9,), (0,), 1)}),
            (5, "f32[5,3] s32[7,1] f32[7,2]", {"scatter_dimension_numbers": ScatterDimensionNumbers((1,), (0,), (0,), 1, (0,), (0,))}),
            (6, "f32[5,3] s32[7,1] f32[7,2]", {"scatter_dimension_numbers": ScatterDimensionNumbers((1,), (), (0,), 1, (1,), (0,))}),
            (7, "f32[5,3] f32[5,4] s32[7,1] f32[7,2] f32[7,2]", {}),
            (8, "f32[5,3] s32[7,1] f32[7,4]", {}),
            (9, "f32[5,3] s32[7,1] f32[6,2]", {}),
            (10, "f32[5,3] s32[7,1] f32[7,2]", {"called": [ADD64]}),
        ],
        "reduce": [
            (1, "f32[2] f32[] f32[]", {}),
            (2, "f32[2] f32[3] f32[] f32[]", {}),
            (3, "f32[2,3,4] f32[1]", {}),
            (4, "f32[2,3,4] f32[]", {"called": [LESS]}),
            (5, "f32[2,3,4] f32[]", {"dimensions": (0, 0)}),
        ],
        "map": [(1, "f32[2] s32[3]", {}), (2, "f32[2] s32[2]", {"dimensions": (1,)}), (3, "s32[2] s32[2]", {})],
        "scan": [
            (1, "f32[9,3] token[]", {}),
            (2, "f32[9,3] f32[3]", {"num_carries": 3}),
            (3, "f32[9,3] f32[3]", {"dimensions": (2,)}),
            (4, "f32[9,4] f32[3]", {}),
            (5, "f32[9,3] f32[3]", {"called": [function("f32[3] f32[3]", result="(f32[2], f32[2])")]}),
        ],
        "reduce-window": [
            (1, "f32[9] f32[] f32[]", {}),
            (2, "f32[9] f32[8] f32[] f32[]", {}),
            (3, "f32[9] s32[]", {}),
            (4, "f32[9] f32[]", {"called": [LESS]}),
            (5, "f32[9] f32[]", {"window": window(2, stride=0)}),
        ],
        "select-and-scatter": [
            (1, "f32[9] token[] f32[]", {}),
            (2, "f32[9] f32[4] s32[]", {}),
            (3, "f32[9] f32[4] f32[]", {"window": window(2, window_dilation=2)}),
            (4, "f32[9] f32[5] f32[]", {}),
            (5, "f32[9] f32[4] f32[]", {"called": [ADD, ADD]}),
            (6, "f32[9] f32[4] f32[]", {"called": [LESS, LESS]}),
        ],
        "sort": [(1, "f32[2,3] s32[2]", {}), (2, "f32[2] s32[2]", {}), (3, "f32[2,3]", {})],
        "topk": [(1, "c64[5]", {}), (2, "f32[2]", {})],
        "dot": [
            (1, "f32[2,3] token[]", {}),
            (2, "f32[2] f32[2]", {}),
            (3, "f32[2,3] f32[3]", {"dot_dimension_numbers": DotDimensionNumbers((1,))}),
            (4, "f32[2,3] f32[4]", {}),
            (5, "f32[2,3] f32[3,4]", {"shape": "s32[2,4]"}),
        ],
        "ragged-dot": [
            (1, "f32[6,3] f32[2,3,4] token[]", {}),
            (2, "f32[6] f32[2,3,4] s32[2]", {}),
            (
                3,
                "f32[6,3] f32[2,3,4] s32[2]",
                {"ragged_dot_dimension_numbers": RaggedDotDimensionNumbers(DotDimensionNumbers((1,)), (0,), (0,))},
            ),
            (4, "f32[6,4] f32[2,3,4] s32[2]", {}),
            (5, "f32[6,3] f32[2,3,4] s32[2]", {"shape": "s32[6,4]"}),
            (6, "f32[6,3] f32[2,3,4] s32[2]", {"ragged_dot_dimension_numbers": RaggedDotDimensionNumbers(RAGGED, (), (0,))}),
            (7, "f32[6,3] f32[2,3,4] f32[2]", {}),
            (8, "f32[6,3] f32[2,3,4] s32[3]", {}),
        ],
        "scaled-dot": [
            (1, "f32[2,8] f32[8,4] token[] f32[]", {}),
            (2, "f32[2] f32[8,4] f32[] f32[]", {}),
            (3, "f32[2,8] f32[8,4] f32[] f32[]", {"dot_dimension_numbers": DotDimensionNumbers((1,))}),
            (4, "f32[2,8] f32[7,4] f32[] f32[]", {}),
            (5, "f32[2,8] f32[8,4] f32[] f32[]", {"shape": "s32[2,4]"}),
            (6, "f32[2,8] f32[8,4] f32[2,3] f32[]", {}),
            (7, "f32[2,8] f32[8,2] f32[] f32[]", {"dot_dimension_numbers": DotDimensionNumbers((1, 0), (0, 1))}),
        ],
        "convolution": [
            (1, "f32[2,8,9,3] token[]", {}),
            (2, "f32[2,8,9,3] f32[3,3,3]", {}),
            (3, "f32[2,8,9,3] f32[3,3,3,4]", {"feature_group_count": 0}),
            (4, "f32[2,8,9,4] f32[3,3,3,4]", {}),
            (5, "f32[2,8,9,6] f32[3,3,3,5]", {"feature_group_count": 2}),
            (6, "f32[3,8,9,3] f32[3,3,3,4]", {"batch_group_count": 2}),
            (7, "f32[2,8,9,3] f32[3,2,3,4]", {}),
            (8, "f32[2,8,9,3] f32[3,3,3,4]", {"window": window(3, 3, base_dilation=0)}),
            (9, "f32[2,8,9,3] f32[3,3,3,4]", {"shape": "s32[2,6,7,4]"}),
        ],
        "cholesky": [(1, "s32[3,3]", {}), (2, "f32[3,4]", {})],
        "triangular-solve": [
            (1, "f32[3,3] token[]", {}),
            (2, "f32[3,4] f32[3,5]", {}),
            (3, "f32[3,3] f64[3,5]", {}),
            (4, "f32[3,3] f32[5,3]", {}),
            (5, "f32[3,3] f32[5,3]", {"triangular_solve_options": TriangularSolveOptions(transpose_a="TRANSPOSE_INVALID")}),
        ],
        "fft": [
            (1, "f32[2,6,5]", {"fft_type": "DCT"}),
            (2, "c64[2,6,5]", {}),
            (3, "f32[2,6,5]", {"fft_length": ()}),
            (4, "f32[2,6,6]", {}),
        ],
        "rng": [(1, "f32[] f32[]", {"shape": "token[]"}), (2, "f32[] f32[]", {"distribution": "rng_invalid"}), (3, "f32[] f64[]", {})],
        "rng-bit-generator": [(1, "u64[2]", {"algorithm": "dice"}), (2, "u64[3]", {}), (3, "u64[2]", {"shape": "(u64[2], c64[5])"})],
        "get-dimension-size": [(1, "token[]", {}), (2, "f32[]", {})],
        "set-dimension-size": [(1, "token[] s32[]", {}), (2, "f32[2] s32[]", {}), (3, "f32[2,3] s64[]", {})],
        "dynamic-reshape": [
            (1, "token[] s32[] s32[]", {}),
            (2, "f32[6] s32[]", {}),
            (3, "f32[6] s32[] u32[]", {}),
            (4, "f32[5] s32[] s32[]", {}),
        ],
        "parameter": [(1, "", {"parameter_number": -1, "shape": "f32[]"})],
        "get-tuple-element": [(1, "f32[3]", {}), (2, "(f32[])", {})],
        "call": [(1, "f32[4]", {})],
        "fusion": [(1, "f32[3] f32[3]", {})],
        "while": [(1, "f32[4]", {}), (2, "f32[3]", {"called": [BODY, BODY]})],
        "conditional": [
            (1, "f32[] f32[3]", {}),
            (2, "pred[] f32[3] f32[3] f32[3]", {}),
            (3, "s32[] f32[3] f32[3]", {}),
            (4, "s32[] f32[3] f32[4] f32[3]", {}),
        ],
        "copy-done": [(1, "(f32[3], f32[4], u32[])", {})],
        "async-start": [(1, "f32[4]", {})],
        "async-update": [(1, "(f32[3])", {})],
        "async-done": [(1, "(f32[3])", {})],
        "add-dependency": [(1, "f32[] f32[]", {})],
        "after-all": [(1, "f32[]", {})],
        "all-gather": _bad_gatherings("f32[7,2]"),
        "all-gather-start": [*_bad_gatherings("(f32[3,2], f32[7,2])"), (6, "f32[3]", {"shape": "(f32[4], f32[6])"})],
        "all-gather-done": [(1, "f32[3]", {})],
        "reduce-scatter": [
            (1, "token[]", {"shape": "f32[3]"}),
            (2, "f32[6]", {"shape": "f32[4]"}),
            (3, "f32[6]", {"shape": "f32[3]", "dimensions": (1,)}),
            (4, "f32[6]", {"shape": "f32[3]", "use_global_device_ids": True}),
            (5, "f32[6]", {"shape": "f32[3]", "called": [LESS]}),
            (6, "f32[6]", {"shape": "f32[3]", "replica_groups": TWICE}),
        ],
        "all-to-all": [
            (1, "token[]", {}),
            (2, "f32[6] f32[6]", {}),
            (3, "f32[6] f32[7]", {"dimensions": ()}),
            (4, "f32[6] f32[6] f32[6]", {"dimensions": ()}),
            (5, "f32[6]", {"replica_groups": TWICE}),
        ],
        "ragged-all-to-all": [
            (1, "f32[6,2] f32[8,2] s32[2] s32[2] s32[2] token[]", {}),
            (2, "f32[6,2] f32[8,3] s32[2] s32[2] s32[2] s32[2]", {}),
            (3, "f32[6,2] f32[8,2] s32[2] s32[2] s32[2] s32[3]", {}),
            (4, "f32[6,2] f32[8,2] s32[2] s32[2] s32[2] s32[2]", {"replica_groups": TWICE}),
        ],
        "collective-broadcast": [(1, "token[]", {}), (2, "f32[6]", {"replica_groups": TWICE})],
        "collective-permute": [
            (1, "token[]", {}),
            (2, "f32[6]", {"source_target_pairs": ((0, 1), (2, 1))}),
            (3, "f32[6] f32[6]", {"slice_sizes": (2,), "shape": "f32[6]"}),
        ],
        "collective-permute-start": [
            (1, "token[]", {"shape": "(token[], token[])"}),
            (2, "f32[6]", {"source_target_pairs": ((0, 1), (0, 2))}),
            (3, "f32[6] f32[6]", {"slice_sizes": (2,), "shape": "(f32[6], f32[6])"}),
            (4, "f32[6]", {"shape": "f32[6]"}),
        ],
        "collective-permute-done": [(1, "(f32[6])", {})],
        "infeed": [(1, "f32[]", {}), (2, "token[]", {"shape": "f32[]"})],
        "outfeed": [(1, "f32[] f32[]", {}), (2, "f32[2] token[]", {"outfeed_shape": Shape("f32", (3,))})],
        "send": [(1, "f32[] f32[]", {})],
        "send-done": [(1, "(f32[])", {})],
        "recv": [(1, "f32[]", {}), (2, "token[]", {"shape": "(f32[], token[])"})],
        "recv-done": [(1, "(f32[])", {})],
    }
    for name in ("training", "inference", "grad"):
        counts = {"training": 2, "inference": 4, "grad": 4}[name]
        last = "f32[2,3]" if name == "grad" else "f32[3]"
        rest = " f32[3]" * (counts - 1) + " " + last
        lines[f"batch-norm-{name}"] = [(1, "s32[2,3]" + rest, {}), (2, "f32[2]" + rest, {}), (3, "f32[2,4]" + rest, {})]
    lines["batch-norm-grad"].append((4, "f32[2,3] f32[3] f32[3] f32[3] f32[2,4]", {}))
    for name in ("all-reduce", "all-reduce-start"):
        lines[name] = [(1, "token[]", {}), (2, "f32[3]", {"called": [LESS]}), (3, "f32[3]", {"use_global_device_ids": True})]
        lines[name].append((4, "f32[3]", {"replica_groups": TWICE}))
    for op in FAMILIES["elementwise"]:
        if op.opcode.startswith("shift-"):
            lines[op.opcode] = [(1, "s32[2] s32[3]", {}), (2, "s32[2] f32[2]", {})]
        elif op.opcode not in lines and op.arity == (1, 1):
            lines[op.opcode] = [(1, "token[]", {}), (2, "f32[2]" if op.opcode == "not" else "pred[2]", {})]
        elif op.opcode not in lines:
            lines[op.opcode] = [(1, "s32[2] s32[3]", {}), (2, "s32[2] u32[2]", {})]
            allowed = op.constraints[2].strip(".").split() if len(op.constraints) > 2 else ["pred", "complex", "float"]
            others = (f"{t}[2] {t}[2]" for t, kind in (("pred", "pred"), ("c64", "complex"), ("f32", "float")) if kind not in allowed)
            lines[op.opcode] += [(3, operands, {}) for operands in others][:1]
    return {(opcode, rule): (operands, changes) for opcode, cases in lines.items() for rule, operands, changes in cases}


def _bad_gathers() -> list[tuple[int, str, dict[str, Any]]]:
    rows = (1,), (0,), (0,)
    number: list[tuple[int, GatherDimensionNumbers]] = [
        (2, GatherDimensionNumbers(*rows, 3)),
        (3, GatherDimensionNumbers((1,), (0,), (0, 1), 1)),
        (4, GatherDimensionNumbers((1,), (1, 0), (0,), 1)),
        (5, GatherDimensionNumbers(*rows, 1, (0,), (0,))),
        (6, GatherDimensionNumbers((), (0,), (0,), 1, (1,), (0,))),
        (9, GatherDimensionNumbers((2,), (0,), (0,), 1)),
    ]
    sizes = [(7, (1, 4)), (8, (2, 3))]
    found: list[tuple[int, str, dict[str, Any]]] = [(rule, "f32[5,3] s32[7,1]", {"gather_dimension_numbers": n}) for rule, n in number]
    found += [(rule, "f32[5,3] s32[7,1]", {"slice_sizes": size}) for rule, size in sizes]
    return [(1, "f32[5,3] token[]", {}), *found]


def _bad_gatherings(wrong: str) -> list[tuple[int, str, dict[str, Any]]]:
    right = wrong.replace("f32[7", "f32[6")
    return [
        (1, "token[]", {"shape": wrong.replace("f32[3,2]", "token[]")}),
        (2, "f32[3,2]", {"shape": wrong}),
        (3, "f32[3,2]", {"shape": right, "dimensions": (2,)}),
        (4, "f32[3,2]", {"shape": right, "use_global_device_ids": True}),
        (5, "f32[3,2]", {"shape": right, "replica_groups": TWICE}),
    ]


BAD = _bad()
FIRST = {opcode: keywords for opcode, _, _, keywords in reversed(GOOD)} | {
    "iota": {"shape": "s32[3]", "iota_dimension": 0},
    "constant": {"literal": Literal.from_values(Shape("f32"), [1])},
}


def test_every_rule_has_a_case() -> None:
    assert {(op.opcode, rule + 1) for op in OPS.values() for rule in range(len(op.constraints))} == BAD.keys()
    with_shape_inference = {op.opcode for op in OPS.values() if op.opcode not in ("parameter", "iota", "constant")}
    unary_and_binary = {op.opcode for op in FAMILIES["elementwise"] if op.constraints[0].endswith((" an array.", " of equal sizes."))}
    assert with_shape_inference - unary_and_binary <= {case[0] for case in GOOD}


@pytest.mark.parametrize(("opcode", "rule"), BAD, ids=[f"{opcode} C{rule}" for opcode, rule in BAD])
def test_rules_are_enforced(opcode: str, rule: int) -> None:
    operands, changes = BAD[opcode, rule]
    with pytest.raises(VerifyError, match=rf"^{opcode} '{opcode}(\.\d+)?': \(C{rule}\) "):
        build(opcode, operands, **{**FIRST.get(opcode, {}), **changes})


def test_results_are_bounded() -> None:
    with pytest.raises(VerifyError, match=r"dot 'dot': the result has more than 2\^40 elements"):
        build("dot", "f32[1048576,4] f32[4,2097152]", **DOT)
    with pytest.raises(VerifyError, match=r"pad 'pad': the result has a dimension of size"):
        build("pad", "f32[4] f32[]", padding=(PaddingDimension(0, 0, 1 << 62),))


def test_constants() -> None:
    b = Builder("main")
    assert b.constant(2.5).attrs["literal"].values() == [2.5]
    assert b.constant([[1, 2, 3], [4, 5, 6]], "s8").shape == Shape("s8", (2, 3))
    assert b.constant([], "f32").shape == Shape("f32", (0,))
    assert b.constant(Shape("pred", (2,)), [True, False]).attrs["literal"].values() == [True, False]
    assert b.constant(Literal.from_values(Shape("u8"), [7])).shape == Shape("u8")
    assert b.full(1, Shape("s32", (2, 2))).opcode == "broadcast" and b.full(1, Shape("s32")).opcode == "constant"
    with pytest.raises(ArgumentError, match="differ in length"):
        b.constant([[1], [1, 2]])


def test_helpers() -> None:
    b = Builder("main")
    x = b.parameter(0, Shape("f32", (4, 3)), "x")
    y = b.parameter(1, Shape("f32", (3, 5)))
    assert (x.name, y.name, b.iota(Shape("s32", (3,))).shape) == ("x", "parameter", Shape("s32", (3,)))
    assert b.dot(x, y).shape == Shape("f32", (4, 5))
    assert b.dot(x, x, ([1], [1]), element_type="f64").shape == Shape("f64", (4, 4))
    assert b.reduce(x, 0, "add", [0]).shape == Shape("f32", (3,))
    assert b.reduce(x, b.constant(1), ADD).shape == Shape("f32")
    assert b.concatenate(x, x, dimension=1).shape == Shape("f32", (4, 6))
    assert b.bitcast_convert(x, "u8").shape == Shape("u8", (4, 3, 4))
    assert b.bitcast_convert(b.bitcast_convert(x, "u8"), "f32").shape == x.shape
    assert b.and_(b.compare(x, x, "LT"), b.is_finite(x)).opcode == "and"
    assert b.convert(x, "bf16").shape == Shape("bf16", (4, 3))
    assert [b.tanh(x).name, b.tanh(x).name, b.op("tanh", x, name="y").name, b.op("tanh", x, name="y").name] == [
        "tanh",
        "tanh.1",
        "y",
        "y.1",
    ]
    verify(b.module(b.tanh(x)))


def test_mistakes() -> None:
    b = Builder("main")
    x = b.parameter(0, Shape("f32", (4,)))
    with pytest.raises(AttributeError, match="no operation 'frobnicate'"):
        b.frobnicate(x)
    with pytest.raises(UnsupportedError, match="the opcode is unknown"):
        b.op("frobnicate", x)
    with pytest.raises(ArgumentError, match="it has no attribute axis, color"):
        b.op("reverse", x, color=1, axis=0, dimensions=(0,))
    with pytest.raises(ArgumentError, match="its shape must be given"):
        b.custom_call(x, custom_call_target="f")
    with pytest.raises(VerifyError, match=r"declared as f32\[3\], but it is f32\[4\]"):
        b.op("negate", x, shape=Shape("f32", (3,)))
    with pytest.raises(VerifyError, match="attribute dimensions is missing"):
        b.op("reverse", x)
    with pytest.raises(VerifyError, match="its shape has a dimension of size -1"):
        b.parameter(1, Shape("f32", (-1,)))
    with pytest.raises(ArgumentError, match="has no instructions"):
        Builder("empty").build()
    assert [i.opcode for i in b.build().instructions] == ["parameter"]


def test_modules_hold_what_they_call() -> None:
    inner = function("f32[3]", 0)
    b = Builder("outer")
    outer = b.build(b.call(b.parameter(0, Shape("f32", (3,))), called=[inner]))
    b = Builder("main")
    x = b.parameter(0, Shape("f32", (3,)))
    entry = b.build(b.call(b.call(x, called=[inner]), called=[outer]))
    built = module("name", entry)
    assert (built.name, built.computations, built.entry) == ("name", [inner, outer, entry], entry)
    verify(built)


def test_the_page_is_up_to_date() -> None:
    assert docs.PATH.read_text() == docs.page()
    assert all(line.endswith(".") for op in OPS.values() for line in (op.doc, *op.constraints))
