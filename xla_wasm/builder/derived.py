"""Methods that follow from the records of operations: a table has their signatures, and no bodies. Errors of methods
name the line that calls them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from ..errors import XlaWasmError
from ..hlo import attrs, ir, shape
from ..hlo.ir import Instruction
from ..hlo.op import REQUIRED, records

Value = Instruction
Values = Value | Sequence[Value]
"""One value or several."""
Elements = Values
"""The same; a single tuple stands for its elements."""
Ints = Sequence[int]
Groups = attrs.ReplicaGroups | Sequence[Sequence[int]]
Precision = attrs.PrecisionConfig | str | None
"""A precision for all operands (DEFAULT, HIGH, HIGHEST), or one for each."""
Padding = str | Sequence[tuple[int, int]]
"""The padding of a window: SAME, VALID, or (low, high) for each dimension."""
Given = dict[str, Any]
"""The arguments of a call by the names of their parameters; operands are lists."""

_ROW = re.compile(r"^(\w[^(]*)\((.*?)\)(| .*?)$((?:\n    .*?$)*)", re.MULTILINE | re.DOTALL)
"""Names, parameters, more, and the lines below."""
_TYPES = {**vars(attrs), **vars(ir), **vars(shape), **globals()}
"""The names in types of parameters."""


def add_operations(cls: type, rows: str, parameters: str = "") -> None:
    """Adds the methods of a table to a class. Errors of all that begin with a capital name the caller's file and line.

    A row is "Name=opcode(parameters) more", or has several names; its parameters may fill several lines. The opcode may
    be left out if it is the name in small letters. A bare name of a parameter has the type and default of `parameters`,
    "names: type = default; ...", or else is a `Value`. Those of the types `Value`, `Values` and `Elements` are the
    operands: in their order or, if HLO has another, in the one that `more` lists. Computations are called, by their
    names in the record or in order. `shape` and `..._element_type` are of the result. What is left are attributes, by
    name; one that the record lacks is the first required one that no other is. `more` may have further attributes, as
    "name=value", and the "@name" of a method that takes the opcode and the arguments: it turns these into parts of the
    instruction, or returns the value. Indented lines below a row say what the method does, if the record does not.
    """
    lists = [part.split(": ") for part in parameters.split(";") if part]
    typed = {name: f"{name}: {kind}" for names, kind in lists for name in names.split()}
    for names, listed, more, doc in _ROW.findall(rows):
        listed = ", ".join(typed.get(part, part) for part in re.split(r",\s+", listed))  # all but bare names stay
        for item in names.split():
            name, _, opcode = item.partition("=")
            opcode = opcode or re.sub("(?<=[a-z0-9])(?=[A-Z])", "-", name).lower().rstrip("_").replace("_", "-")
            setattr(cls, name, _method(name, opcode, listed, more.split(), " ".join(doc.split())))
    for name, method in [*vars(cls).items()]:
        if name[0].isupper():
            setattr(cls, name, _located(method, name, f"{cls.__name__}.{name}"))


def _method(name: str, opcode: str, parameters: str, more: list[str], doc: str) -> Callable[..., Value]:
    made: dict[str, Any] = {}
    exec(f"def {name}(self, {parameters}) -> Value: return locals()", _TYPES, made)  # Python binds arguments
    form, names, record = made[name], made[name].__code__.co_varnames[1:], records()[opcode]
    types = form.__annotations__ = {n: form.__annotations__.get(n, "Value") for n in (*names, "return")}
    operands = [n for n in more if n in names] or [n for n in names if types[n] in ("Value", "Values", "Elements")]
    fixed = dict(item.split("=") for item in more if "=" in item)
    special = next((item[1:] for item in more if item[0] == "@"), "")
    called = [n for n in record.called if n in names] or [n for n in names if "Computation" in types[n]]
    element_type = next((n for n in names if n.endswith("element_type")), "")

    @wraps(form)
    def method(self: Any, *args: Any, **keywords: Any) -> Value:
        given = fixed | form(self, *args, **keywords)  # which raises TypeError if the arguments do not fit
        del given["self"]
        given |= {n: values_of(self, given[n], types[n]) for n in operands}
        if special and (value := getattr(self, special)(opcode, given)):
            return value
        values = [x for n in operands for x in given.pop(n)]
        parts = {"shape": given.pop("shape", None), "element_type": given.pop(element_type, None) or ""}
        parts["called"] = [x for n in called for x in values_of(self, given.pop(n))]
        free = (a.name for a in record.attrs if a.default is REQUIRED and a.name not in given)
        return self.op(opcode, *values, **parts, **{n if n in record.defaults else next(free): given[n] for n in given})

    method.__doc__ = doc or record.doc
    return method


def values_of(b: Any, given: Any, type: str = "Elements") -> list[Value]:
    """The values of an argument of the type `Value`, `Values` or `Elements`."""
    values = [*given] if type != "Value" and isinstance(given, Iterable) else [given]
    if type == "Elements" and len(values) == 1 and isinstance(values[0], Instruction) and values[0].shape.is_tuple:
        return [b.get_tuple_element(values[0], index) for index in range(len(values[0].shape.tuple_shapes))]
    return values


def _located(method: Callable[..., Value], name: str, qualname: str) -> Callable[..., Value]:
    @wraps(method)
    def call(*args: Any, **keywords: Any) -> Value:
        try:
            return method(*args, **keywords)
        except XlaWasmError as error:
            caller = sys._getframe(1)
            if caller.f_globals.get("__package__") == __package__:
                raise  # one operation made another: the line to name is further out
            raise type(error)(f"{caller.f_code.co_filename}:{caller.f_lineno}: {error}") from None

    call.__name__, call.__qualname__ = name, qualname
    return call
