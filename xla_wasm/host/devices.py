"""The devices on which an executable runs, and what they hold: weights and states."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from ..errors import LimitError, RunError, counted
from .arrays import Array, Slot, ordered_bytes
from .base import FILE, BaseExecutable
from .budget import UNLIMITED, Budget, Limits
from .calls import HostFunction
from .device import Device
from .forks import owns
from .grid import check_device
from .instance import Instance, Program
from .layouts import PhysicalSlot
from .shards import GlobalSlot, is_sharded
from .untrusted import check_handed
from .weights import Weight

T = TypeVar("T")
_on_all_devices: ContextVar[frozenset[int]] = ContextVar("_on_all_devices", default=frozenset())
"""The executables, by `id`, whose devices run together and have led to this call."""


class OnDevices(BaseExecutable):
    """An executable with its devices: the first, and those that are made when a run or a weight needs them."""

    def __init__(
        self, program: Program, limits: Limits, custom_calls: Mapping[str, HostFunction] | None, physical: bool
    ) -> None:
        manifest = program.manifest
        super().__init__(manifest, custom_calls, Slot, PhysicalSlot if physical else None)
        self._limits = limits
        self._physical = physical
        self._program = program
        self._after_fork()
        owns(self)
        self._later: dict[int | None, dict[str, Any]] = {None: {}}
        """For devices that are made later, what was set on all and on each: `Weight`s, or None if it is as on the first
        device, and arrays of states."""
        self._devices: dict[int, Device] = {}
        count = 1 if self._states or manifest.stateful else max((os.cpu_count() or 1) // limits.threads, 1)
        if limits.memory is not None:
            count = max(1, min(count, limits.memory // program.memory_bytes))
        self._first = self._devices[0] = Device(program, self._held, count, self._budget())

    def _after_fork(self) -> None:
        """In a child nobody else holds its locks."""
        self._lock = threading.Lock()
        """Of what all devices begin with, and of their list."""
        self._together = threading.Lock()
        """Of what concerns several devices at once."""

    def close(self) -> None:
        """Lets go of the module, its memory and its threads. Runs that are under way end as they would, whatever is
        called later raises RunError; to close once more does nothing. `with load(...) as exe:` closes at the end. What
        `input` and `output` gave stays readable for as long as somebody holds it.
        """
        if self._is_ending():  # which lets go of everything
            self.closed = True
            return
        with self._lock:
            super().close()
            devices = list(self._devices.values())
            self._later = {None: {}}
        for device in devices:
            device.close()

    def _weights(self, first: bool) -> dict[int | None, dict[str, Any]]:
        """The weights of each device, and of those that are made later, as copies: with those of the first one, or
        without."""
        with self._lock:
            held = {d: {n: v for n, v in values.items() if n not in self._states} for d, values in self._later.items()}
            for d, device in self._devices.items():
                own = held.setdefault(d, {})
                for name, weight in device.weights.items() if d != 0 or first else ():
                    if d == 0 or not self._is_as_first(name, weight):
                        own[name] = device.copied(name)
        return held

    def _is_as_first(self, name: str, weight: Weight) -> bool:
        """Returns True if a device made later will have this weight anyway."""
        on_first = self._first.weights.get(name)
        common = self._later[None]
        return name in common and common[name] is None and on_first is not None and on_first.given is weight.given

    def _copied_states(self, instance: Instance) -> dict[str, Array]:
        slots = [(name, self._held[name]) for name in self._states]
        return {name: np.array(slot.accept(slot.give(instance.states[name]))) for name, slot in slots}

    def _take_held(self, held: Mapping[int | None, Mapping[str, Any]]) -> None:
        """Takes weights and states of another executable of the same module, which has not run."""
        self._later = {d: dict(values) for d, values in held.items() if d != 0}
        for name, value in held.get(0, {}).items():
            self._put(self._first, name, value, self._budget())

    def set(self, name: str | os.PathLike[str], array: Any = FILE, device: int | None = None) -> None:
        """Sets a weight, for all runs that begin from now on, or the state that the next run begins with: on all
        devices, or on one.

        Files give arrays, too: .npz and safetensors files all that they have by name, `set("model.safetensors")`, or
        with the name that theirs lack in front, `set("params", "params.npz")`; and .npy files one, `set("table",
        "table.npy")`. Floats in other widths than the program's are converted, numbers in 8 bits are multiplied by
        their scales. ArgumentError or ParseError, and nothing is set, if a file is damaged, has an array too many,
        lacks one below the name, or has one of another shape or type.

        A name that others begin with stands for all of them: `set("params", {"w": w, "b": b})` sets "params.w" and
        "params.b", or neither if one is missing or does not fit. Where devices have different shards of an array, all
        of them together get the whole array, and one its shard.
        """
        self._check_open()
        if (leaves := self._parts(name, array, device)) is not None:
            for key, each in leaves.items():
                own = self._slot(key)
                (GlobalSlot(own.leaf, own.what).split if device is None and is_sharded(own.leaf) else own.accept)(each)
            for key, each in leaves.items():
                self.set(key, each, device)
            return
        name = os.fspath(name)
        slot = self._slot(name)
        if device is None and is_sharded(slot.leaf):
            for d, part in enumerate(GlobalSlot(slot.leaf, slot.what).split(array)):
                self.set(name, part, d)
            return
        checked = slot.accept(array)
        budget = self._budget()
        if name not in self._states:
            weight = Weight(ordered_bytes(slot.leaf, checked))
            for each in self._keep_weight(name, weight, device):
                each.set_weight(name, Weight(weight.data, given=weight.given), budget)
            return
        value = np.array(checked)

        def put() -> None:
            for each in self._keep(name, value, device):
                self._put(each, name, value, budget)

        if device is None:
            self._with_all_devices(budget, put)  # not before a run on one device, and after it on another
        else:
            put()

    def get(self, name: str, device: int | None = None) -> Any:
        """A copy of a weight as it was set, or of a state as the last run left it; of a name that others begin with,
        all of them in the structure that the function has there, which `set` takes. Where the artifact describes none,
        a dict by what follows in their names.

        A weight is unpacked from the module's memory, where alone it is. ArgumentError for one that the module keeps
        only in a form that is computed from its numbers, such as `int8`. A NaN that was widened from 8 bits or f16 may
        have another payload.

        Of a device, or as all devices have it: the whole of what they have shards of, and otherwise that of the first
        one.
        """
        self._check_open()
        if (below := self._below(name)) or self._is_empty(name):
            return self._in_structure(name, {key: self.get(key, device) for key in below})
        slot = self._slot(name)
        if device is None and is_sharded(slot.leaf):
            return GlobalSlot(slot.leaf, slot.what).join([self.get(name, d) for d in range(self.manifest.sharded or 1)])
        device = device or 0
        owner = self._device(device)
        if name in self._states:
            return owner.use(lambda instance: slot.give(instance.states[name]), frozenset({name}), self._budget())
        major_to_minor = slot.leaf.minor_to_major[::-1]
        stored = np.frombuffer(owner.get_weight(name, self._budget()), slot.dtype).reshape(
            [slot.shape[d] for d in major_to_minor]
        )
        return slot.give(stored.transpose(np.argsort(major_to_minor)))

    def _with_all_devices(self, budget: Budget, work: Callable[[], T]) -> T:
        """Does the work, one thing at a time."""
        above = _on_all_devices.get()
        if id(self) in above:
            raise RunError(
                f"'{self.manifest.name}' runs on all its devices already, and this call comes from there: "
                "let functions of the host use an executable of their own, exe.clone()"
            )
        while budget.deadline is not None and self._together.locked():
            time.sleep(min(0.005, budget.seconds(lambda: f"'{self.manifest.name}' waited for its devices") or 0))
        with self._together:
            try:
                _on_all_devices.set(above | {id(self)})
                return work()
            finally:
                _on_all_devices.set(above)

    def _budget(self) -> Budget:
        """Returns the budget of a call that begins now. Raises RunError if the executable is closed."""
        self._check_open()
        limits = self._limits
        return UNLIMITED if limits.fuel is None and limits.timeout is None else Budget(limits)

    def _make_room(self, count: int) -> list[Device]:
        """The first `count` devices."""
        if self._limits.memory is not None:
            most = self._limits.memory // self._program.memory_bytes
            if count > most:
                need = f"{counted(count, 'device')} need {count * self._program.memory_bytes} bytes of memory"
                raise LimitError(
                    f"'{self.manifest.name}': {need}, the limit is {self._limits.memory}: load it with a higher "
                    f"memory_limit"
                )
            check_handed(self.manifest, self._limits, self._physical, count)
            self._first.limit(most - (max(count, len(self._devices)) - 1))
        return [self._device(d) for d in range(count)]

    def _device(self, d: int) -> Device:
        if d == 0:
            return self._first
        check_device(self.manifest, d)
        with self._lock:
            device = self._devices.get(d)
            if device is None:
                self._check_open()  # nobody would close it
                device = Device(self._program, self._held, 1, self._budget())
                for name, value in {**self._later[None], **self._later.pop(d, {})}.items():
                    if value is None:
                        value = self._first.copied(name)
                    if value is not None:
                        self._put(device, name, value, self._budget())
                self._devices[d] = device
            return device

    def _keep(self, name: str, value: Any, d: int | None) -> list[Device]:
        """Notes a value for a device, or for all, if they are made later; those that exist."""
        with self._lock:
            if d is None:
                for values in self._later.values():
                    values.pop(name, None)
                self._later[None][name] = value
                return list(self._devices.values())
            if d in self._devices:
                return [self._devices[d]]
            check_device(self.manifest, d)
            self._later.setdefault(d, {})[name] = value
            return []

    def _keep_weight(self, name: str, weight: Weight, d: int | None) -> list[Device]:
        """As `_keep` of a weight whose bytes are the caller's. What is set on all is not kept: later devices copy it
        from the first, as long as that has it."""
        common = self._later[None]
        if d == 0 and name in common and common[name] is None:
            common[name] = self._first.copied(name)
        if d is not None and d not in self._devices:
            assert weight.data is not None, "it was given"
            weight = Weight(bytes(weight.data), given=weight.given)
        return self._keep(name, None if d is None else weight, d)

    def _put(self, device: Device, name: str, value: Any, budget: Budget) -> None:
        if name in self._states:
            device.use(lambda instance: instance.states[name].__setitem__(..., value), frozenset(), budget)
            device.found(name)
        else:
            device.set_weight(name, Weight(value.data, value.forms, value.given), budget)
