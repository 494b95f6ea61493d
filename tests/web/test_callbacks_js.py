"""Callbacks of JAX programs in Node and in Chromium, where there is no Python: what is printed, and what ends a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import xla_wasm
from tests.jax.test_callbacks import X, guarded
from tests.support.js_calls import ENGINES, Call, calling, isolated_site, nothing
from tests.support.symbolic_sizes import symbolic
from tests.support.web_server import Answer
from xla_wasm import HloModule, Options
from xla_wasm.jax import lower

ARGS = {"Float32Array": X, "Int32Array": np.int32(7), "Float64Array": np.array([[1.5, -2], [3, 100]], np.float32)}


def printing(x: Any, n: Any, m: Any) -> Any:
    jax.debug.print("plain", ordered=True)
    jax.debug.print("{} then {}", n, x, ordered=True)
    jax.debug.print("{m} {{}} {name} {n:5d}", m=m, n=n, name="constant {}", ordered=True)
    jax.debug.print("{b} {z:.3f} {t}", b=n > 3, z=x.sum() / 7, t=x > 0.5, ordered=True)
    return x


def two_sizes() -> bytes:
    """A file of jax.export whose two arguments share a size."""
    return symbolic(lambda x, y: x * y[:, None], "b,3", "b,")


@pytest.fixture(params=ENGINES)
def call(request: pytest.FixtureRequest) -> Iterator[Call]:
    x, n, m = ARGS.values()
    programs = {
        "/printing.wasm": xla_wasm.compile(lower(printing, x, n, m)),
        "/guarded.wasm": xla_wasm.compile(lower(guarded, X)),
        "/sizes.wasm": xla_wasm.compile(HloModule.from_exported(two_sizes(), {"b": range(1, 9)})),
        "/trap.wasm": xla_wasm.compile(lower(guarded, X), Options(callbacks="trap")),
    }
    answers: dict[str, Any] = {path: Answer(artifact.wasm, "application/wasm") for path, artifact in programs.items()}
    site = isolated_site(answers)
    with site.serving(), calling("callbacks.mjs", request.param, request, site) as called:
        yield called


def test_prints(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines that JAX prints, from the file alone."""
    jax.jit(printing)(*ARGS.values())
    jax.effects_barrier()
    expected = capsys.readouterr().out.rstrip("\n").split("\n")
    given = [
        {"type": "Float32Array" if a.dtype == np.float32 else kind, "values": np.ravel(a).tolist()}
        for kind, a in ARGS.items()
    ]
    for lines in call("prints", {"wasm": "/printing.wasm", "args": given}):
        assert "\n".join(lines).split("\n") == expected


def test_reached(call: Call) -> None:
    nothing(call("reached"))


SCALARS = [("s32", v, s) for v in (0, 7, -12345) for s in ("", "d", "5d", "05d", "<6", ">6", "^7", "+d", ",", "+,")]
SCALARS += [
    ("f32", v, s)
    for v in (0.0, -0.0, 1.5, -1234.5678, 1e-7, 3e20, 0.1)
    for s in ("", ".2f", "8.3f", "<9.1f", "e", ".2e", "g", ".3g", "+.1f", "010.2f")
]
SCALARS += [("f32", v, s) for v in (np.nan, np.inf, -np.inf) for s in ("", ".2f", "6.1f")]
SCALARS += [
    ("f64", v, s)
    for v in (np.pi, 1e300, 1e-300)
    for s in ("", ".3f" if v < 10 else ".3e", ".10g", "%" if v < 10 else "g")
]
HALVES = (0.5, 1.5, 2.5, -0.125, 0.375, 10.5, 125.0)
"""As near to one number of fewer digits as to another."""
SCALARS += [("f64", v, s) for v in HALVES for s in (".0f", ".2f", ".0e", ".1e", ".0%", ".2g")]
SCALARS += [("f64", v, s) for v in (1e21, 2.0**80) for s in (".0f", ".2f", "e")]
SCALARS += [("s64", v, s) for v in (2**53 + 1, -5) for s in ("", "d")]
ARRAYS = {"s32": ("Int32Array", np.int32), "f32": ("Float32Array", np.float32), "f64": ("Float64Array", np.float64)}
ARRAYS["s64"] = ("BigInt64Array", np.int64)  # type: ignore[assignment]


def is_alike(a: str, b: str) -> bool:
    """Returns true if two lines are equal, but perhaps for the last of many digits, where several decimals read back as
    the same number."""
    if [len(row) for row in a.split("\n")] != [len(row) for row in b.split("\n")]:
        return False
    pairs = list(zip(re.findall(r"[^\[\] \n]+", a), re.findall(r"[^\[\] \n]+", b)))
    return a == b or all(
        x == y or (len(x) == len(y) > 7 and np.isclose(float(x), float(y), rtol=2e-7)) for x, y in pairs
    )


def test_lines_are_those_of_python(call: Call) -> None:
    cases, expected = [], []
    for name, value, spec in SCALARS:
        kind, dtype = ARRAYS[name]
        text = str(value) if name == "s64" else repr(float(dtype(value)))
        shown = text.replace("nan", "NaN").replace("inf", "Infinity") if name != "s64" else text
        field = f"<{{0:{spec}}}>" if spec else "<{0}>"
        cases.append(
            {
                "format": field,
                "leaves": [{"element_type": name, "dimensions": []}],
                "arrays": [{"type": kind, "values": [shown]}],
            }
        )
        expected.append(field.format(dtype(value)))
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=(n, 3)) * 10.0**power for n in range(3) for power in (-6, -2, 0, 2, 5)]
    fixed = (
        [[1.0, 2.5], [-3, 0.125]],
        [[[1, 2]], [[3, 4]]],
        [],
        [[]],
        [1e10, 1],
        [1.5e10, 1],
        [0.1, 100.0],
        [1e-5],
        [0.5, np.nan, -np.inf],
        [0, -0.0],
    )
    for rows in (*fixed, *drawn):
        for name, (kind, dtype) in ARRAYS.items():
            if dtype is np.int64 or (dtype is np.int32 and not np.all(np.abs(np.array(rows)) < 1e6)):
                continue
            array = np.array(rows).astype(dtype)
            values = [repr(float(x)).replace("nan", "NaN").replace("inf", "Infinity") for x in array.ravel()]
            leaf = {"element_type": name, "dimensions": list(array.shape)}
            cases.append({"format": "{0}", "leaves": [leaf], "arrays": [{"type": kind, "values": values}]})
            expected.append(str(array))
    got = call("lines", cases)
    wrong = [
        (case["format"], case["arrays"], a, b)
        for case, a, b in zip(cases, got, expected, strict=True)
        if not is_alike(a, b)
    ]
    assert not wrong, wrong[:10]
