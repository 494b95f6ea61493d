"""The lines of the stages that the playground links with instructions."""

from __future__ import annotations

from typing import Any

from tests.support.paths import ROOT
from xla_wasm import HloModule, Options
from xla_wasm.site.explain import explain

TWO_WEIGHTS = """HloModule m
ENTRY e {
  x = f32[64,96] parameter(0)
  w = f32[96,80] parameter(1)
  v = f32[80,72] parameter(2)
  y = f32[64,80] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[64,72] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def stages(module: HloModule, **options: Any) -> dict[str, tuple[list[str], list[Any]]]:
    """The lines of each stage by its name, and which of them came from which instructions."""
    made = explain(module, module.to_text(large_constants=False), Options(**options))
    return {stage["name"]: (stage["text"].splitlines(), stage["lines"]) for stage in made["stages"]}


def test_ranges_hold_what_they_are_about() -> None:
    module = HloModule.from_proto((ROOT / "examples" / "digits" / "digits.hlo.pb").read_bytes())
    made = stages(module)
    count = len(list(module.instructions()))
    for name, (lines, ranges) in made.items():
        assert ranges, name
        last = -1
        for first, end, numbers in ranges:
            assert last < first <= end < len(lines) and all(0 <= i < count for i in numbers), name
            last = end
    hlo, ranges = made["HLO after passes"]
    assert all(" = " in hlo[first] and first == end for first, end, _ in ranges)
    text, ranges = made["WebAssembly"]
    assert all(text[first].startswith("  (func $") and text[end] == "  )" for first, end, _ in ranges)
    loops, ranges = made["Loops"]
    assert all(loops[first] and not loops[first].startswith(" ") and loops[end] for first, end, _ in ranges)


def test_what_prepares_weights_comes_from_its_own_product() -> None:
    lines, ranges = stages(HloModule.from_text(TWO_WEIGHTS), weights=("w", "v"))["Plan"]
    prepared = {lines[first].partition(":")[0]: numbers for first, _, numbers in ranges if lines[first][:4] == "init"}
    assert set(prepared) == {"init of w", "init of v"}
    assert 3 in prepared["init of w"] and 4 in prepared["init of v"] and 4 not in prepared["init of w"]
