"""JAX functions as HLO modules. JAX is optional: it is imported when `lower` is called."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from string import Formatter
from typing import Any

from .errors import ArgumentError, XlaWasmError
from .hlo.devices import with_devices
from .hlo.ir import Module
from .hlo.shape import Shape
from .hlo.signature import PARAMETER_NAMES, RESULT_NAMES
from .ops.custom import callback


def lower(
    fn: Callable[..., Any],
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
    """The HLO module of `fn(*args, **kwargs)`; `fn` may be jitted already.

    Arguments are arrays, or pytrees of them; `jax.ShapeDtypeStruct` stands for an array of which only shape and dtype
    are known. Every leaf becomes a parameter, used or not, in the order of `jax.tree.leaves((args, kwargs))`. Names of
    leaves, such as "params.dense.kernel", are kept and name the parameters and results of the compiled module. Results are row-major.
    `donate_argnums` lets results take the place of arguments. `static_argnums` and `static_argnames` are of arguments that are no
    parameters but settled now, as in `jax.jit`; name those of a function that is jitted already here too. `platform` picks JAX's
    lowering rules: "tpu" avoids LAPACK's custom calls. For 64-bit types call `lower` with `jax_enable_x64` set.

    Python functions that the program calls (`jax.debug.print`, `jax.pure_callback` and their like) go along with the module, and with
    the artifact that is made of it, as long as these are not written to a file.

    With `mesh`, such as {"x": 2, "y": 4}, the program is one for several devices, which need not be there: with `out_specs` (and
    `in_specs`) as `jax.shard_map(fn, ...)` takes them `fn` is what each device does, on its shards of the arguments; without them `fn`
    has calls of `jax.shard_map` inside, which find the mesh.
    """
    try:
        import jax
    except ImportError as error:
        raise XlaWasmError("xla_wasm.jax needs JAX: pip install 'xla-wasm[jax]'") from error
    abstract = _abstract(mesh)
    mapped = fn
    if abstract is None and not (in_specs is None and out_specs is None):
        raise ArgumentError("in_specs and out_specs need a mesh to refer to: lower(..., mesh={'x': 4})")
    if out_specs is not None:
        if static_argnums or static_argnames or static_argnums == 0:
            raise ArgumentError("jax.shard_map has no static arguments: bind them first, as in functools.partial(fn, n=3)")
        if kwargs:
            raise ArgumentError(f"jax.shard_map takes positional arguments only, got {', '.join(kwargs)} by name")
        mapped = jax.shard_map(fn, mesh=abstract, in_specs=in_specs, out_specs=out_specs, check_vma=check_vma)
    elif in_specs is not None:
        raise ArgumentError("with in_specs give out_specs too: a jax.sharding.PartitionSpec for each result, or a pytree prefix of them")
    static: dict[str, Any] = {"static_argnums": _tuple(static_argnums) or None, "static_argnames": _tuple(static_argnames) or None}
    jitted = jax.jit(mapped, keep_unused=True, donate_argnums=_tuple(donate_argnums), **static)
    with nullcontext() if abstract is None else jax.sharding.use_abstract_mesh(abstract):
        try:
            lowered = jitted.trace(*args, **kwargs).lower(lowering_platforms=(platform,))
        except ValueError as error:
            if "Non-hashable static" in str(error) and not any(static.values()):
                raise ArgumentError("fn has static arguments: name them here too, as in lower(fn, x, 3, static_argnums=1)") from error
            raise
    module = Module.from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    # As `jax.jit` gives them: the layout of the root is the one that suits its last operation, a transpose above all.
    module.result_shape = module.entry.root.shape.with_default_layout()
    attributes = lowered.compiler_ir("stablehlo").operation.attributes
    partitions = attributes["mhlo.num_partitions"].value if abstract is None else abstract.size
    if partitions > 1:
        with_devices(module, 1, partitions)

    positional, settled = _positional_names(fn, len(args)), _static_names(fn, len(args), **static)
    dynamic = tuple(None if name in settled else value for name, value in zip(positional, args))
    by_name = {name: value for name, value in kwargs.items() if name not in settled}
    arguments = jax.tree_util.tree_flatten_with_path((dynamic, by_name))[0]
    parameter_names = [_dotted(positional[p[1].idx] if p[0].idx == 0 else p[1].key, p[2:]) for p, _ in arguments]
    results = jax.tree_util.tree_flatten_with_path(lowered.out_info)[0]
    result_names = [_dotted("", path) or "result" for path, _ in results]
    _attach(module, PARAMETER_NAMES, parameter_names, [p.shape for p in module.entry.parameters])
    _attach(module, RESULT_NAMES, result_names, [module.entry.root.shape])
    _add_callbacks(module, lowered._lowering.compile_args.get("host_callbacks", ()))
    return module


def mesh(**axes: int) -> Any:
    """A mesh of devices that need not be there, for `jax.shard_map`: mesh(x=2, y=4) is a `jax.sharding.AbstractMesh`."""
    return _abstract(axes)


def _abstract(mesh: Any) -> Any:
    """A mesh, or the sizes of its axes by name, as JAX's mesh without devices."""
    from jax.sharding import AbstractMesh, Mesh

    if mesh is None or isinstance(mesh, AbstractMesh):
        return mesh
    if isinstance(mesh, Mesh):
        return mesh.abstract_mesh
    if not isinstance(mesh, Mapping) or not all(isinstance(size, int) and size > 0 for size in mesh.values()):
        raise ArgumentError(f"a mesh is a jax.sharding.Mesh or AbstractMesh, or sizes of axes such as {{'x': 2, 'y': 4}}; got {mesh!r}")
    return AbstractMesh(tuple(mesh.values()), tuple(mesh))


def _attach(module: Module, key: str, names: list[str], shapes: list[Shape]) -> None:
    # JAX may add parameters of its own (hoisted constants): then names would be on the wrong ones. Tokens have no names.
    if len(names) == sum(1 for shape in shapes for _, leaf in shape.leaves() if not leaf.is_token):
        module.frontend_attributes[key] = json.dumps(_unique(names))


def _add_callbacks(module: Module, functions: Sequence[Callable[..., Any]]) -> None:
    """Gives a module the functions that it calls, which JAX numbers, and the formats of those that print."""
    import jax

    formats = {}
    for x in module.instructions():
        number = callback.number_of(x) if callback.is_callback(x) else ""
        if not number.isdigit() or int(number) >= len(functions):
            continue
        function = functions[int(number)]
        ordered = bool(x.operands) and x.operands[0].shape.is_token
        module.callbacks[callback.function_name(x)] = partial(_call_back, function, ordered, jax.config.read("jax_enable_x64"))
        line = _line_format(function)
        if line:
            formats[number] = line
    if formats:
        module.frontend_attributes[callback.FORMATS] = json.dumps(formats)


def _call_back(function: Callable[..., Any], ordered: bool, x64: bool, *operands: Any) -> list[Any]:
    """What JAX's wrapper of a Python function gives: with a token in front, if it is ordered."""
    import jax

    with jax.enable_x64(x64):
        return [*function(None, *operands)][1:] if ordered else [*function(*operands)]


_SPEC = r"[<>^]?[+ ]?0?\d{0,3},?(\.\d{1,2})?[defg%]?"
"""How a number may be formatted where there is no Python."""


class _Operand(int):
    """The number of an operand, in the place of its value."""


def _line_format(function: Callable[..., Any]) -> str:
    """What `jax.debug.print` prints, as `Request.format` has it; "" for another function, or one that prints something else than
    arrays and constants.

    JAX has no interface that tells: this looks for what the function has closed over, under the names of JAX 0.4 to 0.10.
    """
    try:
        flat = _closed_over(function, "_flat_callback")
        cells = dict(zip(flat.__code__.co_freevars, (cell.cell_contents for cell in flat.__closure__)))
        printing = cells["callback"]
        if printing.func.__name__ != "_format_print_callback":
            return ""
        line, _, has_fields = printing.args[:3]
        tree, constants = cells["in_tree"], dict(cells["static_args"])
        numbers = (_Operand(i) for i in range(tree.num_leaves))
        args, kwargs = tree.unflatten([constants[i] if i in constants else next(numbers) for i in range(tree.num_leaves)])
        return _numbered(line, args, kwargs) if has_fields else _numbered(" ".join([_escaped(line), *("{}" for _ in args)]), args, {})
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return ""


def _closed_over(function: Any, name: str) -> Any:
    """The function of this name among those that a function refers to, by its closure or as arguments of a partial one."""
    work: list[Any] = [function]
    seen: set[int] = set()
    while work:
        x = work.pop(0)
        if id(x) in seen or len(seen) > 1000:
            continue
        seen.add(id(x))
        if getattr(x, "__name__", "") == name:
            return x
        if isinstance(x, partial):
            work += [x.func, *x.args, *x.keywords.values()]
        elif isinstance(x, dict):
            work += x.values()
        else:
            work += [cell.cell_contents for cell in getattr(x, "__closure__", None) or ()]
    raise KeyError(name)


def _numbered(line: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A format whose fields are numbers of operands; constants are printed into it. Raises KeyError where a field is more than a name."""
    parts = []
    count = 0
    for text, field, spec, conversion in Formatter().parse(line):
        parts.append(_escaped(text))
        if field is None:
            continue
        if field == "":
            field, count = str(count), count + 1
        value = args[int(field)] if field.isdigit() else kwargs[field]
        if "{" in (spec or "") or isinstance(value, (tuple, list, dict)):
            raise KeyError(field)  # what it prints depends on Python's objects
        if isinstance(value, _Operand) and (conversion in ("r", "a") or not re.fullmatch(_SPEC, spec or "")):
            raise KeyError(field)  # or is not known to all hosts
        shown = f"{'!' + conversion if conversion else ''}{':' + spec if spec else ''}"
        parts.append(f"{{{int(value)}{shown}}}" if isinstance(value, _Operand) else _escaped(f"{{0{shown}}}".format(value)))
    return "".join(parts)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _positional_names(fn: Callable[..., Any], count: int) -> list[str]:
    """What `fn` calls its first `count` positional arguments."""
    names: list[str] = []
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}.{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return [names[i] if i < len(names) else f"arg{i}" for i in range(count)]


def _static_names(
    fn: Callable[..., Any], given: int, static_argnums: Sequence[int] | None, static_argnames: Sequence[str] | None
) -> set[str]:
    """What `fn` calls its static arguments, of which so many are given by position."""
    names = _positional_names(fn, max(given, _count(fn)))
    return {*(static_argnames or ()), *(names[i] for i in static_argnums or () if -len(names) <= i < len(names))}


def _count(fn: Callable[..., Any]) -> int:
    """How many arguments `fn` takes by position, by its signature; 0 if it has none."""
    try:
        kinds = [p.kind for p in inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        return 0
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)


def _tuple(given: Any) -> tuple[Any, ...]:
    """One number or name, or several."""
    return (given,) if isinstance(given, (int, str)) else tuple(given)


def _dotted(first: str, path: Iterable[Any]) -> str:
    """A pytree path as one name: its keys, indices and attributes joined by dots."""
    parts = [first] if first else []
    for key in path:
        for attribute in ("key", "idx", "name"):
            if hasattr(key, attribute):
                parts.append(str(getattr(key, attribute)))
                break
        else:
            parts.append(str(key))
    return ".".join(parts)


def _unique(names: Iterable[str]) -> list[str]:
    """The names, with a number after each one that was there before."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken.add(candidate)
        result.append(candidate)
    return result
