"""Choice and order of the tests that a run takes: `--fast` some cases of every test, `--changed` the files that a
change concerns. Both can be given."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.support import changed

FAST_CASES = 1
"""Number of a test's cases that `--fast` takes."""
_OTHER_PROGRAMS = (
    "playwright",
    "subprocess",
    *(f"tests.support.{name}" for name in ("firefox", "miniflare", "once", "toolchains", "webkit")),
)
"""Modules that start what `--fast` leaves out: browsers, compilers of other languages, Pyodide, a runtime of workers,
and processes."""
_NODE = ("tests.support.js_calls", "tests.support.node_host")
"""Modules that start Node, which `--fast` does not leave out."""
_BROWSERS = ("chromium", "firefox", "webkit")
_OTHER_ENGINES = ("bun", "deno", *_BROWSERS)
SLOW = Path(__file__).parents[1] / "slow_tests.txt"
_FOLDER = str(Path(__file__).parents[1])


def add_options(parser: pytest.Parser) -> None:
    """Adds the options to pytest's."""
    group = parser.getgroup("which tests run")
    group.addoption(
        "--fast",
        action="store_true",
        help=f"The first {FAST_CASES} of each test's cases; no slow ones, and no browsers.",
    )
    group.addoption(
        "--changed",
        nargs="?",
        const="",
        metavar="COMMIT",
        help="The test files that changes concern, since the branch left main or since a commit (HEAD: what is not "
        "committed).",
    )


def choose_files(config: pytest.Config) -> str:
    """With `--changed`: leaves the files to pytest that changes concern. Says what that made, or nothing."""
    reference = config.getoption("--changed")
    if hasattr(config, "workerinput"):
        config.args[:] = config.workerinput["files"]  # of pytest-xdist: as the process has chosen that started it
        return ""
    if reference is None:
        return ""
    try:
        paths = changed.since(reference or None)
    except ValueError as error:
        raise pytest.UsageError(f"--changed: {error}") from None
    graph = changed.Graph()
    files, concerns_all = graph.concerned(paths)
    asked = [Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args]
    chosen = [path for path in files if any((changed.ROOT / path).is_relative_to(place) for place in asked)]
    reason = f" ({concerns_all} concerns all)" if concerns_all else ""
    said = f"{len(paths)} changed files concern {len(chosen)} of {len(graph.tests())} test files{reason}"
    if not chosen:
        pytest.exit(f"--changed: {said}", returncode=0)
    config.args[:] = [str(changed.ROOT / path) for path in chosen]
    return said


def choose_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--fast`: deselects all but the first cases of each test, the slow ones, and what starts other programs."""
    if not config.getoption("--fast"):
        return
    slow = _slow(items)
    seen: Counter[str] = Counter()
    kept, left_out = [], []
    why: Counter[str] = Counter()
    for item in items:
        name = _name(item)
        reason = "that are slow" if name in slow else "of browsers and other programs" if _starts_others(item) else ""
        if not reason:
            seen[name] += 1
            reason = "more cases of the same tests" if seen[name] > FAST_CASES else ""
        why[reason] += 1
        (left_out if reason else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
    del why[""]
    config.stash[LEFT_OUT] = ", ".join(f"{count} {reason}" for reason, count in why.most_common())


def put_long_files_first(items: list[pytest.Item]) -> None:
    """Orders files by how many of their cases start other programs, then by how many they have.

    pytest-xdist gives a process one file after another, so that browsers and servers start once for each: the long ones
    first, so that none is still going when all other processes have ended.
    """
    starting, all_ = Counter[Path](), Counter[Path]()
    for item in items:
        all_[item.path] += 1
        starting[item.path] += _starts_others(item)
    items.sort(key=lambda item: (-starting[item.path], -all_[item.path], item.path))


LEFT_OUT: pytest.StashKey[str] = pytest.StashKey()
"""A description of the cases that `--fast` left out."""


def _name(item: pytest.Item) -> str:
    """The file and the function of a test, without its case."""
    return item.nodeid.partition("[")[0].removeprefix("tests/")


def _slow(items: list[pytest.Item]) -> set[str]:
    """The tests that are listed as slow. UsageError if one of them is gone from its file."""
    listed = {line for line in SLOW.read_text(encoding="utf-8").splitlines() if not line.startswith("#")}
    names = {_name(item) for item in items}
    files = {name.partition("::")[0] for name in names}
    whole = all("::" not in arg for item in items[:1] for arg in item.config.args)
    gone = sorted(name for name in listed - names if name.partition("::")[0] in files)
    if gone and whole:
        raise pytest.UsageError(f"{SLOW.name} lists what is gone: {', '.join(gone)}")
    return listed


def _starts_others(item: pytest.Item) -> bool:
    """Returns true if a test, or a fixture that it asks for, uses something out of the modules that start other
    programs, or runs in one."""
    assert isinstance(item, pytest.Function)
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if any(browser in item.fixturenames for browser in _BROWSERS) or any(
        v in _OTHER_ENGINES for v in values if isinstance(v, str)
    ):
        return True
    fixtures = [d.func for name in item.fixturenames for d in item._fixtureinfo.name2fixturedefs.get(name, ())]
    return any(_leads_to_others(function) for function in (item.function, *fixtures))


@cache
def _leads_to_others(function: Any) -> bool:
    """Returns true if a function of the tests names something out of those modules, or another function of the tests
    that does."""
    open_, seen = [function], {function}
    while open_:
        f = inspect.unwrap(open_.pop())
        for code in _codes(f.__code__) if hasattr(f, "__code__") else ():
            for name in code.co_names:
                used = f.__globals__.get(name)
                module = inspect.ismodule(used) and used.__name__ or str(getattr(used, "__module__", ""))
                if module in _OTHER_PROGRAMS:
                    return True
                if (
                    inspect.isfunction(used)
                    and used not in seen
                    and module not in _NODE
                    and _FOLDER in used.__code__.co_filename
                ):
                    seen.add(used)
                    open_.append(used)
    return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those inside of it."""
    yield code
    for held in code.co_consts:
        if isinstance(held, CodeType):
            yield from _codes(held)
