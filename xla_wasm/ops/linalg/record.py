"""Records of matrix factorisations and solvers."""

from __future__ import annotations

from ...hlo.attrs import TriangularSolveOptions
from ...hlo.infer import array, brief, broken, need_kind
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Narrow, Op
from ...hlo.shape import Shape

_ANALYTIC = ("float", "complex")


def _square(instr: Instruction) -> Shape:
    shape = array(instr, 0)
    need_kind(instr, shape.element_type, _ANALYTIC, 1, "operand 0")
    if shape.rank < 2 or shape.dimensions[-1] != shape.dimensions[-2]:
        raise broken(instr, 2, f"the last two dimensions of {brief(shape)} are not those of a square matrix")
    return shape


def _cholesky(instr: Instruction) -> Shape:
    shape = _square(instr)
    return Shape(shape.element_type, shape.dimensions, None, shape.dynamic)


def _triangular_solve(instr: Instruction) -> Shape:
    a, b = _square(instr), array(instr, 1)
    options: TriangularSolveOptions = instr.attrs["triangular_solve_options"]
    if a.element_type != b.element_type or a.rank != b.rank or a.dimensions[:-2] != b.dimensions[:-2]:
        raise broken(instr, 3, f"{brief(a)} and {brief(b)} differ in type or batch dimensions")
    if b.dimensions[-2 if options.left_side else -1] != a.dimensions[-1]:
        raise broken(
            instr, 4, f"{brief(a)} cannot stand on the {'left' if options.left_side else 'right'} of {brief(b)}"
        )
    if options.transpose_a not in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        raise broken(instr, 5, f"transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT, not {options.transpose_a}")
    return Shape(b.element_type, b.dimensions, None, b.dynamic)


OPS: tuple[Op, ...] = (
    Op(
        "cholesky",
        (1, 1),
        _cholesky,
        (Attr("lower", "cholesky_options", (62,), False),),
        complex=True,
        narrow=Narrow.COMPUTED,
        doc="The triangular factor of positive definite matrices, reading one triangle of them.",
        constraints=("The operand is a float or complex array.", "Its last two dimensions are equal."),
    ),
    Op(
        "triangular-solve",
        (2, 2),
        _triangular_solve,
        (Attr("triangular_solve_options", "triangular_solve_options", (59,), REQUIRED),),
        complex=True,
        narrow=Narrow.COMPUTED,
        doc="The x for which a x = b (or x a = b), where a is triangular, or the transpose or adjoint of a triangular "
        "matrix.",
        constraints=(
            "The operands are float or complex arrays.",
            "The last two dimensions of a are equal.",
            "Both have the same type, rank and batch dimensions.",
            "The rows of b (its columns, if a stands on the right) are as many as those of a.",
            "transpose_a is NO_TRANSPOSE, TRANSPOSE or ADJOINT.",
        ),
    ),
)
