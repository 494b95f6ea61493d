"""All operations: the families, and the records of their opcodes."""

from __future__ import annotations

from ..hlo.op import Op
from .collective import record as collective
from .control import record as control
from .conv import record as conv
from .custom import record as custom
from .dot import record as dot
from .dynamic import record as dynamic
from .elementwise import record as elementwise
from .fft import record as fft
from .hostio import record as hostio
from .indexing import record as indexing
from .linalg import record as linalg
from .movement import record as movement
from .norm import record as norm
from .random import record as random
from .reduce import record as reduce
from .sort import record as sort
from .window import record as window

FAMILIES: dict[str, tuple[Op, ...]] = {
    "elementwise": elementwise.OPS,
    "movement": movement.OPS,
    "indexing": indexing.OPS,
    "reduce": reduce.OPS,
    "window": window.OPS,
    "sort": sort.OPS,
    "dot": dot.OPS,
    "conv": conv.OPS,
    "linalg": linalg.OPS,
    "fft": fft.OPS,
    "norm": norm.OPS,
    "random": random.OPS,
    "control": control.OPS,
    "dynamic": dynamic.OPS,
    "collective": collective.OPS,
    "hostio": hostio.OPS,
    "custom": custom.OPS,
}
"""The operations of each folder beside this file."""

OPS: dict[str, Op] = {op.opcode: op for ops in FAMILIES.values() for op in ops}
"""Opcode -> record."""

RECORDS: dict[str, Op] = OPS | {op.opcode: op for op in collective.COUNTS}
"""The same with the operations that only expansions make."""
