"""Global arrays, of which each device has a block: cut before a run, put together after it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..dataclass import replace
from ..errors import ArgumentError, UnsupportedError
from .arrays import Array, Slot
from .layouts import PhysicalSlot
from .leaf import Leaf
from .manifest import Manifest


class GlobalSlot(Slot):
    """A slot for the whole of an array whose blocks lie on several devices."""

    __slots__ = ("blocks",)

    def __init__(self, leaf: Leaf, what: str) -> None:
        assert leaf.shards is not None
        dims = leaf.shards.dimensions
        blocks, size = prod(dims) // max(1, prod(leaf.dimensions)), leaf.bytes
        shape = replace(leaf.shape, dimensions=dims)
        super().__init__(replace(leaf, dimensions=dims, bytes=size * blocks, shape=shape, shards=None), what)
        self.blocks: list[tuple[Any, ...]] = [
            (..., *(slice(b, b + n) for b, n in zip(start, leaf.dimensions))) for start in leaf.shards.starts
        ]
        """The index of each device's block in the array."""

    def split(self, value: Any) -> list[Array]:
        """The block of each device; views of one array."""
        array = self.accept(value)
        return [array[block] for block in self.blocks]

    def join(self, parts: Sequence[Array]) -> Array:
        """The whole, from the block of each device. Of blocks that several devices have, the first one counts."""
        if len(set(map(str, self.blocks))) == 1:
            return parts[0]
        whole = np.empty(self.shape, self.dtype)
        for block, part in reversed(list(zip(self.blocks, parts))):
            whole[block] = part
        return whole


def is_sharded(leaf: Leaf) -> bool:
    """Returns True if devices have different parts of an array."""
    return leaf.shards is not None and leaf.shards.dimensions != leaf.dimensions


def global_slots(manifest: Manifest, slots: Sequence[Slot]) -> list[GlobalSlot]:
    """The slots of whole arrays for those of one device's arguments or results."""
    if manifest.undivided:
        raise UnsupportedError(f"'{manifest.name}' runs on one device: {manifest.undivided}")
    for slot in slots:
        if isinstance(slot, PhysicalSlot):
            raise ArgumentError(
                f"{slot.what} comes as the bytes of its layout: whole arrays need a load without `physical`"
            )
        if slot.leaf.shards is None:
            raise ArgumentError(
                f"'{manifest.name}' does not say which part of a global array {slot.what} is: "
                "call exe.run_replicated with a list of arguments for each device"
            )
    return [GlobalSlot(slot.leaf, slot.what) for slot in slots]
