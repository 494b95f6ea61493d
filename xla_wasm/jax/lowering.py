"""JAX functions as HLO modules: `lower`. JAX is optional: it is imported when `lower` is called."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import MethodType
from typing import Any

from ..dataclass import dataclass
from ..errors import ArgumentError, XlaWasmError
from ..hlo.ir import Module
from . import stages
from .leaves import filtered, inside_modules, static_leaves, static_of
from .names import dotted, in_tuple, positional_names, static_names
from .structure import Tree, trees_of
from .variables import updated, variables


def lower(
    fn: Any,
    *args: Any,
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    check_vma: bool = True,
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    platform: str = "cpu",
    **kwargs: Any,
) -> Module:
    """The HLO module of `fn(*args, **kwargs)`; `fn` may be jitted already, an `equinox.Module`, or what
    `equinox.filter_jit` gives.

    Arguments are arrays, or pytrees of them; `jax.ShapeDtypeStruct` stands for an array of which only shape and dtype
    are known. Every leaf becomes a parameter, used or not, in the order of `jax.tree.leaves((args, kwargs))`. Names of
    leaves, such as "params.dense.kernel", are kept and name the parameters and results of the compiled module, and so
    is the structure of both (`Executable.call`). Results are row-major.
    `donate_argnums` lets results take the place of arguments. `static_argnums` and `static_argnames` name arguments
    that are no parameters, as in `jax.jit`; those of a function that is jitted already are known. If `fn` updates
    variables of flax's nnx in its arguments, what they become is a second result, by their names. A
    leaf that is neither an array nor a number, as the activation in a module of equinox, is static too, and so are
    the numbers in such modules. `platform` picks JAX's lowering rules: "tpu" avoids LAPACK's custom calls. For 64-bit
    types call `lower` with `jax_enable_x64` set.

    What JAX has traced, lowered, compiled or exported already is taken alone, without arguments: `jax.stages.Traced`,
    `Lowered` and `Compiled`, and `jax.export.Exported`, which may have arguments that say its symbolic sizes.

    Python functions that the program calls (`jax.debug.print`, `jax.pure_callback` and their like) go along with the
    module, and with the artifact that is made of it, as long as these are not written to a file.

    With `mesh`, such as {"x": 2, "y": 4}, the program is one for several devices, which need not be there: with
    `out_specs` (and `in_specs`) as `jax.shard_map(fn, ...)` takes them `fn` is what each device does, on its shards of
    the arguments; without them `fn` has calls of `jax.shard_map` inside, which find the mesh.
    """
    need_jax()
    stage = stages.kind_of(fn)
    if stage == stages.EXPORTED and (args or kwargs):
        return stages.of_exported(fn, (args, kwargs))
    if stage:
        if args or kwargs or mesh is not None:
            raise ArgumentError(f"a jax.{stage} has its arguments already: lower(x), or compile(x), without others")
        return stages.module_of(fn, platform)
    how = Tracing(mesh, in_specs, out_specs, check_vma, donate_argnums, static_argnums, static_argnames, platform)
    return trace(fn, args, kwargs, how).module()


def lowered(source: Any, args: Sequence[Any] | None) -> Module:
    """The module of what `xla_wasm.compile` takes from JAX: a stage, or a function with arguments. ArgumentError for
    anything else."""
    if args is None and not stages.kind_of(source):
        if callable(source):
            shown = getattr(source, "__name__", type(source).__name__)
            raise ArgumentError(
                f"compile: '{shown}' is a function, which is traced on arguments: compile(f, args=(x,)), or "
                f"xla_wasm.jax.jit(f)(x), "
                "which compiles and runs it"
            )
        raise ArgumentError(
            f"compile takes a module, the path or the content of its file, or what JAX has lowered; not "
            f"{type(source).__name__}"
        )
    if args is not None and not isinstance(args, (list, tuple)):
        raise ArgumentError(f"args is a tuple of arguments, as in compile(f, args=(x,)); got {type(args).__name__}")
    if args is not None and not callable(source) and not stages.kind_of(source):
        raise ArgumentError(f"args are for a JAX function; {type(source).__name__} is none")
    return lower(source, *(args or ()))


@dataclass(frozen=True, slots=True)
class Tracing:
    """The settings of tracing: the arguments of `lower` beside the function and its arguments."""

    mesh: Any = None
    in_specs: Any = None
    out_specs: Any = None
    check_vma: bool = True
    donate_argnums: int | Sequence[int] = ()
    static_argnums: int | Sequence[int] = ()
    static_argnames: str | Iterable[str] = ()
    platform: str = "cpu"


@dataclass(frozen=True, slots=True)
class Traced:
    """The result of tracing a function on arguments."""

    lowered: Any
    """The function as JAX has lowered it."""
    devices: int | None
    description: stages.Description
    results: list[Any]
    """Shape and dtype of each result, as JAX has them."""
    restore: Callable[[Sequence[Any]], Any]
    """From the results to what the function returns."""
    updates: tuple[int, ...] = ()
    """The numbers of the leaves of arguments that the function has updated in variables of nnx: the last results are
    what they become."""

    def module(self) -> Module:
        """Reads the program."""
        module = stages.module_of_lowered(self.lowered, self.devices)
        self.description.attach(module)
        return module

    @property
    def calls_python(self) -> bool:
        """True if the program calls functions of this process."""
        return bool(self.lowered._lowering.compile_args.get("host_callbacks"))

    def content(self) -> Iterator[bytes]:
        """All that the artifact depends on, without the places in sources that the program came from."""
        from jaxlib.mlir.passmanager import PassManager

        program = io.BytesIO()
        module = self.lowered.compiler_ir("stablehlo")
        with module.context:
            stripped = module.operation.clone()
            PassManager.parse("builtin.module(strip-debuginfo)").run(stripped.operation)
            stripped.operation.write_bytecode(program)
        yield program.getvalue()
        described = self.description
        yield repr((self.devices, described.parameters, described.results, described.structure)).encode()


def need_jax() -> Any:
    """The module `jax`. Raises XlaWasmError that says what to install."""
    try:
        import jax
    except ImportError as error:
        raise XlaWasmError("xla_wasm.jax needs JAX: pip install jax") from error
    return jax


def trace(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], how: Tracing) -> Traced:
    """The module of `fn(*args, **kwargs)` as `lower` makes it, with what puts its results together."""
    jax = need_jax()
    tree_util = jax.tree_util
    static: dict[str, Any] = {
        "static_argnums": in_tuple(how.static_argnums),
        "static_argnames": in_tuple(how.static_argnames),
    }
    if not any(static.values()) and how.out_specs is None:
        static["static_argnums"], static["static_argnames"] = static_of(fn)
    abstract = _abstract(how.mesh)
    mapped = _mapped(fn, abstract, how, kwargs, any(static.values()))
    inner = filtered(fn)
    named = fn if inner is None else inner
    known = Known(positional_names(named, len(args)), static_names(named, len(args), **static))
    dynamic, by_name = known.dynamic(args, kwargs)
    leaves, known.tree = tree_util.tree_flatten((dynamic, by_name))
    is_filter = inner is not None
    frozen = static_leaves(leaves, inside_modules((dynamic, by_name)), is_filter)
    outside: dict[str, Any] = {}
    watched = bool(variables((dynamic, by_name))) and how.out_specs is None
    # JAX remembers what it has traced by the function and its static values, of which 0.0 and -0.0 are equal: each time
    # another function.
    if frozen or watched or is_filter or any(static.values()) or not _hashable(mapped):
        if inner is None:
            inner = _plain(mapped)
        mapped = _Settling(inner, known, {i: leaves[i] for i in frozen}, is_filter, watched, outside)
        args, kwargs = known.whole(args, kwargs, [None if i in frozen else leaf for i, leaf in enumerate(leaves)])
        dynamic, by_name = known.dynamic(args, kwargs)
    options = {name: given or None for name, given in static.items()}
    jitted = jax.jit(mapped, keep_unused=True, donate_argnums=in_tuple(how.donate_argnums), **options)
    with nullcontext() if abstract is None else jax.sharding.use_abstract_mesh(abstract):
        try:
            lowered = jitted.trace(*args, **kwargs).lower(lowering_platforms=(how.platform,))
        except OverflowError as error:  # a number of Python that no 32 bits hold
            raise ArgumentError(str(error).splitlines()[0]) from error
        except ValueError as error:
            if "Non-hashable static" in str(error) and not any(static.values()):
                raise ArgumentError(
                    "fn has static arguments: name them here too, as in lower(fn, x, 3, static_argnums=1)"
                ) from error
            raise
    results, out_tree = tree_util.tree_flatten_with_path(lowered.out_info)
    listed = {name: value for name, value in zip(known.positional, dynamic) if name not in known.static}
    described = stages.describe(listed, {name: by_name[name] for name in sorted(by_name)}, results, out_tree)
    if frozen or outside:
        given, named_too = (tree.children() for tree in known.tree.children())
        arguments = [tree for name, tree in zip(known.positional, given) if name not in known.static] + named_too
        made = described.trees.results
        if "tree" in outside and "updates" not in outside:  # with updates the results are None where they are no arrays
            made = Tree(outside["tree"], dict(outside["static"]), made.special)
        described.trees = trees_of([*listed, *sorted(by_name)], arguments, leaves, frozen, made)
    updates = tuple(outside.get("updates", ()))
    restored = out_tree.children()[0] if updates else out_tree
    restore = partial(_restored, restored, outside)
    devices = None if abstract is None else abstract.size
    return Traced(lowered, devices, described, [value for _, value in results], restore, updates)


def _plain(fn: Any) -> Any:
    """The function inside of what `jax.jit` made, which takes no leaves but arrays; of a method the method."""
    if not hasattr(fn, "_jit_info"):
        return fn
    return MethodType(fn.__func__.__wrapped__, fn.__self__) if hasattr(fn, "__func__") else fn.__wrapped__


class _Settling:
    """A function of the arrays among its arguments, the other leaves being static: what `jax.jit` can trace."""

    def __init__(
        self,
        fn: Any,
        known: Known,
        static: Mapping[int, Any],
        numbers_are_static: bool,
        watched: bool,
        outside: dict[str, Any],
    ) -> None:
        """`static` has the static leaves by their numbers; `outside` takes what of the results is no array, and which
        leaves of the arguments have been updated, if these are `watched`."""
        self._fn, self._known, self._static, self._numbers = fn, known, static, numbers_are_static
        self._watched, self._outside = watched, outside
        self.__wrapped__ = fn  # by which JAX finds the signature
        self.__name__ = getattr(getattr(fn, "func", fn), "__name__", type(fn).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        if self._static:
            leaves = self._known.tree.flatten_up_to(self._known.dynamic(args, kwargs))
            listed, kwargs = self._known.whole(
                args, kwargs, [self._static.get(i, leaf) for i, leaf in enumerate(leaves)]
            )
            args = tuple(listed)
        before = jax.tree_util.tree_flatten(self._known.dynamic(args, kwargs)) if self._watched else None
        results = self._fn(*args, **kwargs)
        updates = self._updates(before, args, kwargs)
        found, tree = jax.tree_util.tree_flatten(results)
        unflatten = partial(jax.tree_util.tree_unflatten, tree)
        frozen = static_leaves(found, inside_modules(results), self._numbers)
        self._outside.clear()
        if frozen:
            self._outside.update(tree=tree, static={i: found[i] for i in frozen})
            results = unflatten([None if i in frozen else leaf for i, leaf in enumerate(found)])
        if not updates:
            return results
        self._outside["updates"] = [number for _, (number, _) in sorted(updates.items())]
        return results, {name: leaf for name, (_, leaf) in updates.items()}

    def _updates(self, before: Any, args: Any, kwargs: Any) -> dict[str, tuple[int, Any]]:
        """The leaves that the function has put into variables of its arguments, with their numbers, by name."""
        import jax

        if before is None:
            return {}
        listed, named = self._known.dynamic(args, kwargs)
        leaves, tree = before
        numbers = updated(leaves, tree, (listed, named))
        paths = jax.tree_util.tree_flatten_with_path((listed, named))[0] if numbers else []
        names = {}
        for i in numbers:
            (side, first, *rest), leaf = paths[i]
            names[dotted(first.key if side.idx else self._known.positional[first.idx], rest)] = i, leaf
        return names


@dataclass(slots=True)
class Known:
    """The arguments that are static as a whole, by position and by name, and the tree of all others."""

    positional: list[str]
    """The names of those that are given by position."""
    static: set[str]
    tree: Any = None

    def dynamic(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with None for those that are static as a whole."""
        listed = tuple(None if name in self.static else value for name, value in zip(self.positional, args))
        return listed, {name: value for name, value in kwargs.items() if name not in self.static}

    def static_values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The arguments that are static as a whole, by name."""
        if not self.static:
            return []
        given = {**dict(zip(self.positional, args)), **kwargs}
        return [(name, given[name]) for name in sorted(given) if name in self.static]

    def whole(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], leaves: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with other leaves in those that are not static."""
        listed, named = self.tree.unflatten(leaves)
        return [old if name in self.static else new for name, old, new in zip(self.positional, args, listed)], {
            **kwargs,
            **named,
        }


def _restored(tree: Any, outside: Mapping[str, Any], values: Sequence[Any]) -> Any:
    """Returns the result of a function: the tree with its arrays and its other leaves."""
    if "tree" not in outside:
        return tree.unflatten(values)
    rest = iter(values)
    static = outside["static"]
    return outside["tree"].unflatten(
        [static[i] if i in static else next(rest) for i in range(outside["tree"].num_leaves)]
    )


def _mapped(fn: Any, abstract: Any, how: Tracing, kwargs: Mapping[str, Any], static: bool) -> Any:
    """The function as each device has it, if there are to be several."""
    import jax

    in_specs, out_specs = how.in_specs, how.out_specs
    if abstract is None and not (in_specs is None and out_specs is None):
        raise ArgumentError("in_specs and out_specs need a mesh to refer to: lower(..., mesh={'x': 4})")
    if out_specs is None:
        if in_specs is not None:
            raise ArgumentError(
                "with in_specs give out_specs too: a jax.sharding.PartitionSpec for each result, or a pytree prefix "
                "of them"
            )
        return fn
    if static:
        raise ArgumentError("jax.shard_map has no static arguments: bind them first, as in functools.partial(fn, n=3)")
    if kwargs:
        raise ArgumentError(f"jax.shard_map takes positional arguments only, got {', '.join(kwargs)} by name")
    return jax.shard_map(fn, mesh=abstract, in_specs=in_specs, out_specs=out_specs, check_vma=how.check_vma)


def _hashable(fn: Any) -> bool:
    try:
        hash(fn)
    except TypeError:
        return False
    return True


def mesh(**axes: int) -> Any:
    """A mesh of devices that need not be there, for `jax.shard_map`: mesh(x=2, y=4) is a
    `jax.sharding.AbstractMesh`."""
    return _abstract(axes)


def _abstract(mesh: Any) -> Any:
    """A mesh, or the sizes of its axes by name, as JAX's mesh without devices."""
    from jax.sharding import AbstractMesh, AxisType, Mesh

    if mesh is None or isinstance(mesh, AbstractMesh):
        return mesh
    if isinstance(mesh, Mesh):
        return mesh.abstract_mesh
    if not isinstance(mesh, Mapping) or not all(isinstance(size, int) and size > 0 for size in mesh.values()):
        raise ArgumentError(
            f"a mesh is a jax.sharding.Mesh or AbstractMesh, or sizes of axes such as {{'x': 2, 'y': 4}}; got {mesh!r}"
        )
    # JAX 0.12 has axes explicit unless told otherwise, and arguments would need shardings of them.
    return AbstractMesh(tuple(mesh.values()), tuple(mesh), axis_types=(AxisType.Auto,) * len(mesh))
