"""Records of the operations that slide a window over an array."""

from __future__ import annotations

from ...errors import counted
from ...hlo.attrs import Window, WindowDimension
from ...hlo.index_map import Coordinate, along, index_map
from ...hlo.infer import PRED, array, brief, broken, called_signature, joined, need_scalar, result, window_size
from ...hlo.ir import Instruction
from ...hlo.op import Attr, Kind, Narrow, Op, Read
from ...hlo.shape import Shape
from ..reduce.record import REDUCTION, read_scalars, reduction

_WINDOW = Attr("window", "window", (15,), Window())


def _places(instr: Instruction, shape: Shape, rule: int) -> list[int]:
    """Returns the number of places of the window along each dimension."""
    window = instr.attrs["window"]
    if window is None or len(window.dimensions) != shape.rank:
        raise broken(
            instr,
            rule,
            f"the window has {counted(len(window.dimensions) if window else 0, 'dimension')}, the array is "
            f"{brief(shape)}",
        )
    return [window_size(instr, size, w, rule) for size, w in zip(shape.dimensions, window.dimensions)]


def _reduce_window(instr: Instruction) -> Shape:
    inputs, inits, _ = reduction(instr)
    sizes = _places(instr, inputs[0], 5)
    parts = instr.shape.tuple_shapes
    dynamic = parts[0].dynamic if parts and parts[0].dimensions == (*sizes,) else None
    return joined([result(instr, s.element_type, sizes, dynamic) for s in inits], instr.called[0].root.shape.is_tuple)


def _select_and_scatter(instr: Instruction) -> Shape:
    shape, source = array(instr, 0), array(instr, 1)
    need_scalar(instr, 2, shape.element_type, 2)
    sizes = _places(instr, shape, 3)
    if any(w.window_dilation != 1 or w.base_dilation != 1 for w in instr.attrs["window"].dimensions):
        raise broken(instr, 3, "the window must not be dilated")
    if source.element_type != shape.element_type or source.dimensions != (*sizes,):
        raise broken(instr, 4, f"the source must be {Shape(shape.element_type, (*sizes,))}, not {brief(source)}")
    scalar = Shape(shape.element_type)
    called_signature(instr, 0, 5, [scalar, scalar], [PRED])
    called_signature(instr, 1, 6, [scalar, scalar], [scalar])
    return Shape(shape.element_type, shape.dimensions, None, shape.dynamic)


def in_window(place: int, tap: int, w: WindowDimension, domain: tuple[int, ...]) -> Coordinate | None:
    """Returns the coordinate of a window's element: `place` and `tap` are the dimensions of the window's index and of
    the index in it."""
    if w.base_dilation != 1 or w.window_reversal:
        return None
    return Coordinate(-w.padding_low, ((w.stride, place, 1, domain[place]), (w.window_dilation, tap, 1, domain[tap])))


def _windowed(x: Instruction, places: tuple[int, ...]) -> Read:
    window, dims = x.attrs["window"].dimensions, x.operands[0].shape.dimensions
    box = tuple([w.size for w in window])
    rank, domain = len(dims), places + box
    return Read(
        Kind.WINDOW, index_map(domain, dims, [in_window(d, rank + d, w, domain) for d, w in enumerate(window)]), box
    )


def _read_reduce_window(x: Instruction) -> list[Read]:
    count, places = len(x.operands) // 2, next(s.dimensions for _, s in x.shape.leaves())
    return [_windowed(x, places)] * count + read_scalars(x.operands[count:], places)


def _read_select_and_scatter(x: Instruction) -> list[Read]:
    """Windows are read at the places of the source, not of the result: each place reads one and adds to one of its
    elements."""
    count = len(x.operands) // 3
    dims, places = x.operands[0].shape.dimensions, x.operands[count].shape.dimensions
    untouched = [
        w.size == w.stride == 1 and not w.padding_low and not w.padding_high for w in x.attrs["window"].dimensions
    ]
    source = Read(Kind.PLACED, along(places, dims, [(0, 1, d) if same else None for d, same in enumerate(untouched)]))
    return [_windowed(x, places)] * count + [source] * count + read_scalars(x.operands[2 * count :], dims)


_DIMENSIONS = "The window has the rank of the array, and positive sizes, strides and dilations."

OPS: tuple[Op, ...] = (
    Op(
        "reduce-window",
        (2, None),
        _reduce_window,
        (_WINDOW,),
        ("to_apply",),
        reads=_read_reduce_window,
        accumulates=True,
        narrow=Narrow.ACCUMULATED,
        doc="A reduction of the elements inside a window, at every place of the window; padding and holes of dilation "
        "are skipped.",
        constraints=(*REDUCTION, _DIMENSIONS),
    ),
    Op(
        "select-and-scatter",
        (3, 3),
        _select_and_scatter,
        (_WINDOW,),
        ("select", "scatter"),
        reads=_read_select_and_scatter,
        narrow=Narrow.ACCUMULATED,
        doc="At every place of a window, select picks one element, and scatter adds the source's element there to the "
        "result.",
        constraints=(
            "The first two operands are arrays.",
            "The third is a scalar of the first one's type.",
            _DIMENSIONS + " It is not dilated.",
            "The source has the array's type, and an element for each place of the window.",
            "select takes two scalars of that type and returns pred.",
            "scatter takes two scalars of that type and returns one.",
        ),
    ),
)
