"""Fourier transforms as calls of `runtime_c/fft.h`, one for each dimension."""

from __future__ import annotations

from math import prod

from ...hlo.ir import Instruction
from ...hlo.types import REAL_OF, TYPES
from ...lowering.kernel_writer import KernelWriter
from ...lowering.source import Source
from .plan import TABLE, plans

_KINDS = {"FFT": 0, "IFFT": 1, "RFFT": 2, "IRFFT": 3}
_LINE = 64
"""Bytes that are worth fetching at once."""
_CACHED = 1 << 20
"""Bytes that a block of sequences may take."""
_SHORT = 64
"""A sequence below this length is transformed side by side with others."""


def fft_kernel(k: KernelWriter, x: Instruction) -> None:
    """The last dimension first, the others in the result; for a real result the other way round."""
    _Transform(k, x).run()


class _Transform:
    def __init__(self, k: KernelWriter, x: Instruction):
        self.k = k
        self.source = k.whole(x.operands[0])
        (self.output,) = k.outputs[x]
        self.kind = x.attrs["fft_type"]
        self.lengths = x.attrs["fft_length"]
        self.plans = plans(x)
        self.part = REAL_OF.get(self.source.dtype, self.source.dtype)
        given = map(k.whole, x.operands[1:])
        self.tables = {plan: (next(given), next(given)) for plan in dict.fromkeys(self.plans)}
        """The words and the roots of each plan."""
        inverse = self.kind in ("IFFT", "IRFFT")
        self.total = prod(self.lengths) if inverse else 1
        """The divisor of the last transform."""
        self.widths = [self.width(d) for d in range(len(self.plans))]
        points = max(plan.points * width for plan, width in zip(self.plans, self.widths))
        self.work = k.scratch(self.part, (4 * points,))

    def run(self) -> None:
        last = len(self.plans) - 1
        others = range(last)
        if self.kind == "IRFFT":
            middle = self.source
            for d in others:
                target = self.k.scratch(self.source.dtype, self.source.dims) if d == 0 else middle
                self.columns(d, target, middle, 1)
                middle = target
            self.rows(middle, self.total)
            return
        self.rows(self.source, 1 if last else self.total)
        for d in others:
            self.columns(d, self.output, self.output, self.total if d == last - 1 else 1)

    def width(self, d: int) -> int:
        """Returns the number of sequences along transformed dimension `d` that are transformed side by side."""
        plan, dims = self.plans[d], self.source.dims if self.kind == "IRFFT" else self.output.dims
        size = TYPES[self.part].bytes
        line = _LINE // (2 * size)
        axis = len(dims) - len(self.plans) + d
        if axis == len(dims) - 1:
            points = plan.m or plan.n
            alone = points >= _SHORT and points % 4 == 0
            return 1 if alone else max(1, min(line, prod(dims[:-1])))
        lanes = 16 // size
        return min(line if plan.points * line * 4 * size <= _CACHED else lanes, prod(dims[axis + 1 :]))

    def rows(self, source: Source, total: int) -> None:
        k, d = self.k, len(self.plans) - 1
        plan, table = self.tables[self.plans[d]]
        points = self.plans[d].points
        k.invoke_each(
            f"xw_fft_rows_{self.part}",
            (self.output, source, plan, table, self.work),
            *(prod(source.dims[:-1]), _KINDS[self.kind], total, self.widths[d]),
            shared=(plan, table),
            divided=(source,),
            together=self.widths[d],
            work=2 * points * points.bit_length(),
        )

    def columns(self, d: int, target: Source, source: Source, total: int) -> None:
        k, dims = self.k, source.dims
        axis = len(dims) - len(self.plans) + d
        plan, table = self.tables[self.plans[d]]
        k.b.invoke(
            f"xw_fft_columns_{self.part}",
            *(k.address(a) for a in (target, source, plan, table, self.work)),
            *(prod(dims[:axis]), prod(dims[axis + 1 :]), int(self.kind in ("IFFT", "IRFFT")), total, self.widths[d]),
        )


def table_kernel(k: KernelWriter, x: Instruction) -> None:
    """The roots of unity of a plan."""
    plan = k.whole(x.operands[0])
    (output,) = k.outputs[x]
    # A chirp is transformed in the course of it: as much memory as the table is enough.
    work = k.scratch(output.dtype, (2 * output.dims[0],))
    k.b.invoke(f"xw_fft_table_{output.dtype}", k.address(output), k.address(plan), k.address(work))


KERNELS = {"fft": fft_kernel}

ROUTINES = {TABLE: table_kernel}
"""Kernels of custom calls that expansions make."""
