"""The special functions of the dialect CHLO in other operations: the error function's kin, gamma's, zeta's and a Bessel
function.

The approximations are those that XLA takes: of Cephes (Moshier) for erfc (`expand_erfc.py`), zeta and bessel_i1e, of
Giles for erf_inv, of Lanczos for lgamma and digamma. Coefficients go from the highest power down. What has at most 16
bits is computed in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log, nan, pi, tau

from ...errors import UnsupportedError
from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ...mlir.tree import Op
from ...mlir.values import where
from ...writing.writer import Writer
from ..stablehlo import Mapper, Rule
from .expand_erfc import erfc_of_xla, polynomial
from .stablehlo_special_tables import (
    BESSEL_FAR,
    BESSEL_NEAR,
    ERF_INV_F32,
    ERF_INV_F64,
)

# --- the error function ---------------------------------------------------------------------------------------------


def _erf_inv(e: Writer, x: Instruction) -> Instruction:
    w = e.unary("negate", e.unary("log-plus-one", e.mul(x, e.unary("negate", x))))
    root = e.unary("sqrt", w)
    if x.shape.element_type == "f64":
        first, second, third = ERF_INV_F64
        far = e.select(
            e.compare("LT", w, 16.0), polynomial(e, e.sub(root, 3.25), second), polynomial(e, e.sub(root, 5.0), third)
        )
        ratio = e.select(e.compare("LT", w, 6.25), polynomial(e, e.sub(w, 3.125), first), far)
    else:
        near, rest = ERF_INV_F32
        ratio = e.select(
            e.compare("LT", w, 5.0), polynomial(e, e.sub(w, 2.5), near), polynomial(e, e.sub(root, 3.0), rest)
        )
    return e.select(e.compare("EQ", e.unary("abs", x), 1.0), e.mul(x, inf), e.mul(ratio, x))


# --- the gamma function ---------------------------------------------------------------------------------------------

_G = 7.0
_LANCZOS = (
    0.99999999999980993227684700473478,
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)
"""Lanczos' series for g = 7: a constant, then what is divided by z + 1, z + 2 ..."""


def _lanczos(e: Writer, z: Instruction) -> Instruction:
    constant, *rest = _LANCZOS
    total = e.like(z, constant)
    for i, c in enumerate(rest):
        total = e.add(total, e.div(e.like(z, c), e.add(z, i + 1.0)))
    return total


def _reflected(e: Writer, x: Instruction) -> tuple[Instruction, Instruction, Instruction]:
    """Returns a condition that is true if x < 0.5, the z that stands for it in the series, and log(z + g + 1/2)."""
    low = e.compare("LT", x, 0.5)
    z = e.select(low, e.unary("negate", x), e.sub(x, 1.0))
    shift = _G + 0.5
    return low, z, e.add(e.unary("log-plus-one", e.div(z, shift)), log(shift))


def _lgamma(e: Writer, x: Instruction) -> Instruction:
    low, z, log_t = _reflected(e, x)
    t = e.add(z, _G + 0.5)
    exponent = e.sub(e.add(z, 0.5), e.div(t, log_t))
    value = e.add(e.add(e.mul(exponent, log_t), log(tau) / 2), e.unary("log", _lanczos(e, z)))
    size = e.unary("abs", x)
    fraction = e.sub(size, e.unary("floor", size))
    fraction = e.select(e.compare("GT", fraction, 0.5), e.sub(e.like(x, 1.0), fraction), fraction)
    sine = e.unary("log", e.unary("sine", e.mul(fraction, pi)))
    mirrored = e.sub(e.sub(e.like(x, log(pi)), sine), value)
    mirrored = e.select(e.unary("is-finite", sine), mirrored, e.unary("negate", sine))
    return e.select(e.compare("EQ", size, inf), e.like(x, inf), e.select(low, mirrored, value))


def _digamma(e: Writer, x: Instruction) -> Instruction:
    low, z, log_t = _reflected(e, x)
    slope = e.like(x, 0.0)
    for i, c in enumerate(_LANCZOS[1:]):
        place = e.add(z, i + 1.0)
        slope = e.sub(slope, e.div(e.like(z, c), e.mul(place, place)))
    value = e.sub(e.add(log_t, e.div(slope, _lanczos(e, z))), e.div(e.like(z, _G), e.add(z, _G + 0.5)))
    angle = e.mul(e.add(x, e.unary("abs", e.unary("floor", e.add(x, 0.5)))), pi)
    cotangent = e.div(e.mul(e.unary("cosine", angle), pi), e.unary("sine", angle))
    value = e.select(low, e.sub(value, cotangent), value)
    pole = e.op("and", e.compare("LE", x, 0.0), e.compare("EQ", x, e.unary("floor", x)))
    return e.select(pole, e.like(x, nan), value)


# --- the zeta function of Hurwitz -----------------------------------------------------------------------------------

_TERMS = 9
"""Terms that are added one by one, before the formula of Euler and Maclaurin gives the rest."""
_BERNOULLI = (
    *(12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12),
    *(1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18),
)
"""(2k)! / B(2k) for k from 1 on."""
_LEAST = {"f32": 1.401298464324817e-45, "f64": 5e-324}


def _zeta(e: Writer, x: Instruction, q: Instruction) -> Instruction:
    minus = e.unary("negate", x)
    place, total = q, e.op("power", q, minus)
    for _ in range(_TERMS):
        place = e.add(place, 1.0)
        term = e.op("power", place, minus)
        total = e.add(total, term)
    place = e.add(place, 1.0)
    term = e.op("power", place, minus)
    value = e.add(total, e.div(e.mul(term, place), e.sub(x, 1.0)))
    inverse = e.div(e.like(x, 1.0), e.mul(place, place))
    series: Instruction | None = None
    for k in range(len(_BERNOULLI) - 1, 0, -1):
        c = 1 / _BERNOULLI[k]
        series = e.mul(inverse, e.like(x, c) if series is None else e.add(series, c))
        series = e.mul(e.mul(e.add(x, 2.0 * k), e.add(x, 2.0 * k - 1)), series)
    assert series is not None
    rest = e.mul(e.div(x, place), e.add(series, 1 / _BERNOULLI[0]))
    value = e.add(value, e.mul(term, e.add(rest, 0.5)))
    done = e.compare("LT", e.unary("abs", term), e.mul(e.unary("abs", total), _LEAST[x.shape.element_type]))
    return _zeta_poles(e, x, q, e.select(done, total, value))


def _zeta_poles(e: Writer, x: Instruction, q: Instruction, value: Instruction) -> Instruction:
    whole = e.compare("EQ", x, e.unary("floor", x))
    even = e.op("and", whole, e.compare("EQ", e.op("remainder", x, e.like(x, 2.0)), 0.0))
    low = e.compare("LE", q, 0.0)
    pole = e.op("and", low, e.compare("EQ", q, e.unary("floor", q)))
    nothing, endless = e.like(x, nan), e.like(x, inf)
    value = e.select(e.compare("LT", x, 1.0), nothing, value)
    value = e.select(e.op("and", low, e.op("not", whole)), nothing, value)
    value = e.select(pole, e.select(even, endless, nothing), value)
    return e.select(e.compare("EQ", x, 1.0), endless, value)


def _polygamma(e: Writer, n: Instruction, x: Instruction) -> Instruction:
    sign = e.sub(e.mul(e.op("remainder", n, e.like(n, 2.0)), 2.0), 1.0)
    after = e.add(n, 1.0)
    value = e.mul(e.mul(sign, e.unary("exponential", _lgamma(e, after))), _zeta(e, after, x))
    value = e.select(e.compare("EQ", n, 0.0), _digamma(e, x), value)
    wrong = e.op("or", e.compare("NE", n, e.unary("floor", n)), e.compare("LT", n, 0.0))
    return e.select(wrong, e.like(n, nan), value)


# --- a Bessel function ----------------------------------------------------------------------------------------------


def _chebyshev(e: Writer, x: Instruction, coefficients: Sequence[float]) -> Instruction:
    """Clenshaw's sum of a series."""
    last = before = e.like(x, 0.0)
    value = e.like(x, 0.0)
    for c in coefficients:
        last, before = before, value
        value = e.add(e.sub(e.mul(x, before), last), c)
    return e.mul(e.sub(value, last), 0.5)


def _bessel_i1e(e: Writer, x: Instruction) -> Instruction:
    kind, size = x.shape.element_type, e.unary("abs", x)
    near = e.mul(size, _chebyshev(e, e.sub(e.mul(size, 0.5), 2.0), BESSEL_NEAR[kind]))
    far = _chebyshev(e, e.sub(e.div(e.like(x, 32.0), size), 2.0), BESSEL_FAR[kind])
    far = e.div(far, e.unary("sqrt", size))
    return e.mul(e.unary("sign", x), e.select(e.compare("LE", size, 8.0), near, far))


def _in_f32(function: Callable[..., Instruction]) -> Rule:
    """The rule of a function of floats: small ones are computed in f32 and rounded once."""

    def rule(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
        kind = operands[0].shape.element_type
        if TYPES[kind].kind != "float" or any(
            o.shape.without_layout() != operands[0].shape.without_layout() for o in operands
        ):
            raise UnsupportedError(
                f"{where(op)}: {op.name} of {', '.join(str(o.shape) for o in operands)} is not supported"
            )
        wide = [e.convert(o, "f32") if TYPES[kind].bits < 32 else o for o in operands]
        return [e.convert(function(e, *wide), kind)]

    return rule


SPECIAL: dict[str, Rule] = {
    "chlo.erfc": _in_f32(erfc_of_xla),
    "chlo.erf_inv": _in_f32(_erf_inv),
    "chlo.lgamma": _in_f32(_lgamma),
    "chlo.digamma": _in_f32(_digamma),
    "chlo.zeta": _in_f32(_zeta),
    "chlo.polygamma": _in_f32(_polygamma),
    "chlo.bessel_i1e": _in_f32(_bessel_i1e),
}
