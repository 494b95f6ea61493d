"""Texts that the middle of the compiler makes of small modules (`golden/`), and the values that come out in the end.

If a change of a text is meant, `pytest tests/golden/test_golden.py --update-golden` writes the texts anew, and
`git diff` shows what changed.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.golden import values
from tests.golden.runner import golden_files, read, rewrite

UPDATE = "pytest tests/golden/test_golden.py --update-golden"
FILES = [pytest.param(path, id=path.stem) for path in golden_files()]


@pytest.mark.parametrize("path", FILES)
def test_stages(path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("update_golden"):
        rewrite(read(path))
    golden = read(path)
    assert list(golden.expected) == golden.sections, f"{path.name} lacks a section it asks for; `{UPDATE}` writes it"
    actual = golden.actual()
    for section, expected in golden.expected.items():
        if actual[section] != expected:
            names = f"{path.name}, {section}, as expected", f"{path.name}, {section}, as it came out"
            lines = difflib.unified_diff(expected.splitlines(), actual[section].splitlines(), *names, lineterm="")
            pytest.fail(
                "\n".join([*lines, f"If this is meant: `{UPDATE}`, and look through `git diff`."]), pytrace=False
            )


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize("path", [file for file in FILES if "values" not in read(*file.values).settings])
def test_values(path: Path, target: str) -> None:
    values.check(read(path), target)
