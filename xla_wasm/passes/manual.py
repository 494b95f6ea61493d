"""From a module as a framework lowers it to the program of one device, and which part of the arguments and results it
has.

A module for several partitions is one of three kinds, told apart in this order:

- *Partitioned*: XLA's SPMD partitioner has run, and shapes are those of one device. It leaves the fields
  spmd_parameters_shardings and spmd_output_sharding in the proto, and an entry computation whose name ends in "_spmd".
- *Manual*: arrays are global, and go into and out of manual computations (JAX's shard_map and pmap), whose shapes are
  those of one device. `localize.py` writes the program of one device.
- Anything else that speaks of devices by itself (collectives, partition-id) is one device's program already, and a
  module without them whose instructions carry shardings is a *global* one that only the partitioner can divide: it runs
  on one device as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..dataclass import dataclass, replace
from ..errors import UnsupportedError, counted
from ..hlo.devices import with_devices
from ..hlo.ir import Instruction, Module, callees, needed
from ..hlo.proto.schema import MESSAGES
from ..hlo.proto.wire import Fields, decode
from ..hlo.shape import Index, Shape
from ..hlo.sharding import Mesh, Sharding, Shards, read_sharding
from ..hlo.shardy import MESHES, SHARDING, read_meshes, read_shardings
from ..ops.collective.groups import check_count
from .clean import has_effect
from .clone import clone
from .localize import (
    ADVICE,
    PER_DEVICE,
    Body,
    Localizer,
    Tree,
    Value,
    annotation,
    crosses,
    crossing,
    local_parameter,
    local_shape,
)

_PARTITIONED = r"_spmd(\.clone|\.\d+)*$"
_MODULE = MESSAGES["HloModuleProto"]

Leaves = list[Shards | None]
"""For each leaf of the parameters or of the result, tokens left out, the part that each device has; None if unknown."""


@dataclass(frozen=True, slots=True)
class PerDevice:
    """The program that each device runs."""

    module: Module
    parameters: Leaves
    results: Leaves
    undivided: str = ""
    """Of a program on global arrays that only a partitioner could divide: why it runs on one device."""


def per_device(module: Module) -> PerDevice:
    """The program that each device runs; the module itself unless it has manual computations. Raises
    UnsupportedError."""
    fields = decode(_MODULE, module.unknown)
    if is_partitioned(module, fields):
        return _partitioned(module, fields)
    unknown = _unknown(module)
    meshes = read_meshes(module.frontend_attributes.get(MESHES, "{}"))
    if any(map(crosses, module.having("custom-call"))):
        devices = _devices(module, meshes)
        check_count(f"'{module.name}'", devices * module.replica_count)
        return _Division(module, devices, meshes).run() if devices > 1 else unknown
    if module.having(*PER_DEVICE):
        return unknown
    said = [x for x in module.instructions() if x.frontend_attributes or "sharding" in x.attrs]
    annotated = next((x for x in said if _is_divided(x, meshes)), None)
    if annotated is None:
        return unknown
    single = module if module.num_partitions == 1 else with_devices(clone(module), module.replica_count, 1)
    why = (
        f"{annotated.where} says how its array is to be divided among devices, which XLA's partitioner would do. "
        f"What to do: {ADVICE}"
    )
    return replace(unknown, module=single, undivided=why)


def _unknown(module: Module) -> PerDevice:
    """Returns the module as it is; the shards of its parameters and results are unknown."""
    return PerDevice(
        module, [None] * len(_leaves(_parameter_shapes(module))), [None] * len(_leaves([module.entry.root.shape]))
    )


def _on_replicas(shards: Shards, replicas: int) -> Shards:
    """The shards of partitions, on replicas that have all of them each."""
    return replace(shards, starts=shards.starts * replicas)


def is_partitioned(module: Module, fields: Fields | None = None) -> bool:
    """Returns True if XLA's partitioner has made the module."""
    fields = decode(_MODULE, module.unknown) if fields is None else fields
    marks = "spmd_parameters_shardings" in fields or "spmd_output_sharding" in fields
    return marks or (module.num_partitions > 1 and re.search(_PARTITIONED, module.entry.name) is not None)


# --- what the partitioner has made
# --------------------------------------------------------------------------------------


def _partitioned(module: Module, fields: Fields) -> PerDevice:
    parameters, results = _parameter_shapes(module), [module.entry.root.shape]
    given = [leaf for data in fields.get("spmd_parameters_shardings", ()) for leaf in read_sharding(data)]
    if len(given) != sum(len(list(shape.leaves())) for shape in parameters):  # HLO text, or some have been added
        given = []
        for p in module.entry.parameters:
            given += annotation(p) or [Sharding("unknown")] * len(list(p.shape.leaves()))
    made = read_sharding(fields["spmd_output_sharding"]) if "spmd_output_sharding" in fields else []
    devices, name = max([module.num_partitions, *(s.devices for s in (*given, *made))]), f"'{module.name}'"
    if devices == 1:
        return _unknown(module)
    check_count(name, devices * module.replica_count)
    if module.num_partitions == 1:
        module = with_devices(clone(module), module.replica_count, devices)
    replicas = module.replica_count
    return PerDevice(
        module, _cut(parameters, given, devices, replicas, name), _cut(results, made, devices, replicas, name)
    )


def _cut(shapes: list[Shape], shardings: list[Sharding], devices: int, replicas: int, where: str) -> Leaves:
    """The shards that leaves of these shapes are."""
    leaves = [shape for top in shapes for _, shape in top.leaves()]
    known = shardings if len(leaves) == len(shardings) else [Sharding("unknown")] * len(leaves)
    cut = [
        s.cut(shape.dimensions, devices, where) if s.kind in ("tiled", "replicated") else None
        for shape, s in zip(leaves, known)
        if not shape.is_token
    ]
    return [_on_replicas(s, replicas) if s else None for s in cut]


# --- manual computations
# ------------------------------------------------------------------------------------------------


def _devices(module: Module, meshes: Mapping[str, Mesh]) -> int:
    """Returns the number of devices that a module with manual computations is for."""
    counts: dict[int, Instruction] = {}
    for x in module.instructions():
        if crosses(x):
            for sharding in crossing(x, meshes):
                if sharding.devices:
                    counts.setdefault(sharding.devices, x)
    if len(counts) > 1:
        (first, a), (second, b) = list(counts.items())[:2]
        raise UnsupportedError(
            f"{a.where} is for {first} devices, {b.where} for {second}: a program runs on one set of devices"
        )
    # Where everything is replicated, an older module says it only in the groups of its collectives.
    count = next(iter(counts), 0) or max(module.num_partitions, 1 + max(_numbers(module), default=0))
    if module.num_partitions not in (1, count):
        raise UnsupportedError(
            f"'{module.name}' has {counted(module.num_partitions, 'partition')}, its manual computations are for "
            f"{counted(count, 'device')}"
        )
    return count


def _numbers(module: Module) -> Iterator[int]:
    """The numbers of devices in the groups of collectives."""
    for x in module.instructions():
        if "replica_groups" in x.attrs:
            yield from (number for group in x.attrs["replica_groups"].expanded() for number in group)
        yield from (number for pair in x.attrs.get("source_target_pairs", ()) for number in pair)


class _Division:
    """A module with manual computations, divided among devices."""

    def __init__(self, module: Module, devices: int, meshes: Mapping[str, Mesh]) -> None:
        self.module, self.devices, self.meshes = module, devices, meshes
        self.localizer = Localizer(module, devices, meshes)

    def run(self) -> PerDevice:
        """The program of one device. A parameter whose sharding is left open and of which one block is used is that
        block."""
        open_, trees = [], []
        for p in self.module.entry.parameters:
            declared = self._declared(p)
            open_.append(declared is None)
            trees.append(self.localizer.whole_of(p.shape) if declared is None else declared)
        parameters, body, root = self._entry(trees)
        chosen = [self._used(v, body, root) if free else v.shards for free, v in zip(open_, parameters)]
        if chosen != trees:
            parameters, body, root = self._entry(chosen)
        return PerDevice(
            self._module(body, parameters, root),
            self._leaves([v.shards for v in parameters]),
            self._leaves([root.shards]),
        )

    def _declared(self, p: Instruction) -> Tree:
        """The shards that the module asks for a parameter; None if it leaves them open."""
        shape, shardings = p.shape, _stated(p, self.meshes)
        if not shardings or all(s.kind == "unknown" for s in shardings):
            return None
        return self.localizer.tree(p, shape, self.localizer.whole_of(shape), shardings)

    def _entry(self, trees: list[Tree]) -> tuple[list[Value], Body, Value]:
        parameters = [local_parameter(p, tree) for p, tree in zip(self.module.entry.parameters, trees)]
        body, value = self.localizer.entry(parameters)
        root = body.x = self.module.entry.root
        if root.attrs.get("sharding") and MESHES not in self.module.frontend_attributes:
            # Before Shardy, what nobody asked for was said to be replicated too.
            shardings = [Sharding("unknown") if s.kind == "replicated" else s for s in annotation(root)]
            value = self.localizer.declared(body, value, root.shape, shardings)
        return parameters, body, value

    def _used(self, value: Value, body: Body, root: Value) -> Tree:
        """The block of a parameter that is used, or all of it if there are several."""
        blocks = {cut: want for (own, want), cut in body.slices.items() if own is value.own}
        live = needed([root.own, *(x for x in body.made if has_effect(x))])
        used = {blocks.get(x) for x in live if value.own in x.operands}
        return used.pop() or value.shards if len(used) == 1 and root.own is not value.own else value.shards

    def _leaves(self, trees: Sequence[Tree]) -> Leaves:
        """The shards on each device, of which each replica has all partitions."""
        flat: Leaves = []
        for tree in trees:
            if isinstance(tree, tuple):
                flat += self._leaves(tree)
            elif tree is not None:
                flat.append(_on_replicas(tree, self.module.replica_count))
        return flat

    def _module(self, body: Body, parameters: list[Value], root: Value) -> Module:
        entry = body.finished(self.module.entry.name, root)
        made = Module(self.module.name, [*callees(entry.instructions), entry], entry)
        made.frontend_attributes = {k: v for k, v in self.module.frontend_attributes.items() if k != MESHES}
        made.buffer_donor = list(self.module.buffer_donor)
        for alias in self.module.input_output_alias:
            output, number, index, _ = alias
            if _at(root.shards, output) == _at(
                parameters[number].shards, index
            ):  # another block cannot lie in its place
                made.input_output_alias.append(alias)
        if self.module.parameter_shapes is not None:
            made.parameter_shapes = [local_shape(s, v.shards) for s, v in zip(self.module.parameter_shapes, parameters)]
        if self.module.result_shape is not None:
            made.result_shape = local_shape(self.module.result_shape, root.shards)
        return with_devices(made, self.module.replica_count, self.devices)


def _at(tree: Tree, index: Index) -> Tree:
    for i in index:
        assert isinstance(tree, tuple)
        tree = tree[i]
    return tree


def _stated(x: Instruction, meshes: Mapping[str, Mesh]) -> list[Sharding]:
    """The shardings that an instruction says it has: Shardy's, or in the older form the annotation."""
    if SHARDING in x.frontend_attributes:
        return read_shardings(x.frontend_attributes[SHARDING], meshes)
    # Before Shardy, what nobody asked for was said to be replicated too, which no byte does.
    return annotation(x) if x.attrs.get("sharding") else []


def _is_divided(x: Instruction, meshes: Mapping[str, Mesh]) -> bool:
    """Returns True if an instruction says that its array lies on several devices."""
    return any(s.devices > 1 for s in _stated(x, meshes))


def _parameter_shapes(module: Module) -> list[Shape]:
    return [p.shape for p in module.entry.parameters]


def _leaves(shapes: Iterable[Shape]) -> list[Shape]:
    return [leaf for shape in shapes for _, leaf in shape.leaves() if not leaf.is_token]
