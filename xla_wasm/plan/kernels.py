"""From a materialized instruction to its kernel: lowered once for all that are alike."""

from __future__ import annotations

from collections.abc import Callable, Container
from math import prod
from typing import Any

from ..dataclass import dataclass
from ..hlo.index_map import row_major_strides
from ..hlo.ir import Computation, Instruction
from ..hlo.types import REAL_OF, TYPES
from ..loop.affine import ZERO, Affine, Index
from ..loop.builder import WIDE, Builder
from ..loop.interleave import interleave
from ..loop.ir import Func
from ..loop.nest import nest, scalar_nest
from ..loop.tiling import Tile, nest_in_tiles
from ..lowering.elemental import Elemental
from ..lowering.kernel import Kernel
from ..lowering.source import Scratch, Source, pin
from ..lowering.table import ELEMENTAL, ELEMENTWISE, KERNELS, LANES
from ..ops.reading import record
from ..ops.reduce.lower_columns import ColumnSums, columns, columns_in_memory
from ..target import V8, Target
from .cost import RECOMPUTED
from .fit import row_place
from .group import Group
from .order import nest_in_blocks, nest_in_chunks, row_by_row, rows_across, together, work
from .plan import COPY, View

_WIDE = frozenset(name for name in TYPES if REAL_OF.get(name, name) in WIDE)
"""Types of which an element, or a part of a complex one, has 64 bits."""


@dataclass(slots=True)
class Lowered:
    """A lowered kernel: the function, and which inputs (by their number among the arguments) a result may overwrite."""

    func: Func
    in_place: tuple[int, ...]
    scratch: tuple[int | bytes, ...] = ()
    """Sizes in bytes of the scratch rows that follow the sources among the arguments; or the first content of what
    outlives a run."""


class KernelCache:
    """Kernels by what they compute. The key is taken before lowering, so equal layers of a model are lowered once."""

    def __init__(self, target: Target):
        self.target = target
        self.lowered: dict[Any, Lowered] = {}
        self.funcs: dict[str, Func] = {}
        self._computations: dict[Computation, Any] = {}
        self._counts: dict[str, int] = {}

    def name(self, base: str) -> str:
        """A function name that is not taken."""
        n = self._counts.get(base, 1)
        name = base if n == 1 else f"{base}.{n}"
        while name in self.funcs or name == COPY:
            n += 1
            name = f"{base}.{n}"
        self._counts[base] = n
        return name

    def keep(
        self, key: Any, func: Func, scratch: tuple[int | bytes, ...] = (), in_place: tuple[int, ...] = ()
    ) -> Lowered:
        """Adds a kernel; returns it."""
        self.funcs[func.name] = func
        lowered = self.lowered[key] = Lowered(func, in_place, scratch)
        return lowered

    def computation_key(self, computation: Computation) -> Any:
        """A computation's content, names aside."""
        found = self._computations.get(computation)
        if found is None:
            number = {x: i for i, x in enumerate(computation.instructions)}
            found = tuple((_own_key(x, self), tuple(number[o] for o in x.operands)) for x in computation.instructions)
            found = self._computations[computation] = (found, number[computation.root])
        return found


class Expression:
    """The computation of the kernel of `roots`: its instructions in a fixed order, down to what `available` finds in a
    buffer, those sources, and the key of it all. The operands of `given` are left out: the kernel reads them in its own
    way, or not at all."""

    def __init__(
        self,
        cache: KernelCache,
        roots: list[Instruction],
        available: Callable[[Instruction], View | None],
        given: Instruction | None = None,
        unread: frozenset[Instruction] = frozenset(),
    ):
        self.roots = roots
        self.unread = unread
        self.sources: dict[Instruction, View] = {}
        numbers: dict[Instruction, int] = {}
        key: list[Any] = []

        def view(x: Instruction) -> bool:
            found = available(x)
            if found is None:
                return False
            if x not in numbers:
                numbers[x] = len(numbers)
                self.sources[x] = found
                key.append(("source", found.dtype, found.dims, found.strides))
            return True

        def hold(x: Instruction) -> None:
            numbers[x] = len(numbers)
            key.append((_own_key(x, cache), tuple(numbers.get(o, -1) for o in x.operands)))

        self.inner = computed(roots, view, given, unread, hold)
        self.lanes = lanes_of(self.inner)
        left_out = tuple([i for i, o in enumerate(given.operands) if o in unread]) if given is not None else ()
        self.key = (tuple(key), tuple(numbers[r] for r in roots), left_out)
        dense = all(v.size == 1 or v.size == roots[0].shape.size for v in self.sources.values())
        self.flat = dense and is_flat(roots, self.inner)


def computed(
    roots: list[Instruction],
    available: Callable[[Instruction], bool],
    given: Instruction | None = None,
    unread: Container[Instruction] = (),
    hold: Callable[[Instruction], None] | None = None,
) -> list[Instruction]:
    """The instructions that a kernel of these results computes, operands first, down to what is `available`.

    The operands of `given` that are `unread` are left out. `hold` is called for each as it is found.
    """
    found: dict[Instruction, None] = {}
    for root in roots:
        if root not in found:
            _compute(root, found, available, given, unread, hold)
    return list(found)


def _compute(
    x: Instruction,
    found: dict[Instruction, None],
    available: Callable[[Instruction], bool],
    given: Instruction | None,
    unread: Container[Instruction],
    hold: Callable[[Instruction], None] | None,
) -> None:
    """Adds `x` to what is `found`, behind the operands that it is computed from. No closure: those that call themselves
    are garbage that only a collection finds."""
    for o in x.operands:
        if o not in found and not (x is given and o in unread) and not available(o):
            _compute(o, found, available, given, unread, hold)
    found[x] = None
    if hold is not None:
        hold(x)


def lanes_of(inner: list[Instruction]) -> int:
    """Returns the number of elements in a vector of a kernel: half as many where any of its values has 64 bits."""
    return 2 if any(map(_is_wide, {x: None for y in inner for x in (y, *y.operands)})) else 4


def is_flat(roots: list[Instruction], inner: list[Instruction]) -> bool:
    """Returns True if every array has the elements of the results in the same order, or one element: one loop over all
    of them."""
    size = roots[0].shape.size
    for x in inner:
        about = record(x)
        if about.view:
            (o,) = x.operands
            if o.shape.size != 1 and (
                o.shape.size != size or x.shape.size != size or not about.reads(x)[0].map.keeps_order
            ):
                return False
        elif x.literal is None and not (about.elementwise and x.shape.size in (1, size)):
            return False
    return True


def _own_key(x: Instruction, cache: KernelCache) -> Any:
    attrs: Any
    if x.literal is not None:
        attrs = bytes(x.literal.data) if x.shape.bytes <= 64 else (repr(x.literal.splat_value()), x.shape.bytes)
    else:
        attrs = tuple((k, v) for k, v in x.attrs.items() if k not in ("sharding", "backend_config"))
    called = tuple(cache.computation_key(c) for c in x.called)
    return x.opcode, x.shape.element_type, tuple(s.dimensions for _, s in x.shape.leaves()), attrs, called


def _is_wide(x: Instruction) -> bool:
    shape = x.shape
    if shape.element_type in _WIDE or shape.tuple_shapes and any(s.element_type in _WIDE for s in shape.tuple_shapes):
        return True
    return bool(x.called) and any(_is_wide(y) for c in x.called for y in c.instructions)


class _Flat(Elemental):
    """Evaluates over one loop through all elements: an index is a row-major position, or () for a scalar."""

    def _compute(self, x: Instruction, index: Index) -> Any:
        source = self.sources.get(x)
        if source is not None:
            return self.load(source, index[0] if x.shape.size > 1 else ZERO, source.dtype)
        return self.expression(x, index)

    def expression(self, x: Instruction, index: Index) -> Any:
        if not record(x).elementwise:
            return self.value(x.operands[0], index) if x.operands else super().expression(x, index)
        fused = self.fused(x)
        operands = [self.value(o, index) for o in fused or x.operands]
        return self.b.contracted(*operands) if fused else ELEMENTWISE[x.opcode](self.b, x, *operands)


def lower_kernel(
    cache: KernelCache, expression: Expression, group: Group | None = None, strides: tuple[int, ...] | None = None
) -> Lowered:
    """The kernel of an expression: its results are the first arguments, its sources follow in order, then scratch rows.

    `group` says which loops its members share, `strides` how the result lies if not in row-major order.
    """
    alone = row_by_row(expression.roots[0], expression.inner, expression.lanes) if group is None else None
    full, rows = (group.full, group.rows) if group is not None else alone or (None, None)
    kept = group.kept if group is not None else []
    flat = rows is None and expression.flat
    key = (expression.key, flat, full, rows, strides)
    found = cache.lowered.get(key)
    if found is not None:
        return found
    root = expression.roots[0]
    outputs: dict[Instruction, tuple[Source, ...]] = {}
    number = 0
    for r in expression.roots:
        leaves = []
        for _, shape in r.shape.leaves():
            dims = (shape.size,) if flat else shape.dimensions
            leaves.append(Source(number, shape.element_type, dims, strides or row_major_strides(dims)))
            number += 1
        outputs[r] = tuple(leaves)
    sources = {x: Source(number + i, v.dtype, v.dims, v.strides) for i, (x, v) in enumerate(expression.sources.items())}
    count = number + len(sources)
    scratch = {x: Scratch(count + i, rows or 0) for i, x in enumerate(kept)}
    written = frozenset((*range(number), *(s.number for s in scratch.values())))
    b = Builder(
        cache.name(_kernel_name(root)),
        count + len(scratch),
        LANES.get(root.opcode, expression.lanes),
        cache.target,
        written,
    )
    in_place: tuple[int, ...] = ()
    kernel = Kernel(
        b,
        _Flat(b, sources, ELEMENTAL) if flat else Elemental(b, sources, ELEMENTAL, scratch),
        outputs,
        expression.unread,
    )
    special = KERNELS.get(root.opcode)
    if rows is not None and full is not None:
        _lower_rows(kernel, expression, full, rows)
    elif special is not None:
        special(kernel, root)
    else:
        in_place = _lower_nest(kernel, expression, group, sources, padded=flat)
    own = kernel.scratch_bytes
    func = b.func()
    if cache.target.tune == V8:
        interleave(func)
    sizes = (*(x.shape.bytes // prod(full[:rows]) for x in kept), *own) if full is not None else tuple(own)
    return cache.keep(key, func, sizes, in_place)


def _lower_nest(
    kernel: Kernel, expression: Expression, group: Group | None, sources: dict[Instruction, Source], padded: bool
) -> tuple[int, ...]:
    """Loops over the elements of the results; the inputs that the first one may overwrite: those read only where it is
    written."""
    roots = expression.roots
    first = kernel.outputs[roots[0]][0]
    sums = set[Instruction]()
    for x in expression.inner:
        if record(x).accumulates or not sums.isdisjoint(x.operands):
            sums.add(x)
    early = [x for x in group.members if x in sums] if group is not None else []
    """Before the loops of what reads it: inside them it would be computed in each turn."""
    reads = kernel.e.reads
    elsewhere: set[int] = set()

    def element(index: Index) -> None:
        reads.clear()
        for x in early:
            pin(kernel.b, kernel.e.value(x, index))
        _store_roots(kernel, roots, index)
        written = {(first.position(index), TYPES[first.dtype].bytes)}
        elsewhere.update(number for number, places in reads.items() if places != written)

    beside = together(expression.inner, sums, first.dims, kernel.b.lanes)
    rows = (
        None if padded or sums else rows_across(expression.roots, expression.inner, sources, first.dims, kernel.b.lanes)
    )
    if rows is not None:

        def in_tile(index: Index, tile: Tile | None) -> None:
            kernel.e.tile = tile
            element(index)

        nest_in_tiles(kernel.b, first.dims, rows, in_tile, wide=work(expression.inner) <= RECOMPUTED)
        # Rows of tiles are written before others are read, some of them element by element.
        return ()
    if beside is None:
        nest(kernel.b, first.dims, element, padded=padded, chunked=True)
        return tuple(s.number for s in sources.values() if s.number not in elsewhere)
    x, count = beside
    width = columns_in_memory(x, len(expression.inner) - len(sums))
    if width:
        columns_of = ColumnSums(kernel, x)

        def chunk(before: Index, start: Affine, size: int) -> None:
            reads.clear()
            total = columns_of.chunk(before, start, size)
            elsewhere.update(reads)

            def finish(i: Index) -> None:
                index = (*before, start + i[0])
                kernel.e.memo[x, index] = kernel.b.pin(kernel.e.load(total, total.position(i), total.dtype))
                element(index)

            nest(kernel.b, (size,), finish)

        nest_in_chunks(kernel.b, first.dims, width, chunk, element)
    else:

        def block(indices: list[Index]) -> None:
            reads.clear()
            for index, value in zip(indices, columns(kernel.e, x, indices)):
                kernel.e.memo[x, index] = kernel.b.pin(value)
            elsewhere.update(reads)
            for index in indices:
                element(index)

        nest_in_blocks(kernel.b, first.dims, count, block, element)
    return tuple(s.number for s in sources.values() if s.number not in elsewhere)


def _lower_rows(kernel: Kernel, expression: Expression, full: tuple[int, ...], rows: int) -> None:
    """Loops over rows: first what is one value per row, reductions among it, then the elements of the row."""
    b, e = kernel.b, kernel.e
    row_dims = full[:rows]
    reductions = [x for x in expression.inner if record(x).accumulates]
    per_row = [r for r in expression.roots if r.shape.dimensions != full]
    per_element = [r for r in expression.roots if r not in per_row]

    def at(x: Instruction, row: Index) -> Index:
        place = row_place(x, row, row_dims)
        assert place is not None, "the plan has followed it"
        return place

    def row(index: Index) -> None:
        for s in e.scratch.values():
            s.filled = False
        e.row, e.row_depth = index, len(b.stack)
        for x in reductions:
            pin(b, e.value(x, at(x, index)))
            for s in e.scratch.values():
                s.filled = s.filled or s.touched
        for r in per_row:
            _store_leaves(kernel, r, at(r, index))
        if per_element:
            nest(b, full[rows:], lambda i: _store_roots(kernel, per_element, i), done=index)

    scalar_nest(b, row_dims, row, chunked=True)


def _store_roots(kernel: Kernel, roots: list[Instruction], index: Index) -> None:
    if len(roots) == 1:
        _store_leaves(kernel, roots[0], index)
        return
    # All are computed before any is stored: a result may lie where an input lay.
    values = [pin(kernel.b, kernel.e.value(r, index)) for r in roots]
    for r, value in zip(roots, values):
        kernel.store(r, index, value)


def _store_leaves(kernel: Kernel, root: Instruction, index: Index) -> None:
    value = kernel.e.value(root, index)
    if not root.shape.is_tuple:
        kernel.store(root, index, value)
        return
    for leaf, v in enumerate(pin(kernel.b, value)):
        kernel.store(root, index, v, leaf)


def _kernel_name(x: Instruction) -> str:
    return x.opcode.replace("-", "_")
