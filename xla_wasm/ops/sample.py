"""Samples of operations: a small module, its arguments, and what it must give."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..builder import Builder
from ..dataclass import dataclass, field
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from .dtypes import DTYPES, TYPES_OF, Array

Body = Callable[..., Instruction]
"""From a Builder and the parameters of a computation to its root."""
Maker = Callable[[], Computation]
"""Makes a computation that a sample calls, anew for every module."""


@dataclass(frozen=True, slots=True)
class Host:
    """The host's items for a sample and from it, in order: arrays, or tuples of them where there are several."""

    infeed: Sequence[Any] = ()
    outfeed: Sequence[Any] = ()
    send: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    recv: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments that a run takes: items, and empty lists for what comes out."""
        given = {name: end for name, end in (("infeed", self.infeed), ("recv", self.recv)) if end}
        taken: dict[str, Any] = {"outfeed": [], "send": {name: [] for name in self.send}}
        return given | {name: end for name, end in taken.items() if getattr(self, name)}


@dataclass(frozen=True, slots=True)
class Sample:
    """One case of an operation.

    `expected` holds the flattened result. Floats may be off by `ulp` units in the last place of each element;
    0 means equal bits, NaN payloads aside. `xla` says why XLA:CPU gives something else, empty if it agrees.
    """

    name: str
    opcode: str
    args: tuple[Array, ...]
    expected: tuple[Array, ...]
    body: Body
    ulp: float = 0
    xla: str = ""
    shapes: tuple[Shape, ...] = ()
    """The shapes of the parameters, where their layouts matter."""
    host: Host = field(default_factory=Host)

    def module(self) -> Module:
        """The module, built anew."""
        builder = Builder(re.sub(r"\W+", "_", self.name))
        shapes = self.shapes or tuple(map(shape_of, self.args))
        parameters = [builder.parameter(i, shape) for i, shape in enumerate(shapes)]
        return builder.module(self.body(builder, *parameters))


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One case of an operation on several devices: as a `Sample`, with arguments and results for each device."""

    name: str
    opcode: str
    args: tuple[tuple[Array, ...], ...]
    expected: tuple[tuple[Array, ...], ...]
    body: Body
    replicas: int
    partitions: int
    xla: str = ""

    def module(self, fixed: bool = False) -> Module:
        """The module, built anew; if `fixed`, it states the numbers of replicas and partitions."""
        builder = Builder(re.sub(r"\W+", "_", self.name))
        parameters = [builder.parameter(i, shape_of(x)) for i, x in enumerate(self.args[0])]
        module = builder.module(self.body(builder, *parameters))
        if fixed:
            module.replica_count, module.num_partitions = self.replicas, self.partitions
        return module


def op(opcode: str, *, called: Sequence[Maker] = (), shape: Shape | None = None, **attrs: Any) -> Body:
    """The body of one operation on parameters."""

    def body(builder: Builder, *parameters: Instruction) -> Instruction:
        return builder.op(opcode, *parameters, called=[make() for make in called], shape=shape, **attrs)

    return body


def case(
    opcode: str,
    args: Sequence[Array],
    expected: Array | Sequence[Array],
    *,
    name: str = "",
    ulp: float = 0,
    xla: str = "",
    **how: Any,
) -> Sample:
    """A sample of one operation on parameters: `how` is what `op` takes beside the opcode."""
    return program(opcode, args, expected, op(opcode, **how), name=name, ulp=ulp, xla=xla)


def program(
    opcode: str, args: Sequence[Array], expected: Array | Sequence[Array], body: Body, *, name: str = "", **more: Any
) -> Sample:
    """A sample whose module needs more than one instruction. `more` are fields of `Sample`: ulp, xla, shapes, host."""
    results = (expected,) if isinstance(expected, np.ndarray) else tuple(expected)
    kinds = "-".join(dict.fromkeys(TYPES_OF[a.dtype].name for a in (*args, *results)))
    return Sample(" ".join(filter(None, (opcode, kinds, name))), opcode, tuple(args), results, body, **more)


def among(
    opcode: str,
    args: Sequence[Array | Sequence[Array]],
    expected: Sequence[Array | Sequence[Array]],
    body: Body | None = None,
    *,
    name: str,
    partitions: int = 1,
    xla: str = "",
    **how: Any,
) -> DeviceSample:
    """A sample on several devices: of one operation on parameters, with what `op` takes beside the opcode, or of a
    body. Arguments and results are listed by device."""
    given, results = (tuple((x,) if isinstance(x, np.ndarray) else tuple(x) for x in xs) for xs in (args, expected))
    replicas = len(given) // partitions
    return DeviceSample(
        f"{opcode} {name}", opcode, given, results, body or op(opcode, **how), replicas, partitions, xla
    )


def function(parameters: str, body: Body) -> Maker:
    """A maker of a computation; `parameters` lists shapes, as in "f32, s32[2]"."""

    def make() -> Computation:
        builder = Builder("fn")
        shapes = re.findall(r"\w+(?:\[[\d,]*\])?", parameters)
        return builder.build(body(builder, *(builder.parameter(i, shape(s)) for i, s in enumerate(shapes))))

    return make


def reducer(opcode: str, element_type: str) -> Maker:
    """A maker of the computation of one binary operation on scalars."""
    return function(f"{element_type}, {element_type}", lambda b, x, y: b.op(opcode, x, y))


def shape(text: str) -> Shape:
    """The array shape written as in "f32[2,3]" or "f32"."""
    element_type, _, dims = text.rstrip("]").partition("[")
    return Shape(element_type, tuple(int(d) for d in dims.split(",") if d))


def shape_of(array: Array) -> Shape:
    """The shape of an array."""
    return Shape(TYPES_OF[array.dtype].name, array.shape)


def array(element_type: str, values: Any) -> Array:
    """An array of an HLO element type."""
    return np.array(values, DTYPES[element_type])


pred, s8, s16, s32, s64, u8, u16, u32, u64, f16, bf16, f32, f64 = (
    partial(array, name)
    for name in ("pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
)
inf, nan = float("inf"), float("nan")
