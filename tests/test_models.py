"""Every section of docs/models.md runs as it is written, each in a process and a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECTIONS = {
    title: code
    for title, text in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", (ROOT / "docs" / "models.md").read_text(), re.DOTALL | re.MULTILINE)
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
}
TENSORFLOW = ROOT / ".tools" / "tensorflow" / "site"
"""Where ./build.sh test puts TensorFlow: it goes with its own versions of much that other tests use."""


@pytest.mark.parametrize("title", SECTIONS)
def test_sections_run(title: str, tmp_path: Path) -> None:
    if title == "TensorFlow" and not TENSORFLOW.is_dir():
        pytest.fail("no TensorFlow: ./build.sh test installs it")
    paths = [str(TENSORFLOW)] if title == "TensorFlow" else []
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)]), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", SECTIONS[title]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_sections_are_short() -> None:
    """What belongs to the model is in the code; what is about xla_wasm takes few lines of it."""
    assert len(SECTIONS) >= 11
    for title, code in SECTIONS.items():
        lines = [line for line in code.splitlines() if line.strip() and not re.match(r"(import|from) ", line)]
        assert len(lines) <= (18 if title == "ONNX" else 10), (title, len(lines))
