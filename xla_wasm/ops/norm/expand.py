"""Batch normalisation in terms of reductions and elementwise operations."""

from __future__ import annotations

from ...hlo.ir import Instruction
from ..expansion import Expansion, Rule


class _Features:
    """The operand of a batch normalisation: its dimensions apart from that of the features."""

    def __init__(self, e: Expansion, x: Instruction):
        self.e = e
        self.array = x.operands[0]
        self.feature = x.attrs["feature_index"]
        self.epsilon = x.attrs["epsilon"]
        self.dims = self.array.shape.dimensions
        self.count = self.array.shape.size // max(self.dims[self.feature], 1)

    def spread(self, vector: Instruction) -> Instruction:
        """One value per feature over the whole array."""
        return self.e.broadcast(vector, self.dims, (self.feature,))

    def sum(self, a: Instruction) -> Instruction:
        others = tuple(d for d in range(len(self.dims)) if d != self.feature)
        return self.e.reduce(a, self.e.scalar(a.shape.element_type, 0), others, "add")

    def mean(self, a: Instruction) -> Instruction:
        return self.e.div(self.sum(a), self.count)

    def deviation(self, variance: Instruction) -> Instruction:
        """sqrt(variance + epsilon)."""
        return self.e.unary("sqrt", self.e.add(variance, self.epsilon))

    def normalised(self, scale: Instruction, offset: Instruction, mean: Instruction, variance: Instruction) -> Instruction:
        e = self.e
        centred = e.sub(self.array, self.spread(mean))
        return e.add(e.mul(centred, self.spread(e.div(scale, self.deviation(variance)))), self.spread(offset))


def _training(e: Expansion, x: Instruction) -> Instruction:
    f = _Features(e, x)
    mean = f.mean(f.array)
    centred = e.sub(f.array, f.spread(mean))
    variance = f.mean(e.mul(centred, centred))
    _, scale, offset = x.operands
    return e.tuple([f.normalised(scale, offset, mean, variance), mean, variance])


def _inference(e: Expansion, x: Instruction) -> Instruction:
    _, scale, offset, mean, variance = x.operands
    return _Features(e, x).normalised(scale, offset, mean, variance)


def _grad(e: Expansion, x: Instruction) -> Instruction:
    """With r = 1 / sqrt(variance + epsilon) and n elements per feature:
    dx = scale * r * (dy - sum(dy) / n - (x - mean) * r * dscale / n)."""
    _, scale, mean, variance, dy = x.operands
    f = _Features(e, x)
    deviation = f.deviation(variance)
    centred = e.div(e.sub(f.array, f.spread(mean)), f.spread(deviation))
    d_offset, d_scale = f.sum(dy), f.sum(e.mul(dy, centred))
    inner = e.sub(e.sub(dy, f.spread(e.div(d_offset, f.count))), e.mul(centred, f.spread(e.div(d_scale, f.count))))
    return e.tuple([e.mul(f.spread(e.div(scale, deviation)), inner), d_scale, d_offset])


EXPAND: dict[str, Rule] = {"batch-norm-training": _training, "batch-norm-inference": _inference, "batch-norm-grad": _grad}
