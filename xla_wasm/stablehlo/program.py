"""A program being mapped: its functions, and what all of its operations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ..errors import ParseError, UnsupportedError
from ..hlo.attrs import Metadata, ReplicaGroups
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Shape
from ..hlo.shardy import read_mesh_groups, read_meshes
from ..mlir.strings import symbol_text
from ..mlir.tree import Block, Location, MeshGroups, Op, Type
from ..mlir.values import text, where
from ..ops.stablehlo import shape_of
from .fold import Ranges

_DEEPEST = 48
"""The greatest depth of calls, and of nested operations."""


class Program(ABC):
    """One program."""

    def __init__(self, ops: list[Op], control: Mapping[str, Callable[..., list[Instruction]]]):
        """`control` has the rules of operations whose regions see what is around them."""
        if len(ops) == 1 and ops[0].name == "builtin.module":
            self.top: Op | None = ops[0]
            self.ops = [op for region in ops[0].regions for block in region for op in block.ops]
        else:
            self.top, self.ops = None, ops
        self.control = control
        self.functions = {text(op.attributes.get("sym_name", "")): op for op in self.ops if op.name == "func.func"}
        self.computations: list[Computation] = []
        self.at: Op | None = None
        """The operation that is being mapped, for messages."""
        self.open_sizes = False
        """True if sizes are computed by the program, as in exports with symbolic ones."""
        self.active: list[str] = []
        """The functions and regions that are being mapped, from the outermost on."""
        self.least_sizes: dict[tuple[Instruction, int], int] = {}
        """The least sizes of the parameters' dynamic dimensions."""
        self.ranges: dict[Instruction, Ranges] = {}
        """The ranges of parameters that are integers."""
        self._shapes: dict[Type, Shape | None] = {}
        self._metadata: dict[Location, Metadata | None] = {}

    @abstractmethod
    def called(
        self, name: str, operands: Sequence[Instruction], known: Callable[[Instruction], Ranges | None]
    ) -> Computation:
        """The computation of a function on such operands, of which `known` says in which ranges they are, if that is
        known."""

    @abstractmethod
    def function(self, name: str) -> Computation:
        """The computation of a function as it is declared."""

    @cached_property
    def meshes(self) -> str:
        """The meshes of the module as a frontend attribute; empty if it has none."""
        found = [
            (text(op.attributes["sym_name"]), op.attributes["mesh"].text) for op in self.ops if op.name == "sdy.mesh"
        ]
        return "{" + ", ".join(f"{symbol_text(name)[1:]} = {mesh}" for name, mesh in found) + "}" if found else ""

    def groups(self, value: MeshGroups) -> ReplicaGroups:
        """Groups of devices by the axes of a mesh."""
        return ReplicaGroups(mesh=read_mesh_groups(value.text, read_meshes(self.meshes or "{}")))

    @property
    def here(self) -> str:
        """The operation that is being mapped, for messages."""
        return f"StableHLO: {where(self.at) if self.at else 'the module'}"

    def entry(self) -> Op:
        """The function that is the program."""
        main = self.functions.get("main")
        if main is not None:
            return main
        public = [
            op
            for op in self.functions.values()
            if op.attributes.get("sym_visibility", "public") != "private" and op.regions
        ]
        if len(public) != 1:
            raise ParseError(
                f"StableHLO: there must be a function 'main' or one public function, not {len(public)} of them"
            )
        return public[0]

    def enter(self, name: str) -> None:
        """Goes into a function or a region; `leave` comes out of it."""
        self.active.append(name)
        if len(self.active) > _DEEPEST:
            raise UnsupportedError(f"StableHLO: functions and regions nest deeper than {_DEEPEST} levels")

    def leave(self) -> None:
        self.active.pop()

    def block_of(self, op: Op, region: int = 0) -> Block:
        """The only block of a region."""
        if region >= len(op.regions) or len(op.regions[region]) != 1:
            raise UnsupportedError(f"StableHLO: {where(op)}: its region must be one block")
        return op.regions[region][0]

    # --- what instructions share --------------------------------------------------------------------------------

    def declared(self, kind: Type) -> Shape | None:
        try:
            return self._shapes[kind]
        except KeyError:
            shape = self._shapes[kind] = shape_of(kind)
            return shape

    def metadata(self, location: Location | None) -> Metadata | None:
        if location is None:
            return None
        try:
            return self._metadata[location]
        except KeyError:
            name, file, line = location
            made = Metadata(op_name=name, source_file=file, source_line=line) if name or file else None
            self._metadata[location] = made
            return made

    def metadata_of_name(self, name: str) -> Metadata | None:
        return self.metadata(Location(name)) if name else None
