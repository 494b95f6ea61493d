"""Damaged files of StableHLO: whatever the bytes, reading, verifying and printing end soon, and raise nothing but our
own errors."""

from __future__ import annotations

import random
import tracemalloc
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from jax import export

from tests.support.stablehlo_files import CAPTURES, SHARDY, artifact_of, bytecode_of, parsed
from tests.support.stablehlo_samples import modules
from tests.support.symbolic_sizes import PROGRAMS as SYMBOLIC
from tests.support.symbolic_sizes import arguments
from tests.support.whole_programs import PROGRAMS
from xla_wasm import HloModule
from xla_wasm.errors import ParseError, XlaWasmError
from xla_wasm.hlo.verify import verify

MUTATIONS = 5000


@cache
def seeds() -> list[tuple[bytes, Any]]:
    """Files, and the sizes that they need."""
    found: list[tuple[bytes, Any]] = [(bytecode_of(parsed(text)), None) for text in (SHARDY, CAPTURES)]
    for _, module in modules()[::40]:
        found += [(bytecode_of(module), None), (str(module).encode(), None)]
        try:
            found.append((artifact_of(module), None))
        except Exception:
            continue  # what only newer versions have
    for name in ("sorts", "branches", "solving", "unused_argument"):
        program = PROGRAMS[name]()
        with jax.enable_x64(program.x64):
            found.append((export.export(jax.jit(program.fn), platforms=["cpu"])(*program.args).serialize(), None))
    for name in ("reshape", "cumsum", "convs", "qr", "scan", "attn"):
        fn, specs = SYMBOLIC[name]
        types, _, dims = arguments(specs)
        found.append((export.export(jax.jit(fn), platforms=["cpu"])(*types).serialize(), dims))
    return found


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes with some of them changed, left out or repeated."""
    out, at, kind = bytearray(data), rng.randrange(len(data)), rng.random()
    if kind < 0.6:
        for _ in range(rng.randint(1, 4)):
            out[rng.randrange(len(out))] = rng.choice((rng.randrange(256), 0, 1, 255, out[at]))
    elif kind < 0.7:
        del out[at:]
    elif kind < 0.85:
        del out[at : at + rng.randint(1, 8)]
    else:
        start = rng.randrange(len(out))
        out[at:at] = out[start : start + rng.randint(1, 16)]
    return bytes(out)


def check(data: bytes, dims: Any) -> bool:
    """Returns true if the file could be read; false if it was refused with an error of ours."""
    try:
        module = HloModule.from_exported(data, dims) if dims else HloModule.from_bytes(data)
        verify(module)
        module.to_text(large_constants=False)
        module.to_proto()
    except XlaWasmError:
        return False
    return True


def test_damaged_files() -> None:
    rng = random.Random(1)
    read = sum(check(damaged(rng, data), dims) for data, dims in rng.choices(seeds(), k=MUTATIONS))
    assert 0.05 * MUTATIONS < read < 0.5 * MUTATIONS  # the damage is neither harmless nor always at the first byte


def test_constants_are_not_copied() -> None:
    values = np.arange(1 << 20, dtype=np.float32)
    data = export.export(jax.jit(lambda x: x + values), platforms=["cpu"])(values).serialize()
    tracemalloc.start()
    module = HloModule.from_exported(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < values.nbytes / 4
    (constant,) = (x for x in module.instructions() if x.opcode == "constant")
    assert bytes(constant.attrs["literal"].data) == values.tobytes()


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (
            "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0], precision = [HIGHER, DEFAULT] : (T, T) "
            "-> T",
            "HIGHER",
        ),
        ('%0 = "stablehlo.fft"(%c) {fft_type = "FTF", fft_length = array<i64: 2>} : (C) -> C', "FTF"),
        ('%0:2 = "stablehlo.rng_bit_generator"(%s) {rng_algorithm = "DICE"} : (S) -> (S, T)', "DICE"),
        (
            '%0 = "stablehlo.triangular_solve"(%x, %x) '
            '{left_side = true, lower = true, unit_diagonal = false, transpose_a = "TURN"} : (T, T) -> T',
            "TURN",
        ),
    ],
)
def test_words_that_there_are_not(operation: str, words: str) -> None:
    types = {"T": "tensor<2x2xf32>", "C": "tensor<2x2xcomplex<f32>>", "S": "tensor<2xui64>"}
    head, _, kinds = operation.rpartition(" : ")
    for short, kind in types.items():
        kinds = kinds.replace(short, kind)
    text = (
        f"func.func @main(%x: {types['T']}, %c: {types['C']}, %s: {types['S']}) {{\n  {head} : {kinds}\n  return\n}}\n"
    )
    with pytest.raises(ParseError, match=f"(?i)is expected, not '.*{words}"):
        HloModule.from_stablehlo(text)
