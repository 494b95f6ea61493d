"""The site of the pages: its files, the modules that its pages run, and the whole of it as static files."""

from __future__ import annotations

import base64
import functools
import html
import json
import re
import shutil
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from .. import files
from ..compiler import compile
from ..dataclass import dataclass, replace
from ..errors import XlaWasmError
from ..hlo import signature
from ..hlo.ir import Module
from ..options import Options
from ..target import RELAXED_SIMD, TARGETS, V8
from . import collectives, minilm, peak
from .bundle import bundle
from .explain import Workbench

_PACKAGE = Path(__file__).parents[1]
_CHECKOUT = _PACKAGE.parent


@dataclass(frozen=True)
class Model:
    """A module of an example that a page runs: its folder, its name there and in the page's folder, how it is
    compiled."""

    folder: str
    name: str
    options: Options = Options()
    trains: bool = False
    """True if each parameter with the name of a result is state, which the result replaces."""

    @property
    def source(self) -> Path:
        """The file with the HLO: beside the page in an installed package, among the examples in a checkout."""
        installed = _PACKAGE / "web" / "demo" / self.folder / f"{self.name}.hlo.pb"
        return installed if installed.is_file() else _CHECKOUT / "examples" / self.folder / f"{self.name}.hlo.pb"

    def path(self, target: str) -> str:
        """Returns the path that the site has it at."""
        return _path(self.folder, self.name, target)


def _path(folder: str, name: str, target: str) -> str:
    return f"/demo/{folder}/{name}{'.relaxed' if target == RELAXED_SIMD else ''}.wasm"


MODELS = (
    Model("digits", "digits"),
    Model("digits", "initial"),
    Model("digits", "step", trains=True),
    Model("digits", "classify", Options(weights="params")),
    *(Model("workers", f"step-{n}", trains=True) for n in range(1, collectives.MOST + 1)),
    Model("generate", "initial"),
    Model("generate", "step", Options(tune=V8, threads=True), trains=True),
    Model("generate", "write", Options(tune=V8, weight_format=(("weights.*", "f32"),)), trains=True),
    *(
        Model("generate", name, Options(tune=V8, threads=True, weight_format=(("weights.*", "int8"),)), trains=True)
        for name in ("tiny", "distil", "small")
    ),
    *(Model("performance", name, Options(tune=V8, weights="w")) for name in ("digits", "encoder", "conv", "decode")),
)

_TO_THE_PAGES = (
    '<!doctype html><meta charset="utf-8"><title>xla_wasm</title><meta http-equiv="refresh" content="0; url=demo/">\n'
)
_MARK = b"<!-- the demo pages -->"
"""Stands in the front page of the documents, where a site with pages links them."""
_TO_THE_DEMO = (
    b'<p><a class="md-button md-button--primary" href="../demo/">Try it in the pages</a> Draw a digit, train a writer, '
    b"compile HLO.</p>"
)
_SOURCE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} · xla_wasm</title>
<link rel="stylesheet" href="../demo/style.css">
</head>
<body>
<header class="top"><a class="brand" href="../demo/"><span class="mark" aria-hidden="true"></span>xla_wasm</a></header>
<main><pre class="source">{text}</pre></main>
</body>
</html>
"""
_compiling = threading.Lock()


def site() -> Path:
    """The folder of the pages: `web` inside an installed package, or in a checkout."""
    installed = _PACKAGE / "web"
    return installed if installed.is_dir() else _CHECKOUT / "web"


def pyodide() -> Path:
    """The folder with Pyodide and the wheel, at /pyodide/ of the site: inside it, or where `./build.sh pyodide` makes
    it."""
    inside = site() / "pyodide"
    return inside if inside.is_dir() else _CHECKOUT / "dist" / "pyodide"


def peers() -> Path:
    """The folder at /peers/ of the site with the libraries that race on the page of figures, which `./build.sh serve`
    and `site` make; a package has none."""
    return _CHECKOUT / "dist" / "peers"


def documents() -> Path:
    """The folder with the documents, at /docs/ of the site: as `./build.sh docs` renders them in a checkout, or their
    sources."""
    rendered = _CHECKOUT / "dist" / "docs"
    return rendered if rendered.is_dir() else _sources()


def _sources() -> Path:
    inside = site() / "docs"
    return inside if inside.is_dir() else _CHECKOUT / "docs"


def _document(name: str) -> bytes | None:
    """Returns a page of the documents: a rendered one, whose front page leads to the pages here, or the source as it
    is, in a page of this site; None where there is none of this name."""
    rendered = documents() / f"{name}.html"
    if rendered.is_file():
        return rendered.read_bytes().replace(_MARK, _TO_THE_DEMO)
    source = _sources() / f"{'README' if name == 'index' else name}.md"
    if name == "index" and not source.is_file():
        source = _CHECKOUT / "README.md"
    if not source.is_file():
        return None
    text = html.escape(source.read_text(encoding="utf-8"))
    # A link from one document to another, in the way that code hosts understand.
    text = re.sub(r"\]\((?:docs/)?(\w+)\.md(#[\w-]*)?\)", r'](<a href="\1.html">\1.md\2</a>)', text)
    return _SOURCE.format(name=name, text=text).encode()


@functools.cache
def compiled(model: Model, target: str) -> bytes:
    """The module that the site has for a target."""
    module = Module.from_proto(model.source.read_bytes())
    results = {name for name, _ in signature.result_leaves(module)}
    state = (
        tuple((name, name) for name, _ in signature.parameter_leaves(module) if name in results) if model.trains else ()
    )
    return compile(module, replace(model.options, target=target, state=state)).wasm


@functools.cache
def _collective(program: collectives.Collective) -> bytes:
    return compile(program.module(), program.options).wasm


def _links() -> bytes:
    """The addresses that the package was published with, by their names in its metadata ("Repository"), as JSON."""
    try:
        given = metadata.metadata("xla-wasm").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        given = []
    pairs = [item.partition(", ")[::2] for item in given]
    return json.dumps({name: url for name, url in pairs if url.startswith("https://")}).encode()


@functools.cache
def _compiled_example(source: Path) -> bytes:
    """Returns the JSON that the playground shows of an example before its own compiler is there: the result of
    `explain`, and the module."""
    bench = Workbench(source.read_text(encoding="utf-8"))
    wasm = bench.compile().wasm
    return json.dumps({"explained": bench.explain(), "wasm": base64.b64encode(wasm).decode()}).encode()


def _worker() -> bytes:
    """Returns the script of the page's workers: the loader's, but for what starts workers."""
    script = site() / "demo" / "workers" / "worker.js"
    return bundle(script, site(), without=("remote.js", "devices/replicated.js")).encode()


def _race() -> bytes:
    """Returns the libraries that race on the page of figures, and the operations of a run of the module that only
    multiplies and adds, as JSON."""
    about = peers() / "peers.json"
    libraries = json.loads(about.read_text(encoding="utf-8")) if about.is_file() else {}
    return json.dumps({"operations": peak.OPERATIONS, "peers": libraries}).encode()


def _finished_writer() -> bytes:
    """Returns the weights of the module `tiny` of Generate, which the example of GPT-2 ships."""
    installed = _PACKAGE / "web" / "demo" / "generate" / "tiny.safetensors"
    return (installed if installed.is_file() else _CHECKOUT / "examples" / "gpt2" / "tiny.safetensors").read_bytes()


_PLACES: dict[str, Callable[[], bytes]] = {
    "/demo/links.json": _links,
    "/demo/generate/tiny.safetensors": _finished_writer,
    "/demo/performance/race.json": _race,
    "/demo/workers/worker.js": _worker,
    **{_path("performance", "peak", target): functools.partial(peak.peak_module, target) for target in TARGETS},
    **{model.path(target): functools.partial(compiled, model, target) for model in MODELS for target in TARGETS},
    **{
        f"/demo/workers/collectives/{program.name}.wasm": functools.partial(_collective, program)
        for program in collectives.PROGRAMS
    },
    **{
        f"/demo/playground/examples/{source.stem}.json": functools.partial(_compiled_example, source)
        for source in sorted((site() / "demo" / "playground" / "examples").glob("*.hlo"))
    },
}


def made(path: str) -> bytes | None:
    """The content of a file that is made when it is asked for; None where the path names none."""
    name = path.rpartition("/")[2]
    if document := re.fullmatch(r"/docs/(\w+)\.html", path, re.ASCII):
        return _document(document[1])
    with _compiling:
        if path in _PLACES:
            return _PLACES[path]()
        if name in minilm.FILES:
            return minilm.files()[name]
    return None


def write(folder: Path) -> list[str]:
    """Writes the site as static files for any host; what had to be left out, and why."""
    left_out = shutil.ignore_patterns("package*.json", "*.hlo.pb", "pyodide")
    shutil.copytree(site(), folder, dirs_exist_ok=True, ignore=left_out, copy_function=files.copy)
    files.write(folder / "index.html", _TO_THE_PAGES)
    missing = []
    for path in _PLACES:
        file = folder / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write(file, made(path) or b"")
    try:
        for name in minilm.FILES:
            files.write(folder / "demo" / "search" / name, made(f"/demo/search/{name}") or b"")
    except XlaWasmError as error:
        missing.append(f"the model of the search page: {error}")
    shutil.copytree(documents(), folder / "docs", dirs_exist_ok=True, copy_function=files.copy)
    names = {source.stem for source in _sources().glob("*.md")} - {"README"} | {"index"}
    for name in names:
        files.write(folder / "docs" / f"{name}.html", _document(name) or b"")
    if pyodide().is_dir():
        shutil.copytree(pyodide(), folder / "pyodide", dirs_exist_ok=True, copy_function=files.copy)
    else:
        missing.append("Pyodide, which the playground needs: ./build.sh pyodide makes it")
    if peers().is_dir():
        shutil.copytree(peers(), folder / "peers", dirs_exist_ok=True, copy_function=files.copy)
    else:
        missing.append("the libraries that xla_wasm races with: ./build.sh site fetches them")
    return missing
