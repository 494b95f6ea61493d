"""The fetches of each page until it is at rest stay within the budget that docs/contributing.md states: requests and
bytes, and no time."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from playwright.sync_api import Response

from tests.pages.test_accessibility import PAGES
from tests.support.browsing import WAIT
from tests.support.paths import ROOT

ROW = re.compile(r"^\| `/demo/([a-z/]*)`[^|]* \| (\d+) \| ([\d,]+) KB \|$", re.MULTILINE)
BUDGETS = {
    name: (int(requests), 1000 * int(size.replace(",", "")))
    for name, requests, size in ROW.findall((ROOT / "docs" / "contributing.md").read_text(encoding="utf-8"))
}
"""Page -> the most requests, and the most bytes of their bodies, uncompressed."""
QUERIES = {"workers/": "?workers=8"}
"""Page -> the query for the most that it fetches."""
MOST_COUNTED = 3
"""Times that a file counts: for a page, its worker, and the threads of that, of which there are as many as cores."""
READY = {"playground/": "body[data-state=compiled][data-run=done]"}
"""Page -> the selector that matches when it can be used, where that is not the usual one."""
WEIGHTS = re.compile(r"\.weights$|/pyodide/")
"""The models' weights and Pyodide's interpreter have sizes of their own, and come while the page can be seen
already."""


def test_every_page_has_a_budget() -> None:
    assert set(BUDGETS) == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_pages_stay_within_their_budgets(open_page: Any, name: str) -> None:
    fetched: list[Response] = []
    page = open_page("/demo/no-such-page", ready=False)
    page.on("response", lambda response: fetched.append(response))
    page.goto(re.sub(r"/demo/.*", f"/demo/{name}{QUERIES.get(name, '')}", page.url))
    page.wait_for_selector(READY.get(name, "body[data-ready=true]"), timeout=WAIT)
    page.wait_for_load_state("networkidle")  # it may go on for what it will need next
    times = Counter(r.url for r in fetched if r.url.startswith("http") and not WEIGHTS.search(r.url))
    sizes = {r.url: int(r.headers.get("content-length", 0)) for r in fetched}
    counted = Counter({url: min(n, MOST_COUNTED) for url, n in times.items()})
    total = sum(n * sizes[url] for url, n in counted.items())
    requests, size = BUDGETS[name]
    shown = f"{counted.total()} requests, {total / 1000:.0f} KB: {counted}"
    assert counted.total() <= requests and total <= size, shown
    assert 2 * counted.total() > requests and 2 * total > size, f"the budget is twice what is fetched: {shown}"
