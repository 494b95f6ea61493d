"""Notes in a module what its caller has decided: which functions the host runs, on which devices, and where results end."""

from __future__ import annotations

from ..dataclass import dataclass
from ..hlo.ir import Instruction, Module
from ..hlo.shape import Shape
from ..ops.collective.groups import DEVICES, Devices, depends
from ..ops.request import REQUEST, Request
from .tokens import without_tokens


@dataclass(frozen=True, slots=True)
class Given:
    """What the passes take beside a module."""

    host_calls: tuple[str, ...] = ()
    """Targets of custom calls that the host runs."""
    devices: Devices | None = None
    results: tuple[Shape, ...] | None = None
    """The leaves of the result as hosts see them, where that is not how the root has them."""


def ask_for_calls(module: Module, given: Given) -> None:
    """Makes requests of the custom calls that the host runs."""
    for x in module.instructions():
        if x.attrs.get("custom_call_target") in given.host_calls:
            operands, results = [s for o in x.operands for s in _plain_leaves(o.shape)], _plain_leaves(x.shape)
            x.attrs[REQUEST] = Request("custom_call", x.attrs["custom_call_target"], _opaque(x), tuple(operands), tuple(results))


def mark_devices(module: Module, given: Given) -> None:
    """Notes the devices at every instruction that depends on them."""
    for x in module.instructions() if given.devices is not None else ():
        if depends(x):
            x.attrs[DEVICES] = given.devices


def lay_out_results(module: Module, given: Given) -> None:
    """Says in the module how its results are to lie."""
    if given.results is not None:
        module.result_shape = without_tokens(module.entry.root.shape).with_leaves(iter(given.results))


def _plain_leaves(shape: Shape) -> list[Shape]:
    """The arrays of a value in row-major order, as functions of the host have them."""
    return [leaf.without_layout() for _, leaf in shape.leaves() if not leaf.is_token]


def _opaque(x: Instruction) -> str:
    """What a custom call carries for the function that it calls."""
    opaque = x.attrs.get("backend_config") or b""
    return opaque.decode("utf-8", "replace") if isinstance(opaque, bytes) else str(opaque)
