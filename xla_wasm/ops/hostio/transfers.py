"""The routes of send and recv, and the waits that a program may make for them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from ...errors import VerifyError
from ...hlo.ir import Computation, Instruction, Module

PAIRS = "_xla_send_recv_source_target_pairs"
RENDEZVOUS = "_xla_host_transfer_rendezvous"

_PAIR = r"\{\s*(\d+)\s*,\s*(\d+)\s*\}"
_LIST = r"\{\s*(?:\{\s*\d{1,10}\s*,\s*\d{1,10}\s*\}\s*(?:,\s*(?=\{)|(?=\})))*\}"

_HOST = ("infeed", "outfeed", "send", "recv-done")


def pairs(x: Instruction) -> tuple[tuple[int, int], ...] | None:
    """(source, target) of each transfer that a send or recv between devices takes part in; None if it does not say."""
    text = x.frontend_attributes.get(PAIRS)
    if text is None:
        return None
    if not re.fullmatch(_LIST, text.strip().strip('"')):
        raise VerifyError(f"{x.where}: {PAIRS} is {text!r}, not pairs of numbers as in {{{{0,1}},{{1,2}}}}")
    found = tuple((int(source), int(target)) for source, target in re.findall(_PAIR, text))
    for end, what in enumerate(("source", "target")):
        numbers = [pair[end] for pair in found]
        if len(set(numbers)) != len(numbers):
            raise VerifyError(f"{x.where}: a {what} occurs twice in {PAIRS} {text}")
    return found


def by_partition(x: Instruction) -> bool:
    """Returns True if the numbers in the pairs are those of partitions, in the same replica, and not of replicas in the
    same partition."""
    return (x.attrs.get("channel_id") or 0) > 0


def host_name(x: Instruction) -> str:
    """The name under which a host knows a transfer."""
    return x.frontend_attributes.get(RENDEZVOUS) or f"channel_{x.attrs.get('channel_id') or 0}"


def is_between_devices(x: Instruction) -> bool:
    """Returns True if `x` is a send or recv, or the end of one, that the host has no part in."""
    return x.opcode in ("send", "recv", "send-done", "recv-done") and not x.attrs["is_host_transfer"]


class Starts:
    """The starts of a program's transfers."""

    def __init__(self, instructions: Iterable[Instruction]) -> None:
        self._found: dict[tuple[str, Hashable], Instruction] = {}
        for x in instructions:
            if x.opcode in ("send", "recv"):
                self._found.setdefault((x.opcode, x.attrs["channel_id"]), x)

    def of(self, done: Instruction) -> Instruction:
        """The send or recv that a send-done or recv-done ends; a loop may carry what it has given. Its channel
        tells."""
        opcode = done.opcode.removesuffix("-done")
        start = (
            done.operands[0]
            if done.operands[0].opcode == opcode
            else self._found.get((opcode, done.attrs["channel_id"]))
        )
        if start is None:
            raise VerifyError(f"{done.where}: the module has no {opcode} on channel {done.attrs['channel_id']}")
        return start


def complete(module: Module) -> None:
    """Gives every send-done and recv-done what its start carries."""
    starts = Starts(module.instructions())
    for x in module.instructions():
        if x.opcode in ("send-done", "recv-done"):
            start = starts.of(x)
            x.frontend_attributes = {**start.frontend_attributes, **x.frontend_attributes}
            x.attrs, x.marks = {**x.attrs, **start.attrs}, start.marks


class Order:
    """In which order the instructions of computations run: as they are listed, but a recv-done between devices, and
    what needs it, comes after all that does not, so that no device waits for one that waits for it in turn.

    What the host takes part in keeps its order, and so does what uses one channel.
    """

    def __init__(self) -> None:
        self._waits: dict[Computation, bool] = {}
        self._chains: dict[Computation, dict[Hashable, None]] = {}

    def of(self, computation: Computation) -> list[Instruction]:
        """The instructions in that order."""
        if not self._waits_in(computation):
            return computation.instructions
        rounds: dict[Instruction, int] = {}
        last: dict[Hashable, int] = {}
        for x in computation.instructions:
            chains = self._chains_of(x)
            before = [rounds[y] for y in (*x.operands, *x.control_predecessors)] + [
                last[c] for c in chains if c in last
            ]
            rounds[x] = max(before, default=0) + self._is_wait(x)
            last |= dict.fromkeys(chains, rounds[x])
        return sorted(computation.instructions, key=rounds.__getitem__)

    def _waits_in(self, computation: Computation) -> bool:
        """Returns True if running a computation may mean to wait in a recv-done."""
        if computation not in self._waits:
            self._waits[computation] = any(map(self._is_wait, computation.instructions))
        return self._waits[computation]

    def _is_wait(self, x: Instruction) -> bool:
        return (x.opcode == "recv-done" and not x.attrs["is_host_transfer"]) or any(map(self._waits_in, x.called))

    def _chains_of(self, x: Instruction) -> dict[Hashable, None]:
        """Returns the chains that `x` must keep its place in: the actions of the host, the sends and the receipts of
        each channel."""
        if is_between_devices(x):
            return {(x.opcode, x.attrs["channel_id"]): None}
        own: dict[Hashable, None] = {}
        if x.opcode in _HOST or x.marks.request or x.attrs.get("custom_call_has_side_effect"):
            own["host"] = None
        for c in x.called:
            if c not in self._chains:
                self._chains[c] = {chain: None for y in c.instructions for chain in self._chains_of(y)}
            own |= self._chains[c]
        return own
