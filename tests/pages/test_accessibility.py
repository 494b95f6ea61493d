"""Pages of which axe-core finds nothing wrong, in light and in dark."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsing import WAIT, training
from tests.support.paths import ROOT

AXE = ROOT / ".tools" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ("", "digits/", "generate/", "playground/", "search/", "workers/", "performance/")
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
RUN = """(tags) => axe.run(document, { runOnly: tags }).then(({ violations, passes }) => ({
  passes: passes.length,
  found: violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 160)} ${failureSummary}`)),
}))"""  # noqa: E501


def used(page: Page, name: str) -> None:
    """Brings a page to where it has most on it."""
    if name == "digits/":
        page.keyboard.press("3")
        page.get_by_role("button", name="Start").click()
        page.wait_for_selector("#speed", timeout=WAIT)
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("The curves as a table").click()
    elif name == "generate/":
        page.get_by_text("Your own", exact=True).click()
        page.get_by_role("button", name="Write", exact=True).click()
        training(page, "paused")
        page.set_input_files("#file", {"name": "x.safetensors", "mimeType": "text/plain", "buffer": b"nothing"})
        expect(page.locator("#files-error")).to_be_visible()
    elif name == "search/":
        page.get_by_text("Search in your own sentences").click()
        page.get_by_role("button", name="feline naps").click()
        page.wait_for_selector("#results.ranked", timeout=WAIT)
    elif name == "playground/":
        page.wait_for_selector("body[data-state=compiled][data-run=done]", timeout=WAIT)
        page.locator(".node").first.click()
    elif name == "workers/":
        page.wait_for_selector("body[data-training=fresh]", timeout=WAIT)


def violations(page: Page) -> list[str]:
    """Returns the violations that axe-core finds, each with the elements that it is about."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    told = page.evaluate(RUN, list(TAGS))
    assert told["passes"] >= 10
    return list(told["found"])


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(open_page: Any, name: str) -> None:
    page = open_page(f"/demo/{name}", ready=False)
    if name != "playground/":
        page.wait_for_selector("body[data-ready=true]", timeout=WAIT)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert not violations(page), scheme
    used(page, name)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert not violations(page), scheme


def test_axe_would_find_something(page: Page) -> None:
    """A page with a button that has no name, and text that is hard to read."""
    poor = "<button></button><p style='color: #ccc'>faint</p><ul><li>x</li></ul>"
    page.set_content(f"<!doctype html><html lang=en><title>x</title><main><h1>x</h1>{poor}</main>")
    assert {line.partition(":")[0] for line in violations(page)} >= {"button-name", "color-contrast"}
