"""Artifacts for threads under wasmtime: the same bits with any number of threads, whatever goes wrong in one."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import wasmtime

import xla_wasm
from tests.support import replica_programs, seeds
from tests.support.at_once import at_once
from tests.support.closeness import Array, allclose, assert_all, same_bits
from tests.support.collective_programs import Grid, every_collective
from tests.support.forks_and_joins import CALLS, COUNTS, FORKS, LOST
from tests.support.paths import ROOT
from tests.support.random_family import draw_family
from tests.support.random_placed import draw_placed
from tests.support.random_programs import draw_program
from tests.support.random_values import Draw
from tests.support.random_writer import draw_writer
from xla_wasm import ArgumentError, HloModule, LimitError, Options, RunError, evaluate
from xla_wasm.artifact import Artifact
from xla_wasm.assemble.threads import ASLEEP, TICKET
from xla_wasm.compiler import trace
from xla_wasm.host import thread_pool
from xla_wasm.host.executor import Executable
from xla_wasm.host.thread_pool import SharedMemory, ThreadPool, cpus
from xla_wasm.jax import lower
from xla_wasm.loop import pieces
from xla_wasm.loop.ir import Call, Func
from xla_wasm.lowering import kernel_writer
from xla_wasm.passes import reductions
from xla_wasm.plan.parts import share
from xla_wasm.plan.plan import Launch, Plan, all_steps
from xla_wasm.target import FAILED
from xla_wasm.wasm.binary import read_module
from xla_wasm.wasm.validate import validate


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the smallest kernels shared, trip by trip, and the smallest sums divided."""
    monkeypatch.setattr(pieces, "_CHUNK", 1)
    monkeypatch.setattr(kernel_writer, "_CALL", 1)
    monkeypatch.setattr(reductions, "_LEAST", 4)


def zeros(*dims: int) -> Array:
    return np.zeros(dims, np.float32)


def product(threads: bool = True, **options: Any) -> Artifact:
    return xla_wasm.compile(
        lower(lambda a, b: a @ b, zeros(96, 128), zeros(128, 160)), Options(threads=threads, **options)
    )


def factors() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32) for shape in ((96, 128), (128, 160))]


def fill_own_memory(exe: Executable, threads: int) -> None:
    """Fills with ones what threads have for themselves, behind all else: what a kernel reads there it must have
    written."""
    own = exe.manifest.threads
    for instance in exe._first.pool._idle:
        shared, used = instance._shared, len(instance.memory)
        assert own is not None and shared is not None
        ctypes.memset(shared.address + used, 0xFF, (threads - 1) * own.bytes)


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("draw", [draw_program, draw_family, draw_writer, draw_placed])
def test_random_programs(draw: Any) -> None:
    for seed in range(seeds.count(25, 500)):
        rng = np.random.default_rng(seed)
        module, arguments = draw(Draw(lambda low, high, rng=rng: int(rng.integers(low, high + 1))))
        target = ("simd128", "relaxed-simd")[seed % 2]
        expected = xla_wasm.load(xla_wasm.compile(module, Options(target=target))).run(*arguments)
        artifact = xla_wasm.compile(module, Options(target=target, threads=True))
        for threads in (1, 2, 3, 7):
            exe = xla_wasm.load(artifact, threads=threads)
            for _ in range(2):
                fill_own_memory(exe, threads)
                for actual, wanted in zip(exe.run(*arguments), expected, strict=True):
                    assert actual.tobytes() == wanted.tobytes(), f"seed {seed}, {threads} threads"


PROGRAMS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "products": (lambda a, b: jnp.tanh(a @ b) + 1, ((256, 256), (256, 256))),
    "a vector by a matrix": (lambda a, b: a @ b, ((1, 512), (512, 512))),
    "few rows and a rest of columns": (lambda a, b: jnp.tanh(a @ b)[::-1], ((5, 512), (512, 1003))),
    "batches": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), ((6, 64, 64), (6, 64, 64))),
    "rows and columns": (lambda a: (jax.nn.softmax(a), a.sum(0), a.max(1), jnp.cumsum(a, 1)), ((256, 300),)),
    "two ways": (lambda a: a.sum(0) + a.sum(1), ((256, 256),)),
    "sorted": (lambda a: (jnp.sort(a, 1), jax.lax.top_k(a, 5)), ((64, 400),)),
    "moved": (lambda a: (jnp.roll(a, 3, 0) + a.T, jnp.pad(a, 2), a.at[3:9].add(1)), ((256, 256),)),
    "gathered": (lambda a: a[jnp.arange(512) % 200] * 2, ((256, 256),)),
    "images": (
        lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        ((2, 24, 24, 16), (3, 3, 16, 32)),
    ),
    "narrow images": (
        lambda x, w: jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=32
        ),
        ((1, 40, 40, 32), (3, 3, 1, 32)),
    ),
    "a loop": (lambda a: jax.lax.fori_loop(0, 5, lambda i, x: jnp.sin(x) @ a + i, a), ((128, 128),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, shapes = PROGRAMS[name]
    rng = np.random.default_rng(1)
    arguments = [rng.standard_normal(shape, np.float32) for shape in shapes]
    module = lower(function, *arguments)
    for target in ("simd128", "relaxed-simd"):
        expected = xla_wasm.load(xla_wasm.compile(module, Options(target=target))).run(*arguments)
        artifact = xla_wasm.compile(module, Options(target=target, threads=True))
        validate(artifact.wasm)
        for threads in (1, 2, 3):
            exe = xla_wasm.load(artifact, threads=threads)
            for _ in range(5):
                for actual, wanted in zip(exe.run(*arguments), expected, strict=True):
                    assert actual.tobytes() == wanted.tobytes(), threads


def positive(rng: np.random.Generator, *dims: int) -> Array:
    a = rng.standard_normal(dims, np.float32)
    return a @ a.swapaxes(-1, -2) + dims[-1] * np.eye(dims[-1], dtype=np.float32)


ROUTINES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "transforms": (lambda a: (jnp.fft.fft(a), jnp.fft.rfft(a), jnp.fft.irfft(a[..., :9])), (37, 16, 16)),
    "transforms of odd lengths": (lambda a: (jnp.fft.fft(a[..., :11]), jnp.fft.rfft(a[..., :7])), (29, 3, 16, 16)),
    "cholesky and triangular systems": (
        lambda a: jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(a), a, lower=True),
        (23, 5, 5),
    ),
    "lu": (lambda a: jnp.linalg.solve(a, a[..., :2]), (19, 7, 7)),
    "qr": (lambda a: tuple(jnp.linalg.qr(a[..., :3])), (21, 6, 6)),
    "eigh": (lambda a: tuple(jnp.linalg.eigh(a)), (17, 5, 5)),
    "svd": (lambda a: tuple(jnp.linalg.svd(a[..., :4], full_matrices=False)), (2, 9, 6, 6)),
    "eigenvalues": (lambda a: jnp.linalg.eigvals(a), (15, 4, 4)),
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", ROUTINES)
def test_routines_of_the_c_runtime(name: str) -> None:
    """Of many rows or matrices each is computed by one thread, with memory that holds nothing useful before."""
    function, dims = ROUTINES[name]
    argument = positive(np.random.default_rng(3), *dims)
    module = lower(function, argument)
    options = Options(threads=True)
    steps = trace(module, options).plan.entries
    assert any(
        part
        for step, part in zip(steps, share(steps)[0])
        if isinstance(step, Launch) and any(map(is_call, loop_statements(step.func)))
    )
    expected = xla_wasm.load(xla_wasm.compile(module)).run(argument)
    artifact = xla_wasm.compile(module, options)
    for threads in (1, 2, 3):
        exe = xla_wasm.load(artifact, threads=threads)
        for _ in range(3):
            fill_own_memory(exe, threads)
            for actual, wanted in zip(exe.run(argument), expected, strict=True):
                assert actual.tobytes() == wanted.tobytes(), threads


def loop_statements(func: Func) -> list[Any]:
    """Returns the statements in the loops of a kernel's range."""
    return [statement for _, loop in func.ranges() for statement in loop.body.statements]


def is_call(statement: Any) -> bool:
    return isinstance(statement, Call)


SUMS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "one dimension": (lambda a: a.sum(), ((1 << 17,),)),
    "a size without divisors": (lambda a: a.max(), ((7, 100_003),)),
    "products": (lambda a, b: jnp.mean((a - b) ** 2), ((1000, 300), (1000, 300))),
    "and the elements": (lambda a: (jnp.tanh(a), jnp.tanh(a).sum(), a.sum(0)), ((512, 256),)),
    "of what is summed": (lambda a: (a.var(), a / jnp.sqrt((a * a).sum())), ((3, 5, 16384),)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_all_elements(name: str) -> None:
    """They are taken in parts that no number of threads changes, and are as near as others."""
    function, shapes = SUMS[name]
    rng = np.random.default_rng(2)
    arguments = [rng.standard_normal(shape, np.float32) for shape in shapes]
    module = lower(function, *arguments)
    artifact = xla_wasm.compile(module, Options(threads=True))
    plan = trace(module, Options(threads=True)).plan
    assert any(
        part
        for step, part in zip(plan.entries, share(plan.entries)[0])
        if isinstance(step, Launch) and step.func.name.startswith(("reduce", "tanh"))
    )
    first = xla_wasm.load(artifact, threads=1).run(*arguments)
    for threads in (2, 3):
        assert_all(xla_wasm.load(artifact, threads=threads).run(*arguments), first, same_bits)
    assert_all(first, evaluate(module, *arguments), allclose(2e-05, 2e-05))


@pytest.mark.parametrize(
    "dims", [(), (3,), (4096,), (2, 3), (1, 1, 70_000), (5, 70_001), (1023, 9), (65_537,), (3, 2, 2, 5000), (2048, 1)]
)
def test_parts_are_all_elements(dims: tuple[int, ...]) -> None:
    divided = reductions._divided(dims)
    if divided is not None:
        parts, count = divided
        assert np.prod(parts) == np.prod(dims) and 4 <= np.prod(parts[:count]) <= 1 << 16 and count < len(parts)


def planned(name: str) -> tuple[Plan, list[str]]:
    """A program's plan, and the kernels that threads share."""
    function, shapes = PROGRAMS[name]
    plan = trace(lower(function, *(zeros(*shape) for shape in shapes)), Options(threads=True)).plan
    steps = all_steps(plan)
    return plan, [step.func.name for step, part in zip(steps, share(steps)[0]) if part and isinstance(step, Launch)]


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("products", {"pack", "dot"}),
        ("a vector by a matrix", {"dot"}),
        ("few rows and a rest of columns", {"pack", "dot"}),
        ("batches", {"dot"}),
        ("gathered", {"multiply"}),
        ("images", {"winograd"}),
    ],
)
def test_what_is_shared(name: str, kernels: set[str]) -> None:
    assert kernels <= {kernel.partition(".")[0] for kernel in planned(name)[1]}


def test_the_module_imports_its_memory_and_nothing_else() -> None:
    artifact = product()
    module = read_module(artifact.wasm)
    (imported,) = module.imports
    assert (imported.module, imported.name, imported.what.shared) == ("host", "memory", True)
    assert all(data.offset is None for data in module.data)
    assert artifact.manifest["features"] == ["simd128", "threads"]
    assert product(False).manifest["features"] == ["simd128"] and "threads" not in product(False).manifest


def test_what_lasts_from_run_to_run() -> None:
    """Weights, states, views and results in given arrays."""

    def step(w: Any, s: Any, x: Any) -> Any:
        return (jnp.tanh(s @ w + x), (s + x @ w).sum(0))

    rng = np.random.default_rng(2)
    w, s, x = (rng.standard_normal((128, 128), np.float32) for _ in range(3))
    made = []
    for threads in (False, True):
        options = Options(weights=("w",), state=(("s", 0),), threads=threads)
        exe = xla_wasm.load(xla_wasm.compile(lower(step, w, s, x), options))
        exe.set("w", w)
        exe.set("s", s)
        given = exe.input("x")
        given[...] = x
        made.append([exe.run(given)[0].copy() for _ in range(3)] + [exe.get("s")])
    for one, other in zip(*made, strict=True):
        assert one.tobytes() == other.tobytes()


def test_callers_at_once() -> None:
    exe, arguments = xla_wasm.load(product(), threads=2), factors()
    (expected,) = xla_wasm.load(product(False)).run(*arguments)

    def call(caller: int) -> None:
        for i in range(20):
            assert exe.run(*arguments)[0].tobytes() == expected.tobytes(), (caller, i)

    at_once(call, range(4))


REDUCED = """
HloModule m
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
ENTRY main {
  a = f32[128,128] parameter(0)
  d = f32[128,128] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[128,128] all-reduce(d), replica_groups={}, to_apply=add
}"""


def squares(devices: int) -> list[list[Array]]:
    rng = np.random.default_rng(3)
    return [[rng.standard_normal((128, 128), np.float32)] for _ in range(devices)]


def helpers(exe: Executable) -> list[int]:
    """Returns the number of living threads beside its own for each device."""
    found = []
    for device in exe._devices.values():
        (instance,) = device.pool._idle
        assert instance.thread_pool is not None
        found.append(len(begun(instance.thread_pool)))
    return found


def begun(pool: ThreadPool) -> set[object]:
    """Returns the threads that have not ended, once those that were started last have begun."""
    while pool._unclaimed:
        time.sleep(0.001)
    return pool._running


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_devices(threads: int) -> None:
    """Each has its threads."""
    module = HloModule.from_text(REDUCED)
    exe = xla_wasm.load(xla_wasm.compile(module, Options(threads=True)), threads=threads)
    for devices in (2, 3, 1):
        expected = xla_wasm.load(xla_wasm.compile(module)).run_replicated(squares(devices))
        for _ in range(3):
            replica_programs.same(exe.run_replicated(squares(devices)), expected)
    if threads > 1:
        assert helpers(exe) == [threads - 1] * 3


def test_devices_divide_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "cpus", lambda: 6)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    module = HloModule.from_text(REDUCED)
    exe = xla_wasm.load(xla_wasm.compile(module, Options(threads=True)))
    for devices, wanted in (
        (2, [2, 2]),
        (1, [5, 2]),
        (3, [1, 1, 1]),
        (2, [2, 2, 1]),
        (4, [2, 2, 1, 0]),
        (3, [1, 1, 1, 0]),
    ):
        expected = xla_wasm.load(xla_wasm.compile(module)).run_replicated(squares(devices))
        replica_programs.same(exe.run_replicated(squares(devices)), expected)
        assert helpers(exe) == wanted, devices


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("grid", "element_type"), [(Grid(2, 1), "f32"), (Grid(2, 2), "bf16"), (Grid(3, 1), "s8")])
def test_collectives(grid: Grid, element_type: str, threads: int) -> None:
    for seed in range(seeds.count(1, 10)):
        program = every_collective(seed, grid, element_type)
        module, arguments = program.module(), program.arguments()
        numbers = {"num_replicas": grid.replicas, "num_partitions": grid.partitions}
        expected = xla_wasm.load(xla_wasm.compile(module)).run_replicated(arguments, **numbers)
        exe = xla_wasm.load(xla_wasm.compile(module, Options(threads=True)), threads=threads)
        for _ in range(2):
            replica_programs.same(exe.run_replicated(arguments, **numbers), expected)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_device_that_fails(threads: int) -> None:
    """The next run has new threads and the right results."""
    module = HloModule.from_text(REDUCED)
    expected = xla_wasm.load(xla_wasm.compile(module)).run_replicated(squares(2))
    exe = xla_wasm.load(xla_wasm.compile(module, Options(threads=True)), threads=threads)
    control = exe.manifest.threads
    assert control is not None
    exe.run_replicated(squares(2))
    for _ in range(2):
        (instance,) = exe._devices[1].pool._idle
        instance.memory[control.control + FAILED] = 1
        del instance
        with pytest.raises(RunError, match=r"^device 1: 'm' failed in step"):
            exe.run_replicated(squares(2))
        replica_programs.same(exe.run_replicated(squares(2)), expected)


# --- fork and join --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", FORKS)
def test_many_forks(name: str, threads: int) -> None:
    """No wake-up is lost, whether others spin, sleep or have not begun; ten million forks with --exhaustive."""
    forks = FORKS[name]
    exe = xla_wasm.load(forks.artifact(), threads=threads)
    alone = xla_wasm.load(xla_wasm.compile(forks.module()))

    def run(count: int) -> None:
        began = time.monotonic()
        (made,) = exe.run(np.int32(count), forks.x)
        assert time.monotonic() - began < LOST, "a wake-up was lost"
        assert made.tobytes() == alone.run(np.int32(count), forks.x)[0].tobytes()

    for count in (1, 7, 100):
        run(count)
    for _ in range(CALLS):
        run(seeds.count(*COUNTS[name]) // CALLS)
    for pause in (0, 1e-5, 1e-4, 3e-4, 1e-3):
        for _ in range(seeds.count(20, 300)):
            time.sleep(pause)
            run(3)
    assert all_sleep(exe, threads - 1)


def test_threads_that_sleep_are_woken() -> None:
    forks = FORKS["threads that sleep while others compute"]
    exe = xla_wasm.load(forks.artifact(), threads=3)
    exe.run(np.int32(1), forks.x)
    assert all_sleep(exe, 2)
    words, at = control_words(exe)
    for _ in range(100):
        caller = threading.Thread(target=exe.run, args=(np.int32(200), forks.x))
        caller.start()
        awake = False
        while caller.is_alive():
            awake = awake or words[at + ASLEEP // 4] < 2
        caller.join()
        if awake:
            return
    raise AssertionError("others sleep through it")


def control_words(exe: Executable) -> tuple[memoryview, int]:
    """The memory of an executable's one instance, and the first of the words by which threads work together."""
    control = exe.manifest.threads
    assert control is not None
    (instance,) = exe._first.pool._idle
    return instance.memory.cast("I"), control.control // 4


def all_sleep(exe: Executable, threads: int) -> bool:
    """Returns true if the count of sleeping threads comes to be `threads` within 4 s, and is the same 20 ms later."""
    words, at = control_words(exe)
    for _ in range(200):
        time.sleep(0.02)
        if words[at + ASLEEP // 4] == threads:
            break
    time.sleep(0.02)
    return words[at + ASLEEP // 4] == threads


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_options_that_make_no_sense() -> None:
    artifact = product()
    for threads in (0, -1, 1.5, True):
        with pytest.raises(ArgumentError, match="threads must be an integer above zero"):
            xla_wasm.load(artifact, threads=threads)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"compiled for one thread: compile it with Options\(threads=True\)"):
        xla_wasm.load(product(False), threads=2)
    with pytest.raises(ArgumentError, match="room for at most"):
        xla_wasm.load(artifact, threads=10**6)
    with pytest.raises(ArgumentError, match="fuel, which counts exactly, runs on one thread"):
        xla_wasm.load(artifact, threads=2, fuel=1000)
    with pytest.raises(ArgumentError, match="what nobody trusts runs on one thread"):
        xla_wasm.load(artifact, threads=2, untrusted=True)
    with pytest.raises(ArgumentError, match="threads are for modules, which a host runs; a command runs by itself"):
        Options(kind="command", threads=True)
    (expected,) = xla_wasm.load(product(False)).run(*factors())
    for limits in ({"fuel": 10**9}, {"untrusted": True}, {"threads": 1}):
        assert xla_wasm.load(artifact, **limits).run(*factors())[0].tobytes() == expected.tobytes()  # type: ignore[arg-type]


def test_the_memory_of_threads_counts() -> None:
    artifact = product()
    needed = artifact.manifest["pages"] * 65536
    with pytest.raises(LimitError, match="the limit is"):
        xla_wasm.load(artifact, memory_limit=needed, threads=2)
    xla_wasm.load(artifact, memory_limit=needed + 65536 * 2, threads=2).run(*factors())


def test_a_thread_that_fails() -> None:
    """The run ends with one error, and the next one is right."""
    exe, arguments = xla_wasm.load(product(), threads=2), factors()
    (expected,) = exe.run(*arguments)
    control = exe.manifest.threads
    assert control is not None
    for _ in range(3):
        # What the host does when a thread traps.
        memory = exe.input(exe.parameters[0].name)
        instance = exe._first.take(frozenset(), exe._budget())
        assert instance.thread_pool is not None
        instance.thread_pool.failure = "out of bounds memory access"
        instance.memory[control.control + FAILED] = 1
        exe._first.put_back(instance)
        del instance
        with pytest.raises(RunError, match=r"failed in step \d+ of .*: out of bounds memory access"):
            exe.run(*arguments)
        del memory
        assert exe.run(*arguments)[0].tobytes() == expected.tobytes()


def test_a_trap_in_a_thread_is_noticed() -> None:
    config = wasmtime.Config()
    config.wasm_threads = config.shared_memory = True
    engine = wasmtime.Engine(config)
    text = '(module (import "host" "memory" (memory 1 65536 shared)) (func (export "work") (param i32) unreachable))'
    shared, words = SharedMemory(engine, 1), memoryview(bytearray(256)).cast("I")
    pool = ThreadPool(wasmtime.Module(engine, text), shared, words, lambda: None)
    pool.start(2)
    begun(pool)
    pool.join()
    assert words[FAILED // 4] == 1 and "unreachable" in pool.failure


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_exception_while_threads_start(
    monkeypatch: pytest.MonkeyPatch, when: str, error: type[BaseException]
) -> None:
    """The next run starts those that are missing, and none twice."""
    exe, arguments = xla_wasm.load(product(), threads=4), factors()
    start, count, helped = thread_pool.start_new_thread, iter(range(100)), []

    def start_or_raise(function: Callable[..., object], numbers: tuple[int]) -> None:
        second = next(count) == 1
        if second and when == "before":
            raise error
        start(function, numbers)
        if second:
            raise error

    help_ = ThreadPool._help
    monkeypatch.setattr(ThreadPool, "_help", lambda pool, number: (helped.append(number), help_(pool, number)))
    with monkeypatch.context() as patch:
        patch.setattr(thread_pool, "start_new_thread", start_or_raise)
        with pytest.raises(error):
            exe.run(*arguments)
    for _ in range(3):
        assert exe.run(*arguments)[0].tobytes() == xla_wasm.load(product(), threads=1).run(*arguments)[0].tobytes()
    assert helpers(exe) == [3]
    assert sorted(helped) == [1, 2, 3]


def test_threads_that_have_ended() -> None:
    exe, arguments = xla_wasm.load(product(), threads=3), factors()
    (expected,) = exe.run(*arguments)
    instance = exe._first.take(frozenset(), exe._budget())
    assert instance.thread_pool is not None
    instance.thread_pool.end()
    instance.thread_pool.join()
    exe._first.put_back(instance)
    assert exe.run(*arguments)[0].tobytes() == expected.tobytes()


def many_products(timeout: float) -> Executable:
    """Loads a loop of as many products as its first argument says, for two threads."""

    def loop(n: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda i, y: jnp.tanh(y @ x), x)

    artifact = xla_wasm.compile(lower(loop, np.int32(0), zeros(128, 128)), Options(threads=True))
    return xla_wasm.load(artifact, threads=2, timeout=timeout)


def test_a_time_limit() -> None:
    exe = many_products(timeout=0.3)
    x = np.ones((128, 128), np.float32) / 128
    (expected,) = exe.run(np.int32(2), x)
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(LimitError, match=r"took longer than its 0\.3 s"):
            exe.run(np.int32(10**9), x)
        assert time.monotonic() - began < 10
        assert exe.run(np.int32(2), x)[0].tobytes() == expected.tobytes()


def test_a_chunk_that_nobody_ends() -> None:
    """A time limit ends the waiting for it, too."""
    exe = many_products(timeout=3)
    x = np.ones((128, 128), np.float32) / 128
    (expected,) = exe.run(np.int32(2), x)
    for _ in range(2):
        (instance,) = exe._first.pool._idle
        assert exe.manifest.threads is not None and instance.thread_pool is not None
        with taken(instance.thread_pool._shared, exe.manifest.threads.control + TICKET):
            with pytest.raises(LimitError, match=r"took longer than its 3 s"):
                for _ in range(
                    1000
                ):  # a run is long enough for a thief that shares its processor with others to see it
                    exe.run(np.int32(1000), x)
        del instance
        assert exe.run(np.int32(2), x)[0].tobytes() == expected.tobytes()


THIEF = """
(module
  (import "host" "memory" (memory 1 65536 shared))
  (func (export "take") (param $tickets i32) (param $trips i32) (result i32)
    (local $seen i64)
    (loop $again (result i32)
      (local.set $seen (i64.atomic.load (local.get $tickets)))
      (if (i64.lt_u (i64.and (local.get $seen) (i64.const 0xfffff))
                    (i64.and (i64.shr_u (local.get $seen) (i64.const 20)) (i64.const 0xfffff)))
        (then
          (if (i64.eq (local.get $seen) (i64.atomic.rmw.cmpxchg (local.get $tickets)
                (local.get $seen) (i64.add (local.get $seen) (i64.const 1))))
            (then (return (i32.const 1))))))
      (br_if $again (local.tee $trips (i32.sub (local.get $trips) (i32.const 1))))
      (i32.const 0))))
"""


@contextmanager
def taken(shared: SharedMemory, tickets: int) -> Iterator[None]:
    """Has another thread take the next ticket that it sees, for a chunk that it never does."""
    over = threading.Event()
    store = wasmtime.Store(shared.engine)
    store.set_epoch_deadline(1 << 62)
    take: Any = wasmtime.Instance(store, wasmtime.Module(shared.engine, THIEF), [shared]).exports(store)["take"]

    def steal() -> None:
        while not over.is_set() and not take(store, tickets, 100_000):
            pass

    thread = threading.Thread(target=steal)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_the_threads_of_what_nobody_holds_end() -> None:
    before = threading.active_count()
    for _ in range(5):
        xla_wasm.load(product(), threads=3).run(*factors())
    gc.collect()
    for _ in range(200):
        if threading.active_count() <= before:
            break
        time.sleep(0.02)
    assert threading.active_count() <= before


AT_THE_END = """
import os, sys
import numpy as np
import xla_wasm
exe = xla_wasm.load(sys.argv[1], threads=3)
arrays = [np.ones((96, 128), np.float32), np.ones((128, 160), np.float32)]
assert (exe.run(*arrays)[0] == 128).all()
{then}
"""
ENDINGS = {
    "the end": "",
    "exit": "sys.exit(0)",
    "fork": """
child = os.fork()
assert (exe.run(*arrays)[0] == 128).all()
if child:
    assert os.waitpid(child, 0)[1] == 0
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_ends(ending: str, tmp_path: Any) -> None:
    path = product().save(tmp_path / "product.wasm")
    code = AT_THE_END.format(then=ENDINGS[ending])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, path], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_by_default_all_processors_help() -> None:
    exe = xla_wasm.load(product())
    instance = exe._first.take(frozenset(), exe._budget())
    assert (instance.thread_pool is not None) == (cpus() > 1)
    exe._first.put_back(instance)
    assert cpus() == len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else True


def test_the_document() -> None:
    text = (ROOT / "docs" / "threads.md").read_text()
    exec(text.split("```python\n")[1].split("```")[0], {})
