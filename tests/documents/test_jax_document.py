"""docs/jax.md runs as it is written, and names what there is."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm.host.executor import load
from xla_wasm.jax import Stats, jit
from xla_wasm.jax.jitted import _LIMITS, _OPTIONS

DOCUMENT = (ROOT / "docs" / "jax.md").read_text()


def test_the_program_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    environment = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    output([sys.executable, "-c", "\n".join(blocks)], tmp_path, environment)
    assert (
        len(blocks) >= 7
        and (tmp_path / "classify.wasm").is_file()
        and len([*(tmp_path / "cache" / "xla_wasm").iterdir()]) >= 4
    )


def test_options_are_named() -> None:
    parameters = [p.name for p in inspect.signature(jit).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in (*parameters, *_OPTIONS, *_LIMITS):
        assert re.search(rf"`{name}\b", DOCUMENT), name
    assert set(_LIMITS) < set(inspect.signature(load).parameters)
    assert all(name in DOCUMENT for name in Stats._fields)
