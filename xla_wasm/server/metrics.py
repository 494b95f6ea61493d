"""The server's counters, in the text format of Prometheus. With several workers any of them answers for all."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The library's variable that names the folder where worker processes keep their counts; read when it is imported."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The counts of one server."""

    def __init__(self, instance_bytes: int) -> None:
        """`instance_bytes` is the linear memory of one instance."""
        disable_created_metrics()
        self._instance_bytes = instance_bytes
        self._shared = os.environ.get(SHARED)
        self._registry = registry = CollectorRegistry()
        known: dict[str, Any] = {"registry": registry}
        self.requests = Counter("xla_wasm_requests", "Requests answered, by status.", ["status"], **known)
        self.request_seconds = Histogram(
            "xla_wasm_request_seconds", "From a request to its answer.", buckets=_SECONDS, **known
        )
        self.run_seconds = Summary("xla_wasm_run_seconds", "Runs of the model.", **known)
        self.batched = Counter("xla_wasm_batched_requests", "Requests that were run in batches of several.", **known)
        self._memory = Gauge(
            "xla_wasm_memory_bytes",
            "Linear memory of the instances that are running.",
            multiprocess_mode="livesum",
            **known,
        )
        self._waiting = Gauge(
            "xla_wasm_requests_in_progress",
            "Requests taken and not yet answered.",
            multiprocess_mode="livesum",
            **known,
        )

    def begin_run(self) -> None:
        """An instance is there."""
        self._memory.inc(self._instance_bytes)

    def end_run(self, seconds: float) -> None:
        """It is gone."""
        self._memory.dec(self._instance_bytes)
        self.run_seconds.observe(seconds)

    def in_progress(self, count: int) -> None:
        """Reports the number of requests that have been taken and not yet answered."""
        self._waiting.set(count)

    def text(self) -> bytes:
        """All counts."""
        if not self._shared:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together, self._shared)
        return generate_latest(together)
