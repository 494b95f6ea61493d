"""Operations on arrays of quantised types, which HLO has as the integers that are stored.

What only moves elements moves these integers. What computes takes the numbers that they stand for, computes, and makes
integers of the results again, as StableHLO defines it: divided by the scale, the zero point added, clamped to the range
of the type, rounded to even.
"""

from __future__ import annotations

from math import inf

from ..errors import ParseError, UnsupportedError, counted
from ..hlo.ir import Instruction
from ..hlo.types import TYPES
from ..mlir.elements import hlo_type
from ..mlir.tree import Op, Quantized, Tensor, Type, Value
from ..mlir.values import where
from ..ops.stablehlo import Mapper

_MOVED = frozenset(
    f"stablehlo.{name}"
    for name in "all_gather all_to_all broadcast broadcast_in_dim collective_broadcast collective_permute concatenate "
    "dynamic_broadcast_in_dim dynamic_gather dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice gather pad "
    "real_dynamic_slice reshape reverse set_dimension_size slice transpose".split()
)
"""Operations whose results have elements of their operands."""
_COMPUTED = frozenset(
    f"stablehlo.{name}"
    for name in "abs add atan2 batch_norm_grad batch_norm_inference batch_norm_training cbrt ceil cholesky clamp "
    "compare convolution cosine divide dot dot_general dynamic_conv exponential exponential_minus_one floor iota "
    "is_finite log log_plus_one logistic maximum minimum multiply negate power reduce_precision remainder "
    "round_nearest_afz round_nearest_even rsqrt select sign sine sqrt subtract tan tanh triangular_solve "
    "uniform_dequantize uniform_quantize".split()
)
"""Operations on the numbers that the elements stand for."""
_AS_STORED = frozenset(
    f"stablehlo.{name}"
    for name in "all_reduce after_all async_done async_start bitcast_convert case composite constant "
    "get_dimension_size get_tuple_element if map optimization_barrier reduce reduce_scatter reduce_window scatter "
    "select_and_scatter sort tuple while".split()
) | {"func.call"}
"""Operations that leave it to their regions what the elements mean, or do not ask."""


def has_quantized(op: Op) -> bool:
    """Returns True if an operand or a result of an operation is an array of a quantised type."""
    return any(
        type(v.type) is Tensor and type(v.type.element) is Quantized
        for values in (op.operands, op.results)
        for v in values
    )


def quantized_operation(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """Returns the results of an operation with quantised operands or results. Raises UnsupportedError."""
    if op.name in _MOVED:
        _check_moved(op)
    if op.name in _MOVED or op.name in _AS_STORED:
        return e.simple(op.name, op, op.attributes, operands)
    if op.name not in _COMPUTED:
        raise UnsupportedError(f"StableHLO: {where(op)}: the operation {op.name} on quantised types is not supported")
    numbers = [_dequantize(e, op, x, value.type) for x, value in zip(operands, op.operands)]
    if op.name.startswith("stablehlo.uniform_"):
        results = numbers
    else:
        results = _computed(e, op, numbers)
    return [_quantize(e, op, x, value.type) for x, value in zip(results, op.results, strict=True)]


def _computed(e: Mapper, op: Op, numbers: list[Instruction]) -> list[Instruction]:
    """The results of the operation on numbers."""
    attributes = {**op.attributes, "compare_type": "FLOAT"} if op.name == "stablehlo.compare" else op.attributes
    plain = Op(op.name, op.operands, attributes, op.location)
    plain.results = [Value(_expressed(value.type)) for value in op.results]
    return e.simple(op.name, plain, attributes, numbers)


def _expressed(kind: Type) -> Type:
    """The type of the numbers that elements stand for."""
    quantized = _element(kind)
    return kind if quantized is None or not isinstance(kind, Tensor) else kind._replace(element=quantized.expressed)


def _element(kind: Type) -> Quantized | None:
    return kind.element if isinstance(kind, Tensor) and isinstance(kind.element, Quantized) else None


def _dequantize(e: Mapper, op: Op, x: Instruction, kind: Type) -> Instruction:
    """The numbers: differences from the zero point, which integers of more bits hold, times the scale."""
    q = _element(kind)
    if q is None:
        return x
    dtype = _checked(op, q, x)
    wide = "s32" if TYPES[x.shape.element_type].bits < 32 else "s64"
    numbers = e.convert(x, wide)
    if any(q.zero_points):
        numbers = e.sub(numbers, _spread(e, op, q, q.zero_points, wide, x))
    return e.mul(e.convert(numbers, dtype), _spread(e, op, q, q.scales, dtype, x))


def _quantize(e: Mapper, op: Op, x: Instruction, kind: Type) -> Instruction:
    """The integers of numbers."""
    q = _element(kind)
    if q is None:
        if isinstance(kind, Tensor) and hlo_type(kind.element) != x.shape.element_type:
            raise ParseError(f"{where(op)}: it gives {x.shape.element_type}, not {kind.element}")
        return x
    dtype = _checked(op, q, x)
    if x.shape.element_type != dtype:
        raise ParseError(f"{where(op)}: numbers of {x.shape.element_type} cannot be quantised from {q.expressed}")
    scaled = e.div(x, _spread(e, op, q, q.scales, dtype, x))
    if any(q.zero_points):
        scaled = e.add(scaled, _spread(e, op, q, q.zero_points, dtype, x))
    clamped = e.op("clamp", e.scalar(dtype, q.minimum), scaled, e.scalar(dtype, q.maximum))
    return e.convert(e.unary("round-nearest-even", clamped), hlo_type(q) or "")


def _spread(e: Mapper, op: Op, q: Quantized, values: tuple[float, ...], dtype: str, x: Instruction) -> Instruction:
    """One value for each element: the same for all, or that of its place along the axis."""
    dims = x.shape.dimensions
    if q.axis is None:
        return e.full(dtype, dims, values[0])
    if not 0 <= q.axis < len(dims) or dims[q.axis] != len(values):
        raise ParseError(f"{where(op)}: {counted(len(values), 'scale')} along dimension {q.axis} of {x.shape}")
    return e.broadcast(e.constant(dtype, values), dims, (q.axis,))


def _checked(op: Op, q: Quantized, x: Instruction) -> str:
    """HLO's name of the type of the numbers, if the quantised type is well-formed."""
    if x.shape.is_dynamic:
        raise UnsupportedError(
            f"StableHLO: {where(op)}: quantised types with sizes that only a run knows are not supported"
        )
    storage, dtype = hlo_type(q), hlo_type(q.expressed)
    if (
        storage is None
        or TYPES[storage].kind not in ("signed", "unsigned")
        or dtype is None
        or TYPES[dtype].kind != "float"
    ):
        raise ParseError(f"{where(op)}: {q.storage} cannot stand for {q.expressed}")
    bits, is_signed = TYPES[storage].bits, TYPES[storage].kind == "signed"
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if not least <= q.minimum < q.maximum <= most or not all(
        q.minimum <= point <= q.maximum for point in q.zero_points
    ):
        raise ParseError(
            f"{where(op)}: {q.storage} has no range from {q.minimum} to {q.maximum} with the zero points "
            f"{q.zero_points[:4]}"
        )
    if len(q.scales) != len(q.zero_points) or not q.scales or not all(0 < scale < inf for scale in q.scales):
        raise ParseError(f"{where(op)}: scales are positive and finite, one for each zero point, not {q.scales[:4]}")
    return dtype


def _check_moved(op: Op) -> None:
    """Elements that move keep what they mean: the result has scales and zero points of the operands."""
    of_operands, of_results = ([_element(value.type) for value in values] for values in (op.operands, op.results))
    known = {pair for q in of_operands if q for pair in _parameters(q)}
    if any(q is None or not _parameters(q) <= known for q in of_results):
        raise ParseError(f"{where(op)}: its result has another quantised type than its operands")


def _parameters(q: Quantized) -> set[tuple[object, ...]]:
    """Returns the parameters of a quantised type at each place along its axis: scale, zero point, types and range."""
    rest = (q.storage, q.expressed, q.minimum, q.maximum)
    return {(scale, point, *rest) for scale, point in zip(q.scales, q.zero_points)}
