"""Notes in a module what its caller has decided: which functions the host runs, on which devices, and where results
end."""

from __future__ import annotations

from ..dataclass import dataclass, replace
from ..hlo.ir import Instruction, Module
from ..hlo.marks import Devices, Request
from ..hlo.shape import Shape
from ..ops.collective.groups import depends
from ..ops.custom import callback
from ..ops.custom.expand_assertion import end_unless
from ..ops.dot.stored import AS_IT_IS
from ..writing.writer import Writer
from .tokens import without_tokens
from .weight_formats import INT4, INT4_BY_INT8, OF_16_BITS


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of the passes beside a module."""

    host_calls: tuple[str, ...] = ()
    """Targets of custom calls that the host runs."""
    serves_callbacks: bool = True
    """True if the host may have the functions of callbacks; else a run ends where it reaches one."""
    drops_callbacks: bool = False
    """True if callbacks without results are left out."""
    devices: Devices | None = None
    winograd: int = 0
    """Results on a side of the largest tiles that Winograd's algorithms may have."""
    states: tuple[tuple[int, str, tuple[int, ...]], ...] = ()
    """Leaves of the parameters that are states, their names, and the least sizes of their dimensions, if there are
    any."""
    weights: tuple[int, ...] = ()
    """Leaves of the parameters that are weights."""
    weight_formats: tuple[tuple[int, str], ...] = ()
    """Leaves of the parameters, and the formats that they are stored in."""
    results: tuple[Shape, ...] | None = None
    """The leaves of the result as hosts see them, where that is not how the root has them."""
    threads: bool = False
    """True if kernels may be shared by several threads."""
    relaxed: bool = False
    """True if the engine has relaxed instructions."""


def check_states(module: Module, given: Given) -> None:
    """Ends a run before it begins where a state has a size that the program is not made for. Hosts check the sizes of
    inputs, and do not see those of a state that the run before has left or that nobody has set."""
    entry, leaves = module.entry, [p for p in module.entry.parameters if not p.shape.is_token]
    for number, name, least in given.states:
        p = leaves[number]
        w = Writer(p, computations=[])
        for d, (low, most) in enumerate(zip(least, p.shape.dimensions)):
            if low and p.shape.dynamic[d]:
                size = w.op("get-dimension-size", p, dimensions=(d,))
                message = f"state '{name}': dimension {d} has size {{0}}, but has to be {low}..{most}"
                end_unless(w, w.compare("GE", size, low), [size], message)
        at = module.computations.index(entry)
        module.computations[at:at] = w.computations
        at = entry.instructions.index(p) + 1
        entry.instructions[at:at] = w.made


def ask_for_calls(module: Module, given: Given) -> None:
    """Makes requests of the custom calls that the host runs, callbacks among them."""
    formats = callback.formats(module)
    for x in module.having("custom-call"):
        target = x.attrs["custom_call_target"]
        if target in given.host_calls:
            x.mark(request=replace(_call("custom_call", x), target=target, opaque=callback.config_of(x)))
        elif target == callback.ASSERTION:
            x.mark(request=replace(_call("callback", x), format=callback.config_of(x)))
        elif callback.is_callback(x) and (callback.has_results(x) or not given.drops_callbacks):
            request = replace(_call("callback", x), place=callback.place_of(x))
            if given.serves_callbacks:
                request = replace(
                    request, target=callback.function_name(x), format=formats.get(callback.number_of(x), "")
                )
            x.mark(request=request)


def _call(kind: str, x: Instruction) -> Request:
    """A request that takes the operands of an instruction and gives its results."""
    operands = [s for o in x.operands for s in _plain_leaves(o.shape)]
    return Request(kind, operands=tuple(operands), results=tuple(_plain_leaves(x.shape)))


def mark_devices(module: Module, given: Given) -> None:
    """Notes the devices at every instruction that depends on them."""
    for x in module.instructions() if given.devices is not None else ():
        if depends(x):
            x.mark(devices=given.devices)


def allow_winograd(module: Module, given: Given) -> None:
    """Notes at every convolution whether it may take one of Winograd's algorithms."""
    for x in module.having("convolution") if given.winograd else ():
        x.mark(winograd=given.winograd)


def name_formats(module: Module, given: Given) -> None:
    """Notes at every parameter which of its leaves are weights, and which are stored in a format: those of 16 bits in
    their own, if in no other."""
    formats, weights = dict(given.weight_formats), frozenset(given.weights)
    leaves = [(p, i, leaf) for p in module.entry.parameters for i, leaf in p.shape.leaves() if not leaf.is_token]
    for number, (p, index, leaf) in enumerate(leaves):
        if number in weights:
            p.mark(weight_leaves=(*p.marks.weight_leaves, index))
            if leaf.element_type in OF_16_BITS:
                formats.setdefault(number, AS_IT_IS)
            if leaf.element_type == formats.get(number) == "bf16":
                formats[number] = AS_IT_IS
        if number in formats:
            name = INT4_BY_INT8 if formats[number] == INT4 and given.relaxed else formats[number]
            p.mark(stored_leaves=(*p.marks.stored_leaves, (index, name)))


def lay_out_results(module: Module, given: Given) -> None:
    """Says in the module how its results are to lie."""
    if given.results is not None:
        module.result_shape = without_tokens(module.entry.root.shape).with_leaves(iter(given.results))


def _plain_leaves(shape: Shape) -> list[Shape]:
    """The arrays of a value in row-major order, as functions of the host have them."""
    return [leaf.without_layout() for _, leaf in shape.leaves() if not leaf.is_token]
