"""The costs that fusion weighs, in the time that one vector operation takes: an add of four f32, about 0.25 ns on one
core of 2024.

A load or store that hits the cache costs about as much as an operation: both go through ports of their own, and a
kernel that does one operation an element runs at the speed of its loads (measured on x86-64 under V8 and Cranelift).
"""

from __future__ import annotations

from math import inf

from ..hlo.ir import Instruction
from ..lowering.table import has_kernel
from ..ops.reading import record

LOAD = STORE = 1
"""An element's way out of a buffer, or into it."""

RECOMPUTED = 3
"""Operations that may be done again for each time an element is read, so as not to write and read it."""

UNKNOWN = 1
"""As `RECOMPUTED`, where nobody knows how often elements are read: at places computed at run time, or by comparisons of
a sort."""

MAX_OPERATIONS = 120
"""Operations in one kernel's expression: engines compile large functions slowly, and spill."""

MAX_PLACES = 32
"""Copies of an instruction's code, for the places in kernels where its elements are computed."""

MAX_GROUP = 160
"""Operations in the kernel of a group, which share what they load."""

MAX_MEMBERS = 12
"""Results of one kernel: each is a pointer that the inner loop advances."""

ROW = 10
"""Operations above which a value that several loops over a row need waits in a scratch row."""

MOST_IN_TILES = 30
"""Operations of which a kernel has copies for each row of a tile, to load what lies across it whole: lanes that are
loaded one by one are a small part of what more take."""

LONG_ROW = 32
"""Elements of a row from which on a reduction goes along the lanes of vectors, whose results have to be combined for
each row."""

STEP = 40
"""A step of the program: the indirect call, the kernel's pointers, and loops that begin and end."""

SMALL = 256
"""Bytes that are copied in the time of a step."""

LANES = 4
"""Elements that one operation computes."""


def operations_left(x: Instruction, most: float) -> float:
    """Returns `most` less the operations for computing an element of `x` again, down to views and to values that lie in
    memory, which cost nothing; below 0 if it takes more, or is no plain expression of elements."""
    about = record(x)
    if about.view or not about.cost or has_kernel(x) and not about.accumulates:
        return most
    if not about.elementwise:
        return -1
    if x.shape.size == 1 and about.cost == 1:
        return most
    most -= about.cost
    for o in x.operands:
        if most < 0:
            break
        most = operations_left(o, most)
    return most


def dear_among(members: list[Instruction], inner: list[Instruction]) -> list[Instruction]:
    """Returns those members of a kernel that take more than `RECOMPUTED` operations to compute again from what lies in
    memory; `inner` has all that the kernel computes, operands first."""
    costs: dict[Instruction, float] = {}
    for x in inner:
        costs[x] = inf if record(x).accumulates else record(x).cost + sum([costs.get(o, 0) for o in x.operands])
    return [x for x in members if costs.get(x, 0) > RECOMPUTED]


def recompute(x: Instruction, times: float, kernels: int) -> bool:
    """Returns True if computing each element of `x` so often costs less than computing it once, storing it, and loading
    it so often.

    What several kernels need may join one of them; what one kernel needs at several places is a step more.
    """
    saved = STORE + times * LOAD + (STEP * LANES / max(x.shape.size, 1) if kernels == 1 else 0)
    return operations_left(x, saved / (times - 1)) >= 0
