"""Samples of elementwise operations."""

from __future__ import annotations

import operator
from math import pi
from typing import Any

import numpy as np

from ..sample import Sample, array, case, f32, f64, inf, nan, pred, program, s8, s32, shape, u8, u32
from .samples_complex import COMPLEX_SAMPLES
from .samples_narrow import NARROW_SAMPLES

_MIN32, _MAX32, _MAXU32 = -(2**31), 2**31 - 1, 2**32 - 1
_MIN64, _MAX64, _MAXU64 = -(2**63), 2**63 - 1, 2**64 - 1

_BINARY = (
    ("add", "f32", [1, 2.5, -0.0, inf, inf, 3e38, 16777216], [2, -2.5, -0.0, -inf, 1, 3e38, 1],
     [3, 0, -0.0, nan, inf, inf, 16777216]),
    ("add", "f64", [1, 0.1, inf], [2, 0.2, nan], [3, 0.30000000000000004, nan]),
    ("add", "s32", [1, _MAX32, _MIN32, -7, 5], [2, 1, -1, 7, 6], [3, _MIN32, _MAX32, 0, 11]),
    ("add", "u32", [1, _MAXU32], [2, 1], [3, 0]),
    ("add", "s8", [100, -128, 1], [100, -1, 2], [-56, 127, 3]),
    ("add", "u8", [200, 255, 1], [100, 1, 2], [44, 0, 3]),
    ("add", "s16", [32767, -5], [1, 2], [-32768, -3]),
    ("add", "u16", [65535, 5], [1, 2], [0, 7]),
    ("add", "s64", [_MAX64, 5, 2**40], [1, -6, 2**40], [_MIN64, -1, 2**41]),
    ("add", "u64", [_MAXU64, 5], [1, 6], [0, 11]),
    ("add", "pred", [0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 1]),
    ("subtract", "f32", [1, 0.0, inf, -1, 5], [2.5, 0.0, inf, inf, 3], [-1.5, 0.0, nan, -inf, 2]),
    ("subtract", "f64", [1, 0.3], [2, 0.1], [-1, 0.19999999999999998]),
    ("subtract", "s32", [_MIN32, 5, 0], [1, 7, _MIN32], [_MAX32, -2, _MIN32]),
    ("subtract", "u32", [0, 5], [1, 3], [_MAXU32, 2]),
    ("subtract", "s8", [-128, 5], [1, 7], [127, -2]),
    ("subtract", "u8", [0, 5], [1, 3], [255, 2]),
    ("subtract", "s64", [_MIN64, 5], [1, 7], [_MAX64, -2]),
    ("subtract", "u64", [0, 5], [1, 3], [_MAXU64, 2]),
    ("multiply", "f32", [2, -0.0, inf, 1e30, 0.1, -3], [3, 5, 0, 1e30, 3, inf], [6, -0.0, nan, inf, 0.3, -inf]),
    ("multiply", "f64", [2, 0.1], [3, 3], [6, 0.30000000000000004]),
    ("multiply", "s32", [3, 65536, _MIN32, -4], [5, 65537, -1, 6], [15, 65536, _MIN32, -24]),
    ("multiply", "u32", [3, _MAXU32], [5, _MAXU32], [15, 1]),
    ("multiply", "s8", [16, -3, 127], [16, 5, 127], [0, -15, 1]),
    ("multiply", "u8", [16, 3, 255], [17, 5, 255], [16, 15, 1]),
    ("multiply", "s16", [256, -3], [256, 5], [0, -15]),
    ("multiply", "u16", [256, 3], [257, 5], [256, 15]),
    ("multiply", "s64", [2**33, -3, _MIN64], [2**33, 5, -1], [0, -15, _MIN64]),
    ("multiply", "u64", [2**33, _MAXU64], [2**30, _MAXU64], [2**63, 1]),
    ("multiply", "pred", [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]),
    ("divide", "f32", [1, -1, 0, 7, inf, 1], [0, 0, 0, 2, inf, -inf], [inf, -inf, nan, 3.5, nan, -0.0]),
    ("divide", "f64", [1, 1], [3, 0], [1 / 3, inf]),
    ("divide", "s32", [-7, 7, 7, _MIN32, 5, -5], [2, -2, 2, -1, 0, 0], [-3, -3, 3, _MIN32, -1, -1]),
    ("divide", "u32", [7, _MAXU32, 5, _MAXU32, 3], [2, 3, 0, _MAXU32, _MAXU32], [3, 1431655765, _MAXU32, 1, 0]),
    ("divide", "s8", [-128, -7, 5], [-1, 2, 0], [-128, -3, -1]),
    ("divide", "u8", [255, 7, 5], [2, 3, 0], [127, 2, 255]),
    ("divide", "s64", [_MIN64, -7, 5, 2**40], [-1, 2, 0, 3], [_MIN64, -3, -1, 366503875925]),
    ("divide", "u64", [_MAXU64, 5, 7], [3, 0, 2], [6148914691236517205, _MAXU64, 3]),
    ("remainder", "f32", [5.5, -5.5, 5.5, 1, 3, inf, -6, 1e30], [2, 2, -2, 0, inf, 2, 3, 3],
     [1.5, -1.5, 1.5, nan, 3, nan, -0.0, 0]),
    ("remainder", "f64", [5.5, -5.5, 1e300], [2, 2, 7], [1.5, -1.5, 1]),
    ("remainder", "s32", [-7, 7, _MIN32, 5, -5], [2, -2, -1, 0, 0], [-1, 1, 0, 5, -5]),
    ("remainder", "u32", [7, _MAXU32, 5], [2, 10, 0], [1, 5, 5]),
    ("remainder", "s8", [-128, -7, 5], [-1, 2, 0], [0, -1, 5]),
    ("remainder", "s64", [_MIN64, -7, 5], [-1, 2, 0], [0, -1, 5]),
    ("remainder", "u64", [_MAXU64, 5], [10, 0], [5, 5]),
    ("maximum", "f32", [1, nan, 1, -0.0, 0.0, -inf, 3], [2, 1, nan, 0.0, -0.0, inf, 2],
     [2, nan, nan, 0.0, 0.0, inf, 3]),
    ("maximum", "f64", [1, nan, 1, -0.0, 0.0], [2, 1, nan, 0.0, -0.0], [2, nan, nan, 0.0, 0.0]),
    ("maximum", "s32", [1, _MIN32, -1], [2, _MAX32, -2], [2, _MAX32, -1]),
    ("maximum", "u32", [1, _MAXU32, 2**31], [2, 0, 2**31 - 1], [2, _MAXU32, 2**31]),
    ("maximum", "s8", [-1, 127], [1, -128], [1, 127]),
    ("maximum", "u8", [255, 3], [1, 200], [255, 200]),
    ("maximum", "s64", [-1, _MAX64], [1, 5], [1, _MAX64]),
    ("maximum", "u64", [_MAXU64, 1], [1, 5], [_MAXU64, 5]),
    ("maximum", "pred", [0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 1]),
    ("minimum", "f32", [1, nan, 1, -0.0, 0.0, -inf, 3], [2, 1, nan, 0.0, -0.0, inf, 2],
     [1, nan, nan, -0.0, -0.0, -inf, 2]),
    ("minimum", "f64", [1, nan, 1, -0.0, 0.0], [2, 1, nan, 0.0, -0.0], [1, nan, nan, -0.0, -0.0]),
    ("minimum", "s32", [1, _MIN32, -1], [2, _MAX32, -2], [1, _MIN32, -2]),
    ("minimum", "u32", [1, _MAXU32, 2**31], [2, 0, 2**31 - 1], [1, 0, 2**31 - 1]),
    ("minimum", "s8", [-1, 127], [1, -128], [-1, -128]),
    ("minimum", "u8", [255, 3], [1, 200], [1, 3]),
    ("minimum", "s64", [-1, _MAX64], [1, 5], [-1, 5]),
    ("minimum", "pred", [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]),
    ("power", "s32", [2, 3, 0, 0, 1, -1, -1, 2, -3], [10, 40, -1, 0, -5, -3, -4, -1, 3],
     [1024, 689956897, 0, 1, 1, -1, 1, 0, -27]),
    ("power", "u32", [2, 3, 0], [31, 40, 0], [2**31, 689956897, 1]),
    ("and", "s32", [12, -1], [10, 7], [8, 7]),
    ("and", "u32", [12, _MAXU32], [10, 7], [8, 7]),
    ("and", "s8", [12, -1], [10, 7], [8, 7]),
    ("and", "u8", [12, 255], [10, 7], [8, 7]),
    ("and", "s64", [2**40 + 5, -1], [2**40, 7], [2**40, 7]),
    ("and", "pred", [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]),
    ("or", "s32", [12, -1], [10, 7], [14, -1]),
    ("or", "u8", [12, 128], [10, 7], [14, 135]),
    ("or", "s64", [2**40, 5], [1, 2], [2**40 + 1, 7]),
    ("or", "pred", [0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 1]),
    ("mulhi", "s32", [_MAX32, _MIN32, -1, 100000], [_MAX32, 2, 1, -100000], [2**30 - 1, -1, -1, -3]),
    ("mulhi", "u32", [_MAXU32, 2**31, 5], [_MAXU32, 2, 5], [_MAXU32 - 1, 1, 0]),
    ("mulhi", "s8", [127, -128, -1], [127, 2, 1], [63, -1, -1]),
    ("mulhi", "u8", [255, 16], [255, 16], [254, 1]),
    ("mulhi", "s64", [_MIN64, -1, 2**40], [2, 1, 2**40], [-1, -1, 2**16]),
    ("mulhi", "u64", [_MAXU64, 2**40], [_MAXU64, 2**40], [_MAXU64 - 1, 2**16]),
    ("xor", "s32", [12, -1], [10, 7], [6, -8]),
    ("xor", "u32", [12, _MAXU32], [10, 7], [6, _MAXU32 - 7]),
    ("xor", "u8", [12, 255], [10, 7], [6, 248]),
    ("xor", "u64", [12, _MAXU64], [10, 7], [6, _MAXU64 - 7]),
    ("xor", "pred", [0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]),
    ("shift-left", "s32", [1, 1, 1, -1, 3], [31, 32, -1, 4, 1], [_MIN32, 0, 0, -16, 6]),
    ("shift-left", "u32", [1, 1, 1, 3], [31, 32, _MAXU32, 1], [2**31, 0, 0, 6]),
    ("shift-left", "s8", [1, 1, -1], [7, 8, 4], [-128, 0, -16]),
    ("shift-left", "u8", [1, 1, 255], [7, 8, 4], [128, 0, 240]),
    ("shift-left", "s64", [1, 1, 1], [63, 64, 40], [_MIN64, 0, 2**40]),
    ("shift-left", "u64", [1, 1, 3], [63, 64, 40], [2**63, 0, 3 * 2**40]),
    ("shift-right-logical", "s32", [-1, -8, 8, -1], [28, 1, 32, -1], [15, 2147483644, 0, 0]),
    ("shift-right-logical", "u32", [_MAXU32, 8], [28, 32], [15, 0]),
    ("shift-right-logical", "s8", [-1, -128], [4, 7], [15, 1]),
    ("shift-right-logical", "u8", [255, 128], [4, 8], [15, 0]),
    ("shift-right-logical", "s64", [-1, -1], [60, 64], [15, 0]),
    ("shift-right-logical", "u64", [_MAXU64, _MAXU64], [60, 64], [15, 0]),
    ("shift-right-arithmetic", "s32", [-8, -8, 8, -8, 100], [1, 32, 40, -1, 3], [-4, -1, 0, -1, 12]),
    ("shift-right-arithmetic", "s8", [-128, -128, 64], [3, 8, 3], [-16, -1, 8]),
    ("shift-right-arithmetic", "s64", [-8, -8, 2**40], [1, 64, 38], [-4, -1, 4]),
)  # fmt: skip

_INEXACT_BINARY = (
    ("power", "f32", [2, nan, 1, -1, -2, -0.0, 0, -inf, -inf, 2.5, -2], [0.5, 0, nan, inf, 0.5, -3, -1, 3, -3, 3.7, 3],
     [2**0.5, 1, 1, 1, nan, -inf, inf, -inf, -0.0, 2.5**3.7, -8]),
    ("power", "f64", [2, nan, -2, 2.5], [0.5, 0, 0.5, -3.7], [2**0.5, 1, nan, 2.5**-3.7]),
    ("atan2", "f32", [0, -0.0, 0, -0.0, inf, inf, nan, 1, -1, -3], [0, 0, -0.0, -0.0, inf, -inf, 1, 1, -1, 0.25],
     [0, -0.0, pi, -pi, pi / 4, 3 * pi / 4, nan, pi / 4, -3 * pi / 4, -1.4876550949064553]),
    ("atan2", "f64", [1, -0.0, 2], [1, -0.0, -3], [pi / 4, -pi, 2.5535900500422257]),
)  # fmt: skip

_UNARY = (
    ("abs", "f32", [-1.5, 2, -0.0, -inf, nan], [1.5, 2, 0.0, inf, nan]),
    ("abs", "f64", [-1.5, -0.0], [1.5, 0.0]),
    ("abs", "s32", [-5, 5, _MIN32], [5, 5, _MIN32]),
    ("abs", "s8", [-5, 5, -128], [5, 5, -128]),
    ("abs", "s64", [-5, _MIN64], [5, _MIN64]),
    ("negate", "f32", [1.5, 0.0, -0.0, inf, nan], [-1.5, -0.0, 0.0, -inf, nan]),
    ("negate", "f64", [1.5, 0.0], [-1.5, -0.0]),
    ("negate", "s32", [5, _MIN32, 0], [-5, _MIN32, 0]),
    ("negate", "u32", [5, 0], [2**32 - 5, 0]),
    ("negate", "s8", [5, -128], [-5, -128]),
    ("negate", "u8", [5, 0], [251, 0]),
    ("negate", "s64", [5, _MIN64], [-5, _MIN64]),
    ("sign", "f32", [3, -3, 0.0, -0.0, inf, -inf, nan], [1, -1, 0.0, -0.0, 1, -1, nan]),
    ("sign", "f64", [3, -0.5, -0.0, nan], [1, -1, -0.0, nan]),
    ("sign", "s32", [3, -3, 0, _MIN32], [1, -1, 0, -1]),
    ("sign", "u32", [3, 0, _MAXU32], [1, 0, 1]),
    ("sign", "s8", [3, -3, 0], [1, -1, 0]),
    ("sign", "s64", [2**40, -(2**40), 0], [1, -1, 0]),
    ("not", "pred", [0, 1], [1, 0]),
    ("not", "s32", [0, -1, 5], [-1, 0, -6]),
    ("not", "u32", [0, 5], [_MAXU32, _MAXU32 - 5]),
    ("not", "s8", [0, 5], [-1, -6]),
    ("not", "u8", [0, 5], [255, 250]),
    ("not", "s64", [0, 5], [-1, -6]),
    ("popcnt", "s32", [0, -1, 5, _MIN32], [0, 32, 2, 1]),
    ("popcnt", "u32", [0, _MAXU32, 5], [0, 32, 2]),
    ("popcnt", "s8", [-1, 5], [8, 2]),
    ("popcnt", "u8", [255, 5], [8, 2]),
    ("popcnt", "s64", [-1, 2**40], [64, 1]),
    ("count-leading-zeros", "s32", [0, -1, 5, 1], [32, 0, 29, 31]),
    ("count-leading-zeros", "u32", [0, _MAXU32, 5], [32, 0, 29]),
    ("count-leading-zeros", "s8", [0, -1, 5], [8, 0, 5]),
    ("count-leading-zeros", "u8", [0, 255, 5], [8, 0, 5]),
    ("count-leading-zeros", "s64", [0, -1, 2**40], [64, 0, 23]),
    ("ceil", "f32", [1.2, -1.2, -0.5, -0.0, inf, nan, 3e9], [2, -1, -0.0, -0.0, inf, nan, 3e9]),
    ("ceil", "f64", [1.2, -0.5], [2, -0.0]),
    ("floor", "f32", [1.2, -1.2, 0.5, -0.0, -inf, nan, 3e9], [1, -2, 0.0, -0.0, -inf, nan, 3e9]),
    ("floor", "f64", [1.2, -0.5], [1, -1]),
    ("round-nearest-afz", "f32", [2.5, -2.5, 0.49999997, -0.3, 0.5, -0.0, inf, nan, 8388609.0, 1.4],
     [3, -3, 0, -0.0, 1, -0.0, inf, nan, 8388609.0, 1]),
    ("round-nearest-afz", "f64", [2.5, -2.5, 0.49999999999999994], [3, -3, 0]),
    ("round-nearest-even", "f32", [2.5, -2.5, 0.5, -0.5, 1.5, -0.0, inf, nan], [2, -2, 0, -0.0, 2, -0.0, inf, nan]),
    ("round-nearest-even", "f64", [2.5, 3.5, -0.5], [2, 4, -0.0]),
    ("sqrt", "f32", [4, 2, 0.0, -0.0, -1, inf, nan], [2, 2**0.5, 0.0, -0.0, nan, inf, nan]),
    ("sqrt", "f64", [4, 2, -0.0, -1], [2, 2**0.5, -0.0, nan]),
    ("real", "f32", [1.5, -0.0, nan], [1.5, -0.0, nan]),
    ("imag", "f32", [1.5, -0.0, nan], [0, 0, 0]),
)  # fmt: skip

_INEXACT_UNARY = (
    ("rsqrt", "f32", [4, 2, 0.0, -0.0, -1, inf, nan], [0.5, 0.5**0.5, inf, -inf, nan, 0, nan]),
    ("rsqrt", "f64", [4, 2, 0.0, inf], [0.5, 0.5**0.5, inf, 0]),
    ("cbrt", "f32", [8, -8, 2, -0.0, inf, nan], [2, -2, 2 ** (1 / 3), -0.0, inf, nan]),
    ("cbrt", "f64", [8, -8, 2, -0.0], [2, -2, 2 ** (1 / 3), -0.0]),
    ("exponential", "f32", [0, 1, -1, 10, -inf, inf, nan, 89, -104, 0.5, -0.0],
     [1, 2.718281828459045, 0.36787944117144233, 22026.465794806718, 0, inf, nan, inf, 0, 1.6487212707001282, 1]),
    ("exponential", "f64", [0, 1, -700, 710, -inf, nan], [1, 2.718281828459045, 9.85967654375977e-305, inf, 0, nan]),
    ("exponential-minus-one", "f32", [0, -0.0, 1e-10, 1, -1, -inf, inf, nan, 100],
     [0, -0.0, 1e-10, 1.718281828459045, -0.6321205588285577, -1, inf, nan, inf]),
    ("exponential-minus-one", "f64", [1e-20, 1, -50], [1e-20, 1.718281828459045, -1]),
    ("log", "f32", [1, 2.718281828459045, 0.0, -0.0, -1, inf, nan, 10, 0.5],
     [0, 0.9999999695429586, -inf, -inf, nan, inf, nan, 2.302585092994046, -0.6931471805599453]),
    ("log", "f64", [1, 10, 0.0, -1, 1e-300], [0, 2.302585092994046, -inf, nan, -690.7755278982137]),
    ("log-plus-one", "f32", [0, -0.0, 1e-10, 1, -1, -2, inf, nan],
     [0, -0.0, 1e-10, 0.6931471805599453, -inf, nan, inf, nan]),
    ("log-plus-one", "f64", [1e-20, 1, -1], [1e-20, 0.6931471805599453, -inf]),
    ("sine", "f32", [0, -0.0, 1, -1, 100, 1e10, inf, nan],
     [0, -0.0, 0.8414709848078965, -0.8414709848078965, -0.5063656411097588, -0.48750602508751067, nan, nan]),
    ("sine", "f64", [1, 1e22, inf], [0.8414709848078965, -0.8522008497671888, nan]),
    ("cosine", "f32", [0, -0.0, 1, 100, 1e10, inf, nan],
     [1, 1, 0.5403023058681398, 0.8623188722876839, 0.8731196226768561, nan, nan]),
    ("cosine", "f64", [1, 1e22, inf], [0.5403023058681398, 0.5232147853951389, nan]),
    ("tan", "f32", [0, -0.0, 1, -1, inf, nan], [0, -0.0, 1.5574077246549023, -1.5574077246549023, nan, nan]),
    ("tan", "f64", [1, inf], [1.5574077246549023, nan]),
    ("tanh", "f32", [0, -0.0, 0.5, -1, 20, -20, inf, -inf, nan, 1e-4],
     [0, -0.0, 0.46211715726000973, -0.7615941559557649, 1, -1, 1, -1, nan, 9.99999974737875e-05]),
    ("tanh", "f64", [0.5, -0.0, 30], [0.46211715726000973, -0.0, 1]),
    ("logistic", "f32", [0, 1, -1, inf, -inf, nan, 20, -20],
     [0.5, 0.7310585786300049, 0.2689414213699951, 1, 0, nan, 0.9999999979388463, 2.0611536181902037e-09]),
    ("logistic", "f64", [0, 1, -30], [0.5, 0.7310585786300049, 9.357622968839299e-14]),
    ("erf", "f32", [0, -0.0, 0.5, -1, 4, inf, -inf, nan],
     [0, -0.0, 0.5204998778130465, -0.8427007929497148, 0.9999999845827421, 1, -1, nan]),
    ("erf", "f64", [0.5, -1, 3], [0.5204998778130465, -0.8427007929497148, 0.9999779095030014]),
    ("acos", "f32", [1.0, 0.5, 0.0, -0.25, -1.0, 2.0, nan],
     [0.0, 1.0471975511965979, 1.5707963267948966, 1.8234765819369754, 3.141592653589793, nan, nan]),
    ("acos", "f64", [0.5, -1.0], [1.0471975511965979, 3.141592653589793]),
    ("asin", "f32", [0.0, -0.0, 0.5, -1.0, 2.0, nan], [0.0, -0.0, 0.5235987755982989, -1.5707963267948966, nan, nan]),
    ("asin", "f64", [0.5, -1.0], [0.5235987755982989, -1.5707963267948966]),
    ("atan", "f32", [0.0, -0.0, 0.5, -3.0, inf, -inf, nan],
     [0.0, -0.0, 0.4636476090008061, -1.2490457723982544, 1.5707963267948966, -1.5707963267948966, nan]),
    ("atan", "f64", [0.5, -3.0], [0.4636476090008061, -1.2490457723982544]),
    ("acosh", "f32", [1.0, 1.5, 100.0, 0.5, inf, nan], [0.0, 0.9624236501192069, 5.298292365610484, nan, inf, nan]),
    ("acosh", "f64", [1.5, 10000000000.0], [0.9624236501192069, 23.7189981105004]),
    ("asinh", "f32", [0.0, -0.0, 0.5, -100.0, inf, -inf, nan],
     [0.0, -0.0, 0.48121182505960347, -5.298342365610589, inf, -inf, nan]),
    ("asinh", "f64", [0.5, -10000000000.0], [0.48121182505960347, -23.7189981105004]),
    ("atanh", "f32", [0.0, -0.0, 0.5, -0.25, 1.0, -1.0, 2.0, nan],
     [0.0, -0.0, 0.5493061443340548, -0.25541281188299536, inf, -inf, nan, nan]),
    ("atanh", "f64", [0.5, -0.25], [0.5493061443340548, -0.25541281188299536]),
    ("cosh", "f32", [0.0, 0.5, -1.0, 100.0, inf, -inf, nan],
     [1.0, 1.1276259652063807, 1.5430806348152437, 1.3440585709080678e43, inf, inf, nan]),
    ("cosh", "f64", [0.5, -10.0], [1.1276259652063807, 11013.232920103324]),
    ("sinh", "f32", [0.0, -0.0, 0.5, -1.0, inf, -inf, nan],
     [0.0, -0.0, 0.5210953054937474, -1.1752011936438014, inf, -inf, nan]),
    ("sinh", "f64", [0.5, -10.0], [0.5210953054937474, -11013.232874703393]),
)  # fmt: skip


_NOT_IN_STABLEHLO = {
    ("sign", "u32"): "StableHLO, through which XLA is reached, has no sign of unsigned integers",
    ("real", "f32"): "StableHLO has real and imag of complex numbers only",
    ("imag", "f32"): "StableHLO has real and imag of complex numbers only",
}
_NOT_ON_CPU = dict.fromkeys(
    ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "mulhi"), "XLA:CPU 0.10.2 does not run it"
)

_DIRECTIONS = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}


def _comparisons() -> list[Sample]:
    """All directions on all types: below, equal, above, and what is unordered."""
    samples = []
    pairs: dict[str, tuple[list[Any], list[Any]]] = {
        "f32": ([1, 2, 3, -0.0, -inf, nan, 1, nan], [2, 2, 2, 0.0, inf, 1, nan, nan]),
        "f64": ([1, 2, 3, -0.0, nan], [2, 2, 2, 0.0, nan]),
        "s32": ([_MIN32, 2, 3, -1], [2, 2, _MIN32, 0]),
        "u32": ([1, 2, _MAXU32, 2**31], [2, 2, 0, 2**31 - 1]),
        "s8": ([-128, 2, 3], [2, 2, -1]),
        "u8": ([1, 2, 255], [2, 2, 127]),
        "s16": ([-300, 2, 300], [2, 2, -1]),
        "u16": ([1, 2, 65535], [2, 2, 300]),
        "s64": ([_MIN64, 2, 2**40], [2, 2, 1]),
        "u64": ([1, 2, _MAXU64], [2, 2, 1]),
        "pred": ([0, 1, 1, 0], [1, 1, 0, 0]),
    }
    for element_type, (left, right) in pairs.items():
        for direction, fn in _DIRECTIONS.items():
            expected = pred([fn(x, y) for x, y in zip(left, right)])
            samples.append(
                case(
                    "compare",
                    (array(element_type, left), array(element_type, right)),
                    expected,
                    name=direction,
                    direction=direction,
                )
            )
    # each with its successor in total order, the greatest with the least
    order = [-nan, -inf, -1, -0.0, 0.0, 1, inf, nan]
    for element_type in ("f32", "f64"):
        x, y = array(element_type, order), array(element_type, [*order[1:], order[0]])
        for direction, truth in (("LT", [1] * 7 + [0]), ("GE", [0] * 7 + [1]), ("EQ", [0] * 8)):
            samples.append(
                case(
                    "compare",
                    (x, y),
                    pred(truth),
                    name=f"{direction} total order",
                    direction=direction,
                    type="TOTALORDER",
                )
            )
    return samples


_CONVERT = (
    ("f32", "s32", [1.9, -1.9, 3e9, -3e9, nan, inf, -inf, 2147483520],
     [1, -1, _MAX32, _MIN32, 0, _MAX32, _MIN32, 2147483520]),
    ("f32", "u32", [1.9, -1.9, 3e9, 5e9, nan], [1, 0, 3000000000, _MAXU32, 0]),
    ("f32", "s8", [127.9, 300, -3e9, -1.9, nan], [127, 127, -128, -1, 0]),
    ("f32", "u8", [-1.9, 300, 254.5, nan], [0, 255, 254, 0]),
    ("f32", "s16", [1e6, -1e6, 5.5], [32767, -32768, 5]),
    ("f32", "u16", [1e6, -1e6, 5.5], [65535, 0, 5]),
    ("f32", "s64", [1e20, -1e20, 1.9, nan], [_MAX64, _MIN64, 1, 0]),
    ("f32", "u64", [1e20, -1, 1.9, nan], [_MAXU64, 0, 1, 0]),
    ("f32", "pred", [0.0, -0.0, 1, nan, 0.5], [0, 0, 1, 1, 1]),
    ("f32", "f64", [1.5, inf, -0.0, nan], [1.5, inf, -0.0, nan]),
    ("f32", "f16", [1.5, 65520, 1e-8, nan, 2049], [1.5, inf, 0, nan, 2048]),
    ("f32", "bf16", [1.5, 3.4e38, 257, nan], [1.5, inf, 256, nan]),
    ("f64", "f32", [0.1, 1e300, -0.0, nan], [0.1, inf, -0.0, nan]),
    ("f64", "s32", [1.9, 3e9, -3e9, nan], [1, _MAX32, _MIN32, 0]),
    ("f64", "s64", [1.9, 1e20, -1e20, nan], [1, _MAX64, _MIN64, 0]),
    ("f64", "u8", [1.9, 300, -1], [1, 255, 0]),
    ("f64", "u64", [1.9, 1e20, 2.0**63], [1, _MAXU64, 2**63]),
    ("f64", "pred", [0.0, -0.0, 1, nan], [0, 0, 1, 1]),
    ("s32", "f32", [16777217, -5, _MIN32, 0], [16777216, -5, -2147483648.0, 0]),
    ("s32", "f64", [16777217, -5], [16777217, -5]),
    ("s32", "s8", [300, -129, 5], [44, 127, 5]),
    ("s32", "u8", [300, -1, 5], [44, 255, 5]),
    ("s32", "s16", [70000, -5], [4464, -5]),
    ("s32", "u16", [70000, -5], [4464, 65531]),
    ("s32", "s64", [-5, _MAX32], [-5, _MAX32]),
    ("s32", "u64", [-5, 5], [_MAXU64 - 4, 5]),
    ("s32", "u32", [-5, 5], [_MAXU32 - 4, 5]),
    ("s32", "pred", [0, -5, 256], [0, 1, 1]),
    ("u32", "f32", [_MAXU32, 16777217, 5], [4294967296.0, 16777216, 5]),
    ("u32", "f64", [_MAXU32, 5], [4294967295.0, 5]),
    ("u32", "s32", [_MAXU32, 5], [-1, 5]),
    ("u32", "s64", [_MAXU32, 5], [_MAXU32, 5]),
    ("u32", "u8", [300, 5], [44, 5]),
    ("u8", "f32", [255, 5], [255, 5]),
    ("u8", "s32", [255, 5], [255, 5]),
    ("u8", "u32", [255, 5], [255, 5]),
    ("u8", "s8", [255, 5], [-1, 5]),
    ("s8", "f32", [-128, 5], [-128, 5]),
    ("s8", "s32", [-128, 5], [-128, 5]),
    ("s8", "u32", [-128, 5], [2**32 - 128, 5]),
    ("s8", "u8", [-1, 5], [255, 5]),
    ("s16", "s32", [-300, 5], [-300, 5]),
    ("u16", "f32", [65535, 5], [65535, 5]),
    ("s64", "f32", [2**40 + 1, -5, 2**24 + 1], [2**40, -5, 2**24]),
    ("s64", "f64", [2**53 + 1, -5], [2**53, -5]),
    ("s64", "s32", [2**40 + 7, -5], [7, -5]),
    ("s64", "u8", [300, -5], [44, 251]),
    ("s64", "pred", [2**40, 0], [1, 0]),
    ("u64", "f32", [_MAXU64, 5], [2.0**64, 5]),
    ("u64", "f64", [_MAXU64, 5], [2.0**64, 5]),
    ("u64", "u32", [2**40 + 7, 5], [7, 5]),
    ("pred", "f32", [0, 1], [0, 1]),
    ("pred", "f64", [0, 1], [0, 1]),
    ("pred", "s32", [0, 1], [0, 1]),
    ("pred", "u8", [0, 1], [0, 1]),
    ("pred", "s64", [0, 1], [0, 1]),
    ("f16", "f32", [1.5, inf, -0.0, nan], [1.5, inf, -0.0, nan]),
    ("bf16", "f32", [1.5, inf, -0.0, nan], [1.5, inf, -0.0, nan]),
)  # fmt: skip


def _choices() -> list[Sample]:
    samples = []
    for element_type in ("f32", "f64", "s32", "u32", "s8", "u8", "s16", "u16", "s64", "u64", "pred"):
        a, b = ([1, 0, 1, 0, 1], [0, 0, 1, 1, 0]) if element_type == "pred" else ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
        choose = [1, 0, 0, 1, 1]
        expected = array(element_type, [x if p else y for p, x, y in zip(choose, a, b)])
        samples.append(case("select", (pred(choose), array(element_type, a), array(element_type, b)), expected))
    samples.append(
        case("select", (pred(False), f32([1, nan, 3]), f32([4, 5, -0.0])), f32([4, 5, -0.0]), name="scalar predicate")
    )
    samples.append(case("select", (pred([0, 1]), f32([nan, nan]), f32([1, 2])), f32([1, nan]), name="NaN not chosen"))
    for element_type in ("f32", "f64"):
        low, x, high = ([0, 0, 0, 8, nan, 0, 0], [-1, 0.5, 9, 5, 1, nan, 1], [1, 1, 1, 2, 2, 1, nan])
        expected = array(element_type, [0, 0.5, 1, 2, nan, nan, nan])
        samples.append(case("clamp", tuple(array(element_type, v) for v in (low, x, high)), expected))
    for element_type in ("s32", "s8", "s64"):
        args = tuple(array(element_type, v) for v in (-2, [-5, 0, 7, -2, 3], 3))
        samples.append(case("clamp", args, array(element_type, [-2, 0, 3, -2, 3]), name="scalar bounds"))
    for element_type in ("u32", "u8"):
        args = tuple(array(element_type, v) for v in (2, [0, 3, 200], 5))
        samples.append(case("clamp", args, array(element_type, [2, 3, 5]), name="scalar bounds"))
    samples.append(
        case("clamp", (f32(-1), f32([-3, 0.5, nan, 7]), f32(1)), f32([-1, 0.5, nan, 1]), name="scalar bounds")
    )
    return samples


def _others() -> list[Sample]:
    reduce_precision = (
        ("e5m10", [65519, 65520, 3e-5, 1.00048828125, nan, -inf, -0.0], [65504, inf, 0, 1, nan, -inf, -0.0], 5, 10),
        ("e2m3", [4, 0.5, 1.0625, 1.1875, -1], [inf, 0, 1, 1.25, -1], 2, 3),
        ("m0", [1.75, 1.25, -1.75], [2, 1, -2], 8, 0),
        ("e8m7", [257, 3.4e38, 1.00390625], [256, inf, 1], 8, 7),
    )
    literal = f32([[1, 2.5, -0.0], [inf, 3, nan]])
    return [
        *(
            case("is-finite", (array(t, [1, inf, -inf, nan, -0.0, 3e38]),), pred([1, 0, 0, 0, 1, 1]))
            for t in ("f32", "f64")
        ),
        *(
            case("reduce-precision", (f32(x),), f32(y), name=name, exponent_bits=e, mantissa_bits=m)
            for name, x, y, e, m in reduce_precision
        ),
        case(
            "bitcast-convert", (f32([1, -0.0, -2]),), u32([0x3F800000, 0x80000000, 0xC0000000]), shape=shape("u32[3]")
        ),
        case("bitcast-convert", (s32([0x3F800000, _MIN32]),), f32([1, -0.0]), shape=shape("f32[2]")),
        case("bitcast-convert", (f64([1]),), array("s64", [0x3FF0000000000000]), shape=shape("s64[1]")),
        case(
            "bitcast-convert",
            (u32([0x04030201, 0x08070605]),),
            u8([[1, 2, 3, 4], [5, 6, 7, 8]]),
            shape=shape("u8[2,4]"),
        ),
        case(
            "bitcast-convert", (u8([[1, 2, 3, 4], [5, 6, 7, 8]]),), u32([0x04030201, 0x08070605]), shape=shape("u32[2]")
        ),
        case("bitcast-convert", (f64([1, -2]),), u32([[0, 0x3FF00000], [0, 0xC0000000]]), shape=shape("u32[2,2]")),
        case("bitcast-convert", (s8([-1, 5]),), u8([255, 5]), shape=shape("u8[2]")),
        case("iota", (), s32([0, 1, 2, 3, 4, 5, 6]), shape=shape("s32[7]"), iota_dimension=0),
        case("iota", (), f32([[0, 1, 2], [0, 1, 2]]), shape=shape("f32[2,3]"), iota_dimension=1, name="columns"),
        case("iota", (), f32([[0, 0, 0], [1, 1, 1]]), shape=shape("f32[2,3]"), iota_dimension=0, name="rows"),
        case("iota", (), np.arange(200).astype(np.int8), shape=shape("s8[200]"), iota_dimension=0, name="wraps"),
        *(
            case("iota", (), array(t, [0, 1, 2, 3, 4]), shape=shape(f"{t}[5]"), iota_dimension=0)
            for t in ("u8", "u32", "s64", "u64", "f64")
        ),
        case("iota", (), f32(np.zeros((3, 0))), shape=shape("f32[3,0]"), iota_dimension=0, name="empty"),
        program("constant", (), literal, lambda b: b.constant(shape("f32[2,3]"), literal.reshape(-1).tolist())),
        program("constant", (), s32(7), lambda b: b.constant(shape("s32"), [7]), name="scalar"),
        program(
            "constant", (), f32(np.full((3, 5), 2.5)), lambda b: b.constant(shape("f32[3,5]"), [2.5] * 15), name="splat"
        ),
        program("constant", (), pred([1, 0, 1]), lambda b: b.constant(shape("pred[3]"), [True, False, True])),
        program("constant", (), f32([]), lambda b: b.constant(shape("f32[0]"), []), name="empty"),
        *(
            program("constant", (), array(t, [1, 2, 100]), lambda b, t=t: b.constant(shape(f"{t}[3]"), [1, 2, 100]))
            for t in ("s8", "u8", "s16", "u16", "s64", "u64", "f64")
        ),
        case("add", (f32(np.zeros((0, 3))), f32(np.zeros((0, 3)))), f32(np.zeros((0, 3))), name="empty"),
        case("add", (f32(1), f32(2)), f32(3), name="scalar"),
        case(
            "add",
            (np.arange(35, dtype=np.float32).reshape(5, 7), f32(np.ones((5, 7)))),
            np.arange(1, 36, dtype=np.float32).reshape(5, 7),
            name="odd size",
        ),
        case("exponential", (f32([]),), f32([]), name="empty"),
    ]


_TENTHS = f32([0, 1.7, 3.4, 5.1, 6.8, 8.5, 10.2, 11.9, 13.6, 15.3])

SAMPLES: tuple[Sample, ...] = (
    *(
        case(op, (array(t, x), array(t, y)), array(t, expected), xla=_NOT_ON_CPU.get(op, ""))
        for op, t, x, y, expected in _BINARY
    ),
    *(case(op, (array(t, x), array(t, y)), array(t, expected), ulp=2) for op, t, x, y, expected in _INEXACT_BINARY),
    *(
        case(op, (array(t, x),), array(t, expected), xla=_NOT_IN_STABLEHLO.get((op, t), ""))
        for op, t, x, expected in _UNARY
    ),
    *(
        case(op, (array(t, x),), array(t, expected), ulp=2, xla=_NOT_ON_CPU.get(op, ""))
        for op, t, x, expected in _INEXACT_UNARY
    ),
    *_comparisons(),
    *(
        case("convert", (array(s, x),), array(t, expected), name=f"to {t}", shape=shape(f"{t}[{len(x)}]"))
        for s, t, x, expected in _CONVERT
    ),
    *_choices(),
    *_others(),
    *NARROW_SAMPLES,
    *COMPLEX_SAMPLES,
    program("clamp", (s32([-1, 5, 9]),), s32([0, 5, 6]),
        lambda b, x: b.op("clamp", b.constant(shape("s32"), [0]), x, b.constant(shape("s32"), [6])),
        name="constant scalar bounds"),
    case("convert", (s32([0, 1, 2]),), f32([0, 1, 2]), name="small", shape=shape("f32[3]")),
    program("iota", (), s32(np.indices((4, 8))[0]), lambda b: b.op("iota", shape=shape("s32[4,8]"), iota_dimension=0),
        name="rows"),
    program("iota", (), s32(np.indices((4, 8))[1]), lambda b: b.op("iota", shape=shape("s32[4,8]"), iota_dimension=1),
        name="columns"),
    case("bitcast-convert", (_TENTHS,), _TENTHS.view(np.float16).reshape(10, 2), name="halves",
        shape=shape("f16[10,2]")),
    case("bitcast-convert", (_TENTHS.view(np.float16).reshape(10, 2),), _TENTHS, name="of halves",
        shape=shape("f32[10]")),
)  # fmt: skip
