"""For how many devices a module is: its proto says so in the device assignment."""

from __future__ import annotations

from .ir import Module
from .proto.schema import MESSAGES
from .proto.wire import decode, encode

_MODULE = MESSAGES["HloModuleProto"]


def with_devices(module: Module, replicas: int, partitions: int) -> Module:
    """Sets for how many devices a module is, so that its proto says it too."""
    fields = decode(_MODULE, module.unknown)
    devices = [[r * partitions + p for r in range(replicas)] for p in range(partitions)]
    ids = [encode(MESSAGES["ComputationDevice"], {"replica_device_ids": numbers}) for numbers in devices]
    assignment = {"replica_count": replicas, "computation_count": partitions, "computation_devices": ids}
    fields["device_assignment"] = encode(MESSAGES["DeviceAssignmentProto"], assignment)
    module.unknown = encode(_MODULE, fields)
    module.replica_count, module.num_partitions = replicas, partitions
    return module
