"""A module of JavaScript and all that it imports, as one script: each worker of a page fetches what it runs by itself.

It knows the forms that imports and exports of the loader have, as the formatter writes them, and refuses others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

_COMMENT = re.compile(r"^ *//.*\n|/\*\*(?:[^*]|\*(?!/))*\*/ ?\n?", re.MULTILINE)
_IMPORT = re.compile(r"^import (?:\{([^}]*)\} from )?'(\.[^']+)';$", re.MULTILINE)
_LATER = re.compile(r"\bimport\('(\.[^']+)'\)")
_EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) )(\w+)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*|^await .*|^(?:const|let) .* = await .*", re.MULTILINE)
_START = """\
const made = {};
const use = (name) => (made[name] ??= modules[name]());
const later = async (name) => use(name);
const modules = {
"""


def bundle(entry: Path, root: Path, without: Collection[str] = ()) -> str:
    """Returns the script of a module under `root`. What it imports while it runs is in the script too, and made when it
    is first asked for; modules `without`, by their paths under `root`, stay files that it then fetches.

    Raises ValueError where a module has other imports or exports than this knows.
    """
    modules: dict[str, str] = {}

    def name(file: Path, address: str) -> str:
        path = os.path.relpath(file.parent / address, root).replace(os.sep, "/")
        add(path)
        return f"'{path}'"

    def add(path: str) -> None:
        if path in modules:
            return
        modules[path] = ""
        file = root / path

        def imported(match: re.Match[str]) -> str:
            names = f"const {{{match[1].replace(' as ', ': ')}}} = " if match[1] else ""
            return f"{names}use({name(file, match[2])});"

        def imported_later(match: re.Match[str]) -> str:
            wanted = (file.parent / match[1]).resolve()
            if wanted.relative_to(root.resolve()).as_posix() in without:
                return f"import('{os.path.relpath(wanted, entry.parent.resolve()).replace(os.sep, '/')}')"
            return f"later({name(file, match[1])})"

        text = _COMMENT.sub("", file.read_text(encoding="utf-8"))
        text = _LATER.sub(imported_later, _IMPORT.sub(imported, text))
        exported = [match[2] for match in _EXPORT.finditer(text)]
        text = _EXPORT.sub(r"\1\2", text)
        if other := _OTHER.search(text):
            raise ValueError(f"{path}: no form that can be bundled: {other[0]}")
        modules[path] = f"{text.strip()}\nreturn {{ {', '.join(exported)} }};"

    start = os.path.relpath(entry, root).replace(os.sep, "/")
    add(start)
    parts = "".join(f"'{path}': () => {{\n{text}\n}},\n" for path, text in modules.items())
    return f"{_START}{parts}}};\nuse('{start}');\n"
