"""The JavaScript host: results into arrays of the caller, and views of an executable's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import xla_wasm
from tests.support.node_host import nodes
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm import Options
from xla_wasm.hlo.ir import Module

TWO = """HloModule m, entry_computation_layout={(f32[2,3]{1,0}, f32[2,3]{1,0})->(f32[3,2]{0,1}, pred[2,3]{1,0}, f32[2,3]{1,0})}
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  t = f32[3,2] transpose(x), dimensions={1,0}
  p = pred[2,3] compare(x, y), direction=GT
  d = f32[2,3] subtract(x, y)
  ROOT r = (f32[3,2], pred[2,3], f32[2,3]) tuple(t, p, d)
}
"""  # noqa: E501
XY = "ENTRY e {\n x = f32[6] parameter(0)\n y = f32[6] parameter(1)\n d = f32[6] subtract(x, y)\n"
HELD = """ENTRY e {
  w = f32[6] parameter(0)
  h = f32[6] parameter(1)
  x = f32[6] parameter(2)
  m = f32[6] multiply(w, x)
  n = f32[6] add(h, m)
  ROOT r = (f32[6], f32[6]) tuple(n, m)
}
"""
MODULES = {
    "two": (TWO, Options()),
    "sub": (XY + " ROOT r = f32[6] copy(d)\n}", Options()),
    "pass": (XY + " ROOT r = (f32[6], f32[6]) tuple(d, y)\n}", Options()),
    "held": (HELD, Options(weights=("w",), state=(("h", "result.0"),))),
    "calls": (
        "ENTRY e {\n x = f32[6] parameter(0)\n n = f32[6] negate(x)\n ROOT y = f32[6] custom-call(n), "
        'custom_call_target="mine"\n}',
        Options(host_calls=("mine",)),
    ),
    "dynamic": ("ENTRY e {\n x = f32[<=6] parameter(0)\n ROOT y = f32[<=6] negate(x)\n}", Options()),
    "many": (
        "HloModule m, replica_count=2\nENTRY e {\n x = f32[6] parameter(0)\n"
        " ROOT y = f32[6] collective-permute(x), source_target_pairs={{0,1},{1,0}}\n}",
        Options(),
    ),
} | {
    f"copy-{t}": (f"ENTRY e {{\n x = {t}[2,3] parameter(0)\n ROOT y = {t}[2,3] copy(x)\n}}", Options())
    for t in ("pred", "s4", "u2", "bf16", "f8e4m3fn", "c64", "s64", "f64")
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("views")
    for name, (text, options) in MODULES.items():
        xla_wasm.compile(Module.from_text(text), options).save(made / f"{name}.wasm")
    return made


@pytest.mark.parametrize("version", nodes())
def test_views(version: str, folder: Path) -> None:
    node, _ = nodes()[version]
    output([node, ROOT / "tests/js/views.test.mjs"], env={"FIXTURES": str(folder)})
