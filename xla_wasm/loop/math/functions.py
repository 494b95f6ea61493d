"""The table of elementary functions."""

from __future__ import annotations

from collections.abc import Callable

from ..builder import Builder
from ..ir import Val
from .algebraic import cbrt, remainder, round_nearest_afz, rsqrt
from .exponential import cosh, erf, exp, expm1, logistic, sinh, tanh_f32, tanh_f64
from .logarithm import acosh, asinh, atanh, log, log1p, power
from .logarithm import log1p_of_fraction as _log1p_of_fraction
from .number import Number
from .trigonometric import acos, asin, atan, atan2, cos, sin, tan

_EITHER: dict[str, Callable[..., Number]] = {
    "cosine": cos,
    "erf": erf,
    "exponential": exp,
    "exponential-minus-one": expm1,
    "log": log,
    "log-plus-one": log1p,
    "logistic": logistic,
    "round-nearest-afz": round_nearest_afz,
    "rsqrt": rsqrt,
    "sine": sin,
}

_SINGLE: dict[str, Callable[..., Number]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atan2": atan2,
    "atanh": atanh,
    "cbrt": cbrt,
    "cosh": cosh,
    "power": power,
    "remainder": remainder,
    "sinh": sinh,
    "tan": tan,
}
"""The functions of f32 that f64 has C functions for."""

_SYMBOLS = {"power": "pow", "remainder": "fmod"}

CALLED = {opcode: f"xw_{_SYMBOLS.get(opcode, opcode)}_f64" for opcode in _SINGLE}
"""The functions of f64 that are C functions and nothing else."""


def _called(symbol: str) -> Callable[..., Number]:
    """The C function of scalars, for each lane."""

    def function(*operands: Number) -> Number:
        b = operands[0].b
        return Number(b, b.call(symbol, *(o.x for o in operands)))

    return function


FUNCTIONS: dict[str, dict[str, Callable[..., Number]]] = {
    "f32": {**_EITHER, **_SINGLE, "tanh": tanh_f32},
    "f64": {**_EITHER, **{opcode: _called(symbol) for opcode, symbol in CALLED.items()}, "tanh": tanh_f64},
}
"""Type -> opcode -> function."""


def function(b: Builder, opcode: str, *operands: Val) -> Val:
    """The function of an opcode, of operands of a type that has it in `FUNCTIONS`."""
    return FUNCTIONS[operands[0].dtype][opcode](*(Number(b, x) for x in operands)).x


def log1p_of_fraction(b: Builder, x: Val) -> Val:
    """log1p for 0 <= x <= 1 in f32, and NaN."""
    return _log1p_of_fraction(Number(b, x)).x
