"""The LAPACK functions by which JAX on CPU asks for linear algebra, as operations of HLO.

The calls have column-major layouts, which say how their arrays lie in memory and nothing about their elements. Their options
are characters of LAPACK's, given by number in a dictionary of attributes.
"""

from __future__ import annotations

import re

from ...errors import UnsupportedError
from ...hlo.attrs import TriangularSolveOptions
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..writer import Rule, Writer

_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def _option(x: Instruction, name: str, allowed: str) -> str:
    """One of the characters `allowed` that the call is configured with."""
    config = x.attrs.get("backend_config") or ""
    text = config.decode("utf-8", "replace") if isinstance(config, bytes) else str(config)
    found = re.search(rf"\b{name}\s*=\s*(\d+)", text)
    value = chr(int(found[1]) % 256) if found else ""
    if not value or value not in allowed:
        raise UnsupportedError(f"{x.where}: {x.attrs['custom_call_target']} needs {name} to be one of {', '.join(allowed)}; found {text!r}")
    return value


def _bare(shape: Shape) -> Shape:
    return shape.with_leaves(iter([leaf.without_layout() for _, leaf in shape.leaves()]))


def _potrf(e: Writer, x: Instruction) -> Instruction:
    triangle = "lower" if _option(x, "uplo", "LU") == "L" else "upper"
    return e.op("custom-call", *x.operands, shape=_bare(x.shape), custom_call_target=f"xla_wasm.potrf_{triangle}")


def _trsm(e: Writer, x: Instruction) -> Instruction:
    options = TriangularSolveOptions(
        left_side=_option(x, "side", "LR") == "L",
        lower=_option(x, "uplo", "LU") == "L",
        unit_diagonal=_option(x, "diag", "NU") == "U",
        transpose_a=_TRANSPOSES[_option(x, "trans_x", "NTC")],
    )
    return e.op("triangular-solve", *x.operands, triangular_solve_options=options)


def _routine(name: str) -> Rule:
    def rule(e: Writer, x: Instruction) -> Instruction:
        return e.op("custom-call", *x.operands, shape=_bare(x.shape), custom_call_target=f"xla_wasm.{name}")

    return rule


_OTHERS = {
    "geqp3 ormqr unmqr": ("qr with pivots or of a product", "jnp.linalg.qr without them"),
    "gesdd gesvd gesvdj": ("svd", "jnp.linalg.solve, or cholesky of the Gram matrix"),
    "syevd heevd": ("eigh", "cholesky where only a factor is needed"),
    "geev": ("eig", "a computation that needs no eigenvalues"),
    "gees": ("schur", "a computation that needs no Schur form"),
    "gehrd": ("hessenberg", "jnp.linalg.solve"),
    "sytrd hetrd": ("tridiagonal", "jnp.linalg.solve"),
    "gtsv": ("tridiagonal_solve", "jnp.linalg.solve on the whole matrix"),
}


def _refused(function: str, instead: str) -> Rule:
    def rule(e: Writer, x: Instruction) -> Instruction:
        target = x.attrs["custom_call_target"]
        raise UnsupportedError(f"{x.where}: {target} ({function}) is not supported yet; try {instead}, or compute it outside the module")

    return rule


def _table() -> dict[str, Rule]:
    done: dict[str, Rule] = {"potrf": _potrf, "trsm": _trsm, "getrf": _routine("getrf"), "geqrf": _routine("geqrf")}
    done |= dict.fromkeys(("orgqr", "ungqr"), _routine("orgqr"))
    others = {name: _refused(*text) for names, text in _OTHERS.items() for name in names.split()}
    return {f"lapack_{letter}{name}_ffi": rule for name, rule in (done | others).items() for letter in "sdcz"}


LAPACK: dict[str, Rule] = _table()
"""Target of a custom call -> rule."""
