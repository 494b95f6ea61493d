"""StableHLO as jaxlib has it: parsed, written as bytecode and as portable artifacts, and made from HLO or into HLO."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from typing import Any

from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tests.support.xla_cpu import make_names_unique
from xla_wasm.hlo.ir import Module


@cache
def context() -> Any:
    """One with the dialects of JAX."""
    made = jax_mlir.make_ir_context()
    made.allow_unregistered_dialects = True
    return made


def parsed(text_or_bytecode: str | bytes) -> Any:
    """jaxlib's module."""
    with context():
        return ir.Module.parse(text_or_bytecode)


def bytecode_of(module: Any) -> bytes:
    """The module as bytecode of the dialects it is in."""
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def artifact_of(module: Any, version: str = "1.15.0") -> bytes:
    """The module as a portable artifact. A copy is written: jaxlib turns what it writes into VHLO in place."""
    return stablehlo.serialize_portable_artifact(parsed(bytecode_of(module)), version, allow_other_dialects=True)


def from_hlo(module: Module) -> Any:
    """What jaxlib makes of an HLO module, whose names it wants to differ."""
    make_names_unique(module)
    return parsed(_jax.mlir.hlo_to_stablehlo(module.to_proto()))


def to_hlo(bytecode: bytes) -> bytes:
    """The HLO that jaxlib makes of bytecode."""
    return _jax.mlir.mlir_module_to_xla_computation(
        bytecode, use_tuple_args=False, return_tuple=False
    ).as_serialized_hlo_module_proto()


def operations(block: Any) -> Iterator[Any]:
    """Those of a block of jaxlib's, and those of their regions, in order."""
    for op in block:
        yield op.operation
        for region in op.operation.regions:
            for inner in region:
                yield from operations(inner)
