"""Rows of results as figures: ratios to the best peer, shares of the machine's limits, and the table of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .contestants import NARROW, PLAIN, RELAXED, VERSIONS, WASMTIME, XLA
from .machine import FMA, READ1, READ6
from .results import Row
from .workload import MS, NS, UNITS

KERNEL, CALL = "kernel", "call"
LIMITS = {"fma": FMA, "read": READ6}
COLUMNS = (
    "workload",
    "unit",
    ">V8 relaxed-simd",
    ">V8 simd128",
    ">wasmtime",
    "best peer",
    ">its",
    ">ratio: kernel",
    ">ratio: call",
    ">% of limit",
    ">XLA:CPU",
    ">its SSE4.2",
    ">limits",
)


@dataclass(frozen=True)
class Best:
    """The fastest peer, and its seconds."""

    name: str
    seconds: float


def figure(row: Row, seconds: float) -> float:
    """A time of a call in the row's unit."""
    unit, work = row["unit"], row["work"]
    if unit == MS:
        return seconds * 1e3
    return seconds / work * 1e9 if unit == NS else work / seconds / UNITS[unit]


def least(entry: Mapping[str, Any] | None, *modes: str) -> float | None:
    """The least time of a contestant in any of these modes, if it gave the right values."""
    if entry is None or entry["status"] != "ok":
        return None
    return min((entry[mode]["min"] for mode in modes if mode in entry), default=None)


def best(row: Row, *modes: str) -> Best | None:
    """The fastest peer that gave the right values."""
    found = ((least(row["contestants"].get(name), *modes), name) for name in VERSIONS)
    times = [(seconds, name) for seconds, name in found if seconds is not None]
    return Best(min(times)[1], min(times)[0]) if times else None


def ratio(row: Row, mode: str, ours: str = RELAXED) -> float | None:
    """Our time as a part of the best peer's: kernels against whatever is its best, calls against calls."""
    own = least(row["contestants"].get(ours), mode)
    theirs = best(row, CALL) if mode == CALL else best(row, KERNEL, CALL)
    return None if own is None or theirs is None else own / theirs.seconds


def share(row: Row, ours: str = RELAXED) -> float | None:
    """The part of the machine's limit that the kernel reaches, if the row's work is counted in that."""
    own = least(row["contestants"].get(ours), KERNEL, CALL)
    if own is None or row["bound"] not in LIMITS or LIMITS[row["bound"]] not in row["machine"]:
        return None
    return row["work"] / own / row["machine"][LIMITS[row["bound"]]]["max"]


def cells(name: str, row: Row) -> tuple[str, ...]:
    """The row as text, by the columns."""
    modes = (CALL,) if row["model"] else (KERNEL, CALL)
    entries = row["contestants"]
    top = best(row, *((CALL,) if row["model"] else (KERNEL, CALL)))
    theirs = _times(row, entries.get(top.name), modes) if top else _troubles(row)
    ratios = ("" if row["model"] else ratio_text(ratio(row, KERNEL)), ratio_text(ratio(row, CALL)))
    part = share(row)
    return (
        name,
        row["unit"],
        *(_times(row, entries.get(ours), modes) for ours in (RELAXED, PLAIN, WASMTIME)),
        top.name if top else "",
        theirs,
        *ratios,
        "" if part is None else f"{part:.0%}".replace("%", ""),
        *(_times(row, entries.get(other), (KERNEL,)) for other in (XLA, NARROW)),
        " / ".join(
            f"{row['machine'][mode]['max'] / 1e9:.0f}" for mode in (FMA, READ1, READ6) if mode in row["machine"]
        ),
    )


def _times(row: Row, entry: Mapping[str, Any] | None, modes: tuple[str, ...]) -> str:
    if entry is None or entry["status"] == "none":
        return ""
    if entry["status"] != "ok":
        return str(entry["status"]).upper()
    return " / ".join(number(figure(row, entry[mode]["min"])) if mode in entry else "-" for mode in modes)


def _troubles(row: Row) -> str:
    found = {name: row["contestants"][name]["status"] for name in VERSIONS if name in row["contestants"]}
    return ", ".join(f"{name} {status}" for name, status in found.items() if status in ("wrong", "failed"))


def ratio_text(value: float | None) -> str:
    """Two decimals, or one digit where these would be zeros."""
    return "" if value is None else f"{value:.2f}" if value >= 0.005 else f"{value:.1g}"


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def troubles(name: str, row: Row) -> list[str]:
    """Returns a line for each contestant of a row that is wrong or failed."""
    found = []
    for contestant, entry in row["contestants"].items():
        if entry["status"] == "wrong":
            size = (
                f"by {entry['error']:.1e} of the largest value, {row['tolerance']:.0e} is allowed"
                if "error" in entry
                else "and not a little"
            )
            found.append(f"{name}: {contestant} is wrong {size}")
        if entry["status"] == "failed":
            found.append(f"{name}: {contestant} failed: {entry['message'][:200]}")
    return found
