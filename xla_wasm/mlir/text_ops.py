"""Operations in MLIR text: the generic form of any operation, its regions and values. `text_pretty.py` has the forms of
single ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ..errors import counted
from .lexer import HEAD, LABEL, OPERANDS, VALUE, VALUES, WORD
from .plain import plain_attributes, plain_name
from .text_locations import Locations
from .text_of import shown_type
from .tree import Attribute, Block, Location, Op, Type, Value

Argument = tuple[str, Type, Location | None]
"""Name, type and location of an argument of a block."""
ISOLATED = frozenset({"builtin.module", "func.func", "sdy.manual_computation", "sdy.named_computation", "chlo.scan"})
"""The operations whose regions do not see the values around them."""
_SHORT = {"call": "func.call", "func": "func.func", "module": "builtin.module", "return": "func.return"}
"""Names that may stand without their dialect."""
Form = Callable[[Any, str], Op]


class Operations(Locations):
    """A place in a text where operations may stand. `forms` has the parsers of operations that have a form of their
    own."""

    __slots__ = ("defined", "parents", "scope")
    forms: ClassVar[dict[str, Form]] = {}

    def __init__(self, text: str):
        super().__init__(text)
        self.scope: dict[str, Value] = {}
        """The values that can be named here, by the name after the `%`."""
        self.defined: list[str] = []
        """The names of the scope in the order of their definitions."""
        self.parents: list[str] = [""]
        """The operations whose regions this place lies in."""

    def op(self) -> Op | None:
        """The operation that must stand here; None where it only casts between dialects."""
        begin = self.pos
        found = HEAD.match(self.text, begin)
        if found is None:
            self.fail("an operation")
        results, quoted, bare = found.groups()
        self.pos = found.end()
        if quoted is not None:
            op = self.generic(self.unescaped(quoted))
        else:
            op = self._pretty(bare)
        op.location = self.trailing() or op.location
        if op.name == "builtin.unrealized_conversion_cast" and len(op.operands) == len(op.results):
            if results:
                self._define_results(results, op.operands, begin)
            return None
        for value in op.results:
            value.owner = op
        if results:
            self._define_results(results, op.results, begin)
        return op

    def _pretty(self, bare: str) -> Op:
        """An operation in its own form, of which the name has been read."""
        name = bare if "." in bare else _SHORT.get(bare, bare)
        name = plain_name(name)
        form = self.forms.get(name)
        if form is None:
            self.error(
                f"there is no operation {bare!r} with a form of its own: other ones stand in quotes",
                self.pos - len(bare),
            )
        self.enter()
        op = form(self, name)
        self.leave()
        return op

    def made(
        self, name: str, operands: list[Value], attributes: dict[str, Attribute], results: Iterable[Type] = ()
    ) -> Op:
        """An operation of a plain name, whose attributes may have structures in them."""
        op = Op(name, operands, plain_attributes(name, attributes, False) if attributes else attributes)
        op.results = [Value(type_) for type_ in results]
        return op

    def generic(self, name: str) -> Op:
        """Reads what follows the name of an operation in quotes."""
        plain = plain_name(name)
        if plain == "stablehlo.return" and name[0] == "v" and self.parents[-1] == "func.func":
            plain = "func.return"  # VHLO has one for both
        operands = self.operands_in_parentheses()
        if self.sees("["):
            self.unsupported(f"{name} has successors: control flow between blocks is not StableHLO's")
        attributes: dict[str, Attribute] = {}
        if self.take("<"):
            attributes = self.dictionary_once()
            self.expect(">")
        regions = self._regions(plain) if self.take("(") else []
        if self.sees("{"):
            attributes |= self.dictionary_once()
        self.expect(":")
        begin = self.pos
        type_ = self.function()
        self.check_types(operands, type_.inputs, begin)
        op = Op(
            plain, operands, plain_attributes(plain, attributes, name.startswith("vhlo.")) if attributes else attributes
        )
        op.results = [Value(t) for t in type_.results]
        op.regions = regions
        return op

    def dictionary_once(self) -> dict[str, Attribute]:
        """Attributes in braces, one level deeper."""
        self.enter()
        found = self.dictionary()
        self.leave()
        return found

    def _regions(self, name: str) -> list[list[Block]]:
        """Reads what follows `(`: regions with commas between them."""
        regions = [self.region(name)]
        while self.take(","):
            regions.append(self.region(name))
        self.expect(")")
        return regions

    # --- values ----------------------------------------------------------------------------------------------------

    def operands_in_parentheses(self) -> list[Value]:
        """`(%a, %b)`."""
        found = OPERANDS.match(self.text, self.pos)
        if found is None:
            self.expect("(")
            self.fail("operands")
        self.pos = found.end()
        names = found[1]
        return self._values(names, found.start(1)) if names else []

    def operands(self) -> list[Value]:
        """`%a, %b`, perhaps none."""
        found = VALUES.match(self.text, self.pos)
        if found is None:
            return []
        self.pos = found.end()
        return self._values(found[1], found.start(1))

    def operand(self) -> Value:
        """`%a`."""
        name = self.need(VALUE, "a value")
        return self._values(name, self.pos - len(name))[0]

    def _values(self, names: str, begin: int) -> list[Value]:
        try:
            return [self.scope[name.strip()[1:]] for name in names.split(",")]
        except KeyError:
            return [self._value(found[1], begin + found.start(1)) for found in VALUE.finditer(names)]

    def _value(self, name: str, begin: int) -> Value:
        """A value whose name is not in the scope as it stands here: the first of several results has two names."""
        found = self.scope.get(name[1:])
        if found is None and name.endswith("#0"):
            found = self.scope.get(name[1:-2])
        elif found is None and "#" not in name:
            found = self.scope.get(name[1:] + "#0")
        if found is None:
            self.error(f"{name} is not defined before", begin)
        return found

    def check_types(self, operands: list[Value], types: tuple[Type, ...], begin: int) -> None:
        """The types that an operation says its operands have must be theirs."""
        if len(operands) != len(types):
            self.error(f"{counted(len(types), 'type')} of {counted(len(operands), 'operand')}", begin)
        for value, type_ in zip(operands, types):
            if value.type is not type_ and value.type != type_:
                self.error(
                    f"an operand of another type: it is {shown_type(value.type)}, not {shown_type(type_)}"[:400], begin
                )

    def define(self, name: str, value: Value, begin: int) -> None:
        """Gives a value its name, without the `%`."""
        if name in self.scope:
            self.error(f"%{name} is defined twice", begin)
        self.scope[name] = value
        self.defined.append(name)
        if not value.name and not name.isdigit() and "#" not in name:
            value.name = name

    def _define_results(self, results: str, values: list[Value], begin: int) -> None:
        """`%a`, or `%a:2, %b`."""
        if "," not in results and ":" not in results:
            if len(values) != 1:
                self.error(f"{counted(len(values), 'result')}, of which 1 has a name", begin)
            self.define(results[1:], values[0], begin)
            return
        at = 0
        for part in results.split(","):
            name, _, count = part.strip()[1:].partition(":")
            number = self.number_in(count.strip()) if count else 1
            if number > len(values) - at or not number:
                self.error(f"{counted(len(values), 'result')}, of which more or none have names", begin)
            if not count:
                self.define(name, values[at], begin)
            for i in range(number if count else 0):
                self.define(f"{name}#{i}", values[at + i], begin)
            at += number
        if at != len(values):
            self.error(f"{counted(len(values), 'result')}, of which {at} have names", begin)

    # --- regions ---------------------------------------------------------------------------------------------------

    def region(self, name: str, arguments: list[Argument] | None = None) -> list[Block]:
        """`{ ^bb0(%a: T): operations }`, a region of the operation `name`. `arguments` are those of its first block, if
        given outside."""
        self.expect("{")
        self.enter()
        mark, outer, defined = len(self.defined), self.scope, self.defined
        if name in ISOLATED:
            self.scope, self.defined, mark = {}, [], 0
        self.parents.append(name)
        blocks: list[Block] = []
        if arguments is not None:
            blocks.append(self._block(arguments))
        elif not self.sees("^") and not self.sees("}"):
            blocks.append(self._block([]))
        while self.sees("^"):
            blocks.append(self._labelled())
        self.expect("}")
        self.parents.pop()
        if name in ISOLATED:
            self.scope, self.defined = outer, defined
        else:
            for inner in self.defined[mark:]:
                del self.scope[inner]
            del self.defined[mark:]
        self.leave()
        return blocks

    def _labelled(self) -> Block:
        """`^bb0(%a: T): operations`."""
        self.need(LABEL, "the label of a block")
        arguments = self.arguments() if self.sees("(") else []
        self.expect(":")
        return self._block(arguments)

    def arguments(self) -> list[Argument]:
        """`(%a: T loc("a"), %b: T)`."""
        self.expect("(")
        found: list[Argument] = []
        while not self.take(")"):
            name = self.need(VALUE, "an argument")[1:]
            self.expect(":")
            type_ = self.type()
            found.append((name, type_, self.trailing()))
            if not self.take(","):
                self.expect(")")
                break
        return found

    def _block(self, arguments: list[Argument]) -> Block:
        block = Block()
        for name, type_, location in arguments:
            value = Value(type_, block, location.name if location else "")
            block.arguments.append(value)
            if name:
                self.define(name, value, self.pos)
        ops = block.ops
        text = self.text
        while True:
            at = self.skip()
            if text.startswith(("}", "^"), at) or at == len(text):
                return block
            op = self.op()
            if op is not None:
                ops.append(op)

    # --- what follows ----------------------------------------------------------------------------------------------

    def attributes_or_none(self) -> dict[str, Attribute]:
        """`{...}`, if it stands here."""
        return self.dictionary_once() if self.sees("{") and not self.sees("{-#") else {}

    def followed_by(self, word: str) -> bool:
        """Returns True if a word of the grammar stands here."""
        found = WORD.match(self.text, self.pos)
        return found is not None and found[1] == word
