"""Kernels of convolutions that are no products of their image as it lies, with what finishes their elements."""

from __future__ import annotations

from collections.abc import Callable

from ..dataclass import replace
from ..hlo.index_map import row_major_strides
from ..hlo.ir import Instruction
from ..hlo.types import TYPES
from ..kernels import Tile, Winograd, WinogradKernel, packed_size, tile, winograd_pack
from ..loop.affine import ZERO, Index
from ..loop.builder import Builder
from ..loop.ir import Val
from ..lowering.elemental import Elemental
from ..lowering.source import Source
from ..lowering.source import store as store_element
from ..lowering.table import ELEMENTAL
from ..ops.conv.lower_depthwise import depthwise_kernel, walking_kernel
from ..ops.conv.plan import Depthwise
from .kernels import Expression, KernelCache, Lowered
from .plan import View
from .product import finished_at


def lower_depthwise(
    cache: KernelCache,
    d: Depthwise,
    x: Instruction,
    root: Instruction,
    views: tuple[View, View],
    expression: Expression,
) -> Lowered:
    """The kernel of the depthwise convolution `x` finished as `root`: arguments are the result, image and kernel, seen
    through `views`, sources, and scratch memory."""
    key = ("depthwise", expression.key, d, tuple([(v.dims, v.strides) for v in views]))
    found = cache.lowered.get(key)
    if found is not None:
        return found
    count = 3 + len(expression.sources)
    written = frozenset((0, count) if d.walks else (0,))
    b = Builder(cache.name(x.opcode), count + d.walks, expression.lanes, cache.target, written)
    image, kernel = (Source(1 + i, v.dtype, v.dims, v.strides) for i, v in enumerate(views))
    store = _finish(b, x, root, expression, 3)
    if not d.walks:
        depthwise_kernel(b, d, image, kernel, store)
        return cache.keep(key, b.func())
    size = 2 * d.results * d.features
    walking_kernel(b, d, image, kernel, Source(count, d.dtype, (size,), (1,)), store)
    return cache.keep(key, b.func(), (size * TYPES[d.dtype].bytes,))


def winograd(x: Instruction, side: int) -> Winograd:
    """The convolution `x` in tiles of so many results a side."""
    (batch, *image, inputs), (_, *out, outputs) = x.operands[0].shape.dimensions, x.shape.dimensions
    low = [w.padding_low for w in x.attrs["window"].dimensions]
    return Winograd(side, batch, (image[0], image[1]), (low[0], low[1]), (out[0], out[1]), inputs, outputs)


def _tile(cache: KernelCache, w: Winograd) -> Tile:
    """The tile of the products; transformed weights lie panel by panel."""
    return replace(tile(w.gemm(), cache.target), stripes=1)


def winograd_weights(cache: KernelCache, w: Winograd) -> int:
    """The elements of all transformed and packed weights."""
    return packed_size(w.gemm(), _tile(cache, w)) * w.places


def lower_winograd_pack(cache: KernelCache, w: Winograd, weights: View) -> Lowered:
    """The kernel that transforms and packs weights: arguments are the result and `weights`."""
    shape = _tile(cache, w)
    key = ("winograd pack", w.tile, w.inputs, w.outputs, shape, weights.dims, weights.strides)
    found = cache.lowered.get(key)
    if found is not None:
        return found
    source = Source(1, weights.dtype, weights.dims, weights.strides)
    b = Builder(cache.name("winograd_pack"), 2, w.gemm().lanes, cache.target, frozenset((0,)))
    winograd_pack(b, w, shape, 0, lambda index: b.load(1, source.position(index), source.dtype))
    return cache.keep(key, b.func())


def lower_winograd(
    cache: KernelCache, w: Winograd, x: Instruction, root: Instruction, views: tuple[View, View], expression: Expression
) -> Lowered:
    """The kernel of the convolution `x` finished as `root`: arguments are the result, image and weights, seen through
    `views`, the packed weights, sources, and scratch memory. Of a convolution in stages it is the last, and the
    products stand for the packed weights."""
    shape = _tile(cache, w)
    key = ("winograd", expression.key, w, shape, tuple([(v.dims, v.strides) for v in views]))
    found = cache.lowered.get(key)
    if found is not None:
        return found
    count = 4 + len(expression.sources)
    own = w.scratch[2:] if w.in_stages else w.scratch
    scratch = tuple(range(count, count + len(own)))
    b = Builder(cache.name("winograd"), count + len(own), expression.lanes, cache.target, frozenset((0, *scratch)))
    store = _finish(b, x, root, expression, 4)
    image, weights = (_load(b, 1 + i, v) for i, v in enumerate(views))
    if w.in_stages:
        WinogradKernel(b, w, shape, (0, 3, count), 0, image, weights, store).finishes(chunked=True)
    else:
        WinogradKernel(b, w, shape, (count, count + 1, count + 2), 3, image, weights, store).write()
    return cache.keep(key, b.func(), own)


def lower_winograd_transform(cache: KernelCache, w: Winograd, image: View) -> Lowered:
    """The kernel that transforms the tiles of an image: arguments are the result, the image, and scratch memory."""
    key = ("winograd transform", w, image.dims, image.strides)
    found = cache.lowered.get(key)
    if found is not None:
        return found
    b = Builder(cache.name("winograd_transform"), 3, w.gemm().lanes, cache.target, frozenset((0, 2)))
    WinogradKernel(b, w, _tile(cache, w), (0, 0, 2), image=_load(b, 1, image)).transforms(chunked=True)
    return cache.keep(key, b.func(), w.scratch[2:])


def lower_winograd_products(cache: KernelCache, w: Winograd) -> Lowered:
    """The kernel of the products: arguments are the result, the transformed image and the packed weights."""
    key = ("winograd products", w.gemm(), _tile(cache, w))
    found = cache.lowered.get(key)
    if found is not None:
        return found
    b = Builder(cache.name("winograd_products"), 3, w.gemm().lanes, cache.target, frozenset((0,)))
    WinogradKernel(b, w, _tile(cache, w), (1, 0, 0), packed=2).multiplies(chunked=True)
    return cache.keep(key, b.func())


def _load(b: Builder, number: int, view: View) -> Callable[[Index], Val]:
    """Returns a function that loads an element of an argument, seen as `view`."""
    source = Source(number, view.dtype, view.dims, view.strides)
    return lambda index: b.load(number, source.position(index), source.dtype)


def _finish(
    b: Builder, x: Instruction, root: Instruction, expression: Expression, first: int
) -> Callable[[Index, Val], None]:
    """Returns a function that stores an element of `x`, finished as `root`; the sources of what finishes it are the
    arguments from number `first` on."""
    sources = {y: Source(first + i, v.dtype, v.dims, v.strides) for i, (y, v) in enumerate(expression.sources.items())}
    e = Elemental(b, sources, ELEMENTAL)
    target = Source(0, root.shape.element_type, root.shape.dimensions, row_major_strides(root.shape.dimensions))

    def store(index: Index, value: Val) -> None:
        index = tuple([ZERO if size == 1 else i for i, size in zip(index, x.shape.dimensions)])
        place = finished_at(x, root, expression.inner, index)
        assert place is not None, "the plan has followed it"
        e.known[x] = (index, value)
        e.memo.clear()
        store_element(b, 0, target.position(place), e.value(root, place), target.dtype)

    return store
