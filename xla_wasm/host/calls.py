"""Functions of the host that a module calls: what they get, and what they must give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, RunError, counted, visible
from ..hlo.strings import filled
from .handlers import raise_if_handlers
from .leaf import Leaf
from .manifest import Request

if TYPE_CHECKING:
    from .arrays import Array, Slot

HostFunction = Callable[..., Any]
"""From an array for every operand to the result, or to a sequence of several."""


class HostCall:
    """One call site: the function that serves it, checked."""

    def __init__(
        self, module: str, request: Request, functions: Mapping[str, HostFunction], slot: Callable[[Leaf, str], Slot]
    ) -> None:
        target = request.target
        self._what = _what(request)
        operands = [slot(leaf, f"operand {i}") for i, leaf in enumerate(request.operands)]
        self._results = [slot(leaf, f"result {i} of {self._what}") for i, leaf in enumerate(request.results)]
        function = _of_callback(request, functions) if request.kind == "callback" else functions.get(target)
        if not callable(function):
            takes, gives = (", ".join(map(str, slots)) for slots in (operands, self._results))
            raise ArgumentError(
                f"'{module}' calls {target!r}, which takes ({takes}) and gives ({gives}): "
                f"pass a function for it, load(..., custom_calls={{{target!r}: function}})"
            )
        self._function = function
        self._operands = operands
        self._extra = {"opaque": request.opaque} if _takes_opaque(function) else {}

    def __call__(self, operands: Sequence[Array]) -> list[Array]:
        """The function's results, of the shapes and types that the module declares."""
        arguments = [slot.give(array) for slot, array in zip(self._operands, operands)]
        try:
            given = self._function(*arguments, **self._extra)
        except _Misfit as error:
            raise ArgumentError(str(error)) from None
        except _Unserved as error:
            raise RunError(str(error)) from None
        except Exception as error:
            raise_if_handlers(error)
            raise RunError(f"{self._what} failed: {type(error).__name__}: {error}") from error
        slots = self._results
        if len(slots) == 1 and not isinstance(given, (tuple, list)):
            given = (given,)
        elif given is None and not slots:
            given = ()
        if not isinstance(given, (tuple, list)) or len(given) != len(slots):
            count = counted(len(given), "result") if isinstance(given, (tuple, list)) else f"one {type(given).__name__}"
            raise ArgumentError(
                f"{self._what} must return {counted(len(slots), 'array')} ({', '.join(map(str, slots))}), not {count}"
            )
        return [slot.accept(array) for slot, array in zip(slots, given)]


def _what(request: Request) -> str:
    """A phrase for messages."""
    if request.kind == "custom_call":
        return f"custom call {request.target!r} ('{request.name}')"
    return f"callback '{request.name}'" + (f" ({request.place})" if request.place else "")


class _Unserved(Exception):
    """A callback was reached that nobody serves."""


class _Misfit(Exception):
    """The inputs do not fit together."""


def _of_callback(request: Request, functions: Mapping[str, HostFunction]) -> HostFunction:
    """Returns the function that serves a callback: the caller's own, or one that prints its line, or one that raises an
    error."""
    function = functions.get(request.target) if request.target else None
    if function is not None:
        return function
    line = request.format
    if line and request.target and not request.results:
        return lambda *operands: print(visible(filled(line, operands)))

    def refuse(*operands: Any) -> None:
        what = f"the run has reached {_what(request)}, "
        if request.target:
            how = f"an artifact in a file has none: pass one, load(..., custom_calls={{{request.target!r}: function}})"
            raise _Unserved(f"{what}a Python function, which is not here; {how}")
        if line:
            raise _Misfit(filled(line, operands))
        raise _Unserved(
            f"{what}where the program was compiled to end (callbacks='trap'): compile it with callbacks='host'"
        )

    return refuse


def _takes_opaque(function: HostFunction) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get("opaque")
    except (TypeError, ValueError):  # a builtin that has no signature
        return False
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY
