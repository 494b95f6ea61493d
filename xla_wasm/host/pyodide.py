"""Loads artifacts and runs them in Pyodide, through the WebAssembly engine that Pyodide itself runs in: `load` and
`Executable`.

Arrays are numpy's where numpy is loaded, otherwise typed memoryviews (`buffers`). Python cannot look into the memory of
another module, so arrays are copied in and out, one `assign` each. A method of a JavaScript object costs some 60 us to
look up and less than one to call, so everything that a run needs is bound once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn, Unpack

import js
from pyodide.ffi import JsException, can_run_sync, run_sync

from ..artifact import Artifact
from ..errors import COMPILE_ANEW, ArgumentError, ArtifactError, LimitError, RunError, UnsupportedError
from ..hostio import HostIO, HostKeywords, Sink, Source
from ..target import EXPORTS, MEMORY, SIMD128
from .base import CHECK_IT, FILE, BaseExecutable, BaseInstance, WeightsAndStates
from .calls import HostFunction
from .feeds import Feeds
from .grid import check_alone
from .leaf import Leaf
from .loopback import BasePort, Loopback
from .manifest import Exchange, Manifest
from .sidecar import sidecar_parts
from .weights import Weight

_EXPORTS = {MEMORY: "memory"} | dict.fromkeys(EXPORTS, "function")


def load(
    artifact: Artifact | str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    memory_limit: int | None = None,
    fuel: int | None = None,
    timeout: float | None = None,
    physical: bool = False,
    custom_calls: Mapping[str, HostFunction] | None = None,
    untrusted: bool = False,
) -> Executable:
    """Makes an artifact, the path of one, or the bytes of a `.wasm` ready to run; see `xla_wasm.host.executor.load`.

    A browser's engine counts neither fuel nor time: what may never end belongs into a worker, which can be terminated.
    """
    for name, value in (("fuel", fuel), ("timeout", timeout)):
        if value is not None:
            raise ArgumentError(
                f"{name} cannot be limited in a browser's engine: run the module in a worker and terminate that"
            )
    if untrusted:
        raise ArgumentError(
            "untrusted=True cannot be kept in Pyodide, where nothing ends a module: load it in JavaScript, "
            "{untrusted: true}"
        )
    if memory_limit is not None and not memory_limit > 0:
        raise ArgumentError(f"memory_limit must be above zero, got {memory_limit}")
    if not isinstance(artifact, Artifact):
        artifact = Artifact.open(artifact)
    return Executable(artifact, memory_limit, physical, {**artifact.callbacks, **(custom_calls or {})})


def _arrays() -> ModuleType:
    """Returns the module that makes arrays of bytes: `ndarrays` where numpy can be imported, else `buffers`."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        from . import buffers

        return buffers
    from . import ndarrays

    return ndarrays


class Executable(BaseExecutable):
    """A module ready to run. It has one instance, so it runs one thing at a time, on one device."""

    def __init__(
        self,
        artifact: Artifact,
        memory_limit: int | None = None,
        physical: bool = False,
        custom_calls: Mapping[str, HostFunction] | None = None,
    ) -> None:
        manifest = Manifest.parse(artifact.manifest)
        manifest.check_for_host()
        self._arrays = arrays = _arrays()
        if memory_limit is not None and manifest.memory_bytes > memory_limit:
            raise LimitError(
                f"the module needs {manifest.memory_bytes} bytes of memory, the limit is {memory_limit}: load it with "
                f"a higher memory_limit"
            )
        super().__init__(manifest, custom_calls, arrays.Slot, arrays.PhysicalSlot if physical else None)
        self._values = WeightsAndStates(self._held)
        self._module = _compile(artifact.wasm, manifest)
        self._sidecar = sidecar_parts(manifest, artifact.weights)
        self._instance: _Instance | None = _Instance(self._module, manifest, self._sidecar)

    def run(
        self,
        *arrays: Any,
        infeed: Source | None = None,
        outfeed: Sink | None = None,
        send: Mapping[str, Sink] | None = None,
        recv: Mapping[str, Source] | None = None,
        as_dict: bool = False,
        **named: Any,
    ) -> Any:
        """Runs the module on one array for each input and returns copies of its outputs: a list, or with `as_dict` by
        their names.

        Inputs may also be given by name and in structures, as `xla_wasm.host.executor.Executable.run` says.

        Arrays must have the type and shape of the input (flat ones are taken as row-major where numpy is not); types of
        64 bits are converted where it has 32, Python numbers and lists when nothing is lost.
        """
        check_alone(self.manifest)
        serve = self._server(self._transfers.begin(HostIO(infeed, outfeed, send, recv)))
        instance = self._begin(arrays, named)
        with _Guard(self):
            instance.run(serve)
            results = [slot.give(self._read(instance.outputs[i])) for i, slot in enumerate(self._outputs)]
        return self._named(results) if as_dict else results

    async def run_async(self, *arrays: Any, **options: Any) -> list[Any]:
        """As `run`, which keeps the only thread that there is here until it is done."""
        return self.run(*arrays, **options)

    def close(self) -> None:
        """Lets go of the module and its memory; whatever is called later raises RunError."""
        super().close()
        self._instance = self._module = None

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(f"'{self.manifest.name}' cannot be pickled in Pyodide: keep its artifact, and load that")

    def run_replicated(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: Pyodide has one thread."""
        raise UnsupportedError(
            f"'{self.manifest.name}' cannot run on several devices in Pyodide, which has one thread: "
            "load it in JavaScript, load(source, {devices: N}), which gives each device a worker"
        )

    run_global = profile_replicated = run_replicated

    def profile(self, *arrays: Any, **host: Unpack[HostKeywords]) -> list[tuple[str, float]]:
        """Runs the module as `run` does, step by step: (instruction, seconds) of every step that ran, loops summed."""
        check_alone(self.manifest)
        serve = self._server(self._transfers.begin(HostIO(**host)))
        instance = self._begin(arrays)
        with _Guard(self):
            return instance.profile(serve)

    def set(self, name: str | os.PathLike[str], array: Any = FILE, device: int | None = None) -> None:
        """Sets a weight, or the state that the next run begins with, or all below a name. There is only device 0 here.

        Files are as in `xla_wasm.host.executor.Executable.set`; they need numpy.
        """
        self._check_device(device or 0)
        if (parts := self._parts(name, array)) is not None:
            for part, value in parts.items():
                self._slot(part).accept(value)
            for part, value in parts.items():
                self.set(part, value)
            return
        name = os.fspath(name)
        slot = self._slot(name)
        accepted = slot.accept(array)
        data = self._arrays.to_memory(slot.leaf, accepted)
        instance = self._ready()
        with _Guard(self):
            if name in self._states:
                instance.states[name].write(data, _dimensions(slot.leaf, accepted))
                self._values.found(name)
            else:
                instance.set_weight(name, data)
                self._values.put_weight(name, Weight(data))

    def get(self, name: str, device: int | None = None) -> Any:
        """A copy of a weight as it was set, or of a state as the last run left it; of a name that others begin with, of
        all by name."""
        self._check_open()
        self._check_device(device or 0)
        if (below := self._below(name)) or self._is_empty(name):
            return self._in_structure(name, {part: self.get(part) for part in below})
        slot = self._slot(name)
        if name in self._states:
            self._values.check({name})
            return slot.give(self._read(self._ready().states[name]))
        return slot.give(
            self._arrays.from_memory(slot.leaf, bytearray(_given(self._values.weight(name))), slot.leaf.dimensions)
        )

    def _check_device(self, device: int) -> None:
        if device != 0:
            self.run_replicated()

    def _begin(self, arrays: tuple[Any, ...], named: Mapping[str, Any] | None = None) -> _Instance:
        """Checks the arguments and what has to be there, and writes the arguments."""
        accepted = self._accept(arrays, named)
        self._values.check(self._held.keys())
        instance = self._ready()
        for place, array in zip(instance.inputs, accepted):
            place.write(self._arrays.to_memory(place.leaf, array), _dimensions(place.leaf, array))
        return instance

    def _ready(self) -> _Instance:
        """The instance; after a failure a new one, since nothing in the old one's memory can be trusted."""
        self._check_open()
        if self._instance is None:
            made = _Instance(self._module, self.manifest, self._sidecar)
            for name, weight in self._values.weights.items():
                made.set_weight(name, _given(weight))
            self._instance = made
        return self._instance

    def _failed(self) -> None:
        if self._instance is not None and not self._instance.sound:
            self._values.lose()
            self._instance = None

    def _read(self, place: _Place) -> Any:
        return self._arrays.from_memory(place.leaf, place.read(), place.dimensions())

    def _server(self, feeds: Feeds) -> Callable[[_Instance, int], None]:
        """Returns the function that serves the requests of one run, by their number."""
        loopback = Loopback()

        def serve(instance: _Instance, number: int) -> None:
            port = instance.ports[number]
            if port is not None:
                loopback.exchange(port)
                return
            call, operands = self._calls[number], [self._read(place) for place in instance.operands[number]]
            for place, result in zip(
                instance.results[number], call(operands) if call else feeds.serve(number, operands)
            ):
                place.write(self._arrays.to_memory(place.leaf, result), _dimensions(place.leaf, result))

        return serve


def _given(weight: Weight) -> bytes | memoryview:
    """The bytes of a weight, which this host keeps."""
    assert weight.data is not None, "nothing takes them away"
    return weight.data


class _Guard:
    """Forgets the instance when something fails inside."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._executable._failed()


def _dimensions(leaf: Leaf, array: Any) -> tuple[int, ...]:
    """The dimensions of an accepted array; without numpy one that has no elements is flat, and says nothing about
    them."""
    shape = tuple(array.shape)[: len(leaf.dimensions)]
    return shape if len(shape) == len(leaf.dimensions) else leaf.dimensions


class _Place:
    """A leaf's place in the memory, with what copies to and from it bound."""

    def __init__(self, leaf: Leaf, memory: Any) -> None:
        self.leaf = leaf
        view = memory.subarray(leaf.offset, leaf.offset + leaf.bytes)
        self._assign, self._assign_to = view.assign, view.assign_to
        self._sizes = [None if at is None else memory.subarray(at, at + 4) for at in leaf.sizes]

    def write(self, data: bytes | memoryview, dimensions: tuple[int, ...]) -> None:
        if self.leaf.bytes:
            self._assign(data)
        for cell, size in zip(self._sizes, dimensions):
            if cell is not None:
                cell.assign(size.to_bytes(4, "little"))

    def read(self) -> bytearray:
        data = bytearray(self.leaf.bytes)
        if data:
            self._assign_to(data)
        return data

    def dimensions(self) -> tuple[int, ...]:
        """The actual sizes."""
        if not self._sizes:
            return self.leaf.dimensions
        return self.leaf.actual(
            None if cell is None else int.from_bytes(cell.to_bytes(), "little", signed=True) for cell in self._sizes
        )


class _Port(BasePort):
    """An exchange, with what copies to and from its places bound."""

    __slots__ = ("_blocks", "_receivers", "_rows", "_senders")

    def __init__(self, request: Exchange, memory: Any) -> None:
        super().__init__(request)

        def part(at: int, size: int) -> Any:
            return memory.subarray(at, at + size)

        (to, receivers), (sources, senders) = request.to, request.sources
        self._receivers, self._senders = part(to, 4 * receivers).to_bytes, part(sources, 4 * senders).to_bytes
        self._blocks = [
            [part(at + j * stride, size).to_bytes for at, size, stride in request.sends] for j in range(receivers)
        ]
        self._rows = [[part(at + i * size, size).assign for at, size in request.receives] for i in range(senders)]

    def receivers(self) -> list[int]:
        return memoryview(self._receivers()).cast("i").tolist()

    def senders(self) -> list[int]:
        return memoryview(self._senders()).cast("i").tolist()

    def blocks(self, j: int) -> list[Any]:
        return [read() for read in self._blocks[j]]

    copies = blocks

    def put(self, i: int, blocks: Sequence[Any]) -> None:
        for assign, block in zip(self._rows[i], blocks):
            if block:
                assign(block)


class _Instance(BaseInstance):
    """Linear memory with the places of the leaves in it, and the module's exports."""

    def __init__(self, module: Any, manifest: Manifest, sidecar: tuple[memoryview, ...]) -> None:
        super().__init__(manifest)
        exports = _instantiate(module, manifest).exports
        self._memory = memory = js.Uint8Array.new(exports.memory.buffer)
        if memory.length != manifest.memory_bytes:
            raise ArtifactError(
                f"the manifest states {manifest.pages} pages of memory, the module has {memory.length / 65536:g}"
                f"{COMPILE_ANEW}"
            )
        self._run, self._init, self._step = exports.run, exports.init, exports.step
        self.inputs = [_Place(p, memory) for p in manifest.parameters if p.kind == "input"]
        self.outputs = [_Place(r, memory) for r in manifest.results if r.kind == "output"]
        self.states = {p.name: _Place(p, memory) for p in manifest.parameters if p.kind == "state"}
        leaves = [((), ()) if isinstance(r, Exchange) else (r.operands, r.results) for r in manifest.requests]
        self.operands, self.results = ([[_Place(leaf, memory) for leaf in pair[i]] for pair in leaves] for i in (0, 1))
        self.ports = [_Port(r, memory) if isinstance(r, Exchange) else None for r in manifest.requests]
        self._parameters = {p.name: p for p in manifest.parameters}
        self._fill_sidecar(sidecar)

    def set_weight(self, name: str, data: bytes | memoryview) -> None:
        """Writes a weight, in the order of its layout."""
        self._set_weight(self._parameters[name], data)

    def _call_run(self) -> int:
        return self._call(self._run)

    def _call_step(self, pc: int) -> int:
        return self._call(self._step, pc)

    def _call_init(self, index: int) -> None:
        self._call(self._init, index)

    def _word(self, at: int) -> int:
        return int.from_bytes(self._memory.subarray(at, at + 4).to_bytes(), "little")

    def _write(self, at: int, data: bytes | memoryview) -> None:
        if len(data):
            self._memory.subarray(at, at + len(data)).assign(data)

    def _call(self, function: Callable[..., Any], *arguments: int) -> Any:
        try:
            return function(*arguments)
        except JsException as error:
            raise RunError(f"{self._failed()}: {error.message}{CHECK_IT}") from error


def _compile(wasm: bytes, manifest: Manifest) -> Any:
    """A WebAssembly.Module that is what its manifest says: no imports, and the exports of the contract."""
    source = js.Uint8Array.new(len(wasm))
    source.assign(wasm)
    try:
        module = _at_once(js.WebAssembly.Module.new, js.WebAssembly.compile, source)
    except JsException as error:
        needs = (
            "" if manifest.target == SIMD128 else f" (it is compiled for {manifest.target}, which this engine may lack)"
        )
        raise ArtifactError(f"the engine refuses the module: {error.message}{needs}") from error
    if manifest.threads is not None:
        raise UnsupportedError(
            f"'{manifest.name}' is compiled for threads, which Python has not here: compile it without"
        )
    imports = [f"{item.module}.{item.name}" for item in js.WebAssembly.Module.imports(module)]
    if imports:
        raise ArtifactError(f"the module must import nothing, but imports {', '.join(imports[:5])}{COMPILE_ANEW}")
    exports = {item.name: item.kind for item in js.WebAssembly.Module.exports(module)}
    for name, kind in _EXPORTS.items():
        if exports.get(name) != kind:
            raise ArtifactError(f"the module exports no {kind} '{name}'{COMPILE_ANEW}")
    return module


def _instantiate(module: Any, manifest: Manifest) -> Any:
    try:
        return _at_once(js.WebAssembly.Instance.new, js.WebAssembly.instantiate, module)
    except JsException as error:
        if error.name == "RuntimeError":
            raise ArtifactError(f"the module traps when it starts: {error.message}{COMPILE_ANEW}") from error
        raise LimitError(
            f"no room for an instance with {manifest.memory_bytes} bytes of memory: {error.message}; close "
            f"executables that you no longer need"
        ) from error


def _at_once(make: Callable[[Any], Any], promise: Callable[[Any], Any], what: Any) -> Any:
    """Compiles or instantiates, and waits where the engine does large modules only in the background."""
    try:
        return make(what)
    except JsException as error:
        # Chromium on a page's main thread, for modules of more than 8 MiB.
        if error.name != "RangeError" or "main thread" not in error.message:
            raise
        if not can_run_sync():
            raise LimitError(
                "this engine compiles a module of this size on a page's main thread only in the background, and "
                "Python cannot wait for "
                "that here: call from runPythonAsync (in an engine with JSPI), use a worker, or put the constants "
                "into a sidecar file "
                "with Options(sidecar=True)"
            ) from error
    return run_sync(promise(what))
