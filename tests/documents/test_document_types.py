"""Python in the documents is right to a type checker's eyes: mypy and pyright find nothing in it, as in code of people
who use them.

The sections of docs/models.md pass `mypy --strict`. In the other pages functions have no annotations, as people write
them who try things out; all else is as strict there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.test_models import SECTIONS
from tests.support.document_blocks import ROOT, blocks, written
from tests.support.node_host import node_for

PYRIGHT = ROOT / ".tools" / "pyright" / "node_modules" / "pyright" / "index.js"
"""Where ./build.sh test puts pyright."""
BEFORE = {"docs/security.md": "import xla_wasm\n"}
"""What a reader has before a page's first block."""
LEFT_OUT = {
    "docs/builder.md": "an index of the builder's operations: the values that its blocks begin with are those of "
    "test_xla_builder.py",
    "docs/embedding.md": "it is about wasmtime's API: what a module exports is a union of types, which wasmtime "
    "leaves to who knows better",
    "docs/replicas.md python 1": "three dots stand for a program of the reader",
}
"""Pages and blocks that are not checked, each with the reason."""
LAX = ("--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls")
MYPY = (
    "[mypy]\nstrict = True\npython_version = 3.11\nwarn_return_any = False\nuntyped_calls_exclude = jax\n"
    "ignore_missing_imports = True\n"
)
"""As pyproject.toml has it for the examples: JAX lacks annotations here and there, and some packages lack types."""


def programs() -> Iterator[tuple[str, str]]:
    """The programs of all pages by the names of their files. The blocks of a page are one program, unless they are
    files or models.md."""
    for title, code in SECTIONS.items():
        yield f"models_{re.sub(r'[^a-z0-9]+', '_', title.lower())}.py", code
    for page in written():
        found = [block for block in blocks(page) if block.language == "python"]
        if page == "docs/models.md" or page in LEFT_OUT or not found:
            continue
        yield from ((block.title, block.code) for block in found if block.title)
        rest = [block.code for block in found if not block.title and block.place not in LEFT_OUT]
        if rest:
            yield f"{re.sub(r'[^a-z0-9]+', '_', page.lower())}.py", "\n".join([BEFORE.get(page, ""), *rest])


def mypy(folder: Path, files: list[Path], *options: str) -> str:
    """What mypy prints if it finds something."""
    (folder / "mypy.ini").write_text(MYPY)
    given = ["--config-file", folder / "mypy.ini", "--cache-dir", folder / "cache", "--follow-imports=silent", *options]
    command = [sys.executable, "-m", "mypy", *given, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.stderr == ""
    return "" if done.returncode == 0 else done.stdout


def pyright(folder: Path) -> list[str]:
    """The errors that pyright finds in the files of a folder, by its default rules."""
    assert PYRIGHT.is_file(), "no pyright: ./build.sh test installs it"
    rules = {"reportPossiblyUnboundVariable": False}  # by loops: that they run at least once is plain to readers
    settings = {"include": ["."], "extraPaths": [str(ROOT)], "pythonVersion": "3.11", **rules}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [node_for("simd128"), PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "--project", folder]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py"))), done.stdout
    shown = [x for x in found["generalDiagnostics"] if x["severity"] == "error"]
    return [f"{Path(x['file']).name}:{x['range']['start']['line'] + 1}: {x['message']}" for x in shown]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs as files."""
    made = tmp_path_factory.mktemp("documents")
    for name, code in programs():
        assert not (made / name).exists(), name
        (made / name).write_text(code)
    assert len(list(made.iterdir())) > 25
    return made


def test_mypy_finds_nothing(folder: Path, tmp_path: Path) -> None:
    files = sorted(folder.glob("*.py"))
    strict = [path for path in files if path.name.startswith("models_")]
    assert mypy(tmp_path, strict) + mypy(tmp_path, [path for path in files if path not in strict], *LAX) == ""


def test_pyright_finds_nothing(folder: Path) -> None:
    assert pyright(folder) == []


def test_they_would_find_something(tmp_path: Path) -> None:
    """A call that is wrong, in a program like those."""
    (tmp_path / "wrong.py").write_text('import xla_wasm\n\nxla_wasm.load("m.wasm").set(3)\n')
    (found,) = pyright(tmp_path)
    assert found.startswith("wrong.py:3: ")
    assert "wrong.py:3: error: " in mypy(tmp_path, [tmp_path / "wrong.py"])


@pytest.mark.parametrize("key", LEFT_OUT)
def test_what_is_left_out_is_there(key: str) -> None:
    page = key.split()[0]
    assert any(block.language == "python" and key in (page, block.place) for block in blocks(page))
