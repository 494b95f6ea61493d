"""Requests that a served model runs together: gathering, dividing, deadlines, and errors that stay with their
request."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.embedding_cases import RANGED
from tests.support.served_models import ROWS, Array, Client, Gate, ask, error, serving, together
from xla_wasm.errors import ArgumentError, RunError
from xla_wasm.server.batching import Batcher


def test_batches_are_run_together_and_divided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ROWS, batch_deadline=30.0) as app:
        gate = Gate(app, monkeypatch)
        gate.opened.set()
        sizes = (1, 3, 2, 2)  # eight rows: the batch is full and does not wait

        async def work(client: Client) -> list[httpx.Response]:
            return await asyncio.gather(*(client.post("/", json=[[i, 0, n]] * n) for i, n in enumerate(sizes)))

        for i, (n, response) in enumerate(zip(sizes, together(app, work))):
            assert response.json() == {"result": [[2.0 * i, 0.0, 2.0 * n]] * n}
        assert gate.sizes == [8]
        metrics = ask(app, "GET", "/metrics").text
        assert "xla_wasm_batched_requests_total 4.0" in metrics and "xla_wasm_run_seconds_count 1.0" in metrics


def test_a_batch_that_is_not_full_waits_until_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ROWS, batch_deadline=0.05) as app:
        gate = Gate(app, monkeypatch)
        gate.opened.set()
        assert ask(app, json=[[1, 2, 3]]).json() == {"result": [[2.0, 4.0, 6.0]]}

        async def work(client: Client) -> list[httpx.Response]:
            return await asyncio.gather(*(client.post("/", json=[[i, 0, 0]] * n) for i, n in enumerate((5, 5, 8, 0))))

        responses = together(app, work)
        assert [len(r.json()["result"]) for r in responses] == [5, 5, 8, 0]
        assert sorted(gate.sizes) == [0, 1, 5, 5, 8]


def test_errors_stay_with_the_request_that_caused_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ROWS, batch_deadline=30.0) as app:
        run = app._model.run

        def picky(arrays: Any) -> list[Array]:
            if (arrays[0] == 13).any():
                raise RunError("the model trapped")
            return run(arrays)

        monkeypatch.setattr(app._model, "run", picky)

        async def work(client: Client) -> list[httpx.Response]:
            bodies: list[Any] = [[[1, 2, 3]] * 3, [[13, 0, 0]] * 2, [[1, 2]], [[4, 5, 6]] * 3]
            return await asyncio.gather(*(client.post("/", json=body) for body in bodies))

        first, second, third, fourth = together(app, work)
        assert first.json() == {"result": [[2.0, 4.0, 6.0]] * 3}
        assert error(second, 500)["message"] == "the model trapped"
        error(third, 422)
        assert fourth.json() == {"result": [[8.0, 10.0, 12.0]] * 3}


UNBATCHED = {
    "is not dynamic": "HloModule m\nENTRY e { x = f32[8] parameter(0)\n ROOT r = f32[8] negate(x) }",
    "one row at a time": "HloModule m\nENTRY e { x = f32[<=1] parameter(0)\n ROOT r = f32[<=1] negate(x) }",
    "takes from 5 to 8 rows": RANGED.replace("[4,3]", "[5,3]"),
    "two requests of 'm' together": "HloModule m\nENTRY e { x = f32[<=8,2] parameter(0)\n"
    "ROOT r = f32[<=8,2] reverse(x), dimensions={0} }",
}


@pytest.mark.parametrize("why, text", UNBATCHED.items(), ids=list(UNBATCHED))
def test_models_whose_rows_are_not_independent_are_not_batched(why: str, text: str) -> None:
    with pytest.raises(ArgumentError, match=why), serving(text, batch_deadline=0.1):
        pass
    with serving(text) as app:
        assert ask(app, "GET").status_code == 200


def test_results_without_a_row_for_each_of_the_requests_are_not_divided() -> None:
    """A model may keep fewer rows than it gets: then each request is run by itself."""

    async def run(arrays: Any) -> list[Array]:
        (x,) = arrays
        return [x[x[:, 0] > 0]]

    async def work() -> list[Any]:
        batcher = Batcher(run, 8, 0.01, lambda _: None)
        return await asyncio.gather(*(batcher.run([np.array([[first, 1.0]])]) for first in (1, -1, 2)))

    assert [[array.tolist() for array in results] for results in asyncio.run(work())] == [[[[1, 1]]], [[]], [[[2, 1]]]]


def test_requests_of_other_shapes_are_gathered_apart() -> None:
    sizes = []

    async def run(arrays: Any) -> list[Array]:
        sizes.append(arrays[0].shape)
        return [arrays[0] + 1]

    async def work() -> list[Any]:
        batcher = Batcher(run, 4, 0.01, lambda _: None)
        return await asyncio.gather(*(batcher.run([np.zeros((1, width))]) for width in (2, 3, 2, 3, 3)))

    results = asyncio.run(work())
    assert [r[0].shape for r in results] == [(1, 2), (1, 3), (1, 2), (1, 3), (1, 3)]
    assert sorted(sizes) == [(2, 2), (3, 3)]
