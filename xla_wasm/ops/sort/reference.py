"""NumPy semantics of sort and topk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..dtypes import Array, Value
from ..elementwise.reference import total_order_key
from .unstable import SPLIT, unstable_order

Less = Callable[[Array, Array], Array]


def merge_order(length: int, lanes: int, less: Less) -> Array:
    """The stable order of `length` elements in each of `lanes` rows, as indices [lanes, length].

    `less(i, j)` compares elements given by flat indices. Runs of doubling width are merged: an element's new place is
    its place in its own run plus its rank in the other, which a binary search finds for all elements at once.
    """
    padded = 1 << max(length - 1, 0).bit_length()
    order = np.broadcast_to(np.arange(padded), (lanes, padded)).copy()
    row = np.arange(lanes)[:, None]
    place = np.arange(padded)
    width = 1
    while width < padded:
        own, in_left = place % width, place // width % 2 == 0
        other = np.where(in_left, place - own + width, place - own - width)
        low, high = np.zeros((lanes, padded), np.int64), np.full((lanes, padded), width)
        for _ in range(width.bit_length()):
            middle = (low + high) // 2
            rival = np.take_along_axis(order, np.minimum(other + middle, padded - 1), 1)
            # a left element goes before its equals on the right, so it passes those that are strictly less
            beyond = np.where(in_left, _less(less, rival, order, row, length), ~_less(less, order, rival, row, length))
            active = low < high
            low, high = np.where(active & beyond, middle + 1, low), np.where(active & ~beyond, middle, high)
        # Places differ under an order. Under a comparator that is none, two elements may have the same one.
        places = np.argsort(place // (2 * width) * (2 * width) + own + low, 1, kind="stable")
        order, width = np.take_along_axis(order, places, 1), 2 * width
    return order[:, :length]


def _less(less: Less, i: Array, j: Array, row: Array, length: int) -> Array:
    """`less`, with the elements that pad a row to a power of two after all others, in their order."""
    real = (i < length) & (j < length)
    result = less(row * length + np.where(i < length, i, 0), row * length + np.where(j < length, j, 0))
    return np.where(real, result, i < j)


def _as_found(order: Array, less: Less) -> Array:
    """The stable order of rows, with equal elements as a sort leaves them that need not be stable."""
    lanes, length = order.shape
    places = order + np.arange(lanes)[:, None] * length
    rises = np.reshape(less(places[:, :-1], places[:, 1:]), (lanes, length - 1))
    result = order.copy()
    for lane in np.flatnonzero(~rises.all(1)):
        keys = np.empty(length, np.int64)
        keys[order[lane]] = np.concatenate([[0], np.cumsum(rises[lane])])
        result[lane] = unstable_order(keys.tolist())
    return result


def _sort(instr: Instruction, operands: list[Value], call: Any) -> Value:
    (dim,) = instr.attrs["dimensions"]
    shape = operands[0].shape
    if operands[0].size == 0 or shape[dim] == 1:
        return tuple(operands) if instr.shape.is_tuple else operands[0]
    moved = [np.moveaxis(x, dim, -1) for x in operands]
    flat = [x.reshape(-1) for x in moved]

    def less(i: Array, j: Array) -> Array:
        return call.lanes(instr.called[0], *(x[index] for x in flat for index in (i, j)))

    length = shape[dim]
    order = merge_order(length, operands[0].size // length, less)
    if not instr.attrs["is_stable"] and length > SPLIT:
        order = _as_found(order, less)
    results = [
        np.moveaxis(np.take_along_axis(x.reshape(-1, length), order, 1).reshape(x.shape), -1, dim) for x in moved
    ]
    return tuple(results) if instr.shape.is_tuple else results[0]


def best_first(instr: Instruction, operands: list[Value]) -> Value:
    """The operands of a sort of which only the first elements are used: the greatest of the first one first (see
    `first`)."""
    (dim,) = instr.attrs["dimensions"]
    order = _order(operands[0], True, dim)
    results = [np.take_along_axis(x, order, dim) for x in operands]
    return tuple(results) if instr.shape.is_tuple else results[0]


def _order(x: Array, largest: bool, dim: int) -> Array:
    """Returns the places that elements come from in total order, best first, equals by index."""
    if x.dtype.kind in "fV":
        key = total_order_key(x)
    else:
        key = x if x.dtype == np.uint64 else x.astype(np.int64)
    return np.argsort(~key if largest else key, dim, kind="stable")


def _topk(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """The k best of the last dimension in total order, best first, equals by index."""
    x, k = operands[0], instr.attrs["k"]
    order = _order(x, instr.attrs["largest"], -1)[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"sort": _sort, "topk": _topk}
