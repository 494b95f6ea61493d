"""Sorting rows of many lengths, types and comparators, and the best of a row."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import xla_cpu
from tests.support.closeness import equal, same_bits
from tests.support.differential import BOTH, differential, run
from xla_wasm.errors import UnsupportedError
from xla_wasm.hlo.attrs import SliceDimension
from xla_wasm.hlo.ir import Module
from xla_wasm.ops.dtypes import Array
from xla_wasm.ops.sample import Maker, array, case, f32, function, reducer, s32, shape
from xla_wasm.ops.sort.unstable import unstable_order
from xla_wasm.reference import evaluate

RNG = np.random.default_rng(11)


def less(*types: str, **attrs: Any) -> Maker:
    """Compares the elements of the first of several operands."""
    parameters = ", ".join(f"{t}, {t}" for t in types)
    return function(parameters, lambda b, x, y, *_: b.op("compare", x, y, **({"direction": "LT"} | attrs)))


def sorting(comparator: Maker, dimension: int, *arrays: Array, is_stable: bool = True) -> Module:
    return case("sort", arrays, (), called=(comparator,), dimensions=(dimension,), is_stable=is_stable).module()


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 40, 41, 100, 255, 256, 257, 1000, 1025, 4099])
@pytest.mark.parametrize("element_type", ["f32", "s64", "u8"])
def test_every_length_is_sorted_stably(length: int, element_type: str) -> None:
    x = array(element_type, RNG.integers(0, max(2, length // 3), length) % 200)
    places = np.arange(length, dtype=np.int32)
    order = np.argsort(x, kind="stable")
    values, moved = run(sorting(less(element_type, "s32"), 0, x, places), x, places)
    np.testing.assert_array_equal(values, x[order])
    np.testing.assert_array_equal(moved, order)


@pytest.mark.parametrize(
    "dims, dimension",
    [((3, 7), 1), ((3, 7), 0), ((13, 40), 0), ((13, 40), 1), ((2, 65, 3), 1), ((1, 30, 1), 1), ((9, 5, 4), 0)],
)
def test_rows_along_any_dimension(dims: tuple[int, ...], dimension: int) -> None:
    x = f32(RNG.integers(-20, 20, dims))
    (actual,) = run(sorting(less("f32"), dimension, x), x)
    np.testing.assert_array_equal(actual, np.sort(x, dimension))


_BOTH = function(
    "f32, f32, s32, s32",
    lambda b, x, y, i, j: b.op(
        "or",
        b.op("compare", x, y, direction="LT"),
        b.op("and", b.op("compare", x, y, direction="EQ"), b.op("compare", i, j, direction="GT")),
    ),
)


@pytest.mark.parametrize("length", [8, 50, 1000, 3000])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("comparator", [less("f32", "s32"), _BOTH], ids=["one key", "two keys"])
def test_a_comparator_that_is_no_order_loses_nothing(length: int, share: float, comparator: Maker) -> None:
    x = RNG.normal(size=length).astype(np.float32)
    x[RNG.random(length) < share] = np.nan
    places = np.arange(length, dtype=np.int32)
    module = sorting(comparator, 0, x, places)
    for values, moved in (run(module, x, places), evaluate(module, x, places)):
        np.testing.assert_array_equal(np.sort(moved), places)
        np.testing.assert_array_equal(values, x[moved])


# --- sorts that need not be stable ----------------------------------------------------------------------------------


def as_on_xla(module: Module, *arrays: Array, evaluated: bool = True) -> None:
    """Compiled, and evaluated, as XLA:CPU has it, bit for bit."""
    judges = (xla_cpu.run, evaluate) if evaluated else (xla_cpu.run,)
    differential(module, *arrays, judges=judges, near=same_bits)


@pytest.mark.parametrize("length", [5, 8, 9, 16, 17, 18, 33, 255, 256, 1000, 5000])
@pytest.mark.parametrize(
    "types",
    [("s32",), ("u8", "s32"), ("f32", "s64"), ("s64", "f64", "pred"), ("f16", "s32", "u8", "f32", "s16")],
    ids=str,
)
@pytest.mark.parametrize("form", ["random", "rising", "falling", "saw"])
def test_equal_elements_lie_as_xla_leaves_them(length: int, types: tuple[str, ...], form: str) -> None:
    rng = np.random.default_rng(length)
    keys = {"random": rng.integers(0, 20, length), "saw": np.arange(length) % 7}.get(
        form, np.sort(rng.integers(0, 50, length))
    )
    keys = keys[::-1] if form == "falling" else keys
    arrays = [array(types[0], keys), *(array(t, rng.integers(0, 2 if t == "pred" else 100, length)) for t in types[1:])]
    as_on_xla(sorting(less(*types), 0, *arrays, is_stable=False), *arrays)


@pytest.mark.parametrize("dims, dimension", [((40, 3), 0), ((3, 40), 1), ((2, 300, 2), 1), ((6, 12), 1), ((12, 6), 0)])
def test_equal_elements_of_rows_lie_as_xla_leaves_them(dims: tuple[int, ...], dimension: int) -> None:
    arrays = s32(RNG.integers(0, 5, dims)), s32(RNG.integers(0, 1000, dims))
    as_on_xla(sorting(less("s32", "s32"), dimension, *arrays, is_stable=False), *arrays)


class _Gas:
    """A key that is decided as late as possible, such that the sort which compares it has gained little (McIlroy's
    adversary)."""

    decided: list[_Gas] = []
    candidate: _Gas | None = None

    def __init__(self) -> None:
        self.rank: float = np.inf

    def __lt__(self, other: _Gas) -> bool:
        if self.rank == other.rank == np.inf:
            frozen = self if _Gas.candidate is self else other
            frozen.rank = len(_Gas.decided)
            _Gas.decided.append(frozen)
        if self.rank == np.inf:
            _Gas.candidate = self
        elif other.rank == np.inf:
            _Gas.candidate = other
        return self.rank < other.rank


@pytest.mark.parametrize("length", [40, 257, 1000])
@pytest.mark.parametrize("share", [1, 3])
def test_keys_that_make_it_sort_by_a_heap(length: int, share: int) -> None:
    _Gas.decided, keys = [], [_Gas() for _ in range(length)]
    unstable_order(keys)  # type: ignore[arg-type]
    ranks = s32([min(key.rank, length) // share for key in keys])
    arrays = ranks, np.arange(length, dtype=np.int32)
    as_on_xla(sorting(less("s32", "s32"), 0, *arrays, is_stable=False), *arrays)


@pytest.mark.parametrize("length", [7, 16, 40, 300, 3000])
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("types", [("f32",), ("f64", "s32"), ("bf16",)], ids=str)
def test_numbers_that_are_none_lie_as_xla_leaves_them(length: int, direction: str, types: tuple[str, ...]) -> None:
    """A plain comparison has no order for NaNs, but XLA's steps have, and for zeros of both signs."""
    x = array(types[0], RNG.choice([0.0, -0.0, 1, -1, 2, 5], length))
    x[RNG.random(length) < 0.2] = np.nan
    arrays = [x, *(array(t, np.arange(length)) for t in types[1:])]
    as_on_xla(sorting(less(*types, direction=direction), 0, *arrays, is_stable=False), *arrays, evaluated=False)


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_numbers_that_are_none_among_numbers_that_all_differ_lie_as_xla_leaves_them(direction: str) -> None:
    x = np.random.default_rng(4).permutation(500).astype(np.float32) + 1
    x[::7] = np.nan
    as_on_xla(sorting(less("f32", direction=direction), 0, x, is_stable=False), x, evaluated=False)


@pytest.mark.parametrize("length", [8, 12, 16])
def test_short_rows_under_any_comparator_lie_as_xla_leaves_them(length: int) -> None:
    crossed = function("f32, f32, f32, f32", lambda b, x, y, u, v: b.op("compare", x, u, direction="LT"))
    for seed in range(5):
        arrays = [f32(np.random.default_rng(seed + k).normal(size=(3, length))) for k in (0, 10)]
        as_on_xla(sorting(crossed, 1, *arrays, is_stable=False), *arrays, evaluated=False)


def test_rows_of_zeros_of_one_sign_stay_where_they_are() -> None:
    x = f32(RNG.integers(0, 9, (4, 500)))
    x[1][x[1] == 0] = -0.0
    x[2][::5] = -0.0
    as_on_xla(sorting(less("f32"), 1, x, is_stable=False), x)


@pytest.mark.parametrize("length, k", [(20, 3), (300, 5), (300, 290), (5000, 64)])
@pytest.mark.parametrize("is_stable", [False, True])
def test_the_first_of_a_falling_sort_are_those_of_topk(length: int, k: int, is_stable: bool) -> None:
    from xla_wasm.builder import Builder

    x = f32(RNG.integers(-8, 9, (3, length)))
    x[(x == 0) & (RNG.random(x.shape) < 0.5)] = -0.0
    b = Builder("first")
    p = b.parameter(0, shape(f"f32[3,{length}]"))
    places = b.op("iota", shape=shape(f"s32[3,{length}]"), iota_dimension=1)
    ordered = b.op(
        "sort", p, places, called=[less("f32", "s32", direction="GT")()], dimensions=(1,), is_stable=is_stable
    )
    bounds = (SliceDimension(0, 3, 1), SliceDimension(0, k, 1))
    parts = [b.op("slice", b.op("get-tuple-element", ordered, index=i), slice=bounds) for i in range(2)]
    as_on_xla(b.module(b.op("tuple", *parts)), x)


@pytest.mark.parametrize(
    ("dimension", "direction", "counted", "parts"),
    [
        (0, "GT", 0, [(0, 3, 1), (0, 3, 1)]),
        (1, "LT", 1, [(0, 3, 1), (0, 3, 1)]),
        (1, "GT", 0, [(0, 3, 1), (0, 3, 1)]),
        (1, "GT", None, [(0, 3, 1), (0, 3, 1)]),
        (1, "GT", 1, [(0, 3, 1), (0, 5, 1)]),
        (1, "GT", 1, [(1, 4, 1), (1, 4, 1)]),
        (1, "GT", 1, [(0, 5, 2), (0, 5, 2)]),
    ],
)
def test_parts_of_sorts_are_those_of_xla(
    dimension: int, direction: str, counted: int | None, parts: list[tuple[int, int, int]]
) -> None:
    """The first elements along any dimension, and what only looks like them: falling places, others' places, other
    parts."""
    from xla_wasm.builder import Builder

    x = f32(np.random.default_rng(1).integers(-8, 9, (20, 20)))
    x[(x == 0) & (np.arange(20) % 2 == 0)] = -0.0
    given = s32(np.random.default_rng(2).permutation(400).reshape(20, 20))
    b = Builder("parts")
    p, q = b.parameter(0, shape("f32[20,20]")), b.parameter(1, shape("s32[20,20]"))
    places = q if counted is None else b.op("iota", shape=shape("s32[20,20]"), iota_dimension=counted)
    comparator = less("f32", "s32", direction=direction)()
    ordered = b.op("sort", p, places, called=[comparator], dimensions=(dimension,), is_stable=True)
    results = []
    for i, part in enumerate(parts):
        bounds = [SliceDimension(0, 20, 1)] * 2
        bounds[dimension] = SliceDimension(*part)
        results.append(b.op("slice", b.op("get-tuple-element", ordered, index=i), slice=tuple(bounds)))
    module = b.module(b.op("tuple", *results, q))
    if counted in (None, dimension):
        as_on_xla(module, x, given)
    else:  # XLA:CPU gives the places along the other dimension
        differential(module, x, given)


def test_equal_elements_of_a_constant_comparator_stay() -> None:
    for value in (0, 1):
        always = function("s32, s32", lambda b, x, y, value=value: b.constant(shape("pred"), [value]))
        x = s32(RNG.integers(0, 1000, 300))
        (actual,) = run(sorting(always, 0, x), x)
        np.testing.assert_array_equal(np.sort(actual), np.sort(x))
        if not value:
            np.testing.assert_array_equal(actual, x)


def _key(b: Any, v: Any) -> Any:
    """Returns a key that orders floats as JAX does: both zeros are one, and so are all NaNs."""
    zero, nan = b.constant(shape("f32"), [0]), b.constant(shape("f32"), [np.nan])
    v = b.op("select", b.op("compare", v, zero, direction="EQ"), zero, v)
    return b.op("select", b.op("compare", v, v, direction="NE"), nan, v)


SPECIAL = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 3.4e38, -3.4e38]


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("length", [10, 200, 5000])
def test_both_sides_by_the_same_key(length: int, direction: str) -> None:
    comparator = function(
        "f32, f32, s32, s32",
        lambda b, x, y, *_: b.op("compare", _key(b, x), _key(b, y), direction=direction, type="TOTALORDER"),
    )
    x = RNG.normal(size=length).astype(np.float32)
    x[RNG.integers(0, length, 10)] = SPECIAL
    places = np.arange(length, dtype=np.int32)
    differential(sorting(comparator, 0, x, places), x, places, near=same_bits)


FLOATS = ("f32", "f64", "f16", "bf16")
EXACT = ("s4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "pred")


@pytest.mark.parametrize("element_type, order", [*product((*FLOATS, *EXACT), [None]), *product(FLOATS, ["TOTALORDER"])])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_long_rows_of_every_type(element_type: str, direction: str, order: str | None) -> None:
    floats = element_type in FLOATS
    attrs = {"direction": direction} | ({"type": order} if order else {})
    x = RNG.integers(-(2**62), 2**62, (2, 3000)).view(np.uint8).reshape(2, -1)[:, : 3000 * 8]
    with np.errstate(over="ignore"):
        x = (x.view(np.int64) >> RNG.integers(0, 62, (2, 3000))).astype(array(element_type, 0).dtype)
        special = np.array(SPECIAL).astype(x.dtype) if floats else x[0, :10]
    if order:
        x[:, :10] = special
    elif floats:
        x[:, :2] = [0.0, -0.0]
    places = np.broadcast_to(np.arange(3000, dtype=np.int32), (2, 3000)).copy()
    near = same_bits if floats else equal  # zeros and NaNs have an order; an s4 has bits that mean nothing
    differential(sorting(less(element_type, "s32", **attrs), 1, x, places), x, places, near=near)


def test_a_comparator_with_a_loop_is_refused() -> None:
    state = function("s32", lambda b, i: b.op("add", i, b.constant(shape("s32"), [1])))
    test = function("s32", lambda b, i: b.op("compare", i, b.constant(shape("s32"), [5]), direction="LT"))
    comparator = function(
        "s32, s32", lambda b, x, y: b.op("compare", b.op("while", x, called=[state(), test()]), y, direction="LT")
    )
    x = s32([3, 1, 2])
    with pytest.raises(UnsupportedError, match="while"):
        xla_wasm.compile(sorting(comparator, 0, x))


@pytest.mark.parametrize(
    "length, k",
    [
        (1, 1),
        (5, 3),
        (5, 5),
        (20, 1),
        (64, 2),
        (1000, 10),
        (1024, 64),
        (1000, 64),
        (1000, 100),
        (1025, 7),
        (2060, 16),
        (12801, 100),
    ],
)
@pytest.mark.parametrize("element_type", ["f32", "s32", "u8", "s64", "f64", "pred", "u64"])
@pytest.mark.parametrize("largest", [True, False])
def test_the_best(length: int, k: int, element_type: str, largest: bool) -> None:
    x = array(element_type, RNG.integers(0, 40, (3, length)) % (2 if element_type == "pred" else 100))
    if element_type[0] == "f" and length > 10:
        x[0, :10] = SPECIAL
    differential(case("topk", (x,), (), k=k, largest=largest).module(), x)


@pytest.mark.parametrize("seed", range(60))
def test_the_best_of_random_rows(seed: int) -> None:
    """Rows of every type in every order, read through views and expressions, with many equal and extreme elements."""
    from tests.support.random_topk import random_topk

    module, arguments = random_topk(seed)
    differential(module, *arguments, targets=BOTH, near=same_bits)


@pytest.mark.parametrize("order", ["rising", "falling", "equal", "few", "periodic", "in columns", "NaN and zeros"])
@pytest.mark.parametrize("length, k", [(1024, 8), (5000, 3), (40_000, 256), (8192, 64), (70_001, 100)])
@pytest.mark.parametrize("largest", [True, False])
def test_the_best_in_any_order(order: str, length: int, k: int, largest: bool) -> None:
    """Of equals the first, however many reach the bound that the best of the groups give."""
    place = np.arange(length)
    x = {
        "rising": place,
        "falling": -place,
        "equal": np.zeros(length),
        "few": RNG.integers(0, 3, length),
        "periodic": place % (4 * k),
        "in columns": place % (4 * k) * length + place * (1 if largest else -1),
        "NaN and zeros": RNG.choice([np.nan, -np.nan, 0.0, -0.0, np.inf, 1], length),
    }[order]
    x = f32(x)
    differential(case("topk", (x,), (), k=k, largest=largest).module(), x)


@pytest.mark.parametrize("ascending", [True, False])
def test_the_best_of_what_is_sorted(ascending: bool) -> None:
    x = s32(np.arange(5000))[:: 1 if ascending else -1].copy()
    values, places = run(case("topk", (x,), (), k=20, largest=True).module(), x)
    np.testing.assert_array_equal(values, np.arange(4999, 4979, -1))
    np.testing.assert_array_equal(x[places], values)


def test_a_sorted_row_is_part_of_a_larger_program() -> None:
    """The operand of a sort is computed on the way, and its result is used."""
    from xla_wasm.builder import Builder

    b = Builder("median")
    x = b.parameter(0, shape("f32[5,31]"))
    ordered = b.op("sort", b.op("multiply", x, x), called=[less("f32")()], dimensions=(1,))
    total = b.op(
        "reduce", ordered, b.constant(shape("f32"), [0]), called=[reducer("maximum", "f32")()], dimensions=(1,)
    )
    module = b.module(
        b.op("tuple", b.op("slice", ordered, slice=(SliceDimension(0, 5, 1), SliceDimension(15, 16, 1))), total)
    )
    values = RNG.normal(size=(5, 31)).astype(np.float32)
    middle, greatest = run(module, values)
    np.testing.assert_array_equal(middle[:, 0], np.median(values * values, 1))
    np.testing.assert_array_equal(greatest, np.max(values * values, 1))


def random_sort(seed: int) -> tuple[Module, list[Array]]:
    """Rows in an array of two or three dimensions, of lengths on both sides of those at which a sort takes another
    way, under a comparator with a key or without, of few different elements; and the arguments."""
    rng = np.random.default_rng(seed)
    dims = [int(rng.integers(1, 5)) for _ in range(rng.integers(2, 4))]
    dimension = int(rng.integers(0, len(dims)))
    dims[dimension] = int(rng.choice([2, 7, 8, 9, 16, 17, 40, 255, 256, 300]))
    types = [
        str(rng.choice(["f32", "f32", "f64", "bf16", "s8", "u16", "s32", "u64", "pred"]))
        for _ in range(rng.integers(1, 4))
    ]
    arrays = []
    for t in types:
        made = rng.integers(0 if t[0] in "up" else -9, 10, dims)
        arrays.append(made % 2 == 0 if t == "pred" else array(t, made))
    first = types[0]
    kind = str(rng.choice(["plain", "plain", "key", "two", "swapped", *["total"] * (first in ("f32", "f64", "bf16"))]))
    directions = [str(rng.choice(["LT", "GT"])) for _ in range(2)]
    order = {"type": "TOTALORDER"} if kind == "total" else {}
    if first in ("f32", "f64", "bf16"):  # the evaluator has no order for NaNs but this
        arrays[0][rng.random(dims) < 0.1] = rng.choice([np.nan, -np.nan]) if order else -0.0

    def compared(b: Any, x: Any, y: Any, *others: Any) -> Any:
        if kind == "swapped":
            x, y = y, x
        if kind == "key" and first != "pred":
            x, y = (b.op("multiply", v, v) for v in (x, y))
        before = b.op("compare", x, y, direction=directions[0], **order)
        if kind != "two" or not others:
            return before
        second = b.op("compare", *others[:2], direction=directions[1])
        return b.op("or", before, b.op("and", b.op("compare", x, y, direction="EQ"), second))

    comparator = function(", ".join(f"{t}, {t}" for t in types), compared)
    return sorting(comparator, dimension, *arrays, is_stable=bool(rng.random() < 0.5)), arrays


@pytest.mark.parametrize("seed", range(100))
def test_random_rows(seed: int) -> None:
    module, arrays = random_sort(seed)
    differential(module, *arrays, targets=[BOTH[seed % 2]], near=same_bits, threads=seed % 5 == 0)


# --- sorts of which only the first elements are used ----------------------------------------------------------------

_FALLING = """HloModule m
values { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GT }
placed { a = f32[] parameter(0)  b = f32[] parameter(1)  i = TYPE[] parameter(2)  j = TYPE[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT }
ENTRY e { x = f32[6,40] parameter(0)
  y = f32[6,40] parameter(1)
  i = TYPE[6,40] iota(), iota_dimension=1
  LINES }"""
_ALONE = "s = f32[6,40] sort(x), dimensions={1}, is_stable=true, to_apply=values"
_FIRST = "f = f32[6,3] slice(s), slice={[0:6], [0:3]}"
_WITH_PLACES = """s = (f32[6,40], TYPE[6,40]) sort(x, i), dimensions={1}, is_stable=true, to_apply=placed
  v = f32[6,40] get-tuple-element(s), index=0
  p = TYPE[6,40] get-tuple-element(s), index=1"""
FIRST_PARTS = {
    "values alone": f"{_ALONE}\n ROOT {_FIRST}",
    "values of two": f"{_WITH_PLACES}\n ROOT r = f32[6,3] slice(v), slice={{[0:6], [0:3]}}",
    "places alone": f"{_WITH_PLACES}\n ROOT r = TYPE[6,3] slice(p), slice={{[0:6], [0:3]}}",
    "twice": f"""{_ALONE}\n {_FIRST}\n b = f32[6,3] slice(s), slice={{[0:6], [0:3]}}
      ROOT r = f32[6,3] add(f, b)""",
    "all": f"{_ALONE}\n ROOT r = f32[6,40] slice(s), slice={{[0:6], [0:40]}}",
    "none that is used": f"{_WITH_PLACES}\n ROOT r = f32[6,40] negate(x)",
    "no part": f"{_ALONE}\n ROOT r = f32[6,40] negate(s)",
    "nothing": f"{_ALONE}\n ROOT r = f32[6,0] slice(s), slice={{[0:6], [0:0]}}",
    "rows too": f"{_ALONE}\n ROOT r = f32[4,3] slice(s), slice={{[0:4], [0:3]}}",
    "columns too": """t = f32[40,6] transpose(x), dimensions={1,0}
      s = f32[40,6] sort(t), dimensions={0}, is_stable=true, to_apply=values
      ROOT r = f32[3,4] slice(s), slice={[0:3], [0:4]}""",
    "all elements, too": f"""{_ALONE}\n {_FIRST}\n n = f32[6,40] negate(s)
      ROOT r = (f32[6,3], f32[6,40]) tuple(f, n)""",
    "itself, too": f"{_ALONE}\n {_FIRST}\n ROOT r = (f32[6,3], f32[6,40]) tuple(f, s)",
    "a pair, too": f"""{_WITH_PLACES}\n a = f32[6,3] slice(v), slice={{[0:6], [0:3]}}
      o = (f32[6,40], TYPE[6,40]) opt-barrier(s)\n w = f32[6,40] get-tuple-element(o), index=0
      ROOT r = (f32[6,3], f32[6,40]) tuple(a, w)""",
    "no places": f"{_WITH_PLACES.replace('(x, i)', '(x, j)')}\n ROOT r = TYPE[6,3] slice(p), slice={{[0:6], [0:3]}}",
}
"""Parts of a sort that falls, as programs take them."""


@pytest.mark.parametrize("case", FIRST_PARTS)
@pytest.mark.parametrize("places", ["s32", "u32"])
def test_what_is_taken_of_a_falling_sort(case: str, places: str) -> None:
    lines = FIRST_PARTS[case]
    if case == "no places":
        lines = f"k = {places}[6,40] convert(y)\n j = {places}[6,40] add(k, k)\n {lines}"
    x = f32(np.random.default_rng(3).integers(1, 20, (6, 40)))
    differential(_FALLING.replace("LINES", lines).replace("TYPE", places), x, x + 1)


@pytest.mark.parametrize(
    "user", ["o = token[] outfeed(s, t)", "w = (f32[40], s32[40]) while(s), condition=once, body=out"]
)
def test_a_sort_that_the_host_sees_whole_beside_its_first_elements(user: str) -> None:
    """Users without a result of their own count, too."""
    from tests.support.hostio_cases import module as program
    from tests.support.hostio_cases import run as run_with_host

    more = """placed { a = f32[] parameter(0)  b = f32[] parameter(1)  i = s32[] parameter(2)  j = s32[] parameter(3)
      ROOT c = pred[] compare(a, b), direction=GT }
    once { p = (f32[40], s32[40]) parameter(0)  v = f32[40] get-tuple-element(p), index=0
      a = f32[1] slice(v), slice={[0:1]}  b = f32[] reshape(a)  z = f32[] constant(0)
      ROOT c = pred[] compare(b, z), direction=GT }
    out { p = (f32[40], s32[40]) parameter(0)  t = token[] after-all()  o = token[] outfeed(p, t)
      v = f32[40] get-tuple-element(p), index=0  i = s32[40] get-tuple-element(p), index=1
      n = f32[40] negate(v)  ROOT r = (f32[40], s32[40]) tuple(n, i) }"""
    lines = f"""i = s32[40] iota(), iota_dimension=0
      s = (f32[40], s32[40]) sort(x, i), dimensions={{0}}, to_apply=placed
      {user}
      v = f32[40] get-tuple-element(s), index=0
      ROOT r = f32[3] slice(v), slice={{[0:3]}}"""
    x = f32(RNG.permutation(40))
    (first,), ((values, places),), _ = run_with_host(program(lines, "x: f32[40]", more), x, outfeed=True)
    np.testing.assert_array_equal(values, np.sort(x)[::-1])
    np.testing.assert_array_equal(x[places], values)
    np.testing.assert_array_equal(first, values[:3])


# --- comparators that look as if they had a key ---------------------------------------------------------------------

_LIKE_KEYS: dict[str, tuple[str, Any]] = {
    "not less": ("ROOT c = pred[] compare(a, b), direction=GE", lambda x: -x),
    "not greater": ("ROOT c = pred[] compare(a, b), direction=LE", lambda x: x),
    "of their difference": (
        "d = s32[] subtract(a, b)\n z = s32[] constant(0)\n ROOT c = pred[] compare(d, z), direction=LT",
        lambda x: x,
    ),
    "another way on either side": (
        "m = s32[] constant(-4)\n d = s32[] and(b, m)\n ROOT c = pred[] compare(a, d), direction=LT",
        lambda x: x >> 2,
    ),
    "with another constant on either side": (
        "k = s32[] constant(-1)\n m = s32[] constant(-4)\n e = s32[] and(a, k)\n d = s32[] and(b, m)\n"
        " ROOT c = pred[] compare(e, d), direction=LT",
        lambda x: x >> 2,
    ),
    "by another function on either side": (
        "z = s32[] constant(0)\n p = pred[] compare(i, i), direction=EQ\n q = pred[] compare(j, j), direction=EQ\n"
        " e = s32[] conditional(p, a, a), true_computation=itself, false_computation=itself\n"
        " d = s32[] conditional(q, b, b), true_computation=less, false_computation=less\n"
        " ROOT c = pred[] compare(e, d), direction=LT",
        lambda x: x >> 2,
    ),
}
"""Comparators of s32 beside what they sort by."""


@pytest.mark.parametrize("case", _LIKE_KEYS)
@pytest.mark.parametrize("length", [7, 100, 300])
def test_comparators_that_look_like_keys(case: str, length: int) -> None:
    """Elements differ where the order of equal ones is not defined, and lie in rows of a batch."""
    lines, key = _LIKE_KEYS[case]
    text = f"""HloModule m
    itself {{ ROOT a = s32[] parameter(0) }}
    less {{ a = s32[] parameter(0)  m = s32[] constant(-4)  ROOT b = s32[] and(a, m) }}
    order {{ a = s32[] parameter(0)\n b = s32[] parameter(1)
      i = s32[] parameter(2)\n j = s32[] parameter(3)\n {lines} }}
    ENTRY e {{ x = s32[3,{length}] parameter(0)\n y = s32[3,{length}] parameter(1)
      ROOT r = (s32[3,{length}], s32[3,{length}]) sort(x, y), dimensions={{1}}, is_stable=true, to_apply=order }}"""
    rng = np.random.default_rng(length)
    x = s32([rng.permutation(length) - length // 2 for _ in range(3)])
    y = s32(rng.integers(0, 1000, x.shape))
    order = np.argsort(key(x), axis=1, kind="stable")
    expected = [np.take_along_axis(a, order, 1) for a in (x, y)]
    differential(text, x, y, expected=expected, targets=BOTH)
