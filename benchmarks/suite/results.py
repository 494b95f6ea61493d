"""Results as they are kept: a JSON file with a row for each workload, each with what it was measured on and with which
sources."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .contestants import ROOT, versions
from .driver import Effort
from .machine import describe

SOURCES = (
    "xla_wasm/**/*.py",
    "web/*.js",
    "web/[!dh]*/*.js",
    "web/devices/*.js",
    "web/diagnostics/*.js",
    "runtime_c/**/*",
    "benchmarks/*.py",
    "benchmarks/suite/**/*",
)
SHOWING = ("chart.py", "command.py", "document.py", "results.py", "table.py")
"""Of the suite's files, those that measure nothing."""
Row = dict[str, Any]


class Results:
    """The rows of a file, which is written anew after each."""

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        kept = json.loads(path.read_text()) if path.exists() and not fresh else {}
        self.rows: dict[str, Row] = kept.get("workloads", {})
        self.compiled: dict[str, Any] = kept.get("compiling", {})

    def has(self, name: str, stamp: Mapping[str, Any]) -> bool:
        """Returns True if the row is there and was measured under just these circumstances."""
        return under(self.rows.get(name, {}), stamp)

    def put(self, name: str, row: Row, order: list[str]) -> None:
        """Adds a row, in the order of the table, and writes the file."""
        self.rows[name] = row
        known = [name for name in order if name in self.rows]
        self.rows = {name: self.rows[name] for name in known}
        self.save()

    def save(self) -> None:
        """Writes the file, all of it or nothing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps({"workloads": self.rows, "compiling": self.compiled}, indent=1) + "\n")
        beside.replace(self.path)


def under(row: Row, stamp: Mapping[str, Any]) -> bool:
    """Returns True if a row was measured under these circumstances, the commit aside: one that changes none of the
    sources makes no difference."""
    return all(row.get(key) == value for key, value in stamp.items() if key != "commit")


def stamp(effort: Effort, node: str) -> dict[str, Any]:
    """The circumstances of a row: machine, versions of peers, commit, what the sources are in case that is not all, and
    the effort."""
    return {
        "machine_of": describe(node),
        "peers": versions(),
        "commit": _commit(),
        "sources": _sources(),
        "effort": asdict(effort),
    }


def _commit() -> str:
    """The commit, and whether its sources were changed since; nothing where there is no git."""
    folders = sorted({pattern.partition("/")[0] for pattern in SOURCES})
    try:
        head, changes = (
            subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for command in (
                ("rev-parse", "--short", "HEAD"),
                ("status", "--porcelain", "--", *(f"{f}/**/*.py" for f in folders)),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{head} with changes" if changes else head


def _sources() -> str:
    """A hash of the files that the figures depend on."""
    found = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts and path.name not in SHOWING:
                found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]
