"""Modules to and from HloModuleProto.

Reading resolves everything: operands and called computations become objects, ids disappear. What this version does not
model stays as wire bytes in `unknown` of the module, computation or instruction, and is written back.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

from ...errors import ParseError
from ..attrs import Metadata
from ..ir import Computation, Instruction, Kept, Module
from ..kinds.kind import known
from ..kinds.table import KINDS
from ..op import REQUIRED, records
from ..shape import Shape
from .container import module_bytes
from .schema import MESSAGES, UnknownFields, known_part
from .shapes import read_program_shape, read_shape, write_program_shape, write_shape
from .sources import Sources, write_metadata
from .wire import UNKNOWN, Buffer, Fields, Message, decode, encode

_MODULE, _COMPUTATION, _INSTRUCTION = (
    MESSAGES[name] for name in ("HloModuleProto", "HloComputationProto", "HloInstructionProto")
)
_LOW32 = (1 << 32) - 1
_ALIAS_KINDS = ("undefined-alias", "may-alias", "must-alias")
_OLD_COMPARISONS = {
    "equal-to": "EQ",
    "not-equal-to": "NE",
    "greater-than-or-equal-to": "GE",
    "greater-than": "GT",
    "less-than-or-equal-to": "LE",
    "less-than": "LT",
}


_Read = Callable[[Fields, tuple[str, ...], Instruction], Any]
_Plan = tuple[str, _Read, Callable[[Fields, tuple[str, ...], Any], None], tuple[str, ...], Any]
"""The plan of an attribute of an opcode: its name, reader, writer, the keys of its fields, and the value where the
proto has none of them, or `REQUIRED` where the reader is needed for that."""


@cache
def _plans(opcode: str) -> tuple[_Plan, ...] | None:
    """The attributes of an opcode from its record; None for an unknown opcode."""
    op = records().get(opcode)
    if op is None:
        return None
    plans = []
    for attr in op.attrs:
        kind, keys = KINDS[attr.kind], tuple(_INSTRUCTION.by_number[number] for number in attr.fields)
        absent = attr.default if kind.absent is None and attr.default is not REQUIRED else kind.absent
        plans.append((attr.name, kind.read, kind.write, keys, absent))
    return tuple(plans)


def from_proto(data: bytes | bytearray | memoryview) -> Module:
    """The module in `data`: an HloModuleProto, or an HloProto, HloSnapshot or HloUnoptimizedSnapshot that holds one."""
    collecting = gc.isenabled()
    gc.disable()  # a big module is a big graph of live objects: looking for garbage in it takes longer than reading it
    try:
        return _Reader().module(module_bytes(data))
    finally:
        if collecting:
            gc.enable()


class _Reader:
    """One module being read. Equal shapes, metadata and attribute messages are decoded once and shared."""

    def __init__(self) -> None:
        self.computations: dict[int, Computation] = {}
        self.shapes: dict[Buffer, Shape] = {}
        self.metadata: dict[Buffer, Metadata] = {}
        self.orders: dict[int, list[int]] = {}
        self.sources = Sources({})

    def module(self, data: Buffer) -> Module:
        fields = decode(_MODULE, data)
        self._schedule(fields)
        self.sources = Sources.decoded(fields.get("stack_frame_index", b""))
        computations = []
        for item in fields.pop("computations", ()):
            computation, number = self._computation(item)
            if number in self.computations:
                raise ParseError(f"two computations have the id {number}")
            self.computations[number] = computation
            computations.append(computation)
        if not computations:
            raise ParseError("the module has no computations")
        entry = self.computations.get(fields.pop("entry_computation_id", 0))
        name = fields.pop("entry_computation_name", "")
        if entry is None:
            raise ParseError(f"the entry computation {name!r} does not exist")
        module = Module(fields.pop("name", ""), computations, entry)
        module.is_scheduled = bool(self.orders)
        self._signature(module, fields)
        module.input_output_alias = _kept(
            module.kept, "input_output_alias", _MODULE, fields.pop("input_output_alias", b""), _read_aliases
        )
        module.buffer_donor = _kept(module.kept, "buffer_donor", _MODULE, fields.pop("buffer_donor", b""), _read_donors)
        module.frontend_attributes = _kept(
            module.kept, "frontend_attributes", _MODULE, fields.pop("frontend_attributes", b""), _read_map
        )
        if "device_assignment" in fields:  # stays in `unknown` too: it lists the devices
            assignment = decode(MESSAGES["DeviceAssignmentProto"], fields["device_assignment"])
            module.replica_count = max(assignment.get("replica_count", 1), 1)
            module.num_partitions = max(assignment.get("computation_count", 1), 1)
        module.unknown = encode(_MODULE, fields) if fields else b""
        return module

    def _schedule(self, fields: Fields) -> None:
        """The schedule's order of instructions, by computation id. It becomes the order of
        `Computation.instructions`."""
        for item in decode(MESSAGES["HloScheduleProto"], fields.pop("schedule", b"")).get("sequences", ()):
            entry = decode(MESSAGES["SequenceEntry"], item)
            ids = decode(MESSAGES["InstructionSequence"], entry.get("value", b"")).get("instruction_ids", ())
            self.orders[entry.get("key", 0)] = [number & _LOW32 for number in ids]

    def _signature(self, module: Module, fields: Fields) -> None:
        """The shapes with the caller's layouts, which must be those of the entry computation otherwise."""
        data = fields.pop("host_program_shape", None)
        if data is None:
            return
        parameters, result = _kept(module.kept, "host_program_shape", _MODULE, data, read_program_shape)
        declared = [p.shape.without_layout() for p in module.entry.parameters]
        if result is None or (parameters and [s.without_layout() for s in parameters] != declared):
            raise ParseError("host_program_shape does not have the parameters of the entry computation")
        if result.without_layout() != module.entry.root.shape.without_layout():
            raise ParseError(
                f"host_program_shape has the result {result}, the entry computation {module.entry.root.shape}"
            )
        module.parameter_shapes, module.result_shape = parameters, result

    def _computation(self, data: Buffer) -> tuple[Computation, int]:
        """A computation and its id."""
        fields = decode(_COMPUTATION, data)
        name = fields.pop("name", "")
        by_id: dict[int, Instruction] = {}
        later: list[tuple[Instruction, list[int]]] = []
        try:
            for item in fields.pop("instructions", ()):
                self._instruction(item, by_id, later)
        except ParseError as error:
            raise ParseError(f"computation {name!r}: {error}") from None
        for instruction, ids in later:
            for number in ids:
                predecessor = by_id.get(number & _LOW32)
                if predecessor is None:
                    raise ParseError(
                        f"computation {name!r}: {instruction.where}: control predecessor {number} does not exist"
                    )
                instruction.control_predecessors.append(predecessor)
        root = by_id.get(fields.pop("root_id", 0) & _LOW32)
        if root is None:
            raise ParseError(f"computation {name!r}: its root does not exist")
        number = fields.pop("id", 0)
        computation = Computation(name, self._ordered(name, by_id, self.orders.get(number)), root)
        numbers = sorted(i.attrs.get("parameter_number", -1) for i in by_id.values() if i.opcode == "parameter")
        if numbers != list(range(len(numbers))):
            raise ParseError(
                f"computation {name!r}: its parameters are numbered {numbers[:16]}, not from 0 on, each once"
            )
        computation.is_fusion_computation = fields.pop("is_fusion_computation", False)
        computation.execution_thread = fields.pop("execution_thread", "")
        fields.pop("program_shape", None)
        computation.unknown = encode(_COMPUTATION, fields) if fields else b""
        return computation, number

    def _ordered(self, name: str, by_id: dict[int, Instruction], order: list[int] | None) -> list[Instruction]:
        """The instructions in the order of the schedule, or as they are if there is none."""
        if order is None:
            return list(by_id.values())
        if len(order) != len(by_id) or set(order) != set(by_id):
            raise ParseError(f"computation {name!r}: its schedule does not list its instructions, each once")
        place = {by_id[number]: at for at, number in enumerate(order)}
        for instruction, at in place.items():
            if any(place[operand] >= at for operand in instruction.operands):
                raise ParseError(f"computation {name!r}: its schedule runs {instruction.where} before an operand")
        return list(place)

    def _instruction(
        self, data: Buffer, by_id: dict[int, Instruction], later: list[tuple[Instruction, list[int]]]
    ) -> None:
        fields = decode(_INSTRUCTION, data)
        pop = fields.pop
        opcode = pop("opcode", "")
        number = pop("id", 0) & _LOW32
        name = pop("name", "") or f"{opcode}.{number}"
        key = pop("shape", None)
        if key is None:
            raise ParseError(f"{opcode} '{name}': it has no shape")
        shape = self.shapes.get(key)
        kept: Kept = {}
        if shape is None:
            shape = _kept(kept, "shape", _INSTRUCTION, key, read_shape)
            if not kept:
                self.shapes[key] = shape
        if opcode in _OLD_COMPARISONS:
            fields["comparison_direction"] = _OLD_COMPARISONS[opcode]
            opcode = "compare"
        instruction = Instruction(name, opcode, shape)
        ids = pop("operand_ids", None)
        if ids:
            try:
                instruction.operands = [by_id[operand & _LOW32] for operand in ids]
            except KeyError:
                raise ParseError(f"{instruction.where}: an operand is missing or comes later") from None
        ids = pop("called_computation_ids", None)
        if ids:
            try:
                instruction.called = [self.computations[called] for called in ids]
            except KeyError:
                raise ParseError(f"{instruction.where}: a called computation is missing or comes later") from None
        key = pop("metadata", None)
        if key:
            metadata = self.metadata.get(key)
            if metadata is None:
                metadata = self.metadata[key] = self.sources.metadata(key)
            instruction.metadata = metadata
        key = pop("frontend_attributes", None)
        if key:
            instruction.frontend_attributes = _kept(kept, "frontend_attributes", _INSTRUCTION, key, _read_map)
        attrs = instruction.attrs
        for name, read, _, keys, absent in _plans(opcode) or ():
            if absent is not REQUIRED and keys[0] not in fields:
                attrs[name] = absent
            else:
                try:
                    attrs[name] = read(fields, keys, instruction)
                except UnknownFields:
                    self._keep(instruction, fields, data, kept, name, read, keys)
        if kept:
            instruction.kept = kept
        if fields:
            if "control_predecessor_ids" in fields:
                later.append((instruction, pop("control_predecessor_ids")))
            if "sharding" in fields:
                attrs["sharding"] = bytes(pop("sharding"))
            if "backend_config" in fields:
                attrs["backend_config"] = bytes(pop("backend_config"))
            if fields.get("statistics_viz") == b"":
                del fields["statistics_viz"]
            if fields:
                instruction.unknown = encode(_INSTRUCTION, fields)
        if number in by_id:
            raise ParseError(f"{instruction.where}: its id {number} is that of '{by_id[number].name}' too")
        by_id[number] = instruction

    @staticmethod
    def _keep(
        instruction: Instruction,
        fields: Fields,
        data: Buffer,
        kept: Kept,
        name: str,
        read: _Read,
        keys: tuple[str, ...],
    ) -> None:
        """Reads an attribute from the known part of its messages, which hold more, and keeps these."""
        whole = decode(_INSTRUCTION, data)
        known = decode(
            _INSTRUCTION,
            known_part(_INSTRUCTION, encode(_INSTRUCTION, {key: whole[key] for key in keys if key in whole})),
        )
        value = instruction.attrs[name] = read(known, keys, instruction)
        kept[name] = deepcopy(value), {key: whole[key] for key in keys if key in whole and key not in known}
        for key in kept[name][1]:
            fields.pop(key, None)


def _kept(kept: Kept, name: str, message: Message, data: Buffer, read: Callable[[Buffer], Any]) -> Any:
    """Returns the value that `read` makes of the message in a field of that name. A message with unknown fields is
    added to `kept`, and its known part is read."""
    try:
        return read(data)
    except UnknownFields:
        value = read(known_part(MESSAGES[message.inner[name]], data))
        kept[name] = deepcopy(value), {name: bytes(data)}
        return value


def _restore(fields: Fields, kept: Kept, values: dict[str, Any]) -> None:
    """Puts the messages that were kept in place of those written anew, where they still say the same."""
    for name, (value, messages) in kept.items():
        if name in values and values[name] == value:
            fields.update(messages)


def _read_aliases(data: Buffer) -> list[tuple[tuple[int, ...], int, tuple[int, ...], str]]:
    found = []
    for item in known("HloInputOutputAliasProto", data).get("entries", ()):
        alias = known("AliasEntryProto", item)
        kind = alias.get("kind", 0)
        if not 0 <= kind < len(_ALIAS_KINDS):
            raise ParseError(f"input_output_alias of kind {kind}")
        output, parameter = tuple(alias.get("output_shape_index", ())), tuple(alias.get("parameter_shape_index", ()))
        found.append((output, alias.get("parameter_number", 0), parameter, _ALIAS_KINDS[kind or 1]))
    return found


def _read_donors(data: Buffer) -> list[tuple[int, tuple[int, ...]]]:
    donors = [known("BufferDonorEntryProto", item) for item in known("HloBufferDonorProto", data).get("entries", ())]
    return [(donor.get("parameter_number", 0), tuple(donor.get("parameter_shape_index", ()))) for donor in donors]


def _read_map(data: Buffer) -> dict[str, str]:
    """The map of a FrontendAttributes message."""
    if not data:
        return {}
    entries = [known("StringEntry", item) for item in known("FrontendAttributes", data).get("map", ())]
    return {entry.get("key", ""): entry.get("value", "") for entry in entries}


def _write_map(values: dict[str, str]) -> bytes:
    entries = [encode(MESSAGES["StringEntry"], {"key": key, "value": values[key]}) for key in sorted(values)]
    return encode(MESSAGES["FrontendAttributes"], {"map": entries})


class _Names:
    """Names that are unique in a module, as XLA's reader wants them: a clash adds a number, or raises the one that is
    there."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.next: dict[str, int] = {}

    def take(self, name: str) -> str:
        if name in self.used:
            root, point, number = name.rpartition(".")
            if not (point and root and number.isdecimal()):
                root = name
            count = self.next.get(root, 0)
            while name in self.used:
                count += 1
                name = f"{root}.{count}"
            self.next[root] = count
        self.used.add(name)
        return name


def to_proto(module: Module) -> bytes:
    """The HloModuleProto of a module, with fresh ids as XLA numbers them."""
    numbers = {computation: number for number, computation in enumerate(module.computations)}
    shapes: dict[Shape, bytes] = {}
    computations, sequences = [], []
    unique = _Names()
    names = {
        instruction: unique.take(instruction.name)
        for computation in module.computations
        for instruction in computation.instructions
    }
    for number, computation in enumerate(module.computations):
        ids = {instruction: number << 32 | at for at, instruction in enumerate(computation.instructions)}
        computations.append(_write_computation(computation, number, ids, numbers, names, shapes))
        if module.is_scheduled and not computation.is_fusion_computation:
            sequence = encode(MESSAGES["InstructionSequence"], {"instruction_ids": list(ids.values())})
            sequences.append(encode(MESSAGES["SequenceEntry"], {"key": number, "value": sequence}))
    entry = module.entry
    inner = [p.shape for p in entry.parameters]
    parameters = inner if module.parameter_shapes is None else module.parameter_shapes
    aliases = [
        encode(
            MESSAGES["AliasEntryProto"],
            {
                "output_shape_index": output,
                "parameter_number": number,
                "parameter_shape_index": index,
                "kind": _ALIAS_KINDS.index(kind),
            },
        )
        for output, number, index, kind in module.input_output_alias
    ]
    donors = [
        encode(MESSAGES["BufferDonorEntryProto"], {"parameter_number": number, "parameter_shape_index": index})
        for number, index in module.buffer_donor
    ]
    fields: Fields = {
        "name": module.name,
        "entry_computation_name": entry.name,
        "computations": computations,
        "host_program_shape": write_program_shape(
            parameters, module.result_shape or entry.root.shape, [names[p] for p in entry.parameters[: len(parameters)]]
        ),
        "entry_computation_id": numbers[entry],
        "schedule": encode(MESSAGES["HloScheduleProto"], {"sequences": sequences}) if sequences else None,
        "input_output_alias": encode(MESSAGES["HloInputOutputAliasProto"], {"entries": aliases}) if aliases else None,
        "buffer_donor": encode(MESSAGES["HloBufferDonorProto"], {"entries": donors}) if donors else None,
        "frontend_attributes": _write_map(module.frontend_attributes) if module.frontend_attributes else None,
        UNKNOWN: module.unknown,
    }
    if module.kept:
        own = {name: getattr(module, name) for name in ("input_output_alias", "buffer_donor", "frontend_attributes")}
        _restore(fields, module.kept, {**own, "host_program_shape": (module.parameter_shapes, module.result_shape)})
    return encode(_MODULE, fields)


def _write_computation(
    computation: Computation,
    number: int,
    ids: dict[Instruction, int],
    numbers: dict[Computation, int],
    names: dict[Instruction, str],
    shapes: dict[Shape, bytes],
) -> bytes:
    parameters = computation.parameters
    return encode(
        _COMPUTATION,
        {
            "name": computation.name,
            "instructions": [_write_instruction(i, ids, numbers, names[i], shapes) for i in computation.instructions],
            "program_shape": write_program_shape(
                [p.shape for p in parameters], computation.root.shape, [names[p] for p in parameters]
            ),
            "id": number,
            "root_id": ids[computation.root],
            "is_fusion_computation": computation.is_fusion_computation,
            "execution_thread": computation.execution_thread,
            UNKNOWN: computation.unknown,
        },
    )


def _write_instruction(
    instruction: Instruction,
    ids: dict[Instruction, int],
    numbers: dict[Computation, int],
    name: str,
    shapes: dict[Shape, bytes],
) -> bytes:
    shape = shapes.get(instruction.shape)
    if shape is None:
        shape = shapes[instruction.shape] = write_shape(instruction.shape)
    attrs = instruction.attrs
    config = attrs.get("backend_config")
    fields: Fields = {
        "name": name,
        "opcode": instruction.opcode,
        "shape": shape,
        "metadata": write_metadata(instruction.metadata),
        "id": ids[instruction],
        "operand_ids": [ids[operand] for operand in instruction.operands],
        "control_predecessor_ids": [ids[predecessor] for predecessor in instruction.control_predecessors],
        "called_computation_ids": [numbers[called] for called in instruction.called],
        "sharding": attrs.get("sharding"),
        "backend_config": config.encode() if isinstance(config, str) else config,
        "frontend_attributes": _write_map(instruction.frontend_attributes),
        "statistics_viz": b"",
        UNKNOWN: instruction.unknown,
    }
    for attr, _, write, keys, _ in _plans(instruction.opcode) or ():
        if attr in attrs:
            write(fields, keys, attrs[attr])
    if instruction.kept:
        own = {"shape": instruction.shape, "frontend_attributes": instruction.frontend_attributes}
        _restore(fields, instruction.kept, {**own, **attrs})
    return encode(_INSTRUCTION, fields)
