"""`jit`: JAX functions compiled to WebAssembly and called as `jax.jit` has them called."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from operator import attrgetter
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from ..compiler import compile
from ..dataclass import dataclass
from ..errors import ArgumentError
from ..hlo.ir import Module
from ..host.forks import owns
from ..options import Options
from ..target import SIMD128
from . import stages
from .cache import Cache, key_of
from .leaves import NUMBERS, filtered, inside_modules, static_leaves, static_of
from .lowering import Known, Traced, Tracing, need_jax, trace
from .names import in_tuple, positional_names, static_names
from .values import Converter, Keep, Resident, to_numpy
from .variables import update

if TYPE_CHECKING:
    from pathlib import Path

    from ..artifact import Artifact
    from ..host.executor import Executable

_OPTIONS = ("tune", "weight_format", "callbacks", "winograd", "threads", "prepared")
"""Options of the compiler that `jit` takes beside those that its signature has."""
_LIMITS = ("memory_limit", "fuel", "timeout")
"""Options of `load` that it takes."""
_ELSEWHERE = {
    "donate_argnums": "what stays in the module is named by state={'params': '0'}",
    "donate_argnames": "what stays in the module is named by state={'params': '0'}",
    "backend": "everything runs under wasmtime",
    "device": "everything runs under wasmtime",
    "keep_unused": "arguments that are not used are kept always",
    "sidecar": "compile it yourself: xla_wasm.compile(jit(f).lower(*args), Options(sidecar=True))",
    "kind": "compile it yourself: xla_wasm.compile(jit(f).lower(*args), Options(kind=...))",
    "initial": "a call is given its states; for others, compile it yourself: xla_wasm.compile(jit(f).lower(*args), "
    "Options(initial=...))",
    "host_calls": "compile and load it yourself: load(..., custom_calls=...)",
    "num_replicas": "programs for several devices: docs/replicas.md",
    "num_partitions": "programs for several devices: docs/replicas.md",
}
_CONFIGURATION = (
    *(
        "jax_enable_x64",
        "jax_default_matmul_precision",
        "jax_numpy_dtype_promotion",
        "jax_numpy_rank_promotion",
        "jax_default_prng_impl",
    ),
    *(
        "jax_threefry_partitionable",
        "jax_enable_custom_prng",
        "jax_random_seed_offset",
        "jax_softmax_custom_jvp",
        "jax_disable_jit",
    ),
)
"""Settings of JAX that change what a function is traced to."""


_DEBUG = attrgetter("jax_debug_nans", "jax_debug_infs")
"""Settings of JAX by which results are looked at."""


class Stats(NamedTuple):
    """Counts of the work of a function that `jit` made."""

    traces: int
    """Programs that it was traced to."""
    compiles: int
    """Artifacts that were compiled: of those that memory or disk had, none was."""
    disk_hits: int
    """Artifacts that were read from disk."""
    runs: int
    """Calls that ran."""


@overload
def jit(fun: Callable[..., Any], /, **settings: Any) -> Jitted: ...
@overload
def jit(fun: None = None, /, **settings: Any) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(
    fun: Any = None,
    /,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    weights: str | Sequence[str] = (),
    state: Mapping[str, str] | None = None,
    target: str = SIMD128,
    platform: str = "cpu",
    cache: bool | str | os.PathLike[str] = True,
    results: str = "numpy",
    **options: Any,
) -> Any:
    """`fun` compiled to WebAssembly: called as what `jax.jit(fun)` gives, it runs under wasmtime.

    The first call with arguments of new shapes, dtypes or static values traces `fun` and compiles it. What it gives is
    kept in memory and on disk, in `~/.cache/xla_wasm` or `$XDG_CACHE_HOME/xla_wasm`, where the artifacts that were not
    used for longest go when there are more than 1 GiB; `cache` is another folder, or False. The key is what was traced,
    so a change of `fun` is seen.

    Arguments are what `jax.jit` takes: arrays of JAX and NumPy, numbers, `jax.random.key`, and dicts, tuples,
    dataclasses and modules of them; also arrays of others that know dlpack. They are converted as there: float64
    becomes float32 unless `jax_enable_x64` is set. Leaves that are neither arrays nor numbers, as the activation of an
    `equinox.Module`, are static, as are the numbers in such a module.

    Results come in the structure that `fun` returns, as NumPy arrays, which costs one copy; `results="jax"` makes
    `jax.Array` of them. Random keys are keys of JAX always. Under a transformation of JAX, such as `jax.grad`, `fun`
    itself is traced.

    `weights` names arguments, as "params" or "*.kernel", that stay in the module: they are set when they change, and
    packed once. Arrays of JAX are known to have changed when they are other objects, those of NumPy by their values.
    `state` pairs arguments with the results that replace them, {"params": "0"}: these results stay in the module and
    are a `Resident` each, which is read when somebody asks for its value; it is for the next call, after which it is
    gone, as a donated array is. `options` are those of `xla_wasm.Options` (tune, weight_format, callbacks, winograd,
    threads, prepared) and the limits of `xla_wasm.load` (memory_limit, fuel, timeout). `platform` picks JAX's lowering
    rules, as in `lower`. With JAX's settings `jax_debug_nans` and `jax_debug_infs`, results that have a NaN or an
    infinity are a NonFiniteError, which says where it begins.
    """
    settings = Settings(static_argnums, static_argnames, weights, state, target, platform, cache, results, options)

    def made(fun: Any) -> Jitted:
        need_jax()
        return Jitted(fun, settings)

    return made if fun is None else made(fun)


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of `jit` beside the function."""

    static_argnums: int | Sequence[int]
    static_argnames: str | Iterable[str]
    weights: str | Sequence[str]
    state: Mapping[str, str] | None
    target: str
    platform: str
    cache: bool | str | os.PathLike[str]
    results: str
    options: Mapping[str, Any]


class _Program:
    """An executable with what its weights and states were last set to: what calls of the same program share."""

    def __init__(self, artifact: Artifact, limits: Mapping[str, Any]) -> None:
        self.artifact = artifact
        self._limits = limits
        self._executable: Executable | None = None
        self.keep = Keep(artifact.manifest)
        self._after_fork()
        owns(self)

    def _after_fork(self) -> None:
        """In a child nobody else holds its lock."""
        self._loading = threading.Lock()

    @property
    def executable(self) -> Executable:
        """Loaded when it is first needed."""
        if self._executable is not None:
            return self._executable
        with self._loading:
            if self._executable is None:
                from ..host.executor import load

                self._executable = load(self.artifact, **self._limits)
            return self._executable


class _Variant(NamedTuple):
    """The common parts of calls with arguments of the same kind."""

    program: _Program
    convert: Converter
    restore: Callable[[Sequence[Any]], Any]
    updates: tuple[int, ...]


def _configuration() -> Callable[[Any], Any]:
    """Returns a function that reads those of the settings that this JAX has."""
    import jax

    return attrgetter(*(name for name in _CONFIGURATION if hasattr(jax.config, name)))


class _Transformed(Exception):
    """An argument is a tracer of JAX's."""


class Jitted:
    """The function that `jit` makes, with `lower`, `artifact`, `save` and `stats`."""

    def __init__(self, fun: Any, settings: Settings) -> None:
        if kind := stages.kind_of(fun):
            raise ArgumentError(
                f"a jax.{kind} is traced already: compile it with xla_wasm.compile, or give jit the function"
            )
        if not callable(fun):
            raise ArgumentError(f"jit takes a function, not {type(fun).__name__}")
        for name in settings.options:
            if name not in (*_OPTIONS, *_LIMITS):
                raise ArgumentError(
                    f"jit has no option {name!r}: "
                    f"{_ELSEWHERE.get(name) or 'it has ' + ', '.join((*_OPTIONS, *_LIMITS))}"
                )
        if settings.results not in ("numpy", "jax"):
            raise ArgumentError(f"results must be 'numpy' or 'jax', got {settings.results!r}")
        if isinstance(fun, Jitted):
            fun = fun.__wrapped__
        update_wrapper(self, filtered(fun) or fun, updated=())
        self.__wrapped__: Any = fun
        self._static: dict[str, Any] = {
            "static_argnums": in_tuple(settings.static_argnums),
            "static_argnames": in_tuple(settings.static_argnames),
        }
        if not any(self._static.values()):
            self._static["static_argnums"], self._static["static_argnames"] = static_of(fun)
        options = {name: value for name, value in settings.options.items() if name in _OPTIONS}
        self._options = Options(settings.target, weights=settings.weights, state=settings.state or {}, **options)
        self._limits = {name: value for name, value in settings.options.items() if name in _LIMITS}
        self._platform, self._in_jax, cache = settings.platform, settings.results == "jax", settings.cache
        self._cache = None if cache is False else Cache() if cache is True else Cache(cache)
        self._after_fork()
        self._variants: dict[Any, _Variant] = {}
        self._programs: dict[str, _Program] = {}
        self._inside: dict[Any, frozenset[int]] = {}
        """Tree of arguments -> which of its leaves lie in modules of equinox."""
        self._known: dict[int, Known] = {}
        self._is_filter = filtered(fun) is not None
        self._name = getattr(self, "__name__", type(fun).__name__)
        self._configuration = _configuration()
        self._traces = self._compiles = self._disk_hits = self._runs = 0
        owns(self)

    def _after_fork(self) -> None:
        """In a child nobody else holds its locks."""
        self._lock = threading.RLock()
        """Of what tracing and compiling make."""
        self._counting = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the results of `fun` for these arguments."""
        try:
            leaves, key = self._key(args, kwargs)
        except _Transformed:
            return self.__wrapped__(*args, **kwargs)
        variant = self._variants.get(key) or self._variant(key, args, kwargs)
        program, convert = variant.program, variant.convert
        arrays = convert(leaves)
        look = self._look_at_results(program, arrays, args, kwargs)
        values = program.keep.run(program.executable, arrays, leaves, convert)
        if look is not None:
            look(values)
        with self._counting:
            self._runs += 1
        results = convert.results(values, self._in_jax)
        if variant.updates:
            results, new = results[: -len(variant.updates)], results[-len(variant.updates) :]
            self._update(args, kwargs, variant.updates, new)
        return variant.restore(results)

    def _look_at_results(
        self, program: _Program, arrays: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Callable[[Sequence[Any]], None] | None:
        """Returns a function that raises NonFiniteError for results that jax_debug_nans and jax_debug_infs do not
        allow; None if neither is set."""
        import jax

        nan, infinity = _DEBUG(jax.config)
        if not (nan or infinity):
            return None
        import numpy as np

        from ..host.nonfinite import complain

        before = [np.array(x) for x in arrays]  # a state is another one afterwards
        manifest = program.artifact.manifest

        def look(values: Sequence[Any]) -> None:
            named = ((r["name"], np.asarray(x)) for r, x in zip(manifest["results"], values))
            complain(
                named,
                lambda: self.lower(*args, **kwargs),
                lambda: before,
                self._name,
                manifest["target"],
                nan,
                infinity,
            )

        return look

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a function of a class: a method."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        name = getattr(self, "__qualname__", type(self.__wrapped__).__name__)
        return f"<xla_wasm.jax.jit of {name}: {', '.join(f'{k} {v}' for k, v in self.stats()._asdict().items())}>"

    def lower(self, *args: Any, **kwargs: Any) -> Module:
        """The HLO module for such arguments, of which the shapes will do."""
        return self._trace(args, kwargs).module()

    def artifact(self, *args: Any, **kwargs: Any) -> Artifact:
        """The artifact for such arguments, compiled unless memory or disk has it."""
        try:
            _, key = self._key(args, kwargs)
        except _Transformed:
            raise ArgumentError(
                "artifact takes arrays or shapes of them, not what a transformation of JAX works on"
            ) from None
        return (self._variants.get(key) or self._variant(key, args, kwargs)).program.artifact

    def save(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Path:
        """Writes the artifact for such arguments to a file, for pages and servers or `xla_wasm.load`; returns the
        path."""
        return self.artifact(*args, **kwargs).save(path)

    def stats(self) -> Stats:
        """Returns the counts of what it has done so far."""
        return Stats(self._traces, self._compiles, self._disk_hits, self._runs)

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Any]:
        """The leaves that the program takes, and what decides which program it is."""
        import jax

        known = self._known_of(len(args))
        dynamic = known.dynamic(args, kwargs)
        leaves, tree = jax.tree_util.tree_flatten(dynamic)
        static = known.static_values(args, kwargs)
        try:
            inside = self._inside.get(tree)
            if inside is None:
                inside = self._inside.setdefault(tree, inside_modules(dynamic))
            kinds = [_kind(leaf) for leaf in leaves]
            frozen: frozenset[int] = frozenset()
            if None in kinds or inside or self._is_filter:
                frozen = static_leaves(leaves, inside, self._is_filter)
                kinds = [("static", _typed(leaves[i])) if i in frozen else kind for i, kind in enumerate(kinds)]
            key = (
                tree,
                tuple(kinds),
                tuple((name, _typed(value)) for name, value in static),
                self._configuration(jax.config),
            )
            hash(key)
        except TypeError as error:
            raise ArgumentError(
                f"{self._name}: what is static must be hashable, and so must leaves that are neither arrays nor "
                f"numbers: {error}"
            ) from None
        return ([leaf for i, leaf in enumerate(leaves) if i not in frozen] if frozen else leaves), key

    def _update(self, args: Sequence[Any], kwargs: Mapping[str, Any], updates: Sequence[int], new: list[Any]) -> None:
        """Has the caller's variables of nnx become what the function has made of them."""
        import jax

        values = {
            i: value if isinstance(value, jax.Array) else jax.numpy.asarray(value) for i, value in zip(updates, new)
        }
        update(self._known_of(len(args)).dynamic(args, kwargs), values)

    def _known_of(self, count: int) -> Known:
        """Returns the static arguments of a call with `count` arguments by position."""
        known = self._known.get(count)
        if known is None:
            fun = filtered(self.__wrapped__) or self.__wrapped__
            known = self._known[count] = Known(positional_names(fun, count), static_names(fun, count, **self._static))
        return known

    def _variant(self, key: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Variant:
        """Traces and compiles for arguments of a new kind."""
        with self._lock:
            if key in self._variants:  # another thread was here
                return self._variants[key]
            traced = self._trace(args, kwargs)
            program = self._program(traced)
            kept = [r["name"] for r in program.artifact.manifest["results"] if r["kind"] != "output"]
            if traced.updates and kept:
                raise ArgumentError(
                    f"{self._name} updates variables of nnx by mutation, which go back to the caller: leave state out, "
                    f"or have it take and return nnx.state(model)"
                )
            convert = Converter(program.artifact.manifest, traced.results)
            variant = self._variants[key] = _Variant(program, convert, traced.restore, traced.updates)
            return variant

    def _trace(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
        """The function on arguments of which JAX knows all: what is somebody else's is given by its shape."""
        import jax

        known = self._known_of(len(args))
        leaves, tree = jax.tree_util.tree_flatten(known.dynamic(args, kwargs))
        shown = [_shown(leaf) for leaf in leaves]
        if any(a is not b for a, b in zip(leaves, shown)):
            args, kwargs = Known(known.positional, known.static, tree).whole(args, kwargs, shown)
        traced = trace(self.__wrapped__, args, kwargs, Tracing(**self._static, platform=self._platform))
        with self._lock:
            self._traces += 1
        return traced

    def _program(self, traced: Traced) -> _Program:
        """The program of a function that was traced: one that is there already, or that disk has, or else compiled."""
        if traced.calls_python:  # functions that are of this process, and of this trace
            return _Program(self._compile(traced), self._limits)
        key = key_of(traced, self._options)
        if key in self._programs:
            return self._programs[key]
        artifact = self._cache.get(key) if self._cache else None
        if artifact is not None:
            self._disk_hits += 1
        else:
            artifact = self._compile(traced)
            if self._cache:
                self._cache.put(key, artifact)
        program = self._programs[key] = _Program(artifact, self._limits)
        return program

    def _compile(self, traced: Traced) -> Artifact:
        module = traced.module()
        module.trees = None  # other calls may share the program, and have other classes
        self._compiles += 1
        return compile(module, self._options)


def _kind(leaf: Any) -> Any:
    """Returns the key by which an array's program is chosen: shape, dtype, and whether its type gives way; of a Python
    number its type. None if it is no array. Raises _Transformed for one that JAX traces."""
    import jax
    import numpy as np

    kind = type(leaf)
    if kind is np.ndarray:
        return leaf.shape, leaf.dtype, False
    if kind in NUMBERS:
        return kind
    if isinstance(leaf, jax.core.Tracer):
        raise _Transformed
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return tuple(leaf.shape), leaf.dtype, getattr(leaf, "weak_type", False)
    if hasattr(leaf, "__dlpack__"):
        array = to_numpy(leaf)
        return array.shape, array.dtype, False
    return next((number for number in NUMBERS if isinstance(leaf, number)), None)


def _shown(leaf: Any) -> Any:
    """A leaf as JAX takes it."""
    import jax
    import numpy as np

    if isinstance(leaf, Resident):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype.newbyteorder("="))
    if isinstance(leaf, (np.ndarray, np.generic, jax.Array, jax.ShapeDtypeStruct)) or not hasattr(leaf, "__dlpack__"):
        return leaf
    return to_numpy(leaf)


def _typed(value: Any) -> Any:
    """A static value for a key: 1, 1.0 and True are three, and so are 0.0 and -0.0."""
    if isinstance(value, tuple):
        return type(value), tuple(map(_typed, value))
    return type(value), repr(value) if isinstance(value, (float, complex)) else value
