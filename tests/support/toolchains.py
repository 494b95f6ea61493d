"""Compilers of other languages, for tests of what C, Rust and Go do with artifacts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.processes import output

EXAMPLES = ROOT / "examples" / "embedding"
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
# What an undefined operation does is end the program, so that tests see it.
SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def tool(name: str) -> str:
    """The path of a compiler; a test that needs it fails without it."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"no {name}: ./build.sh test installs it with apt")
    return found


def library() -> Path:
    """The shared library of wasmtime that the Python package brings."""
    from wasmtime import _ffi

    return Path(_ffi.filename)


def link_flags() -> list[str]:
    """Returns the flags with which a linker uses the library, where it lies."""
    path = library()
    return [f"-L{path.parent}", f"-l:{path.name}", f"-Wl,-rpath,{path.parent}"]


def environment() -> dict[str, str]:
    """The environment for compilers and for what they make.

    Without leak detection, which needs permissions that a container may lack: what a host holds when it ends is
    nobody's loss.
    """
    return os.environ | {
        "ASAN_OPTIONS": "detect_leaks=0",
        "GOCACHE": os.environ.get("GOCACHE", str(ROOT / ".tools" / "go-cache")),
    }


def build(command: Sequence[str | Path], **more: str) -> None:
    """Runs a compiler; a failure shows what it said."""
    output(command, env=environment() | more, timeout=600)


def build_c(header: str, folder: Path, name: str = "host_c") -> Path:
    """The host in C for the artifact that a header describes."""
    folder.mkdir(exist_ok=True)
    (folder / "model.h").write_text(header)
    made = folder / name
    build(
        [
            tool("gcc"),
            "-std=c11",
            *WARNINGS,
            *SANITIZERS,
            f"-I{folder}",
            EXAMPLES / "c" / "host.c",
            "-o",
            made,
            *link_flags(),
        ]
    )
    return made


def build_rust(folder: Path) -> Path:
    """The host in Rust."""
    made = folder / "host_rust"
    flags = ["--edition", "2021", "-O", "-D", "warnings", "-C", f"link-args={' '.join(link_flags())}"]
    build([tool("rustc"), *flags, EXAMPLES / "rust" / "host.rs", "-o", made])
    return made


def build_go(folder: Path) -> Path:
    """The host in Go."""
    made = folder / "host_go"
    build(
        [tool("go"), "build", "-o", made, *sorted((EXAMPLES / "go").glob("*.go"))], CGO_LDFLAGS=" ".join(link_flags())
    )
    return made
