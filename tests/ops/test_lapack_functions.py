"""Functions of jnp.linalg, jax.scipy.linalg and others that use LAPACK's calls, with gradients, under wasmtime and in
Node, against XLA:CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.signal
import numpy as np
import pytest
from jax.scipy import linalg as scipy_linalg

import xla_wasm
from tests.support import seeds
from tests.support.matrices import numbers
from tests.support.node_host import run_in_node


def loss(f: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient of what does not depend on signs or phases: of the sizes of all elements, each with a weight of its
    own."""

    def value(*args: Any) -> Any:
        leaves = [x for x in jax.tree.leaves(f(*args)) if jnp.issubdtype(x.dtype, jnp.inexact)]
        return sum(jnp.sum(jnp.abs(x) ** 2 * jnp.arange(1, x.size + 1).reshape(x.shape)) for x in leaves)

    return jax.grad(value)


VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "svd": lambda a, t: jnp.linalg.svd(t, full_matrices=False),
    "svdvals": lambda a, t: jnp.linalg.svdvals(t),
    "eigh": lambda a, t: jnp.linalg.eigh(a),
    "eigvalsh": lambda a, t: jnp.linalg.eigvalsh(a),
    "eig": lambda a, t: jnp.linalg.eig(a),
    "eigvals": lambda a, t: jnp.linalg.eigvals(a),
    "lstsq": lambda a, t: jnp.linalg.lstsq(t, t[::-1, :2]),
    "pinv": lambda a, t: jnp.linalg.pinv(t),
    "matrix_rank": lambda a, t: jnp.linalg.matrix_rank(t[:, :1] * t[:1]),
    "cond": lambda a, t: jnp.linalg.cond(a),
    "norm 2": lambda a, t: jnp.linalg.norm(t, ord=2),
    "norm nuc": lambda a, t: jnp.linalg.norm(t, ord="nuc"),
    "polar": lambda a, t: scipy_linalg.polar(a),
    "sqrtm": lambda a, t: scipy_linalg.sqrtm(a),
    "funm": lambda a, t: scipy_linalg.funm(a, jnp.sin),
    "schur": lambda a, t: scipy_linalg.schur(a, output="complex"),
    "rsf2csf": lambda a, t: scipy_linalg.rsf2csf(*scipy_linalg.schur(a)),
    "hessenberg": lambda a, t: scipy_linalg.hessenberg(a, calc_q=True),
    "qr": lambda a, t: scipy_linalg.qr(t, pivoting=True),
    "qr_multiply": lambda a, t: scipy_linalg.qr_multiply(a, a),
    "solve_sylvester": lambda a, t: scipy_linalg.solve_sylvester(a, a + 1, a),
    "eigh_tridiagonal": lambda a, t: scipy_linalg.eigh_tridiagonal(jnp.abs(a[0]), jnp.abs(a[1, 1:]), eigvals_only=True),
    "roots": lambda a, t: jnp.roots(a[0], strip_zeros=False),
    "detrend": lambda a, t: jax.scipy.signal.detrend(t, axis=0),
    "polyfit": lambda a, t: jnp.polyfit(jnp.arange(7.0, dtype=t.real.dtype), t[:, 0], 2),
}

GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "svd": lambda a, t: loss(lambda x: jnp.linalg.svd(x, full_matrices=False))(t),
    "svdvals": lambda a, t: loss(jnp.linalg.svdvals)(t),
    "eigh": lambda a, t: loss(jnp.linalg.eigh)(a),
    "eigvalsh": lambda a, t: loss(jnp.linalg.eigvalsh)(a),
    "eigvals": lambda a, t: loss(jnp.linalg.eigvals)(a),
    "qr": lambda a, t: loss(jnp.linalg.qr)(t),
    "qr with pivots": lambda a, t: loss(lambda x: scipy_linalg.qr(x, pivoting=True, mode="economic")[:2])(t),
    "lstsq": lambda a, t: loss(lambda x: jnp.linalg.lstsq(x, t[::-1, :2])[0])(t),
    "pinv": lambda a, t: loss(jnp.linalg.pinv)(t),
    "cond": lambda a, t: loss(jnp.linalg.cond)(a),
    "norm 2": lambda a, t: loss(lambda x: jnp.linalg.norm(x, ord=2))(t),
    "norm nuc": lambda a, t: loss(lambda x: jnp.linalg.norm(x, ord="nuc"))(t),
    "roots": lambda a, t: loss(lambda x: jnp.roots(x, strip_zeros=False))(a[0]),
    "detrend": lambda a, t: loss(jax.scipy.signal.detrend)(t),
    "tridiagonal_solve": lambda a, t: loss(lambda x: jax.lax.linalg.tridiagonal_solve(x[0], x[1] + 4, x[2], x))(a),
}


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        *(("f64", "values"), ("c64", "values"), ("f32", "gradients"), ("c128", "gradients")),
        *seeds.more(("f32", "values"), ("c128", "values"), ("f64", "gradients"), ("c64", "gradients")),
    ],
)
def test_functions_of_jax_in_both_hosts(dtype: str, kind: str, tmp_path: Path) -> None:
    functions = {"values": VALUES, "gradients": GRADIENTS}[kind]
    known = {name: f for name, f in functions.items() if not (dtype[0] == "c" and name == "eigh_tridiagonal")}
    args = (numbers(dtype, 5, 5), numbers(dtype, 7, 4, seed=1))
    with jax.enable_x64(True):
        lowered = jax.jit(lambda a, t: {name: f(a, t) for name, f in known.items()}).lower(*args)
        module = xla_wasm.HloModule.from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
        expected = jax.tree.leaves_with_path(lowered.compile()(*args))
    artifact = xla_wasm.compile(module)
    for results in (xla_wasm.load(artifact).run(*args), *run_in_node(artifact, [args], tmp_path)):
        for x, (path, y) in zip(results, expected, strict=True):
            x, y, what = np.asarray(x), np.asarray(y), jax.tree_util.keystr(path)
            assert x.shape == y.shape and x.dtype == y.dtype, what
            if x.dtype.kind in "iub":
                np.testing.assert_array_equal(x, y, what)
                continue
            error = np.max(np.abs(np.abs(x) - np.abs(y)), initial=0)
            assert error <= 4000 * np.finfo(x.dtype).eps * np.max(np.abs(y), initial=np.finfo(x.dtype).tiny), what
