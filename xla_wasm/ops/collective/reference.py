"""NumPy semantics of what devices do together. A device is a thread of the evaluator; `call.device` is this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError, UnsupportedError, counted
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..dtypes import DTYPES, Array, Value, wide
from ..elementwise.reference import BINARY
from ..reduce.monoids import monoid
from .reference_membership import group_of, pairs_of


def _zeros(shape: Shape) -> Value:
    """Returns 0 converted to the element type, in the shape: f8e8m0fnu has NaN for it."""
    return (
        tuple(map(_zeros, shape.tuple_shapes))
        if shape.is_tuple
        else np.zeros(shape.dimensions).astype(DTYPES[shape.element_type])
    )


def _results(instr: Instruction, arrays: Sequence[Array], shape: Shape) -> Value:
    """Arrays as the value of a collective; they have the declared shape if the devices are as many as it was written
    for."""
    declared = [s for _, s in shape.leaves()]
    if [a.shape for a in arrays] != [s.dimensions for s in declared]:
        found = ", ".join(str(list(a.shape)) for a in arrays)
        raise ArgumentError(
            f"{instr.where}: on these devices its result has the shape {found}, it is declared as "
            f"{shape.without_layout()}"
        )
    return tuple(arrays) if shape.is_tuple else arrays[0]


def _moved(instr: Instruction) -> Shape:
    """The shape of the results, also of an operation that only starts."""
    return (
        instr.shape.tuple_shapes[1] if instr.opcode in ("all-gather-start", "collective-permute-start") else instr.shape
    )


Rows = Sequence[Sequence[Array]]
"""The operands of all devices of a group."""
Rule = Callable[[Instruction, Rows, int, Any], Sequence[Array]]
"""From an instruction, the operands of the group and the own place in it to the results."""


def _in_groups(rule: Rule) -> Callable[[Instruction, list[Value], Any], Value]:
    """An operation of the devices in a group, which knows what all of them have."""

    def run(instr: Instruction, operands: list[Value], call: Any) -> Value:
        device = call.device
        members = group_of(instr, device.grid, device.number)
        assert members is not None, "only a collective-broadcast leaves devices out"
        rows = device.gather(members, operands, instr)
        return _results(instr, rule(instr, rows, members.index(device.number), call), _moved(instr))

    return run


def _started(
    rule: Callable[[Instruction, list[Value], Any], Value],
) -> Callable[[Instruction, list[Value], Any], Value]:
    """(operands, results, contexts ...)"""

    def run(instr: Instruction, operands: list[Value], call: Any) -> Value:
        first, _, *contexts = instr.shape.tuple_shapes
        inputs = operands[:1] if _is_in_place(instr) else operands
        own = tuple(inputs) if first.is_tuple and not isinstance(inputs[0], tuple) else inputs[0]
        return (own, rule(instr, operands, call), *(_zeros(s) for s in contexts))

    return run


# --- groups -----------------------------------------------------------------------------------------------------------


def _folded(instr: Instruction, k: int, rows: Rows, call: Any) -> Array:
    """Operand k of all devices combined in the group's order; floats narrower than f32 are rounded at the end only."""
    computation = instr.called[0]
    first, *others = (row[k] for row in rows)
    if computation.root.shape.element_type == instr.operands[k].shape.element_type:
        for other in others:
            first = call.lanes(computation, first, other, rounded=False)
        return first
    # The reducer of operands of several types is one operation, which stands for that operation on each type.
    opcode = monoid(computation)
    if opcode is None:
        shape = instr.operands[k].shape.without_layout()
        raise UnsupportedError(
            f"{instr.where}: '{computation.name}' combines {computation.root.shape}, operand {k} is {shape}"
        )
    for other in others:
        first = BINARY[opcode](wide(first), wide(other))
    return first


def _all_reduce(instr: Instruction, rows: Rows, place: int, call: Any) -> list[Array]:
    return [_folded(instr, k, rows, call) for k in range(len(instr.operands))]


def _reduce_scatter(instr: Instruction, rows: Rows, place: int, call: Any) -> list[Array]:
    """Block number `place` of what an all-reduce gives."""
    (dim,) = instr.attrs["dimensions"]
    return [_blocks(instr, whole, dim, len(rows))[place] for whole in _all_reduce(instr, rows, place, call)]


def _all_gather(instr: Instruction, rows: Rows, place: int, call: Any) -> list[Array]:
    (dim,) = instr.attrs["dimensions"]
    return [np.concatenate(parts, dim) for parts in zip(*rows)]


def _all_to_all(instr: Instruction, rows: Rows, place: int, call: Any) -> list[Array]:
    """Returns the part that each device has for this one: a block of its only operand, or one of its operands."""
    if instr.attrs["dimensions"]:
        (dim,) = instr.attrs["dimensions"]
        return [np.concatenate([_blocks(instr, x, dim, len(rows))[place] for (x,) in rows], dim)]
    if len(instr.operands) != len(rows):
        raise ArgumentError(
            f"{instr.where} has {counted(len(instr.operands), 'operand')} for a group of {counted(len(rows), 'device')}"
        )
    return [row[place] for row in rows]


def _blocks(instr: Instruction, x: Array, dim: int, count: int) -> list[Array]:
    if x.shape[dim] % count:
        raise ArgumentError(
            f"{instr.where}: dimension {dim} of {list(x.shape)} cannot be cut into blocks for "
            f"{counted(count, 'device')}"
        )
    return np.split(x, count, dim)


def _ragged_all_to_all(instr: Instruction, rows: Rows, place: int, call: Any) -> list[Array]:
    """Every device puts runs of rows of its input into this one's output, where it wants them."""
    result = rows[place][1].copy()
    for source, _, *numbers in rows:
        if numbers[0].size % len(rows):
            raise ArgumentError(
                f"{instr.where}: {counted(numbers[0].size, 'offset')} for a group of {counted(len(rows), 'device')}"
            )
        starts, sizes, targets = (n.reshape(len(rows), -1)[place].tolist() for n in numbers[:3])
        for start, size, target in zip(starts, sizes, targets):
            result[target : target + size] = source[start : start + size]
    return [result]


def _collective_broadcast(instr: Instruction, operands: list[Value], call: Any) -> Value:
    device = call.device
    members = group_of(instr, device.grid, device.number)
    if members is None:
        return _zeros(instr.shape)
    if device.number == members[0]:
        for member in members:
            device.send(member, instr, operands)
    return _results(instr, device.receive(members[0], instr, instr), instr.shape)


# --- pairs ------------------------------------------------------------------------------------------------------------


def _is_in_place(instr: Instruction) -> bool:
    return bool(instr.attrs.get("slice_sizes"))


def _collective_permute(instr: Instruction, operands: list[Value], call: Any) -> Value:
    if _is_in_place(instr):
        return _permute_in_place(instr, operands, call)
    if len(operands) != sum(1 for _ in _moved(instr).leaves()):
        raise UnsupportedError(
            f"{instr.where}: in place without slice_sizes, which says nowhere how large the blocks are"
        )
    device = call.device
    pairs = pairs_of(instr, device.grid)
    for source, target in pairs:
        if source == device.number:
            device.send(target, instr, operands)
    for source, target in pairs:
        if target == device.number:
            return _results(instr, device.receive(source, instr, instr), _moved(instr))
    return _zeros(_moved(instr))


def _permute_in_place(instr: Instruction, operands: list[Value], call: Any) -> Value:
    """Blocks of the first operand go to places in the second one of other devices; other elements of that stay.

    Each array has one block with its start in the input and in the output, or a list of these. The pairs are then one
    permutation after another, as many for each block.
    """
    device = call.device
    inputs, outputs = (list(v) if isinstance(v, tuple) else [v] for v in operands[:2])
    froms, tos = ([_starts(s) for s in (v if isinstance(operands[0], tuple) else (v,))] for v in operands[2:])
    pairs, sizes = pairs_of(instr, device.grid), iter(instr.attrs["slice_sizes"])
    results = [x.copy() for x in outputs]
    for x, result, from_, to in zip(inputs, results, froms, tos, strict=True):
        share, rest = divmod(len(pairs), len(from_))
        if rest:
            raise ArgumentError(
                f"{instr.where}: {counted(len(pairs), 'pair')} of devices for "
                f"{counted(len(from_), 'block')}, which is no equal number for each"
            )
        for k, (begin, place) in enumerate(zip(from_, to, strict=True)):
            size = [next(sizes) for _ in begin]
            block = x[_window(x, begin, size)]
            own = pairs[k * share : (k + 1) * share]
            for _, target in (pair for pair in own if pair[0] == device.number):
                device.send(target, instr, block)
            for source, _ in (pair for pair in own if pair[1] == device.number):
                result[_window(result, place, size)] = device.receive(source, instr, instr)
    return tuple(results) if isinstance(operands[1], tuple) else results[0]


def _starts(given: Value) -> list[list[int]]:
    """A list of starts from one, or from several: each is a tuple of scalars."""
    return [[int(i) for i in start] for start in (given if isinstance(given[0], tuple) else (given,))]


def _window(x: Array, starts: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    """A block of `x`, moved inside where it would stand out, as dynamic-slice has it."""
    firsts = [min(max(start, 0), n - size) for start, n, size in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes))


_gathered = _in_groups(_all_gather)
_reduced = _in_groups(_all_reduce)

EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    "partition-id": lambda instr, operands, call: np.uint32(call.device.partition),
    "replica-id": lambda instr, operands, call: np.uint32(call.device.replica),
    "all-reduce": _reduced,
    "all-reduce-start": _reduced,
    "all-reduce-done": lambda instr, operands, call: operands[0],
    "all-gather": _gathered,
    "all-gather-start": _started(_gathered),
    "all-gather-done": lambda instr, operands, call: operands[0][1],
    "reduce-scatter": _in_groups(_reduce_scatter),
    "all-to-all": _in_groups(_all_to_all),
    "ragged-all-to-all": _in_groups(_ragged_all_to_all),
    "collective-broadcast": _collective_broadcast,
    "collective-permute": _collective_permute,
    "collective-permute-start": _started(_collective_permute),
    "collective-permute-done": lambda instr, operands, call: operands[0][1],
}
