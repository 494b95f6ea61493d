"""Programs for several devices, and what they compute, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import xla_wasm
from xla_wasm import HloModule, Options
from xla_wasm.host.executor import Executable

Array = np.ndarray[Any, Any]

ADD = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""
SUM = ADD.replace("f32", "s32").replace("add {", "sum {")


def ring(devices: int) -> str:
    return "{" + ",".join(f"{{{d},{(d + 1) % devices}}}" for d in range(devices)) + "}"


def entry(body: str, header: str = "") -> HloModule:
    """A module whose entry has these instructions, a line each; `add` and `sum` (of s32) are there to call."""
    lines = "\n".join("  " + line.strip() for line in body.strip().split("\n"))
    return HloModule.from_text(f"HloModule m{header}\n\n{ADD}\n{SUM}\nENTRY e {{\n{lines}\n}}\n")


def reduced(size: int = 8, header: str = "") -> HloModule:
    """The sum over all replicas."""
    return entry(
        f"x = f32[{size}] parameter(0)\nROOT y = f32[{size}] all-reduce(x), replica_groups={{}}, to_apply=add", header
    )


def steps(devices: int, size: int = 4, call: bool = False) -> HloModule:
    """So many trips: sum and halve in even ones, move on to the next device in odd ones. With `call`, the host sees
    each."""
    moved = f"""moved {{
  p = f32[{size}] parameter(0)
  ROOT y = f32[{size}] collective-permute(p), source_target_pairs={ring(devices)}
}}
"""
    summed = f"""summed {{
  p = f32[{size}] parameter(0)
  s = f32[{size}] all-reduce(p), replica_groups={{}}, to_apply=add
  h = f32[] constant(0.5)
  hs = f32[{size}] broadcast(h), dimensions={{}}
  ROOT y = f32[{size}] multiply(s, hs)
}}
"""
    state = f"(s32[], s32[], f32[{size}])"
    more = f"""more {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT m = pred[] compare(i, n), direction=LT
}}
"""
    seen = (
        'd = u32[] replica-id()\n  t = s32[] custom-call(i, d), custom_call_target="tick"'
        if call
        else "t = s32[] copy(i)"
    )
    step = f"""step {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  x = f32[{size}] get-tuple-element(p), index=2
  {seen}
  one = s32[] constant(1)
  two = s32[] constant(2)
  zero = s32[] constant(0)
  r = s32[] remainder(t, two)
  even = pred[] compare(r, zero), direction=EQ
  y = f32[{size}] conditional(even, x, x), true_computation=summed, false_computation=moved
  j = s32[] add(t, one)
  ROOT s = {state} tuple(j, n, y)
}}
"""
    main = f"""ENTRY e {{
  n = s32[] parameter(0)
  x = f32[{size}] parameter(1)
  zero = s32[] constant(0)
  s = {state} tuple(zero, n, x)
  w = {state} while(s), condition=more, body=step
  ROOT y = f32[{size}] get-tuple-element(w), index=2
}}
"""
    return HloModule.from_text("\n".join(["HloModule steps\n", ADD, moved, summed, more, step, main]))


def stepped(arrays: list[Array], trips: int) -> list[Array]:
    """Returns the arrays of all devices after `steps`: sums go in the order of the devices."""
    for trip in range(trips):
        if trip % 2:
            arrays = [arrays[d - 1] for d in range(len(arrays))]
        else:
            total = arrays[0]
            for array in arrays[1:]:
                total = total + array
            arrays = [total * np.float32(0.5)] * len(arrays)
    return arrays


def inputs(devices: int, size: int = 4, seed: int = 0) -> list[Array]:
    return list(np.random.default_rng(seed).standard_normal((devices, size), np.float32))


def ready(module: HloModule, options: Options | None = None, **load: Any) -> Executable:
    return xla_wasm.load(xla_wasm.compile(module, options or Options()), **load)


def same(got: list[list[Array]], want: list[list[Array]]) -> None:
    """Bit for bit."""
    assert len(got) == len(want)
    for mine, theirs in zip(got, want):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
