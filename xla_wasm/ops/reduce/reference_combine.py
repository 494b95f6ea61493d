"""Runs of a reducer over many lanes at once, for the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...hlo.ir import Computation
from ...hlo.types import SMALL_FLOATS
from ..dtypes import Array, Value, wide
from ..elementwise.reference import BINARY
from .monoids import monoid

Combine = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


def combiner(computation: Computation, call: Any, stepwise: bool) -> tuple[Combine, bool]:
    """A function (accumulators, elements) -> accumulators over lanes, and whether accumulators are kept wide.

    Sums and products of one operand are kept in f64 and rounded only at the end: the reference is to be nearer to the
    true value than what it judges. Any other computation runs as it is written. Floats narrower than f32 are held in
    f32, or where a reduction is `stepwise` round at every step.
    """
    opcode, type_ = monoid(computation), computation.root.shape.element_type
    if opcode is not None and not (stepwise and type_ in SMALL_FLOATS):
        fn = BINARY[opcode]
        return lambda left, right: [fn(wide(left[0]), wide(right[0]))], True
    return lambda left, right: _listed(call.lanes(computation, *left, *right, rounded=stepwise)), False


def fold(
    computation: Computation, call: Any, xs: Sequence[Array], flat: Array, lanes: Sequence[Array], stepwise: bool
) -> list[Array]:
    """Combine values into elements of `xs` at flat positions, those of one element in order."""
    combine, widen = combiner(computation, call, stepwise)
    results = [(wide(x) if widen else x).copy() for x in xs]
    by_target = np.argsort(flat, kind="stable")
    targets = flat[by_target]
    turn = np.arange(len(targets)) - np.searchsorted(targets, targets, "left")
    by_turn = np.argsort(turn, kind="stable")
    bounds = np.searchsorted(turn[by_turn], np.arange(turn.max(initial=-1) + 2))
    for begin, end in zip(
        bounds[:-1], bounds[1:]
    ):  # round r handles the r-th value of every element, all elements at once
        chosen = by_target[by_turn[begin:end]]
        target = flat[chosen]
        for result, value in zip(results, combine([r[target] for r in results], [lane[chosen] for lane in lanes])):
            result[target] = value
    return results


def _listed(result: Value) -> list[Array]:
    return list(result) if isinstance(result, tuple) else [result]
