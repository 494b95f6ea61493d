"""A module's imports and exports follow from its target alone, and JavaScript knows all targets and features."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import wasmtime

from tests.support.paths import ROOT
from xla_wasm.assemble.assemble import boundary
from xla_wasm.assemble.driver import copy_kernel, layout, running
from xla_wasm.link.link import Linker
from xla_wasm.target import CONFIG, EXPORTS, FEATURES, MEMORY, TARGETS, THREADS, TUNES, Target
from xla_wasm.wasm.module import Module


def compiled_for(target: Target) -> wasmtime.Module:
    """A module with an empty program."""
    wasm = Module()
    wasm.add(copy_kernel())
    wasm.slot("copy")
    functions = running(direct=False, threads=False, waits=True, inits=False, brought=False)
    linker = Linker(wasm, lambda size, align, content: 0, chosen=functions)
    for symbol in functions.values():
        linker.need(symbol)
    boundary(wasm, target, 2, functions)
    return wasmtime.Module(wasmtime.Engine(), wasm.encode())


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("tune", TUNES)
def test_a_module_has_a_memory_of_its_own(name: str, tune: str) -> None:
    module = compiled_for(Target.named(name, tune))
    assert not module.imports
    assert [item.name for item in module.exports] == [MEMORY, *EXPORTS]


def test_a_target_may_have_the_memory_imported() -> None:
    module = compiled_for(replace(Target.named("simd128"), memory=("env", "shared")))
    assert [(item.module, item.name) for item in module.imports] == [("env", "shared")]
    assert [item.name for item in module.exports] == [*EXPORTS]


def test_javascript_probes_every_feature() -> None:
    probes = (ROOT / "web" / "features.js").read_text()
    assert set(re.findall(r"^  '?([\w-]+)'?: probe\(", probes, re.MULTILINE)) == {*FEATURES, THREADS}


@pytest.mark.parametrize("file", ["manifest_fields.js", "source.js", "diagnostics/hints.js"])
def test_javascript_names_every_target(file: str) -> None:
    text = (ROOT / "web" / file).read_text()
    assert [name for name in TARGETS if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)] == []


def test_the_c_runtime_has_the_same_addresses() -> None:
    text, room = (ROOT / "runtime_c" / "step.c").read_text(), layout([])
    found = {name: int(address) for name, address in re.findall(r"#define (\w+) +\(\(.*\*\)(\d+)\)", text)}
    assert found == {"AT": CONFIG, "REQUESTED": room.record, "INITS": room.table - 8, "TABLE": room.table}
