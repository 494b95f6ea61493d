"""Shapes as HLO text needs them: with what `str` leaves out as it is seldom of interest."""

from __future__ import annotations

from .shape import Shape


def shape_text(shape: Shape) -> str:
    """The shape with its whole layout, that of scalars too."""
    if shape.is_tuple:
        inner = map(shape_text, shape.tuple_shapes)
        return "(" + ", ".join(f"/*index={at}*/{text}" if at and at % 5 == 0 else text for at, text in enumerate(inner)) + ")"
    if shape.element_type == "buffer":
        return f"b({shape_text(shape.tuple_shapes[0])})"
    layout = shape.layout
    if shape.rank or layout is None or str(layout) == "{}":
        return str(shape)
    return str(Shape(shape.element_type, (), None, shape.dynamic)) + str(layout)
