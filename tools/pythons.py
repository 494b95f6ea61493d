"""Makes a virtual environment for each other version of Python that this machine has, in which the examples can run.

    python tools/pythons.py .tools/pythons

The package itself is not installed there: it comes by PYTHONPATH, built once.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that the package is for."""
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
EXAMPLES = ("optax", "scikit-learn")
"""The packages that examples need beside the package's own requirements and JAX."""


def _candidates(version: str) -> Iterator[str]:
    named = shutil.which(f"python{version}")
    if named is not None:
        yield named
    for folder, pattern in ((".pyenv/versions", f"{version}.*"), (".local/share/uv/python", f"cpython-{version}.*")):
        found = (
            path for path in (Path.home() / folder).glob(pattern) if re.search(r"\.\d+(-|$)", path.name)
        )  # no build without the GIL
        yield from (str(path / "bin" / f"python{version}") for path in sorted(found))


@cache
def interpreter(version: str) -> str | None:
    """The Python of a version that works on this machine: by its name, or one of pyenv's or uv's. None if there is
    none."""
    for candidate in _candidates(version):
        try:
            done = subprocess.run([candidate, "-c", "import ctypes, ssl, venv"], capture_output=True, timeout=60)
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return None


def found() -> list[str]:
    """The versions that can be tried: that of this process, and those that the machine has."""
    return [version for version in VERSIONS if version == OWN or interpreter(version)]


def python(folder: Path, version: str) -> Path:
    """The Python of a version with the packages, whether or not it is there already."""
    return Path(sys.executable) if version == OWN else folder / version / "bin" / "python"


def requirements() -> list[str]:
    """Returns the requirements to install, as pyproject.toml has them, and the examples' own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["jax"], *EXAMPLES]


def make(folder: Path, version: str) -> None:
    """Makes the environment of a version, unless it has what is asked for."""
    place, wanted = folder / version, "\n".join(requirements())
    stamp = place / "installed"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"installing JAX for Python {version} into {place}/", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    # This process's pip installs there, since Debian's Pythons have none of their own.
    subprocess.run([str(interpreter(version)), "-m", "venv", "--without-pip", place], check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python(folder, version), "install", "--quiet", *requirements()],
        check=True,
    )
    stamp.write_text(wanted, encoding="utf-8")


def main(folder: Path) -> None:
    """Makes all of them."""
    for version in found():
        if version != OWN:
            make(folder, version)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
