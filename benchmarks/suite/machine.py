"""The limits of the machine as WebAssembly reaches them: a module whose exports do nothing but multiply and add, or
read memory."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from xla_wasm.site import peak
from xla_wasm.target import RELAXED_SIMD, SIMD128, Target
from xla_wasm.wasm import Func as WasmFunc
from xla_wasm.wasm import Module

READ_BYTES = 128 << 20
"""More than caches hold."""
FMA, MULADD, READ1, READ6 = "fma", "muladd", "read1", "read6"
MODES = dict.fromkeys((FMA, MULADD), float(peak.OPERATIONS)) | dict.fromkeys((READ1, READ6), float(READ_BYTES))
"""Operations or bytes of one call of each export: fused multiply-adds, multiplications and additions (all that simd128
has), reading one stream, and six side by side."""


def read_streams(name: str, streams: int, start: int, size: int, each: int = 8) -> WasmFunc:
    """Reads `size` bytes from `start` on, in so many streams side by side, vectors of `each` neighbours at a time."""
    out = WasmFunc(name, (), ("i32",))
    pointer, end = out.local("i32"), out.local("i32")
    sums = [out.local("v128") for _ in range(each)]
    step = 16 * each
    part = size // streams // step * step
    for value, local in ((start, pointer), (start + part, end)):
        out.op("i32.const", value)
        out.op("local.set", local)
    out.op("loop", None)
    for stream in range(streams):
        for i, total in enumerate(sums):
            out.op("local.get", total)
            out.op("local.get", pointer)
            out.op("v128.load", 4, stream * part + 16 * i)
            out.op("v128.or")
            out.op("local.set", total)
    for name_, *immediates in (
        ("local.get", pointer),
        ("i32.const", step),
        ("i32.add",),
        ("local.tee", pointer),
        ("local.get", end),
    ):
        out.op(name_, *immediates)
    out.op("i32.lt_u")
    out.op("br_if", 0)
    out.op("end")
    out.op("v128.const", bytes(16))
    for total in sums:
        out.op("local.get", total)
        out.op("v128.or")
    out.op("v128.any_true")
    return out


def limits_module() -> bytes:
    """The module with an export for each of MODES."""
    module = Module()
    start = 1 << 16
    module.memory((start + READ_BYTES) >> 16)
    module.export_memory("memory")
    for target, name in ((RELAXED_SIMD, FMA), (SIMD128, MULADD)):
        peak.add(module, peak.kernel(Target.named(target), name))
    for name, streams in ((READ1, 1), (READ6, 6)):
        module.add(read_streams(name, streams, start, READ_BYTES))
        module.export_func(name, name)
    peak.give_arguments(module)
    return module.encode()


def describe(node: str) -> dict[str, str]:
    """Returns the name of the processor, and the versions of Python, wasmtime and Node."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
    return {
        "cpu": model,
        "python": platform.python_version(),
        "wasmtime": version("wasmtime"),
        "node": node.removeprefix("v"),
    }
