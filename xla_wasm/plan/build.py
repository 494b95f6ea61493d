"""Makes the plan of a module: its steps, and where each buffer lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..dataclass import dataclass, field
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..hlo.signature import leaf_of
from .bring import bring_in_parts
from .buffer import Data, View
from .hoist import hoist
from .kernel import KernelCache
from .loops import join_loops
from .memory import live_ranges, share, share_copies
from .order import order_updates
from .plan import Halt, Launch, Plan, all_steps
from .plan_builder import PlanBuilder
from .planner import ComputationPlanner


@dataclass(frozen=True, slots=True)
class Setting:
    """The arguments of a plan beside the module: what stays in it between runs, and how that comes. Numbers are those
    of leaves of the parameters."""

    weights: Sequence[int] = ()
    """Leaves that are set once."""
    state: Mapping[int, int] = field(default_factory=dict)
    """Leaves, and the result leaves that replace them."""
    initial: Mapping[int, Data] = field(default_factory=dict)
    """The first contents of leaves."""
    configured: bool = False
    """True if there is a place for the numbers of the program's device, read or not."""
    poured: int | None = None
    """Constants of so many bytes and more come from a file, one after another; each is packed before the next comes."""
    one_by_one: bool = False
    """Weights come so, too."""


def plan_module(module: Module, cache: KernelCache, lay: Callable[[Plan], None], setting: Setting) -> Plan:
    """The whole plan of a canonical module. `lay` gives each buffer its address."""
    plan = _build(module, cache, setting)
    for leaf, data in setting.initial.items():
        plan.parameters[leaf].buffer.data = data
    hoist(plan, setting.poured)
    lower_kernels(plan, cache)
    order_updates(plan)
    live_ranges(plan, setting.one_by_one)
    share(plan, copies=True)
    share_copies(plan)
    share(plan, copies=False)
    join_loops(plan, cache)
    live_ranges(plan, setting.one_by_one)
    if setting.one_by_one:
        bring_in_parts(plan)
    lay(plan)
    return plan


def lower_kernels(plan: Plan, cache: KernelCache) -> None:
    """Lowers the kernels that are left."""
    for step in all_steps(plan):
        if isinstance(step, Launch):
            lowered = cache.lower(step.kernel)
            step.lowered, step.may_overwrite = lowered.func, lowered.may_overwrite


def _build(module: Module, cache: KernelCache, setting: Setting) -> Plan:
    """All steps in the order of the program, over buffers that share nothing."""
    builder, weights, state = PlanBuilder(cache), setting.weights, setting.state
    if setting.configured:
        builder.device_number(0)
    entry = module.entry
    parameters: list[View] = []
    arguments: list[list[View]] = []
    for p in entry.parameters:
        leaves = [builder.view(shape, "parameter", p.name) for _, shape in p.shape.leaves()]
        parameters += leaves
        builder.given |= {view.buffer for view in leaves}
        arguments.append(leaves)
    numbers = _numbered(entry, weights)
    others = [leaf for leaf in range(len(parameters)) if leaf not in state]
    results = list(ComputationPlanner(builder, entry, arguments, numbers, _numbered(entry, others)).run())
    if state:
        _keep_state(builder, entry.root, parameters, results, state)
    for r, view in enumerate(results):
        if r not in state.values():
            results[r] = builder.settled(view, entry.root.name)
    builder.steps.append(Halt("end"))
    set_once, replaced = [parameters[i].buffer for i in weights], [parameters[i].buffer for i in state]
    return Plan(builder.steps, builder.buffers, parameters, results, set_once, replaced)


def _numbered(entry: Computation, chosen: Sequence[int]) -> dict[Instruction, int]:
    """Some leaves of the parameters as the entry reads them, counted from 1."""
    leaves = [(p, index) for p in entry.parameters for index, _ in p.shape.leaves()]
    numbers = {leaves[leaf]: number for number, leaf in enumerate(chosen, 1)}
    return {x: numbers[leaf_of(x)] for x in entry.instructions if numbers and leaf_of(x) in numbers}


def _keep_state(
    builder: PlanBuilder, root: Instruction, parameters: list[View], results: list[View], state: Mapping[int, int]
) -> None:
    """Ends the program by putting each new state where the old one lies."""
    kept = {parameters[p].buffer for p in state}
    replaced = set(state.values())
    for r, view in enumerate(results):
        if r not in replaced and view.buffer in kept:
            aside = builder.view(Shape(view.dtype, view.dims), name=f"{root.name}.{r}")
            builder.copy(aside, view, root.name)
            results[r] = aside
    targets = [parameters[p] for p in state]
    builder.parallel_copy(targets, [results[r] for r in state.values()], root)
    for target, r in zip(targets, state.values()):
        results[r] = target
