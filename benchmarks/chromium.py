"""The Chromium that pages are tested and timed in: where it is, and how it starts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run "
    "--disable-background-networking"
).split()


def find(*, shell: bool = False) -> str:
    """Its path. The `shell` is the same engine without the browser's windows, and takes a third less of the processor
    for the same page; where only one of the two is installed, it is that one.

    Raises SystemExit where there is neither."""
    names = ["chromium", "chromium-headless-shell"]
    for name in reversed(names) if shell else names:
        if path := shutil.which(name):
            return path
    raise SystemExit("there is no chromium: apt-get install chromium")


def launch(playwright: Playwright) -> Browser:
    """Starts it, to be timed."""
    return playwright.chromium.launch(executable_path=find(), args=ARGUMENTS)
