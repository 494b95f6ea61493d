"""Judgement of results that need not be exact: by the true values, and by the distance of others from these.

The true values are those of the evaluator with 64 bits. The evaluator as it is, XLA:CPU, and evaluations with arguments
or rounded results changed in their last bits show how far rounding alone may lead; where they disagree about an
integer, a truth value or a NaN, the program has no one answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.support.closeness import ulp_of
from xla_wasm.check.compare import is_float
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.ops.dtypes import Array, Value, dtype_of
from xla_wasm.ops.exactness import Exactness, exactness
from xla_wasm.reference import EVALUATE, evaluate

FACTOR = 8
"""Results may be so many times as far from the true values as all others."""
UNITS = 64
"""Units in the last place of the greatest element, beside that."""
NEAR_OVERFLOW = 64
"""Values of 32 or 64 bits above the greatest one divided by this may come out as infinite or NaN."""


def difference_from_true(module: Module, arguments: list[Array], actual: list[Array], others: list[list[Array]]) -> str:
    """Returns the first place where a result is further from the true one than rounding leads, in words; "" without
    one."""
    true = evaluate(module, *arguments, precision="f64")
    others = [evaluate(module, *arguments), *others]
    complaint = _all(actual, true, others)
    if complaint:
        for seed in range(4):
            others.append(evaluate(module, *_shaken(arguments, seed), precision="f64"))
            others.append(evaluate(module, *_shaken(arguments, seed)))
            with _shaken_results(seed):
                others.append(evaluate(module, *arguments))
        complaint = _all(actual, true, others)
    return complaint


def _all(actual: list[Array], true: list[Array], others: list[list[Array]]) -> str:
    for number, (found, wanted) in enumerate(zip(actual, true, strict=True)):
        if complaint := _one(found, wanted, [other[number] for other in others]):
            return f"result {number}: {complaint}"
    return ""


def _one(found: Array, true: Array, others: list[Array]) -> str:
    native = others[0]
    if found.dtype != native.dtype or found.shape != native.shape:
        return f"{found.dtype}{list(found.shape)}, expected {native.dtype}{list(native.shape)}"
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    if not is_float(found.dtype) and found.dtype.kind != "c":
        right = np.any([found == np.asarray(o).astype(found.dtype) for o in (true, *others)], axis=0)
        doubtful = np.any([np.asarray(o).astype(found.dtype) != native for o in (true, *others)], axis=0)
        return _told(found, true, ~right & ~doubtful)
    with np.errstate(all="ignore"):
        x, y, rest = found.astype(wide), np.asarray(true).astype(wide), [np.asarray(o).astype(wide) for o in others]
        finite = np.isfinite(y) & np.all([np.isfinite(o) for o in rest], axis=0)
        scale = float(np.max(np.abs(y), initial=0, where=finite))
        off = [np.max(np.abs(o - y), initial=0, where=finite) for o in rest]
        part = np.zeros(1, found.dtype).real.dtype
        allowed = FACTOR * max(off, default=0) + UNITS * float(ulp_of(np.array(scale), part))
        same = np.any([(x == o) | ((x != x) & (o != o)) for o in (y, *rest)], axis=0)
        # Infinite in one place and finite, however large, in another: an overflow, of which rounding decides.
        agreed = np.all([np.isfinite(o) == np.isfinite(y) for o in rest], axis=0)
        wrong = np.where(finite, ~(np.abs(x - y) <= allowed), ~same & agreed)
        # Whether a sum overflows on its way to so large a value depends on the order of its terms.
        near = float(np.finfo(part).max) / NEAR_OVERFLOW if part.itemsize > 2 else np.inf
        wrong &= np.isfinite(x) | ~(np.abs(y) > near)
    return _told(found, true, wrong)


def _told(found: Array, true: Array, wrong: Array) -> str:
    if not np.any(wrong):
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(np.sum(wrong))} of {wrong.size} elements; at {list(at)} {found[at]}, expected {true[at]}"


def _shaken(arguments: list[Array], seed: int) -> list[Any]:
    """The arguments with another last bit here and there."""
    rng = np.random.default_rng(seed)
    return [_shake(a, a.dtype, rng).astype(a.dtype) for a in arguments]


def _shake(a: Array, dtype: Any, rng: np.random.Generator) -> Any:
    """Numbers, changed by some units in the last place that they have as `dtype`."""
    if not is_float(a.dtype) and a.dtype.kind != "c":
        return a
    unit = ulp_of(np.array(1.0), np.zeros(1, dtype).real.dtype)
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) * (1 + unit * rng.integers(-2, 3, a.shape))


@contextmanager
def _shaken_results(seed: int) -> Iterator[None]:
    """Has the evaluator change the last bits of whatever is rounded or added up. Arguments alone may not show what
    rounding does: two orders of a sum may lead to one value by chance, and x + sin(x) leads to pi from wherever it
    starts."""
    rng = np.random.default_rng(seed)
    kept = dict(EVALUATE)

    def shaken(x: Instruction, operands: list[Value], call: Any) -> Value:
        value = kept[x.opcode](x, operands, call)
        if (
            not isinstance(value, np.ndarray)
            or not x.shape.is_array
            or exactness(x) not in (Exactness.ROUNDED, Exactness.SUMMED)
        ):
            return value
        return _shake(value, dtype_of(x.shape.element_type, False), rng)

    EVALUATE.update(dict.fromkeys(kept, shaken))
    try:
        yield
    finally:
        EVALUATE.update(kept)
