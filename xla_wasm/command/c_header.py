"""A C header for an artifact: where its arrays lie, and what they are, for hosts that read no JSON.

Names in HLO may be anything, so macros are named after what is left of them in letters and digits; the names themselves
are strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..errors import ArgumentError, UnsupportedError, visible
from ..hlo.types import TYPES
from ..host.leaf import Leaf
from ..host.manifest import Exchange, Init, Manifest, Parameter, Request

_FLOATS = {"f32": "float", "f64": "double", "c64": "float", "c128": "double"}

Row = Sequence[str | int]


def c_type(element_type: str) -> str:
    """The C type of an element; of a complex number that of its two parts. Floats that C lacks are their bits."""
    type_ = TYPES[element_type]
    return _FLOATS.get(element_type) or f"{'int' if type_.kind == 'signed' else 'uint'}{8 * type_.bytes}_t"


def identifier(name: str) -> str:
    """Returns a name in capitals, as a part of a macro's: only letters and digits of ASCII stay, and an underscore
    between them stands for all others. It may be empty."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()


def prefix_for(stem: str) -> str:
    """The prefix of all macros, from the name of the artifact's file."""
    made = identifier(stem)
    return made if made and not made[0].isdigit() else f"MODEL_{made}".rstrip("_")


def header(manifest: Manifest, prefix: str) -> str:
    """The text of the header; all its macros begin with `prefix` and an underscore."""
    if manifest.threads is not None:
        raise ArgumentError(
            f"'{manifest.name}' is compiled for threads, of which a header for C says nothing: compile it without"
        )
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise ArgumentError(
            f"{prefix!r} cannot begin the names of macros: take letters, digits and underscores, a letter first"
        )
    return _Header(manifest, prefix).text()


class _Header:
    def __init__(self, manifest: Manifest, prefix: str) -> None:
        self._manifest = manifest
        self._prefix = prefix
        self._lines: list[str] = []
        self._taken: set[str] = set()

    def text(self) -> str:
        manifest, guard = self._manifest, f"XLA_WASM_{self._prefix}_H"
        self._facts()
        tables: dict[str, list[Row]] = {}
        for kind in ("input", "weight", "state", "output"):
            leaves: Iterable[Leaf] = manifest.results if kind == "output" else manifest.parameters
            own = enumerate(leaf for leaf in leaves if leaf.kind == kind)
            tables[f"{kind.upper()}S"] = [self._leaf(leaf, kind, identifier(leaf.name) or str(i)) for i, leaf in own]
        arrays = self._request_arrays()
        self._comment("Rows of tables, each with a comma behind it: struct row rows[] = {TABLE {0}};")
        self._comment("name, element type, address, bytes, what to call init with once it is written (-1: nothing)")
        for name, rows in tables.items():
            self._table(name, rows)
        self._comment(
            "What no caller sets, to be prepared in this order before everything else: write the bytes (0: none), "
            "call init."
        )
        self._comment("name, address, bytes, argument of init, offset in the .weights file, SHA-256 of the bytes")
        self._table("CONSTANTS", [self._constant(init) for init in manifest.inits if init.kind != "weight"])
        self._comment(
            "What a run may ask of the host: kind, name, target, opaque. Exchanges between devices are in the "
            "manifest only."
        )
        self._table("REQUESTS", [self._request(request) for request in manifest.requests])
        self._comment("Their arrays: request, whether the host writes it, element type, address, bytes")
        self._table("REQUEST_ARRAYS", arrays)
        about = [
            f"The interface of {_comment(manifest.name)}, written by `xla-wasm inspect --c-header`: see "
            f"docs/embedding.md."
        ]
        about += [
            f"Made by {_comment(manifest.producer)}. Addresses and sizes are in bytes, addresses from the start of "
            f"the memory."
        ]
        first = [f"/* {line} */" for line in about] + [
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stdint.h>",
        ]
        return "\n".join([*first, *self._lines, "", f"#endif /* {guard} */", ""])

    def _facts(self) -> None:
        manifest = self._manifest
        requests = [leaf for r in manifest.requests if isinstance(r, Request) for leaf in (*r.operands, *r.results)]
        dynamic = any(leaf.sizes for leaf in (*manifest.parameters, *manifest.results, *requests))
        least = max(manifest.devices.least if manifest.devices else 1, manifest.sharded or 1)
        self._comment(
            "Of the artifact: the manifest has the same hash. The memory has so many pages of 65536 bytes, always."
        )
        self._define("FORMAT", manifest.format)
        self._define("NAME", _string(manifest.name))
        self._define("HASH", _string(manifest.hash))
        self._define("FEATURES", _string(",".join(manifest.features)))
        self._define("PAGES", _number(manifest.pages))
        self._define("SIDECAR_BYTES", f"UINT64_C({manifest.sidecar_bytes})")
        self._comment(
            "Whether it keeps more than its states from run to run, whether arrays have dynamic sizes, on how many "
            "devices it runs."
        )
        self._define("STATEFUL", int(manifest.stateful))
        self._define("DYNAMIC", int(dynamic))
        self._define("LEAST_DEVICES", least)
        self._comment(
            "Addresses of the step that runs (u32), and of the request that a run waits for (u32 number, u32 next "
            "step)."
        )
        self._define("CONFIG", _number(manifest.config))
        self._define("REQUEST", _number(manifest.request))
        self._define("STEP_COUNT", _number(len(manifest.steps)))

    def _leaf(self, leaf: Leaf, kind: str, name: str) -> Row:
        """Defines what there is to know of an array, in macros of that name; its row in a table."""
        type_ = TYPES[leaf.element_type]
        element = c_type(leaf.element_type)
        width = type_.bytes // 2 if type_.kind == "complex" else type_.bytes
        offset, init = leaf.offset, -1
        if isinstance(leaf, Parameter) and leaf.init is not None:
            entry = self._manifest.inits[leaf.init]
            if entry.part:
                raise UnsupportedError(
                    f"weight '{leaf.name}' comes in parts, which the header does not know: read its manifest instead"
                )
            offset, init = entry.staging, entry.index
        macros: dict[str, str | int] = {
            "TYPE": element,
            "OFFSET": _number(offset),
            "BYTES": _number(leaf.bytes),
            "COUNT": _number(leaf.bytes // width),
            "RANK": len(leaf.dimensions),
        }
        if leaf.dimensions:
            macros["DIMENSIONS"] = _list(leaf.dimensions)
            macros["STRIDES"] = _list(_strides(leaf))
        if leaf.sizes:
            macros["SIZES"] = _list([size or 0 for size in leaf.sizes])
            macros["LEAST"] = _list(leaf.least_dimensions)
        if kind == "weight":
            macros["INIT"] = init
        what = f"{kind} {_comment(leaf.name)}: {leaf}, minor_to_major {{{','.join(map(str, leaf.minor_to_major))}}}"
        notes = [", pairs of (real, imaginary)"] if type_.kind == "complex" else []
        notes += [", the bits of each"] if type_.kind == "float" and leaf.element_type not in _FLOATS else []
        self._comment(what + "".join(notes))
        self._define_all(f"{identifier(kind)}_{name}", macros)
        return _string(leaf.name), _string(leaf.element_type), _number(offset), _number(leaf.bytes), init

    def _constant(self, init: Init) -> Row:
        place = (_number(init.staging), _number(init.bytes)) if init.kind == "sidecar" else ("0u", "0u")
        return _string(init.name), *place, init.index, f"UINT64_C({init.sidecar_offset})", _string(init.sha256)

    def _request(self, request: Request | Exchange) -> Row:
        if isinstance(request, Exchange):
            return _string("exchange"), _string(request.name), _string(request.opcode), _string("")
        return _string(request.kind), _string(request.name), _string(request.target), _string(request.opaque)

    def _request_arrays(self) -> list[Row]:
        rows: list[Row] = []
        for i, request in enumerate(self._manifest.requests):
            if isinstance(request, Exchange):
                continue
            for written, leaves in enumerate((request.operands, request.results)):
                for j, leaf in enumerate(leaves):
                    _, *row, _ = self._leaf(leaf, f"request {i} {leaf.kind}", str(j))
                    rows.append((_number(i), written, *row))
        return rows

    def _comment(self, text: str) -> None:
        self._lines += ([] if self._lines and self._lines[-1].startswith("/*") else [""]) + [f"/* {text} */"]

    def _define(self, name: str, value: str | int) -> None:
        self._taken.add(name)
        self._lines.append(f"#define {self._prefix}_{name} {value}".rstrip())

    def _define_all(self, base: str, macros: dict[str, str | int]) -> None:
        """Macros of which none has been defined before, though names that differ may leave the same letters."""
        name, number = base, 2
        while any(f"{name}_{macro}" in self._taken for macro in macros):
            name, number = f"{base}_{number}", number + 1
        for macro, value in macros.items():
            self._define(f"{name}_{macro}", value)

    def _table(self, name: str, rows: Sequence[Row]) -> None:
        self._define(name, "".join(f"\\\n  {{{', '.join(map(str, row))}}}, " for row in rows).rstrip())


def _strides(leaf: Leaf) -> list[int]:
    """The bytes from one element to the next along each dimension."""
    strides, step = [0] * len(leaf.dimensions), TYPES[leaf.element_type].bytes
    for d in leaf.minor_to_major:
        strides[d] = step
        step *= leaf.dimensions[d]
    return strides


def _number(value: int) -> str:
    """An address or a size: all that lies in the memory fits 32 bits."""
    return f"{value}u"


def _list(values: Iterable[int]) -> str:
    return f"{{{', '.join(map(_number, values))}}}"


def _string(text: str) -> str:
    """A string literal with the UTF-8 of a text. Octal, which ends after three digits; question marks might make
    trigraphs."""
    return (
        '"'
        + "".join(
            chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode(errors="replace")
        )
        + '"'
    )


def _comment(name: str) -> str:
    """A name within a comment, which it must not end, in quotes."""
    plain = " ".join(visible(name).encode("ascii", "backslashreplace").decode().split())
    return "'" + re.sub(r"[/?](?=[*?/])|\*(?=/)", r"\g<0> ", plain) + "'"
