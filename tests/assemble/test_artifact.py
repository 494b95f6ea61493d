"""Artifacts on disk and their manifests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.paths import ROOT
from tests.support.toy_artifact import SHAPE, SIDECAR, toy, toy_manifest, with_manifest
from xla_wasm.artifact import Artifact, encode_manifest, read_manifest
from xla_wasm.errors import ArtifactError
from xla_wasm.host.executor import load

EMPTY = b"\0asm\1\0\0\0"


def test_save_and_open(tmp_path: Path) -> None:
    artifact = toy()
    path = artifact.save(tmp_path / "toy.wasm")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["toy.wasm", "toy.weights"]
    assert Artifact.open(path) == artifact == Artifact.open(str(path))
    assert Artifact.open(artifact.wasm, weights=artifact.weights) == artifact
    artifact.save(path)  # over an existing one
    exe = load(path)
    exe.set("w", np.zeros(SHAPE, np.float32))
    np.testing.assert_array_equal(exe.run(np.zeros(SHAPE, np.float32), 0)[0], SIDECAR + np.float32(0.5))


def test_no_sidecar(tmp_path: Path) -> None:
    artifact = toy(weights=b"")
    artifact.save(tmp_path / "toy.wasm")
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy.wasm"]
    with pytest.raises(ArtifactError, match="the .weights file of 'toy' must have 24 bytes and none was given"):
        load(tmp_path / "toy.wasm")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Artifact.open(tmp_path / "none.wasm")


@pytest.mark.parametrize(
    ("wasm", "message"),
    [
        (b"", "not a WebAssembly module"),
        (b"<!DOCTYPE html>", "not a WebAssembly module"),
        (EMPTY, "no custom section 'xla_wasm'"),
        (EMPTY + b"\0\x7f", "damaged WebAssembly"),
        (with_manifest(EMPTY, b"{"), "not valid JSON"),
        (with_manifest(EMPTY, b"\xff"), "not valid JSON"),
        (with_manifest(EMPTY, b'{"pages":NaN}'), "not valid JSON"),
        (with_manifest(EMPTY, b"[" * 100_000), "not valid JSON"),
        (with_manifest(EMPTY, b'{"pages":' + b"9" * 5000 + b"}"), "not valid JSON"),
        (with_manifest(EMPTY, b"[]"), "must be a JSON object, not list"),
    ],
)
def test_bytes_that_are_no_artifact(wasm: bytes, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        Artifact.open(wasm)


def test_manifest_round_trip() -> None:
    manifest = toy_manifest() | {"name": "naïve π"}
    assert read_manifest(with_manifest(EMPTY, manifest)) == manifest
    assert encode_manifest(manifest) == encode_manifest(dict(manifest))


def test_reading_needs_neither_numpy_nor_wasmtime() -> None:
    code = (
        "import sys, xla_wasm.artifact, xla_wasm.host.manifest; sys.exit('numpy' in sys.modules or 'wasmtime' in "
        "sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
