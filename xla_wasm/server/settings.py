"""The settings of a server."""

from __future__ import annotations

from ..dataclass import dataclass


@dataclass(frozen=True)
class Settings:
    """The settings of serving; times in seconds."""

    concurrency: int = 2
    """Runs at once, in each worker process."""
    queue: int = 256
    """Requests that wait beside those that run, before others are turned away."""
    batch_deadline: float | None = None
    """The time that the first request of a batch waits for others; None: no batches."""
    run_timeout: float | None = None
    """The longest time of a run."""
    body_timeout: float = 30.0
    """The longest time in which a body has to arrive."""
    max_body: int | None = None
    """Bytes of the largest body; None: what the inputs can need."""
    grace: float = 30.0
    """The time that a server which was told to end waits for what it has begun."""
    reuse: bool = False
    """True if instances serve one request after another, where the program keeps nothing from run to run."""
