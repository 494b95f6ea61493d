"""Finds erfc, which HLO has no opcode for: JAX writes it as some hundred operations, of which each element needs
half."""

from __future__ import annotations

from ..hlo.ir import Instruction, Module
from ..ops.elementwise.expand_erfc import erfc, erfc_argument
from ..writing.writer import Writer
from .rewrite import rewrite


def find_erfc(module: Module) -> None:
    """Writes erfc in fewer operations wherever XLA's expansion of it stands."""
    rewrite(module, {"select": _select}, suffixed=True)


def _select(w: Writer, x: Instruction) -> Instruction:
    argument = erfc_argument(x)
    return x if argument is None else erfc(w, argument)
