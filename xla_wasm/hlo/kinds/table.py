"""The table of kinds, by the names that op records give them."""

from __future__ import annotations

from . import devices, dimensions, options, plain
from .kind import Kind

KINDS: dict[str, Kind] = {**plain.KINDS, **dimensions.KINDS, **devices.KINDS, **options.KINDS}
