"""Modules with other sizes: wherever a size occurs in shapes, another one takes its place, if the module is sound
then."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.batching import Unavailable
from tests.support.multiplied import Array
from xla_wasm.errors import XlaWasmError
from xla_wasm.hlo.attrs import SliceDimension, Window
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.signature import parameter_leaves
from xla_wasm.hlo.verify import verify
from xla_wasm.passes.clone import clone

SIZES = (4, 8, 9, 16, 17, 33, 65)
MOST_ELEMENTS = 1 << 14


def resized(module: Module, arguments: list[Array], choose: random.Random, size: int) -> tuple[Module, list[Array]]:
    """The module with `size` instead of one of its sizes, and arguments for it. Unavailable if its sizes do not follow
    from one another so."""
    if any(x.opcode == "custom-call" for x in module.instructions()):
        raise Unavailable("the sizes of a custom call have no rule")
    found = sorted({d for x in module.instructions() for _, s in x.shape.leaves() for d in s.dimensions} - {0, size})
    choose.shuffle(found)
    for old in found:
        changed = clone(module)
        changed.parameter_shapes = changed.result_shape = None
        changed.input_output_alias, changed.buffer_donor, changed.frontend_attributes = [], [], {}
        for x in changed.instructions():
            _resize(x, old, size)
        try:
            verify(changed)
        except XlaWasmError:
            continue
        shapes = [shape for _, shape in parameter_leaves(changed)]
        if any(s.size > MOST_ELEMENTS for x in changed.instructions() for _, s in x.shape.leaves()):
            continue
        return changed, [_spread(a, s.dimensions) for a, s in zip(arguments, shapes, strict=True)]
    raise Unavailable("no size can be changed")


def _spread(a: Array, dims: tuple[int, ...]) -> Array:
    """An array of other sizes, in which the elements repeat."""
    return a if a.shape == dims else np.resize(a, dims) if a.size else np.zeros(dims, a.dtype)


def _shape(shape: Shape, old: int, new: int) -> Shape:
    if shape.is_tuple:
        return Shape.tuple([_shape(s, old, new) for s in shape.tuple_shapes])
    return Shape(shape.element_type, tuple(new if d == old else d for d in shape.dimensions))


def _resize(x: Instruction, old: int, new: int) -> None:
    x.shape = _shape(x.shape, old, new)

    def follow(n: int) -> int:
        return new if n == old else n

    changes: dict[str, Any] = {
        "slice": lambda cuts: tuple(
            SliceDimension(min(c.start, follow(c.limit)), follow(c.limit), c.stride) for c in cuts
        ),
        "dynamic_slice_sizes": lambda sizes: tuple(map(follow, sizes)),
        "slice_sizes": lambda sizes: tuple(map(follow, sizes)),
        "fft_length": lambda sizes: tuple(map(follow, sizes)),
        "window": lambda w: w and Window(tuple(replace(d, size=follow(d.size)) for d in w.dimensions)),
    }
    for name, change in changes.items():
        if name in x.attrs:
            x.attrs[name] = change(x.attrs[name])
    literal = x.literal
    if literal is not None and x.shape.is_array:
        data, width = bytes(literal.data), len(literal.data) // max(1, literal.shape.size)
        wanted = x.shape.size * width
        repeated = data * (wanted // max(1, len(data)) + 1) if data else bytes(wanted)
        x.attrs["literal"] = Literal(x.shape, repeated[:wanted])
