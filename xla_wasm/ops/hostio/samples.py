"""Samples of what goes between a program and its host, or from one device to another."""

from __future__ import annotations

from typing import Any

from ...builder import Builder
from ...hlo.ir import Instruction
from ...hlo.shape import Shape
from ..sample import DeviceSample, Host, Sample, among, bf16, f32, program, s32, shape
from .transfers import PAIRS, RENDEZVOUS

_TOKEN = Shape("token")
_U32 = Shape("u32")
_XLA = "the client in jaxlib feeds nothing in and takes nothing out"
_DEVICES = "XLA:CPU has no send and recv between devices"

_V = shape("f32[2]")
_X = f32([1, 2])


def _infeed(b: Builder, data: Shape, token: Instruction | None = None) -> Instruction:
    return b.op("infeed", token or b.op("after-all"), shape=Shape.tuple([data, _TOKEN]))


def _fed(b: Builder) -> Instruction:
    return b.get_tuple_element(_infeed(b, _V), 0)


def _fed_twice(b: Builder) -> Instruction:
    """An array, then a tuple of two, in the order that the token makes."""
    first = _infeed(b, _V)
    second = _infeed(b, Shape.tuple([shape("s32"), shape("bf16[2]")]), b.get_tuple_element(first, 1))
    return b.op("tuple", b.get_tuple_element(first, 0), b.get_tuple_element(second, 0))


def _put_out(b: Builder, x: Instruction) -> Instruction:
    """The array, then a tuple of it and its sum with itself."""
    first = b.op("outfeed", x, b.op("after-all"), outfeed_shape=_V)
    twice = b.op("add", x, x)
    b.op("outfeed", b.op("tuple", x, twice), first, outfeed_shape=Shape.tuple([_V, _V]))
    return twice


def _host_send(b: Builder, x: Instruction, name: str | None = None) -> Instruction:
    sent = b.op("send", x, b.op("after-all"), channel_id=3, is_host_transfer=True)
    if name is not None:
        sent.frontend_attributes = {RENDEZVOUS: name}
    return sent


def _sent(b: Builder, x: Instruction) -> Instruction:
    _host_send(b, x, "loss")
    return b.op("negate", x)


def _sent_and_done(b: Builder, x: Instruction) -> Instruction:
    b.op("send-done", _host_send(b, x), channel_id=3, is_host_transfer=True)
    return b.op("negate", x)


def _recv(b: Builder, **attrs: Any) -> Instruction:
    return b.op("recv", b.op("after-all"), shape=Shape.tuple([_V, _U32, _TOKEN]), **attrs)


def _received(b: Builder) -> Instruction:
    received = _recv(b, channel_id=4, is_host_transfer=True)
    received.frontend_attributes = {RENDEZVOUS: "batch"}
    return b.get_tuple_element(b.op("recv-done", received, channel_id=4, is_host_transfer=True), 0)


def _to_itself(b: Builder, x: Instruction) -> Instruction:
    """The receipt is listed before what it waits for."""
    came = b.op("recv-done", _recv(b, channel_id=1), channel_id=1)
    b.op("send-done", b.op("send", x, b.op("after-all"), channel_id=1), channel_id=1)
    return b.op("tuple", x, b.get_tuple_element(came, 0))


def _along(pairs: str, channel: int) -> Any:
    def body(b: Builder, x: Instruction) -> Instruction:
        received, sent = _recv(b, channel_id=channel), b.op("send", x, b.op("after-all"), channel_id=channel)
        if pairs:
            received.frontend_attributes = sent.frontend_attributes = {PAIRS: pairs}
        came = b.op("recv-done", received, channel_id=channel)
        b.op("send-done", sent, channel_id=channel)
        return b.get_tuple_element(came, 0)

    return body


SAMPLES: tuple[Sample, ...] = (
    program("infeed", (), _X, _fed, xla=_XLA, host=Host(infeed=(_X,))),
    program("infeed", (), (_X, s32(3), bf16([4, 5])), _fed_twice, name="of two items, the second a tuple", xla=_XLA,
        host=Host(infeed=(_X, (s32(3), bf16([4, 5]))))),
    program("outfeed", (_X,), f32([2, 4]), _put_out, xla=_XLA, host=Host(outfeed=(_X, (_X, f32([2, 4]))))),
    program("send", (_X,), f32([-1, -2]), _sent, name="to the host", xla=_XLA, host=Host(send={"loss": (_X,)})),
    program("send-done", (_X,), f32([-1, -2]), _sent_and_done, name="to the host", xla=_XLA,
        host=Host(send={"channel_3": (_X,)})),
    program("recv", (), _X, _received, name="from the host", xla=_XLA, host=Host(recv={"batch": (_X,)})),
    program("recv-done", (_X,), (_X, _X), _to_itself, name="from itself", xla=_DEVICES),
)  # fmt: skip

_THREE = (f32([1, 10]), f32([2, 20]), f32([3, 30]))
_NONE = f32([0, 0])

REPLICATED: tuple[DeviceSample, ...] = (
    among("send", _THREE, (_NONE, *_THREE[:2]), _along("{{0,1},{1,2}}", 0), name="to the next replica", xla=_DEVICES),
    among("recv", _THREE, (_THREE[2], *_THREE[:2]), _along("{{0, 1}, {1, 2}, {2, 0}}", 0), name="in a ring of replicas",
        xla=_DEVICES),
    among("recv-done", _THREE, (_THREE[1], _THREE[0], _NONE), _along("{{0,1},{1,0}}", 5), name="of partitions",
        partitions=3, xla=_DEVICES),
    among("send-done", _THREE[:2], (_THREE[1], _THREE[0]), _along("", 2), name="to the other one", partitions=2,
        xla=_DEVICES),
)  # fmt: skip
