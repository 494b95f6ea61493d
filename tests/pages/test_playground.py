"""The playground in Chromium: Pyodide compiles in the page, and somebody pastes, drops, points, runs and makes
mistakes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from playwright.sync_api import Browser, Page, expect

import xla_wasm
from tests.support.browsing import SCREENSHOTS, served
from tests.support.firefox import Firefox
from tests.support.once import pyodide_folder
from tests.support.paths import ROOT
from tests.support.webkit import WebKit
from xla_wasm.errors import XlaWasmError
from xla_wasm.jax import lower
from xla_wasm.site import pages
from xla_wasm.site.explain import Workbench, failure

EXAMPLES = ROOT / "web" / "demo" / "playground" / "examples"
MODEL = ROOT / "examples" / "digits" / "digits.hlo.pb"
DOUBLE = "HloModule twice\n\nENTRY main {\n  x = f32[3] parameter(0)\n  ROOT y = f32[3] add(x, x)\n}\n"
FOREVER = """HloModule forever
go { s = (s32[]) parameter(0)
  ROOT yes = pred[] constant(true) }
on { s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[]) tuple(j) }
ENTRY main {
  zero = s32[] constant(0)
  begin = (s32[]) tuple(zero)
  ROOT end = (s32[]) while(begin), condition=go, body=on
}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from xla_wasm.site import serve

    folder = pyodide_folder(tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch, served() as address:
        patch.setattr(serve, "pyodide", lambda: folder)
        yield address


FETCHED: list[Any] = []
"""Requests of the pages that `opened` opened."""


def opened(chromium: Browser, site: str, complaints: list[str], **options: Any) -> Page:
    """The playground, with the first example compiled and run; what it asks of others and reports as errors goes to
    `complaints`."""
    page = chromium.new_context(**{"viewport": {"width": 1400, "height": 1000}} | options).new_page()
    page.on("request", lambda r: r.url.startswith((site, "data:", "blob:")) or complaints.append(f"request to {r.url}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: m.type == "error" and complaints.append(m.text))
    page.on("requestfinished", lambda request: FETCHED.append(request))
    page.goto(f"{site}/demo/playground/")
    page.wait_for_selector("body[data-state=compiled][data-run=done][data-ready=true]", timeout=90_000)
    return page


@pytest.fixture(scope="module")
def shared(chromium: Browser, site: str) -> Iterator[Page]:
    """One page for all tests: Pyodide takes seconds to start."""
    complaints: list[str] = []
    page = opened(chromium, site, complaints)
    yield page
    page.context.close()
    assert not complaints, complaints[:3]


def done(page: Page) -> None:
    expect(page.locator("body")).to_have_attribute("data-state", "compiled", timeout=30_000)
    expect(page.locator("body")).to_have_attribute("data-run", "done", timeout=30_000)


def paste(page: Page, text: str) -> None:
    """Replaces what is in the editor and compiles it with the keyboard."""
    page.locator("#source").fill(text)
    page.keyboard.press("Control+Enter")


def shoot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"playground-{name}.png", full_page=True)


def test_it_starts_with_an_example(shared: Page) -> None:
    expect(shared.locator("#says")).to_contain_text("Compiled beforehand. The compiler is here now")
    shared.get_by_role("button", name="Compile").click()
    expect(shared.locator("#says")).to_contain_text("Compiled in", timeout=30_000)
    done(shared)
    assert shared.locator(".node").count() == 16
    assert shared.locator("#kernels tbody tr").count() == 1
    assert shared.locator(".pane").count() == 4
    expect(shared.locator("#timing")).to_contain_text("a run, the best of")
    # This copy of Pyodide has no NumPy, and a result that is compared with nothing says nothing of it.
    expect(shared.locator("#reference")).to_be_empty()
    expect(shared.locator("#compare")).to_contain_text("xla-wasm check")
    shoot(shared, "light")


def test_what_it_fetches(shared: Page) -> None:
    """At most 12 MB, and of Python's files only what it starts from."""
    sizes = {r.url.rpartition("/")[2]: r.sizes()["responseBodySize"] for r in FETCHED if not r.url.startswith("blob:")}
    assert sizes["snapshot.bin.zst"] > 1e6 and sizes["pyodide.asm.mjs"] < 4e5
    assert sum(sizes.values()) <= 12e6, sizes
    assert not {"pyodide.asm.wasm", "python_stdlib.zip"} & sizes.keys() and not any(n.endswith(".whl") for n in sizes)


@pytest.mark.parametrize("name", [path.stem for path in sorted(EXAMPLES.glob("*.hlo"))])
def test_every_example_runs(shared: Page, name: str) -> None:
    """The file that the page gives away is CPython's, byte for byte."""
    shared.select_option("#example", name)
    expect(shared.locator("#source")).to_have_value((EXAMPLES / f"{name}.hlo").read_text())
    module = xla_wasm.HloModule.from_text((EXAMPLES / f"{name}.hlo").read_text())
    expect(shared.locator("#download")).to_have_attribute("download", f"{module.name}.wasm", timeout=30_000)
    done(shared)
    with shared.expect_download() as download:
        shared.locator("#download").click()
    wasm = download.value.path().read_bytes()
    expected = xla_wasm.compile(module)
    assert hashlib.sha256(wasm).digest() == hashlib.sha256(expected.wasm).digest()
    assert shared.locator("#outputs .result").count() == len(expected.manifest["results"])
    assert shared.locator("#inputs .input").count() == len(expected.manifest["parameters"])
    shoot(shared, name)


def test_paste_compile_and_run_on_own_values(shared: Page) -> None:
    paste(shared, DOUBLE)
    expect(shared.locator("#download")).to_have_attribute("download", "twice.wasm", timeout=30_000)
    done(shared)
    shared.locator("#inputs select").select_option("own")
    shared.locator("#inputs textarea").fill("[1, 2.5, -3]")
    shared.get_by_role("button", name="Run", exact=True).click()
    expect(shared.locator("#outputs pre")).to_have_text("[2, 5, -6]")
    expect(shared.locator("#outputs canvas")).to_have_attribute("width", "3")
    shared.locator("#inputs textarea").fill("[1, 2]")
    shared.get_by_role("button", name="Run", exact=True).click()
    expect(shared.locator("#run-error")).to_contain_text("argument 0 ('x') must be f32[3]")
    shared.locator("#inputs textarea").fill("one, two")
    shared.get_by_role("button", name="Run", exact=True).click()
    expect(shared.locator("#run-error")).to_contain_text("are no JSON")
    shared.locator("#inputs select").select_option("count")
    shared.get_by_role("button", name="Run", exact=True).click()
    expect(shared.locator("#outputs pre")).to_have_text("[0, 2, 4]")
    expect(shared.locator("#run-error")).to_be_hidden()


def test_typing_compiles_after_a_pause(shared: Page) -> None:
    shared.locator("#source").fill(DOUBLE.replace("add(x, x)", "multiply(x, x)"))
    expect(shared.locator(".node[data-name=y] .n-op")).to_have_text("multiply ⏎", timeout=30_000)
    done(shared)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (DOUBLE.replace("add(x, x)", "add(x, z)"), 5, "z"),
        (DOUBLE.replace("add(x, x)", "add(x, x"), 5, "expected"),
        (DOUBLE.replace("f32[3] add", "f32[4] add"), 5, "add 'y'"),
        (DOUBLE.replace("add(x, x)", 'custom-call(x), custom_call_target="nobody"'), 5, "nobody"),
    ],
    ids=["unknown name", "unclosed", "wrong shape", "unsupported"],
)
def test_mistakes_are_shown_at_their_line(shared: Page, text: str, line: int, says: str) -> None:
    paste(shared, text)
    message = shared.locator("#wrong")
    expect(message).to_contain_text(f"Line {line}: ", timeout=30_000)
    expect(message).to_contain_text(says)
    expect(shared.locator("#editor .line.bad .count")).to_have_text(str(line))
    expect(shared.locator("#source")).to_have_attribute("aria-invalid", "true")
    expect(shared.locator("#run")).to_be_disabled()
    bad = shared.locator("#editor .line.bad").bounding_box()
    box = message.bounding_box()
    assert bad and box and 0 <= box["y"] - (bad["y"] + bad["height"]) < 14
    shoot(shared, "error")
    paste(shared, DOUBLE)
    done(shared)
    expect(message).to_be_hidden()


def test_a_file_is_dropped(shared: Page) -> None:
    """A binary module shows as text, and compiles from its bytes."""
    shared.evaluate(
        """data => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([Uint8Array.from(atob(data), c => c.charCodeAt(0))], 'digits.hlo.pb'));
          for (const kind of ['dragenter', 'dragover', 'drop']) {
            document.body.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: transfer }));
          }
        }""",  # noqa: E501
        base64.b64encode(MODEL.read_bytes()).decode(),
    )
    expect(shared.locator("#download")).to_have_attribute("download", "jit_digits.wasm", timeout=30_000)
    done(shared)
    assert "convolution(" in shared.locator("#source").input_value()
    assert shared.locator("#source").evaluate("area => area.readOnly")
    assert shared.locator("#kernels tbody tr").count() == 7
    assert all(
        text.endswith(("µs", "ms")) for text in shared.locator("#kernels tbody td:nth-child(5)").all_inner_texts()
    )
    shoot(shared, "digits")
    shared.set_input_files(
        "#file", {"name": "bad.pb", "mimeType": "application/octet-stream", "buffer": b"\x00\x01\x02 not HLO"}
    )
    expect(shared.locator("#wrong")).to_contain_text("these bytes hold no HLO module", timeout=30_000)


def test_a_text_that_cannot_be_edited_says_why(shared: Page) -> None:
    """The text of a file; one whose constants are all printed becomes a text of one's own. After a file that is none,
    the editor is empty and takes text."""
    module = xla_wasm.HloModule.from_text(DOUBLE)
    open_file(shared, "twice.pb", module.to_proto())
    expect(shared.locator("#download")).to_have_attribute("download", "twice.wasm", timeout=30_000)
    expect(shared.locator("#fixed")).to_contain_text("what twice.pb holds, as text to read")
    shared.get_by_role("button", name="Edit it as text").click()
    expect(shared.locator("#fixed")).to_be_hidden()
    assert not shared.locator("#source").evaluate("area => area.readOnly")
    done(shared)
    open_file(shared, "digits.pb", MODEL.read_bytes())
    expect(shared.locator("#fixed")).to_contain_text("what digits.pb holds", timeout=30_000)
    expect(shared.locator("#edit")).to_be_hidden()
    open_file(shared, "bad.pb", b"\x00\x01\x02 not HLO")
    message = shared.locator("#wrong")
    expect(message).to_be_visible(timeout=30_000)
    expect(message).to_contain_text("these bytes hold no HLO module")
    assert not shared.locator("#source").evaluate("area => area.readOnly")
    expect(shared.locator("#fixed")).to_be_hidden()
    # A message that is of no line covers none.
    editor, box = shared.locator("#editor").bounding_box(), message.bounding_box()
    assert editor and box and box["y"] >= editor["y"] + editor["height"]
    shoot(shared, "no-module")
    paste(shared, DOUBLE)
    done(shared)


def open_file(page: Page, name: str, data: bytes) -> None:
    page.set_input_files("#file", {"name": name, "mimeType": "application/octet-stream", "buffer": data})


def test_symbolic_sizes_have_a_field(shared: Page) -> None:
    """It comes with a program that leaves sizes open, and its sizes are those of the inputs."""
    (rows,) = export.symbolic_shape("rows")
    exported = export.export(jax.jit(lambda x: x + x), platforms=["cpu"])(jax.ShapeDtypeStruct((rows, 2), jnp.float32))
    expect(shared.locator("#sizes")).to_be_hidden()
    open_file(shared, "open.jax", bytes(exported.serialize()))
    expect(shared.locator("#wrong")).to_have_text(
        "the program has symbolic sizes: give rows under Sizes, as in rows=8", timeout=30_000
    )
    expect(shared.locator("#wrong")).to_be_visible()
    expect(shared.locator("#sizes")).to_have_attribute("placeholder", "rows=8")
    shared.locator("#sizes").fill("rows=3")
    expect(shared.locator("#inputs code")).to_have_text("f32[3,2]", timeout=30_000)
    done(shared)
    shared.locator("#sizes").fill("rows=three")
    expect(shared.locator("#wrong")).to_contain_text("rows=three: expected a name", timeout=30_000)
    shared.locator("#sizes").fill("rows=1..5")
    expect(shared.locator("#inputs code")).to_have_text("f32[5,2]", timeout=30_000)
    done(shared)
    paste_text(shared, DOUBLE)
    expect(shared.locator("#sizes")).to_be_hidden()


def paste_text(page: Page, text: str) -> None:
    """Replaces whatever module there is, by way of an example."""
    page.select_option("#example", "softmax")
    expect(page.locator("#download")).to_have_attribute("download", "softmax.wasm", timeout=30_000)
    paste(page, text)
    expect(page.locator("#download")).to_have_attribute("download", "twice.wasm", timeout=30_000)
    done(page)


def test_no_result_is_of_another_module(shared: Page) -> None:
    """While a module runs that never ends, after Stop, and when another is compiled meanwhile."""
    paste_text(shared, DOUBLE)
    expect(shared.locator("#outputs pre")).to_have_count(1)
    paste(shared, FOREVER)
    expect(shared.locator("#timing")).to_have_text("Running", timeout=30_000)
    expect(shared.locator("#outputs pre")).to_have_count(0)
    shared.get_by_role("button", name="Stop").click()
    expect(shared.locator("#timing")).to_have_text("Stopped")
    expect(shared.locator("#outputs pre")).to_have_count(0)
    shared.get_by_role("button", name="Run", exact=True).click()
    expect(shared.get_by_role("button", name="Stop")).to_be_visible()
    paste(shared, DOUBLE)
    done(shared)
    expect(shared.locator("#outputs pre")).to_have_count(1)
    expect(shared.get_by_role("button", name="Stop")).to_be_hidden()


def test_a_text_outlives_a_reload_and_goes_into_a_link(chromium: Browser, site: str) -> None:
    with chromium.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        context.route("**/pyodide/**", lambda route: route.abort())  # nothing is compiled here
        page = context.new_page()
        page.goto(f"{site}/demo/playground/")
        source = page.locator("#source")
        expect(source).to_have_value((EXAMPLES / "softmax.hlo").read_text())
        text = f"// \u00fc \U0001f600\n{DOUBLE}"
        source.fill(text)
        page.reload()
        expect(source).to_have_value(text)
        page.select_option("#example", "sort")
        expect(source).to_have_value((EXAMPLES / "sort.hlo").read_text())
        page.reload()
        expect(source).to_have_value((EXAMPLES / "sort.hlo").read_text())
        page.select_option("#example", label="Own module")
        expect(source).to_have_value(text)
        page.get_by_role("button", name="Copy link").click()
        expect(page.locator("#link-says")).to_contain_text("The link is copied")
        link = page.evaluate("navigator.clipboard.readText()")
        assert link == page.url and len(link) < 250
        source.fill("another")
        assert page.url == f"{site}/demo/playground/"
        rng = np.random.default_rng(0)
        source.fill("".join(map(chr, rng.integers(32, 126, 40_000))))
        page.get_by_role("button", name="Copy link").click()
        expect(page.locator("#link-says")).to_contain_text("Too long for a link: it would have ")
        assert page.url == f"{site}/demo/playground/"
    with chromium.new_context() as other:
        other.route("**/pyodide/**", lambda route: route.abort())
        page = other.new_page()
        page.goto(f"{link}&sizes=b%3D4")
        expect(page.locator("#source")).to_have_value(text)
        expect(page.locator("#sizes")).to_have_value("b=4")
        page.goto(link.replace("#m=", "#m=AAAA"))  # in the same page
        expect(page.locator("#link-says")).to_have_text("The link is damaged: copy it again, whole.")
        expect(page.locator("#source")).to_have_value(text)


def test_stablehlo_and_files_of_jax_export_are_opened(shared: Page) -> None:
    """Text of StableHLO is pasted, a file of jax.export of the same program opened; both compute what JAX does."""
    traced = jax.jit(lambda x, step: jnp.cumsum(x) * step)
    example = (np.zeros(4, np.float32), np.float32(0))
    text = str(traced.lower(*example).compiler_ir("stablehlo")).replace("@jit__lambda", "@pasted")
    exported = bytes(export.export(traced, platforms=["cpu"])(*example).serialize())
    shared.select_option("#example", "gelu")  # a file may not be edited
    expect(shared.locator("#download")).to_have_attribute("download", "dense_gelu.wasm", timeout=30_000)
    paste(shared, text.replace("stablehlo.multiply", "stablehlo.multiplied"))
    expect(shared.locator("#wrong")).to_contain_text("there is no operation 'stablehlo.multiplied'", timeout=30_000)
    paste(shared, text)
    runs_on_own_values(shared, "pasted")
    shared.set_input_files("#file", {"name": "model.jax", "mimeType": "application/octet-stream", "buffer": exported})
    runs_on_own_values(shared, "jit__lambda")
    assert shared.locator("#source").input_value().startswith("HloModule jit__lambda")


def runs_on_own_values(page: Page, name: str) -> None:
    """The module of that name, which scales the sums of an array's beginnings."""
    expect(page.locator("#download")).to_have_attribute("download", f"{name}.wasm", timeout=30_000)
    done(page)
    expect(page.locator("#inputs .input")).to_have_count(2)
    for place, own in enumerate(("[1, 2, 3, -4]", "0.5")):
        page.locator("#inputs .input").nth(place).locator("select").select_option("own")
        page.locator("#inputs .input").nth(place).locator("textarea").fill(own)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#outputs pre")).to_have_text("[0.5, 1.5, 3, 1]")
    assert page.locator(".node").count() > 0


def test_an_instruction_is_followed_through_the_stages(shared: Page) -> None:
    shared.select_option("#example", "gelu")
    expect(shared.locator("#download")).to_have_attribute("download", "dense_gelu.wasm", timeout=30_000)
    done(shared)
    shared.locator(".node[data-name=erf]").click()
    expect(shared.locator("#about")).to_contain_text("erf: erf, f32[32,48]")
    expect(shared.locator("#editor .line.chosen")).to_have_count(1)
    expect(shared.locator("#editor .line.chosen")).to_contain_text("erf = f32[32,48] erf(scaled)")
    for pane in shared.locator(".pane").all():
        assert pane.locator(".line.chosen").count() > 0
    expect(shared.locator(".pane").nth(0).locator(".line.chosen")).to_contain_text("erf(scaled)")
    shoot(shared, "linked")
    # From a line of WebAssembly back to all that its kernel computes.
    chosen = shared.locator(".pane").nth(3).locator(".line.chosen").nth(4)
    chosen.click()
    assert shared.locator(".node.chosen").count() > 8
    # From the text: the cursor in a line.
    shared.locator("#source").click(position={"x": 200, "y": 8 + 18 * 5 + 9})
    expect(shared.locator(".node.chosen")).to_have_attribute("data-name", "weights")
    # With the keyboard: a node, then the kernel's button.
    shared.locator(".node[data-name=product]").focus()
    shared.keyboard.press("Enter")
    expect(shared.locator("#editor .line.chosen")).to_contain_text("product = ")
    shared.locator("#kernels button").last.click()
    assert shared.locator(".node.chosen").count() > 8
    shared.get_by_text("after passes", exact=True).first.click()
    assert shared.locator(".node.chosen").count() > 8
    shared.get_by_text("as written", exact=True).click()


def test_a_hold_up_does_not_spoil_the_time(chromium: Browser, site: str) -> None:
    """A clock of whole milliseconds, and something that holds up the very first run: many short runs are timed together
    all the same."""
    page = chromium.new_context().new_page()
    clock = "const real = performance.now.bind(performance); let calls = 0;\n"
    clock += "performance.now = () => Math.floor(real()) + (++calls < 2 ? 0 : 10);\n"
    page.route(
        "**/runner.js", lambda route: route.fulfill(response=(answer := route.fetch()), body=clock + answer.text())
    )
    page.goto(f"{site}/demo/playground/")
    expect(page.locator("#timing")).to_have_text(re.compile(r"^[0-9.]+ [µm]s a run, the best of"), timeout=90_000)
    page.context.close()


def test_an_example_is_there_before_the_compiler(chromium: Browser, site: str) -> None:
    """An example that the site compiled is shown, linked and run while Python is on its way; a program typed meanwhile
    is compiled when it has come."""
    with chromium.new_context() as context:
        page = context.new_page()
        held: list[Any] = []
        late = "ready.then(({ python }) => fetch('/late/' + python.runPython('import wave; wave.__name__')));"
        context.route(
            "**/compiler.js", lambda route: route.fulfill(response=(a := route.fetch()), body=a.text() + late)
        )
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.removeprefix(site)))
        # The page asks first; Pyodide will ask again.
        page.context.route(
            "**/pyodide/pyodide-lock.json", lambda route: route.continue_() if held else held.append(route)
        )
        page.goto(f"{site}/demo/playground/")
        page.wait_for_selector("body[data-state=compiled][data-run=done]", timeout=60_000)
        assert page.locator(".node").count() == 16 and page.locator("#kernels tbody tr").count() == 1
        expect(page.locator("#timing")).to_contain_text("a run, the best of")
        page.select_option("#example", "gelu")
        expect(page.locator("#download")).to_have_attribute("download", "dense_gelu.wasm", timeout=30_000)
        done(page)
        page.locator(".node[data-name=erf]").click()
        assert all(pane.locator(".line.chosen").count() > 0 for pane in page.locator(".pane").all())
        expect(page.get_by_role("button", name="Compile")).to_be_disabled()
        page.locator("#source").fill(DOUBLE)
        (route,) = held
        route.continue_()
        expect(page.locator("#download")).to_have_attribute("download", "twice.wasm", timeout=90_000)
        expect(page.locator("#says")).to_contain_text("Compiled in")
        # A module of Python that the snapshot has not comes when it is asked for.
        assert asked.index("/pyodide/python_stdlib.zip") < asked.index("/late/wave")


def test_without_a_snapshot_python_starts_all_the_same(chromium: Browser, site: str) -> None:
    with chromium.new_context() as context:
        page = context.new_page()
        asked: list[str] = []
        page.context.route(
            "**/snapshot.bin.zst",
            lambda route: (asked.append(route.request.url), route.fulfill(status=404, body="none")),
        )
        page.goto(f"{site}/demo/playground/")
        page.wait_for_selector("body[data-ready=true]", timeout=90_000)
        page.get_by_role("button", name="Compile").click()
        expect(page.locator("#says")).to_contain_text("Compiled in", timeout=30_000)
        assert len(asked) == 1


def test_the_site_has_every_example_compiled() -> None:
    for source in EXAMPLES.glob("*.hlo"):
        told = json.loads(pages.made(f"/demo/playground/examples/{source.stem}.json") or b"")
        module = xla_wasm.HloModule.from_text(source.read_text())
        assert base64.b64decode(told["wasm"]) == xla_wasm.compile(module).wasm
        assert told["explained"]["name"] == module.name and len(told["explained"]["nodes"]) == len(
            list(module.instructions())
        )


def test_zoom_and_pan(shared: Page) -> None:
    view = "document.querySelector('#graph svg').getAttribute('viewBox').split(' ').map(Number)"
    before = shared.evaluate(view)
    shared.get_by_role("button", name="Zoom in").click()
    near = shared.evaluate(view)
    assert near[2] < before[2]
    box = shared.locator("#graph").bounding_box()
    assert box
    shared.mouse.move(box["x"] + 20, box["y"] + box["height"] - 20)
    shared.mouse.down()
    shared.mouse.move(box["x"] + 120, box["y"] + box["height"] - 60, steps=5)
    shared.mouse.up()
    assert shared.evaluate(view)[0] < near[0] and shared.evaluate(view)[1] > near[1]
    shared.locator("#graph svg").focus()
    shared.keyboard.press("ArrowRight")
    shared.keyboard.press("0")
    assert shared.evaluate(view) == before


LOADS = """async (modules) => {
  const worker = new Worker('/demo/playground/runner.js', { type: 'module' });
  const answers = [];
  const all = new Promise((done, fail) => {
    setTimeout(() => fail(new Error(`${answers.length} answers in a minute`)), 60_000);
    worker.onerror = ({ message }) => fail(new Error(message));
    worker.onmessage = ({ data }) => {
      answers.push(data);
      if (answers.length === modules.length)
        worker.postMessage({ id: modules.length, kind: 'run', inputs: [Float32Array.of(1, 2)] });
      else if (answers.length > modules.length) done();
    };
  });
  for (const [id, text] of modules.entries())
    worker.postMessage({ id, kind: 'load', wasm: Uint8Array.from(atob(text), (c) => c.charCodeAt(0)) });
  await all;
  worker.terminate();
  const { failure, outputs } = answers.pop();
  return [answers.map(({ id }) => id), failure?.message ?? [...outputs[0]].slice(0, 3)];
}"""


def test_the_last_of_modules_that_are_loaded_at_once_runs(page: Page, site: str) -> None:
    """The first is large, so that the engine reads it longer."""
    numbers = np.random.default_rng(0).random(1 << 21, np.float32)
    programs = lambda x: x[0] + numbers, lambda x: x + x
    modules = [xla_wasm.compile(lower(program, np.zeros(2, np.float32))).wasm for program in programs]
    page.goto(f"{site}/demo/")
    order, result = page.evaluate(LOADS, [base64.b64encode(wasm).decode() for wasm in modules])
    assert order == [0, 1] and result == [2, 4]


def test_nothing_wraps_or_is_cut_at_1280(shared: Page) -> None:
    before = shared.viewport_size
    shared.set_viewport_size({"width": 1280, "height": 800})
    row = shared.locator("main .card > .bar").first.locator("h2, select, .button:visible")
    boxes = [found.bounding_box() for found in row.all()]
    tops = [round(box["y"] + box["height"] / 2) for box in boxes if box]
    assert len(tops) == 5 and max(tops) - min(tops) <= 2, tops
    assert all(box.bounding_box()["width"] > 550 for box in shared.locator(".pane .text").all())  # type: ignore[index]
    assert before
    shared.set_viewport_size(before)


def test_on_a_phone_in_the_dark(chromium: Browser, site: str) -> None:
    complaints: list[str] = []
    page = opened(
        chromium,
        site,
        complaints,
        viewport={"width": 360, "height": 760},
        color_scheme="dark",
        has_touch=True,
        is_mobile=True,
    )
    for width in (390, 360):
        page.set_viewport_size({"width": width, "height": 760})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator("#facts dd").evaluate_all(
            "all => all.length === 4 && all.every(fact => fact.scrollWidth <= fact.clientWidth)"
        )
    shoot(page, "phone")
    page.set_viewport_size({"width": 1400, "height": 1000})
    shoot(page, "dark")
    page.context.close()
    assert not complaints, complaints[:3]


def test_without_pyodide_the_page_says_so(chromium: Browser, site: str) -> None:
    page = chromium.new_context().new_page()
    page.context.route("**/pyodide/**", lambda route: route.fulfill(status=404, body="<h1>Not found</h1>"))
    page.goto(f"{site}/demo/playground/")
    expect(page.locator("#says")).to_contain_text("HTTP 404", timeout=20_000)
    expect(page.locator("#says")).to_contain_text("./build.sh pyodide makes it")
    page.context.close()


# What the page shows, without the page.


def test_explain_links_every_instruction() -> None:
    bench = Workbench(MODEL.read_bytes())
    bench.compile()
    told = json.loads(json.dumps(bench.explain()))
    nodes, names = told["nodes"], [node["name"] for node in told["nodes"]]
    assert len(nodes) == len(list(bench.module.instructions()))
    lines = bench.text.splitlines()
    assert len(told["source"]) == len(nodes)
    for first, last, (i,) in told["source"]:
        assert first == last and f"{names[i]} = " in lines[first]
    assert all(node["origin"] for node in told["passed"])
    step = {
        s["kernel"]: {names[i] for i in s["instructions"]} for s in told["steps"] if s["kernel"] and not s["before"]
    }
    assert "dot_general.1" in step["dot"] and "add.17" in step["dot"] and "reduce_window_max.7" in step["reduce_window"]
    made = {name for members in step.values() for name in members}
    assert {
        x["name"] for x in nodes if x["entry"] and x["opcode"] in ("convolution", "add", "dot", "reduce-window")
    } <= made
    sizes = {k["name"]: k["bytes"] for k in told["kernels"]}
    assert set(step) <= set(sizes) and sum(sizes.values()) < len(bench.artifact.wasm if bench.artifact else b"")
    for stage in told["stages"]:
        count = len(stage["text"].splitlines())
        assert all(0 <= a <= b < count for a, b, _ in stage["lines"]) and stage["lines"]


def test_compare_with_the_reference() -> None:
    bench = Workbench((EXAMPLES / "softmax.hlo").read_text())
    x = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    (right,) = xla_wasm.load(bench.compile()).run(x)
    (row,) = bench.compare([x.tobytes()], [right.tobytes()])
    assert row["agrees"] and row["absolute"] < 1e-6
    (row,) = bench.compare([x.tobytes()], [(right + 1).tobytes()])
    assert not row["agrees"]


def test_failures_name_sizes_in_the_words_of_the_page() -> None:
    text = "module @m { func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> { return %x : tensor<?x3xf32> } }"
    with pytest.raises(XlaWasmError) as caught:
        Workbench(text)
    told = failure(caught.value, text)
    assert told["sizes"] == "x=8,3" and told["message"].endswith("give them under Sizes, as in x=8,3")
    (parameter,) = Workbench(text, "x=2,3").module.entry.parameters
    assert parameter.shape.dimensions == (2, 3)


def test_failures_name_their_line() -> None:
    text = DOUBLE.replace("f32[3] add", "f32[4] add")
    with pytest.raises(XlaWasmError) as caught:
        Workbench(text).compile()
    assert failure(caught.value, text)["line"] == 5
    assert failure(XlaWasmError("nothing in particular"), text)["line"] is None


def test_examples_are_right() -> None:
    for path in sorted(Path(EXAMPLES).glob("*.hlo")):
        bench = Workbench(path.read_text())
        artifact = bench.compile()
        exe = xla_wasm.load(artifact)
        rng = np.random.default_rng(1)
        arguments = [rng.standard_normal(p.dimensions).astype(np.float32) for p in exe.parameters]
        rows = bench.compare([a.tobytes() for a in arguments], [r.tobytes() for r in exe.run(*arguments)])
        assert all(row["agrees"] for row in rows), path.name


def test_other_browsers(other_browser: Firefox | WebKit, site: str) -> None:
    """The compiler comes and compiles what somebody wrote; the module runs."""
    page = other_browser.open(f"{site}/demo/playground/")
    page.wait("document.body.dataset.run === 'done' && document.body.dataset.ready === 'true'", 120)
    page.evaluate(
        f"(editor => {{ editor.value = {json.dumps(DOUBLE)}; editor.dispatchEvent(new Event('input')); }})"
        "(document.querySelector('#source'))"
    )
    page.click("#compile")
    page.wait("document.querySelector('#download').download === 'twice.wasm'")
    page.wait("document.body.dataset.run === 'done' && document.querySelectorAll('#outputs .result').length === 1")
    assert page.evaluate("document.querySelectorAll('.node').length") == 2
    page.close()
