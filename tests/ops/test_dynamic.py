"""Dynamic dimensions: programs of many sizes compiled once, against the evaluator, which has arrays of the actual
sizes; the hosts."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import xla_cpu
from tests.support.dynamic_cases import CASES, Case, module
from tests.support.embedding_cases import RANGED, ranged
from tests.support.node_host import encode, node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import with_manifest
from xla_wasm.artifact import Artifact
from xla_wasm.errors import ArgumentError, ArtifactError, UnsupportedError, VerifyError
from xla_wasm.hlo.ir import Module
from xla_wasm.host.manifest import Manifest
from xla_wasm.options import Options
from xla_wasm.reference import evaluate


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_as_on_arrays_of_the_actual_sizes(case: Case) -> None:
    parsed = Module.from_text(case.text)
    exe = xla_wasm.load(xla_wasm.compile(parsed))
    for args in case.calls():
        expected, results = evaluate(parsed, *args), exe.run(*args)
        shapes = [a.shape for a in args]
        assert [r.shape for r in results] == [e.shape for e in expected], shapes
        for result, value in zip(results, expected):
            np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5, err_msg=str(shapes))


def text(body: str) -> Module:
    return Module.from_text(module(body))


_SIZED = "x = s32[5] parameter(0)\nn = s32[] parameter(1)\na = s32[<=5] set-dimension-size(x, n), dimensions={0}\n"
_ROW = np.array([1, 2, 4, 8, 16], np.int32)


@pytest.mark.parametrize(
    "body",
    [
        "m = s32[] parameter(2)\nb = s32[<=5] set-dimension-size(x, m), dimensions={0}\nc = s32[<=5] add(a, b)\n"
        "ROOT r = s32[] get-dimension-size(c), dimensions={0}",
        "m = s32[] parameter(2)\nb = s32[<=5] set-dimension-size(x, m), dimensions={0}\nc = s32[<=10] concatenate(a, "
        "b), dimensions={0}\n"
        "ROOT r = s32[] get-dimension-size(c), dimensions={0}",
        "m = s32[] parameter(2)\nc = s32[<=2] slice(a), slice={[1:4:2]}\nROOT r = s32[] get-dimension-size(c), "
        "dimensions={0}",
        "m = s32[] parameter(2)\nc = s32[<=12] pad(a, m), padding=1_2_1\nROOT r = s32[] get-dimension-size(c), "
        "dimensions={0}",
    ],
)  # fmt: skip
def test_sizes_are_those_of_xla(body: str) -> None:
    parsed = text(_SIZED + body)
    exe = xla_wasm.load(xla_wasm.compile(parsed))
    for n in range(1, 6):
        for m in range(1, 6):
            args = (_ROW, np.int32(n), np.int32(m))
            assert exe.run(*args) == xla_cpu.run(parsed, *args), (n, m)


def test_what_does_not_count_has_no_say() -> None:
    """Results do not change with what a larger argument left behind."""
    exe = xla_wasm.load(xla_wasm.compile(text(
        "x = f32[<=5] parameter(0)\nz = f32[] constant(0)\nd = f32[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"  # noqa: E501
        "s = f32[] reduce(x, z), dimensions={0}, to_apply=add\nROOT t = (f32[], f32[]) tuple(d, s)"
    )))  # fmt: skip
    exe.run(np.array([1, np.nan, np.inf, 5, np.nan], np.float32))
    assert exe.run(np.array([3, 4], np.float32)) == [25, 7]


# --- the boundary ---------------------------------------------------------------------------------------------------

_DOUBLE = "x = f32[<=5,3] parameter(0)\nROOT r = f32[<=5,3] add(x, x)"


def test_arguments_may_be_of_any_size_up_to_the_bounds() -> None:
    exe = xla_wasm.load(xla_wasm.compile(text(_DOUBLE)))
    assert str(exe.parameters[0]) == "f32[<=5,3]"
    assert exe.run([[1, 2, 3]])[0].tolist() == [[2, 4, 6]]
    for shape in ((6, 3), (5, 2), (5,), (5, 3, 1)):
        with pytest.raises(ArgumentError, match=r"must be float32\[<=5,3\], got float32\[" + ",".join(map(str, shape))):
            exe.run(np.zeros(shape, np.float32))


def test_state_keeps_its_size() -> None:
    """A state of dynamic size goes from run to run with it; before any, it is empty."""
    artifact = xla_wasm.compile(text(
        "x = f32[<=5] parameter(0)\ny = f32[1] parameter(1)\nc = f32[<=6] concatenate(x, y), dimensions={0}\n"
        "ROOT r = f32[<=5] slice(c), slice={[0:5]}"
    ), Options(state=(("x", "result"),)))  # fmt: skip
    exe = xla_wasm.load(artifact)
    assert exe.get("x").shape == (0,)
    for n in range(1, 8):
        exe.run(np.array([n], np.float32))
        assert exe.get("x").tolist() == [1, 2, 3, 4, 5][: min(n, 5)]
    exe.set("x", np.array([7, 8], np.float32))
    exe.run(np.array([9], np.float32))
    assert exe.get("x").tolist() == [7, 8, 9]


def test_weights_with_dynamic_dimensions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"weight 'x' is f32\[<=5,3\]"):
        xla_wasm.compile(text(_DOUBLE), Options(weights=("x",)))


def test_physical_arrays_with_dynamic_dimensions_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no physical form"):
        xla_wasm.load(xla_wasm.compile(text(_DOUBLE)), physical=True)


WRONG: tuple[tuple[str, Any], ...] = (
    ("expected a list", 5),
    ("an address or null for each of 2 dimensions", [64]),
    ("an address or null for each of 2 dimensions", [None, None]),
    ("addresses of s32", [66, None]),
    ("addresses of s32", [-4, None]),
    ("addresses of s32", [1 << 40, None]),
    ("addresses of s32", ["64", None]),
    ("addresses of s32", [True, None]),
)


@pytest.mark.parametrize("where", ["parameters", "results"])
@pytest.mark.parametrize(("message", "sizes"), WRONG, ids=[str(s) for _, s in WRONG])
def test_sizes_in_the_manifest_are_checked(where: str, message: str, sizes: Any) -> None:
    manifest = copy.deepcopy(xla_wasm.compile(text(_DOUBLE)).manifest)
    Manifest.parse(manifest)
    manifest[where][0]["sizes"] = sizes
    with pytest.raises(ArtifactError, match=f"{where}.*sizes: .*{message}"):
        Manifest.parse(manifest)


def test_sizes_beyond_the_bounds_are_not_believed(tmp_path: Path) -> None:
    """A size in the place that the manifest states is checked at every run: below 0 or beyond its bound it is an
    error."""
    artifact = xla_wasm.compile(text("x = f32[<=5] parameter(0)\nk = s32[] parameter(1)\nROOT r = f32[<=5] add(x, x)"))
    artifact.manifest["results"][0]["sizes"] = [artifact.manifest["parameters"][1]["offset"]]
    exe = xla_wasm.load(artifact)
    assert exe.run(np.ones(3, np.float32), np.int32(2))[0].tolist() == [2, 2]
    for size in (-1, 6):
        with pytest.raises(ArtifactError, match=f"size {size} of dimension 0 of 'result', which is f32"):
            exe.run(np.ones(3, np.float32), np.int32(size))
    changed = Artifact(
        with_manifest(artifact.wasm.replace(b"\x08xla_wasm", b"\x08xla_past"), artifact.manifest),
        artifact.manifest,
        b"",
    )
    right, *wrong = in_node(
        changed, tmp_path, [[np.ones(3, np.float32), np.array(size, np.int32)] for size in (2, -1, 6)]
    )
    assert right[0]["shape"] == [2] and all("dimension 0 of 'result', which is f32[<=5]" in a for a in wrong), wrong


# --- in JavaScript --------------------------------------------------------------------------------------------------


def in_node(artifact: Artifact, folder: Path, calls: list[Any], physical: bool = False) -> list[Any]:
    """Returns the answer to each call: a list of its results as objects with data and shape, or the message of an
    error. Lists go as they are, arrays with their shapes."""
    job = {
        "wasm": str(artifact.save(folder / "module.wasm")),
        "calls": [[a if isinstance(a, list) else encode(a) | {"shape": a.shape} for a in call] for call in calls],
        "physical": physical,
    }
    answers: list[Any] = json.loads(output([node_for("simd128"), _RUNNER], input=json.dumps(job)))
    return answers


_RUNNER = ROOT / "tests" / "js" / "run_dynamic.mjs"
_IN_NODE = (
    "arithmetic",
    "reverse",
    "reshape, flat",
    "concatenate 0",
    "dot of a batch",
    "dot of complex",
    "another layout",
    "windows padded add",
)


@pytest.mark.parametrize("case", [c for c in CASES if c.name in _IN_NODE], ids=lambda c: c.name)
def test_node_takes_and_gives_the_same(case: Case, tmp_path: Path) -> None:
    parsed = Module.from_text(case.text)
    artifact = xla_wasm.compile(parsed)
    calls = list(case.calls())
    exe = xla_wasm.load(artifact)
    for args, answer in zip(calls, in_node(artifact, tmp_path, calls), strict=True):
        assert not isinstance(answer, str), answer
        for result, given in zip(exe.run(*args), answer, strict=True):
            assert given["shape"] in (None, list(result.shape))
            np.testing.assert_array_equal(
                np.frombuffer(base64.b64decode(given["data"]), result.dtype), result.reshape(-1)
            )


def test_node_checks_sizes(tmp_path: Path) -> None:
    artifact = xla_wasm.compile(text(_DOUBLE))
    answers = in_node(
        artifact, tmp_path, [[[[1, 2, 3]]], [np.zeros((6, 3), np.float32)], [[[1, 2]]], [np.zeros((5, 3), np.float32)]]
    )
    assert answers[0][0]["shape"] == [1, 3]
    assert all("must be f32[<=5,3]" in a for a in answers[1:3]), answers
    assert answers[3][0]["shape"] == [5, 3]
    (refused,) = in_node(artifact, tmp_path, [[]], physical=True)
    assert "no physical form" in refused


def test_both_ends_of_a_range_are_checked(tmp_path: Path) -> None:
    """Sizes below the least are refused as those beyond the bound are: what a program made for a range does not write,
    an earlier run has."""
    module, artifact = Module.from_text(RANGED), ranged()
    exe = xla_wasm.load(artifact)
    assert "x f32[4..8,3]" in repr(exe) and "x f32[4..8,3]" in repr(artifact)
    arrays = [np.arange(3 * rows, dtype=np.float32).reshape(rows, 3) for rows in (0, 3, 4, 8, 9)]
    given = in_node(artifact, tmp_path, [[x] for x in arrays] + [[x.tolist()] for x in arrays])
    for x, flat, lists in zip(arrays, given[:5], given[5:], strict=True):
        if len(x) in (4, 8):
            np.testing.assert_array_equal(exe.run(x)[0], -x)
            np.testing.assert_array_equal(evaluate(module, x)[0], -x)
            assert flat == lists and flat[0]["shape"] == [len(x), 3]
            continue
        with pytest.raises(ArgumentError, match=rf"must be float32\[4..8,3\], got float32\[{len(x)},3\]"):
            exe.run(x)
        with pytest.raises(ArgumentError, match=r"expected shape \(8, 3\), from \(4, 3\) on"):
            evaluate(module, x)
        assert all(answer.startswith("ArgumentError") and "must be f32[4..8,3]" in answer for answer in (flat, lists))


def test_a_state_has_to_be_in_its_range(tmp_path: Path) -> None:
    """Nobody gives it to a run: the module itself refuses a size that it has from the start or from the run before."""
    text = """HloModule m

ENTRY e {
  x = f32[<=8] parameter(0), frontend_attributes={xla_wasm.least_sizes="[2]"}
  k = s32[] parameter(1)
  s = f32[<=8] set-dimension-size(x, k), dimensions={0}
  ROOT r = (f32[<=8], f32[<=8]) tuple(s, x)
}
"""
    exe = xla_wasm.load(xla_wasm.compile(Module.from_text(text), Options(state=((0, 0),))))
    with pytest.raises(ArgumentError, match=r"state 'x': dimension 0 has size 0, but has to be 2\.\.8"):
        exe.run(np.int32(3))
    with pytest.raises(ArgumentError, match=r"must be float32\[2\.\.8\]"):
        exe.set("x", np.ones(1, np.float32))
    exe.set("x", np.ones(4, np.float32))
    assert exe.run(np.int32(2))[0].shape == (4,) and exe.run(np.int32(1))[0].shape == (2,)
    with pytest.raises(ArgumentError, match="dimension 0 has size 1, but has to be 2"):
        exe.run(np.int32(3))


WRONG_LEAST: tuple[Any, ...] = (None, 4, [4], [4, 3, 1], [9, 3], [4, 2], [-1, 3], [4.0, 3], [True, 3], ["4", 3])


def test_least_sizes_in_the_manifest_are_checked(tmp_path: Path) -> None:
    artifact = ranged()
    bare = artifact.wasm.replace(b"\x08xla_wasm", b"\x08xla_past")
    for least in WRONG_LEAST:
        manifest = copy.deepcopy(artifact.manifest)
        manifest["parameters"][0]["least"] = least
        with pytest.raises(ArtifactError, match=r"parameters\[0\].*least"):
            Manifest.parse(manifest)
        with pytest.raises(VerifyError, match="least_sizes must have a size for each dimension"):
            xla_wasm.compile(Module.from_text(RANGED.replace("[4,3]", json.dumps(least).replace('"', "'"))))
    del manifest["parameters"][0]["least"], manifest["format"]
    Manifest.parse(manifest | {"format": 1})  # as versions before wrote it
    old = Artifact(with_manifest(bare, {"format": 1} | manifest), manifest, b"")
    (answer,) = in_node(old, tmp_path, [[np.ones((3, 3), np.float32)]])
    assert answer[0]["shape"] == [3, 3]


@pytest.mark.parametrize("where", ["parameters", "results"])
@pytest.mark.parametrize("sizes", [s for _, s in WRONG], ids=str)
def test_node_checks_sizes_in_the_manifest(where: str, sizes: Any, tmp_path: Path) -> None:
    artifact = xla_wasm.compile(text(_DOUBLE))
    manifest = copy.deepcopy(artifact.manifest)
    manifest[where][0]["sizes"] = sizes
    bare = artifact.wasm.replace(b"\x08xla_wasm", b"\x08xla_past")  # the section of another name
    changed = Artifact(with_manifest(bare, manifest), manifest, b"")
    (answer,) = in_node(changed, tmp_path, [])
    assert answer.startswith("ArtifactError") and f"{where}[0].sizes" in answer, answer


# --- what is refused ------------------------------------------------------------------------------------------------

REFUSED = (
    ("topk", "x = f32[<=5] parameter(0)\nROOT r = (f32[2], s32[2]) topk(x), k=2, largest=true"),
    ("fft", "x = c64[<=4] parameter(0)\nROOT r = c64[4] fft(x), fft_type=FFT, fft_length={4}"),
    ("custom-call", 'x = f32[<=4] parameter(0)\nROOT r = f32[<=4] custom-call(x), custom_call_target="mine"'),
    ("reshape", "x = f32[<=4,2] parameter(0)\nROOT r = f32[<=4,<=2] reshape(x)"),
)


@pytest.mark.parametrize(("opcode", "body"), REFUSED[:3], ids=[r[0] for r in REFUSED[:3]])
def test_what_has_no_rule_is_refused_by_name(opcode: str, body: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{opcode} 'r'"):
        xla_wasm.compile(text(body))
