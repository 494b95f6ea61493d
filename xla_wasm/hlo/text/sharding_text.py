"""OpSharding messages as HLO text."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import ParseError
from ..proto.schema import MESSAGES, word
from ..proto.wire import Buffer, Fields, decode
from .message_text import metadata_message_text

_TYPES = ("replicated", "maximal", "tuple", "devices", "manual", "unknown", "unreduced")
_AXES = ("replicated", "unreduced", "manual")
"""The uses of a mesh's axes that divide no dimension."""


def sharding_text(data: Buffer, depth: int = 0) -> str:
    """The text of an OpSharding in braces."""
    if depth > 64:
        raise ParseError("sharding: tuples nested too deep")
    fields = decode(MESSAGES["OpSharding"], data)
    kind = word(_TYPES, fields.get("type", 0))
    if "named_sharding" in fields:
        return _named(decode(MESSAGES["NamedShardingProto"], fields["named_sharding"]))
    if kind == "tuple":
        return "{" + ", ".join(sharding_text(item, depth + 1) for item in fields.get("tuple_shardings", ())) + "}"
    tail = _metadata(fields.get("metadata", ()))
    tail = " " + tail if tail else ""
    if fields.get("is_shard_group"):
        tail = f" shard_{'like' if fields.get('shard_group_type') else 'as'} {fields.get('shard_group_id', 0)}" + tail
    if kind == "maximal":
        return f"{{maximal device={(fields.get('tile_assignment_devices') or [0])[0]}{tail}}}"
    if kind != "devices":
        return f"{{{kind}{tail}}}"
    return "{devices=" + _tiles(fields) + tail + "}"


def _tiles(fields: Fields) -> str:
    text = f"[{_commas(fields.get('tile_assignment_dimensions', ()))}]"
    dims = fields.get("iota_reshape_dims", ())
    if dims:
        text += iota_text(dims, fields.get("iota_transpose_perm", ()))
    else:
        text += _commas(fields.get("tile_assignment_devices", ()))
    if fields.get("replicate_on_last_tile_dim"):
        text += " last_tile_dim_replicate"
    if fields.get("last_tile_dims"):
        text += " last_tile_dims={" + ", ".join(word(_TYPES, number) for number in fields["last_tile_dims"]) + "}"
    return text


def _metadata(items: Iterable[Buffer]) -> str:
    texts = [metadata_message_text(item) for item in items]
    return "metadata=" + (texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}") if texts else ""


def _commas(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


def iota_text(dims: Iterable[int], perm: Iterable[int]) -> str:
    """<=[2,4]T(1,0): sizes, and the order of their dimensions where there are several."""
    dims, perm = list(dims), list(perm)
    return f"<=[{_commas(dims)}]" + (f"T({_commas(perm)})" if len(dims) > 1 else "")


def mesh_text(axes: Iterable[tuple[str, int]], devices: Iterable[int], dims: Iterable[int], perm: Iterable[int]) -> str:
    """mesh['x'=2,'y'=2], with the order of its devices unless that is 0, 1, 2 ..."""
    text = "mesh[" + ",".join(f"'{name}'={size}" for name, size in axes) + "]"
    devices, dims = list(devices), list(dims)
    if devices:
        text += f", device_ids=({_commas(devices)})"
    elif dims:
        text += f", device_ids=([{_commas(dims)}]{f'T({_commas(perm)})' if len(dims) > 1 else ''})"
    return text


def _named(fields: Fields) -> str:
    mesh = decode(MESSAGES["MeshProto"], fields.get("mesh", b""))
    axes = [
        (axis.get("name", ""), axis.get("size", 0))
        for axis in (decode(MESSAGES["MeshAxis"], d) for d in mesh.get("axes", ()))
    ]
    if not axes and mesh.get("device_ids"):
        return f"{{maximal_mesh[device_id={mesh['device_ids'][0]}]}}"

    def refs(items: Iterable[Buffer]) -> str:
        out = []
        for item in items:
            ref = decode(MESSAGES["AxisRefProto"], item)
            index = ref.get("mesh_axis_index", 0)
            if not 0 <= index < len(axes):
                raise ParseError(f"sharding: its mesh has no axis {index}")
            sub = decode(MESSAGES["SubAxis"], ref.get("sub_axis_info", b""))
            out.append(f"'{axes[index][0]}'" + (f":({sub.get('pre_size', 0)}){sub.get('size', 0)}" if sub else ""))
        return ",".join(out)

    dims = []
    for item in fields.get("dim_shardings", ()):
        dim = decode(MESSAGES["DimensionSharding"], item)
        inner = [refs(dim.get("axes", ()))] if dim.get("axes") else []
        dims.append("{" + ", ".join([*inner, *([] if dim.get("is_closed") else ["?"])]) + "}")
    iota = decode(MESSAGES["IotaTransform"], mesh.get("iota_transform", b""))
    parts = [
        mesh_text(axes, mesh.get("device_ids", ()), iota.get("reshape_dims", ()), iota.get("transpose_perm", ())),
        f"[{', '.join(dims)}]" if dims or any(fields.get(key + "_axes") for key in _AXES) else "replicated",
    ]
    parts += [f"{key}={{{refs(fields[key + '_axes'])}}}" for key in _AXES if fields.get(key + "_axes")]
    tail = _metadata(fields.get("metadata", ()))
    parts += [tail] if tail else []
    return "{" + ", ".join(parts) + "}"
