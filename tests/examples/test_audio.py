"""The example that echoes: what its processor gives is the convolution, and the page plays."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.web_server import Site

sys.path.insert(0, str(ROOT / "examples" / "audio"))
import room

BLOCKS = 100
RENDER = """async (blocks) => {
  const { clap, room } = await import('./main.js');
  const context = new OfflineAudioContext(1, 128 * blocks, 48000);
  const node = await room(context);
  node.parameters.get('wet').value = 0.25;
  const source = clap(context);
  source.connect(node).connect(context.destination);
  source.start(0.01);
  const sound = (await context.startRendering()).getChannelData(0);
  return [source.buffer, { getChannelData: () => sound }].map((buffer) => Array.from(buffer.getChannelData(0)));
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("audio") / "audio"
    shutil.copytree(ROOT / "examples" / "audio", folder, ignore=shutil.ignore_patterns("model.*", "xla-wasm"))
    found = re.search(r"\$ python (.*)", (folder / "README.md").read_text(encoding="utf-8"))
    assert found
    output([sys.executable, found[1].replace("examples/audio", str(folder))])
    with Site(folders={"/": folder}).serving() as site:
        yield site


def test_the_echo(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/index.html")
    clap, sound = (np.array(samples) for samples in page.evaluate(RENDER, BLOCKS))
    heard = np.zeros(128 * BLOCKS)
    heard[480 : 480 + len(clap)] = clap
    expected = 0.75 * heard + 0.25 * np.convolve(heard, room.impulse())[: len(heard)]
    np.testing.assert_allclose(sound, expected, atol=1e-5)


def test_the_page(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/index.html")
    page.get_by_role("button", name="Clap").click()
    expect(page.locator("#status")).to_contain_text("ms for a block")
