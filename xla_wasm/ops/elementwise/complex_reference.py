"""NumPy semantics of complex elementwise functions, in the widest floats that the platform has.

Infinities, NaN and the signs of zeros are XLA:CPU's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dtypes import Array


def _parts(z: Array) -> tuple[Array, Array]:
    return z.real.astype(np.longdouble), z.imag.astype(np.longdouble)


def _joined(re: Array, im: Array) -> Array:
    result = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), np.clongdouble)
    result.real, result.imag = re, im
    return result


def _unless_nan(z: Array, result: Array) -> Array:
    return np.where(np.isnan(z.real) | np.isnan(z.imag), complex(np.nan, np.nan), result)


def absolute(z: Array) -> Array:
    """The magnitude; NaN if either part is."""
    return _size(*_parts(z))


def _size(x: Array, y: Array) -> Array:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.hypot(x, y))


def _sign(z: Array) -> Array:
    x, y = _parts(z)
    size = _size(x, y)
    return np.where(size == 0, z, _joined(x / size, y / size))


def _sqrt(z: Array) -> Array:
    x, y = _parts(z)
    return _unless_nan(z, np.sqrt(_joined(x, y + 0.0)))


def _rsqrt(z: Array) -> Array:
    x, y = _parts(z)
    root, size = np.sqrt(_joined(x, -y)), _size(x, y)
    result = np.where(size == 0, complex(np.inf, np.nan), _joined(root.real / size, root.imag / size))
    return np.where(np.isinf(x) | np.isinf(y), _joined(np.zeros_like(x), np.copysign(0, -y)), _unless_nan(z, result))


def _or_zero(y: Array, im: Array) -> Array:
    return np.where(y == 0, 0, im)


def _exp(z: Array) -> Array:
    x, y = _parts(z)
    return _joined(np.exp(x) * np.cos(y), _or_zero(y, np.exp(x) * np.sin(y)))


def _expm1(z: Array) -> Array:
    x, y = _parts(z)
    return _joined(np.expm1(x) * np.cos(y) - 2 * np.sin(y / 2) ** 2, _or_zero(y, np.exp(x) * np.sin(y)))


def _log_size(x: Array, y: Array, excess: Array) -> Array:
    """log |x + iy|, where it is small by the excess of the square over 1."""
    size = _size(x, y)
    return np.where(np.abs(size - 1) < 0.5, np.log1p(excess) / 2, np.log(size))


def log(z: Array) -> Array:
    """The principal logarithm."""
    x, y = _parts(z)
    a, c = np.maximum(np.abs(x), np.abs(y)), np.minimum(np.abs(x), np.abs(y))
    return _unless_nan(z, _joined(_log_size(x, y, (a - 1) * (a + 1) + c * c), np.arctan2(y, x)))


def _log1p(z: Array) -> Array:
    x, y = _parts(z)
    moved = 1 + x
    near = (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    a, c = np.maximum(np.abs(moved), np.abs(y)), np.minimum(np.abs(moved), np.abs(y))
    excess = np.where(near, x * (2 + x) + y * y, (a - 1) * (a + 1) + c * c)
    return _unless_nan(z, _joined(_log_size(moved, y, excess), np.arctan2(y, moved)))


def _logistic(z: Array) -> Array:
    x, y = _parts(z)
    s, rest, cosine = np.exp(-np.abs(x)), -np.expm1(-np.abs(x)), 2 * np.cos(y / 2) ** 2
    below = rest * rest + 2 * s * cosine
    return _joined(np.where(x >= 0, rest + s * cosine, s * (cosine - rest)) / below, s * np.sin(y) / below)


def _sinh_by(y: Array, negative: Array) -> Array:
    """sinh |y|, negated where it says so."""
    return np.where(negative, -np.sinh(np.abs(y)), np.sinh(np.abs(y)))


def _sin(z: Array) -> Array:
    x, y = _parts(z)
    return _joined(np.sin(x) * np.cosh(y), np.cos(x) * _sinh_by(y, y < 0))


def _cos(z: Array) -> Array:
    x, y = _parts(z)
    return _joined(np.cos(x) * np.cosh(y), np.sin(x) * _sinh_by(y, y > 0))


def _turned(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """-i fn(iz)."""

    def turned(z: Array) -> Array:
        result = fn(_joined(-z.imag, z.real))
        return _joined(result.imag, -result.real)

    return turned


def _cosh(z: Array) -> Array:
    return _cos(_joined(-z.imag, z.real))


def _tanh(z: Array) -> Array:
    x, y = _parts(z)
    sinh, cosh = (fn(np.minimum(np.abs(x), 350)) for fn in (np.sinh, np.cosh))
    below = sinh**2 + np.cos(y) ** 2
    re = np.where(np.isinf(x), 1, sinh * cosh / below)
    return _joined(np.copysign(re, x), np.where(np.isinf(x), 0, _or_zero(y, np.sin(y) * np.cos(y) / below)))


def divide(z: Array, w: Array) -> Array:
    """C99's quotient."""
    (p, q), (u, v) = _parts(z), _parts(w)
    below = u * u + v * v
    plain = _joined((p * u + q * v) / below, (q * u - p * v) / below)

    def boxed(x: Array) -> Array:
        return np.copysign(np.where(np.isinf(x), 1.0, 0.0), x)

    infinite = [np.isinf(a) | np.isinf(c) for a, c in ((p, q), (u, v))]
    finite = [np.isfinite(a) & np.isfinite(c) for a, c in ((p, q), (u, v))]
    grows, vanishes = infinite[0] & finite[1], finite[0] & infinite[1]
    pole = np.copysign(np.inf, u)
    special = np.where((u == 0) & (v == 0), _joined(pole * p, pole * q), np.nan * plain)
    a, c, f, g = boxed(p), boxed(q), boxed(u), boxed(v)
    special = np.where(
        grows,
        np.where((u == 0) & (v == 0), special, _joined(np.inf * (a * u + c * v), np.inf * (c * u - a * v))),
        special,
    )
    special = np.where(vanishes, _joined(0 * (p * f + q * g), 0 * (q * f - p * g)), special)
    return np.where(np.isnan(plain.real) & np.isnan(plain.imag), special, plain)


def power(z: Array, w: Array) -> Array:
    """e^(w log z)."""
    (x, y), (u, v), logarithm = _parts(z), _parts(w), log(z)
    result = _exp(_joined(u * logarithm.real - v * logarithm.imag, u * logarithm.imag + v * logarithm.real))
    real = (v == 0) & (y == 0)
    result = np.where(real & (x == 0) & (u > 0), 0, result)
    result = np.where(real & (x == np.inf) & ~np.isnan(u), np.where(u > 0, complex(np.inf, 0), 0), result)
    return np.where(((u == 0) & (v == 0)) | ((x == 1) & (y == 0)), 1, result)


def atan2(y: Array, x: Array) -> Array:
    """-i log((x + iy) / sqrt(x^2 + y^2))."""
    a, c = y.astype(np.clongdouble), x.astype(np.clongdouble)
    moved = _joined(c.real - a.imag, c.imag + a.real)
    result = log(divide(moved, _sqrt(c * c + a * a)))
    return _joined(result.imag, -result.real)


UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": absolute,
    "sign": _sign,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "exponential": _exp,
    "exponential-minus-one": _expm1,
    "log": log,
    "log-plus-one": _log1p,
    "logistic": _logistic,
    "sine": _sin,
    "cosine": _cos,
    "tan": _turned(_tanh),
    "tanh": _tanh,
    "sinh": _turned(_sin),
    "cosh": _cosh,
    "acos": lambda z: np.arccos(z.astype(np.clongdouble)),
    "acosh": lambda z: np.arccosh(z.astype(np.clongdouble)),
    "asin": lambda z: np.arcsin(z.astype(np.clongdouble)),
    "asinh": lambda z: np.arcsinh(z.astype(np.clongdouble)),
    "atan": lambda z: np.arctan(z.astype(np.clongdouble)),
    "atanh": lambda z: np.arctanh(z.astype(np.clongdouble)),
}

BINARY: dict[str, Callable[[Array, Array], Array]] = {"divide": divide, "power": power, "atan2": atan2}
