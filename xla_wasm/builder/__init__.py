"""Building HLO by hand.

A `Builder` makes one computation, filling in defaults and inferring every shape; it takes opcodes as HLO text spells
them.

>>> b = Builder("main")
>>> x = b.parameter(0, Shape("f32", (4,)))
>>> module = b.module(b.add(x, b.multiply(x, x)))

An `XlaBuilder` is one that also has the operations of XLA's builder interface, `b.Add` and all others, with their
broadcasts.
"""

from __future__ import annotations

from .computation import Builder, module, scalar_computation
from .xla import XlaBuilder

__all__ = ["Builder", "XlaBuilder", "module", "scalar_computation"]
