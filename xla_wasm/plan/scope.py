"""The steps of one computation: which of its instructions share a kernel, and where each of its values lies."""

from __future__ import annotations

from ..errors import UnsupportedError
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from ..loop.affine import row_major_strides
from ..ops.collective.groups import COUNTS
from ..ops.kernel import NeedsBuffer
from ..ops.lowering import ELEMENTAL, ELEMENTWISE, KERNELS, VIEWS
from ..ops.request import REQUEST
from .draft import Draft
from .fuse import PRODUCTS, materialized
from .group import Group, effects, grouped
from .kernels import Expression, Lowered, lower_kernel
from .plan import Label, Step, View, reshaped_strides
from .product import Product, lower_pack, lower_product, of_convolution, of_dot, packed_elements, right_side

_ALONE = ("while", "conditional", "tuple", "parameter")
"""Never part of a kernel's expression."""

# Operations whose result starts as a copy of these operands.
_UPDATES = {"dynamic-update-slice": lambda x: x.operands[:1], "scatter": lambda x: x.operands[: len(x.operands) // 2]}


class Scope:
    """One computation while its steps are emitted: where each of its values lies."""

    def __init__(self, draft: Draft, computation: Computation, arguments: list[list[View]]):
        self.draft = draft
        self.computation = computation
        self.arguments = arguments
        self.chosen, products = materialized(computation)
        self.groups = grouped(computation, self.chosen, products)
        self.outside = self.used_outside()
        self.views: dict[Instruction, list[View]] = {}

    def run(self) -> list[View]:
        """Emits the steps; the views of the root's leaves."""
        for x in self.computation.instructions:
            if x in self.chosen:
                self.ensure(x)
        return self.views[self.computation.root]

    def used_outside(self) -> set[Instruction]:
        """The members of groups that something outside their group reads."""
        found = {self.computation.root, *effects(self.computation)}
        owner: dict[Instruction, set[Group]] = {}
        for x in reversed(self.computation.instructions):
            groups = {self.groups[x]} if x in self.groups else owner.get(x, set())
            for o in x.operands:
                if o in self.chosen:
                    if groups != {self.groups[o]}:
                        found.add(o)
                else:
                    owner.setdefault(o, set()).update(groups)
        return found

    def ensure(self, x: Instruction) -> None:
        """Places a materialized instruction, after all that its group waits for."""
        pending = [x]
        while pending:
            y = pending[-1]
            if y in self.views:
                pending.pop()
                continue
            group = self.groups[y]
            missing = [s for s in group.operands if s not in self.views and self.groups[s] is not group and s in self.outside]
            if missing:
                pending.extend(reversed(missing))
                continue
            pending.pop()
            self.place_group(group)

    def place_group(self, group: Group) -> None:
        """Emits the kernel of a group; where its members cannot be in one, a kernel for each."""
        if len(group.members) > 1:
            try:
                self.group_kernel(group)
                return
            except NeedsBuffer:
                pass
        for x in group.members:
            if x not in self.views:
                self.views[x] = self.place(x)

    def group_kernel(self, group: Group) -> None:
        """One kernel for all members that are read outside; the others are part of it."""
        roots = [x for x in group.members if x in self.outside]
        expression = Expression(self.draft.cache, roots, self.available)
        self.reading(expression)
        lowered = lower_kernel(self.draft.cache, expression, group.full, group.rows)
        outputs = [self.draft.view(x.shape, name=x.name) for x in roots]
        self.emit(roots[-1].name, outputs, expression, lowered)
        for x, view in zip(roots, outputs):
            self.views[x] = [view]
        for x in group.members:
            self.views.setdefault(x, [])

    def emit(self, name: str, outputs: list[View], expression: Expression, lowered: Lowered) -> None:
        """The step of a lowered kernel."""
        scratch = [self.draft.memory(size) for size in lowered.scratch]
        arguments = outputs + list(expression.sources.values()) + scratch
        self.draft.step(Step("kernel", name, lowered.func, arguments, len(outputs), in_place=lowered.in_place))

    def available(self, x: Instruction) -> View | None:
        """The view of an array that has a buffer."""
        if x.opcode == "constant" and x in self.chosen:
            return self.draft.constant(x)
        views = self.views.get(x)
        return views[0] if views and not x.shape.is_tuple else None

    def place(self, x: Instruction) -> list[View]:
        """Emits what computes an instruction; the views of its leaves."""
        if x.opcode == "parameter":
            return self.arguments[x.attrs["parameter_number"]]
        if x.opcode == "constant":
            return [self.draft.constant(x)]
        if x.opcode == "tuple":
            return [v for o in x.operands for v in self.views[o]]
        if x.opcode == "get-tuple-element":
            tuple_shape = x.operands[0].shape
            start = sum(len(list(s.leaves())) for s in tuple_shape.tuple_shapes[: x.attrs["index"]])
            return self.views[x.operands[0]][start : start + len(list(x.shape.leaves()))]
        if x.opcode == "while":
            return self.while_(x)
        if x.opcode == "conditional":
            return self.conditional(x)
        if x.opcode in COUNTS:
            return [self.draft.device_number(COUNTS.index(x.opcode))]
        if REQUEST in x.attrs:
            return self.request(x)
        alias = self.alias(x)
        return [alias] if alias is not None else self.kernel(x)

    def request(self, x: Instruction) -> list[View]:
        """Has the host do what the instruction asks for."""
        request = x.attrs[REQUEST]
        results = [self.draft.view(shape, name=x.name) for _, shape in x.shape.leaves()]
        operands = [view for o in x.operands for view in self.views[o]]
        if request.kind == "exchange":
            # What comes after the devices and the arrays that are sent is what the results start from.
            sent = 2 + request.count
            for target, source in zip(results, operands[sent:]):
                self.draft.copy(target, source, x.name)
            operands = operands[:sent]
        self.draft.step(Step("request", x.name, None, [*results, *operands], len(results), request=request))
        return results

    def alias(self, x: Instruction) -> View | None:
        """The view of a reshape or bitcast of what lies in a buffer: nothing to compute."""
        if x.opcode not in ("reshape", "bitcast") or x.operands[0] not in self.views:
            return None
        view = self.views[x.operands[0]][0]
        dtype = x.shape.element_type
        if view.byte_offset % TYPES[dtype].bytes:
            return None
        return View(view.buffer, dtype, x.shape.dimensions, row_major_strides(x.shape.dimensions), view.byte_offset // TYPES[dtype].bytes)

    def lower(self, x: Instruction) -> tuple[Expression, Lowered]:
        """The kernel of an instruction. What turns out not to fit into it is computed before it, into a buffer."""
        while True:
            # What an update starts from is there already: its kernel reads it nowhere else.
            start = _UPDATES[x.opcode](x) if x.opcode in _UPDATES else []
            unread = frozenset(o for o in start if x.operands.count(o) == 1)
            expression = Expression(self.draft.cache, [x], self.available, x, unread)
            try:
                return expression, lower_kernel(self.draft.cache, self.reading(expression, x))
            except NeedsBuffer as need:
                self.give_buffer(need.instruction, x)

    def fits(self, x: Instruction) -> bool:
        """Whether one kernel can compute `x` as things stand."""
        expression = Expression(self.draft.cache, [x], self.available)
        try:
            lower_kernel(self.draft.cache, self.reading(expression, x))
        except NeedsBuffer:
            return False
        return True

    def product(self, x: Instruction) -> list[View] | None:
        """The steps of a dot or convolution that `x` is, or finishes; None if it has to go another way."""
        expression = Expression(self.draft.cache, [x], self.available)
        found = [y for y in expression.inner if y.opcode in PRODUCTS]
        if len(found) != 1:
            return None
        (y,) = found
        lhs, rhs = y.operands
        left = self.strided(lhs)
        product = self.as_product(y, left, x) if left is not None else None
        if product is None and lhs not in self.views:
            self.views[lhs] = self.place(lhs)
            left = self.views[lhs][0]
            product = self.as_product(y, left, x)
        if product is None or left is None:
            return None
        reading = right_side(y, product)
        lanes = 16 // TYPES[product.gemm.dtype].bytes
        while True:
            try:
                packing = self.reading(Expression(self.draft.cache, [reading], self.available), reading)
                if packing.lanes != lanes:
                    raise NeedsBuffer(rhs)
                seen = self.strided(reading)
                along_k = seen is not None and seen.strides[-2] == 1 and seen.strides[-1] != 1
                pack = lower_pack(self.draft.cache, product, packing, along_k)
                break
            except NeedsBuffer as need:
                self.give_buffer(need.instruction, x)
        finishing = Expression(self.draft.cache, [x], self.available, y, frozenset((lhs, rhs)))
        if finishing.lanes != lanes and x is not y:
            self.give_buffer(y, x)
            return None
        try:
            lowered = lower_product(self.draft.cache, product, y, x, self.reading(finishing, x, y))
        except NeedsBuffer as need:
            if need.instruction is x:
                return None
            self.give_buffer(need.instruction, x)
            return self.product(x)
        dtype = product.gemm.dtype
        packed = self.draft.view(Shape(dtype, (packed_elements(self.draft.cache, product),)), name=f"{y.name}.packed")
        output = self.draft.view(x.shape, name=x.name)
        self.draft.step(Step("kernel", f"{y.name}.pack", pack.func, [packed, *packing.sources.values()], 1))
        self.draft.step(Step("kernel", x.name, lowered.func, [output, left, packed, *finishing.sources.values()], 1))
        return [output]

    def as_product(self, y: Instruction, left: View, root: Instruction) -> Product | None:
        """The GEMM of a product; its rows are split where the dimensions of the kernel's root split them."""
        if y.opcode == "convolution":
            return of_convolution(y, left)
        m, n = y.shape.dimensions[-2:]
        dims = [d for d in root.shape.dimensions if d != 1]
        rows = dims[-2] if root is not y and len(dims) > 1 and dims[-1] == n and m % dims[-2] == 0 and dims[-2] >= 4 else m
        return of_dot(y, left, rows)

    def reading(self, expression: Expression, *own: Instruction) -> Expression:
        """The same expression, if all in it can be computed where it is read."""
        for y in expression.inner:
            if y not in own and (y.opcode in _ALONE or y.opcode in PRODUCTS or y.opcode in KERNELS and y.opcode not in ELEMENTAL):
                raise NeedsBuffer(y)
        return expression

    def give_buffer(self, y: Instruction, x: Instruction) -> None:
        """Computes `y` into a buffer now, because it does not fit into the kernel of `x`."""
        if y in self.views or y is x:
            raise UnsupportedError(f"{x.where}: not supported yet by the compiler")
        self.chosen.add(y)
        self.views[y] = self.place(y)

    def strided(self, x: Instruction) -> View | None:
        """An array that lies in a buffer, seen through the index maps that strides can express."""
        view = self.available(x)
        if view is not None or x.opcode not in (*VIEWS, "copy"):
            return view
        inner = self.strided(x.operands[0])
        if inner is None:
            return None
        dims, strides, offset = x.shape.dimensions, inner.strides, inner.offset
        if x.opcode == "transpose":
            strides = tuple(strides[d] for d in x.attrs["dimensions"])
        elif x.opcode == "slice":
            offset += sum(s.start * stride for s, stride in zip(x.attrs["slice"], strides))
            strides = tuple(s.stride * stride for s, stride in zip(x.attrs["slice"], strides))
        elif x.opcode == "broadcast":
            spread = [0] * len(dims)
            for d, stride in zip(x.attrs["dimensions"], strides):
                spread[d] = stride
            strides = tuple(spread)
        elif x.opcode == "copy":
            pass
        elif x.opcode == "reshape":
            split = reshaped_strides(inner.dims, strides, dims)
            if split is None:
                return None
            strides = split
        else:
            return None
        return View(inner.buffer, inner.dtype, dims, strides, offset)

    def kernel(self, x: Instruction) -> list[View]:
        if not any(shape.size for _, shape in x.shape.leaves()):
            return [self.draft.view(shape, name=x.name) for _, shape in x.shape.leaves()]
        if x.opcode in PRODUCTS or x.opcode in ELEMENTWISE or x.opcode == "reshape":
            done = self.product(x)
            if done is not None:
                return done
        if x.opcode in ("reshape", "bitcast") and x.operands[0] not in self.views and (x.opcode == "bitcast" or not self.fits(x)):
            # What it renames needs a buffer, and then the renaming is free.
            self.give_buffer(x.operands[0], x)
            alias = self.alias(x)
            if alias is not None:
                return [alias]
        expression, lowered = self.lower(x)
        outputs = [self.draft.view(shape, name=x.name) for _, shape in x.shape.leaves()]
        if x.opcode in _UPDATES:
            for target, operand in zip(outputs, _UPDATES[x.opcode](x)):
                self.start_from(target, operand, x)
        self.emit(x.name, outputs, expression, lowered)
        return outputs

    def start_from(self, target: View, operand: Instruction, x: Instruction) -> None:
        """Makes `target` hold the operand's elements: by a copy, or, where memory planning can, by sharing its memory."""
        source = self.available(operand)
        if source is None:
            self.chosen.add(operand)
            self.views[operand] = self.place(operand)
            source = self.views[operand][0]
        self.draft.copy(target, source, x.name)

    def while_(self, x: Instruction) -> list[View]:
        draft = self.draft
        body, condition = x.called
        inits = self.views[x.operands[0]]
        passed = _passed_through(body)
        carries = [inits[i] if i in passed else draft.view(s, name=f"{x.name}.{i}") for i, (_, s) in enumerate(x.shape.leaves())]
        for carry, init in zip(carries, inits):
            draft.copy(carry, init, x.name)
        start, exit_ = Label(), Label()
        draft.label(start)
        first = len(draft.steps)
        (keep_going,) = self.inner(condition, carries)
        draft.step(Step("branch", x.name, None, [keep_going], targets=[exit_]))
        results = self.inner(body, carries)
        draft.parallel_copy(carries, results, x)
        draft.step(Step("jump", x.name, targets=[start]))
        draft.loops.append((first, len(draft.steps) - 1))
        draft.label(exit_)
        return carries

    def inner(self, computation: Computation, leaves: list[View]) -> list[View]:
        """Emits the steps of a computation that is called, whose parameters have these leaves; the views of its root's leaves."""
        arguments, start = [], 0
        for parameter in computation.parameters:
            count = len(list(parameter.shape.leaves()))
            arguments.append(leaves[start : start + count])
            start += count
        return Scope(self.draft, computation, arguments).run()

    def conditional(self, x: Instruction) -> list[View]:
        draft = self.draft
        selector = self.views[x.operands[0]][0]
        results = [draft.view(s, name=f"{x.name}.{i}") for i, (_, s) in enumerate(x.shape.leaves())]
        labels, end = [Label() for _ in x.called], Label()
        if selector.dtype == "pred":
            draft.step(Step("branch", x.name, None, [selector], targets=[labels[1]]))
        else:
            draft.step(Step("switch", x.name, None, [selector], targets=list(labels)))
        for label, branch, operand in zip(labels, x.called, x.operands[1:]):
            draft.label(label)
            outs = self.inner(branch, self.views[operand])
            for target, source in zip(results, outs):
                draft.copy(target, source, x.name)
            draft.step(Step("jump", x.name, targets=[end]))
        draft.label(end)
        return results


def _passed_through(body: Computation) -> set[int]:
    """The leaves of a loop's state that its body returns as they came."""
    root = body.root
    if root.opcode != "tuple" or any(o.shape.is_tuple for o in root.operands):
        return set()
    (parameter,) = body.parameters
    return {
        i for i, o in enumerate(root.operands) if o.opcode == "get-tuple-element" and o.operands[0] is parameter and o.attrs["index"] == i
    }
