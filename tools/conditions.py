"""The conditions in the sources of the compiler that choose a path by a size, a type or an attribute, by rule
(`tools/sides.py`).

A condition is what `if`, `while`, a conditional expression or a comprehension asks, what `and`, `or` and `not` join,
what `all`, `any` and `bool` take, what a function returns that is annotated with bool, and a comparison. Of what `and`,
`or` and `not` make of others, the others are the conditions. None are: whether something is another thing, or of a
class; whether it is among others that are not written out, unless these are dimensions; what leads to nothing but an
error; what assertions and annotations have, and functions that print; constants; code that runs on import.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "xla_wasm"
FAMILIES = ("conv", "dot", "reduce", "sort", "window")
"""The families of which every file that compiles counts, since they have kernels in many; of the others, `lower.py` and
`plan.py`."""
_OTHER_FILES = ("record", "reference", "samples", "stablehlo", "unstable")
"""Beginnings of the names of a family's files that read, evaluate or show operations."""
_CHECKS = ("loop/facts.py", "loop/ranges.py", "loop/signatures.py", "loop/text.py", "loop/verify.py", "plan/verify.py")
"""Files that print kernels, check them, or find out for a check where they read and write, and change none."""


@dataclass(frozen=True)
class Condition:
    """A condition: the file below the package, the line, the function with those around it, and the text, with a
    number if the function has it more than once."""

    file: str
    line: int
    where: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def key(self) -> str:
        return f"{self.where}: {self.text}"


def files() -> list[Path]:
    """Returns the files that choose and write kernels, in order."""
    package = ROOT / PACKAGE
    found = [path for part in ("kernels", "loop", "lowering", "plan") for path in (package / part).glob("*.py")]
    for path in (package / "ops").glob("*/*.py"):
        if (
            path.name in ("lower.py", "plan.py")
            or path.parent.name in FAMILIES
            and not path.name.startswith(_OTHER_FILES)
        ):
            found.append(path)
    return sorted(path for path in found if str(path.relative_to(package)) not in _CHECKS)


def all_conditions() -> list[Condition]:
    """Returns the conditions of all files."""
    return [c for path in files() for c, _ in conditions_of(path, ast.parse(path.read_text(encoding="utf-8")))]


def conditions_of(path: Path, tree: ast.Module) -> list[tuple[Condition, ast.expr]]:
    """Returns the conditions of a file with their expressions in its tree, in the order of the text."""
    file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    name = file.removeprefix(f"{PACKAGE}/")
    finder = _Finder()
    finder.visit(tree)
    found, seen = [], Counter[str]()
    for where, node in finder.found:
        text = ast.unparse(node)
        seen[where + text] += 1
        if seen[where + text] > 1:
            text += f" #{seen[where + text]}"
        found.append((Condition(file, node.lineno, f"{name}: {where}", text), node))
    return found


class _Finder(ast.NodeVisitor):
    """Collects the conditions of a module, each with the function that it is in."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.expr]] = []
        self.names: list[str] = []
        self.functions: list[ast.FunctionDef] = []

    def test(self, node: ast.expr) -> None:
        """Takes an expression of which the truth decides."""
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                self.test(value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.test(node.operand)
        elif isinstance(node, ast.IfExp):
            for part in (node.test, node.body, node.orelse):
                self.test(part)
        else:
            if self.functions and not _is_left_out(node):
                self.found.append((".".join(self.names), node))
            if isinstance(node, ast.Compare):
                self.generic_visit(node)
            else:
                self.visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.names.append(node.name)
        if not (node.name.startswith("__") and node.name not in ("__init__", "__call__") or _prints(node)):
            self.functions.append(node)
            for statement in node.body:
                self.visit(statement)
            self.functions.pop()
        self.names.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.names.pop()

    def visit_If(self, node: ast.If | ast.While) -> None:
        if isinstance(node, ast.If) and all(isinstance(s, ast.Raise) for s in node.body):
            if not node.orelse:
                return
        else:
            self.test(node.test)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    visit_While = visit_If

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.test(node.test)
        self.visit(node.body)
        self.visit(node.orelse)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)
        for test in node.ifs:
            self.test(test)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for value in node.values[:-1]:
            self.test(value)
        self.visit(node.values[-1])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        (self.test if isinstance(node.op, ast.Not) else self.visit)(node.operand)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.test(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "bool":
            self.test(node.args[0])
        elif name in ("all", "any") and isinstance(node.args[0], ast.GeneratorExp):
            for generator in node.args[0].generators:
                self.visit(generator)
            self.test(node.args[0].elt)
        else:
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        returns = self.functions[-1].returns if self.functions else None
        if node.value is not None:
            (self.test if returns is not None and ast.unparse(returns) == "bool" else self.visit)(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def nothing(self, node: ast.AST) -> None:
        """Leaves out what is below."""

    visit_Assert = visit_Raise = visit_JoinedStr = nothing


def _is_left_out(node: ast.expr) -> bool:
    """Returns True if what an expression asks is neither of a size nor of a type nor of an attribute."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("all", "any") and node.args and isinstance(node.args[0], ast.GeneratorExp):
            return _is_left_out(node.args[0].elt)
        return node.func.id in ("isinstance", "bool")
    if isinstance(node, ast.BoolOp):
        return all(map(_is_left_out, node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _is_left_out(node.operand)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            named = ast.unparse(right)
            written = isinstance(right, ast.Constant | ast.Tuple | ast.List | ast.Set) or named.lstrip("_").isupper()
            return not (written or isinstance(left, ast.Constant) or "dim" in named)
        return isinstance(node.ops[0], ast.Is | ast.IsNot)
    return isinstance(node, ast.Constant)


def _prints(node: ast.FunctionDef) -> bool:
    """Returns True if what a function makes is for people: text, with values in it."""
    returns = ast.unparse(node.returns) if node.returns is not None else ""
    return "str" in returns and any(isinstance(n, ast.JoinedStr) for n in ast.walk(node))
