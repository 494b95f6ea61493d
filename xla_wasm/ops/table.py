"""All operations: the families, one record for each folder beside this file, and the records of their opcodes."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from ..dataclass import dataclass
from ..hlo.op import Op
from .collective.record import COUNTS

Role = Literal["record", "reference", "samples", "expand", "simplify", "canonical", "lower", "stablehlo"]
"""A file of a family with tables for one reader."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of operations: its folder, and the files with tables in it beside `record.py`, `reference.py` and
    `samples.py`, which each one has.

    `late` stands for "lower" where few programs have a family, and none as part of a larger expression: these are the
    opcodes with a kernel, and `lower.py` is imported with the first one that is written. `routines`: whether it has
    kernels of custom calls, too, which expansions make.
    """

    name: str
    files: tuple[Role, ...] = ()
    late: tuple[str, ...] = ()
    routines: bool = False

    @property
    def ops(self) -> tuple[Op, ...]:
        """The records of its operations."""
        ops: tuple[Op, ...] = self.load_file("record").OPS
        return ops

    def load_file(self, role: Role) -> ModuleType:
        """The module of a file."""
        return import_module(f".{self.name}.{role}", __package__)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("elementwise", ("expand", "simplify", "lower", "stablehlo")),
        Family("movement", ("simplify", "lower", "stablehlo")),
        Family("indexing", ("expand", "simplify", "lower", "stablehlo")),
        Family("reduce", ("expand", "lower", "stablehlo")),
        Family("window", ("expand", "canonical", "lower")),
        Family("sort", ("expand", "stablehlo"), late=("sort", "topk")),
        Family("dot", ("expand", "canonical", "lower", "stablehlo")),
        Family("conv", ("expand", "canonical", "lower", "stablehlo")),
        Family("linalg", late=("cholesky", "triangular-solve"), routines=True),
        Family("fft", ("expand",), late=("fft",), routines=True),
        Family("norm", ("expand",)),
        Family("random", ("expand", "stablehlo"), late=("rng-bit-generator", "rng-get-and-update-state")),
        Family("control", ("simplify", "stablehlo")),
        Family("dynamic", ("stablehlo",)),
        Family("collective", ("expand", "stablehlo")),
        Family("hostio", ("expand", "stablehlo")),
        Family("custom", ("expand", "stablehlo")),
    )
}
"""The folders beside this file, by their names. Listed, never self-registered."""


def load_files(role: Role) -> list[ModuleType]:
    """The files for one role, of each family that has one, but for what is imported late."""
    everywhere = role in ("record", "reference", "samples")
    return [family.load_file(role) for family in FAMILIES.values() if everywhere or role in family.files]


def load_tables(role: Role, table: str) -> dict[str, Any]:
    """The tables of one name in these files, as one."""
    return {key: entry for module in load_files(role) for key, entry in getattr(module, table, {}).items()}


OPS: dict[str, Op] = {op.opcode: op for family in FAMILIES.values() for op in family.ops}
"""Opcode -> record."""

RECORDS: dict[str, Op] = OPS | {op.opcode: op for op in COUNTS}
"""The same with the operations that only expansions make."""
