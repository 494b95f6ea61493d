"""Choice of the test files that a change concerns: those that changed, or that reach a changed file through imports.
`pytest --changed` runs these.

The imports are read from the sources of `xla_wasm/`, `benchmarks/` and `tests/`, those inside functions too. What
cannot be seen there is taken for more than it is, never for less:

- The front of the package loads a module when one of its names is used: a file reaches it that imports the name, or has
  it after a dot.
- The files of families that `ops/table.py` imports by their role are reached by those that ask for it.
- A file that has `xla_wasm` in a string may run anything of the package.
- Any other file (JavaScript, documents, examples, data) concerns what has its name, or that of a folder it lies in, in
  a string (of the package: one without a blank, since its messages name documents), and the modules beside it.
- If a change cannot be followed (a setting of pytest, a module that is gone, a file that nobody names), all tests
  run.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from fnmatch import filter as matching
from pathlib import Path

from tests.support.paths import ROOT

PACKAGE, FRONT, CONFTEST = "xla_wasm", "xla_wasm/__init__.py", "tests/conftest.py"
EVERYTHING = ("pyproject.toml", CONFTEST)
"""Files that every test depends on."""
BUILT = {"runtime_c": "runtime.bin"}
"""A folder -> the file that is built of it, under which modules know it."""
_SELF = str(Path(__file__).relative_to(ROOT))
_NAMING = (_SELF, str(Path(__file__).with_name("choosing.py").relative_to(ROOT)))
"""Files that have names of fixtures and files in strings, and use neither."""
# A folder that nearly every file names says nothing of what is read there.
_VAGUE = {"tests", PACKAGE}
_WORDS = re.compile(r"[^\w.-]+")


def since(reference: str | None = None) -> list[str]:
    """The paths of what changed from a commit on, what git does not know yet included; None: from where the branch left
    `main`."""
    if reference is None:
        reference = _git("merge-base", "main", "HEAD")[0]
    return sorted(
        {
            *_git("diff", "--name-only", "--no-renames", reference, "--"),
            *_git("ls-files", "--others", "--exclude-standard"),
        }
    )


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


class Graph:
    """The imports of each file of Python, and the words that its strings have. A fixture of conftest.py is a node of
    its own, `path::name`."""

    def __init__(self) -> None:
        paths = [p for folder in (PACKAGE, "benchmarks", "tests") for p in sorted((ROOT / folder).rglob("*.py"))]
        self.modules = {_dotted(path): str(path.relative_to(ROOT)) for path in paths}
        """Name under which a module is imported -> its path."""
        self.imports: dict[str, set[str]] = {}
        self.words: dict[str, set[str]] = {}
        front, conftest = _tree(FRONT), _tree(CONFTEST)
        self.front, self.methods = self._names_of_the_front(front)
        self.fixtures = {f.name: f for f in conftest.body if isinstance(f, ast.FunctionDef) and f.decorator_list}
        parts: dict[str, list[ast.stmt]] = {
            # In the front, only what is imported at once: for the others see `front`.
            FRONT: [n for n in front.body if not isinstance(n, ast.If | ast.FunctionDef)],
            CONFTEST: [n for n in conftest.body if isinstance(n, ast.Import | ast.ImportFrom)],
        }
        for name, path in self.modules.items():
            # One tree after another: the collector of garbage goes through all that there are.
            nodes = parts.get(path) or [_tree(path)]
            self._read(path, name, nodes)
        for name, fixture in self.fixtures.items():
            self._read(f"{CONFTEST}::{name}", "tests.conftest", [fixture])

    def _names_of_the_front(self, tree: ast.Module) -> tuple[dict[str, str], dict[str, str]]:
        """Name -> path of the module that defines it: names that the front loads, modules below it included; methods
        that it hands in."""
        names = {
            m.removeprefix(f"{PACKAGE}."): path
            for m, path in self.modules.items()
            if m.count(".") == 1 and m.startswith(PACKAGE)
        }
        methods: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.If):
                for held in node.body:
                    if isinstance(held, ast.ImportFrom):
                        names |= {a.asname or a.name: self.modules[f"{PACKAGE}.{held.module}"] for a in held.names}
            elif isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values):
                    for call in ast.walk(value) if isinstance(key, ast.Constant) else ():
                        if isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant):
                            methods[str(key.value)] = self.modules[f"{PACKAGE}{call.args[0].value}"]
        return names, methods

    def _read(self, key: str, name: str, nodes: Iterable[ast.AST]) -> None:
        """Fills in the imports and words of a node."""
        imports: set[str] = set()
        words: set[str] = set()
        package = name if key.endswith("__init__.py") else name.rpartition(".")[0]
        in_tests = key.startswith("tests/") and key not in _NAMING
        for node in (x for part in nodes for x in _walk(part)):
            if isinstance(node, ast.Import):
                imports |= {path for alias in node.names for path in self._paths(alias.name)}
                if any(alias.name == PACKAGE and alias.asname for alias in node.names):
                    imports |= self._package()
            elif isinstance(node, ast.ImportFrom):
                base = package.split(".") if package and node.level else []
                base = base[: len(base) - max(node.level - 1, 0)] + (node.module.split(".") if node.module else [])
                for alias in node.names:
                    imports |= self._paths(".".join([*base, alias.name]))
                    if base == [PACKAGE] and alias.name in self.front:
                        imports.add(self.front[alias.name])
            elif isinstance(node, ast.Attribute) and node.attr in self.methods:
                imports.add(self.methods[node.attr])
            elif (
                isinstance(node, ast.Attribute) and node.attr in self.front and getattr(node.value, "id", "") == PACKAGE
            ):
                imports.add(self.front[node.attr])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and key != _SELF:
                if " " in node.value and not in_tests:
                    continue
                words |= {word.strip(".-") for word in _WORDS.split(node.value)}
            elif isinstance(node, ast.arg) and in_tests and node.arg in self.fixtures:
                imports.add(f"{CONFTEST}::{node.arg}")
            if isinstance(node, ast.Call) and not (key == FRONT and _in_a_dict(nodes, node)):
                imports |= {path for dotted in self._by_name(node) for path in self._paths(dotted)}
        words -= {""}
        if in_tests:
            imports.add(CONFTEST)
            imports |= self._paths(name)  # the packages around it
            imports |= {f"{CONFTEST}::{word}" for word in words & self.fixtures.keys()}
            if {PACKAGE, "xla-wasm"} & words or any(word.startswith(f"{PACKAGE}.") for word in words):
                imports |= self._package()
        self.imports[key], self.words[key] = imports - {key}, words

    def _paths(self, dotted: str) -> set[str]:
        """The paths of a module, or of that which a name is imported from, and of the packages around it."""
        parts = dotted.split(".")
        return {
            self.modules[name] for end in range(1, len(parts) + 1) if (name := ".".join(parts[:end])) in self.modules
        }

    def _package(self) -> set[str]:
        return {path for path in self.modules.values() if path.startswith(f"{PACKAGE}/")}

    def _by_name(self, call: ast.Call) -> list[str]:
        """The modules that a call of `import_module` may mean, or of what imports files of families."""
        if role := role_of(call):
            return matching(self.modules, f"{PACKAGE}.ops.*.{role}")
        if not call.args or getattr(call.func, "attr", getattr(call.func, "id", "")) != "import_module":
            return []
        name = call.args[0]
        if isinstance(name, ast.Constant):
            return [PACKAGE + name.value if name.value.startswith(".") else name.value]
        parts = name.values if isinstance(name, ast.JoinedStr) else []
        pattern = "".join(str(p.value) if isinstance(p, ast.Constant) else "*" for p in parts) or "*"
        return matching(self.modules, pattern)

    def reached(self, key: str) -> set[str]:
        """A node and all that it imports, directly or not."""
        found, open_ = {key}, [key]
        while open_:
            new = self.imports[open_.pop()] - found
            found |= new
            open_ += new
        return found

    def tests(self) -> list[str]:
        """The paths of all test files."""
        return [path for path in self.modules.values() if re.fullmatch(r"tests/\w+/test_\w+\.py", path)]

    def concerned(self, changed: Iterable[str]) -> tuple[list[str], str]:
        """The test files that changed files concern, and which of them concerns all, or none."""
        hit: set[str] = set()
        for path in changed:
            if path in self.imports and path not in EVERYTHING:
                hit.add(path)
                continue
            named = set() if path.endswith(".py") and path.startswith((f"{PACKAGE}/", "tests/")) else self.naming(path)
            if path in EVERYTHING or not named:
                return self.tests(), path
            hit |= named
        return [path for path in self.tests() if self.reached(path) & hit], ""

    def naming(self, path: str) -> set[str]:
        """Returns the nodes with the name of a file, or of a folder that it lies in, in their strings, and those
        directly in such a folder."""
        *folders, name = path.split("/")
        wanted = ({name, *folders} | {BUILT[folder] for folder in folders if folder in BUILT}) - _VAGUE
        beside = {"/".join(folders[:end]) for end in range(1, len(folders) + 1)} - _VAGUE
        return {key for key, words in self.words.items() if wanted & words or key.rpartition("/")[0] in beside}


def role_of(node: ast.AST) -> str | None:
    """The role whose files `ops/table.py` imports where a node calls it, "" if that is not written out; else None."""
    if not isinstance(node, ast.Call):
        return None
    name, role = getattr(node.func, "attr", getattr(node.func, "id", "")), node.args[0] if node.args else None
    if name not in ("load_file", "load_files", "load_tables"):
        return None
    return str(role.value) if isinstance(role, ast.Constant) else ""


def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[: -1 if parts[-1] == "__init__" else None])


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but docstrings, and other strings that stand for themselves."""
    open_ = [tree]
    while open_:
        node = open_.pop()
        yield node
        open_ += [
            x for x in ast.iter_child_nodes(node) if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant))
        ]


def _in_a_dict(nodes: Iterable[ast.AST], call: ast.Call) -> bool:
    return any(call in ast.walk(d) for node in nodes for d in ast.walk(node) if isinstance(d, ast.Dict))
