"""Kinds of artifacts: a plain module, which a host runs, or one with a front, C code in `runtime_c/front/` that makes a
program of it.

A front knows the model from its description, which stands in memory as `front.h` declares it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass, field
from ..errors import UnsupportedError
from ..hlo.types import REAL_OF, TYPES
from ..target import COMMAND, MODULE, SERVER
from ..wasm.func import Func
from . import wasi_http

if TYPE_CHECKING:
    from ..link.link import Alloc

DESCRIPTION = "description"
"""The function that gives a front the address of the model's description."""

_OWN = ("pull", "push", "fail", "fail_name", "fail_shape", "failed")
"""Functions that each front defines for the code that they share: input and output of bytes, and errors."""

_ELEMENTS = {
    "encode_short": ("xw_encode_short", "xw_no_encode_short"),
    "encode_integer": ("xw_encode_integer", "xw_no_encode_integer"),
    "settle_complex": ("xw_settle_complex", "xw_no_settle_complex"),
    "to_bounds": ("xw_to_bounds", "xw_no_bounds"),
    "raw_bounds": ("xw_raw_bounds", "xw_no_raw_bounds"),
}
"""Functions that all fronts call, as in `Front.optional`."""


@dataclass(frozen=True, slots=True)
class Front:
    """C code that an artifact of some kind has in addition."""

    exports: Mapping[str, str]
    """Name of an export -> the C function."""
    name: str
    """The prefix of its own functions."""
    optional: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Functions that the C code calls beside `_ELEMENTS` -> the one that does it, and the one for models that have no
    use for it."""

    def chosen(self, used: Iterable[str]) -> dict[str, str]:
        """Returns the function to link for each one that C code leaves open; of `optional`, `used` are those of use."""
        used = set(used)
        own = {name: f"{self.name}_{name}" for name in _OWN}
        return own | {
            name: does if name in used else does_not
            for name, (does, does_not) in {**_ELEMENTS, **self.optional}.items()
        }


FRONTS = {
    COMMAND: Front(
        {"_start": "xw_command"},
        "xw_command",
        {
            "read_weights": ("xw_read_weights", "xw_no_weights"),
            "say_weights_usage": ("xw_say_weights_usage", "xw_no_weights_usage"),
            "serve": ("xw_serve", "xw_no_serve"),
            "option": ("xw_transfer_option", "xw_no_transfer_option"),
        },
    ),
    SERVER: Front({wasi_http.HANDLE: "xw_server"}, "xw_server", {"serve": ("xw_server_serve", "xw_server_no_serve")}),
}

_REQUESTS = ("infeed", "outfeed", "recv", "send", "callback", "assertion")
"""Requests that fronts serve. The last two end a run: a callback, and one that says that the inputs do not fit
together."""
_LEAVES = ("input", "weight", "state", "output", "operand", "result")
_KINDS = ("pred", "unsigned", "signed", "float", "complex")
_CODES = {"pred": "b", "unsigned": "u", "signed": "i", "float": "f", "complex": "c"}
_ROUNDED, _ONE_ZERO, _NO_SIGN = 1, 2, 4


def low_bytes(kind: str) -> int:
    """The bytes below the buffers of a program that its front has: an address below 8,192 takes a byte less in each
    instruction."""
    return {COMMAND: 6144, SERVER: 7168}.get(kind, 0)


def written_pages(kind: str) -> int:
    """The size of the pages that what a program writes shares with no constants, or 0.

    Engines map constants from the file. A page that has been read there and is written then has to be copied, and taken
    from the address space of every thread; others just begin as zeros.
    """
    return 4096 if kind in FRONTS else 0


def used_by(manifest: Mapping[str, Any]) -> set[str]:
    """The optional functions of fronts that are of use to a program."""
    leaves = [
        *manifest["parameters"],
        *manifest["results"],
        *(x for r in manifest["requests"] for x in (*r["operands"], *r["results"])),
    ]
    types = {REAL_OF.get(leaf["element_type"], leaf["element_type"]) for leaf in leaves}
    floats = {name for name in types if TYPES[name].kind == "float"}
    used = set()
    if any(TYPES[name].bits < 32 for name in floats):
        used.add("encode_short")
    if types - floats:
        used.add("encode_integer")
    if any(TYPES[leaf["element_type"]].kind == "complex" for leaf in leaves):
        used.add("settle_complex")
    if any("sizes" in leaf for leaf in leaves):
        used |= {"to_bounds", "raw_bounds"}
    if any(p["kind"] != "input" for p in manifest["parameters"]) or any(
        i["kind"] == "sidecar" for i in manifest["inits"]
    ):
        used |= {"read_weights", "say_weights_usage"}
    if manifest["requests"]:
        used |= {"serve", "option"}
    return used


def check(kind: str, manifest: Mapping[str, Any]) -> None:
    """Raises UnsupportedError if a program cannot be of this kind."""
    if kind == SERVER:
        for leaf in manifest["parameters"]:
            if leaf["kind"] == "weight":
                what = (
                    f"its weight '{leaf['name']}' would come from a file, which a server does not read; make it a "
                    f"constant"
                )
                raise UnsupportedError(f"'{manifest['name']}': {what}, as `safetensors.bind` does")
            if leaf["kind"] == "state" and "least" in leaf:
                what = (
                    f"its state '{leaf['name']}' is empty in each request, and the program is not made for such sizes"
                )
                raise UnsupportedError(f"'{manifest['name']}': {what}: make it an input")
        if any(init["kind"] == "sidecar" for init in manifest["inits"]):
            raise UnsupportedError(f"'{manifest['name']}': a server has its constants in it: leave sidecar out")
        for request in (r for r in manifest["requests"] if r["kind"] != "callback"):
            raise UnsupportedError(
                f"{request['name']}: it needs a host while the program runs, which a server has not; see `xla-wasm "
                f"serve-model`"
            )
    for request in manifest["requests"]:
        if request["kind"] not in _REQUESTS:
            what = (
                "exchanges data with other devices" if request["kind"] == "exchange" else "calls a function of the host"
            )
            raise UnsupportedError(f"{request['name']}: it {what}, which a {kind} cannot do; compile it as a {MODULE}")


class _Memory:
    """Records that point at each other, at the addresses where they will lie."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._content = bytearray()

    def put(self, content: bytes, align: int = 4) -> int:
        """Adds bytes; their address."""
        self._content += bytes(-len(self._content) % align)
        self._content += content
        return self._base + len(self._content) - len(content)

    def words(self, words: Iterable[int]) -> int:
        """Adds words; the address of the first."""
        return self.put(b"".join(word.to_bytes(4, "little") for word in words))

    def text(self, text: str) -> int:
        """Adds a string that ends with a zero."""
        return self.put(text.encode().replace(b"\0", b" ") + b"\0", 1)

    def content(self) -> bytes:
        """All of it."""
        return bytes(self._content)


ARRAY_BYTES = 44
"""The size of `struct array`."""


def describe(
    manifest: Mapping[str, Any], alloc: Alloc, initial: Mapping[int, bytes | memoryview] | None = None
) -> tuple[int, int, bytes]:
    """The description of a program: the address of `struct model`, and where its bytes go.

    `initial` is what states begin with, by their parameters, where the front has them begin anew.
    """
    # Where it lies depends on how long it is, and that on nothing else.
    initial = initial or {}
    _, draft = _described(manifest, _Memory(0), initial)
    base = alloc(len(draft), 4, True)
    model, content = _described(manifest, _Memory(base), initial)
    return model, base, content


def _described(
    manifest: Mapping[str, Any], memory: _Memory, initial: Mapping[int, bytes | memoryview]
) -> tuple[int, bytes]:
    types: dict[str, int] = {}
    parameters, results = manifest["parameters"], [r for r in manifest["results"] if r["kind"] == "output"]
    given = _arrays(
        parameters, manifest["inits"], types, memory, {p: memory.put(bytes(data)) for p, data in initial.items()}
    )
    made = _arrays(results, (), types, memory)
    inits = [i["index"] for i in manifest["inits"] if i["kind"] == "segment"]
    parts = [i for i in manifest["inits"] if i["kind"] == "sidecar"]
    part = memory.put(b"".join(_part(i) for i in parts))
    transfers = []
    for request in manifest["requests"]:
        kind, target, leaves = request["kind"], request["target"], request["results"] or request["operands"]
        if kind == "callback":
            if not request["target"] and request["format"]:
                kind = "assertion"
            target, leaves = request["format" if kind == "assertion" else "place"] or request["name"], []
        transfers += [_REQUESTS.index(kind), memory.text(target), len(leaves), _arrays(leaves, (), types, memory)]
    end = given + len(parameters) * ARRAY_BYTES
    words = [
        memory.text(manifest["name"]),
        len(parameters),
        given,
        end,
        len(results),
        made,
        len(inits),
        memory.words(inits),
    ]
    words += [len(parts), max((i["sidecar_offset"] + i["bytes"] for i in parts), default=0), part]
    words += [len(manifest["requests"]), memory.words(transfers), manifest["request"]]
    return memory.words(words), memory.content()


def _arrays(
    leaves: Sequence[Mapping[str, Any]],
    inits: Sequence[Mapping[str, Any]],
    types: dict[str, int],
    memory: _Memory,
    initial: Mapping[int, int] | None = None,
) -> int:
    """The address of an array of `struct array`. `initial`: by the numbers of leaves, where lies what they begin
    with."""
    words = []
    for i, leaf in enumerate(leaves):
        name, dimensions = leaf["element_type"], leaf["dimensions"]
        if name not in types:
            types[name] = memory.put(_format(name))
        stride, strides = TYPES[name].bytes, [0] * len(dimensions)
        for d in leaf["minor_to_major"]:
            strides[d] = stride
            stride *= dimensions[d]
        sizes = leaf.get("sizes") or [None] * len(dimensions)
        least = leaf.get("least") or [size if at is None else 0 for size, at in zip(dimensions, sizes)]
        dims = memory.words(
            word
            for size, stride, at, low in zip(dimensions, strides, sizes, least)
            for word in (size, stride, at or 0, low)
        )
        kind = min(_LEAVES.index(leaf["kind"]), _LEAVES.index("output"))
        init = leaf.get("init")
        step = (initial or {}).get(i, 0) if init is None else inits[init]["index"] + 1
        data = leaf["offset"] if prod(dimensions) else 0
        words += [
            memory.text(leaf["name"]),
            types[name],
            kind,
            len(dimensions),
            dims,
            data,
            leaf["bytes"],
            step,
            0,
            0,
            0,
        ]
    return memory.words(words)


def _part(init: Mapping[str, Any]) -> bytes:
    words = (init["index"], init["bytes"], init["sidecar_offset"], init["staging"])
    return struct.pack("<4I", *words) + bytes.fromhex(init["sha256"])


def _format(name: str) -> bytes:
    """An element type as `struct format`."""
    type_ = TYPES[name]
    value, in_numpy = REAL_OF.get(name, name), "." not in type_.numpy
    format_, flags = TYPES[value].format, _ROUNDED if in_numpy else 0
    mantissa = bias = largest = infinite = nan = 0
    if format_:
        bits, mantissa, bias, special = format_
        half = 1 << bits + mantissa
        if special == "powers of two":
            flags |= _NO_SIGN
            largest, infinite, nan = 254, 254, 255
        elif special == "finite":
            largest = infinite = half - 1
        elif special == "nan":
            largest, infinite, nan = half - 2, half - 2, half - 1
        elif special == "no negative zero":
            flags |= _ONE_ZERO
            largest, infinite, nan = half - 1, half - 1, half
        else:
            infinite = half - (1 << mantissa)
            largest, nan = infinite - 1, infinite | 1 << mantissa >> 1
    if value in ("f32", "f64"):
        largest = infinite = nan = 0  # these have machine types
    code = f"{_CODES[type_.kind]}{type_.bytes}" if in_numpy else f"V{type_.bytes}"
    bits = TYPES[value].bits if type_.kind != "pred" else 8
    head = struct.pack(
        "<14s4s6B", name.encode(), code.encode(), _KINDS.index(type_.kind), type_.bytes, bits, mantissa, flags, 0
    )
    return head + struct.pack("<h3H", bias, largest, infinite, nan)


ARENA = 65536
"""Bytes for what the functions that a server imports return: headers and the path."""


def realloc(arena: int) -> Func:
    """`cabi_realloc(old, had, align, size)`: room for what an imported function returns. At `arena` lie the address of
    the next list, if it is to go somewhere else (0: no), then how many bytes behind these two words are in use. It
    traps where there is no room."""
    f = Func(wasi_http.REALLOC, ("i32", "i32", "i32", "i32"), ("i32",))
    place = f.local("i32")
    f.op("i32.const", arena)
    f.op("i32.load", 2, 0)
    f.op("local.tee", place)
    f.op("if", None)
    f.op("local.get", place)
    f.op("return")
    f.op("end")
    # The first address behind what is in use that is a multiple of the alignment.
    f.op("i32.const", arena)
    f.op("i32.load", 2, 4)
    f.op("i32.const", arena + 8)
    f.op("i32.add")
    f.op("local.get", 2)
    f.op("i32.add")
    f.op("i32.const", 1)
    f.op("i32.sub")
    f.op("i32.const", 0)
    f.op("local.get", 2)
    f.op("i32.sub")
    f.op("i32.and")
    f.op("local.set", place)
    f.op("i32.const", arena)
    f.op("local.get", place)
    f.op("local.get", 3)
    f.op("i32.add")
    f.op("i32.const", arena + 8)
    f.op("i32.sub")
    f.op("i32.store", 2, 4)
    f.op("i32.const", arena)
    f.op("i32.load", 2, 4)
    f.op("i32.const", ARENA)
    f.op("i32.gt_u")
    f.op("if", None)
    f.op("unreachable")
    f.op("end")
    f.op("local.get", place)
    return f
