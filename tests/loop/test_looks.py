"""Programs look whether their run is to end: not at all if they are short, and in long kernels often enough, but not in
loops that a look would slow down."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from tests.support.closeness import assert_same
from tests.support.paths import ROOT
from xla_wasm import Options
from xla_wasm.assemble import driver
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower
from xla_wasm.loop import emit, pieces
from xla_wasm.loop.ir import Block, Func, Loop
from xla_wasm.target import STOP, STOPPED_RUN


def kernels(module: Module, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Func, set[Loop]]]:
    """The kernels of a module, each with the loops that look."""
    found: list[tuple[Func, set[Loop]]] = []

    def noting(func: Func) -> set[Loop]:
        found.append((func, pieces.looks(func)))
        return found[-1][1]

    monkeypatch.setattr(emit, "looks", noting)
    xla_wasm.compile(module)
    return found


def loops(block: Block) -> list[Loop]:
    inner = [s for s in block.statements if isinstance(s, Loop)]
    return inner + [loop for s in inner for loop in loops(s.body)]


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def product(size: int) -> Module:
    return lower(lambda a, b: a @ b, f32(size, size), f32(size, size))


PROGRAMS: dict[str, Callable[[], Module]] = {
    "product": lambda: product(2048),
    "sort": lambda: lower(lambda x: jnp.sort(x), f32(1 << 22)),
    "rows": lambda: lower(lambda x: jnp.sort(x, axis=1), f32(64, 1 << 17)),
    "topk": lambda: lower(lambda x: jax.lax.top_k(x, 1000), f32(1 << 24)),
    "convolution": lambda: lower(
        lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"), f32(1, 512, 256, 256), f32(512, 512, 3, 3)
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_long_kernels_look(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(func, looking) for func, looking in kernels(PROGRAMS[name](), monkeypatch) if looking]
    assert found
    for func, looking in found:
        assert looking <= {*loops(func.body)}
        for loop in looking:
            assert pieces.executed(loop.body) >= pieces._LOOK
            assert not (pieces.is_split(func) and loop.chunked)  # callers look there


SMALL: dict[str, Callable[[jax.Array], Any]] = {
    "product": lambda x: x @ x[:, ::-1].T,
    "rows": lambda x: jax.nn.softmax(x) - jnp.sort(x, axis=1),
    "columns": lambda x: jnp.cumsum(x, axis=0) / jnp.sum(jnp.abs(x), axis=0),
    "whole": lambda x: jax.lax.top_k(x.reshape(-1), 20)[0] + jnp.mean(x),
    "window": lambda x: jax.lax.conv(
        x.reshape(1, 4, 12, 50), jnp.sin(x[:40, :27]).reshape(10, 4, 3, 9), (1, 1), "SAME"
    ),
}


@pytest.mark.parametrize("patience", [1 << 6, 1 << 10])
@pytest.mark.parametrize("name", SMALL)
def test_looks_change_no_value(name: str, patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(5).standard_normal((48, 50)).astype(np.float32)
    module = lower(SMALL[name], x)
    expected = xla_wasm.load(xla_wasm.compile(module)).run(x)
    monkeypatch.setattr(pieces, "_PATIENCE", patience)
    monkeypatch.setattr(pieces, "_LOOK", 1 << 3)
    assert any(looking for _, looking in kernels(module, monkeypatch))
    for actual, other in zip(xla_wasm.load(xla_wasm.compile(module)).run(x), expected, strict=True):
        assert_same(actual, other)


@pytest.mark.parametrize("size", [64, 512])
def test_short_kernels_do_not(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(looking for _, looking in kernels(product(size), monkeypatch))


def stop_of(module: Module) -> int | None:
    stop: int | None = xla_wasm.compile(module).manifest["stop"]
    return stop


def test_short_programs_are_not_ended() -> None:
    assert stop_of(product(64)) is None
    assert stop_of(product(512)) == STOP
    assert stop_of(lower(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) + i, x), f32(4))) == STOP
    assert stop_of(lower(lambda x: x.T, f32(64, 64))) is None
    assert stop_of(lower(lambda x: x.T, f32(8192, 8192))) == STOP


def test_the_c_runtime_looks_at_the_same_word() -> None:
    text = (ROOT / "runtime_c" / "stop.h").read_text()
    assert re.findall(r"#define STOP_WORD (\d+)", text) == [str(STOP)]
    assert STOPPED_RUN + 4 > 1 << 32  # outside of the largest memory


@pytest.mark.parametrize("bytes", [12, 16, 20, 32, 36, 132])
@pytest.mark.parametrize("threads", [False, True])
def test_copies_in_pieces(bytes: int, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is another argument from then on: of each copy pieces of 16 bytes, the last one as long as it is."""
    monkeypatch.setattr(driver, "_COPIED", 16)
    x, y = (np.arange(bytes // 4, dtype=np.float32) + k for k in (1, 100))
    module = lower(lambda state, other: (other, state + other), x, y)
    options = Options(state={"state": "0"}, initial={"state": x}, threads=threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it runs on one thread
        exe = xla_wasm.load(xla_wasm.compile(module, options))
    for expected in (x + y, y + y, y + y):
        np.testing.assert_array_equal(exe.run(y)[0], expected)
    np.testing.assert_array_equal(exe.get("state"), y)
