"""Mistakes of people who use the loader: each has its own clear error and the next correct use works, in Node and in
Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from tests.support.firefox import Firefox
from tests.support.js_calls import IN_A_PAGE
from tests.support.node_host import nodes
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import SIDECAR, WAT, change, safetensors, toy
from tests.support.web_server import TYPES, Answer, Site
from tests.support.webkit import WebKit

PAGE = Answer(b"<!DOCTYPE html><title>Not here</title>", TYPES[".html"])
LEAST = 40
SMALL_MEMORY = "--wasm-max-mem-pages=1000"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    wasm, weights = toy().wasm, SIDECAR.tobytes()
    w = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    files = safetensors(w=w)
    plain = {
        "toy.wasm": wasm,
        "short.wasm": wasm[:200],
        "empty.bin": b"",
        "imports.wasm": toy(WAT.replace("(module", '(module (import "a" "b" (func))', 1)).wasm,
        "format.wasm": toy(manifest=change("format", 4)).wasm,
        "offset.wasm": toy(manifest=change("parameters.0.offset", 65516)).wasm,
        "pages.wasm": toy(manifest=change("pages", 2)).wasm,
        "huge.wasm": toy(WAT.replace(" 1 1)", " 65535 65535)", 1), change("pages", 65535)).wasm,
        "toy.weights": weights,
        "short.weights": weights[:20],
        "other.weights": bytes(24),
        "other.safetensors": safetensors(a=w, b=w),
        "shape.safetensors": safetensors(w=w.T.copy()),
        "type.safetensors": safetensors(w=w.astype(np.int32)),
        "short.safetensors": files[:-4],
        "header.safetensors": files[:8] + b"?" + files[9:],
        "w.safetensors": files,
        "relaxed.wasm": toy(manifest=change("features", ["simd128", "relaxed-simd"])).wasm,
    }
    site = Site(
        {f"/{name}": Answer(body) for name, body in plain.items()}, {"/web": ROOT / "web", "/js": ROOT / "tests" / "js"}
    )
    site.answers |= {
        "/": Answer(b"<!doctype html><title>Tests</title>", TYPES[".html"]),
        "/page.wasm": PAGE,
        "/lie.wasm": Answer(PAGE.body, TYPES[".wasm"]),
        "/broken.wasm": Answer(wasm, cut=300),
        "/slow.wasm": Answer(wasm, cut=300, stall=True),
        "/broken.weights": Answer(weights, cut=10),
        "/slow.weights": Answer(weights, cut=10, stall=True),
        "/typed.wasm": Answer(wasm, "text/plain"),
    }
    with site.serving():
        yield site


@pytest.fixture(scope="module")
def chromium_flags() -> list[str]:
    return [f"--js-flags={SMALL_MEMORY}"]


@pytest.mark.parametrize("version", nodes())
def test_in_node(version: str, site: Site) -> None:
    node, _ = nodes()[version]
    script = ROOT / "tests" / "js" / "misuse_node.mjs"
    command: list[str | Path] = [node, SMALL_MEMORY, script, (ROOT / "web" / "xla_wasm.js").as_uri(), site.url]
    outcome = json.loads(output(command))
    assert outcome["wrong"] == [] and outcome["count"] >= LEAST


def test_in_chromium(page: Page, site: Site) -> None:
    page.goto(site.url)
    outcome = page.evaluate(
        """(base) => Promise.all([import('/js/misuse.mjs'), import('/web/xla_wasm.js')])
        .then(([{misuses}, api]) => misuses(api, base))""",
        site.url,
    )
    assert outcome["wrong"] == [] and outcome["count"] >= LEAST


def test_in_other_browsers(other_browser: Firefox | WebKit, site: Site) -> None:
    tab = other_browser.open(site.url)
    outcome = tab.call(IN_A_PAGE, ["misuse.mjs", "misuses", ["more memory than there is"]])
    tab.close()
    assert outcome["wrong"] == [] and outcome["count"] >= LEAST


PROBE = """async ([options, file]) => {
  const { load } = await import('/web/xla_wasm.js');
  try {
    await load(file ?? '/toy.wasm', options);
    return 'no error';
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}"""

# What a page may be like: a script that runs before all others or a policy, what is loaded how, and what the error
# says.
SURROUNDINGS: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "no WebAssembly": (
        "delete globalThis.WebAssembly",
        "",
        {},
        "/toy.wasm",
        "UnsupportedError: this engine has no WebAssembly, ",
    ),
    "no SIMD": (
        "WebAssembly.validate = () => false",
        "",
        {},
        "/toy.wasm",
        "UnsupportedError: this engine has no WebAssembly SIMD; browsers have it since 2021 (Safari 16.4)",
    ),
    "no relaxed SIMD": (
        "{ const { validate } = WebAssembly; WebAssembly.validate = (bytes) => bytes.length < 35 && validate(bytes); }",
        "",
        {},
        "/relaxed.wasm",
        "UnsupportedError: this engine lacks the WebAssembly feature relaxed-simd that the module needs",
    ),
    "a policy without wasm-unsafe-eval": (
        "",
        "script-src 'self' 'unsafe-inline'",
        {},
        "/toy.wasm",
        "UnsupportedError: the page's Content-Security-Policy forbids WebAssembly: add 'wasm-unsafe-eval' to its "
        "script-src",
    ),
    "a policy without wasm-unsafe-eval, another type": (
        "",
        "script-src 'self' 'unsafe-inline'",
        {},
        "/typed.wasm",
        "UnsupportedError: the page's Content-Security-Policy forbids WebAssembly: add 'wasm-unsafe-eval' to its "
        "script-src",
    ),
    "a policy that forbids the fetch": (
        "",
        "connect-src 'none'",
        {},
        "/toy.wasm",
        "ArtifactError: cannot fetch /toy.wasm: Failed to fetch (no network, no such server, no CORS headers ",
    ),
    "a policy that forbids workers": (
        "",
        "worker-src 'none'",
        {"worker": True},
        "/toy.wasm",
        "ArtifactError: the worker failed: its script could not be loaded (wrong address, not JavaScript, or a "
        "Content-Security-",
    ),
    "another origin without CORS": ("", "", {}, "other", "ArtifactError: cannot fetch http://"),
    "no network": ("offline", "", {}, "/toy.wasm", "ArtifactError: cannot fetch /toy.wasm: Failed to fetch"),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_surroundings(chromium: Browser, site: Site, name: str) -> None:
    script, policy, options, file, message = SURROUNDINGS[name]
    site.answers["/policy"] = Answer(
        b"<!doctype html><title>Tests</title>", TYPES[".html"], headers={"Content-Security-Policy": policy}
    )
    with Site({"/toy.wasm": Answer(toy().wasm)}).serving() as other, chromium.new_context() as context:
        page = context.new_page()
        page.goto(site.url + "/policy")
        if file == "other":
            file = other.url + "/toy.wasm"
        if script == "offline":
            page.evaluate("import('/web/xla_wasm.js')")
            context.set_offline(True)
        elif script:
            page.evaluate(script + "; null")
        outcome = page.evaluate(PROBE, [options, file])
        assert outcome.startswith(message), outcome
        # The next correct use, in a page as it should be.
        context.set_offline(False)
        page.goto(site.url)
        assert page.evaluate(PROBE, [{}, None]) == "no error"
