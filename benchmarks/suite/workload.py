"""Workloads: each is one computation, written for every contestant in its own words, and timed on the same inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..onnx_graph import Graph

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Order = tuple[int, ...]
GFLOPS, GOPS, GBS, NS, MS = "GFLOP/s", "GOP/s", "GB/s", "ns/elem", "ms"
UNITS = {GFLOPS: 1e9, GOPS: 1e9, GBS: 1e9}
"""Units of rates, in units of work per second; the others are times."""


@dataclass(frozen=True)
class Workload:
    """A row of the table.

    `function` is the computation in JAX, of the inputs in their order and then, if there are weights, of a dict of
    them. `work` is how many of `unit` one call does: floating-point or integer operations, bytes or elements (of
    ns/elem); for ms it is the operations. `bound` says which limit of the machine `work` counts: "fma", "read" or
    nothing.

    Contestants: `onnx` adds nodes to a graph that has the inputs and weights by their names, and gives the names of
    results; `tfjs` and `jaxjs` are JavaScript expressions of the inputs and weights by their names (of weights
    `w.name`), with `tf`, or `np`, `lax`, `nn` and an array `zero` in sight. None: there is no row. `orders` are the
    dimension orders in which contestants that want channels first (onnx, jaxjs) get inputs and weights, `result_order`
    that in which they give their result. `counts`: integers among the results are places, which ONNX counts in 64 bits.

    `kept`: the weights are states, which stay where they are and change: `function` calls them `w`, and gives a result
    and a dict of their next values. What is compared is what a call makes of the weights that were given.
    `reference` gives the results that are right, by default what XLA:CPU computes. `tolerance` bounds the largest error
    of a float relative to the largest value of its array; other types must be equal.
    `model`: results and inputs are few beside the work, so that only calls are compared. `quick`: part of the quick
    form.
    """

    name: str
    unit: str
    work: float
    function: Callable[..., Any]
    inputs: Callable[[np.random.Generator], Arrays]
    weights: Callable[[np.random.Generator], Arrays] | None = None
    onnx: Callable[[Graph], str | tuple[str, ...]] | None = None
    tfjs: str | None = None
    jaxjs: str | None = None
    reference: Callable[..., Any] | None = None
    tolerance: float = 1e-5
    bound: str = ""
    orders: Mapping[str, Order] = field(default_factory=dict)
    result_order: Order | None = None
    counts: bool = False
    kept: bool = False
    model: bool = False
    quick: bool = False

    @functools.cached_property
    def given(self) -> tuple[Arrays, Arrays]:
        """Inputs and weights, the same in every process."""
        rng = np.random.default_rng(list(self.name.encode()))
        inputs = self.inputs(rng)
        return inputs, self.weights(rng) if self.weights else {}

    def forget(self) -> None:
        """Lets go of inputs and weights, which may be large."""
        self.__dict__.pop("given", None)

    def arguments(self) -> tuple[Any, ...]:
        """Returns the arguments of `function`: the inputs, then a dictionary of the weights if there are any."""
        inputs, weights = self.given
        return (*inputs.values(), weights) if weights else tuple(inputs.values())

    def figure(self, seconds: float) -> float:
        """The time of a call in the row's unit."""
        if self.unit == MS:
            return seconds * 1e3
        return seconds / self.work * 1e9 if self.unit == NS else self.work / seconds / UNITS[self.unit]

    def expected(self) -> list[Array]:
        """The results that are right."""
        import jax

        call = self.reference or jax.jit(self.function)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(call(*self.arguments()))]


def normal(*dims: int, scale: float = 1.0) -> Callable[[np.random.Generator], Array]:
    """Normal f32 of these dimensions."""
    return lambda rng: rng.standard_normal(dims, np.float32) * np.float32(scale)


def arrays(**makers: Callable[[np.random.Generator], Array]) -> Callable[[np.random.Generator], Arrays]:
    """Named arrays, each made by its function."""
    return lambda rng: {name: make(rng) for name, make in makers.items()}


@functools.cache
def families() -> dict[str, list[Workload]]:
    """All of them, by the titles of their families, in the order of the table."""
    from . import convolutions, elementwise, loops, models, movement, products, reductions

    modules = (products, elementwise, reductions, movement, convolutions, loops, models)
    return {family.TITLE: list(family.workloads()) for family in modules}


@functools.cache
def workloads() -> dict[str, Workload]:
    """All of them, by name, in the order of the table."""
    found = [workload for family in families().values() for workload in family]
    named = {workload.name: workload for workload in found}
    assert len(named) == len(found), "two workloads have one name"
    return named


def find(name: str) -> Workload:
    """The workload of this name, in the table or one of another size whose growth is measured."""
    from .growing import programs

    known = workloads()
    return known[name] if name in known else next(w for p in programs() for w in p.workloads if w.name == name)
