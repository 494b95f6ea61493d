"""Writes what follows from the table of a manifest's fields (xla_wasm/host/manifest_fields.py): the table of
docs/embedding.md, and web/manifest_fields.js, by which the host in JavaScript checks manifests; that has the element
types of xla_wasm/hlo/types.py, too.

    python tools/manifest_fields.py
"""

from __future__ import annotations

from pathlib import Path

from xla_wasm.host.manifest_fields import ARRAY_KINDS, MAX_INT, ROWS
from xla_wasm.javascript import TYPED_ARRAY_OF

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "embedding.md"
JAVASCRIPT = ROOT / "web" / "manifest_fields.js"
_BEGIN = "<!-- written by tools/manifest_fields.py -->\n\n"
_END = "\n<!-- end -->\n"
_HEAD = """\
// What fields of a manifest may be: the bounds of an integer, the size and the alignment of what lies at an address,
// the choices of a string; and the element types, by the typed array that has their values or bits. Written by
// tools/manifest_fields.py; xla_wasm/host/manifest_fields.py has their meanings, xla_wasm/hlo/types.py the types.
"""


def table() -> str:
    """The rows in Markdown."""
    rows = ["| field | type | unit | meaning |", "|---|---|---|---|"]
    for row in ROWS:
        unit = f" {row.unit} " if row.unit else " "
        rows.append(f"| `{row.path}` | {row.type} |{unit}| {row.meaning} |")
    return "\n".join(rows) + "\n"


def written(document: str) -> str:
    """The document with the table as it is now."""
    before, _, rest = document.partition(_BEGIN)
    return before + _BEGIN + table() + _END + rest.partition(_END)[2]


def javascript() -> str:
    """The module web/manifest_fields.js: a table for each object of a manifest that has fields which are not just any
    integer from 0 on, or any string.

    The loader has to be small, so these tables have neither the meanings nor what goes without saying.
    """
    tables: dict[str, dict[str, str]] = {}
    for row in ROWS:
        place, _, key = row.path.rpartition(".")
        bounds = {"low": row.low or None, "high": None if row.high == MAX_INT else row.high}
        numbers = {**bounds, "size": row.size or None, "align": None if row.align == 1 else row.align}
        stated = ", ".join(f"{name}: {n}" for name, n in numbers.items() if n is not None)
        if (stated or row.choices) and row.path != "kind":  # a program with a kind is refused, whatever it says
            tables.setdefault(place, {})[key] = _list(row.choices) if row.choices else f"{{ {stated} }}"
    for place, kinds in ARRAY_KINDS.items():
        tables.setdefault(place, {})["kind"] = _list(kinds)
    text = _HEAD
    for place, fields in tables.items():
        name = place.replace("[]", "").replace(".", "_").upper() or "TOP"
        rows = "".join(f"  {key}: {row},\n" for key, row in fields.items())
        text += f"\nexport const {name} = {{\n{rows}}};\n"
    return text + _element_types()


def _element_types() -> str:
    names: dict[str, list[str]] = {}
    for name, array in TYPED_ARRAY_OF.items():
        names.setdefault(array, []).append(name)
    text = "\nexport const ELEMENT_TYPES = {\n"
    for array, those in names.items():
        row = f"  {array}: '{' '.join(those)}',\n"
        text += row if len(row) <= 121 else f"  {array}:\n    '{' '.join(those)}',\n"
    return text + "};\n"


def _list(choices: tuple[str, ...]) -> str:
    return f"[{', '.join(map(repr, choices))}]"


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
    JAVASCRIPT.write_text(javascript())
