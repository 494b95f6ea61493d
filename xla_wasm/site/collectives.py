"""The programs of the page Workers: one collective each, for some devices and a size, repeated as often as the caller
says.

`x` is set once and stays, and so does the result `y`: a run moves nothing but what the collective moves.
"""

from __future__ import annotations

from collections.abc import Callable

from ..builder import XlaBuilder
from ..dataclass import dataclass
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.shape import Shape
from ..options import Options

MOST = 8
SIZES = tuple(4**i * 1024 for i in range(1, 7))
"""Bytes of the larger of `x` and `y`: 4 KiB to 4 MiB."""
FEW = 0
"""The size of programs for a person to look at, with one value for each device."""

_Collective = Callable[[XlaBuilder, Instruction, int], Instruction]


def _ring(devices: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % devices) for i in range(devices)]


def _sum() -> Computation:
    b = XlaBuilder("sum")
    return b.Build(b.Add(b.Parameter(0, Shape("f32"), "a"), b.Parameter(1, Shape("f32"), "b")))


# Each on an array of one dimension, in one group of all devices.
_MAKE: dict[str, _Collective] = {
    "all-reduce": lambda b, x, n: b.AllReduce(x, _sum()),
    "all-gather": lambda b, x, n: b.AllGather(x, 0, n),
    "reduce-scatter": lambda b, x, n: b.ReduceScatter(x, _sum(), 0, n),
    "all-to-all": lambda b, x, n: b.AllToAll(x, 0, 0, n),
    "collective-permute": lambda b, x, n: b.CollectivePermute(x, _ring(n)),
    "collective-broadcast": lambda b, x, n: b.CollectiveBroadcast(x, ()),
}
OPCODES = tuple(_MAKE)


@dataclass(frozen=True)
class Collective:
    """A collective on `devices` devices; `size` is one of SIZES, or FEW."""

    opcode: str
    devices: int
    size: int

    @property
    def name(self) -> str:
        """The name of its file, without the ending."""
        return f"{self.opcode}-{self.devices}-{self.size}"

    @property
    def options(self) -> Options:
        """The options that it is compiled with."""
        return Options(num_replicas=self.devices, weights=("x",), state=(("y", 0),))

    def module(self) -> Module:
        """A loop around the collective; its result takes the place of `y`."""
        # Where devices do not divide the size, it is that much smaller.
        block = max(1, self.size // 4 // self.devices)
        x = Shape("f32", (block * (1 if self.opcode == "all-gather" else self.devices),))
        y = Shape("f32", (block * (1 if self.opcode == "reduce-scatter" else self.devices),))
        number = Shape("s32")
        state = Shape.tuple([number, number, x, y])

        def computation(name: str, result: Callable[[XlaBuilder, list[Instruction]], Instruction]) -> Computation:
            b = XlaBuilder(name)
            whole = b.Parameter(0, state, "state")
            return b.Build(result(b, [b.GetTupleElement(whole, i) for i in range(4)]))

        def once(b: XlaBuilder, values: list[Instruction]) -> Instruction:
            i, times, x, _ = values
            return b.Tuple([b.Add(i, b.Constant(1, "s32")), times, x, _MAKE[self.opcode](b, x, self.devices)])

        more = computation("more", lambda b, values: b.Lt(values[0], values[1]))
        b = XlaBuilder(self.opcode)
        parameters = [
            b.Parameter(i, shape, name) for i, (shape, name) in enumerate(((number, "times"), (x, "x"), (y, "y")))
        ]
        end = b.While(more, computation("once", once), b.Tuple([b.Constant(0, "s32"), *parameters]))
        return b.module(b.Tuple([b.GetTupleElement(end, 3)]))


PROGRAMS = tuple(
    Collective(opcode, n, size) for opcode in OPCODES for n in range(1, MOST + 1) for size in (FEW, *SIZES)
)
