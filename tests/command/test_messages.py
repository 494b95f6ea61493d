"""Messages for people when something is wrong, of the command line and of the Python API: files of `snapshots/` that a
person reviews.

Each message says what is wrong and what to do, in one sentence or two.
`pytest tests/command/test_messages.py --update-golden` writes the files anew, and `git diff` shows what changed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.export
import numpy as np
import pytest

import xla_wasm
from tests.support.command_line import Cli
from tests.support.toy_artifact import toy
from xla_wasm import Artifact, HloModule, Options, XlaWasmError

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "pytest tests/command/test_messages.py --update-golden"

ADD = """HloModule add

ENTRY e {
  x = f32[2,3] parameter(0)
  n = s32[] parameter(1)
  f = f32[] convert(n)
  b = f32[2,3] broadcast(f), dimensions={}
  ROOT y = f32[2,3] add(x, b)
}
"""
LAYER = """HloModule layer

ENTRY e {
  x = f32[2] parameter(0), metadata={op_name="x"}
  w = f32[2] parameter(1), metadata={op_name="params.w"}
  b = f32[2] parameter(2), metadata={op_name="params.b"}
  m = f32[2] multiply(x, w)
  ROOT s = f32[2] add(m, b)
}
"""
FED = """HloModule fed

ENTRY e {
  t = token[] after-all()
  f = (f32[2], token[]) infeed(t)
  x = f32[2] get-tuple-element(f), index=0
  o = token[] outfeed(x, t), outfeed_shape=f32[2]
  ROOT y = f32[2] negate(x)
}
"""
SUM = """HloModule total

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[3] parameter(0)
  ROOT s = f32[3] all-reduce(x), replica_groups={{0,1}}, to_apply=add
}
"""
ASKING = """HloModule asking

ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[2] custom-call(x), custom_call_target="scale", api_version=API_VERSION_TYPED_FFI
}
"""
DOT = """HloModule m

ENTRY %e {
  %x = f32[2,3] parameter(0)
  ROOT %y.1 = f32[2,3] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
OPEN = """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""
OLD = """HloModule old

ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[2] custom-call(x), custom_call_target="Frobnicate"
}
"""

COMMANDS = [
    "compile missing.hlo",
    "compile folder",
    "compile empty.hlo",
    "compile notes.txt",
    "compile broken.hlo",
    "compile old.hlo",
    "compile layer.wasm",
    "compile add.hlo -o add.hlo",
    "compile add.hlo -o folder",
    "compile add.hlo -o x.npy/add.wasm",
    "compile add.hlo -o - --js",
    "compile add.hlo --weight z",
    "compile add.hlo --weight 7",
    "compile add.hlo --state n",
    "compile add.hlo --state n=0",
    "compile add.hlo --state n=z",
    "compile add.hlo --dim b=8",
    "compile add.hlo --dim b=64..1",
    "compile exported.bin",
    "compile exported.bin --dim c=8",
    "compile exported.bin --dim b=0..5 --dim b=8",
    "compile exported.bin --dim b=3000000000",
    "compile exported.bin --dim b=8,4",
    "compile open.mlir",
    "compile open.mlir --dim z=8,4",
    "compile wrong.hlo",
    "compile wrong.pb",
    "compile dot.hlo",
    "check wrong.hlo",
    "compile add.hlo --weight x --weight-format f12",
    "compile add.hlo --weight-format f16",
    "compile add.hlo --loader ./here.js",
    "compile add.hlo --kind command --threads",
    "compile add.hlo --kind server --js",
    "run add.hlo",
    "run add.hlo -i x.npy",
    "run add.hlo -i x.npy -i n.npy -i n.npy",
    "run add.hlo -i half.npy -i n.npy",
    "run add.hlo -i x.npy -i large.npy",
    "run add.hlo -i long.npy -i n.npy",
    "run add.hlo -i flat.npy -i n.npy",
    "run add.hlo -i damaged.npy -i n.npy",
    "run add.hlo -i objects.npy -i n.npy",
    "run add.hlo -i notes.txt -i n.npy",
    "run add.hlo -i damaged.npz",
    "run add.hlo -i z=x.npy -i n.npy",
    "run add.hlo -i missing.npy -i n.npy",
    "run layer.wasm -i two.npy",
    "run layer.wasm -i two.npy --set params.w=two.npy",
    "run layer.wasm -i two.npy --set w=two.npy",
    "run layer.wasm -i two.npy --set params.w=three.npy",
    "run layer.wasm -i two.npy --set two.npy",
    "run layer.wasm -i two.npy --set pair.npz",
    "run layer.wasm -i two.npy --set damaged.safetensors",
    "run add.hlo --random-inputs --output both --outfeed both",
    "run add.hlo --random-inputs --infeed x.npy",
    "run fed.hlo",
    "run fed.hlo --infeed n.npy",
    "run fed.hlo --infeed two.npy --send loss=out",
    "run total.hlo -i three.npy",
    "run total.hlo --random-inputs --replicated --devices 3",
    "run total.hlo --random-inputs --devices 2",
    "run total.hlo --random-inputs --replicated --output out",
    "run asking.hlo --random-inputs",
    "run damaged.wasm",
    "run stripped.wasm",
    "run newer.wasm",
    "check layer.wasm",
    "check add.hlo --reproducer r.txt",
    "check add.hlo --weight x",
    "inspect old.hlo",
    "inspect add.hlo --c-header",
    "inspect layer.wasm --c-prefix 1",
    "dump layer.wasm --stage plan",
    "convert add.hlo -o add.hlo",
    "layout f32[3,5",
    "ops convolutoin",
    "serve-model layer.wasm",
    "serve-model layer.wasm --run-timeout 0",
    "serve-model total.hlo",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files for the commands."""
    for name, text in {"add": ADD, "layer": LAYER, "fed": FED, "total": SUM, "asking": ASKING, "old": OLD}.items():
        (tmp_path / f"{name}.hlo").write_text(text)
    (tmp_path / "wrong.hlo").write_text(ADD.replace("y = f32[2,3] add(x, b)", "y = f32[3,2] add(x, b)"))
    (tmp_path / "dot.hlo").write_text(DOT)
    (tmp_path / "wrong.pb").write_bytes(module((tmp_path / "wrong.hlo").read_text()).to_proto())
    (tmp_path / "open.mlir").write_text(OPEN)
    (tmp_path / "exported.bin").write_bytes(exported())
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.hlo").touch()
    (tmp_path / "notes.txt").write_text("remember the milk\n")
    (tmp_path / "broken.hlo").write_text(ADD.replace("add(x, b)", "add(x, c)"))
    layer = xla_wasm.compile(HloModule.from_text(LAYER), Options(weights=(1, 2)))
    layer.save(tmp_path / "layer.wasm")
    (tmp_path / "damaged.wasm").write_bytes(layer.wasm[:200])
    (tmp_path / "stripped.wasm").write_bytes(b"\0asm\1\0\0\0")
    toy(manifest={**toy().manifest, "format": 99}).save(tmp_path / "newer.wasm")
    arrays = {
        "x": np.zeros((2, 3), np.float32),
        "n": np.int32(1),
        "half": np.zeros((2, 3), np.float16),
        "large": np.int64(2**40),
        "flat": np.zeros(6, np.float32),
        "long": np.zeros(100_000, np.float32),
        "two": np.zeros(2, np.float32),
        "three": np.zeros(3, np.float32),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "damaged.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:100])
    np.savez(tmp_path / "pair.npz", w=arrays["two"], b=arrays["two"])
    (tmp_path / "damaged.npz").write_bytes((tmp_path / "pair.npz").read_bytes()[:200])
    (tmp_path / "damaged.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{...")
    return tmp_path


def exported() -> bytes:
    """A file of jax.export with a symbolic size b."""
    (x,) = jax.export.symbolic_args_specs((np.zeros((1, 3), np.float32),), "b, ...")
    return bytes(jax.export.export(jax.jit(lambda x: x + 1))(x).serialize())


def module(text: str) -> HloModule:
    return HloModule.from_text(text)


def loaded(text: str, **options: Any) -> Any:
    return xla_wasm.load(xla_wasm.compile(module(text), Options(**options)))


X, N = np.zeros((2, 3), np.float32), np.int32(1)


def closed() -> Any:
    exe = loaded(ADD)
    exe.close()
    return exe


def failed() -> Any:
    """An executable whose last run trapped."""
    exe = xla_wasm.load(toy())
    exe.set("w", np.zeros((2, 3)).tolist())
    with pytest.raises(XlaWasmError):
        exe.run(np.full((2, 3), -1, np.float32), 1)
    return exe


def weighted(**limits: Any) -> Any:
    exe = xla_wasm.load(toy(), **limits)
    exe.set("w", np.zeros((2, 3)).tolist())
    return exe


CALLS: dict[str, Callable[[], Any]] = {
    "exe.run(x)": lambda: loaded(ADD).run(X),
    "exe.run(x, n, n)": lambda: loaded(ADD).run(X, N, N),
    "exe.run(x.astype(np.float16), n)": lambda: loaded(ADD).run(X.astype(np.float16), N),
    "exe.run(x, np.int64(2**40))": lambda: loaded(ADD).run(X, np.int64(2**40)),
    "exe.run(x.T, n)": lambda: loaded(ADD).run(X.T, N),
    "exe.run(x, 1.5)": lambda: loaded(ADD).run(X, 1.5),
    "exe.run(x, 2**40)": lambda: loaded(ADD).run(X, 2**40),
    "exe.run([[1, 2], [3]], n)": lambda: loaded(ADD).run([[1, 2], [3]], N),
    "exe.run('x', n)": lambda: loaded(ADD).run("x", N),
    "exe.run(None, n)": lambda: loaded(ADD).run(None, N),
    "exe.run(x, n, out=np.zeros((2, 3)))": lambda: loaded(ADD).run(X, N, out=np.zeros((2, 3))),
    "exe.run(x, n, out=[np.zeros((2, 3))])": lambda: loaded(ADD).run(X, N, out=[np.zeros((2, 3))]),
    "exe.run(x, n, infeed=[])": lambda: loaded(ADD).run(X, N, infeed=[]),
    "exe.run()  # the feed has ended": lambda: loaded(FED).run(infeed=[], outfeed=print),
    "exe.run()  # no outfeed": lambda: loaded(FED).run(infeed=[np.zeros(2, np.float32)]),
    "exe.run(x)  # of several devices": lambda: loaded(SUM).run(np.zeros(3, np.float32)),
    "exe.run_replicated([[x], [x], [x]])": lambda: loaded(SUM).run_replicated([[np.zeros(3, np.float32)]] * 3),
    "exe.run_replicated([[x], []])": lambda: loaded(SUM).run_replicated([[np.zeros(3, np.float32)], []]),
    "exe.run_replicated([[x], [x]], timeout=0)": lambda: loaded(SUM).run_replicated(
        [[np.zeros(3, np.float32)]] * 2, timeout=0
    ),
    "exe.run(x)  # a weight is missing": lambda: loaded(LAYER, weights=(1, 2)).run(np.zeros(2, np.float32)),
    "exe.set('w', w)": lambda: loaded(LAYER, weights=(1, 2)).set("w", np.zeros(2, np.float32)),
    "exe.set('params.w', np.zeros(3))": lambda: loaded(LAYER, weights=(1, 2)).set("params.w", np.zeros(3, np.float32)),
    "exe.get('params.w')": lambda: loaded(LAYER, weights=(1, 2)).get("params.w"),
    "exe.get('x')": lambda: loaded(ADD).get("x"),
    "exe.input('z')": lambda: loaded(ADD).input("z"),
    "exe.run(x, n)  # closed": lambda: closed().run(X, N),
    "exe.get('count')  # after a trap": lambda: failed().get("count"),
    "exe.run(x, k)  # traps": lambda: weighted().run(np.full((2, 3), -1, np.float32), 1),
    "exe.run(x, k)  # for ever": lambda: weighted(timeout=0.2).run(np.full((2, 3), -2, np.float32), 1),
    "exe.run(x, k)  # out of fuel": lambda: weighted(fuel=5000).run(np.full((2, 3), -2, np.float32), 1),
    "load('missing.wasm')": lambda: xla_wasm.load("missing.wasm"),
    "load(b'')": lambda: xla_wasm.load(b""),
    "load(b'\\0asm\\1\\0\\0\\0')": lambda: xla_wasm.load(b"\0asm\1\0\0\0"),
    "load(artifact.wasm[:200])": lambda: xla_wasm.load(xla_wasm.compile(module(ADD)).wasm[:200]),
    "load(artifact of a newer version)": lambda: xla_wasm.load(Artifact(toy().wasm, {**toy().manifest, "format": 99})),
    "load(artifact, memory_limit=1000)": lambda: xla_wasm.load(toy(), memory_limit=1000),
    "load(artifact, fuel=-1)": lambda: xla_wasm.load(toy(), fuel=-1),
    "load(artifact, threads=2)": lambda: xla_wasm.load(toy(), threads=2),
    "load(command)": lambda: loaded(ADD, kind="command"),
    "load(artifact that calls 'scale')": lambda: loaded(ASKING, host_calls=("scale",)),
    "compile(module, Options(weights=('z',)))": lambda: xla_wasm.compile(module(ADD), Options(weights=("z",))),
    "compile(module, Options(weights=(7,)))": lambda: xla_wasm.compile(module(ADD), Options(weights=(7,))),
    "compile(module, Options(state={'n': 'z'}))": lambda: xla_wasm.compile(module(ADD), Options(state={"n": "z"})),
    "compile(module, Options(state={'n': 'result'}))": lambda: xla_wasm.compile(
        module(ADD), Options(state={"n": "result"})
    ),
    "compile(module, Options(target='avx'))": lambda: xla_wasm.compile(module(ADD), Options(target="avx")),
    "compile(module, Options(kind='page'))": lambda: xla_wasm.compile(module(ADD), Options(kind="page")),
    "compile(module that calls 'Frobnicate')": lambda: xla_wasm.compile(module(OLD)),
    "HloModule.from_text('hello')": lambda: module("hello"),
    "HloModule.from_text('')": lambda: module(""),
    "HloModule.from_text('... add(x, c)')": lambda: module(ADD.replace("add(x, b)", "add(x, c)")),
    "compile(module with 'f32[3,2] add')": lambda: xla_wasm.compile(
        module(ADD.replace("y = f32[2,3] add", "y = f32[3,2] add"))
    ),
    "HloModule.from_proto(b'hello')": lambda: HloModule.from_proto(b"hello"),
    "evaluate(module, x)": lambda: xla_wasm.evaluate(module(ADD), X),
    "evaluate(module, x.T, n)": lambda: xla_wasm.evaluate(module(ADD), X.T, N),
}


def compare(name: str, said: dict[str, str], request: pytest.FixtureRequest) -> None:
    """Compares messages with the file of that name, or writes it."""
    path = SNAPSHOTS / name
    text = "".join(f"{what}\n    {message}\n\n" for what, message in said.items())
    if request.config.getoption("update_golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    expected = dict(part.split("\n    ", 1) for part in path.read_text(encoding="utf-8").rstrip("\n").split("\n\n"))
    assert list(expected) == list(said), f"`{UPDATE}`, and look through `git diff`"
    wrong = [
        f"{what}\n  was  {expected[what]}\n  is   {message}"
        for what, message in said.items()
        if message != expected[what]
    ]
    assert not wrong, "\n".join([*wrong, f"If this is meant: `{UPDATE}`, and look through `git diff`."])
    for what, message in said.items():
        if name == "command_line.txt":
            assert not re.search(r"Options\(|exe\.|dims=|dims\[|=True|HloModule\.|host_calls|weight_format", message), (
                what
            )
        assert message.replace("\n    ", "").isprintable() and len(message) < 500, what
        # What Python and NumPy say of themselves helps nobody who gave a file or an array.
        assert not re.search(
            r"pickle|Traceback|object at 0x|<class|magic string|\.tmp|NoneType|\b1 \w+s\b(?<!1 runs)", message
        ), what


def test_the_command_line(xla_wasm: Cli, folder: Path, request: pytest.FixtureRequest) -> None:
    said = {}
    for line in COMMANDS:
        code, out, err = xla_wasm(*line.split())
        assert code == 2 and err.startswith("error: "), (line, code, out, err)
        said[f"$ xla-wasm {line}"] = err.removesuffix("\n").replace("\n", "\n    ")
    assert len(said) == len(COMMANDS) >= 40
    compare("command_line.txt", said, request)


def test_the_python_api(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = {}
    for what, call in CALLS.items():
        with pytest.raises((XlaWasmError, OSError)) as caught:
            call()
            pytest.fail(what)
        assert threading.active_count() < 50
        said[what] = f"{type(caught.value).__name__}: {caught.value}".replace("\n", "\n    ")
    assert len(said) >= 40
    compare("python.txt", said, request)
