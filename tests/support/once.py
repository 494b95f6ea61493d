"""Files that take long to make and are made once for all processes of a run: a wheel of this tree, Pyodide with it, the
pages as files, and the artifacts that the processes compile."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module
from xla_wasm.options import Options
from xla_wasm.site import pages

PYODIDE = ROOT / ".tools" / "pyodide" / "node_modules" / "pyodide"
sys.path.append(str(ROOT / "tools"))


def of_all(factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that all processes of a run have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` fills. The first of several processes that ask makes it, the others wait."""
    place = of_all(factory) / name
    try:
        place.mkdir()
    except FileExistsError:
        for _ in range(600):
            if (place / "done").exists():
                return place
            time.sleep(0.5)
        pytest.fail(f"{place} was never finished: see the other process")
    make(place)
    (place / "done").touch()
    return place


def shared_compile(
    factory: pytest.TempPathFactory, compile: Callable[[Module, Options], Artifact]
) -> Callable[[Module, Options], Artifact]:
    """A `compile` that asks first whether another process has compiled the same."""
    folder = of_all(factory) / "compiled"
    folder.mkdir(exist_ok=True)

    def shared(module: Module, options: Options) -> Artifact:
        key = hashlib.sha256(module.to_proto() + repr(options).encode()).hexdigest()
        path = folder / f"{key}.wasm"
        if not path.exists():
            part = folder / f"{key}.{os.getpid()}.wasm"
            artifact = compile(module, options)
            artifact.save(part)
            part.replace(path)
        return Artifact.open(path)

    return shared


def static_site(factory: pytest.TempPathFactory) -> Path:
    """The pages as files, without what is large and needs the same of a host: Pyodide, the weights of the search page,
    and the libraries of others."""

    def make(place: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pages.minilm, "FILES", ())
            for folder in ("pyodide", "peers"):
                patch.setattr(pages, folder, lambda: place / "none")
            left_out = pages.write(place / "site")
        assert len(left_out) == 2 and "Pyodide" in left_out[0] and "races" in left_out[1]

    return once(factory, "static-site", make) / "site"


def _build(place: Path) -> None:
    # From a copy: the build makes the runtime table anew, which other tests are reading here.
    left_out = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "dist", "benchmarks", "tests")
    shutil.copytree(ROOT, place / "source", ignore=left_out)
    # Without an environment of its own, for which Zig would be unpacked again.
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    output([*command, "--wheel-dir", place, place / "source"])


def built_wheel(factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree."""
    (wheel,) = once(factory, "wheel", _build).glob("*.whl")
    return wheel


def pyodide_folder(factory: pytest.TempPathFactory) -> Path:
    """Pyodide with a wheel of this tree, in one folder, as `./build.sh pyodide` makes it."""
    if not PYODIDE.is_dir():
        pytest.fail("no Pyodide: ./build.sh test installs it")

    def make(place: Path) -> None:
        from pyodide_package import package

        package(built_wheel(factory), PYODIDE, place / "dist", level=1)
        example = ROOT / "web" / "demo" / "playground" / "examples" / "gradient.hlo"
        output([node_for("relaxed-simd"), ROOT / "tools" / "pyodide_snapshot.mjs", place / "dist", example, "--quick"])

    return once(factory, "pyodide", make) / "dist"
