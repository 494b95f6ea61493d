"""Python functions that a JAX program calls: what goes along with its module, and what `jax.debug.print` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import Formatter
from typing import Any

from ..hlo.ir import Module
from ..ops.custom import callback


def add_callbacks(module: Module, functions: Sequence[Callable[..., Any]]) -> None:
    """Gives a module the functions that it calls, which JAX numbers, and the formats of those that print."""
    import jax

    formats = {}
    for x in module.instructions():
        number = callback.number_of(x) if callback.is_callback(x) else ""
        if not number.isdigit() or int(number) >= len(functions):
            continue
        function = functions[int(number)]
        ordered = bool(x.operands) and x.operands[0].shape.is_token
        module.callbacks[callback.function_name(x)] = partial(
            _call_back, function, ordered, jax.config.read("jax_enable_x64")
        )
        line = _line_format(function)
        if line:
            formats[number] = line
    if formats:
        module.frontend_attributes[callback.FORMATS] = json.dumps(formats)


def _call_back(function: Callable[..., Any], ordered: bool, x64: bool, *operands: Any) -> list[Any]:
    """Calls JAX's wrapper of a Python function and returns its arrays: with a token in front, if it is ordered."""
    import jax

    with jax.enable_x64(x64):
        return [*function(None, *operands)][1:] if ordered else [*function(*operands)]


_SPEC = r"[<>^]?[+ ]?0?\d{0,3},?(\.\d{1,2})?[defg%]?"
"""The formats of numbers that work without Python."""


class _Operand(int):
    """The number of an operand, in the place of its value."""


def _line_format(function: Callable[..., Any]) -> str:
    """Returns the text that `jax.debug.print` prints, as `Request.format` has it; "" for another function, or one that
    prints something else than arrays and constants.

    JAX has no interface that tells: this looks for what the function has closed over, under the names of JAX 0.4 to
    0.10.
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
        args, kwargs = tree.unflatten(
            [constants[i] if i in constants else next(numbers) for i in range(tree.num_leaves)]
        )
        return (
            _numbered(line, args, kwargs)
            if has_fields
            else _numbered(" ".join([_escaped(line), *("{}" for _ in args)]), args, {})
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return ""


def _closed_over(function: Any, name: str) -> Any:
    """The function of this name among those that a function refers to, by its closure or as arguments of a partial
    one."""
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
    """A format whose fields are numbers of operands; constants are printed into it. Raises KeyError where a field is
    more than a name."""
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
        parts.append(
            f"{{{int(value)}{shown}}}" if isinstance(value, _Operand) else _escaped(f"{{0{shown}}}".format(value))
        )
    return "".join(parts)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
