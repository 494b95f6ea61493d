"""Every sample of every operation, by every way of running it: reference evaluator, XLA:CPU, compiled for each target."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import compare
import oracle
import pytest

import xla_wasm
from xla_wasm.ops.sample import Sample
from xla_wasm.ops.table import OPS
from xla_wasm.reference import EVALUATE, evaluate

FAMILIES = (
    *("elementwise", "movement", "indexing", "reduce", "sort", "window", "dot", "conv", "linalg", "fft", "norm", "random", "control"),
    *("collective", "custom", "dynamic"),
)
TARGETS = ("simd128", "relaxed-simd")
XLA_ULP = 4
"""What XLA:CPU's transcendental functions may be further off."""

SAMPLES: tuple[Sample, ...] = tuple(s for f in FAMILIES for s in import_module(f"xla_wasm.ops.{f}.samples").SAMPLES)


def _ids() -> list[str]:
    seen: Counter[str] = Counter()
    ids = []
    for sample in SAMPLES:
        seen[sample.name] += 1
        ids.append(sample.name if seen[sample.name] == 1 else f"{sample.name} {seen[sample.name]}")
    return ids


each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=_ids())


def _check(sample: Sample, results: list[compare.Array], ulp: float) -> None:
    assert len(results) == len(sample.expected)
    for i, (actual, expected) in enumerate(zip(results, sample.expected)):
        compare.assert_same(actual, expected, ulp, f"result {i}")


@each_sample
def test_reference(sample: Sample) -> None:
    module = sample.module()
    _check(sample, evaluate(module, *sample.args), min(sample.ulp, 1))


@each_sample
def test_xla(sample: Sample) -> None:
    if sample.xla:
        pytest.skip(sample.xla)
    _check(sample, oracle.run(sample.module(), *sample.args), sample.ulp and sample.ulp + XLA_ULP)


@each_sample
@pytest.mark.parametrize("target", TARGETS)
def test_compiled(sample: Sample, target: str) -> None:
    artifact = xla_wasm.compile(sample.module(), xla_wasm.Options(target=target))
    _check(sample, xla_wasm.load(artifact).run(*sample.args), sample.ulp)


def test_every_supported_operation_is_sampled_and_documented() -> None:
    from xla_wasm.compiler import OPCODES

    sampled = {i.opcode for s in SAMPLES for i in s.module().instructions()}
    own = {s.opcode for s in SAMPLES}
    for opcode in OPCODES:
        assert opcode in OPS, f"{opcode} is not in the table"
        assert OPS[opcode].doc, f"{opcode} has no documentation"
        assert opcode in own, f"{opcode} has no sample"
        assert opcode in EVALUATE or opcode == "parameter", f"the reference evaluator does not run {opcode}"
    assert sampled <= {*OPCODES, "parameter"}, "samples use operations that the compiler lacks"
