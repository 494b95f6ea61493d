"""The wasmtime host on a hand-written artifact: calls, arguments, weights, state, limits, failures, and manifests that
lie."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xla_wasm
from tests.support.at_once import at_once
from tests.support.toy_artifact import LIES, SHAPE, SIDECAR, WAT, change, toy, toy_expected, toy_manifest, with_manifest
from xla_wasm import HloModule, Options, evaluate
from xla_wasm.artifact import Artifact
from xla_wasm.errors import ArgumentError, ArtifactError, LimitError, RunError, XlaWasmError
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.host.arrays import Slot, dtype_of
from xla_wasm.host.budget import UNLIMITED, Budget
from xla_wasm.host.executor import Executable, load
from xla_wasm.host.leaf import Leaf

X = np.array([[1, -3, 3], [0.5, 0, 9]], np.float32)
W = np.array([[1, 2, 3], [4, 5, 6]], np.float32) / 8
K = np.int64(41)


def ready(**options: Any) -> Executable:
    limits = {name: options.pop(name) for name in ("memory_limit", "fuel", "timeout") if name in options}
    exe = load(toy(**options), **limits)
    exe.set("w", W)
    return exe


def assert_same(got: list[np.ndarray[Any, Any]], want: list[np.ndarray[Any, Any]]) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.dtype == b.dtype and a.shape == b.shape and a.flags.c_contiguous
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("column_major", [False, True])
def test_run(column_major: bool) -> None:
    exe = ready(column_major=column_major)
    sidecar = SIDECAR.reshape(-1).reshape(SHAPE, order="F") if column_major else SIDECAR
    assert_same(exe.run(X, K), toy_expected(X, W, 41, sidecar))
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    assert not strided.flags.c_contiguous
    assert_same(exe.run(strided, K), toy_expected(X, W, 41, sidecar))
    assert_same(exe.run(np.asfortranarray(X), K), toy_expected(X, W, 41, sidecar))
    np.testing.assert_array_equal(exe.get("w"), W)


def test_results_are_copies() -> None:
    exe = ready()
    first = exe.run(X, K)
    before = [array.copy() for array in first]
    exe.run(X + 1, K)
    assert_same(first, before)


def test_parameters_and_results() -> None:
    exe = ready()
    assert [(p.name, p.kind) for p in exe.parameters] == [
        ("x", "input"),
        ("w", "weight"),
        ("k", "input"),
        ("count", "state"),
    ]
    assert [str(r) for r in exe.results] == ["f32[2,3]", "s64[]", "pred[2,3]", "s32[]"]


def test_python_values_are_converted_when_nothing_is_lost() -> None:
    exe = ready()
    assert_same(exe.run([[1, -3, 3], [0.5, 0, 9]], 41), toy_expected(X, W, 41))
    for bad in (1.5, True, 2**63, "a", None, [1]):
        with pytest.raises(ArgumentError, match=r"argument 1 \('k'\) must be int64\[\]"):
            exe.run(X, bad)
    with pytest.raises(ArgumentError, match="does not fit float32"):
        exe.run([[1e39, 0, 0], [0, 0, 0]], 1)
    with pytest.raises(ArgumentError, match="does not fit float32"):
        exe.run([[16777217, 0, 0], [0, 0, 0]], 1)
    with pytest.raises(ArgumentError, match="must be float32"):
        exe.run([[1, 2], [3]], 1)


@pytest.mark.parametrize(
    ("element_type", "value", "fits"),
    [
        ("u8", 255, True), ("u8", 256, False), ("u8", -1, False), ("s8", -128, True), ("s8", 128, False),
        ("u64", 2**64 - 1, True), ("u64", -1, False), ("s64", 2**63, False), ("s32", 1.0, False),
        ("s4", 7, True), ("s4", 8, False), ("u4", -1, False), ("pred", True, True), ("pred", 1, False),
        ("f16", 65504, True), ("f16", 65505, False), ("f16", 1e6, False), ("bf16", 0.1, True), ("f32", math.inf, True),
        ("f32", math.nan, True), ("f32", 1j, False), ("f64", 2**53 + 1, False), ("c64", 1 + 2j, True),
    ],
)  # fmt: skip
def test_conversion(element_type: str, value: Any, fits: bool) -> None:
    slot = Slot(Leaf("a", element_type, (), (), 0, 0, "input", Shape(element_type)), "argument 0")
    if fits:
        assert slot.accept(value).dtype == dtype_of(element_type)
    else:
        with pytest.raises(ArgumentError):
            slot.accept(value)


def test_every_element_type_has_a_dtype() -> None:
    for name, kind in TYPES.items():
        if kind.kind != "none":
            assert dtype_of(name).itemsize == kind.bytes, name
    assert dtype_of("f8e4m3fn") == ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X,), r"'toy' takes 2 arguments \(x: float32\[2,3\], k: int64\[\]\), got 1"),
        (
            (X.astype(np.float16), K),
            r"argument 0 \('x'\) must be float32\[2,3\], got float16\[2,3\]; convert it with .astype\('float32'\)",
        ),
        ((X.T, K), r"argument 0 \('x'\) must be float32\[2,3\], got float32\[3,2\]; .reshape\(\(2, 3\)\)"),
        ((X, np.int32(1)), r"argument 1 \('k'\) must be int64\[\], got int32\[\]"),
    ],
)
def test_wrong_arguments(arguments: tuple[Any, ...], message: str) -> None:
    exe = ready()
    with pytest.raises(ArgumentError, match=message):
        exe.run(*arguments)
    assert exe.get("count") == 0


def test_weights() -> None:
    exe = load(toy())
    with pytest.raises(ArgumentError, match="weight 'w' has not been set"):
        exe.run(X, K)
    with pytest.raises(ArgumentError, match="weight 'w' has not been set"):
        exe.get("w")
    with pytest.raises(ArgumentError, match=r"weight 'w' must be float32\[2,3\]"):
        exe.set("w", W.T)
    with pytest.raises(ArgumentError, match="'x' is an input of 'toy', and no weight or state: give it to run"):
        exe.set("x", X)
    for factor in (1, 2):
        exe.set("w", W * factor)
        assert_same(exe.run(X, K), toy_expected(X, W * factor, 41))


def test_weight_in_place() -> None:
    manifest = toy_manifest()
    manifest["parameters"][1] |= {"init": None, "offset": 1152}
    exe = ready(manifest=manifest)
    assert_same(exe.run(X, K), toy_expected(X, -W, 41))


def test_state_lives_between_runs() -> None:
    exe = ready()
    assert exe.get("count") == 0
    exe.run(X, K)
    exe.run(X, K)
    assert exe.get("count") == 2
    exe.set("count", 10)
    exe.run(X, K)
    assert exe.get("count") == 11 and exe.get("count").dtype == np.int32


def test_a_trap_names_the_step_and_loses_the_state() -> None:
    exe = ready()
    exe.run(X, K)
    with pytest.raises(RunError, match="'toy' failed in step 0 of 3, affine.1: .*unreachable"):
        exe.run(np.full(SHAPE, -1, np.float32), K)
    for _ in range(2):
        with pytest.raises(RunError, match="state 'count' was lost"):
            exe.run(X, K)
        with pytest.raises(RunError, match="state 'count' was lost"):
            exe.get("count")
    exe.set("count", 5)
    assert_same(exe.run(X, K), toy_expected(X, W, 41))
    assert exe.get("count") == 6


def test_a_trap_without_state_leaves_the_executable_usable() -> None:
    exe = ready(state=False)
    for _ in range(3):
        with pytest.raises(RunError):
            exe.run(np.full(SHAPE, -1, np.float32), K)
        assert_same(exe.run(X, K), toy_expected(X, W, 41))


def test_profile() -> None:
    exe = ready()
    times = exe.profile(X, K)
    assert [name for name, _ in times] == ["affine.1", "add.2", "count.3"]
    assert all(seconds > 0 for _, seconds in times)
    assert exe.get("count") == 1


ENDLESS = np.full(SHAPE, -2, np.float32)


def test_fuel() -> None:
    exe = ready(fuel=100_000)
    assert_same(exe.run(X, K), toy_expected(X, W, 41))
    with pytest.raises(LimitError, match="step 0 of 3, affine.1: it used up its fuel of 100000"):
        exe.run(ENDLESS, K)
    with pytest.raises(LimitError, match="fuel of 10"):
        ready(fuel=10).run(X, K)


def test_timeout() -> None:
    exe = ready(timeout=0.05, state=False)
    for _ in range(2):
        begin = time.perf_counter()
        with pytest.raises(LimitError, match="affine.1: it took longer than its 0.05 s"):
            exe.run(ENDLESS, K)
        assert time.perf_counter() - begin > 0.04
        assert_same(exe.run(X, K), toy_expected(X, W, 41))
    with pytest.raises(LimitError):
        exe.profile(ENDLESS, K)


def test_timeout_of_one_call_does_not_end_another() -> None:
    brief, patient = ready(timeout=0.02, state=False), ready(timeout=30, state=False)
    stop = threading.Event()
    failures: list[Exception] = []

    def work() -> None:
        while not stop.is_set():
            try:
                patient.run(X, K)
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(5):
        with pytest.raises(LimitError):
            brief.run(ENDLESS, K)
    stop.set()
    thread.join()
    assert not failures


def test_memory_limit() -> None:
    with pytest.raises(LimitError, match="needs 65536 bytes of memory, the limit is 65535"):
        load(toy(), memory_limit=65535)
    assert_same(ready(memory_limit=65536).run(X, K), toy_expected(X, W, 41))
    for wrong in ({"fuel": 0}, {"timeout": -1.0}, {"memory_limit": 0}):
        with pytest.raises(ArgumentError, match="must be above zero"):
            load(toy(), **wrong)


def test_out_of_memory() -> None:
    """With no address space left, the error says how much was wanted."""
    script = f"""
import resource, sys
sys.path[:0] = {sys.path!r}
from tests.support.toy_artifact import toy
from xla_wasm.host.executor import load
from xla_wasm.errors import LimitError
kept = load(toy())  # what it takes is not free again
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), resource.RLIM_INFINITY))
try:
    load(toy())
except LimitError as error:
    print("limit:", error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "limit: no room for an instance with 65536 bytes of memory" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("state", [False, True])
def test_concurrent_calls(state: bool) -> None:
    exe = ready(state=state)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for i in range(200):
            x = rng.normal(size=SHAPE).astype(np.float32)
            assert_same(exe.run(x, i), toy_expected(x, W, i))

    at_once(work, range(8))
    if state:
        assert exe.get("count") == 1600


def test_weights_reach_all_instances() -> None:
    exe = ready(state=False)
    with exe_instances(exe, 2):
        pass
    exe.set("w", W * 3)
    with exe_instances(exe, 2) as instances:
        for instance in instances:
            instance.apply(exe._first.weights)
            instance.inputs[0][...] = X
            instance.run()
            np.testing.assert_array_equal(instance.outputs[0], toy_expected(X, W * 3, 0)[0])


class exe_instances:
    """Takes several instances of the pool at once."""

    def __init__(self, exe: Executable, count: int) -> None:
        self.device = exe._first
        self.device.pool._limit = max(self.device.pool._limit, count)
        self.taken = [self.device.take(set(), UNLIMITED) for _ in range(count)]

    def __enter__(self) -> list[Any]:
        return self.taken

    def __exit__(self, *_: object) -> None:
        for instance in self.taken:
            self.device.put_back(instance)


def test_no_memory_for_another_instance() -> None:
    """Then the calls make do with the instances there are."""
    exe = ready(state=False)
    pool = exe._first.pool

    refused = threading.Event()

    def refuse(budget: Budget) -> Any:
        refused.set()
        raise LimitError("no room")

    pool._limit, pool._make = 4, refuse
    with exe_instances(exe, 1):
        thread = threading.Thread(target=exe.run, args=(X, K))
        thread.start()
        assert refused.wait(60)
        thread.join(0.05)
        assert thread.is_alive()
    thread.join(60)
    assert not thread.is_alive() and pool._limit == 1


def test_a_busy_pool_makes_callers_wait() -> None:
    exe = ready()
    with exe_instances(exe, 1):
        done: list[Any] = []
        thread = threading.Thread(target=lambda: done.append(exe.run(X, K)))
        thread.start()
        thread.join(0.05)
        assert not done
    thread.join(60)
    assert len(done) == 1


def test_run_is_cheap() -> None:
    exe = ready()
    exe.run(X, K)
    best = min(timed(lambda: exe.run(X, K)) for _ in range(300))
    assert best < 500e-6


def timed(work: Any) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


# Artifacts that lie.


@pytest.mark.parametrize(
    ("path", "value", "message"),
    LIES,
)
def test_lying_manifests(path: str, value: Any, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        load(toy(manifest=change(path, value)))


@pytest.mark.parametrize(
    ("wat", "message"),
    [
        (WAT.replace("(module", '(module (import "a" "b" (func))', 1), r"must import nothing, but imports a\.b"),
        (WAT.replace('(export "step")', ""), "exports no function 'step'"),
        (
            WAT.replace('(func (export "run") (result i32)', '(func (export "run") (param i64) (result i32)'),
            "'run' has the wrong type",
        ),
        (WAT.replace("1 1)", "1 2)"), "states 1 pages of memory, the module 1 to 2"),
        (WAT.replace('(export "memory")', ""), "no plain 32-bit memory"),
        (WAT.replace("(module", "(module (table 99999999 funcref)", 1), "asks for more than its manifest states"),
        (WAT.replace("(module", '(module (data (i32.const 65535) "ab")', 1), "traps when it starts"),
        (WAT.replace("(module", "(module (start $s) (func $s unreachable)", 1), "traps when it starts"),
    ],
)
def test_lying_modules(wat: str, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        load(toy(wat))


def test_misbehaving_modules() -> None:
    exe = load(toy(WAT.replace("(i32.const 0)))\n", "(i32.const 1)))\n")))
    exe.set("w", W)
    with pytest.raises(RunError, match="waits for its host"):
        exe.run(X, K)
    exe = load(toy(WAT.replace("(return (i32.const 1))", "(return (i32.const 7))", 1)))
    exe.set("w", W)
    with pytest.raises(ArtifactError, match="jumps to step 7 of 3"):
        exe.profile(X, K)
    with pytest.raises(RunError, match="failed preparing the weights of 'b'"):
        load(toy(WAT.replace("(i32.eq (local.get $i) (i32.const 0))", "(i32.const 0)")))
    with pytest.raises(LimitError, match="took longer"):
        load(toy(WAT.replace("(module", "(module (start $s) (func $s (loop $l (br $l)))", 1)), timeout=0.02)


def test_sidecar() -> None:
    with pytest.raises(ArtifactError, match="must have 24 bytes and none was given"):
        load(toy(weights=b""))
    with pytest.raises(ArtifactError, match="the weights of 'v' are not those"):
        load(toy(weights=bytes(24)))


def use(artifact: bytes) -> None:
    """All that a host does with an artifact, under limits, since a damaged one may loop for ever."""
    exe = load(
        Artifact(artifact, Artifact.open(artifact).manifest, SIDECAR.tobytes()), fuel=20_000, memory_limit=1 << 22
    )
    for parameter in exe.parameters:
        if parameter.kind != "input":
            exe.set(parameter.name, np.zeros(parameter.dimensions, dtype_of(parameter.element_type)))
            exe.get(parameter.name)
    arguments = [np.ones(p.dimensions, dtype_of(p.element_type)) for p in exe.parameters if p.kind == "input"]
    exe.run(*arguments)
    exe.profile(*arguments)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, 4, 65535, 2**31, 2**32, 2**53, -1])
    | st.floats()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += places(item, (*path, key))
    return found


PLACES = places(toy_manifest())
GOOD = toy()


def many(cases: int) -> settings:
    return settings(max_examples=cases, database=None, suppress_health_check=list(HealthCheck))


@many(1000)
@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=3), st.booleans())
def test_mutated_manifests(changes: list[tuple[tuple[Any, ...], Any]], remove: bool) -> None:
    manifest = copy.deepcopy(toy_manifest())
    for path, value in changes:
        place: Any = manifest
        try:
            for key in path[:-1]:
                place = place[key]
            if remove:
                del place[path[-1]]
            else:
                place[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            pass
    bare = GOOD.wasm[: -len(with_manifest(b"", toy_manifest()))]
    try:
        use(with_manifest(bare, json.dumps(manifest).encode()))
    except XlaWasmError:
        pass


@many(1000)
@given(st.data())
def test_mutated_bytes(data: st.DataObject) -> None:
    damaged = bytearray(GOOD.wasm)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        use(bytes(damaged))
    except XlaWasmError:
        pass


@many(200)
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    for artifact in (data, b"\0asm\1\0\0\0" + data, with_manifest(b"\0asm\1\0\0\0", data)):
        try:
            use(artifact)
        except XlaWasmError:
            pass


ORDERED = """HloModule m

ENTRY e {
  w = f32[3,4] parameter(0)
  s = f32[3,4] parameter(1)
  x = f32[3,4] parameter(2)
  t = token[] after-all()
  i = (f32[3,4], token[]) infeed(t)
  f = f32[3,4] get-tuple-element(i), index=0
  c = f32[3,4] custom-call(f), custom_call_target="same"
  y = f32[3,4] add(w, x)
  z = f32[3,4] add(y, s)
  ROOT r = (f32[3,4], f32[3,4], f32[3,4]) tuple(z, y, c)
}
"""


def test_other_orders_of_bytes(tmp_path: Path) -> None:
    """Arrays whose bytes come the other way round, wherever arrays come in."""
    module, x = HloModule.from_text(ORDERED), np.arange(12, dtype=np.float32).reshape(3, 4)
    turned = x.astype(x.dtype.newbyteorder())
    calls: dict[str, Any] = {"same": lambda a: turned}
    np.save(tmp_path / "w.npy", turned)
    xla_wasm.safetensors.save(tmp_path / "s.safetensors", {"s": turned})
    options = Options(weights=("w",), state=(("s", "result.0"),), initial={"s": turned}, host_calls=("same",))
    exe = xla_wasm.load(xla_wasm.compile(module, options), custom_calls=calls)
    for weight, state in ((turned, turned), (tmp_path / "w.npy", tmp_path / "s.safetensors")):
        exe.set("w", weight)
        exe.set("s", state)
        results = [exe.run(turned, infeed=[turned]), exe.run({"x": turned}, infeed=[turned])]
        assert all(np.array_equal(y, 2 * x) and np.array_equal(c, x) for y, c in results)
        assert np.array_equal(exe.get("s"), 5 * x)
    z, y, c = evaluate(module, turned, turned, turned, infeed=[turned], custom_calls=calls)
    assert np.array_equal(z, 3 * x) and np.array_equal(y, 2 * x) and np.array_equal(c, x)
    with pytest.raises(ArgumentError, match=rf"needs an array of float32\[3,4\], got {turned.dtype.str}\[3,4\]"):
        exe.run(x, infeed=[x], out=[turned, x])
    for dtype in ("f2", "f8", "i2", "i4", "i8", "u2", "u4", "u8", "c8", "c16"):
        name = {"f": "f", "i": "s", "u": "u", "c": "c"}[dtype[0]] + str(8 * int(dtype[1:]))
        text = f"HloModule m\nENTRY e {{\n p = {name}[3] parameter(0)\n ROOT r = {name}[3] add(p, p)\n}}\n"
        values = np.array([1, 2, 300]).astype(np.dtype(dtype).newbyteorder())
        results = xla_wasm.load(xla_wasm.compile(HloModule.from_text(text))).run(values)
        assert results[0].dtype == np.dtype(dtype) and results[0].tolist() == [2, 4, 600]
