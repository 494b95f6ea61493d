"""compile: from a module to an artifact, stage by stage."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .artifact import Artifact
from .assemble import Interface, assemble
from .errors import ArgumentError, UnsupportedError
from .hlo.ir import Instruction, Module
from .hlo.layout import physical_bytes
from .hlo.shape import Shape
from .hlo.signature import leaf_index, parameter_leaves, result_leaves
from .hlo.verify import verify
from .ops.lowering import CONTROL, ELEMENTAL, ELEMENTWISE, KERNELS
from .options import Options
from .passes import pipeline
from .passes.clone import clone
from .passes.expand import EXPAND
from .plan.build import SUPPORTED_TYPES, build
from .plan.hoist import hoist
from .plan.memory import live_ranges, share, share_carries
from .plan.plan import Plan


def compile(module: Module, options: Options | None = None) -> Artifact:
    """Compiles an HLO module; `options` says for which target. Raises VerifyError or UnsupportedError."""
    return _compile(module, options or Options()).artifact


def stages(module: Module, options: Options | None = None) -> dict[str, str]:
    """What each stage of compiling gives, as text: hlo (after the passes), plan, loops, wat and manifest."""
    from .loop.text import to_text
    from .wasm.disasm import disassemble

    made = _compile(module, options or Options(), names=True)
    return {
        "hlo": made.module.to_text(large_constants=False),
        "plan": str(made.plan),
        "loops": "\n".join(to_text(f) for f in made.plan.funcs.values()),
        "wat": disassemble(made.artifact.wasm),
        "manifest": json.dumps(made.artifact.manifest, indent=1),
    }


def unsupported(module: Module) -> list[tuple[Instruction, str]]:
    """Every instruction that `compile` would refuse for its opcode or element type, with the reason."""
    found = []
    for x in module.instructions():
        if x.opcode not in OPCODES:
            found.append((x, f"opcode {x.opcode} is not supported yet"))
            continue
        for _, shape in x.shape.leaves():
            if shape.element_type not in SUPPORTED_TYPES:
                found.append((x, f"element type {shape.element_type} is not supported yet"))
                break
    return found


_MOST_BYTES = 2**32

OPCODES = frozenset((*ELEMENTWISE, *ELEMENTAL, *KERNELS, *CONTROL, *EXPAND, "call", "fusion", "copy", "opt-barrier"))
"""Every opcode that `compile` takes."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    artifact: Artifact
    module: Module
    plan: Plan


def _compile(module: Module, options: Options, names: bool = False) -> _Compiled:
    verify(module)
    refused = unsupported(module)
    if refused:
        x, reason = refused[0]
        more = f" ({len(refused) - 1} more; `xla-wasm inspect` lists them)" if len(refused) > 1 else ""
        raise UnsupportedError(f"{x.where}: {reason}{more}")
    interface = _interface(module, options)
    canonical = clone(module)
    canonical.result_shape = module.entry.root.shape.with_leaves(iter([shape for _, shape in interface.results]))
    pipeline.run(canonical)
    plan = build(canonical, options.relaxed, options.tune, interface.weights, interface.state)
    hoist(plan)
    live_ranges(plan)
    share(plan)
    share_carries(plan)
    live_ranges(plan)
    return _Compiled(assemble(plan, interface, options, names), canonical, plan)


def _interface(module: Module, options: Options) -> Interface:
    """The inputs and outputs, with the weights and the state that the options name."""
    inputs, outputs = parameter_leaves(module), result_leaves(module)
    weights = tuple(leaf_index(inputs, w, "parameter") for w in options.weights)
    state = {leaf_index(inputs, p, "parameter"): leaf_index(outputs, r, "result") for p, r in options.state}
    for p, r in state.items():
        (name, before), (result, after) = inputs[p], outputs[r]
        if p in weights:
            raise ArgumentError(f"parameter {name!r} is named both as a weight and as state")
        if before.without_layout() != after.without_layout():
            raise ArgumentError(f"state {name!r} is {before}, but the result {result!r} that replaces it is {after}")
        outputs[r] = (result, before)  # it ends where the state lies, and as it does
    if len(set(state.values())) != len(state):
        raise ArgumentError("one result replaces two parameters of the state")
    for name, shape in (*inputs, *outputs):
        _check_layout(name, shape)
    return Interface(module.name, module.to_proto(), inputs, outputs, weights, state)


def _check_layout(name: str, shape: Shape) -> None:
    """Refuses a layout of the boundary that hosts could not convert."""
    try:
        size = physical_bytes(shape) if shape.is_array else 0
    except ArgumentError as error:
        raise UnsupportedError(f"'{name}': {error}") from None
    if size > _MOST_BYTES:
        raise UnsupportedError(f"'{name}': {shape} takes {size} bytes with its padding; arrays of up to 4 GiB are supported")
