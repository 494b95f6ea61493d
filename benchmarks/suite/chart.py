"""The ratios of all rows as a chart in SVG: a bar a row from the line at 1, to the left where xla_wasm is faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from .table import ratio_text

HEADING, BOTTOM = 30, 16
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
STYLE = """
.perf text{font:13px system-ui,sans-serif;fill:#24292f}.perf .soft{fill:#59636e}.perf .head{font-weight:600}.perf .at{text-anchor:middle}
.perf .name{text-anchor:end}.perf .grid{stroke:#8b949e;stroke-opacity:.35}.perf .one{stroke:#24292f;stroke-width:1.5}
.perf .faster{fill:#2f6fde}.perf .slower{fill:#c2571a}.perf .call{fill:#fff;stroke:#24292f;stroke-width:1.5}
@media(prefers-color-scheme:dark){.perf text{fill:#e6edf3}.perf .soft{fill:#9198a1}.perf .one{stroke:#e6edf3}.perf .faster{fill:#6ea8ff}
.perf .slower{fill:#f0a35e}.perf .call{fill:#0d1117;stroke:#e6edf3}}
"""  # noqa: E501


@dataclass(frozen=True)
class Form:
    """Measures of the picture in pixels: where its scale begins and ends, and how far below a row's top bars begin."""

    width: int
    left: int
    right: int
    top: int
    row: int
    bar: int

    @property
    def narrow(self) -> bool:
        """True if a row's name stands above its bar, and not at its left."""
        return self.bar > self.row // 2


WIDE = Form(width=860, left=250, right=720, top=64, row=18, bar=3)
NARROW = Form(width=360, left=20, right=262, top=84, row=36, bar=19)
"""For phones, on which it is shown as large as it is."""


@dataclass(frozen=True)
class Bar:
    """A row: the ratio of kernels, or of calls where there is no other, that of calls, and the peer that both are
    to."""

    name: str
    ratio: float
    call: float | None
    peer: str


def chart(families: Mapping[str, Sequence[Bar]], form: Form = WIDE) -> str:
    """The chart of these rows under the titles of their families."""
    shown = {title: bars for title, bars in families.items() if bars}
    values = [value for bars in shown.values() for bar in bars for value in (bar.ratio, bar.call) if value] or [1.0]
    low = max((tick for tick in TICKS if tick <= min(*values, 0.5)), default=TICKS[0])
    high = min((tick for tick in TICKS if tick >= max(*values, 2)), default=TICKS[-1])

    def x(value: float) -> float:
        part = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return form.left + part * (form.right - form.left)

    height = form.top + sum(HEADING + form.row * len(bars) for bars in shown.values()) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="perf" viewBox="0 0 {form.width} {height}" role="img">',
        "<title>Time of xla_wasm as a part of that of the fastest other WebAssembly library</title>",
        "<desc>One bar a workload on a logarithmic scale, from the line at 1: to the left xla_wasm is faster. "
        "Circles: whole calls.</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="faster" x="{form.left}" y="8" width="22" height="10"/>',
        f'<text x="{form.left + 30}" y="17">faster</text>',
        f'<rect class="slower" x="{form.left + 90}" y="8" width="22" height="10"/>',
        f'<text x="{form.left + 120}" y="17">slower: kernels, of models calls</text>',
        *_whole_calls(*((form.left, 33) if form.narrow else (form.left + 335, 13))),
    ]
    for tick in (tick for tick in TICKS if low <= tick <= high):
        at, kind = round(x(tick), 1), "one" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{at}" x2="{at}" y1="{form.top - 14}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text class="soft at" x="{at}" y="{form.top - 20}">{tick:g}</text>')
    y = form.top
    for title, bars in shown.items():
        parts.append(f'<text class="head" x="8" y="{y + HEADING - 10}">{escape(title)}</text>')
        y += HEADING
        for bar in bars:
            parts += _bar(bar, y, x, form)
            y += form.row
    return "\n".join([*parts, "</svg>"]) + "\n"


def _whole_calls(x: int, y: int) -> tuple[str, str]:
    return f'<circle class="call" cx="{x}" cy="{y}" r="4"/>', f'<text x="{x + 11}" y="{y + 4}">whole calls</text>'


def _bar(bar: Bar, y: int, x: Callable[[float], float], form: Form) -> list[str]:
    one, end = x(1), x(bar.ratio)
    kind = "faster" if bar.ratio <= 1 else "slower"
    left, width = round(min(one, end), 1), round(max(abs(one - end), 1), 1)
    name = f'x="{form.left}"' if form.narrow else f'class="name" x="{form.left - 10}"'
    found = [
        f'<text {name} y="{y + 13}">{escape(bar.name)}</text>',
        f'<rect class="{kind}" x="{left}" y="{y + form.bar}" width="{width}" height="12" rx="2"/>',
        f'<text x="{form.right + 12}" y="{y + form.bar + 10}">{ratio_text(bar.ratio)} '
        f'<tspan class="soft">{escape(bar.peer)}</tspan></text>',
    ]
    if bar.call is not None:
        found.append(f'<circle class="call" cx="{round(x(bar.call), 1)}" cy="{y + form.bar + 6}" r="4"/>')
    return found
