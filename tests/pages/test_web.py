"""The site in a real Chromium: the front page, the loader in page and worker, and a host that sends no headers."""

from __future__ import annotations

import html
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect
from playwright.sync_api import Error as PlaywrightError

from tests.support.browsing import SCREENSHOTS, WAIT, served
from tests.support.paths import ROOT
from tests.support.toy_artifact import SHAPE, SIDECAR, toy, toy_expected
from xla_wasm.site import pages, serve

RUN_TOY = """
  const { load } = await import(site + '/xla_wasm.js');
  const exe = await load(site + url);
  exe.set('w', new Float32Array(6).fill(1));
  const [y, k, positive] = exe.run({ x: Float32Array.of(1, -3, 3, 0.5, 0, 9), k: 41 });
  return [Array.from(y), Number(k[0]), Array.from(positive)];
"""


@pytest.mark.parametrize("mime", ["application/wasm", "text/plain"])
@pytest.mark.parametrize("worker", [False, True])
def test_loader_in_page_and_worker(open_page: Any, site: str, mime: str, worker: bool) -> None:
    """Compiled while it streams, or from the bytes when the server sends a wrong type."""
    artifact = toy()

    def serve(route: Route) -> None:
        weights = route.request.url.endswith(".weights")
        body = artifact.weights if weights else artifact.wasm
        route.fulfill(body=body, content_type=mime, headers={"Cross-Origin-Resource-Policy": "same-origin"})

    def serve_bare(route: Route) -> None:
        """A page without a policy."""
        route.fulfill(body="", content_type="text/html", headers={"Cross-Origin-Embedder-Policy": "require-corp"})

    page = open_page(routes={"**/toy.*": serve, "**/bare.html": serve_bare})
    assert page.evaluate("crossOriginIsolated")
    if worker:
        script = """([code, site]) => new Promise((done, fail) => {
          const source = `(async (site, url) => {${code}})('${site}', '/toy.wasm').then(postMessage, e => postMessage(String(e)))`;
          // The page's policy allows no blob: as worker; a frame without one does.
          const frame = document.createElement('iframe');
          frame.src = '/bare.html';
          frame.onload = () => {
            const scope = frame.contentWindow;
            const blob = new scope.Blob([source], {type: 'text/javascript'});
            const worker = new scope.Worker(scope.URL.createObjectURL(blob), {type: 'module'});
            worker.onmessage = ({data}) => done(data);
            worker.onerror = (event) => fail(event.message);
          };
          document.body.append(frame);
        })"""  # noqa: E501
    else:
        script = "([code, site]) => (async (site, url) => {" + RUN_TOY + "})(site, '/toy.wasm')"
    x = np.array([1, -3, 3, 0.5, 0, 9], np.float32).reshape(SHAPE)
    y, k, positive = toy_expected(x, np.ones(SHAPE, np.float32), 41, SIDECAR)
    assert page.evaluate(script, [RUN_TOY, site]) == [y.ravel().tolist(), int(k), positive.ravel().astype(int).tolist()]


def code_blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a Markdown text in one language."""
    return [block.strip() for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


def test_the_front_page_says_what_the_readme_says() -> None:
    readme = (ROOT / "README.md").read_text()
    page = (ROOT / "web" / "demo" / "index.html").read_text()
    python, javascript = code_blocks(readme, "python")[0], code_blocks(readme, "js")[0]
    shown = {name: html.unescape(code) for name, code in re.findall(r'<code id="(\w+)">(.*?)</code>', page, re.DOTALL)}
    # The page has no paths of the repository: who reads it has none.
    javascript = javascript.replace("./web/xla_wasm.js", "xla-wasm").replace("dist/", "")
    assert shown == {"python": python, "javascript": javascript}
    assert sum(bool(line.strip()) for line in python.splitlines()) == 10
    ratio = re.search(r"MiniLM's size.*\*\*([0-9.]+)\*\* of onnxruntime-web's time", readme)
    assert ratio and f'<dd id="ratio">{ratio[1]}</dd>' in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_front_page(open_page: Any, scheme: str) -> None:
    page = open_page("/demo/", color_scheme=scheme, viewport={"width": 1280, "height": 860})
    assert page.evaluate("document.querySelector('.pages').getBoundingClientRect().bottom <= innerHeight")
    assert page.locator(".drawing.across").is_visible() and not page.locator(".drawing.down").is_visible()
    assert int(page.locator("#size").inner_text().removesuffix(" KB")) < 60
    assert float(page.locator("#time").inner_text().removesuffix(" µs")) > 0
    expect(page.locator("#read")).to_have_text(re.compile("[0-9]"))
    assert page.locator("#python").inner_text().startswith("import jax")
    page.screenshot(path=SCREENSHOTS / f"front-{scheme}.png", full_page=True)
    phone = open_page(
        "/demo/", color_scheme=scheme, viewport={"width": 360, "height": 780}, device_scale_factor=2, is_mobile=True
    )
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert phone.locator(".drawing.down").is_visible() and not phone.locator(".drawing.across").is_visible()
    phone.screenshot(path=SCREENSHOTS / f"front-phone-{scheme}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_figures(open_page: Any, scheme: str) -> None:
    """The chart is there, and a table for each family of it; wide tables scroll by themselves."""
    page = open_page("/demo/performance/", color_scheme=scheme, viewport={"width": 1280, "height": 900})
    assert page.evaluate("document.querySelector('figure img').decode().then(() => true)")
    size = page.evaluate(
        "(({naturalWidth: w, naturalHeight: h, width, height}) => [w / h, width / "
        "height])(document.querySelector('figure img'))"
    )
    assert abs(size[0] - size[1]) < 0.01
    tables = page.locator("main table")
    assert tables.count() == page.locator("section[aria-label=Figures] h2").count() > 3
    assert page.locator("th[scope=row]").count() > 10
    page.screenshot(path=SCREENSHOTS / f"performance-{scheme}.png", full_page=True)
    phone = open_page(
        "/demo/performance/",
        color_scheme=scheme,
        viewport={"width": 360, "height": 780},
        device_scale_factor=2,
        is_mobile=True,
    )
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # The chart for narrow screens, whose letters are not made smaller; and names that stay while a table scrolls.
    assert phone.evaluate("document.querySelector('figure img').currentSrc.endsWith('/chart-narrow.svg')")
    assert phone.evaluate("document.querySelector('figure img').width / 360 > 0.8")
    phone.locator("main .scroll").first.evaluate("table => table.scrollTo(200, 0)")
    name = phone.locator("main th[scope=row]").first.bounding_box()
    assert name and 0 <= name["x"] < 40


def test_the_front_page_leads_to_the_pages(open_page: Any) -> None:
    page = open_page("/demo/")
    cards = page.get_by_role("navigation", name="What to try").get_by_role("link")
    targets = [cards.nth(i).get_attribute("href") for i in range(cards.count())]
    assert targets == ["digits/", "generate/", "playground/", "search/", "workers/"]
    for target in targets:
        assert (ROOT / "web" / "demo" / target / "index.html").is_file()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/demo/digits/")
    page.wait_for_selector("body[data-ready=true]")


def test_the_front_page_leads_to_documents_and_installation(open_page: Any, site: str) -> None:
    """Every document that it links is served; what it says to run are commands of build.sh."""
    page = open_page("/demo/")
    links = page.get_by_role("navigation", name="Documents").get_by_role("link")
    targets = [str(links.nth(i).get_attribute("href")) for i in range(links.count())]
    assert len(targets) > 4
    for target in targets:
        answer = page.request.get(f"{site}/demo/{target}")
        assert answer.ok and answer.headers["content-type"].startswith("text/html")
        source = ROOT / "docs" / target.removeprefix("../docs/").replace(".html", ".md")
        heading = re.search(r"^# (.*)$", source.read_text(), re.MULTILINE)
        assert heading and heading[1] in answer.text()
    commands = page.get_by_label("Commands that install it").inner_text().splitlines()
    usage = (ROOT / "build.sh").read_text()
    built = [line.split()[1] for line in commands if line.startswith("./build.sh")]
    assert built == ["wheel", "npm"] and all(f"\n  {name} " in usage for name in built)
    # Nothing has been published yet, so there are no addresses.
    assert not page.locator("#repository").is_visible()


def test_the_front_page_links_where_it_was_published(open_page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses in the metadata of the package."""
    urls = ["Repository, https://example.org/x", "Documentation, https://docs.example.org", "Bad, javascript:alert(1)"]
    monkeypatch.setattr(pages.metadata, "metadata", lambda _: SimpleNamespace(get_all=lambda _: urls))
    page = open_page("/demo/")
    expect(page.get_by_role("link", name="Repository")).to_have_attribute("href", "https://example.org/x")
    expect(page.get_by_role("link", name="Documentation")).to_have_attribute("href", "https://docs.example.org")
    assert json.loads(pages.made("/demo/links.json") or b"").keys() == {"Repository", "Documentation"}


OFFLINE = {"playground/": "body[data-run=done]"}
"""Page -> the selector that matches when it has computed something, where that is not the usual one."""


def test_pages_work_without_a_network_at_the_second_visit(chromium: Browser, compiled_once: None) -> None:
    """But for the search page, of which only the 84 MB of its model make a difference."""
    names = ("", "digits/", "generate/", "playground/", "workers/", "performance/")
    with chromium.new_context(service_workers="allow") as context:
        opened = {name: context.new_page() for name in names}
        with served() as address:
            for name, page in opened.items():
                page.goto(f"{address}/demo/{name}")
                page.wait_for_selector(OFFLINE.get(name, "body[data-ready=true]"), timeout=WAIT)
            expires = time.monotonic() + WAIT / 1000
            kept, before = -1, -2
            while kept != before and time.monotonic() < expires:  # what they fetch last is kept, too
                page.wait_for_timeout(700)
                before, kept = (
                    kept,
                    page.evaluate("caches.open('xla_wasm pages').then(c => c.keys()).then(k => k.length)"),
                )
        # Now there is no server any more.
        for name, page in opened.items():
            page.reload()
            page.wait_for_selector(OFFLINE.get(name, "body[data-ready=true]"), timeout=WAIT)
            assert page.evaluate("crossOriginIsolated")


@pytest.mark.parametrize("rendered", [True, False])
def test_every_page_leads_to_the_documents(
    open_page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rendered: bool
) -> None:
    """As they are rendered, with a link back; where nobody rendered them, their sources in pages that can be read."""
    if rendered:
        (tmp_path / "index.html").write_text(f"<!doctype html><title>Home</title><h1>Home</h1>{pages._MARK.decode()}")
    for module in (pages, serve):
        monkeypatch.setattr(module, "documents", lambda: tmp_path if rendered else ROOT / "docs")
    for path in sorted((ROOT / "web" / "demo").rglob("index.html")):
        assert re.search(r'<a href="(\.\./)+docs/index\.html">Documents</a>', path.read_text()), path
    page = open_page("/demo/performance/")
    page.get_by_role("link", name="Documents").click()
    page.wait_for_url("**/docs/index.html")
    if rendered:
        page.get_by_role("link", name="Try it in the pages").click()
    else:
        expect(page.locator("pre")).to_contain_text("# xla_wasm")
        page.locator("pre a").first.click()
        expect(page.locator("pre")).to_contain_text("# ")
        page.get_by_role("link", name="xla_wasm", exact=True).click()
    page.wait_for_url("**/demo/")


def test_without_javascript_pages_say_so() -> None:
    for path in (ROOT / "web" / "demo").rglob("index.html"):
        text = path.read_text(encoding="utf-8")
        says = re.search(r"<noscript><p class=\"error\">[^<]*needs JavaScript[^<]*</p></noscript>", text)
        assert says, path


def _isolated(page: Page) -> bool:
    try:
        return bool(page.evaluate("crossOriginIsolated"))
    except PlaywrightError:  # it reloads just now
        return False


def test_a_static_host_in_chromium(chromium: Browser, static_host: str) -> None:
    """The service worker gives the headers after one reload, also to the worker that trains."""
    context = chromium.new_context(service_workers="allow")
    page = context.new_page()
    loads = []
    page.on("load", lambda: loads.append(page.url))
    headers = page.goto(static_host + "/demo/digits/").all_headers()
    assert "cross-origin-opener-policy" not in headers
    page.wait_for_selector("body[data-training=fresh]", timeout=60_000)
    expires = time.monotonic() + WAIT / 1000
    while not _isolated(page):
        assert time.monotonic() < expires, "it never reloads"
        page.wait_for_timeout(50)
    page.wait_for_selector("body[data-training=fresh]", timeout=60_000)
    assert len(loads) <= 2 and page.evaluate("typeof SharedArrayBuffer") == "function"
    page.keyboard.press("6")
    expect(page.locator("#digit")).to_have_text("6")
    # Its entry leads to the pages; those are isolated at once now.
    page.goto(static_host + "/")
    page.wait_for_selector("body.front[data-ready=true]")
    assert page.evaluate("crossOriginIsolated")
    context.close()
