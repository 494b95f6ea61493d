"""Frees a module from tokens: what they order stands in order already, so a token is the empty tuple."""

from __future__ import annotations

from ..hlo.ir import Module
from ..hlo.shape import Shape
from .rewrite import rewrite

_NOTHING = Shape.tuple(())


def remove_tokens(module: Module) -> None:
    """Makes every token an empty tuple; after-all then makes one, and add-dependency is its operand."""
    if module.parameter_shapes is not None:
        module.parameter_shapes = [without_tokens(shape) for shape in module.parameter_shapes]
    if module.result_shape is not None:
        module.result_shape = without_tokens(module.result_shape)
    for x in module.instructions() if any(without_tokens(s) is not s for s in module.shapes()) else ():
        x.shape = without_tokens(x.shape)
    rewrite(module, {"add-dependency": lambda w, x: x.operands[0], "after-all": lambda w, x: w.tuple(())})


def without_tokens(shape: Shape) -> Shape:
    """The shape with empty tuples in the places of its tokens; the same object if it has none."""
    if shape.is_token:
        return _NOTHING
    if not shape.is_tuple:
        return shape
    parts = [without_tokens(s) for s in shape.tuple_shapes]
    return shape if all(a is b for a, b in zip(parts, shape.tuple_shapes)) else Shape.tuple(parts)
