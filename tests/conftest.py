"""Set-up of the tests: JAX on the CPU; in CI the same hypothesis cases on every run, elsewhere new ones; the site in a
browser.

XLA:CPU, which judges many tests, compiles for AVX2 at most, so that its results are those of any x86-64 processor of
the last ten years. `XLA_WASM_JUDGE_ISA` names another of its instruction sets (SSE4_2, AVX, AVX512, ...), or `native`
for all that this processor has: the tests must pass with each. Processes that tests start inherit it.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from benchmarks.chromium import ARGUMENTS, find
from tests.support import choosing, seeds

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.support.firefox import Firefox
    from tests.support.webkit import WebKit

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Whatever compiles a module has every kernel of it verified.
os.environ.setdefault("XLA_WASM_VERIFY", "1")
JUDGE_ISA = os.environ.get("XLA_WASM_JUDGE_ISA", "AVX2")
# Eight devices, for programs of several; one is still what all others run on.
_XLA_FLAGS = [
    "--xla_force_host_platform_device_count=8",
    *([] if JUDGE_ISA == "native" else [f"--xla_cpu_max_isa={JUDGE_ISA}"]),
    # It shall compile fast, since most of what it compiles runs once. Its emitters of fusions take as long as LLVM, but
    # without them it rounds 8-bit floats elsewhere.
    *("--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"),
]
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *_XLA_FLAGS]).strip()

CHOSEN: pytest.StashKey[str] = pytest.StashKey()
"""A description of the test files that `--changed` chose; empty without the option."""

# No test is timed: on a busy machine it would fail.
settings.register_profile("tests", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    choosing.add_options(parser)
    parser.addoption(
        "--exhaustive", action="store_true", help="Draw all random programs, and not only the first of each kind."
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write expected texts (tests/golden/, docs/embedding.md) anew, for a diff.",
    )


def pytest_configure(config: pytest.Config) -> None:
    seeds.exhaustive = config.getoption("--exhaustive")
    config.stash[CHOSEN] = choosing.choose_files(config)
    if config.getoption("--fast") and config.option.durations is None:
        config.option.durations, config.option.durations_min = 5, 1.5


def pytest_report_header(config: pytest.Config) -> list[str]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    import pythons

    chosen = config.stash[CHOSEN]
    missing = [version for version in pythons.VERSIONS if version not in pythons.found()]
    return [
        *([f"--changed: {chosen}"] if chosen else []),
        "random programs: " + ("all" if seeds.exhaustive else "the first of each kind; all with --exhaustive"),
        f"Pythons: {', '.join(pythons.found())}" + (f"; not on this machine: {', '.join(missing)}" if missing else ""),
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choosing.choose_cases(config, items)
    choosing.put_long_files_first(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    # Only a worker of pytest-xdist, which has collected, knows what was left out; the process that reports gets to know
    # it so.
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(choosing.LEFT_OUT, "")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["files"] = list(node.config.args)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[choosing.LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", "")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    # The header, which says it too, is not shown where pytest is quiet.
    if config.stash[CHOSEN]:
        terminalreporter.write_line(f"--changed: {config.stash[CHOSEN]}")
    if left_out := config.stash.get(choosing.LEFT_OUT, ""):
        terminalreporter.write_line(f"--fast left out {left_out}")


def pytest_collection_finish() -> None:
    """Freezes the objects that live now: the collector need not go through thousands of tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_runtest_setup() -> None:
    """Coverage is measured on: Python takes a tracer away that fails, as it does where the stack ends."""
    coverage = sys.modules.get("coverage")
    if coverage and sys.gettrace() is None and (measuring := coverage.Coverage.current()):
        measuring.stop()
        measuring.start()


@pytest.fixture(scope="session", autouse=True)
def one_thread_compiles() -> None:
    """Modules are small, and other processes run beside this one: more threads would be more work, and no sooner
    done."""
    from xla_wasm.host import engine

    engine.parallel = False


@pytest.fixture
def xla_wasm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command in an empty folder and returns its exit code, output and error output."""
    from xla_wasm.command import cli

    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["xla-wasm", *map(str, args)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
            raise SystemExit(0)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(exit_.value.code or 0), out, err

    return call


@pytest.fixture(scope="module")
def chromium_flags() -> list[str]:
    """Returns the flags, beside the usual, that Chromium starts with in a module of tests, which may define its own."""
    return []


@pytest.fixture(scope="module")
def chromium(chromium_flags: list[str]) -> Iterator[Browser]:
    """A Chromium, whose pages have no service worker unless a test allows it: what one fetches passes by the routes of
    tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(shell=True), args=[*ARGUMENTS, *chromium_flags])
        browser.new_context = functools.partial(browser.new_context, service_workers="block")  # type: ignore[method-assign]
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def firefox() -> Iterator[Firefox]:
    """A Firefox for all tests of this process."""
    from tests.support.firefox import Firefox

    with Firefox() as browser:
        yield browser


@pytest.fixture(scope="session")
def webkit() -> Iterator[WebKit]:
    """A WebKitGTK for all tests of this process."""
    from tests.support.webkit import WebKit

    with WebKit() as browser:
        yield browser


@pytest.fixture(params=["firefox", "webkit"])
def other_browser(request: pytest.FixtureRequest) -> Firefox | WebKit:
    """Each browser that is not Chromium."""
    browser: Firefox | WebKit = request.getfixturevalue(request.param)
    return browser


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """An empty page that knows nothing of others."""
    with chromium.new_context() as context:
        yield context.new_page()


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The modules of the pages are compiled once for all processes of a run."""
    from tests.support.once import shared_compile
    from xla_wasm.site import pages

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "compile", shared_compile(tmp_path_factory, pages.compile))
        yield


@pytest.fixture(scope="module")
def site(compiled_once: None) -> Iterator[str]:
    """The address of the pages, as `xla-wasm serve` serves them."""
    from tests.support.browsing import served

    with served() as address:
        yield address


@pytest.fixture(scope="module")
def static_host(compiled_once: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site as files, on a host that knows nothing of it and sends no headers."""
    from tests.support.browsing import served
    from tests.support.once import static_site

    with served(static_site(tmp_path_factory), isolated=False) as address:
        yield address


@pytest.fixture
def open_page(chromium: Browser, site: str) -> Iterator[Any]:
    """Opens pages of the site; afterwards, that they asked nobody else for anything and reported no error."""
    contexts = []
    complaints: list[str] = []

    def open_(
        path: str = "/demo/digits/", ready: bool = True, routes: dict[str, Any] | None = None, **options: Any
    ) -> Page:
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "request",
            lambda r: r.url.startswith((site, f"blob:{site}", "data:")) or complaints.append(f"request to {r.url}"),
        )
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
