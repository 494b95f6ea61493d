"""Batch normalisation in terms of reductions and elementwise operations.

Floats of less than 32 bits are widened once and rounded once, at the results.
"""

from __future__ import annotations

from ...hlo.ir import Instruction
from ...hlo.types import TYPES
from ...writing.writer import Rule, Writer


class Features:
    """The operands of a batch normalisation, in the type to compute in.

    Where only a part of the array counts, `live` says of each element whether it does, and `count` how many do for each
    feature (a float scalar).
    """

    def __init__(self, e: Writer, x: Instruction, live: Instruction | None = None, count: Instruction | None = None):
        self.e = e
        self.dtype = x.operands[0].shape.element_type
        self.inner = "f32" if TYPES[self.dtype].bits < 32 else self.dtype
        self.operands = [e.convert(o, self.inner) for o in x.operands]
        self.feature: int = x.attrs["feature_index"]
        self.epsilon: float = x.attrs["epsilon"]
        self.dims = x.operands[0].shape.dimensions
        self.live = live
        self.count: Instruction | int = self._static_count() if count is None else e.convert(count, self.inner)

    def _static_count(self) -> int:
        total = 1
        for d, size in enumerate(self.dims):
            total *= 1 if d == self.feature else size
        return total

    def spread(self, vector: Instruction) -> Instruction:
        """One value per feature over the whole array."""
        return self.e.broadcast(vector, self.dims, (self.feature,))

    def sum(self, a: Instruction) -> Instruction:
        others = tuple(d for d in range(len(self.dims)) if d != self.feature)
        counted = a if self.live is None else self.e.select(self.live, a, 0)
        return self.e.reduce(counted, self.e.scalar(a.shape.element_type, 0), others, "add")

    def over_count(self, a: Instruction) -> Instruction:
        return self.e.div(a, self.count)

    def deviation(self, variance: Instruction) -> Instruction:
        """sqrt(variance + epsilon)."""
        return self.e.unary("sqrt", self.e.add(variance, self.epsilon))

    def normalised(
        self, array: Instruction, scale: Instruction, offset: Instruction, mean: Instruction, variance: Instruction
    ) -> Instruction:
        e = self.e
        centred = e.sub(array, self.spread(mean))
        return e.add(e.mul(centred, self.spread(e.div(scale, self.deviation(variance)))), self.spread(offset))

    def result(self, *values: Instruction) -> Instruction:
        """One value or a tuple of them, in the type of the operands."""
        rounded = [self.e.convert(v, self.dtype) for v in values]
        return rounded[0] if len(rounded) == 1 else self.e.tuple(rounded)


def training(f: Features) -> Instruction:
    """The mean is subtracted before squaring, so a large one does not drown the variance.

    What a first mean is off by is the mean of what is left; it corrects both statistics and costs no pass of its own.
    """
    e = f.e
    array, scale, offset = f.operands
    first = f.over_count(f.sum(array))
    centred = e.sub(array, f.spread(first))
    off = f.over_count(f.sum(centred))
    squares = f.over_count(f.sum(e.mul(centred, centred)))
    variance = e.binary("maximum", e.sub(squares, e.mul(off, off)), 0)
    finite = e.unary("is-finite", off)
    mean = e.select(finite, e.add(first, off), first)
    return f.result(f.normalised(centred, scale, offset, off, variance), mean, variance)


def inference(f: Features) -> Instruction:
    return f.result(f.normalised(*f.operands))


def grad(f: Features) -> Instruction:
    """With r = 1 / sqrt(variance + epsilon) and n elements per feature:
    dx = scale * r * (dy - sum(dy) / n - (x - mean) * r * dscale / n)."""
    e = f.e
    array, scale, mean, variance, dy = f.operands
    deviation = f.deviation(variance)
    centred = e.div(e.sub(array, f.spread(mean)), f.spread(deviation))
    d_offset, d_scale = f.sum(dy), f.sum(e.mul(dy, centred))
    inner = e.sub(e.sub(dy, f.spread(f.over_count(d_offset))), e.mul(centred, f.spread(f.over_count(d_scale))))
    return f.result(e.mul(f.spread(e.div(scale, deviation)), inner), d_scale, d_offset)


WRITE = {"batch-norm-training": training, "batch-norm-inference": inference, "batch-norm-grad": grad}
"""opcode -> what writes it in terms of other operations."""


def _expand(e: Writer, x: Instruction) -> Instruction:
    return WRITE[x.opcode](Features(e, x))


EXPAND: dict[str, Rule] = dict.fromkeys(WRITE, _expand)
