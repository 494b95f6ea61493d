"""Simplifications that concern several instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.differential import run
from xla_wasm.hlo.ir import Module
from xla_wasm.passes.simplify import simplify
from xla_wasm.reference import evaluate


def nested(groups: int, size: int, inner: int = 1, outer: int = 1) -> Module:
    """Concatenations of so many parts each, and one of them; `inner` and `outer` are their dimensions. Another reader
    sees the first group."""
    count = groups * size
    wide = (2, size) if inner else (2 * size, 1)
    whole = tuple(n * (groups if d == outer else 1) for d, n in enumerate(wide))
    lines = [f"p = f32[2,{count}] parameter(0)"]
    for i in range(groups):
        for k in range(i * size, (i + 1) * size):
            lines.append(f"s{k} = f32[2,1] slice(p), slice={{[0:2],[{k}:{k + 1}]}}")
        parts = ", ".join(f"s{k}" for k in range(i * size, (i + 1) * size))
        lines.append(f"c{i} = f32[{wide[0]},{wide[1]}] concatenate({parts}), dimensions={{{inner}}}")
    joined = ", ".join(f"c{i}" for i in range(groups))
    shape = f"f32[{whole[0]},{whole[1]}]"
    lines.append(f"all = {shape} concatenate({joined}), dimensions={{{outer}}}")
    lines.append(f"less = f32[{wide[0]},{wide[1]}] negate(c0)")
    lines.append(f"ROOT r = ({shape}, f32[{wide[0]},{wide[1]}]) tuple(all, less)")
    return Module.from_text("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}")


def parts_of_the_last(module: Module) -> int:
    copy = Module.from_proto(module.to_proto())
    simplify(copy)
    return len(copy.entry.root.operands[0].operands)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"groups": 2, "size": 3}, 6),
        ({"groups": 2, "size": 32}, 64),
        ({"groups": 5, "size": 13}, 5),  # 65 are too many
        ({"groups": 2, "size": 3, "inner": 0}, 2),
        ({"groups": 2, "size": 3, "inner": 0, "outer": 0}, 6),
        ({"groups": 2, "size": 3, "outer": 0}, 2),
    ],
)
def test_concatenations_of_concatenations(arguments: Any, count: int) -> None:
    module = nested(**arguments)
    assert parts_of_the_last(module) == count
    x = np.arange(2 * arguments["groups"] * arguments["size"], dtype=np.float32).reshape(2, -1)
    for actual, expected in zip(run(module, x), evaluate(module, x), strict=True):
        np.testing.assert_array_equal(actual, expected)
