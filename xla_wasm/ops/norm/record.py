"""Records of batch normalisation."""

from __future__ import annotations

from ...hlo.infer import arrays, brief, broken, dimension, flags, need_kind
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Narrow, Op
from ...hlo.shape import Shape

_ATTRS = (Attr("epsilon", "float", (24,), REQUIRED), Attr("feature_index", "int", (25,), REQUIRED))


def _features(instr: Instruction, last: int) -> tuple[Shape, Shape]:
    """The array and a vector of features, which operands 1 to `last` must be."""
    shapes = arrays(instr)
    shape = shapes[0]
    need_kind(instr, shape.element_type, ("float",), 1, "operand 0")
    feature = dimension(instr, instr.attrs["feature_index"], shape.rank, 2, "feature_index")
    vector = Shape(shape.element_type, (shape.dimensions[feature],), None, (True,) if flags(shape)[feature] else ())
    for index in range(1, last + 1):
        if shapes[index].element_type != vector.element_type or shapes[index].dimensions != vector.dimensions:
            raise broken(instr, 3, f"operand {index} must be {vector}, not {brief(shapes[index])}")
    return Shape(shape.element_type, shape.dimensions, None, shape.dynamic), vector


def _training(instr: Instruction) -> Shape:
    shape, vector = _features(instr, 2)
    return Shape.tuple([shape, vector, vector])


def _inference(instr: Instruction) -> Shape:
    return _features(instr, 4)[0]


def _grad(instr: Instruction) -> Shape:
    shape, vector = _features(instr, 3)
    gradient = instr.operands[4].shape
    if gradient.element_type != shape.element_type or gradient.dimensions != shape.dimensions:
        raise broken(instr, 4, f"operand 4 must be {brief(shape)}, not {brief(gradient)}")
    return Shape.tuple([shape, vector, vector])


_RULES = (
    "The operands are arrays, the first of a float type.",
    "feature_index is a dimension of the first.",
    "The others are vectors of its type, with an element for each feature.",
)

OPS: tuple[Op, ...] = (
    Op(
        "batch-norm-training",
        (3, 3),
        _training,
        _ATTRS,
        narrow=Narrow.COMPUTED,
        doc="An array normalised by its mean and variance for each feature, then scaled and shifted; also that mean "
        "and variance.",
        constraints=_RULES,
    ),
    Op(
        "batch-norm-inference",
        (5, 5),
        _inference,
        _ATTRS,
        narrow=Narrow.COMPUTED,
        doc="An array normalised by a given mean and variance for each feature, then scaled and shifted.",
        constraints=_RULES,
    ),
    Op(
        "batch-norm-grad",
        (5, 5),
        _grad,
        _ATTRS,
        narrow=Narrow.COMPUTED,
        doc="The gradients of batch-norm-training with respect to its operand, scale and offset.",
        constraints=(
            _RULES[0],
            _RULES[1],
            "Scale, mean and variance are vectors of its type, with an element for each feature.",
            "The last operand, the gradient of the result, has the first one's type and sizes.",
        ),
    ),
)
