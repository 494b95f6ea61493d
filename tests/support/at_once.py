"""Work in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any


def at_once(work: Callable[[Any], None], arguments: Iterable[Any], seconds: float = 120) -> None:
    """Calls `work` with each argument in a thread of its own. All must end in that time, and none with an error."""
    failures: list[BaseException] = []

    def call(argument: Any) -> None:
        try:
            work(argument)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(argument,), daemon=True) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not failures, failures[0]
    assert not any(thread.is_alive() for thread in threads)
