"""Programs with dynamic dimensions, each with arguments for a few actual sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Arguments = Callable[[int, int], tuple[Any, ...]]
"""From two sizes, of up to 5 and 4, to arguments."""

_FUNCTIONS = {
    "add": "a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)",
    "last": "a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] negate(b)",
    "ge": "a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=GE",
    "best": "a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = s32[] parameter(3)\n"
    " p = pred[] compare(a, b), direction=GE\n x = f32[] select(p, a, b)\n y = s32[] select(p, i, j)\n ROOT t = "
    "(f32[], s32[]) tuple(x, y)",
    "first": "a = f32[] parameter(0)\n b = f32[] parameter(1)\n i = s32[] parameter(2)\n j = s32[] parameter(3)\n"
    " ROOT c = pred[] compare(a, b), direction=LT",
    "reversed": "p = f32[<=5,<=4] parameter(0)\n ROOT r = f32[<=5,<=4] reverse(p), dimensions={0}",
    "halved": "p = f32[<=5,<=4] parameter(0)\n n = s32[] get-dimension-size(p), dimensions={1}\n two = s32[] "
    "constant(2)\n"
    " h = s32[] divide(n, two)\n ROOT r = f32[<=5,<=4] set-dimension-size(p, h), dimensions={1}",
    "push": "s = (f32[<=5,<=4], s32[]) parameter(0)\n x = f32[<=5,<=4] get-tuple-element(s), index=0\n"
    " i = s32[] get-tuple-element(s), index=1\n n = s32[] get-dimension-size(x), dimensions={0}\n"
    " one = s32[] constant(1)\n zero = s32[] constant(0)\n m = s32[] add(n, one)\n"
    " y = f32[<=5,<=4] set-dimension-size(x, m), dimensions={0}\n row = f32[1,4] broadcast(f), dimensions={}\n"
    " z = f32[<=5,<=4] dynamic-update-slice(y, row, n, zero)\n j = s32[] add(i, one)\n ROOT t = (f32[<=5,<=4], s32[]) "
    "tuple(z, j)",
    "short": "s = (f32[<=5,<=4], s32[]) parameter(0)\n x = f32[<=5,<=4] get-tuple-element(s), index=0\n"
    " n = s32[] get-dimension-size(x), dimensions={0}\n four = s32[] constant(4)\n ROOT r = pred[] compare(n, four), "
    "direction=LT",
}
_FUNCTIONS["push"] = _FUNCTIONS["push"].replace(" row =", " f = f32[] convert(n)\n row =")


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    arguments: Arguments

    def calls(self) -> Iterator[tuple[Array, ...]]:
        """Arguments of every size."""
        for n, m in product((0, 1, 2, 5), (0, 1, 3, 4)):
            yield self.arguments(n, m)


def module(body: str) -> str:
    """A module whose entry has these instructions, with the functions that they name."""
    called = {name for name in _FUNCTIONS if f"={name}" in body or f"{{{name}" in body or f",{name}}}" in body}
    functions = "".join(f"{name} {{\n {_FUNCTIONS[name]}\n}}\n" for name in _FUNCTIONS if name in called)
    return f"HloModule m\n{functions}ENTRY e {{\n{body}\n}}\n"


def _numbers(*dims: int) -> Array:
    """Different small numbers in no order, the greatest among them first and last."""
    count = int(np.prod(dims, dtype=int))
    return (np.arange(count) * 7 % 11 - 5 + np.arange(count) * 0.25).astype(np.float32).reshape(dims)


def _case(name: str, body: str, arguments: Arguments) -> Case:
    return Case(name, module(body), arguments)


def _of(name: str, body: str, *more: Any) -> Case:
    """A program on `x`, f32[<=5,<=4]."""
    return _case(name, f"x = f32[<=5,<=4] parameter(0)\n{body}", lambda n, m: (_numbers(n, m), *more))


def _window(name: str, window: str, dims: str) -> Iterator[Case]:
    for function in ("add", "last"):
        body = f"z = f32[] constant(3)\nr = f32[{dims}] reduce-window(x, z), window={{{window}}}, to_apply={function}"
        size = "\nn = s32[] get-dimension-size(r), dimensions={0}"
        yield _of(f"windows {name} {function}", f"{body}{size}\nROOT t = (f32[{dims}], s32[]) tuple(r, n)")


def _matrices(n: int, m: int) -> tuple[Array, ...]:
    return _numbers(n, m), _numbers(m, 3)


def _updates(dtype: Any) -> Arguments:
    """An array, places inside and outside of it, and updates."""
    return lambda n, m: (_numbers(200), np.array([3, 255, 199, 3, 127]).astype(dtype)[:n], _numbers(n))


def _parts(k: int) -> Arguments:
    """An array, a part of it, and its place."""
    return lambda n, m: (_numbers(5), 10 * _numbers(m), np.int32(k))


_S32 = np.int32
_FIVE = _numbers(3)

CASES: tuple[Case, ...] = (
    # elementwise and movement
    _of("arithmetic", "y = f32[<=5,<=4] negate(x)\nROOT r = f32[<=5,<=4] multiply(x, y)"),
    _case("sizes that differ", "x = f32[<=5] parameter(0)\ny = f32[<=5] parameter(1)\nROOT r = f32[<=5] add(x, y)",
          lambda n, m: (_numbers(n), 10 * _numbers(m))),
    _case("with a static one", "x = f32[<=5] parameter(0)\ny = f32[5] parameter(1)\nROOT r = f32[<=5] add(x, y)",
          lambda n, m: (_numbers(n), 10 * _numbers(5))),
    _of("clamp to scalars", "a = f32[] constant(-1)\nb = f32[] constant(2)\nROOT r = f32[<=5,<=4] clamp(a, x, b)"),
    _of("select", "a = f32[<=5,<=4] negate(x)\np = pred[<=5,<=4] compare(x, a), direction=GT\nROOT r = f32[<=5,<=4] select(p, x, a)"),
    _of("transpose and broadcast",
        "y = f32[<=4,<=5] transpose(x), dimensions={1,0}\nROOT r = f32[<=4,2,<=5] broadcast(y), dimensions={0,2}"),
    _of("reverse", "ROOT r = f32[<=5,<=4] reverse(x), dimensions={0,1}"),
    *(_of(f"slice {text}", f"ROOT r = f32[<={a},<={b}] slice(x), slice={{{text}}}")
      for text, a, b in (("[0:5],[0:4]", 5, 4), ("[1:4],[0:4:2]", 3, 2), ("[2:5:3],[1:2]", 1, 1), ("[0:5:2],[3:3]", 3, 0))),
    *(_of(f"pad {text}", f"v = f32[] constant(9)\nROOT r = f32[<={a},<={b}] pad(x, v), padding={text}")
      for text, a, b in (("1_2x0_3", 8, 7), ("0_0_1x-1_0", 9, 3), ("0_-2x-2_-1_2", 3, 7), ("-3_-1x0_-4", 1, 0))),
    *(_case(f"concatenate {dim}", f"x = f32[<=5,<=4] parameter(0)\ny = f32[{a}] parameter(1)\n"
            f"ROOT r = f32[{r}] concatenate(x, y, x), dimensions={{{dim}}}", arguments)
      for dim, a, r, arguments in (
          (0, "2,<=4", "<=12,<=4", lambda n, m: (_numbers(n, m), _numbers(2, m))),
          (1, "<=5,3", "<=5,<=11", lambda n, m: (_numbers(n, m), _numbers(n, 3))),
      )),
    # reshapes
    _of("reshape, flat", "ROOT r = f32[<=20] reshape(x)"),
    _of("reshape, a dimension more", "ROOT r = f32[1,<=5,1,<=4] reshape(x)"),
    *(_case(f"reshape {name}", f"x = f32[{a}] parameter(0)\nROOT r = f32[{b}] reshape(x){more}", arguments)
      for name, a, b, more, arguments in (
          ("of inner dimensions", "<=5,<=4,3", "<=5,<=12", "", lambda n, m: (_numbers(n, m, 3),)),
          ("of outer dimensions", "3,<=5,<=4", "<=60", "", lambda n, m: (_numbers(3, n, m),)),
          ("of others", "<=5,6", "<=5,3,2", "", lambda n, m: (_numbers(n, 6),)),
          ("to an inner dimension", "<=6,2", "2,<=3,2", ", inferred_dimension=1", lambda n, m: (_numbers(n // 2 * 2, 2),)),
      )),
    _of("dynamic-reshape, transposed sizes",
        "p = s32[] get-dimension-size(x), dimensions={0}\n"
        "q = s32[] get-dimension-size(x), dimensions={1}\n"
        "ROOT r = f32[<=4,<=5] dynamic-reshape(x, q, p)"),
    _of("dynamic-reshape, the same sizes",
        "p = s32[] get-dimension-size(x), dimensions={0}\n"
        "q = s32[] get-dimension-size(x), dimensions={1}\n"
        "ROOT r = f32[<=5,<=4] dynamic-reshape(x, p, q)"),
    # reductions
    *(_of(f"reduce {dims} by {function}",
          f"z = f32[] constant(2)\nROOT r = f32[{r}] reduce(x, z), dimensions={{{dims}}}, to_apply={function}")
      for dims, r in (("0", "<=4"), ("1", "<=5"), ("0,1", "")) for function in ("add", "last")),
    _case("the best and its place", "x = f32[<=5] parameter(0)\n"
          "i = s32[<=5] parameter(1)\na = f32[] constant(-inf)\nb = s32[] constant(-1)\n"
          "ROOT r = (f32[], s32[]) reduce(x, i, a, b), dimensions={0}, to_apply=best",
          lambda n, m: (_numbers(n), np.arange(n, dtype=_S32))),
    *(c for args in (
        ("valid", "size=2x1", "<=4,<=4"), ("padded", "size=3x2 stride=2x1 pad=1_1x0_2", "<=3,<=5"),
        ("dilated", "size=2x2 rhs_dilate=2x1", "<=3,<=3"),
        ("with holes", "size=2x1 pad=0_1x0_0 lhs_dilate=3x1", "<=13,<=4"), ("cropped", "size=2x1 pad=-1_-1x0_0", "<=2,<=4"),
    ) for c in _window(*args)),
    _case("select-and-scatter", "x = f32[<=5,<=4] parameter(0)\ns = f32[<=3,<=4] parameter(1)\nz = f32[] constant(0.5)\n"
          "ROOT r = f32[<=5,<=4] select-and-scatter(x, s, z), window={size=2x2 stride=2x1 pad=0_1x1_0}, select=ge, scatter=add",
          lambda n, m: (_numbers(n, m), _numbers((n + 1) // 2, m))),
    _of("sort", "ROOT r = f32[<=5,<=4] sort(x), dimensions={0}, to_apply=ge"),
    _case("sort two", "x = f32[<=5] parameter(0)\ni = s32[<=5] parameter(1)\n"
          "ROOT r = (f32[<=5], s32[<=5]) sort(x, i), dimensions={0}, is_stable=true, to_apply=first",
          lambda n, m: (np.round(_numbers(n) / 4), np.arange(n, dtype=_S32))),
    *(_of(f"reduce {dtype}",
          f"y = {dtype}[<=5,<=4] convert(x)\nz = f32[] constant(2)\n"
          "ROOT r = f32[<=4] reduce(y, z), dimensions={0}, to_apply=add") for dtype in ("f8e4m3fn", "f8e5m2fnuz", "bf16")),
    _of("softmax", "z = f32[] constant(0)\ne = f32[<=5,<=4] exponential(x)\ns = f32[<=5] reduce(e, z), dimensions={1}, to_apply=add\n"
        "b = f32[<=5,4] broadcast(s), dimensions={0}\nROOT r = f32[<=5,<=4] divide(e, b)"),
    *(_case(f"batch-norm-{kind}", f"x = f32[<=5,<=4,3] parameter(0)\n"
            f"s = f32[3] parameter(1)\n{body}, epsilon=0.5, feature_index=2", arguments)
      for kind, body, arguments in (
          ("training", "ROOT r = (f32[<=5,<=4,3], f32[3], f32[3]) batch-norm-training(x, s, s)", lambda n, m: (_numbers(n, m, 3), _FIVE)),
          ("inference", "ROOT r = f32[<=5,<=4,3] batch-norm-inference(x, s, s, s, s)", lambda n, m: (_numbers(n, m, 3), abs(_FIVE))),
          ("grad", "d = f32[<=5,<=4,3] parameter(2)\nROOT r = (f32[<=5,<=4,3], f32[3], f32[3]) batch-norm-grad(x, s, s, s, d)",
           lambda n, m: (_numbers(n, m, 3), abs(_FIVE), _numbers(n, m, 3)[::-1].copy())),
      )),
    _case("batch-norm-training, some features", "x = f32[<=5,<=4] parameter(0)\ns = f32[<=4] parameter(1)\n"
          "ROOT r = (f32[<=5,<=4], f32[<=4], f32[<=4]) batch-norm-training(x, s, s), epsilon=0.5, feature_index=1",
          lambda n, m: (_numbers(n, m), _numbers(m))),
    # products
    _case("dot", "x = f32[<=5,<=4] parameter(0)\ny = f32[<=4,3] parameter(1)\n"
          "ROOT r = f32[<=5,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}", _matrices),
    _case("dot of bf16", "x = bf16[<=5,<=4] parameter(0)\ny = bf16[<=4,3] parameter(1)\n"
          "ROOT r = f32[<=5,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
          lambda n, m: tuple(a.astype(ml_dtypes.bfloat16) for a in _matrices(n, m))),
    _case("dot of complex", "x = c64[<=5,<=4] parameter(0)\ny = c64[<=4,3] parameter(1)\n"
          "ROOT r = c64[<=5,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
          lambda n, m: tuple((a + 1j * a[::-1]).astype(np.complex64) for a in _matrices(n, m))),
    _case("dot, sizes that differ", "x = f32[<=5] parameter(0)\ny = f32[<=5] parameter(1)\n"
          "ROOT r = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}", lambda n, m: (_numbers(n), _numbers(m))),
    _case("dot of a batch", "x = f32[<=5,<=4,2] parameter(0)\ny = f32[<=5,2,3] parameter(1)\n"
          "ROOT r = f32[<=5,<=4,3] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
          lambda n, m: (_numbers(n, m, 2), _numbers(n, 2, 3))),
    _case("ragged-dot", "x = f32[<=5,<=4] parameter(0)\ny = f32[2,<=4,3] parameter(1)\ng = s32[2] parameter(2)\n"
          "ROOT r = f32[<=5,3] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0},"
          " rhs_group_dims={0}",
          lambda n, m: (_numbers(n, m), _numbers(2, m, 3), np.array([1, 2], _S32))),
    _case("scaled-dot", "x = f32[<=5,4] parameter(0)\ny = f32[4,3] parameter(1)\ns = f32[] parameter(2)\nu = f32[2,3] parameter(3)\n"
          "ROOT r = f32[<=5,3] scaled-dot(x, y, s, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
          lambda n, m: (_numbers(n, 4), _numbers(4, 3), np.float32(2), _numbers(2, 3))),
    _case("convolution", "x = f32[<=5,<=4,2] parameter(0)\nk = f32[2,2,3] parameter(1)\n"
          "ROOT r = f32[<=5,<=5,3] convolution(x, k), window={size=2 pad=1_1}, dim_labels=b0f_0io->b0f",
          lambda n, m: (_numbers(n, m, 2), _numbers(2, 2, 3))),
    _case("convolution over some features", "x = f32[1,6,<=4] parameter(0)\nk = f32[2,<=4,<=5] parameter(1)\n"
          "ROOT r = f32[1,5,<=5] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f",
          lambda n, m: (_numbers(1, 6, m), _numbers(2, m, n))),
    _case("triangular-solve of some", "a = f32[<=5,2,2] parameter(0)\nb = f32[<=5,2,3] parameter(1)\n"
          "ROOT r = f32[<=5,2,3] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
          lambda n, m: (_numbers(n, 2, 2) + 9, _numbers(n, 2, 3))),
    # places
    _case("gather by some indices", "x = f32[5,<=4] parameter(0)\ni = s32[<=5] parameter(1)\n"
          "ROOT r = f32[<=5,<=4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,"
          " slice_sizes={1,4}",
          lambda n, m: (_numbers(5, m), np.array([3, -1, 9, 0, 0], _S32)[:n])),
    *(_case(f"scatter of some updates at {t}", f"x = f32[200] parameter(0)\ni = {t}[<=5] parameter(1)\nu = f32[<=5] parameter(2)\n"
            "ROOT r = f32[200] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},"
            " index_vector_dim=1, to_apply=add",
            _updates(dtype))
      for t, dtype in (("s32", np.int32), ("u8", np.uint8), ("u64", np.uint64))),
    _case("scatter of rows", "x = f32[5,<=4] parameter(0)\ni = s32[<=5] parameter(1)\nu = f32[<=5,<=4] parameter(2)\n"
          "s = s32[] get-dimension-size(x), dimensions={1}\nv = f32[<=5,<=4] set-dimension-size(u, s), dimensions={1}\n"
          "ROOT r = f32[5,<=4] scatter(x, i, v), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},"
          " index_vector_dim=1, to_apply=add", lambda n, m: (_numbers(5, m), np.array([3, -1, 4, 3, 0], _S32)[:n], _numbers(n, m))),
    *(_case(f"scatter of rows that are cut, {f}", "x = f32[5,<=4] parameter(0)\ni = s32[<=5] parameter(1)\nu = f32[<=5,<=4] parameter(2)\n"
            "ROOT r = f32[5,<=4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},"
            f" index_vector_dim=1, to_apply={f}",
            lambda n, m: (_numbers(5, 3), np.array([3, -1, 4, 3, 0], _S32)[:n], _numbers(n, m))) for f in ("add", "last")),
    *(_of(f"dynamic-slice at {k}", "k = s32[] parameter(1)\nz = s32[] constant(0)\n"
          "ROOT r = f32[2,<=4] dynamic-slice(x, k, z), dynamic_slice_sizes={2,4}", np.int32(k)) for k in (-1, 0)),
    *(_case(f"an update of a part at {k}", "x = f32[5] parameter(0)\nu = f32[<=4] parameter(1)\nk = s32[] parameter(2)\n"
            "ROOT r = f32[5] dynamic-update-slice(x, u, k)",
            _parts(k)) for k in (-2, 0, 2, 4, 9)),
    *(_of(f"an update at {k}", "u = f32[2,1] parameter(1)\nk = s32[] parameter(2)\nz = s32[] constant(0)\n"
          "ROOT r = f32[<=5,<=4] dynamic-update-slice(x, u, k, z)", _numbers(2, 1), np.int32(k)) for k in (0, 1, 9)),
    # control
    *(_of(f"conditional {p}", "p = pred[] parameter(1)\n"
          "ROOT r = f32[<=5,<=4] conditional(p, x, x), true_computation=reversed, false_computation=halved",
          np.bool_(p)) for p in (False, True)),
    _of("while", "i = s32[] constant(7)\n"
        "s = (f32[<=5,<=4], s32[]) tuple(x, i)\nROOT w = (f32[<=5,<=4], s32[]) while(s), body=push, condition=short"),
    _of("PadToStatic and SliceToDynamic", 'c = (f32[5,4], s32[], s32[]) custom-call(x), custom_call_target="PadToStatic"\n'
        "a = f32[5,4] get-tuple-element(c), index=0\np = s32[] get-tuple-element(c), index=1\nq = s32[] get-tuple-element(c), index=2\n"
        'b = f32[<=7,<=4] custom-call(a, p, q), custom_call_target="SliceToDynamic"\nz = f32[] constant(0)\n'
        "s = f32[] reduce(b, z), dimensions={0,1}, to_apply=add\nROOT t = (f32[<=7,<=4], f32[], s32[]) tuple(b, s, q)"),
    _case("another layout", "x = f32[<=5,<=4]{0,1} parameter(0)\ny = f32[<=5,<=4]{0,1} parameter(1)\n"
          "ROOT r = f32[<=5,<=4]{0,1} subtract(x, y)", lambda n, m: (_numbers(n, m), 2 * _numbers(n, m))),
)  # fmt: skip
