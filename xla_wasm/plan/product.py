"""Kernels of products: a dot or a convolution with what finishes its elements, and the packing of its right side."""

from __future__ import annotations

from collections.abc import Sequence
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
from ..loop.affine import ZERO, Affine, Index, is_dense, linearize
from ..loop.builder import Builder
from ..loop.ir import Val
from ..loop.nest import scalar_nest
from ..lowering.elemental import Elemental
from ..lowering.source import Source, place
from ..lowering.source import store as store_element
from ..lowering.table import ELEMENTAL
from ..ops.dot.stored import BLOCK, FEW_ROWS, is_as_f16, reads_converted, stored_type
from ..ops.reading import reads, record
from ..target import Target
from .buffer import View
from .fit import Available, axes
from .kernel import Expression, InPlace, Kernel, KernelCache, Lowered

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
    left: Strided
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


@dataclass(frozen=True, slots=True)
class Strided:
    """An array that lies in another, which is in a buffer: element strides, and where it begins there."""

    source: Instruction
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def dtype(self) -> str:
        return self.source.shape.element_type

    @property
    def dense(self) -> bool:
        """True if the elements lie in row-major order without gaps."""
        return is_dense(self.dims, self.strides)

    def view(self, source: View) -> View:
        """The array in memory, where the other one lies."""
        return View(source.buffer, source.dtype, self.dims, self.strides, source.offset + self.offset)


def strided(x: Instruction, available: Available) -> Strided | None:
    """An array seen through the index maps of views down to one in a buffer; None if no strides do so."""
    dims = x.shape.dimensions
    index = whole = axes(dims)
    domain = dims
    while not available(x):
        if not record(x).view:
            return None
        (read,), (x,) = record(x).reads(x), x.operands
        at, domain = place(read.map, index), x.shape.dimensions
        if at is None:
            if not available(x):
                return None
            domain = read.map.domain  # of a reshape, which keeps the order
        else:
            index = at
    position = linearize(index, domain)
    strides = tuple([position.coefficient(i.loops[0][0]) if i.loops else 0 for i in whole])
    return Strided(x, dims, strides, position.const)


def merges(y: Instruction, root: Instruction, available: Available) -> bool:
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


def left_side(y: Instruction, available: Available) -> Instruction:
    """Returns the array that a product reads as its left side: its first operand, or the source of its conversion."""
    lhs = y.operands[0]
    return lhs.operands[0] if reads_converted(y) and not available(lhs) else lhs


def matches(y: Instruction, root: Instruction, available: Available) -> Product | None:
    """The GEMM of the product `y` that `root` finishes, if its left side can be read through strides.

    Its rows are split where the dimensions of the kernel's root split them, unless that `merges` them. What its right
    side is converted from is packed as it is, unless the converted array is `available`.
    """
    left = strided(left_side(y, available), available)
    if left is None:
        return None
    narrow = not available(y.operands[1])
    if reads(y)[0].kind is Kind.WINDOW:
        return (of_pixels(y, left, narrow) if merges(y, root, available) else None) or of_convolution(y, left, narrow)
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
    if dtype not in PRODUCT_TYPES:
        return None, 1
    paired = dtype == "s32" and operand == PAIRED
    source = stored_type(rhs) if narrow else operand
    if narrow and dtype == "f32" and rows > FEW_ROWS and is_as_f16(rhs):
        # Infinities take longer to widen: that pays for panels which the first rows widen for the others.
        return Types(left, "f16", dtype, dtype, has_infinities=True), 1
    keeps = paired or rhs.marks.weight_format or rows <= FEW_ROWS
    return Types(left, source if keeps else operand, dtype, dtype, pairs=paired), 2 if paired else 1


def of_dot(x: Instruction, lhs: Strided, rows: int, narrow: bool = False) -> Product | None:
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
    return Product(Gemm(types, tuple(outer), rows, m_stride, n, (), k), tuple(batch), lhs)


def of_convolution(x: Instruction, lhs: Strided, narrow: bool = False) -> Product | None:
    """A canonical convolution over a dense image. Few outputs per group go through the plain expression instead."""
    window = x.attrs["window"].dimensions
    assert not any(w.padding_low or w.padding_high for w in window), (
        f"{x.where}: what pads by itself has a kernel of its own"
    )
    groups = x.attrs["feature_group_count"]
    types, step = _types(x, lhs.dtype, narrow, prod(x.shape.dimensions[:-1]))
    *taps, inputs, outputs = x.operands[1].shape.dimensions
    if types is None or not window or not lhs.dense:
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
    return Product(gemm, (groups,), lhs, rows)


def of_pixels(x: Instruction, lhs: Strided, narrow: bool = False) -> Product | None:
    """A canonical convolution with a window of one pixel, over a dense image, as one product over all pixels."""
    window = x.attrs["window"].dimensions
    types, step = _types(x, lhs.dtype, narrow, prod(x.shape.dimensions[:-1]))
    inputs, outputs = x.operands[1].shape.dimensions[-2:]
    if types is None or not window or not lhs.dense:
        return None
    if x.attrs["feature_group_count"] > 1 or lhs.dims[:-1] != x.shape.dimensions[:-1]:  # nothing pads: windows of 1
        return None
    gemm = Gemm(types, ((1, 0, 0),), prod(lhs.dims[:-1]), inputs // step, outputs, (), inputs // step)
    return Product(gemm, (1,), lhs, _ALL)


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


def tiled(product: Product, target: Target, right: Strided | None = None) -> tuple[Gemm, Tile]:
    """The GEMM with the strides of the right side, packed or where it lies, and its tile."""
    g = product.gemm
    outer = g.outer
    if right is not None:
        *strides, k_stride, n_stride = right.strides
        strides += [0] * (len(outer) - len(strides))
        outer = tuple([(count, left, stride) for (count, left, _), stride in zip(outer, strides)])
        g = replace(g, k_stride=k_stride, n_stride=n_stride if g.n > 1 else 1)
    outer = tuple([o for o in outer if o[0] > 1])
    shape = tile(replace(g, outer=outer), target)
    if right is None:
        size = packed_size(g, shape)
        outer = tuple([(count, left, steps * size) for count, left, steps in outer])
    return replace(g, outer=outer), shape


@dataclass(frozen=True, slots=True, eq=False)
class Pack(Kernel):
    """The packing of right sides, or of their `scales`, which the expression computes as [groups..., k, n]."""

    gemm: Gemm
    tile: Tile
    groups: tuple[int, ...]
    along_k: bool
    """True if k lies contiguously."""

    def __str__(self) -> str:
        return f"panels of {self.tile.nr} for {self.gemm}"

    @property
    def moves(self) -> bool:
        return self.expression.moves

    @property
    def size(self) -> int:
        """The elements of all that is packed."""
        return packed_size(self.gemm, self.tile) * prod(self.groups)

    def scratch(self, cache: KernelCache) -> tuple[int | bytes, ...]:
        return ()

    def write(self, cache: KernelCache) -> Lowered:
        g, expression, groups = self.gemm, self.expression, self.groups
        (root,) = expression.roots
        sources = expression.arguments(1)
        b = cache.builder("pack", 1 + len(sources), expression.lanes, 0)
        e = Elemental(b, sources, ELEMENTAL)

        def packed(index: Index) -> None:
            def element(k: Affine, n: Affine) -> Val:
                return e.value(root, (*index, k, n))

            def pair(k: Affine, n: Affine) -> Val:
                low, high = (b.convert(element(k * 2 + i, n), "s32") for i in range(2))
                bits = TYPES[g.types.right].bits
                joined = b.or_(b.and_(low, b.const("s32", (1 << bits) - 1)), b.shl(high, bits))
                return b.convert(joined, g.types.right_element)

            def eight(k: Affine, n: Affine) -> Val:
                elements = [element(k * WORD + i, n) for i in range(WORD)]
                return (word_of_quads if g.types.both_in_blocks else word)(b, elements)

            stored = eight if g.types.in_blocks else pair if g.types.pairs else element
            base = linearize(index, groups) * packed_size(g, self.tile)
            pack_kernel(b, g, self.tile, 0, stored, base, self.along_k and not g.types.in_blocks)

        scalar_nest(b, groups, packed, chunked=True)
        return Lowered(b.func())


@dataclass(frozen=True, slots=True, eq=False)
class Multiply(Kernel):
    """A product finished as the expression has it: arguments are the result, the left side, the packed right side or
    where it lies, the scales of the right side and of the left one if they have any, sources, and scratch memory."""

    gemm: Gemm
    tile: Tile
    product: Product
    x: Instruction
    """The product itself."""

    def __str__(self) -> str:
        there = ", right side where it lies" if self.gemm.k_stride else ""
        return f"product {self.gemm}, {self.tile}{there}"

    def scratch(self, cache: KernelCache) -> tuple[int | bytes, ...]:
        size = scratch_size(self.gemm, self.tile)
        return (size * TYPES[self.gemm.types.accumulator].bytes,) if size else ()

    def write(self, cache: KernelCache) -> Lowered:
        g, x, expression = self.gemm, self.x, self.expression
        (root,) = expression.roots
        first = 3 + g.types.in_blocks + g.types.both_in_blocks
        sources = expression.arguments(first)
        own = self.scratch(cache)
        scratch = first + len(sources) if own else None
        b = cache.builder(
            x.opcode, first + len(sources) + len(own), expression.lanes, *((0, scratch) if scratch else (0,))
        )
        finish = Finish(b, x, root, expression, sources)
        sizes = [count for count, _, _ in self.product.gemm.outer]

        def index(outer: tuple[Affine, ...], m: Affine, n: Affine) -> Index:
            present = iter(outer)
            return self.product.index(x, [next(present) if size > 1 else ZERO for size in sizes], m, n)

        def store(outer: tuple[Affine, ...], m: Affine, n: Affine, value: Val) -> None:
            finish.store(index(outer, m, n), value)

        def spill(outer: tuple[Affine, ...], m: Affine, n: Affine) -> tuple[int, Affine]:
            return 0, finish.position(index(outer, m, n))

        # A long epilogue is written once, over products that wait where its results will go.
        long = len(expression.inner) > LONG_EPILOGUE and root.shape.element_type == g.types.result
        scales, lhs_scales = 3 if g.types.in_blocks else None, 4 if g.types.both_in_blocks else None
        sides = Sides((1, 0), 2, store, spill if long else None, scratch, scales, lhs_scales)
        gemm_kernel(b, g, self.tile, sides)
        return Lowered(b.func(), () if long else finish.may_overwrite, own)


class Finish:
    """Stores the elements of a product `x`, finished as `root`, in the first argument."""

    def __init__(
        self, b: Builder, x: Instruction, root: Instruction, expression: Expression, sources: dict[Instruction, Source]
    ):
        self.b, self.x, self.root, self.inner = b, x, root, expression.inner
        self.e = Elemental(b, sources, ELEMENTAL)
        dims = root.shape.dimensions
        self.target = Source(0, root.shape.element_type, dims, row_major_strides(dims))
        self.elsewhere: set[int] = set()
        """Sources that are read at other places than where the result is written."""

    def position(self, index: Index) -> Affine:
        """The place of the element that one of the product becomes."""
        return self.target.position(self._at(index))

    def store(self, index: Index, value: Val) -> None:
        """Finishes an element of the product."""
        at, e, target = self._at(index), self.e, self.target
        e.known[self.x] = (index, value)
        e.memo.clear()
        e.reads.clear()
        store_element(self.b, 0, target.position(at), e.value(self.root, at), target.dtype)
        written = {(target.position(at), TYPES[target.dtype].bytes)}
        self.elsewhere.update(number for number, places in e.reads.items() if places != written)

    @property
    def may_overwrite(self) -> InPlace:
        """The sources that the result may overwrite."""
        return tuple((0, s.number) for s in self.e.sources.values() if s.number not in self.elsewhere)

    def _at(self, index: Index) -> Index:
        at = finished_at(self.x, self.root, self.inner, index)
        assert at is not None, "the plan has followed it"
        return at


def pack(
    cache: KernelCache, product: Product, expression: Expression, tiles: tuple[Gemm, Tile], along_k: bool, scales: bool
) -> Pack:
    """The kernel that packs the right side, or its `scales`, which `expression` computes, for a product in `tiles`."""
    g, shape = tiles
    g = scales_of(g) if scales else g
    key = ("pack", expression.key, g, shape, along_k)
    return cache.find(key, lambda: Pack(expression, g, shape, product.groups, along_k))


def multiply(
    cache: KernelCache, product: Product, x: Instruction, expression: Expression, tiles: tuple[Gemm, Tile]
) -> Multiply:
    """The kernel of a product `x` in `tiles`, finished as `expression`."""
    return cache.find(("product", expression.key, *tiles), lambda: Multiply(expression, *tiles, product, x))


def tiled_in_place(product: Product, target: Target, right: Strided | None) -> tuple[Gemm, Tile] | None:
    """As `tiled`, for a product that had better read its right side where it lies, seen as [groups..., k, n], than have
    it packed in every run; None for others."""
    if right is None or right.dtype != product.gemm.types.right_element:
        return None
    *_, k_stride, n_stride = right.strides
    if any(stride < 0 for stride in right.strides):  # what is read begins before the first element
        return None
    g = product.gemm
    in_rows, in_columns = n_stride == 1 and k_stride >= g.n, k_stride == 1 and (g.n == 1 or n_stride >= g.k)
    if not in_columns if g.n == 1 else not in_rows and not in_columns:
        return None
    tiles = tiled(product, target, right)
    return tiles if reads_in_place(*tiles) else None
