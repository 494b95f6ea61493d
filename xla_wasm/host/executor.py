"""Loads artifacts and runs them under wasmtime: `load` and `Executable`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from ..artifact import Artifact
from ..dataclass import dataclass
from ..errors import ArgumentError, RunError, counted
from ..hostio import DeviceKeywords, HostIO, HostKeywords, Sink, Source, of_devices
from . import workers
from .arrays import Array, Slot, dtype_of
from .base import positional
from .budget import Limits, seconds
from .calls import HostFunction
from .devices import OnDevices
from .exchange import Endpoint, Transport
from .feeds import Feeds
from .grid import ONE_DEVICE, Grid, check_alone, fits, make_grid
from .instance import Instance, Program, Serve
from .loopback import Loopback
from .manifest import Manifest
from .replicas import raise_named, run_together
from .shards import GlobalSlot, global_slots
from .stop import Caller
from .thread_pool import threads_of_run
from .untrusted import UNTRUSTED, check_handed

if TYPE_CHECKING:
    from ..hlo.ir import Module
    from .nonfinite import Watch

T = TypeVar("T")
_WAKES = 0.1
"""Seconds after which somebody who waits for a run looks whether it was cancelled."""
_ENDS = 1.0
"""Seconds in which a cancelled run has time to end."""


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
    waits for, setting a weight. A function of the host that computes is not ended, but nothing goes on after it. Fuel
    costs some speed, and so does `timeout` for modules of strangers.

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
    for name, value in (("memory_limit", memory_limit), ("fuel", fuel)):
        if value is not None and not value > 0:
            raise ArgumentError(f"{name} must be above zero, got {value}")
    timeout = None if timeout is None else seconds(timeout)
    if not isinstance(artifact, Artifact):
        artifact = Artifact.open(artifact)
    if untrusted:
        memory_limit, fuel, timeout = (
            memory_limit or UNTRUSTED.memory,
            fuel or UNTRUSTED.fuel,
            timeout or UNTRUSTED.timeout,
        )
    functions = {**artifact.callbacks, **(custom_calls or {})}
    count = threads_of_run(Manifest.parse(artifact.manifest), threads, fuel is not None, untrusted)
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


@dataclass(frozen=True, slots=True)
class Job:
    """One run on one device: its arguments, feeds and targets."""

    ids: tuple[int, int, int, int]
    """Its replica and partition, and the numbers of both."""
    arrays: list[Array]
    feeds: Feeds
    out: Sequence[Array] | None = None
    """The arrays into which the outputs are written; None: new ones."""


class Executable(OnDevices):
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
        if program is None:
            manifest = Manifest.parse(artifact.manifest)
            for leaf in (*manifest.parameters, *manifest.results):
                dtype_of(leaf.element_type)
            check_handed(manifest, limits, physical)
            program = Program(artifact.wasm, manifest, artifact.weights, limits)
        super().__init__(program, limits, custom_calls, physical)
        self._origin = artifact, physical, custom_calls
        self._trees = artifact.trees
        self._threads: int | None = None
        """The number that was asked for; None: as many as there are processors, also where it is unpickled."""

    def clone(self) -> Executable:
        """Another executable of the same compiled module, with the same limits and the weights as they are now. Its
        states and its runs are its own: for many users of one model, and for functions of the host that run it while it
        runs. It has a memory of its own, with a copy of the packed weights.
        """
        self._check_open()
        artifact, physical, custom_calls = self._origin
        made = Executable(artifact, self._limits, physical, custom_calls, self._program)
        made._threads = self._threads
        made._first.copy(self._first, self._budget())
        made._take_held(self._weights(first=False))
        return made

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
        held = self._weights(first=True)

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
        check_nan: bool | Module = False,
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
        check_nan: bool | Module = False,
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

        Arrays must have the shape and the dtype of the input. float64, int64, uint64 and complex128 are converted where
        that has half the bits, as `jax.jit` does it, but for integers that do not fit; any order of bytes and
        dimensions will do. Python numbers and lists are converted when nothing is lost. With `out`, an array for each
        output, of its dtype and shape, they are written there and no array is made; a run that fails leaves them as
        they were. What `input` and `output` give is neither copied in nor out.

        While it runs, the module takes items from `infeed` and, by name, from those in `recv`: iterables, or queues
        with a method `get`. It hands arrays to `outfeed` and those in `send`: functions, or objects with a method
        method `append` or `put`.

        With `check_nan`, a NaN or an infinity in a result or a state is an error, NonFiniteError, which names the
        instruction and the source line in which it begins; True where the module was compiled in this process, else the
        module. It costs a copy of arguments and states and a look at the results, and for the error a run of each
        instruction by itself.
        """
        budget = self._budget()
        check_alone(self.manifest)
        out = None if out is None else self._targets(out)
        job = Job(
            ONE_DEVICE.ids(0),
            self._accept(arrays, named),
            self._transfers.begin(HostIO(infeed, outfeed, send, recv)),
            out,
        )
        watch = self._watch(check_nan, job.arrays) if check_nan is not False else None
        results = self._first.use(lambda instance: self._run(instance, job, Loopback()), self._held.keys(), budget)
        if watch is not None:
            watch.check(results)
        return self._named(results) if as_dict else results

    def _watch(self, check_nan: bool | Module, arrays: Sequence[Array]) -> Watch:
        from .nonfinite import Watch, source_of

        artifact, physical, _ = self._origin
        return Watch(source_of(artifact, check_nan, self.manifest, physical), self.manifest, arrays, self.get)

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
        self._check_open()
        leaf = self._viewed(slots, name, kind)
        check_alone(self.manifest)
        if self._limits.untrusted:
            raise ArgumentError(f"'{self.manifest.name}' is untrusted: there are no views of its memory")
        if self._origin[1]:
            raise ArgumentError("there are views of logical arrays only: load without physical=True")
        return self._first.lease(self._budget()).array(leaf, writable)

    async def run_async(self, *arrays: Any, **options: Any) -> list[Array]:
        """As `run`, in a thread, while others of the event loop go on. A caller who no longer waits, as after
        `asyncio.timeout`, ends the run."""
        self._check_open()
        from asyncio import CancelledError, Future, get_running_loop, wait

        loop, caller = get_running_loop(), Caller()
        running: Future[list[Array]] = loop.create_future()
        running.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be nobody else's to hear

        def tell(result: list[Array] | BaseException) -> None:
            if running.done():
                return
            if isinstance(result, BaseException):
                running.set_exception(result)
            else:
                running.set_result(result)

        def run() -> None:
            result: list[Array] | BaseException
            try:
                result = caller.wait_for(lambda: self.run(*arrays, **options))
            except BaseException as error:
                result = error
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(tell, result)

        # Not a thread of the loop's: the interpreter would wait for it when it ends.
        workers.start(partial(copy_context().run, run))
        try:
            # Jupyter's handler of Ctrl-C does not wake the loop that it cancels a task of.
            while not running.done():
                await wait([running], timeout=_WAKES)
            return running.result()
        except (CancelledError, GeneratorExit) as error:
            caller.leave(lambda: RunError(f"the run of '{self.manifest.name}' was cancelled"))
            if isinstance(error, CancelledError):  # a function of the host is not ended, and nobody waits for it
                await wait([running], timeout=_ENDS)
            raise

    @overload
    def run_replicated(
        self,
        arguments: Sequence[Any],
        *,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: Literal[False] = False,
        **host: Unpack[DeviceKeywords],
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
        **host: Unpack[DeviceKeywords],
    ) -> list[dict[str, Array]]: ...
    def run_replicated(
        self,
        arguments: Sequence[Any],
        *,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: bool = False,
        **host: Unpack[DeviceKeywords],
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
        self._check_open()
        grid = make_grid(self.manifest, len(arguments), num_replicas, num_partitions)
        results = self._on_all(grid, arguments, of_devices(grid.count, **host), timeout, self._run)
        return [*map(self._named, results)] if as_dict else results

    @overload
    def run_global(
        self,
        arrays: Any,
        *,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: Literal[False] = False,
        **host: Unpack[DeviceKeywords],
    ) -> list[Array]: ...
    @overload
    def run_global(
        self,
        arrays: Any,
        *,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: Literal[True],
        **host: Unpack[DeviceKeywords],
    ) -> dict[str, Array]: ...
    def run_global(
        self,
        arrays: Any,
        *,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        as_dict: bool = False,
        **host: Unpack[DeviceKeywords],
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
            **host,
        )
        whole = [slot.join([result[i] for result in results]) for i, slot in enumerate(outputs)]
        return self._named(whole) if as_dict else whole

    def _run_whole(self, arrays: Sequence[Any]) -> list[Array]:
        return self.run(*arrays) if fits(self.manifest, ONE_DEVICE) else self.run_global(arrays)

    @cached_property
    def _global_inputs(self) -> list[GlobalSlot]:
        return global_slots(self.manifest, self._inputs)

    @cached_property
    def _global_outputs(self) -> list[GlobalSlot]:
        return global_slots(self.manifest, self._outputs)

    def profile(self, *arrays: Any, **host: Unpack[HostKeywords]) -> list[tuple[str, float]]:
        """Runs the module as `run` does, step by step: (instruction, seconds) of every step that ran, loops summed."""
        budget = self._budget()
        check_alone(self.manifest)
        job = Job(ONE_DEVICE.ids(0), self._accept(arrays), self._transfers.begin(HostIO(**host)))
        return self._first.use(lambda instance: self._profile(instance, job, Loopback()), self._held.keys(), budget)

    def profile_replicated(
        self,
        arguments: Sequence[Any],
        *,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
        timeout: float = 60.0,
        **host: Unpack[DeviceKeywords],
    ) -> list[list[tuple[str, float]]]:
        """Runs the module as `run_replicated` does, step by step: what `profile` says, for each device. Exchanges
        include the waiting."""
        self._check_open()
        grid = make_grid(self.manifest, len(arguments), num_replicas, num_partitions)
        return self._on_all(grid, arguments, of_devices(grid.count, **host), timeout, self._profile)

    def _run(self, instance: Instance, job: Job, endpoint: Transport) -> list[Array]:
        """One run on one device."""
        instance.begin(job.ids, job.arrays)
        instance.run(self._server(job, endpoint))
        try:
            if job.out is None:
                return [slot.give(place) for slot, place in zip(self._outputs, instance.outputs)]
            instance.put_outputs(job.out)
            return [*job.out]
        except BaseException:
            instance.sound = False  # states are one run further, of which nobody has the results
            raise

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

    def prepare(self, grid: Grid, d: int, arguments: Any, host: HostIO) -> Callable[[Transport], list[Array]]:
        """A run as device `d` of a grid whose others are elsewhere, checked and ready: for transports, such as
        `xla_wasm.mpi`."""
        job = Job(grid.ids(d), self._accept(positional(arguments)), self._transfers.begin(host))
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
        hosts: Sequence[HostIO],
        timeout: float,
        work: Callable[[Instance, Job, Endpoint], T],
    ) -> list[T]:
        """Runs the work on all devices at once, and returns its results. Raises ArgumentError, which names the device,
        for arguments."""
        timeout = seconds(timeout)
        budgets = [self._budget() for _ in arguments]
        feeds = [self._transfers.begin(host) for host in hosts]
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
