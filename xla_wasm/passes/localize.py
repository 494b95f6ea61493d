"""The program of one device, from a program on global arrays whose work stands in manual computations.

Every array that the new program computes is a block of the one that it stands for: the `Shards` beside it say which.
What goes into a manual computation is the block that the computation wants, or is cut out of a greater one that the
device holds. Between manual computations an operation is carried out on blocks where that gives the blocks of its
result, and on whole arrays where every device holds them. What would need another device's block is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from ..dataclass import dataclass, replace
from ..errors import UnsupportedError
from ..hlo.ir import Computation, Instruction, Module, needed
from ..hlo.shape import Index, Shape
from ..hlo.sharding import Mesh, Sharding, Shards, read_sharding, whole
from ..hlo.shardy import IN_SHARDINGS, MANUAL_AXES, OUT_SHARDINGS, SHARDING, read_manual_axes, read_shardings
from ..ops.collective.record import OPS as COLLECTIVE
from ..ops.hostio.record import OPS as HOSTIO
from ..ops.reading import record
from ..writing.writer import Writer, walk
from .clean import has_effect
from .clone import copy_computation
from .shardwise import Map, dimension_maps, fit

ADVICE = (
    "put the whole step inside one jax.shard_map, where psum, all_gather and their like say what devices exchange, or "
    "compile the program that XLA's partitioner makes of it: "
    "jax.jit(f).lower(...).compile().runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()"
)

INTO = ("xla.sdy.GlobalToLocalShape", "SPMDFullToShardShape")
OUT_OF = ("xla.sdy.LocalToGlobalShape", "SPMDShardToFullShape")
_MARKS = ("Sharding", "xla.sdy.PropagationBarrier", "annotate_device_placement", "MoveToHost", "MoveToDevice")
_RESULT = "xla.sdy.FuncResultSharding"
_BODY = ("xla.sdy.manual_computation_body", "xla.sdy.inlinable_manual_computation_body", "shmap_body")
"""JAX's names of manual computations. They are known by what goes in; one without operands only by its name."""

PER_DEVICE = frozenset(op.opcode for op in (*COLLECTIVE, *HOSTIO))
"""Operations that mean something to a device by itself, and nothing to a program on global arrays."""

Tree = Shards | tuple["Tree", ...] | None
"""The shards of a value: of an array, of the elements of a tuple, of a token."""


@dataclass(frozen=True, slots=True)
class Value:
    """A device's part of a value. `manual`: it comes from inside a manual computation."""

    own: Instruction
    shards: Tree
    manual: bool = False


def target(x: Instruction) -> str:
    """The target of a custom call; "" for all else."""
    target: str = x.attrs.get("custom_call_target", "")
    return target


def crosses(x: Instruction) -> bool:
    """Returns True if an instruction goes into or out of a manual computation."""
    return target(x) in (*INTO, *OUT_OF)


def _refuse(x: Instruction, why: str) -> NoReturn:
    """Raises the error for an instruction whose part on one device cannot be told."""
    raise UnsupportedError(f"{x.where} needs XLA's partitioner: {why}. What to do: {ADVICE}")


def annotation(x: Instruction) -> list[Sharding]:
    """The sharding that an instruction says it has, of each leaf."""
    data = x.attrs.get("sharding")
    return [] if data is None else read_sharding(data)


def crossing(x: Instruction, meshes: Mapping[str, Mesh]) -> list[Sharding]:
    """Returns the shardings of the value that goes into or comes out of a manual computation: Shardy's, or in the older
    form the annotation beside it."""
    given, into = x.frontend_attributes, target(x) in INTO
    attribute = IN_SHARDINGS if into else OUT_SHARDINGS
    if attribute not in given:
        return annotation(x.operands[0] if into and x.operands else x)
    axes = read_manual_axes(given[MANUAL_AXES]) if MANUAL_AXES in given else None
    return read_shardings(given[attribute], meshes, axes)


def local_parameter(p: Instruction, shards: Tree, manual: bool = False) -> Value:
    """A parameter of the new program, which holds these blocks."""
    own = _unmarked(p.on([]))
    own.shape = local_shape(p.shape, shards)
    return Value(own, shards, manual)


def _unmarked(x: Instruction) -> Instruction:
    """The instruction without its sharding."""
    x.attrs.pop("sharding", None)
    return x


class Body(Writer):
    """Writes a computation of the new program in the place of an old one, or of several, where calls are written out.

    `x` is the old instruction at hand, `prefix` stands before the names of what is made of it, and `manual` says
    whether it belongs to a manual computation.
    """

    def __init__(self, x: Instruction, prefix: str = "", manual: bool = False) -> None:
        super().__init__(x, suffixed=False)
        self.prefix = prefix
        self.manual = self._inside = manual
        self.offsets: dict[Index, Instruction] = {}
        self.slices: dict[tuple[Instruction, Shards], Instruction] = {}

    def enter(self, x: Instruction, operands: Sequence[Value]) -> None:
        """Goes on to the next instruction."""
        self.x = x
        named = any(c.name.startswith(_BODY) for c in x.called)
        marked = any(s.kind == "manual" for s in annotation(x))
        self.manual = self._inside or named or marked or any(value.manual for value in operands)

    def callee(self) -> Body:
        """Writes a computation that `x` calls."""
        return Body(self.x, f"{self.prefix}{self.x.name}.", self.manual)

    def inlined(self) -> Body:
        """Writes what `x` calls in the place of it."""
        inner = self.callee()
        inner.made, inner.offsets, inner.slices = self.made, self.offsets, self.slices
        return inner

    def offset(self, numbers: list[int]) -> Instruction:
        """A number for each device: this one's."""
        known = tuple(numbers)
        if known not in self.offsets:
            if len(set(numbers)) == 1:
                self.offsets[known] = self.scalar("s32", numbers[0])
            else:
                self.offsets[known] = self.at(self.constant("s32", numbers), [self.op("partition-id")])
        return self.offsets[known]

    def joined(self, parts: Sequence[Value]) -> Value:
        """A tuple of values."""
        own = [p.own for p in parts]  # a layout of theirs may be that of a result
        made = self.op("tuple", *own, shape=Shape.tuple([part.shape for part in own]))
        return Value(made, tuple(p.shards for p in parts), any(p.manual for p in parts))

    def part(self, value: Value, index: int) -> Value:
        """One element of a tuple."""
        assert isinstance(value.shards, tuple)
        own = value.own
        if own.elements:
            return Value(own.elements[index], value.shards[index], value.manual)
        made = Writer(own, self.made, suffixed=False).op(
            "get-tuple-element", own, shape=own.shape.tuple_shapes[index], index=index
        )
        return Value(made, value.shards[index], value.manual)

    def finished(self, name: str, value: Value) -> Computation:
        return Computation(name, self.made, value.own)


class Localizer:
    """Writes computations of the program of one device."""

    def __init__(self, module: Module, devices: int, meshes: Mapping[str, Mesh]) -> None:
        self.module, self.devices, self.meshes = module, devices, meshes
        self._kept: dict[Computation, Computation] = {}
        self._crossing: set[Computation] = set()
        """The computations that go into or out of manual ones, themselves or in what they call."""
        self._own: dict[Computation, Instruction] = {}
        """The first thing in a computation, or in what it calls, that means something to a device by itself."""
        for computation in module.computations:  # callees stand before callers
            for x in computation.instructions:
                if crosses(x) or any(c in self._crossing for c in x.called):
                    self._crossing.add(computation)
                found = self._own_of(x)
                if found is not None:
                    self._own.setdefault(computation, found)
        self._rules: dict[str, Callable[[Instruction, list[Value], Body], Value]] = {
            "call": self._inlined,
            "fusion": self._inlined,
            "while": self._while,
            "conditional": self._conditional,
        }

    def _own_of(self, x: Instruction) -> Instruction | None:
        """The first thing that an instruction is or calls that means something to a device by itself."""
        return next((self._own[c] for c in x.called if c in self._own), x if x.opcode in PER_DEVICE else None)

    def entry(self, parameters: list[Value]) -> tuple[Body, Value]:
        """The entry computation on parameters that stand in it already."""
        body = Body(self.module.entry.root)
        body.made += [value.own for value in parameters]
        return body, self._computation(self.module.entry, parameters, body)

    def whole_of(self, shape: Shape) -> Tree:
        """Shards of a value that is whole on every device."""
        if shape.is_tuple:
            return tuple(self.whole_of(s) for s in shape.tuple_shapes)
        return None if shape.is_token else whole(shape.dimensions, self.devices)

    def narrowed(self, body: Body, value: Value, want: Tree) -> Value:
        """The blocks `want`, cut out of those that the device holds."""
        if value.shards == want or value.shards is None:
            return value
        if isinstance(want, tuple):
            return body.joined([self.narrowed(body, body.part(value, i), w) for i, w in enumerate(want)])
        assert isinstance(value.shards, Shards) and isinstance(want, Shards)
        return Value(self._slice(body, value.own, value.shards, want), want, value.manual)

    def _slice(self, body: Body, own: Instruction, have: Shards, want: Shards) -> Instruction:
        for d in range(len(have.sizes)):
            if not _contains(have, want, d):
                held = f"a device holds {own.shape.without_layout()} of '{own.name}'"
                _refuse(body.x, f"{held}, and along dimension {d} other devices hold what is wanted")
        if (own, want) in body.slices:
            return body.slices[own, want]
        if own.shape.is_dynamic:
            _refuse(body.x, "arrays with dynamic dimensions cannot be cut")
        offsets = [[w[d] - h[d] for h, w in zip(have.starts, want.starts)] for d in range(len(have.sizes))]
        if own.opcode == "broadcast" and all(have.sizes[d] == want.sizes[d] for d in own.attrs["dimensions"]):
            made = body.broadcast(own.operands[0], want.sizes, own.attrs["dimensions"])
        elif all(len(set(numbers)) == 1 for numbers in offsets):
            starts = tuple(numbers[0] for numbers in offsets)
            made = body.slice(own, starts, tuple(start + size for start, size in zip(starts, want.sizes)))
        else:
            made = body.dynamic_slice(own, [body.offset(numbers) for numbers in offsets], want.sizes)
        body.slices[own, want] = made
        return made

    # --- computations -----------------------------------------------------------------------------------------------

    def _computation(self, computation: Computation, operands: list[Value], body: Body) -> Value:
        """Writes what a computation does into `body` and returns its value."""

        def visit(x: Instruction, given: list[Value]) -> Value:
            body.enter(x, given)
            return self._instruction(x, given, body)

        return walk(_live(computation), visit, dict(zip(computation.parameters, operands)))[computation.root]

    def _instruction(self, x: Instruction, operands: list[Value], body: Body) -> Value:
        called = target(x)
        if called in INTO:
            return self._into(x, operands, body)
        if called in OUT_OF:
            return self._out_of(x, operands, body)
        if called == _RESULT:  # the sharding that the caller asked for
            return self.declared(
                body, operands[0], x.shape, read_shardings(x.frontend_attributes[SHARDING], self.meshes)
            )
        if record(x).identity or called in _MARKS and len(operands) == 1:
            return operands[0]
        if x.opcode in _STRUCTURE:
            return _STRUCTURE[x.opcode](x, operands, body)
        if all(_is_whole(value.shards) for value in operands) and not any(c in self._crossing for c in x.called):
            return self._same(x, operands, body)
        return self._rules.get(x.opcode, self._on_shards)(x, operands, body)

    def _inlined(self, x: Instruction, operands: list[Value], body: Body) -> Value:
        return self._computation(x.called[0], operands, body.inlined())

    def _same(self, x: Instruction, operands: list[Value], body: Body) -> Value:
        """The instruction as it is, on operands that are whole on every device."""
        own = self._own_of(x)
        if own is not None and not body.manual:
            _refuse(own, "it stands outside of the manual computations, where arrays are global and devices are alike")
        return self._copy(body, operands, self.whole_of(x.shape))

    def _copy(self, body: Body, operands: list[Value], shards: Tree, called: list[Computation] | None = None) -> Value:
        """The instruction on the blocks of its operands, which gives those of its result."""
        x = body.x
        called = [self._keep(c) for c in x.called] if called is None else called
        copy = _unmarked(
            body.clone(x, [value.own for value in operands], shape=local_shape(x.shape, shards), called=called)
        )
        copy.name = f"{body.prefix}{x.name}"
        return Value(copy, shards, body.manual)

    def _keep(self, computation: Computation) -> Computation:
        """A copy of a computation that stays what it is."""
        if computation not in self._kept:
            kept = self._kept[computation] = copy_computation(computation, self._keep)
            for x in kept.instructions:
                _unmarked(x)
        return self._kept[computation]

    def _written(self, body: Body, number: int, argument: Value) -> tuple[Body, Value]:
        """A computation of one parameter that an instruction calls, on the shards of its argument."""
        inner, computation = body.callee(), body.x.called[number]
        value = local_parameter(computation.parameters[0], argument.shards, argument.manual)
        inner.keep(value.own)
        value = self._computation(computation, [value], inner)
        inner.x = body.x
        return inner, value

    def _while(self, x: Instruction, operands: list[Value], body: Body) -> Value:
        """A loop on shards: those of the state become finer until the body gives what it takes."""
        (state,) = operands
        while True:
            inner, result = self._written(body, 0, state)
            wanted = self._finer(x, result.shards, state.shards)
            if wanted == state.shards:
                break
            state = self.narrowed(body, state, wanted)
        result = self.narrowed(inner, result, state.shards)
        condition, answer = self._written(body, 1, state)
        computations = [inner.finished(x.called[0].name, result), condition.finished(x.called[1].name, answer)]
        return self._copy(body, [state], state.shards, computations)

    def _conditional(self, x: Instruction, operands: list[Value], body: Body) -> Value:
        branches = [self._written(body, i, operand) for i, operand in enumerate(operands[1:])]
        wanted: Tree = branches[0][1].shards
        for _, value in branches[1:]:
            wanted = self._finer(x, wanted, value.shards)
        computations = [
            inner.finished(c.name, self.narrowed(inner, value, wanted)) for c, (inner, value) in zip(x.called, branches)
        ]
        return self._copy(body, operands, wanted, computations)

    def _finer(self, x: Instruction, a: Tree, b: Tree) -> Tree:
        """In each dimension the smaller blocks of the two; those of the second where sizes are equal."""
        if isinstance(a, tuple) and isinstance(b, tuple):
            return tuple(self._finer(x, *pair) for pair in zip(a, b))
        if not isinstance(a, Shards) or not isinstance(b, Shards):
            return b
        for d in range(len(a.sizes)):
            if a.sizes[d] < b.sizes[d]:
                b = _with_column(b, d, *a.along(d))
        if not b.complete:
            _refuse(x, "its values are sharded along different dimensions among the same devices")
        return b

    # --- operations on shards ---------------------------------------------------------------------------------------

    def _on_shards(self, x: Instruction, operands: list[Value], body: Body) -> Value:
        """An operation along whose sharded dimensions each element is computed by itself."""
        maps = dimension_maps(x)
        leaves = [shape for _, shape in x.shape.leaves()]
        if maps is None or not all(leaf.dimensions == leaves[0].dimensions for leaf in leaves):
            _refuse(x, "its operands are sharded, and its result depends on what other devices hold")
        held = [self._shards_of(x, value) for value in operands]
        result = whole(leaves[0].dimensions, self.devices)
        for shards, to in zip(held, maps):
            for d, place in enumerate(to):
                if place is not None and shards.sizes[d] < result.sizes[place]:
                    result = _with_column(result, place, *shards.along(d))
                elif place is None and shards.sizes[d] < shards.dimensions[d]:
                    _refuse(
                        x, f"dimension {d} of an operand is sharded, and its result depends on all of that dimension"
                    )
        if not result.complete:
            _refuse(x, "its operands are sharded along different dimensions among the same devices")
        narrowed = [
            self.narrowed(body, value, _mapped(shards, to, result)) for value, shards, to in zip(operands, held, maps)
        ]
        made = self._copy(body, narrowed, result if x.shape.is_array else tuple(result for _ in leaves))
        fit(made.own, x, result.sizes)
        return made

    def _shards_of(self, x: Instruction, value: Value) -> Shards:
        if not isinstance(value.shards, Shards):
            _refuse(x, "its operand is a tuple of which parts are sharded")
        return value.shards

    # --- into and out of manual computations ------------------------------------------------------------------------

    def _into(self, x: Instruction, operands: list[Value], body: Body) -> Value:
        """Blocks of what goes in; inside, each is an array of its own."""
        made = []
        for value, o, sharding, local in zip(operands, x.operands, self._crossed(x), _locals(x)):
            block = sharding.shards(o.shape.dimensions, self.devices, x.where)
            _check(x, block, local)
            made.append(Value(self.narrowed(body, value, block).own, whole(local.dimensions, self.devices), True))
        return made[0] if x.shape.is_array else body.joined(made)

    def _out_of(self, x: Instruction, operands: list[Value], body: Body) -> Value:
        """Blocks of what comes out."""
        made = []
        for value, o, sharding, outer in zip(operands, x.operands, self._crossed(x), _locals(x)):
            inner = self._shards_of(x, value)
            block = sharding.shards(outer.dimensions, self.devices, x.where)
            _check(x, block, o.shape)
            starts = tuple(tuple(b + i for b, i in zip(*pair)) for pair in zip(block.starts, inner.starts))
            made.append(Value(value.own, Shards(outer.dimensions, inner.sizes, starts)))
        return made[0] if x.shape.is_array else body.joined(made)

    def _crossed(self, x: Instruction) -> list[Sharding]:
        shardings = crossing(x, self.meshes)
        if x.operands and not shardings:
            raise UnsupportedError(f"{x.where}: {target(x)} without a sharding: nothing says how the array is cut")
        return shardings

    def declared(self, body: Body, value: Value, shape: Shape, shardings: list[Sharding]) -> Value:
        """A result with the shardings that are asked for it, one for each leaf."""
        return self.narrowed(body, value, self.tree(body.x, shape, value.shards, shardings))

    def tree(self, x: Instruction, shape: Shape, own: Tree, shardings: Sequence[Sharding]) -> Tree:
        """The shards that shardings, one for each leaf, ask for; those of `own` where nobody has decided."""
        given = iter(shardings)

        def leaf(shape: Shape, own: Tree) -> Tree:
            if isinstance(own, tuple):
                return tuple(map(leaf, shape.tuple_shapes, own))
            sharding = next(given, None)
            if own is None or sharding is None or sharding.kind == "unknown":
                return own
            return sharding.shards(shape.dimensions, self.devices, x.where)

        return leaf(shape, own)


def _locals(x: Instruction) -> Sequence[Shape]:
    return x.shape.tuple_shapes if x.shape.is_tuple else [x.shape]


def _check(x: Instruction, block: Shards, local: Shape) -> None:
    if block.sizes != local.dimensions:
        raise UnsupportedError(
            f"{x.where}: the shards of {list(block.dimensions)} are {list(block.sizes)}, the program says "
            f"{local.without_layout()}"
        )


def _live(computation: Computation) -> list[Instruction]:
    """The instructions that the root or an effect needs. Shardy's wrappers say they have effects, and have none."""
    marks = (*INTO, *OUT_OF, *_MARKS, _RESULT, "xla.sdy.ShardingGroup")
    live = needed(
        [computation.root, *(x for x in computation.instructions if target(x) not in marks and has_effect(x))]
    )
    return [x for x in computation.instructions if x in live]


def _is_whole(tree: Tree) -> bool:
    return all(map(_is_whole, tree)) if isinstance(tree, tuple) else tree is None or tree.whole


def _contains(outer: Shards, inner: Shards, dimension: int) -> bool:
    (size, starts), (part, begins) = outer.along(dimension), inner.along(dimension)
    return all(a <= b and b + part <= a + size for a, b in zip(starts, begins))


def _with_column(shards: Shards, dimension: int, size: int, starts: list[int]) -> Shards:
    """Other blocks in one dimension."""
    sizes = tuple(size if d == dimension else own for d, own in enumerate(shards.sizes))
    rows = tuple(
        tuple(begin if d == dimension else own for d, own in enumerate(row))
        for row, begin in zip(shards.starts, starts)
    )
    return Shards(shards.dimensions, sizes, rows)


def _mapped(shards: Shards, to: Map, result: Shards) -> Shards:
    """The block of an operand from which that of the result is made."""
    for d, place in enumerate(to):
        if place is not None:
            shards = _with_column(shards, d, *result.along(place))
    return shards


def local_shape(shape: Shape, tree: Tree) -> Shape:
    """The shape of a device's part of a value."""
    if isinstance(tree, tuple):
        return Shape.tuple([local_shape(s, t) for s, t in zip(shape.tuple_shapes, tree)])
    return shape if tree is None or tree.sizes == shape.dimensions else replace(shape, dimensions=tree.sizes)


_STRUCTURE: dict[str, Callable[[Instruction, list[Value], Body], Value]] = {
    "tuple": lambda x, operands, body: body.joined(operands),
    "get-tuple-element": lambda x, operands, body: body.part(operands[0], x.attrs["index"]),
}
