"""Programs for several devices in StableHLO: shardings, meshes and manual computations give the values that their HLO
gives."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import export

from tests.support.closeness import assert_all
from tests.support.programs_sharded import PROGRAMS
from tests.support.sharded_programs import devices, shardy
from tests.support.stablehlo_files import artifact_of, bytecode_of
from xla_wasm import HloModule, evaluate
from xla_wasm.hlo.verify import verify
from xla_wasm.jax import mesh

SOME = (
    "collectives_4",
    "collectives_2x2x2_two",
    "matmul_2d",
    "matmul_in_a_ring",
    "mixture_of_experts",
    "loop_outside",
    "nested",
)


@pytest.mark.parametrize("lowering", ["shardy", "gspmd"])
@pytest.mark.parametrize("name", SOME)
def test_programs(name: str, lowering: str) -> None:
    program = PROGRAMS[name]()
    arguments = [np.asarray(leaf) for leaf in jax.tree.leaves(program.args)]
    with shardy(lowering == "shardy"):
        axes = mesh(**program.axes)
        with jax.sharding.use_abstract_mesh(axes):
            lowered = (
                jax.jit(program.make(axes), keep_unused=True).trace(*program.args).lower(lowering_platforms=("cpu",))
            )
        data = export.export(jax.jit(program.make(devices(**program.axes))), platforms=["cpu"])(
            *program.args
        ).serialize()
    hlo = HloModule.from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    tree = lowered.compiler_ir("stablehlo")
    read = [
        HloModule.from_stablehlo(bytecode_of(tree)),
        HloModule.from_stablehlo(artifact_of(tree)),
        HloModule.from_exported(data),
    ]
    expected = evaluate(hlo, *arguments)
    for module in read:
        verify(module)
        assert_all(evaluate(module, *arguments), expected)


def test_the_number_of_devices_is_in_the_proto() -> None:
    program: Any = PROGRAMS["matmul_2d"]()
    data = export.export(jax.jit(program.make(devices(**program.axes))), platforms=["cpu"])(*program.args).serialize()
    module = HloModule.from_exported(data)
    count = int(np.prod(list(program.axes.values())))
    assert module.num_partitions == count
    assert HloModule.from_proto(module.to_proto()).num_partitions == count
