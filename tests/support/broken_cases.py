"""One way to break each rule of each operation."""

from __future__ import annotations

from typing import Any

from tests.support.operation_cases import ADD, ADD64, BODY, GOOD, LESS, RAGGED, TWICE, function, window
from xla_wasm.hlo.attrs import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingDimension,
    RaggedDotDimensionNumbers,
    ScatterDimensionNumbers,
    TriangularSolveOptions,
)
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.shape import Shape
from xla_wasm.ops.table import FAMILIES


def _bad() -> dict[tuple[str, int], tuple[str, dict[str, Any]]]:
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
            (
                4,
                "f32[5,3] s32[7,1] f32[7,2]",
                {"scatter_dimension_numbers": ScatterDimensionNumbers((1,), (9,), (0,), 1)},
            ),
            (
                5,
                "f32[5,3] s32[7,1] f32[7,2]",
                {"scatter_dimension_numbers": ScatterDimensionNumbers((1,), (0,), (0,), 1, (0,), (0,))},
            ),
            (
                6,
                "f32[5,3] s32[7,1] f32[7,2]",
                {"scatter_dimension_numbers": ScatterDimensionNumbers((1,), (), (0,), 1, (1,), (0,))},
            ),
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
            (5, "c64[2,3] c64[3,4]", {"shape": "f32[2,4]"}),
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
            (5, "c64[6,3] c64[2,3,4] s32[2]", {"shape": "f32[6,4]"}),
            (
                6,
                "f32[6,3] f32[2,3,4] s32[2]",
                {"ragged_dot_dimension_numbers": RaggedDotDimensionNumbers(RAGGED, (), (0,))},
            ),
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
            (9, "c64[2,8,9,3] c64[3,3,3,4]", {"shape": "f32[2,6,7,4]"}),
        ],
        "cholesky": [(1, "s32[3,3]", {}), (2, "f32[3,4]", {})],
        "triangular-solve": [
            (1, "f32[3,3] token[]", {}),
            (2, "f32[3,4] f32[3,5]", {}),
            (3, "f32[3,3] f64[3,5]", {}),
            (4, "f32[3,3] f32[5,3]", {}),
            (
                5,
                "f32[3,3] f32[5,3]",
                {"triangular_solve_options": TriangularSolveOptions(transpose_a="TRANSPOSE_INVALID")},
            ),
        ],
        "fft": [
            (1, "f32[2,6,5]", {"fft_type": "DCT"}),
            (2, "c64[2,6,5]", {}),
            (3, "f32[2,6,5]", {"fft_length": ()}),
            (4, "f32[2,6,6]", {}),
        ],
        "rng": [
            (1, "f32[] f32[]", {"shape": "token[]"}),
            (2, "f32[] f32[]", {"distribution": "rng_invalid"}),
            (3, "f32[] f64[]", {}),
        ],
        "rng-bit-generator": [
            (1, "u64[2]", {"algorithm": "dice"}),
            (2, "u64[3]", {}),
            (3, "u64[2]", {"shape": "(u64[2], c64[5])"}),
        ],
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
        lines[name] = [
            (1, "token[]", {}),
            (2, "f32[3]", {"called": [LESS]}),
            (3, "f32[3]", {"use_global_device_ids": True}),
        ]
        lines[name].append((4, "f32[3]", {"replica_groups": TWICE}))
    for op in FAMILIES["elementwise"].ops:
        if op.opcode.startswith("shift-"):
            lines[op.opcode] = [(1, "s32[2] s32[3]", {}), (2, "s32[2] f32[2]", {})]
        elif op.opcode not in lines and op.arity == (1, 1):
            lines[op.opcode] = [(1, "token[]", {}), (2, "f32[2]" if op.opcode == "not" else "pred[2]", {})]
        elif op.opcode not in lines:
            lines[op.opcode] = [(1, "s32[2] s32[3]", {}), (2, "s32[2] u32[2]", {})]
            allowed = op.constraints[2].strip(".").split() if len(op.constraints) > 2 else ["pred", "complex", "float"]
            others = (
                f"{t}[2] {t}[2]"
                for t, kind in (("pred", "pred"), ("c64", "complex"), ("f32", "float"))
                if kind not in allowed
            )
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
    found: list[tuple[int, str, dict[str, Any]]] = [
        (rule, "f32[5,3] s32[7,1]", {"gather_dimension_numbers": n}) for rule, n in number
    ]
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
"""(opcode, rule) -> operands, and what differs from the attributes in FIRST."""
FIRST = {opcode: keywords for opcode, _, _, keywords in reversed(GOOD)} | {
    "iota": {"shape": "s32[3]", "iota_dimension": 0},
    "constant": {"literal": Literal.from_values(Shape("f32"), [1])},
}
"""The attributes of each operation's first good case."""
