"""The growth of time with size: the programs and their sizes, exponents, and a run that writes its table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth
from benchmarks.suite import growing
from benchmarks.suite.contestants import RELAXED, WASMTIME, XLA
from benchmarks.suite.table import KERNEL
from benchmarks.suite.workload import find, workloads


def test_sizes_of_programs_that_grow() -> None:
    programs = list(growing.programs())
    names = [workload.name for program in programs for workload in program.workloads]
    assert len(set(names)) == len(names) == 3 * len(programs)
    for program in programs:
        first, second, third = (workload.work for workload in program.workloads)
        if "BERT" in program.title or "Whisper" in program.title:
            assert first < second < third
        else:
            assert second / first == third / second == growing.FACTOR
    for name in set(names) & set(workloads()):
        assert find(name).work == next(w.work for p in programs for w in p.workloads if w.name == name)
    assert find("lcs_600x600").work == 360_000 and find("sum_1M").unit == "ns/elem"


def test_exponents() -> None:
    assert growth.exponent([1.0, 4.0, 16.0]) == pytest.approx(1)
    assert growth.exponent([2.0, 32.0, 512.0]) == pytest.approx(2)


def _rows(ours: Sequence[float], theirs: Sequence[float | None]) -> growth.Rows:
    def entry(seconds: float | None) -> Any:
        return {"status": "wrong"} if seconds is None else {"status": "ok", KERNEL: {"min": seconds}}

    return [
        {"tolerance": 1e-5, "contestants": {RELAXED: entry(a), WASMTIME: entry(1e-3), XLA: entry(b)}}
        for a, b in zip(ours, theirs)
    ]


def test_what_grows_too_fast_is_said() -> None:
    program = next(growing.programs())
    square = _rows([1e-3, 16e-3, 256e-3], [1e-3, 4e-3, 16e-3])
    assert growth.excess(square) == pytest.approx(1)
    text = growth.document([(program, square)])
    assert "| 1 / 16 / 256 | 2.00 | 1 / 1 / 1 | 0.00 | 1 / 4 / 16 | 1.00 | +1.00 |" in text
    assert f"more than 0.1 above XLA:CPU's: {program.title}." in text
    text = growth.document([(program, _rows([1e-3, 4e-3, 16e-3], [1e-3, None, 16e-3]))])
    assert "| WRONG |  |  |" in text and "No exponent is more than" in text and "XLA:CPU is wrong" in text


def test_growth_is_measured(tmp_path: Path) -> None:
    output = tmp_path / "growth.md"
    arguments = ["--filter", "logistic", "--rounds", "1", "--seconds", "0", "--warmup", "0", "--output", str(output)]
    assert growth.main(arguments) == 0
    with pytest.raises(SystemExit):
        growth.main(["--filter", "nothing of this name"])
    (line,) = [line for line in output.read_text().splitlines() if line.startswith("| logistic map: steps")]
    assert "| 10k / 40k / 160k |" in line and len(line.split(" / ")) == 9
