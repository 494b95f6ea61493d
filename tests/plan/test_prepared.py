"""Prepared artifacts: what `init` does with constants is done when compiling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.paths import ROOT
from tests.support.wasi_commands import as_bytes, command, run
from xla_wasm import Options
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module
from xla_wasm.host.arrays import dtype_of

rng = np.random.default_rng(0)


def values(*shape: int) -> str:
    """A literal's elements."""
    text = str(np.round(rng.standard_normal(shape), 3).tolist())
    return text.replace("[", "{").replace("]", "}")


def program(body: str) -> Module:
    return Module.from_text(f"HloModule p\n\nENTRY e {{\n{body}\n}}\n")


DOT = f"""  x = f32[4,24] parameter(0)
  w = f32[24,24] constant({values(24, 24)})
  ROOT y = f32[4,24] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
FOLDED = f"""  x = f32[4,24] parameter(0)
  a = f32[24,24] constant({values(24, 24)})
  s = f32[24,24] sine(a)
  w = f32[24,24] multiply(s, a)
  ROOT y = f32[4,24] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
TIED = f"""  x = f32[4,24] parameter(0)
  a = f32[24,24] constant({values(24, 24)})
  y = f32[4,24] dot(x, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  q = f32[1,24] slice(a), slice={{[3:4], [0:24]}}
  r = f32[24] reshape(q)
  b = f32[4,24] broadcast(r), dimensions={{1}}
  ROOT z = f32[4,24] add(y, b)"""
GROWING = f"""  x = f32[64,24] parameter(0)
  v = f32[24] constant({values(24)})
  w = f32[24,24] constant({values(24, 24)})
  n = f32[24] negate(v)
  t = f32[24] tanh(n)
  b = f32[64,24] broadcast(t), dimensions={{1}}
  y = f32[64,24] dot(b, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT z = f32[64,24] add(x, y)"""
HALF = f"""  x = f32[4,24] parameter(0)
  h = f16[24,24] constant({values(24, 24)})
  w = f32[24,24] convert(h)
  ROOT y = f32[4,24] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
CONSTANT = """  c = f32[8] constant({1,2,3,4,5,6,7,8})
  ROOT y = f32[8] exponential(c)"""
PROGRAMS = {"dot": DOT, "folded": FOLDED, "tied": TIED, "growing": GROWING, "half": HALF, "constant": CONSTANT}


def both(module: Module, **options: Any) -> tuple[Artifact, Artifact]:
    """The artifact as it is usually, and prepared."""
    return xla_wasm.compile(module, Options(**options)), xla_wasm.compile(module, Options(prepared=True, **options))


def results(artifact: Artifact, *arguments: Any) -> list[bytes]:
    return [as_bytes(y) for y in xla_wasm.load(artifact).run(*arguments)]


def arguments(artifact: Artifact) -> list[Any]:
    draw = np.random.default_rng(1)
    leaves = [p for p in artifact.manifest["parameters"] if p["kind"] == "input"]
    return [draw.standard_normal(p["dimensions"]).astype(dtype_of(p["element_type"])) for p in leaves]


@pytest.mark.parametrize("sidecar", [False, True])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_the_same_results(name: str, sidecar: bool, tmp_path: Path) -> None:
    plain, prepared = both(program(PROGRAMS[name]), sidecar=sidecar)
    given = arguments(plain)
    assert results(plain, *given) == results(prepared, *given)
    assert len(prepared.wasm) + len(prepared.weights) <= 1.15 * (len(plain.wasm) + len(plain.weights))
    assert prepared.wasm == both(program(PROGRAMS[name]), sidecar=sidecar)[1].wasm
    made = command(program(PROGRAMS[name]), sidecar=sidecar)
    files: dict[str, Any] = {"m.weights": made.weights} | {f"{i}.npy": x for i, x in enumerate(given)}
    done = run(made, tmp_path / "x", *[f"{i}.npy" for i in range(len(given))], "-o", "y.bin", files=files)
    assert done.code == 0, done.err
    assert [(done.folder / "y.bin").read_bytes()] == results(plain, *given)


def segments(artifact: Artifact) -> list[Any]:
    return [init for init in artifact.manifest["inits"] if init["kind"] == "segment"]


def test_what_is_left_to_init() -> None:
    for name in ("dot", "folded"):
        plain, prepared = both(program(PROGRAMS[name]))
        assert segments(plain) and not segments(prepared), name
    # The matrix is read as it is, too; or has half the bytes of what is made of it: the file would be twice as large.
    for name in ("tied", "half"):
        plain, prepared = both(program(PROGRAMS[name]))
        assert segments(plain) and segments(prepared), name


def test_what_nobody_reads_is_not_stored() -> None:
    """Of two kernels of which the second reads the first, only what the second makes is in the file."""
    body = f"""  x = f32[24,24] parameter(0)
  a = f32[24,24] constant({values(24, 24)})
  b = f32[24,24] constant({values(24, 24)})
  y = f32[24,24] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  z = f32[24,24] dot(y, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[24,24] add(x, z)"""
    plain, prepared = both(program(body))
    given = arguments(plain)
    assert results(plain, *given) == results(prepared, *given)
    assert not segments(prepared) and len(prepared.wasm) < len(plain.wasm)


def test_weights_are_still_packed_by_init() -> None:
    text = DOT.replace("y = f32[4,24] dot(x, w)", "v = f32[4,24] dot(x, w)").replace("  ROOT v", "  v")
    text += (
        "\n  u = f32[24,24] parameter(1)\n  ROOT y = f32[4,24] dot(v, u), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}"
    )
    plain, prepared = both(program(text), weights=("u",))
    assert [i["kind"] for i in prepared.manifest["inits"]] == ["weight"]
    x, u = np.ones((4, 24), np.float32), rng.standard_normal((24, 24)).astype(np.float32)
    made = []
    for artifact in (plain, prepared):
        exe = xla_wasm.load(artifact)
        exe.set("u", u)
        made.append(as_bytes(exe.run(x)[0]))
    assert made[0] == made[1]


def test_the_models_of_the_examples() -> None:
    for path in sorted(ROOT.glob("examples/*/*.hlo.pb")):
        module = Module.from_proto(path.read_bytes())
        plain, prepared = both(module)
        assert len(prepared.wasm) <= 1.15 * len(plain.wasm), path
        if path.parent.name == "digits":
            given = arguments(plain)
            assert results(plain, *given) == results(prepared, *given)
