"""Files that lie about what is in them: each is refused by one of our errors, in bounded time and memory."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from xla_wasm import safetensors
from xla_wasm.command.inputs import File
from xla_wasm.errors import ArgumentError, ParseError

SIZE = 4
X = np.arange(SIZE, dtype=np.float32)


@contextmanager
def quick() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < 1


def npy(descr: str = "'<f4'", shape: str = "(4,)", data: bytes = bytes(16), header: str = "") -> bytes:
    text = header or f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def npz(method: int = zipfile.ZIP_STORED, **entries: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


def changed(archive: bytes, offset: int, value: int, width: int = 2) -> bytes:
    """A field of an archive's only entry, in the local header and in the directory, which has each two bytes later."""
    out = bytearray(archive)
    for begin in (archive.index(b"PK\x03\x04") + offset, archive.index(b"PK\x01\x02") + offset + 2):
        out[begin : begin + width] = value.to_bytes(width, "little")
    return bytes(out)


def saved(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


GOOD = npy(data=X.tobytes())
DEFLATED = npz(zipfile.ZIP_DEFLATED, x=GOOD)
BZIP2 = npz(zipfile.ZIP_BZIP2, x=GOOD)
FILES = {
    "an array of 10^12": npy(shape="(10**12,)".replace("10**12", str(10**12))),
    "an array of 10^23": npy(shape=f"({10**23},)"),
    "an empty array with 10^23": npy(shape=f"(0, {10**23})", data=b""),
    "a hundred dimensions": npy(shape="(" + "1," * 99 + "4)"),
    "a negative size": npy(shape="(-4,)"),
    "brackets": npy(header="((("),
    "many brackets": npy(header="(" * 9000),
    "elements that are arrays": npy(descr="(('<f4',(2,)),)"),
    "elements that are pairs": npy(descr="('<f4', (2,))", shape="(2,)"),
    "elements of nothing": npy(descr="'V0'"),
    "objects": saved(np.array([{}], object)),
    "too short": GOOD[:-1],
    "too long": GOOD + b"\0",
    "cut in the header": GOOD[:20],
    "nothing": b"",
    "encrypted": changed(DEFLATED, 6, 1),
    "an unknown compression": changed(DEFLATED, 8, 99),
    "bzip2": BZIP2,
    "damaged bzip2": BZIP2.replace(b"BZh", b"BZx"),
    "a damaged archive": DEFLATED[:-10],
    "a damaged entry": DEFLATED.replace(DEFLATED[40:50], bytes(10)),
    "an archive of nothing": npz(),
    "an archive of two": npz(x=GOOD, y=GOOD),
    "an archive with a lie": npz(x=npy(shape=f"({10**12},)")),
}


@pytest.mark.parametrize("name", FILES)
def test_arrays_that_lie_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(FILES[name])
    with quick(), pytest.raises(ArgumentError, match="x "):
        File(tmp_path / "x").array("f32", SIZE)
    if FILES[name][:2] == b"PK" and name not in ("an archive of nothing", "an archive of two"):
        with quick(), pytest.raises(ArgumentError, match="x "):
            File(tmp_path / "x").arrays({"x": SIZE})


def test_arrays_that_do_not_lie_are_read(tmp_path: Path) -> None:
    for data in (
        GOOD,
        DEFLATED,
        npz(x=GOOD),
        saved(X),
        saved(X.astype(">f4")),
        saved(np.asfortranarray(X.reshape(2, 2))),
    ):
        (tmp_path / "x").write_bytes(data)
        np.testing.assert_array_equal(File(tmp_path / "x").array("f32", SIZE).reshape(-1), X)
    (tmp_path / "x").write_bytes(npz(a=GOOD, b=saved(X[:2])))
    assert [array.tolist() for array in File(tmp_path / "x").listed(None, [4, 4])] == [[0, 1, 2, 3], [0, 1]]
    named, names = File(tmp_path / "x").arrays({"b": 2})
    assert list(named) == ["b"] and names == ["a", "b"]


def test_what_is_larger_than_the_program_can_need_is_not_read(tmp_path: Path) -> None:
    """A gigantic file, and a small archive of a large array, with less memory than that."""
    head = npy(shape=f"({2**29},)", data=b"")
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as entry,
    ):
        for part in (head, *[bytes(1 << 20)] * 64):
            entry.write(part)
    with (tmp_path / "long.npy").open("wb") as file:
        file.write(head)
        file.truncate(1 << 34)
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from xla_wasm import XlaWasmError\n"
        "from xla_wasm.command.inputs import File\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), used + (32 << 20)))\n"
        "bomb, long = map(Path, sys.argv[1:])\n"
        "for path, count in ((bomb, 4), (bomb, 1 << 16), (long, 4), (long, 1 << 16), (bomb, None)):\n"
        "    try: File(path).arrays({'x': 4}) if count is None else File(path).array('f32', count)\n"
        "    except XlaWasmError as error: print('that the program can need' in str(error))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "bomb.npz"), str(tmp_path / "long.npy")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.stdout.split(), ran.stderr) == (["True"] * 5, "")


def tensors(header: str, data: bytes = bytes(16)) -> bytes:
    return len(header).to_bytes(8, "little") + header.encode() + data


def tensor(shape: str, end: str = "16", dtype: str = "F32") -> str:
    return f'{{"x": {{"dtype": "{dtype}", "shape": {shape}, "data_offsets": [0, {end}]}}}}'


HEADERS = {
    "infinity": tensor("[1e999]"),
    "a fraction": tensor("[4.0]"),
    "a number of many digits": tensor(f"[{'9' * 4000}]"),
    "a number of a million digits": tensor(f"[{'9' * 1_000_000}]"),
    "numbers of many digits": tensor(f"[{','.join(['9' * 4000] * 2000)}]"),
    "many numbers": tensor(f"[{','.join(['9' * 19] * 400_000)}]"),
    "many ones": tensor(f"[{'1,' * 64}4]"),
    "gigantic and empty": tensor(f"[0, {10**23}]", "0"),
    "truth": tensor("[true, 4]"),
    "text": tensor('"4"'),
    "below zero": tensor("[-4]"),
    "an end of many digits": tensor("[4]", "9" * 5000),
    "no type": tensor("[4]", dtype="F31"),
    "brackets": "[" * 100_000,
    "no table": "[]",
    "half of a character": '{"\\ud800": 1}',
}


@pytest.mark.parametrize("name", HEADERS)
def test_tensors_that_lie_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(tensors(HEADERS[name]))
    with quick(), pytest.raises(ParseError, match="x.safetensors") as caught:
        safetensors.read(tmp_path / "x.safetensors")
    assert len(str(caught.value)) < 1000 and str(caught.value).encode()


def test_tensors_that_do_not_lie_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(tensors(tensor("[2, 2]")))
    assert safetensors.read(tmp_path / "x.safetensors")["x"].dimensions == (2, 2)
    (tmp_path / "x.safetensors").write_bytes(
        tensors(json.dumps({"__metadata__": {"a": "b"}, "e": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}))
    )
    assert File(tmp_path / "x.safetensors").arrays({"e": 0})[0]["e"].size == 0
