"""The JS host under every Node there is: its own tests, and vectors that it shares with the wasmtime host."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import xla_wasm
from tests.support.differential import BOTH, differential
from tests.support.node_host import encode, in_node, node_for, nodes, run_in_node
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import LIES, SHAPE, SIDECAR, WAT, change, toy, toy_expected, toy_manifest

X = np.array([[1, -3, 3], [0.5, 0, 9]], np.float32)
W = np.array([[1, 2, 3], [4, 5, 6]], np.float32) / 8
RELAXED = """
  (func (param v128) (result v128)
    (f32x4.relaxed_madd (local.get 0) (local.get 0) (local.get 0)))
"""


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fixtures")
    toy().save(folder / "toy.wasm")
    toy(column_major=True).save(folder / "column.wasm")
    sidecar = SIDECAR.reshape(-1).reshape(SHAPE, order="F")
    vectors = [
        {
            "wasm": name,
            "set": {"w": encode(W)},
            "args": [encode(X), encode(np.int64(k))],
            "results": [encode(r) for r in results],
        }
        for name, k, results in (
            ("toy.wasm", 7, toy_expected(X, W, 7)),
            ("column.wasm", -2, toy_expected(X, W, -2, sidecar)),
        )
    ]
    (folder / "vectors.json").write_text(json.dumps(vectors))
    manifest = toy_manifest() | {
        "name": "toy relaxed",
        "target": "relaxed-simd",
        "features": ["simd128", "relaxed-simd"],
    }
    toy(WAT.rstrip()[:-1] + RELAXED + ")", manifest).save(folder / "relaxed.wasm")
    names = []
    for path, value, _ in LIES:
        names.append(f"lie-{path}-{len(names)}.wasm")
        toy(manifest=change(path, value)).save(folder / names[-1])
    (folder / "lies.json").write_text(json.dumps(names))
    for name, wat in {
        "imports": WAT.replace("(module", '(module (import "a" "b" (func))', 1),
        "no-step": WAT.replace('(export "step")', ""),
        "no-memory": WAT.replace('(export "memory")', ""),
        "start": WAT.replace("(module", "(module (start $s) (func $s unreachable)", 1),
        "big": WAT.replace("1 1)", "2 2)"),
        "waits": WAT.replace("(i32.const 0)))\n", "(i32.const 1)))\n"),
        "no-init": WAT.replace("(i32.eq (local.get $i) (i32.const 0))", "(i32.const 0)"),
    }.items():
        toy(wat).save(folder / f"{name}.wasm")
    return folder


@pytest.mark.parametrize("version", nodes())
def test_loader(version: str, fixtures: Path) -> None:
    node, relaxed = nodes()[version]
    environment = {"FIXTURES": str(fixtures), "RELAXED": json.dumps(relaxed)}
    output([node, ROOT / "tests/js/loader.test.mjs"], env=environment)


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_there_is_a_node_for_each_target(target: str) -> None:
    assert node_for(target)


def test_run_in_node(tmp_path: Path) -> None:
    got = run_in_node(toy(), [[X, np.int64(1)], [X + 1, np.int64(2)]], tmp_path, {"w": W})
    for results, want in zip(got, [toy_expected(X, W, 1), toy_expected(X + 1, W, 2)], strict=True):
        for a, b in zip(results, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_array_equal(a, b)


def test_values_are_those_of_wasmtime_and_of_the_evaluator() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[3,5] parameter(0)
  y = s8[5] parameter(1)
  wide = f32[5] convert(y)
  spread = f32[3,5] broadcast(wide), dimensions={1}
  ratio = f32[3,5] divide(x, spread)
  turned = f32[5,3] transpose(ratio), dimensions={1,0}
  ROOT both = (f32[5,3], s8[5]) tuple(turned, y)
}"""
    x = np.array([-0.0, np.nan, np.inf, 1e-45, *range(11)], np.float32).reshape(3, 5)
    differential(text, x, np.array([0, -128, 127, 1, -1], np.int8), targets=BOTH, hosts=[None, in_node])


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_digits(target: str, tmp_path: Path) -> None:
    """JAX's logits on every held-out image."""
    folder = ROOT / "examples" / "digits"
    images = np.load(folder / "images.npy").astype(np.float32)[:, None, :, :, None] / 16
    logits = np.load(folder / "logits.npy")
    module = xla_wasm.HloModule.from_proto((folder / "digits.hlo.pb").read_bytes())
    artifact = xla_wasm.compile(module, xla_wasm.Options(target=target))
    got = np.concatenate([results[0] for results in run_in_node(artifact, [[image] for image in images], tmp_path)])
    np.testing.assert_allclose(got, logits, rtol=0, atol=1e-4)
    assert (got.argmax(1) == logits.argmax(1)).all()


def test_the_types_hold() -> None:
    """The JSDoc types of the loader, the pages and the benchmarks, checked by TypeScript."""
    found = shutil.which(
        "tsc", path=os.pathsep.join([str(ROOT / ".tools" / "node_modules" / ".bin"), os.environ["PATH"]])
    )
    assert found, "no TypeScript: ./build.sh test installs it"
    options = (
        "--noEmit --allowJs --checkJs --strict --noUnusedLocals --target es2022 --module esnext --lib "
        "es2022,dom,dom.iterable"
    ).split()
    files = [ROOT / "web" / name for name in ("xla_wasm.js", "worker.js", "http/handler.js", "parts.js")]
    files += sorted([*(ROOT / "web" / "demo").rglob("*.js"), *(ROOT / "benchmarks" / "web").glob("*.js")])
    output([found, *files, *options])
