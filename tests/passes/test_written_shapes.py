"""Instructions that passes write have the shapes that the records infer, and no attributes but those of the records, in
samples of every operation, after every pass."""

from __future__ import annotations

import pytest

from xla_wasm.hlo.infer import same
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.ops.collective.groups import devices_of
from xla_wasm.ops.reading import record
from xla_wasm.ops.table import FAMILIES
from xla_wasm.passes import pipeline
from xla_wasm.passes.clone import clone
from xla_wasm.passes.given import Given


def check(x: Instruction, after: str) -> None:
    op = record(x)
    assert x.attrs.keys() <= {*op.defaults, "sharding", "backend_config"}, f"after {after}: notes belong in `marks`"
    least, most = op.arity
    inside = most is not None and not least <= len(x.operands) <= most  # a form that kernels take, and no module has
    if op.infer is None or op.effect or inside:
        return
    complete = x.on(x.operands)
    complete.attrs = op.defaults | x.attrs
    shape = op.infer(complete)
    assert same(shape, x.shape), f"after {after}, {x} should be {shape}"


def check_passes(module: Module) -> int:
    """Checks every instruction after every pass; how many that were."""
    checked = 0
    for note in pipeline.NOTES:
        note(module, Given(devices=devices_of(module, None, None)))
    for pass_ in pipeline.PASSES:
        pass_(module)
        for x in module.instructions():
            check(x, pass_.__name__)
            checked += 1
    return checked


@pytest.mark.parametrize("family", FAMILIES)
def test_samples(family: str) -> None:
    module = FAMILIES[family].load_file("samples")
    samples = (*module.SAMPLES, *getattr(module, "REPLICATED", ()))
    assert sum(check_passes(clone(sample.module())) for sample in samples) > len(samples)


def test_a_wrong_shape_is_found() -> None:
    module = Module.from_text(
        "HloModule m ENTRY e { x = f32[2,3] parameter(0)  ROOT t = f32[3,2] transpose(x), dimensions={1,0} }"
    )
    module.entry.root.shape = module.entry.root.operands[0].shape
    with pytest.raises(AssertionError, match="after nothing, t = "):
        check(module.entry.root, "nothing")
