"""The artifacts that jit keeps on disk: bounded, whole or not used, and shared by processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from xla_wasm import Artifact, Options
from xla_wasm.jax import cache, jit, lower
from xla_wasm.jax.cache import Cache, default_folder, key_of
from xla_wasm.jax.lowering import Tracing, trace

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WORK = """
import sys
import numpy as np
from xla_wasm.jax import jit

{lines}
f = jit(lambda x: x @ x.T + {number}, cache=sys.argv[1])
assert (f(np.ones((2, 3), np.float32)) == 3 + {number}).all()
print(*f.stats())
"""


def process(folder: Path, number: int, lines: str = "") -> Any:
    return subprocess.Popen(
        [sys.executable, "-c", WORK.format(number=number, lines=lines), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(started: Any) -> str:
    out, err = started.communicate(timeout=120)
    assert started.returncode == 0, err
    return str(out.strip())


def artifact(factor: int, size: int = 4) -> Artifact:
    return xla_wasm.compile(
        lower(lambda x: x * jnp.asarray(np.arange(size, dtype=np.float32) * factor), np.zeros(size, np.float32))
    )


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "xla_wasm"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the standard says to ignore
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "xla_wasm"
    jit(lambda x: x + 1)(X)
    assert [path.suffix for path in default_folder().iterdir()] == [".wasm"]
    assert default_folder().stat().st_mode & 0o777 == 0o700
    before = [*default_folder().iterdir()]
    jit(lambda x: x + 2, cache=False)(X)
    assert [*default_folder().iterdir()] == before


def test_another_process_reads_what_one_has_compiled(tmp_path: Path) -> None:
    """Also where the lines of the program have moved."""
    assert said(process(tmp_path, 1)) == "1 1 0 1"
    assert said(process(tmp_path, 1, "import math\n\n\n# moved")) == "1 0 1 1"
    assert said(process(tmp_path, 2)) == "1 1 0 1"


def test_processes_at_once(tmp_path: Path) -> None:
    started = [process(tmp_path, i % 2) for i in range(4)]
    assert all(said(p).startswith("1 ") for p in started)
    assert len([*tmp_path.iterdir()]) == 2
    assert all(Artifact.open(path).is_whole() for path in tmp_path.iterdir())


def test_damaged_files_are_replaced(tmp_path: Path) -> None:
    f = jit(lambda x: jnp.tanh(x) * 3, cache=tmp_path)
    expected = f(X)
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    flipped = [
        good[:at] + bytes([good[at] ^ 1 << rng.integers(8)]) + good[at + 1 :] for at in rng.integers(0, len(good), 60)
    ]
    other = artifact(
        2
    ).wasm  # whole in itself, and yet of another program if somebody renames it: the key is the only name that it has
    for damaged in (b"", b"\0asm", good[:-1], good[: len(good) // 2], good + b"\0", b"x" * len(good), *flipped):
        path.write_bytes(damaged)
        assert Cache(tmp_path).get(path.stem) is None, "no bit of a file is without its hash"
    again = jit(lambda x: jnp.tanh(x) * 3, cache=tmp_path)
    np.testing.assert_array_equal(again(X), expected)
    assert again.stats().compiles == 1 and path.read_bytes() == good and other != good
    path.unlink()
    path.mkdir()
    np.testing.assert_array_equal(jit(lambda x: jnp.tanh(x) * 3, cache=tmp_path)(X), expected)


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    made = {f"k{i}": artifact(i + 1, 2000) for i in range(6)}
    size = sum(made["k1"].sizes)
    kept = Cache(tmp_path, size * 7 // 2)
    for i, key in enumerate([*made][:3]):
        kept.put(key, made[key])
        os.utime(tmp_path / f"{key}.wasm", (1000 + i, 1000 + i))
    assert kept.get("k0") == made["k0"]  # used now
    kept.put("k3", made["k3"])
    assert {p.stem for p in tmp_path.iterdir()} == {"k0", "k2", "k3"}
    kept.put("k4", made["k4"])
    assert {p.stem for p in tmp_path.iterdir()} == {"k0", "k3", "k4"}
    Cache(tmp_path, size).put("k5", made["k5"])  # more than half of the room: not kept
    assert {p.stem for p in tmp_path.iterdir()} == {"k0", "k3", "k4"}
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= kept.most_bytes


def test_beginnings_of_files_go_when_their_writer_has_ended(tmp_path: Path) -> None:
    for name, age in (("old", 2 * 3600), ("new", 60)):
        (tmp_path / f".xla_wasm-{name}.tmp").write_bytes(b"\0asm")
        os.utime(tmp_path / f".xla_wasm-{name}.tmp", (time.time() - age,) * 2)
    Cache(tmp_path).put("k", artifact(1))
    assert {p.name for p in tmp_path.iterdir()} == {"k.wasm", ".xla_wasm-new.tmp"}


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    f = jit(lambda x: x + 1, cache=tmp_path / "file" / "below")
    np.testing.assert_array_equal(f(X), X + 1)
    assert f.stats() == (1, 1, 0, 1)


def test_threads_put_and_get_at_once(tmp_path: Path) -> None:
    made = [artifact(i, 500) for i in range(4)]
    kept = Cache(tmp_path, sum(made[1].sizes) * 3)

    def work(i: int) -> None:
        kept.put(f"k{i % 4}", made[i % 4])
        got = kept.get(f"k{(i + 1) % 4}")
        assert got is None or got == made[(i + 1) % 4]

    with ThreadPoolExecutor(8) as pool:
        [*pool.map(work, range(60))]


def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """They say what an artifact depends on, and nothing else."""

    def elsewhere(x: Any) -> Any:
        return jnp.sin(x) + 1

    def f(x: Any) -> Any:
        return jnp.sin(x) + 1

    def named(y: Any) -> Any:
        return jnp.sin(y) + 1

    def another(x: Any) -> Any:
        return jnp.sin(x) + 2

    def of(fn: Any, x: Any = X, **options: Any) -> str:
        fn.__name__ = fn.__qualname__ = "f"
        return key_of(trace(fn, (x,), {}, Tracing()), Options(**options))

    key = of(f)
    assert of(elsewhere) == key
    others = [
        of(f, X[0]),
        of(another),
        of(named),
        of(lambda x: (jnp.sin(x) + 1,)),
        of(f, target="relaxed-simd"),
        of(f, weights="x"),
    ]
    monkeypatch.setattr(cache, "_compiler", lambda: "another")
    others.append(of(f))
    assert len({key, *others}) == len(others) + 1
