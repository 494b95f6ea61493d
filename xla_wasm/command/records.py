"""Options in records: a command's parameter may be a record, each field of which is an option."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from ..dataclass import fields_of


def with_records(command: Callable[..., None]) -> Callable[..., None]:
    """The command as the command line library takes it: in the place of each parameter that is a record stand the
    record's fields, in their order, with their defaults."""
    records: dict[str, tuple[type, list[str]]] = {}
    flat: list[Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        record = hints[name]
        defaults = fields_of(record)
        if defaults is None:
            flat.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=record))
            continue
        own = get_type_hints(record, include_extras=True)
        records[name] = record, [*defaults]
        flat += [
            Parameter(field, Parameter.KEYWORD_ONLY, default=default, annotation=own[field])
            for field, default in defaults.items()
        ]

    def call(**given: Any) -> None:
        made = {name: record(**{field: given.pop(field) for field in own}) for name, (record, own) in records.items()}
        command(**given, **made)

    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in flat} | {"return": None}
    call.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    return call
