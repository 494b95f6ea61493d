"""docs/web.md tells the truth: its page is made and opened as written, its commands run, its options are those of the
loader."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import xla_wasm
from tests.support.document_blocks import loader_options
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.web_server import Site
from xla_wasm import HloModule, Options, XlaWasmError, javascript

DOCUMENT = (ROOT / "docs" / "web.md").read_text()
NAMES = """HloModule names

ENTRY main {
  a = f32[2]{0} parameter(0), metadata={op_name="it's a \\"name\\""}
  b = pred[] parameter(1), metadata={op_name="__proto__"}
  w = c64[3]{0} parameter(2), metadata={op_name="params.w"}
  d = f16[<=4]{0} parameter(3), metadata={op_name="class"}
  ROOT r = (f32[2]{0}, pred[], c64[3]{0}, f16[<=4]{0}) tuple(a, b, w, d)
}
"""


def block(language: str, number: int = 0) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    return str(found[number])


def test_from_a_function_to_a_page(page: Page, tmp_path: Path) -> None:
    python, html = block("python"), block("html")
    code = [line for line in python.splitlines() if line] + [
        line for line in html.splitlines() if line.startswith("  ")
    ]
    assert len(code) <= 10
    output([sys.executable, "-c", python], tmp_path)
    (tmp_path / "site" / "index.html").write_text(html)
    with Site(folders={"/": tmp_path / "site"}).serving() as site:
        page.goto(site.url + "/index.html")
        expect(page.locator("#out")).to_have_text("3 ± 1.414")
    (tmp_path / "run.mjs").write_text(
        block("js").replace("'xla-wasm'", "'./site/xla-wasm/xla_wasm.js'") + "console.log(mean[0], spread[0]);\n"
    )
    shutil.copy(tmp_path / "site" / "model.wasm", tmp_path)
    assert output([node_for("simd128"), "run.mjs"], tmp_path).startswith("3 1.414")


def test_commands(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "site").mkdir()
    shutil.copy(ROOT / "examples" / "digits" / "digits.hlo.pb", tmp_path / "model.hlo.pb")
    for line in re.findall(r"^\$ xla-wasm ([^#\n]*)", block("console"), re.MULTILINE):
        output([sys.executable, "-m", "xla_wasm", *shlex.split(line)], tmp_path)
    assert (tmp_path / "site" / "xla-wasm" / "limits" / "slices.js").is_file() and (
        tmp_path / "src" / "model.weights"
    ).is_file()
    assert "from './xla-wasm/xla_wasm.js'" in (tmp_path / "site" / "model.js").read_text()
    assert "from 'xla-wasm'" in (tmp_path / "src" / "model.js").read_text()
    command = [sys.executable, "-m", "xla_wasm", "compile", "model.hlo.pb", "--loader", "a"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "--js" in done.stderr


def test_options() -> None:
    """Every option of the loader is in the document, and in the package's README."""
    for option in loader_options():
        assert f"`{option}" in DOCUMENT, option
        assert f"`{option}" in (ROOT / "web" / "README.md").read_text() or option == "physical", option


def test_generated_names(tmp_path: Path) -> None:
    """Names that JavaScript would trip over; types that it lacks; weights from a sidecar and from elsewhere."""
    module = HloModule.from_text(NAMES)
    artifact = xla_wasm.compile(module, Options(weights=("params.w",)))
    artifact = xla_wasm.Artifact(artifact.wasm, artifact.manifest, b"12")
    javascript.save(artifact, tmp_path / "a model.wasm")
    script = (tmp_path / "a model.js").read_text()
    assert (
        "[module ? [] : beside(() => new URL('./a%20model.weights', import.meta.url)), options?.weights ?? []].flat()"
        in script
    )
    print_names = (
        "import { inputs } from './a model.js';\nconsole.log(Object.keys(inputs).join('|'), "
        "Object.hasOwn(inputs, '__proto__'));\n"
    )
    (tmp_path / "names.mjs").write_text(print_names)
    assert output([node_for("simd128"), "names.mjs"], tmp_path) == 'it\'s a "name"|__proto__|class true\n'
    types = javascript.declarations(artifact, "./xla-wasm/xla_wasm.js")
    for line in (
        "/** c64[3], pairs of (real, imaginary) */\n  'params.w': Float32Array;",
        "/** f16[<=4] */\n  class: (Uint16Array) & { shape?: number[] };",
        "readonly shape: readonly [2] };",
        "/** pred[] */\n  ['__proto__']: Uint8Array | number;",
    ):
        assert line in types, types


def test_the_loader_names_what_python_does() -> None:
    """Each error class of the loader is one of Python's."""
    for name in re.findall(r"export class (\w+)", (ROOT / "web" / "errors.js").read_text()):
        assert issubclass(getattr(xla_wasm, name), XlaWasmError)


@pytest.mark.parametrize("element_type", sorted(javascript.TYPED_ARRAY_OF))
def test_array_types(element_type: str) -> None:
    """The array that the declarations name is as wide as an element of it."""
    from xla_wasm.host.arrays import dtype_of

    array = javascript.TYPED_ARRAY_OF[element_type]
    bits = int(re.findall(r"\d+", array)[0]) * (2 if element_type[0] == "c" else 1)
    assert np.dtype(dtype_of(element_type)).itemsize * 8 == bits
