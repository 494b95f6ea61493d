"""Matrix product kernels against the peak of 128-bit multiply-adds, in one interleaved run under wasmtime and Node.

    python benchmarks/gemm.py [--tune portable|wasmtime|v8] [--seconds 0.3] [--node PATH]

Other processes disturb timings, so each kernel's range is timed in pieces, round by round, and the sum of each piece's
best counts. Compare figures with the peak of the same run only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import wasmtime

sys.path.insert(0, str(Path(__file__).parents[1]))

from xla_wasm.kernels import Gemm, Sides, Tile, Types, gemm_kernel, pack_kernel, packed_size, tile
from xla_wasm.loop.affine import Affine
from xla_wasm.loop.builder import Builder
from xla_wasm.loop.emit import emit
from xla_wasm.loop.ir import Func, Val
from xla_wasm.site import peak
from xla_wasm.target import PORTABLE, RELAXED_SIMD, SIMD128, TUNES, Target
from xla_wasm.wasm import Func as WasmFunc
from xla_wasm.wasm import Module

ARGS, ONES, OPERANDS, PAGES = 64, 1024, 1 << 20, 1600
"""The addresses of the argument block (out, lhs, packed rhs, rhs), some ones and random operands; pages of memory."""
_SPACE = (PAGES << 16) - OPERANDS
ADDRESSES = (OPERANDS + 3 * _SPACE // 4, OPERANDS, OPERANDS + _SPACE // 4, OPERANDS + _SPACE // 2)
WORK = 100e6
"""Floating-point operations that one timing takes at least."""


@dataclass(frozen=True)
class Job:
    name: str
    title: str
    shape: str
    trips: int
    flops: float

    @property
    def pieces(self) -> int:
        return min(self.trips, max(1, int(self.flops / WORK)))

    def repeats(self) -> int:
        return max(1, int(WORK / (self.flops / self.pieces)))


def matmul(m: int, n: int, k: int, batch: int = 1) -> Gemm:
    return Gemm(Types.all("f32"), ((batch, m * k, k * n),) if batch > 1 else (), m, k, n, (), k)


def convolution(size: int, channels: int, outputs: int, taps: int = 3) -> Gemm:
    """One padded image, stride 1."""
    row = (size + taps - 1) * channels
    return Gemm(Types.all("f32"), ((size, row, 0),), size, channels, outputs, ((taps, row),), taps * channels)


CASES = {f"matmul {n}": matmul(n, n, n) for n in (256, 512, 1024)}
CASES |= {f"conv 3x3, {s}x{s}x{c}, {c}": convolution(s, c, c) for s, c in ((56, 64), (28, 128), (14, 256), (7, 512))}
CASES |= {
    f"matmul {m}x{k}x{n}": matmul(m, n, k)
    for m, n, k in ((128, 384, 384), (128, 1536, 384), (128, 384, 1536), (8, 512, 512))
}
CASES |= {"attention 12 x 128x32x128": matmul(128, 128, 32, 12), "attention 12 x 128x128x32": matmul(128, 32, 128, 12)}
CASES |= {f"narrow {m}x{k}x{n}": matmul(m, n, k) for m, n, k in ((512, 24, 512), (1024, 4, 512))}
CASES |= {"vector 1x4096x1024": matmul(1, 1024, 4096), "vector 4096x1024x1": matmul(4096, 1, 1024)}


def product_kernel(name: str, g: Gemm, shape: Tile, target: Target) -> Func:
    b = Builder(name, 4, 4, target, frozenset({0}))
    sizes = (*(size for size, _, _ in g.outer), g.m, g.n)

    def store(outer: tuple[Affine, ...], m: Affine, n: Affine, value: Val) -> None:
        position = n
        for d, i in enumerate((*outer, m)):
            position = position + i * prod(sizes[d + 1 :])
        b.store(0, position, value, "f32")

    gemm_kernel(b, g, shape, Sides((1, 0), 2, store))
    return b.func()


def packing_kernel(name: str, g: Gemm, shape: Tile, along_k: bool) -> Func:
    """Packs all right sides of a batch."""
    b = Builder(name, 4, 4, Target.named(SIMD128), frozenset({2}))
    with b.loop(prod(size for size, _, stride in g.outer if stride), chunked=True) as batch:
        start = batch * (g.k * g.n)

        def element(k: Affine, n: Affine) -> Val:
            return b.load(3, start + (n * g.k + k if along_k else k * g.n + n), "f32")

        pack_kernel(b, g, shape, 2, element, batch * packed_size(g, shape), along_k)
    return b.func()


def repeated(func: Func) -> WasmFunc:
    """An export that runs a kernel's range several times: calls into wasm would cost more than small kernels."""
    out = WasmFunc(f"repeat_{func.name}", ("i32", "i32", "i32", "i32"), ())
    out.op("loop", None)
    for local in range(3):
        out.op("local.get", local)
    out.call(func.name)
    for name, *immediates in (
        ("local.get", 3),
        ("i32.const", -1),
        ("i32.add",),
        ("local.tee", 3),
        ("br_if", 0),
        ("end",),
    ):
        out.op(name, *immediates)
    return out


def build(target: Target) -> tuple[bytes, list[Job]]:
    """A module with all kernels, and what to time."""
    module, jobs = Module(), []
    module.memory(PAGES)
    module.export_memory("memory")

    def add(func: Func, title: str, shape: str, flops: float) -> None:
        module.add(emit(func))
        outer = repeated(func)
        module.add(outer)
        module.export_func(func.name, outer.name)
        jobs.append(Job(func.name, title, shape, func.trips, flops))

    add(peak.kernel(target), "peak", "", float(peak.OPERATIONS))
    for number, (title, g) in enumerate(CASES.items()):
        shape = tile(g, target)
        flops = 2.0 * prod(size for size, _, _ in g.outer) * g.m * g.n * g.k
        add(product_kernel(f"product{number}", g, shape, target), title, f"{shape.mr}x{shape.nr}", flops)
        if title.startswith("attention"):
            for along_k in (False, True):
                kernel = packing_kernel(f"pack{number}{along_k}", g, shape, along_k)
                add(kernel, f"  its packing{', transposed' * along_k}", "", flops / 20)
    return module.encode(), jobs


def in_wasmtime(code: bytes, jobs: list[Job], seconds: float) -> list[float]:
    """Seconds per job."""
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, wasmtime.Module(engine, code), []).exports(store)
    operands = np.random.default_rng(0).standard_normal(_SPACE // 4, np.float32).tobytes()
    exports["memory"].write(store, operands, OPERANDS)
    exports["memory"].write(store, struct.pack("<4I", *ADDRESSES), ARGS)
    exports["memory"].write(store, struct.pack("<4I", ADDRESSES[0], 0, 0, ONES), ARGS + 16)
    exports["memory"].write(store, np.ones(16, np.float32).tobytes(), ONES)
    best = [[float("inf")] * job.pieces for job in jobs]
    end = time.monotonic() + seconds * len(jobs)
    while time.monotonic() < end:
        for job, times in zip(jobs, best):
            call, repeats = exports[job.name], job.repeats()
            for piece in range(job.pieces):
                low, high = (job.trips * p // job.pieces for p in (piece, piece + 1))
                start = time.thread_time()
                call(store, ARGS + 16 * (job.name == "peak"), low, high, repeats)
                times[piece] = min(times[piece], (time.thread_time() - start) / repeats)
    return [sum(times) for times in best]


SCRIPT = """
const {code, args, addresses, ones, operands, jobs, seconds} = JSON.parse(require('fs').readFileSync(process.argv[2]));
const wasm = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(code, 'base64'))).exports;
const f32 = new Float32Array(wasm.memory.buffer), u32 = new Uint32Array(wasm.memory.buffer);
for (let i = operands / 4; i < f32.length; i++) f32[i] = Math.random() - 0.5;
u32.set(addresses, args / 4);
u32.set([addresses[0], 0, 0, ones], args / 4 + 4);
f32.fill(1, ones / 4, ones / 4 + 16);
const best = jobs.map((job) => Array(job.pieces).fill(Infinity));
const end = performance.now() + seconds * 1000 * jobs.length;
while (performance.now() < end)
  jobs.forEach(({name, trips, pieces, repeats}, j) => {
    for (let p = 0; p < pieces; p++) {
      const low = Math.floor(trips * p / pieces), high = Math.floor(trips * (p + 1) / pieces);
      const start = performance.now();
      wasm[name](args + (name === 'peak' ? 16 : 0), low, high, repeats);
      best[j][p] = Math.min(best[j][p], (performance.now() - start) / repeats / 1e3);
    }
  });
console.log(JSON.stringify(best.map((times) => times.reduce((a, b) => a + b))));
"""


def in_node(node: str, code: bytes, jobs: list[Job], seconds: float) -> list[float]:
    """Seconds per job."""
    from base64 import b64encode

    described = [{"name": j.name, "trips": j.trips, "pieces": j.pieces, "repeats": j.repeats()} for j in jobs]
    request = {
        "code": b64encode(code).decode(),
        "args": ARGS,
        "addresses": ADDRESSES,
        "ones": ONES,
        "operands": OPERANDS,
    }
    request |= {"jobs": described, "seconds": seconds}
    with tempfile.TemporaryDirectory() as folder:
        script, data = Path(folder, "run.cjs"), Path(folder, "run.json")
        script.write_text(SCRIPT)
        data.write_text(json.dumps(request))
        done = subprocess.run([node, script, data], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", default=PORTABLE, choices=TUNES)
    parser.add_argument("--seconds", type=float, default=0.3, help="per kernel and engine")
    beside = Path(sys.executable).with_name("node")
    parser.add_argument("--node", default=str(beside) if beside.exists() else shutil.which("node"))
    options = parser.parse_args()
    for name in (RELAXED_SIMD, SIMD128):
        code, jobs = build(Target.named(name, options.tune))
        columns = {"wasmtime": in_wasmtime(code, jobs, options.seconds)}
        if options.node:
            columns["node"] = in_node(options.node, code, jobs, options.seconds)
        print(f"\n{name:<32} {'tile':>5}" + "".join(f"{engine:>12} GFLOP/s" for engine in columns))
        for row, job in enumerate(jobs):
            cells = ""
            for times in columns.values():
                if job.title.startswith(" "):
                    cells += f"{times[row] * 1e6:>12.1f} us     "
                    continue
                rate, peak = job.flops / times[row] / 1e9, jobs[0].flops / times[0] / 1e9
                cells += f"{rate:>12.1f} {rate / peak:>7.0%}"
            print(f"{job.title:<32} {job.shape:>5}{cells}")


if __name__ == "__main__":
    main()
