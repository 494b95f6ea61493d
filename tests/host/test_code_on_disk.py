"""Code that wasmtime has compiled is kept on disk for the next process, unless it is small or a stranger's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xla_wasm
from xla_wasm import HloModule
from xla_wasm.builder import XlaBuilder
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.shape import Shape

LOAD = "import sys, xla_wasm; print(xla_wasm.load(sys.argv[1], untrusted=len(sys.argv) > 2).run()[0][-1])"


def artifact(folder: Path, size: int) -> str:
    """A module with so many numbers, 4 bytes each, of which the last is their count less one."""
    numbers = np.random.default_rng(0).permutation(size).astype(np.int32)
    numbers[-1] = size - 1
    b = XlaBuilder("numbers")
    module = HloModule.from_proto(b.module(b.Constant(Literal(Shape("s32", (size,)), numbers.tobytes()))).to_proto())
    path = folder / "numbers.wasm"
    xla_wasm.compile(module).save(path)
    return str(path)


def loaded(home: Path, *arguments: str) -> int:
    """Loads and runs in a process of its own, and returns the number that came."""
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    command = [sys.executable, "-c", LOAD, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return int(done.stdout)


def kept(home: Path) -> list[Path]:
    files = [path for path in home.rglob("*") if path.is_file()]
    return [path for path in files if path.parent.parent.name == "modules" and not path.suffix]


def test_the_next_process_finds_the_code(tmp_path: Path) -> None:
    path = artifact(tmp_path, 30000)
    home = tmp_path / "home"
    home.mkdir()
    assert loaded(home, path) == 29999
    (first,) = kept(home)
    before = first.stat()
    assert loaded(home, path) == 29999
    assert kept(home) == [first]
    assert first.stat().st_mtime_ns == before.st_mtime_ns, "the code was compiled once more"


def test_damaged_code_is_compiled_again(tmp_path: Path) -> None:
    path = artifact(tmp_path, 30000)
    loaded(tmp_path, path)
    (first,) = kept(tmp_path)
    first.write_bytes(first.read_bytes()[:1000])
    assert loaded(tmp_path, path) == 29999


@pytest.mark.parametrize("arguments", [(1000,), (30000, "untrusted")])
def test_small_modules_and_those_of_strangers_are_not_kept(tmp_path: Path, arguments: tuple[int, str]) -> None:
    size, *untrusted = arguments
    assert loaded(tmp_path, artifact(tmp_path, size), *untrusted) == size - 1
    assert not kept(tmp_path)


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    path = artifact(tmp_path, 30000)
    assert loaded(Path(path), path) == 29999
