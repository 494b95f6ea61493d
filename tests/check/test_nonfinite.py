"""The search for the instruction in which a NaN or an infinity begins: by the module, by a run, by `jit`, by the
command."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm.jax
from tests.support.command_line import Cli
from tests.support.differential import BOTH
from xla_wasm.hlo.ir import Module

F32 = np.float32
MASKED = np.array([1, -2, 3], F32)


def logs(x: Any) -> Any:
    return jnp.sum(jnp.log(x) * 2)


def overflow(x: Any) -> Any:
    return jnp.exp(x * 100) - jnp.exp(x * 100)


def scanned(x: Any) -> Any:
    def step(c: Any, t: Any) -> tuple[Any, Any]:
        c = c - t
        return c, jnp.sqrt(c)

    return jax.lax.scan(step, x, jnp.arange(10.0))[1].sum()


def carried(x: Any) -> Any:
    """The NaN goes through two carries before the result has it."""
    return jax.lax.fori_loop(0, 9, lambda i, s: (s[1], s[2], jnp.log(3.0 - i) + x[0]), (x[0], x[1], x[2]))[0]


def branches(x: Any) -> Any:
    return jax.lax.cond(x[0] > 0, lambda y: y / (y - y), lambda y: y, x)


def masked(x: Any) -> Any:
    """Logarithms of negative numbers that nobody takes, and an infinity of the program's."""
    return jnp.where(x > 0, jnp.log(x), 0.0) + jnp.where(x > 2, -jnp.inf, x)


def masked_and_wrong(x: Any) -> Any:
    """The first NaN in the program is none of the result's."""
    safe = jnp.where(x > 0, jnp.log(x), 0.0)
    return safe + jnp.sqrt(x - 2) * 3


def product(x: Any) -> Any:
    big = jnp.outer(x, x) * 1e30
    return jax.nn.softmax(big @ big)


def in_tuples(x: Any) -> Any:
    a, b = jax.lax.sort((x, jnp.log(x)), num_keys=1)
    return {"keys": a, "values": b * 2}


def of_constant(x: Any) -> Any:
    return x + np.array([0, np.nan, 0], F32)


CASES: dict[str, tuple[Callable[..., Any], Any, list[str]]] = {
    "function": (logs, MASKED, ["NaN begins in log '", "of -2.0", "1 of 3 elements, first at [1]"]),
    "overflow": (
        overflow,
        MASKED,
        ["NaN begins in subtract", "of inf, inf", "infinity begins in exponential", "of 100.0"],
    ),
    "loop": (scanned, F32(20), ["NaN begins in sqrt", "of -1.0", "inside while", "trip 6"]),
    "carries of a loop": (carried, np.ones(3, F32), ["NaN begins in log '", "of -1.0", "trip 4"]),
    "branch": (branches, np.ones(3, F32), ["infinity begins in divide", "of 1.0, 0.0", "branch 1"]),
    "masked": (masked, MASKED, []),
    "masked, another one": (masked_and_wrong, MASKED, ["NaN begins in sqrt", "of -1.0"]),
    "product": (product, np.full(3, 1e3, F32), ["NaN begins in", "infinity begins in dot"]),
    "tuples": (in_tuples, MASKED, ["NaN begins in log '", "of -2.0"]),
    "constant": (of_constant, MASKED, ["NaN begins in constant"]),
    "argument": (logs, np.array([1, np.nan], F32), ["NaN comes in with argument 'x'"]),
    "infinite argument": (lambda x: x + 1, np.array([1, np.inf], F32), []),
    "bf16": (lambda x: jnp.log(x), MASKED.astype(jnp.bfloat16), ["NaN begins in log '", "of -2"]),
    "f64": (lambda x: 1 / x, np.zeros(2), ["infinity begins in divide", "of 1.0, 0.0"]),
    "integers": (lambda x: x + 1, np.zeros(2, np.int32), []),
    "gradient": (
        jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()),
        np.array([0, 1], F32),
        ["NaN begins in multiply", "of 0.0, inf", "infinity begins in divide", "of 0.5, 0.0"],
    ),
}


def lowered(f: Callable[..., Any], *args: Any) -> Module:
    with jax.enable_x64(any(np.asarray(x).dtype == np.float64 for x in args)):
        return xla_wasm.jax.lower(f, *args)


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("name", CASES)
def test_the_origin_is_named(name: str, target: str) -> None:
    f, x, expected = CASES[name]
    module = lowered(f, x)
    told = module.explain_nonfinite(x, target=target)
    assert bool(told) == bool(expected) and all(part in told for part in expected), told
    if expected and "argument" not in name and name != "constant":
        assert "test_nonfinite.py:" in told, "the line of the source"
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(target=target)))
    if expected:
        with pytest.raises(xla_wasm.NonFiniteError) as error:
            exe.run(x, check_nan=True)
        assert isinstance(error.value, FloatingPointError) and str(error.value).endswith(told)
    else:
        exe.run(x, check_nan=True)


def test_only_those_of_the_kind_that_is_asked_for() -> None:
    x = np.array([0, 1], F32)
    module = lowered(lambda x: (1 / x, jnp.log(x - 1)), x)
    assert "of -1.0" in module.explain_nonfinite(x), "a NaN comes first"
    assert "infinity begins in divide" in module.explain_nonfinite(x, nan=False)
    assert "NaN begins in log" in module.explain_nonfinite(x, infinity=False)
    assert module.explain_nonfinite(x + 1, nan=False) == "" or "log" in module.explain_nonfinite(x + 1, nan=False)


def test_weights_and_states_are_those_before_the_run() -> None:
    module = lowered(lambda state, w, x: (state * w, (state * x).sum()), *(np.ones(2, F32),) * 3)
    options = xla_wasm.Options(weights=["w"], state={"state": "0"})
    exe = xla_wasm.load(xla_wasm.compile(module, options))
    exe.set("w", np.full(2, 1e25, F32))
    exe.set("state", np.ones(2, F32))
    exe.run(np.ones(2, F32), check_nan=True)
    with pytest.raises(xla_wasm.NonFiniteError, match=r"'state' of .*infinity begins in multiply.* of 1e\+25, 1e\+25"):
        exe.run(np.ones(2, F32), check_nan=True)


def test_what_has_no_module_says_how() -> None:
    module = lowered(logs, MASKED)
    artifact = pickle.loads(pickle.dumps(xla_wasm.compile(module)))
    exe = xla_wasm.load(artifact)
    with pytest.raises(xla_wasm.ArgumentError, match=r"needs the module of 'jit_logs'.*xla-wasm check --nan"):
        exe.run(MASKED, check_nan=True)
    with pytest.raises(xla_wasm.NonFiniteError, match="of -2.0"):
        exe.run(MASKED, check_nan=module)
    with pytest.raises(xla_wasm.ArgumentError, match="is not what 'jit_logs' was compiled from"):
        exe.run(MASKED, check_nan=lowered(lambda y: y, MASKED))
    with pytest.raises(xla_wasm.ArgumentError, match="physical"):
        xla_wasm.load(artifact, physical=True).run(MASKED.view(np.uint8), check_nan=module)


def test_programs_that_call_their_host() -> None:
    def f(x: Any) -> Any:
        return jax.pure_callback(lambda x: x, x, jnp.log(x))

    exe = xla_wasm.load(xla_wasm.compile(lowered(f, MASKED)))
    with pytest.raises(xla_wasm.UnsupportedError, match="calls its host"):
        exe.run(MASKED, check_nan=True)


def test_large_constants_are_not_kept_for_it() -> None:
    big = np.arange(5 << 20, dtype=F32)
    module = lowered(lambda x: x + big, big)
    artifact = xla_wasm.compile(module)
    assert artifact.source() is module
    del module
    assert artifact.source() is None


def test_jit_honours_the_settings_of_jax() -> None:
    f = xla_wasm.jax.jit(lambda x: (jnp.log(x), x), cache=False)
    x, zero = MASKED, np.zeros(2, F32)
    assert np.isnan(f(x)[0]).any()
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match="NaN begins in log .*of -2.0"):
            f(x)
        assert np.isinf(f(zero)[0]).all()
    with jax.debug_infs(True):
        assert np.isnan(f(x)[0]).any()
        with pytest.raises(FloatingPointError, match="infinity begins in log .*of 0.0"):
            f(zero)
    step = xla_wasm.jax.jit(lambda p, x: (p / x, x), state={"p": "0"}, cache=False)
    with jax.debug_nans(True):
        p, _ = step(jnp.zeros(2), np.ones(2, F32))
        with pytest.raises(FloatingPointError, match="NaN begins in divide .*of 0.0, 0.0"):
            step(p, zero)


def test_the_command(xla_wasm: Cli, tmp_path: Path) -> None:
    (tmp_path / "f.hlo").write_text(lowered(overflow, MASKED).to_text())
    np.save(tmp_path / "x.npy", MASKED)
    command = ["check", "--nan", tmp_path / "f.hlo", "--input", tmp_path / "x.npy"]
    code, out, _ = xla_wasm(*command)
    assert code == 1
    for part in ("NaN begins", "infinity begins", "inf there", "100.0 there", "test_nonfinite.py:", "2 of 3, first at"):
        assert part in out
    _, out, _ = xla_wasm(*command, "--json")
    kinds = [(origin["kind"], origin["opcode"]) for origin in json.loads(out)["begins"]]
    assert kinds == [("NaN", "subtract"), ("infinity", "exponential")]
    np.save(tmp_path / "x.npy", MASKED / 100)
    code, out, _ = xla_wasm(*command)
    assert code == 0 and "no result has a NaN" in out
    code, _, err = xla_wasm(*command, "--isolate")
    assert code == 2 and "leave one out" in err
