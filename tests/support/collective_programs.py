"""Programs of collectives over drawn groups, for tests on several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tests.support.element_types import Array, bounds
from xla_wasm.builder import Builder
from xla_wasm.hlo.attrs import IotaGroups, MeshGroups, ReplicaGroups, SliceDimension
from xla_wasm.hlo.ir import Computation, Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import DTYPES
from xla_wasm.ops.sample import shape

MODES = ("cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id")
REDUCING = ("all-reduce", "reduce-scatter")
OF_ALL_PARTITIONS = (*REDUCING, "all-gather")
"""Opcodes whose groups hold replicas, or devices, if there is a channel; those of other opcodes then hold
partitions."""
OPCODES = (*OF_ALL_PARTITIONS, "all-to-all", "ragged-all-to-all", "collective-permute", "collective-broadcast")


@dataclass(frozen=True)
class Grid:
    replicas: int
    partitions: int

    @property
    def size(self) -> int:
        return self.replicas * self.partitions

    def __str__(self) -> str:
        return f"{self.replicas}x{self.partitions}"


def modes_of(opcode: str) -> tuple[str, ...]:
    return ("cross_replica", *(MODES[2:] if opcode in OF_ALL_PARTITIONS else MODES[1:2]))


def numbered(grid: Grid, mode: str) -> int:
    """Returns the count of the numbers that the groups of a mode hold: replicas, partitions or devices."""
    return {"cross_partition": grid.partitions, "flattened_id": grid.size}.get(mode, grid.replicas)


# --- groups -----------------------------------------------------------------------------------------------------------


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _factors(rng: Random, n: int) -> list[int]:
    """Numbers whose product is n."""
    found = []
    while n > 1:
        found.append(rng.choice(divisors(n)[1:]))
        n //= found[-1]
    rng.shuffle(found)
    return found or [1]


def equal_groups(rng: Random, count: int) -> ReplicaGroups:
    """All of the numbers below `count` in groups of one size, in one of the notations."""
    notation = rng.choice(("list", "list", "iota", "mesh"))
    dims = _factors(rng, count)
    if notation == "iota":
        size = rng.choice(divisors(count))
        perm = list(range(len(dims)))
        rng.shuffle(perm)
        return ReplicaGroups(iota=IotaGroups(count // size, size, tuple(dims), tuple(perm)))
    if notation == "mesh":
        axes = [i for i in range(len(dims)) if rng.random() < 0.6] or [0]
        rng.shuffle(axes)
        ids = rng.sample(range(count), count) if rng.random() < 0.5 else []
        ids = [] if ids == list(range(count)) else ids  # XLA has one way to write these
        return ReplicaGroups(
            mesh=MeshGroups(tuple((f"a{i}", n) for i, n in enumerate(dims)), tuple((i, 0, 0) for i in axes), tuple(ids))
        )
    size, ids = rng.choice(divisors(count)), rng.sample(range(count), count)
    return ReplicaGroups(tuple(tuple(ids[i : i + size]) for i in range(0, count, size)))


def unequal_groups(rng: Random, count: int) -> ReplicaGroups:
    ids = rng.sample(range(count), count)
    cuts = sorted({0, count, *(rng.randrange(count) for _ in range(2))})
    return ReplicaGroups(tuple(tuple(ids[a:b]) for a, b in zip(cuts, cuts[1:])))


def some_groups(rng: Random, count: int) -> ReplicaGroups:
    """Groups that not all numbers are in."""
    ids = rng.sample(range(count), rng.randrange(1, count + 1))
    size = rng.choice(divisors(len(ids)))
    return ReplicaGroups(tuple(tuple(ids[i : i + size]) for i in range(0, len(ids), size)))


def pairs(rng: Random, count: int) -> tuple[tuple[int, int], ...]:
    many = rng.randrange(1, count + 1)
    return tuple(zip(rng.sample(range(count), many), rng.sample(range(count), many)))


def group_size(groups: ReplicaGroups, grid: Grid, mode: str) -> int:
    """The devices in each of equal groups."""
    listed = groups.expanded()
    size = len(listed[0]) if listed else numbered(grid, mode)
    return size * grid.partitions if mode == "cross_replica_and_partition" else size


# --- reducers ---------------------------------------------------------------------------------------------------------


def reducers(element_type: str) -> tuple[str, ...]:
    kind = TYPES[element_type].kind
    if kind == "complex":
        return ("add", "multiply", "general")
    order = ("add", "maximum", "minimum", "multiply")
    return (*order, "general") if kind == "float" else (*order, "and", "or", "xor", "general")


def reducer(name: str, element_type: str) -> Computation:
    """One operation, or several whose order matters: a / 2 + b, or what is like it."""
    b = Builder("reducer")
    scalar = shape(element_type)
    x, y = b.parameter(0, scalar), b.parameter(1, scalar)
    if name != "general":
        return b.build(b.op(name, x, y))
    if element_type == "pred":
        return b.build(b.op("and", b.op("not", x), y))
    kind = TYPES[element_type].kind
    factor = b.constant(scalar, [{"float": 0.5, "complex": 2j, "unsigned": 1}.get(kind, -1)])
    if kind in ("complex", "float"):
        return b.build(b.op("add", b.op("multiply", x, factor), y))
    return b.build(b.op("subtract", b.op("add", y, factor), b.op("add", x, x)))


# --- values -----------------------------------------------------------------------------------------------------------


def values(seed: int, element_type: str, dims: Sequence[int], special: bool = False) -> Array:
    """Random values; complex numbers are of small integers, so that products are exact."""
    rng, type_ = np.random.default_rng(seed), TYPES[element_type]
    if type_.kind == "pred":
        return rng.random(dims) < 0.7
    if type_.kind == "complex":
        return (rng.integers(-2, 3, dims) + 1j * rng.integers(-2, 3, dims)).astype(DTYPES[element_type])
    if type_.kind == "float":
        found: Any = np.asarray(rng.standard_normal(dims))
        found = np.exp2(np.round(found)) if element_type == "f8e8m0fnu" else found
        others = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])[rng.integers(0, 5, dims)]
        with np.errstate(invalid="ignore"):  # not every type has all of these
            return np.where((rng.random(dims) < 0.05) & special, others, found).astype(DTYPES[element_type])
    low, high = bounds(element_type)
    return np.asarray(rng.integers(max(low, -1000), min(high, 1000), dims)).astype(DTYPES[element_type])


# --- programs ---------------------------------------------------------------------------------------------------------

ROWS = 24
"""Of what is split: many numbers of devices divide it."""


@dataclass(frozen=True)
class Item:
    """One collective of a program. `xla`: whether XLA:CPU runs it."""

    label: str
    make: Callable[[Builder, dict[str, Instruction]], Instruction]
    xla: bool = True


@dataclass
class Program:
    """Many collectives in one module, whose results it returns as a tuple, and the arguments of all devices."""

    grid: Grid
    element_type: str
    items: list[Item]
    seed: int = 0
    special: bool = True
    """True if there are infinities, NaN and zeros among the values."""

    def shapes(self) -> dict[str, Shape]:
        t, n = self.element_type, self.grid.size
        numbers = {f"{form} {what}": f"s32[{n}{more}]" for form, more in (("n", ""), ("nk", ",2")) for what in RAGGED}
        texts = {
            "rows": f"{t}[{ROWS},3]",
            "odd": f"{t}[5,7]",
            "scalar": t,
            "empty": f"{t}[0,3]",
            "large": f"{t}[{LARGE[t]}]",
        }
        return {name: shape(text) for name, text in (texts | numbers).items()}

    def module(self) -> Module:
        b = Builder("collectives")
        parameters = {name: b.parameter(i, s) for i, (name, s) in enumerate(self.shapes().items())}
        return b.module(b.op("tuple", *(item.make(b, parameters) for item in self.items)))

    def for_xla(self) -> Program:
        """Returns the items that XLA:CPU can run, on values that all additions take alike: XLA's sums begin with +0,
        its maximum drops NaN."""
        return Program(
            self.grid, self.element_type, [item for item in self.items if item.xla], self.seed, special=False
        )

    def arguments(self) -> list[list[Array]]:
        n = self.grid.size
        made = []
        for d in range(n):
            own: dict[str, Array] = {}
            for i, (name, s) in enumerate(self.shapes().items()):
                if s.element_type == self.element_type and " " not in name:
                    own[name] = values(self.seed + 100 * d + i, s.element_type, s.dimensions, self.special)
            made.append([*own.values(), *_ragged_numbers(n, d)])
        return made

    def labels(self) -> list[str]:
        """Of the flattened result."""
        b = Builder("labels")
        parameters = {name: b.parameter(i, s) for i, (name, s) in enumerate(self.shapes().items())}
        return [item.label for item in self.items for _ in item.make(b, parameters).shape.leaves()]


LARGE = {name: 70001 // max(type_.bits // 8, 1) for name, type_ in TYPES.items()}
"""Elements of what is more than 64 KiB, in no equal blocks."""

RAGGED = ("offsets", "sizes", "places", "counts")


def _ragged_numbers(n: int, d: int) -> list[Array]:
    """Offsets and sizes of runs of rows, in both forms: every device has a part of the others' output to itself."""
    room = ROWS // n
    made: list[Array] = []
    for k in (1, 2):
        run = room // k
        offsets = [[(3 * d + 2 * j + u) % (ROWS - room) for u in range(k)] for j in range(n)]
        sizes = [[(d + j + u) % (run + 1) for u in range(k)] for j in range(n)]
        places = [[d * room + u * run for u in range(k)] for _ in range(n)]
        received = [[(d + j + u) % (run + 1) for u in range(k)] for j in range(n)]
        for table in (offsets, sizes, places, received):
            x = np.array(table, np.int32)
            made.append(x[:, 0] if k == 1 else x)
    return made


def collective(
    rng: Random,
    opcode: str,
    grid: Grid,
    mode: str,
    element_type: str,
    channel: int,
    reduction: str = "add",
    operand: str = "rows",
) -> Item:
    """One collective over drawn groups."""
    count = numbered(grid, mode)
    attrs: dict[str, Any] = {} if mode == "cross_replica" else {"channel_id": channel}
    if mode == "flattened_id":
        attrs["use_global_device_ids"] = True
    partial = opcode == "collective-broadcast"
    if opcode == "collective-permute":
        attrs["source_target_pairs"] = pairs(rng, count)
    elif opcode == "all-reduce" and rng.random() < 0.3:
        attrs["replica_groups"] = unequal_groups(rng, count)
    elif mode != "flattened_id" and rng.random() < 0.25:
        attrs["replica_groups"] = ReplicaGroups()
    elif partial:
        attrs["replica_groups"] = some_groups(rng, count)
    else:
        attrs["replica_groups"] = equal_groups(rng, count)
    size = group_size(attrs["replica_groups"], grid, mode) if "replica_groups" in attrs else 1
    called = (lambda: [reducer(reduction, element_type)]) if opcode in REDUCING else list
    form = rng.choice(("n", "nk"))
    label = f"{opcode} {mode} {reduction if opcode in REDUCING else ''} {operand} {attrs}"

    def make(b: Builder, p: dict[str, Instruction]) -> Instruction:
        x = p[operand]
        dims = list(x.shape.dimensions)
        if opcode == "all-gather":
            dim = channel % len(dims)
            dims[dim] *= size
            return b.op(opcode, x, shape=Shape(element_type, tuple(dims)), dimensions=(dim,), **attrs)
        if opcode == "reduce-scatter":
            dims[0] //= size
            return b.op(opcode, x, called=called(), shape=Shape(element_type, tuple(dims)), dimensions=(0,), **attrs)
        if opcode == "all-to-all":
            return b.op(opcode, x, dimensions=(0,), **attrs)
        if opcode == "ragged-all-to-all":
            numbers = [p[f"{form} {what}"] for what in RAGGED]
            return b.op(opcode, x, p["rows"], *[_first(b, n, size) for n in numbers], **attrs)
        return b.op(opcode, x, called=called(), **attrs)

    runs = opcode not in ("ragged-all-to-all", "collective-broadcast") and reduction in (
        "add",
        "maximum",
        "minimum",
        "multiply",
    )
    runs &= not (opcode == "all-to-all" and not attrs["replica_groups"].expanded())
    return Item(label, make, runs)


def _first(b: Builder, x: Instruction, size: int) -> Instruction:
    """The first rows."""
    dims = x.shape.dimensions
    return (
        x
        if dims[0] == size
        else b.op("slice", x, slice=(SliceDimension(0, size), *(SliceDimension(0, n) for n in dims[1:])))
    )


def variadic(rng: Random, opcode: str, grid: Grid, mode: str, element_type: str, channel: int) -> Item:
    """A collective of several operands."""
    if opcode == "all-to-all":
        one = _with_groups_of(rng, grid, mode, channel)
        size = group_size(one["replica_groups"], grid, mode)

        def to_all(b: Builder, p: dict[str, Instruction]) -> Instruction:
            parts = [
                b.op("slice", p["rows"], slice=(SliceDimension(i, i + 2), SliceDimension(0, 3))) for i in range(size)
            ]
            return b.op("all-to-all", *parts, **one)

        return Item(f"{opcode} of a tuple {mode} {one}", to_all, size > 1 and one["replica_groups"].mesh is None)
    attrs = _with_groups_of(rng, grid, mode, channel)
    if opcode == "collective-permute":
        del attrs["replica_groups"]
        attrs["source_target_pairs"] = pairs(rng, numbered(grid, mode))
    size = group_size(attrs["replica_groups"], grid, mode) if "replica_groups" in attrs else 1

    def make(b: Builder, p: dict[str, Instruction]) -> Instruction:
        operands = [p["rows"], p["rows"] if opcode == "reduce-scatter" else p["empty"]]
        if opcode in ("all-reduce", "collective-permute"):
            operands += [p["scalar"], p["odd"]]
        shapes = []
        for x in operands:
            dims = list(x.shape.dimensions)
            if opcode == "all-gather":
                dims[0] *= size
            elif opcode == "reduce-scatter":
                dims[0] //= size
            shapes.append(Shape(element_type, tuple(dims)))
        called = [reducer("general", element_type)] if opcode in REDUCING else []
        more = {"dimensions": (0,)} if opcode in ("all-gather", "reduce-scatter") else {}
        return b.op(opcode, *operands, called=called, shape=Shape.tuple(shapes), **attrs, **more)

    return Item(f"{opcode} of several {mode} {attrs}", make, False)


def _with_groups_of(rng: Random, grid: Grid, mode: str, channel: int) -> dict[str, Any]:
    attrs: dict[str, Any] = {"replica_groups": equal_groups(rng, numbered(grid, mode))}
    if mode != "cross_replica":
        attrs["channel_id"] = channel
    if mode == "flattened_id":
        attrs["use_global_device_ids"] = True
    return attrs


def every_collective(seed: int, grid: Grid, element_type: str) -> Program:
    """Every operation in every mode with every reducer, over drawn groups."""
    rng, items = Random(seed), []
    for opcode in OPCODES:
        for mode in modes_of(opcode):
            names = (
                reducers(element_type)
                if opcode == "all-reduce"
                else ("add", "general")
                if opcode in REDUCING
                else ("add",)
            )
            items += [collective(rng, opcode, grid, mode, element_type, len(items) + 1, name) for name in names]
            if opcode not in ("ragged-all-to-all", "collective-broadcast"):
                items.append(variadic(rng, opcode, grid, mode, element_type, len(items) + 1))
    for operand in ("odd", "scalar", "empty", "large"):
        for opcode in ("all-reduce", "collective-permute", "collective-broadcast"):
            mode = rng.choice(modes_of(opcode))
            items.append(collective(rng, opcode, grid, mode, element_type, len(items) + 1, operand=operand))
    items.append(collective(rng, "all-reduce", grid, "cross_replica", element_type, len(items) + 1, "general", "large"))
    items.append(collective(rng, "all-gather", grid, "cross_replica", element_type, len(items) + 1, operand="large"))
    return Program(grid, element_type, items, seed)
