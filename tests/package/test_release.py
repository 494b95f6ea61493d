"""Refusals of `./build.sh release` to publish: bytes that differ, licences that are missing, packages that do not say
what they hold."""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.node_host import node_for
from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import release

LICENCE = (ROOT / "LICENSE").read_bytes()
TOOLS = ROOT / ".tools"


def wheel(path: Path, files: Mapping[str, bytes], date: int = 2020) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (date, 1, 1, 0, 0, 0)), content)
    return path


def tarball(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_builds_must_have_the_same_bytes(tmp_path: Path) -> None:
    files = {"a.py": b"1", "b.py": b"2"}
    first = wheel(tmp_path / "x.whl", files)
    release.check_same(first, wheel(tmp_path / "same.whl", files))
    with pytest.raises(release.ReleaseError, match=r"x.whl is not reproducible: .* differ: b.py, c.py"):
        release.check_same(first, wheel(tmp_path / "y.whl", files | {"b.py": b"3", "c.py": b""}))
    with pytest.raises(release.ReleaseError, match="but the archive"):
        release.check_same(first, wheel(tmp_path / "z.whl", files, 2021))


@pytest.mark.parametrize("make", [wheel, tarball])
def test_archives_hold_what_they_have_to(make: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / ("x.whl" if make is wheel else "x.tar.gz")
    required = {"a.py": "the program"}
    release.check_content(make(path, {"a.py": b"", "licenses/LICENSE": LICENCE}), LICENCE, required)
    for files, message in (
        ({"a.py": b""}, "text of the licence"),
        ({"a.py": b"", "LICENSE": b"another"}, "text of the licence"),
        ({"LICENSE": LICENCE}, "lacks a.py: the program"),
        ({"a.py": b"", "LICENSE": LICENCE, ".venv/x.py": b""}, r"not to be published: \.venv/x.py"),
        ({"a.py": b"", "LICENSE": LICENCE, "b/__pycache__/x.pyc": b""}, "not to be published"),
    ):
        with pytest.raises(release.ReleaseError, match=message):
            release.check_content(make(path, files), LICENCE, required)


def test_one_file_of_each_kind(tmp_path: Path) -> None:
    with pytest.raises(release.ReleaseError, match=r"expected one \*.whl .* found none"):
        release.only(tmp_path, "*.whl")
    for name in ("a.whl", "b.whl"):
        (tmp_path / name).touch()
    with pytest.raises(release.ReleaseError, match="a.whl.*b.whl"):
        release.only(tmp_path, "*.whl")


def test_what_a_command_says_is_shown() -> None:
    with pytest.raises(release.ReleaseError, match=r"(?s)failed: .*the reason"):
        release.run(sys.executable, "-c", "import sys; sys.exit('the reason')")


def test_the_npm_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is built twice with the same bytes, and publint and attw find nothing; in one with a wrong entry they do."""
    monkeypatch.setenv("PATH", str(node_for("relaxed-simd").parent), prepend=":")
    ((first, second),) = release.build_npm(TOOLS, tmp_path)
    release.check_same(first, second)
    release.check_content(first, LICENCE, release.REQUIRED[".tgz"])
    release.check_npm(TOOLS, first)
    files = release.members(first)
    description = json.loads(files["package.json"])
    for entry, message in (
        ({"default": "./none.js"}, "none.js"),
        ({"types": "./xla_wasm.js", "default": "./xla_wasm.js"}, "types"),
    ):
        wrong = description | {"exports": description["exports"] | {".": entry}}
        with pytest.raises(release.ReleaseError, match=message):
            release.check_npm(
                TOOLS, tarball(tmp_path / "wrong.tgz", files | {"package.json": json.dumps(wrong).encode()})
            )


INSTALLED_FROM_A_REGISTRY = re.compile(
    r"pip install[^\n`]*\s['\"]?xla[-_]wasm(?![-_\w*/.])"
    r"|npm (?:i|install|add) (?:[-@\w]+ )*xla-wasm(?![-\w])"
    r"|(?:pypi\.org|npmjs\.com)/\S*xla-wasm"
)


def test_nothing_says_that_a_registry_has_the_packages() -> None:
    """Until a person has published them: then this test goes, and pages say so (docs/contributing.md, Release)."""
    for wrong in (
        "pip install 'xla-wasm[jax]' mpich",
        "pip install -U xla_wasm",
        "npm i xla-wasm",
        "https://pypi.org/project/xla-wasm/",
    ):
        assert INSTALLED_FROM_A_REGISTRY.search(wrong), wrong
    for right in (
        "pip install dist/xla_wasm-*.whl",
        "npm i ./dist/npm/xla-wasm-*.tgz",
        "pip install -e '.[jax]'",
        "pip install xla-wasm-other",
    ):
        assert not INSTALLED_FROM_A_REGISTRY.search(right), right
    texts = [ROOT / "README.md", ROOT / "SECURITY.md"]
    for folder in ("docs", "xla_wasm", "web", "examples", "benchmarks", "tools"):
        found = (
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in {".md", ".py", ".js", ".mjs", ".html", ".json", ".ts"}
        )
        texts += [path for path in found if "node_modules" not in path.parts]
    assert len(texts) > 300
    told = [
        f"{path.relative_to(ROOT)}: {what[0]}"
        for path in texts
        for what in INSTALLED_FROM_A_REGISTRY.finditer(path.read_text("utf-8"))
    ]
    assert not told
