"""Results as documents: docs/performance.md with its chart, the page, and the figures of the README and of the front
page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from .. import markdown
from .chart import NARROW, Bar, chart
from .contestants import ROOT
from .machine import MODES
from .results import Row
from .table import CALL, COLUMNS, KERNEL, PLAIN, RELAXED, best, cells, least, ratio, share, troubles
from .workload import families

BEGIN, END = "<!-- written by python -m benchmarks -->", "<!-- end -->"
NAMES = {"ort": "onnxruntime-web", "tfjs": "TensorFlow.js", "jax-js": "jax-js"}
Rows = Mapping[str, Row]
FIGURES = (
    ("matmul_512", "matmul 512, f32"),
    ("conv3x3_56_64_64", "convolution 3x3, 56x56x64 to 64"),
    ("gelu_chain_1M", "GELU of a million numbers"),
    ("softmax_1024x1024", "softmax of 1024 rows of 1024"),
    ("mobilenetv2", "MobileNetV2, one image"),
    ("resnet18", "ResNet-18, one image"),
    ("gpt2s_decode", "GPT-2 small, one more token"),
)
ENCODER = "minilm_s128"


def write(rows: Rows, compiled: Mapping[str, Any], root: Path = ROOT) -> None:
    """Writes everything that shows results."""
    page = root / "web" / "demo" / "performance"
    picture = chart(bars(rows))
    for path in (root / "docs" / "performance.svg", page / "chart.svg"):
        path.write_text(picture)
    (page / "chart-narrow.svg").write_text(chart(bars(rows), NARROW))
    index = page / "index.html"
    for name in ("chart.svg", "chart-narrow.svg"):
        height = re.search(r'viewBox="0 0 \d+ (\d+)"', (page / name).read_text())
        if height:
            place = rf'(="{name}" width="\d+" height=")\d+'
            index.write_text(re.sub(place, rf"\g<1>{height[1]}", index.read_text()))
    markdown.replace_between(root / "docs" / "performance.md", BEGIN, END, document(rows, compiled))
    markdown.replace_between(index, BEGIN, END, page_tables(rows))
    markdown.replace_between(root / "README.md", BEGIN, END, figures(rows, compiled))
    front, found = root / "web" / "demo" / "index.html", _of(rows.get(ENCODER), "ort")
    if found is not None:
        front.write_text(re.sub(r'(<dd id="ratio">).*?(</dd>)', rf"\g<1>{found:.2f}\2", front.read_text()))


def bars(rows: Rows) -> dict[str, list[Bar]]:
    """The rows that have a ratio, by family."""
    found: dict[str, list[Bar]] = {}
    for title, name, row in _in_order(rows):
        modes = (CALL,) if row["model"] else (KERNEL, CALL)
        main, call, top = ratio(row, modes[0]), ratio(row, CALL), best(row, *modes)
        if main is not None and top is not None:
            found.setdefault(title, []).append(Bar(name, main, None if row["model"] else call, top.name))
    return found


def document(rows: Rows, compiled: Mapping[str, Any]) -> str:
    """The part of docs/performance.md that holds figures."""
    parts = [f"\n{circumstances(rows)}\n", "\n![Ratios to the fastest peer](performance.svg)\n"]
    for title, names in _families(rows).items():
        parts.append(f"\n### {title}\n\n{markdown.table(COLUMNS, [cells(name, rows[name]) for name in names])}")
    wrong = [line for _, name, row in _in_order(rows) for line in troubles(name, row)]
    if wrong:
        parts.append("\n### What is wrong or failed\n\n" + "".join(f"- {line}\n" for line in wrong))
    if compiled:
        parts.append("\n### Compiling\n\nCPU time of reading, compiling and writing, median of fresh processes.\n\n")
        columns = ("module", ">instructions", ">time", ">ms an instruction", ">bytes", ">of them constants")
        parts.append(markdown.table(columns, _compile_rows(compiled)))
    parts.append("\n")
    return "".join(parts)


def _compile_rows(compiled: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, entry in compiled.items():
        count, seconds = entry["instructions"], entry["seconds"]
        each = f"{seconds / count * 1e3:.2f}"
        yield name, f"{count:,}", f"{seconds * 1e3:.0f} ms", each, f"{entry['bytes']:,}", f"{entry['weights']:,}"


def circumstances(rows: Rows) -> str:
    """Returns a paragraph on the machines and commits of the figures, and on the machines' limits."""
    machines = {_machine(row) for row in rows.values()}
    commits = sorted({row.get("commit", "") for row in rows.values()})
    fma, muladd, read1, read6 = (max(row["machine"][mode]["max"] for row in rows.values()) / 1e9 for mode in MODES)
    return (
        f"On {' and '.join(sorted(machines))}; commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}. The best "
        f"of its limits:"
        f" {fma:.1f} GFLOP/s of fused multiply-adds, {muladd:.1f} of multiplications and additions, reading "
        f"{read1:.1f} GB/s in one stream"
        f" and {read6:.1f} in six."
    )


def _machine(row: Row) -> str:
    of, peers = row["machine_of"], row["peers"]
    versions = ", ".join(f"{NAMES[name]} {version}" for name, version in peers.items())
    return f"{of['cpu']}, Node {of['node']}, wasmtime {of['wasmtime']}; {versions}"


def figures(rows: Rows, compiled: Mapping[str, Any]) -> str:
    """The table of the README."""
    lines = []
    encoder = rows.get(ENCODER)
    relaxed, plain = _of(encoder, "ort"), _of(encoder, "ort", PLAIN)
    if relaxed is not None and plain is not None:
        text = f"**{relaxed:.2f}** of onnxruntime-web's time (relaxed-simd), **{plain:.2f}** (simd128)"
        lines.append(("an encoder of MiniLM's size (6 blocks, width 384, 128 tokens)", text))
    for name, title in FIGURES:
        row = rows.get(name)
        mode = CALL if row and row["model"] else KERNEL
        value, top = (
            (ratio(row, mode), best(row, *((CALL,) if row["model"] else (KERNEL, CALL)))) if row else (None, None)
        )
        if row is None or value is None or top is None:
            continue
        part = share(row) if not row["model"] else None
        text = f"**{value:.2f}** of {NAMES[top.name]}'s time" + (
            f", {100 * part:.0f} % of the machine's peak" if part else ""
        )
        lines.append((title, text))
    if "gradient of 12 blocks" in compiled:
        entry = compiled["gradient of 12 blocks"]
        each = f"{entry['seconds'] / entry['instructions'] * 1e3:.2f} ms an instruction"
        text = (
            f"{compiled['digits']['seconds'] * 1e3:.0f} ms for digits; {each} for the gradient of a 12-block "
            f"transformer"
        )
        lines.append(("compile time", f"{text} ({entry['instructions']:,} instructions, {entry['seconds']:.1f} s)"))
    return f"\n{markdown.table(('in Node, on one thread', 'figure'), lines)}\n"


def page_tables(rows: Rows) -> str:
    """The tables of the page, as HTML."""
    parts = [f'      <p class="machine">{escape(circumstances(rows))}</p>\n']
    for title, names in _families(rows).items():
        region = f'class="card scroll" tabindex="0" role="region" aria-label="{escape(title)}"'
        parts.append(f"      <h2>{escape(title)}</h2>\n      <div {region}><table>\n")
        heads = "".join(f'<th scope="col"{_side(c)}>{escape(c.removeprefix(">"))}</th>' for c in COLUMNS)
        parts.append(f"        <thead><tr>{heads}</tr></thead>\n        <tbody>\n")
        for name in names:
            first, *rest = cells(name, rows[name])
            data = "".join(f"<td{_side(column)}>{escape(text)}</td>" for column, text in zip(COLUMNS[1:], rest))
            head = escape(first).replace("_", "_<wbr>")  # where it may go on in another line, on a phone
            parts.append(f'          <tr><th scope="row">{head}</th>{data}</tr>\n')
        parts.append("        </tbody>\n      </table></div>\n")
    return "".join(parts)


def _side(column: str) -> str:
    return ' class="number"' if column.startswith(">") else ""


def _of(row: Row | None, peer: str, ours: str = RELAXED) -> float | None:
    """The time of a call as a part of one peer's."""
    own, theirs = (least(row["contestants"].get(name), CALL) if row else None for name in (ours, peer))
    return None if own is None or theirs is None else own / theirs


def _families(rows: Rows) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for title, name, _ in _in_order(rows):
        found.setdefault(title, []).append(name)
    return found


def _in_order(rows: Rows) -> Iterator[tuple[str, str, Row]]:
    """Family, name and row of what was measured, in the order of the table."""
    for title, workloads in families().items():
        for workload in workloads:
            if workload.name in rows:
                yield title, workload.name, rows[workload.name]
