"""Limits and checks of `load(..., untrusted=True)`, beside those of every load. Mirrors web/limits/untrusted.js."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import LimitError
from ..hlo.layout import physical_bytes
from .budget import Limits
from .leaf import Leaf
from .manifest import Exchange, Manifest

UNTRUSTED = Limits(memory=1 << 30, fuel=10**11, timeout=10.0, untrusted=True)
"""The default limits of `load(..., untrusted=True)`: 1 GiB, about 10^11 instructions and 10 s for each call."""


def check_handed(manifest: Manifest, limits: Limits, physical: bool, devices: int = 1) -> None:
    """Raises LimitError if a call copies more to the host than the memory that its module may have.

    Many arrays may lie in the same memory, but each is copied, so that a small module could ask for any amount.
    """
    if not limits.untrusted or limits.memory is None:
        return
    outputs = (leaf for leaf in manifest.results if leaf.kind == "output")
    _check(
        "all that a run gives",
        sum(physical_bytes(leaf.shape) if physical else leaf.bytes for leaf in outputs) * devices,
        manifest,
        limits.memory,
    )
    for i, request in enumerate(manifest.requests):
        if isinstance(request, Exchange):
            sent = sum(size for _, size, _ in request.sends) * request.to[1]
        else:
            sent = _largest(request.operands)
        _check(f"what request {i} hands over", sent * devices, manifest, limits.memory)


def _largest(leaves: Iterable[Leaf]) -> int:
    """The bytes of arrays in whichever form they go."""
    return sum(max(leaf.bytes, physical_bytes(leaf.shape)) for leaf in leaves)


def _check(what: str, size: int, manifest: Manifest, limit: int) -> None:
    if size > limit:
        raise LimitError(
            f"'{manifest.name}': {what} takes {size} bytes together, the limit is {limit}: load it with a higher "
            f"memory_limit"
        )
