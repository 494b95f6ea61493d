"""The search page as a person uses it, in Chromium and in Firefox: typing, examples, own sentences, and a missing
model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import SCREENSHOTS, WAIT
from tests.support.paths import ROOT
from xla_wasm import XlaWasmError
from xla_wasm.site import minilm

sys.path.insert(0, str(ROOT / "examples" / "minilm"))
import check
import model
import sentences

SEARCH = ROOT / "web" / "demo" / "search"

FEW = ["Cats spend most of their lives asleep.", "Bread rises because of yeast.", "Trains are seldom late in Japan."]
CATS = "Cats spend around two thirds of their lives asleep."
# Queries that share no word of weight with the sentence that answers them.
FOUND = {
    "feline naps": CATS,
    "money for later": "Compound interest makes small savings large if you wait long enough.",
    "who invented the internet": "The web was invented at a physics laboratory so that scientists could share papers.",
    "losing a loved one": "Grief comes in waves, and does not follow a timetable.",
    "why is spicy food hot": "Chilli peppers taste hot because they set off the nerves that feel heat.",
    "wine on my shirt": "A stain of red wine comes out best if you treat it at once.",
}


@pytest.fixture
def open_page(chromium: Browser, site: str) -> Iterator[Any]:
    """Opens the page; afterwards, that it asked nobody else for anything and reported no error."""
    contexts = []
    complaints: list[str] = []

    def open_(
        sentences: list[str] | None = None,
        ready: bool = True,
        works: bool = True,
        routes: dict[str, Any] | None = None,
        **options: Any,
    ) -> Page:
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "request", lambda r: r.url.startswith((site, "data:", "blob:")) or complaints.append(f"request to {r.url}")
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        if works:
            page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        if sentences is not None:
            page.route(
                "**/sentences.txt", lambda route: route.fulfill(body="\n".join(sentences), content_type="text/plain")
            )
        for pattern, handler in (routes or {}).items():
            page.route(pattern, handler)
        page.goto(f"{site}/demo/search/")
        if ready:
            page.wait_for_selector("body[data-ready=true]", timeout=WAIT)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not complaints


def expect_first(page: Page, sentence: str) -> None:
    expect(page.locator("#results.ranked li:first-child .text")).to_have_text(sentence, timeout=WAIT)


def picture(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"search-{name}.png", full_page=True)


def test_what_one_means_is_found(open_page: Any) -> None:
    page = open_page(viewport={"width": 1200, "height": 1000})
    expect(page.locator("#status")).to_have_text("305 sentences, whose vectors came with the page")
    assert set(page.locator("#examples button").all_inner_texts()) == set(FOUND)
    page.locator("#query").press_sequentially("sleepy kittens", delay=20)
    expect_first(page, CATS)
    for query, sentence in FOUND.items():
        page.get_by_role("button", name=query).click()
        expect_first(page, sentence)
        expect(page.locator("#time")).to_contain_text("ms for")
    scores = [float(text) for text in page.locator("#results .score").all_inner_texts()]
    assert len(scores) == 12 and scores == sorted(scores, reverse=True) and 0.4 < scores[0] <= 1
    measured = "fills => fills.map(f => f.getBoundingClientRect().right - f.parentElement.getBoundingClientRect().left)"
    widths = page.locator("#results .fill").evaluate_all(measured)
    track = page.locator("#results .track").first.bounding_box()["width"]
    np.testing.assert_allclose(np.array(widths) / track, scores, atol=0.02)
    facts = dict(zip(page.locator("#facts dt").all_inner_texts(), page.locator("#facts dd").all_inner_texts()))
    assert (
        facts["Weights"] == "45.2 MB"
        and facts["Instructions"] == "relaxed-simd"
        and float(facts["Code"].removesuffix(" KB")) < 100
    )
    picture(page, "light")


def test_the_vectors_that_come_with_the_page() -> None:
    """Every sentence has the vector that JAX makes of it, and the page will see that they are of its weights."""
    head, _, data = (SEARCH / "sentences.bin").read_bytes().partition(b"\n")
    known = json.loads(head)
    assert known["sentences"] == [line for line in (SEARCH / "sentences.txt").read_text().split("\n") if line]
    assert known["weights"] == sentences.weights_of(minilm.compiled()) and len(known["weights"]) > 100
    vectors = np.frombuffer(data, ml_dtypes.bfloat16).reshape(len(known["sentences"]), -1).astype(np.float32)
    encode, weights, tokenizer = jax.jit(model.encode), check.weights(), check.tokenizer()
    for i in range(0, len(vectors), 5):
        expected = np.asarray(encode(*check.arguments(tokenizer.encode(known["sentences"][i])), weights))
        assert float(vectors[i] @ expected) / float(np.linalg.norm(vectors[i])) >= 0.9999, known["sentences"][i]


def test_vectors_of_other_weights_are_not_taken(open_page: Any) -> None:
    """Of a model that is not the one that made them: the page makes its own."""
    page = open_page(FEW, ready=False, routes={"**/sentences.bin": other_weights})
    expect(page.locator("#status")).to_contain_text("3 sentences read in", timeout=WAIT)
    page.locator("#query").fill("railway")
    expect_first(page, FEW[2])


def other_weights(route: Any) -> None:
    """The vectors of one sentence for another one, and weights that nobody has."""
    data = (
        json.dumps({"weights": "00000000", "sentences": FEW}).encode()
        + b"\n"
        + np.full((3, 384), 0.05, ml_dtypes.bfloat16).tobytes()
    )
    route.fulfill(body=data, content_type="application/octet-stream")


def test_embeddings_are_those_of_jax(open_page: Any) -> None:
    """The page's own tokeniser and encoder, against JAX with the published weights of 32 bits."""
    page = open_page(FEW)
    texts = [*FOUND, *FOUND.values(), "", "Ünïcödé, 漢字 and 😀!", "The quick brown fox jumps over the lazy dog. " * 20]
    script = """async (texts) => {
      const { Encoder } = await import('/demo/search/encoder.js');
      const encoder = await Encoder.load(location.href);
      return texts.map((text) => Array.from(encoder.embed(text).vector));
    }"""
    encode, weights, tokenizer = jax.jit(model.encode), check.weights(), check.tokenizer()
    for text, vector in zip(texts, np.array(page.evaluate(script, texts), np.float32), strict=True):
        expected = np.asarray(encode(*check.arguments(tokenizer.encode(text)), weights))
        assert float(vector @ expected) / float(np.linalg.norm(vector)) >= 0.99999, text


def test_an_answer_comes_while_sentences_are_still_read(open_page: Any) -> None:
    page = open_page(
        [CATS, *(f"Item {i} of a long list of things that nobody ever looks for." for i in range(2000))], ready=False
    )
    expect(page.locator("#status")).to_contain_text("Reading the sentences", timeout=WAIT)
    page.locator("#query").fill("feline naps")
    expect_first(page, CATS)
    assert page.evaluate("document.body.dataset.ready") is None
    expect(page.locator("#progress")).to_be_visible()


def test_own_sentences(open_page: Any) -> None:
    page = open_page(FEW)
    page.get_by_text("Search in your own sentences").click()
    page.get_by_role("button", name="Search in these").click()
    expect(page.locator("#note")).to_contain_text("at least one sentence")
    page.locator("#query").fill("when do I have to pay?")
    paragraph = (
        "The meeting was moved to the small room on the third floor. " * 2
        + "Lunch is served at noon. The invoice is due on Friday! "
    )
    page.get_by_label("One on each line").fill(f"Socks go in the second drawer.\n\n...\n{paragraph}")
    page.get_by_role("button", name="Search in these").click()
    expect_first(page, "The invoice is due on Friday!")
    expect(page.locator("#status")).to_contain_text("4 sentences read")
    picture(page, "own")
    page.get_by_role("button", name="Back to").click()
    page.locator("#query").fill("baking")
    expect_first(page, FEW[1])
    expect(page.locator("#results li:visible")).to_have_count(len(FEW))


def test_with_the_keyboard_in_the_dark(open_page: Any) -> None:
    page = open_page(FEW, color_scheme="dark", viewport={"width": 1200, "height": 900})
    page.keyboard.press("/")
    page.keyboard.type("railway/")
    expect_first(page, FEW[2])
    assert page.locator("#query").input_value() == "railway/"
    expect(page.locator("#live")).to_have_text(f"Nearest: {FEW[2]}")
    picture(page, "dark")
    page.keyboard.press("Escape")
    expect(page.locator("#title")).to_have_text("3 sentences to search in")
    assert page.locator("#query").input_value() == ""
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect_first(page, FEW[0])


def test_on_a_phone(open_page: Any) -> None:
    page = open_page(FEW, viewport={"width": 360, "height": 740}, device_scale_factor=2, is_mobile=True, has_touch=True)
    page.get_by_role("button", name="feline naps").tap()
    expect_first(page, FEW[0])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, "phone")


def test_missing_weights_are_explained(open_page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, bytes]:
        raise XlaWasmError("the weights of all-MiniLM-L6-v2 are not installed")

    monkeypatch.setattr(minilm, "files", missing)
    page = open_page(ready=False, works=False)
    expect(page.locator("#error")).to_have_text(
        "The search cannot start: the weights of all-MiniLM-L6-v2 are not installed", timeout=WAIT
    )
