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
    """Returns jaxlib's StableHLO of an HLO module, whose names it wants to differ: they are changed in the module."""
    make_names_unique(module)
    return parsed(_jax.mlir.hlo_to_stablehlo(module.to_proto()))


def to_hlo(bytecode: bytes) -> bytes:
    """The HLO that jaxlib makes of bytecode."""
    return _jax.mlir.mlir_module_to_xla_computation(
        bytecode, use_tuple_args=False, return_tuple=False
    ).as_serialized_hlo_module_proto()


def operations(block: Any) -> Iterator[Any]:
    """Yields the operations of a block of jaxlib's, and those of their regions, in order."""
    for op in block:
        yield op.operation
        for region in op.operation.regions:
            for inner in region:
                yield from operations(inner)


CAPTURES = """
func.func @main(%n: tensor<i32>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %spread = stablehlo.constant dense<0.5> : tensor<3xf32>
  %twice = stablehlo.add %x, %x : tensor<3xf32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<3xf32>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %even = stablehlo.compare EQ, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %z = "stablehlo.if"(%even) ({
      %a = stablehlo.add %y, %twice : tensor<3xf32>
      stablehlo.return %a : tensor<3xf32>
    }, {
      %a = stablehlo.multiply %y, %spread : tensor<3xf32>
      stablehlo.return %a : tensor<3xf32>
    }) : (tensor<i1>) -> tensor<3xf32>
    stablehlo.return %j, %z : tensor<i32>, tensor<3xf32>
  }
  %1 = "stablehlo.case"(%n) ({
    stablehlo.return %x : tensor<3xf32>
  }, {
    stablehlo.return %spread : tensor<3xf32>
  }, {
    %a = stablehlo.add %0#1, %twice : tensor<3xf32>
    stablehlo.return %a : tensor<3xf32>
  }) : (tensor<i32>) -> tensor<3xf32>
  return %0#1, %1 : tensor<3xf32>, tensor<3xf32>
}
"""
"""Regions that use values from around them."""

SHARDY = """
sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[3, 2, 1, 0, 4, 5, 6, 7]>
sdy.mesh @"one device" = <[], device_ids=[0]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {"y", ?}]>}) -> (tensor<8x8xf32>) {
  %0 = stablehlo.add %a, %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x", "y"}, {?}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, jk], [i, jk])->([i, jk]) {i=8, j=4, k=2} blocked_propagation={i}>} : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"y":(2)2}], replicated={"x"}> : tensor<8x8xf32>
  %2 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<8x8xf32>
  %3 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x", "y"} (%q: tensor<4x8xf32>) {
    sdy.return %q : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
"""  # noqa: E501
"""Meshes, shardings, and a manual computation."""
