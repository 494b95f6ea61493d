"""Calls of LAPACK as older versions of JAX made them, and what JAX asks a TPU for, against the calls of today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from tests.support.closeness import Array
from tests.support.differential import run
from tests.support.matrices import adjoint, numbers
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.reference import evaluate

TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}

each_type = pytest.mark.parametrize("letter", TYPES)


def call(target: str, results: str, scalars: str, arrays: str, config: str = "") -> xla_wasm.HloModule:
    """A module around one call: `scalars` and `arrays` are shapes, the former with their values."""
    lines, names = [], []
    for i, text in enumerate(scalars.split()):
        kind, value = text.split("=")
        lines.append(f"  c{i} = {kind}[] constant({value})")
        names.append(f"c{i}")
    for i, shape in enumerate(arrays.split()):
        lines.append(f"  a{i} = {shape} parameter({i})")
        names.append(f"a{i}")
    more = f", api_version=API_VERSION_TYPED_FFI, backend_config={{{config}}}" if config else ""
    lines.append(f'  ROOT r = {results} custom-call({", ".join(names)}), custom_call_target="{target}"{more}')
    return xla_wasm.HloModule.from_text("HloModule m\n\nENTRY main {\n" + "\n".join(lines) + "\n}\n")


def results_of(module: xla_wasm.HloModule, *args: Array) -> list[Array]:
    """Returns the results of the compiled module; the reference must give the same shapes and types."""
    compiled = run(module, *args)
    known = evaluate(module, *args)
    for x, y in zip(compiled, known, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
    return compiled


def check_forms(older: tuple[str, ...], today: tuple[str, ...], order: tuple[int, ...], *args: Array) -> None:
    """The results of the older call, in this order, are those of today's."""
    mine, known = results_of(call(*older), *args), results_of(call(*today), *args)
    for i, y in zip(order, known, strict=True):
        np.testing.assert_array_equal(mine[i], y)


@each_type
def test_older_calls_of_one_triangle(letter: str) -> None:
    t = TYPES[letter]
    r, pair = t.replace("c64", "f32").replace("c128", "f64"), "he" if t[0] == "c" else "sy"
    a = numbers(t, 2, 4, 4)
    a = a @ adjoint(a) + np.eye(4, dtype=a.dtype)
    for lower in (0, 1):
        uplo = f"uplo = {ord('UL'[lower])} : ui8"
        check_forms(
            (f"lapack_{letter}potrf", f"({t}[2,4,4], s32[2])", f"s32={lower} s32=2 s32=4", f"{t}[2,4,4]"),
            (f"lapack_{letter}potrf_ffi", f"({t}[2,4,4], s32[2])", "", f"{t}[2,4,4]", uplo),
            (0, 1),
            a,
        )
        check_forms(
            (
                f"lapack_{letter}{pair}evd",
                f"({t}[2,4,4], {r}[2,4], s32[2], {t}[9], s32[3])",
                f"s32={lower} s32=2 s32=4",
                f"{t}[2,4,4]",
            ),
            (
                f"lapack_{letter}{pair}evd_ffi",
                f"({t}[2,4,4], {r}[2,4], s32[2])",
                "",
                f"{t}[2,4,4]",
                f"mode = 86 : ui8, {uplo}",
            ),
            (0, 1, 2),
            a,
        )
        shapes = f"{t}[2,4,4], {r}[2,4], {r}[2,3], {t}[2,3], s32[2]"
        check_forms(
            (f"lapack_{letter}{pair}trd", f"({shapes}, {t}[9])", f"s32=4 s32={lower} s32=4 s32=2 s32=9", f"{t}[2,4,4]"),
            (f"lapack_{letter}{pair}trd_ffi", f"({shapes})", "", f"{t}[2,4,4]", uplo),
            (0, 1, 2, 3, 4),
            a,
        )


@each_type
def test_older_calls_of_rectangles(letter: str) -> None:
    t = TYPES[letter]
    r, group = t.replace("c64", "f32").replace("c128", "f64"), "un" if t[0] == "c" else "or"
    a = numbers(t, 5, 3)
    check_forms(
        (f"lapack_{letter}getrf", f"({t}[5,3], s32[3], s32[])", "s32=1 s32=5 s32=3", f"{t}[5,3]"),
        (f"lapack_{letter}getrf_ffi", f"({t}[5,3], s32[3], s32[])", "", f"{t}[5,3]"),
        (0, 1, 2),
        a,
    )
    check_forms(
        (f"lapack_{letter}geqrf", f"({t}[5,3], {t}[3], s32[], {t}[9])", "s32=1 s32=5 s32=3 s32=9", f"{t}[5,3]"),
        (f"lapack_{letter}geqrf_ffi", f"({t}[5,3], {t}[3])", "", f"{t}[5,3]"),
        (0, 1),
        a,
    )
    check_forms(
        (
            f"lapack_{letter}geqp3",
            f"({t}[5,3], s32[3], {t}[3], s32[], {t}[9])",
            "s32=1 s32=5 s32=3 s32=9",
            f"{t}[5,3] s32[3]",
        ),
        (f"lapack_{letter}geqp3_ffi", f"({t}[5,3], s32[3], {t}[3])", "", f"{t}[5,3] s32[3]"),
        (0, 1, 2),
        *(a, np.zeros(3, np.int32)),
    )
    check_forms(
        (
            f"lapack_{letter}{group}gqr",
            f"({t}[5,3], s32[], {t}[9])",
            "s32=1 s32=5 s32=3 s32=2 s32=9",
            f"{t}[5,3] {t}[2]",
        ),
        (f"lapack_{letter}{group}gqr_ffi", f"({t}[5,3])", "", f"{t}[5,3] {t}[2]"),
        (0,),
        *(a, a[0, :2]),
    )
    for full, vectors, mode in ((1, 1, "A"), (0, 1, "S"), (0, 0, "N"), (1, 0, "N")):
        shapes = f"{t}[5,3], {r}[3], {t}[5,{5 if full else 3}], {t}[3,3], s32[]"
        check_forms(
            (
                f"lapack_{letter}gesdd",
                f"({shapes}, s32[8], {t}[9])",
                f"s32={full} s32={vectors} s32=1 s32=5 s32=3 s32=9",
                f"{t}[5,3]",
            ),
            (f"lapack_{letter}gesdd_ffi", f"({shapes})", "", f"{t}[5,3]", f"mode = {ord(mode)} : ui8"),
            (0, 1, 2, 3, 4),
            a,
        )


@each_type
def test_older_calls_of_squares(letter: str) -> None:
    t = TYPES[letter]
    r, c, real = (
        t.replace("c64", "f32").replace("c128", "f64"),
        t.replace("f64", "c128").replace("f32", "c64"),
        t[0] == "f",
    )
    a = numbers(t, 4, 4)
    check_forms(
        (
            f"lapack_{letter}gehrd",
            f"({t}[4,4], {t}[3], s32[], {t}[9])",
            "s32=4 s32=1 s32=4 s32=4 s32=1 s32=9",
            f"{t}[4,4]",
        ),
        (f"lapack_{letter}gehrd_ffi", f"({t}[4,4], {t}[3], s32[])", "", f"{t}[4,4]", "high = 4 : i32, low = 1 : i32"),
        (0, 1, 2),
        a,
    )
    values = f"{t}[4], {t}[4]" if real else f"{t}[4]"
    work = f"{t}[4,4], {t}[4,4], {t}[4,4]" if real else f"{t}[4,4], {r}[8]"
    check_forms(
        (
            f"lapack_{letter}geev",
            f"({work}, {values}, {c}[4,4], {c}[4,4], s32[])",
            "s32=1 s32=4 u8=78 u8=86",
            f"{t}[4,4]",
        ),
        (
            f"lapack_{letter}geev_ffi",
            f"({values}, {c}[4,4], {c}[4,4], s32[])",
            "",
            f"{t}[4,4]",
            "compute_left = 78, compute_right = 86",
        ),
        (3, 4, 5, 6, 7) if real else (2, 3, 4, 5),
        a,
    )
    work = "" if real else f"{r}[4], "
    check_forms(
        (
            f"lapack_{letter}gees",
            f"({t}[4,4], {work}{values}, {t}[4,4], s32[], s32[])",
            "s32=1 s32=4 u8=86 u8=78",
            f"{t}[4,4]",
        ),
        (
            f"lapack_{letter}gees_ffi",
            f"({t}[4,4], {t}[4,4], {values}, s32[], s32[])",
            "",
            f"{t}[4,4]",
            "mode = 86, sort = 78",
        ),
        (0, 3, 1, 2, 4, 5) if real else (0, 3, 2, 4, 5),
        a,
    )


def test_eigenvectors_of_no_rows() -> None:
    module = call(
        "lapack_sgeev_ffi",
        "(f32[0], f32[0], c64[0,0], c64[0,0], s32[])",
        "",
        "f32[0,0]",
        "compute_left = 86, compute_right = 86",
    )
    x = np.zeros((0, 0), np.float32)
    for made in (evaluate(module, x), run(module, x)):
        assert [array.shape for array in made] == [(0,), (0,), (0, 0), (0, 0), ()] and made[-1] == 0


@each_type
def test_older_triangular_systems(letter: str) -> None:
    t = TYPES[letter]
    a, b, alpha = numbers(t, 3, 3) + 4 * np.eye(3, dtype=DTYPES[t]), numbers(t, 3, 2, seed=1), np.asarray(2, DTYPES[t])
    config = "diag = 78, side = 76, trans_x = 84, uplo = 76"
    (known,) = results_of(call(f"lapack_{letter}trsm_ffi", f"{t}[3,2]", "", f"{t}[3,3] {t}[3,2]", config), a, b)
    scalars = "s32=1 s32=1 s32=1 s32=0 s32=3 s32=2 s32=1"
    (older,) = results_of(call(f"blas_{letter}trsm", f"{t}[3,2]", scalars, f"{t}[] {t}[3,3] {t}[3,2]"), alpha, a, b)
    (typed,) = results_of(
        call(f"blas_{letter}trsm_ffi", f"{t}[3,2]", "", f"{t}[3,3] {t}[3,2] {t}[]", config), a, b, alpha
    )
    np.testing.assert_array_equal(older, 2 * known)
    np.testing.assert_array_equal(typed, 2 * known)


def test_options_that_are_not_there_are_refused() -> None:
    for module, words in (
        (call("lapack_dpotrf", "(f64[2,2], s32[])", "s32=7 s32=1 s32=2", "f64[2,2]"), "neither 0 nor 1"),
        (call("lapack_dpotrf", "(f64[2,2], s32[])", "s32=1", "f64[2,2]"), "3 scalars before its arrays"),
        (call("lapack_dsyevd", "(f64[2,2], f64[2], s32[])", "", "s32[] s32[] s32[] f64[2,2]"), "must be a constant"),
        (call("lapack_dgeev", "(f64[2,2], f64[2])", "s32=1 s32=2 u8=78 u8=86", "f64[2,2]"), "more than 2 results"),
        (
            call("lapack_dgeev_ffi", "(f64[2], f64[2])", "", "f64[2,2]", "compute_left = 1"),
            "compute_left to be one of N, V",
        ),
        (
            call("lapack_dgehrd_ffi", "(f64[3,3], f64[2], s32[])", "", "f64[3,3]", "high = 2 : i32, low = 1 : i32"),
            "rows 1 to 2 of 3",
        ),
        (call("Qr", "(s32[2,2], s32[2])", "", "s32[2,2]"), "not s32"),
        (call("Eigh", "(f32[2,2], f32[2])", "", "f32[2,2]"), "0 or 1 for its triangle"),
    ):
        with pytest.raises(xla_wasm.UnsupportedError, match=words):
            xla_wasm.compile(module)


# --- a TPU's calls -----------------------------------------------------------------------------------------------


def of_tpu(f: Callable[..., Any], *args: Array) -> list[Array]:
    lowered = jax.jit(f).trace(*args).lower(lowering_platforms=("tpu",))
    module = xla_wasm.HloModule.from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    return run(module, *args)


@pytest.mark.parametrize("dtype", ["f32", "c64"])
def test_what_jax_asks_a_tpu_for(dtype: str) -> None:
    a = numbers(dtype, 2, 5, 5)
    h = a + adjoint(a)

    def close(x: Array, y: Array) -> None:
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)

    w, v = of_tpu(jnp.linalg.eigh, h)
    close(w, np.linalg.eigvalsh(h))
    close(h @ v, v * w[:, None])
    q, r = of_tpu(jnp.linalg.qr, a)
    close(q @ r, a)
    close(adjoint(q) @ q, np.broadcast_to(np.eye(5), q.shape))
    u, s, vt = of_tpu(jnp.linalg.svd, a)
    close(u * s[:, None] @ vt, a)
    close(of_tpu(jnp.linalg.solve, a, a[..., :2])[0], np.linalg.solve(a, a[..., :2]))
    for x, y in zip(
        of_tpu(jax.lax.linalg.lu, numbers(dtype, 2, 3, 6, 4)),
        jax.lax.linalg.lu(numbers(dtype, 2, 3, 6, 4)),
        strict=True,
    ):
        close(x, y)
    (nothing,) = of_tpu(jnp.linalg.eigvalsh, np.full((3, 3), np.nan, DTYPES[dtype]))
    assert np.isnan(nothing).all()
