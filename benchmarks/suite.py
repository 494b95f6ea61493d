"""What is measured, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xla_wasm
from xla_wasm import HloModule, Options, report
from xla_wasm.target import RELAXED_SIMD, SIMD128

from . import compiling, node_host
from .models import Array, Encoder, convolution, lowered, matmul
from .timing import interleaved
from .wasmtime_host import Resident, peak

ROOT = Path(__file__).parents[1]
CACHE = ROOT / "dist" / "benchmarks"
TARGETS = (RELAXED_SIMD, SIMD128)
TOLERANCE = 1e-3
"""How far the outputs of different hosts may lie apart, relative to the largest."""


@dataclass(frozen=True)
class Row:
    """A line of the table; `goal` and `met` say what the figure must be and whether it is."""

    what: str
    where: str
    build: str
    seconds: float | None = None
    rate: str = ""
    ratio: float | None = None
    against: str = ""
    goal: str = ""
    met: bool | None = None

    @property
    def time(self) -> str:
        return "" if self.seconds is None else report.duration(self.seconds)

    @property
    def relation(self) -> str:
        return "" if self.ratio is None else f"{self.ratio:.2f} x {self.against}"

    @property
    def verdict(self) -> str:
        return "" if self.met is None else f"{self.goal}: {'met' if self.met else 'MISSED'}"


@dataclass(frozen=True)
class Sizes:
    """What is timed; tests take less."""

    matmul: int = 512
    image: int = 56
    channels: int = 64
    encoder: Encoder = Encoder()
    gradient: Encoder = Encoder(blocks=12)


@dataclass(frozen=True)
class Effort:
    """Seconds for each contestant, but at least so many runs; rounds before Node's clock starts; processes for a compile time."""

    seconds: float = 4
    runs: int = 40
    warmup: int = 10
    compiles: int = 5


@dataclass(frozen=True)
class Case:
    """A module to run, with all that it needs."""

    title: str
    module: HloModule
    weights: dict[str, Array]
    input: Array
    flops: float

    def compile(self, target: str, tune: str) -> xla_wasm.Artifact:
        return xla_wasm.compile(self.module, Options(target, tune, weights=tuple(self.weights)))

    def row(self, where: str, build: str, seconds: float, **rest: Any) -> Row:
        return Row(self.title, where, build, seconds, _rate(self.flops / seconds), **rest)


def _rate(flops: float) -> str:
    return f"{flops / 1e9:.1f} GFLOP/s"


def _encoder_file(e: Encoder) -> Path:
    return lowered(CACHE, "encoder", e, e.forward)


def running(sizes: Sizes, effort: Effort) -> tuple[list[Row], str]:
    """Rows of what runs under wasmtime and in Node, and the version of Node."""
    rng = np.random.default_rng(0)

    def random(*dims: int) -> Array:
        return rng.standard_normal(dims, np.float32)

    n, size, c, e = sizes.matmul, sizes.image, sizes.channels, sizes.encoder
    image = f"{size}x{size}x{c}"
    product = Case(f"matmul {n}", matmul(n), {"w": random(n, n)}, random(n, n), 2.0 * n**3)
    kernel, pixels = {"w": random(3, 3, c, c)}, random(1, size, size, c)
    convolved = Case(f"conv 3x3, {image} to {c}", convolution(size, c), kernel, pixels, 18.0 * (size * c) ** 2)
    module = HloModule.from_proto(_encoder_file(e).read_bytes())
    encoder = Case(f"encoder, {e.blocks} blocks, {e.tokens}x{e.width}", module, e.weights(), e.input(), e.flops)

    rows, outputs = _under_wasmtime(product, convolved, encoder, effort)
    node = node_host.measure(e, {target: encoder.compile(target, "v8") for target in TARGETS}, effort.seconds, effort.runs, effort.warmup)
    rows += _in_node(encoder, node)
    scale = TOLERANCE * float(np.abs(node.output).max())
    if not (node.difference <= scale and all(np.abs(output - node.output).max() <= scale for output in outputs)):
        raise SystemExit("the hosts do not agree on the encoder's output")
    return rows, node.version


def _under_wasmtime(product: Case, convolved: Case, encoder: Case, effort: Effort) -> tuple[list[Row], list[Array]]:
    """Rows, and the encoder's outputs."""
    call, flops = peak()
    residents = {
        (case.title, target): Resident(case.compile(target, "wasmtime"), [case.input], case.weights)
        for target in TARGETS
        for case in (product, convolved, encoder)
    }
    jobs: dict[tuple[str, str], Callable[[], object]] = {("peak", RELAXED_SIMD): call, **residents}
    times = interleaved(jobs, effort.seconds, effort.runs)
    top = flops / times["peak", RELAXED_SIMD]
    rows = [Row("128-bit FMA, the peak", "wasmtime", RELAXED_SIMD, rate=_rate(top))]
    for target in TARGETS:
        goals = target == RELAXED_SIMD
        seconds = times[product.title, target]
        rate = product.flops / seconds
        goal = {"goal": ">= 0.65", "met": rate >= 0.65 * top} if goals else {}
        rows.append(product.row("wasmtime", target, seconds, ratio=rate / top, against="peak", **goal))
        seconds = times[convolved.title, target]
        share = convolved.flops / seconds / rate
        goal = {"goal": ">= 0.5", "met": share >= 0.5} if goals else {}
        rows.append(convolved.row("wasmtime", target, seconds, ratio=share, against="matmul", **goal))
    rows += [encoder.row("wasmtime", target, times[encoder.title, target]) for target in TARGETS]
    return rows, [residents[encoder.title, target].output() for target in TARGETS]


def _in_node(encoder: Case, node: node_host.InNode) -> list[Row]:
    host = f"Node {node.version.removeprefix('v').split('.')[0]}"
    theirs = node.seconds.get(node_host.RUNTIME)
    if theirs is None:
        return [encoder.row(host, target, node.seconds[target]) for target in TARGETS]
    rows = [encoder.row(host, f"{node_host.RUNTIME} {node_host.runtime_version()}", theirs)]
    for target in TARGETS:
        ours = node.seconds[target]
        goal = {"goal": "<= 1.05", "met": ours <= 1.05 * theirs} if target == RELAXED_SIMD else {}
        rows.append(encoder.row(host, target, ours, ratio=ours / theirs, against=node_host.RUNTIME, **goal))
    return rows


def compiling_time(sizes: Sizes, effort: Effort) -> list[Row]:
    """Rows of compile times and sizes, with default options."""
    e, g = sizes.encoder, sizes.gradient
    digits = compiling.measure(ROOT / "examples" / "digits" / "digits.hlo.pb", effort.compiles)
    encoder = compiling.measure(_encoder_file(e), effort.compiles)
    gradient = compiling.measure(lowered(CACHE, "gradient", g, g.gradient), effort.compiles)
    small = digits.seconds <= 0.5 and digits.bytes - digits.weights <= 60_000
    fast = gradient.seconds <= 5e-4 * gradient.instructions
    return [
        _compile_row("digits", digits, goal="<= 0.5 s, 60 KB", met=small),
        _compile_row(f"encoder, {e.blocks} blocks", encoder),
        _compile_row(f"gradient of {g.blocks} blocks", gradient, goal="<= 0.5 ms", met=fast),
    ]


def _compile_row(title: str, c: compiling.Compiled, **rest: Any) -> Row:
    weights = f" + {report.size(c.weights)} weights" if c.weights > 10_000 else ""
    code = report.size(c.bytes - c.weights if weights else c.bytes)
    each = f"{c.seconds / c.instructions * 1e3:.2f} ms x {c.instructions:,} instructions"
    return Row(f"compile {title}", "Python", f"{code}{weights}", c.seconds, each, **rest)
