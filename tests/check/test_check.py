"""`xla-wasm check`: every type as input, and that --isolate finds what a broken compiler computes wrongly."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xla_wasm.jax
from tests.support.command_line import Cli
from xla_wasm.builder import Builder
from xla_wasm.check import compare, excerpt, isolate
from xla_wasm.check.draws import Draw, Drawing
from xla_wasm.check.isolate import Finding
from xla_wasm.command.inputs import File
from xla_wasm.errors import ArgumentError, RunError
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.lowering.table import ELEMENTWISE
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.ops.elementwise import lower as elementwise
from xla_wasm.ops.sample import f32, shape
from xla_wasm.options import Options
from xla_wasm.passes import pipeline

SMALL = [name for name, dtype in DTYPES.items() if dtype.isbuiltin != 1]


def drawn(element_type: str, dims: tuple[int, ...]) -> Array:
    return Drawing().input(Draw(), "x", Shape(element_type, dims))


# --- comparing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", DTYPES)
@pytest.mark.parametrize("dims", [(), (4,), (2, 0)])
def test_equal_arrays_of_every_type_do_not_differ(element_type: str, dims: tuple[int, ...]) -> None:
    x = drawn(element_type, dims)
    assert x.shape == dims and x.dtype == DTYPES[element_type]
    assert compare.difference(x, x.copy()).at is None
    assert not compare.differing(x, x.copy(), compare.Tolerance()).any()


@pytest.mark.parametrize("element_type", [t for t in DTYPES if t not in ("pred", "s1", "u1")])
def test_a_difference_is_found_in_every_type(element_type: str) -> None:
    x = np.array([1, 1, 0.5]).astype(DTYPES[element_type])
    y = np.array([1, 4 if compare.is_float(x.dtype) else -2 if element_type == "s2" else 2, 0.5]).astype(
        DTYPES[element_type]
    )
    assert compare.difference(y, x).at == (1,)
    assert compare.differing(y, x, compare.tolerance(x.dtype)).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_a_difference_of_64_bits_is_found_in_a_scalar(dtype: type) -> None:
    x, y = np.array(np.iinfo(dtype).max, dtype), np.array(np.iinfo(dtype).min, dtype)
    assert compare.difference(x, y).absolute == float(2**64) and compare.difference(x, y).at == ()


@pytest.mark.parametrize("element_type", [t for t in SMALL if compare.is_float(DTYPES[t])])
def test_distances_count_the_values_of_small_floats(element_type: str) -> None:
    dtype = DTYPES[element_type]
    codes = np.arange(256, dtype=np.uint8) if dtype.itemsize == 1 else np.arange(1 << 16, dtype=np.uint16)
    values = codes.view(dtype).astype(np.float64)
    ordered = np.unique(values[np.isfinite(values)]).astype(dtype)
    assert compare.difference(ordered[:-1], ordered[1:]).ulp == 1


def test_specials() -> None:
    inf, nan = np.inf, np.nan
    x = f32([nan, inf, -inf, 0, 1, inf, 3e38])
    y = f32([nan, inf, -inf, -0.0, nan, 1, inf])
    assert compare.differing(y, x, compare.Tolerance(1e-3)).tolist() == [False] * 4 + [True] * 3
    assert not compare.differing(f32([1e-40]), f32([0]), compare.Tolerance()).any()
    z = np.array([1 + 1e-9j, complex(nan, 0), complex(0, inf)], np.complex64)
    assert not compare.differing(z.real.astype(np.complex64)[:1], z[:1], compare.Tolerance(0, 1)).any()
    assert compare.differing(z[[0, 0, 0]], z, compare.Tolerance(1)).tolist() == [False, True, True]


# --- inputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", DTYPES)
def test_saved_arrays_of_every_type_are_read_back(element_type: str, tmp_path: Path) -> None:
    x = drawn(element_type, (2, 3))
    np.save(tmp_path / "x.npy", x)
    again = File(tmp_path / "x.npy").array(element_type, x.size)
    assert again.dtype == x.dtype
    np.testing.assert_array_equal(again.view(np.uint8), x.view(np.uint8))


@pytest.mark.parametrize("element_type", SMALL)
def test_small_types_are_read_from_types_that_numpy_knows(element_type: str, tmp_path: Path) -> None:
    x = drawn(element_type, (2, 3))
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    np.testing.assert_array_equal(
        File(tmp_path / "x.npy").array(element_type, x.size).astype(np.float32), x.astype(np.float32)
    )
    np.save(tmp_path / "x.npy", np.full((2, 3), 1.001, np.float32))
    with pytest.raises(ArgumentError, match="not all of its values"):
        File(tmp_path / "x.npy").array(element_type, x.size)


# --- the search -------------------------------------------------------------------------------------------------------

Lower = Callable[..., Any]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Instruction], bool]], None]:
    """Makes an elementwise operation wrong by a hundredth where a condition holds."""

    def break_it(opcode: str, where: Callable[[Instruction], bool] = lambda x: True) -> None:
        true: Lower = ELEMENTWISE[opcode]

        def lower(b: Any, x: Instruction, *operands: Any) -> Any:
            value = true(b, x, *operands)
            return b.mul(value, b.const(value.dtype, 1.01)) if where(x) and value.dtype == "f32" else value

        monkeypatch.setitem(ELEMENTWISE, opcode, lower)
        monkeypatch.setitem(elementwise.ELEMENTWISE, opcode, lower)

    return break_it


def search(module: Module, *arrays: Array, target: str = "simd128") -> Finding | None:
    return isolate.isolate(module, arrays, excerpt.compiled(Options(target=target)))


def lowered(fn: Callable[..., Any], *shapes: Sequence[int]) -> tuple[Module, list[Array]]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    return xla_wasm.jax.lower(fn, *arrays), arrays


def chain(x: Any, w: Any) -> Any:
    h = jnp.tanh(x @ w)
    return jax.nn.softmax(jnp.cos(h) + jnp.sqrt(jnp.abs(h)), -1).sum(0)


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_nothing_differs(target: str) -> None:
    module, arrays = lowered(chain, (4, 8), (8, 8))
    assert search(module, *arrays, target=target) is None


@pytest.mark.parametrize("opcode", ["tanh", "cosine", "sqrt", "exponential", "divide", "abs"])
def test_one_wrong_operation_is_found(opcode: str, broken: Any) -> None:
    module, arrays = lowered(chain, (4, 8), (8, 8))
    broken(opcode)
    found = search(module, *arrays)
    assert found is not None and found.verdict is not None
    assert found.instruction.opcode == opcode and not found.company and not found.path
    assert [x.opcode for x in found.excerpt.module.entry.instructions if x.opcode != "parameter"] == [opcode]
    np.testing.assert_allclose(found.verdict.actual, found.verdict.expected * np.float32(1.01), rtol=1e-5)


def looped(x: Any) -> Any:
    def body(i: Any, s: Any) -> Any:
        return jnp.where(i < 2, s + 1, jnp.sin(s) * 2)

    return jnp.exp(-jax.lax.fori_loop(0, 4, body, x))


def test_inside_a_loop(broken: Any) -> None:
    module, arrays = lowered(looped, (5,))
    broken("sine")
    broken("exponential")
    found = search(module, *arrays)
    assert found is not None and found.instruction.opcode == "sine"
    assert "trip 0" in found.path[0] and found.path[-1] == "body"


def test_inside_a_loop_at_a_later_trip(broken: Any) -> None:
    """A value that the first trips do not have: the error shows only where the operand is large."""

    def fn(x: Any) -> Any:
        return jax.lax.fori_loop(0, 12, lambda i, s: jnp.where(s > 50, jnp.sqrt(s), s * 2), x)

    true: Lower = ELEMENTWISE["sqrt"]

    def lower(b: Any, x: Instruction, a: Any) -> Any:
        value = true(b, x, a)
        return b.select(b.gt(a, b.const("f32", 50)), b.mul(value, b.const("f32", 1.5)), value)

    module, _ = lowered(fn, (3,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ELEMENTWISE, "sqrt", lower)
        patch.setitem(elementwise.ELEMENTWISE, "sqrt", lower)
        found = search(module, f32([1, 2, 3]))
    assert found is not None and found.instruction.opcode == "sqrt"
    assert "trip 0" not in found.path[0] and "trip" in found.path[0]


def test_inside_a_branch(broken: Any) -> None:
    def fn(x: Any) -> Any:
        return jax.lax.cond(x[0] > 0, lambda v: jnp.log1p(jnp.abs(v)), lambda v: jnp.tanh(v), x)

    module, _ = lowered(fn, (3,))
    broken("tanh")
    assert search(module, f32([1, 2, 3])) is None
    found = search(module, f32([-1, 2, 3]))
    assert found is not None and found.instruction.opcode == "tanh"
    assert "branch" in found.path[0]


def test_what_goes_wrong_only_beside_others(broken: Any) -> None:
    b = Builder("company")
    x, y = b.parameter(0, shape("f32[6]")), b.parameter(1, shape("f32[6]"))
    product = b.op("multiply", x, y)
    total = b.op("add", b.op("negate", product), b.op("tanh", x))
    module = b.module(b.op("subtract", total, y))
    broken("add", lambda i: i.operands[0].opcode == "negate")
    found = search(module, f32([1, 2, 3, 4, 5, 6]), f32([3, 1, 4, 1, 5, 9]))
    assert found is not None and found.instruction.opcode == "add"
    assert "negate" in [c.opcode for c in found.company] and "subtract" not in [c.opcode for c in found.company]


def test_what_goes_wrong_only_when_nothing_between_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that a batch returns lie in buffers, and a fault of fusion does not show there."""
    true: Lower = ELEMENTWISE["subtract"]

    def lower(b: Any, x: Instruction, p: Any, q: Any) -> Any:
        value = true(b, x, p, q)
        return b.mul(value, b.const("f32", 2)) if p.op == "mul" else value

    monkeypatch.setitem(ELEMENTWISE, "subtract", lower)
    monkeypatch.setitem(elementwise.ELEMENTWISE, "subtract", lower)
    b = Builder("fused")
    x, y = b.parameter(0, shape("f32[6]")), b.parameter(1, shape("f32[6]"))
    kept = b.op("cosine", y)
    module = b.module(b.op("tuple", b.op("subtract", b.op("multiply", x, y), y), kept, b.op("sine", kept)))
    found = search(module, f32([1, 2, 3, 4, 5, 6]), f32([3, 1, 4, 1, 5, 9]))
    assert found is not None and found.instruction.opcode == "subtract"
    assert [c.opcode for c in found.company] == ["multiply"]


def test_a_wrong_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def muddle(module: Module) -> None:
        for x in module.instructions():
            if x.opcode == "subtract":
                x.operands.reverse()

    monkeypatch.setattr(pipeline, "PASSES", (*pipeline.PASSES, muddle))
    b = Builder("passes")
    x = b.parameter(0, shape("f32[4]"))
    found = search(b.module(b.op("subtract", b.op("tanh", x), x)), f32([1, 2, 3, 4]))
    assert found is not None and found.instruction.opcode == "subtract"
    assert "after the pass muddle" in found.note


def test_a_trap_is_found() -> None:
    module, arrays = lowered(chain, (4, 8), (8, 8))
    run = excerpt.compiled(Options())

    def trapping(part: Module, args: Sequence[Array]) -> list[Array]:
        if any(x.opcode == "cosine" for x in part.instructions()):
            raise RunError("unreachable")
        return run(part, args)

    found = isolate.isolate(module, arrays, trapping)
    assert (
        found is not None
        and found.instruction.opcode == "cosine"
        and found.verdict is None
        and found.note == "unreachable"
    )


def test_layouts_at_the_boundary(broken: Any) -> None:
    text = """HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[3,2]{0,1}}
ENTRY e { x = f32[2,3]{0,1} parameter(0)  t = f32[3,2]{1,0} transpose(x), dimensions={1,0}  ROOT y = f32[3,2]{0,1} tanh(t) }"""  # noqa: E501
    module = Module.from_text(text)
    x = f32([[1, 2, 3], [4, 5, 6]]) / 8
    assert search(module, x) is None
    broken("tanh")
    found = search(module, x)
    assert found is not None and found.instruction.opcode == "tanh"


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def check(xla_wasm: Cli) -> Cli:
    return partial(xla_wasm, "check")


def test_a_finding_is_printed_with_a_reproducer(check: Any, broken: Any) -> None:
    module, _ = lowered(looped, (5,))
    Path("m.pb").write_bytes(module.to_proto())
    assert check("m.pb", "--isolate")[0] == 0
    broken("sine")
    code, out, err = check("m.pb", "--isolate", "--reproducer", "small.txt")
    assert (code, err) == (1, "")
    for part in ("sine", "trip 0", "f32[5]", "op_name", "test_check.py:", "5 of 5 elements", "ulp", "reference"):
        assert part in out
    text = Path("small.txt").read_text()
    assert len(Module.from_text(text).entry.instructions) == 2
    command = next(line for line in text.splitlines() if "xla-wasm check" in line).removeprefix("// ")
    code, out, _ = check(*shlex.split(command)[2:])
    assert code == 1 and "differs" in out


@pytest.mark.parametrize("element_type", DTYPES)
def test_every_type_is_checked(check: Any, element_type: str) -> None:
    b = Builder("types")
    x, y = (b.parameter(i, shape(f"{element_type}[5,7]")) for i in range(2))
    made = b.op("and" if element_type == "pred" else "add", x, y)
    moved = b.op("reverse", x, dimensions=(1,))
    module = b.module(b.op("tuple", made, moved, b.op("compare", x, y, direction="EQ")))
    Path("m.pb").write_bytes(module.to_proto())
    code, out, err = check("m.pb", "--isolate")
    assert (code, err) == (0, ""), out
    assert f"{element_type}[5,7]" in out and "35" in out


def test_inputs_of_small_types(check: Any) -> None:
    b = Builder("small")
    x = b.parameter(0, shape("bf16[3]"))
    Path("m.pb").write_bytes(b.module(b.op("reverse", x, dimensions=(0,))).to_proto())
    np.save("x.npy", np.array([1, 2, 3], ml_dtypes.bfloat16))
    code, out, err = check("m.pb", "--input", "x.npy")
    assert code == 0 and "bf16[3]" in out
    np.save("x.npy", np.array([1, 2, 3.001], np.float32))
    code, _, err = check("m.pb", "--input", "x.npy")
    assert code == 2 and "not all of its values are values of bf16" in err and err.count("\n") == 1


def test_results_are_no_more_exact_than_what_they_are_made_of(check: Any) -> None:
    """The last rounding to bf16 is left out where f32 is wanted, as XLA has it; and sums in another order may round
    otherwise."""
    module, _ = lowered(lambda x: (x.astype(jnp.bfloat16) / 3).astype(jnp.float32), (64,))
    Path("m.pb").write_bytes(module.to_proto())
    code, out, err = check("m.pb", "--isolate")
    assert code == 0, out + err


def test_mistakes_take_one_line(check: Any) -> None:
    module, _ = lowered(looped, (5,))
    Path("m.pb").write_bytes(module.to_proto())
    np.save("x.npy", np.zeros(4, np.float32))
    np.save("five.npy", np.zeros(5))
    np.savez("several.npz", a=np.zeros(5), b=np.zeros(5))
    Path("empty.npy").write_bytes(b"")
    for args, message in (
        (["--reproducer", "r.txt"], "--isolate"),
        (["--input", "x.npy"], "--input x.npy: 'x' must be float32[5], got float32[4]"),
        (["--input", "several.npz"], "several.npz holds a, b, and the module's inputs are "),
        (["--input", "empty.npy"], "not a .npy file"),
        (["--input", "five.npy", "--input", "x.npy"], "takes 1 input (x"),
    ):
        code, _, err = check("m.pb", *args)
        assert code == 2 and message in err and err.startswith("error: ") and err.count("\n") == 1, err
