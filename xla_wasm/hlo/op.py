"""The record of an operation, and the table of all records.

The records themselves lie under `ops/<family>/record.py`, which `hlo` does not know: `xla_wasm/__init__.py` hands them
in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass, field
from .index_map import IndexMap, along, identity
from .types import default_comparison

if TYPE_CHECKING:
    from .ir import Instruction
    from .shape import Shape


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute: its name in HLO text, its kind (a key of `KINDS` in `hlo/kinds/table.py`), the field number(s) in
    HloInstructionProto, and its default (`REQUIRED` if it has none). `stablehlo` names the attributes of StableHLO that
    say the same, where that is not one of the same name; `stablehlo/kinds.py` reads them. `text`: whether HLO text has
    it."""

    name: str
    kind: str
    fields: tuple[int, ...]
    default: Any = None
    stablehlo: str = ""
    text: bool = True


REQUIRED: Any = object()


class Kind:
    """The ways of reading an operand. No `Enum`, whose members take CPython 3.11 ten times as long to look up: passes
    and plan ask for every operand, many times."""

    MAP = "map"
    """Each element of the result reads one element, where the map says."""
    REDUCED = "reduced"
    """Each element of the result reads a box of elements: the map is of its index and of an index in the box."""
    WINDOW = "window"
    """As REDUCED, but the box may reach beyond the operand or its holes."""
    COMPUTED = "computed"
    """As MAP, plus an offset known at run time along the dimensions whose coordinate is None."""
    PLACED = "placed"
    """Each element is read once, in order; the map says where in the result it lands."""
    START = "start"
    """The result starts as a copy of the operand, and what reads it along a coordinate that is None changes a part."""
    WHOLE = "whole"
    """In some other way: it has to lie in memory."""


class Narrow:
    """The ways of treating floats of at most 16 bits; no `Enum`, for the same reason."""

    MOVED = "moved"
    """It takes them as they are."""
    BITS = "bits"
    """As MOVED, but its result depends on which type an operand has."""
    COMPUTED = "computed"
    """It computes with them in f32, and rounds the result once."""
    EXACT = "exact"
    """As COMPUTED, but the result is exact."""
    ACCUMULATED = "accumulated"
    """Its computation computes with them: sums and products in f32, and anything else step by step."""
    COMBINED = "combined"
    """As ACCUMULATED, on what comes from other devices as it is."""


@dataclass(frozen=True, slots=True)
class Read:
    """The reading of one operand: `map` is from an index of the result, followed by one below `box`, to one of the
    operand."""

    kind: str
    """One of `Kind`."""
    map: IndexMap
    box: tuple[int, ...] = ()


def pointwise(x: Instruction) -> list[Read]:
    """Each operand is read at the index of the result; a scalar at its only one."""
    dims = x.shape.dimensions if x.shape.is_array else next((s.dimensions for _, s in x.shape.leaves()), ())
    return [_at_index(dims, o.shape.dimensions) for o in x.operands]


@cache
def _at_index(domain: tuple[int, ...], dims: tuple[int, ...]) -> Read:
    return Read(Kind.MAP, identity(dims) if domain == dims else scalar_map(domain, dims))


def scalar_map(domain: tuple[int, ...], dims: tuple[int, ...]) -> IndexMap:
    """The map of an array with one element."""
    return along(domain, dims, [0] * len(dims))


def read_whole(x: Instruction) -> list[Read]:
    """Nothing is known of how operands are read."""
    dims = next((s.dimensions for _, s in x.shape.leaves()), ())
    return [Read(Kind.WHOLE, along(dims, o.shape.dimensions, [None] * o.shape.rank)) for o in x.operands]


@dataclass(frozen=True, slots=True)
class Op:
    """One opcode.

    `arity` is (least, most) operands, most None for any number. `infer` computes the result shape from a complete
    instruction and raises VerifyError citing a constraint, "(C2) ..."; None: the shape cannot be inferred and the
    declared one is checked by `infer` elsewhere or trusted. `called` names the called computations in proto order
    ("to_apply", or "body", "condition"; "branch_computations*" for any number). `doc` is one sentence.

    `reads` says how each operand is read. The traits: `elementwise` (computes each element from those at its index),
    `view` (only renames indices), `product` (sums products over a box), `accumulates` (computes an element from a box
    of them); `cost` in operations an element; `effect` (running it does more than give its value), `identity` (its
    value is its first operand's), `control` (runs computations on a state, as loops and branches do), `complex` (takes
    and gives complex arrays as they lie in memory), `narrow`.

    `stablehlo` names the operations of MLIR's dialects that are this one with the same operands, if they are other ones
    than the opcode with `_` for `-` in the dialect stablehlo.
    """

    opcode: str
    arity: tuple[int, int | None]
    infer: Callable[[Instruction], Shape] | None
    attrs: tuple[Attr, ...] = ()
    called: tuple[str, ...] = ()
    doc: str = ""
    constraints: tuple[str, ...] = field(default=())
    reads: Callable[[Instruction], list[Read]] = read_whole
    elementwise: bool = False
    view: bool = False
    product: bool = False
    accumulates: bool = False
    cost: int = 1
    effect: bool = False
    identity: bool = False
    control: bool = False
    complex: bool = False
    narrow: str = Narrow.MOVED
    stablehlo: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(init=False)
    """The attributes in their order with their defaults."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "defaults", {attr.name: attr.default for attr in self.attrs})

    def attributes(self, operands: Sequence[Instruction], given: dict[str, Any]) -> dict[str, Any]:
        """The attributes of an instruction: those that are given, and the defaults of the others. Elements are compared
        by their own type where nothing else is said."""
        attrs = {**self.defaults, **given}
        if self.opcode == "compare" and operands and not attrs["type"]:
            attrs["type"] = default_comparison(operands[0].shape.element_type)
        return attrs


_sources: list[Callable[[], Mapping[str, Op]]] = []


def hand_in(source: Callable[[], Mapping[str, Op]]) -> None:
    """Registers the function that gives the table of records: it is called when the table is first needed."""
    _sources[:] = [source]


@cache
def records() -> Mapping[str, Op]:
    """Opcode -> record, of every operation that HLO has."""
    (source,) = _sources
    return source()
