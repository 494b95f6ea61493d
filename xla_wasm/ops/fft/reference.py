"""NumPy semantics of the Fourier transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...hlo.ir import Instruction
from ..dtypes import Value, wide


def _fft(instr: Instruction, operands: list[Value], call: Any) -> Value:
    x, lengths = wide(operands[0]), instr.attrs["fft_length"]
    if 0 in instr.shape.dimensions or 0 in x.shape:
        return np.zeros(instr.shape.dimensions, np.complex128)
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    transform: Any = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[
        instr.attrs["fft_type"]
    ]
    return transform(x, lengths, axes)


EVALUATE: dict[str, Callable[[Instruction, list[Value], Any], Value]] = {"fft": _fft}
