"""The digits page in a real Chromium and Firefox: strokes are drawn and the answer is read, a network is trained and
answers."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.support import seeds
from tests.support.browsing import PHONE, SCREENSHOTS, training, until
from tests.support.paths import ROOT

DIGITS = ROOT / "examples" / "digits"


def arc(x: float, y: float, rx: float, ry: float, begin: float, end: float) -> list[tuple[float, float]]:
    """Points of an ellipse, angles in degrees clockwise from the right."""
    angles = [math.radians(begin + (end - begin) * i / 16) for i in range(17)]
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


def draw(page: Page, strokes: list[list[tuple[float, float]]], touch: bool = False) -> None:
    """Draws with the mouse, or with a finger."""
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    assert box
    places = [
        [(box["x"] + x / 100 * box["width"], box["y"] + y / 100 * box["height"]) for x, y in stroke]
        for stroke in strokes
    ]
    if not touch:
        for (x, y), *rest in places:
            page.mouse.move(x, y)
            page.mouse.down()
            for x, y in rest:
                page.mouse.move(x, y)
            page.mouse.up()
        return
    client = page.context.new_cdp_session(page)
    for stroke in places:
        for i, (x, y) in enumerate(stroke):
            client.send(
                "Input.dispatchTouchEvent",
                {"type": "touchMove" if i else "touchStart", "touchPoints": [{"x": x, "y": y}]},
            )
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
    page = open_page(**PHONE)
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


def test_on_a_phone_the_answer_is_seen_while_one_draws(open_page: Any) -> None:
    page = open_page(**PHONE | {"viewport": {"width": 390, "height": 844}})
    draw(page, STROKES[3], touch=True)
    expect_answer(page, 3)
    pad, says = page.locator("#pad").bounding_box(), page.locator("#says").bounding_box()
    assert page.evaluate("scrollY") == 0 and says["y"] + says["height"] <= pad["y"] and pad["y"] + pad["height"] <= 844
    until(page, "document.getElementById('trained-label').textContent.includes('%')")
    # Labels are of one line, and the last row of facts has no empty cell.
    labels = page.locator(".answers .choice label span")
    assert labels.evaluate_all("all => all.every((label) => label.getClientRects().length === 1)")
    last = page.locator("#facts div").last.bounding_box()
    whole = page.locator("#facts").bounding_box()
    assert abs(last["x"] + last["width"] - whole["x"] - whole["width"]) <= 2
    page.screenshot(path=SCREENSHOTS / "digits-390x844.png")


def test_with_the_keyboard(open_page: Any) -> None:
    page = open_page(viewport={"width": 1200, "height": 1400})
    for digit in range(10):
        page.keyboard.press(str(digit))
        expect_answer(page, digit)
    expect(page.locator("#live")).to_contain_text("a 9, ")
    page.keyboard.press("Escape")
    expect_answer(page, None)
    page.get_by_role("button", name="Clear").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "weights"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect_answer(page, 0)
    draw(page, STROKES[1])  # takes the sample's place
    expect_answer(page, 1)
    assert page.locator(".samples [aria-pressed=true]").count() == 0


def test_the_samples_are_held_out_images(open_page: Any) -> None:
    images, labels = np.load(DIGITS / "images.npy"), np.load(DIGITS / "labels.npy")
    known = {(int(label), image.tobytes()) for image, label in zip(images, labels)}
    samples = open_page().evaluate("import('/demo/digits/samples.js').then(({samples}) => samples)")
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
    page = open_page(
        ready=False, routes={"**/digits*.wasm": lambda route: route.fulfill(status=404, body="<h1>Not found</h1>")}
    )
    error = page.locator("#error")
    for part in ("could not be loaded", "HTTP 404", "digits"):
        expect(error).to_contain_text(part, timeout=5000)


@pytest.mark.parametrize("name", ["digits.wasm", "digits.relaxed.wasm"])
def test_every_held_out_image(open_page: Any, name: str) -> None:
    """JAX's logits, through the loader in Chromium."""
    images = np.load(DIGITS / "images.npy").astype(np.float32) / 16
    logits = np.load(DIGITS / "logits.npy")
    script = """async ([name, data]) => {
      const { load } = await import('/xla_wasm.js');
      const exe = await load('/demo/digits/' + name);
      const images = new Float32Array(Uint8Array.from(atob(data), c => c.charCodeAt(0)).buffer);
      const out = [];
      for (let i = 0; i < images.length; i += 64) out.push(Array.from(exe.run(images.subarray(i, i + 64))[0]));
      return out;
    }"""
    got = np.array(open_page().evaluate(script, [name, base64.b64encode(images.tobytes()).decode()]))
    np.testing.assert_allclose(got, logits, rtol=0, atol=1e-4)
    assert (got.argmax(1) == logits.argmax(1)).all()


def set_slider(page: Page, label: str, presses: int) -> None:
    """Moves a slider, by the keyboard, to so many places from its low end."""
    page.get_by_label(label, exact=True).focus()
    page.keyboard.press("Home")
    for _ in range(presses):
        page.keyboard.press("ArrowRight")


def steps(page: Page) -> int:
    """Returns the number of steps that the page says it has trained."""
    found = re.search(r"([0-9]+) step", page.locator("#status").inner_text())
    assert found
    return int(found[1])


def share(text: str) -> float:
    """The fraction that a text such as `Trained here: 97.5 %` states."""
    found = re.search(r"([0-9.]+)\s%", text)
    assert found, text
    return float(found[1]) / 100


def bars(page: Any) -> list[str]:
    """The lengths of the bars: the probabilities to all their digits."""
    found: list[str] = page.locator(".bars *").evaluate_all("all => all.map(x => x.style.transform).filter(Boolean)")
    assert len(found) == 10
    return found


def test_train_and_classify(open_page: Any) -> None:
    """The weights trained on the page read what is drawn; before, they are random and know no better than chance."""
    page = open_page(viewport={"width": 1280, "height": 900})
    training(page, "fresh")
    assert share(page.locator("#accuracy-value").inner_text()) < 0.5
    draw(page, STROKES[3])
    set_slider(page, "Epochs", 2)
    assert page.locator("#epochs-value").inner_text() == "6"
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_label("Trained here")).to_be_checked()
    training(page, "running")
    training(page, "done")
    expect(page.locator("#announce")).to_contain_text("Training is over")

    curve = page.locator("#loss svg").get_attribute("aria-label") or ""
    began, ended = (float(value) for value in re.findall(r"[0-9]+\.[0-9]+", curve))
    assert began > 2 and ended < 0.5, curve
    assert abs(float(page.locator("#loss-value").inner_text()) - ended) < 0.01
    assert share(page.locator("#accuracy-value").inner_text()) > 0.9
    assert "held-out images: from" in (page.locator("#accuracy svg").get_attribute("aria-label") or "")
    assert steps(page) == 6 * 22 and int(page.locator("#speed").inner_text()) > 0
    assert page.locator("#progress").evaluate("bar => bar.value") == 1

    # What was drawn before is read by the new weights; so are the others; the switch goes back and forth.
    expect_answer(page, 3)
    assert share(page.locator("#trained-label").inner_text()) > 0.9
    assert share(page.locator("#shipped-label").inner_text()) > 0.99
    right = 0
    for digit in (0, 1, 4, 7, 2):
        page.get_by_role("button", name="Clear").click()
        expect_answer(page, None)
        draw(page, STROKES[digit])
        expect(page.locator("#digit")).not_to_have_text("–")
        right += page.locator("#digit").inner_text() == str(digit)
    assert right >= 4
    trained = bars(page)
    page.get_by_label("Trained here").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_label("Shipped")).to_be_checked()
    expect_answer(page, 2)
    for _ in range(200):  # the answer may still be the other weights'
        if bars(page) != trained:
            break
        page.wait_for_timeout(50)
    assert bars(page) != trained

    # The curve in words and figures, for those who do not see it.
    page.get_by_text("The curves as a table").click()
    rows = [row.split() for row in page.locator("#rows tr").all_inner_texts()]
    assert [row[0] for row in rows] == [str(epoch) for epoch in range(1, 7)]
    assert float(rows[0][1]) > float(rows[-1][1]) and share(" ".join(rows[-1])) > 0.9
    wrong = page.locator("#wrong button")
    missed = int(page.locator("#wrong-title").inner_text().split()[-3])
    assert wrong.count() == min(missed, 14) and missed == round(
        360 * (1 - share(page.locator("#accuracy-value").inner_text()))
    )
    if missed:
        said = wrong.first.inner_text().split()[-1]
        page.get_by_label("Trained here").check()
        wrong.first.click()
        expect_answer(page, int(said))
    page.screenshot(path=SCREENSHOTS / "digits-trained.png", full_page=True)


def test_pause_go_on_and_reset(open_page: Any) -> None:
    page = open_page()
    training(page, "fresh")
    set_slider(page, "Epochs", 29)
    page.get_by_role("button", name="Start").focus()
    page.keyboard.press("Space")
    training(page, "running")
    until(page, "document.querySelectorAll('#loss polyline').length === 2")
    page.get_by_role("button", name="Pause").click()
    training(page, "paused")
    # What was under way may still come in; after that nothing does.
    page.wait_for_timeout(500)
    before = steps(page)
    page.wait_for_timeout(500)
    assert steps(page) == before > 0
    page.get_by_role("button", name="Go on").click()
    until(page, f"Number(document.getElementById('status').innerText.match(/([0-9]+) step/)[1]) > {before}")
    page.get_by_role("button", name="Reset").click()
    training(page, "fresh")
    expect(page.locator("#status")).to_contain_text("not trained yet")
    assert page.locator("#loss-value").inner_text() == "–"
    assert page.locator("#loss polyline").count() == 0
    assert share(page.locator("#accuracy-value").inner_text()) < 0.5


def test_a_seed_gives_one_curve(open_page: Any) -> None:
    page = open_page()
    training(page, "fresh")
    set_slider(page, "Epochs", 0)
    curves = []
    for seed in ("5", "5", "12"):
        field = page.get_by_label("Random seed")
        field.click()
        page.keyboard.press("Control+a")
        page.keyboard.type(seed)
        assert page.locator("body").get_attribute("data-answer") == ""  # the digits typed were not for the pad
        if curves:
            page.get_by_role("button", name="Reset").click()
            training(page, "fresh")
        # Before the first training the seed takes effect when one leaves the field.
        page.get_by_role("button", name="Start").click()
        training(page, "done")
        curves.append(page.locator("#loss polyline.raw").get_attribute("points"))
    assert curves[0] == curves[1] != curves[2]
    # More epochs than it has had: it goes on. A seed that is none is refused.
    set_slider(page, "Epochs", 1)
    page.get_by_role("button", name="Go on").click()
    until(page, "document.getElementById('status').innerText.includes('88 steps')")
    training(page, "done")
    page.get_by_label("Random seed").fill("-3")
    page.get_by_role("button", name="Reset").click()
    assert page.get_by_label("Random seed").evaluate("field => !field.validity.valid")
    assert steps(page) == 88


def test_training_fails_with_a_sentence(open_page: Any) -> None:
    """A rate at which weights overflow; and a training step that is not there, which leaves the drawing alone."""
    page = open_page()
    training(page, "fresh")
    page.get_by_label("Learning rate").evaluate(
        "slider => { slider.max = 120; slider.value = 120; slider.dispatchEvent(new Event('input')); }"
    )
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#training-error")).to_contain_text("the learning rate is too high")
    page.get_by_role("button", name="Reset").click()
    training(page, "fresh")
    expect(page.locator("#training-error")).to_be_hidden()

    gone = open_page(ready=False, routes={"**/step*.wasm": lambda route: route.fulfill(status=404, body="Not found")})
    expect(gone.locator("#training-error")).to_contain_text("step")
    expect(gone.locator("#training-error")).to_contain_text("404")
    assert gone.get_by_role("button", name="Start").is_disabled()
    gone.keyboard.press("4")
    expect_answer(gone, 4)


@pytest.mark.parametrize(
    ("name", "scheme"), [("desktop", "light"), ("phone", "dark"), *seeds.more(("desktop", "dark"), ("phone", "light"))]
)
def test_pictures(open_page: Any, name: str, scheme: str) -> None:
    """Screenshots in the middle of a training, and on a phone, where nothing sticks out."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}} if name == "desktop" else PHONE
    page = open_page(color_scheme=scheme, **options)
    training(page, "fresh")
    page.keyboard.press("5")
    page.get_by_role("button", name="Start").click()
    until(page, "document.querySelector('#progress').value > 0.15")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=SCREENSHOTS / f"digits-{name}-{scheme}.png", full_page=True)
