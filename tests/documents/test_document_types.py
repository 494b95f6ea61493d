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
from tests.support.document_blocks import blocks, written
from tests.support.node_host import node_for
from tests.support.paths import ROOT

PYRIGHT = ROOT / ".tools" / "pyright" / "node_modules" / "pyright" / "index.js"
"""The file of pyright that ./build.sh test installs."""
BEFORE = {"docs/security.md": "import xla_wasm\n"}
"""Page -> the code that a reader has run before its first block."""
LEFT_OUT = {
    "docs/builder.md": "an index of the builder's operations: the values that its blocks begin with are those of "
    "test_xla_builder.py",
    "docs/embedding.md": "it is about wasmtime's API: what a module exports is a union of types, which wasmtime "
    "leaves to who knows better",
    "docs/faq.md python 1": "it needs torch and torchax, which are not installed",
    "docs/replicas.md python 1": "three dots stand for a program of the reader",
}
"""Pages and blocks that are not checked, each with the reason."""
LAX = "disallow_untyped_defs = False\ndisallow_incomplete_defs = False\ndisallow_untyped_calls = False\n"
MYPY = (
    "[mypy]\nstrict = True\npython_version = 3.11\nwarn_return_any = False\n"
    "untyped_calls_exclude = jax,ml_dtypes,prometheus_client\n"
    "[mypy-keras.*,ml_dtypes.*,optax.*,tensorflow.*]\nignore_missing_imports = True\n"
)
"""As pyproject.toml has it for the examples, so that both share what mypy knows of JAX: it lacks annotations here and
there, and some packages lack types."""


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs as files, and one with a call that is wrong."""
    made = tmp_path_factory.mktemp("documents")
    for name, code in programs():
        assert not (made / name).exists(), name
        (made / name).write_text(code)
    assert len(list(made.iterdir())) > 25
    (made / "wrong.py").write_text('import xla_wasm\n\nxla_wasm.load("m.wasm").set(3)\n')
    return made


def apart(found: list[str]) -> tuple[list[str], list[str]]:
    """Lines about the program that is wrong, and about the others."""
    wrong = [line for line in found if "wrong.py:" in line]
    return wrong, [line for line in found if line not in wrong]


def test_mypy_finds_what_is_wrong_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    files = sorted(folder.glob("*.py"))
    lax = "".join(f"[mypy-{path.stem}]\n{LAX}" for path in files if not path.name.startswith("models_"))
    (tmp_path / "mypy.ini").write_text(MYPY + lax)
    given = ["--config-file", tmp_path / "mypy.ini", "--cache-dir", ROOT / ".mypy_cache"]
    command = [sys.executable, "-m", "mypy", *given, "--no-error-summary", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.stderr == ""
    wrong, others = apart(done.stdout.splitlines())
    assert any("wrong.py:3: error: " in line for line in wrong)
    assert others == [], "\n".join(others)


def test_pyright_finds_what_is_wrong_and_nothing_else(folder: Path) -> None:
    """By its default rules."""
    assert PYRIGHT.is_file(), "no pyright: ./build.sh test installs it"
    rules = {"reportPossiblyUnboundVariable": False}  # by loops: that they run at least once is plain to readers
    settings = {"include": ["."], "extraPaths": [str(ROOT)], "pythonVersion": "3.11", **rules}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [node_for("simd128"), PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "--project", folder]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py"))), done.stdout
    shown = [x for x in found["generalDiagnostics"] if x["severity"] == "error"]
    wrong, others = apart([f"{Path(x['file']).name}:{x['range']['start']['line'] + 1}: {x['message']}" for x in shown])
    assert len(wrong) == 1 and wrong[0].startswith("wrong.py:3: ")
    assert others == []


@pytest.mark.parametrize("key", LEFT_OUT)
def test_what_is_left_out_is_there(key: str) -> None:
    page = key.split()[0]
    assert any(block.language == "python" and key in (page, block.place) for block in blocks(page))
