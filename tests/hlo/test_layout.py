"""Layouts by example and against a model that places one element at a time."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from xla_wasm.command.layout_view import draw, svg
from xla_wasm.errors import ArgumentError, ParseError
from xla_wasm.hlo import layout as lay
from xla_wasm.hlo.layout import COMBINE
from xla_wasm.hlo.proto.shapes import read_shape, write_shape
from xla_wasm.hlo.shape import Index, Layout, Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.host import layouts
from xla_wasm.host.arrays import dtype_of


def linear_index(shape: Shape, index: Sequence[int]) -> int:
    """The position of an element where there are neither tiles nor padding: XLA's multi-index to linear index."""
    position = 0
    for d in reversed(shape.minor_to_major):
        position = position * shape.dimensions[d] + index[d]
    return position


def multi_index(shape: Shape, linear: int) -> Index:
    """The inverse of `linear_index`."""
    index = [0] * shape.rank
    for d in shape.minor_to_major:
        linear, index[d] = divmod(linear, shape.dimensions[d])
    return tuple(index)


def linear_index_with_tile(index: Sequence[int], bounds: Sequence[int], tile: Sequence[int]) -> int:
    """The position of `index`, major dimension first, where one tile of the same rank splits an array of `bounds`."""
    position = 0
    for i, size, t in zip(index, bounds, tile):
        position = position * -(-size // t) + i // t
    for i, t in zip(index, tile):
        position = position * t + i % t
    return position


def in_memory_order(shape: Shape) -> Iterator[Index | None]:
    """The index of the element at every position, None for padding."""
    strides = [prod(shape.dimensions[d + 1 :]) for d in range(shape.rank)]
    for element in lay.order(shape):
        yield (
            None if element < 0 else tuple(element // stride % size for stride, size in zip(strides, shape.dimensions))
        )


def shaped(
    dims: tuple[int, ...], order: tuple[int, ...] | None = None, tiles: Any = (), element_type: str = "f32", **more: Any
) -> Shape:
    return Shape(
        element_type,
        dims,
        Layout(Layout.default(len(dims)).minor_to_major if order is None else order, tuple(tiles), **more),
    )


def letters(shape: Shape, text: str) -> str:
    """The bytes of an array of characters; `0` for a zero byte."""
    return " ".join(chr(byte) if byte else "0" for byte in lay.pack(shape, text.encode()))


# --- the examples ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (
            "bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}",
            shaped((8, 1, 1280, 16384), (3, 2, 0, 1), [(8, 128), (2, 1)], "bf16"),
        ),
        (
            "bf16[32,32,4096]{2,1,0:T(8,128)(2,1)S(1)}",
            shaped((32, 32, 4096), None, [(8, 128), (2, 1)], "bf16", memory_space=1),
        ),
        ("f32[3,5]", Shape("f32", (3, 5))),
        ("f32[]{:T(128)}", shaped((), (), [(128,)])),
        ("f32[3]{0:S(5)}", shaped((3,), memory_space=5)),
        ("f32[3]{0:T(8)L(16)}", shaped((3,), None, [(8,)], tail_padding_alignment_in_elements=16)),
        ("s4[3]{0:E(4)}", shaped((3,), element_type="s4", element_size_in_bits=4)),
        ("f32[2,7,8]{2,1,0:T(*,*,3)}", shaped((2, 7, 8), None, [(COMBINE, COMBINE, 3)])),
    ],
)
def test_text_form(text: str, shape: Shape) -> None:
    assert str(shape) == text
    assert read_shape(write_shape(shape)) == (shape if shape.layout else shape.with_default_layout())


def test_no_layout_means_major_to_minor_without_tiles() -> None:
    assert Shape("f32", (2, 3)).minor_to_major == (1, 0)
    assert lay.is_plain(Shape("f32", (2, 3)))
    assert Shape("f32", (2, 3)).with_default_layout().layout == Layout((1, 0))


@pytest.mark.parametrize("space", range(6))
def test_memory_spaces_are_kept(space: int) -> None:
    shape = shaped((4,), memory_space=space)
    assert read_shape(write_shape(shape)) == shape
    assert (f"S({space})" in str(shape)) == (space > 0)
    assert lay.physical_bytes(shape) == 16


def test_the_order_of_bytes() -> None:
    assert letters(shaped((2, 3), (0, 1), element_type="u8"), "abcdef") == "a d b e c f"
    assert letters(shaped((2, 3), (1, 0), element_type="u8"), "abcdef") == "a b c d e f"
    assert letters(Shape("u8", (2, 3)), "abcdef") == "a b c d e f"


def test_older_padding_fields() -> None:
    padded = shaped((2, 3), (0, 1), element_type="u8", padded_dimensions=(3, 5), padding_value=0)
    assert letters(padded, "abcdef") == "a d 0 b e 0 c f 0 0 0 0 0 0 0"
    whole = np.zeros((3, 5), np.uint8)
    whole[:2, :3] = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
    assert lay.pack(padded, b"abcdef") == whole.tobytes(order="F")
    assert layouts.pack(padded, whole[:2, :3]).tobytes() == whole.tobytes(order="F")
    assert read_shape(write_shape(padded)) == padded
    with pytest.raises(ParseError, match="1 padded size for 2 dimensions"):
        read_shape(write_shape(shaped((2, 3), padded_dimensions=(4,))))


@pytest.mark.parametrize(
    ("element_type", "value", "element"),
    [
        ("s8", 2, b"\x01"),
        ("s8", 3, b"\x80"),
        ("s8", 4, b"\x7f"),
        ("u16", 4, b"\xff\xff"),
        ("f32", 1, bytes(4)),
        ("f32", 3, struct.pack("<f", float("-inf"))),
        ("f8e4m3fn", 4, np.array(448, ml_dtypes.float8_e4m3fn).tobytes()),
        ("pred", 4, b"\x01"),
    ],
)
def test_values_of_padding(element_type: str, value: int, element: bytes) -> None:
    shape = shaped((0,), element_type=element_type, padded_dimensions=(2,), padding_value=value)
    assert lay.pack(shape, b"") == 2 * element


def test_dimension_numbers() -> None:
    shape = Shape("f32", (5, 1, 7))
    assert [shape.dimension(d) for d in (0, 1, 2, -1, -2, -3)] == [5, 1, 7, 7, 1, 5]
    assert shape.dimension_number(-1) == 2
    for d in (3, -4):
        with pytest.raises(ArgumentError, match=f"no dimension {d}"):
            shape.dimension(d)


def test_size_zero() -> None:
    shape = shaped((0, 3), None, [(2, 2)])
    assert (shape.size, lay.physical_elements(shape), lay.pack(shape, b""), lay.unpack(shape, b"")) == (0, 0, b"", b"")
    assert lay.order(shape) == []


def test_linear_index() -> None:
    """((e_n d_{n-1} + e_{n-1}) d_{n-2} + ...) + e_1, whatever tiles there are."""
    shape = shaped((2, 3, 4), None, [(2, 2)])
    for z, y, x in product(range(2), range(3), range(4)):
        assert linear_index(shape, (z, y, x)) == (z * 3 + y) * 4 + x
        assert multi_index(shape, (z * 3 + y) * 4 + x) == (z, y, x)
    turned = shaped((2, 3, 4), (0, 2, 1))
    assert linear_index(turned, (1, 2, 3)) == (2 * 4 + 3) * 2 + 1
    assert multi_index(turned, 23) == (1, 2, 3)


def test_linear_index_with_tile() -> None:
    assert linear_index_with_tile((2, 3), (3, 5), (2, 2)) == 17
    shape = shaped((3, 5), None, [(2, 2)])
    assert lay.position(shape, (2, 3)) == 17
    assert lay.index_at(shape, 17) == (2, 3)
    assert (lay.physical_elements(shape), lay.physical_bytes(shape), lay.physical_dimensions(shape)) == (
        24,
        96,
        (2, 3, 2, 2),
    )
    assert lay.index_at(shape, 23) is None


def test_a_tile_is_pad_reshape_and_transpose() -> None:
    x = np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    moved = np.pad(x, ((0, 1), (0, 1))).reshape(2, 2, 3, 2).transpose(0, 2, 1, 3)
    assert lay.pack(shaped((3, 5), None, [(2, 2)]), x.tobytes()) == moved.tobytes()


def test_repeated_tiles() -> None:
    shape = shaped((4, 8), None, [(2, 4), (2, 1)])
    for r, c in product(range(4), range(8)):
        assert lay.position(shape, (r, c)) == 8 * ((r // 2) * 2 + c // 4) + 2 * (c % 4) + r % 2
    packed = shaped((16, 256), None, [(8, 128), (2, 1)], "bf16")
    assert lay.position(packed, (7, 5)) == lay.position(packed, (6, 5)) + 1, "two rows share 32 bits"


def test_a_later_tile_may_have_more_dimensions() -> None:
    """The second tile reaches the counts of the first: they are tiled by pairs."""
    shape = shaped((16, 6), None, [(4,), (2, 2, 4)])
    assert lay.physical_dimensions(shape) == (8, 1, 1, 2, 2, 4)
    for r, c in product(range(16), range(6)):
        assert lay.position(shape, (r, c)) == r // 2 * 16 + r % 2 * 8 + c // 4 * 4 + c % 4
    line = shaped((1500,), None, [(1024,), (128,), (2, 1)])
    assert lay.physical_dimensions(line) == (2, 4, 128, 2, 1)
    assert read_shape(write_shape(line)) == line


def test_a_tile_of_fewer_dimensions_takes_the_most_minor_ones() -> None:
    shape = shaped((2, 3, 5), (0, 2, 1), [(2,)])
    for z, y, x in product(range(2), range(3), range(5)):
        assert lay.position(shape, (z, y, x)) == (y * 5 + x) * 2 + z


def test_a_tile_of_more_dimensions_than_the_array() -> None:
    assert lay.physical_elements(shaped((), (), [(128,)])) == 128
    assert lay.physical_dimensions(shaped((100,), None, [(8, 128)])) == (1, 1, 8, 128)
    assert lay.position(shaped((100,), None, [(8, 128)]), (99,)) == 99


def test_combined_dimensions() -> None:
    shape = shaped((2, 7, 8, 11, 10), None, [(COMBINE, COMBINE, 2, COMBINE, 3)])
    assert str(shape) == "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}"
    assert lay.order(shape) == lay.order(shaped((112, 110), None, [(2, 3)]))
    assert lay.position(shape, (1, 2, 3, 4, 5)) == linear_index_with_tile((75, 45), (112, 110), (2, 3))
    with pytest.raises(ArgumentError, match="none to be combined with"):
        lay.physical_bytes(shaped((2, 2), None, [(2, COMBINE)]))


def test_tail_padding() -> None:
    shape = shaped((3, 5), None, [(2, 2)], tail_padding_alignment_in_elements=32)
    assert (lay.physical_elements(shape), lay.physical_bytes(shape)) == (32, 128)
    assert lay.index_at(shape, 30) is None
    assert lay.order(shape)[24:] == [-1] * 8
    assert lay.physical_elements(shaped((3, 5), tail_padding_alignment_in_elements=4)) == 16


def test_padding_is_not_read() -> None:
    shape = shaped((3, 5), None, [(2, 2)], "u8", tail_padding_alignment_in_elements=5)
    data = bytes(range(15))
    noisy = bytes(
        b if place is not None else 0xAA for b, place in zip(lay.pack(shape, data), in_memory_order(shape), strict=True)
    )
    assert lay.unpack(shape, noisy) == data
    assert layouts.unpack(shape, noisy).tobytes() == data


# --- elements narrower or wider than themselves ---------------------------------------------------------------------


def test_packed_elements() -> None:
    """Element 0 in the low bits of byte 0."""
    shape = shaped((5,), element_type="s4", element_size_in_bits=4)
    data = bytes([1, 0xFE, 7, 0xF8, 5])
    assert lay.physical_bytes(shape) == 3
    assert lay.pack(shape, data) == bytes([0xE1, 0x87, 0x05])
    assert lay.unpack(shape, bytes([0xE1, 0x87, 0xF5])) == data
    ones = shaped((10,), element_type="pred", element_size_in_bits=1)
    assert lay.pack(ones, bytes([1, 0, 0, 1, 0, 0, 0, 0, 0, 1])) == bytes([0b1001, 0b10])
    assert lay.physical_bytes(shaped((5,), element_type="s4")) == 5, "a byte each unless the layout says otherwise"


def test_impossible_element_sizes() -> None:
    for bits in (4, 12, 31):
        with pytest.raises(ArgumentError, match=f"{bits} bits do not hold an element of f32"):
            lay.physical_bytes(shaped((5,), element_size_in_bits=bits))


def test_a_prefix_holds_the_sizes() -> None:
    shape = shaped((2, 3), element_type="u8", dynamic_shape_metadata_prefix_bytes=16)
    packed = lay.pack(shape, b"abcdef")
    assert packed == struct.pack("<4i", 2, 3, 0, 0) + b"abcdef"
    assert lay.unpack(shape, packed) == b"abcdef"
    assert layouts.pack(shape, np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)).tobytes() == packed
    with pytest.raises(ArgumentError, match="do not hold 2 sizes"):
        lay.pack(shaped((2, 3), element_type="u8", dynamic_shape_metadata_prefix_bytes=4), b"abcdef")


def test_wrong_arguments() -> None:
    shape = shaped((3, 5), None, [(2, 2)])
    for index in ((3, 0), (0, 5), (-1, 0), (0,)):
        with pytest.raises(ArgumentError, match="has no element"):
            lay.position(shape, index)
    for place in (-1, 24):
        with pytest.raises(ArgumentError, match="has no position"):
            lay.index_at(shape, place)
    with pytest.raises(ArgumentError, match="60 bytes, 59 given"):
        lay.pack(shape, bytes(59))
    for function in (lay.unpack, layouts.unpack):
        with pytest.raises(ArgumentError, match="96 bytes"):
            function(shape, bytes(60))
    for tiles in ([(0, 2)], [(-1,)]):
        with pytest.raises(ArgumentError, match="a tile of size"):
            lay.tilings(shaped((3, 5), None, tiles))
    with pytest.raises(ArgumentError, match="dimensions padded to"):
        lay.physical_bytes(shaped((3, 5), padded_dimensions=(2, 5)))


# --- against the model ----------------------------------------------------------------------------------------------


def model(shape: Shape, index: tuple[int, ...]) -> int:
    """Returns the place of an element, counted in elements, by the formula: one division at a time, on a list of
    (coordinate, bound)."""
    layout = shape.layout
    assert layout is not None
    bounds = layout.padded_dimensions or shape.dimensions
    axes = [(index[d], bounds[d]) for d in reversed(layout.minor_to_major)]
    for tile in layout.tiles:
        axes = [(0, 1)] * (len(tile) - len(axes)) + axes
        untouched, rest = axes[: len(axes) - len(tile)], axes[len(axes) - len(tile) :]
        counts, insides = [], []
        carried = (0, 1)
        for (e, d), t in zip(rest, tile):
            carried = (carried[0] * d + e, carried[1] * d)
            if t != COMBINE:
                counts.append((carried[0] // t, (carried[1] + t - 1) // t))
                insides.append((carried[0] % t, t))
                carried = (0, 1)
        axes = [*untouched, *counts, *insides]
    place = 0
    for e, d in axes:
        place = place * d + e
    return place


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Arrays of up to five dimensions with up to three tiles."""
    dims = tuple(draw(st.lists(st.integers(1, 6) | st.just(0), max_size=5)))
    tile = st.builds(
        lambda major, minor: (*major, minor),
        st.lists(st.sampled_from((1, 2, 3, 4, COMBINE)), max_size=3),
        st.integers(1, 4),
    )
    element_type = draw(st.sampled_from(("u8", "s16", "f32", "c128", "pred", "s4", "u2", "bf16", "f8e5m2")))
    more: dict[str, Any] = {"tail_padding_alignment_in_elements": draw(st.sampled_from((1, 1, 4, 7)))}
    bits = TYPES[element_type].bits
    more["element_size_in_bits"] = draw(
        st.sampled_from((0, 0, bits, 32) if bits in (2, 4, 8, 16) else (0, bits if bits > 1 else 4))
    )
    if draw(st.booleans()):
        more["padded_dimensions"] = tuple(size + draw(st.integers(0, 2)) for size in dims)
    order = tuple(draw(st.permutations(range(len(dims)))))
    return shaped(dims, order, draw(st.lists(tile, max_size=3)), element_type, **more)


@settings(max_examples=300)
@given(shapes())
def test_positions_are_those_of_the_model(shape: Shape) -> None:
    if lay.physical_elements(shape) > 20_000:
        return
    places = {}
    for index in product(*map(range, shape.dimensions)):
        places[model(shape, index)] = index
    assert len(places) == shape.size, "no two elements at one place"
    found = list(in_memory_order(shape))
    assert len(found) == lay.physical_elements(shape)
    assert {place: index for place, index in enumerate(found) if index is not None} == places
    for place in list(places)[:50]:
        assert lay.position(shape, places[place]) == place
        assert lay.index_at(shape, place) == places[place]
    for place in [p for p, index in enumerate(found) if index is None][:50]:
        assert lay.index_at(shape, place) is None


@settings(max_examples=300)
@given(shapes(), st.integers(0, 2**32 - 1))
def test_bytes_there_and_back(shape: Shape, seed: int) -> None:
    if lay.physical_elements(shape) > 20_000:
        return
    type_ = TYPES[shape.element_type]
    codes = np.random.default_rng(seed).integers(0, 1 << min(type_.bits, 8), shape.size * type_.bytes, np.uint8)
    if type_.kind == "signed" and type_.bits < 8:
        codes = (codes ^ np.uint8(1 << type_.bits - 1)) - np.uint8(1 << type_.bits - 1)
    data = codes.tobytes()
    packed = lay.pack(shape, data)
    assert len(packed) == lay.physical_bytes(shape)
    assert lay.unpack(shape, packed) == data
    array = np.frombuffer(data, dtype_of(shape.element_type)).reshape(shape.dimensions)
    assert layouts.pack(shape, array).tobytes() == packed
    assert layouts.unpack(shape, packed).tobytes() == data
    assert read_shape(write_shape(shape)) == shape


@settings(max_examples=200)
@given(shapes())
def test_without_tiles_positions_are_linear(shape: Shape) -> None:
    plain = shaped(shape.dimensions, shape.minor_to_major, element_type=shape.element_type)
    assert lay.is_plain(plain)
    for linear in range(0, plain.size, max(1, plain.size // 40)):
        index = multi_index(plain, linear)
        assert linear_index(plain, index) == lay.position(plain, index) == linear
    assert lay.physical_dimensions(plain) == tuple(plain.dimensions[d] for d in reversed(plain.minor_to_major))
    assert prod(lay.physical_dimensions(plain)) == lay.physical_elements(plain) == plain.size


# --- drawings -------------------------------------------------------------------------------------------------------


def drawn(shape: Shape) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(draw(shape))
    return console.export_text()


def test_table() -> None:
    text = drawn(shaped((3, 5), None, [(2, 2)]))
    assert "tile 2x2: 3x5 padded to 4x6 in 2x3 tiles" in text
    assert "in memory: 24 elements, 9 of them padding; 96 bytes" in text
    rows = [line.split() for line in text.splitlines()]
    grid = [" ".join(row[1:]) for row in rows if row and row[0].startswith("y=")]
    assert grid == ["0 1 4 5 8", "2 3 6 7 10", "12 13 16 17 20"]
    assert "16 2,2 2,3 · · 2,4 · · ·".split() in rows


def test_names_of_dimensions() -> None:
    assert "from slow to fast: x, p, z, y" in drawn(shaped((2, 3, 4, 5), (2, 1, 0, 3)))
    assert "p=1 z=1" in drawn(shaped((2, 2, 1, 1)))
    assert "d0=0 d1=0 d2=0" in drawn(shaped((1, 1, 1, 1, 2)))


def test_large_arrays_are_cut() -> None:
    text = drawn(shaped((8, 1, 1280, 16384), (3, 2, 0, 1), [(8, 128), (2, 1)], "bf16"))
    assert "Shown are 4 of 8 planes" in text and "Shown is the corner of 16x12 elements" in text
    assert "... and 167,772,032 positions more" in text
    assert max(map(len, text.splitlines())) < 160


@settings(max_examples=100)
@given(shapes())
def test_drawings_of_all_kinds(shape: Shape) -> None:
    assert str(shape) in drawn(shape)
    picture = ElementTree.fromstring(svg(shape))
    texts = [text.text or "" for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert str(shape) in texts
    whole = shape.size <= 8 and not any(text.startswith("Shown are") for text in texts)
    places = [place for place, index in enumerate(in_memory_order(shape)) if index is not None] if whole else []
    assert all(str(place) in texts for place in places)


def test_what_has_no_layout() -> None:
    for shape in (Shape.tuple([Shape("f32")]), Shape("token")):
        for function in (draw, svg):
            with pytest.raises(ArgumentError, match="is no array"):
                function(shape)
