"""Writes docs/operations.md from the table: `python -m xla_wasm.ops.docs`."""

from __future__ import annotations

import importlib
from pathlib import Path

from ..hlo.op import REQUIRED, Attr, Op
from .table import FAMILIES

PATH = Path(__file__).resolve().parents[2] / "docs" / "operations.md"

_HEAD = """# Operations

Every operation of HLO that a module may hold, by family. The verifier checks the numbered constraints; its errors cite them
as (C1), (C2), ... Attributes bear the names they have in `Instruction.attrs`; one whose name ends in `numbers`, `config` or
`options` holds several attributes of HLO text at once.

This page is written by `python -m xla_wasm.ops.docs` from the records in `xla_wasm/ops/*/record.py`.
"""


def page() -> str:
    """The page's text."""
    return "\n".join([_HEAD, _index(), *(_family(name, ops) for name, ops in FAMILIES.items())])


def _index() -> str:
    rows = [f"- [{name}](#{name}): {', '.join(f'[{op.opcode}](#{op.opcode})' for op in ops)}" for name, ops in FAMILIES.items()]
    return "\n".join(rows) + "\n"


def _family(name: str, ops: tuple[Op, ...]) -> str:
    about, _, more = (importlib.import_module(f"{__package__}.{name}.record").__doc__ or "").partition("\n")
    about = about.removeprefix("Records of ").removeprefix("The record of ").removeprefix("the ")
    title = f'<a id="{name}"></a>\n\n## {about[0].upper()}{about[1:].rstrip(".")}\n'
    text = [more.strip() + "\n"] if more.strip() else []
    return "\n".join([title, *text, *(_operation(op) for op in sorted(ops, key=lambda op: op.opcode))])


def _operation(op: Op) -> str:
    least, most = op.arity
    count = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
    facts = [f"operands: {count}"]
    if op.called:
        names = (f"`{name.rstrip('*?')}`" + {"*": " (any number)", "?": " (if any)"}.get(name[-1], "") for name in op.called)
        facts.append(f"calls: {', '.join(names)}")
    if op.attrs:
        facts.append(f"attributes: {', '.join(map(_attribute, op.attrs))}")
    lines = [f"### {op.opcode}\n", op.doc + "\n", *(f"- {fact}" for fact in facts)]
    lines += [f"- (C{number}) {rule}" for number, rule in enumerate(op.constraints, 1)]
    return "\n".join(lines) + "\n"


def _attribute(attr: Attr) -> str:
    if attr.default is REQUIRED:
        return f"`{attr.name}`"
    plain = isinstance(attr.default, bool | int | str) and attr.default != ""
    default = str(attr.default).lower() if isinstance(attr.default, bool) else attr.default
    return f"`{attr.name}` (else {default})" if plain else f"`{attr.name}` (optional)"


if __name__ == "__main__":
    PATH.write_text(page())
