"""Kernels as records: everything that is decided about one before it is written, and the computation that it is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container
from typing import Any, TypeVar

from ..dataclass import dataclass
from ..hlo.ir import Computation, Instruction
from ..hlo.types import REAL_OF, TYPES, keeps_numbers
from ..loop.builder import WIDE, Builder
from ..loop.ir import Func
from ..lowering.source import Source
from ..ops.reading import record
from ..target import Target
from .buffer import View

COPY = "copy"
"""The name of the kernel that copies bytes: no other has it."""

_WIDE = frozenset(name for name in TYPES if REAL_OF.get(name, name) in WIDE)
"""Types of which an element, or a part of a complex one, has 64 bits."""


InPlace = tuple[tuple[int, int], ...]
"""Numbers of arguments, of one that is written and one that is read, that may lie in the same place: each element is
read before it is written."""


@dataclass(slots=True)
class Lowered:
    """A lowered kernel: the function, and which results may overwrite which inputs."""

    func: Func
    may_overwrite: InPlace = ()
    scratch: tuple[int | bytes, ...] = ()
    """Of each argument that is memory of the kernel's own, behind the sources, the size in bytes; or the first content
    of what outlives a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel(ABC):
    """A kernel: what it computes, and all that is decided about how. Those that are alike are one."""

    expression: Expression

    def scratch(self, cache: KernelCache) -> tuple[int | bytes, ...]:
        """As `Lowered.scratch`."""
        return cache.lower(self).scratch

    @property
    def moves(self) -> bool:
        """True if all numbers that it writes are such as it reads, perhaps in a wider type, and constants."""
        return False

    @abstractmethod
    def write(self, cache: KernelCache) -> Lowered:
        """Writes the kernel's loops."""


K = TypeVar("K", bound=Kernel)


class KernelCache:
    """Kernels by what they compute. Equal layers of a model have one, about which is decided once, and which is lowered
    once."""

    def __init__(self, target: Target):
        self.target = target
        self._found: dict[Any, Any] = {}
        self._lowered: dict[Kernel, Lowered] = {}
        self._computations: dict[Computation, Any] = {}
        self._counts: dict[str, int] = {}
        self._names = {COPY}

    def find(self, key: Any, decide: Callable[[], K]) -> K:
        """The kernel of this key; the first time that which is decided on."""
        found: K | None = self._found.get(key)
        if found is None:
            found = self._found[key] = decide()
        return found

    def lower(self, kernel: Kernel) -> Lowered:
        """The kernel's loops."""
        found = self._lowered.get(kernel)
        if found is None:
            found = self._lowered[kernel] = kernel.write(self)
        return found

    def builder(self, base: str, pointers: int, lanes: int, *written: int) -> Builder:
        """A builder for a kernel with so many arguments, of which it writes some. Its name is not taken."""
        n, name = self._counts.get(base, 1), base
        while name in self._names:
            n += 1
            name = f"{base}.{n}"
        self._counts[base] = n
        self._names.add(name)
        return Builder(name, pointers, lanes, self.target, frozenset(written))

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
            key.append((_own_key(x, cache), tuple([numbers.get(o, -1) for o in x.operands])))

        self.inner = computed(roots, view, given, unread, hold)
        self.lanes = lanes_of(self.inner)
        left_out = tuple([i for i, o in enumerate(given.operands) if o in unread]) if given is not None else ()
        self.key = (tuple(key), tuple(numbers[r] for r in roots), left_out)
        dense = all(v.size == 1 or v.size == roots[0].shape.size for v in self.sources.values())
        self.flat = dense and is_flat(roots, self.inner)

    @property
    def moves(self) -> bool:
        """As `Kernel.moves`, of one whose results are the roots."""
        constant: set[Instruction] = set()
        for x in self.inner:
            if constant.issuperset(x.operands):
                constant.add(x)
            elif not _moves(x):
                return False
        return True

    def arguments(self, first: int) -> dict[Instruction, Source]:
        """The sources, as the arguments from number `first` on."""
        return {x: Source(first + i, v.dtype, v.dims, v.strides) for i, (x, v) in enumerate(self.sources.items())}


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
    read = {o: None for x in inner for o in x.operands}
    called = [y for x in inner for c in x.called for y in c.instructions]
    return 2 if any(x.shape.element_type in _WIDE for x in (*read, *inner, *called)) else 4


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


def _moves(x: Instruction) -> bool:
    if x.opcode == "convert":
        return keeps_numbers(x.operands[0].shape.element_type, x.shape.element_type)
    return record(x).view or x.opcode in ("concatenate", "pad", "real", "imag", "copy")


def _own_key(x: Instruction, cache: KernelCache) -> Any:
    attrs: Any
    if x.literal is not None:
        attrs = bytes(x.literal.data) if x.shape.bytes <= 64 else (repr(x.literal.splat_value()), x.shape.bytes)
    else:
        attrs = x.marks, *[item for item in x.attrs.items() if item[0] not in ("sharding", "backend_config")]
    called = tuple([cache.computation_key(c) for c in x.called])
    shape = x.shape
    dims = shape.dimensions if shape.is_array else tuple([s.dimensions for _, s in shape.leaves()])
    return x.opcode, shape.element_type, dims, attrs, called
