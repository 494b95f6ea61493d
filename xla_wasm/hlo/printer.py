"""HLO text, as close to XLA's own as is useful: jaxlib's parser reads it back, unless large constants are elided."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..dataclass import replace
from .attr_kinds import default_comparison
from .attrs import (
    ConvolutionDimensionNumbers,
    MeshGroups,
    PrecisionConfig,
    RaggedDotDimensionNumbers,
    ReplicaGroups,
    ResultAccuracy,
    TriangularSolveOptions,
    Window,
)
from .ir import Computation, Instruction, Module
from .literal import Literal
from .literal_text import literal_text
from .op import REQUIRED, records
from .printer_messages import metadata_text, origin_table_text, origin_text, sparsity_text, stack_frames_text, statistics_text
from .schema import MESSAGES
from .shape import Layout, Shape
from .shape_text import shape_text
from .sharding_text import mesh_text, sharding_text
from .strings import quoted
from .types import TYPES
from .wire import Buffer, Fields, decode

_TYPE_WORDS = frozenset(TYPES.keys() - {"tuple", "buffer"})
"""No name at all."""
_RESERVED = {
    *"HloModule ENTRY ROOT true false inf nan opaque_type maximal replicated manual unknown unreduced shard_as shard_like".split(),
    *"last_tile_dim_replicate last_tile_dims devices sparsity".split(),
}
"""Names only where a % stands before them."""
NOT_IN_TEXT = frozenset(
    {
        ("parameter", "parameter_number"),  # these two stand in the parentheses
        ("constant", "literal"),
        ("custom-call", "constrain_layout"),  # its operand_layout_constraints say it
        ("topk", "is_stable"),  # XLA's parser does not know it yet
    }
)
"""(opcode, attribute) pairs of the records that HLO text does not have."""
_DEEPEST = 8
"""Modules inside modules that are printed."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def to_text(module: Module, *, large_constants: bool = False) -> str:
    """The module as HLO text. Constants of more than ten elements become {...} unless `large_constants`."""
    return _Printer(module, large_constants).module()


class _Names:
    """Names that HLO text can hold, each given once."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def take(self, name: str) -> str:
        name = _NOT_IN_NAMES.sub("_", name)
        if not name or not (name[0].isalpha() or name[0] == "_") or name in _TYPE_WORDS:
            name = "_" + name
        unique, count = name, 0
        while unique in self.used:
            count += 1
            unique = f"{name}.{count}"
        self.used.add(unique)
        return f"%{unique}" if unique in _RESERVED else unique


class _Printer:
    def __init__(self, module: Module, large_constants: bool, depth: int = 0):
        self.source = module
        self.depth = depth
        self.payloads: Sequence[Buffer] = ()
        self.large_constants = large_constants
        self.shapes: dict[Shape, str] = {}
        names = _Names()
        self.computations = {computation: names.take(computation.name) for computation in module.computations}

    def module(self) -> str:
        module = self.source
        head = ["HloModule " + _Names().take(module.name or "module")]
        if module.is_scheduled:
            head.append("is_scheduled=true")
        if module.input_output_alias:
            entries = (f"{_list(out)}: ({number}, {_list(index)}, {kind})" for out, number, index, kind in module.input_output_alias)
            head.append(f"input_output_alias={{ {', '.join(entries)} }}")
        if module.buffer_donor:
            head.append("buffer_donor={ " + ", ".join(f"({number}, {_list(index)})" for number, index in module.buffer_donor) + " }")
        own = [p.shape for p in module.entry.parameters]
        parameters = own if module.parameter_shapes is None else module.parameter_shapes
        result = module.result_shape or module.entry.root.shape
        layout = f"({', '.join(shape_text(_laid_out(s)) for s in parameters)})->{shape_text(_laid_out(result))}"
        head.append(f"entry_computation_layout={{{layout}}}")
        for key, flags in (("parameters", module.propagate_to_parameters), ("output", module.propagate_to_output)):
            head += [f"allow_spmd_sharding_propagation_to_{key}={_list(map(_flag, flags))}"] if flags else []
        head += [f"replica_count={module.replica_count}"] if module.replica_count > 1 else []
        head += [f"num_partitions={module.num_partitions}"] if module.num_partitions > 1 else []
        if module.frontend_attributes:
            head.append("frontend_attributes=" + _map(module.frontend_attributes))
        unknown: Fields = decode(MESSAGES["HloModuleProto"], module.unknown) if module.unknown else {}
        self.payloads = unknown.get("payloads", ())
        origins = origin_table_text(unknown.get("original_value_recovery_table", b""), self._inner_module)
        head += [f"origin_recovery_table={origins}"] if origins else []
        frames = unknown.get("stack_frame_index")
        tables = [stack_frames_text(frames)] if frames else []
        return "\n\n".join([", ".join(head), *tables, *map(self.computation, module.computations)]) + "\n"

    def _inner_module(self, data: Buffer) -> str:
        if self.depth == _DEEPEST:
            return ""
        return _Printer(Module.from_proto(bytes(data)), True, self.depth + 1).module()

    def computation(self, computation: Computation) -> str:
        unique = _Names()
        names = {instruction: unique.take(instruction.name) for instruction in computation.instructions}
        lines = [("ENTRY " if computation is self.source.entry else "") + self.computations[computation] + " {"]
        for instruction in computation.instructions:
            root = "ROOT " if instruction is computation.root else ""
            lines.append(f"  {root}{self.instruction(instruction, names)}")
        thread = computation.execution_thread
        lines.append("}" + (f", execution_thread={quoted(thread)}" if thread not in ("", "main") else ""))
        return "\n".join(lines)

    def instruction(self, instruction: Instruction, names: dict[Instruction, str]) -> str:
        attrs = instruction.attrs
        inside = ", ".join(names[operand] for operand in instruction.operands)
        if instruction.opcode == "parameter":
            inside = str(attrs.get("parameter_number", 0))
        elif instruction.opcode == "constant" and attrs.get("literal") is not None:
            inside = literal_text(attrs["literal"], self.large_constants)
        parts = [f"{names[instruction]} = {self.shape(instruction.shape)} {instruction.opcode}({inside})", *self.attributes(instruction)]
        if attrs.get("sharding") is not None:
            parts.append("sharding=" + sharding_text(attrs["sharding"]))
        if instruction.frontend_attributes:
            parts.append("frontend_attributes=" + _map(instruction.frontend_attributes))
        if instruction.control_predecessors:
            parts.append("control-predecessors={" + ", ".join(names[p] for p in instruction.control_predecessors) + "}")
        if instruction.unknown:
            unknown: Fields = decode(MESSAGES["HloInstructionProto"], instruction.unknown)
            if unknown.get("statistics_viz"):
                parts.append("statistics=" + statistics_text(unknown["statistics_viz"]))
            if "original_value" in unknown:
                parts.append("origin=" + origin_text(unknown["original_value"]))
        meta = metadata_text(instruction.metadata, self.payloads) if instruction.metadata else ""
        parts += [f"metadata={meta}"] if meta else []
        config = attrs.get("backend_config")
        if config:
            parts.append("backend_config=" + _string_or_dict(config))
        return ", ".join(parts)

    def shape(self, shape: Shape) -> str:
        """The text of a shape; most are shared by several instructions."""
        text = self.shapes.get(shape)
        if text is None:
            text = self.shapes[shape] = shape_text(shape)
        return text

    def attributes(self, instruction: Instruction) -> Iterable[str]:
        """The attributes and called computations that the op's record lists."""
        op = records().get(instruction.opcode)
        if op is None:
            return
        for attr in op.attrs:
            value = instruction.attrs.get(attr.name)
            if value is None or (op.opcode, attr.name) in NOT_IN_TEXT:
                continue
            if attr.default is not REQUIRED and value == attr.default and not _is_needed(instruction):
                continue
            text = _PRINTERS[attr.kind](attr.name, value, instruction)
            if text:
                yield text
        if op.opcode == "custom-call" and instruction.attrs.get("constrain_layout") and not instruction.attrs["operand_layout_constraints"]:
            yield "operand_layout_constraints={}"
        names = [self.computations[called] for called in instruction.called]
        selector = instruction.operands[0].shape if instruction.operands else None
        if instruction.opcode == "conditional" and selector and selector.element_type == "pred" and len(names) == 2:
            yield f"true_computation={names[0]}, false_computation={names[1]}"
        elif op.called and op.called[0].endswith("*"):
            if names:
                yield f"{op.called[0][:-1]}={{{', '.join(names)}}}"
        else:
            yield from (f"{role.rstrip('?')}={name}" for role, name in zip(op.called, names))


def _is_needed(instruction: Instruction) -> bool:
    """Whether XLA's parser asks for the attributes also where they have their defaults: old texts broadcast arrays along no dimensions."""
    return instruction.opcode == "broadcast" and instruction.operands[0].shape.rank > 0


def _laid_out(shape: Shape) -> Shape:
    """The shape with every layout spelled out."""
    if shape.tuple_shapes:
        return replace(shape, tuple_shapes=tuple(_laid_out(s) for s in shape.tuple_shapes))
    return shape if shape.layout or not shape.is_array else replace(shape, layout=Layout.default(shape.rank))


def _list(values: Iterable[Any]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _lists(values: Iterable[Iterable[Any]]) -> str:
    return "{" + ",".join(map(_list, values)) + "}"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _string_or_dict(value: bytes | str) -> str:
    """A JSON-like dict as it is, anything else as a string."""
    data = value.encode() if isinstance(value, str) else value
    return data.decode() if _is_dict(data) else quoted(data)


def _is_dict(data: bytes) -> bool:
    """Whether the data are one balanced {...} of printable ASCII, where braces inside quotes do not count."""
    if not data.startswith(b"{") or not data.isascii() or any(byte < 32 for byte in data):
        return False
    depth, quoted, escaped = 0, False, False
    for at, byte in enumerate(data):
        if quoted:
            quoted, escaped = escaped or byte != 34, not escaped and byte == 92
        elif byte == 34:
            quoted = True
        elif byte in b"{}":
            depth += 1 if byte == 123 else -1
            if depth == 0:
                return at == len(data) - 1
    return False


def _map(values: dict[str, str]) -> str:
    return "{" + ",".join(f"{key}={_string_or_dict(values[key])}" for key in sorted(values)) + "}"


def _sizes(values: Iterable[Any]) -> str:
    return "x".join(map(str, values))


def _window(name: str, window: Window, _: Instruction) -> str:
    dims = window.dimensions
    if not dims:
        return f"{name}={{}}"
    parts = ["size=" + _sizes(d.size for d in dims)]
    for word, values, plain in (
        ("stride", [str(d.stride) for d in dims], "1"),
        ("pad", [f"{d.padding_low}_{d.padding_high}" for d in dims], "0_0"),
        ("lhs_dilate", [str(d.base_dilation) for d in dims], "1"),
        ("rhs_dilate", [str(d.window_dilation) for d in dims], "1"),
        ("rhs_reversal", ["1" if d.window_reversal else "0" for d in dims], "0"),
    ):
        if any(value != plain for value in values):
            parts.append(f"{word}={_sizes(values)}")
    return f"{name}={{{' '.join(parts)}}}"


def _padding(name: str, padding: Any, _: Instruction) -> str:
    interior = any(p.interior_padding for p in padding)
    parts = [f"{p.edge_padding_low}_{p.edge_padding_high}" + (f"_{p.interior_padding}" if interior else "") for p in padding]
    return f"{name}={_sizes(parts)}" if parts else ""


def _single(value: float) -> str:
    """The shortest text of an f32."""
    exact = struct.pack("<f", value)
    return next((text for digits in range(6, 9) if struct.pack("<f", float(text := f"{value:.{digits}g}")) == exact), f"{value:.9g}")


def _slices(name: str, slices: Any, _: Instruction) -> str:
    parts = (f"[{s.start}:{s.limit}" + (f":{s.stride}" if s.stride != 1 else "") + "]" for s in slices)
    return f"{name}={{{', '.join(parts)}}}"


def _dot(_: str, dims: Any, __: Instruction) -> str:
    named = (
        ("lhs_batch_dims", dims.lhs_batch_dimensions),
        ("lhs_contracting_dims", dims.lhs_contracting_dimensions),
        ("rhs_batch_dims", dims.rhs_batch_dimensions),
        ("rhs_contracting_dims", dims.rhs_contracting_dimensions),
    )
    return ", ".join(f"{key}={_list(value)}" for key, value in named if value)


def _ragged(name: str, dims: RaggedDotDimensionNumbers, instruction: Instruction) -> str:
    parts = [_dot(name, dims.dot_dimension_numbers, instruction), f"lhs_ragged_dims={_list(dims.lhs_ragged_dimensions)}"]
    parts += [f"rhs_group_dims={_list(dims.rhs_group_dimensions)}"] if dims.rhs_group_dimensions else []
    return ", ".join(part for part in parts if part)


def _conv(name: str, d: ConvolutionDimensionNumbers, _: Instruction) -> str:
    def labels(first: str, first_dim: int, second: str, second_dim: int, spatial: tuple[int, ...]) -> str:
        places = {first_dim: first, second_dim: second, **{dim: str(i) for i, dim in enumerate(spatial)}}
        return "".join(places.get(dim, "?") for dim in range(max(places) + 1))

    lhs = labels("b", d.input_batch_dimension, "f", d.input_feature_dimension, d.input_spatial_dimensions)
    rhs = labels("i", d.kernel_input_feature_dimension, "o", d.kernel_output_feature_dimension, d.kernel_spatial_dimensions)
    out = labels("b", d.output_batch_dimension, "f", d.output_feature_dimension, d.output_spatial_dimensions)
    return f"{name}={lhs}_{rhs}->{out}"


def _dimension_numbers(_: str, value: Any, __: Instruction) -> str:
    """Gather and scatter: every field by its own name, the batching ones only if there are any."""
    parts = []
    for field in value.__dataclass_fields__:
        item = getattr(value, field)
        if item or item == 0 or not field.endswith("batching_dims"):
            parts.append(f"{field}={item if isinstance(item, int) else _list(item)}")
    return ", ".join(parts)


def _precision(_: str, config: PrecisionConfig, __: Instruction) -> str:
    parts = []
    if any(word != "default" for word in config.operand_precision):
        parts.append(f"operand_precision={_list(config.operand_precision)}")
    if config.algorithm != "unset":
        parts.append(f"algorithm={config.algorithm}")
    return ", ".join(parts)


def _triangular(_: str, options: TriangularSolveOptions, __: Instruction) -> str:
    parts = [f"{key}=true" for key in ("left_side", "lower", "unit_diagonal") if getattr(options, key)]
    return ", ".join([*parts, f"transpose_a={options.transpose_a}"])


def _accuracy(name: str, value: ResultAccuracy, _: Instruction) -> str:
    if value.mode:
        return f"{name}={{mode={value.mode}}}" if value.mode != "default" else ""
    return f"{name}={{tolerance={{atol={float(value.atol)!r}, rtol={float(value.rtol)!r}, ulps={value.ulps}}}}}"


def _groups(name: str, value: ReplicaGroups, _: Instruction) -> str:
    if value.iota:
        iota = value.iota
        perm = f"T({','.join(map(str, iota.transpose_perm))})" if len(iota.reshape_dims) > 1 else ""
        return f"{name}=[{iota.num_groups},{iota.group_size}]<=[{','.join(map(str, iota.reshape_dims))}]{perm}"
    return f"{name}={_mesh_groups(value.mesh)}" if value.mesh else f"{name}={_lists(value.groups)}"


def _mesh_groups(mesh: MeshGroups) -> str:
    refs = (f"'{mesh.axes[axis][0]}'" + (f":({pre}){size}" if size else "") for axis, pre, size in mesh.refs)
    return f"{mesh_text(mesh.axes, mesh.device_ids, mesh.reshape_dims, mesh.transpose_perm)} {{{','.join(refs)}}}"


def _aliasing(name: str, value: Any, _: Instruction) -> str:
    return f"{name}={{{', '.join(f'{_list(out)}: ({operand}, {_list(index)})' for out, operand, index in value)}}}"


def _shaped_literal(literal: Literal) -> str:
    """A literal with its shape, which the elements of a tuple have each."""
    if literal.shape.is_tuple:
        return f"( {', '.join(map(_shaped_literal, literal.elements))} )"
    return f"{shape_text(literal.shape)} {literal_text(literal, True)}"


def _comparison_type(name: str, value: str, instruction: Instruction) -> str:
    plain = default_comparison(instruction.operands[0].shape.element_type) if instruction.operands else ""
    return f"{name}={value}" if value and value != plain else ""


def _bool(name: str, value: bool, _: Instruction) -> str:
    return f"{name}={_flag(value)}"


def _str(name: str, value: str, _: Instruction) -> str:
    return f"{name}={value}" if name == "kind" else f"{name}={quoted(value)}"  # a fusion's kind is a bare word


def _ints(name: str, value: Any, instruction: Instruction) -> str:
    text = _list(value)
    return f"{name}={{{text}}}" if instruction.opcode.startswith("collective-permute") else f"{name}={text}"


def _plain(name: str, value: Any, _: Instruction) -> str:
    return f"{name}={value}"


_PRINTERS: dict[str, Callable[[str, Any, Instruction], str]] = {
    **dict.fromkeys(("int", "count", "first_int", "optional_first_int", "optional_int", "channel_id"), _plain),
    **dict.fromkeys(("comparison_direction", "fft_type", "distribution", "rng_algorithm", "padding_type"), _plain),
    **dict.fromkeys(("custom_call_schedule", "custom_call_api_version", "convolution_kind"), _plain),
    **dict.fromkeys(("gather_dimension_numbers", "scatter_dimension_numbers"), _dimension_numbers),
    "bool": _bool,
    "tri_state": _bool,
    "cholesky_options": lambda _, value, __: f"lower={_flag(value)}",
    "float": lambda name, value, _: f"{name}={_single(value)}",
    "str": _str,
    "bytes": lambda name, value, _: f"{name}={quoted(value)}",
    "raw": lambda name, value, _: f"{name}={sparsity_text(value)}",
    "ints": _ints,
    "bools": lambda name, value, _: f"{name}={_list(map(_flag, value))}",
    "slices": _slices,
    "padding": _padding,
    "shapes": lambda name, value, _: f"{name}={{{', '.join(shape_text(_laid_out(s)) for s in value)}}}",
    "shape": lambda name, value, _: f"{name}={shape_text(value)}",
    "source_target_pairs": lambda name, value, _: f"{name}={_lists(value)}",
    "replica_groups": _groups,
    "output_operand_aliasing": _aliasing,
    "window": _window,
    "convolution_dimension_numbers": _conv,
    "dot_dimension_numbers": _dot,
    "ragged_dot_dimension_numbers": _ragged,
    "precision_config": _precision,
    "triangular_solve_options": _triangular,
    "result_accuracy": _accuracy,
    "literal": lambda name, value, _: f"{name}={_shaped_literal(value)}",
    "domain": lambda name, value, _: f'{name}={{kind="sharding", entry={sharding_text(value[0])}, exit={sharding_text(value[1])}}}',
    "comparison_type": _comparison_type,
}
