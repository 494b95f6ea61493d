"""Commands under every engine that runs them: the same bits as under `xla_wasm.load`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.bodies import load_npy, npz
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.wasi_commands import as_bytes
from tests.support.wasi_servers import wasmtime
from xla_wasm import Options
from xla_wasm.hlo.ir import Module
from xla_wasm.site import minilm

DIGITS = ROOT / "examples" / "digits" / "digits.hlo.pb"
NODE_WASI = """
import { WASI } from 'node:wasi';
import { readFile } from 'node:fs/promises';
const [wasm, ...args] = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args: ['m.wasm', ...args], preopens: { '.': '.' }, returnOnExit: true });
const { instance } = await WebAssembly.instantiate(await readFile(wasm), { wasi_snapshot_preview1: wasi.wasiImport });
process.exitCode = wasi.start(instance);
"""
ENGINES = ["wasmtime run", "wasmtime compile", "node", "deno", "bun"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as a command, in both targets, and an image."""
    made = tmp_path_factory.mktemp("digits")
    module = Module.from_proto(DIGITS.read_bytes())
    for target in ("simd128", "relaxed-simd"):
        xla_wasm.compile(module, Options(kind="command", target=target)).save(made / f"{target}.wasm")
    image = np.random.default_rng(0).random((1, 8, 8, 1), np.float32)
    np.save(made / "x.npy", image)
    (made / "x.npz").write_bytes(npz(True, image=image))
    (expected,) = xla_wasm.load(xla_wasm.compile(module)).run(image)
    np.save(made / "expected.npy", expected)
    (made / "wasi.mjs").write_text(NODE_WASI)
    return made


def run(engine: str, folder: Path, wasm: str, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    if engine == "wasmtime run":
        command: list[Any] = [wasmtime(), "run", "--dir", ".", wasm]
    elif engine == "wasmtime compile":
        compiled = folder / f"{wasm}.cwasm"
        if not compiled.exists():
            subprocess.run([wasmtime(), "compile", wasm, "-o", compiled], cwd=folder, check=True, timeout=120)
        command = [wasmtime(), "run", "--allow-precompiled", "--dir", ".", compiled.name]
    elif engine == "node":
        command = [node_for("simd128"), "--no-warnings", "wasi.mjs", wasm]
    else:
        path = ROOT / ".tools" / "runtimes" / "node_modules" / ".bin" / engine
        if not path.exists():
            pytest.fail(f"no {engine}: ./build.sh test installs it")
        command = [path, "run", *(["-A", "--no-prompt"] if engine == "deno" else []), "wasi.mjs", wasm]
    environment = os.environ | {"WASMTIME_BACKTRACE_DETAILS": "0"}
    return subprocess.run([*command, *args], cwd=folder, input=stdin, capture_output=True, timeout=120, env=environment)


@pytest.mark.parametrize("engine", ENGINES)
def test_digits(engine: str, folder: Path) -> None:
    expected = np.load(folder / "expected.npy")
    for given in ("x.npy", "x.npz"):
        done = run(engine, folder, "simd128.wasm", given, "-o", "y.npy")
        assert done.returncode == 0, done.stderr.decode()
        assert as_bytes(np.load(folder / "y.npy")) == as_bytes(expected)
    text = json.dumps(np.load(folder / "x.npy").tolist()).encode()
    done = run(engine, folder, "simd128.wasm", "-", "-o", "-", stdin=text)
    assert done.returncode == 0, done.stderr.decode()
    assert as_bytes(load_npy(done.stdout)) == as_bytes(expected)
    # Deno and Bun call whatever standard output is a terminal.
    done = run(engine, folder, "simd128.wasm", "--image", "x.npy", "--json")
    assert np.array_equal(np.array(json.loads(done.stdout)["result"], np.float32), expected)
    missing = run(engine, folder, "simd128.wasm")
    assert missing.returncode == 2 and "jit_digits: image: this input is missing\n" in missing.stderr.decode()
    wrong = run(engine, folder, "simd128.wasm", "expected.npy")
    assert wrong.returncode == 1
    assert "jit_digits: expected.npy: input image f32[1,8,8,1]: this has f32[1,10]\n" in wrong.stderr.decode()
    batch = run(engine, folder, "simd128.wasm", "--batch", "x.np?", "-o", "out/")
    assert batch.returncode == 0, batch.stderr.decode()
    assert as_bytes(np.load(folder / "out" / "x.npy")) == as_bytes(expected)
    shutil.rmtree(folder / "out")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All-MiniLM-L6-v2 as a command, with its 45 MB of weights in it, and four tokens."""
    made = tmp_path_factory.mktemp("minilm")
    xla_wasm.compile(minilm.encoder(), Options(kind="command")).save(made / "m.wasm")
    ids = np.zeros(128, np.int32)
    ids[:4] = [101, 7592, 2088, 102]
    (made / "x.json").write_text(json.dumps({"ids": ids.tolist(), "length": 4}))
    (embedding,) = xla_wasm.load(xla_wasm.compile(minilm.encoder())).run(ids, np.int32(4))
    np.save(made / "expected.npy", embedding)
    (made / "wasi.mjs").write_text(NODE_WASI)
    return made


@pytest.mark.parametrize("engine", ENGINES)
def test_minilm(engine: str, encoder: Path) -> None:
    done = run(engine, encoder, "m.wasm", "x.json", "-o", "y.npy")
    assert done.returncode == 0, done.stderr.decode()
    assert as_bytes(np.load(encoder / "y.npy")) == as_bytes(np.load(encoder / "expected.npy"))


def test_relaxed_simd_needs_no_flag(folder: Path) -> None:
    done = run("wasmtime run", folder, "relaxed-simd.wasm", "x.npy", "-o", "r.npy")
    assert done.returncode == 0, done.stderr.decode()
    np.testing.assert_allclose(np.load(folder / "r.npy"), np.load(folder / "expected.npy"), rtol=1e-5, atol=1e-5)


def test_folders_that_the_host_opens(folder: Path) -> None:
    """Paths are those that the host gives its folders, whatever they are called outside."""
    for opened, path in (
        (f"{folder}::/data", "/data/x.npy"),
        (f"{folder}::data", "data/x.npy"),
        (f"{folder}::data", "./data/x.npy"),
        (str(folder), f"{folder}/x.npy"),
        (f"{folder}::/", "/x.npy"),
    ):
        done = subprocess.run(
            [wasmtime(), "run", "--dir", opened, folder / "simd128.wasm", path], capture_output=True, timeout=120
        )
        assert done.returncode == 0, (opened, path, done.stderr.decode())
    outside = subprocess.run(
        [wasmtime(), "run", "--dir", f"{folder}::/data", folder / "simd128.wasm", "x.npy"],
        capture_output=True,
        timeout=120,
    )
    assert outside.returncode == 1 and b"no folder was opened in which this lies" in outside.stderr


def test_a_terminal_gets_a_table(folder: Path) -> None:
    """Under `script`, which is a terminal to the program."""
    import pty

    leader, follower = pty.openpty()
    done = subprocess.run(
        [wasmtime(), "run", "--dir", ".", "simd128.wasm", "x.npy"], cwd=folder, stdout=follower, timeout=120, check=True
    )
    os.close(follower)
    assert done.returncode == 0
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert shown.startswith("result  f32[1,10]  [[")
