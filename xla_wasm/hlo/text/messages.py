"""Attributes that the compiler keeps as protobuf messages: metadata, statistics, origins, shardings, meshes, stack
frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...errors import ParseError, counted
from ..attrs import MOST_IN_GROUPS
from ..proto.schema import MESSAGES
from ..proto.wire import Fields, encode
from .lexer import KEY, Lexer, terminal
from .message_text import (
    METADATA_NUMBERS,
    METADATA_STRINGS,
    ORIGIN_ENTRY,
    ORIGIN_TABLE,
    ORIGINAL_ARRAY,
    ORIGINAL_ELEMENT,
    ORIGINAL_VALUE,
    STATISTIC,
    STATISTICS,
)

_MESH_AXIS = terminal(r"'([^'\\]*+)'\s*+=\s*+(\d++)")
_AXIS_REF = terminal(r"'([^'\\]*+)'(?:\s*+:\s*+\(\s*+(\d++)\s*+\)\s*+(\d++))?+")
_DEVICE_IDS = terminal(r",\s*+device_ids=\(")
_TRANSPOSED = terminal(r"T\s*+\(")
_STATISTIC = terminal(r"([A-Za-z_][\w.-]*+)=")
_ROW = terminal(r"(\d++)\s*+(?=[\"'{])")
_DEEPEST = 64

_TYPES = {"replicated": 0, "manual": 4, "unknown": 5, "unreduced": 6}


def metadata(lexer: Lexer) -> bytes:
    """{op_name="..." source_line=3 ...} as an OpMetadata."""
    fields: Fields = {}
    for key, begin in lexer.entries("an attribute of the metadata or '}'"):
        if key in fields:
            lexer.error(f"{key} is given twice", begin)
        if key in METADATA_STRINGS:
            fields[key] = lexer.unicode()
        elif key in METADATA_NUMBERS:
            fields[key] = lexer.integer()
        elif key == "profile_type":
            fields[key] = lexer.integers()
        elif key == "metadata_payload":
            fields[key] = encode(MESSAGES["Payload"], {"value": lexer.string()})
        else:
            lexer.error(f"metadata has no attribute {key}", begin)
    return encode(MESSAGES["OpMetadata"], fields)


def statistics(lexer: Lexer) -> bytes:
    """{visualizing_index=1,name=0.5,...} as a StatisticsViz."""
    index, items = 0, []
    lexer.expect("{")
    while not lexer.take("}"):
        name = lexer.need(_STATISTIC, "the name of a statistic or '}'")
        if name == "visualizing_index":
            index = lexer.integer()
        else:
            items.append(encode(STATISTIC, {"stat_name": name, "stat_val": lexer.number()}))
        lexer.take(",")
    return encode(STATISTICS, {"stat_index_to_visualize": index, "statistics": items})


def origin(lexer: Lexer) -> bytes:
    """{({"a"}, {"b" {0}})} as an OriginalValueProto: which value of the unoptimized module each leaf is."""
    elements: list[bytes] = []
    index: list[int] = []
    lexer.expect("{")
    if lexer.take("["):
        lexer.expect("synthetic_call")
        lexer.expect("]")
        lexer.expect("}")
        return encode(ORIGINAL_VALUE, {"is_synthetic_call": True})
    while not lexer.take("}"):
        if lexer.take("("):
            index.append(0)
            if len(index) > _DEEPEST:
                lexer.error("tuples nested too deep")
        elif index and lexer.take(")"):
            index.pop()
        elif index and lexer.take(","):
            index[-1] += 1
        else:
            lexer.expect("{")
            array = None
            if not lexer.take("}"):
                array = _rest_of_array(lexer)
            elements.append(encode(ORIGINAL_ELEMENT, {"shape_index": list(index), "original_array": array}))
    return encode(ORIGINAL_VALUE, {"elements": elements})


def _rest_of_array(lexer: Lexer) -> bytes:
    """Reads what follows the brace of {"a" {0}}, as an OriginalArrayProto."""
    fields = {"instruction_name": lexer.unicode(), "shape_index": lexer.integers() if lexer.sees("{") else ()}
    lexer.expect("}")
    return encode(ORIGINAL_ARRAY, fields)


def origin_table(lexer: Lexer, module: Callable[[str], bytes]) -> bytes:
    """{{"old"} : {"new"}, "HloModule ..." ...} as an OriginalValueRecoveryTableProto. `module` reads what stands in the
    string."""
    entries: list[bytes] = []
    lexer.expect("{")
    while not lexer.take("}"):
        fields: Fields = {}
        for key in ("old_original_array", "new_original_array"):
            if fields:
                lexer.expect(":")
            lexer.expect("{")
            fields[key] = b"" if lexer.take("}") else _rest_of_array(lexer)
        if lexer.take(","):
            begin = lexer.skip()
            try:
                fields["recovery_module"] = module(lexer.unicode())
            except ParseError as error:
                lexer.error(f"the module in the string: {error}", begin)
        entries.append(encode(ORIGIN_ENTRY, fields))
    return encode(ORIGIN_TABLE, {"entries": entries})


def sharding(lexer: Lexer, depth: int = 0) -> bytes:
    """{...} as an OpSharding."""
    if depth > _DEEPEST:
        lexer.error("shardings nested too deep")
    lexer.expect("{")
    if lexer.take("}"):
        return encode(MESSAGES["OpSharding"], {"type": 2})
    if lexer.sees("{"):
        parts = [sharding(lexer, depth + 1)]
        while lexer.take(","):
            parts.append(sharding(lexer, depth + 1))
        lexer.expect("}")
        return encode(MESSAGES["OpSharding"], {"type": 2, "tuple_shardings": parts})
    if lexer.sees("mesh[") or lexer.sees("maximal_mesh["):
        return encode(MESSAGES["OpSharding"], {"named_sharding": _named(lexer)})
    return encode(MESSAGES["OpSharding"], _single(lexer))


def _single(lexer: Lexer) -> Fields:
    """The words of a sharding up to its closing brace."""
    begin = lexer.skip()
    fields: Fields = {}
    while not lexer.take("}"):
        key = lexer.match(KEY)
        if key is None:
            here = lexer.skip()
            for word, number in _TYPES.items():
                if lexer.word(word):
                    fields["type"] = number
                    break
            else:
                if lexer.word("maximal"):
                    fields["type"] = 1
                elif lexer.word("last_tile_dim_replicate"):
                    fields["replicate_on_last_tile_dim"] = True
                elif lexer.word("shard_as") or lexer.word("shard_like"):
                    like = lexer.text[here : lexer.pos].endswith("like")
                    fields.update(is_shard_group=True, shard_group_type=int(like), shard_group_id=lexer.integer())
                else:
                    lexer.fail("a word of a sharding or '}'")
        elif key[1] == "device":
            fields["tile_assignment_devices"] = [lexer.integer()]
        elif key[1] == "devices":
            fields.setdefault("type", 3)
            _tiles(lexer, fields)
        elif key[1] == "last_tile_dims":
            fields["last_tile_dims"] = _words(lexer)
        elif key[1] == "metadata":
            fields["metadata"] = _metadata_list(lexer)
        else:
            lexer.error(f"a sharding has no attribute {key[1]}", key.start(1))
    if fields.get("type") == 1 and len(fields.get("tile_assignment_devices", ())) != 1:
        lexer.error("a maximal sharding names one device", begin)
    if "type" not in fields:
        lexer.error("the sharding says neither replicated, maximal, manual, unknown, unreduced nor devices", begin)
    return fields


def _tiles(lexer: Lexer, fields: Fields) -> None:
    """[2,2]<=[4], [2,2]<=[2,2]T(1,0) or [2,2]0,1,2,3."""
    begin = lexer.skip()
    dims = fields["tile_assignment_dimensions"] = lexer.integers("[", "]")
    if not dims or any(size < 1 for size in dims):
        lexer.error("the sizes of a tile assignment are positive", begin)
    if lexer.take("<="):
        fields["iota_reshape_dims"], fields["iota_transpose_perm"] = iota(lexer)
        found = fields["iota_reshape_dims"]
    else:
        devices = [lexer.integer("a device number")]
        while lexer.take(","):
            devices.append(lexer.integer("a device number"))
        fields["tile_assignment_devices"] = devices
        found = [len(devices)]
    if _product(lexer, dims, begin) != _product(lexer, found, begin):
        lexer.error("the tile assignment does not have as many places as devices", begin)


def _product(lexer: Lexer, sizes: list[int], begin: int) -> int:
    total = 1
    for size in sizes:
        total *= size
        if size < 1 or total > MOST_IN_GROUPS:
            lexer.error(f"sizes must be positive, and at most {MOST_IN_GROUPS} devices in all", begin)
    return total


def iota(lexer: Lexer) -> tuple[list[int], list[int]]:
    """[2,4]T(1,0): sizes and the order of their dimensions."""
    begin = lexer.skip()
    dims = lexer.integers("[", "]")
    _product(lexer, dims, begin)
    perm = [0]
    if len(dims) != 1:
        if not lexer.match(_TRANSPOSED):
            lexer.fail("'T('")
        lexer.pos -= 1
        perm = lexer.integers("(", ")")
        if sorted(perm) != list(range(len(dims))):
            lexer.error(f"this is no permutation of {counted(len(dims), 'dimension')}", begin)
    return dims, perm


def _words(lexer: Lexer) -> list[int]:
    lexer.expect("{")
    out: list[int] = []
    while not lexer.take("}"):
        if out:
            lexer.expect(",")
        for word, number in _TYPES.items():
            if lexer.word(word):
                out.append(number)
                break
        else:
            lexer.fail("replicated, manual or unreduced")
    return out


def _metadata_list(lexer: Lexer) -> list[bytes]:
    """One {...} or a list of them in braces."""
    begin = lexer.skip()
    if not re.compile(r"\{\s*+\{").match(lexer.text, begin):
        return [metadata(lexer)]
    lexer.expect("{")
    items = [metadata(lexer)]
    while lexer.take(","):
        items.append(metadata(lexer))
    lexer.expect("}")
    return items


def mesh(lexer: Lexer) -> tuple[list[tuple[str, int]], list[int], list[int], list[int]]:
    """mesh['x'=2,'y'=2] and what follows about the order of its devices: axes, devices, sizes and permutation of an
    iota."""
    begin = lexer.skip()
    lexer.expect("mesh[")
    axes: list[tuple[str, int]] = []
    while not lexer.take("]"):
        if axes:
            lexer.expect(",")
        found = lexer.match(_MESH_AXIS) or lexer.fail("an axis, such as 'x'=2,")
        axes.append((found[1], lexer.number_in(found[2])))
    count = _product(lexer, [size for _, size in axes], begin)
    if len({name for name, _ in axes}) != len(axes):
        lexer.error("two axes of the mesh have the same name", begin)
    devices: list[int] = []
    dims: list[int] = []
    perm: list[int] = []
    if lexer.match(_DEVICE_IDS):
        if lexer.sees("["):
            dims, perm = iota(lexer)
            lexer.expect(")")
        else:
            lexer.pos -= 1
            devices = lexer.integers("(", ")")
        if (_product(lexer, dims, begin) if dims else len(devices)) != count:
            lexer.error(f"the mesh has {counted(count, 'place')} for another number of devices", begin)
    return axes, devices, dims, perm


def axis_refs(
    lexer: Lexer, axes: list[tuple[str, int]], opening: str = "{", closing: str = "}"
) -> tuple[list[tuple[int, int, int]], bool]:
    """{'x','y':(1)2,?}: (axis, size before, size) with size 0 for whole axes, and whether the list is closed (has no
    `?`)."""
    lexer.expect(opening)
    names = [name for name, _ in axes]
    refs: list[tuple[int, int, int]] = []
    closed = True
    while not lexer.take(closing):
        if refs or not closed:
            lexer.expect(",")
        if lexer.take("?"):
            closed = False
            continue
        found = lexer.match(_AXIS_REF) or lexer.fail("the name of an axis in single quotes")
        if found[1] not in names:
            lexer.error(f"the mesh has no axis {found[1]!r}", found.start(1))
        axis = names.index(found[1])
        pre, size = (int(found[2][:20]), int(found[3][:20])) if found[2] else (0, 0)
        if found[2] and (pre < 1 or size < 1 or axes[axis][1] % (pre * size)):
            lexer.error(f"axis {found[1]!r} has no such part", found.start(1))
        refs.append((axis, pre, size))
    return refs, closed


def _named(lexer: Lexer) -> bytes:
    """A sharding by axes of a mesh, up to its closing brace, as a NamedShardingProto."""
    if lexer.take("maximal_mesh["):
        lexer.expect("device_id=")
        device = lexer.integer()
        lexer.expect("]")
        lexer.expect("}")
        return encode(MESSAGES["NamedShardingProto"], {"mesh": encode(MESSAGES["MeshProto"], {"device_ids": [device]})})
    axes, devices, dims, perm = mesh(lexer)
    lexer.take(",")
    fields: Fields = {"mesh": _mesh_message(axes, devices, dims, perm)}
    if not lexer.word("replicated"):
        fields["dim_shardings"] = _dimension_shardings(lexer, axes)
    while lexer.take(","):
        begin = lexer.skip()
        key = lexer.key("an attribute of the sharding")
        if key in ("replicated", "unreduced", "manual"):
            fields[key + "_axes"] = _ref_messages(axis_refs(lexer, axes)[0])
        elif key == "metadata":
            fields["metadata"] = _metadata_list(lexer)
        else:
            lexer.error(f"a sharding has no attribute {key}", begin)
    lexer.expect("}")
    return encode(MESSAGES["NamedShardingProto"], fields)


def _dimension_shardings(lexer: Lexer, axes: list[tuple[str, int]]) -> list[bytes]:
    """[{'x'}, {?}]: a DimensionSharding for each dimension."""
    lexer.expect("[")
    parts: list[bytes] = []
    while not lexer.take("]"):
        if parts:
            lexer.expect(",")
        refs, closed = axis_refs(lexer, axes)
        parts.append(encode(MESSAGES["DimensionSharding"], {"axes": _ref_messages(refs), "is_closed": closed}))
    return parts


def _mesh_message(axes: list[tuple[str, int]], devices: list[int], dims: list[int], perm: list[int]) -> bytes:
    transform: Any = encode(MESSAGES["IotaTransform"], {"reshape_dims": dims, "transpose_perm": perm}) if dims else None
    items = [encode(MESSAGES["MeshAxis"], {"name": name, "size": size}) for name, size in axes]
    return encode(MESSAGES["MeshProto"], {"axes": items, "device_ids": devices, "iota_transform": transform})


def _ref_messages(refs: list[tuple[int, int, int]]) -> list[bytes]:
    out = []
    for axis, pre, size in refs:
        part = encode(MESSAGES["SubAxis"], {"pre_size": pre, "size": size}) if size else None
        out.append(encode(MESSAGES["AxisRefProto"], {"mesh_axis_index": axis, "sub_axis_info": part}))
    return out


def stack_frames(lexer: Lexer) -> bytes:
    """The tables FileNames, FunctionNames, FileLocations and StackFrames, if they stand here, as a
    StackFrameIndexProto."""
    fields: Fields = {}
    for title, field in (("FileNames", "file_names"), ("FunctionNames", "function_names")):
        if lexer.word(title):
            fields[field] = _rows(lexer, Lexer.unicode)
    if lexer.word("FileLocations"):
        keys = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
        fields["file_locations"] = _rows(lexer, lambda at: encode(MESSAGES["FileLocation"], _record(at, keys)))
    if lexer.word("StackFrames"):
        fields["stack_frames"] = _rows(lexer, _frame)
    return encode(MESSAGES["StackFrameIndexProto"], fields) if fields else b""


def _rows(lexer: Lexer, value: Any) -> list[Any]:
    """Numbered lines: 1 value, 2 value ..."""
    out: list[Any] = []
    while found := lexer.match(_ROW):
        if lexer.number_in(found[1]) != len(out) + 1:
            lexer.error(f"row {len(out) + 1} expected", found.start(1))
        out.append(value(lexer))
    return out


def _record(lexer: Lexer, keys: tuple[str, ...]) -> dict[str, int]:
    out: dict[str, int] = {}
    for key, begin in lexer.entries("an attribute or '}'"):
        if key not in keys:
            lexer.error(f"{key} is none of {', '.join(keys)}", begin)
        out[key] = lexer.integer()
    return out


def _frame(lexer: Lexer) -> bytes:
    """A stack frame; the text counts parents from 2, with 1 for none."""
    record = _record(lexer, ("file_location_id", "parent_frame_id"))
    record["parent_frame_id"] = max(record.get("parent_frame_id", 0) - 1, 0)
    return encode(MESSAGES["StackFrame"], record)
