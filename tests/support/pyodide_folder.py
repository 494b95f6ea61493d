"""Pyodide with a wheel of this tree, in one folder, as `./build.sh pyodide` makes it: once for all tests of a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.node_host import node_for

ROOT = Path(__file__).parents[2]
PYODIDE = ROOT / ".tools" / "pyodide" / "node_modules" / "pyodide"
sys.path.append(str(ROOT / "tools"))


def pyodide_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder; the first of several processes that ask makes it, the others wait."""
    if not PYODIDE.is_dir():
        pytest.fail("no Pyodide: ./build.sh test installs it")
    base = factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "pyodide"
    try:
        place.mkdir()
    except FileExistsError:
        for _ in range(600):
            if (place / "done").exists():
                return place / "dist"
            time.sleep(0.5)
        pytest.fail(f"{place} was never finished: see the other process")
    from pyodide_package import package

    # From a copy: the build makes the runtime table anew, which other tests are reading here.
    made = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "dist", "benchmarks")
    shutil.copytree(ROOT, place / "source", ignore=made)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", place, place / "source"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (wheel,) = place.glob("*.whl")
    package(wheel, PYODIDE, place / "dist")
    example = ROOT / "web" / "demo" / "playground" / "examples" / "gradient.hlo"
    snapshot = [node_for("simd128"), ROOT / "tools" / "pyodide_snapshot.mjs", place / "dist", example]
    done = subprocess.run(snapshot, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    (place / "done").touch()
    return place / "dist"
