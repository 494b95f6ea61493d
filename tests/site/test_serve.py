"""The server of the pages: whom it answers, what it lets its pages do, and clients that say nothing or nonsense."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from xla_wasm.site import serve


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with serve.make_server("127.0.0.1", 0, names=["Pages.example"]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield ("127.0.0.1", server.server_address[1])
        server.shutdown()


def answer(
    address: tuple[str, int], path: str, host: str | None = None, same: str | None = None
) -> tuple[int, http.client.HTTPMessage]:
    """Returns the status and the headers; `same` is the tag of what the client has already."""
    connection = http.client.HTTPConnection(*address, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    if same is not None:
        connection.putheader("If-None-Match", same)
    connection.endheaders()
    with connection.getresponse() as response:
        assert bool(response.read()) == (response.status not in (302, 304))
        return response.status, response.headers


HERE = (
    "localhost LOCALHOST:8000 127.0.0.1 127.0.0.1:80 [::1] [::1]:8000 192.168.1.5 pages.example Pages.Example:1".split()
)
ELSEWHERE = (
    "evil.example localhost.evil.example 127.0.0.1.evil.example :80 [evil] localhost:x 1.2.3.4@evil localhost:80:80"
).split()


def test_only_its_own_names_are_answered(address: tuple[str, int]) -> None:
    """A page of another site that its name server sends here must not read what is here."""
    assert {name: answer(address, "/demo/style.css", name)[0] for name in HERE} == dict.fromkeys(HERE, 200)
    assert {name: answer(address, "/demo/style.css", name)[0] for name in ("", *ELSEWHERE)} == dict.fromkeys(
        ("", *ELSEWHERE), 421
    )
    assert {answer(address, path, "evil.example")[0] for path in ("/", "/demo/digits/digits.wasm", "/nothing")} == {421}
    assert answer(address, "/demo/style.css")[0] == 200


def test_what_a_client_has_is_not_sent_again(address: tuple[str, int]) -> None:
    for path in ("/demo/digits/digits.wasm", "/demo/workers/worker.js"):
        _, headers = answer(address, path)
        status, again = answer(address, path, same=headers["ETag"])
        assert (status, again["ETag"], again["Content-Length"]) == (304, headers["ETag"], None)
        assert answer(address, path, same='"another"')[0] == 200
    assert answer(address, "/docs/nothing.html", same="*")[0] == 404


def test_pages_are_what_they_say_and_run_only_what_is_here(address: tuple[str, int]) -> None:
    for path in ("/", "/demo/", "/demo/style.css", "/demo/digits/digits.wasm", "/xla_wasm.js", "/nothing"):
        _, headers = answer(address, path, "localhost")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert (
            "default-src 'self'" in headers["Content-Security-Policy"]
            and "unsafe-inline" not in headers["Content-Security-Policy"]
        )
        assert "'unsafe-eval'" not in headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/%00", "/demo/%00.js", "/demo/digits/digits.wasm%00", "/pyodide/%00"])
def test_no_path_has_a_null(address: tuple[str, int], path: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert answer(address, path, "localhost")[0] == 400
    assert capfd.readouterr().err == ""


def test_paths_of_any_bytes_are_answered(address: tuple[str, int], capfd: pytest.CaptureFixture[str]) -> None:
    for path in (
        "/%ff",
        "/%ed%a0%80",
        "/" + "a" * 5000,
        "/" + "a/" * 3000,
        "//",
        "/%2e%2e/",
        "/%2f",
        "/pyodide/..%2f..%2f",
        "/\x1b[2J",
    ):
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection(address, timeout=10))
            connection.sendall(b"GET %s HTTP/1.0\r\n\r\n" % path.encode())
            status = connection.makefile("rb").readline().split()[1]
        assert status in (b"301", b"302", b"400", b"404"), path
    assert capfd.readouterr().err == ""


def test_half_a_request_is_hung_up_on_and_many_take_few_threads(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve._StaticHandler, "timeout", 0.5)
    before = threading.active_count()
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(200)]
        for connection in connections:
            try:
                connection.sendall(b"GET /demo/ HT")
            except OSError:
                continue  # hung up on at once
        assert threading.active_count() - before <= serve.MOST_AT_ONCE + 1
        for connection in connections:
            try:
                assert connection.recv(1) == b""
            except ConnectionError:
                continue
    assert answer(address, "/demo/", "localhost")[0] == 200
