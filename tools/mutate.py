"""Changes a file of Python in one place at a time, and lists the changes that no test notices.

    python tools/mutate.py FILE... [--tests TEST...] [--lines FIRST-LAST] [--list] [-- OPTIONS OF PYTEST]

A change replaces an operator, a comparison, `and`, `or`, `not`, True or False, or a number. For each, pytest runs in a
process of its own, which imports the changed module in the place of the file's, and ends with the first test that
fails. The file itself is never written, so processes that tests start see it as it is. Without `--tests` those test
files run that `pytest --changed` would choose for the file, with `--fast`: first those that import it or name it. What
survives is printed with its line: it needs a test, or makes no difference. The exit status is 1 if any survives.

Annotations, decorators, assertions, what is raised, and code for type checkers alone are left as they are.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
SLOWER = 10
"""A change counts as noticed if the tests take so many times as long as without it: they do not end then."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change. `old` and `new` are the changed expression before and after it."""

    line: int
    old: str
    new: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.line}: {self.old}  ->  {self.new}"


def mutants(source: str) -> Iterator[Mutant]:
    """Yields the changes of a source text, in the order of its syntax tree."""
    tree = ast.parse(source)
    for node in _changeable(tree):
        for change in _changes(node):
            changed = copy.deepcopy(tree)
            place = next(y for x, y in zip(ast.walk(tree), ast.walk(changed), strict=True) if x is node)
            new = change(place)
            if new is not place:
                changed = _Replaced(place, new).visit(changed)
            yield Mutant(node.lineno, ast.unparse(node), ast.unparse(new), ast.fix_missing_locations(changed))


def _changeable(node: ast.AST) -> Iterator[ast.expr | ast.AugAssign]:
    """Yields the expressions below a node that may be changed, and the assignments that compute."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.expr | ast.AugAssign):
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changeable(child)


def _changes(node: ast.AST) -> list:
    """Returns the ways to change a node: functions that take it, change it, and return it or what takes its place."""

    def setting(field: str, value: object) -> object:
        return lambda place: (setattr(place, field, value), place)[1]

    if isinstance(node, ast.Compare):
        return [
            setting("ops", [*node.ops[:i], COMPARISONS[type(op)](), *node.ops[i + 1 :]])
            for i, op in enumerate(node.ops)
        ]
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        return [setting("op", OPERATORS[type(node.op)]())]
    if isinstance(node, ast.BoolOp):
        return [setting("op", ast.And() if isinstance(node.op, ast.Or) else ast.Or())]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return [lambda place: place.operand]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        return [setting("value", not node.value if isinstance(node.value, bool) else node.value + 1)]
    return []


class _Replaced(ast.NodeTransformer):
    """Puts an expression into the place of another one."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().visit(node)


class _Changed(MetaPathFinder, Loader):
    """Imports one module from a syntax tree, and all others as usual."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_loader(name, self, origin=str(self.path)) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self.path)
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


def module_of(path: Path) -> tuple[str, Path]:
    """Returns the name under which a file is imported, and the folder that has to be on the path for it."""
    root = path.resolve().parent
    while (root / "__init__.py").exists():
        root = root.parent
    return ".".join(path.resolve().relative_to(root).with_suffix("").parts), root


def concerned(path: Path) -> list[str]:
    """Returns the test files that `pytest --changed` chooses for a file, those first that import it or name it.
    Raises ValueError if it is not one that the tests' graph of imports has."""
    sys.path.insert(0, str(ROOT))
    from tests.support import changed

    try:
        key = str(path.resolve().relative_to(changed.ROOT))
        graph = changed.Graph()
        dotted = key.removesuffix(".py").replace("/", ".").removeprefix(f"{changed.PACKAGE}.")
        files, _ = graph.concerned([key])
    except (ValueError, KeyError):
        raise ValueError(f"{path} is no file of the project: name the tests with --tests") from None
    folder, _, name = dotted.rpartition(".")
    imports = re.compile(
        rf"\b{re.escape(dotted)}\b|{re.escape(folder)} import .*\b{name}\b" if folder else rf"\b{name}\b"
    )
    near = {file: imports.search((changed.ROOT / file).read_text(encoding="utf-8")) for file in files}
    return [str(changed.ROOT / file) for file in sorted(files, key=lambda file: (not near[file], file))]


def passes(path: Path, tree: ast.Module, arguments: list[str], seconds: float) -> bool:
    """Returns True if the tests pass with that syntax tree in the place of a file's, in so many seconds."""
    name, root = module_of(path)
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        sys.path.insert(0, str(root))
        sys.meta_path.insert(0, _Changed(name, path, tree))
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *arguments])))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def survivors(path: Path, lines: range, arguments: list[str]) -> list[Mutant]:
    """Returns the changes in these lines of a file that the tests do not notice. Raises ValueError if the tests fail
    without any."""
    source = path.read_text(encoding="utf-8")
    began = time.monotonic()
    if not passes(path, ast.parse(source), arguments, 1e9):
        raise ValueError(f"the tests fail, or there are none, without any change of {path}")
    seconds = SLOWER * (time.monotonic() - began)
    chosen = [mutant for mutant in mutants(source) if mutant.line in lines]
    found = []
    for number, mutant in enumerate(chosen, 1):
        survives = passes(path, mutant.tree, arguments, seconds)
        print(f"{number}/{len(chosen)} {'SURVIVES' if survives else 'noticed'} {path}:{mutant}", flush=True)
        found += [mutant] * survives
    return found


def main(arguments: list[str]) -> int:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("\n\n")[1].strip())
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", help="the tests to run, as pytest takes them")
    parser.add_argument("--lines", default="1-1000000", help="the lines to change, as FIRST-LAST")
    parser.add_argument("--list", action="store_true", help="only print the changes")
    given = parser.parse_args(arguments[:cut])
    first, last = map(int, given.lines.split("-"))
    found: list[str] = []
    for path in given.files:
        if given.list:
            print(*mutants(path.read_text(encoding="utf-8")), sep="\n")
            continue
        tests = given.tests or [*concerned(path), "--fast"]
        found += [
            f"{path}:{mutant}" for mutant in survivors(path, range(first, last + 1), [*tests, *arguments[cut + 1 :]])
        ]
    print(f"{len(found)} survive", *found, sep="\n  ")
    return int(bool(found))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        sys.exit(f"error: {error}")
