"""Types in MLIR text: builtin ones, those of StableHLO and of the quant dialect, and VHLO's, which become the builtin
ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..errors import counted
from .lexer import ALIAS, DIALECT, NUMBER, WORD, Lexer, terminal
from .tree import DYNAMIC, Complex, Function, Future, Memref, Opaque, Quantized, Tensor, Tuple, Type

_INSIDE = r'[^<>"()/]*+'
for _ in range(3):
    _INSIDE = rf'(?:[^<>"()/]++|<{_INSIDE}>)*+'
_TYPE = rf"!?[A-Za-z_][\w$.]*+(?:<{_INSIDE}>)?+"
TYPE_TEXT = terminal(f"({_TYPE})")
"""The text of a type as it is mostly written. What has been read once is looked up by this text."""
FUNCTION_TEXT = terminal(rf'(\([^()"/]*+\)\s*+->\s*+(?:\([^()"/]*+\)|{_TYPE}))')
ELEMENT = re.compile(r"[su]?i[1-9]\d{0,3}|bf16|tf32|f(?:16|32|64|80|128)|f\d+E\d+M\d+[A-Z0-9]*|index|none")
_SIZES = terminal(r"((?:(?:\d++|\?)\s*+x\s*+)*+)")
_SIZE = re.compile(r"\d+|\?")
_BOUNDS = terminal(r"#(?:stablehlo|mhlo|vhlo)(?:\.|<\s*+)(?:bounds|type_extensions)(?:_v\d++)?+")
_QUANTIZED = re.compile(r"(u?)(i)(\d{1,2})")
_VERSION = re.compile(r"_v\d+$")
_RENAMED = {"bool": "i1", "tf31": "tf32"}
"""Element types that VHLO calls otherwise."""
MOST_DIMENSIONS = 64
MOST_ALIASED = 100_000
"""Of how many aliases a value may be made: each level may double what the one below it holds."""


class Types(Lexer):
    """A place in a text where types may stand."""

    __slots__ = ("aliases", "known_functions", "known_types", "pending", "values", "weight", "weights")

    def __init__(self, text: str):
        super().__init__(text)
        self.known_types: dict[str, Type] = {}
        self.known_functions: dict[str, Function] = {}
        self.aliases: dict[str, int] = {}
        """Alias with its mark -> where what it stands for begins."""
        self.pending: set[tuple[str, str]] = set()
        """The aliases that are being read, and as what: one that stands for itself is refused."""
        self.values: dict[tuple[str, str], Any] = {}
        """The aliases that have been read."""
        self.weights: dict[tuple[str, str], int] = {}
        """Of how many aliases the value of each is made, those counted anew that it holds several times."""
        self.weight = 0

    def type(self) -> Type:
        """The type that must stand here."""
        found = TYPE_TEXT.match(self.text, self.pos)
        if found is None:
            return self._type()
        known = self.known_types.get(found[1])
        if known is not None:
            self.pos = found.end()
            return known
        type_ = self._type()
        if self.pos == found.end():
            self.known_types[found[1]] = type_
        return type_

    def function(self) -> Function:
        """`(T, T) -> T`."""
        found = FUNCTION_TEXT.match(self.text, self.pos)
        if found:
            known = self.known_functions.get(found[1])
            if known is not None:
                self.pos = found.end()
                return known
        inputs = self.type_list()
        self.expect("->")
        type_ = Function(inputs, self.types_or_one())
        if found and self.pos == found.end():
            self.known_functions[found[1]] = type_
        return type_

    def type_list(self, brackets: str = "()") -> tuple[Type, ...]:
        """`(T, T)`, perhaps none, or in other brackets."""
        self.expect(brackets[0])
        if self.take(brackets[1]):
            return ()
        types = self.types_between_commas()
        self.expect(brackets[1])
        return types

    def types_or_one(self) -> tuple[Type, ...]:
        """`(T, T)`, or `T`."""
        return self.type_list() if self.sees("(") else (self.type(),)

    def types_between_commas(self) -> tuple[Type, ...]:
        types = [self.type()]
        while self.take(","):
            types.append(self.type())
        return tuple(types)

    def _type(self) -> Type:
        self.enter()
        if self.sees("("):
            type_: Type = self.function()
        elif self.sees("!"):
            type_ = self._of_dialect()
        else:
            type_ = self._builtin(self.need(WORD, "a type"))
        self.leave()
        return type_

    def _builtin(self, name: str) -> Type:
        if name == "tensor":
            return self._tensor()
        if name == "tuple":
            return Tuple(self.type_list("<>"))
        if name == "complex":
            self.expect("<")
            return self._complex()
        if name == "memref":
            return self._memref()
        if name == "vector":
            return Opaque(name + self.balanced())
        if not ELEMENT.fullmatch(name):
            self.error(f"there is no type {name!r}", self.pos - len(name))
        return name

    def _complex(self) -> Complex:
        part = self.type()
        if not isinstance(part, str):
            self.error("the parts of a complex number have a number's type")
        self.expect(">")
        return Complex(part)

    def _sizes(self) -> tuple[int, ...]:
        found = _SIZE.findall(self.need(_SIZES, "sizes"))
        if len(found) > MOST_DIMENSIONS:
            self.error(f"{counted(len(found), 'dimension')}: at most {MOST_DIMENSIONS} are read")
        return tuple([DYNAMIC if size == "?" else self.number_in(size) for size in found])

    def _tensor(self) -> Tensor:
        """Reads what follows `tensor`."""
        self.expect("<")
        sizes = None
        if self.take("*"):
            self.expect("x")
        else:
            sizes = self._sizes()
        element = self.type()
        bounds = self._bounds() if self.take(",") else ()
        self.expect(">")
        if bounds and len(bounds) != len(sizes or ()):
            self.error(f"{counted(len(bounds), 'bound')} of {counted(len(sizes or ()), 'dimension')}")
        return Tensor(sizes, element, bounds)

    def _bounds(self) -> tuple[int, ...]:
        """The encoding of a tensor: `#stablehlo.bounds<?, 5>`, or `#stablehlo.type_extensions<bounds = [?, 5]>` in
        older texts."""
        found = self.match(ALIAS)
        if found:
            return self.aliased("#" + found[1], self._bounds)
        begin = self.skip()
        if not self.match(_BOUNDS):
            if begin == len(self.text):
                self.fail("the encoding of a tensor")
            self.unsupported(
                f"a tensor with the encoding {self.text[begin : begin + 40].splitlines()[0]}: only bounds are known"
            )
        inner = "<" in self.text[begin : self.pos]
        if not inner:
            self.expect("<")
        listed = self.word("bounds")
        if listed:
            self.expect("=")
            self.expect("[")
        bounds: list[int] = []
        while not self.sees("]" if listed else ">"):
            bounds.append(DYNAMIC if self.take("?") else self.integer("a bound"))
            if not self.take(","):
                break
        if listed:
            self.expect("]")
        self.expect(">")
        return tuple(bounds)

    def _memref(self) -> Type:
        begin = self.pos
        self.expect("<")
        if not self.sees("*"):
            sizes, element = self._sizes(), self.type()
            if self.take(">"):
                return Memref(sizes, element)
        self.pos = begin
        return Opaque("memref" + self.balanced())

    def _of_dialect(self) -> Type:
        """`!alias`, or a type of a dialect."""
        found = self.match(ALIAS)
        if found:
            return self.aliased("!" + found[1], self.type)
        begin = self.skip()
        name = self.need(DIALECT, "a type")
        dialect, _, kind = name.partition(".")
        if dialect == "vhlo":
            return self._of_vhlo(_VERSION.sub("", kind), begin)
        if kind == "token":
            return "token"
        if kind == "future":
            return Future(self.type_list("<>"))
        if name == "quant.uniform":
            return self._quantized(begin)
        return self._opaque(begin)

    def _opaque(self, begin: int) -> Opaque:
        """A type of another dialect, of which the name has been read."""
        if self.text.startswith("<", self.pos):
            self.balanced()
        return Opaque(self.text[begin : self.pos])

    def _of_vhlo(self, kind: str, begin: int) -> Type:
        kind = _RENAMED.get(kind, kind)
        if kind == "tensor" or kind == "complex":
            return self._builtin(kind)
        if kind == "unranked_tensor":
            self.expect("<")
            element = self.type()
            self.expect(">")
            return Tensor(None, element)
        if kind == "tuple":
            return Tuple(self.type_list("<>"))
        if kind == "future":
            return Future(self.type_list("<>"))
        if kind == "func":
            self.expect("<")
            type_ = self.function()
            self.expect(">")
            return type_
        return kind if kind in ("token", "none") or ELEMENT.fullmatch(kind) else self._opaque(begin)

    def _quantized(self, begin: int) -> Type:
        """Reads what follows `!quant.uniform`."""
        start = self.pos
        self.expect("<")
        storage = self.need(WORD, "the type that is stored")
        found = _QUANTIZED.fullmatch(storage if storage[0] != "u" or storage[1:2] == "i" else "ui" + storage[1:])
        if found is None:
            self.error(f"{storage!r} is no type of integers", self.pos - len(storage))
        width = int(found[3])
        minimum, maximum = (0, (1 << width) - 1) if found[1] else (-(1 << width >> 1), (1 << width >> 1) - 1)
        if self.take("<"):
            minimum = self.integer()
            self.expect(":")
            maximum = self.integer()
            self.expect(">")
        self.expect(":")
        expressed = self.type()
        axis = None
        if self.take(":"):
            if self.sees("{"):  # scales of blocks
                self.pos = start
                return self._opaque(begin)
            axis = self.integer("a dimension")
        self.expect(",")
        scales, zero_points = self._scales(axis is not None)
        self.expect(">")
        if not isinstance(expressed, str):
            self.error("what is expressed is a number's type")
        return Quantized(found[0], expressed, scales, zero_points, minimum, maximum, axis)

    def _scales(self, several: bool) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """`0.5:3`, or `{0.5:3, 0.25}` of several."""
        scales, zero_points = [], []
        if several:
            self.expect("{")
        while True:
            number = self.need(NUMBER, "a scale")
            if "x" in number:
                self.error("a scale is a decimal number")
            scales.append(float(number))
            zero_points.append(self.integer("a zero point") if self.take(":") else 0)
            if not several or not self.take(","):
                break
        if several:
            self.expect("}")
        return tuple(scales), tuple(zero_points)

    def aliased(self, name: str, read: Callable[[], Any]) -> Any:
        """Returns the value of an alias, which `read` reads once from its definition."""
        key = (name, read.__name__)
        if key in self.values:
            self.weight += self.weights[key]
            return self.values[key]
        begin = self.aliases.get(name)
        if begin is None:
            self.error(f"there is no alias {name}", self.pos - len(name))
        if key in self.pending:
            self.error(f"{name} stands for itself", self.pos - len(name))
        back, outer = self.pos, self.weight
        self.enter()
        self.pending.add(key)
        self.pos, self.weight = begin, 1
        value = read()
        if self.weight > MOST_ALIASED:
            self.error(f"aliases in one another that stand for more than {MOST_ALIASED:,} values", begin)
        self.pending.discard(key)
        self.leave()
        self.values[key], self.weights[key] = value, self.weight
        self.pos, self.weight = back, outer + self.weight
        return value
