"""What the record of an operation is made of. The records themselves lie under `ops/<family>/record.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ir import Instruction
    from .shape import Shape


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute: its name in HLO text, its kind (a key of `hlo.attr_kinds.KINDS`, which reads, writes and prints it),
    the field number(s) in HloInstructionProto, and its default (`REQUIRED` if it has none)."""

    name: str
    kind: str
    fields: tuple[int, ...]
    default: Any = None


REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Op:
    """One opcode.

    `arity` is (least, most) operands, most None for any number. `infer` computes the result shape from a complete
    instruction and raises VerifyError citing a constraint, "(C2) ..."; None: the shape cannot be inferred and the
    declared one is checked by `infer` elsewhere or trusted. `called` names the called computations in proto order
    ("to_apply", or "body", "condition"; "branch_computations*" for any number). `doc` is one sentence.
    """

    opcode: str
    arity: tuple[int, int | None]
    infer: Callable[[Instruction], Shape] | None
    attrs: tuple[Attr, ...] = ()
    called: tuple[str, ...] = ()
    doc: str = ""
    constraints: tuple[str, ...] = field(default=())
