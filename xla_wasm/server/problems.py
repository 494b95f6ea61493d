"""The errors of requests: a status, and a message for whoever sent it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class Problem(Exception):
    """A request that is answered with an error. `headers` go with the answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        field: str | None = None,
        expected: str | None = None,
        given: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})
        self._details = {"field": field, "expected": expected, "given": given}

    def content(self) -> dict[str, Any]:
        """The body of the answer."""
        known = {key: value for key, value in self._details.items() if value is not None}
        return {"error": {"status": self.status, "message": self.message, **known}}


def encoded(content: object) -> bytes:
    """JSON, as compact as it gets."""
    return json.dumps(content, separators=(",", ":")).encode()


def unreadable(message: str, field: str | None = None) -> Problem:
    """400: a body that cannot be parsed."""
    return Problem(400, message, field=field)


def unfit(message: str, field: str | None = None, expected: object = None, given: object = None) -> Problem:
    """422: a body that was parsed and is not what the model takes."""
    return Problem(
        422,
        message,
        field=field,
        expected=None if expected is None else str(expected),
        given=None if given is None else str(given),
    )
