"""Networks written once, in layers that each contestant has in its own words: JAX, nodes of ONNX, expressions of
TensorFlow.js."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..onnx_graph import Graph
from .workload import Arrays, Order

FIRST: Order = (0, 3, 1, 2)
"""Channels before rows and columns, of an image with channels last."""
KERNEL_FIRST: Order = (3, 2, 0, 1)
"""The same of a convolution's taps."""


@dataclass(frozen=True)
class Dense:
    """A product with a matrix and a bias; `act` is "relu", "relu6" or nothing."""

    name: str
    inputs: int
    outputs: int
    act: str = ""


@dataclass(frozen=True)
class Conv(Dense):
    """A convolution with a bias, padded by half its taps on each side; depthwise if each channel has taps of its
    own."""

    taps: int = 1
    stride: int = 1
    depthwise: bool = False


class Layers(Protocol):
    """Layers of a network for images with channels last. Values are whatever the contestant has for them."""

    def conv(self, x: Any, c: Conv) -> Any:
        """A convolution with a bias; c.depthwise if each channel has c.taps of its own."""

    def dense(self, x: Any, d: Dense) -> Any:
        """A product."""

    def add(self, x: Any, y: Any, act: str = "") -> Any:
        """A sum."""

    def max_pool(self, x: Any) -> Any:
        """The largest of 3x3 places, every second row and column."""

    def mean(self, x: Any) -> Any:
        """The mean over rows and columns."""


Network = Callable[[Layers, Any], Any]


class Sizes:
    """The sizes of a network: its weights and its operations in products. Values are the rows of square images."""

    def __init__(self) -> None:
        self.flops = 0.0
        self._weights: dict[str, tuple[tuple[int, ...], float]] = {}

    def _product(self, d: Dense, shape: tuple[int, ...], places: int) -> None:
        fan_in = float(np.prod(shape[:-1]))
        self.flops += 2.0 * places * fan_in * d.outputs
        self._weights[f"{d.name}_w"] = shape, ((2.0 if d.act else 1.0) / fan_in) ** 0.5
        self._weights[f"{d.name}_b"] = (d.outputs,), 0.05

    def weights(self, rng: np.random.Generator) -> Arrays:
        """Normal numbers, scaled so that values neither die out nor grow from layer to layer."""
        return {
            name: rng.standard_normal(shape, np.float32) * np.float32(scale)
            for name, (shape, scale) in self._weights.items()
        }

    def orders(self) -> dict[str, Order]:
        """The dimension orders of images and taps with channels first."""
        return {"x": FIRST} | {name: KERNEL_FIRST for name, (shape, _) in self._weights.items() if len(shape) == 4}

    def conv(self, x: int, c: Conv) -> int:
        size = (x - 1) // c.stride + 1
        self._product(c, (c.taps, c.taps, 1 if c.depthwise else c.inputs, c.outputs), size * size)
        return size

    def dense(self, x: int, d: Dense) -> int:
        self._product(d, (d.inputs, d.outputs), x)
        return x

    def add(self, x: int, y: int, act: str = "") -> int:
        return x

    def max_pool(self, x: int) -> int:
        return (x - 1) // 2 + 1

    def mean(self, x: int) -> int:
        return 1


class Jax:
    """In JAX."""

    def __init__(self, weights: Arrays) -> None:
        self.weights = weights

    def _finished(self, x: Any, name: str, act: str) -> Any:
        return self._activated(x + self.weights[f"{name}_b"], act)

    def _activated(self, x: Any, act: str) -> Any:
        import jax

        return {"": lambda x: x, "relu": jax.nn.relu, "relu6": jax.nn.relu6}[act](x)

    def conv(self, x: Any, c: Conv) -> Any:
        from jax import lax

        orders = ("NHWC", "HWIO", "NHWC")
        groups = c.inputs if c.depthwise else 1
        pads = [(c.taps // 2, c.taps // 2)] * 2
        y = lax.conv_general_dilated(
            x,
            self.weights[f"{c.name}_w"],
            (c.stride, c.stride),
            pads,
            dimension_numbers=orders,
            feature_group_count=groups,
        )
        return self._finished(y, c.name, c.act)

    def dense(self, x: Any, d: Dense) -> Any:
        return self._finished(x @ self.weights[f"{d.name}_w"], d.name, d.act)

    def add(self, x: Any, y: Any, act: str = "") -> Any:
        return self._activated(x + y, act)

    def max_pool(self, x: Any) -> Any:
        from jax import lax

        return lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))

    def mean(self, x: Any) -> Any:
        return x.mean((1, 2))


class Onnx:
    """As nodes of a graph, with channels first."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def _activated(self, x: str, act: str) -> str:
        g = self.graph
        if act == "relu6":
            return g.node(
                "Clip", x, g.constant("zero", np.array(0, np.float32)), g.constant("six", np.array(6, np.float32))
            )
        return g.node("Relu", x) if act else x

    def conv(self, x: str, c: Conv) -> str:
        attributes = {"strides": [c.stride] * 2, "pads": [c.taps // 2] * 4, "group": c.inputs if c.depthwise else 1}
        return self._activated(self.graph.node("Conv", x, f"{c.name}_w", f"{c.name}_b", **attributes), c.act)

    def dense(self, x: str, d: Dense) -> str:
        return self._activated(self.graph.node("Gemm", x, f"{d.name}_w", f"{d.name}_b"), d.act)

    def add(self, x: str, y: str, act: str = "") -> str:
        return self._activated(self.graph.node("Add", x, y), act)

    def max_pool(self, x: str) -> str:
        return self.graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])

    def mean(self, x: str) -> str:
        return self.graph.node("Flatten", self.graph.node("GlobalAveragePool", x))


class Script:
    """As a JavaScript function with a statement a layer."""

    def __init__(self) -> None:
        self._statements: list[str] = []

    def _value(self, expression: str) -> str:
        name = f"v{len(self._statements)}"
        self._statements.append(f"const {name} = {expression};")
        return name

    def expression(self, result: str) -> str:
        """The function, called."""
        return f"(() => {{ {' '.join(self._statements)} return {result}; }})()"


class Tfjs(Script):
    """In the fused operators that TensorFlow's converter writes."""

    def conv(self, x: str, c: Conv) -> str:
        filters = f"w.{c.name}_w.reshape([{c.taps}, {c.taps}, {c.inputs}, 1])" if c.depthwise else f"w.{c.name}_w"
        op = "depthwiseConv2d" if c.depthwise else "conv2d"
        rest = f"strides: {c.stride}, pad: {c.taps // 2}, bias: w.{c.name}_b, activation: '{c.act or 'linear'}'"
        return self._value(f"tf.fused.{op}({{ x: {x}, filter: {filters}, {rest} }})")

    def dense(self, x: str, d: Dense) -> str:
        return self._value(
            f"tf.fused.matMul({{ a: {x}, b: w.{d.name}_w, bias: w.{d.name}_b, activation: '{d.act or 'linear'}' }})"
        )

    def add(self, x: str, y: str, act: str = "") -> str:
        total = f"tf.add({x}, {y})"
        return self._value(f"tf.{act}({total})" if act else total)

    def max_pool(self, x: str) -> str:
        return self._value(f"tf.maxPool({x}, 3, 2, 1)")

    def mean(self, x: str) -> str:
        return self._value(f"tf.mean({x}, [1, 2])")


class Jaxjs(Script):
    """In jax-js: what has products of matrices only."""

    def dense(self, x: str, d: Dense) -> str:
        y = f"np.matmul({x}, w.{d.name}_w).add(w.{d.name}_b)"
        return self._value(f"nn.{d.act}({y})" if d.act else y)
