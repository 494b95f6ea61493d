"""The instructions of HLO that are no single operation of StableHLO, or one of another form."""

from __future__ import annotations

import re

from ..errors import ParseError, UnsupportedError
from ..hlo.ir import Instruction
from ..hlo.shape import Shape
from ..hlo.types import TYPES
from ..mlir.strings import string_text, symbol_text
from ..mlir.text_attributes import Attributes
from ..writing.writer import Writer
from .write_attributes import ATTRIBUTES, all_to_all, channel, name_of, quoted_attributes, unsupported
from .write_body import Body, Emit, Value, leaves, noted
from .write_text import int32, int64, int64s, numbers, truth, type_text

_APIS = ("UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI")
_DEVICE_TO_DEVICE, _DEVICE_TO_HOST, _HOST_TO_DEVICE = 1, 2, 3


def _same_value(body: Body, x: Instruction) -> Value:
    """Returns the operand: what lies elsewhere, or otherwise, has the same elements."""
    return body.values[x.operands[0]]


def _tuple(body: Body, x: Instruction) -> Value:
    return tuple([body.values[o] for o in x.operands])


def _element(body: Body, x: Instruction) -> Value:
    return body.values[x.operands[0]][x.attrs["index"]]


def _bitcast(body: Body, x: Instruction) -> Value:
    """Writes a bitcast where nothing but the dimensions or the type changes."""
    (operand,) = x.operands
    if not (operand.shape.is_row_major and x.shape.is_row_major):
        raise unsupported(x, "a bitcast of arrays in another order of their dimensions")
    if operand.shape.element_type == x.shape.element_type:
        return body.op("stablehlo.reshape", x, body.operands(x), {})
    if operand.shape.dimensions != x.shape.dimensions:
        raise unsupported(x, "a bitcast to another type and other dimensions")
    return body.op("stablehlo.bitcast_convert", x, body.operands(x), {})


def _optimization_barrier(body: Body, x: Instruction) -> Value:
    return body.op("stablehlo.optimization_barrier", x, body.operands(x), {})


def _add_dependency(body: Body, x: Instruction) -> Value:
    """A barrier, behind which the array is there no sooner than the token."""
    both: tuple[Value, Value] = body.op(
        "stablehlo.optimization_barrier", x, body.operands(x), {}, (), Shape.tuple([x.shape, Shape("token")])
    )
    return both[0]


def _after_all(body: Body, x: Instruction) -> Value:
    return body.op("stablehlo.after_all" if x.operands else "stablehlo.create_token", x, body.operands(x), {})


def _rng(body: Body, x: Instruction) -> Value:
    """Its third operand says the dimensions of the result."""
    sizes = body.functions.name(f"tensor<{x.shape.rank}xi64>")
    listed = numbers(x.shape.dimensions) if x.shape.rank else ""
    body.line("stablehlo.constant", [], [sizes], {"value": f"dense<{listed}> : {sizes.type}"})
    kind = x.attrs["distribution"].removeprefix("rng_").upper()
    return body.op(
        "stablehlo.rng", x, [*body.operands(x), sizes], {"rng_distribution": f"#stablehlo<rng_distribution {kind}>"}
    )


def _dynamic_reshape(body: Body, x: Instruction) -> Value:
    """Its sizes are one array."""
    array, *sizes = body.operands(x)
    element = x.operands[1].shape.element_type if sizes else "s32"
    row = Shape(element, (1,))
    parts = [body.op("stablehlo.reshape", x, [size], {}, (), row) for size in sizes]
    whole = body.op("stablehlo.concatenate", x, parts, {"dimension": int64(0)}, (), Shape(element, (len(sizes),)))
    return body.op("stablehlo.dynamic_reshape", x, [array, whole], {})


def _filled(body: Body, like: Shape, element: str) -> Value:
    """A constant of the type of `like`, all elements the same."""
    name = body.functions.name(type_text(like))
    body.line("stablehlo.constant", [], [name], {"value": f"dense<{element if like.size else ''}> : {name.type}"})
    return name


def _sign(body: Body, x: Instruction) -> Value:
    """StableHLO has it for signed numbers; of others it is the smaller one of the number and 1."""
    if TYPES[x.shape.element_type].kind != "unsigned":
        return body.op("stablehlo.sign", x, body.operands(x), {})
    return body.op("stablehlo.minimum", x, [*body.operands(x), _filled(body, x.shape, "1")], {})


def _convolution(body: Body, x: Instruction) -> Value:
    """StableHLO wants operands of one type."""
    result = x.shape.element_type
    operands = body.operands(x)
    elements = {o.shape.element_type for o in x.operands}
    if len(elements) > 1:
        kinds, width = (
            {TYPES[e].kind for e in elements} & {"float", "complex"},
            min(TYPES[result].bits - TYPES[e].bits for e in elements),
        )
        if width < 0 or (kinds and kinds != {TYPES[result].kind}):
            raise unsupported(x, "a convolution of operands of two types that the result's does not hold")
        wide = [o.shape.without_layout().with_element_type(result) for o in x.operands]
        operands = [body.op("stablehlo.convert", x, [name], {}, (), shape) for name, shape in zip(operands, wide)]
    return body.op("stablehlo.convolution", x, operands, ATTRIBUTES[x.opcode](x))


def _rng_bit_generator(body: Body, x: Instruction) -> Value:
    """Its readers make the bits unsigned integers, of whatever type they should be."""
    state, bits = x.shape.tuple_shapes
    unsigned = bits.with_element_type(f"u{TYPES[bits.element_type].bits}")
    if unsigned.element_type == bits.element_type:
        return body.regular(x)
    attributes = ATTRIBUTES[x.opcode](x) | noted(x)
    got = body.op("stablehlo.rng_bit_generator", x, body.operands(x), attributes, (), Shape.tuple([state, unsigned]))
    return got[0], body.op("stablehlo.bitcast_convert", x, [got[1]], {}, (), bits)


# --- computations
# --------------------------------------------------------------------------------------------------------


def _call(body: Body, x: Instruction) -> Value:
    (called,) = x.called
    arguments = [body.values[o] for o in x.operands]
    if not x.attrs.get("is_composite"):
        return body.call(called, arguments, noted(x))
    name, version, given = (
        x.frontend_attributes.get(f"composite.{key}", "") for key in ("name", "version", "attributes")
    )
    if not re.fullmatch(r"\d{0,9}", version):
        raise unsupported(x, f"the version {version!r} of a composite")
    attributes = {
        "name": string_text(name),
        "decomposition": symbol_text(body.functions.of(called)),
        "version": int32(int(version or "0")),
    }
    attributes["composite_attributes"] = _dictionary_text(x, given or "{}")
    notes = noted(x)
    others = {key: text for key, text in x.frontend_attributes.items() if not key.startswith("composite.")}
    notes["mhlo.frontend_attributes"] = quoted_attributes(others)
    return body.op("stablehlo.composite", x, body.operands(x), attributes | notes, (), x.shape)


def _dictionary_text(x: Instruction, text: str | bytes) -> str:
    """The text of a dictionary, which stands as it is among the attributes."""
    try:
        reader = Attributes(text if isinstance(text, str) else text.decode())
        reader.dictionary()
        reader.skip()
    except (ParseError, UnsupportedError, UnicodeDecodeError):
        raise unsupported(x, f"attributes that are no dictionary of MLIR: {text[:60]!r}") from None
    if reader.pos < len(reader.text):
        raise unsupported(x, f"attributes that are more than a dictionary of MLIR: {text[:60]!r}")
    return reader.text


def _while(body: Body, x: Instruction) -> Value:
    loop, condition = x.called
    return body.op("stablehlo.while", x, body.operands(x), {}, [body.region(condition), body.region(loop)])


def _conditional(body: Body, x: Instruction) -> Value:
    """The branches read their operands from outside."""
    index, *operands = x.operands
    regions = [body.region(branch, [body.values[o]]) for branch, o in zip(x.called, operands)]
    name = "stablehlo.if" if index.shape.element_type == "pred" else "stablehlo.case"
    return body.op(name, x, leaves(body.values[index]), {}, regions)


def _scan(body: Body, x: Instruction) -> Value:
    carries = x.attrs["num_carries"]
    results = sum(1 for _ in x.shape.leaves())
    attributes = {
        "dimension": int64(x.attrs["dimensions"][0]),
        "is_reverse": truth(x.attrs["is_reverse"]),
        "operandSegmentSizes": f"array<i32: {len(x.operands) - carries}, {carries}>",
        "resultSegmentSizes": f"array<i32: {results - carries}, {carries}>",
    }
    if x.attrs["is_associative"] is not None:
        attributes["is_associative"] = truth(x.attrs["is_associative"])
    return body.op("chlo.scan", x, body.operands(x), attributes, [body.region(x.called[0])])


def _custom_call(body: Body, x: Instruction) -> Value:
    attrs = x.attrs
    if any(attrs[name] for name in ("window", "dim_labels", "literal")) or attrs["padding_type"] not in (
        "",
        "PADDING_INVALID",
    ):
        raise unsupported(x, "a window, dimension numbers, padding or a literal of a custom call")
    attributes = {
        "call_target_name": string_text(attrs["custom_call_target"]),
        "has_side_effect": truth(attrs["custom_call_has_side_effect"]),
    }
    api = attrs["api_version"].removeprefix("API_VERSION_") or "ORIGINAL"
    number = _APIS.index(api) if api in _APIS else 1
    stated = attrs.get("backend_config") or b""
    config = stated.encode() if isinstance(stated, str) else bytes(stated)
    attributes["api_version"] = int32(number)
    if number == _APIS.index("TYPED_FFI") and config:
        attributes["backend_config"] = _dictionary_text(x, config)
    elif config:
        attributes["backend_config"] = string_text(config)
    if x.called:
        attributes["called_computations"] = "[" + ", ".join(symbol_text(body.functions.of(c)) for c in x.called) + "]"
    if attrs["output_to_operand_aliasing"]:
        attributes["output_operand_aliases"] = _aliases(x)
    if attrs["constrain_layout"]:
        attributes |= _layouts(x)
    return body.op("stablehlo.custom_call", x, body.operands(x), attributes)


def _aliases(x: Instruction) -> str:
    if any(o.shape.is_tuple for o in x.operands):
        raise unsupported(x, "aliases of operands that are tuples")
    entries = (
        f"#stablehlo.output_operand_alias<output_tuple_indices = {numbers(out)}, operand_index = {operand}, "
        f"operand_tuple_indices = {numbers(index)}>"
        for out, operand, index in x.attrs["output_to_operand_aliasing"]
    )
    return f"[{', '.join(entries)}]"


def _layouts(x: Instruction) -> dict[str, str]:
    operands = [leaf for shape in x.attrs["operand_layout_constraints"] for _, leaf in shape.leaves()]
    results = [leaf for _, leaf in x.shape.leaves()]
    texts = ("[" + ", ".join(_layout(shape) for shape in shapes) + "]" for shapes in (operands, results))
    return dict(zip(("operand_layouts", "result_layouts"), texts))


def _layout(shape: Shape) -> str:
    order = shape.minor_to_major
    return f"dense<{numbers(order) if order else ''}> : tensor<{len(order)}xindex>"


# --- the host and other devices
# --------------------------------------------------------------------------------------------


def _one_by_one(body: Body, x: Instruction) -> Value:
    """StableHLO has these for one operand: several are sent one after the other."""
    if not x.shape.is_tuple or x.attrs.get("slice_sizes"):
        return body.regular(x)
    regions = [body.region(called) for called in x.called]
    attributes, name = ATTRIBUTES[x.opcode](x) | _frontend(x), name_of(x.opcode)
    pairs = zip(body.operands(x), x.shape.tuple_shapes, strict=True)
    return tuple([body.op(name, x, [operand], attributes, regions, shape) for operand, shape in pairs])


def _all_to_all(body: Body, x: Instruction) -> Value:
    """Arrays each of which goes to another device: blocks of one array, in StableHLO."""
    if x.attrs["dimensions"]:
        return body.regular(x)
    count, part = len(x.operands), x.operands[0].shape.without_layout()
    row, whole = part.with_dimensions((1, *part.dimensions)), part.with_dimensions((count, *part.dimensions))
    rows = [body.op("stablehlo.reshape", x, [name], {}, (), row) for name in body.operands(x)]
    joined = body.op("stablehlo.concatenate", x, rows, {"dimension": int64(0)}, (), whole)
    moved = body.op("stablehlo.all_to_all", x, [joined], all_to_all(x, 0, count) | _frontend(x), (), whole)
    found = []
    for i in range(count):
        block = _sliced(body, x, moved, whole, 0, i, i + 1)
        found.append(body.op("stablehlo.reshape", x, [block], {}, (), part))
    return tuple(found)


def _sliced(body: Body, x: Instruction, value: Value, shape: Shape, dimension: int, start: int, limit: int) -> Value:
    """A part along one dimension of a value of that shape."""
    ranges = [(start, limit) if d == dimension else (0, size) for d, size in enumerate(shape.dimensions)]
    result = shape.with_dimensions(tuple([end - begin for begin, end in ranges]))
    attributes = {"start_indices": int64s(r[0] for r in ranges), "limit_indices": int64s(r[1] for r in ranges)}
    return body.op("stablehlo.slice", x, [value], attributes | {"strides": int64s(1 for _ in ranges)}, (), result)


def _top_k(body: Body, x: Instruction) -> Value:
    """CHLO has it for the largest elements; the smallest are the first ones behind a sort."""
    if x.attrs["largest"]:
        return body.regular(x)
    whole, last = x.operands[0].shape.without_layout(), x.operands[0].shape.rank - 1
    places = whole.with_element_type("s32")
    kind = "TOTALORDER" if TYPES[whole.element_type].kind == "float" else ""
    scalars = [Shape(whole.element_type)] * 2 + [Shape("s32")] * 2
    smaller = Writer(x).computation("smaller", scalars, lambda e, p, q, _, __: e.compare("LT", p, q, kind))
    numbered = body.op("stablehlo.iota", x, [], {"iota_dimension": int64(last)}, (), places)
    attributes = {"dimension": int64(last), "is_stable": truth(True)}
    operands, both = [*body.operands(x), numbered], Shape.tuple([whole, places])
    ordered = body.op("stablehlo.sort", x, operands, attributes, [body.region(smaller)], both)
    parts = zip(ordered, both.tuple_shapes)
    return tuple([_sliced(body, x, value, shape, last, 0, x.attrs["k"]) for value, shape in parts])


def _infeed(body: Body, x: Instruction) -> Value:
    arrays = [leaf for _, leaf in x.shape.tuple_shapes[0].leaves()]
    layout = "[" + ", ".join(numbers(leaf.minor_to_major) for leaf in arrays) + "]"
    attributes = {"infeed_config": string_text(bytes(x.attrs["infeed_config"])), "layout": layout}
    return body.op("stablehlo.infeed", x, body.operands(x), attributes)


def _outfeed(body: Body, x: Instruction) -> Value:
    return body.op(
        "stablehlo.outfeed", x, body.operands(x), {"outfeed_config": string_text(bytes(x.attrs["outfeed_config"]))}
    )


def _transfer(x: Instruction, to_host: int) -> dict[str, str]:
    host = x.attrs["is_host_transfer"]
    found = channel(x, to_host if host else _DEVICE_TO_DEVICE) or {
        "channel_handle": "#stablehlo.channel_handle<handle = 0, type = 0>"
    }
    return found | {"is_host_transfer": truth(host)} | _frontend(x)


def _frontend(x: Instruction) -> dict[str, str]:
    """Returns the front end's attributes of an instruction without its sharding, which is that of its whole result."""
    return {key: text for key, text in noted(x).items() if key != "mhlo.sharding"}


def _send(body: Body, x: Instruction) -> Value:
    token = body.op("stablehlo.send", x, body.operands(x), _transfer(x, _DEVICE_TO_HOST), (), Shape("token"))
    return body.values[x.operands[0]], None, token


def _send_done(body: Body, x: Instruction) -> Value:
    return body.values[x.operands[0]][2]


def _recv(body: Body, x: Instruction) -> Value:
    data, _, token = x.shape.tuple_shapes
    shape = Shape.tuple([data, token])
    got: tuple[Value, Value] = body.op("stablehlo.recv", x, body.operands(x), _transfer(x, _HOST_TO_DEVICE), (), shape)
    return got[0], None, got[1]


def _recv_done(body: Body, x: Instruction) -> Value:
    data, _, token = body.values[x.operands[0]]
    return data, token


EMIT: dict[str, Emit] = {
    "add-dependency": _add_dependency,
    "after-all": _after_all,
    "all-to-all": _all_to_all,
    "bitcast": _bitcast,
    "call": _call,
    "collective-broadcast": _one_by_one,
    "collective-permute": _one_by_one,
    "conditional": _conditional,
    "convolution": _convolution,
    "copy": _same_value,
    "custom-call": _custom_call,
    "dynamic-reshape": _dynamic_reshape,
    "get-tuple-element": _element,
    "infeed": _infeed,
    "opt-barrier": _optimization_barrier,
    "outfeed": _outfeed,
    "recv": _recv,
    "recv-done": _recv_done,
    "reduce-scatter": _one_by_one,
    "rng": _rng,
    "rng-bit-generator": _rng_bit_generator,
    "scan": _scan,
    "send": _send,
    "send-done": _send_done,
    "sign": _sign,
    "topk": _top_k,
    "tuple": _tuple,
    "while": _while,
}
"""Opcode -> what writes it and gives its value."""
