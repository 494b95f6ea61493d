"""The command line: what it prints, its exit codes, and that a user's mistake never ends in a traceback."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fixtures import BIAS, SIDECAR, toy

from xla_wasm import cli, reference

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
MODEL = DIGITS / "digits.hlo.pb"

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def xla_wasm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Runs the command in an empty folder and returns its exit code, output and error output."""
    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["xla-wasm", *map(str, args)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
            raise SystemExit(0)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(exit_.value.code or 0), out, err

    return call


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.npy"
    np.save(path, np.load(DIGITS / "images.npy")[:1, :, :, None].astype(np.float32) / 16)
    return path


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from xla_wasm.compiler import compile
    from xla_wasm.hlo.ir import Module

    return compile(Module.from_proto(MODEL.read_bytes())).save(tmp_path_factory.mktemp("cli") / "digits.wasm")


def test_help_names_every_command(xla_wasm: Cli) -> None:
    code, out, _ = xla_wasm("--help")
    assert code == 0
    for command in ("compile", "run", "check", "inspect", "dump", "ops", "serve"):
        assert command in out
        assert xla_wasm(command, "--help")[0] == 0


def test_version(xla_wasm: Cli) -> None:
    import xla_wasm as package

    assert xla_wasm("--version")[:2] == (0, f"xla-wasm {package.__version__}\n")


def test_compile_names_its_output_after_the_module(xla_wasm: Cli, tmp_path: Path) -> None:
    code, out, err = xla_wasm("compile", MODEL)
    assert (code, err) == (0, "")
    assert "digits.wasm" in out
    assert (tmp_path / "digits.wasm").read_bytes()[:4] == b"\0asm"


def test_compile_options_reach_the_manifest(xla_wasm: Cli, tmp_path: Path) -> None:
    assert xla_wasm("compile", MODEL, "-o", "fast.wasm", "--target", "relaxed-simd", "--tune", "v8")[0] == 0
    code, out, _ = xla_wasm("dump", "fast.wasm", "--stage", "manifest")
    manifest = json.loads(out)
    assert (code, manifest["target"], manifest["tune"]) == (0, "relaxed-simd", "v8")
    assert "relaxed-simd" in manifest["features"]


@pytest.mark.parametrize("compiled", [False, True])
def test_run_writes_what_jax_computed(xla_wasm: Cli, image: Path, artifact: Path, tmp_path: Path, compiled: bool) -> None:
    code, out, err = xla_wasm("run", artifact if compiled else MODEL, "--input", image, "--output", "results")
    assert (code, err) == (0, "")
    assert "f32[1,10]" in out
    np.testing.assert_allclose(np.load(tmp_path / "results" / "0.npy"), np.load(DIGITS / "logits.npy")[:1], atol=1e-4)


def test_run_times_and_profiles(xla_wasm: Cli, artifact: Path) -> None:
    code, out, _ = xla_wasm("run", artifact, "--random-inputs", "--seed", "3", "--iterations", "4", "--profile")
    assert code == 0
    assert "4 runs: fastest" in out
    assert "share" in out


def test_run_repeats_random_inputs_of_a_seed(xla_wasm: Cli, artifact: Path) -> None:
    first, again, other = (xla_wasm("run", artifact, "--random-inputs", "--seed", seed)[1] for seed in (1, 1, 2))
    assert first == again != other


def test_run_sets_weights(xla_wasm: Cli, tmp_path: Path) -> None:
    toy().save(tmp_path / "toy.wasm")
    code, _, err = xla_wasm("run", "toy.wasm", "--random-inputs", "--set", "nothing=x.npy")
    assert code == 2 and "--set nothing=x.npy" in err
    np.save(tmp_path / "w.npy", np.full((2, 3), 3, np.float32))
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    code, out, err = xla_wasm("run", "toy.wasm", "--input", "x.npy", "--random-inputs", "--set", "w=w.npy", "--output", "out", "--profile")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "0.npy"), 2 + 3 + BIAS + SIDECAR)
    assert "5.75" in out


def test_check_agrees(xla_wasm: Cli) -> None:
    code, out, _ = xla_wasm("check", MODEL)
    assert code == 0
    assert "ok" in out and "worst ulp" in out


def test_check_finds_a_difference(xla_wasm: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    true = reference.evaluate
    monkeypatch.setattr(reference, "evaluate", lambda *args: [leaf + np.float32(0.5) for leaf in true(*args)])
    code, out, _ = xla_wasm("check", MODEL)
    assert code == 1
    assert "differs" in out


def test_inspect(xla_wasm: Cli, artifact: Path) -> None:
    code, out, _ = xla_wasm("inspect", MODEL)
    assert code == 0
    assert "convolution 2" in out and "f32[1,8,8,1]" in out and "f32[1,10]" in out
    assert [line.split() for line in out.splitlines() if line.startswith("imports")] == [["imports", "nothing"]]
    code, out, _ = xla_wasm("inspect", artifact)
    assert code == 0 and "f32[1,10]" in out and "peak use" in out


@pytest.mark.parametrize(
    ("stage", "holds"), [("hlo", "convolution("), ("plan", ""), ("loops", ""), ("wat", "(func"), ("manifest", '"peak_bytes"')]
)
def test_dump(xla_wasm: Cli, stage: str, holds: str) -> None:
    code, out, _ = xla_wasm("dump", MODEL, "--stage", stage)
    assert code == 0
    assert len(out) > 100 and holds in out


def test_dump_of_an_artifact(xla_wasm: Cli, artifact: Path) -> None:
    assert "v128" in xla_wasm("dump", artifact, "--stage", "wat")[1]
    code, _, err = xla_wasm("dump", artifact, "--stage", "loops")
    assert code == 2 and "is compiled" in err


def test_ops(xla_wasm: Cli) -> None:
    code, out, _ = xla_wasm("ops")
    assert code == 0
    assert "select-and-scatter" in out
    assert "slice_sizes" in xla_wasm("ops", "gather")[1]
    code, _, err = xla_wasm("ops", "convolutoin")
    assert code == 2 and "convolution" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"ML\xefR\x0dStableHLO_v1", "bytecode"),
        (b"module @jit_f attributes {} {\n  func.func public @main() {}\n}\n", "StableHLO"),
        (b"#loc1 = loc(unknown)\nmodule @jit_f {}\n", "StableHLO"),
        (b"\x18\0\0\0\x01\x02ML\xefR", "jax.export"),
        (b"PK\x03\x04\x14\0", "zip"),
        (b"hello there\n", "no HLO module"),
        (b"\xff\xff\xff\xff\x01", "no HLO module"),
        (b"\0asm\x01\0\0\0", "was not made by xla_wasm"),
        (b"\0asm\x02", "file: "),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "run"])
def test_other_kinds_of_input_are_named(xla_wasm: Cli, tmp_path: Path, command: str, content: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(content)
    code, out, err = xla_wasm(command, "file")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1 and err.startswith("error: ")


def test_broken_text_is_shown_with_a_caret(xla_wasm: Cli, tmp_path: Path) -> None:
    (tmp_path / "broken.txt").write_text("HloModule f\n\nENTRY main {\n  ROOT x = f32[2] parameter(zero)\n}\n")
    code, out, err = xla_wasm("compile", "broken.txt")
    assert (code, out) == (2, "")
    first, line, caret = err.rstrip("\n").split("\n")
    assert first.startswith("error: broken.txt: line 4, column ") and line == "  ROOT x = f32[2] parameter(zero)"
    assert caret == " " * line.index("zero") + "^"


def test_convert_to_text_and_back(xla_wasm: Cli, image: Path) -> None:
    assert xla_wasm("convert", MODEL, "-o", "digits.txt")[0] == 0
    assert xla_wasm("convert", "digits.txt", "-o", "digits.pb")[0] == 0
    assert xla_wasm("convert", "digits.pb", "-o", "again.hlo")[0] == 0
    assert Path("digits.txt").read_text() == Path("again.hlo").read_text()
    assert xla_wasm("check", "digits.txt")[0] == 0
    assert xla_wasm("convert", MODEL, "-o", "short.txt", "--elide")[0] == 0
    assert "{...}" in Path("short.txt").read_text()
    code, _, err = xla_wasm("convert", "short.txt", "-o", "short.pb")
    assert code == 2 and "left out of the text" in err and not Path("short.pb").exists()


def test_layout_is_drawn(xla_wasm: Cli) -> None:
    code, out, _ = xla_wasm("layout", "f32[3,5]{1,0:T(2,2)}")
    assert code == 0 and "24 elements, 9 of them padding" in out
    assert xla_wasm("layout", "f32[3,5]{1,0:T(2,2)}", "--svg", "layout.svg")[0] == 0
    assert Path("layout.svg").read_text().startswith("<svg")
    code, _, err = xla_wasm("layout", "f32[3,5")
    assert code == 2 and "',' expected" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", MODEL], "1 inputs"),
        (["run", MODEL, "--input", "image.npy", "--input", "image.npy"], "--input gives 2"),
        (["run", MODEL, "--input", MODEL], "not a .npy file"),
        (["run", MODEL, "--input", "double.npy"], "float64"),
        (["compile", MODEL, "-o", "no/such/folder/x.wasm"], "no/such/folder"),
        (["compile", MODEL, "--weight", "no such parameter"], "no such parameter"),
        (["compile", MODEL, "--state", "0"], "--state 0"),
        (["compile", "artifact.wasm"], "compiled already"),
        (["check", "artifact.wasm"], "compiled already"),
    ],
)
def test_mistakes(xla_wasm: Cli, image: Path, artifact: Path, tmp_path: Path, args: list[object], message: str) -> None:
    np.save(tmp_path / "double.npy", np.load(image).astype(np.float64))
    (tmp_path / "artifact.wasm").write_bytes(artifact.read_bytes())
    code, _, err = xla_wasm(*args)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1 and err.startswith("error: ")


@pytest.mark.parametrize(
    "args",
    [["compile", "missing.pb"], ["compile"], ["nonsense"], ["compile", MODEL, "--target", "avx"], ["run", MODEL, "--iterations", "0"]],
)
def test_wrong_command_lines(xla_wasm: Cli, args: list[object]) -> None:
    assert xla_wasm(*args)[0] == 2


@pytest.fixture
def server() -> Iterator[str]:
    from xla_wasm.serve import make_server

    with make_server("127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_serve(server: str) -> None:
    with urllib.request.urlopen(f"{server}/") as page:
        assert page.url.endswith("/demo/")
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert page.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert page.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    with urllib.request.urlopen(f"{server}/demo/digits/digits.wasm") as model:
        assert model.headers["Content-Type"] == "application/wasm"
        assert model.read(4) == b"\0asm"
    for path in ("/nothing", "/../pyproject.toml", "/demo/../../pyproject.toml"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server + path)
