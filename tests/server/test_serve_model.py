"""The server of one model, driven in this process: routes, instances, limits, batches, metrics, pages, and how it gives
up."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import httpx
import numpy as np
import pytest

import xla_wasm
from tests.support.paths import ROOT
from tests.support.served_models import JSON, ROWS, Array, Client, Gate, ask, compiled, error, serving, together, until
from tests.support.toy_artifact import BIAS, SIDECAR, toy
from xla_wasm.errors import ArgumentError
from xla_wasm.server.model import Model, Source
from xla_wasm.server.settings import Settings

DIGITS = ROOT / "examples" / "digits"

COUNTER = """HloModule counter
ENTRY e {
  count = s32[] parameter(0)
  x = s32[] parameter(1)
  next = s32[] add(count, x)
  ROOT t = (s32[], s32[]) tuple(next, count)
}
"""


def digits() -> xla_wasm.Artifact:
    return xla_wasm.compile(xla_wasm.HloModule.from_proto((DIGITS / "digits.hlo.pb").read_bytes()))


def test_digits_are_read_as_jax_reads_them() -> None:
    images = np.load(DIGITS / "images.npy")[:20, :, :, None].astype(np.float32) / 16
    expected = np.load(DIGITS / "logits.npy")

    async def all_(client: Client) -> list[httpx.Response]:
        return await asyncio.gather(*(client.post("/", json={"image": [image.tolist()]}) for image in images))

    with serving(digits(), concurrency=3) as app:
        for response, logits in zip(together(app, all_), expected):
            np.testing.assert_allclose(response.json()["result"], [logits], atol=1e-4)


def test_the_signature_says_what_goes_in_and_comes_out() -> None:
    with serving(ROWS) as app:
        response = ask(app, "GET")
        entry = {"type": "f32", "shape": ["<=8", 3]}
        assert response.json() == {
            "name": "rows",
            "inputs": [{"name": "x", **entry}],
            "results": [{"name": "result", **entry}],
        }
        assert response.headers["content-length"] == str(len(response.content))
        head = ask(app, "HEAD")
        assert (head.status_code, head.content, head.headers["content-length"]) == (
            200,
            b"",
            response.headers["content-length"],
        )


def test_weights_and_states_are_no_inputs() -> None:
    with serving(toy(), {"w": np.zeros((2, 3), np.float32)}) as app:
        signature = ask(app, "GET").json()
        assert [x["name"] for x in signature["inputs"]] == ["x", "k"]
        assert [x["name"] for x in signature["results"]] == ["y", "k_next", "positive"]


@pytest.mark.parametrize(
    "path, method, allowed",
    [("/", "PUT", "GET, HEAD, POST"), ("/healthz", "POST", "GET, HEAD"), ("/docs", "DELETE", "GET, HEAD")],
)
def test_other_methods_are_answered_with_those_there_are(path: str, method: str, allowed: str) -> None:
    with serving(ROWS) as app:
        response = ask(app, method, path)
        error(response, 405)
        assert response.headers["allow"] == allowed


def test_other_paths_are_not_there() -> None:
    with serving(ROWS) as app:
        for path in ("/nothing", "/healthz/", "/docs/x", "/%00", "/index.html"):
            error(ask(app, "GET", path), 404)
        assert ask(app, "HEAD", "/healthz").status_code == 200


def test_types_that_are_not_known_are_named() -> None:
    with serving(ROWS) as app:
        assert "application/json" in error(ask(app, content=b"x", headers={"Content-Type": "text/csv"}), 415)["message"]
        error(ask(app, content=b"x", headers=JSON | {"Content-Encoding": "gzip"}), 415)
        assert ask(app, json=[[1, 2, 3]], headers={"Content-Encoding": "identity"}).status_code == 200


def test_each_request_begins_with_the_initial_states() -> None:
    artifact = compiled(COUNTER, state=(("count", 0),))
    with serving(artifact, {"count": np.int32(10)}, concurrency=2) as app:
        assert [ask(app, json=n).json() for n in (1, 5, 1)] == [{"result.1": 10}] * 3
    with serving(artifact) as app:
        assert [ask(app, json=n).json() for n in (1, 5)] == [{"result.1": 0}] * 2


@pytest.mark.parametrize("reuse, found", [(False, [0, 0, 0]), (True, [0, 7, 7])])
def test_a_request_does_not_find_what_another_left(reuse: bool, found: list[int]) -> None:
    """The module gives what lies where nothing is but what its last run has put there."""
    artifact = toy(
        """(module (memory (export "memory") 1 1)
        (func (export "init") (param i32))
        (func $step (export "step") (param i32) (result i32)
          (f32.store (i32.const 1088) (f32.load (i32.const 5000)))
          (f32.store (i32.const 5000) (f32.load (i32.const 1024)))
          (i32.const -1))
        (func (export "run") (result i32) (drop (call $step (i32.const 0))) (i32.const 0)))""",
        state=False,
    )
    with serving(artifact, {"w": np.zeros((2, 3), np.float32)}, reuse=reuse) as app:
        assert [ask(app, json={"x": [[7] * 3] * 2, "k": 1}).json()["y"][0][0] for _ in range(3)] == found


@pytest.mark.parametrize("reuse", [False, True])
def test_weights_come_from_outside(reuse: bool) -> None:
    w = np.full((2, 3), 3, np.float32)
    artifact = toy(manifest=None, state=False)
    with serving(artifact, {"w": w}, reuse=reuse) as app:
        for k in range(3):
            answer = ask(app, json={"x": [[1] * 3] * 2, "k": k}).json()
            np.testing.assert_array_equal(answer["y"], 2 + 3 + BIAS + SIDECAR)
            assert answer["k_next"] == k + 1


def refusal(artifact: xla_wasm.Artifact, values: dict[str, Array] | None = None, **settings: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        Model(Source(artifact, values or {}), Settings(**settings))
    return str(caught.value)


def test_what_cannot_be_served_is_said_at_the_start() -> None:
    assert "--weights" in refusal(toy()) and "'w'" in refusal(toy())
    assert "no weight or state called 'v'" in refusal(toy(), {"v": np.zeros(3)})
    assert "must be float32[2,3]" in refusal(toy(), {"w": np.zeros(3, np.float32)})
    assert "state 'count'" in refusal(toy(), {"w": np.zeros((2, 3), np.float32)}, reuse=True)
    feed = "t = token[] after-all()\n i = (f32[2], token[]) infeed(t)"
    fed = f"HloModule fed\nENTRY e {{ {feed}\n ROOT x = f32[2] get-tuple-element(i), index=0 }}"
    assert "has infeed" in refusal(compiled(fed))
    calls = (
        'HloModule m\nENTRY e { x = f32[2] parameter(0)\n ROOT r = f32[2] custom-call(x), custom_call_target="mine" }'
    )
    assert "host's function 'mine'" in refusal(compiled(calls, host_calls=("mine",)))
    several = "HloModule m, replica_count=2\nENTRY e { ROOT r = u32[] replica-id() }"
    assert "several devices" in refusal(compiled(several))


def test_a_trap_is_the_models_failure_and_the_next_request_is_served() -> None:
    with serving(toy(), {"w": np.zeros((2, 3), np.float32)}) as app:
        good = {"x": [[1] * 3] * 2, "k": 1}
        for _ in range(3):
            message = error(ask(app, json=good | {"x": [[-1] * 3] * 2}), 500)["message"]
            assert "affine.1" in message and "unreachable" in message
            assert ask(app, json=good).status_code == 200


def test_a_run_that_takes_too_long_is_ended() -> None:
    with serving(toy(), {"w": np.zeros((2, 3), np.float32)}, run_timeout=0.05) as app:
        assert "longer than its 0.05 s" in error(ask(app, json={"x": [[-2] * 3] * 2, "k": 1}), 500)["message"]
        assert ask(app, json={"x": [[1] * 3] * 2, "k": 1}).status_code == 200


def test_a_mistake_in_the_server_itself_says_nothing_of_its_inside(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(ROWS) as app:
        monkeypatch.setattr(Model, "run", lambda *_: 1 / 0)
        monkeypatch.setattr(app._model, "run", lambda *_: 1 / 0, raising=False)
        assert "log" in error(ask(app, json=[[1, 2, 3]]), 500)["message"]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("concurrency, queue", [(1, 0), (2, 3)])
def test_too_many_at_once_are_turned_away(concurrency: int, queue: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ROWS, concurrency=concurrency, queue=queue) as app:
        gate = Gate(app, monkeypatch)
        most = concurrency + queue

        async def work(client: Client) -> list[httpx.Response]:
            taken = [asyncio.create_task(client.post("/", json=[[i, 2, 3]])) for i in range(most)]
            await until(lambda: app.engine._taken == most)
            turned_away = await client.post("/", json=[[1, 2, 3]])
            assert int(turned_away.headers["retry-after"]) >= 1
            error(turned_away, 429)
            await until(lambda: len(gate.sizes) == concurrency)
            health = await client.get("/healthz")
            assert health.status_code == 200, "the event loop is not held up by runs"
            gate.opened.set()
            return await asyncio.gather(*taken)

        responses = together(app, work)
        assert [r.json()["result"] for r in responses] == [[[2.0 * i, 4.0, 6.0]] for i in range(most)]
        assert ask(app, json=[[1, 2, 3]]).status_code == 200
        assert 'requests_total{status="429"} 1.0' in ask(app, "GET", "/metrics").text


async def chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def test_bodies_that_are_too_large_are_refused_by_length_and_by_chunks() -> None:
    with serving(ROWS) as app:
        large = b"[" + b"1," * 100_000 + b"1]"
        for content in (large, chunks(large, 1000)):
            response = ask(app, content=content, headers=JSON)
            assert "application/json" in error(response, 413)["message"]
            assert response.headers["connection"] == "close"
        raw = {"Content-Type": "application/octet-stream"}
        assert ask(app, content=bytes(96), headers=raw).status_code == 200
        error(ask(app, content=bytes(97), headers=raw), 413)
    with serving(ROWS, max_body=20) as app:
        assert ask(app, content=b"[[1,2,3]]", headers=JSON).status_code == 200
        error(ask(app, content=b"[[1,2,3] ]" + b" " * 20, headers=JSON), 413)


def test_a_body_that_arrives_in_pieces_is_one_body() -> None:
    with serving(ROWS) as app:
        response = ask(app, content=chunks(b'{"x": [[1, 2, 3], [4, 5, 6]]}', 1), headers=JSON)
        assert response.json() == {"result": [[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]}


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"[["
        await asyncio.sleep(60)

    with serving(ROWS, body_timeout=1.0, queue=0, concurrency=1) as app:

        async def work(client: Client) -> None:
            slow = [asyncio.create_task(client.post("/", content=never(), headers=JSON)) for _ in range(5)]
            await until(lambda: app._bodies._held == 2 * len(slow))
            assert (await client.post("/", json=[[1, 2, 3]])).status_code == 200, "slow clients take no place"
            for response in await asyncio.gather(*slow):
                error(response, 408)

        together(app, work)
        assert app._bodies._held == 0


def test_what_has_not_ended_when_the_server_gives_up_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ROWS, concurrency=1, queue=5) as app:
        gate = Gate(app, monkeypatch)

        async def work(client: Client) -> None:
            taken = [asyncio.create_task(client.post("/", json=[[1, 2, 3]])) for _ in range(3)]
            await until(lambda: app.engine._taken == 3 and app.engine.at_work == 1)
            app.engine.stop()
            late = await client.get("/healthz")
            assert (late.status_code, late.headers["connection"]) == (200, "close")
            assert app.engine.abandon() == 1
            for response in [*await asyncio.gather(*taken), await client.post("/", json=[[1, 2, 3]])]:
                error(response, 503)
            gate.opened.set()
            await until(lambda: app.engine.at_work == 0)

        together(app, work)


def test_metrics_count_requests_and_runs() -> None:
    with serving(ROWS) as app:
        for body in ([[1, 2, 3]], [[1, 2, 3]], [[1]]):
            ask(app, json=body)
        ask(app, "GET", "/nothing")
        ask(app, "GET", "/healthz")
        response = ask(app, "GET", "/metrics")
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = response.text.splitlines()
        for line in (
            'xla_wasm_requests_total{status="200"} 2.0',
            'xla_wasm_requests_total{status="422"} 1.0',
            'xla_wasm_requests_total{status="404"} 1.0',
            "xla_wasm_run_seconds_count 2.0",
            "xla_wasm_request_seconds_count 3.0",
            'xla_wasm_request_seconds_bucket{le="+Inf"} 3.0',
            "xla_wasm_memory_bytes 0.0",
            "xla_wasm_requests_in_progress 0.0",
            "# TYPE xla_wasm_request_seconds histogram",
        ):
            assert line in lines, response.text
        assert float(next(line for line in lines if line.startswith("xla_wasm_run_seconds_sum")).split()[1]) > 0


def test_openapi_describes_every_route_and_its_examples_work() -> None:
    with serving(digits()) as app:
        document = ask(app, "GET", "/openapi.json").json()
        assert document["openapi"].startswith("3.1") and set(document["paths"]) == {"/", "/healthz", "/metrics"}
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
                response = ask(app, method, path, **({"json": body} if body else {}))
                content = operation["responses"]["200"]["content"]
                assert response.status_code == 200
                assert response.headers["content-type"].partition(";")[0] in content
        schema = document["components"]["schemas"]["Inputs"]["properties"]["image"]
        sizes = []
        while schema.get("type") == "array":
            assert schema["minItems"] == schema["maxItems"]
            sizes.append(schema["maxItems"])
            schema = schema["items"]
        assert sizes == [1, 8, 8, 1]
        for reference in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)):
            at = document
            for part in reference.split("/"):
                at = at[part]


class Page(HTMLParser):
    """The tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str, attribute: str) -> list[str | None]:
        """An attribute of all tags of a kind."""
        return [attrs.get(attribute) for name, attrs in self.tags if name == tag]


NAMED = json.dumps(json.dumps(['<a href="x">&', "b"]))
HOSTILE = f"""HloModule named, frontend_attributes={{xla_wasm.parameter_names={NAMED}}}
ENTRY e {{ a = f32[2] parameter(0)
 b = f32[2] parameter(1)
 ROOT r = f32[2] add(a, b) }}
"""


def test_pages_load_nothing_from_elsewhere_and_show_names_as_they_are() -> None:
    with serving(HOSTILE) as app:
        browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        assert (
            ask(app, "GET", headers={"Accept": "application/json, text/html;q=0.9"}).headers["content-type"]
            == "application/json"
        )
        for path in ("/", "/docs"):
            response = ask(app, "GET", path, headers=browser)
            assert response.headers["content-type"] == "text/html; charset=utf-8"
            assert "default-src 'none'" in response.headers["content-security-policy"]
            page = Page(response.text)
            links = {
                link
                for tag in ("a", "link", "script", "img", "form")
                for of in ("href", "src", "action")
                for link in page.all(tag, of)
            }
            assert links <= {None, "", "./", "docs", "metrics", "openapi.json", "data:,"}
        front = Page(ask(app, "GET", headers=browser).text)
        assert front.all("textarea", "name") == ['<a href="x">&', "b"]
        assert front.all("form", "enctype") == ["multipart/form-data"]


def test_the_form_works_without_a_script() -> None:
    """The server reads a form as a browser submits it: all fields, those that were left empty too."""
    with serving(TWO_INPUTS) as app:
        page = Page(ask(app, "GET", headers={"Accept": "text/html"}).text)
        assert page.all("textarea", "name") == ["a", "b"]
        file = io.BytesIO()
        np.save(file, np.array([3, 4], np.float32))
        parts = [
            ("a", (None, b"1 2")),
            ("a", ("", b"", "application/octet-stream")),
            ("b", (None, b"")),
            ("b", ("b.npy", file.getvalue(), "application/octet-stream")),
        ]
        assert ask(app, files=parts, headers={"Accept": "text/html,*/*;q=0.8"}).json() == {"result": [4.0, 6.0]}


TWO_INPUTS = "HloModule m\nENTRY e { a = f32[2] parameter(0)\n b = f32[2] parameter(1)\n ROOT r = f32[2] add(a, b) }"


def test_a_model_without_inputs_takes_no_body() -> None:
    with serving("HloModule m\nENTRY e { ROOT r = s32[2] constant({4, 5}) }") as app:
        for request in ({}, {"json": {}}, {"content": b"", "headers": JSON}):
            assert ask(app, **request).json() == {"result": [4, 5]}
        assert error(ask(app, json={"x": 1}), 422)["field"] == "x"
