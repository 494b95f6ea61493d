"""Metadata, stack frames, statistics and origins as HLO text. The reverse of `messages.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..attrs import Metadata
from ..proto.schema import MESSAGES
from ..proto.wire import Buffer, Fields, Message, decode
from ..strings import quoted

STATISTICS = Message("StatisticsViz", "1 stat_index_to_visualize:i64; 2 statistics:Statistic*")
STATISTIC = Message("Statistic", "1 stat_name:str; 2 stat_val:f64")
ORIGINAL_VALUE = Message("OriginalValueProto", "1 elements:OriginalValueElementProto*; 2 is_synthetic_call:bool")
ORIGINAL_ELEMENT = Message("OriginalValueElementProto", "1 shape_index:i64*; 2 original_array:OriginalArrayProto?")
ORIGINAL_ARRAY = Message("OriginalArrayProto", "1 instruction_name:str; 2 shape_index:i64*")

ORIGIN_TABLE = Message("OriginalValueRecoveryTableProto", "1 entries:OriginEntry*")
ORIGIN_ENTRY = Message(
    "OriginalValueRecoveryTableProto.Entry",
    "1 old_original_array:OriginalArrayProto?; 2 new_original_array:OriginalArrayProto?; 3 "
    "recovery_module:HloModuleProto",
)

METADATA_STRINGS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
METADATA_NUMBERS = ("source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id")


def metadata_text(metadata: Metadata, payloads: Sequence[Buffer] = ()) -> str:
    """{op_name="..." ...}; empty if there is nothing that HLO text can hold. `payloads` are those of the module, by
    id."""
    fields: Fields = dict(decode(MESSAGES["OpMetadata"], metadata.unknown))
    fields.update(op_type=metadata.op_type, op_name=metadata.op_name, stack_frame_id=metadata.stack_frame_id)
    if not metadata.stack_frame_id:  # else they are those of the frame, or stand in `unknown`
        fields.update(source_file=metadata.source_file, source_line=metadata.source_line)
    return _metadata(fields, payloads)


def metadata_message_text(data: Buffer) -> str:
    """The text of an OpMetadata, braces and all."""
    return _metadata(decode(MESSAGES["OpMetadata"], data)) or "{}"


def _metadata(fields: Fields, payloads: Sequence[Buffer] = ()) -> str:
    words = [f"{key}={quoted(fields[key])}" for key in METADATA_STRINGS[:3] if fields.get(key)]
    words += [f"{key}={fields[key]}" for key in METADATA_NUMBERS if fields.get(key)]
    if fields.get("profile_type"):
        words.append(f"profile_type={{{','.join(map(str, fields['profile_type']))}}}")
    words += [f"{key}={quoted(fields[key])}" for key in METADATA_STRINGS[3:] if fields.get(key)]
    payload = decode(MESSAGES["Payload"], fields.get("metadata_payload", b""))
    value = payload.get("value")
    if 0 <= payload.get("id", -1) < len(payloads):
        value = payloads[payload["id"]]
    words += [f"metadata_payload={quoted(bytes(value))}"] if value is not None else []
    return "{" + " ".join(words) + "}" if words else ""


def stack_frames_text(data: Buffer) -> str:
    """The tables of a StackFrameIndexProto."""
    fields = decode(MESSAGES["StackFrameIndexProto"], data)
    tables = []
    for title, key in (("FileNames", "file_names"), ("FunctionNames", "function_names")):
        tables.append([title, *(f"{at} {quoted(name)}" for at, name in enumerate(fields.get(key, ()), 1))])
    keys = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    rows = ["FileLocations"]
    for at, item in enumerate(fields.get("file_locations", ()), 1):
        where = decode(MESSAGES["FileLocation"], item)
        rows.append(f"{at} {{{' '.join(f'{key}={where.get(key, 0)}' for key in keys)}}}")
    tables.append(rows)
    rows = ["StackFrames"]
    for at, item in enumerate(fields.get("stack_frames", ()), 1):
        frame = decode(MESSAGES["StackFrame"], item)
        rows.append(
            f"{at} {{file_location_id={frame.get('file_location_id', 0)} "
            f"parent_frame_id={frame.get('parent_frame_id', 0) + 1}}}"
        )
    tables.append(rows)
    return "\n\n".join("\n".join(table) for table in tables)


def statistics_text(data: Buffer) -> str:
    """{visualizing_index=1,name=0.5}"""
    fields = decode(STATISTICS, data)
    words = [f"visualizing_index={fields.get('stat_index_to_visualize', 0)}"]
    for item in fields.get("statistics", ()):
        statistic = decode(STATISTIC, item)
        words.append(f"{statistic.get('stat_name', '')}={float(statistic.get('stat_val', 0.0))!r}")
    return "{" + ",".join(words) + "}"


def origin_text(data: Buffer) -> str:
    """{({"a"}, {"b" {0}})}: the leaves in the order of their indices."""
    fields = decode(ORIGINAL_VALUE, data)
    if fields.get("is_synthetic_call"):
        return "{[synthetic_call]}"
    tree: dict[Any, Any] = {}
    whole = ""
    for item in fields.get("elements", ()):
        element = decode(ORIGINAL_ELEMENT, item)
        leaf = _array_text(element["original_array"]) if "original_array" in element else "{}"
        path = list(element.get("shape_index", ()))[:64]
        if not path:
            whole = leaf
            continue
        place = tree
        for step in path[:-1]:
            inner = place.setdefault(step, {})
            place = inner if isinstance(inner, dict) else {}
        place[path[-1]] = leaf
    return "{" + (_branches(tree) if tree else whole) + "}"


def _array_text(data: Buffer) -> str:
    """{"a" {0}}: an array of the unoptimized module."""
    array = decode(ORIGINAL_ARRAY, data)
    index = array.get("shape_index", ())
    return (
        "{" + quoted(array.get("instruction_name", "")) + (f" {{{','.join(map(str, index))}}}" if index else "") + "}"
    )


def origin_table_text(data: Buffer, module_text: Callable[[Buffer], str]) -> str:
    """The rows {"old"} : {"new"}, "module": how an array that is gone is made of one that is left. Empty if there are
    none."""
    rows = []
    for item in decode(ORIGIN_TABLE, data).get("entries", ()):
        entry = decode(ORIGIN_ENTRY, item)
        row = " : ".join(_array_text(entry.get(key, b"")) for key in ("old_original_array", "new_original_array"))
        module = entry.get("recovery_module")
        rows.append(f"\n  {row}" + (f",\n  {quoted(module_text(module))}" if module else ""))
    return "{" + "".join(rows) + "\n}" if rows else ""


def _branches(tree: Any) -> str:
    if isinstance(tree, str):
        return tree
    last = max(tree, default=-1)
    return "(" + ", ".join(_branches(tree.get(at, "{}")) for at in range(min(last, 8 * len(tree) + 64) + 1)) + ")"
