"""Kernels of products: a dot or a convolution with what finishes its elements, and the packing of its right side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..dataclass import dataclass, replace
from ..hlo.index_map import row_major, row_major_strides
from ..hlo.ir import Instruction
from ..hlo.op import Kind
from ..hlo.shape import Shape
from ..hlo.types import PAIRED, PRODUCT_TYPES, TYPES
from ..kernels.gemm import gemm_kernel
from ..kernels.packing import pack_kernel, word, word_of_quads
from ..kernels.sides import Sides
from ..kernels.tiles import WORD, Gemm, Tile, Types, packed_size, reads_in_place, scales_of, scratch_size, tile
from ..loop.affine import ZERO, Affine, Index, linearize
from ..loop.builder import Builder
from ..loop.ir import Val
from ..lowering.elemental import Elemental
from ..lowering.source import Source, place
from ..lowering.source import store as store_element
from ..lowering.table import ELEMENTAL
from ..ops.dot.stored import BLOCK, FEW_ROWS, WEIGHT_FORMAT, reads_converted, stored_type
from ..ops.reading import reads, record
from .fit import axes
from .kernels import Expression, KernelCache, Lowered
from .plan import View

LONG_EPILOGUE = 12
"""Instructions above which an epilogue is not copied for every vector of a tile."""

_ROWS, _IMAGES, _ALL = "rows", "images", "all"
"""The choices of `Product.rows`."""

_FEW = 6
"""Rows from which tiles of them are good."""


@dataclass(frozen=True, slots=True)
class Product:
    """A dot or convolution as a GEMM: right sides of [k, n], one for each index of `groups`."""

    gemm: Gemm
    groups: tuple[int, ...]
    offset: int
    """The first element of the left side, in its buffer."""
    rows: str = ""
    """The rows of a convolution: the pixels of a row, `gemm.outer` having the groups, the images and their rows;
    `_IMAGES`, `gemm.outer` having the groups and the pixels; or `_ALL` pixels of all images. Empty of a dot."""

    def index(self, x: Instruction, outer: Sequence[Affine], m: Affine, n: Affine) -> Index:
        """The index in the product `x` of an element that the kernel makes; `outer` has an index for each of
        `gemm.outer`."""
        if self.rows == _ALL:
            # An index beyond its dimension goes on where the next row lies: see `merges`.
            sizes = x.shape.dimensions
            last = max((d for d, size in enumerate(sizes[:-1]) if size > 1), default=0)
            index: Index = (*(m if d == last else ZERO for d in range(len(sizes) - 1)), n)
        elif self.rows == _IMAGES:
            group, *pixel = outer
            index = (m, *pixel, group * self.gemm.n + n)
        elif self.rows:
            group, image, *rows = outer
            index = (image, *rows, m, group * self.gemm.n + n)
        else:
            batch = len(self.groups)
            row = outer[batch] * self.gemm.m + m if len(outer) > batch else m
            index = (*outer[:batch], row, n)
        return tuple([ZERO if size == 1 else i for i, size in zip(index, x.shape.dimensions)])


def finished_at(x: Instruction, root: Instruction, inner: list[Instruction], index: Index) -> Index | None:
    """Returns the index in `root` at which an element of the product `x` ends, which finishes it; None if that would
    take a division."""
    held = set(inner)
    current = x
    while current is not root:
        user = next(y for y in inner if current in y.operands and y in held)
        if user.shape.dimensions != current.shape.dimensions:
            mapped = place(row_major(current.shape.dimensions, user.shape.dimensions), index)
            if mapped is None:
                return None
            index = mapped
        current = user
    return tuple([ZERO if size == 1 else i for i, size in zip(index, root.shape.dimensions)])


def strided(x: Instruction, available: Callable[[Instruction], View | None]) -> View | None:
    """An array in a buffer, seen through the index maps of views; None if no strides do so."""
    dims = x.shape.dimensions
    index = whole = axes(dims)
    while True:
        view = available(x)
        if view is not None:
            position = Affine(view.offset) + sum((i * stride for i, stride in zip(index, view.strides)), ZERO)
            break
        if not record(x).view:
            return None
        (read,), (o,) = record(x).reads(x), x.operands
        at = place(read.map, index)
        view = available(o)
        if at is None and view is not None:  # a reshape, which keeps the order
            position = linearize(index, read.map.domain) + view.offset
            break
        if at is None:
            return None
        x, index = o, at
    strides = tuple([position.coefficient(i.loops[0][0]) if i.loops else 0 for i in whole])
    return View(view.buffer, view.dtype, dims, strides, position.const)


def merges(y: Instruction, root: Instruction, available: Callable[[Instruction], object]) -> bool:
    """Returns True if what finishes `y` as `root` may count its rows, pixels of images, through: it needs no more of an
    index than the position of an element in arrays of the shape of `y`, and the last dimension for what is broadcast
    along all others."""
    dims = y.shape.dimensions
    pending, seen = [root], {y}
    while pending:
        z = pending.pop()
        if z in seen or not z.shape.rank:
            continue
        seen.add(z)
        if z.shape.dimensions != dims:
            return False
        if z is not root and available(z) or z.literal is not None:
            continue
        about = record(z)
        if about.elementwise:
            pending += z.operands
        elif not about.view or any(
            c is None or any(d != len(dims) - 1 for _, d, _, _ in c.terms) for c in reads(z)[0].map.coordinates
        ):
            return False
    return True


def left_side(y: Instruction, available: Callable[[Instruction], object]) -> Instruction:
    """Returns the array that a product reads as its left side: its first operand, or the source of its conversion."""
    lhs = y.operands[0]
    return lhs.operands[0] if reads_converted(y) and not available(lhs) else lhs


def matches(
    y: Instruction, left: View, root: Instruction, merged: bool, available: Callable[[Instruction], object]
) -> Product | None:
    """The GEMM of the product `y`; its rows are split where the dimensions of the kernel's root split them, unless that
    `merges` them.

    What its right side is converted from is packed as it is, unless the converted array is `available`.
    """
    narrow = not available(y.operands[1])
    if reads(y)[0].kind is Kind.WINDOW:
        return (of_pixels(y, left, narrow) if merged else None) or of_convolution(y, left, narrow)
    m, n = y.shape.dimensions[-2:]
    dims = [d for d in root.shape.dimensions if d != 1]
    rows = dims[-2] if root is not y and len(dims) > 1 and dims[-1] == n and m % dims[-2] == 0 and dims[-2] >= 4 else m
    return of_dot(y, left, rows, narrow)


def _types(x: Instruction, left: str, narrow: bool, rows: int) -> tuple[Types | None, int]:
    """The types of a canonical product, None if no kernel takes them, and how many steps along k an element of its
    operands has.

    `left`: the type of the left side where it lies. `narrow`: the right side may be packed as what it is converted
    from.
    """
    dtype, (lhs, rhs) = x.shape.element_type, x.operands[:2]
    operand = lhs.shape.element_type
    if x.opcode == "scaled-dot":
        types = Types(left, rhs.shape.element_type, dtype, dtype, operand == PAIRED, BLOCK)
        return types, types.left_step
    paired = dtype == "s32" and operand == PAIRED
    if not paired and dtype not in PRODUCT_TYPES:
        return None, 1
    source = stored_type(rhs) if narrow else operand
    keeps = paired or WEIGHT_FORMAT in rhs.attrs or rows <= FEW_ROWS
    return Types(left, source if keeps else operand, dtype, dtype, pairs=paired), 2 if paired else 1


def of_dot(x: Instruction, lhs: View, rows: int, narrow: bool = False) -> Product | None:
    """A canonical dot [batch..., m, k] x [batch..., k, n] whose left side is read through `lhs`, if its rows are
    contiguous.

    `rows` divides m: the rows that stay together in the dimensions of the result.
    """
    *batch, m, k = x.operands[0].shape.dimensions
    types, step = _types(x, lhs.dtype, narrow, m)
    n = x.shape.dimensions[-1]
    *strides, m_stride, k_stride = lhs.strides
    if types is None or (k > 1 and k_stride != 1) or not k:
        return None
    if any(number % step for number in (k, m_stride, *strides)):
        return None
    assert lhs.dense or not types.both_in_blocks, f"{x.where}: its scales lie as its left side does"
    k, m_stride, *strides = [number // step for number in (k, m_stride, *strides)]
    groups = prod(batch)
    outer, right = [], groups
    for size, stride in zip(batch, strides):
        right //= size
        outer.append((size, stride, right))
    if rows != m:
        outer.append((m // rows, m_stride * rows, 0))
    return Product(Gemm(types, tuple(outer), rows, m_stride, n, (), k), tuple(batch), lhs.offset)


def of_convolution(x: Instruction, lhs: View, narrow: bool = False) -> Product | None:
    """A canonical convolution over a dense image. Few outputs per group go through the plain expression instead."""
    window = x.attrs["window"].dimensions
    assert not any(w.padding_low or w.padding_high for w in window), (
        f"{x.where}: what pads by itself has a kernel of its own"
    )
    groups = x.attrs["feature_group_count"]
    types, step = _types(x, lhs.dtype, narrow, prod(x.shape.dimensions[:-1]))
    *taps, inputs, outputs = x.operands[1].shape.dimensions
    if types is None or not window or not lhs.dense or not x.operands[1].shape.size:
        return None
    if groups > 1 and outputs // groups < 4:
        return None
    per_group = outputs // groups
    inputs //= step
    batch, *spatial, _ = [stride // step for stride in row_major_strides(lhs.dims)]
    sizes = x.shape.dimensions
    moves = [(size, stride * w.stride) for size, stride, w in zip(sizes[1:-1], spatial, window)]
    # Where results have few pixels, as gradients of weights have, the images are more rows for a tile.
    rows, (m, m_stride) = (_IMAGES, (sizes[0], batch)) if sizes[-2] < _FEW <= sizes[0] else (_ROWS, moves.pop())
    outer = [
        (groups, inputs, 1),
        *([] if rows == _IMAGES else [(sizes[0], batch, 0)]),
        *((size, stride, 0) for size, stride in moves),
    ]
    last = window[-1]
    segments = [(w.size, stride * w.window_dilation) for w, stride in zip(window, spatial)]
    run = inputs
    if groups == 1 and last.window_dilation == 1:
        segments.pop()
        run = inputs * last.size
    segments = [(count, stride) for count, stride in segments if count > 1]
    gemm = Gemm(types, tuple(outer), m, m_stride, per_group, tuple(segments), run)
    return Product(gemm, (groups,), lhs.offset, rows)


def of_pixels(x: Instruction, lhs: View, narrow: bool = False) -> Product | None:
    """A canonical convolution with a window of one pixel, over a dense image, as one product over all pixels."""
    window = x.attrs["window"].dimensions
    types, step = _types(x, lhs.dtype, narrow, prod(x.shape.dimensions[:-1]))
    inputs, outputs = x.operands[1].shape.dimensions[-2:]
    if types is None or not window or not lhs.dense or not inputs:
        return None
    if x.attrs["feature_group_count"] > 1 or lhs.dims[:-1] != x.shape.dimensions[:-1]:  # nothing pads: windows of 1
        return None
    gemm = Gemm(types, ((1, 0, 0),), prod(lhs.dims[:-1]), inputs // step, outputs, (), inputs // step)
    return Product(gemm, (1,), lhs.offset, _ALL)


def right_side(x: Instruction, product: Product) -> Instruction:
    """The right side as [groups..., k, n]: a renaming of the indices of the second operand, or of what that is
    converted from."""
    rhs, g = x.operands[1], product.gemm
    if rhs.shape.element_type != g.types.right:
        (rhs,) = rhs.operands
    if not product.rows:
        return Instruction(x.name, "reshape", rhs.shape, [rhs])
    (groups,) = product.groups
    dtype, k = rhs.shape.element_type, g.k * g.types.left_step
    if groups == 1:
        return Instruction(x.name, "reshape", Shape(dtype, (1, k, g.n)), [rhs])
    flat = Instruction(x.name, "reshape", Shape(dtype, (k, groups, g.n)), [rhs])
    return Instruction(x.name, "transpose", Shape(dtype, (groups, k, g.n)), [flat], {"dimensions": (1, 0, 2)})


def right_sides(x: Instruction, product: Product) -> list[Instruction]:
    """Returns the arrays that are packed: the right side, and any scales of it as [groups..., blocks of k, n]."""
    scales = x.operands[3:]
    return [right_side(x, product), *(Instruction(x.name, "reshape", s.shape, [s]) for s in scales)]


def left_scales(x: Instruction) -> list[Instruction]:
    """Returns the scales of the blocks of a product's left side, if they lie in memory: no array, or one."""
    return [scale for scale in x.operands[2:3] if scale.shape.rank]


def _tiled(cache: KernelCache, product: Product, right: View | None = None) -> tuple[Gemm, Tile]:
    """The GEMM with the strides of the right side, packed or where it lies, and its tile."""
    g = product.gemm
    outer = g.outer
    if right is not None:
        *strides, k_stride, _ = right.strides
        strides += [0] * (len(outer) - len(strides))
        outer = tuple([(count, left, stride) for (count, left, _), stride in zip(outer, strides)])
        g = replace(g, k_stride=k_stride)
    outer = tuple([o for o in outer if o[0] > 1])
    shape = tile(replace(g, outer=outer), cache.target)
    if right is None:
        size = packed_size(g, shape)
        outer = tuple([(count, left, steps * size) for count, left, steps in outer])
    return replace(g, outer=outer), shape


def lies_in_place(cache: KernelCache, product: Product, right: View | None) -> bool:
    """Returns True if a product had better read its right side, seen as [groups..., k, n], where it lies than pack it
    in every run."""
    if right is None or right.dtype != product.gemm.types.right_element:
        return False
    if any(stride < 0 for stride in right.strides):  # what is read begins before the first element
        return False
    if right.strides[-2] != 1 if right.dims[-1] == 1 else right.strides[-1] != 1 or right.strides[-2] < right.dims[-1]:
        return False
    return reads_in_place(*_tiled(cache, product, right))


def packed_elements(cache: KernelCache, product: Product, scales: bool = False) -> int:
    """The elements of all packed right sides, or of their `scales`."""
    g, shape = _tiled(cache, product)
    g = scales_of(g) if scales else g
    return packed_size(g, shape) * prod(product.groups)


def lower_pack(
    cache: KernelCache, product: Product, expression: Expression, along_k: bool, scales: bool = False
) -> Lowered:
    """The kernel that packs the right side, or its `scales`; `expression` computes it as [groups..., k, n]. `along_k`:
    k lies contiguously."""
    g, shape = _tiled(cache, product)
    g = scales_of(g) if scales else g
    key = ("pack", expression.key, g, shape, along_k)
    found = cache.lowered.get(key)
    if found is not None:
        return found
    (root,) = expression.roots
    sources = {x: Source(1 + i, v.dtype, v.dims, v.strides) for i, (x, v) in enumerate(expression.sources.items())}
    b = Builder(cache.name("pack"), 1 + len(sources), expression.lanes, cache.target, frozenset((0,)))
    e = Elemental(b, sources, ELEMENTAL)

    size = packed_size(g, shape)

    def level(index: Index, base: Affine) -> None:
        def element(k: Affine, n: Affine) -> Val:
            return e.value(root, (*index, k, n))

        def pair(k: Affine, n: Affine) -> Val:
            low, high = (b.convert(element(k * 2 + i, n), "s32") for i in range(2))
            bits = TYPES[g.types.right].bits
            joined = b.or_(b.and_(low, b.const("s32", (1 << bits) - 1)), b.shl(high, bits))
            return b.convert(joined, g.types.right_element)

        def eight(k: Affine, n: Affine) -> Val:
            return (word_of_quads if g.types.both_in_blocks else word)(
                b, [element(k * WORD + i, n) for i in range(WORD)]
            )

        if len(index) == len(product.groups):
            stored = eight if g.types.in_blocks else pair if g.types.pairs else element
            pack_kernel(b, g, shape, 0, stored, base, along_k and not g.types.in_blocks)
            return
        count = product.groups[len(index)]
        step = size * prod(product.groups[len(index) + 1 :])
        if count == 1:
            level((*index, ZERO), base)
        else:
            with b.loop(count, chunked=True) as i:
                level((*index, i), base + i * step)

    level((), ZERO)
    return cache.keep(key, b.func())


def lower_product(
    cache: KernelCache,
    product: Product,
    x: Instruction,
    root: Instruction,
    expression: Expression,
    right: View | None = None,
) -> Lowered:
    """The kernel of product `x` finished as `root`: arguments are the result, the left side, the packed right side, the
    scales of the right side and of the left one if they have any, sources.

    With `right` the right side is read there. Scratch memory comes last, if the kernel needs it.
    """
    g, shape = _tiled(cache, product, right)
    key = ("product", expression.key, g, shape)
    found = cache.lowered.get(key)
    if found is not None:
        return found
    first = 3 + g.types.in_blocks + g.types.both_in_blocks
    sources = {y: Source(first + i, v.dtype, v.dims, v.strides) for i, (y, v) in enumerate(expression.sources.items())}
    size = scratch_size(g, shape)
    scratch = first + len(sources) if size else None
    written = frozenset((0, scratch) if scratch else (0,))
    b = Builder(cache.name(x.opcode), first + len(sources) + bool(size), expression.lanes, cache.target, written)
    e = Elemental(b, sources, ELEMENTAL)
    target = Source(0, root.shape.element_type, root.shape.dimensions, row_major_strides(root.shape.dimensions))
    sizes = [count for count, _, _ in product.gemm.outer]

    def placed(outer: tuple[Affine, ...], m: Affine, n: Affine) -> tuple[Index, Index]:
        """The index of a product, and the one in the root that it becomes."""
        present = iter(outer)
        index = product.index(x, [next(present) if size > 1 else ZERO for size in sizes], m, n)
        at = finished_at(x, root, expression.inner, index)
        assert at is not None, "the plan has followed it"
        return index, at

    def store(outer: tuple[Affine, ...], m: Affine, n: Affine, value: Val) -> None:
        index, place = placed(outer, m, n)
        e.known[x] = (index, value)
        e.memo.clear()
        store_element(b, 0, target.position(place), e.value(root, place), target.dtype)

    def spill(outer: tuple[Affine, ...], m: Affine, n: Affine) -> tuple[int, Affine]:
        return 0, target.position(placed(outer, m, n)[1])

    # A long epilogue is written once, over products that wait where its results will go.
    long = len(expression.inner) > LONG_EPILOGUE and root.shape.element_type == g.types.result
    scales, lhs_scales = 3 if g.types.in_blocks else None, 4 if g.types.both_in_blocks else None
    gemm_kernel(b, g, shape, Sides((1, 0), 2, store, spill if long else None, scratch, scales, lhs_scales))
    return cache.keep(key, b.func(), (size * TYPES[g.types.accumulator].bytes,) if size else ())
