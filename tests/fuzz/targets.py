"""Targets of the fuzzer: a function of bytes that may raise errors of ours only, its seeds, and pieces that mean
something to it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.toy_artifact import toy, with_manifest
from xla_wasm import XlaWasmError, compile, load
from xla_wasm.artifact import Artifact
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.verify import verify
from xla_wasm.host.arrays import dtype_of
from xla_wasm.host.manifest import Manifest

from . import seeds
from .mutate import Change, changed, changed_json, changed_module, changed_request

LIMITS: dict[str, Any] = {"fuel": 30_000_000, "memory_limit": 1 << 26, "timeout": 1.0}


@dataclass(frozen=True)
class Target:
    """One reader."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    words: tuple[bytes, ...] = ()
    change: Change = changed


def _words(text: str) -> tuple[bytes, ...]:
    return tuple(text.encode().split())


_HLO = _words(
    "{ } ( ) [ ] , = : * # + ~ -> <= ... % ROOT ENTRY HloModule f32[2] s4[3,1] c64[] token[] opaque[] (f32[],s32[2]) "
    "{0} {1,0:T(2,128)} "
    "f32[<=3] 1x1 b01f_01io->b01f add({...}) calls=add to_apply={ sharding={ metadata={ frontend_attributes={ "
    "custom_call_target= "
    "replica_count= window={size=3 dim_labels= constant( nan inf -0 1e400 9999999999999999999 \u00e9 \u2028 \\ \" ' "
    "/* */ //"
)
_NPY = (
    *(b"\x93NUMPY\1\0", b"'descr': ", b"'<f4'", b"'|O'", b"[('a', '<f4')]", b"'fortran_order': True"),
    *(b"'shape': (1000000000000,)", b"(((", b"-1"),
)
_ZIP = (b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\7\10", b".npy", b"\0\0\0\0", b"\xff\xff\xff\xff")
_LAYOUT = _words("{ } ( ) , : * # 0 1 2 -1 128 T( D( E( S( M( L( #( u32 s64 * D C S H T(2,128)(2,1)")
_SAFETENSORS = _words("F32 F16 BF16 I64 BOOL F8_E4M3 shape dtype data_offsets 1e999 -1 __metadata__")
_MLIR = _words(
    '{ } ( ) [ ] < > , = : -> @ # ! % ^bb0: %0 %0#1 %0:2 " // loc( module func.func return stablehlo. chlo. vhlo. '
    "sdy. mhlo. tensor< x ? * "
    '#stablehlo.bounds< !quant.uniform<i8:f32, complex< tuple< !stablehlo.token dense< dense<"0x dense_resource< '
    "array<i64: unit true "
    "#stablehlo.dot< #stablehlo.conv<[b,0,f]x[0,i,o]->[b,0,f]> attributes private i1 i64 ui4 f8E4M3FN index "
    "0x7FC00000 1e400 "
    "9223372036854775808 -1 99999999999x loc(#loc1) #loc1 {-# #-} \\22 \u00e9"
)
_BYTECODE = (b"ML\xefR", b"\r", b"\x01\0", b"\0" * 9, b"\xff" * 8, b"stablehlo", b"vhlo", b"\x03", b"\x81")
_NUMBERS = _words('[ ] , nan Infinity 1e999 " -')
_HTTP = tuple(
    b"POST / HTTP/1.1\r\n|HEAD / HTTP/1.1\r\n|\r\n|\r\n\r\n|Content-Length: 5\r\n|Connection: close\r\n"
    b"|Transfer-Encoding: chunked\r\n"
    b"|0\r\n\r\n|Content-Encoding: gzip\r\n|Content-Type: |Accept: |;q=0|Expect: 100-continue\r\n"
    b"|application/json|application/x-npz"
    b"|multipart/form-data; boundary=X|text/csv|--X|--X--|; name=|; filename=x.npy".split(b"|")
)
_WASM = (b"xla_wasm", b"\0asm\1\0\0\0", b"\xfd\x0c", b"\x0b", b"\x03\x40", b"\x0c\0")


def _module(module: Module) -> None:
    """All that reading alone allows to do with a module."""
    for instruction in module.instructions():
        literal = instruction.attrs.get("literal")
        if literal is not None and literal.shape.is_array and literal.shape.size < 1 << 16:
            literal.values()
    for step in (verify, Module.to_text, Module.to_proto):
        with contextlib.suppress(XlaWasmError):
            step(module)


def _proto(data: bytes) -> None:
    _module(Module.from_proto(data))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _text(data: bytes) -> None:
    _module(Module.from_text(_decoded(data)))


def _mlir(data: bytes) -> None:
    _module(Module.from_stablehlo(data))


def _exported(data: bytes) -> None:
    """As it is, and with sizes for symbols."""
    with contextlib.suppress(XlaWasmError):
        _module(Module.from_exported(data, {"a": 3, "b": range(1, 6)}))
    _module(Module.from_exported(data))


def _layout(data: bytes) -> None:
    """Of a parameter: read, compiled, and run on physical bytes."""
    text = (
        f"HloModule m\n\nENTRY e {{\n  x = f32[5,3]{_decoded(data)} parameter(0)\n  ROOT y = f32[5,3] negate(x)\n}}\n"
    )
    exe = load(compile(Module.from_text(text)), physical=True, **LIMITS)
    exe.run(bytes(exe.parameters[0].bytes))


def _manifest(data: bytes) -> None:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        return  # `_artifact` reads what is no JSON
    Manifest.parse(manifest)


def use(artifact: Artifact) -> None:
    """All that a host does with an artifact."""
    exe = load(artifact, **LIMITS)
    for parameter in exe.parameters:
        if parameter.kind != "input":
            exe.set(parameter.name, np.zeros(parameter.dimensions, dtype_of(parameter.element_type)))
            exe.get(parameter.name)
    arguments = [np.ones(p.dimensions, dtype_of(p.element_type)) for p in exe.parameters if p.kind == "input"]
    feeds: dict[str, Any] = {"infeed": [np.ones(3, np.int32)] * 3, "outfeed": lambda x: None}
    kinds = {getattr(request, "kind", "") for request in exe.manifest.requests}
    given = {name: value for name, value in feeds.items() if name in kinds}
    if exe.manifest.devices is None:
        exe.run(*arguments, **given)
        exe.profile(*arguments, **given)
    else:
        exe.run_replicated([arguments] * 2, timeout=1.0)


def _artifact(data: bytes) -> None:
    use(Artifact(data, Artifact.open(data).manifest, seeds.sidecar()[0]))


def _sidecar(data: bytes) -> None:
    use(toy(weights=data))


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz"))


def _file(data: bytes, name: str) -> Path:
    path = _folder() / f"{os.getpid()}.{name}"
    path.write_bytes(data)
    return path


def _npy(data: bytes) -> None:
    from xla_wasm.command.inputs import File

    File(_file(data, "x.npy")).array("f32", 100)


def _npz(data: bytes) -> None:
    from xla_wasm.command.inputs import File

    path = _file(data, "x.npz")
    with contextlib.suppress(XlaWasmError):
        File(path).listed(None, (100, 100))
    File(path).arrays({"x": 100})


def _safetensors(data: bytes) -> None:
    from xla_wasm import safetensors

    for tensor in safetensors.read(_file(data, "x.safetensors")).values():
        assert tensor.data.nbytes <= len(data)


MODEL = """HloModule m

ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[<=4] parameter(1)
  ROOT r = (f32[2,3], f32[<=4]) tuple(x, y)
}
"""


def _command(data: bytes) -> None:
    """Has a command read the data as each kind of file: it must end with exit code 0, 1 or 2, and begin its message
    with its name unless that is 0."""
    from tests.support.wasi_commands import command, run

    made = command(MODEL)
    for name in ("x.npy", "x.npz", "x.json", "x.bin"):
        done = run(made, _folder() / str(os.getpid()), name, "--random", "-o", "y.npz", files={name: data})
        assert done.code in (0, 1, 2), done
        assert done.code == 0 or done.err.startswith("m: "), done


def _javascript(name: str, mode: str, data: bytes) -> None:
    from .javascript import engine

    engine(name).ask(mode, data)


def _manifest_in(name: str) -> Callable[[bytes], None]:
    """A manifest with the code of the artifact that has its name, loaded in the engine's own thread."""

    def run(data: bytes) -> None:
        codes = seeds.codes()
        named = next((code for own, code in codes.items() if f'"name":"{own}"'.encode() in data), codes["a"])
        _javascript(name, "here", with_manifest(named, data))

    return run


def _artifact_in(name: str) -> Callable[[bytes], None]:
    """A whole artifact, which nobody trusts, in a worker."""
    return lambda data: _javascript(name, "worker", data)


def _server(data: bytes) -> None:
    from .server import ask

    ask(data)


TARGETS: dict[str, Target] = {
    "proto": Target(_proto, seeds.proto),
    "text": Target(_text, seeds.text, _HLO),
    "mlir-bytecode": Target(_mlir, seeds.mlir_bytecode, _BYTECODE),
    "mlir-text": Target(_mlir, seeds.mlir_text, _MLIR),
    "exported": Target(_exported, seeds.exported, _BYTECODE),
    "layout": Target(_layout, seeds.layout, _LAYOUT),
    "manifest": Target(_manifest, seeds.manifest, change=changed_json),
    "artifact": Target(_artifact, seeds.artifact, _WASM, changed_module),
    "sidecar": Target(_sidecar, seeds.sidecar),
    "npy": Target(_npy, seeds.npy, _NPY),
    "npz": Target(_npz, seeds.npz, (*_NPY, *_ZIP)),
    "safetensors": Target(_safetensors, seeds.safetensors, _SAFETENSORS),
    "node-manifest": Target(_manifest_in("node"), seeds.manifest, change=changed_json),
    "node-artifact": Target(_artifact_in("node"), seeds.artifact, _WASM, changed_module),
    "chromium-manifest": Target(_manifest_in("chromium"), seeds.manifest, change=changed_json),
    "chromium-artifact": Target(_artifact_in("chromium"), seeds.artifact, _WASM, changed_module),
    "server": Target(_server, seeds.requests, (*_HTTP, *_NPY, *_ZIP, *_NUMBERS), changed_request),
    "command": Target(_command, lambda: [*seeds.npy(), *seeds.npz(), *seeds.numbers()], (*_NPY, *_ZIP, *_NUMBERS)),
}
