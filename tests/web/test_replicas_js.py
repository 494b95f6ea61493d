"""Programs on several devices in Node and Chromium, each device a worker: the same bits as threads give, by either
transport."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from playwright.sync_api import Browser

import xla_wasm
from tests.support import seeds
from tests.support.collective_programs import Grid, every_collective
from tests.support.firefox import Firefox
from tests.support.js_calls import ENGINES, IN_A_PAGE, OLDEST_NODE, Call, call_fixture, isolated_site, nothing
from tests.support.programs_sharded import PROGRAMS
from tests.support.replica_programs import Array, entry, reduced, ring, steps
from tests.support.scripted_devices import LIES, SHARD_LIES, lies, scripted
from tests.support.web_server import Answer, Site
from tests.support.webkit import WebKit
from xla_wasm import Options
from xla_wasm.artifact import Artifact
from xla_wasm.host.arrays import dtype_of
from xla_wasm.jax import lower, mesh
from xla_wasm.loop import pieces

TRANSPORTS = ("shared", "messages")
TIMES = seeds.count(10, 50)
"""Number of times that a worker is ended."""
GRIDS = [Grid(*g) for g in ((2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (8, 1), (4, 2), (2, 4), (1, 8), (3, 2))]
ELEMENT_TYPES = ("f32", "s8", "bf16", "f64", "u32", "s64", "c64", "pred", "s4", "f8e4m3fn")


def held() -> Artifact:
    module = entry(
        """w = f32[2] parameter(0)
        s = f32[2] parameter(1)
        r = f32[2] all-reduce(w), replica_groups={}, to_apply=add
        t = f32[2] add(r, s)
        ROOT y = (f32[2], f32[2]) tuple(t, t)"""
    )
    return xla_wasm.compile(module, Options(weights=("w",), state=(("s", 0),)))


def beside() -> Artifact:
    """Of a large constant, which lies in a file beside the module, the rows 0, 2, 4 and 6 are needed."""
    module = entry(
        """x = f32[4] parameter(0)
        c = f32[4096,4] constant({...})
        i = u32[] replica-id()
        z = s32[] constant(0)
        j = s32[] convert(i)
        r = f32[1,4] dynamic-slice(c, j, z), dynamic_slice_sizes={1,4}
        v = f32[4] reshape(r)
        s = f32[4] all-reduce(x), replica_groups={}, to_apply=add
        ROOT y = f32[4] add(s, v)""".replace("{...}", "{" + ",".join(["{0,2,4,6}"] * 4096) + "}")
    )
    return xla_wasm.compile(module, Options(sidecar=True))


def whole() -> Artifact:
    def double(x: Any) -> Any:
        return 2 * x, jax.lax.psum(x.sum()[None], "i")

    return xla_wasm.compile(
        lower(double, jnp.zeros((4, 6)), mesh={"i": 2}, in_specs=P(None, "i"), out_specs=(P(None, "i"), P()))
    )


def copies() -> Artifact:
    """Two devices have each part of the result, and not the same of it."""

    def numbered(x: Any) -> Any:
        return x + jax.lax.axis_index("j")

    options: Any = {"mesh": {"i": 2, "j": 2}, "in_specs": P("i"), "out_specs": P("i"), "check_vma": False}
    return xla_wasm.compile(lower(numbered, jnp.zeros(4), **options))


SENDS = 12


def sends(size: int) -> Artifact:
    """One device sends x, x + 1 and so on before the other receives anything, which gives the first number of each."""
    pairs = 'channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
    array = f"f32[{size}]"
    lines = [f"x = {array} parameter(0)", "t = token[] after-all()"]
    for i in range(SENDS):
        lines += [
            f"c{i} = f32[] constant({i})",
            f"b{i} = {array} broadcast(c{i}), dimensions={{}}",
            f"y{i} = {array} add(x, b{i})",
        ]
        lines += [f"s{i} = ({array}, u32[], token[]) send(y{i}, t), {pairs}"]
    for i in range(SENDS):
        lines += [
            f"v{i} = ({array}, u32[], token[]) recv(t), {pairs}",
            f"d{i} = ({array}, token[]) recv-done(v{i}), channel_id=1",
        ]
        lines += [f"z{i} = {array} get-tuple-element(d{i}), index=0", f"w{i} = f32[1] slice(z{i}), slice={{[0:1]}}"]
    lines.append(f"ROOT r = f32[{SENDS}] concatenate({', '.join(f'w{i}' for i in range(SENDS))}), dimensions={{0}}")
    return xla_wasm.compile(entry("\n".join(lines)))


def undivided() -> Artifact:
    """On global arrays, which only a partitioner could divide."""
    return xla_wasm.compile(entry("x = f32[4] parameter(0), sharding={devices=[2]0,1}\nROOT y = f32[4] add(x, x)"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("replicas")
    artifacts = {
        "free": xla_wasm.compile(reduced(4)),
        "fixed": xla_wasm.compile(reduced(4), Options(num_replicas=2, num_partitions=1)),
        "held": held(),
        "sidecar": beside(),
        "global": whole(),
        "copies": copies(),
        "undivided": undivided(),
        "sends4": sends(4),
        "sends4096": sends(4096),
        "called": xla_wasm.compile(steps(2, call=True), Options(host_calls=("tick",))),
        "scripted": scripted(),
        "loop2": xla_wasm.compile(steps(2)),
        "loop4": xla_wasm.compile(steps(4)),
    }
    for name, artifact in artifacts.items():
        artifact.save(folder / f"{name}.wasm")
    stated = []
    for is_whole, listed in ((False, LIES), (True, SHARD_LIES)):
        for artifact, message in lies(listed):
            artifact.save(folder / f"lie{len(stated)}.wasm")
            stated.append({"message": message, "isWhole": is_whole})
    others = {
        "/other.weights": Answer(bytes(len(artifacts["sidecar"].weights))),
        "/lies.json": Answer(json.dumps(stated).encode()),
    }
    site = isolated_site(others, folder)
    with site.serving():
        yield site


def serve(site: Site, name: str, artifact: Artifact, arguments: Sequence[Sequence[Array]]) -> None:
    """Puts a program and what its devices get on the site."""
    lists = [[base64.b64encode(np.ascontiguousarray(array).tobytes()).decode() for array in own] for own in arguments]
    site.answers[f"/{name}.wasm"] = Answer(artifact.wasm)
    site.answers[f"/{name}.json"] = Answer(json.dumps(lists).encode())


call = call_fixture("replicas.mjs", ENGINES)


def digests(results: Sequence[Sequence[Array]]) -> list[list[str]]:
    return [[hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in own] for own in results]


@dataclass
class Case:
    """A program, what its devices get (or the whole arrays), and the digests of what they give under wasmtime."""

    name: str
    artifact: Artifact
    arguments: list[list[Array]]
    devices: dict[str, int] | int
    expected: list[list[str]]
    labels: list[str]
    is_global: bool = False


@cache
def collectives() -> list[Case]:
    """Every operation in every group mode."""
    drawn = list(zip(GRIDS, ELEMENT_TYPES, strict=True))
    if seeds.exhaustive:
        drawn = [(grid, element_type) for grid in GRIDS for element_type in ("f32", "s32")]
        drawn += [(Grid(2, 2), element_type) for element_type in ELEMENT_TYPES]
    return [collective(i, grid, element_type) for i, (grid, element_type) in enumerate(drawn)]


def collective(i: int, grid: Grid, element_type: str, threads: bool = False) -> Case:
    """Every operation in every group mode. What is expected is always what one thread for each device gives."""
    # Engines make NaN with bits of their own.
    program = replace(every_collective(i, grid, element_type), special=False)
    module, arguments = program.module(), program.arguments()
    module.replica_count, module.num_partitions = (grid.replicas, grid.partitions) if i % 2 else (1, 1)
    artifact = xla_wasm.compile(module)
    results = xla_wasm.load(artifact).run_replicated(
        arguments, num_replicas=grid.replicas, num_partitions=grid.partitions
    )
    devices = {"replicas": grid.replicas, "partitions": grid.partitions}
    if threads:
        artifact = xla_wasm.compile(module, Options(threads=True))
    name = f"collectives-{i}-{grid}-{element_type}{'-threads' * threads}"
    return Case(name, artifact, arguments, devices, digests(results), program.labels())


@cache
def threaded() -> list[Case]:
    """Every operation in every group mode, on devices with several threads, which share the smallest kernels, trip by
    trip."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_CHUNK", 1)
        drawn = [(Grid(2, 1), "f32"), (Grid(1, 3), "s8"), *seeds.more((Grid(2, 2), "bf16"), (Grid(4, 1), "f64"))]
        return [collective(i, grid, element_type, threads=True) for i, (grid, element_type) in enumerate(drawn)]


@cache
def large() -> list[Case]:
    """Blocks that go through shared memory in pieces, and many that go together."""
    size = 5_000_001
    body = f"""x = f32[] parameter(0)
        i = f32[{size}] iota(), iota_dimension=0
        b = f32[{size}] broadcast(x), dimensions={{}}
        s = f32[{size}] add(i, b)
        h = f32[3] slice(s), slice={{[5:8]}}
        p = f32[{size}] collective-permute(s), source_target_pairs={ring(3)}
        r = (f32[{size}], f32[3]) all-reduce(s, h), replica_groups={{}}, to_apply=add
        y = f32[{size}] get-tuple-element(r), index=0
        z = f32[3] get-tuple-element(r), index=1
        ROOT t = (f32[{size}], f32[{size}], f32[3]) tuple(p, y, z)"""
    artifact = xla_wasm.compile(entry(body), Options(num_replicas=3))
    arguments = [[np.float32(d)] for d in range(3)]
    results = xla_wasm.load(artifact).run_replicated(arguments)
    return [Case("large", artifact, arguments, 3, digests(results), ["permute", "reduce", "reduce a few"])]


@cache
def programs() -> list[Case]:
    """Programs of JAX for several devices, on whole arrays: every third, or all with --exhaustive."""
    made = []
    for name, make in [*PROGRAMS.items()][:: 1 if seeds.exhaustive else 3]:
        program = make()
        artifact = xla_wasm.compile(lower(program.make(mesh(**program.axes)), *program.args))
        exe = xla_wasm.load(artifact)
        arrays = [
            np.asarray(x, dtype_of(p.element_type))
            for x, p in zip(jax.tree.leaves(program.args), exe.parameters, strict=True)
        ]
        results = exe.run_global(arrays)
        labels = [f"result {i}" for i in range(len(results))]
        made.append(
            Case(name, artifact, [arrays], prod(program.axes.values()), digests([results]), labels, is_global=True)
        )
    return made


RESULTS = [
    (OLDEST_NODE, "messages", collectives),
    (OLDEST_NODE, "messages", large),
    (OLDEST_NODE, "shared", programs),
    ("chromium", "shared", collectives),
    ("chromium", "shared", large),
    ("chromium", "messages", programs),
]
"""An engine, a transport and cases: nearly every two of them; with --exhaustive all of `EVERY`."""
EVERY = [*product(ENGINES, TRANSPORTS, (collectives, large, programs))]


@pytest.mark.parametrize(
    ("call", "transport", "cases"),
    [
        *RESULTS,
        *seeds.more(*(combined for combined in EVERY if combined not in RESULTS)),
    ],
    indirect=["call"],
)
def test_results(call: Call, site: Site, transport: str, cases: Callable[[], list[Case]]) -> None:
    """Each result of each device has the bits that it has under wasmtime, in both of two runs."""
    check_results(call, site, cases(), transport)


@pytest.mark.parametrize(
    ("threads", "transport"),
    [(2, "shared"), (2, "messages"), *seeds.more((1, "shared"), (3, "shared"), (None, "shared"))],
)
def test_threads_of_devices(call: Call, site: Site, transport: str, threads: int | None) -> None:
    check_results(call, site, threaded(), transport, threads)


def check_results(call: Call, site: Site, cases: Sequence[Case], transport: str, threads: int | None = None) -> None:
    for case in cases:
        serve(site, case.name, case.artifact, case.arguments)
    stated = [{"name": case.name, "devices": case.devices, "isGlobal": case.is_global} for case in cases]
    job = {"cases": stated, "transport": transport} | ({"threads": threads} if threads else {})
    for case, runs in zip(cases, call("digests", job), strict=True):
        for got in runs:
            pairs = zip(got, case.expected, strict=True)
            different = {
                label for ours, theirs in pairs for label, a, b in zip(case.labels, ours, theirs, strict=True) if a != b
            }
            assert not different, (case.name, sorted(different))


PAIRS = [
    *((OLDEST_NODE, "messages"), ("chromium", "shared")),
    *seeds.more((OLDEST_NODE, "shared"), ("chromium", "messages")),
]
"""Engines and transports; Firefox has both."""
each_pair = pytest.mark.parametrize(("call", "transport"), PAIRS, indirect=["call"])


@each_pair
def test_behaviours(call: Call, transport: str) -> None:
    nothing(call("behaviours", transport))


@each_pair
def test_failures(call: Call, transport: str) -> None:
    nothing(call("failures", transport))


@pytest.mark.parametrize(
    ("transport", "devices"), [("shared", 2), ("messages", 2), *seeds.more(("shared", 4), ("messages", 4))]
)
def test_a_worker_that_ends(call: Call, transport: str, devices: int) -> None:
    times = TIMES if devices == 2 else 8
    # Chromium takes two seconds to end a worker that is busy, so some groups go on at the same time.
    outcome = call("terminations", {"transport": transport, "times": times, "devices": devices, "groups": 5})
    nothing(outcome["wrong"])
    assert outcome["errors"]


def test_manifests_that_lie(call: Call) -> None:
    nothing(call("lies", None))


def test_a_page_that_is_not_isolated(chromium: Browser, site: Site) -> None:
    with Site(site.answers, site.folders).serving() as plain:
        page = chromium.new_page()
        page.goto(plain.url)
        nothing(page.evaluate(IN_A_PAGE, ["replicas.mjs", "notIsolated", None]))
        page.close()


def test_firefox(firefox: Firefox, site: Site) -> None:
    """By both transports, with workers that end; that they have ended is told by the lock that each holds."""
    tab = firefox.open(site.url)
    for transport in TRANSPORTS:
        nothing(tab.call(IN_A_PAGE, ["replicas.mjs", "behaviours", transport]))
        job = {"transport": transport, "times": 6, "devices": 2, "groups": 3}
        nothing(tab.call(IN_A_PAGE, ["replicas.mjs", "terminations", job])["wrong"])
    tab.close()


def test_webkit(webkit: WebKit, site: Site) -> None:
    """By messages; the page of workers is tested there by both transports."""
    tab = webkit.open(site.url)
    nothing(tab.call(IN_A_PAGE, ["replicas.mjs", "behaviours", "messages"]))
    tab.close()
