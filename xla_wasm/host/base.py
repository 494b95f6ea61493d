"""What the executables of all hosts share: the module's interface, and what callers may do with it. Needs no numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, RunError
from .calls import HostCall, HostFunction
from .feeds import Transfers
from .manifest import Exchange, Leaf, Manifest, Parameter, Result

if TYPE_CHECKING:
    from .arrays import Slot

MakeSlot = Callable[[Leaf, str], "Slot"]


class BaseExecutable:
    """The interface of a module, with its checks."""

    def __init__(
        self, manifest: Manifest, custom_calls: Mapping[str, HostFunction] | None, plain: MakeSlot, slot: MakeSlot | None = None
    ) -> None:
        """`plain` makes the slots of host functions, `slot` all others: those of arguments, results, weights, states and transfers."""
        self.manifest = manifest
        slot = slot or plain
        self._calls = tuple(
            HostCall(manifest.name, request, custom_calls or {}, plain)
            if not isinstance(request, Exchange) and request.kind == "custom_call"
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

    def _accept(self, arrays: Sequence[Any]) -> list[Any]:
        """The arguments of one device, checked."""
        slots = self._inputs
        if len(arrays) != len(slots):
            names = ", ".join(f"{slot.leaf.name}: {slot}" for slot in slots[:8]) + (", ..." if len(slots) > 8 else "")
            raise ArgumentError(f"'{self.manifest.name}' takes {len(slots)} arguments ({names}), got {len(arrays)}")
        return [slot.accept(array) for slot, array in zip(slots, arrays)]

    def _slot(self, name: str) -> Slot:
        """Of a weight or a state."""
        slot = self._held.get(name)
        if slot is None:
            known = ", ".join(list(self._held)[:8]) or "it has none"
            raise ArgumentError(f"'{self.manifest.name}' has no weight or state called '{name}' (known: {known})")
        return slot


class Keeping:
    """What one device keeps from run to run beside its memory: the weights as they were set, and what it lacks."""

    def __init__(self, held: Mapping[str, Slot]) -> None:
        self._held = held
        self._states = frozenset(name for name, slot in held.items() if slot.leaf.kind == "state")
        self._unset = {name for name, slot in held.items() if slot.leaf.kind == "weight"}
        self._lost: set[str] = set()
        self.weights: dict[str, bytes] = {}
        """Another dictionary after each change, so that an instance sees by identity that it is out of date."""

    def check(self, needed: Set[str]) -> None:
        """Raises what to do where a weight or a state is not there."""
        if self._unset and (unset := self._unset & needed):
            missing = min(unset)
            raise ArgumentError(f"weight '{missing}' has not been set: call exe.set({missing!r}, {self._held[missing]}) first")
        if self._lost and (lost := self._lost & needed):
            raise RunError(f"the state '{min(lost)}' was lost when a run failed: set it again")

    def set_weight(self, name: str, data: bytes) -> None:
        """Takes the bytes of a weight, in the order of its layout."""
        self.weights = {**self.weights, name: data}
        self._unset.discard(name)

    def weight(self, name: str) -> bytes:
        """The bytes of a weight as it was set."""
        data = self.weights.get(name)
        if data is None:
            raise ArgumentError(f"weight '{name}' has not been set")
        return data

    def found(self, name: str) -> None:
        """A state has been set."""
        self._lost.discard(name)

    def lose(self) -> None:
        """A run failed: what the states were is gone."""
        self._lost |= self._states
