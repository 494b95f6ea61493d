"""The forms of Shardy's operations in MLIR text. Their attributes are kept as text, in the form that stands for
itself."""

from __future__ import annotations

from collections.abc import Callable

from .text_ops import Form, Operations
from .text_pretty import integer, with_types, word
from .tree import Attribute, Number, Op, Opaque, Value

_DIRECTIONS = ("NONE", "FORWARD", "BACKWARD", "BOTH")


def _mesh(text: Operations, name: str) -> Op:
    """`sdy.mesh @mesh = <["a"=2]>`."""
    symbol = text.symbol()
    text.expect("=")
    mesh = Opaque("#sdy.mesh" + text.balanced())
    return text.made(name, [], {"sym_name": symbol, "mesh": mesh} | text.attributes_or_none())


def _sharding(text: Operations, name: str) -> Op:
    """`sdy.sharding_constraint %a <@mesh, [{"a"}]> : T`."""
    operands = [text.operand()]
    sharding = Opaque("#sdy.sharding" + text.balanced())
    return with_types(text, name, operands, {"sharding": sharding} | text.attributes_or_none())


def _group(text: Operations, name: str) -> Op:
    """`sdy.sharding_group %a group_id=3 : T`."""
    operands = [text.operand()]
    attributes = {"group_id": _value(text, "group_id", integer)}
    op = with_types(text, name, operands, attributes | text.attributes_or_none())
    op.results = []
    return op


def _barrier(text: Operations, name: str) -> Op:
    """`sdy.propagation_barrier %a allowed_direction=NONE : T`."""
    operands = [text.operand()]
    direction = _value(text, "allowed_direction", word)
    if direction not in _DIRECTIONS:
        text.error(f"there is no direction {direction!r}")
    attributes: dict[str, Attribute] = {"allowed_direction": Number(_DIRECTIONS.index(direction), "i32")}
    return with_types(text, name, operands, attributes | text.attributes_or_none())


def _value(text: Operations, key: str, read: Callable[[Operations], Attribute]) -> Attribute:
    """`key=value`."""
    if not text.word(key):
        text.fail(f"'{key}'")
    text.expect("=")
    return read(text)


def _shardings(text: Operations, key: str) -> Attribute:
    """`in_shardings=[<..>, <..>]`."""
    if not text.word(key):
        text.fail(f"'{key}'")
    text.expect("=")
    return Opaque(f"#sdy.sharding_per_value<{text.balanced()}>")


def _manual_computation(text: Operations, name: str) -> Op:
    """`sdy.manual_computation(%a) in_shardings=[..] out_shardings=[..] manual_axes={..} (%b: T) {..} : ...`."""
    operands = text.operands_in_parentheses()
    attributes: dict[str, Attribute] = {key: _shardings(text, key) for key in ("in_shardings", "out_shardings")}
    if not text.word("manual_axes"):
        text.fail("'manual_axes'")
    text.expect("=")
    attributes["manual_axes"] = Opaque(f"#sdy<manual_axes{text.balanced()}>")
    return _with_body(text, name, operands, attributes)


def _named_computation(text: Operations, name: str) -> Op:
    """`sdy.named_computation<"name">(%a) in_shardings=[..] out_shardings=[..] (%b: T) {..} : ...`."""
    text.expect("<")
    attributes: dict[str, Attribute] = {"name": text.quoted()}
    text.expect(">")
    operands = text.operands_in_parentheses()
    for key in ("in_shardings", "out_shardings"):
        if text.followed_by(key):
            attributes[key] = _shardings(text, key)
    return _with_body(text, name, operands, attributes)


def _with_body(text: Operations, name: str, operands: list[Value], attributes: dict[str, Attribute]) -> Op:
    """Arguments, a region, attributes, types."""
    body = text.region(name, text.arguments())
    if not body[0].ops:
        body[0].ops.append(Op("sdy.return", [], {}))
    op = with_types(text, name, operands, attributes | text.attributes_or_none())
    op.regions = [body]
    return op


FORMS: dict[str, Form] = {
    **dict.fromkeys(("sdy.sharding_constraint", "sdy.reshard"), _sharding),
    "sdy.sharding_group": _group,
    "sdy.propagation_barrier": _barrier,
    "sdy.mesh": _mesh,
    "sdy.manual_computation": _manual_computation,
    "sdy.named_computation": _named_computation,
}
"""Operation -> the parser of its form."""
