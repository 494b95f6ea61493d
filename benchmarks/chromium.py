"""The browser that pages are timed in."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, Playwright

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run "
    "--disable-background-networking"
)


def launch(playwright: Playwright) -> Browser:
    """Starts the Chromium that is installed."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    return playwright.chromium.launch(executable_path=path, args=ARGUMENTS.split())
