"""Gathers whose sizes are operands, and the older gather along one dimension."""

from __future__ import annotations

from ...hlo.attrs import GatherDimensionNumbers
from ...hlo.ir import Instruction
from ...mlir.tree import Op
from ...mlir.values import flag, integer, integers
from ..stablehlo import Mapper, Rule


def _dynamic_gather(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    x, indices, sizes = operands
    given = op.attributes
    lists = {
        name: integers(given[name])
        for name in GatherDimensionNumbers.__dataclass_fields__
        if name in given and name != "index_vector_dim"
    }
    numbers = GatherDimensionNumbers(index_vector_dim=integer(given.get("index_vector_dim", 0)), **lists)
    sizes_known = e.need_integers(op, sizes, "the sizes of its slices")
    return [
        e.op(
            "gather",
            x,
            indices,
            gather_dimension_numbers=numbers,
            slice_sizes=sizes_known,
            indices_are_sorted=flag(given, "indices_are_sorted"),
        )
    ]


def _torch_index_select(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """Slices along one dimension by a list of numbers; the leading dimensions are a batch."""
    x, index = operands
    dim, batch = integer(op.attributes["dim"]), integer(op.attributes["batch_dims"])
    kept = index.shape.rank - batch
    numbers = GatherDimensionNumbers(
        offset_dims=(*range(batch, dim), *range(dim + kept, x.shape.rank - 1 + kept)),
        collapsed_slice_dims=(dim,),
        start_index_map=(dim,),
        index_vector_dim=index.shape.rank,
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
    )
    sizes = tuple([1 if d == dim or d < batch else size for d, size in enumerate(x.shape.dimensions)])
    made = e.op("gather", x, index, gather_dimension_numbers=numbers, slice_sizes=sizes)
    return [made]


STABLEHLO: dict[str, Rule] = {
    "stablehlo.dynamic_gather": _dynamic_gather,
    "stablehlo.torch_index_select": _torch_index_select,
}
