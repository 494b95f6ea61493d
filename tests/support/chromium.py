"""The Chromium that tests start: where it is, and how."""

from __future__ import annotations

import shutil

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run "
    "--disable-background-networking"
).split()


def find() -> str:
    """Its path."""
    path = shutil.which("chromium")
    if path is None:
        raise FileNotFoundError("no chromium: ./build.sh installs it with apt")
    return path
