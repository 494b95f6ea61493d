"""The steps of one computation: the kernels that fusion chose, in order, and where each of its values lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..hlo.ir import Computation, Instruction
from ..hlo.op import Kind
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from ..kernels import Winograd
from ..lowering.table import is_expression
from ..ops.collective.groups import COUNTS
from ..ops.conv.plan import depthwise, winograd_tile
from ..ops.reading import reads, record
from ..ops.request import REQUEST
from .convolution import (
    lower_depthwise,
    lower_winograd,
    lower_winograd_pack,
    lower_winograd_products,
    lower_winograd_transform,
    winograd,
    winograd_weights,
)
from .fusion import Fusion
from .group import Group
from .kernels import Expression, Lowered, lower_kernel
from .moves import Move, find_move, is_small_part
from .plan import Label, Step, View
from .plan_builder import PlanBuilder
from .product import (
    Product,
    left_scales,
    left_side,
    lies_in_place,
    lower_pack,
    lower_product,
    matches,
    merges,
    packed_elements,
    right_sides,
    strided,
)

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
    ):
        self.builder = builder
        self.computation = computation
        self.arguments = arguments
        self.fusion = Fusion(computation, weights)
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
                if s not in self.views and fusion.groups[s] is not group and s in fusion.outside
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
        expression = Expression(self.builder.cache, roots, self.available)
        lowered = lower_kernel(self.builder.cache, expression, group)
        outputs = [self.builder.view(x.shape, name=x.name) for x in roots]
        self.emit(roots[-1].name, outputs, expression, lowered)
        for x, view in zip(roots, outputs):
            self.views[x] = [view]
        for x in group.members:
            self.views.setdefault(x, [])

    def emit(self, name: str, outputs: list[View], expression: Expression, lowered: Lowered) -> None:
        """The step of a lowered kernel."""
        arguments = outputs + list(expression.sources.values()) + self.scratch(lowered)
        made = Step(
            "kernel", name, lowered.func, arguments, len(outputs), in_place=lowered.in_place, holds=expression.inner
        )
        self.builder.step(_with_scratch(made, lowered))

    def scratch(self, lowered: Lowered) -> list[View]:
        """The memory of a kernel's own."""
        return [self.builder.memory(size) for size in lowered.scratch]

    def available(self, x: Instruction) -> View | None:
        """The view of an array that has a buffer."""
        views = self.views.get(x)
        return views[0] if views else None

    def place(self, x: Instruction) -> list[View]:
        """Emits what computes an instruction; the views of its leaves."""
        rule = _PLACES.get(x.opcode)
        if rule is not None:
            return rule(self, x)
        if REQUEST in x.attrs:
            return self.request(x)
        alias = self.alias(x)
        return [alias] if alias is not None else self.kernel(x)

    def tuple_element(self, x: Instruction) -> list[View]:
        """The views of the leaves of a tuple's element."""
        (whole,) = x.operands
        start = sum(len(list(s.leaves())) for s in whole.shape.tuple_shapes[: x.attrs["index"]])
        return self.views[whole][start : start + len(list(x.shape.leaves()))]

    def request(self, x: Instruction) -> list[View]:
        """Has the host do what the instruction asks for."""
        request = x.attrs[REQUEST]
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
        self.builder.step(Step("request", x.name, None, [*results, *operands], len(results), request=request))
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
        expression = Expression(self.builder.cache, [x], self.available, x, unread)
        lowered = lower_kernel(self.builder.cache, expression)
        for target, operand in zip(outputs, starts):
            self.builder.copy(target, self.views[operand][0], x.name)
        self.emit(x.name, outputs, expression, lowered)
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
        self.emit(x.name, outputs, rest, lower_kernel(self.builder.cache, rest))
        return True

    def concatenate_in_parts(self, x: Instruction, whole: View) -> None:
        """Emits a kernel for each few operands, which writes its part of the result. Parts that are alike share it."""
        (d,) = x.attrs["dimensions"]
        place = whole.offset
        for i in range(0, len(x.operands), _MOST_OPERANDS):
            operands = x.operands[i : i + _MOST_OPERANDS]
            size = sum(o.shape.dimensions[d] for o in operands)
            shape = x.shape.with_dimensions((*x.shape.dimensions[:d], size, *x.shape.dimensions[d + 1 :]))
            part = Instruction(x.name, x.opcode, shape, operands, x.attrs)
            expression = Expression(self.builder.cache, [part], self.available)
            lowered = lower_kernel(self.builder.cache, expression, strides=whole.strides)
            view = View(whole.buffer, whole.dtype, shape.dimensions, whole.strides, place)
            self.emit(x.name, [view], expression, lowered)
            self.builder.steps[-1].holds[-1] = x
            place += size * whole.strides[d]

    def reads_buffer(self, x: Instruction, view: View) -> bool:
        """Returns True if a kernel that computes `x`, or reads it, reads the buffer of an array."""
        found = self.available(x)
        sources = [found] if found is not None else Expression(self.builder.cache, [x], self.available).sources.values()
        return any(source.buffer is view.buffer for source in sources)

    def product(self, x: Instruction, y: Instruction, outputs: list[View]) -> list[View]:
        """The kernels of the product `y`, finished as `x`: one packs its right side."""
        if depthwise(y) or winograd_tile(y):
            return self.convolution(x, y, outputs)
        cache = self.builder.cache
        left = strided(left_side(y, self.available), self.available)
        product = matches(y, left, x, merges(y, x, self.available), self.available) if left is not None else None
        assert left is not None and product is not None, f"{x.where}: the plan has seen its left side"
        reading, *scales = right_sides(y, product)
        right = [self.packed(y, product, scale, scales=True) for scale in scales]
        right = [self.packed(y, product, reading), *right, *(self.views[scale][0] for scale in left_scales(y))]
        packs = self.builder.steps[-1].holds
        seen = strided(reading, self.available)
        finishing = Expression(cache, [x], self.available, y, frozenset(y.operands))
        lowered = lower_product(cache, product, y, x, finishing)
        sources = [*finishing.sources.values()]
        arguments = [*outputs, left, *right, *sources, *self.scratch(lowered)]
        step = _with_scratch(Step("kernel", x.name, lowered.func, arguments, 1, holds=finishing.inner), lowered)
        self.builder.step(step)
        if seen is not None and lies_in_place(cache, product, seen):

            def in_place() -> Step:
                found = lower_product(cache, product, y, x, finishing, seen)
                arguments = [*outputs, left, seen, *sources, *self.scratch(found)]
                return _with_scratch(
                    Step("kernel", x.name, found.func, arguments, 1, holds=[*packs, *finishing.inner]), found
                )

            step.unpacked = in_place
        return outputs

    def packed(self, y: Instruction, product: Product, reading: Instruction, scales: bool = False) -> View:
        """Emits the packing of the right side of the product `y`, or of its `scales`, which `reading` names."""
        cache, packing = self.builder.cache, Expression(self.builder.cache, [reading], self.available)
        seen = strided(reading, self.available)
        along_k = seen is not None and seen.strides[-2] == 1 and seen.dims[-1] != 1
        pack = lower_pack(cache, product, packing, along_k, scales)
        dtype = reading.shape.element_type if scales else product.gemm.types.right_element
        kind = "scales" if scales else "packed"
        packed = self.builder.view(Shape(dtype, (packed_elements(cache, product, scales),)), name=f"{y.name}.{kind}")
        # The renaming of indices has the product's name and is in no computation.
        packs = [z for z in packing.inner if z.name != y.name]
        self.builder.step(
            Step("kernel", f"{y.name}.pack", pack.func, [packed, *packing.sources.values()], 1, holds=packs)
        )
        return packed

    def convolution(self, x: Instruction, y: Instruction, outputs: list[View]) -> list[View]:
        """The kernels of a convolution `y` that is no product of its image as it lies, finished as `x`."""
        cache = self.builder.cache
        image, kernel = (self.views[o][0] for o in y.operands)
        finishing = Expression(cache, [x], self.available, y, frozenset(y.operands))
        arguments = [*outputs, image, kernel]
        shape = depthwise(y)
        if shape is not None:
            lowered = lower_depthwise(cache, shape, y, x, (image, kernel), finishing)
        else:
            tiled = winograd(y, winograd_tile(y))
            packed = self.builder.view(Shape(kernel.dtype, (winograd_weights(cache, tiled),)), name=f"{y.name}.packed")
            self.builder.step(
                Step("kernel", f"{y.name}.pack", lower_winograd_pack(cache, tiled, kernel).func, [packed, kernel], 1)
            )
            lowered = lower_winograd(cache, tiled, y, x, (image, kernel), finishing)
            arguments.append(self.winograd_products(y.name, tiled, image, packed) if tiled.in_stages else packed)
        arguments += [*finishing.sources.values(), *self.scratch(lowered)]
        self.builder.step(
            _with_scratch(Step("kernel", x.name, lowered.func, arguments, 1, holds=finishing.inner), lowered)
        )
        return outputs

    def winograd_products(self, name: str, w: Winograd, image: View, packed: View) -> View:
        """Emits the first two stages of a convolution that has them as kernels of their own."""
        builder = self.builder
        size, products = (Shape("f32", (bytes // 4,)) for bytes in w.scratch[:2])
        transformed, made = (
            builder.view(size, name=f"{name}.transformed"),
            builder.view(products, name=f"{name}.products"),
        )
        first, second = lower_winograd_transform(builder.cache, w, image), lower_winograd_products(builder.cache, w)
        arguments = [transformed, image, *self.scratch(first)]
        builder.step(_with_scratch(Step("kernel", f"{name}.transform", first.func, arguments, 1), first))
        builder.step(Step("kernel", f"{name}.products", second.func, [made, transformed, packed], 1))
        return made

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
        start, exit_ = Label(), Label()
        builder.label(start)
        first = len(builder.steps)
        (keep_going,) = self.inner(condition, carries)
        builder.step(Step("branch", x.name, None, [keep_going], targets=[exit_]))
        results = self.inner(body, carries)
        builder.parallel_copy(carries, results, x)
        builder.step(Step("jump", x.name, targets=[start]))
        builder.loops.append((first, len(builder.steps) - 1))
        builder.label(exit_)
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
        labels, end = [Label() for _ in x.called], Label()
        if selector.dtype == "pred":
            builder.step(Step("branch", x.name, None, [selector], targets=[labels[1]]))
        else:
            builder.step(Step("switch", x.name, None, [selector], targets=list(labels)))
        for label, branch, operand in zip(labels, x.called, x.operands[1:]):
            builder.label(label)
            outs = self.inner(branch, self.views[operand])
            for target, source in zip(results, outs):
                builder.copy(target, source, x.name)
            builder.step(Step("jump", x.name, targets=[end]))
        builder.label(end)
        return results


def _with_scratch(step: Step, lowered: Lowered) -> Step:
    """The step of a lowered kernel, whose last arguments are its own memory unless some of that outlives the run."""
    if all(isinstance(size, int) for size in lowered.scratch):
        step.scratch = len(lowered.scratch)
    return step


def _passed_through(body: Computation) -> set[int]:
    """The leaves of a loop's state that its body returns as they came."""
    root, (parameter,) = body.root, body.parameters
    if root.opcode != "tuple" or any(o.shape.is_tuple for o in root.operands):
        return set()
    return {i for i, o in enumerate(root.operands) if o.operands == [parameter] and o.attrs.get("index") == i}


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
