"""Samples of operations that take indices at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...hlo.attrs import GatherDimensionNumbers, ScatterDimensionNumbers
from ..dtypes import Array
from ..sample import Sample, array, case, f32, function, program, reducer, s32, s64, shape, u8, u32

_ROW = f32([10, 20, 30, 40, 50])
_WAVE = array("c64", [1 + 1j, 2 - 2j])
_TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)


def _dynamic_slice(x: Array, starts: tuple[Array, ...], sizes: tuple[int, ...], expected: Array, name: str) -> Sample:
    return case("dynamic-slice", (x, *starts), expected, name=name, dynamic_slice_sizes=sizes)


def _gather(
    x: Array, indices: Array, expected: Array, name: str, slice_sizes: tuple[int, ...], **numbers: Any
) -> Sample:
    return case(
        "gather",
        (x, indices),
        expected,
        name=name,
        gather_dimension_numbers=GatherDimensionNumbers(**numbers),
        slice_sizes=slice_sizes,
    )


def _scatter(
    x: Array, indices: Array, updates: Array, expected: Array, name: str, combine: str = "add", **numbers: Any
) -> Sample:
    t = {"float32": "f32", "int32": "s32", "float64": "f64", "complex64": "c64"}[x.dtype.name]
    called = (function(f"{t}, {t}", lambda b, old, new: new) if combine == "set" else reducer(combine, t),)
    return case(
        "scatter",
        (x, indices, updates),
        expected,
        name=name,
        called=called,
        scatter_dimension_numbers=ScatterDimensionNumbers(**numbers),
    )


_TAKE_ROWS: dict[str, Any] = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
}
_TAKE: dict[str, Any] = {
    "offset_dims": (),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
}
_PUT: dict[str, Any] = {
    "update_window_dims": (),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}
_PUT_ROWS: dict[str, Any] = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}

_TWELVE = f32(np.arange(12).reshape(4, 3))
_MANY_ROWS = f32(np.arange(176).reshape(16, 11))

SAMPLES: tuple[Sample, ...] = (
    _dynamic_slice(_ROW, (s32(1),), (2,), f32([20, 30]), ""),
    _dynamic_slice(_ROW, (s32(-3),), (2,), f32([10, 20]), "negative start"),
    _dynamic_slice(_ROW, (s32(4),), (2,), f32([40, 50]), "start beyond"),
    _dynamic_slice(_ROW, (u32(2**32 - 1),), (2,), f32([40, 50]), "unsigned start beyond"),
    _dynamic_slice(_ROW, (s64(-(2**40)),), (2,), f32([10, 20]), "wide start"),
    _dynamic_slice(_ROW, (u8(3),), (1,), f32([40]), "narrow start"),
    _dynamic_slice(_TABLE, (s32(3), s32(1)), (2, 2), f32([[10, 11], [13, 14]]), "two dimensions"),
    _dynamic_slice(_TABLE, (s32(2), s32(0)), (1, 3), f32([[6, 7, 8]]), "row"),
    _dynamic_slice(_TABLE, (s32(9), s32(9)), (5, 3), _TABLE, "whole"),
    *(
        _dynamic_slice(array(t, [1, 0, 1, 1, 0]), (s32(2),), (3,), array(t, [1, 1, 0]), "type")
        for t in ("pred", "u8", "s8", "s32", "u32", "f64", "s64", "c64", "c128")
    ),
    case("dynamic-update-slice", (_ROW, f32([1, 2]), s32(1)), f32([10, 1, 2, 40, 50])),
    case("dynamic-update-slice", (_ROW, f32([1, 2]), s32(-1)), f32([1, 2, 30, 40, 50]), name="negative start"),
    case("dynamic-update-slice", (_ROW, f32([1, 2]), s32(7)), f32([10, 20, 30, 1, 2]), name="start beyond"),
    case("dynamic-update-slice", (_ROW, f32([]), s32(2)), _ROW, name="empty"),
    case(
        "dynamic-update-slice",
        (_TABLE, f32([[-1, -2]]), s32(2), s32(1)),
        f32([[0, 1, 2], [3, 4, 5], [6, -1, -2], [9, 10, 11], [12, 13, 14]]),
        name="two dimensions",
    ),
    *(
        case("dynamic-update-slice", (array(t, [1, 0, 1, 1]), array(t, [1, 0]), s32(1)), array(t, [1, 1, 0, 1]),
             name="type")
        for t in ("pred", "u8", "s8", "s32", "u32", "f64", "s64", "c64", "c128")
    ),
    program(
        "dynamic-update-slice",
        (_ROW, f32([1, 2]), s32(1)),
        (f32([10, 1, 2, 40, 50]), f32([20, 40, 60, 80, 100])),
        lambda b, x, u, i: b.op("tuple", b.op("dynamic-update-slice", x, u, i), b.op("add", x, x)),
        name="operand used elsewhere",
    ),
    _gather(_TABLE, s32([[0], [4], [2]]), _TABLE[[0, 4, 2]], "rows", (1, 3), **_TAKE_ROWS),
    _gather(_TABLE[:0].copy(), s32([[0], [4], [2]]), np.zeros_like(_TABLE[:3]), "of nothing", (0, 3), **_TAKE_ROWS),
    _gather(_TABLE, s32([[-1], [5], [100]]), _TABLE[[0, 4, 4]], "rows outside are moved inside", (1, 3), **_TAKE_ROWS),
    _gather(_ROW, u8([[255], [1]]), f32([50, 20]), "unsigned indices", (1,), **_TAKE),
    _gather(_ROW, u32([[2**32 - 1], [3]]), f32([50, 40]), "large unsigned indices", (1,), **_TAKE),
    _gather(_ROW, s64([[-(2**40)], [3]]), f32([10, 40]), "wide indices", (1,), **_TAKE),
    _gather(_ROW, s32([3, 0]), f32([40, 10]), "no index dimension", (1,), **_TAKE),
    _gather(
        _ROW, s32([[4], [1]]), f32([[40, 50], [20, 30]]), "windows", (2,),
        offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,), index_vector_dim=1,
    ),
    _gather(
        _TABLE, s32([[1, 2], [4, 0]]), f32([5, 12]), "points", (1, 1),
        offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1), index_vector_dim=1,
    ),
    _gather(
        _TABLE, s32([[1, 4], [2, 0]]), f32([13, 2]), "dimensions swapped", (1, 1),
        offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(1, 0), index_vector_dim=1,
    ),
    _gather(
        _TABLE, s32([[1, 4], [2, 0]]), f32([5, 12]), "index vectors along dimension 0", (1, 1),
        offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1), index_vector_dim=0,
    ),
    _gather(
        _TABLE, s32([[[0], [1]], [[2], [3]]]), np.moveaxis(_TABLE[[[0, 1], [2, 3]]], 2, 0).copy(),
        "offset dimension first", (1, 3),
        offset_dims=(0,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2,
    ),
    _gather(
        _TABLE, s32([[2], [0], [1], [2], [0]]), f32([2, 3, 7, 11, 12]), "batching dimensions", (1, 1),
        offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,), index_vector_dim=1,
        operand_batching_dims=(0,), start_indices_batching_dims=(0,),
    ),
    _gather(_TABLE, s32(np.zeros((0, 1))), f32(np.zeros((0, 3))), "no indices", (1, 3), **_TAKE_ROWS),
    *(
        _gather(array(t, [1, 0, 1]), s32([[2], [1], [0], [1]]), array(t, [1, 0, 1, 0]), "type", (1,), **_TAKE)
        for t in ("pred", "u8", "s8", "s32", "u32", "f64", "s64", "c64", "c128")
    ),
    _scatter(_ROW, s32([[1], [3]]), f32([1, 2]), f32([10, 21, 30, 42, 50]), "add", **_PUT),
    _scatter(_ROW, s32([[1], [1], [1]]), f32([1, 2, 4]), f32([10, 27, 30, 40, 50]), "equal indices add up", **_PUT),
    _scatter(_ROW, s32([[1], [1], [0]]), f32([1, 2, 4]), f32([4, 2, 30, 40, 50]), "of equal indices the last stays",
             "set", **_PUT),
    _scatter(_ROW, s32([[-1], [5], [4]]), f32([1, 2, 4]), f32([10, 20, 30, 40, 54]), "outside is dropped", **_PUT),
    _scatter(_ROW, u32([[2**32 - 1], [4]]), f32([1, 2]), f32([10, 20, 30, 40, 52]), "large unsigned indices", **_PUT),
    _scatter(_ROW, s32([2, 0]), f32([1, 2]), f32([12, 20, 31, 40, 50]), "no index dimension", **_PUT),
    _scatter(_ROW, s32([[0], [0]]), f32([5, 15]), f32([15, 20, 30, 40, 50]), "maximum", "maximum", **_PUT),
    _scatter(s32([3, 4]), s32([[0], [0]]), s32([5, 2]), s32([30, 4]), "multiply", "multiply", **_PUT),
    _scatter(
        _TABLE, s32([[3], [0]]), f32([[1, 1, 1], [2, 2, 2]]),
        f32([[2, 3, 4], [3, 4, 5], [6, 7, 8], [10, 11, 12], [12, 13, 14]]), "rows", **_PUT_ROWS,
    ),
    _scatter(
        _TABLE, s32([[4, 0], [0, 1]]), f32([[[1, 1], [1, 1]], [[2, 2], [2, 2]]]),
        f32([[0, 3, 4], [3, 6, 7], [6, 7, 8], [9, 10, 11], [12, 13, 14]]),
        "a window that does not fit is dropped whole",
        update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0, 1), index_vector_dim=1,
    ),
    _scatter(
        _TABLE, s32([[2], [0], [1], [2], [3]]), f32([1, 1, 1, 1, 1]),
        f32([[0, 1, 3], [4, 4, 5], [6, 8, 8], [9, 10, 12], [12, 13, 14]]), "batching dimensions",
        update_window_dims=(), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,), index_vector_dim=1,
        input_batching_dims=(0,), scatter_indices_batching_dims=(0,),
    ),
    _scatter(_ROW, s32(np.zeros((0, 1))), f32([]), _ROW, "no indices", **_PUT),
    _scatter(_WAVE, s32([[1], [1], [7]]), array("c64", [1, 1j, 5]), array("c64", [1 + 1j, 3 - 1j]), "add", **_PUT),
    _scatter(_WAVE, s32([[0], [1], [0]]), array("c64", [3, 1j, 1j]), array("c64", [-3 + 3j, 2 + 2j]), "multiply",
             "multiply", **_PUT),
    _scatter(_WAVE, s32([[0], [0]]), array("c64", [3, 1j]), array("c64", [1j, 2 - 2j]),
             "of equal indices the last stays", "set", **_PUT),
    case(
        "scatter",
        (s32([1, 2]), _WAVE, s32([[1], [1]]), s32([5, 6]), array("c64", [1j, 2])),
        (s32([1, 13]), array("c64", [1 + 1j, 4 + 4j])),
        name="two operands",
        called=(function("s32, c64, s32, c64",
                         lambda b, i, x, j, y: b.op("tuple", b.op("add", i, j), b.op("multiply", x, y))),),
        scatter_dimension_numbers=ScatterDimensionNumbers(**_PUT),
    ),
    case(
        "scatter",
        (f32([1, 2, 3]), s32([1, 2, 3]), s32([[2], [0], [2]]), f32([10, 20, 30]), s32([4, 0, 6])),
        (f32([21, 2, 43]), s32([0, 2, 6])),
        name="two operands",
        called=(function("f32, s32, f32, s32", lambda b, x, i, y, j: b.op("tuple", b.op("add", x, y), b.op(
            "select", b.op("compare", j, b.op("convert", y, shape=shape("s32")), direction="GT"), i, j))),),
        scatter_dimension_numbers=ScatterDimensionNumbers(**_PUT),
    ),
    case("dynamic-slice", (f32([0, 1, 2, 3, 4]), s32(2)), f32([2, 3]), name="the middle", dynamic_slice_sizes=(2,)),
    case("dynamic-slice", (_TWELVE, s32(2), s32(1)), f32([[7, 8], [10, 11]]), name="a corner",
         dynamic_slice_sizes=(2, 2)),
    case("dynamic-slice", (_TWELVE, s32(9), s32(-4)), f32([[6, 7], [9, 10]]), name="beyond both edges",
         dynamic_slice_sizes=(2, 2)),
    case("dynamic-update-slice", (f32([0, 1, 2, 3, 4]), f32([5, 6]), s32(2)), f32([0, 1, 5, 6, 4]), name="the middle"),
    case("dynamic-update-slice", (_TWELVE, f32([[12, 13], [14, 15], [16, 17]]), s32(1), s32(1)),
         f32([[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]]), name="a corner"),
    case("gather", (_MANY_ROWS, s32([[3, 0], [15, 7]])), _MANY_ROWS[[[3, 0], [15, 7]]], name="whole rows",
         gather_dimension_numbers=GatherDimensionNumbers((2,), (0,), (0,), 2), slice_sizes=(1, 11)),
    case("gather", (_MANY_ROWS, s32([[0, 0], [1, 2], [8, 5], [4, 3], [7, 1]])),
         np.stack([_MANY_ROWS[i : i + 8, j : j + 6] for i, j in ((0, 0), (1, 2), (8, 5), (4, 3), (7, 1))]),
         name="windows", gather_dimension_numbers=GatherDimensionNumbers((1, 2), (), (0, 1), 1), slice_sizes=(8, 6)),
)  # fmt: skip
