"""Every sample of every operation, by every way of running it: reference evaluator, XLA:CPU, compiled for each
target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

import xla_wasm
from tests.support import closeness, differential, xla_cpu
from tests.support.samples import REPLICATED, SAMPLES, check_host
from xla_wasm.ops.collective import record as collective
from xla_wasm.ops.sample import DeviceSample, Sample
from xla_wasm.ops.table import OPS
from xla_wasm.reference import EVALUATE, evaluate, evaluate_replicated

TARGETS = ("simd128", "relaxed-simd")
XLA_ULP = 4
"""Units in the last place that XLA:CPU's transcendental functions may be further off."""


def _ids(samples: Sequence[Sample | DeviceSample]) -> list[str]:
    seen: Counter[str] = Counter()
    ids = []
    for sample in samples:
        seen[sample.name] += 1
        ids.append(sample.name if seen[sample.name] == 1 else f"{sample.name} {seen[sample.name]}")
    return ids


def _each(samples: Sequence[Sample | DeviceSample], on_xla: bool = False) -> pytest.MarkDecorator:
    """A test of each sample, or of those of which XLA:CPU has the results too."""
    named = [(sample, name) for sample, name in zip(samples, _ids(samples)) if not (on_xla and sample.xla)]
    return pytest.mark.parametrize("sample", [sample for sample, _ in named], ids=[name for _, name in named])


each_sample, each_sample_of_xla = _each(SAMPLES), _each(SAMPLES, on_xla=True)
each_replicated, each_replicated_of_xla = _each(REPLICATED), _each(REPLICATED, on_xla=True)


def _check(sample: Sample, results: list[closeness.Array], ulp: float, where: str = "") -> None:
    assert len(results) == len(sample.expected)
    for i, (actual, expected) in enumerate(zip(results, sample.expected)):
        closeness.assert_same(actual, expected, ulp, f"{where}result {i}")


@each_sample
def test_reference(sample: Sample) -> None:
    given = sample.host.arguments()
    _check(sample, evaluate(sample.module(), *sample.args, **given), min(sample.ulp, 1))
    check_host(sample, given)


@each_sample_of_xla
def test_xla(sample: Sample) -> None:
    _check(sample, xla_cpu.run(sample.module(), *sample.args), sample.ulp and sample.ulp + XLA_ULP)


@each_sample
def test_compiled(sample: Sample) -> None:
    """For every target. Of four samples in five the code is the same, and runs once."""
    seen = set()
    for target in TARGETS:
        artifact = xla_wasm.compile(sample.module(), xla_wasm.Options(target=target))
        if (code := differential.code(artifact)) in seen:
            continue
        seen.add(code)
        given = sample.host.arguments()
        _check(sample, xla_wasm.load(artifact).run(*sample.args, **given), sample.ulp, f"{target}: ")
        check_host(sample, given)


def _check_devices(sample: DeviceSample, results: Sequence[Sequence[closeness.Array]]) -> None:
    assert [len(device) for device in results] == [len(device) for device in sample.expected]
    for d, (device, expected) in enumerate(zip(results, sample.expected)):
        for i, (a, b) in enumerate(zip(device, expected)):
            closeness.assert_same(a, b, 0, f"device {d}, result {i}")


@each_replicated
def test_reference_on_several_devices(sample: DeviceSample) -> None:
    _check_devices(sample, evaluate_replicated(sample.module(), sample.args, sample.replicas, sample.partitions))
    _check_devices(sample, evaluate_replicated(sample.module(fixed=True), sample.args))


@each_replicated_of_xla
def test_xla_on_several_devices(sample: DeviceSample) -> None:
    _check_devices(sample, xla_cpu.run_replicated(sample.module(), sample.args, sample.replicas, sample.partitions))


@each_replicated
@pytest.mark.parametrize("target", TARGETS)
def test_compiled_for_several_devices(sample: DeviceSample, target: str) -> None:
    """A sample gives its results whether or not the module states the numbers of replicas and partitions."""
    options = xla_wasm.Options(target=target)
    free = xla_wasm.load(xla_wasm.compile(sample.module(), options))
    given = [list(arrays) for arrays in sample.args]
    _check_devices(sample, free.run_replicated(given, num_replicas=sample.replicas, num_partitions=sample.partitions))
    fixed = xla_wasm.load(xla_wasm.compile(sample.module(fixed=True), options))
    _check_devices(sample, fixed.run_replicated(given))


def test_every_operation_of_devices_is_sampled_on_several() -> None:
    assert {op.opcode for op in collective.OPS} <= {sample.opcode for sample in REPLICATED}


def test_every_supported_operation_is_sampled_and_documented() -> None:
    sampled = {i.opcode for s in SAMPLES for i in s.module().instructions()}
    own = {s.opcode for s in SAMPLES}
    for opcode in OPS:
        assert OPS[opcode].doc, f"{opcode} has no documentation"
        assert opcode in own, f"{opcode} has no sample"
        assert opcode in EVALUATE or opcode == "parameter", f"the reference evaluator does not run {opcode}"
    assert sampled <= {*OPS}, "samples use operations that the compiler lacks"
