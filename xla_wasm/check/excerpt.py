"""Parts of a computation as modules of their own, compiled and judged by the reference evaluator on given operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..dataclass import dataclass
from ..hlo.ir import Computation, Instruction, Module, callees
from ..hlo.op import REQUIRED
from ..hlo.shape import Shape
from ..hlo.types import default_comparison
from ..ops.dtypes import DTYPES, Array, Value, flattened, nested
from ..ops.exactness import Exactness, exactness, is_constant
from ..ops.table import OPS
from ..options import Options
from ..reference import Evaluator, evaluate
from . import compare
from .compare import Tolerance

if TYPE_CHECKING:
    from ..host.executor import Executable

Run = Callable[[Module, Sequence[Array]], list[Array]]
"""Compiles a module and runs it on its flattened parameters."""

_MOST_LOADED = 16
"""Compiled modules that are kept: the bodies of nested loops."""

_TRIALS, _MAGNIFIED = 3, 64


def compiled(options: Options) -> Run:
    """The way of running that is to be judged."""
    from ..compiler import compile
    from ..host.executor import load

    made: dict[Module, Executable] = {}

    def run(module: Module, arrays: Sequence[Array]) -> list[Array]:
        exe = made.get(module)
        if exe is None:
            while len(made) >= _MOST_LOADED:
                del made[next(iter(made))]
            exe = made[module] = load(compile(module, options))
        return exe.run(*arrays)

    return run


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Instructions of a computation as a module: what they need from outside are its parameters, `roots` its result."""

    module: Module
    inputs: tuple[Instruction, ...]
    roots: tuple[Instruction, ...]

    def arguments(self, value: Callable[[Instruction], Value]) -> list[Array]:
        """The flattened parameters, given the values of instructions."""
        return [np.ascontiguousarray(leaf).reshape(leaf.shape) for x in self.inputs for leaf in flattened(value(x))]

    def split(self, results: Iterable[Array]) -> dict[Instruction, Value]:
        """The values of the roots in a flattened result."""
        leaves = iter(results)
        return {root: nested(root.shape, leaves) for root in self.roots}


def excerpt(name: str, instructions: Sequence[Instruction], roots: Sequence[Instruction]) -> Excerpt:
    """A module of `instructions` (in order) that returns the values of `roots`; constants come along."""
    made: dict[Instruction, Instruction] = {}
    inputs: list[Instruction] = []
    parameters: list[Instruction] = []
    body: list[Instruction] = []
    own = dict.fromkeys(instructions)

    def bring(x: Instruction) -> Instruction:
        if x not in made:
            if x in own or is_constant(x):
                made[x] = x.on([bring(o) for o in x.operands])
                _complete(made[x])
                body.append(made[x])
            else:
                made[x] = Instruction(
                    x.name,
                    "parameter",
                    x.shape.without_layout(),
                    attrs={"parameter_number": len(inputs), "parameter_replication": ()},
                )
                inputs.append(x)
                parameters.append(made[x])
        return made[x]

    for x in instructions:
        bring(x)
    results = [bring(x) for x in roots]
    if len(results) == 1:
        root = results[0]
    else:
        root = Instruction("results", "tuple", Shape.tuple([r.shape.without_layout() for r in results]), results)
        body.append(root)
    entry = Computation("main", [*parameters, *body], root)
    module = Module(name, [*callees(body), entry], entry)
    module.result_shape = root.shape.without_layout()
    return Excerpt(module, tuple(inputs), tuple(roots))


def _complete(x: Instruction) -> None:
    """Adds the attributes that passes leave out, as no later pass reads them."""
    for attribute in OPS[x.opcode].attrs:
        if x.attrs.get(attribute.name) is None and attribute.default is not REQUIRED:
            x.attrs[attribute.name] = attribute.default
    if x.opcode == "compare" and x.attrs["type"] is None:
        x.attrs["type"] = default_comparison(x.operands[0].shape.element_type)


def holds_arrays(shape: Shape) -> bool:
    """Returns True if all leaves are arrays of known size."""
    return all(leaf.is_array and not leaf.is_dynamic for _, leaf in shape.leaves())


@dataclass(frozen=True, slots=True)
class Verdict:
    """An array that differs from the expected one, and where; `leaf` counts the arrays of a tuple."""

    leaf: int
    actual: Array
    expected: Array
    where: Array

    @property
    def count(self) -> int:
        """The number of elements that differ."""
        return int(np.count_nonzero(self.where))


def first_difference(actual: Value, expected: Value, tolerances: Callable[[int, Array], Tolerance]) -> Verdict | None:
    """The first leaf with elements that differ by more than is allowed."""
    for i, (a, e) in enumerate(zip(flattened(actual), flattened(expected), strict=True)):
        a, e = np.asarray(a), np.asarray(e)
        where = compare.differing(a, e, tolerances(i, e))
        if where.any():
            return Verdict(i, a, e, where)
    return None


def judge(evaluator: Evaluator, x: Instruction, actual: Value, operands: list[Value]) -> Verdict | None:
    """Judges whether `actual` is what `x` makes of `operands`, by the standard of its kind of operation. Returns None
    if it is."""
    with np.errstate(all="ignore"):
        expected = evaluator.run(x, operands)
        return first_difference(actual, expected, _tolerances(evaluator, x, operands))


def _tolerances(evaluator: Evaluator, x: Instruction, operands: list[Value]) -> Callable[[int, Array], Tolerance]:
    exact = exactness(x)
    if exact is Exactness.SUMMED:
        magnitudes = flattened(evaluator.run(x, [_magnitude(o) for o in operands]))
        return lambda i, expected: _of_sum(expected, magnitudes[i])
    if exact is Exactness.EXACT:
        return lambda i, expected: Tolerance()
    if exact is Exactness.ROUNDED:
        return lambda i, expected: _of_function(expected)
    return lambda i, expected: compare.tolerance(expected.dtype)


def _magnitude(operand: Value) -> Value:
    """Floats without their signs: sums of them say how large the terms of the true sums are."""
    if isinstance(operand, tuple):
        return tuple(map(_magnitude, operand))
    if operand is None or not (compare.is_float(operand.dtype) or operand.dtype.kind == "c"):
        return operand
    return np.abs(operand).astype(operand.dtype)


def _of_sum(expected: Array, magnitude: Array) -> Tolerance:
    """A few hundred rounding errors of f32 (or f64) of the terms, element by element, and that of the result's own
    type."""
    dtype = np.dtype(f"f{expected.dtype.itemsize // 2}") if expected.dtype.kind == "c" else expected.dtype
    if not compare.is_float(dtype):
        return Tolerance()
    scale = np.abs(magnitude.astype(np.complex128))
    own = np.abs(expected.astype(np.complex128))
    scale = np.fmax(np.where(np.isfinite(scale), scale, 0), np.where(np.isfinite(own), own, 0))
    computed = np.finfo(np.float64 if dtype == np.float64 else np.float32).eps
    return Tolerance(256 * float(computed) + float(ml_dtypes.finfo(dtype).eps), 1, scale)


def _of_function(expected: Array) -> Tolerance:
    """Functions are within 2 ulp; those of small types are rounded from f32; those of complex numbers are made of
    several."""
    if expected.dtype.kind == "c":
        return Tolerance(compare.tolerance(expected.dtype).relative / 16, 64)
    return Tolerance(0.0, 4 if expected.dtype.itemsize >= 4 else 1)


def tolerance_in(module: Module) -> Callable[[np.dtype[Any]], Tolerance]:
    """Returns the tolerance for results of a type, given that they are no more exact than the narrowest floats that the
    module computes."""
    computed = dict.fromkeys(
        leaf.element_type for x in module.instructions() if x.operands for _, leaf in x.shape.leaves()
    )
    floats = [compare.tolerance(DTYPES[t]).relative for t in computed if t in DTYPES]
    least = max(floats, default=0.0)

    def allowed(dtype: np.dtype[Any]) -> Tolerance:
        own = compare.tolerance(dtype)
        return Tolerance(max(own.relative, least), own.ulp) if own.relative else own

    return allowed


def beyond_rounding(module: Module, arguments: Sequence[Array], actual: Value, expected: Value) -> Verdict | None:
    """The first leaf that differs by more than rounding errors explain, those of the arguments included."""
    usual = tolerance_in(module)
    verdict = first_difference(actual, expected, lambda i, leaf: usual(leaf.dtype))
    if verdict is None:
        return None
    return first_difference(actual, expected, grown_tolerance(module, arguments, flattened(expected)))


def grown_tolerance(
    module: Module, arguments: Sequence[Array], true: Sequence[Array]
) -> Callable[[int, Array], Tolerance]:
    """The tolerance for each leaf of the result, given what the evaluator makes of the arguments.

    What small changes of the arguments do to the result shows how it magnifies errors: differences of nearly equal
    numbers, long loops.
    """
    usual = tolerance_in(module)
    moved = [_change(evaluate(module, *_disturbed(arguments, seed)), true) for seed in range(_TRIALS)]

    def allowed(i: int, leaf: Array) -> Tolerance:
        at_least = usual(leaf.dtype)
        if not at_least.relative:
            return at_least
        own = np.abs(leaf.astype(np.complex128))
        scale = float(own[np.isfinite(own)].max(initial=0.0))
        return Tolerance(
            1.0, at_least.ulp, max(at_least.relative * scale, _MAGNIFIED * max(change[i] for change in moved))
        )

    return allowed


def _disturbed(arguments: Sequence[Array], seed: int) -> list[Array]:
    """Floats and complex numbers off by up to two units in the last place."""
    rng = np.random.default_rng(seed)
    out = []
    for x in arguments:
        real = np.dtype(f"f{x.dtype.itemsize // 2}") if x.dtype.kind == "c" else x.dtype
        if compare.is_float(real):
            factor = 1 + 2 * float(ml_dtypes.finfo(real).eps) * rng.uniform(-1, 1, x.shape)
            x = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) * factor).astype(x.dtype)
        out.append(x)
    return out


def _change(moved: Sequence[Array], true: Sequence[Array]) -> list[float]:
    changes = []
    for a, b in zip(moved, true):
        with np.errstate(all="ignore"):
            apart = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
        changes.append(float(apart[np.isfinite(apart)].max(initial=0.0)))
    return changes


def outputs_of(
    window: Sequence[Instruction], users: dict[Instruction, list[Instruction]], root: Instruction
) -> list[Instruction]:
    """Returns the root and the instructions of `window` whose values an instruction outside of it needs."""
    own = dict.fromkeys(window)
    return [x for x in window if x is root or any(user not in own for user in users.get(x, ()))]


def users_of(instructions: Iterable[Instruction]) -> dict[Instruction, list[Instruction]]:
    """Instruction -> those that have it as an operand."""
    users: dict[Instruction, list[Instruction]] = {}
    for x in instructions:
        for operand in dict.fromkeys(x.operands):
            users.setdefault(operand, []).append(x)
    return users
