"""Calls of an instance's exports, and its memory: directly through wasmtime's C functions, or, if a wasmtime package
does not suit that, through its public API.

A call of a `wasmtime.Func` takes 8 us, and more with arguments. The C function that it ends in takes 0.4 us on prepared
arguments, but to prepare them needs what the package keeps for itself and may change: `_context` of stores, `_instance`
of instances, `_from_ptr` of errors, and the records in `wasmtime._ffi`. `calls` tries this on a tiny module first.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import wasmtime

from ..target import EXPORTS, MEMORY

ffi: Any
try:
    from wasmtime import _ffi as ffi
except ImportError:
    ffi = None

Fail = Callable[[Exception], NoReturn]
"""Raises the host's error for a `wasmtime.Trap` or `wasmtime.WasmtimeError`."""


class Calls(ABC):
    """A way to reach what an instance exports."""

    @abstractmethod
    def bind(self, store: wasmtime.Store, instance: wasmtime.Instance, name: str, fail: Fail) -> Callable[[int], int]:
        """The export as `f(i32) -> i32`. One of `EXPORTS` without a parameter is given none; without a result, what the
        callable returns means nothing. It holds no instance."""

    @abstractmethod
    def address(self, store: wasmtime.Store, instance: wasmtime.Instance) -> int:
        """The address of the exported memory in this process."""


class FastCalls(Calls):
    """Through wasmtime's C functions."""

    def bind(self, store: wasmtime.Store, instance: wasmtime.Instance, name: str, fail: Fail) -> Callable[[int], int]:
        """The unchecked call reads its arguments from `cell` and leaves the result there."""
        call = ffi.dll["wasmtime_func_call_unchecked"]  # an own function object: its restype is changed here
        call.restype = ctypes.c_void_p
        cell = ffi.wasmtime_val_raw_t()
        trap = ctypes.POINTER(ffi.wasm_trap_t)()
        item = _export(store, instance, name)  # which holds the function
        prepared = (
            store._context(),
            ctypes.byref(item.of.func),
            ctypes.byref(cell),
            ctypes.c_size_t(1),
            ctypes.byref(trap),
        )

        def invoke(argument: int) -> int:
            cell.i32 = argument
            error = call(*prepared)
            if error or trap:
                fail(_error(error, trap))
            result: int = cell.i32
            return result

        return invoke

    def address(self, store: wasmtime.Store, instance: wasmtime.Instance) -> int:
        item = _export(store, instance, MEMORY)
        start = ffi.wasmtime_memory_data(store._context(), ctypes.byref(item.of.memory))
        return ctypes.cast(start, ctypes.c_void_p).value or 0


def _export(store: wasmtime.Store, instance: wasmtime.Instance, name: str) -> Any:
    """The export of this name, which has to exist. `wasmtime.Instance.exports` would make objects of all exports."""
    item = ffi.wasmtime_extern_t()
    inside, encoded = instance._instance, name.encode()
    found = ffi.wasmtime_instance_export_get(
        store._context(), ctypes.byref(inside), encoded, len(encoded), ctypes.byref(item)
    )
    assert found, name
    return item


def _error(error: int | None, trap: Any) -> Exception:
    if trap:
        # The pointer's cell lives as long as the binding: the Trap owns a copy of it, and the cell is emptied.
        owned = ctypes.cast(trap, ctypes.POINTER(ffi.wasm_trap_t))
        ctypes.memset(ctypes.byref(trap), 0, ctypes.sizeof(trap))
        return wasmtime.Trap._from_ptr(owned)
    return wasmtime.WasmtimeError._from_ptr(ctypes.cast(error or 0, ctypes.POINTER(ffi.wasmtime_error_t)))


class PublicCalls(Calls):
    """Through `wasmtime.Func` and `wasmtime.Memory`."""

    def bind(self, store: wasmtime.Store, instance: wasmtime.Instance, name: str, fail: Fail) -> Callable[[int], int]:
        function = instance.exports(store)[name]
        assert isinstance(function, wasmtime.Func)
        takes = bool(EXPORTS[name][0])

        def invoke(argument: int) -> int:
            try:
                return (function(store, argument) if takes else function(store)) or 0
            except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
                fail(error)

        return invoke

    def address(self, store: wasmtime.Store, instance: wasmtime.Instance) -> int:
        memory = instance.exports(store)[MEMORY]
        assert isinstance(memory, wasmtime.Memory)
        return ctypes.addressof(memory.data_ptr(store).contents)


@cache
def calls() -> Calls:
    """The fast way if this wasmtime package has all that it needs and a tiny module called so gives what it should,
    otherwise the public one."""
    return FastCalls() if _is_right(FastCalls()) else PublicCalls()


_TRIAL = f"""(module
  (memory (export "{MEMORY}") 1) (data (i32.const 0) "trial")
  (func (export "run") (result i32) (i32.const -7))
  (func (export "step") (param i32) (result i32) (i32.add (local.get 0) (i32.const 2)))
  (func (export "init") (param i32) unreachable))"""


class _FailedError(Exception):
    """The error that the trial expects of a trap."""


def _is_right(way: Calls) -> bool:
    """Returns True if the trial module, called in this way, gives its numbers, its memory and its trap."""
    codes: list[Any] = []

    def fail(error: Exception) -> NoReturn:
        codes.append(error.trap_code if isinstance(error, wasmtime.Trap) else None)
        raise _FailedError

    try:
        engine = wasmtime.Engine()
        store = wasmtime.Store(engine)
        instance = wasmtime.Instance(store, wasmtime.Module(engine, _TRIAL), [])
        run, step, init = (way.bind(store, instance, name, fail) for name in ("run", "step", "init"))
        if (run(0), step(40), step(-3)) != (-7, 42, -1) or ctypes.string_at(
            way.address(store, instance), 5
        ) != b"trial":
            return False
        for _ in range(2):  # the second call must not see the trap of the first
            try:
                init(0)
            except _FailedError:
                pass
        return codes == [wasmtime.TrapCode.UNREACHABLE] * 2 and step(1) == 3
    except (AttributeError, TypeError, ValueError, AssertionError, ctypes.ArgumentError):
        return False  # something is not there, or is another thing
