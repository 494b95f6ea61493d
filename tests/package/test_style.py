"""Rules for the project's code that no linter has, and the hooks that run the linters before commits."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pre_commit.clientlib import load_config

from tests.support.node_host import node_for
from tests.support.paths import ROOT

QUESTION = re.compile(
    r"((What|Whether|How|Where|Which|Who|Why|When|That|Those)"
    r"|(Returns|Yields|Gives|Tells) (what|whether|how|where|which|who|why))\b"
)
FOLDERS = ("xla_wasm", "benchmarks", "examples", "tools", "tests")


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings of a file, each with its line: of the module, of classes and functions, and of attributes, which
    have theirs behind the assignment."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(body := getattr(node, "body", None), list):
            continue
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, statement in zip([None, *body], body):
            if documented and before is None or isinstance(before, ast.Assign | ast.AnnAssign):
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield statement.lineno, text


def questions(source: str) -> list[int]:
    """The lines of docstrings that begin as a question does, or point at something that they do not name: such a
    sentence has no verb of its own, or no noun."""
    return sorted(line for line, text in docstrings(source) if QUESTION.match(text.lstrip()))


@pytest.mark.parametrize(
    "text",
    [
        "What it has.",
        "Whether it has any.",
        "How many it has.",
        "That of the first.",
        "Those that nothing reads.",
        "Returns what it has.",
        "Yields which it has.",
        "Gives how many it has.",
        "Tells whether it has any.",
    ],
)
def test_questions_are_found(text: str) -> None:
    assert questions(f'def f():\n    """{text}"""\n') == [2]
    assert questions(f'"""{text}"""\n') == [1]
    assert questions(f'class C:\n    """{text}"""\n    x: int\n    """{text}"""\n') == [2, 4]
    assert questions(f'def f(self):\n    self.x = 1\n    """{text}"""\n') == [3]
    assert questions(f'x = """{text}"""\nprint("""{text}""")\n') == []


@pytest.mark.parametrize(
    "text", ["Returns the arrays that it has.", "Returns True if it has any.", "Whatever it has.", "Thatch."]
)
def test_sentences_are_no_questions(text: str) -> None:
    assert questions(f'def f():\n    """{text}"""\n') == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_are_no_questions(folder: str) -> None:
    """A function says what it does or returns ("Returns the ...", "Returns True if ..."). A class, a module or an
    attribute is a noun phrase."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in questions(path.read_text("utf-8"))]
    assert paths and found == []


def hooks() -> dict[str, str]:
    """The hooks of .pre-commit-config.yaml: the name of each and its command. Raises an error of pre-commit's if the
    file is not as that wants it."""
    (repository,) = load_config(str(ROOT / ".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local", "hooks are tools that are here, and need no network"
    return {hook["id"]: hook["entry"] for hook in repository["hooks"]}


def test_hooks_are_the_lint_of_the_build() -> None:
    """`./build.sh test` runs the same commands on all files, so that a clean tree passes the hooks."""
    found = re.search(r"^lint\(\) \{\n(.*?)^\}", (ROOT / "build.sh").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    commands = [line.strip().removesuffix(" .") for line in found[1].splitlines() if not line.strip().startswith("say")]
    for_files = re.compile(r" --(force-exclude|no-errors-on-unmatched)")
    assert commands == [for_files.sub("", command) for command in hooks().values()]


@pytest.mark.parametrize(
    ("name", "file", "good", "bad"),
    [
        ("ruff", "x.py", "x = 1\n", "import os\n"),
        ("ruff-format", "x.py", "x = 1\n", "x=1\n"),
        ("biome", "web/x.js", "export const x = 1;\n", "export const x=1\n"),
        ("biome", "web/x.js", "export const x = 1;\n", "debugger;\n"),
    ],
)
def test_hooks_find_faults(name: str, file: str, good: str, bad: str, tmp_path: Path) -> None:
    program, *arguments = hooks()[name].split()
    for settings in ("pyproject.toml", "biome.json"):
        shutil.copy(ROOT / settings, tmp_path)
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    environment = {"PATH": f"{Path(str(node_for('simd128'))).parent}:/usr/bin:/bin"}
    for text, clean in ((good, True), (bad, False)):
        path.write_text(text)
        command = [ROOT / program, *arguments, file]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) is clean, done.stdout + done.stderr
