"""Common parts of the shape inference of `ops/*/record.py`: reading an instruction's parts, and errors for what is
broken.

Every one of them may rely on this: the operands' shapes are sound (`shape_fault`), arity, attributes and the number of
called computations fit the record, and the called computations are verified. `hlo.verify` and `builder` see to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..errors import VerifyError, counted
from .attrs import WindowDimension
from .shape import UNBOUNDED, Shape, array_shape
from .types import TYPES

if TYPE_CHECKING:
    from .ir import Instruction

MAX_ELEMENTS = 1 << 40
"""The most elements of an array: far beyond any memory of wasm, small enough that no product of sizes gets out of
hand."""
MAX_RANK = 64
MAX_NESTING = 64
"""The deepest nesting of tuples in a shape."""

NO_UNBOUNDED = "has an unbounded dimension"
NO_BUFFERS = "is a reference to a buffer, or holds one"
UNSUPPORTED = (NO_UNBOUNDED, NO_BUFFERS)
"""The faults of shapes that HLO allows."""

KIND = {name: type_.kind for name, type_ in TYPES.items()}
NOT_ARRAYS = frozenset(name for name, type_ in TYPES.items() if not type_.bits)
_SHORT_FLOATS = frozenset(name for name, type_ in TYPES.items() if type_.kind == "float" and type_.bits <= 32)
PRED = Shape("pred")
UNKNOWN = Shape("opaque")
"""The declared shape of an instruction while its shape is being inferred."""


def brief(shape: Shape) -> str:
    """The shape for a message: without layout, and not too long."""
    text = str(shape.without_layout())
    return text if len(text) <= 200 else text[:197] + "..."


def broken(instr: Instruction, rule: int, text: str) -> VerifyError:
    """The error that says that constraint `rule` of the instruction's record does not hold."""
    return VerifyError(f"{instr.where}: (C{rule}) {text}")


def shape_fault(shape: Shape, depth: int = 0) -> str:
    """Returns the fault of a shape by itself, worded to follow its name; empty if it has none."""
    if shape.element_type in NOT_ARRAYS:
        return _nested_fault(shape, depth)
    dims = shape.dimensions
    rank = len(dims)
    if rank > MAX_RANK:
        return f"has {counted(rank, 'dimension')}, more than {MAX_RANK}"
    if shape.dynamic and len(shape.dynamic) != rank:
        return f"has {counted(len(shape.dynamic), 'dynamic flag')} for {counted(rank, 'dimension')}"
    if shape.tuple_shapes:
        return "is an array with tuple elements"
    count = 1
    for size in dims:
        if not 0 <= size <= MAX_ELEMENTS:
            return NO_UNBOUNDED if size == UNBOUNDED else f"has a dimension of size {size}"
        count *= size
    if count > MAX_ELEMENTS:
        return f"has more than 2^40 elements: {brief(shape)}"
    if shape.layout:
        order = shape.layout.minor_to_major
        if len(order) != rank or sorted(order) != list(range(rank)):
            return (
                f"has a layout that is no permutation of its {counted(rank, 'dimension')}: "
                f"{{{','.join(map(str, order[:MAX_RANK]))}}}"
            )
    return ""


def _nested_fault(shape: Shape, depth: int) -> str:
    if shape.dimensions:
        return f"is a {shape.element_type} with dimensions"
    if shape.element_type == "buffer":
        return NO_BUFFERS
    if shape.element_type != "tuple":
        return f"is a {shape.element_type} with elements" if shape.tuple_shapes else ""
    if depth >= MAX_NESTING:
        return f"nests tuples deeper than {MAX_NESTING}"
    for index, element in enumerate(shape.tuple_shapes):
        if fault := shape_fault(element, depth + 1):
            return fault if fault in UNSUPPORTED else f"has at tuple index {index} a shape that {fault}"
    return ""


def same(a: Shape, b: Shape) -> bool:
    """Returns True if two sound shapes are equal but for layouts."""
    if a.element_type != b.element_type or a.dimensions != b.dimensions:
        return False
    if a.tuple_shapes or b.tuple_shapes:
        return len(a.tuple_shapes) == len(b.tuple_shapes) and all(map(same, a.tuple_shapes, b.tuple_shapes))
    return a.dynamic == b.dynamic or any(a.dynamic) == any(b.dynamic) is False


def alike(a: Shape, b: Shape) -> bool:
    """As `same`, except that floating-point types of up to 32 bits stand for each other: reducers may mix f32 and
    bf16."""
    if a.element_type == b.element_type:
        return same(a, b)
    short = a.element_type in _SHORT_FLOATS and b.element_type in _SHORT_FLOATS
    return short and same(a, b.with_element_type(a.element_type))


def array(instr: Instruction, index: int, rule: int = 1) -> Shape:
    """The shape of operand `index`, which must be an array."""
    shape = instr.operands[index].shape
    if shape.element_type in NOT_ARRAYS:
        raise broken(instr, rule, f"operand {index} must be an array, not {brief(shape)}")
    return shape


def arrays(instr: Instruction, rule: int = 1) -> list[Shape]:
    """The shapes of all operands, which must be arrays."""
    return [array(instr, index, rule) for index in range(len(instr.operands))]


def declared(instr: Instruction, rule: int = 1) -> Shape:
    """The declared result shape where inference starts from it; it must be an array."""
    shape = instr.shape
    if shape.element_type in NOT_ARRAYS:
        raise broken(instr, rule, f"the result shape must be given, and an array, not {brief(shape)}")
    return shape


def need_kind(
    instr: Instruction, element_type: str, kinds: Iterable[str], rule: int, what: str = "the operand"
) -> None:
    """Complains unless the element type is of one of `kinds` (of `PrimitiveType.kind`)."""
    if KIND[element_type] not in kinds:
        raise broken(instr, rule, f"{what} must be of type {' or '.join(kinds)}, not {element_type}")


def need_scalar(instr: Instruction, index: int, element_type: str, rule: int) -> None:
    """Complains unless operand `index` is a scalar of that element type."""
    shape = array(instr, index, rule)
    if shape.dimensions or shape.element_type != element_type:
        raise broken(instr, rule, f"operand {index} must be {element_type}[], not {brief(shape)}")


def dimension(instr: Instruction, value: int, rank: int, rule: int, what: str = "dimension") -> int:
    """A dimension number, which must lie within the rank."""
    if not 0 <= value < rank:
        raise broken(instr, rule, f"{what} {value} lies outside of the {counted(rank, 'dimension')}")
    return value


def dimensions(
    instr: Instruction, values: Sequence[int], rank: int, rule: int, what: str = "dimensions"
) -> Sequence[int]:
    """Dimension numbers, which must lie within the rank and differ."""
    for value in values:
        if not 0 <= value < rank:
            raise broken(
                instr, rule, f"{what} {_listed(values)}: {value} lies outside of the {counted(rank, 'dimension')}"
            )
    if len(set(values)) != len(values):
        raise broken(instr, rule, f"{what} {_listed(values)} hold a dimension twice")
    return values


def ascending(instr: Instruction, values: Sequence[int], rank: int, rule: int, what: str) -> Sequence[int]:
    """Dimension numbers, which must lie within the rank and increase."""
    dimensions(instr, values, rank, rule, what)
    if any(a > b for a, b in zip(values, values[1:])):
        raise broken(instr, rule, f"{what} {_listed(values)} are not in increasing order")
    return values


def one_dimension(instr: Instruction, rank: int, rule: int) -> int:
    """The only element of attribute "dimensions"."""
    values = instr.attrs["dimensions"]
    if len(values) != 1:
        raise broken(instr, rule, f"dimensions must hold one dimension, not {_listed(values)}")
    return dimension(instr, values[0], rank, rule)


def _listed(values: Sequence[int]) -> str:
    return "{" + ",".join(map(str, values[:MAX_RANK])) + ("..." if len(values) > MAX_RANK else "") + "}"


def operand_shape(instr: Instruction) -> Shape:
    """The shape of an operation that gives what its operand is."""
    return instr.operands[0].shape.without_layout()


def result(
    instr: Instruction, element_type: str, sizes: Iterable[int], dynamic: tuple[bool, ...] | None = None
) -> Shape:
    """An array of these sizes. Without `dynamic`, which dimensions are dynamic is left to the declared shape."""
    sizes = tuple(sizes)
    shape = array_shape(element_type, sizes)
    if fault := shape_fault(shape):
        raise VerifyError(f"{instr.where}: the result {fault}")
    if dynamic is None:
        dynamic = instr.shape.dynamic if instr.shape.dimensions == sizes else ()
    return array_shape(element_type, sizes, dynamic) if any(dynamic) else shape


def flags(shape: Shape) -> tuple[bool, ...]:
    """Returns a flag for each dimension, true if it is dynamic."""
    return shape.dynamic or (False,) * len(shape.dimensions)


def joined(shapes: Sequence[Shape], in_tuple: bool = False) -> Shape:
    """The result of an instruction that gives one value or a tuple: the only shape, or the tuple of them."""
    return shapes[0] if len(shapes) == 1 and not in_tuple else Shape.tuple(tuple(shapes))


def wider(a: str, b: str) -> str:
    """Of two element types the one that a product of both has."""
    order = ("pred", "unsigned", "signed", "float", "complex")
    return max(a, b, key=lambda name: (order.index(KIND[name]), TYPES[name].bits))


def product_type(instr: Instruction, a: Shape, b: Shape, rule: int) -> str:
    """The element type of a dot or convolution: the declared one, whatever it is, unless the product is complex."""
    if instr.shape.element_type in NOT_ARRAYS:
        return wider(a.element_type, b.element_type)
    if KIND[instr.shape.element_type] != "complex" and "complex" in (KIND[a.element_type], KIND[b.element_type]):
        raise broken(instr, rule, f"{a.element_type} times {b.element_type} cannot give {instr.shape.element_type}")
    return instr.shape.element_type


def called_signature(
    instr: Instruction, index: int, rule: int, parameters: Sequence[Shape], returned: Sequence[Shape] | None
) -> list[Shape]:
    """Checks a called computation on scalars, such as a reducer; what it returns, the elements of its tuple if it
    returns one.

    Floats are compared by `alike`. `returned` None: any result.
    """
    computation = instr.called[index]
    found = [p.shape for p in computation.parameters]
    if len(found) != len(parameters) or not all(map(alike, found, parameters)):
        expected, actual = (", ".join(map(brief, shapes[:16])) for shapes in (parameters, found))
        raise broken(instr, rule, f"'{computation.name}' must take ({expected}), but it takes ({actual})")
    root = computation.root.shape
    results = list(root.tuple_shapes) if root.is_tuple else [root]
    if returned is not None:
        fits = len(results) == len(returned) and (root.is_tuple or len(returned) == 1)
        if not fits or not all(map(alike, results, returned)):
            raise broken(instr, rule, f"'{computation.name}' must return {brief(joined(returned))}, not {brief(root)}")
    return results


def need_call(
    instr: Instruction, index: int, rule: int, arguments: Sequence[Shape], returned: Shape | None = None
) -> Shape:
    """Checks that a called computation takes exactly `arguments` and returns `returned` (None: anything); what it
    returns."""
    computation = instr.called[index]
    found = [p.shape for p in computation.parameters]
    if len(found) != len(arguments):
        raise broken(
            instr, rule, f"'{computation.name}' takes {counted(len(found), 'parameter')}, not {len(arguments)}"
        )
    for number, (parameter, argument) in enumerate(zip(found, arguments)):
        if not same(parameter, argument):
            raise broken(
                instr, rule, f"parameter {number} of '{computation.name}' is {brief(parameter)}, not {brief(argument)}"
            )
    root = computation.root.shape
    if returned is not None and not same(root, returned):
        raise broken(instr, rule, f"'{computation.name}' must return {brief(returned)}, not {brief(root)}")
    return root


def dilated(size: int, dilation: int) -> int:
    """The extent of `size` elements with `dilation` - 1 holes between them."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def window_size(instr: Instruction, size: int, window: WindowDimension, rule: int) -> int:
    """Returns the number of places that the window has along a dimension of that size."""
    if window.size < 1 or window.stride < 1 or window.base_dilation < 1 or window.window_dilation < 1:
        raise broken(instr, rule, f"sizes, strides and dilations of a window must be positive: {window}")
    room = (
        window.padding_low
        + dilated(size, window.base_dilation)
        + window.padding_high
        - dilated(window.size, window.window_dilation)
    )
    return 0 if room < 0 else room // window.stride + 1
