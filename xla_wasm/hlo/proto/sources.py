"""Origins of instructions: metadata to and from OpMetadata, and the source lines of stack frames."""

from __future__ import annotations

from ..attrs import Metadata
from .schema import MESSAGES
from .wire import UNKNOWN, Buffer, Fields, decode, encode

_METADATA = MESSAGES["OpMetadata"]
_METADATA_FIELDS = ("op_type", "op_name", "source_file", "source_line", "stack_frame_id")


class Sources:
    """Reads metadata, and finds the source lines of stack frames in a module's tables (a decoded
    StackFrameIndexProto)."""

    def __init__(self, frames: Fields):
        self.frames = frames
        self.known: dict[int, tuple[str, int]] = {}

    @staticmethod
    def decoded(data: Buffer) -> Sources:
        """From the bytes of a StackFrameIndexProto."""
        return Sources(decode(MESSAGES["StackFrameIndexProto"], data))

    def metadata(self, data: Buffer) -> Metadata:
        """Metadata with the source line of the innermost stack frame; one that is spelled out as well goes to
        `unknown`."""
        fields = decode(_METADATA, data)
        pop = fields.pop
        kind, name, frame = pop("op_type", ""), pop("op_name", ""), pop("stack_frame_id", 0)
        if frame:
            file, line = self._source(frame)
        else:
            file, line = pop("source_file", ""), pop("source_line", 0)
        return Metadata(kind, name, file, line, frame, encode(_METADATA, fields) if fields else b"")

    def _source(self, frame: int) -> tuple[str, int]:
        """File and line of a stack frame, counted from 1; nothing where the tables lack it, for it only serves
        messages."""
        source = self.known.get(frame)
        if source is None:
            where = self._entry("stack_frames", "StackFrame", frame)
            location = self._entry("file_locations", "FileLocation", where.get("file_location_id", 0))
            file, names = location.get("file_name_id", 0), self.frames.get("file_names", ())
            source = self.known[frame] = (names[file - 1] if 0 < file <= len(names) else "", location.get("line", 0))
        return source

    def _entry(self, table: str, message: str, number: int) -> Fields:
        """An entry of a stack frame table, counted from 1."""
        entries = self.frames.get(table, ())
        return decode(MESSAGES[message], entries[number - 1]) if 0 < number <= len(entries) else {}


def write_metadata(metadata: Metadata | None) -> bytes:
    """The bytes of an OpMetadata."""
    if metadata is None:
        return b""
    fields: Fields = {name: getattr(metadata, name) for name in _METADATA_FIELDS}
    if metadata.stack_frame_id:  # the source came from there, or stands in `unknown`
        del fields["source_file"], fields["source_line"]
    return encode(_METADATA, {**fields, UNKNOWN: metadata.unknown})
