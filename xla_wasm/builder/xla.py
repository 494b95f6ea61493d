"""`XlaBuilder`: the operations of XLA's builder interface by their own names."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..errors import VerifyError, counted
from ..hlo import attrs
from ..hlo.infer import brief, dilated, flags, joined
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from .computation import Builder, groups, scalar_computation
from .derived import Elements, Given, Groups, Ints, Padding, Value, add_operations, values_of

_PARAMETERS = """
operands init_values inputs inits: Values; shape: Shape; shape_with_layout: Shape | None = None; padding: Padding;
computation select scatter to_apply true_computation false_computation: Computation; layout: Layout | None = None;
dimension split_dimension concat_dimension split_count shard_count: int; channel_id: int | None = None; lower: bool;
dimensions slice_sizes window_dimensions: Ints; broadcast_dimensions: Ints = (); window_strides: Ints | None;
lhs_dilation rhs_dilation: Ints | None = None; window_reversal: Sequence[bool] | None = None;
feature_group_count batch_group_count: int = 1; dimension_numbers: ConvolutionDimensionNumbers | None = None;
precision_config: Precision = None; preferred_element_type: str | None = None; replica_groups: Groups = ();
result_accuracy: ResultAccuracy | None = None; indices_are_sorted use_global_device_ids: bool = False
"""
"""The types and defaults of parameters where a row of the next table has only their names."""

_DERIVED = """
Abs Ceil Clz=count-leading-zeros Floor Imag IsFinite Neg=negate Not PopulationCount=popcnt Real(operand)
Round=round-nearest-afz RoundNearestAfz RoundNearestEven Sign(operand)
Cbrt Cos=cosine Cosh Erf Exp=exponential Expm1=exponential-minus-one(operand, result_accuracy)
Log Log1p=log-plus-one Logistic Rsqrt Sin=sine Sqrt Tan Tanh(operand, result_accuracy)
Add And Atan2 Complex Div=divide Max=maximum Min=minimum Mul=multiply(lhs, rhs, broadcast_dimensions) @_matched
Or Pow=power Rem=remainder ShiftLeft ShiftRightArithmetic ShiftRightLogical(lhs, rhs, broadcast_dimensions) @_matched
Sub=subtract Xor(lhs, rhs, broadcast_dimensions) @_matched
Iota(shape, iota_dimension: int)
Clamp(min, operand, max)
Select(pred, on_true, on_false)
ConvertElementType=convert BitcastConvertType=bitcast-convert(operand, new_element_type: str)
ReducePrecision(operand, exponent_bits: int, mantissa_bits: int)
Transpose(operand, permutation: Ints)
    The dimensions permuted: dimension i of the result is dimension `permutation[i]` of the operand.
_to_shape=reshape(shape, operand)
Rev=reverse(operand, dimensions)
Slice(operand, start_indices: Ints, limit_indices: Ints, strides: Ints | None = None) @_slice
DynamicSlice(operand, start_indices: Values, slice_sizes)
DynamicUpdateSlice(operand, update, start_indices: Values)
ConcatInDim=concatenate Concatenate(operands, dimension)
Pad(operand, padding_value, padding_config: Sequence[PaddingDimension | tuple[int, int, int]])
    Copies of a scalar between the elements, then at the edges; (low, high, interior) for each dimension,
    negative edges cut.
Gather(operand, start_indices, dimension_numbers: GatherDimensionNumbers, slice_sizes, indices_are_sorted)
Scatter(operands, scatter_indices, updates: Values, update_computation: Computation,
        dimension_numbers: ScatterDimensionNumbers, indices_are_sorted, unique_indices: bool = False)
GetDimensionSize(operand, dimension)
SetDimensionSize(operand, val, dimension) @_set_dimension_size
    The operand, of which only `val` elements along a dimension count; all of them if that is a constant and the bound.
DynamicReshape(operand, dim_sizes: Values, new_size_bounds: Ints, dims_are_dynamic: Sequence[bool]) @_dynamic_reshape
Reduce(operands, init_values, computation, dimensions_to_reduce: Ints | None = None) @_reduce
    The elements along some dimensions (all, if not given) combined; `computation` takes accumulators, then elements.
ReduceWindow(operands, init_values, computation, window_dimensions, window_strides: Ints | None = None,
        padding: Padding = "VALID", base_dilations: Ints | None = None, window_dilations: Ints | None = None) @_windowed
SelectAndScatter(operand, select, window_dimensions, window_strides, padding, source, init_value, scatter) @_windowed
Map(operands, computation, dimensions)
Scan(inputs, inits, to_apply, scan_dimension: int, is_reverse: bool = False, is_associative: bool | None = None) @_scan
    `to_apply(elements..., carries...) -> (outputs..., carries...)` along a dimension: the stacked outputs, the
    last carries.
Sort(operands, comparator: Computation, dimension: int = -1, is_stable: bool = False) @_sort
    The operands reordered alike along one dimension; `comparator` takes the left and the right value of each in turn.
TopK=topk(operand, k: int, largest: bool = True)
Dot(lhs, rhs, precision_config, preferred_element_type) @_dot
    Sums of products over the last dimension of the left and the first of the right operand, vectors or matrices.
DotGeneral=dot(lhs, rhs, dimension_numbers: DotDimensionNumbers, precision_config, preferred_element_type)
    Sums of products over the contracting dimensions: batch dimensions, then free ones of the left, then of the right.
ScaledDot(lhs, lhs_scale, rhs, rhs_scale, dimension_number: DotDimensionNumbers, precision_config,
        preferred_element_type) lhs rhs lhs_scale rhs_scale
    A dot of operands in blocks, each of which has a scale.
Conv=convolution ConvWithGeneralPadding=convolution(lhs, rhs, window_strides, padding, feature_group_count,
        batch_group_count, precision_config, preferred_element_type) @_convolution
    Sums of products of a kernel with the input under it, at every place of the kernel, which is not flipped. The input
    is (batch, feature, spatial...), the kernel (output feature, input feature, spatial...), the output as the input.
    Negative padding cuts the input.
ConvWithGeneralDimensions=convolution(lhs, rhs, window_strides, padding, dimension_numbers: ConvolutionDimensionNumbers,
        feature_group_count, batch_group_count, precision_config, preferred_element_type) @_convolution
    As Conv, with dimensions in any order.
ConvGeneral=convolution(lhs, rhs, window_strides, padding, dimension_numbers, feature_group_count, batch_group_count,
        precision_config, preferred_element_type) @_convolution
    As Conv, with dimensions in any order and padding in pairs.
ConvGeneralDilated=convolution(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
        feature_group_count, batch_group_count, precision_config, preferred_element_type, window_reversal) @_convolution
    As ConvGeneral, with holes in the input (a transposed convolution) or in the kernel, and kernels flipped.
Cholesky(a, lower)
TriangularSolve(a, b, left_side: bool, lower, unit_diagonal: bool, transpose_a: str = "NO_TRANSPOSE") @_triangular_solve
    The x for which op(a) x = b (or x op(a) = b); op is NO_TRANSPOSE, TRANSPOSE or ADJOINT.
Fft(operand, fft_type: str, fft_length: Ints)
BatchNormTraining(operand, scale, offset, epsilon: float, feature_index: int)
    (output, batch_mean, batch_var): each feature normalised, scaled and shifted; the variance is the biased one.
BatchNormInference(operand, scale, offset, mean, variance, epsilon: float, feature_index: int)
BatchNormGrad(operand, scale, batch_mean, batch_var, grad_output, epsilon: float, feature_index: int)
    (grad_operand, grad_scale, grad_offset): the gradients of BatchNormTraining.
Tuple(elements: Values)
GetTupleElement(tuple_data, index: int)
Call(computation, operands)
CompositeCall=call(computation, operands, name: str, attributes: str = "{}", version: int = 0) @_composite
    A call that says which operation the computation stands for: its name, attributes (as MLIR writes them) and version.
While(condition: Computation, body: Computation, init)
_branch=conditional(branch_index, branch_computations: Sequence[Computation], branch_operands: Values)
_either=conditional(predicate, true_operand, true_computation, false_operand, false_computation) @_on_predicate
OptimizationBarrier=opt-barrier(operand)
RngUniform=rng(a, b, shape) distribution=rng_uniform
    Random numbers from [a, b), scalars of the shape's type; their values are not promised.
RngNormal=rng(mu, sigma, shape) distribution=rng_normal
    Normally distributed random numbers with a mean and a deviation; their values are not promised.
RngBitGenerator(algorithm: str, initial_state, shape) @_rng_bit_generator
    (new state, bits of that shape); the algorithm is RNG_DEFAULT, RNG_THREE_FRY or RNG_PHILOX.
AfterAll(tokens: Values)
ReplicaId()
PartitionID(shape: Shape | None = None)
AllReduce(operand: Elements, computation, replica_groups, channel_id, shape_with_layout, use_global_device_ids) @_layout
AllGather(operand: Elements, all_gather_dimension: int, shard_count, replica_groups, channel_id, layout,
        use_global_device_ids) @_sharded
ReduceScatter(operand: Elements, computation, scatter_dimension: int, shard_count, replica_groups, channel_id,
        layout, use_global_device_ids) @_sharded
AllToAll(operand, split_dimension, concat_dimension, split_count, replica_groups, layout, channel_id) @_all_to_all
    Block j of `split_count` along one dimension goes to device j; what arrives is put together along another. HLO's
    operation splits and joins along the same dimension; a reshape and a transpose move the blocks if they differ.
RaggedAllToAll(input, input_offsets, send_sizes, output, output_offsets, recv_sizes, replica_groups,
        channel_id) input output input_offsets send_sizes output_offsets recv_sizes
    Rows of `input` sent to the devices of the group, into their `output`, by offsets and counts.
CollectiveBroadcast(operand: Elements, replica_groups: Groups, channel_id)
CollectivePermute(operand: Elements, source_target_pairs: Sequence[tuple[int, int]], channel_id,
        inplace: bool = False) @_collective_permute
    The operand of the device that is paired with this one as source; zeros if there is none. `inplace`: the operands
    are an input, the buffer that becomes the result, and where blocks start in either.
"""

_COMPARISONS = "".join(
    f"""
{way.title()}{order}=compare(lhs, rhs, broadcast_dimensions) direction={way} type={order.upper()} @_compare
    True where lhs {sign} rhs{", in the order -NaN < -Inf < ... < -0 < +0 < ... < Inf < NaN" if order else ""}."""
    for way, sign in zip("EQ NE GE GT LE LT".split(), "== != >= > <= <".split())
    for order in ("", "TotalOrder")
)


class XlaBuilder(Builder):
    """Makes a computation with the operations of XLA's builder interface, `Abs` to `Xor`.

    Every call infers the shape of its result. Binary operations broadcast a scalar, dimensions of size 1, and an
    operand of lower rank whose `broadcast_dimensions` are given, by further instructions. An error is raised by the
    call that caused it and begins with the file and line of that call. docs/builder.md has examples.
    """

    Parameter, Constant, Build = Builder.parameter, Builder.constant, Builder.build

    def op(self, opcode: str, *operands: Value, **rest: Any) -> Value:
        """As `Builder.op`, for values of this builder only."""
        self._check(opcode, operands)
        return super().op(opcode, *operands, **rest)

    def Broadcast(self, operand: Value, broadcast_sizes: Ints) -> Value:
        """The operand repeated along new dimensions on the left: out[i..., j...] = operand[j...]."""
        sizes = (*broadcast_sizes, *self._array("broadcast", operand).dimensions)
        return self._stretched(operand, sizes, range(len(broadcast_sizes), len(sizes)))

    def BroadcastInDim(self, operand: Value, out_dim_size: Ints, broadcast_dimensions: Ints) -> Value:
        """The operand repeated: dimension i becomes `broadcast_dimensions[i]` of the result, a size of 1 growing."""
        shape, sizes, dims = self._array("broadcast", operand), (*out_dim_size,), (*broadcast_dimensions,)
        if len(dims) != shape.rank:
            raise VerifyError(f"broadcast: {len(dims)} broadcast_dimensions for the dimensions of {brief(shape)}")
        if any(not 0 <= d < len(sizes) or size not in (1, sizes[d]) for size, d in zip(shape.dimensions, dims)):
            raise VerifyError(f"broadcast: {brief(shape)} cannot become {sizes} by dimensions {dims}")
        return self._stretched(operand, sizes, dims)

    def Collapse(self, operand: Value, dimensions: Ints) -> Value:
        """A run of dimensions replaced by one of their product."""
        shape, dims = self._array("collapse", operand), tuple(dimensions)
        if dims and (dims != tuple(range(dims[0], dims[0] + len(dims))) or dims[0] < 0 or dims[-1] >= shape.rank):
            raise VerifyError(f"collapse: {dims} are not consecutive dimensions of {brief(shape)}")
        if len(dims) <= 1:
            return operand
        sizes = shape.dimensions
        return self.reshape(operand, (*sizes[: dims[0]], prod(sizes[dims[0] : dims[-1] + 1]), *sizes[dims[-1] + 1 :]))

    def Reshape(self, *arguments: Any, **keywords: Any) -> Value:
        """`Reshape(operand, dimensions)` or `Reshape(shape, operand)`: the elements in order under other sizes."""
        to_shape = "shape" in keywords or isinstance(next(iter(arguments), None), Shape)
        return (self._to_shape if to_shape else self._to_sizes)(*arguments, **keywords)

    def _to_sizes(self, operand: Value, dimensions: Ints) -> Value:
        return self._to_shape(Shape(self._array("reshape", operand).element_type, tuple(dimensions)), operand)

    def Conditional(self, *arguments: Any, **keywords: Any) -> Value:
        """`Conditional(branch_index, branch_computations, branch_operands)`: the result of one branch, the last if the
        index is none; or `Conditional(predicate, true_operand, true_computation, false_operand, false_computation)`."""
        return (self._either if len(arguments) + len(keywords) > 3 else self._branch)(*arguments, **keywords)

    def Infeed(self, shape: Shape, config: str | bytes = b"") -> Value:
        """The next item that the host feeds in."""
        whole = Shape.tuple([shape, Shape("token")])
        return self.get_tuple_element(self.op("infeed", self.after_all(), shape=whole, infeed_config=config), 0)

    def Outfeed(self, operand: Value, shape_with_layout: Shape, outfeed_config: str | bytes = b"") -> Value:
        """Hands the operand to the host, in the layout of a shape; a token."""
        return self.outfeed(operand, self.after_all(), outfeed_shape=shape_with_layout, outfeed_config=outfeed_config)

    def Send(self, operand: Value, handle: int) -> Value:
        """Sends the operand over the channel of that number; a token."""
        return self.send_done(self.send(operand, self.after_all(), channel_id=handle), channel_id=handle)

    def Recv(self, shape: Shape, handle: int) -> Value:
        """Returns an array of this shape, received over the channel of that number."""
        whole = Shape.tuple([shape, Shape("u32"), Shape("token")])
        received = self.recv_done(self.recv(self.after_all(), shape=whole, channel_id=handle), channel_id=handle)
        return self.get_tuple_element(received, 0)

    def CrossReplicaSum(self, operand: Elements, replica_groups: Groups = ()) -> Value:
        """The operands of all replicas in a group added up."""
        elements = values_of(self, operand)
        if len({self._array("all-reduce", x).element_type for x in elements}) != 1:
            raise VerifyError("all-reduce: the operands of a sum must be of one type")
        return self.AllReduce(elements, scalar_computation("add", elements[0].shape.element_type), replica_groups)

    # --- what rows of the table need besides ---

    def _compare(self, opcode: str, given: Given) -> None:
        if TYPES[self._array(opcode, given["lhs"][0]).element_type].kind != "float":
            given["type"] = ""  # other numbers have one order only
        self._matched(opcode, given)

    def _slice(self, opcode: str, given: Given) -> None:
        starts, limits, strides = (given.pop(name) for name in ("start_indices", "limit_indices", "strides"))
        rank, strides = self._array(opcode, given["operand"][0]).rank, strides or (1,) * len(starts)
        if not rank == len(starts) == len(limits) == len(strides):
            counts = f"{counted(len(starts), 'start')}, {counted(len(limits), 'limit')}"
            raise VerifyError(f"slice: {counts} and {counted(len(strides), 'stride')} for rank {rank}")
        given["slice"] = zip(starts, limits, strides)

    def _set_dimension_size(self, opcode: str, given: Given) -> None:
        shape, dimension, (size,) = self._array(opcode, given["operand"][0]), given["dimension"], given["val"]
        self._array(opcode, size)
        if 0 <= dimension < shape.rank and size.number == shape.dimensions[dimension]:
            dynamic = [flag and d != dimension for d, flag in enumerate(flags(shape))]
            given["shape"] = bounded(shape.element_type, shape.dimensions, dynamic)

    def _dynamic_reshape(self, opcode: str, given: Given) -> None:
        bounds, dynamic = given.pop("new_size_bounds"), given.pop("dims_are_dynamic")
        if len(bounds) != len(dynamic):
            raise VerifyError(f"{opcode}: {counted(len(bounds), 'bound')}, but {counted(len(dynamic), 'flag')}")
        given["shape"] = bounded(self._array(opcode, given["operand"][0]).element_type, bounds, dynamic)

    def _reduce(self, opcode: str, given: Given) -> None:
        if given["dimensions_to_reduce"] is None and given["operands"]:
            given["dimensions_to_reduce"] = range(self._array(opcode, given["operands"][0]).rank)

    def _sort(self, opcode: str, given: Given) -> None:
        if given["operands"] and given["dimension"] < 0:
            given["dimension"] += self._array(opcode, given["operands"][0]).rank

    def _scan(self, opcode: str, given: Given) -> None:
        given["num_carries"] = len(given["inits"])

    def _windowed(self, opcode: str, given: Given) -> None:
        arrays = given["operands" if opcode == "reduce-window" else "operand"]
        base = self._array(opcode, arrays[0]).dimensions if arrays else ()
        names = ("padding", "window_dimensions", "window_strides", "base_dilations", "window_dilations")
        given["window"] = window(opcode, base, *(given.pop(name, None) for name in names))

    def _dot(self, opcode: str, given: Given) -> None:
        x, y = (self._array(opcode, given[side][0]) for side in ("lhs", "rhs"))
        if not x.rank or not y.rank:
            pair = f"{brief(x)} and {brief(y)}"
            raise VerifyError(f"dot: {pair}: the operands must have dimensions; Mul multiplies by a scalar")
        given["dot_dimension_numbers"] = attrs.DotDimensionNumbers((x.rank - 1,), (0,))

    def _convolution(self, opcode: str, given: Given) -> None:
        x, kernel = (self._array(opcode, given[side][0]) for side in ("lhs", "rhs"))
        rest = tuple(range(2, x.rank))
        default = attrs.ConvolutionDimensionNumbers(0, 1, rest, 1, 0, rest, 0, 1, rest)
        numbers = given["dim_labels"] = given.pop("dimension_numbers", None) or default
        places, taps = numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions
        inside = all(0 <= d < x.rank for d in places) and all(0 <= d < kernel.rank for d in taps)
        if not inside or len(places) != len(taps):
            pair = f"{brief(x)} and {brief(kernel)}"
            raise VerifyError(f"convolution: the spatial dimensions {places} and {taps} do not fit {pair}")
        base, sizes = [x.dimensions[d] for d in places], [kernel.dimensions[d] for d in taps]
        names = ("window_strides", "lhs_dilation", "rhs_dilation", "window_reversal")
        given["window"] = window(opcode, base, given.pop("padding"), sizes, *(given.pop(name, None) for name in names))

    def _triangular_solve(self, opcode: str, given: Given) -> None:
        names = ("left_side", "lower", "unit_diagonal", "transpose_a")
        given["triangular_solve_options"] = attrs.TriangularSolveOptions(*(given.pop(name) for name in names))

    def _composite(self, opcode: str, given: Given) -> Value:
        call = self.op(opcode, *given.pop("operands"), called=[given.pop("computation")], is_composite=True)
        call.frontend_attributes |= {f"composite.{name}": str(value) for name, value in given.items()}
        return call

    def _on_predicate(self, opcode: str, given: Given) -> None:
        if (shape := self._array(opcode, given["predicate"][0])).without_layout() != Shape("pred"):
            raise VerifyError(f"conditional: the predicate must be pred[], not {brief(shape)}")

    def _rng_bit_generator(self, opcode: str, given: Given) -> None:
        given["shape"] = Shape.tuple([self._array(opcode, given["initial_state"][0]).without_layout(), given["shape"]])

    def _layout(self, opcode: str, given: Given) -> None:
        given["shape"] = given.pop("shape_with_layout")
        given["constrain_layout"] = given["shape"] is not None

    def _sharded(self, opcode: str, given: Given) -> None:
        dim = given["all_gather_dimension" if opcode == "all-gather" else "scatter_dimension"]
        count, layout = given.pop("shard_count"), given.pop("layout")
        shapes = [self._scaled(opcode, x, dim, count, given["replica_groups"]) for x in given["operand"]]
        given |= {"shape": joined([s.with_layout(layout) for s in shapes]), "constrain_layout": layout is not None}

    def _scaled(self, opcode: str, x: Value, dim: int, count: int, replica_groups: Groups) -> Shape:
        """The shape of an operand with a dimension `count` times as large, if all-gather's, or that much smaller."""
        shape = self._array(opcode, x)
        if count < 1:
            raise VerifyError(f"{opcode}: the number of shards must be positive, not {count}")
        for group in groups(replica_groups).expanded():
            if len(group) != count:
                raise VerifyError(f"{opcode}: a group of {counted(len(group), 'device')} for {counted(count, 'shard')}")
        if not 0 <= dim < shape.rank:
            raise VerifyError(f"{opcode}: {brief(shape)} has no dimension {dim}")
        sizes = list(shape.dimensions)
        if opcode != "all-gather" and sizes[dim] % count:
            raise VerifyError(f"{opcode}: dimension {dim} of {brief(shape)} cannot be split into {count}")
        sizes[dim] = sizes[dim] * count if opcode == "all-gather" else sizes[dim] // count
        return Shape(shape.element_type, tuple(sizes))

    def _all_to_all(self, opcode: str, given: Given) -> Value:
        split, concat, count = (given.pop(name) for name in ("split_dimension", "concat_dimension", "split_count"))
        (x,), layout = given.pop("operand"), given.pop("layout")
        sizes = list(self._scaled(opcode, x, split, count, given["replica_groups"]).dimensions)
        if not 0 <= concat < len(sizes):
            raise VerifyError(f"all-to-all: {brief(x.shape)} has no dimension {concat}")
        given |= {"shape": x.shape.with_layout(layout), "constrain_layout": layout is not None}
        moved = self.op(opcode, x, dimensions=split, **given)
        if split == concat:
            return moved
        blocks = self.reshape(moved, (*sizes[:split], count, *sizes[split:]))
        order = [d + (d >= split) for d in range(len(sizes))]
        order.insert(concat, split)
        sizes[concat] *= count
        return self.reshape(self.transpose(blocks, order), sizes)

    def _collective_permute(self, opcode: str, given: Given) -> None:
        operands = given["operand"]
        if (inplace := given.pop("inplace")) and len(operands) != 4:
            count = counted(len(operands), "operand")
            raise VerifyError(f"{opcode}: in place it takes input, output and two start indices, not {count}")
        given["shape"] = joined([x.shape.without_layout() for x in (operands[1:2] if inplace else operands)])

    def _array(self, what: str, x: Value) -> Shape:
        """The shape of an operand, which must be an array of the builder."""
        self._check(what, [x])
        if not x.shape.is_array:
            raise VerifyError(f"{what}: operand '{x.name}' must be an array, not {brief(x.shape)}")
        return x.shape

    def _matched(self, opcode: str, given: Given) -> None:
        """Broadcasts both operands to one shape: a scalar to any, a dimension of size 1 to any size, a lower rank by
        the dimensions of the higher one that its own become."""
        shapes = [self._array(opcode, given[side][0]) for side in ("lhs", "rhs")]
        small, large = sorted(shapes, key=lambda shape: shape.rank)
        asked, whole = (*given.pop("broadcast_dimensions"),), (*range(large.rank),)
        both = " and ".join(map(brief, shapes))
        dims = asked if small.rank < large.rank else whole
        if asked and asked != dims:
            raise VerifyError(f"{opcode}: broadcast_dimensions {asked} of operands of equal rank: {both}")
        if len(dims) != small.rank:
            needs = f"needs broadcast_dimensions, one for each dimension of {brief(small)}"
            raise VerifyError(f"{opcode}: {both} differ in rank, which {f'cannot use {asked}' if asked else needs}")
        if any(not 0 <= d < large.rank for d in dims) or any(p >= q for p, q in zip(dims, dims[1:])):
            raise VerifyError(f"{opcode}: broadcast_dimensions {asked} are not increasing dimensions of {brief(large)}")
        sizes = list(large.dimensions)
        for d, size in zip(dims, small.dimensions):
            if size != sizes[d] and 1 not in (size, sizes[d]):
                raise VerifyError(f"{opcode}: the operands' sizes differ: {both} in dimension {d} of the result")
            sizes[d] = size if sizes[d] == 1 else sizes[d]
        for side, shape in zip(("lhs", "rhs"), shapes):
            given[side] = [self._stretched(given[side][0], sizes, whole if shape.rank == large.rank else dims)]

    def _stretched(self, x: Value, sizes: Ints, dims: Ints) -> Value:
        """`x` broadcast to `sizes`, its dimension i becoming `dims[i]`; a dimension of size 1 there grows."""
        shape, dynamic = x.shape, flags(x.shape)
        if shape.dimensions == (*sizes,) and [*dims] == [*range(len(sizes))]:
            return x
        kept = [i for i, d in enumerate(dims) if shape.dimensions[i] == sizes[d]]
        if len(kept) < shape.rank:
            part = bounded(shape.element_type, [shape.dimensions[i] for i in kept], [dynamic[i] for i in kept])
            x = self.op("reshape", x, shape=part)
        there = {dims[i]: dynamic[i] for i in kept}
        target = bounded(shape.element_type, sizes, [there.get(d, False) for d in range(len(sizes))])
        return self.op("broadcast", x, shape=target, dimensions=[dims[i] for i in kept])


def bounded(element_type: str, sizes: Ints, dynamic: Sequence[bool]) -> Shape:
    """An array of these sizes, of which some may be dynamic."""
    return Shape(element_type, (*sizes,), None, (*dynamic,) if any(dynamic) else ())


def window(what: str, base: Ints, padding: Padding, sizes: Ints, *more: Sequence[Any] | None) -> attrs.Window:
    """The window over `base`. `more` are strides, base dilations, window dilations and reversals; what is None or not
    given is 1 (False) everywhere."""
    given = (*more, None, None, None, None)
    parts: list[Sequence[Any]] = [sizes, *(part or (1,) * len(base) for part in given[:3])]
    parts += [given[3] or (False,) * len(base), *([] if isinstance(padding, str) else [padding])]
    for name, part in zip(("window size", "stride", "base dilation", "window dilation", "reversal", "padding"), parts):
        if len(part) != len(base):
            raise VerifyError(f"{what}: {counted(len(part), name)} for {counted(len(base), 'dimension')}")
        if name not in ("reversal", "padding") and any(value < 1 for value in part):
            raise VerifyError(f"{what}: {name}s must be positive, not {(*part,)}")
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise VerifyError(f"{what}: padding must be SAME, VALID or pairs, not {padding!r}")
        extents = [(dilated(n, db), dilated(w, dw), s) for n, w, s, db, dw, _ in zip(base, *parts)]
        # SAME makes as many places as strides fit into the base, VALID adds nothing.
        totals = [max((-(-n // s) - 1) * s + w - n, 0) if padding.upper() == "SAME" else 0 for n, w, s in extents]
        parts.append([(total // 2, total - total // 2) for total in totals])
    made = [attrs.WindowDimension(w, s, low, high, dw, db, bool(f)) for w, s, db, dw, f, (low, high) in zip(*parts)]
    return attrs.Window((*made,))


add_operations(XlaBuilder, _DERIVED + _COMPARISONS, _PARAMETERS)
