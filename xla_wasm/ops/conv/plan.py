"""A convolution's parameters for the kernels that are no products of matrices, or not of its image as it lies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from ...dataclass import dataclass
from ...hlo.attrs import WindowDimension
from ...hlo.index_map import Dims
from ...hlo.ir import Instruction
from ...hlo.types import PRODUCT_TYPES

PIXELS = 4
"""Pixels of a block: as many sums as hide an addition's latency, and no more than registers hold beside what they
read."""

_MAX_CODE = 400
"""Multiply-adds that a kernel may spell out, so that its function has at most about 8 KB."""

_MAX_SUMS = 16
"""Results for each feature that are so few that one walk over the image takes the sums of all."""

_MAX_BORDER = 16
"""Outputs along a dimension whose windows reach beyond the image."""

Inside = tuple[bool, ...]
"""For each tap along a dimension whether it meets the image."""


@dataclass(frozen=True, slots=True)
class Side:
    """One spatial dimension: sizes of result and image, the window's taps, and how many elements the first lie before
    the image."""

    outputs: int
    inputs: int
    taps: int
    stride: int
    dilation: int
    low: int

    def inside(self, output: int) -> Inside:
        """Returns the taps of an output's window that meet the image."""
        start = output * self.stride - self.low
        return tuple([0 <= start + tap * self.dilation < self.inputs for tap in range(self.taps)])

    def spans(self) -> list[tuple[int, int, Inside]]:
        """Neighbouring outputs of which the same taps meet the image: the first, their number, and these taps."""
        return [(first, count, inside) for first, count, _, (inside,) in self.blocks(1)]

    def whole(self) -> tuple[int, int]:
        """The outputs whose whole windows lie in the image: the first, and the one after the last."""
        reach = self.inputs - 1 - (self.taps - 1) * self.dilation + self.low
        first = min(max(0, -(-self.low // self.stride)), self.outputs)
        return first, max(first, min(self.outputs, reach // self.stride + 1))

    def blocks(self, pixels: int) -> list[tuple[int, int, int, tuple[Inside, ...]]]:
        """Blocks of `pixels` outputs, the last perhaps of fewer: the first output, how many such blocks follow each
        other, the pixels of each, and for each pixel which taps meet the image."""
        made: list[tuple[int, int, int, tuple[Inside, ...]]] = []
        first, end = self.whole()
        i = 0
        while i < self.outputs:
            size = min(pixels, self.outputs - i)
            count = (end - i) // size if first <= i and i + size <= end else 1
            taps = tuple([self.inside(j) for j in range(i, i + size)])
            if made and made[-1][2:] == (size, taps):
                made[-1] = made[-1][0], made[-1][1] + count, size, taps
            else:
                made.append((i, count, size, taps))
            i += count * size
        return made


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A convolution of [batch, spatial..., features] with a kernel [spatial..., inputs, features] in groups: of one
    feature each in the image and the result, or of so few that those of four results lie in one or two vectors."""

    dtype: str
    batch: int
    sides: tuple[Side, ...]
    features: int
    """Of the result."""
    inputs: int = 1
    """Features of the image in a group."""
    outputs: int = 1
    """Features of the result in a group."""

    @property
    def results(self) -> int:
        """The results for each image and feature."""
        return prod(side.outputs for side in self.sides)

    @property
    def walks(self) -> bool:
        """True if the window is nearly the whole image, as in a gradient of weights: its taps are loops then, and few
        results are left."""
        return self.code > _MAX_CODE

    def pixels(self, rows: Sequence[Inside]) -> int:
        """The pixels of a block in rows of which these taps meet the image. Rows at the border are few: what they take
        is code more than time, but for small images."""
        return PIXELS if all(map(all, rows)) else 2 if max(side.outputs for side in self.sides) <= 16 else 1

    @property
    def code(self) -> int:
        """The multiply-adds that the kernel spells out."""
        *rows, columns = self.sides
        classes = product(*([inside for _, _, inside in side.spans()] for side in rows))
        unrolled = sum(pixels for inside in classes for _, _, pixels, _ in columns.blocks(self.pixels(inside)))
        return unrolled * prod(side.taps for side in self.sides) * self.inputs


def depthwise(x: Instruction) -> Depthwise | None:
    """The product `x` as a depthwise convolution, if it is one, of canonical order of dimensions, whose kernel is not
    too long."""
    return depthwise_of(*_form(x)) if x.opcode == "convolution" else None


def _form(x: Instruction) -> tuple[str, Dims, Dims, Dims, int, Sequence[WindowDimension]]:
    """The type of a convolution; the dimensions of image, kernel and result; its groups and its window."""
    image, kernel = (o.shape.dimensions for o in x.operands)
    window = x.attrs["window"].dimensions
    return x.shape.element_type, image, kernel, x.shape.dimensions, x.attrs["feature_group_count"], window


def depthwise_of(
    dtype: str, image: Dims, kernel: Dims, out: Dims, groups: int, window: Sequence[WindowDimension]
) -> Depthwise | None:
    """As `depthwise`, of a convolution with these dimensions in canonical order: with results, and without
    reversal."""
    features, inputs = kernel[-1], kernel[-2]
    if not window or dtype not in PRODUCT_TYPES or not is_thin(dtype, inputs, features, groups):
        return None
    if any(w.base_dilation != 1 for w in window):
        return None
    sides = [
        Side(o, i, w.size, w.stride, w.window_dilation, w.padding_low)
        for o, i, w in zip(out[1:-1], image[1:-1], window)
    ]
    if any(side.outputs - (side.whole()[1] - side.whole()[0]) > _MAX_BORDER for side in sides):
        return None
    found = Depthwise(dtype, out[0], tuple(sides), features, inputs, features // groups)
    walks = (
        groups == features == image[-1]
        and all(side.whole() == (0, side.outputs) for side in sides)
        and found.results <= _MAX_SUMS
    )
    return found if walks or not found.walks else None


def is_thin(dtype: str, inputs: int, features: int, groups: int) -> bool:
    """Returns True if groups have one feature, or so few that shuffles of vectors bring those of the image to the lanes
    of the result."""
    outputs = features // groups
    if inputs == outputs == 1:
        return groups > 1
    fits = inputs % outputs == 0 and 4 % outputs == 0 and 4 // outputs * inputs in (4, 8)
    return groups > 1 and fits and features % 4 == 0 and dtype != "f64"


_LEAST = 16
"""Features, of image and result, from which transforms cost less than they save."""
_MOST_PADDING = 2
_FEW = 12
"""Tiles so few that reading the transformed weights takes longer than the products."""


def winograd_tile(x: Instruction) -> int:
    """In tiles of how many results a side the product `x`, of canonical order of dimensions, is to be computed by
    Winograd's algorithm; 0: directly."""
    return winograd_tile_of(x.marks.winograd, *_form(x)) if x.opcode == "convolution" else 0


def winograd_tile_of(
    most: int, dtype: str, image: Dims, kernel: Dims, out: Dims, groups: int, window: Sequence[WindowDimension]
) -> int:
    """As `winograd_tile`, of a convolution with these dimensions in canonical order, with results and without reversal,
    in tiles of at most so many results a side."""
    if dtype != "f32" or groups > 1 or len(window) != 2 or 0 in image:
        return 0
    if any(w.size != 3 or w.stride != 1 or w.window_dilation != 1 or w.base_dilation != 1 for w in window):
        return 0
    if any(not 0 <= p <= _MOST_PADDING for w in window for p in (w.padding_low, w.padding_high)):
        return 0
    if any(features < _LEAST or features % 4 for features in kernel[2:]):
        return 0
    batch, height, width, _ = out
    for side in range(most, 1, -2):
        tiles = batch * -(-height // side) * -(-width // side)
        # Larger tiles have more weights to read, and more results that nobody needs.
        if tiles >= (_FEW if side == 2 else 4 * _FEW) and tiles * side**2 <= 1.5 * batch * height * width:
            return side
    return 0
