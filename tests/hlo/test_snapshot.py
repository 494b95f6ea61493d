"""Dumps with arguments and results: read, written, and told apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.hlo_modules import lowered
from xla_wasm.errors import ParseError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.proto.schema import MESSAGES
from xla_wasm.hlo.proto.snapshot import KINDS, Snapshot
from xla_wasm.hlo.proto.wire import encode
from xla_wasm.hlo.shape import Layout, Shape

MODULE = lowered(lambda x, y: x * 2 + y, np.zeros((2, 3), np.float32), np.float32(1))


def literal(values: list[float]) -> Literal:
    return Literal.from_values(Shape("f32", (len(values),), Layout.default(1)), values)


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind: str) -> None:
    snapshot = Snapshot(Module.from_proto(MODULE), kind)
    if kind == "HloSnapshot":
        snapshot.arguments, snapshot.result = [[literal([1, 2]), literal([3])]], literal([4, 5])
        snapshot.execution_platform = "cpu"
    if kind == "HloUnoptimizedSnapshot":
        snapshot.arguments = [[literal([1])], [literal([2, 3]), literal([])]]
    data = snapshot.to_proto()
    again = Snapshot.from_proto(data)
    assert again.kind == kind
    assert again.arguments == snapshot.arguments and again.result == snapshot.result
    assert again.execution_platform == snapshot.execution_platform
    assert again.module.to_proto() == snapshot.module.to_proto() == Module.from_proto(data).to_proto()
    assert again.to_proto() == data


def test_what_nothing_models_is_kept() -> None:
    module = Module.from_proto(MODULE).to_proto()
    assigned = encode(MESSAGES["HloProto"], {"hlo_module": module, "buffer_assignment": b"\x0a\x02\x08\x01"})
    assert Snapshot.from_proto(assigned).to_proto() == assigned
    wrapped = encode(MESSAGES["HloSnapshot"], {"hlo": assigned, "execution_platform": "cpu"})
    assert Snapshot.from_proto(wrapped).to_proto() == wrapped
    inputs = encode(
        MESSAGES["HloInputs"], {"arguments": [literal([1]).to_proto()], "arguments_descriptors": [b"\x08\x01\x10\x04"]}
    )
    dumped = encode(MESSAGES["HloUnoptimizedSnapshot"], {"hlo_module": module, "partitions": [inputs], "version": 1})
    assert Snapshot.from_proto(dumped).to_proto() == dumped


def test_damage_is_an_error() -> None:
    whole = Snapshot(Module.from_proto(MODULE), "HloSnapshot", [[literal([1, 2])]]).to_proto()
    with pytest.raises(ParseError):
        Snapshot.from_proto(whole[:-3])
