"""Calls through wasmtime's public API, for packages that are not what the fast ones need: all is as with those."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
import wasmtime

from tests.host import test_executor, test_limits, test_replicas
from tests.support.toy_artifact import toy
from xla_wasm.host import binding, instance
from xla_wasm.host.executor import load

PRIVATE = import_module("wasmtime._ffi")
FREE = ("test_run_is_cheap",)
"""A test that is about what the fast calls cost."""
SUITE: list[Callable[[], None]] = [
    test
    for module in (test_executor, test_limits, test_replicas)
    for name, test in vars(module).items()
    if name.startswith("test_")
    and name not in FREE
    and not inspect.signature(test).parameters
    and not hasattr(test, "hypothesis")
]
"""The tests of the host that need no fixture: runs, weights, states, traps, limits, clones,
many instances, several devices."""


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    way = binding.PublicCalls()
    monkeypatch.setattr(instance, "calls", lambda: way)
    yield


def test_the_fast_calls_work_here() -> None:
    assert isinstance(binding.calls(), binding.FastCalls)
    assert binding._is_right(binding.PublicCalls())


@pytest.mark.parametrize("test", SUITE, ids=lambda test: test.__name__)
def test_the_suite_of_the_host(public: None, test: Callable[[], None]) -> None:
    test()


@pytest.mark.parametrize("column_major", [False, True])
def test_runs(public: None, column_major: bool) -> None:
    test_executor.test_run(column_major)


@pytest.mark.parametrize("way", ["run", "profile"])
def test_runs_that_never_end(public: None, way: str) -> None:
    test_limits.test_a_run_that_never_ends(way)


def test_an_instance_goes_at_once(public: None) -> None:
    exe = load(toy())
    exe.set("w", test_executor.W)
    exe.run(test_executor.X, test_executor.K)
    gone = weakref.ref(exe._first.pool._idle[0])
    gc.disable()
    try:
        exe.close()
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (wasmtime.Store, "_context"),
        (wasmtime.Instance, "_instance"),
        (wasmtime.Trap, "_from_ptr"),
        *((PRIVATE, name) for name in ("dll", "wasmtime_val_raw_t", "wasmtime_memory_data")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_package_without_what_the_fast_calls_need(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    if name == "_instance":  # an attribute of each instance
        monkeypatch.setattr(binding, "_export", lambda store, instance, name: instance._no_longer)
    else:
        monkeypatch.delattr(owner, name)
    assert not binding._is_right(binding.FastCalls())


def test_calls_that_give_another_number(monkeypatch: pytest.MonkeyPatch) -> None:
    bind = binding.FastCalls.bind

    def off_by_one(*arguments: Any) -> Callable[[int], int]:
        call = bind(*arguments)
        return lambda argument: call(argument) + 1

    monkeypatch.setattr(binding.FastCalls, "bind", off_by_one)
    assert not binding._is_right(binding.FastCalls())
