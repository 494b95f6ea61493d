"""Puts Pyodide and the wheel into one folder that pages and Node load from: no request leaves it.

    python tools/pyodide_package.py dist/xla_wasm-0.1.0-py3-none-any.whl .tools/pyodide/node_modules/pyodide
    dist/pyodide

The folder gets Pyodide's runtime, the wheel, and a `pyodide-lock.json` that names what is there: the wheel under
`xla-wasm`, and those of Pyodide's own packages whose files somebody has put into the folder (numpy, for one). Beside
it, `xla-wasm.lock.json` holds the wheel's entry alone, for those who have a lock file of their own. What pages fetch of
the runtime lies there compressed, too. A snapshot of another wheel is removed: pyodide_snapshot.mjs makes it anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import deflate

RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
COMPRESSED = ("pyodide.asm.mjs", "pyodide.asm.wasm")
SMALLEST = 12
"""The level at which libdeflate makes gzip files a twentieth smaller than zlib does."""
_WHEEL = re.compile(r"(?P<name>\w+)-(?P<version>[^-]+)-py3-none-any\.whl")
_ELSEWHERE = re.compile(r"""sys_platform\s*!=\s*['"]emscripten['"]|extra\s*==""")


def lock_entry(wheel: Path) -> dict[str, Any]:
    """The entry of a pure Python wheel in a `pyodide-lock.json`; refuses a wheel that Pyodide could not use."""
    named = _WHEEL.fullmatch(wheel.name)
    if not named:
        raise SystemExit(f"{wheel.name} is not a pure Python wheel: its name must end in -py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (Parser().parsestr(archive.read(n).decode()) for n in names if n.endswith(".dist-info/METADATA"))
    native = [n for n in names if n.endswith((".so", ".pyd", ".dylib", ".dll"))]
    if native:
        raise SystemExit(f"{wheel.name} holds native code: {', '.join(native)}")
    packages = sorted({n.partition("/")[0] for n in names if n.endswith(".py") and "/" in n})
    needed = [r for r in metadata.get_all("Requires-Dist") or [] if not _ELSEWHERE.search(r.partition(";")[2])]
    return {
        "depends": sorted(re.split(r"[^\w.-]", r)[0].lower() for r in needed),
        "file_name": wheel.name,
        "imports": packages,
        "install_dir": "site",
        "name": re.sub(r"[-_.]+", "-", metadata["Name"]).lower(),
        "package_type": "package",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "tool": {},
        "unvendored_tests": False,
        "version": metadata["Version"],
    }


def package(wheel: Path, pyodide: Path, folder: Path, level: int = SMALLEST) -> dict[str, Any]:
    """Fills the folder; its lock file. `level` is that of compression."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("xla_wasm-*.whl"), *folder.glob("snapshot.bin.*")):
        old.unlink()
    for source in (*(pyodide / name for name in RUNTIME), wheel):
        shutil.copyfile(source, folder / source.name)
    entry = lock_entry(wheel)
    lock = json.loads((pyodide / "pyodide-lock.json").read_text())
    there = {name: p for name, p in lock["packages"].items() if (folder / p["file_name"]).is_file()}
    for name, found in there.items():
        if hashlib.sha256((folder / found["file_name"]).read_bytes()).hexdigest() != found["sha256"]:
            raise SystemExit(
                f"{found['file_name']} is not the file that this Pyodide was made with: its package {name} is another "
                f"build"
            )
    lock["packages"] = there | {entry["name"]: entry}
    missing = {d for p in lock["packages"].values() for d in p["depends"]} - lock["packages"].keys()
    if missing:
        raise SystemExit(f"{folder} lacks packages that others there need: {', '.join(sorted(missing))}")
    lock["sizes"] = {}
    for name in COMPRESSED:
        data = deflate.gzip_compress((folder / name).read_bytes(), level)
        (folder / f"{name}.gz").write_bytes(data)
        lock["sizes"][f"{name}.gz"] = len(data)
    (folder / "pyodide-lock.json").write_text(json.dumps(lock, indent=1) + "\n")
    (folder / "xla-wasm.lock.json").write_text(json.dumps({entry["name"]: entry}, indent=1) + "\n")
    return lock


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    made = package(*map(Path, sys.argv[1:]))
    print(f"{sys.argv[3]}: Pyodide with", ", ".join(f"{p['name']} {p['version']}" for p in made["packages"].values()))
