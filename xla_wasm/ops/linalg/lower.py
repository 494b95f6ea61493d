"""Factorisations, decompositions and triangular systems as calls of the C runtime: `runtime_c/linalg.h` and those
beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

from ...hlo.attrs import TriangularSolveOptions
from ...hlo.ir import Instruction
from ...hlo.types import REAL_OF
from ...lowering.kernel_writer import KernelWriter
from ...lowering.source import Source

_LEFT, _LOWER, _UNIT, _TRANSPOSED, _CONJUGATE = 1, 2, 4, 8, 16
_KEEP, _VECTORS, _FULL, _RIGHT, _LEFT_VECTORS = 4, 32, 64, 128, 256

_TERMS, _COLUMNS, _TILE, _PANEL = 32, 512, 8, 8
"""The blocks of the routines in a product (KC, NC, at least NR) and in a factorisation (WIDTH)."""


class _Routine:
    """A routine that does the same with each matrix of a batch: its arrays, and its memory for work on one matrix."""

    def __init__(self, k: KernelWriter, x: Instruction):
        self.k = k
        self.operands = [k.whole(o) for o in x.operands]
        self.a = self.operands[0]
        self.results: Sequence[Source | int] = k.outputs[x]
        self.part = REAL_OF.get(self.a.dtype, self.a.dtype)
        self.planes = 2 if self.a.dtype in REAL_OF else 1
        self.words = x.attrs.get("custom_call_target", "").split("_")
        """Of what is called; the last ones say what is asked for."""

    def call(self, name: str, *numbers: int, memory: Sequence[Source] = (), batch: Source | None = None) -> None:
        """Calls `name` for each matrix of `batch`, as a rule the first operand."""
        count = prod((batch or self.a).dims[:-2])
        arrays = (*self.results, *self.operands, *memory)
        self.k.invoke_each(f"xw_{name}_{self.a.dtype}", arrays, count, *numbers)

    def flags(self, **bits: int) -> int:
        """The sum of the bits whose names the call has."""
        return sum(bit for word, bit in bits.items() if word in self.words)

    def numbers(self, count: int) -> Source:
        return self.k.scratch(self.part, (count,))

    def work(self, rows: int, columns: int) -> Source:
        """Rows with space behind them; parts of complex numbers apart."""
        return self.numbers(self.planes * rows * (-(-columns // 8) * 8 + 8))

    def packed(self, terms: int, columns: int) -> Source:
        """Both sides of a product."""
        strips = min(columns, _COLUMNS) + _TILE
        return self.numbers(4 * _TERMS + self.planes**2 * min(terms, _TERMS // self.planes) * strips)

    def panel(self, rows: int) -> Source:
        """Some columns of a matrix."""
        return self.numbers(self.planes * rows * _PANEL)

    def columns(self, rows: int, count: int) -> int:
        """The numbers in so many columns, each with zeros behind it."""
        return self.planes * (-(-rows // 8) * 8 + 8) * count

    def leave_out(self, result: int) -> None:
        """Passes a 0 for a result that nobody wants."""
        self.results = [*self.results[:result], 0, *self.results[result:]]


def cholesky_kernel(k: KernelWriter, x: Instruction) -> None:
    """The factors of a batch of matrices. As LAPACK's potrf has them, the other triangle stays, and a second result
    says what was found."""
    r = _Routine(k, x)
    n = r.a.dims[-1]
    if x.opcode == "cholesky":
        r.leave_out(1)
        flags = _LOWER * x.attrs["lower"]
    else:
        flags = _KEEP | r.flags(lower=_LOWER)
    r.call("cholesky", n, flags, memory=(r.work(n, n), r.packed(n, n)))


def triangular_solve_kernel(k: KernelWriter, x: Instruction) -> None:
    """The solutions of a batch of systems, each with any number of right-hand sides."""
    r = _Routine(k, x)
    options: TriangularSolveOptions = x.attrs["triangular_solve_options"]
    n, m = r.a.dims[-1], r.operands[1].dims[-1 if options.left_side else -2]
    flags = _LEFT * options.left_side | _LOWER * options.lower | _UNIT * options.unit_diagonal
    flags |= {"NO_TRANSPOSE": 0, "TRANSPOSE": _TRANSPOSED, "ADJOINT": _TRANSPOSED | _CONJUGATE}[options.transpose_a]
    r.call("triangular_solve", n, m, flags, memory=(r.work(n, min(m, _COLUMNS)), r.packed(n, m)))


def lu_kernel(k: KernelWriter, x: Instruction) -> None:
    """Both factors in one array, the pivots from 1, and LAPACK's info, for a batch of matrices."""
    r = _Routine(k, x)
    m, n = r.a.dims[-2:]
    r.call("lu", m, n, memory=(r.work(m, n), r.packed(min(m, n), n), r.panel(m)))


def qr_kernel(k: KernelWriter, x: Instruction) -> None:
    """R with the reflections below it, and the factors of these, for a batch of matrices."""
    r = _Routine(k, x)
    m, n = r.a.dims[-2:]
    r.call("qr", m, n, memory=[r.numbers(r.planes * m * n)])


def householder_product_kernel(k: KernelWriter, x: Instruction) -> None:
    """The first columns of products of reflections."""
    r = _Routine(k, x)
    m, n = r.a.dims[-2:]
    r.call("householder_product", m, n, r.operands[1].dims[-1], memory=[r.numbers(r.planes * m * n)])


def tridiagonal_kernel(k: KernelWriter, x: Instruction) -> None:
    """Tridiagonal matrices similar to Hermitian ones."""
    r = _Routine(k, x)
    n = r.a.dims[-1]
    r.call("tridiagonal", n, r.flags(lower=_LOWER), memory=[r.numbers(r.columns(n, n + 4))])


def eigh_kernel(k: KernelWriter, x: Instruction) -> None:
    """Eigenvalues and eigenvectors of Hermitian matrices."""
    r = _Routine(k, x)
    n = r.a.dims[-1]
    real = r.columns(n, 2 * n + 8) // r.planes + 16 * n
    work, order = r.numbers(r.columns(n, 2 * n + 4) + 6 * n + real), k.scratch("s32", (4 * n,))
    r.call("eigh", n, r.flags(lower=_LOWER, vectors=_VECTORS), memory=(work, order))


def svd_kernel(k: KernelWriter, x: Instruction) -> None:
    """Singular values and vectors."""
    r = _Routine(k, x)
    m, n = r.a.dims[-2:]
    high, low = max(m, n), min(m, n)
    width = high if "full" in r.words else low
    count = 2 * low + (width + low if "vectors" in r.words else 0)
    work, order = r.numbers(r.columns(high, count + 5) + 10 * low), k.scratch("s32", (width,))
    r.call("svd", m, n, r.flags(full=_FULL, vectors=_VECTORS), memory=(work, order))


def pivoted_qr_kernel(k: KernelWriter, x: Instruction) -> None:
    """QR of matrices whose columns are put into the order of what is left of them."""
    r = _Routine(k, x)
    m, n = r.a.dims[-2:]
    r.call("pivoted_qr", m, n, memory=[r.numbers(r.columns(m, n) + 2 * n)])


def multiply_by_q_kernel(k: KernelWriter, x: Instruction) -> None:
    """Products with products of reflections."""
    r = _Routine(k, x)
    _, taus, c = r.operands
    rows, width = c.dims[-2:]
    high, count = (width, rows) if "right" in r.words else (rows, width)
    numbers = (rows, width, r.a.dims[-1], taus.dims[-1], r.flags(right=_RIGHT, adjoint=_TRANSPOSED))
    r.call("multiply_by_q", *numbers, memory=[r.numbers(r.columns(high, taus.dims[-1] + count))])


def hessenberg_kernel(k: KernelWriter, x: Instruction) -> None:
    """Hessenberg matrices similar to others."""
    r = _Routine(k, x)
    n = r.a.dims[-1]
    r.call("hessenberg", n, memory=[r.numbers(r.columns(n, n + 1))])


def tridiagonal_solve_kernel(k: KernelWriter, x: Instruction) -> None:
    """The solutions of tridiagonal systems."""
    r = _Routine(k, x)
    right = r.operands[3]
    r.call("tridiagonal_solve", *right.dims[-2:], batch=right)


def tridiagonal_solve_perturbed_kernel(k: KernelWriter, x: Instruction) -> None:
    """The same where a system may be singular."""
    r = _Routine(k, x)
    right = r.operands[3]
    n, width = right.dims[-2:]
    r.call("tridiagonal_solve_perturbed", n, width, memory=[r.numbers(r.planes * 3 * n)], batch=right)


def eig_kernel(k: KernelWriter, x: Instruction) -> None:
    """Eigenvalues and eigenvectors of general matrices."""
    r = _Routine(k, x)
    n = r.a.dims[-1]
    if r.planes == 2:  # no imaginary parts apart
        r.leave_out(1)
    work, places = r.numbers(r.columns(n, 2 * n + 2) + 10 * n), k.scratch("s32", (n,))
    r.call("eig", n, r.flags(right=_VECTORS, left=_LEFT_VECTORS), memory=(work, places))


def schur_kernel(k: KernelWriter, x: Instruction) -> None:
    """Schur forms of general matrices."""
    r = _Routine(k, x)
    n = r.a.dims[-1]
    if r.planes == 2:  # no imaginary parts apart
        r.leave_out(3)
    r.call("schur", n, r.flags(vectors=_VECTORS), memory=[r.numbers(r.columns(n, 2 * n + 2) + 10 * n)])


KERNELS = {"cholesky": cholesky_kernel, "triangular-solve": triangular_solve_kernel}


def _targets(
    kernel: Callable[[KernelWriter, Instruction], None], name: str, *choices: tuple[str, ...]
) -> dict[str, Any]:
    """The kernel of custom calls to a routine whose name ends with one word of each of `choices`."""
    return {f"xla_wasm.{'_'.join([name, *words])}": kernel for words in product(*choices)}


_TRIANGLES, _RESULTS = ("lower", "upper"), ("vectors", "values")
ROUTINES = {
    **_targets(cholesky_kernel, "potrf", _TRIANGLES),
    **_targets(lu_kernel, "getrf"),
    **_targets(qr_kernel, "geqrf"),
    **_targets(householder_product_kernel, "orgqr"),
    **_targets(tridiagonal_kernel, "sytrd", _TRIANGLES),
    **_targets(eigh_kernel, "syevd", _TRIANGLES, _RESULTS),
    **_targets(svd_kernel, "gesdd", ("full", "reduced"), _RESULTS),
    **_targets(pivoted_qr_kernel, "geqp3"),
    **_targets(multiply_by_q_kernel, "ormqr", ("left", "right"), ("itself", "adjoint")),
    **_targets(hessenberg_kernel, "gehrd"),
    **_targets(eig_kernel, "geev", ("values", "left", "right", "left_right")),
    **_targets(schur_kernel, "gees", ("form", "vectors")),
    **_targets(tridiagonal_solve_kernel, "gtsv"),
    **_targets(tridiagonal_solve_perturbed_kernel, "gtsv_perturbed"),
}
"""Kernels of custom calls that expansions make."""
