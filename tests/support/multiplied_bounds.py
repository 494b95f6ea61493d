"""Sizes from which the compiler takes another path, moved: to where any small case takes it, or to where none does.

The values of a program do not depend on them, but for the order of sums.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

NEVER = 1 << 40
BOUNDS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("ops.movement.lower", "_ROW", (1, NEVER)),
    ("ops.window.lower_cumulative", "_LONG", (4, NEVER)),
    ("ops.window.lower_sliding", "_LEAST", (2, NEVER)),
    ("ops.sort.expand", "_SHORT", (NEVER,)),
    ("ops.sort.expand", "_SHARE", (2, NEVER)),
    ("ops.sort.lower_radix", "SHORTEST", (1, NEVER)),
    ("ops.conv.plan", "_LEAST", (4, NEVER)),
    ("ops.conv.plan", "_FEW", (1,)),
    ("ops.conv.plan", "_MAX_SUMS", (1, 64)),
    ("ops.conv.canonical_phases", "_MOST", (1, NEVER)),
    ("ops.conv.canonical_phases", "_MOST_ALONE", (0, NEVER)),
    ("ops.conv.lower_depthwise", "_TAPS", (1, 9)),
    ("ops.dot.canonical_integers", "_PRODUCTS", (1, NEVER)),
    ("ops.dot.canonical_integers", "_LENGTH", (1,)),
    ("ops.dot.canonical", "_ROW", (1, NEVER)),
    ("ops.dot.stored", "FEW_ROWS", (0, NEVER)),
    ("ops.indexing.lower", "_FEW", (0, NEVER)),
    ("ops.indexing.lower", "_AHEAD", (1, 3)),
    ("ops.fft.lower", "_SHORT", (1, NEVER)),
    ("ops.reduce.lower_best", "_LONG_SEARCH", (1024, NEVER)),
    ("ops.reduce.lower_walk", "_CHAIN", (4,)),
    ("ops.reduce.lower_columns", "_LEAST_COLUMN", (1, NEVER)),
    ("ops.reduce.lower_columns", "_LONG_ROW", (1, NEVER)),
    ("ops.reduce.lower_running", "_LEAST", (1, NEVER)),
    ("plan.moves", "_LEAST", (1, NEVER)),
    ("plan.product", "LONG_EPILOGUE", (0, NEVER)),
    ("plan.product", "_FEW", (1, NEVER)),
    ("plan.cost", "RECOMPUTED", (0, 30)),
    ("plan.cost", "MAX_OPERATIONS", (5,)),
    ("plan.cost", "MAX_PLACES", (1,)),
    ("plan.cost", "MAX_GROUP", (5,)),
    ("plan.cost", "MAX_MEMBERS", (1,)),
    ("plan.cost", "ROW", (0, NEVER)),
    ("plan.cost", "MOST_IN_TILES", (0, NEVER)),
    ("plan.cost", "LONG_ROW", (1, NEVER)),
    ("plan.cost", "STEP", (0, 10000)),
    ("plan.cost", "SMALL", (0, NEVER)),
    ("plan.loops", "_EXECUTED", (NEVER, 0)),
    ("plan.loops", "_WRITTEN", (NEVER, 0)),
    ("plan.loops", "_COPIED", (NEVER, 0)),
    ("loop.interleave", "_CHAIN", (1, NEVER)),
    ("loop.interleave", "_SHORT", (0, NEVER)),
    ("loop.pieces", "_CHUNK", (1,)),
    ("loop.pieces", "STATEMENTS", (1,)),
    ("loop.pieces", "_PATIENCE", (1,)),
    ("loop.pieces", "_LOOK", (1,)),
    ("assemble.driver", "_COPIED", (16,)),
    ("assemble.driver", "_LONG", (0,)),
    ("kernels.tiles", "CACHE", (64, NEVER)),
    ("kernels.tiles", "_SHARES", (1, NEVER)),
    ("kernels.tiles", "_SPANS", (1, NEVER)),
    ("kernels.tiles", "_UNPACKED", (0, NEVER)),
    ("kernels.tiles", "_QUAD_ROWS", (1, NEVER)),
    ("kernels.tiles", "_PAIRS", (1, NEVER)),
    ("kernels.tiles", "_STREAM", (1,)),
    ("kernels.tiles", "_LINES", (1, 4)),
    ("kernels.tiles", "_PAGE", (16, NEVER)),
    ("kernels.tiles", "_LINE", (16, 256)),
    ("kernels.tiles", "_FAR", (0, NEVER)),
    ("kernels.tiles", "_PANEL", (64, NEVER)),
    ("passes.split", "_LEAST", (1, NEVER)),
    ("passes.reductions", "_LEAST", (16, NEVER)),
    ("lowering.kernel_writer", "_CALL", (1, NEVER)),
    ("kernels.winograd", "_NEAR", (1, NEVER)),
    ("kernels.winograd", "_CACHE", (1024,)),
)
"""The module in which a bound is, its name, and other values for it."""
TAKEN = {
    "SHORTEST": ("ops.sort.lower",),
    "FEW_ROWS": ("plan.product", "passes.dequantize"),
    "LONG_EPILOGUE": ("plan.fusion",),
    "RECOMPUTED": ("plan.fuse", "plan.elements"),
    "MAX_OPERATIONS": ("plan.fuse",),
    "MAX_PLACES": ("plan.fuse",),
    "MAX_GROUP": ("plan.group",),
    "MAX_MEMBERS": ("plan.group",),
    "ROW": ("plan.fit",),
    "MOST_IN_TILES": ("plan.elements",),
    "LONG_ROW": ("plan.elements",),
    "STEP": ("plan.group",),
    "SMALL": ("plan.planner", "plan.versions", "plan.order", "plan.group", "plan.hoist"),
    "STATEMENTS": ("plan.loops",),
}
"""The modules that import one by name."""

Moved = tuple[tuple[int, int], ...]
"""Bounds, by their places in `BOUNDS`, and their values."""


def some(choose: random.Random, share: float = 0.5, least: bool = False) -> Moved:
    """Any bounds, about that share of them, with other values; with `least` the first of these, by which small cases
    take the paths of large ones."""
    return tuple(
        (place, values[0] if least else choose.choice(values))
        for place, (_, _, values) in enumerate(BOUNDS)
        if choose.random() < share
    )


def described(moved: Moved) -> str:
    """The bounds in words."""
    return ", ".join(f"{BOUNDS[place][0]}.{BOUNDS[place][1]} = {value}" for place, value in moved)


@contextmanager
def at(moved: Moved) -> Iterator[None]:
    """Compiles with these bounds."""
    before: list[tuple[Any, str, int]] = []
    try:
        for place, value in moved:
            home, name, _ = BOUNDS[place]
            for module in _modules(home, name):
                before.append((module, name, getattr(module, name)))
                setattr(module, name, value)
        yield
    finally:
        for module, name, value in reversed(before):
            setattr(module, name, value)


def _modules(home: str, name: str) -> Sequence[Any]:
    return [import_module(f"xla_wasm.{place}") for place in (home, *TAKEN.get(name, ()))]
