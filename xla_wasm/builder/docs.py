"""Writes docs/builder.md from the docstrings of XlaBuilder: `python -m xla_wasm.builder.docs`. Tests run the page's
examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .collectives import Collectives
from .elementwise import Elementwise
from .movement import Movement
from .products import Products
from .reductions import Reductions
from .structure import Structure
from .xla import XlaBuilder

PATH = Path(__file__).resolve().parents[2] / "docs" / "builder.md"

_SECTIONS = {
    "Elementwise": Elementwise,
    "Movement of elements": Movement,
    "Reductions, windows, sorts": Reductions,
    "Linear algebra": Products,
    "Structure, control flow, random numbers, host": Structure,
    "Collectives": Collectives,
    "Ending a computation": XlaBuilder,
}

_HEAD = """# Building a program by hand

`xla_wasm.builder.XlaBuilder` has the operations of XLA's builder interface by their own names. A builder makes one computation;
a value is an instruction of it.

```python
import numpy as np
import xla_wasm
from xla_wasm.builder import XlaBuilder
from xla_wasm.hlo.shape import Shape

b = XlaBuilder("axpy")
a = b.Parameter(0, Shape("f32"), "a")
x, y = b.Parameter(1, Shape("f32", (4,)), "x"), b.Parameter(2, Shape("f32", (4,)), "y")
module = b.module(b.Add(b.Mul(a, x), y))
exe = xla_wasm.load(xla_wasm.compile(module))
(result,) = exe.run(np.float32(2), np.arange(4, dtype=np.float32), np.ones(4, np.float32))  # 1, 3, 5, 7
```

If an operation calls a computation, make that with a builder of its own and end it with `Build`:

```python
def function(body, *shapes):
    b = XlaBuilder("function")
    return b.Build(body(b, *(b.Parameter(i, shape) for i, shape in enumerate(shapes))))

f32 = Shape("f32")
add = function(lambda b, x, y: b.Add(x, y), f32, f32)
lt = function(lambda b, x, y: b.Lt(x, y), f32, f32)
ge = function(lambda b, x, y: b.Ge(x, y), f32, f32)
double = function(lambda b, x: b.Add(x, x), f32)
negate = function(lambda b, x: b.Neg(x), f32)
below_100 = function(lambda b, x: b.Lt(x, b.Constant(100)), f32)
running_sum = function(lambda b, x, total: b.Tuple([b.Add(total, x)] * 2), f32, f32)
```

The examples below use these. In them `b` is a new builder, and the value of a line is printed as its shape and its elements.

## Broadcasting

HLO itself never broadcasts. The builder inserts the broadcasts of a binary operation, if it has

- a scalar and an array: the scalar is repeated;
- dimensions of size 1 on one side: they are repeated;
- operands of different rank: `broadcast_dimensions` says which dimension of the result each dimension of the smaller one becomes.

```python
>>> matrix = b.Constant([[1, 2, 3], [4, 5, 6]], "s32")
>>> b.Add(matrix, b.Constant(7, "s32"))
s32[2,3] [[8, 9, 10], [11, 12, 13]]
>>> b.Add(matrix, b.Constant([10, 20, 30], "s32"), broadcast_dimensions=(1,))
s32[2,3] [[11, 22, 33], [14, 25, 36]]
>>> b.Add(matrix, b.Constant([10, 20], "s32"), broadcast_dimensions=(0,))
s32[2,3] [[11, 12, 13], [24, 25, 26]]
>>> b.Add(b.Constant([[1], [2]], "s32"), b.Constant([[10, 20, 30]], "s32"))
s32[2,3] [[11, 21, 31], [12, 22, 32]]
```

## Errors

A call that breaks a rule raises `VerifyError` at once. Its message begins with the file and line of the call, and cites the rule
as (C1), (C2), ... of [operations.md](operations.md):

```
model.py:12: add 'add': (C2) the operands' types differ: f32[4] and s32[4]
model.py:17: add: f32[2,3] and f32[3] differ in rank, which needs broadcast_dimensions, one for each dimension of f32[3]
```

## Arguments

Give several operands, starts or computations as a sequence; if their number is free, you may give a single array without one.
`padding` is "SAME", "VALID" or (low, high) for each dimension of the window; `window_strides` and dilations may be None for 1
everywhere. `precision_config` is a `PrecisionConfig`, or "DEFAULT", "HIGH" or "HIGHEST" for all operands. `replica_groups` are
lists of device numbers or a `ReplicaGroups`. Dimension numbers and other attributes are classes of `xla_wasm.hlo.attrs`.
Opcodes that XLA's interface lacks are methods with the name of the opcode, such as `b.custom_call(...)` or `b.sinh(x)`;
[operations.md](operations.md) lists them. What `compile` cannot take yet is in [gaps.md](gaps.md).

This page is written by `python -m xla_wasm.builder.docs`; tests run its examples.
"""  # noqa: E501


def page() -> str:
    """The page's text."""
    return "\n".join([_HEAD, *(_section(title, part) for title, part in _SECTIONS.items())])


def _section(title: str, part: type) -> str:
    """Operations without an example in a table, then the others."""
    methods = [(name, method) for name, method in vars(part).items() if name[0].isupper()]
    plain = [(name, method) for name, method in methods if ">>>" not in (method.__doc__ or "")]
    rows = [
        f"| `{name}{_arguments(method)}` | {' '.join((inspect.getdoc(method) or '').split())} |"
        for name, method in plain
    ]
    table = ["| operation | |\n|---|---|", *rows, ""] if rows else []
    shown = [_entry(name, method) for name, method in methods if (name, method) not in plain]
    return "\n".join([f"## {title}\n", *table, *shown])


def _entry(name: str, method: Callable[..., Any]) -> str:
    text, _, example = (inspect.getdoc(method) or "").partition(">>>")
    about = f"### {name}\n\n`{name}{_arguments(method)}`\n\n" if "`" + name not in text else f"### {name}\n\n"
    return f"{about}{text.strip()}\n\n```python\n>>>{example}\n```\n"


def _arguments(method: Callable[..., Any]) -> str:
    """The parameters without types."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return "(" + ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters) + ")"


if __name__ == "__main__":
    PATH.write_text(page())
