"""Times reading: a proto of about 50,000 instructions, and the time that a constant of 100 MB adds.

python -m benchmarks.reading
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from xla_wasm import HloModule
from xla_wasm.builder import Builder, module
from xla_wasm.command import report
from xla_wasm.hlo.attrs import DotDimensionNumbers, Metadata
from xla_wasm.hlo.ir import Computation
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.shape import Shape

INSTRUCTIONS = 50_000
CONSTANT_BYTES = 100 << 20


def large_module(instructions: int) -> bytes:
    """A proto of many small calls, with the metadata that JAX writes."""
    b = Builder("layer")
    x, w = b.parameter(0, Shape("f32", (64, 64))), b.parameter(1, Shape("f32", (64, 64)))
    y = x
    for i in range(50):
        if i % 10 == 0:
            y = b.op("dot", y, w, dot_dimension_numbers=DotDimensionNumbers((1,), (0,)))
        y = b.op(("add", "multiply", "maximum", "subtract")[i % 4], y, x)
        y.metadata = Metadata("mul", f"jit(step)/transpose(jvp(layer))/block_{i}/mul", "model.py", i)
    layer = b.build(y)
    computations: list[Computation] = []
    count = instructions // len(layer.instructions)
    entry = Builder("main")
    z, v = entry.parameter(0, Shape("f32", (64, 64))), entry.parameter(1, Shape("f32", (64, 64)))
    proto = module("layer", layer).to_proto()
    for i in range(count):
        copy = HloModule.from_proto(proto).entry
        copy.name = f"layer.{i}"
        computations.append(copy)
        z = entry.op("call", z, v, called=[copy])
    return entry.module(z).to_proto()


def with_constant(size: int) -> bytes:
    """A proto that holds little but one f32 constant of `size` bytes."""
    b = Builder("main")
    shape = Shape("f32", (size // 4,))
    return b.module(b.op("negate", b.constant(Literal(shape, bytes(size))))).to_proto()


def median(run: Callable[[], object], runs: int = 5) -> float:
    """Seconds of CPU time."""
    times = []
    for _ in range(runs):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return statistics.median(times)


def plain_loop(data: bytes) -> int:
    """Adds up all bytes: the least work of Python code that looks at each byte once."""
    total = 0
    for byte in data:
        total += byte
    return total


def main() -> None:
    data, constant = large_module(INSTRUCTIONS), with_constant(CONSTANT_BYTES)
    parsed = HloModule.from_proto(data)
    text = parsed.to_text(large_constants=True)
    count = sum(len(c.instructions) for c in parsed.computations)
    table = report.table("what", ">size", ">median")
    rows: list[tuple[str, int, Callable[[], object]]] = [
        (f"read a proto of {count:,} instructions", len(data), lambda: HloModule.from_proto(data)),
        ("a plain loop over its bytes", len(data), lambda: plain_loop(data)),
        ("read it as text", len(text), lambda: HloModule.from_text(text)),
        ("read one constant", len(constant), lambda: HloModule.from_proto(constant)),
    ]
    for what, size, run in rows:
        table.add_row(what, report.size(size), report.duration(median(run)))
    report.console().print(table)


if __name__ == "__main__":
    main()
