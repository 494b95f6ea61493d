"""Servers: artifacts that are components of wasi:http, under `wasmtime serve`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import xla_wasm
from tests.support.bodies import JSON, NPY, NPZ, RAW, damaged, load_npy, npy, npz
from tests.support.embedding_cases import RANGED
from tests.support.wasi_commands import SUM, TWO, A, B, as_bytes, identity, samples
from tests.support.wasi_servers import COUNTER, Server, server, serving
from xla_wasm import ArtifactError, Options, UnsupportedError
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.types import ARRAY_TYPES
from xla_wasm.site import minilm


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(server(TWO), tmp_path_factory.mktemp("two")) as made:
        yield made


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(server(identity("f32[2,3]")), tmp_path_factory.mktemp("one")) as made:
        yield made


RESULTS = {"result.0": SUM.tolist(), "result.1": (-B).tolist()}


def test_what_it_tells_of_itself(two: Server) -> None:
    told = two.ask()
    assert (told.status, told.headers["content-type"], int(told.headers["content-length"])) == (
        200,
        JSON,
        len(told.body),
    )
    assert told.json == {
        "name": "two",
        "inputs": [{"name": "a", "type": "f32", "shape": [2, 3]}, {"name": "b", "type": "s32", "shape": [3]}],
        "results": [
            {"name": "result.0", "type": "f32", "shape": [2, 3]},
            {"name": "result.1", "type": "s32", "shape": [3]},
        ],
    }
    head = two.ask("HEAD")
    assert (head.status, head.body) == (200, b"")
    page = two.ask(Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert page.headers["content-type"].startswith("text/html") and page.body.startswith(b"<!doctype html>")
    assert two.ask(path="/?x=1", Accept="*/*").json == told.json
    assert two.ask(path="/healthz").body == b"ok\n"
    assert b"xla_wasm_memory_bytes " in two.ask(path="/metrics").body


def test_its_page_runs_the_model(two: Server, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    page.goto(f"http://127.0.0.1:{two.port}/")
    page.locator("textarea[name=a]").fill(json.dumps(A.tolist()))
    page.locator("textarea[name=b]").fill("[1, 2,")
    page.get_by_role("button", name="Run").click()
    answer = page.get_by_role("status")
    expect(answer).to_contain_text('error: {"status":400')
    page.locator("textarea[name=b]").fill(json.dumps(B.tolist()))
    page.get_by_role("button", name="Run").click()
    expect(answer).to_contain_text("result.0: ")
    found = dict(line.split(": ") for line in answer.inner_text().splitlines())
    assert {name: json.loads(values) for name, values in found.items()} == RESULTS
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light dark"


def form(boundary: str = "XyZ", **parts: tuple[str, bytes]) -> tuple[bytes, str]:
    """A form: name -> further headers and content."""
    lines = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"
        for name, (more, content) in parts.items()
    )
    return lines + f"--{boundary}--\r\n".encode(), f'multipart/form-data; boundary="{boundary}"'


def test_forms_of_bodies(two: Server, one: Server) -> None:
    text = json.dumps({"b": B.tolist(), "a": A.tolist()}).encode()
    assert two.post(text).json == RESULTS
    assert two.post(text, "Application/JSON; charset=utf-8").json == RESULTS
    assert two.post(npz(a=A, b=B), NPZ, JSON).json == RESULTS
    assert two.post(npz(True, arr_0=A, arr_1=B), "application/zip", JSON).json == RESULTS
    mixed = form(b=("", b"1 -2 1000"), a=('; filename="x.npy"\r\nContent-Type: application/octet-stream', npy(A)))
    assert two.post(*mixed).json == RESULTS
    mixed = form(
        a=("\r\nContent-Type: application/json", json.dumps(A.tolist()).encode()), b=('; filename="b.bin"', B.tobytes())
    )
    assert two.post(*mixed).json == RESULTS
    # Dashes and line ends in an array are no boundary.
    tricky = np.frombuffer(b"\r\n--Xy\r\n--\r\n\r\n--Xy\r\r\n-ab", np.uint8)[:24].view(np.float32).reshape(2, 3)
    shown = one.post(*form(x=('; filename="x.raw"', tricky.tobytes())), accept=RAW)
    assert shown.body == tricky.tobytes()
    for body, type_ in (
        (json.dumps(A.tolist()).encode(), JSON),
        (json.dumps({"x": A.tolist()}).encode(), JSON),
        (npy(A), NPY),
        (A.tobytes(), RAW),
        (b"0 .125 .25 .375 .5 .625", "text/plain"),
        (npz(x=A), NPZ),
    ):
        assert one.post(body, type_, JSON).json == {"result": A.tolist()}
    assert one.ask("POST", "/", iter([npy(A)[:50], npy(A)[50:]]), Content_Type=NPY, Accept=JSON).json == {
        "result": A.tolist()
    }


def test_forms_of_answers(two: Server, one: Server) -> None:
    body = npy(A)
    for accept, wanted in (
        ("", NPY),
        ("*/*", NPY),
        (JSON, JSON),
        (f"{NPY};q=0.5, {JSON}", JSON),
        (f"{JSON};q=0.1,*/*;q=0.5", NPY),
        ("application/*", NPY),
        (RAW, RAW),
        (f"text/html, {NPZ}", NPZ),
        (f"{NPY};q=0, */*;q=0.1, {RAW}", RAW),
    ):
        answer = one.post(body, NPY, accept)
        assert (answer.status, answer.headers["content-type"]) == (200, wanted), accept
        assert int(answer.headers["content-length"]) == len(answer.body)
        if wanted == NPY:
            assert as_bytes(load_npy(answer.body)) == as_bytes(A)
        elif wanted == RAW:
            assert answer.body == A.tobytes()
    for type_, content in ((NPZ, npz(a=A, b=B)), (JSON, json.dumps({"a": A.tolist(), "b": B.tolist()}).encode())):
        assert two.post(content, type_).headers["content-type"] == type_
        made = two.post(content, type_, NPZ)
        import io

        with np.load(io.BytesIO(made.body)) as archive:
            assert as_bytes(archive["result.0"]) == as_bytes(SUM) and as_bytes(archive["result.1"]) == as_bytes(-B)
        assert two.post(content, type_, NPY).status == 406
    assert one.post(body, NPY, "text/html").status == 406


ERRORS = [
    ("PUT", "/", b"", JSON, 405, {}),
    ("GET", "/nothing", b"", JSON, 404, {}),
    ("POST", "/healthz", b"", JSON, 405, {}),
    ("POST", "/", b"[1]", "application/xml", 415, {}),
    ("POST", "/", b"", JSON, 400, {}),
    ("POST", "/", b"[[1,2,3],[4,5,6]", JSON, 400, {"field": "x", "expected": "f32[2,3]"}),
    ("POST", "/", b"[[1,2,3],[4,5,6]]]", JSON, 400, {"message": "the body goes on behind the arrays"}),
    ("POST", "/", b"[[1,2],[4,5]]", JSON, 422, {"field": "x", "expected": "f32[2,3]", "given": "[2,2]"}),
    ("POST", "/", b'{"y": 1}', JSON, 422, {"field": "y"}),
    ("POST", "/", b'{"x": [1,2,3,4,5,6], "x": 1}', JSON, 422, {"field": "x"}),
    ("POST", "/", b"{}", JSON, 422, {"field": "x", "message": "an input is missing"}),
    ("POST", "/", b'{"x": [1,2,3,4,5,"a"]}', JSON, 400, {"field": "x"}),
    ("POST", "/", b"[1,2,3,4,5,1e39]", JSON, 422, {"field": "x"}),
    ("POST", "/", npy(A.astype(np.complex64)), NPY, 422, {"field": "x", "expected": "f32[2,3]", "given": "c64[2,3]"}),
    ("POST", "/", npy(A.T.copy()), NPY, 422, {"field": "x", "given": "f32[3,2]"}),
    ("POST", "/", npy(A)[:-1], NPY, 400, {"field": "x"}),
    ("POST", "/", npy(A) + b"x", NPY, 400, {"field": "x"}),
    ("POST", "/", A.tobytes()[:-4], RAW, 422, {"field": "x"}),
    ("POST", "/", A.tobytes()[:-3], RAW, 400, {"field": "x"}),
    ("POST", "/", A.tobytes() + b"1234", RAW, 413, {}),
    ("POST", "/", bytes(200_000), JSON, 413, {}),
    ("POST", "/", b"x", "multipart/form-data", 400, {}),
    ("POST", "/", npz(z=A), NPZ, 422, {"field": "z"}),
]


@pytest.mark.parametrize(("method", "path", "body", "type_", "status", "told"), ERRORS)
def test_errors(
    one: Server, method: str, path: str, body: bytes, type_: str, status: int, told: dict[str, str]
) -> None:
    answer = one.ask(method, path, body, Content_Type=type_)
    assert answer.status == status and told.items() <= answer.error.items(), answer
    assert one.ask(path="/healthz").status == 200


def test_bodies_without_an_end(one: Server) -> None:
    """Too long without saying so, and cut off."""
    blocks = iter([b"[" + b" " * 50_000] + [b" " * 50_000] * 10)
    try:
        assert one.ask("POST", "/", blocks, Content_Type=JSON).status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server has answered and does not listen any more
    for sent in (b"", b"\x93NUMPY", npy(A)[:100]):
        with socket.create_connection(("127.0.0.1", one.port), timeout=60) as client:
            head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: {NPY}\r\nContent-Length: {len(npy(A))}\r\n\r\n"
            client.sendall(head.encode() + sent)
            client.shutdown(socket.SHUT_WR)
            client.recv(65536)
    assert one.post(npy(A), NPY, JSON).json == {"result": A.tolist()}


def test_bodies_cut_where_what_came_makes_sense(tmp_path: Path) -> None:
    """Fewer rows than were announced, or no last chunk: nobody knows what is missing."""
    rows = "HloModule m\n\nENTRY e {\n  x = f32[<=4,3] parameter(0)\n  ROOT y = f32[<=4,3] negate(x)\n}\n"
    half = np.ones((2, 3), np.float32).tobytes()
    with serving(server(rows), tmp_path) as made:
        for head, sent in (
            (f"Content-Type: {RAW}\r\nContent-Length: 48", half),
            (f"Content-Type: {RAW}\r\nTransfer-Encoding: chunked", b"18\r\n" + half + b"\r\n"),
            (f"Content-Type: {JSON}\r\nContent-Length: 20", b"[[1, 2, 3]]"),
        ):
            with socket.create_connection(("127.0.0.1", made.port), timeout=60) as client:
                client.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n\r\n".encode() + sent)
                client.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: client.recv(65536), b""))
            assert not answer or answer.startswith(b"HTTP/1.1 400 "), answer
        assert made.post(half, RAW, JSON).json == {"result": [[-1, -1, -1]] * 2}


def test_minilm(tmp_path: Path) -> None:
    """A model with 45 MB of weights in it: the same bits as under `load`, in every request."""
    ids = np.zeros(128, np.int32)
    ids[:4] = [101, 7592, 2088, 102]
    (embedding,) = xla_wasm.load(xla_wasm.compile(minilm.encoder())).run(ids, np.int32(4))
    body = json.dumps({"ids": ids.tolist(), "length": 4}).encode()
    with serving(xla_wasm.compile(minilm.encoder(), Options(kind="server")), tmp_path) as made:
        for _ in range(3):
            assert made.post(body, JSON, RAW).body == embedding.tobytes()


def test_what_a_body_may_be(one: Server, two: Server) -> None:
    text = json.dumps(A.tolist()).encode()
    for coding, status in (("identity", 200), ("gzip", 415), ("br", 415)):
        assert one.ask("POST", "/", text, Content_Type=JSON, Content_Encoding=coding).status == status
    scalar = form(x=("", b""))
    assert one.post(*scalar).json["error"]["message"] == "an input is missing"
    twice = form(boundary="B", x=("", b"0 .125 .25 .375 .5 .625"))
    assert one.post(b'--B\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n' + twice[0], twice[1]).status == 200
    assert one.post(twice[0], "multipart/form-data; BOUNDARY=B").status == 200
    assert two.post(b'{"\\u0061": [[1,2,3],[4,5,6]], "b": [1,2,3]}').status == 200
    assert one.post(b"[1e999,1,1,1,1,1]").status == 422


def test_damaged_bodies(one: Server, two: Server) -> None:
    """A thousand bodies with mistakes get an answer that says so, and the server goes on."""
    rng = np.random.default_rng(1)
    text = json.dumps({"a": A.tolist(), "b": B.tolist()}).encode()
    goods = [
        (two, npz(a=A, b=B), NPZ),
        (two, npz(True, a=A, b=B), NPZ),
        (one, npy(A), NPY),
        (two, text, JSON),
        (two, *form(a=("", b"1 2 3 4 5 6"), b=("\r\nContent-Type: application/json", b"[1,2,3]"))),
    ]
    seen = set()
    for turn in range(1000):
        to, good, type_ = goods[turn % len(goods)]
        answer = to.post(damaged(good, rng, cut=turn % 3 == 0), type_)
        assert answer.status in (200, 400, 413, 422), (turn, answer)
        assert answer.status == 200 or answer.json["error"]["status"] == answer.status
        seen.add(answer.status)
    assert {200, 400, 422} <= seen
    assert two.post(text).json == RESULTS


def test_instances_that_are_used_again(tmp_path: Path) -> None:
    """Each request begins with the states as they are at first; counts go on; after mistakes and large bodies nothing
    is left over."""
    with serving(server(COUNTER, state={"n": 0}), tmp_path, "--max-instance-reuse-count", "100000") as made:
        for i in range(300):
            assert made.post(str(i).encode()).json == {"result.1": -i}
            assert made.post(b"[").status == 400
        # Each instance counts its own; wasmtime chooses which one is asked.
        counts = "".join(made.ask(path="/metrics").body.decode() for _ in range(20))
        assert 'xla_wasm_requests_total{status="200"} ' in counts and 'xla_wasm_requests_total{status="400"} ' in counts


@pytest.mark.parametrize("element_type", ["pred", "s4", "s64", "u8", "f16", "bf16", "f64", "c64", "f8e4m3fn"])
def test_element_types(element_type: str, tmp_path: Path) -> None:
    assert element_type in ARRAY_TYPES
    x = samples(element_type, 4096)
    with serving(server(identity(f"{element_type}[4096]")), tmp_path) as made:
        assert made.post(x.tobytes(), RAW).body == x.tobytes()
        shown = made.post(x.tobytes(), RAW, JSON)
        assert made.post(json.dumps(shown.json["result"]).encode(), JSON, JSON).body == shown.body


def test_any_byte_but_zero_is_true(tmp_path: Path) -> None:
    data = bytes([255, 0, 1, 2, 128, 254])
    with serving(server(identity("pred[6]")), tmp_path) as made:
        for body, type_ in ((data, RAW), (npy(np.frombuffer(data, np.bool_)), NPY)):
            assert made.post(body, type_, RAW).body == bytes([1, 0, 1, 1, 1, 1])


def test_dynamic_batches(tmp_path: Path) -> None:
    text = "HloModule d\n\nENTRY e {\n  x = f32[<=5,4] parameter(0)\n  ROOT y = f32[<=5,4] negate(x)\n}\n"
    with serving(server(text), tmp_path) as made:
        assert made.ask().json["inputs"][0]["shape"] == ["<=5", 4]
        for rows in (1, 3, 5):
            x = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
            assert as_bytes(load_npy(made.post(npy(x), NPY).body)) == as_bytes(-x)
            assert made.post(x.tobytes(), RAW).body == (-x).tobytes()
            assert made.post(json.dumps(x.tolist()).encode()).json == {"result": (-x).tolist()}
        assert made.post(npy(np.zeros((6, 4), np.float32)), NPY).json["error"]["expected"] == "f32[<=5,4]"


def test_ranges_of_sizes(tmp_path: Path) -> None:
    with serving(server(RANGED), tmp_path) as made:
        assert made.ask().json["inputs"][0]["shape"] == ["4..8", 3]
        for rows in (0, 3, 4, 8, 9):
            x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
            bodies = ((npy(x), NPY), (x.tobytes(), RAW), (json.dumps(x.tolist()).encode(), JSON))
            answers = [made.post(*body, JSON) for body in bodies]
            if rows in (4, 8):
                assert all(answer.json == {"result": (-x).tolist()} for answer in answers), answers
            else:
                assert all(answer.status in (413, 422) for answer in answers), answers
                assert answers[0].json["error"]["expected"] == "f32[4..8,3]"
    with pytest.raises(UnsupportedError, match="its state 'x' is empty in each request"):
        xla_wasm.compile(Module.from_text(RANGED), Options(kind="server", state=((0, 0),)))


LARGE = """HloModule l

ENTRY e {
  x = f32[8,512] parameter(0)
  w = f32[512,512] constant(VALUES)
  ROOT y = f32[8,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
FED = """HloModule f

ENTRY e {
  t = token[] after-all()
  i = (f32[3], token[]) infeed(t)
  ROOT x = f32[3] get-tuple-element(i), index=0
}
"""


def test_a_large_model_is_prepared(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((512, 512)).astype(np.float32)
    literal = str(w.tolist()).replace("[", "{").replace("]", "}")
    module = Module.from_text(LARGE.replace("VALUES", literal))
    x = rng.standard_normal((8, 512)).astype(np.float32)
    (expected,) = xla_wasm.load(xla_wasm.compile(module)).run(x)
    made = server(module)
    assert not [init for init in made.manifest["inits"] if init["kind"] == "segment"]
    with serving(made, tmp_path) as served:
        assert served.post(x.tobytes(), RAW).body == expected.tobytes()


def test_what_no_server_can_do() -> None:
    with pytest.raises(UnsupportedError, match="its weight 'x' would come from a file, which a server does not read"):
        server(identity("f32[3]"), weights=("x",))
    with pytest.raises(UnsupportedError, match="needs a host while the program runs"):
        server(FED)
    with pytest.raises(ArtifactError, match="'two' is compiled as a server, which runs by itself"):
        xla_wasm.load(server(TWO))
