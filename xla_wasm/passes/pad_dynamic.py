"""Makes arrays of dynamic sizes static: each has the size of its bounds, and the actual sizes go beside it as s32
scalars.

Sizes that are known stay numbers. Where a value with dynamic dimensions passes into or out of a computation that is
called, it becomes a tuple of itself and its sizes. The entry takes the sizes of its dynamic parameters as parameters
behind all others, and gives those of its results as elements behind all others: in the order of the leaves, and for
each leaf in the order of its dimensions in memory, from major to minor.
"""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..ops.dynamic import pad_indexing, pad_movement, pad_products, pad_reduce, pad_reshape, pad_structure
from ..ops.dynamic.pad_arrays import Padded, Rule, SizeWriter, is_whole, static, whole
from ..ops.dynamic.pad_packed import count, extent_of, packed, passing, received
from ..ops.dynamic.record import SIZES
from ..writing.writer import walk

_FILES = (pad_movement, pad_reshape, pad_reduce, pad_products, pad_indexing, pad_structure)
RULES: dict[str, Rule] = {opcode: rule for file in _FILES for opcode, rule in file.RULES.items()}
"""opcode -> how it is written where a part of its operands counts."""

_ALWAYS = (*SIZES, *pad_structure.RULES)
"""Opcodes that have a rule even where their operands count whole."""


def pad_dynamic(module: Module) -> None:
    """Leaves no dynamic dimension in the module."""
    done: list[Computation] = []
    for computation in module.computations:
        added: list[Computation] = []
        _rewrite(computation, SizeWriter(computation.root, [], added), computation is module.entry)
        done += [*added, computation]
    module.computations = done


def _rewrite(computation: Computation, w: SizeWriter, entry: bool) -> None:
    declared = {
        x: x.shape for x in computation.instructions
    }  # as they were: instructions that stay become static themselves
    hidden = _hidden_sizes(w, computation) if entry else {}

    def visit(x: Instruction, operands: list[Padded]) -> Padded:
        w.x = x
        made = _instruction(w, x, operands, [declared[o] for o in x.operands])
        assert made.value.shape.without_layout() == static(declared[x]), f"{x.where} became {made.value.shape}"
        return made

    def parameter(x: Instruction) -> Padded:
        w.x = x
        return w.kept(x, extent_of(x.shape, iter(hidden[x]))) if entry else received(w, x)

    padded = walk(computation.instructions, visit, {p: parameter(p) for p in computation.parameters})
    w.x = computation.root
    computation.root = packed(w, padded[w.x], declared[w.x])
    computation.instructions = w.made


def _hidden_sizes(w: SizeWriter, entry: Computation) -> dict[Instruction, list[Instruction]]:
    """The parameters that hold the sizes of the entry's dynamic parameters, in order."""
    sizes: dict[Instruction, list[Instruction]] = {}
    number = len(entry.parameters)
    for p in entry.parameters:
        w.x = p
        sizes[p] = [w.op("parameter", shape=Shape("s32"), parameter_number=number + i) for i in range(count(p.shape))]
        number += len(sizes[p])
    return sizes


def _instruction(w: SizeWriter, x: Instruction, operands: list[Padded], shapes: list[Shape]) -> Padded:
    """Returns the value that replaces an instruction whose operands are declared with these shapes."""
    x.operands = [o.value for o in operands]
    extents = [o.extent for o in operands]
    pass_on, rule = passing(x), RULES.get(x.opcode)
    if pass_on is not None:
        return pass_on(w, x, operands, shapes)
    if x.opcode not in _ALWAYS and all(is_whole(o.shape, e) for o, e in zip(x.operands, extents)):
        if x.shape.is_dynamic and rule is None:
            raise w.refuse(f"{x.opcode} with a result of dynamic dimensions is not supported")
        return w.kept(x, whole(x.shape))
    if rule is None:
        raise w.refuse(f"{x.opcode} of arrays with dynamic dimensions is not supported")
    return rule(w, x, extents)
