"""The documentation as a site: it builds, all pages are in the navigation, links lead somewhere, and tests run all
blocks of code."""

from __future__ import annotations

import ast
import html
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import griffe
import pytest
from playwright.sync_api import Browser
from typer.main import get_command

import xla_wasm
from tests.documents.test_documents import COMMANDS, EXAMPLES, PYTHON
from tests.support.browsing import SCREENSHOTS, WAIT, served
from tests.support.document_blocks import FENCE, GENERATED, Block, blocks, loader_options, navigation, written
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm.command import cli


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `./build.sh docs` writes it."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    node = Path(node_for("simd128")).parent
    paths = {"PATH": f"{node}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    output(command, ROOT, paths)
    return folder


# --- pages and links
# ----------------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation() -> None:
    listed = navigation()
    assert len(listed) == len(set(listed))
    assert {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} <= set(listed)
    examples = [path for path in (ROOT / "examples").rglob("README.md") if "node_modules" not in path.parts]
    assert {path.relative_to(ROOT).as_posix() for path in examples} <= set(listed)
    assert {f"{GENERATED}{name}.md" for name in ("python", "javascript", "command")} <= set(listed)


TAG = re.compile(r"<(a|link|script|img|source|iframe)\b([^>]*)>")
ADDRESS = re.compile(r"\b(?:href|src)=(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))")
ID = re.compile(r"\b(?:id|name)=(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))")


def broken(folder: Path) -> Iterator[str]:
    """Yields the faults of a site's links: those that lead nowhere, and fetches from elsewhere."""
    pages = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    anchors = {path: {html.unescape("".join(groups)) for groups in ID.findall(text)} for path, text in pages.items()}
    for path, text in pages.items():
        where = path.relative_to(folder).as_posix()
        if where == "404.html":
            continue  # which is shown at any address
        for tag, attributes in TAG.findall(text):
            for groups in ADDRESS.findall(attributes):
                address = urlsplit(html.unescape("".join(groups)))
                if address.scheme == "data":
                    continue
                if address.scheme or address.netloc:
                    if tag != "a":
                        yield f"{where} fetches {address.geturl()}"
                    continue
                target = (path.parent / unquote(address.path)).resolve() if address.path else path
                target = target / "index.html" if target.is_dir() else target
                if not target.is_file():
                    yield f"{where} links to {address.geturl()}, which is not there"
                elif address.fragment and target in anchors and unquote(address.fragment) not in anchors[target]:
                    yield f"{where} links to {address.geturl()}, where there is no such heading"


def test_links_lead_somewhere_and_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > len(navigation())
    assert list(broken(site)) == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"(url\(|@import)[\"' ]*(https?:)?//", styles)


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="x">A</h1><a href="b.html#y">1</a><a href=#x>2</a><a href="c.html">3</a><script src="https://x/y.js">'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#x">1</a><a href="https://example.org/">2</a>')
    assert sorted(line.split(",")[0] for line in broken(tmp_path)) == [
        "a.html fetches https://x/y.js",
        "a.html links to b.html#y",
        "a.html links to c.html",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_searched_and_ask_nobody_else(
    scheme: Literal["light", "dark"], site: Path, chromium: Browser
) -> None:
    complaints: list[str] = []
    with served(site, isolated=False) as address, chromium.new_context(color_scheme=scheme) as context:
        page = context.new_page()
        page.on(
            "request",
            lambda request: request.url.startswith((address, "data:", "blob:")) or complaints.append(request.url),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.goto(f"{address}/tutorial.html")
        assert page.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
        box, found = page.locator("input.md-search__input"), page.locator(".md-search-result__meta")
        expires = time.monotonic() + WAIT / 1000
        while not re.fullmatch(
            r"\d+ matching documents", found.inner_text()
        ):  # what is typed before the index is there is not heard
            assert time.monotonic() < expires, found.inner_text()
            box.fill("")
            box.press_sequentially("weight format")
            page.wait_for_timeout(300)
        box.press("Escape")
        page.screenshot(path=SCREENSHOTS / f"docs-{scheme}.png")
    assert complaints == []


ASKED = (
    "KV cache, service worker, extension, MV3, AudioWorklet, Next.js, React, NaN, Spin, CommonJS, require, WebGPU, "
    "temperature, streaming, PyTorch, 1,000 users"
).split(", ")
"""The words that people look for."""


def test_what_people_look_for_is_found(site: Path) -> None:
    """A heading has each word, so that the search shows it first."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    headings = [html.unescape(re.sub(r"<[^>]+>", "", entry["title"])) for entry in index["docs"]]
    missing = [word for word in ASKED if not any(word.lower() in heading.lower() for heading in headings)]
    assert not missing


# --- the reference
# ------------------------------------------------------------------------------------------------------------


def test_the_reference_has_everything_that_is_public(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    import python_reference

    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in {*xla_wasm.__all__} - {"__version__"}:
        assert f'id="xla_wasm.{name}"' in python, name
    for name in ("Options.weights", "Executable.run", "Artifact.save", "HloModule.from_bytes", "jax.lower"):
        assert f'id="xla_wasm.{name}"' in python, name
    for name in (name for group in python_reference.names().values() for name in group):
        assert f'id="{name}"' in python, name
    command = html.unescape((site / "reference" / "command.html").read_text(encoding="utf-8"))
    for name, inner in get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        assert f'id="xla-wasm-{name}"' in command
        for option in inner.params:
            assert option.hidden or option.param_type_name == "argument" or option.opts[-1] in command, (
                name,
                option.opts,
            )
    javascript = (site / "reference" / "javascript.html").read_text(encoding="utf-8")
    loader = (ROOT / "web" / "xla_wasm.js").read_text(encoding="utf-8")
    exported = [
        name.strip() for names in re.findall(r"^export \{(.*?)\}", loader, re.MULTILINE) for name in names.split(",")
    ]
    for name in [*exported, "LoadOptions", "Queue", "handler", "joined", "runReplicated"]:
        assert f'id="{name.lower()}"' in javascript, name
    for option in loader_options():
        assert f"<code>{option}?</code>" in javascript, option


def test_the_reference_shows_types_and_signatures_in_lines(site: Path) -> None:
    """No attribute has itself as its value, and no signature is longer than the page is wide."""
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    codes = [html.unescape(re.sub(r"<[^>]+>", "", code)).strip() for code in re.findall(r"<pre>.*?</pre>", text, re.S)]
    assert len(codes) > 80
    assert [code for code in codes if (found := re.match(r"(\w+) = (.*)", code)) and found[1] in found[2]] == []
    assert "computations: list[Computation]" in codes and "manifest: dict[str, Any]" in codes
    assert max(len(line) for code in codes for line in code.splitlines()) <= 88
    assert "ruff" in "".join(re.findall(r"^docs = .*", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))


def test_every_public_field_says_what_it_is() -> None:
    """In a docstring of its own, or in a line of its class's."""
    package = griffe.load("xla_wasm", search_paths=[ROOT])
    places = (
        "hlo.ir.Module",
        "artifact.Artifact",
        "options.Options",
        "host.executor.Executable",
        "safetensors.Tensor",
        "jax.jitted.Stats",
    )
    for place in (*places, "jax.jitted.Jitted"):
        for name, member in package[place].members.items():
            told = member.docstring or f"`{name}`" in package[place].docstring.value
            assert name.startswith("_") or told, f"{place}.{name}"


# --- blocks of code
# -----------------------------------------------------------------------------------------------------------

RUN = {
    "docs/life.md console": "documents/test_life.py test_stages",
    "README.md python": "package/test_package.py test_readme_example_runs",
    "README.md console 1": "documents/test_documents.py test_commands",
    "README.md js": "documents/test_documents.py test_javascript",
    "docs/builder.md python": "builder/test_xla_builder.py test_the_examples_of_the_page_hold",
    "docs/command.md console": "documents/test_documents.py test_commands",
    "docs/command.md js": "documents/test_documents.py test_javascript",
    "docs/custom_calls.md python": "ops/test_custom_calls.py test_the_document",
    "docs/custom_calls.md js": "ops/test_custom_calls.py test_the_document",
    "docs/embedding.md console": "documents/test_documents.py test_commands",
    "docs/embedding.md json": "documents/test_embedding_document.py test_the_example",
    "docs/embedding.md python": "documents/test_embedding_document.py test_the_host_on_digits",
    "docs/host_io.md python": "host/test_feeds.py test_the_document",
    "docs/host_io.md js": "host/test_feeds.py test_the_document",
    "docs/command_line.md console": "command/test_cli_data.py test_the_document",
    "docs/command_line.md sh": "command/test_cli_data.py test_bash_completes",
    "docs/faq.md python 0": "documents/test_documents.py test_a_cache_of_keys_and_values",
    "docs/faq.md jsx": "package/test_npm.py test_react",
    "docs/faq.md js 1": "package/test_npm.py test_commonjs",
    "docs/jax.md python": "documents/test_jax_document.py test_the_program_runs",
    "docs/python.md python": "host/test_closing.py test_the_document",
    "docs/models.md python": "documents/test_models.py test_sections_run",
    "docs/models.md html": "documents/test_models.py test_frameworks_from_the_model_to_the_page",
    "docs/replicas.md python 0": "passes/test_shard_map.py test_the_document",
    "docs/replicas.md python 2": "passes/test_shard_map.py test_the_document",
    "docs/replicas.md js": "documents/test_documents.py test_javascript",
    "docs/replicas.md sh 0": "documents/test_documents.py test_commands",
    "docs/security.md python": "documents/test_documents.py test_python",
    "docs/security.md js": "documents/test_documents.py test_javascript",
    "docs/serving.md python": "documents/test_serving_document.py test_the_example_runs_as_it_is_written",
    "docs/serving.md json": "documents/test_serving_document.py test_signature_and_error_are_what_the_server_gives",
    "docs/state.md python": "documents/test_documents.py test_weights_states_and_loops",
    "docs/state.md js": "documents/test_documents.py test_weights_states_and_loops",
    "docs/threads.md python": "host/test_threads.py test_the_document",
    "docs/threads.md js": "documents/test_documents.py test_javascript",
    "docs/tutorial.md python": "documents/test_documents.py test_the_tutorial",
    "docs/tutorial.md js": "documents/test_documents.py test_the_tutorial",
    "docs/tutorial.md html": "documents/test_documents.py test_the_tutorial",
    "docs/tutorial.md console": "documents/test_documents.py test_the_tutorial",
    "docs/web.md python": "documents/test_web_document.py test_from_a_function_to_a_page",
    "docs/web.md html": "documents/test_web_document.py test_from_a_function_to_a_page",
    "docs/web.md console 0": "documents/test_web_document.py test_commands",
    "docs/web.md console 1": "documents/test_documents.py test_commands",
    "docs/web.md js 0": "documents/test_web_document.py test_from_a_function_to_a_page",
    "docs/web.md js 1": "documents/test_documents.py test_javascript",
    "docs/web.md js 2": "documents/test_documents.py test_javascript",
    "docs/web.md js 3": "documents/test_documents.py test_javascript",
    "docs/web.md js 4": "web/test_worker.py test_the_documents",
    "docs/web.md js 5": "documents/test_documents.py test_javascript",
    "docs/web.md console 2": "web/test_worker_kinds.py test_the_documents",
    "docs/web.md json": "examples/test_extension.py test_the_document",
    "docs/web.md js 6": "web/test_worker_kinds.py test_the_documents",
    "docs/web.md js 7": "web/test_worker_kinds.py test_the_documents",
    "docs/web.md js 8": "web/test_worker_kinds.py test_the_documents",
    "docs/web.md js 9": "web/test_worker_kinds.py test_the_documents",
    "docs/weight_formats.md python": "host/test_safetensors.py test_the_document",
    "examples/audio/README.md console": "examples/test_audio.py test_the_echo",
    "examples/embedding/README.md sh": "examples/test_embedding.py test_the_readme",
    "examples/extension/README.md console": "examples/test_extension.py test_both_read_a_digit",
    "examples/worker/README.md console 1": "web/test_worker.py test_the_documents",
    "examples/worker/README.md console 2": "web/test_worker.py test_the_documents",
    "web/README.md js": "documents/test_documents.py test_javascript",
}
"""The blocks of each page, all of a language or one of them, and the test that runs them."""

NOT_RUN = {
    "README.md console 0": "the project's own commands, which install and run the tests; test_package.py looks "
    "whether they are there",
    "docs/contributing.md console": "it installs, tests or serves the project itself",
    "docs/faq.md js 0": "it needs Next.js, 300 MB; test_npm.py builds the component for it with Vite",
    "docs/faq.md python 1": "it needs torch, 300 MB and CUDA's libraries; test_models.py runs a program that torchax "
    "wrote, test_jax_document.py compiles exports of JAX",
    "docs/host_io.md console": "M stands for a program of the reader; test_cli.py runs one with these options",
    "docs/performance.md console": "it times everything for half an hour; test_benchmark_suite.py runs the suite's "
    "parts",
    "docs/replicas.md python 1": "it needs four devices of JAX; test_partitioned.py compiles what XLA's partitioner "
    "makes there",
    "docs/replicas.md sh 1": "it installs MPI; test_mpi.py runs the command under mpiexec",
    "docs/serving.md console 0": "it installs the extra; test_serve_process.py runs the command, and the example asks "
    "the server",
    "docs/serving.md console 1": "a synopsis; test_serving_document.py compares its options with the command's",
    "docs/serving.md console 2": "it serves until it is ended; test_serve_batches.py has batches with a deadline",
    "docs/serving.md console 3": "wasmtime serve has a fixed port; test_server.py runs such components, "
    "benchmarks.edge this command",
    "docs/tutorial.md console 0": "it builds and installs the wheel, as test_package.py does",
    "examples/generate/README.md sh": "it installs JAX and writes the page's modules anew; test_generate_page.py runs "
    "these",
    "examples/gpt2/README.md sh": "half a minute, or files of 500 MB; test_gpt2.py runs the model, the sampling and "
    "generate.mjs",
    "examples/worker/README.md console 0": "it fetches wrangler; test_worker.py runs the worker under workerd, "
    "bundled by wrangler",
    "examples/worker/README.md console 3": "the weights are 45 MB of a package; test_worker_models.py asks such a "
    "worker",
    "examples/worker/README.md console 4": "it needs an account at the platform",
}
"""The blocks that no test runs as they are written, each with the reason, and where there is one the test that comes
nearest."""

SHOWN = {"", "text"}
"""Languages of blocks that are nothing to run: output, formulas, headers."""


def of(key: str) -> list[Block]:
    """The blocks that an entry of the tables is about."""
    page, language, *number = key.split(" ")
    return [block for block in blocks(page) if block.language == language and number in ([], [str(block.number)])]


def test_every_block_of_code_is_run_or_says_why_not() -> None:
    known = {block for key in (*RUN, *NOT_RUN) for block in of(key)}
    for block in (block for page in written() for block in blocks(page) if block.language not in SHOWN):
        assert block in known, (
            f"{block.page}:{block.line}: no test runs this block; tests/documents/test_docs_site.py has the table "
            f"({block.place})"
        )
    for key in (*RUN, *NOT_RUN):
        assert of(key), f"there is no block {key!r}"
    both = [block.place for key in NOT_RUN for block in of(key) if any(block in of(run) for run in RUN)]
    assert both == ["docs/tutorial.md console 0"], "all but the first of its commands are run"


@pytest.mark.parametrize("page", written())
def test_blocks_have_fences(page: str) -> None:
    """Code that is only indented has no language, so nobody would know whether to run it."""
    prose = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    assert not re.search(r"\n\n    (?! *[-*\d])", prose)


@pytest.mark.parametrize("key", RUN)
def test_the_tests_that_run_blocks_are_there(key: str) -> None:
    """And read the page."""
    file, name = RUN[key].split()
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert any(isinstance(node, ast.FunctionDef) and node.name == name for node in ast.parse(text).body)
    page = Path(key.split()[0]).name
    assert page in text
    places = {"test_javascript": EXAMPLES, "test_commands": COMMANDS, "test_python": PYTHON}.get(name)
    assert file != "documents/test_documents.py" or places is None or all(block.place in places for block in of(key))


def test_commands_are_copied_without_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    import pages

    text = "Then:\n\n```console\n$ a b \\\n  c  # d\n$ e\nprinted\n\nmore\n$ f\n```\n\n```sh\n$ g\n```\n"
    assert pages.rewritten(text, "index.md") == (
        "Then:\n\n```sh\na b \\\n  c  # d\ne\n```\n```text\nprinted\n\nmore\n```\n```sh\nf\n```\n\n```sh\n$ g\n```\n"
    )


def test_links_of_the_repository_become_those_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pages outside of docs/, of folders and of files; code stays as it is."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    import pages

    code = "`[b](docs/web.md)`\n\n```md\n[g](docs/web.md)\n```\n"
    text = f"[a](docs/web.md#time) [c](examples/gpt2) [d](LICENSE) [e](https://x.y/z) [f](#top) {code}"
    assert pages.rewritten(text, "index.md") == text.replace("[a](docs/web.md#time)", "[a](web.md#time)").replace(
        "(examples/gpt2)", "(examples/gpt2/README.md)"
    ).replace("(LICENSE)", "(files/LICENSE.md)")
    assert pages.rewritten("[a](../README.md) [b](limits.md)", "web.md") == "[a](index.md) [b](limits.md)"
    assert pages.rewritten("[a](../../docs/web.md) [b](c/host.c)", "examples/embedding/README.md") == (
        "[a](../../web.md) [b](../../files/examples/embedding/c/host.c.md)"
    )
