"""Every section of docs/models.md runs as it is written, each in a process and a folder of its own, and its page in a
browser."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.support import seeds
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.web_server import Site

TEXT = (ROOT / "docs" / "models.md").read_text()
TEXTS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
BLOCKS = {
    title: codes for title, text in TEXTS.items() if (codes := re.findall(r"```python\n(.*?)```", text, re.DOTALL))
}
SECTIONS = {title: "\n".join(codes) for title, codes in BLOCKS.items()}
"""The blocks of a section, which are one program."""
FRAMEWORKS = ("Flax: linen", "Flax: nnx", "Equinox", "Keras 3", "optax")
"""Sections with three blocks: the model and a call, the saved artifact, and the page."""
LONG = ("TensorFlow", "diffrax and optimistix")
"""Sections that run with --exhaustive only."""
TENSORFLOW = ROOT / ".tools" / "tensorflow" / "site"
"""The folder where ./build.sh test installs TensorFlow: it goes with its own versions of much that other tests use."""


def run(title: str, folder: Path, more: str = "") -> str:
    """Returns the output of a section, with more code behind it."""
    if title == "TensorFlow" and not TENSORFLOW.is_dir():
        pytest.fail("no TensorFlow: ./build.sh test installs it")
    paths = [str(TENSORFLOW)] if title == "TensorFlow" else []
    (folder / "tests").symlink_to(ROOT / "tests")
    environment = {
        "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    return output([sys.executable, "-c", SECTIONS[title] + more], folder, environment)


@pytest.mark.parametrize(
    "title", [title for title in SECTIONS if title not in (*FRAMEWORKS, *LONG)] + [*seeds.more(*LONG)]
)
def test_sections_run(title: str, tmp_path: Path) -> None:
    run(title, tmp_path)


def page_of(title: str) -> str:
    """The page of a framework's section: its own, or the one that is the same for the models."""
    return str(re.findall(r"```html\n(.*?)```", TEXTS[title] + TEXT, re.DOTALL)[0])


@pytest.mark.parametrize("title", FRAMEWORKS)
def test_frameworks_from_the_model_to_the_page(title: str, tmp_path: Path, page: Page) -> None:
    """The page shows the numbers of Python, and the section compares those with the framework's own."""
    last = "exe.get('params')['w']" if title == "optax" else "exe.call(np.asarray(x))"
    expected = json.loads(run(title, tmp_path, f"\nimport json\nprint(json.dumps({last}.ravel().tolist()))\n"))
    (tmp_path / "site" / "index.html").write_text(page_of(title))
    with Site(folders={"/": tmp_path / "site"}).serving() as site:
        page.goto(site.url + "/index.html")
        expect(page.locator("body")).to_have_text(re.compile(r"^-?\d"))
        np.testing.assert_allclose(
            [float(x) for x in page.locator("body").inner_text().split(",")], expected, atol=1e-5
        )
    assert len(expected) >= 8


def counted(code: str) -> int:
    """Lines beside imports."""
    return sum(bool(line.strip()) and not re.match(r"(import|from) |os\.environ", line) for line in code.splitlines())


@pytest.mark.parametrize("title", FRAMEWORKS)
def test_frameworks_take_six_lines_each(title: str) -> None:
    model, artifact, page = BLOCKS[title]
    assert "jit(" in model and "exe" not in model and counted(model) <= 6
    assert "xla_wasm.load(" in artifact and counted(artifact) <= 6
    script = [line for line in page_of(title).splitlines() if line.startswith("  ")]
    assert "javascript.save(" in page and counted(page) + len(script) <= 6


def test_sections_are_short() -> None:
    """A section has at most 10 lines beside imports, ONNX 18; those of three blocks are tested above."""
    assert len(SECTIONS) >= 11
    for title, code in SECTIONS.items():
        assert title in FRAMEWORKS or counted(code) <= (18 if title == "ONNX" else 10), (title, counted(code))
