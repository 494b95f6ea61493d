"""Programs that tests start and wait for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path


def output(
    command: Iterable[object],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    timeout: float = 300,
) -> str:
    """Returns the output of a program, which must end with exit code 0 within `timeout` seconds. If it does not, the
    failure shows the end of all that it said. `env` is added to the environment of this process."""
    words = [str(word) for word in command]
    environment = os.environ | (env or {})
    done = subprocess.run(words, cwd=cwd, env=environment, input=input, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout
