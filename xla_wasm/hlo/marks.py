"""Notes that passes leave on instructions, for those that come after them. No file of a module has them."""

from __future__ import annotations

from typing import NamedTuple

from ..dataclass import dataclass
from .shape import Shape


@dataclass(frozen=True, slots=True)
class Request:
    """The host's work on the operands of the instruction that carries this, to give its results.

    `kind`: custom_call, callback, infeed, outfeed, send or recv, for which whole arrays go to the host and come from
    it; or exchange (see `ops.collective.expand_exchange`).
    """

    kind: str
    target: str = ""
    """The function of a custom call or of a callback, or the name of a transfer. Empty: a callback that is never to be
    served."""
    opaque: str = ""
    """The data that a custom call carries for the function."""
    operands: tuple[Shape, ...] = ()
    """The arrays that the host gets, with the layouts and dynamic dimensions that they have there. The instruction's
    own have their dimensions in the order of memory, and the actual sizes follow them as s32."""
    results: tuple[Shape, ...] = ()
    """The same of those that it gives."""
    place: str = ""
    """Of a callback: where the user wrote it."""
    format: str = ""
    """Of a callback that prints: a line as `str.format` takes it, whose fields are numbers of operands, such as "loss
    {0:.3f}". Of one that is never to be served: why the run ends, in the same way; empty: because the caller wants it
    so."""
    opcode: str = ""
    """Of an exchange: the operation that it belongs to."""
    channel: tuple[str | int, ...] = ()
    """Of an exchange: what sender and receiver agree on."""
    blocks: bool = False
    """Of an exchange: whether each receiver gets a block of its own, and not all the same one."""
    buffered: bool = False
    """Of an exchange: whether it is over before anyone has received what was sent."""
    count: int = 1
    """Of an exchange: how many arrays it sends."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that a program runs on. None: known only when it runs."""

    replicas: int | None = None
    partitions: int | None = None
    least: int = 1
    most: int | None = None
    axis: str = "replicas"
    """The axis along which a bare number of devices counts."""

    @property
    def total(self) -> int | None:
        return None if self.replicas is None or self.partitions is None else self.replicas * self.partitions


class Marks(NamedTuple):
    """The notes on one instruction. They are a part of what it is: instructions with other marks are not equal."""

    request: Request | None = None
    """Of a custom call: what the host does in its place. `passes/given.py` has it from the caller, and rules make it of
    infeed, outfeed, send, recv and what collectives exchange; everything behind them leaves the call to the host."""
    devices: Devices | None = None
    """Of what depends on the devices. `passes/given.py` sets it, the rules of collectives and transfers read it."""
    winograd: int = 0
    """Of a convolution: in tiles of how many results a side its products may be taken; the caller decides.
    `passes/given.py` sets it, `ops/conv/plan.py` reads it."""
    interleaved: bool = False
    """Of an array with the results of convolutions, in their order of dimensions. `ops/conv/canonical_phases.py` sets
    it, `passes/sink.py` reads it."""
    stored_leaves: tuple[tuple[tuple[int, ...], str], ...] = ()
    """Of a parameter of the entry: the indices of the leaves that are stored in a format, with its name.
    `passes/given.py` sets it, `passes/weight_formats.py` reads it."""
    weight_leaves: tuple[tuple[int, ...], ...] = ()
    """Of a parameter of the entry: the indices of the leaves that are weights. `passes/given.py` sets it,
    `passes/winograd.py` reads it."""
    weight_format: str = ""
    """Of a conversion: the format of what it converts; of anything else: the format that it is a part of, so that it is
    kept. `passes/weight_formats.py` and `dequantize.py` set it; `dequantize.py` and the plan of products and fusions
    read it."""
    contracted: int | None = None
    """Of an addition: which of its operands is a product that it may take with one rounding, where the target has that.
    `passes/contract.py` sets it, `lowering/elemental.py` reads it."""
    fraction: bool = False
    """Of a log-plus-one: its operand is nowhere below 0 or above 1; NaN it may be. `passes/fractions.py` sets it,
    `ops/elementwise/lower.py` reads it."""
    best: str | None = None
    """Of a reduction of an array and its elements' places that looks for the first of the best elements: maximum or
    minimum. `passes/searches.py` sets it, `plan/elements.py` and `ops/reduce/lower.py` read it."""


UNMARKED = Marks()
