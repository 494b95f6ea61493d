"""From the tree of a StableHLO program to an HLO module: functions, values, and what is said of the module and its
arguments."""

from __future__ import annotations

import gc
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ParseError, UnsupportedError, VerifyError, XlaWasmError, counted
from ..hlo.attrs import MOST_DEVICES
from ..hlo.devices import with_devices
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..hlo.shardy import MESHES
from ..mlir.text_of import shown_type
from ..mlir.tree import DYNAMIC, Block, Function, Op, Tensor, Type, TypeOf
from ..mlir.values import integer, symbol, text, where
from .arguments import aliases, frontend_attributes, sharding, sharding_of_tuple
from .body import Body
from .control import CONTROL
from .fold import Ranges
from .program import Program

ILL_FORMED = (
    KeyError,
    IndexError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    AssertionError,
    struct.error,
    RecursionError,
)
"""Errors that an ill-formed program raises where nothing looks for its fault."""


def from_tree(
    ops: list[Op],
    shapes: Sequence[Shape] | None = None,
    values: dict[int, int] | None = None,
    least: Sequence[tuple[int, ...]] | None = None,
) -> Module:
    """The module of a program. `shapes` are those of the arguments where the types leave sizes open, `least` the least
    sizes where they are dynamic, `values` integers for arguments that are none of the module's parameters. Raises
    XlaWasmError."""
    collecting = gc.isenabled()
    gc.disable()  # all that is made lives until the end
    builder = Builder(ops)
    try:
        return builder.module(shapes, values or {}, least)
    except XlaWasmError:
        raise
    except ILL_FORMED as error:
        what = (
            f"the attribute {error} is missing"
            if isinstance(error, KeyError)
            else f"it is ill-formed ({type(error).__name__}: {error})"
        )
        raise ParseError(f"StableHLO: {where(builder.at) if builder.at else 'the module'}: {what}") from None
    finally:
        if collecting:
            gc.enable()


class Builder(Program):
    """One module being made."""

    def __init__(self, ops: list[Op]):
        super().__init__(ops, CONTROL)
        self._called: dict[Any, Computation] = {}

    def module(
        self, shapes: Sequence[Shape] | None, values: dict[int, int], least: Sequence[tuple[int, ...]] | None
    ) -> Module:
        entry = self.entry()
        attributes = self.top.attributes if self.top else {}
        self.open_sizes = bool(shapes or values) or attributes.get("jax.uses_shape_polymorphism") is True
        computation = self._main(entry, shapes, values, least)
        _name(self.computations)
        module = Module(text(attributes.get("sym_name", "")) or "main", self.computations, computation)
        replicas, partitions = (self._count(attributes, f"mhlo.num_{what}") for what in ("replicas", "partitions"))
        if replicas * partitions > 1:
            with_devices(module, replicas, partitions)
        module.frontend_attributes = frontend_attributes(attributes)
        if self.meshes:
            module.frontend_attributes[MESHES] = self.meshes
        alias, donors = aliases(entry, values)
        module.input_output_alias, module.buffer_donor = alias, donors
        return module

    def _count(self, attributes: dict[str, Any], name: str) -> int:
        count = integer(attributes.get(name, 1))
        if not 0 < count <= MOST_DEVICES:
            raise UnsupportedError(f"StableHLO: {name} is {count}: from 1 to {MOST_DEVICES} devices are supported")
        return count

    # --- functions ----------------------------------------------------------------------------------------------

    def _main(
        self, op: Op, shapes: Sequence[Shape] | None, values: dict[int, int], least: Sequence[tuple[int, ...]] | None
    ) -> Computation:
        block, body = _block(self, op), Body(self)
        attributes: Sequence[dict[str, Any]] = op.attributes.get("arg_attrs") or ({},) * len(block.arguments)
        number = 0
        for i, (value, given) in enumerate(zip(block.arguments, attributes, strict=True)):
            if i in values:
                kind = self.declared(value.type)
                body.values[value] = body.scalar(kind.element_type if kind else "s32", values[i])
                continue
            shape = shapes[number] if shapes is not None else self.declared(value.type)
            if shape is None:
                name, given_as = value.name or str(i), _example(value.type)
                shown, function = ",".join(map(str, given_as)), symbol(op.attributes["sym_name"])
                raise UnsupportedError(
                    f"StableHLO: argument {name} of '{function}' has sizes that are left open: "
                    f"give them, as in HloModule.from_stablehlo(data, shapes={{{name!r}: {given_as}}}), or to the "
                    f"command as in --dim {name}={shown}"
                )
            parameter = body.parameter(value, shape, number, given)
            if least is not None:
                self.least_sizes.update({(parameter, d): size for d, size in enumerate(least[number])})
            number += 1
        roots = body.block(block)
        results: Sequence[dict[str, Any]] = op.attributes.get("res_attrs") or ({},) * len(roots)
        roots = [body.asked(root, given) for root, given in zip(roots, results, strict=True)]
        computation = body.finished("main", roots)
        marks = [sharding(given) for given in results]
        if marks and all(mark is not None for mark in marks):
            computation.root = body.marked_root(computation.root, sharding_of_tuple(marks))
        return computation

    def called(
        self, name: str, operands: Sequence[Instruction], known: Callable[[Instruction], Ranges | None]
    ) -> Computation:
        """The computation of a function on such operands: where sizes are computed, one for each of their shapes and
        integers."""
        ranges = tuple([known(o) for o in operands]) if self.open_sizes else ()
        key = (name, *[o.shape.without_layout() for o in operands], ranges) if self.open_sizes else name
        found = self._called.get(key)
        if found is None:
            found = self._called[key] = self._function(name, [o.shape for o in operands], ranges)
        return found

    def function(self, name: str) -> Computation:
        """The computation of a function as it is declared."""
        found = self._called.get(name)
        if found is None:
            found = self._called[name] = self._function(name, None, ())
        return found

    def _function(self, name: str, shapes: list[Shape] | None, ranges: tuple[Any, ...]) -> Computation:
        op = self.functions.get(name)
        if op is None:
            raise VerifyError(
                f"StableHLO: {where(self.at) if self.at else 'the module'} calls '{name}', which does not exist"
            )
        if name in self.active:
            raise VerifyError(f"StableHLO: the function '{name}' calls itself")
        self.enter(name)
        block, body = _block(self, op), Body(self)
        if shapes is not None and len(shapes) != len(block.arguments):
            raise VerifyError(
                f"StableHLO: '{name}' takes {counted(len(block.arguments), 'argument')}, not {len(shapes)}"
            )
        for i, value in enumerate(block.arguments):
            shape = shapes[i] if shapes is not None else self.declared(value.type)
            if shape is None:
                raise UnsupportedError(f"StableHLO: an argument of '{name}' has sizes that are left open")
            body.parameter(value, shape, i, {})
            if ranges and ranges[i] is not None:
                body.know(value, ranges[i])
        computation = body.finished(name, body.block(block))
        self.leave()
        return computation


def _example(kind: Type) -> tuple[int, ...]:
    """Sizes that an array may have whose type leaves some open."""
    sizes = kind.sizes if isinstance(kind, Tensor) and kind.sizes is not None else (DYNAMIC,)
    return tuple([8 if size == DYNAMIC else size for size in sizes])


def _block(program: Program, op: Op) -> Block:
    """The block of a function, whose arguments and results must have the types that it declares."""
    program.at = op
    block = program.block_of(op)
    declared = op.attributes.get("function_type")
    if not isinstance(declared, TypeOf) or not isinstance(declared.type, Function) or not block.ops:
        return block
    name, returned = symbol(op.attributes["sym_name"]), block.ops[-1].operands
    for what, values, types in (
        ("argument", block.arguments, declared.type.inputs),
        ("result", returned, declared.type.results),
    ):
        if len(values) != len(types):
            raise VerifyError(f"StableHLO: '{name}' declares {counted(len(types), what)}, and has {len(values)}")
        for i, (value, kind) in enumerate(zip(values, types)):
            if value.type != kind:
                found = f"{shown_type(value.type)}, not {shown_type(kind)}"
                raise VerifyError(f"StableHLO: {what} {i} of '{name}' is of another type than declared: it is {found}")
    return block


def _name(computations: list[Computation]) -> None:
    """Gives instructions and computations names that differ: instructions that of what JAX calls them, or else of their
    opcode, with a number."""
    counts: dict[str, int] = {}
    stems: dict[str, str] = {}
    taken: set[str] = set()
    for number, computation in enumerate(computations):
        name = computation.name
        while computation.name in taken:
            computation.name, number = f"{name}.{number}", number + 1
        taken.add(computation.name)
        for x in computation.instructions:
            stem, metadata = x.opcode, x.metadata
            if metadata is not None and metadata.op_name and stem != "constant":
                stem = stems.get(metadata.op_name) or stems.setdefault(metadata.op_name, _stem(metadata.op_name))
            counts[stem] = count = counts.get(stem, 0) + 1
            x.name = f"{stem}.{count}"


def _stem(name: str) -> str:
    """The last part of a name such as "jit(f)/while/body/add", in the characters that HLO's names have."""
    found = re.sub(r"[^A-Za-z0-9_-]", "_", name.rpartition("/")[2])
    return found if found[:1].isalpha() else f"_{found}"
