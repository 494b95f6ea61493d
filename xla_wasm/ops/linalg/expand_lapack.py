"""The LAPACK functions by which JAX on CPU asks for linear algebra, as operations of HLO.

The calls have column-major layouts, which say how their arrays lie in memory and nothing about their elements. Their
options are characters of LAPACK's, given by number in a dictionary of attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...errors import UnsupportedError, counted
from ...hlo.attrs import TriangularSolveOptions
from ...hlo.infer import joined
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ...hlo.types import COMPLEX_OF, REAL_OF
from ...writing.writer import Rule, Writer

_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def _configured(x: Instruction, name: str) -> str:
    """Returns the value of a name in the call's dictionary of attributes, as text; empty if it has none."""
    config = x.attrs.get("backend_config") or ""
    text = config.decode("utf-8", "replace") if isinstance(config, bytes) else str(config)
    found = re.search(rf"\b{name}\s*=\s*(\w+)", text)
    return found[1] if found else ""


def _refused(x: Instruction, name: str, wanted: str) -> UnsupportedError:
    target, found = x.attrs["custom_call_target"], _configured(x, name)
    return UnsupportedError(
        f"{x.where}: {target} needs {name} to be {wanted}; found {found or x.attrs.get('backend_config')!r}"
    )


def _option(x: Instruction, name: str, allowed: str) -> str:
    """One of the characters `allowed` that the call is configured with."""
    text = _configured(x, name)
    value = chr(int(text) % 256) if text.isdecimal() else ""
    if not value or value not in allowed:
        raise _refused(x, name, f"one of {', '.join(allowed)}")
    return value


def _flag(x: Instruction, name: str) -> bool:
    """Returns True if the call is configured with `name`."""
    text = _configured(x, name)
    if text not in ("true", "false"):
        raise _refused(x, name, "true or false")
    return text == "true"


def _number(x: Instruction, name: str) -> int:
    text = _configured(x, name)
    if not text.isdecimal():
        raise _refused(x, name, "a number")
    return int(text[:18])


TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
"""The letter in a function's name -> the element type that it computes with."""


def _operands(x: Instruction, element_type: str, *ranks: int) -> list[Shape]:
    """The shapes of the operands, all of this type and with the same batch dimensions; a matrix has rank 2 in `ranks`,
    a vector 1."""
    shapes, target = [o.shape.without_layout() for o in x.operands], x.attrs["custom_call_target"]
    if len(shapes) != len(ranks):
        raise UnsupportedError(f"{x.where}: {target} takes {counted(len(ranks), 'operand')}, not {len(shapes)}")
    for i, (shape, rank) in enumerate(zip(shapes, ranks)):
        if (
            shape.element_type != element_type
            or shape.rank < rank
            or shape.dimensions[:-rank] != shapes[0].dimensions[: -ranks[0]]
        ):
            wanted = (
                f"{'matrices' if rank == 2 else 'vectors'} of {element_type}, with batch dimensions like those "
                f"of operand 0"
            )
            raise UnsupportedError(f"{x.where}: operand {i} of {target} must be {wanted}, not {shape}")
    return shapes


def _call(e: Writer, x: Instruction, name: str, *shapes: Shape) -> Instruction:
    """A call of a routine of the runtime, with the results that it gives, whatever `x` declares."""
    return e.op("custom-call", *x.operands, shape=joined(list(shapes)), custom_call_target=f"xla_wasm.{name}")


def _results(e: Writer, x: Instruction, *values: Instruction) -> Instruction:
    """The call's results: `values`, and zeros for what older calls declare behind them: info, where it is always 0, and
    workspace."""
    if not x.shape.is_tuple:
        return values[0]
    declared = [shape.without_layout() for shape in x.shape.tuple_shapes]
    more = [e.full(shape.element_type, shape.dimensions, 0) for shape in declared[len(values) :]]
    return e.tuple([*values, *more])


def _potrf(e: Writer, x: Instruction, element_type: str) -> Instruction:
    (a,) = _operands(x, element_type, 2)
    if a.dimensions[-1] != a.dimensions[-2]:
        raise UnsupportedError(f"{x.where}: {a} are no square matrices")
    triangle = "lower" if _option(x, "uplo", "LU") == "L" else "upper"
    return _call(e, x, f"potrf_{triangle}", a, Shape("s32", a.dimensions[:-2]))


def _trsm(e: Writer, x: Instruction, element_type: str) -> Instruction:
    _operands(x, element_type, 2, 2)
    options = TriangularSolveOptions(
        left_side=_option(x, "side", "LR") == "L",
        lower=_option(x, "uplo", "LU") == "L",
        unit_diagonal=_option(x, "diag", "NU") == "U",
        transpose_a=_TRANSPOSES[_option(x, "trans_x", "NTC")],
    )
    return e.op("triangular-solve", *x.operands, triangular_solve_options=options)


def _getrf(e: Writer, x: Instruction, element_type: str) -> Instruction:
    (a,) = _operands(x, element_type, 2)
    *batch, m, n = a.dimensions
    return _call(e, x, "getrf", a, Shape("s32", (*batch, min(m, n))), Shape("s32", tuple(batch)))


def _geqrf(e: Writer, x: Instruction, element_type: str) -> Instruction:
    (a,) = _operands(x, element_type, 2)
    *batch, m, n = a.dimensions
    return _results(e, x, *e.elements(_call(e, x, "geqrf", a, Shape(element_type, (*batch, min(m, n))))))


def _orgqr(e: Writer, x: Instruction, element_type: str) -> Instruction:
    a, taus = _operands(x, element_type, 2, 1)
    m, n = a.dimensions[-2:]
    if not taus.dimensions[-1] <= n <= m:
        raise UnsupportedError(f"{x.where}: {taus} are not the factors of reflections in the columns of {a}")
    return _results(e, x, _call(e, x, "orgqr", a))


def _square(x: Instruction, element_type: str) -> tuple[Shape, tuple[int, ...], int]:
    """The shape of the one operand, square matrices; their batch dimensions and their size."""
    (a,) = _operands(x, element_type, 2)
    *batch, m, n = a.dimensions
    if m != n:
        raise UnsupportedError(f"{x.where}: {a} are no square matrices")
    return a, tuple(batch), n


def _sytrd(e: Writer, x: Instruction, element_type: str) -> Instruction:
    a, batch, n = _square(x, element_type)
    if n == 0:
        raise UnsupportedError(f"{x.where}: {a} have no tridiagonal form")
    triangle = "lower" if _option(x, "uplo", "LU") == "L" else "upper"
    real = REAL_OF.get(element_type, element_type)
    beside = (*batch, n - 1)
    shapes = (a, Shape(real, (*batch, n)), Shape(real, beside), Shape(element_type, beside), Shape("s32", batch))
    return _results(e, x, *e.elements(_call(e, x, f"sytrd_{triangle}", *shapes)))


def _syevd(e: Writer, x: Instruction, element_type: str) -> Instruction:
    a, batch, n = _square(x, element_type)
    triangle = "lower" if _option(x, "uplo", "LU") == "L" else "upper"
    results = "vectors" if _option(x, "mode", "NV") == "V" else "values"
    real = REAL_OF.get(element_type, element_type)
    call = _call(e, x, f"syevd_{triangle}_{results}", a, Shape(real, (*batch, n)), Shape("s32", batch))
    return _results(e, x, *e.elements(call))


def _gesdd(e: Writer, x: Instruction, element_type: str) -> Instruction:
    (a,) = _operands(x, element_type, 2)
    *batch, m, n = a.dimensions
    k, mode = min(m, n), _option(x, "mode", "ASN")
    # Without vectors their arrays may be of either size.
    full = mode == "A" or mode == "N" and [s.dimensions[-2:] for s in x.shape.tuple_shapes[2:4]] == [(m, m), (n, n)]
    u, vt = ((*batch, m, m), (*batch, n, n)) if full else ((*batch, m, k), (*batch, k, n))
    name = "gesdd" + ("_full" if full else "_reduced") + ("_values" if mode == "N" else "_vectors")
    real = REAL_OF.get(element_type, element_type)
    shapes = (Shape(real, (*batch, k)), Shape(element_type, u), Shape(element_type, vt), Shape("s32", tuple(batch)))
    return _results(e, x, x.operands[0], *e.elements(_call(e, x, name, *shapes)))


def _geqp3(e: Writer, x: Instruction, element_type: str) -> Instruction:
    a, pivots = (o.shape.without_layout() for o in x.operands)
    *batch, m, n = a.dimensions
    if a.element_type != element_type or pivots != Shape("s32", (*batch, n)):
        raise UnsupportedError(f"{x.where}: {pivots} are not the pivots of {a}")
    return _results(e, x, *e.elements(_call(e, x, "geqp3", a, pivots, Shape(element_type, (*batch, min(m, n))))))


def _ormqr(e: Writer, x: Instruction, element_type: str) -> Instruction:
    a, taus, c = _operands(x, element_type, 2, 1, 2)
    left, transpose = _flag(x, "left"), _flag(x, "transpose")
    (m, n), k = a.dimensions[-2:], taus.dimensions[-1]
    if m != c.dimensions[-2 if left else -1] or k > min(m, n):
        raise UnsupportedError(
            f"{x.where}: {k} reflections in {a} cannot stand on the {'left' if left else 'right'} of {c}"
        )
    return _call(e, x, f"ormqr_{'left' if left else 'right'}_{'adjoint' if transpose else 'itself'}", c)


def _gehrd(e: Writer, x: Instruction, element_type: str) -> Instruction:
    a, batch, n = _square(x, element_type)
    low, high = _number(x, "low"), _number(x, "high")
    if (low, high) != (1, n):
        raise UnsupportedError(
            f"{x.where}: {x.attrs['custom_call_target']} of rows {low} to {high} of {n} is not supported, only of all"
        )
    shapes = (a, Shape(element_type, (*batch, max(n - 1, 0))), Shape("s32", batch))
    return _results(e, x, *e.elements(_call(e, x, "gehrd", *shapes)))


def _diagonals(x: Instruction, element_type: str) -> tuple[list[Shape], tuple[int, ...]]:
    """The shapes of the operands of a solver of tridiagonal systems, and its batch dimensions."""
    shapes = _operands(x, element_type, 1, 1, 1, 2)
    n = shapes[0].dimensions[-1]
    if any(s.dimensions[-1] != n for s in shapes[:3]) or shapes[3].dimensions[-2] != n:
        raise UnsupportedError(f"{x.where}: {', '.join(map(str, shapes))} are no tridiagonal systems")
    return shapes, shapes[3].dimensions[:-2]


def _gtsv(e: Writer, x: Instruction, element_type: str) -> Instruction:
    shapes, batch = _diagonals(x, element_type)
    return _results(e, x, *e.elements(_call(e, x, "gtsv", *shapes, Shape("s32", batch))))


def _gtsv_perturbed(e: Writer, x: Instruction) -> Instruction:
    element_type = x.operands[0].shape.element_type if x.operands else ""
    if element_type not in TYPES.values():
        raise UnsupportedError(f"{x.where}: {x.attrs['custom_call_target']} of {element_type} is not supported")
    shapes, _ = _diagonals(x, element_type)
    return _call(e, x, "gtsv_perturbed", shapes[3])


def _eigenvalues(element_type: str, dims: tuple[int, ...]) -> list[Shape]:
    """Returns the shapes of what holds eigenvalues that may be complex: real and imaginary parts apart, for real
    matrices."""
    return [Shape(element_type, dims)] * (1 if element_type in REAL_OF else 2)


def _geev(e: Writer, x: Instruction, element_type: str) -> Instruction:
    a, batch, n = _square(x, element_type)
    sides = [side for side in ("left", "right") if _option(x, f"compute_{side}", "NV") == "V"]
    vectors = Shape(COMPLEX_OF.get(element_type, element_type), a.dimensions)
    shapes = (*_eigenvalues(element_type, (*batch, n)), vectors, vectors, Shape("s32", batch))
    return _results(e, x, *e.elements(_call(e, x, f"geev_{'_'.join(sides) or 'values'}", *shapes)))


def _gees(e: Writer, x: Instruction, element_type: str) -> Instruction:
    a, batch, n = _square(x, element_type)
    _option(x, "sort", "N")
    results = "vectors" if _option(x, "mode", "NV") == "V" else "form"
    info = Shape("s32", batch)
    call = _call(e, x, f"gees_{results}", a, a, *_eigenvalues(element_type, (*batch, n)), info, info)
    return _results(e, x, *e.elements(call))


FUNCTIONS: dict[str, Callable[[Writer, Instruction, str], Instruction]] = {
    "potrf": _potrf,
    "trsm": _trsm,
    "getrf": _getrf,
    "geqrf": _geqrf,
    **dict.fromkeys(("orgqr", "ungqr"), _orgqr),
    **dict.fromkeys(("sytrd", "hetrd"), _sytrd),
    **dict.fromkeys(("syevd", "heevd"), _syevd),
    **dict.fromkeys(("gesdd", "gesvd"), _gesdd),
    "geqp3": _geqp3,
    **dict.fromkeys(("ormqr", "unmqr"), _ormqr),
    "gehrd": _gehrd,
    "gtsv": _gtsv,
    "geev": _geev,
    "gees": _gees,
}
"""Name in LAPACK -> rule for the functions of that name, of which there is one for each element type."""


def of_each_type(target: str, rule: Callable[[Writer, Instruction, str], Instruction]) -> dict[str, Rule]:
    """A rule for the element type of each target, `target` with the type's letter in it."""

    def of(element_type: str) -> Rule:
        return lambda e, x: rule(e, x, element_type)

    return {target.format(letter): of(element_type) for letter, element_type in TYPES.items()}


LAPACK: dict[str, Rule] = {"tridiagonal_solve_perturbed_ffi": _gtsv_perturbed}
"""Target of a custom call -> rule."""

for _name, _rule in FUNCTIONS.items():
    LAPACK |= of_each_type(f"lapack_{{}}{_name}_ffi", _rule)
