"""The page that follows two programs through the stages shows what the command prints.

`pytest tests/documents/test_life.py --update-golden` writes what is shown whole anew, for a person to review as a diff.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.document_blocks import Block, blocks
from tests.support.paths import ROOT
from xla_wasm.command import cli

PAGE = "docs/life.md"
LEFT_OUT = "..."
"""A line in the place of lines that are not shown."""
COMMANDS = [found for found in blocks(PAGE) if found.language == "console"]


def printed(command: str) -> str:
    """The output of a command about a file of the page."""
    done = CliRunner().invoke(cli.app, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("found", COMMANDS, ids=lambda found: found.code.splitlines()[0])
def test_stages(found: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    for file in blocks(PAGE):
        if file.title:
            (tmp_path / file.title).write_text(file.code)
    monkeypatch.chdir(tmp_path)
    head, _, shown = found.code.partition("\n")
    made = printed(head.removeprefix("$ "))
    if LEFT_OUT not in shown.splitlines():
        if request.config.getoption("update_golden"):
            text = (ROOT / PAGE).read_text()
            (ROOT / PAGE).write_text(text.replace(f"{head}\n{shown}```", f"{head}\n{made.rstrip()}\n```"))
        assert shown.rstrip() == made.rstrip()
        return
    at = 0
    for part in re.split(rf"^{re.escape(LEFT_OUT)}\n", shown, flags=re.MULTILINE):
        assert part in made[at:]
        at = made.index(part, at) + len(part)


def test_the_page_names_files_that_are_there() -> None:
    text = (ROOT / PAGE).read_text()
    for name in re.findall(r"`((?:hlo|ops|passes|plan|kernels|lowering|loop|assemble)/[\w/]+\.py)`", text):
        assert (ROOT / "xla_wasm" / name).is_file(), name
