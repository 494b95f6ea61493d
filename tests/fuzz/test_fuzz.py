"""Fuzzing that stays: every input that once failed, the corpus, and new ones for a while."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import javascript, server
from tests.fuzz.__main__ import reports
from tests.fuzz.mutate import changed
from tests.fuzz.seeds import CORPUS, FINDINGS
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.worker import outcome, smaller
from tests.support import seeds
from tests.support.js_calls import NEWEST_NODE, SCRIPTS
from xla_wasm import ArgumentError

SECONDS = float(os.environ.get("XLA_WASM_FUZZ_SECONDS", seeds.count(12, 60)))
"""For all targets together."""
STORED = sorted(path for folder in (CORPUS, FINDINGS) for path in folder.glob("*/*"))


@pytest.fixture(scope="module", autouse=True)
def engines() -> Iterator[None]:
    """Engines that targets start, and their end."""
    yield
    javascript.stop_all()


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_stored(path: Path) -> None:
    fault, _ = outcome(TARGETS[path.parent.name].run, path.read_bytes())
    assert not fault


@pytest.mark.parametrize("target", TARGETS)
def test_for_a_while(target: str) -> None:
    """The message has the inputs that failed; `./build.sh fuzz` makes them smaller and keeps them."""
    seed = int(os.environ.get("XLA_WASM_FUZZ_SEED", "1"))
    (report,) = reports([target], seed, SECONDS / len(TARGETS), 1)
    assert report.executions
    assert not [(fault, data.hex()) for fault, data in report.faults]


def test_it_finds_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader with faults of each kind."""

    def faulty(data: bytes) -> None:
        if b"\xff\xfe" in data:
            raise KeyError("found")
        if data.startswith(b"\0\0"):
            while True:
                pass
        raise ArgumentError("refused")

    monkeypatch.setattr("tests.fuzz.worker.SECONDS", 0.05)
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


LOADER = """
export class XlaWasmError extends Error {}
const ways = {
  1: () => { throw new TypeError('found'); },
  2: () => { throw Object.assign(new XlaWasmError('refused'), { name: 'ArgumentError' }); },
  3: () => { Promise.reject(new RangeError('nobody handles this')); },
  4: () => { process.exit(3); },
  5: () => { for (;;); },
  6: () => { throw Object.assign(new XlaWasmError("Cannot read properties of undefined (reading 'x')"), { name: 'ArtifactError' }); },
};
export const load = async (bytes) => {
  ways[bytes[0]]?.();
  return { parameters: [], manifest: { requests: [] }, run() {}, runAsync() {}, profile() {}, dispose() {} };
};
"""  # noqa: E501


def test_it_finds_faults_in_javascript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader with faults of each kind. An engine that ends, or that nobody can end, is started again."""
    loader = tmp_path / "loader.mjs"
    loader.write_text(LOADER)
    command = [NEWEST_NODE, SCRIPTS / "call_node.mjs", loader.as_uri()]
    engine = javascript.Engine(lambda url, _: [*command, url, "fuzzed.mjs", "tryAll", "null"])
    monkeypatch.setattr("tests.fuzz.worker.SECONDS", 1.5)
    try:
        found = [outcome(lambda data: engine.ask("worker", data), bytes([way])) for way in (0, 1, 2, 3, 4, 5, 6, 0)]
        for_ever, _ = outcome(lambda data: engine.ask("here", data), b"\5")
    finally:
        engine.stop()
    faults = [
        "",
        "Fault: TypeError: found",
        "",
        "Fault: RangeError: nobody",
        "Fault: the engine ended with 3",
        "took longer",
    ]
    faults += ["Fault: ArtifactError", ""]
    assert all(
        fault.startswith(start) and bool(fault) == bool(start) for (fault, _), start in zip(found, faults, strict=True)
    ), found
    assert found[2][1].startswith("ArgumentError: refused loader.mjs") and found[0][1] == "ok"
    assert not for_ever, "a module may go on for ever in the loader's own thread"


def test_it_finds_faults_in_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose reader of bodies fails, and one whose answer is none."""
    request = b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n[[1,2,3]]"
    assert outcome(server.ask, request) == ("", "200 | 422 the body must be a JSON")
    with monkeypatch.context() as patch:
        patch.setattr("xla_wasm.server.formats.json_arrays.parse", lambda data: 1 // 0)
        assert outcome(server.ask, request)[0].startswith("ZeroDivisionError")
    with monkeypatch.context() as patch:
        patch.setattr(
            "xla_wasm.server.connections.Connection.send_400_response", lambda self, _: self.transport.write(b"no HTTP")
        )
        assert outcome(server.ask, b"what\r\n\r\n")[0].startswith("AssertionError")
