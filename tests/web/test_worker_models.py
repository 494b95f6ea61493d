"""Models in workers: weights among the assets, states, traps, what cannot be served, and a model as large as a worker
may have."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.bodies import JSON, NPY, NPZ, load_npy, load_npz, npy, npz
from tests.support.hostio_cases import module as host_module
from tests.support.miniflare import CONFIG, EXAMPLES, FREE_PLAN, Answer, ask, bundle, post, serving
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import SHAPE, toy, toy_expected
from xla_wasm import HloModule, Options, javascript
from xla_wasm.site import minilm

X = np.array([[1, -3, 3], [0.5, 0, 9]], np.float32)
W = np.array([[1, 2, 3], [4, 5, 6]], np.float32) / 8
STATE = """HloModule counter

ENTRY e {
  x = f32[2]{0} parameter(0), metadata={op_name="x"}
  s = f32[2]{0} parameter(1), metadata={op_name="s"}
  y = f32[2]{0} add(x, s)
  ROOT r = (f32[2]{0}, f32[2]{0}) tuple(y, y)
}
"""
RANDOM = """HloModule random

ENTRY e {
  ROOT r = u64[1]{0} rng-get-and-update-state(), delta=5
}
"""
CALL = """HloModule call

ENTRY e {
  x = f32[2]{0} parameter(0)
  ROOT y = f32[2]{0} custom-call(x), custom_call_target="f"
}
"""
DEVICES = """HloModule devices, replica_count=2

ENTRY e {
  x = f32[2]{0} parameter(0)
  ROOT y = f32[2]{0} all-reduce(x), replica_groups={{0,1}}, to_apply=add
}
"""
ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
WORKER = """
import { handler } from './xla-wasm/http/handler.js';
import { load as loadToy, weights } from './toy.js';
import { load as loadState } from './state.js';
import { load as loadRandom } from './random.js';
import { load as loadCall } from './call.js';
import { load as loadInfeed } from './infeed.js';
import { load as loadDevices } from './devices.js';
import { load as loadPlain } from './plain.js';
import plain from './plain.wasm';

const W = Float32Array.of(1, 2, 3, 4, 5, 6).map((x) => x / 8);
const loads = {};
const count = (name) => (loads[name] = (loads[name] ?? 0) + 1);
let failing;
const handlers = {
  toy: handler(async (env) => {
    count('toy');
    const model = await loadToy({ assets: env.ASSETS });
    model.set('w', W);
    return model;
  }),
  unset: handler((env) => loadToy({ assets: env.ASSETS })),
  unbound: handler(() => loadToy()),
  elsewhere: handler((env) => loadToy({ assets: env.ASSETS, base: 'https://assets.invalid/none/' })),
  wrong: handler(() => loadToy({ assets: { fetch: async () => new Response(new Uint8Array(8)) } })),
  late: handler(async (env) => {
    if (count('late') < 3) throw new Error('not yet');
    return loadState();
  }),
  state: handler(async () => {
    const model = await loadState();
    model.set('s', Float32Array.of(10, 20));
    return model;
  }),
  random: handler(() => (count('random'), loadRandom())),
  call: handler(() => loadCall({ customCalls: { f: (x) => { if (x[0] < 0) throw new Error('negative'); return x.map((v) => 2 * v); } } })),
  infeed: handler(() => loadInfeed()),
  devices: handler(() => loadDevices()),
  nothing: handler(() => undefined),
  lost: handler(() => loadPlain()),
  handed: handler(() => loadPlain(plain, { memoryLimit: 1 << 20 })),
  limited: handler(() => loadPlain(plain, { memoryLimit: 1 })),
};
try {
  handler(loadState());
} catch (error) {
  failing = `${error.name}: ${error.message}`;
}

export default {
  fetch(request, env, context) {
    const url = new URL(request.url);
    const [, name, ...rest] = url.pathname.split('/');
    if (name === 'facts') return Response.json({ loads, weights, failing, url: String(import.meta.url) });
    url.pathname = '/' + rest.join('/');
    return handlers[name](new Request(url, request), env, context);
  },
};
"""  # noqa: E501
ASSETS = {"directory": "assets", "binding": "ASSETS", "run_worker_first": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    compile = xla_wasm.compile
    feed = host_module(
        "f = ((f32[3]), token[]) infeed(t)\nROOT r = (f32[3]) get-tuple-element(f), index=0", parameters=""
    )
    models = {
        "toy": toy(),
        "state": compile(HloModule.from_text(STATE), Options(state=((1, 1),))),
        "random": compile(HloModule.from_text(RANDOM)),
        "call": compile(HloModule.from_text(CALL), Options(host_calls=("f",))),
        "infeed": compile(feed),
        "devices": compile(HloModule.from_text(DEVICES.replace("ENTRY", ADD + "ENTRY"))),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(javascript, "PART", 10)  # so that the toy's 24 bytes are three files
        for name, artifact in models.items():
            javascript.save(artifact, folder / f"{name}.wasm", javascript.BESIDE, "worker")
        javascript.save(compile(HloModule.from_text(STATE.replace("counter", "plain"))), folder / "plain.wasm")
    (folder / "worker.js").write_text(WORKER)
    (folder / "wrangler.jsonc").write_text(json.dumps(CONFIG | {"assets": ASSETS}))
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(folder) as address:
        yield address


def facts(url: str) -> Any:
    return ask(url + "facts").json


def run_toy(url: str, x: Any, k: int) -> Answer:
    return post(f"{url}toy/", npz(x=x, k=np.array(k)), NPZ)


def test_weights_in_parts(url: str, folder: Path) -> None:
    """The first requests come all at once: each waits for the weights that the first one has fetched."""
    assert facts(url)["weights"] == ["toy.weights.0", "toy.weights.1", "toy.weights.2"]
    assert [(folder / "assets" / name).stat().st_size for name in facts(url)["weights"]] == [10, 10, 4]
    assert not (folder / "toy.weights").exists()
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda k: run_toy(url, X + np.float32(k), k), range(30)))
    for k, answer in enumerate(answers):
        assert answer.status == 200, answer
        got = load_npz(answer.body)
        for a, b in zip(got.values(), toy_expected(X + np.float32(k), W, k), strict=True):
            assert a.dtype == b.dtype and (a == b).all()
    assert [*got] == ["y", "k_next", "positive"] and facts(url)["loads"]["toy"] == 1


@pytest.mark.parametrize("settings", [{"compatibility_flags": ["nodejs_compat"]}, {"compatibility_date": "2025-01-01"}])
def test_other_settings_of_the_runtime(settings: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    """With Node's modules there, and as workers were that have not been touched for a while."""
    worker = tmp_path / "worker"
    shutil.copytree(folder, worker)
    (worker / "wrangler.jsonc").write_text(json.dumps(CONFIG | {"assets": ASSETS} | settings))
    with serving(worker) as address, ThreadPoolExecutor(20) as pool:
        assert {answer.status for answer in pool.map(lambda k: run_toy(address, X, k), range(20))} == {200}


def test_a_run_that_traps(url: str) -> None:
    """It is an error of the server, and the next run has a model that is loaded anew."""
    before = run_toy(url, X, 5)
    loads = facts(url)["loads"]["toy"]
    trapped = run_toy(url, np.full(SHAPE, -1, np.float32), 1)
    assert trapped.status == 500 and "'toy' failed in step 0 of 3, affine.1" in trapped.error["message"]
    assert run_toy(url, X, 5) == before and facts(url)["loads"]["toy"] == loads + 1


def test_weights_that_are_missing(url: str) -> None:
    for name, says in (
        ("unbound", "the weights are in toy.weights.0, toy.weights.1, toy.weights.2: load({assets: env.ASSETS})"),
        ("elsewhere", "cannot fetch toy.weights.0 from the assets: HTTP 404; it lies in assets/ beside the model"),
        ("wrong", "are not those the module was compiled with"),
    ):
        for path in ("", "healthz"):
            answer = ask(f"{url}{name}/{path}")
            assert answer.status == 503 and answer.headers["retry-after"] == "1", answer
            assert (
                answer.error["message"].startswith("the model cannot be loaded: ") and says in answer.error["message"]
            )
    unset = post(f"{url}unset/", npz(x=X, k=np.array(1)), NPZ)
    assert unset.status == 500 and "weight 'w' has not been set" in unset.error["message"]


def test_loading_is_tried_again(url: str) -> None:
    assert [ask(f"{url}late/healthz").status for _ in range(4)] == [503, 503, 200, 200]
    assert facts(url)["loads"]["late"] == 3


def test_every_run_begins_with_the_initial_state(url: str) -> None:
    assert [x["name"] for x in ask(f"{url}state/").json["inputs"]] == ["x"] and len(
        ask(f"{url}state/").json["results"]
    ) == 1
    for _ in range(3):
        assert [*post(f"{url}state/", [1, 2]).json.values()] == [[11, 22]]


def test_a_random_state_is_that_of_a_fresh_module(url: str) -> None:
    """It cannot be set, so that each run takes a module of its own, at once or one after another."""
    exe = xla_wasm.load(xla_wasm.compile(HloModule.from_text(RANDOM)))
    first, second = int(exe.run()[0][0]), int(exe.run()[0][0])
    assert first != second
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: post(f"{url}random/", {}), range(20)))
    assert [answer.json for answer in answers] == [{"result": [first]}] * 20
    assert ask(f"{url}random/", b"").json == {"result": [first]}
    assert ask(f"{url}random/").json["inputs"] == []
    assert facts(url)["loads"]["random"] == 21 + 1


def test_functions_of_the_host(url: str) -> None:
    assert post(f"{url}call/", [1, 2]).json == {"result": [2, 4]}
    failed = post(f"{url}call/", [-1, 2])
    assert failed.status == 500 and "negative" in failed.error["message"]
    assert post(f"{url}call/", [1, 3]).json == {"result": [2, 6]}


def test_what_cannot_be_served(url: str) -> None:
    for name, says in (
        ("infeed", "'m' has infeed, and a request ends nothing that comes or goes during a run"),
        ("devices", "'devices' runs on several devices, which one request does not have"),
        ("nothing", "what handler was given to load a model gave none"),
        ("limited", "the limit is 1"),
    ):
        answer = post(f"{url}{name}/", [])
        assert answer.status == 503 and says in answer.error["message"], answer
    assert (
        facts(url)["failing"]
        == "ArgumentError: handler takes a function that loads the model, as in handler(() => load()); got object"
    )


def test_a_script_that_does_not_know_where_it_lies(url: str) -> None:
    """model.js of kind "module" says so, and takes the module instead."""
    assert facts(url)["url"] == "undefined"
    lost = ask(f"{url}lost/").error["message"]
    assert (
        "this runtime does not say where plain.wasm lies: import it and call load(wasm), or compile it with --kind "
        "worker" in lost
    )
    assert [*post(f"{url}handed/", {"x": [1, 2], "s": [3, 4]}).json.values()][0] == [4, 6]


@pytest.mark.parametrize("sidecar", [False, True])
def test_a_module_is_handed_over_in_node_too(sidecar: bool, tmp_path: Path) -> None:
    """Its weights do not come by themselves then; with options and without."""
    artifact = toy() if sidecar else xla_wasm.compile(HloModule.from_text(STATE))
    javascript.save(artifact, tmp_path / "model.wasm")
    weights = ", { weights: [new Uint8Array(await readFile('model.weights'))] }" if sidecar else ""
    (tmp_path / "run.mjs").write_text(
        "import { readFile } from 'node:fs/promises';\nimport { load } from './model.js';\n"
        f"const model = await load(await WebAssembly.compile(await readFile('model.wasm')){weights});\n"
        "console.log(model.manifest.name, await load().then((m) => m.manifest.name));\n"
        "console.log(await load(await WebAssembly.compile(await readFile('model.wasm'))).catch((error) => "
        "error.message));\n"
    )
    said = output([node_for("simd128"), "run.mjs"], tmp_path)
    assert said.startswith("toy toy" if sidecar else "counter counter")
    assert ("must have 24 bytes and none was given" in said) == sidecar


def test_the_command(tmp_path: Path) -> None:
    def xla(*words: str) -> str:
        command = [
            sys.executable,
            "-m",
            "xla_wasm",
            "compile",
            ROOT / "examples" / "digits" / "digits.hlo.pb",
            "-o",
            "m.wasm",
            *words,
        ]
        return output(command, tmp_path)

    assert "memory 0.2 MB of the 128 MB" in xla("--kind", "worker")
    with pytest.raises(xla_wasm.ArgumentError, match="no JavaScript of kind 'edge': choose one of module, worker"):
        javascript.save(toy(), tmp_path / "toy.wasm", kind="edge")
    assert (tmp_path / "xla-wasm" / "http" / "handler.js").is_file() and (tmp_path / "m.d.ts").is_file()
    assert not (tmp_path / "assets").exists()
    shutil.rmtree(tmp_path / "xla-wasm")
    said = xla("--kind", "worker", "--sidecar", "--loader", "xla-wasm")
    assert "assets/m.weights.0" in said and not (tmp_path / "xla-wasm").exists()
    script = (tmp_path / "m.js").read_text()
    assert "from 'xla-wasm';" in script and "from 'xla-wasm/parts.js';" in script
    (tmp_path / "assets" / "m.weights.1").write_bytes(b"of a larger model")
    (tmp_path / "assets" / "m.weights.txt").write_bytes(b"of the user")
    xla("--kind", "worker", "--sidecar")
    assert sorted(path.name for path in (tmp_path / "assets").iterdir()) == ["m.weights.0", "m.weights.txt"]
    assert "memory" not in xla("--js") and "import.meta.url" in (tmp_path / "m.js").read_text()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """examples/worker/minilm, built and bundled; what its build said."""
    folder = tmp_path_factory.mktemp("large") / "minilm"
    shutil.copytree(
        EXAMPLES / "minilm",
        folder,
        ignore=shutil.ignore_patterns("model.*", "xla-wasm", "assets", "tokenizer.js", "__pycache__"),
    )
    return folder, bundle(folder, folder.parent / "bundle")


def test_a_large_model_fits(large: tuple[Path, str]) -> None:
    folder, said = large
    artifact = xla_wasm.Artifact.open(folder / "model.wasm")
    memory = artifact.manifest["pages"] << 16
    assert (
        60e6 < memory < 75e6 and memory < javascript.ISOLATE and f"memory {memory / 1e6:.1f} MB of the 128 MB" in said
    )
    parts = sorted((folder / "assets").glob("*.weights.*"))
    assert [path.name for path in parts] == ["model.weights.0", "model.weights.1"]
    assert all(path.stat().st_size <= 25 << 20 for path in parts)
    assert b"".join(path.read_bytes() for path in parts) == minilm.compiled().weights
    upload = re.search(r"Total Upload: .* gzip: ([\d.]+) KiB", said)
    assert upload and float(upload[1]) * 1024 < FREE_PLAN


@pytest.mark.parametrize("bundled", [False, True])
def test_a_large_model_runs(bundled: bool, large: tuple[Path, str]) -> None:
    """The first requests come together; embeddings are those of the Python host, bit for bit, from tokens and from
    text."""
    folder, _ = large
    spec = importlib.util.spec_from_file_location("minilm_tokenizer", ROOT / "examples" / "minilm" / "tokenizer.py")
    assert spec and spec.loader
    tokenizer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tokenizer)
    vocabulary = tokenizer.Tokenizer((folder / "assets" / "vocab.txt").read_text(encoding="utf-8").split("\n"))
    exe = xla_wasm.load(minilm.compiled())
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.", "naïve café, 東京"]
    inputs, want = [], []
    for text in texts:
        numbers = vocabulary.encode(text)
        inputs.append((np.array(numbers + [0] * (128 - len(numbers)), np.int32), np.array(len(numbers), np.int32)))
        want.append(exe.run(*inputs[-1])[0])
    with serving(folder, folder.parent / "bundle" if bundled else None) as url:
        with ThreadPoolExecutor(8) as pool:
            embedded = list(
                pool.map(
                    lambda text: ask(url + "embed", text.encode(), Content_Type="text/plain", Accept=NPY), texts * 2
                )
            )
        for answer, vector in zip(embedded, want * 2, strict=True):
            assert answer.status == 200 and load_npy(answer.body).tobytes() == vector.tobytes(), answer
        for (ids, length), vector in zip(inputs, want, strict=True):
            as_json = post(url, {"ids": ids.tolist(), "length": int(length)})
            assert np.array(as_json.json["embedding"], np.float32).tobytes() == vector.tobytes()
            assert load_npz(post(url, npz(ids=ids, length=length), NPZ).body)["embedding"].tobytes() == vector.tobytes()
        assert [leaf["shape"] for leaf in ask(url).json["inputs"]] == [[128], []]
        assert ask(url + "embed").status == 405 and ask(url + "embed", b" ", Content_Type="text/plain").status == 422
        # What lies among the assets is the worker's own.
        assert ask(url + "model.weights.0").status == 404 and ask(url + "vocab.txt").status == 404
        wrong = post(url, {"ids": [0] * 127, "length": 1})
        assert {"field": "ids", "expected": "s32[128]", "given": "s32[127]"}.items() <= wrong.error.items()
        assert npy(want[0]) and ask(url + "healthz").headers["content-type"] != JSON
