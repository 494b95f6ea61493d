"""Models written as ONNX graphs: any nodes (`Graph`), and encoders in the operators that exporters of BERT write
(`EncoderBlocks`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

from .models import EPSILON

Inputs = Mapping[str, tuple[Any, Sequence[int]]]
"""Type (what np.dtype takes) and dimensions of each input."""
Results = Mapping[str, tuple[str, Any, Sequence[int | None]]]
"""Node that gives it, type and dimensions of each result; None for a size that nobody states."""
OPSET, IR = 18, 8
T = TypeVar("T")
MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""


class Graph:
    """A graph while it is made. What it is made of is functions of the caller, who knows the names and types of inputs
    and weights."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.weights = dict(weights)
        self._nodes: list[Any] = []
        self._made = 0

    def constant(self, name: str, value: Any) -> str:
        """An array that is part of the model."""
        self.weights[name] = value
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """The only result of an operator, or its first."""
        return self.nodes(op, 1, *inputs, **attributes)[0]

    def named(self, result: str, op: str, *inputs: str, **attributes: Any) -> None:
        """An operator whose result has this name."""
        self._nodes.append(helper.make_node(op, inputs, [result], result, **attributes))

    def nodes(self, op: str, results: int, *inputs: str, **attributes: Any) -> tuple[str, ...]:
        """The results of an operator."""
        number, self._made = self._made, self._made + 1
        names = tuple(f"{op}_{number}" + (f"_{i}" if i else "") for i in range(results))
        self._nodes.append(helper.make_node(op, inputs, names, names[0], **attributes))
        return names

    def loop(
        self, trips: int, starts: Mapping[str, Any], write: Callable[..., tuple[Sequence[str], Sequence[str]]]
    ) -> list[str]:
        """A loop that carries scalars, given by what they begin as and their types. `write` makes a trip of its number
        and what is carried: what is carried then, and f32 scalars. The results are what is carried in the end, and an
        array of all of each of those scalars."""
        number, self._made = self._made, self._made + 1
        names = [f"loop_{number}.{name}" for name in starts]
        trip, going = f"loop_{number}.trip", f"loop_{number}.going"
        (after, kept), nodes = self._apart(lambda: write(trip, *names))
        nodes.append(helper.make_node("Identity", [going], [f"{going}.on"]))
        given = [_value(trip, np.int64, []), _value(going, np.bool_, [])]
        given += [_value(name, dtype, []) for name, dtype in zip(names, starts.values())]
        made = [_value(name, dtype, []) for name, dtype in zip(after, starts.values())]
        made += [_value(name, np.float32, []) for name in kept]
        body = helper.make_graph(nodes, f"body_{number}", given, [_value(f"{going}.on", np.bool_, []), *made])
        count, go = self.constant(f"{trip}s", np.array(trips)), self.constant(f"{going}.first", np.array(True))
        return list(self.nodes("Loop", len(made), count, go, *starts, body=body))

    def choice(self, condition: str, then: Callable[[], str], otherwise: Callable[[], str]) -> str:
        """One of two f32 scalars, of which only that one is computed."""
        branches = {}
        for name, write in (("then_branch", then), ("else_branch", otherwise)):
            result, nodes = self._apart(write)
            branches[name] = helper.make_graph(nodes, result, [], [_value(result, np.float32, [])])
        return self.node("If", condition, **branches)

    def _apart(self, write: Callable[[], T]) -> tuple[T, list[Any]]:
        """The result of `write`, and the nodes that it makes, which are none of this graph."""
        outer, self._nodes = self._nodes, []
        made = write()
        inner, self._nodes = self._nodes, outer
        return made, inner

    def store_weights(self, form: str) -> None:
        """Has the products by matrices that are weights read these in a form of `SMALL_FORMS`."""
        nodes, self._nodes = self._nodes, []
        for n in nodes:
            if n.op_type == "MatMul" and n.input[1] in self.weights and self.weights[n.input[1]].ndim == 2:
                SMALL_FORMS[form](self, n.input[0], n.input[1], n.output[0])
            else:
                self._nodes.append(n)
        read = {name for n in self._nodes for name in n.input}
        self.weights = {name: array for name, array in self.weights.items() if name in read}

    def model(self, name: str, inputs: Inputs, results: Results) -> bytes:
        """The model."""
        identities = [helper.make_node("Identity", [node], [result]) for result, (node, _, _) in results.items()]
        outputs = [_value(result, dtype, dims) for result, (_, dtype, dims) in results.items()]
        return self._written(name, [*self._nodes, *identities], inputs, outputs)

    def repeated(self, name: str, inputs: Inputs, results: Results) -> bytes:
        """A model that computes all of it again and again, as often as its input `trips` says, and gives the last
        results.

        A run's time grows with the trips by what the graph alone costs, without what a call of the runtime costs.
        """
        body = [helper.make_node("Identity", ["going"], ["goes_on"]), *self._nodes]
        body += [helper.make_node("Identity", [node], [f"after.{result}"]) for result, (node, _, _) in results.items()]
        before, after = (
            [_value(f"{when}.{result}", dtype, [None] * len(dims)) for result, (_, dtype, dims) in results.items()]
            for when in ("before", "after")
        )
        state = [_value("trip", np.int64, []), _value("going", np.bool_, []), *before]
        loop = helper.make_graph(body, "body", state, [_value("goes_on", np.bool_, []), *after])
        starts = [
            self.constant(f"start.{result}", np.zeros([1] * len(dims), dtype))
            for result, (_, dtype, dims) in results.items()
        ]
        node = helper.make_node(
            "Loop", ["trips", self.constant("go", np.array(True)), *starts], list(results), body=loop
        )
        outputs = [_value(result, dtype, [None] * len(dims)) for result, (_, dtype, dims) in results.items()]
        return self._written(name, [node], {**inputs, "trips": (np.int64, [])}, outputs)

    def _written(self, name: str, nodes: list[Any], inputs: Inputs, outputs: list[Any]) -> bytes:
        graph = helper.make_graph(
            nodes,
            name,
            [_value(name, dtype, dims) for name, (dtype, dims) in inputs.items()],
            outputs,
            [numpy_helper.from_array(np.asarray(array, order="C"), name) for name, array in self.weights.items()],
        )
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)], ir_version=IR
        )
        checker.check_model(made)
        return made.SerializeToString()


def _integer_product(g: Graph, x: str, weight: str, result: str) -> None:
    """As dynamic quantisation writes it: 8 bits, a scale for each column, and the other side quantised by its range in
    each run."""
    array = g.weights[weight]
    scale = (np.abs(array).max(0) / 127).astype(np.float32)
    stored = g.constant(f"{weight}.int8", np.clip(np.round(array / scale), -127, 127).astype(np.int8))
    scales = g.constant(f"{weight}.scale", scale)
    small, step, zero = g.nodes("DynamicQuantizeLinear", 3, x)
    sums = g.node("Cast", g.node("MatMulInteger", small, stored, zero), to=TensorProto.FLOAT)
    g.named(result, "Mul", sums, g.node("Mul", step, scales))


_BLOCK = 32


def _block_product(bits: int) -> Callable[[Graph, str, str, str], None]:
    """Blocks of 32 weights of a column with a scale each, and sums in 8 bits."""

    def write(g: Graph, x: str, weight: str, result: str) -> None:
        array = g.weights[weight].T
        (n, k), zero = array.shape, 1 << (bits - 1)
        blocks = array.reshape(n, k // _BLOCK, _BLOCK)
        scale = np.maximum(np.abs(blocks).max(-1, keepdims=True), 1e-30) / (zero - 1)
        numbers = (np.clip(np.round(blocks / scale), -zero, zero - 1) + zero).astype(np.uint8)
        if bits == 4:
            numbers = numbers[..., ::2] | numbers[..., 1::2] << 4
        stored = g.constant(f"{weight}.bits{bits}", numbers)
        scales = g.constant(f"{weight}.scale", scale.astype(np.float32).ravel())
        attributes = {"K": k, "N": n, "bits": bits, "block_size": _BLOCK, "accuracy_level": 4}
        g.named(result, "MatMulNBits", x, stored, scales, domain=MICROSOFT, **attributes)

    return write


SMALL_FORMS: dict[str, Callable[[Graph, str, str, str], None]] = {
    "int8": _integer_product,
    "8 bits in blocks": _block_product(8),
    "4 bits in blocks": _block_product(4),
}
"""Forms of weights in fewer bits that onnxruntime has products for: each writes one, given what it multiplies, a weight
and its result."""


class EncoderBlocks:
    """The layers of encoders, as nodes of a graph."""

    def __init__(self, graph: Graph, width: int, heads: int) -> None:
        self.graph = graph
        size = width // heads
        # A -1 stands for what is left: the tokens.
        for name, sizes in {"split": [1, -1, heads, size], "merge": [1, -1, width]}.items():
            self.graph.constant(name, np.array(sizes, np.int64))
        for name, value in {"root": np.sqrt(size), "root2": np.sqrt(2), "one": 1, "half": 0.5}.items():
            self.graph.constant(name, np.array(value, np.float32))

    def dense(self, x: str, weight: str, bias: str) -> str:
        """A matrix product and what is added to it."""
        return self.graph.node("Add", self.graph.node("MatMul", x, weight), bias)

    def norm(self, x: str, scale: str, bias: str) -> str:
        """A layer normalisation."""
        return self.graph.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)

    def block(self, x: str, dense: Callable[[str, str], str], norm: Callable[[str, str], str]) -> str:
        """Attention and two dense layers, each normalised after its residual, with the exact GELU.

        `dense` and `norm` make a layer of x: query, key, value, output, up and down, or norm1 and norm2.
        """
        node = self.graph.node

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


def _value(name: str, dtype: Any, dims: Sequence[Any]) -> Any:
    """The declaration of a value; None for a size that nobody states."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims)
