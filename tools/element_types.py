"""Writes web/element_types.js, by which the host in JavaScript knows the types of elements, from the table of
xla_wasm/hlo/types.py.

    python tools/element_types.py
"""

from __future__ import annotations

from pathlib import Path

from xla_wasm.javascript import TYPED_ARRAY_OF

JAVASCRIPT = Path(__file__).parents[1] / "web" / "element_types.js"
_HEAD = """\
// The element types whose values each typed array holds, or their bits. Written by tools/element_types.py;
// xla_wasm/hlo/types.py has the table.

export const ELEMENT_TYPES = {
"""


def javascript() -> str:
    """Returns the module: element types by the class of their arrays."""
    names: dict[str, list[str]] = {}
    for name, array in TYPED_ARRAY_OF.items():
        names.setdefault(array, []).append(name)
    text = _HEAD
    for array, those in names.items():
        row = f"  {array}: '{' '.join(those)}',\n"
        text += row if len(row) <= 121 else f"  {array}:\n    '{' '.join(those)}',\n"
    return text + "};\n"


if __name__ == "__main__":
    JAVASCRIPT.write_text(javascript())
