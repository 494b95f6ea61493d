"""`XlaBuilder`: the operations of XLA's builder interface by their own names."""

from __future__ import annotations

from ..errors import VerifyError
from ..hlo.ir import Computation, Instruction
from .collectives import Collectives
from .elementwise import Elementwise
from .movement import Movement
from .products import Products
from .reductions import Reductions
from .structure import Structure


class XlaBuilder(Elementwise, Movement, Reductions, Products, Structure, Collectives):
    """Makes a computation with the operations of XLA's builder interface, `Abs` to `Xor`.

    Every call infers the shape of its result. Binary operations broadcast a scalar, dimensions of size 1, and an
    operand of lower rank whose `broadcast_dimensions` are given; HLO broadcasts nothing by itself, so instructions are
    inserted for it. An error is raised by the call that caused it and begins with the file and line of that call.

    >>> b = XlaBuilder("axpy")
    >>> a, x, y = b.Parameter(0, Shape("f32")), b.Parameter(1, Shape("f32", (4,))), b.Parameter(2, Shape("f32", (4,)))
    >>> artifact = xla_wasm.compile(b.module(b.Add(b.Mul(a, x), y)))
    """

    def Build(self, root: Instruction | None = None) -> Computation:
        """The computation, which returns `root`, the last value if not given; `module` gives a module that has it as
        its entry."""
        return self.build(root)

    def build(self, root: Instruction | None = None) -> Computation:
        """As Build."""
        if root is not None:
            self._check("the root", [root])
        if self._numbers != set(range(len(self._numbers))):
            raise VerifyError(
                f"computation '{self.name}': its parameters are numbered {sorted(self._numbers)}, not from 0 on"
            )
        return super().build(root)


__all__ = ["XlaBuilder"]
