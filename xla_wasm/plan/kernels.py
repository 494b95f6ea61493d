"""From a materialized instruction to its kernel: lowered once for all that are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..hlo.ir import Computation, Instruction
from ..hlo.types import TYPES
from ..loop.affine import Affine
from ..loop.builder import WIDE, Builder
from ..loop.elemental import Elemental, Index, Source
from ..loop.ir import Func
from ..loop.nest import Kernel, nest
from ..ops.lowering import ELEMENTWISE, KERNELS
from .plan import View, row_major_strides


@dataclass(slots=True)
class Lowered:
    """A lowered kernel: the function, and which inputs (by their number among the arguments) a result may overwrite."""

    func: Func
    in_place: tuple[int, ...]


class KernelCache:
    """Kernels by what they compute. The key is taken before lowering, so equal layers of a model are lowered once."""

    def __init__(self, relaxed: bool, tune: str):
        self.relaxed = relaxed
        self.tune = tune
        self.lowered: dict[Any, Lowered] = {}
        self.funcs: dict[str, Func] = {}
        self._computations: dict[Computation, Any] = {}

    def name(self, base: str) -> str:
        """A function name that is not taken."""
        name, n = base, 1
        while name in self.funcs:
            n += 1
            name = f"{base}.{n}"
        return name

    def computation_key(self, computation: Computation) -> Any:
        """A computation's content, names aside."""
        found = self._computations.get(computation)
        if found is None:
            number = {x: i for i, x in enumerate(computation.instructions)}
            found = tuple((_own_key(x, self), tuple(number[o] for o in x.operands)) for x in computation.instructions)
            found = self._computations[computation] = (found, number[computation.root])
        return found


class Expression:
    """What the kernel of `roots` computes: its instructions in a fixed order, down to what `available` finds in a
    buffer, those sources, and the key of it all. What stands in `stop` is left to the kernel that is written around it."""

    def __init__(
        self,
        cache: KernelCache,
        roots: list[Instruction],
        available: Callable[[Instruction], View | None],
        stop: frozenset[Instruction] = frozenset(),
    ):
        self.roots = roots
        self.inner: list[Instruction] = []
        self.sources: dict[Instruction, View] = {}
        numbers: dict[Instruction, int] = {}
        key: list[Any] = []
        wide = False
        pending: list[tuple[Instruction, bool]] = [(r, False) for r in reversed(roots)]
        while pending:
            x, ready = pending.pop()
            if x in numbers or x in stop:
                continue
            view = None if x in roots else available(x)
            if view is not None:
                numbers[x] = len(numbers)
                self.sources[x] = view
                key.append(("source", view.dtype, view.dims, view.strides))
                wide = wide or view.dtype in WIDE
                continue
            if not ready:
                pending.append((x, True))
                pending.extend((o, False) for o in reversed(x.operands) if o not in numbers)
                continue
            numbers[x] = len(numbers)
            self.inner.append(x)
            key.append((_own_key(x, cache), tuple(numbers.get(o, -1) for o in x.operands)))
            wide = wide or _is_wide(x)
        self.lanes = 2 if wide else 4
        self.key = (tuple(key), tuple(numbers[r] for r in roots))

    @property
    def flat(self) -> bool:
        """Whether every array in it has the elements of the one root in the same order: one loop over all of them."""
        root = self.roots[0]
        if len(self.roots) > 1 or root.shape.is_tuple:
            return False
        size = root.shape.size
        for x in self.inner:
            if x.shape.size == size and (x.opcode in ELEMENTWISE or x.opcode in ("reshape", "copy")):
                continue
            if x.opcode == "broadcast" and x.operands[0].shape.rank == 0:
                continue
            if x.opcode == "constant" or (x.shape.rank == 0 and x.opcode in ELEMENTWISE):
                continue
            if x.opcode == "reshape" and x.shape.size == 1:
                continue
            return False
        return all(v.size == 1 or (v.dense and v.size == size) for v in self.sources.values())


def _own_key(x: Instruction, cache: KernelCache) -> Any:
    attrs: Any = tuple(x.attrs.items())
    if x.opcode == "constant":
        literal = x.attrs["literal"]
        attrs = bytes(literal.data) if x.shape.bytes <= 64 else (repr(literal.splat_value()), x.shape.bytes)
    elif x.opcode == "parameter":
        attrs = x.attrs["parameter_number"]
    else:
        attrs = tuple((k, v) for k, v in x.attrs.items() if k not in ("sharding", "backend_config", "literal"))
    called = tuple(cache.computation_key(c) for c in x.called)
    return x.opcode, x.shape.element_type, tuple(s.dimensions for _, s in x.shape.leaves()), attrs, called


def _is_wide(x: Instruction) -> bool:
    if x.shape.element_type in WIDE or any(s.element_type in WIDE for s in x.shape.tuple_shapes):
        return True
    return any(_is_wide(y) for c in x.called for y in c.instructions)


class _Flat(Elemental):
    """Evaluates over one loop through all elements: an index is a row-major position, or () for a scalar."""

    def _compute(self, x: Instruction, index: Index) -> Any:
        source = self.sources.get(x)
        if source is not None:
            self.reads.setdefault(x, set()).add(index)
            return self.b.load(source.number, index[0] if x.shape.size > 1 else Affine(), source.dtype)
        return self.expression(x, index)

    def expression(self, x: Instruction, index: Index) -> Any:
        if x.opcode in ("reshape", "broadcast"):
            return self.value(x.operands[0], index)
        if x.opcode == "constant":
            return self.b.const(x.shape.element_type, x.attrs["literal"].splat_value())
        return ELEMENTWISE[x.opcode](self.b, x, *(self.value(o, index) for o in x.operands))


def lower_kernel(cache: KernelCache, expression: Expression) -> Lowered:
    """The kernel of an expression: its results are the first arguments, its sources follow in order.

    Raises `NeedsBuffer` where an instruction cannot be computed inside the kernel.
    """
    flat = expression.flat
    key = (expression.key, flat)
    found = cache.lowered.get(key)
    if found is not None:
        return found
    root = expression.roots[0]
    outputs: dict[Instruction, tuple[Source, ...]] = {}
    number = 0
    for r in expression.roots:
        leaves = []
        for _, shape in r.shape.leaves():
            leaves.append(Source(number, shape.element_type, shape.dimensions, row_major_strides(shape.dimensions)))
            number += 1
        outputs[r] = tuple(leaves)
    written = frozenset(range(number))
    sources = {x: Source(number + i, v.dtype, v.dims, v.strides) for i, (x, v) in enumerate(expression.sources.items())}
    b = Builder(cache.name(_kernel_name(root)), number + len(sources), expression.lanes, cache.relaxed, written)
    dims = next(s.dimensions for _, s in root.shape.leaves())
    in_place: tuple[int, ...] = ()
    if flat:
        e: Elemental = _Flat(b, sources)
        target = outputs[root][0]
        size = root.shape.size

        def element(index: Index) -> None:
            b.store(target.number, index[0], e.value(root, index), target.dtype)

        if size == 1:
            b.store(target.number, Affine(), e.value(root, (Affine(),)), target.dtype)
        else:
            nest(b, (size,), element, padded=True, ranged=True)
        width = TYPES[target.dtype].bytes
        in_place = tuple(s.number for x, s in sources.items() if x.shape.size == size and TYPES[s.dtype].bytes == width)
    else:
        e = Elemental(b, sources)
        kernel = Kernel(b, e, outputs)
        special = KERNELS.get(root.opcode)
        if special is not None:
            special(kernel, root)
        else:
            nest(b, dims, lambda index: _store_leaves(kernel, root, index), ranged=True)
    func = b.func()
    cache.funcs[func.name] = func
    lowered = cache.lowered[key] = Lowered(func, in_place)
    return lowered


def _store_leaves(kernel: Kernel, root: Instruction, index: Index) -> None:
    value = kernel.e.expression(root, index)
    if not isinstance(value, list):
        kernel.store(root, index, value)
        return
    for leaf, v in enumerate(value):
        kernel.b.pin(v) if v.op not in ("const", "result", "carry") else None
    for leaf, v in enumerate(value):
        kernel.store(root, index, v, leaf)


def _kernel_name(x: Instruction) -> str:
    return x.opcode.replace("-", "_")
