"""JAX functions as HLO modules. JAX is optional: it is imported when `lower` is called."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .errors import XlaWasmError
from .hlo.ir import Module
from .hlo.signature import PARAMETER_NAMES, RESULT_NAMES


def lower(fn: Callable[..., Any], *args: Any, donate_argnums: Sequence[int] = (), platform: str = "cpu", **kwargs: Any) -> Module:
    """The HLO module of `fn(*args, **kwargs)`; `fn` may be jitted already.

    Arguments are arrays, or pytrees of them; `jax.ShapeDtypeStruct` stands for an array of which only shape and dtype
    are known. Every leaf becomes a parameter, used or not, in the order of `jax.tree.leaves((args, kwargs))`. Names of
    leaves, such as "params.dense.kernel", are kept and name the parameters and results of the compiled module.
    `donate_argnums` lets results take the place of arguments. `platform` picks JAX's lowering rules: "tpu" avoids
    LAPACK's custom calls. For 64-bit types call `lower` with `jax_enable_x64` set.
    """
    try:
        import jax
    except ImportError as error:
        raise XlaWasmError("xla_wasm.jax needs JAX: pip install 'xla-wasm[jax]'") from error
    jitted = jax.jit(fn, keep_unused=True, donate_argnums=tuple(donate_argnums))
    lowered = jitted.trace(*args, **kwargs).lower(lowering_platforms=(platform,))
    module = Module.from_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())

    arguments = jax.tree_util.tree_flatten_with_path((args, kwargs))[0]
    positional = _positional_names(fn, len(args))
    parameter_names = [_dotted(positional[p[1].idx] if p[0].idx == 0 else p[1].key, p[2:]) for p, _ in arguments]
    results = jax.tree_util.tree_flatten_with_path(lowered.out_info)[0]
    result_names = [_dotted("", path) or "result" for path, _ in results]
    _attach(module, PARAMETER_NAMES, parameter_names, sum(1 for p in module.entry.parameters for _ in p.shape.leaves()))
    _attach(module, RESULT_NAMES, result_names, sum(1 for _ in module.entry.root.shape.leaves()))
    return module


def _attach(module: Module, key: str, names: list[str], leaves: int) -> None:
    # JAX may add parameters of its own (tokens of effects, hoisted constants): then names would be on the wrong ones
    if len(names) == leaves:
        module.frontend_attributes[key] = json.dumps(_unique(names))


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
