"""The example of a browser extension, made by the command that its README names and loaded into Chromium: its popup and
its background, with a sidecar in both; and what they say without the policy that its manifest has."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect, sync_playwright

import xla_wasm
from tests.support.paths import ROOT
from tests.support.processes import output

EXTENSION = ROOT / "examples" / "extension"
DIGITS = ROOT / "examples" / "digits" / "digits.hlo.pb"
ONE = [(row, column) for row in range(8) for column in (3, 4)]
"""The squares of a digit."""
ARGUMENTS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
    "--disable-features=DisableLoadExtensionCommandLineSwitch"
).split()
NAMES = ("Digits", "Without a policy")

Extensions = dict[str, Page]


@pytest.fixture(scope="module")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extensions]:
    """The popup, opened in a tab, of the extension and of one that lacks the policy. The shell of
    Chromium in which other tests open pages has no extensions."""
    path = shutil.which("chromium")
    assert path, "no chromium: ./build.sh test installs it with apt"
    base = tmp_path_factory.mktemp("extensions")
    folders = [base / "digits", base / "confined"]
    shutil.copytree(EXTENSION, folders[0], ignore=shutil.ignore_patterns("model.*", "xla-wasm"))
    found = re.search(r"\$ xla-wasm (compile .*)", (EXTENSION / "README.md").read_text(encoding="utf-8"))
    assert found
    words = [
        word.replace("examples/extension", str(folders[0])).replace("examples/digits", str(DIGITS.parent))
        for word in found[1].split()
    ]
    output([sys.executable, "-m", "xla_wasm", *words])
    shutil.copytree(*folders)
    manifest = json.loads((EXTENSION / "manifest.json").read_text(encoding="utf-8"))
    del manifest["content_security_policy"]
    (folders[1] / "manifest.json").write_text(json.dumps(manifest | {"name": NAMES[1]}))
    listed = ",".join(map(str, folders))
    arguments = [*ARGUMENTS, f"--disable-extensions-except={listed}", f"--load-extension={listed}"]
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            base / "profile", executable_path=path, headless=False, args=arguments
        )
        while len(context.service_workers) < len(folders):
            context.wait_for_event("serviceworker")
        made: Extensions = {}
        for worker in context.service_workers:
            page = context.new_page()
            page.goto(worker.url.replace("background.js", "popup.html"))
            made[page.evaluate("chrome.runtime.getManifest().name")] = page
        assert set(made) == set(NAMES)
        yield made
        context.close()


def drawn(page: Page) -> None:
    page.bring_to_front()
    for row, column in ONE:
        page.locator("#pad i").nth(8 * row + column).click()
    page.get_by_role("button", name="Ask the background").click()


def test_both_read_a_digit(extensions: Extensions) -> None:
    """The background is a service worker, which has no `import()`, and fetches weights."""
    page = extensions["Digits"]
    drawn(page)
    image = np.zeros((1, 8, 8, 1), np.float32)
    for row, column in ONE:
        image[0, row, column] = 1
    exe = xla_wasm.load(xla_wasm.compile(xla_wasm.HloModule.from_proto(DIGITS.read_bytes())))
    digit = str(int(exe.run(image)[0].argmax()))
    expect(page.locator("#here")).to_have_text(digit)
    expect(page.locator("#there")).to_have_text(digit)
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#there")).to_be_empty()


def test_without_the_policy(extensions: Extensions) -> None:
    """Both say what the manifest has to have."""
    page = extensions["Without a policy"]
    drawn(page)
    for place in ("#here", "#there"):
        expect(page.locator(place)).to_contain_text("'wasm-unsafe-eval'")
        expect(page.locator(place)).to_contain_text("content_security_policy.extension_pages in manifest.json")


def test_the_document() -> None:
    """This manifest has all that docs/web.md says of one."""
    text = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")
    found = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    manifest = json.loads((EXTENSION / "manifest.json").read_text(encoding="utf-8"))
    assert found and json.loads(found[1]).items() <= manifest.items() and manifest["manifest_version"] == 3
