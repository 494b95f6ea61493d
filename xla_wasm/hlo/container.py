"""Telling apart what a file or byte string can hold, by its structure: there is no magic number in HLO protos."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import ParseError, UnsupportedError
from .wire import Buffer, fields

if TYPE_CHECKING:
    from .ir import Module

_HOW = "lower the function with jax.jit(f).lower(...).compiler_ir('hlo').as_serialized_hlo_module_proto()"
_MLIR_MAGIC = b"ML\xefR"
_CONTROL = rb"[\x00-\x08\x0e-\x1f]"
_COMMENTS = rb"(?:\s++|//[^\n]*+\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+"
_TEXT = _COMMENTS + rb"(?:HloModule\b|(?:ENTRY\s++)?+%?+[A-Za-z_][\w.-]*+\s*+(?:\([^()]*+[:)]|\{))"
_MLIR = _COMMENTS + rb"(?:#\w|module\b|builtin\.module|func\.func)"


def read_module(data: str | bytes | bytearray | memoryview) -> Module:
    """The module in the contents of a file: HLO text, or a proto of any of the kinds that `module_bytes` knows."""
    from .ir import Module

    if isinstance(data, str):
        return Module.from_text(data)
    if not is_text(data):
        return Module.from_proto(data)
    try:
        return Module.from_text(bytes(data).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ParseError(f"HLO text: the byte at {error.start} is not UTF-8") from None


def is_text(data: bytes | bytearray | memoryview) -> bool:
    """Whether this looks like HLO text: a header or a computation, behind comments, and no control characters."""
    head = bytes(memoryview(data)[: 1 << 16]).removeprefix(b"\xef\xbb\xbf")
    return not re.search(_CONTROL, head) and not re.match(_MLIR, head) and bool(re.match(_TEXT, head))


def module_bytes(data: bytes | bytearray | memoryview) -> Buffer:
    """The bytes of the HloModuleProto that `data` is or holds."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ParseError(f"an HLO module is bytes, not {type(data).__name__}")
    view = memoryview(data if isinstance(data, bytes) else bytes(data))
    _reject_others(view)
    if is_module(view):
        return view
    inner = _first(view)  # of an HloProto or HloUnoptimizedSnapshot: the module; of an HloSnapshot: the HloProto
    for _ in range(2):
        if inner is None:
            break
        if is_module(inner):
            return inner
        inner = _first(inner)
    raise ParseError("these bytes hold no HLO module: they are neither HloModuleProto, HloProto, HloSnapshot nor HloUnoptimizedSnapshot")


def _reject_others(view: memoryview) -> None:
    """Say what it is, if it is something else that people have at hand."""
    head = bytes(view[:4096])
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text:
        raise ParseError("the module is empty")
    if is_text(view):
        raise UnsupportedError("this is HLO text: give it to HloModule.from_text")
    if text.startswith((b"module @", b"module {", b"module attributes", b"#loc", b"builtin.module", b"func.func")):
        raise UnsupportedError(f"this is StableHLO (MLIR text), not HLO: {_HOW}")
    if head.startswith(_MLIR_MAGIC):
        raise UnsupportedError(f"this is StableHLO (MLIR bytecode), not HLO: {_HOW}")
    if _MLIR_MAGIC in head and not is_module(view):
        raise UnsupportedError(f"this is an artifact of jax.export (StableHLO in a flatbuffer), not HLO: {_HOW}")
    for magic, what in ((b"\x1f\x8b", "gzip"), (b"PK\x03\x04", "zip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\0asm", "a WebAssembly module")):
        if head.startswith(magic):
            raise ParseError(f"these bytes are {what}, not an HLO module")


def is_module(data: Buffer) -> bool:
    """Whether this has the outline of an HloModuleProto: computations with instructions, and a name that is plain text."""
    computations = False
    try:
        for number, wire, value in fields(data):
            if number in (1, 2) and (wire != 2 or not _is_name(value)):
                return False
            if number == 3 and not computations:
                if wire != 2:
                    return False
                computations = any(n == 2 and w == 2 for n, w, _ in fields(value))
    except ParseError:
        return False
    return computations


def _is_name(value: Buffer) -> bool:
    """Text without control characters, as no serialized message is."""
    return all(byte >= 32 for byte in bytes(value[:4096]))


def _first(data: Buffer) -> Buffer | None:
    """Field 1 if `data` is a message that has one with bytes in it."""
    try:
        found = [value for number, wire, value in fields(data) if number == 1 and wire == 2]
    except ParseError:
        return None
    return found[0] if len(found) == 1 else memoryview(b"".join(found)) if found else None
