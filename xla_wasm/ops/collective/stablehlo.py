"""The exchange of blocks, which StableHLO may take apart along another dimension than it puts them together along, and
the oldest sum."""

from __future__ import annotations

from ...errors import ParseError
from ...hlo.attrs import ReplicaGroups
from ...hlo.ir import Instruction
from ...hlo.shape import Index, Shape
from ...mlir.tree import Op
from ...mlir.values import integer, rows, where
from ..stablehlo import Mapper, Rule


def _all_to_all(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """Of several arrays each is exchanged for itself."""
    given = op.attributes
    channel = integer(given["channel_id"]) if "channel_id" in given else 0
    groups = _groups(op)
    split, concat = integer(given["split_dimension"]), integer(given["concat_dimension"])
    count = integer(given["split_count"])
    results = []
    for x in operands:
        dims = x.shape.dimensions
        if not 0 <= split < len(dims) or not 0 <= concat < len(dims) or count < 1 or dims[split] % count:
            raise ParseError(f"{where(op)}: {x.shape} cannot be split in {count} along dimension {split}")
        made = e.op(
            "all-to-all", x, dimensions=(split,), replica_groups=groups, channel_id=channel if channel > 0 else None
        )
        results.append(_moved(e, made, split, concat, count))
    return results


def _groups(op: Op) -> ReplicaGroups:
    return ReplicaGroups(tuple([tuple([i for i in row if i >= 0]) for row in rows(op.attributes["replica_groups"])]))


def _cross_replica_sum(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    (x,) = operands
    scalar = Shape(x.shape.element_type)
    added = e.computation("sum", [scalar, scalar], lambda w, p, q: w.add(p, q))
    return [e.op("all-reduce", x, called=[added], replica_groups=_groups(op))]


def _moved(e: Mapper, x: Instruction, split: int, concat: int, count: int) -> Instruction:
    """The blocks along one dimension put together along another."""
    if split == concat:
        return x
    dims = x.shape.dimensions
    blocks: Index = (*dims[:split], count, dims[split] // count, *dims[split + 1 :])
    target = concat if concat < split else concat + 1  # where the dimension is beside the new one
    order = [d for d in range(len(blocks)) if d != split]
    order.insert(order.index(target), split)
    sizes = list(dims)
    sizes[split] //= count
    sizes[concat] *= count
    return e.reshape(e.op("transpose", e.reshape(x, blocks), dimensions=tuple(order)), tuple(sizes))


STABLEHLO: dict[str, Rule] = {"stablehlo.all_to_all": _all_to_all, "stablehlo.cross-replica-sum": _cross_replica_sum}
