"""Records of the exchange with the host and with other devices.

Exchanges of a program with its host happen in the order in which a computation lists them, which keeps the order of
tokens and control predecessors. A send happens where it starts, a receipt where it is done. Data of no arrays is not
exchanged at all.

With `is_host_transfer`, send and recv are the host's, under the name in the frontend attribute
`_xla_host_transfer_rendezvous`, or else `channel_` and the channel_id. Without it they go from device to device, as the
frontend attribute `_xla_send_recv_source_target_pairs` says, such as `{{0,1},{1,2}}`: pairs of replicas, in each
partition, or with a channel_id above 0 of partitions, in each replica. A device that no pair sends to gets zeros.
Without pairs one device sends to itself, and each of two to the other one. A sender never waits, and what waits for
another device comes as late as it can.
"""

from __future__ import annotations

from ...hlo.infer import brief, broken
from ...hlo.ir import Instruction
from ...hlo.op import Attr, Op
from ...hlo.shape import Shape

_TOKEN = Shape("token")
_TRANSFER = (Attr("channel_id", "channel_id", (26,)), Attr("is_host_transfer", "bool", (47,), False))


def _need_token(instr: Instruction, index: int) -> None:
    if not instr.operands[index].shape.is_token:
        raise broken(instr, 1, f"operand {index} must be a token, not {brief(instr.operands[index].shape)}")


def _infeed(instr: Instruction) -> Shape:
    _need_token(instr, 0)
    parts = instr.shape.tuple_shapes
    if len(parts) != 2 or not parts[1].is_token:
        raise broken(instr, 2, f"the result shape must be given as (data, token), not {brief(instr.shape)}")
    return instr.shape


def _outfeed(instr: Instruction) -> Shape:
    _need_token(instr, 1)
    shown, data = instr.attrs["outfeed_shape"], instr.operands[0].shape
    if shown is not None and shown.without_layout() != data.without_layout():
        raise broken(instr, 2, f"outfeed_shape is {brief(shown)}, the operand {brief(data)}")
    return _TOKEN


def _send(instr: Instruction) -> Shape:
    _need_token(instr, 1)
    return Shape.tuple([instr.operands[0].shape.without_layout(), Shape("u32"), _TOKEN])


def _recv(instr: Instruction) -> Shape:
    _need_token(instr, 0)
    _parts(instr, instr.shape, 2, "the result shape must be given as")
    return instr.shape


def _send_done(instr: Instruction) -> Shape:
    _parts(instr, instr.operands[0].shape, 1, "the operand must be")
    return _TOKEN


def _recv_done(instr: Instruction) -> Shape:
    data = _parts(instr, instr.operands[0].shape, 1, "the operand must be")
    return Shape.tuple([data.without_layout(), _TOKEN])


def _parts(instr: Instruction, shape: Shape, rule: int, what: str) -> Shape:
    """The data of what send and recv give."""
    parts = shape.tuple_shapes
    if len(parts) != 3 or parts[1].without_layout() != Shape("u32") or not parts[2].is_token:
        raise broken(instr, rule, f"{what} (data, u32[], token), not {brief(shape)}")
    return parts[0]


OPS: tuple[Op, ...] = (
    Op(
        "infeed",
        (1, 1),
        _infeed,
        (Attr("infeed_config", "bytes", (27,), b""),),
        effect=True,
        doc="The next item that the host feeds in: (data, token).",
        constraints=("The operand is a token.", "The result is (data, token)."),
    ),
    Op(
        "outfeed",
        (2, 2),
        _outfeed,
        (Attr("outfeed_shape", "shape", (29,)), Attr("outfeed_config", "bytes", (22,), b"")),
        effect=True,
        doc="Hands the first operand to the host.",
        constraints=(
            "The second operand is a token.",
            "The outfeed_shape, if any, is that of the first operand, layouts aside.",
        ),
    ),
    Op(
        "send",
        (2, 2),
        _send,
        _TRANSFER,
        effect=True,
        doc="Starts to send the first operand over a channel: (data, u32, token).",
        constraints=("The second operand is a token.",),
    ),
    Op(
        "send-done",
        (1, 1),
        _send_done,
        _TRANSFER,
        effect=True,
        doc="Waits for a send.",
        constraints=("The operand is what send gives.",),
    ),
    Op(
        "recv",
        (1, 1),
        _recv,
        _TRANSFER,
        effect=True,
        doc="Starts to receive over a channel: (data, u32, token). The data is there once recv-done has given it.",
        constraints=("The operand is a token.", "The result is (data, u32[], token)."),
    ),
    Op(
        "recv-done",
        (1, 1),
        _recv_done,
        _TRANSFER,
        effect=True,
        doc="Waits for a recv: (data, token).",
        constraints=("The operand is what recv gives.",),
    ),
)
