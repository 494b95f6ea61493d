"""Products of arrays that have grown by a few elements: they are split, and give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support.closeness import equal
from tests.support.differential import TUNED, differential
from xla_wasm.compiler import stages
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.passes import split

Array = Any
SIZES = (1, 2, 3, 5, 8, 16, 17)
TYPES = (np.float32, np.float32, np.float64, np.int32, np.uint32, np.int8, jnp.bfloat16)


def program(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A product of arrays of any dimensions, one of which is put together of a large part and small ones, and then
    perhaps transposed."""
    rng = np.random.default_rng(seed)
    names = list("abcdefg")
    batch, contracted, left, right = (int(rng.integers(low, 3)) for low in (0, 1, 0, 0))
    kinds = ["b"] * batch + ["k"] * contracted + ["l"] * left + ["r"] * right
    size = {name: int(rng.choice(SIZES)) for name in names}
    name_of = dict(zip(names, kinds))
    operands = [[d for d, kind in name_of.items() if kind in allowed] for allowed in ("bkl", "bkr")]
    side = int(rng.integers(2))
    grown = (
        str(rng.choice(operands[side])) if rng.integers(8) else next(d for d, kind in name_of.items() if kind == "k")
    )
    if grown not in operands[side]:
        side = 1 - side
    size[grown] = 17
    orders = ["".join(rng.permutation(o).tolist()) for o in operands]
    kept = "".join(rng.permutation(list(orders[side])).tolist())
    result = "".join(rng.permutation([d for d, kind in name_of.items() if kind != "k"]).tolist())
    lengths = [1, 14, 2] if rng.integers(4) == 0 else [[16, 1], [1, 16]][rng.integers(2)]
    dtype, use = TYPES[rng.integers(len(TYPES))], int(rng.integers(6))

    def whole(dims: str, **sizes: int) -> Array:
        return rng.integers(-2, 3, [sizes.get(d, size[d]) for d in dims]).astype(dtype)

    parts = [whole(kept, **{grown: length}) for length in lengths]
    other = whole(orders[1 - side])
    turned = tuple(kept.index(d) for d in orders[side])

    def product(other: Array, *parts: Array) -> tuple[Array, Array]:
        array = jnp.concatenate(parts, kept.index(grown))
        whole = jnp.transpose(array, turned)
        sides = (whole, other) if side == 0 else (other, whole)
        return jnp.einsum(f"{orders[0]},{orders[1]}->{result}", *sides), array

    def fn(other: Array, *parts: Array) -> Any:
        y, array = product(other, *parts)
        if use == 0:
            return y, array
        if use == 1:
            return jnp.maximum(y, 0) - 1, jnp.sum(y)
        if use == 2:
            return product(other + 1, *parts)[0] + y
        if use == 3:
            return y, parts[0] + parts[0]
        if use == 4:
            return lax.fori_loop(0, 2, lambda _, x: jnp.sign(x + product(x, *parts)[0].sum()).astype(x.dtype), other)
        return y

    return fn, [other, *parts]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_LEAST", 1), ("_FEW", 0), ("_PART", 4)):
        monkeypatch.setattr(split, name, value)
    fn, arrays = program(seed)
    with jax.enable_x64():
        differential(lower(fn, *arrays), *arrays, targets=TUNED, near=equal)


def attention(q: Array, k: Array, v: Array, keys: Array, values: Array) -> Any:
    keys, values = jnp.concatenate([keys, k], 1), jnp.concatenate([values, v], 1)
    return jax.nn.softmax(q @ keys.transpose(0, 2, 1)) @ values, keys


@pytest.mark.parametrize(("returned", "copies"), [(False, 0), (True, 1)], ids=["only read", "keys are a result"])
def test_caches_are_read_where_they_lie(returned: bool, copies: int) -> None:
    q, cache = np.ones((4, 1, 32), np.float32), np.ones((4, 63, 32), np.float32)
    module = lower(lambda *a: attention(*a)[: 1 + returned], q, q, q, cache, cache)
    assert stages(module)["plan"].count("f32[4,64,32]") >= copies
    assert ("f32[4,64,32]" in stages(module)["plan"]) == bool(copies)
    jax.clear_caches()


@pytest.mark.parametrize(
    ("size", "added", "columns", "splits"),
    [(64, 8, 16, True), (63, 7, 15, False), (64, 9, 16, False), (64, 8, 17, False)],
    ids=["at every limit", "few elements", "a large part", "a large result"],
)
def test_what_is_worth_a_product_more(size: int, added: int, columns: int, splits: bool) -> None:
    """An array of at least 4096 elements, four times those of the result, of which an eighth at most is new."""
    module = Module.from_text(f"""HloModule m
ENTRY e {{
  old = f32[{size - added},64] parameter(0)
  new = f32[{added},64] parameter(1)
  w = f32[64,{columns}] parameter(2)
  both = f32[{size},64] concatenate(old, new), dimensions={{0}}
  ROOT y = f32[{size},{columns}] dot(both, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""")
    split.split_products(module)
    assert sum(x.opcode == "dot" for x in module.instructions()) == 1 + splits
