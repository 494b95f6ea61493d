"""Shapes and layouts in HLO text."""

from __future__ import annotations

import re
from math import prod
from typing import NoReturn

from ...errors import UnsupportedError, counted
from ..shape import UNBOUNDED, Layout, Shape
from ..types import TYPES
from .lexer import ARRAY, LAYOUT, NAME, Lexer, terminal

WORDS = {name: name for name, type_ in TYPES.items() if type_.bits or name in ("token", "opaque")}
"""Word -> element type. These words cannot be names."""
_TYPE = terminal(r"([a-z][a-z0-9_]*+)\s*+\[")
_DIMENSION = terminal(r"(?:(<=)\s*+)?+(\d++|\?)")
_LETTER = terminal(r"(SC|[TLESMDP#*])\s*+\(")
_ORDER = "DTL#*ESCPM"
_DEEPEST = 64
_MOST_DIMENSIONS = 256
_MOST_ELEMENTS = 1 << 60


class Shapes:
    """Reads shapes; equal texts give the same object."""

    def __init__(self, lexer: Lexer):
        self.lexer = lexer
        self.known: dict[str, Shape] = {}

    def shape(self) -> Shape:
        """The shape that must stand here."""
        found = self.optional()
        return found if found is not None else self.lexer.fail("a shape")

    def optional(self, depth: int = 0) -> Shape | None:
        """The shape here, None if something else stands here."""
        lexer = self.lexer
        quick = ARRAY.match(lexer.text, lexer.pos)
        if quick:
            shape = self.known.get(quick[1])
            if shape is None:
                begin = lexer.pos
                shape = self._slow(depth)
                if shape is None or lexer.pos != quick.end():
                    lexer.error("this is no shape", begin)
                self.known[quick[1]] = shape
            lexer.pos = quick.end()
            return shape
        return self._slow(depth)

    def _slow(self, depth: int) -> Shape | None:
        lexer = self.lexer
        begin = lexer.skip()
        if depth > _DEEPEST:
            lexer.error(f"tuples nested deeper than {_DEEPEST}")
        if lexer.take("("):
            return self._tuple(depth)
        found = _TYPE.match(lexer.text, lexer.pos)
        if found is None:
            if lexer.text.startswith("b(", begin):
                lexer.pos = begin + 2
                inner = self.optional(depth + 1) or lexer.fail("a shape")
                lexer.expect(")")
                return Shape("buffer", tuple_shapes=(inner,))
            return None
        if found[1] not in WORDS:
            return None
        lexer.pos = found.end()
        return self._array(WORDS[found[1]], begin)

    def _tuple(self, depth: int) -> Shape:
        lexer = self.lexer
        shapes = []
        if not lexer.take(")"):
            while True:
                shapes.append(self.optional(depth + 1) or lexer.fail("a shape"))
                if not lexer.take(","):
                    break
            lexer.expect(")")
        return Shape("tuple", tuple_shapes=tuple(shapes))

    def _array(self, element_type: str, begin: int) -> Shape:
        lexer = self.lexer
        dimensions: list[int] = []
        dynamic: list[bool] = []
        while not lexer.take("]"):
            if dimensions:
                lexer.expect(",")
            found = lexer.match(_DIMENSION)
            if found is None or (found[1] and found[2] == "?"):
                lexer.fail("a dimension")
            dimensions.append(UNBOUNDED if found[2] == "?" else lexer.number_in(found[2]))
            dynamic.append(bool(found[1]) or found[2] == "?")
        rank = len(dimensions)
        if not TYPES[element_type].bits and rank:
            lexer.error(f"a {element_type} has no dimensions", begin)
        if rank > _MOST_DIMENSIONS or prod(max(size, 1) for size in dimensions) > _MOST_ELEMENTS:
            lexer.error("the array is too large for any machine", begin)
        layout = None
        if lexer.match(LAYOUT):
            layout = self._layout(rank)
        return Shape(element_type, tuple(dimensions), layout, tuple(dynamic) if any(dynamic) else ())

    def _layout(self, rank: int) -> Layout:
        lexer = self.lexer
        begin = lexer.pos
        order: list[int] = []
        while not (lexer.sees(":") or lexer.sees("}")):
            if order:
                lexer.expect(",")
            order.append(lexer.integer("a dimension number"))
        if sorted(order) != list(range(rank)):
            lexer.error(f"the layout is no permutation of {counted(rank, 'dimension')}", begin)
        parts: dict[str, int] = {}
        tiles: list[tuple[int, ...]] = []
        splits: list[tuple[int, tuple[int, ...]]] = []
        types: dict[str, str] = {}
        last = -1
        if lexer.take(":"):
            while found := lexer.match(_LETTER):
                letter = found[1]
                if _ORDER.index(letter[-1]) <= last:
                    lexer.error(f"{letter} is out of place in a layout", found.start(1))
                last = _ORDER.index(letter[-1])
                if letter == "T":
                    tiles = self._tiles()
                elif letter == "SC":
                    splits = self._splits()
                elif letter in "#*":
                    types[letter] = lexer.need(NAME, "an element type")
                    if TYPES.get(types[letter], TYPES["token"]).kind != "unsigned":
                        lexer.error("indices and pointers are of an unsigned type", found.start(1))
                    lexer.expect(")")
                elif letter in "DP":
                    self._sparse(letter, found.start(1))
                else:
                    parts[letter] = lexer.integer()
                    lexer.expect(")")
        lexer.expect("}")
        return Layout(
            tuple(order),
            tuple(tiles),
            parts.get("E", 0),
            parts.get("S", 0),
            parts.get("L", 1),
            parts.get("M", 0),
            split_configs=tuple(splits),
            index_primitive_type=types.get("#", ""),
            pointer_primitive_type=types.get("*", ""),
        )

    def _tiles(self) -> list[tuple[int, ...]]:
        lexer = self.lexer
        tiles = []
        while True:
            begin = lexer.pos
            tile: list[int] = []
            while not lexer.take(")"):
                if tile:
                    lexer.expect(",")
                tile.append(UNBOUNDED if lexer.take("*") else lexer.integer("a size or '*'"))
            if not 0 < len(tile) <= _MOST_DIMENSIONS or any(size < 1 and size != UNBOUNDED for size in tile):
                lexer.error("the sizes of a tile are positive", begin)
            tiles.append(tuple(tile))
            if not lexer.take("("):
                return tiles

    def _splits(self) -> list[tuple[int, tuple[int, ...]]]:
        """(dimension:index,...) ..."""
        lexer = self.lexer
        splits: list[tuple[int, tuple[int, ...]]] = []
        while True:
            dimension = lexer.integer("a dimension number")
            lexer.expect(":")
            indices = [lexer.integer()]
            while lexer.take(","):
                indices.append(lexer.integer())
            lexer.expect(")")
            splits.append((dimension, tuple(indices)))
            if not lexer.take("("):
                return splits

    def _sparse(self, letter: str, begin: int) -> None:
        """D(...) of dense dimensions says nothing; the other marks belong to sparse arrays, which nothing supports."""
        lexer = self.lexer
        found = re.compile(r"D(?:,D)*+\)").match(lexer.text, lexer.pos)
        if letter != "D" or found is None:
            unsupported_layout(lexer, begin)
        lexer.pos = found.end()


def unsupported_layout(lexer: Lexer, begin: int) -> NoReturn:
    """Says where the layout of a sparse array stands."""
    line = lexer.text.count("\n", 0, begin) + 1
    raise UnsupportedError(f"line {line}: the layout is that of a sparse array, which is not supported")


def parse_shape(text: str) -> Shape:
    """The shape that a text such as `f32[3,5]{1,0:T(2,2)}` names. Raises ParseError with the place of what is wrong."""
    lexer = Lexer(text)
    shape = Shapes(lexer).shape()
    lexer.skip()
    if lexer.pos < len(text):
        lexer.error("nothing may follow the shape")
    return shape
