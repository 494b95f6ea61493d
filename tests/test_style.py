"""How the project's Python is written, where ruff has no rule for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUESTION = re.compile(r"(What|Whether|How|Where|Which|Who|Why|When)\b")


def functions(source: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """The functions of a file that have a docstring, each with its docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            yield node, text


def questions(source: str) -> list[int]:
    """The lines of functions whose docstring begins as a question does, and so has no verb of its own."""
    return [node.lineno for node, text in functions(source) if QUESTION.match(text)]


@pytest.mark.parametrize("text", ["What it has.", "Whether it has any.", "How many it has."])
def test_questions_are_found(text: str) -> None:
    assert questions(f'def f():\n    """{text}"""\n') == [1]
    assert questions('def f():\n    """Returns what it has."""\n') == []


def test_docstrings_of_functions_are_sentences() -> None:
    """They say what the function does or returns: "Returns the ...", "Returns True if ...", and so on."""
    paths = sorted((ROOT / "xla_wasm").rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in questions(path.read_text("utf-8"))]
    assert len(paths) > 400 and found == []
