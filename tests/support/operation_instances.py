"""Instructions with values for their operands, taken from samples and random programs while the reference evaluator
runs these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.random_values import INTEGERS, is_rounded
from tests.support.samples import SAMPLES
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.op import read_whole
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import DTYPES, Array
from xla_wasm.ops.reading import reads
from xla_wasm.ops.table import OPS
from xla_wasm.reference import Evaluator

READING = [op for op in OPS.values() if op.reads is not read_whole]
"""Operations whose records say how they read."""

LARGEST = 4000
"""Elements of an operand or a result up to which an instruction is taken."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An instruction, and what its operands hold."""

    x: Instruction
    operands: tuple[Array, ...]

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of its result, or of the first part of it."""
        return leaf_dims(self.x)

    def results(self, operands: Sequence[Array] | None = None) -> list[Array]:
        """The parts of its result, on these operands or its own."""
        with np.errstate(all="ignore"):
            value = Evaluator(False).run(self.x, list(self.operands if operands is None else operands))
        return [np.asarray(v) for v in (value if isinstance(value, tuple) else (value,))]


def leaf_dims(x: Instruction) -> tuple[int, ...]:
    """The dimensions of a result, or of the first part of it."""
    return next((s.dimensions for _, s in x.shape.leaves()), ())


class _Recorder(Evaluator):
    """An evaluator that notes what it runs."""

    def __init__(self) -> None:
        super().__init__(False)
        self.found: list[Instance] = []

    def run(self, instr: Instruction, operands: list[Any]) -> Any:
        if _is_taken(instr, operands):
            self.found.append(Instance(instr, tuple(operands)))
        return super().run(instr, operands)


def _is_taken(x: Instruction, operands: list[Any]) -> bool:
    shapes = [*(o.shape for o in x.operands), *(s for _, s in x.shape.leaves())]
    if not operands or any(not s.is_array or s.is_dynamic or s.size > LARGEST for s in shapes):
        return False
    # In the computation of a map, lanes run through instructions on scalars.
    return all(
        isinstance(v, np.ndarray | np.generic) and np.shape(v) == o.shape.dimensions
        for v, o in zip(operands, x.operands)
    )


def instances(module: Module, arguments: Sequence[Array]) -> list[Instance]:
    """Returns the instructions that run while the module runs, with their operands; each once."""
    recorder = _Recorder()
    with np.errstate(all="ignore"):
        recorder(module.entry, *arguments)
    return list({i.x: i for i in recorder.found}.values())


def sampled(opcode: str) -> list[Instance]:
    """The instances in the samples of an operation."""
    found = [i for s in SAMPLES if s.opcode == opcode for i in instances(s.module(), s.args) if i.x.opcode == opcode]
    return [i for i in found if reads(i.x)]


def random_array(rng: np.random.Generator, dims: tuple[int, ...], dtype: str) -> Array:
    """Numbers of all sizes, and among floats a few that are none."""
    if dtype == "pred":
        return rng.integers(0, 2, dims).astype(np.bool_)
    if dtype in INTEGERS:
        bits, signed = TYPES[dtype].bits, TYPES[dtype].kind == "signed"
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
        wide = rng.integers(low, high, dims, np.int64 if signed else np.uint64)
        near = rng.integers(max(low, -9), min(high, 10), dims, np.int64 if signed else np.uint64)
        return np.where(rng.random(dims) < 0.5, near, wide).astype(DTYPES[dtype])
    assert is_rounded(dtype)
    if dtype in ("c64", "c128"):
        part = {"c64": "f32", "c128": "f64"}[dtype]
        return (random_array(rng, dims, part) + 1j * random_array(rng, dims, part)).astype(DTYPES[dtype])
    numbers = rng.standard_normal(dims) * 2.0 ** rng.integers(-3, 4, dims)
    rare = rng.random(dims)
    numbers = np.where(rare < 0.04, np.inf, np.where(rare < 0.08, np.round(numbers), numbers))
    with np.errstate(all="ignore"):
        return numbers.astype(DTYPES[dtype])


def bits(a: Array) -> Array:
    """Returns the bytes of an array's elements, so that NaNs can be compared."""
    return np.ascontiguousarray(a).view(np.dtype((np.void, a.dtype.itemsize))).reshape(a.shape)
