"""Records of the operations that replicas and partitions take part in together.

A device is a replica and a partition, and its number is replica * number of partitions + partition. Which devices are a
group depends on `channel_id` and `use_global_device_ids`:

- Without a `channel_id` (cross-replica), `replica_groups` and pairs hold replicas. Each partition has groups of its
  own: the same partition of these replicas.
- With one (cross-partition), those of all-to-all, ragged-all-to-all, collective-permute and collective-broadcast hold
  partitions. Each replica has groups of its own: these partitions of it.
- With one (cross-replica-and-partition), those of all-reduce, all-gather and reduce-scatter hold replicas. A group is
  all of their partitions, replica by replica.
- With `use_global_device_ids` too (flattened ids), they hold devices.

Without `replica_groups` all are one group. The order of a group is the order in which parts are put together, blocks
are dealt out and operands are combined. All groups of an operation have one size, but in all-reduce and
collective-broadcast. The computation that combines operands (`to_apply`) is applied to all of them in one chain; where
operands are of several types, it is one operation, which stands for that operation on each type.

On a device that no other sends anything to, collective-permute and collective-broadcast give zeros; in place, what was
there stays. With several blocks in place (`slice_sizes` for each), the pairs are one permutation after another, as many
pairs for each block. An operation that only starts does all of its work then.
"""

from __future__ import annotations

from ...errors import UnsupportedError, counted
from ...hlo.attrs import MOST_DEVICES, ReplicaGroups
from ...hlo.infer import alike, array, arrays, brief, broken, dimensions, joined, need_kind, one_dimension
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Narrow, Op
from ...hlo.shape import Shape

_GROUPS = Attr("replica_groups", "replica_groups", (87, 92, 93, 49), ReplicaGroups())
_CHANNEL = Attr("channel_id", "channel_id", (26,))
_LAYOUT = Attr("constrain_layout", "bool", (56,), False)
_GLOBAL = Attr("use_global_device_ids", "bool", (71,), False)
_DIMENSION = Attr("dimensions", "ints", (14,), REQUIRED, "all_gather_dim scatter_dimension")
_COMMON = (_GROUPS, _CHANNEL, _LAYOUT)


def _plain(shape: Shape) -> Shape:
    return shape.without_layout()


def _check_ids(instr: Instruction, rule: int) -> None:
    if instr.attrs["use_global_device_ids"] and instr.attrs["channel_id"] is None:
        raise broken(instr, rule, "use_global_device_ids needs a channel_id")


def _check_count(instr: Instruction, count: int) -> None:
    if count > MOST_DEVICES:
        raise UnsupportedError(
            f"{instr.where}: it names {counted(count, 'device')}; at most {MOST_DEVICES} are supported"
        )


def _check_groups(instr: Instruction, rule: int) -> None:
    _check_count(instr, instr.attrs["replica_groups"].devices)
    groups = instr.attrs["replica_groups"].expanded()
    ids = [i for group in groups for i in group]
    if len(set(ids)) != len(ids) or any(i < 0 for i in ids) or not all(groups):
        raise broken(instr, rule, "a device is negative or in two groups of replica_groups, or a group is empty")
    if instr.opcode != "collective-broadcast" and ids and max(ids) >= len(ids):
        least = min(set(range(len(ids))) - set(ids))
        raise broken(instr, rule, f"device {least} is in none of the replica_groups, but {max(ids)} is")
    if instr.attrs.get("use_global_device_ids") and not groups:
        raise broken(instr, rule, "with use_global_device_ids, replica_groups lists the devices")


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
    _check_groups(instr, 4)
    return joined([_plain(s) for s in shapes])


def _check_scaled(instr: Instruction, whole: Shape, grows: bool) -> None:
    """Checks that `whole`, the results of an all-gather or reduce-scatter, are multiples (or parts) of the operands,
    rules 1 to 3."""
    shapes = arrays(instr)
    results = [whole] if len(shapes) == 1 and whole.is_array else list(whole.tuple_shapes)
    if len(results) != len(shapes):
        raise broken(
            instr, 2, f"{counted(len(shapes), 'operand')}, but {counted(len(results), 'result')} in {brief(whole)}"
        )
    for shape, target in zip(shapes, results):
        dim = one_dimension(instr, shape.rank, 3)
        sizes, expected = list(target.dimensions), list(shape.dimensions)
        if target.element_type == shape.element_type and len(sizes) == len(expected):
            small, large = (expected[dim], sizes[dim]) if grows else (sizes[dim], expected[dim])
            expected[dim] = sizes[dim]
            if sizes == expected and (large % small == 0 if small else large == 0):
                continue
        raise broken(
            instr,
            2,
            f"{brief(target)} is not {brief(shape)} with {'a multiple' if grows else 'a part'} of dimension {dim}",
        )


def _all_gather(instr: Instruction) -> Shape:
    _check_scaled(instr, instr.shape, True)
    _check_ids(instr, 4)
    _check_groups(instr, 5)
    return instr.shape


def _all_gather_start(instr: Instruction) -> Shape:
    _check_scaled(instr, _started(instr, 6), True)
    _check_ids(instr, 4)
    _check_groups(instr, 5)
    return instr.shape


def _reduce_scatter(instr: Instruction) -> Shape:
    _check_scaled(instr, instr.shape, False)
    _check_ids(instr, 4)
    _check_reducer(instr, 5)
    _check_groups(instr, 6)
    return instr.shape


def _started(instr: Instruction, rule: int) -> Shape:
    """The results in the declared (operands, results, context ...). Of what moves in place, only the input counts as an
    operand."""
    shapes = [
        _plain(operand.shape) for operand in (instr.operands[:1] if instr.attrs.get("slice_sizes") else instr.operands)
    ]
    parts = instr.shape.tuple_shapes
    if len(parts) < 2 or _plain(parts[0]) not in (joined(shapes), Shape.tuple(shapes)):
        raise broken(instr, rule, f"the result must be (operands, results, ...), not {brief(instr.shape)}")
    return parts[1]


def _all_to_all(instr: Instruction) -> Shape:
    shapes = arrays(instr)
    dims = instr.attrs["dimensions"]
    _check_groups(instr, 5)
    if dims:
        if len(dims) != 1 or len(shapes) != 1:
            raise broken(
                instr,
                2,
                f"{counted(len(dims), 'dimension')} and {counted(len(shapes), 'operand')}: one of each is expected",
            )
        dimensions(instr, dims, shapes[0].rank, 2)
        return _plain(shapes[0])
    if any(s.element_type != shapes[0].element_type or s.dimensions != shapes[0].dimensions for s in shapes):
        raise broken(instr, 3, "the operands differ in shape")
    size = _group_size(instr.attrs["replica_groups"])
    if size and size != len(shapes):
        raise broken(instr, 4, f"{counted(len(shapes), 'operand')} for groups of {size}")
    return Shape.tuple([_plain(s) for s in shapes])


def _group_size(groups: ReplicaGroups) -> int:
    """The size of the first group, 0 if that is not written down."""
    return groups.iota.group_size if groups.iota else len(groups.groups[0]) if groups.groups else 0


def _collective_broadcast(instr: Instruction) -> Shape:
    _check_groups(instr, 2)
    return joined([_plain(s) for s in arrays(instr)])


def _check_pairs(instr: Instruction, rule: int) -> None:
    pairs = instr.attrs["source_target_pairs"]
    for end, what in enumerate(("source", "target")):
        ids = [pair[end] for pair in pairs if len(pair) == 2]
        if len(set(ids)) != len(pairs) or any(i < 0 for i in ids):
            raise broken(instr, rule, f"a {what} of source_target_pairs is negative or occurs twice")
        _check_count(instr, max(ids, default=-1) + 1)


def _collective_permute(instr: Instruction) -> Shape:
    if len(instr.operands) > 1 and not instr.attrs["slice_sizes"]:
        return instr.shape  # combined, or in place as only the backend that made it knows
    return _permuted(instr)


def _permuted(instr: Instruction) -> Shape:
    """Returns the shape of what comes in: that of the operand, or in place that of the second one."""
    if not instr.attrs["slice_sizes"]:
        _check_pairs(instr, 2)
        return _plain(array(instr, 0))
    if len(instr.operands) != 4:
        raise broken(
            instr,
            3,
            f"slice_sizes needs an input, an output and where blocks begin in both, not "
            f"{counted(len(instr.operands), 'operand')}",
        )
    return _plain(instr.operands[1].shape)


def _collective_permute_start(instr: Instruction) -> Shape:
    moved = _started(instr, 4)
    if (len(instr.operands) == 1 or instr.attrs["slice_sizes"]) and _plain(moved) != _permuted(instr):
        raise broken(instr, 4, f"the result {brief(moved)} is not {brief(_permuted(instr))}")
    return instr.shape


def _ragged_all_to_all(instr: Instruction) -> Shape:
    source, target, *counts = arrays(instr)
    _check_groups(instr, 4)
    if (
        source.element_type != target.element_type
        or source.dimensions[1:] != target.dimensions[1:]
        or not source.rank == target.rank >= 1
    ):
        raise broken(instr, 2, f"{brief(source)} and {brief(target)} must differ in dimension 0 only")
    for shape in counts:
        need_kind(instr, shape.element_type, ("signed", "unsigned"), 3, "offsets and sizes")
        if shape.dimensions != counts[0].dimensions or shape.rank not in (1, 2):
            raise broken(
                instr, 3, f"offsets and sizes must have equal sizes and one or two dimensions, not {brief(shape)}"
            )
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
_APART = "No device is in two of the replica_groups, and none of these is empty."
_LISTED = "Every device is in one of the replica_groups, and none of these is empty; use_global_device_ids needs some."
_GATHERED = (
    _ARRAYS,
    "A result is its operand with a multiple of that dimension.",
    "`dimensions` holds one dimension of every operand.",
    _GLOBAL_RULE,
    _LISTED,
)
_PERMUTED = (
    "An only operand is an array.",
    "No source and no target of it occurs twice in source_target_pairs.",
    "With slice_sizes there are four operands, and the result is like the second.",
)
_START = "The operand is what the start gives."

_ALL_REDUCE = (*_COMMON, _GLOBAL)
_ALL_GATHER = (_DIMENSION, *_COMMON, _GLOBAL)
_PERMUTE = (
    Attr("source_target_pairs", "source_target_pairs", (52,), REQUIRED),
    _CHANNEL,
    Attr("slice_sizes", "nested_ints", (20,), ()),
)

COUNTS: tuple[Op, ...] = (
    Op("replica-count", (0, 0), _id, doc="The number of replicas, as u32."),
    Op("partition-count", (0, 0), _id, doc="The number of partitions, as u32."),
)
"""Operations that only expansions make."""

OPS: tuple[Op, ...] = (
    Op("partition-id", (0, 0), _id, doc="The number of this partition, as u32."),
    Op("replica-id", (0, 0), _id, doc="The number of this replica, as u32."),
    Op(
        "all-reduce",
        (1, None),
        _all_reduce,
        _ALL_REDUCE,
        ("to_apply",),
        narrow=Narrow.COMBINED,
        doc="The operands of all devices in a group combined element by element.",
        constraints=(_ARRAYS, _REDUCER, _GLOBAL_RULE, _LISTED),
    ),
    Op(
        "all-reduce-start",
        (1, None),
        _all_reduce,
        _ALL_REDUCE,
        ("to_apply",),
        narrow=Narrow.COMBINED,
        doc="Starts an all-reduce.",
        constraints=(_ARRAYS, _REDUCER, _GLOBAL_RULE, _LISTED),
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
        narrow=Narrow.COMBINED,
        doc="The operands of all devices in a group combined; each device gets its block along one dimension.",
        constraints=(
            _ARRAYS,
            "A result is its operand with a part of that dimension.",
            "`dimensions` holds one dimension of every operand.",
            _GLOBAL_RULE,
            _REDUCER,
            _LISTED,
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
            _LISTED,
        ),
    ),
    Op(
        "ragged-all-to-all",
        (6, 6),
        _ragged_all_to_all,
        (Attr("dimensions", "ints", (14,), ()), *_COMMON),
        doc="Rows of the first operand sent to the devices of the group, into their second operands, by offsets and "
        "counts.",
        constraints=(
            _ARRAYS,
            "The first two have the same type, and the same sizes from dimension 1 on.",
            "The others are integers of equal sizes, with one or two dimensions.",
            _LISTED,
        ),
    ),
    Op(
        "collective-broadcast",
        (1, None),
        _collective_broadcast,
        _COMMON,
        doc="The operand of the group's first device on all of them; zeros on devices in no group.",
        constraints=(_ARRAYS, _APART),
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
