"""Fuzzing that stays: every input that once failed, the corpus, and a minute of new ones."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from fuzz.__main__ import reports
from fuzz.mutate import changed
from fuzz.seeds import CORPUS, FINDINGS
from fuzz.targets import TARGETS, Target
from fuzz.worker import outcome, smaller

from xla_wasm import ArgumentError

SECONDS = float(os.environ.get("XLA_WASM_FUZZ_SECONDS", "60"))
STORED = sorted(path for folder in (CORPUS, FINDINGS) for path in folder.glob("*/*"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_stored(path: Path) -> None:
    fault, _ = outcome(TARGETS[path.parent.name].run, path.read_bytes())
    assert not fault


def test_for_a_minute() -> None:
    """Of all targets together. The message has the inputs that failed; `./build.sh fuzz` makes them smaller and keeps them."""
    seed = int(os.environ.get("XLA_WASM_FUZZ_SEED", "1"))
    found = reports(TARGETS, seed, SECONDS, 1)
    assert all(report.executions for report in found)
    assert not [(report.target, fault, data.hex()) for report in found for fault, data in report.faults]


def test_it_finds_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader with faults of each kind."""

    def faulty(data: bytes) -> None:
        if b"\xff\xfe" in data:
            raise KeyError("found")
        if data.startswith(b"\0\0"):
            while True:
                pass
        raise ArgumentError("refused")

    monkeypatch.setattr("fuzz.worker.SECONDS", 0.05)
    target = Target(faulty, lambda: [b"abc"])
    draw = random.Random(0)
    kinds: dict[str, bytes] = {}
    for _ in range(3000):
        data = changed(draw, b"\xff abc \xfe\0", [b"\0\0", b"\xff\xfe"], [b"\0\0"])
        fault, kind = outcome(target.run, data)
        if fault:
            kinds.setdefault(kind.split()[0], data)
        if len(kinds) == 2:
            break
    assert set(kinds) == {"KeyError", "slow"}
    shorter = smaller(target.run, kinds["KeyError"] + b"more", outcome(target.run, kinds["KeyError"])[1])
    assert shorter == b"\xff\xfe"
