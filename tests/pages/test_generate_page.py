"""The page that trains a transformer and has it write, in Chromium; and the modules that it runs."""

from __future__ import annotations

import json
import re
import struct
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playwright.sync_api import Page, expect

import xla_wasm
from tests.support import seeds
from tests.support.browsing import PHONE, SCREENSHOTS, training
from tests.support.paths import ROOT
from xla_wasm import safetensors
from xla_wasm.hlo.ir import Module
from xla_wasm.site import pages
from xla_wasm.target import RELAXED_SIMD

sys.path.insert(0, str(ROOT / "examples" / "generate"))
import modules
from modules import gpt2
from vocabulary import Pairs

LONG = 600_000  # milliseconds: three hundred steps on a machine that others use
POEM = "Я вас любил: любовь ещё, быть может,\nВ душе моей угасла не совсем;\nНо пусть она вас больше не тревожит;\n" * 8


@pytest.fixture
def generate(open_page: Any) -> Any:
    """Opens the page."""
    return lambda **options: open_page("/demo/generate/", **options)


def picture(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"generate-{name}.png", full_page=True)


def number(page: Page, place: str) -> float:
    return float(re.sub(r"[^\d.]", "", page.locator(place).inner_text()))


def steps(page: Page, count: int) -> None:
    """Waits until it has been trained for so long."""
    expires = time.monotonic() + LONG / 1000
    while not (page.locator("#step").count() and number(page, "#step") >= count):
        assert time.monotonic() < expires
        page.wait_for_timeout(100)


def opened(page: Page, *files: tuple[str, bytes] | Path) -> None:
    """Gives files to the page."""
    given: Any = [
        f if isinstance(f, Path) else {"name": f[0], "mimeType": "application/octet-stream", "buffer": f[1]}
        for f in files
    ]
    page.set_input_files("#file", given)


def writes(page: Page, prompt: str, temperature: float = 0) -> str:
    """Has the model write from a prompt until it pauses, and returns its text."""
    page.locator("#temperature").evaluate(f"t => {{ t.value = {temperature}; t.dispatchEvent(new Event('input')); }}")
    page.fill("#prompt", prompt)
    page.get_by_role("button", name="Write", exact=True).click()
    training(page, "paused")
    return page.locator("#output").inner_text()


# The modules


def test_the_step_is_that_of_jax() -> None:
    """Two steps of the module that ships: loss, weights, moments."""
    weights = jax.jit(modules.initial)(jax.random.key_data(jax.random.key(3)))["weights"]
    zeros = {name: jnp.zeros_like(w) for name, w in weights.items()}
    state = {
        "weights": weights,
        "momentum": zeros,
        "square": {n: z for n, z in zeros.items() if not modules.is_matrix(n)},
    }
    texts = np.random.default_rng(0).integers(0, 40, (modules.BATCH, modules.OWN.context + 1)).astype(np.int32)
    (model,) = (m for m in pages.MODELS if (m.folder, m.name) == ("generate", "step"))
    exe = xla_wasm.load(pages.compiled(model, "simd128"))
    for name, array in gpt2.leaves(state, "x").items():
        exe.set(name[2:], np.asarray(array))
    exe.set("count", np.float32(0))
    count, step = jnp.float32(0), jax.jit(modules.step)
    for _ in range(2):
        (value,) = exe.run(texts, np.int32(40))
        expected = step(*(state[part] for part in ("weights", "momentum", "square")), count, texts, np.int32(40))
        state, count = {part: expected[part] for part in state}, expected["count"]
        np.testing.assert_allclose(value, expected["loss"], rtol=1e-5)
    assert exe.get("count") == 2
    for name, array in gpt2.leaves(state, "x").items():
        np.testing.assert_allclose(
            exe.get(name[2:]), array, atol=2e-3 if "weights" in name else 1e-2 * float(jnp.abs(array).max())
        )


def test_a_matrix_is_made_orthogonal() -> None:
    for shape in ((64, 192), (192, 64), (64, 64)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        values = np.linalg.svd(np.asarray(modules.orthogonal(x)), compute_uv=False)
        assert 0.4 < values.min() and values.max() < 1.4


def test_the_modules_that_ship_are_those_of_the_example() -> None:
    for name, module in modules.modules().items():
        shipped = (ROOT / "examples" / "generate" / f"{name}.hlo.pb").read_bytes()
        made, again = (Module.from_proto(data).instructions() for data in (shipped, module.to_proto()))
        assert [(x.opcode, str(x.shape)) for x in made] == [(x.opcode, str(x.shape)) for x in again], name


def test_sizes_are_the_same_in_python_and_in_the_page(generate: Any) -> None:
    sizes = generate().evaluate(
        "import('/demo/generate/published.js').then(({SIZES, shapes}) => SIZES.map(s => ({...s, shapes: shapes(s)})))"
    )
    for size, config in zip(sizes, (modules.OWN, gpt2.TINY, modules.DISTIL, gpt2.SMALL), strict=True):
        assert {name: tuple(shape) for name, shape in size["shapes"].items()} == config.shapes
    assert [size["module"] for size in sizes] == [m.name for m in pages.MODELS if m.folder == "generate"][2:]


# Training and writing


def test_it_learns_and_writes(generate: Any) -> None:
    """100 steps from random weights: below 2.6 nats a character, on text whose single characters have 3.3; after 300
    below 2.2."""
    page = generate(viewport={"width": 1200, "height": 1000})
    expect(page.locator("#text-facts")).to_have_text("238,006 characters, 69 different ones.")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#samples li").first).to_contain_text("0 steps", timeout=60_000)
    expect(page.locator("#output")).not_to_be_empty()
    steps(page, seeds.count(100, 300))
    page.get_by_role("button", name="Pause").click()
    assert number(page, "#loss-value") < (2.2 if seeds.exhaustive else 2.6)
    assert page.locator("#samples li").count() >= 3
    picture(page, "light")
    text = writes(page, "ROMEO.", 0.8)
    assert text.startswith("ROMEO.") and len(text) > 500
    # After 100 steps there need not be a word yet, but there are pairs of letters; by chance it would be less than one.
    learned = (" the ", " and ", " to ", " I ") if seeds.exhaustive else ("th", "he", "an")
    assert sum(map(text.count, learned)) > 3
    assert number(page, "#rate") >= 200
    expect(page.locator("#rate-unit")).to_have_text("characters a second")
    page.emulate_media(color_scheme="dark")
    picture(page, "dark")


def test_controls(generate: Any) -> None:
    """The same seed gives the same writing; pause, go on and reset do what they say."""
    page = generate()
    first = writes(page, "A", 0.8)
    page.get_by_role("button", name="Start").click()
    page.wait_for_selector("#step")
    page.get_by_role("button", name="Pause").click()
    training(page, "paused")
    page.wait_for_timeout(500)
    before = number(page, "#step")
    assert page.locator("#loss-value").inner_text() != "–"
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#step")).not_to_have_text(f"{before:.0f} steps", timeout=60_000)
    page.get_by_role("button", name="Reset").click()
    training(page, "fresh")
    expect(page.locator("#status")).to_have_text("Random weights, not trained yet")
    expect(page.locator("#loss-value")).to_have_text("–")
    assert writes(page, "A", 0.8) == first
    page.fill("#seed", "2")
    page.locator("#seed").blur()
    training(page, "fresh")
    assert writes(page, "A", 0.8) != first


def test_a_text_of_ones_own(generate: Any) -> None:
    page = generate()
    page.get_by_text("Your own", exact=True).click()
    page.get_by_label("Paste a text").fill("Too short.")
    page.get_by_role("button", name="Learn from this").click()
    expect(page.locator("#text-error")).to_have_text(
        "The text has 10 characters. Give at least 200; it learns well from 20,000 on."
    )
    page.get_by_label("Paste a text").fill(POEM)
    page.get_by_role("button", name="Learn from this").click()
    expect(page.locator("#text-facts")).to_have_text(f"{len(POEM)} characters, {len(set(POEM))} different ones.")
    expect(page.locator("#text-error")).to_be_hidden()
    page.get_by_role("button", name="Start").click()
    steps(page, 12)
    text = writes(page, "Я вас", 0.8)
    assert text.startswith("Я вас") and set(text) <= set(POEM)
    # More characters than the model has places for.
    many = "".join(chr(0x4E00 + i) for i in range(150)) + "abc\r\n" * 100
    opened(page, ("many.txt", many.encode()))
    expect(page.locator("#text-facts")).to_contain_text("128 different ones, and 26 that are too rare are left out.")


# Files that visitors bring


def made(tensors: dict[str, tuple[str, list[int], int]], data: bytes = b"") -> bytes:
    """A file whose tensors have a type, a shape and so many bytes."""
    header, end = dict[str, Any](), 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def own_size(change: dict[str, tuple[str, list[int], int] | None], data: bool = True) -> bytes:
    tensors = {name: ("F16", [*shape], 2 * int(np.prod(shape))) for name, shape in gpt2.TINY.shapes.items()}
    changed = {name: tensor for name, tensor in (tensors | change).items() if tensor}
    return made(changed, bytes(sum(t[2] for t in changed.values())) if data else b"")


REFUSED = {
    "no safetensors": ("w.safetensors", b"nothing", "is no safetensors file, or it is cut short. Wanted is the model.safetensors"),  # noqa: E501
    "pytorch": ("pytorch_model.bin", b"PK\x03\x04" + bytes(99), "is a file of PyTorch"),
    "no json": ("w.safetensors", struct.pack("<Q", 4) + b"{bad" + bytes(9), "what it begins with is not JSON"),
    "another model": ("w.safetensors", made({"conv.weight": ("F32", [2], 8)}, bytes(8)), "it is no GPT-2: its first names are conv.weight"),  # noqa: E501
    "another size": (
        "medium.safetensors",
        made({"wte.weight": ("F32", [50257, 1024], 0), "wpe.weight": ("F32", [1024, 1024], 0), "h.23.ln_1.weight": ("F32", [1024], 0)}),  # noqa: E501
        "is a GPT-2 of 24 layers, 1024 wide, with 50257 tokens and 1024 positions, and the site has no module of that size",  # noqa: E501
    ),
    "a weight missing": ("w.safetensors", own_size({"h.1.ln_1.bias": None}), "h.1.ln_1.bias is missing"),
    "another shape": ("w.safetensors", own_size({"h.1.ln_1.bias": ("F16", [7], 14)}), "h.1.ln_1.bias is [7], where that has [128]"),  # noqa: E501
    "another type": ("w.safetensors", own_size({"ln_f.bias": ("I8", [128], 128)}), "has ln_f.bias as I8; F32, F16 and BF16 can be read"),  # noqa: E501
    "cut short": ("w.safetensors", own_size({}, data=False), "is cut short"),
    "a vocabulary alone": ("vocab.json", b"{}", "Add the weights to them: model.safetensors"),
}  # fmt: skip


def test_files_that_are_refused(generate: Any) -> None:
    page = generate()
    for name, data, says in REFUSED.values():
        opened(page, (name, data))
        expect(page.locator("#files-error")).to_contain_text(says)
    opened(page, ROOT / "examples" / "gpt2" / "tiny.safetensors")
    expect(page.locator("#files-error")).to_be_hidden()


def test_the_small_model_of_the_example(generate: Any) -> None:
    """Published names in f16: its likeliest characters are those that JAX says."""
    page = generate()
    opened(page, ROOT / "examples" / "gpt2" / "tiny.safetensors")
    expect(page.locator("#files-status")).to_contain_text("is ready: it writes above", timeout=60_000)
    expect(page.get_by_role("button", name="Start")).to_be_disabled()
    _, weights = gpt2.read(ROOT / "examples" / "gpt2" / "tiny.safetensors")
    text = writes(page, "ROMEO.")
    shown = text.encode()[:120]
    found = np.asarray(gpt2.logits(weights, jnp.asarray([*shown]), gpt2.TINY)).argmax(-1)
    assert bytes(found[5:-1].astype(np.uint8).tolist()) == shown[6:]
    page.get_by_role("button", name="Back to training").click()
    expect(page.get_by_role("button", name="Start")).to_be_enabled()


def test_a_finished_writer_in_one_click(generate: Any) -> None:
    """It writes words of the plays at once, and the page's own model is untouched after it."""
    page = generate()
    page.get_by_role("button", name="Let a finished one write").click()
    expect(page.locator("#when")).to_have_text("A finished writer", timeout=60_000)
    training(page, "paused")
    text = page.locator("#output").inner_text()
    assert len(text) > 200 and re.search(r"\b(the|and|you|my)\b", text), text
    page.get_by_role("button", name="Back to training").click()
    expect(page.locator("#status")).to_have_text("Random weights, not trained yet")
    expect(page.get_by_role("button", name="Start")).to_be_enabled()


def test_weights_are_saved_and_opened(generate: Any, tmp_path: Path) -> None:
    page = generate()
    page.get_by_role("button", name="Start").click()
    steps(page, 10)
    page.get_by_role("button", name="Pause").click()
    text = writes(page, "The ")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save these weights").click()
    download.value.save_as(tmp_path / "w.safetensors")
    assert safetensors.read(tmp_path / "w.safetensors").keys() == modules.OWN.shapes.keys()
    page.get_by_role("button", name="Reset").click()
    training(page, "fresh")
    assert writes(page, "The ") != text
    opened(page, tmp_path / "w.safetensors")
    expect(page.locator("#files-status")).to_contain_text("The weights are in their place")
    expect(page.locator("#status")).to_have_text("Weights that you opened: train on, or write")
    expect(page.locator("#when")).to_have_text("from the weights opened")
    assert writes(page, "The ") == text


def test_a_published_model(generate: Any, tmp_path: Path) -> None:
    """Weights of DistilGPT-2's size under the old names, first without their vocabulary: the page writes what the
    module does in Python."""
    config = modules.DISTIL
    weights = gpt2.random_weights(config)
    gpt2.write(tmp_path / "plain.safetensors", weights)
    data = (tmp_path / "plain.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = {f"transformer.{name}": tensor for name, tensor in json.loads(data[8 : 8 + length]).items()}
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    letters = [*Pairs.letters().values()]
    words = [*letters, *(f"{a}{b}{c}" for a in letters[:200] for b in letters[:200] for c in "xy")][: config.vocabulary]
    words = list(dict.fromkeys(words))
    words += [f"<{i}>" for i in range(config.vocabulary - len(words))]
    vocabulary = json.dumps({word: i for i, word in enumerate(words)}).encode()

    page = generate()
    opened(page, tmp_path / "model.safetensors")
    expect(page.locator("#files-error")).to_contain_text(
        "The weights are those of DistilGPT-2. Now add vocab.json and merges.txt", timeout=60_000
    )
    opened(page, ("vocab.json", vocabulary), ("merges.txt", b"#version: 0.2\n"))
    expect(page.locator("#files-status")).to_contain_text("DistilGPT-2 is ready", timeout=LONG)
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator("#output")).not_to_be_empty()

    (model,) = (m for m in pages.MODELS if (m.folder, m.name) == ("generate", "distil"))
    exe = xla_wasm.load(pages.compiled(model, RELAXED_SIMD), threads=1)
    for name, array in weights.items():
        exe.set(f"weights.{name}", array.astype(np.float16).astype(np.float32))
    for name, array in gpt2.leaves(gpt2.initial(config, modules.PAST), "state").items():
        exe.set(name, array)
    tokens = [words.index(letter) for letter in "Ab"]
    for i in range(12):
        (drawn,) = exe.run(np.int32(tokens[i]), np.float32(0), np.int32(config.vocabulary))
        if i > 0:
            tokens.append(int(drawn))
    expected = "".join(words[token] for token in tokens[:8])
    assert writes(page, "Ab").startswith(expected)


def test_on_a_phone(generate: Any) -> None:
    page = generate(**PHONE)
    page.get_by_role("button", name="Start").click()
    page.wait_for_selector("#step")
    expect(page.locator("#samples li").first).to_contain_text("0 steps")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, "phone")


def test_a_host_without_headers(chromium: Any, static_host: str) -> None:
    """The module for threads runs on one where there is no shared memory, and the site as files has all that the page
    needs."""
    with chromium.new_context(service_workers="block") as context:
        page = context.new_page()
        page.goto(f"{static_host}/demo/generate/")
        page.wait_for_selector("body[data-ready=true]", timeout=60_000)
        assert not page.evaluate("crossOriginIsolated")
        page.get_by_role("button", name="Start").click()
        page.wait_for_selector("#step", timeout=60_000)
