"""The samples of all operations as jaxlib's StableHLO."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.support.samples import REPLICATED, SAMPLES
from tests.support.stablehlo_files import from_hlo, operations
from xla_wasm.ops.sample import DeviceSample, Sample


@cache
def sample_modules() -> list[tuple[Sample | DeviceSample, Any]]:
    """Samples of all operations with jaxlib's StableHLO of them, but those of which it makes none."""
    found = []
    for sample in (*SAMPLES, *REPLICATED):
        if not sample.xla:
            try:
                module = from_hlo(sample.module())
            except Exception:
                continue
            if not any(op.name.startswith("mhlo.") for op in operations(module.body)):
                found.append((sample, module))
    assert len(found) > 1000
    return found


def modules() -> list[tuple[str, Any]]:
    return [(sample.name, module) for sample, module in sample_modules()]
