"""Programs with symbolic sizes: those that jax.export writes, given sizes, have the values of the same functions
lowered for these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import export

import xla_wasm
import xla_wasm.jax
from tests.support.closeness import allclose, assert_all, within_ulp
from tests.support.symbolic_sizes import PROGRAMS, arguments, symbolic
from tests.support.wasi_commands import command, run
from xla_wasm import HloModule, evaluate
from xla_wasm.errors import ArgumentError, ParseError, UnsupportedError
from xla_wasm.hlo.verify import verify
from xla_wasm.stablehlo.symbols import bounds
from xla_wasm.stablehlo.symbols import evaluate as size_of


@pytest.mark.parametrize("name", PROGRAMS)
def test_given_sizes(name: str) -> None:
    fn, specs = PROGRAMS[name]
    types, arrays, dims = arguments(specs)
    data = export.export(jax.jit(fn), platforms=["cpu"])(*types).serialize()
    module = HloModule.from_exported(data, dims)
    verify(module)
    lowered = xla_wasm.jax.lower(fn, *arrays)
    assert_all(evaluate(module, *arrays), evaluate(lowered, *arrays), within_ulp(2))


def test_what_is_missing_is_named() -> None:
    data = symbolic(lambda x, y: x @ y, "b,n", "n,2*m")
    with pytest.raises(
        ArgumentError, match=r"give b, m, n, as in from_exported\(data, dims=\{'b': 8, 'm': 8, 'n': 8\}\)"
    ):
        HloModule.from_exported(data)
    with pytest.raises(ArgumentError, match="give m"):
        HloModule.from_exported(data, {"b": 1, "n": 2})
    with pytest.raises(ArgumentError, match="no symbolic size 'k'"):
        HloModule.from_exported(data, {"b": 1, "n": 2, "m": 3, "k": 4})
    with pytest.raises(ArgumentError, match=r"dims\['b'\] must be a size"):
        HloModule.from_exported(data, {"b": -1, "n": 2, "m": 3})
    with pytest.raises(ArgumentError, match=r"dims\['m'\] is 1099511627776: sizes are below 2\^31"):
        HloModule.from_exported(data, {"b": 1, "n": 2, "m": 2**40})
    for wrong_size in (np.True_, np.float32(2), None, "2"):
        with pytest.raises(ArgumentError, match=r"dims\['b'\] must be a size"):
            HloModule.from_exported(data, {"b": wrong_size, "n": 2, "m": 3})
    for wrong in (5, [("b", 1)]):
        with pytest.raises(ArgumentError, match="dims must be sizes by name"):
            HloModule.from_exported(data, wrong)
    for sizes in ({"b": 1, "n": 2, "m": 3}, {"b": np.int64(1), "n": np.uint8(2), "m": 3}):
        assert HloModule.from_exported(data, sizes).entry.root.shape.dimensions == (1, 6)


def test_a_condition_that_does_not_hold() -> None:
    data = symbolic(lambda x: x[3:], "b", constraints=("b >= 4",))
    assert HloModule.from_exported(data, {"b": 5}).entry.root.shape.dimensions == (2,)
    with pytest.raises(ArgumentError, match="b"):
        HloModule.from_exported(data, {"b": 3})


def test_sizes_are_expressions() -> None:
    dims = {"a": 7, "b": 3}
    for text, size in {
        "12": 12,
        "a": 7,
        "2*a + b": 17,
        "a*b - 1": 20,
        "b^2": 9,
        "floordiv(a, 2)": 3,
        "mod(a, 4)": 3,
        "max(a, 10)": 10,
        "min(a, b)": 3,
        "-a + 8": 1,
        "floordiv(-1*b + 10, 2) + 1": 4,
    }.items():
        assert size_of(text, dims) == size
    for text in (
        "",
        "a b",
        "c",
        "__import__('os')",
        "a.real",
        "9**99**99",
        "(" * 200,
        "1.5",
        "f(1)",
        "[1]",
        "lambda: 1",
    ):
        with pytest.raises((ParseError, ArgumentError)):
            size_of(text, dims)
    with pytest.raises(ArgumentError, match="divides by zero"):
        size_of("mod(a, b - 3)", dims)


REFUSED = {
    "slice": "the sizes of its slices",
    "argsort": "the sizes of its slices",
    "solve": "the sizes of its slices",
    "cumsum": "the sizes of its window",
    "cumlog": "the sizes of its window",
    "convs": "the widths of its padding",
    "bern": "how many random bits",
}
"""Programs whose sizes have to be known: they are refused by the operation that needs them."""
EVALUATED = ("chol", "qr")
"""Programs that the compiler refuses: LAPACK's functions take no dynamic dimensions."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_ranges_of_sizes(name: str) -> None:
    """One module for all sizes."""
    fn, specs = PROGRAMS[name]
    types, _, dims = arguments(specs)
    data = export.export(jax.jit(fn), platforms=["cpu"])(*types).serialize()
    ranges = dict.fromkeys(dims, range(2, 8))
    if name in REFUSED:
        with pytest.raises(UnsupportedError, match=REFUSED[name]):
            HloModule.from_exported(data, ranges)
        return
    module = HloModule.from_exported(data, ranges)
    verify(module)
    executable = None if name in EVALUATED else xla_wasm.load(xla_wasm.compile(module))
    for b, n in ((2, 4), (7, 7)):
        arrays = [_array(spec, {"b": b, "n": n, "h": 9 - b}) for spec in specs]
        expected = evaluate(xla_wasm.jax.lower(fn, *arrays), *arrays)
        assert_all(evaluate(module, *arrays), expected, within_ulp(2))
        assert_all(executable.run(*arrays) if executable else expected, expected, allclose(0.0001, 1e-05))


def _array(spec: str, dims: dict[str, int]) -> Any:
    sizes, _, integer = spec.partition(":")
    shape, rng = tuple(size_of(text, dims) for text in sizes.split(",")), np.random.default_rng(1)
    return rng.integers(0, 2, shape).astype(np.int32) if integer else rng.standard_normal(shape).astype(np.float32)


def test_ranges_that_cannot_be() -> None:
    data = symbolic(lambda x: x + 1, "b,mod(b, 3)")
    for wrong in (range(3, 3), range(0, 8, 2), range(-1, 3), "8", True, 2.0):
        with pytest.raises(ArgumentError, match=r"dims\['b'\] must be a size, or a range of sizes"):
            HloModule.from_exported(data, {"b": wrong})
    with pytest.raises(UnsupportedError, match=r"'mod\(b, 3\)' cannot be bounded"):
        HloModule.from_exported(data, {"b": range(1, 9)})


def test_bounds_of_expressions() -> None:
    ranges = {"a": range(2, 6), "b": range(1, 4), "c": range(7, 8)}
    for text in (
        "3",
        "c",
        "a",
        "2*a + b",
        "a*b - b",
        "-1*a + 10",
        "a^2 + 1",
        "floordiv(a*b, 2)",
        "max(a, b)",
        "a*c - 2*b",
        "mod(c, 4)",
    ):
        values = [size_of(text, {"a": a, "b": b, "c": 7}) for a in ranges["a"] for b in ranges["b"]]
        assert bounds(text, ranges) == (min(values), max(values)), text
    for text in ("mod(a, 2)", "6*a - a^2", "-2*floordiv(a, 2) + a", "max(a, -1*a + 9)"):
        with pytest.raises(UnsupportedError, match="cannot be bounded"):
            bounds(text, ranges)


def test_sizes_that_do_not_fit_together(tmp_path: Path) -> None:
    """Of one symbol in two arguments. Every host says so, with JAX's message, and can run again."""
    data = symbolic(lambda x, y: x * y[:, None], "b,3", "b,")
    module = HloModule.from_exported(data, {"b": range(1, 9)})
    good, bad = np.ones(4, np.float32), np.ones(5, np.float32)
    x, message = (
        np.ones((4, 3), np.float32),
        r"dimension size args\[1\].shape\[0\] \(= 5\) and the specification 'b' \(= 4\)",
    )
    exe = xla_wasm.load(xla_wasm.compile(module))
    for _ in range(2):
        with pytest.raises(ArgumentError, match=message):
            exe.run(x, bad)
        np.testing.assert_array_equal(exe.run(x, good)[0], x)
    with pytest.raises(ArgumentError, match=message):
        evaluate(module, x, bad)
    done = run(command(module), tmp_path, "x.npy", "y.npy", files={"x.npy": x, "y.npy": bad})
    assert done.code == 1 and "the inputs do not fit together" in done.err
    done = run(command(module), tmp_path, "x.npy", "y.npy", "-o", "z.npy", files={"x.npy": x, "y.npy": good})
    np.testing.assert_array_equal(done.array("z.npy"), x)


def test_sizes_outside_of_a_range() -> None:
    """Conditions that hold for all sizes of a range are not in the program: so no size outside of it may come in, of
    no dimension that follows from it, nor to an argument that nobody reads."""
    data = symbolic(lambda x, y, unused: (x[:4] * 1, y * 2), "b,", "2*b + 1,", "b - 3,", constraints=("b >= 4",))
    module = HloModule.from_exported(data, {"b": range(4, 9)})
    read_again = HloModule.from_proto(module.to_proto())
    exe, again = (xla_wasm.load(xla_wasm.compile(m)) for m in (module, read_again))
    for b in (0, 2, 3, 4, 8, 9):
        x, y, unused = (np.arange(100, 100 + n, dtype=np.float32) for n in (b, 2 * b + 1, max(b - 3, 0)))
        if b in (4, 8):
            for results in (exe.run(x, y, unused), again.run(x, y, unused), evaluate(module, x, y, unused)):
                assert_all(results, [x[:4], y * 2], within_ulp(0))
            with pytest.raises(ArgumentError, match=r"specification '2\*b \+ 1'|must be float32\[9\.\.17\]"):
                exe.run(x, y[1:], unused)
            continue
        right_x, right_y, right_unused = (np.ones(n, np.float32) for n in (8, 17, 5))
        for arrays in ((x, right_y, right_unused), (right_x, y, right_unused), (right_x, right_y, unused)):
            with pytest.raises(ArgumentError, match=r"must be float32\[(4\.\.8|9\.\.17|1\.\.5)\], got float32"):
                exe.run(*arrays)
            with pytest.raises(ArgumentError, match="on, got"):
                evaluate(module, *arrays)


def test_a_file_is_bytes() -> None:
    with pytest.raises(ParseError, match=r"^a file of jax\.export is bytes, not str$"):
        HloModule.from_exported("text")  # type: ignore[arg-type]
