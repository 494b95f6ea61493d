"""The page of a served model, in Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.support.paths import ROOT
from tests.support.served_models import server

if TYPE_CHECKING:
    from playwright.sync_api import Page

DIGITS = ROOT / "examples" / "digits"


def test_the_form_runs_the_model(page: Page, tmp_path: Path) -> None:
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if "Security Policy" in message.text else None)
    images = np.load(DIGITS / "images.npy")[:, :, :, None] / 16
    np.save(tmp_path / "image.npy", images[:1])
    expected = np.load(DIGITS / "logits.npy")
    with server(DIGITS / "digits.hlo.pb") as (_, url):
        page.goto(url)
        page.fill("textarea", " ".join(map(str, images[1].ravel())))
        page.click("text=Run")
        page.wait_for_selector(".bars meter")
        shown = [float(text) for text in page.locator(".bars span:not(.soft)").all_inner_texts()]
        np.testing.assert_allclose(shown, expected[1], atol=1e-3)
        # A file counts, whatever the text says.
        page.set_input_files("input[type=file]", tmp_path / "image.npy")
        page.click("text=Run")
        page.wait_for_function(
            "text => document.querySelector('.bars span:not(.soft)').textContent !== text", arg=str(shown[0])
        )
        shown = [float(text) for text in page.locator(".bars span:not(.soft)").all_inner_texts()]
        np.testing.assert_allclose(shown, expected[0], atol=1e-3)
        page.click("text=Fill in random numbers")
        page.click("text=Run")
        page.wait_for_selector("#answer:not([aria-busy])")
        page.fill("textarea", "1, 2, what")
        page.click("text=Run")
        page.wait_for_selector(".problem")
        assert "'what' is not a number" in page.inner_text("#answer")
        page.goto(url + "docs")
        assert "f32[1,8,8,1]" in page.inner_text("main")
    assert not complaints


def test_the_form_goes_without_scripts(page: Page) -> None:
    assert page.context.browser is not None
    with (
        page.context.browser.new_context(java_script_enabled=False) as plain,
        server(DIGITS / "digits.hlo.pb") as (_, url),
    ):
        still = plain.new_page()
        still.goto(url)
        assert still.locator("text=Fill in").count() == 1 and not still.locator("text=Fill in").is_visible()
        still.fill("textarea", " ".join(["0.5"] * 64))
        still.click("text=Run")
        still.wait_for_url(url)
        assert still.inner_text("body").startswith('{"result":[[')
