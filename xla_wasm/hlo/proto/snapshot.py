"""A module with arguments and results, as XLA dumps it: HloProto, HloSnapshot and HloUnoptimizedSnapshot."""

from __future__ import annotations

from typing import Any

from ...dataclass import dataclass, field
from ..ir import Module
from ..literal import Literal
from .container import is_module, module_bytes
from .module import from_proto, to_proto
from .schema import MESSAGES, UnknownFields, known_part
from .wire import Buffer, Fields, decode, encode
from .wire import fields as fields_of

KINDS = ("HloModuleProto", "HloProto", "HloSnapshot", "HloUnoptimizedSnapshot")


@dataclass(slots=True)
class Snapshot:
    """The content of a dump file. `kind` is one of `KINDS`, the message that it is written as.

    `arguments` has one list of literals for each partition; a HloSnapshot has one partition.
    """

    module: Module
    kind: str = "HloSnapshot"
    arguments: list[list[Literal]] = field(default_factory=list)
    result: Literal | None = None
    execution_platform: str = ""
    rest: Fields = field(default_factory=dict)
    """Fields that nothing here models (buffer assignment, descriptors, unknown ones), by message, written back as they
    were."""

    @staticmethod
    def from_proto(data: bytes | bytearray | memoryview) -> Snapshot:
        """Reads any of `KINDS`. Raises ParseError."""
        module = from_proto(module_bytes(data))
        view = memoryview(bytes(data))
        if is_module(view):
            return Snapshot(module, "HloModuleProto")
        kind = _kind(view)
        fields = decode(MESSAGES[kind], view)
        if kind == "HloProto":
            fields.pop("hlo_module", None)
            return Snapshot(module, kind, rest=fields)
        if kind == "HloUnoptimizedSnapshot":
            fields.pop("hlo_module", None)
            inputs = [decode(MESSAGES["HloInputs"], part) for part in fields.pop("partitions", ())]
            arguments = [[_argument(a) for a in part.pop("arguments", ())] for part in inputs]
            return Snapshot(module, kind, arguments, rest=fields | {"partitions": inputs})
        inner = decode(MESSAGES["HloProto"], fields.pop("hlo", b""))
        inner.pop("hlo_module", None)
        found = Snapshot(module, kind, [[_argument(a) for a in fields.pop("arguments", ())]])
        if "result" in fields:
            found.result = _argument(fields.pop("result"))
        found.execution_platform = fields.pop("execution_platform", "")
        found.rest = fields | {"hlo": inner}
        return found

    def to_proto(self) -> bytes:
        """The serialized message of this `kind`."""
        module = to_proto(self.module)
        rest: dict[str, Any] = dict(self.rest)
        if self.kind == "HloModuleProto":
            return module
        if self.kind == "HloProto":
            return encode(MESSAGES["HloProto"], rest | {"hlo_module": module})
        if self.kind == "HloUnoptimizedSnapshot":
            kept = rest.pop("partitions", [])
            partitions = []
            for i, arguments in enumerate(self.arguments):
                own = kept[i] if i < len(kept) else {}
                partitions.append(encode(MESSAGES["HloInputs"], own | {"arguments": [a.to_proto() for a in arguments]}))
            return encode(MESSAGES["HloUnoptimizedSnapshot"], rest | {"hlo_module": module, "partitions": partitions})
        hlo = encode(MESSAGES["HloProto"], rest.pop("hlo", {}) | {"hlo_module": module})
        own = {
            "hlo": hlo,
            "arguments": [a.to_proto() for a in (self.arguments[0] if self.arguments else [])],
            "result": None if self.result is None else self.result.to_proto(),
            "execution_platform": self.execution_platform,
        }
        return encode(MESSAGES["HloSnapshot"], rest | own)


def _argument(data: Buffer) -> Literal:
    """The value of a LiteralProto, whatever else that holds."""
    try:
        return Literal.from_proto(data)
    except UnknownFields:
        return Literal.from_proto(known_part(MESSAGES["LiteralProto"], data))


def _kind(data: Buffer) -> str:
    """Returns the kind of wrapper that this is, by what only one of them has."""
    first = b""
    for number, wire, value in fields_of(data):
        if number == 1:
            first = bytes(value)
        elif number == 2 and not is_module(first):
            return "HloSnapshot"
        elif number == 2 or (number == 3 and wire == 0):
            return "HloUnoptimizedSnapshot"
    return "HloProto" if is_module(first) else "HloSnapshot"
