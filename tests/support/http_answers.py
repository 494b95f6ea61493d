"""Requests to a server, and what it answers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.bodies import JSON


@dataclass(frozen=True)
class Answer:
    """An answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == JSON, self
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """Returns the contents of an error; the body must have the status too."""
        error: dict[str, Any] = self.json["error"]
        assert error["status"] == self.status >= 400 and error["message"], error
        return error


def request(host: str, port: int, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
    """One request on a connection of its own; underscores in the names of headers stand for hyphens. A body that is not
    of bytes goes in chunks."""
    connection = http.client.HTTPConnection(host, port, timeout=120)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        chunked = not isinstance(body, bytes) and body is not None
        connection.request(method, path, body, named, encode_chunked=chunked)
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()
