"""The modules of whole programs as text, as JAX lowers them and as XLA:CPU optimises them: read as XLA reads them,
nothing lost. XLA:CPU optimises every sixth, or all with --exhaustive."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from tests.support import (
    seeds,
    xla_cpu,
)
from tests.support.hlo_modules import as_text, blocks, from_text, without_frames
from tests.support.whole_programs import PROGRAMS
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.verify import verify


def modules(name: str) -> dict[str, bytes]:
    program = PROGRAMS[name]()
    with jax.enable_x64(program.x64):
        lowered: Any = jax.jit(program.fn, keep_unused=True).lower(*program.args)
        found = {"lowered": lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()}
        if not (seeds.exhaustive or list(PROGRAMS).index(name) % 6 == 0):
            return found
        try:
            # Nothing runs here, so that the judge's ISA does not matter; but where much was compiled before, XLA keeps
            # to that one.
            (optimised,) = lowered.compile({"xla_cpu_max_isa": "AVX2"}).runtime_executable().hlo_modules()
        except jax.errors.JaxRuntimeError as error:
            if not xla_cpu.lacks_f16(error):
                raise
        else:
            found["optimised"] = optimised.as_serialized_hlo_module_proto()
        return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_and_proto(name: str) -> None:
    for stage, proto in modules(name).items():
        text = as_text(proto)
        expected = as_text(from_text(text))
        module = Module.from_text(text)
        verify(module)
        written = module.to_proto()
        assert as_text(written) == expected, stage
        assert Module.from_proto(written).to_text() == module.to_text(), stage
        assert as_text(Module.from_text(module.to_text(large_constants=True)).to_proto()) == expected, stage
        assert content(as_text(Module.from_proto(proto).to_proto())) == content(text), stage


def content(text: str) -> str:
    """Returns XLA's text without the order of computations and the numbering of stack frames."""
    return without_frames("\n".join(blocks(text)))
