"""Weights and states from files in Python: names, prefixes, types, shards, and files that do not fit or are damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from tests.support.bodies import damaged
from xla_wasm import ArgumentError, Options, RunError, XlaWasmError, safetensors
from xla_wasm.artifact import Artifact
from xla_wasm.host.fresh import FreshExecutable
from xla_wasm.jax import lower

P = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32([1, 2, 3])}
T, N, X = np.float32(2), np.int32(5), np.ones((1, 2), np.float32)


def model(p: dict[str, jax.Array], t: jax.Array, n: jax.Array, x: jax.Array) -> Any:
    return {"y": jnp.tanh(x @ p["w"]) + p["b"] + t, "n": n + 1}


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return xla_wasm.compile(lower(model, P, T, N, X), Options(weights=["p.*", "t"], state={"n": "n"}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of all kinds, good and bad; tests begin in it."""
    monkeypatch.chdir(tmp_path)
    whole = {**{f"p.{name}": array for name, array in P.items()}, "t": T, "n": N}
    np.savez("whole.npz", **whole)  # type: ignore[arg-type]
    safetensors.save("whole.safetensors", whole)
    np.savez_compressed("p.npz", **P)  # type: ignore[arg-type]
    safetensors.save("p8.safetensors", P, "int8")
    np.savez("p64.npz", **{name: array.astype(np.float64) for name, array in P.items()})  # type: ignore[arg-type]
    np.savez("p16.npz", **{name: array.astype(np.float16) for name, array in P.items()})  # type: ignore[arg-type]
    safetensors.save("p16.safetensors", P, "bf16")
    np.save("t.npy", T)
    np.savez("t.npz", anything=T)
    np.savez("many.npz", **P, c=T)  # type: ignore[arg-type]
    np.savez("few.npz", w=P["w"])
    np.savez("turned.npz", w=P["w"].T, b=P["b"])
    np.savez("large.npz", w=np.zeros((2000, 3)), b=P["b"])
    np.savez("whole numbers.npz", w=P["w"].astype(int), b=P["b"])
    np.savez("objects.npz", w=np.array([{}], object), b=P["b"])
    np.savez("none.npz")
    for name in ("p.npz", "p8.safetensors"):
        content = Path(name).read_bytes()
        Path(f"cut.{name}").write_bytes(content[:60])
        Path(f"damaged.{name}").write_bytes(content[:40] + bytes(40) + content[80:])
    Path("empty").touch()
    Path("text").write_text("no arrays")
    Path("folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "sets",
    [
        [("whole.npz",)],
        [("whole.safetensors",)],
        [(Path("whole.npz"),)],
        [("p", "p.npz"), ("t", "t.npy"), ("n", N)],
        [("p", Path("p8.safetensors")), ("t", "t.npz"), ("n", N)],
        [("p", "p64.npz"), ("t", T), ("n", N)],
        [("p", "p16.npz"), ("t", T), ("n", N)],
        [("p", "p16.safetensors"), ("t", T), ("n", N)],
    ],
)
def test_files(artifact: Artifact, folder: Path, sets: list[tuple[Any, ...]]) -> None:
    wanted = model({name: jnp.asarray(array) for name, array in P.items()}, T, N, X)
    for exe in (xla_wasm.load(artifact), FreshExecutable(artifact)):
        for given in sets:
            exe.set(*given)
        for run in range(2):
            np.testing.assert_allclose(exe.run(X)[0], wanted["y"], rtol=0.02 if "8" in str(sets) else 1e-6)
            if not isinstance(exe, FreshExecutable):
                assert exe.get("n") == N + run + 1 and exe.get("t") == T


WRONG: list[tuple[tuple[Any, ...], str]] = [
    (
        ("p.npz",),
        r"p.npz has w, b, and there is no weight or state of that name: there are p.b, p.w, t, n; set\('p', 'p.npz'\) "
        r"puts",
    ),
    (
        ("t.npy",),
        r"t.npy: a .npy file has one array: say which it is of \(p.b, p.w, t, n\), as in set\(NAME, 't.npy'\)",
    ),
    (("p", "t.npy"), "a .npy file has one array"),
    (("p", "many.npz"), "many.npz has c, and there is no weight or state of that name: there are b, w below 'p'"),
    (("p", "few.npz"), r"few.npz lacks 'p.b' \(f32\[3\]\): it has w"),
    (("p", "none.npz"), r"none.npz lacks 'p.b' \(f32\[3\]\): it has none"),
    (("none.npz",), "none.npz has no arrays"),
    (
        ("p", "turned.npz"),
        r"turned.npz does not fit: the weight 'p.w' is f32\[2,3\], and the array in the file is float32\[3,2\]",
    ),
    (("p", "whole numbers.npz"), r"the weight 'p.w' is f32\[2,3\], and the array in the file is int64\[2,3\]"),
    (("n", "t.npy"), r"t.npy does not fit: the state 'n' is s32\[\], and the array in the file is float32\[\]"),
    (("p", "large.npz"), r"'w' is float64\[2000, 3\]: more than the \d+ bytes that the program can need"),
    (("p", "objects.npz"), "its elements are Python objects"),
    (("p", "cut.p.npz"), "cut.p.npz is damaged, or no .npz file"),
    (("p", "damaged.p.npz"), "damaged.p.npz is damaged, or no .npz file"),
    (("p", "cut.p8.safetensors"), "cut.p8.safetensors: not a safetensors file, or cut short"),
    (("p", "damaged.p8.safetensors"), "damaged.p8.safetensors: the header of the safetensors file makes no sense"),
    (("empty",), "empty is empty: it is not a .npy file, nor .npz or safetensors"),
    (("text",), "text holds no arrays"),
    (("folder",), "cannot read 'folder', a file of weights and states: Is a directory"),
    (("p", "nowhere.npz"), "cannot read 'nowhere.npz', a file of weights and states: No such file or directory"),
    (("q", "p.npz"), "has no weight or state called 'q'"),
    (("x", "p.npz"), "'x' is an input of"),
    (("t", "p.npz"), "there is no weight or state of that name: there are none below 't'"),
    (("a\0b",), "cannot read"),
    ((3,), "set takes a name and an array, or a file; int is the path of none"),
    ((3, T), "the name of a weight or state is a text, not int"),
    ((Path("t"), T), "the name of a weight or state is a text, not PosixPath"),
]


@pytest.mark.parametrize("given, message", WRONG)
def test_files_that_do_not_fit(artifact: Artifact, folder: Path, given: tuple[Any, ...], message: str) -> None:
    """The error says what is wrong, and nothing is set: neither a part of the weights nor anything over what was
    there."""
    for exe in (xla_wasm.load(artifact), FreshExecutable(artifact)):
        with pytest.raises(XlaWasmError, match=message) as caught:
            exe.set(*given)
        assert "pickle" not in str(caught.value)
    exe = xla_wasm.load(artifact)
    exe.set("whole.npz")
    before = exe.run(X)[0]
    with pytest.raises(XlaWasmError):
        exe.set(*given)
    np.testing.assert_array_equal(exe.run(X)[0], before)


def test_damaged_files_of_any_kind(artifact: Artifact, folder: Path) -> None:
    """Bytes that change anywhere: what comes is an error of ours, or arrays that fit."""
    rng = np.random.default_rng(0)
    exe = xla_wasm.load(artifact)
    raised = 0
    for name in ("whole.npz", "whole.safetensors", "p8.safetensors", "p.npz"):
        content = Path(name).read_bytes()
        for _ in range(60):
            Path("x").write_bytes(damaged(content, rng, cut=rng.integers(0, 3) == 0))
            try:
                exe.set(*(("x",) if name.startswith("whole") else ("p", "x")))
            except XlaWasmError as error:
                raised += 1
                assert "x" in str(error) and "pickle" not in str(error)
    assert raised > 100


def test_some_weights_at_a_time(artifact: Artifact, folder: Path) -> None:
    """The weights of a model may lie in several files; a run names one that is still missing."""
    np.savez("one.npz", **{"p.w": P["w"], "n": N})
    np.savez("two.npz", **{"p.b": P["b"], "t": T})
    exe = xla_wasm.load(artifact)
    exe.set("one.npz")
    with pytest.raises(ArgumentError, match="weight 'p.b' has not been set"):
        exe.run(X)
    exe.set("two.npz")
    assert exe.run(X)[0].shape == (1, 3)
    exe.close()
    with pytest.raises(RunError, match="closed"):
        exe.set("one.npz")


def test_shards(folder: Path) -> None:
    """A file has whole arrays for all devices together, and a shard for one of them."""
    spec = jax.sharding.PartitionSpec
    w, x = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    module = lower(lambda w, x: w * x, w, x, mesh={"i": 4}, in_specs=(spec("i"), spec("i")), out_specs=spec("i"))
    exe = xla_wasm.load(xla_wasm.compile(module, Options(weights="w")))
    np.savez("w.npz", w=w)
    np.save("part.npy", np.float32([70, 80]))
    exe.set("w.npz")
    np.testing.assert_array_equal(exe.run_global([x])[0], w)
    exe.set("w", "part.npy", device=3)
    np.testing.assert_array_equal(exe.run_global([x])[0], [*range(6), 70, 80])
    with pytest.raises(ArgumentError, match=r"'w' is f32\[8\], and the array in the file is float32\[2\]"):
        exe.set("w", "part.npy")


def test_a_path_of_any_kind(artifact: Artifact, folder: Path) -> None:
    class Own(os.PathLike[str]):
        def __fspath__(self) -> str:
            return "whole.npz"

    exe = xla_wasm.load(artifact)
    exe.set(Own())
    exe.set(str(folder / "whole.safetensors"))
    assert exe.get("n") == N
