"""Loop nests over an iteration space."""

from __future__ import annotations

from collections.abc import Callable

from .affine import ZERO, Affine, Index
from .builder import Builder
from .ir import Val


def nest(
    b: Builder,
    dims: tuple[int, ...],
    body: Callable[[Index], None],
    *,
    padded: bool = False,
    chunked: bool = False,
    done: Index = (),
) -> None:
    """Runs `body` at every index of `dims`, along vectors in the last dimension that is not 1.

    `done` are the indices of dimensions that are open already. `chunked` lets the outermost loop be split by callers.
    """
    if 0 in dims:
        return
    last = max((d for d, size in enumerate(dims) if size > 1), default=-1)
    if last < 0:
        body(done + (ZERO,) * len(dims))
        return

    def level(d: int, index: Index) -> None:
        if d == last:
            trailing = (ZERO,) * (len(dims) - d - 1)
            b.vectorized(dims[d], lambda i: body((*index, i, *trailing)), padded=padded, chunked=chunked)
        elif dims[d] == 1:
            level(d + 1, (*index, ZERO))
        else:
            with b.loop(dims[d], chunked=chunked) as i:
                level(d + 1, (*index, i))

    level(0, done)


def scalar_nest(b: Builder, dims: tuple[int, ...], body: Callable[[Index], None], *, chunked: bool = False) -> None:
    """Runs `body` at every index of `dims` one element at a time, in row-major order.

    `chunked` lets the outermost loop be split by callers.
    """
    if 0 in dims:
        return

    def level(d: int, index: Index) -> None:
        if d == len(dims):
            body(index)
        elif dims[d] == 1:
            level(d + 1, (*index, ZERO))
        else:
            with b.loop(dims[d], chunked=chunked) as i:
                level(d + 1, (*index, i))

    level(0, ())


Step = Callable[[Affine, list[Val]], list[Val]]
"""Takes an index and the values before; gives the values after."""


def along(
    b: Builder, trips: int, values: list[Val], body: Step, *, step: int = 1, lanes: int = 0, vector: bool = False
) -> list[Val]:
    """Carries values through a loop, as vectors of `lanes` or with the lanes that each has. Where one trip or none is
    left of it, there is no loop, but for one along `vector`s: then the index is no loop's variable."""
    if trips <= 1 and not vector:
        return body(ZERO, values) if trips else values
    with b.open_loop(trips, step, vector) as loop:
        carries = [b.carry(loop, value, lanes or value.lanes) for value in values]
        for carry, value in zip(carries, body(Affine.along(loop), [carry.value for carry in carries])):
            carry.next = b.splat(value, carry.value.lanes)
    return [carry.result for carry in carries]


def fold(
    b: Builder, dims: tuple[int, ...], inits: list[Val], lanes: int, body: Callable[[Index, list[Val]], list[Val]]
) -> list[Val]:
    """Carries values through a nest of loops over `dims`, in row-major order: `body(index, values) -> values`."""
    if 0 in dims:
        return inits

    def level(index: Index, values: list[Val]) -> list[Val]:
        d = len(index)
        if d == len(dims):
            return body(index, values)
        return along(b, dims[d], values, lambda i, inner: level((*index, i), inner), lanes=lanes)

    return level((), inits)
