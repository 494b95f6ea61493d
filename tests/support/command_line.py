"""The command line in this process."""

from __future__ import annotations

from collections.abc import Callable

Cli = Callable[..., tuple[int, str, str]]
"""The function of the fixture `xla_wasm`: takes the words of a command, returns its exit code, output and error
output."""
