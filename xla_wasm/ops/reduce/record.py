"""Records of reductions, maps and scans over a computation on scalars."""

from __future__ import annotations

from ...errors import counted
from ...hlo.index_map import along
from ...hlo.infer import (
    alike,
    arrays,
    brief,
    broken,
    called_signature,
    dimensions,
    flags,
    joined,
    one_dimension,
    result,
)
from ...hlo.ir import Instruction
from ...hlo.op import REQUIRED, Attr, Kind, Narrow, Op, Read, pointwise, scalar_map
from ...hlo.shape import Shape

_DIMENSIONS = Attr("dimensions", "ints", (14,), REQUIRED)


def reduction(instr: Instruction) -> tuple[list[Shape], list[Shape], list[Shape]]:
    """The arrays of a reduce or reduce-window, its initial values and what the reducer returns. Checks rules 1 to 4."""
    shapes = arrays(instr)
    count = len(shapes) // 2
    if len(shapes) % 2:
        raise broken(instr, 1, f"{counted(len(shapes), 'operand')}: n arrays and n initial values are expected")
    inputs, inits = shapes[:count], shapes[count:]
    for shape in inputs:
        if shape.dimensions != inputs[0].dimensions:
            raise broken(instr, 2, f"the arrays' sizes differ: {brief(inputs[0])} and {brief(shape)}")
    scalars = [Shape(s.element_type) for s in inputs]
    for init, scalar in zip(inits, scalars):
        if init.dimensions or not alike(init, scalar):
            raise broken(instr, 3, f"an initial value must be {scalar}, not {brief(init)}")
    return inputs, inits, called_signature(instr, 0, 4, scalars * 2, scalars)


def _reduce(instr: Instruction) -> Shape:
    inputs, _, returned = reduction(instr)
    first = inputs[0]
    gone = set(dimensions(instr, instr.attrs["dimensions"], first.rank, 5))
    kept = [d for d in range(first.rank) if d not in gone]
    sizes = tuple([first.dimensions[d] for d in kept])
    dynamic = tuple([any(flags(s)[d] for s in inputs) for d in kept]) if any(s.dynamic for s in inputs) else ()
    return joined([Shape(s.element_type, sizes, None, dynamic) for s in returned], instr.called[0].root.shape.is_tuple)


def _map(instr: Instruction) -> Shape:
    shapes = arrays(instr)
    first = shapes[0]
    for shape in shapes:
        if shape.dimensions != first.dimensions:
            raise broken(instr, 1, f"the operands' sizes differ: {brief(first)} and {brief(shape)}")
    if (*instr.attrs["dimensions"],) not in ((), tuple(range(first.rank))):
        raise broken(instr, 2, f"dimensions must be those of {brief(first)} in order")
    returned = called_signature(instr, 0, 3, [Shape(s.element_type) for s in shapes], None)
    if len(returned) != 1 or instr.called[0].root.shape.is_tuple or not returned[0].is_array or returned[0].dimensions:
        raise broken(
            instr, 3, f"'{instr.called[0].name}' must return a scalar, not {brief(instr.called[0].root.shape)}"
        )
    return result(instr, returned[0].element_type, first.dimensions)


def _scan(instr: Instruction) -> Shape:
    shapes, carries = arrays(instr), instr.attrs["num_carries"]
    count = len(shapes) - carries
    if not 0 <= carries <= len(shapes):
        raise broken(instr, 2, f"num_carries is {carries} of {counted(len(shapes), 'operand')}")
    inputs, inits = shapes[:count], shapes[count:]
    if not inputs:
        raise broken(instr, 2, "there is no operand to walk over")
    dim = one_dimension(instr, inputs[0].rank, 3)
    elements = []
    for shape in inputs:
        if shape.rank <= dim or shape.dimensions[dim] != inputs[0].dimensions[dim]:
            raise broken(instr, 3, f"{brief(shape)} has not the size of {brief(inputs[0])} in dimension {dim}")
        elements.append(Shape(shape.element_type, shape.dimensions[:dim] + shape.dimensions[dim + 1 :]))
    returned = called_signature(instr, 0, 4, elements + [s.without_layout() for s in inits], None)
    outputs, final = returned[: len(returned) - carries], returned[len(returned) - carries :]
    if len(returned) < carries or not all(map(alike, final, inits)):
        raise broken(instr, 5, f"'{instr.called[0].name}' must return the carries last")
    stacked = []
    for output in outputs:
        if not output.is_array or output.rank < dim:
            raise broken(
                instr,
                5,
                f"'{instr.called[0].name}' returns {brief(output)}, which cannot be stacked along dimension {dim}",
            )
        sizes = (*output.dimensions[:dim], inputs[0].dimensions[dim], *output.dimensions[dim:])
        stacked.append(result(instr, output.element_type, sizes))
    whole = [*stacked, *(s.without_layout() for s in final)]
    return Shape.tuple(whole) if len(whole) != 1 or instr.shape.is_tuple else whole[0]


def read_scalars(operands: list[Instruction], domain: tuple[int, ...]) -> list[Read]:
    """Initial values and the like: scalars that every element of the result needs."""
    return [Read(Kind.MAP, scalar_map(domain, o.shape.dimensions)) for o in operands]


def _read_reduce(x: Instruction) -> list[Read]:
    count, gone = len(x.operands) // 2, x.attrs["dimensions"]
    dims = x.operands[0].shape.dimensions
    kept = [d for d in range(len(dims)) if d not in gone]
    domain, box = tuple([dims[d] for d in kept]), tuple([dims[d] for d in gone])
    places = [(0, 1, kept.index(d) if d in kept else len(kept) + gone.index(d)) for d in range(len(dims))]
    return [Read(Kind.REDUCED, along(domain + box, dims, places), box)] * count + read_scalars(
        x.operands[count:], domain
    )


REDUCTION = (
    "The operands are n arrays and n initial values.",
    "The arrays have equal sizes.",
    "The initial values are scalars of the arrays' types; floats may differ in precision.",
    "to_apply takes n accumulators and n elements, scalars of the arrays' types, and returns the former; floats as "
    "before.",
)

OPS: tuple[Op, ...] = (
    Op(
        "reduce",
        (2, None),
        _reduce,
        (_DIMENSIONS,),
        ("to_apply",),
        reads=_read_reduce,
        accumulates=True,
        narrow=Narrow.ACCUMULATED,
        doc="The elements along some dimensions combined into one by a computation on scalars, starting from an "
        "initial value.",
        constraints=(*REDUCTION, "`dimensions` are different dimensions of the arrays."),
    ),
    Op(
        "map",
        (1, None),
        _map,
        (Attr("dimensions", "ints", (14,), ()),),
        ("to_apply",),
        reads=pointwise,
        doc="A computation on scalars applied to the elements of its operands.",
        constraints=(
            "The operands are arrays of equal sizes.",
            "`dimensions` are all of their dimensions in order, or none.",
            "to_apply takes a scalar of each operand's type and returns a scalar.",
        ),
    ),
    Op(
        "scan",
        (1, None),
        _scan,
        (
            _DIMENSIONS,
            Attr("num_carries", "int", (95,), REQUIRED),
            Attr("is_reverse", "bool", (94,), False),
            Attr("is_associative", "tri_state", (96,)),
        ),
        ("to_apply",),
        doc="A computation applied to one slice after another, handing carries on; it gives its stacked outputs and "
        "the last carries.",
        constraints=(
            "The operands are arrays.",
            "num_carries of them, the last ones, are carries, not all.",
            "The others have one size in the dimension that `dimensions` names.",
            "to_apply takes a slice of each and the carries.",
            "to_apply returns arrays that can be stacked, then the carries.",
        ),
    ),
)
