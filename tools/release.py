"""Builds what is published, the wheel, the sdist and the npm package, and checks it: `./build.sh release`. Nothing is
uploaded.

    python tools/release.py TOOLS OUTPUT

TOOLS is the folder that has esbuild, TypeScript and, under release/, publint and attw. OUTPUT gets the three files and
SHA256SUMS. All are built twice, in different places, and the bytes must be the same: the wheel once from the tree and
once from the sdist alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


class ReleaseError(Exception):
    """Something must not be published as it is."""


def run(*command: object, cwd: Path = ROOT) -> None:
    """Runs a command; what it prints is shown if it fails."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1767225600"}  # else times of files would be in the archives
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def only(folder: Path, pattern: str) -> Path:
    """The one file of a folder that has such a name."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ReleaseError(f"expected one {pattern} in {folder}, found {[path.name for path in found] or 'none'}")
    return found[0]


def build_python(output: Path) -> list[tuple[Path, Path]]:
    """The sdist and the wheel, each with a second build of it."""
    first, second = output / "first", output / "second"
    # The first wheel is built from the sdist, so what the sdist lacks would be missed.
    run(sys.executable, "-m", "build", "--outdir", first, ".")
    run(sys.executable, "-m", "build", "--outdir", second, "--sdist", ".")
    run(sys.executable, "-m", "build", "--outdir", second, "--wheel", ".")
    return [(only(first, pattern), only(second, pattern)) for pattern in ("*.tar.gz", "*.whl")]


def build_npm(tools: Path, output: Path) -> list[tuple[Path, Path]]:
    """The npm package, with a second build of it; it lies unpacked beside the first, in `package/`."""
    folders = output / "first", output / "second"
    for folder in folders:
        run("node", ROOT / "tools" / "npm_package.mjs", tools, folder)
    return [(only(folders[0], "*.tgz"), only(folders[1], "*.tgz"))]


def check_same(first: Path, second: Path) -> None:
    """Refuses a file of which the second build has other bytes, and names the members that differ."""
    if first.read_bytes() == second.read_bytes():
        return
    one, other = members(first), members(second)
    differing = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    what = ", ".join(differing) or "not its members, but the archive around them"
    raise ReleaseError(f"{first.name} is not reproducible: from build to build, these differ: {what}")


def members(archive: Path) -> dict[str, bytes]:
    """The files in an archive, by their names without the folder that all of an sdist or npm package lie in."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(archive) as opened:
        files = [member for member in opened.getmembers() if member.isfile()]
        return {
            member.name.partition("/")[2]: stream.read() for member in files if (stream := opened.extractfile(member))
        }


def check_content(archive: Path, licence: bytes, required: Mapping[str, str]) -> None:
    """Refuses an archive without the licence's text, without one of the files it has to have, or with files that are
    private."""
    files = members(archive)
    if not any(Path(name).name == "LICENSE" and content == licence for name, content in files.items()):
        raise ReleaseError(f"{archive.name} does not hold the text of the licence, LICENSE")
    for name, why in required.items():
        if name not in files:
            raise ReleaseError(f"{archive.name} lacks {name}: {why}")
    private = [
        name
        for name in files
        if {".venv", ".tools", "node_modules", "__pycache__", ".git", ".ci"} & {*Path(name).parts}
    ]
    if private:
        raise ReleaseError(f"{archive.name} holds what is not to be published: {', '.join(private[:5])}")


REQUIRED = {
    ".whl": {
        "xla_wasm/py.typed": "types",
        "xla_wasm/link/runtime.bin": "the C runtime",
        "xla_wasm/web/xla_wasm.js": "the loader",
    },
    ".gz": {
        "pyproject.toml": "the build",
        "hatch_build.py": "the build of the C runtime",
        "README.md": "the page of the package",
    },
    ".tgz": {
        "xla_wasm.js": "the loader",
        "worker.js": "its worker",
        "types/xla_wasm.d.ts": "types",
        "package.json": "the entries",
    },
}
"""Suffix of an archive -> files that it has to have, and what they are."""


def release(tools: Path, output: Path) -> None:
    """Builds and checks everything, then puts it into the folder `output`."""
    licence = (ROOT / "LICENSE").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        npm = build_npm(tools, work / "npm")
        pairs = [*build_python(work / "python"), *npm]
        for first, second in pairs:
            check_same(first, second)
            check_content(first, licence, REQUIRED[first.suffix])
        run(sys.executable, "-m", "twine", "check", "--strict", *(first for first, _ in pairs[:2]))
        check_npm(tools, npm[0][0])
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        files = [Path(shutil.copy(first, output)) for first, _ in pairs]
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (output / "SHA256SUMS").write_text(sums)
    print(sums, end="")


def check_npm(tools: Path, package: Path) -> None:
    """Checks an npm package with publint and attw: it is for ES modules only, and no module imports its scripts."""
    run("node", ROOT / "tools" / "npm_check.mjs", tools, package)
    attw = tools / "release" / "node_modules" / "@arethetypeswrong" / "cli" / "dist" / "index.js"
    scripts = ("worker.js", "standalone.classic.js")
    run("node", attw, package, "--profile", "esm-only", "--exclude-entrypoints", *scripts)


if __name__ == "__main__":
    try:
        release(*(Path(argument).resolve() for argument in sys.argv[1:]))
    except ReleaseError as error:
        sys.exit(f"release: {error}")
