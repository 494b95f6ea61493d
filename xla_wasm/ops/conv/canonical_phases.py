"""Convolutions of images with holes between their elements, as convolutions that meet no hole.

The windows of results that are a period apart meet elements of the image with the same taps, so that the results of a
phase of this period are a convolution of the image as it is by a part of the kernel. Phases are taken together, so that
few convolutions are left: those that read the same elements are features of one, any others groups of one, each of the
elements that it reads. What all of them give is interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, product
from math import gcd, prod

from ...dataclass import dataclass
from ...hlo.attrs import GatherDimensionNumbers, PaddingDimension, WindowDimension
from ...hlo.index_map import Dims
from ...hlo.ir import Instruction
from ...writing.writer import Writer
from .plan import is_thin

_MOST = 9
"""Convolutions that one is divided into, which bounds the module and the time to compile: three along each of two
dimensions, or two along each of three."""

_MOST_ALONE = 16
"""As `_MOST`, of depthwise convolutions, whose phases have the features in lanes if each is a convolution."""

Convolve = Callable[[Instruction, Instruction, Dims, int, Sequence[WindowDimension]], Instruction]
"""Makes a convolution without holes, in canonical order: of an image, by a kernel, with results of these dimensions, in
groups, by a window."""


@dataclass(frozen=True, slots=True)
class Part:
    """Phases along a dimension that are taken together."""

    phases: tuple[int, ...]
    taps: tuple[int, ...]
    """The first tap of each that meets an element."""
    window: WindowDimension
    """Over the image without holes, or over what each phase reads of it."""
    starts: tuple[int, ...] = ()
    """Of groups: the place in the image of the first element that each phase reads. Empty: all read the same, those of
    the window."""

    @property
    def groups(self) -> int:
        return max(1, len(self.starts))

    @property
    def columns(self) -> int:
        """Features for each of the convolution."""
        return 1 if self.starts else len(self.phases)


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases along one dimension."""

    side: WindowDimension
    period: int
    results: int
    """Of each phase."""
    first: int
    """Results of all phases before those of the convolution."""
    phases: tuple[tuple[int, int, int], ...]
    """Phases whose taps meet elements: the number of each, its first tap, and the place of the element it meets."""

    @property
    def apart(self) -> int:
        """Taps from one that meets an element to the next."""
        return self.side.base_dilation // gcd(self.side.window_dilation, self.side.base_dilation)

    @property
    def move(self) -> int:
        """Elements from those of one result to those of the next."""
        return self.side.stride * self.period // self.side.base_dilation if self.results > 1 else 1

    def taps(self, first: int) -> int:
        """The taps that meet elements."""
        return (self.side.size - first - 1) // self.apart + 1

    def dilation(self, taps: int) -> int:
        """Elements from that of a tap to that of the next of so many."""
        return self.side.window_dilation * self.apart // self.side.base_dilation if taps > 1 else 1

    def runs(self, inputs: int, alone: bool = False) -> list[Part]:
        """Neighbouring phases that read the same elements of an image of so many; `alone`: one phase each."""
        made: list[Part] = []
        for phase, tap, start in self.phases:
            taps = self.taps(tap)
            reach = (self.results - 1) * self.move + (taps - 1) * self.dilation(taps) + 1
            window = WindowDimension(taps, self.move, -start, start + reach - inputs, self.dilation(taps))
            if made and not alone and made[-1].window == window and (phase, tap) == _neighbour(made[-1]):
                made[-1] = Part((*made[-1].phases, phase), (*made[-1].taps, tap), window)
            else:
                made.append(Part((phase,), (tap,), window))
        return made

    def bundles(self) -> list[Part]:
        """Phases of as many taps."""
        made: list[Part] = []
        for taps in sorted({self.taps(tap) for _, tap, _ in self.phases}):
            own = [phase for phase in self.phases if self.taps(phase[1]) == taps]
            # What results share is read once, or what they do not read is left out.
            apart = WindowDimension(taps, taps if self.results > 1 else 1)
            window = apart if taps < self.move else WindowDimension(taps, self.move, 0, 0, self.dilation(taps))
            made.append(_bundle(own, window))
        return made

    def bundle(self) -> list[Part]:
        """All phases. Where one has a tap less than others, it is a zero that meets zeros."""
        most = max(self.taps(tap) for _, tap, _ in self.phases)
        return [_bundle(self.phases, WindowDimension(most, most if self.results > 1 else 1))]


def _neighbour(part: Part) -> tuple[int, int]:
    """The phase that might follow, and its first tap."""
    return part.phases[-1] + 1, part.taps[-1] - 1


def _bundle(phases: Sequence[tuple[int, int, int]], window: WindowDimension) -> Part:
    numbers, taps, starts = zip(*phases)
    return Part(numbers, taps, window, starts)


def phases(side: WindowDimension, outputs: int, shifted: bool = False) -> Phases:
    """The phases of a dimension of a window without reversal, with so many results.

    `shifted`: the first phase is the one that is the first to read an element, so that runs are longest, at the price
    of results before those of the convolution.
    """
    stride, holes = side.stride, side.base_dilation
    common = gcd(stride, holes)
    period = holes // common
    # So the first tap of the last phase is 0, and those of the others come before the same element.
    first = (-stride - side.padding_low // stride * stride) % holes // stride if shifted else 0
    inverse = pow(stride // common, -1, period)  # of the equation that a phase solves whose first tap is this one
    found: list[tuple[int, int, int]] = []
    used = min(period, first + outputs)  # of few results each is a phase
    for tap in range(min(side.size, holes // gcd(side.window_dilation, holes))):
        place = side.padding_low - tap * side.window_dilation
        phase = (first + place // common * inverse) % period
        if place % common == 0 and phase < used:
            found.append((phase, tap, ((phase - first) * stride - place) // holes))
    return Phases(side, used, -(-(first + outputs) // used), first, tuple(sorted(found)))


def in_phases(
    w: Writer,
    image: Instruction,
    kernel: Instruction,
    out: Dims,
    groups: int,
    window: Sequence[WindowDimension],
    convolve: Convolve,
) -> Instruction:
    """The convolution of operands in canonical order, with results of `out`, by a window without reversal over an image
    that may have holes."""
    split = _split(image, kernel, out, groups, window)
    rank, features, dtype = len(split), out[-1] // groups, w.x.shape.element_type
    dims = (out[0], *(p.results for p, _ in split))
    if not all(parts for _, parts in split):
        return w.full(dtype, out, 0)  # no tap meets an element

    def convolved(parts: Sequence[Part]) -> Instruction:
        """The results of these phases: [batch, results and phases of each dimension..., features]."""
        own = _kernel(w, kernel, split, parts, groups)
        read = _image(w, image, split, parts)
        of_groups, columns = [part.groups for part in parts], [part.columns for part in parts]
        to = (*dims, own.shape.dimensions[-1])
        made = convolve(read, own, to, groups * prod(of_groups), [part.window for part in parts])
        made = w.reshape(made, (*dims, *of_groups, groups, *columns, features))
        order = (*chain.from_iterable((1 + d, 1 + rank + d, 2 + 2 * rank + d) for d in range(rank)), 1 + 2 * rank)
        sizes = (n for d, part in enumerate(parts) for n in (dims[1 + d], len(part.phases)))
        return w.reshape(w.transpose(made, (0, *order, 2 + 3 * rank)), (out[0], *sizes, out[-1]))

    made = [convolved(parts) for parts in product(*(parts for _, parts in split))]
    for d in reversed(range(rank)):
        count = len(split[d][1])
        made = [w.concatenate(made[i : i + count], 2 + 2 * d) for i in range(0, len(made), count)]
    whole = _placed(w, made[0], [p for p, _ in split], [_numbers(parts) for _, parts in split], out)
    whole.mark(interleaved=True)
    return whole


def _split(
    image: Instruction, kernel: Instruction, out: Dims, groups: int, window: Sequence[WindowDimension]
) -> Sequence[tuple[Phases, list[Part]]]:
    """The phases along each dimension and how they are taken together, so that there are few convolutions that take the
    least time."""
    sides = [*zip(window, image.shape.dimensions[1:-1], out[1:-1])]
    *_, inputs, features = kernel.shape.dimensions
    plain = [phases(side, outputs) for side, _, outputs in sides]
    if is_thin(image.shape.element_type, inputs, features, groups):
        alone = [(p, p.runs(side[1], alone=True)) for p, side in zip(plain, sides)]
        if _count(alone) <= _MOST_ALONE:
            return alone
    choices: list[list[tuple[Phases, list[Part]]]] = [[(p, p.runs(side[1]))] for p, side in zip(plain, sides)]
    for way in (Phases.bundles, Phases.bundle):
        while _count([choice[0] for choice in choices]) > _MOST:
            d = max(range(len(sides)), key=lambda d: len(choices[d][0][1]))
            bundled = way(plain[d])
            if len(bundled) >= len(choices[d][0][1]):
                break
            choices[d] = [(plain[d], bundled)]
    for choice, (side, size, outputs) in zip(choices, sides):
        moved = phases(side, outputs, shifted=True)
        if choice[0][1] and not choice[0][1][0].starts and moved.first:
            choice.append((moved, moved.runs(size)))
    allowed = [split for split in product(*choices) if _count(split) <= _MOST]
    return min(allowed, key=lambda split: _cost(split, features // groups))


def _numbers(parts: Sequence[Part]) -> list[int]:
    """The numbers of all phases of these parts."""
    return [phase for part in parts for phase in part.phases]


def _count(split: Sequence[tuple[Phases, list[Part]]]) -> int:
    """The convolutions."""
    return prod(len(parts) for _, parts in split)


def _cost(split: Sequence[tuple[Phases, list[Part]]], features: int) -> int:
    """A measure of the time of all products: few columns take as long as eight, but for one or two."""
    cost = 0
    for parts in product(*(parts for _, parts in split)):
        columns = prod(part.columns for part in parts) * features
        taps = prod(part.window.size * part.groups for part in parts)
        cost += taps * (2 * columns if columns <= 2 else max(8, -(-columns // 4) * 4))
    return cost * prod(p.results for p, _ in split)


def _image(
    w: Writer, image: Instruction, split: Sequence[tuple[Phases, list[Part]]], parts: Sequence[Part]
) -> Instruction:
    """The elements that these phases read: [batch, elements..., groups of each dimension and inputs]."""
    sizes: list[int] = []
    for d, ((p, _), part) in enumerate(zip(split, parts)):
        at, size = 1 + 2 * d, image.shape.dimensions[1 + 2 * d]
        if part.starts:
            image, size = _gathered(w, image, at, p, part)
        dims = image.shape.dimensions
        image = w.reshape(image, (*dims[:at], part.groups, size, *dims[at + 1 :]))
        sizes.append(size)
    rank = len(parts)
    groups, elements = range(1, 1 + 2 * rank, 2), range(2, 2 + 2 * rank, 2)
    features = prod(part.groups for part in parts) * image.shape.dimensions[-1]
    image = w.transpose(image, (0, *elements, *groups, 1 + 2 * rank))
    return w.reshape(image, (image.shape.dimensions[0], *sizes, features))


def _gathered(w: Writer, image: Instruction, at: int, p: Phases, part: Part) -> tuple[Instruction, int]:
    """The elements along a dimension that each phase of a part reads, one phase's behind the other's, and how many each
    has."""
    taps, count = part.window.size, len(part.phases)
    own = [p.taps(tap) for tap in part.taps]
    low, masked = min(part.starts), min(own) < taps
    reach = max(part.starts) - low + (p.results - 1) * p.move + (taps - 1) * p.dilation(taps) + 1
    size = image.shape.dimensions[at]
    padding = [PaddingDimension()] * image.shape.rank
    high = low + reach - size  # that a zero comes after the image, it is not cut
    padding[at] = PaddingDimension(-low, max(0, high) + 1 if masked else high)
    image = w.pad(image, w.scalar(image.shape.element_type, 0), padding)

    starts = w.constant("s32", [start - low for start in part.starts])
    dims: Dims
    if part.window == WindowDimension(taps, taps if p.results > 1 else 1):
        dims = (count, p.results, taps)
        index = w.add(w.broadcast(starts, dims, (0,)), w.mul(w.iota("s32", dims, 1), p.move))
        index = w.add(index, w.mul(w.iota("s32", dims, 2), p.dilation(taps)))
        if masked:
            meets = w.compare("LT", w.iota("s32", dims, 2), w.broadcast(w.constant("s32", own), dims, (0,)))
            index = w.select(meets, index, image.shape.dimensions[at] - 1)
    else:
        dims = (count, (p.results - 1) * p.move + (taps - 1) * p.dilation(taps) + 1)
        index = w.add(w.broadcast(starts, dims, (0,)), w.iota("s32", dims, 1))
    return _take(w, image, at, w.reshape(index, (prod(dims),))), prod(dims[1:])


def _kernel(
    w: Writer,
    kernel: Instruction,
    split: Sequence[tuple[Phases, list[Part]]],
    parts: Sequence[Part],
    groups: int,
) -> Instruction:
    """The taps of these phases: [taps..., inputs, features of each group, of one phase after the other]."""
    rank = len(split)
    for d in reversed(range(rank)):
        p, part, dims = split[d][0], parts[d], kernel.shape.dimensions
        apart, taps, tap = p.apart, part.window.size, part.taps[-1]

        if len(part.taps) == 1:
            none, one = (0,) * len(dims), (1,) * len(dims)
            start, limit = _with(none, d, tap), _with(dims, d, tap + (taps - 1) * apart + 1)
            kernel = w.slice(kernel, start, limit, _with(one, d, apart))
            kernel = w.reshape(kernel, (*dims[:d], taps, 1, *dims[d + 1 :]))
            continue
        blocks = -(-dims[d] // apart)
        if dims[d] % apart:
            more = PaddingDimension(0, blocks * apart - dims[d])
            padding = [more if i == d else PaddingDimension() for i in range(len(dims))]
            kernel = w.pad(kernel, w.scalar(kernel.shape.element_type, 0), padding)
        kernel = w.reshape(kernel, (*dims[:d], blocks, apart, *dims[d + 1 :]))
        kernel = w.slice_dim(kernel, d, 0, taps)
        if part.starts:
            kernel = _take(w, kernel, d + 1, w.constant("s32", part.taps))
        else:
            kernel = w.slice_dim(kernel, d + 1, tap, tap + len(part.taps))
            kernel = w.reverse(kernel, (d + 1,))
    *spatial, inputs, outputs = kernel.shape.dimensions
    kernel = w.reshape(kernel, (*spatial, inputs, groups, outputs // groups))
    of_groups, columns = ([1 + 2 * d for d in range(rank) if bool(parts[d].starts) == which] for which in (True, False))
    order = (*range(0, 2 * rank, 2), 2 * rank, *of_groups, 2 * rank + 1, *columns, 2 * rank + 2)
    return w.reshape(w.transpose(kernel, order), (*spatial[::2], inputs, outputs * prod(spatial[1::2])))


def _placed(
    w: Writer, made: Instruction, split: Sequence[Phases], places: Sequence[Sequence[int]], out: Dims
) -> Instruction:
    """The results of a convolution, of those of its phases at these places along each dimension: zeros where no tap
    meets an element."""
    zero = w.scalar(made.shape.element_type, 0)
    none = [PaddingDimension()] * made.shape.rank
    padding = none[:]
    order: dict[int, list[int]] = {}
    for d, (p, own) in enumerate(zip(split, places), 1):
        if len(own) == 1:
            continue
        apart = own[1] - own[0]
        if apart > 0 and own == [*range(own[0], own[-1] + 1, apart)]:
            padding[2 * d] = PaddingDimension(own[0], p.period - 1 - own[-1], apart - 1)
        else:
            where = {phase: i for i, phase in enumerate(own)}
            order[2 * d] = [where.get(phase, len(own)) for phase in range(p.period)]
            padding[2 * d] = PaddingDimension(0, int(len(own) < p.period))
    if padding != none:
        made = w.pad(made, zero, padding)
    for d, index in order.items():
        made = _take(w, made, d, w.constant("s32", index))

    # Along dimensions with one phase, zeros come between the results of the convolution.
    single = [len(own) == 1 for own in places]
    sizes = [p.results * (1 if alone else p.period) for p, alone in zip(split, single)]
    made = w.reshape(made, (out[0], *sizes, out[-1]))
    start = [0 if alone else p.first for p, alone in zip(split, single)]
    limit = [size if alone else at + n for size, alone, at, n in zip(sizes, single, start, out[1:])]
    if (start, limit) != ([0] * len(sizes), sizes):
        made = w.slice(made, (0, *start, 0), (out[0], *limit, out[-1]))
    between = [PaddingDimension()] * made.shape.rank
    for d, (p, own) in enumerate(zip(split, places), 1):
        if len(own) == 1:
            low = own[0] - p.first
            between[d] = PaddingDimension(low, out[d] - low - (p.results - 1) * p.period - 1, p.period - 1)
    return w.pad(made, zero, between) if between != none[: len(between)] else made


def _take(w: Writer, x: Instruction, dimension: int, index: Instruction) -> Instruction:
    """The elements of these indices along a dimension."""
    others = tuple([d for d in range(x.shape.rank) if d != dimension])
    numbers = GatherDimensionNumbers(others, (dimension,), (dimension,), 1)
    sizes = _with(x.shape.dimensions, dimension, 1)
    return w.op("gather", x, index, gather_dimension_numbers=numbers, slice_sizes=sizes)


def _with(sizes: Dims, d: int, n: int) -> Dims:
    """The sizes with another one in one place."""
    return (*sizes[:d], n, *sizes[d + 1 :])
