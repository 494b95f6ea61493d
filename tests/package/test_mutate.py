"""tools/mutate.py: which changes it makes, and that it finds those that tests do not notice."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import mutate

TOY = '''"""A toy."""


def clamp(x: int, most: int = 10) -> int:
    """Returns x, or the most that it may be."""
    assert most > 0
    if x < 0:
        raise ValueError(f"{x + 1} is negative")
    return most if x >= most else x


def spare(x: int) -> bool:
    return not x and x == 0
'''
CHANGES = [
    "4: 10  ->  11",
    "7: x < 0  ->  x <= 0",
    "7: 0  ->  1",
    "9: x >= most  ->  x > most",
    "13: not x and x == 0  ->  not x or x == 0",
    "13: not x  ->  x",
    "13: x == 0  ->  x != 0",
    "13: 0  ->  1",
]
TEST = """
import pytest
from toy.toy import clamp


def test_clamp():
    assert [clamp(x) for x in (0, 3, 99)] == [0, 3, 10]
    with pytest.raises(ValueError):
        clamp(-1)
"""


def test_changes() -> None:
    assert list(map(str, mutate.mutants(TOY))) == CHANGES


@pytest.mark.parametrize(
    ("old", "new"),
    [("a + b", "a - b"), ("a * b", "a // b"), ("a and b", "a or b"), ("a is None", "a is not None"), ("-a", "a")],
)
def test_a_change_is_in_the_tree(old: str, new: str) -> None:
    (mutant,) = mutate.mutants(f"x = {old}\n")
    assert ast.unparse(mutant.tree) == f"x = {new}"
    (mutant,) = mutate.mutants("x += y\n")
    assert ast.unparse(mutant.tree) == "x -= y"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").touch()
    (tmp_path / "toy" / "toy.py").write_text(TOY)
    (tmp_path / "test_toy.py").write_text(TEST)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools" / "mutate.py", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def test_survivors(toy: Path) -> None:
    """The most is the same at its limit, whichever is taken; nothing tests `spare`; the file stays as it is."""
    done = run(toy, "toy/toy.py", "--tests", "test_toy.py")
    survive = [line.strip() for line in done.stdout.partition(" survive\n")[2].splitlines()]
    assert survive == [f"toy/toy.py:{change}" for change in CHANGES if change.startswith(("9: ", "13: "))]
    assert done.returncode == 1 and done.stderr == ""
    assert (toy / "toy" / "toy.py").read_text() == TOY


def test_none_survives_in_the_lines_that_are_tested(toy: Path) -> None:
    done = run(toy, "toy/toy.py", "--lines", "1-8", "--tests", "test_toy.py")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 survive")


def test_what_does_not_end_is_noticed(toy: Path) -> None:
    (toy / "toy" / "toy.py").write_text("def count(n):\n    i = 0\n    while i != n:\n        i += 1\n    return i\n")
    (toy / "test_toy.py").write_text(
        "from toy.toy import count\n\n\ndef test():\n    assert [count(0), count(3)] == [0, 3]\n"
    )
    done = run(toy, "toy/toy.py", "--lines", "4-4", "--tests", "test_toy.py")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 survive")


def test_errors(toy: Path) -> None:
    (toy / "test_toy.py").write_text("def test():\n    assert False\n")
    done = run(toy, "toy/toy.py", "--tests", "test_toy.py")
    assert done.returncode == 1 and done.stderr.startswith("error: the tests fail, or there are none, without any")
    done = run(toy, "toy/toy.py")
    assert done.returncode == 1 and "is no file of the project: name the tests with --tests" in done.stderr


def test_concerned_tests_come_first_that_import_the_file() -> None:
    files = [Path(file).name for file in mutate.concerned(ROOT / "xla_wasm" / "passes" / "clone.py")]
    assert 0 <= files.index("test_clone.py") < 5 < files.index("test_golden.py")
