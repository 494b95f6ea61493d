"""The pages in Firefox and in WebKitGTK, whose engine is Safari's: each does there what it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.pages.test_digits_page import STROKES, share
from tests.pages.test_search_page import FOUND
from tests.support.browsing import SCREENSHOTS
from tests.support.firefox import Firefox
from tests.support.tabs import Tab
from tests.support.webkit import WebKit

Open = Callable[[str], Tab]
READY = "document.body.dataset.ready === 'true'"


@pytest.fixture
def open_tab(other_browser: Firefox | WebKit, site: str) -> Iterator[Open]:
    """Opens pages of the site; takes a picture of each when the test is over, if the browser is one that always ends
    that: WebKitGTK waits for ever where SVG moves."""
    tabs = []

    def open_(path: str) -> Tab:
        tab = other_browser.open(f"{site}/demo/{path}")
        tabs.append((path.partition("/")[0] or "front", tab))
        return tab

    yield open_
    for name, tab in tabs:
        if isinstance(other_browser, Firefox):
            tab.screenshot(SCREENSHOTS / f"{name}-firefox.png")
        tab.close()


def test_front(open_tab: Open) -> None:
    page = open_tab("")
    page.wait(READY)
    assert page.evaluate("crossOriginIsolated")
    assert float(page.text("#time").removesuffix(" µs")) > 0 and page.text("#read") in "0123456789"


def test_performance(open_tab: Open) -> None:
    page = open_tab("performance/")
    assert page.evaluate("document.querySelector('figure img').decode().then(() => true)")
    assert page.evaluate("document.querySelectorAll('main table').length") > 3


def test_digits(open_tab: Open) -> None:
    page = open_tab("digits/")
    page.wait("document.body.dataset.training === 'fresh'")
    assert page.evaluate("crossOriginIsolated")
    for digit in (2, 7):
        page.click("#clear")
        page.wait("document.body.dataset.answer === ''")
        left, top, width, height = page.box("#pad")
        for stroke in STROKES[digit]:
            page.drag([(left + x / 100 * width, top + y / 100 * height) for x, y in stroke])
        page.wait(f"document.body.dataset.answer === '{digit}'")
    page.evaluate("document.getElementById('epochs').focus()")
    page.press("Home", "ArrowRight", "ArrowRight")
    page.evaluate("document.getElementById('start').focus()")
    page.press("Enter")
    page.wait("document.body.dataset.training === 'done'")
    assert page.text("#epochs-value") == "6"
    assert share(page.text("#accuracy-value")) > 0.9 and float(page.text("#loss-value")) < 0.5
    assert page.evaluate("document.querySelector('input[value=trained]').checked")
    page.wait("document.body.dataset.answer === '7'")


def test_generate(webkit: WebKit, site: str) -> None:
    """It learns for some steps, and writes. In Firefox threads do not always start in a worker: see docs/gaps.md."""
    page = webkit.open(f"{site}/demo/generate/")
    page.wait("document.body.dataset.training === 'fresh'")
    page.click("#start")
    page.wait("parseInt(document.querySelector('#step')?.textContent) >= 2")
    page.click("#start")
    page.wait("document.body.dataset.training === 'paused'")
    assert 2 < float(page.text("#loss-value")) < 5
    page.click("#prompt")
    page.type("ROMEO.")
    page.press("Enter")
    page.wait("document.body.dataset.training === 'paused' && document.querySelector('#output').innerText.length > 100")
    assert page.text("#output").startswith("ROMEO.")
    page.close()


def test_search(open_tab: Open) -> None:
    page = open_tab("search/")
    page.wait(READY)
    page.click("#query")
    for query in ("feline naps", "wine on my shirt"):
        page.press("Escape")
        page.type(query)
        page.wait(f"document.querySelector('#results.ranked li .text')?.textContent === {FOUND[query]!r}")


def test_workers(open_tab: Open) -> None:
    page = open_tab("workers/?workers=2")
    page.wait("document.body.dataset.training === 'fresh' && crossOriginIsolated")
    page.wait("document.body.dataset.collective === 'shown' && document.body.dataset.shown === 'all'")
    after = "[...document.querySelectorAll('#values .after .cell')].map(cell => cell.textContent).join(' ')"
    assert page.evaluate(after) == "10 12 10 12"
    page.click("#start")
    page.wait("parseFloat(document.querySelector('#loss-many').innerText) < 0.5")
    assert "data by shared memory" in page.text("#status") and "the same, bit by bit" in page.text("#identical")
    page.evaluate("document.querySelector('input[value=messages]').click()")
    page.wait("document.body.dataset.training === 'fresh'")
    page.evaluate("document.querySelector('input[value=all-to-all]').click()")
    page.wait("document.body.dataset.collective === 'shown' && document.body.dataset.shown === 'all'")
    assert page.evaluate(after) == "0 10 1 11"


def test_a_static_host(other_browser: Firefox | WebKit, static_host: str) -> None:
    """The service worker gives the headers."""
    page = other_browser.open(static_host + "/demo/digits/")
    page.wait("document.body.dataset.training === 'fresh' && crossOriginIsolated")
    page.press("6")
    page.wait("document.body.dataset.answer === '6'")
    page.close()
