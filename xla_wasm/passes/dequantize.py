"""Products take arrays of small numbers as they are stored: what makes f32 of them comes behind what only moves them,
and scales come after the products.

A *stored* array is a conversion of small numbers to f32, and perhaps a multiplication by scales. Where scales are the
same along all that a product sums, they multiply its sums; the product is left with the conversion, which its kernel
does when it loads (`plan/product.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd, prod

from ..dataclass import dataclass, replace
from ..hlo.attrs import ConvolutionDimensionNumbers, DotDimensionNumbers
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..hlo.types import PAIRED, TYPES, limits
from ..ops.control.simplify_counting import unchanged
from ..ops.dot.canonical import arranged, canonical_numbers
from ..ops.dot.record import free_dimensions
from ..ops.dot.stored import AS_IT_IS, BLOCK, FEW_ROWS, NIBBLE, is_widening
from ..ops.reading import reads, record
from ..ops.table import RECORDS
from ..writing.writer import Index, Rule, Writer
from .rewrite import rewrite_computation
from .weight_formats import INT4_BY_INT8, INT8, INT8_MOST, LEAST, WEIGHT_TYPES

_SUM = 2**31 - 1
"""The greatest sum of products of integers."""

_COLUMNS = 3
"""Columns that are worth a panel: fewer are sums along vectors."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The source of an array of f32: `small` numbers, converted, and multiplied by `scale`, an array of the same
    dimensions."""

    small: Instruction
    scale: Instruction | None = None
    format: str = ""
    """The format of a weight that the caller wants stored in it; empty for any other array."""
    element_type: str = "f32"
    """The type of the array, which of a weight may be one of 16 bits."""

    def written(self, w: Writer) -> Instruction:
        """The array."""
        if self.scale is None and self.element_type == self.small.shape.element_type:
            return self.small
        made = w.convert(self.small, "f32", weight_format=self.format)
        made = made if self.scale is None else w.mul(made, self.scale)
        return made if self.element_type == "f32" else w.convert(made, self.element_type)


def sink_dequantization(module: Module) -> None:
    """One sweep through each computation that converts small numbers, callers first: loops are handed what is
    stored."""
    calls: dict[Computation, int] = {}
    for x in module.instructions():
        for c in x.called:
            calls[c] = calls.get(c, 0) + 1
    made: list[Computation] = []
    for computation in reversed(module.computations):
        if any(_makes_f32(x) for x in computation.instructions):
            sinking, before = _Sinking(calls), list[Computation]()
            rewrite_computation(computation, sinking.rules, before)
            made += reversed(before)
        else:
            made.append(computation)
    module.computations = made[::-1]


def _makes_f32(x: Instruction) -> bool:
    return x.shape.element_type == "f32" and is_widening(x)


class _Sinking:
    """The rules for one computation."""

    def __init__(self, calls: dict[Computation, int]) -> None:
        self.stored: dict[Instruction, Stored] = {}
        self.calls = calls
        self.rules: dict[str, Rule] = {
            "convert": self.convert,
            "multiply": self.multiply,
            **{op.opcode: self.view for op in RECORDS.values() if op.view},
            **dict.fromkeys(("dynamic-slice", "gather"), self.view),
            "while": self.loop,
            "get-tuple-element": self.element,
            "dot": self.dot,
            "convolution": self.convolution,
        }

    def convert(self, w: Writer, x: Instruction) -> Instruction:
        weight = self.stored.get(x.operands[0])
        type_ = x.shape.element_type
        if weight is not None and weight.format and type_ in WEIGHT_TYPES:
            if weight.format == AS_IT_IS and type_ not in ("f32", weight.small.shape.element_type):
                return x  # from one type of 16 bits to the other
            # What is rounded to its format is not rounded to the program's 16 bits on the way to what computes in f32.
            stored = replace(weight, element_type=type_)
            made = stored.written(w)
            self.stored[made] = stored
            return made
        if _makes_f32(x):
            self.stored[x] = Stored(x.operands[0], None, x.marks.weight_format)
        return x

    def multiply(self, w: Writer, x: Instruction) -> Instruction:
        for a, scale in (x.operands, x.operands[::-1]):
            found = self.stored.get(a)
            if found is not None and found.scale is None and any(block > 1 for block in constant_blocks(scale)):
                self.stored[x] = Stored(found.small, scale, found.format)
                break
        return x

    def view(self, w: Writer, x: Instruction) -> Instruction:
        """Has what moves an array move what it is made from instead."""
        source, *starts = x.operands
        found = self.stored.get(source)
        if found is None:
            return x

        if found.format and not record(x).view:
            found.small.mark(weight_format=found.format)  # it is looked up as it is stored

        def moved(part: Instruction) -> Instruction:
            return w.clone(x, [part, *starts], shape=x.shape.with_element_type(part.shape.element_type))

        scale = None if found.scale is None else moved(found.scale)
        stored = replace(found, small=moved(found.small), scale=scale)
        made = stored.written(w)
        self.stored[made] = stored
        return made

    def dot(self, w: Writer, x: Instruction) -> Instruction:
        """The product of what is small; scales multiply its sums."""
        if x.shape.element_type != "f32" or not all(o.shape.element_type == "f32" and o.shape.size for o in x.operands):
            return x
        made = self.in_blocks(w, x)
        if made is not None:
            return made
        operands, scales = [*x.operands], dict[int, Instruction]()
        for side, (o, summed) in enumerate(zip(x.operands, summed_dimensions(x))):
            found = self.stored.get(o)
            if found is not None and found.scale is not None and constant_dimensions(found.scale).issuperset(summed):
                scales[side] = found.scale
                unscaled = replace(found, scale=None)
                operands[side] = unscaled.written(w)
                self.stored[operands[side]] = unscaled
        factors = [_along_sums(w, x, side, scale) for side, scale in scales.items()]
        made = self.in_integers(w, x, operands, factors)
        if made is None and not scales:
            return x
        made = made or w.clone(x, operands)
        # Together first: a scale may be so large that sums and it are too large, though the result is not.
        return w.mul(made, reduce(w.mul, factors)) if factors else made

    def convolution(self, w: Writer, x: Instruction) -> Instruction:
        """A convolution by weights that are small; scales of its output features multiply its sums."""
        image, weights = x.operands
        found = self.stored.get(weights)
        if found is None or found.scale is None or x.shape.element_type != "f32" or not weights.shape.size:
            return x
        numbers: ConvolutionDimensionNumbers = x.attrs["dim_labels"]
        feature = numbers.kernel_output_feature_dimension
        constant = constant_dimensions(found.scale)
        if not constant.issuperset(d for d in range(weights.shape.rank) if d != feature):
            return x
        unscaled = replace(found, scale=None)
        small = unscaled.written(w)
        self.stored[small] = unscaled
        place = () if feature in constant else (numbers.output_feature_dimension,)
        return w.mul(w.clone(x, [image, small]), w.broadcast(_compact(w, found.scale), x.shape.dimensions, place))

    def in_integers(
        self, w: Writer, x: Instruction, operands: Sequence[Instruction], factors: list[Instruction]
    ) -> Instruction | None:
        """The product in integers: of two sides of bytes, or of one that the caller wants in 8 bits and the other
        rounded for it.

        The scale of what is rounded goes to the `factors` of the result.
        """
        sides = [self.stored.get(o) for o in operands]
        smalls = [side.small if side is not None and side.scale is None else None for side in sides]
        length = prod(operands[0].shape.dimensions[d] for d in summed_dimensions(x)[0])
        if all(small is not None and _is_byte(small) for small in smalls) and length <= _SUM // 255**2:
            return w.convert(w.again(x, *[z for z in smalls if z is not None], dtype="s32"), "f32")
        most = min(limits("s16")[1], _SUM // (length * INT8_MOST)) - 1
        for side, other in ((0, 1), (1, 0)):
            stored, small = sides[side], smalls[side]
            if stored is not None and small is not None and stored.format == INT8 and most >= INT8_MOST:
                whole, scale = _rounded(w, operands[other], summed_dimensions(x)[other], PAIRED, most)
                product = w.again(x, *((small, whole) if other else (whole, small)), dtype="s32")
                factors.append(_along_sums(w, x, other, _alike(w, scale, operands[other], summed_dimensions(x)[other])))
                return w.convert(product, "f32")
        return None

    def in_blocks(self, w: Writer, x: Instruction) -> Instruction | None:
        """The product of numbers of 4 bits with a scale for each block of what is summed. Of a weight that the caller
        wants in 4 bits few rows of the other side are rounded to integers."""
        numbers: DotDimensionNumbers = x.attrs["dot_dimension_numbers"]
        batches = numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions
        summed, free = summed_dimensions(x), free_dimensions(x)
        for side, other in ((1, 0), (0, 1)):
            stored, rows = self.stored.get(x.operands[side]), x.operands[other]
            if (
                stored is None
                or stored.scale is None
                or stored.small.shape.element_type != NIBBLE
                or len(summed[side]) != 1
            ):
                continue
            dims, rank = stored.small.shape.dimensions, len(batches[0])
            columns, block = prod(dims[d] for d in free[side]), constant_blocks(stored.scale)[summed[side][0]]
            in_integers = rows in self.stored and block == dims[summed[side][0]]  # which is exact
            if block % BLOCK or columns < _COLUMNS or in_integers:
                continue
            factors: list[Instruction] = []
            left, left_scale = arranged(w, rows, batches[other], free[other], summed[other]), w.scalar("f32", 1.0)
            if stored.format and prod(rows.shape.dimensions[d] for d in free[other]) <= FEW_ROWS:
                if stored.format == INT4_BY_INT8:
                    left, left_scale = _in_blocks_of_bytes(w, left)
                else:
                    whole, scale = _rounded(w, rows, summed[other], PAIRED, limits(PAIRED)[1] - 1)
                    factors.append(_along_sums(w, x, other, _alike(w, scale, rows, summed[other])))
                    left = arranged(w, whole, batches[other], free[other], summed[other])
            right, scales = (
                arranged(w, part, batches[side], summed[side], free[side]) for part in (stored.small, stored.scale)
            )
            scales = w.slice(scales, (0,) * (rank + 2), scales.shape.dimensions, (*(1,) * rank, BLOCK, 1))
            product = w.op(
                "scaled-dot",
                left,
                right,
                left_scale,
                scales,
                dtype="f32",
                dot_dimension_numbers=canonical_numbers(rank),
            )
            sizes = [[o.shape.dimensions[d] for d in free[s]] for s, o in ((other, rows), (side, stored.small))]
            made = w.reshape(product, (*product.shape.dimensions[:rank], *sizes[0], *sizes[1]))
            if side == 0:
                middle = rank + len(sizes[0])
                made = w.transpose(made, (*range(rank), *range(middle, x.shape.rank), *range(rank, middle)))
            return reduce(w.mul, factors, made)
        return None

    def loop(self, w: Writer, x: Instruction) -> Instruction:
        """Hands a loop what it does not change as it is stored."""
        initial = x.operands[0].elements
        found = {i: self.stored[initial[i]] for i in unchanged(x) if initial and initial[i] in self.stored}
        if not found or any(self.calls[c] > 1 for c in x.called):
            return x
        elements, scales = [*initial], dict[int, int]()
        for i, stored in found.items():
            elements[i] = stored.small
            if stored.scale is not None:
                scales[i] = len(elements)
                elements.append(_compact(w, stored.scale))
        state = w.tuple(elements)
        for computation in x.called:
            _take_stored(computation, state.shape, found, scales)
        made = w.clone(x, [state], shape=state.shape)
        return w.tuple([initial[i] if i in found else w.element(made, i) for i in range(len(initial))])

    def element(self, w: Writer, x: Instruction) -> Instruction:
        elements = x.operands[0].elements
        return elements[x.attrs["index"]] if elements else x


def summed_dimensions(x: Instruction) -> tuple[Index, Index]:
    """The dimensions of each operand of a dot that it sums over."""
    numbers: DotDimensionNumbers = x.attrs["dot_dimension_numbers"]
    return numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions


def _is_byte(x: Instruction) -> bool:
    return TYPES[x.shape.element_type].kind in ("signed", "unsigned") and TYPES[x.shape.element_type].bits <= 8


def _rounded(w: Writer, x: Instruction, summed: Index, dtype: str, most: int) -> tuple[Instruction, Instruction]:
    """An array in integers of a type, at most `most` in magnitude, and the scales that give it back: an array without
    the dimensions that are `summed`, along which they are the same."""
    greatest = w.reduce(w.unary("abs", x), w.scalar("f32", 0.0), summed, "maximum")
    scale = w.mul(w.binary("maximum", greatest, LEAST), 1 / most)
    whole = w.unary("round-nearest-even", w.mul(x, _alike(w, w.div(w.like(scale, 1.0), scale), x, summed)))
    return w.convert(whole, dtype), scale


def _alike(w: Writer, scale: Instruction, x: Instruction, summed: Index) -> Instruction:
    """Returns `scale`, which lacks the dimensions `summed` of `x`, broadcast to the shape of `x`."""
    return w.broadcast(scale, x.shape.dimensions, tuple(d for d in range(x.shape.rank) if d not in summed))


def _in_blocks_of_bytes(w: Writer, x: Instruction) -> tuple[Instruction, Instruction]:
    """An array in integers of s8 and a scale for each `BLOCK` of them along its last dimension. A number that is far
    greater than others takes the precision of its block alone."""
    *rows, length = x.shape.dimensions
    blocks = w.reshape(x, (*rows, length // BLOCK, BLOCK))
    whole, scale = _rounded(w, blocks, (len(rows) + 1,), "s8", limits("s8")[1])
    return w.reshape(whole, x.shape.dimensions), scale


def _compact(w: Writer, x: Instruction) -> Instruction:
    """An array with one element of each block along which it is constant, without the dimensions that are one block."""
    dims, blocks = x.shape.dimensions, constant_blocks(x)
    part = w.slice(x, (0,) * x.shape.rank, dims, blocks)
    return w.reshape(part, tuple(size // block for size, block in zip(dims, blocks) if size != block))


def _spread(w: Writer, x: Instruction, dims: Index, blocks: Sequence[int]) -> Instruction:
    """An array of `dims` of what `_compact` has left of it."""
    split = [
        part for size, block in zip(dims, blocks) for part in ((size // block, block) if size != block else (size,))
    ]
    kept, at = list[int](), 0
    for size, block in zip(dims, blocks):
        if size != block:
            kept.append(at)
            at += 1
        at += 1
    return w.reshape(w.broadcast(x, tuple(split), tuple(kept)), dims)


def _along_sums(w: Writer, x: Instruction, side: int, scale: Instruction) -> Instruction:
    """A scale of one operand of a dot, the same along all that is summed, in the shape of the dot."""
    numbers: DotDimensionNumbers = x.attrs["dot_dimension_numbers"]
    batches = (numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions)[side]
    left, right = free_dimensions(x)
    order = (*batches, *(right if side else left))
    first = len(batches) + len(left) if side else len(batches)
    places = (*range(len(batches)), *range(first, first + len(order) - len(batches)))
    own = constant_blocks(scale)
    kept = [d for d in order if own[d] != scale.shape.dimensions[d]]
    blocks = [*x.shape.dimensions]
    for d, place in zip(order, places):
        blocks[place] = own[d]
    compact = _compact(w, scale)
    return _spread(w, w.transpose(compact, tuple(sorted(kept).index(d) for d in kept)), x.shape.dimensions, blocks)


def constant_dimensions(x: Instruction) -> frozenset[int]:
    """Dimensions along which an array is known to have the same elements."""
    return frozenset(d for d, (size, block) in enumerate(zip(x.shape.dimensions, constant_blocks(x))) if size == block)


def constant_blocks(x: Instruction) -> Index:
    """For each dimension the length of the blocks, from its start on, along which an array is known to have the same
    elements."""
    dims = x.shape.dimensions
    if x.opcode == "dynamic-slice":
        sizes = x.operands[0].shape.dimensions
        own = zip(dims, sizes, constant_blocks(x.operands[0]))
        return tuple(size if block == whole else block if size == whole else 1 for size, whole, block in own)
    if not record(x).view or not x.shape.size:
        return tuple(1 for _ in dims)
    (read,), blocks = reads(x), [*dims]
    for coordinate, size, block in zip(read.map.coordinates, read.map.dims, constant_blocks(x.operands[0])):
        if block == size:
            continue
        if coordinate is None:
            return tuple(1 for _ in dims)
        # A digit that counts the operand's own elements stays in one of its blocks for as long as that is.
        c, _, _, length = coordinate.terms[0] if len(coordinate.terms) == 1 else (0, 0, 0, 0)
        whole = c == 1 and coordinate.offset % block == length % block == 0
        for _, d, divisor, _ in coordinate.terms:
            blocks[d] = gcd(blocks[d], divisor * (block if whole else 1))
    return tuple(blocks)


def _take_stored(
    computation: Computation, state: Shape, found: Mapping[int, Stored], scales: Mapping[int, int]
) -> None:
    """Has a computation of a loop take stored arrays in its state, and make what it reads of them; `scales` says where
    scales are."""
    (parameter,) = computation.parameters
    parameter.shape = state
    taken: list[Instruction] = []
    w = Writer(parameter, taken)
    handed = {i: w.element(parameter, i) for i in (*found, *scales.values())}
    arrays: dict[int, Instruction] = {}
    for i, stored in found.items():
        scale = None
        if stored.scale is not None:
            scale = _spread(w, handed[scales[i]], stored.scale.shape.dimensions, constant_blocks(stored.scale))
        arrays[i] = replace(stored, small=handed[i], scale=scale).written(w)

    def element(w: Writer, x: Instruction) -> Instruction:
        return arrays.get(x.attrs["index"], x) if x.operands[0] is parameter else x

    rewrite_computation(computation, {"get-tuple-element": element})
    at = computation.instructions.index(parameter) + 1
    computation.instructions[at:at] = taken
    root = computation.root
    if root.shape.is_tuple:
        root.shape = state
        root.operands = [handed.get(i, o) for i, o in enumerate(root.operands)] + [handed[i] for i in scales.values()]
