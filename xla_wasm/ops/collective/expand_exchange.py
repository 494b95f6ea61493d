"""The one request that all collectives are made of.

    exchange(to s32[t], from s32[f], x..., initial...) -> y...

Block j of each x goes to the device `to[j]`, or all of x to every one of them; row i of each y is what the device
`from[i]` sends to this one in the same exchange. Where a device is -1, nothing is sent, and the row stays what
`initial` has there (without `initial`, anything). Devices are numbered through: replica * number of partitions +
partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dataclass import dataclass
from ...hlo.ir import Instruction
from ...hlo.marks import Request
from ...hlo.shape import Shape
from ...writing.writer import Writer
from ..hostio.transfers import is_between_devices

TARGET = "xla_wasm.exchange"


@dataclass(frozen=True, slots=True)
class Route:
    """The senders and receivers of an exchange; the devices are s32."""

    to: Instruction
    sources: Instruction
    phase: int = 0
    """Tells the exchanges of one operation apart."""
    blocks: bool = False
    """Dimension 0 of what is sent goes over the receivers."""
    buffered: bool = False
    """True if a message waits for its receiver, and the sender does not."""

    @classmethod
    def among(cls, devices: Instruction, **how: Any) -> Route:
        """From each device to each."""
        return cls(devices, devices, **how)


def exchange(
    e: Writer,
    route: Route,
    sent: Sequence[Instruction],
    received: Sequence[Shape],
    initial: Sequence[Instruction] = (),
) -> list[Instruction]:
    """The arrays that come in, of the shapes `received`: a row for each source of the route."""
    x = e.x
    channel_id = x.attrs.get("channel_id")
    if is_between_devices(x):
        channel: tuple[str | int, ...] = ("transfer", channel_id or 0)
    else:
        channel = (
            x.opcode.removesuffix("-start").removesuffix("-done"),
            x.name if channel_id is None else channel_id,
            route.phase,
        )
    request = Request(
        "exchange",
        opcode=x.opcode,
        channel=channel,
        blocks=route.blocks,
        buffered=route.buffered,
        count=len(sent),
    )
    made = e.op(
        "custom-call",
        *(route.to, route.sources, *sent, *initial),
        shape=Shape.tuple([shape.without_layout() for shape in received]),
        custom_call_target=TARGET,
        custom_call_has_side_effect=True,
    )
    made.name = x.name
    made.mark(request=request)
    return e.elements(made)
