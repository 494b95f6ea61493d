"""The imports among the modules of the package, read from their sources: those inside functions and for type checkers
included, and the files of families that `ops/table.py` imports for others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import filter as matching
from functools import cache
from pathlib import Path

import xla_wasm
from tests.support.changed import role_of

ROOT = Path(xla_wasm.__file__).parent


@cache
def graph() -> dict[str, list[str]]:
    """Module -> the modules that it imports, by their names below the package."""
    paths = {_name(path): path for path in sorted(ROOT.rglob("*.py"))}
    return {name: sorted(set(_imported(name, path, paths))) for name, path in paths.items()}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if role := role_of(node):
            yield from matching(known, f"ops.*.{role}")
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package.split(".") if package else []
            base = base[: len(base) - (node.level - 1)] + (node.module.split(".") if node.module else [])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "xla_wasm":
            base = (node.module or "").split(".")[1:]
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.partition(".")[2] for alias in node.names if alias.name.partition(".")[0] == "xla_wasm"
            )
            continue
        else:
            continue
        for alias in node.names:
            full = ".".join([*base, alias.name])
            yield full if full in known else ".".join(base)


def circles(arrows: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(v: str) -> None:
        number[v] = low[v] = len(number)
        stack.append(v)
        for w in arrows[v]:
            if w not in number:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], number[w])
        if low[v] == number[v]:
            component = stack[stack.index(v) :]
            del stack[stack.index(v) :]
            if len(component) > 1:
                found.append(sorted(component))

    for v in arrows:
        if v not in number:
            visit(v)
    return sorted(found)
