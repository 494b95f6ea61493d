"""Attributes of arguments, results and operations: shardings, aliases, frontend attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ParseError
from ..hlo.proto.schema import MESSAGES
from ..hlo.proto.wire import encode
from ..hlo.text.lexer import Lexer
from ..hlo.text.messages import sharding as parse_sharding
from ..mlir.strings import readable
from ..mlir.text_of import attribute_text
from ..mlir.tree import Op
from ..mlir.values import Attributes, integer, word

_SHARDING, _RULE = "xla.sdy.sharding", "xla.sdy.sharding_rule"
_TUPLE = 2

Alias = tuple[tuple[int, ...], int, tuple[int, ...], str]


def sharding(attributes: Attributes) -> bytes | None:
    """The OpSharding of `mhlo.sharding`, which is HLO text, or in old files the message itself."""
    given = attributes.get("mhlo.sharding")
    if given is None:
        return None
    text = word(given)
    if text.startswith("{"):
        return parse_sharding(Lexer(text))
    return text.encode("utf-8", "surrogateescape")


def sharding_of_tuple(parts: Sequence[bytes | None]) -> bytes:
    """The sharding of a tuple, or of its only element."""
    if len(parts) == 1:
        return parts[0] or b""
    return encode(MESSAGES["OpSharding"], {"type": _TUPLE, "tuple_shardings": list(parts)})


def frontend_attributes(attributes: Attributes) -> dict[str, str]:
    """Returns the frontend attributes of an operation, an argument or a module, with Shardy's among them."""
    found = {}
    given = attributes.get("mhlo.frontend_attributes")
    if isinstance(given, dict):
        found = {
            readable(key): readable(value) if isinstance(value, str) else attribute_text(value)
            for key, value in given.items()
        }
    for key, name in (("sdy.sharding", _SHARDING), ("sdy.sharding_rule", _RULE)):
        if key in attributes:
            found[name] = attribute_text(attributes[key])
    return found


def aliases(entry: Op, left_out: Any) -> tuple[list[Alias], list[tuple[int, tuple[int, ...]]]]:
    """Returns the aliases of results and parameters, and the parameters that may be overwritten. Arguments in
    `left_out` are no parameters."""
    found: list[Alias] = []
    donors: list[tuple[int, tuple[int, ...]]] = []
    results = len(entry.regions[0][0].ops[-1].operands)
    number = 0
    for i, given in enumerate(entry.attributes.get("arg_attrs") or ()):
        if i in left_out:
            continue
        if "tf.aliasing_output" in given:
            output = integer(given["tf.aliasing_output"])
            if not 0 <= output < results:
                raise ParseError(f"StableHLO: argument {i} is aliased with result {output} of {results}")
            found.append(((output,) if results > 1 else (), number, (), "may-alias"))
        elif "jax.buffer_donor" in given and given["jax.buffer_donor"] is not False:
            donors.append((number, ()))
        number += 1
    return found, donors
