"""Splits complex arrays into their real and imaginary parts, two real arrays each.

Every instruction on complex numbers becomes instructions on their parts, and tuples, loops, branches, reducers and
comparators carry two real leaves, side by side, for a complex one. Whole complex arrays, with parts interleaved, are
left at the boundary (the entry's parameters and result) and at the operations that take them so.
"""

from __future__ import annotations

from ..errors import UnsupportedError
from ..hlo.ir import Computation, Instruction, Module
from ..ops.elementwise.expand_parts import (
    RULES,
    PartWriter,
    Value,
    has_complex,
    is_complex,
    part_of,
    real,
    split_shape,
    value_of,
)
from ..ops.reading import record
from ..writing.writer import walk


def split_complex(module: Module) -> None:
    """Leaves complex arrays only where they are taken and given whole."""
    split = _Split()
    module.entry = split.computation(module.entry, "entry")
    module.computations = split.done


class _Split:
    """The computations made so far, callees first. One computation is split in the way that its callers need it:

    "entry" keeps its parameters and result whole; "state" has one parameter, a tuple; "apply" and "compare" work on
    single elements and take both parts of each as parameters of their own, a comparator those of the same kind side by
    side.
    """

    def __init__(self) -> None:
        self.done: list[Computation] = []
        self.made: dict[tuple[Computation, str], Computation] = {}

    def computation(self, computation: Computation, style: str) -> Computation:
        made = self.made.get((computation, style))
        if made is None:
            made = self.made[computation, style] = self._split(computation, style)
            self.done.append(made)
        return made

    def _split(self, computation: Computation, style: str) -> Computation:
        root = computation.root
        w = PartWriter(root, self.done, self.computation)
        values = _parameters(w, computation, style)
        value = walk(computation.instructions, lambda x, operands: _instruction(w, x, operands), values)[root]
        w.x = root
        end = w.whole(value, root.shape) if style == "entry" else w.single(value)
        return Computation(computation.name, w.made, end)


def _parameters(w: PartWriter, computation: Computation, style: str) -> dict[Instruction, Value]:
    """Returns the value that replaces each parameter."""
    if style in ("apply", "compare"):
        parts: dict[Instruction, list[Instruction]] = {}
        for number, p in enumerate(_in_parts(computation, 2 if style == "compare" else 1)):
            parts.setdefault(p, []).append(w.clone(p, shape=part_of(p.shape), parameter_number=number))
        return {p: value_of(both) for p, both in parts.items()}
    values: dict[Instruction, Value] = {}
    for p in computation.parameters:
        w.x = p
        values[p] = (
            w.apart(w.keep(p)) if style == "entry" else w.from_single(w.clone(p, shape=split_shape(p.shape)), p.shape)
        )
    return values


def _in_parts(computation: Computation, step: int) -> list[Instruction]:
    """The parameters of a computation on elements, each as often as it has parts, in the new order.

    A comparator takes the two elements of each array side by side: then `step` is 2.
    """
    parameters = computation.parameters
    groups = [parameters[i : i + step] for i in range(0, len(parameters), step)]
    return [p for group in groups for _ in range(2 if is_complex(group[0].shape) else 1) for p in group]


def _instruction(w: PartWriter, x: Instruction, operands: list[Value]) -> Value:
    """Returns the value that replaces an instruction, from those that replace its operands."""
    w.x = x
    op = record(x)
    if op.complex or op.effect:
        return w.apart(w.clone(x, [w.whole(value, o.shape) for value, o in zip(operands, x.operands)]))
    if op.control:
        return w.together(x, [w.single(value) for value in operands], "state")
    if not has_complex(x.shape) and not any(has_complex(o.shape) for o in x.operands):
        return w.clone(x, [real(value) for value in operands], called=w.called(x, "apply"))
    if x.opcode not in RULES:
        raise UnsupportedError(f"{x.where}: not supported yet for complex numbers")
    return RULES[x.opcode](w, x, operands)
