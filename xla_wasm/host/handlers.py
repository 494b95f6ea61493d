"""Exceptions that the program's own handlers of signals raise. They come in the middle of anything, and are nobody's
fault."""

from __future__ import annotations

from signal import NSIG, getsignal
from types import CodeType
from typing import Any


def raise_if_handlers(error: BaseException) -> None:
    """Raises an error anew if a handler of a signal has raised it: for whoever makes another error of what a function
    of somebody else raises."""
    traceback = error.__traceback__
    handlers = {_code(getsignal(number)) for number in range(1, NSIG)} - {None}
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            raise error
        traceback = traceback.tb_next


def _code(handler: Any) -> CodeType | None:
    """The code of a handler that is written in Python."""
    function = getattr(handler, "func", handler)  # of a partial
    if callable(function) and not hasattr(function, "__code__"):
        function = type(function).__call__
    return getattr(function, "__code__", None)
