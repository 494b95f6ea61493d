"""The loop IR: typed SSA values in blocks, loops with carried values, stores. It knows nothing of HLO.

A kernel is a `Func`: its body is a `Block`; a block is a list of `Val`, `Store`, `Loop` and `If`. A value lives in the
outermost block where all that it needs is defined, so loop-invariant code never stands inside a loop.
"""

from __future__ import annotations

from typing import Any

from ..dataclass import dataclass, field


class Val:
    """One SSA value: `lanes` elements of the HLO type `dtype` (lanes > 1: one v128).

    `op` is a name in `loop.ops.OPS`, `imm` its immediate. `block` is where the value is defined.
    """

    __slots__ = ("op", "args", "dtype", "lanes", "imm", "block", "pinned")

    def __init__(self, op: str, args: tuple[Val, ...], dtype: str, lanes: int, imm: Any, block: Block):
        self.op = op
        self.args = args
        self.dtype = dtype
        self.lanes = lanes
        self.imm = imm
        self.block = block
        self.pinned = False
        """Computed at its place in the block and kept in a local, even if used only once."""

    @property
    def level(self) -> int:
        return self.block.level

    def __repr__(self) -> str:
        return f"<{self.op}:{self.dtype}x{self.lanes}>"


@dataclass(eq=False, slots=True)
class Block:
    """A straight list of statements at one loop depth."""

    level: int
    statements: list[Val | Store | Loop | If | Barrier | Call] = field(default_factory=list)
    control: list[Loop | If | Barrier | Call] = field(default_factory=list)
    """The statements that are neither values nor stores, in order: few are."""
    values: dict[Any, Val] = field(default_factory=dict)
    """Values already in this block, by what they compute: common subexpressions are found as they are built."""
    guarded: bool = False
    """Inside an `If`: what may trap or has no meaning outside must stay here."""
    executed: int = 0
    """As `pieces.executed` says; 0 as long as nobody has asked."""

    def add(self, statement: Loop | If | Barrier | Call) -> None:
        """Adds a statement at the end."""
        self.statements.append(statement)
        self.control.append(statement)


@dataclass(eq=False, slots=True)
class Store:
    """Writes `value` at `address + offset`. `stride` is the distance of its lanes in elements (1: one vector store)."""

    address: Val
    offset: int
    value: Val
    dtype: str
    stride: int


@dataclass(eq=False, slots=True)
class Loop:
    """Runs `body` for its variable from 0 in steps of `step` below `trips * step`, at least once.

    With `chunked` its trips are a part of the kernel's range, which callers split into chunks: those between the
    kernel's `begin` and `end` are made, which may be none, and they carry nothing. With a `condition` there is no
    variable and no count: another trip follows as long as that value of the body holds. `lanes` > 1 marks the loop
    whose variable runs along the lanes of vectors.
    """

    trips: int
    step: int
    lanes: int
    chunked: bool
    body: Block
    carries: list[Carry] = field(default_factory=list)
    inductions: dict[int, Val] = field(default_factory=dict)
    """Values `coefficient * variable`, by coefficient: each becomes one local that the loop advances."""
    condition: Val | None = None

    @property
    def level(self) -> int:
        return self.body.level


@dataclass(eq=False, slots=True)
class Carry:
    """A value that a loop carries: `value` inside the loop, `result` after it."""

    init: Val
    value: Val
    result: Val
    next: Val | None = None


@dataclass(eq=False, slots=True)
class Barrier:
    """Keeps an engine's scheduler from moving work across this place in a loop's body: a branch out, never taken.

    `values` are what the loop's carries hold here: each stays in its carry's local from here on, so that the value
    before it can be forgotten. A carry may keep what it holds. Stands directly in the body of `loop`.
    """

    loop: Loop
    values: list[tuple[Carry, Val]]


@dataclass(frozen=True, slots=True)
class Touch:
    """The memory that a C function reads, or also writes: so many bytes from the address that is its argument of this
    number."""

    argument: int
    bytes: int
    written: bool


@dataclass(eq=False, slots=True)
class Call:
    """Calls the C function `symbol`, which returns nothing, with scalars: addresses and numbers."""

    symbol: str
    args: tuple[Val, ...]
    touches: tuple[Touch, ...] = ()
    """All the memory that it touches, if it is known."""
    cost: int = 1
    """The number of statements that take about as long."""


@dataclass(eq=False, slots=True)
class If:
    """Runs `body` where `condition` (a scalar pred) holds."""

    condition: Val
    body: Block


@dataclass(eq=False, slots=True)
class Func:
    """A kernel of the type (args, begin, end): `args` points to `pointers` 32-bit buffer addresses.

    Callers may split its range: the trips of its chunked loops, of one after the other.
    """

    name: str
    body: Block
    pointers: int

    def ranges(self) -> list[tuple[int, Loop]]:
        """The chunked loops, each with the number that its first trip has in the range."""
        found, first = [], 0
        for statement in self.body.control:
            if isinstance(statement, Loop) and statement.chunked:
                found.append((first, statement))
                first += statement.trips
        return found

    @property
    def trips(self) -> int:
        """The length of the range; 1 without one."""
        return sum(loop.trips for _, loop in self.ranges()) or 1
