"""The base classes of all hosts: the module's interface with its checks, and how an instance runs. Needs no numpy."""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

from .. import showing
from ..dataclass import replace
from ..errors import COMPILE_ANEW, ArgumentError, ArtifactError, RunError, UnsupportedError, counted
from ..hlo.structure import is_empty
from .calls import HostCall, HostFunction
from .feeds import Transfers
from .leaf import Leaf
from .manifest import Exchange, Init, Manifest, Parameter, Result, parts_of
from .structures import INPUT, Structure, heads, is_structure, may_be_structure, spread
from .weights import Weight

if TYPE_CHECKING:
    from .arrays import Slot

MakeSlot = Callable[[Leaf, str], "Slot"]

FILE: Any = object()
"""Stands for the array that `set` is not given where its first argument is a file."""
_DONE, _WAITING = 0, 1
"""The results of the module's `run`: it has ended, or it waits for a request."""
_STEP_WAITS = -2
"""The result of the module's `step` where the host has to serve a request."""


class BaseExecutable(ABC):
    """The interface of a module, with its checks."""

    _is_ending = staticmethod(sys.is_finalizing)
    """Returns True while the interpreter ends, after the functions of `atexit`: threads run no more, and the names in
    modules may be gone."""

    def __init__(
        self,
        manifest: Manifest,
        custom_calls: Mapping[str, HostFunction] | None,
        plain: MakeSlot,
        slot: MakeSlot | None = None,
    ) -> None:
        """`plain` makes the slots of host functions, `slot` all others: those of arguments, results, weights, states
        and transfers."""
        self.manifest = manifest
        self._trees: Any = None
        """The structures of the function as JAX has them, of an artifact that has them."""
        self.closed = False
        """True once `close` has been called."""
        slot = slot or plain
        self._calls = tuple(
            HostCall(manifest.name, request, custom_calls or {}, plain)
            if not isinstance(request, Exchange) and request.kind in ("custom_call", "callback")
            else None
            for request in manifest.requests
        )
        self._transfers = Transfers(manifest, slot)
        inputs = [p for p in manifest.parameters if p.kind == "input"]
        self._inputs = tuple(slot(p, f"argument {i} ('{p.name}')") for i, p in enumerate(inputs))
        self._outputs = tuple(slot(r, f"result '{r.name}'") for r in manifest.results if r.kind == "output")
        self._held = {p.name: slot(p, f"{p.kind} '{p.name}'") for p in manifest.parameters if p.kind != "input"}
        self._states = frozenset(p.name for p in manifest.parameters if p.kind == "state")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters in order; those of kind "input" are the arguments of `run`."""
        return self.manifest.parameters

    @property
    def results(self) -> tuple[Result, ...]:
        """All results in order; those of kind "output" are what `run` returns."""
        return self.manifest.results

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Runs on the arguments of the function that the artifact was lowered from, and returns what that returns, in
        the same structures.

        Arguments that stay in the module as weights or states are left out, results that do are None. Where the
        function has objects, as dataclasses, a dict does too. Results have the function's own classes, if it was
        lowered in this process; of an artifact from a file they are dicts, lists, tuples, and tuples with names. A
        program that needs several devices takes and returns whole arrays, as in `run_global`. Raises ArgumentError for
        artifacts that describe no structure.
        """
        self._check_open()
        structure = self._structure
        return structure.build(self._run_whole(structure.flat(args, kwargs)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As `call`; for an artifact that describes no structure as `run`, whose results are a list."""
        if self.manifest.structure is None:
            return self.run(*args, **kwargs)
        return self.call(*args, **kwargs)

    @abstractmethod
    def run(self, *arrays: Any) -> Any:
        """Runs the module."""

    def _run_whole(self, arrays: Sequence[Any]) -> Any:
        """Runs the module on as many devices as it needs, on whole arrays."""
        return self.run(*arrays)

    @cached_property
    def _structure(self) -> Structure:
        return Structure(self.manifest, self._trees)

    @cached_property
    def _heads(self) -> list[str]:
        return heads(self.manifest)

    @cached_property
    def _all_heads(self) -> list[str]:
        """The arguments with those that have no arrays, which callers may leave out."""
        return heads(self.manifest, empty=True)

    def close(self) -> None:
        """Lets go of the module, its memory and its threads. Runs that are under way end as they would, whatever is
        called later raises RunError; to close once more does nothing. `with load(...) as exe:` closes at the end.
        """
        self.closed = True

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return showing.line("Executable", self.manifest.name, self._shown(), ["closed"] if self.closed else ())

    def _repr_html_(self) -> str:
        """Returns the table that notebooks show."""
        return showing.table("Executable", self.manifest.name, self._shown(), ["closed"] if self.closed else ())

    def _shown(self) -> list[showing.Shown]:
        leaves = (*self.parameters, *(leaf for leaf in self.results if leaf.kind == "output"))
        return [showing.array(x.name, x.element_type, x.shown_dimensions, x.kind, x.bytes) for x in leaves]

    def _check_open(self, error: type[RunError] = RunError) -> None:
        """Raises RunError if nothing runs any more. Comes first in whatever callers call: it needs no name in a
        module."""
        if self._is_ending():
            raise error(
                f"'{self.manifest.name}' is called while Python ends: call it before, or in a function of atexit"
            )
        if self.closed:
            raise closed(self.manifest.name)

    def _accept(
        self, arrays: Sequence[Any], named: Mapping[str, Any] | None = None, slots: Sequence[Slot] | None = None
    ) -> list[Any]:
        """Arguments, checked: an array for each input, or structures of them by position and by name.

        `slots` take them: by default those of one device.
        """
        slots = self._inputs if slots is None else slots
        if not named and len(arrays) == len(slots):
            try:
                return [slot.accept(array) for slot, array in zip(slots, arrays)]
            except ArgumentError as error:
                if not any(map(may_be_structure, arrays)):
                    return self._accept_lists(arrays, slots, error)
        elif (
            not named
            and len(arrays) not in (len(self._heads), len(self._all_heads))
            and not any(map(may_be_structure, arrays))
        ):
            names = ", ".join(f"{slot.leaf.name}: {slot}" for slot in slots[:8]) + (", ..." if len(slots) > 8 else "")
            raise ArgumentError(
                f"'{self.manifest.name}' takes {counted(len(slots), 'argument')} ({names}), got {len(arrays)}"
            )
        found = self._found(arrays, named or {}, slots)
        return [slot.accept(found[slot.leaf.name]) for slot in slots]

    def _accept_lists(self, arrays: Sequence[Any], slots: Sequence[Slot], error: ArgumentError) -> list[Any]:
        """Of as many arguments as inputs some may be a list or tuple of the one array that it has. Raises `error` if
        that is not so."""
        if len(arrays) != len(self._heads) or not any(isinstance(array, (list, tuple)) for array in arrays):
            raise error
        try:
            found = self._found(arrays, {}, slots)
            return [slot.accept(found[slot.leaf.name]) for slot in slots]
        except ArgumentError:
            raise error from None

    def _found(self, args: Sequence[Any], named: Mapping[str, Any], slots: Sequence[Slot]) -> dict[str, Any]:
        """The inputs by name, from structures. Raises ArgumentError that names what is missing or not known."""
        if len(args) != 1 or named or not isinstance(args[0], Mapping):
            return self._by_name(self._positions(args), named, slots)
        try:  # all inputs by name
            return self._by_name({}, args[0], slots)
        except ArgumentError as error:
            try:  # or the one argument that there is
                return self._by_name(self._positions(args), {}, slots)
            except ArgumentError as other:
                known = any(p.name == key or p.name.startswith(f"{key}.") for p in self.parameters for key in args[0])
                raise (error if known else other) from None

    def _positions(self, args: Sequence[Any]) -> dict[str, Any]:
        """Arguments given by position, by name."""
        if len(args) == len(self._all_heads):
            return dict(zip(self._all_heads, args))
        if len(args) > len(self._heads):
            raise ArgumentError(
                f"'{self.manifest.name}' takes ({', '.join(self._heads)}), or an array for each input; got {len(args)}"
            )
        return dict(zip(self._heads, args))

    def _by_name(self, placed: Mapping[str, Any], named: Mapping[str, Any], slots: Sequence[Slot]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        names = [slot.leaf.name for slot in slots]
        for key, value in (*placed.items(), *named.items()):
            more = spread(str(key), value, names, lambda name, value: self._unknown(name, value, INPUT))
            twice = next((name for name in more if name in found), None)
            if twice is not None:
                raise ArgumentError(f"'{self.manifest.name}': the argument '{twice}' is given twice")
            found |= more
        for slot in slots:
            if slot.leaf.name not in found:
                raise ArgumentError(f"'{self.manifest.name}': the argument '{slot.leaf.name}' ({slot}) is missing")
        return found

    def _unknown(self, name: str, value: Any, kind: str) -> NoReturn:
        """Raises what is wrong with a name that is none of an input, or of a weight or state."""
        wanted = [p.name for p in self.parameters if (p.kind == INPUT) == (kind == INPUT)]
        held = next((p for p in self.parameters if p.name == name and p.name not in wanted), None)
        if held is not None and held.kind == INPUT:
            raise ArgumentError(
                f"'{name}' is an input of '{self.manifest.name}', and no weight or state: give it to run"
            )
        if held is not None:
            raise ArgumentError(
                f"'{name}' is a {held.kind} of '{self.manifest.name}', which stays in the module: exe.set({name!r}, "
                f"...) sets it"
            )
        below = [n for n in wanted if n.startswith(f"{name}.")]
        if below:
            shown = ", ".join(below[:8]) + (", ..." if len(below) > 8 else "")
            raise ArgumentError(f"'{name}' stands for {shown}: give a dict or its like, not {type(value).__name__}")
        close = get_close_matches(name, wanted, 1)
        known = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(wanted[:8]) or 'it has none'}"
        what = "argument" if kind == INPUT else "weight or state"
        raise ArgumentError(f"'{self.manifest.name}' has no {what} called '{name}' ({known})")

    def _parts(self, name: str | os.PathLike[str], value: Any, device: int | None = None) -> dict[str, Any] | None:
        """Of a structure of weights or states its arrays by name, one for each below the name, and of a file likewise;
        None if it is one array of this name. `device`: for which it is, or for all, which share the arrays of which
        they have shards.
        """
        if value is FILE:
            return self._in_file(name, None, device)
        if not isinstance(name, str):
            raise ArgumentError(f"the name of a weight or state is a text, not {type(name).__name__}")
        if isinstance(value, (str, os.PathLike)):
            return self._in_file(value, name, device)
        below = self._below(name)
        if not below and not self._is_empty(name):
            return None
        found = spread(name, value, below, lambda name, value: self._unknown(name, value, "weight"))
        missing = next((n for n in below if n not in found), None)
        if missing is not None:
            raise ArgumentError(
                f"'{self.manifest.name}': '{missing}' ({self._held[missing]}) is missing in what '{name}' is set to"
            )
        return {n: found[n] for n in below}

    def _in_file(self, path: str | os.PathLike[str], key: str | None, device: int | None) -> dict[str, Any]:
        """The weights and states in a file, by name, each of the shape and dtype that it has to have: see `set`."""
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"set takes a name and an array, or a file; {type(path).__name__} is the path of none")
        try:
            from .arrayfiles import values_in
        except ImportError as error:
            raise UnsupportedError(f"files of arrays are read with numpy, which is not there: {error}") from error
        if key is not None and key not in self._held and not self._below(key):
            self._unknown(key, path, "weight")
        leaves = {name: slot.leaf for name, slot in self._held.items()}
        if device is None:
            whole = {name: leaf.shards.dimensions for name, leaf in leaves.items() if leaf.shards is not None}
            leaves |= {name: replace(leaves[name], dimensions=dimensions) for name, dimensions in whole.items()}
        return values_in(path, leaves, key)

    def _below(self, name: str) -> list[str]:
        """The weights and states below a name; empty if it is that of one, or of none."""
        return [] if name in self._held else [n for n in self._held if n.startswith(f"{name}.")]

    def _is_empty(self, name: str) -> bool:
        """Returns True for the name of an argument, or of a part of one, that has no arrays."""
        return is_empty(self.manifest.structure, "arguments", name)

    def _in_structure(self, name: str, arrays: Mapping[str, Any]) -> Any:
        """Weights and states below a name, as the function has them; where the artifact does not say how, a dict by
        what follows in their names."""
        try:
            return self._structure.held(name, arrays)
        except (ArgumentError, KeyError):
            return {key.removeprefix(f"{name}."): array for key, array in arrays.items()}

    def _named(self, results: list[Any]) -> dict[str, Any]:
        """Results by name."""
        return {slot.leaf.name: result for slot, result in zip(self._outputs, results)}

    def input(self, name: str) -> Any:
        """A view of an input's memory, where the host can give one."""
        return self._no_view()

    def output(self, name: str) -> Any:
        """A view of an output's memory, where the host can give one."""
        return self._no_view()

    def _no_view(self) -> NoReturn:
        raise UnsupportedError(f"'{self.manifest.name}': there are no views of its memory here, arrays are copied")

    def _viewed(self, slots: Sequence[Slot], name: str, kind: str) -> Leaf:
        """Returns the leaf of which a view is wanted. Raises ArgumentError if there is none, or if it has dynamic
        dimensions."""
        leaf = next((slot.leaf for slot in slots if slot.leaf.name == name), None)
        if leaf is None:
            known = ", ".join(slot.leaf.name for slot in slots[:8]) or "it has none"
            raise ArgumentError(f"'{self.manifest.name}' has no {kind} called '{name}' (known: {known})")
        if leaf.sizes:
            raise ArgumentError(f"{kind} '{name}' is {leaf}: there are no views of arrays with dynamic dimensions")
        return leaf

    def _slot(self, name: str) -> Slot:
        """Of a weight or a state."""
        slot = self._held.get(name)
        if slot is None and any(leaf.name == name for leaf in self.parameters):
            raise ArgumentError(
                f"'{name}' is an input of '{self.manifest.name}', and no weight or state: give it to run"
            )
        if slot is None:
            known = ", ".join(list(self._held)[:8]) or "it has none"
            raise ArgumentError(f"'{self.manifest.name}' has no weight or state called '{name}' (known: {known})")
        return slot


def positional(given: Any) -> Sequence[Any]:
    """The arguments of a run that come as one value, by position: a list of them as it is, and what is none as the only
    one."""
    return (
        given
        if isinstance(given, Sequence) and not is_structure(given) and not isinstance(given, (str, bytes))
        else [given]
    )


def closed(name: str) -> RunError:
    """The error of a call after `close`."""
    return RunError(f"'{name}' is closed: load it again")


class WeightsAndStates:
    """The weights of one device, and which weights and states it lacks."""

    def __init__(self, held: Mapping[str, Slot]) -> None:
        self._held = held
        self._states = frozenset(name for name, slot in held.items() if slot.leaf.kind == "state")
        self._unset = {name for name, slot in held.items() if slot.leaf.kind == "weight"}
        self._lost: set[str] = set()
        self.weights: dict[str, Weight] = {}
        """Another dictionary after each change, so that an instance sees by identity that it is out of date."""

    def check(self, needed: Set[str]) -> None:
        """Raises what to do where a weight or a state is not there."""
        if self._unset and (unset := self._unset & needed):
            missing = min(unset)
            raise ArgumentError(
                f"weight '{missing}' has not been set: call exe.set({missing!r}, {self._held[missing]}) first"
            )
        if self._lost and (lost := self._lost & needed):
            raise RunError(f"the state '{min(lost)}' was lost when a run failed or was interrupted: set it again")

    def put_weight(self, name: str, weight: Weight) -> None:
        """From now on a weight is this one."""
        self.weights = {**self.weights, name: weight}
        self._unset.discard(name)

    def weight(self, name: str) -> Weight:
        """The weight that was set."""
        weight = self.weights.get(name)
        if weight is None:
            raise ArgumentError(f"weight '{name}' has not been set: call exe.set({name!r}, {self._held[name]}) first")
        return weight

    def found(self, name: str) -> None:
        """A state has been set."""
        self._lost.discard(name)

    def lose(self) -> None:
        """A run failed: what the states were is gone."""
        self._lost |= self._states


CHECK_IT = "; try xla-wasm check"
"""The end of a message about a trap, which a sound module does not make by itself."""


class BaseInstance(ABC):
    """An instance of a module while it runs: how hosts call it and serve its requests, over the little that each does
    its own way."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._stage = "starting"
        """The stage that the module is in, for messages; "" while it runs."""
        self.sound = True
        """True if it can run again: not while it runs, nor after a trap. A run that ends because a request could not be
        served, or because it was interrupted while its host was at work, leaves it sound."""

    def run(self, serve: Callable[[Self, int], None] | None = None) -> None:
        """Runs the whole module, with `serve` for what it asks of the host: a function of the instance and the
        request's number."""
        self._start()
        while (outcome := self._call_run()) != _DONE:
            if outcome != _WAITING:
                raise ArtifactError(f"run returned {outcome}{COMPILE_ANEW}")
            self._serve(serve)
        self.sound = True

    def profile(self, serve: Callable[[Self, int], None] | None = None) -> list[tuple[str, float]]:
        """Runs the module step by step; the seconds of each step that ran, in order of the table, loops summed."""
        self._start()
        names = self._manifest.steps
        seconds = [-1.0] * len(names)
        pc = 0 if names else -1
        clock = time.perf_counter
        while pc >= 0:
            begin = clock()
            after = self._call_step(pc)
            if after == _STEP_WAITS:
                after = self._serve(serve)
            seconds[pc] = max(seconds[pc], 0.0) + clock() - begin
            pc = after
            if pc >= len(names):
                raise ArtifactError(f"the module jumps to step {pc} of {len(names)}{COMPILE_ANEW}")
        self._forget_request()
        self.sound = True
        return [(name, spent) for name, spent in zip(names, seconds) if spent >= 0]

    def _start(self) -> None:
        self._stage = ""
        self.sound = False

    def _serve(self, serve: Callable[[Self, int], None] | None) -> int:
        """Serves the request that the run waits for; the step to go on with. If it fails, the next run begins anew."""
        manifest = self._manifest
        if serve is None or not manifest.requests:
            raise RunError(f"'{manifest.name}' waits for its host, but stated no requests{COMPILE_ANEW}")
        number, pc = self._word(manifest.request), self._word(manifest.request + 4)
        if number >= len(manifest.requests):
            raise ArtifactError(f"the module makes request {number} of {len(manifest.requests)}{COMPILE_ANEW}")
        try:
            serve(self, number)
        except BaseException:
            self._forget_request()
            self.sound = True
            raise
        return pc

    def _forget_request(self) -> None:
        """Has the next run begin at the first step."""
        if self._manifest.requests:
            self._write(self._manifest.request + 4, bytes(4))

    def _set_weight(self, parameter: Parameter, data: bytes | memoryview) -> None:
        """Writes a weight, packed if the module packs it."""
        if parameter.init is None:
            self._write(parameter.offset, data)
        else:
            self._fill(self._manifest.inits[parameter.init], parameter.name, data)

    def _fill_sidecar(self, parts: Sequence[memoryview]) -> None:
        """Makes ready what no caller sets, from the part of the sidecar that belongs to each init."""
        for init, data in zip(self._manifest.inits, parts):
            if init.kind != "weight":
                self._fill(init, init.name, data)

    def _fill(self, init: Init, name: str, data: bytes | memoryview) -> None:
        self._stage = f"preparing the weights of '{name}'"
        self.sound = False
        for number, part in enumerate(parts_of(init, data)):
            self._write(init.staging, part)
            self._call_init(init.index + number)
        self.sound = True

    def _failed(self) -> str:
        """Returns the beginning of a message about a trap."""
        name = self._manifest.name
        if self._stage:
            return f"'{name}' failed {self._stage}"
        pc = self._word(self._manifest.config)
        return f"'{name}' failed in step {pc} of {len(self._manifest.steps)}, {self._manifest.step_name(pc)}"

    @abstractmethod
    def _call_run(self) -> int: ...

    @abstractmethod
    def _call_step(self, pc: int) -> int: ...

    @abstractmethod
    def _call_init(self, index: int) -> None: ...

    @abstractmethod
    def _word(self, at: int) -> int:
        """The u32 at an address."""

    @abstractmethod
    def _write(self, at: int, data: bytes | memoryview) -> None:
        """Puts bytes at an address."""
