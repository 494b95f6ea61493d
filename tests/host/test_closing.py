"""Executables beside their runs: closed, shown, pickled, copied and awaited."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.paths import ROOT
from tests.support.toy_artifact import BIAS, SIDECAR, toy
from xla_wasm import ArgumentError, Artifact, Executable, HloModule, Options, RunError

ADD = (
    "HloModule add\n\nENTRY e {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  ROOT z = f32[4] add(x, y)\n}\n"
)
COUNTER = """HloModule counter

ENTRY e {
  step = s32[] parameter(0)
  count = s32[] parameter(1)
  total = s32[] parameter(2)
  next = s32[] add(count, step)
  sum = s32[] add(total, next)
  ROOT r = (s32[], s32[]) tuple(next, sum)
}
"""
ASKING = """HloModule asking

ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(x), custom_call_target="wait", api_version=API_VERSION_TYPED_FFI
}
"""
HALVES = """HloModule halves, num_partitions=2

ENTRY e {
  x = f32[2] parameter(0)
  w = f32[2] parameter(1)
  ROOT y = f32[2] add(x, w)
}
"""
ONE = np.ones(4, np.float32)


def add() -> Artifact:
    return xla_wasm.compile(HloModule.from_text(ADD), Options(weights=("y",)))


def counter() -> Executable:
    return xla_wasm.load(xla_wasm.compile(HloModule.from_text(COUNTER), Options(state=((1, 0), (2, 1)))))


CALLS: dict[str, Callable[[Executable], Any]] = {
    "run": lambda exe: exe.run(ONE),
    "run_async": lambda exe: asyncio.run(exe.run_async(ONE)),
    "profile": lambda exe: exe.profile(ONE),
    "run_replicated": lambda exe: exe.run_replicated([[ONE]]),
    "profile_replicated": lambda exe: exe.profile_replicated([[ONE]]),
    "set": lambda exe: exe.set("y", ONE),
    "get": lambda exe: exe.get("y"),
    "input": lambda exe: exe.input("x"),
    "output": lambda exe: exe.output("result"),
    "clone": lambda exe: exe.clone(),
    "pickle": pickle.dumps,
    "with": lambda exe: exe.__enter__(),
}


def test_every_call_says_that_it_is_closed() -> None:
    exe = xla_wasm.load(add())
    exe.set("y", ONE)
    for call in CALLS.values():
        call(exe)
    exe.close()
    exe.close()
    for name, call in {**CALLS, "run_global": lambda exe: exe.run_global([ONE])}.items():
        with pytest.raises(RunError, match="^'add' is closed: load it again$"):
            call(exe)
            pytest.fail(name)
    assert repr(exe) == "<Executable 'add': x f32[4] -> result f32[4]; weight y f32[4]; closed>"


def test_with_closes_and_a_clone_stays_open() -> None:
    with xla_wasm.load(add()) as exe:
        exe.set("y", ONE)
        other = exe.clone()
    assert exe.closed and not other.closed
    np.testing.assert_array_equal(other.run(ONE)[0], 2 * ONE)


def test_views_outlive_their_executable() -> None:
    exe = xla_wasm.load(add())
    exe.set("y", ONE)
    view = exe.output("result")
    exe.run(ONE)
    exe.close()
    np.testing.assert_array_equal(view, 2 * ONE)


def test_a_run_under_way_ends_as_it_would() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(x: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return 3 * x

    exe = xla_wasm.load(
        xla_wasm.compile(HloModule.from_text(ASKING), Options(host_calls=("wait",))), custom_calls={"wait": wait}
    )
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(exe.run(ONE)[0]))
    thread.start()
    assert begun.wait(60)
    exe.close()
    with pytest.raises(RunError, match="closed"):
        exe.run(ONE)
    go_on.set()
    thread.join(60)
    np.testing.assert_array_equal(results[0], 3 * ONE)
    assert not exe._first.pool._idle


def test_who_waits_for_an_instance_is_told() -> None:
    """A module with state has one instance."""
    text = ASKING.replace("x = f32[4] parameter(0)", "x = f32[4] parameter(0)\n  s = f32[] parameter(1)").replace(
        "ROOT y", "y"
    )
    text = text.replace("\n}", "\n  ROOT r = (f32[4], f32[]) tuple(y, s)\n}")
    begun, go_on = threading.Event(), threading.Event()

    def wait(x: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return x

    options = Options(host_calls=("wait",), state=((1, 1),))
    exe = xla_wasm.load(xla_wasm.compile(HloModule.from_text(text), options), custom_calls={"wait": wait})
    errors: list[BaseException] = []

    def second() -> None:
        try:
            exe.run(ONE)
        except BaseException as error:
            errors.append(error)

    first = threading.Thread(target=lambda: exe.run(ONE))
    first.start()
    assert begun.wait(60)
    other = threading.Thread(target=second)
    other.start()
    time.sleep(0.05)
    exe.close()
    other.join(60)
    assert [str(error) for error in errors] == ["'asking' is closed: load it again"]
    go_on.set()
    first.join(60)


def test_threads_end() -> None:
    large = ADD.replace("f32[4]", "f32[100000]")
    exe = xla_wasm.load(xla_wasm.compile(HloModule.from_text(large), Options(threads=True)), threads=3)
    x = np.ones(100000, np.float32)
    exe.run(x, x)
    pool = exe._first.pool._idle[0].thread_pool
    assert pool is not None
    while pool._unclaimed:  # threads that are about to begin
        time.sleep(0.001)
    assert len(pool._running) == 2
    view = exe.input("x")
    exe.close()
    assert not pool._running
    assert view[0] == 1


def test_the_memory_goes() -> None:
    import weakref

    exe = xla_wasm.load(add())
    gone = weakref.ref(exe._first.pool._idle[0])
    exe.close()
    assert gone() is None


def test_the_lines() -> None:
    assert repr(xla_wasm.load(toy())) == (
        "<Executable 'toy': x f32[2,3], k s64[] -> y f32[2,3], k_next s64[], positive pred[2,3]; weight w f32[2,3]; "
        "state count s32[]>"
    )
    artifact = add()
    assert (
        repr(artifact) == f"<Artifact 'add': x f32[4] -> result f32[4]; weight y f32[4]; {len(artifact.wasm):,} bytes>"
    )
    assert repr(Artifact(b"", {"name": "odd", "parameters": [{}]})) == "<Artifact 'odd': 0 bytes>"


def test_lines_of_large_interfaces_and_odd_names_are_short_and_harmless() -> None:
    leaf = {"element_type": "f32", "dimensions": [2], "bytes": 8, "sizes": [4]}
    names = ["a\x1b[31m\nb", "n" * 1000, *map(str, range(1000))]
    parameters = [{**leaf, "name": name, "kind": "input"} for name in names]
    artifact = Artifact(b"", {"name": "<b>&", "parameters": parameters, "results": []})
    line = repr(artifact)
    assert len(line) < 300 and line.isprintable() and "f32[<=2]" in line and "and 998 more -> no outputs" in line
    html = artifact._repr_html_()
    assert html.count("<tr>") == 1003 and "<b>&lt;b&gt;&amp;</b>" in html and "\x1b" not in html


def test_html_of_an_executable() -> None:
    exe = xla_wasm.load(toy())
    html = exe._repr_html_()
    assert "<tr><td>weight</td><td>w</td><td>f32[2,3]</td>" in html and html.count("<tr>") == 1 + 7


@pytest.mark.parametrize(
    "again", [lambda exe: pickle.loads(pickle.dumps(exe)), copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"]
)
def test_states_and_weights_travel(again: Callable[[Executable], Executable]) -> None:
    exe = counter()
    for _ in range(3):
        exe.run(2)
    other = again(exe)
    exe.run(2)
    assert [int(x.get(name)) for x in (exe, other) for name in ("count", "total")] == [8, 20, 6, 12]
    with xla_wasm.load(toy()) as weighted:
        weighted.set("w", np.full((2, 3), 3, np.float32))
        weighted.set("count", 5)
        other = again(weighted)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(other.run(x, 1)[0], 2 + 3 + BIAS + SIDECAR)
    assert other.get("count") == 6


def test_values_of_several_devices_travel() -> None:
    exe = xla_wasm.load(xla_wasm.compile(HloModule.from_text(HALVES), Options(weights=(1,))))
    exe.set("w", np.float32([1, 2]))
    exe.set("w", np.float32([3, 4]), 1)
    x = np.zeros(2, np.float32)
    for other in (pickle.loads(pickle.dumps(exe)), exe.clone()):  # before the second device is made
        assert [r[0].tolist() for r in other.run_replicated([[x], [x]])] == [[1, 2], [3, 4]]
    exe.run_replicated([[x], [x]])
    other = pickle.loads(pickle.dumps(exe))
    assert [r[0].tolist() for r in other.run_replicated([[x], [x]])] == [[1, 2], [3, 4]]


def test_options_travel() -> None:
    exe = xla_wasm.load(add(), fuel=10**6, timeout=9.5, memory_limit=1 << 20, physical=True)
    other = pickle.loads(pickle.dumps(exe))
    assert other._limits == exe._limits and other._origin[1]
    with pytest.raises(ArgumentError, match="'y' has not been set"):
        other.run(bytes(16))
    strict = pickle.loads(pickle.dumps(xla_wasm.load(add(), untrusted=True)))
    assert strict._limits.untrusted and strict._limits.fuel == xla_wasm.load(add(), untrusted=True)._limits.fuel


def test_a_lost_state_is_not_pickled() -> None:
    exe = xla_wasm.load(toy())
    exe.set("w", np.zeros((2, 3), np.float32))
    with pytest.raises(RunError, match="failed in step"):
        exe.run(np.full((2, 3), -1, np.float32), 1)
    with pytest.raises(RunError, match="the state 'count' was lost .*: set it again"):
        pickle.dumps(exe)


def test_an_artifact_with_views_of_its_file_is_pickled() -> None:
    artifact = Artifact([b"ab", memoryview(b"cd")], {"name": "parts"}, [memoryview(b"ef"), b"g"])
    other = pickle.loads(pickle.dumps(artifact))
    assert (other.wasm, other.weights, other.manifest) == (b"abcd", b"efg", artifact.manifest)


def test_a_new_process_takes_it(tmp_path: Any) -> None:
    exe = counter()
    exe.run(5)
    (tmp_path / "exe.pickle").write_bytes(pickle.dumps(exe))
    script = (
        "import pickle, sys; exe = pickle.load(open(sys.argv[1], 'rb')); exe.run(1); print(exe.get('count'), "
        "exe.get('total'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "exe.pickle"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("6 11\n", "")


def test_runs_are_awaited_side_by_side() -> None:
    def wait(x: Any) -> Any:
        barrier.wait(60)
        return x

    exe = xla_wasm.load(
        xla_wasm.compile(HloModule.from_text(ASKING), Options(host_calls=("wait",))), custom_calls={"wait": wait}
    )
    count = min(2, exe._first.pool._limit)
    barrier = threading.Barrier(count + 1)
    ticks = 0

    async def main() -> list[Any]:
        nonlocal ticks
        runs = asyncio.gather(*(exe.run_async(i * ONE) for i in range(count)))
        while barrier.n_waiting < count:
            ticks += 1
            await asyncio.sleep(0.001)
        barrier.wait(60)
        return await runs

    results = asyncio.run(main())
    assert [result[0].tolist() for result in results] == [[i] * 4 for i in range(count)] and ticks
    with pytest.raises(ArgumentError, match="takes 1 argument "):
        asyncio.run(exe.run_async())


def test_the_document() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    assert f"# {names['exe']!r}\n" in text
