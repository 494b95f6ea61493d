"""Layouts in compiled programs: at the boundary, in bitcasts, with state and weights, and as physical bytes."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xla_wasm
from tests.support.differential import run
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm.artifact import Artifact
from xla_wasm.builder import Builder
from xla_wasm.errors import ArgumentError, ArtifactError, UnsupportedError
from xla_wasm.hlo.attrs import DotDimensionNumbers
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.layout import COMBINE, physical_bytes
from xla_wasm.hlo.shape import Layout, Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.host.arrays import dtype_of
from xla_wasm.host.layouts import pack
from xla_wasm.host.manifest import Manifest
from xla_wasm.reference import evaluate

DIMS = (2, 3, 4, 5)
ORDERS = [order for rank in range(5) for order in permutations(range(rank))]
Order = tuple[int, ...]


def laid(order: Order, dims: tuple[int, ...] | None = None, element_type: str = "f32", **more: Any) -> Shape:
    return Shape(element_type, DIMS[: len(order)] if dims is None else dims, Layout(order, **more))


def array(shape: Shape, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-8, 8, shape.dimensions).astype(np.float32)


def laid_out(module: Module, parameters: list[Shape] | None = None, result: Shape | None = None) -> Module:
    """The module, with the layouts that its callers use, after a round trip through the proto."""
    module.parameter_shapes, module.result_shape = parameters, result
    return Module.from_proto(module.to_proto())


def check(module: Module, *arrays: np.ndarray[Any, Any], exact: bool = True) -> Manifest:
    """The compiled module gives what the reference gives, as logical arrays and as physical bytes; states what was
    declared."""
    artifact = Artifact.open(xla_wasm.compile(module).wasm)
    exe = xla_wasm.load(artifact)
    expected = evaluate(module, *arrays)
    for actual, wanted in zip(exe.run(*arrays), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=0 if exact else 1e-6)
    manifest = exe.manifest
    parameters = module.parameter_shapes or [p.shape for p in module.entry.parameters]
    declared = [shape for p in parameters for _, shape in p.leaves()]
    results = [shape for _, shape in (module.result_shape or module.entry.root.shape).leaves()]
    assert [p.shape for p in manifest.parameters] == [s if s.layout else s.with_default_layout() for s in declared]
    assert [r.shape for r in manifest.results] == [s if s.layout else s.with_default_layout() for s in results]
    raw = xla_wasm.load(artifact, physical=True)
    given = [pack(shape, value).tobytes() for shape, value in zip(declared, arrays)]
    for data, shape, wanted in zip(raw.run(*given), results, exe.run(*arrays), strict=True):
        assert data.dtype == np.uint8 and len(data) == physical_bytes(shape)
        assert data.tobytes() == pack(shape, wanted).tobytes()
    return manifest


# --- the boundary ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_elementwise(order: Order) -> None:
    """Every layout of a parameter against the default one, and every layout of the result."""
    b = Builder("elementwise")
    x, y = b.parameter(0, laid(order)), b.parameter(1, Shape("f32", DIMS[: len(order)]))
    module = b.module(b.subtract(b.multiply(x, x), y))
    result = laid(tuple(reversed(order)))
    check(laid_out(module, None, result), array(x.shape), array(y.shape, 1))


@pytest.mark.parametrize("order", ORDERS)
def test_memory_holds_the_declared_order(order: Order) -> None:
    b = Builder("order")
    module = laid_out(b.module(b.negate(b.parameter(0, Shape("f32", DIMS[: len(order)])))), [laid(order)], laid(order))
    artifact = xla_wasm.compile(module)
    for leaf in (*artifact.manifest["parameters"], *artifact.manifest["results"]):
        assert leaf["minor_to_major"] == list(order)
        assert not leaf.keys() & {"tiles", "physical_bytes"}
    x = array(laid(order))
    (data,) = xla_wasm.load(artifact, physical=True).run(x.transpose(order[::-1]).tobytes())
    assert data.tobytes() == (-x).transpose(order[::-1]).tobytes()
    assert len(artifact.manifest["steps"]["names"]) == 2, "one kernel: nothing is transposed where the orders agree"


@pytest.mark.parametrize("order", ORDERS)
def test_a_result_that_is_a_parameter(order: Order) -> None:
    b = Builder("same")
    module = b.module(b.parameter(0, laid(order)))
    check(module, array(laid(order)))
    check(laid_out(b.module(), None, laid(tuple(reversed(order)))), array(laid(order)))


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("permutation", list(permutations(range(3))))
def test_transpose(order: Order, permutation: Order) -> None:
    b = Builder("transpose")
    root = b.op("transpose", b.parameter(0, laid(order)), dimensions=permutation)
    for result in (None, laid(order, root.shape.dimensions)):
        check(laid_out(b.module(root), None, result), array(laid(order)))


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_transpose_of_four(order: Order) -> None:
    b = Builder("transpose")
    root = b.op("transpose", b.parameter(0, laid(order)), dimensions=(2, 0, 3, 1))
    check(laid_out(b.module(root), None, laid(order, root.shape.dimensions)), array(laid(order)))


@pytest.mark.parametrize("order", ORDERS[2:])
def test_reshape(order: Order) -> None:
    b = Builder("reshape")
    dims = DIMS[: len(order)]
    x = b.parameter(0, laid(order))
    flat = b.op("reshape", x, shape=Shape("f32", (x.shape.size,)))
    moved = b.op("reshape", x, shape=Shape("f32", (*dims[1:], dims[0])))
    check(b.module(b.tuple(flat, moved, b.negate(moved))), array(x.shape))


@pytest.mark.parametrize("order", ORDERS[1:])
def test_reduce(order: Order) -> None:
    rank = len(order)
    add = Builder("add")
    total = add.build(add.add(add.parameter(0, Shape("f32")), add.parameter(1, Shape("f32"))))
    b = Builder("reduce")
    x, zero = b.parameter(0, laid(order)), b.constant(0.0)
    sums = [
        b.op("reduce", x, zero, called=[total], dimensions=dims) for dims in ((0,), (rank - 1,), tuple(range(rank)))
    ]
    check(b.module(b.tuple(*sums)), array(x.shape))


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("left", list(permutations(range(2))))
@pytest.mark.parametrize("right", list(permutations(range(2))))
@pytest.mark.parametrize("out", list(permutations(range(2))))
@pytest.mark.parametrize("contracted", [(1, 0), (0, 0), (1, 1), (0, 1)])
def test_dot(batch: int, left: Order, right: Order, out: Order, contracted: Order) -> None:
    def shape(order: Order, k: int, other: int, at: int) -> Shape:
        dims = (k, other) if at == 0 else (other, k)
        # the batch dimension is the first one, and lies in the middle
        return laid((order[0] + 1, 0, order[1] + 1), (3, *dims)) if batch else laid(order, dims)

    b = Builder("dot")
    x, y = b.parameter(0, shape(left, 9, 7, contracted[0])), b.parameter(1, shape(right, 9, 8, contracted[1]))
    n = DotDimensionNumbers((contracted[0] + batch,), (contracted[1] + batch,), (0,) * batch, (0,) * batch)
    root = b.op("dot", x, y, dot_dimension_numbers=n)
    result = laid((1, 0, 2) if batch else out, root.shape.dimensions)
    check(laid_out(b.module(root), None, result), array(x.shape), array(y.shape, 1))


@pytest.mark.parametrize("left", list(permutations(range(4))))
def test_dot_of_four_dimensions(left: Order) -> None:
    b = Builder("attention")
    x, y = b.parameter(0, laid(left)), b.parameter(1, laid(left[::-1], (2, 3, 6, 5)))
    root = b.op("dot", x, y, dot_dimension_numbers=DotDimensionNumbers((3,), (3,), (0, 1), (0, 1)))
    check(laid_out(b.module(root), None, laid(left, root.shape.dimensions)), array(x.shape), array(y.shape, 1))


def test_tuples() -> None:
    """Layouts of the leaves of nested tuples, as parameter, as result, and passed through as they are."""
    inner = Shape.tuple([laid((0, 1)), Shape("f32", (3,))])
    shape = Shape.tuple([inner, laid((0, 2, 1))])
    b = Builder("tuples")
    p = b.parameter(0, shape)
    first = b.get_tuple_element(b.get_tuple_element(p, 0), 0)
    arrays = [array(leaf, i) for i, (_, leaf) in enumerate(shape.leaves())]
    check(b.module(p), *arrays)
    module = b.module(b.tuple(p, b.negate(first)))
    declared = Shape.tuple(
        [Shape.tuple([Shape.tuple([laid((1, 0)), Shape("f32", (3,))]), laid((1, 2, 0))]), laid((0, 1))]
    )
    check(laid_out(module, None, declared), *arrays)


def test_layouts_of_the_instructions_do_not_count() -> None:
    """Inside, a layout is a hint: the signature's is what callers use."""
    b = Builder("inside")
    x = b.parameter(0, laid((0, 1)))
    y = b.op("negate", x, shape=laid((0, 1)))
    module = laid_out(b.module(b.op("add", y, x, shape=laid((0, 1)))), [laid((1, 0))], laid((1, 0)))
    assert check(module, array(x.shape)).parameters[0].minor_to_major == (1, 0)


def test_loops_and_branches() -> None:
    shape = laid((0, 1))
    state = Shape.tuple([Shape("s32"), shape])
    body = Builder("body")
    s = body.parameter(0, state)
    i, x = body.get_tuple_element(s, 0), body.get_tuple_element(s, 1)
    step = body.build(body.tuple(body.add(i, body.constant(1, "s32")), body.add(x, x)))
    condition = Builder("condition")
    going = condition.build(
        condition.op(
            "compare",
            condition.get_tuple_element(condition.parameter(0, state), 0),
            condition.constant(3, "s32"),
            direction="LT",
        )
    )
    b = Builder("loop")
    looped = b.op("while", b.tuple(b.constant(0, "s32"), b.parameter(0, shape)), called=[step, going], shape=state)
    check(laid_out(b.module(b.get_tuple_element(looped, 1)), None, shape), array(shape))


@pytest.mark.parametrize("after", [(0, 1), (1, 0)])
def test_state_ends_where_it_began(after: Order) -> None:
    """The result that replaces a state takes the state's layout, whatever its own is."""
    b = Builder("state")
    s, x = b.parameter(0, laid((0, 1)), name="s"), b.parameter(1, laid((1, 0)), name="x")
    module = laid_out(b.module(b.tuple(b.add(s, x), b.negate(s))), None, Shape.tuple([laid(after), laid(after)]))
    exe = xla_wasm.load(xla_wasm.compile(module, xla_wasm.Options(state=(("s", 0),))))
    value, x_value = array(s.shape), array(s.shape, 1)
    exe.set("s", value)
    for k in range(3):
        np.testing.assert_array_equal(exe.run(x_value)[0], -(value + k * x_value))
    np.testing.assert_array_equal(exe.get("s"), value + 3 * x_value)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_weights(order: Order) -> None:
    shape = laid(order, (7, 8), tiles=((2, 3),))
    b = Builder("weights")
    x, w = b.parameter(0, Shape("f32", (5, 7))), b.parameter(1, shape, name="w")
    module = b.module(b.op("dot", x, w, dot_dimension_numbers=DotDimensionNumbers((1,), (0,))))
    artifact = xla_wasm.compile(module, xla_wasm.Options(weights=("w",)))
    x_value, value = array(x.shape), array(shape, 1)
    exe, raw = xla_wasm.load(artifact), xla_wasm.load(artifact, physical=True)
    exe.set("w", value)
    np.testing.assert_array_equal(exe.run(x_value)[0], x_value @ value)
    np.testing.assert_array_equal(exe.get("w"), value)
    raw.set("w", pack(shape, value))
    assert raw.get("w").tobytes() == pack(shape, value).tobytes()
    assert raw.run(x_value.tobytes())[0].tobytes() == (x_value @ value).tobytes()


# --- tiles and padding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout",
    [
        Layout((1, 0), ((2, 2),)),
        Layout((0, 1), ((8, 128), (2, 1))),
        Layout((1, 0), ((COMBINE, 3),)),
        Layout((1, 0), (), 0, 0, 8),
        Layout((0, 1), ((4,),), 0, 0, 32),
        Layout((1, 0), padded_dimensions=(4, 7), padding_value=2),
        Layout((1, 0), (), 64),
        Layout((1, 0), (), dynamic_shape_metadata_prefix_bytes=16),
    ],
)
def test_tiled_and_padded_boundaries(layout: Layout) -> None:
    b = Builder("tiled")
    shape = Shape("f32", (3, 5), layout)
    module = b.module(b.add(b.parameter(0, shape), b.parameter(1, Shape("f32", (3, 5)))))
    manifest = check(laid_out(module, None, shape), array(shape), array(shape, 1))
    assert manifest.results[0].shape == shape


def test_the_manifest_states_what_is_not_default() -> None:
    b = Builder("stated")
    shape = Shape("f32", (2, 3, 5), Layout((2, 1, 0), ((COMBINE, 2, 2),), tail_padding_alignment_in_elements=64))
    (parameter,) = xla_wasm.compile(b.module(b.negate(b.parameter(0, shape)))).manifest["parameters"]
    extra = {"tiles": [["*", 2, 2]], "tail_padding_alignment_in_elements": 64, "physical_bytes": 256, "bytes": 120}
    assert {key: parameter.get(key) for key in extra} == extra
    assert not parameter.keys() & {"element_size_in_bits", "padded_dimensions", "padding_value"}


def test_physical_arguments() -> None:
    b = Builder("tiled")
    exe = xla_wasm.load(
        xla_wasm.compile(b.module(b.negate(b.parameter(0, laid((1, 0), (3, 5), tiles=((2, 2),)))))), physical=True
    )
    data = pack(exe.parameters[0].shape, np.arange(15, dtype=np.float32).reshape(3, 5))
    expected = exe.run(data.tobytes())[0]
    for same in (bytearray(data), memoryview(data.tobytes()), data, data.reshape(24, 4), np.repeat(data, 2)[::2]):
        assert exe.run(same)[0].tobytes() == expected.tobytes()
    for wrong in (data[:-1], data.view(np.float32), 1.0, None, b""):
        with pytest.raises(ArgumentError, match=r"argument 0 .* must be the 96 bytes of f32\[3,5\]"):
            exe.run(wrong)
    again = exe.run(data)[0]
    again[:] = 0
    assert exe.run(data)[0].tobytes() == expected.tobytes(), "results are copies"


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout((1, 0), ((2, COMBINE),)), "none to be combined with"),
        (Layout((1, 0), ((2**40,),)), "4 GiB"),
        (Layout((1, 0), (), 4), "4 bits do not hold"),
    ],
)
def test_impossible_boundaries(layout: Layout, message: str) -> None:
    b = Builder("impossible")
    module = b.module(b.negate(b.parameter(0, Shape("f32", (3, 5), layout), name="x")))
    with pytest.raises(UnsupportedError, match=message):
        xla_wasm.compile(module)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tiles", [[0, 2]], "sizes above 0"),
        ("tiles", [[True]], "sizes above 0"),
        ("tiles", [[]], "lists of sizes"),
        ("tiles", 3, "expected a list"),
        ("tiles", [[2, "*"]], "none to be combined with"),
        ("tiles", [[4, 4]], "takes 128 bytes, not 96"),
        ("tiles", [[2**52, 2**52]], "takes"),
        ("physical_bytes", 95, "takes 96 bytes, not 95"),
        ("physical_bytes", 2**33, "expected an integer"),
        ("element_size_in_bits", 3, "3 bits do not hold"),
        ("tail_padding_alignment_in_elements", 0, "expected an integer from 1"),
        ("padded_dimensions", [1, 1], "padded to"),
    ],
)
def test_manifests_that_lie(key: str, value: Any, message: str) -> None:
    b = Builder("lies")
    artifact = xla_wasm.compile(b.module(b.negate(b.parameter(0, laid((1, 0), (3, 5), tiles=((2, 2),))))))
    artifact.manifest["parameters"][0][key] = value
    with pytest.raises(ArtifactError, match=message):
        Manifest.parse(artifact.manifest)


# --- JavaScript -----------------------------------------------------------------------------------------------------


def in_node(artifact: Artifact, folder: Path, arguments: list[Any], weights: dict[str, Any] | None = None) -> Any:
    """Returns Node's answer to physical bytes: those of the weights and results, or a message."""

    def text(data: Any) -> str:
        return base64.b64encode(bytes(data)).decode()

    path = artifact.save(folder / "module.wasm")
    job = {
        "wasm": str(path),
        "arguments": [*map(text, arguments)],
        "set": {name: text(data) for name, data in (weights or {}).items()},
    }
    runner = ROOT / "tests" / "js" / "run_physical.mjs"
    answer = json.loads(output([node_for("simd128"), runner], input=json.dumps(job)))
    return answer if isinstance(answer, str) else [base64.b64decode(data) for data in answer]


@pytest.mark.parametrize(
    "layout",
    [
        Layout((0, 2, 1)),
        Layout((2, 1, 0), ((2, 2),)),
        Layout((0, 1, 2), ((8, 128), (2, 1))),
        Layout((1, 0, 2), ((COMBINE, 2, 3), (2, 2, 1))),
        Layout((2, 1, 0), ((4,),), 0, 0, 32),
        Layout((0, 2, 1), padded_dimensions=(4, 7, 4), padding_value=3),
        Layout((2, 1, 0), ((3,),), 64),
        Layout((2, 1, 0), (), dynamic_shape_metadata_prefix_bytes=16),
    ],
)
def test_physical_bytes_in_node(layout: Layout, tmp_path: Path) -> None:
    b = Builder("node")
    shape = Shape("f32", (3, 5, 4), layout)
    module = laid_out(b.module(b.subtract(b.parameter(0, shape, "x"), b.parameter(1, shape, "w"))), None, shape)
    x, w = array(shape), array(shape, 1)
    artifact = xla_wasm.compile(module, xla_wasm.Options(weights=("w",)))
    got = in_node(artifact, tmp_path, [pack(shape, x)], {"w": pack(shape, w)})
    assert got == [pack(shape, w).tobytes(), pack(shape, x - w).tobytes()]


def test_packed_bits_in_node(tmp_path: Path) -> None:
    b = Builder("bits")
    layout = Layout((1, 0), ((2, 2),))
    bits = Shape("pred", (3, 5), replace(layout, element_size_in_bits=1))
    triples = Shape("u8", (3, 5), replace(layout, element_size_in_bits=24))
    x, y = b.parameter(0, bits), b.parameter(1, triples)
    module = laid_out(b.module(b.tuple(b.op("not", x), b.op("negate", y))), None, Shape.tuple([bits, triples]))
    values = np.arange(15).reshape(3, 5) % 4 == 1, np.arange(15, dtype=np.uint8).reshape(3, 5) * 17
    check(module, *values)
    got = in_node(xla_wasm.compile(module), tmp_path, [pack(bits, values[0]), pack(triples, values[1])])
    assert got == [pack(bits, ~values[0]).tobytes(), pack(triples, -values[1]).tobytes()]


def test_errors_in_node(tmp_path: Path) -> None:
    b = Builder("errors")
    artifact = xla_wasm.compile(b.module(b.negate(b.parameter(0, laid((1, 0), (3, 5), tiles=((2, 2),)), "x"))))
    message = "ArgumentError: argument 0 ('x') must be the 96 bytes of f32[3,5] in its layout; got 60"
    assert in_node(artifact, tmp_path, [bytes(60)]) == message


# --- bitcasts -------------------------------------------------------------------------------------------------------


def bitcast(b: Builder, x: Instruction, shape: Shape) -> Instruction:
    return b.op("bitcast", x, shape=shape)


@pytest.mark.parametrize("before", list(permutations(range(3))))
@pytest.mark.parametrize("after", list(permutations(range(3))))
def test_bitcast(before: Order, after: Order) -> None:
    source, target = laid(before), laid(after, (4, 1, 6))
    b = Builder("bitcast")
    x = b.parameter(0, source)
    y = bitcast(b, b.op("negate", x, shape=source), target)
    value = array(source)
    module = b.module(b.op("add", y, y, shape=target))
    check(module, value)
    data = -2 * value.transpose(before[::-1]).reshape(-1)
    expected = data.reshape([(4, 1, 6)[d] for d in after[::-1]]).transpose(np.argsort(after[::-1]))
    np.testing.assert_array_equal(run(module, value)[0], expected)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_bitcast_of_four(order: Order) -> None:
    """The bitcast that XLA makes of a transpose: it moves nothing."""
    b = Builder("bitcast")
    x = b.parameter(0, laid(order))
    dims = tuple(DIMS[d] for d in order[::-1])
    module = b.module(bitcast(b, x, Shape("f32", dims)))
    check(module, array(x.shape))
    assert len(xla_wasm.compile(module).manifest["steps"]["names"]) == 1, "no kernel"


@pytest.mark.parametrize(("source", "target"), [("f32", "s32"), ("f32", "u8"), ("f32", "f64")])
def test_bitcast_between_types(source: str, target: str) -> None:
    width = {"s32": 1, "u8": 4, "f64": 0.5}[target]
    b = Builder("bitcast")
    x = b.parameter(0, laid((0, 1), (4, 6), source))
    root = bitcast(b, x, laid((0, 1), (int(4 * width), 6), target))
    check(b.module(root), array(x.shape))


def test_bitcast_of_tiles() -> None:
    """Tiles are part of the bytes. A row of tiles is a dimension more; a tile by itself is a line."""
    b = Builder("tiles")
    tiled = Shape("f32", (3, 8), Layout((1, 0), ((4, 4),)))
    x = b.parameter(0, tiled)
    same = bitcast(b, x, Shape("f32", (1, 3, 8), Layout((2, 1, 0), ((4, 4),))))
    other = bitcast(b, x, Shape("f32", (8, 3), Layout((0, 1), ((4, 4),))))
    value = array(tiled)
    module = b.module(b.tuple(same, other))
    check(module, value)
    actual = run(module, value)
    np.testing.assert_array_equal(actual[0], value[None])
    np.testing.assert_array_equal(actual[1], value.T)
    whole = Shape("f32", (4, 8), Layout((1, 0), ((4, 4),)))
    b = Builder("line")
    root = bitcast(b, b.parameter(0, whole), Shape("f32", (32,)))
    value = array(whole)
    assert run(b.module(root), value)[0].tobytes() == pack(whole, value).tobytes()


@st.composite
def bitcasts(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """Two arrays of as many bytes without padding, tiled if at all."""

    def layout(rank: int) -> Layout:
        order = tuple(draw(st.permutations(range(rank))))
        tile = st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=3).map(tuple)
        return Layout(order, tuple(draw(st.lists(tile, max_size=2))))

    dims = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 4)), max_size=3)))
    other = tuple(draw(st.permutations(dims)))
    to, factor = draw(st.sampled_from((("f32", 1), ("s32", 1), ("u16", 2), ("u8", 4))))
    other = (*other, factor) if factor > 1 else other
    return Shape("f32", dims, layout(len(dims))), Shape(to, other, layout(len(other)))


@settings(max_examples=60)
@given(bitcasts())
def test_bitcasts_read_the_bytes(shapes: tuple[Shape, Shape]) -> None:
    source, target = shapes
    b = Builder("bitcast")
    module = b.module(bitcast(b, b.parameter(0, source), target))
    value = array(source) + np.float32(0.5)
    raw = xla_wasm.load(xla_wasm.compile(module), physical=True)
    data, result = pack(source, value), raw.run(pack(source, value))[0]
    # Padding is unspecified, so what is compared are the elements of the result that lie on elements of the operand.
    filled = pack(source, np.ones_like(value)).reshape(-1, 4).any(axis=1).repeat(4)
    width = TYPES[target.element_type].bytes
    wanted = (
        pack(target, np.ones(target.dimensions, dtype_of(target.element_type)))
        .reshape(-1, width)
        .any(axis=1)
        .repeat(width)
    )
    n = min(len(filled), len(wanted))
    both = np.flatnonzero(filled[:n] & wanted[:n])
    np.testing.assert_array_equal(result[both], data[both])
    if target.element_type == "f32":
        np.testing.assert_array_equal(run(module, value), evaluate(module, value))
