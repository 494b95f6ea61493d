"""Samples of operations that only move elements."""

from __future__ import annotations

import numpy as np

from ...hlo.attrs import PaddingDimension, SliceDimension
from ...hlo.shape import Layout, Shape
from ..dtypes import Array
from ..sample import Sample, array, case, f32, inf, nan, program, s32, shape

_SIX = f32([[1, 2, 3], [4, 5, 6]])
_TILED = Shape("f32", (2, 3), Layout((1, 0), ((2, 2),)))
_NUMERIC = ("f32", "s32", "u32", "u8", "s8", "pred", "f64", "s64", "c64", "c128")


def _count(element_type: str, *dims: int) -> Array:
    """0, 1, 2, ... in an array; for pred every third is true, complex numbers get an imaginary part."""
    values = np.arange(np.prod(dims, dtype=int)).reshape(dims)
    if element_type in ("c64", "c128"):
        return array(element_type, values + 1j * (5 - values))
    return array(element_type, values % 3 == 0 if element_type == "pred" else values)


def _pad(
    element_type: str, x: Array, padding: list[tuple[int, int, int]], expected: Array, name: str, value: float = 9
) -> Sample:
    config = tuple(PaddingDimension(low, high, interior) for low, high, interior in padding)
    return case("pad", (x, array(element_type, value)), expected, name=name, padding=config)


def _slice(x: Array, bounds: list[tuple[int, int, int]], name: str) -> Sample:
    expected = x[tuple(slice(*b) for b in bounds)].copy()
    return case("slice", (x,), expected, name=name, slice=tuple(SliceDimension(*b) for b in bounds))


def _every_type() -> list[Sample]:
    """One small case of each operation on each type: what differs is the width of an element."""
    samples = []
    for t in _NUMERIC:
        x, y = _count(t, 3, 5), _count(t, 2, 5)
        samples += [
            case(
                "broadcast",
                (_count(t, 3),),
                np.repeat(_count(t, 3)[:, None], 5, 1),
                shape=shape(f"{t}[3,5]"),
                dimensions=(0,),
            ),
            case("reshape", (x,), x.reshape(5, 3), shape=shape(f"{t}[5,3]")),
            case("transpose", (x,), x.T.copy(), dimensions=(1, 0)),
            case("reverse", (x,), x[:, ::-1].copy(), dimensions=(1,)),
            case("concatenate", (x, y), np.concatenate([x, y]), dimensions=(0,)),
            case("copy", (x,), x),
            _slice(x, [(1, 3, 1), (0, 5, 2)], ""),
            _pad(t, _count(t, 3), [(1, 2, 0)], array(t, [1, *_count(t, 3), 1, 1]), "", value=1),
        ]
    return samples


_CUBE = _count("f32", 2, 3, 4)

_TENS = f32(np.array([[[10, 11, 12], [15, 16, 17]]]) + 10 * np.arange(4).reshape(4, 1, 1))

SAMPLES: tuple[Sample, ...] = (
    *_every_type(),
    case("broadcast", (f32(2.5),), np.full((2, 7), 2.5, np.float32), name="scalar", shape=shape("f32[2,7]"),
         dimensions=()),
    case("broadcast", (f32([1, 2, 3]),), f32([[1, 2, 3], [1, 2, 3]]), name="rows", shape=shape("f32[2,3]"),
         dimensions=(1,)),
    case(
        "broadcast",
        (_count("f32", 2, 4),),
        np.broadcast_to(_count("f32", 2, 4)[:, None, :], (2, 3, 4)).copy(),
        name="middle",
        shape=shape("f32[2,3,4]"),
        dimensions=(0, 2),
    ),
    case("broadcast", (f32([]),), f32(np.zeros((2, 0))), name="empty", shape=shape("f32[2,0]"), dimensions=(1,)),
    case("reshape", (_CUBE,), _CUBE.reshape(6, 4), name="merges", shape=shape("f32[6,4]")),
    case("reshape", (f32([[7]]),), f32(7), name="to scalar", shape=shape("f32")),
    case("reshape", (f32(7),), f32([[[7]]]), name="from scalar", shape=shape("f32[1,1,1]")),
    case("reshape", (f32(np.zeros((0, 3))),), f32(np.zeros((2, 0))), name="empty", shape=shape("f32[2,0]")),
    case("transpose", (_CUBE,), _CUBE.transpose(2, 0, 1).copy(), name="rotates", dimensions=(2, 0, 1)),
    case("transpose", (_CUBE,), _CUBE.transpose(1, 0, 2).copy(), name="keeps the minor", dimensions=(1, 0, 2)),
    case("transpose", (_CUBE,), _CUBE, name="identity", dimensions=(0, 1, 2)),
    case("transpose", (_count("f32", 17, 19),), _count("f32", 17, 19).T.copy(), name="beyond one tile",
         dimensions=(1, 0)),
    case("transpose", (f32(3),), f32(3), name="scalar", dimensions=()),
    case("reverse", (_CUBE,), _CUBE[::-1, :, ::-1].copy(), name="two dimensions", dimensions=(0, 2)),
    case("reverse", (_CUBE,), _CUBE, name="no dimension", dimensions=()),
    _slice(_CUBE, [(0, 2, 1), (1, 3, 1), (1, 4, 2)], "cube"),
    _slice(_CUBE, [(1, 2, 1), (0, 3, 1), (0, 4, 1)], "one of the major"),
    _slice(_CUBE, [(0, 2, 1), (2, 2, 1), (0, 4, 1)], "empty"),
    case("concatenate", (f32([[1], [2]]), f32([[3, 4], [5, 6]])), f32([[1, 3, 4], [2, 5, 6]]), name="minor",
         dimensions=(1,)),
    case("concatenate", (f32([1]), f32([]), f32([2, 3])), f32([1, 2, 3]), name="empty part", dimensions=(0,)),
    case("concatenate", (f32([4, 5]),), f32([4, 5]), name="single", dimensions=(0,)),
    _pad("f32", f32([1, 2, 3]), [(0, 0, 2)], f32([1, 9, 9, 2, 9, 9, 3]), "interior"),
    _pad("f32", f32([1, 2, 3, 4]), [(-1, -2, 0)], f32([2]), "crops"),
    _pad("f32", f32([1, 2, 3, 4]), [(-2, -2, 0)], f32([]), "crops all"),
    _pad("f32", f32([1, 2, 3]), [(-1, 1, 1)], f32([9, 2, 9, 3, 9]), "crops interior"),
    _pad("f32", f32([]), [(2, 1, 3)], f32([9, 9, 9]), "empty"),
    _pad("f32", f32(5), [], f32(5), "scalar"),
    _pad(
        "f32",
        f32([[1, 2], [3, 4]]),
        [(1, 0, 0), (0, 1, 1)],
        f32([[-inf, -inf, -inf, -inf], [1, -inf, 2, -inf], [3, -inf, 4, -inf]]),
        "two dimensions",
        value=-inf,
    ),
    case("bitcast", (f32([[1, 2, 3], [4, 5, 6]]),), f32([[1, 2], [3, 4], [5, 6]]), shape=shape("f32[3,2]"),
         xla="StableHLO has no bitcast"),
    case("copy", (f32([1, nan, -0.0, inf]),), f32([1, nan, -0.0, inf]), name="special values"),
    program(
        "transpose",
        (s32([[1, 2, 3], [4, 5, 6]]),),
        s32([1, 4, 3, 6, 5, 8]),
        lambda b, x: b.op("reshape", b.op("add", b.op("transpose", x, dimensions=(1, 0)), b.op("broadcast",
            b.op("iota", shape=shape("s32[3]"), iota_dimension=0), shape=shape("s32[3,2]"), dimensions=(0,))),
                          shape=shape("s32[6]")),
        name="then reshape",
    ),
    case("reshape", (_TENS,), _TENS.reshape(24), name="all dimensions into one", shape=shape("f32[24]")),
    case("reshape", (_TENS,), _TENS.reshape(8, 3), name="the first two into one", shape=shape("f32[8,3]")),
    case("reshape", (_TENS,), _TENS.reshape(4, 6), name="the last two into one", shape=shape("f32[4,6]")),
    case("reshape", (f32([[5]]),), f32(5), name="to a scalar", shape=shape("f32")),
    program("concatenate", (), s32([2, 3, 4, 5, 6, 7]), lambda b: b.op(
        "concatenate", *(b.constant(shape("s32[2]"), pair) for pair in ([2, 3], [4, 5], [6, 7])), dimensions=(0,)),
            name="three constants"),
    program("concatenate", (), s32([[1, 2], [3, 4], [5, 6], [7, 8]]), lambda b: b.op("concatenate", b.constant(
        shape("s32[3,2]"), [1, 2, 3, 4, 5, 6]), b.constant(shape("s32[1,2]"), [7, 8]), dimensions=(0,)),
            name="rows of constants"),
    program("broadcast", (), f32([[2, 2, 2], [2, 2, 2]]), lambda b: b.op(
        "broadcast", b.constant(shape("f32"), [2]), shape=shape("f32[2,3]"), dimensions=()), name="a constant"),
    case("slice", (f32([0, 1, 2, 3, 4]),), f32([2, 3]), name="the middle", slice=(SliceDimension(2, 4, 1),)),
    case("slice", (f32(np.arange(12).reshape(4, 3)),), f32([[7, 8], [10, 11]]), name="a corner",
         slice=(SliceDimension(2, 4, 1), SliceDimension(1, 3, 1))),
    program("copy", (_SIX,), _SIX, lambda b, x: b.op("copy", x, shape=shape("f32[2,3]")), name="from column-major",
            shapes=(Shape("f32", (2, 3), Layout((0, 1))),)),
    program("copy", (_SIX,), _SIX, lambda b, x: b.op("copy", x, shape=_TILED), name="between tiled layouts",
            shapes=(_TILED,)),
)  # fmt: skip
