"""JAX functions: `jit` compiles and runs them as `jax.jit` does, `lower` makes HLO modules of them. JAX is imported
when one is called."""

from .jitted import Jitted, Stats, jit
from .lowering import lower, mesh

__all__ = ["Jitted", "Stats", "jit", "lower", "mesh"]
