"""The loader in service workers, shared workers and AudioWorklets, which lack much of what a page has."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from playwright.sync_api import Browser

import xla_wasm
from tests.support.document_blocks import block
from tests.support.js_calls import Call, call_fixture, isolated_site
from tests.support.node_host import nodes
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import SHAPE, toy, toy_expected
from tests.support.web_server import TYPES, Answer, Site
from xla_wasm import Options
from xla_wasm.hlo.ir import Module
from xla_wasm.jax import lower

WEB = ROOT / "web"
ECHO = """ENTRY e {
  x = f32[128] parameter(0)
  h = f32[128] parameter(1)
  l = f32[256] constant({...})
  c = f32[128] slice(l), slice={[0:128]}
  m = f32[128] multiply(h, c)
  y = f32[128] add(x, m)
  ROOT r = (f32[128], f32[128]) tuple(y, x)
}
""".replace("...", ", ".join(str(i / 128) for i in range(256)))
"""Each block of samples, and the one before it more and more."""
X = np.array([1, -3, 3, 0.5, 0, 9], np.float32)
BLOCKS = 20
HEAP = ["--min-semi-space-size=128", "--max-semi-space-size=128"]
"""Nothing is collected before so many megabytes are full."""

call = call_fixture("worker_kinds.mjs", ["chromium", "firefox", "webkit"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("kinds")
    toy().save(folder / "toy.wasm")
    tree = {"w": jnp.zeros(6), "b": [jnp.zeros(6)]}
    xla_wasm.compile(lower(lambda params: params["w"] + params["b"][0], tree)).save(folder / "tree.wasm")
    options = Options(state=(("h", "result.1"),), sidecar=True)
    xla_wasm.compile(Module.from_text(ECHO), options).save(folder / "echo.wasm")
    with isolated_site(folder=folder).serving() as site:
        yield site


def check_runs(said: dict[str, Any]) -> None:
    assert "error" not in said, said["error"]
    y = toy_expected(X.reshape(SHAPE), np.ones(SHAPE, np.float32), 41)[0].ravel().tolist()
    assert said["answer"] == {"results": [y, y, y], "called": (X + X).tolist(), "profiled": True, "simd": True}


def test_in_a_service_worker(call: Call) -> None:
    """With weights, a timeout, a signal and structures, all of which the usual loader imports on demand."""
    ask = {"script": "/js/service_worker.mjs", "type": "module"}
    check_runs(call("inServiceWorker", ask | {"question": "runs"}))


def test_what_a_service_worker_cannot(call: Call) -> None:
    """Errors say what to do; those about sources are as in a page."""
    ask = {"script": "/js/service_worker.mjs", "type": "module"}
    said = call("inServiceWorker", ask | {"question": "refusals"})["answer"]
    for option in ("worker", "devices"):
        assert "UnsupportedError: a service worker or worklet starts no workers" in said[option]
        assert f"leave out {option}" in said[option] or "worker, devices" in said[option]
    assert "UnsupportedError: untrusted: true needs workers" in said["untrusted"]
    assert "has no option 'wieghts'" in said["option"] and "HTTP 404" in said["missing"]


def test_the_usual_loader_in_a_service_worker(call: Call) -> None:
    """Has no `import()` there, and says which file has all."""
    ask = {"script": "/js/plain_service_worker.mjs", "type": "module", "question": "plain"}
    said = call("inServiceWorker", ask)["answer"]
    assert re.match(r"UnsupportedError: cannot import weights.js \(.*\): service workers and worklets need sta", said)


def test_in_a_shared_worker(call: Call) -> None:
    """The usual loader."""
    check_runs(call("inSharedWorker", {"script": "/js/shared_worker.mjs", "type": "module", "question": "runs"}))


def echoed(heard: Any) -> Any:
    blocks = np.array(heard, np.float32).reshape(BLOCKS, 128)
    before = np.concatenate([np.zeros((1, 128), np.float32), blocks[:-1]])
    return (blocks + before * (np.arange(128, dtype=np.float32) / 128)).ravel()


def test_in_an_audio_worklet(call: Call) -> None:
    """A module with a state and a sidecar, both handed over: there is no `fetch`. Every block is computed."""
    files = {"module": "/echo.wasm", "weights": "/echo.weights"}
    ask = {"script": "/js/audio_worklet.mjs", "files": files, "blocks": BLOCKS, "question": "run"}
    said = call("inAudioWorklet", ask)
    assert said["answer"] == "ready"
    np.testing.assert_array_equal(np.array(said["given"], np.float32), echoed(said["heard"]))


def test_what_an_audio_worklet_cannot(call: Call) -> None:
    files = {"module": "/echo.wasm"}
    ask = {"script": "/js/audio_worklet.mjs", "files": files, "blocks": 1, "question": "refusals"}
    worker, devices, weights, option = call("inAudioWorklet", ask)["answer"]
    assert worker == devices and "starts no workers" in worker
    assert "none was given: load(source, {weights: ...})" in weights and "no option 'wieghts'" in option


def test_all_files_stand_in_one() -> None:
    """standalone.js has all that the loader imports on demand, under the names that it is asked for by."""
    asked = set()
    for path in WEB.rglob("*.js"):
        asked |= set(re.findall(r"\bfile\('(\w+)',", path.read_text(encoding="utf-8")))
    standalone = (WEB / "standalone.js").read_text(encoding="utf-8")
    lists = " ".join(re.findall(r"Object\.assign\(FILES, \{(.*)\}\);", standalone))
    assert asked and asked == set(re.findall(r"\b[a-z]\w*(?=[,:} ])", re.sub(r"\{.*?\}", "", lists)))


@pytest.mark.parametrize("version", nodes())
def test_runs_in_place_allocate_nothing(version: str, site: Site) -> None:
    """Runs that take arguments do."""
    output([nodes()[version][0], *HEAP, ROOT / "tests/js/in_place.test.mjs"], env={"SITE": site.url})


NAMES = 'xla_wasm.parameter_names="[\\"samples\\"]",xla_wasm.result_names="[\\"sound\\"]"'
NEGATED = (
    f"HloModule m, frontend_attributes={{{NAMES}}}"
    + """
ENTRY e {
  x = f32[128] parameter(0)
  ROOT y = f32[128] negate(x)
}
"""
)
ASK = {
    "service-worker": """async (samples) => {
      const { installing } = await navigator.serviceWorker.register('/service-worker.js', { type: 'module' });
      installing.postMessage({ samples });
      return new Promise((done) => (navigator.serviceWorker.onmessage = ({ data }) => done(data.sound)));
    }""",
    "shared-worker": """(samples) => {
      const worker = new SharedWorker('shared-worker.js', { type: 'module' });
      worker.port.postMessage({ samples });
      return new Promise((done) => (worker.port.onmessage = ({ data }) => done(data.sound)));
    }""",
    "processor": """async (samples) => {
      const context = new OfflineAudioContext(1, 128, 48000);
      // PAGE
      const buffer = context.createBuffer(1, 128, 48000);
      buffer.copyToChannel(samples, 0);
      const source = new AudioBufferSourceNode(context, { buffer });
      source.connect(node).connect(context.destination);
      source.start();
      await new Promise((resolve) => setTimeout(resolve, 500)); // the processor does not say when it has loaded
      return (await context.startRendering()).getChannelData(0);
    }""",
}


def test_the_documents(chromium: Browser, tmp_path: Path) -> None:
    """The workers of docs/web.md, with what its command writes."""
    (tmp_path / "model.hlo.pb").write_bytes(Module.from_text(NEGATED).to_proto())
    command = block("docs/web.md", "console", 2).code.removeprefix("$ xla-wasm ").split()
    output([sys.executable, "-m", "xla_wasm", *command], tmp_path)
    service, page_code, processor, shared = (block("docs/web.md", "js", number).code for number in range(6, 10))
    for name, code in zip(ASK, (service, shared, processor), strict=True):
        (tmp_path / f"{name}.js").write_text(code)
    with (
        Site({"/": Answer(b"", TYPES[".html"])}, {"/": tmp_path}).serving() as site,
        chromium.new_context(service_workers="allow") as context,
    ):
        page = context.new_page()
        page.goto(site.url)
        for name, ask in ASK.items():
            asked = ask.replace("// PAGE", page_code)
            call = f"async (numbers) => Array.from(await ({asked})(Float32Array.from(numbers)))"
            assert page.evaluate(call, list(range(128))) == [-i for i in range(128)], name
