"""Choices of tests by `--fast` and `--changed`: every test has a case in the one, and the other misses nothing that a
change concerns."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support import changed
from tests.support.changed import CONFTEST, Graph
from tests.support.paths import ROOT
from tests.support.processes import output

ALL = sorted(path.name for path in (ROOT / "tests").rglob("test_*.py"))


@cache
def graph() -> Graph:
    return Graph()


def concerned(*paths: str) -> list[str]:
    return [Path(path).name for path in graph().concerned(paths)[0]]


def test_all_files_are_known() -> None:
    assert sorted(Path(path).name for path in graph().tests()) == ALL


USES = {
    "a name of the front": ("import xla_wasm; xla_wasm.Options()", "xla_wasm/__init__.py", "xla_wasm/options.py"),
    "reading": (
        "from xla_wasm.hlo.ir import Module; Module.from_text('HloModule m\\nENTRY e {\\n ROOT x = f32[] "
        "parameter(0)\\n}')",
        "xla_wasm/hlo/ir.py",
    ),
    "compiling": (
        "import xla_wasm; b = __import__('xla_wasm.builder').builder.Builder('m')\n"
        "from xla_wasm.ops.sample import shape; xla_wasm.compile(b.module(b.op('sqrt', b.parameter(0, "
        "shape('f32[9]')))))",
        *(
            "xla_wasm/compiler.py",
            "xla_wasm/builder/__init__.py",
            "xla_wasm/ops/sample.py",
            "xla_wasm/ops/elementwise/lower.py",
        ),
    ),
    "a test file": ("import tests.hlo.test_index_map", "tests/hlo/test_index_map.py"),
    "another": ("import tests.hlo.test_layout", "tests/hlo/test_layout.py"),
}


@pytest.mark.parametrize("name", USES)
def test_what_is_loaded_is_reached(name: str) -> None:
    """All modules that a process has loaded in the end are among those that the graph reaches from what it has
    named."""
    code, *named = USES[name]
    listing = (
        "import json, sys; print(json.dumps([m.__file__ for m in sys.modules.values() if getattr(m, '__file__', "
        "None)]))"
    )
    said = output([sys.executable, "-c", f"{code}\n{listing}"], ROOT, timeout=600)
    files = [Path(file) for file in json.loads(said)]
    known = set(graph().modules.values())
    loaded = {str(file.relative_to(ROOT)) for file in files if file.is_relative_to(ROOT)} & known
    assert len(loaded) > 5
    assert not loaded - set().union(*(graph().reached(key) for key in named))


@pytest.mark.parametrize(
    ("path", "some", "not_others"),
    [
        ("tests/ops/test_sort.py", ["test_sort.py"], ["test_math.py"]),
        ("tests/support/xla_cpu.py", ["test_samples.py", "test_programs.py"], ["test_printer.py", "test_names.py"]),
        ("tests/golden/new.hlo", ["test_golden.py"], ["test_sort.py"]),
        # Through a fixture of conftest.py.
        ("tests/support/browsing.py", ["test_web.py", "test_digits_page.py"], ["test_sort.py", "test_golden.py"]),
        ("tests/js/threads.mjs", ["test_threads_js.py"], ["test_sort.py", "test_linalg.py"]),
        (
            "web/new/file.js",
            ["test_web.py", "test_node.py", "test_npm.py", "test_javascript.py"],
            ["test_sort.py", "test_linalg.py"],
        ),
        ("docs/new.md", ["test_documents.py", "test_docs_site.py"], ["test_math.py"]),
        ("examples/digits/new.hlo.pb", ["test_digits.py", "test_digits_page.py"], ["test_linalg.py"]),
        ("runtime_c/new.c", ["test_link.py", "test_fft.py", "test_samples.py"], ["test_printer.py"]),
        ("xla_wasm/loop/verify.py", ["test_loop_verify.py", "test_samples.py", "test_cli.py"], ["test_printer.py"]),
        ("xla_wasm/ops/sort/lower.py", ["test_sort.py", "test_samples.py", "test_node.py"], ["test_printer.py"]),
        ("xla_wasm/safetensors.py", ["test_safetensors.py"], ["test_printer.py"]),
    ],
)
def test_concerned(path: str, some: list[str], not_others: list[str]) -> None:
    found = concerned(path)
    assert {*some} <= {*found}
    assert not [name for name in not_others if name in found]


@pytest.mark.parametrize(
    "path", [CONFTEST, "pyproject.toml", "xla_wasm/hlo/gone.py", "tests/gone.py", "file_that_nobody_" + "names"]
)
def test_what_concerns_all(path: str) -> None:
    files, why = graph().concerned(["tests/ops/test_sort.py", path])
    assert len(files) == len(ALL) and why == path


def test_nothing_concerns_nothing() -> None:
    assert graph().concerned([]) == ([], "")


def test_changes_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are those committed since the branch left main, those not committed yet, and files that git does not
    know; new commits of main are none."""
    monkeypatch.setattr(changed, "ROOT", tmp_path)

    def git(*arguments: str) -> None:
        names = (
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@localhost",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
        )
        subprocess.run(["git", "-C", tmp_path, *names, *arguments], check=True, capture_output=True)

    def write(**files: str) -> None:
        for name, text in files.items():
            (tmp_path / name).write_text(text)

    def commit(**files: str) -> None:
        write(**files)
        git("add", "--all")
        git("commit", "--message", "m")

    git("init")
    commit(a="1", b="1", c="1", d="1", moved="a text that is long enough")
    git("checkout", "-b", "branch")
    commit(b="2")
    git("mv", "moved", "there")
    git("checkout", "main")
    git("stash")
    commit(d="2")
    git("checkout", "branch")
    git("stash", "pop")
    write(c="2", new="1", ignored="1", **{".gitignore": "ignored"})
    assert changed.since() == [".gitignore", "b", "c", "moved", "new", "there"]
    assert changed.since("HEAD") == [".gitignore", "c", "moved", "new", "there"]
    with pytest.raises(ValueError, match="git diff .*no_such_commit"):
        changed.since("no_such_commit")


def collected(*arguments: str) -> list[str]:
    """The tests that a run would take, and what it says beside."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-o",
        "addopts=",
        "--collect-only",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    return output(command, ROOT, timeout=600).splitlines()


def test_fast_has_a_case_of_every_test() -> None:
    files = [
        "tests/web/test_callbacks_js.py",
        "tests/kernels/test_quads.py",
        "tests/pages/test_web.py",
        "tests/stablehlo/test_stablehlo_sizes.py",
        "tests/host/test_exit.py",
    ]
    every = [line for line in collected(*files) if "::" in line]
    lines = collected("--fast", *files)
    fast = [line for line in lines if "::" in line]
    assert {*fast} < {*every}
    names = [line.partition("[")[0] for line in fast]
    assert len({*names}) == len(names)
    assert not any("chromium" in line for line in fast)
    # What runs in pages and what starts processes is left out; of all others there is a case, Node included.
    left_out = {line.partition("[")[0] for line in every} - {*names}
    assert {line.partition("::")[0] for line in left_out} == {"tests/pages/test_web.py", "tests/host/test_exit.py"}
    assert any("test_callbacks_js.py" in line for line in fast)
    (said,) = (line for line in lines if line.startswith("--fast left out "))
    assert sum(int(word) for word in said.split() if word.isdigit()) == len(every) - len(fast)
