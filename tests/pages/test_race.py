"""The race on the page of figures, on short settings, with the libraries that the benchmarks compare with: that their
results agree and are drawn, and no time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.pages.test_accessibility import violations
from tests.support.browsing import PHONE, SCREENSHOTS, WAIT
from tests.support.firefox import Firefox
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm.site import pages, peak, serve

PAGE = "/demo/performance/?rounds=1&sample=1"
WORKLOADS = ("The digits network", "A block of an encoder", "A convolution", "A step of decoding")


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the libraries, as build.sh makes it."""
    folder = tmp_path_factory.mktemp("peers")
    tools = ROOT / ".tools"
    output([node_for("relaxed-simd"), ROOT / "tools" / "peers_package.mjs", tools, folder], ROOT)
    return folder


@pytest.fixture
def raced(open_page: Any, peers: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens the page of a site that has the libraries, or none, and races them."""

    def open_(folder: Path = peers, **options: Any) -> Page:
        for module in (pages, serve):
            monkeypatch.setattr(module, "peers", lambda: folder)
        page: Page = open_page(PAGE, **options)
        page.get_by_role("button", name="Race").click()
        page.wait_for_selector("body[data-race=done], body[data-race=stopped]", timeout=2 * WAIT)
        return page

    yield open_


def entries(page: Page) -> list[list[str]]:
    """Each workload's entries: who, the time, and the ratio or what is wrong."""
    return [item.inner_text().splitlines() for item in page.locator(".heat li").all()]


def test_the_libraries_agree_and_are_drawn(raced: Any) -> None:
    page = raced(viewport={"width": 1280, "height": 800}, color_scheme="light")
    says = re.compile(r"^xla_wasm was the fastest in \d of 4\. All results agree\.$")
    expect(page.locator("#says")).to_have_text(says)
    expect(page.locator(".heat h3")).to_have_count(len(WORKLOADS))
    for heading, title in zip(page.locator(".heat h3").all(), WORKLOADS):
        expect(heading).to_contain_text(title)
    shown = entries(page)
    assert [who for who, *_ in shown] == ["xla_wasm", "onnxruntime-web", "TensorFlow.js"] * 4
    for _, time, ratio in shown:
        assert re.fullmatch(r"[\d.]+ (µs|ms)", time) and re.fullmatch(r"[\d.]+×", ratio)
    assert {ratio for who, _, ratio in shown if who == "xla_wasm"} == {"1.00×"}
    # The differences are said with what is allowed, and are none of nothing: libraries round differently.
    notes = [note.inner_text() for note in page.locator(".heat .note").all()]
    for note, allowed in zip(notes, (1e-5, 1e-4, 1e-5, 1e-4)):
        said = re.search(r"([\d.]+) GFLOP/s, \d+ % of the peak\. Results differ by at most (\S+) of .*; (\S+) is", note)
        assert said and float(said[3]) == allowed and 0 < float(said[2]) <= allowed
    # Bars are as long as the times, and the limit is at one place of each workload.
    parts = page.evaluate(
        "[...document.querySelectorAll('.heat')].map(heat => [...heat.querySelectorAll('.track')].map(track => "
        "[track.children[0].offsetWidth / track.offsetWidth, track.children[1].offsetLeft / track.offsetWidth]))"
    )
    for part in parts:
        assert len(part) == 3 and max(*(bar for bar, _ in part), part[0][1]) > 0.95
        assert len({round(limit, 3) for _, limit in part}) == 1 and -0.01 <= part[0][1] <= 1
    assert re.match(r"[\d.]+ GFLOP/s of fused multiply-adds", page.locator("#peak").inner_text())
    page.screenshot(path=SCREENSHOTS / "race-light.png", full_page=True)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert not violations(page), scheme
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=SCREENSHOTS / "race-phone-dark.png", full_page=True)


def test_the_race_in_firefox(site: str, peers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pages, serve):
        monkeypatch.setattr(module, "peers", lambda: peers)
    with Firefox() as firefox:
        page = firefox.open(site + PAGE)
        page.wait("document.body.dataset.race === 'fresh'")
        page.click("#race")
        page.wait("document.body.dataset.race !== 'racing'")
        assert re.match(r"xla_wasm was the fastest in \d of 4\. All results agree\.", page.text("#says"))


def test_nothing_is_fetched_unasked(open_page: Any, peers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says before it fetches anything how much that is, and of whom."""
    for module in (pages, serve):
        monkeypatch.setattr(module, "peers", lambda: peers)
    fetched: list[str] = []
    page = open_page("/demo/no-such-page", ready=False)
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(re.sub(r"/demo/.*", PAGE, page.url))
    page.wait_for_selector("body[data-race=fresh]", timeout=WAIT)
    assert fetched and not [url for url in fetched if "/peers/" in url or url.endswith(".wasm")]
    says = r"Fetches [45]\.\d MB from 127\.0\.0\.1:\d+: onnxruntime-web 1\.\d+\.\d+ and TensorFlow\.js 4\."
    assert re.match(says, page.locator("#cost").inner_text())


def missing(route: Route) -> None:
    route.fulfill(status=404, body="")


def test_a_library_that_cannot_be_fetched_is_left_out(raced: Any) -> None:
    page = raced(ready=False, routes={"**/peers/ort.wasm.gz": missing})
    without = r"Without onnxruntime-web: Error: cannot fetch .*ort\.wasm\.gz: 404"
    expect(page.locator("#says")).to_have_text(re.compile(rf"^xla_wasm .* All results agree\. {without}$"))
    assert [who for who, *_ in entries(page)] == ["xla_wasm", "TensorFlow.js"] * 4


def test_a_wrong_result_has_no_time(raced: Any) -> None:
    def wrong(route: Route) -> None:
        """Twice what it should be."""
        source = (ROOT / "web" / "demo" / "performance" / "workloads.js").read_text(encoding="utf-8")
        right = "[tf.conv2d(x, w.taps, 1, 'same')]"
        assert right in source
        route.fulfill(
            body=source.replace(right, f"[tf.mul({right[1:-1]}, 2)]"),
            content_type="text/javascript",
            headers={"Cross-Origin-Embedder-Policy": "require-corp"},
        )

    page = raced(**PHONE, routes={"**/workloads.js": wrong})
    expect(page.locator("#says")).to_contain_text("Wrong or missing: 1 of 8 results.")
    of_conv = entries(page)[6:9]
    assert [len(entry) for entry in of_conv] == [3, 3, 2]
    assert of_conv[2] == ["TensorFlow.js", "another result: 1e+0 apart"]


def test_without_copies_xla_wasm_runs_alone(raced: Any, tmp_path: Path) -> None:
    page = raced(tmp_path)
    expect(page.locator("#says")).to_have_text("xla_wasm ran alone.")
    expect(page.locator("#cost")).to_contain_text("This site has no copies of the other libraries")
    assert [who for who, *_ in entries(page)] == ["xla_wasm"] * 4
    page.get_by_role("button", name="Race again").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#says")).to_have_text("Stopped.")
    expect(page.get_by_role("button", name="Race again")).to_be_enabled()


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_the_peak_is_of_multiply_adds(target: str) -> None:
    """The loop of the module has as many of them as it says, and nothing else that computes."""
    from xla_wasm.wasm.disasm import disassemble

    text = disassemble(peak.peak_module(target))
    body = text[text.index("loop") :]
    fused = len(re.findall(r"f32x4\.relaxed_madd", body))
    apart = len(re.findall(r"f32x4\.mul", body)), len(re.findall(r"f32x4\.add", body))
    assert (fused, apart) == ((peak.CHAINS, (0, 0)) if target == "relaxed-simd" else (0, (peak.CHAINS, peak.CHAINS)))
    assert peak.OPERATIONS == 2 * 4 * peak.CHAINS * peak.TRIPS
