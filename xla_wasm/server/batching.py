"""Requests that are run together: rows of several, one after another along the first dimension, divided again
afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from ..dataclass import dataclass
from ..errors import ArgumentError, LimitError, RunError
from ..hlo.types import TYPES
from ..host.arrays import Array, dtype_of
from ..host.leaf import Leaf
from .model import Model

Arrays = Sequence[Array]
Run = Callable[[Arrays], Awaitable[list[Array]]]


def rows_of(model: Model) -> int:
    """The bound of the first dimension of all inputs and results. ArgumentError if there is no such dimension."""
    bounds = set()
    for leaf in (*model.inputs, *model.results):
        if not leaf.sizes or leaf.sizes[0] is None:
            raise ArgumentError(
                f"--batch-deadline: the first dimension of '{leaf.name}', {leaf}, is not dynamic: requests cannot be "
                f"batched"
            )
        bounds.add(leaf.dimensions[0])
    if len(bounds) != 1:
        raise ArgumentError(
            f"--batch-deadline: inputs and results of '{model.name}' have different bounds, {sorted(bounds)}, of "
            f"their rows"
        )
    (bound,) = bounds
    if bound < 2 * (least := _least_rows(model)):
        takes = "one row at a time" if bound < 2 else f"from {least} to {bound} rows at a time"
        raise ArgumentError(f"--batch-deadline: '{model.name}' takes {takes}: requests cannot be batched")
    return bound


def _least_rows(model: Model) -> int:
    """The fewest rows, if there are any, of a request."""
    return max([1, *(leaf.least_dimensions[0] for leaf in model.inputs)])


def check_rows(model: Model) -> None:
    """ArgumentError if a row's results depend on the rows of another request, as random inputs show it. No proof, but
    most mistakes are seen."""
    rng, rows = np.random.default_rng(0), _least_rows(model)
    first, second = ([_random(rng, leaf, rows) for leaf in model.inputs] for _ in range(2))
    try:
        apart = [model.run(first), model.run(second)]
        together = model.run([np.concatenate(pair) for pair in zip(first, second)])
    except (RunError, LimitError):
        return  # made-up inputs may be none that the model can do anything with
    for leaf, one, two, both in zip(model.results, *apart, together):
        if not _alike(np.concatenate([one, two]), both):
            raise ArgumentError(
                f"--batch-deadline: two requests of '{model.name}' together give another '{leaf.name}' than each "
                "alone: they would change each other's answers, so they cannot be batched"
            )


def _random(rng: np.random.Generator, leaf: Leaf, rows: int) -> Array:
    """So many rows: normal floats, or 0 and 1 where these are not whole numbers."""
    shape = (rows, *leaf.dimensions[1:])
    whole = TYPES[leaf.element_type].kind in ("pred", "signed", "unsigned")
    values = rng.integers(0, 2, shape) if whole else rng.standard_normal(shape)
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(dtype_of(leaf.element_type))


def _alike(expected: Array, given: Array) -> bool:
    if expected.shape != given.shape:
        return False
    if given.dtype.kind in "biu":
        return bool(np.array_equal(expected, given))
    wide = np.complex128 if given.dtype.kind == "c" else np.float64
    return bool(np.allclose(expected.astype(wide), given.astype(wide), rtol=1e-2, atol=1e-3, equal_nan=True))


@dataclass
class _Waiting:
    """A request that waits for its batch."""

    arrays: Arrays
    rows: int
    answer: asyncio.Future[list[Array]]


class Batcher:
    """Gathers requests of like shapes until they have as many rows as the model takes, or the first has waited for long
    enough."""

    def __init__(self, run: Run, most: int, deadline: float, counted: Callable[[int], None]) -> None:
        """`run` runs the model; `most` rows make a batch; `deadline` is in seconds; `counted` hears how many requests a
        batch has."""
        self._run_model = run
        self._most = most
        self._deadline = deadline
        self._counted = counted
        self._gathering: dict[tuple[tuple[int, ...], ...], list[_Waiting]] = {}
        self._timers: dict[tuple[tuple[int, ...], ...], asyncio.TimerHandle] = {}
        self._running: set[asyncio.Task[None]] = set()

    def hurry(self) -> None:
        """Starts what has been gathered, and from now on waits for nobody."""
        self._deadline = 0.0
        for key in list(self._gathering):
            self._start(key)

    async def run(self, arrays: Arrays) -> list[Array]:
        """The results for the rows of one request."""
        rows = {array.shape[0] for array in arrays}
        if len(rows) != 1 or not 0 < max(rows) < self._most:
            return await self._run_model(arrays)
        key = tuple(array.shape[1:] for array in arrays)
        request = _Waiting(arrays, rows.pop(), asyncio.get_running_loop().create_future())
        if request.rows + sum(other.rows for other in self._gathering.get(key, ())) > self._most:
            self._start(key)
        batch = self._gathering.setdefault(key, [])
        batch.append(request)
        if sum(other.rows for other in batch) == self._most:
            self._start(key)
        elif len(batch) == 1:
            self._timers[key] = asyncio.get_running_loop().call_later(self._deadline, self._start, key)
        return await request.answer

    def _start(self, key: tuple[tuple[int, ...], ...]) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        task = asyncio.get_running_loop().create_task(self._run_batch(self._gathering.pop(key)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run_batch(self, batch: list[_Waiting]) -> None:
        # Whoever was cancelled while it waited is not run.
        batch = [request for request in batch if not request.answer.done()]
        self._counted(len(batch))
        if len(batch) > 1 and await self._run_together(batch):
            return
        for request in batch:
            await _answer(request, self._run_model)

    async def _run_together(self, batch: list[_Waiting]) -> bool:
        """Runs them at once; False if that failed, or the results do not have a row for each of theirs: then each is
        run by itself."""
        ends = np.cumsum([request.rows for request in batch])
        try:
            results = await self._run_model(
                [np.concatenate(parts) for parts in zip(*(request.arrays for request in batch))]
            )
        except (RunError, LimitError):
            return False
        except BaseException as error:
            for request in batch:
                if not request.answer.done():
                    request.answer.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            return True
        if any(array.shape[0] != ends[-1] for array in results):
            return False
        for request, end in zip(batch, ends):
            if not request.answer.done():
                request.answer.set_result([array[end - request.rows : end] for array in results])
        return True


async def _answer(request: _Waiting, run: Run) -> None:
    try:
        results = await run(request.arrays)
    except Exception as error:
        if not request.answer.done():
            request.answer.set_exception(error)
    else:
        if not request.answer.done():
            request.answer.set_result(results)
