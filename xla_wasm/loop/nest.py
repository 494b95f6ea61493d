"""Loop nests over an iteration space.

Functions that call themselves are none inside of others here: such a one is garbage that only a collection finds, with
all that a kernel is made from.
"""

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
    if not any(size > 1 for size in dims):
        body(done + (ZERO,) * len(dims))
    elif dims[0] == 1:
        nest(b, dims[1:], body, padded=padded, chunked=chunked, done=(*done, ZERO))
    elif not any(size > 1 for size in dims[1:]):
        trailing = (ZERO,) * (len(dims) - 1)
        b.vectorized(dims[0], lambda i: body((*done, i, *trailing)), padded=padded, chunked=chunked)
    else:
        with b.loop(dims[0], chunked=chunked) as i:
            nest(b, dims[1:], body, padded=padded, chunked=chunked, done=(*done, i))


def scalar_nest(
    b: Builder, dims: tuple[int, ...], body: Callable[[Index], None], *, chunked: bool = False, done: Index = ()
) -> None:
    """Runs `body` at every index of `dims` one element at a time, in row-major order; `chunked` and `done` as in
    `nest`."""
    if 0 in dims:
        return
    if not dims:
        body(done)
    elif dims[0] == 1:
        scalar_nest(b, dims[1:], body, chunked=chunked, done=(*done, ZERO))
    else:
        with b.loop(dims[0], chunked=chunked) as i:
            scalar_nest(b, dims[1:], body, chunked=chunked, done=(*done, i))


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
    b: Builder,
    dims: tuple[int, ...],
    inits: list[Val],
    lanes: int,
    body: Callable[[Index, list[Val]], list[Val]],
    done: Index = (),
) -> list[Val]:
    """Carries values through a nest of loops over `dims`, in row-major order: `body(index, values) -> values`; `done`
    as in `nest`."""
    if 0 in dims:
        return inits
    if not dims:
        return body(done, inits)
    return along(b, dims[0], inits, lambda i, inner: fold(b, dims[1:], inner, lanes, body, (*done, i)), lanes=lanes)
