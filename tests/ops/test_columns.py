"""Reductions down columns, several vectors of which are computed side by side: the same bits as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jax import lax

from tests.support import seeds
from tests.support.differential import differential, run_with_state
from xla_wasm.builder import Builder
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.reduce.lower_columns import ColumnSums
from xla_wasm.ops.sample import reducer, shape
from xla_wasm.plan import elements
from xla_wasm.reference import evaluate

REDUCERS = {
    "f": ("add", "maximum", "minimum", "multiply"),
    "i": ("add", "maximum", "and", "xor", "multiply"),
    "p": ("and", "or"),
}


def program(rng: np.random.Generator) -> tuple[Module, list[np.ndarray[Any, Any]], dict[str, Any]]:
    """A reduction of an expression, and what is made of its results, perhaps in the place of an argument."""
    element_type = str(rng.choice(["f32", "f32", "f32", "f64", "f16", "bf16", "s32", "u8", "s64", "pred", "c64"]))
    rank = int(rng.integers(2, 5))
    dims = [int(rng.integers(1, 6)) for _ in range(rank)]
    dims[-1] = int(rng.choice([*range(1, 34), 40, 64, 70, 127]))
    reduced = sorted(rng.choice(rank - 1, int(rng.integers(1, rank)), replace=False).tolist())
    dims[reduced[-1]] = int(rng.choice([1, 4, 15, 16, 17, 40, 130]))
    long = element_type in ("f32", "f64") and rng.integers(0, 4) > 0
    if long:  # rows so long that the sums lie in memory
        dims[-1] = int(rng.choice([512, 515, 700, 1024, 1026, 1536]))
        reduced = [rank - 2]
        dims[: rank - 2] = [1 + d % 2 for d in dims[: rank - 2]]
        dims[-2] = int(rng.choice([16, 17, 63, 64, 65, 130, 301]))
    kept = [d for d in range(rank) if d not in reduced]
    family = "p" if element_type == "pred" else "f" if element_type[0] in "bfc" else "i"
    opcode = str(
        rng.choice([name for name in REDUCERS[family] if element_type != "c64" or name in ("add", "multiply")])
    )
    opcode = "add" if long and rng.integers(0, 4) else opcode
    text = ",".join(map(str, dims))
    results = ",".join(str(dims[d]) for d in kept)
    b = Builder("columns")
    x = b.parameter(0, shape(f"{element_type}[{text}]"))
    y = b.parameter(1, shape(f"{element_type}[{results}]"))
    value = x
    both = "and" if family == "p" else "add"

    def seen(value: Any, rank: int) -> Any:
        """The same array as it is, or through another index map."""
        turned = tuple(sorted(rng.choice(rank, int(rng.integers(1, rank + 1)), replace=False).tolist())) if rank else ()
        return b.op("reverse", value, dimensions=turned) if turned and rng.integers(0, 3) == 0 else value

    for _ in range(int(rng.integers(0, 3))):
        way = int(rng.integers(0, 4))
        spread = b.op("broadcast", y, dimensions=tuple(kept), shape=shape(f"{element_type}[{text}]"))
        value = (
            b.op(both, value, spread)
            if way == 0
            else b.op("abs", value)
            if way == 1 and family == "i"
            else b.op(both, value, seen(x, rank))
        )
    init = b.constant(shape(element_type), [1])
    total = b.op("reduce", value, init, called=[reducer(opcode, element_type)()], dimensions=tuple(reduced))
    out = total
    for _ in range(int(rng.integers(0, 3))):
        out = b.op(both, out, seen(y, len(kept))) if rng.integers(0, 2) else b.op(both, out, seen(out, len(kept)))
    leaves = [out] + ([total] if rng.integers(0, 4) == 0 else [])
    module = b.module(b.op("tuple", *leaves))
    make: dict[str, Any] = {
        "f": lambda size: rng.normal(size=size),
        "i": lambda size: rng.integers(0, 9, size),
        "p": lambda size: rng.integers(0, 2, size),
    }
    sizes = (dims, [dims[d] for d in kept])
    arrays = [make[family](size).astype(DTYPES[element_type]) for size in sizes]
    if family == "f" and element_type != "c64" and rng.integers(0, 3) == 0:
        arrays[0].flat[0], arrays[0].flat[-1] = np.nan, -0.0
    options: dict[str, Any] = {"target": str(rng.choice(["simd128", "relaxed-simd"]))}
    if rng.integers(0, 3) == 0:
        options["state"] = ((1, 0),)
    return module, arrays, options


@pytest.mark.parametrize("seed", range(seeds.count(2, 6)))
def test_the_same_bits_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setenv("XLA_WASM_VERIFY", "1")
    together, in_memory = 0, list[Any]()
    chunk = ColumnSums.chunk
    for _ in range(40):
        module, arrays, options = program(rng)
        counts: list[Any] = []
        others = [s for s in elements.STRATEGIES if s is not elements.in_columns]

        def spied(case: Any, counts: list[Any] = counts) -> Any:
            counts.append(elements.in_columns(case))
            return counts[-1]

        with monkeypatch.context() as patch, np.errstate(all="ignore"):
            patch.setattr(elements, "STRATEGIES", (*others[:-1], spied, others[-1]))
            patch.setattr(ColumnSums, "chunk", lambda *args: (in_memory.append(None), chunk(*args))[1])
            made = run_with_state(module, arrays, options)
            patch.setattr(elements, "STRATEGIES", tuple(others))
            assert made == run_with_state(module, arrays, options), module.to_text()
        together += any(counts)
        if "state" not in options and "multiply(" not in module.to_text():  # products overflow in between, sums do not
            expected = [np.asarray(a) for a in evaluate(module, *arrays)]
            for data, want in zip(made, expected, strict=True):
                got = np.frombuffer(data, want.dtype).reshape(want.shape).astype(np.complex128)
                scale = 1e-2 if want.dtype.itemsize <= 2 else 1e-3
                true = want.astype(np.complex128)
                near = scale * max(100.0, float(np.max(np.abs(true), initial=0, where=np.isfinite(true))))
                np.testing.assert_allclose(got, true, rtol=scale, atol=near, err_msg=module.to_text())
    assert together > 3 and in_memory, "the programs have to show what they are for"


@pytest.mark.parametrize("rows", [4096, 4097, 5003])
def test_many_rows(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of parts of sums of parts."""
    b = Builder("columns")
    x = b.parameter(0, shape(f"f32[{rows},512]"))
    zero = b.constant(shape("f32"), [0])
    module = b.module(b.op("reduce", x, zero, called=[reducer("add", "f32")()], dimensions=(0,)))
    array = np.random.default_rng(rows).normal(size=(rows, 512)).astype(np.float32)
    made = run_with_state(module, [array], {})
    others = tuple(s for s in elements.STRATEGIES if s is not elements.in_columns)
    monkeypatch.setattr(elements, "STRATEGIES", others)
    assert made == run_with_state(module, [array], {})


@pytest.mark.parametrize("columns", [31, 32, 33, 70])
@pytest.mark.parametrize("rows", [15, 16, 65])
def test_a_function_that_is_no_operation(rows: int, columns: int) -> None:
    """The elements are combined in their order."""
    x = np.random.default_rng(rows).normal(size=(2, rows, columns)).astype(np.float32)
    module = lower(lambda x: lax.reduce(x, np.float32(3), lambda a, b: a * 0.5 + b, (1,)), x)
    differential(module, x, expected=evaluate(module, x))
