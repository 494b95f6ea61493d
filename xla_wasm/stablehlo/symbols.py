"""Symbolic sizes as jax.export writes them: sums of products of names, such as "2*b + 1" and "floordiv(b*n, 2)"."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from itertools import product

from ..errors import ArgumentError, ParseError, UnsupportedError

Dims = Mapping[str, int | range]
Sizes = Mapping[str, int]
_LARGEST = 2**62
_DEEPEST = 64
_MOST_OPEN = 6
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
    "non_negative": lambda a: max(a, 0),
}


def symbols_of(text: str) -> set[str]:
    """The names in an expression."""
    return {name for name in re.findall(r"[A-Za-z_]\w*", text) if name not in _FUNCTIONS}


def evaluate(text: str, dims: Sizes) -> int:
    """The size that an expression stands for. Raises ParseError where it is none, ArgumentError where the size cannot
    be."""
    if text.isdecimal() and len(text) < 20:
        return int(text)
    try:
        tree = ast.parse(text.replace("^", "**"), mode="eval").body
        size = _value(tree, dims, 0)
    except ZeroDivisionError:
        raise ArgumentError(f"the size {text!r} divides by zero with {dict(dims)}") from None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise ParseError(f"jax.export: {text!r:.100} is no size") from None
    if not 0 <= size < _LARGEST:
        raise ArgumentError(f"the size {text!r} is {size} with {dict(dims)}")
    return size


def bounds(text: str, dims: Mapping[str, range]) -> tuple[int, int]:
    """The least and the greatest size that an expression stands for, where each symbol has a range of sizes.

    Raises UnsupportedError where the ends of the ranges do not tell.
    """
    names = sorted(name for name in symbols_of(text) if name in dims and len(dims[name]) > 1)
    # What is linear in each symbol, or grows with all of them, has its extremes where symbols have theirs.
    bends = re.search(r"\bmod\(", text) or ("-" in text and re.search(r"\^|\b(floordiv|max|min|non_negative)\(", text))
    if names and (bends or len(names) > _MOST_OPEN):
        raise UnsupportedError(
            f"the size {text!r} cannot be bounded where {', '.join(names)} have ranges of sizes: give sizes for them"
        )
    fixed = {name: allowed.start for name, allowed in dims.items()}
    ends = product(*[(dims[name].start, dims[name].stop - 1) for name in names])
    found = [evaluate(text, {**fixed, **dict(zip(names, corner))}) for corner in ends]
    return min(found), max(found)


def _value(node: ast.expr, dims: Sizes, depth: int) -> int:
    if depth > _DEEPEST:
        raise ValueError("too deep")
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        found = node.value
    elif isinstance(node, ast.Name):
        found = dims[node.id] if node.id in dims else _fail(node.id)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = -_value(node.operand, dims, depth + 1)
    elif isinstance(node, ast.BinOp):
        found = _binary(node, _value(node.left, dims, depth + 1), _value(node.right, dims, depth + 1))
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and not node.keywords
    ):
        found = _FUNCTIONS[node.func.id](*[_value(a, dims, depth + 1) for a in node.args])
    else:
        raise ValueError("no size")
    if abs(found) > _LARGEST:
        raise ValueError("too large")
    return found


def _binary(node: ast.BinOp, a: int, b: int) -> int:
    if isinstance(node.op, ast.Add):
        return a + b
    if isinstance(node.op, ast.Sub):
        return a - b
    if isinstance(node.op, ast.Mult):
        return a * b
    if isinstance(node.op, ast.Pow) and 0 <= b <= 64 and abs(a) < _LARGEST:
        return int(a**b)
    raise ValueError("no size")


def _fail(name: str) -> int:
    raise ValueError(f"{name} is not known")
