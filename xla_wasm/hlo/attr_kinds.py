"""Kinds of instruction attributes: how each is read from and written to HloInstructionProto, and printed as HLO text.

An op record names a kind per attribute. (kind, fields it reads, the Python value):

scalars
  int                 one int field                                                int (absent: 0)
  count               feature_group_count, batch_group_count                       int (absent or 0: 1)
  first_int           14 dimensions of exactly one element (iota_dimension)        int
  optional_first_int  14 dimensions of at most one element (inferred_dimension)    int or None
  optional_int        a field with presence (cross_program_prefetch_index)         int or None
  channel_id          26                                                           int or None (absent or <= 0)
  bool                one bool field                                               bool (absent: False)
  float               epsilon                                                      float
  str                 a string field (custom_call_target, kind of a fusion ...)    str
  bytes               backend_config, infeed_config, outfeed_config                bytes
  raw                 any submessage kept as wire bytes (sharding, sparsity_config)  bytes or None
lists
  ints                dimensions, dynamic_slice_sizes, fft_length, slice_sizes     tuple of int
  bools               inside a message: parameter_replication (61)                 tuple of bool
  slices              17 slice_dimensions                                          tuple of SliceDimension
  padding             21 padding_config                                            tuple of PaddingDimension
  shapes              57 operand_shapes_with_layout                                tuple of Shape
  shape               29 outfeed_shape                                             Shape or None
  source_target_pairs 52                                                           tuple of (source, target)
  replica_groups      fields (87, 92, 93, 49)                                      ReplicaGroups
  output_operand_aliasing 74                                                       tuple of (output index, operand, operand index)
messages
  window              15                                                           Window or None
  convolution_dimension_numbers 16                                                 ConvolutionDimensionNumbers or None
  dot_dimension_numbers 30, ragged_dot_dimension_numbers 90, gather_dimension_numbers 33, scatter_dimension_numbers 48
  precision_config    51                                                           PrecisionConfig
  triangular_solve_options 59                                                      TriangularSolveOptions
  cholesky_options    62                                                           bool (lower)
  result_accuracy     91                                                           ResultAccuracy or None
  literal             8                                                            Literal or None
  domain              fields (54, 55)                                              (entry, exit): OpSharding bytes, as in the text
words
  comparison_direction 63 (EQ NE GE GT LE LT), comparison_type 72 (FLOAT TOTALORDER SIGNED UNSIGNED; absent: by operand)
  fft_type 31 (FFT IFFT RFFT IRFFT), distribution 23 (rng_uniform rng_normal), rng_algorithm 70 (rng_default rng_three_fry rng_philox)
  padding_type 75 (PADDING_VALID ...), custom_call_schedule 76 (SCHEDULE_NONE ...), custom_call_api_version 77 (API_VERSION_ORIGINAL ...)
  tri_state 96 (True, False or None), convolution_kind 97 (unset fprop dgrad wgrad)

`sharding` (40, kind raw) and `backend_config` (43, kind bytes) are read for every opcode without a record saying so;
records must not list them, nor name, shape, metadata, frontend_attributes, operands, called computations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass
from ..errors import ParseError
from .attrs import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    IotaGroups,
    MeshGroups,
    PaddingDimension,
    PrecisionConfig,
    RaggedDotDimensionNumbers,
    ReplicaGroups,
    ResultAccuracy,
    ScatterDimensionNumbers,
    SliceDimension,
    TriangularSolveOptions,
    Window,
    WindowDimension,
)
from .literal import Literal
from .op import REQUIRED
from .schema import MESSAGES, UnknownFields
from .shape_proto import read_shape, write_shape
from .types import TYPES
from .wire import UNKNOWN, Buffer, Fields, decode, encode

if TYPE_CHECKING:
    from .ir import Instruction

Reader = Callable[[Fields, tuple[str, ...], "Instruction"], Any]
"""Takes the fields it knows out of a decoded HloInstructionProto. The instruction has its operands already."""
Writer = Callable[[Fields, tuple[str, ...], Any], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """How attributes of one kind are read and written. `hlo.printer` prints them."""

    read: Reader
    write: Writer
    absent: Any = REQUIRED
    """The value where the proto lacks the field; REQUIRED: only `read` can tell."""


def _fields(name: str, data: Buffer) -> Fields:
    """A decoded attribute message."""
    fields = decode(MESSAGES[name], data)
    if UNKNOWN in fields:
        raise UnknownFields(name)
    return fields


def _record(cls: Any, name: str, data: Buffer) -> Any:
    """A dataclass whose fields are those of the message, absent ones 0, False or ()."""
    fields = _fields(name, data)
    writers = MESSAGES[name].writers
    return cls(*[tuple(fields.get(f, ())) if writers[f][2] else fields.get(f, 0) for f in cls.__dataclass_fields__])


def _message(name: str, value: Any) -> bytes:
    """The reverse of `_record`."""
    return encode(MESSAGES[name], {f: getattr(value, f) for f in value.__dataclass_fields__})


def _scalar(zero: Any) -> Kind:
    def read(fields: Fields, keys: tuple[str, ...], _: Instruction) -> Any:
        return fields.pop(keys[0], zero)

    def write(fields: Fields, keys: tuple[str, ...], value: Any) -> None:
        fields[keys[0]] = value

    return Kind(read, write, zero)


def _converted(from_wire: Callable[[Any], Any], to_wire: Callable[[Any], Any], absent: Any = None) -> Kind:
    """A kind of one field, absent from the wire and None in `to_wire`'s result alike."""

    def read(fields: Fields, keys: tuple[str, ...], _: Instruction) -> Any:
        value = fields.pop(keys[0], None)
        return absent if value is None else from_wire(value)

    def write(fields: Fields, keys: tuple[str, ...], value: Any) -> None:
        if value is not None:
            fields[keys[0]] = to_wire(value)

    return Kind(read, write, absent)


def _dimension_numbers(cls: Any) -> Kind:
    name = cls.__name__
    return _converted(lambda data: _record(cls, name, data), lambda value: _message(name, value), cls())


WORDS: dict[str, tuple[str, ...]] = {
    kind: tuple(words.split())
    for kind, words in {
        "fft_type": "FFT IFFT RFFT IRFFT",
        "distribution": "rng_invalid rng_uniform rng_normal",
        "rng_algorithm": "rng_default rng_three_fry rng_philox",
        "padding_type": "PADDING_INVALID PADDING_VALID PADDING_SAME",
        "custom_call_schedule": "SCHEDULE_NONE SCHEDULE_LATEST SCHEDULE_EARLIEST",
        "custom_call_api_version": (
            "API_VERSION_UNSPECIFIED API_VERSION_ORIGINAL API_VERSION_STATUS_RETURNING "
            "API_VERSION_STATUS_RETURNING_UNIFIED API_VERSION_TYPED_FFI"
        ),
        "convolution_kind": "unset fprop dgrad wgrad",
    }.items()
}
"""Kinds that are enums: their words in HLO text, in the order of the numbers."""


def _words(names: tuple[str, ...]) -> Kind:
    """An enum as its word in HLO text."""
    return _converted(lambda number: word(names, number), names.index, names[0])


def word(names: list[str] | tuple[str, ...], number: int) -> str:
    """The word of an enum's number."""
    if 0 <= number < len(names):
        return names[number]
    raise ParseError(f"protobuf: enum value {number} is none of {', '.join(names)}")


def _first(fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> int:
    values = fields.pop(keys[0], ())
    if len(values) != 1:
        raise ParseError(f"{instruction.where}: exactly one dimension expected, not {len(values)}")
    return values[0]


def _optional_first(fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> int | None:
    return _first(fields, keys, instruction) if fields.get(keys[0]) else fields.pop(keys[0], None) and None


def _write_first(fields: Fields, keys: tuple[str, ...], value: int | None) -> None:
    fields[keys[0]] = None if value is None else [value]


def _read_window(data: Buffer) -> Window:
    return Window(tuple(_record(WindowDimension, "WindowDimension", d) for d in _fields("Window", data).get("dimensions", ())))


def _write_window(window: Window) -> bytes:
    return encode(MESSAGES["Window"], {"dimensions": [_message("WindowDimension", d) for d in window.dimensions]})


def _records(cls: Any, name: str) -> Kind:
    """A repeated message as a tuple of dataclasses."""
    return _converted(lambda items: tuple([_record(cls, name, d) for d in items]), lambda value: [_message(name, d) for d in value], ())


def _read_padding(data: Buffer) -> tuple[PaddingDimension, ...]:
    items = _fields("PaddingConfig", data).get("dimensions", ())
    return tuple([_record(PaddingDimension, "PaddingConfigDimension", d) for d in items])


def _write_padding(value: Iterable[PaddingDimension]) -> bytes:
    return encode(MESSAGES["PaddingConfig"], {"dimensions": [_message("PaddingConfigDimension", d) for d in value]})


def _read_ragged(data: Buffer) -> RaggedDotDimensionNumbers:
    fields = _fields("RaggedDotDimensionNumbers", data)
    inner = _record(DotDimensionNumbers, "DotDimensionNumbers", fields.get("dot_dimension_numbers", b""))
    return RaggedDotDimensionNumbers(inner, tuple(fields.get("lhs_ragged_dimensions", ())), tuple(fields.get("rhs_group_dimensions", ())))


def _write_ragged(value: RaggedDotDimensionNumbers) -> bytes:
    return encode(
        MESSAGES["RaggedDotDimensionNumbers"],
        {
            "dot_dimension_numbers": _message("DotDimensionNumbers", value.dot_dimension_numbers),
            "lhs_ragged_dimensions": value.lhs_ragged_dimensions,
            "rhs_group_dimensions": value.rhs_group_dimensions,
        },
    )


PRECISIONS = ("default", "high", "highest")
ALGORITHMS = (
    "unset dot_any_f8_any_f8_f32 dot_any_f8_any_f8_f32_fast_accum dot_f16_f16_f16 dot_f16_f16_f32 dot_bf16_bf16_bf16 dot_bf16_bf16_f32 "
    "dot_bf16_bf16_f32_x3 dot_bf16_bf16_f32_x6 dot_tf32_tf32_f32 dot_tf32_tf32_f32_x3 dot_f32_f32_f32 dot_f64_f64_f64 dot_bf16_bf16_f32_x9"
).split()


def _read_precision(data: Buffer) -> PrecisionConfig:
    fields = _fields("PrecisionConfig", data)
    precisions = tuple(word(PRECISIONS, number) for number in fields.get("operand_precision", ()))
    return PrecisionConfig(precisions, word(ALGORITHMS, fields.get("algorithm", 0)))


def _write_precision(value: PrecisionConfig) -> bytes:
    numbers = [PRECISIONS.index(name) for name in value.operand_precision]
    return encode(MESSAGES["PrecisionConfig"], {"operand_precision": numbers, "algorithm": ALGORITHMS.index(value.algorithm)})


TRANSPOSES = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


def _read_triangular(data: Buffer) -> TriangularSolveOptions:
    fields = _fields("TriangularSolveOptions", data)
    left, lower, unit = (fields.get(name, False) for name in ("left_side", "lower", "unit_diagonal"))
    return TriangularSolveOptions(left, lower, unit, word(TRANSPOSES, fields.get("transpose_a", 0)))


def _write_triangular(value: TriangularSolveOptions) -> bytes:
    fields = {"left_side": value.left_side, "lower": value.lower, "unit_diagonal": value.unit_diagonal}
    return encode(MESSAGES["TriangularSolveOptions"], {**fields, "transpose_a": TRANSPOSES.index(value.transpose_a)})


def _read_accuracy(data: Buffer) -> ResultAccuracy:
    fields = _fields("ResultAccuracy", data)
    if "tolerance" in fields:
        tolerance = _fields("Tolerance", fields["tolerance"])
        return ResultAccuracy("", tolerance.get("atol", 0.0), tolerance.get("rtol", 0.0), tolerance.get("ulps", 0))
    return ResultAccuracy(word(("default", "highest"), fields.get("mode", 0)))


def _write_accuracy(value: ResultAccuracy) -> bytes:
    if value.mode:
        return encode(MESSAGES["ResultAccuracy"], {"mode": ("default", "highest").index(value.mode)})
    tolerance = encode(MESSAGES["Tolerance"], {"atol": value.atol, "rtol": value.rtol, "ulps": value.ulps})
    return encode(MESSAGES["ResultAccuracy"], {"tolerance": tolerance})


def _read_aliasing(items: list[Buffer]) -> tuple[Any, ...]:
    decoded = [_fields("OutputOperandAliasing", d) for d in items]
    return tuple(
        (tuple(f.get("output_shape_index", ())), f.get("operand_index", 0), tuple(f.get("operand_shape_index", ()))) for f in decoded
    )


def _write_aliasing(value: Iterable[tuple[tuple[int, ...], int, tuple[int, ...]]]) -> list[bytes]:
    message = MESSAGES["OutputOperandAliasing"]
    return [encode(message, {"output_shape_index": o, "operand_index": n, "operand_shape_index": i}) for o, n, i in value]


def _read_pairs(items: list[Buffer]) -> tuple[tuple[int, int], ...]:
    decoded = [_fields("SourceTarget", d) for d in items]
    return tuple((f.get("source", 0), f.get("target", 0)) for f in decoded)


def _write_pairs(value: Iterable[tuple[int, int]]) -> list[bytes]:
    return [encode(MESSAGES["SourceTarget"], {"source": s, "target": t}) for s, t in value]


def _read_iota(data: Buffer) -> IotaGroups:
    fields = _fields("IotaReplicaGroupListProto", data)
    groups, size = fields.get("num_replica_groups", 0), fields.get("num_devices_per_group", 0)
    dims, perm = tuple(fields.get("iota_reshape_dims", ())), tuple(fields.get("iota_transpose_perm", ()))
    _check_iota(dims, perm)
    total = 1
    for dim in dims:
        total *= dim
    if groups < 1 or size < 1 or groups * size != total:
        raise ParseError(f"protobuf: replica groups [{groups},{size}] do not fit an iota of {list(dims)}")
    return IotaGroups(groups, size, dims, perm)


_MOST_DEVICES = 1 << 20


def _check_iota(dims: tuple[int, ...], perm: tuple[int, ...]) -> None:
    """Dimensions that multiply to a sane number of devices, and a permutation of them."""
    total = 1
    for dim in dims:
        total *= dim
        if dim < 1 or total > _MOST_DEVICES:
            raise ParseError(f"protobuf: device groups of {list(dims[:8])}: sizes must be positive and at most {_MOST_DEVICES} in all")
    if sorted(perm) != list(range(len(dims))):
        raise ParseError(f"protobuf: device groups: {list(perm[:8])} is no permutation of {len(dims)} dimensions")


def _read_mesh(data: Buffer) -> MeshGroups:
    fields = _fields("MeshAxesReplicaGroupListProto", data)
    mesh = _fields("MeshProto", fields.get("mesh", b""))
    axes = tuple((a.get("name", ""), a.get("size", 0)) for a in (_fields("MeshAxis", d) for d in mesh.get("axes", ())))
    sizes = tuple(size for _, size in axes)
    _check_iota(sizes, tuple(range(len(sizes))))
    refs = []
    for item in fields.get("axes", ()):
        ref = _fields("AxisRefProto", item)
        axis = ref.get("mesh_axis_index", 0)
        sub = _fields("SubAxis", ref.get("sub_axis_info", b""))
        pre, size = sub.get("pre_size", 0), sub.get("size", 0)
        if not 0 <= axis < len(axes) or ("sub_axis_info" in ref and (pre < 1 or size < 1 or axes[axis][1] % (pre * size))):
            raise ParseError(f"protobuf: a replica group refers to axis {axis} (sub-axis {pre}, {size}) that its mesh lacks")
        refs.append((axis, pre, size))
    iota = _fields("IotaTransform", mesh.get("iota_transform", b""))
    dims, perm = tuple(iota.get("reshape_dims", ())), tuple(iota.get("transpose_perm", ()))
    devices = tuple(mesh.get("device_ids", ()))
    count = 1
    for size in sizes:
        count *= size
    _check_iota(dims, perm)
    spread = 1
    for dim in dims:
        spread *= dim
    if (devices and len(devices) != count) or (dims and spread != count):
        raise ParseError(f"protobuf: the mesh of replica groups has {count} places for other numbers of devices")
    return MeshGroups(axes, tuple(refs), devices, dims, perm)


def _write_mesh(value: MeshGroups) -> bytes:
    iota = encode(MESSAGES["IotaTransform"], {"reshape_dims": value.reshape_dims, "transpose_perm": value.transpose_perm})
    mesh = {
        "axes": [encode(MESSAGES["MeshAxis"], {"name": name, "size": size}) for name, size in value.axes],
        "device_ids": value.device_ids,
        "iota_transform": iota or None,
    }
    refs = []
    for axis, pre, size in value.refs:
        sub = encode(MESSAGES["SubAxis"], {"pre_size": pre, "size": size}) if size else None
        refs.append(encode(MESSAGES["AxisRefProto"], {"mesh_axis_index": axis, "sub_axis_info": sub}))
    return encode(MESSAGES["MeshAxesReplicaGroupListProto"], {"mesh": encode(MESSAGES["MeshProto"], mesh), "axes": refs})


def _read_groups(fields: Fields, _: tuple[str, ...], instruction: Instruction) -> ReplicaGroups:
    lists = fields.pop("collective_device_list", None)
    iota = fields.pop("iota_collective_device_list", None)
    mesh = fields.pop("mesh_axes_replica_group_list", None)
    old = fields.pop("replica_groups", ())
    if mesh is not None:
        return ReplicaGroups(mesh=_read_mesh(mesh))
    if lists is not None:
        listed = _fields("CollectiveDeviceListProto", lists)
        old = listed.get("replica_groups", ())
        iota = listed.get("iota", iota)
    if iota is not None:
        return ReplicaGroups(iota=_read_iota(iota))
    return ReplicaGroups(tuple(tuple(_fields("ReplicaGroup", d).get("replica_ids", ())) for d in old))


def _write_groups(fields: Fields, _: tuple[str, ...], value: ReplicaGroups) -> None:
    if value.iota:
        iota = value.iota
        fields["iota_collective_device_list"] = encode(
            MESSAGES["IotaReplicaGroupListProto"],
            {
                "num_replica_groups": iota.num_groups,
                "num_devices_per_group": iota.group_size,
                "iota_reshape_dims": iota.reshape_dims,
                "iota_transpose_perm": iota.transpose_perm,
            },
        )
    elif value.mesh:
        fields["mesh_axes_replica_group_list"] = _write_mesh(value.mesh)
    else:
        groups = [encode(MESSAGES["ReplicaGroup"], {"replica_ids": group}) for group in value.groups]
        fields["collective_device_list"] = encode(MESSAGES["CollectiveDeviceListProto"], {"replica_groups": groups})


def _read_type(fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> str:
    """comparison_type, which old modules leave to the type of the operand."""
    return fields.pop(keys[0], "") or (default_comparison(instruction.operands[0].shape.element_type) if instruction.operands else "")


def default_comparison(element_type: str) -> str:
    """The comparison type that goes without saying."""
    return {"float": "FLOAT", "complex": "FLOAT", "signed": "SIGNED"}.get(TYPES[element_type].kind, "UNSIGNED")


def _read_prefetch(fields: Fields, keys: tuple[str, ...], _: Instruction) -> int | None:
    """An int with presence; the deprecated is_cross_program_prefetch means index 0."""
    old = fields.pop("is_cross_program_prefetch", False) if keys[0] == "cross_program_prefetch_index" else False
    return fields.pop(keys[0], 0 if old else None)


def _read_domain(fields: Fields, _: tuple[str, ...], __: Instruction) -> tuple[bytes, bytes]:
    """(entry, exit) as in HLO text: the proto has them crossed."""
    entry, exit_ = fields.pop("domain_exit_sharding", b""), fields.pop("domain_entry_sharding", b"")
    return bytes(entry), bytes(exit_)


def _write_domain(fields: Fields, _: tuple[str, ...], value: tuple[bytes, bytes]) -> None:
    fields["domain_exit_sharding"], fields["domain_entry_sharding"] = value


_INT = _scalar(0)
_INTS = _converted(tuple, list, ())

KINDS: dict[str, Kind] = {
    "int": _INT,
    "count": _converted(lambda value: value or 1, int, 1),
    "first_int": Kind(_first, _write_first),
    "optional_first_int": Kind(_optional_first, _write_first),
    "optional_int": Kind(_read_prefetch, _INT.write),
    "channel_id": _converted(lambda value: value if value > 0 else None, int),
    "bool": _scalar(False),
    "float": _scalar(0.0),
    "str": _scalar(""),
    "bytes": _converted(bytes, bytes, b""),
    "raw": _converted(bytes, bytes),
    "ints": _INTS,
    "bools": _converted(
        lambda data: tuple(_fields("ParameterReplication", data).get("replicated_at_leaf_buffers", ())),
        lambda value: encode(MESSAGES["ParameterReplication"], {"replicated_at_leaf_buffers": value}) if value else None,
        (),
    ),
    "slices": _records(SliceDimension, "SliceDimensions"),
    "padding": _converted(_read_padding, _write_padding, ()),
    "shapes": _converted(lambda items: tuple([read_shape(d) for d in items]), lambda value: [write_shape(s) for s in value], ()),
    "shape": _converted(read_shape, write_shape),
    "source_target_pairs": _converted(_read_pairs, _write_pairs, ()),
    "replica_groups": Kind(_read_groups, _write_groups),
    "output_operand_aliasing": _converted(_read_aliasing, _write_aliasing, ()),
    "window": _converted(_read_window, _write_window),
    "convolution_dimension_numbers": _converted(
        lambda data: _record(ConvolutionDimensionNumbers, "ConvolutionDimensionNumbers", data),
        lambda value: _message("ConvolutionDimensionNumbers", value),
    ),
    "dot_dimension_numbers": _dimension_numbers(DotDimensionNumbers),
    "ragged_dot_dimension_numbers": _converted(_read_ragged, _write_ragged, RaggedDotDimensionNumbers()),
    "gather_dimension_numbers": _dimension_numbers(GatherDimensionNumbers),
    "scatter_dimension_numbers": _dimension_numbers(ScatterDimensionNumbers),
    "precision_config": _converted(_read_precision, _write_precision, PrecisionConfig()),
    "triangular_solve_options": _converted(_read_triangular, _write_triangular, TriangularSolveOptions()),
    "cholesky_options": _converted(
        lambda data: _fields("CholeskyOptions", data).get("lower", False),
        lambda value: encode(MESSAGES["CholeskyOptions"], {"lower": value}),
        False,
    ),
    "result_accuracy": _converted(_read_accuracy, _write_accuracy),
    "literal": _converted(Literal.from_proto, Literal.to_proto),
    "domain": Kind(_read_domain, _write_domain),
    "comparison_direction": _scalar(""),
    "comparison_type": Kind(_read_type, _scalar("").write),
    **{kind: _words(names) for kind, names in WORDS.items()},
    "tri_state": _converted(lambda n: {1: True, 2: False}.get(n), lambda v: 1 if v else 2),
}
