"""The complement of the error function: as XLA expands it, and in fewer operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...writing.writer import Writer


def numbers(text: str) -> tuple[float, ...]:
    """Coefficients, written side by side."""
    return tuple(map(float, text.split()))


ERF_SMALL = {
    "f32": numbers(
        """
        7.8538615e-05 -0.00080101937 0.0051883277 -0.026853813 0.112835854 -0.37612626 1.1283791
        """
    ),
    "f64": numbers(
        """
        9.604973739870516 90.02601972038427 2232.005345946843 7003.325141128051 55592.30130103949
        """
    ),
}
"""erf(x) / x in x^2, below 1: in f64 the numerator."""
ERF_SMALL_BELOW = numbers(
    """
    1.0 33.56171416475031 521.3579497801527 4594.323829709801 22629.000061389095 49267.39426086359
    """
)
ERFC_NEAR = {
    "f32": numbers(
        """
        0.0232682 -0.13870394 0.36874247 -0.5824733 0.62100047 -0.49445152 0.340488 -0.2741127 0.56382596
        """
    ),
    "f64": numbers(
        """
        2.461969814735305e-10 0.5641895648310689 7.463210564422699 48.63719709856814 196.5208329560771 526.4451949954773
        934.5285271719576 1027.5518868951572 557.5353353693994
        """
    ),
}
"""erfc(x) x exp(x^2) in 1/x^2 up to 2; in f64 erfc(x) exp(x^2) in x up to 8, the numerator."""
ERFC_NEAR_BELOW = numbers(
    """
    1.0 13.228195115474499 86.70721408859897 354.9377788878199 975.7085017432055 1823.9091668790973 2246.3376081871097
    1656.6630919416134 557.5353408177277
    """
)
ERFC_FAR = {
    "f32": numbers(
        """
        -10.477664 12.9772 -7.4955187 2.921019 -1.0152652 0.42184633 -0.28207675 0.5641895
        """
    ),
    "f64": numbers(
        """
        0.5641895835477551 1.275366707599781 5.019050422511805 6.160210979930536 7.4097426995044895 2.9788666537210022
        """
    ),
}
"""The same beyond."""
ERFC_FAR_BELOW = numbers(
    """
    1.0 2.2605286322011726 9.396035249380015 12.048953980809666 17.08144507475659 9.608968090632859 3.369076451000815
    """
)


def polynomial(e: Writer, x: Instruction, coefficients: Sequence[float]) -> Instruction:
    """A polynomial by Horner's rule; coefficients go from the highest power down."""
    value = e.full(x.shape.element_type, x.shape.dimensions, coefficients[0])
    for c in coefficients[1:]:
        value = e.add(e.mul(value, x), c)
    return value


_ERFC_VANISHES = {"f32": -88.72283935546875, "f64": -709.782712893384}
"""The -x^2 below which exp(-x^2) is taken for 0."""


def erfc_of_xla(e: Writer, x: Instruction) -> Instruction:
    square = e.mul(x, x)
    size = e.unary("abs", x)
    minus = e.unary("negate", square)
    power = e.unary("exponential", minus)
    if x.shape.element_type == "f64":
        small = e.div(e.mul(x, polynomial(e, square, ERF_SMALL["f64"])), polynomial(e, square, ERF_SMALL_BELOW))
        near = e.div(e.mul(power, polynomial(e, size, ERFC_NEAR["f64"])), polynomial(e, size, ERFC_NEAR_BELOW))
        far = e.div(e.mul(power, polynomial(e, size, ERFC_FAR["f64"])), polynomial(e, size, ERFC_FAR_BELOW))
        large = e.select(e.compare("LT", size, 8.0), near, far)
    else:
        small = e.mul(x, polynomial(e, square, ERF_SMALL["f32"]))
        inverse = e.div(e.like(x, 1.0), square)
        near, far = (polynomial(e, inverse, table["f32"]) for table in (ERFC_NEAR, ERFC_FAR))
        scale = e.mul(power, e.div(e.like(x, 1.0), size))
        large = e.mul(scale, e.select(e.compare("LT", size, 2.0), near, far))
    vanished = e.compare("LT", minus, _ERFC_VANISHES[x.shape.element_type])
    large = e.select(vanished, e.like(x, 0.0), large)
    large = e.select(e.compare("LT", x, 0.0), e.sub(e.like(x, 2.0), large), large)
    return e.select(e.compare("LT", size, 1.0), e.sub(e.like(x, 1.0), small), large)


_ERFC = numbers(
    """
    0.0341904461 -0.181635842 0.356854349 -0.252585351 -0.0574587733 0.0580079034 0.0452282503 0.188316092 0.244695216
    0.282301307 0.282086372
    """
)
"""erfc(x) exp(x^2) / t in t = 1 / (1 + x / 2) on [0, 9.45], relative error 2^-27; their sum is 1, which erfc(0) is."""


def erfc(e: Writer, x: Instruction) -> Instruction:
    """erfc of f32, by one formula for all x: half as many operations as XLA's, as near to the exact values."""
    size = e.unary("abs", x)
    t = e.div(e.like(x, 2.0), e.add(size, 2.0))
    power = e.unary("exponential", e.unary("negate", e.mul(x, x)))
    positive = e.mul(power, e.mul(polynomial(e, t, _ERFC), t))
    return e.select(e.compare("LT", x, 0.0), e.sub(e.like(x, 2.0), positive), positive)


def erfc_argument(x: Instruction) -> Instruction | None:
    """Returns the operand of erfc that `x` is, if it is XLA's expansion of that in f32, instruction by instruction;
    None if it is anything else."""
    if x.opcode != "select" or x.shape.element_type != "f32" or x.operands[0].opcode != "compare":
        return None
    size = x.operands[0].operands[0]
    if size.opcode != "abs":
        return None
    (argument,) = size.operands
    template, parameter = _template()
    return argument if _equal(template, x, {(parameter, argument): True}) else None


@cache
def _template() -> tuple[Instruction, Instruction]:
    """XLA's expansion for one number, and this."""
    parameter = Instruction("x", "parameter", Shape("f32"), [])
    return erfc_of_xla(Writer(parameter), parameter), parameter


_COMMUTATIVE = ("add", "multiply")


def _number(x: Instruction) -> float | None:
    """The number that all elements of a constant share."""
    x = x.operands[0] if x.opcode == "broadcast" else x
    number: float | None = None if x.literal is None else x.literal.splat_value()
    return number


def _equal(t: Instruction, x: Instruction, known: dict[tuple[Instruction, Instruction], bool]) -> bool:
    """Returns True if `x` computes for each element what `t` does for one; `known` has what has been compared."""
    found = known.get((t, x))
    if found is None:
        found = known[t, x] = _compared(t, x, known)
    return found


def _compared(t: Instruction, x: Instruction, known: dict[tuple[Instruction, Instruction], bool]) -> bool:
    if t.shape.element_type != x.shape.element_type:
        return False
    number = _number(t)
    if number is not None:
        return _number(x) == number
    if t.opcode != x.opcode or t.opcode == "parameter" or t.attrs.get("direction") != x.attrs.get("direction"):
        return False
    orders = [x.operands, x.operands[::-1]] if t.opcode in _COMMUTATIVE else [x.operands]
    return any(all(_equal(a, b, known) for a, b in zip(t.operands, operands)) for operands in orders)
