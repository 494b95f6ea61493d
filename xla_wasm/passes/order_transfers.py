"""Readies send and recv: each end of one knows what its start says, and no device waits for another before it has
to."""

from __future__ import annotations

from ..hlo.ir import Module
from ..ops.hostio.transfers import Order, complete


def order_transfers(module: Module) -> None:
    """Puts what the instructions' order means to keep into the list itself; control predecessors have had their say
    then."""
    if module.having("send-done", "recv-done"):
        complete(module)
        order = Order()
        for computation in module.computations:
            computation.instructions = order.of(computation)
    for x in module.instructions():
        if x.control_predecessors:
            x.control_predecessors = []
