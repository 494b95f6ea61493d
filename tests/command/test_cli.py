"""The command line: what it prints, its exit codes, and that a user's mistake never ends in a traceback."""

from __future__ import annotations

import inspect
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import ml_dtypes
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tests.support.command_line import Cli
from tests.support.paths import ROOT
from tests.support.toy_artifact import BIAS, SIDECAR, toy
from xla_wasm import reference
from xla_wasm.artifact import read_manifest
from xla_wasm.command import check, compile, dump, run, serve
from xla_wasm.command import inspect as inspection
from xla_wasm.command.records import with_records
from xla_wasm.dataclass import dataclass, field

DIGITS = ROOT / "examples" / "digits"
MODEL = DIGITS / "digits.hlo.pb"


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
def test_run_writes_what_jax_computed(
    xla_wasm: Cli, image: Path, artifact: Path, tmp_path: Path, compiled: bool
) -> None:
    code, out, err = xla_wasm("run", artifact if compiled else MODEL, "--input", image, "--output", "results")
    assert (code, err) == (0, "")
    assert "f32[1,10]" in out
    np.testing.assert_allclose(
        np.load(tmp_path / "results" / "result.npy"), np.load(DIGITS / "logits.npy")[:1], atol=1e-4
    )


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
    code, out, err = xla_wasm(
        "run", "toy.wasm", "--input", "x.npy", "--random-inputs", "--set", "w=w.npy", "--output", "out", "--profile"
    )
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), 2 + 3 + BIAS + SIDECAR)
    assert "5.75" in out


def test_check_agrees(xla_wasm: Cli) -> None:
    code, out, _ = xla_wasm("check", MODEL)
    assert code == 0
    assert "ok" in out and "worst ulp" in out


def test_check_finds_a_difference(xla_wasm: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    true = reference.evaluate_with
    monkeypatch.setattr(
        reference,
        "evaluate_with",
        lambda *args, **more: [[x + np.float32(0.5) for x in device] for device in true(*args, **more)],
    )
    code, out, _ = xla_wasm("check", MODEL)
    assert code == 1
    assert "differs" in out


PSUM = """HloModule psum
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[3] parameter(0)
  s = f32[3] all-reduce(x), to_apply=add
  p = u32[] partition-id()
  ROOT t = (f32[3], u32[]) tuple(s, p)
}
"""


def test_check_on_several_devices(xla_wasm: Cli, tmp_path: Path) -> None:
    module = tmp_path / "psum.hlo"
    module.write_text(PSUM)
    for d in range(4):
        np.save(tmp_path / f"x.{d}.npy", np.full(3, d, np.float32))
    code, out, _ = xla_wasm("check", module, "--devices", "4", "--num-partitions", "2", "-i", tmp_path / "x.{rank}.npy")
    assert code == 0 and "device 3: result.0" in out and "device 0: result.1" in out
    code, _, err = xla_wasm("check", module, "--devices", "4", "-i", tmp_path / "y.{rank}.npy")
    assert code == 2 and "y.0.npy" in err
    code, _, err = xla_wasm("check", module, "--devices", "2", "--isolate")
    assert code == 2 and "psum runs on 2 devices, and --isolate runs single instructions on one" in err
    code, _, _ = xla_wasm("check", module, "--isolate")
    assert code == 0
    module.write_text(PSUM.replace("psum", "psum, replica_count=2", 1))
    code, out, _ = xla_wasm("check", module)
    assert code == 0 and "device 1: result.0" in out and "device 2" not in out


@pytest.fixture
def feeding(tmp_path: Path) -> Path:
    """A module that is fed, puts out tuples, and sends and receives by name."""
    path = tmp_path / "feeding.txt"
    path.write_text(
        """HloModule feeding

ENTRY e {
  t = token[] after-all()
  f = ((f32[2], bf16[]), token[]) infeed(t)
  d = (f32[2], bf16[]) get-tuple-element(f), index=0
  a = f32[2] get-tuple-element(d), index=0
  v = (s32[2], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true
  w = (s32[2], token[]) recv-done(v), channel_id=1, is_host_transfer=true
  n = s32[2] get-tuple-element(w), index=0
  s = (s32[2], u32[], token[]) send(n, t), channel_id=2, is_host_transfer=true
  e = token[] send-done(s), channel_id=2, is_host_transfer=true
  o = token[] outfeed(d, t), outfeed_shape=(f32[2], bf16[])
  p = token[] outfeed(a, o), outfeed_shape=f32[2]
  ROOT r = f32[2] negate(a)
}
"""
    )
    return path


def test_feeds(xla_wasm: Cli, feeding: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "item.npz", np.float32([1, 2]), np.array(3, ml_dtypes.bfloat16))
    np.save(tmp_path / "numbers.npy", np.int32([4, 5]))
    files = ("--infeed", "item.npz", "--recv", "channel_1=numbers.npy", "--outfeed", "out", "--send", "channel_2=sent")
    code, out, _ = xla_wasm("run", feeding, *files, "-n", 3, "--profile")
    assert code == 0
    assert (
        "outfeed 1" in out
        and "2 items of outfeed written to out/" in out
        and "1 item of send channel_2 written to sent/" in out
    )
    with np.load(tmp_path / "out" / "0.npz") as item:
        assert [item[name].tolist() for name in item.files][0] == [1, 2]
    assert np.load(tmp_path / "out" / "1.npy").tolist() == [1, 2] and np.load(tmp_path / "sent" / "0.npy").tolist() == [
        4,
        5,
    ]
    code, out, _ = xla_wasm("run", feeding, "--random-inputs")
    assert code == 0 and "send channel_2 0" in out
    code, out, _ = xla_wasm("inspect", feeding)
    assert code == 0 and "(f32[2], bf16[])" in out and "channel_1" in out


def test_feeds_that_are_missing(xla_wasm: Cli, feeding: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.int32([4, 5]))
    wrong = {
        (): "infeed 'f' takes item 0 of this run, (float32[2], bfloat16[]), but its feed has ended",
        ("--recv", "rate=x.npy"): "expected NAME=X.NPY with a name (channel_1) and a file",
        ("--recv", "channel_1=y.npy"): "and a file",
        ("--send", "loss=out"): "expected NAME=DIR with a name (channel_2)",
        ("--recv", "channel_1=x.npy", "--infeed", "x.npy"): "infeed 'f', item 0 of this run: it must be 2 arrays",
        ("--recv", "channel_1=x.npy", "--infeed", "y.npy"): "y.npy",
    }
    for options, says in wrong.items():
        code, _, err = xla_wasm("run", feeding, *options)
        assert code == 2 and says in err, err
    code, _, err = xla_wasm("run", MODEL, "--random-inputs", "--infeed", tmp_path / "x.npy")
    assert code == 2 and "--infeed: the module has no infeed" in err


@pytest.mark.parametrize("options", [(), ("--isolate",)])
def test_check_makes_up_feeds(xla_wasm: Cli, feeding: Path, options: tuple[str, ...]) -> None:
    code, out, _ = xla_wasm("check", feeding, *options)
    assert code == 0 and out.count("(to the host)") == 4


def test_inspect(xla_wasm: Cli, artifact: Path) -> None:
    code, out, _ = xla_wasm("inspect", MODEL)
    assert code == 0
    assert "convolution 2" in out and "f32[1,8,8,1]" in out and "f32[1,10]" in out
    assert [line.split() for line in out.splitlines() if line.startswith("imports")] == [["imports", "nothing"]]
    code, out, _ = xla_wasm("inspect", artifact)
    assert code == 0 and "f32[1,10]" in out and "peak use" in out


def test_inspect_prints_a_c_header(xla_wasm: Cli, artifact: Path, tmp_path: Path) -> None:
    from xla_wasm.command import c_header
    from xla_wasm.host.manifest import Manifest

    (tmp_path / "my digits.wasm").write_bytes(artifact.read_bytes())
    manifest = Manifest.parse(read_manifest(artifact.read_bytes()))
    assert xla_wasm("inspect", "my digits.wasm", "--c-header") == (0, c_header.header(manifest, "MY_DIGITS"), "")
    assert xla_wasm("inspect", "my digits.wasm", "--c-header", "--c-prefix", "net") == (
        0,
        c_header.header(manifest, "net"),
        "",
    )
    for arguments, message in (
        (("my digits.wasm", "--c-prefix", "A"), "--c-prefix is about the header"),
        (("my digits.wasm", "--c-header", "--c-prefix", "1"), "'1' cannot begin the names of macros"),
        ((MODEL, "--c-header"), "digits.hlo.pb is not compiled"),
    ):
        code, out, err = xla_wasm("inspect", *arguments)
        assert (code, out) == (2, "") and message in err


@pytest.mark.parametrize(
    ("stage", "holds"),
    [
        *(("hlo", "convolution("), ("plan", "holds "), ("kernels", "loads "), ("loops", "carry "), ("wat", "(func")),
        ("manifest", '"peak_bytes"'),
    ],
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
def test_other_kinds_of_input_are_named(
    xla_wasm: Cli, tmp_path: Path, command: str, content: bytes, message: str
) -> None:
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
        (["run", MODEL], "an input is missing: -i image=X.NPY, of type f32[1,8,8,1]"),
        (
            ["run", MODEL, "--input", "image.npy", "--input", "image.npy"],
            "is one too many: the module takes 1 input (image f32[1,8,8,1])",
        ),
        (["run", MODEL, "--input", MODEL], "not a .npy file"),
        (
            ["run", MODEL, "--input", "half.npy"],
            "--input half.npy: 'image' must be float32[1,8,8,1], got float16[1,8,8,1]",
        ),
        (["compile", MODEL, "-o", "image.npy/x.wasm"], "image.npy is a file, and a folder of that name"),
        (["compile", MODEL, "--weight", "no such parameter"], "no such parameter"),
        (["compile", MODEL, "--state", "0"], "--state 0"),
        (["compile", "artifact.wasm"], "compiled already"),
        (["check", "artifact.wasm"], "compiled already"),
    ],
)
def test_mistakes(xla_wasm: Cli, image: Path, artifact: Path, tmp_path: Path, args: list[object], message: str) -> None:
    np.save(tmp_path / "half.npy", np.load(image).astype(np.float16))
    (tmp_path / "artifact.wasm").write_bytes(artifact.read_bytes())
    code, _, err = xla_wasm(*args)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1 and err.startswith("error: ")


@pytest.mark.parametrize(
    "args",
    [
        ["compile", "missing.pb"],
        ["compile"],
        ["nonsense"],
        ["compile", MODEL, "--target", "avx"],
        ["run", MODEL, "--iterations", "0"],
    ],
)
def test_wrong_command_lines(xla_wasm: Cli, args: list[object]) -> None:
    code, _, error = xla_wasm(*args)
    assert code == 2 and "Value error" not in error  # which Pydantic says, of which nobody has asked anything


@pytest.fixture
def server() -> Iterator[str]:
    from xla_wasm.site.serve import make_server

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


def test_symbolic_sizes(xla_wasm: Cli, tmp_path: Path) -> None:
    import jax
    from jax import export

    scope = export.symbolic_shape("b,3")
    data = export.export(jax.jit(lambda x: x * 2), platforms=["cpu"])(
        jax.ShapeDtypeStruct(scope, np.float32)
    ).serialize()
    (tmp_path / "f.bin").write_bytes(data)
    code, _, err = xla_wasm("compile", "f.bin")
    assert code == 2 and "symbolic sizes: give b" in err and "--dim b=8" in err
    assert xla_wasm("convert", "f.bin", "--dim", "b=4", "-o", "f.txt")[0] == 0
    assert "f32[4,3]" in (tmp_path / "f.txt").read_text()
    assert xla_wasm("convert", "f.bin", "--dim", "b=1..4", "-o", "f.txt")[0] == 0
    assert "f32[<=4,3]" in (tmp_path / "f.txt").read_text()
    assert xla_wasm("check", "f.bin", "--dim", "b=4")[0] == 0
    assert "f32[4,3]" in xla_wasm("inspect", "f.bin", "--dim", "b=4")[1]
    assert "[4,3]" in xla_wasm("dump", "f.bin", "--dim", "b=4", "--stage", "hlo")[1]
    assert xla_wasm("run", "f.bin", "--dim", "b=4", "--random-inputs")[0] == 0
    for wrong in ("b", "b=", "b=4..", "b=-1"):
        code, _, err = xla_wasm("compile", "f.bin", "--dim", wrong)
        assert code == 2 and "expected a name, '=', and a size" in err
    code, _, err = xla_wasm("compile", "f.bin", "--dim", "b=4", "--dim", "b=5")
    assert code == 2 and "--dim gives the size of b twice" in err
    code, _, err = xla_wasm("compile", "f.txt", "--dim", "b=4")
    assert code == 2 and "--dim is for files of jax.export" in err
    code, _, err = xla_wasm("compile", "f.bin", "--dim", "b=4,3")
    assert code == 2 and "--dim b: a symbolic size of jax.export is one size or a range" in err


def test_open_sizes_of_stablehlo(xla_wasm: Cli, tmp_path: Path) -> None:
    """The command does what its message says."""
    (tmp_path / "open.mlir").write_text(
        "func.func @main(%x: tensor<?x4xf32>, %n: tensor<?xf32>) -> tensor<?x4xf32> {\n"
        "  return %x : tensor<?x4xf32>\n}\n"
    )
    code, _, err = xla_wasm("inspect", "open.mlir")
    assert code == 2 and err.endswith("--dim x=8,4\n"), err
    code, _, err = xla_wasm("inspect", "open.mlir", "--dim", "x=8,4")
    assert code == 2 and "the sizes of argument 'n', tensor<?xf32>, are left open" in err, err
    assert "f32[8,4]" in xla_wasm("inspect", "open.mlir", "--dim", "x=8,4", "--dim", "n=3")[1]
    for wrong, says in (("x=8..9", "ranges are for files of jax.export"), ("x=8,5", "cannot have the sizes")):
        code, _, err = xla_wasm("inspect", "open.mlir", "--dim", wrong, "--dim", "n=3")
        assert code == 2 and says in err, err


def test_an_option_without_effect_is_one_line(xla_wasm: Cli, tmp_path: Path) -> None:
    (tmp_path / "add.hlo").write_text(
        "HloModule add\nENTRY e {\n x = f32[2] parameter(0)\n ROOT y = f32[2] add(x, x)\n}\n"
    )
    code, out, err = xla_wasm("compile", tmp_path / "add.hlo", "--threads")
    assert code == 0 and "add.wasm" in out
    assert err == "warning: 'add': --threads: no operation is large enough to be shared, so it runs on one thread\n"


@dataclass(frozen=True)
class Pair:
    """A record of options, for the test below."""

    names: Annotated[list[str], typer.Option("--name")] = field(default_factory=list)
    size: Annotated[int, typer.Option("--size")] = 3


def test_options_in_records() -> None:
    """A command's records are made of its options, in the place where they stand, and nothing is kept from call to
    call."""
    seen: list[tuple[str, Pair, bool]] = []

    def show(
        path: Annotated[str, typer.Argument()], *, pair: Pair, last: Annotated[bool, typer.Option("--last")] = False
    ) -> None:
        """Shows."""
        seen.append((path, pair, last))
        pair.names.append("kept")

    flat = with_records(show)
    assert [*inspect.signature(flat).parameters] == ["path", "names", "size", "last"] and flat.__doc__ == "Shows."
    app = typer.Typer()
    app.command()(flat)
    for arguments in (["a", "--name", "x", "--name", "y", "--last"], ["b", "--size", "4"], ["c"]):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert seen == [
        ("a", Pair(["x", "y", "kept"]), True),
        ("b", Pair(["kept"], 4), False),
        ("c", Pair(["kept"]), False),
    ]


def test_no_command_has_many_parameters() -> None:
    """Options that belong together are a record."""
    for command in (check.check, compile.compile_module, dump.dump, inspection.inspect, run.run, serve.serve_model):
        assert len(inspect.signature(command).parameters) <= 9, command
