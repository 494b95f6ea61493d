"""Walks the computations of a module and makes the list of steps."""

from __future__ import annotations

import struct

from ..errors import UnsupportedError
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from ..loop.affine import row_major_strides
from ..loop.builder import NARROW
from ..loop.small_floats import SMALL_FLOATS
from ..ops.collective.groups import COUNTS, FIRST_DEVICE
from ..ops.kernel import NeedsBuffer
from ..ops.lowering import ELEMENTAL, ELEMENTWISE, KERNELS, VIEWS
from ..ops.request import REQUEST
from .fuse import PRODUCTS, materialized
from .group import Group, effects, grouped
from .kernels import Expression, KernelCache, Lowered, lower_kernel
from .plan import Buffer, Label, Plan, Step, View, reshaped_strides
from .product import Product, lower_pack, lower_product, of_convolution, of_dot, packed_elements, right_side

_ALONE = ("while", "conditional", "tuple", "parameter")
"""Never part of a kernel's expression."""

SUPPORTED_TYPES = ("pred", *NARROW, "s32", "s64", "u32", "u64", *SMALL_FLOATS, "f32", "f64", "c64", "c128")

# Operations whose result starts as a copy of these operands.
_UPDATES = {"dynamic-update-slice": lambda x: x.operands[:1], "scatter": lambda x: x.operands[: len(x.operands) // 2]}


def build(
    module: Module,
    relaxed: bool,
    tune: str,
    weights: tuple[int, ...] = (),
    state: dict[int, int] | None = None,
    configured: bool = False,
) -> Plan:
    """The plan of a canonical module, buffers not placed yet.

    `weights` are leaves of the parameters that are set once, `state` maps such leaves to the result leaves that replace them.
    A program that is `configured` has a place for the numbers of its device, whether it reads them or not.
    """
    planner = _Planner(module, relaxed, tune)
    if configured:
        planner.device_number(0)
    return planner.run(weights, state or {})


class _Planner:
    def __init__(self, module: Module, relaxed: bool, tune: str):
        self.module = module
        self.cache = KernelCache(relaxed, tune)
        self.steps: list[Step] = []
        self.buffers: list[Buffer] = []
        self.loops: list[tuple[int, int]] = []
        self.constants: dict[Instruction, View] = {}
        self.configuration: View | None = None

    def run(self, weights: tuple[int, ...], state: dict[int, int]) -> Plan:
        for x in self.module.instructions():
            for _, shape in x.shape.leaves():
                if shape.element_type not in SUPPORTED_TYPES:
                    raise UnsupportedError(f"{x.where}: element type {shape.element_type} is not supported yet")
                if shape.is_dynamic:
                    raise UnsupportedError(
                        f"{x.where}: dynamic dimensions ({shape}) are not supported yet; export the model with static shapes"
                    )
        entry = self.module.entry
        parameters: list[View] = []
        arguments: list[list[View]] = []
        for p in entry.parameters:
            leaves = [self.view(shape, "parameter", p.name) for _, shape in p.shape.leaves()]
            parameters += leaves
            arguments.append(leaves)
        results = list(self.computation(entry, arguments))
        if state:
            self.keep_state(entry.root, parameters, results, state)
        self.steps.append(Step("halt", "end"))
        return Plan(self.steps, self.buffers, parameters, results, self.loops, self.cache.funcs, [parameters[i].buffer for i in weights])

    def keep_state(self, root: Instruction, parameters: list[View], results: list[View], state: dict[int, int]) -> None:
        """Ends the program by putting each new state where the old one lies."""
        kept = {parameters[p].buffer for p in state}
        replaced = set(state.values())
        for r, view in enumerate(results):
            if r not in replaced and view.buffer in kept:
                aside = self.view(Shape(view.dtype, view.dims), name=f"{root.name}.{r}")
                self.copy(aside, view, root.name)
                results[r] = aside
        targets = [parameters[p] for p in state]
        self.parallel_copy(targets, [results[r] for r in state.values()], root)
        for target, r in zip(targets, state.values()):
            results[r] = target

    # --- buffers ------------------------------------------------------------------------------------------------

    def buffer(self, size: int, kind: str = "temporary", name: str = "") -> Buffer:
        made = Buffer(size, kind, name)
        self.buffers.append(made)
        return made

    def view(self, shape: Shape, kind: str = "temporary", name: str = "") -> View:
        """A new buffer for a dense row-major array."""
        return View(self.buffer(shape.bytes, kind, name), shape.element_type, shape.dimensions, row_major_strides(shape.dimensions))

    def memory(self, content: int | bytes) -> View:
        """Memory of a kernel's own: so many bytes, or what begins with this content and outlives the run."""
        if isinstance(content, int):
            return self.view(Shape("u8", (content,)), name="row")
        made = self.view(Shape("u8", (len(content),)), "persistent", "state")
        made.buffer.data = content
        return made

    def device_number(self, which: int) -> View:
        """One of the numbers by which the host says which device this is."""
        if self.configuration is None:
            self.configuration = self.view(Shape("u32", (len(COUNTS),)), "configuration", "devices")
            self.configuration.buffer.data = struct.pack("<4I", *FIRST_DEVICE)
        return View(self.configuration.buffer, "u32", (), (), which)

    def constant(self, x: Instruction) -> View:
        """A constant that lies in memory from the start."""
        found = self.constants.get(x)
        if found is None:
            found = self.view(x.shape, "constant", x.name)
            found.buffer.data = x.attrs["literal"].row_major()
            self.constants[x] = found
        return found

    # --- steps --------------------------------------------------------------------------------------------------

    def step(self, step: Step) -> Step:
        self.steps.append(step)
        return step

    def copy(self, target: View, source: View, name: str) -> None:
        """A step that copies one dense array onto another."""
        if target.bytes and not (source.buffer.root() is target.buffer.root() and source.offset == target.offset):
            self.step(Step("kernel", name, None, [target, source], 1, target.bytes))

    def label(self, label: Label) -> None:
        label.step = len(self.steps)

    def parallel_copy(self, targets: list[View], sources: list[View], x: Instruction) -> None:
        """Copies as if all at once: what lies in another target goes aside first."""
        own = {t.buffer: i for i, t in enumerate(targets)}
        moved = []
        for i, (target, source) in enumerate(zip(targets, sources)):
            if source == target:
                continue
            if source.buffer in own and own[source.buffer] != i:
                aside = self.view(Shape(source.dtype, source.dims), name=f"{x.name}.aside")
                self.copy(aside, source, x.name)
                source = aside
            moved.append((target, source))
        for target, source in moved:
            self.copy(target, source, x.name)

    # --- computations -------------------------------------------------------------------------------------------

    def computation(self, computation: Computation, arguments: list[list[View]]) -> list[View]:
        """Emits the steps of a computation; the views of its root's leaves."""
        return _Scope(self, computation, arguments).run()


def _passed_through(body: Computation) -> set[int]:
    """The leaves of a loop's state that its body returns as they came."""
    root = body.root
    if root.opcode != "tuple" or any(o.shape.is_tuple for o in root.operands):
        return set()
    (parameter,) = body.parameters
    return {
        i for i, o in enumerate(root.operands) if o.opcode == "get-tuple-element" and o.operands[0] is parameter and o.attrs["index"] == i
    }


class _Scope:
    """One computation while its steps are emitted: where each of its values lies."""

    def __init__(self, planner: _Planner, computation: Computation, arguments: list[list[View]]):
        self.p = planner
        self.computation = computation
        self.arguments = arguments
        self.chosen, products = materialized(computation)
        self.groups = grouped(computation, self.chosen, products)
        self.outside = self.used_outside()
        self.views: dict[Instruction, list[View]] = {}

    def run(self) -> list[View]:
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
        expression = Expression(self.p.cache, roots, self.available)
        self.reading(expression)
        lowered = lower_kernel(self.p.cache, expression, group.full, group.rows)
        outputs = [self.p.view(x.shape, name=x.name) for x in roots]
        self.emit(roots[-1].name, outputs, expression, lowered)
        for x, view in zip(roots, outputs):
            self.views[x] = [view]
        for x in group.members:
            self.views.setdefault(x, [])

    def emit(self, name: str, outputs: list[View], expression: Expression, lowered: Lowered) -> None:
        """The step of a lowered kernel."""
        scratch = [self.p.memory(size) for size in lowered.scratch]
        arguments = outputs + list(expression.sources.values()) + scratch
        self.p.step(Step("kernel", name, lowered.func, arguments, len(outputs), in_place=lowered.in_place))

    def available(self, x: Instruction) -> View | None:
        """The view of an array that has a buffer."""
        if x.opcode == "constant" and x in self.chosen:
            return self.p.constant(x)
        views = self.views.get(x)
        return views[0] if views and not x.shape.is_tuple else None

    def place(self, x: Instruction) -> list[View]:
        """Emits what computes an instruction; the views of its leaves."""
        if x.opcode == "parameter":
            return self.arguments[x.attrs["parameter_number"]]
        if x.opcode == "constant":
            return [self.p.constant(x)]
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
            return [self.p.device_number(COUNTS.index(x.opcode))]
        if REQUEST in x.attrs:
            return self.request(x)
        alias = self.alias(x)
        return [alias] if alias is not None else self.kernel(x)

    def request(self, x: Instruction) -> list[View]:
        """Has the host do what the instruction asks for."""
        request = x.attrs[REQUEST]
        results = [self.p.view(shape, name=x.name) for _, shape in x.shape.leaves()]
        operands = [view for o in x.operands for view in self.views[o]]
        if request.kind == "exchange":
            # What comes after the devices and the arrays that are sent is what the results start from.
            sent = 2 + request.count
            for target, source in zip(results, operands[sent:]):
                self.p.copy(target, source, x.name)
            operands = operands[:sent]
        self.p.step(Step("request", x.name, None, [*results, *operands], len(results), request=request))
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
            expression = Expression(self.p.cache, [x], self.available, x, unread)
            try:
                return expression, lower_kernel(self.p.cache, self.reading(expression, x))
            except NeedsBuffer as need:
                self.give_buffer(need.instruction, x)

    def fits(self, x: Instruction) -> bool:
        """Whether one kernel can compute `x` as things stand."""
        expression = Expression(self.p.cache, [x], self.available)
        try:
            lower_kernel(self.p.cache, self.reading(expression, x))
        except NeedsBuffer:
            return False
        return True

    def product(self, x: Instruction) -> list[View] | None:
        """The steps of a dot or convolution that `x` is, or finishes; None if it has to go another way."""
        expression = Expression(self.p.cache, [x], self.available)
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
                packing = self.reading(Expression(self.p.cache, [reading], self.available), reading)
                if packing.lanes != lanes:
                    raise NeedsBuffer(rhs)
                seen = self.strided(reading)
                along_k = seen is not None and seen.strides[-2] == 1 and seen.strides[-1] != 1
                pack = lower_pack(self.p.cache, product, packing, along_k)
                break
            except NeedsBuffer as need:
                self.give_buffer(need.instruction, x)
        finishing = Expression(self.p.cache, [x], self.available, y, frozenset((lhs, rhs)))
        if finishing.lanes != lanes and x is not y:
            self.give_buffer(y, x)
            return None
        try:
            lowered = lower_product(self.p.cache, product, y, x, self.reading(finishing, x, y))
        except NeedsBuffer as need:
            if need.instruction is x:
                return None
            self.give_buffer(need.instruction, x)
            return self.product(x)
        dtype = product.gemm.dtype
        packed = self.p.view(Shape(dtype, (packed_elements(self.p.cache, product),)), name=f"{y.name}.packed")
        output = self.p.view(x.shape, name=x.name)
        self.p.step(Step("kernel", f"{y.name}.pack", pack.func, [packed, *packing.sources.values()], 1))
        self.p.step(Step("kernel", x.name, lowered.func, [output, left, packed, *finishing.sources.values()], 1))
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
            return [self.p.view(shape, name=x.name) for _, shape in x.shape.leaves()]
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
        outputs = [self.p.view(shape, name=x.name) for _, shape in x.shape.leaves()]
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
        self.p.copy(target, source, x.name)

    def while_(self, x: Instruction) -> list[View]:
        p = self.p
        body, condition = x.called
        inits = self.views[x.operands[0]]
        passed = _passed_through(body)
        carries = [inits[i] if i in passed else p.view(s, name=f"{x.name}.{i}") for i, (_, s) in enumerate(x.shape.leaves())]
        for carry, init in zip(carries, inits):
            p.copy(carry, init, x.name)
        start, exit_ = Label(), Label()
        p.label(start)
        first = len(p.steps)
        (keep_going,) = p.computation(condition, self.bound(condition, carries))
        p.step(Step("branch", x.name, None, [keep_going], targets=[exit_]))
        results = p.computation(body, self.bound(body, carries))
        p.parallel_copy(carries, results, x)
        p.step(Step("jump", x.name, targets=[start]))
        p.loops.append((first, len(p.steps) - 1))
        p.label(exit_)
        return carries

    def bound(self, computation: Computation, leaves: list[View]) -> list[list[View]]:
        """The leaves split over the parameters of a computation."""
        result, start = [], 0
        for parameter in computation.parameters:
            count = len(list(parameter.shape.leaves()))
            result.append(leaves[start : start + count])
            start += count
        return result

    def conditional(self, x: Instruction) -> list[View]:
        p = self.p
        selector = self.views[x.operands[0]][0]
        results = [p.view(s, name=f"{x.name}.{i}") for i, (_, s) in enumerate(x.shape.leaves())]
        labels, end = [Label() for _ in x.called], Label()
        if selector.dtype == "pred":
            p.step(Step("branch", x.name, None, [selector], targets=[labels[1]]))
        else:
            p.step(Step("switch", x.name, None, [selector], targets=list(labels)))
        for label, branch, operand in zip(labels, x.called, x.operands[1:]):
            p.label(label)
            outs = p.computation(branch, self.bound(branch, self.views[operand]))
            for target, source in zip(results, outs):
                p.copy(target, source, x.name)
            p.step(Step("jump", x.name, targets=[end]))
        p.label(end)
        return results
