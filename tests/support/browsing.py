"""Helpers that tests of pages share: a folder for pictures, a phone, a server, and waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.support.paths import ROOT
from xla_wasm.site.serve import make_server

SCREENSHOTS = ROOT / "dist" / "screenshots"
PHONE: dict[str, Any] = {
    "viewport": {"width": 360, "height": 780},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
# milliseconds: programs are compiled when they are first asked for, and workers start on what cores there are
WAIT = 60_000


@contextmanager
def served(folder: Path | None = None, isolated: bool = True) -> Iterator[str]:
    """The address at which the pages, or those of a folder, are served."""
    with make_server("127.0.0.1", 0, folder, isolated=isolated) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def until(page: Page, expression: str) -> None:
    """Waits until a JavaScript expression is true. Playwright's own way to do so needs a page that allows `eval`."""
    expires = time.monotonic() + WAIT / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < expires, expression
        page.wait_for_timeout(50)


def training(page: Page, state: str) -> None:
    """Waits until the training is in this state."""
    page.wait_for_selector(f"body[data-training={state}]", timeout=WAIT)
