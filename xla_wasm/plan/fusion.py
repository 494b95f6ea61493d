"""The content of every kernel of a computation, decided before the first one is written."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from ..hlo.ir import Computation, Instruction
from ..hlo.op import Kind
from ..loop.affine import Index
from ..ops.conv.plan import Depthwise, depthwise, winograd_tile
from ..ops.reading import reads, record
from .cost import dear_among
from .fit import Available, RowWalk, Walk, anywhere, axes
from .fuse import buffered
from .group import Group, decided_by_one, effects, grouped, split
from .kernel import computed, is_flat, lanes_of
from .product import LONG_EPILOGUE, Product, finished_at, left_scales, left_side, matches, right_sides
from .versions import Versions


class Fusion:
    """The kernels of one computation: `buffered` instructions lie in memory, each is computed by the kernel of its
    group.

    `products` are the buffered instructions that are a product or finish one, with that product. `lasting`: arrays that
    stay as they are, whatever the program makes of them.
    """

    def __init__(
        self,
        computation: Computation,
        weights: Mapping[Instruction, int] | None = None,
        lasting: Container[Instruction] = (),
    ):
        self.computation = computation
        self.buffered = buffered(computation)
        self.products: dict[Instruction, Instruction] = {}
        self.finishes: dict[Instruction, Instruction] = {}
        """The value between a product and its finish, by the latter."""
        self.matched: dict[Instruction, Product | None] = {}
        """The GEMM of the product that an instruction is or finishes, by what lies in buffers up to now."""
        self.convolutions: dict[Instruction, Depthwise | int] = {}
        versions = Versions(computation, lasting)
        self.buffered.update(versions.saved(self.buffered))
        self.pending = [x for x in computation.instructions if x in self.buffered][::-1]
        while self.pending:
            self.fit_kernel(self.pending.pop())
        self.effects = effects(computation)
        lasting = decided_by_one(computation, weights or {})
        self.groups = grouped(computation, self.buffered, versions, self.products, lasting, self.effects)
        self.outside = self._read_outside()
        unfit = [g for g in dict.fromkeys(self.groups.values()) if len(g.members) > 1 and not self._fits(g)]
        for group in unfit:
            for part in split(group, self._fits):
                self.groups |= dict.fromkeys(part.members, part)
        if unfit:
            self.outside = self._read_outside()

    def available(self, x: Instruction) -> bool:
        """Returns True if an array lies in memory."""
        return x in self.buffered

    # --- each kernel by itself --------------------------------------------------------------------------------------

    def fit_kernel(self, x: Instruction) -> None:
        """Gives buffers to what the kernel of `x` would compute but cannot."""
        for o, read in zip(x.operands, reads(x)):
            if read.kind in (Kind.WHOLE, Kind.START):
                self.give_buffer(o)
        if not record(x).product and self.buffered.issuperset(x.operands):
            return
        inner = computed([x], self._inside(x))
        if self._find_product(x, inner):
            return
        misfit = self._misfit(x, inner)
        while misfit is not None:
            self.give_buffer(misfit)
            misfit = self._misfit(x, computed([x], self._inside(x)))

    def give_buffer(self, x: Instruction) -> None:
        """Has `x` computed into a buffer. What finishes a product may hold another one, or none, then."""
        if x not in self.buffered:
            self.buffered.add(x)
            self.matched.clear()
            finish = self.finishes.get(x)
            if finish is not None and self.products.pop(finish, None) is not None:
                self.pending.append(finish)
            self.pending.append(x)

    def _misfit(self, x: Instruction, inner: list[Instruction]) -> Instruction | None:
        """Returns the instruction of `inner` that the kernel of `x` cannot compute; None if there is none."""
        alone = next((y for y in inner if y is not x and record(y).product), None)
        if alone is not None or not _splits(inner) or is_flat([x], inner):
            return alone
        return Walk(self._inside(x)).root(x)

    def _inside(self, x: Instruction) -> Available:
        """Returns a function that is true of the values that the kernel of `x` by itself reads from buffers."""
        return lambda y: y is not x and self.available(y)

    # --- products ---------------------------------------------------------------------------------------------------

    def _find_product(self, x: Instruction, inner: list[Instruction]) -> bool:
        """Returns True if `x` is a product, or finishes one, as a kernel of its own with a packed right side."""
        found = [y for y in inner if record(y).product]
        if len(found) != 1 or not x.shape.size:
            return False
        (y,) = found
        if not (self._is_convolution(x, y) if self.convolution(y) else self._is_gemm(x, y)):
            return False
        self.products[x] = y
        self.finishes |= dict.fromkeys((z for z in inner if z is not x), x)
        return True

    def _is_gemm(self, x: Instruction, y: Instruction) -> bool:
        """Returns True if `x`, finishing the product `y`, fits into the kernels of products; its sides get buffers as
        they need."""
        product = self._matches(x, y)
        if product is None:
            self.give_buffer(left_side(y, self.available))
            product = self._matches(x, y)
        if product is None:
            return False
        for scale in left_scales(y):
            self.give_buffer(scale)
        lanes = product.gemm.lanes
        for reading, packed in zip(right_sides(y, product), (y.operands[1], *y.operands[3:])):
            while not self.available(packed):
                inner = computed([reading], self.available)
                misfit = (
                    packed
                    if lanes_of(inner) != lanes
                    else Walk(self.available).root(reading)
                    if _splits(inner)
                    else None
                )
                if misfit is None:
                    break
                self.give_buffer(misfit)
        *outer, m, n = axes((*(count for count, *_ in product.gemm.outer), product.gemm.m, product.gemm.n))
        return x is y or self._finishes(x, y, product.index(y, outer, m, n), lanes)

    def convolution(self, y: Instruction) -> Depthwise | int:
        """The convolution `y` as a depthwise one, or the side of the tiles in which Winograd's algorithm takes it; 0 of
        other products."""
        if y not in self.convolutions:
            self.convolutions[y] = depthwise(y) or winograd_tile(y)
        return self.convolutions[y]

    def product(self, x: Instruction) -> Product:
        """The GEMM that `x` is or finishes."""
        product = self._matches(x, self.products[x])
        assert product is not None
        return product

    def _matches(self, x: Instruction, y: Instruction) -> Product | None:
        """The product `y`, which `x` finishes, as a GEMM."""
        if x not in self.matched:
            self.matched[x] = matches(y, x, self.available)
        return self.matched[x]

    def _is_convolution(self, x: Instruction, y: Instruction) -> bool:
        """Returns True if `x`, finishing the convolution `y`, fits into a kernel that is no product of its image. Both
        sides get buffers."""
        for o in y.operands:
            self.give_buffer(o)
        if x is not y and len(computed([x], self._inside(x), y, y.operands)) > LONG_EPILOGUE:
            return False
        batch, *_, feature = axes(y.shape.dimensions)
        whole = isinstance(self.convolution(y), Depthwise)
        at = axes(y.shape.dimensions) if whole else (batch, *anywhere(y)[1:-1], feature)
        return x is y or self._finishes(x, y, at, lanes_of([y]))

    def _finishes(self, x: Instruction, y: Instruction, at: Index, lanes: int) -> bool:
        """Returns True if the kernel of the product `y` can compute `x` on its accumulators, which stand for the
        element at an index."""
        while True:
            inner = computed([x], self._inside(x), y, y.operands)
            if y not in inner or lanes_of(inner) != lanes:  # what got a buffer may lie between the two
                return False
            if not any(record(z).view and z.operands[0].shape.size > 1 for z in inner):
                return True
            index = finished_at(y, x, inner, at)
            if index is None:
                return False
            walk = Walk(self._inside(x), (y, at))
            walk.value(x, index)
            if walk.misfit is None or walk.misfit is y:
                return walk.misfit is None
            self.give_buffer(walk.misfit)

    # --- groups -----------------------------------------------------------------------------------------------------

    def _fits(self, group: Group, left: Sequence[Instruction] = ()) -> bool:
        """Returns True if one kernel can compute a group, of which those members are results that are read outside or
        by what is `left` of the group that it was a part of. Notes what its rows keep."""
        inside = set(group.members)
        roots = [x for x in group.members if x in self.outside or any(x in group.reads[y] for y in left)]

        def available(y: Instruction) -> bool:
            return y not in inside and self.available(y)

        inner = computed(roots, available)
        dear = dear_among(group.members, inner)
        if group.rows is not None and group.full is not None:
            rows = RowWalk(available, group.full, group.rows)
            misfit = rows.group(roots, inner, dear)
            group.kept = rows.kept(inner)
            return misfit is None
        walk = Walk(available)
        index = axes(roots[0].shape.dimensions)
        walk.homes = dict.fromkeys(dear, index)
        for x in roots if (dear or _splits(inner)) and not is_flat(roots, inner) else ():
            walk.value(x, index)
        return walk.misfit is None

    def _read_outside(self) -> set[Instruction]:
        """The members of groups that something outside their group reads."""
        found = {self.computation.root, *self.effects}
        owner: dict[Instruction, set[Group]] = {}
        for x in reversed(self.computation.instructions):
            groups = {self.groups[x]} if x in self.groups else owner.get(x, set())
            for o in x.operands:
                if o in self.buffered:
                    if groups != {self.groups[o]}:
                        found.add(o)
                else:
                    owner.setdefault(o, set()).update(groups)
        return found


def _splits(inner: list[Instruction]) -> bool:
    """Returns True if a kernel reads something that it computes itself through a map that splits dimensions: all else
    has an index."""
    held = set(inner)
    return any(record(y).view and y.operands[0] in held and reads(y)[0].map.is_split for y in inner)
