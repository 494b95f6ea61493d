"""One instance of a module under wasmtime: engines, compiled modules, limits, and calls as cheap as ctypes allows.

An instance runs one thing at a time; `pool` hands it to one caller.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from math import ceil
from typing import Any, NoReturn

import wasmtime
from wasmtime import _ffi as ffi

from ..dataclass import dataclass
from ..errors import ArtifactError, LimitError, RunError
from ..target import EXPORTS, MEMORY, PAGE
from .arrays import Array, place
from .base import BaseInstance
from .exchange import Port
from .manifest import Exchange, Manifest
from .sidecar import sidecar_parts

Serve = Callable[["Instance", int], None]
"""Serves the request of that number: reads its operands and writes its results."""
_KEPT_MODULES = 16
_MAX_TABLE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What an executable may use; None means no limit. Fuel and time count for each call into the module by itself."""

    memory: int | None = None
    fuel: int | None = None
    timeout: float | None = None


class _Clock:
    """Advances the epoch of an engine while any call with a time limit is under way."""

    PERIOD = 0.004

    def __init__(self, engine: wasmtime.Engine) -> None:
        self._engine = engine
        self._busy = threading.Event()
        self._lock = threading.Lock()
        self._calls = 0
        threading.Thread(target=self._tick, name="xla_wasm epoch", daemon=True).start()

    def _tick(self) -> None:
        while True:
            self._busy.wait()
            time.sleep(self.PERIOD)
            self._engine.increment_epoch()

    def __enter__(self) -> None:
        with self._lock:
            self._calls += 1
            self._busy.set()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._calls -= 1
            if not self._calls:
                self._busy.clear()


_alive: weakref.WeakSet[Any] = weakref.WeakSet()
"""Engines and modules that still exist. What is left of them when the interpreter takes its own modules apart can no
longer be freed, and says so on standard error; stores keep their own hold on what they run."""


@atexit.register
def _close_all() -> None:
    for thing in list(_alive):
        thing.close()


@cache
def _engine(fuel: bool, epochs: bool) -> tuple[wasmtime.Engine, _Clock | None]:
    """An engine for each way to count, since counting costs 6 to 11 % and nobody should pay who did not ask."""
    config = wasmtime.Config()
    config.cranelift_opt_level = "speed"
    config.consume_fuel = fuel
    config.epoch_interruption = epochs
    engine = wasmtime.Engine(config)
    _alive.add(engine)
    return engine, _Clock(engine) if epochs else None


class _ModuleCache:
    """The compiled modules used last, by content and engine: loading an artifact again costs nothing."""

    def __init__(self) -> None:
        self._modules: OrderedDict[tuple[str, int], wasmtime.Module] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, engine: wasmtime.Engine, wasm: bytes, digest: str) -> wasmtime.Module:
        key = (digest, id(engine))
        with self._lock:
            if key in self._modules:
                self._modules.move_to_end(key)
                return self._modules[key]
        try:
            module = wasmtime.Module(engine, wasm)
        except wasmtime.WasmtimeError as error:
            raise ArtifactError(f"wasmtime refuses the module: {_first_lines(error)}") from error
        _alive.add(module)
        with self._lock:
            self._modules[key] = module
            if len(self._modules) > _KEPT_MODULES:
                self._modules.popitem(last=False)
        return module


_modules = _ModuleCache()


class Program:
    """A compiled module that is what its manifest says: no imports, the exports of the contract, the stated memory."""

    def __init__(self, wasm: bytes, manifest: Manifest, weights: bytes, limits: Limits) -> None:
        if limits.memory is not None and manifest.memory_bytes > limits.memory:
            raise LimitError(f"the module needs {manifest.memory_bytes} bytes of memory, the limit is {limits.memory}")
        self.manifest = manifest
        self.limits = limits
        self.engine, self.clock = _engine(limits.fuel is not None, limits.timeout is not None)
        self.digest = sha256(wasm).hexdigest()
        self.module = _modules.get(self.engine, wasm, self.digest)
        self._check_module()
        self.sidecar = sidecar_parts(manifest, weights)

    def _check_module(self) -> None:
        imports = [f"{item.module}.{item.name}" for item in self.module.imports]
        if imports:
            raise ArtifactError(f"the module must import nothing, but imports {', '.join(imports[:5])}")
        exports = {item.name: item.type for item in self.module.exports}
        for name, (params, results) in EXPORTS.items():
            kind = exports.get(name)
            if not isinstance(kind, wasmtime.FuncType):
                raise ArtifactError(f"the module exports no function '{name}'")
            if (tuple(map(str, kind.params)), tuple(map(str, kind.results))) != (params, results):
                raise ArtifactError(f"the exported function '{name}' has the wrong type")
        memory = exports.get(MEMORY)
        if not isinstance(memory, wasmtime.MemoryType) or memory.is_64 or memory.is_shared or memory.page_size != PAGE:
            raise ArtifactError(f"the module exports no plain 32-bit memory called '{MEMORY}'")
        pages = self.manifest.pages
        if (memory.limits.min, memory.limits.max) != (pages, pages):
            raise ArtifactError(f"the manifest states {pages} pages of memory, the module {memory.limits.min} to {memory.limits.max}")


class Instance(BaseInstance):
    """Linear memory with its views, and the module's exports as plain callables.

    It holds its Store: wasmtime aborts the process when a function outlives that.
    """

    def __init__(self, program: Program) -> None:
        manifest = program.manifest
        super().__init__(manifest)
        self._limits = program.limits
        self._clock = program.clock
        self._counted = program.limits.fuel is not None or program.limits.timeout is not None
        self._store = wasmtime.Store(program.engine)
        self._store.set_limits(manifest.memory_bytes, _MAX_TABLE, 1, 1, 1)
        instance = self._instantiate(program)
        exports = instance.exports(self._store)
        memory: Any = exports[MEMORY]
        base = ctypes.addressof(memory.data_ptr(self._store).contents)
        self.memory = memoryview((ctypes.c_ubyte * manifest.memory_bytes).from_address(base)).cast("B")
        self.inputs = tuple(place(p, self.memory) for p in manifest.parameters if p.kind == "input")
        self.outputs = tuple(place(r, self.memory) for r in manifest.results if r.kind == "output")
        self.states = {p.name: place(p, self.memory) for p in manifest.parameters if p.kind == "state"}
        self.operands, self.results, self.ports = self._requests(base)
        at = manifest.devices.offset if manifest.devices else 0
        self._ids = self.memory[at : at + 16].cast("I") if manifest.devices else None
        self._placed: tuple[int, ...] = (0, 0, 1, 1)  # as the module starts
        self.weights: Mapping[str, bytes] = {}
        self._run = self._bind(exports["run"])
        self._init = self._bind(exports["init"])
        self._step = self._bind(exports["step"])
        self._fill_sidecar(program.sidecar)

    def _requests(self, base: int) -> tuple[Any, ...]:
        """Of each request the arrays of its operands and of its results, and its port if it is an exchange."""
        requests = self._manifest.requests
        leaves = [((), ()) if isinstance(r, Exchange) else (r.operands, r.results) for r in requests]
        operands, results = (tuple(tuple(place(leaf, self.memory) for leaf in pair[i]) for pair in leaves) for i in (0, 1))
        return operands, results, tuple(Port(r, self.memory, base, self._store) if isinstance(r, Exchange) else None for r in requests)

    def begin(self, ids: tuple[int, int, int, int], arrays: Sequence[Array]) -> None:
        """Tells the module its device (replica, partition, and the numbers of both), and writes the inputs."""
        if ids != self._placed and self._ids is not None:
            self._ids[:] = array("I", ids)
            self._placed = ids
        for where, value in zip(self.inputs, arrays):
            where[...] = value

    def apply(self, weights: Mapping[str, bytes]) -> None:
        """Brings the weights up to date: those whose bytes are other objects than last time are written."""
        for parameter in self._manifest.parameters:
            data = weights.get(parameter.name)
            if parameter.kind != "weight" or data is None or data is self.weights.get(parameter.name):
                continue
            self._set_weight(parameter, data)
        self.weights = weights

    def _call_run(self) -> int:
        return self._run(0)

    def _call_step(self, pc: int) -> int:
        return self._step(pc)

    def _call_init(self, index: int) -> None:
        self._init(index)

    def _word(self, at: int) -> int:
        return int.from_bytes(self.memory[at : at + 4], "little")

    def _write(self, at: int, data: bytes | memoryview) -> None:
        self.memory[at : at + len(data)] = data

    def _instantiate(self, program: Program) -> wasmtime.Instance:
        try:
            if program.clock is None:
                self._arm()
                return wasmtime.Instance(self._store, program.module, [])
            with program.clock:
                self._arm()
                return wasmtime.Instance(self._store, program.module, [])
        except wasmtime.Trap as trap:
            if trap.trap_code in (wasmtime.TrapCode.OUT_OF_FUEL, wasmtime.TrapCode.INTERRUPT):
                self._raise_trap(trap)
            raise ArtifactError(f"the module traps when it starts: {_first_lines(trap)}") from trap
        except wasmtime.WasmtimeError as error:
            message = _first_lines(error)
            if "limits" in message:
                raise ArtifactError(f"the module asks for more than its manifest states: {message}") from error
            raise LimitError(f"no room for an instance with {program.manifest.memory_bytes} bytes of memory: {message}") from error

    def _arm(self) -> None:
        if self._limits.fuel is not None:
            self._store.set_fuel(self._limits.fuel)
        if self._limits.timeout is not None:
            self._store.set_epoch_deadline(ceil(self._limits.timeout / _Clock.PERIOD) + 1)

    def _bind(self, func: Any) -> Callable[[int], int]:
        """The export as `f(i32) -> i32` on prepared arguments: 0.4 us where a `wasmtime.Func` takes 8 (and more with arguments).

        The unchecked call reads its arguments from `cell` and leaves the result there. The callable does not hold the instance, so that
        one that nobody uses any more goes at once, with its memory.
        """
        owner: Callable[[], Any] = weakref.ref(self)
        call = ffi.dll["wasmtime_func_call_unchecked"]  # an own function object: its restype is changed here
        call.restype = ctypes.c_void_p
        cell = ffi.wasmtime_val_raw_t()
        trap = ctypes.POINTER(ffi.wasm_trap_t)()
        prepared = (self._store._context(), ctypes.byref(func._func), ctypes.byref(cell), ctypes.c_size_t(1), ctypes.byref(trap))

        def invoke(argument: int) -> int:
            cell.i32 = argument
            error = call(*prepared)
            if error or trap:
                owner()._raise_failure(error, trap)
            return cell.i32

        if not self._counted:
            return invoke
        clock = self._clock

        def invoke_counted(argument: int) -> int:
            owner()._arm()
            if clock is None:
                return invoke(argument)
            with clock:
                return invoke(argument)

        return invoke_counted

    def _raise_failure(self, error: int | None, trap: Any) -> NoReturn:
        if trap:
            # The pointer's cell lives as long as the binding: the Trap owns a copy of it, and the cell is emptied.
            owned = ctypes.cast(trap, ctypes.POINTER(ffi.wasm_trap_t))
            ctypes.memset(ctypes.byref(trap), 0, ctypes.sizeof(trap))
            self._raise_trap(wasmtime.Trap._from_ptr(owned))
        failure = wasmtime.WasmtimeError._from_ptr(ctypes.cast(error or 0, ctypes.POINTER(ffi.wasmtime_error_t)))
        raise RunError(f"{self._failed()}: {_first_lines(failure)}")

    def _raise_trap(self, trap: wasmtime.Trap) -> NoReturn:
        code = trap.trap_code
        if code == wasmtime.TrapCode.OUT_OF_FUEL:
            raise LimitError(f"{self._failed()}: it used up its fuel of {self._limits.fuel}") from trap
        if code == wasmtime.TrapCode.INTERRUPT:
            raise LimitError(f"{self._failed()}: it took longer than its {self._limits.timeout} s") from trap
        raise RunError(f"{self._failed()}: {_cause(trap)}") from trap


def _first_lines(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _cause(trap: wasmtime.Trap) -> str:
    """The last line of a trap's message: what comes before it is a backtrace of function numbers."""
    lines = [line.strip() for line in str(trap).splitlines() if line.strip()]
    return lines[-1] if lines else "trap"
