"""Deletes the rules of the middle one at a time, and says which golden tests turn red.

`python -m tests.golden.mutations [PART ...]` prints a line for each rule whose line contains one of the
parts (all, if there are none): the rule, and a golden file whose text is another without it, or else one whose values
are wrong. What no file sees stands at the end with the reason that `unseen.txt` gives: a rule's name on a
line, and indented below it why no golden file can show it. The exit status is 1 if a rule has no reason there, or if a
reason there is of no such rule.

Rules are found in the source: the entries of tables, the branches and the clauses of their conditions, the results of
functions that say yes or no, and the functions that only change something. Each deletion runs in a process of its own,
as many at once as there are cores, which imports the package with that one file changed. Files that saw most deletions
so far come first, so that all rules take half an hour on two cores.
"""

from __future__ import annotations

import ast
import copy
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tests.support.paths import ROOT

if TYPE_CHECKING:
    from .runner import Golden

FOLDER = ROOT / "xla_wasm"
RULES = (
    "passes.simplify",
    "passes.sink",
    "passes.loops",
    "passes.split",
    "passes.exchange",
    "ops.*.simplify*",
    "ops.*.canonical",
)
"""Modules with rules beside those of `plan/`; `*` is a family of operations."""
NOT_RULES = ("__init__", "plan", "plan_builder", "build", "verify", "prepare", "bring", "parts")
"""Files of `plan/` that hold what a plan is made of, the one that checks kernels (`tests/loop/test_loop_verify.py`
damages plans for it), and three that golden files do not ask for: the one that prepares memory
(`tests/plan/test_prepared.py`), the one that brings weights in parts, which are larger than those of golden files
(`tests/plan/test_bring.py`), and the one that divides kernels among threads (`tests/loop/test_parallel.py` has the ways
in which a trip may need another one, and `tests/host/test_threads.py` the bits of whole programs, where the smallest
kernels are divided)."""
SECONDS = 60
"""Of computing that a process has, several times what all golden files take on a slow machine, before it counts as one
that does not end."""

UNSEEN = Path(__file__).parent / "unseen.txt"
"""Deletions that no golden test can see, and why."""

Mutant = tuple[str, ast.Module]


def sources() -> list[tuple[str, Path]]:
    """The modules with rules: their names and files."""
    plan = sorted(path for path in (FOLDER / "plan").glob("*.py") if path.stem not in NOT_RULES)
    paths = [path for pattern in RULES for path in sorted(FOLDER.glob(f"{pattern.replace('.', '/')}.py"))] + plan
    return [(".".join(path.relative_to(FOLDER).with_suffix("").parts), path) for path in paths]


def mutants(tree: ast.Module) -> Iterator[Mutant]:
    """A module with each of its rules deleted, and what the rule is called."""
    for path, node in _walk(tree, ()):
        for what, change in _changes(node):
            changed = copy.deepcopy(tree)
            target = next(y for x, y in zip(ast.walk(tree), ast.walk(changed)) if x is node)
            change(target)
            yield (f"{'.'.join(path)}: {what}" if path else what), ast.fix_missing_locations(changed)


def _walk(node: ast.AST, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    """All statements in their order, each with the functions and classes around it."""
    for child in ast.iter_child_nodes(node):
        inner = (*path, child.name) if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else path
        yield inner, child
        yield from _walk(child, inner)


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """The ways of deleting what a node of the syntax tree says."""
    if (
        isinstance(node, (ast.Assign, ast.AnnAssign))
        and isinstance(node.value, ast.Dict | ast.Tuple)
        and _constant(node)
    ):
        keys = node.value.keys if isinstance(node.value, ast.Dict) else node.value.elts
        for i, key in enumerate(keys):
            if key is not None:
                yield f"{ast.unparse(_target(node))} without {ast.unparse(key)}", partial(_drop, i)
    elif isinstance(node, ast.If) and not all(isinstance(s, ast.Raise) for s in node.body):
        yield f"if {ast.unparse(node.test)}", lambda x: setattr(x, "test", ast.Constant(False))
        for i, clause in enumerate(node.test.values if isinstance(node.test, ast.BoolOp) else []):
            yield f"if {ast.unparse(node.test)}, without {ast.unparse(clause)}", partial(_drop_clause, i)
    elif isinstance(node, ast.IfExp):
        yield f"{ast.unparse(node)}: always the latter", lambda x: setattr(x, "test", ast.Constant(False))
    elif isinstance(node, ast.FunctionDef):
        kind = ast.unparse(node.returns) if node.returns else ""
        if kind == "None":
            yield "does nothing", lambda x: setattr(x, "body", [ast.Pass()])
        for number, (path, result) in enumerate(_results(node) if kind == "bool" else []):
            for value in (True, False):
                if not (isinstance(result, ast.Constant) and result.value is value):
                    rule = f"{path}return {ast.unparse(result)}, as {value}"
                    yield rule, partial(_return, number, value)


def _results(function: ast.FunctionDef) -> list[tuple[str, ast.expr]]:
    """Returns the results of a function, each with the condition of the `if` that it stands under or "", in the order
    of `ast.walk`."""
    under = {id(s): f"if {ast.unparse(x.test)}: " for x in ast.walk(function) if isinstance(x, ast.If) for s in x.body}
    return [
        (under.get(id(s), ""), s.value) for s in ast.walk(function) if isinstance(s, ast.Return) and s.value is not None
    ]


def _constant(node: ast.Assign | ast.AnnAssign) -> bool:
    """Returns true if a table is a constant of the module: its name has no small letters."""
    name = ast.unparse(_target(node))
    return name.isupper()


def _target(node: ast.Assign | ast.AnnAssign) -> ast.expr:
    return node.target if isinstance(node, ast.AnnAssign) else node.targets[0]


def _drop(i: int, assignment: ast.Assign | ast.AnnAssign) -> None:
    table = assignment.value
    if isinstance(table, ast.Dict):
        del table.keys[i], table.values[i]
    elif isinstance(table, ast.Tuple):
        del table.elts[i]


def _drop_clause(i: int, branch: ast.If) -> None:
    assert isinstance(branch.test, ast.BoolOp)
    del branch.test.values[i]
    if len(branch.test.values) == 1:
        (branch.test,) = branch.test.values


def _return(number: int, value: bool, function: ast.FunctionDef) -> None:
    [s for s in ast.walk(function) if isinstance(s, ast.Return)][number].value = ast.Constant(value)


class _Changed(MetaPathFinder, Loader):
    """Imports one module from another syntax tree."""

    def __init__(self, name: str, path: Path, tree: ast.Module):
        self.name = name
        self.path = path
        self.tree = tree

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_loader(name, self, origin=str(self.path)) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


class Runs:
    """Runs the golden files with a module changed, and learns which of them see most."""

    def __init__(self) -> None:
        self.seen = Counter[str]()
        self.lock = Lock()
        """Held from making a pipe until one process alone can write to it."""

    def red(self, name: str, path: Path, tree: ast.Module) -> str:
        """Returns the first golden file found that comes out otherwise with a module changed, or ""."""
        compile(tree, str(path), "exec")
        with self.lock:
            reading, writing = os.pipe()
            first = [file for file, _ in self.seen.most_common()]
            child = os.fork()
            if child:
                os.close(writing)
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            sys.meta_path.insert(0, _Changed(f"xla_wasm.{name}", path, tree))
            os.write(writing, _compare(first).encode())
            os._exit(0)
        with open(reading, encoding="utf-8") as answer:
            found = answer.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return "(does not end)"
        self.seen[found] += 1
        return found


def _compare(first: list[str]) -> str:
    """Returns the name of a golden file that comes out otherwise; `first` says which to try before others."""
    try:
        from tests.golden.runner import golden_files, read
    except Exception as error:
        return f"(the package cannot be imported: {error})"
    rank = {name: place for place, name in enumerate(first)}
    files = sorted(map(read, golden_files()), key=lambda golden: rank.get(golden.name, len(rank)))
    for golden in files:
        if not _same(golden):
            return golden.name
    return next((f"{golden.name} (values)" for golden in files if not _right(golden)), "")


def _same(golden: Golden) -> bool:
    try:
        return golden.actual() == golden.expected
    except Exception:
        return False


def _right(golden: Golden) -> bool:
    from tests.golden.values import check

    try:
        check(golden, "simd128")
    except Exception:
        return False
    return True


def _unseen() -> dict[str, str]:
    """Reads `unseen.txt`, and returns its explanation of each rule."""
    found: dict[str, str] = {}
    rule = ""
    for line in UNSEEN.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            found[rule] = f"{found[rule]} {line.strip()}".strip()
        elif line:
            rule = line
            found[rule] = ""
    return found


def main(parts: list[str]) -> int:
    assert not any(name.startswith("xla_wasm") for name in sys.modules), "the package must not be there yet"
    sys.path.insert(0, str(FOLDER.parent))
    unseen, reasons, known = [], _unseen(), set[str]()
    runs, begun = Runs(), False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, path in sources():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            chosen = [(f"{name} {rule}", changed) for rule, changed in mutants(tree)]
            known |= {rule for rule, _ in chosen}
            if parts:
                chosen = [(rule, changed) for rule, changed in chosen if any(part in rule for part in parts)]
            if chosen and not begun:
                assert not runs.red(name, path, tree), "the golden tests must be green to begin with"
                begun = True
            answers = pool.map(partial(runs.red, name, path), [changed for _, changed in chosen])
            for (rule, _), found in zip(chosen, answers):
                print(f"{rule}  ->  {found or 'NOTHING'}", flush=True)
                if not found:
                    unseen.append(rule)
    print(f"\n{len(unseen)} that no golden test sees:")
    for rule in unseen:
        print(f"  {rule}\n      {reasons.get(rule, '')}")
    gone = [rule for rule in reasons if rule not in known]
    for rule in gone:
        print(f"  {rule}\n      (unseen.txt explains it, and there is no such rule)")
    return int(bool(gone) or any(not reasons.get(rule) for rule in unseen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
