"""The measuring of functions: that it sees every kind of error, and that a run writes its table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import accuracy, accuracy_functions


def row(got: list[float], true: list[float]) -> accuracy.Row:
    measured = accuracy.Row("tanh", "f32", "simd128")
    x = np.arange(len(got), dtype=np.float32)
    with np.errstate(all="ignore"):
        measured.add(np.array(got, np.float32), np.array(true, np.float64), [x])
    return measured


def test_errors_are_counted_in_ulp() -> None:
    measured = row([1, 2 + 2**-21, -4], [1 + 2**-24, 2, -4])
    assert measured.ulp == 2 and measured.at == (float(1).hex(),)
    assert row([1], [1 - 2**-24]).ulp == 1  # below 1 the numbers are twice as dense


def test_specials_are_counted() -> None:
    inf, nan = np.inf, np.nan
    measured = row([nan, 1, nan, inf, 1e38, 0.0, -0.0], [nan, nan, 1, inf, 1e39, -0.0, -0.0])
    assert (measured.nan, measured.inf, measured.sign, measured.flushed) == (2, 1, 1, 0)
    measured = row([0, 1e-40, 0], [1e-40, 1e-40, 1e-46])
    assert measured.flushed == 1 and measured.ulp < 1


def test_infinity_is_the_number_after_the_largest() -> None:
    largest = float(np.finfo(np.float32).max)
    assert row([np.inf], [largest]).ulp == 1
    assert row([largest], [1e39]).ulp == 1


@pytest.mark.parametrize("opcode", accuracy_functions.ALL)
def test_references_agree_with_mpmath(opcode: str) -> None:
    at = (
        (0.7,)
        if opcode in accuracy_functions.UNARY and opcode != "acosh"
        else (1.7,)
        if opcode == "acosh"
        else (0.7, 2.3)
    )
    assert float(accuracy_functions.checked(opcode, "f64", at)) < 0.01


def test_a_run_writes_its_table_and_keeps_that_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "BLOCK", 1 << 12)
    for name in ("tanh,power", "sqrt"):
        accuracy.main(
            ["--quick", "--functions", name, "--types", "f64", "--target", "simd128", "--output", str(tmp_path)]
        )
    rows = json.loads((tmp_path / "accuracy.json").read_text())
    assert [r["function"] for r in rows] == ["tanh", "sqrt", "power"]
    assert all(0 < r["ulp"] <= 2 and r["inputs"] == 1 << 12 for r in rows)
    assert len((tmp_path / "accuracy.md").read_text().splitlines()) == len(rows) + 2


@pytest.mark.parametrize("args", [["--functions", "tanhh"], ["--types", "f16"], ["--target", "avx"]])
def test_mistakes(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        accuracy.main(args)
    assert exit_.value.code == 2 and "error:" in capsys.readouterr().err
