"""The page on which a program runs on several web workers, in Chromium and Firefox; and the programs that it runs."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import xla_wasm
from tests.support import seeds
from tests.support.browsing import PHONE, SCREENSHOTS, WAIT, training, until
from tests.support.paths import ROOT
from xla_wasm.site import collectives, pages

OPCODES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")
Values = list[list[float]]


def expected(opcode: str, before: Values) -> Values:
    """Returns the values of all devices after a collective, which had `before`."""
    x = np.array(before)
    n = len(x)
    results = {
        "all-reduce": lambda: [x.sum(0)] * n,
        "all-gather": lambda: [x.ravel()] * n,
        "reduce-scatter": lambda: np.split(x.sum(0), n),
        "all-to-all": lambda: [np.concatenate([np.split(row, n)[d] for row in x]) for d in range(n)],
        "collective-permute": lambda: np.roll(x, 1, 0),
        "collective-broadcast": lambda: [x[0]] * n,
    }
    return [np.asarray(row).tolist() for row in results[opcode]()]


def sent(opcode: str, n: int, size: int) -> list[dict[tuple[int, int], int]]:
    """The bytes that go from one device to another in each exchange, where arrays have `size` bytes."""
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    block = size // n
    if opcode == "collective-permute":
        return [{(a, (a + 1) % n): size for a in range(n)}]
    if opcode == "collective-broadcast":
        return [{(0, b): size for b in range(1, n)}]
    if opcode == "all-reduce":
        # Small arrays go to all, of large ones each device adds up a block.
        return [dict.fromkeys(pairs, size)] if size < 32768 else [dict.fromkeys(pairs, block)] * 2
    return [dict.fromkeys(pairs, block)]


# The programs


@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("devices", [1, 3, 8])
def test_the_collectives(opcode: str, devices: int) -> None:
    """More than once in a run, and where the devices do not divide the size."""
    size = collectives.SIZES[1]
    program = collectives.Collective(opcode, devices, size)
    assert program in collectives.PROGRAMS
    exe = xla_wasm.load(xla_wasm.compile(program.module(), program.options))
    (x,) = (p.shape.dimensions[0] for p in exe.parameters if p.name == "x")
    (y,) = (p.shape.dimensions[0] for p in exe.parameters if p.name == "y")
    assert size - 4 * devices < 4 * max(x, y) <= size
    before = [(np.arange(x, dtype=np.float32) + 10_000 * d) for d in range(devices)]
    for d, values in enumerate(before):
        exe.set("x", values, device=d) if devices > 1 else exe.set("x", values)
    exe.run_replicated([[3]] * devices)
    after = expected(opcode, [values.tolist() for values in before])
    for d in range(devices):
        np.testing.assert_array_equal(exe.get("y", device=d), after[d])


@pytest.mark.parametrize("workers", [3, *seeds.more(1, 8)])
def test_the_step_is_that_of_jax(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some steps: losses and weights are those of the same function on as many devices of JAX, and the same on all
    workers."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "workers"))
    functions: Any = importlib.import_module("step")
    (model,) = (m for m in pages.MODELS if (m.folder, m.name) == ("workers", f"step-{workers}"))
    exe = xla_wasm.load(pages.compiled(model, "simd128"))
    params = jax.tree.map(np.asarray, functions.init(jax.random.key(1)))
    velocity = jax.tree.map(np.zeros_like, params)
    for group, values in (("params", params), ("velocity", velocity)):
        for name, value in values.items():
            exe.set(f"{group}.{name}", value)
    step = jax.jit(functions.shared(workers))
    rows, random = functions.rows(workers), np.random.default_rng(0)
    assert 0 <= rows - functions.BATCH < workers and rows % workers == 0
    for _ in range(3):
        pixels = random.integers(0, 17, (rows, 8, 8)).astype(np.uint8)
        labels = random.integers(0, 10, rows).astype(np.uint8)
        labels[functions.BATCH :] = functions.NOBODY
        wanted = step(params, velocity, pixels, labels, np.float32(0.05))
        params, velocity = wanted["params"], wanted["velocity"]
        inputs = [pixels, labels, np.float32(0.05)]
        (loss,) = exe.run_global(inputs) if workers > 1 else exe.run(*inputs)
        np.testing.assert_allclose(loss, wanted["loss"], rtol=1e-5)
    for name, value in params.items():
        first = exe.get(f"params.{name}", device=0)
        np.testing.assert_allclose(first, value, rtol=1e-4, atol=1e-6)
        for d in range(1, workers):
            assert exe.get(f"params.{name}", device=d).tobytes() == first.tobytes()


# The page


@pytest.fixture
def open_elsewhere(chromium: Browser, static_host: str) -> Iterator[Any]:
    """Opens the page on that host, without a service worker that could add headers; afterwards, that it reported no
    error."""
    contexts = []
    complaints: list[str] = []

    def open_(query: str = "", **options: Any) -> Page:
        context = chromium.new_context(service_workers="block", **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{static_host}/demo/workers/{query}")
        page.wait_for_selector("body[data-ready=true]", timeout=WAIT)
        assert not page.evaluate("crossOriginIsolated")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def open_workers(open_page: Any) -> Any:
    """Opens the page where it is isolated."""

    def open_(query: str = "", **options: Any) -> Page:
        page: Page = open_page(f"/demo/workers/{query}", **options)
        return page

    return open_


def shown(page: Page) -> None:
    """Waits until the collective has run, and all of it has been shown."""
    page.wait_for_selector("body[data-collective=shown][data-shown=all]", timeout=WAIT)


def values(page: Page, when: str) -> Values:
    """The values of the workers, before or after."""
    rows: list[list[str]] = page.locator("#values tr").evaluate_all(
        f"rows => rows.map(row => [...row.querySelectorAll('.{when} .cell')].map(cell => cell.textContent))"
    )
    return [[float(value) for value in row] for row in rows]


def in_bytes(text: str) -> int:
    """Returns the number of bytes that a size such as `64 KiB` states."""
    amount, unit = text.split()
    return round(float(amount) * {"bytes": 1, "KiB": 2**10, "MiB": 2**20}[unit])


def matrices(page: Page) -> list[dict[tuple[int, int], int]]:
    """The bytes that each exchange sent from one worker to another, as the page's tables have them."""
    tables: list[list[list[str]]] = page.locator("#matrices table").evaluate_all(
        "all => all.map(table => [...table.tBodies[0].rows].map(row => [...row.cells].slice(1).map(cell => "
        "cell.textContent)))"
    )
    return [
        {(a, b): in_bytes(cell) for a, row in enumerate(rows) for b, cell in enumerate(row) if cell != "·"}
        for rows in tables
    ]


def number(page: Page, selector: str) -> float:
    """The first number that an element shows."""
    found = re.search(r"[0-9][0-9,.]*", page.locator(selector).inner_text())
    assert found, selector
    return float(found[0].replace(",", ""))


@pytest.mark.parametrize(
    ("workers", "transport"),
    [
        *((2, "not isolated"), (2, "messages"), (4, "shared")),
        *seeds.more((2, "shared"), (8, "shared"), (4, "messages"), (8, "messages")),
        *seeds.more((4, "not isolated"), (8, "not isolated")),
    ],
)
def test_every_collective(open_workers: Any, open_elsewhere: Any, transport: str, workers: int) -> None:
    """Values after it are those that they should be, and what the exchanges sent is what they should send."""
    still = {"reduced_motion": "reduce"}
    if transport == "not isolated":
        page = open_elsewhere(f"?workers={workers}&transport=shared", **still)
    else:
        page = open_workers(f"?workers={workers}&transport={transport}", **still)
    by = page.locator("input[name=transport]:checked")
    assert by.get_attribute("value") == ("shared" if transport == "shared" else "messages")
    for i, opcode in enumerate(OPCODES):
        # The first one is there already.
        if i:
            page.get_by_label(opcode, exact=True).check()
        shown(page)
        before = values(page, "before")
        assert len(before) == workers and len(before[0]) == (1 if opcode == "all-gather" else workers)
        assert values(page, "after") == expected(opcode, before)
        assert matrices(page) == sent(opcode, workers, 65536)
        program = collectives.Collective(opcode, workers, collectives.FEW).module().to_text()
        line = re.search(rf"(f32\[\d+\]) {opcode}\(.*?\)(.*)", program)
        assert (
            line
            and re.sub(r"\(.*?\)", "", page.locator("#hlo").inner_text(), count=1) == f"y = {line[1]} {opcode}{line[2]}"
        )
    expect(page.locator("#sent")).to_contain_text("worker 0 sends", ignore_case=True)


def test_sizes_and_one_worker(open_workers: Any) -> None:
    page = open_workers("?workers=2", reduced_motion="reduce")
    shown(page)
    page.get_by_label("Array on each worker").focus()
    page.keyboard.press("Home")
    assert page.locator("#size-value").inner_text() == "4 KiB"
    shown(page)
    assert matrices(page) == sent("all-reduce", 2, 4096)
    page.keyboard.press("End")
    assert page.locator("#size-value").inner_text() == "4 MiB"
    shown(page)
    assert matrices(page) == sent("all-reduce", 2, 2**22)
    expect(page.locator("#sent")).to_have_text(
        "In each of 2 exchanges, each worker sends 2 MiB to one other: 8 MiB in all."
    )
    page.get_by_label("Workers", exact=True).focus()
    page.keyboard.press("Home")
    shown(page)
    assert values(page, "before") == values(page, "after") == [[0]]
    assert matrices(page) == []
    expect(page.locator("#sent")).to_have_text("There is nobody to send to.")


def test_exchanges_are_shown_one_after_another(open_workers: Any) -> None:
    """Packets travel, values come when all have arrived, and it can be seen again."""
    page = open_workers("?workers=4")
    page.wait_for_selector("body[data-shown='0']")
    expect(page.locator("#sent")).to_have_text("Exchange 1 of 2: each worker sends 16 KiB to each of 3 others")
    assert page.locator("#ring .packet").count() == 12 and page.locator("#values.pending").count() == 1
    place = page.locator("#ring .packet").first.get_attribute("transform")
    until(page, f"document.querySelector('#ring .packet').getAttribute('transform') !== '{place}'")
    page.wait_for_selector("body[data-shown='1']")
    shown(page)
    assert page.locator("#ring .packet").count() == 0 and page.locator("#values.pending").count() == 0
    assert "In each of 2 exchanges" in (page.locator("#ring svg").get_attribute("aria-label") or "")
    page.get_by_role("button", name="Show again").click()
    page.wait_for_selector("body[data-shown='0']")
    shown(page)


LABELS = """
async ({count, sendings}) => {
  const { Ring } = await import('/demo/workers/ring.js');
  const ring = new Ring(document.getElementById('ring'));
  let now = 0, next;
  performance.now = () => now;
  requestAnimationFrame = (f) => { next = f; return 1; };
  ring.seat(count);
  ring.play([sendings], '', () => {});
  const boxes = (group) => [...group.children].map((child) => child.getBoundingClientRect());
  const met = [];
  let labels = 0;
  for (; now <= 1500; now += 25) {
    next();
    if (![...ring.packets.children].every((packet) => packet.querySelector('text').textContent)) return 'no label';
    boxes(ring.packets).forEach((packet, i) => boxes(ring.nodes).forEach((node, worker) => {
      labels++;
      if (packet.left < node.right && node.left < packet.right && packet.top < node.bottom && node.top < packet.bottom)
        met.push(`${sendings[i].from} to ${sendings[i].to} meets ${worker} at ${now}`);
    }));
  }
  ring.stop();
  ring.svg.remove();
  return { met, labels };
}
"""


def test_labels_do_not_meet_nodes(open_workers: Any) -> None:
    """On all of their way, where each sends to all others, to the next, and one to all: those that have labels."""
    page = open_workers("?workers=1", reduced_motion="reduce")
    shown(page)
    page.emulate_media(reduced_motion="no-preference")
    for count in range(2, 9):
        everyone = [(a, b) for a in range(count) for b in range(count) if a != b]
        following = [(a, (a + 1) % count) for a in range(count)]
        for pairs, size in ((everyone, 21845), (following, 262144), (everyone[: count - 1], 262144)):
            if len(pairs) > 12:
                continue
            sendings = [{"from": a, "to": b, "bytes": size} for a, b in pairs]
            found = page.evaluate(LABELS, {"count": count, "sendings": sendings})
            assert found == {"met": [], "labels": 61 * len(pairs) * count}, (count, pairs)


@pytest.mark.parametrize(
    ("workers", "transport"), [(3, "shared"), *seeds.more((1, "shared"), (4, "shared"), (8, "messages"))]
)
def test_train_together(open_workers: Any, workers: int, transport: str) -> None:
    """To the end: the loss is low, that of one worker is the same, and all workers have the same weights."""
    page = open_workers(f"?workers={workers}&transport={transport}", viewport={"width": 1280, "height": 900})
    training(page, "fresh")
    assert number(page, "#accuracy") < 50
    page.get_by_role("button", name="Start").click()
    training(page, "running")
    training(page, "done")
    for name, count in (("#loss-many", workers), ("#loss-one", 1)):
        assert 0 < number(page, name) < 0.05, name
        text = "" if count == 1 else "s"
        assert f"On {count} worker{text}: from 2." in (page.locator("#loss svg").get_attribute("aria-label") or "")
    assert abs(number(page, "#loss-many") - number(page, "#loss-one")) < 0.002
    assert number(page, "#accuracy") > 96
    assert number(page, "#speed") > 0 and number(page, "#speed-one") > 0 and number(page, "#ratio") > 0
    assert (number(page, "#share") > 0) == (workers > 1)
    expect(page.locator("#status")).to_contain_text("Step 220 of 220")
    if workers > 1:
        expect(page.locator("#status")).to_contain_text(
            "data by " + {"shared": "shared memory", "messages": "messages"}[transport]
        )
        expect(page.locator("#identical")).to_contain_text(
            f"weights of all {workers} workers were the same, bit by bit, each of 21 times"
        )
    prints = page.locator("#crew code").all_inner_texts()
    assert len(prints) == workers and len(set(prints)) == 1 and re.fullmatch("[0-9a-f]{8}", prints[0])
    expect(page.locator("#announce")).to_contain_text("Training is over")


def test_pause_reset_and_other_workers(open_workers: Any) -> None:
    page = open_workers("?workers=2")
    training(page, "fresh")
    page.get_by_role("button", name="Start").focus()
    page.keyboard.press("Enter")
    until(page, "document.getElementById('progress').value > 0.1")
    page.get_by_role("button", name="Pause").click()
    training(page, "paused")
    page.wait_for_timeout(300)  # what was under way
    step = number(page, "#status")
    page.wait_for_timeout(300)
    assert number(page, "#status") == step
    page.get_by_role("button", name="Go on").click()
    until(page, f"Number(document.getElementById('status').textContent.match(/[0-9]+/)[0]) > {step}")
    # In the midst of it, other workers; the address says so.
    page.get_by_label("Workers", exact=True).focus()
    page.keyboard.press("ArrowRight")
    training(page, "loading")
    training(page, "fresh")
    assert page.locator("#crew tr").count() == 3 and page.locator("#loss polyline").count() == 0
    assert "workers=3" in page.url
    page.get_by_label("Messages").check()
    assert "transport=messages" in page.url
    training(page, "fresh")
    page.get_by_role("button", name="Start").click()
    until(page, "document.getElementById('progress').value > 0.05")
    page.get_by_role("button", name="Reset").click()
    training(page, "fresh")
    assert number(page, "#status") == 0 and page.locator("#speed").inner_text() == "–"


def test_times(open_workers: Any) -> None:
    """Of one collective and of all, by both transports; they are forgotten when something else is chosen."""
    page = open_workers("?workers=2", reduced_motion="reduce")
    shown(page)
    training(page, "fresh")
    page.get_by_role("button", name="Start").click()
    training(page, "running")
    page.get_by_role("button", name="Measure", exact=True).click()
    training(page, "paused")  # the measurement has the machine for itself
    page.wait_for_selector("body[data-measuring=done]", timeout=WAIT)
    cells = page.locator("#times tr").first.locator("td")
    for text in cells.all_inner_texts():
        assert re.search(r"[0-9.]+ (µs|ms)\s+median [0-9.]+ (µs|ms)", text), text
    assert page.locator("#times b").count() == 2
    expect(page.locator("#measuring")).to_have_text("2 workers, 64 KiB: the least time of 9 runs, and the median")
    page.get_by_role("button", name="Measure all six").click()
    page.wait_for_selector("body[data-measuring=yes]")
    page.wait_for_selector("body[data-measuring=done]", timeout=WAIT)
    assert page.locator("#times b").count() == 12
    page.get_by_label("all-gather", exact=True).check()
    assert page.locator("#times b").count() == 0
    # Something else is chosen in the midst of it.
    page.get_by_role("button", name="Measure all six").click()
    page.get_by_label("all-to-all", exact=True).check()
    shown(page)
    assert page.locator("body").get_attribute("data-measuring") == "no" and page.locator("#times b").count() == 0


def test_where_memory_is_not_shared(open_elsewhere: Any) -> None:
    """The page says why it uses messages, and everything works with them."""
    page = open_elsewhere("?workers=3", viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    expect(page.locator("#isolation")).to_contain_text("Cross-Origin-Opener-Policy: same-origin")
    assert page.get_by_label("Shared memory").is_disabled() and page.get_by_label("Messages").is_checked()
    training(page, "fresh")
    page.get_by_role("button", name="Start").click()
    training(page, "done")
    expect(page.locator("#status")).to_contain_text("data by messages")
    expect(page.locator("#identical")).to_contain_text("each of 21 times")
    assert number(page, "#loss-many") < 0.05
    shown(page)
    page.get_by_role("button", name="Measure", exact=True).click()
    page.wait_for_selector("body[data-measuring=done]", timeout=WAIT)
    assert page.locator("#times tr").first.locator("td").all_inner_texts()[0] == "not on this page"
    page.screenshot(path=SCREENSHOTS / "workers-not-isolated.png", full_page=True)


def test_a_static_host_gets_shared_memory(chromium: Browser, static_host: str) -> None:
    """The service worker of the site adds the headers, and the page shares memory after one reload."""
    context = chromium.new_context(service_workers="allow")
    page = context.new_page()
    page.goto(f"{static_host}/demo/workers/?workers=2")
    expect(page.get_by_label("Shared memory")).to_be_checked(timeout=WAIT)
    training(page, "fresh")
    assert page.evaluate("crossOriginIsolated") and page.locator("#isolation").is_hidden()
    page.get_by_role("button", name="Start").click()
    until(page, "document.getElementById('status').textContent.includes('data by shared memory')")
    training(page, "done")
    context.close()


def test_errors_are_shown_in_place(open_workers: Any) -> None:
    """Programs that are not there or damaged, and workers that cannot start: the library's sentence, in the panel that
    it concerns."""
    page = open_workers(
        "?workers=2",
        ready=False,
        reduced_motion="reduce",
        routes={"**/step-2*.wasm": lambda r: r.fulfill(status=404, body="Not found")},
    )
    expect(page.locator("#training-error")).to_contain_text("404", timeout=WAIT)
    assert page.get_by_role("button", name="Start").is_disabled()
    shown(page)
    assert page.locator("#collective-error").is_hidden()
    # Three workers have their program.
    page.get_by_label("Workers", exact=True).press("ArrowRight")
    training(page, "fresh")
    assert page.locator("#training-error").is_hidden()

    damaged = open_workers(
        "?workers=2",
        ready=False,
        reduced_motion="reduce",
        routes={"**/all-gather-2-*.wasm": lambda r: r.fulfill(body=b"nothing")},
    )
    shown(damaged)
    damaged.get_by_label("all-gather", exact=True).check()
    expect(damaged.locator("#collective-error")).to_contain_text("This could not be run.", timeout=WAIT)
    expect(damaged.locator("#collective-error")).to_contain_text("all-gather-2-0.wasm")
    damaged.get_by_role("button", name="Measure", exact=True).click()
    expect(damaged.locator("#collective-error")).to_contain_text("This could not be measured.", timeout=WAIT)
    damaged.get_by_label("all-reduce", exact=True).check()
    shown(damaged)
    assert damaged.locator("#collective-error").is_hidden()

    alone = open_workers("?workers=2", ready=False, routes={"**/worker.js": lambda r: r.abort()})
    for selector in ("#training-error", "#collective-error"):
        expect(alone.locator(selector)).to_contain_text("worker", timeout=WAIT)


def test_with_the_keyboard(open_workers: Any) -> None:
    """Every control comes up, in the order of the page."""
    page = open_workers("?workers=2", viewport={"width": 1280, "height": 1600}, reduced_motion="reduce")
    training(page, "fresh")
    shown(page)
    page.get_by_label("Workers", exact=True).focus()
    names = []
    for _ in range(10):
        names.append(
            page.evaluate("document.activeElement.id || document.activeElement.name || document.activeElement.tagName")
        )
        page.keyboard.press("Tab")
    assert names == [
        "workers",
        "transport",
        "start",
        "opcode",
        "size",
        "again",
        "SUMMARY",
        "measure",
        "measure-all",
        "DIV",
    ]
    page.locator("input[name=opcode]:checked").focus()
    page.keyboard.press("ArrowRight")
    shown(page)
    assert page.locator("#does").inner_text() == "All get what all have, one after another."
    assert values(page, "after") == [[0, 10], [0, 10]]


@pytest.mark.parametrize(
    ("name", "scheme"), [("phone", "dark"), *seeds.more(("desktop", "light"), ("desktop", "dark"), ("phone", "light"))]
)
def test_pictures(open_workers: Any, name: str, scheme: str) -> None:
    """Screenshots of a training, of packets on their way and of times; on a phone nothing sticks out."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}} if name == "desktop" else PHONE
    count = seeds.count(2, 8 if name == "phone" else 4)
    page = open_workers(f"?workers={count}", color_scheme=scheme, **options)
    red = page.evaluate("Number(getComputedStyle(document.documentElement).backgroundColor.match(/[0-9]+/)[0])")
    assert (red < 64) == (scheme == "dark")
    training(page, "fresh")
    page.get_by_role("button", name="Start").click()
    until(page, "document.getElementById('progress').value > 0.4")
    page.get_by_role("button", name="Pause").click()
    training(page, "paused")
    page.get_by_label("all-to-all", exact=True).check()
    shown(page)
    page.get_by_role("button", name="Measure all six").click()
    page.wait_for_selector("body[data-measuring=done]", timeout=WAIT)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=SCREENSHOTS / f"workers-{name}-{scheme}.png", full_page=True)
    page.get_by_role("button", name="Show again").click()
    page.wait_for_selector("body[data-shown='0']")
    page.wait_for_timeout(400)
    page.locator(".show").screenshot(path=SCREENSHOTS / f"workers-packets-{name}-{scheme}.png")
