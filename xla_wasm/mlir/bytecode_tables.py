"""MLIR bytecode's fields of each attribute, type and operation, as tables.

Attributes and types are numbered by their dialect. A row is the number, the kind, which says what is made of the fields
(`bytecode_entries.py`), and the fields as name:code. The codes:

    a  attribute          i  signed number       d  f64 as a signed number        P  pairs of attributes, a dictionary o
    attribute or none  b  byte                n  number of the type before it  S  strings, as many as the type has
    elements t  type               s  string              B  bytes                         x  flag (a number), then an
    attribute if it is set u  number             p  number or none      r  resource                      y  flag (a
    byte), then an attribute if it is set

A capital A, T, U, I or D is a list of these. A row `word` names an enumeration instead.
"""

from __future__ import annotations

from functools import cache

_BUILTIN_ATTRIBUTES = """
0 array v:A
1 dictionary v:P
2 string v:s
3 string v:s type:t
4 symbol v:a
5 symbol v:a inner:A
6 type v:t
7 unit
8 number type:t v:n
9 number type:t v:n
10 call_location callee:a caller:a
11 file_location name:a line:u column:u
12 fused_location v:A
13 fused_location v:A metadata:a
14 name_location name:a child:a
15 no_location
16 resource type:t v:r
17 dense_array type:t size:u data:B
18 dense type:t data:B
19 strings type:t splat:u v:S
20 sparse type:t indices:a values:a
21 distinct v:a
22 file_location name:a place:U
"""
_STABLEHLO_ATTRIBUTES = """
1 fields channel_id:i channel_type:i
2 word direction
3 word comparison
4 fields input_batch_dimension:i input_feature_dimension:i input_spatial_dimensions:I kernel_input_feature_dimension:i
  kernel_output_feature_dimension:i kernel_spatial_dimensions:I output_batch_dimension:i output_feature_dimension:i
  output_spatial_dimensions:I
5 fields lhs_batching_dimensions:I rhs_batching_dimensions:I lhs_contracting_dimensions:I rhs_contracting_dimensions:I
6 word fft
7 fields offset_dims:I collapsed_slice_dims:I operand_batching_dims:I start_indices_batching_dims:I start_index_map:I
  index_vector_dim:i
8 word precision
9 word algorithm
10 word distribution
11 fields update_window_dims:I inserted_window_dims:I input_batching_dims:I scatter_indices_batching_dims:I
  scatter_dims_to_operand_dims:I index_vector_dim:i
12 word transpose
13 bounds v:I
14 alias output_tuple_indices:I operand_index:i operand_tuple_indices:I
15 fields lhs_precision_type:t rhs_precision_type:t accumulation_type:t lhs_component_count:i rhs_component_count:i
  num_primitive_operations:i allow_imprecise_accumulation:b
16 word accuracy
17 accuracy atol:d rtol:d ulps:i mode:a
18 mesh_groups mesh:a axes:A
19 sub_axis pre:i size:i
20 axis name:s sub:y
21 mesh_axis name:s size:i
22 mesh axes:a device_ids:y
"""
_VHLO_ATTRIBUTES = """
1 array v:A
2 bool v:u
3 word direction
4 word comparison
5 custom_call_api v:u
6 dictionary v:P
7 word fft
8 number type:t v:n
9 number type:t v:n
10 alias output_tuple_indices:I operand_index:i operand_tuple_indices:I
11 word precision
12 word algorithm
13 word distribution
14 string v:s
15 dense type:t data:B
16 word transpose
17 type v:t
18 bounds v:I
19 word accuracy
20 accuracy atol:d rtol:d ulps:i mode:a
21 sub_axis pre:i size:i
22 axis name:a sub:x
23 mesh_groups mesh:a axes:a
24 mesh_axis name:a size:i
25 mesh axes:a device_ids:o
"""
_SDY_ATTRIBUTES = """
0 sdy_manual_axes v:A
1 mesh_axis name:s size:i
2 sdy_mesh axes:A device_ids:I
3 sub_axis pre:i size:i
4 axis name:s sub:o
5 sdy_dimension axes:A closed:b priority:p
6 sdy_sharding mesh:a dimensions:A replicated:A
7 sdy_shardings v:A
8 sdy_dim_mapping factors:I
9 sdy_tensor_mapping dimensions:A
10 sdy_rule sizes:I operands:A results:A reductions:I replications:I permutations:I blocked:I custom:b
15 sdy_sharding mesh:a dimensions:A replicated:A unreduced:A
17 sdy_sharding mesh:a dimensions:A replicated:A unreduced:A reduction:i
"""
_CHLO_ATTRIBUTES = """
0 word direction
1 word comparison
"""
_BUILTIN_TYPES = """
0 integer v:u
1 index
2 function inputs:T results:T
3 bf16
4 f16
5 f32
6 f64
7 f80
8 f128
9 complex v:t
10 memref sizes:I element:t layout:a
11 memref space:a sizes:I element:t layout:a
12 none
13 tensor sizes:I element:t
14 tensor encoding:a sizes:I element:t
15 tuple v:T
18 unranked v:t
21 tf32
22 f8E5M2
23 f8E4M3
24 f8E4M3FN
25 f8E5M2FNUZ
26 f8E4M3FNUZ
27 f8E4M3B11FNUZ
28 f8E3M4
29 f4E2M1FN
30 f6E2M3FN
31 f6E3M2FN
32 f8E8M0FNU
"""
_STABLEHLO_TYPES = """
0 token
1 future v:T
"""
_VHLO_TYPES = """
0 i1
1 complex v:t
2 bf16
3 f16
4 f32
5 f64
6 f8E4M3FN
7 f8E5M2
8 function inputs:T results:T
9 index
10 i4
11 i8
12 i16
13 i32
14 i64
15 ui4
16 ui8
17 ui16
18 ui32
19 ui64
20 tensor sizes:I element:t
21 tensor encoding:a sizes:I element:t
22 token
23 tuple v:T
24 quantized flags:u storage:t expressed:t scale:d zero_point:i minimum:i maximum:i
25 unranked v:t
26 witness
27 f8E4M3FNUZ
28 f8E5M2FNUZ
29 f8E4M3B11FNUZ
30 quantized flags:u storage:t expressed:t axis:u minimum:i maximum:i scales:D zero_points:I
31 i2
32 ui2
33 none
34 tf32
35 f8E4M3
36 f8E3M4
37 f4E2M1FN
38 f6E2M3FN
39 f6E3M2FN
40 f8E8M0FNU
41 memref sizes:I element:t
42 future v:T
"""
_TABLES = {
    "attribute": {
        "builtin": _BUILTIN_ATTRIBUTES,
        "stablehlo": _STABLEHLO_ATTRIBUTES,
        "vhlo": _VHLO_ATTRIBUTES,
        "sdy": _SDY_ATTRIBUTES,
        "chlo": _CHLO_ATTRIBUTES,
    },
    "type": {"builtin": _BUILTIN_TYPES, "stablehlo": _STABLEHLO_TYPES, "vhlo": _VHLO_TYPES},
}

WORDS = {
    "direction": ("EQ", "NE", "GE", "GT", "LE", "LT"),
    "comparison": ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    "fft": ("FFT", "IFFT", "RFFT", "IRFFT"),
    "precision": ("DEFAULT", "HIGH", "HIGHEST"),
    "algorithm": ("DEFAULT", "THREE_FRY", "PHILOX"),
    "distribution": ("INVALID", "UNIFORM", "NORMAL"),
    "transpose": ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    "accuracy": ("DEFAULT", "HIGHEST", "TOLERANCE"),
}
"""The words of the enumerations, in the order of their numbers."""

Entry = tuple[str, tuple[tuple[str, str], ...]]
"""The kind of an attribute or a type, and its fields: names and codes."""


@cache
def entries(what: str, dialect: str) -> dict[int, Entry]:
    """Number -> how an "attribute" or a "type" of the dialect is stored."""
    found: dict[int, Entry] = {}
    for row in _TABLES[what].get(dialect, "").replace("\n  ", " ").strip().splitlines():
        number, kind, *fields = row.split()
        found[int(number)] = (
            kind,
            tuple([(name, code) for name, _, code in (field.partition(":") for field in fields)]),
        )
    return found


_CONVOLUTION = (
    "input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension "
    "kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation output_batch_dimension "
    "output_feature_dimension output_spatial_dimensions"
)
_PROPERTIES = f"""
all_gather: all_gather_dim channel_handle? replica_groups use_global_device_ids?
all_reduce: channel_handle? replica_groups use_global_device_ids?
all_to_all: channel_handle? concat_dimension replica_groups split_count split_dimension
batch_norm_grad batch_norm_inference batch_norm_training: epsilon feature_index
broadcast: broadcast_sizes
broadcast_in_dim: broadcast_dimensions
cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh: result_accuracy?!
cholesky: lower?
collective_broadcast: channel_handle? has_dynamic_root?! replica_groups
collective_permute: channel_handle? source_target_pairs
collective_reduce: channel_handle? has_dynamic_root? replica_groups use_global_device_ids?
compare: compare_type? comparison_direction
composite: composite_attributes? decomposition name version?
concatenate get_dimension_size set_dimension_size: dimension
constant chlo.constant chlo.constant_like sdy.constant: value
convolution: batch_group_count dimension_numbers feature_group_count lhs_dilation? padding? precision_config?
  rhs_dilation? window_reversal? window_strides?
vhlo.convolution vhlo.dynamic_conv_v1: batch_group_count feature_group_count {_CONVOLUTION} padding precision_config
  rhs_dilation window_reversal window_strides
dynamic_conv: batch_group_count dimension_numbers feature_group_count lhs_dilation? precision_config? rhs_dilation?
  window_reversal? window_strides?
vhlo.dynamic_conv: batch_group_count feature_group_count {_CONVOLUTION} precision_config rhs_dilation window_reversal
  window_strides
cross-replica-sum: replica_groups
custom_call: api_version? backend_config? call_target_name called_computations? has_side_effect? operand_layouts?
  output_operand_aliases? result_layouts? result_tilings?!
dot: precision_config?
dot_general: algorithm?! dot_dimension_numbers precision_config?
vhlo.dot_general_v1: lhs_batching_dimensions lhs_contracting_dimensions precision_config rhs_batching_dimensions
  rhs_contracting_dimensions
vhlo.dot_general: accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count
  lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config rhs_batching_dimensions
  rhs_component_count rhs_contracting_dimensions rhs_precision_type
dynamic_broadcast_in_dim: broadcast_dimensions known_expanding_dimensions? known_nonexpanding_dimensions?
dynamic_gather: dimension_numbers indices_are_sorted?
vhlo.dynamic_gather_v1: collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims start_index_map
vhlo.dynamic_gather: collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims
  start_index_map start_indices_batching_dims
dynamic_iota iota: iota_dimension
dynamic_slice: slice_sizes
einsum unary_einsum: einsum_config
fft: fft_length fft_type
gather: dimension_numbers indices_are_sorted? slice_sizes
vhlo.gather_v1: collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes start_index_map
vhlo.gather: collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims slice_sizes
  start_index_map start_indices_batching_dims
get_tuple_element: index
infeed: infeed_config? layout?
map reduce reverse: dimensions
outfeed: outfeed_config?
pad: edge_padding_high edge_padding_low interior_padding
recv send: channel_handle is_host_transfer? source_target_pairs?!
vhlo.recv vhlo.send: channel_id channel_type is_host_transfer source_target_pairs!
reduce_precision: exponent_bits mantissa_bits
reduce_scatter: channel_handle? replica_groups scatter_dimension use_global_device_ids?
reduce_window: base_dilations? padding? window_dilations? window_dimensions window_strides?
rng: rng_distribution
rng_bit_generator: rng_algorithm
scatter: indices_are_sorted? scatter_dimension_numbers unique_indices?
vhlo.scatter_v1: index_vector_dim indices_are_sorted inserted_window_dims scatter_dims_to_operand_dims unique_indices
  update_window_dims
vhlo.scatter: index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims scatter_dims_to_operand_dims
  scatter_indices_batching_dims unique_indices update_window_dims
select_and_scatter: padding? window_dimensions? window_strides?
slice: limit_indices start_indices strides
sort: dimension? is_stable?
torch_index_select: batch_dims dim
transpose: permutation
triangular_solve: left_side lower transpose_a unit_diagonal
chlo.broadcast_compare: broadcast_dimensions? compare_type? comparison_direction
chlo.broadcast_add chlo.broadcast_and chlo.broadcast_atan2 chlo.broadcast_complex chlo.broadcast_divide
  chlo.broadcast_maximum chlo.broadcast_minimum chlo.broadcast_multiply chlo.broadcast_next_after chlo.broadcast_or
  chlo.broadcast_polygamma chlo.broadcast_power chlo.broadcast_remainder chlo.broadcast_shift_left
  chlo.broadcast_shift_right_arithmetic chlo.broadcast_shift_right_logical chlo.broadcast_subtract chlo.broadcast_xor
  chlo.broadcast_zeta: broadcast_dimensions?
chlo.ragged_dot: precision_config? ragged_dot_dimension_numbers
chlo.scan: dimension is_associative? is_reverse? scan_dim_size? +operandSegmentSizes +resultSegmentSizes
chlo.top_k: is_stable?! k
builtin.module: sym_name? sym_visibility?
func.func: arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?
func.call: arg_attrs? callee no_inline? res_attrs?
vhlo.func: arg_attrs function_type res_attrs sym_name sym_visibility
vhlo.call: callee
sdy.mesh: mesh sym_name
sdy.manual_computation: in_shardings manual_axes out_shardings
sdy.sharding_constraint sdy.reshard: sharding
sdy.sharding_group: group_id
sdy.propagation_barrier: allowed_direction
sdy.named_computation: in_shardings? name out_shardings?
"""


@cache
def _properties() -> dict[str, list[str]]:
    found = {}
    for row in _PROPERTIES.replace("\n  ", " ").strip().splitlines():
        names, _, fields = row.partition(":")
        for name in names.split():
            found[name if "." in name else f"stablehlo.{name}"] = fields.split()
    return found


@cache
def properties(name: str) -> tuple[str, ...] | None:
    """The attributes that the properties of an operation hold, in their order; None where that is not known.

    "?" behind a name: it may be absent, and is stored so. "!": the newest, which older writers leave out. "+" before a
    name: the sizes of groups of operands or results. VHLO has no absent attributes, and a row for itself only where its
    attributes are others.
    """
    known = _properties()
    if not name.startswith("vhlo."):
        fields = known.get(name)
        return None if fields is None else tuple(fields)
    base = name.rpartition("_v")[0]
    own = known.get(name) or known.get(base) or known.get(f"stablehlo.{base[5:]}")
    return (
        None
        if own is None
        else tuple([field.replace("?", "").replace("channel_handle", "channel_id") for field in own])
    )
