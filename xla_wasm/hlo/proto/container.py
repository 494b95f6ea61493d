"""Telling apart what a file or byte string can hold, by its structure: there is no magic number in HLO protos."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from ...errors import ParseError, UnsupportedError
from .wire import Buffer, fields

if TYPE_CHECKING:
    from ..ir import Module

_MLIR_MAGIC = b"ML\xefR"
EXPORTED = "a file of jax.export"
_HEAD = 1 << 16
"""Bytes of a file that are looked at."""
_CONTROL = rb"[\x00-\x08\x0e-\x1f]"
_COMMENTS = rb"(?:\s++|//[^\n]*+\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+"
_TEXT = _COMMENTS + rb"(?:HloModule\b|(?:ENTRY\s++)?+%?+[A-Za-z_][\w.-]*+\s*+(?:\([^()]*+[:)]|\{))"
_MLIR = _COMMENTS + rb"(?:#\w|!\w+\s*=|module\s*(?:@|\{|attributes\b)|\"?builtin\.module\b|\"?func\.func\b)"


def read_module(data: str | bytes | bytearray | memoryview) -> Module:
    """The module in the contents of a file: HLO text, a proto of any of the kinds that `module_bytes` knows, StableHLO
    as bytecode or text, or what jax.export writes."""
    from ..ir import Module

    if isinstance(data, str):
        return (
            Module.from_stablehlo(data)
            if re.match(_MLIR, data[:_HEAD].encode("utf-8", "replace"))
            else Module.from_text(data)
        )
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ParseError(f"a module is bytes or text, not {type(data).__name__}")
    kind = mlir_kind(data)
    if kind:
        return Module.from_exported(data) if kind == EXPORTED else Module.from_stablehlo(data)
    if not is_text(data):
        return Module.from_proto(data)
    try:
        return Module.from_text(bytes(data).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ParseError(f"HLO text: the byte at {error.start} is not UTF-8") from None


def mlir_kind(data: bytes | bytearray | memoryview) -> str:
    """Returns the form of StableHLO that this is: "MLIR bytecode", "MLIR text" or EXPORTED; empty if it is none."""
    view = memoryview(data)
    if bytes(view[:4]) == _MLIR_MAGIC:
        return "MLIR bytecode"
    head = bytes(view[:_HEAD]).removeprefix(b"\xef\xbb\xbf")
    if re.match(_MLIR, head) and not re.search(_CONTROL, head):
        return "MLIR text"
    return EXPORTED if (_is_exported(view) or _MLIR_MAGIC in head) and not is_module(view) else ""


def _is_exported(view: memoryview) -> bool:
    """Returns True if this is a flatbuffer whose root table has MLIR bytecode in its field 13: the outline of
    jax.export's files."""
    try:
        (root,) = struct.unpack_from("<I", view)
        vtable = root - struct.unpack_from("<i", view, root)[0]
        size, slot = struct.unpack_from("<H", view, vtable)[0], 4 + 2 * 13
        field = root + struct.unpack_from("<H", view, vtable + slot)[0] if vtable >= 0 and slot + 2 <= size else 0
        at = field + struct.unpack_from("<I", view, field)[0] if field > root else 0
    except struct.error:
        return False
    return at > 0 and bytes(view[at + 4 : at + 8]) == _MLIR_MAGIC


def is_text(data: bytes | bytearray | memoryview) -> bool:
    """Returns True if this looks like HLO text: a header or a computation, behind comments, and no control
    characters."""
    head = bytes(memoryview(data)[:_HEAD]).removeprefix(b"\xef\xbb\xbf")
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
    raise ParseError(
        "these bytes hold no HLO module: they are neither HloModuleProto, HloProto, HloSnapshot nor "
        "HloUnoptimizedSnapshot, nor HLO text, StableHLO or a file of jax.export; docs/models.md says how to make one"
    )


def _reject_others(view: memoryview) -> None:
    """Say what it is, if it is something else that people have at hand."""
    head = bytes(view[:4096])
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n"):
        raise ParseError("the module is empty: nothing was written to it, make it anew")
    if is_text(view):
        raise UnsupportedError("this is HLO text: give it to HloModule.from_text")
    kind = mlir_kind(view)
    if kind:
        method = "from_exported" if kind == EXPORTED else "from_stablehlo"
        raise UnsupportedError(
            f"this is StableHLO ({kind}), not HLO: give it to HloModule.{method} or HloModule.from_bytes"
        )
    for magic, what in (
        (b"\x1f\x8b", "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\0asm", "a WebAssembly module"),
    ):
        if head.startswith(magic):
            raise ParseError(f"these bytes are {what}, not an HLO module")


def is_module(data: Buffer) -> bool:
    """Returns True if this has the outline of an HloModuleProto: computations with instructions, and a name that is
    plain text."""
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
