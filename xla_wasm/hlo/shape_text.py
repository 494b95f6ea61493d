"""Shapes as HLO text needs them: with what `str` leaves out as it is seldom of interest."""

from __future__ import annotations

from .schema import MESSAGES
from .shape import Layout, Shape
from .wire import decode


def shape_text(shape: Shape) -> str:
    """The shape with its whole layout: tiles of scalars and split configurations too."""
    if shape.is_tuple:
        inner = map(shape_text, shape.tuple_shapes)
        return "(" + ", ".join(f"/*index={at}*/{text}" if at and at % 5 == 0 else text for at, text in enumerate(inner)) + ")"
    if shape.element_type == "buffer":
        return f"b({shape_text(shape.tuple_shapes[0])})"
    layout = shape.layout
    if layout is None or not (layout.unknown or (not shape.rank and str(layout) != "{}")):
        return str(shape)
    return str(Shape(shape.element_type, shape.dimensions, None, shape.dynamic)) + _layout(layout)


def _layout(layout: Layout) -> str:
    text = str(layout)
    splits = _split_configs(layout)
    if not splits:
        return text
    head, prefix = (text[:-1], "") if not layout.dynamic_shape_metadata_prefix_bytes else text[:-1].rsplit("M(", 1)
    return head + ("" if ":" in head else ":") + splits + (f"M({prefix}" if prefix else "") + "}"


def _split_configs(layout: Layout) -> str:
    """SC(dimension:index,...)..., which the layout keeps in wire form."""
    if not layout.unknown:
        return ""
    texts = []
    for item in decode(MESSAGES["LayoutProto"], layout.unknown).get("split_configs", ()):
        fields = decode(MESSAGES["SplitConfigProto"], item)
        texts.append(f"({fields.get('dimension', 0)}:{','.join(map(str, fields.get('split_indices', ())))})")
    return "SC" + "".join(texts) if texts else ""
