"""A program that computes for ever in an inner loop, or not, as its argument says."""

from __future__ import annotations

from typing import Any

from jax import lax


def stepwise(x: Any, step: Any) -> Any:
    """Goes to 9, 18 and 27 in such steps; for ever where there are none."""

    def trip(i: Any, c: Any) -> Any:
        x, count = c
        return lax.while_loop(lambda x: x != 9 * i, lambda x: x + step, x), count * 2 + x

    return lax.fori_loop(1, 4, trip, (x, x + 1))
