"""Modules, weights and servers that mean harm: the JavaScript host ends them in time and with its own errors, in Node
and in Chromium."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import seeds
from tests.support.js_calls import ENGINES, Call, call_fixture, isolated_site, nothing
from tests.support.paths import ROOT
from tests.support.replica_programs import reduced
from tests.support.stranger_modules import CUSTOM, ENDLESS, EXCHANGE, OUTFEED, manifest, module
from tests.support.toy_artifact import leaf, safetensors, toy, with_manifest
from tests.support.web_server import Answer, Site
from tests.web.test_loading import CALLS, DYNAMIC, FEEDS, STEPS
from xla_wasm import HloModule, Options
from xla_wasm.artifact import Artifact

NUMBERS = np.arange(1 << 18, dtype=np.float32)
"""Weights of a megabyte."""
HALF = NUMBERS.nbytes // 2


def part(init: dict[str, Any], number: int) -> dict[str, Any]:
    """Half of the weights, in a sidecar."""
    content = NUMBERS.tobytes()[number * HALF : (number + 1) * HALF]
    place = {"index": number, "staging": 65536, "bytes": HALF, "sidecar_offset": number * HALF}
    return init | place | {"kind": "sidecar", "name": f"v{number}", "sha256": hashlib.sha256(content).hexdigest()}


def strangers() -> dict[str, bytes]:
    """Files by name, each of which does something that a module should not."""
    slow = (
        "(local.set $n (i32.const 100000)) (loop $next (local.set $n (i32.sub (local.get $n) (i32.const 1))) "
        "(br_if $next (local.get $n)))"
    )
    init = {"index": 0, "kind": "segment", "name": "b", "staging": 0, "bytes": 4, "sidecar_offset": 0, "sha256": ""}
    weight = leaf("w", "f32", (3,), 0, "weight") | {"alias": None, "init": 0}
    weighing = init | {"kind": "weight", "name": "w", "staging": 2048, "bytes": 12}
    sidecar = init | {"kind": "sidecar", "name": "v", "staging": 2048, "bytes": 24}
    inputs = manifest()["parameters"]
    large = leaf("w", "f32", NUMBERS.shape, 0, "weight") | {"alias": None, "init": 0}
    staged = init | {"kind": "weight", "name": "w", "staging": 65536, "bytes": NUMBERS.nbytes}
    made = {
        "good": (module(), manifest()),
        "waits": (module(run="(i32.const 1)", step="(i32.const -2)"), manifest([EXCHANGE])),
        "both": (module(run="(i32.const 1)", step="(i32.const 0)"), manifest([EXCHANGE])),
        "outfeed": (module(run="(i32.const 1)", step="(i32.const -2)"), manifest([OUTFEED])),
        "awaits": (module(run="(i32.const 1)", step="(i32.const -2)"), manifest([CUSTOM])),
        "steps": (module(step="(i32.const 0)"), manifest()),
        "loops": (module(body=ENDLESS), manifest()),
        "weighs": (module(init=ENDLESS), manifest(parameters=[*inputs, weight], inits=[weighing])),
        "inits": (module(init=slow), manifest(inits=[init] * 100_000)),
        "start": (module(start=ENDLESS), manifest()),
        "weighty": (module(), manifest(inits=[sidecar])),
        "large": (module(memory="33 33"), manifest(inits=[part(init, 0), part(init, 1)], pages=33)),
        "named": (module(memory="33 33"), manifest(parameters=[*inputs, large], inits=[staged], pages=33)),
        "grows": (module(memory="1 100"), manifest()),
        "unbounded": (module(memory="1"), manifest()),
        "grows-by-one": (module(memory="1 2"), manifest()),
    }
    return {f"/{name}.wasm": with_manifest(wasm, stated) for name, (wasm, stated) in made.items()}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = isolated_site({name: Answer(body) for name, body in strangers().items()})
    site.answers |= {
        "/slow.wasm": Answer(bytes(1000), cut=300, stall=True),
        "/slow.weights": Answer(bytes(24), cut=10, stall=True),
    }
    with site.serving():
        yield site


call = call_fixture("strangers.mjs", ENGINES)


def test_budgets(call: Call) -> None:
    nothing(call("budgets", {"timeout": 0.3}))


def test_memories(call: Call) -> None:
    nothing(call("memories"))


def transfers(site: Site) -> list[dict[str, Any]]:
    """Files of weights and how they come; what is asked for, in turn: the whole or the rest."""
    raw, named = NUMBERS.tobytes(), safetensors(w=NUMBERS)
    other = raw[:HALF] + bytes(HALF)
    cases: list[dict[str, Any]] = []

    def case(
        name: str, answers: Answer | list[Answer], ranges: str, error: tuple[str, str] | None = None, **options: Any
    ) -> None:
        site.answers[f"/{name}"] = answers
        module = "named" if name.endswith("safetensors") else "large"
        cases.append({"name": name, "module": module, "ranges": ranges.split(), "error": error, "options": options})

    def answer(body: bytes = raw, tag: str = '"1"', **how: Any) -> Answer:
        return Answer(
            body,
            headers={"Cache-Control": "no-store", **({"ETag": tag} if tag else {})} | how.pop("headers", {}),
            **how,
        )

    cut, rest = answer(cut=HALF + 1000), answer(ranges=True)
    down = Answer(b"busy", status=503)
    case("endless.weights", answer(endless=True), "whole")
    case("endless.safetensors", answer(named, endless=True), "whole")
    case("endless-in-a-worker.weights", answer(endless=True), "whole", worker=True)
    case("longer.weights", answer(raw + b"more"), "whole")
    case("broken.weights", [cut, rest], "whole rest")
    case("broken.safetensors", [answer(named, cut=HALF), answer(named, ranges=True)], "whole rest")
    case("broken-in-a-worker.weights", [cut, rest], "whole rest", worker=True)
    case("broken-twice.weights", [cut, answer(ranges=True, cut=1000), rest], "whole rest rest")
    case(
        "broken-for-ever.weights",
        [cut],
        "whole rest whole",
        ("ArtifactError", "the connection broke while .*broken-for-ever.weights came"),
    )
    case("no-ranges.weights", [cut, answer()], "whole rest whole")
    case("compressed.weights", [answer(compressed=True, cut=1000), answer(compressed=True)], "whole whole")
    case("another-version.weights", [cut, answer(tag='"2"', ranges=True)], "whole rest whole")
    case(
        "another-version.safetensors",
        [answer(named, cut=HALF), answer(named, tag='"2"', ranges=True)],
        "whole rest whole",
    )
    case("no-version.weights", [answer(tag="", cut=HALF + 1000), answer(tag="", ranges=True)], "whole rest")
    case("no-version.safetensors", [answer(named, tag="", cut=HALF), answer(named, tag="", ranges=True)], "whole whole")
    case(
        "wrong-range.weights",
        [cut, answer(ranges=True, headers={"Content-Range": "bytes 0-9/10"}), answer()],
        "whole rest whole",
    )
    case("beyond.weights", [cut, Answer(b"", status=416), answer()], "whole rest whole")
    case("other-rest.weights", [cut, answer(other, ranges=True), answer()], "whole rest whole")
    case("busy.weights", [down, down, answer()], "whole whole whole")
    case("busy-then-broken.weights", [down, cut, rest], "whole whole rest")
    case(
        "busy-for-ever.weights",
        down,
        "whole whole whole",
        ("ArtifactError", "cannot fetch .*busy-for-ever.weights: HTTP 503"),
    )
    case("gone.weights", Answer(b"", status=404), "whole", ("ArtifactError", "HTTP 404"))
    case("forbidden.weights", Answer(b"", status=403), "whole", ("ArtifactError", "HTTP 403"))
    case("wrong.weights", answer(other), "whole whole", ("ArtifactError", "are not those the module was compiled with"))
    site.answers |= {"/down.weights": down, "/broken-and-kept.weights": [cut, rest]}
    return cases


def test_transfers(call: Call, site: Site) -> None:
    """Weights that go on after their end, break off or are busy: no more is read than is needed, and no more than three
    times asked."""
    nothing(call("transfers", transfers(site)))


FORGED = [
    ("here", ["toy", "digits", "dynamic", "calls", "feeds"], seeds.count(50, 300)),
    ("worker", ["toy", "digits", "steps", "calls", "feeds"], seeds.count(20, 120)),
    ("devices", ["reduced", "steps"], seeds.count(10, 40)),
]


def artifacts() -> dict[str, Artifact]:
    """Programs of all kinds, to be changed."""
    texts = {"steps": STEPS, "calls": CALLS, "feeds": FEEDS, "dynamic": DYNAMIC}
    options: dict[str, dict[str, Any]] = {"steps": {"state": (("x", 1),)}, "calls": {"host_calls": ("f",)}}
    made = {
        name: xla_wasm.compile(HloModule.from_text(text), Options(**options.get(name, {})))
        for name, text in texts.items()
    }
    digits = HloModule.from_proto((ROOT / "examples" / "digits" / "digits.hlo.pb").read_bytes())
    return made | {
        "toy": toy(),
        "digits": xla_wasm.compile(digits, Options(sidecar=True)),
        "reduced": xla_wasm.compile(reduced(4)),
    }


@pytest.mark.parametrize("mode, names, count", FORGED)
def test_forgeries(call: Call, site: Site, mode: str, names: list[str], count: int) -> None:
    """Manifests and modules changed at random: the loader's own errors, soon, and nothing that nobody handles."""
    for name, artifact in artifacts().items():
        site.answers |= {f"/{name}.wasm": Answer(artifact.wasm)}
        if artifact.weights:
            site.answers[f"/{name}.weights"] = Answer(artifact.weights)
    outcome = call("forgeries", {"names": names, "seed": 1, "count": count, "mode": mode})
    nothing(outcome["wrong"])
    assert outcome["outcomes"].get("loaded", 0) > count // 20, outcome


def test_headers(call: Call) -> None:
    """Headers of safetensors that lie."""
    nothing(call("headers"))
