"""Records the outcomes of conditions while tests run: a plugin of pytest, which `tools/sides.py` starts.

The modules that have conditions are imported from changed trees: each condition goes through `__side__`, which notes
its number and outcome, and functions that are about instructions say which, so that an outcome has the tags of the
instruction that its function is about; where it is about none, as in the loop language, those of all around it.

What a test makes without a compile counts, without tags, if the test emits kernels itself, written by hand, and runs
them.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conditions import ROOT, Condition, conditions_of, files

TAGS = ("batch", "small", "several", "in place", "threads")
"""Properties of an instruction: dimensions along which it does the same for each part; types of less than 32 bits but
truth values; more than one operand or result of a kind; memory that it shares with an operand. And one of what the
module is compiled for."""
BATCH, SMALL, SEVERAL, IN_PLACE, THREADS = (1 << i for i in range(len(TAGS)))
_SECONDS = 20
"""Time after which the record is written anew, for a run that is interrupted."""
_TESTS = 3
"""Tests that are remembered for each side and tags."""


class Taken:
    """Sides that were taken: for each condition's key and side the tags as bits, the number of compiles, some tests."""

    def __init__(self) -> None:
        self.sides: dict[tuple[str, bool], dict[int, tuple[int, list[str]]]] = {}

    def of(self, key: str, side: bool) -> dict[int, tuple[int, list[str]]]:
        return self.sides.get((key, side), {})

    def add(self, key: str, side: bool, mask: int, count: int, tests: list[str]) -> None:
        seen = self.sides.setdefault((key, side), {})
        before, known = seen.get(mask, (0, []))
        seen[mask] = before + count, [*dict.fromkeys([*known, *tests])][:_TESTS]

    def to_json(self) -> list[Any]:
        return [[key, side, mask, *seen] for (key, side), masks in self.sides.items() for mask, seen in masks.items()]

    @staticmethod
    def from_json(data: list[Any]) -> Taken:
        taken = Taken()
        for row in data:
            taken.add(*row)
        return taken


def merged(folder: Path) -> Taken:
    """Returns the records that all processes have written to a folder, as one."""
    return Taken.from_json([row for path in sorted(folder.glob("*.json")) for row in json.loads(path.read_text())])


# --- the changed modules --------------------------------------------------------------------------------------------

_ABOUT = ("Instruction", "Instruction | None", "list[Instruction]", "Expression")
"""Types of parameters that say what a function is about."""


class _Changer(ast.NodeTransformer):
    """Has each condition go through `__side__`, and functions say what they are about."""

    def __init__(self, numbers: dict[ast.expr, int]) -> None:
        self.numbers = numbers
        self.about: list[str] = [""]
        self.with_own: list[bool] = [False]
        """For each class around: whether its objects are about an instruction `x`."""

    def visit(self, node: ast.AST) -> Any:
        number = self.numbers.get(node) if isinstance(node, ast.expr) else None
        new = super().visit(node)
        if number is None:
            return new
        arguments = [ast.Constant(number), new, *([ast.Name(self.about[-1], ast.Load())] if self.about[-1] else [])]
        return ast.copy_location(ast.Call(ast.Name("__side__", ast.Load()), arguments, []), node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        own = any(
            isinstance(n, ast.Attribute)
            and isinstance(n.ctx, ast.Store)
            and n.attr == "x"
            or isinstance(n, ast.AnnAssign)
            and isinstance(n.target, ast.Name)
            and n.target.id == "x"
            for n in ast.walk(node)
        )
        self.with_own.append(own)
        self.about.append("")
        self.generic_visit(node)
        self.about.pop()
        self.with_own.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        names = [a.arg for a in arguments if a.annotation is not None and ast.unparse(a.annotation) in _ABOUT]
        if not names and self.with_own[-1] and arguments and arguments[0].arg == "self":
            names = ["self"]
        # An inner function is about what the function around it is about.
        self.about.append(names[0] if names else self.about[-1])
        self.with_own.append(False)
        self.generic_visit(node)
        self.with_own.pop()
        self.about.pop()
        if names and not any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node)):
            begin, end = ast.parse(f"__begin__({names[0]})\n__end__()").body
            docstring = node.body[: ast.get_docstring(node) is not None]
            body = node.body[len(docstring) :]
            node.body = [*docstring, begin, ast.Try(body, [], [], [end])] if body else node.body
        return node


class _Finder(MetaPathFinder, Loader):
    """Imports the modules that have conditions from changed trees."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files()}

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        found = self.paths.get(name)
        return spec_from_loader(name, self, origin=str(found)) if found else None

    def exec_module(self, module: ModuleType) -> None:
        path = self.paths[module.__name__]
        module.__file__ = str(path)
        self.recorder.execute(path, path.read_text(encoding="utf-8"), module.__dict__)


class Recorder:
    """The outcomes of the compiles of one process."""

    def __init__(self) -> None:
        self.conditions: list[Condition] = []
        self.taken = Taken()
        self.seen: set[int] = set()
        """Outcomes of the compile that is going on: number of the condition, side and tags."""
        self.compiles: list[set[int]] = []
        """The outcomes of each compile of the test that is going on."""
        self.ran = False
        self.by_hand: set[int] = set()
        """Outcomes of the test outside of all compiles."""
        self.emitted = self.started = False
        """True once the test has emitted a kernel itself, and made an instance of anything."""
        self.depth = 0
        self.options = 0
        self.around: list[int] = [0]
        self.tags: dict[int, tuple[Any, int]] = {}
        self.caches: list[Any] = []
        self.written = time.monotonic()

    def execute(self, path: Path, source: str, names: dict[str, Any]) -> None:
        """Executes a module's source with its conditions recorded."""
        tree = ast.parse(source)
        numbers = {}
        for condition, node in conditions_of(path, tree):
            numbers[node] = len(self.conditions)
            self.conditions.append(condition)
        tree = ast.fix_missing_locations(_Changer(numbers).visit(tree))
        names.update(__side__=self.side, __begin__=self.begin, __end__=self.around.pop)
        exec(compile(tree, str(path), "exec"), names)
        self.caches += [value for value in names.values() if hasattr(value, "cache_clear")]

    def side(self, number: int, value: Any, about: Any = None) -> Any:
        """Notes an outcome."""
        if not self.depth:
            self.by_hand.add((number << 1 | bool(value)) << len(TAGS))
        else:
            own = None if about is None else self.tags_of(about)
            mask = self.around[-1] if own is None else self.options | own
            self.seen.add((number << 1 | bool(value)) << len(TAGS) | mask)
        return value

    def begin(self, about: Any) -> None:
        """Begins a function that is about an instruction, or several."""
        self.around.append(self.around[-1] | (self.tags_of(about) or 0) if self.depth else 0)

    def tags_of(self, about: Any) -> int | None:
        known = self.tags.get(id(about))
        if known is not None and known[0] is about:
            return known[1]
        mask = tags_of(about)
        if mask is not None and type(about).__name__ == "Instruction":
            self.tags[id(about)] = about, mask
        return mask

    def clear_caches(self) -> None:
        """Has the compiler ask again what it has asked before."""
        for cached in self.caches:
            cached.cache_clear()

    def compiled(self, trace: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `compiler.trace`, recorded."""

        def recorded(module: Any, options: Any, *args: Any, **named: Any) -> Any:
            if not self.depth:
                self.clear_caches()
                self.seen, self.options = set(), options.threads * THREADS
                self.around[:] = [self.options | bool(options.state) * IN_PLACE]
            self.depth += 1
            try:
                return trace(module, options, *args, **named)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.compiles.append(self.seen)
                    self.tags.clear()

        return recorded

    def run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function that runs an instance, noted."""

        def noted(*args: Any, **named: Any) -> Any:
            self.ran = True
            return run(*args, **named)

        return noted

    def emit(self, emit: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `loop.emit.emit` for tests, noted."""

        def noted(*args: Any, **named: Any) -> Any:
            self.emitted = True
            return emit(*args, **named)

        return noted

    def start(self, init: Callable[..., None]) -> Callable[..., None]:
        """Returns the function that makes an instance of wasmtime, noted."""

        def noted(*args: Any, **named: Any) -> None:
            self.started = True
            init(*args, **named)

        return noted

    def begin_test(self) -> None:
        self.clear_caches()
        self.compiles, self.ran = [], False
        self.by_hand, self.emitted, self.started = set(), False, False

    def finish(self, test: str, counts: bool) -> None:
        """Ends a test; what it compiled counts if it has compared values."""
        low = (1 << len(TAGS)) - 1
        compared = [*(self.compiles if self.ran else []), *([self.by_hand] if self.emitted and self.started else [])]
        for seen in compared if counts else ():
            for code in seen:
                number = code >> len(TAGS)
                self.taken.add(self.conditions[number >> 1].key, bool(number & 1), code & low, 1, [test])

    def write(self, folder: Path) -> None:
        """Writes what was taken up to now."""
        self.written = time.monotonic()
        path = folder / f"{os.getpid()}.json"
        path.write_text(json.dumps(self.taken.to_json()), encoding="utf-8")


def tags_of(about: Any) -> int | None:
    """Returns the tags of an instruction, of the instructions of a kernel, or of what is about one; None of anything
    else."""
    kind = type(about).__name__
    if kind == "Instruction":
        return _own_tags(about)
    if kind == "Expression":
        return (tags_of(about.inner) or 0) | (len(about.roots) > 1) * SEVERAL
    if isinstance(about, list):
        mask = 0
        for x in about:
            mask |= tags_of(x) or 0
        return mask
    own = getattr(about, "x", None)
    return _own_tags(own) if type(own).__name__ == "Instruction" else None


def _own_tags(x: Any) -> int:
    shapes = [shape for y in (x, *x.operands) for _, shape in y.shape.leaves()]
    mask = SMALL if any(_is_small(shape.element_type) for shape in shapes) else 0
    if x.opcode in ("reduce", "reduce-window", "scatter", "sort", "map") and (x.shape.is_tuple or len(x.operands) > 3):
        mask |= SEVERAL
    if x.opcode in ("dynamic-update-slice", "scatter", "while"):
        mask |= IN_PLACE
    return mask | _has_batches(x) * BATCH


def _is_small(name: str) -> bool:
    from xla_wasm.hlo.types import TYPES

    return name in TYPES and TYPES[name].bits < 32 and name != "pred"


def _has_batches(x: Any) -> bool:
    """Returns True if an instruction does the same along some dimension of more than one element."""
    a, opcode = x.attrs, x.opcode
    rank = x.operands[0].shape.rank if x.operands and x.operands[0].shape.is_array else 0
    for name, field in (
        ("dot_dimension_numbers", "lhs_batch_dimensions"),
        ("gather_dimension_numbers", "operand_batching_dims"),
        ("scatter_dimension_numbers", "input_batching_dims"),
    ):
        if name in a:
            return bool(getattr(a[name], field))
    if opcode == "convolution":
        return a["feature_group_count"] > 1 or a["batch_group_count"] > 1
    if opcode == "reduce":
        return rank > len(a["dimensions"])
    if opcode in ("reduce-window", "select-and-scatter"):
        window = a["window"]
        return any(d.size == 1 and n > 1 for d, n in zip(window.dimensions, x.operands[0].shape.dimensions))
    if opcode == "fft":
        return rank > len(a["fft_length"])
    if opcode in ("sort", "topk"):
        return rank > 1
    if opcode in ("dynamic-slice", "dynamic-update-slice"):
        part = x.shape if opcode == "dynamic-slice" else x.operands[1].shape
        return any(n == m > 1 for n, m in zip(part.dimensions, x.operands[0].shape.dimensions))
    return opcode in ("cholesky", "triangular-solve", "custom-call") and rank > 2


# --- the plugin -----------------------------------------------------------------------------------------------------

RECORDER = Recorder()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sides", type=Path, help="the folder for what is recorded")
    if "xla_wasm" in sys.modules:
        raise ImportError("the recorder has to come before what it records")
    sys.meta_path.insert(0, _Finder(RECORDER))


def pytest_configure(config: pytest.Config) -> None:
    import wasmtime

    from xla_wasm import compiler
    from xla_wasm.host.base import BaseInstance
    from xla_wasm.loop import emit

    compiler.trace = RECORDER.compiled(compiler.trace)
    BaseInstance.run = RECORDER.run(BaseInstance.run)  # type: ignore[method-assign]
    emit.emit = RECORDER.emit(emit.emit)  # those who have imported it compile
    wasmtime.Instance.__init__ = RECORDER.start(wasmtime.Instance.__init__)  # type: ignore[method-assign]


def pytest_runtest_call() -> None:
    RECORDER.begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call":
        RECORDER.finish(item.nodeid.partition("[")[0], report.passed)
        if time.monotonic() > RECORDER.written + _SECONDS:
            RECORDER.write(item.config.getoption("sides"))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if RECORDER.taken.sides:
        RECORDER.write(session.config.getoption("sides"))
