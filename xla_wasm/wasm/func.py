"""A function under construction: instructions are appended as bytes at once, with no list of objects in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from .encoding import f32_bytes, f64_bytes, sleb32, sleb64, uleb
from .opcodes import CODE, IMMEDIATES, VALUE_TYPES

_PADDED = b"\x80\x80\x80\x80\x00"
_EMPTY_BLOCK = b"\x40"


def _memarg(align: int, offset: int = 0) -> bytes:
    return uleb(align) + uleb(offset)


def _memarg_lane(align: int, offset: int, lane: int) -> bytes:
    return uleb(align) + uleb(offset) + uleb(lane)


def _block(kind: str | None) -> bytes:
    return _EMPTY_BLOCK if kind is None else bytes([VALUE_TYPES[kind]])


def _labels(labels: Sequence[int], default: int) -> bytes:
    return uleb(len(labels)) + b"".join(map(uleb, labels)) + uleb(default)


def value_types(*kinds: str) -> bytes:
    """The number of these types, and the byte of each."""
    return uleb(len(kinds)) + bytes(VALUE_TYPES[kind] for kind in kinds)


def _sixteen(data: bytes) -> bytes:
    if len(data) != 16:
        raise ValueError(f"a v128 immediate has 16 bytes, not {len(data)}")
    return data


def _shuffle(*lanes: Any) -> bytes:
    """Sixteen lane numbers, one by one or as one bytes-like or sequence."""
    return _sixteen(bytes(lanes[0] if len(lanes) == 1 else lanes))


def _heap(kind: str) -> bytes:
    return bytes([VALUE_TYPES[kind]])


def _pair(first: int, second: int = 0) -> bytes:
    return uleb(first) + uleb(second)


_ENCODERS: dict[tuple[str, ...], Callable[..., bytes]] = {
    ("block",): _block,
    ("labels",): _labels,
    ("types",): value_types,
    ("heap",): _heap,
    ("memarg",): _memarg,
    ("memarg", "lane"): _memarg_lane,
    ("i32",): sleb32,
    ("i64",): sleb64,
    ("f32",): f32_bytes,
    ("f64",): f64_bytes,
    ("v128",): _sixteen,
    ("shuffle",): _shuffle,
}
# Immediates that go without saying: the one memory, the one table, no block result.
_IMPLIED = {"block": _EMPTY_BLOCK, "memory": b"\0", "table": b"\0", "zero": b"\0"}


def _encoder(kinds: tuple[str, ...]) -> Callable[..., bytes]:
    kinds = tuple(kind.partition(":")[0] for kind in kinds)
    return _ENCODERS.get(kinds) or (uleb if len(kinds) == 1 else _pair)


_BARE: dict[str, bytes] = {name: code for name, code in CODE.items() if name not in IMMEDIATES} | {
    name: CODE[name] + b"".join(_IMPLIED[kind] for kind in kinds)
    for name, kinds in IMMEDIATES.items()
    if all(kind in _IMPLIED for kind in kinds)
}
_WITH: dict[str, tuple[bytes, Callable[..., bytes]]] = {
    name: (CODE[name], _encoder(kinds)) for name, kinds in IMMEDIATES.items()
}


_KEPT = 1 << 16


def _encode(name: str, *immediates: object) -> bytes:
    if not immediates:
        return _BARE[name]
    code, encode = _WITH[name]
    return code + encode(*immediates)


class _Encoded(dict[tuple[Any, ...], bytes]):
    """Instructions as bytes, remembered but for constants that are floats: 0 equals -0."""

    def __missing__(self, instruction: tuple[Any, ...]) -> bytes:
        encoded = _encode(*instruction)
        if len(self) < _KEPT and instruction[0] not in ("f32.const", "f64.const"):
            self[instruction] = encoded
        return encoded


_ENCODED = _Encoded()


class Func:
    """One function. `code` grows by `op`, `raw` and `call`; nothing is checked here, `validate` checks the module.

    Calls and indirect-call types are written as padded placeholders and resolved when the module is encoded:
    `calls` and `type_uses` hold their offsets in `code`.
    """

    __slots__ = ("calls", "code", "locals", "name", "params", "results", "type_uses")

    def __init__(self, name: str, params: tuple[str, ...] = (), results: tuple[str, ...] = ()) -> None:
        self.name = name
        self.params = params
        self.results = results
        self.locals: list[str] = []
        self.code = bytearray()
        self.calls: list[tuple[int, str]] = []
        self.type_uses: list[tuple[int, tuple[str, ...], tuple[str, ...]]] = []

    def local(self, kind: str) -> int:
        """Declare a local of a value type; its index."""
        self.locals.append(kind)
        return len(self.params) + len(self.locals) - 1

    def op(self, *instruction: Any) -> None:
        """Append an instruction, by its name and immediates: `op("i32.add")`, `op("v128.load", align_log2, offset)`,
        `op("block", "i32")`, `op("br_table", [0, 1], 2)`, `op("v128.load32_lane", align_log2, offset, lane)`."""
        try:
            self.code += _ENCODED[instruction]
        except TypeError:  # a list has no hash
            self.code += _encode(*instruction)

    def word(self, pointer: int, number: int) -> None:
        """Append a load of the 32-bit word of this number behind the address in a local."""
        self.op("local.get", pointer)
        self.op("i32.load", 2, 4 * number)

    def sum(self, local: int, constant: int) -> None:
        """Append the sum of a local and a constant, both i32."""
        self.op("local.get", local)
        self.op("i32.const", constant)
        self.op("i32.add")

    def trap_if(self, address: int) -> None:
        """Append a trap for the case that the 32-bit word at a constant address is -1, and not 0: a load from where
        the word says, which is outside of every memory. A branch would cost the loops around it their registers."""
        self.op("i32.const", address)
        self.op("i32.load", 2, 0)
        self.op("i32.load", 0, 0)
        self.op("drop")

    def raw(self, code: bytes) -> None:
        """Append instructions that are already encoded."""
        self.code += code

    def call(self, symbol: str) -> None:
        """Append a call of the function that the module will hold under this name."""
        self.code += CODE["call"]
        self.calls.append((len(self.code), symbol))
        self.code += _PADDED

    def call_indirect(self, params: tuple[str, ...], results: tuple[str, ...]) -> None:
        """Append a call through the function table; the slot is on the stack."""
        self.code += CODE["call_indirect"]
        self.type_uses.append((len(self.code), params, results))
        self.code += _PADDED + b"\0"

    def body(
        self,
        function: Callable[[str], int] = lambda symbol: 0,
        signature: Callable[[tuple[str, ...], tuple[str, ...]], int] = lambda params, results: 0,
    ) -> bytes:
        """The encoded body: locals in runs, code with resolved indices (in their shortest form), the final `end`."""
        runs = [(kind, len(list(group))) for kind, group in groupby(self.locals)]
        parts = [uleb(len(runs)) + b"".join(uleb(count) + bytes([VALUE_TYPES[kind]]) for kind, count in runs)]
        patches = [(offset, function(symbol)) for offset, symbol in self.calls]
        patches += [(offset, signature(params, results)) for offset, params, results in self.type_uses]
        start = 0
        for offset, index in sorted(patches):
            parts.append(bytes(self.code[start:offset]))
            parts.append(uleb(index))
            start = offset + len(_PADDED)
        parts.append(bytes(self.code[start:]))
        parts.append(CODE["end"])
        return b"".join(parts)
