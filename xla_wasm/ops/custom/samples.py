"""Samples of custom calls that have a meaning without being registered."""

from __future__ import annotations

from ...hlo.shape import Shape
from ..sample import Sample, case, f32, function, inf, s32, shape

_TOP = Shape.tuple([shape("f32[2,2]"), shape("s32[2,2]")])
_DESCENDING = function("f32, f32, s32, s32", lambda b, x, y, i, j: b.op("compare", x, y, direction="GT"))
_XLA = "XLA:CPU knows no such target"

SAMPLES: tuple[Sample, ...] = (
    case("custom-call", (f32([1, 2]),), f32([1, 2]), shape=shape("f32[2]"), custom_call_target="Sharding", name="Sharding", xla=_XLA),
    case(
        "custom-call",
        (f32([[1, 3, 3, -inf], [0, -1, 5, 2]]),),
        (f32([[3, 3], [5, 2]]), s32([[1, 2], [2, 3]])),
        called=(_DESCENDING,),
        shape=_TOP,
        custom_call_target="TopK",
        name="TopK",
        xla=_XLA,
    ),
)
