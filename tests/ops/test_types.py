"""Integers of less than a byte, and how they and small floats go through whole modules and hosts."""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xla_wasm
from tests.support import closeness, xla_cpu
from tests.support.closeness import Array, assert_all, equal
from tests.support.differential import differential, run
from tests.support.element_types import BELOW_A_BYTE, bounds
from tests.support.small_modules import module_of, operation
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import DotDimensionNumbers, Window, WindowDimension
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.types import SMALL_FLOATS, TYPES
from xla_wasm.host.arrays import Slot, dtype_of
from xla_wasm.host.leaf import Leaf
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.sample import shape
from xla_wasm.passes import pipeline
from xla_wasm.reference import evaluate

# --- integers of less than a byte -----------------------------------------------------------------------------------

_BINARY = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "maximum",
    "minimum",
    "power",
    "and",
    "or",
    "xor",
    "mulhi",
)
_SHIFTS = ("shift-left", "shift-right-logical", "shift-right-arithmetic")


@pytest.mark.parametrize("element_type", BELOW_A_BYTE)
def test_every_operation_on_every_pair(element_type: str) -> None:
    low, high = bounds(element_type)
    numbers = np.arange(low, high)
    x = np.repeat(numbers, len(numbers)).astype(DTYPES[element_type])
    y = np.tile(numbers, len(numbers)).astype(DTYPES[element_type])

    def body(b: Builder, p: Instruction, q: Instruction) -> Instruction:
        pairs = [b.op(op, p, q) for op in (*_BINARY, *_SHIFTS)]
        singles = [b.op(op, p) for op in ("abs", "negate", "sign", "not", "popcnt", "count-leading-zeros")]
        tests = [b.op("compare", p, q, direction=d) for d in ("EQ", "NE", "LT", "LE", "GT", "GE")]
        return b.op("tuple", *pairs, *singles, *tests, b.op("clamp", q, p, q))

    module = module_of(body, x, y)
    assert_all(run(module, x, y), evaluate(module, x, y), equal)


def test_what_hosts_leave_above_the_bits_does_not_count() -> None:
    codes_ = np.array([0x0D, 0xFD, 0xF5, 0x75, 0x08], np.uint8)
    for element_type in ("s4", "u4"):
        x = codes_.view(DTYPES[element_type])
        module = module_of(lambda b, p: b.op("convert", p, shape=shape("s32[5]")), x)
        low = (codes_ & 15).astype(np.int32)
        np.testing.assert_array_equal(run(module, x)[0], low - 16 * (low >> 3) if element_type == "s4" else low)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("u8[3,5]", "u4[3,5,2]"), ("u4[3,5,2]", "s8[3,5]"), ("s4[7,8]", "f32[7]"), ("f64[3]", "s4[3,16]"), ("u4[3,16]", "u64[3]"),  # noqa: E501
        ("u2[3,4]", "u8[3]"), ("bf16[5]", "s2[5,8]"), ("s4[9]", "s2[9,2]"), ("s2[9,2]", "u4[9]"), ("u8[9]", "f4e2m1fn[9,2]"),  # noqa: E501
        ("f4e2m1fn[9,2]", "f8e4m3fn[9]"), ("f4e2m1fn[9]", "s4[9]"), ("u4[9]", "f4e2m1fn[9]"), ("f16[5]", "bf16[5]"),
    ],
)  # fmt: skip
def test_bits_keep_their_places(source: str, target: str) -> None:
    dims = shape(source).dimensions
    dtype = DTYPES[shape(source).element_type]
    mask = (1 << min(TYPES[shape(source).element_type].bits, 8)) - 1
    raw = np.random.default_rng(3).integers(0, 256, (*dims, dtype.itemsize)).astype(np.uint8) & np.uint8(mask)
    x = raw.view(dtype)[..., 0]
    module = module_of(lambda b, p: b.op("bitcast-convert", p, shape=shape(target)), x)
    results = [run(module, x)[0], evaluate(module, x)[0]]
    if "f4" not in source + target:
        results.append(xla_cpu.run(module, x)[0])
    # Numbers, for the bits above a type's own mean nothing.
    plain = [np.nan_to_num(r.astype(np.float64), nan=-1e9) for r in results]
    for other in plain[1:]:
        np.testing.assert_array_equal(plain[0], other)


# --- whole modules --------------------------------------------------------------------------------------------------


def random(element_type: str, *dims: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if TYPES[element_type].kind == "float":
        return (rng.standard_normal(dims) * 2).astype(DTYPES[element_type])
    return rng.integers(*bounds(element_type), dims).astype(DTYPES[element_type])


@pytest.mark.parametrize("element_type", ["f16", "bf16", "f8e4m3fn", "f8e5m2fnuz", "f4e2m1fn", "s4", "u4", "s2"])
def test_movement(element_type: str) -> None:
    x = random(element_type, 5, 7)
    index = np.array([[3], [0], [9]], np.int32)

    def body(b: Builder, p: Instruction, i: Instruction) -> Instruction:
        turned = b.op("transpose", p, dimensions=(1, 0))
        joined = b.op("concatenate", p, b.op("reverse", p, dimensions=(0, 1)), dimensions=(0,))
        start = b.op("reshape", b.op("slice", i, slice=slices((0, 1, 1), (0, 1, 1))), shape=shape("s32"))
        cut = b.op("dynamic-slice", p, start, start, dynamic_slice_sizes=(2, 3))
        updated = b.op("dynamic-update-slice", p, cut, start, start)
        spread = b.op("broadcast", p, shape=shape(f"{element_type}[2,5,7]"), dimensions=(1, 2))
        return b.op(
            "tuple", turned, joined, cut, updated, spread, b.op("reshape", turned, shape=shape(f"{element_type}[35]"))
        )

    differential(module_of(body, x, index), x, index)


def slices(*bounds: tuple[int, int, int]) -> Any:
    from xla_wasm.hlo.attrs import SliceDimension

    return tuple(SliceDimension(*b) for b in bounds)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("bf16", "bf16", "bf16"), ("bf16", "bf16", "f32"), ("f16", "f16", "f16"), ("f16", "f16", "f32"), ("bf16", "f32", "f32"),  # noqa: E501
        ("f8e4m3fn", "f8e5m2", "f32"), ("f8e4m3fn", "f8e4m3fn", "bf16"), ("f4e2m1fn", "f4e2m1fn", "f32"), ("s4", "s4", "s4"),  # noqa: E501
        ("s4", "s4", "s32"), ("u4", "u4", "u4"), ("s4", "s4", "s8"), ("u4", "u4", "u32"), ("s2", "s2", "s32"), ("s4", "bf16", "f32"),  # noqa: E501
    ],
)  # fmt: skip
@pytest.mark.parametrize(("m", "k", "n"), [(5, 19, 9), (1, 33, 8), (4, 40, 1)])
def test_products(left: str, right: str, result: str, m: int, k: int, n: int) -> None:
    from xla_wasm.hlo.attrs import DotDimensionNumbers

    x, y = random(left, m, k), random(right, k, n, seed=1)
    numbers = DotDimensionNumbers((1,), (0,), (), ())
    module = module_of(
        lambda b, p, q: b.op("dot", p, q, shape=shape(f"{result}[{m},{n}]"), dot_dimension_numbers=numbers), x, y
    )
    (actual,) = run(module, x, y)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    if TYPES[result].kind == "float":
        # One rounding of a sum in f32.
        expected = exact.astype(np.float32).astype(DTYPES[result])
        closeness.assert_same(actual, expected, 256 if result == "f32" else 1)
    else:
        np.testing.assert_array_equal(actual, evaluate(module, x, y)[0])


def _scalar_op(opcode: str, element_type: str) -> Computation:
    b = Builder(opcode)
    return b.build(b.op(opcode, b.parameter(0, shape(element_type)), b.parameter(1, shape(element_type))))


def _decaying_sum(element_type: str) -> Computation:
    """x * 3/4 + y"""
    b = Builder("decaying")
    x, y = (b.parameter(i, shape(element_type)) for i in range(2))
    return b.build(b.op("add", b.op("multiply", x, b.constant(shape(element_type), [0.75])), y))


def _near_one(element_type: str, dims: tuple[int, ...]) -> Array:
    """Numbers whose sums are exact in f32."""
    return (np.random.default_rng(3).normal(size=dims) * 0.1 + 1).astype(DTYPES[element_type])


_REDUCED = (((3, 250), (1,)), ((33, 5), (0,)), ((5000,), (0,)), ((40, 6, 20), (0, 2)), ((7, 32), (1,)))


@pytest.mark.parametrize("element_type", ["f16", "bf16", "f8e4m3fn", "f8e5m2", "f8e3m4"])
@pytest.mark.parametrize("reducer", ["maximum", "of two operations"])
@pytest.mark.parametrize("dims, reduced", _REDUCED)
def test_reductions_but_sums_and_products_round_at_every_step_as_on_xla(
    element_type: str, reducer: str, dims: tuple[int, ...], reduced: tuple[int, ...]
) -> None:
    x, first = _near_one(element_type, dims), np.array(1, DTYPES[element_type])
    combine = _scalar_op("maximum", element_type) if reducer == "maximum" else _decaying_sum(element_type)
    module = module_of(lambda b, p, z: b.op("reduce", p, z, called=[combine], dimensions=reduced), x, first)
    differential(module, x, first, judges=(xla_cpu.run, evaluate), near=closeness.same_bits)


@pytest.mark.parametrize("element_type", ["f16", "bf16", "f8e4m3fn", "f8e5m2", "f8e3m4"])
@pytest.mark.parametrize("opcode", ["add", "multiply"])
@pytest.mark.parametrize("dims, reduced", _REDUCED)
def test_sums_and_products_round_once(
    element_type: str, opcode: str, dims: tuple[int, ...], reduced: tuple[int, ...]
) -> None:
    """The initial value counts as often as on XLA, once for each window of 32."""
    x, first = _near_one(element_type, dims), np.array(1, DTYPES[element_type])
    combine = _scalar_op(opcode, element_type)
    module = module_of(lambda b, p, z: b.op("reduce", p, z, called=[combine], dimensions=reduced), x, first)
    near = closeness.same_bits if opcode == "add" else closeness.within_ulp(1)
    (actual,) = differential(module, x, first, targets=("simd128", "relaxed-simd"), near=near)
    if element_type in ("f16", "bf16"):
        (exact,), (of_xla,) = evaluate(module, x, first, precision="f64"), xla_cpu.run(module, x, first)
        assert closeness.error(actual, exact) <= closeness.error(of_xla, exact)


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
def test_an_initial_value_counts_as_often_as_on_xla(element_type: str) -> None:
    """Once for each window of 32, of windows of 32, and at the end; also where one window covers all."""
    x, first = np.zeros((2, 5000), DTYPES[element_type]), np.array(1, DTYPES[element_type])
    add = _scalar_op("add", element_type)

    def body(b: Builder, p: Instruction, z: Instruction) -> Instruction:
        window = Window((WindowDimension(1), WindowDimension(5000)))
        windows = b.op("reduce-window", p, z, called=[add], window=window)
        return b.op("tuple", b.op("reduce", p, z, called=[add], dimensions=(1,)), windows)

    differential(module_of(body, x, first), x, first, judges=(xla_cpu.run, evaluate), near=closeness.same_bits)


@pytest.mark.parametrize("element_type", ["bf16", "f8e4m3fn"])
@pytest.mark.parametrize("stepwise", [False, True])
def test_windows_and_scattered_sources_round_as_reductions_do(element_type: str, stepwise: bool) -> None:
    rng = np.random.default_rng(4)
    x, source = (rng.normal(size=size).astype(DTYPES[element_type]) for size in (40, 31))
    zero = np.array(0, DTYPES[element_type])
    combine = _decaying_sum(element_type) if stepwise else _scalar_op("add", element_type)
    window = Window((WindowDimension(10),))

    def body(b: Builder, p: Instruction, s: Instruction, z: Instruction) -> Instruction:
        ge = Builder("ge")
        chosen = ge.build(
            ge.op("compare", ge.parameter(0, shape(element_type)), ge.parameter(1, shape(element_type)), direction="GE")
        )
        scattered = b.op("select-and-scatter", p, s, z, called=[chosen, combine], window=window)
        return b.op("tuple", scattered, b.op("reduce-window", p, z, called=[combine], window=window))

    module = module_of(body, x, source, zero)
    judges = (xla_cpu.run, evaluate) if stepwise else (evaluate,)
    differential(module, x, source, zero, judges=judges, near=closeness.same_bits)


@pytest.mark.parametrize("element_type", ["f8e4m3fn", "f8e5m2", "f8e3m4", "f8e4m3b11fnuz"])
@pytest.mark.parametrize("opcode", ["add", "divide", "power", "atan2"])
def test_8_bit_results_are_rounded_to_f16_first_as_on_xla(element_type: str, opcode: str) -> None:
    codes_ = np.arange(256, dtype=np.uint8).view(DTYPES[element_type])
    x, y = (np.ascontiguousarray(v) for v in np.meshgrid(codes_, codes_))
    differential(operation(opcode, x, y), x, y, judges=(xla_cpu.run, evaluate))


def test_an_8_bit_product_is_rounded_to_f16_first_as_on_xla() -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.normal(size=dims).astype(DTYPES["f8e4m3fn"]) for dims in ((40, 90), (90, 50)))
    module = module_of(
        lambda b, p, q: b.op("dot", p, q, dot_dimension_numbers=DotDimensionNumbers((1,), (0,), (), ())), x, y
    )
    differential(module, x, y, judges=(xla_cpu.run, evaluate), near=closeness.same_bits)


@pytest.mark.parametrize("element_type", ["f8e4m3fn", "f8e5m2fnuz"])
@pytest.mark.parametrize("target", ["f16", "f32", "bf16"])
def test_8_bit_results_that_become_f16_are_rounded_to_that_only(element_type: str, target: str) -> None:
    """As XLA:CPU has it; the products are exact in f32."""
    rng = np.random.default_rng(7)
    x, y = (rng.normal(size=1000).astype(DTYPES[element_type]) for _ in range(2))
    module = module_of(lambda b, p, q: b.op("convert", b.op("multiply", p, q), shape=shape(f"{target}[1000]")), x, y)
    rounded = (x.astype(np.float32) * y.astype(np.float32)).astype(np.float16)
    expected = rounded if target == "f16" else rounded.astype(x.dtype).astype(DTYPES[target])
    np.testing.assert_array_equal(run(module, x, y)[0], expected)


def test_bf16_that_xla_multiplies_in_f32_is_not_rounded_before() -> None:
    """XLA:CPU converts the operands of a product whose left side is not contracted along its last dimension."""
    rng = np.random.default_rng(6)
    x, w, y = (rng.normal(size=dims).astype(DTYPES["bf16"]) for dims in ((64, 40), (64, 40), (64, 30)))

    def body(b: Builder, p: Instruction, q: Instruction, r: Instruction) -> Instruction:
        numbers = DotDimensionNumbers((0,), (0,), (), ())
        return b.op("dot", b.op("multiply", p, q), r, dot_dimension_numbers=numbers, shape=shape("f32[40,30]"))

    module = module_of(body, x, w, y)
    (result,) = run(module, x, w, y)
    np.testing.assert_allclose(result, xla_cpu.run(module, x, w, y)[0], rtol=1e-5, atol=1e-5)


HLO_REDUCER = """
HloModule m

reducer {
  a = bf16[] parameter(0)
  i = s32[] parameter(1)
  x = bf16[] parameter(2)
  j = s32[] parameter(3)
  least = bf16[] constant(0.5)
  large = pred[] compare(x, a), direction=GT
  best = bf16[] select(large, x, a)
  sum = bf16[] add(best, least)
  bits = u16[] bitcast-convert(sum)
  again = bf16[] bitcast-convert(bits)
  coarse = f8e5m2[] convert(again)
  kept = bf16[] convert(coarse)
  place = s32[] select(large, j, i)
  ROOT both = (bf16[], s32[]) tuple(kept, place)
}

ENTRY main {
  x = bf16[4,9] parameter(0)
  i = s32[4,9] iota(), iota_dimension=1
  low = bf16[] constant(-100)
  none = s32[] constant(-1)
  ROOT r = (bf16[4], s32[4]) reduce(x, i, low, none), dimensions={1}, to_apply=reducer
}
"""


def test_a_reducer_keeps_the_roundings_it_asks_for() -> None:
    differential(HLO_REDUCER, random("bf16", 4, 9))


HLO_LOOP = """
HloModule m

body {
  s = (s32[], bf16[7], f16[], s4[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = bf16[7] get-tuple-element(s), index=1
  h = f16[] get-tuple-element(s), index=2
  n = s4[7] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  third = bf16[] constant(1.3359375)
  thirds = bf16[7] broadcast(third), dimensions={}
  y = bf16[7] multiply(x, thirds)
  two = f16[] constant(1.001)
  g = f16[] multiply(h, two)
  m = s4[7] add(n, n)
  three = s4[] constant(3)
  threes = s4[7] broadcast(three), dimensions={}
  o = s4[7] subtract(m, threes)
  ROOT t = (s32[], bf16[7], f16[], s4[7]) tuple(j, y, g, o)
}

condition {
  s = (s32[], bf16[7], f16[], s4[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = bf16[7] get-tuple-element(s), index=1
  first = bf16[1] slice(x), slice={[0:1]}
  scalar = bf16[] reshape(first)
  most = bf16[] constant(50)
  small = pred[] compare(scalar, most), direction=LT
  many = s32[] constant(40)
  few = pred[] compare(i, many), direction=LT
  ROOT both = pred[] and(small, few)
}

ENTRY main {
  zero = s32[] constant(0)
  x = bf16[7] parameter(0)
  h = f16[] parameter(1)
  n = s4[7] parameter(2)
  s = (s32[], bf16[7], f16[], s4[7]) tuple(zero, x, h, n)
  ROOT w = (s32[], bf16[7], f16[], s4[7]) while(s), condition=condition, body=body
}
"""


def test_loop_state() -> None:
    x = np.abs(random("bf16", 7)) + DTYPES["bf16"].type(1)
    differential(HLO_LOOP, x, np.array(1.5, np.float16), random("s4", 7), judges=(evaluate, xla_cpu.run))


HLO_SCATTER = """
HloModule m

add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b)
}

ENTRY main {
  x = bf16[6] parameter(0)
  i = s32[5] parameter(1)
  u = bf16[5] parameter(2)
  zero = bf16[] constant(0)
  added = bf16[6] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
    to_apply=add
  total = bf16[] reduce(added, zero), dimensions={0}, to_apply=add
  windows = bf16[5] reduce-window(x, zero), window={size=3 pad=1_0}, to_apply=add
  ROOT t = (bf16[6], bf16[], bf16[5]) tuple(added, total, windows)
}
"""  # noqa: E501


def test_one_computation_scatters_and_sums() -> None:
    x = np.array([256, 256, 1, 2, 3, 4], DTYPES["bf16"])
    i = np.array([0, 0, 1, 5, 9], np.int32)
    u = np.array([1, 1, 1.5, 0.125, 7], DTYPES["bf16"])
    added, total, windows = run(HLO_SCATTER, x, i, u)
    assert added.astype(float).tolist()[2:] == [1, 2, 3, 4.125]
    for actual, expected in zip((added, total, windows), evaluate(Module.from_text(HLO_SCATTER), x, i, u), strict=True):
        np.testing.assert_array_equal(actual.view(np.uint16), expected.view(np.uint16))


def test_each_operation_rounds() -> None:
    """1 + 2**-9 is 1 in bf16, so adding it many times one by one does nothing."""
    x = np.ones(9, DTYPES["bf16"])

    def body(b: Builder, p: Instruction) -> Instruction:
        tiny = b.op("broadcast", b.constant(shape("bf16"), [2.0**-9]), shape=shape("bf16[9]"), dimensions=())
        for _ in range(8):
            p = b.op("add", p, tiny)
        return p

    module = module_of(body, x)
    assert run(module, x)[0].astype(float).tolist() == [1] * 9
    np.testing.assert_array_equal(evaluate(module, x)[0], x)


def test_batch_norm_has_statistics_in_f32() -> None:
    x, scale, offset = (random("bf16", *dims) for dims in ((64, 8, 3), (3,), (3,)))
    x = (x.astype(np.float32) + 20).astype(DTYPES["bf16"])
    module = module_of(lambda b, *p: b.op("batch-norm-training", *p, epsilon=0.001, feature_index=2), x, scale, offset)
    y, mean, variance = (v.astype(np.float64) for v in run(module, x, scale, offset))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 1)), rtol=2.0**-8)
    np.testing.assert_allclose(variance, wide.var((0, 1)), rtol=2.0**-8)
    true = (wide - wide.mean((0, 1))) / np.sqrt(wide.var((0, 1)) + 0.001) * scale.astype(float) + offset.astype(float)
    np.testing.assert_allclose(y, true, rtol=2.0**-8, atol=2.0**-12)


def test_after_the_passes_small_floats_are_only_moved_and_converted() -> None:
    allowed = {
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "while",
        "convert",
        "broadcast",
        "slice",
        "reshape",
    }
    allowed |= {"scatter", "select", "bitcast-convert", "reduce-precision"}
    for text in (HLO_LOOP, HLO_SCATTER, HLO_REDUCER):
        module = Module.from_text(text)
        pipeline.run(module)
        for x in module.instructions():
            types = {s.element_type for y in (x, *x.operands) for _, s in y.shape.leaves()}
            assert x.opcode in allowed or not types & {*SMALL_FLOATS}, x


def test_weights_are_converted_in_vectors() -> None:
    """The kernel that packs a product's right side loads four elements at a time."""
    from xla_wasm.compiler import stages
    from xla_wasm.hlo.attrs import DotDimensionNumbers

    x, y = random("bf16", 16, 64), random("bf16", 64, 64)
    numbers = DotDimensionNumbers((1,), (0,), (), ())
    module = module_of(
        lambda b, p, q: b.op("dot", p, q, shape=shape("bf16[16,64]"), dot_dimension_numbers=numbers), x, y
    )
    loops = stages(module)["loops"].split("kernel ")
    packing = next(text for text in loops if text.startswith("pack"))
    assert "bf16x4 = load_vector" in packing
    assert "bf16x1 = load" not in packing


# --- hosts ----------------------------------------------------------------------------------------------------------


def test_without_ml_dtypes_bits_stand_for_values(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "ml_dtypes":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    x = np.array([1.5, -2], ml_dtypes.bfloat16)
    artifact = xla_wasm.compile(module_of(lambda b, p: b.op("negate", p), x))
    dtype_of.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    try:
        expected = {
            "bf16": "uint16",
            "f8e5m2": "uint8",
            "f4e2m1fn": "uint8",
            "s4": "int8",
            "u2": "uint8",
            "f16": "float16",
        }
        assert {name: dtype_of(name).name for name in expected} == expected
        exe = xla_wasm.load(artifact)
        assert exe.run(np.array([0x3FC0, 0xC000], np.uint16))[0].tolist() == [0xBFC0, 0x4000]
        with pytest.raises(xla_wasm.ArgumentError, match="the bits of bf16"):
            exe.run([1.5, -2])
        slot = Slot(Leaf("a", "s4", (), (), 0, 0, "input", shape("s4")), "argument 0")
        assert slot.accept(-8) == -8
        with pytest.raises(xla_wasm.ArgumentError, match="does not fit"):
            slot.accept(8)
    finally:
        monkeypatch.undo()
        dtype_of.cache_clear()


@pytest.mark.parametrize("element_type", [*SMALL_FLOATS, *BELOW_A_BYTE])
def test_arrays_pass_through_unchanged(element_type: str) -> None:
    x = random(element_type, 3, 5)
    module = module_of(lambda b, p: b.op("transpose", p, dimensions=(1, 0)), x)
    (actual,) = run(module, x)
    assert actual.dtype == x.dtype
    np.testing.assert_array_equal(actual.astype(np.float64), x.T.astype(np.float64))


@pytest.mark.parametrize("element_type", (*BELOW_A_BYTE, *SMALL_FLOATS))
def test_single_elements_are_sliced_and_updated(element_type: str) -> None:
    """Of no dimensions, and of one with one element."""
    name = element_type
    module = Module.from_text(f"""HloModule m

ENTRY e {{
  p = {name}[] parameter(0)
  q = {name}[] parameter(1)
  i = s32[] constant(0)
  m = {name}[] multiply(p, p)
  u = {name}[] dynamic-update-slice(m, q)
  s = {name}[] dynamic-slice(u), dynamic_slice_sizes={{}}
  a = {name}[1] reshape(p)
  b = {name}[1] reshape(q)
  v = {name}[1] dynamic-update-slice(a, b, i)
  w = {name}[1] dynamic-slice(v, i), dynamic_slice_sizes={{1}}
  ROOT r = ({name}[], {name}[1]) tuple(s, w)
}}
""")
    least = bounds(name)[0] if name in BELOW_A_BYTE else 2
    p, q = (np.array(value, np.float32).astype(DTYPES[element_type]) for value in (1, least))
    for results in (evaluate(module, p, q), run(module, p, q)):
        assert [(r.shape, float(r.ravel()[0])) for r in results] == [((), least), ((1,), least)]


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize(("source", "target"), [("pred", "u1"), ("u1", "pred"), ("pred", "s1"), ("s1", "pred")])
def test_bits_of_truth_values(source: str, target: str, size: int) -> None:
    """In lanes a truth value is a mask, and no other type is; alone, and inside of what is computed with it."""
    rng = np.random.default_rng(size)
    x = (rng.integers(0, 2, (3, size)) * (-1 if source == "s1" else 1)).astype(DTYPES[source])
    text = f"""HloModule m

ENTRY e {{
  x = {source}[3,{size}] parameter(0)
  r = {source}[3,{size}] reverse(x), dimensions={{1}}
  y = {target}[3,{size}] bitcast-convert(r)
  n = {target}[3,{size}] not(y)
  b = {source}[3,{size}] bitcast-convert(n)
  ROOT t = ({target}[3,{size}], {target}[3,{size}], {source}[3,{size}]) tuple(y, n, b)
}}
"""
    differential(text, x, targets=("simd128", "relaxed-simd for v8"))
