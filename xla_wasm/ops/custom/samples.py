"""Samples of custom calls that have a meaning without being registered."""

from __future__ import annotations

from collections.abc import Sequence

from ...hlo.shape import Shape
from ..dtypes import Array
from ..sample import Sample, case, f32, f64, function, inf, s32, shape, shape_of

_TOP = Shape.tuple([shape("f32[2,2]"), shape("s32[2,2]")])
_DESCENDING = function("f32, f32, s32, s32", lambda b, x, y, i, j: b.op("compare", x, y, direction="GT"))
_XLA = "XLA:CPU knows no such target"

_JAX = "JAX registers the target"


def _lapack(target: str, config: str, operands: Sequence[Array], results: Sequence[Array], name: str) -> Sample:
    declared = Shape.tuple([shape_of(a) for a in results])
    return case(
        "custom-call",
        operands,
        results,
        name=name,
        xla=_JAX,
        shape=declared,
        custom_call_target=target,
        backend_config=config,
        api_version="API_VERSION_TYPED_FFI",
    )


_DIAGONAL = f64([[3, 0], [0, 1]])

SAMPLES: tuple[Sample, ...] = (
    _lapack(
        "lapack_dsyevd_ffi", "{mode = 78, uplo = 76}", [_DIAGONAL], [_DIAGONAL, f64([1, 3]), s32(0)], "eigenvalues"
    ),
    _lapack(
        "lapack_dgesdd_ffi",
        "{mode = 83}",
        [f64([[0, 2], [-1, 0]])],
        [f64([[0, 2], [-1, 0]]), f64([2, 1]), f64([[1, 0], [0, 1]]), f64([[0, 1], [-1, -0.0]]), s32(0)],
        "singular values",
    ),
    _lapack(
        "lapack_sgtsv_ffi",
        "{}",
        [f32([0, 1, 4]), f32([2, 1, 2]), f32([2, 0, 0]), f32([[4], [3], [6]])],
        [f32([0, 0, 4]), f32([2, 4, 0]), f32([2, 2, 0]), f32([[4], [6], [1]]), s32(3)],
        "a singular tridiagonal system",
    ),
    case("custom-call", (f32([1, 2]),), f32([1, 2]), shape=shape("f32[2]"), custom_call_target="Sharding",
        name="Sharding", xla=_XLA),
    case("custom-call", (f32([[1, 3, 3, -inf], [0, -1, 5, 2]]),), (f32([[3, 3], [5, 2]]), s32([[1, 2], [2, 3]])),
        called=(_DESCENDING,), shape=_TOP, custom_call_target="TopK", name="TopK", xla=_XLA),
)  # fmt: skip
