"""XlaBuilder's reductions, maps, scans and sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import VerifyError
from ..hlo.attrs import Window
from ..hlo.infer import brief
from ..hlo.ir import Computation, Instruction
from .core import Core, Padding, Values


class Reductions(Core):
    """Operations that combine or order elements by a computation on scalars."""

    def Reduce(
        self,
        operands: Values,
        init_values: Values,
        computation: Computation,
        dimensions_to_reduce: Sequence[int] | None = None,
    ) -> Instruction:
        """The elements along some dimensions (all, if not given) combined; `computation` takes accumulators, then
        elements.

        >>> x = b.Constant([[1, 2, 3], [4, 5, 6]])
        >>> b.Reduce(x, b.Constant(0), add, (0,))
        f32[3] [5.0, 7.0, 9.0]
        >>> b.Reduce(x, b.Constant(0), add, (1,))
        f32[2] [6.0, 15.0]
        >>> b.Reduce(x, b.Constant(0), add)
        f32[] 21.0
        """
        arrays = self._several(operands)
        dims = range(arrays[0].shape.rank if arrays else 0) if dimensions_to_reduce is None else dimensions_to_reduce
        return self.op("reduce", *arrays, *self._several(init_values), called=[computation], dimensions=tuple(dims))

    def ReduceWindow(
        self,
        operands: Values,
        init_values: Values,
        computation: Computation,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int] | None = None,
        padding: Padding = "VALID",
        base_dilations: Sequence[int] | None = None,
        window_dilations: Sequence[int] | None = None,
    ) -> Instruction:
        """A reduction of the elements inside a window, at every place of the window; padding counts as the initial
        value.

        >>> b.ReduceWindow(b.Constant([10000, 1000, 100, 10, 1]), b.Constant(0), add, (3,), (1,), "SAME")
        f32[5] [11000.0, 11100.0, 1110.0, 111.0, 11.0]
        >>> b.ReduceWindow(b.Constant([10000, 1000, 100, 10, 1]), b.Constant(0), add, (3,), (2,))
        f32[2] [11100.0, 111.0]
        """
        arrays = self._several(operands)
        base = self._array("reduce-window", arrays[0]).dimensions if arrays else ()
        dims = self._window(
            "reduce-window", base, window_dimensions, window_strides, padding, base_dilations, window_dilations
        )
        return self.op("reduce-window", *arrays, *self._several(init_values), called=[computation], window=Window(dims))

    def SelectAndScatter(
        self,
        operand: Instruction,
        select: Computation,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int] | None,
        padding: Padding,
        source: Instruction,
        init_value: Instruction,
        scatter: Computation,
    ) -> Instruction:
        """At every place of a window `select` picks an element, and `scatter` adds the source's element there.

        >>> x = b.Constant([[7, 2, 5, 3], [3, 8, 9, 3]])
        >>> b.SelectAndScatter(x, ge, (2, 2), (2, 2), "VALID", b.Constant([[2, 6]]), b.Constant(0), add)
        f32[2,4] [[0.0, 0.0, 0.0, 0.0], [0.0, 2.0, 6.0, 0.0]]
        """
        base = self._array("select-and-scatter", operand).dimensions
        window = Window(self._window("select-and-scatter", base, window_dimensions, window_strides, padding))
        return self.op("select-and-scatter", operand, source, init_value, called=[select, scatter], window=window)

    def Map(self, operands: Values, computation: Computation, dimensions: Sequence[int]) -> Instruction:
        """A computation on scalars applied to the elements of its operands; `dimensions` are all of them, in order.

        >>> b.Map([b.Constant([1, 2, 3]), b.Constant([10, 20, 30])], add, (0,))
        f32[3] [11.0, 22.0, 33.0]
        """
        return self.op("map", *self._several(operands), called=[computation], dimensions=tuple(dimensions))

    def Scan(
        self,
        inputs: Values,
        inits: Values,
        to_apply: Computation,
        scan_dimension: int,
        is_reverse: bool = False,
        is_associative: bool | None = None,
    ) -> Instruction:
        """`to_apply(elements..., carries...) -> (outputs..., carries...)` along a dimension: the stacked outputs, the
        last carries.

        >>> b.Scan(b.Constant([1, 2, 3, 4]), b.Constant(0), running_sum, 0)
        (f32[4] [1.0, 3.0, 6.0, 10.0], f32[] 10.0)
        """
        carries = self._several(inits)
        attrs: dict[str, Any] = {
            "num_carries": len(carries),
            "is_reverse": is_reverse,
            "is_associative": is_associative,
        }
        return self.op(
            "scan", *self._several(inputs), *carries, called=[to_apply], dimensions=(scan_dimension,), **attrs
        )

    def Sort(
        self, operands: Values, comparator: Computation, dimension: int = -1, is_stable: bool = False
    ) -> Instruction:
        """The operands reordered alike along one dimension; `comparator` takes the left and the right value of each in
        turn.

        >>> b.Sort(b.Constant([[3, 1, 2], [9, 8, 7]]), lt)
        f32[2,3] [[1.0, 2.0, 3.0], [7.0, 8.0, 9.0]]
        """
        arrays = self._several(operands)
        rank = self._array("sort", arrays[0]).rank if arrays else 0
        if not -rank <= dimension < rank:
            raise VerifyError(f"sort: {brief(arrays[0].shape) if arrays else 'nothing'} has no dimension {dimension}")
        return self.op("sort", *arrays, called=[comparator], dimensions=(dimension % rank,), is_stable=is_stable)

    def TopK(self, operand: Instruction, k: int, largest: bool = True) -> Instruction:
        """The k largest or smallest elements of the last dimension and their indices, best first; of equal ones the
        first first.

        >>> b.TopK(b.Constant([3, 9, 1, 9]), 3)
        (f32[3] [9.0, 9.0, 3.0], s32[3] [1, 3, 0])
        """
        return self.op("topk", operand, k=k, largest=largest)
