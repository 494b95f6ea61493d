"""`load(source, {untrusted: true})` in Node and in Chromium: what a module may have, what it may hand over, and how
long it may take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import seeds
from tests.support.js_calls import ENGINES, IN_A_PAGE, Call, call_fixture, isolated_site, nothing
from tests.support.stranger_modules import CUSTOM, ENDLESS, EXCHANGE, OUTFEED, manifest, module
from tests.support.toy_artifact import leaf, with_manifest
from tests.support.web_server import Answer, Site
from tests.support.webkit import WebKit
from xla_wasm import ArtifactError, LimitError
from xla_wasm.wasm.encoding import sized, uleb

X = np.arange(1, 4, dtype=np.float32)
HEAD = b"\0asm\1\0\0\0"
MODULES: dict[str, tuple[bytes, str]] = {
    "two memories": (module(more="(memory 1 1)"), "may have one memory, not 2"),
    "a large memory beside": (module(more="(memory 1)"), "may have one memory, not 2"),
    "a memory without end": (module(memory="1"), "has to state the largest size of its memory"),
    "a memory that grows": (module(memory="1 100"), "may have a memory of fixed size only, not of 1 to 100 pages"),
    "a shared memory": (module(memory="1 1 shared"), "may not share its memory"),
    "a memory of 64-bit addresses": (
        module(memory="i64 1 1"),
        "may have a memory with 32-bit addresses only",
    ),
    "a memory of small pages": (
        module(memory="65536 65536 (pagesize 1)"),
        "may have a memory of the usual kind only",
    ),
    "a table without end": (module(more="(table 1 funcref)"), "has to state the largest size of its table"),
    "a large table": (
        module(more="(table 1 1048577 funcref)"),
        "may have a table of 1048576 entries at most, not 1048577",
    ),
    "a table that is large at once": (
        module(more="(table 9000000 9000000 funcref)"),
        "may have a table of 1048576 entries at most",
    ),
    "two tables": (module(more="(table 1 1 funcref) (table 1 1 funcref)"), "may have one table, not 2"),
    "a table of anything": (module(more="(table 1 1 externref)"), "may have a table of functions only"),
    "a table with contents": (module(more="(table 1 1 funcref (ref.null func))"), "may have a table of functions only"),
    "a table of 64-bit addresses": (
        module(more="(table i64 1 1 funcref)"),
        "may have a table with 32-bit addresses only",
    ),
    "structs": (module(more="(type (struct (field (mut i32))))"), "may have types of functions only"),
    "arrays": (module(more="(type (array (mut i8)))"), "may have types of functions only"),
    "recursive types": (module(more="(rec (type (func)) (type (func)))"), "may have types of functions only"),
    "subtypes": (module(more="(type (sub (func)))"), "may have types of functions only"),
    "functions of objects": (
        module(more="(func (param anyref))"),
        "may have functions of numbers, vectors and plain references only",
    ),
    "functions of typed references": (module(more="(func (param (ref null any)))"), "may have functions of numbers"),
    "exceptions": (module(more="(tag)"), "may not have section 13, of exceptions"),
    "a start": (module(start="nop"), "may not have a start function"),
    "a start without end": (module(start=ENDLESS), "may not have a start function"),
    "an import": (module(more='(import "a" "b" (func))'), "the module must import nothing, but imports a.b"),
    "an imported memory": (
        module(more='(import "a" "b" (memory 1 1))'),
        "the module must import nothing, but imports a.b|cannot compile",
    ),
    "an imported table": (
        module(more='(import "a" "b" (table 1 funcref))'),
        "the module must import nothing, but imports a.b",
    ),
    "data beyond the memory": (module(more='(data (i32.const 65535) "ab")'), "traps when it starts"),
}


def section(number: int, content: bytes) -> bytes:
    return bytes([number]) + sized(content)


BYTES: dict[str, tuple[bytes, str]] = {
    "a section of its own": (module() + section(77, b"abc"), "may not have section 77"),
    "a section that reaches too far": (module() + b"\0" + uleb(2**32 - 1), "is cut short"),
    "a section without its size": (module() + b"\0\x80", "is cut short"),
    "a number of 33 bits": (module() + b"\0\xff\xff\xff\xff\x1f", "has a number of more than 32 bits"),
    "a number without end": (module() + b"\0" + b"\x80" * 100, "has a number of more than 32 bits"),
    "types that are not there": (HEAD + section(1, uleb(2**32 - 1)), "is cut short"),
    "parameters that are not there": (HEAD + section(1, b"\1\x60" + uleb(2**32 - 1) + b"\x7f"), "is cut short"),
    "a memory that is not there": (HEAD + section(5, uleb(1)), "is cut short"),
    "a large manifest": (
        with_manifest(module(), manifest()) + section(0, b"\1x" + bytes(1 << 24)),
        "may have custom sections of 16777216",
    ),
    "memories in two sections": (module() + section(5, b"\1\1\1\1"), "cannot compile"),
    "another version": (b"\0asm\2\0\0\0" + module()[8:], "cannot compile"),
    "an empty file": (b"", "is not a WebAssembly module: it is empty"),
    "the head alone": (HEAD, "has no custom section"),
}


def handing(results: int = 1, operands: int = 0, sends: int = 0, receivers: int = 1) -> dict[str, Any]:
    """A manifest in which arrays of half a page, all at the same place, are results, go to a function, or to other
    devices."""
    half = [leaf(f"y{i}", "f32", (8192,), 1024, "output") for i in range(max(results, operands))]
    custom = CUSTOM | {"operands": [each | {"kind": "operand"} for each in half[:operands]]}
    to = {"offset": 256, "count": receivers}
    exchange = EXCHANGE | {"to": to, "sends": [{"offset": 0, "bytes": 32768, "stride": 0}] * sends}
    return manifest([exchange] * bool(sends) + [custom] * bool(operands), results=half[:results])


OF_ALL_HANDED: dict[str, tuple[dict[str, Any], str]] = {
    "results": (
        handing(results=33),
        "'stranger': all that a run gives takes 1081344 bytes together, the limit is 1048576",
    ),
    "operands": (handing(operands=33), "what request 0 hands over takes 1081344 bytes"),
    "sends": (handing(sends=33), "what request 0 hands over"),
    "receivers": (handing(sends=1, receivers=33), "what request 0 hands over"),
}


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    """By path, the files, and what must come of them."""
    files: dict[str, bytes] = {}
    refused: list[dict[str, Any]] = []

    def case(name: str, body: bytes, kind: str, message: str, **options: Any) -> None:
        path = f"/{name.replace(' ', '-')}.wasm"
        files[path] = body
        # A load starts one worker or several: each source has its turn, and so have devices.
        sources = ["address", "bytes", "response"]
        turn = len(refused)
        chosen = sources if seeds.exhaustive else [sources[turn % 3]]
        is_divided = seeds.exhaustive or turn % 4 == 0
        refused.append(
            {
                "path": path,
                "kind": kind,
                "message": message,
                "options": options,
                "sources": chosen,
                "isDivided": is_divided,
            }
        )

    for name, (wasm, message) in MODULES.items():
        case(name, with_manifest(wasm, manifest()), "ArtifactError", message)
    for name, (wasm, message) in BYTES.items():
        case(name, wasm, "ArtifactError", message)
    for name, (stated, message) in OF_ALL_HANDED.items():
        case(f"too many {name}", with_manifest(module(), stated), "LimitError", message, memoryLimit=1 << 20)
    stated = handing(operands=33)
    for operand in stated["requests"][0]["operands"]:
        operand["physical_bytes"] = 0
    case(
        "operands of no bytes",
        with_manifest(module(), stated),
        "LimitError",
        OF_ALL_HANDED["operands"][1],
        memoryLimit=1 << 20,
    )
    relaxed = "is compiled for relaxed SIMD, whose results depend on the processor: load the simd128 build"
    case("relaxed", with_manifest(module(), manifest(target="relaxed-simd")), "UnsupportedError", relaxed)
    case(
        "a large memory",
        with_manifest(module(memory="3 3"), manifest(pages=3)),
        "LimitError",
        "the limit is 131072",
        memoryLimit=1 << 17,
    )
    case("a large file", bytes((1 << 26) + 1), "LimitError", "has more than the 67108864 bytes", memoryLimit=1 << 20)
    return {"files": files, "refused": refused}


GOOD = {
    "good": (module(more="(table 1 1048576 funcref) (func (param v128 funcref externref))"), manifest()),
    "loops": (module(body=ENDLESS), manifest()),
    "outfeed": (module(run="(i32.const 1)", step="(i32.const -2)"), manifest([OUTFEED])),
    "fits": (module(), handing(results=32)),
}


@pytest.fixture(scope="module")
def site(cases: dict[str, Any]) -> Iterator[Site]:
    files = cases["files"] | {f"/{name}.wasm": with_manifest(wasm, stated) for name, (wasm, stated) in GOOD.items()}
    site = isolated_site({path: Answer(body) for path, body in files.items()})
    with site.serving():
        yield site


call = call_fixture("untrusted.mjs", ENGINES)


def test_what_is_refused(call: Call, cases: dict[str, Any]) -> None:
    """Before the engine compiles it, wherever the module comes from and wherever it is to run."""
    outcome = call("refused", cases["refused"])
    nothing(outcome["wrong"])
    # Without the option the engine takes most of them: what is tested is not the engine.
    assert outcome["valid"] >= 10, outcome


def test_options(call: Call) -> None:
    nothing(call("options"))


def test_limits(call: Call) -> None:
    nothing(call("limits"))


def test_the_same_modules_in_python() -> None:
    """They are refused, or what they have is bounded: a store has one table of 2^20 entries at most, and fuel for its
    start."""
    bounded = []
    for name, (wasm, _) in MODULES.items():
        try:
            exe = xla_wasm.load(with_manifest(wasm, manifest()), untrusted=True, timeout=1.0)
        except (ArtifactError, LimitError):
            continue
        bounded.append(name)
        assert exe.run(X)[0][1] == 4
    tables = {
        "a table without end",
        "a large table",
        "a table of anything",
        "a table with contents",
        "a table of 64-bit addresses",
    }
    assert set(bounded) == tables | {"a start"}
    for stated, message in OF_ALL_HANDED.values():
        with pytest.raises(LimitError, match=message):
            xla_wasm.load(
                with_manifest(module(), stated), untrusted=True, memory_limit=1 << 20, custom_calls={"f": lambda *_: ()}
            )
        xla_wasm.load(with_manifest(module(), stated), memory_limit=1 << 20, custom_calls={"f": lambda *_: ()})
    assert len(xla_wasm.load(with_manifest(*GOOD["fits"]), untrusted=True, memory_limit=1 << 20).run(X)) == 32


def test_webkit(webkit: WebKit, site: Site) -> None:
    """A module of a stranger that never ends is ended."""
    tab = webkit.open(site.url)
    nothing(tab.call(IN_A_PAGE, ["untrusted.mjs", "limits", None]))
    tab.close()
