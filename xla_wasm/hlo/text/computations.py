"""Computations and instructions of HLO text. Attributes are read by what the op records say of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import VerifyError, counted
from ..ir import Computation, Instruction
from ..op import REQUIRED, records
from ..proto.schema import MESSAGES
from ..proto.sources import Sources
from ..proto.wire import encode
from ..shape import Shape
from .asynchronous import Async, sugar
from .attributes import Spelling, spelling
from .lexer import HEAD, KEY, OPCODE, OPERAND, Lexer, terminal
from .literals import literal
from .messages import metadata, origin, sharding, statistics
from .omitted import compatible, complete_attributes, complete_shape, inferred
from .shapes import Shapes

_INSTRUCTION = MESSAGES["HloInstructionProto"]
_DEEPEST = 32
_NO_SHAPE = Shape("tuple")
_MAP_EQUALS = terminal(r"(=)")

Scope = dict[str, Instruction]
"""The instructions that are read already, by name."""


class Computations:
    """Reads computations, and keeps those that are read: `order` lists callees before callers."""

    def __init__(self, lexer: Lexer):
        self.lexer = lexer
        self.shapes = Shapes(lexer)
        self.computations: dict[str, Computation] = {}
        self.order: list[Computation] = []
        self.sources = Sources({})
        self.known_metadata: dict[bytes, Any] = {}
        self.sync = Async(lexer, self.add)
        self.numbers: dict[str, int] = {}
        """Name -> the last number that was added to it."""
        self.depth = 0

    def computation(self) -> Computation:
        lexer = self.lexer
        begin = lexer.skip()
        name = lexer.name("a computation")
        if name in self.computations:
            lexer.error(f"the name of computation '{name}' is taken", begin)
        declared = None
        if lexer.take("("):
            while not lexer.take(")"):
                lexer.name("the name of a parameter or ')'")
                lexer.take(":")
                self.shapes.shape()
                if not lexer.take(","):
                    lexer.expect(")")
                    break
            lexer.expect("->")
            declared = self.shapes.shape()
        computation = self._body(name)
        if declared is not None and not compatible(declared, computation.root.shape):
            lexer.error(
                f"computation '{name}' is declared to return {declared}, but returns {computation.root.shape}", begin
            )
        if lexer.take(","):
            lexer.expect("execution_thread=")
            computation.execution_thread = lexer.unicode()
        self.add(computation)
        return computation

    def add(self, computation: Computation) -> None:
        """Takes in a computation under a name of its own."""
        computation.name = self._free(computation.name, self.computations)
        self.computations[computation.name] = computation
        self.order.append(computation)

    def _free(self, name: str, taken: dict[str, Any]) -> str:
        """The name, with a number if it is taken."""
        unique = name
        while unique in taken:
            self.numbers[name] = self.numbers.get(name, 0) + 1
            unique = f"{name}.{self.numbers[name]}"
        return unique

    def _body(self, name: str) -> Computation:
        lexer = self.lexer
        begin = lexer.skip()
        lexer.expect("{")
        self.depth += 1
        if self.depth > _DEEPEST:
            lexer.error("computations nested too deep", begin)
        instructions: dict[str, Instruction] = {}
        root: Instruction | None = None
        while not lexer.take("}"):
            here = lexer.skip()
            head = lexer.match(HEAD)
            if head is None:
                lexer.fail("an instruction (name = shape opcode(...)) or '}'")
            label = head[2] or head[3]
            if label in instructions:
                lexer.error(f"the name '{label}' is taken", here)
            instruction = instructions[label] = self._instruction(label, instructions, here)
            if head[1]:
                if root is not None:
                    lexer.error("a computation has one ROOT", here)
                root = instruction
        self.depth -= 1
        if not instructions:
            lexer.error("the computation has no instructions", begin)
        computation = Computation(name, list(instructions.values()), root)
        numbers = sorted(i.attrs["parameter_number"] for i in instructions.values() if i.opcode == "parameter")
        if numbers != list(range(len(numbers))):
            lexer.error(f"the parameters of '{name}' are numbered {numbers[:16]}, not from 0 on, each once", begin)
        return computation

    def _instruction(self, name: str, scope: Scope, begin: int) -> Instruction:
        """Reads what stands behind the equals sign."""
        lexer = self.lexer
        shape = self.shapes.optional()
        found = lexer.match(OPCODE)
        if found is None:
            lexer.fail("an opcode, followed by '(',")
        opcode, step = found[1], ""
        words = spelling(opcode)
        if words is None:
            opcode, step = sugar(opcode)
            words = spelling(opcode)
            if words is None:
                lexer.error(f"there is no opcode {found[1]}", found.start(1))
        instruction = Instruction(name, opcode, shape if shape is not None else _NO_SHAPE)
        self._operands(instruction, scope, shape)
        async_words = self.sync.words(step, words) if step or opcode.startswith("async-") else words
        raw = self._attributes(instruction, async_words, scope)
        if step in ("", "start"):
            self._build(instruction, words, raw, begin)
        if shape is None:
            if step:
                lexer.error(f"the shape of {found[1]} must be given", found.start(1))
            instruction.shape = self._inferred(instruction, begin)
        if step or opcode.startswith("async-"):
            instruction = self.sync.finish(instruction, step, raw, begin)
        else:
            complete_shape(instruction)
        return instruction

    def _operands(self, instruction: Instruction, scope: Scope, shape: Shape | None) -> None:
        """Reads what stands in the parentheses."""
        lexer = self.lexer
        begin = lexer.pos
        if instruction.opcode == "parameter":
            instruction.attrs["parameter_number"] = lexer.integer("the number of the parameter")
        elif instruction.opcode == "constant":
            if shape is None:
                lexer.error("the shape of a constant must be given", begin)
            if not shape.is_array and not shape.is_tuple:
                lexer.error(f"there are no constants of shape {shape}", begin)
            value = instruction.attrs["literal"] = literal(lexer, shape)
            instruction.shape = value.shape
        elif not lexer.take(")"):
            operands = instruction.operands
            text = lexer.text
            while True:
                quick = OPERAND.match(text, lexer.pos)
                operand = scope.get(quick[1]) if quick else None
                if quick and operand:
                    lexer.pos = quick.end()
                else:
                    operand = self._operand(scope)
                operands.append(operand)
                if text.startswith(", ", lexer.pos):
                    lexer.pos += 2
                elif not lexer.take(","):
                    break
            lexer.expect(")")
            return
        else:
            return
        lexer.expect(")")

    def _operand(self, scope: Scope) -> Instruction:
        """An operand with its shape, or a nested instruction, which has no attributes."""
        lexer = self.lexer
        begin = lexer.skip()
        shape = self.shapes.optional()
        found = lexer.match(OPERAND)
        if found:
            operand = scope.get(found[1])
            if operand is None:
                lexer.error(f"no instruction '{found[1]}' comes before this one: define it above", found.start(1))
            if shape is not None and shape is not operand.shape and not compatible(shape, operand.shape):
                lexer.error(f"'{found[1]}' is a {operand.shape}, not a {shape}", begin)
            return operand
        nested = OPCODE.match(lexer.text, lexer.pos)
        words = spelling(nested[1]) if nested and not nested[1].startswith("async-") else None
        if nested is None or words is None:
            lexer.fail("the name of an instruction, or a nested one,")
        self.depth += 1
        if self.depth > _DEEPEST:
            lexer.error("instructions nested too deep", begin)
        lexer.pos = nested.end()
        name = self._free(f"{nested[1]}.anon", scope)
        operand = Instruction(name, nested[1], shape if shape is not None else _NO_SHAPE)
        scope[name] = operand  # holds the name, so that what is nested in it gets another one
        self._operands(operand, scope, shape)
        del scope[name]
        self._link(operand, words, {})
        self._build(operand, words, {}, begin)
        if shape is None:
            operand.shape = self._inferred(operand, begin)
        complete_shape(operand)
        scope[name] = operand
        self.depth -= 1
        return operand

    def _attributes(self, instruction: Instruction, words: Spelling, scope: Scope) -> dict[str, Any]:
        """The values behind the parentheses, by key. Those that every opcode may have go into the instruction."""
        lexer = self.lexer
        parts = words.parts
        raw: dict[str, Any] = {}
        called: dict[str, list[Computation]] = {}
        fields: dict[str, Any] = {}
        seen: set[str] = set()
        while lexer.take(","):
            begin = lexer.skip()
            key = lexer.key("an attribute")
            if key in seen:
                lexer.error(f"{key} is given twice", begin)
            seen.add(key)
            part, common = parts.get(key), _COMMON.get(key)
            if part is not None:
                raw[key] = part.read(lexer, self.shapes)
            elif common is not None:
                common(self, instruction, scope)
            elif key in _UNKNOWN:
                field, read = _UNKNOWN[key]
                fields[field] = read(lexer)
            elif self._is_role(instruction, words, key):
                called[key] = self._called(key)
            elif key == "mode" and "replica_groups" in parts:
                lexer.name("a word")
            else:
                lexer.error(f"{instruction.opcode} has no attribute {key}", begin)
        if fields:
            instruction.unknown = encode(_INSTRUCTION, fields)
        self._link(instruction, words, called)
        return raw

    def _metadata(self, instruction: Instruction, _: Scope) -> None:
        data = metadata(self.lexer)
        known = self.known_metadata.get(data)
        if known is None:
            known = self.known_metadata[data] = self.sources.metadata(data)
        instruction.metadata = known

    def _sharding(self, instruction: Instruction, _: Scope) -> None:
        instruction.attrs["sharding"] = sharding(self.lexer)

    def _frontend_attributes(self, instruction: Instruction, _: Scope) -> None:
        instruction.frontend_attributes = self.map()

    def _backend_config(self, instruction: Instruction, _: Scope) -> None:
        lexer = self.lexer
        instruction.attrs["backend_config"] = lexer.braces().encode() if lexer.sees("{") else lexer.string()

    def _predecessors(self, instruction: Instruction, scope: Scope) -> None:
        instruction.control_predecessors = self.lexer.listed(lambda: self._predecessor(scope))

    def _is_role(self, instruction: Instruction, words: Spelling, key: str) -> bool:
        roles = _roles(instruction) if instruction.opcode == "conditional" else words.called
        return any(key == role.rstrip("*?") for role in roles)

    def _called(self, key: str) -> list[Computation]:
        """One computation, by name or written out in braces; a list of them for those attributes that take one."""
        lexer = self.lexer
        if key in ("branch_computations", "called_computations"):
            return lexer.listed(self._one_called)
        return [self._one_called()]

    def _one_called(self) -> Computation:
        lexer = self.lexer
        if lexer.sees("{"):
            computation = self._body("_")
            self.add(computation)
            return computation
        begin = lexer.skip()
        name = lexer.name("the name of a computation")
        found = self.computations.get(name)
        return (
            found
            if found is not None
            else lexer.error(f"no computation '{name}' comes before this one: define it above", begin)
        )

    def _link(self, instruction: Instruction, words: Spelling, called: dict[str, list[Computation]]) -> None:
        """Orders the called computations as the record does."""
        roles = _roles(instruction) if instruction.opcode == "conditional" else words.called
        for role in roles:
            key = role.rstrip("*?")
            if key in called:
                instruction.called += called[key]
            elif role[-1] not in "*?":
                self.lexer.error(f"{instruction.opcode} needs {key}=")
        if instruction.opcode == "fusion" and instruction.called:
            instruction.called[0].is_fusion_computation = True

    def _predecessor(self, scope: Scope) -> Instruction:
        lexer = self.lexer
        begin = lexer.skip()
        name = lexer.name("the name of an instruction")
        found = scope.get(name)
        return (
            found
            if found is not None
            else lexer.error(f"no instruction '{name}' comes before this one: define it above", begin)
        )

    def map(self) -> dict[str, str]:
        """{key="value",key={raw}}"""
        lexer = self.lexer
        found: dict[str, str] = {}

        def item() -> None:
            begin = lexer.skip()
            plain = lexer.match(KEY)
            if plain:
                key = plain[1]
            elif lexer.sees('"'):
                key = lexer.unicode()
                lexer.need(_MAP_EQUALS, "'='")
            else:
                lexer.fail("a name, followed by '=',")
            if key in found:
                lexer.error(f"{key} is given twice", begin)
            found[key] = lexer.braces() if lexer.sees("{") else lexer.unicode()

        lexer.listed(item)
        return found

    def _build(self, instruction: Instruction, words: Spelling, raw: dict[str, Any], begin: int) -> None:
        """Makes the attributes of the record out of what the text has, and checks what it must have."""
        attrs = instruction.attrs
        for key, part in words.parts.items():
            if part.required and key not in raw:
                self.lexer.error(f"{instruction.opcode} needs {key}=", begin)
        for name, keys, build, default in words.attributes:
            if name in attrs:
                continue
            if build is not None:
                attrs[name] = build({key: raw[key] for key in keys if key in raw})
            elif name in raw:
                attrs[name] = raw[name]
            elif default is not REQUIRED:
                attrs[name] = default
        if words.one_dimension and len(attrs["dimensions"]) != 1:
            self.lexer.error(f"{instruction.opcode} takes one dimension, not {len(attrs['dimensions'])}", begin)
        self._check_arity(instruction, begin)
        fault = complete_attributes(instruction, raw)
        if fault:
            self.lexer.error(fault, begin)

    def _check_arity(self, instruction: Instruction, begin: int) -> None:
        op = records()[instruction.opcode]
        least, most = op.arity
        count = len(instruction.operands)
        if instruction.opcode == "rng":
            return  # old texts give the shape as an operand; the verifier refuses that
        if count < least or (most is not None and count > most):
            low = f"at least {least}" if most is None else f"{least} to {most}"
            wanted = counted(least, "operand") if least == most else f"{low} operands"
            self.lexer.error(f"{instruction.opcode} takes {wanted}, not {count}", begin)

    def _inferred(self, instruction: Instruction, begin: int) -> Shape:
        try:
            return inferred(instruction)
        except VerifyError as error:
            self.lexer.error(f"the shape cannot be inferred: {error}", begin)


_COMMON: dict[str, Callable[[Computations, Instruction, Scope], None]] = {
    "metadata": Computations._metadata,
    "sharding": Computations._sharding,
    "frontend_attributes": Computations._frontend_attributes,
    "backend_config": Computations._backend_config,
    "control-predecessors": Computations._predecessors,
}
"""Attributes that every opcode may have, and the functions that read them into the instruction."""
_UNKNOWN: dict[str, tuple[str, Callable[[Lexer], bytes]]] = {
    "statistics": ("statistics_viz", statistics),
    "origin": ("original_value", origin),
}
"""Attributes that are kept as fields of the proto: the field, and the function that reads its bytes."""


def _roles(conditional: Instruction) -> tuple[str, ...]:
    """Returns the names of a conditional's branches: by the type of its selector."""
    operands = conditional.operands
    if operands and operands[0].shape.element_type == "pred":
        return ("true_computation", "false_computation")
    return ("branch_computations*",)
