"""Complex numbers: the accuracy of their functions, what they become in the compiler, and how they cross the
boundary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
import xla_wasm.jax
from tests.support import closeness, xla_cpu
from tests.support.closeness import Array, allclose, assert_all, equal
from tests.support.differential import run
from tests.support.node_host import run_in_node
from xla_wasm.compiler import stages
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.ops.elementwise import expand_complex as functions
from xla_wasm.ops.elementwise import reference_complex as complex_reference
from xla_wasm.reference import evaluate

WHOLE: dict[str, Any] = {"c64": np.complex64, "c128": np.complex128}
COUNT = 2000


def points(dtype: str, spread: int, seed: int) -> Array:
    """Numbers whose parts have any magnitude up to 2^spread and down to its inverse, and some around where formulas
    cancel."""
    rng = np.random.default_rng(seed)

    def part() -> Array:
        return rng.choice([-1, 1], COUNT) * np.exp2(rng.uniform(-spread, spread, COUNT))

    z = part() + 1j * part()
    near = COUNT // 4
    centres = rng.choice([0, 1, -1, 1j, -1j, np.pi * 1j, np.pi / 2, np.pi / 2 * 1j], near)
    z[:near] = centres + (rng.normal(size=near) + 1j * rng.normal(size=near)) * np.exp2(rng.uniform(-30, 0, near))
    z[near : 2 * near] = np.exp(2j * np.pi * rng.uniform(size=near)) * (
        1 + rng.normal(size=near) * np.exp2(rng.uniform(-30, 0, near))
    )
    return z.astype(WHOLE[dtype])


def apply(opcode: str, *arrays: Array) -> Array:
    dtype = next(name for name, numpy in WHOLE.items() if numpy == arrays[0].dtype)
    result = dtype if opcode != "abs" else {"c64": "f32", "c128": "f64"}[dtype]
    names = [f"p{i}" for i in range(len(arrays))]
    lines = [f"  {name} = {dtype}[{COUNT}] parameter({i})" for i, name in enumerate(names)]
    text = "\n".join(
        ["HloModule m", "ENTRY e {", *lines, f"  ROOT r = {result}[{COUNT}] {opcode}({', '.join(names)})", "}"]
    )
    return run(text, *arrays)[0]


def error(actual: Array, true: Array) -> float:
    """The greatest distance in ulp of the true magnitude, where that is a normal number of the type."""
    real = np.zeros((), actual.dtype).real.dtype
    info = np.finfo(real)
    size = np.abs(true)
    fine = (np.abs(true.real) <= info.max) & (np.abs(true.imag) <= info.max) & (size >= info.tiny)
    wide = actual.astype(np.clongdouble)
    assert np.isfinite(actual[fine]).all()
    return float(np.max(np.abs(wide - true)[fine] / closeness.ulp_of(size[fine].astype(np.float64), real)))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs floats wider than f64")
@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("opcode", sorted({*functions.UNARY, "abs"}))
def test_functions_are_exact_to_a_few_ulp_of_the_magnitude(opcode: str, dtype: str) -> None:
    # inverse functions of large arguments: numpy's own overflow
    inverse = opcode in ("acos", "acosh", "asin", "asinh", "atan", "atanh")
    for seed, spread in enumerate((4, 40, 1000 if dtype == "c128" else 120)):
        x = points(dtype, spread if not inverse else min(spread, 40), seed)
        with np.errstate(all="ignore"):
            fn = complex_reference.UNARY.get(opcode, np.negative)
            assert error(apply(opcode, x), fn(x.astype(np.clongdouble))) <= (8 if opcode == "logistic" else 5)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs floats wider than f64")
@pytest.mark.parametrize("dtype", WHOLE)
def test_quotients_and_products_of_any_magnitude(dtype: str) -> None:
    for seed, spread in enumerate((4, 40, 1000 if dtype == "c128" else 120)):
        x, y = points(dtype, spread, seed), points(dtype, spread, seed + 100)[::-1].copy()
        wide = x.astype(np.clongdouble), y.astype(np.clongdouble)
        with np.errstate(all="ignore"):
            assert error(apply("divide", x, y), complex_reference.divide(*wide)) <= 5
            product = wide[0] * wide[1]
        # where no part of the formula overflows or vanishes
        fits = np.array(
            [
                np.max(np.abs([p.real * q.real, p.imag * q.imag, p.real * q.imag, p.imag * q.real]))
                for p, q in zip(*wide)
            ]
        )
        info = np.finfo(points(dtype, 1, 0).real.dtype)
        inside = (fits < info.max) & (np.abs(product) > info.tiny)
        assert error(apply("multiply", x, y)[inside], product[inside]) <= 2


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs floats wider than f64")
def test_powers() -> None:
    for dtype, allowed in (("c64", 1), ("c128", 400)):
        x, y = points(dtype, 2, 1), points(dtype, 2, 2)[::-1].copy()
        with np.errstate(all="ignore"):
            assert (
                error(apply("power", x, y), complex_reference.power(x.astype(np.clongdouble), y.astype(np.clongdouble)))
                <= allowed
            )


EDGES = np.array(
    [
        complex(a, b)
        for a in (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan)
        for b in (0.0, -0.0, 3.0, -0.5, np.inf, -np.inf, np.nan)
    ]
)


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("opcode", ("abs", "sign", "rsqrt", "logistic"))
def test_infinities_and_nan_are_those_of_xla(opcode: str, dtype: str) -> None:
    part = {"c64": "f32", "c128": "f64"}[dtype]
    text = (
        f"HloModule m\nENTRY e {{\n  p = {dtype}[49] parameter(0)\n  ROOT r = "
        f"{part if opcode == 'abs' else dtype}[49] {opcode}(p)\n}}"
    )
    module = Module.from_text(text)
    x = EDGES.astype(WHOLE[dtype])
    expected = xla_cpu.run(module, x)[0]
    actual = run(module, x)[0]
    reference = evaluate(module, x)[0]
    for result in (actual, reference):
        for p, q in ((result.real, expected.real), (result.imag, expected.imag)):
            np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-6)


EXPONENTIALS = ("exponential", "exponential-minus-one", "sinh", "cosh", "tanh", "sine", "cosine", "tan")
"""Functions with results whose sign C99 leaves open where an argument's part is infinite."""
OF_C99 = (*EXPONENTIALS, "log", "log-plus-one", "sqrt", "asin", "acos", "atan", "asinh", "acosh", "atanh")


def of_c99(opcode: str, z: Array) -> Array:
    """NumPy's values, which are C99's; functions that C99 lacks are e^z - 1 and log(1 + z) where it says more."""
    z = z.astype(np.clongdouble)
    expected = complex_reference.UNARY[opcode](z)
    if opcode in ("exponential-minus-one", "log-plus-one"):
        known = np.exp(z) - 1 if opcode == "exponential-minus-one" else np.log(1 + z)
        wild = ~(np.isfinite(z.real) & np.isfinite(z.imag))
        return np.where(wild, known, expected)
    return expected


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs floats wider than f64")
@pytest.mark.parametrize("dtype", WHOLE)
def test_edges_are_those_of_c99(dtype: str) -> None:
    """Each function at pairs of zeros, ones, infinities, NaN, denormal, small, large numbers, on branch cuts and beside
    them."""
    real = np.zeros((), WHOLE[dtype]).real.dtype
    info = np.finfo(real)
    parts = [0, 1, np.inf, np.nan, info.smallest_subnormal * 9, info.tiny, info.eps, 0.5, 1 + info.eps, 2, 50, 100]
    parts += [370, 800, info.max**0.5 * 2, info.max]
    row = np.array([sign * part for part in parts for sign in (1, -1)], real)
    z = np.empty((len(row), len(row)), WHOLE[dtype])
    z.real, z.imag = row[:, None], row
    z = z.reshape(-1)
    lines = [f"f{i} = {dtype}[{len(z)}] {opcode}(p)" for i, opcode in enumerate(OF_C99)]
    kinds, names = ", ".join([f"{dtype}[{len(z)}]"] * len(lines)), ", ".join(f"f{i}" for i in range(len(lines)))
    text = "\n".join([f"p = {dtype}[{len(z)}] parameter(0)", *lines, f"ROOT r = ({kinds}) tuple({names})"])
    results = run(Module.from_text(f"HloModule m\nENTRY e {{\n{text}\n}}"), z)
    for opcode, actual in zip(OF_C99, results, strict=True):
        with np.errstate(all="ignore"):
            expected = of_c99(opcode, z)
            size = np.hypot(*(np.where(np.isfinite(e), e, 0) for e in (expected.real, expected.imag)))
        open_sign = np.isnan(z.real) | np.isnan(z.imag)
        if opcode in EXPONENTIALS:
            open_sign |= np.isinf(z.real) & np.isinf(z.imag)
            open_sign |= (z.real == 0) & np.isinf(z.imag) | (z.imag == 0) & np.isinf(z.real)
        for a, e in ((actual.real, expected.real), (actual.imag, expected.imag)):
            with np.errstate(all="ignore"):
                narrow = e.astype(real)
                less = np.abs(e) < info.tiny  # what is denormal may be 0
                near = np.abs(a.astype(np.longdouble) - e) <= np.where(less, info.tiny, 8 * info.eps * size)
                near |= (np.abs(a) == np.inf) & (np.abs(e) > info.max * (1 - 8 * info.eps))
                # up to where the next step rounds to infinity
                near |= (np.abs(a) >= info.max * (1 - 8 * info.eps)) & np.isinf(narrow) & np.isfinite(e)
            fits = near | (a == narrow) | (np.isnan(a) & np.isnan(e))
            with np.errstate(all="ignore"):
                fits |= open_sign & (np.abs(a) == np.abs(narrow))
            signs = np.isnan(e) | open_sign | (np.signbit(a) == np.signbit(narrow))
            # the rest of a cancellation has the sign of neither
            signs |= np.abs(e) < 8 * info.eps * size
            wrong = np.nonzero(~(fits & signs))[0][:5]
            assert not wrong.size, [(opcode, z[i], actual[i], expected[i]) for i in wrong]


@pytest.mark.parametrize("opcode", ("add", "subtract", "multiply", "divide", "power"))
def test_pairs_of_infinities_and_nan_are_those_of_xla(opcode: str) -> None:
    x, y = (np.ascontiguousarray(v.reshape(-1)).astype(np.complex64) for v in np.meshgrid(EDGES, EDGES))
    size = len(x)
    text = (
        f"HloModule m\nENTRY e {{\n p = c64[{size}] parameter(0)\n q = c64[{size}] parameter(1)\n ROOT r = "
        f"c64[{size}] {opcode}(p, q)\n}}"
    )
    module = Module.from_text(text)
    expected = xla_cpu.run(module, x, y)[0]
    for result in (run(module, x, y)[0], evaluate(module, x, y)[0]):
        for p, q in ((result.real, expected.real), (result.imag, expected.imag)):
            np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-6)


# --- what the compiler makes of them --------------------------------------------------------------------------------


def test_squares_do_not_overflow_on_the_way() -> None:
    """As x^2 - y^2 the real part would be NaN where both squares are infinite."""
    z = np.array(
        [1e23 + 7e30j, 7e30 + 1e23j, 1e23 + 1e23j, -1e23 + 1e23j, 3 - 4j, np.inf + 2j, 1e-30 + 1j], np.complex64
    )
    infinite = [complex(-np.inf, np.inf), complex(np.inf, np.inf), complex(0, np.inf), complex(0, -np.inf)]
    expected = np.array([*infinite, -7 - 24j, complex(np.inf, np.inf), -1 + 2e-30j], np.complex64)
    (actual,) = run(xla_wasm.jax.lower(jnp.square, z), z)
    np.testing.assert_array_equal(actual, expected)


def test_both_parts_come_out_of_one_kernel() -> None:
    module = Module.from_text("""HloModule m
ENTRY e {
  p = c64[1000] parameter(0)
  q = c64[1000] parameter(1)
  product = c64[1000] multiply(p, q)
  waves = c64[1000] exponential(product)
  size = f32[1000] abs(waves)
  ROOT r = (c64[1000], f32[1000]) tuple(waves, size)
}""")
    text = stages(module)
    kernels = [line for line in text["plan"].splitlines() if line.lstrip()[:1].isdigit() and "halt" not in line]
    assert len(kernels) == 1, text["plan"]
    assert text["loops"].count("load_vector") == 4, "whole vectors are loaded, and taken apart"
    x = np.linspace(-1, 1, 1000).astype(np.float32)
    z, w = (x + 1j * x[::-1]).astype(np.complex64), (1 - 2j * x).astype(np.complex64)
    waves, size = run(module, z, w)
    np.testing.assert_allclose(waves, np.exp(z * w), rtol=1e-5)
    np.testing.assert_allclose(size, np.abs(np.exp(z * w)), rtol=1e-5)


def test_only_whole_arrays_stay_complex() -> None:
    def program(z: Any, w: Any) -> jax.Array:
        y = jax.lax.fori_loop(0, 3, lambda i, y: y * z + w.sum(), z)
        return jnp.where(jnp.abs(y) > 1, y.T @ w, jnp.conj(y))

    z = np.array([[1 + 2j, 3j], [0.5, -1]], np.complex64)
    module = xla_wasm.jax.lower(program, z, z)
    compiled = Module.from_text(stages(module)["hlo"])
    whole = {x.opcode for x in compiled.instructions() for _, s in x.shape.leaves() if s.element_type == "c64"}
    assert whole <= {"parameter", "complex", "tuple"}
    (result,) = run(module, z, z)
    np.testing.assert_allclose(result, program(z, z), rtol=1e-4)


def test_what_is_only_passed_on_is_not_taken_apart() -> None:
    module = Module.from_text(
        "HloModule m\nENTRY e {\n p = c64[3] parameter(0)\n n = c64[3] negate(p)\n ROOT r = (c64[3], c64[3]) tuple(p, "
        "n)\n}"
    )
    assert stages(module)["hlo"].count(" complex(") == 1


@pytest.mark.parametrize("dtype", WHOLE)
def test_large_constants(dtype: str) -> None:
    values = (np.arange(70000) * (1 - 0.5j)).astype(WHOLE[dtype]).reshape(700, 100)
    module = xla_wasm.jax.lower(lambda z: z + values, np.ones((700, 100), WHOLE[dtype])) if dtype == "c64" else None
    if module is None:
        with jax.enable_x64(True):
            module = xla_wasm.jax.lower(lambda z: z + values, np.ones((700, 100), WHOLE[dtype]))
    (result,) = run(module, np.ones((700, 100), WHOLE[dtype]))
    np.testing.assert_array_equal(result, values + 1)


PROGRAMS = {
    "tuples in loops": """
body { s = (s32[], (c64[2], f32[2]), c128[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  inner = (c64[2], f32[2]) get-tuple-element(s), index=1
  z = c64[2] get-tuple-element(inner), index=0
  x = f32[2] get-tuple-element(inner), index=1
  w = c128[] get-tuple-element(s), index=2
  zz = c64[2] multiply(z, z)
  y = f32[2] imag(zz)
  pair = (c64[2], f32[2]) tuple(zz, y)
  ww = c128[] multiply(w, w)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], (c64[2], f32[2]), c128[]) tuple(next, pair, ww) }
cond { s = (s32[], (c64[2], f32[2]), c128[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = c128[] get-tuple-element(s), index=2
  big = c128[] constant((-7, 24))
  differs = pred[] compare(w, big), direction=NE
  three = s32[] constant(3)
  few = pred[] compare(i, three), direction=LT
  ROOT r = pred[] and(few, differs) }
ENTRY e { z = c64[2] parameter(0)
  zero = s32[] constant(0)
  x = f32[2] real(z)
  pair = (c64[2], f32[2]) tuple(z, x)
  w = c128[] constant((2, 1))
  init = (s32[], (c64[2], f32[2]), c128[]) tuple(zero, pair, w)
  ROOT r = (s32[], (c64[2], f32[2]), c128[]) while(init), condition=cond, body=body }""",
    "branches": """
double { z = c64[2] parameter(0)
  ROOT r = c64[2] add(z, z) }
square { z = c64[2] parameter(0)
  ROOT r = c64[2] multiply(z, z) }
ENTRY e { z = c64[2] parameter(0)
  first = c64[1] slice(z), slice={[0:1]}
  x = f32[1] real(first)
  scalar = f32[] reshape(x)
  zero = f32[] constant(0)
  p = pred[] compare(scalar, zero), direction=GT
  a = c64[2] conditional(p, z, z), true_computation=double, false_computation=square
  i = s32[] constant(1)
  b = c64[2] conditional(i, a, a), branch_computations={double, square}
  ROOT r = (c64[2], c64[2]) tuple(a, b) }""",
    "a sum over a product of a gather": """
sum { a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT r = c64[] add(a, b) }
ENTRY e { z = c64[2] parameter(0)
  wide = c64[3,2] broadcast(z), dimensions={1}
  i = s32[2,1] constant({{2}, {0}})
  rows = c64[2,2] gather(wide, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}
  turned = c64[2,2] transpose(rows), dimensions={1,0}
  product = c64[2,2] dot(turned, rows), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  zero = c64[] constant((0, 1))
  total = c64[2] reduce(product, zero), dimensions={0}, to_apply=sum
  flipped = c64[2] reverse(total), dimensions={0}
  ROOT r = c64[4] pad(flipped, zero), padding=1_0_1 }""",  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    module = Module.from_text("HloModule m\n" + PROGRAMS[name])
    z = np.array([1 + 2j, -0.5 + 0.25j], np.complex64)
    expected = xla_cpu.run(module, z)
    for results in (run(module, z), evaluate(module, z)):
        assert_all(results, expected, allclose(1e-05, 1e-06))


# --- the boundary ---------------------------------------------------------------------------------------------------


def test_weights_and_state(tmp_path: Path) -> None:
    def step(w: Any, phase: Any, x: Any) -> tuple[jax.Array, jax.Array]:
        phase = phase * jnp.exp(1j * x.real)
        return phase, phase @ w

    w = np.array([[1, 2j, 3], [1j, 1, 0.5 - 1j]], np.complex64)
    phase, x = np.array([1, 1j], np.complex64), np.array([0.25, -1.5], np.complex64)
    module = xla_wasm.jax.lower(step, w, phase, x)
    artifact = xla_wasm.compile(module, xla_wasm.Options(weights=("w",), state=(("phase", 0),)))
    exe = xla_wasm.load(artifact)
    exe.set("w", w)
    exe.set("phase", phase)
    now = phase
    for _ in range(3):
        (result,) = exe.run(x)
        now, expected = (np.asarray(a) for a in step(w, now, x))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(exe.get("phase"), now, rtol=1e-5, atol=1e-6)
    ((first,), (second,)) = run_in_node(artifact, [[x], [x]], tmp_path, {"w": w, "phase": phase})
    now, expected = (np.asarray(a) for a in step(w, phase, x))
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, step(w, now, x)[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", WHOLE)
def test_layouts_and_python_numbers(dtype: str, tmp_path: Path) -> None:
    module = Module.from_text(
        f"HloModule m\nENTRY e {{\n p = {dtype}[2,3] parameter(0)\n ROOT r = {dtype}[2,3] multiply(p, p)\n}}"
    )
    module.parameter_shapes = [Shape(dtype, (2, 3), Layout((0, 1)))]
    module.result_shape = Shape(dtype, (2, 3), Layout((0, 1)))
    artifact = xla_wasm.compile(module)
    values = [[1, 2j, 3], [-1 + 1j, 0.5, 0]]
    x: Array = np.array(values, WHOLE[dtype])
    exe = xla_wasm.load(artifact)
    np.testing.assert_array_equal(exe.run(x)[0], x * x)
    np.testing.assert_array_equal(exe.run(values)[0], x * x)
    ((result,),) = run_in_node(artifact, [[x]], tmp_path)
    np.testing.assert_array_equal(result, x * x)


def test_a_tuple_parameter_and_the_result_as_it_came() -> None:
    module = Module.from_text("""HloModule m
ENTRY e {
  p = (c64[3], (f32[2], c128[])) parameter(0)
  z = c64[3] get-tuple-element(p), index=0
  inner = (f32[2], c128[]) get-tuple-element(p), index=1
  w = c128[] get-tuple-element(inner), index=1
  s = c128[] multiply(w, w)
  ROOT r = (c64[3], (f32[2], c128[]), c128[]) tuple(z, inner, s)
}""")
    args: list[Array] = [
        np.array([1, 2j, 3], np.complex64),
        np.array([1, 2], np.float32),
        np.array(2 + 1j, np.complex128),
    ]
    results = run(module, *args)
    assert_all(results, [*args, args[2] ** 2], equal)


def test_an_operation_without_complex_numbers_says_so() -> None:
    module = Module.from_text(
        "HloModule m\nENTRY e {\n p = c64[3] parameter(0)\n ROOT r = c64[3] custom-call(p), "
        'custom_call_target="nobody"\n}'
    )
    with pytest.raises(xla_wasm.UnsupportedError, match="custom-call 'r'"):
        xla_wasm.compile(module)
