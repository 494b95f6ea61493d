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


def fold(
    b: Builder, dims: tuple[int, ...], inits: list[Val], lanes: int, body: Callable[[Index, list[Val]], list[Val]]
) -> list[Val]:
    """Carries values through a nest of loops over `dims`, in row-major order: `body(index, values) -> values`."""
    if 0 in dims:
        return inits

    def level(d: int, index: Index, values: list[Val]) -> list[Val]:
        if d == len(dims):
            return body(index, values)
        if dims[d] == 1:
            return level(d + 1, (*index, ZERO), values)
        loop = b.open_loop(dims[d])
        carries = [b.carry(loop, v, lanes) for v in values]
        for carry, new in zip(carries, level(d + 1, (*index, Affine(0, ((loop, 1),))), [c.value for c in carries])):
            carry.next = b.splat(new, lanes)
        b.close_loop(loop)
        return [c.result for c in carries if c.result is not None]

    return level(0, (), inits)
