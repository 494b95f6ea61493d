"""The page of the command `xla-wasm`: what each command's --help says, as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from xla_wasm.command import cli

NAME = "xla-wasm"
EXAMPLE = re.compile(r"(xla-wasm|mpiexec) |[\w.]+\(\S*$")
"""The beginning of a paragraph of help that shows code: a command, or a call in Python."""


def commands(command: Any = None, name: str = NAME) -> Iterator[tuple[str, Any]]:
    """Every command with its whole name, those inside of others too."""
    command = command or get_command(cli.app)
    yield name, command
    for child, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from commands(inner, f"{name} {child}")


def page() -> str:
    """The page, with a section for each command."""
    return "# The command xla-wasm\n\nEverything here is made from the command's own `--help`.\n" + "".join(
        _section(name, command) for name, command in commands()
    )


def _section(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"\n## {name}\n\n```text\n{usage}\n```\n\n{_prose(command.help or '')}\n"]
    inner = {child: each for child, each in getattr(command, "commands", {}).items() if not each.hidden}
    if inner:
        rows = [
            f"| [`{child}`](#{NAME}-{child}) | {_cell(each.get_short_help_str(10_000))} |"
            for child, each in inner.items()
        ]
        parts.append("\n| command | |\n|---|---|\n" + "\n".join(rows) + "\n")
    records = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    rows = [f"| `{names}` | {_cell(about)} |" for names, about in records]
    if rows:
        parts.append("\n| | |\n|---|---|\n" + "\n".join(rows) + "\n")
    if command.epilog:
        parts.append(f"\n{_prose(command.epilog)}\n")
    return "".join(parts)


def _prose(text: str) -> str:
    """Help as Markdown, with commands and calls that have a paragraph of their own as code."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", inspect.cleandoc(text.replace("\b", "")))]
    return "\n\n".join(f"```text\n{part}\n```" if EXAMPLE.match(part) else _marked(part) for part in paragraphs)


def _marked(text: str) -> str:
    """Options as code; no sign of the text but a backtick means anything to Markdown."""
    parts = re.split(r"(`[^`]*`|(?<![\w-])--?[a-z][a-z-]*)", text)
    escaped = [re.sub(r"([\\*_\[\]<>])", r"\\\1", part) for part in parts[::2]]
    spans = [part if part[0] == "`" else f"`{part}`" for part in parts[1::2]]
    return "".join(part for pair in zip(escaped, [*spans, ""]) for part in pair)


def _cell(text: str) -> str:
    return _marked(" ".join(text.split())).replace("|", "&#124;")
