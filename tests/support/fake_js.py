"""The parts of JavaScript and of `pyodide.ffi` that `xla_wasm.host.pyodide` uses, with wasmtime behind them: so it runs
under CPython, with numpy."""

from __future__ import annotations

import ctypes
import types
from typing import Any

import wasmtime


class JsException(Exception):
    """An error that JavaScript threw."""

    def __init__(self, name: str, message: str):
        super().__init__(f"{name}: {message}")
        self.name, self.message = name, message


class Uint8Array:
    """Bytes, or a part of them."""

    def __init__(self, data: memoryview):
        self.data = data
        self.length = len(data)

    @staticmethod
    def new(what: int | memoryview) -> Uint8Array:
        return Uint8Array(memoryview(bytearray(what)) if isinstance(what, int) else what)

    def subarray(self, begin: int, end: int) -> Uint8Array:
        return Uint8Array(self.data[begin:end])

    def assign(self, source: Any) -> None:
        view = memoryview(source)
        if view.nbytes != self.length:
            raise ValueError(f"{view.nbytes} bytes into {self.length}")
        self.data[:] = view.cast("B")

    def assign_to(self, target: Any) -> None:
        memoryview(target).cast("B")[:] = self.data

    def to_bytes(self) -> bytes:
        return bytes(self.data)

    def fill(self, value: int) -> None:
        self.data[:] = bytes([value]) * self.length


_engine = wasmtime.Engine()


def _module(source: Uint8Array) -> wasmtime.Module:
    try:
        return wasmtime.Module(_engine, source.to_bytes())
    except wasmtime.WasmtimeError as error:
        raise JsException("CompileError", str(error)) from None


def _kind(type_: Any) -> str:
    return (
        "function"
        if isinstance(type_, wasmtime.FuncType)
        else "memory"
        if isinstance(type_, wasmtime.MemoryType)
        else "global"
    )


def _instance(module: wasmtime.Module) -> Any:
    store = wasmtime.Store(_engine)
    try:
        exports = wasmtime.Instance(store, module, []).exports(store)
    except wasmtime.Trap as trap:
        raise JsException("RuntimeError", str(trap)) from None
    memory: Any = exports["memory"]
    base = ctypes.addressof(memory.data_ptr(store).contents)
    view = memoryview((ctypes.c_ubyte * memory.data_len(store)).from_address(base)).cast("B")

    def bound(name: str) -> Any:
        def call(*arguments: int) -> Any:
            try:
                return exports[name](store, *arguments)  # type: ignore[operator]
            except wasmtime.Trap as trap:
                raise JsException("RuntimeError", str(trap)) from None

        return call

    functions = {name: bound(name) for name in ("run", "init", "step")}
    return types.SimpleNamespace(exports=types.SimpleNamespace(memory=types.SimpleNamespace(buffer=view), **functions))


def modules() -> dict[str, types.ModuleType]:
    """Returns the modules to put into `sys.modules`, by name."""
    js, pyodide, ffi = (types.ModuleType(name) for name in ("js", "pyodide", "pyodide.ffi"))
    module = types.SimpleNamespace(
        new=_module,
        imports=lambda m: [types.SimpleNamespace(module=i.module, name=i.name) for i in m.imports],
        exports=lambda m: [types.SimpleNamespace(name=e.name, kind=_kind(e.type)) for e in m.exports],
    )
    web_assembly = types.SimpleNamespace(
        Module=module, Instance=types.SimpleNamespace(new=_instance), compile=None, instantiate=None
    )
    vars(js).update(Uint8Array=Uint8Array, WebAssembly=web_assembly)
    vars(ffi).update(JsException=JsException, can_run_sync=lambda: False, run_sync=None)
    return {"js": js, "pyodide": pyodide, "pyodide.ffi": ffi}
