"""The forms of operations in MLIR text: operands with commas, then attributes `key = value` under short names, then
types.

Most forms differ only in the names of these attributes, which `KEYS` lists. The others are functions here; those with
regions are in `text_regions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..errors import counted
from .lexer import KEY, WORD, terminal
from .plain import Fields
from .text_dense import int64s
from .text_ops import Form, Operations
from .tree import Attribute, Complex, Elements, Number, Op, Tensor, Tuple, Type, Value

_SLICE = terminal(r"(\d++)\s*+:\s*+(\d++)(?:\s*+:\s*+(\d++))?+")
_FORMAT = re.compile(r"e(\d{1,9})m(\d{1,9})")


def _integers(text: Operations) -> Attribute:
    """`[1, 2]`, or an attribute in older texts."""
    return Elements("i64", text.integers()) if text.sees("[") else text.attribute()


def integer(text: Operations) -> Attribute:
    return Number(text.integer(), "i64")


def word(text: Operations) -> str:
    """`LT`, or an attribute that is a word."""
    if not text.sees("#"):
        return text.need(WORD, "a word")
    begin = text.pos
    value = text.attribute()
    return value if isinstance(value, str) else text.error("an attribute that is no word", begin)


def _words(text: Operations) -> Attribute:
    """`[HIGHEST, HIGHEST]`."""
    text.expect("[")
    found: list[Attribute] = []
    while not text.take("]"):
        found.append(word(text))
        if not text.take(","):
            text.expect("]")
            break
    return tuple(found)


def _sides(text: Operations, what: str) -> Fields:
    """`[0] x [0]`, of the left side and of the right."""
    left = text.integers()
    text.expect("x")
    return Fields({f"lhs_{what}_dimensions": left, f"rhs_{what}_dimensions": text.integers()})


def _algorithm(text: Operations) -> Attribute:
    if text.sees("#"):
        return text.attribute()
    text.expect("<")
    found = text.structure("dot_algorithm")
    text.expect(">")
    return found


def _precision(text: Operations) -> Attribute:
    """`e5m7`."""
    written = text.need(WORD, "a format of floats")
    found = _FORMAT.fullmatch(written)
    if found is None:
        text.error(f"{written!r} is no format such as e5m7", text.pos - len(written))
    return Fields(exponent_bits=Number(int(found[1]), "i32"), mantissa_bits=Number(int(found[2]), "i32"))


Keys = dict[str, tuple[str, Callable[[Any], Attribute]]]
"""Short name -> the attribute, and how its value is read."""
_DIMENSION: Keys = {"dim": ("dimension", integer)}
_DOT: Keys = {
    "batching_dims": ("dot_dimension_numbers", lambda text: _sides(text, "batching")),
    "contracting_dims": ("dot_contracting", lambda text: _sides(text, "contracting")),
    "precision": ("precision_config", _words),
    "algorithm": ("algorithm", _algorithm),
}
KEYS: dict[str, Keys] = {
    "broadcast": {"sizes": ("broadcast_sizes", _integers)},
    "broadcast_in_dim": {"dims": ("broadcast_dimensions", _integers)},
    "cholesky": {"lower": ("lower", Operations.truth)},
    "concatenate": _DIMENSION,
    "dot": {"precision": ("precision_config", _words)},
    "dot_general": _DOT,
    "dynamic_broadcast_in_dim": {"dims": ("broadcast_dimensions", _integers)},
    "dynamic_iota": {"dim": ("iota_dimension", integer)},
    "dynamic_slice": {"sizes": ("slice_sizes", _integers)},
    "einsum": {"config": ("einsum_config", Operations.quoted)},
    "fft": {"type": ("fft_type", word), "length": ("fft_length", _integers)},
    "get_dimension_size": _DIMENSION,
    "iota": {"dim": ("iota_dimension", integer)},
    "pad": {
        "low": ("edge_padding_low", _integers),
        "high": ("edge_padding_high", _integers),
        "interior": ("interior_padding", _integers),
    },
    "reduce_precision": {"format": ("format", _precision)},
    "reverse": {"dims": ("dimensions", _integers)},
    "rng": {"distribution": ("rng_distribution", word)},
    "rng_bit_generator": {"algorithm": ("rng_algorithm", word)},
    "set_dimension_size": _DIMENSION,
    "transpose": {"dims": ("permutation", _integers)},
    "unary_einsum": {"config": ("einsum_config", Operations.quoted)},
}
"""Operation of StableHLO -> its attributes under their short names."""
_PLAIN = (
    "abs add after_all and atan2 bitcast_convert cbrt ceil clamp complex convert cosine count_leading_zeros "
    "create_token divide dynamic_conv dynamic_pad dynamic_reshape dynamic_update_slice exponential "
    "exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply negate not or "
    "partition_id popcnt power real real_dynamic_slice remainder replica_id reshape round_nearest_afz "
    "round_nearest_even rsqrt shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh "
    "uniform_dequantize uniform_quantize xor"
).split()
"""Operations of StableHLO without attributes of their own."""
_OF_CHLO = (
    "acos acosh asin asinh atan atanh bessel_i1e broadcast_add broadcast_and broadcast_atan2 broadcast_compare "
    "broadcast_complex broadcast_divide broadcast_maximum broadcast_minimum broadcast_multiply broadcast_next_after "
    "broadcast_or broadcast_polygamma broadcast_power broadcast_remainder broadcast_select broadcast_shift_left "
    "broadcast_shift_right_arithmetic broadcast_shift_right_logical broadcast_subtract broadcast_xor broadcast_zeta "
    "conj cosh digamma dynamic_reshape erf erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma minimum_broadcast_shapes "
    "mulhi next_after polygamma sinh square tan zeta"
).split()


def regular(text: Operations, name: str) -> Op:
    """Operands, attributes by short names, attributes in braces, types."""
    keys = KEYS.get(name.partition(".")[2], {})
    operands = text.operands()
    attributes: dict[str, Attribute] = {}
    while keys and (text.take(",") if operands or attributes else True):
        key = text.need(KEY, "an attribute")
        known = keys.get(key)
        if known is None or known[0] in attributes:
            text.error(f"{name} has no attribute {key!r} here", text.pos - len(key))
        text.expect("=")
        attributes[known[0]] = known[1](text)
    if name == "stablehlo.dot_general":
        _fill_dot(attributes)
    attributes |= text.attributes_or_none()
    return with_types(text, name, operands, attributes)


def _fill_dot(attributes: dict[str, Attribute]) -> None:
    """The dimensions that are left out are none."""
    numbers = Fields(
        {f"{side}_{what}_dimensions": () for what in ("batching", "contracting") for side in ("lhs", "rhs")}
    )
    for key in ("dot_dimension_numbers", "dot_contracting"):
        numbers |= attributes.pop(key, {})
    attributes["dot_dimension_numbers"] = numbers


def with_types(text: Operations, name: str, operands: list[Value], attributes: dict[str, Attribute]) -> Op:
    """`: (T, T) -> T`, or `: T` where the other types follow from the operation."""
    text.expect(":")
    begin = text.skip()
    if text.sees("("):
        type_ = text.function()
        text.check_types(operands, type_.inputs, begin)
        return text.made(name, operands, attributes, type_.results)
    types = text.types_between_commas()
    if text.take("->"):
        text.check_types(operands, types, begin)
        return text.made(name, operands, attributes, text.types_or_one())
    inputs, results = _implied(text, name, operands, types, begin)
    text.check_types(operands, inputs, begin)
    return text.made(name, operands, attributes, results)


def _implied(
    text: Operations, name: str, operands: list[Value], types: tuple[Type, ...], begin: int
) -> tuple[tuple[Type, ...], tuple[Type, ...]]:
    """The types of operands and results where fewer are written."""
    if name == "stablehlo.optimization_barrier":
        return types, types
    if name == "stablehlo.select" and len(types) == 2:
        return (types[0], types[1], types[1]), types[1:]
    if len(types) != 1:
        text.error(f"{counted(len(types), 'type')}, where one is needed", begin)
    (type_,) = types
    if name == "stablehlo.tuple" and isinstance(type_, Tuple):
        return type_.types, types
    if name == "stablehlo.complex" and isinstance(type_, Tensor) and isinstance(type_.element, Complex):
        return (Tensor(type_.sizes, type_.element.element, type_.bounds),) * 2, types
    return types * len(operands), types


def _constant(text: Operations, name: str) -> Op:
    attributes = text.attributes_or_none()
    begin = text.skip()
    value = text.attribute()
    type_ = getattr(value, "type", None)
    if not isinstance(type_, Tensor):
        text.error("a constant is a tensor", begin)
    result = text.types_or_one() if text.take(":") else (type_,)  # where it is not the constant's
    return text.made(name, [], attributes | {"value": value}, result)


def _compare(text: Operations, name: str) -> Op:
    """`compare LT, %a, %b, FLOAT : ...`."""
    attributes: dict[str, Attribute] = {"comparison_direction": word(text)}
    text.expect(",")
    operands = text.operands()
    if text.take(","):
        attributes["compare_type"] = word(text)
    return with_types(text, name, operands, attributes | text.attributes_or_none())


def _slice(text: Operations, name: str) -> Op:
    """`slice %a [0:8:2, 1:4] : ...`."""
    operands = [text.operand()]
    text.expect("[")
    rows: list[tuple[int, ...]] = []
    while not text.take("]"):
        found = text.match(_SLICE) or text.fail("a range such as 0:8:2")
        rows.append(tuple(text.number_in(n or "1") for n in found.groups()))
        if not text.take(","):
            text.expect("]")
            break
    columns = list(zip(*rows)) or [(), (), ()]
    named = {
        key: Elements("i64", column) for key, column in zip(("start_indices", "limit_indices", "strides"), columns)
    }
    return with_types(text, name, operands, named | text.attributes_or_none())


def _get_tuple_element(text: Operations, name: str) -> Op:
    """`get_tuple_element %t[0] : ...`."""
    operands = [text.operand()]
    text.expect("[")
    index = Number(text.integer(), "i32")
    text.expect("]")
    return with_types(text, name, operands, {"index": index} | text.attributes_or_none())


def _custom_call(text: Operations, name: str) -> Op:
    """`custom_call @target(%a) {attributes} : ...`."""
    target = text.symbol()
    operands = text.operands_in_parentheses()
    return with_types(text, name, operands, {"call_target_name": target} | text.attributes_or_none())


def _composite(text: Operations, name: str) -> Op:
    """`composite "name" %a {attributes} : ...`."""
    called = text.quoted()
    return with_types(text, name, text.operands(), {"name": called} | text.attributes_or_none())


def _call(text: Operations, name: str) -> Op:
    """`call @f(%a) : ...`."""
    callee = text.path()
    operands = text.operands_in_parentheses()
    return with_types(text, name, operands, {"callee": callee} | text.attributes_or_none())


def _return(text: Operations, name: str) -> Op:
    """`return %a, %b : T, T`."""
    attributes = text.attributes_or_none()
    operands = text.operands()
    attributes |= text.attributes_or_none()
    if operands:
        text.expect(":")
        begin = text.skip()
        text.check_types(operands, text.types_between_commas(), begin)
    return text.made(name, operands, attributes)


def _barrier(text: Operations, name: str) -> Op:
    """`optimization_barrier %a : T`, or `optimization_barrier()` of nothing."""
    if text.take("("):
        text.expect(")")
        return text.made(name, [], text.attributes_or_none())
    return regular(text, name)


_WINDOW = {
    "stride": "window_strides",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}


def _convolution(text: Operations, name: str) -> Op:
    """`convolution(%x, %w) dim_numbers = [..]x[..]->[..], window = {..} {attributes} : ...`."""
    operands = text.operands_in_parentheses()
    attributes: dict[str, Attribute] = {}
    for key in ("dim_numbers", "window"):
        if not text.word(key):
            text.fail(f"'{key}'")
        text.expect("=")
        if key == "window":
            attributes |= _window(text)
            break
        attributes["dimension_numbers"] = text.convolution_dimensions()
        text.expect(",")
    return with_types(text, name, operands, attributes | text.attributes_or_none())


def _window(text: Operations) -> dict[str, Attribute]:
    """`{stride = [..], pad = [[a, b], ..], lhs_dilate = [..], rhs_dilate = [..], reverse = [..]}`."""
    text.expect("{")
    found: dict[str, Attribute] = {}
    while not text.take("}"):
        key = text.need(KEY, "a part of the window")
        attribute = "padding" if key == "pad" else _WINDOW.get(key)
        if attribute is None or attribute in found:
            text.error(f"a window has no {key!r} here", text.pos - len(key))
        text.expect("=")
        if key == "reverse":
            values = _words(text)
            found[attribute] = Elements("i1", tuple(value in ("true", "1") for value in values))
        else:
            found[attribute] = _padding(text) if key == "pad" else _integers(text)
        if not text.take(","):
            text.expect("}")
            break
    return found


def _padding(text: Operations) -> Attribute:
    """`[[1, 2], [0, 1]]`: before and behind, for each dimension."""
    text.expect("[")
    rows: list[tuple[int, ...]] = []
    while not text.take("]"):
        rows.append(text.integers())
        if len(rows[-1]) != 2:
            text.error("a padding is two numbers")
        if not text.take(","):
            text.expect("]")
            break
    return int64s((len(rows), 2), [n for row in rows for n in row])


def _check(text: Operations, name: str) -> Op:
    """The operations of StableHLO's tests: `check.expect_eq_const %a, dense<..> : T`, `interpreter.probe %a, probe_id =
    "a" : T`."""
    operands = text.operands()
    attributes: dict[str, Attribute] = {}
    while text.take(","):
        if text.followed_by("dense") or text.followed_by("dense_resource"):
            attributes["value"] = text.attribute()
            break
        key = text.need(KEY, "an attribute")
        text.expect("=")
        attributes[key] = text.attribute() if text.sees('"') else integer(text)
    attributes |= text.attributes_or_none()
    if text.take(":"):
        begin = text.skip()
        types = text.type_list() if text.sees("(") else text.types_between_commas()
        text.check_types(operands, types if len(types) == len(operands) else types[:1] * len(operands), begin)
    return text.made(name, operands, attributes, [operands[0].type] if name == "interpreter.probe" and operands else [])


def _cast(text: Operations, name: str) -> Op:
    """`builtin.unrealized_conversion_cast %a : T to T`."""
    operands = text.operands()
    text.expect(":")
    begin = text.skip()
    text.check_types(operands, text.types_between_commas(), begin)
    if not text.word("to"):
        text.fail("'to'")
    return text.made(name, operands, text.attributes_or_none(), text.types_between_commas())


def _top_k(text: Operations, name: str) -> Op:
    """`chlo.top_k(%a, k = 2) : T -> (T, T)`."""
    text.expect("(")
    operands = [text.operand()]
    attributes: dict[str, Attribute] = {}
    while text.take(","):
        key = text.need(KEY, "an attribute")
        text.expect("=")
        attributes[key] = integer(text) if key == "k" else text.attribute()
    text.expect(")")
    return with_types(text, name, operands, attributes | text.attributes_or_none())


def _trace(text: Operations, name: str) -> Op:
    """`trace %a, "tag" : T`."""
    operands = [text.operand()]
    text.expect(",")
    attributes: dict[str, Attribute] = {"tag": text.quoted()}
    op = with_types(text, name, operands, attributes)
    op.results = []
    return op


_CHECKS = (
    # both ages
    "eq almost_eq expect_eq expect_almost_eq expect_close expect_eq_const expect_almost_eq_const "
    "expect_serialized_eq".split()
)

FORMS: dict[str, Form] = {
    **{f"stablehlo.{name}": regular for name in (*_PLAIN, *KEYS, "select", "tuple")},
    **{f"chlo.{name}": regular for name in _OF_CHLO},
    **dict.fromkeys(("stablehlo.constant", "chlo.constant", "sdy.constant"), _constant),
    **dict.fromkeys(("stablehlo.return", "func.return", "sdy.return", "chlo.return"), _return),
    **{f"check.{name}": _check for name in _CHECKS},
    **dict.fromkeys(("interpreter.probe", "interpreter.print"), _check),
    "stablehlo.compare": _compare,
    "stablehlo.slice": _slice,
    "stablehlo.get_tuple_element": _get_tuple_element,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.composite": _composite,
    "stablehlo.convolution": _convolution,
    "stablehlo.optimization_barrier": _barrier,
    "stablehlo.trace": _trace,
    "chlo.top_k": _top_k,
    "func.call": _call,
    "builtin.unrealized_conversion_cast": _cast,
}
"""Operation -> the parser of its form."""
