"""One instance of a module under wasmtime.

An instance runs one thing at a time; `pool` hands it to one caller.
"""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import compress
from math import inf
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
import wasmtime

from ..errors import COMPILE_ANEW, ArtifactError, LimitError, RunError
from ..target import CONTROL_BYTES, EXPORTS, MEMORY, MOST_PAGES, PAGE, SHARED_MEMORY, STOPPED_RUN, THREAD_EXPORTS
from . import stop
from .arrays import Array, place
from .base import CHECK_IT, BaseInstance
from .binding import calls
from .budget import UNLIMITED, Budget, Limits
from .dynamic import Place
from .engine import engine_for, first_lines, modules
from .exchange import Port
from .manifest import Exchange, Manifest, Parameter
from .sidecar import sidecar_parts
from .thread_pool import SharedMemory, ThreadPool, pages_for
from .unpacking import unpack
from .views import is_same, lies_in
from .weights import Weight, kept, moved

T = TypeVar("T")
U = TypeVar("U")
Serve = Callable[["Instance", int], None]
"""Serves the request of that number: reads its operands and writes its results."""
_MAX_TABLE = 1 << 20


class Program:
    """A compiled module that is what its manifest says: no imports, the exports of the contract, the stated memory."""

    def __init__(self, wasm: bytes, manifest: Manifest, weights: bytes, limits: Limits) -> None:
        manifest.check_for_host()
        self.manifest = manifest
        self.limits = limits
        threads = manifest.threads
        if threads is not None and limits.threads > 1:
            self.pages = pages_for(manifest.memory_bytes, threads.bytes, limits.threads)
        else:
            self.pages = manifest.pages
        if limits.memory is not None and self.memory_bytes > limits.memory:
            raise LimitError(
                f"the module needs {self.memory_bytes} bytes of memory, the limit is {limits.memory}: load it with a "
                f"higher memory_limit"
            )
        self.engine, self.clock = engine_for(
            limits, manifest.stop is not None or manifest.is_short, threads is not None, len(wasm)
        )
        self.digest = sha256(wasm).hexdigest()
        self.module = modules.get(self.engine, wasm, self.digest)
        self._check_module()
        self.sidecar = sidecar_parts(manifest, weights)

    @property
    def memory_bytes(self) -> int:
        """Bytes of linear memory of one instance with its threads."""
        return self.pages * PAGE

    def _check_module(self) -> None:
        threads = self.manifest.threads is not None
        imports = {(item.module, item.name or ""): item.type for item in self.module.imports}
        shared = imports.pop(SHARED_MEMORY, None) if threads else None
        if imports:
            allowed = "a shared memory only" if threads else "nothing"
            raise ArtifactError(
                f"the module must import {allowed}, but imports {', '.join(map('.'.join, list(imports)[:5]))}"
                f"{COMPILE_ANEW}"
            )
        exports = {item.name: item.type for item in self.module.exports}
        for name, (params, results) in {**EXPORTS, **(THREAD_EXPORTS if threads else {})}.items():
            kind = exports.get(name)
            if not isinstance(kind, wasmtime.FuncType):
                raise ArtifactError(f"the module exports no function '{name}'{COMPILE_ANEW}")
            if (tuple(map(str, kind.params)), tuple(map(str, kind.results))) != (params, results):
                raise ArtifactError(f"the exported function '{name}' has the wrong type{COMPILE_ANEW}")
        memory = shared if threads else exports.get(MEMORY)
        if (
            not isinstance(memory, wasmtime.MemoryType)
            or memory.is_64
            or memory.is_shared != threads
            or memory.page_size != PAGE
        ):
            wanted = "imports no shared" if threads else "exports no plain"
            raise ArtifactError(f"the module {wanted} 32-bit memory called '{MEMORY}'{COMPILE_ANEW}")
        pages = self.manifest.pages
        if (memory.limits.min, memory.limits.max) != (pages, MOST_PAGES if threads else pages):
            raise ArtifactError(
                f"the manifest states {pages} pages of memory, the module {memory.limits.min} to {memory.limits.max}"
                f"{COMPILE_ANEW}"
            )


class Room:
    """The memory of an instance. Who holds it, and not the instance, can read what lies there, and does not keep the
    instance's permit."""

    __slots__ = ("_manifest", "_owners", "instance", "memory")

    def __init__(self, instance: Instance, *owners: Any) -> None:
        """The memory is there as long as its `owners` are."""
        self.instance = weakref.ref(instance)
        self.memory = instance.memory
        self._manifest = instance._manifest
        self._owners = owners

    def forms(self, parameter: Parameter) -> tuple[memoryview, ...]:
        """The places of a weight: of all that the module has made of it, or of itself."""
        return tuple(self.memory[at : at + size] for at, size in kept(self._manifest, parameter))


class Instance(BaseInstance):
    """Linear memory with its views, and the module's exports as plain callables.

    It holds its Store: wasmtime aborts the process when a function outlives that.
    """

    def __init__(self, program: Program, budget: Budget = UNLIMITED) -> None:
        """`budget` is that of whoever makes it; each call that uses it later brings its own."""
        manifest = program.manifest
        super().__init__(manifest)
        self.budget = budget
        self.permit: Any = None
        """Its `Permit` in the pool."""
        self.pool: Any = None
        self.is_seen = False
        """True once callers have arrays that are its memory."""
        self._limits = program.limits
        self._clock = program.clock
        self._stopped_by: stop.Reason | None = None
        self._store = wasmtime.Store(program.engine)
        self._store.set_limits(manifest.memory_bytes, _MAX_TABLE, 1, 1, 1)
        self._shared = self._share(program) if manifest.threads else None
        self._instance = self._instantiate(program)
        base = self._shared.address if self._shared else calls().address(self._store, self._instance)
        self.memory = memoryview((ctypes.c_ubyte * manifest.memory_bytes).from_address(base)).cast("B")
        self.room = Room(self, self._store, self._instance, self._shared)
        self.inputs = tuple(place(p, self.memory) for p in manifest.parameters if p.kind == "input")
        self.outputs = tuple(place(r, self.memory) for r in manifest.results if r.kind == "output")
        self.states = {p.name: place(p, self.memory) for p in manifest.parameters if p.kind == "state"}
        self.operands, self.results, self.ports = self._requests(base)
        at = manifest.devices.offset if manifest.devices else 0
        self._ids = self.memory[at : at + 16].cast("I") if manifest.devices else None
        self._placed: tuple[int, ...] = (0, 0, 1, 1)  # as the module starts
        self.weights: Mapping[str, Weight] = {}
        """The weights that its memory has."""
        self._run = self._bind("run")
        self._init: Callable[[int], int] | None = None
        self._step: Callable[[int], int] | None = None
        self.thread_pool = self._make_thread_pool(program)
        self._fill_sidecar(program.sidecar)

    def _share(self, program: Program) -> SharedMemory:
        try:
            return SharedMemory(program.engine, program.pages)
        except wasmtime.WasmtimeError as error:
            raise LimitError(
                f"no room for {program.memory_bytes} bytes of shared memory: {first_lines(error)}; load it with "
                f"fewer threads"
            ) from error

    def _make_thread_pool(self, program: Program) -> ThreadPool | None:
        """The other threads, which start with the first run."""
        threads = self._manifest.threads
        if threads is None or self._shared is None or program.limits.threads < 2:
            return None
        store, stop = self._store, self._instance.exports(self._store)["stop"]
        assert isinstance(stop, wasmtime.Func)

        def end() -> None:
            store.set_epoch_deadline(1 << 62)
            stop(store)

        words = self.memory[threads.control : threads.control + CONTROL_BYTES].cast("I")
        pool = ThreadPool(program.module, self._shared, words, end)
        weakref.finalize(self, pool.end)
        return pool

    def _requests(self, base: int) -> tuple[Any, ...]:
        """Of each request the arrays of its operands and of its results, and its port if it is an exchange."""
        requests = self._manifest.requests
        leaves = [((), ()) if isinstance(r, Exchange) else (r.operands, r.results) for r in requests]
        operands, results = (
            tuple(tuple(place(leaf, self.memory) for leaf in pair[i]) for pair in leaves) for i in (0, 1)
        )
        return (
            operands,
            results,
            tuple(
                Port(r, self.memory, base, (self._store, self._shared)) if isinstance(r, Exchange) else None
                for r in requests
            ),
        )

    def begin(self, ids: tuple[int, int, int, int], arrays: Sequence[Array]) -> None:
        """Tells the module its device (replica, partition, and the numbers of both), has its threads ready, and writes
        the inputs."""
        if self.thread_pool is not None:
            self.thread_pool.start(self._limits.threads_for(ids[2] * ids[3]))
        if ids != self._placed and self._ids is not None:
            self._ids[:] = array("I", ids)
            self._placed = ids
        pairs: Iterable[tuple[Place, Array]] = zip(self.inputs, arrays)
        if self.is_seen:
            # What lies in this memory goes aside first, since another argument may come to lie there.
            pairs = [(w, a.copy() if lies_in(a, self.memory) else a) for w, a in pairs if not is_same(w, a)]
        for where, value in pairs:
            where[...] = value

    def put_outputs(self, targets: Sequence[Array]) -> None:
        """Writes the outputs into arrays of their shapes, those of their own memory apart, which have them."""
        pairs = list(zip(targets, cast("tuple[Array, ...]", self.outputs)))
        if self.is_seen:
            pairs = [(target, output) for target, output in pairs if not is_same(target, output)]
            if any(lies_in(target, self.memory) for target, _ in pairs):
                pairs = [(target, output.copy()) for target, output in pairs]
        for target, output in pairs:
            np.copyto(target, output)

    def apply(self, weights: Mapping[str, Weight], home: Room | None = None) -> None:
        """Brings the weights up to date: writes those that are others than last time, or copies from the memory of
        `home` what the module there has made of them."""
        for parameter in self._manifest.parameters:
            weight = weights.get(parameter.name)
            if parameter.kind != "weight" or weight is None or weight is self.weights.get(parameter.name):
                continue
            if weight.data is not None:
                self._set_weight(parameter, weight.data)
            else:
                assert weight.forms is not None or home is not None, "what nobody has"
                self.put_forms(parameter, weight.forms or cast("Room", home).forms(parameter))
        self.weights = weights

    def put_forms(self, parameter: Parameter, forms: Sequence[bytes | memoryview]) -> None:
        """Puts into memory what another instance of the module has made of a weight."""
        for (at, size), form in zip(kept(self._manifest, parameter), forms):
            self.memory[at : at + size] = form

    def unpacked(self, parameter: Parameter) -> bytes | None:
        """The bytes of a weight as it was set, in the order of its layout; None if what the module has made of it does
        not tell them."""
        if not parameter.bytes:
            return b""
        of_numbers = moved(self._manifest, parameter)
        if not any(of_numbers):
            return None
        made = tuple(map(bytes, self.room.forms(parameter)))

        def telling(forms: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
            return list(compress(forms, of_numbers))

        def make(data: bytes) -> list[bytes | memoryview]:
            self._set_weight(parameter, data)
            return telling(self.room.forms(parameter))

        try:
            return unpack(parameter.element_type, parameter.bytes, telling(made), make)
        finally:
            self.put_forms(parameter, made)

    def profile(self, serve: Serve | None = None) -> list[tuple[str, float]]:
        def in_time(instance: Instance, number: int) -> None:
            assert serve is not None
            serve(instance, number)
            if self._clock is None and self.budget.deadline is not None:
                self.budget.seconds(self._failed)

        return self._stoppable(super().profile, in_time if serve else None)

    def _call_run(self) -> int:
        return self._stoppable(self._run, 0)

    def stop(self, reason: stop.Reason) -> None:
        """Ends the run, from another thread: the program traps when it looks next."""
        assert self._manifest.stop is not None
        self._stopped_by = reason
        self._write(self._manifest.stop & -4, STOPPED_RUN.to_bytes(4, "little"))  # a file may lie: inside of the memory
        if self.thread_pool is not None:
            self.thread_pool.wake_first()

    def _stoppable(self, call: Callable[[U], T], argument: U) -> T:
        """The call, which `stop` may end."""
        deadline = self.budget.deadline if self._clock is None else None  # the clock counts by itself
        if deadline is not None:
            self.budget.seconds(self._failed)
        if self._manifest.stop is None:
            return call(argument)
        run = stop.Run(self, inf if deadline is None else deadline, self._late)
        try:
            try:
                stop.begin(run)
                result = call(argument)
            finally:
                if is_ended := not stop.end(run):
                    self.sound = False  # the word may be written after the program has looked for the last time
        except BaseException as error:  # of `begin` and `end` as well
            interrupted = isinstance(error, KeyboardInterrupt)
            if interrupted:
                self.sound = False
            stop.clean_up(run, interrupted)
            raise
        if is_ended:
            raise run.reason()
        return result

    def _late(self) -> LimitError:
        return self._limits.late(self._failed())

    def _call_step(self, pc: int) -> int:
        self._step = self._step or self._bind("step")
        return self._step(pc)

    def _call_init(self, index: int) -> None:
        self._init = self._init or self._bind("init")
        self._stoppable(self._init, index)

    def _word(self, at: int) -> int:
        return int.from_bytes(self.memory[at : at + 4], "little")

    def _write(self, at: int, data: bytes | memoryview) -> None:
        self.memory[at : at + len(data)] = data

    def _instantiate(self, program: Program) -> wasmtime.Instance:
        made: list[wasmtime.Instance] = []

        def instantiate(_: int) -> int:
            made.append(wasmtime.Instance(self._store, program.module, [self._shared] if self._shared else []))
            return 0

        try:
            self._counted(instantiate)(0)
        except wasmtime.Trap as trap:
            if trap.trap_code in (wasmtime.TrapCode.OUT_OF_FUEL, wasmtime.TrapCode.INTERRUPT):
                self._raise_trap(trap)
            raise ArtifactError(f"the module traps when it starts: {first_lines(trap)}{COMPILE_ANEW}") from trap
        except wasmtime.WasmtimeError as error:
            message = first_lines(error)
            if "limits" in message:
                raise ArtifactError(
                    f"the module asks for more than its manifest states: {message}{COMPILE_ANEW}"
                ) from error
            raise LimitError(
                f"no room for an instance with {program.manifest.memory_bytes} bytes of memory: {message}; close "
                f"executables that you no longer need"
            ) from error
        return made[0]

    def _counted(self, call: Callable[[int], int]) -> Callable[[int], int]:
        """The call, charged to the budget of the time. It does not hold the instance, as the call itself does not."""
        clock, counts_fuel, store = self._clock, self._limits.fuel is not None, self._store
        owner: Callable[[], Any] = weakref.ref(self)

        def with_time(argument: int) -> int:
            instance = owner()
            budget: Budget = instance.budget
            left = budget.seconds(instance._failed)
            del instance
            assert clock is not None and left is not None and budget.deadline is not None
            store.set_epoch_deadline(clock.periods(left))
            return clock.run(call, argument, budget.deadline)

        timed = call if clock is None else with_time
        if not counts_fuel:
            return timed

        def with_fuel(argument: int) -> int:
            budget: Budget = owner().budget
            assert budget.fuel is not None
            store.set_fuel(budget.fuel)
            try:
                return timed(argument)
            finally:
                budget.fuel = store.get_fuel()

        return with_fuel

    def _bind(self, name: str) -> Callable[[int], int]:
        """The export as `f(i32) -> i32`. It does not hold the instance, so that one that nobody uses any more goes at
        once, with its memory."""
        owner = weakref.ref(self)

        def fail(error: Exception) -> NoReturn:
            instance = owner()
            assert instance is not None  # it is being called
            instance._raise_failure(error)

        return self._counted(calls().bind(self._store, self._instance, name, fail))

    def _raise_failure(self, error: Exception) -> NoReturn:
        if isinstance(error, wasmtime.Trap):
            self._raise_trap(error)
        raise RunError(f"{self._failed()}: {first_lines(error)}{CHECK_IT}")

    def _raise_trap(self, trap: wasmtime.Trap) -> NoReturn:
        code = trap.trap_code
        if code == wasmtime.TrapCode.OUT_OF_FUEL:
            raise LimitError(
                f"{self._failed()}: it used up its fuel of {self._limits.fuel}: load it with more"
            ) from trap
        if code == wasmtime.TrapCode.INTERRUPT:
            raise self._late() from trap
        if self._stopped_by:
            raise self._stopped_by() from None
        failure = self.thread_pool.failure if self.thread_pool else ""
        cause = failure or f"{_cause(trap)}{CHECK_IT}"
        raise RunError(f"{self._failed()}: {cause}") from trap


def _cause(trap: wasmtime.Trap) -> str:
    """The last line of a trap's message: what comes before it is a backtrace of function numbers."""
    lines = [line.strip() for line in str(trap).splitlines() if line.strip()]
    return lines[-1] if lines else "trap"
