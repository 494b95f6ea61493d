"""Kinds of attributes that name devices: groups of them, pairs, and how arrays are divided among them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...errors import ParseError, counted
from ..attrs import MOST_IN_GROUPS, IotaGroups, MeshGroups, ReplicaGroups
from ..op import REQUIRED
from ..proto.wire import Buffer, Fields
from .kind import Kind, braced, known, packed, unpacked

if TYPE_CHECKING:
    from ..ir import Instruction
    from ..text.lexer import Lexer
    from ..text.shapes import Shapes


def _pairs(lexer: Lexer, _: Shapes) -> tuple[tuple[int, ...], ...]:
    """{{0,1},{1,0}}"""
    begin = lexer.skip()
    pairs = tuple(tuple(items) for items in lexer.listed(lexer.integers))
    if any(len(pair) != 2 for pair in pairs):
        lexer.error("each pair has a source and a target", begin)
    return pairs


_GROUPS = ("collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list", "replica_groups")
"""The fields of the notations; the last one is what old modules have."""


class _Groups(Kind):
    """ReplicaGroups, for each notation in a field of its own."""

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> ReplicaGroups:
        lists, iota, mesh, old = (fields.pop(key, None) for key in _GROUPS)
        if mesh is not None:
            return ReplicaGroups(mesh=_read_mesh(mesh))
        if lists is not None:
            listed = known("CollectiveDeviceListProto", lists)
            old, iota = listed.get("replica_groups", ()), listed.get("iota", iota)
        if iota is not None:
            return ReplicaGroups(iota=_read_iota(iota))
        return ReplicaGroups(tuple([unpacked("ReplicaGroup", data)[0] for data in old or ()]))

    def write(self, fields: Fields, keys: tuple[str, ...], value: ReplicaGroups) -> None:
        lists, iota, mesh, _ = _GROUPS
        if value.iota:
            i = value.iota
            fields[iota] = packed(
                "IotaReplicaGroupListProto", (i.num_groups, i.group_size, i.reshape_dims, i.transpose_perm)
            )
        elif value.mesh:
            fields[mesh] = _write_mesh(value.mesh)
        else:
            fields[lists] = packed(
                "CollectiveDeviceListProto", [[packed("ReplicaGroup", [group]) for group in value.groups]]
            )


def _groups(lexer: Lexer, _: Shapes) -> ReplicaGroups:
    """{{0,1},{2,3}}, [2,2]<=[4], or mesh['x'=2,'y'=2] {'x'}."""
    from ..text.messages import axis_refs, iota, mesh

    begin = lexer.skip()
    if lexer.sees("mesh["):
        axes, devices, dims, perm = mesh(lexer)
        refs, _closed = axis_refs(lexer, axes)
        return ReplicaGroups(mesh=MeshGroups(tuple(axes), tuple(refs), tuple(devices), tuple(dims), tuple(perm)))
    if not lexer.sees("["):
        return ReplicaGroups(tuple(tuple(items) for items in lexer.listed(lexer.integers)))
    sizes = lexer.integers("[", "]")
    lexer.expect("<=")
    dims, perm = iota(lexer)
    total = prod(dims)
    if len(sizes) != 2 or min(sizes) < 1 or sizes[0] * sizes[1] != total:
        lexer.error(f"groups are [number, size], with {counted(total, 'device')} in all", begin)
    return ReplicaGroups(iota=IotaGroups(sizes[0], sizes[1], tuple(dims), tuple(perm)))


def _groups_text(value: ReplicaGroups) -> str:
    from ..text.sharding_text import iota_text, mesh_text

    iota, mesh = value.iota, value.mesh
    if iota:
        return f"[{iota.num_groups},{iota.group_size}]{iota_text(iota.reshape_dims, iota.transpose_perm)}"
    if not mesh:
        return braced(map(braced, value.groups))
    refs = (f"'{mesh.axes[axis][0]}'" + (f":({pre}){size}" if size else "") for axis, pre, size in mesh.refs)
    return f"{mesh_text(mesh.axes, mesh.device_ids, mesh.reshape_dims, mesh.transpose_perm)} {braced(refs)}"


def _read_iota(data: Buffer) -> IotaGroups:
    groups, size, dims, perm = unpacked("IotaReplicaGroupListProto", data)
    _check_iota(dims, perm)
    if groups < 1 or size < 1 or groups * size != prod(dims):
        raise ParseError(f"protobuf: replica groups [{groups},{size}] do not fit an iota of {list(dims)}")
    return IotaGroups(groups, size, dims, perm)


def _check_iota(dims: tuple[int, ...], perm: tuple[int, ...]) -> None:
    """Dimensions that multiply to a sane number of devices, and a permutation of them."""
    total = 1
    for dim in dims:
        total *= dim
        if dim < 1 or total > MOST_IN_GROUPS:
            raise ParseError(
                f"protobuf: device groups of {list(dims[:8])}: sizes must be positive and at most {MOST_IN_GROUPS} in "
                f"all"
            )
    if sorted(perm) != list(range(len(dims))):
        raise ParseError(
            f"protobuf: device groups: {list(perm[:8])} is no permutation of {counted(len(dims), 'dimension')}"
        )


def _read_mesh(data: Buffer) -> MeshGroups:
    fields = known("MeshAxesReplicaGroupListProto", data)
    mesh = known("MeshProto", fields.get("mesh", b""))
    axes = tuple((a.get("name", ""), a.get("size", 0)) for a in (known("MeshAxis", d) for d in mesh.get("axes", ())))
    sizes = tuple(size for _, size in axes)
    _check_iota(sizes, tuple(range(len(sizes))))
    refs = []
    for item in fields.get("axes", ()):
        ref = known("AxisRefProto", item)
        axis = ref.get("mesh_axis_index", 0)
        pre, size = unpacked("SubAxis", ref.get("sub_axis_info", b""))
        if not 0 <= axis < len(axes) or (
            "sub_axis_info" in ref and (pre < 1 or size < 1 or axes[axis][1] % (pre * size))
        ):
            raise ParseError(
                f"protobuf: a replica group refers to axis {axis} (sub-axis {pre}, {size}) that its mesh lacks"
            )
        refs.append((axis, pre, size))
    dims, perm = unpacked("IotaTransform", mesh.get("iota_transform", b""))
    devices, count = tuple(mesh.get("device_ids", ())), prod(sizes)
    _check_iota(dims, perm)
    if (devices and len(devices) != count) or (dims and prod(dims) != count):
        raise ParseError(
            f"protobuf: the mesh of replica groups has {counted(count, 'place')} for other numbers of devices"
        )
    return MeshGroups(axes, tuple(refs), devices, dims, perm)


def _write_mesh(value: MeshGroups) -> bytes:
    axes = [packed("MeshAxis", axis) for axis in value.axes]
    mesh = packed(
        "MeshProto",
        (axes, value.device_ids, packed("IotaTransform", (value.reshape_dims, value.transpose_perm)) or None),
    )
    refs = [
        packed("AxisRefProto", (axis, packed("SubAxis", (pre, size)) if size else None))
        for axis, pre, size in value.refs
    ]
    return packed("MeshAxesReplicaGroupListProto", (mesh, refs))


class _Domain(Kind):
    """The shardings of a domain: (entry, exit), each an OpSharding as bytes, as in HLO text. The proto has them
    crossed."""

    def read(self, fields: Fields, keys: tuple[str, ...], instruction: Instruction) -> tuple[bytes, bytes]:
        entry, exit_ = fields.pop("domain_exit_sharding", b""), fields.pop("domain_entry_sharding", b"")
        return bytes(entry), bytes(exit_)

    def write(self, fields: Fields, keys: tuple[str, ...], value: tuple[bytes, bytes]) -> None:
        fields["domain_exit_sharding"], fields["domain_entry_sharding"] = value


def _domain(lexer: Lexer, _: Shapes) -> tuple[bytes, bytes]:
    """{kind="sharding", entry={...}, exit={...}}"""
    from ..text.messages import sharding

    found: dict[str, bytes] = {}
    for key, here in lexer.entries("kind=, entry=, exit= or '}'"):
        if key == "kind":
            if lexer.string() != b"sharding":
                lexer.error('the kind of a domain is "sharding"', here)
        elif key in ("entry", "exit"):
            found[key] = sharding(lexer)
        else:
            lexer.error(f"a domain has no attribute {key}", here)
    return found.get("entry", b""), found.get("exit", b"")


def _domain_text(value: tuple[bytes, bytes]) -> str:
    from ..text.sharding_text import sharding_text

    return f'{{kind="sharding", entry={sharding_text(value[0])}, exit={sharding_text(value[1])}}}'


KINDS: dict[str, Kind] = {
    "source_target_pairs": Kind(
        tuple,
        (),
        parse=_pairs,
        text=lambda value: braced(map(braced, value)),
        decoded=lambda items: tuple([tuple(unpacked("SourceTarget", data)) for data in items]),
        encoded=lambda value: [packed("SourceTarget", pair) for pair in value],
    ),
    "replica_groups": _Groups(ReplicaGroups, REQUIRED, parse=_groups, text=_groups_text),
    "domain": _Domain(tuple, REQUIRED, parse=_domain, text=_domain_text),
}
