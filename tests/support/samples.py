"""The samples of all operations."""

from __future__ import annotations

from typing import Any

from tests.support import closeness
from xla_wasm.ops.sample import DeviceSample, Sample
from xla_wasm.ops.table import load_files

_MODULES = load_files("samples")
SAMPLES: tuple[Sample, ...] = tuple(sample for module in _MODULES for sample in module.SAMPLES)
REPLICATED: tuple[DeviceSample, ...] = tuple(
    sample for module in _MODULES for sample in getattr(module, "REPLICATED", ())
)


def check_host(sample: Sample, given: dict[str, Any]) -> None:
    """Asserts that the arrays that came out to the host are those of the sample."""
    for what, expected in {"outfeed": sample.host.outfeed, **sample.host.send}.items():
        got = given.get("outfeed", []) if what == "outfeed" else given["send"][what]
        assert len(got) == len(expected)
        for i, (item, wanted) in enumerate(zip(got, expected)):
            assert isinstance(item, tuple) == isinstance(wanted, tuple)
            for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (item, wanted)), strict=True):
                closeness.assert_same(a, b, 0, f"{what} {i}")
