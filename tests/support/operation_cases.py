"""Operations on parameters: what each takes and gives, and what tests build such cases with."""

from __future__ import annotations

import re
from typing import Any

from xla_wasm.builder import Builder, scalar_computation
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
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.verify import verify


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
            found[-1].append(
                Shape(
                    name, tuple(int(size.removeprefix("<=")) for size in sizes), None, dynamic if any(dynamic) else ()
                )
            )
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


ADD, ADD64, PAIR = (
    scalar_computation("add", "f32"),
    scalar_computation("add", "f64"),
    function("f32[] s32[] f32[] s32[]", 0, 1),
)
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
    (
        "reduce",
        "f32[2,3] f32[]",
        "(f32[2])",
        {"dimensions": (1,), "called": [function("f32[] f32[]", 0, as_tuple=True)]},
    ),
    ("map", "f32[2] s32[2]", "s32[2]", {"called": [function("f32[] s32[]", 1)]}),
    (
        "scan",
        "f32[9,3] f32[3]",
        "(f32[9,3], f32[3])",
        {"dimensions": (0,), "num_carries": 1, "called": [function("f32[3] f32[3]", 0, 1)]},
    ),
    ("reduce-window", "f32[9] f32[]", "f32[4]", {"window": window(2, stride=2), "called": [ADD]}),
    ("reduce-window", "f32[2] f32[]", "f32[0]", {"window": window(3), "called": [ADD]}),
    (
        "reduce-window",
        "f32[3] f32[]",
        "f32[4]",
        {"window": window(2, base_dilation=2, window_dilation=2, padding_low=1), "called": [ADD]},
    ),
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
    (
        "triangular-solve",
        "f32[3,3] f32[3,5]",
        "f32[3,5]",
        {"triangular_solve_options": TriangularSolveOptions(left_side=True)},
    ),
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
    (
        "reduce-scatter",
        "f32[6] f32[2]",
        "(f32[3], f32[1])",
        {"shape": "(f32[3], f32[1])", "dimensions": (0,), "called": [ADD]},
    ),
    ("all-to-all", "f32[6]", "f32[6]", {"dimensions": (0,), "replica_groups": GROUPS}),
    (
        "all-to-all",
        "f32[6] f32[6]",
        "(f32[6], f32[6])",
        {"replica_groups": ReplicaGroups(iota=IotaGroups(2, 2, (4,), (0,)))},
    ),
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
"""Valid uses of each operation: opcode, operands, result, attributes."""
