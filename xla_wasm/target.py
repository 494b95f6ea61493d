"""The target of a module: one record, which goes through all stages whole; and the names of targets, features, tunes
and kinds."""

from __future__ import annotations

from .dataclass import dataclass

FEATURES = SIMD128, RELAXED_SIMD = "simd128", "relaxed-simd"
"""WebAssembly features that modules may need, as manifests name them."""

TARGETS = {SIMD128: (SIMD128,), RELAXED_SIMD: (SIMD128, RELAXED_SIMD)}
"""Name of a target -> the features that its modules need."""

TUNES = PORTABLE, WASMTIME, V8 = "portable", "wasmtime", "v8"
"""Engines whose register allocator the matrix kernels are shaped for."""

KINDS = MODULE, COMMAND, SERVER = "module", "command", "server"
"""Kinds of artifacts: what a host runs, and what is a program by itself (see `front`)."""

WORKER = "worker"
"""A module beside JavaScript that imports it, as edge runtimes want it (see `javascript`)."""

ADDRESS_SPACE = {"i32": 1 << 32}
"""The wasm type of an address -> how many bytes it can reach."""

PAGE = 65536
"""Bytes in a page of linear memory."""

CONFIG = 64
"""Address of what hosts and the program tell each other; what lies below stays zero, so that a null pointer hits
nothing."""
STOP = CONFIG + 8
"""Address of a u32, 0 at first, to which another thread writes `STOPPED_RUN` to end a run: the program loads from where
it points to, before kernels and between pieces of them that take long, and in loops that take long inside of one."""
STOPPED_RUN = 0xFFFFFFFF

THREADS = "threads"
"""The feature of modules with shared memory, besides `FEATURES`."""
MEMORY = "memory"
SHARED_MEMORY = ("host", MEMORY)
"""The names by which a module with threads imports its memory."""
MOST_PAGES = 65536
MOST_THREADS = 1024
"""Tickets have room for one more chunk than there are from each thread, and no machine has so many."""
CONTROL_BYTES = 256
LOOKS, STOPPED, FAILED, AWAKE, ALONE, LIMIT = 72, 132, 136, 140, 144, 156
"""The block by which threads work together, and what hosts write in it: how often thread 0 has waited for 0.1 s since
the host has set that to 0; whether the others are to end; whether a thread has failed; whether thread 0 must stay
awake, as on the main thread of a page; whether it is to wake nobody; how often it may wait, 0 for ever."""
LATE = 1 << 30
"""The value that thread 0 writes for a failure when it has waited that often."""
EXPORTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "run": ((), ("i32",)),
    "init": (("i32",), ()),
    "step": (("i32",), ("i32",)),
}
"""The functions that hosts call, with the types of parameters and results. A memory of the module's own is exported as
`MEMORY`."""


THREAD_EXPORTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {"work": (("i32",), ()), "stop": ((), ())}
"""Further exports of modules with threads."""


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of WebAssembly module and the engine that it is to suit."""

    name: str
    features: tuple[str, ...]
    tune: str
    address: str = "i32"
    """The wasm type of an address."""
    memory: tuple[str, str] | None = None
    """The names (module, field) by which the memory is imported; None: the module has a memory of its own and exports
    it."""

    threads: bool = False
    """True if several instances may run one program together, on one memory that they share: one more feature that the
    module needs."""

    @classmethod
    def named(cls, name: str, tune: str = PORTABLE, threads: bool = False) -> Target:
        """The target of that name."""
        features = (*TARGETS[name], THREADS) if threads else TARGETS[name]
        return cls(name, features, tune, memory=SHARED_MEMORY if threads else None, threads=threads)

    @property
    def fused(self) -> bool:
        """True if vectors of floats have a fused multiply-add."""
        return RELAXED_SIMD in self.features

    @property
    def memory_limit(self) -> int:
        """The number of bytes that a memory can have."""
        return ADDRESS_SPACE[self.address]
