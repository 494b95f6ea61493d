"""The plan of a Fourier transform of one length, as `runtime_c/fft.h` takes it."""

from __future__ import annotations

from ...dataclass import dataclass
from ...hlo.ir import Instruction

TABLE = "xla_wasm.fft_table"
"""The custom call that makes the table of a plan."""

LARGEST_RADIX = 31


@dataclass(frozen=True, slots=True)
class FftPlan:
    """A transform of `n` complex numbers: by the factors of n, or of the length `m` of a convolution if that is not 0.

    With `pairs` they stand for 2n real numbers.
    """

    n: int
    m: int
    factors: tuple[int, ...]
    pairs: bool = False

    @property
    def words(self) -> list[int]:
        return [int(self.pairs), self.n, self.m, len(self.factors), *self.factors]

    @property
    def points(self) -> int:
        """The numbers that a sequence takes while it is transformed."""
        return (self.m or self.n) + 1

    @property
    def table_size(self) -> int:
        """Elements of the table of roots."""
        size = self.n + 1 if self.pairs else 0
        rest = self.m or self.n
        if self.m:
            size += self.n + self.m
        for r in self.factors:
            rest //= r
            size += (r - 1) * rest + (r if r > 5 else 0)
        return max(1, 2 * size)


def complex_plan(n: int) -> FftPlan:
    """For n complex numbers, n > 0."""
    factors = _factors(n)
    if factors is not None:
        return FftPlan(n, 0, factors)
    # 2n - 1 points of a convolution and any more; of the lengths with few factors the shortest.
    m = min(_at_least(odd, 2 * n - 1) for odd in (1, 3, 5, 9, 15))
    found = _factors(m)
    assert found is not None
    return FftPlan(n, m, found)


def real_plan(length: int) -> FftPlan:
    """For a sequence of real numbers: of pairs, if their number is even."""
    if length % 2:
        return complex_plan(length)
    half = complex_plan(length // 2)
    return FftPlan(half.n, half.m, half.factors, True)


def _at_least(odd: int, size: int) -> int:
    """odd * 4 * 2**k, not below `size`."""
    length = 4 * odd
    while length < size:
        length *= 2
    return length


def _factors(n: int) -> tuple[int, ...] | None:
    """Fours first, for their passes are the best in vectors; None if a prime factor is too large."""
    found = []
    for r in (4, 2, 3, 5, *range(7, LARGEST_RADIX + 1, 2)):
        while n % r == 0:
            found.append(r)
            n //= r
    return tuple(found) if n == 1 else None


def plans(x: Instruction) -> list[FftPlan]:
    """The plan of each transformed dimension."""
    *others, last = x.attrs["fft_length"]
    real = x.attrs["fft_type"] in ("RFFT", "IRFFT")
    return [complex_plan(length) for length in others] + [real_plan(last) if real else complex_plan(last)]
