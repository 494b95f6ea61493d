"""The steps of one computation: the kernels that fusion chose, in order, and where each of its values lies."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial

from ..hlo.ir import Computation, Instruction
from ..hlo.marks import Request
from ..hlo.op import Kind
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from ..kernels.tiles import Gemm, Tile
from ..lowering.table import is_expression
from ..ops.collective.groups import COUNTS
from ..ops.conv.plan import Depthwise
from ..ops.reading import reads, record
from .buffer import View
from .convolution import depthwise_of, winograd_of
from .cost import SMALL
from .elements import kernel_of
from .fuse import is_one_number
from .fusion import Fusion
from .group import Group, effects
from .kernel import Expression, Kernel
from .moves import Move, find_move, is_small_part
from .plan import Ask, Conditional, Launch, While
from .plan_builder import PlanBuilder
from .product import Product, left_scales, multiply, pack, right_sides, strided, tiled, tiled_in_place
from .versions import start_of

_MOST_OPERANDS = 64
"""Operands that one kernel concatenates: it has a pointer to each, and the time in which engines compile it grows with
the square of their number."""


class ComputationPlanner:
    """One computation while its steps are emitted: where each of its values lies."""

    def __init__(
        self,
        builder: PlanBuilder,
        computation: Computation,
        arguments: list[list[View]],
        weights: Mapping[Instruction, int] | None = None,
        lasting: Container[Instruction] = (),
    ):
        self.builder = builder
        self.computation = computation
        self.arguments = arguments
        self.fusion = Fusion(computation, weights, lasting)
        self.views: dict[Instruction, list[View]] = {}
        """Of each leaf, dense; only numbers of the device do not begin where their buffer does."""

    def run(self) -> list[View]:
        """Emits the steps; the views of the root's leaves."""
        for x in self.computation.instructions:
            if x in self.fusion.buffered:
                self.ensure(x)
        return self.views[self.computation.root]

    def ensure(self, x: Instruction) -> None:
        """Emits the kernel of an instruction with a buffer, after all that its group waits for."""
        fusion = self.fusion
        pending = [x]
        while pending:
            y = pending[-1]
            if y in self.views:
                pending.pop()
                continue
            group = fusion.groups[y]
            missing = [
                s
                for s in group.operands
                if s not in self.views
                and fusion.groups[s] is not group
                and not fusion.outside.isdisjoint(fusion.groups[s].members)
            ]
            if missing:
                pending.extend(reversed(missing))
                continue
            pending.pop()
            if len(group.members) > 1:
                self.group_kernel(group)
            else:
                self.views[y] = self.place(y)

    def group_kernel(self, group: Group) -> None:
        """One kernel for all members that are read outside; the others are part of it."""
        roots = [x for x in group.members if x in self.fusion.outside]
        expression = Expression(self.builder.cache, roots, self.loaded)
        outputs = [self.builder.view(x.shape, name=x.name) for x in roots]
        self.launch(roots[-1].name, outputs, kernel_of(self.builder.cache, expression, group), expression)
        for x, view in zip(roots, outputs):
            self.views[x] = [view]
        for x in group.members:
            self.views.setdefault(x, [])

    def launch(self, name: str, outputs: list[View], kernel: Kernel, expression: Expression) -> None:
        """Emits the step of a kernel that reads the sources of an expression."""
        self.builder.launch(name, outputs, kernel, [*expression.sources.values()], expression.inner)

    def available(self, x: Instruction) -> View | None:
        """The view of an array that has a buffer."""
        views = self.views.get(x)
        return views[0] if views else None

    def loaded(self, x: Instruction) -> View | None:
        """As `available`, of what a kernel of elements loads."""
        return None if is_one_number(x) and x.operands[0].literal is not None else self.available(x)

    def place(self, x: Instruction) -> list[View]:
        """Emits what computes an instruction; the views of its leaves."""
        rule = _PLACES.get(x.opcode)
        if rule is not None:
            return rule(self, x)
        if x.marks.request:
            return self.request(x, x.marks.request)
        alias = self.alias(x)
        return [alias] if alias is not None else self.kernel(x)

    def tuple_element(self, x: Instruction) -> list[View]:
        """The views of the leaves of a tuple's element."""
        (whole,) = x.operands
        start = sum(len(list(s.leaves())) for s in whole.shape.tuple_shapes[: x.attrs["index"]])
        return self.views[whole][start : start + len(list(x.shape.leaves()))]

    def request(self, x: Instruction, request: Request) -> list[View]:
        """Has the host do what the instruction asks for."""
        results = [self.builder.view(shape, name=x.name) for _, shape in x.shape.leaves()]
        operands = [view for o in x.operands for view in self.views[o]]
        if request.kind == "exchange":
            # What comes after the devices and the arrays that are sent is what the results start from.
            sent = 2 + request.count
            for target, source in zip(results, operands[sent:]):
                self.builder.copy(target, source, x.name)
            operands = operands[:sent]
        else:
            operands = [self.builder.settled(view, x.name) for view in operands]
        self.builder.given |= {view.buffer for view in results}
        self.builder.steps.append(Ask(x.name, [*results, *operands], len(results), request=request))
        return results

    def alias(self, x: Instruction) -> View | None:
        """The view of the same bytes as an operand's, in a buffer, with other dimensions or as another type: nothing to
        compute."""
        if not is_expression(x) or len(x.operands) != 1 or x.operands[0] not in self.views:
            return None
        (read,) = reads(x)
        if read.kind is not Kind.WHOLE and not (record(x).view and read.map.keeps_order):
            return None
        view = self.views[x.operands[0]][0]
        return View.of(view.buffer, x.shape, view.byte_offset // TYPES[x.shape.element_type].bytes)

    def kernel(self, x: Instruction) -> list[View]:
        """The kernel of one instruction, with what it computes on the way."""
        outputs = [self.builder.view(shape, name=x.name) for _, shape in x.shape.leaves()]
        if not any(shape.size for _, shape in x.shape.leaves()):
            return outputs
        if x in self.fusion.products:
            return self.product(x, self.fusion.products[x], outputs)
        move = find_move(x, self.available)
        if move is not None and self.moved(x, move, outputs):
            return outputs
        if x.opcode == "concatenate" and len(x.operands) > _MOST_OPERANDS:
            self.concatenate_in_parts(x, outputs[0])
            return outputs
        # What an update starts from is there already: its kernel reads it nowhere else.
        starts = [o for o, read in zip(x.operands, reads(x)) if read.kind is Kind.START]
        unread = frozenset(o for o in starts if x.operands.count(o) == 1)
        expression = Expression(self.builder.cache, [x], self.loaded if is_expression(x) else self.available, x, unread)
        for target, operand in zip(outputs, starts):
            self.builder.copy(target, self.views[operand][0], x.name)
        self.launch(x.name, outputs, kernel_of(self.builder.cache, expression), expression)
        return outputs

    def moved(self, x: Instruction, move: Move, outputs: list[View]) -> bool:
        """Makes `x` by a move of memory and a kernel that writes the rest; not where much of that is what moves,
        too."""
        (target,) = outputs
        if self.builder.is_unsettled(move.source):
            return False
        held: dict[Instruction, View] = {}
        overlapping = [
            o for o in dict.fromkeys(x.operands) if o not in move.operands and self.reads_buffer(o, move.source)
        ]
        if not all(is_small_part(o, x) for o in overlapping):
            return False
        for o in overlapping:
            (held[o],) = self.kernel(o)
        self.builder.move(target, move.source, move.target, move.origin, move.count, x.name)
        rest = Expression(self.builder.cache, [x], lambda y: held.get(y) or self.available(y), x, move.operands)
        self.launch(x.name, outputs, kernel_of(self.builder.cache, rest), rest)
        return True

    def concatenate_in_parts(self, x: Instruction, whole: View) -> None:
        """Emits a kernel for each few operands, which writes its part of the result. Parts that are alike share it."""
        (d,) = x.attrs["dimensions"]
        place = whole.offset
        for i in range(0, len(x.operands), _MOST_OPERANDS):
            operands = x.operands[i : i + _MOST_OPERANDS]
            size = sum(o.shape.dimensions[d] for o in operands)
            shape = x.shape.with_dimensions((*x.shape.dimensions[:d], size, *x.shape.dimensions[d + 1 :]))
            part = x.on(operands)
            part.shape = shape
            expression = Expression(self.builder.cache, [part], self.available)
            view = View(whole.buffer, whole.dtype, shape.dimensions, whole.strides, place)
            kernel = kernel_of(self.builder.cache, expression, strides=whole.strides)
            sources = [*expression.sources.values()]
            self.builder.launch(x.name, [view], kernel, sources, [*expression.inner[:-1], x])
            place += size * whole.strides[d]

    def reads_buffer(self, x: Instruction, view: View) -> bool:
        """Returns True if a kernel that computes `x`, or reads it, reads the buffer of an array."""
        found = self.available(x)
        sources = [found] if found is not None else Expression(self.builder.cache, [x], self.available).sources.values()
        return any(source.buffer is view.buffer for source in sources)

    def product(self, x: Instruction, y: Instruction, outputs: list[View]) -> list[View]:
        """The kernels of the product `y`, finished as `x`: one packs its right side."""
        form = self.fusion.convolution(y)
        if form:
            return self.convolution(x, y, form, outputs)
        builder, cache = self.builder, self.builder.cache
        product = self.fusion.product(x)
        tiles = tiled(product, cache.target)
        left = product.left.view(self.views[product.left.source][0])
        reading, *scales = right_sides(y, product)
        right = [self.packed(y, product, scale, tiles, scales=True) for scale in scales]
        right = [self.packed(y, product, reading, tiles), *right, *(self.views[scale][0] for scale in left_scales(y))]
        pack = builder.steps[-1]
        assert isinstance(pack, Launch)
        finishing = Expression(cache, [x], self.available, y, frozenset(y.operands))
        sources = [*finishing.sources.values()]
        kernel = multiply(cache, product, y, finishing, tiles)
        step = builder.launch(x.name, outputs, kernel, [left, *right, *sources], finishing.inner)
        seen = strided(reading, self.fusion.available)
        there = tiled_in_place(product, cache.target, seen)
        if seen is not None and there is not None:
            inputs = [left, seen.view(self.views[seen.source][0]), *sources]
            holds = [*pack.holds, *finishing.inner]
            step.unpacked = builder.launch(
                x.name, outputs, multiply(cache, product, y, finishing, there), inputs, holds
            )
            builder.steps.pop()
        return outputs

    def packed(
        self, y: Instruction, product: Product, reading: Instruction, tiles: tuple[Gemm, Tile], scales: bool = False
    ) -> View:
        """Emits the packing of the right side of the product `y`, or of its `scales`, which `reading` names."""
        cache, packing = self.builder.cache, Expression(self.builder.cache, [reading], self.available)
        seen = strided(reading, self.fusion.available)
        along_k = seen is not None and seen.strides[-2] == 1 and seen.dims[-1] != 1
        kernel = pack(cache, product, packing, tiles, along_k, scales)
        dtype = reading.shape.element_type if scales else product.gemm.types.right_element
        kind = "scales" if scales else "packed"
        packed = self.builder.view(Shape(dtype, (kernel.size,)), name=f"{y.name}.{kind}")
        # The renaming of indices has the product's name and is in no computation.
        packs = [z for z in packing.inner if z.name != y.name]
        self.builder.launch(f"{y.name}.pack", [packed], kernel, [*packing.sources.values()], packs)
        return packed

    def convolution(self, x: Instruction, y: Instruction, form: Depthwise | int, outputs: list[View]) -> list[View]:
        """The kernels of a convolution `y` that is no product of its image as it lies, finished as `x`; `form` as
        `Fusion.convolution` has it."""
        builder, name = self.builder, y.name
        image, weights = (self.views[o][0] for o in y.operands)
        finishing = Expression(builder.cache, [x], self.available, y, frozenset(y.operands))
        inputs = [image, weights]
        kernel: Kernel
        if isinstance(form, Depthwise):
            kernel = depthwise_of(builder.cache, form, y, finishing)
        else:
            pack, kernel, stages = winograd_of(builder.cache, form, y, finishing)
            packed = builder.view(Shape(weights.dtype, (pack.size,)), name=f"{name}.packed")
            builder.launch(f"{name}.pack", [packed], pack, [weights])
            inputs.append(packed)
            if stages is not None:
                transform, products = stages
                sizes = [Shape("f32", (size // 4,)) for size in kernel.shape.scratch[:2]]
                parts = zip(sizes, ("transformed", "products"))
                transformed, made = [builder.view(size, name=f"{name}.{part}") for size, part in parts]
                builder.launch(f"{name}.transform", [transformed], transform, [image])
                builder.launch(f"{name}.products", [made], products, [transformed, packed])
                inputs[-1] = made
        builder.launch(x.name, outputs, kernel, [*inputs, *finishing.sources.values()], finishing.inner)
        return outputs

    def while_(self, x: Instruction) -> list[View]:
        builder = self.builder
        body, condition = x.called
        inits = self.views[x.operands[0]]
        passed = _passed_through(body)
        carries = [
            inits[i] if i in passed else builder.view(s, name=f"{x.name}.{i}")
            for i, (_, s) in enumerate(x.shape.leaves())
        ]
        for carry, init in zip(carries, inits):
            builder.copy(carry, init, x.name)
        test, (go_on,) = builder.region(lambda: self.inner(condition, carries))
        there = _places_after(x, carries)
        turn, _ = builder.region(lambda: builder.parallel_copy(there, self.inner(body, carries), x))
        if there != carries:
            # Another trip, from where the first has put its results; or what it has put elsewhere comes back.
            again, (goes_on,) = builder.region(lambda: self.inner(condition, there))
            back, _ = builder.region(lambda: builder.parallel_copy(carries, self.inner(body, there), x))
            home, _ = builder.region(lambda: builder.parallel_copy(carries, there, x))
            turn += [*again, Conditional(x.name, goes_on, [back, home])]
        builder.steps.append(While(x.name, test, go_on, turn))
        return carries

    def inner(self, computation: Computation, leaves: list[View]) -> list[View]:
        """Emits the steps of a computation that is called, whose parameters have these leaves; the views of its root's
        leaves."""
        arguments, start = [], 0
        for parameter in computation.parameters:
            count = len(list(parameter.shape.leaves()))
            arguments.append(leaves[start : start + count])
            start += count
        return ComputationPlanner(self.builder, computation, arguments).run()

    def conditional(self, x: Instruction) -> list[View]:
        builder = self.builder
        selector = self.views[x.operands[0]][0]
        results = [builder.view(s, name=f"{x.name}.{i}") for i, (_, s) in enumerate(x.shape.leaves())]

        def part(branch: Computation, operand: Instruction) -> None:
            for target, source in zip(results, self.inner(branch, self.views[operand])):
                builder.copy(target, source, x.name)

        parts = [builder.region(partial(part, *called))[0] for called in zip(x.called, x.operands[1:])]
        builder.steps.append(Conditional(x.name, selector, parts))
        return results


def _passed_through(body: Computation) -> set[int]:
    """The leaves of a loop's state that its body returns as they came."""
    root, (parameter,) = body.root, body.parameters
    if root.opcode != "tuple" or any(o.shape.is_tuple for o in root.operands):
        return set()
    return {i for i, o in enumerate(root.operands) if o.operands == [parameter] and o.attrs.get("index") == i}


def _places_after(x: Instruction, carries: list[View]) -> list[View]:
    """The places where the results of a loop's trip lie best: two carries change theirs if the next of the one is what
    the other is now, or is updated from it."""
    body, condition = x.called
    root, (parameter,) = body.root, body.parameters
    there = [*carries]
    if root.opcode != "tuple" or len(root.operands) != len(carries) or not _runs_twice(body, condition):
        return there
    begins = [start_of(o, parameter) for o in root.operands]
    for j, i in enumerate(begins):
        if i is None or begins[i] not in (j, None) or there[i] is not carries[i]:
            continue
        # Views and updates keep the type.
        if carries[i].dims == carries[j].dims and carries[i].bytes > SMALL:
            there[i], there[j] = carries[j], carries[i]
    return there


def _runs_twice(body: Computation, condition: Computation) -> bool:
    """Returns True if a loop's body and condition may stand in the plan twice: they have no loops or branches, nor what
    does more than give its value, as random numbers, whose state each of the two would have of its own, nor products,
    whose right sides each would pack."""
    instructions = [*body.instructions, *condition.instructions]
    if any(y.opcode in ("dot", "convolution") or record(y).effect or record(y).control for y in instructions):
        return False
    return not effects(body) and not effects(condition)


_PLACES: dict[str, Callable[[ComputationPlanner, Instruction], list[View]]] = {
    "parameter": lambda s, x: s.arguments[x.attrs["parameter_number"]],
    "constant": lambda s, x: [s.builder.constant(x)],
    "tuple": lambda s, x: [v for o in x.operands for v in s.views[o]],
    "get-tuple-element": ComputationPlanner.tuple_element,
    "while": ComputationPlanner.while_,
    "conditional": ComputationPlanner.conditional,
    **{count: (lambda s, x: [s.builder.device_number(COUNTS.index(x.opcode))]) for count in COUNTS},
}
"""The views of what no kernel computes, by opcode."""
