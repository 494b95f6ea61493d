"""Options of the compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .dataclass import dataclass
from .errors import ArgumentError
from .target import KINDS, MODULE, PORTABLE, SIMD128, TARGETS, TUNES

HOST, TRAP, DROP = "host", "trap", "drop"
CALLBACKS = (HOST, TRAP, DROP)
"""The treatment of callbacks: the host runs them, reaching one ends the run, or those without results are left out."""

WEIGHT_FORMATS = ("f32", "f16", "bf16", "int8", "int4")
"""The formats of stored weights."""

ALL_WEIGHTS = -1
"""Stands for all `weights` in `weight_format`."""

WINOGRAD = {"off": 0, "f2": 2, "f4": 4}
"""The results on a side of the largest tiles that Winograd's algorithms may have."""


@dataclass(frozen=True)
class Options:
    """The options of compiling.

    `target`: "simd128" runs everywhere and gives the same bits on every engine; "relaxed-simd" uses fused multiply-add.
    `tune`: the engine that matrix kernels and loops over long chains of operations are shaped for, or "portable".
    `weights`: parameters that are set once with `Executable.set` and stay in the module: names, of which one that is
    the beginning of others means all of them ("params": "params.w" and "params.b"), patterns ("*.kernel") or flat
    indices. A text is one name. `weight_format`: what weights are stored as: {name or pattern: "f32", "f16",
    "bf16", "int8" or "int4"}, of which the last that suits counts, or one for all `weights`. What is named here is a
    weight. The host sets f32, bf16 or f16, as the program has it, and `init` converts; "int8" has a scale for each
    column of a product, "int4" one for each 32 numbers of a column. Biases and other vectors stay as they are.
    `state`: parameters and the results that replace them after each run, as a mapping or pairs: {"w": "w_next"}.
    Beginnings of names pair all that they begin: {"params": "0"} pairs "params.w" with "0.w", and so on; "" means all
    results. `initial`: what states begin with, in every host, since the artifact holds it: {"w": array}. Arrays have
    the states' dtypes and shapes; there may be numbers, and structures below a name: {"params": {"w": w, "b": b}}.
    States that are not named begin as zeros. `kind`: "module", which a host runs; "command", a program of WASI preview
    1 that reads and writes files; or "server", a component of `wasi:http`. `prepared`: do when compiling what `init`
    does with constants, as packing those of products, so that a new instance is ready at once; by default what is a
    program by itself is prepared, and what a host runs is not. `sidecar`: large constants go to a file of their own
    (`Artifact.weights`) and not into the `.wasm`. `host_calls`: targets of custom calls that the host runs:
    `load(artifact, custom_calls={target: function})`. `callbacks`: what becomes of Python functions that a JAX program
    calls (`jax.debug.print`, `jax.pure_callback` ...): "host", the host runs them, and where it has no function the run
    ends with an error when one is reached; "trap", the run ends there in any case; "drop", those without results are
    left out, and the others are as with "host". `winograd`: which of Winograd's algorithms convolutions of f32 with
    windows of 3x3 may take: "off"; "f2", in tiles of 2x2 results, as exact as direct sums; or "f4", in tiles of up to
    4x4, with about ten times the error. `threads`: large operations are shared by the threads that a host starts
    (`load(..., threads=N)`), on one memory that they import. Results are the same bits with any number of threads.
    Programs by themselves have one thread. `num_replicas`, `num_partitions`: how many the program runs on; by default
    what the module says, or any number if it says 1 and 1.
    """

    target: str = SIMD128
    tune: str = PORTABLE
    weights: tuple[str | int, ...] = ()
    state: tuple[tuple[str | int, str | int], ...] = ()
    sidecar: bool = False
    host_calls: tuple[str, ...] = ()
    num_replicas: int | None = None
    num_partitions: int | None = None
    kind: str = MODULE
    prepared: bool | None = None
    callbacks: str = HOST
    winograd: str = "f2"
    weight_format: tuple[tuple[str | int, str], ...] = ()
    threads: bool = False
    initial: tuple[tuple[str | int, Any], ...] = ()

    if TYPE_CHECKING:
        # What callers may give; the fields are what becomes of it.
        def __init__(
            self,
            target: str = SIMD128,
            tune: str = PORTABLE,
            weights: str | int | Sequence[str | int] = (),
            state: Mapping[str | int, str | int]
            | Mapping[str, str]
            | Mapping[str, int]
            | Sequence[tuple[str | int, str | int]] = (),
            sidecar: bool = False,
            host_calls: str | Sequence[str] = (),
            num_replicas: int | None = None,
            num_partitions: int | None = None,
            kind: str = MODULE,
            prepared: bool | None = None,
            callbacks: str = HOST,
            winograd: str = "f2",
            weight_format: str | Mapping[str, str] | Mapping[str | int, str] | Sequence[tuple[str | int, str]] = (),
            threads: bool = False,
            initial: Mapping[str | int, Any]
            | Mapping[str, Any]
            | Mapping[int, Any]
            | Sequence[tuple[str | int, Any]] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise ArgumentError(f"unknown target {self.target!r}: choose one of {', '.join(TARGETS)}")
        if self.tune not in TUNES:
            raise ArgumentError(f"unknown tune {self.tune!r}: choose one of {', '.join(TUNES)}")
        if self.kind not in KINDS:
            raise ArgumentError(f"unknown kind {self.kind!r}: choose one of {', '.join(KINDS)}")
        if self.callbacks not in CALLBACKS:
            raise ArgumentError(f"unknown callbacks {self.callbacks!r}: choose one of {', '.join(CALLBACKS)}")
        if self.winograd not in WINOGRAD:
            raise ArgumentError(f"unknown winograd {self.winograd!r}: choose one of {', '.join(WINOGRAD)}")
        if self.threads and self.kind != MODULE:
            raise ArgumentError(
                f"threads are for modules, which a host runs; a {self.kind} runs by itself, on one thread"
            )
        object.__setattr__(self, "weights", _listed("weights", self.weights, (str, int), "weights=['params', 'table']"))
        given = self.weight_format
        formats = (
            ((ALL_WEIGHTS, given),)
            if isinstance(given, str)
            else _pairs("weight_format", given, "weight_format={'params': 'int8'}")
        )
        for _, name in formats:
            if name not in WEIGHT_FORMATS:
                raise ArgumentError(f"unknown weight_format {name!r}: choose one of {', '.join(WEIGHT_FORMATS)}")
        object.__setattr__(self, "weight_format", formats)
        for name in ("num_replicas", "num_partitions"):
            count = getattr(self, name)
            if count is not None and not (isinstance(count, int) and count > 0):
                raise ArgumentError(f"{name} must be an integer above zero, got {count!r}")
        calls = _listed("host_calls", self.host_calls, (str,), "host_calls=['my_target']")
        object.__setattr__(self, "host_calls", tuple(sorted(set(calls))))
        object.__setattr__(self, "state", _pairs("state", self.state, "state={'w': 'w_next'}"))
        object.__setattr__(self, "initial", _pairs("initial", self.initial, "initial={'w': array}", values=object))


def _listed(option: str, given: Any, kinds: tuple[type, ...], example: str) -> tuple[Any, ...]:
    """One name or several as a tuple: a text is one name, and not its letters."""
    items = (given,) if isinstance(given, (str, int)) else given
    if isinstance(items, (bytes, Mapping)) or not isinstance(items, Iterable):
        raise ArgumentError(f"{option} is a list of names, as in {example}; got {given!r}")
    items = tuple(items)
    for item in items:
        if isinstance(item, bool) or not isinstance(item, kinds):
            raise ArgumentError(f"{option} is a list of names, as in {example}; {item!r} is no name")
    return items


def _pairs(
    option: str, given: Any, example: str, values: type | tuple[type, ...] = (str, int)
) -> tuple[tuple[Any, Any], ...]:
    """A mapping as pairs, or the pairs themselves; keys are names or numbers."""
    try:
        items = tuple(given.items() if isinstance(given, Mapping) else given)
        pairs = tuple((a, b) for a, b in items) if not any(isinstance(item, str) for item in items) else None
    except (TypeError, ValueError):
        pairs = None
    if pairs is None or not all(
        _is_a(key, (str, int)) and (values is object or _is_a(value, values)) for key, value in pairs
    ):
        raise ArgumentError(f"{option} is a mapping, as in {example}; got {given!r}")
    return pairs


def _is_a(x: Any, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(x, kinds) and not isinstance(x, bool)
