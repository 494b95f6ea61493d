"""Meanings of custom calls: functions that write them as other HLO, by target."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ArgumentError
from ...writing.writer import Rule
from .expand_built_in import BUILT_IN

_registered: dict[str, Rule] = {}


def custom_call(target: str, *, replace: bool = False) -> Callable[[Rule], Rule]:
    """Registers the decorated function as the meaning of custom calls to `target`.

    The function gets a `Writer` and the custom-call instruction, writes other operations with the writer's
    methods and returns the one that stands for the call, of the call's shape:

        @xla_wasm.custom_call("twice")
        def twice(e, x):
            return e.add(x.operands[0], x.operands[0])

    A target has one meaning, so that what compiles does not depend on the order of registrations; `replace` gives it
    another one on purpose. A function that the host is to run at run time is not registered: see `Options.host_calls`.
    """
    if not isinstance(target, str) or not target:
        raise ArgumentError(f"custom_call needs the name of a target, as in @custom_call('my_target'); got {target!r}")

    def register(rule: Rule) -> Rule:
        if not callable(rule):
            raise ArgumentError(
                f"custom_call({target!r}) needs a function (writer, instruction) -> instruction, got {rule!r}"
            )
        known = find(target)
        if known is not None and not replace and not _is_again(known, rule):
            raise ArgumentError(
                f"custom calls to {target!r} have a meaning already; custom_call({target!r}, replace=True) gives them "
                f"another"
            )
        _registered[target] = rule
        return rule

    return register


def find(target: str) -> Rule | None:
    """The rule of a target, a registered one before a built-in one."""
    return _registered.get(target) or BUILT_IN.get(target)


def _is_again(known: Rule, rule: Rule) -> bool:
    """Returns True if a rule is the known one, defined once more as notebooks and reloads do."""
    names = [f"{getattr(f, '__module__', '')}.{getattr(f, '__qualname__', '')}" for f in (known, rule)]
    return known is rule or (names[0] == names[1] and len(names[0]) > 1 and "<lambda>" not in names[0])


def how_to(target: str) -> str:
    """Returns a sentence about what to do about a custom call to a target without a meaning."""
    return (
        f"the custom call target {target!r} is unknown: register an expansion with xla_wasm.custom_call({target!r}), "
        f"or let the host run it with Options(host_calls=({target!r},))"
    )
