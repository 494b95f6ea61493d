"""The messages of hlo.proto and xla_data.proto, as `wire.Message` tables.

One message is "Name = number field:type; ...". Types and suffixes are those of `wire.Message`. Maps are written as what
they are on the wire: repeated entries of key and value. Messages that are never looked into (profiles, statistics) have
no table: their bytes are kept and written back.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ParseError, UnsupportedError
from .wire import UNKNOWN, Buffer, Message, decode, encode

_TABLE = """
ShapeProto = 2 element_type:enum; 3 dimensions:i64*; 4 tuple_shapes:ShapeProto*; 5 layout:LayoutProto;
    6 is_dynamic_dimension:bool*
LayoutProto = 1 minor_to_major:i64*; 2 padded_dimensions:i64*; 3 padding_value:enum; 6 tiles:TileProto*;
    7 element_size_in_bits:i64; 8 memory_space:i64; 9 dim_level_types:enum*; 10 physical_shape:ShapeProto;
    11 index_primitive_type:enum; 12 pointer_primitive_type:enum; 13 dim_unique:bool*; 14 dim_ordered:bool*;
    15 dynamic_shape_metadata_prefix_bytes:i64; 16 tail_padding_alignment_in_elements:i64;
    17 split_configs:SplitConfigProto*
TileProto = 1 dimensions:i64*
SplitConfigProto = 1 dimension:i64; 2 split_indices:i64*
ProgramShapeProto = 1 parameters:ShapeProto*; 2 result:ShapeProto; 3 parameter_names:str*
LiteralProto = 1 shape:ShapeProto; 2 preds:bool~; 3 u8s:bytes; 4 s32s:i32~; 5 s64s:i64~; 6 u32s:u32~; 7 u64s:u64~;
    8 f32s:f32~; 9 f64s:f64~; 10 tuple_literals:LiteralProto*; 11 f16s:bytes; 12 c64s:f32~; 13 bf16s:bytes;
    14 sparse_indices:i64~; 15 s8s:bytes; 16 u16s:bytes; 17 s16s:bytes; 18 c128s:f64~; 19 f8e5m2s:bytes;
    20 f8e4m3fns:bytes; 21 s4s:bytes; 22 u4s:bytes; 23 f8e4m3b11fnuzs:bytes; 24 f8e5m2fnuzs:bytes; 25 f8e4m3fnuzs:bytes;
    26 s2s:bytes; 27 u2s:bytes; 28 f8e4m3s:bytes; 29 f8e3m4s:bytes; 30 s1s:bytes; 31 u1s:bytes; 32 f4e2m1fns:bytes;
    33 f8e8m0fnus:bytes; 34 dynamic_sizes:i32*; 35 f6e3m2fns:bytes; 36 f6e2m3fns:bytes
HloModuleProto = 1 name:str; 2 entry_computation_name:str; 3 computations:HloComputationProto*;
    4 host_program_shape:ProgramShapeProto; 5 id:i64; 6 entry_computation_id:i64; 7 schedule:HloScheduleProto;
    8 input_output_alias:HloInputOutputAliasProto; 10 cross_program_prefetches:CrossProgramPrefetch*;
    11 is_dynamic:bool; 12 spmd_output_sharding:OpSharding; 13 profile_info:ProfileInfo*;
    14 spmd_parameters_shardings:OpSharding*; 15 device_assignment:DeviceAssignmentProto;
    16 use_auto_spmd_partitioning:bool; 17 stack_frame_index:StackFrameIndexProto; 18 buffer_donor:HloBufferDonorProto;
    19 frontend_attributes:FrontendAttributes; 20 original_value_recovery_table:OriginalValueRecoveryTableProto;
    21 device_type:str; 22 payloads:bytes*; 23 pjrt_id:i64?
HloComputationProto = 1 name:str; 2 instructions:HloInstructionProto*; 4 program_shape:ProgramShapeProto; 5 id:i64;
    6 root_id:i64; 7 is_fusion_computation:bool; 8 execution_thread:str
HloInstructionProto = 1 name:str; 2 opcode:str; 3 shape:ShapeProto; 7 metadata:OpMetadata; 8 literal:LiteralProto;
    9 parameter_number:i64; 11 fusion_kind:str; 13 tuple_index:i64; 14 dimensions:i64*; 15 window:Window;
    16 convolution_dimension_numbers:ConvolutionDimensionNumbers; 17 slice_dimensions:SliceDimensions*;
    18 exponent_bits:i32; 19 mantissa_bits:i32; 20 dynamic_slice_sizes:i64*; 21 padding_config:PaddingConfig;
    22 outfeed_config:bytes; 23 distribution:enum; 24 epsilon:f32; 25 feature_index:i64; 26 channel_id:i64;
    27 infeed_config:bytes; 28 custom_call_target:str; 29 outfeed_shape:ShapeProto;
    30 dot_dimension_numbers:DotDimensionNumbers; 31 fft_type:enum; 32 fft_length:i64*;
    33 gather_dimension_numbers:GatherDimensionNumbers; 34 gather_slice_sizes:i64*; 35 id:i64; 36 operand_ids:i64*;
    37 control_predecessor_ids:i64*; 38 called_computation_ids:i64*; 40 sharding:OpSharding; 43 backend_config:bytes;
    45 all_reduce_id:i64; 47 is_host_transfer:bool; 48 scatter_dimension_numbers:ScatterDimensionNumbers;
    49 replica_groups:ReplicaGroup*; 50 feature_group_count:i64; 51 precision_config:PrecisionConfig;
    52 source_target_pairs:SourceTarget*; 54 domain_entry_sharding:OpSharding; 55 domain_exit_sharding:OpSharding;
    56 constrain_layout:bool; 57 operand_shapes_with_layout:ShapeProto*; 58 batch_group_count:i64;
    59 triangular_solve_options:TriangularSolveOptions; 60 is_stable:bool;
    61 parameter_replication:ParameterReplication; 62 cholesky_options:CholeskyOptions; 63 comparison_direction:str;
    65 custom_call_has_side_effect:bool; 66 delta:i64; 67 indices_are_sorted:bool;
    68 frontend_attributes:FrontendAttributes; 69 unique_indices:bool; 70 rng_algorithm:enum;
    71 use_global_device_ids:bool; 72 comparison_type:str; 73 is_cross_program_prefetch:bool;
    74 output_operand_aliasing:OutputOperandAliasing*; 75 padding_type:enum; 76 custom_call_schedule:enum;
    77 custom_call_api_version:enum; 79 async_execution_thread:str; 80 cross_program_prefetch_index:i32?; 81 k:i64;
    82 statistics_viz:StatisticsViz; 85 largest:bool; 87 collective_device_list:CollectiveDeviceListProto?;
    88 original_value:OriginalValueProto; 89 is_composite:bool;
    90 ragged_dot_dimension_numbers:RaggedDotDimensionNumbers; 91 result_accuracy:ResultAccuracy;
    92 iota_collective_device_list:IotaReplicaGroupListProto?;
    93 mesh_axes_replica_group_list:MeshAxesReplicaGroupListProto?; 94 is_reverse:bool; 95 num_carries:i64;
    96 is_associative:enum; 97 conv_kind:enum; 98 sparsity_config:SparsityConfig; 99 backend_config_payload:Payload
SliceDimensions = 1 start:i64; 2 limit:i64; 3 stride:i64
HloScheduleProto = 1 sequences:SequenceEntry*
SequenceEntry = 1 key:i64; 2 value:InstructionSequence
InstructionSequence = 1 instruction_ids:i64*
HloInputOutputAliasProto = 1 entries:AliasEntryProto*
AliasEntryProto = 1 output_shape_index:i64*; 2 parameter_number:i64; 3 parameter_shape_index:i64*; 4 kind:enum
HloBufferDonorProto = 1 entries:BufferDonorEntryProto*
BufferDonorEntryProto = 1 parameter_number:i64; 2 parameter_shape_index:i64*
StackFrameIndexProto = 1 file_names:str*; 2 function_names:str*; 3 file_locations:FileLocation*;
    4 stack_frames:StackFrame*
FileLocation = 1 file_name_id:i32; 2 function_name_id:i32; 3 line:i32; 4 column:i32; 5 end_line:i32; 6 end_column:i32
StackFrame = 1 file_location_id:i32; 2 parent_frame_id:i32
DeviceAssignmentProto = 1 replica_count:i32; 2 computation_count:i32; 3 computation_devices:ComputationDevice*
ComputationDevice = 1 replica_device_ids:i64*
PaddingConfig = 1 dimensions:PaddingConfigDimension*
PaddingConfigDimension = 1 edge_padding_low:i64; 2 edge_padding_high:i64; 3 interior_padding:i64
Window = 1 dimensions:WindowDimension*
WindowDimension = 1 size:i64; 2 stride:i64; 3 padding_low:i64; 4 padding_high:i64; 5 window_dilation:i64;
    6 base_dilation:i64; 7 window_reversal:bool
DotDimensionNumbers = 1 lhs_contracting_dimensions:i64*; 2 rhs_contracting_dimensions:i64*; 3 lhs_batch_dimensions:i64*;
    4 rhs_batch_dimensions:i64*
RaggedDotDimensionNumbers = 1 dot_dimension_numbers:DotDimensionNumbers; 2 lhs_ragged_dimensions:i64*;
    3 rhs_group_dimensions:i64*
ConvolutionDimensionNumbers = 3 kernel_input_feature_dimension:i64; 4 kernel_output_feature_dimension:i64;
    6 kernel_spatial_dimensions:i64*; 7 input_batch_dimension:i64; 8 input_feature_dimension:i64;
    9 output_batch_dimension:i64; 10 output_feature_dimension:i64; 11 input_spatial_dimensions:i64*;
    12 output_spatial_dimensions:i64*
GatherDimensionNumbers = 1 offset_dims:i64*; 2 collapsed_slice_dims:i64*; 3 start_index_map:i64*;
    4 index_vector_dim:i64; 5 operand_batching_dims:i64*; 6 start_indices_batching_dims:i64*
ScatterDimensionNumbers = 1 update_window_dims:i64*; 2 inserted_window_dims:i64*; 3 scatter_dims_to_operand_dims:i64*;
    4 index_vector_dim:i64; 5 input_batching_dims:i64*; 6 scatter_indices_batching_dims:i64*
PrecisionConfig = 1 operand_precision:enum*; 2 algorithm:enum
SparsityConfig = 1 lhs:TensorSparsityConfig; 2 rhs:TensorSparsityConfig
TensorSparsityConfig = 1 num_non_zero:i64; 2 block_size:i64; 3 dimension:i64; 4 stride:i64
TriangularSolveOptions = 1 left_side:bool; 2 lower:bool; 3 unit_diagonal:bool; 4 transpose_a:enum
CholeskyOptions = 1 lower:bool
ResultAccuracy = 1 mode:enum?; 2 tolerance:Tolerance?
Tolerance = 1 atol:f64; 2 rtol:f64; 3 ulps:i64
OutputOperandAliasing = 1 output_shape_index:i64*; 2 operand_index:i64; 3 operand_shape_index:i64*
ParameterReplication = 1 replicated_at_leaf_buffers:bool*
FrontendAttributes = 1 map:StringEntry*
StringEntry = 1 key:str; 2 value:str
OpMetadata = 1 op_type:str; 2 op_name:str; 3 source_file:str; 4 source_line:i32; 5 profile_type:enum*;
    8 size_of_generated_code_in_bytes:i64; 9 size_of_memory_working_set_in_bytes:i64; 10 profile_info:ProfileInfo;
    12 deduplicated_name:str; 15 stack_frame_id:i32; 16 scheduling_name:str; 17 source_end_line:i32;
    18 source_column:i32; 19 source_end_column:i32; 20 metadata_payload:Payload
Payload = 1 value:bytes?; 2 id:i64?
ReplicaGroup = 1 replica_ids:i64*
CollectiveDeviceListProto = 1 replica_groups:ReplicaGroup*; 2 iota:IotaReplicaGroupListProto?
IotaReplicaGroupListProto = 1 num_replica_groups:i64; 2 num_devices_per_group:i64; 3 iota_reshape_dims:i64*;
    4 iota_transpose_perm:i32*
MeshAxesReplicaGroupListProto = 1 mesh:MeshProto; 2 axes:AxisRefProto*
MeshProto = 1 axes:MeshAxis*; 2 device_ids:i64*; 3 iota_transform:IotaTransform?
MeshAxis = 1 name:str; 2 size:i64
IotaTransform = 1 reshape_dims:i64*; 2 transpose_perm:i64*
AxisRefProto = 1 mesh_axis_index:i64; 2 sub_axis_info:SubAxis?
SubAxis = 1 pre_size:i64; 2 size:i64
SourceTarget = 1 source:i64; 2 target:i64
OpSharding = 1 type:enum; 2 tile_shape:ShapeProto; 3 tile_assignment_dimensions:i64*; 4 tile_assignment_devices:i64*;
    5 tuple_shardings:OpSharding*; 6 replicate_on_last_tile_dim:bool; 7 metadata:OpMetadata*; 8 last_tile_dims:enum*;
    9 iota_reshape_dims:i64*; 10 iota_transpose_perm:i32*; 11 is_shard_group:bool; 12 shard_group_id:i64;
    13 shard_group_type:enum; 14 named_sharding:NamedShardingProto?
NamedShardingProto = 2 mesh:MeshProto; 3 dim_shardings:DimensionSharding*; 4 replicated_axes:AxisRefProto*;
    5 unreduced_axes:AxisRefProto*; 6 metadata:OpMetadata*; 7 manual_axes:AxisRefProto*
DimensionSharding = 1 axes:AxisRefProto*; 2 is_closed:bool
HloProto = 1 hlo_module:HloModuleProto; 3 buffer_assignment:BufferAssignmentProto
HloSnapshot = 1 hlo:HloProto; 2 arguments:LiteralProto*; 3 result:LiteralProto; 4 execution_platform:str
HloUnoptimizedSnapshot = 1 hlo_module:HloModuleProto; 2 partitions:HloInputs*; 3 version:i32
HloInputs = 1 arguments:LiteralProto*; 2 arguments_descriptors:LiteralDescriptor*
"""


def _messages() -> dict[str, Message]:
    """Every message of the table by name; lines that begin with a blank continue the one before."""
    out = {}
    for line in _TABLE.replace("\n    ", " ").split("\n"):
        if line:
            name, _, rows = line.partition(" = ")
            out[name] = Message(name, rows)
    return out


MESSAGES: dict[str, Message] = _messages()
"""Message name -> table."""


def word(names: Sequence[str], number: int) -> str:
    """The word of an enum's number."""
    if 0 <= number < len(names):
        return names[number]
    raise ParseError(f"protobuf: enum value {number} is none of {', '.join(names)}")


class UnknownFields(UnsupportedError):
    """A message holds more than this version understands. Its known part can be read, but perhaps not compiled
    faithfully."""

    def __init__(self, message: str):
        super().__init__(f"{message} holds fields that this version does not know; the module comes from a newer XLA")


_DEEPEST = 128


def known_part(message: Message, data: Buffer, depth: int = 0) -> bytes:
    """A message without the fields that its table, or that of a message inside it, does not list."""
    if depth > _DEEPEST:
        raise ParseError(f"protobuf: messages nested deeper than {_DEEPEST}")
    fields = decode(message, data)
    fields.pop(UNKNOWN, None)
    for name, value in fields.items():
        inner = MESSAGES.get(message.inner.get(name, ""))
        if inner is not None:
            items = [known_part(inner, item, depth + 1) for item in (value if isinstance(value, list) else [value])]
            fields[name] = items if isinstance(value, list) else items[0]
    return encode(message, fields)
