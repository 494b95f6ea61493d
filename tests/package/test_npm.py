"""The npm package of the loader: size, types, Node, Deno and Bun, built by Vite and webpack, from another origin, under
a policy."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

import xla_wasm
from tests.support.document_blocks import block
from tests.support.firefox import Firefox
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.web_server import TYPES, Answer, Site
from xla_wasm import HloModule, Options, javascript

TOOLS = ROOT / ".tools"
IMAGE = np.array([(i % 17) / 16 for i in range(64)], np.float32).reshape(1, 8, 8, 1)
USE = """
async function use() {
  const image = Float32Array.from({ length: 64 }, (_, i) => (i % 17) / 16);
  const here = await load();
  const there = await load({ worker: true });
  const group = await load({ devices: 2 });
  const all = [here.run({ image }), await there.run({ image }), ...(await group.runReplicated([{ image }, [image]]))];
  const answers = all.map(({ result }) => Array.from(result));
  there.dispose();
  group.dispose();
  return answers;
}
"""
SHOW = (
    USE
    + "use().then((a) => (document.body.dataset.answers = JSON.stringify(a)), (e) => (document.body.dataset.error = "
    "e.stack));\n"
)
HTML = (
    '<!doctype html>\n<meta charset="utf-8">\n<title>App</title>\n<body>\n<script type="module" '
    'src="./main.js"></script>\n'
)
VITE = """
const { build } = await import(process.argv[2] + '/bundlers/node_modules/vite/dist/node/index.js');
const options = { outDir: 'vite', reportCompressedSize: false };
await build({ root: import.meta.dirname, configFile: false, base: './', logLevel: 'warn', build: options });
"""
WEBPACK = """
import { createRequire } from 'node:module';
const webpack = createRequire(process.argv[2] + '/bundlers/x.js')('webpack');
const output = { path: import.meta.dirname + '/webpack' };
webpack({ context: import.meta.dirname, mode: 'production', entry: './main.js', output }, (error, stats) => {
  const text = error ?? stats.toString({ all: false, errors: true, warnings: true });
  console.log(text || 'built');
  process.exit(error || stats.hasErrors() || stats.hasWarnings() ? 1 : 0);
});
"""
WEBPACK_SERVICE_WORKER = """
import { createRequire } from 'node:module';
const webpack = createRequire(process.argv[2] + '/bundlers/x.js')('webpack');
const output = { path: import.meta.dirname + '/service', filename: 'worker.js' };
const entry = './service.js';
webpack({ context: import.meta.dirname, mode: 'production', target: 'webworker', entry, output }, (error, stats) => {
  console.log(error ?? stats.toString({ all: false, errors: true, warnings: true, assets: true }));
  process.exit(error || stats.hasErrors() || stats.hasWarnings() ? 1 : 0);
});
"""
ANSWERING = """
const image = Float32Array.from({ length: 64 }, (_, i) => (i % 17) / 16);
addEventListener('message', ({ ports: [port] }) =>
  loaded()
    .then((model) => [...model.run({ image }).result])
    .then((answer) => port.postMessage(answer), (error) => port.postMessage(error.stack)),
);
"""
SERVICE = "import { load } from './model.js';\nconst loaded = () => load();\n" + ANSWERING
CLASSIC_SERVICE = (
    """
importScripts('./node_modules/xla-wasm/standalone.classic.js');
const loaded = () => xlaWasm.load('./model.wasm', { named: true });
"""
    + ANSWERING
)
ASK_SERVICE_WORKER = """(async (script) => {
  const { installing } = await navigator.serviceWorker.register(script);
  const { port1, port2 } = new MessageChannel();
  installing.postMessage('', [port2]);
  return new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
})"""
TYPED = """
import { load, inputs } from './model.js';
import { load as loadAny, transfer, ArtifactError, type ExchangeEvent, type Progress } from 'xla-wasm';
import { Queue } from 'xla-wasm/feeds.js';

const rank: 4 = inputs.image.shape.length;
const model = await load({ onProgress: ({ phase, loaded, total }: Progress) => console.log(phase, loaded / total, rank) });
const { result } = model.run({ image: new Float32Array(64) });
const first: number = result[0];
const seen: Float32Array = model.input('image');
model.run({ image: seen }, { out: [model.output('result')] });
const later0 = new Float32Array(64);
const handed: Float32Array = (await load(await WebAssembly.compile(new Uint8Array(8)), { memoryLimit: 9 })).run({ image: later0 }).result;
const remote = await load({ worker: true, signal: new AbortController().signal });
const later: Float32Array = (await remote.run({ image: transfer(new Float32Array(64)) }, { signal: AbortSignal.timeout(9) })).result;
const strange: Float32Array = (await (await load({ untrusted: true })).run({ image: later })).result;
const onExchange = ({ device, to }: ExchangeEvent) => console.log(device + to[0]);
const group = await load({ devices: { replicas: 2 }, transport: 'messages', onExchange });
const both = { signal: AbortSignal.timeout(9), infeed: [[], []] };
const [{ result: of0 }]: { result: Float32Array }[] = await group.runReplicated([{ image: later }, [later]], both);
const replicas: number = group.devices.replicas + of0[0];
const groups = await loadAny('a.wasm', { devices: 4 });
const whole = await groups.runGlobal([later]);
const exe = await loadAny({ simd128: 'a.wasm' }, { cache: true });
const fed = new Queue<Float32Array>();
fed.push(later);
const ends = { infeed: fed, outfeed: (item: Float32Array) => console.log(item), recv: { rate: [later] }, send: { loss: fed } };
const [read] = await exe.runAsync(later, ends);
exe.dispose();
console.log(first, later, handed, read, replicas, whole, ArtifactError);
"""  # noqa: E501
SERVED = """
import { handler } from 'xla-wasm/http.js';
import { load } from './model.js';

const answer = handler(() => load());
const image = Array.from({ length: 64 }, (_, i) => (i % 17) / 16);
const post = (init) => answer(new Request('http://host/', { method: 'POST', ...init }));
const ask = (body, type, accept) => post({ body, headers: { 'Content-Type': type, Accept: accept } });
const json = await ask(JSON.stringify({ image }), 'application/json', 'application/json');
const raw = await ask(Float32Array.from(image), 'application/octet-stream', 'application/x-npz');
const wrong = await ask('[1', 'application/json', '*/*');
const form = new FormData();
form.append('image', image.join(' '));
const filled = await post({ body: form });
const archive = [...new Uint8Array(await raw.arrayBuffer())];
const page = await answer(new Request('http://host/', { headers: { Accept: 'text/html' } }));
const html = (await page.text()).includes('<form');
const deep = handler(() => load(), { base: '/api/model/' });
const at = async (path) => (await deep(new Request(`http://host${path}`))).status;
const within = ['/api/model', '/api/model/', '/api/model/healthz'];
const paths = await Promise.all([...within, '/', '/api/models', '/api/model/x', '/healthz'].map(at));
console.log(JSON.stringify({ json: await json.json(), filled: await filled.json(), archive, status: wrong.status, html, paths }));
"""  # noqa: E501
WORKER_TYPED = """
import { handler } from 'xla-wasm/http.js';
import { joined } from 'xla-wasm/parts.js';
import { load, weights } from './weighty.js';
import { load as loadPlain } from './plain.js';

interface Env { ASSETS: { fetch: (url: string | Request) => Promise<Response> } }
const answer = handler(async (env: Env) => {
  const model = await load({ assets: env.ASSETS, onProgress: ({ loaded }) => console.log(loaded) });
  const logits: Float32Array = model.run({ image: new Float32Array(64) }).result;
  console.log(logits);
  return model;
});
export default { fetch: answer };
const other: (request: Request) => Promise<Response> = handler(() => loadPlain());
const names: readonly string[] = weights;
console.log(await joined([...names], { fetch }, 'https://example.com/'), other);
"""
WORKER_MISTYPED = [
    "handler(load({}));",
    "load({ assets: 3 });",
    "loadPlain({ worker: true });",
    "loadPlain({ assets: { fetch } });",
]
MISTYPED = {
    "an input of another type": "model.run({ image: new Float64Array(64) });",
    "an input of another name": "model.run({ picture: new Float32Array(64) });",
    "a view of an input that is not there": "model.input('picture');",
    "a target of another type": "model.run({ image: new Float32Array(64) }, { out: [[1]] });",
    "views in a worker": "(await load({ worker: true })).input('image');",
    "a result that is not there": "model.run({ image: new Float32Array(64) }).logits;",
    "an unknown option": "load({ progress: 1 });",
    "runs of one device on many": "(await load({ devices: 2 })).run({ image: new Float32Array(64) });",
    "a weight that is not there": "model.set('w', new Float32Array(64));",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("npm")
    return folder, json.loads(
        output([node_for("relaxed-simd"), ROOT / "tools" / "npm_package.mjs", TOOLS, folder], ROOT)
    )


@pytest.fixture(scope="module")
def artifact() -> xla_wasm.Artifact:
    module = HloModule.from_proto((ROOT / "examples" / "digits" / "digits.hlo.pb").read_bytes())
    return xla_wasm.compile(module, Options(sidecar=True))


@pytest.fixture(scope="module")
def expected(artifact: xla_wasm.Artifact) -> np.ndarray[Any, Any]:
    return xla_wasm.load(artifact).run(IMAGE)[0].ravel()


@pytest.fixture(scope="module")
def app(
    built: tuple[Path, dict[str, Any]], artifact: xla_wasm.Artifact, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A project as `npm install` and `xla-wasm compile --js` leave it."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "node_modules").mkdir()
    output(["tar", "xzf", built[0] / built[1]["package"]], folder / "node_modules")
    (folder / "node_modules" / "package").rename(folder / "node_modules" / "xla-wasm")
    (folder / "package.json").write_text('{"type": "module", "private": true, "dependencies": {"xla-wasm": "*"}}')
    javascript.write(artifact, artifact.save(folder / "model.wasm"))
    load = "import { load } from './model.js';\n"
    for name, text in {
        "main.js": load + SHOW,
        "run.mjs": load + USE + "console.log(JSON.stringify(await use()));\n",
        "index.html": HTML,
        "vite.mjs": VITE,
        "webpack.mjs": WEBPACK,
        "service.mjs": WEBPACK_SERVICE_WORKER,
        "service.js": SERVICE,
        "classic_service.js": CLASSIC_SERVICE,
        "typed.ts": TYPED,
        "served.mjs": SERVED,
        "worker.ts": WORKER_TYPED,
    }.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def site(app: Path) -> Iterator[Site]:
    with Site(folders={"/somewhere/else": app}).serving() as site:
        yield site


def check(answers: str, expected: np.ndarray[Any, Any]) -> None:
    here, *others = json.loads(answers)
    np.testing.assert_allclose(here, expected, rtol=1e-5, atol=1e-5)
    assert others == [here] * 3


def check_page(page: Page, url: str, expected: np.ndarray[Any, Any]) -> None:
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error" and "404" not in message.text:
            complaints.append(message.text)

    page.on("console", listen)
    page.goto(url)
    page.wait_for_selector("body[data-answers], body[data-error]", state="attached", timeout=30_000)
    assert page.get_attribute("body", "data-error") is None
    check(page.get_attribute("body", "data-answers") or "", expected)
    assert complaints == []


def check_service_worker(chromium: Browser, script: str, expected: np.ndarray[Any, Any]) -> None:
    with chromium.new_context(service_workers="allow") as context:
        page = context.new_page()
        page.goto(script)
        answer = page.evaluate(ASK_SERVICE_WORKER, script)
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-5)


def test_size(built: tuple[Path, dict[str, Any]]) -> None:
    """The files that every page loads have at most 8 KiB, compressed as servers do it; the worker and files that only
    some modules need come on top."""
    sizes = built[1]["gzipped"]
    assert sizes["xla_wasm.js"] + sizes["core.js"] <= 8192, sizes
    assert sizes["http/handler.js"] <= 12288 and sizes["parts.js"] <= 1024, sizes
    package = built[0] / "package"
    core = (package / "core.js").read_text()
    assert "from" not in core[: core.index(";")] and 'from"' not in core


def test_sizes_in_the_document(built: tuple[Path, dict[str, Any]]) -> None:
    """The sizes in docs/web.md are no less than those of the files, and at most a tenth more."""
    sizes = built[1]["gzipped"]
    table = (ROOT / "docs" / "web.md").read_text().partition("#### What a page fetches")[2]
    said = re.findall(r"^\| `([\w.]+)` \| ([\d.]+) KB \|", table, re.MULTILINE)
    assert {"core.js", "worker.js"} <= {name for name, _ in said}
    for name, kilobytes in said:
        assert sizes[name] <= 1000 * float(kilobytes) <= 1.1 * sizes[name], (name, sizes[name])
    (of_worker,) = re.findall(r"which fetches (\d+) KB", (ROOT / "docs" / "web.md").read_text())
    assert float(of_worker) == float(dict(said)["worker.js"])


def test_content(built: tuple[Path, dict[str, Any]]) -> None:
    description = json.loads((built[0] / "package" / "package.json").read_text())
    assert (
        description["version"] == xla_wasm.__version__
        and "dependencies" not in description
        and "scripts" not in description
    )
    names = output(["tar", "tzf", built[1]["package"]], built[0]).split()
    for target in (
        "types/xla_wasm.d.ts",
        "types/http/handler.d.ts",
        "http/handler.js",
        "parts.js",
        "xla_wasm.js",
        "standalone.js",
        "standalone.classic.js",
        "types/standalone.d.ts",
        "worker.js",
        "LICENSE",
        "README.md",
    ):
        assert f"package/{target}" in names


def test_types(app: Path) -> None:
    """A strict TypeScript program on the package and the generated declarations; wrong programs are refused."""
    tsc = [node_for("relaxed-simd"), TOOLS / "node_modules" / "typescript" / "bin" / "tsc"]
    options = "--noEmit --strict --target es2022 --lib es2022,dom".split()
    bundler = "--module esnext --moduleResolution bundler".split()
    for resolution in (bundler, ["--module", "nodenext"]):
        output([*tsc, "typed.ts", *options, *resolution], app)
    wrong = "\n".join(f"/* {name} */\n{line}" for name, line in MISTYPED.items())
    (app / "wrong.ts").write_text("import { load } from './model.js';\nconst model = await load();\n" + wrong + "\n")
    command = [*tsc, "wrong.ts", *options, *bundler]
    done = subprocess.run(command, cwd=app, capture_output=True, text=True, timeout=120)
    assert [f"wrong.ts({2 * i + 4}," in done.stdout for i in range(len(MISTYPED))] == [True] * len(MISTYPED), (
        done.stdout
    )


def test_types_of_workers(app: Path, artifact: xla_wasm.Artifact) -> None:
    """The declarations of workers, with weights and without, and the handler's."""
    javascript.save(artifact, app / "weighty.wasm", javascript.PACKAGE, "worker")
    javascript.save(
        xla_wasm.Artifact(artifact.wasm, artifact.manifest), app / "plain.wasm", javascript.PACKAGE, "worker"
    )
    head = [line for line in WORKER_TYPED.split("\n") if line.startswith("import")]
    (app / "worker_wrong.ts").write_text("\n".join([*head, *WORKER_MISTYPED]))
    tsc = [node_for("relaxed-simd"), TOOLS / "node_modules" / "typescript" / "bin" / "tsc"]
    options = (
        "--noEmit --strict --target es2022 --lib es2022,dom,dom.iterable --module esnext --moduleResolution bundler"
    ).split()
    output([*tsc, "worker.ts", *options], app)
    command = [*tsc, "worker_wrong.ts", *options]
    done = subprocess.run(command, cwd=app, capture_output=True, text=True, timeout=120)
    assert all(f"worker_wrong.ts({len(head) + 1 + i}," in done.stdout for i in range(len(WORKER_MISTYPED))), done.stdout


def runtime_command(runtime: str) -> list[Any]:
    found = (
        str(node_for("simd128"))
        if runtime == "node"
        else shutil.which(runtime, path=str(TOOLS / "runtimes" / "node_modules" / ".bin"))
    )
    assert found, f"no {runtime}: ./build.sh test installs it"
    return [found, *(["run", "--allow-read", "--no-prompt"] if runtime == "deno" else [])]


@pytest.mark.parametrize("runtime", ["node", "deno", "bun"])
def test_runtimes(runtime: str, app: Path, expected: np.ndarray[Any, Any]) -> None:
    check(output([*runtime_command(runtime), "run.mjs"], app), expected)


@pytest.mark.parametrize("runtime", ["node", "deno", "bun"])
def test_a_handler_in_runtimes(runtime: str, app: Path, expected: np.ndarray[Any, Any]) -> None:
    """The answers of a model to requests, in the standard classes that these have too."""
    said = json.loads(output([*runtime_command(runtime), "served.mjs"], app))
    for answer in (said["json"], said["filled"]):
        np.testing.assert_allclose(answer["result"][0], expected, rtol=1e-5, atol=1e-5)
    (archived,) = np.load(BytesIO(bytes(said["archive"]))).values()
    assert archived.tolist() == np.array(said["json"]["result"], np.float32).tolist()
    assert said["status"] == 400 and said["html"] is True
    assert said["paths"] == [200, 200, 200, 404, 404, 404, 404]


@pytest.mark.parametrize("bundler", ["vite", "webpack"])
def test_bundlers(bundler: str, app: Path, page: Page, site: Site, expected: np.ndarray[Any, Any]) -> None:
    """Built without a setting for wasm, workers or the package, and opened from a folder deep in a site."""
    assert (TOOLS / "bundlers" / "node_modules" / bundler).is_dir(), f"no {bundler}: ./build.sh test installs it"
    output([node_for("relaxed-simd"), f"{bundler}.mjs", TOOLS], app)
    if bundler == "webpack":
        (app / "webpack" / "index.html").write_text(HTML)
    check_page(page, f"{site.url}/somewhere/else/{bundler}/index.html", expected)


REACT = """import { createRoot } from 'react-dom/client';
import Page from './Page.jsx';

createRoot(document.getElementById('root')).render(<Page />);
"""
REACT_HTML = HTML.replace("<body>", '<body><div id="root"></div>').replace("main.js", "main.jsx")


def test_react(app: Path, tmp_path: Path, page: Page) -> None:
    """The component of docs/faq.md, built by Vite without a setting, shows what the model gives."""
    assert (TOOLS / "bundlers" / "node_modules" / "react-dom").is_dir(), "no React: ./build.sh test installs it"
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "xla-wasm").symlink_to(app / "node_modules" / "xla-wasm")
    for name in ("react", "react-dom", "scheduler"):
        (tmp_path / "node_modules" / name).symlink_to(TOOLS / "bundlers" / "node_modules" / name)
    for name in ("model.js", "model.wasm", "model.weights"):
        shutil.copy(app / name, tmp_path)
    (tmp_path / "Page.jsx").write_text(block("docs/faq.md", "jsx", 0).code)
    (tmp_path / "main.jsx").write_text(REACT)
    (tmp_path / "index.html").write_text(REACT_HTML)
    (tmp_path / "vite.mjs").write_text(VITE)
    output([node_for("relaxed-simd"), "vite.mjs", TOOLS], tmp_path)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    with Site(folders={"/": tmp_path / "vite"}).serving() as site:
        page.goto(site.url + "/index.html")
        expect(page.locator("#out")).to_have_text(re.compile(r"^-?\d"))
        shown = [float(text) for text in page.locator("#out").inner_text().split()]
    module = HloModule.from_proto((ROOT / "examples" / "digits" / "digits.hlo.pb").read_bytes())
    (zeros,) = xla_wasm.load(xla_wasm.compile(module)).run(np.zeros_like(IMAGE))
    np.testing.assert_allclose(shown, zeros.ravel(), atol=1e-5)
    assert not complaints


def test_commonjs(app: Path) -> None:
    """The lines of docs/faq.md, and those for older versions of Node."""
    required = block("docs/faq.md", "js", 1).code
    (app / "required.cjs").write_text(required)
    call = "import('xla-wasm').then(({ load }) => load('model.wasm'))"
    imported = re.sub(r"const .*\n\nload\('model\.wasm'\)", call, required)
    assert imported != required
    (app / "imported.cjs").write_text(imported)
    for name in ("required.cjs", "imported.cjs"):
        assert "name: 'image'" in output([node_for("relaxed-simd"), name], app)


def test_which_file_is_imported(app: Path) -> None:
    """By conditions that bundlers and people name; edge runtimes, which are workers too, have `import()`."""
    resolve = ["--input-type=module", "-e", "console.log(import.meta.resolve('xla-wasm'))"]
    for conditions, name in (
        ([], "xla_wasm.js"),
        (["serviceworker"], "standalone.js"),
        (["worklet"], "standalone.js"),
        (["worker"], "standalone.js"),
        (["workerd", "worker"], "xla_wasm.js"),
    ):
        named = [f"--conditions={condition}" for condition in conditions]
        assert output([node_for("relaxed-simd"), *named, *resolve], app).strip().endswith(f"/xla-wasm/{name}")


def test_what_stands_alone_imports_nothing(app: Path) -> None:
    package = app / "node_modules" / "xla-wasm"
    for name in ("standalone.js", "standalone.classic.js", "worker.js"):
        text = (package / name).read_text()
        assert not re.search(r"\bimport\(|\bfrom\"", text), name
    assert "import.meta" not in (package / "standalone.js").read_text()


def test_a_service_worker_by_webpack(app: Path, chromium: Browser, site: Site, expected: np.ndarray[Any, Any]) -> None:
    """Whose target has webpack take the file that stands alone, for a module with a sidecar."""
    output([node_for("relaxed-simd"), "service.mjs", TOOLS], app)
    check_service_worker(chromium, f"{site.url}/somewhere/else/service/worker.js", expected)


def test_a_classic_service_worker(chromium: Browser, site: Site, expected: np.ndarray[Any, Any]) -> None:
    check_service_worker(chromium, f"{site.url}/somewhere/else/classic_service.js", expected)


def test_a_classic_service_worker_in_firefox(firefox: Firefox, site: Site, expected: np.ndarray[Any, Any]) -> None:
    """The kind that every Firefox has."""
    script = f"{site.url}/somewhere/else/classic_service.js"
    tab = firefox.open(script)
    answer = tab.call(ASK_SERVICE_WORKER, script)
    tab.close()
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-5)


POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; worker-src 'self'"


def test_under_a_strict_policy(
    artifact: xla_wasm.Artifact, page: Page, tmp_path: Path, expected: np.ndarray[Any, Any]
) -> None:
    """No build step, no npm: the loader in a folder beside the model, as `--copy-loader` puts it."""
    javascript.save(artifact, tmp_path / "model.wasm")
    (tmp_path / "main.js").write_text("import { load } from './model.js';\n" + SHOW)
    (tmp_path / "index.html").write_text(HTML)
    with Site(folders={"/": tmp_path}, headers={"Content-Security-Policy": POLICY}).serving() as site:
        check_page(page, f"{site.url}/index.html", expected)


def test_from_another_origin(app: Path, page: Page, expected: np.ndarray[Any, Any]) -> None:
    """As from a content delivery network: only the page is ours, its worker included."""
    package = app / "node_modules" / "xla-wasm"
    cors = {"Access-Control-Allow-Origin": "*"}
    with Site(folders={"/npm/xla-wasm@0.1.0": package, "/models": app}, headers=cors).serving() as network:
        imports = json.dumps({"imports": {"xla-wasm": f"{network.url}/npm/xla-wasm@0.1.0/xla_wasm.js"}})
        script = f"import {{ load }} from '{network.url}/models/model.js';\n" + SHOW
        html = HTML.replace("<body>", f'<script type="importmap">{imports}</script>\n<body>')
        answers: dict[str, Answer | list[Answer]] = {
            "/": Answer(html.encode(), TYPES[".html"]),
            "/main.js": Answer(script.encode()),
        }
        with Site(answers).serving() as site:
            check_page(page, site.url + "/", expected)
