"""Custom calls that have a meaning here: `BUILT_IN[target]`."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...hlo.ir import Instruction
from ...hlo.types import is_integral
from ...writing.writer import Rule, Writer
from ..dynamic.expand_custom_calls import CUSTOM_CALLS
from ..linalg.expand_lapack import LAPACK
from ..linalg.expand_lapack_older import LAPACK_OLDER
from ..linalg.expand_tpu import TPU
from ..sort.first import compared
from .callback import ASSERTION, TARGETS
from .expand_sparse import SPARSE


def _identity(e: Writer, x: Instruction) -> Instruction:
    """Marks of sharding and placement, where there is one device."""
    own = x.operands[0] if len(x.operands) == 1 else e.tuple(x.operands)
    if own.shape.without_layout() != x.shape.without_layout():
        raise UnsupportedError(
            f"{x.where}: {x.shape} of {own.shape} needs more than one device, and nothing says how many"
        )
    return own


def _nothing(e: Writer, x: Instruction) -> Instruction:
    return e.tuple([])


def _dropped(e: Writer, x: Instruction) -> Instruction:
    """Returns the tokens of a callback without results that no host is asked to run; they are empty tuples by now."""
    return e.tuple([e.tuple(()) for _ in x.shape.tuple_shapes])


def _top_k(e: Writer, x: Instruction) -> Instruction:
    """(values, indices) of the k first elements of each row in the order of the comparator (x1, x2, i1, i2), or the
    largest."""
    (operand,) = x.operands
    values, indices = x.shape.tuple_shapes
    k = values.dimensions[-1]
    largest = _order(x)
    if largest is not None and indices.element_type == "s32":
        return e.op("topk", operand, k=k, largest=largest)
    dims = operand.shape.dimensions
    places = e.iota(indices.element_type, dims, len(dims) - 1)
    ordered = e.op("sort", operand, places, called=x.called, dimensions=(len(dims) - 1,), is_stable=True)
    return e.tuple([e.slice_dim(part, len(dims) - 1, 0, k) for part in e.elements(ordered)])


def _order(x: Instruction) -> bool | None:
    """Returns True if the largest elements go first, as `topk` sees it; None where only the comparator can tell."""
    if not x.called:
        return True
    exact = is_integral(x.operands[0].shape.element_type) or x.called[0].root.attrs.get("type") == "TOTALORDER"
    return {"GT": True, "LT": False}.get(compared(x.called[0])) if exact or len(x.called[0].parameters) == 2 else None


IDENTITIES = (
    *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"),
    *(
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "xla.sdy.PropagationBarrier",
    ),
    *("annotate_device_placement", "MoveToHost", "MoveToDevice"),
)
"""Targets of calls that stand for their operands."""

BUILT_IN: dict[str, Rule] = {
    **dict.fromkeys(IDENTITIES, _identity),
    "xla.sdy.ShardingGroup": _nothing,
    "TopK": _top_k,
    **LAPACK,
    **LAPACK_OLDER,
    **TPU,
    **SPARSE,
    **CUSTOM_CALLS,
    **dict.fromkeys((*TARGETS, ASSERTION), _dropped),
}
"""target -> rule."""
