"""reduce-window as an expression, select-and-scatter as a kernel."""

from __future__ import annotations

from functools import partial, reduce

from ...hlo.attrs import WindowDimension
from ...hlo.ir import Instruction
from ...loop.affine import Affine, Index, linearize
from ...loop.builder import Builder
from ...loop.ir import Val
from ...loop.nest import fold, nest, scalar_nest
from ...lowering.elemental import Elemental
from ...lowering.kernel_writer import KernelWriter
from ...lowering.source import pin
from .lower_cumulative import cumulative_kernel
from .lower_sliding import sliding, sliding_kernel
from .prefixes import cumulative


def _place(b: Builder, x: Instruction, index: Index, inner: Index) -> tuple[Index, list[Val]]:
    """The place in the operand of one element of the window at `index`, brought inside, and what holds if it has
    one."""
    place, masks = [], []
    for i, k, w, size in zip(index, inner, x.attrs["window"].dimensions, x.operands[0].shape.dimensions):
        position = i * w.stride + k * w.window_dilation - w.padding_low
        if w.base_dilation > 1:
            value = b.index_value(position)
            dilation = b.const("s32", w.base_dilation)
            masks.append(b.eq(b.rem(value, dilation), b.const("s32", 0)))
            masks.append(b.ge(value, b.const("s32", 0)))
            position = Affine.of(b.div(value, dilation))
        position, inside = b.inside(position, size)
        place.append(position)
        if inside is not None:
            masks.append(inside)
    return tuple(place), masks


def _reduce_window(e: Elemental, x: Instruction, index: Index) -> Val | list[Val]:
    b, count = e.b, len(x.operands) // 2
    inits = [e.value(i, ()) for i in x.operands[count:]]
    lanes = b.lanes_at(index)

    def step(inner: Index, acc: list[Val]) -> list[Val]:
        place, masks = _place(b, x, index, inner)
        new = e.apply(x.called[0], acc + [e.value(o, place) for o in x.operands[:count]])
        for mask in masks:
            new = [b.select(mask, n, a) for n, a in zip(new, acc)]
        return new

    results = fold(b, tuple(w.size for w in x.attrs["window"].dimensions), inits, lanes, step)
    return results if x.shape.is_tuple else results[0]


def reduce_window_kernel(k: KernelWriter, x: Instruction) -> None:
    """A walk where every window is a whole prefix or suffix, or doubling steps; else each window by itself."""
    walk = cumulative(x)
    if walk is not None:
        cumulative_kernel(k, x, walk)
        return
    along = sliding(x)
    if along is not None:
        sliding_kernel(k, x, along)
        return

    def element(index: Index) -> None:
        value = k.e.value(x, index)
        for leaf, v in enumerate(value if isinstance(value, list) else [value]):
            k.store(x, index, pin(k.b, v), leaf)

    nest(k.b, next(s.dimensions for _, s in x.shape.leaves()), element, chunked=True)


def select_and_scatter_kernel(k: KernelWriter, x: Instruction) -> None:
    """Fills the result with the init, then adds each source element where its window's chosen element lies.

    Several operands, sources and inits (the parts of complex numbers) go together; then the result is a tuple.
    """
    b, e = k.b, k.e
    count = len(x.operands) // 3
    operands, sources, inits = x.operands[:count], x.operands[count : 2 * count], x.operands[2 * count :]
    window = x.attrs["window"].dimensions
    select, scatter = x.called
    out = sources[0].shape.dimensions
    dtypes = [s.element_type for _, s in x.shape.leaves()]
    for leaf, init in enumerate(inits):
        fill = e.value(init, ())
        nest(b, operands[0].shape.dimensions, partial(k.store, x, value=fill, leaf=leaf))
    sizes = tuple(w.size for w in window)

    def ordinal(inner: Index) -> Val:
        """The number of an element of a window."""
        return b.index_value(linearize(inner, sizes))

    def body(index: Index) -> None:
        lanes = b.lanes if b.vector is not None else 1

        def choose(inner: Index, acc: list[Val]) -> list[Val]:
            *best, chosen = acc
            position, masks = _place(b, x, index, inner)
            candidates = [e.value(o, position) for o in operands]
            first = b.lt(chosen, b.const("s32", 0))
            keep = e.apply(select, [*best, *candidates])[0]
            take = reduce(b.and_, masks, b.or_(first, b.not_(keep)))
            taken = [b.select(take, new, old) for new, old in zip(candidates, best)]
            return [*taken, b.select(take, ordinal(inner), chosen)]

        *_, chosen = fold(b, sizes, [*(b.const(t, 0) for t in dtypes), b.const("s32", -1)], lanes, choose)
        chosen = pin(b, chosen)
        values = [e.value(source, index) for source in sources]
        targets = k.outputs[x]

        def put(inner: Index, acc: list[Val]) -> list[Val]:
            position, _ = _place(b, x, index, inner)
            spots = [t.position(position) for t in targets]
            old = [b.load(t.number, spot, t.dtype) for t, spot in zip(targets, spots)]
            hit = b.eq(chosen, ordinal(inner))
            new = [b.pin(b.select(hit, v, o)) for v, o in zip(e.apply(scatter, [*old, *values]), old)]
            for t, spot, v in zip(targets, spots, new):
                b.store(t.number, spot, v, t.dtype)
            return acc

        fold(b, sizes, [], lanes, put)

    # Windows of neighbouring positions may meet in one element, so only a dimension without windows runs in lanes.
    w = window[-1] if window else WindowDimension(size=0)
    alone = w.size == w.stride == 1 and not (w.padding_low or w.padding_high)
    (nest if alone and out[-1] >= b.lanes else scalar_nest)(b, out, body)


ELEMENTAL = {"reduce-window": _reduce_window}
KERNELS = {"reduce-window": reduce_window_kernel, "select-and-scatter": select_and_scatter_kernel}
