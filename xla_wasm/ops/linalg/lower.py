"""Factorisations, decompositions and triangular systems as calls of the C runtime: `runtime_c/linalg.h` and those
beside it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...hlo.attrs import TriangularSolveOptions
from ...hlo.ir import Instruction
from ...hlo.types import REAL_OF
from ...lowering.kernel_writer import KernelWriter
from ...lowering.source import Source

_LEFT, _LOWER, _UNIT, _TRANSPOSED, _CONJUGATE = 1, 2, 4, 8, 16
_KEEP, _VECTORS, _FULL, _RIGHT, _LEFT_VECTORS = 4, 32, 64, 128, 256

_TERMS, _COLUMNS, _TILE, _PANEL = 32, 512, 8, 8
"""The blocks of the routines in a product (KC, NC, at least NR) and in a factorisation (WIDTH)."""


class _Memory:
    """The work memory of a routine on matrices of one element type."""

    def __init__(self, k: KernelWriter, element_type: str):
        self.k = k
        self.planes = 2 if element_type in REAL_OF else 1
        self.part = REAL_OF.get(element_type, element_type)

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

    def numbers(self, count: int) -> Source:
        return self.k.scratch(self.part, (count,))


def cholesky_kernel(k: KernelWriter, x: Instruction) -> None:
    """The factors of a batch of matrices."""
    _cholesky(k, x, x.attrs["lower"])


def potrf_kernel(k: KernelWriter, x: Instruction) -> None:
    """The same as LAPACK's potrf has it: the other triangle stays, and a second result says what was found."""
    lower = x.attrs["custom_call_target"].endswith("lower")
    _cholesky(k, x, lower, keep=True)


def _cholesky(k: KernelWriter, x: Instruction, lower: bool, keep: bool = False) -> None:
    a = k.whole(x.operands[0])
    n = a.dims[-1]
    memory = _Memory(k, a.dtype)
    outputs = k.outputs[x]
    info = outputs[1] if len(outputs) > 1 else 0
    work, packed = memory.work(n, n), memory.packed(n, n)
    flags = (_LOWER if lower else 0) | (_KEEP if keep else 0)
    k.invoke_each(f"xw_cholesky_{a.dtype}", (outputs[0], info, a, work, packed), prod(a.dims[:-2]), n, flags)


def triangular_solve_kernel(k: KernelWriter, x: Instruction) -> None:
    """The solutions of a batch of systems, each with any number of right-hand sides."""
    a, b = (k.whole(o) for o in x.operands)
    options: TriangularSolveOptions = x.attrs["triangular_solve_options"]
    n = a.dims[-1]
    m = b.dims[-1 if options.left_side else -2]
    memory = _Memory(k, a.dtype)
    work, packed = memory.work(n, min(m, _COLUMNS)), memory.packed(n, m)
    flags = (
        (_LEFT if options.left_side else 0) | (_LOWER if options.lower else 0) | (_UNIT if options.unit_diagonal else 0)
    )
    flags |= _TRANSPOSED if options.transpose_a != "NO_TRANSPOSE" else 0
    flags |= _CONJUGATE if options.transpose_a == "ADJOINT" else 0
    (output,) = k.outputs[x]
    k.invoke_each(f"xw_triangular_solve_{a.dtype}", (output, a, b, work, packed), prod(a.dims[:-2]), n, m, flags)


def lu_kernel(k: KernelWriter, x: Instruction) -> None:
    """Both factors in one array, the pivots from 1, and LAPACK's info, for a batch of matrices."""
    a = k.whole(x.operands[0])
    m, n = a.dims[-2:]
    memory = _Memory(k, a.dtype)
    work, packed, panel = memory.work(m, n), memory.packed(min(m, n), n), memory.panel(m)
    k.invoke_each(f"xw_lu_{a.dtype}", (*k.outputs[x], a, work, packed, panel), prod(a.dims[:-2]), m, n)


def qr_kernel(k: KernelWriter, x: Instruction) -> None:
    """R with the reflections below it, and the factors of these, for a batch of matrices."""
    a = k.whole(x.operands[0])
    m, n = a.dims[-2:]
    memory = _Memory(k, a.dtype)
    work = memory.numbers(memory.planes * m * n)
    k.invoke_each(f"xw_qr_{a.dtype}", (*k.outputs[x], a, work), prod(a.dims[:-2]), m, n)


def householder_product_kernel(k: KernelWriter, x: Instruction) -> None:
    """The first columns of products of reflections."""
    a, taus = (k.whole(o) for o in x.operands)
    m, n = a.dims[-2:]
    memory = _Memory(k, a.dtype)
    work = memory.numbers(memory.planes * m * n)
    (output,) = k.outputs[x]
    k.invoke_each(f"xw_householder_product_{a.dtype}", (output, a, taus, work), prod(a.dims[:-2]), m, n, taus.dims[-1])


def tridiagonal_kernel(k: KernelWriter, x: Instruction) -> None:
    """Tridiagonal matrices similar to Hermitian ones."""
    a = k.whole(x.operands[0])
    n = a.dims[-1]
    memory = _Memory(k, a.dtype)
    work = memory.numbers(memory.columns(n, n + 4))
    flags = _LOWER if x.attrs["custom_call_target"].endswith("lower") else 0
    k.invoke_each(f"xw_tridiagonal_{a.dtype}", (*k.outputs[x], a, work), prod(a.dims[:-2]), n, flags)


def eigh_kernel(k: KernelWriter, x: Instruction) -> None:
    """Eigenvalues and eigenvectors of Hermitian matrices."""
    a = k.whole(x.operands[0])
    n = a.dims[-1]
    memory = _Memory(k, a.dtype)
    real = memory.columns(n, 2 * n + 8) // memory.planes + 16 * n
    work, order = memory.numbers(memory.columns(n, 2 * n + 4) + 6 * n + real), k.scratch("s32", (4 * n,))
    _, triangle, results = x.attrs["custom_call_target"].split("_")[-3:]
    flags = (_LOWER if triangle == "lower" else 0) | (_VECTORS if results == "vectors" else 0)
    k.invoke_each(f"xw_eigh_{a.dtype}", (*k.outputs[x], a, work, order), prod(a.dims[:-2]), n, flags)


def svd_kernel(k: KernelWriter, x: Instruction) -> None:
    """Singular values and vectors."""
    a = k.whole(x.operands[0])
    m, n = a.dims[-2:]
    _, form, results = x.attrs["custom_call_target"].split("_")[-3:]
    high, low = max(m, n), min(m, n)
    width = high if form == "full" else low
    memory = _Memory(k, a.dtype)
    count = 2 * low + (width + low if results == "vectors" else 0)
    work, order = memory.numbers(memory.columns(high, count + 5) + 10 * low), k.scratch("s32", (width,))
    flags = (_FULL if form == "full" else 0) | (_VECTORS if results == "vectors" else 0)
    k.invoke_each(f"xw_svd_{a.dtype}", (*k.outputs[x], a, work, order), prod(a.dims[:-2]), m, n, flags)


def pivoted_qr_kernel(k: KernelWriter, x: Instruction) -> None:
    """QR of matrices whose columns are put into the order of what is left of them."""
    a, pivots = (k.whole(o) for o in x.operands)
    m, n = a.dims[-2:]
    memory = _Memory(k, a.dtype)
    work = memory.numbers(memory.columns(m, n) + 2 * n)
    k.invoke_each(f"xw_pivoted_qr_{a.dtype}", (*k.outputs[x], a, pivots, work), prod(a.dims[:-2]), m, n)


def multiply_by_q_kernel(k: KernelWriter, x: Instruction) -> None:
    """Products with products of reflections."""
    a, taus, c = (k.whole(o) for o in x.operands)
    rows, width = c.dims[-2:]
    _, side, form = x.attrs["custom_call_target"].split("_")[-3:]
    high, count = (width, rows) if side == "right" else (rows, width)
    memory = _Memory(k, a.dtype)
    work = memory.numbers(memory.columns(high, taus.dims[-1] + count))
    flags = (_RIGHT if side == "right" else 0) | (_TRANSPOSED if form == "adjoint" else 0)
    numbers = (rows, width, a.dims[-1], taus.dims[-1], flags)
    k.invoke_each(f"xw_multiply_by_q_{a.dtype}", (*k.outputs[x], a, taus, c, work), prod(a.dims[:-2]), *numbers)


def hessenberg_kernel(k: KernelWriter, x: Instruction) -> None:
    """Hessenberg matrices similar to others."""
    a = k.whole(x.operands[0])
    n = a.dims[-1]
    memory = _Memory(k, a.dtype)
    work = memory.numbers(memory.columns(n, n + 1))
    k.invoke_each(f"xw_hessenberg_{a.dtype}", (*k.outputs[x], a, work), prod(a.dims[:-2]), n)


def tridiagonal_solve_kernel(k: KernelWriter, x: Instruction) -> None:
    """The solutions of tridiagonal systems."""
    sources = [k.whole(o) for o in x.operands]
    n, width = sources[3].dims[-2:]
    k.invoke_each(
        f"xw_tridiagonal_solve_{sources[0].dtype}", (*k.outputs[x], *sources), prod(sources[3].dims[:-2]), n, width
    )


def tridiagonal_solve_perturbed_kernel(k: KernelWriter, x: Instruction) -> None:
    """The same where a system may be singular."""
    sources = [k.whole(o) for o in x.operands]
    n, width = sources[3].dims[-2:]
    memory = _Memory(k, sources[0].dtype)
    work = memory.numbers(memory.planes * 3 * n)
    symbol = f"xw_tridiagonal_solve_perturbed_{sources[0].dtype}"
    k.invoke_each(symbol, (*k.outputs[x], *sources, work), prod(sources[3].dims[:-2]), n, width)


def _values_apart(results: Sequence[Source], at: int, element_type: str) -> list[Source | int]:
    """The results with a 0 for imaginary parts of eigenvalues, which complex types do not have."""
    return [*results[:at], 0, *results[at:]] if element_type in REAL_OF else list(results)


def eig_kernel(k: KernelWriter, x: Instruction) -> None:
    """Eigenvalues and eigenvectors of general matrices."""
    a = k.whole(x.operands[0])
    n = a.dims[-1]
    memory = _Memory(k, a.dtype)
    work, places = memory.numbers(memory.columns(n, 2 * n + 2) + 10 * n), k.scratch("s32", (n,))
    words = x.attrs["custom_call_target"].split("_")
    flags = (_VECTORS if "right" in words else 0) | (_LEFT_VECTORS if "left" in words else 0)
    results = _values_apart(k.outputs[x], 1, a.dtype)
    k.invoke_each(f"xw_eig_{a.dtype}", (*results, a, work, places), prod(a.dims[:-2]), n, flags)


def schur_kernel(k: KernelWriter, x: Instruction) -> None:
    """Schur forms of general matrices."""
    a = k.whole(x.operands[0])
    n = a.dims[-1]
    memory = _Memory(k, a.dtype)
    work = memory.numbers(memory.columns(n, 2 * n + 2) + 10 * n)
    flags = _VECTORS if x.attrs["custom_call_target"].endswith("vectors") else 0
    results = _values_apart(k.outputs[x], 3, a.dtype)
    k.invoke_each(f"xw_schur_{a.dtype}", (*results, a, work), prod(a.dims[:-2]), n, flags)


KERNELS = {"cholesky": cholesky_kernel, "triangular-solve": triangular_solve_kernel}

ROUTINES = {
    "xla_wasm.potrf_lower": potrf_kernel,
    "xla_wasm.potrf_upper": potrf_kernel,
    "xla_wasm.getrf": lu_kernel,
    "xla_wasm.geqrf": qr_kernel,
    "xla_wasm.orgqr": householder_product_kernel,
    **{f"xla_wasm.sytrd_{triangle}": tridiagonal_kernel for triangle in ("lower", "upper")},
    **{
        f"xla_wasm.syevd_{triangle}_{results}": eigh_kernel
        for triangle in ("lower", "upper")
        for results in ("vectors", "values")
    },
    **{
        f"xla_wasm.gesdd_{form}_{results}": svd_kernel
        for form in ("full", "reduced")
        for results in ("vectors", "values")
    },
    "xla_wasm.geqp3": pivoted_qr_kernel,
    **{
        f"xla_wasm.ormqr_{side}_{form}": multiply_by_q_kernel
        for side in ("left", "right")
        for form in ("itself", "adjoint")
    },
    "xla_wasm.gehrd": hessenberg_kernel,
    **{f"xla_wasm.geev_{results}": eig_kernel for results in ("values", "left", "right", "left_right")},
    **{f"xla_wasm.gees_{results}": schur_kernel for results in ("form", "vectors")},
    "xla_wasm.gtsv": tridiagonal_solve_kernel,
    "xla_wasm.gtsv_perturbed": tridiagonal_solve_perturbed_kernel,
}
"""Kernels of custom calls that expansions make."""
