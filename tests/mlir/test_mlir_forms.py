"""One program has one tree, whether it comes as text, as bytecode or as a portable artifact."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from jaxlib.mlir.dialects import stablehlo

from tests.support.mlir_cases import all_forms, as_data
from tests.support.stablehlo_files import artifact_of, bytecode_of
from tests.support.stablehlo_samples import modules
from tests.support.whole_programs import PROGRAMS
from xla_wasm.mlir import bytecode, text


def check(module: Any, artifact: bool = True) -> None:
    expected = as_data(text.read(str(module)))
    assert as_data(bytecode.read(bytecode_of(module))) == expected
    if artifact:
        assert as_data(bytecode.read(artifact_of(module, stablehlo.get_current_version()))) == expected


def test_every_form() -> None:
    assert as_data(bytecode.read(bytecode_of(all_forms()))) == as_data(text.read(str(all_forms())))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs(name: str) -> None:
    program = PROGRAMS[name]()
    with jax.enable_x64(program.x64):
        check(jax.jit(program.fn).lower(*program.args).compiler_ir("stablehlo"))


def test_samples() -> None:
    for name, module in modules():
        check(module, artifact=name != "dot f32 an algorithm")  # VHLO has no algorithm of stablehlo.dot
