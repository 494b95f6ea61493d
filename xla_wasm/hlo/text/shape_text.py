"""Shapes as HLO text needs them: with what `str` leaves out as it is seldom of interest."""

from __future__ import annotations

from ...dataclass import replace
from ..shape import Layout, Shape


def shape_text(shape: Shape) -> str:
    """The shape with its whole layout, that of scalars too."""
    if shape.is_tuple:
        inner = map(shape_text, shape.tuple_shapes)
        return (
            "("
            + ", ".join(f"/*index={at}*/{text}" if at and at % 5 == 0 else text for at, text in enumerate(inner))
            + ")"
        )
    if shape.element_type == "buffer":
        return f"b({shape_text(shape.tuple_shapes[0])})"
    layout = shape.layout
    if shape.rank or layout is None or str(layout) == "{}":
        return str(shape)
    return str(Shape(shape.element_type, (), None, shape.dynamic)) + str(layout)


def laid_out(shape: Shape) -> Shape:
    """The shape with every layout spelled out."""
    if shape.tuple_shapes:
        return replace(shape, tuple_shapes=tuple(laid_out(s) for s in shape.tuple_shapes))
    return shape if shape.layout or not shape.is_array else replace(shape, layout=Layout.default(shape.rank))
