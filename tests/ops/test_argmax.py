"""The greatest or least of a row and its place: in lanes where the reducer is known to look for it, and the same either
way."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import seeds
from tests.support.closeness import equal
from tests.support.differential import BOTH, differential
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower as jax_lower
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.reduce import lower, lower_best

FLOATS = ("f32", "f64", "bf16", "f16")
TYPES = (*FLOATS, "f32", "f32", "s32", "u32", "s8", "u8", "s64", "u64", "pred")

# Bodies of reducers of (a, i) and (b, j), with the direction of the comparison, and whether lanes may be used for
# numbers of the type.
JAX = """g = pred[] compare(a, b), direction={0}
  n = pred[] compare(a, a), direction=NE
  p = pred[] or(g, n)
  v = T[] select(p, a, b)
  e = pred[] compare(a, b), direction=EQ
  l = pred[] compare(i, j), direction=LT
  q = pred[] and(e, l)
  r = pred[] or(p, q)
  k = I[] select(r, i, j)"""
TURNED = """g = pred[] compare(b, a), direction={1}
  x = pred[] compare(b, a), direction=NE
  y = pred[] not(x)
  m = I[] minimum(j, i)
  n = pred[] compare(a, a), direction=NE
  o = pred[] or(g, n)
  v = T[] select(o, a, b)
  w = I[] select(o, i, j)
  k = I[] select(y, m, w)"""
NO_NAN = """g = pred[] compare(a, b), direction={0}E
  v = T[] select(g, a, b)
  k = I[] select(g, i, j)"""
LAST = """g = pred[] compare(b, a), direction={0}E
  v = T[] select(g, b, a)
  k = I[] select(g, j, i)"""
WRONG_PLACE = """g = pred[] compare(a, b), direction={0}
  v = T[] select(g, a, b)
  k = I[] select(g, j, i)"""
LARGEST_PLACE = """g = pred[] compare(a, b), direction={0}
  v = T[] select(g, a, b)
  k = I[] maximum(i, j)"""
BODIES = {
    "jax": JAX,
    "turned": TURNED,
    "no nan": NO_NAN,
    "last": LAST,
    "wrong place": WRONG_PLACE,
    "largest place": LARGEST_PLACE,
}


def known(body: str, element_type: str) -> bool:
    """Returns true if the search may take a reducer of this type for one that gives the first of the best elements."""
    if element_type in ("pred", "u64"):
        return False
    return body in ("jax", "turned") or body == "no nan" and element_type not in FLOATS


def values(rng: np.random.Generator, sizes: list[int], element_type: str) -> np.ndarray[Any, Any]:
    """Many equal numbers; zeros of both signs, infinities, NaNs at the start, the end and between."""
    dtype = DTYPES[element_type]
    if element_type == "pred":
        return rng.integers(0, 2, sizes).astype(dtype)
    if element_type not in FLOATS:
        info = np.iinfo(dtype)
        return (
            rng.choice(np.array([info.min, info.max, 0, 1, 5], dtype), sizes)
            if rng.integers(0, 2)
            else rng.integers(0, 9, sizes).astype(dtype)
        )
    kind = int(rng.integers(0, 5))
    if kind == 0:
        return rng.normal(size=sizes).astype(dtype)
    if kind == 1:
        return np.full(sizes, rng.choice([-np.inf, np.inf, np.nan, 0.0])).astype(dtype)
    pool = [[0.0, -0.0], [-np.inf, -np.inf, -np.inf, 3.0], [1.0, 2.0, np.nan, -np.inf, np.inf]][kind - 2]
    made = rng.choice(pool, sizes)
    if made.size and rng.integers(0, 2):
        made.flat[rng.integers(0, made.size)] = np.nan
    return made.astype(dtype)


HEAD = """HloModule places

reducer {{
  a = T[] parameter(0)
  i = I[] parameter(1)
  b = T[] parameter(2)
  j = I[] parameter(3)
  {body}
  ROOT t = (T[], I[]) tuple(v, k)
}}

ENTRY main {{
  x = T[{whole}] parameter(0)
  start = T[] parameter(1)
  first = I[] parameter(2)
"""
"""A reducer, and the beginning of what looks with it."""


def program(rng: np.random.Generator) -> tuple[Module, list[np.ndarray[Any, Any]], str, bool]:
    rank = int(rng.integers(1, 4))
    dims = [int(rng.integers(1, (200, 70, 20)[rank - 1])) for _ in range(rank)]
    if rng.integers(0, 3) == 0:
        dims[int(rng.integers(0, rank))] = int(rng.choice([1, 4, 8, 31, 32, 33, 48, 100]))
    d = int(rng.integers(0, rank))
    element_type, name = str(rng.choice(TYPES)), str(rng.choice([*BODIES, "jax", "jax"]))
    place = str(rng.choice(["s32", "s32", "u8", "s64", "s16"]))
    greatest = bool(rng.integers(0, 2))
    body = BODIES[name].format(*(("GT", "GT") if greatest else ("LT", "LT"))).replace("GTE", "GE").replace("LTE", "LE")
    kept = [size for i, size in enumerate(dims) if i != d]
    whole, rest = ",".join(map(str, dims)), ",".join(map(str, kept))
    order_of = ",".join(str(i) for i in range(rank) if i != d)
    seen = str(rng.choice(["x", "r", "s"]))
    unary = "not(x)" if element_type == "pred" else "negate(x)"
    turned = int(rng.integers(0, rank))
    text = f"""{HEAD.format(body=body, whole=whole)}  r = T[{whole}] reverse(x), dimensions={{{turned}}}
  s = T[{whole}] {unary}
  line = I[{dims[d]}] iota(), iota_dimension=0
  i = I[{whole}] {f"broadcast(line), dimensions={{{d}}}" if rng.integers(0, 2) else f"iota(), iota_dimension={d}"}
  m = (T[{rest}], I[{rest}]) reduce({seen}, i, start, first), dimensions={{{d}}}, to_apply=reducer
  v = T[{rest}] get-tuple-element(m), index=0
  k = I[{rest}] get-tuple-element(m), index=1
  w = T[{whole}] broadcast(v), dimensions={{{order_of}}}
  e = pred[{whole}] compare(x, w), direction=EQ
  ROOT out = (I[{rest}], T[{rest}], pred[{whole}]) tuple(k, v, e)
}}
""".replace("T[", f"{element_type}[").replace("I[", f"{place}[")
    start = values(rng, [], element_type)
    if rng.integers(0, 2) and element_type != "pred":
        low, high = (
            (-np.inf, np.inf)
            if element_type in FLOATS
            else (np.iinfo(DTYPES[element_type]).min, np.iinfo(DTYPES[element_type]).max)
        )
        start = np.array(low if greatest else high).astype(DTYPES[element_type])
    arrays = [
        values(rng, dims, element_type),
        np.asarray(start),
        np.array(int(rng.choice([0, 0, 3, 100])), DTYPES[place]),
    ]
    count_fits = dims[d] - 1 <= np.iinfo(DTYPES[place]).max
    return (
        Module.from_text(text),
        arrays,
        str(rng.choice(BOTH)),
        known(name, element_type) and count_fits,
    )


def searches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list that grows by a value for each reduction known as a search: True if lanes are used for it."""
    found: list[bool] = []
    look = lower_best.search

    def spied(*arguments: Any) -> Any:
        made = look(*arguments)
        found.append(made is not None)
        return made

    monkeypatch.setattr(lower, "search", spied)
    return found


@pytest.mark.parametrize("blocks", [False, True], ids=["", "short blocks"])
@pytest.mark.parametrize("seed", range(seeds.count(3, 8)))
def test_the_same_as_the_evaluator(seed: int, blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed + 100 * blocks)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    in_blocks: list[None] = []
    if blocks:
        best_block = lower_best._best_block
        monkeypatch.setattr(lower_best, "_BLOCK", 16)
        monkeypatch.setattr(lower_best, "_LONG_SEARCH", 20)
        monkeypatch.setattr(lower_best, "_best_block", lambda *args: (in_blocks.append(None), best_block(*args))[1])
    found = searches(monkeypatch)
    used = 0
    for _ in range(50):
        module, arrays, target, may = program(rng)
        found.clear()
        differential(module, *arrays, targets=[target], near=equal)
        assert may or not any(found), f"taken for what it is not: {module.to_text()}"
        used += any(found)
    assert used > 5 and bool(in_blocks) == blocks, "the programs have to show what they are for"


def test_long_rows() -> None:
    """The last block reaches back into the one before it; equal numbers, and none, lie on both sides of its start."""
    size = 5001
    rng = np.random.default_rng(1)
    x = rng.integers(0, 50, (40, size)).astype(np.float32)
    for row in range(20):
        x[row, rng.integers(0, size, 3)] = [60, np.nan, 60][row % 3]
        x[row, size - 512 + row - 9 : size - 507 + row - 9] = 60
    x[20], x[21], x[22, -1], x[23, :512] = -np.inf, np.nan, 70, -1
    module = jax_lower(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1)), x)
    differential(module, x, expected=(x.argmax(1), x.argmin(1)), near=equal)


# Bodies with what numbers and places of one type allow, and whether lanes may be used.
MORE_BODIES = {
    "xor": (
        "g = pred[] compare(a, b), direction=GT\n  n = pred[] compare(a, a), direction=NE\n  p = pred[] xor(g, n)\n"
        "  v = T[] select(p, a, b)\n  e = pred[] compare(a, b), direction=EQ\n"
        "  l = pred[] compare(i, j), direction=LT\n"
        "  q = pred[] and(e, l)\n  r = pred[] or(p, q)\n  k = T[] select(r, i, j)",
        True,
    ),
    "what is none of itself": (
        "g = pred[] compare(b, a), direction=GT\n  n = pred[] compare(b, b), direction=NE\n"
        "  s = pred[] compare(a, a), direction=EQ\n  m = pred[] compare(i, i), direction=EQ\n  c = pred[] and(n, s)\n"
        "  d = pred[] and(c, m)\n  p = pred[] or(g, d)\n  v = T[] select(p, b, a)\n"
        "  e = pred[] compare(b, a), direction=EQ\n  l = pred[] compare(j, i), direction=LT\n  q = pred[] and(e, l)\n"
        "  r = pred[] or(p, q)\n  k = T[] select(r, j, i)",
        True,
    ),
    "the greater number": (
        "g = pred[] compare(a, b), direction=GE\n  v = T[] maximum(a, b)\n  k = T[] select(g, i, j)",
        False,
    ),
    "swapped": ("g = pred[] compare(a, b), direction=GE\n  k = T[] select(g, a, b)\n  v = T[] select(g, i, j)", False),
    "a number for the place": (
        "g = pred[] compare(a, b), direction=GE\n  v = T[] select(g, a, b)\n  k = T[] select(g, a, b)",
        False,
    ),
    "a place for the number": (
        "g = pred[] compare(a, b), direction=GE\n  v = T[] select(g, i, j)\n  k = T[] select(g, i, j)",
        False,
    ),
    "a number with a place": (
        "g = pred[] compare(a, j), direction=GE\n  v = T[] select(g, a, b)\n  k = T[] select(g, i, j)",
        False,
    ),
    "conditions compared": (
        "g = pred[] compare(a, b), direction=GE\n  h = pred[] compare(i, j), direction=LE\n"
        "  c = pred[] compare(g, h), direction=EQ\n  v = T[] select(c, a, b)\n  k = T[] select(c, i, j)",
        False,
    ),
    "a total order": (
        "g = pred[] compare(a, b), direction=GE, type=TOTALORDER\n  v = T[] select(g, a, b)\n  k = T[] select(g, i, j)",
        False,
    ),
}
OF_ONE_TYPE = ("swapped", "a number for the place", "a place for the number", "a number with a place")


def search(
    dimension: int,
    dims: tuple[int, ...],
    number: str = "s32",
    place: str = "s32",
    body: str = NO_NAN.format("G"),
    places: str = "",
) -> str:
    """The text of a module that looks along a dimension; `places` computes the places `i`, if they are no iota."""
    whole = ",".join(map(str, dims))
    rest = ",".join(str(size) for d, size in enumerate(dims) if d != dimension)
    places = places or f"i = I[{whole}] iota(), iota_dimension={dimension}"
    return f"""{HEAD.format(body=body, whole=whole)}  {places}
  ROOT m = (T[{rest}], I[{rest}]) reduce(x, i, start, first), dimensions={{{dimension}}}, to_apply=reducer
}}
""".replace("T[", f"{number}[").replace("I[", f"{place}[")


def check(text: str, x: np.ndarray[Any, Any], start: Any, first: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Compares with the evaluator. Returns True if the search was known for what it is."""
    found = searches(monkeypatch)
    differential(text, x, start, first, targets=["threads"], near=equal)
    monkeypatch.undo()
    return any(found)


@pytest.mark.parametrize("element_type", ["s32", "f32"])
@pytest.mark.parametrize("name", MORE_BODIES)
def test_reducers_of_one_type(name: str, element_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, is_search = MORE_BODIES[name]
    if "TOTALORDER" in body and element_type != "f32":
        body = body.replace(", type=TOTALORDER", "")
        is_search = True
    rng = np.random.default_rng(7)
    for dimension, dims in ((1, (5, 70)), (1, (3, 40, 6))):
        x = values(rng, list(dims), element_type)
        if element_type == "f32":
            x.flat[rng.integers(0, x.size, 3)] = np.nan
        # Places in floats are no places for a search.
        text = search(dimension, dims, element_type, element_type, body)
        dtype = DTYPES[element_type]
        start = np.array(-np.inf if element_type == "f32" else np.iinfo(np.int32).min, dtype)
        found = check(text, x, start, np.array(0, dtype), monkeypatch)
        assert found == (is_search and element_type == "s32"), dims
        if name not in OF_ONE_TYPE:
            body_of = body.replace("k = T[]", "k = I[]")
            text = search(dimension, dims, element_type, "s64", body_of)
            assert check(text, x, start, np.array(0), monkeypatch) == is_search, dims


@pytest.mark.parametrize(("source", "most"), [("u8", 256), ("s8", 128), ("s16", 1 << 15), ("f32", 0), ("s64", 1 << 63)])
def test_places_in_another_type(source: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Converted ones are known as far as the type has them: behind that they begin anew."""
    rng = np.random.default_rng(8)
    for size in {"u8": (256, 257), "s8": (127, 128, 129)}.get(source, (257,)):
        for dimension, dims in ((1, (3, size)), (1, (2, size, 5))):
            whole = ",".join(map(str, dims))
            places = f"n = {source}[{whole}] iota(), iota_dimension={dimension}\n  i = s32[{whole}] convert(n)"
            x = values(rng, list(dims), "s32")
            text = search(dimension, dims, places=places)
            assert check(text, x, np.int32(-(2**31)), np.int32(0), monkeypatch) == (size <= most)
            if source in ("u8", "s8"):
                text = search(dimension, dims, place=source)
                assert check(text, x, np.int32(-(2**31)), DTYPES[source].type(0), monkeypatch) == (size <= most)


def test_as_many_places_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is as long as the number that stands for no place is not searched; shorter ones are, NaN and all."""
    rng = np.random.default_rng(9)
    for size in (63, 64, 65):
        for dimension, dims in ((1, (4, size)), (0, (size, 6))):
            x = values(rng, list(dims), "f32")
            x.flat[-1] = np.nan
            monkeypatch.setattr(lower_best, "NOWHERE", 64)
            text = search(dimension, dims, "f32", "s32", JAX.format("GT"))
            assert check(text, x, np.float32(-np.inf), np.int32(0), monkeypatch) == (size < 64)


def test_places_of_other_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places that are those of a larger array in row-major order are none of the row. Neither are those that are given,
    beside a search that is known and whose places are in a buffer."""
    rng = np.random.default_rng(10)
    x = values(rng, [8, 70], "s32")
    start = np.int32(-(2**31))
    line = "n = s32[560] iota(), iota_dimension=0\n  i = s32[8,70] reshape(n)"
    assert not check(search(1, (8, 70), places=line), x, start, np.int32(0), monkeypatch)
    given = search(1, (8, 70)).replace("  ROOT m", "  p = s32[8,70] parameter(3)\n  m").removesuffix("}\n")
    for one, other in (("i", "p"), ("p", "i")):
        text = f"""{given.replace("(x, i,", f"(x, {one},")}
  o = (s32[8], s32[8]) reduce(x, {other}, start, first), dimensions={{1}}, to_apply=reducer
  ROOT all = (s32[8,70], (s32[8], s32[8]), (s32[8], s32[8])) tuple(i, m, o)
}}
"""
        places = rng.permutation(x.size).reshape(x.shape).astype(np.int32)
        differential(text, x, start, np.int32(0), places, near=equal)
