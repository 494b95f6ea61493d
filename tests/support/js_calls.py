"""Calls functions of tests/js/*.mjs with the loader and the address of a site, in any Node, Deno, Bun, and in a page of
Chromium, Firefox or WebKitGTK."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support import seeds
from tests.support.node_host import node_for, nodes
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.tabs import Tab
from tests.support.web_server import TYPES, Answer, Site

Call = Callable[..., Any]
"""Calls a function by name, with an argument that JSON carries, and gives what it returns."""

NODES = [f"node {version}" for version in nodes()]
RUNTIMES = ["deno", "bun"]
OLDEST_NODE = min(NODES, key=lambda engine: [int(part) for part in engine[6:].split(".")])
ENGINES = [OLDEST_NODE, "chromium", *seeds.more(*(node for node in NODES if node != OLDEST_NODE))]
"""Engines where long tests run: Chromium and the newest Node have much the same engine."""
OTHER_BROWSERS = ["firefox", "webkit"]
NEWEST_NODE = node_for("relaxed-simd")
"""The path of one."""
LOADER = (ROOT / "web" / "xla_wasm.js").as_uri()
SCRIPTS = ROOT / "tests" / "js"
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
IN_A_PAGE = """([script, name, argument]) => Promise.all([import('/web/xla_wasm.js'), import(`/js/${script}`)])
    .then(([api, called]) => called[name](api, location.origin, argument))"""
"""A function for a page to evaluate, with a script, the name of its function and an argument."""
COUNT_WORKERS = """const Original = globalThis.Worker;
globalThis.notTerminated = new Set();
globalThis.Worker = class Worker extends Original {
  constructor(...args) { super(...args); notTerminated.add(this); }
  terminate() { notTerminated.delete(this); super.terminate(); }
};"""
"""Has a page know which of its own workers nobody has told to end."""


def isolated_site(answers: dict[str, Answer | list[Answer]] | None = None, folder: Path | None = None) -> Site:
    """An empty page that may share memory, the loader, the scripts, and what is given."""
    folders = {"/web": ROOT / "web", "/js": SCRIPTS} | ({"/": folder} if folder else {})
    page: dict[str, Answer | list[Answer]] = {"/": Answer(b"<!doctype html><title>Tests</title>", TYPES[".html"])}
    return Site(page | {"/favicon.ico": Answer(b"", status=204)} | (answers or {}), folders, headers=ISOLATED)


@contextmanager
def calling(script: str, engine: str, request: pytest.FixtureRequest, site: Site) -> Iterator[Call]:
    """Calls functions of a script in an engine: one of `NODES`, `RUNTIMES` or `OTHER_BROWSERS`, or "chromium". There no
    worker may be left after a call."""
    if engine in (*NODES, *RUNTIMES):
        yield _in_node([nodes()[engine.split()[1]][0]] if engine in NODES else runtime_command(engine), script, site)
        return
    if engine in OTHER_BROWSERS:
        tab = request.getfixturevalue(engine).open(site.url)
        assert tab.evaluate("crossOriginIsolated")
        yield _in_tab(tab, script)
        tab.close()
        return
    chromium: Browser = request.getfixturevalue("chromium")
    page = chromium.new_page()
    page.add_init_script(COUNT_WORKERS)
    page.goto(site.url)
    assert page.evaluate("crossOriginIsolated")
    yield _in_page(page, script)
    page.close()


def runtime_command(runtime: str) -> list[Any]:
    """Returns the words of the command by which Deno or Bun runs a script."""
    found = shutil.which(runtime, path=str(ROOT / ".tools" / "runtimes" / "node_modules" / ".bin"))
    assert found, f"no {runtime}: ./build.sh test installs it"
    return [found, *(["run", "-A", "--no-prompt"] if runtime == "deno" else ["run"])]


def _in_node(node: Sequence[Any], script: str, site: Site) -> Call:
    def call(name: str, argument: Any = None) -> Any:
        command = [*node, SCRIPTS / "call_node.mjs", LOADER, site.url, script, name, json.dumps(argument)]
        answer = json.loads(output(command, timeout=600))
        # Deno and Bun start and end threads of their own at any time.
        assert answer["left"] == 0 or len(node) > 1, "threads are left"
        return answer["outcome"]

    return call


def call_fixture(script: str, engines: Sequence[str]) -> Any:
    """A fixture that calls functions of a script in each of the engines, on the fixture `site` of the tests."""

    @pytest.fixture(params=engines)
    def call(request: pytest.FixtureRequest, site: Site) -> Iterator[Call]:
        with calling(script, request.param, request, site) as called:
            yield called

    return call


def _in_page(page: Page, script: str) -> Call:
    def call(name: str, argument: Any = None) -> Any:
        outcome = page.evaluate(IN_A_PAGE, [script, name, argument])
        for _ in range(200):  # an engine ends a worker where its code looks for that
            if not page.workers:
                break
            page.wait_for_timeout(50)
        # Chromium may keep a worker for ever that was told to end, where a worker of its worker was ended while it
        # computed.
        assert not page.workers or not page.evaluate("notTerminated.size"), (
            f"workers are left: {[worker.url for worker in page.workers]}"
        )
        return outcome

    return call


def _in_tab(tab: Tab, script: str) -> Call:
    return lambda name, argument=None: tab.call(IN_A_PAGE, [script, name, argument])


def nothing(wrong: list[str]) -> None:
    """Asserts that a function found nothing wrong."""
    assert not wrong, "\n".join(wrong)
