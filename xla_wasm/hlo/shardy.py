"""Shardy's attributes as they stand in the frontend attributes of HLO: meshes, shardings by axes, and manual axes.

xla.sdy.meshes       {mesh = #sdy.mesh<["x"=2, "y"=2]>}
xla.sdy.sharding     #sdy.sharding<@mesh, [{"x"}, {}]>  or, of several values, #sdy.sharding_per_value<[<@mesh, [...]>,
...]> xla.sdy.manual_axes  #sdy<manual_axes{"x", "y"}>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from ..errors import ParseError, UnsupportedError
from .attrs import MeshGroups
from .sharding import AxisPart, Mesh, Sharding

MESHES = "xla.sdy.meshes"
SHARDING = "xla.sdy.sharding"
IN_SHARDINGS = "xla.sdy.in_shardings"
OUT_SHARDINGS = "xla.sdy.out_shardings"
MANUAL_AXES = "xla.sdy.manual_axes"

_TOKEN = r'\s*("(?:[^"\\]|\\.)*"|-?\d+|[#\w.$-]+|[@<>\[\]{}(),=:?])'
_ESCAPE = r"\\([0-9A-Fa-f]{2}|.)"
_LETTERS = {"n": "\n", "t": "\t"}


def read_meshes(text: str) -> dict[str, Mesh]:
    """The meshes of a module, by name."""
    reader, meshes = _Reader(text, {}), {}
    reader.need("{")
    while not reader.accept("}"):
        name = reader.name()
        reader.need("=", "#sdy.mesh")
        meshes[name] = reader.mesh()
        reader.accept(",")
    return meshes


def read_shardings(text: str, meshes: Mapping[str, Mesh], manual: frozenset[str] | None = None) -> list[Sharding]:
    """The sharding of each value. With `manual`, only what those axes cut."""
    reader = _Reader(text, meshes)
    if reader.take() == "#sdy.sharding":
        return [reader.sharding(manual)]
    reader.need("<", "[")
    shardings = []
    while not reader.accept("]"):
        shardings.append(reader.sharding(manual))
        reader.accept(",")
    return shardings


def read_manual_axes(text: str) -> frozenset[str]:
    """The names in #sdy<manual_axes{...}>."""
    reader = _Reader(text, {})
    reader.need("#sdy", "<", "manual_axes", "{")
    axes = []
    while not reader.accept("}"):
        axes.append(reader.name())
        reader.accept(",")
    return frozenset(axes)


def read_mesh_groups(text: str, meshes: Mapping[str, Mesh]) -> MeshGroups:
    """The groups in #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = ["x", "y":(2)2]>."""
    reader = _Reader(text, meshes)
    reader.need("#stablehlo.replica_group_mesh_axes", "<", "mesh", "=")
    mesh = reader.mesh_or_name()
    reader.need(",", "axes", "=")
    refs = reader.axes(mesh, "[", "]")
    reader.need(">")
    ids = tuple(mesh.ids)
    return MeshGroups(mesh.axes, tuple(refs), () if ids == tuple(range(len(ids))) else ids)


class _Reader:
    """The tokens of an attribute."""

    def __init__(self, text: str, meshes: Mapping[str, Mesh]) -> None:
        self.text, self.meshes, self.at = text, meshes, 0

    def peek(self) -> str:
        found = re.compile(_TOKEN).match(self.text, self.at)
        return found[1] if found else ""

    def take(self) -> str:
        found = re.compile(_TOKEN).match(self.text, self.at)
        if found is None:
            self.fail("more")
        self.at = found.end()
        return found[1]

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.take()
        return True

    def need(self, *tokens: str) -> None:
        for token in tokens:
            if not self.accept(token):
                self.fail(repr(token))

    def fail(self, wanted: str) -> NoReturn:
        raise ParseError(f"the Shardy attribute {self.text!r} is damaged: expected {wanted} at character {self.at}")

    def name(self) -> str:
        token = self.take()
        return _unescaped(token[1:-1]) if token.startswith('"') else token

    def integer(self) -> int:
        token = self.take()
        if not re.fullmatch(r"-?\d+", token):
            self.fail("a number")
        return int(token)

    def mesh(self) -> Mesh:
        """<["x"=2, "y"=2], device_ids=[...]>"""
        self.need("<", "[")
        axes, ids = [], []
        while not self.accept("]"):
            name = self.name()
            self.need("=")
            axes.append((name, self.integer()))
            self.accept(",")
        if self.accept(","):
            self.need("device_ids", "=", "[")
            while not self.accept("]"):
                ids.append(self.integer())
                self.accept(",")
        self.need(">")
        return Mesh.of(axes, ids)

    def sharding(self, manual: frozenset[str] | None) -> Sharding:
        """<@mesh, [{"x"}, {"y", ?}p1], replicated={"z"}>"""
        self.need("<")
        mesh = self.mesh_or_name()
        self.need(",", "[")
        dimensions = []
        while not self.accept("]"):
            dimensions.append([p for p in self.axes(mesh) if manual is None or mesh.axes[p[0]][0] in manual])
            if re.fullmatch(r"p\d+", self.peek()):
                self.take()
            self.accept(",")
        reduced = True
        while self.accept(","):
            reduced = self.take() == "replicated" and reduced
            self.need("=")
            self.axes(mesh)
        self.need(">")
        return mesh.sharding(dimensions) if reduced else Sharding("unreduced")

    def mesh_or_name(self) -> Mesh:
        if not self.accept("@"):
            self.take()  # "mesh", or "#stablehlo.mesh"
            return self.mesh()
        name = self.name()
        if name not in self.meshes:
            raise UnsupportedError(
                f"the sharding {self.text!r} names the mesh {name!r}, which the module does not have"
            )
        return self.meshes[name]

    def axes(self, mesh: Mesh, opening: str = "{", closing: str = "}") -> list[AxisPart]:
        """{"x", "y":(2)2, ?}"""
        self.need(opening)
        parts = []
        names = [name for name, _ in mesh.axes]
        while not self.accept(closing):
            if not self.accept("?"):
                name = self.name()
                if name not in names:
                    raise UnsupportedError(
                        f"the sharding {self.text!r} names the axis {name!r}, which its mesh does not have"
                    )
                pre = size = 0
                if self.accept(":"):
                    self.need("(")
                    pre = self.integer()
                    self.need(")")
                    size = self.integer()
                parts.append((names.index(name), pre, size))
            self.accept(",")
        return parts


def _unescaped(text: str) -> str:
    return re.sub(
        _ESCAPE, lambda found: chr(int(found[1], 16)) if len(found[1]) == 2 else _LETTERS.get(found[1], found[1]), text
    )
