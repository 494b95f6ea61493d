"""Ctrl-C while the command imports what it needs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code."""


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Has an interrupt end the process. Extension modules that are being imported, as NumPy's, print the exception that
    comes then and raise another one."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
