"""Requests of a program's steps to its host: a custom call, an exchange with other devices, or a transfer."""

from __future__ import annotations

from ..dataclass import dataclass
from ..hlo.shape import Shape

REQUEST = "request"
"""The attribute of a custom call that the host serves."""


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
