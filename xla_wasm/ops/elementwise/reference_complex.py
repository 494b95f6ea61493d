"""NumPy semantics of complex elementwise functions, in the widest floats that the platform has.

Infinities, NaN and the signs of zeros are those of C99 where that has the function, as in NumPy, else XLA:CPU's.
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


def _rsqrt(z: Array) -> Array:
    x, y = _parts(z)
    root, size = np.sqrt(_joined(x, -y)), _size(x, y)
    result = np.where(size == 0, complex(np.inf, np.nan), _joined(root.real / size, root.imag / size))
    return np.where(np.isinf(x) | np.isinf(y), _joined(np.zeros_like(x), np.copysign(0, -y)), _unless_nan(z, result))


def _at_limits(z: Array, re: Array, im: Array, least: float) -> Array:
    """As C99 has it of the exponential: real on the real line, and an infinite real part says all where the other is no
    number."""
    x, y = _parts(z)
    limited = np.isinf(x) & ~np.isfinite(y)
    re = np.where(limited, np.where(x > 0, x, least), re)
    return _joined(re, np.where(y == 0, y, np.where(limited, np.where(x > 0, np.nan, 0), im)))


def _expm1(z: Array) -> Array:
    x, y = _parts(z)
    re, im = np.expm1(x) * np.cos(y) - 2 * np.sin(y / 2) ** 2, np.exp(x) * np.sin(y)
    return _at_limits(z, re, im, -1)


def log(z: Array) -> Array:
    """The principal logarithm."""
    return np.log(z.astype(np.clongdouble))


def _log1p(z: Array) -> Array:
    x, y = _parts(z)
    moved = _joined(1 + x, y)
    near = (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    return np.where(
        near, _joined(np.log1p(np.where(near, x * (2 + x) + y * y, 0)) / 2, np.arctan2(y, 1 + x)), log(moved)
    )


def _logistic(z: Array) -> Array:
    x, y = _parts(z)
    s, rest, cosine = np.exp(-np.abs(x)), -np.expm1(-np.abs(x)), 2 * np.cos(y / 2) ** 2
    below = rest * rest + 2 * s * cosine
    return _joined(np.where(x >= 0, rest + s * cosine, s * (cosine - rest)) / below, s * np.sin(y) / below)


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
    (x, y), (u, v), angle = _parts(z), _parts(w), np.arctan2(z.imag, z.real, dtype=np.longdouble)
    size = np.where(np.isnan(x) | np.isnan(y), np.nan, log(z).real)
    re, im = u * size - v * angle, u * angle + v * size
    result = _joined(np.exp(re) * np.cos(im), np.where(im == 0, 0, np.exp(re) * np.sin(im)))
    real = (v == 0) & (y == 0)
    result = np.where(real & (x == 0) & (u > 0), 0, result)
    result = np.where(real & (x == np.inf) & ~np.isnan(u), np.where(u > 0, complex(np.inf, 0), 0), result)
    return np.where(((u == 0) & (v == 0)) | ((x == 1) & (y == 0)), 1, result)


def atan2(y: Array, x: Array) -> Array:
    """-i log((x + iy) / sqrt(x^2 + y^2))."""
    a, c = y.astype(np.clongdouble), x.astype(np.clongdouble)
    moved = _joined(c.real - a.imag, c.imag + a.real)
    result = log(divide(moved, np.sqrt(c * c + a * a)))
    return _joined(result.imag, -result.real)


def _wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of NumPy, which is C99's."""
    return lambda z: function(z.astype(np.clongdouble))


UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": absolute,
    "sign": _sign,
    "rsqrt": _rsqrt,
    "exponential-minus-one": _expm1,
    "log": log,
    "log-plus-one": _log1p,
    "logistic": _logistic,
    **{
        opcode: _wide(function)
        for opcode, function in {
            "sqrt": np.sqrt,
            "exponential": np.exp,
            "sine": np.sin,
            "cosine": np.cos,
            "tan": np.tan,
            "tanh": np.tanh,
            "sinh": np.sinh,
            "cosh": np.cosh,
            "acos": np.arccos,
            "acosh": np.arccosh,
            "asin": np.arcsin,
            "asinh": np.arcsinh,
            "atan": np.arctan,
            "atanh": np.arctanh,
        }.items()
    },
}


BINARY: dict[str, Callable[[Array, Array], Array]] = {"divide": divide, "power": power, "atan2": atan2}
