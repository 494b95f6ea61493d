"""docs/serving.md tells the truth: its example runs, its JSON is what the server says, its options and metrics are
those there are."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from typer.main import get_command

import xla_wasm
from tests.support.paths import ROOT
from tests.support.served_models import ask, server, serving
from xla_wasm.command import cli
from xla_wasm.server import formats

TEXT = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
DIGITS = ROOT / "examples" / "digits" / "digits.hlo.pb"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def section(title: str) -> str:
    """The text below a heading, to the next of its depth or above."""
    level, rest = re.search(rf"^(#+) {re.escape(title)}$(.*)", TEXT, re.DOTALL | re.MULTILINE).groups()  # type: ignore[union-attr]
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_example_runs_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = blocks("python")
    with server(DIGITS) as (_, url):
        assert "http://127.0.0.1:8000/" in example
        exec(compile(example.replace("http://127.0.0.1:8000/", url), "docs/serving.md", "exec"), {})


def test_signature_and_error_are_what_the_server_gives() -> None:
    signature, error = map(json.loads, blocks("json"))
    with serving(xla_wasm.compile(xla_wasm.HloModule.from_proto(DIGITS.read_bytes()))) as app:
        assert ask(app, "GET").json() == signature
        assert ask(app, json={"image": [0] * 63}).json() == error


def test_all_options_are_there_with_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `(--[^|]*)` \|([^|]*)\|", section("xla-wasm serve-model"), re.MULTILINE))
    written = {name for names in rows for name in re.findall(r"--[a-z-]+", names)}
    command = get_command(cli.app).commands["serve-model"]  # type: ignore[attr-defined]
    options = {name: option for option in command.params for name in option.opts if name.startswith("--")}
    assert written == set(options) - {"--help"}
    for names, default in ((names, default.strip()) for names, default in rows.items()):
        if re.fullmatch(r"`?[\d.]+`?", default):
            assert str(options[names.split()[0]].default).removesuffix(".0") == default.strip("`")


def test_types_and_statuses_are_those_of_the_server() -> None:
    for title, kinds in (("Request bodies", formats.BODIES), ("Answers", formats.ANSWERS)):
        assert set(re.findall(r"`((?:application|multipart)/[a-z-]+)`", section(title))) == set(kinds)


def test_metrics_are_those_there_are() -> None:
    with server(DIGITS) as (_, url):
        httpx.get(url)
        there = set(re.findall(r"^# TYPE (\S+)", httpx.get(url + "metrics").text, re.MULTILINE))
    assert set(re.findall(r"`(xla_wasm_\w+)", section("Metrics"))) == there
