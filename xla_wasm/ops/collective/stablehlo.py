"""The exchange of blocks of one array, which StableHLO may take apart along another dimension than it puts them together along."""

from __future__ import annotations

from ...errors import ParseError, UnsupportedError
from ...hlo.attrs import ReplicaGroups
from ...hlo.ir import Instruction
from ...hlo.shape import Index
from ...mlir.tree import Op
from ...mlir.values import integer, rows, where
from ..stablehlo import Mapper, Rule


def _all_to_all(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    given = op.attributes
    channel = integer(given["channel_id"]) if "channel_id" in given else 0
    groups = ReplicaGroups(tuple([tuple([i for i in row if i >= 0]) for row in rows(given["replica_groups"])]))
    split, concat = integer(given["split_dimension"]), integer(given["concat_dimension"])
    count = integer(given["split_count"])
    if len(operands) != 1:
        raise UnsupportedError(f"{where(op)}: an exchange of {len(operands)} arrays is not supported")
    (x,) = operands
    dims = x.shape.dimensions
    if not 0 <= split < len(dims) or not 0 <= concat < len(dims) or count < 1 or dims[split] % count:
        raise ParseError(f"{where(op)}: {x.shape} cannot be split in {count} along dimension {split}")
    made = e.op("all-to-all", x, dimensions=(split,), replica_groups=groups, channel_id=channel if channel > 0 else None)
    return [_moved(e, made, split, concat, count)]


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


STABLEHLO: dict[str, Rule] = {"stablehlo.all_to_all": _all_to_all}
