"""HLO modules of functions that JAX has worked on already: traced, lowered, compiled and exported ones."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..dataclass import dataclass
from ..errors import ArgumentError, counted
from ..hlo.devices import with_devices
from ..hlo.ir import Module
from ..hlo.shape import Shape
from ..hlo.signature import PARAMETER_NAMES, RESULT_NAMES, STRUCTURE, add_unused_parameter, renumber_parameters
from .callbacks import add_callbacks
from .leaves import is_key
from .names import dotted, unique
from .structure import structure, tree_of, trees_of

TRACED, LOWERED, COMPILED, EXPORTED = "stages.Traced", "stages.Lowered", "stages.Compiled", "export.Exported"


def kind_of(x: Any) -> str:
    """Returns the stage of JAX's that an object is, as JAX names its class; "" if it is none."""
    if "jax" not in sys.modules:
        return ""
    import jax

    kinds = {LOWERED: jax.stages.Lowered, COMPILED: jax.stages.Compiled, TRACED: getattr(jax.stages, "Traced", None)}
    exported = sys.modules.get("jax.export")
    kinds[EXPORTED] = getattr(exported, "Exported", None)
    return next((name for name, kind in kinds.items() if kind is not None and isinstance(x, kind)), "")


def module_of(stage: Any, platform: str = "cpu") -> Module:
    """The module of a stage, with the names and the structure of its arguments and results."""
    kind = kind_of(stage)
    if kind == TRACED:
        stage, kind = stage.lower(lowering_platforms=(platform,)), LOWERED
    if kind == EXPORTED:
        return of_exported(stage)
    if kind == COMPILED:
        protos = [m.as_serialized_hlo_module_proto() for m in stage.runtime_executable().hlo_modules()]
        if len(protos) != 1:
            raise ArgumentError(
                f"a jax.{COMPILED} of {counted(len(protos), 'module')}: lower the function itself, lower(f, x)"
            )
        module, kept = Module.from_proto(protos[0]), getattr(stage._executable, "_kept_var_idx", None)
    else:
        module, kept = module_of_lowered(stage, None), stage._lowering.compile_args.get("kept_var_idx")
    _describe_stage(module, stage, None if kept is None else sorted(kept))
    return module


def module_of_lowered(lowered: Any, devices: int | None) -> Module:
    """The module of a `jax.stages.Lowered`, without names, for so many devices; None: for as many as it says."""
    program = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(program)
    module = Module.from_stablehlo(program.getvalue())
    if devices is not None and devices > 1:
        with_devices(module, 1, devices)
    add_callbacks(module, lowered._lowering.compile_args.get("host_callbacks", ()))
    return module


@dataclass(slots=True)
class Description:
    """The names and the structure of a program's arguments and results."""

    parameters: list[str]
    results: list[str]
    structure: str
    trees: Any

    def attach(self, module: Module) -> None:
        """Notes them in the program's module."""
        shapes = [p.shape for p in module.entry.parameters]
        has_names = _attach(module, PARAMETER_NAMES, self.parameters, shapes)
        has_names &= _attach(module, RESULT_NAMES, self.results, [module.entry.root.shape])
        if has_names:
            module.frontend_attributes[STRUCTURE] = self.structure
            module.trees = self.trees


def describe(
    listed: Mapping[str, Any], named: Mapping[str, Any], leaves: Sequence[tuple[Any, Any]], results: Any
) -> Description:
    """The description of arguments, given by position and by name, and of results, of which these are the leaves with
    their paths, and the tree."""
    import jax

    result_paths = [path for path, _ in leaves]
    arguments = {**listed, **named}
    names = [*arguments]
    tree: Any
    flat, tree = jax.tree_util.tree_flatten_with_path([*arguments.values()])
    paths = [path for path, _ in flat]
    found = structure(names, len(listed), tree, paths, results, result_paths)
    own = tree_of(results, [leaf for _, leaf in leaves])
    return Description(
        [dotted(names[path[0].idx], path[1:]) for path in paths],
        [dotted("", path) or "result" for path in result_paths],
        json.dumps(found, separators=(",", ":")),
        trees_of(names, tree.children(), [leaf for _, leaf in flat], frozenset(), own),
    )


def _attach(module: Module, key: str, names: list[str], shapes: list[Shape]) -> bool:
    # JAX may add parameters of its own (hoisted constants): then names would be on the wrong ones. Tokens have no
    # names.
    fits = len(names) == sum(1 for shape in shapes for _, leaf in shape.leaves() if not leaf.is_token)
    if fits:
        module.frontend_attributes[key] = json.dumps(unique(names))
    return fits


def _describe_stage(module: Module, stage: Any, kept: Sequence[int] | None) -> None:
    """As `describe`, with what the stage knows of its arguments, of which the program takes those that are kept."""
    import jax

    flat = jax.tree_util.tree_flatten_with_path(stage.args_info)[0]
    told = dict(
        zip(kept or range(len(flat)), (p.metadata.op_name if p.metadata else "" for p in module.entry.parameters))
    )
    _add_unused(module, [(info.shape, info.dtype) for _, info in flat], kept)
    args, kwargs = stage.args_info
    first: dict[
        int, str
    ] = {}  # the number of an argument -> its name, from what the program calls a leaf of it: p['w']
    for i, (path, _) in enumerate(flat):
        if path[0].idx == 0 and (name := re.match(r"\w+", told.get(i) or "")):
            first.setdefault(path[1].idx, name[0])
    names = unique(first.get(i) or f"arg{i}" for i in range(len(args)))
    results, tree = jax.tree_util.tree_flatten_with_path(stage.out_info)
    named = {name: kwargs[name] for name in sorted(kwargs)}
    describe(dict(zip(names, args)), named, results, tree).attach(module)


def _add_unused(module: Module, leaves: Sequence[tuple[Sequence[int], Any]], kept: Sequence[int] | None) -> None:
    """Parameters for the leaves that JAX has left out, so that callers give all of them."""
    parameters = module.entry.parameters
    if len(parameters) == len(leaves):
        return
    if kept is None or len(kept) != len(parameters):
        raise ArgumentError(
            f"the program takes {counted(len(parameters), 'array')} of {len(leaves)}: lower the function itself, "
            f"lower(f, x)"
        )
    renumber_parameters(module, dict(enumerate(kept)))
    shapes = dict(zip(kept, module.parameter_shapes or [p.shape for p in parameters]))
    for k, (sizes, dtype) in enumerate(leaves):
        if k not in shapes:
            shapes[k] = _shape_of(sizes, dtype)
            add_unused_parameter(module, k, shapes[k])
    if module.parameter_shapes is not None:
        module.parameter_shapes = [shapes[k] for k in sorted(shapes)]


def _shape_of(sizes: Sequence[int], dtype: Any) -> Shape:
    """The shape of an array of JAX's; random keys are the words that they consist of."""
    import jax

    if is_key(dtype):
        return _shape_of(*_words(sizes, dtype))
    # The module of a function of this one array knows what HLO calls its type.
    return (
        module_of_lowered(jax.jit(lambda x: x, keep_unused=True).lower(jax.ShapeDtypeStruct(tuple(sizes), dtype)), 1)
        .entry.parameters[0]
        .shape
    )


def _words(sizes: Sequence[int], dtype: Any) -> tuple[tuple[int, ...], Any]:
    import jax

    words = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(tuple(sizes), dtype))
    return words.shape, words.dtype


def of_exported(exported: Any, given: tuple[tuple[Any, ...], dict[str, Any]] | None = None) -> Module:
    """The module of a `jax.export.Exported`, with the structure of its arguments and results; `given` arguments say its
    sizes."""
    import jax

    dims: dict[str, int] = {}
    leaves, tree = jax.tree_util.tree_flatten(given or ((), {}))
    shapes = [tuple(getattr(leaf, "shape", ())) for leaf in leaves]
    if given is not None:
        if tree != exported.in_tree:
            raise ArgumentError(f"'{exported.fun_name}' was exported for arguments {exported.in_tree}, not {tree}")
        for aval, sizes in zip(exported.in_avals, shapes):
            dims |= {str(d): n for d, n in zip(aval.shape, sizes) if not isinstance(d, int) and str(d).isidentifier()}
    module = Module.from_exported(bytes(exported.serialize()), dims)
    parameters = [p.shape.dimensions for p in module.entry.parameters if not p.shape.is_token]
    for aval, sizes, dimensions in zip(exported.in_avals, shapes, parameters):
        if dimensions[: len(aval.shape)] != sizes:
            raise ArgumentError(
                f"'{exported.fun_name}' was exported for {aval.str_short()}, and an argument has the sizes {[*sizes]}"
            )
    args, kwargs = exported.in_tree.unflatten(range(exported.in_tree.num_leaves))
    names = json.loads(module.frontend_attributes.get(PARAMETER_NAMES, "null"))
    if names is None or len(names) != exported.in_tree.num_leaves or RESULT_NAMES not in module.frontend_attributes:
        return module
    results, tree = jax.tree_util.tree_flatten_with_path(
        exported.out_tree.unflatten(range(exported.out_tree.num_leaves))
    )
    flat = jax.tree_util.tree_flatten_with_path(args)[0]
    first: dict[int, str] = {}
    for (path, _), name in zip(flat, names):
        parts = name.split(".")
        first.setdefault(path[0].idx, ".".join(parts[: max(1, len(parts) - len(path) + 1)]))
    listed = dict(zip(unique(first.get(i, f"arg{i}") for i in range(len(args))), args))
    describe(listed, {name: kwargs[name] for name in sorted(kwargs)}, results, tree).attach(module)
    return module
