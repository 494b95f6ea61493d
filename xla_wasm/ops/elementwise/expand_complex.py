"""Complex functions by their real and imaginary parts: what each elementwise operation makes of them.

A result is no further from the true value than a few ulp of its magnitude, whatever the magnitudes of the operands,
unless a function says otherwise; overflow inside a formula is avoided, not just in its result. Infinities, NaN, signs
of zeros and branch cuts are those of C99 (annex G), also of `exponential-minus-one` and `log-plus-one`, which it lacks;
abs, sign, rsqrt, logistic, divide and power follow XLA:CPU. Logarithms, roots and inverse functions of c64 are computed
in f64: there no square overflows, and what a cancellation leaves is exact enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dataclass import dataclass
from ...hlo.ir import Instruction
from ...writing.real import Real
from ...writing.writer import Writer

_INF, _NAN = float("inf"), float("nan")
_PI = 3.141592653589793
_LOG_2 = 0.6931471805599453


Complex = tuple[Real, Real]


def _where(condition: Real, a: Complex, c: Complex) -> Complex:
    return condition.choose(a[0], c[0]), condition.choose(a[1], c[1])


def _full(like: Real, re: float, im: float = 0.0) -> Complex:
    return like.full(re), like.full(im)


# --- arithmetic -----------------------------------------------------------------------------------------------------


def add(a: Complex, c: Complex) -> Complex:
    return a[0] + c[0], a[1] + c[1]


def subtract(a: Complex, c: Complex) -> Complex:
    return a[0] - c[0], a[1] - c[1]


def negate(a: Complex) -> Complex:
    return -a[0], -a[1]


def multiply(a: Complex, c: Complex) -> Complex:
    return a[0] * c[0] - a[1] * c[1], a[0] * c[1] + a[1] * c[0]


def divide(a: Complex, c: Complex) -> Complex:
    """C99's quotient: what comes out as NaN + NaN i is looked at again for zeros and infinities.

    c64 is divided in f64, where no square overflows; c128 is brought near 1 by powers of two first.
    """
    (p, q), (u, v) = a, c
    if p.dtype == "f32":
        re, im = _quotient(*(part.convert("f64") for part in (p, q, u, v)))
        result = re.convert("f32"), im.convert("f32")
    else:
        above, below = _exponent(p, q), _exponent(u, v)
        up, down = _power_of_two(above, -1), _power_of_two(below, -1)
        re, im = _quotient(p * up, q * up, u * down, v * down)
        e, word = p.e, p.e.sub(above.x, below.x)
        half = e.binary("shift-right-arithmetic", word, 1)
        first, second = _power_of_two(Real(e, half)), _power_of_two(Real(e, e.sub(word, half)))
        result = re * first * second, im * first * second
    inside = result[0].compare("EQ", result[0]) | result[1].compare("EQ", result[1])
    return _where(inside, result, _special_quotient(p, q, u, v))


def _quotient(p: Real, q: Real, u: Real, v: Real) -> Complex:
    square = u * u + v * v
    return (p * u + q * v) / square, (q * u - p * v) / square


def _exponent(x: Real, *others: Real) -> Real:
    """The power of two of the greatest of some f64 magnitudes as an s64, between -1023 and 1021."""
    e, size = x.e, abs(x)
    for y in others:
        size = size.max(abs(y))
    field = e.binary("shift-right-logical", e.bitcast_convert(size.x, "s64"), 52)
    limited = e.select(e.compare("GT", field, 2044), e.like(field, 2044), field)
    return Real(e, e.sub(limited, 1023))


def _power_of_two(exponent: Real, sign: int = 1) -> Real:
    """2^exponent, or with `sign` -1 its inverse, as an f64."""
    e = exponent.e
    field = e.add(exponent.x, 1023) if sign > 0 else e.sub(e.like(exponent.x, 1023), exponent.x)
    return Real(e, e.bitcast_convert(e.binary("shift-left", field, 52), "f64"))


def _special_quotient(p: Real, q: Real, u: Real, v: Real) -> Complex:
    """By 0 the parts times infinity; with one side infinite, infinities count as 1 and other numbers as 0 there."""
    pole = p.full(_INF).sign_of(u)
    infinite = (p.is_infinite | q.is_infinite, u.is_infinite | v.is_infinite)
    finite = (abs(p).max(abs(q)).compare("LT", _INF), abs(u).max(abs(v)).compare("LT", _INF))
    grows, vanishes = infinite[0] & finite[1], finite[0] & infinite[1]

    def unit(x: Real) -> Real:
        return x.is_infinite.choose(x.full(1.0), 0.0).sign_of(x)

    p1, q1 = grows.choose(unit(p), p), grows.choose(unit(q), q)
    u1, v1 = vanishes.choose(unit(u), u), vanishes.choose(unit(v), v)
    factor = grows.choose(p.full(_INF), vanishes.choose(p.full(0.0), _NAN))
    by_zero = u.compare("EQ", 0.0) & v.compare("EQ", 0.0)
    return _where(by_zero, (pole * p, pole * q), (factor * (p1 * u1 + q1 * v1), factor * (q1 * u1 - p1 * v1)))


# --- magnitude and argument -----------------------------------------------------------------------------------------


def _ordered(x: Real, y: Real) -> tuple[Real, Real, Real]:
    """The greater magnitude, the lesser one, and their ratio; NaN if either is."""
    a, c = abs(x), abs(y)
    greater, lesser = a.max(c), a.min(c)
    return greater, lesser, greater.compare("EQ", lesser).choose(greater.full(1.0), lesser / greater)


def absolute(a: Complex) -> Real:
    """The greater part times sqrt(1 + ratio^2)."""
    greater, _, ratio = _ordered(*a)
    return greater * (ratio * ratio + 1.0).apply("sqrt")


def sign(a: Complex) -> Complex:
    size = absolute(a)
    return _where(size.compare("EQ", 0.0), a, (a[0] / size, a[1] / size))


def _half_angle(a: Complex) -> tuple[Real, Real]:
    """The magnitudes of the two parts of the square root, the greater first.

    sqrt((|x| + |z|) / 2) with the greater part m under a root of its own: sqrt(m) sqrt((|x|/m + |z|/m) / 2).
    """
    x, y = a
    greater, _, ratio = _ordered(x, y)
    size = (ratio * ratio + 1.0).apply("sqrt")
    wide = abs(x).compare("GE", abs(y))
    first = greater.apply("sqrt") * ((wide.choose(x.full(1.0), ratio) + size) * 0.5).apply("sqrt")
    first = (x.is_infinite | y.is_infinite).choose(x.full(_INF), first)
    second = abs(y) / (first + first)
    return first, (first.compare("EQ", 0.0) | y.is_infinite).choose(first, second)


def _root(a: Complex) -> Complex:
    x, y = a
    first, second = _half_angle(a)
    left = x.compare("LT", 0.0)
    return left.choose(second, first), left.choose(first, second).sign_of(y)


def sqrt(a: Complex) -> Complex:
    """The principal root, whose imaginary part has the sign of the number's, that of a zero too."""
    return _narrow(_root(_wide(a)), a)


def _wide(a: Complex) -> Complex:
    return a[0].convert("f64"), a[1].convert("f64")


def _narrow(a: Complex, like: Complex) -> Complex:
    return a[0].convert(like[0].dtype), a[1].convert(like[0].dtype)


def rsqrt(a: Complex) -> Complex:
    """The conjugate of the root over the magnitude; infinity + NaN i at 0."""
    x, y = a
    re, im = _root((x, -y))
    greater, _, ratio = _ordered(x, y)
    size = (ratio * ratio + 1.0).apply("sqrt")
    result = re / greater / size, im / greater / size
    result = _where(greater.compare("EQ", 0.0), _full(x, _INF, _NAN), result)
    return _where(x.is_infinite | y.is_infinite, (x.full(0.0), x.full(0.0).sign_of(-y)), result)


# --- exponential and logarithm --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Range:
    """Beyond `high`, exponents lose `shift`, and the result is multiplied by `factor`, e^shift."""

    high: float
    shift: float
    factor: float


_RANGES = {"f32": _Range(80.0, 60.0, 1.1420073898156842e26), "f64": _Range(640.0, 600.0, 3.7730203009299397e260)}


def _reduced(x: Real) -> tuple[Real, Real, Real]:
    """An exponent that does not overflow where a product with it would not; the factor it lacks; where it lacks one."""
    limits = _RANGES[x.dtype]
    big = x.compare("GT", limits.high)
    return x - big.choose(x.full(limits.shift), 0.0), big.choose(x.full(limits.factor), 1.0), big


def _is_wild(x: Real) -> Real:
    """True where a number is infinite or NaN."""
    return (x - x).compare("NE", 0.0)


def _at_limits(a: Complex, result: Complex, least: float) -> Complex:
    """The result of an exponential: its imaginary part is 0 on the real line, and an infinite real part says all where
    the other is no number."""
    x, y = a
    limited = x.is_infinite & _is_wild(y)
    up = x.compare("GT", 0.0)
    re = limited.choose(up.choose(x, least), result[0])
    im = limited.choose(up.choose(x.full(_NAN), 0.0), result[1])
    return re, y.compare("EQ", 0.0).choose(y, im)


def _exp(a: Complex) -> Complex:
    x, y = a
    exponent, factor, _ = _reduced(x)
    size = exponent.apply("exponential")
    return size * y.apply("cosine") * factor, size * y.apply("sine") * factor


def exp(a: Complex) -> Complex:
    return _at_limits(a, _exp(a), 0.0)


def expm1(a: Complex) -> Complex:
    """(e^x - 1) cos y - 2 sin^2(y/2) + i e^x sin y."""
    x, y = a
    exponent, factor, _ = _reduced(x)
    less = exponent.apply("exponential-minus-one")
    half = (y * 0.5).apply("sine")
    re = less * y.apply("cosine") * factor - half * half * 2.0
    return _at_limits(a, (re, (less + 1.0) * y.apply("sine") * factor), -1.0)


def _square(x: Real) -> tuple[Real, Real]:
    """The square and what its rounding took away: Dekker's product of halves."""
    up = x * 134217729.0
    high = up - (up - x)
    low = x - high
    square = x * x
    return square, (high * high - square + high * low * 2.0) + low * low


def _sum(x: Real, y: Real) -> tuple[Real, Real]:
    """The sum and what its rounding took away: Knuth's, whichever is greater."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _excess(x: Real, y: Real, first: Real) -> Real:
    """x^2 + y^2 + `first`, as if in twice as many bits: what a cancellation leaves is right."""
    (p, e), (q, f) = _square(x), _square(y)
    total, rest = _sum(first, p)
    total, more = _sum(total, q)
    return total + (rest + more + (e + f))


def _log_size(x: Real, y: Real, excess: Real) -> Real:
    """log |x + iy|: near 1 by the excess of the square over 1."""
    greater, _, ratio = _ordered(x, y)
    near = greater.compare("GT", 0.5) & greater.compare("LT", 2.0)
    size = near.choose(x.full(0.0), greater.apply("log"))
    return size + near.choose(excess, ratio * ratio).apply("log-plus-one") * 0.5


def _infinite_or(a: Complex, size: Real) -> Real:
    """A size, infinite where a part of the number is, whatever the other."""
    return (a[0].is_infinite | a[1].is_infinite).choose(size.full(_INF), size)


def _angle(y: Real, x: Real) -> Real:
    return Real(y.e, y.e.binary("atan2", y.x, x.x))


def log(a: Complex) -> Complex:
    x, y = _wide(a)
    size = _infinite_or(a, _log_size(x, y, _excess(x, y, x.full(-1.0))).convert(a[0].dtype))
    return size, _angle(a[1], a[0])


def log1p(a: Complex) -> Complex:
    """The logarithm of 1 + z, by |1 + z|^2 - 1 = 2 x + x^2 + y^2."""
    x, y = _wide(a)
    moved = x + 1.0
    size = _infinite_or(a, _log_size(moved, y, _excess(x, y, x + x)).convert(a[0].dtype))
    return size, _angle(a[1], moved.convert(a[0].dtype))


def logistic(a: Complex) -> Complex:
    """1 / (1 + e^-z), with s = e^-|x|: |1 + s e^-iy|^2 = (1 - s)^2 + 4 s cos^2(y/2) has no difference of rounded
    numbers."""
    x, y = a
    down = -abs(x)
    s, rest = down.apply("exponential"), -down.apply("exponential-minus-one")
    half = y * 0.5
    sine, cosine = half.apply("sine"), half.apply("cosine")
    square = cosine * cosine * 2.0
    below = rest * rest + s * square * 2.0
    re = x.compare("GE", 0.0).choose(rest + s * square, s * (square - rest))
    return re / below, s * sine * cosine * 2.0 / below


def power(a: Complex, c: Complex) -> Complex:
    """e^(c log a): in c64 computed in f64, in c128 off by up to |c log a| ulp. Anything to the 0 and 1 to anything is
    1."""
    dtype = a[0].dtype
    (x, y), (u, v) = [(re.convert("f64"), im.convert("f64")) for re, im in (a, c)]
    re, im = multiply((u, v), (_log_size(x, y, _excess(x, y, x.full(-1.0))), _angle(y, x)))
    result = _exp((re, im))
    result = result[0], im.compare("EQ", 0.0).choose(im.full(0.0), result[1])
    real = v.compare("EQ", 0.0) & y.compare("EQ", 0.0)
    result = _where(real & x.compare("EQ", 0.0) & u.compare("GT", 0.0), _full(x, 0.0), result)
    growing = u.compare("GT", 0.0).choose(u.full(_INF), 0.0)
    result = _where(real & x.compare("EQ", _INF) & u.compare("EQ", u), (growing, x.full(0.0)), result)
    one = (u.compare("EQ", 0.0) & v.compare("EQ", 0.0)) | (x.compare("EQ", 1.0) & y.compare("EQ", 0.0))
    re, im = _where(one, _full(x, 1.0), result)
    return re.convert(dtype), im.convert(dtype)


# --- circular and hyperbolic functions ------------------------------------------------------------------------------


def _hyperbolic(x: Real) -> tuple[Real, Real, Real]:
    """sinh x and cosh x without a factor, and that factor."""
    size, factor, big = _reduced(abs(x))
    more = size.apply("exponential-minus-one")
    part = big.choose(x.full(1.0), more / (more + 1.0))
    return ((more + part) * 0.5).sign_of(x), more * part * 0.5 + 1.0, factor


def sinh(a: Complex) -> Complex:
    x, y = a
    sinh_, cosh_, factor = _hyperbolic(x)
    alone = _is_wild(y) & (x.compare("EQ", 0.0) | x.is_infinite)
    re = alone.choose(x, sinh_ * y.apply("cosine") * factor)
    return re, y.compare("EQ", 0.0).choose(y, cosh_ * y.apply("sine") * factor)


def cosh(a: Complex) -> Complex:
    x, y = a
    sinh_, cosh_, factor = _hyperbolic(x)
    wild = _is_wild(y)
    re = (wild & x.is_infinite).choose(abs(x), cosh_ * y.apply("cosine") * factor)
    im = (wild & x.compare("EQ", 0.0)).choose(x, sinh_ * y.apply("sine") * factor)
    return re, y.compare("EQ", 0.0).choose(y * y.full(1.0).sign_of(x), im)


def tanh(a: Complex) -> Complex:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y)."""
    x, y = a
    most = 44.5 if x.dtype == "f32" else 354.9  # beyond, the imaginary part is less than any normal number
    more = abs(x).min(most).apply("exponential-minus-one")
    part = more / (more + 1.0)
    sinh_, cosh_ = (more + part) * 0.5, more * part * 0.5 + 1.0
    sine, cosine = y.apply("sine"), y.apply("cosine")
    below = sinh_ * sinh_ + cosine * cosine
    re = x.is_infinite.choose(x.full(1.0), sinh_ * cosh_ / below).sign_of(x)
    product, wild = sine * cosine, _is_wild(y)
    re = (wild & x.compare("EQ", 0.0)).choose(x, re)
    im = abs(x).compare("GT", most).choose(product * 0.0, product / below)
    im = (wild & x.is_infinite).choose(x.full(0.0), im)
    return re, y.compare("EQ", 0.0).choose(y, im)


def _turned(function: Callable[[Complex], Complex], a: Complex) -> Complex:
    """-i f(iz)."""
    re, im = function((-a[1], a[0]))
    return im, -re


def sin(a: Complex) -> Complex:
    return _turned(sinh, a)


def cos(a: Complex) -> Complex:
    """cosh(iz)."""
    return cosh((-a[1], a[0]))


def tan(a: Complex) -> Complex:
    return _turned(tanh, a)


# --- inverse functions ----------------------------------------------------------------------------------------------

_LARGE, _SMALL = 1e153, 1e-153
"""Magnitudes of f64 whose squares are still numbers."""


def _arc(a: Complex) -> tuple[Real, Real]:
    """The parts of asin and acos, after Hull, Fairgrieve and Tang: the y of asin's angle atan2(x, y), for x >= 0
    and y >= 0, and the magnitude of the imaginary part, acosh((|z + 1| + |z - 1|) / 2). Of f64."""
    x, y = abs(a[0]), abs(a[1])
    more, less = x + 1.0, x - 1.0
    r, s = absolute((more, y)), absolute((less, y))
    mean = (r + s) * 0.5
    below, beyond = y * y / (r + more), s + abs(less)  # r - (x + 1), and the greater of s + (x - 1) and s - (x - 1)
    half = (mean + x) * 0.5
    inner, outer = half * (below + beyond), half / (r + more) + half / beyond
    angle = x.compare("LE", 1.0).choose(inner.apply("sqrt"), y * outer.apply("sqrt"))
    over = below + x.compare("LT", 1.0).choose(y * (y / beyond), beyond)  # twice the mean, less 2
    size = (over * 0.5 + (over * ((mean + 1.0) * 0.5)).apply("sqrt")).apply("log-plus-one")
    size = (x.compare("LT", 1.0) & y.compare("LT", _SMALL)).choose(y / (-less * more).apply("sqrt"), size)
    greater, _, ratio = _ordered(x, y)
    large = greater.compare("GT", _LARGE)
    log_size = greater.apply("log") + (ratio * ratio).apply("log-plus-one") * 0.5 + _LOG_2
    size = _infinite_or((x, y), large.choose(log_size, size))
    angle = large.choose(y, angle)
    return (x.compare("EQ", 0.0) & y.compare("NE", y)).choose(x.full(1.0), angle), size


def asin(a: Complex) -> Complex:
    angle, size = _narrow(_arc(_wide(a)), a)
    return _angle(a[0], angle), size.sign_of(a[1])


def acos(a: Complex) -> Complex:
    angle, size = _narrow(_arc(_wide(a)), a)
    return _angle(angle, a[0]), size.sign_of(-a[1])


def asinh(a: Complex) -> Complex:
    return _turned(asin, a)


def acosh(a: Complex) -> Complex:
    angle, size = _narrow(_arc(_wide(a)), a)
    return size, _angle(angle, a[0]).sign_of(a[1])


def atanh(a: Complex) -> Complex:
    """log1p(4 |x| / |1 - z|^2) / 4 with x >= 0, and half the angle of (1 + z) (1 - conj z); near 1 by the two
    magnitudes."""
    x, y = a
    c = abs(x)
    greater, _, ratio = _ordered(x, y)
    big = greater.compare("GT", 1e9 if x.dtype == "f32" else 1e17)
    away = x.full(1.0) - c
    square = away * away + y * y
    far = c / greater / (greater * (ratio * ratio + 1.0))
    re = (big.choose(far, c / square) * 4.0).apply("log-plus-one") * 0.25
    near = away.compare("LT", 1e-4) & abs(y).compare("LT", 1e-4) & c.compare("LT", 2.0)
    re = near.choose(absolute((c + 1.0, y)).apply("log") * 0.5 - absolute((away, y)).apply("log") * 0.5, re)
    infinite = x.is_infinite | y.is_infinite
    re = infinite.choose(x.full(0.0), re)
    re = (x.compare("EQ", 0.0) & y.compare("NE", y)).choose(x, re)
    half_pi = y.full(_PI / 2).sign_of(y)
    im = (big | y.is_infinite).choose(half_pi, _angle(y + y, away * (c + 1.0) - y * y) * 0.5)
    return re.sign_of(x), im


def atan(a: Complex) -> Complex:
    return _turned(atanh, a)


def atan2(a: Complex, c: Complex) -> Complex:
    """-i log((c + i a) / sqrt(c^2 + a^2)), which says by how many times pi it is off atan(a / c)."""
    dtype = a[0].dtype
    parts = [part.convert("f64") for part in (*a, *c)]
    down = _power_of_two(_exponent(parts[0], *parts[1:]), -1)
    y, x = (parts[0] * down, parts[1] * down), (parts[2] * down, parts[3] * down)
    re, im = log(divide((x[0] - y[1], x[1] + y[0]), sqrt(add(multiply(x, x), multiply(y, y)))))
    near = atan(divide(y, x))
    turned = near[0] + ((im - near[0]) / _PI).apply("round-nearest-even") * _PI
    known = turned.compare("EQ", turned) & abs(near[1]).compare("LT", _INF)
    re, im = _where(known, (turned, near[1]), (im, -re))
    return re.convert(dtype), im.convert(dtype)


UNARY: dict[str, Callable[[Complex], Complex]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atanh": atanh,
    "cosh": cosh,
    "cosine": cos,
    "exponential": exp,
    "exponential-minus-one": expm1,
    "log": log,
    "log-plus-one": log1p,
    "logistic": logistic,
    "negate": negate,
    "rsqrt": rsqrt,
    "sign": sign,
    "sine": sin,
    "sinh": sinh,
    "sqrt": sqrt,
    "tan": tan,
    "tanh": tanh,
}

BINARY: dict[str, Callable[[Complex, Complex], Complex]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "power": power,
    "atan2": atan2,
}


FUNCTIONS = frozenset((*UNARY, *BINARY, "abs"))

BY_PARTS = ("add", "subtract", "negate", "select", "copy")
"""Operations that do to each part what they do to the number."""


def evaluate(e: Writer, opcode: str, operands: list[Any]) -> list[Instruction]:
    """The parts of an elementwise function of complex operands, each a pair of instructions."""
    pairs = [(Real(e, re), Real(e, im)) for re, im in operands]
    if opcode == "abs":
        return [absolute(pairs[0]).x]
    result = UNARY[opcode](pairs[0]) if opcode in UNARY else BINARY[opcode](*pairs)
    return [part.x for part in result]
