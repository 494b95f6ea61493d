"""The reference evaluator: an HLO module over NumPy arrays, written to be read, the judge of compiled modules.

What an operation means lies in `ops/<family>/reference.py`. There an operation gets its instruction, the values of its
operands and the Evaluator (to run called computations); it may return wider numbers, which are rounded here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from .errors import ArgumentError, UnsupportedError
from .hlo.ir import Computation, Instruction, Module
from .hlo.shape import Shape
from .hlo.types import TYPES
from .ops.arrays import DTYPES, Array, Value, dtype_of, narrow
from .ops.collective import reference as collective
from .ops.control import reference as control
from .ops.conv import reference as conv
from .ops.custom import reference as custom
from .ops.dot import reference as dot
from .ops.dynamic import reference as dynamic
from .ops.elementwise import reference as elementwise
from .ops.fft import reference as fft
from .ops.indexing import reference as indexing
from .ops.linalg import reference as linalg
from .ops.movement import reference as movement
from .ops.norm import reference as norm
from .ops.random import reference as random
from .ops.reduce import reference as reduce
from .ops.sort import reference as sort
from .ops.window import reference as window

FAMILIES = (
    elementwise,
    movement,
    indexing,
    reduce,
    window,
    sort,
    dot,
    conv,
    linalg,
    fft,
    norm,
    random,
    control,
    dynamic,
    collective,
    custom,
)

EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    opcode: fn for family in FAMILIES for opcode, fn in family.EVALUATE.items()
}
"""Every opcode that the evaluator runs."""

_OUTSIDE = "it exchanges data with a host or another device, and an evaluation has neither"
NOT_EVALUATED: dict[str, str] = {
    **dict.fromkeys(("infeed", "outfeed", "send", "send-done", "recv", "recv-done"), _OUTSIDE),
}
"""Every other opcode but `parameter`, with the reason."""

_LANEWISE = {
    *elementwise.EVALUATE,
    *("parameter", "tuple", "get-tuple-element", "call", "fusion", "copy", "reshape", "broadcast", "bitcast", "while", "conditional"),
}


def evaluate(
    module: Module,
    *arrays: Any,
    precision: Literal["native", "f64"] = "native",
    custom_calls: Mapping[str, Callable[..., Any]] | None = None,
) -> list[Array]:
    """Run the entry computation of `module` on `arrays` (its flattened parameters) and return its flattened result.

    With precision "f64", floats of 16 bits and more (and complex numbers) are held and computed in 64 bits throughout
    and so returned: the true values by which the rounding of other evaluations is measured.

    `custom_calls` are functions that stand for the custom calls to their targets, as in `load`.
    """
    evaluator = Evaluator(precise=precision == "f64")
    evaluator.custom_calls = dict(custom_calls or {})
    parameters = module.entry.parameters
    leaves = [(p.name + "".join(f".{i}" for i in index), shape) for p in parameters for index, shape in p.shape.leaves()]
    leaves = [(name, shape) for name, shape in leaves if not shape.is_token]
    if len(arrays) != len(leaves):
        raise ArgumentError(f"{module.name} takes {len(leaves)} arrays ({', '.join(name for name, _ in leaves)}), not {len(arrays)}")
    with np.errstate(all="ignore"):
        flat = iter([_argument(name, shape, array, evaluator.precise) for (name, shape), array in zip(leaves, arrays)])
        result = evaluator(module.entry, *(nested(p.shape, flat) for p in parameters))
    return [np.array(leaf) for leaf in flattened(result)]


def _argument(name: str, shape: Shape, array: Any, precise: bool) -> Value:
    array = np.asarray(array)
    wanted = DTYPES[shape.element_type]
    if array.dtype != wanted:
        raise ArgumentError(f"parameter '{name}' is {shape.without_layout()}: expected dtype {wanted}, got {array.dtype}")
    flags = shape.dynamic or (False,) * shape.rank
    fits = all(n == bound or flag and n < bound for n, bound, flag in zip(array.shape, shape.dimensions, flags))
    if array.ndim != shape.rank or not fits:
        raise ArgumentError(f"parameter '{name}' is {shape.without_layout()}: expected shape {shape.dimensions}, got {array.shape}")
    return array.astype(dtype_of(shape.element_type, precise))


def nested(shape: Shape, flat: Any) -> Value:
    """The value of `shape` whose leaves an iterator gives in order."""
    if shape.is_tuple:
        return tuple(nested(s, flat) for s in shape.tuple_shapes)
    return None if shape.is_token else next(flat)


def flattened(value: Value) -> list[Array]:
    """The arrays of a value in order; tokens are left out."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in flattened(element)]
    return [] if value is None else [value]


class Evaluator:
    """Runs computations; called by `evaluate`, and by operations that have computations of their own."""

    def __init__(self, precise: bool):
        self.precise = precise
        self.states: dict[Instruction, int] = {}
        """What the generators of random numbers keep."""
        self.custom_calls: dict[str, Callable[..., Any]] = {}
        self.expansions: dict[Instruction, Computation] = {}
        """Custom calls as the operations that stand for them."""
        self._held = False
        self._many = False
        self._last_uses: dict[int, list[list[Instruction]]] = {}
        self._lanewise: dict[int, bool] = {}

    def __call__(self, computation: Computation, *args: Value) -> Value:
        """The value of the root of `computation`."""
        values: dict[Instruction, Value] = {}
        for instr, dead in zip(computation.instructions, self._dying(computation)):
            if instr.opcode == "parameter":
                values[instr] = args[instr.attrs["parameter_number"]]
            else:
                values[instr] = self.run(instr, [values[o] for o in instr.operands])
            for operand in dead:
                del values[operand]
        return values[computation.root]

    def lanes(self, computation: Computation, *args: Array, rounded: bool = True) -> Value:
        """A computation over scalars, applied to every element of equally shaped arrays.

        Elementwise operations take whole arrays as they are, and so do loops and branches made of them; a computation with
        any other operation is run for every element by itself. Unless `rounded`, floats narrower than f32 are held in f32.
        """
        dims = np.broadcast_shapes(*(a.shape for a in args))
        held, self._held = self._held, not rounded
        many, self._many = self._many, self._is_lanewise(computation)
        try:
            if self._many:
                return _map_leaves(lambda x: np.broadcast_to(x, dims), self(computation, *args))
            columns = [np.broadcast_to(a, dims).reshape(-1) for a in args]
            rows = [flattened(self(computation, *(c[i, ...] for c in columns))) for i in range(len(columns[0]))]
        finally:
            self._held, self._many = held, many
        leaves = [shape for _, shape in computation.root.shape.leaves()]
        stacked = [
            np.array([row[k] for row in rows], rows[0][k].dtype if rows else dtype_of(shape.element_type, self.precise)).reshape(dims)
            for k, shape in enumerate(leaves)
        ]
        return nested(computation.root.shape, iter(stacked))

    def _while_lanes(self, instr: Instruction, operands: list[Value]) -> Value:
        """A loop over many lanes: those whose condition has failed keep their state."""
        body, condition = instr.called
        state = operands[0]
        going: Array = np.asarray(True)
        while True:
            going = going & self(condition, state)
            if not going.any():
                return state
            state = _chosen(going, self(body, state), state)

    def _conditional_lanes(self, instr: Instruction, operands: list[Value]) -> Value:
        """Branches over many lanes: every one that a lane takes is run on all."""
        selector, count = operands[0], len(instr.called)
        if selector.dtype == bool:
            branches = np.where(selector, 0, 1)
        else:
            index = selector.astype(np.int64)
            branches = np.where((index >= 0) & (index < count), index, count - 1)
        result: Value = None
        for branch in np.unique(branches):
            value = self(instr.called[branch], operands[1 + branch])
            result = value if result is None else _chosen(branches == branch, value, result)
        return result

    def run(self, instr: Instruction, operands: list[Value]) -> Value:
        """The value of one instruction, rounded to its type."""
        fn = EVALUATE.get(instr.opcode)
        if fn is None:
            reason = NOT_EVALUATED.get(instr.opcode, "nobody has said what it means")
            raise UnsupportedError(f"the reference evaluator cannot run {instr.where}: {reason}")
        if self._many and instr.opcode in ("while", "conditional"):
            return self._while_lanes(instr, operands) if instr.opcode == "while" else self._conditional_lanes(instr, operands)
        value = dynamic.evaluate(instr, operands, self, fn) if dynamic.is_dynamic(instr) else fn(instr, operands, self)
        # A conversion asks for its rounding, even where others are left out.
        return narrow(value, instr.shape.element_type, self.precise) if instr.opcode == "convert" else self._rounded(value, instr.shape)

    def _rounded(self, value: Value, shape: Shape) -> Value:
        if shape.is_tuple:
            return tuple(self._rounded(v, s) for v, s in zip(value, shape.tuple_shapes))
        if value is None:
            return None
        held = self._held and not self.precise and TYPES[shape.element_type].kind == "float" and TYPES[shape.element_type].bits < 32
        return narrow(value, "f32" if held else shape.element_type, self.precise)

    def _dying(self, computation: Computation) -> list[list[Instruction]]:
        """For each instruction, the values that nothing needs after it."""
        found = self._last_uses.get(id(computation))
        if found is None:
            seen, found = {computation.root}, []
            for instr in reversed(computation.instructions):
                last = [o for o in dict.fromkeys(instr.operands) if o not in seen]
                seen.update(last)
                found.append(last if instr in seen else [*last, instr])
                seen.add(instr)
            found.reverse()
            self._last_uses[id(computation)] = found
        return found

    def _is_lanewise(self, computation: Computation) -> bool:
        known = self._lanewise.get(id(computation))
        if known is None:
            known = all(
                instr.opcode in _LANEWISE
                and all(not shape.dimensions for _, shape in instr.shape.leaves())
                and all(self._is_lanewise(c) for c in instr.called)
                for instr in computation.instructions
            )
            self._lanewise[id(computation)] = known
        return known


def _chosen(mask: Array, new: Value, old: Value) -> Value:
    """`new` where the mask holds, else `old`."""
    if isinstance(new, tuple):
        return tuple(_chosen(mask, n, o) for n, o in zip(new, old))
    return None if new is None else np.where(mask, new, old)


def _map_leaves(fn: Callable[[Array], Array], value: Value) -> Value:
    return tuple(_map_leaves(fn, v) for v in value) if isinstance(value, tuple) else fn(value)
