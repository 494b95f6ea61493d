"""`dataclass`, `field` and `replace`, as `dataclasses` has them, for a compiler that starts quickly.

The standard library compiles the methods of each class where it is defined, and imports `inspect` for its own ends: a
third of the time in which the compiler was imported and a small program compiled. Here `__init__` is compiled when some
instances have been made, and the other methods are functions that all classes share. Type checkers see the originals,
and the functions of `dataclasses` work on the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

_MISSING: Any = object()


class _Field:
    """A field's default, and the methods that take it."""

    __slots__ = ("compare", "default", "factory", "init", "kw_only", "repr")

    def __init__(self, default: Any = _MISSING, factory: Any = _MISSING, **flags: bool) -> None:
        self.default, self.factory = default, factory
        self.init, self.repr, self.compare = (flags.get(name, True) for name in ("init", "repr", "compare"))
        self.kw_only = flags.get("kw_only", False)


class _Fields(dict[str, _Field]):
    """Name -> field, in their order."""

    _known: Any = None

    def values(self) -> Any:
        """The fields as `dataclasses` knows them: its functions ask for them in this way."""
        if self._known is None:
            self._known = self._made()
        return self._known.values()

    def _made(self) -> Any:
        import dataclasses

        known: dict[str, Any] = {}
        for name, f in self.items():
            start = {"default_factory": f.factory, "default": f.default}
            given = {what: value for what, value in start.items() if value is not _MISSING}
            known[name] = dataclasses.field(init=f.init, repr=f.repr, compare=f.compare, kw_only=f.kw_only, **given)
        made: Any = dataclasses.make_dataclass("_", [(name, Any) for name in self], namespace=known)
        return made.__dataclass_fields__


def fields_of(cls: Any) -> dict[str, Any] | None:
    """The fields of a class that `dataclass` has made, each with what it starts from; None for any other class."""
    fields = getattr(cls, "__dataclass_fields__", None)
    if fields is None:
        return None
    return {name: f.default if f.factory is _MISSING else f.factory() for name, f in fields.items()}


def _field(*, default: Any = _MISSING, default_factory: Any = _MISSING, **flags: bool) -> Any:
    return _Field(default, default_factory, **flags)


def _dataclass(cls: Any = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True) -> Any:
    if cls is None:
        return lambda cls: _made(cls, frozen, slots, eq)
    return _made(cls, frozen, slots, eq)


def _replace(x: Any, /, **changes: Any) -> Any:
    for name, f in x.__dataclass_fields__.items():
        if f.init and name not in changes:
            changes[name] = getattr(x, name)
    return type(x)(**changes)


def _made(cls: Any, frozen: bool, slots: bool, eq: bool) -> Any:
    """The class with the methods of a dataclass. With `slots` it is made anew, since slots belong to a class from its
    beginning."""
    own: dict[str, Any] = {}
    for name in cls.__annotations__:
        default = cls.__dict__.get(name, _MISSING)
        own[name] = default if isinstance(default, _Field) else _Field(default)
    fields = _Fields()
    for base in reversed(cls.__mro__[1:]):
        fields |= getattr(base, "__dataclass_fields__", {})
    inherited = [*fields]
    fields |= own
    namespace = _methods(cls.__dict__, fields, frozen, eq)
    for name, f in own.items():
        if f.default is not _MISSING and not slots:
            namespace[name] = f.default
    if slots:
        kept = {k: v for k, v in cls.__dict__.items() if k not in own and k not in ("__dict__", "__weakref__")}
        made = type(cls)(
            cls.__name__, cls.__bases__, {**kept, **namespace, "__slots__": tuple(n for n in own if n not in inherited)}
        )
        made.__qualname__ = cls.__qualname__
    else:
        made = cls
        for name, value in namespace.items():
            setattr(cls, name, value)
    made.__init__ = _first_init(made, fields, frozen, slots)
    return made


def _methods(defined: Any, fields: _Fields, frozen: bool, eq: bool) -> dict[str, Any]:
    """The methods but `__init__`, where the class does not define them."""
    taken = [name for name, f in fields.items() if f.init and not f.kw_only]
    methods: dict[str, Any] = {"__dataclass_fields__": fields, "__match_args__": tuple(taken)}
    if "__repr__" not in defined:
        methods["__repr__"] = _repr
    if eq:
        values = _values([name for name, f in fields.items() if f.compare])
        if "__eq__" not in defined:
            methods["__eq__"] = _eq(values)
        if defined.get("__hash__") is None:
            methods["__hash__"] = (lambda self: hash(values(self))) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _set_state}
    return methods


def _values(fields: Sequence[str]) -> Callable[[Any], Any]:
    return attrgetter(*fields) if fields else lambda _: ()


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, f in self.__dataclass_fields__.items() if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(values: Callable[[Any], Any]) -> Any:
    def __eq__(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _refuse(self: Any, name: str, *_: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state):
        object.__setattr__(self, name, value)


FEW = 40
"""Instances after which compiling `__init__` has paid for itself."""


def _first_init(cls: Any, fields: _Fields, frozen: bool, slots: bool) -> Any:
    """An `__init__` for the first instances, which puts the compiled one into its own place then, and where a call is
    wrong."""
    positional = [name for name, f in fields.items() if f.init and not f.kw_only]
    made = 0

    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        nonlocal made
        made += 1
        values = _bound(fields, positional, args, keywords) if made <= FEW else None
        if values is None:
            cls.__init__ = _compiled_init(cls, fields, frozen, slots)
            cls.__init__(self, *args, **keywords)
            return
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    return __init__


def _bound(
    fields: _Fields, positional: list[str], args: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any] | None:
    """The values of all fields; None if the arguments do not fit."""
    given = dict(zip(positional, args)) | keywords
    if len(given) < len(args) + len(keywords):
        return None
    values: dict[str, Any] = {}
    for name, f in fields.items():
        if f.init and name in given:
            values[name] = given.pop(name)
        elif f.factory is not _MISSING:
            values[name] = f.factory()
        elif f.default is not _MISSING and f.init:
            values[name] = f.default
        elif f.init:
            return None
    return None if given else values


def _compiled_init(cls: Any, fields: _Fields, frozen: bool, slots: bool) -> Any:
    positional, keywords, body = ["self"], list[str](), list[str]()
    known: dict[str, Any] = {"missing": _MISSING, "setattr": object.__setattr__}
    for name, f in fields.items():
        value = name
        default = ""
        if f.factory is not _MISSING:
            known[f"make_{name}"] = f.factory
            value = f"make_{name}() if {name} is missing else {name}" if f.init else f"make_{name}()"
            default = " = missing"
        elif f.default is not _MISSING:
            known[f"default_{name}"] = f.default
            default = f" = default_{name}"
        if f.init:
            (keywords if f.kw_only else positional).append(name + default)
        elif f.factory is _MISSING:
            continue
        if frozen and slots:
            known[f"set_{name}"] = getattr(cls, name).__set__
            body.append(f" set_{name}(self, {value})")
        else:
            body.append(f" setattr(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    arguments = [*positional, *(["*", *keywords] if keywords else [])]
    exec(f"def __init__({', '.join(arguments)}):\n" + "\n".join(body or [" pass"]), known)
    return known["__init__"]


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    dataclass, field, replace = _dataclass, _field, _replace

__all__ = ["dataclass", "field", "replace"]
