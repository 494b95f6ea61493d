"""Artifacts and executables shown in one line, and as a table where notebooks want HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import visible

Shown = tuple[str, str, str, int]
"""An array of an interface: its name, its type as in "f32[2,3]", its kind, and its bytes."""

_MOST_NAMED = 4
"""Arrays of one kind in a line, before the rest are counted."""
_LONGEST = 40
"""Characters of a name."""


def dimensions(
    bounds: Sequence[int], sizes: Sequence[int | None] | None, least: Sequence[int] | None = None
) -> list[str]:
    """Dimensions as they are shown; one that has a size which changes (an entry of `sizes` that is not None) has
    bounds."""
    pairs = zip(bounds, sizes or [None] * len(bounds), least or [0] * len(bounds))
    return [str(n) if at is None else f"{low}..{n}" if low else f"<={n}" for n, at, low in pairs]


def array(name: str, element_type: str, shown: Sequence[str], kind: str, size: int) -> Shown:
    """An array as it is shown, `shown` being its dimensions."""
    return name, f"{element_type}[{','.join(shown)}]", kind, size


def of_manifest(manifest: Mapping[str, Any]) -> list[Shown]:
    """The parameters and results of a manifest that nobody has checked; none if it makes no sense."""
    try:
        leaves = [*manifest["parameters"], *(leaf for leaf in manifest["results"] if leaf["kind"] == "output")]
        return [
            array(
                x["name"],
                x["element_type"],
                dimensions(x["dimensions"], x.get("sizes"), x.get("least")),
                x["kind"],
                int(x["bytes"]),
            )
            for x in leaves
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return []


def line(what: str, name: str, arrays: Iterable[Shown], notes: Iterable[str] = ()) -> str:
    """One line: what it is, its name, its inputs and outputs, its weights and states, and `notes`."""
    kinds: dict[str, list[str]] = {}
    for array_name, type_, kind, _ in arrays:
        kinds.setdefault(kind, []).append(f"{_short(array_name)} {type_}")
    parts = (
        [f"{_named(kinds.get('input', []), 'no inputs')} -> {_named(kinds.get('output', []), 'no outputs')}"]
        if kinds
        else []
    )
    for kind in ("weight", "state"):
        if names := kinds.get(kind):
            parts.append(f"{kind if len(names) == 1 else kind + 's'} {_named(names)}")
    text = "; ".join([*parts, *notes])
    return (
        visible(f"<{what} '{_short(name)}'{': ' + text if text else ''}>")
        .replace("\n", "\u240a")
        .replace("\t", "\u2409")
    )


def table(what: str, name: str, arrays: Iterable[Shown], notes: Iterable[str] = ()) -> str:
    """The same as an HTML table, with a row for each array."""
    from html import escape

    def cell(text: str) -> str:
        return escape(visible(text))

    rows = "".join(
        f"<tr><td>{cell(kind)}</td><td>{cell(array_name)}</td><td>{cell(type_)}</td><td style='text-align: "
        f"right'>{size:,}</td></tr>"
        for array_name, type_, kind, size in arrays
    )
    caption = "; ".join([f"{cell(what)} <b>{cell(name)}</b>", *map(cell, notes)])
    head = "<tr><th>kind</th><th>name</th><th>type</th><th style='text-align: right'>bytes</th></tr>"
    return f"<table><caption>{caption}</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _named(names: Sequence[str], none: str = "") -> str:
    more = [f"and {len(names) - _MOST_NAMED:,} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*names[:_MOST_NAMED], *more]) or none


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "\u2026"
