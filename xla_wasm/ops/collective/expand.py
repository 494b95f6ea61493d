"""Collectives as exchanges of arrays between devices, with what is computed before and after them.

What devices combine is combined in the order of the group wherever that makes a difference, so all get the same bits on
every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dataclass import replace
from ...errors import UnsupportedError, VerifyError, counted
from ...hlo.attrs import PaddingDimension
from ...hlo.ir import Computation, Instruction
from ...hlo.shape import Shape
from ...hlo.types import SMALL_FLOATS, TYPES
from ...writing.writer import Rule, Writer
from ..reduce.monoids import monoid
from .expand_exchange import Route, exchange
from .expand_groups import Group, device, group_of, looked_up, own_device
from .groups import NOBODY, listed, marked_devices, mode, stated_size

_BLOCKS = 32 * 1024
"""Bytes from which on each device combines one block and hands it on, instead of combining everything itself."""


def _rows(count: int, shape: Shape) -> Shape:
    return Shape(shape.element_type, (count, *shape.dimensions))


def _group(e: Writer, x: Instruction) -> Group:
    return group_of(e, x, marked_devices(x))


def _alone(x: Instruction) -> bool:
    """Returns True if every device is the only one in its group, whatever it is."""
    groups, devices = listed(x), marked_devices(x)
    kind = mode(x)
    inner = devices.partitions if kind == "cross_replica_and_partition" else 1
    if groups:
        return inner == 1 and all(len(group) == 1 for group in groups)
    count = devices.partitions if kind == "cross_partition" else devices.replicas
    return inner == 1 and count == 1


def _sized(e: Writer, x: Instruction, group: Group, size: int) -> Instruction:
    """The devices of a group that has to have this size for the shapes of `x`."""
    if len({len(members) for members in listed(x)}) > 1:
        raise VerifyError(f"{x.where}: its groups must all have {counted(size, 'device')}, as its shapes say")
    if group.size not in (None, size) or group.room < size:
        raise UnsupportedError(
            f"{x.where}: its shapes are those of groups of {size}, but its groups have "
            f"{counted(group.size or group.room, 'device')}"
        )
    devices = group.devices if group.size is not None else _if(e, e.compare("EQ", group.count, size), group.devices)
    return e.slice(devices, (0,), (size,)) if group.room > size else devices


def _if(e: Writer, fits: Instruction, devices: Instruction) -> Instruction:
    """The devices, if shapes fit their number. Else the exchange names a device that there is not, which ends the
    run."""
    return e.select(e.like(devices, fits), devices, NOBODY)


def _values(e: Writer, x: Instruction, values: Sequence[Instruction], shape: Shape | None = None) -> Instruction:
    return e.tuple(values) if (shape or x.shape).is_tuple else values[0]


def _computed(dtype: str) -> str:
    """The type in which arrays of a type are combined: only the end of it is rounded."""
    return "f32" if dtype in SMALL_FLOATS else dtype


class _Reducer:
    """The computation of `x`, on whole arrays of a type, held as `_computed` says."""

    def __init__(self, x: Instruction, dtype: str):
        computation: Computation = x.called[0]
        made = computation.root.shape.element_type
        self._computation = computation
        self._opcode = monoid(computation)
        self._dtype = dtype
        if self._opcode is None and made != _computed(dtype):
            raise UnsupportedError(f"{x.where}: '{computation.name}' combines {made}, not {dtype}")

    def combined(self, e: Writer, a: Instruction, b: Instruction) -> Instruction:
        if self._opcode is not None:
            return e.binary(self._opcode, a, b)
        return e.op("map", a, b, called=[self._computation], dimensions=tuple(range(a.shape.rank)))

    def ignores_order(self, count: int) -> bool:
        """Returns True if so many arrays give the same numbers in whatever order they are combined."""
        return self._opcode is not None and (count == 2 or TYPES[self._dtype].kind in ("pred", "signed", "unsigned"))


def _parts(e: Writer, rows: Instruction) -> list[Instruction]:
    """The rows of an array."""
    size, *dims = rows.shape.dimensions
    return [e.reshape(e.slice_dim(rows, 0, i, i + 1), tuple(dims)) for i in range(size)]


def _folded(
    e: Writer, reducer: _Reducer, parts: Sequence[Instruction], count: Instruction | None = None
) -> Instruction:
    """Arrays combined one after another; of a list that is not full, the first `count`."""
    dtype = parts[0].shape.element_type
    parts = [e.convert(part, _computed(dtype)) for part in parts]
    total = parts[0]
    for i, part in enumerate(parts[1:], 1):
        more = reducer.combined(e, total, part)
        total = more if count is None else e.select(e.like(more, e.compare("GT", count, i)), more, total)
    return e.convert(total, dtype)


# --- all-reduce, reduce-scatter ------------------------------------------------------------------------------------


def _all_reduce(e: Writer, x: Instruction) -> Instruction:
    if _alone(x):
        return _values(e, x, x.operands)
    group = _group(e, x)
    reducers = [_Reducer(x, o.shape.element_type) for o in x.operands]
    if group.size is None and group.room > max(map(len, listed(x)), default=0):
        made = _one_by_one(e, group, x.operands, reducers)
    elif (
        group.size is not None and sum(o.shape.size * TYPES[o.shape.element_type].bytes for o in x.operands) >= _BLOCKS
    ):
        made = _in_blocks(e, group, x.operands, reducers)
    else:
        gathered = exchange(e, Route.among(group.devices), x.operands, [_rows(group.room, s.shape) for s in x.operands])
        count = None if group.size is not None else group.count
        made = [_folded(e, reducer, _parts(e, rows), count) for reducer, rows in zip(reducers, gathered)]
    return _values(e, x, made)


def _in_blocks(
    e: Writer, group: Group, arrays: Sequence[Instruction], reducers: Sequence[_Reducer]
) -> list[Instruction]:
    """Each device combines one block of every array, and all get all blocks."""
    n = group.room
    blocks = []
    for a in arrays:
        size = a.shape.size
        block = -(-size // n)
        flat = e.reshape(a, (size,))
        if block * n > size:
            flat = e.pad(flat, e.scalar(a.shape.element_type, 0), [PaddingDimension(0, block * n - size)])
        blocks.append(e.reshape(flat, (n, block)))
    own = _scattered(e, group.devices, group.rank, blocks, reducers)
    whole = exchange(e, Route.among(group.devices, phase=1), own, [b.shape for b in blocks])
    made = []
    for a, rows in zip(arrays, whole):
        flat = e.reshape(rows, (rows.shape.size,))
        made.append(
            e.reshape(
                e.slice(flat, (0,), (a.shape.size,)) if rows.shape.size > a.shape.size else flat, a.shape.dimensions
            )
        )
    return made


def _scattered(
    e: Writer, devices: Instruction, rank: Instruction, blocks: Sequence[Instruction], reducers: Sequence[_Reducer]
) -> list[Instruction]:
    """Of arrays with a block for each device, this device's blocks, combined over all devices. Its own stay where they
    are."""
    (n,) = devices.shape.dimensions
    to = e.select(e.compare("NE", devices, own_device(e)), devices, -1)
    others = e.select(
        e.compare("LT", e.iota("s32", (n - 1,)), rank), e.slice(devices, (0,), (n - 1,)), e.slice(devices, (1,), (n,))
    )
    received = [Shape(b.shape.element_type, (n - 1, *b.shape.dimensions[1:])) for b in blocks]
    came = exchange(e, Route(to, others, blocks=True), blocks, received)
    made = []
    for block, rows, reducer in zip(blocks, came, reducers):
        dims = block.shape.dimensions[1:]
        own = e.reshape(e.dynamic_slice(block, [rank, *[e.scalar("s32", 0)] * len(dims)], (1, *dims)), dims)
        theirs = _parts(e, rows)
        made.append(
            _folded(e, reducer, [own, *theirs] if reducer.ignores_order(n) else _in_order(e, rank, own, theirs))
        )
    return made


def _in_order(e: Writer, rank: Instruction, own: Instruction, theirs: Sequence[Instruction]) -> list[Instruction]:
    """Returns the arrays of all devices of a group, in its order: this device's own, and those of the others."""
    parts = [own] * (len(theirs) + 1)
    for i, row in enumerate(theirs):
        # Who comes after this device stands one place further down.
        parts[i] = e.select(e.like(own, e.compare("GT", rank, i)), row, parts[i])
        parts[i + 1] = e.select(e.like(own, e.compare("LE", rank, i)), row, parts[i + 1])
    return parts


def _one_by_one(
    e: Writer, group: Group, arrays: Sequence[Instruction], reducers: Sequence[_Reducer]
) -> list[Instruction]:
    """The arrays of one device after another, for groups whose size is not known."""

    def step(c: Writer, i: Instruction, came: list[Instruction], totals: list[Instruction]) -> list[Instruction]:
        first = c.compare("EQ", i, 0)
        wide = [c.convert(y, t.shape.element_type) for t, y in zip(totals, came)]
        return [c.select(c.like(t, first), y, r.combined(c, t, y)) for r, t, y in zip(reducers, totals, wide)]

    totals = _each(e, group, arrays, step, [e.convert(a, _computed(a.shape.element_type)) for a in arrays])
    return [e.convert(total, a.shape.element_type) for total, a in zip(totals, arrays)]


def _each(
    e: Writer,
    group: Group,
    arrays: Sequence[Instruction],
    body: Callable[[Writer, Instruction, list[Instruction], list[Instruction]], list[Instruction]],
    state: Sequence[Instruction],
) -> list[Instruction]:
    """A loop over the devices of a group: `body(expansion, i, what device i has, state)` gives the next state."""
    count = len(arrays)

    def condition(c: Writer, i: Instruction, n: Instruction, *_: Instruction) -> Instruction:
        return c.compare("LT", i, n)

    def step(c: Writer, i: Instruction, n: Instruction, *rest: Instruction) -> list[Instruction]:
        rank, devices, *values = rest
        sent, values = values[:count], values[count:]
        to = c.select(c.like(devices, c.compare("EQ", i, rank)), devices, -1)
        source = c.dynamic_slice(devices, [i], (1,))
        came = exchange(c, Route(to, source), sent, [_rows(1, a.shape) for a in sent])
        rows = [c.reshape(y, a.shape.dimensions) for y, a in zip(came, sent)]
        return [c.add(i, 1), n, rank, devices, *sent, *body(c, i, rows, values)]

    start = [e.scalar("s32", 0), group.count, group.rank, group.devices, *arrays, *state]
    return e.while_(start, condition, step)[4 + count :]


def _reduce_scatter(e: Writer, x: Instruction) -> Instruction:
    if _alone(x):
        return _values(e, x, x.operands)
    size = stated_size(x)
    group = _group(e, x)
    shapes = list(x.shape.tuple_shapes) if x.shape.is_tuple else [x.shape]
    if size is None:
        return _values(e, x, [e.full(s.element_type, s.dimensions, 0) for s in shapes])
    devices = _sized(e, x, group, size)
    (dim,) = x.attrs["dimensions"]
    blocks = [_split(e, o, dim, size) for o in x.operands]
    return _values(
        e, x, _scattered(e, devices, group.rank, blocks, [_Reducer(x, o.shape.element_type) for o in x.operands])
    )


# --- all-gather, all-to-all ----------------------------------------------------------------------------------------


def _split(e: Writer, a: Instruction, dim: int, count: int) -> Instruction:
    """Blocks along a dimension as dimension 0."""
    dims = a.shape.dimensions
    apart = e.reshape(a, (*dims[:dim], count, dims[dim] // count, *dims[dim + 1 :]))
    return e.transpose(apart, (dim, *(d for d in range(len(dims) + 1) if d != dim)))


def _joined(e: Writer, rows: Instruction, dim: int) -> Instruction:
    """Rows one after another along a dimension of theirs."""
    count, *dims = rows.shape.dimensions
    apart = e.transpose(rows, (*range(1, dim + 1), 0, *range(dim + 1, len(dims) + 1)))
    return e.reshape(apart, (*dims[:dim], count * dims[dim], *dims[dim + 1 :]))


def _all_gather(e: Writer, x: Instruction) -> Instruction:
    return _values(e, x, _gathered(e, x))


def _gathered(e: Writer, x: Instruction) -> list[Instruction]:
    size = stated_size(x)
    if size is None or _alone(x) and size == 1:
        return list(x.operands)
    devices = _sized(e, x, _group(e, x), size)
    came = exchange(e, Route.among(devices), x.operands, [_rows(size, o.shape) for o in x.operands])
    return [_joined(e, rows, x.attrs["dimensions"][0]) for rows in came]


def _all_to_all(e: Writer, x: Instruction) -> Instruction:
    if not x.attrs["dimensions"]:
        return e.tuple(_tuple_to_all(e, x))
    if _alone(x):
        return x.operands[0]
    (operand,) = x.operands
    (dim,) = x.attrs["dimensions"]
    group = _group(e, x)
    rows = operand.shape.dimensions[dim]
    if group.size is None:
        return _any_to_all(e, group, operand, dim)
    if rows % group.size:
        raise UnsupportedError(
            f"{x.where}: dimension {dim} of {operand.shape} does not split into {counted(group.size, 'block')}"
        )
    blocks = _split(e, operand, dim, group.size)
    (came,) = exchange(e, Route.among(group.devices, blocks=True), [blocks], [blocks.shape])
    return _joined(e, came, dim)


def _tuple_to_all(e: Writer, x: Instruction) -> list[Instruction]:
    if _alone(x) and len(x.operands) == 1:
        return list(x.operands)
    count, shape = len(x.operands), x.operands[0].shape
    devices = _sized(e, x, _group(e, x), count)
    blocks = e.concatenate([e.reshape(o, (1, *shape.dimensions)) for o in x.operands], 0)
    (came,) = exchange(e, Route.among(devices, blocks=True), [blocks], [blocks.shape])
    return [e.reshape(e.slice_dim(came, 0, i, i + 1), shape.dimensions) for i in range(count)]


def _any_to_all(e: Writer, group: Group, operand: Instruction, dim: int) -> Instruction:
    """An all-to-all in groups whose size is not known: of what each device has, the own block, put in its place."""
    dims = operand.shape.dimensions

    def put(c: Writer, i: Instruction, came: list[Instruction], state: list[Instruction]) -> list[Instruction]:
        result, count, rank = state
        (y,) = came
        block = c.div(c.scalar("s32", dims[dim]), count)
        turn = c.mul(c.sub(rank, i), block)
        turn = c.select(c.compare("LT", turn, 0), c.add(turn, dims[dim]), turn)
        zero = c.scalar("s32", 0)
        moved = c.dynamic_slice(
            c.concatenate([y, y], dim), [turn if d == dim else zero for d in range(len(dims))], dims
        )
        place = c.iota("s32", dims, dim)
        low = c.mul(i, block)
        inside = c.binary(
            "and", c.compare("GE", place, c.like(place, low)), c.compare("LT", place, c.like(place, c.add(low, block)))
        )
        return [c.select(inside, moved, result), count, rank]

    divides = e.compare("EQ", e.binary("remainder", e.scalar("s32", dims[dim]), group.count), 0)
    fitting = replace(group, devices=_if(e, divides, group.devices))
    return _each(e, fitting, [operand], put, [operand, group.count, group.rank])[0]


# --- broadcast, permute --------------------------------------------------------------------------------------------


def _collective_broadcast(e: Writer, x: Instruction) -> Instruction:
    if _alone(x) and not listed(x):
        return _values(e, x, x.operands)
    group = _group(e, x)
    first = e.slice(group.devices, (0,), (1,))
    member = e.compare("GT", group.count, 0)
    root = e.binary("and", member, e.compare("EQ", group.rank, 0))
    to = e.select(e.like(group.devices, root), group.devices, -1)
    return _values(e, x, _received(e, to, first, x.operands))


def _received(e: Writer, to: Instruction, source: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    """Returns the arrays that `source` sends to this device, or zeros if it is -1; this device's own go to `to`."""
    zeros = [e.full(o.shape.element_type, (1, *o.shape.dimensions), 0) for o in operands]
    came = exchange(e, Route(to, source), operands, [z.shape for z in zeros], zeros)
    return [e.reshape(y, o.shape.dimensions) for y, o in zip(came, operands)]


def ends(e: Writer, kind: str, pairs: Sequence[Sequence[int]]) -> tuple[Instruction, Instruction]:
    """The device that this one sends to, and the one that it receives from, as s32[1]; -1 where there is none."""
    top = max((i for pair in pairs for i in pair), default=-1) + 1
    made = []
    for end in (0, 1):
        other = {pair[end]: pair[1 - end] for pair in pairs}
        rows: list[tuple[int, ...]] = [(other[i],) if i in other else () for i in range(top)]
        made.append(device(e, kind, looked_up(e, kind, rows, 1)))
    return made[0], made[1]


def _permuted(e: Writer, x: Instruction) -> list[Instruction]:
    pairs = listed(x)
    if x.attrs["slice_sizes"]:
        return _permuted_in_place(e, x)
    if len(x.operands) > 1 and len(x.operands) != len(_results(x)):
        raise UnsupportedError(
            f"{x.where}: {counted(len(x.operands), 'operand')} for {counted(len(_results(x)), 'result')} without "
            f"slice_sizes"
        )
    to, source = ends(e, mode(x), pairs)
    return _received(e, to, source, x.operands)


def _results(x: Instruction) -> list[Shape]:
    shape = x.shape.tuple_shapes[1] if x.opcode.endswith("-start") else x.shape
    return list(shape.tuple_shapes) if shape.is_tuple else [shape]


def _permuted_in_place(e: Writer, x: Instruction) -> list[Instruction]:
    """Slices of the inputs that go into places of the receivers' outputs; the pairs are shared out among an output's
    slices."""
    if len(x.operands) != 4:
        raise UnsupportedError(
            f"{x.where}: with slice_sizes, the operands are inputs, outputs, and where the slices begin in both"
        )
    inputs, outputs = e.results(x.operands[0]), e.results(x.operands[1])
    if len(inputs) != len(outputs):
        raise UnsupportedError(f"{x.where}: {counted(len(inputs), 'input')} for {counted(len(outputs), 'output')}")
    several = x.operands[0].shape.is_tuple
    begins = [_places(e, x.operands[k], several) for k in (2, 3)]
    sizes, pairs = list(x.attrs["slice_sizes"]), listed(x)
    made: list[Instruction] = []
    for number, (source, target) in enumerate(zip(inputs, outputs)):
        sources, targets = begins[0][number], begins[1][number]
        if len(sources) != len(targets) or len(pairs) % len(sources):
            raise UnsupportedError(
                f"{x.where}: {counted(len(sources), 'slice')} for "
                f"{counted(len(targets), 'place')}, with {counted(len(pairs), 'pair')} of devices"
            )
        share = len(pairs) // len(sources)
        for k, (begin, place) in enumerate(zip(sources, targets)):
            block, sizes = tuple(sizes[: len(begin)]), sizes[len(begin) :]
            to, origin = ends(e, mode(x), pairs[k * share : (k + 1) * share])
            moved = e.dynamic_slice(source, begin, block)
            before = e.reshape(e.dynamic_slice(target, place, block), (1, *block))
            route = Route(to, origin, phase=len(made) * len(sources) + k)
            (came,) = exchange(e, route, [moved], [before.shape], [before])
            target = e.dynamic_update_slice(target, e.reshape(came, block), place)
        made.append(target)
    return made


def _places(e: Writer, begin: Instruction, several: bool) -> list[list[list[Instruction]]]:
    """For each array the places of its slices: scalars, one for each dimension."""
    arrays = e.elements(begin) if several else [begin]
    made = []
    for one in arrays:
        slices = e.elements(one) if one.shape.tuple_shapes[0].is_tuple else [one]
        made.append([e.elements(place) for place in slices])
    return made


# --- ragged-all-to-all ---------------------------------------------------------------------------------------------


def _ragged_all_to_all(e: Writer, x: Instruction) -> Instruction:
    """Runs of rows of every device's input, put over those of the output."""
    source, target, *numbers = x.operands
    numbers = numbers[:3]
    # Offsets and sizes are lists with as many entries for every receiver.
    total = numbers[0].shape.size
    offsets, sizes, places = (e.convert(e.reshape(n, (total,)), "s32") for n in numbers)
    rows = target.shape.dimensions[0]
    if rows == 0 or total == 0:
        return target
    group = _group(e, x)
    size = group.size or (numbers[0].shape.dimensions[0] if numbers[0].shape.rank == 2 else total)
    devices = _sized(e, x, group, size)
    if total % size:
        raise UnsupportedError(f"{x.where}: {counted(total, 'offset')} for groups of {size}")
    share = total // size
    lists = [offsets, sizes, places]
    sent = [source, *lists]
    wide, *gathered = exchange(e, Route.among(devices), sent, [_rows(size, a.shape) for a in sent])
    # A run may stand anywhere, so the input gets room on both sides.
    room = [PaddingDimension(), PaddingDimension(rows, rows), *[PaddingDimension()] * (source.shape.rank - 1)]
    wide = e.pad(wide, e.scalar(source.shape.element_type, 0), room)

    def put(c: Writer, i: Instruction, result: Instruction, *given: Instruction) -> list[Instruction]:
        wide, rank, *lists = given
        sender, update = c.div(i, share), c.binary("remainder", i, share)
        at = [sender, c.add(c.mul(rank, share), update)]
        offset, run, place = (c.at(n, at) for n in lists)
        zero = c.scalar("s32", 0)
        start = c.add(c.sub(offset, place), rows)
        moved = c.dynamic_slice(wide, [sender, start, *[zero] * (result.shape.rank - 1)], (1, *result.shape.dimensions))
        row = c.iota("s32", result.shape.dimensions)
        inside = c.binary(
            "and", c.compare("GE", row, c.like(row, place)), c.compare("LT", row, c.like(row, c.add(place, run)))
        )
        return [c.select(inside, c.reshape(moved, result.shape.dimensions), result), *given]

    return e.for_(size * share, [target, wide, group.rank, *gathered], put)[0]


# --- starts and ends -----------------------------------------------------------------------------------------------


def _begun(results: Callable[[Writer, Instruction], list[Instruction]]) -> Rule:
    """(operands, results, contexts ...): all is done at the start."""

    def rule(e: Writer, x: Instruction) -> Instruction:
        first, second, *contexts = x.shape.tuple_shapes
        done = results(e, x)
        own = x.operands[0] if x.operands[0].shape.without_layout() == first.without_layout() else e.tuple(x.operands)
        return e.tuple([own, _values(e, x, done, second), *(e.zeros(s) for s in contexts)])

    return rule


def _ended(e: Writer, x: Instruction) -> Instruction:
    return e.element(x.operands[0], 1)


def _unchanged(e: Writer, x: Instruction) -> Instruction:
    return x.operands[0]


EXPAND: dict[str, Rule] = {
    "all-reduce": _all_reduce,
    "all-reduce-start": _all_reduce,
    "all-reduce-done": _unchanged,
    "all-gather": _all_gather,
    "all-gather-start": _begun(_gathered),
    "all-gather-done": _ended,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
    "ragged-all-to-all": _ragged_all_to_all,
    "collective-broadcast": _collective_broadcast,
    "collective-permute": lambda e, x: _values(e, x, _permuted(e, x)),
    "collective-permute-start": _begun(_permuted),
    "collective-permute-done": _ended,
}
"""opcode -> rule."""
