"""The forms of operations with regions in MLIR text: modules, functions, loops, reductions and scans."""

from __future__ import annotations

from .lexer import VALUE, WORD
from .plain import plain_attributes, plain_name
from .text_ops import Argument, Form, Operations
from .text_pretty import integer, with_types
from .tree import Attribute, Block, Elements, Function, Op, Tensor, Type, TypeOf, Value


def _module(text: Operations, name: str) -> Op:
    """`module @name attributes {..} {..}`."""
    attributes: dict[str, Attribute] = {"sym_name": text.symbol()} if text.sees("@") else {}
    if text.word("attributes"):
        attributes |= text.dictionary_once()
    op = text.made(name, [], attributes)
    op.regions = [text.region(name)]
    return op


def _function(text: Operations, name: str) -> Op:
    """`func.func public @main(%a: T {..}) -> (T {..}) attributes {..} {..}`."""
    attributes: dict[str, Attribute] = {}
    found = WORD.match(text.text, text.pos)
    if found and found[1] in ("public", "private", "nested"):
        attributes["sym_visibility"] = found[1]
        text.pos = found.end()
    attributes["sym_name"] = text.symbol()
    arguments, inputs, arg_attrs = _parameters(text)
    results, res_attrs = _results(text) if text.take("->") else ((), ())
    attributes["function_type"] = TypeOf(Function(inputs, results))
    attributes |= {key: value for key, value in (("arg_attrs", arg_attrs), ("res_attrs", res_attrs)) if any(value)}
    if text.word("attributes"):
        attributes |= text.dictionary_once()
    op = text.made(name, [], attributes)
    if len(arguments) < len(inputs) or not text.sees("{"):
        op.regions = [[]]  # a declaration
    else:
        op.regions = [text.region(name, arguments)]
        op.attributes |= plain_attributes(name, text.attributes_or_none(), True)  # VHLO has them behind the body
    return op


def _parameters(text: Operations) -> tuple[list[Argument], tuple[Type, ...], tuple[Attribute, ...]]:
    """`(%a: T {..} loc(..), ..)`, or types alone in a declaration: the arguments with names, all types, the attributes
    of each."""
    text.expect("(")
    arguments: list[Argument] = []
    types: list[Type] = []
    attributes: list[Attribute] = []
    while not text.take(")"):
        found = text.match(VALUE)
        if found:
            text.expect(":")
        types.append(text.type())
        attributes.append(text.attributes_or_none())
        location = text.trailing()
        if found:
            arguments.append((found[1][1:], types[-1], location))
        if not text.take(","):
            text.expect(")")
            break
    return arguments, tuple(types), tuple(attributes)


def _results(text: Operations) -> tuple[tuple[Type, ...], tuple[Attribute, ...]]:
    """`T`, or `(T {..}, T)`."""
    if not text.sees("("):
        return (text.type(),), ()
    text.expect("(")
    types: list[Type] = []
    attributes: list[Attribute] = []
    while not text.take(")"):
        types.append(text.type())
        attributes.append(text.attributes_or_none())
        text.trailing()
        if not text.take(","):
            text.expect(")")
            break
    return tuple(types), tuple(attributes)


def _while(text: Operations, name: str) -> Op:
    """`while(%i = %a, %x = %b) : T, T attributes {..} cond {..} do {..}`."""
    text.expect("(")
    names: list[str] = []
    operands: list[Value] = []
    while not text.take(")"):
        names.append(text.need(VALUE, "an argument")[1:])
        text.expect("=")
        operands.append(text.operand())
        if not text.take(","):
            text.expect(")")
            break
    types: tuple[Type, ...] = ()
    if text.take(":"):
        begin = text.skip()
        types = text.types_between_commas()
        text.check_types(operands, types, begin)
    attributes = text.dictionary_once() if text.word("attributes") else {}
    op = text.made(name, operands, attributes, types)
    arguments: list[Argument] = [(n, t, None) for n, t in zip(names, types)]
    for word in ("cond", "do"):
        if not text.word(word):
            text.fail(f"'{word}'")
        op.regions.append(text.region(name, arguments))
    return op


def _reduce(text: Operations, name: str) -> Op:
    """`reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : ...`, or with a region behind `reducer` in
    the end."""
    operands: list[Value] = []
    starts: list[Value] = []
    while not operands or text.take(","):
        text.expect("(")
        operands.append(text.operand())
        if not text.word("init"):
            text.fail("'init'")
        text.expect(":")
        starts.append(text.operand())
        text.expect(")")
    applied = text.need(WORD, "an operation") if text.word("applies") else ""
    begin = text.skip()
    if not (text.word("across") and text.word("dimensions")):
        text.fail("'across dimensions'")
    text.expect("=")
    attributes: dict[str, Attribute] = {"dimensions": Elements("i64", text.integers())}
    op = with_types(text, name, operands + starts, attributes | text.attributes_or_none())
    if applied:
        block = _applying(text, plain_name(applied), operands, begin)
        op.regions = [[block]]
        op.location = text.trailing()
        for inner in block.ops:
            inner.location = op.location
        return op
    if not text.word("reducer"):
        text.fail("'reducer'")
    pairs = [text.arguments() for _ in operands]
    if any(len(pair) != 2 for pair in pairs):
        text.error("a reduction has two arguments for each operand", begin)
    op.regions = [text.region(name, [pair[side] for side in (0, 1) for pair in pairs])]
    return op


def _applying(text: Operations, name: str, operands: list[Value], begin: int) -> Block:
    """The block of a reduction that applies one operation."""
    type_ = operands[0].type
    if len(operands) != 1 or not isinstance(type_, Tensor):
        text.error("one operation is applied to one operand, a tensor", begin)
    scalar = Tensor((), type_.element)
    block = Block()
    block.arguments = [Value(scalar, block), Value(scalar, block)]
    op = Op(name, [*block.arguments], {})
    op.results = [Value(scalar, op)]
    block.ops = [op, Op("stablehlo.return", [*op.results], {})]
    return block


def _scan(text: Operations, name: str) -> Op:
    """`chlo.scan(%a, %b) inits (%c) dimension=0 attributes {..} {..} : ...`."""
    inputs = text.operands_in_parentheses()
    if not text.word("inits"):
        text.fail("'inits'")
    starts = text.operands_in_parentheses()
    if not text.word("dimension"):
        text.fail("'dimension'")
    text.expect("=")
    attributes: dict[str, Attribute] = {"dimension": integer(text)}
    if text.word("attributes"):
        attributes |= text.dictionary_once()
    body = text.region(name)
    op = with_types(text, name, inputs + starts, attributes)
    for key, count in (("operandSegmentSizes", len(inputs)), ("resultSegmentSizes", len(op.results) - len(starts))):
        op.attributes[key] = (count, len(starts))
    op.regions = [body]
    return op


FORMS: dict[str, Form] = {
    "builtin.module": _module,
    "func.func": _function,
    "stablehlo.while": _while,
    "stablehlo.reduce": _reduce,
    "chlo.scan": _scan,
}
"""Operation -> the parser of its form."""
