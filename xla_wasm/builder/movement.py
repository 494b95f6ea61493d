"""XlaBuilder's operations that move elements: broadcasts, reshapes, slices, indexing, dynamic dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..errors import VerifyError, counted
from ..hlo.attrs import GatherDimensionNumbers, PaddingDimension, ScatterDimensionNumbers, SliceDimension
from ..hlo.infer import brief, flags
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Shape
from .core import Core, Values, bounded


class Movement(Core):
    """Operations that put elements elsewhere."""

    def Broadcast(self, operand: Instruction, broadcast_sizes: Sequence[int]) -> Instruction:
        """The operand repeated along new dimensions on the left: out[i..., j...] = operand[j...].

        >>> b.Broadcast(b.Constant([1, 2, 3]), (2,))
        f32[2,3] [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
        """
        shape, new = self._array("broadcast", operand), len(broadcast_sizes)
        sizes = (*broadcast_sizes, *shape.dimensions)
        target = bounded(shape.element_type, sizes, (False,) * new + flags(shape))
        return self.op("broadcast", operand, shape=target, dimensions=tuple(range(new, len(sizes))))

    def BroadcastInDim(
        self, operand: Instruction, out_dim_size: Sequence[int], broadcast_dimensions: Sequence[int]
    ) -> Instruction:
        """The operand repeated: its dimension i becomes dimension `broadcast_dimensions[i]` of the result, a size of 1
        growing.

        >>> b.BroadcastInDim(b.Constant([1, 2]), (2, 3), (0,))
        f32[2,3] [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
        >>> b.BroadcastInDim(b.Constant([[1], [2]]), (2, 3), (0, 1))
        f32[2,3] [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
        """
        shape, sizes = self._array("broadcast", operand), tuple(out_dim_size)
        if len(broadcast_dimensions) != shape.rank:
            raise VerifyError(
                f"broadcast: {len(broadcast_dimensions)} broadcast_dimensions for the dimensions of {brief(shape)}"
            )
        for size, d in zip(shape.dimensions, broadcast_dimensions):
            if not 0 <= d < len(sizes) or size not in (1, sizes[d]):
                raise VerifyError(
                    f"broadcast: {brief(shape)} cannot become {sizes} by dimensions {(*broadcast_dimensions,)}"
                )
        return self._stretched(operand, sizes, broadcast_dimensions)

    def Collapse(self, operand: Instruction, dimensions: Sequence[int]) -> Instruction:
        """A run of dimensions replaced by one of their product.

        >>> b.Collapse(b.Iota(Shape("s32", (2, 2, 3)), 1), (1, 2))
        s32[2,6] [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]]
        """
        shape, dims = self._array("collapse", operand), tuple(dimensions)
        if dims and (dims != tuple(range(dims[0], dims[0] + len(dims))) or dims[0] < 0 or dims[-1] >= shape.rank):
            raise VerifyError(f"collapse: {dims} are not consecutive dimensions of {brief(shape)}")
        if len(dims) <= 1:
            return operand
        sizes = shape.dimensions
        return self.reshape(operand, (*sizes[: dims[0]], prod(sizes[dims[0] : dims[-1] + 1]), *sizes[dims[-1] + 1 :]))

    def Reshape(self, *arguments: Any, **keywords: Any) -> Instruction:
        """`Reshape(operand, dimensions)` or `Reshape(shape, operand)`: the elements in row-major order under other
        sizes.

        >>> b.Reshape(b.Constant([[1, 2, 3], [4, 5, 6]], "s32"), (3, 2))
        s32[3,2] [[1, 2], [3, 4], [5, 6]]
        >>> b.Reshape(Shape("f32", ()), b.Constant([[7]]))
        f32[] 7.0
        """
        to_shape = "shape" in keywords or (arguments and isinstance(arguments[0], Shape))
        return (self._reshape_to if to_shape else self._reshape)(*arguments, **keywords)

    def _reshape(self, operand: Instruction, dimensions: Sequence[int]) -> Instruction:
        self._array("reshape", operand)
        return self.reshape(operand, dimensions)

    def _reshape_to(self, shape: Shape, operand: Instruction) -> Instruction:
        return self.op("reshape", operand, shape=shape)

    def Transpose(self, operand: Instruction, permutation: Sequence[int]) -> Instruction:
        """The dimensions permuted: dimension i of the result is dimension `permutation[i]` of the operand.

        >>> b.Transpose(b.Constant([[1, 2, 3], [4, 5, 6]], "s32"), (1, 0))
        s32[3,2] [[1, 4], [2, 5], [3, 6]]
        """
        return self.op("transpose", operand, dimensions=tuple(permutation))

    def Rev(self, operand: Instruction, dimensions: Sequence[int]) -> Instruction:
        """The elements in opposite order along the given dimensions.

        >>> b.Rev(b.Constant([[1, 2, 3], [4, 5, 6]], "s32"), (1,))
        s32[2,3] [[3, 2, 1], [6, 5, 4]]
        """
        return self.op("reverse", operand, dimensions=tuple(dimensions))

    def Slice(
        self,
        operand: Instruction,
        start_indices: Sequence[int],
        limit_indices: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Instruction:
        """A block between constant bounds, every stride-th element of it.

        >>> b.Slice(b.Constant([0, 1, 2, 3, 4]), (2,), (4,))
        f32[2] [2.0, 3.0]
        >>> b.Slice(b.Constant([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]), (2, 1), (4, 3), (1, 1))
        f32[2,2] [[7.0, 8.0], [10.0, 11.0]]
        """
        rank, steps = self._array("slice", operand).rank, strides or (1,) * len(start_indices)
        if not rank == len(start_indices) == len(limit_indices) == len(steps):
            raise VerifyError(
                f"slice: {counted(len(start_indices), 'start')}, "
                f"{counted(len(limit_indices), 'limit')} and {counted(len(steps), 'stride')} for rank {rank}"
            )
        bounds = tuple(SliceDimension(*bound) for bound in zip(start_indices, limit_indices, steps))
        return self.op("slice", operand, slice=bounds)

    def DynamicSlice(self, operand: Instruction, start_indices: Values, slice_sizes: Sequence[int]) -> Instruction:
        """A block of constant sizes that starts at indices computed at run time, moved so that it fits.

        >>> b.DynamicSlice(b.Constant([0, 1, 2, 3, 4]), [b.Constant(2, "s32")], (2,))
        f32[2] [2.0, 3.0]
        """
        return self.op("dynamic-slice", operand, *self._several(start_indices), dynamic_slice_sizes=tuple(slice_sizes))

    def DynamicUpdateSlice(self, operand: Instruction, update: Instruction, start_indices: Values) -> Instruction:
        """The operand with a block overwritten, its start moved so that the block fits.

        >>> b.DynamicUpdateSlice(b.Constant([0, 1, 2, 3, 4]), b.Constant([5, 6]), [b.Constant(2, "s32")])
        f32[5] [0.0, 1.0, 5.0, 6.0, 4.0]
        """
        return self.op("dynamic-update-slice", operand, update, *self._several(start_indices))

    def ConcatInDim(self, operands: Sequence[Instruction], dimension: int) -> Instruction:
        """The operands one after another along one dimension.

        >>> b.ConcatInDim([b.Constant([2, 3]), b.Constant([4, 5]), b.Constant([6, 7])], 0)
        f32[6] [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
        """
        return self.concatenate(*operands, dimension=dimension)

    def Concatenate(self, operands: Sequence[Instruction], dimension: int) -> Instruction:
        """The same as ConcatInDim.

        >>> b.Concatenate([b.Constant([[1, 2], [3, 4], [5, 6]]), b.Constant([[7, 8]])], 0)
        f32[4,2] [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]
        """
        return self.concatenate(*operands, dimension=dimension)

    def Pad(
        self,
        operand: Instruction,
        padding_value: Instruction,
        padding_config: Sequence[PaddingDimension | tuple[int, int, int]],
    ) -> Instruction:
        """Copies of a scalar between the elements, then at the edges; (low, high, interior) for each dimension,
        negative edges cut.

        >>> b.Pad(b.Constant([[1, 2], [3, 4]]), b.Constant(0), [(0, 1, 0), (1, -1, 1)])
        f32[3,3] [[0.0, 1.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]]
        """
        padding = tuple(p if isinstance(p, PaddingDimension) else PaddingDimension(*p) for p in padding_config)
        return self.op("pad", operand, padding_value, padding=padding)

    def Gather(
        self,
        operand: Instruction,
        start_indices: Instruction,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: Sequence[int],
        indices_are_sorted: bool = False,
    ) -> Instruction:
        """Slices that start where index vectors say, moved so that they fit.

        >>> rows = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1)
        >>> b.Gather(b.Constant([[1, 2], [3, 4], [5, 6]]), b.Constant([2, 0], "s32"), rows, (1, 2))
        f32[2,2] [[5.0, 6.0], [1.0, 2.0]]
        """  # noqa: E501
        attrs: dict[str, Any] = {"slice_sizes": tuple(slice_sizes), "indices_are_sorted": indices_are_sorted}
        return self.op("gather", operand, start_indices, gather_dimension_numbers=dimension_numbers, **attrs)

    def Scatter(
        self,
        operands: Values,
        scatter_indices: Instruction,
        updates: Values,
        update_computation: Computation,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Instruction:
        """Arrays with updates combined in where index vectors say; windows that do not fit are dropped.

        >>> rows = ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
        ...                                index_vector_dim=1)
        >>> b.Scatter(b.Constant([1, 2, 3]), b.Constant([2, 0, 9, 2], "s32"), b.Constant([10, 20, 30, 40]), add, rows)
        f32[3] [21.0, 2.0, 53.0]
        """  # noqa: E501
        return self.op(
            "scatter",
            *self._several(operands),
            scatter_indices,
            *self._several(updates),
            called=[update_computation],
            scatter_dimension_numbers=dimension_numbers,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
        )

    def GetDimensionSize(self, operand: Instruction, dimension: int) -> Instruction:
        """The actual size of a dimension, as s32.

        >>> b.GetDimensionSize(b.Constant([[1, 2, 3], [4, 5, 6]]), 1)
        s32[] 3
        """
        return self.op("get-dimension-size", operand, dimensions=(dimension,))

    def SetDimensionSize(self, operand: Instruction, val: Instruction, dimension: int) -> Instruction:
        """The operand, of which only `val` elements along a dimension count; all of them if that is a constant and the
        bound.

        >>> b.SetDimensionSize(b.Constant([1, 2, 3]), b.Constant(2, "s32"), 0).shape
        f32[<=3]
        """
        shape = self._array("set-dimension-size", operand)
        whole = (
            val.opcode == "constant"
            and 0 <= dimension < shape.rank
            and val.attrs["literal"].values() == [shape.dimensions[dimension]]
        )
        if not whole:
            return self.op("set-dimension-size", operand, val, dimensions=(dimension,))
        static = bounded(
            shape.element_type, shape.dimensions, [flag and d != dimension for d, flag in enumerate(flags(shape))]
        )
        return self.op("set-dimension-size", operand, val, shape=static, dimensions=(dimension,))

    def DynamicReshape(
        self,
        operand: Instruction,
        dim_sizes: Sequence[Instruction],
        new_size_bounds: Sequence[int],
        dims_are_dynamic: Sequence[bool],
    ) -> Instruction:
        """A reshape to sizes computed at run time, within bounds.

        >>> b.DynamicReshape(b.Constant([1, 2, 3, 4]), [b.Constant(2, "s32"), b.Constant(2, "s32")], (2, 2), (False, True)).shape
        f32[2,<=2]
        """  # noqa: E501
        shape = self._array("dynamic-reshape", operand)
        if not len(dim_sizes) == len(new_size_bounds) == len(dims_are_dynamic):
            counts = (
                f"{counted(len(dim_sizes), 'size')}, {counted(len(new_size_bounds), 'bound')} and "
                f"{counted(len(dims_are_dynamic), 'flag')}"
            )
            raise VerifyError(f"dynamic-reshape: {counts}: there must be equally many")
        target = bounded(shape.element_type, new_size_bounds, dims_are_dynamic)
        return self.op("dynamic-reshape", operand, *dim_sizes, shape=target)
