"""`xla-wasm ops` and `xla-wasm layout`: what operations and layouts are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..errors import ArgumentError
from . import report
from .base import JsonOption, write


def layout(
    shape: Annotated[str, typer.Argument(help='A shape as HLO text writes it, such as "f32[3,5]{1,0:T(2,2)}".')],
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write a picture instead; - is standard output.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draws the order in which an array's elements lie in memory."""
    from ..hlo.text.shapes import parse_shape
    from . import layout_view

    parsed = parse_shape(shape)
    if svg is not None:
        write(svg, layout_view.svg(parsed), as_json)
    elif as_json:
        report.print_json({"shape": str(parsed), **layout_view.facts(parsed)})
    else:
        report.console().print(layout_view.draw(parsed))


def ops(
    name: Annotated[str | None, typer.Argument(help="One operation, to see its attributes and constraints.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Lists the operations with their documentation."""
    from ..ops.table import OPS

    console = report.quiet_console() if as_json else report.console()
    if name is None and as_json:
        report.print_json(
            [{"name": op.opcode, "operands": _arity(op.arity), "doc": op.doc} for _, op in sorted(OPS.items())]
        )
        return
    if name is None:
        table = report.table("operation", "operands", "what it computes")
        for opcode in sorted(OPS):
            table.add_row(opcode, _arity(OPS[opcode].arity), OPS[opcode].doc)
        console.print(table)
        return
    op = OPS.get(name)
    if op is None:
        import difflib

        near = difflib.get_close_matches(name, OPS, n=3)
        raise ArgumentError(
            f"there is no operation '{name}'"
            + (f"; did you mean {' or '.join(near)}?" if near else ": see xla-wasm ops")
        )
    if as_json:
        attributes = [{"name": attribute.name, "kind": str(attribute.kind)} for attribute in op.attrs]
        facts = {"name": op.opcode, "operands": _arity(op.arity), "doc": op.doc, "attributes": attributes}
        report.print_json({**facts, "calls": list(op.called), "constraints": list(op.constraints)})
        return
    console.print(Text.assemble((op.opcode, "bold"), " ", op.doc))
    table = report.table("part", "")
    table.add_row("operands", _arity(op.arity))
    for attribute in op.attrs:
        table.add_row("attribute", f"{attribute.name}: {attribute.kind}")
    for called in op.called:
        table.add_row("calls", called)
    for number, constraint in enumerate(op.constraints, 1):
        table.add_row(f"(C{number})", constraint)
    console.print(table)


def _arity(arity: tuple[int, int | None]) -> str:
    least, most = arity
    return f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
