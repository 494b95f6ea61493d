"""Reductions of many elements to one become two for threads: of a fixed number of parts, which threads share, and of
their results."""

from __future__ import annotations

from ..hlo.ir import Instruction, Module
from ..ops.reduce.monoids import monoid
from ..ops.reduce.neutral import neutral
from ..writing.writer import Writer
from .rewrite import rewrite

_LEAST = 1 << 16
"""Elements from which on their parts are worth a kernel more."""
_PARTS = 64
"""The most parts of a dimension that is divided; they do not depend on the number of threads, so neither does the
result."""
_FEWEST = 4
_MOST = 1024
"""The most parts where whole dimensions are parts."""


def split_reductions(module: Module) -> None:
    """Divides the reductions to a single element whose order does not matter."""
    rewrite(module, {"reduce": _split})


def _split(w: Writer, x: Instruction) -> Instruction:
    if x.shape.is_tuple or x.shape.size != 1 or x.operands[0].shape.size < _LEAST:
        return x
    operand, init = x.operands
    opcode, start = monoid(x.called[0]), None
    if opcode is not None:
        start = neutral(opcode, x.shape.element_type)
    divided = _divided(operand.shape.dimensions)
    if opcode is None or start is None or divided is None:
        return x
    dims, count = divided
    parts = w.reduce(
        w.reshape(operand, dims), w.scalar(x.shape.element_type, start), tuple(range(count, len(dims))), opcode
    )
    return w.reshape(w.reduce(parts, init, tuple(range(count)), opcode), x.shape.dimensions)


def _divided(dims: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:
    """The dimensions of an array with one of them perhaps in two, and how many of them, the first, are the parts; None:
    there are none."""
    parts = 1
    for d, size in enumerate(dims):
        if parts * size <= _MOST:
            parts *= size
            if parts >= _FEWEST and d + 1 < len(dims):
                return dims, d + 1
            continue
        most = next((n for n in range(min(_PARTS, size), 0, -1) if size % n == 0), 1)
        if parts * most < _FEWEST:
            return None
        return (*dims[:d], most, size // most, *dims[d + 1 :]), d + 1
    return None
