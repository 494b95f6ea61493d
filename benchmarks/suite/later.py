"""Rows for what is not there yet: the workload is, and what it waits for is named. A row becomes one of its family when that is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from . import models, products
from .workload import Workload

TITLE = "Not yet"
THREADS, NARROW = "threads", "weights in fewer bits"


def workloads() -> Iterator[Workload]:
    """Those of two threads are the same computation on twice the cores; those of fewer bits want a tolerance of their own."""
    known = {workload.name: workload for family in (products, models) for workload in family.workloads()}
    for name in ("matmul_1024", "minilm_s128", "resnet18"):
        yield replace(known[name], name=f"{name}_threads2", quick=False, waits_for=THREADS)
    for bits, tolerance in (("f16", 2e-3), ("int8", 3e-2), ("int4", 3e-1)):
        for name in ("minilm_s16", "gpt2s_decode"):
            yield replace(known[name], name=f"{name}_{bits}", tolerance=tolerance, waits_for=f"{NARROW}: {bits}")
