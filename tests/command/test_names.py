"""Names with characters that control a terminal: nothing that is printed has them raw, and nothing takes them for
markup."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.text import Text

from tests.support.command_line import Cli
from tests.support.toy_artifact import toy
from xla_wasm import compile as compiled
from xla_wasm import javascript
from xla_wasm.artifact import Artifact
from xla_wasm.command import report
from xla_wasm.errors import ArtifactError, visible
from xla_wasm.hlo.ir import Module

TITLE, CLEAR, TURNED, MARKUP = "\x1b]0;owned\x07", "\x9b2J\x7f\r", "\u202eabc", "[red]:smile:[/blue]"
NAME = f"{TITLE}{CLEAR}{TURNED}{MARKUP}"
BAD = [*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066", "\ud800"]


def hostile(calls: str = "") -> Module:
    """A module in which everything has that name."""
    names = json.dumps([NAME]).replace("\\", "\\\\").replace('"', '\\"')
    module = Module.from_text(
        f'HloModule m, frontend_attributes={{xla_wasm.parameter_names="{names}",xla_wasm.result_names="{names}"}}\n'
        f"ENTRY e {{ p = f32[4] parameter(0)  {calls}  ROOT r = f32[4] sine(p) }}\n"
    )
    module.name = f"{TURNED}{MARKUP}"  # that of a proto has no control characters, or it is taken for another file
    for x in module.instructions():
        x.name = f"{NAME}{x.opcode}"
    return module


def clean(text: str) -> bool:
    return not any(c in text for c in BAD if c not in "\n\t")


def test_visible_leaves_text_as_it_is_and_shows_the_rest() -> None:
    assert visible("a\tb\nü → 漢 [red]") == "a\tb\nü → 漢 [red]"
    assert visible("".join(BAD)).encode() and clean(visible("".join(BAD))) and len(visible("".join(BAD))) == len(BAD)
    assert visible("\x1b[2J") == "\u241b[2J"


def test_consoles_print_neither_control_characters_nor_markup(capsys: pytest.CaptureFixture[str]) -> None:
    for make in (report.console, report.error_console):
        table = report.table(f"{MARKUP}{CLEAR}")
        table.add_row(f"{MARKUP}{CLEAR}")
        for shown in (NAME, Text.assemble((NAME, "bold"), NAME), table):
            make().print(shown)
    for printed in capsys.readouterr():
        assert clean(printed) and printed.count(MARKUP) == 5 and printed.count("owned") == 3


def test_a_terminal_gets_colours_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    console = report._Console(
        force_terminal=True, markup=False, emoji=False, highlight=False, color_system="standard", width=200
    )
    console.print(Text(NAME, "red"))
    printed = sys.stdout.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[31m" in printed and clean(re.sub(r"\x1b\[\d*m", "", printed))


COMMANDS: dict[str, list[str]] = {
    "run": ["run", "m.pb", "--random-inputs", "--profile"],
    "run the artifact": ["run", "m.wasm", "--random-inputs", "--profile"],
    "inspect": ["inspect", "m.pb"],
    "inspect the artifact": ["inspect", "m.wasm"],
    "header": ["inspect", "m.wasm", "--c-header"],
    "check": ["check", "m.pb", "--isolate"],
    **{
        f"dump {stage}": ["dump", "m.pb", "--stage", stage]
        for stage in ("hlo", "plan", "kernels", "loops", "wat", "manifest")
    },
    "dump the artifact": ["dump", "m.wasm", "--stage", "manifest"],
    "an error": ["inspect", "unknown.pb"],
    "an error of the run": ["run", "m.wasm"],
    "an error of an option": ["compile", "m.pb", "--weight", NAME, "--state", NAME],
    "an error of a shape": ["layout", f"f32[{TITLE}]"],
    "a file": ["convert", "m.pb", "-o", f"{TITLE}.hlo"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_names_raw(name: str, xla_wasm: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.pb").write_bytes(hostile().to_proto())
    (tmp_path / "unknown.pb").write_bytes(
        hostile('q = f32[4] custom-call(p), custom_call_target="no\\033[2J"').to_proto()
    )
    named = hostile()
    named.name = NAME
    compiled(named).save(tmp_path / "m.wasm")
    code, out, err = xla_wasm(*COMMANDS[name])
    assert clean(out) and clean(err) and code == (2 if "error" in name else 0)
    assert out or err


def with_manifest(text: str) -> bytes:
    """A module of nothing, with a manifest of this text."""
    from xla_wasm.wasm.module import custom

    return b"\0asm\1\0\0\0" + custom("xla_wasm", text.encode())


@pytest.mark.parametrize(
    "arguments", ["inspect", "inspect --c-header", "dump --stage manifest", "dump --stage wat", "run"]
)
def test_damaged_artifacts_are_an_error_of_one_line(arguments: str, xla_wasm: Cli, tmp_path: Path) -> None:
    command = arguments.split()
    surrogate = json.dumps(toy().manifest | {"name": "\ud800"})
    (tmp_path / "name.wasm").write_bytes(with_manifest(surrogate))
    (tmp_path / "deep.wasm").write_bytes(with_manifest("[" * 100_000))
    good = toy().wasm
    at = good.index(b"\x0a", 8)
    (tmp_path / "body.wasm").write_bytes(good[: at + 4] + b"\xff\xff\xff\xff" + good[at + 8 :])
    for name in ("name.wasm", "deep.wasm", "body.wasm"):
        code, _, err = xla_wasm(command[0], name, *command[1:])
        if name != "body.wasm" or command == ["inspect"]:
            assert code == 2
        assert err.count("\n") <= 4 and (code != 2 or err.startswith("error: "))


def test_arrays_of_a_run_are_printed_as_they_were(xla_wasm: Cli, tmp_path: Path) -> None:
    compiled(hostile()).save(tmp_path / "m.wasm")
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    assert "[0., 0., 0., 0.]" in xla_wasm("run", "m.wasm", "-i", "x.npy")[1]


@pytest.mark.parametrize(
    ("place", "value"), [("dimensions", ["(console.log(1),2)"]), ("element_type", "f32'}];alert(1)//"), ("kind", "x")]
)
def test_no_artifact_puts_code_into_its_javascript(place: str, value: object, tmp_path: Path) -> None:
    artifact = compiled(hostile())
    (leaf,) = artifact.manifest["parameters"]
    with pytest.raises(ArtifactError, match=place):
        javascript.save(
            Artifact(artifact.wasm, artifact.manifest | {"parameters": [leaf | {place: value}]}), tmp_path / "m.wasm"
        )
    assert not list(tmp_path.iterdir())
    forged = Artifact(
        artifact.wasm,
        artifact.manifest | dict.fromkeys(("producer", "name"), "x\nalert(1);\u2028alert(2)\ralert(3)//\x1b"),
    )
    script = javascript.save(forged, tmp_path / "m.wasm", "xla-wasm").with_suffix(".js")
    for path in (script, script.with_suffix(".d.ts")):
        first, *lines = re.split("[\n\r\u2028\u2029]", path.read_text(encoding="utf-8"))
        assert "alert(3)" in first and not any(line.lstrip().startswith("alert") for line in lines)


def test_a_terminal_without_the_pictures_gets_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "m.pb").write_bytes(hostile().to_proto())
    command = [sys.executable, "-m", "xla_wasm", "run", "m.pb", "--random-inputs", "--profile"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "") and r"\u241b" in ran.stdout and clean(ran.stdout)


def test_metrics_have_no_labels_with_names() -> None:
    from xla_wasm.server.metrics import Metrics

    metrics = Metrics(65536)
    metrics.requests.labels("200").inc()
    metrics.request_seconds.observe(1)
    assert set(re.findall(r'[{,](\w+)="', metrics.text().decode())) == {"status", "le"}
