"""Encoders as ONNX models, in the operators that exporters of BERT write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

from .models import EPSILON


class Graph:
    """A graph while it is made. Layers are functions of the caller, who knows the names and types of the weights."""

    def __init__(self, weights: dict[str, Any], width: int, heads: int) -> None:
        self.weights = weights
        self._nodes: list[Any] = []
        size = width // heads
        # A -1 stands for what is left: the tokens.
        for name, sizes in {"split": [1, -1, heads, size], "merge": [1, -1, width]}.items():
            self.constant(name, np.array(sizes, np.int64))
        for name, value in {"root": np.sqrt(size), "root2": np.sqrt(2), "one": 1, "half": 0.5}.items():
            self.constant(name, np.array(value, np.float32))

    def constant(self, name: str, value: Any) -> str:
        """An array that is part of the model."""
        self.weights[name] = value
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """The result of an operator."""
        name = f"{op}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def dense(self, x: str, weight: str, bias: str) -> str:
        """A matrix product and what is added to it."""
        return self.node("Add", self.node("MatMul", x, weight), bias)

    def norm(self, x: str, scale: str, bias: str) -> str:
        """A layer normalisation."""
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)

    def block(self, x: str, dense: Callable[[str, str], str], norm: Callable[[str, str], str]) -> str:
        """Attention and two dense layers, each normalised after its residual, with the exact GELU.

        `dense` and `norm` make a layer of x: query, key, value, output, up and down, or norm1 and norm2.
        """
        node = self.node

        def heads(name: str, order: tuple[int, ...]) -> str:
            return node("Transpose", node("Reshape", dense(name, x), "split"), perm=order)

        q, v = (heads(name, (0, 2, 1, 3)) for name in ("query", "value"))
        k = heads("key", (0, 2, 3, 1))
        scores = node("Softmax", node("Div", node("MatMul", q, k), "root"), axis=-1)
        mixed = node("Reshape", node("Transpose", node("MatMul", scores, v), perm=(0, 2, 1, 3)), "merge")
        x = norm("norm1", node("Add", x, dense("output", mixed)))
        h = dense("up", x)
        h = node("Mul", node("Mul", h, node("Add", node("Erf", node("Div", h, "root2")), "one")), "half")
        return norm("norm2", node("Add", x, dense("down", h)))

    def model(self, name: str, x: tuple[str, type[Any], list[Any]], y: tuple[str, list[Any]], result: str) -> bytes:
        """The model with one input, of a name, type and shape, and `result` as its output, of a name and shape and of f32."""
        self._nodes.append(helper.make_node("Identity", [result], [y[0]]))
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info(x[0], helper.np_dtype_to_tensor_dtype(np.dtype(x[1])), x[2])],
            [helper.make_tensor_value_info(y[0], TensorProto.FLOAT, y[1])],
            [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in self.weights.items()],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        checker.check_model(made)
        return made.SerializeToString()
