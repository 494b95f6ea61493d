"""The calls of LAPACK that JAX made before XLA had typed custom calls: sizes and options come first, as scalars of
their own.

Each is turned into the call of today, whose rule in `expand_lapack.py` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dataclass import dataclass
from ...errors import UnsupportedError, counted
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...hlo.types import REAL_OF
from ...writing.writer import Rule, Writer
from .expand_lapack import FUNCTIONS, of_each_type

_Scalar = Callable[[int], int]
"""The number of an operand -> its value."""


def _nothing(scalar: _Scalar) -> dict[str, int | str]:
    return {}


@dataclass(frozen=True, slots=True)
class _Older:
    """The older form of a call."""

    scalars: int
    """The number of scalars before the arrays."""
    options: Callable[[_Scalar], dict[str, int | str]] = _nothing
    """The options that they mean, by today's names."""
    order: tuple[int, ...] = ()
    """The old places of the results of today, for real types; in the order of today if empty, with workspace behind
    them."""
    complex_order: tuple[int, ...] = ()


_OLDER = {
    "potrf": _Older(3, lambda s: {"uplo": "UL"[s(0)]}),
    "getrf": _Older(3),
    "geqrf": _Older(4),
    "geqp3": _Older(4),
    "orgqr ungqr": _Older(5),
    "gesdd": _Older(6, lambda s: {"mode": "SA"[s(0)] if s(1) else "N"}),
    "syevd heevd": _Older(3, lambda s: {"uplo": "UL"[s(0)], "mode": "V"}),
    "sytrd hetrd": _Older(5, lambda s: {"uplo": "UL"[s(1)]}),
    "gehrd": _Older(6, lambda s: {"low": s(1), "high": s(2)}),
    "geev": _Older(4, lambda s: {"compute_left": s(2), "compute_right": s(3)}, (3, 4, 5, 6, 7), (2, 3, 4, 5)),
    "gees": _Older(4, lambda s: {"mode": s(2), "sort": s(3)}, (0, 3, 1, 2, 4, 5), (0, 3, 2, 4, 5)),
}
"""Names in LAPACK -> the form of their calls."""


def _scalar(x: Instruction, i: int) -> int:
    """The value of an operand that must be known when the module is compiled."""
    operand = x.operands[i]
    if operand.opcode != "constant" or operand.shape.rank:
        raise UnsupportedError(
            f"{x.where}: operand {i} of {x.attrs['custom_call_target']} must be a constant, not {operand.opcode}"
        )
    return int(operand.attrs["literal"].values()[0])


def _today(x: Instruction, older: _Older, shape: Shape) -> Instruction:
    """The call as it is made today."""
    target = x.attrs["custom_call_target"]
    if len(x.operands) <= older.scalars:
        raise UnsupportedError(
            f"{x.where}: {target} takes {counted(older.scalars, 'scalar')} before its arrays; found "
            f"{counted(len(x.operands), 'operand')}"
        )
    try:
        options = older.options(lambda i: _scalar(x, i))
    except IndexError:
        raise UnsupportedError(f"{x.where}: an option of {target} is neither 0 nor 1") from None
    call = x.on(x.operands[older.scalars :])
    call.shape = shape
    call.attrs["backend_config"] = ", ".join(
        f"{name} = {ord(v) if isinstance(v, str) else v}" for name, v in options.items()
    )
    return call


def _rule(name: str, older: _Older) -> Callable[[Writer, Instruction, str], Instruction]:
    def rule(e: Writer, x: Instruction, element_type: str) -> Instruction:
        order = older.complex_order if element_type in REAL_OF else older.order
        declared = [shape.without_layout() for shape in x.shape.tuple_shapes]
        if not order:
            return FUNCTIONS[name](e, _today(x, older, x.shape), element_type)
        if len(declared) <= max(order):
            raise UnsupportedError(
                f"{x.where}: {x.attrs['custom_call_target']} gives more than {counted(len(declared), 'result')}"
            )
        call = _today(x, older, Shape.tuple([declared[i] for i in order]))
        known = dict(zip(order, e.elements(FUNCTIONS[name](e, call, element_type))))
        return e.tuple(
            [known.get(i) or e.full(shape.element_type, shape.dimensions, 0) for i, shape in enumerate(declared)]
        )

    return rule


def _trsm(e: Writer, x: Instruction, element_type: str) -> Instruction:
    """A triangular system, its right-hand side multiplied by a number."""
    options = _Older(7, lambda s: {"side": "RL"[s(0)], "uplo": "UL"[s(1)], "trans_x": "NTC"[s(2)], "diag": "NU"[s(3)]})
    call = _today(x, options, x.shape)
    if len(call.operands) != 3:
        raise UnsupportedError(f"{x.where}: {x.attrs['custom_call_target']} takes 10 operands, not {len(x.operands)}")
    alpha, a, b = call.operands
    call.operands = [a, e.mul(b, alpha)]
    return FUNCTIONS["trsm"](e, call, element_type)


def _trsm_ffi(e: Writer, x: Instruction, element_type: str) -> Instruction:
    if len(x.operands) != 3:
        raise UnsupportedError(f"{x.where}: {x.attrs['custom_call_target']} takes 3 operands, not {len(x.operands)}")
    a, b, alpha = x.operands
    return FUNCTIONS["trsm"](e, x.on([a, e.mul(b, alpha)]), element_type)


LAPACK_OLDER: dict[str, Rule] = {**of_each_type("blas_{}trsm", _trsm), **of_each_type("blas_{}trsm_ffi", _trsm_ffi)}
"""Target of a custom call -> rule."""

for _names, _form in _OLDER.items():
    for _name in _names.split():
        LAPACK_OLDER |= of_each_type(f"lapack_{{}}{_name}", _rule(_name, _form))
