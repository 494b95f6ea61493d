"""HLO text to modules: the header here, the computations in `computations.py`."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from ...errors import ParseError
from ..ir import Computation, Module
from ..proto.schema import MESSAGES
from ..proto.sources import Sources
from ..proto.wire import encode
from ..shape import Shape
from .computations import Computations
from .lexer import Lexer
from .messages import origin_table, stack_frames
from .omitted import compatible

_DEEPEST = 8
"""Modules inside strings inside modules."""


def from_text(text: str, depth: int = 0) -> Module:
    """The module that HLO text describes. Raises ParseError with the place of what is wrong."""
    if not isinstance(text, str):
        raise ParseError(f"HLO text is a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParseError(f"HLO text: character {error.start} is half of a surrogate pair") from None
    collecting = gc.isenabled()
    gc.disable()  # as for protos: nothing that is made here is garbage
    try:
        return _Parser(text, depth).module()
    finally:
        if collecting:
            gc.enable()


class _Parser:
    """Reads a whole module."""

    def __init__(self, text: str, depth: int):
        self.depth = depth
        self.lexer = Lexer(text)
        self.inner = Computations(self.lexer)
        self.places: dict[str, int] = {}
        """The position in the text at which each attribute of the module begins."""

    def module(self) -> Module:
        lexer = self.lexer
        attributes: dict[str, Any] = {}
        name, frames = "", b""
        if lexer.word("HloModule"):
            name = lexer.name("the name of the module")
            lexer.take(":")
            while lexer.take(","):
                self._module_attribute(attributes)
            frames = stack_frames(lexer)
        self.inner.sources = Sources.decoded(frames)
        entry: Computation | None = None
        while lexer.skip() < len(lexer.text):
            begin = lexer.pos
            is_entry = lexer.word("ENTRY")
            computation = self.inner.computation()
            if is_entry and entry is not None:
                lexer.error("a module has one ENTRY computation", begin)
            entry = computation if is_entry else entry
        if not self.inner.order:
            lexer.fail("a computation")
        entry = entry or self.inner.order[-1]
        module = Module(name or f"module_{entry.name}", self.inner.order, entry)
        self._set_header(module, attributes)
        kept = {
            "stack_frame_index": frames or None,
            "original_value_recovery_table": attributes.get("origin_recovery_table") or None,
        }
        module.unknown = encode(MESSAGES["HloModuleProto"], kept)
        return module

    def _inner_module(self, text: str) -> bytes:
        if self.depth == _DEEPEST:
            raise ParseError("modules nested too deep")
        return from_text(text, self.depth + 1).to_proto()

    def _module_attribute(self, found: dict[str, Any]) -> None:
        lexer = self.lexer
        begin = lexer.skip()
        key = lexer.key("an attribute of the module")
        self.places[key] = begin
        if key in found:
            lexer.error(f"{key} is given twice", begin)
        if (read := _HEADER.get(key)) is None:
            lexer.error(f"a module has no attribute {key}", begin)
        found[key] = read(self)
        if key in ("replica_count", "num_partitions") and not 0 <= found[key] < 1 << 31:
            lexer.error(f"{key} cannot be {found[key]}", begin)

    def boolean(self) -> bool:
        return self.lexer.boolean()

    def count(self) -> int:
        return self.lexer.integer()

    def propagation(self) -> tuple[bool, ...]:
        """{true,false}, or one for all"""
        lexer = self.lexer
        return tuple(lexer.listed(lexer.boolean)) if lexer.sees("{") else (lexer.boolean(),)

    def aliases(self) -> list[tuple[tuple[int, ...], int, tuple[int, ...], str]]:
        return self.lexer.listed(self._alias)

    def donors(self) -> list[tuple[int, tuple[int, ...]]]:
        return self.lexer.listed(self._donor)

    def attributes(self) -> dict[str, str]:
        return self.inner.map()

    def recoveries(self) -> bytes:
        return origin_table(self.lexer, self._inner_module)

    def _alias(self) -> tuple[tuple[int, ...], int, tuple[int, ...], str]:
        """{out}: (parameter, {index}, may-alias)"""
        lexer = self.lexer
        output = tuple(lexer.integers())
        lexer.expect(":")
        lexer.expect("(")
        number, kind = lexer.integer(), "may-alias"
        index: tuple[int, ...] = ()
        if lexer.take(","):
            index = tuple(lexer.integers())
            if lexer.take(","):
                begin = lexer.skip()
                kind = lexer.name("may-alias or must-alias")
                if kind not in ("may-alias", "must-alias"):
                    lexer.fail("may-alias or must-alias", begin)
        lexer.expect(")")
        return output, number, index, kind

    def _donor(self) -> tuple[int, tuple[int, ...]]:
        lexer = self.lexer
        lexer.expect("(")
        number = lexer.integer()
        lexer.expect(",")
        index = tuple(lexer.integers())
        lexer.expect(")")
        return number, index

    def entry_layout(self) -> tuple[list[Shape], Shape]:
        """{(f32[2]{0}, s32[])->f32[2]{0}}"""
        lexer = self.lexer
        lexer.expect("{")
        parameters = lexer.listed(self.inner.shapes.shape, "(", ")")
        lexer.expect("->")
        result = self.inner.shapes.shape()
        lexer.expect("}")
        return parameters, result

    def _set_header(self, module: Module, found: dict[str, Any]) -> None:
        """Puts the attributes of the header into the module."""
        module.is_scheduled = found.get("is_scheduled", False)
        module.replica_count = found.get("replica_count", 1)
        module.num_partitions = found.get("num_partitions", 1)
        module.input_output_alias = found.get("input_output_alias", [])
        module.buffer_donor = found.get("buffer_donor", [])
        module.frontend_attributes = found.get("frontend_attributes", {})
        module.propagate_to_parameters = found.get("allow_spmd_sharding_propagation_to_parameters", ())
        module.propagate_to_output = found.get("allow_spmd_sharding_propagation_to_output", ())
        layout = found.get("entry_computation_layout")
        if layout is None:
            return
        parameters, result = layout
        own = [p.shape for p in module.entry.parameters]
        fits = not parameters or (len(own) == len(parameters) and all(map(compatible, own, parameters)))
        if not fits or not compatible(result, module.entry.root.shape):
            self.lexer.error(
                "entry_computation_layout has not the parameters and the result of the entry computation",
                self.places["entry_computation_layout"],
            )
        module.parameter_shapes, module.result_shape = parameters, result


_HEADER: dict[str, Callable[[_Parser], Any]] = {
    "is_scheduled": _Parser.boolean,
    "alias_passthrough_params": _Parser.boolean,
    "replica_count": _Parser.count,
    "num_partitions": _Parser.count,
    "input_output_alias": _Parser.aliases,
    "buffer_donor": _Parser.donors,
    "entry_computation_layout": _Parser.entry_layout,
    "frontend_attributes": _Parser.attributes,
    "allow_spmd_sharding_propagation_to_parameters": _Parser.propagation,
    "allow_spmd_sharding_propagation_to_output": _Parser.propagation,
    "origin_recovery_table": _Parser.recoveries,
}
"""An attribute of the module -> what reads its value."""
