"""XLA:CPU's order of a long reduction, for those whose result depends on it.

A reduction over more than 32 elements of a dimension is made of windows of 32, then of what these gave, and so on; each
window starts from the initial value anew, and so does the last step. Sums of f32 and f64 over 4,096 elements and more
are a library's, which takes the initial value once.
"""

from __future__ import annotations

from ...hlo.attrs import Window, WindowDimension
from ...hlo.ir import Instruction
from ...hlo.types import SMALL_FLOATS
from .monoids import IDEMPOTENT, monoids
from .neutral import neutral

_LONGEST = 32
_LIBRARY = 4096


def windows(x: Instruction) -> Window | None:
    """The windows of the first step of a reduction, if it has several and somebody could tell."""
    return None if free(x) else step(x.operands[0].shape.dimensions, x.attrs["dimensions"])


def step(dims: tuple[int, ...], reduced: tuple[int, ...]) -> Window | None:
    """The windows that an array is reduced by before the last step; None if only that is left."""
    if 0 in dims or all(dims[d] <= _LONGEST for d in reduced):
        return None
    return Window(tuple(_window(size, min(size, _LONGEST) if d in reduced else 1) for d, size in enumerate(dims)))


def _window(size: int, window: int) -> WindowDimension:
    """Windows side by side, with the room that is left over before the first and after the last."""
    room = -size % window
    return WindowDimension(window, window, room // 2, room - room // 2)


def free(x: Instruction) -> bool:
    """Returns True if all ways of taking a reduction apart give the same, but for the last bits of sums and products of
    floats; or if XLA takes it at once, since it has several operands."""
    if len(x.operands) != 2:
        return True
    # Of the initial value: the reduction's own shape may be a tuple, of one.
    opcode, dtype = (monoids(x.called[0]) or (None,))[0], x.operands[1].shape.element_type
    if opcode in IDEMPOTENT:
        return True
    if opcode is None:
        return False
    if opcode == "add" and dtype in ("f32", "f64") and x.operands[0].shape.size >= _LIBRARY:
        return True
    if dtype in SMALL_FLOATS:
        dtype = "f32"  # which holds it
    init = x.operands[1]
    return init.opcode == "constant" and init.attrs["literal"].splat_value() == neutral(opcode, dtype)
