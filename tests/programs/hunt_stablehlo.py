"""A hunt for differences between StableHLO and HLO: random programs in both, as jaxlib makes the one of the other, must
have equal values.

    python -m tests.programs.hunt_stablehlo jax --seed 1 --count 5000
    python -m tests.programs.hunt_stablehlo family --seed 1 --count 5000
    python -m tests.programs.hunt_stablehlo programs

Each seed is one program in HLO, which jaxlib writes as StableHLO. That is read as bytecode and as a portable artifact,
and judged by the program itself in the reference evaluator, bit by bit. `programs` are those of the tests in JAX: what
jax.export writes of one is read, and judged by the HLO that JAX makes of it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from jax import export
from jaxlib.mlir import ir

from tests.support import (
    closeness,
)
from tests.support.random_family import draw_family
from tests.support.random_jax import draw_jax
from tests.support.random_values import Draw, Skip
from tests.support.stablehlo_files import artifact_of, bytecode_of, from_hlo, operations
from tests.support.whole_programs import PROGRAMS
from xla_wasm import HloModule, evaluate
from xla_wasm.errors import UnsupportedError
from xla_wasm.hlo.verify import verify

DRAW: dict[str, Callable[[Draw], tuple[HloModule, list[Any]]]] = {"jax": draw_jax, "family": draw_family}
_NEVER = ("copy", "scan", "topk", "fusion")
"""Opcodes that jaxlib has no StableHLO for, or stops at."""
_NO_TYPES = ("f6e2m3fn", "f6e3m2fn", "s1", "u1")
"""Types of which jaxlib aborts at constants, or takes others for."""


def check(kind: str, seed: int) -> str:
    """Checks one program, and returns "equal", or the reason for passing it over. Raises AssertionError if values
    differ."""
    rng = random.Random(f"{kind} {seed}")
    try:
        module, arguments = DRAW[kind](Draw(rng.randint))
    except (Skip, ValueError, TypeError):
        return "not drawn"  # JAX refuses some functions of narrow integers
    if any(
        x.opcode in _NEVER or x.shape.is_dynamic or x.shape.element_type in _NO_TYPES for x in module.instructions()
    ):
        return "no StableHLO"
    try:
        tree = from_hlo(module)
    except (jax.errors.JaxRuntimeError, ir.MLIRError):
        return "no StableHLO"  # MLIR lacks a type, or has it without arithmetic
    if any(op.name.startswith("mhlo.") for op in operations(tree.body)):
        return "no StableHLO"
    data = bytecode_of(tree)
    expected = evaluate(module, *arguments)
    files = [data]
    try:
        files.append(artifact_of(tree))
    except Exception:
        pass  # VHLO of that version lacks a type
    for file in files:
        try:
            read = HloModule.from_stablehlo(file)
        except UnsupportedError as error:
            return f"unsupported: {str(error)[:80]}"
        verify(read)
        for i, (actual, wanted) in enumerate(zip(evaluate(read, *arguments), expected, strict=True)):
            closeness.assert_same(actual, wanted, 0, f"{kind} {seed} result {i}")
    assert HloModule.from_text(read.to_text()).to_text() == read.to_text(), (kind, seed)
    return "equal"


def check_export(fn: Callable[..., Any], args: tuple[Any, ...], x64: bool = False, name: str = "") -> str:
    """The same of a function of JAX and the file that jax.export writes of it."""
    with jax.enable_x64(x64):
        data = export.export(jax.jit(fn), platforms=["cpu"])(*args).serialize()
        lowered = jax.jit(fn, keep_unused=True).lower(*args).compiler_ir("hlo")
        arguments = [_bits(leaf) for leaf in jax.tree.leaves(args)]
    judge = HloModule.from_proto(lowered.as_serialized_hlo_module_proto())
    try:
        module = HloModule.from_exported(data)
    except UnsupportedError as error:
        return f"unsupported: {str(error)[:80]}"
    verify(module)
    for i, (actual, wanted) in enumerate(zip(evaluate(module, *arguments), evaluate(judge, *arguments), strict=True)):
        closeness.assert_same(actual, wanted, 0, f"{name} result {i}")
    return "equal"


def _bits(leaf: Any) -> Any:
    """An array, of a key the numbers that it is."""
    is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else jax.numpy.asarray(leaf))


def check_program(name: str) -> str:
    program = PROGRAMS[name]()
    return check_export(program.fn, program.args, program.x64, name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*DRAW, "programs"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    given = parser.parse_args()
    outcomes: Counter[str] = Counter()
    cases: Iterable[Any] = range(given.seed, given.seed + given.count) if given.kind in DRAW else sorted(PROGRAMS)
    with np.errstate(all="ignore"):
        for case in cases:
            try:
                outcomes[check(given.kind, case) if given.kind in DRAW else check_program(case)] += 1
            except Exception as error:
                outcomes["failed"] += 1
                print(f"{given.kind} {case}: {type(error).__name__}: {str(error)[:500]}", flush=True)
    for outcome, count in outcomes.most_common():
        print(f"{count:7} {outcome}")
    return int(bool(outcomes["failed"]))


if __name__ == "__main__":
    sys.exit(main())
