"""The reference evaluator: an HLO module over NumPy arrays, written to be read, the judge of compiled modules.

What an operation means lies in `ops/<family>/reference.py`. There an operation gets its instruction, the values of its
operands and the Evaluator (to run called computations); it may return wider numbers, which are rounded here, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .errors import ArgumentError, UnsupportedError
from .hlo.ir import Computation, Instruction, Module
from .hlo.shape import Shape
from .ops.arrays import DTYPES, Array, Value, dtype_of, narrow
from .ops.control import reference as control
from .ops.conv import reference as conv
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

FAMILIES = (elementwise, movement, indexing, reduce, window, sort, dot, conv, linalg, fft, norm, random, control, dynamic)

EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {
    opcode: fn for family in FAMILIES for opcode, fn in family.EVALUATE.items()
}
"""Every opcode that the evaluator runs."""

_LANEWISE = {*elementwise.EVALUATE, "parameter", "tuple", "get-tuple-element", "call", "fusion", "copy", "reshape", "broadcast", "bitcast"}


def evaluate(module: Module, *arrays: Any, precision: Literal["native", "f64"] = "native") -> list[Array]:
    """Run the entry computation of `module` on `arrays` (its flattened parameters) and return its flattened result.

    With precision "f64", floats of 16 bits and more (and complex numbers) are held and computed in 64 bits throughout
    and so returned: the true values by which the rounding of other evaluations is measured.
    """
    evaluator = Evaluator(precise=precision == "f64")
    parameters = module.entry.parameters
    leaves = [(p.name + "".join(f".{i}" for i in index), shape) for p in parameters for index, shape in p.shape.leaves()]
    if len(arrays) != len(leaves):
        raise ArgumentError(f"{module.name} takes {len(leaves)} arrays ({', '.join(name for name, _ in leaves)}), not {len(arrays)}")
    with np.errstate(all="ignore"):
        flat = iter([_argument(name, shape, array, evaluator.precise) for (name, shape), array in zip(leaves, arrays)])
        result = evaluator(module.entry, *(_nested(p.shape, flat) for p in parameters))
    return [np.array(leaf) for leaf in _flattened(result)]


def _argument(name: str, shape: Shape, array: Any, precise: bool) -> Value:
    if shape.is_token:
        return None
    array = np.asarray(array)
    wanted = DTYPES[shape.element_type]
    if array.dtype != wanted:
        raise ArgumentError(f"parameter '{name}' is {shape.without_layout()}: expected dtype {wanted}, got {array.dtype}")
    if array.shape != shape.dimensions:
        raise ArgumentError(f"parameter '{name}' is {shape.without_layout()}: expected shape {shape.dimensions}, got {array.shape}")
    return array.astype(dtype_of(shape.element_type, precise))


def _nested(shape: Shape, flat: Any) -> Value:
    return tuple(_nested(s, flat) for s in shape.tuple_shapes) if shape.is_tuple else next(flat)


def _flattened(value: Value) -> list[Array]:
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in _flattened(element)]
    return [] if value is None else [value]


class Evaluator:
    """Runs computations; called by `evaluate`, and by operations that have computations of their own."""

    def __init__(self, precise: bool):
        self.precise = precise
        self._last_uses: dict[int, list[list[Instruction]]] = {}
        self._lanewise: dict[int, bool] = {}

    def __call__(self, computation: Computation, *args: Value) -> Value:
        """The value of the root of `computation`."""
        values: dict[Instruction, Value] = {}
        for instr, dead in zip(computation.instructions, self._dying(computation)):
            if instr.opcode == "parameter":
                values[instr] = args[instr.attrs["parameter_number"]]
            else:
                values[instr] = self._run(instr, [values[o] for o in instr.operands])
            for operand in dead:
                del values[operand]
        return values[computation.root]

    def lanes(self, computation: Computation, *args: Array) -> Value:
        """A computation over scalars, applied to every element of equally shaped arrays.

        Elementwise operations take whole arrays as they are; a computation with any other operation is run for every
        element by itself.
        """
        dims = np.broadcast_shapes(*(a.shape for a in args))
        if self._is_lanewise(computation):
            result = self(computation, *args)
            return _map_leaves(lambda x: np.broadcast_to(x, dims), result)
        columns = [np.broadcast_to(a, dims).reshape(-1) for a in args]
        rows = [_flattened(self(computation, *(c[i, ...] for c in columns))) for i in range(len(columns[0]))]
        leaves = [shape for _, shape in computation.root.shape.leaves()]
        stacked = [
            np.array([row[k] for row in rows], dtype_of(shape.element_type, self.precise)).reshape(dims) for k, shape in enumerate(leaves)
        ]
        return _nested(computation.root.shape, iter(stacked))

    def _run(self, instr: Instruction, operands: list[Value]) -> Value:
        fn = EVALUATE.get(instr.opcode)
        if fn is None:
            raise UnsupportedError(f"the reference evaluator cannot run {instr.where}")
        return self._rounded(fn(instr, operands, self), instr.shape)

    def _rounded(self, value: Value, shape: Shape) -> Value:
        if shape.is_tuple:
            return tuple(self._rounded(v, s) for v, s in zip(value, shape.tuple_shapes))
        return None if value is None else narrow(value, shape.element_type, self.precise)

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


def _map_leaves(fn: Callable[[Array], Array], value: Value) -> Value:
    return tuple(_map_leaves(fn, v) for v in value) if isinstance(value, tuple) else fn(value)
