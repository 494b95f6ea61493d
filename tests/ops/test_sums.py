"""Sums of floats of at most 16 bits: held in f32 and rounded once, whatever stands around them.

Most terms here are small integers: the sum is exact in f32, so that one answer is right, bit for bit, in any order.
Rounded at every step, sums in bf16 would get no further than 256 to 2,048, and those in f16 than 2,048 to 16,384.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import xla_cpu
from tests.support.closeness import Array, assert_all, error, same_bits
from tests.support.differential import BOTH, differential, run
from xla_wasm.hlo.ir import Module
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.reference import evaluate

REDUCERS = """add {
  p = TYPE[] parameter(0)
  q = TYPE[] parameter(1)
  ROOT s = TYPE[] add(p, q)
}
greater {
  p = TYPE[] parameter(0)
  q = TYPE[] parameter(1)
  ROOT s = pred[] compare(p, q), direction=GE
}
both {
  a = TYPE[] parameter(0)
  b = f32[] parameter(1)
  c = TYPE[] parameter(2)
  d = f32[] parameter(3)
  s = TYPE[] add(a, c)
  t = f32[] maximum(b, d)
  ROOT r = (TYPE[], f32[]) tuple(s, t)
}
"""
SHAPES = (
    ((4, 14, 14, 24), (0, 1, 2)),
    ((9000,), (0,)),
    ((8, 3000), (1,)),
    ((9, 2000, 33), (1,)),
    ((33, 8, 300), (0, 2)),
    ((7000, 5), (0,)),
    ((9, 8, 33, 3), (0, 1, 2, 3)),
)
AROUND = {
    "alone": "ROOT r = TYPE[OUT] reduce(x, zero), dimensions={DIMS}, to_apply=add",
    "between operations": """
  two = TYPE[] constant(2)
  twos = TYPE[IN] broadcast(two), dimensions={}
  more = TYPE[IN] add(x, twos)
  less = TYPE[IN] subtract(more, twos)
  sum = TYPE[OUT] reduce(less, zero), dimensions={DIMS}, to_apply=add
  ROOT r = TYPE[OUT] negate(sum)""",
    "used twice": """
  sum = TYPE[OUT] reduce(x, zero), dimensions={DIMS}, to_apply=add
  n = TYPE[OUT] negate(sum)
  ROOT r = (TYPE[OUT], TYPE[OUT]) tuple(n, sum)""",
    "converted": """
  sum = TYPE[OUT] reduce(x, zero), dimensions={DIMS}, to_apply=add
  ROOT r = f32[OUT] convert(sum)""",
    "reshaped": """
  flat = TYPE[SIZE] reshape(x)
  y = TYPE[IN] reshape(flat)
  ROOT r = TYPE[OUT] reduce(y, zero), dimensions={DIMS}, to_apply=add""",
}


def terms(dims: tuple[int, ...], element_type: str) -> Array:
    return np.random.default_rng(1).integers(0, 8, dims).astype(DTYPES[element_type])


def listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def program(body: str, element_type: str, **values: str) -> Module:
    """A module with reducers and a `zero`, and words in capitals replaced."""
    text = "HloModule sums\n" + REDUCERS + "ENTRY e {\n  zero = TYPE[] constant(0)\n  " + body + "\n}\n"
    for name, value in {"TYPE": element_type, **values}.items():
        text = text.replace(name, value)
    return Module.from_text(text)


def check(module: Module, arguments: list[Array], exact: list[Array], targets: tuple[str, ...] = BOTH) -> None:
    """The exact results rounded once, or wherever they are f32, what they are in the type of the arguments."""
    small = arguments[0].dtype
    shapes = [s.element_type for _, s in module.entry.root.shape.leaves()]
    wanted = [np.asarray(e.astype(small).astype(DTYPES[t])) for e, t in zip(exact, shapes, strict=True)]
    differential(module, *arguments, targets=targets, expected=wanted, near=same_bits)
    assert_all(evaluate(module, *arguments), wanted, same_bits)


def reduction(
    around: str,
    dims: tuple[int, ...],
    reduced: tuple[int, ...],
    element_type: str,
    targets: tuple[str, ...] = BOTH,
) -> None:
    out = tuple(size for d, size in enumerate(dims) if d not in reduced)
    values = {"IN": listed(dims), "OUT": listed(out), "DIMS": listed(reduced), "SIZE": str(int(np.prod(dims)))}
    module = program("x = TYPE[IN] parameter(0)\n  " + AROUND[around], element_type, **values)
    x = terms(dims, element_type)
    total = np.asarray(x.astype(np.float64).sum(reduced))
    assert total.max() > (256 if element_type == "bf16" else 2048)
    wanted = {"between operations": [-total], "used twice": [-total, total]}.get(around, [total])
    check(module, [x], wanted, targets)


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
@pytest.mark.parametrize(("dims", "reduced"), SHAPES, ids=str)
def test_a_sum_rounds_once(dims: tuple[int, ...], reduced: tuple[int, ...], element_type: str) -> None:
    reduction("alone", dims, reduced, element_type)


@pytest.mark.parametrize(("dims", "reduced"), [((300000,), (0,)), ((300, 1200), (0,)), ((300, 1200), (1,))], ids=str)
def test_a_sum_rounds_once_on_threads(dims: tuple[int, ...], reduced: tuple[int, ...]) -> None:
    reduction("alone", dims, reduced, "bf16", ("threads",))


@pytest.mark.parametrize("around", [name for name in AROUND if name != "alone"])
@pytest.mark.parametrize(("dims", "reduced"), [SHAPES[0], SHAPES[2]], ids=str)
def test_a_sum_rounds_once_whatever_stands_around_it(
    around: str, dims: tuple[int, ...], reduced: tuple[int, ...]
) -> None:
    reduction(around, dims, reduced, "bf16")


@pytest.mark.parametrize("rows", [8, 9, 33])
@pytest.mark.parametrize("element_type", ["f16", "bf16"])
def test_sums_of_a_product_round_once(element_type: str, rows: int) -> None:
    """The gradient of a bias, of the weights' inputs, and of all."""
    module = program(
        """x = TYPE[ROWS,60,5] parameter(0)
  w = TYPE[5,40] parameter(1)
  y = TYPE[ROWS,60,40] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  bias = TYPE[40] reduce(y, zero), dimensions={0,1}, to_apply=add
  each = TYPE[ROWS] reduce(y, zero), dimensions={1,2}, to_apply=add
  ROOT r = (TYPE[40], TYPE[ROWS]) tuple(bias, each)""",
        element_type,
        ROWS=str(rows),
    )
    rng = np.random.default_rng(2)
    x, w = (rng.integers(0, 3, dims).astype(DTYPES[element_type]) for dims in ((rows, 60, 5), (5, 40)))
    y = x.astype(np.float64) @ w.astype(np.float64)
    check(module, [x, w], [y.sum((0, 1)), y.sum((1, 2))])


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
def test_sums_of_several_operands_round_once(element_type: str) -> None:
    module = program(
        """x = TYPE[9,3000] parameter(0)
  y = f32[9,3000] convert(x)
  none = f32[] constant(0)
  ROOT r = (TYPE[9], f32[9]) reduce(x, y, zero, none), dimensions={1}, to_apply=both""",
        element_type,
    )
    x = terms((9, 3000), element_type)
    wide = x.astype(np.float64)
    check(module, [x], [wide.sum(1), wide.max(1)])


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
def test_sums_of_windows_round_once(element_type: str) -> None:
    """Short windows, long ones (in steps of doubling length), prefixes, and all in one."""
    module = program(
        """x = TYPE[8,1000] parameter(0)
  y = TYPE[1000,8] transpose(x), dimensions={1,0}
  short = TYPE[8,100] reduce-window(x, zero), window={size=1x10 stride=1x10}, to_apply=add
  long = TYPE[8,101] reduce-window(x, zero), window={size=1x900 stride=1x1}, to_apply=add
  down = TYPE[101,8] reduce-window(y, zero), window={size=900x1 stride=1x1}, to_apply=add
  prefixes = TYPE[8,1000] reduce-window(x, zero), window={size=1x1000 pad=0_0x999_0}, to_apply=add
  all = TYPE[1,1] reduce-window(x, zero), window={size=8x1000}, to_apply=add
  ROOT r = (TYPE[8,100], TYPE[8,101], TYPE[101,8], TYPE[8,1000], TYPE[1,1]) tuple(short, long, down, prefixes, all)""",
        element_type,
    )
    x = terms((8, 1000), element_type)
    wide = x.astype(np.float64)
    long = np.lib.stride_tricks.sliding_window_view(wide, 900, 1).sum(-1)
    short = wide.reshape(8, 100, 10).sum(-1)
    check(module, [x], [short, long, long.T, wide.cumsum(1), wide.sum(keepdims=True)])


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
def test_scattered_sources_are_added_up_and_rounded_once(element_type: str) -> None:
    """Every window chooses the one great element."""
    module = program(
        """x = TYPE[3999] parameter(0)
  source = TYPE[2000] parameter(1)
  ROOT r = TYPE[3999] select-and-scatter(x, source, zero), window={size=2000}, select=greater, scatter=add""",
        element_type,
    )
    x = np.zeros(3999, DTYPES[element_type])
    x[1999] = 1
    source = terms((2000,), element_type)
    check(module, [x, source], [x.astype(np.float64) * source.astype(np.float64).sum()])


def test_an_overflow_on_the_way_is_none() -> None:
    module = program("x = f16[4] parameter(0)\n  ROOT r = f16[] reduce(x, zero), dimensions={0}, to_apply=add", "f16")
    check(module, [np.array([60000, 60000, -60000, -59008], np.float16)], [np.array(992.0)])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_a_bias_are_nearer_to_the_true_ones_than_on_xla(dtype: str) -> None:
    """Patches of images, as in a ViT: the sum over (batch, 14, 14) comes after a reshape, which XLA folds into it."""

    def loss(bias: jax.Array, x: jax.Array, target: jax.Array) -> jax.Array:
        y = jnp.tanh(x + bias).reshape(2, 196, 24)
        return jnp.sum((y * target).astype(jnp.float32))

    rng = np.random.default_rng(5)
    bias, x, target = (
        jnp.asarray(v, dtype) for v in (rng.normal(size=24), rng.normal(size=(2, 14, 14, 24)), rng.random((2, 196, 24)))
    )
    module = xla_cpu.module_of(jax.grad(loss), bias, x, target)
    arguments = [np.asarray(v) for v in (bias, x, target)]
    (exact,), (of_xla,) = evaluate(module, *arguments, precision="f64"), xla_cpu.run(module, *arguments)
    for actual in (run(module, *arguments, target=target)[0] for target in BOTH):
        assert error(actual, exact) <= error(of_xla, exact)
        assert error(actual, exact) < 0.01 * np.abs(exact).max()
