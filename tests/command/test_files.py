"""Files that commands and functions write: whole or not at all, by any number of threads, and never over what is read
or written beside."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.at_once import at_once
from tests.support.command_line import Cli
from tests.support.toy_artifact import SIDECAR, toy
from xla_wasm import ArgumentError, Artifact, files, javascript

TEXT = "HloModule m\nENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] negate(p) }\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "m.hlo").write_text(TEXT)
    return tmp_path / "m.hlo"


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_when_all_is_written_and_stays_where_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "x"
    files.write(path, b"old")
    with pytest.raises(ZeroDivisionError), files.writing(path) as file:
        file.write(b"half of it")
        file.flush()
        assert path.read_bytes() == b"old"
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and left(tmp_path) == ["x"]
    for fault in (ValueError("its own"), OSError(5, "its own", "another file")):
        with pytest.raises(type(fault), match="its own") as caught, files.writing(path):
            raise fault
        assert caught.value is fault
    files.write(path, "ü")
    assert path.read_bytes() == b"\xc3\xbc" and left(tmp_path) == ["x"]


def test_modes_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    path, link = tmp_path / "x", tmp_path / "link"
    before = os.umask(0o027)
    try:
        files.write(path, b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    link.symlink_to(path)
    files.write(link, b"2")
    assert link.is_symlink() and path.read_bytes() == b"2" and stat.S_IMODE(path.stat().st_mode) == 0o600
    files.write("/dev/null", b"3")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write(tmp_path / "pipe", b"4")
    assert os.read(reader, 9) == b"4"
    os.close(reader)


def test_threads_that_save_to_one_path_all_succeed(tmp_path: Path) -> None:
    artifacts = [
        Artifact(toy().wasm + bytes([0, 2 + i, 1, 97]) + bytes(i), toy().manifest, SIDECAR.tobytes()) for i in range(2)
    ]

    def save(artifact: Artifact) -> None:
        for _ in range(20):
            artifact.save(tmp_path / "x.wasm")

    at_once(save, artifacts * 2)
    assert left(tmp_path) == ["x.wasm", "x.weights"]
    assert (tmp_path / "x.wasm").read_bytes() in [artifact.wasm for artifact in artifacts]


def test_what_has_the_new_name_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noted(name: str, function: Callable[..., None]) -> Callable[..., None]:
        return lambda *args: (calls.append(name), function(*args))[1]

    monkeypatch.setattr(os, "fsync", noted("fsync", os.fsync))
    monkeypatch.setattr(os, "replace", noted("replace", os.replace))
    files.write(tmp_path / "x", b"1")
    assert calls == ["fsync", "replace"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, module: Path) -> None:
    """Every command that writes: with files of at most 4 KB, its error is one line, and what was there is there."""
    constants = ", ".join(map(str, range(4096)))
    large = tmp_path / "large.hlo"
    large.write_text(f"HloModule m\nENTRY e {{ ROOT c = s32[4096] constant({{{constants}}}) }}\n")
    outputs = {
        "compile": ["compile", str(large), "-o", "out.wasm"],
        "javascript": ["compile", str(module), "--js", "-o", "js/out.wasm"],
        "convert": ["convert", str(large), "-o", "out.hlo"],
        "proto": ["convert", str(large), "-o", "out.pb"],
        "svg": ["layout", "f32[16,16]", "--svg", "out.svg"],
        "run": ["run", str(large), "--output", "results"],
    }
    (tmp_path / "js").mkdir()
    (tmp_path / "results").mkdir()
    old = [
        tmp_path / name
        for name in ("out.wasm", "out.hlo", "out.pb", "out.svg", "js/out.js", "js/out.d.ts", "results/result.npy")
    ]
    for path in old:
        path.write_text("old")
    script = (
        "import resource, signal, sys\n"
        "from xla_wasm.command import cli\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
        f"for arguments in {list(outputs.values())!r}:\n"
        "    sys.argv = ['xla-wasm', *arguments]\n"
        "    try: cli.main()\n"
        "    except SystemExit as error: print(error.code)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    lines = ran.stderr.splitlines()
    assert len(lines) == len(outputs) and all("File too large" in line for line in lines), ran.stderr
    assert [path.read_text() for path in old] == ["old"] * len(old)
    assert not list(tmp_path.rglob("*.tmp"))


REFUSED = [
    (["compile", "m.hlo", "-o", "model.js", "--js"], "model.js would be both the module and its JavaScript"),
    (
        ["compile", "m.hlo", "-o", "model.weights", "--sidecar"],
        "model.weights would be both the module and its weights",
    ),
    (["compile", "m.hlo", "-o", "m.hlo"], "m.hlo would be both what is read and the module"),
    (["compile", "m.hlo", "-o", "./link.hlo"], "link.hlo would be both what is read and the module"),
    (["compile", "m.js", "-o", "m.wasm", "--js"], "m.js would be both what is read and its JavaScript"),
    (["compile", "m.hlo", "-o", "."], ". is a folder"),
    (["compile", "m.hlo", "-o", ".", "--js"], ". is a folder"),
    (["compile", "m.hlo", "-o", "folder"], "folder is a folder"),
    (["compile", "m.hlo", "-o", "folder/"], "is a folder"),
    (["compile", "m.hlo", "-o", ""], "is a folder"),
    (["compile", "m.hlo", "-o", "m\udcff.wasm", "--js"], "m\ufffd.wasm has control characters, or is not UTF-8"),
    (["convert", "m.hlo", "-o", "m.hlo"], "m.hlo would be both what is read and the result"),
    (["convert", "m.hlo", "-o", "."], ". is a folder"),
    (["layout", "f32[2]", "--svg", "."], "Is a directory"),
    (
        ["run", "m.hlo", "-i", "folder/result.npy", "--output", "folder"],
        "--output folder would overwrite folder/result.npy, which is read",
    ),
    (
        ["check", "m.hlo", "-i", "folder/0.npy", "--isolate", "--reproducer", "folder/0.npy"],
        "both what is read and the instruction",
    ),
    (
        ["check", "m.hlo", "-i", "r.0.npy", "--isolate", "--reproducer", "r.txt"],
        "r.0.npy would be both what is read and its inputs",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_outputs_that_would_overwrite_something_are_refused_before_any_work(
    xla_wasm: Cli,
    module: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "link.hlo").symlink_to(module)
    (tmp_path / "m.js").write_text(TEXT)
    (tmp_path / "folder").mkdir()
    for name in ("folder/0.npy", "folder/result.npy", "r.0.npy"):
        np.save(tmp_path / name, np.zeros(4, np.float32))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, out, err = xla_wasm(*arguments)
    assert (code, out) == (2, "") and err.count("\n") == 1, err
    assert re.search(message, err), err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_transfers_into_one_folder_are_refused(xla_wasm: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(
        "HloModule m\nENTRY e { p = f32[4] parameter(0)  t = token[] after-all()  o = token[] outfeed(p, t)  ROOT r = "
        "f32[4] negate(p) }\n"
    )
    code, _, err = xla_wasm("run", "m.hlo", "--random-inputs", "--output", "x", "--outfeed", "./x")
    assert code == 2 and "--outfeed ./x: --output writes into this folder, too" in err
    assert not (tmp_path / "x").exists()


def test_saving_refuses_the_same(tmp_path: Path) -> None:
    artifact = Artifact(toy().wasm, toy().manifest, SIDECAR.tobytes())
    for save, name in (
        (artifact.save, "x.weights"),
        (lambda path: javascript.save(artifact, path), "x.js"),
        (artifact.save, "."),
        (artifact.save, "a\0b"),
    ):
        with pytest.raises(ArgumentError, match="would be both the module and its|is a folder|cannot be the name"):
            save(tmp_path / name)
    assert not left(tmp_path)
