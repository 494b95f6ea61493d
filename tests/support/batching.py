"""Batching of HLO: a computation made into one on many arguments at a time, as `jax.vmap` makes it of a function.

Each operation has a rule that takes a further dimension along: as one more in front where it has no meaning of its own,
as a batch dimension of products, gathers and scatters, among the features or images of a convolution, as masks where
elements of the batch take different branches. What has no rule is written once for each element.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import GatherDimensionNumbers as Gather
from xla_wasm.hlo.attrs import PaddingDimension, SliceDimension, Window, WindowDimension
from xla_wasm.hlo.attrs import ScatterDimensionNumbers as Scatter
from xla_wasm.hlo.ir import Computation, Instruction
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.hlo.verify import record

MOST_UNROLLED = 9
"""Elements of a batch for which an operation without a rule is written out."""
_NUMBERS = count()


class Unavailable(Exception):
    """A transformation does not apply."""


@dataclass(frozen=True)
class Leaf:
    """An array; `mapped` if its first dimension is the batch's."""

    x: Instruction
    mapped: bool


Value = Leaf | list[Any]
"""An array, or a list of what a tuple holds."""
Rule = Callable[["Batching", Instruction, list[Leaf]], Value]


def unique(name: str) -> str:
    """A name for a computation that no other one has."""
    return f"{name}.{next(_NUMBERS)}"


def leaves(value: Value) -> list[Leaf]:
    """All arrays of a value."""
    return [value] if isinstance(value, Leaf) else [leaf for v in value for leaf in leaves(v)]


def like(shape: Shape, rest: list[Leaf]) -> Value:
    """The first ones of `rest`, which are taken out of it, in the structure of a shape."""
    return [like(s, rest) for s in shape.tuple_shapes] if shape.is_tuple else rest.pop(0)


def taken_apart(b: Builder, x: Instruction) -> list[Instruction]:
    """All arrays of an instruction's value."""
    if not x.shape.is_tuple:
        return [x]
    return [leaf for i in range(len(x.shape.tuple_shapes)) for leaf in taken_apart(b, b.get_tuple_element(x, i))]


def put_together(b: Builder, value: Value) -> Instruction:
    """The instruction of a value, with the tuples that it needs."""
    return value.x if isinstance(value, Leaf) else b.op("tuple", *(put_together(b, v) for v in value))


def plain(shape: Shape) -> Shape:
    """The shape in row-major order."""
    return shape.without_layout()


def _up(dims: Sequence[int], at: int = 0) -> tuple[int, ...]:
    """The numbers of dimensions, once there is another one at a place."""
    return tuple(d + (d >= at) for d in dims)


def _into(items: Sequence[Any], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at:])


class Batching:
    """Writes computations for `size` elements at a time into a builder; `choose` decides where there are several
    ways."""

    def __init__(self, b: Builder, size: int, choose: random.Random):
        self.b, self.size, self.choose = b, size, choose

    def inside(self, name: str) -> Batching:
        """The same in a computation of its own."""
        return Batching(Builder(unique(name)), self.size, self.choose)

    def run(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The value of a computation's root for these arguments."""
        values: dict[Instruction, Value] = dict(zip(computation.parameters, arguments, strict=True))
        for x in computation.instructions:
            if x not in values:
                values[x] = self.one(x, [values[o] for o in x.operands])
        return values[computation.root]

    def one(self, x: Instruction, operands: list[Value]) -> Value:
        if x.opcode in STRUCTURE:
            return STRUCTURE[x.opcode](self, x, operands)
        if record(x).effect or any(not leaf.x.shape.is_array for o in operands for leaf in leaves(o)):
            raise Unavailable(f"{x.opcode} has an effect or a token")
        if any(isinstance(o, list) for o in operands):
            raise Unavailable(f"{x.opcode} of a tuple")
        arrays: list[Leaf] = operands  # type: ignore[assignment]
        if not any(o.mapped for o in arrays):
            made = self.copied(x, [o.x for o in arrays])
            return like(x.shape, [Leaf(leaf, False) for leaf in taken_apart(self.b, made)])
        rule = RULES.get(x.opcode) or (elementwise if record(x).elementwise else unrolled)
        return rule(self, x, arrays)

    def copied(self, x: Instruction, operands: Sequence[Instruction], **attrs: Any) -> Instruction:
        """The same operation on operands that have the shapes of its own."""
        return self.made(x, operands, plain(x.shape), **attrs)

    def made(self, x: Instruction, operands: Sequence[Instruction], shape: Shape | None, **attrs: Any) -> Instruction:
        """The operation on these operands; its shape, if not given, is inferred but for the element type."""
        known = {*(attr.name for attr in record(x).attrs), "backend_config"}
        given = {name: v for name, v in x.attrs.items() if name in known} | attrs
        if shape is None and x.shape.is_array:
            inferred = Builder("inferred").op(x.opcode, *operands, called=x.called, **given).shape
            shape = inferred.with_element_type(x.shape.element_type)
        if x.opcode == "constant" and shape is not None:
            shape = x.shape  # its literal has that layout
        return self.b.op(x.opcode, *operands, called=x.called, shape=shape, **given)

    def shape(self, x: Instruction) -> Shape:
        """The shape of the batch of an instruction's result."""
        if x.shape.is_tuple:
            return Shape.tuple([Shape(s.element_type, (self.size, *s.dimensions)) for s in x.shape.tuple_shapes])
        return Shape(x.shape.element_type, (self.size, *x.shape.dimensions))

    def full(self, leaf: Leaf) -> Instruction:
        """The array with the batch's dimension: repeated if it is the same for all."""
        if leaf.mapped:
            return leaf.x
        dims, x = leaf.x.shape.dimensions, leaf.x
        if not x.shape.is_array:
            raise Unavailable("a batch of tokens")
        if x.opcode == "broadcast":  # one broadcast of a scalar stays one, by which passes know formulas
            return self.b.broadcast(x.operands[0], (self.size, *dims), _up(x.attrs["dimensions"]))
        return self.b.broadcast(x, (self.size, *dims), _up(range(len(dims))))

    def mapped(self, x: Instruction, made: Instruction) -> Value:
        """A value that was made with the dimension in front, taken apart."""
        return like(x.shape, [Leaf(leaf, True) for leaf in taken_apart(self.b, made)])

    def index(self, operand: Instruction, limit: int) -> Instruction:
        """One element of the batch."""
        dims = operand.shape.dimensions[1:]
        cut = (SliceDimension(limit, limit + 1), *(SliceDimension(0, d) for d in dims))
        return self.b.reshape(self.b.op("slice", operand, slice=cut), dims)

    def place(self, rank: int) -> int:
        """A place for the batch's dimension among others, of which there may be less than none where an operand has no
        batch: in front, or anywhere."""
        return 0 if self.choose.random() < 0.5 else self.choose.randint(0, max(rank, 0))

    def moved(self, x: Instruction, source: int, target: int) -> Instruction:
        if source == target:
            return x
        order = [d for d in range(x.shape.rank) if d != source]
        order.insert(target, source)
        return self.b.transpose(x, order)

    def merged(self, x: Instruction, dimension: int) -> Instruction:
        """The batch's dimension, in front, put before another one and joined with it."""
        y = self.moved(x, 0, dimension)
        dims = y.shape.dimensions
        return self.b.reshape(y, (*dims[:dimension], dims[dimension] * dims[dimension + 1], *dims[dimension + 2 :]))

    def split(self, x: Instruction, dimension: int) -> Instruction:
        """The reverse of `merged`."""
        dims = x.shape.dimensions
        parted = (*dims[:dimension], self.size, dims[dimension] // self.size, *dims[dimension + 1 :])
        return self.moved(self.b.reshape(x, parted), dimension, 0)


def written_out(computation: Computation) -> Computation:
    """The same computation of arrays without calls."""
    t = Batching(Builder(unique("written")), 1, random.Random(0))
    given = [Leaf(t.b.parameter(k, plain(p.shape)), False) for k, p in enumerate(computation.parameters)]
    return t.b.build(put_together(t.b, t.run(computation, given)))


# --- operations -------------------------------------------------------------------------------------------------------


def elementwise(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    rank = max(o.x.shape.rank - o.mapped for o in operands)
    spread = []
    for o in operands:
        y = t.full(o)
        if y.shape.rank == 1 and rank:  # a scalar for each element
            most = next(p.x.shape.dimensions[p.mapped :] for p in operands if p.x.shape.rank - p.mapped == rank)
            y = t.b.broadcast(y, (t.size, *most), (0,))
        spread.append(y)
    return Leaf(t.made(x, spread, t.shape(x)), True)


def unrolled(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    """The operation for each element of the batch, and all results put together."""
    if t.size > MOST_UNROLLED:
        raise Unavailable(f"{x.opcode} has no rule for batches of {t.size}")
    parts = []
    for k in range(t.size):
        made = t.copied(x, [t.index(o.x, k) if o.mapped else o.x for o in operands])
        parts.append([t.b.reshape(y, (1, *y.shape.dimensions)) for y in taken_apart(t.b, made)])
    return like(x.shape, [Leaf(t.b.concatenate(*column), True) for column in zip(*parts, strict=True)])


def _in_front(**attrs: Callable[[Any], Any]) -> Rule:
    """A rule for operations that have one more dimension in front: all operands are batches, and functions change the
    attributes."""

    def rule(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
        changed = {name: change(x.attrs[name]) for name, change in attrs.items()}
        return t.mapped(x, t.made(x, [t.full(o) for o in operands], t.shape(x), **changed))

    return rule


def _broadcast(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    return Leaf(t.made(x, [operands[0].x], t.shape(x), dimensions=(0, *_up(x.attrs["dimensions"]))), True)


def _reshape(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    return Leaf(t.b.reshape(operands[0].x, (t.size, *x.shape.dimensions)), True)


def _bitcast(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    old = x.operands[0].shape
    if not (old.is_row_major and x.shape.is_row_major and old.element_type == x.shape.element_type):
        raise Unavailable("a bitcast of another order or type")
    return _reshape(t, x, operands)


def _slice(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    return Leaf(t.made(x, [operands[0].x], t.shape(x), slice=(SliceDimension(0, t.size), *x.attrs["slice"])), True)


def _pad(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    operand, value = operands
    padding = (PaddingDimension(), *x.attrs["padding"])
    if not value.mapped:
        return Leaf(t.made(x, [t.full(operand), value.x], t.shape(x), padding=padding), True)
    zero = t.b.constant(0, x.shape.element_type)
    inside = t.made(x, [t.full(operand), zero], t.shape(x), padding=padding)
    ones = t.b.full(True, Shape("pred", t.full(operand).shape.dimensions))
    mask = t.b.op("pad", ones, t.b.constant(False, "pred"), padding=padding)
    return Leaf(t.b.select(mask, inside, t.b.broadcast(value.x, t.shape(x).dimensions, (0,))), True)


def _needing_one_start(rule: Rule, first: Callable[[int], int]) -> Rule:
    """The rule for operations whose initial values, the operands from `first` of their number on, are no batch."""

    def checked(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
        at = first(len(operands))
        if any(o.mapped for o in operands[at:]):
            return unrolled(t, x, operands)
        return rule(t, x, operands)

    return checked


def _among(t: Batching, x: Instruction, given: list[Instruction], at: int, **attrs: Any) -> Value:
    """The operation with the batch's dimension at a place of the results."""
    shapes = [Shape(s.element_type, _into(s.dimensions, at, t.size)) for _, s in x.shape.leaves()]
    made = t.made(x, given, Shape.tuple(shapes) if x.shape.is_tuple else shapes[0], **attrs)
    return like(x.shape, [Leaf(t.moved(y, at, 0), True) for y in taken_apart(t.b, made)])


def _reduce(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    half, dims = len(operands) // 2, x.attrs["dimensions"]
    at = t.place(x.operands[0].shape.rank)
    given = [*(t.moved(t.full(o), 0, at) for o in operands[:half]), *(o.x for o in operands[half:])]
    return _among(t, x, given, at - sum(d < at for d in dims), dimensions=_up(dims, at))


def _windowed(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    first = 2 if x.opcode == "select-and-scatter" else len(operands) // 2
    at = t.place(x.operands[0].shape.rank)
    given = [*(t.moved(t.full(o), 0, at) for o in operands[:first]), *(o.x for o in operands[first:])]
    return _among(t, x, given, at, window=Window(_into(x.attrs["window"].dimensions, at, WindowDimension(1))))


def _sort(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    at = t.place(x.operands[0].shape.rank)
    given = [t.moved(t.full(o), 0, at) for o in operands]
    return _among(t, x, given, at, dimensions=_up(x.attrs["dimensions"], at))


def _map(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    dimensions = tuple(range(x.shape.rank + 1))
    return t.mapped(x, t.made(x, [t.full(o) for o in operands], t.shape(x), dimensions=dimensions))


def _dot(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    a, c = operands
    n = x.attrs["dot_dimension_numbers"]
    if a.mapped != c.mapped and t.choose.random() < 0.3:
        a, c = Leaf(t.full(a), True), Leaf(t.full(c), True)
    left, right = n.lhs_contracting_dimensions, n.rhs_contracting_dimensions
    left_batch, right_batch = n.lhs_batch_dimensions, n.rhs_batch_dimensions
    sides = [a.x, c.x]
    here, there = t.place(a.x.shape.rank - 1), t.place(c.x.shape.rank - 1)
    at = len(left_batch)
    if a.mapped:
        sides[0] = t.moved(a.x, 0, here)
        left, left_batch = _up(left, here), _up(left_batch, here)
    if c.mapped:
        sides[1] = t.moved(c.x, 0, there)
        right, right_batch = _up(right, there), _up(right_batch, there)
    if a.mapped and c.mapped:
        at = t.place(len(left_batch))
        left_batch, right_batch = _into(left_batch, at, here), _into(right_batch, at, there)
    elif a.mapped:
        at += sum(d not in left and d not in left_batch for d in range(here))
    else:
        at += x.operands[0].shape.rank - len(left) - len(left_batch)
        at += sum(d not in right and d not in right_batch for d in range(there))
    numbers = replace(
        n,
        lhs_contracting_dimensions=left,
        rhs_contracting_dimensions=right,
        lhs_batch_dimensions=left_batch,
        rhs_batch_dimensions=right_batch,
    )
    dims = x.shape.dimensions
    shape = Shape(x.shape.element_type, (*dims[:at], t.size, *dims[at:]))
    return Leaf(t.moved(t.made(x, sides, shape, dot_dimension_numbers=numbers), at, 0), True)


def _convolution(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    image, kernel = operands
    n, groups, batches = x.attrs["dim_labels"], x.attrs["feature_group_count"], x.attrs["batch_group_count"]
    alone = t.choose.random() < 0.7
    if image.mapped and not kernel.mapped and batches == 1 and alone:
        made = t.made(x, [t.merged(image.x, n.input_batch_dimension), kernel.x], None)
        return Leaf(t.split(made, n.output_batch_dimension), True)
    if kernel.mapped and not image.mapped and batches == groups == 1 and alone:
        made = t.made(x, [image.x, t.merged(kernel.x, n.kernel_output_feature_dimension)], None)
        return Leaf(t.split(made, n.output_feature_dimension), True)
    place = n.input_feature_dimension if batches == 1 else n.input_batch_dimension
    given = [t.merged(t.full(image), place), t.merged(t.full(kernel), n.kernel_output_feature_dimension)]
    more = {"feature_group_count": groups * t.size} if batches == 1 else {"batch_group_count": batches * t.size}
    return Leaf(t.split(t.made(x, given, None, **more), n.output_feature_dimension), True)


def _norm(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    """Features of each element are features of their own."""
    at = x.attrs["feature_index"]
    given = [t.merged(t.full(o), at if o.x.shape.rank - o.mapped > 1 else 0) for o in operands]
    if x.operands[0].shape.rank == 1:
        raise Unavailable(f"{x.opcode} of one dimension")
    made = taken_apart(t.b, t.made(x, given, None))
    return like(x.shape, [Leaf(t.split(y, at if y.shape.rank > 1 else 0), True) for y in made])


def _among_indices(
    t: Batching, indices: Instruction, vector: int, of_indices: tuple[int, ...], rank: int, windows: tuple[int, ...]
) -> tuple[Instruction, int, tuple[int, ...], int, int]:
    """Puts the batch's dimension, in front, anywhere among those of indices: the indices, their vector's dimension and
    batching dimensions, the place there, and the place in updates or results of `rank` (without it) with these
    windows."""
    at = t.place(indices.shape.rank - 1)
    before = sum(d != vector for d in range(at))  # dimensions of the batch of indices
    batch = [d for d in range(rank) if d not in windows]
    low = batch[before - 1] + 1 if before else 0
    high = batch[before] if before < len(batch) else rank
    return t.moved(indices, 0, at), vector + (vector >= at), _up(of_indices, at), at, t.choose.randint(low, high)


def _gather(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    operand, indices = operands
    n: Gather = x.attrs["gather_dimension_numbers"]
    if operand.mapped and not indices.mapped and t.choose.random() < 0.3:
        indices = Leaf(t.full(indices), True)
    elif indices.mapped and not operand.mapped and t.choose.random() < 0.3:
        operand = Leaf(t.full(operand), True)
    sizes: tuple[int, ...] = x.attrs["slice_sizes"]
    offsets, collapsed, starts, vector = n.offset_dims, n.collapsed_slice_dims, n.start_index_map, n.index_vector_dim
    batching, of_indices = n.operand_batching_dims, n.start_indices_batching_dims
    given, out = [operand.x, indices.x], 0
    if operand.mapped:
        collapsed, starts, batching = _up(collapsed), _up(starts), _up(batching)
    if indices.mapped:
        given[1], vector, of_indices, at, out = _among_indices(t, given[1], vector, of_indices, x.shape.rank, offsets)
        offsets = _up(offsets, out)
        if operand.mapped:
            batching, of_indices, sizes = (0, *batching), (at, *of_indices), (1, *sizes)
    else:
        offsets, sizes = (0, *_up(offsets)), (t.size, *sizes)
    numbers = Gather(offsets, collapsed, starts, vector, batching, of_indices)
    sorted_ = x.attrs["indices_are_sorted"] and not indices.mapped
    more = {"gather_dimension_numbers": numbers, "slice_sizes": sizes, "indices_are_sorted": sorted_}
    return _among(t, x, given, out, **more)


def _scatter(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    count = len(operands) // 2
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    n: Scatter = x.attrs["scatter_dimension_numbers"]
    along = not indices.mapped and t.choose.random() < 0.7
    inserted, places, batching = (
        _up(d) for d in (n.inserted_window_dims, n.scatter_dims_to_operand_dims, n.input_batching_dims)
    )
    windows, of_indices, vector = n.update_window_dims, n.scatter_indices_batching_dims, n.index_vector_dim
    index, out = indices.x, 0
    if along:  # one place for all elements of the batch: they are part of what is written there
        windows = (0, *_up(windows))
    else:
        rank = x.operands[-1].shape.rank
        index, vector, of_indices, at, out = _among_indices(t, t.full(indices), vector, of_indices, rank, windows)
        windows, batching, of_indices = _up(windows, out), (0, *batching), (at, *of_indices)
    numbers = Scatter(windows, inserted, places, vector, batching, of_indices)
    given = [*(t.full(o) for o in arrays), index, *(t.moved(t.full(o), 0, out) for o in updates)]
    more = {"scatter_dimension_numbers": numbers, "indices_are_sorted": along and x.attrs["indices_are_sorted"]}
    return t.mapped(x, t.made(x, given, t.shape(x), **more))


def _starts(t: Batching, starts: Sequence[Leaf]) -> Instruction:
    """The places that elements of the batch start at: [size, rank]."""
    columns = [t.b.reshape(t.full(s), (t.size, 1)) for s in starts]
    return t.b.concatenate(*columns, dimension=1) if len(columns) > 1 else columns[0]


def _scalars(t: Batching, operands: list[Leaf], rank: int) -> list[Leaf]:
    """The starts of a dynamic slice, which older modules have in one vector."""
    if len(operands) == 1 and operands[0].x.shape.rank - operands[0].mapped == 1 and rank:
        vector = operands[0]
        if vector.mapped:
            raise Unavailable("starts in a vector")
        cuts = [t.b.op("slice", vector.x, slice=(SliceDimension(d, d + 1),)) for d in range(rank)]
        return [Leaf(t.b.reshape(cut, ()), False) for cut in cuts]
    return operands


def _zero(t: Batching, like: Sequence[Leaf]) -> Instruction:
    return t.b.constant(0, like[0].x.shape.element_type if like else "s32")


def _dynamic_slice(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    operand, *starts = operands
    sizes = x.attrs["dynamic_slice_sizes"]
    starts = _scalars(t, starts, len(sizes))
    if not any(s.mapped for s in starts):
        given = [operand.x, _zero(t, starts), *(s.x for s in starts)]
        return Leaf(t.b.op("dynamic-slice", *given, dynamic_slice_sizes=(t.size, *sizes)), True)
    rank = len(sizes)
    if operand.mapped:
        numbers = Gather(_up(range(rank)), (), _up(range(rank)), 1, (0,), (0,))
        sizes = (1, *sizes)
    else:
        numbers = Gather(_up(range(rank)), (), tuple(range(rank)), 1)
    given = [operand.x, _starts(t, starts)]
    return Leaf(t.b.op("gather", *given, gather_dimension_numbers=numbers, slice_sizes=sizes), True)


def _dynamic_update_slice(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    array, update, *starts = operands
    dims, window = x.shape.dimensions, x.operands[1].shape.dimensions
    starts = _scalars(t, starts, len(dims))
    given = [t.full(array), t.full(update)]
    if not any(s.mapped for s in starts):
        return Leaf(t.b.op("dynamic-update-slice", *given, _zero(t, starts), *(s.x for s in starts)), True)
    rank = len(dims)
    dtype = starts[0].x.shape.element_type
    limits = [d - w for d, w in zip(dims, window)]
    if max(limits, default=0) >= 1 << (TYPES[dtype].bits - 1):
        raise Unavailable("places beyond the type of the indices")
    row = t.b.constant(limits, dtype)
    places = t.b.clamp(
        t.b.full(0, Shape(dtype, (t.size, rank))), _starts(t, starts), t.b.broadcast(row, (t.size, rank), (1,))
    )
    scalar = Shape(x.shape.element_type)
    inner = Builder(unique("replaced"))
    parameters = [inner.parameter(i, scalar) for i in range(2)]
    reducer = inner.build(inner.op("copy", parameters[1]) if t.choose.random() < 0.2 else parameters[1])
    inserted = tuple(d for d in range(rank) if window[d] == 1 and t.choose.random() < 0.5)
    kept = tuple(d for d in range(rank) if d not in inserted)
    updates = t.b.reshape(given[1], (t.size, *(window[d] for d in kept)))
    numbers = Scatter(_up(range(len(kept))), _up(inserted), _up(range(rank)), 1, (0,), (0,))
    made = t.b.op("scatter", given[0], places, updates, called=[reducer], scatter_dimension_numbers=numbers)
    return Leaf(made, True)


def _dimension_size(t: Batching, x: Instruction, operands: list[Leaf]) -> Value:
    return Leaf(t.b.constant(x.operands[0].shape.dimensions[x.attrs["dimensions"][0]], "s32"), False)


RULES: dict[str, Rule] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "transpose": _in_front(dimensions=lambda d: (0, *_up(d))),
    "reverse": _in_front(dimensions=_up),
    "concatenate": _in_front(dimensions=_up),
    "sort": _sort,
    "topk": _in_front(),
    "copy": _in_front(),
    "cholesky": _in_front(),
    "triangular-solve": _in_front(),
    "fft": _in_front(),
    "slice": _slice,
    "pad": _pad,
    "reduce": _needing_one_start(_reduce, lambda n: n // 2),
    "reduce-window": _needing_one_start(_windowed, lambda n: n // 2),
    "select-and-scatter": _needing_one_start(_windowed, lambda n: 2),
    "map": _map,
    "dot": _dot,
    "convolution": _convolution,
    "batch-norm-training": _norm,
    "batch-norm-inference": _norm,
    "batch-norm-grad": _norm,
    "gather": _gather,
    "scatter": _scatter,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "get-dimension-size": _dimension_size,
}
"""Beside elementwise operations, which have one rule, and those of `STRUCTURE`."""


# --- tuples, calls, branches and loops --------------------------------------------------------------------------------


def _tuple(t: Batching, x: Instruction, operands: list[Value]) -> Value:
    return operands


def _element(t: Batching, x: Instruction, operands: list[Value]) -> Value:
    value = operands[0]
    assert isinstance(value, list)
    element: Value = value[x.attrs["index"]]
    return element


def _identity(t: Batching, x: Instruction, operands: list[Value]) -> Value:
    return operands[0]


def _barrier(t: Batching, x: Instruction, operands: list[Value]) -> Value:
    found = leaves(operands[0])
    return like(x.shape, [Leaf(t.b.op("opt-barrier", leaf.x), leaf.mapped) for leaf in found])


def _call(t: Batching, x: Instruction, operands: list[Value]) -> Value:
    return t.run(x.called[0], operands)


def _parameter(t: Batching, shape: Shape, mapped: bool, number: int) -> Leaf:
    dims = (t.size, *shape.dimensions) if mapped else shape.dimensions
    return Leaf(t.b.parameter(number, Shape(shape.element_type, dims)), mapped)


def _computation(
    t: Batching, name: str, called: Computation, shapes: Sequence[Shape], mapped: Sequence[bool]
) -> tuple[Batching, list[Leaf]]:
    """A computation of its own on arrays, up to the arrays that `called` gives for them."""
    inner = t.inside(name)
    given = [_parameter(inner, s, m, k) for k, (s, m) in enumerate(zip(shapes, mapped, strict=True))]
    values = [like(p.shape, given) for p in called.parameters]
    return inner, leaves(inner.run(called, values))


def _arrays(shapes: Sequence[Shape]) -> list[Shape]:
    return [leaf for s in shapes for _, leaf in s.leaves()]


def _conditional(t: Batching, x: Instruction, operands: list[Value]) -> Value:
    which, *given = operands
    assert isinstance(which, Leaf)
    if which.mapped:
        branches = [leaves(t.run(c, [v])) for c, v in zip(x.called, given)]
        results = branches[-1]
        for k in range(len(branches))[-2::-1]:
            test = which.x
            if which.x.shape.element_type != "pred":
                test = t.b.compare(test, t.b.full(k, which.x.shape), "EQ")
            results = [
                Leaf(
                    t.b.select(t.b.broadcast(test, t.full(a).shape.dimensions, (0,)), t.full(a), t.full(c)),
                    True,
                )
                for a, c in zip(branches[k], results)
            ]
        return like(x.shape, results)
    tried = [
        _computation(t, "tried", c, _arrays([p.shape for p in c.parameters]), [a.mapped for a in leaves(v)])[1]
        for c, v in zip(x.called, given)
    ]
    mapped = [any(leaf.mapped for leaf in column) for column in zip(*tried)]
    called = []
    for c, v in zip(x.called, given):
        inner = t.inside("branch")
        state = inner.b.parameter(0, Shape.tuple([plain(leaf.x.shape) for leaf in leaves(v)]))
        parts = [Leaf(y, a.mapped) for y, a in zip(taken_apart(inner.b, state), leaves(v))]
        results = leaves(inner.run(c, [like(p.shape, parts) for p in c.parameters]))
        root = inner.b.op("tuple", *(inner.full(r) if m else r.x for r, m in zip(results, mapped)))
        called.append(inner.b.build(root))
    arguments = [t.b.op("tuple", *(leaf.x for leaf in leaves(v))) for v in given]
    made = t.b.op("conditional", which.x, *arguments, called=called)
    return like(x.shape, [Leaf(y, m) for y, m in zip(taken_apart(t.b, made), mapped)])


def _while(t: Batching, x: Instruction, operands: list[Value]) -> Value:
    body, condition = x.called
    state = leaves(operands[0])
    shapes = _arrays([x.shape])
    mapped = [leaf.mapped for leaf in state]
    while True:
        after = [leaf.mapped for leaf in _computation(t, "tried", body, shapes, mapped)[1]]
        joined = [a or m for a, m in zip(after, mapped)]
        if joined == mapped:
            break
        mapped = joined
    differ = _computation(t, "tried", condition, shapes, mapped)[1][0].mapped
    if differ:
        mapped = [True] * len(mapped)
    types = [Shape(s.element_type, (t.size, *s.dimensions) if m else s.dimensions) for s, m in zip(shapes, mapped)]

    def part(name: str) -> tuple[Batching, list[Leaf]]:
        inner = t.inside(name)
        p = inner.b.parameter(0, Shape.tuple(types))
        return inner, [Leaf(y, m) for y, m in zip(taken_apart(inner.b, p), mapped)]

    def told(inner: Batching, values: list[Leaf]) -> Leaf:
        test = inner.run(condition, [like(x.shape, [*values])])
        assert isinstance(test, Leaf)
        return test

    inner, values = part("condition")
    test = told(inner, values)
    made_condition = inner.b.build(inner.b.reduce(test.x, False, "or") if differ else test.x)
    inner, values = part("body")
    after_ = leaves(inner.run(body, [like(x.shape, [*values])]))
    results = [inner.full(leaf) if m else leaf.x for leaf, m in zip(after_, mapped)]
    if differ:
        test = told(inner, values)
        results = [
            inner.b.select(inner.b.broadcast(test.x, r.shape.dimensions, (0,)), r, v.x) for r, v in zip(results, values)
        ]
    made_body = inner.b.build(inner.b.op("tuple", *results))
    start = t.b.op("tuple", *(t.full(leaf) if m else leaf.x for leaf, m in zip(state, mapped)))
    made = t.b.while_(start, made_condition, made_body)
    return like(x.shape, [Leaf(y, m) for y, m in zip(taken_apart(t.b, made), mapped)])


STRUCTURE: dict[str, Callable[[Batching, Instruction, list[Value]], Value]] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "domain": _identity,
    "opt-barrier": _barrier,
    "call": _call,
    "fusion": _call,
    "conditional": _conditional,
    "while": _while,
}
