"""Loop nests over an iteration space."""

from __future__ import annotations

from collections.abc import Callable

from .affine import ZERO, Affine, Index
from .builder import Builder
from .ir import Loop, Val


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


Step = Callable[[Loop | None, Affine, list[Val]], list[Val]]
"""Takes the loop if there is one, an index and the values before; gives the values after."""


def along(b: Builder, trips: int, step: int, values: list[Val], lanes: int, body: Step) -> list[Val]:
    """Carries vectors of `lanes` through a loop; where one trip or none is left of it, there is no loop."""
    if trips <= 1:
        return body(None, ZERO, values) if trips else values
    loop = b.open_loop(trips, step)
    carries = [b.carry(loop, value, lanes) for value in values]
    for carry, value in zip(carries, body(loop, Affine(0, ((loop, 1),)), [carry.value for carry in carries])):
        carry.next = b.splat(value, lanes)
    b.close_loop(loop)
    return [carry.result for carry in carries if carry.result is not None]


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
        return along(b, dims[d], 1, values, lanes, lambda _, i, inner: level((*index, i), inner))

    return level((), inits)
