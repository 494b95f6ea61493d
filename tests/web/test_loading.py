"""Options of the loader: weights and their progress, caches, workers, signals, in Node and in Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from playwright.sync_api import Page

import xla_wasm
from tests.support.js_calls import ENGINES, IN_A_PAGE
from tests.support.nested_loops import stepwise
from tests.support.node_host import nodes
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import SHAPE, SIDECAR, safetensors, toy, toy_manifest
from tests.support.web_server import TYPES, Answer, Site
from tests.support.webkit import WebKit
from xla_wasm import HloModule, Options

NARROW = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}

CODES = """HloModule codes

ENTRY main {
  w = f32[65536] parameter(0)
  zero = f32[] parameter(1)
  zeros = f32[65536] broadcast(zero), dimensions={}
  ROOT sum = f32[65536] add(w, zeros)
}
"""

STEPS = """HloModule steps

body {
  p = (s32[], s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  x = f32[64] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  step = f32[] constant(1)
  steps = f32[64] broadcast(step), dimensions={}
  y = f32[64] add(x, steps)
  ROOT r = (s32[], s32[], f32[64]) tuple(next, n, y)
}

condition {
  p = (s32[], s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT r = pred[] compare(i, n), direction=LT
}

ENTRY main {
  n = s32[] parameter(0)
  x = f32[64] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], s32[], f32[64]) tuple(zero, n, x)
  end = (s32[], s32[], f32[64]) while(start), condition=condition, body=body
  trips = s32[] get-tuple-element(end), index=0
  state = f32[64] get-tuple-element(end), index=2
  ROOT r = (s32[], f32[64]) tuple(trips, state)
}
"""
CALLS = """HloModule calls

ENTRY main {
  x = f32[3] parameter(0)
  y = f32[3] custom-call(x), custom_call_target="f"
  ROOT z = f32[3] add(y, y)
}
"""
FEEDS = """HloModule feeds

ENTRY main {
  x = f32[3] parameter(0)
  t = token[] after-all()
  f = (f32[3], token[]) infeed(t)
  a = f32[3] get-tuple-element(f), index=0
  k = token[] get-tuple-element(f), index=1
  o = token[] outfeed(x, k), outfeed_shape=f32[3]
  ROOT y = f32[3] add(x, a)
}
"""
DYNAMIC = """HloModule dynamic

ENTRY main {
  x = f32[<=4,3] parameter(0)
  ROOT y = f32[<=4,3] add(x, x)
}
"""


def compiled(text: str, **options: Any) -> bytes:
    return xla_wasm.compile(HloModule.from_text(text), Options(**options)).wasm


def in_8_bits(rows: int, columns: int) -> bytes:
    """The numbers from 1 to 6, as small numbers with so many scales."""
    scale = np.float32([[1, 0.5, 0.25], [0.125, 1, 0.5]])[:rows, :columns]
    return safetensors(**{"w.scale": scale, "w": (np.arange(1, 7).reshape(SHAPE) / scale).astype(np.int8)})


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    import jax

    table = np.tile(np.arange(1024, dtype=np.float32), (1024, 1))
    module = xla_wasm.jax.lower(lambda x: x @ table, jax.ShapeDtypeStruct((1, 1024), np.float32))
    big = xla_wasm.compile(module, Options(sidecar=True))
    assert len(big.weights) == table.nbytes
    manifest = toy_manifest()
    manifest["parameters"][1]["name"] = "params.w"
    w = safetensors(
        other=np.zeros(3, np.int64), w=np.arange(1, 7, dtype=np.float32).reshape(SHAPE), more=np.ones(5, np.float32)
    )
    weights = SIDECAR.tobytes()
    plain = {
        "toy.wasm": toy().wasm,
        "params.wasm": toy(manifest=manifest).wasm,
        "column.wasm": toy(column_major=True).wasm,
        "big.wasm": big.wasm,
        "packed.wasm": big.wasm,
        "steps.wasm": compiled(STEPS, state=(("x", 1),)),
        "nest.wasm": xla_wasm.compile(xla_wasm.jax.lower(stepwise, np.int32(0), np.int32(1))).wasm,
        "calls.wasm": compiled(CALLS, host_calls=("f",)),
        "feeds.wasm": compiled(FEEDS),
        "dynamic.wasm": compiled(DYNAMIC),
        "big.weights": big.weights,
        "w.safetensors": w,
        "params.safetensors": w,
        "half.safetensors": safetensors(w=np.arange(1, 7, dtype=np.float16).reshape(SHAPE)),
        "brain.safetensors": safetensors(w=np.arange(1, 7, dtype=np.float32).astype(ml_dtypes.bfloat16).reshape(SHAPE)),
        **{f"int8-{rows}x{columns}.safetensors": in_8_bits(rows, columns) for rows in (1, 2) for columns in (1, 3)},
        "no-scales.safetensors": safetensors(w=np.ones(SHAPE, np.int8)),
        "wrong-scales.safetensors": safetensors(**{"w.scale": np.ones(3, np.float32), "w": np.ones(SHAPE, np.int8)}),
        "late-scales.safetensors": safetensors(
            **{"w": np.ones(SHAPE, np.int8), "w.scale": np.ones((1, 3), np.float32)}
        ),
        "codes.wasm": compiled(CODES, weights=("w",)),
        **{
            f"codes.{t}.safetensors": safetensors(w=np.arange(65536, dtype=np.uint16).view(d))
            for t, d in NARROW.items()
        },
        **{
            f"codes.{t}.f32": np.arange(65536, dtype=np.uint16).view(d).astype(np.float32).tobytes()
            for t, d in NARROW.items()
        },
        "other.weights": bytes(24),
        **dict.fromkeys(
            ("toy.weights", "params.weights", "column.weights", "kept.weights", "kept-elsewhere.weights"), weights
        ),
    }
    site = Site(
        {f"/{name}": Answer(body) for name, body in plain.items()}, {"/web": ROOT / "web", "/js": ROOT / "tests" / "js"}
    )
    site.answers |= {
        "/": Answer(b"<!doctype html><title>Tests</title>", TYPES[".html"]),
        "/packed.weights": Answer(big.weights, compressed=True),
    }
    with site.serving():
        yield site


def prepare(site: Site) -> None:
    site.asked.clear()
    for worker in ("true", "false"):
        site.answers[f"/twice-{worker}.weights"] = [Answer(bytes(24)), Answer(SIDECAR.tobytes())]


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "chromium"])
def test_in_node(engine: str, site: Site) -> None:
    node, _ = nodes()[engine.split()[1]]
    prepare(site)
    command: list[str | Path] = [
        node,
        "--expose-gc",
        ROOT / "tests" / "js" / "loading_node.mjs",
        (ROOT / "web" / "xla_wasm.js").as_uri(),
        site.url,
    ]
    assert json.loads(output(command)) == []


def test_in_chromium(page: Page, site: Site) -> None:
    prepare(site)
    page.goto(site.url)
    script = """(base) => Promise.all([import('/js/loading.mjs'), import('/web/xla_wasm.js')])
        .then(([{loading}, api]) => loading(api, base, {inBrowser: true}))"""
    assert page.evaluate(script, site.url) == []


def test_in_webkit(webkit: WebKit, site: Site) -> None:
    prepare(site)
    tab = webkit.open(site.url)
    assert tab.call(IN_A_PAGE, ["loading.mjs", "loading", {"inBrowser": True}]) == []
    tab.close()
