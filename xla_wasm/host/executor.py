"""Loads artifacts and runs them under wasmtime: `load` and `Executable`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Literal, TypeVar, overload

import numpy as np

from ..artifact import Artifact
from ..dataclass import dataclass
from ..errors import ArgumentError, LimitError, RunError, counted
from .arrays import Array, Slot, dtype_of, physical_bytes
from .base import FILE, BaseExecutable, positional
from .budget import UNLIMITED, Budget, Limits
from .calls import HostFunction
from .device import Device
from .exchange import Endpoint, Transport
from .feeds import Feeds, Sink, Source
from .grid import ALONE, Grid, check_alone, check_device, fits, make_grid
from .instance import Instance, Program, Serve
from .layouts import PhysicalSlot
from .loopback import Loopback
from .manifest import Manifest
from .replicas import raise_named, run_together
from .shards import GlobalSlot, global_slots, is_sharded
from .thread_pool import cpus, most_threads
from .untrusted import UNTRUSTED, check_handed

T = TypeVar("T")
_on_all_devices: ContextVar[frozenset[int]] = ContextVar("_on_all_devices", default=frozenset())
"""The executables, by `id`, whose devices run together and have led to this call."""


def load(
    artifact: Artifact | str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    memory_limit: int | None = None,
    fuel: int | None = None,
    timeout: float | None = None,
    physical: bool = False,
    custom_calls: Mapping[str, HostFunction] | None = None,
    untrusted: bool = False,
    threads: int | None = None,
) -> Executable:
    """Makes an artifact, the path of one, or the bytes of a `.wasm` ready to run.

    `memory_limit` bounds the linear memory, in bytes, of all concurrent runs together; `fuel` (wasmtime's unit, about
    one instruction, on each device) and `timeout` (seconds) bound each call: this one, a run with everything that it
    waits for, setting a weight. A function of the host that computes is not ended, but nothing goes on after it. They
    cost some speed, and nothing when left out.

    `untrusted` is for modules of strangers: every limit that is not given is one of `UNTRUSTED`, and results do not
    depend on the processor (relaxed operations are the deterministic ones, each NaN is the canonical one).
    docs/security.md says what that promises.

    `threads`: how many share the work of a run, of an artifact that was compiled with `Options(threads=True)`; by
    default as many as there are processors; on several devices each has so many, and by default they divide the
    processors. The results do not depend on it. With `fuel`, which counts exactly, and `untrusted` it is one.

    With `physical`, arguments and results are not arrays of the logical shapes but the bytes of their layouts, tiles
    and padding included: `bytes` or arrays of u8 go in, arrays of u8 come out.

    `custom_calls` are the functions that the module calls by name (those it was compiled for with
    `Options.host_calls`): each gets an array for every operand and returns the result, or a sequence of several. A
    function with a keyword-only parameter `opaque` gets the text that the call carries. Python functions of a JAX
    program (`jax.pure_callback` and its like) come with the artifact of what `xla_wasm.jax.lower` made; others may be
    given here, as "callback 0" and so on.
    """
    for name, value in (("memory_limit", memory_limit), ("fuel", fuel), ("timeout", timeout)):
        if value is not None and not value > 0:
            raise ArgumentError(f"{name} must be above zero, got {value}")
    if not isinstance(artifact, Artifact):
        artifact = Artifact.open(artifact)
    if untrusted:
        memory_limit, fuel, timeout = (
            memory_limit or UNTRUSTED.memory,
            fuel or UNTRUSTED.fuel,
            timeout or UNTRUSTED.timeout,
        )
    functions = {**artifact.callbacks, **(custom_calls or {})}
    count = _threads(artifact, threads, fuel is not None, untrusted)
    exe = Executable(
        artifact, Limits(memory_limit, fuel, timeout, untrusted, count, threads is None), physical, functions
    )
    exe._threads = threads
    return exe


def _unpickled(artifact: Artifact, options: dict[str, Any], held: dict[int | None, dict[str, Any]]) -> Executable:
    """An executable as `Executable.__reduce__` has described it."""
    exe = load(artifact, **options)
    exe._take_held(held)
    return exe


def _threads(artifact: Artifact, threads: int | None, fuel: bool, untrusted: bool) -> int:
    """Returns the number of threads of a run. Raises ArgumentError if the module or the other options do not allow so
    many."""
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ArgumentError(f"threads must be an integer above zero, got {threads!r}")
    manifest = Manifest.parse(artifact.manifest)
    if manifest.threads is None:
        if threads is not None and threads > 1:
            raise ArgumentError(
                f"'{manifest.name}' is compiled for one thread: compile it with Options(threads=True), or --threads"
            )
        return 1
    if fuel or untrusted:
        if threads is not None and threads > 1:
            what = "what nobody trusts" if untrusted else "fuel, which counts exactly,"
            raise ArgumentError(f"{what} runs on one thread: leave out threads={threads}")
        return 1
    most = most_threads(manifest.memory_bytes, manifest.threads.bytes)
    if threads is not None and threads > most:
        raise ArgumentError(f"'{manifest.name}' has room for at most {most} threads, not {threads}")
    return min(threads or cpus(), most)


@dataclass(frozen=True, slots=True)
class Job:
    """One run on one device: its arguments, feeds and targets."""

    ids: tuple[int, int, int, int]
    """Its replica and partition, and the numbers of both."""
    arrays: list[Array]
    feeds: Feeds
    out: Sequence[Array] | None = None
    """The arrays into which the outputs are written; None: new ones."""


class Executable(BaseExecutable):
    """A module ready to run, on one device or on many. Threads may call it concurrently; each call has instances for
    itself.

    A device with state has one instance, so its runs happen one after another, and so do runs on many devices.
    """

    def __init__(
        self,
        artifact: Artifact,
        limits: Limits,
        physical: bool = False,
        custom_calls: Mapping[str, HostFunction] | None = None,
        program: Program | None = None,
    ) -> None:
        """`program` is that of the artifact, if another executable has it already."""
        manifest = program.manifest if program else Manifest.parse(artifact.manifest)
        for leaf in (*manifest.parameters, *manifest.results):
            dtype_of(leaf.element_type)
        check_handed(manifest, limits, physical)
        super().__init__(manifest, custom_calls, Slot, PhysicalSlot if physical else None)
        self._limits = limits
        self._origin = artifact, physical, custom_calls
        self._threads: int | None = None
        """The number that was asked for; None: as many as there are processors, also where it is unpickled."""
        self._program = program or Program(artifact.wasm, manifest, artifact.weights, limits)
        self._lock = threading.Lock()
        """Of what all devices begin with, and of their list."""
        self._together = threading.Lock()
        """Of what concerns several devices at once."""
        self._later: dict[int | None, dict[str, Any]] = {None: {}}
        """For devices that are made later, what was set on all and on each: bytes of weights, arrays of states."""
        self._devices: dict[int, Device] = {}
        count = 1 if self._states or manifest.stateful else max((os.cpu_count() or 1) // limits.threads, 1)
        if limits.memory is not None:
            count = max(1, min(count, limits.memory // self._program.memory_bytes))
        self._first = self._devices[0] = Device(self._program, self._held, count, self._budget())

    def clone(self) -> Executable:
        """Another executable of the same compiled module, with the same limits and the weights as they are now, which
        both share. Its states and its runs are its own: for many users of one model, and for functions of the host that
        run it while it runs.
        """
        self._check_open()
        artifact, physical, custom_calls = self._origin
        made = Executable(artifact, self._limits, physical, custom_calls, self._program)
        made._threads = self._threads
        made._take_held(self._weights())
        return made

    def close(self) -> None:
        """Lets go of the module, its memory and its threads. Runs that are under way end as they would, whatever is
        called later raises RunError; to close once more does nothing. `with load(...) as exe:` closes at the end. What
        `input` and `output` gave stays readable for as long as somebody holds it.
        """
        with self._lock:
            super().close()
            devices = list(self._devices.values())
            self._later = {None: {}}
        for device in devices:
            device.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickles and copies: the artifact, the options of `load`, and the weights and states of all devices as
        they are between two runs. Functions in `custom_calls` have to be picklable; what `rng` would draw next does not
        travel.
        """
        self._check_open()
        artifact, physical, custom_calls = self._origin
        limits = self._limits
        options = {
            "memory_limit": limits.memory,
            "fuel": limits.fuel,
            "timeout": limits.timeout,
            "physical": physical,
            "custom_calls": dict(custom_calls or {}),
            "untrusted": limits.untrusted,
            "threads": self._threads,
        }
        budget = self._budget()
        held = self._weights()

        def add_states() -> None:
            for d, device in list(self._devices.items()):
                held.setdefault(d, {}).update(device.use(self._copied_states, self._states, budget))

        if self._states:
            with self._lock:
                for d, values in self._later.items():
                    held.setdefault(d, {}).update(
                        {name: value for name, value in values.items() if name in self._states}
                    )
            self._with_all_devices(budget, add_states)
        return _unpickled, (artifact, options, held)

    def _weights(self) -> dict[int | None, dict[str, Any]]:
        """The weights of each device, and of those that are made later, as bytes."""
        with self._lock:
            held = {d: {n: v for n, v in values.items() if n not in self._states} for d, values in self._later.items()}
            for d, device in self._devices.items():
                held.setdefault(d, {}).update(device.weights)
        return held

    def _copied_states(self, instance: Instance) -> dict[str, Array]:
        slots = [(name, self._held[name]) for name in self._states]
        return {name: np.array(slot.accept(slot.give(instance.states[name]))) for name, slot in slots}

    def _take_held(self, held: Mapping[int | None, Mapping[str, Any]]) -> None:
        """Takes weights and states of another executable of the same module, which has not run."""
        self._later = {d: dict(values) for d, values in held.items() if d != 0}
        for name, value in held.get(0, {}).items():
            self._put(self._first, name, value, self._budget())

    @property
    def digest(self) -> str:
        """The hash of the module's bytes, by which processes know that they run the same program."""
        return self._program.digest

    @overload
    def run(
        self,
        *arrays: Any,
        out: Sequence[Array] | None = None,
        as_dict: Literal[False] = False,
        infeed: Source | None = None,
        outfeed: Sink | None = None,
        send: Mapping[str, Sink] | None = None,
        recv: Mapping[str, Source] | None = None,
        **named: Any,
    ) -> list[Array]: ...
    @overload
    def run(self, *arrays: Any, as_dict: Literal[True], **named: Any) -> dict[str, Array]: ...
    def run(
        self,
        *arrays: Any,
        out: Sequence[Array] | None = None,
        as_dict: bool = False,
        infeed: Source | None = None,
        outfeed: Sink | None = None,
        send: Mapping[str, Sink] | None = None,
        recv: Mapping[str, Source] | None = None,
        **named: Any,
    ) -> list[Array] | dict[str, Array]:
        """Runs the module on one array for each input and returns copies of its outputs: a list, or with `as_dict` by
        their names.

        Inputs may also be given by name, `run(tokens=..., params={"w": w, "b": b})` or all in one mapping, and in
        structures by position, `run(params, x)`: the name "params.w" is that of `params["w"]`, `params.w` or
        `params[0]`, as the key is. An input that is called as one of the options here is given in a mapping.

        Arrays must have the exact dtype and shape; Python numbers and lists are converted when nothing is lost. With
        `out`, an array for each output, of its dtype and shape, they are written there and no array is made; a run that
        fails leaves them as they were. What `input` and `output` give is neither copied in nor out.

        While it runs, the module takes items from `infeed` and, by name, from those in `recv`: iterables, or queues
        with a method `get`. It hands arrays to `outfeed` and those in `send`: functions, or objects with a method
        `append` or `put`.
        """
        check_alone(self.manifest)
        budget = self._budget()
        out = None if out is None else self._targets(out)
        job = Job(ALONE.ids(0), self._accept(arrays, named), self._transfers.begin(infeed, outfeed, send, recv), out)
        results = self._first.use(lambda instance: self._run(instance, job, Loopback()), self._held.keys(), budget)
        return self._named(results) if as_dict else results

    def input(self, name: str) -> Array:
        """The memory of an input as an array of its dtype and shape, to be written before a run:
        `exe.run(exe.input("x"))` copies nothing.

        What is written stays until it is written anew. From this call on the executable has one instance, so its runs
        happen one after another. If a run fails and another instance is needed, runs are refused for as long as anybody
        holds an array of the old one. Raises ArgumentError where arrays have no such place: dynamic dimensions,
        `physical`, `untrusted`, several devices.
        """
        return self._view(self._inputs, name, "argument", True)

    def output(self, name: str) -> Array:
        """The memory of an output as an array that cannot be written to, which shows what the last run gave; until
        there is one, anything.

        With `out=[exe.output(...), ...]`, `run` makes no copies. An output that is an input as it stands may lie where
        that lies. For the rest it is as with `input`.
        """
        return self._view(self._outputs, name, "result", False)

    def _view(self, slots: Sequence[Slot], name: str, kind: str, writable: bool) -> Array:
        leaf = self._viewed(slots, name, kind)
        check_alone(self.manifest)
        if self._limits.untrusted:
            raise ArgumentError(f"'{self.manifest.name}' is untrusted: there are no views of its memory")
        if self._origin[1]:
            raise ArgumentError("there are views of logical arrays only: load without physical=True")
        return self._first.lease(self._budget()).array(leaf, writable)

    async def run_async(self, *arrays: Any, **options: Any) -> list[Array]:
        """As `run`, in a thread, while others of the event loop go on. A caller who no longer waits does not end the
        run."""
        from asyncio import to_thread

        return await to_thread(self.run, *arrays, **options)

    @overload
    def run_replicated(
        self,
        arguments: Sequence[Any],
        *,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: Literal[False] = False,
        infeed: Sequence[Source] | None = None,
        outfeed: Sequence[Sink] | None = None,
        send: Sequence[Mapping[str, Sink]] | None = None,
        recv: Sequence[Mapping[str, Source]] | None = None,
    ) -> list[list[Array]]: ...
    @overload
    def run_replicated(
        self,
        arguments: Sequence[Any],
        *,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: Literal[True],
        infeed: Sequence[Source] | None = None,
        outfeed: Sequence[Sink] | None = None,
        send: Sequence[Mapping[str, Sink]] | None = None,
        recv: Sequence[Mapping[str, Source]] | None = None,
    ) -> list[dict[str, Array]]: ...
    def run_replicated(
        self,
        arguments: Sequence[Any],
        *,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: bool = False,
        infeed: Sequence[Source] | None = None,
        outfeed: Sequence[Sink] | None = None,
        send: Sequence[Mapping[str, Sink]] | None = None,
        recv: Sequence[Mapping[str, Source]] | None = None,
    ) -> list[list[Array]] | list[dict[str, Array]]:
        """Runs the module on many devices at once, each in a thread: `arguments[d]` are those of device d, in a list or
        a mapping of their names, with structures as in `run`.

        The d-th entry of the result holds copies of its outputs: a list, or with `as_dict` by their names. `infeed` and
        so on have an entry for each device, of what `run` takes.

        Device `replica * num_partitions + partition` is that partition of that replica. Numbers that neither the module
        nor the caller fixes follow from how many lists of arguments there are. Weights and states belong to a device
        and stay there from run to run. `timeout` bounds how long a device waits for others in one exchange, in seconds.

        If the run fails on one device it ends on all, and the error names the device; the states of all are lost then.
        """
        grid = make_grid(self.manifest, len(arguments), num_replicas, num_partitions)
        feeds = self._transfers.begin_all(grid.count, infeed, outfeed, send, recv)
        results = self._on_all(grid, arguments, feeds, timeout, self._run)
        return [*map(self._named, results)] if as_dict else results

    @overload
    def run_global(
        self,
        arrays: Any,
        *,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: Literal[False] = False,
        infeed: Sequence[Source] | None = None,
        outfeed: Sequence[Sink] | None = None,
        send: Sequence[Mapping[str, Sink]] | None = None,
        recv: Sequence[Mapping[str, Source]] | None = None,
    ) -> list[Array]: ...
    @overload
    def run_global(
        self,
        arrays: Any,
        *,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: Literal[True],
        infeed: Sequence[Source] | None = None,
        outfeed: Sequence[Sink] | None = None,
        send: Sequence[Mapping[str, Sink]] | None = None,
        recv: Sequence[Mapping[str, Source]] | None = None,
    ) -> dict[str, Array]: ...
    def run_global(
        self,
        arrays: Any,
        *,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: bool = False,
        infeed: Sequence[Source] | None = None,
        outfeed: Sequence[Sink] | None = None,
        send: Sequence[Mapping[str, Sink]] | None = None,
        recv: Sequence[Mapping[str, Source]] | None = None,
    ) -> list[Array] | dict[str, Array]:
        """Runs the module on all devices among which it divides its arrays, on whole arrays: a list with one for each
        input or with structures of them, or a mapping of their names, as `run` takes them.

        Each device gets its shards, and the results are put together from those of the devices; what several devices
        have alike is the first one's. They come in a list, or with `as_dict` by their names. `timeout` and the rest are
        as in `run_replicated`.
        """
        self._check_open()
        inputs, outputs = self._global_inputs, self._global_outputs
        parts = [slot.split(array) for slot, array in zip(inputs, self._accept(positional(arrays), slots=inputs))]
        results = self.run_replicated(
            [[part[d] for part in parts] for d in range(self.manifest.sharded or 1)],
            num_partitions=num_partitions,
            timeout=timeout,
            infeed=infeed,
            outfeed=outfeed,
            send=send,
            recv=recv,
        )
        whole = [slot.join([result[i] for result in results]) for i, slot in enumerate(outputs)]
        return self._named(whole) if as_dict else whole

    def _run_whole(self, arrays: Sequence[Any]) -> list[Array]:
        return self.run(*arrays) if fits(self.manifest, ALONE) else self.run_global(arrays)

    @cached_property
    def _global_inputs(self) -> list[GlobalSlot]:
        return global_slots(self.manifest, self._inputs)

    @cached_property
    def _global_outputs(self) -> list[GlobalSlot]:
        return global_slots(self.manifest, self._outputs)

    def profile(self, *arrays: Any, **feeds: Any) -> list[tuple[str, float]]:
        """Runs the module as `run` does, step by step: (instruction, seconds) of every step that ran, loops summed."""
        check_alone(self.manifest)
        budget = self._budget()
        job = Job(ALONE.ids(0), self._accept(arrays), self._transfers.begin(**feeds))
        return self._first.use(lambda instance: self._profile(instance, job, Loopback()), self._held.keys(), budget)

    def profile_replicated(
        self,
        arguments: Sequence[Any],
        *,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        **feeds: Any,
    ) -> list[list[tuple[str, float]]]:
        """Runs the module as `run_replicated` does, step by step: what `profile` says, for each device. Exchanges
        include the waiting."""
        grid = make_grid(self.manifest, len(arguments), num_replicas, num_partitions)
        return self._on_all(grid, arguments, self._transfers.begin_all(grid.count, **feeds), timeout, self._profile)

    def set(self, name: str | os.PathLike[str], array: Any = FILE, device: int | None = None) -> None:
        """Sets a weight, for all runs that begin from now on, or the state that the next run begins with: on all
        devices, or on one.

        Files give arrays, too: .npz and safetensors files all that they have by name, `set("model.safetensors")`, or
        with the name that theirs lack in front, `set("params", "params.npz")`; and .npy files one, `set("table",
        "table.npy")`. Floats in other widths than the program's are converted, numbers in 8 bits are multiplied by
        their scales. ArgumentError or ParseError, and nothing is set, if a file is damaged, has an array too many,
        lacks one below the name, or has one of another shape or type.

        A name that others begin with stands for all of them: `set("params", {"w": w, "b": b})` sets "params.w" and
        "params.b", or neither if one is missing or does not fit. Where devices have different shards of an array, all
        of them together get the whole array, and one its shard.
        """
        if (leaves := self._parts(name, array, device)) is not None:
            for key, each in leaves.items():
                own = self._slot(key)
                (GlobalSlot(own.leaf, own.what).split if device is None and is_sharded(own.leaf) else own.accept)(each)
            for key, each in leaves.items():
                self.set(key, each, device)
            return
        name = os.fspath(name)
        slot = self._slot(name)
        if device is None and is_sharded(slot.leaf):
            for d, part in enumerate(GlobalSlot(slot.leaf, slot.what).split(array)):
                self.set(name, part, d)
            return
        checked = slot.accept(array)
        state = name in self._states
        value = np.array(checked) if state else physical_bytes(slot.leaf, checked)
        budget = self._budget()

        def put() -> None:
            for each in self._keep(name, value, device):
                self._put(each, name, value, budget)

        if state and device is None:
            self._with_all_devices(budget, put)  # not before a run on one device, and after it on another
        else:
            put()

    def get(self, name: str, device: int | None = None) -> Any:
        """A copy of a weight as it was set, or of a state as the last run left it; of a name that others begin with, a
        dict of all of them by what follows in their names, which `set` takes.

        Of a device, or as all devices have it: the whole of what they have shards of, and otherwise that of the first
        one.
        """
        self._check_open()
        if below := self._below(name):
            return {key.removeprefix(f"{name}."): self.get(key, device) for key in below}
        slot = self._slot(name)
        if device is None and is_sharded(slot.leaf):
            return GlobalSlot(slot.leaf, slot.what).join([self.get(name, d) for d in range(self.manifest.sharded or 1)])
        device = device or 0
        owner = self._device(device)
        if name in self._states:
            return owner.use(lambda instance: slot.give(instance.states[name]), frozenset({name}), self._budget())
        major_to_minor = slot.leaf.minor_to_major[::-1]
        stored = np.frombuffer(owner.weight(name), slot.dtype).reshape([slot.shape[d] for d in major_to_minor])
        return slot.give(stored.transpose(np.argsort(major_to_minor)))

    def _run(self, instance: Instance, job: Job, endpoint: Transport) -> list[Array]:
        """One run on one device."""
        instance.begin(job.ids, job.arrays)
        instance.run(self._server(job, endpoint))
        if job.out is None:
            return [slot.give(place) for slot, place in zip(self._outputs, instance.outputs)]
        instance.put_outputs(job.out)
        return [*job.out]

    def _targets(self, out: Sequence[Array]) -> Sequence[Array]:
        """The arrays that the outputs are to be written to, checked."""
        slots = self._outputs
        if not isinstance(out, (list, tuple)) or len(out) != len(slots):
            given = f"{len(out)}" if isinstance(out, (list, tuple)) else f"one {type(out).__name__}"
            raise ArgumentError(
                f"out is a list of {counted(len(slots), 'array')}, one for each result "
                f"({', '.join(map(str, slots))}), not {given}"
            )
        for i, (slot, target) in enumerate(zip(slots, out)):
            if not self._first.is_output(i, target):
                slot.check_target(target)
        return out

    def _profile(self, instance: Instance, job: Job, endpoint: Transport) -> list[tuple[str, float]]:
        instance.begin(job.ids, job.arrays)
        return instance.profile(self._server(job, endpoint))

    def _server(self, job: Job, endpoint: Transport) -> Serve:
        """Returns the function that serves the requests of one run, by their number."""
        calls, feeds = self._calls, job.feeds

        def serve(instance: Instance, number: int) -> None:
            port = instance.ports[number]
            if port is not None:
                endpoint.exchange(port)
                return
            call, operands = calls[number], instance.operands[number]
            for place, result in zip(
                instance.results[number], call(operands) if call else feeds.serve(number, operands)
            ):
                place[...] = result

        return serve

    def prepare(self, grid: Grid, d: int, arguments: Any, **feeds: Any) -> Callable[[Transport], list[Array]]:
        """A run as device `d` of a grid whose others are elsewhere, checked and ready: for transports, such as
        `xla_wasm.mpi`."""
        job = Job(grid.ids(d), self._accept(positional(arguments)), self._transfers.begin(**feeds))
        device = self._device(d)
        device.check(self._held.keys())
        budget = self._budget()
        return lambda transport: device.use(
            lambda instance: self._run(instance, job, transport), self._held.keys(), budget
        )

    def _on_all(
        self,
        grid: Grid,
        arguments: Sequence[Any],
        feeds: Sequence[Feeds],
        timeout: float,
        work: Callable[[Instance, Job, Endpoint], T],
    ) -> list[T]:
        """Runs the work on all devices at once, and returns its results. Raises ArgumentError, which names the device,
        for arguments."""
        if not timeout > 0:
            raise ArgumentError(f"timeout must be above zero, got {timeout}")
        budgets = [self._budget() for _ in arguments]
        jobs = []
        for d, arrays in enumerate(arguments):
            try:
                jobs.append(Job(grid.ids(d), self._accept(positional(arrays)), feeds[d]))
            except ArgumentError as error:
                raise_named(d, error)

        def run() -> list[T]:
            devices = self._make_room(grid.count)
            return run_together(
                devices,
                self._held.keys(),
                grid,
                timeout,
                lambda d, instance, end: work(instance, jobs[d], end),
                budgets,
            )

        return self._with_all_devices(budgets[0], run)

    def _with_all_devices(self, budget: Budget, work: Callable[[], T]) -> T:
        """Does the work, one thing at a time."""
        above = _on_all_devices.get()
        if id(self) in above:
            raise RunError(
                f"'{self.manifest.name}' runs on all its devices already, and this call comes from there: "
                "let functions of the host use an executable of their own, exe.clone()"
            )
        while budget.deadline is not None and self._together.locked():
            time.sleep(min(0.005, budget.seconds(lambda: f"'{self.manifest.name}' waited for its devices") or 0))
        with self._together:
            try:
                _on_all_devices.set(above | {id(self)})
                return work()
            finally:
                _on_all_devices.set(above)

    def _budget(self) -> Budget:
        """Returns the budget of a call that begins now. Raises RunError if the executable is closed."""
        self._check_open()
        limits = self._limits
        return UNLIMITED if limits.fuel is None and limits.timeout is None else Budget(limits)

    def _make_room(self, count: int) -> list[Device]:
        """The first `count` devices."""
        if self._limits.memory is not None:
            most = self._limits.memory // self._program.memory_bytes
            if count > most:
                need = f"{counted(count, 'device')} need {count * self._program.memory_bytes} bytes of memory"
                raise LimitError(
                    f"'{self.manifest.name}': {need}, the limit is {self._limits.memory}: load it with a higher "
                    f"memory_limit"
                )
            check_handed(self.manifest, self._limits, self._origin[1], count)
            self._first.pool.limit(most - (max(count, len(self._devices)) - 1))
        return [self._device(d) for d in range(count)]

    def _device(self, d: int) -> Device:
        if d == 0:
            return self._first
        check_device(self.manifest, d)
        with self._lock:
            device = self._devices.get(d)
            if device is None:
                self._check_open()  # nobody would close it
                device = Device(self._program, self._held, 1, self._budget())
                for name, value in {**self._later[None], **self._later.pop(d, {})}.items():
                    self._put(device, name, value, self._budget())
                self._devices[d] = device
            return device

    def _keep(self, name: str, value: Any, d: int | None) -> list[Device]:
        """Notes a value for a device, or for all, if they are made later; those that exist."""
        with self._lock:
            if d is None:
                for values in self._later.values():
                    values.pop(name, None)
                self._later[None][name] = value
                return list(self._devices.values())
            if d in self._devices:
                return [self._devices[d]]
            check_device(self.manifest, d)
            self._later.setdefault(d, {})[name] = value
            return []

    def _put(self, device: Device, name: str, value: Any, budget: Budget) -> None:
        if name in self._states:
            device.use(lambda instance: instance.states[name].__setitem__(..., value), frozenset(), budget)
            device.found(name)
        else:
            device.set_weight(name, value)
