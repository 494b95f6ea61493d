"""The reference evaluator: an HLO module over NumPy arrays, written to be read, the judge of compiled modules.

What an operation means lies in `ops/<family>/reference.py`. There an operation gets its instruction, the values of its
operands and the Evaluator (to run called computations); it may return wider numbers, which are rounded here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Unpack

import numpy as np

from .errors import ArgumentError, UnsupportedError, counted
from .hlo.ir import Computation, Instruction, Module
from .hlo.shape import Shape
from .hlo.signature import least_sizes
from .hlo.types import THROUGH_F16, TYPES
from .hlo.verify import verify
from .hostio import DeviceKeywords, HostIO, HostKeywords, of_devices
from .ops.collective.reference_membership import grid_for
from .ops.collective.reference_rendezvous import Device, Rendezvous, alone
from .ops.dtypes import Array, Value, accepted, dtype_of, flattened, narrow, nested
from .ops.dynamic import reference as dynamic
from .ops.hostio.reference import HostSide
from .ops.hostio.transfers import Order, Starts
from .ops.sort.first import first_parts
from .ops.sort.reference import best_first
from .ops.table import load_files, load_tables
from .passes.manual import PerDevice, per_device

EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = load_tables("reference", "EVALUATE")
"""Every opcode that the evaluator runs."""

_LANEWISE = {opcode for module in load_files("reference") for opcode in getattr(module, "LANEWISE", ())}
"""Operations that take scalars with lanes: one for each element that a computation is applied to."""


def evaluate(
    module: Module,
    *arrays: Any,
    precision: Literal["native", "f64"] = "native",
    custom_calls: Mapping[str, Callable[..., Any]] | None = None,
    **host: Unpack[HostKeywords],
) -> list[Array]:
    """Run the entry computation of `module` on `arrays` (its flattened parameters) and return its flattened result.

    With precision "f64", floats of 16 bits and more (and complex numbers) are held and computed in 64 bits throughout
    and so returned: the true values by which the rounding of other evaluations is measured.

    `custom_calls` are functions that stand for the custom calls to their targets, as in `load`; `infeed`, `outfeed`,
    `send` and `recv` stand for the host, as in `Executable.run`. A program with manual computations for several devices
    takes whole arrays.
    """
    division = per_device(module)
    if division.module.num_partitions > 1 and division.module is not module:
        if any(end is not None for end in host.values()):
            raise ArgumentError(
                f"'{module.name}' runs on several devices: evaluate_replicated takes what the host of each of them does"
            )
        return _on_global(division, arrays, precision=precision, custom_calls=custom_calls)
    own = HostSide(HostIO(**host))
    return evaluate_with(module, [arrays], [own], precision=precision, custom_calls=custom_calls)[0]


def _on_global(division: PerDevice, arrays: Sequence[Any], **options: Any) -> list[Array]:
    """The whole results of a program that is divided among devices, on whole arrays."""
    if len(arrays) != len(division.parameters):
        raise ArgumentError(
            f"{division.module.name} takes {counted(len(division.parameters), 'array')}, not {len(arrays)}"
        )
    given = [np.asarray(array) for array in arrays]
    devices = range(division.module.replica_count * division.module.num_partitions)
    parts: list[list[Array]] = [[] for _ in devices]
    for i, (array, shards) in enumerate(zip(given, division.parameters)):
        if shards is None or array.shape != shards.dimensions:
            raise ArgumentError(f"parameter {i} has the shape {shards and shards.dimensions}, got {array.shape}")
        for d in devices:
            parts[d].append(array[shards.block(d)])
    results = evaluate_with(division.module, parts, [HostSide() for _ in devices], **options)
    whole = []
    for i, shards in enumerate(division.results):
        assert shards is not None
        joined = np.empty(shards.dimensions, results[0][i].dtype)
        for d in reversed(devices):
            joined[shards.block(d)] = results[d][i]
        whole.append(joined)
    return whole


def evaluate_replicated(
    module: Module,
    arguments: Sequence[Sequence[Any]],
    num_replicas: int | None = None,
    num_partitions: int | None = None,
    *,
    precision: Literal["native", "f64"] = "native",
    custom_calls: Mapping[str, Callable[..., Any]] | None = None,
    **host: Unpack[DeviceKeywords],
) -> list[list[Array]]:
    """As `evaluate`, on several devices at once: `arguments[d]` are those of device d, and so are the results.

    Devices are numbered replica * number of partitions + partition. Numbers that are not given are those of the module;
    if it has none either, all devices are replicas, or partitions if the module tells these apart and replicas nowhere.
    `infeed`, `outfeed`, `send` and `recv` are lists with an entry for each device.
    """
    hosts = [HostSide(own) for own in of_devices(len(arguments), **host)]
    return evaluate_with(
        module, arguments, hosts, num_replicas, num_partitions, precision=precision, custom_calls=custom_calls
    )


def evaluate_with(
    module: Module,
    arguments: Sequence[Sequence[Any]],
    hosts: Sequence[HostSide],
    num_replicas: int | None = None,
    num_partitions: int | None = None,
    *,
    precision: Literal["native", "f64"] = "native",
    custom_calls: Mapping[str, Callable[..., Any]] | None = None,
    most_trips: int | None = None,
) -> list[list[Array]]:
    """As `evaluate_replicated`, with anything that stands for the host of each device. Raises LimitError when the loops
    of a device have taken more than `most_trips` in all."""
    precise = precision == "f64"
    verify(module)
    module = per_device(module).module
    grid = grid_for(module, len(arguments), num_replicas, num_partitions)
    leaves = [
        (p.name + "".join(f".{i}" for i in index), shape)
        for p in module.entry.parameters
        for index, shape in p.shape.leaves()
    ]
    leaves = [(name, shape) for name, shape in leaves if not shape.is_token]
    least = least_sizes(module)
    starts = Starts(module.instructions())

    def work(device: Device) -> list[Array]:
        arrays = arguments[device.number]
        if len(arrays) != len(leaves):
            raise ArgumentError(
                f"{module.name} takes {counted(len(leaves), 'array')} ({', '.join(name for name, _ in leaves)}), not "
                f"{len(arrays)}"
            )
        evaluator = Evaluator(precise, device, hosts[device.number], starts)
        evaluator.trips_left = most_trips
        evaluator.custom_calls = {**module.callbacks, **(custom_calls or {})}
        with np.errstate(all="ignore"):
            flat = iter(
                [
                    accepted(f"parameter '{name}'", shape, array, precise, low)
                    for (name, shape), array, low in zip(leaves, arrays, least)
                ]
            )
            result = evaluator(module.entry, *(nested(p.shape, flat) for p in module.entry.parameters))
        return [np.array(leaf) for leaf in flattened(result)]

    return Rendezvous(grid).run(work)


class Evaluator:
    """Runs computations; called by `evaluate`, and by operations that have computations of their own."""

    def __init__(
        self, precise: bool, device: Device | None = None, host: HostSide | None = None, starts: Starts | None = None
    ):
        self.precise = precise
        self.device = device or alone()
        """The device that this runs on."""
        self.host = host or HostSide()
        self.starts = starts or Starts(())
        self._order = Order()
        self.states: dict[Instruction, int] = {}
        """The states of the generators of random numbers."""
        self.custom_calls: dict[str, Callable[..., Any]] = {}
        self.expansions: dict[Instruction, Computation] = {}
        """Custom calls as the operations that stand for them."""
        self.trips_left: int | None = None
        """The number of trips that loops may still take; None: any."""
        self._held = False
        self._many = False
        self._schedules: dict[int, list[tuple[Instruction, list[Instruction]]]] = {}
        self._cut_sorts: dict[int, frozenset[Instruction]] = {}
        self._lanewise: dict[int, bool] = {}

    def __call__(self, computation: Computation, *args: Value) -> Value:
        """The value of the root of `computation`."""
        values: dict[Instruction, Value] = {}
        cut = self._cut_sorts.get(id(computation))
        if cut is None:
            cut = self._cut_sorts[id(computation)] = frozenset(first_parts(computation))
        for instr, dead in self._schedule(computation):
            if instr.opcode == "parameter":
                values[instr] = args[instr.attrs["parameter_number"]]
            elif instr in cut and not dynamic.is_dynamic(instr):
                values[instr] = best_first(instr, [values[o] for o in instr.operands])
            else:
                values[instr] = self.run(instr, [values[o] for o in instr.operands])
            for operand in dead:
                del values[operand]
        return values[computation.root]

    def lanes(self, computation: Computation, *args: Array, rounded: bool = True) -> Value:
        """A computation over scalars, applied to every element of equally shaped arrays.

        Elementwise operations take whole arrays as they are, and so do loops and branches made of them; a computation
        with any other operation is run for every element by itself. Unless `rounded`, floats narrower than f32 are held
        in f32.
        """
        dims = np.broadcast_shapes(*(a.shape for a in args))
        held, self._held = self._held, not rounded
        many, self._many = self._many, self._is_lanewise(computation)
        try:
            if self._many:
                return _map_leaves(lambda x: np.broadcast_to(x, dims), self(computation, *args))
            columns = [np.broadcast_to(a, dims).reshape(-1) for a in args]
            rows = [flattened(self(computation, *(c[i, ...] for c in columns))) for i in range(len(columns[0]))]
        finally:
            self._held, self._many = held, many
        leaves = [shape for _, shape in computation.root.shape.leaves()]
        stacked = [
            np.array(
                [row[k] for row in rows], rows[0][k].dtype if rows else dtype_of(shape.element_type, self.precise)
            ).reshape(dims)
            for k, shape in enumerate(leaves)
        ]
        return nested(computation.root.shape, iter(stacked))

    def _while_lanes(self, instr: Instruction, operands: list[Value]) -> Value:
        """A loop over many lanes: those whose condition has failed keep their state."""
        body, condition = instr.called
        state = operands[0]
        going: Array = np.asarray(True)
        while True:
            going = going & self(condition, state)
            if not going.any():
                return state
            state = _chosen(going, self(body, state), state)

    def _conditional_lanes(self, instr: Instruction, operands: list[Value]) -> Value:
        """Branches over many lanes: every one that a lane takes is run on all."""
        selector, count = operands[0], len(instr.called)
        if selector.dtype == bool:
            branches = np.where(selector, 0, 1)
        else:
            index = selector.astype(np.int64)
            branches = np.where((index >= 0) & (index < count), index, count - 1)
        result: Value = None
        for branch in np.unique(branches) if np.size(branches) else (0,):  # without lanes it is about the shape
            value = self(instr.called[branch], operands[1 + branch])
            result = value if result is None else _chosen(branches == branch, value, result)
        return result

    def run(self, instr: Instruction, operands: list[Value]) -> Value:
        """The value of one instruction, rounded to its type."""
        fn = EVALUATE.get(instr.opcode)
        if fn is None:
            raise UnsupportedError(f"the reference evaluator cannot run {instr.where}: nobody has said what it means")
        if self._many and instr.opcode in ("while", "conditional"):
            return (
                self._while_lanes(instr, operands)
                if instr.opcode == "while"
                else self._conditional_lanes(instr, operands)
            )
        value = dynamic.evaluate(instr, operands, self, fn) if dynamic.is_dynamic(instr) else fn(instr, operands, self)
        # A conversion asks for its rounding, even where others are left out.
        return (
            narrow(value, instr.shape.element_type, self.precise)
            if instr.opcode == "convert"
            else self._rounded(value, instr.shape)
        )

    def _rounded(self, value: Value, shape: Shape) -> Value:
        if value is None:  # a token, which passes make an empty tuple
            return None
        if shape.is_tuple:
            return tuple(self._rounded(v, s) for v, s in zip(value, shape.tuple_shapes))
        held = (
            self._held
            and not self.precise
            and TYPES[shape.element_type].kind == "float"
            and TYPES[shape.element_type].bits < 32
        )
        if shape.element_type in THROUGH_F16 and not held and np.asarray(value).dtype.itemsize > 2:
            value = narrow(value, "f16", False)
        return narrow(value, "f32" if held else shape.element_type, self.precise)

    def _schedule(self, computation: Computation) -> list[tuple[Instruction, list[Instruction]]]:
        """The instructions as they run, each with the values that nothing needs after it."""
        found = self._schedules.get(id(computation))
        if found is None:
            seen, found = {computation.root}, []
            for instr in reversed(self._order.of(computation)):
                last = [o for o in dict.fromkeys(instr.operands) if o not in seen]
                seen.update(last)
                found.append((instr, last if instr in seen else [*last, instr]))
                seen.add(instr)
            found.reverse()
            self._schedules[id(computation)] = found
        return found

    def _is_lanewise(self, computation: Computation) -> bool:
        known = self._lanewise.get(id(computation))
        if known is None:
            known = all(
                instr.opcode in _LANEWISE
                and all(not shape.dimensions for _, shape in instr.shape.leaves())
                and all(self._is_lanewise(c) for c in instr.called)
                for instr in computation.instructions
            )
            self._lanewise[id(computation)] = known
        return known


def _chosen(mask: Array, new: Value, old: Value) -> Value:
    """`new` where the mask holds, else `old`."""
    if isinstance(new, tuple):
        return tuple(_chosen(mask, n, o) for n, o in zip(new, old))
    return None if new is None else np.where(mask, new, old)


def _map_leaves(fn: Callable[[Array], Array], value: Value) -> Value:
    return tuple(_map_leaves(fn, v) for v in value) if isinstance(value, tuple) else fn(value)
