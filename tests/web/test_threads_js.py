"""Artifacts for threads in Node and in Chromium: the same bits with any number of threads, whatever becomes of a
worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playwright.sync_api import Browser

import xla_wasm
from tests.support import seeds
from tests.support.forks_and_joins import CALLS, COUNTS, FORKS, LOST
from tests.support.js_calls import ENGINES, IN_A_PAGE, RUNTIMES, Call, call_fixture, calling, isolated_site, nothing
from tests.support.web_server import Answer, Site
from tests.support.webkit import WebKit
from xla_wasm import Options
from xla_wasm.jax import lower


def programs() -> dict[str, tuple[Any, tuple[tuple[int, ...], ...]]]:
    """Functions of JAX and the dimensions of their arguments, which are f32."""
    return {
        "product": (lambda a, b: a @ b, ((96, 128), (128, 160))),
        "mixed": (lambda a, b: (jnp.tanh(a) @ b, a.sum(0), jnp.sort(a, 0), jnp.cumsum(a, 1)), ((128, 128), (128, 128))),
        "sum": (lambda a, b: a + b, ((1 << 16,), (1 << 16,))),
    }


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    answers: dict[str, Answer | list[Answer]] = {}
    for name, (function, shapes) in programs().items():
        module = lower(function, *(np.zeros(shape, np.float32) for shape in shapes))
        for suffix, threads in (("", False), ("-threads", True)):
            answers[f"/{name}{suffix}.wasm"] = Answer(
                xla_wasm.compile(module, Options(threads=threads)).wasm, "application/wasm"
            )
    for i, forks in enumerate(FORKS.values()):
        answers[f"/forks{i}.wasm"] = Answer(xla_wasm.compile(forks.module()).wasm, "application/wasm")
        answers[f"/forks{i}-threads.wasm"] = Answer(forks.artifact().wasm, "application/wasm")
    long = lower(
        lambda n, x: jax.lax.fori_loop(0, n, lambda i, y: jnp.tanh(y @ x), x),
        np.int32(0),
        np.zeros((768, 768), np.float32),
    )
    for suffix, threads in (("", False), ("-threads", True)):
        answers[f"/long{suffix}.wasm"] = Answer(
            xla_wasm.compile(long, Options(threads=threads)).wasm, "application/wasm"
        )
    site = isolated_site(answers)
    with site.serving() as served:
        yield served


call = call_fixture("threads.mjs", ENGINES)


runtime = call_fixture("threads.mjs", RUNTIMES)


RESULTS = {"names": list(programs()), "counts": [1, 2, 3], "times": seeds.count(5, 100)}


def test_results(call: Call) -> None:
    nothing(call("results", RESULTS))


def test_runtimes(runtime: Call) -> None:
    nothing(runtime("results", RESULTS))
    nothing(runtime("inWorker"))
    nothing(runtime("killed", {"times": seeds.count(3, 30)}))
    nothing(runtime("timeLimit", {"times": 1}))


@pytest.mark.parametrize("name", [*FORKS][: None if seeds.exhaustive else 1])
def test_many_forks_in_runtimes(runtime: Call, name: str) -> None:
    check_forks(runtime, name)


@pytest.mark.parametrize("name", FORKS)
def test_many_forks(call: Call, name: str) -> None:
    """No wake-up is lost; ten million forks with --exhaustive."""
    check_forks(call, name)


def check_forks(call: Call, name: str) -> None:
    forks = {
        "name": f"forks{list(FORKS).index(name)}",
        "count": seeds.count(*COUNTS[name]) // CALLS,
        "calls": CALLS,
        "lost": LOST,
    }
    for threads in (2, *seeds.more(3)):
        nothing(call("forks", {**forks, "threads": threads}))


def test_a_worker_of_its_own(call: Call) -> None:
    nothing(call("inWorker"))


def test_errors(call: Call) -> None:
    said = call("errors")
    assert said["zero"] == "ArgumentError: threads is a whole number above zero, got 0"
    assert "has room for at most" in said["many"]
    assert "is compiled for one thread: compile it with --threads" in said["alone"]
    assert said["failed"].startswith("RunError: 'jit__lambda' failed in step") and said["failed"].endswith(
        "another thread failed"
    )
    assert "load it again" in said["after"]


def test_workers_that_end(call: Call) -> None:
    nothing(call("killed", {"times": seeds.count(3, 30)}))


def test_a_time_limit(call: Call) -> None:
    nothing(call("timeLimit", {"times": seeds.count(1, 3)}))


@pytest.mark.parametrize("threads", [2, *seeds.more(3)])
def test_workers_that_end_while_they_compute(call: Call, threads: int) -> None:
    outcome = call("killedInAChunk", {"threads": threads})
    nothing(outcome["wrong"])
    assert outcome["said"].startswith("RunError: 'jit__lambda' failed in step ")
    assert re.search(
        rf": thread [1-{threads - 1}] of {threads} was ended while it computed: load it again", outcome["said"]
    ), outcome


@pytest.mark.parametrize("devices", [2, *seeds.more(None)])
def test_workers_of_workers_that_end_while_they_compute(call: Call, devices: int | None) -> None:
    outcome = call("killedInAWorker", {"devices": devices} if devices else {})
    nothing(outcome["wrong"])
    where = "device [01]: " if devices else ""
    wanted = rf"RunError: {where}'jit__lambda' failed in step .*: thread 1 of 2 was ended while it computed"
    assert re.match(wanted, outcome["said"]), outcome


@pytest.mark.parametrize("engine", [*(engine for engine in ENGINES if engine != "chromium"), *RUNTIMES])
def test_a_chunk_that_nobody_ends(engine: str, request: pytest.FixtureRequest, site: Site) -> None:
    """A time limit ends the waiting for it, too, but on a page's main thread, which cannot sleep."""
    with calling("threads.mjs", engine, request, site) as call:
        nothing(call("stolen"))


def test_a_page_that_is_not_isolated(chromium: Browser, site: Site) -> None:
    with Site(site.answers, site.folders).serving() as plain:
        page = chromium.new_page()
        page.goto(plain.url)
        outcome = page.evaluate(IN_A_PAGE, ["threads.mjs", "notIsolated", None])
        page.close()
    nothing(outcome["wrong"])
    (text,) = outcome["said"]
    assert "runs on one thread" in text and "Cross-Origin-Opener-Policy: same-origin" in text


def test_a_browser_without_shared_memory(chromium: Browser, site: Site) -> None:
    """Threads are one, and devices exchange messages."""
    page = chromium.new_page()
    page.goto(site.url)
    outcome = page.evaluate(IN_A_PAGE, ["threads.mjs", "noSharedMemory", None])
    page.close()
    nothing(outcome["wrong"])
    text, transport, error = outcome["said"]
    assert text.endswith("runs on one thread: this browser has no shared memory") and transport == "messages"
    assert error == "this browser has no shared memory: load with transport: 'messages'"


def test_webkit(webkit: WebKit, site: Site) -> None:
    """Results, a worker of its own, workers that end between two runs, and a time limit."""
    tab = webkit.open(site.url)
    for name, argument in (
        ("results", RESULTS),
        ("inWorker", None),
        ("killed", {"times": 1}),
        ("timeLimit", {"times": 1}),
    ):
        nothing(tab.call(IN_A_PAGE, ["threads.mjs", name, argument]))
    tab.close()


def test_a_process_ends_though_threads_sleep(site: Site, tmp_path: Path) -> None:
    import subprocess

    from tests.support.js_calls import LOADER, NEWEST_NODE

    script = tmp_path / "once.mjs"
    script.write_text(
        f"const {{ load }} = await import('{LOADER}'); await load('{site.url}/product-threads.wasm', {{ threads: 2 }});"
    )
    done = subprocess.run([NEWEST_NODE, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
