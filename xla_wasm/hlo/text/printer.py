"""HLO text, as close to XLA's own as is useful: jaxlib's parser reads it back, unless large constants are elided."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...lines import Lines
from ..ir import Computation, Instruction, Module
from ..kinds.kind import braced, flag
from ..kinds.table import KINDS
from ..op import REQUIRED, records
from ..proto.schema import MESSAGES
from ..proto.wire import Buffer, Fields, decode
from ..shape import Shape
from ..strings import quoted
from ..types import TYPES
from .literal_text import literal_text
from .message_text import metadata_text, origin_table_text, origin_text, stack_frames_text, statistics_text
from .shape_text import laid_out, shape_text
from .sharding_text import sharding_text

_TYPE_WORDS = frozenset(TYPES.keys() - {"tuple", "buffer"})
"""No name at all."""
_RESERVED = {
    *"HloModule ENTRY ROOT true false inf nan opaque_type maximal replicated manual unknown unreduced shard_as "
    "shard_like".split(),
    *"last_tile_dim_replicate last_tile_dims devices sparsity".split(),
}
"""Names only where a % stands before them."""
_DEEPEST = 8
"""Modules inside modules that are printed."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def to_text(module: Module, *, large_constants: bool = False) -> str:
    """The module as HLO text. Constants of more than ten elements become {...} unless `large_constants`."""
    return str(printed(module, large_constants=large_constants))


def printed(module: Module, *, large_constants: bool = False) -> Lines[Instruction]:
    """The module as HLO text, with the lines of each instruction."""
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

    def module(self) -> Lines[Instruction]:
        module = self.source
        head = ["HloModule " + _Names().take(module.name or "module")]
        if module.is_scheduled:
            head.append("is_scheduled=true")
        if module.input_output_alias:
            entries = (
                f"{braced(out)}: ({number}, {braced(index)}, {kind})"
                for out, number, index, kind in module.input_output_alias
            )
            head.append(f"input_output_alias={{ {', '.join(entries)} }}")
        if module.buffer_donor:
            head.append(
                "buffer_donor={ "
                + ", ".join(f"({number}, {braced(index)})" for number, index in module.buffer_donor)
                + " }"
            )
        own = [p.shape for p in module.entry.parameters]
        parameters = own if module.parameter_shapes is None else module.parameter_shapes
        result = module.result_shape or module.entry.root.shape
        layout = f"({', '.join(shape_text(laid_out(s)) for s in parameters)})->{shape_text(laid_out(result))}"
        head.append(f"entry_computation_layout={{{layout}}}")
        for key, flags in (("parameters", module.propagate_to_parameters), ("output", module.propagate_to_output)):
            head += [f"allow_spmd_sharding_propagation_to_{key}={braced(map(flag, flags))}"] if flags else []
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
        lines = Lines[Instruction]()
        lines.add(", ".join(head))
        for table in tables:
            lines.add(f"\n{table}")
        for computation in module.computations:
            self.computation(computation, lines)
        return lines

    def _inner_module(self, data: Buffer) -> str:
        if self.depth == _DEEPEST:
            return ""
        return str(_Printer(Module.from_proto(bytes(data)), True, self.depth + 1).module())

    def computation(self, computation: Computation, lines: Lines[Instruction]) -> None:
        unique = _Names()
        names = {instruction: unique.take(instruction.name) for instruction in computation.instructions}
        lines.add("\n" + ("ENTRY " if computation is self.source.entry else "") + self.computations[computation] + " {")
        for instruction in computation.instructions:
            root = "ROOT " if instruction is computation.root else ""
            lines.add(f"  {root}{self.instruction(instruction, names)}", instruction)
        thread = computation.execution_thread
        lines.add("}" + (f", execution_thread={quoted(thread)}" if thread not in ("", "main") else ""))

    def instruction(self, instruction: Instruction, names: dict[Instruction, str]) -> str:
        attrs = instruction.attrs
        inside = ", ".join(names[operand] for operand in instruction.operands)
        if instruction.opcode == "parameter":
            inside = str(attrs.get("parameter_number", 0))
        elif instruction.opcode == "constant" and attrs.get("literal") is not None:
            inside = literal_text(attrs["literal"], self.large_constants)
        parts = [
            f"{names[instruction]} = {self.shape(instruction.shape)} {instruction.opcode}({inside})",
            *self.attributes(instruction),
        ]
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
            if value is None or not attr.text:
                continue
            if attr.default is not REQUIRED and value == attr.default and not _is_needed(instruction):
                continue
            text = KINDS[attr.kind].print(attr.name, value, instruction)
            if text:
                yield text
        if (
            op.opcode == "custom-call"
            and instruction.attrs.get("constrain_layout")
            and not instruction.attrs["operand_layout_constraints"]
        ):
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
    """Returns True if XLA's parser asks for the attributes also where they have their defaults: old texts broadcast
    arrays along no dimensions."""
    return instruction.opcode == "broadcast" and any(operand.shape.rank for operand in instruction.operands)


def _string_or_dict(value: bytes | str) -> str:
    """A JSON-like dict as it is, anything else as a string."""
    data = value.encode() if isinstance(value, str) else value
    return data.decode() if _is_dict(data) else quoted(data)


def _is_dict(data: bytes) -> bool:
    """Returns True if the data are one balanced {...} of printable ASCII, where braces inside quotes do not count."""
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
