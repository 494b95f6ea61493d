"""Shardings as blocks: OpSharding in all its notations, Shardy's attributes, and what cannot be cut."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_wasm
from xla_wasm.hlo.ir import Module
from xla_wasm.hlo.sharding import Sharding, Shards, read_sharding
from xla_wasm.hlo.shardy import read_manual_axes, read_meshes, read_shardings

MESHES = read_meshes(
    '{empty_mesh = #sdy.mesh<[]>, mesh = #sdy.mesh<["x"=2, "y"=4]>, "my mesh" = #sdy.mesh<["a\\22b"=4], '
    "device_ids=[3, 2, 1, 0]>, "
    "one = #sdy.mesh<[], device_ids=[3]>}"
)


def of_text(sharding: str) -> list[Sharding]:
    """The sharding of a parameter in HLO text."""
    text = f"HloModule m\n\nENTRY e {{\n  ROOT p = f32[8,8]{{1,0}} parameter(0), sharding={sharding}\n}}\n"
    return read_sharding(Module.from_text(text).entry.root.attrs["sharding"])


def starts(sharding: Sharding, *dims: int) -> list[list[int]]:
    return [list(row) for row in sharding.shards(dims, sharding.devices or 1, "here").starts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{devices=[2,1]0,1}", [[0, 0], [4, 0]]),
        ("{devices=[2,1]1,0}", [[4, 0], [0, 0]]),
        ("{devices=[2,2]<=[4]}", [[0, 0], [0, 4], [4, 0], [4, 4]]),
        ("{devices=[2,2]<=[2,2]T(1,0)}", [[0, 0], [4, 0], [0, 4], [4, 4]]),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", [[0, 0], [0, 0], [4, 0], [4, 0]]),
        ("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}", [[0, 0], [0, 4], [0, 0], [0, 4]]),
        ("{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}", [[0, 0]] * 4),
        ("{mesh['x'=2,'y'=2], [{'y'}, {'x'}]}", [[0, 0], [4, 0], [0, 4], [4, 4]]),
        ("{mesh['x'=4], device_ids=(3,2,1,0), [{'x':(2)2}, {}]}", [[4, 0], [0, 0], [4, 0], [0, 0]]),
        ("{replicated}", [[0, 0]]),
    ],
)
def test_blocks_of_op_sharding(text: str, expected: list[list[int]]) -> None:
    (sharding,) = of_text(text)
    assert starts(sharding, 8, 8) == expected


def test_tuples_and_kinds_that_cut_nothing() -> None:
    assert [
        s.kind for s in of_text("{{manual}, {devices=[2,1]<=[2]}, {maximal device=1}, {unknown}, {unreduced}}")
    ] == [*("manual", "tiled", "maximal", "unknown", "unreduced")]
    (maximal,) = of_text("{maximal device=0}")
    with pytest.raises(xla_wasm.UnsupportedError, match="here: a sharding of kind 'maximal' is not supported"):
        maximal.shards((8, 8), 2, "here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('#sdy.sharding<@mesh, [{"x"}, {}]>', [[0, 0]] * 4 + [[4, 0]] * 4),
        (
            '#sdy.sharding<@mesh, [{"y", ?}p1, {"x"}], replicated={}>',
            [[2 * y, 4 * x] for x in range(2) for y in range(4)],
        ),
        ('#sdy.sharding<@mesh, [{"y", "x"}, {?}]>', [[2 * y + x, 0] for x in range(2) for y in range(4)]),
        (
            '#sdy.sharding<@mesh, [{"y":(1)2}, {"y":(2)2}]>',
            [[y // 2 * 4, y % 2 * 4] for _ in range(2) for y in range(4)],
        ),
        ('#sdy.sharding<@"my mesh", [{"a\\22b"}, {}]>', [[6, 0], [4, 0], [2, 0], [0, 0]]),
        ('#sdy.sharding<mesh<["z"=2]>, [{}, {"z"}]>', [[0, 0], [0, 4]]),
        ("#sdy.sharding<@empty_mesh, [{}, {}]>", [[0, 0]]),
    ],
)
def test_blocks_of_shardy(text: str, expected: list[list[int]]) -> None:
    (sharding,) = read_shardings(text, MESHES)
    assert starts(sharding, 8, 8) == expected


def test_shardings_of_several_values_and_manual_axes() -> None:
    text = '#sdy.sharding_per_value<[<@mesh, [{"x", "y"}]>, <@mesh, []>, <@one, []>, <@mesh, [{}], unreduced={"x"}>]>'
    assert [(s.kind, s.devices) for s in read_shardings(text, MESHES)] == [
        ("tiled", 8),
        ("replicated", 8),
        ("maximal", 0),
        ("unreduced", 0),
    ]
    assert read_manual_axes('#sdy<manual_axes{"x", "y"}>') == {"x", "y"}
    manual, *_ = read_shardings(text, MESHES, frozenset("x"))
    assert starts(manual, 8) == [[0]] * 4 + [[4]] * 4


def test_shardings_are_those_of_jax() -> None:
    mesh = Mesh(np.array(jax.devices("cpu")[:8]).reshape(2, 4), ("x", "y"))
    for spec in (P("x", "y"), P("y", "x"), P(("x", "y")), P(None, ("y", "x")), P("y"), P()):
        own = NamedSharding(mesh, spec)
        wanted = [[s.start or 0 for s in index] for index in own.devices_indices_map((8, 8)).values()]
        (sharding,) = of_text(str(own._to_xla_hlo_sharding(2)))
        assert starts(sharding, 8, 8) in (wanted, wanted[:1]), spec


@pytest.mark.parametrize(
    ("read", "error", "message"),
    [
        (
            lambda: of_text("{devices=[3,1]<=[3]}")[0].shards((8, 8), 3, "p"),
            xla_wasm.UnsupportedError,
            "p: dimension 0 of size 8 .* 3 equal shards",
        ),
        (
            lambda: of_text("{devices=[2,1]<=[2]}")[0].shards((8,), 2, "p"),
            xla_wasm.UnsupportedError,
            "cuts 2 dimensions over 2 devices",
        ),
        (
            lambda: of_text("{devices=[2,1]<=[2]}")[0].shards((8, 8), 4, "p"),
            xla_wasm.UnsupportedError,
            "the program runs on 4",
        ),
        (
            lambda: read_shardings("#sdy.sharding<@other, [{}]>", MESHES),
            xla_wasm.UnsupportedError,
            "names the mesh 'other'",
        ),
        (
            lambda: read_shardings('#sdy.sharding<@mesh, [{"z"}]>', MESHES),
            xla_wasm.UnsupportedError,
            "names the axis 'z'",
        ),
        (
            lambda: read_shardings('#sdy.sharding<@mesh, [{"x":(3)2}]>', MESHES),
            xla_wasm.UnsupportedError,
            "parts of axes that do not divide",
        ),
        (lambda: read_shardings('#sdy.sharding<@mesh, [{"x"}', MESHES), xla_wasm.ParseError, "is damaged: expected"),
        (lambda: read_shardings("", MESHES), xla_wasm.ParseError, "is damaged"),
        (lambda: of_text("{devices=[1048576,1]<=[1048576]}"), xla_wasm.UnsupportedError, "at most 65536"),
        (lambda: read_meshes('{mesh = #sdy.mesh<["x"=99999999]>}'), xla_wasm.UnsupportedError, "at most 65536"),
        (lambda: read_meshes('{mesh = #sdy.mesh<["x"=two]>}'), xla_wasm.ParseError, "expected a number"),
    ],
)
def test_what_is_refused(read: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read()  # type: ignore[operator]


def test_whole_and_complete() -> None:
    assert Shards((4,), (4,), ((0,), (0,))).whole and Shards((4,), (2,), ((0,), (2,))).complete
    assert not Shards((4, 4), (2, 2), ((0, 0), (2, 2))).complete


def test_some_of_the_devices() -> None:
    """A program on one device does not mind which of many devices an annotation names."""
    (sharding,) = of_text("{devices=[2,2]0,1,4,5}")
    assert (sharding.kind, sharding.devices) == ("partial", 4)
    with pytest.raises(xla_wasm.UnsupportedError, match="here: a sharding of kind 'partial' is not supported"):
        sharding.shards((8, 8), 4, "here")
    text = (
        "HloModule m\n\nENTRY e {\n  p = f32[8] parameter(0), sharding={devices=[4]0,1,4,5}\n  ROOT r = f32[8] "
        "negate(p)\n}\n"
    )
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(xla_wasm.load(xla_wasm.compile(Module.from_text(text))).run(x), [-x])
