"""Seeds of the targets: small valid files of every kind."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.text_cases import CASES
from tests.support.toy_artifact import SIDECAR, toy, with_manifest
from xla_wasm import Options, compile
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module

CORPUS, FINDINGS = (Path(__file__).parent / name for name in ("corpus", "findings"))

LAYOUTS = """{1,0} {0,1:T(2,128)} {1,0:T(8,128)(2,1)} {0,1:D(D,C)} {1,0:E(4)} {1,0:S(3)} {1,0:L(7)} {1,0:#(u32)} {1,0:T(*,128)} {1,0:M(8)}
{0,1:T(3,2)S(1)} {1,0:T(2)E(8)} {1,0:T(-4)}""".split()  # noqa: E501


STATIC = """HloModule a

ENTRY e {
  x = f32[4,3] parameter(0)
  c = f32[3] constant({1,2,3})
  b = f32[4,3] broadcast(c), dimensions={1}
  ROOT y = f32[4,3] add(x, b)
}
"""
DYNAMIC = """HloModule b

ENTRY e {
  x = f32[<=4] parameter(0)
  ROOT y = f32[<=4] negate(x)
}
"""
FED = """HloModule c

ENTRY e {
  t = token[] after-all()
  i = (s32[3], token[]) infeed(t)
  x = s32[3] get-tuple-element(i), index=0
  u = token[] get-tuple-element(i), index=1
  o = token[] outfeed(x, u), outfeed_shape=s32[3]
  ROOT y = s32[3] negate(x)
}
"""
DEVICES = """HloModule d, replica_count=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] all-reduce(x), to_apply=add
}
"""


def stored(target: str) -> list[bytes]:
    """The files of the corpus and of the findings."""
    return [path.read_bytes() for folder in (CORPUS, FINDINGS) for path in sorted((folder / target).glob("*"))]


def proto() -> list[bytes]:
    """Serialized modules."""
    from tests.support.hlo_modules import lowered_modules, text_modules  # imports JAX, which few targets need

    return [data for data in (*lowered_modules().values(), *text_modules().values()) if len(data) < 8000]


def text() -> list[bytes]:
    """Modules as text."""
    return [case.encode() for case in CASES.values() if len(case) < 4000]


@cache
def mlir_modules() -> tuple[Any, ...]:
    """Some of the modules that jaxlib makes of samples and forms."""
    from tests.support.hlo_modules import text_modules
    from tests.support.mlir_cases import all_forms
    from tests.support.stablehlo_files import CAPTURES, SHARDY, from_hlo, operations, parsed

    found = [all_forms(), parsed(SHARDY), parsed(CAPTURES)]
    for data in text_modules().values():
        if len(data) < 3000:
            try:
                module = from_hlo(Module.from_proto(data))
            except Exception:
                continue  # of which jaxlib makes no StableHLO
            if not any(op.name.startswith("mhlo.") for op in operations(module.body)):
                found.append(module)
    return tuple(found)


def mlir_bytecode() -> list[bytes]:
    """StableHLO as bytecode and as portable artifacts."""
    from tests.support.stablehlo_files import artifact_of, bytecode_of

    found = [bytecode_of(module) for module in mlir_modules()]
    for module in mlir_modules()[1:]:
        try:
            found.append(artifact_of(module))
        except Exception:
            continue  # what only newer versions have
    return found


def mlir_text() -> list[bytes]:
    """StableHLO in both forms of MLIR's text, and types that jaxlib does not know."""
    quantized = "tensor<4x!quant.uniform<i8<-127:127>:f32:0, {0.5:1, 0.25:0, 1.0, 2.0}>>"
    text = (
        f"func.func @main(%a: {quantized}) -> {quantized} {{ %0 = stablehlo.add %a, %a : {quantized} return %0 : "
        f"{quantized} }}"
    )
    found = [text.encode()]
    for module in mlir_modules():
        for generic in (False, True):
            found.append(
                module.operation.get_asm(enable_debug_info=not generic, print_generic_op_form=generic).encode()
            )
    return found


@cache
def exported() -> list[bytes]:
    """Files of jax.export, some with symbolic sizes."""
    import jax
    import jax.numpy as jnp
    from jax import export

    def tree(x: Any, given: Any) -> Any:
        return {"sum": x + given["w"][0], "sorted": jnp.sort(x * given["w"][1])}

    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, y: jnp.where(y > i, jnp.sin(y), y), x)

    one = np.ones(4, np.float32)
    a, b = export.symbolic_shape("a, b")
    sized = jax.ShapeDtypeStruct((a, b), np.float32)
    made = [
        export.export(jax.jit(tree), platforms=["cpu"])(one, {"w": (one, one)}),
        export.export(jax.jit(loop), platforms=["cpu"])(one),
        export.export(jax.jit(lambda x: jnp.concatenate([x.reshape(-1), x[0]]) * x.shape[0]), platforms=["cpu"])(sized),
        export.export(jax.jit(lambda x: x @ x.T), platforms=["cpu"])(sized),
    ]
    return [bytes(each.serialize()) for each in made]


def layout() -> list[bytes]:
    """Layouts of arrays of two dimensions."""
    return [each.encode() for each in LAYOUTS]


@cache
def artifacts() -> tuple[Artifact, ...]:
    """Small artifacts that between them have everything a manifest may have."""
    programs = (STATIC, DYNAMIC, FED, DEVICES)
    return (toy(), *(compile(Module.from_text(program), Options()) for program in programs))


@cache
def codes() -> dict[str, bytes]:
    """The modules without their manifests, by name."""
    return {each.manifest["name"]: each.wasm[: -len(with_manifest(b"", each.manifest))] for each in artifacts()}


def artifact() -> list[bytes]:
    """Modules with their manifests."""
    return [each.wasm for each in artifacts()]


def manifest() -> list[bytes]:
    """Manifests alone."""
    return [json.dumps(each.manifest, separators=(",", ":")).encode() for each in artifacts()]


def sidecar() -> list[bytes]:
    """The large constants of the toy."""
    return [SIDECAR.tobytes()]


def _saved(save: Any, *arguments: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arguments, **named)
    return buffer.getvalue()


def npy() -> list[bytes]:
    """Arrays as NumPy writes them."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.random((4, 3), np.float32),
        np.arange(3, dtype=np.int64),
        np.zeros((), np.complex64),
        np.zeros((2, 0), np.uint8),
    ]
    arrays += [
        np.asfortranarray(arrays[0]),
        arrays[0].astype(">f8"),
        np.array([True, False]),
        arrays[0].astype(np.float16),
    ]
    return [_saved(np.save, each) for each in arrays]


def npz() -> list[bytes]:
    """Archives of arrays."""
    made = [
        _saved(save, x=np.arange(6.0, dtype=np.float32).reshape(2, 3), y=np.arange(3))
        for save in (np.savez, np.savez_compressed)
    ]
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            archive.writestr("x.npy", npy()[0])
        made.append(buffer.getvalue())
    return made


def safetensors() -> list[bytes]:
    """Weights."""
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
        "c": {"dtype": "I64", "shape": [0, 5], "data_offsets": [26, 26]},
    }
    text = json.dumps(header).encode()
    return [len(text).to_bytes(8, "little") + text + bytes(range(26)), (2).to_bytes(8, "little") + b"{}"]


def requests() -> list[bytes]:
    """To a server: of every route and every form of a body."""
    part = b"--X\r\nContent-Disposition: form-data; name="
    form = part + b'"x"\r\n\r\n1 2 3 4 5 6\r\n' + part + b'"y"; filename=y.json\r\n\r\n[7]\r\n--X--\r\n'
    bodies = {
        "application/json": b'{"x": [[1, 2, 3], [4, 5, 6]], "y": [1, 2]}',
        "application/x-npy": _saved(np.save, np.ones((2, 3), np.float32)),
        "application/x-npz": _saved(np.savez, x=np.ones((2, 3), np.float32), y=np.arange(3, dtype=np.int32)),
        "application/octet-stream": bytes(24),
        "multipart/form-data; boundary=X": form,
    }
    accept = "Accept: text/html;q=0.5, */*"
    made = [f"GET {path} HTTP/1.1\r\nHost: h\r\n{accept}\r\n\r\n".encode() for path in ("/", "/metrics", "/docs", "/x")]
    for kind, body in (*bodies.items(), ("application/json", b"[[1, 2, 3]]")):
        head = f"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\n"
        made.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    made.append(
        f"{head}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n3\r\n[[1\r\n6;x=y\r\n,2,3]]\r\n0\r\n\r\n".encode()  # noqa: E501
    )
    return [*made, made[0] + made[4], made[-2].replace(b"HTTP/1.1", b"HTTP/1.0")]


def numbers() -> list[bytes]:
    """Returns the other inputs of commands and servers: JSON and numbers as text."""
    return [
        b"[[1, -2.5, 1e3], [4, .5, -6]]",
        b"1 2 3\n4 5 6",
        b'[["NaN", "-Infinity", 1], [2, 3, true]]',
        b'{"x": [[1,2,3],[4,5,6]]}',
    ]
