"""The examples and README's program end well and say nothing on standard error, under each Python that this machine
has.

./build.sh test makes an environment for each version of Python that it finds beside its own (tools/pythons.py). `pytest
--exhaustive` runs all examples under all of them, in every order of imports; otherwise the versions that are not the
tests' own run README's program.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import seeds
from tests.support.document_blocks import blocks
from tests.support.paths import ROOT
from xla_wasm.site import minilm

sys.path.insert(0, str(ROOT / "tools"))
import pythons

PYTHONS = ROOT / ".tools" / "pythons"
README = "README.md"
SCRIPTS: dict[str, tuple[str, ...]] = {
    README: (),
    "audio/room.py": (),
    "data_parallel.py": (),
    "digits/demo.py": (),
    "digits/page.py": (),
    "generate/modules.py": (),
    "performance/race.py": (),
    "gpt2/generate.py": ("ROMEO", "--length", "20"),
    "gpt2/training.py": ("--steps", "2", "--output", "tiny.safetensors"),
    "minilm/check.py": (),
    "minilm/model.py": (),
    "minilm/sentences.py": (),
    "worker/minilm/build.py": (),
    "workers/step.py": (),
}
"""Scripts, with arguments that keep them short."""
NOT_RUN = {
    "digits/train.py": "it trains for minutes, with JAX alone: nothing of xla_wasm is imported",
    "gpt2/gpt2.py": "a module that other scripts import",
    "gpt2/vocabulary.py": "a module that other scripts import",
    "minilm/tokenizer.py": "a module that other scripts import",
}
LONG = ("gpt2/training.py", "minilm/check.py", "minilm/sentences.py", "workers/step.py")
"""Scripts that run with --exhaustive only."""
SAID = {"gpt2/generate.py": r"\d+ KB, ready in [\d.]+ s\n\n[\d.]+ tokens a second, f32, threads: 1\n"}
"""Script -> a pattern of the text that it writes to standard error, beside the result on standard output."""
FIRST = {"alone": "", "JAX first": "import jax; jax.jit(lambda x: x + 1)(1.0)\n"}
START = "import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, __import__('os').path.dirname(sys.argv[0]))\n"


def cases() -> list[tuple[str, str, str]]:
    """Version, script, and what is imported first."""
    made = []
    for version in pythons.found():
        everything = seeds.exhaustive or version == pythons.OWN
        scripts = [s for s in SCRIPTS if seeds.exhaustive or s not in LONG] if everything else [README]
        for script in scripts:
            orders = FIRST if seeds.exhaustive or (version == pythons.OWN and script == README) else ("alone",)
            made += [(version, script, first) for first in orders]
    return made


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A tree like the repository's, into which the examples may write."""
    for name in ("examples", "web"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    (tmp_path / "README.py").write_text(
        "\n".join(block.code for block in blocks("README.md") if block.language == "python")
    )
    (tmp_path / "weights").mkdir()
    package = minilm.published()
    while (package.parent / "__init__.py").exists():
        package = package.parent
    top = next(path for path in (package, *package.parents) if path.parent.name == "site-packages")
    (tmp_path / "weights" / top.name).symlink_to(top)
    return tmp_path


@pytest.mark.parametrize(("version", "script", "first"), cases())
def test_examples_say_nothing_on_standard_error(version: str, script: str, first: str, copy: Path) -> None:
    python = pythons.python(PYTHONS, version)
    assert python.exists(), f"no environment for Python {version}: ./build.sh test makes it"
    path = copy / ("README.py" if script == "README.md" else f"examples/{script}")
    paths = os.pathsep.join([str(ROOT), str(copy / "weights")])
    # As a user has it: no flag of the tests' own.
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in ("XLA_FLAGS", "XLA_WASM_VERIFY", "TF_CPP_MIN_LOG_LEVEL")
    }
    environment = own | {"PYTHONPATH": paths, "XDG_CACHE_HOME": str(copy / "cache")}
    arguments = SCRIPTS[script]
    command = [python, path, *arguments]
    if first != "alone":
        command = [
            python,
            "-c",
            f"{START}{FIRST[first]}runpy.run_path(sys.argv[0], run_name='__main__')",
            path,
            *arguments,
        ]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(SAID.get(script, ""), done.stderr), done.stderr


def test_every_example_is_run_or_says_why_not() -> None:
    scripts = {
        path.relative_to(ROOT / "examples").as_posix()
        for path in (ROOT / "examples").rglob("*.py")
        if "node_modules" not in path.parts
    }
    assert scripts == {*SCRIPTS, *NOT_RUN} - {README}


def test_the_versions_are_those_of_the_package() -> None:
    """The oldest is the one that pyproject.toml asks for, and this process runs one of them."""
    assert f'requires-python = ">={pythons.VERSIONS[0]}"' in (ROOT / "pyproject.toml").read_text()
    assert pythons.OWN in pythons.VERSIONS and pythons.OWN in pythons.found()


def test_what_is_no_python_is_not_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a shim of pyenv for a version that is not chosen."""
    (tmp_path / "python3.14").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.14").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert pythons.interpreter.__wrapped__("3.14") is None
