"""Kernels of convolutions that are no products of their image as it lies, with what finishes their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..dataclass import dataclass, replace
from ..hlo.index_map import row_major_strides
from ..hlo.ir import Instruction
from ..hlo.types import TYPES
from ..kernels import Tile, Winograd, WinogradKernel, packed_size, tile, winograd_pack
from ..loop.affine import ZERO, Index
from ..loop.builder import Builder
from ..loop.ir import Val
from ..lowering.source import Source
from ..ops.conv.lower_depthwise import depthwise_kernel, walking_kernel
from ..ops.conv.plan import Depthwise
from .kernel import Expression, Kernel, KernelCache, Lowered
from .product import Finish


@dataclass(frozen=True, slots=True, eq=False)
class DepthwiseConvolution(Kernel):
    """The depthwise convolution `x`, finished as the expression has it: arguments are the result, image and kernel,
    sources, and scratch memory."""

    shape: Depthwise
    x: Instruction

    def __str__(self) -> str:
        return f"depthwise convolution{', walking the image' if self.shape.walks else ''}"

    def scratch(self, cache: KernelCache) -> tuple[int | bytes, ...]:
        d = self.shape
        return (2 * d.results * d.features * TYPES[d.dtype].bytes,) if d.walks else ()

    def write(self, cache: KernelCache) -> Lowered:
        d, x = self.shape, self.x
        count = 3 + len(self.expression.sources)
        written = (0, count) if d.walks else (0,)
        b = cache.builder(x.opcode, count + d.walks, self.expression.lanes, *written)
        image, kernel = (_source(1 + i, o) for i, o in enumerate(x.operands))
        store = _finish(b, x, self.expression, 3)
        if d.walks:
            walking_kernel(b, d, image, kernel, Source(count, d.dtype, (2 * d.results * d.features,), (1,)), store)
        else:
            depthwise_kernel(b, d, image, kernel, store)
        return Lowered(b.func(), (), self.scratch(cache))


def winograd(x: Instruction, side: int) -> Winograd:
    """The convolution `x` in tiles of so many results a side."""
    (batch, *image, inputs), (_, *out, outputs) = x.operands[0].shape.dimensions, x.shape.dimensions
    low = [w.padding_low for w in x.attrs["window"].dimensions]
    return Winograd(side, batch, (image[0], image[1]), (low[0], low[1]), (out[0], out[1]), inputs, outputs)


@dataclass(frozen=True, slots=True, eq=False)
class _Winograd(Kernel):
    """A kernel of the convolution `x` in tiles that are transformed, multiplied, and transformed back."""

    shape: Winograd
    tile: Tile
    """Of the products; transformed weights lie panel by panel."""
    x: Instruction
    stage = ""

    def __str__(self) -> str:
        return f"Winograd {self.stage}, tiles of {self.shape.tile}x{self.shape.tile} results"

    def scratch(self, cache: KernelCache) -> tuple[int | bytes, ...]:
        return ()


class WinogradPack(_Winograd):
    """Transforms and packs weights: arguments are the result and the weights."""

    stage = "transform of weights"

    @property
    def size(self) -> int:
        """The elements of all transformed and packed weights."""
        return packed_size(self.shape.gemm(), self.tile) * self.shape.places

    def write(self, cache: KernelCache) -> Lowered:
        b = cache.builder("winograd_pack", 2, self.shape.gemm().lanes, 0)
        winograd_pack(b, self.shape, self.tile, 0, _load(b, 1, self.x.operands[1]))
        return Lowered(b.func())


class WinogradConvolution(_Winograd):
    """All of it, finished as the expression has it: arguments are the result, image and weights, the packed weights,
    sources, and scratch memory. Of a convolution in stages it is the last, and the products stand for the packed
    weights."""

    stage = "convolution"

    def scratch(self, cache: KernelCache) -> tuple[int | bytes, ...]:
        return self.shape.scratch[2:] if self.shape.in_stages else self.shape.scratch

    def write(self, cache: KernelCache) -> Lowered:
        w, shape, count = self.shape, self.tile, 4 + len(self.expression.sources)
        own = self.scratch(cache)
        scratch = tuple(range(count, count + len(own)))
        b = cache.builder("winograd", count + len(own), self.expression.lanes, 0, *scratch)
        store = _finish(b, self.x, self.expression, 4)
        image, weights = (_load(b, 1 + i, o) for i, o in enumerate(self.x.operands))
        if w.in_stages:
            WinogradKernel(b, w, shape, (0, 3, count), 0, image, weights, store).finishes(chunked=True)
        else:
            WinogradKernel(b, w, shape, (count, count + 1, count + 2), 3, image, weights, store).write()
        return Lowered(b.func(), (), own)


class WinogradTransform(_Winograd):
    """Transforms the tiles of an image: arguments are the result, the image, and scratch memory."""

    stage = "transform of images"

    def scratch(self, cache: KernelCache) -> tuple[int | bytes, ...]:
        return self.shape.scratch[2:]

    def write(self, cache: KernelCache) -> Lowered:
        b = cache.builder("winograd_transform", 3, self.shape.gemm().lanes, 0, 2)
        image = _load(b, 1, self.x.operands[0])
        WinogradKernel(b, self.shape, self.tile, (0, 0, 2), image=image).transforms(chunked=True)
        return Lowered(b.func(), (), self.scratch(cache))


class WinogradProducts(_Winograd):
    """The products: arguments are the result, the transformed image and the packed weights."""

    stage = "products"

    def write(self, cache: KernelCache) -> Lowered:
        b = cache.builder("winograd_products", 3, self.shape.gemm().lanes, 0)
        WinogradKernel(b, self.shape, self.tile, (1, 0, 0), packed=2).multiplies(chunked=True)
        return Lowered(b.func())


K = TypeVar("K", bound=_Winograd)


def depthwise_of(cache: KernelCache, shape: Depthwise, x: Instruction, expression: Expression) -> Kernel:
    """The kernel of the depthwise convolution `x`, finished as `expression`."""
    key = ("depthwise", expression.key, shape, *_shapes(x))
    return cache.find(key, lambda: DepthwiseConvolution(expression, shape, x))


def winograd_of(
    cache: KernelCache, side: int, x: Instruction, expression: Expression
) -> tuple[WinogradPack, WinogradConvolution, tuple[WinogradTransform, WinogradProducts] | None]:
    """The kernels of the convolution `x`, in tiles of so many results a side, finished as `expression`: the one that
    packs the weights and the one that finishes it, and of a convolution in stages the two before that."""
    w = winograd(x, side)
    shape = replace(tile(w.gemm(), cache.target), stripes=1)
    image, weights = _shapes(x)

    def made(kind: type[K], *key: object) -> K:
        return cache.find((kind, shape, *key), lambda: kind(expression, w, shape, x))

    pack = made(WinogradPack, w.tile, w.inputs, w.outputs, weights)
    finish = made(WinogradConvolution, expression.key, w, image, weights)
    stages = (made(WinogradTransform, w, image), made(WinogradProducts, w.gemm())) if w.in_stages else None
    return pack, finish, stages


def _shapes(x: Instruction) -> list[tuple[int, ...]]:
    return [o.shape.dimensions for o in x.operands]


def _source(number: int, x: Instruction) -> Source:
    dims = x.shape.dimensions
    return Source(number, x.shape.element_type, dims, row_major_strides(dims))


def _load(b: Builder, number: int, x: Instruction) -> Callable[[Index], Val]:
    """Returns a function that loads an element of an argument, the array `x`."""
    source = _source(number, x)
    return lambda index: b.load(number, source.position(index), source.dtype)


def _finish(b: Builder, x: Instruction, expression: Expression, first: int) -> Callable[[Index, Val], None]:
    """Returns a function that stores an element of `x`, finished as the expression has it; the sources of what finishes
    it are the arguments from number `first` on."""
    finish = Finish(b, x, expression.roots[0], expression, expression.arguments(first))

    def store(index: Index, value: Val) -> None:
        finish.store(tuple([ZERO if size == 1 else i for i, size in zip(index, x.shape.dimensions)]), value)

    return store
