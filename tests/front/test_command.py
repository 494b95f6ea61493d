"""Commands: artifacts that are programs of WASI preview 1, which read their inputs from files and write their
results."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import xla_wasm
from tests.support.bodies import damaged, load_npy, npy, npz
from tests.support.embedding_cases import RANGED
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.wasi_commands import SUM, TWO, A, B, command, identity, run
from xla_wasm import ArtifactError, UnsupportedError
from xla_wasm.command import cli
from xla_wasm.hlo.types import ARRAY_TYPES


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    made = command(identity("f32[1]"))
    done = run(made, tmp_path / "x", "-", "--repeat", "0", stdin=b"1")
    assert done.code == 2 and done.err.startswith("m: --repeat: this is at least 1\n")
    done = run(made, tmp_path / "x", "-", "-o", "y.csv", stdin=b"1")
    assert done.code == 2 and "y.csv: this has to end in .npy, .npz, .json, .bin or .raw" in done.err
    assert run(made, tmp_path / "x", "--", "-x.json", files={"-x.json": b"[1]"}).json == {"result": [1]}


def test_results(tmp_path: Path) -> None:
    two = command(TWO)
    files = {"a.npy": A, "b.npy": B}

    def done(*options: str) -> Any:
        return run(two, tmp_path / "x", "a.npy", "b.npy", *options, files=files)

    assert done("--json").json == done().json == {"result.0": SUM.tolist(), "result.1": (-B).tolist()}
    assert done("--table").out.decode() == (
        "result.0  f32[2,3]  [[1.0,-1.875,1000.25],[1.375,-1.5,1000.625]]\nresult.1  s32[3]  [-1,2,-1000]\n"
    )
    for folder in ("out/", "new/"):
        made = done("-o", folder)
        assert np.array_equal(made.array(f"{folder}result.0.npy"), SUM) and np.array_equal(
            made.array(f"{folder}result.1.npy"), -B
        )
        assert made.out == b""
    assert json.loads((done("-o", "y.json").folder / "y.json").read_bytes()) == {
        "result.0": SUM.tolist(),
        "result.1": (-B).tolist(),
    }
    with np.load(io.BytesIO(done("-o", "-").out)) as archive:
        assert np.array_equal(archive["result.0"], SUM)
    several = done("--output=y.npy")
    assert (several.code, several.err) == (
        2,
        "two: y.npy: there are several results: name a .npz file, a .json file or a folder, as in -o out/\n",
    )
    one = run(command(identity("f32[2,3]")), tmp_path / "x", "a.npy", "-o", "-", files=files)
    assert np.array_equal(load_npy(one.out), A)
    wide = run(
        command(identity("f32[40]")), tmp_path / "x", "-", "--table", stdin=" ".join(map(str, range(-10, 30))).encode()
    )
    assert wide.out.decode() == "result  f32[40]  min -10.0, max 29.0, mean 9.5\n"
    empty = run(command(identity("f32[0]")), tmp_path / "x", "-", "--table", stdin=b"[]")
    assert empty.out.decode() == "result  f32[0]  []\n"


def test_layouts_and_names(tmp_path: Path) -> None:
    text = """HloModule "l", entry_computation_layout={(f32[2,3]{0,1})->f32[3,2]{0,1}}

ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  ROOT y = f32[3,2]{0,1} transpose(x), dimensions={1,0}
}
""".replace('"l"', "l")
    made = command(text)
    assert np.array_equal(run(made, tmp_path / "x", "a.npy", "-o", "y.npy", files={"a.npy": A}).array("y.npy"), A.T)
    assert run(made, tmp_path / "x", "a.bin", files={"a.bin": A.tobytes()}).json == {"result": A.T.tolist()}


def test_what_the_program_says_of_itself(tmp_path: Path) -> None:
    two = command(TWO)
    shown = run(two, tmp_path / "x", "--signature").json
    assert shown == {
        "name": "two",
        "parameters": [
            {"name": "a", "kind": "input", "type": "f32", "shape": [2, 3]},
            {"name": "b", "kind": "input", "type": "s32", "shape": [3]},
        ],
        "results": [
            {"name": "result.0", "kind": "output", "type": "f32", "shape": [2, 3]},
            {"name": "result.1", "kind": "output", "type": "s32", "shape": [3]},
        ],
    }
    for option in ("--help", "-h"):
        text = run(two, tmp_path / "x", "no.npy", option)
        assert text.code == 0 and text.out.startswith(b"usage: wasmtime run --dir . two.wasm ")
        assert b"\n  a  f32[2,3]\n  b  s32[3]\n" in text.out and all(len(line) <= 132 for line in text.out.splitlines())
    missing = run(two, tmp_path / "x", "a.npy", files={"a.npy": A})
    assert (
        missing.code == 2
        and missing.err.startswith("two: b: this input is missing\n\nusage: ")
        and "  b  s32[3]\n" in missing.err
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a.npy", "b.npy", "a.npy"], 2, "two: a.npy: the model takes no further input\n\nusage: "),
        (["a.npy", "--z", "b.npy"], 2, "two: --z: there is no such option or input\n\nusage: "),
        (["a.npy", "--b"], 2, "two: --b: there is no such option, or its value is missing\n\nusage: "),
        (["--a", "a.npy", "--a", "a.npy"], 2, "two: a: this input is given twice\n\nusage: "),
        (["a.npy", "b.npy", "--repeat", "x"], 2, "two: --repeat: a whole number is wanted\n\nusage: "),
        (["a.npy", "missing.npy"], 1, "two: missing.npy: there is no such file\n"),
        (
            ["a.npy", "/etc/passwd"],
            1,
            "two: /etc/passwd: no folder was opened in which this lies; try `wasmtime run --dir .`\n",
        ),
        (["a.npy", "../a.npy"], 1, "two: ../a.npy: this file cannot be read\n"),
        (["a.npy", "b.npy", "-o", "no/y.npz"], 1, "two: no/y.npz: its folder does not exist\n"),
        (["b.npy", "a.npy"], 1, "two: b.npy: input a f32[2,3]: this has s32[3]\n"),
        (["a.npy", "x.npy"], 1, "two: x.npy: input b s32[3]: this has s32[2]\n"),
        (["a.npy", "u.npy"], 1, "two: u.npy: input b s32[3]: this has another type[3]\n"),
        (["a.npy", "b.txt"], 1, "two: b.txt: input b s32[3]: this is not a number\n"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    files: dict[str, Any] = {
        "a.npy": A,
        "b.npy": B,
        "x.npy": B[:2],
        "b.txt": b"what",
        "u.npy": np.array(["a", "b", "c"]),
    }
    done = run(command(TWO), tmp_path / "x", *arguments, files=files)
    assert done.code == code and done.err.startswith(message), done.err


def test_random_inputs_and_repeated_runs(tmp_path: Path) -> None:
    two = command(TWO)
    first, again = (run(two, tmp_path / "x", "--random").json for _ in range(2))
    assert first == again and first != run(two, tmp_path / "x", "--seed", "7").json
    timed = run(two, tmp_path / "x", "--random", "--repeat", "5")
    assert timed.json == first and timed.err.startswith("two: 5 runs: fastest ")
    drawn = np.array(run(command(identity("f32[4000]")), tmp_path / "x", "--random").json["result"])
    assert abs(drawn.mean()) < 0.1 and abs(drawn.std() - 1) < 0.1
    for element_type in ARRAY_TYPES:
        assert run(command(identity(f"{element_type}[64]")), tmp_path / "x", "--random").code == 0


def test_batches(tmp_path: Path) -> None:
    two = command(TWO)
    files: dict[str, Any] = {
        "b.npy": B,
        **{f"imgs/{i}.npy": A + i for i in (3, 1, 10, 2)},
        "imgs/x.txt": b"no",
        "imgs/.npy": b"no",
    }
    done = run(two, tmp_path / "x", "--batch", "imgs/*.npy", "--b", "b.npy", files=files)
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["file"] for line in lines] == ["imgs/1.npy", "imgs/10.npy", "imgs/2.npy", "imgs/3.npy"]
    assert lines[1]["result.0"] == (SUM + 10).tolist()
    written = run(two, tmp_path / "x", "--batch", "imgs/?.npy", "--b", "b.npy", "-o", "out", files=files)
    assert (
        np.array_equal(written.array("out/2.result.0.npy"), SUM + 2)
        and not (written.folder / "out" / "10.result.0.npy").exists()
    )
    one = run(command(identity("f32[2,3]")), tmp_path / "x", "--batch", "imgs/*.npy", "-o", "out/", files=files)
    assert np.array_equal(one.array("out/10.npy"), A + 10)
    none = run(two, tmp_path / "x", "--batch", "imgs/*.png", "--b", "b.npy", files=files)
    assert (none.code, none.err) == (1, "two: imgs/*.png: no file fits\n")
    # More than the program reads of a folder at once, with names that end anywhere in what it reads.
    many = {f"many/{i:03}{'-' * (150 + i % 90)}.txt": str(i).encode() for i in range(200)}
    done = run(command(identity("s32[]")), tmp_path / "x", "--batch", "many/*", files=many)
    assert [json.loads(line)["result"] for line in done.out.splitlines()] == list(range(200))


def test_infeed_and_outfeed(tmp_path: Path) -> None:
    text = """HloModule feeds

ENTRY e {
  t = token[] after-all()
  i = ((f32[3], s32[]), token[]) infeed(t)
  v = (f32[3], s32[]) get-tuple-element(i), index=0
  x = f32[3] get-tuple-element(v), index=0
  n = s32[] get-tuple-element(v), index=1
  u = token[] get-tuple-element(i), index=1
  j = (f32[3], token[]) infeed(u)
  y = f32[3] get-tuple-element(j), index=0
  w = token[] get-tuple-element(j), index=1
  z = f32[3] add(x, y)
  o = token[] outfeed(z, w), outfeed_shape=f32[3]
  p = token[] outfeed(n, o), outfeed_shape=s32[]
  ROOT r = s32[] negate(n)
}
"""
    made = command(text)
    files = {
        "0.npz": npz(a=np.array([1, 2, 3], np.float32), b=np.array(7, np.int32)),
        "1.npy": np.array([10, 20, 30], np.float32),
    }
    done = run(
        made, tmp_path / "x", "--infeed", "0.npz", "--infeed=1.npy", "--outfeed", "out/", "--repeat", "2", files=files
    )
    assert done.json == {"result": -7}
    assert done.array("out/0.npy").tolist() == [11, 22, 33] and done.array("out/1.npy") == 7
    short = run(made, tmp_path / "x", "--infeed", "0.npz", files=files)
    assert (short.code, short.err) == (3, "feeds: the run needs a further item of infeed: --infeed FILE\n")
    wrong = run(made, tmp_path / "x", "--infeed", "1.npy", files=files)
    assert (wrong.code, wrong.err) == (
        1,
        "feeds: 1.npy: the item has other arrays: an .npz file has to have them all, in order\n",
    )


def test_what_needs_a_host_is_no_command() -> None:
    call = """HloModule c

ENTRY e {
  x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="mine"
}
"""
    with pytest.raises(
        UnsupportedError, match="y: it calls a function of the host, which a command cannot do; compile it as a module"
    ):
        command(call, host_calls=("mine",))


def test_hosts_say_what_a_command_is(tmp_path: Path) -> None:
    made = command(TWO)
    with pytest.raises(
        ArtifactError,
        match="'two' is compiled as a command, which runs by itself under a WebAssembly runtime; compile it without",
    ):
        xla_wasm.load(made)
    path = made.save(tmp_path / "two.wasm")
    shown = CliRunner().invoke(cli.app, ["inspect", str(path)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and "command" in shown.output and "wasi_snapshot_preview1.fd_read" in shown.output
    script = (
        f"import {{ load }} from {json.dumps((ROOT / 'web' / 'xla_wasm.js').as_uri())}; await "
        f"load({json.dumps(str(path))});"
    )
    failed = subprocess.run(
        [node_for("simd128"), "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60
    )
    assert (
        "ArtifactError: 'two' is compiled as a command, which runs by itself; compile it without --kind for a host"
        in failed.stderr
    )


def test_dynamic_dimensions(tmp_path: Path) -> None:
    text = """HloModule d

ENTRY e {
  x = f32[<=5,4] parameter(0)
  ROOT y = f32[<=5,4] negate(x)
}
"""
    made = command(text)
    for rows in (0, 1, 3, 5):
        x = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
        y = run(made, tmp_path / "x", "x.npy", "-o", "y.npy", files={"x.npy": x}).array("y.npy")
        assert y.shape == (rows, 4) and np.array_equal(y, -x)
        assert run(made, tmp_path / "x", "-", stdin=json.dumps(x.tolist()).encode()).json == {"result": (-x).tolist()}
        assert run(made, tmp_path / "x", "x.bin", files={"x.bin": x.tobytes()}).json == {"result": (-x).tolist()}
    long = run(made, tmp_path / "x", "x.npy", files={"x.npy": np.zeros((6, 4), np.float32)})
    assert (long.code, long.err) == (1, "d: x.npy: input x f32[<=5,4]: this has f32[6,4]\n")
    assert run(made, tmp_path / "x", "x.bin", files={"x.bin": bytes(20)}).code == 1


def test_ranges_of_sizes(tmp_path: Path) -> None:
    made = command(RANGED)
    for rows in (0, 3, 4, 8, 9):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        read = run(made, tmp_path / "x", "x.npy", files={"x.npy": x})
        lists = run(made, tmp_path / "x", "-", stdin=json.dumps(x.tolist()).encode())
        raw = run(made, tmp_path / "x", "x.bin", files={"x.bin": x.tobytes()})
        if rows in (4, 8):
            assert read.json == lists.json == raw.json == {"result": (-x).tolist()}
        else:
            assert (read.code, read.err) == (1, f"ranged: x.npy: input x f32[4..8,3]: this has f32[{rows},3]\n")
            assert lists.code == raw.code == 1 and "input x f32[4..8,3]: this has [" in lists.err, (lists, raw)


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    """Whatever a file holds, the program ends with a message, and neither traps nor runs on for ever."""
    rng = np.random.default_rng(0)
    two = command(TWO)
    goods = {
        "npz": npz(a=A, b=B),
        "deflated": npz(True, a=A, b=B),
        "npy": npy(A),
        "json": json.dumps(A.tolist()).encode(),
    }
    codes = set()
    for turn in range(600):
        kind = list(goods)[turn % 4]
        data = damaged(goods[kind], rng, cut=turn % 3 == 0)
        given = ["x"] if kind in ("npz", "deflated") else ["x", "b.npy"]
        done = run(two, tmp_path / "x", *given, files={"x": data, "b.npy": B})
        assert done.code in (0, 1, 2) and (done.code == 0) == (not done.err), (turn, done)
        codes.add(done.code)
    assert codes >= {0, 1}
