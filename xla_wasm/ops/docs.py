"""Writes docs/operations.md from the table: `python -m xla_wasm.ops.docs`."""

from __future__ import annotations

import re
from pathlib import Path
from string import ascii_lowercase

from ..hlo.ir import Instruction
from ..hlo.op import REQUIRED, Attr, Kind, Op, Read, pointwise, read_whole
from .table import FAMILIES, Family

PATH = Path(__file__).resolve().parents[2] / "docs" / "operations.md"

_HEAD = """# Operations

This page lists every HLO operation that a module may hold, by family. The verifier checks the numbered constraints; its errors cite
them as (C1), (C2), ... Attributes have the names that they have in `Instruction.attrs`. An attribute whose name ends in `numbers`,
`config` or `options` holds several attributes of HLO text at once.

**reads** says how an operation reads its operands. Fusion, the merging of views and the division among devices follow from it. The
operands are `a`, `b`, `c`, and `i0`, `i1` the dimensions of the result's index: a transpose of `f32[2,3]` reads `a[i1, i0]`.

- `//` and `%` split a dimension, and a `?` is known only at run time.
- If an element of the result is computed from many, `k0`, `k1` run over them: a sum of rows reads `a[i0, k0] for k0 < 3`. Elements of a
  window that lie outside of the operand are skipped. (A `select-and-scatter` reads windows at the index of its source.)
- With an arrow, each element of the operand, at its own index, goes to a position of the result.
- An operand that is read `whole` has to lie in memory; nothing more is known.

This page is written by `python -m xla_wasm.ops.docs` from the records in `xla_wasm/ops/*/record.py`.
"""  # noqa: E501


def page() -> str:
    """The page's text."""
    return "\n".join([_HEAD, _index(), *map(_family, FAMILIES.values())])


def _index() -> str:
    rows = [
        f"- [{name}](#{name}): {', '.join(f'[{op.opcode}](#{op.opcode})' for op in family.ops)}"
        for name, family in FAMILIES.items()
    ]
    return "\n".join(rows) + "\n"


def _family(family: Family) -> str:
    about, _, more = (family.load_file("record").__doc__ or "").partition("\n")
    about = about.removeprefix("Records of ").removeprefix("The record of ").removeprefix("the ")
    title = f'<a id="{family.name}"></a>\n\n## {about[0].upper()}{about[1:].rstrip(".")}\n'
    text = [more.strip() + "\n"] if more.strip() else []
    return "\n".join([title, *text, *(_operation(op) for op in sorted(family.ops, key=lambda op: op.opcode))])


def _operation(op: Op) -> str:
    least, most = op.arity
    count = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
    facts = [f"operands: {count}"]
    if op.called:
        names = (
            f"`{name.rstrip('*?')}`" + {"*": " (any number)", "?": " (if any)"}.get(name[-1], "") for name in op.called
        )
        facts.append(f"calls: {', '.join(names)}")
    if op.arity != (0, 0):
        facts.append(f"reads: {_reads(op)}")
    if op.attrs:
        facts.append(f"attributes: {', '.join(map(_attribute, op.attrs))}")
    lines = [f"### {op.opcode}\n", op.doc + "\n", *(f"- {fact}" for fact in facts)]
    lines += [f"- (C{number}) {rule}" for number, rule in enumerate(op.constraints, 1)]
    return "\n".join(lines) + "\n"


def _reads(op: Op) -> str:
    """Returns the words for how the operands are read, in the sample that shows most."""
    if op.reads is read_whole:
        return "all `whole`"
    if op.reads is pointwise:
        return "each at the index of the result, a scalar at its only one"
    x = max(
        _sampled(op),
        key=lambda x: [sum(size > least for o in x.operands for size in o.shape.dimensions) for least in (1, 0)],
    )
    shapes = ", ".join(f"{name} {o.shape.without_layout()}" for name, o in zip(ascii_lowercase, x.operands))
    texts = ", ".join(f"`{_read(name, read)}`" for name, read in zip(ascii_lowercase, op.reads(x)))
    return f"{texts}, where the result is {x.shape.without_layout()} of {shapes}"


def _sampled(op: Op) -> list[Instruction]:
    """The operation in its samples."""
    samples = next(family for family in FAMILIES.values() if op in family.ops).load_file("samples").SAMPLES
    found = (x for s in samples if s.opcode == op.opcode for x in s.module().instructions() if x.opcode == op.opcode)
    return [x for x in found if x.operands and not x.shape.is_dynamic]


def _read(name: str, read: Read) -> str:
    """Returns the words for how one operand is read."""
    if read.kind is Kind.WHOLE:
        return f"{name} whole"
    if read.kind is Kind.START:
        return f"{name} where nothing is written"
    if read.kind is Kind.PLACED:
        own = ", ".join(f"i{d}" for d in range(len(read.map.domain)))
        return f"{name}[{own}] -> {read.map}"
    first = len(read.map.domain) - len(read.box)
    text = re.sub(r"i(\d+)", lambda d: d[0] if int(d[1]) < first else f"k{int(d[1]) - first}", f"{name}{read.map}")
    boxes = [f"k{d} < {size}" for d, size in enumerate(read.box) if size != 1]
    return f"{text} for {', '.join(boxes)}" if boxes else text


def _attribute(attr: Attr) -> str:
    if attr.default is REQUIRED:
        return f"`{attr.name}`"
    plain = isinstance(attr.default, bool | int | str) and attr.default != ""
    default = str(attr.default).lower() if isinstance(attr.default, bool) else attr.default
    return f"`{attr.name}` (else {default})" if plain else f"`{attr.name}` (optional)"


if __name__ == "__main__":
    PATH.write_text(page())
