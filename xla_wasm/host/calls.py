"""Functions of the host that a module calls: what they get, and what they must give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, RunError
from .manifest import Leaf, Request

if TYPE_CHECKING:
    from .arrays import Array, Slot

HostFunction = Callable[..., Any]
"""From an array for every operand to the result, or to a sequence of several."""


class HostCall:
    """One call site: the function that serves it, checked."""

    def __init__(self, module: str, request: Request, functions: Mapping[str, HostFunction], slot: Callable[[Leaf, str], Slot]) -> None:
        function = functions.get(request.target)
        target = request.target
        operands = [slot(leaf, f"operand {i}") for i, leaf in enumerate(request.operands)]
        self._results = [slot(leaf, f"result {i} of custom call {target!r} ('{request.name}')") for i, leaf in enumerate(request.results)]
        if not callable(function):
            takes, gives = (", ".join(map(str, slots)) for slots in (operands, self._results))
            raise ArgumentError(
                f"'{module}' calls {target!r}, which takes ({takes}) and gives ({gives}): "
                f"pass a function for it, load(..., custom_calls={{{target!r}: function}})"
            )
        self._function = function
        self._operands = operands
        self._what = f"custom call {target!r} ('{request.name}')"
        self._extra = {"opaque": request.opaque} if _takes_opaque(function) else {}

    def __call__(self, operands: Sequence[Array]) -> list[Array]:
        """The function's results, of the shapes and types that the module declares."""
        arguments = [slot.give(array) for slot, array in zip(self._operands, operands)]
        try:
            given = self._function(*arguments, **self._extra)
        except Exception as error:
            raise RunError(f"{self._what} failed: {type(error).__name__}: {error}") from error
        slots = self._results
        if len(slots) == 1 and not isinstance(given, (tuple, list)):
            given = (given,)
        elif given is None and not slots:
            given = ()
        if not isinstance(given, (tuple, list)) or len(given) != len(slots):
            count = f"{len(given)} results" if isinstance(given, (tuple, list)) else f"one {type(given).__name__}"
            raise ArgumentError(f"{self._what} must return {len(slots)} arrays ({', '.join(map(str, slots))}), not {count}")
        return [slot.accept(array) for slot, array in zip(slots, given)]


def _takes_opaque(function: HostFunction) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get("opaque")
    except (TypeError, ValueError):  # a builtin that has no signature
        return False
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY
