"""What fusion weighs, in the time that one vector operation takes: an add of four f32, about 0.25 ns on one core of 2024.

A load or store that hits the cache costs about as much as an operation: both go through ports of their own, and a kernel that
does one operation an element runs at the speed of its loads (measured on x86-64 under V8 and Cranelift).
"""

from __future__ import annotations

from ..hlo.ir import Instruction
from ..ops.reading import record

LOAD = STORE = 1
"""An element's way out of a buffer, or into it."""

AGAIN = 3
"""Operations that may be done again for each time an element is read, so as not to write and read it."""

UNKNOWN = 1
"""As `AGAIN`, where nobody knows how often elements are read: at places computed at run time, or by comparisons of a sort."""

MAX_OPERATIONS = 120
"""Operations in one kernel's expression: engines compile large functions slowly, and spill."""

MAX_GROUP = 160
"""Operations in the kernel of a group, which share what they load."""

MAX_MEMBERS = 12
"""Results of one kernel: each is a pointer that the inner loop advances."""

ROW = 10
"""Operations above which a value that several loops over a row need waits in a scratch row."""

NEVER = 1_000_000
"""The cost of computing again what is no plain expression of elements."""


def again(x: Instruction, depth: int = 4) -> int:
    """Operations to compute an element of `x` again, down to views and to what lies in memory, which cost nothing."""
    about = record(x)
    if about.view or not about.cost:
        return 0
    if not about.elementwise or about.cost > AGAIN or not depth:
        return NEVER
    return 0 if x.shape.size == 1 else about.cost + sum(again(o, depth - 1) for o in x.operands)


def recompute(x: Instruction, kernels: int) -> bool:
    """Whether so many kernels had better compute `x` each for itself than load what one of them, or one more, has stored."""
    return (kernels - 1) * again(x) <= STORE + kernels * LOAD
