"""Makes the plan of a module: its steps and buffers, not placed yet."""

from __future__ import annotations

from ..hlo.ir import Instruction, Module
from ..hlo.shape import Shape
from .draft import Draft
from .kernels import KernelCache
from .plan import Plan, Step, View
from .scope import Scope


def build(
    module: Module,
    relaxed: bool,
    tune: str,
    weights: tuple[int, ...] = (),
    state: dict[int, int] | None = None,
    configured: bool = False,
) -> Plan:
    """The plan of a canonical module, buffers not placed yet.

    `weights` are leaves of the parameters that are set once, `state` maps such leaves to the result leaves that replace them.
    A program that is `configured` has a place for the numbers of its device, whether it reads them or not.
    """
    draft = Draft(KernelCache(relaxed, tune))
    if configured:
        draft.device_number(0)
    entry = module.entry
    parameters: list[View] = []
    arguments: list[list[View]] = []
    for p in entry.parameters:
        leaves = [draft.view(shape, "parameter", p.name) for _, shape in p.shape.leaves()]
        parameters += leaves
        arguments.append(leaves)
    results = list(Scope(draft, entry, arguments).run())
    if state:
        _keep_state(draft, entry.root, parameters, results, state)
    draft.step(Step("halt", "end"))
    return Plan(draft.steps, draft.buffers, parameters, results, draft.loops, draft.cache.funcs, [parameters[i].buffer for i in weights])


def _keep_state(draft: Draft, root: Instruction, parameters: list[View], results: list[View], state: dict[int, int]) -> None:
    """Ends the program by putting each new state where the old one lies."""
    kept = {parameters[p].buffer for p in state}
    replaced = set(state.values())
    for r, view in enumerate(results):
        if r not in replaced and view.buffer in kept:
            aside = draft.view(Shape(view.dtype, view.dims), name=f"{root.name}.{r}")
            draft.copy(aside, view, root.name)
            results[r] = aside
    targets = [parameters[p] for p in state]
    draft.parallel_copy(targets, [results[r] for r in state.values()], root)
    for target, r in zip(targets, state.values()):
        results[r] = target
