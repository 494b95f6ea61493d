"""The page and the loader in a real Chromium: strokes are drawn and the answer is read."""

from __future__ import annotations

import base64
import math
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures import SHAPE, SIDECAR, toy, toy_expected
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples" / "digits"
ARGUMENTS = "--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run --disable-background-networking"


def arc(x: float, y: float, rx: float, ry: float, begin: float, end: float) -> list[tuple[float, float]]:
    """Points of an ellipse, angles in degrees clockwise from the right."""
    angles = [math.radians(begin + (end - begin) * i / 24) for i in range(25)]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


# How a hand may draw each digit: strokes in percent of the drawing area, not centred, of different sizes.
STROKES = {
    0: [arc(50, 50, 24, 36, -90, 270)],
    1: [[(40, 12), (38, 88)]],
    2: [[*arc(60, 30, 20, 18, -170, 40), (42, 75), (84, 75)]],
    3: [[*arc(47, 30, 20, 18, -150, 90), *arc(47, 68, 24, 20, -90, 150)]],
    4: [[(60, 12), (28, 58), (80, 58)], [(62, 36), (62, 88)]],
    5: [[(68, 14), (36, 14), (33, 44), *arc(48, 64, 22, 22, -110, 140)]],
    6: [[*arc(68, 50, 32, 40, -100, -190), *arc(54, 68, 18, 20, 180, -180)]],
    7: [[(26, 20), (72, 20), (44, 84)]],
    8: [[*arc(50, 31, 15, 18, 90, -270), *arc(50, 69, 18, 20, -90, 270)]],
    9: [[*arc(48, 34, 18, 20, 0, -360), (66, 34), (62, 86)]],
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("no chromium: ./build.sh test installs it with apt")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS.split())
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    from xla_wasm.serve import make_server

    with make_server("127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def open_page(chromium: Browser, site: str) -> Iterator[Any]:
    """Opens pages of the site; afterwards, that they asked nobody else for anything and reported no error."""
    contexts = []
    complaints: list[str] = []

    def open_(path: str = "/demo/", ready: bool = True, routes: dict[str, Any] | None = None, **options: Any) -> Page:
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda r: r.url.startswith((site, "data:")) or complaints.append(f"request to {r.url}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        if ready:
            page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        for pattern, handler in (routes or {}).items():
            page.route(pattern, handler)
        page.goto(site + path)
        if ready:
            page.wait_for_selector("body[data-ready=true]", timeout=60_000)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not complaints


def draw(page: Page, strokes: list[list[tuple[float, float]]], touch: bool = False) -> None:
    """Draws with the mouse, or with a finger."""
    box = page.locator("#pad").bounding_box()
    assert box
    places = [[(box["x"] + x / 100 * box["width"], box["y"] + y / 100 * box["height"]) for x, y in stroke] for stroke in strokes]
    if not touch:
        for (x, y), *rest in places:
            page.mouse.move(x, y)
            page.mouse.down()
            for x, y in rest:
                page.mouse.move(x, y, steps=2)
            page.mouse.up()
        return
    client = page.context.new_cdp_session(page)
    for stroke in places:
        for i, (x, y) in enumerate(stroke):
            client.send("Input.dispatchTouchEvent", {"type": "touchMove" if i else "touchStart", "touchPoints": [{"x": x, "y": y}]})
        client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def expect_answer(page: Page, digit: int | None) -> None:
    """The page says this digit, as soon as it has looked at the drawing."""
    expect(page.locator("#digit")).to_have_text("–" if digit is None else str(digit))


def test_drawn_digits_are_read(open_page: Any) -> None:
    page = open_page()
    expect_answer(page, None)
    for digit in STROKES:
        page.get_by_role("button", name="Clear").click()
        expect_answer(page, None)
        draw(page, STROKES[digit])
        expect_answer(page, digit)
        assert page.locator(".bars .best .name").inner_text() == str(digit)
        shares = [float(text.split()[0]) for text in page.locator(".bars .value").all_inner_texts()]
        assert len(shares) == 10 and abs(sum(shares) - 100) < 1 and max(shares) == shares[digit]
        assert "µs" in page.locator("#time").inner_text()


def test_the_answer_is_live(open_page: Any) -> None:
    """The pen is still down, and the page has an answer."""
    page = open_page()
    box = page.locator("#pad").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 20, steps=10)
    expect_answer(page, 1)


def test_on_a_phone(open_page: Any) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 3, "is_mobile": True, "has_touch": True}
    page = open_page(**phone)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for digit in (3, 7):
        # Clicks, not taps: Chromium drops a tap that follows a quick stroke, or that a busy machine draws out.
        page.get_by_role("button", name="Clear").click()
        expect_answer(page, None)
        draw(page, STROKES[digit], touch=True)
        expect_answer(page, digit)
        assert page.evaluate("scrollY") == 0
    page.get_by_role("button", name="Sample image of a 5").first.click()
    expect_answer(page, 5)


def test_with_the_keyboard(open_page: Any) -> None:
    page = open_page(viewport={"width": 1200, "height": 1400})
    for digit in range(10):
        page.keyboard.press(str(digit))
        expect_answer(page, digit)
    expect(page.locator("#live")).to_contain_text("a 9, ")
    page.keyboard.press("Escape")
    expect_answer(page, None)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "clear"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect_answer(page, 0)
    draw(page, STROKES[1])  # takes the sample's place
    expect_answer(page, 1)
    assert page.locator(".samples [aria-pressed=true]").count() == 0


def test_the_samples_are_held_out_images(open_page: Any) -> None:
    images, labels = np.load(DIGITS / "images.npy"), np.load(DIGITS / "labels.npy")
    known = {(int(label), image.tobytes()) for image, label in zip(images, labels)}
    samples = open_page().evaluate("import('/demo/samples.js').then(({samples}) => samples)")
    assert [sample["label"] for sample in samples] == [*range(10)] * 2
    for sample in samples:
        assert (sample["label"], bytes(int(grey, 17) for grey in sample["pixels"])) in known


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_facts_and_colours(open_page: Any, scheme: str) -> None:
    page = open_page(color_scheme=scheme, viewport={"width": 1200, "height": 900})
    facts = dict(zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts()))
    assert facts["Imports"] == "none" and facts["Instructions"] == "relaxed-simd"
    assert 1 < float(facts["File size"].removesuffix(" KB")) < 110 and int(facts["Steps"]) > 0
    red = page.evaluate("Number(getComputedStyle(document.documentElement).backgroundColor.match(/[0-9]+/)[0])")
    assert (red < 64) == (scheme == "dark")


def test_a_missing_model_is_explained(open_page: Any) -> None:
    page = open_page(ready=False, routes={"**/digits*.wasm": lambda route: route.fulfill(status=404, body="<h1>Not found</h1>")})
    text = page.locator("#error").inner_text(timeout=5000)
    assert "could not be loaded" in text and "HTTP 404" in text and "digits" in text


@pytest.mark.parametrize("name", ["digits.wasm", "digits.relaxed.wasm"])
def test_every_held_out_image(open_page: Any, name: str) -> None:
    """JAX's logits, through the loader in Chromium."""
    images = np.load(DIGITS / "images.npy").astype(np.float32) / 16
    logits = np.load(DIGITS / "logits.npy")
    script = """async ([name, data]) => {
      const { load } = await import('/xla_wasm.js');
      const exe = await load('/demo/' + name);
      const images = new Float32Array(Uint8Array.from(atob(data), c => c.charCodeAt(0)).buffer);
      const out = [];
      for (let i = 0; i < images.length; i += 64) out.push(Array.from(exe.run(images.subarray(i, i + 64))[0]));
      return out;
    }"""
    got = np.array(open_page().evaluate(script, [name, base64.b64encode(images.tobytes()).decode()]))
    np.testing.assert_allclose(got, logits, rtol=0, atol=1e-4)
    assert (got.argmax(1) == logits.argmax(1)).all()


RUN_TOY = """
  const { load } = await import(site + '/xla_wasm.js');
  const exe = await load(site + url);
  exe.set('w', new Float32Array(6).fill(1));
  const [y, k, positive] = exe.run({ x: Float32Array.of(1, -3, 3, 0.5, 0, 9), k: 41 });
  return [Array.from(y), Number(k[0]), Array.from(positive)];
"""


@pytest.mark.parametrize("mime", ["application/wasm", "text/plain"])
@pytest.mark.parametrize("worker", [False, True])
def test_loader_in_page_and_worker(open_page: Any, site: str, mime: str, worker: bool) -> None:
    """Compiled while it streams, or from the bytes when the server sends a wrong type."""
    artifact = toy()

    def serve(route: Route) -> None:
        weights = route.request.url.endswith(".weights")
        body = artifact.weights if weights else artifact.wasm
        route.fulfill(body=body, content_type=mime, headers={"Cross-Origin-Resource-Policy": "same-origin"})

    page = open_page(routes={"**/toy.*": serve})
    assert page.evaluate("crossOriginIsolated")
    if worker:
        script = """([code, site]) => new Promise((done, fail) => {
          const source = `(async (site, url) => {${code}})('${site}', '/toy.wasm').then(postMessage, e => postMessage(String(e)))`;
          // The page's policy allows no blob: as worker; a frame without one does.
          const frame = document.createElement('iframe');
          frame.src = '/package.json';
          frame.onload = () => {
            const scope = frame.contentWindow;
            const blob = new scope.Blob([source], {type: 'text/javascript'});
            const worker = new scope.Worker(scope.URL.createObjectURL(blob), {type: 'module'});
            worker.onmessage = ({data}) => done(data);
            worker.onerror = (event) => fail(event.message);
          };
          document.body.append(frame);
        })"""
    else:
        script = "([code, site]) => (async (site, url) => {" + RUN_TOY + "})(site, '/toy.wasm')"
    x = np.array([1, -3, 3, 0.5, 0, 9], np.float32).reshape(SHAPE)
    y, k, positive = toy_expected(x, np.ones(SHAPE, np.float32), 41, SIDECAR)
    assert page.evaluate(script, [RUN_TOY, site]) == [y.ravel().tolist(), int(k), positive.ravel().astype(int).tolist()]
