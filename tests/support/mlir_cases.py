"""Operations in MLIR's generic form, from which jaxlib prints every form that it has, and trees of MLIR as data to
compare."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from xla_wasm.mlir.tree import Dense, Op, Value

SAME_1 = (
    "abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate round_nearest_afz "
    "round_nearest_even "
    "rsqrt sign sine sqrt tan tanh"
).split()
SAME_2 = "add atan2 divide maximum minimum multiply power remainder subtract".split()
BITS_2 = "and or xor shift_left shift_right_arithmetic shift_right_logical".split()
CHLO_1 = (
    "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf "
    "lgamma sinh square tan"
).split()
CHLO_2 = "next_after polygamma zeta".split()
BROADCASTING = (
    "add atan2 complex divide maximum minimum multiply next_after polygamma power remainder subtract zeta".split()
)
ARGUMENTS = (
    "%a: t<4xf32>, %b: t<2x3xf32>, %i: t<4xi32>, %u: t<4xui32>, %p: t<4xi1>, %q: t<i1>, "
    "%c: t<4xcomplex<f32>>, %s: t<f32>, %d: t<3xf32>, %n: t<i32>, %m: t<2x2xf32>, %w: t<1x8x8x3xf32>, "
    "%k: t<3x3x3x4xf32>, %t: !stablehlo.token, %z: t<2xi64>, %h: t<?x4xf32, #stablehlo.bounds<5, ?>>"
)
_ADD = '({ ^bb0(%x: t<f32>, %y: t<f32>): %r = "stablehlo.add"(%x, %y) : (t<f32>, t<f32>) -> t<f32> \
"stablehlo.return"(%r) : (t<f32>) -> () })'
_A1, _A2 = "(t<4xf32>) -> t<4xf32>", "(t<4xf32>, t<4xf32>) -> t<4xf32>"
_DOT = "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]"
_CONV = "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"
_MANUAL = (
    '{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>, \
manual_axes = #sdy<manual_axes{"x"}>}'
)
# Below, `t<` stands for `tensor<`.
OPS = [
    *(f'"stablehlo.{name}"(%a) : {_A1}' for name in SAME_1),
    *(f'"stablehlo.{name}"(%a, %a) : {_A2}' for name in SAME_2),
    *(f'"stablehlo.{name}"(%i, %i) : (t<4xi32>, t<4xi32>) -> t<4xi32>' for name in BITS_2),
    *(f'"stablehlo.{name}"(%i) : (t<4xi32>) -> t<4xi32>' for name in ("not", "popcnt", "count_leading_zeros")),
    *(f'"chlo.{name}"(%a) : (t<4xf32>) -> t<4x{"i1" if name[:3] == "is_" else "f32"}>' for name in CHLO_1),
    *(f'"chlo.{name}"(%a, %a) : {_A2}' for name in CHLO_2),
    *(
        f'"chlo.broadcast_{name}"(%a, %a) : (t<4xf32>, t<4xf32>) -> '
        f"t<4x{'complex<f32>' if name == 'complex' else 'f32'}>"
        for name in BROADCASTING
    ),
    *(f'"chlo.broadcast_{name}"(%i, %i) : (t<4xi32>, t<4xi32>) -> t<4xi32>' for name in BITS_2),
    '"chlo.broadcast_add"(%a, %s) {broadcast_dimensions = array<i64>} : (t<4xf32>, t<f32>) -> t<4xf32>',
    '"chlo.broadcast_compare"(%a, %a) {comparison_direction = #chlo<comparison_direction LT>} : (t<4xf32>, t<4xf32>) '
    "-> t<4xi1>",
    '"chlo.broadcast_select"(%p, %a, %a) : (t<4xi1>, t<4xf32>, t<4xf32>) -> t<4xf32>',
    '"chlo.mulhi"(%u, %u) : (t<4xui32>, t<4xui32>) -> t<4xui32>',
    '"chlo.constant"() {value = dense<1.0> : t<4xf32>} : () -> t<4xf32>',
    '"chlo.constant_like"(%a) {value = 1.5 : f32} : (t<4xf32>) -> t<4xf32>',
    '"chlo.top_k"(%a) {k = 2 : i64} : (t<4xf32>) -> (t<2xf32>, t<2xi32>)',
    '"stablehlo.exponential"(%a) {result_accuracy = #stablehlo.result_accuracy<ulps = 10, '
    "mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}"
    f" : {_A1}",
    f'"stablehlo.add"(%a, %a) {{mhlo.frontend_attributes = {{a = "1"}}, some.flag}} : {_A2}',
    '"stablehlo.add"(%h, %h) : (t<?x4xf32, #stablehlo.bounds<5, ?>>, t<?x4xf32, #stablehlo.bounds<5, ?>>) -> t<?x4xf32>',
    '"stablehlo.complex"(%a, %a) : (t<4xf32>, t<4xf32>) -> t<4xcomplex<f32>>',
    '"stablehlo.real"(%c) : (t<4xcomplex<f32>>) -> t<4xf32>',
    '"stablehlo.imag"(%c) : (t<4xcomplex<f32>>) -> t<4xf32>',
    '"stablehlo.is_finite"(%a) : (t<4xf32>) -> t<4xi1>',
    '"stablehlo.convert"(%a) : (t<4xf32>) -> t<4xi8>',
    '"stablehlo.bitcast_convert"(%a) : (t<4xf32>) -> t<4xi32>',
    '"stablehlo.reshape"(%a) : (t<4xf32>) -> t<2x2xf32>',
    '"stablehlo.select"(%p, %a, %a) : (t<4xi1>, t<4xf32>, t<4xf32>) -> t<4xf32>',
    '"stablehlo.select"(%q, %a, %a) : (t<i1>, t<4xf32>, t<4xf32>) -> t<?xf32>',
    '"stablehlo.clamp"(%a, %a, %a) : (t<4xf32>, t<4xf32>, t<4xf32>) -> t<4xf32>',
    '"stablehlo.clamp"(%s, %a, %s) : (t<f32>, t<4xf32>, t<f32>) -> t<4xf32>',
    '"stablehlo.compare"(%a, %a) {comparison_direction = #stablehlo<comparison_direction GE>} : (t<4xf32>, t<4xf32>) '
    "-> t<4xi1>",
    '"stablehlo.compare"(%a, %a) {comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = '
    "#stablehlo<comparison_type TOTALORDER>} : (t<4xf32>, t<4xf32>) -> t<4xi1>",
    '"stablehlo.iota"() {iota_dimension = 0 : i64} : () -> t<4xi32>',
    '"stablehlo.dynamic_iota"(%z) {iota_dimension = 1 : i64} : (t<2xi64>) -> t<?x?xf32>',
    '"stablehlo.broadcast_in_dim"(%a) {broadcast_dimensions = array<i64: 1>} : (t<4xf32>) -> t<2x4xf32>',
    '"stablehlo.dynamic_broadcast_in_dim"(%a, %z) {broadcast_dimensions = array<i64: 1>, known_expanding_dimensions = '
    "array<i64: 0>}"
    " : (t<4xf32>, t<2xi64>) -> t<?x?xf32>",
    '"stablehlo.broadcast"(%a) {broadcast_sizes = array<i64: 2>} : (t<4xf32>) -> t<2x4xf32>',
    '"stablehlo.transpose"(%b) {permutation = array<i64: 1, 0>} : (t<2x3xf32>) -> t<3x2xf32>',
    '"stablehlo.reverse"(%b) {dimensions = array<i64: 1>} : (t<2x3xf32>) -> t<2x3xf32>',
    '"stablehlo.slice"(%b) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 3>, strides = array<i64: '
    "1, 2>}"
    " : (t<2x3xf32>) -> t<2x2xf32>",
    '"stablehlo.slice"(%s) {start_indices = array<i64>, limit_indices = array<i64>, strides = array<i64>} : (t<f32>) '
    "-> t<f32>",
    '"stablehlo.real_dynamic_slice"(%b, %z, %z, %z) : (t<2x3xf32>, t<2xi64>, t<2xi64>, t<2xi64>) -> t<?x?xf32>',
    '"stablehlo.dynamic_slice"(%b, %n, %n) {slice_sizes = array<i64: 1, 2>} : (t<2x3xf32>, t<i32>, t<i32>) -> '
    "t<1x2xf32>",
    '"stablehlo.dynamic_update_slice"(%b, %m, %n, %n) : (t<2x3xf32>, t<2x2xf32>, t<i32>, t<i32>) -> t<2x3xf32>',
    '"stablehlo.dynamic_reshape"(%a, %z) : (t<4xf32>, t<2xi64>) -> t<?x?xf32>',
    '"stablehlo.pad"(%a, %s) {edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: -1>, interior_padding '
    "= array<i64: 2>}"
    " : (t<4xf32>, t<f32>) -> t<10xf32>",
    '"stablehlo.dynamic_pad"(%b, %s, %z, %z, %z) : (t<2x3xf32>, t<f32>, t<2xi64>, t<2xi64>, t<2xi64>) -> t<?x?xf32>',
    '"stablehlo.concatenate"(%a, %a) {dimension = 0 : i64} : (t<4xf32>, t<4xf32>) -> t<8xf32>',
    '"stablehlo.get_dimension_size"(%b) {dimension = 1 : i64} : (t<2x3xf32>) -> t<i32>',
    '"stablehlo.set_dimension_size"(%b, %n) {dimension = 1 : i64} : (t<2x3xf32>, t<i32>) -> t<2x?xf32, '
    "#stablehlo.bounds<?, 3>>",
    f'"stablehlo.dot_general"(%m, %b) {{dot_dimension_numbers = #stablehlo.dot<{_DOT}>}} : (t<2x2xf32>, t<2x3xf32>) '
    f"-> t<2x3xf32>",
    '"stablehlo.dot_general"(%m, %b) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], '
    "rhs_batching_dimensions = [0]>, precision_config = "
    "[#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]} : (t<2x2xf32>, t<2x3xf32>) -> t<2x2x3xf32>",
    f'"stablehlo.dot_general"(%m, %b) {{dot_dimension_numbers = #stablehlo.dot<{_DOT}>, algorithm = '
    f"#stablehlo.dot_algorithm<"
    "lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, "
    "rhs_component_count = 1, "
    "num_primitive_operations = 1, allow_imprecise_accumulation = false>} : (t<2x2xf32>, t<2x3xf32>) -> t<2x3xf32>",
    '"stablehlo.dot"(%m, %b) : (t<2x2xf32>, t<2x3xf32>) -> t<2x3xf32>',
    f'"stablehlo.convolution"(%w, %k) {{dimension_numbers = {_CONV}, feature_group_count = 1 : i64, batch_group_count '
    f"= 1 : i64}}"
    " : (t<1x8x8x3xf32>, t<3x3x3x4xf32>) -> t<1x6x6x4xf32>",
    f'"stablehlo.convolution"(%w, %k) {{dimension_numbers = {_CONV}, feature_group_count = 1 : i64, batch_group_count '
    f"= 1 : i64, "
    "window_strides = array<i64: 1, 2>, padding = dense<[[1, 2], [0, 1]]> : t<2x2xi64>, lhs_dilation = array<i64: 1, "
    "1>, "
    "rhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: true, false>, precision_config = "
    "[#stablehlo<precision HIGHEST>, "
    "#stablehlo<precision HIGHEST>]} : (t<1x8x8x3xf32>, t<3x3x3x4xf32>) -> t<1x7x4x4xf32>",
    f'"stablehlo.reduce"(%b, %s) {_ADD} {{dimensions = array<i64: 1>}} : (t<2x3xf32>, t<f32>) -> t<2xf32>',
    '"stablehlo.reduce"(%a, %i, %s, %n) ({ ^bb0(%x: t<f32>, %y: t<i32>, %v: t<f32>, %o: t<i32>): '
    '"stablehlo.return"(%v, %y) : (t<f32>, t<i32>) -> () }) {dimensions = array<i64: 0>, some.flag} '
    ": (t<4xf32>, t<4xi32>, t<f32>, t<i32>) -> (t<f32>, t<i32>)",
    f'"stablehlo.reduce_window"(%b, %s) {_ADD} {{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, '
    f"1>}}"
    " : (t<2x3xf32>, t<f32>) -> t<2x2xf32>",
    '"stablehlo.while"(%n, %a) ({ ^bb0(%x: t<i32>, %y: t<4xf32>): "stablehlo.return"(%q) : (t<i1>) -> () }, '
    '{ ^bb0(%x: t<i32>, %y: t<4xf32>): "stablehlo.return"(%x, %y) : (t<i32>, t<4xf32>) -> () }) {some.flag}'
    " : (t<i32>, t<4xf32>) -> (t<i32>, t<4xf32>)",
    '"stablehlo.while"(%a) ({ ^bb0(%y: t<4xf32>): "stablehlo.return"(%q) : (t<i1>) -> () }, '
    f'{{ ^bb0(%y: t<4xf32>): "stablehlo.return"(%y) : (t<4xf32>) -> () }}) : {_A1}',
    '"stablehlo.if"(%q) ({ "stablehlo.return"(%a) : (t<4xf32>) -> () }, { "stablehlo.return"(%a) : (t<4xf32>) -> () })'
    " : (t<i1>) -> t<4xf32>",
    '"stablehlo.sort"(%a) ({ ^bb0(%x: t<f32>, %y: t<f32>): "stablehlo.return"(%q) : (t<i1>) -> () })'
    f" {{dimension = 0 : i64, is_stable = true}} : {_A1}",
    '"stablehlo.custom_call"(%a) {call_target_name = "foo", backend_config = "x\\22y", has_side_effect = true} : '
    "(t<4xf32>) -> ()",
    '"stablehlo.custom_call"(%a) {call_target_name = "a b", api_version = 4 : i32, backend_config = {n = 1 : i64}, '
    "operand_layouts = "
    "[dense<0> : t<1xindex>], result_layouts = [dense<0> : t<1xindex>], called_computations = [@f], "
    "output_operand_aliases = "
    f"[#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}} : "
    f"{_A1}",
    f'"stablehlo.composite"(%a) {{name = "a.b", decomposition = @f, version = 2 : i32, composite_attributes = {{k = 1 '
    f": i64}}}} : {_A1}",
    f'"func.call"(%a) {{callee = @f}} : {_A1}',
    '"stablehlo.fft"(%c) {fft_type = #stablehlo<fft_type IFFT>, fft_length = array<i64: 4>} : (t<4xcomplex<f32>>) -> '
    "t<4xcomplex<f32>>",
    '"stablehlo.cholesky"(%m) {lower = true} : (t<2x2xf32>) -> t<2x2xf32>',
    '"stablehlo.cholesky"(%m) : (t<2x2xf32>) -> t<2x2xf32>',
    '"stablehlo.triangular_solve"(%m, %b) {left_side = true, lower = false, transpose_a = #stablehlo<transpose '
    "NO_TRANSPOSE>, "
    "unit_diagonal = false} : (t<2x2xf32>, t<2x3xf32>) -> t<2x3xf32>",
    f'"stablehlo.reduce_precision"(%a) {{exponent_bits = 5 : i32, mantissa_bits = 7 : i32}} : {_A1}',
    '"stablehlo.rng"(%s, %s, %z) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (t<f32>, t<f32>, '
    "t<2xi64>) -> t<?x?xf32>",
    '"stablehlo.rng_bit_generator"(%u) {rng_algorithm = #stablehlo<rng_algorithm PHILOX>} : (t<4xui32>) -> '
    "(t<4xui32>, t<7xui32>)",
    '"stablehlo.tuple"(%a, %n) : (t<4xf32>, t<i32>) -> tuple<t<4xf32>, t<i32>>',
    '"stablehlo.tuple"() : () -> tuple<>',
    f'"stablehlo.optimization_barrier"(%a) : {_A1}',
    '"stablehlo.optimization_barrier"(%a, %n) : (t<4xf32>, t<i32>) -> (t<4xf32>, t<i32>)',
    '"stablehlo.optimization_barrier"() : () -> ()',
    '"stablehlo.create_token"() : () -> !stablehlo.token',
    '"stablehlo.after_all"(%t, %t) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token',
    '"stablehlo.after_all"() : () -> !stablehlo.token',
    '"stablehlo.infeed"(%t) {infeed_config = "a", layout = [[0]]} : (!stablehlo.token) -> (t<4xf32>, !stablehlo.token)',
    '"stablehlo.outfeed"(%a, %t) {outfeed_config = ""} : (t<4xf32>, !stablehlo.token) -> !stablehlo.token',
    '"stablehlo.send"(%a, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = '
    "true}"
    " : (t<4xf32>, !stablehlo.token) -> !stablehlo.token",
    '"stablehlo.partition_id"() : () -> t<ui32>',
    '"stablehlo.replica_id"() : () -> t<ui32>',
    f'"stablehlo.all_reduce"(%a) {_ADD} {{replica_groups = dense<[[0, 1]]> : t<1x2xi64>, channel_handle = '
    f"#stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}} : {_A1}",
    '"stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1], [1, 0]]> : t<2x2xi64>, channel_handle = '
    f"#stablehlo.channel_handle<handle = 0, type = 0>}} : {_A1}",
    '"stablehlo.gather"(%b, %z) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], '
    "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>, indices_are_sorted = false}"
    " : (t<2x3xf32>, t<2xi64>) -> t<2x3xf32>",
    '"stablehlo.einsum"(%m, %b) {einsum_config = "ab,bc->ac"} : (t<2x2xf32>, t<2x3xf32>) -> t<2x3xf32>',
    '"stablehlo.unary_einsum"(%m) {einsum_config = "ab->a"} : (t<2x2xf32>) -> t<2xf32>',
    '"chlo.scan"(%b, %d) ({ ^bb0(%x: t<3xf32>, %y: t<3xf32>): "stablehlo.return"(%y, %x) : (t<3xf32>, t<3xf32>) -> () '
    "})"
    " {dimension = 0 : i64, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = "
    "array<i32: 1, 1>}"
    " : (t<2x3xf32>, t<3xf32>) -> (t<2x3xf32>, t<3xf32>)",
    '"sdy.sharding_constraint"(%a) {sharding = #sdy.sharding<@mesh, [{"x"}]>} : (t<4xf32>) -> t<4xf32>',
    '"sdy.reshard"(%a) {sharding = #sdy.sharding<@mesh, [{"x"}]>} : (t<4xf32>) -> t<4xf32>',
    f'"sdy.manual_computation"(%a) ({{ ^bb0(%x: t<2xf32>): "sdy.return"(%x) : (t<2xf32>) -> () }}) {_MANUAL} : {_A1}',
    '"sdy.sharding_group"(%a) {group_id = 3 : i64} : (t<4xf32>) -> ()',
    f'"sdy.propagation_barrier"(%a) {{allowed_direction = 0 : i32}} : {_A1}',
    f'"sdy.named_computation"(%a) ({{ ^bb0(%x: t<4xf32>): "sdy.return"(%x) : (t<4xf32>) -> () }}) {{name = "foo"}} : '
    f"{_A1}",
    '"sdy.constant"() {value = dense<1.0> : t<4xf32>} : () -> t<4xf32>',
]
"""Operations on the arguments above, in their generic form."""
CONSTANTS = [
    *(
        f"dense<{v}> : t<{v.count(',') + 1}x{t}>"
        for t in ("i8", "i16", "i32", "i64")
        for v in ("[-1, 2, 127]", "[5, 5]")
    ),
    *(f"dense<[255, 0]> : t<2x{t}>" for t in ("ui8", "ui16", "ui32", "ui64")),
    *(f"dense<[1.5, -0.0, 1.0e-3, 0x{'7F' + 'C' * (n - 2)}]> : t<4xf{4 * n}>" for n in (4, 8, 16)),
    "dense<[1.5, -0.0, 0x7FC1, 1.001]> : t<4xbf16>",
    *(
        f"dense<[1.5, -2.0, 0.5]> : t<3x{t}>"
        for t in "f8E5M2 f8E4M3 f8E4M3FN f8E5M2FNUZ f8E4M3FNUZ f8E4M3B11FNUZ f8E3M4 f4E2M1FN f6E2M3FN f6E3M2FN".split()
    ),
    "dense<[1.0, 0.5]> : t<2xf8E8M0FNU>",
    "dense<[-8, 7, 0]> : t<3xi4>",
    "dense<[15, 0]> : t<2xui4>",
    "dense<[-2, 1]> : t<2xi2>",
    "dense<[(1.0, -2.0), (0.0, 0x7F800000)]> : t<2xcomplex<f32>>",
    "dense<(1.0, -2.0)> : t<complex<f64>>",
    "dense<(1.0, -2.0)> : t<3xcomplex<f64>>",
    "dense<[true, false, true]> : t<3xi1>",
    "dense<true> : t<20xi1>",
    "dense<> : t<0x2xi32>",
    "dense<[[[1], [2]], [[3], [4]]]> : t<2x2x1xi32>",
    f"dense<[{', '.join(str(i * i) for i in range(150))}]> : t<150xi32>",
    f"dense<[{', '.join(str(i % 3 == 0).lower() for i in range(150))}]> : t<150xi1>",
    f"dense<[{', '.join(str(i % 16 - 8) for i in range(150))}]> : t<150xi4>",
]
"""Constants of all types. The long ones are printed as hexadecimal bytes."""


@cache
def all_forms() -> ir.Module:
    """One module that has every operation above."""
    return _module(OPS, '  sdy.mesh @mesh = <["x"=2]>\n')


@cache
def portable_forms() -> tuple[str, str]:
    """Returns the operations that VHLO has, as text of VHLO and of StableHLO."""
    absent = (
        '"chlo',
        '"sdy',
        '"stablehlo.einsum',
        '"stablehlo.unary_einsum',
        '"stablehlo.dot"',
        '"stablehlo.broadcast"',
    )
    module = _module([op.replace("some.flag", 'some.flag = "x"') for op in OPS if not op.startswith(absent)])
    with module.context:
        data = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
        return str(ir.Module.parse(data)), str(module)


def _module(ops: list[str], head: str = "") -> ir.Module:
    lines = [f"  {op}" if op.endswith("-> ()") else f"  {_results(op, i)} = {op}" for i, op in enumerate(ops)]
    lines += [
        f'  %k{i} = "stablehlo.constant"() {{value = {value}}} : () -> {value.rpartition(" : ")[2]}'
        for i, value in enumerate(CONSTANTS)
    ]
    with make_ir_context() as context:
        context.allow_unregistered_dialects = True
        text = (
            f"module @all attributes {{mhlo.num_partitions = 2 : i32}} {{\n{head}"
            "func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %a : tensor<4xf32>\n}\n"
            f'func.func public @main({ARGUMENTS}) -> (tensor<f32> {{jax.result_info = "r"}}) {{\n'
            + "\n".join(lines)
            + "\n  func.return %s : tensor<f32>\n}\n}"
        )
        return ir.Module.parse(re.sub(r"\bt<", "tensor<", text))


def _results(op: str, number: int) -> str:
    """The names that stand before an operation, by the types at its end."""
    types = re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "", op).rpartition("->")[2].strip()
    return f"%v{number}:{types.count(',') + 1}" if types[0] == "(" else f"%v{number}"


def as_data(ops: list[Op], locations: bool = False) -> list[Any]:
    """A tree as data: values by number in the order of their definitions."""
    out: list[Any] = []
    numbers: dict[Value, int] = {}
    pending: list[Any] = [*reversed(ops)]
    while pending:
        item = pending.pop()
        if not isinstance(item, Op):
            arguments = item.arguments
            numbers |= {value: len(numbers) + i for i, value in enumerate(arguments)}
            out.append(("block", [value.type for value in arguments]))
            pending += [*reversed(item.ops)]
            continue
        attributes = {key: _plain(value) for key, value in sorted(item.attributes.items())}
        out.append(
            (
                item.name,
                [numbers[o] for o in item.operands],
                attributes,
                [r.type for r in item.results],
                len(item.regions),
            )
        )
        if locations:
            out.append(item.location)
        numbers |= {value: len(numbers) + i for i, value in enumerate(item.results)}
        pending += [block for region in reversed(item.regions) for block in reversed(region)]
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, Dense):
        return "dense", value.type, bytes(value.data), value.is_splat
    if type(value) is tuple:
        return tuple(map(_plain, value))
    return {key: _plain(v) for key, v in value.items()} if isinstance(value, dict) else value
