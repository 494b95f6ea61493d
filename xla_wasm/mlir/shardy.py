"""The text of Shardy's attributes, and of replica groups by the axes of a mesh: bytecode holds them as structures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .strings import string_text, symbol_text
from .tree import Attribute, MeshGroups, Number, Opaque, Symbol


class Axis(NamedTuple):
    """A part of a sharding, as its text."""

    text: str


def _sub_axis(read: dict[str, Any]) -> Attribute:
    return Axis(f":({read['pre']}){read['size']}")


def _axis(read: dict[str, Any]) -> Attribute:
    return Axis(string_text(read["name"]) + (read["sub"].text if read["sub"] else ""))


def _mesh_axis(read: dict[str, Any]) -> Attribute:
    return Axis(f"{string_text(read['name'])}={read['size']}")


def _list(parts: Iterable[Any]) -> str:
    return ", ".join(part.text for part in parts)


def _mesh_text(axes: Iterable[Any], ids: Iterable[int]) -> str:
    listed = ", ".join(map(str, ids))
    return f"<[{_list(axes)}]" + (f", device_ids=[{listed}]" if listed else "") + ">"


def _sdy_mesh(read: dict[str, Any]) -> Attribute:
    return Opaque("#sdy.mesh" + _mesh_text(read["axes"], read["device_ids"]))


def _dimension(read: dict[str, Any]) -> Attribute:
    inner = [part.text for part in read["axes"]] + ([] if read["closed"] else ["?"])
    priority = read["priority"]
    return Axis("{" + ", ".join(inner) + "}" + ("" if priority is None else f"p{priority}"))


def _sharding(read: dict[str, Any]) -> Attribute:
    mesh = read["mesh"]
    name = symbol_text(mesh.name) if isinstance(mesh, Symbol) else "mesh" + mesh.text.removeprefix("#sdy.mesh")
    text = f"<{name}, [{_list(read['dimensions'])}]"
    for key in ("replicated", "unreduced"):
        if read.get(key):
            text += f", {key}={{{_list(read[key])}}}"
    return Opaque("#sdy.sharding" + text + ">")


def _shardings(read: dict[str, Any]) -> Attribute:
    return Opaque(
        "#sdy.sharding_per_value<[" + ", ".join(s.text.removeprefix("#sdy.sharding") for s in read["v"]) + "]>"
    )


def _manual_axes(read: dict[str, Any]) -> Attribute:
    return Opaque("#sdy<manual_axes{" + ", ".join(map(string_text, read["v"])) + "}>")


def _factor(number: int) -> str:
    """The letter of a factor: i to z, then z_1 and so on."""
    return chr(ord("i") + number) if number < 18 else f"z_{number - 17}"


def _factors(numbers: Iterable[int]) -> str:
    return ", ".join(map(_factor, numbers))


def _rule(read: dict[str, Any]) -> Attribute:
    sides = [", ".join(part.text for part in read[side]) for side in ("operands", "results")]
    sizes = ", ".join(f"{_factor(i)}={size}" for i, size in enumerate(read["sizes"]))
    text = f"#sdy.op_sharding_rule<({sides[0]})->({sides[1]}) {{{sizes}}}"
    for key, name in (
        ("reductions", "reduction"),
        ("replications", "need_replication"),
        ("permutations", "permutation"),
    ):
        if read[key]:
            text += f" {name}={{{_factors(read[key])}}}"
    if read["blocked"]:
        text += f" blocked_propagation={{{_factors(read['blocked'])}}}"
    return Opaque(text + (", custom>" if read["custom"] else ">"))


def mesh_groups(read: dict[str, Any]) -> Attribute:
    """Groups of devices by the axes of a mesh."""
    mesh = read["mesh"]
    name = (
        symbol_text(mesh.name if isinstance(mesh, Symbol) else mesh) if isinstance(mesh, (Symbol, str)) else mesh.text
    )
    return MeshGroups(f"#stablehlo.replica_group_mesh_axes<mesh = {name}, axes = [{_list(read['axes'])}]>")


def _mesh(read: dict[str, Any]) -> Attribute:
    ids = read["device_ids"]
    numbers = [int(v.value) for v in ids if isinstance(v, Number)] if isinstance(ids, tuple) else []
    return Axis("#stablehlo.mesh" + _mesh_text(read["axes"], numbers))


TEXTS: dict[str, Callable[[dict[str, Any]], Attribute]] = {
    "sub_axis": _sub_axis,
    "axis": _axis,
    "mesh_axis": _mesh_axis,
    "mesh": _mesh,
    "sdy_mesh": _sdy_mesh,
    "sdy_dimension": _dimension,
    "sdy_sharding": _sharding,
    "sdy_shardings": _shardings,
    "sdy_manual_axes": _manual_axes,
    "sdy_dim_mapping": lambda read: Axis("".join(map(_factor, read["factors"]))),
    "sdy_tensor_mapping": lambda read: Axis(f"[{_list(read['dimensions'])}]"),
    "sdy_rule": _rule,
}
"""Kind -> what is made of its fields."""
