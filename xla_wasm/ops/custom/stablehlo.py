"""Calls of functions that XLA knows by name, and the marks of Shardy, which HLO holds as such calls."""

from __future__ import annotations

from typing import Any

from ...errors import ArgumentError, ParseError, counted
from ...hlo.attrs import SliceDimension, Window, WindowDimension
from ...hlo.ir import Instruction
from ...hlo.kinds.plain import WORDS
from ...hlo.shape import Layout, Shape
from ...hlo.shardy import SHARDING
from ...mlir.text_of import attribute_text
from ...mlir.tree import Alias, Attribute, Op
from ...mlir.values import flag, integer, integers, symbol, text, where, word
from ..stablehlo import Mapper, Rule
from .expand_assertion import end_unless

_APIS = WORDS["custom_call_api_version"].words
_TYPED = 4


def _custom_call(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    given = op.attributes
    target = text(given["call_target_name"])
    if target in _TARGETS:
        return _TARGETS[target](e, op, operands)
    if target.startswith("mhlo.") and isinstance(given.get("mhlo.attributes"), dict):
        return _of_mhlo(e, op, operands, target.removeprefix("mhlo."))
    operands, shape = _shapes(e, op, operands)
    attributes = _layouts(op, operands, shape)
    shape = attributes.pop("shape", shape)
    api, config = _config(given)
    made = e.op(
        "custom-call",
        *operands,
        called=[e.function(symbol(name)) for name in given.get("called_computations", ())],
        shape=shape,
        custom_call_target=target,
        custom_call_has_side_effect=flag(given, "has_side_effect"),
        output_to_operand_aliasing=_aliases(given.get("output_operand_aliases", ())),
        api_version=api,
        backend_config=config,
        **attributes,
    )
    return e.split(op, made)


def _config(given: dict[str, Attribute]) -> tuple[str, bytes]:
    """The version of the interface, and what the function is told. JAX states the typed one beside the older."""
    version = integer(given.get("api_version", 1))
    if not 0 <= version < len(_APIS):
        raise ParseError(f"the custom call {given['call_target_name']!r} has the api_version {version}")
    config = given.get("backend_config", "")
    if version <= 1 and isinstance(given.get("mhlo.backend_config"), dict):
        version, config = _TYPED, given["mhlo.backend_config"]
    told = attribute_text(config) if isinstance(config, dict) else word(config)
    return _APIS[version], told.encode("utf-8", "surrogateescape")


def _aliases(value: Attribute) -> tuple[Any, ...]:
    found = []
    for alias in value:
        if not isinstance(alias, Alias):
            raise ParseError(f"output_operand_aliases has {alias!r}")
        found.append((alias.output_tuple_indices, alias.operand_index, alias.operand_tuple_indices))
    return tuple(found)


def _shapes(e: Mapper, op: Op, operands: list[Instruction]) -> tuple[list[Instruction], Shape]:
    """The operands, and the shape of the result. With sizes that are not known, the last operands are the shapes of the
    results."""
    shape = e.result_shape(op)
    given = op.attributes.get("indices_of_shape_operands")
    if given is None:
        return operands, e.need_shape(op)
    places = integers(given)
    if shape is None:
        if len(places) != len(op.results):
            raise ParseError(f"{where(op)}: {counted(len(places), 'shape')} for {counted(len(op.results), 'result')}")
        shapes = [e.sized(op, operands[place], result) for result, place in enumerate(places)]
        shape = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    return [o for place, o in enumerate(operands) if place not in places], shape


def _layouts(op: Op, operands: list[Instruction], shape: Shape) -> dict[str, Any]:
    """The layouts that the function wants, if it says so."""
    given = op.attributes
    if "operand_layouts" not in given or "result_layouts" not in given:
        return {}
    wanted = [integers(layout) for layout in given["operand_layouts"]][: len(operands)]
    constraints = tuple([o.shape.with_layout(Layout(layout)) for o, layout in zip(operands, wanted, strict=True)])
    results = [integers(layout) for layout in given["result_layouts"]]
    parts = list(shape.tuple_shapes) if shape.is_tuple else [shape]
    laid = [
        part.with_layout(Layout(layout)) if part.is_array else part for part, layout in zip(parts, results, strict=True)
    ]
    return {
        "constrain_layout": True,
        "operand_layout_constraints": constraints,
        "shape": Shape.tuple(laid) if shape.is_tuple else laid[0],
    }


def _of_mhlo(e: Mapper, op: Op, operands: list[Instruction], name: str) -> list[Instruction]:
    """An operation that older versions wrote as a call: its attributes stand in a dictionary."""
    name = {"topk": "top_k"}.get(name, name)
    return e.simple(f"chlo.{name}", op, dict(op.attributes["mhlo.attributes"]), operands)


def _assertion(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """A condition on sizes that JAX states: nothing if it holds, and what ends the run where that is known at run time
    only."""
    known = [e.integers(o) for o in operands]
    message = word(op.attributes.get("error_message", "a condition on the sizes of the inputs does not hold"))
    if known and known[0] is None:
        end_unless(e, operands[0], operands[1:], message)
    elif known and known[0] == (0,):
        for i, value in enumerate(known[1:]):
            message = message.replace(
                f"{{{i}}}", "?" if value is None else str(value[0] if len(value) == 1 else list(value))
            )
        raise ArgumentError(message)
    return []


def _dynamic_reduce_window(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """A reduction in windows that operands describe: sizes, strides, dilations of the base and of the window,
    padding."""
    *arrays, sizes, strides, bases, dilations, padding = operands
    rows = [e.need_integers(op, x, "the sizes of its window") for x in (sizes, strides, bases, dilations, padding)]
    window = Window(
        tuple(
            [
                WindowDimension(size, stride, low, high, dilation, base)
                for size, stride, base, dilation, low, high in zip(*rows[:4], rows[4][::2], rows[4][1::2], strict=True)
            ]
        )
    )
    (name,) = op.attributes["called_computations"]
    return e.split(op, e.op("reduce-window", *arrays, called=[e.function(symbol(name))], window=window))


def _dynamic_bits(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """Random bits whose shape is an operand."""
    state, sizes = operands
    bits = e.sized(op, sizes, 1)
    if bits.is_dynamic:
        e.need_integers(op, sizes, "how many random bits there are")
    algorithm = op.attributes["rng_algorithm"]
    number = (
        word(algorithm).lower()
        if isinstance(algorithm, str)
        else ("default", "three_fry", "philox")[integer(algorithm)]
    )
    shape = Shape.tuple([state.shape, bits])
    return e.split(op, e.op("rng-bit-generator", state, shape=shape, algorithm=f"rng_{number}"))


def _dynamic_top_k(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    (k,) = e.need_integers(op, operands[1], "the number of elements")
    return e.split(op, e.op("topk", operands[0], k=k))


def _approx_top_k(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    """The first elements of the sorted array, which have every recall. XLA:CPU computes the same.

    The operands are n arrays and n values that stand for no element; where sizes are not known also how many elements
    are wanted.
    """
    config = op.attributes.get("mhlo.backend_config", op.attributes.get("backend_config"))
    if not isinstance(config, dict) or "reduction_dim" not in config:
        raise ParseError(f"{where(op)}: ApproxTopK needs a backend_config with its reduction_dim")
    operands, shape = _shapes(e, op, operands)
    arrays = operands[: len(operands) // 2]
    dimension = arrays[0].shape.dimension_number(integer(config["reduction_dim"]))
    (comparator,) = op.attributes["called_computations"]
    ordered = e.op("sort", *arrays, called=[e.function(symbol(comparator))], dimensions=(dimension,))
    count = (shape.tuple_shapes[0] if shape.is_tuple else shape).dimensions[dimension]
    parts = []
    for part, first in zip(e.results(ordered), shape.tuple_shapes if shape.is_tuple else [shape]):
        bounds = [SliceDimension(0, count if d == dimension else size) for d, size in enumerate(part.shape.dimensions)]
        parts.append(e.op("slice", part, shape=first, slice=tuple(bounds)))
    return parts


def _sharding(e: Mapper, op: Op, operands: list[Instruction]) -> list[Instruction]:
    made = e.op("custom-call", operands[0], shape=operands[0].shape, custom_call_target="Sharding")
    made.frontend_attributes = {SHARDING: attribute_text(op.attributes["sharding"])}
    return [made]


def _same(_: Mapper, __: Op, operands: list[Instruction]) -> list[Instruction]:
    return operands


_TARGETS: dict[str, Rule] = {
    "ApproxTopK": _approx_top_k,
    "stablehlo.dynamic_approx_top_k": _approx_top_k,
    "shape_assertion": _assertion,
    "stablehlo.dynamic_reduce_window": _dynamic_reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _dynamic_bits,
    "stablehlo.dynamic_top_k": _dynamic_top_k,
}
"""Calls that stand for something else than a function that XLA knows."""

STABLEHLO: dict[str, Rule] = {
    "stablehlo.custom_call": _custom_call,
    "sdy.sharding_constraint": _sharding,
    "sdy.reshard": _sharding,
    "sdy.propagation_barrier": _same,
    "sdy.sharding_group": lambda *_: [],
}
