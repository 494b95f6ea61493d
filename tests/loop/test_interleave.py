"""Loops over long chains of operations take several vectors in a trip: the same bits as one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support import seeds
from tests.support.differential import EACH, differential, run_with_state
from xla_wasm.builder import Builder, scalar_computation
from xla_wasm.hlo.attrs import GatherDimensionNumbers, SliceDimension
from xla_wasm.hlo.ir import Module
from xla_wasm.loop import interleave
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.sample import shape
from xla_wasm.plan import elements
from xla_wasm.reference import evaluate

TYPES = ("f32", "f32", "f32", "f64", "bf16", "f16", "s32", "s8", "u32", "s64")
FLOATS = ("exponential", "tanh", "logistic", "log-plus-one", "sine", "erf", "sqrt", "abs", "negate", "cbrt")
INTEGERS = ("negate", "abs", "not", "sign", "popcnt")
LAST = (1, 3, 8, 16, 16, 24, 32, 32, 33, 40, 48, 64, 64, 64, 80, 96, 100, 128, 128, 160)


def program(rng: np.random.Generator) -> tuple[Module, list[np.ndarray[Any, Any]], dict[str, Any]]:
    """Chains of functions of values that lie straight, reversed, transposed, in parts or where only a run tells, and
    their sums."""
    dtype = str(rng.choice(TYPES))
    rank = int(rng.integers(1, 4))
    dims = [int(rng.integers(1, 7)) for _ in range(rank - 1)] + [int(rng.choice(LAST))]
    if rank == 2 and rng.integers(0, 4) == 0:
        dims = [dims[-1]] * 2
    floating = dtype[0] in "fb"
    b = Builder("chains")
    arguments: list[np.ndarray[Any, Any]] = []

    def parameter(sizes: list[int], element_type: str = dtype) -> Any:
        data = np.asarray(rng.normal(0, 2, sizes) if floating else rng.integers(-90, 90, sizes)).astype(
            DTYPES[element_type]
        )
        if floating and data.size and element_type == dtype:
            data.flat[rng.integers(data.size)] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e4])
        arguments.append(data)
        return b.parameter(len(arguments) - 1, shape(f"{element_type}[{','.join(map(str, sizes))}]"))

    first = parameter(dims)

    def typed(text: str) -> Any:
        return shape(f"{text}[{','.join(map(str, dims))}]")

    def read() -> Any:
        way = int(rng.integers(0, 7))
        if way == 1:
            return b.op("reverse", first, dimensions=(int(rng.integers(0, rank)),))
        if way == 2 and dims == dims[::-1]:
            return b.op("transpose", first, dimensions=tuple(range(rank))[::-1])
        if way == 3:
            starts, steps = rng.integers(0, 3, rank).tolist(), rng.choice([1, 1, 2], rank).tolist()
            whole = parameter([s + (n - 1) * step + 1 for s, n, step in zip(starts, dims, steps)])
            return b.op(
                "slice",
                whole,
                slice=tuple(SliceDimension(s, s + (n - 1) * k + 1, k) for s, n, k in zip(starts, dims, steps)),
            )
        if way == 4:
            place = parameter([], "s32")
            whole = parameter([n + 3 for n in dims])
            return b.op("dynamic-slice", whole, *[place] * rank, dynamic_slice_sizes=tuple(dims))
        if way == 5:
            return b.op("convert", b.op("iota", shape=typed("s32"), iota_dimension=rank - 1), shape=typed(dtype))
        if way == 6:
            return b.op("broadcast", parameter([dims[-1]]), shape=typed(dtype), dimensions=(rank - 1,))
        return first

    def chain(x: Any, most: int) -> Any:
        for _ in range(int(rng.integers(1, most))):
            way = int(rng.integers(0, 5))
            if way == 0:
                x = b.op(str(rng.choice(["add", "multiply", "maximum", "subtract"])), x, read())
            elif way == 1 and not floating:
                x = b.op(str(rng.choice(["divide", "remainder", "shift-left"])), x, read())
            elif way == 2:
                x = b.op("select", b.op("compare", x, first, direction="LT"), x, read())
            else:
                names = [
                    n
                    for n in (FLOATS if floating else INTEGERS)
                    if dtype[0] != "u" or n not in ("negate", "abs", "sign")
                ]
                x = b.op(str(rng.choice(names)), x)
        return x

    out = chain(read(), 8)
    leaves = [out]
    if rng.integers(0, 2):
        # Sums of rows that the elements of the row meet again, as in a softmax.
        opcode = str(rng.choice(["add", "maximum"]))
        zero = b.op("convert", b.constant(np.int32(0)), shape=shape(f"{dtype}[]"))
        total = b.op("reduce", out, zero, called=[scalar_computation(opcode, dtype)], dimensions=(rank - 1,))
        over = b.op("broadcast", total, shape=typed(dtype), dimensions=tuple(range(rank - 1)))
        leaves = [chain(b.op("subtract", out, over), 4)]
        if rng.integers(0, 3) == 0:
            leaves.append(total)
    if rng.integers(0, 3) == 0:
        leaves.append(chain(read(), 8))
    options: dict[str, Any] = {"target": str(rng.choice(["simd128", "relaxed-simd"])), "tune": "v8"}
    if leaves[0].shape.dimensions == first.shape.dimensions and rng.integers(0, 2):
        options["state"] = ((0, 0),)
    return b.module(b.op("tuple", *leaves)), arguments, options


@pytest.mark.parametrize("size", [8, 9, 16, 33])
@pytest.mark.parametrize("dtype", ["f32", "f64", "s8"])
@pytest.mark.parametrize("operations", [1, interleave._CHAIN])
def test_places_that_differ_by_the_loop_and_by_values(operations: int, dtype: str, size: int) -> None:
    """A batching dimension along the lanes: `jax.vmap(lambda x, i: x[i])`, and a short or long chain of operations of
    it."""
    rng = np.random.default_rng(size)
    b = Builder("rows")
    x, i = b.parameter(0, shape(f"{dtype}[{size},5]")), b.parameter(1, shape(f"s32[{size}]"))
    numbers = GatherDimensionNumbers((), (1,), (1,), 1, operand_batching_dims=(0,), start_indices_batching_dims=(0,))
    y = b.op("gather", x, i, gather_dimension_numbers=numbers, slice_sizes=(1, 1))
    for _ in range(operations):
        y = b.op("negate", b.op("add", y, y))
    arguments = rng.integers(-3, 4, (size, 5)).astype(DTYPES[dtype]), rng.integers(0, 5, size, np.int32)
    differential(b.module(y), *arguments, targets=EACH)


@pytest.mark.parametrize("dims", [(4,), (8,), (12,), (13,), (16,), (28,), (32,), (5, 16), (3, 7, 12), (2, 33)])
@pytest.mark.parametrize("operands", [1, 3, 6])
def test_short_loops(operands: int, dims: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few operations take several vectors in a trip, those of a few more do not."""
    counts: list[int] = []
    widen = interleave._widen

    def spied(loop: Any) -> None:
        before = loop.trips
        widen(loop)
        counts.append(before // max(loop.trips, 1))

    monkeypatch.setattr(interleave, "_widen", spied)
    rng = np.random.default_rng(operands)
    arrays = [rng.integers(-9, 10, dims).astype(np.float32) for _ in range(operands)]
    b = Builder("short")
    xs = [b.parameter(i, shape(f"f32[{','.join(map(str, dims))}]")) for i in range(operands)]
    y = b.op("negate", xs[0])
    for x in xs[1:]:
        y = b.op("subtract", y, b.op("reverse", x, dimensions=(0,)) if len(dims) > 1 else x)
    module = b.module(y)
    (made,) = run_with_state(module, arrays, {"tune": "v8"})
    (want,) = evaluate(module, *arrays)
    assert made == np.asarray(want).tobytes()
    trips = (dims[-1] if len(dims) > 1 else int(np.prod(dims))) // 4
    expected = next((n for n in (4, 2) if trips % n == 0), 1)
    if operands == 6:
        assert not counts, "it is no short loop"
    elif trips > 1 and dims[-1] % 4 == 0:
        assert expected in counts


@pytest.mark.parametrize("alone", [False, True], ids=["long chains too", "short loops alone"])
@pytest.mark.parametrize("seed", range(seeds.count(2, 12)))
def test_the_same_bits_as_one_after_another(seed: int, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    if alone:
        monkeypatch.setattr(interleave, "_CHAIN", 1 << 40)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    widened, ordered = [0], [0]
    copy, order = interleave._copy, interleave._order

    def counted(count: list[int], original: Any) -> Any:
        def run(*args: Any) -> None:
            count[0] += 1
            original(*args)

        return run

    monkeypatch.setattr(interleave, "_copy", counted(widened, copy))
    monkeypatch.setattr(interleave, "_order", counted(ordered, order))
    for _ in range(40):
        module, arrays, options = program(rng)
        with np.errstate(all="ignore"):
            made = run_with_state(module, arrays, options)
            with monkeypatch.context() as patch:
                patch.setattr(elements, "interleave", lambda func: None)
                for got, want in zip(made, run_with_state(module, arrays, options), strict=True):
                    assert got == want, module.to_text()
            if "state" not in options:
                kinds = [leaf.element_type for _, leaf in module.entry.root.shape.leaves()]
                for data, want, kind in zip(made, evaluate(module, *arrays), kinds, strict=True):
                    got = np.frombuffer(data, DTYPES[kind]).reshape(np.shape(want))
                    assert (np.isnan(got) == np.isnan(want)).all() if kind[0] in "fb" else (got == want).all(), (
                        module.to_text()
                    )
    assert widened[0] + ordered[0] > 10, "the programs have to show what they are for"
