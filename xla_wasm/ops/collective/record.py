"""Records of the operations that replicas and partitions take part in together."""

from __future__ import annotations

from ...hlo.attrs import ReplicaGroups
from ...hlo.infer import alike, array, arrays, brief, broken, dimensions, joined, need_kind, one_dimension
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Op
from ...hlo.shape import Shape

_GROUPS = Attr("replica_groups", "replica_groups", (87, 92, 93, 49), ReplicaGroups())
_CHANNEL = Attr("channel_id", "channel_id", (26,))
_LAYOUT = Attr("constrain_layout", "bool", (56,), False)
_GLOBAL = Attr("use_global_device_ids", "bool", (71,), False)
_DIMENSION = Attr("dimensions", "ints", (14,), REQUIRED)
_COMMON = (_GROUPS, _CHANNEL, _LAYOUT)


def _plain(shape: Shape) -> Shape:
    return shape.without_layout()


def _check_ids(instr: Instruction, rule: int) -> None:
    if instr.attrs["use_global_device_ids"] and instr.attrs["channel_id"] is None:
        raise broken(instr, rule, "use_global_device_ids needs a channel_id")


def _check_reducer(instr: Instruction, rule: int) -> None:
    """Operands of several types share one reducer, so only its own types must be alike."""
    computation = instr.called[0]
    shapes = [computation.root.shape, *(p.shape for p in computation.parameters)]
    if len(shapes) != 3 or any(not s.is_array or s.dimensions or not alike(s, shapes[0]) for s in shapes):
        raise broken(instr, rule, f"'{computation.name}' must take two scalars of one type and return one")


def _all_reduce(instr: Instruction) -> Shape:
    shapes = arrays(instr)
    _check_reducer(instr, 2)
    _check_ids(instr, 3)
    return joined([_plain(s) for s in shapes])


def _check_scaled(instr: Instruction, whole: Shape, grows: bool) -> None:
    """Whether `whole`, the results of an all-gather or reduce-scatter, are multiples (or parts) of the operands, rules 1 to 3."""
    shapes = arrays(instr)
    results = [whole] if len(shapes) == 1 and whole.is_array else list(whole.tuple_shapes)
    if len(results) != len(shapes):
        raise broken(instr, 2, f"{len(shapes)} operands, but {len(results)} results in {brief(whole)}")
    for shape, target in zip(shapes, results):
        dim = one_dimension(instr, shape.rank, 3)
        sizes, expected = list(target.dimensions), list(shape.dimensions)
        if target.element_type == shape.element_type and len(sizes) == len(expected):
            small, large = (expected[dim], sizes[dim]) if grows else (sizes[dim], expected[dim])
            expected[dim] = sizes[dim]
            if sizes == expected and (large % small == 0 if small else large == 0):
                continue
        raise broken(instr, 2, f"{brief(target)} is not {brief(shape)} with {'a multiple' if grows else 'a part'} of dimension {dim}")


def _all_gather(instr: Instruction) -> Shape:
    _check_scaled(instr, instr.shape, True)
    _check_ids(instr, 4)
    return instr.shape


def _all_gather_start(instr: Instruction) -> Shape:
    _check_scaled(instr, _started(instr, 5), True)
    _check_ids(instr, 4)
    return instr.shape


def _reduce_scatter(instr: Instruction) -> Shape:
    _check_scaled(instr, instr.shape, False)
    _check_ids(instr, 4)
    _check_reducer(instr, 5)
    return instr.shape


def _started(instr: Instruction, rule: int) -> Shape:
    """The results in the declared (operands, results, context ...)."""
    shapes = [_plain(operand.shape) for operand in instr.operands]
    parts = instr.shape.tuple_shapes
    if len(parts) < 2 or _plain(parts[0]) not in (joined(shapes), Shape.tuple(shapes)):
        raise broken(instr, rule, f"the result must be (operands, results, ...), not {brief(instr.shape)}")
    return parts[1]


def _all_to_all(instr: Instruction) -> Shape:
    shapes = arrays(instr)
    dims = instr.attrs["dimensions"]
    if dims:
        if len(dims) != 1 or len(shapes) != 1:
            raise broken(instr, 2, f"{len(dims)} dimensions and {len(shapes)} operands: one of each is expected")
        dimensions(instr, dims, shapes[0].rank, 2)
        return _plain(shapes[0])
    if any(s.element_type != shapes[0].element_type or s.dimensions != shapes[0].dimensions for s in shapes):
        raise broken(instr, 3, "the operands differ in shape")
    size = _group_size(instr.attrs["replica_groups"])
    if size and size != len(shapes):
        raise broken(instr, 4, f"{len(shapes)} operands for groups of {size}")
    return Shape.tuple([_plain(s) for s in shapes])


def _group_size(groups: ReplicaGroups) -> int:
    """The size of the first group, 0 if that is not written down."""
    return groups.iota.group_size if groups.iota else len(groups.groups[0]) if groups.groups else 0


def _collective_broadcast(instr: Instruction) -> Shape:
    return joined([_plain(s) for s in arrays(instr)])


def _check_pairs(instr: Instruction, rule: int) -> None:
    pairs = instr.attrs["source_target_pairs"]
    for end, what in enumerate(("source", "target")):
        ids = [pair[end] for pair in pairs if len(pair) == 2]
        if len(set(ids)) != len(pairs) or any(i < 0 for i in ids):
            raise broken(instr, rule, f"a {what} of source_target_pairs is negative or occurs twice")


def _collective_permute(instr: Instruction) -> Shape:
    if len(instr.operands) > 1:  # in place or combined: what the result is depends on the backend that made it
        return instr.shape
    _check_pairs(instr, 2)
    return _plain(array(instr, 0))


def _collective_permute_start(instr: Instruction) -> Shape:
    moved = _started(instr, 3)
    if len(instr.operands) == 1 and _plain(moved) != _collective_permute(instr):
        raise broken(instr, 3, f"the result {brief(moved)} is not {brief(instr.operands[0].shape)}")
    return instr.shape


def _ragged_all_to_all(instr: Instruction) -> Shape:
    source, target, *counts = arrays(instr)
    if source.element_type != target.element_type or source.dimensions[1:] != target.dimensions[1:] or not source.rank == target.rank >= 1:
        raise broken(instr, 2, f"{brief(source)} and {brief(target)} must differ in dimension 0 only")
    for shape in counts:
        need_kind(instr, shape.element_type, ("signed", "unsigned"), 3, "offsets and sizes")
        if shape.dimensions != counts[0].dimensions or shape.rank not in (1, 2):
            raise broken(instr, 3, f"offsets and sizes must have equal sizes and one or two dimensions, not {brief(shape)}")
    return _plain(target)


def _identity(instr: Instruction) -> Shape:
    return _plain(instr.operands[0].shape)


def _second(instr: Instruction) -> Shape:
    shape = instr.operands[0].shape
    if len(shape.tuple_shapes) < 2:
        raise broken(instr, 1, f"the operand must be what the start gives, not {brief(shape)}")
    return _plain(shape.tuple_shapes[1])


def _id(instr: Instruction) -> Shape:
    return Shape("u32")


_ARRAYS = "The operands are arrays."
_GLOBAL_RULE = "use_global_device_ids needs a channel_id."
_REDUCER = "to_apply takes two scalars of one type and returns one."
_GATHERED = (
    _ARRAYS,
    "A result is its operand with a multiple of that dimension.",
    "`dimensions` holds one dimension of every operand.",
    _GLOBAL_RULE,
)
_PERMUTED = ("An only operand is an array.", "No source and no target of it occurs twice in source_target_pairs.")
_START = "The operand is what the start gives."

_ALL_REDUCE = (*_COMMON, _GLOBAL)
_ALL_GATHER = (_DIMENSION, *_COMMON, _GLOBAL)
_PERMUTE = (Attr("source_target_pairs", "source_target_pairs", (52,), REQUIRED), _CHANNEL, Attr("slice_sizes", "ints", (20,), ()))

OPS: tuple[Op, ...] = (
    Op("partition-id", (0, 0), _id, doc="The number of this partition, as u32."),
    Op("replica-id", (0, 0), _id, doc="The number of this replica, as u32."),
    Op(
        "all-reduce",
        (1, None),
        _all_reduce,
        _ALL_REDUCE,
        ("to_apply",),
        doc="The operands of all devices in a group combined element by element.",
        constraints=(_ARRAYS, _REDUCER, _GLOBAL_RULE),
    ),
    Op(
        "all-reduce-start",
        (1, None),
        _all_reduce,
        _ALL_REDUCE,
        ("to_apply",),
        doc="Starts an all-reduce.",
        constraints=(_ARRAYS, _REDUCER, _GLOBAL_RULE),
    ),
    Op("all-reduce-done", (1, 1), _identity, doc="The result of an all-reduce."),
    Op(
        "all-gather",
        (1, None),
        _all_gather,
        _ALL_GATHER,
        doc="The operands of all devices in a group one after another along one dimension.",
        constraints=_GATHERED,
    ),
    Op(
        "all-gather-start",
        (1, None),
        _all_gather_start,
        _ALL_GATHER,
        doc="Starts an all-gather: (operands, results).",
        constraints=(*_GATHERED, "The result is a tuple of the operands and the results."),
    ),
    Op("all-gather-done", (1, 1), _second, doc="The result of an all-gather.", constraints=(_START,)),
    Op(
        "reduce-scatter",
        (1, None),
        _reduce_scatter,
        _ALL_GATHER,
        ("to_apply",),
        doc="The operands of all devices in a group combined; each device gets its block along one dimension.",
        constraints=(
            _ARRAYS,
            "A result is its operand with a part of that dimension.",
            "`dimensions` holds one dimension of every operand.",
            _GLOBAL_RULE,
            _REDUCER,
        ),
    ),
    Op(
        "all-to-all",
        (1, None),
        _all_to_all,
        (Attr("dimensions", "ints", (14,), ()), *_COMMON),
        doc="Block j of each device's operand goes to device j of the group; with several operands, operand j does.",
        constraints=(
            _ARRAYS,
            "With `dimensions` there is one operand, and one of its dimensions is named.",
            "Without, the operands have equal shapes.",
            "There are then as many operands as devices in a group.",
        ),
    ),
    Op(
        "ragged-all-to-all",
        (6, 6),
        _ragged_all_to_all,
        (Attr("dimensions", "ints", (14,), ()), *_COMMON),
        doc="Rows of the first operand sent to the devices of the group, into their second operands, by offsets and counts.",
        constraints=(
            _ARRAYS,
            "The first two have the same type, and the same sizes from dimension 1 on.",
            "The others are integers of equal sizes, with one or two dimensions.",
        ),
    ),
    Op(
        "collective-broadcast",
        (1, None),
        _collective_broadcast,
        _COMMON,
        doc="The operand of the group's first device on all of them; zeros on devices in no group.",
        constraints=(_ARRAYS,),
    ),
    Op(
        "collective-permute",
        (1, None),
        _collective_permute,
        _PERMUTE,
        doc="The operand of the device that is paired with this one as source; zeros if there is none.",
        constraints=_PERMUTED,
    ),
    Op(
        "collective-permute-start",
        (1, None),
        _collective_permute_start,
        _PERMUTE,
        doc="Starts a collective-permute: (operand, result, context, context).",
        constraints=(*_PERMUTED, "The result is a tuple that begins with the operands and the results."),
    ),
    Op("collective-permute-done", (1, 1), _second, doc="The result of a collective-permute.", constraints=(_START,)),
)
