"""An HLO module as StableHLO text, in MLIR's generic form, which every reader of MLIR knows.

Tuples become several values: a loop over a tuple has several operands, the entry several results. Computations that are
called become functions, those that an operation applies its regions. Layouts are left out, for StableHLO's arrays have
none.

    write_text.py        types, attributes and constants as text
    write_attributes.py  the attributes of each opcode
    write_body.py        the operations of a computation
    write_special.py     opcodes that are no single operation of StableHLO
"""

from __future__ import annotations

from ..hlo.ir import Computation, Module
from ..hlo.shape import Index
from ..hlo.verify import verify
from ..mlir.strings import string_text, symbol_text
from .write_attributes import quoted_attributes
from .write_body import Body, Functions, leaves, noted_parts, types_of
from .write_special import EMIT
from .write_text import dictionary, int32, truth

_DEEPEST = 16
"""Computations in one another that are regions; the next one is a function."""
_LONGEST = 32
"""Instructions of a computation that is called several times and still a region in each place."""


def to_stablehlo(module: Module) -> str:
    """The module as StableHLO text. Raises VerifyError, and for what StableHLO cannot say UnsupportedError, which names
    the instruction."""
    verify(module)
    functions = Functions(_apart(module))
    texts = [_function(functions, module.entry, "main", module)]
    while functions.pending:
        computation = functions.pending.pop(0)
        texts.append(_function(functions, computation, functions.names[computation], None))
    attributes = {"mhlo.num_partitions": int32(module.num_partitions), "mhlo.num_replicas": int32(module.replica_count)}
    if module.frontend_attributes:
        attributes["mhlo.frontend_attributes"] = quoted_attributes(module.frontend_attributes)
    return (
        f"module {symbol_text(module.name or 'module')} attributes {dictionary(attributes)} {{\n"
        + "\n".join(texts)
        + "\n}\n"
    )


def _apart(module: Module) -> frozenset[Computation]:
    """The computations that are functions: written at each place where they are called, the text could grow beyond
    bounds."""
    calls: dict[Computation, int] = {}
    heights: dict[Computation, int] = {}
    apart = set()
    for computation in module.computations:
        called = [c for x in computation.instructions for c in x.called]
        for c in called:
            calls[c] = calls.get(c, 0) + 1
        heights[computation] = 1 + max((heights.get(c, 0) for c in called), default=-1)
    for computation, height in heights.items():
        if calls.get(computation, 0) > 1 and (height or len(computation.instructions) > _LONGEST):
            apart.add(computation)
        if height and height % _DEEPEST == 0:
            apart.add(computation)
    return frozenset(apart)


def _function(functions: Functions, computation: Computation, called: str, module: Module | None) -> str:
    """One function; the entry of a module has what the module says of its parameters and results."""
    body = Body(functions, EMIT, 2)
    arguments = body.arguments(computation)
    result = body.write(computation, arguments)
    body.line("func.return", body.names(result, computation.root), [], {})
    notes = _notes(module) if module is not None else {}
    inputs = []
    for parameter, argument in zip(computation.parameters, arguments):
        number = parameter.attrs["parameter_number"]
        for (index, _), (value, type_), fields in zip(
            parameter.shape.leaves(), leaves(argument), noted_parts(parameter)
        ):
            name = string_text(".".join([parameter.name, *map(str, index)]))
            inputs.append(f"{value}: {_with(type_, fields | notes.get((number, index), {}))} loc({name})")
    root = computation.root
    outputs = [_with(type_, fields) for type_, fields in zip(types_of(root.shape), noted_parts(root))]
    visibility = "public" if module is not None else "private"
    head = f"  func.func {visibility} {symbol_text(called)}({', '.join(inputs)}) -> ({', '.join(outputs)}) {{"
    return "\n".join([head, *body.lines, "  }"])


def _with(type_: str, fields: dict[str, str]) -> str:
    return f"{type_} {dictionary(fields)}" if fields else type_


def _notes(module: Module) -> dict[tuple[int, Index], dict[str, str]]:
    """Returns the attributes of parts of parameters: that their memory may be used again, and for which result."""
    outputs = {index: number for number, (index, _) in enumerate(module.entry.root.shape.leaves())}
    found: dict[tuple[int, Index], dict[str, str]] = {}
    for output, parameter, index, _ in module.input_output_alias:
        if output in outputs:
            found[parameter, index] = {"tf.aliasing_output": int32(outputs[output])}
    for parameter, index in module.buffer_donor:
        found.setdefault((parameter, index), {"jax.buffer_donor": truth(True)})
    return found
