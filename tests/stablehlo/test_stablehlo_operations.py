# ruff: noqa: E501
"""Operations that become more than themselves: the instructions are those that jaxlib makes of them, with all of their attributes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stablehlo_files import artifact_of, bytecode_of, parsed, to_hlo
from xla_wasm import HloModule
from xla_wasm.hlo.attrs import PrecisionConfig
from xla_wasm.hlo.verify import verify

T, S = "tensor<4xf32>", "tensor<f32>"
CASES = {
    "infeed": """func.func @main(%t: !stablehlo.token) -> (tensor<3xi32>, tensor<2x4xf32>, !stablehlo.token) {
      %0:3 = "stablehlo.infeed"(%t) {infeed_config = "here", layout = [[0], [0, 1]]} : (!stablehlo.token) -> (tensor<3xi32>, tensor<2x4xf32>, !stablehlo.token)
      return %0#0, %0#1, %0#2 : tensor<3xi32>, tensor<2x4xf32>, !stablehlo.token
    }""",
    "infeed of one": """func.func @main(%t: !stablehlo.token) -> tensor<3xi32> {
      %0:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<3xi32>, !stablehlo.token)
      return %0#0 : tensor<3xi32>
    }""",
    "outfeed": """func.func @main(%a: tensor<3xi32>, %b: tensor<f32>, %t: !stablehlo.token) -> !stablehlo.token {
      %0 = "stablehlo.outfeed"(%a, %b, %t) {outfeed_config = "there"} : (tensor<3xi32>, tensor<f32>, !stablehlo.token) -> !stablehlo.token
      return %0 : !stablehlo.token
    }""",
    "send to the host": """func.func @main(%a: tensor<3xi32>, %t: !stablehlo.token) -> !stablehlo.token {
      %0 = "stablehlo.send"(%a, %t) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true, mhlo.frontend_attributes = {_xla_host_transfer_rendezvous = "name"}} : (tensor<3xi32>, !stablehlo.token) -> !stablehlo.token
      return %0 : !stablehlo.token
    }""",
    "send several": """func.func @main(%a: tensor<3xi32>, %b: tensor<f32>, %t: !stablehlo.token) -> !stablehlo.token {
      %0 = "stablehlo.send"(%a, %b, %t) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true} : (tensor<3xi32>, tensor<f32>, !stablehlo.token) -> !stablehlo.token
      return %0 : !stablehlo.token
    }""",
    "recv": """func.func @main(%t: !stablehlo.token) -> (tensor<3xi32>, !stablehlo.token) {
      %0:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<3xi32>, !stablehlo.token)
      return %0#0, %0#1 : tensor<3xi32>, !stablehlo.token
    }""",
    "recv several": """func.func @main(%t: !stablehlo.token) -> (tensor<3xi32>, tensor<f32>, !stablehlo.token) {
      %0:3 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<3xi32>, tensor<f32>, !stablehlo.token)
      return %0#0, %0#1, %0#2 : tensor<3xi32>, tensor<f32>, !stablehlo.token
    }""",
    "custom call": f"""func.func private @g(%x: {T}) -> {T} {{ return %x : {T} }}
    func.func @main(%a: {T}, %b: tensor<2x3xf32>) -> {T} {{
      %0 = stablehlo.custom_call @f(%a, %b) {{has_side_effect = true, backend_config = "bytes\\00\\FF", called_computations = [@g], operand_layouts = [dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<0> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}} : ({T}, tensor<2x3xf32>) -> {T}
      return %0 : {T}
    }}""",
    "custom call with a dictionary": f"""func.func @main(%a: {T}) -> ({T}, {S}) {{
      %0:2 = stablehlo.custom_call @f(%a) {{api_version = 4 : i32, backend_config = {{n = 1 : i64, x = 2.5 : f32, tiny = 1.0e-30 : f64, name = "s\\22", flag = true, list = [1 : i32, 2 : i32]}}}} : ({T}) -> ({T}, {S})
      return %0#0, %0#1 : {T}, {S}
    }}""",
    "custom call of JAX": f"""func.func @main(%a: {T}) -> {T} {{
      %0 = stablehlo.custom_call @f(%a) {{mhlo.backend_config = {{uplo = 76 : ui8}}, mhlo.frontend_attributes = {{key = "value"}}}} : ({T}) -> {T}
      return %0 : {T}
    }}""",
    "custom call without results": f"""func.func @main(%a: {T}) -> {T} {{
      stablehlo.custom_call @f(%a) {{has_side_effect = true, api_version = 2 : i32}} : ({T}) -> ()
      return %a : {T}
    }}""",
    "rng": """func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<2x3xf32> {
      %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
      %0 = "stablehlo.rng"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution NORMAL>} : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }""",
    "rng_bit_generator": """func.func @main(%a: tensor<2xui64>) -> tensor<5xui32> {
      %0, %1 = stablehlo.rng_bit_generator %a, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui32>)
      return %1 : tensor<5xui32>
    }""",
    "sort of the last dimension": """func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = "stablehlo.sort"(%a) ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %c = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
      }) {is_stable = true} : (tensor<2x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }""",
    "composite": f"""func.func private @g(%x: {T}) -> {T} {{ return %x : {T} }}
    func.func @main(%a: {T}) -> {T} {{
      %0 = stablehlo.composite "my.op" %a {{composite_attributes = {{k = 2.0 : f32}}, decomposition = @g, version = 3 : i32}} : ({T}) -> {T}
      return %0 : {T}
    }}""",
    "barrier": f"""func.func @main(%a: {T}, %b: {S}) -> ({T}, {S}) {{
      %0:2 = stablehlo.optimization_barrier %a, %b : {T}, {S}
      return %0#0, %0#1 : {T}, {S}
    }}""",
    "tokens": f"""func.func @main(%a: {T}) -> ({T}, !stablehlo.token) {{
      %0 = stablehlo.create_token : !stablehlo.token
      %1 = stablehlo.after_all %0, %0 : !stablehlo.token
      return %a, %1 : {T}, !stablehlo.token
    }}""",
    "sizes": """func.func @main(%a: tensor<3x4xf32>, %n: tensor<i32>) -> (tensor<?x4xf32, #stablehlo.bounds<3, ?>>, tensor<i32>) {
      %0 = stablehlo.set_dimension_size %a, %n, dim = 0 : (tensor<3x4xf32>, tensor<i32>) -> tensor<?x4xf32, #stablehlo.bounds<3, ?>>
      %1 = stablehlo.get_dimension_size %0, dim = 0 : (tensor<?x4xf32, #stablehlo.bounds<3, ?>>) -> tensor<i32>
      return %0, %1 : tensor<?x4xf32, #stablehlo.bounds<3, ?>>, tensor<i32>
    }""",
    "convolution": """func.func @main(%x: tensor<1x8x8x2xf32>, %w: tensor<3x3x1x4xf32>) -> tensor<1x4x7x4xf32> {
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 1], [0, 1]], rhs_dilate = [1, 1], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGHEST>]} : (tensor<1x8x8x2xf32>, tensor<3x3x1x4xf32>) -> tensor<1x4x7x4xf32>
      return %0 : tensor<1x4x7x4xf32>
    }""",
    "dot with an algorithm": """func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> {
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 6, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      return %0 : tensor<2x4xf32>
    }""",
    "accuracy": f"""func.func @main(%a: {T}) -> ({T}, {T}) {{
      %0 = "stablehlo.exponential"(%a) {{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>}} : ({T}) -> {T}
      %1 = "stablehlo.tanh"(%a) {{result_accuracy = #stablehlo.result_accuracy<atol = 1.0e-5, ulps = 3, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}} : ({T}) -> {T}
      return %0, %1 : {T}, {T}
    }}""",
    "shardings": f"""module attributes {{mhlo.num_partitions = 2 : i32}} {{
      func.func @main(%a: {T} {{mhlo.sharding = "{{devices=[2]<=[2]}}"}}) -> ({T} {{mhlo.sharding = "{{replicated}}"}}) {{
        %0 = stablehlo.add %a, %a {{mhlo.sharding = "{{maximal device=1}}"}} : {T}
        return %0 : {T}
      }}
    }}""",
}

OF_INTEREST = (
    "infeed outfeed send send-done recv recv-done custom-call rng rng-bit-generator sort call opt-barrier after-all set-dimension-size "
    "get-dimension-size convolution dot exponential tanh add"
).split()


def instructions(module: HloModule) -> list[Any]:
    found = []
    for x in module.instructions():
        if x.opcode in OF_INTEREST:
            called = [len(c.parameters) for c in x.called]
            laid = x.shape if x.opcode in ("custom-call", "infeed") else x.shape.without_layout()
            attrs = {key: value for key, value in x.attrs.items() if value not in (b"", None)}
            if "outfeed_shape" in attrs:
                attrs["outfeed_shape"] = attrs["outfeed_shape"].without_layout()
            if {*attrs.get("precision_config", PrecisionConfig()).operand_precision} == {"default"}:
                attrs["precision_config"] = PrecisionConfig(
                    algorithm=attrs["precision_config"].algorithm
                )  # as if it said nothing
            if x.shape.is_array and laid.is_row_major:
                laid = laid.without_layout()
            found.append(
                (
                    x.opcode,
                    str(laid.with_default_layout() if laid.layout is None else laid),
                    attrs,
                    x.frontend_attributes,
                    called,
                )
            )
    return sorted(found, key=str)


@pytest.mark.parametrize("write", [bytecode_of, artifact_of])
@pytest.mark.parametrize("name", CASES)
def test_instructions(name: str, write: Any) -> None:
    tree = parsed(CASES[name])
    expected = HloModule.from_proto(to_hlo(bytecode_of(tree)))
    module = HloModule.from_stablehlo(write(tree))
    verify(module)
    assert instructions(module) == instructions(expected)
    assert module.entry.root.shape.without_layout() == expected.entry.root.shape.without_layout()
