"""The formats that a client wants of an answer: the header `Accept`, with its quality values."""

from __future__ import annotations

from collections.abc import Sequence


def best(header: str | None, offered: Sequence[str]) -> str | None:
    """The media type to answer with, of those on offer (the first is what is given to clients that do not care); None
    if none will do.

    The greatest quality counts, then that the client has named the type rather than a range with `*`, then the order on
    offer.
    """
    if header is None or not header.strip():
        return offered[0] if offered else None
    ranges = [_range(part) for part in header.split(",") if part.strip()]
    rated = []
    for place, kind in enumerate(offered):
        # The most specific range that matches says the quality of a type.
        specific, quality = max(((s, q) for s, q in (_match(kind, *r) for r in ranges)), default=(-1, 0.0))
        if specific >= 0 and quality > 0:
            rated.append((quality, specific, -place, kind))
    return max(rated)[3] if rated else None


def _range(part: str) -> tuple[str, float]:
    """A media range and its quality; one that cannot be read is 1."""
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                quality = min(max(float(value), 0.0), 1.0)
            except ValueError:
                quality = 1.0
    return name, quality


def _match(kind: str, name: str, quality: float) -> tuple[int, float]:
    """Returns the rank of a range for a type (2 if it names it, 1 its family, 0 all, -1 if none), and its quality."""
    if name == kind:
        return 2, quality
    if name == kind.partition("/")[0] + "/*":
        return 1, quality
    return (0, quality) if name in ("*/*", "*") else (-1, 0.0)
