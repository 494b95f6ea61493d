"""The values of golden modules: what the compiled module gives on drawn arguments, beside what the evaluator gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import xla_wasm
from xla_wasm.check.compare import differing, tolerance
from xla_wasm.check.draws import Draw, Drawing
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.signature import parameter_leaves
from xla_wasm.ops.dtypes import Array
from xla_wasm.reference import evaluate

from .runner import Golden


def check(golden: Golden, target: str) -> None:
    """Compiles a golden module and runs it; its results, and what it sends, are those of the evaluator."""
    if "values" in golden.settings:
        return
    for i, (actual, expected) in enumerate(_pairs(golden, target)):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        wrong = differing(actual, expected, tolerance(expected.dtype))
        assert not wrong.any(), (
            f"result {i}: {actual[wrong]} instead of {expected[wrong]} at {np.argwhere(wrong).tolist()}"
        )


def _pairs(golden: Golden, target: str) -> Iterator[tuple[Array, Array]]:
    module, options = golden.module, golden.options(target)
    drawing, draw = Drawing(module), Draw(seed=11)
    arguments = {name: drawing.input(draw, name, shape) for name, shape in parameter_leaves(module)}
    executable = xla_wasm.load(xla_wasm.compile(module, options))
    states: dict[Any, Any] = {result: name for name, result in options.state}
    kept = {*options.weights, *states.values()}
    for name in arguments:
        if name in kept:
            executable.set(name, arguments[name])
    sent, wanted = _host(module, drawing, draw)
    outputs = iter(executable.run(*(x for name, x in arguments.items() if name not in kept), **sent))
    results = evaluate(module, *arguments.values(), **wanted)
    actual = [executable.get(states[i]) if i in states else next(outputs) for i in range(len(results))]
    return zip(actual + sent.get("outfeed", []), results + wanted.get("outfeed", []), strict=True)


def _host(module: Module, drawing: Drawing, draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the host's arguments of two runs, where the program needs them: arrays to take, and for each run a list
    for the arrays that are sent."""
    feeds = [x for x in module.instructions() if x.opcode in ("infeed", "outfeed")]
    items = [[x.shape.tuple_shapes[0]] for x in feeds if x.opcode == "infeed"]
    infeed = [drawing.item(draw, i, None, item)[0] for i, item in enumerate(items)]
    given: dict[str, Any] = {"infeed": infeed} if infeed else {}
    sends = any(x.opcode == "outfeed" for x in feeds)
    return given | ({"outfeed": []} if sends else {}), given | ({"outfeed": []} if sends else {})
