"""The command line's data: arrays by name, standard input and output, JSON, folders that are made, and text that nobody
trusts."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import xla_wasm
from tests.support.command_line import Cli
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import BIAS, SIDECAR, toy, toy_manifest
from xla_wasm import HloModule, Options
from xla_wasm.command import completion, report
from xla_wasm.command.cli import app
from xla_wasm.command.running import file_names
from xla_wasm.dataclass import replace
from xla_wasm.site import pages

MODEL = ROOT / "examples" / "digits" / "digits.hlo.pb"
TEXT = """HloModule layer, frontend_attributes={xla_wasm_parameters="[\\"x\\",\\"params.w\\",\\"params.b\\"]"}

ENTRY e {
  x = f32[2] parameter(0), metadata={op_name="x"}
  w = f32[2] parameter(1), metadata={op_name="params.w"}
  b = f32[2] parameter(2), metadata={op_name="params.b"}
  m = f32[2] multiply(x, w)
  s = f32[2] add(m, b)
  ROOT r = (f32[2], f32[2]) tuple(s, m)
}
"""
X, W, B = np.float32([1, 2]), np.float32([3, 4]), np.float32([0.5, 0.25])


def test_arrays_of_64_bits(tmp_path: Path, xla_wasm: Cli) -> None:
    """NumPy's default types, wherever files come in, are converted as the inputs of `jax.jit`."""
    text = TEXT.replace("x = f32[2] parameter(0)", "i = s32[2] parameter(0)").replace(
        "  m = ", "  x = f32[2] convert(i)\n  m = "
    )
    Path("wide.hlo").write_text(text)
    np.save("x.npy", np.array([1, 2]))
    np.save("w.npy", np.asfortranarray(W).astype(">f8"))
    np.savez("params.npz", w=W.astype(np.float64), b=B.astype(np.float64))
    for settings in (["--set", "params=params.npz"], ["--set", "params.w=w.npy", "--set", "params=params.npz"]):
        code, out, err = xla_wasm("run", "wide.hlo", "-i", "x.npy", *settings, "--output", "out.npz")
        assert code == 0, (out, err)
        assert np.load("out.npz")["result.0"].tolist() == [3.5, 8.25]
    assert xla_wasm("check", "wide.hlo", "-i", "x.npy", "-i", "params.w=w.npy", "-i", "params.b=w.npy")[0] == 0


@pytest.mark.parametrize(
    ("first", "shown", "facts"),
    [
        ([], "min -4999, max -0, mean -2499.5", {"min": -4999, "max": 0, "mean": -2499.5}),
        ([np.nan], "min -4999, max -1, mean -2500 of finite ones; 1 NaN", {"nan": 1}),
        ([np.inf, -np.inf, np.nan], "min -4999, max -3, mean -2501 of finite ones; 1 NaN; 2 infinite", {"inf": 2}),
        ([np.nan] * 5000, "5000 NaN", {"nan": 5000}),
    ],
)
def test_what_is_shown_of_long_results(
    xla_wasm: Cli, tmp_path: Path, first: list[float], shown: str, facts: dict[str, float]
) -> None:
    """One NaN hides nothing of the rest."""
    x = np.arange(5000, dtype=np.float32)
    x[: len(first)] = first
    np.save("x.npy", x)
    Path("m.hlo").write_text(
        "HloModule m\nENTRY e {\n  x = f32[5000] parameter(0)\n  ROOT y = f32[5000] negate(x)\n}\n"
    )
    code, out, err = xla_wasm("run", "m.hlo", "-i", "x.npy")
    assert code == 0 and shown in " ".join(out.split()), (out, err)
    code, out, err = xla_wasm("run", "m.hlo", "-i", "x.npy", "--json")
    (said,) = json.loads(out)["results"]
    assert code == 0 and said.items() >= facts.items(), (out, err)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A module, an artifact of it with weights, and arrays in files of all kinds."""
    (tmp_path / "layer.hlo").write_text(TEXT)
    xla_wasm.compile(HloModule.from_text(TEXT), Options(weights=(1, 2))).save(tmp_path / "layer.wasm")
    for name, array in {"x": X, "w": W, "b": B}.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savez(tmp_path / "all.npz", x=X, **{"params.w": W, "params.b": B})
    np.savez(tmp_path / "params.npz", w=W, b=B)
    np.savez(tmp_path / "unnamed.npz", X, W, B)
    np.savez(tmp_path / "others.npz", u=X, v=X)
    save_tensors(tmp_path / "params.safetensors", w=W.astype(np.float16), b=B, unused=X)
    save_tensors(tmp_path / "full.safetensors", **{"params.w": W, "params.b": B})
    return tmp_path


def save_tensors(path: Path, **arrays: Any) -> None:
    header, data = {}, b""
    for name, array in arrays.items():
        dtype = {"float16": "F16", "float32": "F32"}[array.dtype.name]
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def results(path: Path) -> list[list[float]]:
    return [np.load(path / f"result.{i}.npy").tolist() for i in (0, 1)]


WANTED = [(X * W + B).tolist(), (X * W).tolist()]


@pytest.mark.parametrize(
    "options",
    [
        "-i x.npy -i w.npy -i b.npy",
        "-i params.b=b.npy -i x=x.npy -i params.w=w.npy",
        "-i params.w=w.npy -i x.npy -i b.npy",
        "-i all.npz",
        "-i x.npy -i full.safetensors",
        "-i unnamed.npz",
        "-i x.npy --set params.w=w.npy --set params.b=b.npy",
        "-i x.npy --set params=params.npz",
        "--set all.npz",
        "-i x.npy --set params=params.safetensors",
        "-i x.npy --set full.safetensors",
    ],
)
def test_inputs_and_weights_of_a_module(xla_wasm: Cli, folder: Path, options: str) -> None:
    code, out, err = xla_wasm("run", "layer.hlo", *options.split(), "--output", "new/out")
    assert (code, err) == (0, "") and "2 results written to new/out/: result.0.npy, result.1.npy" in out
    assert results(folder / "new" / "out") == WANTED
    if "--set" not in options:
        assert xla_wasm("check", "layer.hlo", *options.split())[0] == 0


@pytest.mark.parametrize(
    "options",
    [
        "--set params.w=w.npy --set params.b=b.npy",
        "--set params=params.npz",
        "--set all.npz",
        "--set params=params.safetensors",
    ],
)
def test_weights_of_an_artifact(xla_wasm: Cli, folder: Path, options: str) -> None:
    code, _, err = xla_wasm("run", "layer.wasm", "-i", "x.npy", *options.split(), "--output", "out")
    assert (code, err) == (0, "") and results(folder / "out") == WANTED


WRONG = {
    "-i x.npy": "error: 2 weights are missing, params.w (f32[2]) the first: --set params.w=FILE for each, or --set "
    "FILE for an .npz or a "
    "safetensors file that has them by name; --random-inputs makes them up\n",
    "-i x.npy --set params.w=w.npy": "error: a weight is missing: --set params.b=FILE, of type f32[2]; "
    "--random-inputs makes it up\n",
    "--set params=params.npz": "error: an input is missing: -i x=X.NPY, of type f32[2]; --random-inputs makes up what "
    "is not given\n",
    "-i y=x.npy": "error: --input y=x.npy: there is no input called 'y': there are x\n",
    "-i z.npy": "error: --input z.npy: there is no such file; did you mean x.npy?\n",
    "-i x=": "error: --input x=: the name of a file is missing\n",
    "-i .": "error: --input .: that is a folder\n",
    "-i x.npy -i x=x.npy": "error: --input x=x.npy: 'x' has been given before: leave one of them out\n",
    "-i x.npy -i all.npz": "error: --input all.npz is one too many: the module takes 1 input (x f32[2]), leave it "
    "out\n",
    "-i others.npz": "error: others.npz holds u, v, and the module's inputs are x: name its arrays after them, or "
    "give each with "
    "--input NAME=X.NPY\n",
    "-i unnamed.npz": "error: unnamed.npz holds 3 arrays, and there is 1 input for them: give a file with as many\n",
    "-i x.npy --set w.npy": "error: --set w.npy: a .npy file has one array: say which weight or state it is, as in "
    "--set "
    "params.w=w.npy (params.w, params.b)\n",
    "-i x.npy --set params=w.npy": "error: --set params=w.npy: a .npy file has one array: say which weight or state "
    "it is, as in "
    "--set params.w=w.npy (params.w, params.b)\n",
    "-i x.npy --set params.npz": "error: --set params.npz: no array of the file has the name of a weight or state: it "
    "has w, b, and "
    "there are params.w, params.b; --set PREFIX=FILE puts 'PREFIX.' in front of its names\n",
    "-i x.npy --set layers=params.npz": "error: --set layers=params.npz: there is no weight or state called 'layers': "
    "there are "
    "params.w, params.b\n",
    "-i - -i -": "error: standard input is named twice, and can be read once: give the other as a file\n",
}


@pytest.mark.parametrize("options", WRONG)
def test_what_is_wrong_with_them(xla_wasm: Cli, folder: Path, options: str) -> None:
    assert xla_wasm("run", "layer.wasm", *options.split()) == (2, "", WRONG[options])


def command(*arguments: object, folder: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "xla_wasm", *map(str, arguments)]
    return subprocess.run(words, input=stdin, capture_output=True, cwd=folder, env=environment, timeout=300)


def test_standard_input_and_output(folder: Path) -> None:
    made = command("compile", "-", "-o", "-", "--weight", 1, "--weight", 2, folder=folder, stdin=TEXT.encode())
    assert (
        made.returncode == 0
        and made.stdout == (folder / "layer.wasm").read_bytes()
        and b", compiled in " in made.stderr
    )
    ran = command("run", "-", "-i", "x.npy", "--set", "all.npz", "--output", "-", folder=folder, stdin=made.stdout)
    assert ran.returncode == 0 and b"result.0" in ran.stderr
    with np.load(io.BytesIO(ran.stdout)) as arrays:
        assert [arrays[name].tolist() for name in ("result.0", "result.1")] == WANTED
    for name in ("x.npy", "all.npz"):
        options = ("--set", "all.npz", "--output", "out.npz", "--json")
        ran = command("run", "layer.wasm", "-i", "-", *options, folder=folder, stdin=(folder / name).read_bytes())
        assert json.loads(ran.stdout)["files"] == ["out.npz"] and ran.stderr == b""
        with np.load(folder / "out.npz") as arrays:
            assert [arrays[name].tolist() for name in arrays.files] == WANTED
    text = command("convert", "-", "-o", "-", folder=folder, stdin=TEXT.encode())
    assert text.stdout.startswith(b"HloModule layer") and text.stderr == b""
    assert command("layout", "f32[2]", "--svg", "-", folder=folder).stdout.startswith(b"<svg")
    broken = command("inspect", "-", folder=folder, stdin=b"hello\n")
    assert broken.returncode == 2 and broken.stderr.startswith(b"error: standard input: ")
    assert command("run", "layer.wasm", "-i", "-", folder=folder, stdin=b"").stderr.startswith(
        b"error: standard input is empty"
    )
    unnamed = command(
        "run", "layer.hlo", "-i", "-", "--output", "out", folder=folder, stdin=(folder / "unnamed.npz").read_bytes()
    )
    assert unnamed.returncode == 0 and results(folder / "out") == WANTED


def test_one_result_in_one_file(xla_wasm: Cli, folder: Path) -> None:
    (folder / "one.hlo").write_text(
        "HloModule one\n\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)\n}\n"
    )
    code, out, _ = xla_wasm("run", "one.hlo", "-i", "x.npy", "--output", "deep/y.npy")
    assert code == 0 and "1 result written to deep/y.npy\n" in out and np.load("deep/y.npy").tolist() == [-1, -2]
    code, _, err = xla_wasm("run", "layer.hlo", "-i", "all.npz", "--output", "y.npy")
    assert code == 2 and "there are 2 results, and a .npy file holds one: name a folder, or an .npz file" in err
    code, _, err = xla_wasm("run", "one.hlo", "-i", "x=x.npy", "--output", "./x.npy")
    assert code == 2 and "--output ./x.npy would overwrite x.npy, which is read" in err


def test_names_of_files_lead_nowhere_else() -> None:
    names = [
        "logits",
        "../../etc/passwd",
        ".",
        "..",
        "",
        "a/b",
        "a b",
        "\x1b[31m",
        "A",
        "a",
        "n" * 1000,
        "\ud800",
        "..\\x",
        "~",
    ]
    made = file_names(names)
    assert made[:3] == ["logits", "%2E.%2F..%2Fetc%2Fpasswd", "%2E"] and len({name.lower() for name in made}) == len(
        names
    )
    assert all(
        name.isascii() and name.isprintable() and not {*'/\\:*?"<>|~ '} & {*name} and name[0] != "." for name in made
    )
    assert max(map(len, made)) <= 200 and made[8:10] == ["A", "a.9"]


def test_states_and_weights_are_set_from_one_file(xla_wasm: Cli, tmp_path: Path) -> None:
    toy().save(tmp_path / "toy.wasm")
    np.savez(tmp_path / "held.npz", w=np.full((2, 3), 3, np.float32), count=np.int32(4))
    np.savez(tmp_path / "in.npz", k=np.int64(1), x=np.ones((2, 3), np.float32), more=np.zeros(100))
    code, _, err = xla_wasm("run", "toy.wasm", "-i", "in.npz", "--set", "held.npz", "--output", "out")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(np.load("out/y.npy"), 2 + 3 + BIAS + SIDECAR)
    assert np.load("out/k_next.npy") == 2 and {path.name for path in Path("out").iterdir()} == {
        "y.npy",
        "k_next.npy",
        "positive.npy",
    }


def test_compile_lists_what_it_wrote(xla_wasm: Cli, folder: Path) -> None:
    def listed(*options: object) -> list[str]:
        code, out, err = xla_wasm("compile", MODEL, *options)
        assert (code, err) == (0, "")
        names = [line.split("  ")[0] for line in out.splitlines()]
        facts = json.loads(xla_wasm("compile", MODEL, *options, "--json")[1])
        assert [entry["path"] for entry in facts["files"]] == names and facts["name"] == "jit_digits"
        for entry in facts["files"]:
            assert Path(entry["path"]).is_dir() or Path(entry["path"]).stat().st_size == entry["bytes"]
        return names

    assert listed("-o", "a/b/m.wasm") == ["a/b/m.wasm"]
    assert listed("-o", "m.wasm", "--sidecar") == ["m.wasm", "m.weights"]
    assert listed("-o", "js/m.wasm", "--js", "--sidecar") == ["js/m.wasm", "js/m.weights", "js/m.js", "js/m.d.ts"]
    assert listed("-o", "c/m.wasm", "--js", "--copy-loader") == ["c/m.wasm", "c/m.js", "c/m.d.ts", "c/xla-wasm/"]
    worker = listed("-o", "w/m.wasm", "--kind", "worker", "--sidecar")
    assert worker == ["w/m.wasm", "w/m.js", "w/m.d.ts", "w/assets/m.weights.0", "w/xla-wasm/"]
    everything = {str(path) for path in Path("w").rglob("*") if path.is_file() and "xla-wasm" not in path.parts}
    assert everything == {*worker[:-1]}


@pytest.mark.parametrize(
    "command", [["serve"], ["serve-model", str(MODEL)], ["serve-model", str(MODEL), "--workers", "2"]]
)
def test_a_server_says_in_one_line_of_json_that_it_can_be_asked(command: list[str], tmp_path: Path) -> None:
    """And opens no browser then."""
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\ntouch {tmp_path}/opened\n")
    browser.chmod(0o755)
    arguments = [sys.executable, "-m", "xla_wasm", *command, "--port", "0", "--json"]
    environment = os.environ | {"BROWSER": f"{browser} %s", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=tmp_path, env=environment, text=True) as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        with urllib.request.urlopen(facts["url"]) as answer:
            assert answer.status == 200
        model = {"model": "jit_digits", "workers": int(command[-1]) if "--workers" in command else 1}
        assert facts == {"url": facts["url"], "pid": process.pid} | (model if command[1:] else {})
        process.terminate()
        assert process.stdout.read() == ""
    assert not (tmp_path / "opened").exists()


def test_the_written_site_as_json(xla_wasm: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "write", lambda path: [f"the search page: nothing for {path}"])
    code, out, err = xla_wasm("serve", "--write", "site", "--json")
    assert (code, err, json.loads(out)) == (
        0,
        "",
        {"folder": "site", "left_out": ["the search page: nothing for site"]},
    )


def test_facts_as_json(xla_wasm: Cli, folder: Path) -> None:
    def facts(*arguments: object, code: int = 0) -> Any:
        done, out, _ = xla_wasm(*arguments, "--json")
        assert done == code
        return json.loads(out, parse_constant=lambda name: pytest.fail(name))

    run = facts("run", "layer.hlo", "-i", "all.npz", "--output", "out", "-n", 3, "--profile")
    assert [(x["name"], x["type"], x["value"]) for x in run["results"]] == [
        (f"result.{i}", "f32[2]", WANTED[i]) for i in (0, 1)
    ]
    assert (
        run["files"] == ["out/result.0.npy", "out/result.1.npy"]
        and len(run["seconds"]) == 3
        and run["profile"][0][0]["seconds"] >= 0
    )
    np.save("x.npy", np.float32([np.nan, -np.inf]))
    special = facts("run", "layer.hlo", "-i", "x.npy", "-i", "w.npy", "-i", "b.npy")
    assert special["results"][0]["value"] == ["NaN", "-Infinity"]
    several = facts("run", "layer.hlo", "--random-inputs", "--replicated", "--devices", 2)
    assert [(x["device"], x["name"]) for x in several["results"]] == [
        (d, f"result.{i}") for d in (0, 1) for i in (0, 1)
    ]
    check = facts("check", "layer.hlo")
    assert check["agree"] is True and [x["differing"] for x in check["results"]] == [0, 0]
    formats = facts("check", "layer.hlo", "--weight", 1, "--weight-format", "f16")
    assert formats["agree"] is True and formats["results"][0]["name"] == "result.0"
    inspect = facts("inspect", "layer.wasm")
    assert [(x["name"], x["kind"]) for x in inspect["parameters"]] == [
        ("x", "input"),
        ("params.w", "weight"),
        ("params.b", "weight"),
    ]
    assert (
        inspect["compiled"]["imports"] == [] and facts("inspect", "layer.hlo")["module"]["operations"]["multiply"] == 1
    )
    (folder / "odd.hlo").write_text(
        'HloModule odd\nENTRY e { x = f32[2] parameter(0)  ROOT y = f32[2] custom-call(x), custom_call_target="odd" }\n'
    )
    assert facts("inspect", "odd.hlo", code=2)["module"]["unsupported"]
    assert facts("convert", "layer.hlo", "-o", "layer.pb")["files"][0]["path"] == "layer.pb"
    assert facts("layout", "f32[3,5]{1,0:T(2,2)}") == {
        "shape": "f32[3,5]{1,0:T(2,2)}",
        "elements": 15,
        "positions": 24,
        "bytes": 96,
    }
    assert {x["name"] for x in facts("ops")} >= {"add", "gather"} and facts("ops", "gather")["attributes"]


def test_json_of_check_that_isolates(xla_wasm: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = xla_wasm("check", "layer.hlo", "--isolate", "--json")
    assert code == 0 and json.loads(out)["agree"] is True


def test_folders_are_made(xla_wasm: Cli, folder: Path) -> None:
    for arguments in (
        ("compile", "layer.hlo", "-o", "a/b/c.wasm"),
        ("convert", "layer.hlo", "-o", "d/e/c.pb"),
        ("layout", "f32[2]", "--svg", "f/g/c.svg"),
        ("run", "layer.hlo", "-i", "all.npz", "--output", "h/i/all.npz"),
    ):
        assert xla_wasm(*arguments)[0] == 0 and (folder / arguments[-1]).is_file()
    code, _, err = xla_wasm("compile", "layer.hlo", "-o", "x.npy/c.wasm")
    assert (code, err) == (
        2,
        "error: x.npy is a file, and a folder of that name is to be written to: choose another name\n",
    )
    assert not list(folder.rglob("*.tmp"))
    code, _, _ = xla_wasm("compile", "layer.hlo", "-o", "never/c.wasm", "--weight", "nothing")
    assert code == 2 and not (folder / "never").exists()


EVIL = "\x1b[31mred\x07\r\u202e[bold]x[/bold]"


def write_evil_module(path: Path) -> None:
    module = HloModule.from_text(TEXT)
    module.frontend_attributes.clear()
    parameter = module.entry.parameters[0]
    parameter.name = EVIL
    parameter.metadata = replace(parameter.metadata, op_name=EVIL)
    path.write_bytes(module.to_proto())


def test_names_in_files_are_shown_and_not_obeyed(xla_wasm: Cli, tmp_path: Path) -> None:
    manifest = toy_manifest()
    manifest["name"] = manifest["parameters"][0]["name"] = manifest["results"][0]["name"] = manifest["parameters"][1][
        "name"
    ] = EVIL
    for init in manifest["inits"]:
        init["name"] = EVIL if init["name"] == "w" else init["name"]
    manifest["producer"] = EVIL
    toy(manifest=manifest).save(tmp_path / "evil.wasm")
    np.savez(tmp_path / "evil.npz", **{EVIL: np.zeros(3)})
    write_evil_module(tmp_path / "evil.pb")
    for arguments in (
        ("inspect", "evil.wasm"),
        ("inspect", "evil.wasm", "--json"),
        ("run", "evil.wasm"),
        ("run", "evil.wasm", "--random-inputs", "--profile"),
        ("run", "evil.wasm", "--random-inputs", "--output", "out"),
        ("run", "evil.wasm", "-i", "evil.npz"),
        ("run", "evil.wasm", "--set", "evil.npz"),
        ("run", "evil.wasm", "--set", f"{EVIL}=evil.npz"),
        ("dump", "evil.wasm", "--stage", "manifest"),
        ("compile", "evil.pb", "--weight", "nothing"),
        ("check", "evil.pb"),
        ("run", "evil.pb"),
    ):
        _, out, err = xla_wasm(*arguments)
        assert out + err
        for c in "\x1b\x07\r\u202e":
            assert c not in out + err, (arguments, out, err)
        assert "[bold]x[/bold]" in out + err or arguments[0] != "inspect"


def shell(name: str, script: str, tmp_path: Path) -> str:
    """Returns the output of a script in a shell, in a folder with the completion in a file. Errors fail the test."""
    (tmp_path / "completion").write_text(completion.script(name, app))
    done = subprocess.run([name, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


COMPLETED = {
    "xla-wasm com": {"compile", "completion"},
    "xla-wasm compile --tu": {"--tune"},
    "xla-wasm compile --target ": {"simd128", "relaxed-simd"},
    "xla-wasm compile --kind w": {"worker"},
    "xla-wasm compile mod": {"model.hlo"},
    "xla-wasm compile x -o mod": {"model.hlo"},
    "xla-wasm run x --output mod": {"model.hlo"},
    "xla-wasm completion ": {"bash", "fish", "zsh"},
    "xla-wasm serve-model --ba": {"--batch-deadline"},
    "xla-wasm dump --stage man": {"manifest"},
}


def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "model.hlo").touch()
    script = ["source ./completion"]
    for line in COMPLETED:
        words = [*line.split(), *(["''"] if line.endswith(" ") else [])]
        script += [
            f"COMP_WORDS=({' '.join(words)})",
            f"COMP_CWORD={len(words) - 1}",
            "_xla_wasm",
            'echo "${COMPREPLY[*]}"',
        ]
    out = shell("bash", "; ".join(script), tmp_path).splitlines()
    # Where a value comes after an option, files of the folder may, too.
    files = {"model.hlo", "completion"}
    for (line, wanted), words in zip(COMPLETED.items(), out, strict=True):
        assert wanted <= {*words.split()} <= wanted | files, line


@pytest.mark.parametrize("name", completion.SHELLS)
def test_scripts_have_every_command_and_option(xla_wasm: Cli, name: str) -> None:
    script = completion.script(name, app)
    assert xla_wasm("completion", name) == (0, script, "")
    for command_name, (_, parameters) in completion.commands(app).items():
        help_text = xla_wasm(command_name, "--help")[1]
        assert command_name in script
        for option in (option for parameter in parameters for option in parameter.names):
            assert option in help_text or option.startswith("--no-")
            assert (option if name != "fish" else option.lstrip("-")) in script


def test_fish_completes(tmp_path: Path) -> None:
    (tmp_path / "model.hlo").touch()
    for line, wanted in COMPLETED.items():
        out = shell("fish", f"source ./completion; complete -C '{line}'", tmp_path)
        found = {entry.split("\t")[0] for entry in out.splitlines()}
        assert wanted <= found <= wanted | {"model.hlo", "completion"}, line


def test_zsh_completes(tmp_path: Path) -> None:
    """Keys in a terminal: the shell itself puts in what is the only way to go on."""
    (tmp_path / "model.hlo").touch()
    (tmp_path / "script").write_text(completion.script("zsh", app))
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.environ["TERM"] = "dumb"
        os.execvp("zsh", ["zsh", "-f", "-i"])

    def typed(keys: str, until: str) -> str:
        os.write(terminal, keys.encode())
        said, end = "", time.monotonic() + 60
        while not re.search(until, said):
            assert time.monotonic() < end, said
            if select.select([terminal], [], [], 0.1)[0]:
                said += os.read(terminal, 4096).decode(errors="replace")
        return said

    try:
        typed(
            'autoload -U compinit; compinit -u; source ./script; xla-wasm() { print -r -- "got: $*" }; print '
            "rea''dy\n",
            "ready",
        )
        for line, wanted in COMPLETED.items():
            if len(wanted) == 1:
                (only,) = wanted
                said = typed(f"{line}\t\n", r"(?m)^got: (.*)$")
                whole = " ".join([*line.split()[1:-1], only] if not line.endswith(" ") else [*line.split()[1:], only])
                assert f"got: {whole}" in said, said
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def on_a_terminal(script: str, folder: Path, stream: str = "stderr", code: int = 0) -> tuple[str, str]:
    """Runs a Python script, and returns the text that it writes to a stream that is a terminal, and to the other one,
    which is none."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    other = folder / "other"
    with other.open("wb") as file:
        streams: dict[str, Any] = {"stdout": file, "stderr": file, stream: theirs}
        process = subprocess.Popen([sys.executable, "-c", script], cwd=folder, env=environment, **streams)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 1024)
        except OSError:  # Linux says so that the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert process.wait(60) == code
    return said.decode(), other.read_text()


def test_a_terminal_gets_no_files(folder: Path) -> None:
    begin = "import sys\nfrom xla_wasm.command import cli\nsys.argv = ['xla-wasm', {}]\ncli.main()"
    for arguments in (["compile", "layer.hlo", "-o", "-"], ["run", "layer.hlo", "-i", "all.npz", "--output", "-"]):
        said, error = on_a_terminal(begin.format(", ".join(map(repr, arguments))), folder, "stdout", 2)
        assert (said, error) == (
            "",
            "error: standard output is a terminal, and this is no text: send it on, as in  > FILE  or  | PROGRAM\n",
        )
    write_evil_module(folder / "evil.pb")
    said, error = on_a_terminal(begin.format("'convert', 'evil.pb', '-o', '-'"), folder, "stdout")
    assert "[bold]x[/bold]" in said and error == "" and not {*"\x1b\x07\u202e"} & {*said}


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    work = (
        "import time\nfrom xla_wasm.command import report\nwith report.progress('compiling a\\x1b[31m'): time.sleep({})"
    )
    said, _ = on_a_terminal(work.format(1.8), tmp_path)
    assert said.startswith("\rcompiling a\u241b[31m ... 1 s\x1b[K") and said.endswith("\r\x1b[K")
    assert on_a_terminal(work.format(0.01), tmp_path) == ("", "")
    done = subprocess.run(
        [sys.executable, "-c", work.format(1.2)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_the_document(folder: Path) -> None:
    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    script = [
        "set -e",
        f'xla-wasm() {{ "{sys.executable}" -m xla_wasm "$@"; }}',
        *(line.removeprefix("$ ") for line in lines),
    ]
    output(["bash", "-c", "\n".join(script)], folder, {"PYTHONPATH": str(ROOT)})
    assert len(lines) > 5 and (folder / "results").is_dir()
    with np.load(folder / "results.npz") as arrays:
        assert [arrays[name].tolist() for name in arrays.files] == WANTED


@pytest.mark.parametrize("columns", [40, 60])
def test_narrow_terminals_split_no_words(columns: int) -> None:
    """Rows of many columns become lists; tables that fit, and those of names and texts, stay tables."""
    table = report.table("result", "type", ">worst abs", "")
    table.add_row("logits", "f32[1,10]", "4.01e-05", "ok")
    table.add_row("a_rather_long_name_of_a_result", "s32[]", "", "differs")
    facts = report.table("operation", "")
    facts.add_row("hash", "0123456789" * 6)
    said = io.StringIO()
    console = Console(width=columns, file=said)
    console.print(facts)
    console.print(table)
    lines = [line.rstrip() for line in said.getvalue().splitlines()]
    assert max(map(len, lines)) <= columns
    folded = next(i for i, line in enumerate(lines) if i and not line.startswith(("hash", "operation", " ")))
    assert lines[1].startswith("hash") and "".join(lines[1:folded]).replace(" ", "") == "hash" + "0123456789" * 6
    lines = lines[folded:]
    if columns == 40:
        assert lines[:9] == [
            "result     logits",
            "type       f32[1,10]",
            "worst abs  4.01e-05",
            "           ok",
            "",
            "result  a_rather_long_name_of_a_result",
            "type    s32[]",
            "        differs",
            "",
        ]
    else:
        assert lines[0].split() == ["result", "type", "worst", "abs"] and lines[2].split()[-1] == "differs"
